/* Counters of what the other process does to memory here (FI_RMA_EVENT). */
#include "calls.h"

#include <poll.h>

enum { LEN = 200000, KEY = 7, PLAIN = 8, LAST = 9, WAIT_MS = 60000 };
static unsigned char mine[LEN], plain[LEN], bytes[LEN];
/* Whether regions are enabled by the application. */
static int enables;

static struct fid_mr *expose(unsigned char *memory, uint64_t key, uint64_t flags)
{
    struct fid_mr *region;
    OK(fi_mr_reg(domain, memory, LEN, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, key, flags, &region, NULL));
    return region;
}

/* One that whoever waits for it sleeps on. */
static struct fid_cntr *open_counter(void)
{
    struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_FD};
    struct fid_cntr *one;
    OK(fi_cntr_open(domain, &attr, &one, NULL));
    return one;
}

/* Waits for a word of the other process without progress, unless the other one needs it. */
static void hear_without_progress(void)
{
    struct pollfd line = {line_to_other, POLLIN, 0};
    if (poll(&line, 1, 500) == 0)
        while (poll(&line, 1, 0) == 0)
            fi_cq_read(cq, NULL, 0);
    hear();
}

static void write_through(fi_addr_t peer, uint64_t key, size_t len, unsigned seed)
{
    fill(bytes, len, seed);
    RETRY(fi_write(ep, bytes, len, NULL, peer, 0, key, &contexts[0]));
    CHECK(completion().op_context == &contexts[0]);
}

static void write_to(uint64_t key, size_t len, unsigned seed) { write_through(other, key, len, seed); }

static void read_from(uint64_t key, size_t len)
{
    RETRY(fi_read(ep, bytes, len, NULL, other, 0, key, &contexts[0]));
    CHECK(completion().op_context == &contexts[0]);
}

/* What cannot be bound is not, and leaves no trace. */
static void refusals(struct fid_mr *region, struct fid_cntr *writes)
{
    struct fid_cntr *another = open_counter();
    struct fid_domain *elsewhere;
    struct fid_cntr *foreign;
    struct fid_mr *none;
    CHECK(fi_mr_bind(region, &another->fid, 0) == -FI_EBADFLAGS);
    CHECK(fi_mr_bind(region, &another->fid, FI_REMOTE_WRITE | FI_WRITE) == -FI_EBADFLAGS);
    CHECK(fi_mr_bind(region, &cq->fid, FI_REMOTE_WRITE) == -FI_ENOSYS);
    OK(fi_domain(fabric, info, &elsewhere, NULL));
    OK(fi_cntr_open(elsewhere, NULL, &foreign, NULL));
    CHECK(fi_mr_bind(region, &foreign->fid, FI_REMOTE_WRITE) == -FI_EDOMAIN);
    OK(fi_close(&foreign->fid));
    OK(fi_close(&elsewhere->fid));
    OK(fi_mr_bind(region, &writes->fid, FI_REMOTE_WRITE));
    CHECK(fi_mr_bind(region, &another->fid, FI_REMOTE_READ | FI_REMOTE_WRITE) == -FI_EINVAL);
    OK(fi_close(&another->fid));
    CHECK(fi_close(&writes->fid) == -FI_EBUSY);
    CHECK(fi_mr_reg(domain, mine, LEN, FI_REMOTE_READ, 0, 99, FI_RMA_EVENT | 1, &none, NULL) == -FI_EBADFLAGS);
}

/* A region that is to be enabled is not there before, and is bound to nothing after that. */
static void enabling(struct fid_mr *region, struct fid_cntr *writes)
{
    struct fid_cntr *late = open_counter();
    int descriptor, kept;
    /* An attempt that fails changes nothing: for want of the descriptor that sleepers need. */
    OK(fi_control(&writes->fid, FI_GETWAIT, &descriptor));
    CHECK((kept = dup(descriptor)) >= 0 && dup2(line_to_other, descriptor) == descriptor);
    CHECK(fi_mr_enable(region) < 0 && fi_mr_enable(region) < 0);
    CHECK(dup2(kept, descriptor) == descriptor && close(kept) == 0);
    meet();
    RETRY(fi_write(ep, bytes, 8, NULL, other, 0, KEY, &contexts[0]));
    CHECK(failure().err == FI_EKEYREJECTED);
    RETRY(fi_writedata(ep, bytes, 8, NULL, 1, other, 0, KEY, &contexts[0]));
    CHECK(failure().err == FI_EKEYREJECTED);
    meet();
    OK(fi_mr_enable(region));
    OK(fi_mr_enable(region));
    CHECK(fi_mr_bind(region, &late->fid, FI_REMOTE_READ) == -FI_EINVAL);
    OK(fi_close(&late->fid));
}

