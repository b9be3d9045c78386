/* Forks beside a library that locks its own mutex for a fork, and allocates with it locked. It has
 * asked for that before any other library had its turn. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int stop, rounds, locked;

static void before(void)
{
    pthread_mutex_lock(&lock);
    locked++;
}

static void after(void) { pthread_mutex_unlock(&lock); }

static void early(void) { pthread_atfork(before, after, after); }

__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = early;

static void *allocate(void *unused)
{
    while (!stop) {
        pthread_mutex_lock(&lock);
        char *volatile block = malloc(100000);
        block[0] = 1;
        free(block);
        pthread_mutex_unlock(&lock);
        rounds++;
        sched_yield();
    }
    return unused;
}

int main(void)
{
    pthread_t thread;
    int status;
    /* Ends a program that waits for ever. */
    alarm(60);
    if (pthread_create(&thread, NULL, allocate, NULL) != 0)
        return 1;
    for (int times = 0; times < 300; times++) {
        int seen = rounds;
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            return 1;
        while (rounds == seen)
            sched_yield();
    }
    stop = 1;
    pthread_join(thread, NULL);
    puts(locked == 300 ? "each fork has ended" : "the library was not asked");
    return 0;
}
