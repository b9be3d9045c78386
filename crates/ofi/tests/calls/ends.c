/* Processes that end. */
#include "calls.h"

#include <sys/resource.h>
#include <sys/time.h>
#include <sys/un.h>

/*
 * Messages that were injected, and are still here when their receiver is killed, are reported: no
 * other call says that they are lost.
 */
void lost(pid_t child)
{
    enum { COUNT = 4000, LEN = 4096, LONG = 1 << 20, MOST = 1000 };
    static char bytes[LONG];
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_cq_tagged_entry entry;
    struct fid_cntr *sent;
    struct fid_cq *queue;
    struct fid_ep *end;
    OK(fi_cq_open(domain, &attr, &queue, NULL));
    OK(fi_cntr_open(domain, NULL, &sent, NULL));
    OK(fi_endpoint(domain, info, &end, NULL));
    OK(fi_ep_bind(end, &av->fid, 0));
    OK(fi_ep_bind(end, &queue->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION));
    OK(fi_ep_bind(end, &sent->fid, FI_SEND));
    OK(fi_enable(end));
    for (int i = 0; i < COUNT; i++)
        OK(fi_tinject(end, bytes, LEN, other, 1));
    /* There is an end to the memory that copies may take. */
    struct iovec piece = {bytes, LONG};
    struct fi_msg_tagged message = {.msg_iov = &piece, .iov_count = 1, .addr = other, .tag = 1};
    unsigned more = 0;
    ssize_t result;
    while ((result = fi_tsendmsg(end, &message, FI_INJECT)) == 0 && more < MOST)
        more++;
    CHECK(result == -FI_EAGAIN && more > 0 && more < MOST);
    /* Also of atomic operations, and of the data of writes. */
    CHECK(fi_inject_atomic(end, bytes, 1, other, 0, 1, FI_UINT8, FI_SUM) == -FI_EAGAIN);
    CHECK(fi_inject_writedata(end, bytes, 1, 5, other, 0, 1) == -FI_EAGAIN);
    kill(child, SIGKILL);
    uint64_t failed = 0;
    while (fi_cntr_read(sent) + fi_cntr_readerr(sent) < COUNT + more)
        ;
    while (fi_cq_read(queue, &entry, 1) == -FI_EAVAIL) {
        struct fi_cq_err_entry error = {0};
        CHECK(fi_cq_readerr(queue, &error, 0) == 1 && error.err == FI_ECONNRESET);
        CHECK(error.op_context == NULL && (error.flags & (FI_SEND | FI_TAGGED)) == (FI_SEND | FI_TAGGED));
        failed++;
    }
    CHECK(failed > 0 && failed == fi_cntr_readerr(sent));
    OK(fi_close(&end->fid));
    OK(fi_close(&sent->fid));
    OK(fi_close(&queue->fid));
}

/* The other process is killed: what needs it ends with an error, and nothing hangs. */
void killed(pid_t child)
{
    static unsigned char bytes[1000000];
    uint64_t before;
    int status;
    OK(fi_trecv(ep, bytes, 8, NULL, other, 1, 0, &contexts[0]));
    CHECK(completion().len == 8);
    OK(fi_trecv(ep, bytes, 8, NULL, other, 2, 0, &contexts[0]));
    OK(fi_tsend(ep, bytes, sizeof bytes, NULL, other, 3, &contexts[1]));
    /* This one may come from others. */
    OK(fi_trecv(ep, bytes, 8, NULL, FI_ADDR_UNSPEC, 4, 0, &contexts[2]));
    /* What it is asked for now, it does not answer. */
    kill(child, SIGSTOP);
    CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    RETRY(fi_writedata(ep, bytes, 8, NULL, 5, other, 0, 1, &contexts[3]));
    RETRY(fi_fetch_atomic(ep, bytes, 1, NULL, &before, NULL, other, 0, 1, FI_UINT64, FI_SUM, &contexts[4]));
    kill(child, SIGKILL);
    int failed[5] = {0};
    for (int i = 0; i < 4; i++) {
        struct fi_cq_err_entry error = failure();
        CHECK(error.err == FI_ECONNRESET);
        failed[(struct fi_context2 *) error.op_context - contexts]++;
    }
    CHECK(failed[0] == 1 && failed[1] == 1 && failed[3] == 1 && failed[4] == 1);
    CHECK(fi_tsend(ep, bytes, 8, NULL, other, 3, &contexts[1]) == -FI_ECONNRESET);
    CHECK(fi_read(ep, bytes, 8, NULL, other, 0, 1, &contexts[1]) == -FI_ECONNRESET);
    struct fi_msg_tagged look = {.addr = FI_ADDR_UNSPEC, .tag = 5, .context = &contexts[1]};
    OK(fi_trecvmsg(ep, &look, FI_PEEK));
    CHECK(failure().err == FI_ENOMSG);
    OK(fi_tinject(ep, "12345678", 8, myself, 4));
    CHECK(completion().op_context == &contexts[2]);
}

