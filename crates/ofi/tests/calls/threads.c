/* Threads that call at once. */
#define _GNU_SOURCE
#include "calls.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

static volatile int over, given_way, asked_meanwhile;

/* Asks and tells what no message changes. */
static void *ask(void *nothing)
{
    size_t least = 100;
    for (unsigned i = 0; !over; i++) {
        char name[64];
        size_t len = sizeof name, room = sizeof least;
        OK(fi_getname(&ep->fid, name, &len));
        CHECK(len == 64);
        OK(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least));
        OK(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, &room));
        CHECK(least == 100 && room == sizeof least);
        CHECK(fi_cntr_wait(counter, 1, 0) == -FI_ETIMEDOUT);
    }
    return nothing;
}

/* Control calls, which may come from any thread whatever the application has promised. */
static void *control(void *nothing)
{
    static char room[4096];
    size_t least = 100;
    for (unsigned i = 0; !over; i++) {
        char name[64];
        size_t len = sizeof name;
        fi_addr_t at;
        struct fid_mr *region;
        OK(fi_getname(&ep->fid, name, &len));
        OK(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least));
        CHECK(fi_av_insert(av, name, 1, &at, 0, NULL) == 1);
        OK(fi_av_remove(av, &at, 1, 0));
        OK(fi_mr_reg(domain, room, sizeof room, FI_REMOTE_READ, 0, 7000 + i % 8, 0, &region, NULL));
        OK(fi_close(&region->fid));
        if (i % 64 == 0)
            OK(fi_close(&open_end(info, NULL)->fid));
        OK(fi_cq_signal(cq));
    }
    return nothing;
}

enum { EACH = 3000, AT_ONCE = 8 };
static int ended_operations[2];

/* Posts and reads; what it reads may be what the other thread has posted. */
static void *post_and_read(void *number)
{
    int mine = *(int *) number;
    static char bytes[2][AT_ONCE];
    for (int i = 0; i < EACH; i += AT_ONCE) {
        for (int k = 0; k < AT_ONCE; k++) {
            OK(fi_trecv(ep, &bytes[mine][k], 1, NULL, myself, 10 + mine, 0, &contexts[mine * AT_ONCE + k]));
            OK(fi_tinject(ep, "1", 1, myself, 10 + mine));
        }
        while (__atomic_load_n(&ended_operations[mine], __ATOMIC_ACQUIRE) < i + AT_ONCE) {
            struct fi_cq_tagged_entry entries[3];
            ssize_t count = fi_cq_read(cq, entries, 3);
            CHECK(count > 0 || count == -FI_EAGAIN);
            for (ssize_t k = 0; k < count; k++) {
                int whose = (struct fi_context2 *) entries[k].op_context >= &contexts[AT_ONCE];
                CHECK(entries[k].tag == 10u + whose && entries[k].len == 1);
                __atomic_fetch_add(&ended_operations[whose], 1, __ATOMIC_RELEASE);
            }
        }
    }
    return NULL;
}

/* Two threads use one endpoint and one queue at once: nothing is lost, and nothing comes twice. */
static void two_at_once(void)
{
    pthread_t sender[2];
    int numbers[2] = {0, 1};
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&sender[i], NULL, post_and_read, &numbers[i]) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(sender[i], NULL) == 0);
        CHECK(ended_operations[i] == EACH);
    }
}

enum { ROUNDS = 300, CONTEXTS = 32, WORD = 77 };

/* A thread with an endpoint of its own, and how many of its operations are over. */
struct user {
    struct fid_ep *end;
    struct fid_cq *queue;
    fi_addr_t self;
    struct fi_context2 *contexts;
    int ended;
};
static struct user users[2];

static void read_queue(struct fid_cq *queue)
{
    struct fi_cq_tagged_entry entries[3];
    ssize_t count = fi_cq_read(queue, entries, 3);
    CHECK(count > 0 || count == -FI_EAGAIN);
    for (ssize_t k = 0; k < count; k++) {
        int whose = (struct fi_context2 *) entries[k].op_context >= users[1].contexts;
        __atomic_fetch_add(&users[whose].ended, 1, __ATOMIC_RELEASE);
    }
}

