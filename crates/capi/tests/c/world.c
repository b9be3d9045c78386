/* Worlds: rank, size, barrier, a message to each, a dead peer's name. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

int main(void)
{
    join();
    const char *launcher = NULL;
    OK(limic_world_launcher(world, &launcher));
    CHECK(strcmp(launcher, "pmi1") == 0);
    CHECK(ranks == 3 && rank < ranks);
    for (int round = 0; round < 10; round++)
        OK(limic_world_barrier(world));

    for (uint32_t to = 0; to < ranks; to++)
        if (to != rank)
            OK(limic_send(world, &rank, sizeof rank, to, 5, 0));
    for (uint32_t from = 0; from < ranks; from++) {
        uint32_t said = 99;
        if (from != rank) {
            OK(limic_recv(world, &said, sizeof said, from, 5, 0, NULL));
            CHECK(said == from);
        }
    }
    GIVES(LIMIC_ERR_UNKNOWN_PEER, limic_send(world, NULL, 0, ranks + 5, 0, 0));
    OK(limic_world_barrier(world));

    /* A rank that closes without a word is named to who waits for it. */
    limic_status status = LIMIC_STATUS_INIT;
    if (rank == 2) {
        OK(limic_endpoint_close(world));
        return 0;
    }
    GIVES(LIMIC_ERR_PEER_FAILED, limic_recv(world, NULL, 0, 2, 6, 0, &status));
    CHECK(status.error == LIMIC_ERR_PEER_FAILED && status.source == 2);
    CHECK(strstr(limic_last_error(), "peer 2") != NULL);
    GIVES(LIMIC_ERR_PEER_FAILED, limic_world_finalize(world));
    GIVES(LIMIC_ERR_ENDPOINT, limic_world_rank(world, &rank));
    return 0;
}