/*
 * What was sent with FI_DELIVERY_COMPLETE, which is a default flag here, and reported as complete
 * arrives, although its sender is killed before the receiver looks at it.
 */
void delivered(pid_t child)
{
    enum { COUNT = 5, LEN = 60000 };
    static const size_t lengths[COUNT] = {0, 8, 4000, 20000, LEN};
    static unsigned char bytes[COUNT][LEN];
    /* The two have met. */
    OK(fi_trecv(ep, bytes[0], 8, NULL, other, 100, 0, &contexts[0]));
    OK(fi_tinject(ep, "12345678", 8, other, 100));
    CHECK(completion().len == 8);
    meet();
    if (me) {
        for (int i = 0; i < COUNT; i++) {
            fill(bytes[i], lengths[i], i);
            OK(fi_tsend(ep, bytes[i], lengths[i], NULL, other, i, &contexts[i]));
            CHECK(completion().op_context == &contexts[i]);
        }
        kill(getpid(), SIGKILL);
    }
    siginfo_t how;
    CHECK(waitid(P_PID, (id_t) child, &how, WEXITED | WNOWAIT) == 0);
    for (int i = 0; i < COUNT; i++) {
        OK(fi_trecv(ep, bytes[i], LEN, NULL, other, i, 0, &contexts[i]));
        struct fi_cq_tagged_entry entry = completion();
        CHECK(entry.op_context == &contexts[i] && entry.len == lengths[i] && right(bytes[i], lengths[i], i));
    }
}

enum { REGION = 64 << 20, REGION_KEY = 42 };

/* Writes a region of the other process until that fails; gives the reason. */
int write_on(void)
{
    struct fi_cq_tagged_entry entry;
    unsigned char *bytes = malloc(REGION);
    CHECK(bytes);
    for (int round = 1;; round++) {
        memset(bytes, round % 256, REGION);
        RETRY(fi_write(ep, bytes, REGION, NULL, other, 0, REGION_KEY, &contexts[0]));
        if (answer(&entry) != 1)
            break;
    }
    struct fi_cq_err_entry error = {0};
    CHECK(fi_cq_readerr(cq, &error, 0) == 1);
    free(bytes);
    return error.err;
}

/* Stops the other process while it is writing. */
static void stop_inside(pid_t child, volatile unsigned char *bytes)
{
    enum { ROUNDS = 1000 };
    int status, inside = 0;
    for (int round = 0; round < ROUNDS && !inside; round++) {
        unsigned char before = bytes[0];
        while (bytes[0] == before)
            fi_cq_read(cq, NULL, 0);
        kill(child, SIGSTOP);
        /* What is written later is written by one that is to stop. */
        inside = bytes[REGION - 1] == before;
        CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
        if (!inside)
            kill(child, SIGCONT);
    }
    CHECK(inside);
}

/*
 * A region that the other process is writing, which was stopped meanwhile, is not given back: its
 * bytes may change still. It is given back when that one goes on.
 */
void stopped(pid_t child)
{
    struct fid_mr *region;
    if (me) {
        meet();
        CHECK(write_on() == FI_EKEYREJECTED);
    } else {
        unsigned char *bytes = calloc(REGION, 1);
        CHECK(bytes);
        OK(fi_mr_reg(domain, bytes, REGION, FI_REMOTE_WRITE, 0, REGION_KEY, 0, &region, NULL));
        meet();
        stop_inside(child, bytes);
        CHECK(fi_close(&region->fid) == -FI_EBUSY);
        /* No other access begins. */
        RETRY(fi_writedata(ep, "1", 1, NULL, 1, myself, 0, REGION_KEY, &contexts[0]));
        CHECK(failure().err == FI_EKEYREJECTED);
        kill(child, SIGCONT);
        int closed;
        while ((closed = fi_close(&region->fid)) == -FI_EBUSY)
            fi_cq_read(cq, NULL, 0);
        OK(closed);
        free(bytes);
    }
    meet();
}

