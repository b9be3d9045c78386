/*
 * An MPI program that checks itself: point-to-point, collectives, communicators, derived datatypes
 * and threads. Prints one line per part, and exits with 1 if anything is wrong.
 *
 *   check [LONGEST] [no-cancel] [no-communicators] [no-threads]
 *
 * LONGEST is a bound on the lengths of the first part, in bytes. The words leave out what some
 * providers of libfabric do not have.
 */
#include <pthread.h>

#include "check.h"

static int cancels = 1, communicates = 1, threaded = 1;

/* Bytes that depend on a seed and on their place. */
static unsigned char content(unsigned seed, size_t at)
{
    return (unsigned char) (seed * 31 + at * 7 + (at >> 8));
}

static void fill(unsigned char *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = content(seed, i);
}

static int right(const unsigned char *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != content(seed, i))
            return 0;
    return 1;
}

static const size_t lengths[] = {0,     1,     8,      47,      48,     49,
                                 64,    1000,  4096,   8191,    8192,   16384,
                                 65535, 65536, 300000, 1 << 20, 8 << 20};
/* How many of them are tried. */
static unsigned tried = sizeof lengths / sizeof *lengths;

/* What every rank sends to another one in `lengths_in_several_ways`. */
static size_t sent_at_least(void)
{
    size_t all = 0;
    for (unsigned i = 0; i < tried; i++)
        all += 4 * lengths[i];
    return all;
}

