/*
 * Ping-pong between two ranks: cc -O2 latency.c $(pkg-config --cflags --libs limic) -o latency;
 * limic run -n 2 ./latency
 *
 *   latency [SECONDS [BYTES ...]]
 *
 * Prints a line per length: bytes, and microseconds of one message one way, which is half of a
 * round trip. As `limic perf latency` measures it: sent from one buffer, received into another one,
 * both on a page of their own.
 */
#define _POSIX_C_SOURCE 200112L
#include <limic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TAG = 7, CONTEXT = 0, PAGE = 4096, CALIBRATION = 2000 };

static limic_endpoint world;
static uint32_t rank;

static void check(int code)
{
    if (code != LIMIC_OK) {
        fprintf(stderr, "latency: %s: %s\n", limic_strerror(code), limic_last_error());
        exit(1);
    }
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Seconds of so many round trips. */
static double round_trips(const char *ping, char *pong, size_t bytes, uint64_t count)
{
    double begin = seconds();
    for (uint64_t i = 0; i < count; i++) {
        if (rank == 0) {
            check(limic_send(world, ping, bytes, 1, TAG, CONTEXT));
            check(limic_recv(world, pong, bytes, 1, TAG, CONTEXT, NULL));
        } else {
            check(limic_recv(world, pong, bytes, 0, TAG, CONTEXT, NULL));
            check(limic_send(world, ping, bytes, 0, TAG, CONTEXT));
        }
    }
    return seconds() - begin;
}

static void *page_aligned(size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, PAGE, bytes + PAGE) != 0)
        exit(1);
    memset(memory, 0, bytes + PAGE);
    return memory;
}

static void measure(size_t bytes, double wanted)
{
    char *ping = page_aligned(bytes), *pong = page_aligned(bytes);
    uint64_t count = 0;

    /* Rank 0 says how often. */
    double once = round_trips(ping, pong, bytes, CALIBRATION) / CALIBRATION;
    if (rank == 0) {
        count = (uint64_t)(wanted / once) + 1;
        check(limic_send(world, &count, sizeof count, 1, TAG, CONTEXT));
    } else {
        check(limic_recv(world, &count, sizeof count, 0, TAG, CONTEXT, NULL));
    }
    double time = round_trips(ping, pong, bytes, count);
    if (rank == 0)
        printf("%zu %.4f\n", bytes, time / (double)count / 2 * 1e6);
    free(ping);
    free(pong);
}

int main(int argc, char **argv)
{
    uint32_t size;
    double wanted = argc > 1 ? atof(argv[1]) : 0.25;

    check(limic_world_open(NULL, &world));
    check(limic_world_rank(world, &rank));
    check(limic_world_size(world, &size));
    if (size != 2) {
        fprintf(stderr, "latency: %u ranks; it takes two: limic run -n 2 ./latency\n", size);
        return 1;
    }
    if (argc <= 2) {
        measure(8, wanted);
        measure(1024, wanted);
    }
    for (int i = 2; i < argc; i++)
        measure((size_t)strtoul(argv[i], NULL, 10), wanted);
    check(limic_world_finalize(world));
    return 0;
}
