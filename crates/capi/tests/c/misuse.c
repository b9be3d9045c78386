/* Everything wrong that C can do and the library can see: an error code each, and nothing else
 * happens. */
#include "check.h"

static void nulls(limic_endpoint endpoint)
{
    char data[8] = {0};
    limic_request request = LIMIC_REQUEST_NULL;
    limic_message message = LIMIC_MESSAGE_NULL;
    limic_loan loan = LIMIC_LOAN_NULL;
    limic_region region = LIMIC_REGION_NULL;
    uint32_t me;
    uint64_t key;
    int number;
    void *memory;
    const void *there;
    OK(limic_myself(endpoint, &me));
    GIVES(LIMIC_ERR_NULL, limic_endpoint_open(NULL, NULL));
    GIVES(LIMIC_ERR_NULL, limic_world_open(NULL, NULL));
    GIVES(LIMIC_ERR_NULL, limic_address(endpoint, NULL, 48));
    GIVES(LIMIC_ERR_NULL, limic_connect(endpoint, NULL, 48, &me));
    GIVES(LIMIC_ERR_NULL, limic_connect(endpoint, data, 8, NULL));
    GIVES(LIMIC_ERR_NULL, limic_peer_address(endpoint, me, NULL, 48));
    GIVES(LIMIC_ERR_NULL, limic_myself(endpoint, NULL));
    GIVES(LIMIC_ERR_NULL, limic_world_rank(endpoint, NULL));
    GIVES(LIMIC_ERR_NULL, limic_world_size(endpoint, NULL));
    GIVES(LIMIC_ERR_NULL, limic_world_launcher(endpoint, NULL));
    GIVES(LIMIC_ERR_NULL, limic_send(endpoint, NULL, 1, me, 0, 0));
    GIVES(LIMIC_ERR_NULL, limic_recv(endpoint, NULL, 1, me, 0, 0, NULL));
    GIVES(LIMIC_ERR_NULL, limic_isend(endpoint, NULL, 1, me, 0, 0, &request));
    GIVES(LIMIC_ERR_NULL, limic_isend(endpoint, data, 1, me, 0, 0, NULL));
    GIVES(LIMIC_ERR_NULL, limic_irecv(endpoint, NULL, 1, me, 0, 0, &request));
    GIVES(LIMIC_ERR_NULL, limic_irecv(endpoint, data, 1, me, 0, 0, NULL));
    GIVES(LIMIC_ERR_NULL, limic_test(NULL, &number, NULL));
    GIVES(LIMIC_ERR_NULL, limic_test(&request, NULL, NULL));
    GIVES(LIMIC_ERR_NULL, limic_wait(NULL, 0, NULL));
    GIVES(LIMIC_ERR_NULL, limic_wait_any(1, NULL, 0, &number, NULL));
    GIVES(LIMIC_ERR_NULL, limic_wait_any(1, &request, 0, NULL, NULL));
    GIVES(LIMIC_ERR_NULL, limic_wait_some(1, &request, 0, NULL, &number, NULL));
    GIVES(LIMIC_ERR_NULL, limic_wait_some(1, &request, 0, &number, NULL, NULL));
    GIVES(LIMIC_ERR_NULL, limic_wait_all(1, NULL, 0, NULL));
    GIVES(LIMIC_ERR_NULL, limic_cancel(NULL));
    GIVES(LIMIC_ERR_NULL, limic_is_done(NULL, &number));
    GIVES(LIMIC_ERR_NULL, limic_is_done(&request, NULL));
    GIVES(LIMIC_ERR_NULL, limic_mprobe(endpoint, me, 0, 0, 0, NULL, NULL));
    GIVES(LIMIC_ERR_NULL, limic_mrecv(NULL, data, 1, NULL));
    GIVES(LIMIC_ERR_NULL, limic_imrecv(NULL, data, 1, &request));
    GIVES(LIMIC_ERR_NULL, limic_imrecvv(NULL, NULL, 0, &request));
    GIVES(LIMIC_ERR_NULL, limic_message_drop(NULL));
    GIVES(LIMIC_ERR_NULL, limic_loan_get(endpoint, 1, NULL, &memory));
    GIVES(LIMIC_ERR_NULL, limic_loan_get(endpoint, 1, &loan, NULL));
    GIVES(LIMIC_ERR_NULL, limic_loan_isend(NULL, 1, me, 0, 0, &request));
    GIVES(LIMIC_ERR_NULL, limic_loan_recv(endpoint, me, 0, 0, 0, NULL, &there, NULL));
    GIVES(LIMIC_ERR_NULL, limic_loan_recv(endpoint, me, 0, 0, 0, &loan, NULL, NULL));
    GIVES(LIMIC_ERR_NULL, limic_loan_return(NULL));
    GIVES(LIMIC_ERR_NULL, limic_region_expose(endpoint, NULL, 1, &region, &key));
    GIVES(LIMIC_ERR_NULL, limic_region_expose(endpoint, data, 1, NULL, &key));
    GIVES(LIMIC_ERR_NULL, limic_region_expose(endpoint, data, 1, &region, NULL));
    GIVES(LIMIC_ERR_NULL, limic_region_allocate(endpoint, 1, NULL, &region, &key));
    GIVES(LIMIC_ERR_NULL, limic_region_revoke(NULL));
    GIVES(LIMIC_ERR_NULL, limic_iread(endpoint, me, 1, 0, NULL, 1, &request));
    GIVES(LIMIC_ERR_NULL, limic_iwrite(endpoint, me, 1, 0, data, 1, NULL));
    GIVES(LIMIC_ERR_NULL, limic_wake_fd(endpoint, NULL));
    GIVES(LIMIC_ERR_NULL, limic_arm(endpoint, NULL));
    GIVES(LIMIC_ERR_NULL, limic_counters_read(endpoint, NULL));
    GIVES(LIMIC_ERR_NULL, limic_counters_path(endpoint, 0, NULL));
    /* NULL handles are no handles. */
    GIVES(LIMIC_ERR_ENDPOINT, limic_message_drop(&message));
    GIVES(LIMIC_ERR_ENDPOINT, limic_loan_return(&loan));
    GIVES(LIMIC_ERR_ENDPOINT, limic_region_revoke(&region));
}

