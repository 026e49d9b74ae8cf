/* See near.h. */

#define _GNU_SOURCE
#include "near.h"

enum { LONGEST = 40 };

near_word near_begin(ms_str word)
{
    near_word n = {word, {NULL, 0}, 1 + word.len / 4};
    return n;
}

static size_t least_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns how many characters were left out, added, replaced or exchanged. */
static size_t distance(ms_str a, ms_str b)
{
    size_t rows[3][LONGEST + 1];
    for (size_t k = 0; k <= b.len; k++) rows[0][k] = k;
    for (size_t i = 1; i <= a.len; i++) {
        size_t *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t k = 1; k <= b.len; k++) {
            bool same = a.ptr[i - 1] == b.ptr[k - 1];
            now[k] = least_of(least_of(now[k - 1], last[k]) + 1, last[k - 1] + !same);
            bool exchanged = i > 1 && k > 1 && a.ptr[i - 1] == b.ptr[k - 2] &&
                             a.ptr[i - 2] == b.ptr[k - 1];
            if (exchanged) now[k] = least_of(now[k], before[k - 2] + 1);
        }
    }
    return rows[a.len % 3][b.len];
}

void near_try(near_word *n, ms_str other)
{
    ms_str word = n->word;
    if (word.len < 2 || word.len > LONGEST) return;
    if (other.len < 2 || other.len > LONGEST) return;
    size_t found = distance(word, other);
    if (found > n->least || (found == n->least && n->best.ptr != NULL)) return;
    n->best = other;
    n->least = found;
}

const char *near_text(const near_word *n, char out[128])
{
    out[0] = '\0';
    if (n->best.ptr != NULL) {
        snprintf(out, 128, ", did you mean %.*s?", (int)n->best.len, n->best.ptr);
    }
    return out;
}
