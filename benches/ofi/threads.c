/*
 * Messages of 8 bytes to oneself under FI_THREAD_SAFE: of one thread; of two threads with an
 * endpoint together, with one each in a domain, and with one each in domains of their own.
 * docs/benchmarking.md says how to run it. Prints messages in a second, and each in parts of the
 * one thread's; the median of some rounds, in which the four take turns.
 */
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ok.h"

/* Messages of a thread under way. */
#define WINDOW 16
#define MOST_ROUNDS 64

struct end {
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    fi_addr_t myself;
};

/* A thread and its messages. Who reads a completion says so to the thread whose message it was. */
struct worker {
    struct end *end;
    uint64_t tag;
    double seconds;
    long messages;
    struct fi_context2 contexts[WINDOW];
    char room[WINDOW][8];
    int ended __attribute__((aligned(128)));
} __attribute__((aligned(128)));

static struct fi_info *info;
static struct fid_fabric *fabric;
/* The first two are of one domain. */
static struct end ends[3];
static struct worker workers[2];
static pthread_barrier_t start;

static void open_end(struct end *end, struct fid_domain *domain)
{
    end->domain = domain;
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE, .count = 1};
    OK(fi_av_open(domain, &av_attr, &end->av, NULL));
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
    OK(fi_cq_open(domain, &cq_attr, &end->cq, NULL));
    OK(fi_endpoint(domain, info, &end->ep, NULL));
    OK(fi_ep_bind(end->ep, &end->av->fid, 0));
    OK(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION));
    OK(fi_enable(end->ep));
    char name[64];
    size_t len = sizeof name;
    OK(fi_getname(&end->ep->fid, name, &len));
    OK(fi_av_insert(end->av, name, 1, &end->myself, 0, NULL) - 1);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

/* Whose message it was, by the context of its receive. */
static struct worker *owner(void *context)
{
    return context < (void *) &workers[1] ? &workers[0] : &workers[1];
}

static void *work(void *argument)
{
    struct worker *me = argument;
    struct end *end = me->end;
    pthread_barrier_wait(&start);
    double until = now() + me->seconds;
    me->messages = 0;
    do {
        __atomic_store_n(&me->ended, 0, __ATOMIC_RELAXED);
        for (int i = 0; i < WINDOW; i++) {
            OK(fi_trecv(end->ep, me->room[i], 8, NULL, end->myself, me->tag, 0, &me->contexts[i]));
            OK(fi_tinject(end->ep, "12345678", 8, end->myself, me->tag));
        }
        while (__atomic_load_n(&me->ended, __ATOMIC_ACQUIRE) < WINDOW) {
            struct fi_cq_tagged_entry entries[WINDOW];
            ssize_t count = fi_cq_read(end->cq, entries, WINDOW);
            if (count < 0)
                OK(count + FI_EAGAIN);
            for (ssize_t i = 0; i < count; i++)
                __atomic_fetch_add(&owner(entries[i].op_context)->ended, 1, __ATOMIC_RELEASE);
        }
        me->messages += WINDOW;
    } while (now() < until);
    return NULL;
}

/* Messages in a second of so many threads together. */
static double rate(int threads, struct end *first, struct end *second, double seconds)
{
    struct end *of[2] = {first, second};
    pthread_t ids[2];
    double messages = 0;
    pthread_barrier_init(&start, NULL, threads);
    for (int i = 0; i < threads; i++) {
        workers[i].end = of[i];
        workers[i].tag = i;
        workers[i].seconds = seconds;
        OK(pthread_create(&ids[i], NULL, work, &workers[i]));
    }
    for (int i = 0; i < threads; i++) {
        OK(pthread_join(ids[i], NULL));
        messages += workers[i].messages;
    }
    pthread_barrier_destroy(&start);
    return messages / seconds;
}

static int smaller(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 9;
    double seconds = argc > 2 ? atof(argv[2]) : 0.2;
    if (rounds < 1 || rounds > MOST_ROUNDS || seconds <= 0) {
        fprintf(stderr, "usage: threads [rounds, at most %d] [seconds of each]\n", MOST_ROUNDS);
        return 1;
    }
    struct fi_info *hints = fi_allocinfo();
    if (!hints)
        return 1;
    hints->caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->rx_attr->op_flags = FI_COMPLETION;
    hints->fabric_attr->prov_name = strdup("limic");
    OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
    fi_freeinfo(hints);
    OK(fi_fabric(info->fabric_attr, &fabric, NULL));
    struct fid_domain *domains[2];
    for (int i = 0; i < 2; i++)
        OK(fi_domain(fabric, info, &domains[i], NULL));
    for (int i = 0; i < 3; i++)
        open_end(&ends[i], domains[i / 2]);

    static const char *names[] = {"one thread", "two threads, one endpoint",
                                  "two threads, two endpoints of a domain",
                                  "two threads, two domains"};
    static double rates[4][MOST_ROUNDS], parts[4][MOST_ROUNDS];
    for (int round = 0; round < rounds; round++) {
        rates[0][round] = rate(1, &ends[0], NULL, seconds);
        rates[1][round] = rate(2, &ends[0], &ends[0], seconds);
        rates[2][round] = rate(2, &ends[0], &ends[1], seconds);
        rates[3][round] = rate(2, &ends[0], &ends[2], seconds);
        for (int i = 0; i < 4; i++)
            parts[i][round] = rates[i][round] / rates[0][round];
    }
    for (int i = 0; i < 4; i++) {
        qsort(rates[i], rounds, sizeof(double), smaller);
        qsort(parts[i], rounds, sizeof(double), smaller);
        printf("%-40s %6.2f M/s  %.2f (%.2f to %.2f)\n", names[i], rates[i][rounds / 2] / 1e6,
               parts[i][rounds / 2], parts[i][0], parts[i][rounds - 1]);
    }
    for (int i = 0; i < 3; i++) {
        OK(fi_close(&ends[i].ep->fid));
        OK(fi_close(&ends[i].cq->fid));
        OK(fi_close(&ends[i].av->fid));
    }
    for (int i = 0; i < 2; i++)
        OK(fi_close(&domains[i]->fid));
    OK(fi_close(&fabric->fid));
    fi_freeinfo(info);
    return 0;
}
