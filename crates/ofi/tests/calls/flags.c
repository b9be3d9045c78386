/* Default flags of operations: given to an endpoint once, they hold for all calls without flags of
 * their own. */
#include "calls.h"

/* What is asked beyond what there is is refused, and starts nothing; a hint is none of that. */
static void flags_of_single_calls(void)
{
    static const uint64_t beyond[] = {FI_FENCE, FI_TRIGGER, FI_COMMIT_COMPLETE, 1ULL << 40};
    char out[8] = {0}, in[8];
    uint64_t word;
    struct iovec piece = {out, 8}, room = {in, 8};
    struct fi_ioc operand = {&word, 1};
    struct fi_rma_iov there = {0, 8, 99};
    struct fi_rma_ioc word_there = {0, 1, 99};
    struct fi_msg message = {.msg_iov = &piece, .iov_count = 1, .addr = myself, .context = &contexts[0]};
    struct fi_msg_tagged tagged = {.msg_iov = &piece, .iov_count = 1, .addr = myself, .tag = 1, .context = &contexts[0]};
    struct fi_msg_rma access = {.msg_iov = &piece, .iov_count = 1, .addr = myself, .rma_iov = &there, .rma_iov_count = 1};
    struct fi_msg_atomic atomic = {.msg_iov = &operand, .iov_count = 1, .addr = myself, .rma_iov = &word_there,
                                   .rma_iov_count = 1, .datatype = FI_UINT64, .op = FI_SUM};
    for (unsigned i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        CHECK(fi_sendmsg(ep, &message, FI_COMPLETION | beyond[i]) == -FI_EBADFLAGS);
        CHECK(fi_recvmsg(ep, &message, FI_COMPLETION | beyond[i]) == -FI_EBADFLAGS);
        CHECK(fi_tsendmsg(ep, &tagged, FI_COMPLETION | beyond[i]) == -FI_EBADFLAGS);
        CHECK(fi_trecvmsg(ep, &tagged, FI_COMPLETION | beyond[i]) == -FI_EBADFLAGS);
        CHECK(fi_writemsg(ep, &access, FI_COMPLETION | beyond[i]) == -FI_EBADFLAGS);
        CHECK(fi_atomicmsg(ep, &atomic, FI_COMPLETION | beyond[i]) == -FI_EBADFLAGS);
    }
    /* Nobody would be told the data of an atomic operation. */
    CHECK(fi_atomicmsg(ep, &atomic, FI_COMPLETION | FI_REMOTE_CQ_DATA) == -FI_EBADFLAGS);
    OK(fi_tsendmsg(ep, &tagged, FI_COMPLETION | FI_MORE));
    CHECK(completion().op_context == &contexts[0]);
    tagged.msg_iov = &room;
    tagged.context = &contexts[1];
    OK(fi_trecvmsg(ep, &tagged, FI_COMPLETION | FI_MORE));
    CHECK(completion().op_context == &contexts[1]);
    /* It says nothing of a receive, and Intel MPI passes it. */
    CHECK(fi_trecvmsg(ep, &tagged, FI_COMPLETION | FI_PEEK | FI_REMOTE_CQ_DATA) == 0);
    CHECK(failure().err == FI_ENOMSG);
}

/*
 * A send with FI_MATCH_COMPLETE is complete only when its message has met a receive, however short
 * it is; a look at the message is none. Injected bytes are the caller's again all the same.
 */
