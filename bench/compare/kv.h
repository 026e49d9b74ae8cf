/* The parts that the key-value peers share: the binary record and the key.
 *
 * A record is a header of 48 bytes (the time and ten lengths) and the ten columns after
 * it, without gaps; location, agent and type are in it as text, so that a row can be borrowed
 * as it lies in the store. Numbers have the byte order of the machine.
 *
 * A key is 8 bytes: location (16 bits), class (2), agent (6), number (40). So all
 * messages of one stored view stand together, in the order of their numbers. Only the
 * class of the agents' messages distinguishes agents; the other two are views of all
 * agents. Numbers of locations and agents are those of data.h: these peers need no table
 * of names. A message has the number that it has in data.h.
 */

#ifndef BENCH_KV_H
#define BENCH_KV_H

#include "driver.h"

enum {
    KV_HEADER = 48,
    KV_NUMBER_BITS = 40,
    KV_TAIL = 20                 /* rows of VIEW_TAIL */
};

typedef struct kv_header {
    int64_t time_ns;
    uint32_t len[COLUMNS];       /* bytes */
} kv_header;

typedef char kv_header_is_48_bytes[sizeof(kv_header) == KV_HEADER ? 1 : -1];

/* Returns the bytes of a row as a record. */
static inline size_t kv_size(const bench_row *row)
{
    size_t size = KV_HEADER;
    for (int i = 0; i < COLUMNS; i++) size += row->column[i].len;
    return size;
}

/* Writes kv_size bytes. */
static inline void kv_write(void *out, const bench_row *row)
{
    char *p = (char *)out + KV_HEADER;
    kv_header header;
    header.time_ns = row->time_ns;
    for (int i = 0; i < COLUMNS; i++) {
        size_t len = row->column[i].len;
        header.len[i] = (uint32_t)len;
        if (len == 0) continue;
        memcpy(p, row->column[i].ptr, len);
        p += len;
    }
    memcpy(out, &header, sizeof header);
}

/* Passes a record to the reader; the columns point into the record. */
static inline void kv_take(bench_reader *reader, const void *record, size_t size)
{
    const char *p = (const char *)record;
    kv_header header;
    bench_row row;
    size_t at = KV_HEADER;
    if (size < KV_HEADER) bench_die("record", "shorter than its header");
    memcpy(&header, record, sizeof header);
    row.time_ns = header.time_ns;
    for (int i = 0; i < COLUMNS; i++) {
        row.column[i] = ms_str_n(p + at, header.len[i]);
        at += header.len[i];
    }
    if (at != size) bench_die("record", "its lengths do not add up");
    bench_take(reader, &row);
}

/* Returns the smallest key of a stored view. */
static inline uint64_t kv_view(int class_, size_t location, size_t agent)
{
    uint64_t place = (uint64_t)location << 8 | (uint64_t)class_ << 6;
    if (class_ == CLASS_AGENT) place |= (uint64_t)agent;
    return place << KV_NUMBER_BITS;
}

static inline uint64_t kv_view_of(const bench_item *item)
{
    return kv_view(bench_class(item), item->location, item->agent);
}

static inline uint64_t kv_number(uint64_t key)
{
    return key & ((UINT64_C(1) << KV_NUMBER_BITS) - 1);
}

/* Returns the greatest key of the view that the key is in. */
static inline uint64_t kv_last(uint64_t key)
{
    return key | ((UINT64_C(1) << KV_NUMBER_BITS) - 1);
}

/* Returns which of `count` iterators has the smallest number; count if all are
 * UINT64_MAX. */
static inline int kv_first_of(const uint64_t *heads, int count)
{
    int first = 0;
    for (int i = 1; i < count; i++)
        if (heads[i] < heads[first]) first = i;
    return heads[first] == UINT64_MAX ? count : first;
}

#endif /* BENCH_KV_H */
