/* Error codes, their texts, and the version. */
#include "check.h"

int main(void)
{
    CHECK(limic_version() == LIMIC_VERSION);
    CHECK(strcmp(limic_strerror(LIMIC_OK), "no error") == 0);
    for (int code = 0; code >= LIMIC_ERR_INTERNAL; code--) {
        CHECK(strlen(limic_strerror(code)) > 5);
        for (int other = code + 1; other <= 0; other++)
            CHECK(strcmp(limic_strerror(code), limic_strerror(other)) != 0);
    }
    CHECK(strcmp(limic_strerror(1), "unknown error code") == 0);
    CHECK(strcmp(limic_strerror(-1000), "unknown error code") == 0);

    CHECK(strcmp(limic_last_error(), "") == 0);
    limic_endpoint none = LIMIC_ENDPOINT_NULL;
    GIVES(LIMIC_ERR_ENDPOINT, limic_progress(none, NULL));
    CHECK(strstr(limic_last_error(), "never opened") != NULL);

    /* A setting that makes no sense is named, with what would. */
    const char *settings[] = {"LIMIC_EAGER_MAX=much", NULL};
    limic_options options = LIMIC_OPTIONS_INIT;
    options.settings = settings;
    GIVES(LIMIC_ERR_SETTINGS, limic_endpoint_open(&options, &none));
    CHECK(strstr(limic_last_error(), "LIMIC_EAGER_MAX") != NULL);
    CHECK(strstr(limic_last_error(), "much") != NULL);
    settings[0] = "LIMIC_EAGR_MAX=4K";
    GIVES(LIMIC_ERR_SETTINGS, limic_endpoint_open(&options, &none));
    CHECK(strstr(limic_last_error(), "LIMIC_EAGER_MAX") != NULL);
    /* Misspelt in the environment they may be another program's: a warning, which says nothing
     * against the names given here. */
    CHECK(setenv("LIMIC_EAGER_MAXX", "4K", 1) == 0 && setenv("LIMIC_EAGR_MAX", "4K", 1) == 0);
    settings[0] = "LIMIC_EAGER_MAX=1K";
    OK(limic_endpoint_open(&options, &none));
    OK(limic_endpoint_close(none));
    settings[0] = "LIMIC_EAGR_MAX=4K";
    GIVES(LIMIC_ERR_SETTINGS, limic_endpoint_open(&options, &none));
    /* Known, but not looked for here. */
    settings[0] = "LIMIC_BOOTSTRAP=single";
    GIVES(LIMIC_ERR_SETTINGS, limic_world_open(&options, &none));
    CHECK(strstr(limic_last_error(), "LIMIC_BOOTSTRAP is no setting") != NULL);
    settings[0] = "EAGER_MAX";
    GIVES(LIMIC_ERR_SETTINGS, limic_endpoint_open(&options, &none));
    return 0;
}
