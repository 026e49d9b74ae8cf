/* A place for a text between two pages that may not be touched: a byte too far ends the
 * program. Define _GNU_SOURCE before any include. */

#ifndef TESTS_FENCE_H
#define TESTS_FENCE_H

#include "support.h"

#include <sys/mman.h>
#include <unistd.h>

#define FENCED ((size_t)1 << 19) /* room for the longest text */

static char *fenced; /* FENCED bytes with a forbidden page on either side */

static inline int fence_up(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *map = (char *)mmap(NULL, FENCED + 2 * page, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)state;
    if (map == MAP_FAILED) return -1;
    fenced = map + page;
    return mprotect(fenced, FENCED, PROT_READ | PROT_WRITE);
}

/* The bytes, right before the forbidden page. */
static inline ms_str at_end(const void *bytes, size_t len)
{
    char *to = fenced + FENCED - len;
    if (len > FENCED) abort();
    memmove(to, bytes, len);
    return ms_str_n(to, len);
}

/* The bytes, right behind the forbidden page. */
static inline ms_str at_start(const void *bytes, size_t len)
{
    if (len > FENCED) abort();
    memmove(fenced, bytes, len);
    return ms_str_n(fenced, len);
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

#endif /* TESTS_FENCE_H */
