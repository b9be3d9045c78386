/* Forks beside a thread that allocates with a file locked, and one that locks all files. Before
 * there is a child, the C library locks the list of files, for which the latter has to be done. */
#include "open_files.h"
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEN = 100000, LONG = 40 << 20 };

static atomic_int stop, wrong;
static FILE *file;

static void *allocate(void *unused)
{
    while (!stop) {
        flockfile(file);
        char *volatile block = malloc(LEN);
        char *volatile own = malloc(LONG);
        memset(block, 7, LEN);
        own[LEN] = 7;
        wrong += malloc_usable_size(block) < LEN || malloc_usable_size(own) < LONG;
        block = realloc(block, 3 * LEN);
        wrong += block[0] != 7 || block[LEN - 1] != 7 || own[LEN] != 7;
        free(own);
        free(block);
        funlockfile(file);
    }
    return unused;
}

static void *flush(void *unused)
{
    while (!stop)
        fflush(NULL);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    int status;
    /* Ends a program that waits for ever. */
    alarm(60);
    file = tmpfile();
    if (file == NULL || pthread_create(&threads[0], NULL, allocate, NULL) != 0
        || pthread_create(&threads[1], NULL, flush, NULL) != 0)
        return 1;
    for (int times = 0; times < 300; times++) {
        pid_t child = fork();
        if (child == 0) {
            char *volatile block = malloc(LEN);
            char *volatile own = malloc(LONG);
            own[LEN] = block[0] = 1;
            block = realloc(block, 3 * LEN);
            free(own);
            free(block);
            _exit(block == NULL);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            return 1;
    }
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    /* What was given back during a fork is not kept: each long block has a descriptor. */
    if (open_files() > 20 || wrong)
        return 1;
    puts("each fork has ended");
    return 0;
}
