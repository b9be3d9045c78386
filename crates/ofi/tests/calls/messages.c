/* Untagged messages. */
#include "calls.h"

/* Many messages that are there before anybody looks, into several buffers for many: reported in the
 * order sent. */
static void several_buffers(void)
{
    enum { BUFFERS = 4, COUNT = 40 };
    static unsigned char room[BUFFERS][4096];
    /* With it, messages are taken in beyond those that the buffers were posted for. */
    OK(fi_trecv(ep, room, 0, NULL, FI_ADDR_UNSPEC, 9, 0, &contexts[BUFFERS]));
    for (int i = 0; i < BUFFERS; i++) {
        struct iovec whole = {room[i], sizeof room[i]};
        struct fi_msg message = {.msg_iov = &whole, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &contexts[i]};
        OK(fi_recvmsg(ep, &message, FI_MULTI_RECV | FI_COMPLETION));
    }
    meet();
    for (int i = 0; i < COUNT; i++)
        OK(fi_inject(ep, &i, sizeof i, other));
    /* As in `meet`, but without a look at the queue. */
    char byte = 0;
    CHECK(send(line_to_other, &byte, 1, MSG_NOSIGNAL) == 1 && recv(line_to_other, &byte, 1, 0) == 1);
    for (int i = 0; i < COUNT; i++) {
        struct fi_cq_tagged_entry entry = completion();
        int number;
        CHECK(entry.len == sizeof number);
        memcpy(&number, entry.buf, sizeof number);
        CHECK(number == i);
    }
    for (int i = 0; i <= BUFFERS; i++) {
        OK(fi_cancel(&ep->fid, &contexts[i]));
        CHECK(failure().err == FI_ECANCELED);
    }
    meet();
}

/* A buffer that is posted late does not get ahead of a message that has ended, and that nobody has
 * looked at yet. */
static void a_late_buffer(void)
{
    static unsigned char room[2][4096];
    struct iovec whole[2] = {{room[0], sizeof room[0]}, {room[1], sizeof room[1]}};
    struct fi_msg message = {.iov_count = 1, .addr = FI_ADDR_UNSPEC};
    for (int i = 0; i < 2; i++) {
        message.msg_iov = &whole[i];
        message.context = &contexts[i];
        OK(fi_recvmsg(ep, &message, FI_MULTI_RECV | FI_COMPLETION));
        for (int n = 0; i == 0 && n < 2; n++)
            OK(fi_inject(ep, &n, sizeof n, myself));
    }
    for (int n = 0; n < 2; n++) {
        int number;
        memcpy(&number, completion().buf, sizeof number);
        CHECK(number == n);
    }
    for (int i = 0; i < 2; i++) {
        OK(fi_cancel(&ep->fid, &contexts[i]));
        CHECK(failure().err == FI_ECANCELED);
    }
    meet();
}

/* A buffer that is cancelled while a message is on its way into it comes back with that message. */
static void cancelled_on_its_way(void)
{
    static unsigned char room[6 << 20], out[4 << 20];
    struct iovec whole = {room, sizeof room};
    struct fi_msg message = {.msg_iov = &whole, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &contexts[0]};
    if (me == 1)
        OK(fi_recvmsg(ep, &message, FI_MULTI_RECV | FI_COMPLETION));
    meet();
    if (me == 0) {
        OK(fi_send(ep, out, sizeof out, NULL, other, &contexts[1]));
        CHECK(completion().op_context == &contexts[1]);
        meet();
        return;
    }
    struct fi_cq_tagged_entry entry;
    ssize_t got = -FI_EAGAIN;
    for (int looks = 0; looks < 3 && got == -FI_EAGAIN; looks++)
        got = fi_cq_read(cq, &entry, 1);
    OK(fi_cancel(&ep->fid, &contexts[0]));
    if (got == 1 && !(entry.flags & FI_MULTI_RECV)) {
        CHECK(failure().err == FI_ECANCELED); /* It was over already. */
    } else {
        while (got == -FI_EAGAIN)
            got = fi_cq_read(cq, &entry, 1);
        if (got == -FI_EAVAIL) {
            CHECK(failure().err == FI_ECANCELED); /* It had not begun. */
            OK(fi_recv(ep, room, sizeof out, NULL, FI_ADDR_UNSPEC, &contexts[2]));
            entry = completion();
        } else {
            CHECK(got == 1 && entry.op_context == &contexts[0] && (entry.flags & FI_MULTI_RECV));
        }
        CHECK(entry.len == sizeof out);
    }
    meet();
}

/* Untagged messages beside tagged ones, and one buffer for many. */
void messages(void)
{
    static unsigned char room[40000], out[9000];
    size_t least = 1000;
    OK(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least));
    struct iovec whole = {room, sizeof room};
    struct fi_msg message = {.msg_iov = &whole, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &contexts[0]};
    OK(fi_recvmsg(ep, &message, FI_MULTI_RECV | FI_COMPLETION));
    meet();
    fill(out, sizeof out, me);
    static const size_t lengths[] = {0, 1, 8, 100, 5000, 9000, 9000, 9000, 7000};
    enum { COUNT = sizeof lengths / sizeof *lengths };
    for (int i = 0; i < COUNT; i++) {
        OK(fi_tinject(ep, "x", 1, other, 5));
        OK(fi_inject(ep, out, lengths[i], other));
    }
    unsigned char *before = room;
    for (int i = 0; i < COUNT; i++) {
        struct fi_cq_tagged_entry entry = completion();
        CHECK(entry.op_context == &contexts[0] && entry.len == lengths[i] && (entry.flags & FI_MSG));
        CHECK((unsigned char *) entry.buf >= before && right(entry.buf, entry.len, !me));
        CHECK(!!(entry.flags & FI_MULTI_RECV) == (i == COUNT - 1));
        before = (unsigned char *) entry.buf + entry.len;
    }
    char letter;
    for (int i = 0; i < COUNT; i++) {
        OK(fi_trecv(ep, &letter, 1, NULL, FI_ADDR_UNSPEC, 5, 0, &contexts[1]));
        CHECK(completion().len == 1 && letter == 'x');
    }
    meet();
    /* To oneself, in both kinds; a cancelled buffer. */
    OK(fi_recv(ep, room, 100, NULL, myself, &contexts[2]));
    OK(fi_senddata(ep, out, 50, NULL, 5, myself, &contexts[3]));
    for (int both = 0; both < 2; both++) {
        struct fi_cq_tagged_entry entry = completion();
        if (entry.op_context == &contexts[2])
            CHECK(entry.len == 50 && entry.data == 5);
    }
    OK(fi_recvmsg(ep, &message, FI_MULTI_RECV | FI_COMPLETION));
    OK(fi_cancel(&ep->fid, &contexts[0]));
    CHECK(failure().err == FI_ECANCELED);
    meet();
    several_buffers();
    a_late_buffer();
    cancelled_on_its_way();
}
