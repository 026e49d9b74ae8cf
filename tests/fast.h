/* The functions that test_fast compares, as tables: the implementation is compiled twice
 * (tests/fast_impl.c), with its wide paths and without. */

#ifndef FAST_H
#define FAST_H

#ifndef MSGSTORE_VERSION
#include "../msgstore.h"
#endif

enum { FAST_FINDS = 3 };

/* A function that is not there on this machine, or not in this table, is NULL. */
typedef struct fast {
    const char *name;
    uint32_t (*crc)(uint32_t crc, const unsigned char *p, size_t n);
    uint32_t (*crc_table)(uint32_t crc, const unsigned char *p, size_t n);
    uint32_t (*crc_header)(uint32_t crc, uint64_t number, const unsigned char *r);
    bool (*ascii_few)(const unsigned char *p, size_t n);
    size_t (*ascii_run)(const unsigned char *p, size_t n);
    unsigned (*ascii_16)(const unsigned char *p);
    unsigned (*plain_16)(const unsigned char *p);
    size_t (*plain_run)(const char *p, const char *end);
    bool (*is_plain_name)(ms_str name);
    uint32_t (*name_mark)(ms_str name, uint64_t salt);
    void (*copy_text)(unsigned char *to, const char *from, size_t n);
    bool (*utf8_check)(ms_str text, size_t *bad);
    ms_result (*json_check)(ms_str text, const ms_json_opts *opts, ms_str *value,
                            ms_error *err);
    ms_result (*encode)(const ms_envelope *m, ms_arena *arena, const ms_msg **out,
                        ms_error *err);
    size_t (*find_in)(ms_str text, ms_str needle, bool exact, size_t from);
    /* The ways of searching; each gives the first of so many places, or `places`. */
    size_t (*find[FAST_FINDS])(ms_str needle, bool exact, const char *p, size_t places);
} fast;

/* What the processor has not is left out. */
fast fast_wide(void);
fast fast_plain(void);

#endif /* FAST_H */
