/* Counters: sums, by peer, by path, by size. */
#include "check.h"

int main(void)
{
    join();
    static char data[100000];
    limic_counters before = LIMIC_COUNTERS_INIT, after = LIMIC_COUNTERS_INIT;
    limic_traffic sent, received;
    CHECK(limic_path_count() >= 8 && strcmp(limic_path_name(0), "self") == 0);
    CHECK(limic_path_name(limic_path_count()) == NULL);
    OK(limic_counters_read(world, &before));
    CHECK(before.size == sizeof before);
    if (rank == 0) {
        for (int round = 0; round < 10; round++)
            OK(limic_send(world, data, 16, 1, 1, 1));
        OK(limic_send(world, data, sizeof data, 1, 1, 1));
        OK(limic_counters_read(world, &after));
        CHECK(after.sent.messages == before.sent.messages + 11);
        CHECK(after.sent.bytes == before.sent.bytes + 160 + sizeof data);
        CHECK(after.sizes[5] == before.sizes[5] + 10); /* 16 to 31 bytes */
        OK(limic_counters_peer(world, 1, &sent, &received));
        CHECK(sent.bytes >= 160 + sizeof data);
    } else {
        for (int round = 0; round < 11; round++)
            OK(limic_recv(world, data, sizeof data, 0, 1, 1, NULL));
        OK(limic_counters_read(world, &after));
        CHECK(after.received.messages == before.received.messages + 11);
        CHECK(after.received.bytes == before.received.bytes + 160 + sizeof data);
        OK(limic_counters_peer(world, 0, NULL, &received));
        CHECK(received.messages >= 11);
    }
    uint64_t messages = 0;
    for (uint32_t path = 0; path < limic_path_count(); path++) {
        limic_traffic traffic;
        OK(limic_counters_path(world, path, &traffic));
        messages += traffic.messages;
    }
    CHECK(rank == 1 || messages >= 10);
    GIVES(LIMIC_ERR_INVALID, limic_counters_path(world, limic_path_count(), &sent));
    GIVES(LIMIC_ERR_UNKNOWN_PEER, limic_counters_peer(world, 55, &sent, &received));
    after.size = 0;
    GIVES(LIMIC_ERR_SIZE, limic_counters_read(world, &after));
    leave();
    return 0;
}
