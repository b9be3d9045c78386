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

/* Each place of an endpoint is bound once; what is refused is not bound to anything, and can be
 * closed before it. */
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
    CHECK(fi_ep_bind(end, &second->fid, FI_WRITE | FI_REMOTE_WRITE) == -FI_EBADFLAGS);
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

/* What an endpoint starts is reported somewhere; one that only peers access needs no queue. */
static void enable_without_queue(void)
{
    struct fi_info *accesses = fi_dupinfo(info);
    struct fid_ep *end;
    accesses->caps = FI_RMA | FI_READ | FI_REMOTE_READ;
    OK(fi_endpoint(domain, accesses, &end, NULL));
    OK(fi_ep_bind(end, &av->fid, 0));
    CHECK(fi_enable(end) == -FI_ENOCQ);
    OK(fi_ep_bind(end, &cq->fid, FI_TRANSMIT));
    OK(fi_enable(end));
    OK(fi_close(&end->fid));
    accesses->caps = FI_RMA | FI_REMOTE_READ;
    OK(fi_endpoint(domain, accesses, &end, NULL));
    OK(fi_ep_bind(end, &av->fid, 0));
    OK(fi_enable(end));
    OK(fi_close(&end->fid));
    fi_freeinfo(accesses);
}

/* A counter of what peers do to memory is good for an endpoint that shows them none. */
static void bind_counter_of_peers(void)
{
    struct fid_cntr *counter = open_counter();
    struct fi_info *plain = fi_dupinfo(info);
    struct fid_ep *end;
    plain->caps &= ~(FI_RMA | FI_ATOMIC);
    OK(fi_endpoint(domain, plain, &end, NULL));
    OK(fi_ep_bind(end, &counter->fid, FI_REMOTE_READ));
    OK(fi_close(&end->fid));
    OK(fi_endpoint(domain, plain, &end, NULL));
    OK(fi_ep_bind(end, &counter->fid, FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE));
    OK(fi_close(&end->fid));
    /* Nothing points to the endpoints any more. */
    CHECK(fi_cntr_read(counter) == 0);
    OK(fi_close(&counter->fid));
    fi_freeinfo(plain);
}

/*
 * An endpoint that was closed over its receives leaves nothing behind that its successor could take
 * for its own. They lend no memory for operations.
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
    CHECK(fi_av_insert(av, name, 1, &myself, 0, NULL) == 1);
    /* A vector that addresses come to and go from does not grow. */
    CHECK(myself <= before);
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

/* An endpoint that talks to itself, with a queue of its own. */
static struct fid_ep *open_alone(struct fi_info *like, struct fi_cq_attr *attr, uint64_t flags, struct fid_cq **queue,
                                 fi_addr_t *itself)
{
    struct fid_ep *end;
    char name[64];
    size_t len = sizeof name;
    OK(fi_cq_open(domain, attr, queue, NULL));
    OK(fi_endpoint(domain, like, &end, NULL));
    OK(fi_ep_bind(end, &av->fid, 0));
    OK(fi_ep_bind(end, &(*queue)->fid, FI_TRANSMIT | FI_RECV | flags));
    OK(fi_enable(end));
    OK(fi_getname(&end->fid, name, &len));
    CHECK(fi_av_insert(av, name, 1, itself, 0, NULL) == 1);
    return end;
}

/* A silent operation lends no memory: its context may be a number, and what is over is not
 * cancelled. */
