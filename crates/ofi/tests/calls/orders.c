/* Accesses in the order in which they were made, where that is asked for. */
#include "calls.h"

enum { LEN = 1 << 20, WITHIN = 70000, FROM = 1000, WORD = LEN, ROUNDS = 20, KEY = 7 };
static unsigned char mine[LEN + 8], first[LEN], second[LEN], back[LEN];

/* Waits for so many operations, each of which went well. */
static void over(int count)
{
    while (count-- > 0)
        completion();
}

/* A read sees what was written before it, and nothing of what is written later. */
static void read_between_writes(unsigned seed)
{
    fill(first, LEN, seed);
    fill(second, LEN, seed + 1);
    RETRY(fi_write(ep, first, LEN, NULL, other, 0, KEY, &contexts[0]));
    RETRY(fi_write(ep, second + FROM, WITHIN, NULL, other, FROM, KEY, &contexts[1]));
    RETRY(fi_read(ep, back, LEN, NULL, other, 0, KEY, &contexts[2]));
    RETRY(fi_write(ep, second, LEN, NULL, other, 0, KEY, &contexts[3]));
    over(4);
    memcpy(first + FROM, second + FROM, WITHIN);
    CHECK(!memcmp(back, first, LEN));
    RETRY(fi_read(ep, back, LEN, NULL, other, 0, KEY, &contexts[0]));
    over(1);
    CHECK(!memcmp(back, second, LEN));
}

/* The same with accesses that the owner executes. */
static void beside_messages(uint64_t seed)
{
    uint64_t one = 1, before = 0, after = 0, written = 0;
    RETRY(fi_write(ep, first, LEN, NULL, other, 0, KEY, &contexts[0]));
    RETRY(fi_write(ep, &seed, 8, NULL, other, WORD, KEY, &contexts[1]));
    RETRY(fi_fetch_atomic(ep, &one, 1, NULL, &before, NULL, other, WORD, KEY, FI_UINT64, FI_SUM, &contexts[2]));
    RETRY(fi_read(ep, &after, 8, NULL, other, WORD, KEY, &contexts[3]));
    RETRY(fi_inject_writedata(ep, &one, 8, 0, other, WORD, KEY));
    RETRY(fi_read(ep, &written, 8, NULL, other, WORD, KEY, &contexts[4]));
    /* One of them tells of the other side's write with data. */
    over(6);
    CHECK(before == seed && after == seed + 1 && written == 1);
}

/* The same with several pieces of remote memory, and with bytes that are given back at once. */
static void in_pieces(unsigned seed)
{
    enum { PIECE = 100000, GAP = 5000, FEW = 64 };
    struct fi_rma_iov pieces[2] = {{0, PIECE, KEY}, {PIECE + GAP, PIECE, KEY}};
    struct fi_rma_iov turned[2] = {pieces[1], pieces[0]};
    unsigned char few[FEW];
    fill(first, 2 * PIECE, seed);
    fill(second, LEN, seed + 1);
    fill(few, FEW, seed + 2);
    struct iovec from = {second, 2 * PIECE}, to = {back, 2 * PIECE};
    struct fi_msg_rma message = {
        .msg_iov = &from, .iov_count = 1, .addr = other, .rma_iov = pieces, .rma_iov_count = 2, .context = &contexts[0]};
    RETRY(fi_writemsg(ep, &message, FI_COMPLETION));
    from.iov_base = first;
    message.context = &contexts[1];
    RETRY(fi_writemsg(ep, &message, FI_COMPLETION));
    RETRY(fi_inject_write(ep, few, FEW, other, PIECE - FEW, KEY));
    memset(few, 0, FEW);
    message.msg_iov = &to;
    message.rma_iov = turned;
    message.context = &contexts[2];
    RETRY(fi_readmsg(ep, &message, FI_COMPLETION));
    RETRY(fi_write(ep, second, LEN, NULL, other, 0, KEY, &contexts[3]));
    over(4);
    fill(few, FEW, seed + 2);
    memcpy(first + PIECE - FEW, few, FEW);
    CHECK(!memcmp(back, first + PIECE, PIECE) && !memcmp(back + PIECE, first, PIECE));
}

/* A long write with data, which is told to the other side. */
static void with_data(unsigned seed)
{
    fill(first, LEN, seed);
    fill(second, LEN, seed + 1);
    RETRY(fi_write(ep, second, LEN, NULL, other, 0, KEY, &contexts[0]));
    RETRY(fi_writedata(ep, first, LEN, NULL, seed, other, 0, KEY, &contexts[1]));
    RETRY(fi_read(ep, back, LEN, NULL, other, 0, KEY, &contexts[2]));
    /* One of them tells of the other side's write. */
    over(4);
    CHECK(!memcmp(back, first, LEN));
}

void orders(void)
{
    struct fid_mr *region;
    struct fid_ep *none;
    struct fi_info *unknown = fi_dupinfo(info);
    unknown->rx_attr->msg_order = 1ULL << 63;
    CHECK(fi_endpoint(domain, unknown, &none, NULL) == -FI_EINVAL);
    fi_freeinfo(unknown);
    OK(fi_mr_reg(domain, mine, sizeof mine, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &region, NULL));
    CHECK((info->tx_attr->msg_order & asked_orders) == asked_orders && (info->rx_attr->msg_order & asked_orders) == asked_orders);
    CHECK(info->ep_attr->max_order_raw_size >= LEN && info->ep_attr->max_order_war_size >= LEN &&
          info->ep_attr->max_order_waw_size >= LEN);
    meet();
    for (unsigned round = 0; round < ROUNDS; round++) {
        read_between_writes(2 * round + me);
        /* Writes with data are reported here, too. */
        meet();
        beside_messages(1000 + round);
        meet();
        in_pieces(2000 + 3 * round + me);
        meet();
        with_data(3000 + 2 * round + me);
        meet();
    }
    OK(fi_close(&region->fid));
}
