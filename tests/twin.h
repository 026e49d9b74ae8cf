/* A naive twin of a store, to compare with: an array of deep copies, searched from one
 * end to the other. It is written from the words of the public interface and knows
 * nothing of how a store does it. What a store may choose freely (its sequence numbers,
 * the size of a record) the twin is told, and checks that it keeps the rules.
 */

#ifndef TWIN_H
#define TWIN_H

#include "support.h"

#include <math.h>

typedef struct twin_msg {
    uint64_t seq;
    ms_type type;
    ms_role given;        /* as the envelope had it */
    ms_role role;         /* as getters tell it, never NONE */
    uint32_t flags;       /* those of TWIN_FLAGS */
    bool last, inside;    /* of its append or batch; neither: not known */
    bool has_time;
    double time;
    uint64_t size;        /* of the record, learnt from the store */
    uint64_t position;    /* among all that its location ever had, from 1 */
    ms_value field[MS_FIELD_COUNT];
    char *bytes;          /* of all fields */
} twin_msg;

/* How many messages a location ever had. */
typedef struct twin_place {
    char *location;
    size_t len;
    uint64_t ever;
} twin_place;

typedef struct twin {
    twin_msg **items;
    size_t count, cap;
    twin_place *places;
    size_t n_places;
    uint64_t given;           /* the largest sequence number so far, left out ones too */
    bool keep_unset_times;
    bool no_commit;       /* the store sets no COMMIT flag */
    double now;           /* what the store's clock says at the next append */
} twin;

/* What a caller may set: all but what stores set themselves. */
#define TWIN_FLAGS ((uint32_t)(MS_FLAG_JOINED | MS_FLAG_STAMPED | MS_FLAG_REPAIRED | \
                               MS_FLAG_LENIENT))


/* ---- one message ---- */

static inline void *twin_memory(void *old, size_t size)
{
    void *memory = realloc(old, size != 0 ? size : 1);
    if (memory == NULL) abort();
    return memory;
}

static inline ms_value twin_text_value(ms_str text)
{
    ms_value value = {text, false};
    return value;
}

static inline ms_value twin_object_value(ms_str text)
{
    ms_value value = {text, true};
    return value;
}

/* The fields of an envelope by number. */
static inline void twin_fields(const ms_envelope *m, ms_value out[MS_FIELD_COUNT])
{
    memset(out, 0, MS_FIELD_COUNT * sizeof out[0]);
#define TWIN_TEXT(member) twin_text_value(m->member)
#define TWIN_OBJECT(member) twin_object_value(m->member)
#define TWIN_VALUE(member) m->member
#define MS__X(number, name, member, kind) out[number] = TWIN_##kind(member);
    MS_FIELDS(MS__X)
#undef MS__X
#undef TWIN_TEXT
#undef TWIN_OBJECT
#undef TWIN_VALUE
}

static inline const char *twin_field_name(int number)
{
    switch (number) {
#define MS__X(number, name, member, kind) \
    case number: return #member;
        MS_FIELDS(MS__X)
#undef MS__X
    default: return "no field";
    }
}

/* Who speaks when the envelope does not say. */
static inline ms_role twin_role_of_type(ms_type type)
{
    switch (type) {
    case MS_T_OBSERVATION:
    case MS_T_ERROR:
    case MS_T_INPUT_REQUIRED:
    case MS_T_APPROVAL_REQUIRED: return MS_ROLE_TOOL;
    case MS_T_TEXT:
    case MS_T_DIRECTOR_CONTEXT:
    case MS_T_INJECTED_CONTEXT: return MS_ROLE_SYSTEM;
    case MS_T_USER_MESSAGE:
    case MS_T_TASK:
    case MS_T_SCRIPT_INSTRUCTION:
    case MS_T_GLOBAL_OBSERVATION:
    case MS_T_MULTIMODAL_PART:
    case MS_T_OTHER: return MS_ROLE_USER;
    default: return MS_ROLE_ASSISTANT;
    }
}

