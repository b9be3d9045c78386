/*
 * Two processes that call the provider through libfabric, in lockstep. Usage: calls PART
 * Exits with 0 if all is as libfabric's manual pages say.
 */
#include <poll.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int me, line_to_other;
static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_ep *ep;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_cntr *counter;
static fi_addr_t other, myself;
static struct fi_context2 contexts[64];

#define CHECK(what)                                                            \
    do {                                                                       \
        if (!(what)) {                                                         \
            fprintf(stderr, "process %d, line %d: %s\n", me, __LINE__, #what); \
            _exit(1);                                                          \
        }                                                                      \
    } while (0)
#define OK(call)                                                               \
    do {                                                                       \
        long code_ = (long) (call);                                            \
        if (code_ != 0) {                                                      \
            fprintf(stderr, "process %d, line %d: %s: %ld (%s)\n", me,         \
                    __LINE__, #call, code_, fi_strerror((int) -code_));        \
            _exit(1);                                                          \
        }                                                                      \
    } while (0)
/* Calls that may ask for progress first. */
#define RETRY(call)                                                            \
    do {                                                                       \
        long again_;                                                           \
        while ((again_ = (long) (call)) == -FI_EAGAIN)                         \
            fi_cq_read(cq, NULL, 0);                                           \
        OK(again_);                                                            \
    } while (0)

/* Waits for the other process, making progress meanwhile. */
static void meet(void)
{
    char byte = 0;
    CHECK(send(line_to_other, &byte, 1, MSG_NOSIGNAL) == 1);
    while (recv(line_to_other, &byte, 1, MSG_DONTWAIT) != 1)
        fi_cq_read(cq, NULL, 0);
}

/* A send that may end at any time, and whether it has. */
static void *any_time;
static int ended;

static struct fi_cq_tagged_entry completion(void)
{
    struct fi_cq_tagged_entry entry;
    ssize_t count;
    while ((count = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN || (count == 1 && any_time && entry.op_context == any_time))
        ended |= count == 1;
    if (count == -FI_EAVAIL) {
        struct fi_cq_err_entry error = {0};
        fi_cq_readerr(cq, &error, 0);
        fprintf(stderr, "process %d: failed: %s\n", me, fi_strerror(error.err));
        _exit(1);
    }
    CHECK(count == 1);
    return entry;
}

static struct fi_cq_err_entry failure(void)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t count;
    while ((count = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN || (count == 1 && any_time && entry.op_context == any_time))
        ended |= count == 1;
    CHECK(count == -FI_EAVAIL);
    CHECK(fi_cq_readerr(cq, &error, 0) == 1);
    char text[100];
    CHECK(fi_cq_strerror(cq, error.prov_errno, NULL, text, sizeof text) && *text);
    return error;
}

static void open_all(enum fi_wait_obj wait, int threading, int mr_mode)
{
    struct fi_info *hints = fi_allocinfo();
    hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE;
    hints->mode = FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = threading;
    hints->domain_attr->mr_mode = mr_mode;
    hints->tx_attr->op_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
    hints->rx_attr->op_flags = FI_COMPLETION;
    hints->fabric_attr->prov_name = strdup("limic");
    OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
    CHECK(strcmp(info->fabric_attr->prov_name, "limic") == 0);
    CHECK((info->caps & hints->caps) == hints->caps);
    CHECK(info->mode == FI_CONTEXT2);
    fi_freeinfo(hints);
    OK(fi_fabric(info->fabric_attr, &fabric, NULL));
    OK(fi_domain(fabric, info, &domain, NULL));
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE, .count = 4};
    OK(fi_av_open(domain, &av_attr, &av, NULL));
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = wait};
    OK(fi_cq_open(domain, &cq_attr, &cq, NULL));
    OK(fi_cntr_open(domain, NULL, &counter, NULL));
    OK(fi_endpoint(domain, info, &ep, NULL));
    OK(fi_ep_bind(ep, &av->fid, 0));
    OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION));
    OK(fi_ep_bind(ep, &counter->fid, FI_READ | FI_WRITE));
    OK(fi_enable(ep));
    char mine[256], theirs[256];
    size_t len = 0;
    CHECK(fi_getname(&ep->fid, NULL, &len) == -FI_ETOOSMALL && len == 48);
    OK(fi_getname(&ep->fid, mine, &len));
    CHECK(write(line_to_other, mine, len) == (ssize_t) len);
    CHECK(read(line_to_other, theirs, len) == (ssize_t) len);
    CHECK(fi_av_insert(av, theirs, 1, &other, 0, NULL) == 1 && other == 0);
    CHECK(fi_av_insert(av, mine, 1, &myself, 0, NULL) == 1 && myself == 1);
    memset(theirs, 7, len);
    fi_addr_t none;
    int why = 0;
    CHECK(fi_av_insert(av, theirs, 1, &none, FI_SYNC_ERR, &why) == 0 && none == FI_ADDR_NOTAVAIL && why != 0);
    size_t room = sizeof theirs;
    OK(fi_av_lookup(av, other, theirs, &room));
    CHECK(room == len);
}

