/* Tagged messages. */
#include "calls.h"

enum { ROUNDS = 100, LONG = 100000 };
static unsigned char out[LONG], in[LONG], there[LONG];

/* Waits until so many operations are counted, none of which failed, and uses their contexts for
 * something else. */
static void wait_and_wipe(struct fid_cntr *over, uint64_t count)
{
    while (fi_cntr_read(over) < count)
        CHECK(fi_cntr_readerr(over) == 0);
    memset(contexts, 0xff, 4 * sizeof *contexts);
}

/* A context is the application's again when its operation is counted, though nobody has read the
 * completion. More wait here than a queue has room for at first. */
static void lent_again(void)
{
    static const size_t lengths[] = {1, LONG};
    struct fid_cntr *over;
    struct fid_mr *region;
    OK(fi_cntr_open(domain, NULL, &over, NULL));
    struct fid_ep *end = begin_end(cq, info);
    OK(fi_ep_bind(end, &over->fid, FI_SEND | FI_RECV | FI_READ | FI_WRITE));
    OK(fi_enable(end));
    OK(fi_mr_reg(domain, there, LONG, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 3, 0, &region, NULL));
    fi_addr_t to = swap_names(end);
    meet();
    for (unsigned round = 0; round < ROUNDS; round++) {
        size_t len = lengths[round % 2];
        OK(fi_trecv(end, in, len, NULL, to, round, 0, &contexts[0]));
        OK(fi_tsend(end, out, len, NULL, to, round, &contexts[1]));
        RETRY(fi_write(end, out, len, NULL, to, 0, 3, &contexts[2]));
        RETRY(fi_writedata(end, out, len, NULL, round, to, 0, 3, &contexts[3]));
        wait_and_wipe(over, 4 * (round + 1));
    }
    unsigned received = 0, written = 0, begun[4] = {0};
    for (int i = 0; i < 5 * ROUNDS; i++) {
        struct fi_cq_tagged_entry entry = completion();
        if (entry.flags & FI_RECV)
            CHECK(entry.op_context == &contexts[0] && entry.len == lengths[received % 2] && entry.tag == received++);
        else if (entry.flags & FI_REMOTE_WRITE)
            CHECK(entry.op_context == NULL && entry.data == written++);
        else
            for (int which = 1; which < 4; which++)
                begun[which] += entry.op_context == &contexts[which];
    }
    CHECK(received == ROUNDS && written == ROUNDS);
    CHECK(begun[1] == ROUNDS && begun[2] == ROUNDS && begun[3] == ROUNDS);
    /* So is that of an operation that failed. */
    meet();
    OK(fi_trecv(end, in, 4, NULL, to, 7, 0, &contexts[0]));
    OK(fi_tinject(end, out, 5, to, 7));
    while (fi_cntr_readerr(over) == 0)
        ;
    memset(&contexts[0], 0xff, sizeof contexts[0]);
    struct fi_cq_err_entry error = failure();
    CHECK(error.err == FI_ETRUNC && error.op_context == &contexts[0] && error.len == 4 && error.olen == 1 && error.tag == 7);
    /* An endpoint that is closed takes its completions along, and no others. */
    meet();
    for (int i = 0; i < 3; i++) {
        OK(fi_tsend(end, out, 1, NULL, to, 8, &contexts[0]));
        OK(fi_tsend(ep, out, 1, NULL, other, i, &contexts[1]));
    }
    meet();
    OK(fi_close(&end->fid));
    for (int i = 0; i < 3; i++) {
        OK(fi_trecv(ep, in, 1, NULL, other, i, 0, &contexts[2]));
        CHECK(completion().op_context == &contexts[1]);
    }
    for (int i = 0; i < 3; i++) {
        struct fi_cq_tagged_entry entry = completion();
        CHECK(entry.op_context == &contexts[2] && entry.tag == (uint64_t) i);
    }
    OK(fi_close(&region->fid));
    OK(fi_close(&over->fid));
}

/* Tagged messages of all lengths, with data, in pieces, by inject, found by PEEK, claimed and
 * discarded. */
void tagged(void)
{
    static const size_t lengths[] = {0, 8, 40, 41, 4096, 70000, 3000000};
    unsigned char *out = malloc(3000000), *in = malloc(3000000);
    lent_again();
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
    /* A stream under one tag, in which every third message has no data. */
    for (unsigned len = 0; len <= 64; len++) {
        int has_data = len % 3 != 0;
        fill(out, len, me + len);
        OK(fi_trecv(ep, in, len, NULL, other, 0x200, 0, &contexts[0]));
        OK(has_data ? fi_tinjectdata(ep, out, len, 1000 + me + len, other, 0x200)
                    : fi_tinject(ep, out, len, other, 0x200));
        struct fi_cq_tagged_entry entry = completion();
        CHECK(entry.op_context == &contexts[0] && entry.len == len && right(in, len, !me + len));
        CHECK(!(entry.flags & FI_REMOTE_CQ_DATA) == !has_data);
        CHECK(!has_data || entry.data == 1000u + !me + len);
    }
    meet();
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
    /* A context is free again once its look was answered, also where the long send ends before. */
    struct fi_cq_tagged_entry entry;
    message.tag = 0x504;
    for (ssize_t count = 0; count != 1;) {
        OK(fi_trecvmsg(ep, &message, FI_PEEK | FI_COMPLETION));
        count = answer(&entry);
        if (count == -FI_EAVAIL)
            CHECK(fi_cq_readerr(cq, &error, 0) == 1 && error.err == FI_ENOMSG);
    }
    CHECK(entry.op_context == &contexts[2] && entry.len == 6 && entry.tag == 0x504);
    message.tag = 0x501;
    OK(fi_trecvmsg(ep, &message, FI_PEEK | FI_CLAIM));
    entry = completion();
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
    /* Discarded with the look, and claimed and then discarded: the sender of the long one is done.
     */
    message.tag = 0x502;
    OK(fi_trecvmsg(ep, &message, FI_PEEK | FI_DISCARD));
    CHECK(completion().len == 900000);
    message.tag = 0x503;
    OK(fi_trecvmsg(ep, &message, FI_PEEK | FI_CLAIM));
    CHECK(completion().len == 5);
    claimed.context = &contexts[4];
    OK(fi_trecvmsg(ep, &claimed, FI_CLAIM | FI_DISCARD));
    entry = completion();
    CHECK(entry.op_context == &contexts[4] && entry.len == 5 && entry.tag == 0x503);
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
