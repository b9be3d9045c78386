/* All functions of malloc's family on short and long blocks, and from one to the other. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                             \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void fill(void *block, size_t len, int mark)
{
    memset(block, mark, len);
}

static int filled(const void *block, size_t len, int mark)
{
    const unsigned char *at = block;
    /* Of long ones a part: the first and last bytes of pages among them. */
    for (size_t i = 0; i < len; i += len < 200000 ? 1 : 1023)
        if (at[i] != (unsigned char)mark)
            return 0;
    return 1;
}

static void *churn(void *number)
{
    unsigned seed = (unsigned)(uintptr_t)number;
    void *held[16] = {0};
    size_t len[16] = {0};
    for (int step = 0; step < 5000; step++) {
        int which = rand_r(&seed) % 16;
        CHECK(filled(held[which], len[which] < 64 ? len[which] : 64, which));
        len[which] = (size_t)rand_r(&seed) % 100000;
        held[which] = realloc(held[which], len[which] + 1);
        CHECK(held[which] && malloc_usable_size(held[which]) > len[which]);
        fill(held[which], len[which], which);
    }
    for (int which = 0; which < 16; which++)
        free(held[which]);
    return NULL;
}

int main(void)
{
    const size_t lengths[] = {0, 1, 100, 16383, 16384, 16385, 100000, 33 << 20};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t len = lengths[i];
        void *block = malloc(len);
        CHECK(block && malloc_usable_size(block) >= len);
        fill(block, len, 3);
        for (size_t j = 0; j < sizeof lengths / sizeof *lengths; j++) {
            size_t other = lengths[j] + 1;
            size_t both = len < other ? len : other;
            block = realloc(block, other);
            CHECK(block && filled(block, both, 3));
            block = realloc(block, len + 1);
            CHECK(block && filled(block, both, 3));
            fill(block, len, 3);
        }
        free(block);
        block = calloc(len + 1, 1);
        CHECK(block && filled(block, len, 0));
        free(block);
        for (size_t align = 8; align <= 1 << 21; align *= 2) {
            CHECK(posix_memalign(&block, align, len + 1) == 0);
            CHECK((uintptr_t)block % align == 0);
            fill(block, len, 4);
            free(block);
            block = aligned_alloc(align, (len / align + 1) * align);
            CHECK(block && (uintptr_t)block % align == 0);
            free(block);
        }
    }
    void *none;
    CHECK(posix_memalign(&none, 24, 100) == EINVAL);
    volatile size_t most = SIZE_MAX / 2;
    CHECK(malloc(most) == NULL && calloc(most, 4) == NULL);
    CHECK(realloc(malloc(100000), 0) == NULL);
    void *kept = malloc(100000);
    fill(kept, 100000, 7);
    errno = 0;
    CHECK(realloc(kept, most) == NULL && errno == ENOMEM);
    void *beside = malloc(100000);
    fill(beside, 100000, 8);
    CHECK(filled(kept, 100000, 7));
    free(beside);
    free(kept);

    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, churn, (void *)i) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);

    char *block = malloc(200000);
    fill(block, 200000, 5);
    pid_t child = fork();
    if (child == 0) {
        CHECK(filled(block, 200000, 5));
        fill(block, 200000, 6);
        block = realloc(block, 300000);
        CHECK(filled(block, 200000, 6));
        free(block);
        churn((void *)9);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(filled(block, 200000, 5));
    free(block);

    FILE *maps = fopen("/proc/self/maps", "r");
    char *line = NULL;
    size_t room = 0;
    int found = 0;
    while (getline(&line, &room, maps) > 0)
        found |= strstr(line, "memfd:limic") != NULL;
    free(line);
    fclose(maps);
    puts(found ? "long blocks lie in memory of limic" : "no block lies in memory of limic");
    return 0;
}