/* Each write is counted once, of whatever kind and length, when its bytes are there; the target
 * sleeps until then. Those to another region are not. */
static void writes_are_counted(struct fid_cntr *writes)
{
    static const size_t lengths[] = {0, 8, 4096, LEN};
    enum { COUNT = sizeof lengths / sizeof *lengths };
    for (int i = 0; i < COUNT; i++) {
        if (me) {
            write_to(PLAIN, lengths[i], 40);
            hear();
            write_to(KEY, lengths[i], i);
        } else {
            say();
            OK(fi_cntr_wait(writes, i + 1, WAIT_MS));
            CHECK(right(mine, lengths[i], i));
        }
        meet();
        CHECK(fi_cntr_read(writes) == (me ? 0 : (uint64_t) i + 1));
        meet();
    }
    if (me) {
        uint64_t one = 1, before;
        RETRY(fi_inject_write(ep, "12345678", 8, other, 0, KEY));
        RETRY(fi_writedata(ep, bytes, 8, NULL, 1, other, 8, KEY, &contexts[0]));
        completion();
        RETRY(fi_writedata(ep, bytes, LEN, NULL, 2, other, 0, KEY, &contexts[0]));
        completion();
        RETRY(fi_atomic(ep, &one, 1, NULL, other, 0, KEY, FI_UINT64, FI_SUM, &contexts[0]));
        completion();
        RETRY(fi_fetch_atomic(ep, &one, 1, NULL, &before, NULL, other, 0, KEY, FI_UINT64, FI_SUM, &contexts[0]));
        completion();
        /* It changes nothing. */
        RETRY(fi_fetch_atomic(ep, NULL, 1, NULL, &before, NULL, other, 0, KEY, FI_UINT64, FI_ATOMIC_READ, &contexts[0]));
        completion();
        /* What is refused is not counted. */
        RETRY(fi_write(ep, bytes, 8, NULL, other, LEN, KEY, &contexts[0]));
        CHECK(failure().err == FI_EACCES);
        read_from(KEY, 8);
    } else
        for (uint64_t data = 1; data <= 2; data++) {
            struct fi_cq_tagged_entry entry = completion();
            CHECK(entry.data == data && (entry.flags & FI_REMOTE_WRITE));
        }
    meet();
    CHECK(fi_cntr_read(writes) == (me ? 0 : COUNT + 5) && fi_cntr_readerr(writes) == 0);
    meet();
}

/* A counter of reads, which is bound while peers reach the region already if that is allowed. */
static void reads_are_counted(struct fid_cntr *reads, struct fid_cntr *writes)
{
    uint64_t before = fi_cntr_read(writes), since = fi_cntr_read(reads);
    meet();
    if (me) {
        uint64_t word;
        hear();
        read_from(KEY, 8);
        read_from(KEY, LEN);
        read_from(PLAIN, 8);
        RETRY(fi_fetch_atomic(ep, NULL, 1, NULL, &word, NULL, other, 0, KEY, FI_UINT64, FI_ATOMIC_READ, &contexts[0]));
        completion();
    } else {
        say();
        OK(fi_cntr_wait(reads, since + 3, WAIT_MS));
    }
    meet();
    CHECK(fi_cntr_read(reads) == since + (me ? 0 : 3) && fi_cntr_read(writes) == before);
    meet();
}

/* Many, of which some are on their way before the target looks. */
static void many(struct fid_cntr *writes)
{
    enum { MANY = 20000 };
    uint64_t before = fi_cntr_read(writes);
    meet();
    if (me)
        for (int i = 0; i < MANY; i++)
            RETRY(fi_inject_write(ep, &i, sizeof i, other, i % 100 * sizeof i, KEY));
    else
        OK(fi_cntr_wait(writes, before + MANY, WAIT_MS));
    meet();
    CHECK(fi_cntr_read(writes) == before + (me ? 0 : MANY));
    meet();
}

