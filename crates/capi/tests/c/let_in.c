/* Calls that wait for others let the threads of their own process in: a barrier, a first contact,
 * and the end of a region that a peer accesses. */
#include "check.h"
#include <pthread.h>

enum { LENGTH = 1 << 20 };

static void *in_barrier(void *unused)
{
    OK(limic_world_barrier(world));
    return unused;
}

/* A rank has a thread in a barrier that cannot end before the ranks' other threads have talked; and
 * then two at once, each of which counts. It is rank 1, which speaks first in every barrier. */
static void barriers(void)
{
    limic_counters before = LIMIC_COUNTERS_INIT, now = LIMIC_COUNTERS_INIT;
    uint32_t other = 1 - rank, said = 9;
    pthread_t threads[2];
    OK(limic_counters_read(world, &before));
    if (rank == 1) {
        CHECK(pthread_create(&threads[0], NULL, in_barrier, NULL) == 0);
        do
            OK(limic_counters_read(world, &now));
        while (now.sent.messages == before.sent.messages);
        OK(limic_sendrecv(world, &rank, sizeof rank, other, 1, &said, sizeof said, other, 1, 1,
                          NULL));
        CHECK(said == 0);
        CHECK(pthread_join(threads[0], NULL) == 0);
    } else {
        OK(limic_recv(world, &said, sizeof said, other, 1, 1, NULL));
        CHECK(said == 1);
        OK(limic_send(world, &rank, sizeof rank, other, 1, 1));
        OK(limic_world_barrier(world));
    }
    if (rank == 1) {
        for (int at = 0; at < 2; at++)
            CHECK(pthread_create(&threads[at], NULL, in_barrier, NULL) == 0);
        for (int at = 0; at < 2; at++)
            CHECK(pthread_join(threads[at], NULL) == 0);
    } else {
        OK(limic_world_barrier(world));
        OK(limic_world_barrier(world));
    }
}

static limic_endpoint open_one(uint32_t threads)
{
    const char *settings[] = {"LIMIC_PATHS=inline,pipeline", NULL};
    limic_options options = LIMIC_OPTIONS_INIT;
    limic_endpoint endpoint;
    options.kind = LIMIC_KIND_HYBRID;
    options.settings = settings;
    options.threads = threads;
    OK(limic_endpoint_open(&options, &endpoint));
    return endpoint;
}

static limic_endpoint reader;
static uint32_t of_reader;
static int begun, over;

static void *in_contact(void *key)
{
    limic_request request;
    char byte = 0;
    __atomic_store_n(&begun, 1, __ATOMIC_SEQ_CST);
    OK(limic_iread(reader, of_reader, *(uint64_t *)key, 0, &byte, 1, &request));
    OK(limic_wait(&request, LIMIC_FOREVER, NULL));
    CHECK(byte == 'r');
    __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* The first contact of a one-sided access waits for the owner, which this thread is. */
static void met(void)
{
    limic_endpoint owner = open_one(LIMIC_THREADS_OWNER);
    unsigned char address[LIMIC_ADDRESS_LENGTH];
    limic_region region;
    char byte = 'r';
    uint64_t key;
    pthread_t thread;
    reader = open_one(LIMIC_THREADS_MULTIPLE);
    OK(limic_address(owner, address, sizeof address));
    OK(limic_connect(reader, address, sizeof address, &of_reader));
    OK(limic_region_expose(owner, &byte, 1, &region, &key));
    CHECK(pthread_create(&thread, NULL, in_contact, &key) == 0);
    while (!__atomic_load_n(&begun, __ATOMIC_SEQ_CST))
        OK(limic_progress(reader, NULL));
    /* So that the other thread waits, mostly. */
    GIVES(LIMIC_ERR_TIMEOUT, limic_probe(reader, of_reader, 2, 4, 20000000, NULL));
    while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) {
        OK(limic_progress(reader, NULL));
        OK(limic_progress(owner, NULL));
    }
    CHECK(pthread_join(thread, NULL) == 0);
    OK(limic_region_revoke(&region));
    OK(limic_endpoint_close(reader));
    OK(limic_endpoint_close(owner));
}

static void *in_revoke(void *region)
{
    OK(limic_region_revoke((limic_region *)region));
    return NULL;
}

/* Another thread of the owner does what the access needs to end. */
static void revoked(void)
{
    limic_endpoint owner = open_one(LIMIC_THREADS_MULTIPLE);
    limic_endpoint peer = open_one(LIMIC_THREADS_OWNER);
    unsigned char address[LIMIC_ADDRESS_LENGTH];
    char *memory = (char *)room(LENGTH), *data = (char *)room(LENGTH), byte;
    limic_request request, own;
    limic_region region, copy;
    uint32_t at_peer, myself;
    uint64_t key;
    pthread_t thread;
    int done, code;
    OK(limic_myself(owner, &myself));
    OK(limic_address(owner, address, sizeof address));
    OK(limic_connect(peer, address, sizeof address, &at_peer));
    /* The first contact of a one-sided access would wait for the owner. */
    OK(limic_isend(peer, NULL, 0, at_peer, 1, 1, &request));
    for (done = 0; !done;) {
        OK(limic_progress(owner, NULL));
        OK(limic_test(&request, &done, NULL));
    }
    OK(limic_recv(owner, NULL, 0, LIMIC_ANY_SOURCE, 1, 1, NULL));

    fill(data, LENGTH, 1);
    OK(limic_region_expose(owner, memory, LENGTH, &region, &key));
    OK(limic_iwrite(peer, at_peer, key, 0, data, LENGTH, &request));
    OK(limic_progress(owner, NULL));
    copy = region;
    CHECK(pthread_create(&thread, NULL, in_revoke, &region) == 0);
    /* No access begins once that thread is in its call. */
    do {
        code = limic_iread(owner, myself, key, 0, &byte, 1, &own);
        if (code == LIMIC_OK)
            code = limic_wait(&own, LIMIC_FOREVER, NULL);
    } while (code == LIMIC_OK);
    CHECK(code == LIMIC_ERR_REGION);
    for (done = 0; !done;)
        OK(limic_test(&request, &done, NULL));
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(region.endpoint == 0 && filled(memory, LENGTH, 1));
    GIVES(LIMIC_ERR_REQUEST, limic_region_revoke(&copy));
    OK(limic_endpoint_close(peer));
    OK(limic_endpoint_close(owner));
    free(memory);
    free(data);
}

int main(void)
{
    limic_options options = LIMIC_OPTIONS_INIT;
    options.threads = LIMIC_THREADS_MULTIPLE;
    OK(limic_world_open(&options, &world));
    OK(limic_world_rank(world, &rank));
    OK(limic_world_size(world, &ranks));
    barriers();
    if (rank == 0) {
        met();
        revoked();
    }
    leave();
    return 0;
}