static void close_all(void)
{
    CHECK(fi_close(&domain->fid) == -FI_EBUSY);
    CHECK(fi_close(&cq->fid) == -FI_EBUSY);
    OK(fi_close(&ep->fid));
    OK(fi_close(&cq->fid));
    OK(fi_close(&counter->fid));
    OK(fi_close(&av->fid));
    OK(fi_close(&domain->fid));
    OK(fi_close(&fabric->fid));
    fi_freeinfo(info);
}

static unsigned char pattern(size_t at, unsigned seed) { return (unsigned char) (at * 7 + seed); }

static void fill(unsigned char *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = pattern(i, seed);
}

static int right(const unsigned char *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != pattern(i, seed))
            return 0;
    return 1;
}

/* Tagged messages of all lengths, with data, in pieces, by inject, found by PEEK, claimed and discarded. */
static void tagged(void)
{
    static const size_t lengths[] = {0, 8, 40, 41, 4096, 70000, 3000000};
    unsigned char *out = malloc(3000000), *in = malloc(3000000);
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t len = lengths[i];
        fill(out, len, me + i);
        memset(in, 0, len);
        OK(fi_trecv(ep, in, len, NULL, i % 2 ? other : FI_ADDR_UNSPEC, 0x100 | i, 0, &contexts[0]));
        OK(fi_tsenddata(ep, out, len, NULL, 1000 + me + i, other, 0x100 | i, &contexts[1]));
        for (int both = 0; both < 2; both++) {
            struct fi_cq_tagged_entry entry = completion();
            if (entry.op_context == &contexts[1]) {
                CHECK((entry.flags & (FI_SEND | FI_TAGGED)) == (FI_SEND | FI_TAGGED));
                continue;
            }
            CHECK(entry.op_context == &contexts[0] && entry.len == len && entry.tag == (0x100 | i));
            CHECK((entry.flags & (FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA)) == (FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA));
            CHECK(entry.data == 1000u + !me + i && entry.buf == in);
        }
        CHECK(right(in, len, !me + i));
        meet();
    }
    /* Pieces on both sides, and a source that is told. */
    struct iovec pieces[3] = {{out, 100}, {out + 500, 1000}, {out + 100, 7}};
    struct iovec rooms[2] = {{in, 1000}, {in + 2000, 107}};
    fill(out, 3000, me);
    OK(fi_trecvv(ep, rooms, NULL, 2, FI_ADDR_UNSPEC, 0xff, 0xf0, &contexts[0]));
    meet();
    OK(fi_tsendv(ep, pieces, NULL, 3, other, 0x2f, &contexts[1]));
    for (int both = 0; both < 2; both++) {
        struct fi_cq_tagged_entry entry;
        fi_addr_t source;
        ssize_t count;
        while ((count = fi_cq_readfrom(cq, &entry, 1, &source)) == -FI_EAGAIN)
            ;
        CHECK(count == 1);
        if (entry.op_context == &contexts[0])
            CHECK(entry.len == 1107 && entry.tag == 0x2f && source == other);
    }
    CHECK(in[0] == pattern(0, !me) && in[100] == pattern(500, !me) && in[2099] == pattern(1499, !me) &&
          in[2106] == pattern(106, !me));
    /* A look that finds nothing is a completion too. */
    struct fi_msg_tagged message = {.addr = FI_ADDR_UNSPEC, .tag = 0x500, .context = &contexts[2]};
    OK(fi_trecvmsg(ep, &message, FI_PEEK));
    struct fi_cq_err_entry error = failure();
    CHECK(error.err == FI_ENOMSG && error.op_context == &contexts[2]);
    meet();
    OK(fi_tinject(ep, out, 9, other, 0x500));
    OK(fi_tinjectdata(ep, out, 64, 77, other, 0x501));
    any_time = &contexts[3];
    OK(fi_tsend(ep, out, 900000, NULL, other, 0x502, &contexts[3]));
    OK(fi_tinject(ep, out, 5, other, 0x503));
    OK(fi_tinject(ep, out, 6, other, 0x504));
    int found = 0;
    while (!found) {
        message.tag = 0x504;
        OK(fi_trecvmsg(ep, &message, FI_PEEK | FI_COMPLETION));
        struct fi_cq_tagged_entry entry;
        ssize_t count;
        while ((count = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
            ;
        if (count == -FI_EAVAIL)
            fi_cq_readerr(cq, &error, 0);
        else if (entry.op_context == any_time)
            ended = 1;
        else
            found = entry.op_context == &contexts[2] && entry.len == 6 && entry.tag == 0x504;
    }
    message.tag = 0x501;
    OK(fi_trecvmsg(ep, &message, FI_PEEK | FI_CLAIM));
    struct fi_cq_tagged_entry entry = completion();
    CHECK(entry.len == 64 && entry.data == 77);
    /* Claimed: nobody else sees it; the context alone names it. */
    message.context = &contexts[4];
    OK(fi_trecvmsg(ep, &message, FI_PEEK));
    CHECK(failure().err == FI_ENOMSG);
    struct iovec whole = {in, 64};
    struct fi_msg_tagged claimed = {.msg_iov = &whole, .iov_count = 1, .context = &contexts[2]};
    memset(in, 0, 64);
    OK(fi_trecvmsg(ep, &claimed, FI_CLAIM));
    entry = completion();
    CHECK(entry.op_context == &contexts[2] && entry.len == 64 && right(in, 64, !me));
    /* Discarded with the look, and claimed and then discarded: the sender of the long one is done. */
    message.tag = 0x502;
    OK(fi_trecvmsg(ep, &message, FI_PEEK | FI_DISCARD));
    CHECK(completion().len == 900000);
    message.tag = 0x503;
    OK(fi_trecvmsg(ep, &message, FI_PEEK | FI_CLAIM));
    CHECK(completion().len == 5);
    claimed.context = &contexts[4];
    OK(fi_trecvmsg(ep, &claimed, FI_CLAIM | FI_DISCARD));
    CHECK(completion().op_context == &contexts[4]);
    any_time = NULL;
    CHECK(ended || completion().op_context == &contexts[3]);
    /* Too long, with all that is known of it; and cancelled. */
    OK(fi_trecv(ep, in, 4, NULL, other, 0x500, 0, &contexts[5]));
    error = failure();
    CHECK(error.err == FI_ETRUNC && error.len == 4 && error.olen == 5 && error.tag == 0x500);
    CHECK(error.op_context == &contexts[5] && (error.flags & FI_RECV));
    OK(fi_trecv(ep, in, 4, NULL, other, 0x999, 0, &contexts[6]));
    OK(fi_cancel(&ep->fid, &contexts[6]));
    error = failure();
    CHECK(error.err == FI_ECANCELED && error.op_context == &contexts[6]);
    OK(fi_cancel(&ep->fid, &contexts[6]));
    /* Tags have 63 bits; what is above is refused. */
    CHECK(fi_tsend(ep, out, 1, NULL, other, 1ull << 63, &contexts[0]) == -FI_EINVAL);
    CHECK(fi_tsend(ep, out, 1, NULL, 99, 1, &contexts[0]) == -FI_EINVAL);
    meet();
    OK(fi_trecv(ep, in, 6, NULL, other, 0x504, 0, &contexts[5]));
    CHECK(completion().len == 6);
    free(out);
    free(in);
}

/* Untagged messages beside tagged ones, and one buffer for many. */
static void messages(void)
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
}

