/* What all parts share: everything is opened, closed, waited for. */
#include "calls.h"

int me, line_to_other;
enum fi_progress data_progress;
uint64_t more_caps, asked_orders;
struct fi_info *info;
struct fid_fabric *fabric;
struct fid_domain *domain;
struct fid_ep *ep;
struct fid_av *av;
struct fid_cq *cq;
struct fid_cntr *counter;
fi_addr_t other, myself;
struct fi_context2 contexts[64];
void *any_time;
int ended;

/* Waits for the other process, making progress meanwhile. */
void meet(void)
{
    char byte;
    ssize_t count;
    say();
    while ((count = recv(line_to_other, &byte, 1, MSG_DONTWAIT)) != 1) {
        /* The other one has said why it is gone. */
        CHECK(count != 0);
        fi_cq_read(cq, NULL, 0);
    }
}

/* A word to the other process. */
void say(void) { CHECK(send(line_to_other, "", 1, MSG_NOSIGNAL) == 1); }

/* Waits for a word of the other process, without any progress. */
void hear(void)
{
    char byte;
    CHECK(recv(line_to_other, &byte, 1, 0) == 1);
}

/* What the queue says next, of all but the send that may end at any time: as fi_cq_read says it,
 * never FI_EAGAIN. */
ssize_t answer(struct fi_cq_tagged_entry *entry)
{
    ssize_t count;
    while ((count = fi_cq_read(cq, entry, 1)) == -FI_EAGAIN || (count == 1 && any_time && entry->op_context == any_time))
        ended |= count == 1;
    return count;
}

struct fi_cq_tagged_entry completion(void)
{
    struct fi_cq_tagged_entry entry;
    ssize_t count = answer(&entry);
    if (count == -FI_EAVAIL) {
        struct fi_cq_err_entry error = {0};
        fi_cq_readerr(cq, &error, 0);
        fprintf(stderr, "process %d: failed: %s\n", me, fi_strerror(error.err));
        _exit(1);
    }
    CHECK(count == 1);
    return entry;
}

struct fi_cq_err_entry failure(void)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t count = answer(&entry);
    CHECK(count == -FI_EAVAIL);
    CHECK(fi_cq_readerr(cq, &error, 0) == 1);
    char text[100];
    CHECK(fi_cq_strerror(cq, error.prov_errno, NULL, text, sizeof text) && *text);
    return error;
}

void open_all(enum fi_wait_obj wait, int threading, int mr_mode)
{
    struct fi_info *hints = fi_allocinfo();
    hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE | more_caps;
    hints->mode = FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = threading;
    hints->domain_attr->data_progress = data_progress;
    hints->domain_attr->mr_mode = mr_mode;
    hints->tx_attr->op_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
    hints->rx_attr->op_flags = FI_COMPLETION;
    hints->tx_attr->msg_order = asked_orders;
    hints->fabric_attr->prov_name = strdup("limic");
    OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
    CHECK(strcmp(info->fabric_attr->prov_name, "limic") == 0);
    CHECK((info->caps & hints->caps) == hints->caps);
    CHECK(info->mode == FI_CONTEXT2);
    CHECK(info->domain_attr->data_progress == (data_progress == FI_PROGRESS_AUTO ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL));
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
    CHECK(fi_getname(&ep->fid, NULL, &len) == -FI_ETOOSMALL && len == 64);
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

/* An endpoint that the caller binds to more, and then enables. */
struct fid_ep *begin_end(struct fid_cq *queue, struct fi_info *like)
{
    struct fid_ep *end;
    OK(fi_endpoint(domain, like, &end, NULL));
    OK(fi_ep_bind(end, &av->fid, 0));
    OK(fi_ep_bind(end, &queue->fid, FI_TRANSMIT | FI_RECV));
    return end;
}

/* One more endpoint, which reports all operations; a counter may count those that it starts. */
struct fid_ep *open_end(struct fi_info *like, struct fid_cntr *started)
{
    return open_end_on(cq, like, started);
}

/* The same with a queue of the caller's choice. */
struct fid_ep *open_end_on(struct fid_cq *queue, struct fi_info *like, struct fid_cntr *started)
{
    struct fid_ep *end = begin_end(queue, like);
    if (started)
        OK(fi_ep_bind(end, &started->fid, FI_SEND | FI_READ | FI_WRITE));
    OK(fi_enable(end));
    return end;
}

/* Where the same endpoint of the other process stands. */
fi_addr_t swap_names(struct fid_ep *end)
{
    char mine[64], theirs[64];
    size_t len = sizeof mine;
    fi_addr_t at;
    OK(fi_getname(&end->fid, mine, &len));
    CHECK(write(line_to_other, mine, len) == (ssize_t) len);
    CHECK(read(line_to_other, theirs, len) == (ssize_t) len);
    CHECK(fi_av_insert(av, theirs, 1, &at, 0, NULL) == 1);
    return at;
}

void close_all(void)
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

unsigned char pattern(size_t at, unsigned seed) { return (unsigned char) (at * 7 + seed); }

void fill(unsigned char *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = pattern(i, seed);
}

int right(const unsigned char *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != pattern(i, seed))
            return 0;
    return 1;
}
