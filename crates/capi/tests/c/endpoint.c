/* Endpoints of one process: addresses, peers, both kinds, settings. */
#include "check.h"

static void talk(limic_endpoint from, limic_endpoint to)
{
    unsigned char address[LIMIC_ADDRESS_LENGTH + 8], back[LIMIC_ADDRESS_LENGTH];
    uint32_t peer, again, source;
    limic_status status = LIMIC_STATUS_INIT;
    limic_request request;
    char inbox[8];

    OK(limic_address(to, address, sizeof address));
    OK(limic_connect(from, address, LIMIC_ADDRESS_LENGTH, &peer));
    OK(limic_connect(from, address, LIMIC_ADDRESS_LENGTH, &again));
    CHECK(peer == again);
    OK(limic_peer_address(from, peer, back, sizeof back));
    CHECK(memcmp(address, back, sizeof back) == 0);

    OK(limic_isend(from, "seven", 5, peer, 7, 3, &request));
    /* Both endpoints move only inside of their calls. */
    limic_request receive;
    OK(limic_irecv(to, inbox, sizeof inbox, LIMIC_ANY_SOURCE, LIMIC_ANY_TAG, 3, &receive));
    for (int done = 0; !done;) {
        OK(limic_progress(from, NULL));
        OK(limic_test(&receive, &done, &status));
    }
    CHECK(status.length == 5 && memcmp(inbox, "seven", 5) == 0);
    CHECK(status.tag == 7 && status.context == 3 && status.error == LIMIC_OK);
    OK(limic_wait(&request, LIMIC_FOREVER, NULL));

    /* Who made the first contact has a name here, and can be answered. */
    source = status.source;
    OK(limic_address(from, address, LIMIC_ADDRESS_LENGTH));
    OK(limic_peer_address(to, source, back, sizeof back));
    CHECK(memcmp(address, back, sizeof back) == 0);
}

/* Each call that a peer was to send to, and that has a status, names it there when it is gone. */
static void names_who_is_gone(uint32_t threads)
{
    unsigned char address[LIMIC_ADDRESS_LENGTH];
    limic_options options = LIMIC_OPTIONS_INIT;
    limic_endpoint endpoint, gone;
    uint32_t me, peer, to;
    char data[8] = {0}, inbox[8];
    limic_message message;
    limic_loan loan;
    const void *bytes;

    options.threads = threads;
    OK(limic_endpoint_open(&options, &endpoint));
    OK(limic_endpoint_open(NULL, &gone));
    OK(limic_address(gone, address, sizeof address));
    OK(limic_connect(endpoint, address, sizeof address, &peer));
    OK(limic_myself(endpoint, &me));
    OK(limic_endpoint_close(gone));

    for (int round = 0; round < 14; round++) {
        limic_status status = LIMIC_STATUS_INIT;
        int64_t timeout = round < 7 ? LIMIC_FOREVER : 1000000000;
        int code = LIMIC_OK;
        status.source = me;
        switch (round % 7) {
        case 0:
        case 1:
            code = limic_recv(endpoint, inbox, sizeof inbox, peer, 1, 0, &status);
            break;
        case 2:
        case 3:
            /* To who is gone, or from there. */
            to = round % 7 == 2 ? me : peer;
            code = limic_sendrecv(endpoint, data, sizeof data, to, 1, inbox, sizeof inbox,
                                  to == me ? peer : me, 1, 0, &status);
            break;
        case 4:
            code = limic_probe(endpoint, peer, 1, 0, timeout, &status);
            break;
        case 5:
            code = limic_mprobe(endpoint, peer, 1, 0, timeout, &message, &status);
            break;
        default:
            code = limic_loan_recv(endpoint, peer, 1, 0, timeout, &loan, &bytes, &status);
        }
        CHECK(code == LIMIC_ERR_PEER_FAILED);
        CHECK(status.error == LIMIC_ERR_PEER_FAILED && status.source == peer);
    }
    OK(limic_endpoint_close(endpoint));
}

int main(void)
{
    limic_endpoint hybrid, shm, small;
    limic_options options = LIMIC_OPTIONS_INIT;
    unsigned char address[LIMIC_ADDRESS_LENGTH];
    uint32_t peer;

    OK(limic_endpoint_open(NULL, &hybrid));
    options.kind = LIMIC_KIND_SHM;
    OK(limic_endpoint_open(&options, &shm));
    const char *settings[] = {"LIMIC_EAGER_MAX=1K", "LIMIC_LINGER_MS=50", NULL};
    options.kind = LIMIC_KIND_HYBRID;
    options.threads = LIMIC_THREADS_SERIALIZED;
    options.settings = settings;
    OK(limic_endpoint_open(&options, &small));

    talk(hybrid, shm);
    talk(shm, small);
    talk(small, hybrid);

    /* To itself. */
    limic_status status = LIMIC_STATUS_INIT;
    char inbox[4];
    OK(limic_myself(hybrid, &peer));
    OK(limic_send(hybrid, "self", 4, peer, 1, 1));
    OK(limic_recv(hybrid, inbox, sizeof inbox, peer, 1, 1, &status));
    CHECK(status.source == peer && memcmp(inbox, "self", 4) == 0);

    /* What is no address, and what is no peer. */
    OK(limic_address(shm, address, sizeof address));
    GIVES(LIMIC_ERR_SIZE, limic_address(shm, address, sizeof address - 1));
    GIVES(LIMIC_ERR_ADDRESS, limic_connect(hybrid, address, sizeof address - 1, &peer));
    address[0] ^= 1;
    GIVES(LIMIC_ERR_ADDRESS, limic_connect(hybrid, address, sizeof address, &peer));
    GIVES(LIMIC_ERR_UNKNOWN_PEER, limic_peer_address(hybrid, 1000, address, sizeof address));
    GIVES(LIMIC_ERR_UNKNOWN_PEER, limic_send(hybrid, NULL, 0, 1000, 0, 0));

    /* It has no job. */
    GIVES(LIMIC_ERR_NOT_WORLD, limic_world_rank(hybrid, &peer));
    GIVES(LIMIC_ERR_NOT_WORLD, limic_world_barrier(hybrid));
    GIVES(LIMIC_ERR_NOT_WORLD, limic_world_finalize(hybrid));
    GIVES(LIMIC_ERR_NOT_WORLD, limic_world_abort(hybrid, 1, "no"));

    names_who_is_gone(LIMIC_THREADS_OWNER);
    names_who_is_gone(LIMIC_THREADS_SERIALIZED);
    names_who_is_gone(LIMIC_THREADS_MULTIPLE);

    /* Open and close, over and over: nothing is used up, and old handles stay void. */
    limic_endpoint first = shm;
    OK(limic_endpoint_close(shm));
    for (int round = 0; round < 50; round++) {
        OK(limic_endpoint_open(NULL, &shm));
        GIVES(LIMIC_ERR_ENDPOINT, limic_progress(first, NULL));
        OK(limic_endpoint_close(shm));
    }
    OK(limic_endpoint_close(hybrid));
    OK(limic_endpoint_close(small));
    GIVES(LIMIC_ERR_ENDPOINT, limic_endpoint_close(small));
    return 0;
}
