/*
 * Two processes that call the provider through libfabric, in lockstep: what all parts of the
 * program share.
 */
#ifndef CALLS_H
#define CALLS_H

#include <poll.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* FI_MR_BASIC and FI_MR_SCALABLE, which libfabric 2 warns of. */
enum { MODE_BASIC = 1, MODE_SCALABLE = 2 };

/* 0 or 1: which of the two this is. The other one is at the end of the line. */
extern int me, line_to_other;
/* What open_all asks for. */
extern enum fi_progress data_progress;
extern uint64_t more_caps, asked_orders;
extern struct fi_info *info;
extern struct fid_fabric *fabric;
extern struct fid_domain *domain;
extern struct fid_ep *ep;
extern struct fid_av *av;
extern struct fid_cq *cq;
extern struct fid_cntr *counter;
extern fi_addr_t other, myself;
extern struct fi_context2 contexts[64];
/* A send that may end at any time, and whether it has. */
extern void *any_time;
extern int ended;

#define CHECK(what)                                                            \
    do {                                                                       \
        if (!(what)) {                                                         \
            fprintf(stderr, "process %d, line %d: %s\n", me, __LINE__, #what); \
            _exit(1);                                                          \
        }                                                                      \
    } while (0)
#define OK(call)                                                               \
    do {                                                                       \
        long code_ = (long) (call);                                            \
        if (code_ != 0) {                                                      \
            fprintf(stderr, "process %d, line %d: %s: %ld (%s)\n", me,         \
                    __LINE__, #call, code_, fi_strerror((int) -code_));        \
            _exit(1);                                                          \
        }                                                                      \
    } while (0)
/* Calls that may ask for progress first. */
#define RETRY(call)                                                            \
    do {                                                                       \
        long again_;                                                           \
        while ((again_ = (long) (call)) == -FI_EAGAIN)                         \
            fi_cq_read(cq, NULL, 0);                                           \
        OK(again_);                                                            \
    } while (0)

/* setup.c */
void open_all(enum fi_wait_obj wait, int threading, int mr_mode);
void close_all(void);
struct fid_ep *open_end(struct fi_info *like, struct fid_cntr *started);
struct fid_ep *begin_end(struct fid_cq *queue, struct fi_info *like);
struct fid_ep *open_end_on(struct fid_cq *queue, struct fi_info *like, struct fid_cntr *started);
fi_addr_t swap_names(struct fid_ep *end);
void meet(void);
void say(void);
void hear(void);
ssize_t answer(struct fi_cq_tagged_entry *entry);
struct fi_cq_tagged_entry completion(void);
struct fi_cq_err_entry failure(void);
unsigned char pattern(size_t at, unsigned seed);
void fill(unsigned char *bytes, size_t len, unsigned seed);
int right(const unsigned char *bytes, size_t len, unsigned seed);

/* The parts. */
void tagged(void);
void messages(void);
void asked(void);
void objects(void);
void names(void);
void vectors(void);
void threads(void);
void controls(void);
void moved_along(void);
void flags(void);
void memory(void);
void atomics(void);
void writes(void);
void orders(void);
void events(void);
void woken(void);
void waiting(void);
void killed(pid_t child);
void lost(pid_t child);
void delivered(pid_t child);
void stopped(pid_t child);
int write_on(void);
void abandoned(pid_t child);
void shortage(void);
void leaving(void);
void forged(void);
void returned(void);

#endif
