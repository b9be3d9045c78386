/* Atomic operations and writes: what they count, their order, and what of their pieces does not
 * agree. */
#include "calls.h"

enum { LEN = 1 << 16, WORDS = 512 };
static uint64_t mine[LEN / 8], key;

/*
 * A counter of sends and writes counts what the application started, each once: neither what atomic
 * operations and writes with data say to the peer, nor the answers that this side gives.
 */
static void counted(void)
{
    struct fid_cntr *started;
    struct fid_ep *end;
    uint64_t one = 1;
    OK(fi_cntr_open(domain, NULL, &started, NULL));
    end = open_end(info, started);
    fi_addr_t peer = swap_names(end);
    for (int i = 0; i < 10; i++) {
        RETRY(fi_atomic(end, &one, 1, NULL, peer, 0, key, FI_UINT64, FI_SUM, &contexts[0]));
        CHECK(completion().op_context == &contexts[0]);
    }
    /* The other side's write with data comes into the same queue. */
    meet();
    for (int i = 0; i < 10; i++)
        RETRY(fi_inject_atomic(end, &one, 1, peer, 0, key, FI_UINT64, FI_SUM));
    RETRY(fi_inject_writedata(end, &one, 8, 5, peer, 64, key));
    CHECK(completion().data == 5);
    for (int i = 0; i < 3; i++)
        OK(fi_tinject(end, &one, 8, peer, 1));
    OK(fi_cntr_wait(started, 24, 5000));
    meet();
    CHECK(mine[0] == 20 && fi_cntr_read(started) == 24 && fi_cntr_readerr(started) == 0);
    OK(fi_close(&end->fid));
    OK(fi_close(&started->fid));
    meet();
}

/* A long operation is executed before a short one that was started after it. */
static void in_order(void)
{
    uint64_t words[WORDS], last, seen[2];
    for (uint64_t round = 0; round < 200; round++) {
        for (int i = 0; i < WORDS; i++)
            words[i] = 2 * round + 1;
        last = 2 * round + 2;
        RETRY(fi_inject_atomic(ep, words, WORDS, other, 0, key, FI_UINT64, FI_ATOMIC_WRITE));
        RETRY(fi_inject_atomic(ep, &last, 1, other, 0, key, FI_UINT64, FI_ATOMIC_WRITE));
        RETRY(fi_fetch_atomic(ep, NULL, 2, NULL, seen, NULL, other, 0, key, FI_UINT64, FI_ATOMIC_READ, &contexts[0]));
        CHECK(completion().op_context == &contexts[0]);
        CHECK(seen[0] == last && seen[1] == words[1]);
    }
    meet();
}

/* Injected writes to several places; lengths on both sides have to agree. */
static void pieces(void)
{
    unsigned char bytes[900];
    fill(bytes, sizeof bytes, me);
    struct iovec local[2] = {{bytes, 300}, {bytes + 300, 600}};
    struct fi_rma_iov remote[3] = {{0, 100, key}, {1000, 700, key}, {5000, 100, key}};
    struct fi_msg_rma message = {.msg_iov = local, .iov_count = 2, .addr = other, .rma_iov = remote, .rma_iov_count = 3,
                                 .context = &contexts[0]};
    RETRY(fi_writemsg(ep, &message, FI_INJECT | FI_COMPLETION));
    memset(bytes, 0, sizeof bytes);
    CHECK(completion().op_context == &contexts[0]);
    meet();
    unsigned char *place = (unsigned char *) mine;
    fill(bytes, sizeof bytes, !me);
    CHECK(!memcmp(place, bytes, 100) && !memcmp(place + 1000, bytes + 100, 700) && !memcmp(place + 5000, bytes + 800, 100));
    meet();
    message.rma_iov_count = 2;
    CHECK(fi_writemsg(ep, &message, FI_INJECT | FI_COMPLETION) == -FI_EINVAL);
    CHECK(fi_writemsg(ep, &message, FI_COMPLETION) == -FI_EINVAL);
    message.rma_iov_count = 1;
    remote[0].len = 901;
    CHECK(fi_writemsg(ep, &message, FI_INJECT) == -FI_EINVAL);
    uint64_t two[2] = {1, 1};
    struct fi_ioc operand = {two, 2};
    struct fi_rma_ioc target = {0, 3, key};
    struct fi_msg_atomic atomic = {.msg_iov = &operand, .iov_count = 1, .addr = other, .rma_iov = &target,
                                   .rma_iov_count = 1, .datatype = FI_UINT64, .op = FI_SUM, .context = &contexts[0]};
    CHECK(fi_atomicmsg(ep, &atomic, FI_COMPLETION) == -FI_EINVAL);
    target.count = 2;
    RETRY(fi_atomicmsg(ep, &atomic, FI_COMPLETION));
    CHECK(completion().op_context == &contexts[0]);
    meet();
}

