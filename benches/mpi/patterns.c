/*
 * The patterns of `limic perf` over an MPI, for `cargo xtask compare`.
 *
 *   patterns PATTERN SECONDS [BYTES ...]
 *
 * PATTERN is latency, bandwidth, bibandwidth or rate (an even number of ranks, of which the first
 * half pairs up with the other half), barrier, alltoall, allgather or allreduce (any number of
 * ranks), or start, which only starts. BYTES is the length of a message,
 * or of the block that a rank gives to an alltoall, allgather or allreduce (a sum of ints, so a
 * multiple of 4). SECONDS is how long to measure each size. Rank 0 prints, one item a line:
 *
 *   rank R cpus C,C,...         where each rank may run
 *   row BYTES SECONDS STEPS     time of STEPS messages one way, or of STEPS collective operations
 *
 * Buffers as in `limic perf`: they start on a page, are touched before the clock starts, and are
 * used again for each message. Ping-pong sends from one and receives into another. A window of 64
 * messages is sent from one buffer; its receives are posted side by side in as many buffers as 256
 * KiB hold, at least 2 and at most 64. The warm-up is a tenth of the measured iterations. Every
 * size's bytes are checked once before its clock starts.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW = 64, SHARED_BYTES = 256 << 10, DATA = 10, ANSWER = 11 };

/* Seconds after which a run is long enough to tell how many iterations fit. */
static const double CALIBRATION = 2e-3;

typedef struct {
    int bytes;
    char *out;
    char *in;
    int rank;
    int ranks;
    /* The other rank of a pair, and whether this one begins. */
    int other;
    int first;
} Work;

typedef struct {
    const char *name;
    /* One iteration. */
    void (*iterate)(const Work *);
    /* Messages of one iteration that follow each other, or 1 for a collective operation. */
    int steps;
    /* Whether ranks make pairs. */
    int paired;
    /* Whether it moves messages of a size at all. */
    int sized;
} Pattern;

