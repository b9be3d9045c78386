/* FI_PROGRESS_AUTO: messages move while nobody calls. */
#include "calls.h"

/* An endpoint that closes waits until what it has sent is taken, and keeps nobody from that. */
static void taken_while_its_sender_closes(void)
{
    enum { LEN = 4 << 20 };
    static char out[LEN], in[LEN];
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_cq_tagged_entry entry;
    struct fid_cq *sends;
    char name[64];
    size_t len = sizeof name;
    fi_addr_t at;
    OK(fi_cq_open(domain, &attr, &sends, NULL));
    struct fid_ep *from = open_end_on(sends, info, NULL), *to = open_end(info, NULL);
    OK(fi_getname(&to->fid, name, &len));
    CHECK(fi_av_insert(av, name, 1, &at, 0, NULL) == 1);
    OK(fi_trecv(to, in, LEN, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[3]));
    memset(out, 1, LEN);
    OK(fi_tsend(from, out, LEN, NULL, at, 1, &contexts[4]));
    OK(fi_close(&from->fid));
    CHECK(fi_cq_read(cq, &entry, 1) == 1 && entry.op_context == &contexts[3] && !memcmp(in, out, LEN));
    OK(fi_av_remove(av, &at, 1, 0));
    OK(fi_close(&to->fid));
    OK(fi_close(&sends->fid));
}

/* An attempt to enable an endpoint that fails can be repeated: here for want of the descriptor that
 * sleepers of a counter need. */
static void enabled_at_the_second_attempt(void)
{
    struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_FD};
    struct fid_cntr *writes;
    struct fid_mr *region;
    uint64_t word;
    int descriptor, kept;
    OK(fi_cntr_open(domain, &attr, &writes, NULL));
    OK(fi_mr_reg(domain, &word, sizeof word, FI_REMOTE_WRITE, 0, 6, FI_RMA_EVENT, &region, NULL));
    OK(fi_mr_bind(region, &writes->fid, FI_REMOTE_WRITE));
    struct fid_ep *end = begin_end(cq, info);
    OK(fi_control(&writes->fid, FI_GETWAIT, &descriptor));
    CHECK((kept = dup(descriptor)) >= 0 && dup2(line_to_other, descriptor) == descriptor);
    CHECK(fi_enable(end) < 0);
    CHECK(dup2(kept, descriptor) == descriptor && close(kept) == 0);
    OK(fi_enable(end));
    OK(fi_close(&end->fid));
    OK(fi_close(&region->fid));
    OK(fi_close(&writes->fid));
}

/* With FI_PROGRESS_AUTO a process that makes no call serves its peers all the same: atomic
 * operations on its memory, and long messages. */
void moved_along(void)
{
    enum { LEN = 4 << 20 };
    static char out[LEN], in[LEN];
    static uint64_t word;
    struct fid_mr *region;
    uint64_t one = 1, before;
    OK(fi_mr_reg(domain, &word, sizeof word, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 5, 0, &region, NULL));
    meet();
    if (me == 1) {
        OK(fi_trecv(ep, in, LEN, NULL, other, 1, 0, &contexts[0]));
        /* Until the other one has all that it wants. */
        hear();
        CHECK(completion().op_context == &contexts[0] && word == 10);
    } else {
        for (uint64_t i = 0; i < 10; i++) {
            RETRY(fi_fetch_atomic(ep, &one, 1, NULL, &before, NULL, other, 0, 5, FI_UINT64, FI_SUM, &contexts[1]));
            CHECK(completion().op_context == &contexts[1] && before == i);
        }
        OK(fi_tsend(ep, out, LEN, NULL, other, 1, &contexts[2]));
        CHECK(completion().op_context == &contexts[2]);
        say();
    }
    meet();
    OK(fi_close(&region->fid));
    taken_while_its_sender_closes();
    enabled_at_the_second_attempt();
    meet();
}