static void ranges(limic_endpoint endpoint)
{
    char data[8] = {0};
    limic_request request;
    limic_options options = LIMIC_OPTIONS_INIT;
    limic_endpoint other;
    uint32_t me;
    int number;
    OK(limic_myself(endpoint, &me));
    options.kind = 3;
    GIVES(LIMIC_ERR_INVALID, limic_endpoint_open(&options, &other));
    options.kind = LIMIC_KIND_SHM;
    options.threads = 77;
    GIVES(LIMIC_ERR_INVALID, limic_endpoint_open(&options, &other));
    options.threads = LIMIC_THREADS_OWNER;
    options.reserved = 1;
    GIVES(LIMIC_ERR_INVALID, limic_endpoint_open(&options, &other));
    GIVES(LIMIC_ERR_INVALID, limic_send(endpoint, data, 1, me, LIMIC_ANY_TAG, 0));
    GIVES(LIMIC_ERR_INVALID, limic_send(endpoint, data, 1, me, 0, UINT32_MAX));
    GIVES(LIMIC_ERR_INVALID, limic_recv(endpoint, data, 1, me, 0, UINT32_MAX, NULL));
    GIVES(LIMIC_ERR_INVALID, limic_probe(endpoint, me, 0, UINT32_MAX, 0, NULL));
    GIVES(LIMIC_ERR_INVALID, limic_send(endpoint, data, (size_t)-1, me, 0, 0));
    GIVES(LIMIC_ERR_INVALID, limic_irecv(endpoint, data, (size_t)PTRDIFF_MAX + 1, me, 0, 0, &request));
    GIVES(LIMIC_ERR_INVALID, limic_wait_all(-1, &request, 0, NULL));
    GIVES(LIMIC_ERR_INVALID, limic_wait_any(-5, &request, 0, &number, NULL));
    GIVES(LIMIC_ERR_UNKNOWN_PEER, limic_send(endpoint, data, 1, LIMIC_ANY_SOURCE, 0, 0));
    GIVES(LIMIC_ERR_UNKNOWN_PEER, limic_recv(endpoint, data, 1, me + 1000, 0, 0, NULL));
}

/* Handles that were made up, by flipping bits of real ones and from nothing. */
static void forgeries(limic_endpoint endpoint)
{
    uint64_t state = 88172645463325252u;
    char data[8];
    limic_request real;
    int done;
    OK(limic_irecv(endpoint, data, sizeof data, LIMIC_ANY_SOURCE, 1, 1, &real));
    for (int round = 0; round < 20000; round++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        limic_endpoint forged = endpoint;
        forged.id = round % 2 ? state : endpoint.id ^ ((uint64_t)1 << (state % 64));
        if (forged.id != endpoint.id)
            GIVES(LIMIC_ERR_ENDPOINT, limic_progress(forged, NULL));
        limic_request request = real;
        limic_message message = {endpoint.id, state};
        limic_loan loan = {endpoint.id, state};
        limic_region region = {endpoint.id, state};
        request.number ^= round % 2 ? state | 1 : (uint64_t)1 << (state % 64);
        GIVES(LIMIC_ERR_REQUEST, limic_test(&request, &done, NULL));
        GIVES(LIMIC_ERR_REQUEST, limic_message_drop(&message));
        GIVES(LIMIC_ERR_REQUEST, limic_loan_return(&loan));
        GIVES(LIMIC_ERR_REQUEST, limic_region_revoke(&region));
    }
    OK(limic_cancel(&real));
    GIVES(LIMIC_ERR_CANCELLED, limic_wait(&real, LIMIC_FOREVER, NULL));
}

int main(void)
{
    limic_endpoint endpoint;
    OK(limic_endpoint_open(NULL, &endpoint));
    nulls(endpoint);
    ranges(endpoint);
    forgeries(endpoint);
    OK(limic_endpoint_close(endpoint));
    GIVES(LIMIC_ERR_ENDPOINT, limic_endpoint_close(endpoint));
    GIVES(LIMIC_ERR_ENDPOINT, limic_send(endpoint, NULL, 0, 0, 0, 0));
    GIVES(LIMIC_ERR_ENDPOINT, limic_endpoint_release(endpoint));
    GIVES(LIMIC_ERR_ENDPOINT, limic_endpoint_adopt(endpoint));
    return 0;
}
