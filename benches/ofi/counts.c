/*
 * Calls of libfabric over the provider, for `cargo xtask counts`: callgrind counts the instructions
 * of some in a row, which are written down under the case's name. Prints the number of operations
 * in a row. Two endpoints lie in one thread, so whatever is received was sent before.
 */
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <valgrind/callgrind.h>

#include "ok.h"

/* Operations in a row, and how often they are counted; the least counts, since now and then one has
 * more to do. */
#define OPERATIONS 16
#define TIMES 8
/* Messages before anything is counted: enough for private rings to be granted. */
#define ACQUAINTANCE 300
/* Of the memory at each end that the other one may read and write. */
#define KEY 7

/* An end with a domain of its own, as MPIs have it. */
struct end {
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    struct fid_mr *mr;
    fi_addr_t other;
    struct fi_context2 contexts[OPERATIONS];
    char room[OPERATIONS][1024];
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct end a, b;
static const char message[1024];

static void open_end(struct end *end)
{
    OK(fi_domain(fabric, info, &end->domain, NULL));
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE, .count = 1};
    OK(fi_av_open(end->domain, &av_attr, &end->av, NULL));
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
    OK(fi_cq_open(end->domain, &cq_attr, &end->cq, NULL));
    OK(fi_endpoint(end->domain, info, &end->ep, NULL));
    OK(fi_ep_bind(end->ep, &end->av->fid, 0));
    OK(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION));
    OK(fi_enable(end->ep));
    OK(fi_mr_reg(end->domain, end->room, sizeof end->room, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY,
                 0, &end->mr, NULL));
}

static void introduce(struct end *end, struct end *other)
{
    char name[64];
    size_t len = sizeof name;
    OK(fi_getname(&other->ep->fid, name, &len));
    OK(fi_av_insert(end->av, name, 1, &end->other, 0, NULL) - 1);
}

static void close_end(struct end *end)
{
    OK(fi_close(&end->mr->fid));
    OK(fi_close(&end->ep->fid));
    OK(fi_close(&end->cq->fid));
    OK(fi_close(&end->av->fid));
    OK(fi_close(&end->domain->fid));
}

/* Waits for so many completions. Both ends make progress, since one thread is both. */
static void complete(struct end *end, int count)
{
    struct fi_cq_tagged_entry entries[OPERATIONS];
    while (count > 0) {
        ssize_t got = fi_cq_read(end->cq, entries, count);
        if (got == -FI_EAGAIN)
            fi_cq_read((end == &a ? &b : &a)->cq, NULL, 0);
        else if (got < 0)
            OK(got);
        else
            count -= (int) got;
    }
}

static void sends(struct end *end, size_t len)
{
    for (int i = 0; i < OPERATIONS; i++)
        OK(fi_tsend(end->ep, message, len, NULL, end->other, 7, &end->contexts[i]));
}

static void injects(struct end *end, size_t len)
{
    for (int i = 0; i < OPERATIONS; i++)
        OK(fi_tinject(end->ep, message, len, end->other, 7));
}

/* The same with data for the receiver's completion, as MPIs send. */
static void sends_with_data(struct end *end, size_t len)
{
    for (int i = 0; i < OPERATIONS; i++)
        OK(fi_tsenddata(end->ep, message, len, NULL, i, end->other, 7, &end->contexts[i]));
}

static void injects_with_data(struct end *end, size_t len)
{
    for (int i = 0; i < OPERATIONS; i++)
        OK(fi_tinjectdata(end->ep, message, len, i, end->other, 7));
}

static void receives(struct end *end, size_t len)
{
    for (int i = 0; i < OPERATIONS; i++)
        OK(fi_trecv(end->ep, end->room[i], len, NULL, end->other, 7, 0, &end->contexts[i]));
}

/* One at a time, as MPIs read when they wait for one request. */
static void reads(struct end *end)
{
    struct fi_cq_tagged_entry entry;
    for (int i = 0; i < OPERATIONS; i++)
        OK(fi_cq_read(end->cq, &entry, 1) - 1);
}

