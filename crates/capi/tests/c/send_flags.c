/* Sends that are done when their message has matched, or is delivered; words beside messages. */
#include "check.h"
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* Sends messages that are delivered, and is killed as soon as they are. */
static void sender(const unsigned char *address, const size_t *lengths, int count)
{
    limic_request requests[4];
    limic_endpoint own;
    uint32_t to;
    OK(limic_endpoint_open(NULL, &own));
    OK(limic_connect(own, address, LIMIC_ADDRESS_LENGTH, &to));
    OK(limic_send(own, NULL, 0, to, 5, 5));
    for (int at = 0; at < count; at++) {
        struct iovec piece = {room(lengths[at]), lengths[at]};
        fill(piece.iov_base, lengths[at], (uint32_t)at);
        OK(limic_tag_isendv(own, &piece, 1, to, (uint64_t)at, LIMIC_SEND_DELIVERED, 0,
                            &requests[at]));
    }
    OK(limic_wait_all(count, requests, LIMIC_FOREVER, NULL));
    raise(SIGKILL);
}

/* What is delivered comes, though its sender has ended: before anybody has asked for it where it is
 * short, and where it is long, of which a copy out of the sender's memory is left. */
static void delivered(const size_t *lengths, int count, int before)
{
    unsigned char address[LIMIC_ADDRESS_LENGTH];
    limic_status status = LIMIC_STATUS_INIT;
    limic_endpoint own;
    int ended;
    OK(limic_endpoint_open(NULL, &own));
    OK(limic_address(own, address, sizeof address));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        sender(address, lengths, count);
    OK(limic_recv(own, NULL, 0, LIMIC_ANY_SOURCE, 5, 5, &status));
    uint32_t from = status.source;
    if (before)
        CHECK(waitpid(child, &ended, 0) == child && WIFSIGNALED(ended));
    for (int at = 0; at < count; at++) {
        void *data = room(lengths[at]);
        OK(limic_tag_recv(own, data, lengths[at], from, (uint64_t)at, UINT64_MAX, &status));
        CHECK(status.length == lengths[at] && filled(data, lengths[at], (uint32_t)at));
        free(data);
    }
    if (!before)
        CHECK(waitpid(child, &ended, 0) == child && WIFSIGNALED(ended));
    OK(limic_endpoint_close(own));
}

static void delivered_messages(void)
{
    static const size_t of_all[] = {0, 100, 5000, 3000000};
    if (rank == 0) {
        delivered(of_all, 3, 1);
        delivered(of_all, 4, 0);
    }
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
    words();
    delivered_messages();
    GIVES(LIMIC_ERR_INVALID, limic_tag_isendv(world, NULL, 0, rank, 1, 8, 0, &request));
    GIVES(LIMIC_ERR_INVALID, limic_tag_isendv(world, NULL, -1, rank, 1, 0, 0, &request));
    GIVES(LIMIC_ERR_NULL, limic_tag_isendv(world, NULL, 0, rank, 1, 0, 0, NULL));
    leave();
    return 0;
}
