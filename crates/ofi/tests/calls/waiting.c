/* Sleeping. */
#include "calls.h"

static int line_between_threads[2];

/* A queue with a descriptor. */
static struct fid_cq *open_queue(int *descriptor)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};
    struct fid_cq *queue;
    OK(fi_cq_open(domain, &attr, &queue, NULL));
    OK(fi_control(&queue->fid, FI_GETWAIT, descriptor));
    return queue;
}

static int trywait(struct fid_cq *queue)
{
    struct fid *fids[1] = {&queue->fid};
    return fi_trywait(fabric, fids, 1);
}

static int readable(int descriptor, int ms)
{
    struct pollfd poller = {descriptor, POLLIN, 0};
    return poll(&poller, 1, ms);
}

/* Until the queue may be slept on. After a pause it is readable once more, for a look around. */
static void arm(struct fid_cq *queue, int descriptor)
{
    int ready;
    do {
        while ((ready = trywait(queue)) == -FI_EAGAIN)
            ;
        OK(ready);
    } while (readable(descriptor, 0));
}

/* What another thread does to an endpoint while this one sleeps on its queue for receives. */
static void use_sends(struct fid_cq *sends, int how)
{
    struct fi_cq_tagged_entry entry;
    if (how == 0)
        trywait(sends);
    else
        for (int i = 0; i < 5000; i++)
            CHECK(fi_cq_read(sends, &entry, 1) == -FI_EAGAIN);
}

/*
 * One endpoint with a queue for each direction. Whoever looks after the one must not take from
 * whoever sleeps on the other what would wake him: neither a completion, nor the ring for a message
 * that completes nothing, nor the wish to be rung for the next.
 */
static void two_queues(void)
{
    enum { LAST = 3 };
    int received, sent;
    char bytes[8];
    struct fi_cq_tagged_entry entry;
    struct fid_cq *receives = open_queue(&received), *sends = open_queue(&sent);
    struct fid_ep *end;
    OK(fi_endpoint(domain, info, &end, NULL));
    OK(fi_ep_bind(end, &av->fid, 0));
    OK(fi_ep_bind(end, &receives->fid, FI_RECV));
    OK(fi_ep_bind(end, &sends->fid, FI_TRANSMIT));
    OK(fi_enable(end));
    fi_addr_t peer = swap_names(end);
    /* The two have met. */
    OK(fi_trecv(end, bytes, 8, NULL, peer, 0, 0, &contexts[0]));
    OK(fi_tinject(end, "12345678", 8, peer, 0));
    while (fi_cq_read(receives, &entry, 1) != 1)
        ;
    for (int how = 0; how < 2; how++)
        for (int unexpected = 0; unexpected < 2; unexpected++) {
            if (me == 1) {
                if (unexpected) {
                    hear();
                    OK(fi_tinject(end, "12345678", 8, peer, 1));
                    say();
                }
                hear();
                OK(fi_tinject(end, "12345678", 8, peer, 2));
                say();
                hear();
                continue;
            }
            OK(fi_trecv(end, bytes, 8, NULL, peer, 2, 0, &contexts[0]));
            arm(receives, received);
            if (unexpected) {
                say();
                hear();
                use_sends(sends, how);
            }
            say();
            hear();
            if (!unexpected)
                use_sends(sends, how);
            CHECK(readable(received, 0) == 1);
            struct fid *both[2] = {&receives->fid, &sends->fid};
            while (fi_cq_read(receives, &entry, 1) != 1)
                CHECK(fi_trywait(fabric, both, 2) == -FI_EAGAIN || readable(received, 30000) == 1);
            CHECK(entry.op_context == &contexts[0] && entry.tag == 2);
            say();
        }
    OK(fi_close(&end->fid));
    OK(fi_close(&receives->fid));
    OK(fi_close(&sends->fid));
}

static void *sleep_on_queue(void *descriptor)
{
    arm(cq, *(int *) descriptor);
    CHECK(write(line_between_threads[1], "", 1) == 1);
    CHECK(readable(*(int *) descriptor, 30000) == 1);
    return NULL;
}

/* A completion that a call of another thread finds at once. */
static void two_threads(int descriptor)
{
    char bytes[8];
    pthread_t sleeper;
    for (int i = 0; i < 100; i++) {
        CHECK(pthread_create(&sleeper, NULL, sleep_on_queue, &descriptor) == 0);
        CHECK(read(line_between_threads[0], bytes, 1) == 1);
        OK(fi_trecv(ep, bytes, 8, NULL, myself, 1, 0, &contexts[0]));
        OK(fi_tinject(ep, "12345678", 8, myself, 1));
        CHECK(readable(descriptor, 0) == 1);
        CHECK(pthread_join(sleeper, NULL) == 0);
        CHECK(completion().op_context == &contexts[0]);
    }
}