/* An endpoint without such capabilities answers all the same, whatever its domain's memory allows:
 * it refuses. */
static void refused(void)
{
    uint64_t one = 1;
    struct fi_info *messages = fi_dupinfo(info);
    messages->caps = FI_MSG | FI_TAGGED | FI_SEND | FI_RECV;
    struct fid_ep *end = open_end(messages, NULL);
    fi_addr_t peer = swap_names(end);
    RETRY(fi_atomic(ep, &one, 1, NULL, peer, 0, key, FI_UINT64, FI_SUM, &contexts[0]));
    struct fi_cq_err_entry error = failure();
    CHECK(error.err == FI_EKEYREJECTED && error.op_context == &contexts[0]);
    meet();
    OK(fi_close(&end->fid));
    fi_freeinfo(messages);
}

/* What may only be written gives nothing away: neither to a read nor to a change that fetches. */
static void only_written(void)
{
    enum { ONLY = 9 };
    static uint64_t secret = 77;
    uint64_t one = 1, seen = 0;
    struct fid_mr *region;
    OK(fi_mr_reg(domain, &secret, sizeof secret, FI_REMOTE_WRITE, 0, ONLY, 0, &region, NULL));
    meet();
    RETRY(fi_atomic(ep, &one, 1, NULL, other, 0, ONLY, FI_UINT64, FI_SUM, &contexts[0]));
    CHECK(completion().op_context == &contexts[0]);
    RETRY(fi_fetch_atomic(ep, NULL, 1, NULL, &seen, NULL, other, 0, ONLY, FI_UINT64, FI_ATOMIC_READ, &contexts[0]));
    CHECK(failure().err == FI_EKEYREJECTED);
    RETRY(fi_fetch_atomic(ep, &one, 1, NULL, &seen, NULL, other, 0, ONLY, FI_UINT64, FI_SUM, &contexts[0]));
    CHECK(failure().err == FI_EKEYREJECTED);
    RETRY(fi_compare_atomic(ep, &one, 1, NULL, &one, NULL, &seen, NULL, other, 0, ONLY, FI_UINT64, FI_CSWAP, &contexts[0]));
    CHECK(failure().err == FI_EKEYREJECTED);
    meet();
    CHECK(secret == 78 && seen == 0);
    OK(fi_close(&region->fid));
}

/*
 * A peer asks for more than it takes the answers to. What this side injects goes on all the same,
 * and the peer gets all answers when it takes them.
 */
static void untaken(void)
{
    enum { AT_ONCE = 128, ROUNDS = 160, SUM = WORDS };
    static uint64_t seen[WORDS];
    uint64_t one = 1, before = mine[SUM];
    meet();
    for (int round = 1; round <= ROUNDS; round++) {
        char byte = 0;
        if (me) {
            /* So few that all go at once: this side makes no progress meanwhile. */
            for (int i = 1; i < AT_ONCE; i++)
                OK(fi_fetch_atomic(ep, NULL, WORDS, NULL, seen, NULL, other, 0, key, FI_UINT64, FI_ATOMIC_READ, NULL));
            OK(fi_fetch_atomic(ep, &one, 1, NULL, seen, NULL, other, 8 * SUM, key, FI_UINT64, FI_SUM, NULL));
            CHECK(recv(line_to_other, &byte, 1, 0) == 1);
        } else {
            while (mine[SUM] < before + round)
                fi_cq_read(cq, NULL, 0);
            CHECK(write(line_to_other, &byte, 1) == 1);
        }
    }
    if (!me)
        for (int i = 0; i < 3; i++) {
            OK(fi_inject_atomic(ep, &one, 1, myself, 8 * SUM, key, FI_UINT64, FI_SUM));
            fi_cq_read(cq, NULL, 0);
        }
    else
        for (int left = AT_ONCE * ROUNDS; left > 0; left--)
            completion();
    meet();
}

void atomics(void)
{
    struct fid_mr *region;
    OK(fi_mr_reg(domain, mine, LEN, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0, &region, NULL));
    key = fi_mr_key(region);
    meet();
    counted();
    in_order();
    pieces();
    refused();
    only_written();
    untaken();
    OK(fi_close(&region->fid));
}
