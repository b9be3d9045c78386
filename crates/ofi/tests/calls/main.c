/* Usage: calls PART. Exits with 0 if all is as libfabric's manual pages say. */
#include "calls.h"

#include <sys/prctl.h>

int main(int argc, char **argv)
{
    int lines[2], status;
    const char *part = argc > 1 ? argv[1] : "";
    void (*alone)(void) = !strcmp(part, "leaving")    ? leaving
                          : !strcmp(part, "forged")   ? forged
                          : !strcmp(part, "returned") ? returned
                                                      : NULL;
    if (alone) {
        alone();
        printf("%s: right\n", part);
        return 0;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, lines))
        return 1;
    pid_t child = fork();
    me = child == 0;
    /* Whoever waits for this program waits for what both say, and kills the one alone. */
    if (me && prctl(PR_SET_PDEATHSIG, SIGKILL))
        return 1;
    line_to_other = lines[me];
    close(lines[!me]);
    if (!strcmp(part, "moved"))
        data_progress = FI_PROGRESS_AUTO;
    int enabled = !strcmp(part, "enabled-events"), events_too = enabled || !strcmp(part, "events");
    int sleeps = !strcmp(part, "woken");
    if (events_too || sleeps || data_progress == FI_PROGRESS_AUTO)
        more_caps = FI_RMA_EVENT;
    int ordered = !strcmp(part, "orders");
    if (ordered)
        asked_orders = FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_WAR | FI_ORDER_WAW;
    int waits = !strcmp(part, "waiting"), many = !strcmp(part, "threads");
    open_all(waits ? FI_WAIT_FD : FI_WAIT_NONE, waits || many || sleeps ? FI_THREAD_SAFE : FI_THREAD_DOMAIN,
             !strcmp(part, "basic-memory") ? MODE_BASIC
             : enabled                   ? FI_MR_RMA_EVENT
                                         : 0);
    meet();
    if (!strcmp(part, "tagged"))
        tagged();
    else if (!strcmp(part, "messages"))
        messages();
    else if (!strcmp(part, "memory") || !strcmp(part, "basic-memory"))
        memory();
    else if (!strcmp(part, "flags"))
        flags();
    else if (!strcmp(part, "names"))
        names();
    else if (!strcmp(part, "atomics"))
        atomics();
    else if (!strcmp(part, "writes"))
        writes();
    else if (ordered)
        orders();
    else if (events_too)
        events();
    else if (sleeps)
        woken();
    else if (!strcmp(part, "objects"))
        objects();
    else if (!strcmp(part, "shortage"))
        shortage();
    else if (waits)
        waiting();
    else if (many)
        threads();
    else if (!strcmp(part, "moved"))
        moved_along();
    else if (!strcmp(part, "controls"))
        controls();
    else if (!strcmp(part, "killed")) {
        if (me) {
            OK(fi_tinject(ep, "12345678", 8, other, 1));
            for (;;)
                fi_cq_read(cq, NULL, 0);
        }
        killed(child);
    } else if (!strcmp(part, "lost")) {
        char byte;
        if (me)
            /* Until it is killed, or the other one is gone. */
            return recv(line_to_other, &byte, 1, 0) != 0;
        lost(child);
    } else if (!strcmp(part, "delivered")) {
        delivered(child);
    } else if (!strcmp(part, "stopped")) {
        stopped(child);
    } else if (!strcmp(part, "abandoned")) {
        if (me) {
            meet();
            return write_on();
        }
        abandoned(child);
        printf("%s: right\n", part);
        return 0;
    } else {
        fprintf(stderr, "no part '%s'\n", part);
        return 1;
    }
    close_all();
    if (me)
        return 0;
    waitpid(child, &status, 0);
    int dies = !strcmp(part, "killed") || !strcmp(part, "lost") || !strcmp(part, "delivered");
    int good = dies ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (good)
        printf("%s: right\n", part);
    return !good;
}
