/* Room between pages that may not be touched: a byte read or written too far ends the
 * program. Define _GNU_SOURCE before any include. */

#ifndef FENCE_H
#define FENCE_H

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* At least `size` bytes, up to the next page; *size is how many. They are never given
 * back. */
static inline char *fenced_room(size_t *size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *size = (*size + page - 1) / page * page;
    char *map = (char *)mmap(NULL, *size + 2 * page, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) abort();
    if (mprotect(map + page, *size, PROT_READ | PROT_WRITE) != 0) abort();
    return map + page;
}

#endif /* FENCE_H */
