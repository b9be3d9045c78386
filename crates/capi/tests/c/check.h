/* What the test programs share: checks that say what went wrong and where, and a world. */
#ifndef CHECK_H
#define CHECK_H

#include <limic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__,            \
                    #condition, limic_last_error());                                               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* The call gives this code. */
#define GIVES(expected, call)                                                                      \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != (expected)) {                                                                 \
            fprintf(stderr, "%s:%d: %s gave %d (%s: %s), not %s\n", __FILE__, __LINE__, #call,     \
                    code_, limic_strerror(code_), limic_last_error(), #expected);                  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define OK(call) GIVES(LIMIC_OK, call)

static limic_endpoint world;
static uint32_t rank, ranks;

static inline void join(void)
{
    /* Which kind of endpoint: a number, for the guest tests of the kernel module. */
    const char *kind = getenv("LIMIC_TEST_KIND");
    limic_options options = LIMIC_OPTIONS_INIT;
    options.kind = kind == NULL ? LIMIC_KIND_HYBRID : (uint32_t)atoi(kind);
    OK(limic_world_open(kind == NULL ? NULL : &options, &world));
    OK(limic_world_rank(world, &rank));
    OK(limic_world_size(world, &ranks));
}

static inline void leave(void)
{
    OK(limic_world_finalize(world));
    GIVES(LIMIC_ERR_ENDPOINT, limic_progress(world, NULL));
}

static inline void *room(size_t length)
{
    void *memory = malloc(length > 0 ? length : 1);
    CHECK(memory != NULL);
    return memory;
}

/* Bytes that tell their place and the message that they are of. */
static inline void fill(void *data, size_t length, uint32_t seed)
{
    unsigned char *bytes = (unsigned char *)data;
    for (size_t at = 0; at < length; at++)
        bytes[at] = (unsigned char)((at * 131 + (at >> 8) + seed * 29) & 0xff);
}

static inline int filled(const void *data, size_t length, uint32_t seed)
{
    const unsigned char *bytes = (const unsigned char *)data;
    for (size_t at = 0; at < length; at++)
        if (bytes[at] != (unsigned char)((at * 131 + (at >> 8) + seed * 29) & 0xff))
            return 0;
    return 1;
}

#endif
