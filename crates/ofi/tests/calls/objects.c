/* Objects of one process, which are opened, bound and taken out again. */
#include "calls.h"

/* Counters count completions, and nothing else. */
static struct fid_cntr *open_counter(void)
{
    struct fid_cntr *one;
    struct fi_cntr_attr bytes = {.events = (enum fi_cntr_events) 1}, flags = {.flags = 1};
    CHECK(fi_cntr_open(domain, &bytes, &one, NULL) == -FI_ENOSYS);
    CHECK(fi_cntr_open(domain, &flags, &one, NULL) == -FI_EBADFLAGS);
    OK(fi_cntr_open(domain, NULL, &one, NULL));
    return one;
}

/* Each place of an endpoint is bound once; what is refused is not bound to anything, and can be closed before it. */
static void bind_twice(void)
{
    struct fid_cntr *first = open_counter(), *second = open_counter();
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fid_av *vector;
    struct fid_cq *queue;
    struct fid_ep *end;
    OK(fi_av_open(domain, &av_attr, &vector, NULL));
    OK(fi_cq_open(domain, &cq_attr, &queue, NULL));
    OK(fi_endpoint(domain, info, &end, NULL));
    OK(fi_ep_bind(end, &av->fid, 0));
    CHECK(fi_ep_bind(end, &vector->fid, 0) == -FI_EINVAL);
    OK(fi_close(&vector->fid));
    OK(fi_ep_bind(end, &cq->fid, FI_RECV));
    CHECK(fi_ep_bind(end, &queue->fid, FI_TRANSMIT | FI_RECV) == -FI_EINVAL);
    CHECK(fi_ep_bind(end, &queue->fid, FI_SELECTIVE_COMPLETION) == -FI_EBADFLAGS);
    OK(fi_ep_bind(end, &queue->fid, FI_TRANSMIT));
    OK(fi_ep_bind(end, &first->fid, FI_READ));
    CHECK(fi_ep_bind(end, &second->fid, FI_WRITE | FI_READ) == -FI_EINVAL);
    OK(fi_close(&second->fid));
    OK(fi_ep_bind(end, &first->fid, FI_WRITE | FI_SEND));
    CHECK(fi_ep_bind(end, &first->fid, FI_SEND) == -FI_EINVAL);
    CHECK(fi_close(&first->fid) == -FI_EBUSY);
    OK(fi_enable(end));
    OK(fi_close(&end->fid));
    /* Nothing points to the endpoint any more. */
    CHECK(fi_cntr_read(first) == 0);
    OK(fi_close(&first->fid));
    OK(fi_close(&queue->fid));
}

/*
 * An endpoint that was closed over its receives leaves nothing behind that its successor could take for its own. They
 * lend no memory for operations.
 */
static void cancel_after_reopening(void)
{
    struct fi_info *plain = fi_dupinfo(info);
    struct fi_cq_tagged_entry entry;
    char bytes[8];
    plain->mode = 0;
    struct fid_ep *end = open_end(plain, NULL);
    for (int i = 0; i < 8; i++)
        OK(fi_trecv(end, bytes, 8, NULL, FI_ADDR_UNSPEC, i, 0, &contexts[i]));
    OK(fi_close(&end->fid));
    end = open_end(plain, NULL);
    OK(fi_trecv(end, bytes, 8, NULL, FI_ADDR_UNSPEC, 9, 0, &contexts[7]));
    OK(fi_cancel(&end->fid, &contexts[7]));
    CHECK(fi_cq_read(cq, &entry, 1) == -FI_EAVAIL);
    struct fi_cq_err_entry error = failure();
    CHECK(error.err == FI_ECANCELED && error.op_context == &contexts[7]);
    OK(fi_close(&end->fid));
    fi_freeinfo(plain);
}

/* Where a message to oneself came from. */
static fi_addr_t source_of_message(void)
{
    struct fi_cq_tagged_entry entry;
    fi_addr_t source;
    char byte;
    ssize_t count;
    OK(fi_trecv(ep, &byte, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[0]));
    OK(fi_tinject(ep, "1", 1, myself, 1));
    while ((count = fi_cq_readfrom(cq, &entry, 1, &source)) == -FI_EAGAIN)
        ;
    CHECK(count == 1 && entry.op_context == &contexts[0]);
    return source;
}

/* A sender has the address under which it stands now, not one under which it stood. */
static void move_address(void)
{
    char name[64];
    size_t len = sizeof name;
    fi_addr_t before = myself, again;
    CHECK(source_of_message() == before);
    OK(fi_av_lookup(av, before, name, &len));
    /* First out and in again, then in and out. */
    OK(fi_av_remove(av, &before, 1, 0));
    CHECK(fi_tinject(ep, "1", 1, before, 1) == -FI_EINVAL);
    CHECK(fi_av_insert(av, name, 1, &myself, 0, NULL) == 1 && myself != before);
    CHECK(source_of_message() == myself);
    CHECK(fi_av_insert(av, name, 1, &again, 0, NULL) == 1);
    CHECK(source_of_message() == myself);
    OK(fi_av_remove(av, &myself, 1, 0));
    myself = again;
    CHECK(source_of_message() == again);
}

/* A look at a queue without room for anything. */
static void look(void)
{
    char byte;
    CHECK(fi_cq_read(cq, NULL, 0) == -FI_EAGAIN);
    OK(fi_trecv(ep, &byte, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[0]));
    OK(fi_trecv(ep, &byte, 1, NULL, FI_ADDR_UNSPEC, 2, 0, &contexts[1]));
    OK(fi_tinject(ep, "1", 1, myself, 1));
    OK(fi_cancel(&ep->fid, &contexts[1]));
    CHECK(fi_cq_read(cq, NULL, 0) == 0);
    CHECK(completion().op_context == &contexts[0]);
    CHECK(fi_cq_read(cq, NULL, 0) == -FI_EAVAIL);
    CHECK(failure().op_context == &contexts[1]);
    CHECK(fi_cq_read(cq, NULL, 0) == -FI_EAGAIN);
}

void objects(void)
{
    bind_twice();
    cancel_after_reopening();
    move_address();
    look();
    meet();
}
