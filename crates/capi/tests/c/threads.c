/* Whose endpoint it is: other threads, handing on, a lock around calls, a signal handler, a forked
 * child. */
#include "check.h"
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static limic_endpoint shared;
static unsigned char address[LIMIC_ADDRESS_LENGTH];

static void *stranger(void *unused)
{
    GIVES(LIMIC_ERR_THREAD, limic_progress(shared, NULL));
    GIVES(LIMIC_ERR_THREAD, limic_endpoint_adopt(shared));
    GIVES(LIMIC_ERR_THREAD, limic_endpoint_release(shared));
    GIVES(LIMIC_ERR_THREAD, limic_endpoint_close(shared));
    CHECK(strstr(limic_last_error(), "limic_endpoint_adopt") != NULL);
    return unused;
}

static void *heir(void *unused)
{
    uint32_t me;
    char byte = 0;
    OK(limic_endpoint_adopt(shared));
    OK(limic_endpoint_adopt(shared));
    OK(limic_myself(shared, &me));
    OK(limic_recv(shared, &byte, 1, me, 1, 1, NULL));
    CHECK(byte == 'h');
    OK(limic_endpoint_release(shared));
    return unused;
}

static void run(void *(*body)(void *))
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void ownership(void)
{
    uint32_t me;
    OK(limic_endpoint_open(NULL, &shared));
    run(stranger);
    OK(limic_myself(shared, &me));
    OK(limic_send(shared, "h", 1, me, 1, 1));
    OK(limic_endpoint_release(shared));
    GIVES(LIMIC_ERR_THREAD, limic_progress(shared, NULL));
    run(heir);
    OK(limic_endpoint_adopt(shared));
    OK(limic_endpoint_close(shared));
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *turns(void *unused)
{
    uint32_t me;
    for (int round = 0; round < 2000; round++) {
        char byte = 0;
        CHECK(pthread_mutex_lock(&lock) == 0);
        OK(limic_myself(shared, &me));
        OK(limic_send(shared, "t", 1, me, 2, 1));
        OK(limic_recv(shared, &byte, 1, me, 2, 1, NULL));
        CHECK(pthread_mutex_unlock(&lock) == 0);
        CHECK(byte == 't');
    }
    return unused;
}

/* Sends what the other thread waits for, once that one is found inside of its call. */
static void *intruder(void *unused)
{
    limic_endpoint own;
    uint32_t peer;
    int code;
    while ((code = limic_progress(shared, NULL)) == LIMIC_OK)
        ;
    CHECK(code == LIMIC_ERR_THREAD);
    OK(limic_endpoint_open(NULL, &own));
    OK(limic_connect(own, address, sizeof address, &peer));
    OK(limic_send(own, "i", 1, peer, 3, 1));
    OK(limic_endpoint_close(own));
    return unused;
}

static void *open_and_end(void *unused)
{
    uint32_t me;
    OK(limic_endpoint_open(NULL, &shared));
    OK(limic_myself(shared, &me));
    OK(limic_send(shared, "e", 1, me, 4, 1));
    return unused;
}

/* What a thread leaves behind that ends is anybody's to take, with what it held. */
static void ended(void)
{
    pthread_t thread;
    uint32_t me;
    char byte = 0;
    CHECK(pthread_create(&thread, NULL, open_and_end, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    GIVES(LIMIC_ERR_THREAD, limic_endpoint_close(shared));
    OK(limic_endpoint_adopt(shared));
    OK(limic_myself(shared, &me));
    OK(limic_recv(shared, &byte, 1, me, 4, 1, NULL));
    CHECK(byte == 'e');
    OK(limic_endpoint_close(shared));
    /* The same if it was closed and opened again meanwhile. */
    CHECK(pthread_create(&thread, NULL, open_and_end, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    OK(limic_endpoint_adopt(shared));
    OK(limic_endpoint_close(shared));
    GIVES(LIMIC_ERR_ENDPOINT, limic_endpoint_adopt(shared));
}

static pthread_key_t key;

static void once_more(void *unused)
{
    (void)unused;
    OK(limic_progress(shared, NULL));
    OK(limic_endpoint_release(shared));
    OK(limic_endpoint_adopt(shared));
    OK(limic_progress(shared, NULL));
}

static void *open_and_end_late(void *unused)
{
    CHECK(pthread_setspecific(key, &key) == 0);
    return open_and_end(unused);
}

/* Not the owner, unless it has got that one's number. */
static void *without_adopting(void *unused)
{
    int code = limic_progress(shared, NULL);
    CHECK(code == LIMIC_OK || code == LIMIC_ERR_THREAD);
    return unused;
}

/* The same if the thread calls once more when its end has begun, or the next one calls. */
static void ended_late(void)
{
    uint32_t me;
    char byte = 0;
    CHECK(pthread_key_create(&key, once_more) == 0);
    for (int which = 0; which < 2; which++) {
        run(which == 0 ? open_and_end_late : open_and_end);
        run(without_adopting);
        OK(limic_endpoint_adopt(shared));
        OK(limic_myself(shared, &me));
        OK(limic_recv(shared, &byte, 1, me, 4, 1, NULL));
        CHECK(byte == 'e');
        OK(limic_endpoint_close(shared));
    }
}

static limic_endpoint late;

static void close_late(void) { OK(limic_endpoint_close(late)); }

static int readable(int fd)
{
    struct pollfd wait = {fd, POLLIN, 0};
    return poll(&wait, 1, 0);
}

/* A thread polls, and calls of others take what it would be woken for: they wake it. */
static void polled(void)
{
    limic_options options = LIMIC_OPTIONS_INIT;
    limic_request request;
    uint32_t me;
    int fd, armed = 0;
    char byte = 0;
    options.threads = LIMIC_THREADS_SERIALIZED;
    OK(limic_endpoint_open(&options, &shared));
    OK(limic_wake_fd(shared, &fd));
    OK(limic_myself(shared, &me));
    OK(limic_irecv(shared, &byte, 1, me, 1, 1, &request));
    for (int how = 0; how < 2; how++) {
        /* After a pause it is readable once more, for a look around. */
        do {
            OK(limic_arm(shared, &armed));
        } while (!armed || readable(fd));
        if (how == 0)
            OK(limic_sleep(shared, 1000000));
        else
            OK(limic_send(shared, "p", 1, me, 1, 1));
        CHECK(readable(fd));
    }
    OK(limic_wait(&request, 0, NULL));
    CHECK(byte == 'p');
    OK(limic_endpoint_close(shared));
}

static void serialized(void)
{
    limic_options options = LIMIC_OPTIONS_INIT;
    pthread_t threads[3];
    char byte = 0;
    int code;
    options.threads = LIMIC_THREADS_SERIALIZED;
    OK(limic_endpoint_open(&options, &shared));
    for (int at = 0; at < 3; at++)
        CHECK(pthread_create(&threads[at], NULL, turns, NULL) == 0);
    for (int at = 0; at < 3; at++)
        CHECK(pthread_join(threads[at], NULL) == 0);
    OK(limic_address(shared, address, sizeof address));
    CHECK(pthread_create(&threads[0], NULL, intruder, NULL) == 0);
    /* The intruder may be inside just now; it finds this call there in the end. */
    while ((code = limic_recv(shared, &byte, 1, LIMIC_ANY_SOURCE, 3, 1, NULL)) == LIMIC_ERR_THREAD)
        ;
    CHECK(code == LIMIC_OK && byte == 'i');
    CHECK(pthread_join(threads[0], NULL) == 0);
    OK(limic_endpoint_close(shared));
}

static volatile sig_atomic_t busy;

static void handler(int number)
{
    const char *before = limic_last_error();
    char text[256];
    (void)number;
    if (limic_progress(shared, NULL) != LIMIC_ERR_BUSY)
        return;
    /* To keep a text takes memory, and this may have interrupted malloc. */
    strncpy(text, before, sizeof text - 1);
    text[sizeof text - 1] = 0;
    if (limic_endpoint_release(shared) == LIMIC_ERR_BUSY
        && limic_endpoint_close(shared) == LIMIC_ERR_BUSY
        && limic_world_finalize(shared) == LIMIC_ERR_BUSY
        && limic_world_abort(shared, 1, "in a handler") == LIMIC_ERR_BUSY)
        busy = limic_last_error() == before && strncmp(text, before, sizeof text - 1) == 0 ? 1 : -1;
}

static void signals(void)
{
    struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    limic_request request;
    char byte;
    OK(limic_endpoint_open(NULL, &shared));
    OK(limic_irecv(shared, &byte, 1, LIMIC_ANY_SOURCE, 1, 1, &request));
    CHECK(signal(SIGALRM, handler) != SIG_ERR);
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    while (!busy)
        GIVES(LIMIC_ERR_TIMEOUT, limic_wait(&request, 20000000, NULL));
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(busy == 1);
    OK(limic_endpoint_close(shared));
}

static void forks(void)
{
    limic_endpoint own;
    limic_request request;
    uint32_t me;
    char byte = 0;
    int status;
    OK(limic_endpoint_open(NULL, &shared));
    OK(limic_irecv(shared, &byte, 1, LIMIC_ANY_SOURCE, 1, 1, &request));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        GIVES(LIMIC_ERR_FORKED, limic_progress(shared, NULL));
        GIVES(LIMIC_ERR_FORKED, limic_wait(&request, 0, NULL));
        OK(limic_endpoint_open(NULL, &own));
        GIVES(LIMIC_ERR_FORKED, limic_endpoint_close(shared));
        OK(limic_myself(own, &me));
        OK(limic_send(own, "c", 1, me, 1, 1));
        OK(limic_recv(own, &byte, 1, me, 1, 1, NULL));
        CHECK(byte == 'c');
        OK(limic_endpoint_close(own));
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    /* The parent's goes on. */
    OK(limic_myself(shared, &me));
    OK(limic_send(shared, "p", 1, me, 1, 1));
    OK(limic_wait(&request, LIMIC_FOREVER, NULL));
    CHECK(byte == 'p');
    OK(limic_endpoint_close(shared));
}

int main(void)
{
    ownership();
    ended();
    ended_late();
    serialized();
    polled();
    signals();
    forks();
    /* What runs at the end of the process may close what its thread has opened. */
    OK(limic_endpoint_open(NULL, &late));
    CHECK(atexit(close_late) == 0);
    return 0;
}
