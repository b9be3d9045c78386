/* Requests: test, wait with and without a limit, any, some, all, cancel; stale ones. */
#include "check.h"

enum { MANY = 64, LONG = 300000 };

static size_t length_of(int at)
{
    return at % 4 == 3 ? (size_t)LONG : (size_t)at * 3;
}

static void all(void)
{
    static char data[MANY][LONG];
    limic_request requests[MANY];
    limic_status statuses[MANY];
    statuses[0].size = sizeof statuses[0];
    for (int at = 0; at < MANY; at++) {
        if (rank == 0) {
            fill(data[at], length_of(at), (uint32_t)at);
            OK(limic_isend(world, data[at], length_of(at), 1, (uint32_t)at, 1, &requests[at]));
        } else {
            OK(limic_irecv(world, data[at], LONG, 0, (uint32_t)at, 1, &requests[at]));
        }
    }
    limic_request copy = requests[5];
    OK(limic_wait_all(MANY, requests, LIMIC_FOREVER, statuses));
    for (int at = 0; at < MANY; at++) {
        CHECK(requests[at].endpoint == 0 && requests[at].number == 0);
        CHECK(statuses[at].error == LIMIC_OK && statuses[at].length == length_of(at));
        CHECK(statuses[at].tag == (uint32_t)at && statuses[at].source == 1 - rank);
        CHECK(rank == 0 || filled(data[at], length_of(at), (uint32_t)at));
    }
    GIVES(LIMIC_ERR_REQUEST, limic_wait(&copy, LIMIC_FOREVER, NULL));
    GIVES(LIMIC_ERR_REQUEST, limic_cancel(&copy));
    /* Nothing to wait for. */
    OK(limic_wait_all(MANY, requests, 0, NULL));
    OK(limic_wait_all(0, NULL, 0, NULL));
}

static void any_and_some(void)
{
    static char data[MANY][LONG];
    limic_request requests[MANY];
    limic_status statuses[MANY];
    int indices[MANY], index = 7, done = 7, seen = 0;
    char was[MANY] = {0};
    for (int at = 0; at < MANY; at++) {
        if (rank == 0)
            OK(limic_isend(world, data[at], length_of(at), 1, (uint32_t)at, 2, &requests[at]));
        else
            OK(limic_irecv(world, data[at], LONG, 0, (uint32_t)at, 2, &requests[at]));
    }
    statuses[0].size = sizeof statuses[0];
    while (seen < MANY / 2) {
        /* With and without a limit: two ways through the library. */
        int64_t limit = seen % 2 ? LIMIC_FOREVER : INT64_C(20000000000);
        OK(limic_wait_any(MANY, requests, limit, &index, statuses));
        CHECK(index >= 0 && !was[index] && statuses[0].tag == (uint32_t)index);
        was[index] = 1;
        seen++;
    }
    while (seen < MANY) {
        OK(limic_wait_some(MANY, requests, LIMIC_FOREVER, &done, indices, statuses));
        CHECK(done > 0);
        for (int at = 0; at < done; at++) {
            CHECK(!was[indices[at]] && statuses[at].tag == (uint32_t)indices[at]);
            was[indices[at]] = 1;
        }
        seen += done;
    }
    OK(limic_wait_any(MANY, requests, LIMIC_FOREVER, &index, statuses));
    CHECK(index == -1);
    OK(limic_wait_some(MANY, requests, LIMIC_FOREVER, &done, indices, statuses));
    CHECK(done == 0);
}

