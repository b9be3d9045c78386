/* Probe, matched probe, and what becomes of a message that was taken. */
#include "check.h"

int main(void)
{
    join();
    static char data[1 << 20];
    static const size_t lengths[] = {0, 5, 3000, 1 << 20};
    limic_status status = LIMIC_STATUS_INIT;
    limic_message message, copy;
    limic_request request;
    for (size_t at = 0; at < 4; at++) {
        size_t length = lengths[at];
        if (rank == 0) {
            fill(data, length, 8);
            limic_request requests[4];
            for (uint32_t tag = 1; tag <= 4; tag++)
                OK(limic_isend(world, data, length, 1, tag, 2, &requests[tag - 1]));
            OK(limic_wait_all(4, requests, LIMIC_FOREVER, NULL));
            continue;
        }
        OK(limic_probe(world, 0, 1, 2, LIMIC_FOREVER, &status));
        CHECK(status.length == length && status.source == 0 && status.tag == 1);
        /* It was not taken. */
        memset(data, 0, length);
        OK(limic_recv(world, data, length, 0, 1, 2, NULL));
        CHECK(filled(data, length, 8));

        OK(limic_mprobe(world, LIMIC_ANY_SOURCE, LIMIC_ANY_TAG, 2, LIMIC_FOREVER, &message, &status));
        CHECK(status.tag == 2 && status.length == length);
        copy = message;
        /* It was taken: a receive gets the next one. */
        OK(limic_recv(world, data, length, 0, LIMIC_ANY_TAG, 2, &status));
        CHECK(status.tag == 3);
        memset(data, 0, length);
        OK(limic_mrecv(&message, data, length, &status));
        CHECK(status.tag == 2 && filled(data, length, 8) && message.endpoint == 0);
        GIVES(LIMIC_ERR_REQUEST, limic_mrecv(&copy, data, length, &status));
        GIVES(LIMIC_ERR_REQUEST, limic_imrecv(&copy, data, length, &request));
        GIVES(LIMIC_ERR_REQUEST, limic_message_drop(&copy));

        OK(limic_mprobe(world, 0, 4, 2, LIMIC_FOREVER, &message, NULL));
        if (at % 2) {
            OK(limic_message_drop(&message));
        } else {
            OK(limic_imrecv(&message, data, length, &request));
            OK(limic_wait(&request, LIMIC_FOREVER, &status));
            CHECK(status.length == length);
        }
        CHECK(message.endpoint == 0);
        GIVES(LIMIC_ERR_ENDPOINT, limic_message_drop(&message));
    }
    GIVES(LIMIC_ERR_TIMEOUT, limic_probe(world, LIMIC_ANY_SOURCE, 99, 2, 0, &status));
    GIVES(LIMIC_ERR_TIMEOUT, limic_mprobe(world, LIMIC_ANY_SOURCE, 99, 2, 2000000, &message, &status));
    GIVES(LIMIC_ERR_UNKNOWN_PEER, limic_probe(world, 1234, 99, 2, 0, &status));
    leave();
    return 0;
}
