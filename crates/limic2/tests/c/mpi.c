/*
 * What MVAPICH2 does with LiMIC2, in two processes: the sender prepares, the descriptor travels by
 * value through shared memory, the receiver copies in fragments and moves the descriptor on after
 * each; windows move only the offset, in both directions; and what is forged, stale or out of
 * bounds is refused.
 *
 *   mpi [SEED]
 *
 * LIMIC_TEST_LIMIT is for machines that need more than 100 seconds for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limic.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s (errno %d: %s)\n", __FILE__, __LINE__, #condition,  \
                    errno, strerror(errno));                                                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { LONGEST = 70 << 20, WINDOW = 1 << 20 };

/* What the two share: a descriptor each way, and whose turn it is. */
struct channel {
    limic_user user;
    size_t length;
    uint32_t seed;
    int turn;
};

static volatile struct channel *channel;
static int fd;

static void pass(int turn)
{
    __atomic_store_n(&channel->turn, turn, __ATOMIC_RELEASE);
}

static void await(int turn)
{
    while (__atomic_load_n(&channel->turn, __ATOMIC_ACQUIRE) != turn)
        usleep(50);
}

static unsigned char byte_at(size_t at, uint32_t seed)
{
    return (unsigned char)(at * 131 + (at >> 8) * 7 + seed);
}

static void fill(unsigned char *data, size_t length, uint32_t seed)
{
    for (size_t at = 0; at < length; at++)
        data[at] = byte_at(at, seed);
}

static int filled(const unsigned char *data, size_t first, size_t length, uint32_t seed)
{
    for (size_t at = 0; at < length; at++)
        if (data[at] != byte_at(first + at, seed))
            return 0;
    return 1;
}

/* What MVAPICH2 does with a descriptor after a copy of less than all. */
static void move_on(limic_user *lu, size_t had)
{
    unsigned long page = (unsigned long)sysconf(_SC_PAGESIZE);
    unsigned long va = lu->va + lu->length;
    size_t left = had - lu->length;
    lu->va = va;
    lu->nr_pages = (int)((va + left + page - 1) / page - va / page);
    lu->offset = va & (page - 1);
    lu->length = left;
}

static uint64_t state;

static uint64_t below(uint64_t limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % limit;
}

/* Messages of any length and alignment, received in fragments of any length. */
static void sender_of_messages(unsigned char *memory)
{
    for (int round = 0; round < 60; round++) {
        size_t skew = below(9000);
        size_t length = round == 0 ? LONGEST - 9000 : 1 + below(3 << 20);
        limic_user lu;
        memset(&lu, 0, sizeof lu);
        fill(memory + skew, length, (uint32_t)round);
        CHECK(limic_tx_init(fd, memory + skew, length, &lu) == length);
        CHECK(lu.va == (unsigned long)(memory + skew) && lu.length == length);
        memcpy((void *)&channel->user, &lu, sizeof lu);
        channel->length = length;
        channel->seed = (uint32_t)round;
        pass(1);
        await(0);
    }
}

static void receiver_of_messages(unsigned char *memory)
{
    for (int round = 0; round < 60; round++) {
        await(1);
        limic_user lu;
        memcpy(&lu, (void *)&channel->user, sizeof lu);
        size_t length = channel->length, at = 0;
        memset(memory, 0, length + 1);
        if (round % 3 == 0) {
            /* All at once; more room than bytes. */
            CHECK(limic_rx_comp(fd, memory, length + 1, &lu) == length && lu.length == length);
            at = length;
        }
        while (at < length) {
            size_t fragment = 1 + below(length / 3 + 2), had = lu.length;
            size_t copied = limic_rx_comp(fd, memory + at, fragment, &lu);
            CHECK(copied == (fragment < had ? fragment : had) && lu.length == copied);
            at += copied;
            if (at < length)
                move_on(&lu, had);
        }
        CHECK(filled(memory, 0, length, channel->seed) && memory[length] == 0);
        pass(0);
    }
}

/* A window: the descriptor stays, and only its offset moves, for puts and gets of parts. */
static void window(limic_user *lu, unsigned char *memory, uint32_t seed)
{
    size_t offset = lu->offset, length = lu->length;
    for (int round = 0; round < 200; round++) {
        size_t at = below(WINDOW - 1), part = 1 + below(WINDOW - at);
        lu->offset = offset + at;
        CHECK(limic_rx_comp(fd, memory, part, lu) == part);
        CHECK(filled(memory, at, part, seed));
        lu->length = length;
        for (size_t i = 0; i < part; i++)
            memory[i] = (unsigned char)~memory[i];
        CHECK(limic_tx_comp(fd, memory, part, lu) == part);
        lu->length = length;
        memset(memory, 0, part);
        CHECK(limic_rx_comp(fd, memory, part, lu) == part);
        for (size_t i = 0; i < part; i++)
            memory[i] = (unsigned char)~memory[i];
        CHECK(filled(memory, at, part, seed));
        lu->length = length;
        CHECK(limic_tx_comp(fd, memory, part, lu) == part);
        lu->offset = offset;
        lu->length = length;
    }
}

