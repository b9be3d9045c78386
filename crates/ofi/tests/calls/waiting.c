/* Sleeping. */
#include "calls.h"

/* Sleeps on the queue, by its descriptor and by sread. */
void waiting(void)
{
    struct fi_cq_tagged_entry entry;
    char bytes[8];
    int descriptor;
    CHECK(fi_cq_sread(cq, &entry, 1, NULL, 20) == -FI_EAGAIN);
    OK(fi_control(&cq->fid, FI_GETWAIT, &descriptor));
    for (int i = 0; i < 30; i++) {
        OK(fi_trecv(ep, bytes, 8, NULL, other, 1, 0, &contexts[0]));
        if (me == 0)
            OK(fi_tinject(ep, "12345678", 8, other, 1));
        if (i % 2) {
            CHECK(fi_cq_sread(cq, &entry, 1, NULL, -1) == 1);
        } else {
            struct fid *fids[1] = {&cq->fid};
            while (fi_cq_read(cq, &entry, 1) != 1) {
                int ready = fi_trywait(fabric, fids, 1);
                if (ready == -FI_EAGAIN)
                    continue;
                OK(ready);
                struct pollfd poller = {descriptor, POLLIN, 0};
                CHECK(poll(&poller, 1, 30000) >= 0);
            }
        }
        CHECK(entry.op_context == &contexts[0]);
        if (me == 1)
            OK(fi_tinject(ep, "12345678", 8, other, 1));
    }
    OK(fi_cq_signal(cq));
    CHECK(fi_cq_sread(cq, &entry, 1, NULL, -1) == -FI_EAGAIN);
    meet();
}