static void cancel_numbers(void)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_cq_err_entry error = {0};
    struct fi_cq_tagged_entry entry;
    struct fid_cq *queue;
    fi_addr_t itself;
    char byte;
    struct fid_ep *end = open_alone(info, &attr, FI_SELECTIVE_COMPLETION, &queue, &itself);
    struct iovec room = {&byte, 1};
    struct fi_msg_tagged silent = {
        .msg_iov = &room, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 1, .context = (void *) 42};
    OK(fi_trecvmsg(end, &silent, 0));
    OK(fi_tinject(end, "1", 1, itself, 1));
    CHECK(fi_cq_read(queue, &entry, 1) == -FI_EAGAIN);
    OK(fi_cancel(&end->fid, (void *) 42));
    CHECK(fi_cq_read(queue, &entry, 1) == -FI_EAGAIN);
    /* Two under one name are cancelled one by one. */
    OK(fi_trecvmsg(end, &silent, 0));
    OK(fi_trecvmsg(end, &silent, 0));
    for (int i = 0; i < 2; i++) {
        OK(fi_cancel(&end->fid, (void *) 42));
        OK(fi_cancel(&end->fid, (void *) 43));
    }
    for (int i = 0; i < 2; i++) {
        CHECK(fi_cq_read(queue, &entry, 1) == -FI_EAVAIL && fi_cq_readerr(queue, &error, 0) == 1);
        CHECK(error.err == FI_ECANCELED && error.op_context == (void *) 42);
    }
    CHECK(fi_cq_read(queue, &entry, 1) == -FI_EAGAIN);
    OK(fi_close(&end->fid));
    OK(fi_close(&queue->fid));
}

/* Whoever leaves the format to the provider is told which it is, and gets no longer entries. */
static void format_of_choice(void)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_UNSPEC};
    struct fi_cq_entry entries[2] = {{&attr}, {&attr}};
    struct fid_cq *queue;
    fi_addr_t itself;
    char byte;
    struct fid_ep *end = open_alone(info, &attr, 0, &queue, &itself);
    CHECK(attr.format == FI_CQ_FORMAT_CONTEXT);
    OK(fi_trecv(end, &byte, 1, NULL, itself, 1, 0, &contexts[0]));
    OK(fi_tinject(end, "1", 1, itself, 1));
    CHECK(fi_cq_read(queue, entries, 1) == 1);
    CHECK(entries[0].op_context == &contexts[0] && entries[1].op_context == &attr);
    OK(fi_close(&end->fid));
    OK(fi_close(&queue->fid));
}

/* Counters in a poll set: what there is no room for is told later, failures are told too, and looks
 * are no receives. */
