/* Threads that are to be cancelled allocate long blocks and give them back with a lock in hand:
 * none of that is a cancellation point. */
#include "open_files.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LONG = 40 << 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *allocate(void *block)
{
    pthread_cancel(pthread_self());
    pthread_mutex_lock(&lock);
    free(block);
    char *volatile other = malloc(LONG);
    other[0] = 1;
    free(other);
    pthread_mutex_unlock(&lock);
    pthread_testcancel();
    return NULL;
}

int main(void)
{
    int files = 0;
    /* Ends a program that waits for ever. */
    alarm(60);
    for (int times = 0; times < 10; times++) {
        pthread_t thread;
        void *ended;
        char *volatile block = malloc(LONG);
        if (pthread_create(&thread, NULL, allocate, block) != 0 || pthread_join(thread, &ended) != 0
            || ended != PTHREAD_CANCELED)
            return 1;
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
        if (times == 0)
            files = open_files();
    }
    if (open_files() != files)
        return 1;
    puts("each thread was cancelled without the lock");
    return 0;
}