/* A signal is told once to whoever polls, and does not stay. */
static void signalled(int descriptor)
{
    arm(cq, descriptor);
    OK(fi_cq_signal(cq));
    CHECK(readable(descriptor, 0) == 1);
    CHECK(trywait(cq) == -FI_EAGAIN);
    arm(cq, descriptor);
}

/* The condition of a wait is the number of completions itself. */
static void threshold(void)
{
    struct fi_cq_attr attr = {
        .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD, .wait_cond = FI_CQ_COND_THRESHOLD};
    struct fi_cq_tagged_entry entries[4];
    struct fid_cq *queue;
    char bytes[8], name[64];
    size_t len = sizeof name;
    fi_addr_t itself;
    OK(fi_cq_open(domain, &attr, &queue, NULL));
    struct fid_ep *end = open_end_on(queue, info, NULL);
    OK(fi_getname(&end->fid, name, &len));
    CHECK(fi_av_insert(av, name, 1, &itself, 0, NULL) == 1);
    for (int i = 0; i < 2; i++) {
        OK(fi_trecv(end, bytes, 8, NULL, itself, i, 0, &contexts[i]));
        OK(fi_tinject(end, "12345678", 8, itself, i));
    }
    CHECK(fi_cq_sread(queue, entries, 4, (void *) 2, -1) == 2);
    OK(fi_close(&end->fid));
    OK(fi_close(&queue->fid));
}

/* A counter with a descriptor: it wakes whoever has seen all that there was. */
static void sleep_on_a_counter(void)
{
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_FD};
    struct fid_cntr *received;
    struct fid_cq *queue;
    struct fid_ep *end;
    char bytes[8];
    int descriptor, kind, ready;
    OK(fi_cntr_open(domain, &attr, &received, NULL));
    OK(fi_control(&received->fid, FI_GETWAIT, &descriptor));
    OK(fi_control(&received->fid, FI_GETWAITOBJ, &kind));
    CHECK(kind == FI_WAIT_FD);
    OK(fi_cq_open(domain, &cq_attr, &queue, NULL));
    end = begin_end(queue, info);
    OK(fi_ep_bind(end, &received->fid, FI_RECV));
    OK(fi_enable(end));
    fi_addr_t peer = swap_names(end);
    struct fid *fids[1] = {&received->fid};
    /* The two have met. */
    OK(fi_trecv(end, bytes, 8, NULL, peer, 0, 0, &contexts[0]));
    OK(fi_tinject(end, "12345678", 8, peer, 0));
    while (fi_cntr_read(received) == 0)
        ;
    OK(fi_cntr_set(received, 0));
    meet();
    for (uint64_t i = 1; i <= 3; i++) {
        OK(fi_trecv(end, bytes, 8, NULL, peer, i, 0, &contexts[i]));
        if (me == 1) {
            hear();
            OK(fi_tinject(end, bytes, 8, peer, i));
            hear();
            continue;
        }
        for (int said = 0; fi_cntr_read(received) < i; said = 1) {
            while ((ready = fi_trywait(fabric, fids, 1)) == -FI_EAGAIN)
                CHECK(fi_cntr_read(received) <= i);
            OK(ready);
            if (!said)
                say();
            CHECK(readable(descriptor, 30000) == 1);
        }
        /* What changes by a call wakes too. */
        while ((ready = fi_trywait(fabric, fids, 1)) == -FI_EAGAIN)
            fi_cntr_read(received);
        OK(ready);
        OK(fi_cntr_set(received, i));
        CHECK(readable(descriptor, 30000) == 1);
        /* It is news, though the number is as before. */
        CHECK(fi_trywait(fabric, fids, 1) == -FI_EAGAIN);
        say();
    }
    /* The other one waits in a call. */
    for (uint64_t i = 1; me == 0 && i <= 3; i++)
        OK(fi_tinject(end, bytes, 8, peer, i));
    if (me == 1)
        OK(fi_cntr_wait(received, 3, 30000));
    meet();
    /* Long enough to say what it waits for, where its patience is short. */
    OK(fi_trecv(end, bytes, 8, NULL, peer, 78, 0, &contexts[0]));
    CHECK(fi_cntr_wait(received, 4, 600) == -FI_ETIMEDOUT);
    meet();
    OK(fi_tinject(end, "12345678", 8, peer, 78));
    OK(fi_cntr_wait(received, 4, 30000));
    meet();
    OK(fi_close(&end->fid));
    OK(fi_close(&received->fid));
    OK(fi_close(&queue->fid));
}