static void die(const char *what) {
    fprintf(stderr, "patterns: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static int depth(int bytes) {
    int deep = SHARED_BYTES / (bytes > 0 ? bytes : 1);
    return deep < 2 ? 2 : deep > WINDOW ? WINDOW : deep;
}

static void ping_pong(const Work *work) {
    int other = work->other;
    if (work->first) {
        MPI_Send(work->out, work->bytes, MPI_BYTE, other, DATA, MPI_COMM_WORLD);
        MPI_Recv(work->in, work->bytes, MPI_BYTE, other, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(work->in, work->bytes, MPI_BYTE, other, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(work->out, work->bytes, MPI_BYTE, other, DATA, MPI_COMM_WORLD);
    }
}

static void one_way(const Work *work) {
    MPI_Request requests[WINDOW];
    int other = work->other;
    if (work->first) {
        for (int i = 0; i < WINDOW; i++)
            MPI_Isend(work->out, work->bytes, MPI_BYTE, other, DATA, MPI_COMM_WORLD, &requests[i]);
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        MPI_Recv(NULL, 0, MPI_BYTE, other, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return;
    }
    int deep = depth(work->bytes);
    for (int first = 0; first < WINDOW; first += deep) {
        int count = WINDOW - first < deep ? WINDOW - first : deep;
        for (int i = 0; i < count; i++)
            MPI_Irecv(work->in + (size_t)i * work->bytes, work->bytes, MPI_BYTE, other, DATA, MPI_COMM_WORLD, &requests[i]);
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Send(NULL, 0, MPI_BYTE, other, ANSWER, MPI_COMM_WORLD);
}

static void both_ways(const Work *work) {
    MPI_Request requests[2 * WINDOW];
    int other = work->other, deep = depth(work->bytes);
    for (int first = 0; first < WINDOW; first += deep) {
        int count = WINDOW - first < deep ? WINDOW - first : deep;
        for (int i = 0; i < count; i++)
            MPI_Irecv(work->in + (size_t)i * work->bytes, work->bytes, MPI_BYTE, other, DATA, MPI_COMM_WORLD, &requests[i]);
        for (int i = 0; i < count; i++)
            MPI_Isend(work->out, work->bytes, MPI_BYTE, other, DATA, MPI_COMM_WORLD, &requests[count + i]);
        MPI_Waitall(2 * count, requests, MPI_STATUSES_IGNORE);
    }
}

static void barrier(const Work *work) {
    (void)work;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void all_to_all(const Work *work) {
    MPI_Alltoall(work->out, work->bytes, MPI_BYTE, work->in, work->bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void all_gather(const Work *work) {
    MPI_Allgather(work->out, work->bytes, MPI_BYTE, work->in, work->bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void all_reduce(const Work *work) {
    MPI_Allreduce(work->out, work->in, work->bytes / (int)sizeof(int), MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void nothing(const Work *work) { (void)work; }

static const Pattern PATTERNS[] = {
    {"latency", ping_pong, 2, 1, 1}, {"bandwidth", one_way, WINDOW, 1, 1}, {"bibandwidth", both_ways, WINDOW, 1, 1},
    {"rate", one_way, WINDOW, 1, 1}, {"barrier", barrier, 1, 0, 0},        {"alltoall", all_to_all, 1, 0, 1},
    {"allgather", all_gather, 1, 0, 1},      {"allreduce", all_reduce, 1, 0, 1},      {"start", nothing, 1, 0, 0},
};

/* Seconds of the slowest rank, on all ranks. */
static double run(const Pattern *pattern, const Work *work, long iterations) {
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (long i = 0; i < iterations; i++)
        pattern->iterate(work);
    double mine = MPI_Wtime() - begin, slowest = 0;
    /* Of a pair the first has the clock: it has the answer of the other. */
    if (pattern->paired && !work->first && pattern->iterate != both_ways)
        mine = 0;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

static char content(int from, int to, size_t at) { return (char)(1 + from * 31 + to * 7 + at * 13 + at / 251); }

/* Runs once, and compares the sums. */
static void check_sums(const Pattern *pattern, const Work *work) {
    int *out = (int *)work->out, *in = (int *)work->in, count = work->bytes / (int)sizeof(int);
    for (int i = 0; i < count; i++) {
        out[i] = i * (work->rank + 1);
        in[i] = -1;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    pattern->iterate(work);
    for (int i = 0; i < count; i++)
        if (in[i] != i * (work->ranks * (work->ranks + 1) / 2))
            die("sums differ from those of the numbers that were given");
}

/* Runs once, and compares what was received with what the others sent. */
static void check(const Pattern *pattern, const Work *work, size_t room) {
    if (pattern->iterate == all_reduce) {
        check_sums(pattern, work);
        return;
    }
    int each = pattern->iterate == all_to_all, collective = each || pattern->iterate == all_gather;
    size_t bytes = (size_t)work->bytes;
    int blocks = collective ? work->ranks : 1;
    memset(work->in, 0, room);
    for (int to = 0; to < (each ? blocks : 1); to++)
        for (size_t at = 0; at < bytes; at++)
            work->out[to * bytes + at] = content(work->rank, to, at);
    MPI_Barrier(MPI_COMM_WORLD);
    pattern->iterate(work);
    if (pattern->iterate == one_way && work->first)
        return;
    for (int block = 0; block < blocks; block++) {
        int from = collective ? block : work->other;
        for (size_t at = 0; at < bytes; at++)
            if (work->in[block * bytes + at] != content(from, each ? work->rank : 0, at))
                die("received bytes differ from those that were sent");
    }
}

static void measure(const Pattern *pattern, Work *work, double seconds) {
    int collective = pattern->iterate == all_to_all || pattern->iterate == all_gather;
    int blocks = collective ? work->ranks : pattern->steps == WINDOW ? depth(work->bytes) : 1;
    size_t room = (size_t)work->bytes * blocks + 1;
    void *out = NULL, *in = NULL;
    if (posix_memalign(&out, 4096, room) || posix_memalign(&in, 4096, room))
        die("not enough memory for the messages");
    memset(out, 1, room);
    work->out = out;
    work->in = in;
    if (pattern->sized)
        check(pattern, work, room);
    long iterations = 1;
    double time = run(pattern, work, iterations);
    double enough = CALIBRATION < seconds ? CALIBRATION : seconds;
    while (time < enough && iterations < 1 << 24) {
        iterations *= 4;
        time = run(pattern, work, iterations);
    }
    double fitting = seconds / (time > 1e-9 ? time / iterations : 1e-9);
    iterations = fitting < 1 ? 1 : fitting > 1e9 ? 1000000000 : (long)fitting;
    /* An operation that takes longer than it may altogether was warmed up by the calibration. */
    if (time < seconds)
        run(pattern, work, (iterations + 9) / 10);
    time = run(pattern, work, iterations);
    if (work->rank == 0) {
        printf("row %d %.9g %ld\n", work->bytes, time, iterations * pattern->steps);
        fflush(stdout);
    }
    free(out);
    free(in);
}

/* Rank 0 prints where all ranks may run, in their order. */
static void placement(const Work *work) {
    enum { ROOM = 1024 };
    char mine[ROOM] = "", *all = NULL;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (int cpu = 0, used = 0; cpu < CPU_SETSIZE && used < ROOM - 16; cpu++)
            if (CPU_ISSET(cpu, &set))
                used += snprintf(mine + used, ROOM - used, used ? ",%d" : "%d", cpu);
    if (work->rank == 0 && !(all = malloc((size_t)ROOM * work->ranks)))
        die("not enough memory");
    MPI_Gather(mine, ROOM, MPI_CHAR, all, ROOM, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int rank = 0; work->rank == 0 && rank < work->ranks; rank++)
        printf("rank %d cpus %s\n", rank, all + (size_t)rank * ROOM);
    fflush(stdout);
    free(all);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    Work work = {0};
    MPI_Comm_rank(MPI_COMM_WORLD, &work.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &work.ranks);
    const Pattern *pattern = NULL;
    for (size_t i = 0; argc > 2 && i < sizeof PATTERNS / sizeof *PATTERNS; i++)
        if (strcmp(PATTERNS[i].name, argv[1]) == 0)
            pattern = &PATTERNS[i];
    char *end = NULL;
    double seconds = argc > 2 ? strtod(argv[2], &end) : 0;
    if (!pattern || *end || !(seconds >= 0 && seconds <= 3600))
        die("usage: patterns latency|bandwidth|bibandwidth|rate|barrier|alltoall|allgather|allreduce|start SECONDS [BYTES ...]");
    if (pattern->paired && work.ranks % 2)
        die("this pattern takes an even number of ranks");
    work.first = work.rank < work.ranks / 2;
    work.other = (work.rank + work.ranks / 2) % work.ranks;
    placement(&work);
    if (!pattern->sized && pattern->iterate != nothing)
        measure(pattern, &work, seconds);
    for (int i = 3; pattern->sized && i < argc; i++) {
        long bytes = strtol(argv[i], &end, 10);
        if (end == argv[i] || *end || bytes < 0 || bytes > 1 << 30)
            die("a message size is a number of bytes from 0 to 2^30");
        if (pattern->iterate == all_reduce && bytes % (long)sizeof(int))
            die("allreduce sums ints: its sizes are multiples of 4");
        work.bytes = (int)bytes;
        measure(pattern, &work, seconds);
    }
    MPI_Finalize();
    return 0;
}