/* An endpoint counts what peers do through it, to whichever region. */
static void counters_of_an_endpoint(struct fid_cntr *of_region)
{
    struct fid_cntr *reads = open_counter(), *writes = open_counter();
    uint64_t before, one = 1, word;
    struct fid_ep *end = begin_end(cq, info);
    OK(fi_ep_bind(end, &reads->fid, FI_REMOTE_READ));
    OK(fi_ep_bind(end, &writes->fid, FI_REMOTE_WRITE));
    OK(fi_enable(end));
    CHECK(fi_ep_bind(end, &writes->fid, FI_REMOTE_READ) == -FI_EINVAL);
    fi_addr_t peer = swap_names(end);
    before = fi_cntr_read(of_region);
    meet();
    if (me) {
        hear();
        RETRY(fi_write(ep, bytes, 8, NULL, peer, 0, PLAIN, &contexts[0]));
        completion();
        RETRY(fi_write(ep, bytes, 8, NULL, peer, 0, KEY, &contexts[0]));
        completion();
        RETRY(fi_atomic(ep, &one, 1, NULL, peer, 0, PLAIN, FI_UINT64, FI_SUM, &contexts[0]));
        completion();
        RETRY(fi_read(ep, bytes, LEN, NULL, peer, 0, PLAIN, &contexts[0]));
        completion();
        RETRY(fi_fetch_atomic(ep, &one, 1, NULL, &word, NULL, peer, 0, PLAIN, FI_UINT64, FI_SUM, &contexts[0]));
        completion();
        /* Through the other endpoint. */
        write_to(PLAIN, 8, 1);
    } else {
        say();
        OK(fi_cntr_wait(writes, 3, WAIT_MS));
        OK(fi_cntr_wait(reads, 2, WAIT_MS));
    }
    meet();
    CHECK(fi_cntr_read(writes) == (me ? 0 : 3) && fi_cntr_read(reads) == (me ? 0 : 2));
    CHECK(fi_cntr_read(of_region) == before + !me);
    meet();
    CHECK(fi_close(&writes->fid) == -FI_EBUSY);
    OK(fi_close(&end->fid));
    /* Nothing points to the endpoint any more. */
    CHECK(fi_cntr_read(writes) == (me ? 0 : 3));
    OK(fi_close(&writes->fid));
    OK(fi_close(&reads->fid));
}

/* A counter of a region counts by all endpoints. What was over before counts, though this process
 * has had no turn since: when one of them is closed, and the region stays, and when the region is
 * closed. */
static void news_at_the_end(void)
{
    struct fid_cntr *writes = open_counter();
    struct fid_mr *region = expose(mine, LAST, FI_RMA_EVENT);
    struct fid_ep *end = open_end(info, NULL);
    fi_addr_t peer = swap_names(end);
    OK(fi_mr_bind(region, &writes->fid, FI_REMOTE_WRITE));
    OK(fi_mr_enable(region));
    meet();
    /* With the first one, the two meet. */
    for (uint64_t count = 1; count <= 4; count++) {
        if (me) {
            write_through(count % 2 ? peer : other, LAST, 8, 5);
            say();
        } else {
            hear_without_progress();
            if (count == 3)
                OK(fi_close(&end->fid));
            if (count == 4)
                OK(fi_close(&region->fid));
            CHECK(fi_cntr_read(writes) == count);
        }
        meet();
    }
    if (me) {
        OK(fi_close(&end->fid));
        OK(fi_close(&region->fid));
    }
    OK(fi_close(&writes->fid));
}

