/* A poll loop around the wake-up descriptor, sleeping, and what progress says. */
#include "check.h"
#include <poll.h>

int main(void)
{
    join();
    int fd = -1, again = -2, armed = 7, moved = 7, done = 0;
    OK(limic_wake_fd(world, &fd));
    OK(limic_wake_fd(world, &again));
    CHECK(fd >= 0 && fd == again);
    for (int round = 0; round < 200; round++) {
        int number = -1;
        if (rank == 0) {
            OK(limic_send(world, &round, sizeof round, 1, 1, 1));
            OK(limic_recv(world, &number, sizeof number, 1, 2, 1, NULL));
        } else {
            limic_request request;
            OK(limic_irecv(world, &number, sizeof number, 0, 1, 1, &request));
            for (;;) {
                OK(limic_test(&request, &done, NULL));
                if (done)
                    break;
                OK(limic_arm(world, &armed));
                CHECK(armed == 0 || armed == 1);
                if (armed) {
                    struct pollfd wait = {fd, POLLIN, 0};
                    CHECK(poll(&wait, 1, 20000) >= 0);
                }
                OK(limic_progress(world, &moved));
                CHECK(moved == 0 || moved == 1);
            }
            OK(limic_send(world, &number, sizeof number, 0, 2, 1));
        }
        CHECK(number == round);
    }
    OK(limic_sleep(world, 0));
    OK(limic_sleep(world, 1000000));
    OK(limic_progress(world, NULL));
    leave();
    return 0;
}