static void refused(limic_user lu, int number, unsigned char *memory)
{
    limic_user before = lu;
    errno = 0;
    CHECK(limic_rx_comp(fd, memory, 64, &lu) == 0 && errno == number);
    CHECK(memcmp(&lu, &before, sizeof lu) == 0);
    errno = 0;
    CHECK(limic_tx_comp(fd, memory, 64, &lu) == 0 && errno == number);
}

/* Descriptors that were changed on the way. */
static void forgeries(const limic_user *good, unsigned char *memory)
{
    limic_user lu;
    /* Out of bounds: before, behind, across the end, far away. */
    lu = *good, lu.offset += WINDOW, refused(lu, EACCES, memory);
    lu = *good, lu.offset += WINDOW - 63, refused(lu, EACCES, memory);
    lu = *good, lu.va -= 4096, refused(lu, EACCES, memory);
    lu = *good, lu.offset -= 1, refused(lu, EACCES, memory);
    lu = *good, lu.va = 4096, lu.offset = 0, refused(lu, EACCES, memory);
    lu = *good, lu.va = (unsigned long)-1, lu.offset = (size_t)-1, refused(lu, EACCES, memory);
    lu = *good, lu.length = 0, refused(lu, EINVAL, memory);
    CHECK(limic_rx_comp(fd, memory, 0, &lu) == 0 && errno == EINVAL);
    /* The end itself is within. */
    lu = *good, lu.offset += WINDOW - 64;
    CHECK(limic_rx_comp(fd, memory, 64, &lu) == 64);
    /* The handle. */
    lu = *good, lu.mm = NULL, refused(lu, ESTALE, memory);
    lu = *good, lu.tsk = NULL, refused(lu, ESTALE, memory);
    for (int bit = 0; bit < 64; bit++) {
        lu = *good;
        lu.mm = (void *)((uintptr_t)lu.mm ^ ((uintptr_t)1 << bit));
        refused(lu, ESTALE, memory);
        lu = *good;
        lu.tsk = (void *)((uintptr_t)lu.tsk ^ ((uintptr_t)1 << bit));
        CHECK(limic_rx_comp(fd, memory, 64, &lu) == 0);
    }
    for (int round = 0; round < 20000; round++) {
        lu = *good;
        lu.mm = (void *)(uintptr_t)below(UINT64_MAX);
        if (round % 2)
            lu.tsk = (void *)(uintptr_t)below(UINT64_MAX);
        CHECK(limic_rx_comp(fd, memory, 64, &lu) == 0);
    }
    /* Memory of one's own that is not there. */
    lu = *good;
    CHECK(limic_rx_comp(fd, (void *)4096, 64, &lu) == 0 && errno == EFAULT);
    lu = *good;
    CHECK(limic_rx_comp(fd, NULL, 64, &lu) == 0 && errno == EINVAL);
    CHECK(limic_rx_comp(fd, memory, 64, NULL) == 0 && errno == EINVAL);
    /* And after all that the good one is still good. */
    lu = *good;
    CHECK(limic_rx_comp(fd, memory, 64, &lu) == 64);
}

