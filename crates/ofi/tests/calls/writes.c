/* Writes with data: bytes, places, order, and regions that are closed meanwhile. */
#include "calls.h"

enum { LEN = 1 << 16, COUNT = 1000, KEY = 7 };
static unsigned char mine[LEN];

static struct fid_mr *expose(uint64_t access, uint64_t key)
{
    struct fid_mr *region;
    OK(fi_mr_reg(domain, mine, LEN, access, 0, key, 0, &region, NULL));
    return region;
}

/* Waits for an own write and one of the other side; gives the other side's completion. */
static struct fi_cq_tagged_entry both(void *context)
{
    struct fi_cq_tagged_entry theirs, entry;
    for (int i = 0; i < 2; i++) {
        entry = completion();
        if (entry.flags & FI_REMOTE_CQ_DATA)
            theirs = entry;
        else
            CHECK(entry.op_context == context && (entry.flags & (FI_RMA | FI_WRITE)) == (FI_RMA | FI_WRITE));
    }
    return theirs;
}

/* Of all lengths, at both ends of the region. */
static void bounds(void)
{
    static const size_t lengths[] = {0, 1, 4, 8, 24, 100, 1000, 4095, 4096, 4097, 20000, LEN};
    static unsigned char bytes[LEN];
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t len = lengths[i], places[2] = {0, LEN - len};
        for (int at = 0; at < 2; at++) {
            fill(bytes, len, me + i + 10 * at);
            RETRY(fi_writedata(ep, bytes, len, NULL, 100 * i + at, other, places[at], KEY, &contexts[0]));
            struct fi_cq_tagged_entry theirs = both(&contexts[0]);
            CHECK(theirs.data == 100 * i + at && theirs.len == len && (theirs.flags & FI_REMOTE_WRITE));
            CHECK(right(mine + places[at], len, !me + i + 10 * at));
            meet();
        }
    }
}

/* A write that is reported has a source, as a message has. */
static void sources(void)
{
    static const size_t lengths[] = {8, LEN};
    static unsigned char bytes[LEN];
    struct fi_cq_tagged_entry entry;
    fi_addr_t source;
    for (int i = 0; i < 2; i++) {
        RETRY(fi_writedata(ep, bytes, lengths[i], NULL, 5, other, 0, KEY, &contexts[0]));
        for (int came = 0; came < 2;) {
            ssize_t got = fi_cq_readfrom(cq, &entry, 1, &source);
            CHECK(got == 1 || got == -FI_EAGAIN);
            if (got == 1) {
                CHECK(source == (entry.flags & FI_REMOTE_WRITE ? other : FI_ADDR_NOTAVAIL));
                came++;
            }
        }
        /* Else the next write of the other process may count here, while the own one lasts. */
        meet();
    }
}

/* Many under way: whenever one is reported, its bytes are there. */
static void many(void)
{
    uint64_t *words = (uint64_t *) mine;
    struct fi_cq_tagged_entry entry;
    memset(mine, 0, LEN);
    meet();
    int started = 0, came = 0;
    while (started < COUNT || came < COUNT) {
        if (started < COUNT) {
            uint64_t word = started + 1;
            ssize_t result = fi_inject_writedata(ep, &word, 8, started, other, 8 * started, KEY);
            CHECK(result == 0 || result == -FI_EAGAIN);
            started += result == 0;
        }
        ssize_t got = fi_cq_read(cq, &entry, 1);
        CHECK(got == 1 || got == -FI_EAGAIN);
        if (got == 1) {
            CHECK((entry.flags & FI_REMOTE_CQ_DATA) && entry.len == 8 && words[entry.data] == entry.data + 1);
            came++;
        }
    }
    meet();
}

/* Writes whose target does not look have an end, though nobody waits for them. */
static void unanswered(void)
{
    enum { MOST = 1 << 16 };
    struct fi_cq_tagged_entry entry;
    int started = 0, came = 0;
    char byte = 0;
    if (me) {
        ssize_t result;
        hear();
        while ((result = fi_inject_writedata(ep, &byte, 1, 0, other, 0, KEY)) == 0 && started <= MOST)
            started++;
        CHECK(result == -FI_EAGAIN && started > 0 && started <= MOST);
        CHECK(write(line_to_other, &started, sizeof started) == sizeof started);
    } else {
        /* From here on it makes no progress. */
        say();
        CHECK(recv(line_to_other, &started, sizeof started, MSG_WAITALL) == sizeof started);
        while (came < started)
            came += fi_cq_read(cq, &entry, 1) == 1;
    }
    meet();
}