/* Messages to itself, and additions to a word that both add to. */
static void *use_end(void *argument)
{
    struct user *mine = argument;
    uint64_t one = 1;
    char bytes[AT_ONCE];
    for (int i = 1; i <= ROUNDS; i++) {
        for (int k = 0; k < AT_ONCE; k++) {
            OK(fi_trecv(mine->end, &bytes[k], 1, NULL, mine->self, 10, 0, &mine->contexts[k]));
            OK(fi_tinject(mine->end, "1", 1, mine->self, 10));
        }
        long code;
        while ((code = fi_atomic(mine->end, &one, 1, NULL, mine->self, 0, WORD, FI_UINT64, FI_SUM,
                                 &mine->contexts[AT_ONCE])) == -FI_EAGAIN)
            read_queue(mine->queue);
        OK(code);
        while (__atomic_load_n(&mine->ended, __ATOMIC_ACQUIRE) < i * (AT_ONCE + 1))
            read_queue(mine->queue);
    }
    return NULL;
}

/* Two threads use an endpoint each: with a queue and a counter that both share, or with a queue
 * each. Each operation is reported and counted once, and no addition is lost. */
static void an_endpoint_each(int shared)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
    struct fid_cntr *started = NULL;
    struct fid_mr *region;
    pthread_t threads[2];
    uint64_t word = 0;
    if (shared)
        OK(fi_cntr_open(domain, NULL, &started, NULL));
    OK(fi_mr_reg(domain, &word, sizeof word, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, WORD, 0, &region,
                 NULL));
    for (int i = 0; i < 2; i++) {
        char name[64];
        size_t len = sizeof name;
        users[i] = (struct user) {.queue = cq, .contexts = &contexts[i * CONTEXTS]};
        if (!shared)
            OK(fi_cq_open(domain, &attr, &users[i].queue, NULL));
        users[i].end = open_end_on(users[i].queue, info, started);
        OK(fi_getname(&users[i].end->fid, name, &len));
        CHECK(fi_av_insert(av, name, 1, &users[i].self, 0, NULL) == 1);
    }
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, use_end, &users[i]) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(word == 2 * ROUNDS);
    if (shared)
        CHECK(fi_cntr_read(started) == 2 * ROUNDS * (AT_ONCE + 1) && fi_cntr_readerr(started) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK(users[i].ended == ROUNDS * (AT_ONCE + 1));
        OK(fi_av_remove(av, &users[i].self, 1, 0));
        OK(fi_close(&users[i].end->fid));
        if (!shared)
            OK(fi_close(&users[i].queue->fid));
    }
    OK(fi_close(&region->fid));
    if (shared)
        OK(fi_close(&started->fid));
}

