/* Buffers that peers may read: sent whole and in part, as often as wanted, and given back. */
#include "check.h"

int main(void)
{
    join();
    limic_status status = LIMIC_STATUS_INIT;
    void *data;
    size_t length = 500000;
    OK(limic_buffer_alloc(length, &data));
    for (uint32_t round = 0; round < 20; round++) {
        size_t skip = round * 1001;
        if (rank == 0) {
            fill((char *)data + skip, length - skip, round);
            OK(limic_send(world, (char *)data + skip, length - skip, 1, round, 1));
        } else {
            void *into = room(length);
            OK(limic_recv(world, into, length, 0, round, 1, &status));
            CHECK(status.length == length - skip && filled(into, length - skip, round));
            free(into);
        }
    }
    limic_traffic traffic = {0, 0};
    for (uint32_t path = 0; path < limic_path_count(); path++)
        if (strcmp(limic_path_name(path), "peer-readable") == 0)
            OK(limic_counters_path(world, path, &traffic));
    if (rank == 0)
        CHECK(traffic.messages == 20);

    OK(limic_buffer_free(data));
    GIVES(LIMIC_ERR_INVALID, limic_buffer_free(data));
    GIVES(LIMIC_ERR_INVALID, limic_buffer_free(&length));
    OK(limic_buffer_free(NULL));
    OK(limic_buffer_alloc(0, &data));
    OK(limic_buffer_free(data));
    GIVES(LIMIC_ERR_NULL, limic_buffer_alloc(1, NULL));
    GIVES(LIMIC_ERR_INVALID, limic_buffer_alloc((size_t)PTRDIFF_MAX + 1, &data));
    leave();
    return 0;
}