/* Reads, writes and atomic operations on memory of the other process. */
static void memory(void)
{
    enum { LEN = 200000 };
    static unsigned char mine[LEN], copy[LEN];
    struct fid_mr *region, *again;
    int basic = info->domain_attr->mr_mode == FI_MR_BASIC;
    fill(mine, LEN, me);
    OK(fi_mr_reg(domain, mine, LEN, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 42, 0, &region, NULL));
    if (!basic)
        CHECK(fi_mr_reg(domain, mine, LEN, FI_REMOTE_READ, 0, 42, 0, &again, NULL) == -FI_ENOKEY);
    uint64_t words[2] = {fi_mr_key(region), basic ? (uintptr_t) mine : 0}, theirs[2];
    CHECK(write(line_to_other, words, sizeof words) == sizeof words);
    CHECK(read(line_to_other, theirs, sizeof theirs) == sizeof theirs);
    uint64_t key = theirs[0], base = theirs[1];
    meet();
    RETRY(fi_read(ep, copy, LEN, NULL, other, base, key, &contexts[0]));
    struct fi_cq_tagged_entry entry = completion();
    CHECK((entry.flags & (FI_RMA | FI_READ)) == (FI_RMA | FI_READ) && right(copy, LEN, !me));
    CHECK(fi_cntr_read(counter) == 1);
    meet();
    fill(copy, LEN, me + 50);
    RETRY(fi_write(ep, copy, 100000, NULL, other, base + 1000, key, &contexts[0]));
    CHECK(completion().flags & FI_WRITE);
    RETRY(fi_inject_write(ep, copy, 200, other, base + 150000, key));
    OK(fi_cntr_wait(counter, 3, 5000));
    meet();
    CHECK(right(mine + 1000, 100000, !me + 50) && right(mine + 150000, 200, !me + 50));
    /* Pieces here and there, with a word for the other side. */
    struct iovec local[2] = {{copy, 300}, {copy + 1000, 500}};
    struct fi_rma_iov remote[2] = {{base + 10, 600, key}, {base + 190000, 200, key}};
    struct fi_msg_rma message = {.msg_iov = local, .iov_count = 2, .addr = other, .rma_iov = remote, .rma_iov_count = 2,
                                 .context = &contexts[0], .data = 99};
    RETRY(fi_writemsg(ep, &message, FI_COMPLETION | FI_REMOTE_CQ_DATA));
    for (int both = 0; both < 2; both++) {
        entry = completion();
        if (entry.flags & FI_REMOTE_CQ_DATA)
            CHECK(entry.data == 99 && (entry.flags & FI_REMOTE_WRITE));
        else
            CHECK(entry.op_context == &contexts[0]);
    }
    CHECK(mine[10] == pattern(0, !me + 50) && mine[310] == pattern(1000, !me + 50));
    CHECK(mine[190199] == pattern(1499, !me + 50));
    meet();
    /* Wrong keys, and places outside. */
    RETRY(fi_read(ep, copy, 8, NULL, other, base, key + 1000, &contexts[0]));
    CHECK(failure().err == FI_EKEYREJECTED);
    RETRY(fi_read(ep, copy, 8, NULL, other, base + LEN - 4, key, &contexts[0]));
    CHECK(failure().err == FI_EACCES);
    /* Atomic operations. */
    memset(mine, 0, LEN);
    meet();
    uint64_t one = 1, before = 7, limit = 0;
    size_t most;
    OK(fi_atomicvalid(ep, FI_UINT64, FI_SUM, &most));
    CHECK(most >= 64 && fi_atomicvalid(ep, FI_DOUBLE, FI_BAND, &most) == -FI_EOPNOTSUPP);
    uint64_t done = fi_cntr_read(counter);
    for (int i = 0; i < 100; i++) {
        RETRY(fi_fetch_atomic(ep, &one, 1, NULL, &before, NULL, other, base, key, FI_UINT64, FI_SUM, &contexts[0]));
        entry = completion();
        CHECK((entry.flags & (FI_ATOMIC | FI_READ)) == (FI_ATOMIC | FI_READ) && before == (uint64_t) i);
    }
    double doubles[3] = {1.5, 2.5, -3};
    RETRY(fi_atomic(ep, doubles, 3, NULL, other, base + 64, key, FI_DOUBLE, FI_SUM, &contexts[0]));
    CHECK(completion().flags & FI_WRITE);
    for (int i = 0; i < 10; i++)
        RETRY(fi_inject_atomic(ep, doubles, 3, other, base + 64, key, FI_DOUBLE, FI_SUM));
    OK(fi_cntr_wait(counter, done + 111, 5000));
    before = 0;
    uint64_t wanted = 100, changed = 5;
    RETRY(fi_compare_atomic(ep, &changed, 1, NULL, &wanted, NULL, &before, NULL, other, base, key, FI_UINT64, FI_CSWAP,
                            &contexts[0]));
    completion();
    CHECK(before == 100);
    RETRY(fi_fetch_atomic(ep, NULL, 1, NULL, &limit, NULL, other, base, key, FI_UINT64, FI_ATOMIC_READ, &contexts[0]));
    completion();
    CHECK(limit == 5);
    RETRY(fi_atomic(ep, doubles, 1, NULL, other, base, key + 1000, FI_DOUBLE, FI_SUM, &contexts[0]));
    CHECK(failure().err == FI_EKEYREJECTED);
    meet();
    double sums[3];
    memcpy(sums, mine + 64, sizeof sums);
    CHECK(sums[0] == 16.5 && sums[1] == 27.5 && sums[2] == -33);
    /* Taken back: the key means nothing any more. */
    OK(fi_close(&region->fid));
    meet();
    RETRY(fi_write(ep, copy, 8, NULL, other, base, key, &contexts[0]));
    CHECK(failure().err == FI_EKEYREJECTED);
    meet();
}

