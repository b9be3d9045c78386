/* An MPI program that checks one-sided access: reads, writes and atomic operations on memory of
 * other ranks. */
#include "check.h"

static void one_sided(void)
{
    enum { WORDS = 40000 };
    int next = (rank + 1) % size;
    long *base;
    MPI_Win window;
    MPI_Win_allocate(WORDS * sizeof(long), sizeof(long), MPI_INFO_NULL,
                     MPI_COMM_WORLD, &base, &window);
    memset(base, 0, WORDS * sizeof(long));
    long *bytes = malloc(WORDS * sizeof(long));
    for (int i = 0; i < WORDS; i++)
        bytes[i] = rank * 100000L + i;
    MPI_Win_fence(0, window);
    MPI_Put(bytes, WORDS, MPI_LONG, next, 0, WORDS, MPI_LONG, window);
    MPI_Win_fence(0, window);
    int last = (rank + size - 1) % size, good = 1;
    for (int i = 0; i < WORDS; i++)
        good &= base[i] == last * 100000L + i;
    CHECK(good);
    MPI_Get(bytes, WORDS, MPI_LONG, next, 0, WORDS, MPI_LONG, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < WORDS; i++)
        good &= bytes[i] == rank * 100000L + i;
    CHECK(good);
    memset(base, 0, WORDS * sizeof(long));
    MPI_Win_fence(0, window);
    /* Everybody adds to rank 0, in every way. */
    long one = 1, before = 0, many[100];
    for (int i = 0; i < 100; i++)
        many[i] = i;
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < 50; i++) {
        MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 0, MPI_SUM, window);
        MPI_Accumulate(many, 100, MPI_LONG, 0, 1, 100, MPI_LONG, MPI_SUM, window);
        MPI_Win_flush(0, window);
        CHECK(before >= 0 && before < 50L * size);
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    if (rank == 0) {
        CHECK(base[0] == 50L * size);
        for (int i = 0; i < 100; i++)
            good &= base[1 + i] == 50L * size * i;
        CHECK(good);
        base[200] = 0;
    }
    MPI_Win_unlock(rank, window);
    MPI_Barrier(MPI_COMM_WORLD);
    /* A lock made of compare-and-swap. */
    long zero = 0, mine = rank + 1, seen, counted;
    for (int round = 0; round < 10; round++) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        do {
            MPI_Compare_and_swap(&mine, &zero, &seen, MPI_LONG, 0, 200, window);
            MPI_Win_flush(0, window);
        } while (seen != 0);
        MPI_Get(&counted, 1, MPI_LONG, 0, 201, 1, MPI_LONG, window);
        MPI_Win_flush(0, window);
        counted++;
        MPI_Put(&counted, 1, MPI_LONG, 0, 201, 1, MPI_LONG, window);
        MPI_Win_flush(0, window);
        MPI_Accumulate(&zero, 1, MPI_LONG, 0, 200, 1, MPI_LONG, MPI_REPLACE, window);
        MPI_Win_unlock(0, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    if (rank == 0)
        CHECK(base[201] == 10L * size);
    MPI_Win_unlock(0, window);
    double part = 0.25, whole[2] = {0, 0};
    MPI_Win_free(&window);
    /* A window over memory that is attached later. */
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_attach(window, whole, sizeof whole);
    MPI_Aint address, addresses[64];
    MPI_Get_address(whole, &address);
    MPI_Allgather(&address, 1, MPI_AINT, addresses, 1, MPI_AINT, MPI_COMM_WORLD);
    MPI_Win_fence(0, window);
    if (size <= 64) {
        MPI_Accumulate(&part, 1, MPI_DOUBLE, next, addresses[next], 1, MPI_DOUBLE,
                       MPI_SUM, window);
        MPI_Win_fence(0, window);
        CHECK(whole[0] == 0.25);
    }
    MPI_Win_detach(window, whole);
    MPI_Win_free(&window);
    free(bytes);
}

/*
 * A window over memory of the program's own, with the hints under which MPICH and its relatives
 * leave accumulation to the provider; Open MPI does so in any case.
 */
static void atomics(void)
{
    enum { WORDS = 100, ROUNDS = 20 };
    int next = (rank + 1) % size;
    long base[WORDS] = {0}, many[WORDS], one = 1, before = -1, got[WORDS];
    MPI_Info hints;
    MPI_Win window;
    MPI_Info_create(&hints);
    MPI_Info_set(hints, "disable_shm_accumulate", "true");
    MPI_Info_set(hints, "accumulate_ops", "same_op");
    MPI_Win_create(base, sizeof base, sizeof(long), hints, MPI_COMM_WORLD, &window);
    MPI_Info_free(&hints);
    for (int i = 0; i < WORDS; i++)
        many[i] = i;
    MPI_Win_lock_all(0, window);
    for (long i = 0; i < ROUNDS; i++) {
        long wanted = i, changed = i + 1, seen = -1;
        MPI_Fetch_and_op(&one, &before, MPI_LONG, next, 0, MPI_SUM, window);
        MPI_Compare_and_swap(&changed, &wanted, &seen, MPI_LONG, next, 1, window);
        MPI_Accumulate(many, WORDS - 2, MPI_LONG, next, 2, WORDS - 2, MPI_LONG, MPI_SUM, window);
        MPI_Win_flush(next, window);
        CHECK(before == i && seen == i);
    }
    MPI_Get_accumulate(many, WORDS, MPI_LONG, got, WORDS, MPI_LONG, next, 0, WORDS, MPI_LONG, MPI_NO_OP, window);
    MPI_Win_flush(next, window);
    MPI_Win_unlock_all(window);
    int good = got[0] == ROUNDS && got[1] == ROUNDS;
    for (int i = 2; i < WORDS; i++)
        good &= got[i] == (long) ROUNDS * (i - 2);
    CHECK(good);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    CHECK(base[0] == ROUNDS && base[WORDS - 1] == (long) ROUNDS * (WORDS - 3));
    MPI_Win_unlock(rank, window);
    /* Everybody to the last rank at once. */
    MPI_Win_fence(0, window);
    MPI_Accumulate(&one, 1, MPI_LONG, size - 1, 1, 1, MPI_LONG, MPI_SUM, window);
    MPI_Win_fence(0, window);
    if (rank == size - 1)
        CHECK(base[1] == ROUNDS + size);
    MPI_Win_free(&window);
}

/* Many on the way from rank 0 to rank 1 at once, long and short in turn. */
static void in_flight(void)
{
    enum { MANY = 48, LONGS = 2560 };
    static const int lengths[] = {1, 1500, LONGS, 200};
    static long many[LONGS];
    static long base[MANY * LONGS];
    MPI_Win window;
    MPI_Win_create(base, sizeof base, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    for (int i = 0; i < LONGS; i++)
        many[i] = i + 1;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    /* The others are in the barrier: they take many in at a time. */
    for (int round = 0; rank == 0 && round < 4; round++) {
        for (int i = 0; i < MANY; i++) {
            int count = lengths[i % 4];
            MPI_Accumulate(many, count, MPI_LONG, 1, (MPI_Aint) i * LONGS, count, MPI_LONG, MPI_SUM, window);
        }
        MPI_Win_flush(1, window);
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    for (int i = 0; i < MANY * LONGS; i++) {
        int at = i % LONGS;
        CHECK(base[i] == (rank == 1 && at < lengths[i / LONGS % 4] ? 4 * (at + 1) : 0));
    }
    MPI_Win_unlock(rank, window);
    MPI_Win_free(&window);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, 0);
    one_sided();
    report("one-sided");
    atomics();
    report("atomics");
    in_flight();
    report("in flight");
    return end();
}
