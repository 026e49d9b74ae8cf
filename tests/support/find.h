/* The search of the library in one value, for programs that take in the implementation. */

#ifndef FIND_H
#define FIND_H

/* Returns the first match in a value at byte `from` or later, or SIZE_MAX. */
static inline size_t find_in_value(ms_value value, ms_str needle, bool exact, size_t from,
                                   size_t *length)
{
    ms__needle n;
    size_t at = SIZE_MAX, len = 0;
    if (needle.len > 0) {
        ms__needle_make(&n, needle, exact);
        at = ms__find_value(&n, value.text, value.json, from, &len);
    }
    if (length != NULL) *length = at == SIZE_MAX ? 0 : len;
    return at;
}

#endif /* FIND_H */
