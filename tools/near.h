/* The word that was meant: the nearest of a list to one with a slip of typing. */

#ifndef NEAR_H
#define NEAR_H

#include "base.h"

typedef struct near_word {
    ms_str word;
    ms_str best;              /* absent: none is near enough */
    size_t least;             /* its distance, in characters */
} near_word;

near_word near_begin(ms_str word);
/* Compares one more word of the list. */
void near_try(near_word *n, ms_str other);
/* Writes ", did you mean WORD?", or nothing. */
const char *near_text(const near_word *n, char out[128]);

#endif /* NEAR_H */
