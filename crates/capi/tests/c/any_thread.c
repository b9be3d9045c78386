/* Any thread calls at any time: messages around, calls that wait while others go on, closing while
 * a thread waits, and a signal handler. */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 2000 };

static limic_endpoint shared;
static uint32_t me;
static int waiting;

static int wait_now(void) { return __atomic_load_n(&waiting, __ATOMIC_SEQ_CST); }

/* Each of them waits for what the thread beside it sends. */
static void *around(void *number)
{
    uint32_t own = (uint32_t)(uintptr_t)number, next = (own + 1) % THREADS, data = 0;
    limic_status status = LIMIC_STATUS_INIT;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        OK(limic_send(shared, &round, sizeof round, me, next, 1));
        if (round % 3 == 0) {
            limic_request request;
            OK(limic_irecv(shared, &data, sizeof data, me, own, 1, &request));
            OK(limic_wait(&request, LIMIC_FOREVER, &status));
        } else if (round % 3 == 1) {
            limic_message message;
            OK(limic_mprobe(shared, me, own, 1, LIMIC_FOREVER, &message, &status));
            OK(limic_mrecv(&message, &data, sizeof data, &status));
        } else {
            OK(limic_recv(shared, &data, sizeof data, me, own, 1, &status));
        }
        CHECK(data == round && status.tag == own);
    }
    return NULL;
}

/* These sleep, all of them, until each gets its message. */
static void *sleeper(void *number)
{
    uint32_t own = (uint32_t)(uintptr_t)number;
    limic_request requests[2];
    char bytes[2] = {0, 0};
    int index = 7;
    OK(limic_irecv(shared, &bytes[0], 1, LIMIC_ANY_SOURCE, own, 2, &requests[0]));
    OK(limic_irecv(shared, &bytes[1], 1, LIMIC_ANY_SOURCE, own + 100, 2, &requests[1]));
    GIVES(LIMIC_ERR_TIMEOUT, limic_wait(&requests[0], 1000000, NULL));
    __atomic_fetch_add(&waiting, 1, __ATOMIC_SEQ_CST);
    OK(limic_wait_any(2, requests, LIMIC_FOREVER, &index, NULL));
    CHECK(bytes[index] == (index == 1 ? 's' : 't'));
    OK(limic_wait_all(2, requests, LIMIC_FOREVER, NULL));
    CHECK(bytes[0] == 't' && bytes[1] == 's');
    return NULL;
}

static void *receiver(void *unused)
{
    char byte = 0;
    OK(limic_sendrecv(shared, "w", 1, me, 5, &byte, 1, LIMIC_ANY_SOURCE, 3, 3, NULL));
    CHECK(byte == 'r');
    return unused;
}

static void start(pthread_t *threads, int count, void *(*body)(void *))
{
    for (int at = 0; at < count; at++)
        CHECK(pthread_create(&threads[at], NULL, body, (void *)(uintptr_t)at) == 0);
}

static void join_all(pthread_t *threads, int count)
{
    for (int at = 0; at < count; at++)
        CHECK(pthread_join(threads[at], NULL) == 0);
}

/* What is cancelled ends, also for a thread that sleeps. */
static void *cancelled(void *given)
{
    limic_request *request = (limic_request *)given;
    GIVES(LIMIC_ERR_TIMEOUT, limic_wait(request, 1000000, NULL));
    __atomic_fetch_add(&waiting, 1, __ATOMIC_SEQ_CST);
    GIVES(LIMIC_ERR_CANCELLED, limic_wait(request, LIMIC_FOREVER, NULL));
    return NULL;
}

