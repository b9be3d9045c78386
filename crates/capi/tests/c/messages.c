/* Send, receive and both, over all sizes; labels, wildcards, order, truncation. */
#include "check.h"

static const size_t SIZES[] = {0, 1, 8, 48, 49, 1000, 4096, 16384, 65537, 1 << 20, (4 << 20) + 3};
#define COUNT (sizeof SIZES / sizeof SIZES[0])

static void all_sizes(void)
{
    uint32_t right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    for (size_t at = 0; at < COUNT; at++) {
        size_t length = SIZES[at];
        void *out = room(length), *in = room(length);
        limic_status status = LIMIC_STATUS_INIT;
        fill(out, length, rank + 10 * (uint32_t)at);
        OK(limic_sendrecv(world, out, length, right, 1, in, length, left, 1, 9, &status));
        CHECK(status.length == length && status.source == left && status.tag == 1 && status.context == 9);
        CHECK(filled(in, length, left + 10 * (uint32_t)at));
        /* Blocking both ways, in an order without a deadlock. */
        if (rank == 0) {
            OK(limic_send(world, out, length, right, 2, 9));
            OK(limic_recv(world, in, length, left, 2, 9, &status));
        } else {
            OK(limic_recv(world, in, length, left, 2, 9, &status));
            OK(limic_send(world, out, length, right, 2, 9));
        }
        CHECK(filled(in, length, left + 10 * (uint32_t)at));
        free(out);
        free(in);
    }
}

static void labels(void)
{
    limic_status status = LIMIC_STATUS_INIT;
    int number = 0;
    if (rank == 1) {
        /* Rank 0 asks for them in another order than the one in which they go. */
        const int values[] = {10, 20, 30, 40};
        OK(limic_send(world, &values[0], sizeof(int), 0, 1, 100));
        OK(limic_send(world, &values[1], sizeof(int), 0, 1, 101));
        OK(limic_send(world, &values[2], sizeof(int), 0, 2, 100));
        OK(limic_send(world, &values[3], sizeof(int), 0, UINT32_MAX - 1, LIMIC_CONTEXT_MAX));
    }
    if (rank == 0) {
        OK(limic_recv(world, &number, sizeof number, 1, UINT32_MAX - 1, LIMIC_CONTEXT_MAX, &status));
        CHECK(number == 40 && status.tag == UINT32_MAX - 1 && status.context == LIMIC_CONTEXT_MAX);
        OK(limic_recv(world, &number, sizeof number, LIMIC_ANY_SOURCE, 2, 100, NULL));
        CHECK(number == 30);
        OK(limic_recv(world, &number, sizeof number, LIMIC_ANY_SOURCE, LIMIC_ANY_TAG, 101, &status));
        CHECK(number == 20 && status.context == 101 && status.source == 1);
        OK(limic_recv(world, &number, sizeof number, 1, LIMIC_ANY_TAG, 100, &status));
        CHECK(number == 10 && status.tag == 1);
    }
    OK(limic_world_barrier(world));
}

static void order(void)
{
    if (rank == 0) {
        for (uint32_t from = 1; from < ranks; from++)
            for (int i = 0; i < 200; i++) {
                int number = -1;
                static char buffer[20000];
                OK(limic_recv(world, buffer, sizeof buffer, from, LIMIC_ANY_TAG, 4, NULL));
                memcpy(&number, buffer, sizeof number);
                CHECK(number == i);
            }
    } else {
        static char buffer[20000];
        for (int i = 0; i < 200; i++) {
            memcpy(buffer, &i, sizeof i);
            /* Short and long ones in turn: different paths, one order. */
            OK(limic_send(world, buffer, i % 3 ? sizeof i : sizeof buffer, 0, (uint32_t)i, 4));
        }
    }
    OK(limic_world_barrier(world));
}

static void truncation(void)
{
    static const size_t lengths[] = {100, 100000, 1 << 20};
    for (size_t at = 0; at < 3; at++) {
        size_t length = lengths[at];
        char *data = (char *)room(length);
        limic_status status = LIMIC_STATUS_INIT;
        if (rank == 1) {
            fill(data, length, 5);
            OK(limic_send(world, data, length, 0, 1, 6));
        } else if (rank == 0) {
            memset(data, 0, length);
            GIVES(LIMIC_ERR_TRUNCATED, limic_recv(world, data, length / 2, 1, 1, 6, &status));
            CHECK(status.error == LIMIC_ERR_TRUNCATED && status.length == length);
            CHECK(status.source == 1 && status.tag == 1 && status.context == 6);
            CHECK(filled(data, length / 2, 5) && data[length / 2] == 0);
        }
        free(data);
    }
}

int main(void)
{
    join();
    all_sizes();
    labels();
    order();
    truncation();
    leave();
    return 0;
}