/* As before, but the endpoint is closed first. The region is given back when the other one ends. */
void abandoned(pid_t child)
{
    static char others[8];
    struct fid_mr *region, *unused;
    unsigned char *bytes = calloc(REGION, 1);
    CHECK(bytes);
    OK(fi_mr_reg(domain, bytes, REGION, FI_REMOTE_WRITE, 0, REGION_KEY, 0, &region, NULL));
    OK(fi_mr_reg(domain, others, sizeof others, FI_REMOTE_WRITE, 0, REGION_KEY + 1, 0, &unused, NULL));
    meet();
    stop_inside(child, bytes);
    OK(fi_close(&ep->fid));
    CHECK(fi_close(&region->fid) == -FI_EBUSY);
    OK(fi_close(&unused->fid));
    /* Its successor has its number, and not the region that is being closed. */
    struct fid_ep *next = open_end(info, NULL);
    char name[64];
    size_t len = sizeof name;
    fi_addr_t itself;
    OK(fi_getname(&next->fid, name, &len));
    CHECK(fi_av_insert(av, name, 1, &itself, 0, NULL) == 1);
    RETRY(fi_read(next, others, 1, NULL, itself, 0, REGION_KEY, &contexts[0]));
    CHECK(failure().err == FI_EKEYREJECTED);
    CHECK(fi_close(&region->fid) == -FI_EBUSY);
    OK(fi_close(&next->fid));
    CHECK(fi_close(&region->fid) == -FI_EBUSY);
    kill(child, SIGKILL);
    int closed;
    while ((closed = fi_close(&region->fid)) == -FI_EBUSY)
        usleep(1000);
    OK(closed);
    free(bytes);
}

/* From then on the second process sends ahead: the first one has been idle between its messages. */
static void lag(void)
{
    enum { MESSAGES = 32, LEN = 1 << 20 };
    static unsigned char bytes[LEN];
    for (int i = 0; me && i < MESSAGES; i++)
        OK(fi_tsend(ep, bytes, LEN, NULL, other, 1, &contexts[i]));
    meet();
    for (int i = 0; i < MESSAGES; i++) {
        if (!me) {
            usleep(100);
            OK(fi_trecv(ep, bytes, LEN, NULL, other, 1, 0, &contexts[0]));
        }
        completion();
    }
    meet();
}

/*
 * What a process is asked for may be lost where it has no descriptor for the memory that the
 * message lies in. Whoever asked gets to know it.
 */
void shortage(void)
{
    enum { WORDS = 512, SHORT = 7, BEHIND = 16 };
    static uint64_t words[WORDS], seen[WORDS];
    struct fid_mr *region;
    struct rlimit before;
    OK(fi_mr_reg(domain, words, sizeof words, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, SHORT, 0, &region, NULL));
    lag();
    if (!me) {
        /* Not even where it closes others for that. */
        CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
        struct rlimit none = {3, before.rlim_max};
        CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    }
    meet();
    if (me) {
        RETRY(fi_fetch_atomic(ep, words, WORDS, NULL, seen, NULL, other, 0, SHORT, FI_UINT64, FI_SUM, NULL));
        /* Behind it, what is not lost fails as well, though it is executed and answered. */
        for (int i = 0; i < BEHIND; i++)
            RETRY(fi_fetch_atomic(ep, words, 1, NULL, seen, NULL, other, 0, SHORT, FI_UINT64, FI_SUM, NULL));
        for (int i = 0; i <= BEHIND; i++)
            CHECK(failure().err == FI_EIO);
        /* Those answers mean nothing to what is asked for from now on. */
        for (int i = 0; i < BEHIND; i++) {
            RETRY(fi_atomic(ep, words, 1, NULL, other, 0, SHORT, FI_UINT64, FI_SUM, NULL));
            completion();
        }
    }
    meet();
    CHECK(me || setrlimit(RLIMIT_NOFILE, &before) == 0);
    OK(fi_close(&region->fid));
}

/* A line that ends where it begins, for one process alone. */
static int line_to_oneself(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t len = sizeof address;
    int line = socket(AF_UNIX, SOCK_DGRAM, 0);
    /* Without a name the kernel finds one. */
    CHECK(bind(line, (struct sockaddr *) &address, sizeof address.sun_family) == 0);
    CHECK(getsockname(line, (struct sockaddr *) &address, &len) == 0);
    CHECK(connect(line, (struct sockaddr *) &address, len) == 0);
    return line;
}