/* Absent and empty are two things; nothing is json when it is absent. */
static inline bool twin_value_equal(ms_value a, ms_value b)
{
    if (a.text.ptr == NULL || b.text.ptr == NULL) return a.text.ptr == b.text.ptr;
    return a.json == b.json && a.text.len == b.text.len &&
           (a.text.len == 0 || memcmp(a.text.ptr, b.text.ptr, a.text.len) == 0);
}

static inline bool twin_str_equal(ms_str a, ms_str b)
{
    return twin_value_equal(twin_text_value(a), twin_text_value(b));
}

static inline bool twin_starts_with(ms_str s, ms_str prefix)
{
    return prefix.ptr == NULL || prefix.len == 0 ||
           (s.len >= prefix.len && memcmp(s.ptr, prefix.ptr, prefix.len) == 0);
}

/* Length of the well-formed UTF-8 character at the start, or 0. */
static inline size_t twin_character(const unsigned char *p, size_t len)
{
    static const struct { unsigned first, last; size_t len; unsigned least; } forms[] = {
        {0x00, 0x7f, 1, 0}, {0xc2, 0xdf, 2, 0x80}, {0xe0, 0xef, 3, 0x800},
        {0xf0, 0xf4, 4, 0x10000},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (p[0] < forms[i].first || p[0] > forms[i].last || len < forms[i].len) continue;
        unsigned point = p[0] & (forms[i].len == 1 ? 0x7fu : 0xffu >> (forms[i].len + 1));
        for (size_t k = 1; k < forms[i].len; k++) {
            if ((p[k] & 0xc0u) != 0x80u) return 0;
            point = point << 6 | (p[k] & 0x3fu);
        }
        bool surrogate = point >= 0xd800 && point <= 0xdfff;
        return point < forms[i].least || point > 0x10ffff || surrogate ? 0 : forms[i].len;
    }
    return 0;
}

/* Copies text; a byte that is not UTF-8 becomes U+FFFD. out has room for 3 * len. */
static inline size_t twin_repair(ms_str text, char *out, bool *repaired)
{
    size_t used = 0;
    for (size_t i = 0; i < text.len;) {
        size_t n = twin_character((const unsigned char *)text.ptr + i, text.len - i);
        memcpy(out + used, n != 0 ? text.ptr + i : "\xef\xbf\xbd", n != 0 ? n : 3);
        used += n != 0 ? n : 3;
        i += n != 0 ? n : 1;
        *repaired = *repaired || n == 0;
    }
    return used;
}

static inline void twin_msg_free(twin_msg *m)
{
    if (m != NULL) free(m->bytes);
    free(m);
}

/* A deep copy as a store keeps it: where it is, who speaks, repaired text. The time of a
 * message without one is left to the caller. */
static inline twin_msg *twin_msg_new(const ms_envelope *m, ms_str location)
{
    twin_msg *out = (twin_msg *)twin_memory(NULL, sizeof *out);
    ms_value field[MS_FIELD_COUNT];
    size_t room = 0, used = 0;
    bool repaired = false;
    memset(out, 0, sizeof *out);
    twin_fields(m, field);
    if (location.ptr != NULL && location.len != 0)
        field[MS_F_LOCATION] = twin_text_value(location);
    for (int i = 1; i < MS_FIELD_COUNT; i++) room += 3 * field[i].text.len;
    out->bytes = (char *)twin_memory(NULL, room);
    for (int i = 1; i < MS_FIELD_COUNT; i++) {
        if (field[i].text.ptr == NULL) continue;
        size_t len = twin_repair(field[i].text, out->bytes + used, &repaired);
        out->field[i].json = field[i].json;
        out->field[i].text = ms_str_n(out->bytes + used, len);
        used += len;
    }
    out->type = m->type;
    out->given = m->role;
    out->role = m->role != MS_ROLE_NONE ? m->role : twin_role_of_type(m->type);
    out->flags = (m->flags & TWIN_FLAGS) | (repaired ? (uint32_t)MS_FLAG_REPAIRED : 0u);
    out->has_time = m->has_time;
    out->time = m->time;
    return out;
}

