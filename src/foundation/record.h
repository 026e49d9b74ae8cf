
/* ==== [record] one encoded message ===================================================
 * A message is encoded once; the same bytes serve getters, views, images and copies. A
 * record contains its location, agent key and turn, so damage elsewhere never makes it
 * meaningless. It starts at a multiple of 8 and is padded with zeros to one.
 *
 *   header, 40 bytes, integers little-endian
 *   offset size  field
 *      0     4   size of the record: header and body, without padding
 *      4     1   kind, see MS__KINDS
 *      5     1   type number, see MS_TYPES; 0 except in MESSAGE and AMEND
 *      6     1   role number in the low four bits; then three of codec: 0, plain; the
 *                highest is MS_FLAG_UNFINISHED
 *      7     1   flags, MS_FLAG_* below 256
 *      8     8   sequence number
 *     16     8   time, signed, nanoseconds since 1970; MS_TIME_NONE: the message has none
 *     24     4   the highest 32 bits of the hash of its location in this store; 0: a
 *                message on its own
 *     28     4   of a HIDE: last - first, at most 2^32 - 1; of a MESSAGE of a log, see
 *                [file-format]; of a LOCATION, see ms__facts_left; else 0
 *     32     4   body check: CRC32C from byte 40 to the end of the padding; ERASED while
 *                a redaction overwrites the body, which is not checked then. A CRC that
 *                equals ERASED is stored as ERASED + 1
 *     36     4   header check: CRC32C of bytes 0 to 35, continued from a seed
 *
 *   body
 *      0     1   d, size of the directory, this byte included
 *      1   d-1   directory: an entry per field, tags rising. One byte tag: bits 0-4 the
 *                field number of MS_FIELDS, bit 5 set if the value is JSON, bits 6-7 the
 *                size of the length (0: one byte, 1: two, 2: four; 3 is not used); then
 *                the length of the value in bytes
 *      d    ...  the values, in the order of the directory, nothing between
 *
 * The header check covers the body check, so the two checks cover all bytes. A record
 * with a damaged body still has its size, sequence and location hash, so the damage costs
 * one record, and queries of other locations do not report it.
 * The seed (0 for a message on its own; in an image, from its id and the record's offset)
 * makes a record valid only in its own place: the records of an image that is stored
 * inside a message are not valid.
 *
 * Encoding reads each field once to check and measure it (a layout), and copies it once.
 * The first read waits for memory: a third of an append in a profile. A scan within the
 * copy would wait there. Checks and layout take 830 of the 3,730 instructions of an
 * append of 718 bytes (callgrind, build/bench_goals --only arena).
 *
 * Directory entries have no offsets, so that messages stay small: a getter adds up the
 * lengths (3 to 6 entries, a few ns). Interned locations would save 5 to 20 bytes a
 * message, and make every record depend on another one.
 *
 * A record is valid if and only if
 * (RC1) a header and a directory byte are present, and the padded size fits the bytes
 *      that are left;
 * (RC2) the header check matches;
 * (RC3) kind, type and codec are known;
 * (RC4) the body check matches, or is ERASED;
 * (RC5) the directory lies inside the body, tags rise, length sizes are known, and the
 *      lengths add up to exactly the rest of the body.
 *
 * A reader may skip unknown kinds below 128; it must refuse a file with an unknown kind
 * from 128 on.
 *
 * Changes are records of the same form. An AMEND is a complete message with the sequence
 * number and time of the message that it replaces, so views return it as it is. The
 * others have no type, the sequence number of their message (a HIDE: of the first, a
 * LOCATION: 0), the time of the change, LOCATION among their fields, and
 *   HIDE      CONTENT {"first":a,"last":b,"messages":n}: n visible ones of a to b hidden
 *   NOTE      TYPE_NAME the kind of note, CONTENT its value, AGENT_KEY and TURN_ID of the
 *             message
 *   LOCATION  CONTENT an object of facts, null for one that is removed
 *   PART      CONTENT text that continues the message's content, of an ACTION its args
 * ================================================================================== */

