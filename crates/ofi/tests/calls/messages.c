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
    say();
    hear();
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

/* A buffer for many keeps its place: receives that are posted after it get what it has no room for,
 * also if all messages come before anybody looks. */
static void in_the_order_posted(void)
{
    enum { COUNT = 12, LEN = 100, FIT = 6 };
    static char room[FIT * 112], later[COUNT][LEN], out[LEN];
    size_t least = LEN;
    OK(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least));
    struct iovec whole = {room, sizeof room};
    struct fi_msg message = {.msg_iov = &whole, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &contexts[0]};
    for (int late = 0; late < 2; late++) {
        /* Some wait already in the second round. */
        int waiting = late ? 2 : 0;
        for (int i = 0; i < waiting; i++)
            OK(fi_inject(ep, out, LEN, myself));
        OK(fi_recvmsg(ep, &message, FI_MULTI_RECV | FI_COMPLETION));
        for (int i = 0; i < COUNT - FIT; i++)
            OK(fi_recv(ep, later[i], LEN, NULL, FI_ADDR_UNSPEC, &contexts[1 + i]));
        for (int i = waiting; i < COUNT; i++)
            OK(fi_inject(ep, out, LEN, myself));
        for (int i = 0; i < COUNT; i++) {
            struct fi_cq_tagged_entry entry = completion();
            CHECK(entry.len == LEN);
            CHECK(entry.op_context == &contexts[i < FIT ? 0 : 1 + i - FIT]);
            CHECK(!!(entry.flags & FI_MULTI_RECV) == (i == FIT - 1));
        }
    }
    meet();
}

/* With selective completion, messages are silent that were not asked for; the end of the buffer is
 * not. */
static void silent_but_for_its_end(void)
{
    enum { COUNT = 4, LEN = 1000 };
    static char room[COUNT * 1008], out[LEN];
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_cq_tagged_entry entry;
    struct fid_cq *queue;
    struct fid_ep *end;
    char name[64];
    size_t len = sizeof name, least = LEN;
    fi_addr_t itself;
    OK(fi_cq_open(domain, &attr, &queue, NULL));
    OK(fi_endpoint(domain, info, &end, NULL));
    OK(fi_ep_bind(end, &av->fid, 0));
    OK(fi_ep_bind(end, &queue->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION));
    OK(fi_setopt(&end->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least));
    OK(fi_enable(end));
    OK(fi_getname(&end->fid, name, &len));
    CHECK(fi_av_insert(av, name, 1, &itself, 0, NULL) == 1);
    struct iovec whole = {room, sizeof room};
    struct fi_msg message = {.msg_iov = &whole, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &contexts[0]};
    OK(fi_recvmsg(end, &message, FI_MULTI_RECV));
    for (int i = 0; i < COUNT; i++) {
        CHECK(fi_cq_read(queue, &entry, 1) == -FI_EAGAIN);
        OK(fi_inject(end, out, LEN, itself));
    }
    CHECK(fi_cq_read(queue, &entry, 1) == 1);
    CHECK(entry.op_context == &contexts[0] && (entry.flags & FI_MULTI_RECV));
    CHECK(fi_cq_read(queue, &entry, 1) == -FI_EAGAIN);
    OK(fi_close(&end->fid));
    OK(fi_close(&queue->fid));
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
    in_the_order_posted();
    silent_but_for_its_end();
    cancelled_on_its_way();
}