static void cancelled_by_another(void)
{
    pthread_t thread;
    char byte;
    limic_request request, copy;
    OK(limic_irecv(shared, &byte, 1, me, 1, 4, &request));
    copy = request;
    waiting = 0;
    CHECK(pthread_create(&thread, NULL, cancelled, &request) == 0);
    while (wait_now() == 0)
        OK(limic_sleep(shared, 1000000));
    /* So that it sleeps, mostly. */
    GIVES(LIMIC_ERR_TIMEOUT, limic_probe(shared, me, 2, 4, 20000000, NULL));
    OK(limic_cancel(&copy));
    CHECK(pthread_join(thread, NULL) == 0);
}

/* Closing waits for nobody: it says that a thread is in its way. */
static void closed_by_another(void)
{
    pthread_t thread;
    char byte;
    start(&thread, 1, receiver);
    /* This comes from the call that waits then. */
    OK(limic_recv(shared, &byte, 1, me, 5, 3, NULL));
    GIVES(LIMIC_ERR_THREAD, limic_endpoint_close(shared));
    CHECK(strstr(limic_last_error(), "waits") != NULL);
    OK(limic_send(shared, "r", 1, me, 3, 3));
    join_all(&thread, 1);
}

static int busy, wrong, stop;

static int load(const int *word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }

static void handler(int number)
{
    int code = limic_progress(shared, NULL);
    (void)number;
    if (code != LIMIC_OK)
        __atomic_store_n(code == LIMIC_ERR_BUSY ? &busy : &wrong, 1, __ATOMIC_SEQ_CST);
}

static void *interrupted(void *unused)
{
    while (!load(&stop))
        OK(limic_progress(shared, NULL));
    return unused;
}

/* A handler may find its own thread inside, and is not left waiting for it. */
static void in_a_handler(void)
{
    pthread_t thread;
    CHECK(signal(SIGALRM, handler) != SIG_ERR);
    CHECK(raise(SIGALRM) == 0 && !load(&busy));
    start(&thread, 1, interrupted);
    for (int times = 0; times < 100000 && !load(&busy); times++)
        CHECK(pthread_kill(thread, SIGALRM) == 0);
    __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
    join_all(&thread, 1);
    CHECK(!load(&wrong));
#ifndef __SANITIZE_THREAD__ /* It keeps signals off until a call of the system. */
    CHECK(load(&busy));
#endif
}

int main(void)
{
    /* Nobody looks by itself after some time: a wake-up that is lost hangs. */
    CHECK(setenv("TEST_LIMIC_WAKE_UPS", "1", 1) == 0);
    pthread_t threads[THREADS];
    unsigned char address[LIMIC_ADDRESS_LENGTH];
    limic_options options = LIMIC_OPTIONS_INIT;
    limic_endpoint other;
    uint32_t peer;

    options.threads = 3;
    GIVES(LIMIC_ERR_INVALID, limic_endpoint_open(&options, &shared));
    options.threads = LIMIC_THREADS_MULTIPLE;
    OK(limic_endpoint_open(&options, &shared));
    OK(limic_myself(shared, &me));

    start(threads, THREADS, around);
    join_all(threads, THREADS);

    /* From another endpoint, so that somebody has to ring. */
    OK(limic_endpoint_open(NULL, &other));
    OK(limic_address(shared, address, sizeof address));
    OK(limic_connect(other, address, sizeof address, &peer));
    start(threads, THREADS, sleeper);
    while (wait_now() < THREADS)
        OK(limic_sleep(shared, 1000000));
    for (int half = 0; half < 2; half++)
        for (uint32_t at = THREADS; at-- > 0;)
            OK(limic_send(other, half == 0 ? "s" : "t", 1, peer, half == 0 ? at + 100 : at, 2));
    join_all(threads, THREADS);
    OK(limic_endpoint_close(other));

    cancelled_by_another();
    closed_by_another();

    in_a_handler();
    OK(limic_endpoint_release(shared));
    OK(limic_endpoint_adopt(shared));
    OK(limic_endpoint_close(shared));
    GIVES(LIMIC_ERR_ENDPOINT, limic_progress(shared, NULL));
    return 0;
}
