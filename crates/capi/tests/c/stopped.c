/* A peer that makes no progress in the middle of an access: its owner can try again. */
#include "check.h"

enum { LENGTH = 1 << 20 };

static limic_endpoint open_one(void)
{
    const char *settings[] = {"LIMIC_PATHS=inline,pipeline", "LIMIC_LINGER_MS=50", NULL};
    limic_options options = LIMIC_OPTIONS_INIT;
    options.kind = LIMIC_KIND_HYBRID;
    options.settings = settings;
    limic_endpoint endpoint;
    OK(limic_endpoint_open(&options, &endpoint));
    return endpoint;
}

int main(void)
{
    limic_endpoint owner = open_one(), peer = open_one();
    unsigned char address[LIMIC_ADDRESS_LENGTH];
    uint32_t at_peer;
    int done;
    OK(limic_address(owner, address, sizeof address));
    OK(limic_connect(peer, address, sizeof address, &at_peer));

    /* The first contact of a one-sided access would wait for the owner, which is this thread. */
    limic_request request;
    OK(limic_isend(peer, NULL, 0, at_peer, 1, 1, &request));
    for (done = 0; !done;) {
        OK(limic_progress(owner, NULL));
        OK(limic_test(&request, &done, NULL));
    }
    OK(limic_recv(owner, NULL, 0, LIMIC_ANY_SOURCE, 1, 1, NULL));

    char *memory = (char *)room(LENGTH), *data = (char *)room(LENGTH);
    fill(data, LENGTH, 1);
    limic_region region, before;
    uint64_t key;
    OK(limic_region_expose(owner, memory, LENGTH, &region, &key));
    OK(limic_iwrite(peer, at_peer, key, 0, data, LENGTH, &request));
    OK(limic_progress(owner, NULL));

    before = region;
    GIVES(LIMIC_ERR_REGION, limic_region_revoke(&region));
    CHECK(memcmp(&before, &region, sizeof region) == 0);
    CHECK(strstr(limic_last_error(), "peer 0 ") != NULL);

    for (done = 0; !done;) {
        OK(limic_progress(owner, NULL));
        OK(limic_test(&request, &done, NULL));
    }
    CHECK(filled(memory, LENGTH, 1));
    OK(limic_region_revoke(&region));
    GIVES(LIMIC_ERR_REQUEST, limic_region_revoke(&before));
    free(memory);
    free(data);
    OK(limic_endpoint_close(peer));
    OK(limic_endpoint_close(owner));
    return 0;
}