/*
 * The region is closed while the other process writes: each write is done and reported, or refused.
 * Nothing is written once it is closed.
 */
static void closing(struct fid_mr *region)
{
    static unsigned char after[LEN];
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error;
    uint64_t done = 0, came = 0, theirs;
    int refused = 0, pending = 0;
    if (me) {
        uint64_t word = 0;
        while (!refused || pending) {
            if (!refused && pending < 16) {
                /* They end in the order in which they began: nothing under way has this context. */
                word++;
                RETRY(fi_writedata(ep, &word, 8, NULL, word, other, word % 1000 * 8, KEY, &contexts[word % 64]));
                pending++;
            }
            ssize_t got = fi_cq_read(cq, &entry, 1);
            if (got == -FI_EAVAIL) {
                error = (struct fi_cq_err_entry) {0};
                CHECK(fi_cq_readerr(cq, &error, 0) == 1 && error.err == FI_EKEYREJECTED);
                refused = 1;
            }
            done += got == 1;
            pending -= got != -FI_EAGAIN;
        }
        CHECK(write(line_to_other, &done, sizeof done) == sizeof done);
    } else {
        while (came < 1000)
            came += fi_cq_read(cq, &entry, 1) == 1;
        OK(fi_close(&region->fid));
        memcpy(after, mine, LEN);
        while (recv(line_to_other, &theirs, sizeof theirs, MSG_DONTWAIT) != sizeof theirs)
            came += fi_cq_read(cq, &entry, 1) == 1;
        while (fi_cq_read(cq, &entry, 1) == 1)
            came++;
        CHECK(came == theirs && !memcmp(after, mine, LEN));
    }
    meet();
}

/* What reaches beyond a region, or may not be written, is refused, and not reported. */
static void refused(void)
{
    static unsigned char bytes[8];
    static const uint64_t outside[] = {LEN - 7, LEN, (uint64_t) 1 << 63, -(uint64_t) 4, ~(uint64_t) 0};
    unsigned char before[8];
    memcpy(before, mine, sizeof before);
    meet();
    for (unsigned i = 0; i < sizeof outside / sizeof *outside; i++) {
        RETRY(fi_writedata(ep, bytes, 8, NULL, 1, other, outside[i], KEY, &contexts[i]));
        struct fi_cq_err_entry error = failure();
        CHECK(error.err == FI_EACCES && error.op_context == &contexts[i]);
    }
    RETRY(fi_writedata(ep, bytes, 8, NULL, 1, other, 0, KEY + 1, &contexts[0]));
    CHECK(failure().err == FI_EKEYREJECTED);
    /* One that may only be read. */
    RETRY(fi_inject_writedata(ep, bytes, 8, 1, other, 0, KEY + 2));
    struct fi_cq_err_entry error = failure();
    CHECK(error.err == FI_EKEYREJECTED && error.op_context == NULL);
    meet();
    CHECK(!memcmp(before, mine, sizeof before));
}

/* A process that was refused something goes on. */
static void after(void)
{
    meet();
    for (int i = 0; i < 100; i++) {
        uint64_t word = i;
        RETRY(fi_writedata(ep, &word, 8, NULL, i, other, 0, KEY, &contexts[0]));
        struct fi_cq_tagged_entry theirs = both(&contexts[0]);
        CHECK(theirs.data == (uint64_t) i && theirs.len == 8);
        meet();
    }
}

void writes(void)
{
    struct fid_mr *region = expose(FI_REMOTE_READ | FI_REMOTE_WRITE, KEY);
    struct fid_mr *other_region = expose(FI_REMOTE_READ, KEY + 2);
    meet();
    bounds();
    sources();
    many();
    unanswered();
    closing(region);
    if (!me)
        region = expose(FI_REMOTE_READ | FI_REMOTE_WRITE, KEY);
    refused();
    after();
    OK(fi_close(&region->fid));
    OK(fi_close(&other_region->fid));
}
