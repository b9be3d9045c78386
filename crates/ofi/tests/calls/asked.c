/* What an application asks for, in hints and flags. */
#include "calls.h"

/* Hints that this provider cannot fulfil are not, wherever they stand. */
static void hints(void)
{
    /* Settings may leave no way to other nodes. */
    int alone = !(info->domain_attr->caps & FI_REMOTE_COMM);
    for (int which = 0; which < 12; which++) {
        struct fi_info *hints = fi_allocinfo(), *found = NULL;
        hints->fabric_attr->prov_name = strdup("limic");
        hints->tx_attr->caps = which == 1 ? FI_FENCE : FI_TAGGED | FI_SEND;
        hints->rx_attr->caps = which == 2 ? FI_HMEM : FI_TAGGED | FI_RECV;
        hints->domain_attr->caps = which == 3 ? FI_SHARED_AV : which == 6 ? FI_REMOTE_COMM : FI_LOCAL_COMM;
        hints->domain_attr->mr_iov_limit = which == 4 ? 2 : 1;
        hints->ep_attr->protocol = which == 5 ? FI_PROTO_SHM : info->ep_attr->protocol;
        hints->tx_attr->size = 4096;
        hints->rx_attr->size = 2000;
        /* FI_SHARED_CONTEXT and FI_AV_AUTH_KEY are this. */
        size_t all = SIZE_MAX;
        hints->ep_attr->tx_ctx_cnt = which == 7 ? 2 : which == 8 ? all : 1;
        hints->ep_attr->rx_ctx_cnt = which == 7 ? 0 : which == 9 ? all : 1;
        hints->ep_attr->auth_key_size = which == 10 ? 8 : 0;
        hints->domain_attr->auth_key_size = which == 11 ? all : 0;
        int good = which == 0 || (which == 6 && !alone);
        CHECK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &found) == (good ? 0 : -FI_ENODATA));
        CHECK(!good || (found->tx_attr->size >= 4096 && found->rx_attr->size >= 2000));
        fi_freeinfo(found);
        fi_freeinfo(hints);
    }
}

/* Applications before 1.5 leave the choice between two modes of memory, neither of which is 0. */
static void modes_of_memory(void)
{
    struct fi_info *hints = fi_allocinfo(), *found;
    hints->fabric_attr->prov_name = strdup("limic");
    hints->caps = FI_RMA;
    /* Nor do they know of keys, whatever stands there. */
    hints->domain_attr->auth_key_size = 8;
    OK(fi_getinfo(FI_VERSION(1, 4), NULL, NULL, 0, hints, &found));
    CHECK(found->domain_attr->mr_mode == MODE_SCALABLE);
    fi_freeinfo(found);
    hints->domain_attr->auth_key_size = 0;
    OK(fi_getinfo(FI_VERSION(1, 5), NULL, NULL, 0, hints, &found));
    CHECK(found->domain_attr->mr_mode == 0);
    fi_freeinfo(found);
    fi_freeinfo(hints);
}

/* Flags that change what a call means are taken or refused, and none is overlooked. */
static void flags_of_objects(void)
{
    static const uint64_t peer = 1ULL << 43, device = 1ULL << 40, chosen = 1ULL << 41;
    static char bytes[64];
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .flags = peer};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE, .flags = peer};
    struct iovec piece = {bytes, sizeof bytes};
    struct fi_mr_attr mr_attr = {.mr_iov = &piece, .iov_count = 1, .access = FI_REMOTE_READ, .requested_key = 77};
    struct fi_msg message = {.msg_iov = &piece, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &contexts[0]};
    struct fid_cq *queue;
    struct fid_av *vector;
    struct fid_mr *region;
    fi_addr_t name = 5;
    size_t len = sizeof bytes;
    /* Another provider's queue, of which nothing is said. */
    CHECK(fi_cq_open(domain, &cq_attr, &queue, NULL) == -FI_EINVAL);
    cq_attr.flags = FI_AFFINITY;
    OK(fi_cq_open(domain, &cq_attr, &queue, NULL));
    OK(fi_close(&queue->fid));
    CHECK(fi_av_open(domain, &av_attr, &vector, NULL) == -FI_EBADFLAGS);
    av_attr.flags = FI_SYMMETRIC;
    OK(fi_av_open(domain, &av_attr, &vector, NULL));
    OK(fi_getname(&ep->fid, bytes, &len));
    /* A name goes in, and comes out as the place. */
    CHECK(fi_av_insert(vector, bytes, 1, &name, chosen, NULL) == 1 && name == 0);
    CHECK(fi_av_insert(vector, bytes, 1, NULL, chosen, NULL) == -FI_EINVAL);
    CHECK(fi_av_insert(vector, bytes, 1, &name, peer, NULL) == -FI_EBADFLAGS);
    OK(fi_close(&vector->fid));
    CHECK(fi_mr_regattr(domain, &mr_attr, device, &region) == -FI_EBADFLAGS);
    OK(fi_recvmsg(ep, &message, FI_COMPLETION | FI_TRANSMIT_COMPLETE));
    OK(fi_cancel(&ep->fid, &contexts[0]));
    CHECK(failure().err == FI_ECANCELED);
    /* Collectives are not there, and can be asked for all the same. */
    CHECK(fi_barrier(ep, 0, NULL) == -FI_ENOSYS);
    CHECK(fi_allreduce(ep, bytes, 1, NULL, bytes, NULL, 0, FI_INT8, FI_SUM, 0, NULL) == -FI_ENOSYS);
}

/* Attributes of a region say nothing of devices before 1.10: anything may lie behind them. */
static void old_attributes(void)
{
    static char bytes[8];
    struct iovec piece = {bytes, sizeof bytes};
    struct fi_mr_attr attr = {.mr_iov = &piece, .iov_count = 1, .access = FI_REMOTE_READ};
    attr.iface = FI_HMEM_CUDA;
    for (int minor = 9; minor <= 10; minor++) {
        struct fi_info *like = fi_dupinfo(info);
        struct fid_fabric *old;
        struct fid_domain *within;
        struct fid_mr *region;
        like->fabric_attr->api_version = FI_VERSION(1, minor);
        OK(fi_fabric(like->fabric_attr, &old, NULL));
        OK(fi_domain(old, like, &within, NULL));
        int code = fi_mr_regattr(within, &attr, 0, &region);
        CHECK(code == (minor < 10 ? 0 : -FI_ENOSYS));
        if (code == 0)
            OK(fi_close(&region->fid));
        OK(fi_close(&within->fid));
        OK(fi_close(&old->fid));
        fi_freeinfo(like);
    }
}

void asked(void)
{
    hints();
    modes_of_memory();
    flags_of_objects();
    old_attributes();
}
