/* How many descriptors the process has: each long block is one of them. */
#include <dirent.h>
#include <stddef.h>

static int open_files(void)
{
    int files = 0;
    DIR *all = opendir("/proc/self/fd");
    while (all != NULL && readdir(all) != NULL)
        files++;
    closedir(all);
    return files;
}