#define MS__HEADER 40u
#define MS__AT_WHERE 24u
#define MS__AT_BY_KIND 28u /* what it holds depends on the kind */
#define MS__CLUSTER_SEQ UINT32_MAX /* numbers of clustered messages are below it */
#define MS__AT_BODY_CHECK 32u
#define MS__AT_CHECK 36u /* the last of the header: it covers what is before it */
#define MS__TAG_JSON 0x20u
#define MS__UNFINISHED 0x80u /* in byte 6 */
#define MS__ERASED 0x44455241u /* a body check: "ARED" */
#define MS__RECORD_MAX ((uint64_t)256 << 20) /* bytes */

#define MS__KINDS(X)                                                      \
    X(1, MESSAGE, "message")                                              \
    X(2, INDEX, "index")        /* index of the records before it */   \
    X(3, AMEND, "amend")        /* replaces an earlier message */         \
    X(4, HIDE, "hide")          /* removes messages from the views */     \
    X(5, NOTE, "note")          /* attached to a message */               \
    X(6, LOCATION, "location")  /* facts about a location, last wins */   \
    X(7, BLOB, "blob")          /* reserved, not written */               \
    X(8, LOST, "lost")          /* bytes that were durable are missing */ \
    X(9, GAP, "gap")            /* messages that a copy left out */       \
    X(10, PART, "part")         /* text of a message being written */

enum {
#define MS__X(number, name, word) MS__KIND_##name = number,
    MS__KINDS(MS__X)
#undef MS__X
    MS__KIND_COUNT
};

static const char *const ms__kind_words[MS__KIND_COUNT] = {
    "none",
#define MS__X(number, name, word) word,
    MS__KINDS(MS__X)
#undef MS__X
};

/* One value to be encoded into a record. */
typedef struct ms__part {
    ms_str text; /* as given */
    uint32_t len; /* as stored, after repair */
    uint32_t tag; /* with the field */
} ms__part;

typedef struct ms__layout {
    uint64_t values;   /* bytes */
    uint32_t repaired; /* fields, by bit */
    uint32_t dir;  /* bytes of directory */
    uint32_t size; /* of the record without padding */
    uint32_t n_parts;
    ms__part *parts; /* fields rising; room for all; NULL: only sizes are computed */
} ms__layout;

#define MS__NAME_FIELDS                                                            \
    (1u << MS_F_LOCATION | 1u << MS_F_AGENT_KEY | 1u << MS_F_TURN_ID | 1u << MS_F_KEY)

/* Returns whether the text of a part is not UTF-8, and is stored repaired. */
static bool ms__is_repaired(const ms__layout *l, const ms__part *part)
{
    return l->repaired != 0 && (l->repaired >> (part->tag & 31) & 1);
}

static ms_result ms__size_check(uint64_t size, uint64_t limit, ms_error *err)
{
    if (size <= limit) return MS_OK;
    return ms__fail(err, MS_E_TOO_LARGE, "the message takes %u bytes, the limit is %u",
                    size, limit);
}

static ms_result ms__layout_end(ms__layout *l, ms_error *err)
{
    MS__TRY(ms__size_check(MS__HEADER + l->dir + l->values, MS__RECORD_MAX, err));
    l->size = MS__HEADER + l->dir + (uint32_t)l->values;
    return MS_OK;
}

/* The checks that a message has passed: none; those of an append; UTF-8 of all text,
 * too. */
typedef enum ms__known { MS__UNKNOWN, MS__CHECKED, MS__VALID } ms__known;

/* Checks a field; *plain: its text is known to be ASCII. */
static ms_result ms__measure_field(const ms_envelope *m, unsigned field, ms_str text,
                                   bool json, bool *plain, ms_error *err)
{
    bool name = MS__NAME_FIELDS >> field & 1;
    *plain = name && ms__is_plain_name(text);
    if (json || text.len > MS__VALUE_MAX) MS__TRY(ms__field_check(m, field, err));
    if (!name || (*plain && text.len > 0)) return MS_OK;
    return ms__key_check(text, ms__fields[field].name, field == MS_F_TURN_ID, err);
}

