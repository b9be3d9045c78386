/* Over a network, sends that follow each other at once may wait for the next call. One that tells
 * the caller that they are over lets them go: no further call is needed. */
#include "check.h"
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { SENDS = 20, WAYS = 5 };

/* Waits for all; tests all; waits for the last one first; waits for the first one alone; or tests
 * it. */
static void end_sends(limic_request *sends, int way)
{
    int done = 0;
    if (way == 0)
        OK(limic_wait_all(SENDS, sends, LIMIC_FOREVER, NULL));
    for (int at = 0; way == 1 && at < SENDS; at++) {
        OK(limic_test(&sends[at], &done, NULL));
        CHECK(done);
    }
    for (int at = 0; way == 2 && at < SENDS; at++)
        OK(limic_wait(&sends[SENDS - 1 - at], LIMIC_FOREVER, NULL));
    if (way == 3)
        OK(limic_wait(&sends[0], LIMIC_FOREVER, NULL));
    if (way == 4)
        OK(limic_test(&sends[0], &done, NULL));
}

int main(void)
{
    sigset_t set;
    CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGUSR1) == 0);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    CHECK(setenv("LIMIC_FABRIC", "tcp-only", 1) == 0);
    join();
    OK(limic_world_barrier(world));
    for (int way = 0; way < WAYS; way++) {
        pid_t pid = getpid();
        if (rank == 0) {
            const struct timespec limit = {60, 0};
            limic_request sends[SENDS];
            for (int at = 0; at < SENDS; at++)
                OK(limic_isend(world, &pid, sizeof pid, 1, 1, 1, &sends[at]));
            end_sends(sends, way);
            CHECK(sigtimedwait(&set, NULL, &limit) == SIGUSR1);
            OK(limic_wait_all(SENDS, sends, LIMIC_FOREVER, NULL));
        } else {
            for (int at = 0; at < SENDS; at++)
                OK(limic_recv(world, &pid, sizeof pid, 0, 1, 1, NULL));
            CHECK(kill(pid, SIGUSR1) == 0);
        }
    }
    leave();
    return 0;
}
