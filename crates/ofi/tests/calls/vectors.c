/* Address vectors: what is inserted, and where it stands. */
#include "calls.h"

#include <stdint.h>

/* A vector fills its lowest gap first: whoever passes no room for places counts on that. */
static void fill_gaps(void)
{
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fid_av *vector;
    char names[4][64], seen[64];
    size_t len = sizeof names[0];
    fi_addr_t gaps[] = {2, 0, 1};
    OK(fi_av_open(domain, &av_attr, &vector, NULL));
    OK(fi_getname(&ep->fid, names[0], &len));
    for (int i = 1; i < 4; i++)
        memcpy(names[i], names[0], len);
    CHECK(fi_av_insert(vector, names, 4, NULL, 0, NULL) == 4);
    OK(fi_av_remove(vector, gaps, 3, 0));
    for (fi_addr_t at = 0; at < 3; at++) {
        CHECK(fi_av_lookup(vector, at, seen, &len) == -FI_EINVAL);
        CHECK(fi_av_insert(vector, names, 1, NULL, 0, NULL) == 1);
        OK(fi_av_lookup(vector, at, seen, &len));
    }
    OK(fi_close(&vector->fid));
}

/* By node and service, one or a row of them. */
static void insert_services(void)
{
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fi_info *like;
    struct fid_av *vector;
    struct fid_ep *end;
    char first[32], second[32], mine[64], name[64], byte;
    size_t len = sizeof name;
    fi_addr_t places[4], at;
    int errors[4];
    snprintf(first, sizeof first, "row-%d-9", (int) getpid());
    snprintf(second, sizeof second, "row-%d-10", (int) getpid());
    OK(fi_getinfo(FI_VERSION(1, 17), NULL, second, FI_SOURCE, info, &like));
    OK(fi_av_open(domain, &av_attr, &vector, NULL));
    OK(fi_endpoint(domain, like, &end, NULL));
    OK(fi_ep_bind(end, &vector->fid, 0));
    OK(fi_ep_bind(end, &cq->fid, FI_TRANSMIT | FI_RECV));
    OK(fi_enable(end));
    OK(fi_getname(&end->fid, mine, &len));
    CHECK(fi_av_insertsvc(vector, "localhost", second, &at, 0, NULL) == 1 && at == 0);
    OK(fi_trecv(end, &byte, 1, NULL, at, 1, 0, &contexts[0]));
    OK(fi_tinject(end, "1", 1, at, 1));
    CHECK(completion().op_context == &contexts[0]);
    OK(fi_av_lookup(vector, at, name, &len));
    CHECK(!memcmp(name, mine, len));
    /* The second one of a row is the same endpoint, and nobody has the first one. */
    CHECK(fi_av_insertsym(vector, "127.0.0.1", 2, first, 2, places, FI_SYNC_ERR, errors) == 4);
    for (int i = 0; i < 4; i++) {
        CHECK(places[i] == (fi_addr_t) i + 1 && errors[i] == 0);
        CHECK(fi_tinject(end, "1", 1, places[i], 2) == (i % 2 ? 0 : -FI_ECONNREFUSED));
    }
    for (int i = 0; i < 2; i++) {
        OK(fi_trecv(end, &byte, 1, NULL, FI_ADDR_UNSPEC, 2, 0, &contexts[i]));
        CHECK(completion().op_context == &contexts[i]);
    }
    /* What cannot be found has no place, as an address that makes no sense. */
    CHECK(fi_av_insertsvc(vector, "192.0.2.1", first, &at, FI_SYNC_ERR, errors) == 0);
    CHECK(at == FI_ADDR_NOTAVAIL && errors[0] == FI_ENODATA);
    CHECK(fi_av_insertsvc(vector, "localhost", NULL, &at, 0, NULL) == 0);
    CHECK(fi_av_insertsym(vector, NULL, 1, "none-", 2, places, FI_SYNC_ERR, errors) == 1);
    CHECK(places[0] == 5 && places[1] == FI_ADDR_NOTAVAIL && errors[1] == FI_EINVAL);
    CHECK(fi_av_insertsym(vector, NULL, SIZE_MAX, first, 2, places, 0, NULL) == -FI_EINVAL);
    /* No flag is known, and nobody is taken out. */
    CHECK(fi_av_remove(vector, &places[0], 1, 1ULL << 62) == -FI_EBADFLAGS);
    OK(fi_av_lookup(vector, places[0], name, &len));
    OK(fi_av_remove(vector, &places[0], 1, 0));
    OK(fi_close(&end->fid));
    OK(fi_close(&vector->fid));
    fi_freeinfo(like);
}

void vectors(void)
{
    fill_gaps();
    insert_services();
}
