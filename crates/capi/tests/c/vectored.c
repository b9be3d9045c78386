/* Messages in pieces, sent and received by lists of struct iovec. */
#include "check.h"

enum { PIECES = 40 };

/* Cuts `length` bytes into pieces of different lengths, some of them empty. */
static int cut(struct iovec *pieces, char *data, size_t length, size_t step)
{
    int count = 0;
    size_t at = 0;
    while (at < length && count < PIECES - 2) {
        size_t part = step * (size_t)(count % 4);
        if (part > length - at)
            part = length - at;
        pieces[count].iov_base = part ? data + at : NULL;
        pieces[count].iov_len = part;
        count++;
        at += part;
    }
    pieces[count].iov_base = data + at;
    pieces[count].iov_len = length - at;
    return count + 1;
}

static void exchange(size_t length)
{
    struct iovec pieces[PIECES];
    limic_request request;
    limic_message message;
    limic_status status = LIMIC_STATUS_INIT;
    char *data = (char *)room(length);
    if (rank == 0) {
        fill(data, length, 3);
        int count = cut(pieces, data, length, 7);
        OK(limic_isendv(world, pieces, count, 1, 1, 1, &request));
        OK(limic_wait(&request, LIMIC_FOREVER, NULL));
        OK(limic_isendv(world, pieces, count, 1, 2, 1, &request));
        OK(limic_wait(&request, LIMIC_FOREVER, NULL));
    } else {
        memset(data, 0, length);
        int count = cut(pieces, data, length, 13);
        OK(limic_irecvv(world, pieces, count, 0, 1, 1, &request));
        OK(limic_wait(&request, LIMIC_FOREVER, &status));
        CHECK(status.length == length && filled(data, length, 3));
        memset(data, 0, length);
        OK(limic_mprobe(world, 0, 2, 1, LIMIC_FOREVER, &message, &status));
        CHECK(status.length == length);
        OK(limic_imrecvv(&message, pieces, count, &request));
        OK(limic_wait(&request, LIMIC_FOREVER, &status));
        CHECK(status.length == length && filled(data, length, 3));
    }
    free(data);
}

int main(void)
{
    join();
    exchange(0);
    exchange(30);
    exchange(5000);
    exchange(200000);
    exchange(3 << 20);

    struct iovec wrong[2] = {{NULL, 0}, {NULL, 1}};
    char byte = 0;
    limic_request request;
    GIVES(LIMIC_ERR_NULL, limic_isendv(world, wrong, 2, 0, 1, 1, &request));
    GIVES(LIMIC_ERR_NULL, limic_irecvv(world, NULL, 1, 0, 1, 1, &request));
    GIVES(LIMIC_ERR_INVALID, limic_isendv(world, wrong, -1, 0, 1, 1, &request));
    wrong[0].iov_base = wrong[1].iov_base = &byte;
    wrong[0].iov_len = wrong[1].iov_len = (size_t)PTRDIFF_MAX;
    GIVES(LIMIC_ERR_INVALID, limic_isendv(world, wrong, 2, 0, 1, 1, &request));
    leave();
    return 0;
}