/* Sleeps on the queue, by its descriptor and by sread. */
static void waiting(void)
{
    struct fi_cq_tagged_entry entry;
    char bytes[8];
    int descriptor;
    CHECK(fi_cq_sread(cq, &entry, 1, NULL, 20) == -FI_EAGAIN);
    OK(fi_control(&cq->fid, FI_GETWAIT, &descriptor));
    for (int i = 0; i < 30; i++) {
        OK(fi_trecv(ep, bytes, 8, NULL, other, 1, 0, &contexts[0]));
        if (me == 0)
            OK(fi_tinject(ep, "12345678", 8, other, 1));
        if (i % 2) {
            CHECK(fi_cq_sread(cq, &entry, 1, NULL, -1) == 1);
        } else {
            struct fid *fids[1] = {&cq->fid};
            while (fi_cq_read(cq, &entry, 1) != 1) {
                int ready = fi_trywait(fabric, fids, 1);
                if (ready == -FI_EAGAIN)
                    continue;
                OK(ready);
                struct pollfd poller = {descriptor, POLLIN, 0};
                CHECK(poll(&poller, 1, 30000) >= 0);
            }
        }
        CHECK(entry.op_context == &contexts[0]);
        if (me == 1)
            OK(fi_tinject(ep, "12345678", 8, other, 1));
    }
    OK(fi_cq_signal(cq));
    CHECK(fi_cq_sread(cq, &entry, 1, NULL, -1) == -FI_EAGAIN);
    meet();
}