/* Computes the layout of a message's record, reads each field once, and makes the checks
 * that it has not passed yet. location, if not empty, replaces m's own. */
static ms_result ms__layout_of(const ms_envelope *m, ms_str location, ms__known known,
                               ms__layout *l, ms_error *err)
{
    bool given = !ms__is_empty(location);
    uint64_t values = 0;
    uint32_t dir = 1, repaired = 0, n = 0;
    if (known == MS__UNKNOWN) MS__TRY(ms__envelope_head_check(m, err));
    bool same = m->location.ptr == location.ptr && m->location.len == location.len;
    if (known == MS__UNKNOWN && given && !same)
        MS__TRY(ms__key_check(m->location, "location", false, err));
    uint32_t set = ms__fields_of(m) | (given ? (uint32_t)1 << MS_F_LOCATION : 0u);
    for (uint32_t left = set; left; left &= left - 1, n++) {
        unsigned f = ms__lowest(left);
        bool json = ms__field_is_json(m, f), valid = known == MS__VALID;
        ms_str text = given && f == MS_F_LOCATION ? location : ms__field_text(m, f);
        if (known == MS__UNKNOWN)
            MS__TRY(ms__measure_field(m, f, text, json, &valid, err));
        uint32_t len = (uint32_t)text.len;
        if (!json && !valid && !ms_utf8_check(text, NULL)) {
            len = (uint32_t)ms__utf8_repair(text, NULL);
            repaired |= (uint32_t)1 << f;
        }
        unsigned code = len < 256 ? 0 : len < 65536 ? 1 : 2;
        values += len;
        dir += 1 + (1u << code);
        if (!l->parts) continue;
        l->parts[n].text = text;
        l->parts[n].len = len;
        l->parts[n].tag = f | (json ? MS__TAG_JSON : 0u) | code << 6;
    }
    if (known == MS__UNKNOWN) MS__TRY(ms__required_check(m, set, err));
    l->n_parts = n;
    l->repaired = repaired;
    l->values = values;
    l->dir = dir;
    return ms__layout_end(l, err);
}

static MS__ONCE ms_result ms__envelope_check(const ms_envelope *m, ms_error *err)
{
    ms__layout l;
    l.parts = NULL;
    if (!m) return ms__fail(err, MS_E_ARGUMENT, "the envelope is missing");
    return ms__layout_of(m, ms__absent(), MS__UNKNOWN, &l, err);
}

/* No flag is above bit 15. */
static ms_result ms__flags_check(const ms_envelope *m, ms_error *err)
{
    if (m->flags >> 16 == 0) return MS_OK;
    return ms__unknown_bits(err, "flags", m->flags, 0xFFFF);
}

/* Returns the size of a record with its padding. */
static uint32_t ms__padded(uint32_t size) { return (uint32_t)ms__align8(size); }

static void ms__encode_body(const ms__layout *l, unsigned char *body)
{
    unsigned char *dir = body + 1, *value = body + l->dir;
    ms__put64(body + ms__padded(l->size) - MS__HEADER - 8, 0); /* the padding */
    body[0] = (unsigned char)l->dir;
    for (unsigned i = 0; i < l->n_parts; i++) {
        const ms__part *part = &l->parts[i];
        unsigned code = part->tag >> 6;
        *dir++ = (unsigned char)part->tag;
        *dir++ = (unsigned char)part->len;
        if (code > 0) *dir++ = (unsigned char)(part->len >> 8);
        if (code > 1) *dir++ = (unsigned char)(part->len >> 16);
        if (code > 1) *dir++ = (unsigned char)(part->len >> 24);
        if (ms__is_repaired(l, part)) (void)ms__utf8_repair(part->text, (char *)value);
        else ms__text_copy(value, part->text);
        value += part->len;
    }
}

