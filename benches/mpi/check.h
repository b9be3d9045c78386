/* What the programs have in common that check an MPI, and with it what carries its messages. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size, failures;

#define CHECK(what)                                                            \
    do {                                                                       \
        if (!(what)) {                                                         \
            fprintf(stderr, "rank %d: %s:%d: %s\n", rank, __FILE__, __LINE__,  \
                    #what);                                                    \
            failures++;                                                        \
        }                                                                      \
    } while (0)

/* Starts MPI. Each rank says which process it is, and how many bytes it will send to others at
 * least. */
static inline int begin(int *argc, char ***argv, size_t bytes)
{
    int provided;
    MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("rank %d is process %d and sends %zu bytes\n", rank, (int) getpid(), bytes);
    fflush(stdout);
    return provided;
}

/* Says whether all ranks are right so far. */
static inline void report(const char *part)
{
    int all;
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%s: %s\n", part, all ? "WRONG" : "right");
        fflush(stdout);
    }
}

/* Ends MPI; what the program has to return. */
static inline int end(void)
{
    int all;
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return all != 0;
}

#endif