/* Pieces would count one by one, so there is one; and what is not asked for is not there. */
static void what_is_offered(void)
{
    struct iovec local[2] = {{bytes, 8}, {bytes + 8, 8}};
    struct fi_rma_iov remote[2] = {{0, 8, PLAIN}, {100, 8, PLAIN}};
    struct fi_msg_rma message = {.msg_iov = local, .iov_count = 2, .addr = other, .rma_iov = remote, .rma_iov_count = 2};
    struct fi_info *hints = fi_allocinfo(), *found;
    struct fid_domain *without;
    struct fid_cntr *one;
    struct fid_mr *region;
    struct fid_ep *end;
    CHECK(info->tx_attr->rma_iov_limit == 1 && (info->rx_attr->caps & FI_RMA_EVENT));
    CHECK(fi_writemsg(ep, &message, FI_COMPLETION) == -FI_EINVAL);
    hints->fabric_attr->prov_name = strdup("limic");
    hints->caps = FI_RMA_EVENT | FI_MSG;
    CHECK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &found) == -FI_ENODATA);
    hints->caps = FI_RMA_EVENT | FI_RMA | FI_WRITE;
    CHECK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &found) == -FI_ENODATA);
    hints->caps = FI_RMA_EVENT | FI_RMA;
    hints->tx_attr->rma_iov_limit = 2;
    CHECK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &found) == -FI_ENODATA);
    hints->caps = FI_RMA;
    hints->domain_attr->mr_mode = FI_MR_RMA_EVENT;
    OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &found));
    CHECK(!(found->caps & FI_RMA_EVENT) && found->tx_attr->rma_iov_limit >= 2);
    CHECK(!(found->domain_attr->mr_mode & FI_MR_RMA_EVENT));
    OK(fi_domain(fabric, found, &without, NULL));
    OK(fi_cntr_open(without, NULL, &one, NULL));
    CHECK(fi_mr_reg(without, mine, LEN, FI_REMOTE_READ, 0, KEY, FI_RMA_EVENT, &region, NULL) == -FI_EBADFLAGS);
    OK(fi_mr_reg(without, mine, LEN, FI_REMOTE_READ, 0, KEY, 0, &region, NULL));
    CHECK(fi_mr_bind(region, &one->fid, FI_REMOTE_WRITE) == -FI_ENOSYS);
    OK(fi_endpoint(without, found, &end, NULL));
    CHECK(fi_ep_bind(end, &one->fid, FI_REMOTE_WRITE) == -FI_EBADFLAGS);
    OK(fi_close(&end->fid));
    OK(fi_close(&region->fid));
    OK(fi_close(&one->fid));
    OK(fi_close(&without->fid));
    fi_freeinfo(found);
    fi_freeinfo(hints);
    meet();
}

void events(void)
{
    struct fid_cntr *writes = open_counter(), *reads = open_counter();
    enables = (info->domain_attr->mr_mode & FI_MR_RMA_EVENT) != 0;
    struct fid_mr *other_region = expose(plain, PLAIN, 0), *region = expose(mine, KEY, FI_RMA_EVENT);
    what_is_offered();
    refusals(region, writes);
    if (enables) {
        OK(fi_mr_bind(region, &reads->fid, FI_REMOTE_READ));
        enabling(region, writes);
    } else
        /* It works from the start, and may be enabled all the same. */
        OK(fi_mr_enable(region));
    meet();
    writes_are_counted(writes);
    if (!enables)
        OK(fi_mr_bind(region, &reads->fid, FI_REMOTE_READ));
    reads_are_counted(reads, writes);
    many(writes);
    counters_of_an_endpoint(writes);
    news_at_the_end();
    uint64_t before = fi_cntr_read(writes);
    meet();
    /* The next region under the key is another one, and the counters are free. */
    OK(fi_close(&region->fid));
    OK(fi_close(&reads->fid));
    region = expose(mine, KEY, 0);
    meet();
    write_to(KEY, LEN, 3);
    meet();
    CHECK(fi_cntr_read(writes) == before && right(mine, LEN, 3));
    OK(fi_close(&region->fid));
    OK(fi_close(&writes->fid));
    OK(fi_close(&other_region->fid));
}

/* Who has gone to sleep until memory here is written is woken where the endpoint itself writes it:
 * of that, no peer tells. */
void woken(void)
{
    struct fid_mr *region = expose(mine, KEY, FI_RMA_EVENT);
    struct fid_cntr *writes = open_counter();
    struct fid *fids[1] = {&writes->fid};
    struct pollfd asleep = {.events = POLLIN};
    OK(fi_mr_bind(region, &writes->fid, FI_REMOTE_WRITE));
    OK(fi_control(&writes->fid, FI_GETWAIT, &asleep.fd));
    for (uint64_t count = 1; count <= 10; count++) {
        int ready;
        while ((ready = fi_trywait(fabric, fids, 1)) == -FI_EAGAIN)
            continue;
        OK(ready);
        RETRY(fi_write(ep, bytes, 8, NULL, myself, 0, KEY, &contexts[0]));
        /* A call that sees it first, and waits on, takes nothing from whoever sleeps. */
        CHECK(fi_cntr_wait(writes, count + 1, 1) == -FI_ETIMEDOUT);
        CHECK(poll(&asleep, 1, WAIT_MS) == 1 && fi_trywait(fabric, fids, 1) == -FI_EAGAIN);
        CHECK(fi_cntr_read(writes) == count);
        CHECK(completion().op_context == &contexts[0]);
    }
    OK(fi_close(&region->fid));
    OK(fi_close(&writes->fid));
    meet();
}
