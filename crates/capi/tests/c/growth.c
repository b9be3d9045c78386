/* Structures of another version: larger ones of later headers, too small ones, and arrays of them.
 */
#include "check.h"

/* What a later header may have. */
typedef struct {
    limic_status now;
    uint64_t later[3];
} later_status;

typedef struct {
    limic_options now;
    uint64_t later;
} later_options;

int main(void)
{
    limic_endpoint endpoint;
    uint32_t me;
    later_options options;
    memset(&options, 0, sizeof options);
    options.now.size = sizeof options;
    /* A field that the library does not know is fine unless it is set. */
    OK(limic_endpoint_open(&options.now, &endpoint));
    OK(limic_endpoint_close(endpoint));
    options.later = 1;
    GIVES(LIMIC_ERR_SIZE, limic_endpoint_open(&options.now, &endpoint));
    options.now.size = 0;
    GIVES(LIMIC_ERR_SIZE, limic_endpoint_open(&options.now, &endpoint));

    OK(limic_endpoint_open(NULL, &endpoint));
    OK(limic_myself(endpoint, &me));
    later_status statuses[4];
    limic_request requests[4];
    char inbox[4];
    memset(statuses, 0xee, sizeof statuses);
    statuses[0].now.size = sizeof statuses[0];
    for (uint32_t at = 0; at < 4; at++) {
        OK(limic_irecv(endpoint, &inbox[at], 1, me, at, 1, &requests[at]));
        OK(limic_send(endpoint, "abcd" + at, 1, me, at, 1));
    }
    OK(limic_wait_all(4, requests, LIMIC_FOREVER, &statuses[0].now));
    for (uint32_t at = 0; at < 4; at++) {
        CHECK(statuses[at].now.size == sizeof statuses[0] && statuses[at].now.tag == at);
        CHECK(statuses[at].now.length == 1 && inbox[at] == "abcd"[at]);
        CHECK(statuses[at].later[0] == 0 && statuses[at].later[2] == 0);
    }

    /* Of version 1.0: no more than what that one had is written. */
    memset(statuses, 0xee, sizeof statuses);
    statuses[0].now.size = offsetof(limic_status, immediate);
    CHECK(statuses[0].now.size == 32);
    OK(limic_send(endpoint, "y", 1, me, 8, 1));
    OK(limic_recv(endpoint, inbox, 1, me, 8, 1, &statuses[0].now));
    CHECK(statuses[0].now.length == 1 && statuses[0].now.size == 32);
    CHECK(statuses[0].now.immediate == 0xeeeeeeeeeeeeeeee);

    struct {
        char bytes[32];
    } old[4];
    uint32_t size = sizeof old[0];
    memset(old, 0xee, sizeof old);
    memcpy(old, &size, sizeof size);
    for (uint32_t at = 0; at < 4; at++) {
        OK(limic_irecv(endpoint, &inbox[at], 1, me, at, 1, &requests[at]));
        OK(limic_send(endpoint, "efgh" + at, 1, me, at, 1));
    }
    OK(limic_wait_all(4, requests, LIMIC_FOREVER, (limic_status *)(void *)old));
    for (uint32_t at = 0; at < 4; at++) {
        uint64_t length;
        uint32_t tag;
        memcpy(&tag, old[at].bytes + offsetof(limic_status, tag), sizeof tag);
        memcpy(&length, old[at].bytes + offsetof(limic_status, length), sizeof length);
        CHECK(tag == at && length == 1 && inbox[at] == "efgh"[at]);
    }

    /* Too small, or not set: nothing is consumed. */
    limic_status small = LIMIC_STATUS_INIT;
    OK(limic_send(endpoint, "x", 1, me, 9, 1));
    small.size = 0;
    GIVES(LIMIC_ERR_SIZE, limic_recv(endpoint, inbox, 1, me, 9, 1, &small));
    small.size = 8;
    GIVES(LIMIC_ERR_SIZE, limic_recv(endpoint, inbox, 1, me, 9, 1, &small));
    small.size = 0x7fffffff;
    GIVES(LIMIC_ERR_SIZE, limic_recv(endpoint, inbox, 1, me, 9, 1, &small));
    small.size = sizeof small;
    OK(limic_recv(endpoint, inbox, 1, me, 9, 1, &small));
    OK(limic_endpoint_close(endpoint));
    return 0;
}