static void matched(void)
{
    enum { LEN = 200000, LENGTHS = 5 };
    static unsigned char out[LEN], in[LEN];
    static const size_t lengths[LENGTHS] = {0, 8, 4096, 50000, LEN};
    for (int i = 0; i < 2 * LENGTHS; i++) {
        size_t len = lengths[i / 2];
        int to_itself = i == 0, sends = me == 0 || to_itself, receives = me == 1 || to_itself;
        uint64_t flags = FI_COMPLETION | FI_MATCH_COMPLETE | (i % 2 ? FI_INJECT : 0);
        struct iovec piece = {out, len};
        struct fi_msg_tagged message = {.msg_iov = &piece, .iov_count = 1, .addr = to_itself ? myself : other,
                                        .tag = i, .context = &contexts[0]};
        struct fi_msg_tagged look = {.addr = FI_ADDR_UNSPEC, .tag = i, .context = &contexts[1]};
        fill(out, len, i);
        if (sends)
            OK(fi_tsendmsg(ep, &message, flags));
        if (flags & FI_INJECT)
            memset(out, 0, len);
        for (int found = 0; receives && !found;) {
            OK(fi_trecvmsg(ep, &look, FI_PEEK));
            struct fi_cq_tagged_entry entry;
            struct fi_cq_err_entry error = {0};
            found = answer(&entry) == 1;
            CHECK(found ? entry.op_context == &contexts[1] : fi_cq_readerr(cq, &error, 0) == 1);
        }
        /* It is there, and nobody has received it. */
        meet();
        CHECK(fi_cq_read(cq, NULL, 0) == -FI_EAGAIN);
        meet();
        if (receives)
            OK(fi_trecv(ep, in, len, NULL, FI_ADDR_UNSPEC, i, 0, &contexts[2]));
        for (int left = sends + receives; left > 0; left--) {
            struct fi_cq_tagged_entry entry = completion();
            CHECK(entry.op_context == (entry.flags & FI_RECV ? &contexts[2] : &contexts[0]));
        }
        CHECK(!receives || right(in, len, i));
        meet();
    }
}

/* With FI_INJECT a buffer is the caller's again at once, however long a message is and whenever it
 * is received. */
void flags(void)
{
    enum { LEN = 200000 };
    static unsigned char out[LEN], in[LEN];
    flags_of_single_calls();
    matched();
    struct fi_info *injecting = fi_dupinfo(info);
    injecting->tx_attr->op_flags = FI_INJECT | FI_COMPLETION | FI_DELIVERY_COMPLETE;
    struct fid_ep *end = open_end(injecting, NULL);
    fi_addr_t peer = swap_names(end);
    static const size_t lengths[] = {8, 4096, 50000, LEN};
    for (int i = 0; i < 4; i++) {
        size_t len = lengths[i];
        fill(out, len, me + i);
        OK(fi_tsend(end, out, len, NULL, peer, i, &contexts[0]));
        memset(out, 0, len);
        meet();
        OK(fi_trecv(end, in, len, NULL, peer, i, 0, &contexts[1]));
        for (int both = 0, seen = 0; both < 2; both++) {
            struct fi_cq_tagged_entry entry = completion();
            seen |= entry.op_context == &contexts[0] ? 1 : 2;
            CHECK(both == 0 || seen == 3);
        }
        CHECK(right(in, len, !me + i));
        meet();
    }
    /* They can be asked for and changed, but not to what is none of them. */
    uint64_t flags = FI_TRANSMIT;
    OK(fi_control(&end->fid, FI_GETOPSFLAG, &flags));
    CHECK(flags == (FI_INJECT | FI_COMPLETION | FI_DELIVERY_COMPLETE));
    flags = FI_TRANSMIT | FI_PEEK;
    CHECK(fi_control(&end->fid, FI_SETOPSFLAG, &flags) == -FI_EBADFLAGS);
    injecting->tx_attr->op_flags = FI_PEEK;
    struct fid_ep *none;
    CHECK(fi_endpoint(domain, injecting, &none, NULL) == -FI_EBADFLAGS);
    /* The first endpoint reports only what asks for it: calls without flags did by default, and do
     * no longer. */
    flags = FI_TRANSMIT | FI_INJECT;
    OK(fi_control(&ep->fid, FI_SETOPSFLAG, &flags));
    OK(fi_trecv(ep, in, 8, NULL, myself, 1, 0, &contexts[1]));
    OK(fi_tsend(ep, out, 8, NULL, myself, 1, &contexts[0]));
    CHECK(completion().op_context == &contexts[1]);
    CHECK(fi_cq_read(cq, in, 1) == -FI_EAGAIN);
    meet();
    OK(fi_close(&end->fid));
    fi_freeinfo(injecting);
}