static void poll_counters(void)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_cntr_attr counting = {0};
    struct fi_poll_attr polling = {0};
    struct fi_msg_tagged look = {.addr = FI_ADDR_UNSPEC, .tag = 7, .context = &contexts[5]};
    struct fi_cq_err_entry error = {0};
    struct fi_cq_tagged_entry entry;
    struct fid_cntr *sent, *received;
    struct fid_domain *another;
    struct fid_poll *set, *foreign;
    struct fid_cq *queue;
    struct fid_ep *end;
    fi_addr_t itself;
    char byte, name[64];
    size_t len = sizeof name;
    void *found[2];
    OK(fi_cq_open(domain, &attr, &queue, NULL));
    OK(fi_cntr_open(domain, &counting, &sent, &sent));
    OK(fi_cntr_open(domain, &counting, &received, &received));
    end = begin_end(queue, info);
    OK(fi_ep_bind(end, &sent->fid, FI_SEND));
    OK(fi_ep_bind(end, &received->fid, FI_RECV));
    OK(fi_enable(end));
    OK(fi_getname(&end->fid, name, &len));
    CHECK(fi_av_insert(av, name, 1, &itself, 0, NULL) == 1);
    OK(fi_poll_open(domain, &polling, &set));
    OK(fi_poll_add(set, &sent->fid, 0));
    OK(fi_poll_add(set, &received->fid, 0));
    CHECK(fi_poll(set, found, 2) == 0);

    OK(fi_tinject(end, "1", 1, itself, 7));
    OK(fi_trecvmsg(end, &look, FI_PEEK));
    CHECK(fi_cq_read(queue, &entry, 1) == 1 && entry.op_context == &contexts[5]);
    CHECK(fi_cntr_read(received) == 0 && fi_cntr_read(sent) == 1);
    OK(fi_trecv(end, &byte, 1, NULL, itself, 7, 0, &contexts[0]));
    CHECK(fi_cntr_read(received) == 1);
    CHECK(fi_poll(set, found, 1) == 1 && found[0] == &sent);
    CHECK(fi_poll(set, found, 1) == 1 && found[0] == &received);
    CHECK(fi_poll(set, found, 2) == 0);

    OK(fi_trecv(end, &byte, 1, NULL, itself, 7, 0, &contexts[1]));
    OK(fi_cancel(&end->fid, &contexts[1]));
    CHECK(fi_poll(set, found, 2) == 1 && found[0] == &received);
    CHECK(fi_cntr_read(received) == 1 && fi_cntr_readerr(received) == 1);
    OK(fi_trecvmsg(end, &look, FI_PEEK));
    CHECK(fi_cntr_readerr(received) == 1);
    CHECK(fi_cq_read(queue, &entry, 1) == 1 && entry.op_context == &contexts[0]);
    for (int i = 0; i < 2; i++)
        CHECK(fi_cq_readerr(queue, &error, 0) == 1 && error.err == (i ? FI_ENOMSG : FI_ECANCELED));

    /* One that was set back, and has counted as far as before. */
    OK(fi_cntr_set(sent, fi_cntr_read(sent) - 1));
    OK(fi_tinject(end, "1", 1, itself, 8));
    CHECK(fi_poll(set, found, 2) == 1 && found[0] == &sent);
    CHECK(fi_poll(set, found, 2) == 0);

    OK(fi_domain(fabric, info, &another, NULL));
    OK(fi_poll_open(another, &polling, &foreign));
    CHECK(fi_poll_add(foreign, &sent->fid, 0) == -FI_EDOMAIN);
    CHECK(fi_poll_add(foreign, &queue->fid, 0) == -FI_EDOMAIN);
    OK(fi_close(&foreign->fid));
    OK(fi_close(&another->fid));
    OK(fi_close(&set->fid));
    OK(fi_close(&end->fid));
    OK(fi_close(&sent->fid));
    OK(fi_close(&received->fid));
    OK(fi_close(&queue->fid));
}

/* The other side closes its endpoint: what is sent there is dropped, unless the call asked for its
 * delivery. */
static void send_to_closed(void)
{
    enum { LEN = 1 << 20 };
    static char bytes[LEN], room[8];
    /* The setting that makes it an error. */
    int told = getenv("LIMIC_FI_CLOSED") && !strcmp(getenv("LIMIC_FI_CLOSED"), "error");
    struct fid_ep *end = open_end(info, NULL);
    fi_addr_t peer = swap_names(end);
    struct iovec piece = {bytes, LEN};
    struct fi_msg_tagged message = {.msg_iov = &piece, .iov_count = 1, .addr = peer, .tag = 1, .context = &contexts[1]};
    OK(fi_trecv(end, room, 8, NULL, peer, 1, 0, &contexts[0]));
    OK(fi_tinject(end, "12345678", 8, peer, 1));
    CHECK(completion().op_context == &contexts[0]);
    meet();
    if (me == 0) {
        /* Two that nobody takes, and a receive from the peer. */
        OK(fi_tsendmsg(end, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE));
        message.context = &contexts[2];
        OK(fi_tsendmsg(end, &message, FI_COMPLETION | FI_TRANSMIT_COMPLETE));
        OK(fi_trecv(end, room, 8, NULL, peer, 2, 0, &contexts[3]));
    }
    meet();
    if (me == 1)
        OK(fi_close(&end->fid));
    for (int seen = 0; me == 0 && seen != 7;) {
        struct fi_cq_tagged_entry entry;
        struct fi_cq_err_entry error = {0};
        ssize_t count = fi_cq_read(cq, &entry, 1);
        if (count == -FI_EAGAIN)
            continue;
        if (count == 1) {
            CHECK(!told && entry.op_context == &contexts[2]);
            seen |= 1;
            continue;
        }
        CHECK(count == -FI_EAVAIL && fi_cq_readerr(cq, &error, 0) == 1 && error.err == FI_ECONNABORTED);
        int which = (int) ((struct fi_context2 *) error.op_context - contexts);
        CHECK(which == 1 || which == 3 || (told && which == 2));
        seen |= which == 1 ? 2 : which == 2 ? 1 : 4;
    }
    if (me == 0) {
        CHECK(fi_tsendmsg(end, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE) == -FI_ECONNABORTED);
        CHECK(fi_tsendmsg(end, &message, FI_COMPLETION | FI_TRANSMIT_COMPLETE) == (told ? -FI_ECONNABORTED : 0));
        CHECK(told || completion().op_context == &contexts[2]);
        OK(fi_close(&end->fid));
    }
    meet();
}

