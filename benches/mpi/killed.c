/*
 * An MPI program of which a rank is killed. With the name of a file the other ranks ask for errors
 * as values, and what they or their MPI have to say of it is added to the file: launchers that
 * leave survivors alone may not listen to them any more.
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>

#include "check.h"

/* Everybody talks to the last rank, which kills itself. The others get an error, or the MPI ends
 * the job. */
static void killed(const char *file)
{
    enum { LEN = 300000 };
    char *bytes = calloc(1, LEN);
    int code = MPI_SUCCESS;
    if (file) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        /* By which Hydra tells survivors; it would end them. */
        signal(SIGUSR1, SIG_IGN);
        if (!freopen(file, "a", stdout) || !freopen(file, "a", stderr))
            _exit(4);
    }
    for (int round = 0; code == MPI_SUCCESS; round++) {
        if (rank == size - 1) {
            if (round == 20)
                raise(SIGKILL);
            for (int other = 0; other < size - 1; other++) {
                MPI_Recv(bytes, LEN, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(bytes, round, MPI_BYTE, other, 2, MPI_COMM_WORLD);
            }
            continue;
        }
        code = MPI_Send(bytes, round % 2 ? LEN : 8, MPI_BYTE, size - 1, 1, MPI_COMM_WORLD);
        if (code == MPI_SUCCESS)
            code = MPI_Recv(bytes, LEN, MPI_BYTE, size - 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    char text[MPI_MAX_ERROR_STRING];
    int len = 0;
    MPI_Error_string(code, text, &len);
    printf("rank %d: error: %.*s\n", rank, len, text);
    fflush(stdout);
    /* What MPI promises after an error is nothing. */
    _exit(3);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, 0);
    killed(argc > 1 ? argv[1] : NULL);
    return 1;
}