/* Type, role and all fields; the time is not compared. */
static inline bool twin_same_content(const twin_msg *a, const twin_msg *b)
{
    if (a->type != b->type || a->role != b->role) return false;
    for (int i = 1; i < MS_FIELD_COUNT; i++)
        if (!twin_value_equal(a->field[i], b->field[i])) return false;
    return true;
}

/* NULL when the store's message is the twin's; else what differs. */
static inline const char *twin_differs(const twin_msg *want, const ms_msg *got)
{
    ms_envelope m = ms_envelope_of(got);
    ms_value field[MS_FIELD_COUNT];
    double time = 0;
    if (ms_seq(got) != want->seq || m.seq != want->seq) return "seq";
    if (ms_type_of(got) != want->type || m.type != want->type) return "type";
    if (ms_role_of(got) != want->role) return "role";
    if (m.role != MS_ROLE_NONE && m.role != want->role) return "role of the envelope";
    if ((ms_flags(got) & TWIN_FLAGS) != want->flags) return "flags";
    if (want->last && (ms_flags(got) & MS_FLAG_COMMIT) == 0) return "no commit flag";
    if (want->inside && (ms_flags(got) & MS_FLAG_COMMIT) != 0) return "a commit flag";
    if (ms_time(got, &time) != want->has_time || m.has_time != want->has_time)
        return "has time";
    if (want->has_time && memcmp(&time, &want->time, sizeof time) != 0) return "time";
    if (want->has_time && memcmp(&m.time, &want->time, sizeof time) != 0)
        return "time of the envelope";
    if (want->size != 0 && ms_size(got) != want->size) return "size";
    twin_fields(&m, field);
    for (int i = 1; i < MS_FIELD_COUNT; i++) {
        if (!twin_value_equal(ms_get(got, (ms_field)i), want->field[i]) ||
            !twin_value_equal(field[i], want->field[i]))
            return twin_field_name(i);
    }
    if (!twin_str_equal(ms_location(got), want->field[MS_F_LOCATION].text) ||
        !twin_str_equal(ms_agent_key(got), want->field[MS_F_AGENT_KEY].text) ||
        !twin_str_equal(ms_turn_id(got), want->field[MS_F_TURN_ID].text) ||
        !twin_value_equal(ms_content(got), want->field[MS_F_CONTENT]))
        return "a named getter";
    return NULL;
}

/* An envelope over the twin's copy, to append it once more. */
static inline ms_envelope twin_envelope(const twin_msg *m)
{
    ms_envelope out;
    memset(&out, 0, sizeof out);
#define TWIN_SET_TEXT(member, number) out.member = m->field[number].text;
#define TWIN_SET_OBJECT(member, number) out.member = m->field[number].text;
#define TWIN_SET_VALUE(member, number) out.member = m->field[number];
#define MS__X(number, name, member, kind) TWIN_SET_##kind(member, number)
    MS_FIELDS(MS__X)
#undef MS__X
#undef TWIN_SET_TEXT
#undef TWIN_SET_OBJECT
#undef TWIN_SET_VALUE
    out.type = m->type;
    out.role = m->given;
    out.flags = m->flags;
    out.has_time = m->has_time;
    out.time = m->time;
    out.seq = m->seq;
    return out;
}


/* ---- appending ---- */

static inline void twin_init(twin *t)
{
    memset(t, 0, sizeof *t);
}

static inline void twin_reset(twin *t)
{
    for (size_t i = 0; i < t->count; i++) twin_msg_free(t->items[i]);
    for (size_t i = 0; i < t->n_places; i++) free(t->places[i].location);
    t->count = t->n_places = 0;
    t->given = 0;
}