static void ms__encode_header(const ms_envelope *m, unsigned kind, const ms__layout *l,
                              uint64_t seq, int64_t time, uint32_t flags,
                              unsigned char *r)
{
    ms__put32(r, l->size);
    r[4] = (unsigned char)kind;
    r[5] = (unsigned char)m->type;
    r[6] = (unsigned char)((unsigned)m->role |
                           (flags & MS_FLAG_UNFINISHED ? MS__UNFINISHED : 0u));
    r[7] = (unsigned char)(flags | (l->repaired ? (uint32_t)MS_FLAG_REPAIRED : 0u));
    ms__put64(r + 8, seq);
    ms__put64(r + 16, (uint64_t)time);
    ms__put64(r + MS__AT_WHERE, 0); /* a store sets it, see ms__where_set */
}

static uint32_t ms__body_check(const unsigned char *r)
{
    uint32_t crc =
        ms__crc32c(0, r + MS__HEADER, ms__padded(ms__get32(r)) - MS__HEADER);
    return crc == MS__ERASED ? crc + 1 : crc;
}

static bool ms__is_erased(const unsigned char *r)
{
    return ms__get32(r + MS__AT_BODY_CHECK) == MS__ERASED;
}

/* Sets both checks of a record. */
static void ms__seal(unsigned char *r, uint32_t seed)
{
    ms__put32(r + MS__AT_BODY_CHECK, ms__body_check(r));
    ms__put32(r + MS__AT_CHECK, ms__crc32c(seed, r, MS__AT_CHECK));
}

static bool ms__header_holds(const unsigned char *r, uint32_t seed)
{
    return ms__get32(r + MS__AT_CHECK) == ms__crc32c(seed, r, MS__AT_CHECK);
}

static int64_t ms__time_of(const ms_envelope *m)
{
    return m->has_time ? m->time_ns : MS_TIME_NONE;
}

/* One field of a walk over the directory. */
typedef struct ms__entry {
    unsigned field;
    bool json;
    ms_str text;
} ms__entry;

typedef struct ms__field_iter {
    const unsigned char *dir, *dir_end, *value;
} ms__field_iter;

static ms__field_iter ms__field_iter_of(const unsigned char *r)
{
    ms__field_iter w;
    w.dir = r + MS__HEADER + 1;
    w.value = w.dir_end = r + MS__HEADER + r[MS__HEADER];
    return w;
}

/* Returns the length of the value of a directory entry, and moves to the next entry. */
static inline uint32_t ms__entry_length(const unsigned char **dir)
{
    const unsigned char *at = *dir;
    unsigned code = at[0] >> 6;
    uint32_t len = at[1], two = code > 0;
    len |= (uint32_t)at[1 + two] << 8 * two; /* without a branch, which the processor
                                                guesses wrong: short texts and long
                                                ones take turns */
    if (code > 1) len |= (uint32_t)at[3] << 16 | (uint32_t)at[4] << 24;
    *dir = at + 1 + ((size_t)1 << code);
    return len;
}

static inline bool ms__field_iter_next(ms__field_iter *w, ms__entry *e)
{
    if (w->dir >= w->dir_end) return false;
    unsigned tag = w->dir[0];
    e->field = tag & 31;
    e->json = (tag & MS__TAG_JSON) != 0;
    e->text = ms_str_n((const char *)w->value, ms__entry_length(&w->dir));
    w->value += e->text.len;
    return true;
}

/* Checks RC5; returns the fault, or NULL. */
static const char *ms__body_fault(const unsigned char *body, uint32_t size)
{
    uint32_t dir = body[0];
    uint64_t values = 0;
    unsigned last = 0;
    if (dir < 1 || dir > size) return "its directory is longer than its body";
    for (uint32_t at = 1; at < dir;) {
        unsigned tag = body[at], field = tag & 31, code = tag >> 6;
        uint32_t len = 0;
        if (code > 2) return "a length of unknown size in its directory";
        if (field <= last || field >= MS_FIELD_COUNT)
            return "its fields are not in order";
        if ((1u << code) > dir - at - 1) return "its directory is incomplete";
        for (unsigned i = 0; i < 1u << code; i++)
            len |= (uint32_t)body[at + 1 + i] << 8 * i;
        values += len;
        last = field;
        at += 1 + (1u << code);
    }
    return values == size - dir ? NULL : "its fields do not fill its body";
}