/* Every length to the next rank and back, in several ways. */
static void lengths_in_several_ways(MPI_Comm comm)
{
    size_t most = lengths[tried - 1];
    unsigned char *out = malloc(most), *in = malloc(most);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    for (unsigned i = 0; i < tried; i++) {
        int len = (int) lengths[i];
        MPI_Status status;
        MPI_Request requests[2];
        int count;
        fill(out, len, rank + i);
        memset(in, 0, len);
        MPI_Sendrecv(out, len, MPI_BYTE, next, 1, in, len, MPI_BYTE, last, 1,
                     comm, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count == len && status.MPI_SOURCE == last);
        CHECK(right(in, len, last + i));

        /* Synchronous, found by a probe, from anybody. */
        memset(in, 0, len);
        MPI_Issend(out, len, MPI_BYTE, next, 2, comm, &requests[0]);
        MPI_Probe(MPI_ANY_SOURCE, 2, comm, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count == len);
        MPI_Recv(in, count, MPI_BYTE, status.MPI_SOURCE, 2, comm, &status);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        CHECK(right(in, len, status.MPI_SOURCE + i));

        /* A matched probe, and a receive with any tag posted first. */
        MPI_Message message;
        memset(in, 0, len);
        MPI_Isend(out, len, MPI_BYTE, next, 3, comm, &requests[0]);
        MPI_Mprobe(last, 3, comm, &message, &status);
        MPI_Mrecv(in, len, MPI_BYTE, &message, &status);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        CHECK(right(in, len, last + i));
        memset(in, 0, len);
        MPI_Irecv(in, len, MPI_BYTE, last, MPI_ANY_TAG, comm, &requests[0]);
        MPI_Barrier(comm);
        MPI_Isend(out, len, MPI_BYTE, next, 4, comm, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(right(in, len, last + i));
        MPI_Barrier(comm);
    }
    free(out);
    free(in);
}

/* Many messages of mixed lengths keep their order, whatever way they take. */
static void order(void)
{
    enum { MANY = 400 };
    static const int some[] = {4, 70000, 12, 9000, 200000, 64};
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    MPI_Request requests[2 * MANY];
    int *out[MANY], *in[MANY];
    for (int i = 0; i < MANY; i++) {
        int len = some[i % 6];
        out[i] = malloc(len);
        in[i] = malloc(200000);
        memset(out[i], 0, len);
        *out[i] = i;
        MPI_Isend(out[i], len, MPI_BYTE, next, 9, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < MANY; i++)
        MPI_Irecv(in[i], 200000, MPI_BYTE, i % 2 ? MPI_ANY_SOURCE : last, 9,
                  MPI_COMM_WORLD, &requests[MANY + i]);
    MPI_Waitall(2 * MANY, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MANY; i++) {
        CHECK(*in[i] == i);
        free(out[i]);
        free(in[i]);
    }
}

/* Receives from anybody, who is near or far: the messages of each keep their order. */
static void any_source(void)
{
    enum { EACH = 200, LONGEST = 70000 };
    static const int some[] = {4, 9000, 12, LONGEST, 64};
    int sent = EACH * (size - 1), next[size];
    MPI_Request requests[sent + 1];
    int *out = calloc(sent + 1, LONGEST), *in = malloc(LONGEST);
    memset(next, 0, sizeof next);
    for (int i = 0; i < sent; i++) {
        int *message = (int *) ((char *) out + (size_t) i * LONGEST);
        *message = i / (size - 1);
        MPI_Isend(message, some[*message % 5], MPI_BYTE, (rank + 1 + i % (size - 1)) % size, 10,
                  MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < sent; i++) {
        MPI_Status status;
        MPI_Recv(in, LONGEST, MPI_BYTE, MPI_ANY_SOURCE, 10, MPI_COMM_WORLD, &status);
        CHECK(*in == next[status.MPI_SOURCE]++);
    }
    MPI_Waitall(sent, requests, MPI_STATUSES_IGNORE);
    for (int r = 0; r < size; r++)
        CHECK(next[r] == (r == rank ? 0 : EACH));
    free(out);
    free(in);
}

/* A message that is too long is an error, and the next one is whole. */
static void truncation(void)
{
    unsigned char bytes[5000];
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    MPI_Comm comm;
    MPI_Request request;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    fill(bytes, sizeof bytes, rank);
    MPI_Isend(bytes, sizeof bytes, MPI_BYTE, next, 5, comm, &request);
    unsigned char small[100];
    int class, code = MPI_Recv(small, sizeof small, MPI_BYTE, last, 5, comm,
                               MPI_STATUS_IGNORE);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_TRUNCATE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Sendrecv(bytes, 100, MPI_BYTE, next, 6, small, 100, MPI_BYTE, last, 6,
                 comm, MPI_STATUS_IGNORE);
    CHECK(right(small, 100, last));
    if (cancels) {
        /* Before it matched. */
        MPI_Irecv(small, 100, MPI_BYTE, last, 77, comm, &request);
        MPI_Cancel(&request);
        MPI_Status status;
        int cancelled;
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        CHECK(cancelled);
    }
    MPI_Comm_free(&comm);
}

static void collectives(MPI_Comm comm)
{
    int me, all;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &all);
    for (int count = 1; count <= 40000; count = count * 5 + 3) {
        long *out = calloc((size_t) count * all, sizeof *out);
        long *in = calloc((size_t) count * all, sizeof *in);
        int good = 1;
        for (int i = 0; i < count; i++)
            out[i] = me * 1000L + i;
        MPI_Allreduce(out, in, count, MPI_LONG, MPI_SUM, comm);
        for (int i = 0; i < count; i++)
            good &= in[i] == 1000L * all * (all - 1) / 2 + (long) all * i;
        CHECK(good);
        MPI_Allgather(out, count, MPI_LONG, in, count, MPI_LONG, comm);
        for (int r = 0; r < all; r++)
            good &= in[(size_t) r * count + count - 1] == r * 1000L + count - 1;
        CHECK(good);
        for (int r = 0; r < all; r++)
            for (int i = 0; i < count; i++)
                out[(size_t) r * count + i] = me * 7L + r * 100000L + i;
        MPI_Alltoall(out, count, MPI_LONG, in, count, MPI_LONG, comm);
        for (int r = 0; r < all; r++)
            good &= in[(size_t) r * count] == r * 7L + me * 100000L;
        CHECK(good);
        for (int i = 0; i < count; i++)
            out[i] = me == all - 1 ? i * 3L : -1;
        MPI_Bcast(out, count, MPI_LONG, all - 1, comm);
        for (int i = 0; i < count; i++)
            good &= out[i] == i * 3L;
        CHECK(good);
        for (int i = 0; i < count; i++)
            out[i] = me + i;
        MPI_Scan(out, in, count, MPI_LONG, MPI_SUM, comm);
        CHECK(in[0] == me * (me + 1L) / 2);
        MPI_Request request;
        MPI_Ireduce(out, in, count, MPI_LONG, MPI_MAX, 0, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (me == 0)
            CHECK(in[count - 1] == all - 1 + count - 1);
        free(out);
        free(in);
    }
    MPI_Barrier(comm);
}

static void communicators(void)
{
    MPI_Comm half, turned, grid, inter, dup;
    int me, all, dims[2] = {0, 0}, periods[2] = {1, 1};
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    collectives(half);
    MPI_Comm_rank(half, &me);
    MPI_Comm_size(half, &all);
    MPI_Comm_dup(half, &dup);
    /* The same tags in several communicators do not mix. */
    int out[2] = {rank, rank + 100}, in[2] = {-1, -1};
    MPI_Request requests[4];
    MPI_Irecv(&in[0], 1, MPI_INT, (me + all - 1) % all, 1, dup, &requests[0]);
    MPI_Irecv(&in[1], 1, MPI_INT, (me + all - 1) % all, 1, half, &requests[1]);
    MPI_Isend(&out[1], 1, MPI_INT, (me + 1) % all, 1, half, &requests[2]);
    MPI_Isend(&out[0], 1, MPI_INT, (me + 1) % all, 1, dup, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    CHECK(in[1] == in[0] + 100);
    if (size >= 2) {
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 ? size - 1 - (size - 1) % 2 : size - 1 - size % 2,
                             12, &inter);
        int remote;
        MPI_Comm_remote_size(inter, &remote);
        CHECK(remote == size - all);
        int mine = rank, sum = 0;
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, inter);
        int expected = 0;
        for (int r = 0; r < size; r++)
            expected += r % 2 != rank % 2 ? r : 0;
        CHECK(sum == expected);
        MPI_Comm_free(&inter);
    }
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &grid);
    int up, down;
    MPI_Cart_shift(grid, 0, 1, &up, &down);
    int token = rank, got = -1;
    MPI_Sendrecv(&token, 1, MPI_INT, down, 3, &got, 1, MPI_INT, up, 3, grid,
                 MPI_STATUS_IGNORE);
    CHECK(got >= 0);
    /* Neighbours that each rank names for itself and for others; nobody is its own. */
    for (int round = 0; round < 20; round++) {
        int degree = 2, incoming, outgoing, weighted, sources[1] = {rank};
        int neighbours[2] = {(rank + 1) % size, (rank + size - 1) % size}, weights[2] = {1, 2};
        MPI_Comm graph;
        MPI_Dist_graph_create(MPI_COMM_WORLD, 1, sources, &degree, neighbours, round % 2 ? weights : MPI_UNWEIGHTED,
                              MPI_INFO_NULL, 0, &graph);
        MPI_Dist_graph_neighbors_count(graph, &incoming, &outgoing, &weighted);
        CHECK(incoming == 2 && outgoing == 2 && weighted == round % 2);
        MPI_Comm_free(&graph);
    }
    MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &turned);
    MPI_Comm_rank(turned, &me);
    CHECK(me == size - 1 - rank);
    collectives(turned);
    MPI_Comm_free(&turned);
    MPI_Comm_free(&grid);
    MPI_Comm_free(&dup);
    MPI_Comm_free(&half);
}