static inline void twin_deinit(twin *t)
{
    twin_reset(t);
    free(t->items);
    free(t->places);
    twin_init(t);
}

static inline uint64_t twin_last_seq(const twin *t)
{
    return t->count != 0 ? t->items[t->count - 1]->seq : 0;
}

static inline const twin_msg *twin_get(const twin *t, uint64_t seq)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->items[i]->seq == seq) return t->items[i];
    return NULL;
}

static inline twin_place *twin_place_of(twin *t, ms_str location)
{
    for (size_t i = 0; i < t->n_places; i++)
        if (t->places[i].len == location.len &&
            memcmp(t->places[i].location, location.ptr, location.len) == 0)
            return &t->places[i];
    size_t size = (t->n_places + 1) * sizeof t->places[0];
    t->places = (twin_place *)twin_memory(t->places, size);
    twin_place *place = &t->places[t->n_places++];
    place->location = (char *)twin_memory(NULL, location.len);
    memcpy(place->location, location.ptr, location.len);
    place->len = location.len;
    place->ever = 0;
    return place;
}

/* Adds a message, the newest of its location. */
static inline void twin_push(twin *t, twin_msg *m)
{
    m->position = ++twin_place_of(t, m->field[MS_F_LOCATION].text)->ever;
    if (m->seq > t->given) t->given = m->seq;
    if (t->count == t->cap) {
        t->cap = t->cap != 0 ? 2 * t->cap : 16;
        t->items = (twin_msg **)twin_memory(t->items, t->cap * sizeof t->items[0]);
    }
    t->items[t->count++] = m;
}

/* The sequence of the last message of a location; 0: none yet. */
static inline uint64_t twin_last_of(const twin *t, ms_str location)
{
    for (size_t i = t->count; i-- > 0;)
        if (twin_str_equal(t->items[i]->field[MS_F_LOCATION].text, location))
            return t->items[i]->seq;
    return 0;
}

/* Who has the key of m in its location: among all messages, then among the `fresh` ones
 * of the same batch. NULL when nobody, or m has no key. */
static inline const twin_msg *twin_key_holder(const twin *t, twin_msg *const *fresh,
                                              size_t n_fresh, const twin_msg *m)
{
    if (m->field[MS_F_KEY].text.ptr == NULL) return NULL;
    for (size_t i = 0; i < t->count + n_fresh; i++) {
        const twin_msg *old = i < t->count ? t->items[i] : fresh[i - t->count];
        if (twin_value_equal(old->field[MS_F_KEY], m->field[MS_F_KEY]) &&
            twin_value_equal(old->field[MS_F_LOCATION], m->field[MS_F_LOCATION]))
            return old;
    }
    return NULL;
}

/* What a store should answer to a batch whose envelopes are sound (a store with a limit
 * may answer MS_E_FULL or MS_E_TOO_LARGE instead). */
static inline ms_result twin_expect(const twin *t, const ms_envelope *messages, size_t n,
                                    const ms_append_opts *opts)
{
    ms_result result = MS_OK;
    uint64_t before = t->given;
    twin_msg **fresh = (twin_msg **)twin_memory(NULL, n * sizeof fresh[0]);
    for (size_t i = 0; i < n; i++) {
        fresh[i] = twin_msg_new(&messages[i], opts->location);
        const twin_msg *old = twin_key_holder(t, fresh, i, fresh[i]);
        if (result != MS_OK) continue;
        if (old != NULL && !twin_same_content(old, fresh[i])) result = MS_E_KEY_REUSED;
        if (opts->keep_seq && old == NULL && messages[i].seq <= before)
            result = MS_E_ARGUMENT;
        if (opts->keep_seq && old == NULL) before = messages[i].seq;
    }
    if (opts->expect && twin_last_of(t, opts->location) != opts->expect_seq)
        result = MS_E_CONFLICT;
    for (size_t i = 0; i < n; i++) twin_msg_free(fresh[i]);
    free(fresh);
    return result;
}