/* The other process is killed: what needs it ends with an error, and nothing hangs. */
static void killed(pid_t child)
{
    static unsigned char bytes[1000000];
    OK(fi_trecv(ep, bytes, 8, NULL, other, 1, 0, &contexts[0]));
    CHECK(completion().len == 8);
    OK(fi_trecv(ep, bytes, 8, NULL, other, 2, 0, &contexts[0]));
    OK(fi_tsend(ep, bytes, sizeof bytes, NULL, other, 3, &contexts[1]));
    kill(child, SIGKILL);
    for (int both = 0; both < 2; both++) {
        struct fi_cq_err_entry error = failure();
        CHECK(error.err == FI_ECONNRESET);
        CHECK(error.op_context == &contexts[0] || error.op_context == &contexts[1]);
    }
    CHECK(fi_tsend(ep, bytes, 8, NULL, other, 3, &contexts[1]) == -FI_ECONNRESET);
    CHECK(fi_read(ep, bytes, 8, NULL, other, 0, 1, &contexts[1]) == -FI_ECONNRESET);
}

int main(int argc, char **argv)
{
    int lines[2], status;
    const char *part = argc > 1 ? argv[1] : "";
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, lines))
        return 1;
    pid_t child = fork();
    me = child == 0;
    line_to_other = lines[me];
    close(lines[!me]);
    int waits = !strcmp(part, "waiting");
    open_all(waits ? FI_WAIT_FD : FI_WAIT_NONE, waits ? FI_THREAD_SAFE : FI_THREAD_DOMAIN,
             !strcmp(part, "basic-memory") ? FI_MR_BASIC : 0);
    meet();
    if (!strcmp(part, "tagged"))
        tagged();
    else if (!strcmp(part, "messages"))
        messages();
    else if (!strcmp(part, "memory") || !strcmp(part, "basic-memory"))
        memory();
    else if (waits)
        waiting();
    else if (!strcmp(part, "killed")) {
        if (me) {
            OK(fi_tinject(ep, "12345678", 8, other, 1));
            for (;;)
                fi_cq_read(cq, NULL, 0);
        }
        killed(child);
    } else {
        fprintf(stderr, "no part '%s'\n", part);
        return 1;
    }
    close_all();
    if (me)
        return 0;
    waitpid(child, &status, 0);
    int good = strcmp(part, "killed") ? WIFEXITED(status) && WEXITSTATUS(status) == 0 : WIFSIGNALED(status);
    if (good)
        printf("%s: right\n", part);
    return !good;
}