static MS__RARE ms_result ms__damaged(ms_error *err, uint64_t offset, const char *what)
{
    ms_result code = ms__fail(err, MS_E_DAMAGED, "record at %u: %s", offset, what);
    if (err) err->offset = offset;
    return code;
}

/* Checks RC1 and RC2: a record with a valid header at r. offset is for error texts. */
static ms_result ms__check_header(const unsigned char *r, uint64_t left, uint32_t seed,
                                  uint64_t offset, ms_error *err)
{
    if (left < MS__HEADER + 8)
        return ms__damaged(err, offset, "less than a header is left");
    uint32_t size = ms__get32(r);
    if (!ms__header_holds(r, seed))
        return ms__damaged(err, offset, "its header does not match its check");
    if (size <= MS__HEADER || size > MS__RECORD_MAX || ms__padded(size) > left) {
        ms_result code = ms__fail(err, MS_E_DAMAGED, "record at %u: size %u does not fit "
                                  "the %u bytes left", offset, (uint64_t)size, left);
        if (err) err->offset = offset;
        return code;
    }
    return MS_OK;
}

static MS__RARE ms_result ms__foreign(ms_error *err, uint64_t offset,
                                      const unsigned char *r)
{
    return ms__fail(err, MS_E_FOREIGN, "record at %u: kind %u (%s), type %u, codec %u: "
                    "not a message, or of a newer version", offset, (uint64_t)r[4],
                    r[4] < MS__KIND_COUNT ? ms__kind_words[r[4]] : "unknown",
                    (uint64_t)r[5], (uint64_t)(r[6] >> 4 & 7));
}

/* Checks RC4 and RC5 of a record whose header was checked. */
static ms_result ms__check_fields(const unsigned char *r, uint64_t offset, ms_error *err)
{
    uint32_t size = ms__get32(r);
    if (!ms__is_erased(r) && ms__body_check(r) != ms__get32(r + MS__AT_BODY_CHECK))
        return ms__damaged(err, offset, "its body does not match its check");
    const char *fault = ms__body_fault(r + MS__HEADER, size - MS__HEADER);
    return fault ? ms__damaged(err, offset, fault) : MS_OK;
}

/* Returns whether a record is a complete message. An AMEND is one, and a change. */
static bool ms__has_message(const unsigned char *r)
{
    return r[4] == MS__KIND_MESSAGE || r[4] == MS__KIND_AMEND;
}

/* Checks RC3 to RC5 of a message whose header was checked. */
static ms_result ms__check_body(const unsigned char *r, uint64_t offset, ms_error *err)
{
    if (!ms__has_message(r) || r[5] == 0 || r[5] >= MS_TYPE_COUNT || (r[6] & 0x70) != 0)
        return ms__foreign(err, offset, r);
    return ms__check_fields(r, offset, err);
}

/* Returns what a LOCATION has at MS__AT_BY_KIND. MS__FACTS_ALL: it repeats all facts of
 * its location, and changes none. More: units of 8 bytes that the changes of facts may
 * take before they are to be repeated, at least 2. 0: not known. */
#define MS__FACTS_ALL 1u

static MS__UNUSED uint32_t ms__facts_left(const unsigned char *r)
{
    return r[4] == MS__KIND_LOCATION ? ms__get32(r + MS__AT_BY_KIND) : 0;
}

static const unsigned char *ms__bytes(const ms_msg *msg)
{
    return (const unsigned char *)(const void *)msg;
}

static const ms_msg *ms__msg(const unsigned char *r)
{
    return (const ms_msg *)(const void *)r;
}

MS_API ms_type ms_type_of(const ms_msg *msg) { return (ms_type)ms__bytes(msg)[5]; }
MS_API ms_kind ms_kind_of(const ms_msg *msg) { return (ms_kind)ms__bytes(msg)[4]; }