/* Adds what a store took in and answered with these sequence numbers. Checks them. */
static inline void twin_add(twin *t, const ms_envelope *messages, size_t n,
                            const ms_append_opts *opts, const uint64_t *seqs)
{
    twin_msg *last = NULL;
    for (size_t i = 0; i < n; i++) {
        twin_msg *m = twin_msg_new(&messages[i], opts->location);
        const twin_msg *old = twin_key_holder(t, NULL, 0, m);
        if (old != NULL) {
            if (seqs[i] != old->seq) fail_msg("a repeat does not give the first number");
            twin_msg_free(m);
            continue;
        }
        if (seqs[i] <= t->given) fail_msg("sequence numbers do not grow");
        if (opts->keep_seq && seqs[i] != messages[i].seq) fail_msg("sequence not kept");
        m->seq = seqs[i];
        if (!m->has_time && !t->keep_unset_times && !opts->keep_seq) {
            m->has_time = true;
            m->time = t->now;
            m->flags |= (uint32_t)MS_FLAG_STAMPED;
        }
        twin_push(t, m);
        if (last != NULL) last->inside = true;
        last = m;
    }
    if (last != NULL) last->last = !t->no_commit;
}

/* Appends to both and compares the answers. MS_E_FULL is accepted when may_be_full is
 * set: the twin is as before then. */
static inline ms_result twin_append_both(twin *t, ms_store *store,
                                         const ms_envelope *messages, size_t n,
                                         const ms_append_opts *opts, bool may_be_full)
{
    uint64_t seqs[64];
    ms_append_opts both = *opts;
    ms_error err;
    assert_true(n <= 64);
    both.seqs = seqs;
    ms_result want = twin_expect(t, messages, n, &both);
    ms_result got = ms_append_batch(store, messages, n, &both, &err);
    if (got == MS_E_FULL && may_be_full) return got;
    if (got != want)
        fail_msg("append says %s (%s), should say %s", ms_result_text(got),
                 got != MS_OK ? err.message : "", ms_result_text(want));
    if (got == MS_OK) twin_add(t, messages, n, &both, seqs);
    return got;
}


/* ---- queries ---- */

static inline bool twin_in_set(ms_type_set set, ms_type type)
{
    return (set & MS_BIT(type)) != 0;
}

static inline bool twin_in_views(const ms_query *q, const twin_msg *m)
{
    unsigned views = q->views != 0 ? q->views : (unsigned)MS_VIEW_TIMELINE;
    ms_type_set own = q->agent_types != 0 ? q->agent_types : MS_TYPES_AGENT;
    ms_str agent = m->field[MS_F_AGENT_KEY].text;
    ms_type_set any = 0;
    if ((views & MS_VIEW_TIMELINE) != 0) return true;
    if ((views & MS_VIEW_CONVERSATION) != 0) any |= MS_TYPES_CONVERSATION;
    if ((views & MS_VIEW_GLOBAL) != 0) any |= MS_TYPES_GLOBAL;
    if (twin_in_set(any, m->type)) return true;
    if (agent.ptr == NULL) return false;
    if ((views & MS_VIEW_AGENT) != 0 && twin_in_set(own, m->type) &&
        twin_str_equal(agent, q->agent_key))
        return true;
    for (size_t i = 0; (views & MS_VIEW_TEAM) != 0 && i < q->n_agent_keys; i++)
        if (twin_str_equal(agent, q->agent_keys[i])) return true;
    return false;
}

/* Views and filters; order and limit aside. */
static inline bool twin_match(const ms_query *q, const twin_msg *m)
{
    ms_str location = m->field[MS_F_LOCATION].text;
    ms_str turn = m->field[MS_F_TURN_ID].text;
    if (q->location.ptr != NULL && q->location.len != 0 &&
        !twin_str_equal(q->location, location))
        return false;
    if (!twin_in_views(q, m)) return false;
    if (q->types != 0 && !twin_in_set(q->types, m->type)) return false;
    if (q->turn_id.ptr != NULL && !twin_str_equal(q->turn_id, turn)) return false;
    if ((q->has_since || q->has_until) && !m->has_time) return false;
    if (q->has_since && !(q->since <= m->time)) return false;
    if (q->has_until && !(m->time < q->until)) return false;
    return m->seq > q->after_seq && (q->before_seq == 0 || m->seq < q->before_seq);
}

