/* A parent hands a child 8 MiB by one copy:
 *   cc bulk.c $(pkg-config --cflags --libs limic2) -o bulk; ./bulk */
#include <limic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH (8u << 20)

int main(void)
{
    int channel[2];
    char *data = malloc(LENGTH);
    limic_user descriptor;
    if (data == NULL || pipe(channel) != 0)
        return 1;

    pid_t child = fork();
    if (child == 0) {
        /* The descriptor comes by any channel; the bytes come by LiMIC2. */
        int fd = limic_open();
        if (fd < 0 || read(channel[0], &descriptor, sizeof descriptor) != sizeof descriptor)
            return 1;
        size_t copied = limic_rx_comp(fd, data, LENGTH, &descriptor);
        printf("child: %zu bytes, the last one is '%c'\n", copied, data[LENGTH - 1]);
        limic_close(fd);
        return copied == LENGTH ? 0 : 1;
    }

    memset(data, 'x', LENGTH);
    int fd = limic_open(), status = 1;
    if (fd < 0 || limic_tx_init(fd, data, LENGTH, &descriptor) != LENGTH)
        return 1;
    if (write(channel[1], &descriptor, sizeof descriptor) != sizeof descriptor)
        return 1;
    /* Prepared means prepared: leave the buffer alone, and LiMIC2 open, until the child has read
     * it. */
    waitpid(child, &status, 0);
    limic_close(fd);
    free(data);
    return status == 0 ? 0 : 1;
}