/* Endpoints by the dozen, in several domains: each sends to the next, in whatever domain that is.
 */
static void dozens(void)
{
    enum { DOMAINS = 4, ENDS = 3, ALL = DOMAINS * ENDS };
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fid_domain *domains[DOMAINS];
    struct fid_av *vectors[DOMAINS];
    struct fid_cq *queues[DOMAINS];
    struct fid_ep *ends[ALL];
    static char names[ALL][64];
    static unsigned char in[ALL][5000], out[5000];
    int got = 0, seen[ALL] = {0};
    for (int d = 0; d < DOMAINS; d++) {
        OK(fi_domain(fabric, info, &domains[d], NULL));
        OK(fi_av_open(domains[d], &av_attr, &vectors[d], NULL));
        OK(fi_cq_open(domains[d], &cq_attr, &queues[d], NULL));
    }
    for (int i = 0; i < ALL; i++) {
        size_t len = sizeof names[i];
        OK(fi_endpoint(domains[i % DOMAINS], info, &ends[i], NULL));
        OK(fi_ep_bind(ends[i], &vectors[i % DOMAINS]->fid, 0));
        OK(fi_ep_bind(ends[i], &queues[i % DOMAINS]->fid, FI_TRANSMIT | FI_RECV));
        OK(fi_enable(ends[i]));
        OK(fi_getname(&ends[i]->fid, names[i], &len));
    }
    for (int d = 0; d < DOMAINS; d++)
        CHECK(fi_av_insert(vectors[d], names, ALL, NULL, 0, NULL) == ALL);
    fill(out, sizeof out, 3);
    for (int i = 0; i < ALL; i++) {
        OK(fi_trecv(ends[i], in[i], sizeof in[i], NULL, (i + ALL - 1) % ALL, i, 0, &contexts[i]));
        OK(fi_tsend(ends[i], out, sizeof out, NULL, (i + 1) % ALL, (i + 1) % ALL, &contexts[ALL + i]));
    }
    for (int d = 0; got < 2 * ALL; d = (d + 1) % DOMAINS) {
        struct fi_cq_tagged_entry entry;
        ssize_t count = fi_cq_read(queues[d], &entry, 1);
        CHECK(count == 1 || count == -FI_EAGAIN);
        if (count == 1) {
            int number = (int) ((struct fi_context2 *) entry.op_context - contexts);
            CHECK(number % ALL % DOMAINS == d);
            if (number < ALL) {
                CHECK(!seen[number]++ && entry.tag == (uint64_t) number && entry.len == sizeof out);
                CHECK(right(in[number], sizeof out, 3));
            }
            got++;
        }
    }
    for (int i = 0; i < ALL; i++)
        OK(fi_close(&ends[i]->fid));
    for (int d = 0; d < DOMAINS; d++) {
        OK(fi_close(&queues[d]->fid));
        OK(fi_close(&vectors[d]->fid));
        OK(fi_close(&domains[d]->fid));
    }
}

void objects(void)
{
    asked();
    if (me == 0)
        dozens();
    bind_twice();
    enable_without_queue();
    bind_counter_of_peers();
    cancel_numbers();
    format_of_choice();
    poll_counters();
    send_to_closed();
    cancel_after_reopening();
    move_address();
    look();
    meet();
}