static void *close_ends(void *closed)
{
    for (int i = 0; i < 50; i++)
        OK(fi_close(&open_end(info, NULL)->fid));
    __atomic_store_n((int *) closed, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Memory can be registered at any time while another thread closes endpoints of the domain. */
static void register_meanwhile(void)
{
    pthread_t closer;
    int closed = 0;
    uint64_t word;
    CHECK(pthread_create(&closer, NULL, close_ends, &closed) == 0);
    while (!__atomic_load_n(&closed, __ATOMIC_ACQUIRE)) {
        struct fid_mr *region;
        OK(fi_mr_reg(domain, &word, sizeof word, FI_REMOTE_READ, 0, WORD, 0, &region, NULL));
        OK(fi_close(&region->fid));
    }
    CHECK(pthread_join(closer, NULL) == 0);
}

static void *close_end(void *end)
{
    OK(fi_close(&((struct fid_ep *) end)->fid));
    return NULL;
}

/* While an endpoint that closes waits until what it has sent is taken, control calls go on, and so
 * does the thread that is to take it. */
static void controls_while_a_sender_closes(void)
{
    enum { LEN = 4 << 20 };
    static char out[LEN], in[LEN];
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_cq_tagged_entry entry;
    struct fid_mr *region, *another;
    struct fid_cq *sends;
    pthread_t closer;
    uint64_t word = 0, seen;
    char names[2][64];
    size_t len = sizeof names[0];
    fi_addr_t at[2];
    OK(fi_cq_open(domain, &attr, &sends, NULL));
    struct fid_ep *ends[2] = {open_end_on(sends, info, NULL), open_end(info, NULL)};
    for (int i = 0; i < 2; i++)
        OK(fi_getname(&ends[i]->fid, names[i], &len));
    CHECK(fi_av_insert(av, names, 2, at, 0, NULL) == 2);
    OK(fi_mr_reg(domain, &word, sizeof word, FI_REMOTE_READ, 0, WORD, 0, &region, NULL));
    memset(out, 1, LEN);
    OK(fi_tsend(ends[0], out, LEN, NULL, at[1], 1, &contexts[4]));
    CHECK(pthread_create(&closer, NULL, close_end, ends[0]) == 0);
    /* Nobody reaches memory through it once it closes. */
    do
        RETRY(fi_read(ends[1], &seen, sizeof seen, NULL, at[0], 0, WORD, &contexts[5]));
    while (answer(&entry) == 1);
    CHECK(fi_cq_readerr(cq, &(struct fi_cq_err_entry) {0}, 0) == 1);
    for (int i = 0; i < 100; i++) {
        OK(fi_mr_reg(domain, &seen, sizeof seen, FI_REMOTE_READ, 0, WORD + 1, 0, &another, NULL));
        OK(fi_close(&another->fid));
        /* It may have the number of the one that closes. */
        OK(fi_close(&open_end(info, NULL)->fid));
        CHECK(fi_close(&sends->fid) == -FI_EBUSY);
    }
    OK(fi_trecv(ends[1], in, LEN, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[3]));
    CHECK(completion().op_context == &contexts[3] && !memcmp(in, out, LEN));
    CHECK(pthread_join(closer, NULL) == 0);
    OK(fi_av_remove(av, at, 2, 0));
    OK(fi_close(&ends[1]->fid));
    OK(fi_close(&region->fid));
    OK(fi_close(&sends->fid));
}

/* One thread moves messages, another one asks the same objects. */
static void beside(void *(*other_thread)(void *))
{
    pthread_t asker;
    char bytes[8];
    CHECK(pthread_create(&asker, NULL, other_thread, NULL) == 0);
    for (int i = 0; i < 5000; i++) {
        OK(fi_trecv(ep, bytes, 8, NULL, myself, 1, 0, &contexts[0]));
        OK(fi_tinject(ep, "12345678", 8, myself, 1));
        CHECK(completion().op_context == &contexts[0]);
    }
    over = 1;
    CHECK(pthread_join(asker, NULL) == 0);
}

/* A call that finds nothing gives its CPU away in the end: this handler stands in its place. */
static void gives_way(int signal, siginfo_t *what, void *context)
{
    ucontext_t *registers = context;
    (void) signal, (void) what;
    /* What the call gives. */
#if defined __x86_64__
    registers->uc_mcontext.gregs[REG_RAX] = 0;
#elif defined __aarch64__
    registers->uc_mcontext.regs[0] = 0;
#endif
    given_way = 1;
    for (int ms = 0; ms < 20000 && !asked_meanwhile; ms++)
        poll(NULL, 0, 1);
}

/* Asks an object of the domain as soon as the other thread gives way. */
static void *ask_meanwhile(void *nothing)
{
    size_t least, room = sizeof least;
    while (!given_way)
        poll(NULL, 0, 1);
    OK(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, &room));
    asked_meanwhile = 1;
    return nothing;
}

/* A thread that gives way keeps no other one out. */
static void nobody_waits_for_one_that_gives_way(void)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_yield, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof steps / sizeof *steps, steps};
    struct sigaction handler = {.sa_sigaction = gives_way, .sa_flags = SA_SIGINFO};
    pthread_t asker;
    CHECK(pthread_create(&asker, NULL, ask_meanwhile, NULL) == 0);
    OK(sigaction(SIGSYS, &handler, NULL));
    /* From here on, for this thread alone. */
    OK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    OK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
    while (!given_way)
        CHECK(fi_cq_read(cq, NULL, 0) == -FI_EAGAIN);
    CHECK(asked_meanwhile);
    CHECK(pthread_join(asker, NULL) == 0);
}

/* Two threads use everything at once. */
void threads(void)
{
    beside(ask);
    two_at_once();
    an_endpoint_each(1);
    an_endpoint_each(0);
    register_meanwhile();
    controls_while_a_sender_closes();
    meet();
    nobody_waits_for_one_that_gives_way();
    meet();
}

/* One thread uses the domain, and another one makes control calls. */
void controls(void)
{
    beside(control);
    controls_while_a_sender_closes();
    meet();
}
