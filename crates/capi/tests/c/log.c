/* The lines of the log go to a function. */
#include "check.h"

struct heard {
    int lines;
    int level;
    /* Lines that name the variable. */
    int names;
    char last[1000];
};

static void listen(void *context, int level, const char *text)
{
    struct heard *heard = (struct heard *)context;
    heard->lines++;
    heard->level = level;
    heard->names += strstr(text, "LIMIC_RING") != NULL;
    snprintf(heard->last, sizeof heard->last, "%s", text);
    GIVES(LIMIC_ERR_BUSY, limic_log_to(NULL, NULL, 0));
}

/* A misspelt variable is said when an endpoint is opened. */
static void misspell(const char *variable)
{
    limic_endpoint endpoint;
    CHECK(setenv(variable, "1", 1) == 0);
    OK(limic_endpoint_open(NULL, &endpoint));
    OK(limic_endpoint_close(endpoint));
    CHECK(unsetenv(variable) == 0);
}

int main(void)
{
    struct heard first = {0, 0, 0, ""}, second = {0, 0, 0, ""};
    GIVES(LIMIC_ERR_INVALID, limic_log_to(listen, &first, 0));
    GIVES(LIMIC_ERR_INVALID, limic_log_to(listen, &first, LIMIC_LOG_DEBUG + 1));
    OK(limic_log_to(listen, &first, LIMIC_LOG_WARNING));
    misspell("LIMIC_RINGZ");
    CHECK(first.lines == 1 && first.level == LIMIC_LOG_WARNING);
    CHECK(strstr(first.last, "LIMIC_RINGZ") != NULL && strchr(first.last, '\n') == NULL);

    /* Another function, and another level. */
    OK(limic_log_to(listen, &second, LIMIC_LOG_ERROR));
    CHECK(setenv("LIMIC_LOG", "off", 1) == 0);
    misspell("LIMIC_RINGY");
    CHECK(first.lines == 1 && second.lines == 0);
    OK(limic_log_to(listen, &second, LIMIC_LOG_DEBUG));
    misspell("LIMIC_RINGX");
    CHECK(second.names == 1);
    int lines = second.lines;
    OK(limic_log_to(NULL, NULL, 0));
    misspell("LIMIC_RINGW");
    CHECK(first.lines == 1 && second.lines == lines);
    return 0;
}