enum { FAR = 1000 };

static void *wait_for_far(void *counted)
{
    long result = fi_cntr_wait(counted, FAR, -1);
    CHECK(write(line_between_threads[1], "", 1) == 1);
    return (void *) result;
}

/* A wait for a counter ends well once its threshold is reached or overrun, and with an error once
 * one is counted: of an operation, or by the application. Each is told to those that wait then. */
static void ends_of_waits_for_counters(enum fi_wait_obj kind)
{
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_cntr_attr attr = {.wait_obj = kind};
    struct fid_cntr *received;
    struct fid_cq *queue;
    pthread_t sleeper;
    void *result;
    char bytes[8];
    OK(fi_cntr_open(domain, &attr, &received, NULL));
    OK(fi_cq_open(domain, &cq_attr, &queue, NULL));
    struct fid_ep *end = begin_end(queue, info);
    OK(fi_ep_bind(end, &received->fid, FI_RECV));
    OK(fi_enable(end));
    fi_addr_t peer = swap_names(end);
    OK(fi_trecv(end, bytes, 8, NULL, peer, 0, 0, &contexts[0]));
    OK(fi_tinject(end, "12345678", 8, peer, 0));
    OK(fi_cntr_wait(received, 1, 30000));
    OK(fi_cntr_wait(received, 0, 0));
    meet();
    /* There is less room than the message has bytes. */
    OK(fi_trecv(end, bytes, 4, NULL, peer, 1, 0, &contexts[0]));
    OK(fi_tinject(end, "12345678", 8, peer, 1));
    /* It is there, and nobody has looked yet. */
    say();
    hear();
    CHECK(fi_cntr_wait(received, 2, 30000) == -FI_EAVAIL);
    CHECK(fi_cntr_read(received) == 1 && fi_cntr_readerr(received) == 1);
    CHECK(fi_cntr_wait(received, 2, 0) == -FI_ETIMEDOUT);
    OK(fi_cntr_wait(received, 1, 0));
    CHECK(pthread_create(&sleeper, NULL, wait_for_far, received) == 0);
    /* Errors that were counted before it waits are not told to it. */
    do
        OK(fi_cntr_adderr(received, 1));
    while (!readable(line_between_threads[0], 1));
    CHECK(read(line_between_threads[0], bytes, 1) == 1);
    CHECK(pthread_join(sleeper, &result) == 0 && (long) result == -FI_EAVAIL);
    CHECK(pthread_create(&sleeper, NULL, wait_for_far, received) == 0);
    OK(fi_cntr_add(received, 2 * FAR));
    CHECK(read(line_between_threads[0], bytes, 1) == 1);
    CHECK(pthread_join(sleeper, &result) == 0 && (long) result == 0);
    CHECK(fi_cntr_read(received) == 1 + 2 * FAR);
    meet();
    OK(fi_close(&end->fid));
    OK(fi_close(&received->fid));
    OK(fi_close(&queue->fid));
}

static void *look_for_event(void *events)
{
    struct fi_eq_entry entry;
    uint32_t number;
    CHECK(write(line_between_threads[1], "", 1) == 1);
    CHECK(fi_eq_sread(events, &number, &entry, sizeof entry, -1, FI_PEEK) == sizeof entry && number == 6);
    return NULL;
}

/* An event that stays where it is wakes all that wait. */
static void seen_by_both(struct fid_eq *events)
{
    struct fi_eq_entry entry = {0};
    pthread_t sleepers[2];
    uint32_t number;
    char bytes[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&sleepers[i], NULL, look_for_event, events) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(read(line_between_threads[0], &bytes[i], 1) == 1);
    CHECK(fi_eq_write(events, 6, &entry, sizeof entry, 0) == sizeof entry);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(sleepers[i], NULL) == 0);
    CHECK(fi_eq_read(events, &number, &entry, sizeof entry, 0) == sizeof entry && number == 6);
}