/* Sorts by time, stable: what has no time takes that of the one before it, or -infinity
 * when there is none or `untimed_first` says so. */
static inline void twin_sort_by_time(const twin_msg **list, size_t n, bool untimed_first)
{
    double *when = (double *)twin_memory(NULL, n * sizeof when[0]);
    for (size_t i = 0; i < n; i++) {
        when[i] = i != 0 && !untimed_first ? when[i - 1] : -HUGE_VAL;
        if (list[i]->has_time) when[i] = list[i]->time;
    }
    for (size_t i = 1; i < n; i++) {
        const twin_msg *m = list[i];
        double time = when[i];
        size_t at = i;
        for (; at > 0 && when[at - 1] > time; at--) {
            when[at] = when[at - 1];
            list[at] = list[at - 1];
        }
        when[at] = time;
        list[at] = m;
    }
    free(when);
}

/* The answer to a query: count of messages written to out, which has room for all. */
static inline size_t twin_query(const twin *t, const ms_query *q, const twin_msg **out)
{
    size_t n = 0;
    for (size_t i = 0; i < t->count; i++)
        if (twin_match(q, t->items[i])) out[n++] = t->items[i];
    if (q->by_time) twin_sort_by_time(out, n, q->untimed_first);
    if (q->limit != 0 && n > q->limit) {
        if (!q->oldest) memmove(out, out + n - q->limit, q->limit * sizeof out[0]);
        n = q->limit;
    }
    for (size_t i = 0; q->reverse && i < n / 2; i++) {
        const twin_msg *m = out[i];
        out[i] = out[n - 1 - i];
        out[n - 1 - i] = m;
    }
    return n;
}


/* ---- listings and copies ---- */

static inline void twin_count_in(ms_info *info, const twin_msg *m)
{
    if (info->messages == 0) info->first_seq = m->seq;
    info->messages++;
    info->last_seq = m->seq;
    info->bytes += m->size;
    if (!m->has_time) return;
    if (!info->has_time || m->time < info->first_time) info->first_time = m->time;
    if (!info->has_time || m->time > info->last_time) info->last_time = m->time;
    info->has_time = true;
}

/* The answer to a listing; out has room for an entry per message. */
static inline size_t twin_list(const twin *t, const ms_list_query *q, ms_info *out)
{
    size_t n = 0;
    for (size_t i = 0; i < t->count; i++) {
        const twin_msg *m = t->items[i];
        ms_str location = m->field[MS_F_LOCATION].text;
        ms_str agent = q->agents ? m->field[MS_F_AGENT_KEY].text : ms_str_n(NULL, 0);
        size_t at = 0;
        if (q->agents && agent.ptr == NULL) continue;
        if (q->agents && q->location.ptr != NULL && q->location.len != 0 &&
            !twin_str_equal(location, q->location))
            continue;
        if (!twin_starts_with(q->agents ? agent : location, q->prefix)) continue;
        while (at < n && !(twin_str_equal(out[at].location, location) &&
                           twin_str_equal(out[at].agent_key, agent)))
            at++;
        if (at == n) memset(&out[n++], 0, sizeof out[0]);
        out[at].location = location;
        out[at].agent_key = agent;
        twin_count_in(&out[at], m);
        for (; at > 0; at--) {          /* newest activity first */
            ms_info newest = out[at];
            out[at] = out[at - 1];
            out[at - 1] = newest;
        }
    }
    return q->limit != 0 && n > q->limit ? q->limit : n;
}