MS_API uint32_t ms_flags(const ms_msg *msg)
{
    const unsigned char *r = ms__bytes(msg);
    return r[7] | (r[6] & MS__UNFINISHED ? (uint32_t)MS_FLAG_UNFINISHED : 0u) |
           (ms__is_erased(r) ? (uint32_t)MS_FLAG_REDACTED : 0u);
}

MS_API uint64_t ms_seq(const ms_msg *msg) { return ms__get64(ms__bytes(msg) + 8); }

MS_API size_t ms_size(const ms_msg *msg)
{
    return ms__padded(ms__get32(ms__bytes(msg)));
}

MS_API bool ms_time(const ms_msg *msg, int64_t *ns)
{
    int64_t t = (int64_t)ms__get64(ms__bytes(msg) + 16);
    if (t == MS_TIME_NONE) return false;
    if (ns) *ns = t;
    return true;
}

MS_API ms_value ms_get(const ms_msg *msg, ms_field field)
{
    const unsigned char *body = ms__bytes(msg) + MS__HEADER, *dir = body + 1;
    const unsigned char *end = body + body[0], *value = end;
    unsigned tag = 0;
    while (dir < end && ((tag = *dir) & 31) < (unsigned)field)
        value += ms__entry_length(&dir);
    ms_value v = ms_text_n(ms__absent());
    if (dir >= end || (tag & 31) != (unsigned)field) return v;
    v.text = ms_str_n((const char *)value, ms__entry_length(&dir));
    v.json = (tag & MS__TAG_JSON) != 0;
    return v;
}

static ms_str ms__location(const ms_msg *msg) { return ms_get(msg, MS_F_LOCATION).text; }
static ms_str ms__agent_key(const ms_msg *msg)
{
    return ms_get(msg, MS_F_AGENT_KEY).text;
}
MS_API ms_value ms_content(const ms_msg *msg) { return ms_get(msg, MS_F_CONTENT); }

MS_API ms_str ms_type_name(const ms_msg *msg)
{
    ms_type type = ms_type_of(msg);
    if (type == MS_T_OTHER) return ms_get(msg, MS_F_TYPE_NAME).text;
    return ms_str_n(ms_type_word(type), ms__type_row_of(type)->length);
}

static ms_role ms__role_of(ms_role role, ms_type type)
{
    return role != MS_ROLE_NONE ? role : (ms_role)ms__type_row_of(type)->role;
}

MS_API ms_role ms_role_of(const ms_msg *msg)
{
    return ms__role_of((ms_role)(ms__bytes(msg)[6] & 15), ms_type_of(msg));
}

MS_API ms_str ms_role_name(const ms_msg *msg)
{
    ms_role role = ms_role_of(msg);
    if (role == MS_ROLE_OTHER) return ms_get(msg, MS_F_ROLE_NAME).text;
    return ms_str_of(ms_role_word(role));
}

MS_API ms_envelope ms_envelope_of(const ms_msg *msg)
{
    const unsigned char *r = ms__bytes(msg);
    ms__field_iter w = ms__field_iter_of(r);
    ms__entry e;
    ms_envelope m;
    memset(&m, 0, sizeof m);
    m.type = ms_type_of(msg);
    m.role = (ms_role)(r[6] & 15);
    m.flags = ms_flags(msg);
    m.has_time = ms_time(msg, &m.time_ns);
    m.seq = ms_seq(msg);
    while (ms__field_iter_next(&w, &e)) ms__field_set(&m, e.field, e.text, e.json);
    return m;
}

