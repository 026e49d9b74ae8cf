/* The bytes of log files, by the words of [file-format] and [record] alone: a walk that
 * asserts what the essays promise of records, of the state in a segment index and of the
 * end, and a builder of files.
 *
 *     walk w = walk_of(bytes, size, false);         fails the test where a byte is wrong
 *     assert_int_equal(w.messages, 3);
 *     walk_free(&w);
 *
 *     static built b;
 *     built_begin(&b);
 *     built_text(&b, MS_FLAG_COMMIT, 1, "one");     sequence number 1
 *     test_store s = built_store(&b);
 */

#ifndef LOG_BYTES_H
#define LOG_BYTES_H

#include "file_format.h"
#include "open_logs.h"

enum { KIND_GAP = 9, FAN = 32 };

static const unsigned char log_magic[] = {0x89, 'M', 'S', 'L', 13, 10, 26, 10};

/* One record, its fields found. */
typedef struct parsed {
    uint64_t offset, seq;
    int64_t time;
    uint32_t size, padded;
    unsigned kind, type, role, flags;
    uint32_t cluster;                     /* of a MESSAGE: its segment, plus one */
    ms_value field[MS_FIELD_COUNT];
} parsed;

/* A segment index; of a summary the offset alone. */
typedef struct node {
    uint64_t offset, first_seq, last_seq, messages, bytes;
    int64_t first_time, last_time;        /* first > last: none */
} node;

typedef struct nodes {
    node *items;
    size_t n;
} nodes;

typedef struct walk {
    const unsigned char *bytes;
    uint64_t size, end;
    uint64_t dead_end;                    /* after the last eight that are not zero */
    const unsigned char *id;
    parsed *records;                      /* messages and GAPs */
    size_t n_records, cap;
    size_t segment_first;                 /* the first record of the segment */
    uint64_t segment_begin;
    uint64_t messages, message_bytes, last_seq, last_gap;
    uint32_t cluster;                     /* of the last message; in a clustered segment */
    uint64_t floor;                       /* the largest number before that */
    uint64_t damaged, damaged_bytes;      /* that LOST records report */
    uint32_t damaged_ranges;              /* of them in the segment */
    nodes segments, summaries;
    uint64_t newest_segment;
} walk;

