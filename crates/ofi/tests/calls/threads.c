/* Threads that call at once. */
#include "calls.h"

static volatile int over;

/* Asks and tells what no message changes. */
static void *ask(void *nothing)
{
    size_t least = 100;
    for (unsigned i = 0; !over; i++) {
        char name[64];
        size_t len = sizeof name, room = sizeof least;
        OK(fi_getname(&ep->fid, name, &len));
        CHECK(len == 48);
        OK(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least));
        OK(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, &room));
        CHECK(least == 100 && room == sizeof least);
        CHECK(fi_cntr_wait(counter, 1, 0) == -FI_ETIMEDOUT);
    }
    return nothing;
}

/* One thread moves messages, another one asks the same objects. */
void threads(void)
{
    pthread_t asker;
    char bytes[8];
    CHECK(pthread_create(&asker, NULL, ask, NULL) == 0);
    for (int i = 0; i < 5000; i++) {
        OK(fi_trecv(ep, bytes, 8, NULL, myself, 1, 0, &contexts[0]));
        OK(fi_tinject(ep, "12345678", 8, myself, 1));
        CHECK(completion().op_context == &contexts[0]);
    }
    over = 1;
    CHECK(pthread_join(asker, NULL) == 0);
    meet();
}