/* Columns of a matrix, and structures with gaps, of short and long messages. */
static void datatypes(void)
{
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    for (int n = 3; n <= 700; n = n * 3 + 1) {
        int *out = malloc(sizeof(int) * n * n), *in = malloc(sizeof(int) * n * n);
        MPI_Datatype column, pairs, resized;
        for (int i = 0; i < n * n; i++) {
            out[i] = rank * 1000000 + i;
            in[i] = -1;
        }
        MPI_Type_vector(n, 1, n, MPI_INT, &column);
        MPI_Type_create_resized(column, 0, sizeof(int), &resized);
        MPI_Type_commit(&resized);
        MPI_Request request;
        MPI_Irecv(in, n / 2 + 1, resized, last, 1, MPI_COMM_WORLD, &request);
        MPI_Send(out, n / 2 + 1, resized, next, 1, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        int good = 1;
        for (int i = 0; i < n * n; i++)
            good &= in[i] == (i % n <= n / 2 ? last * 1000000 + i : -1);
        CHECK(good);
        struct {
            char letter;
            double number;
        } both[64], came[64];
        int blocks[2] = {1, 1};
        MPI_Aint places[2] = {0, 8};
        MPI_Datatype kinds[2] = {MPI_CHAR, MPI_DOUBLE};
        MPI_Type_create_struct(2, blocks, places, kinds, &pairs);
        MPI_Type_commit(&pairs);
        for (int i = 0; i < 64; i++) {
            both[i].letter = (char) (rank + i);
            both[i].number = rank * 0.5 + i;
        }
        MPI_Sendrecv(both, 64, pairs, next, 2, came, 64, pairs, last, 2,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < 64; i++)
            good &= came[i].letter == (char) (last + i) &&
                    came[i].number == last * 0.5 + i;
        CHECK(good);
        MPI_Type_free(&pairs);
        MPI_Type_free(&resized);
        MPI_Type_free(&column);
        free(out);
        free(in);
    }
}

/* Threads exchange messages with their counterparts, each in a communicator of its own. */
struct work {
    MPI_Comm comm;
    int number;
    int wrong;
};

static void *exchange(void *argument)
{
    struct work *work = argument;
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    unsigned char *out = malloc(100000), *in = malloc(100000);
    for (int i = 0; i < 60; i++) {
        int len = (i * 1777) % 100000;
        fill(out, len, rank * 8 + work->number + i);
        MPI_Sendrecv(out, len, MPI_BYTE, next, i, in, 100000, MPI_BYTE, last, i,
                     work->comm, MPI_STATUS_IGNORE);
        work->wrong += !right(in, len, last * 8 + work->number + i);
    }
    free(out);
    free(in);
    return NULL;
}

static void threads(void)
{
    enum { THREADS = 3 };
    pthread_t running[THREADS];
    struct work works[THREADS];
    for (int i = 0; i < THREADS; i++) {
        works[i].number = i;
        works[i].wrong = 0;
        MPI_Comm_dup(MPI_COMM_WORLD, &works[i].comm);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&running[i], NULL, exchange, &works[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(running[i], NULL);
        CHECK(works[i].wrong == 0);
        MPI_Comm_free(&works[i].comm);
    }
}

int main(int argc, char **argv)
{
    size_t longest = lengths[tried - 1];
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "no-cancel"))
            cancels = 0;
        else if (!strcmp(argv[i], "no-communicators"))
            communicates = 0;
        else if (!strcmp(argv[i], "no-threads"))
            threaded = 0;
        else
            longest = strtoul(argv[i], NULL, 10);
    }
    while (tried > 1 && lengths[tried - 1] > longest)
        tried--;
    int provided = begin(&argc, &argv, sent_at_least());
    lengths_in_several_ways(MPI_COMM_WORLD);
    report("lengths");
    order();
    report("order");
    any_source();
    report("any source");
    truncation();
    report("truncation");
    collectives(MPI_COMM_WORLD);
    report("collectives");
    if (communicates) {
        communicators();
        report("communicators");
    }
    datatypes();
    report("datatypes");
    if (threaded && provided == MPI_THREAD_MULTIPLE) {
        threads();
        report("threads");
    } else if (threaded && rank == 0) {
        printf("threads: SKIPPED: this MPI has no MPI_THREAD_MULTIPLE\n");
    }
    return end();
}
