/* One thread waits on several endpoints: what comes to any of them wakes it. */
#include "check.h"
#include <pthread.h>

enum { ENDPOINTS = 3, ROUNDS = 60 };

static unsigned char addresses[ENDPOINTS][LIMIC_ADDRESS_LENGTH];

/* Answers: waits for what the others are told to send next. */
static void *sender(void *unused)
{
    limic_endpoint own;
    uint32_t peers[ENDPOINTS];
    OK(limic_endpoint_open(NULL, &own));
    for (int at = 0; at < ENDPOINTS; at++)
        OK(limic_connect(own, addresses[at], LIMIC_ADDRESS_LENGTH, &peers[at]));
    for (int round = 0; round < ROUNDS; round++) {
        char go;
        OK(limic_send(own, &round, sizeof round, peers[round % ENDPOINTS], 1, 1));
        OK(limic_recv(own, &go, 1, peers[round % ENDPOINTS], 2, 1, NULL));
    }
    OK(limic_endpoint_close(own));
    return unused;
}

/* Takes turns of an endpoint of any thread, and what comes to it. */
static int stop;

static void *beside(void *endpoint)
{
    while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST))
        OK(limic_sleep(*(limic_endpoint *)endpoint, 1000000));
    return NULL;
}

/* A look at one request ends another one too: the wait tells it. */
static void ended_by_another_look(void)
{
    limic_endpoint one, other;
    limic_request requests[2], send;
    unsigned char address[LIMIC_ADDRESS_LENGTH];
    uint32_t peer;
    char bytes[2];
    int done = 0, index = 7;
    OK(limic_endpoint_open(NULL, &one));
    OK(limic_endpoint_open(NULL, &other));
    OK(limic_address(one, address, sizeof address));
    OK(limic_connect(other, address, sizeof address, &peer));
    for (uint32_t at = 0; at < 2; at++)
        OK(limic_irecv(one, &bytes[at], 1, LIMIC_ANY_SOURCE, at, 1, &requests[at]));
    OK(limic_test(&requests[0], &done, NULL));
    CHECK(!done);
    OK(limic_isend(other, "a", 1, peer, 0, 1, &send));
    for (done = 0; !done;) {
        int second;
        OK(limic_progress(other, NULL));
        OK(limic_test(&requests[1], &second, NULL));
        CHECK(!second);
        OK(limic_is_done(&requests[0], &done));
    }
    OK(limic_wait_endpoints(1, &one, 20000000, &index));
    CHECK(index == 0);
    OK(limic_test(&requests[0], &done, NULL));
    CHECK(done);
    OK(limic_wait(&send, LIMIC_FOREVER, NULL));
    /* Told already. */
    GIVES(LIMIC_ERR_TIMEOUT, limic_wait_endpoints(1, &one, 0, &index));
    OK(limic_endpoint_close(other));
    OK(limic_endpoint_close(one));
}

int main(void)
{
    /* Nobody looks by itself after some time: a wake-up that is lost hangs. */
    CHECK(setenv("TEST_LIMIC_WAKE_UPS", "1", 1) == 0);
    limic_endpoint endpoints[ENDPOINTS];
    limic_request requests[ENDPOINTS];
    limic_options options = LIMIC_OPTIONS_INIT;
    limic_status status = LIMIC_STATUS_INIT;
    pthread_t thread, other;
    int data[ENDPOINTS], index = 7;
    for (int at = 0; at < ENDPOINTS; at++) {
        options.threads = at == 2 ? LIMIC_THREADS_MULTIPLE : LIMIC_THREADS_OWNER;
        OK(limic_endpoint_open(&options, &endpoints[at]));
        OK(limic_address(endpoints[at], addresses[at], LIMIC_ADDRESS_LENGTH));
        OK(limic_irecv(endpoints[at], &data[at], sizeof data[at], LIMIC_ANY_SOURCE, 1, 1,
                       &requests[at]));
    }
    GIVES(LIMIC_ERR_INVALID, limic_wait_endpoints(0, endpoints, 0, &index));
    GIVES(LIMIC_ERR_NULL, limic_wait_endpoints(1, NULL, 0, &index));
    GIVES(LIMIC_ERR_NULL, limic_wait_endpoints(1, endpoints, 0, NULL));
    GIVES(LIMIC_ERR_TIMEOUT, limic_wait_endpoints(ENDPOINTS, endpoints, 20000000, &index));
    CHECK(index == -1);

    CHECK(pthread_create(&other, NULL, beside, &endpoints[2]) == 0);
    CHECK(pthread_create(&thread, NULL, sender, NULL) == 0);
    for (int round = 0; round < ROUNDS;) {
        int done = 0, at;
        for (at = 0; at < ENDPOINTS; at++) {
            OK(limic_test(&requests[at], &done, &status));
            if (done)
                break;
        }
        if (!done) {
            OK(limic_wait_endpoints(ENDPOINTS, endpoints, LIMIC_FOREVER, &index));
            CHECK(index >= 0 && index < ENDPOINTS);
            continue;
        }
        CHECK(at == round % ENDPOINTS && data[at] == round);
        OK(limic_send(endpoints[at], "g", 1, status.source, 2, 1));
        OK(limic_irecv(endpoints[at], &data[at], sizeof data[at], LIMIC_ANY_SOURCE, 1, 1,
                       &requests[at]));
        round++;
    }
    CHECK(pthread_join(thread, NULL) == 0);
    __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
    CHECK(pthread_join(other, NULL) == 0);
    for (int at = 0; at < ENDPOINTS; at++)
        OK(limic_endpoint_close(endpoints[at]));
    ended_by_another_look();
    GIVES(LIMIC_ERR_ENDPOINT, limic_wait_endpoints(ENDPOINTS, endpoints, 0, &index));
    return 0;
}
