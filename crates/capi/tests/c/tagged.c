/* Tags of 64 bits under masks: receive, probe and matched probe; beside tags with a context. */
#include "check.h"

/* A tag in three parts. */
#define PARTS(job, round, kind) ((uint64_t)(job) << 40 | (uint64_t)(round) << 8 | (uint64_t)(kind))

static void two_ranks(void)
{
    static const uint64_t tags[] = {
        PARTS(7, 1, 1), PARTS(7, 1, 2), PARTS(7, 2, 2), PARTS(8, 1, 2), PARTS(8, 2, 3)};
    limic_status status = LIMIC_STATUS_INIT;
    limic_message message;
    limic_request request;
    uint64_t data = 0;
    struct iovec halves[2] = {{&data, 4}, {(char *)&data + 4, 4}};
    if (rank == 0) {
        for (size_t at = 0; at < 5; at++)
            OK(limic_tag_send(world, &tags[at], 8, 1, tags[at]));
        return;
    }
    /* By the kind alone: the first one of that kind. */
    OK(limic_tag_probe(world, 0, 2, 0xff, LIMIC_FOREVER, &status));
    CHECK(LIMIC_TAG(status.context, status.tag) == tags[1] && status.length == 8);
    OK(limic_tag_mprobe(world, 0, PARTS(0, 2, 2), 0xffffffffff, LIMIC_FOREVER, &message,
                        &status));
    CHECK(LIMIC_TAG(status.context, status.tag) == tags[2]);
    OK(limic_mrecv(&message, &data, 8, &status));
    CHECK(data == tags[2]);
    /* By the job. */
    OK(limic_tag_irecv(world, &data, 8, LIMIC_ANY_SOURCE, PARTS(8, 0, 0), ~(uint64_t)0 << 40,
                       &request));
    OK(limic_wait(&request, LIMIC_FOREVER, &status));
    CHECK(data == tags[3] && LIMIC_TAG(status.context, status.tag) == tags[3]);
    OK(limic_tag_irecvv(world, halves, 2, 0, 3, 0xff, &request));
    OK(limic_wait(&request, LIMIC_FOREVER, NULL));
    CHECK(data == tags[4]);
    /* The whole tag; and whatever is left. */
    GIVES(LIMIC_ERR_TIMEOUT, limic_tag_probe(world, 0, tags[4], UINT64_MAX, 0, NULL));
    OK(limic_tag_recv(world, &data, 8, 0, tags[1], UINT64_MAX, NULL));
    CHECK(data == tags[1]);
    OK(limic_tag_recv(world, &data, 8, LIMIC_ANY_SOURCE, 0, 0, &status));
    CHECK(data == tags[0] && status.source == 0);
}

/* Loans have tags of 64 bits too, and are found by a part of one. */
static void loans(void)
{
    limic_loan loan;
    limic_request request;
    limic_status status = LIMIC_STATUS_INIT;
    void *data;
    const void *got;
    if (rank == 0) {
        for (uint64_t kind = 1; kind <= 2; kind++) {
            OK(limic_loan_get(world, 8, &loan, &data));
            memcpy(data, &kind, 8);
            if (kind == 1)
                GIVES(LIMIC_ERR_INVALID,
                      limic_tag_loan_isend(&loan, 8, 1, LIMIC_TAG_MAX + 1, &request));
            OK(limic_tag_loan_isend(&loan, 8, 1, PARTS(9, 3, kind), &request));
            OK(limic_wait(&request, LIMIC_FOREVER, NULL));
        }
        return;
    }
    for (uint64_t kind = 2; kind >= 1; kind--) {
        OK(limic_tag_loan_recv(world, 0, kind, 0xff, LIMIC_FOREVER, &loan, &got, &status));
        CHECK(LIMIC_TAG(status.context, status.tag) == PARTS(9, 3, kind));
        CHECK(status.length == 8 && memcmp(got, &kind, 8) == 0);
        OK(limic_loan_return(&loan));
    }
    GIVES(LIMIC_ERR_TIMEOUT, limic_tag_loan_recv(world, 0, 0, 0, 0, &loan, &got, &status));
    GIVES(LIMIC_ERR_INVALID,
          limic_tag_loan_recv(world, 0, UINT64_MAX, UINT64_MAX, 0, &loan, &got, &status));
}

/* A tag with a context is a tag of 64 bits. */
static void both_kinds(void)
{
    limic_request request;
    char byte = 0;
    OK(limic_tag_isend(world, "a", 1, rank, LIMIC_TAG(9, 5), &request));
    OK(limic_recv(world, &byte, 1, rank, 5, 9, NULL));
    CHECK(byte == 'a');
    OK(limic_wait(&request, LIMIC_FOREVER, NULL));
    OK(limic_send(world, "b", 1, rank, 6, LIMIC_CONTEXT_MAX));
    OK(limic_tag_recv(world, &byte, 1, rank, LIMIC_TAG(LIMIC_CONTEXT_MAX, 0), LIMIC_TAG(-1, 0),
                      NULL));
    CHECK(byte == 'b');
}

/* Any tag is none of the library's, and none of the library's can be asked for. */
static void the_librarys(void)
{
    char byte;
    limic_request request;
    OK(limic_tag_irecv(world, &byte, 1, LIMIC_ANY_SOURCE, 0, 0, &request));
    OK(limic_world_barrier(world));
    OK(limic_tag_send(world, "c", 1, rank, 0));
    OK(limic_wait(&request, LIMIC_FOREVER, NULL));
    CHECK(byte == 'c');
    GIVES(LIMIC_ERR_INVALID, limic_tag_send(world, "d", 1, rank, LIMIC_TAG_MAX + 1));
    GIVES(LIMIC_ERR_INVALID, limic_tag_isend(world, "d", 1, rank, UINT64_MAX, &request));
    GIVES(LIMIC_ERR_INVALID, limic_tag_recv(world, &byte, 1, rank, UINT64_MAX, UINT64_MAX, NULL));
    GIVES(LIMIC_ERR_INVALID, limic_tag_recv(world, &byte, 1, rank, (uint64_t)1 << 63, 0, NULL));
    GIVES(LIMIC_ERR_INVALID, limic_tag_probe(world, rank, LIMIC_TAG_MAX, 7, 0, NULL));
    OK(limic_tag_send(world, "e", 1, rank, LIMIC_TAG_MAX));
    OK(limic_tag_recv(world, &byte, 1, rank, LIMIC_TAG_MAX, UINT64_MAX, NULL));
    CHECK(byte == 'e');
}

int main(void)
{
    join();
    two_ranks();
    loans();
    both_kinds();
    the_librarys();
    OK(limic_world_barrier(world));
    leave();
    return 0;
}
