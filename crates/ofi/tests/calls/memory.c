/* Memory of the other process. */
#include "calls.h"

/* Reads, writes and atomic operations on memory of the other process. */
void memory(void)
{
    enum { LEN = 200000 };
    static unsigned char mine[LEN], copy[LEN];
    struct fid_mr *region, *again;
    int basic = info->domain_attr->mr_mode == MODE_BASIC;
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