MS_API uint32_t ms_fields(const ms_msg *msg, ms_value fields[MS_FIELD_COUNT])
{
    /* by the code of a length: its bits, and the bytes of its directory entry */
    static const uint32_t lengths[] = {0xFF, 0xFFFF, UINT32_MAX, UINT32_MAX};
    static const uint8_t sizes[] = {2, 3, 5, 9};
    const unsigned char *r = ms__bytes(msg), *end = r + ms__padded(ms__get32(r)) - 7;
    ms__field_iter w = ms__field_iter_of(r);
    ms__entry e;
    uint32_t set = 0;
    if (end > w.dir_end) end = w.dir_end;
    while (!MS__SMALL && w.dir < end) { /* where eight bytes can be loaded */
        uint64_t word = ms__get64(w.dir);
        ms_value *v = &fields[word & 31];
        uint32_t len = (uint32_t)(word >> 8) & lengths[word >> 6 & 3];
        set |= (uint32_t)1 << (word & 31);
        v->text = ms_str_n((const char *)w.value, len);
        v->json = (word & MS__TAG_JSON) != 0;
        w.value += len;
        w.dir += sizes[word >> 6 & 3];
    }
    while (ms__field_iter_next(&w, &e)) {
        fields[e.field].text = e.text;
        fields[e.field].json = e.json;
        set |= (uint32_t)1 << e.field;
    }
    return set;
}

/* The flags of a caller's envelope that are stored. */
#define MS__CALLER_FLAGS                                                  \
    ((uint32_t)(MS_FLAG_JOINED | MS_FLAG_STAMPED | MS_FLAG_REPAIRED))

/* The flags that a copy keeps. */
#define MS__COPY_FLAGS                                                    \
    (MS__CALLER_FLAGS |                                                   \
     (uint32_t)(MS_FLAG_AMENDED | MS_FLAG_REDACTED | MS_FLAG_UNFINISHED))

/* Encodes a checked message or change, as a record on its own, into the arena. */
static ms_result ms__encode_loose(const ms_envelope *m, unsigned kind, uint32_t flags,
                                  ms_arena *arena, const ms_msg **out, ms_error *err)
{
    ms__part parts[MS_FIELD_COUNT];
    ms__layout l;
    *out = NULL;
    l.parts = parts;
    MS__TRY(ms__layout_of(m, ms__absent(), MS__CHECKED, &l, err));
    uint32_t padded = ms__padded(l.size);
    unsigned char *r = arena ? (unsigned char *)ms_arena_alloc(arena, padded) : NULL;
    if (!r) return ms__no_arena(err, arena, padded);
    ms__encode_header(m, kind, &l, m->seq, ms__time_of(m), flags, r);
    ms__encode_body(&l, r + MS__HEADER);
    ms__seal(r, 0);
    *out = ms__msg(r);
    return MS_OK;
}

MS_API ms_result ms_encode(const ms_envelope *m, ms_arena *arena, const ms_msg **out,
                           ms_error *err)
{
    *out = NULL;
    MS__TRY(ms__envelope_check(m, err));
    MS__TRY(ms__flags_check(m, err));
    return ms__encode_loose(m, MS__KIND_MESSAGE, m->flags & MS__CALLER_FLAGS, arena, out,
                            err);
}

MS_API ms_result ms_record_encode(const ms_record *record, ms_arena *arena,
                                  const ms_msg **out, ms_error *err)
{
    const ms_envelope *m = &record->envelope;
    return ms__encode_loose(m, (unsigned)record->kind, m->flags, arena, out, err);
}

/* Checks a record of any kind in a store; its header was checked. */
static ms_result ms__check_record(const unsigned char *r, uint64_t offset, ms_error *err)
{
    if (ms__has_message(r)) MS__TRY(ms__check_body(r, offset, err));
    else MS__TRY(ms__check_fields(r, offset, err));
    if (ms__is_empty(ms__location(ms__msg(r))))
        return ms__damaged(err, offset, "it has no location");
    if (!ms__has_message(r) && (r[5] != 0 || (r[6] & 0x70) != 0))
        return ms__damaged(err, offset, "it has a type or a codec");
    if (ms_seq(ms__msg(r)) == UINT64_MAX)
        return ms__damaged(err, offset, "its sequence number is not allowed");
    return MS_OK;
}

/* Without changes, the code that only they need is dead. */
#ifdef MSGSTORE_NO_CHANGES
#define MS__CHANGES 0
#else
#define MS__CHANGES 1
#endif

