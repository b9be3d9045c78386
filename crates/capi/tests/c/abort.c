/* Ends the job with code 7, beside a thread in a barrier that never ends. */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

static void *in_barrier(void *unused)
{
    limic_world_barrier(world);
    return unused;
}

int main(void)
{
    limic_options options = LIMIC_OPTIONS_INIT;
    limic_counters before = LIMIC_COUNTERS_INIT, now = LIMIC_COUNTERS_INIT;
    pthread_t thread;
    options.threads = LIMIC_THREADS_MULTIPLE;
    OK(limic_world_open(&options, &world));
    OK(limic_world_rank(world, &rank));
    OK(limic_world_barrier(world));
    /* Rank 1 speaks first in every barrier. */
    if (rank == 0)
        pause();
    OK(limic_counters_read(world, &before));
    CHECK(pthread_create(&thread, NULL, in_barrier, NULL) == 0);
    do
        OK(limic_counters_read(world, &now));
    while (now.sent.messages == before.sent.messages);
    limic_world_abort(world, 7, "enough");
    return 1;
}
