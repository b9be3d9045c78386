/*
 * The patterns of benches/mpi/patterns.c over a bare TCP socket between two network namespaces, for
 * `cargo xtask compare --tcp`.
 *
 *   sockets PATTERN SECONDS poll|block CPU CPU NAMESPACE NAMESPACE ADDRESS BYTES ...
 *
 * PATTERN is latency or bandwidth. ADDRESS is that of the first namespace. With `poll` the socket
 * does not block, and is asked again and again, as by a library with a processor of its own; with
 * `block` the kernel puts the process to sleep. Buffers, windows, warm-up, check and output are
 * those of patterns.c.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WINDOW = 64, SHARED_BYTES = 256 << 10 };

static const double CALIBRATION = 2e-3;

static int line, first;

static void die(const char *what) {
    fprintf(stderr, "sockets: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void give(const char *bytes, size_t len) {
    while (len > 0) {
        ssize_t went = send(line, bytes, len, MSG_NOSIGNAL);
        if (went < 0 && errno != EAGAIN && errno != EINTR)
            die("send");
        if (went > 0) {
            bytes += went;
            len -= (size_t)went;
        }
    }
}

static void take(char *bytes, size_t len) {
    while (len > 0) {
        ssize_t came = recv(line, bytes, len, 0);
        if (came == 0 || (came < 0 && errno != EAGAIN && errno != EINTR))
            die("recv");
        if (came > 0) {
            bytes += came;
            len -= (size_t)came;
        }
    }
}

static size_t depth(size_t bytes) {
    size_t deep = SHARED_BYTES / bytes;
    return deep < 2 ? 2 : deep > WINDOW ? WINDOW : deep;
}

static void ping_pong(char *out, char *in, size_t bytes) {
    if (first)
        give(out, bytes);
    take(in, bytes);
    if (!first)
        give(out, bytes);
}

static void one_way(char *out, char *in, size_t bytes) {
    for (size_t i = 0; i < WINDOW; i++)
        if (first)
            give(out, bytes);
        else
            take(in + i % depth(bytes) * bytes, bytes);
    if (first)
        take(in, 1);
    else
        give(out, 1);
}

typedef void (*Pattern)(char *, char *, size_t);

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The first process says how many there are; seconds there. */
static double run(Pattern iterate, char *out, char *in, size_t bytes, long *iterations) {
    if (first)
        give((char *)iterations, sizeof *iterations);
    else
        take((char *)iterations, sizeof *iterations);
    double begin = now();
    for (long i = 0; i < *iterations; i++)
        iterate(out, in, bytes);
    return now() - begin;
}

static char content(size_t at) { return (char)(1 + at * 13 + at / 251); }

static void measure(Pattern iterate, size_t bytes, double seconds) {
    size_t room = bytes * depth(bytes);
    void *memory[2];
    for (int i = 0; i < 2; i++) {
        if (posix_memalign(&memory[i], 4096, room))
            die("memory");
        memset(memory[i], 1, room);
    }
    char *out = memory[0], *in = memory[1];
    for (size_t at = 0; at < bytes; at++)
        out[at] = content(at);
    long iterations = 1;
    double time = run(iterate, out, in, bytes, &iterations);
    for (size_t at = 0; at < bytes && (!first || iterate == ping_pong); at++)
        if (in[at] != content(at))
            die("received bytes differ from those that were sent");
    double enough = CALIBRATION < seconds ? CALIBRATION : seconds;
    /* The second process does as often what the first one says, until that is 0. */
    if (!first) {
        while (run(iterate, out, in, bytes, &iterations), iterations)
            ;
    } else {
        while (time < enough) {
            iterations *= 4;
            time = run(iterate, out, in, bytes, &iterations);
        }
        long fitting = (long)(seconds * (double)iterations / time);
        long warm = (fitting + 9) / 10, end = 0;
        iterations = fitting < 1 ? 1 : fitting;
        if (time < seconds)
            run(iterate, out, in, bytes, &warm);
        time = run(iterate, out, in, bytes, &iterations);
        run(iterate, out, in, bytes, &end);
        printf("row %zu %.9g %ld\n", bytes, time, iterations * (iterate == ping_pong ? 2 : WINDOW));
        fflush(stdout);
    }
    free(out);
    free(in);
}

/* Enters a network namespace, on one CPU. */
static void enter(const char *namespace, const char *cpu) {
    char path[256];
    snprintf(path, sizeof path, "/run/netns/%s", namespace);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || setns(file, CLONE_NEWNET))
        die(path);
    close(file);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(atoi(cpu), &set);
    if (sched_setaffinity(0, sizeof set, &set))
        die("affinity");
}

int main(int argc, char **argv) {
    if (argc < 10) {
        errno = EINVAL;
        die("usage: sockets latency|bandwidth SECONDS poll|block CPU CPU NAMESPACE NAMESPACE ADDRESS BYTES ...");
    }
    Pattern iterate = strcmp(argv[1], "latency") ? one_way : ping_pong;
    double seconds = atof(argv[2]);
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof at;
    enter(argv[6], argv[4]);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (inet_pton(AF_INET, argv[8], &at.sin_addr) != 1 || listener < 0 || bind(listener, (void *)&at, len) ||
        listen(listener, 1) || getsockname(listener, (void *)&at, &len))
        die("listen");
    pid_t other = fork();
    if (other < 0)
        die("fork");
    first = other > 0;
    if (first) {
        line = accept(listener, NULL, NULL);
    } else {
        enter(argv[7], argv[5]);
        line = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(line, (void *)&at, len))
            die("connect");
    }
    int on = 1;
    if (line < 0 || setsockopt(line, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) ||
        (!strcmp(argv[3], "poll") && fcntl(line, F_SETFL, O_NONBLOCK)))
        die("the connection");
    if (first)
        printf("rank 0 cpus %s\nrank 1 cpus %s\n", argv[4], argv[5]);
    for (int i = 9; i < argc; i++)
        measure(iterate, (size_t)atol(argv[i]), seconds);
    int status = 0;
    if (first && (waitpid(other, &status, 0) < 0 || status))
        die("the second process");
    return 0;
}
