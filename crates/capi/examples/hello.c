/* Every rank greets the next one:
 *   cc hello.c $(pkg-config --cflags --libs limic) -o hello; limic run -n 4 ./hello */
#include <limic.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int code)
{
    if (code != LIMIC_OK) {
        fprintf(stderr, "hello: %s: %s\n", limic_strerror(code), limic_last_error());
        exit(1);
    }
}

int main(void)
{
    limic_endpoint world;
    limic_status status = LIMIC_STATUS_INIT;
    uint32_t rank, size;
    char greeting[64], inbox[64];

    check(limic_world_open(NULL, &world));
    check(limic_world_rank(world, &rank));
    check(limic_world_size(world, &size));

    int length = snprintf(greeting, sizeof greeting, "hello from rank %u", rank);
    check(limic_sendrecv(world, greeting, (size_t)length, (rank + 1) % size, 7,
                         inbox, sizeof inbox, (rank + size - 1) % size, 7, 0, &status));
    printf("rank %u of %u got '%.*s' from rank %u\n", rank, size, (int)status.length, inbox, status.source);
    check(limic_world_finalize(world));
    return 0;
}