#define SOUND(condition)                                                      \
    do {                                                                      \
        if (!(condition))                                                     \
            fail_msg("record at %llu: not so: %s", (unsigned long long)at,    \
                     #condition);                                             \
    } while (0)


/* ---- records ---- */

/* The directory of a body and its values. */
static inline void parse_fields(parsed *p, const unsigned char *record)
{
    const unsigned char *body = record + FILE_HEADER, *value = body + body[0];
    uint64_t at = p->offset;
    size_t i = 1, last = 0;
    SOUND(p->size >= 33 && body[0] >= 1 && FILE_HEADER + body[0] <= p->size);
    while (i < body[0]) {
        unsigned tag = body[i] & 31u, wide = 1u << (body[i] >> 6);
        SOUND(tag > last && tag < MS_FIELD_COUNT && wide <= 4 && i + wide < body[0]);
        size_t len = (size_t)file_get(body + i + 1, wide);
        SOUND(value + len <= record + p->size);
        p->field[tag].text = ms_str_n((const char *)value, len);
        p->field[tag].json = (body[i] & 32) != 0;
        value += len;
        i += 1 + wide;
        last = tag;
    }
    SOUND(i == body[0] && value == record + p->size);
}

/* The header at an offset, its check and its body's. */
static inline parsed parse_record(const walk *w, uint64_t at)
{
    const unsigned char *r = w->bytes + at;
    parsed p;
    memset(&p, 0, sizeof p);
    SOUND(at % 8 == 0 && at + FILE_HEADER <= w->end);
    p.offset = at;
    p.size = file_get32(r);
    p.padded = (uint32_t)file_padded(p.size);
    p.kind = r[4];
    p.type = r[5];
    p.role = r[6] & 15;
    p.flags = r[7];
    p.seq = file_get64(r + 8);
    p.time = (int64_t)file_get64(r + 16);
    p.cluster = p.kind == FILE_KIND_MESSAGE ? file_get32(r + 28) : 0;
    SOUND(p.size > FILE_HEADER && at + p.padded <= w->end && r[6] >> 4 == 0);
    SOUND(file_get32(r + FILE_AT_BODY_CHECK) ==
          file_crc(0, r + FILE_HEADER, p.padded - FILE_HEADER));
    for (uint32_t i = p.size; i < p.padded; i++) SOUND(r[i] == 0);
    SOUND(file_get32(r + FILE_AT_CHECK) == file_check(w->id, at, r));
    return p;
}

/* Is there a record at an offset, whole and with both checks? */
static inline bool is_record(const walk *w, uint64_t at)
{
    const unsigned char *r = w->bytes + at;
    if (at + 40 > w->size) return false;
    uint64_t size = file_get32(r), padded = file_padded(size);
    return size > FILE_HEADER && padded <= w->size - at && r[4] != 0 &&
           file_get32(r + FILE_AT_CHECK) == file_check(w->id, at, r) &&
           file_get32(r + FILE_AT_BODY_CHECK) ==
               file_crc(0, r + FILE_HEADER, (size_t)padded - FILE_HEADER);
}


/* ---- index records ---- */

static inline void nodes_add(nodes *l, const node *n)
{
    l->items = (node *)twin_memory(l->items, (l->n + 1) * sizeof l->items[0]);
    l->items[l->n++] = *n;
}

/* The figures of a segment, counted from its records. */
static inline node count_segment(const walk *w, uint64_t at)
{
    node segment = {.offset = at, .first_time = INT64_MAX, .last_time = INT64_MIN};
    for (size_t i = w->segment_first; i < w->n_records; i++) {
        const parsed *one = &w->records[i];
        if (one->kind != FILE_KIND_MESSAGE) continue;
        if (segment.messages++ == 0 || one->seq < segment.first_seq)
            segment.first_seq = one->seq;
        if (one->seq > segment.last_seq) segment.last_seq = one->seq;
        segment.bytes += one->padded;
        if (one->time == INT64_MIN) continue;
        if (one->time < segment.first_time) segment.first_time = one->time;
        if (one->time > segment.last_time) segment.last_time = one->time;
    }
    return segment;
}

/* The offsets of n segment indexes or summaries. */
static inline void must_list(uint64_t at, const nodes *l, size_t first, size_t n,
                             const unsigned char *p)
{
    for (size_t i = first; i < first + n; i++, p += 8)
        SOUND(file_get64(p) == l->items[i].offset);
}

/* What opening starts from, in the fixed part of a segment index. */
static inline void must_state(const walk *w, uint64_t at, const unsigned char *r)
{
    size_t sums = w->summaries.n, before = w->segments.n - 1, listed = file_get32(r + 104);
    SOUND(file_get64(r + 40) == w->damaged_bytes && file_get32(r + 108) == w->damaged);
    SOUND(file_get64(r + 48) == (sums ? w->summaries.items[sums - 1].offset : 0));
    SOUND(file_get32(r + 56) == sums && file_get32(r + 60) == 0);
    SOUND(file_get64(r + 64) == 0 && file_get64(r + 72) == 0);
    SOUND(file_get64(r + 80) == w->messages && file_get64(r + 88) == w->message_bytes);
    SOUND(file_get64(r + 96) == w->last_seq && file_get64(r + 112) == w->last_gap);
    SOUND(file_get64(r + 120) == 0 && file_get64(r + 128) == 0); /* changes, hidden */
    SOUND(file_get32(r + 212) <= 1 && file_get32(r + 224) == w->damaged_ranges);
    /* what was lost may have been a change of any location */
    SOUND(file_get32(r + 228) == (w->damaged > 0 ? UINT32_MAX : 0));
    SOUND(listed == (before < FAN ? before : FAN));
    must_list(at, &w->segments, before - listed, listed, r + FILE_SEGMENT_FIXED);
}

/* The figures of a segment. */
static inline void must_sum(uint64_t at, const node *n, const unsigned char *r)
{
    SOUND(file_get64(r + 152) == n->first_seq && file_get64(r + 160) == n->last_seq);
    SOUND((int64_t)file_get64(r + 168) == n->first_time);
    SOUND((int64_t)file_get64(r + 176) == n->last_time);
    SOUND(file_get64(r + 184) == n->messages && file_get64(r + 192) == n->bytes);
}

/* Numbers and order of a clustered segment: how its messages follow each other by
 * number. */
static inline void must_order(const walk *w, uint64_t at, const unsigned char *r)
{
    const size_t n = file_get32(r + 140);
    const uint64_t lists = file_get32(r + 200), postings = file_get32(r + 204);
    const uint64_t room = lists * 8 + n * 12 + (lists + 1) * 4 +
                          ((UINT64_C(1) << file_get32(r + 216)) + 1) * 4 +
                          postings * file_get32(r + 220);
    const unsigned char *number = r + FILE_SEGMENT_FIXED + file_get32(r + 104) * 8 +
                                file_get32(r + 208) * 24 +
                                ((room + 4095) / 4096 + 1) * 4 + lists * 8 + n * 4;
    const parsed *records = w->records + w->segment_first;
    uint64_t last = 0;
    SOUND(file_get32(r) == (uint64_t)(number - r) - n * 4 - lists * 8 + room);
    for (size_t k = 0; k < n; k++) {
        uint32_t i = file_get32(number + (n + k) * 4);
        SOUND(i < n && file_get32(number + i * 4) == (uint32_t)records[i].seq);
        SOUND(records[i].seq >> 32 == records[0].seq >> 32);
        SOUND(records[i].cluster == w->segments.n && records[i].seq > last);
        last = records[i].seq;
    }
}

/* A segment index against the records before it. Of its other arrays, as of the summaries and
 * filters, the kept files have every byte (test_file_format). */
static inline void parse_segment(walk *w, const parsed *p)
{
    const unsigned char *r = w->bytes + p->offset;
    uint64_t at = p->offset;
    node segment = count_segment(w, at);
    SOUND(file_get32(r + 136) == w->segments.n);
    SOUND(file_get32(r + 140) == w->n_records - w->segment_first);
    SOUND(file_get64(r + 144) == w->segment_begin);
    must_sum(at, &segment, r);
    nodes_add(&w->segments, &segment);
    must_state(w, at, r);
    SOUND((file_get32(r + 212) == 1) == (w->records[w->segment_first].cluster != 0));
    if (file_get32(r + 212) == 1) must_order(w, at, r);
    w->newest_segment = at;
    w->damaged_ranges = 0;
    w->segment_first = w->n_records;
    w->segment_begin = at + p->padded;
}

static inline void parse_summary(walk *w, const parsed *p)
{
    node sum = {.offset = p->offset};
    nodes_add(&w->summaries, &sum);
}


/* The location hash of a message; nothing else is in its place. A clustered message has
 * the number of its segment, plus one; else nothing is in the place of a reach. */
static inline void parse_where(const walk *w, const parsed *p)
{
    uint64_t at = p->offset, key[2] = {file_get64(w->id), file_get64(w->id + 8)};
    ms_str name = p->field[MS_F_LOCATION].text;
    uint64_t hash = file_hash(key, 0, name.ptr, name.len);
    bool none = p->kind != FILE_KIND_MESSAGE;
    SOUND(file_get32(w->bytes + at + 24) == (none ? 0 : (uint32_t)(hash >> 32)));
    SOUND(file_get32(w->bytes + at + 28) == p->cluster);
    SOUND(p->cluster == 0 || p->cluster == w->segments.n + 1);
}

/* ---- a whole file ---- */

static inline void parse_lost(walk *w, const parsed *p)
{
    const unsigned char *r = w->bytes + p->offset;
    uint64_t at = p->offset, end = file_get64(r + FILE_HEADER);
    SOUND(p->size == FILE_LOST_SIZE && p->type == 0 && p->role == 0 && p->flags == MS_FLAG_COMMIT);
    SOUND(p->time == INT64_MIN && end > at && file_get64(r + FILE_HEADER + 8) == 0);
    w->damaged++;
    w->damaged_bytes += end - at;
    w->damaged_ranges++;
    if (p->seq > w->last_seq) w->last_seq = p->seq; /* of what is missing */
}

static inline void parse_index(walk *w, const parsed *p)
{
    uint64_t at = p->offset;
    SOUND(p->type >= FILE_INDEX_SEGMENT && p->type <= FILE_INDEX_SUMMARY);
    SOUND(p->time == INT64_MIN && p->seq == w->last_seq);
    SOUND((p->flags & MS_FLAG_COMMIT) != 0);
    if (p->type == FILE_INDEX_SEGMENT) parse_segment(w, p);
    if (p->type == FILE_INDEX_SUMMARY) parse_summary(w, p);
}

static inline void parse_one(walk *w, uint64_t *next)
{
    parsed p = parse_record(w, *next);
    uint64_t at = p.offset;
    *next += p.padded;
    if (p.kind == FILE_KIND_LOST) {
        parse_lost(w, &p);
        return;
    }
    if (p.kind == FILE_KIND_INDEX) {
        parse_index(w, &p);
        return;
    }
    SOUND(p.kind == FILE_KIND_MESSAGE || p.kind == KIND_GAP);
    parse_fields(&p, w->bytes + at);
    parse_where(w, &p);
    if (p.kind == FILE_KIND_MESSAGE) {
        if (p.cluster != w->cluster) w->floor = w->last_seq;
        w->cluster = p.cluster;
        SOUND(p.seq > (p.cluster != 0 ? w->floor : w->last_seq));
        if (p.seq > w->last_seq) w->last_seq = p.seq;
        w->messages++;
        w->message_bytes += p.padded;
    }
    if (p.kind == KIND_GAP && p.seq > w->last_gap) w->last_gap = p.seq;
    if (w->n_records == w->cap) {
        w->cap = w->cap != 0 ? 2 * w->cap : 64;
        w->records = (parsed *)twin_memory(w->records, w->cap * sizeof w->records[0]);
    }
    w->records[w->n_records++] = p;
}

/* The superblock; bytes that the essay does not name are zero. */
static inline void parse_super(walk *w)
{
    static const size_t unnamed[][2] = {
        {76, 1024},   {1032, 1088}, {1104, 1152}, {1192, 1200}, {1216, 1224},
        {1228, 1232}, {1240, 2048}, {2092, 2560}, {2604, 4096}, {4172, 8192}};
    const unsigned char *h = w->bytes;
    uint64_t at = 0;
    SOUND(w->size >= FILE_SUPERBLOCK && memcmp(h, log_magic, 8) == 0);
    SOUND(file_get32(h + 8) == FILE_VERSION && file_get32(h + 12) == FILE_SUPERBLOCK);
    SOUND(file_get64(h + 16) == 0 && file_get32(h + 48) == 1);
    SOUND(file_get32(h + 52) == file_crc(0, h, 52));
    SOUND(file_get32(h + 72) == 0 ? file_get64(h + 56) == 0 && file_get64(h + 64) == 0
                                  : file_get32(h + 72) == file_crc(0, h + 56, 16));
    SOUND(memcmp(h, h + FILE_SUPERBLOCK_COPY, 76) == 0);
    for (size_t i = 0; i < sizeof unnamed / sizeof unnamed[0]; i++)
        for (at = unnamed[i][0]; at < unnamed[i][1]; at++) SOUND(h[at] == 0);
    w->id = h + 24;
}

static inline uint64_t dead_end(const walk *w)
{
    uint64_t at = w->size;
    while (at > w->end && w->bytes[at - 1] == 0) at--;
    return file_padded((size_t)at);
}

/* Where the watermark shows the end, with a writer's line and nothing but room after it. */
static inline void parse_mark(walk *w)
{
    const unsigned char *h = w->bytes;
    uint64_t at = FILE_AT_WATERMARK, busy = file_get64(h + 1208);
    w->end = file_get64(h + FILE_AT_WATERMARK);
    SOUND(w->end >= FILE_SUPERBLOCK && w->end <= w->size && w->end % 8 == 0);
    w->dead_end = dead_end(w);
    SOUND(w->dead_end == w->end);
    SOUND(busy == UINT64_MAX || busy <= w->end);
    SOUND(file_get32(h + 1224) <= 1 && file_get64(h + FILE_AT_UNCONFIRMED) == 0);
    if (w->end == FILE_SUPERBLOCK) return;
    SOUND(file_get32(h + 1184) > 0);
    SOUND(file_get32(h + 1188) == file_crc(0, h + FILE_AT_WRITER, 36));
}

/* A checkpoint; generation 0: there is none. */
typedef struct checkpoint {
    uint64_t generation, end, seq, segment;
} checkpoint;

/* The newest valid one. */
static inline checkpoint newest_checkpoint(const walk *w)
{
    checkpoint best;
    memset(&best, 0, sizeof best);
    for (uint64_t i = 0; i < 2; i++) {
        const unsigned char *p = w->bytes + FILE_AT_CHECKPOINTS +
                                      FILE_CHECKPOINT_STEP * i;
        uint64_t generation = file_get64(p);
        if (file_get32(p + 40) != file_crc(0, p, 40) || generation <= best.generation)
            continue;
        assert_int_equal(file_get64(p + 32), 0);
        assert_int_equal(generation % 2, i);
        best.generation = generation;
        best.end = file_get64(p + 8);
        best.seq = file_get64(p + 16);
        best.segment = file_get64(p + 24);
    }
    return best;
}

/* (FF5): finds the end after a restart, in a file without damage: after the last COMMIT
 * before the first byte that begins no record. */
static inline void parse_end(walk *w)
{
    uint64_t at = FILE_SUPERBLOCK;
    w->end = FILE_SUPERBLOCK;
    while (is_record(w, at)) {
        const unsigned char *r = w->bytes + at;
        at += file_padded(file_get32(r));
        if (r[7] & MS_FLAG_COMMIT) w->end = at;
    }
    SOUND(newest_checkpoint(w).end <= w->end);
    for (at += 8; at + FILE_HEADER + 8 <= w->size; at += 8)
        SOUND(!is_record(w, at) || (w->bytes[at + 7] & MS_FLAG_SYNCED) == 0);
    w->dead_end = dead_end(w);
}

/* Walks a file from the first record to the end. torn: its machine was restarted, and dead
 * bytes may follow. */
static inline walk walk_of(const char *bytes, size_t size, bool torn)
{
    walk w = {.bytes = (const unsigned char *)bytes, .size = size};
    parse_super(&w);
    if (torn) parse_end(&w);
    else parse_mark(&w);
    w.segment_begin = FILE_SUPERBLOCK;
    for (uint64_t at = FILE_SUPERBLOCK; at < w.end;) parse_one(&w, &at);
    if (!torn) assert_int_equal(file_get64(w.bytes + 1088), w.newest_segment);
    return w;
}

static inline void walk_free(walk *w)
{
    free(w->segments.items);
    free(w->summaries.items);
    free(w->records);
}

static inline int parsed_order(const void *a, const void *b)
{
    const parsed *x = (const parsed *)a, *y = (const parsed *)b;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* The messages of a walk are those of the twin, field for field. */
static inline void walk_must_equal(const walk *w, const twin *t)
{
    size_t n = 0, size = w->n_records * sizeof(parsed);
    parsed *sorted = (parsed *)twin_memory(NULL, size + 1);
    if (size > 0) memcpy(sorted, w->records, size);
    qsort(sorted, w->n_records, sizeof *sorted, parsed_order);
    for (size_t i = 0; i < w->n_records; i++) {
        const parsed *p = &sorted[i];
        if (p->kind != FILE_KIND_MESSAGE) continue;
        assert_true(n < t->count);
        const twin_msg *want = t->items[n++];
        assert_int_equal(p->seq, want->seq);
        assert_int_equal(p->type, want->type);
        assert_true(p->role == want->role || p->role == 0);
        assert_int_equal(p->flags & TWIN_FLAGS, want->flags);
        if (want->last) assert_true((p->flags & MS_FLAG_COMMIT) != 0);
        if (want->inside) assert_true((p->flags & MS_FLAG_COMMIT) == 0);
        assert_int_equal(p->time != INT64_MIN, want->has_time);
        if (want->has_time) assert_true(p->time == want->time_ns);
        for (int f = 1; f < MS_FIELD_COUNT; f++)
            if (!twin_value_equal(p->field[f], want->field[f]))
                fail_msg("message %llu: %s", (unsigned long long)p->seq,
                         twin_field_name(f));
    }
    assert_int_equal(n, t->count);
    free(sorted);
}


/* ---- files built by hand ---- */

typedef struct built {
    unsigned char bytes[65536];
    size_t len;
} built;

/* A superblock that no machine trusts. */
static inline void built_begin(built *b)
{
    memset(b, 0, sizeof *b);
    b->len = FILE_SUPERBLOCK;
    memcpy(b->bytes, log_magic, 8);
    file_put32(b->bytes + 8, FILE_VERSION);
    file_put32(b->bytes + 12, FILE_SUPERBLOCK);
    memcpy(b->bytes + 24, "an id of 16 byte", 16);
    file_put64(b->bytes + 40, (uint64_t)SECONDS(1700000000));
    file_put32(b->bytes + 48, 1);
    file_put32(b->bytes + 52, file_crc(0, b->bytes, 52));
    memcpy(b->bytes + FILE_SUPERBLOCK_COPY, b->bytes, 76);
    file_put64(b->bytes + FILE_AT_WATERMARK, FILE_SUPERBLOCK);
}

/* Sets the watermark to the end of what was built. */
static inline void built_mark(built *b)
{
    file_put64(b->bytes + FILE_AT_WATERMARK, b->len);
}

/* Header and checks over a body that stands there already. */
static inline void built_record(built *b, unsigned kind, unsigned type, unsigned flags,
                                uint64_t seq, int64_t time, size_t body)
{
    unsigned char *r = b->bytes + b->len;
    file_put32(r, (uint32_t)(FILE_HEADER + body));
    r[4] = (unsigned char)kind;
    r[5] = (unsigned char)type;
    r[6] = 0;
    r[7] = (unsigned char)flags;
    file_put64(r + 8, seq);
    file_put64(r + 16, (uint64_t)time);
    file_seal(b->bytes + 24, b->len, r);
    b->len += file_padded(FILE_HEADER + body);
}

/* A message of up to three fields; an absent text leaves its field out. MS_T_NONE: a GAP. */
static inline void built_message(built *b, ms_type type, unsigned flags, uint64_t seq,
                                 int64_t time, const char *location, const char *agent,
                                 ms_value content)
{
    const unsigned tags[] = {MS_F_LOCATION, MS_F_AGENT_KEY, MS_F_CONTENT};
    const ms_str texts[] = {ms_str_of(location), ms_str_of(agent), content.text};
    unsigned char *body = b->bytes + b->len + FILE_HEADER;
    size_t size = 1;
    memset(body, 0, 512);
    for (size_t i = 0; i < 3; i++) {
        if (texts[i].ptr == NULL) continue;
        body[size++] = (unsigned char)(tags[i] | (i == 2 && content.json ? 32 : 0));
        body[size++] = (unsigned char)texts[i].len;
    }
    body[0] = (unsigned char)size;
    for (size_t i = 0; i < 3; i++) {
        if (texts[i].ptr == NULL) continue;
        memcpy(body + size, texts[i].ptr, texts[i].len);
        size += texts[i].len;
    }
    unsigned kind = type == MS_T_NONE ? (unsigned)KIND_GAP : FILE_KIND_MESSAGE;
    built_record(b, kind, (unsigned)type, flags, seq, time, size);
}

static inline void built_text(built *b, unsigned flags, uint64_t seq, const char *text)
{
    built_message(b, MS_T_FINAL, flags, seq, 1, "job", NULL, ms_text(text));
}

static inline test_store built_store(const built *b)
{
    test_store s = log_at(4096, MS_ENGINE_AUTO);
    file_replace(&s, b->bytes, b->len);
    s.log.mode = MS_LOG_READ;
    s.log.events.event = NULL;
    return s;
}

#endif /* LOG_BYTES_H */