static void sender(unsigned char *memory)
{
    limic_user lu;
    memset(&lu, 0, sizeof lu);
    sender_of_messages(memory);

    unsigned char *base = memory + 5 * 4096 + 123;
    fill(base, WINDOW, 77);
    CHECK(limic_tx_init(fd, base, WINDOW, &lu) == WINDOW);
    memcpy((void *)&channel->user, &lu, sizeof lu);
    pass(1);
    await(0);
    CHECK(filled(base, 0, WINDOW, 77));

    CHECK(limic_tx_init(fd, memory, 0, &lu) == 0 && errno == EINVAL);
    CHECK(limic_tx_init(fd, NULL, 5, &lu) == 0 && errno == EINVAL);
    CHECK(limic_tx_init(fd, memory, 5, NULL) == 0 && errno == EINVAL);
    CHECK(limic_tx_init(fd, memory, (size_t)-5, &lu) == 0 && errno == EINVAL);
    CHECK(limic_tx_init(fd + 100, memory, 5, &lu) == 0 && errno == EBADF);

    /* To oneself. */
    unsigned char back[100] = {0};
    CHECK(limic_tx_init(fd, base, 100, &lu) == 100);
    CHECK(limic_rx_comp(fd, back, 100, &lu) == 100 && filled(back, 0, 100, 77));
    memset(back, 1, 100);
    CHECK(limic_tx_comp(fd, back, 100, &lu) == 100 && base[99] == 1);

    /* Closed: what was prepared is stale, also when LiMIC2 is opened again with the same number. */
    CHECK(limic_tx_init(fd, memory, 4096, &lu) == 4096);
    memcpy((void *)&channel->user, &lu, sizeof lu);
    pass(1);
    await(0);
    int old = fd;
    limic_close(fd);
    pass(1);
    await(0);
    fd = limic_open();
    CHECK(fd == old);
    pass(1);
    await(0);
    CHECK(limic_tx_init(fd, memory, 4096, &lu) == 4096);
    memcpy((void *)&channel->user, &lu, sizeof lu);
    pass(1);
    await(0);
    /* It dies with a buffer prepared. */
    pass(2);
    raise(SIGKILL);
}

static void receiver(unsigned char *memory, pid_t other)
{
    limic_user lu, good;
    receiver_of_messages(memory);

    await(1);
    memcpy(&good, (void *)&channel->user, sizeof good);
    lu = good;
    window(&lu, memory, 77);
    forgeries(&good, memory);
    pass(0);

    await(1);
    memcpy(&good, (void *)&channel->user, sizeof good);
    lu = good;
    CHECK(limic_rx_comp(fd, memory, 4096, &lu) == 4096);
    /* A forked child has to open LiMIC2 itself. */
    fflush(stderr);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        lu = good;
        CHECK(limic_rx_comp(fd, memory, 4096, &lu) == 0 && errno == EBADF);
        CHECK(limic_tx_init(fd, memory, 4096, &lu) == 0 && errno == EBADF);
        fd = limic_open();
        CHECK(fd >= 0);
        lu = good;
        CHECK(limic_rx_comp(fd, memory, 4096, &lu) == 4096);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    pass(0);

    await(1);
    refused(good, ESTALE, memory);
    pass(0);
    await(1);
    refused(good, ESTALE, memory);
    pass(0);
    await(1);
    memcpy(&good, (void *)&channel->user, sizeof good);
    lu = good;
    CHECK(limic_rx_comp(fd, memory, 4096, &lu) == 4096);
    pass(0);
    await(2);
    CHECK(waitpid(other, &status, 0) == other && WIFSIGNALED(status));
    lu = good;
    CHECK(limic_rx_comp(fd, memory, 4096, &lu) == 0 && (errno == ESRCH || errno == ESTALE));
}

/* MVAPICH2 closes descriptor 0 when it ends without having opened LiMIC2: that stays open, and
 * nobody is told. */
static void closes_what_is_not_open(void)
{
    int ends[2], errors = dup(STDERR_FILENO);
    char byte;
    CHECK(errors >= 0 && pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) >= 0);
    limic_close(STDIN_FILENO);
    CHECK(dup2(errors, STDERR_FILENO) >= 0 && close(errors) == 0 && close(ends[1]) == 0);
    CHECK(read(ends[0], &byte, 1) == 0 && close(ends[0]) == 0);
    CHECK(fcntl(STDIN_FILENO, F_GETFD) != -1);
}

int main(int count, char **words)
{
    unsigned long seed = count > 1 ? strtoul(words[1], NULL, 10) : 1;
    state = 88172645463325252u ^ (seed * 2654435761u);
    channel = (volatile struct channel *)mmap(NULL, sizeof *channel, PROT_READ | PROT_WRITE,
                                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(channel != MAP_FAILED);
    unsigned char *memory = (unsigned char *)malloc(LONGEST);
    CHECK(memory != NULL);
    const char *limit = getenv("LIMIC_TEST_LIMIT");
    alarm(limit != NULL ? (unsigned)strtoul(limit, NULL, 10) : 100);
    closes_what_is_not_open();
    pid_t child = fork();
    CHECK(child >= 0);
    fd = limic_open();
    CHECK(fd >= 0);
    if (child == 0) {
        sender(memory);
        return 1;
    }
    receiver(memory, child);
    limic_close(fd);
    CHECK(limic_rx_comp(fd, memory, 1, (limic_user *)&channel->user) == 0 && errno == EBADF);
    free(memory);
    printf("limic2: same bytes, seed %lu\n", seed);
    return 0;
}
