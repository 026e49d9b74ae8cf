/* The functions that test_fast compares, as tables: the implementation is compiled twice
 * (tests/support/fast_impl.c), with its wide paths and without. */

#ifndef FAST_H
#define FAST_H

#ifndef MSGSTORE_VERSION
#include "msgstore.h"
#endif

/* The functions to compare; NULL: absent on this machine or in this table. */
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
    bool (*utf8_check)(ms_str text, size_t *bad);
    ms_result (*json_check)(ms_str text, const ms_json_opts *opts, ms_str *value,
                            ms_error *err);
    ms_result (*encode)(const ms_envelope *m, ms_arena *arena, const ms_msg **out,
                        ms_error *err);
} fast;

/* Returns the table with wide paths, without those that the processor lacks. */
fast fast_wide(void);
fast fast_plain(void);

#endif /* FAST_H */
