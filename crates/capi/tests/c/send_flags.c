/* Sends that are done when their message has matched, or is delivered; words beside messages. */
#include "check.h"

static limic_request start(const void *data, size_t length, uint32_t flags, uint64_t immediate)
{
    struct iovec piece = {(void *)(uintptr_t)data, length};
    limic_request request;
    OK(limic_tag_isendv(world, &piece, 1, 1, 1, flags, immediate, &request));
    return request;
}

static void tell(uint32_t to) { OK(limic_tag_send(world, NULL, 0, to, 2)); }

static void hear(uint32_t from) { OK(limic_tag_recv(world, NULL, 0, from, 2, UINT64_MAX, NULL)); }

static int is_over(limic_request *request)
{
    int done = 7;
    OK(limic_test(request, &done, NULL));
    return done;
}

/* It is not over when it is there, nor when it was looked at. */
static void matched(size_t length)
{
    static char data[100000];
    limic_status status = LIMIC_STATUS_INIT;
    if (rank == 0) {
        limic_request request = start(data, length, LIMIC_SEND_MATCHED, 0);
        CHECK(!is_over(&request));
        tell(1);
        hear(1);
        CHECK(!is_over(&request));
        tell(1);
        OK(limic_wait(&request, LIMIC_FOREVER, NULL));
        return;
    }
    hear(0);
    OK(limic_tag_probe(world, 0, 1, UINT64_MAX, LIMIC_FOREVER, &status));
    CHECK(status.length == length && status.has_immediate == 0);
    tell(0);
    hear(0);
    OK(limic_tag_recv(world, data, length, 0, 1, UINT64_MAX, NULL));
}

/* On one node a short message is delivered before anybody asks for it. */
static void delivered(void)
{
    char byte;
    if (rank == 0) {
        limic_request request = start("d", 1, LIMIC_SEND_DELIVERED, 0);
        OK(limic_wait(&request, LIMIC_FOREVER, NULL));
        tell(1);
        return;
    }
    hear(0);
    OK(limic_tag_recv(world, &byte, 1, 0, 1, UINT64_MAX, NULL));
    CHECK(byte == 'd');
}

static void words(void)
{
    static const size_t lengths[] = {0, 8, 5000, 100000};
    static char data[100000];
    limic_status status = LIMIC_STATUS_INIT;
    for (uint64_t at = 0; at < 4; at++) {
        if (rank == 0) {
            limic_request request = start(data, lengths[at], LIMIC_SEND_IMMEDIATE, ~at);
            OK(limic_wait(&request, LIMIC_FOREVER, &status));
            CHECK(status.has_immediate == 0);
            request = start(data, lengths[at], 0, 5);
            OK(limic_wait(&request, LIMIC_FOREVER, NULL));
            continue;
        }
        OK(limic_tag_probe(world, 0, 1, UINT64_MAX, LIMIC_FOREVER, &status));
        CHECK(status.has_immediate == 1 && status.immediate == ~at);
        status.immediate = 0;
        /* A message that is too long brings its word too. */
        size_t room = lengths[at] / 2;
        GIVES(room == lengths[at] ? LIMIC_OK : LIMIC_ERR_TRUNCATED,
              limic_tag_recv(world, data, room, 0, 1, UINT64_MAX, &status));
        CHECK(status.has_immediate == 1 && status.immediate == ~at);
        CHECK(status.length == lengths[at]);
        OK(limic_recv(world, data, sizeof data, 0, 1, 0, &status));
        CHECK(status.has_immediate == 0 && status.immediate == 0);
    }
}

int main(void)
{
    limic_request request;
    join();
    matched(1);
    matched(100000);
    delivered();
    words();
    GIVES(LIMIC_ERR_INVALID, limic_tag_isendv(world, NULL, 0, rank, 1, 8, 0, &request));
    GIVES(LIMIC_ERR_INVALID, limic_tag_isendv(world, NULL, -1, rank, 1, 0, 0, &request));
    GIVES(LIMIC_ERR_NULL, limic_tag_isendv(world, NULL, 0, rank, 1, 0, 0, NULL));
    leave();
    return 0;
}
