/* Loans: sent and received without a copy, given back, and used wrongly. */
#include "check.h"

int main(void)
{
    join();
    limic_loan loan, copy;
    limic_request request;
    limic_status status = LIMIC_STATUS_INIT;
    void *data;
    const void *got;
    size_t length = 500000;
    /* So that the two have met and a loan needs no copy. */
    OK(limic_world_barrier(world));
    for (uint32_t round = 0; round < 50; round++) {
        if (rank == 0) {
            OK(limic_loan_get(world, length, &loan, &data));
            CHECK((uintptr_t)data % 64 == 0);
            fill(data, length, round);
            OK(limic_loan_isend(&loan, length - round, 1, round, 1, &request));
            CHECK(loan.endpoint == 0);
            OK(limic_wait(&request, LIMIC_FOREVER, NULL));
        } else if (round % 3) {
            OK(limic_loan_recv(world, 0, round, 1, LIMIC_FOREVER, &loan, &got, &status));
            CHECK(status.length == length - round && filled(got, length - round, round));
            copy = loan;
            OK(limic_loan_return(&loan));
            GIVES(LIMIC_ERR_REQUEST, limic_loan_return(&copy));
        } else {
            /* A loan is received like any message, too. */
            void *into = room(length);
            OK(limic_recv(world, into, length, 0, round, 1, &status));
            CHECK(filled(into, length - round, round));
            free(into);
        }
    }
    if (rank == 0) {
        limic_traffic traffic = {0, 0};
        for (uint32_t path = 0; path < limic_path_count(); path++)
            if (strcmp(limic_path_name(path), "loan") == 0)
                OK(limic_counters_path(world, path, &traffic));
        CHECK(traffic.messages > 40);
    }

    GIVES(LIMIC_ERR_TIMEOUT, limic_loan_recv(world, 1 - rank, 999, 1, 0, &loan, &got, &status));
    OK(limic_loan_get(world, 1000, &loan, &data));
    memset(data, 1, 1000);
    copy = loan;
    GIVES(LIMIC_ERR_RANGE, limic_loan_isend(&loan, 1001, 1 - rank, 1, 1, &request));
    GIVES(LIMIC_ERR_INVALID, limic_loan_isend(&loan, 1000, 1 - rank, LIMIC_ANY_TAG, 1, &request));
    OK(limic_loan_return(&loan));
    GIVES(LIMIC_ERR_REQUEST, limic_loan_isend(&copy, 10, 1 - rank, 1, 1, &request));
    GIVES(LIMIC_ERR_REQUEST, limic_loan_return(&copy));
    GIVES(LIMIC_ERR_NO_MEMORY, limic_loan_get(world, (size_t)1 << 46, &loan, &data));
    GIVES(LIMIC_ERR_INVALID, limic_loan_get(world, (size_t)PTRDIFF_MAX + 1, &loan, &data));

    /* A message that was sent in another way, taken as a loan; it cannot be sent on. */
    OK(limic_send(world, "short", 5, 1 - rank, 1, 2));
    OK(limic_loan_recv(world, 1 - rank, 1, 2, LIMIC_FOREVER, &loan, &got, &status));
    CHECK(status.length == 5 && memcmp(got, "short", 5) == 0);
    GIVES(LIMIC_ERR_REQUEST, limic_loan_isend(&loan, 5, 1 - rank, 1, 1, &request));
    /* What is not given back ends with the endpoint. */
    OK(limic_loan_get(world, 1000, &copy, &data));
    leave();
    return 0;
}
