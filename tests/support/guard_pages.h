/* Places a text between two inaccessible pages: access to a byte outside ends the
 * program. Define _GNU_SOURCE before any include. */

#ifndef GUARD_PAGES_H
#define GUARD_PAGES_H

#include "support.h"

#include <sys/mman.h>
#include <unistd.h>

#define GUARDED ((size_t)1 << 19) /* room for the longest text */

/* GUARDED bytes with a forbidden page on either side */
__attribute__((unused)) static char *guarded;

/* Returns room for `size` bytes, up to the next page, between forbidden pages; *size is
 * how many. It is never freed. */
static inline char *guarded_room(size_t *size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *size = (*size + page - 1) / page * page;
    char *map = (char *)mmap(NULL, *size + 2 * page, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) abort();
    if (mprotect(map + page, *size, PROT_READ | PROT_WRITE) != 0) abort();
    return map + page;
}

static inline int guard_pages_up(void **state)
{
    size_t size = GUARDED;
    guarded = guarded_room(&size);
    return 0;
}

/* Copies the bytes to right before the inaccessible page. */
static inline ms_str at_end(const void *bytes, size_t len)
{
    char *to = guarded + GUARDED - len;
    if (len > GUARDED) abort();
    memmove(to, bytes, len);
    return ms_str_n(to, len);
}

/* Copies the bytes to right after the inaccessible page. */
static inline ms_str at_start(const void *bytes, size_t len)
{
    if (len > GUARDED) abort();
    memmove(guarded, bytes, len);
    return ms_str_n(guarded, len);
}

/* Prints a text that made a test fail. */
static inline void show(const char *why, const char *bytes, size_t len)
{
    fprintf(stderr, "%s: ", why);
    for (size_t i = 0; i < len && i < 3000; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c >= 0x20 && c < 0x7f) fputc(c, stderr);
        else fprintf(stderr, "\\x%02x", c);
    }
    fprintf(stderr, " (%lu bytes)\n", (unsigned long)len);
}

#endif /* GUARD_PAGES_H */