static inline bool twin_names(const ms_keep *keep, ms_str location)
{
    for (size_t k = 0; k < keep->n_locations; k++)
        if (twin_str_equal(keep->locations[k], location)) return true;
    return keep->n_locations == 0;
}

/* Does the keep rule take message i? Newest counts all messages of the location. */
static inline bool twin_keeps(const twin *t, const ms_keep *keep, size_t i)
{
    const twin_msg *m = t->items[i];
    ms_str location = m->field[MS_F_LOCATION].text;
    size_t newer = 0;
    if (!twin_names(keep, location)) return false;
    if (keep->has_since && m->has_time && !(keep->since <= m->time)) return false;
    for (size_t k = i + 1; k < t->count; k++)
        newer += twin_str_equal(t->items[k]->field[MS_F_LOCATION].text, location);
    return keep->newest == 0 || newer < keep->newest;
}

/* Copies into an empty twin what `keep` takes. Positions stay, and what is left out
 * counts in them; of a location that is not named nothing goes over. As long as there is
 * one that is named, no number is given again. */
static inline ms_copy_report twin_copy(twin *to, const twin *from, const ms_keep *keep)
{
    ms_copy_report report;
    memset(&report, 0, sizeof report);
    for (size_t i = 0; i < from->count; i++) {
        if (!twin_keeps(from, keep, i)) {
            report.dropped++;
            continue;
        }
        report.copied++;
        report.bytes += from->items[i]->size;
        if (keep->dry_run) continue;
        ms_envelope m = twin_envelope(from->items[i]);
        twin_msg *copy = twin_msg_new(&m, m.location);
        copy->seq = m.seq;
        copy->flags = from->items[i]->flags;
        twin_push(to, copy);
        copy->position = from->items[i]->position;
    }
    for (size_t i = 0; !keep->dry_run && i < from->n_places; i++) {
        ms_str location = ms_str_n(from->places[i].location, from->places[i].len);
        if (!twin_names(keep, location)) continue;
        twin_place_of(to, location)->ever = from->places[i].ever;
        to->given = from->given;
    }
    return report;
}


/* ---- comparing a store with its twin; a difference fails the test ---- */

static inline void twin_must_match(const twin_msg *want, const ms_msg *got,
                                   const char *where)
{
    const char *what = twin_differs(want, got);
    unsigned long long seq = want->seq;
    if (what != NULL) fail_msg("%s: message %llu: %s differs", where, seq, what);
}

/* Runs a cursor to its end and compares it with the list. */
static inline void twin_must_read(const twin_msg *const *want, size_t n, ms_cursor *it,
                                  const char *where)
{
    ms_error err;
    const ms_msg *msg;
    size_t i = 0;
    while ((msg = ms_next(it)) != NULL) {
        if (i == n) fail_msg("%s: more than the %zu messages expected", where, n);
        twin_must_match(want[i++], msg, where);
    }
    if (i != n) fail_msg("%s: %zu messages where %zu were expected", where, i, n);
    if (ms_cursor_close(it, &err) != MS_OK) fail_msg("%s: %s", where, err.message);
}

static inline void twin_must_query(const twin *t, ms_store *store, const ms_query *q)
{
    const twin_msg **want =
        (const twin_msg **)twin_memory(NULL, (t->count + 1) * sizeof want[0]);
    size_t n = twin_query(t, q, want);
    ms_cursor it;
    ms_error err;
    if (ms_query_open(store, q, &it, &err) != MS_OK) fail_msg("query: %s", err.message);
    twin_must_read(want, n, &it, "query");
    free(want);
}