static void empty_reads(struct end *end)
{
    struct fi_cq_tagged_entry entry;
    for (int i = 0; i < OPERATIONS; i++)
        OK(fi_cq_read(end->cq, &entry, 1) + FI_EAGAIN);
}

static void writes_with_data(struct end *end, size_t len)
{
    for (int i = 0; i < OPERATIONS; i++)
        OK(fi_writedata(end->ep, message, len, NULL, i, end->other, 0, KEY, &end->contexts[i]));
}

static void fetches(struct end *end)
{
    for (int i = 0; i < OPERATIONS; i++)
        OK(fi_fetch_atomic(end->ep, message, 1, NULL, end->room[i], NULL, end->other, 0, KEY,
                           FI_UINT64, FI_SUM, &end->contexts[i]));
}

/* Nothing is reported where such operations are executed. */
static void executes(struct end *end)
{
    OK(fi_cq_read(end->cq, NULL, 0) + FI_EAGAIN);
}

#define COUNT(calls, name, len)                                           \
    do {                                                                  \
        char case_[64];                                                   \
        snprintf(case_, sizeof case_, (len) == 8 ? name " 8" : name " 1K"); \
        CALLGRIND_ZERO_STATS;                                             \
        calls;                                                            \
        CALLGRIND_DUMP_STATS_AT(case_);                                   \
    } while (0)

static void count(size_t len)
{
    for (int i = 0; i < TIMES; i++) {
        COUNT(receives(&b, len), "fi_trecv", len);
        COUNT(sends(&a, len), "fi_tsend", len);
        COUNT(reads(&a), "fi_cq_read, sent", len);
        COUNT(reads(&b), "fi_cq_read, received", len);
        COUNT(injects(&a, len), "fi_tinject", len);
        receives(&b, len);
        complete(&b, OPERATIONS);
        receives(&b, len);
        COUNT(sends_with_data(&a, len), "fi_tsenddata", len);
        complete(&a, OPERATIONS);
        COUNT(reads(&b), "fi_cq_read, received data", len);
        COUNT(injects_with_data(&a, len), "fi_tinjectdata", len);
        receives(&b, len);
        complete(&b, OPERATIONS);
    }
}

int main(void)
{
    struct fi_info *hints = fi_allocinfo();
    if (!hints)
        return 1;
    /* What MPIs ask for. */
    hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_MULTI_RECV | FI_DIRECTED_RECV;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->tx_attr->op_flags = FI_COMPLETION;
    hints->rx_attr->op_flags = FI_COMPLETION;
    hints->fabric_attr->prov_name = strdup("limic");
    OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
    fi_freeinfo(hints);
    OK(fi_fabric(info->fabric_attr, &fabric, NULL));
    open_end(&a);
    open_end(&b);
    introduce(&a, &b);
    introduce(&b, &a);
    for (int i = 0; i < ACQUAINTANCE / OPERATIONS; i++) {
        receives(&b, 8);
        sends(&a, 8);
        complete(&b, OPERATIONS);
        complete(&a, OPERATIONS);
        receives(&a, 8);
        sends(&b, 8);
        complete(&a, OPERATIONS);
        complete(&b, OPERATIONS);
    }
    printf("operations: %d\n", OPERATIONS);
    count(8);
    count(1024);
    for (int i = 0; i < TIMES; i++) {
        CALLGRIND_ZERO_STATS;
        empty_reads(&b);
        CALLGRIND_DUMP_STATS_AT("fi_cq_read, nothing there");
    }
    for (int i = 0; i < TIMES; i++) {
        COUNT(writes_with_data(&a, 8), "fi_writedata", 8);
        COUNT(reads(&b), "fi_cq_read, written", 8);
        COUNT(reads(&a), "fi_cq_read, wrote", 8);
        COUNT(fetches(&a), "fi_fetch_atomic", 8);
        COUNT(executes(&b), "fi_cq_read, executed", 8);
        COUNT(reads(&a), "fi_cq_read, fetched", 8);
    }
    close_end(&a);
    close_end(&b);
    OK(fi_close(&fabric->fid));
    fi_freeinfo(info);
    return 0;
}
