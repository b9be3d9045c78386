/* A library with an allocator of its own, which asks after its own blocks alone. */
#include <stddef.h>
#include <unistd.h>

size_t malloc_usable_size(void *block)
{
    static const char text[] = "a block of somebody else\n";
    (void)!write(2, text, sizeof text - 1);
    _exit(block == NULL ? 0 : 9);
}
