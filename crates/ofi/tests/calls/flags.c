/* Default flags of operations: given to an endpoint once, they hold for all calls without flags of their own. */
#include "calls.h"

/* With FI_INJECT a buffer is the caller's again at once, however long a message is and whenever it is received. */
void flags(void)
{
    enum { LEN = 200000 };
    static unsigned char out[LEN], in[LEN];
    struct fi_info *injecting = fi_dupinfo(info);
    injecting->tx_attr->op_flags = FI_INJECT | FI_COMPLETION | FI_DELIVERY_COMPLETE;
    struct fid_ep *end = open_end(injecting, NULL);
    fi_addr_t peer = swap_names(end);
    static const size_t lengths[] = {8, 4096, 50000, LEN};
    for (int i = 0; i < 4; i++) {
        size_t len = lengths[i];
        fill(out, len, me + i);
        OK(fi_tsend(end, out, len, NULL, peer, i, &contexts[0]));
        memset(out, 0, len);
        meet();
        OK(fi_trecv(end, in, len, NULL, peer, i, 0, &contexts[1]));
        for (int both = 0, seen = 0; both < 2; both++) {
            struct fi_cq_tagged_entry entry = completion();
            seen |= entry.op_context == &contexts[0] ? 1 : 2;
            CHECK(both == 0 || seen == 3);
        }
        CHECK(right(in, len, !me + i));
        meet();
    }
    /* They can be asked for and changed, but not to what is none of them. */
    uint64_t flags = FI_TRANSMIT;
    OK(fi_control(&end->fid, FI_GETOPSFLAG, &flags));
    CHECK(flags == (FI_INJECT | FI_COMPLETION | FI_DELIVERY_COMPLETE));
    flags = FI_TRANSMIT | FI_PEEK;
    CHECK(fi_control(&end->fid, FI_SETOPSFLAG, &flags) == -FI_EBADFLAGS);
    injecting->tx_attr->op_flags = FI_PEEK;
    struct fid_ep *none;
    CHECK(fi_endpoint(domain, injecting, &none, NULL) == -FI_EBADFLAGS);
    /* The first endpoint reports only what asks for it: calls without flags did by default, and do no longer. */
    flags = FI_TRANSMIT | FI_INJECT;
    OK(fi_control(&ep->fid, FI_SETOPSFLAG, &flags));
    OK(fi_trecv(ep, in, 8, NULL, myself, 1, 0, &contexts[1]));
    OK(fi_tsend(ep, out, 8, NULL, myself, 1, &contexts[0]));
    CHECK(completion().op_context == &contexts[1]);
    CHECK(fi_cq_read(cq, in, 1) == -FI_EAGAIN);
    meet();
    OK(fi_close(&end->fid));
    fi_freeinfo(injecting);
}