static void limits_and_cancel(void)
{
    limic_request requests[2];
    limic_status status = LIMIC_STATUS_INIT;
    int done = 7, index;
    char byte, other;
    OK(limic_irecv(world, &byte, 1, 1 - rank, 77, 3, &requests[0]));
    OK(limic_test(&requests[0], &done, &status));
    CHECK(done == 0);
    OK(limic_is_done(&requests[0], &done));
    CHECK(done == 0);
    GIVES(LIMIC_ERR_TIMEOUT, limic_wait(&requests[0], 0, NULL));
    GIVES(LIMIC_ERR_TIMEOUT, limic_wait(&requests[0], 3000000, NULL));
    requests[1] = LIMIC_REQUEST_NULL;
    GIVES(LIMIC_ERR_TIMEOUT, limic_wait_any(2, requests, 1000000, &index, NULL));
    GIVES(LIMIC_ERR_TIMEOUT, limic_wait_all(2, requests, 1000000, NULL));
    GIVES(LIMIC_ERR_TIMEOUT, limic_wait_some(2, requests, 1000000, &done, &index, NULL));
    CHECK(done == 0 && requests[0].endpoint != 0);

    /* One of two is done in time. */
    OK(limic_irecv(world, &other, 1, 1 - rank, 78, 3, &requests[1]));
    OK(limic_send(world, "x", 1, 1 - rank, 78, 3));
    while (requests[1].endpoint != 0)
        GIVES(LIMIC_ERR_TIMEOUT, limic_wait_all(2, requests, 10000000, NULL));
    CHECK(other == 'x');

    OK(limic_cancel(&requests[0]));
    GIVES(LIMIC_ERR_CANCELLED, limic_wait(&requests[0], LIMIC_FOREVER, &status));
    CHECK(status.error == LIMIC_ERR_CANCELLED && requests[0].endpoint == 0);
    /* Cancelled too late: it ends as usual. */
    uint32_t me;
    OK(limic_myself(world, &me));
    OK(limic_irecv(world, &byte, 1, me, 79, 3, &requests[0]));
    OK(limic_send(world, "y", 1, me, 79, 3));
    OK(limic_cancel(&requests[0]));
    OK(limic_wait(&requests[0], LIMIC_FOREVER, &status));
    CHECK(byte == 'y' && status.length == 1);
}

static void stale(void)
{
    limic_request request, copy, mixed[2];
    limic_endpoint second;
    uint32_t me;
    char byte;
    int done, index;
    OK(limic_myself(world, &me));
    /* Done when it was started. */
    OK(limic_isend(world, "z", 1, me, 5, 5, &request));
    OK(limic_is_done(&request, &done));
    CHECK(done == 1);
    OK(limic_cancel(&request));
    copy = request;
    OK(limic_wait(&request, 0, NULL));
    GIVES(LIMIC_ERR_REQUEST, limic_wait(&copy, 0, NULL));
    GIVES(LIMIC_ERR_REQUEST, limic_test(&copy, &done, NULL));
    GIVES(LIMIC_ERR_REQUEST, limic_wait_any(1, &copy, LIMIC_FOREVER, &index, NULL));
    /* The place is used again: the old number still names nothing. */
    OK(limic_irecv(world, &byte, 1, me, 5, 5, &request));
    GIVES(LIMIC_ERR_REQUEST, limic_wait_all(1, &copy, 0, NULL));
    OK(limic_wait(&request, LIMIC_FOREVER, NULL));
    CHECK(byte == 'z');

    OK(limic_endpoint_open(NULL, &second));
    OK(limic_irecv(world, &byte, 1, me, 6, 5, &mixed[0]));
    OK(limic_irecv(second, &byte, 1, LIMIC_ANY_SOURCE, 6, 5, &mixed[1]));
    GIVES(LIMIC_ERR_ENDPOINT, limic_wait_all(2, mixed, 0, NULL));
    GIVES(LIMIC_ERR_ENDPOINT, limic_wait_any(2, mixed, 0, &index, NULL));
    OK(limic_endpoint_close(second));
    GIVES(LIMIC_ERR_ENDPOINT, limic_wait(&mixed[1], LIMIC_FOREVER, NULL));
    OK(limic_cancel(&mixed[0]));
    GIVES(LIMIC_ERR_CANCELLED, limic_wait(&mixed[0], LIMIC_FOREVER, NULL));

    request = LIMIC_REQUEST_NULL;
    limic_status status = LIMIC_STATUS_INIT;
    OK(limic_wait(&request, LIMIC_FOREVER, &status));
    OK(limic_test(&request, &done, &status));
    CHECK(done == 1 && status.source == LIMIC_ANY_SOURCE && status.length == 0);
    GIVES(LIMIC_ERR_ENDPOINT, limic_cancel(&request));
}

int main(void)
{
    join();
    all();
    any_and_some();
    limits_and_cancel();
    stale();
    leave();
    return 0;
}