/* An event queue with a descriptor, which is readable while there are events. */
static void sleep_on_events(void)
{
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_FD, .flags = FI_WRITE};
    struct fi_eq_entry entry = {0};
    struct fid_eq *events;
    uint32_t number;
    int descriptor;
    OK(fi_eq_open(fabric, &attr, &events, NULL));
    OK(fi_control(&events->fid, FI_GETWAIT, &descriptor));
    struct fid *fids[1] = {&events->fid};
    OK(fi_trywait(fabric, fids, 1));
    CHECK(readable(descriptor, 0) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(fi_eq_write(events, 5, &entry, sizeof entry, 0) == sizeof entry);
    for (int i = 0; i < 2; i++) {
        CHECK(readable(descriptor, 30000) == 1);
        CHECK(fi_trywait(fabric, fids, 1) == -FI_EAGAIN);
        CHECK(fi_eq_read(events, &number, &entry, sizeof entry, 0) == sizeof entry && number == 5);
    }
    OK(fi_trywait(fabric, fids, 1));
    CHECK(readable(descriptor, 0) == 0);
    for (int i = 0; i < 100; i++)
        seen_by_both(events);
    OK(fi_close(&events->fid));
}

/* What is not asked for is refused, and a queue stays as long as something is bound to it. */
static void limits_of_events(void)
{
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_NONE, .flags = 1ULL << 62};
    struct fi_av_attr av_attr = {0};
    struct fi_eq_entry entry = {0};
    struct fid_eq *events;
    struct fid_av *vector;
    struct fid_ep *end;
    uint32_t number;
    CHECK(fi_eq_open(fabric, &attr, &events, NULL) == -FI_EBADFLAGS);
    attr.flags = FI_AFFINITY;
    OK(fi_eq_open(fabric, &attr, &events, NULL));
    CHECK(fi_eq_write(events, 5, &entry, sizeof entry, 0) == -FI_EINVAL);
    CHECK(fi_eq_sread(events, &number, &entry, sizeof entry, 0, 0) == -FI_ENOSYS);
    CHECK(fi_eq_read(events, &number, &entry, sizeof entry, 0) == -FI_EAGAIN);
    OK(fi_av_open(domain, &av_attr, &vector, NULL));
    CHECK(fi_av_bind(vector, &events->fid, FI_WRITE) == -FI_EBADFLAGS);
    OK(fi_av_bind(vector, &events->fid, 0));
    OK(fi_endpoint(domain, info, &end, NULL));
    OK(fi_ep_bind(end, &events->fid, 0));
    CHECK(fi_close(&events->fid) == -FI_EBUSY);
    OK(fi_close(&vector->fid));
    CHECK(fi_close(&events->fid) == -FI_EBUSY);
    OK(fi_close(&end->fid));
    OK(fi_close(&events->fid));
}

/* Sleeps on the queue, by its descriptor and by sread. */
void waiting(void)
{
    CHECK(pipe(line_between_threads) == 0);
    sleep_on_events();
    limits_of_events();
    sleep_on_a_counter();
    ends_of_waits_for_counters(FI_WAIT_FD);
    ends_of_waits_for_counters(FI_WAIT_UNSPEC);
    struct fi_cq_tagged_entry entry;
    char bytes[8];
    int descriptor;
    CHECK(fi_cq_sread(cq, &entry, 1, NULL, 20) == -FI_EAGAIN);
    OK(fi_control(&cq->fid, FI_GETWAIT, &descriptor));
    for (int i = 0; i < 30; i++) {
        OK(fi_trecv(ep, bytes, 8, NULL, other, 1, 0, &contexts[0]));
        if (me == 0)
            OK(fi_tinject(ep, "12345678", 8, other, 1));
        if (i % 2) {
            CHECK(fi_cq_sread(cq, &entry, 1, NULL, -1) == 1);
        } else {
            struct fid *fids[1] = {&cq->fid};
            while (fi_cq_read(cq, &entry, 1) != 1) {
                int ready = fi_trywait(fabric, fids, 1);
                if (ready == -FI_EAGAIN)
                    continue;
                OK(ready);
                struct pollfd poller = {descriptor, POLLIN, 0};
                CHECK(poll(&poller, 1, 30000) >= 0);
            }
        }
        CHECK(entry.op_context == &contexts[0]);
        if (me == 1)
            OK(fi_tinject(ep, "12345678", 8, other, 1));
    }
    OK(fi_cq_signal(cq));
    CHECK(fi_cq_sread(cq, &entry, 1, NULL, -1) == -FI_EAGAIN);
    meet();
    signalled(descriptor);
    threshold();
    two_threads(descriptor);
    meet();
    two_queues();
    meet();
    /* Long enough to say what it waits for, where its patience is short. */
    OK(fi_trecv(ep, bytes, 8, NULL, other, 77, 0, &contexts[0]));
    CHECK(fi_cq_sread(cq, &entry, 1, NULL, 600) == -FI_EAGAIN);
    meet();
    OK(fi_tinject(ep, "12345678", 8, other, 77));
    CHECK(fi_cq_sread(cq, &entry, 1, NULL, -1) == 1);
    meet();
}