static inline void twin_must_list(const twin *t, ms_store *store, const ms_list_query *q)
{
    ms_info *want = (ms_info *)twin_memory(NULL, (t->count + 1) * sizeof want[0]);
    size_t n = twin_list(t, q, want);
    ms_arena arena;
    ms_listing got;
    ms_error err;
    ms_arena_init(&arena, NULL);
    if (ms_list(store, q, &arena, &got, &err) != MS_OK) fail_msg("list: %s", err.message);
    assert_int_equal(got.count, n);
    for (size_t i = 0; i < n; i++) {
        const ms_info *a = &want[i], *b = &got.items[i];
        assert_true(twin_str_equal(a->location, b->location));
        assert_true(twin_str_equal(a->agent_key, b->agent_key));
        assert_int_equal(a->messages, b->messages);
        assert_int_equal(a->first_seq, b->first_seq);
        assert_int_equal(a->last_seq, b->last_seq);
        assert_int_equal(a->bytes, b->bytes);
        assert_int_equal(a->has_time, b->has_time);
        if (a->has_time) assert_true(a->first_time == b->first_time);
        if (a->has_time) assert_true(a->last_time == b->last_time);
    }
    ms_arena_deinit(&arena);
    free(want);
}

/* A message is where it is, and nothing is at a position that it has not. */
static inline void twin_must_place(const twin *t, ms_store *store, size_t i)
{
    const twin_msg *want = t->items[i];
    ms_str location = want->field[MS_F_LOCATION].text;
    const ms_msg *msg;
    uint64_t position = 0, other = want->position + 1;
    ms_arena arena;
    ms_error err;
    ms_arena_init(&arena, NULL);
    if (ms_position(store, want->seq, &position, &err) != MS_OK)
        fail_msg("position: %s", err.message);
    if (position != want->position)
        fail_msg("message %llu: position %llu, should be %llu",
                 (unsigned long long)want->seq, (unsigned long long)position,
                 (unsigned long long)want->position);
    if (ms_get_by_position(store, location, position, &arena, &msg, &err) != MS_OK)
        fail_msg("by position: %s", err.message);
    twin_must_match(want, msg, "by position");
    bool there = false;
    for (size_t k = 0; k < t->count; k++)
        if (twin_str_equal(t->items[k]->field[MS_F_LOCATION].text, location))
            there = there || t->items[k]->position == other;
    assert_int_equal(ms_get_by_position(store, location, other, &arena, &msg, NULL),
                     there ? MS_OK : MS_E_NOT_FOUND);
    ms_arena_deinit(&arena);
}

/* What the store chose itself: the size of a record. It holds the fields and a header. */
static inline void twin_learn_size(twin_msg *m, const ms_msg *msg)
{
    size_t fields = 0;
    if (m->size != 0) return;
    m->size = ms_size(msg);
    for (int f = 1; f < MS_FIELD_COUNT; f++) fields += m->field[f].text.len;
    assert_true(m->size > fields);
    assert_int_equal(m->size % 8, 0);
}

/* Every message, forwards and by number, the totals, and the store's own check. */
static inline void twin_must_equal(twin *t, ms_store *store)
{
    ms_query all;
    ms_cursor it;
    ms_stat stat;
    ms_error err;
    ms_arena arena;
    uint64_t bytes = 0;
    ms_arena_init(&arena, NULL);
    memset(&all, 0, sizeof all);
    if (ms_selfcheck(store, &err) != MS_OK) fail_msg("selfcheck: %s", err.message);
    assert_int_equal(ms_query_open(store, &all, &it, NULL), MS_OK);
    twin_must_read((const twin_msg *const *)t->items, t->count, &it, "everything");
    for (size_t i = 0; i < t->count; i++) {
        const ms_msg *msg;
        if (ms_get_by_seq(store, t->items[i]->seq, &arena, &msg, &err) != MS_OK)
            fail_msg("by number: %s", err.message);
        twin_learn_size(t->items[i], msg);
        twin_must_match(t->items[i], msg, "by number");
        bytes += t->items[i]->size;
    }
    ms_arena_deinit(&arena);
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    assert_int_equal(stat.messages, t->count);
    assert_int_equal(stat.last_seq, twin_last_seq(t));
    assert_int_equal(stat.bytes, bytes);
}

#endif /* TWIN_H */