/* Without the log no store has sealed segments: the code that reads them is dead. */
#ifdef MSGSTORE_NO_LOG
#define MS__LOG 0
#else
#define MS__LOG 1
#endif

/* Returns the kinds of records that a raw query selects; 0: the query is not raw. */
static unsigned ms__raw_of(const ms_query *q)
{
    return MS__CHANGES ? q->raw : 0;
}

/* Returns whether a record refers to messages before it. */
static bool ms__is_change(const unsigned char *r)
{
    return (r[4] >= MS__KIND_AMEND && r[4] <= MS__KIND_LOCATION) ||
           r[4] == MS__KIND_PART;
}

/* ---- Erasing, in three steps, each durable before the next. The first one marks the
 * checks: eight bytes, which lie in one sector. From then on the body is not checked, so
 * the record is valid at every moment. The second one overwrites the body, the third one
 * computes its check again. Names stay, so that the record keeps its place; lengths stay,
 * so that concurrent readers stay inside the record. */

enum { MS__ERASE_MARK, MS__ERASE_BODY, MS__ERASE_DONE, MS__ERASE_STEPS };

#define MS__REDACTED "[redacted]"
#define MS__KEPT_FIELDS                                                                \
    (1u << MS_F_LOCATION | 1u << MS_F_AGENT_KEY | 1u << MS_F_TURN_ID | 1u << MS_F_ID | \
     1u << MS_F_KEY | 1u << MS_F_CALL_ID | 1u << MS_F_TOOL | 1u << MS_F_TYPE_NAME |    \
     1u << MS_F_ROLE_NAME)

static void ms__blank_value(const ms__entry *e)
{
    char *p = (char *)(uintptr_t)e->text.ptr;
    size_t n = e->text.len;
    const char *empty = MS__REDACTED;
    if (n == 0) return;
    if (e->json) empty = *p == '{' ? "{}" : *p == '[' ? "[]" : *p == '"' ? "\"\"" : "0";
    for (size_t i = 0; i < n; i++) p[i] = *empty ? *empty++ : ' ';
}

/* Overwrites the values of a record. */
static void ms__blank(unsigned char *r)
{
    ms__field_iter w = ms__field_iter_of(r);
    ms__entry e;
    while (ms__field_iter_next(&w, &e))
        if (!(MS__KEPT_FIELDS >> e.field & 1)) ms__blank_value(&e);
}

/* Checks a record on its own, which takes all bytes. message: it must be one. */
static ms_result ms__check_alone(const unsigned char *r, size_t size, bool message,
                                 ms_error *err)
{
    MS__TRY(ms__check_header(r, size, 0, 0, err));
    if (message || ms__has_message(r)) MS__TRY(ms__check_body(r, 0, err));
    else MS__TRY(ms__check_fields(r, 0, err));
    uint32_t end = ms__padded(ms__get32(r));
    return end == size ? MS_OK : ms__damaged(err, end, "bytes after the record");
}

MS_API ms_result ms_record_decode(void *bytes, size_t size, uint64_t seq,
                                  const ms_msg **out, ms_error *err)
{
    unsigned char *r = (unsigned char *)bytes;
    *out = NULL;
    MS__TRY(ms__check_alone(r, size, false, err));
    ms__put64(r + 8, seq);
    ms__put32(r + MS__AT_CHECK, ms__crc32c(0, r, MS__AT_CHECK));
    *out = ms__msg(r);
    return MS_OK;
}

MS_API void ms_record_erase(void *bytes)
{
    ms__blank((unsigned char *)bytes);
    ms__seal((unsigned char *)bytes, 0);
}

MS_API ms_result ms_decode(const void *bytes, size_t size, const ms_msg **out,
                           ms_error *err)
{
    const unsigned char *r = (const unsigned char *)bytes;
    *out = NULL;
    if (!r || ((uintptr_t)r & 7) != 0)
        return ms__fail(err, MS_E_ARGUMENT, "the address of a message must be a "
                        "multiple of 8");
    MS__TRY(ms__check_alone(r, size, true, err));
    *out = ms__msg(r);
    return MS_OK;
}
