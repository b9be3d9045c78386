/* realloc by what the heap calls itself: here read, which a tracer wraps as well. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LEN = 100000 };

/* Volatile: malloc is declared as a function that calls nothing of its caller's. */
static unsigned char *volatile block;
static volatile int armed, seen;

ssize_t read(int fd, void *into, size_t room)
{
    if (armed) {
        unsigned char *longer;
        armed = 0;
        seen = 1;
        errno = 0;
        longer = realloc(block, 2 * LEN);
        if (longer != NULL)
            block = longer;
        else if (errno != ENOMEM)
            seen = -1;
    }
    return syscall(SYS_read, fd, into, room);
}

int main(void)
{
    block = malloc(LEN);
    if (block == NULL)
        return 1;
    memset(block, 3, LEN);
    /* Whoever makes room for this reads a file of the system first. */
    armed = 1;
    void *other = malloc(40 << 20);
    armed = 0;
    for (int at = 0; at < LEN; at++)
        if (block[at] != 3) {
            fprintf(stderr, "byte %d is %d\n", at, block[at]);
            return 1;
        }
    block = realloc(block, 2 * LEN);
    if (block == NULL || block[LEN - 1] != 3)
        return 1;
    free(block);
    free(other);
    puts(seen == 1 ? "the block is whole" : seen == 0 ? "nothing was read" : "a wrong error");
    return 0;
}
