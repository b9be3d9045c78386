/* One-sided access: the caller's memory and the library's, in and out of bounds, revoked. */
#include "check.h"

enum { LENGTH = 1 << 20 };

static void access_to(uint64_t key)
{
    limic_request request;
    char *data = (char *)room(LENGTH);
    OK(limic_iread(world, 1, key, 0, data, LENGTH, &request));
    OK(limic_wait(&request, LIMIC_FOREVER, NULL));
    CHECK(filled(data, LENGTH, 1));
    fill(data, LENGTH / 2, 2);
    OK(limic_iwrite(world, 1, key, LENGTH / 4, data, LENGTH / 2, &request));
    OK(limic_wait(&request, LIMIC_FOREVER, NULL));
    memset(data, 0, LENGTH);
    OK(limic_iread(world, 1, key, LENGTH / 4, data, LENGTH / 2, &request));
    OK(limic_wait(&request, LIMIC_FOREVER, NULL));
    CHECK(filled(data, LENGTH / 2, 2));

    /* The error comes at once or with the request, by the path. */
    int code = limic_iread(world, 1, key, 1, data, LENGTH, &request);
    if (code == LIMIC_OK)
        code = limic_wait(&request, LIMIC_FOREVER, NULL);
    CHECK(code == LIMIC_ERR_RANGE);
    code = limic_iwrite(world, 1, key, UINT64_MAX, data, 2, &request);
    if (code == LIMIC_OK)
        code = limic_wait(&request, LIMIC_FOREVER, NULL);
    CHECK(code == LIMIC_ERR_RANGE);
    code = limic_iread(world, 1, key ^ 1, 0, data, 1, &request);
    if (code == LIMIC_OK)
        code = limic_wait(&request, LIMIC_FOREVER, NULL);
    CHECK(code == LIMIC_ERR_REGION);
    free(data);
}

int main(void)
{
    join();
    limic_region own, lent, copy;
    uint64_t keys[2] = {0, 0};
    void *memory;
    char *mine = (char *)room(LENGTH);
    if (rank == 1) {
        fill(mine, LENGTH, 1);
        OK(limic_region_expose(world, mine, LENGTH, &own, &keys[0]));
        OK(limic_region_allocate(world, LENGTH, &memory, &lent, &keys[1]));
        fill(memory, LENGTH, 1);
        OK(limic_send(world, keys, sizeof keys, 0, 1, 1));
        /* Moves messages along, for the paths on which the owner has to help. */
        OK(limic_recv(world, NULL, 0, 0, 2, 1, NULL));
        CHECK(filled(mine + LENGTH / 4, LENGTH / 2, 2) && filled(mine, LENGTH / 4, 1));
        CHECK(filled((char *)memory + LENGTH / 4, LENGTH / 2, 2));
        copy = own;
        OK(limic_region_revoke(&own));
        GIVES(LIMIC_ERR_REQUEST, limic_region_revoke(&copy));
        OK(limic_region_revoke(&lent));
        /* The memory is the caller's again. */
        memset(mine, 0, LENGTH);
        OK(limic_send(world, NULL, 0, 0, 3, 1));
        OK(limic_recv(world, NULL, 0, 0, 4, 1, NULL));
        /* One that is forgotten ends with the endpoint. */
        OK(limic_region_expose(world, mine, LENGTH, &own, &keys[0]));
        GIVES(LIMIC_ERR_NULL, limic_region_expose(world, NULL, 8, &own, &keys[0]));
    } else {
        limic_request request;
        OK(limic_recv(world, keys, sizeof keys, 1, 1, 1, NULL));
        access_to(keys[0]);
        access_to(keys[1]);
        OK(limic_send(world, NULL, 0, 1, 2, 1));
        OK(limic_recv(world, NULL, 0, 1, 3, 1, NULL));
        int code = limic_iread(world, 1, keys[0], 0, mine, 1, &request);
        if (code == LIMIC_OK)
            code = limic_wait(&request, LIMIC_FOREVER, NULL);
        CHECK(code == LIMIC_ERR_REGION);
        OK(limic_send(world, NULL, 0, 1, 4, 1));
        GIVES(LIMIC_ERR_UNKNOWN_PEER, limic_iread(world, 77, keys[0], 0, mine, 1, &request));
    }
    leave();
    free(mine);
    return 0;
}
