/* A probe that waits for long says which message it waits for; it gets it only when it has. */
#include "check.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static limic_endpoint meet(int partner, uint32_t *peer)
{
    const char *settings[] = {"LIMIC_PATIENCE_MS=20", NULL};
    limic_options options = LIMIC_OPTIONS_INIT;
    options.kind = LIMIC_KIND_HYBRID;
    options.settings = settings;
    limic_endpoint endpoint;
    unsigned char address[LIMIC_ADDRESS_LENGTH];
    OK(limic_endpoint_open(&options, &endpoint));
    OK(limic_address(endpoint, address, sizeof address));
    CHECK(write(partner, address, sizeof address) == sizeof address);
    CHECK(recv(partner, address, sizeof address, MSG_WAITALL) == sizeof address);
    OK(limic_connect(endpoint, address, sizeof address, peer));
    return endpoint;
}

static void wait_for_two(int partner)
{
    uint32_t peer;
    limic_endpoint endpoint = meet(partner, &peer);
    limic_status status = LIMIC_STATUS_INIT;
    limic_message message;
    OK(limic_probe(endpoint, peer, 5, 0, LIMIC_FOREVER, &status));
    CHECK(status.tag == 5);
    OK(limic_recv(endpoint, NULL, 0, peer, 5, 0, NULL));
    OK(limic_mprobe(endpoint, LIMIC_ANY_SOURCE, 6, 0, LIMIC_FOREVER, &message, &status));
    CHECK(status.tag == 6);
    OK(limic_mrecv(&message, NULL, 0, NULL));
    OK(limic_endpoint_close(endpoint));
}

int main(void)
{
    int sockets[2], lines[2], ended;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0 && pipe(lines) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(dup2(lines[1], STDERR_FILENO) == STDERR_FILENO);
        close(lines[0]);
        close(lines[1]);
        close(sockets[0]);
        CHECK(setenv("LIMIC_RANK", "7", 1) == 0 && unsetenv("LIMIC_LOG") == 0);
        wait_for_two(sockets[1]);
        return 0;
    }
    close(lines[1]);
    close(sockets[1]);
    uint32_t peer;
    limic_endpoint endpoint = meet(sockets[0], &peer);
    static const char *const said[] = {
        "rank 7 has waited for 20ms in limic_probe of tag 5 from peer 0 ",
        "rank 7 has waited for 20ms in limic_mprobe of tag 6 from any peer ",
    };
    FILE *from_child = fdopen(lines[0], "r");
    CHECK(from_child != NULL);
    char line[500];
    for (uint32_t at = 0; at < 2; at++) {
        CHECK(fgets(line, sizeof line, from_child) != NULL);
        if (strstr(line, said[at]) == NULL) {
            fprintf(stderr, "not '%s': %s", said[at], line);
            return 1;
        }
        OK(limic_send(endpoint, NULL, 0, peer, 5 + at, 0));
    }
    /* One line for each call is all. */
    CHECK(fgets(line, sizeof line, from_child) == NULL);
    fclose(from_child);
    close(sockets[0]);
    CHECK(waitpid(child, &ended, 0) == child && WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
    OK(limic_endpoint_close(endpoint));
    return 0;
}
