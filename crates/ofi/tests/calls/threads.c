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
        CHECK(len == 64);
        OK(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least));
        OK(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, &room));
        CHECK(least == 100 && room == sizeof least);
        CHECK(fi_cntr_wait(counter, 1, 0) == -FI_ETIMEDOUT);
    }
    return nothing;
}

enum { EACH = 3000, AT_ONCE = 8 };
static int ended_operations[2];

/* Posts and reads; what it reads may be what the other thread has posted. */
static void *post_and_read(void *number)
{
    int mine = *(int *) number;
    static char bytes[2][AT_ONCE];
    for (int i = 0; i < EACH; i += AT_ONCE) {
        for (int k = 0; k < AT_ONCE; k++) {
            OK(fi_trecv(ep, &bytes[mine][k], 1, NULL, myself, 10 + mine, 0, &contexts[mine * AT_ONCE + k]));
            OK(fi_tinject(ep, "1", 1, myself, 10 + mine));
        }
        while (__atomic_load_n(&ended_operations[mine], __ATOMIC_ACQUIRE) < i + AT_ONCE) {
            struct fi_cq_tagged_entry entries[3];
            ssize_t count = fi_cq_read(cq, entries, 3);
            CHECK(count > 0 || count == -FI_EAGAIN);
            for (ssize_t k = 0; k < count; k++) {
                int whose = (struct fi_context2 *) entries[k].op_context >= &contexts[AT_ONCE];
                CHECK(entries[k].tag == 10u + whose && entries[k].len == 1);
                __atomic_fetch_add(&ended_operations[whose], 1, __ATOMIC_RELEASE);
            }
        }
    }
    return NULL;
}

/* Two threads use one endpoint and one queue at once: nothing is lost, and nothing comes twice. */
static void two_at_once(void)
{
    pthread_t sender[2];
    int numbers[2] = {0, 1};
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&sender[i], NULL, post_and_read, &numbers[i]) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(sender[i], NULL) == 0);
        CHECK(ended_operations[i] == EACH);
    }
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
    two_at_once();
    meet();
}