static void leave(int signal)
{
    (void) signal;
    exit(0);
}

static void wait_for(pid_t child)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Long messages to itself: nearly all of the time passes inside of calls. */
static void talk_to_oneself(void)
{
    enum { LEN = 4 << 20 };
    static char out[LEN], in[LEN];
    struct fi_cq_tagged_entry entry;
    for (;;) {
        OK(fi_trecv(ep, in, LEN, NULL, myself, 1, 0, &contexts[0]));
        OK(fi_tsend(ep, out, LEN, NULL, myself, 1, &contexts[1]));
        for (int both = 0; both < 2; both += fi_cq_read(cq, &entry, 1) == 1)
            ;
    }
}

/*
 * Processes that end without closing anything: in a signal handler, which may interrupt any call,
 * with a lock and without one; and forked children of one that goes on.
 */
void leaving(void)
{
    for (int round = 0; round < 10; round++) {
        pid_t child = fork();
        if (child == 0) {
            struct itimerval soon = {.it_value = {.tv_usec = 2000 + 111 * round}};
            line_to_other = line_to_oneself();
            open_all(FI_WAIT_NONE, round % 2 ? FI_THREAD_SAFE : FI_THREAD_DOMAIN, 0);
            signal(SIGALRM, leave);
            setitimer(ITIMER_REAL, &soon, NULL);
            talk_to_oneself();
        }
        wait_for(child);
    }
    line_to_other = line_to_oneself();
    open_all(FI_WAIT_NONE, FI_THREAD_DOMAIN, 0);
    pid_t child = fork();
    if (child == 0)
        exit(0);
    wait_for(child);
    printf("forked: process %d:\n", (int) child);
    /* The parent's endpoint works on. */
    char bytes[8];
    OK(fi_trecv(ep, bytes, 8, NULL, myself, 1, 0, &contexts[0]));
    OK(fi_tinject(ep, "12345678", 8, myself, 1));
    CHECK(completion().len == 8);
    close_all();
}

/* A stranger gets to know the name. */
static void say_name(struct fid_ep *end)
{
    unsigned char name[64];
    size_t len = sizeof name;
    OK(fi_getname(&end->fid, name, &len));
    for (size_t i = 0; i < len; i++)
        printf("%02x%s", name[i], i + 1 < len ? "" : "\n");
    fflush(stdout);
}

/*
 * An endpoint that offers no memory, and says its name: whatever a stranger says to it, it has no
 * completions but that of the message.
 */
void forged(void)
{
    line_to_other = line_to_oneself();
    open_all(FI_WAIT_NONE, FI_THREAD_DOMAIN, 0);
    struct fi_info *messages = fi_dupinfo(info);
    messages->caps = FI_MSG | FI_TAGGED | FI_SEND | FI_RECV;
    struct fid_ep *end = open_end(messages, NULL);
    unsigned char bytes[8];
    say_name(end);
    OK(fi_trecv(end, bytes, sizeof bytes, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[0]));
    CHECK(completion().op_context == &contexts[0]);
    CHECK(fi_cq_read(cq, NULL, 0) == -FI_EAGAIN);
    OK(fi_close(&end->fid));
    fi_freeinfo(messages);
    close_all();
}

/*
 * A stranger asks for something, is gone before all of that has come, and is back. Nothing happens
 * between its two messages.
 */
void returned(void)
{
    line_to_other = line_to_oneself();
    open_all(FI_WAIT_NONE, FI_THREAD_DOMAIN, 0);
    say_name(ep);
    char name[64], bytes[8];
    fi_addr_t stranger;
    OK(fi_trecv(ep, name, sizeof name, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[0]));
    CHECK(completion().len == sizeof name);
    CHECK(fi_av_insert(av, name, 1, &stranger, 0, NULL) == 1);
    OK(fi_trecv(ep, bytes, sizeof bytes, NULL, stranger, 2, 0, &contexts[0]));
    completion();
    printf("asked\n");
    fflush(stdout);
    CHECK(getchar() == '\n');
    OK(fi_trecv(ep, bytes, sizeof bytes, NULL, FI_ADDR_UNSPEC, 3, 0, &contexts[0]));
    completion();
    RETRY(fi_tsend(ep, bytes, sizeof bytes, NULL, stranger, 4, &contexts[0]));
    completion();
    close_all();
}
