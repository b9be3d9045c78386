/* Long blocks out of short ones, in a program that another allocator is linked to. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *volatile block = malloc(1000);
    if (block == NULL)
        return 1;
    memset(block, 1, 1000);
    block = realloc(block, 100000);
    if (block == NULL || block[0] != 1 || block[999] != 1)
        return 1;
    free(block);
    puts("the block has grown");
    return 0;
}
