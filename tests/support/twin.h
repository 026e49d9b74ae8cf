/* A naive twin of a store, to compare with: an array of deep copies, searched from one
 * end to the other. It is written from the words of the public interface and knows
 * nothing of how a store does it. What a store may choose freely (its sequence numbers,
 * the size of a record) the twin gets from the store, and checks that it keeps the rules.
 *
 * A change makes a fresh copy of the message beside the old one, so that what a cursor
 * was promised at its opening stays. Only redaction changes copies that there are.
 */

#ifndef TWIN_H
#define TWIN_H

#include "stores.h"
#include "utf8_twin.h"

#include <jansson.h>

typedef struct twin_msg {
    uint64_t seq;
    ms_kind kind;         /* MESSAGE or AMEND; HIDE and NOTE in `records` only */
    ms_type type;
    ms_role given;        /* as the envelope had it */
    ms_role role;         /* as getters return it, never NONE */
    uint32_t flags;       /* those of TWIN_SHOWN */
    uint32_t loose;       /* of them those that are not compared */
    bool last, inside;    /* of its append or batch; neither: not known */
    bool has_time;
    int64_t time_ns;
    uint64_t size;        /* of the record, learnt from the store */
    bool hidden;
    bool redacted;        /* its text is gone */
    bool open;            /* a stream writes it */
    bool folded;          /* UNFINISHED, but its parts went into it when it was copied */
    struct twin_msg *first;   /* as it was appended; NULL: this is it */
    struct twin_msg *so_far;  /* with the text so far of its stream; NULL: no more */
    uint64_t lowest, highest, hid; /* HIDE: of what was visible until then */
    uint64_t from, to;        /* HIDE: as it was asked for, no further than the newest */
    ms_value field[MS_FIELD_COUNT];
    char *bytes;          /* of all fields */
} twin_msg;

/* What is known about a location. */
typedef struct twin_place {
    char *location;
    size_t len;
    json_t *facts;            /* NULL: none */
    json_t *set;              /* as they were set last: a removed one is null here */
} twin_place;

typedef struct twin_list_of {
    twin_msg **items;
    size_t count, cap;
} twin_list_of;

typedef struct twin {
    twin_msg **items;     /* messages as they are now, hidden ones among them */
    size_t count, cap;
    twin_list_of records; /* each as it stands: messages, amends, hides and notes */
    twin_list_of others;  /* texts so far, and all else that has to be freed */
    twin_place *places;
    size_t n_places;
    uint64_t given;           /* the largest sequence number so far, left out ones too */
    bool keep_unset_times;
    bool no_commit;       /* the store sets no COMMIT flag */
    bool copies;          /* the store copies its records: a lookup needs an arena */
    bool may_be_full;     /* a change may be refused with MS_E_FULL */
    uint64_t facts;       /* records of facts */
    bool raw;             /* the store can change: look at each record as it stands */
    bool joined;          /* of a union */
    int64_t now;          /* the time of the store's clock at the next append */
} twin;

/* What a caller may set: all but what stores set themselves. */
#define TWIN_FLAGS ((uint32_t)(MS_FLAG_JOINED | MS_FLAG_STAMPED | MS_FLAG_REPAIRED))
#define TWIN_SHOWN (TWIN_FLAGS | (uint32_t)(MS_FLAG_AMENDED | MS_FLAG_REDACTED | \
                                            MS_FLAG_UNFINISHED))


/* ---- one message ---- */

static inline void *twin_memory(void *old, size_t size)
{
    void *memory = realloc(old, size != 0 ? size : 1);
    if (memory == NULL) abort();
    return memory;
}

static inline const char *twin_field_name(int number)
{
#define MS__X(number, name, member, kind) #member,
    static const char *const names[] = {"no field", MS_FIELDS(MS__X)};
#undef MS__X
    return names[number];
}

/* The role of a message whose envelope has none. */
static inline ms_role twin_role_of_type(ms_type type)
{
    switch (type) {
    case MS_T_OBSERVATION:
    case MS_T_ERROR:
    case MS_T_INPUT_REQUIRED:
    case MS_T_APPROVAL_REQUIRED: return MS_ROLE_TOOL;
    case MS_T_TEXT:
    case MS_T_DIRECTOR_CONTEXT:
    case MS_T_COMPACTION:
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
    return twin_value_equal(ms_text_n(a), ms_text_n(b));
}

static inline void twin_msg_free(twin_msg *m)
{
    if (m != NULL) free(m->bytes);
    free(m);
}

/* A deep copy as a store keeps it: its location, its role, repaired text. The time of a
 * message without one is left to the caller. */
static inline twin_msg *twin_msg_new(const ms_envelope *m, ms_str location)
{
    twin_msg *out = (twin_msg *)twin_memory(NULL, sizeof *out);
    ms_value field[MS_FIELD_COUNT];
    size_t room = 0, used = 0;
    bool repaired = false;
    memset(out, 0, sizeof *out);
    out->kind = MS_KIND_MESSAGE;
    message_fields(m, field);
    if (location.ptr != NULL && location.len != 0)
        field[MS_F_LOCATION] = ms_text_n(location);
    for (int i = 1; i < MS_FIELD_COUNT; i++) room += 3 * field[i].text.len;
    out->bytes = (char *)twin_memory(NULL, room);
    for (int i = 1; i < MS_FIELD_COUNT; i++) {
        if (field[i].text.ptr == NULL) continue;
        ms_str text = ms_str_n(out->bytes + used, 0);
        text.len = naive_repair(field[i].text, out->bytes + used);
        out->field[i].json = field[i].json;
        out->field[i].text = text;
        repaired = repaired || !twin_str_equal(text, field[i].text);
        used += text.len;
    }
    out->type = m->type;
    out->given = m->role;
    out->role = m->role != MS_ROLE_NONE ? m->role : twin_role_of_type(m->type);
    out->flags = (m->flags & TWIN_FLAGS) | (repaired ? (uint32_t)MS_FLAG_REPAIRED : 0u);
    out->has_time = m->has_time;
    out->time_ns = m->time_ns;
    return out;
}

/* Type, role and all fields; the time is not compared. */
static inline bool twin_same_content(const twin_msg *a, const twin_msg *b)
{
    if (a->type != b->type || a->given != b->given) return false;
    for (int i = 1; i < MS_FIELD_COUNT; i++)
        if (!twin_value_equal(a->field[i], b->field[i])) return false;
    return true;
}

/* Is this what redaction leaves of a text: "[redacted]", truncated or filled with spaces,
 * or an empty JSON value? */
static inline bool twin_is_erased(ms_value value)
{
    static const char *const nothing[] = {"{}", "[]", "\"\"", "null", "0", ""};
    ms_str text = value.text;
    while (text.len > 0 && text.ptr[text.len - 1] == ' ') text.len--;
    if (!value.json)
        return text.len <= 10 && memcmp("[redacted]", text.ptr, text.len) == 0;
    for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++)
        if (ms_str_equal(text, ms_str_of(nothing[i]))) return true;
    return false;
}

/* The fields of a redacted message; raw: of one record, else of what views show. */
static inline const char *twin_redacted_differs(const twin_msg *want, const ms_msg *got,
                                                bool raw)
{
    for (int i = 1; i < MS_FIELD_COUNT; i++) {
        ms_value old = want->field[i], is = ms_get(got, (ms_field)i);
        bool word = i == MS_F_TYPE_NAME || i == MS_F_ROLE_NAME;
        bool kept = i == MS_F_LOCATION || i == MS_F_AGENT_KEY || i == MS_F_TURN_ID ||
                    i == MS_F_ID || i == MS_F_KEY || i == MS_F_CALL_ID || i == MS_F_TOOL;
        if (kept && !twin_value_equal(old, is)) return twin_field_name(i);
        if (kept || (word && twin_value_equal(old, is))) continue;
        bool shown = !raw && is.text.ptr != NULL &&
                     ((i == MS_F_CONTENT &&
                       twin_value_equal(is, ms_text_n(MS_STR("[redacted]")))) ||
                      (i == MS_F_ARGS && ms_str_equal(is.text, MS_STR("{}"))));
        if (shown) continue;
        if (!raw && old.text.ptr != NULL && (i == MS_F_CONTENT || i == MS_F_ARGS))
            return twin_field_name(i);
        if (is.text.ptr != NULL && !twin_is_erased(is)) return twin_field_name(i);
    }
    return NULL;
}

/* Compares what every record shows but a HIDE: number, type, role, time. */
static inline const char *twin_head_differs(const twin_msg *want, const ms_msg *got)
{
    bool note = want->kind == MS_KIND_NOTE;
    int64_t time = 0;
    if (ms_seq(got) != want->seq) return "seq";
    if (ms_type_of(got) != (note ? MS_T_NONE : want->type)) return "type";
    if (!note && ms_role_of(got) != want->role) return "role";
    if (ms_time(got, &time) != want->has_time) return "has time";
    return want->has_time && time != want->time_ns ? "time" : NULL;
}

/* Compares a field. The arguments of a call are text while a stream writes them. */
static inline bool twin_field_equal(const twin_msg *want, int field, ms_value is)
{
    if (field == MS_F_ARGS && (want->open || want->folded || want->so_far != NULL))
        return twin_str_equal(is.text, want->field[field].text);
    return twin_value_equal(is, want->field[field]);
}

static inline const char *twin_flags_differ(const twin_msg *want, uint32_t got)
{
    bool commit = (got & MS_FLAG_COMMIT) != 0;
    if (((got ^ want->flags) & TWIN_SHOWN & ~want->loose) != 0) return "flags";
    if (want->last && !commit) return "no commit flag";
    return want->inside && commit ? "a commit flag" : NULL;
}

/* Compares what the envelope of a message has with what its getters return. */
static inline const char *twin_envelope_differs(const ms_msg *got)
{
    ms_envelope m = ms_envelope_of(got);
    ms_value field[MS_FIELD_COUNT];
    int64_t time = 0;
    if (m.seq != ms_seq(got)) return "seq of the envelope";
    if (m.type != ms_type_of(got)) return "type of the envelope";
    if (m.role != MS_ROLE_NONE && m.role != ms_role_of(got))
        return "role of the envelope";
    if (((m.flags ^ ms_flags(got)) & TWIN_SHOWN) != 0) return "flags of the envelope";
    if (ms_time(got, &time) != m.has_time || (m.has_time && m.time_ns != time))
        return "time of the envelope";
    message_fields(&m, field);
    for (int i = 1; i < MS_FIELD_COUNT; i++)
        if (!twin_value_equal(field[i], ms_get(got, (ms_field)i)))
            return twin_field_name(i);
    if (!twin_str_equal(test_location(got), m.location) ||
        !twin_str_equal(test_agent_key(got), m.agent_key) ||
        !twin_str_equal(test_turn_id(got), m.turn_id) ||
        !twin_value_equal(ms_content(got), m.content))
        return "a named getter";
    return NULL;
}

/* Returns NULL if the store's message is the twin's; else what differs. */
static inline const char *twin_differs(const twin_msg *want, const ms_msg *got)
{
    const char *what = twin_head_differs(want, got);
    if (what == NULL) what = twin_flags_differ(want, ms_flags(got));
    if (what != NULL) return what;
    if (want->size != 0 && ms_size(got) != want->size) return "size";
    if (want->redacted) return twin_redacted_differs(want, got, false);
    for (int i = 1; i < MS_FIELD_COUNT; i++)
        if (!twin_field_equal(want, i, ms_get(got, (ms_field)i)))
            return twin_field_name(i);
    return twin_envelope_differs(got);
}

/* An envelope over the twin's copy, to append it once more. */
static inline ms_envelope twin_envelope(const twin_msg *m)
{
    ms_envelope out = {.type = m->type, .role = m->given, .flags = m->flags,
                       .has_time = m->has_time, .time_ns = m->time_ns, .seq = m->seq};
    for (int i = 1; i < MS_FIELD_COUNT; i++)
        message_set(&out, (ms_field)i, m->field[i]);
    return out;
}


/* ---- answers ----
 * What a store may answer is a set of results, for more than one thing can be wrong; an
 * empty one is MS_OK. MS_E_FULL is fine where the store may be full. */

#define TWIN_BIT(result) (UINT64_C(1) << (unsigned)(result))

static inline bool twin_answer(const twin *t, uint64_t allowed, ms_result got,
                               const char *what, const ms_error *err)
{
    if (allowed == 0) allowed = TWIN_BIT(MS_OK);
    if (got == MS_E_FULL && t->may_be_full) return false;
    if ((allowed & TWIN_BIT(got)) != 0) return got == MS_OK;
    for (unsigned i = 0; i < MS_RESULT_COUNT; i++)
        if ((allowed >> i & 1) != 0)
            fail_msg("%s returns %s (%s), expected %s", what, ms_result_text(got),
                     got != MS_OK ? err->message : "", ms_result_text((ms_result)i));
    return false;
}


/* ---- appending ---- */

static inline void twin_init(twin *t)
{
    memset(t, 0, sizeof *t);
}

static inline twin_msg *twin_put(twin_list_of *list, twin_msg *m)
{
    if (list->count == list->cap) {
        list->cap = list->cap != 0 ? 2 * list->cap : 16;
        list->items =
            (twin_msg **)twin_memory(list->items, list->cap * sizeof list->items[0]);
    }
    return list->items[list->count++] = m;
}

static inline void twin_empty(twin_list_of *list)
{
    for (size_t i = 0; i < list->count; i++) twin_msg_free(list->items[i]);
    list->count = 0;
}

static inline void twin_reset(twin *t)
{
    twin_empty(&t->records);
    twin_empty(&t->others);
    for (size_t i = 0; i < t->n_places; i++) {
        free(t->places[i].location);
        json_decref(t->places[i].facts);
        json_decref(t->places[i].set);
    }
    t->count = t->n_places = 0;
    t->given = t->facts = 0;
}

static inline void twin_deinit(twin *t)
{
    twin_reset(t);
    free(t->items);
    free(t->records.items);
    free(t->others.items);
    free(t->places);
    twin_init(t);
}

static inline uint64_t twin_last_seq(const twin *t)
{
    return t->count != 0 ? t->items[t->count - 1]->seq : 0;
}

/* Where the message of that number is; SIZE_MAX: nowhere. */
static inline size_t twin_at(const twin *t, uint64_t seq)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->items[i]->seq == seq) return i;
    return SIZE_MAX;
}

static inline const twin_msg *twin_get(const twin *t, uint64_t seq)
{
    size_t i = twin_at(t, seq);
    return i != SIZE_MAX ? t->items[i] : NULL;
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
    place->facts = place->set = NULL;
    return place;
}

/* Makes room for one more message. */
static inline void twin_grow(twin *t)
{
    if (t->count < t->cap) return;
    t->cap = t->cap != 0 ? 2 * t->cap : 16;
    t->items = (twin_msg **)twin_memory(t->items, t->cap * sizeof t->items[0]);
}

/* Adds a message, the newest of its location. */
static inline void twin_push(twin *t, twin_msg *m)
{
    if (m->seq > t->given) t->given = m->seq;
    twin_grow(t);
    t->items[t->count++] = m;
    twin_put(&t->records, m);
}

/* The sequence of the last visible message of a location; 0: none. */
static inline uint64_t twin_last_of(const twin *t, ms_str location)
{
    for (size_t i = t->count; i-- > 0;)
        if (!t->items[i]->hidden &&
            twin_str_equal(t->items[i]->field[MS_F_LOCATION].text, location))
            return t->items[i]->seq;
    return 0;
}

/* As it was appended, before all changes. */
static inline const twin_msg *twin_first(const twin_msg *m)
{
    return m->first != NULL ? m->first : m;
}

/* Who has the key of m in its location: among all messages, hidden ones too, then among
 * the `fresh` ones of the same batch. NULL if none has it, or m has no key. */
static inline const twin_msg *twin_key_holder(const twin *t, twin_msg *const *fresh,
                                              size_t n_fresh, const twin_msg *m)
{
    if (m->field[MS_F_KEY].text.ptr == NULL) return NULL;
    for (size_t i = 0; i < t->count + n_fresh; i++) {
        const twin_msg *old = i < t->count ? t->items[i] : fresh[i - t->count];
        if (twin_value_equal(old->field[MS_F_KEY], m->field[MS_F_KEY]) &&
            twin_value_equal(old->field[MS_F_LOCATION], m->field[MS_F_LOCATION]))
            return twin_first(old);
    }
    return NULL;
}

/* What a store may answer to a batch whose envelopes are sound, as a set: the text of a
 * redacted message cannot be compared, so a repeat of its key is taken or refused. */
static inline uint64_t twin_expect(const twin *t, const ms_envelope *messages, size_t n,
                                   const ms_append_opts *opts)
{
    uint64_t result = TWIN_BIT(MS_OK), repeat = 0;
    uint64_t before = t->given;
    twin_msg **fresh = (twin_msg **)twin_memory(NULL, n * sizeof fresh[0]);
    for (size_t i = 0; i < n; i++) {
        fresh[i] = twin_msg_new(&messages[i], opts->location);
        const twin_msg *old = twin_key_holder(t, fresh, i, fresh[i]);
        if (old != NULL && old->redacted)
            repeat = TWIN_BIT(MS_OK) | TWIN_BIT(MS_E_KEY_REUSED);
        if (result != TWIN_BIT(MS_OK)) continue;
        if (old != NULL && !twin_same_content(old, fresh[i]))
            result = TWIN_BIT(MS_E_KEY_REUSED);
        if (opts->keep_seq && old == NULL && messages[i].seq <= before)
            result = TWIN_BIT(MS_E_ARGUMENT);
        if (opts->keep_seq && old == NULL) before = messages[i].seq;
    }
    if (opts->expect && twin_last_of(t, opts->location) != opts->expect_seq)
        result = TWIN_BIT(MS_E_CONFLICT);
    for (size_t i = 0; i < n; i++) twin_msg_free(fresh[i]);
    free(fresh);
    return (result & repeat) != 0 ? repeat : result;
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
            m->time_ns = t->now;
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
    uint64_t allowed = twin_expect(t, messages, n, &both);
    ms_result got = ms_append_batch(store, messages, n, &both, &err);
    if (got == MS_E_FULL && may_be_full) return got;
    if (twin_answer(t, allowed, got, "append", &err))
        twin_add(t, messages, n, &both, seqs);
    return got;
}


/* ---- queries ---- */

static inline bool twin_in_set(ms_type_set set, ms_type type)
{
    return (set & MS_BIT(type)) != 0;
}

static inline bool twin_in_views(const ms_query *q, const twin_msg *m)
{
    bool writers = q->views == 0 && (q->agent_key.ptr != NULL || q->n_agent_keys > 0);
    unsigned views = writers       ? (q->agent_key.ptr != NULL ? MS_VIEW_AGENT : 0u) |
                                         (q->n_agent_keys > 0 ? MS_VIEW_TEAM : 0u)
                     : q->views != 0 ? q->views : (unsigned)MS_VIEW_TIMELINE;
    ms_type_set own = q->agent_types != 0 ? q->agent_types
                      : writers           ? MS_TYPES_ALL : MS_TYPES_AGENT;
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
    if (q->has_since && !(q->since_ns <= m->time_ns)) return false;
    if (q->has_until && !(m->time_ns < q->until_ns)) return false;
    return m->seq > q->after_seq && (q->before_seq == 0 || m->seq < q->before_seq);
}

/* Sorts by time, stable: what has no time takes that of the one before it in its store,
 * or the earliest when there is none or with `untimed_first`. */
static inline void twin_sort_by_time(const twin *t, const twin_msg **list, size_t n,
                                     bool untimed_first)
{
    int64_t *when = (int64_t *)twin_memory(NULL, n * sizeof when[0]);
    for (size_t i = 0; i < n; i++) {
        bool after = i != 0 && !(t->joined && MS_UNION_STORE(list[i]->seq) !=
                                                  MS_UNION_STORE(list[i - 1]->seq));
        when[i] = after && !untimed_first ? when[i - 1] : MS_TIME_NONE;
        if (list[i]->has_time) when[i] = list[i]->time_ns;
    }
    for (size_t i = 1; i < n; i++) {
        const twin_msg *m = list[i];
        int64_t time = when[i];
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

/* Limit and order. */
static inline size_t twin_cut(const ms_query *q, const twin_msg **out, size_t n)
{
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

static inline unsigned twin_raw_bit(ms_kind kind)
{
    static const struct { ms_kind kind; unsigned bit; } bits[] = {
        {MS_KIND_MESSAGE, MS_RAW_MESSAGES}, {MS_KIND_AMEND, MS_RAW_AMENDS},
        {MS_KIND_HIDE, MS_RAW_HIDES}, {MS_KIND_NOTE, MS_RAW_NOTES},
    };
    size_t i = 0;
    while (bits[i].kind != kind) i++;
    return bits[i].bit;
}

/* The answer to a raw query without locations and parts, of which the twin keeps no
 * records. after_seq and before_seq are 0 or numbers of messages that there are. */
static inline size_t twin_raw_query(const twin *t, const ms_query *q,
                                    const twin_msg **out)
{
    size_t n = 0;
    bool begun = q->after_seq == 0;
    for (size_t i = 0; i < t->records.count; i++) {
        const twin_msg *m = t->records.items[i];
        ms_query all = *q;
        bool message = m->kind == MS_KIND_MESSAGE;
        if (message && m->seq == q->before_seq) break;
        bool takes = begun && (twin_raw_bit(m->kind) & q->raw) != 0;
        if (message && m->seq == q->after_seq) begun = true;
        all.views = MS_VIEW_TIMELINE;
        all.after_seq = all.before_seq = 0;
        if (!message) {
            all.types = 0;
            all.turn_id = ms_str_n(NULL, 0);
            all.has_since = all.has_until = false;
        }
        bool about = m->kind == MS_KIND_HIDE
                         ? m->from <= q->about_seq && q->about_seq <= m->to
                         : m->seq == q->about_seq;
        if (q->about_seq != 0 && !about) takes = false;
        twin_msg shown = *m;
        if (shown.seq == 0) shown.seq = 1;
        if (takes && twin_match(&all, &shown)) out[n++] = m;
    }
    return twin_cut(q, out, n);
}

/* The answer to a query: count of messages written to out, which has room for all. */
static inline size_t twin_query(const twin *t, const ms_query *q, const twin_msg **out)
{
    size_t n = 0;
    if (q->raw != 0) return twin_raw_query(t, q, out);
    for (size_t i = 0; i < t->count; i++) {
        const twin_msg *m = t->items[i];
        if (m->hidden || !twin_match(q, m)) continue;
        out[n++] = q->arena != NULL && m->so_far != NULL ? m->so_far : m;
    }
    if (q->by_time) twin_sort_by_time(t, out, n, q->untimed_first);
    return twin_cut(q, out, n);
}


/* ---- listings and copies ---- */

/* Joins the times of the last messages: in a union the largest one decides. before: that
 * of the stores before the one of m. */
static inline void twin_count_in(ms_info *info, const twin_msg *m, bool joined,
                                 int64_t *before)
{
    int64_t time = m->has_time ? m->time_ns : MS_TIME_NONE;
    if (info->messages == 0) info->first_time_ns = time;
    if (info->messages == 0) info->first_seq = m->seq;
    info->messages++;
    if (info->messages == 1) *before = MS_TIME_NONE;
    else if (joined && MS_UNION_STORE(info->last_seq) < MS_UNION_STORE(m->seq))
        *before = info->last_time_ns;
    info->last_seq = m->seq;
    info->last_time_ns = time > *before ? time : *before;
}

/* Is activity b newer than a, which stands before it? In a union the time decides. */
static inline bool twin_is_newer(const twin *t, const ms_info *a, const ms_info *b)
{
    if (!t->joined || a->last_time_ns == b->last_time_ns)
        return b->last_seq > a->last_seq;
    return b->last_time_ns > a->last_time_ns;
}

/* The answer to a listing; out has room for an entry per message. */
static inline size_t twin_list(const twin *t, const ms_list_query *q, ms_info *out)
{
    size_t n = 0;
    int64_t *before = (int64_t *)twin_memory(NULL, (t->count + 1) * sizeof before[0]);
    for (size_t i = 0; i < t->count; i++) {
        const twin_msg *m = t->items[i];
        ms_str location = m->field[MS_F_LOCATION].text;
        ms_str agent = q->agents ? m->field[MS_F_AGENT_KEY].text : ms_str_n(NULL, 0);
        size_t at = 0;
        if (m->hidden || (q->agents && agent.ptr == NULL)) continue;
        if (q->agents && q->location.ptr != NULL && q->location.len != 0 &&
            !twin_str_equal(location, q->location))
            continue;
        if (!test_str_starts_with(q->agents ? agent : location, q->prefix)) continue;
        while (at < n && !(twin_str_equal(out[at].location, location) &&
                           twin_str_equal(out[at].agent_key, agent)))
            at++;
        if (at == n) memset(&out[n++], 0, sizeof out[0]);
        out[at].location = location;
        out[at].agent_key = agent;
        twin_count_in(&out[at], m, t->joined, &before[at]);
    }
    free(before);
    for (size_t i = 1; i < n; i++)
        for (size_t at = i; at > 0 && twin_is_newer(t, &out[at - 1], &out[at]); at--) {
            ms_info newest = out[at];
            out[at] = out[at - 1];
            out[at - 1] = newest;
        }
    return q->limit != 0 && n > q->limit ? q->limit : n;
}

static inline bool twin_names(const ms_keep *keep, ms_str location)
{
    for (size_t k = 0; k < keep->n_locations; k++)
        if (twin_str_equal(keep->locations[k], location)) return true;
    return keep->n_locations == 0;
}

static inline bool twin_shares_place(const twin_msg *a, const twin_msg *b)
{
    return !a->hidden && !b->hidden &&
           twin_value_equal(a->field[MS_F_LOCATION], b->field[MS_F_LOCATION]);
}

/* Is message i young enough? One without a time is; or, inherits, has the time of the
 * message before it. */
static inline bool twin_is_young(const twin *t, const ms_keep *keep, size_t i,
                                 bool inherits)
{
    const twin_msg *m = t->items[i];
    size_t k = i;
    while (inherits && k > 0 &&
           !(twin_shares_place(t->items[k], m) && t->items[k]->has_time))
        k--;
    bool timed = twin_shares_place(t->items[k], m) && t->items[k]->has_time;
    return !keep->has_since || !timed || keep->since_ns <= t->items[k]->time_ns;
}

/* Does the keep rule, but for bytes and turns, take message i? Newest counts what is
 * visible of the location. */
static inline bool twin_keeps(const twin *t, const ms_keep *keep, size_t i)
{
    const twin_msg *m = t->items[i];
    size_t newer = 0;
    if (m->hidden || !twin_names(keep, m->field[MS_F_LOCATION].text)) return false;
    for (size_t k = i + 1; k < t->count; k++) newer += twin_shares_place(t->items[k], m);
    return twin_is_young(t, keep, i, false) && (keep->newest == 0 || newer < keep->newest);
}

/* Does a turn begin with m, the next message of the location after `before`? */
static inline bool twin_begins_turn(const twin_msg *before, const twin_msg *m)
{
    ms_str last = before->field[MS_F_TURN_ID].text, turn = m->field[MS_F_TURN_ID].text;
    if (last.ptr != NULL || turn.ptr != NULL) return !twin_str_equal(last, turn);
    return m->type == MS_T_USER_MESSAGE;
}

/* The message after i in its turn; t->count: i is the last one. */
static inline size_t twin_next_in_turn(const twin *t, size_t i)
{
    size_t next = i + 1;
    while (next < t->count && !twin_shares_place(t->items[next], t->items[i])) next++;
    if (next < t->count && twin_begins_turn(t->items[i], t->items[next])) return t->count;
    return next;
}

/* Which messages a rule takes, from malloc. */
static inline bool *twin_kept(const twin *t, const ms_keep *keep)
{
    bool *kept = (bool *)twin_memory(NULL, t->count);
    uint64_t bytes = 0;
    for (size_t i = t->count; i-- > 0;) {
        kept[i] = twin_keeps(t, keep, i);
        if (kept[i]) bytes += t->items[i]->size;
        if (keep->newest_bytes != 0 && bytes > keep->newest_bytes) kept[i] = false;
    }
    if (!keep->whole_turns) return kept;
    for (size_t i = 0; i < t->count; i++)
        kept[i] = kept[i] && twin_is_young(t, keep, i, true);
    for (size_t i = t->count; i-- > 0;) {
        size_t next = twin_next_in_turn(t, i);
        if (next < t->count && kept[next]) kept[i] = true;
    }
    for (size_t i = 0; i < t->count; i++) {
        size_t next = twin_next_in_turn(t, i);
        if (next < t->count && kept[i]) kept[next] = true;
    }
    return kept;
}

/* A fresh copy of a message as views show it, to be appended to `location` (absent: its
 * own): the texts of changes are in it, and no traces of them. */
static inline twin_msg *twin_fold(const twin_msg *m, ms_str location)
{
    const twin_msg *shown = m->so_far != NULL ? m->so_far : m;
    ms_envelope envelope = twin_envelope(shown);
    char id[32];
    snprintf(id, sizeof id, "call_%llu", (unsigned long long)m->seq);
    if (location.ptr != NULL && envelope.type == MS_T_ACTION && envelope.call_id.len == 0)
        envelope.call_id = ms_str_of(id); /* a fork's: its result has that */
    twin_msg *copy = twin_msg_new(&envelope, location);
    copy->seq = m->seq;
    copy->flags = m->flags;
    copy->loose = m->loose;
    copy->redacted = m->redacted;
    copy->folded = (m->flags & (uint32_t)MS_FLAG_UNFINISHED) != 0;
    return copy;
}

/* Copies the notes of messages that were copied, and the facts of named locations. */
static inline void twin_copy_rest(twin *to, const twin *from, const ms_keep *keep,
                                  const bool *kept, ms_copy_report *report)
{
    for (size_t i = 0; i < from->records.count; i++) {
        const twin_msg *note = from->records.items[i];
        size_t about = twin_at(from, note->seq);
        if (note->kind != MS_KIND_NOTE) continue;
        if (about == SIZE_MAX || !kept[about]) {
            report->left_out++;
            continue;
        }
        report->notes++;
        if (keep->dry_run) continue;
        ms_envelope m = twin_envelope(note);
        twin_msg *copy = twin_msg_new(&m, m.location);
        copy->seq = note->seq;
        copy->kind = MS_KIND_NOTE;
        copy->redacted = note->redacted;
        twin_put(&to->records, copy);
    }
    for (size_t i = 0; !keep->dry_run && i < from->n_places; i++) {
        ms_str location = ms_str_n(from->places[i].location, from->places[i].len);
        if (!twin_names(keep, location) || from->places[i].facts == NULL) continue;
        if (json_object_size(from->places[i].facts) == 0) continue;
        twin_place *place = twin_place_of(to, location);
        place->facts = json_copy(from->places[i].facts);
        place->set = json_copy(from->places[i].facts);
        to->facts++;
    }
}

/* Copies into an empty twin what `keep` takes. No number is given again that a message of
 * the source ever had. */
static inline ms_copy_report twin_copy(twin *to, const twin *from, const ms_keep *keep)
{
    ms_copy_report report;
    bool *kept = twin_kept(from, keep);
    memset(&report, 0, sizeof report);
    for (size_t i = 0; i < from->count; i++) {
        if (!kept[i]) {
            report.dropped++;
            continue;
        }
        report.copied++;
        report.bytes += from->items[i]->size;
        if (keep->dry_run) continue;
        twin_msg *copy = twin_fold(from->items[i], ms_str_n(NULL, 0));
        twin_push(to, copy);
    }
    twin_copy_rest(to, from, keep, kept, &report);
    free(kept);
    if (!keep->dry_run && from->given > to->given) to->given = from->given;
    return report;
}


/* ---- comparing a store with its twin; a difference fails the test ---- */

/* A member of an object of numbers. */
static inline uint64_t twin_number_in(ms_str object, const char *name)
{
    char text[200], quoted[20];
    size_t len = object.len < sizeof text - 1 ? object.len : sizeof text - 1;
    if (len != 0) memcpy(text, object.ptr, len);
    text[len] = '\0';
    snprintf(quoted, sizeof quoted, "\"%s\"", name);
    const char *at = strstr(text, quoted);
    if (at == NULL || (at = strchr(at, ':')) == NULL) fail_msg("a HIDE has %s", text);
    return strtoull(at + 1, NULL, 10);
}

/* What differs between one of the twin's records and the store's, or NULL. */
static inline const char *twin_raw_differs(const twin_msg *want, const ms_msg *got)
{
    if (ms_kind_of(got) != want->kind) return "kind";
    if (!twin_str_equal(test_location(got), want->field[MS_F_LOCATION].text))
        return "location";
    if (want->kind == MS_KIND_HIDE) {
        ms_str text = ms_content(got).text;
        if (twin_number_in(text, "messages") != want->hid) return "how many it hides";
        if (twin_number_in(text, "first") > want->lowest) return "the first it hides";
        return twin_number_in(text, "last") < want->highest ? "the last it hides" : NULL;
    }
    const char *what = twin_head_differs(want, got);
    if (what != NULL) return what;
    if (want->redacted) return twin_redacted_differs(want, got, true);
    for (int i = 1; i < MS_FIELD_COUNT; i++)
        if (!twin_field_equal(want, i, ms_get(got, (ms_field)i)))
            return twin_field_name(i);
    return NULL;
}

/* raw: a record as it stands. */
static inline void twin_must_match_as(const twin_msg *want, const ms_msg *got, bool raw,
                                      const char *where)
{
    const char *what = raw ? twin_raw_differs(want, got) : twin_differs(want, got);
    if (what != NULL)
        fail_msg("%s: record of kind %d about message %llu: %s differs", where,
                 (int)want->kind, (unsigned long long)want->seq, what);
}

static inline void twin_must_match(const twin_msg *want, const ms_msg *got,
                                   const char *where)
{
    twin_must_match_as(want, got, false, where);
}

/* Runs a cursor to its end and compares it with the list. */
static inline void twin_must_read_as(const twin_msg *const *want, size_t n, ms_cursor *it,
                                     bool raw, const char *where)
{
    ms_error err;
    const ms_msg *msg;
    size_t i = 0;
    while ((msg = ms_next(it)) != NULL) {
        if (i == n) fail_msg("%s: more than the %zu messages expected", where, n);
        twin_must_match_as(want[i++], msg, raw, where);
    }
    if (i != n) fail_msg("%s: %zu messages where %zu were expected", where, i, n);
    if (ms_cursor_close(it, &err) != MS_OK) fail_msg("%s: %s", where, err.message);
}

/* Room for the answer to any query. */
static inline const twin_msg **twin_answers(const twin *t)
{
    return (const twin_msg **)twin_memory(NULL, (t->records.count + t->count + 1) *
                                                    sizeof(const twin_msg *));
}

static inline void twin_must_query(const twin *t, ms_store *store, const ms_query *q)
{
    const twin_msg **want = twin_answers(t);
    size_t n = twin_query(t, q, want);
    ms_cursor it;
    ms_error err;
    must_ok(ms_query_open(store, q, &it, &err), &err, "query");
    twin_must_read_as(want, n, &it, q->raw != 0, q->raw != 0 ? "raw query" : "query");
    free(want);
}

static inline void twin_must_list(const twin *t, ms_store *store, const ms_list_query *q)
{
    ms_info *want = (ms_info *)twin_memory(NULL, (t->count + 1) * sizeof want[0]);
    size_t n = twin_list(t, q, want);
    ms_arena arena;
    ms_listing got;
    ms_error err;
    test_arena_init(&arena, NULL);
    must_ok(ms_list(store, q, &arena, &got, &err), &err, "list");
    assert_int_equal(got.count, n);
    for (size_t i = 0; i < n; i++) {
        const ms_info *a = &want[i], *b = &got.items[i];
        assert_true(twin_str_equal(a->location, b->location));
        assert_true(twin_str_equal(a->agent_key, b->agent_key));
        assert_int_equal(a->messages, b->messages);
        assert_int_equal(a->first_seq, b->first_seq);
        assert_int_equal(a->last_seq, b->last_seq);
        assert_true(a->messages == 0 || a->first_time_ns == b->first_time_ns);
        assert_true(a->messages == 0 || a->last_time_ns == b->last_time_ns);
    }
    ms_arena_deinit(&arena);
    free(want);
}

/* What the store chose itself: the size of a record. It holds the fields and a header. */
static inline void twin_learn_size(twin_msg *m, const ms_msg *msg)
{
    size_t fields = 0;
    if (m->size != 0) return;
    m->size = ms_size(msg);
    for (int f = 1; !m->redacted && f < MS_FIELD_COUNT; f++)
        fields += m->field[f].text.len;
    assert_true(m->size > fields);
    assert_int_equal(m->size % 8, 0);
}

/* One message by its number, with an arena and without. */
static inline void twin_must_get(const twin *t, twin_msg *want, ms_store *store,
                                 ms_arena *arena)
{
    const ms_msg *msg;
    ms_error err;
    if (want->hidden) {
        assert_int_equal(ms_get_by_seq(store, want->seq, arena, &msg, NULL),
                         MS_E_NOT_FOUND);
        return;
    }
    must_ok(ms_get_by_seq(store, want->seq, arena, &msg, &err), &err, "by number");
    if (want->so_far == NULL) twin_learn_size(want, msg);
    twin_must_match(want->so_far != NULL ? want->so_far : want, msg, "by number");
    if (t->joined)
        assert_int_equal(ms_get_by_seq(store, want->seq, NULL, &msg, NULL), MS_E_ARENA);
    if (want->so_far == NULL || t->copies) return;
    if (ms_get_by_seq(store, want->seq, NULL, &msg, &err) != MS_OK)
        fail_msg("by number, without arena: %s", err.message);
    twin_must_match(want, msg, "by number, without arena");
}


/* Message i is found by its number, unless it is hidden. */
static inline void twin_must_place(const twin *t, ms_store *store, size_t i)
{
    ms_arena arena;
    test_arena_init(&arena, NULL);
    twin_must_get(t, t->items[i], store, &arena);
    ms_arena_deinit(&arena);
}


/* Every record as it stands. Learns their sizes. *changes: those that are no messages. */
static inline void twin_must_equal_raw(twin *t, ms_store *store, uint64_t *changes)
{
    ms_cursor it;
    ms_error err;
    const ms_msg *msg;
    size_t i = 0, facts = 0;
    *changes = 0;
    ms_query all = {.raw = MS_RAW_ALL};
    must_ok(ms_query_open(store, &all, &it, &err), &err, "raw");
    while ((msg = ms_next(&it)) != NULL) {
        ms_kind kind = ms_kind_of(msg);
        *changes += kind != MS_KIND_MESSAGE;
        facts += kind == MS_KIND_LOCATION && !ms_repeats_facts(msg);
        if (kind == MS_KIND_LOCATION || kind == MS_KIND_PART) continue;
        if (i == t->records.count) fail_msg("raw: a record too much, kind %d", (int)kind);
        twin_msg *want = t->records.items[i++];
        twin_must_match_as(want, msg, true, "raw");
        if (kind == MS_KIND_MESSAGE || kind == MS_KIND_AMEND) twin_learn_size(want, msg);
    }
    assert_int_equal(facts, t->facts);
    if (i != t->records.count)
        fail_msg("raw: %zu records where %zu were expected", i, t->records.count);
    must_ok(ms_cursor_close(&it, &err), &err, "raw");
}

/* What a follower sees from the beginning, from the middle, and beyond the end. */
static inline void twin_must_follow(ms_store *store, uint64_t seq, ms_str text,
                                    bool ended)
{
    ms_stream_text got;
    ms_arena arena;
    ms_error err;
    test_arena_init(&arena, NULL);
    for (size_t from = 0, n = 0; n < 2; from = text.len / 2, n++) {
        ms_str rest = ms_str_n(text.ptr + from, text.len - from);
        if (ms_stream_read(store, seq, from, &arena, &got, &err) != MS_OK)
            fail_msg("following a stream: %s", err.message);
        if (got.ended != ended) fail_msg("whether a stream has ended");
        if (got.next != text.len) fail_msg("a stream goes on at another place");
        if (!ms_str_equal(got.text, rest))
            fail_msg("a stream has another text: %zu bytes from %zu, not %zu",
                     got.text.len, from, rest.len);
    }
    if (!ended)
        assert_int_equal(ms_stream_read(store, seq, text.len + 1, &arena, &got, NULL),
                         MS_E_RANGE);
    ms_arena_deinit(&arena);
}

/* The parts of an unfinished message, one after the other, are the end of its text. */
static inline void twin_must_equal_parts(const twin *t, ms_store *store)
{
    for (size_t i = 0; i < t->count; i++) {
        const twin_msg *m = t->items[i];
        if (m->so_far == NULL || m->redacted || !m->open) continue;
        int field = m->type == MS_T_ACTION ? MS_F_ARGS : MS_F_CONTENT;
        ms_str rest = m->so_far->field[field].text;
        ms_cursor it;
        const ms_msg *msg;
        ms_query q = {.location = m->field[MS_F_LOCATION].text, .raw = MS_RAW_PARTS,
                      .about_seq = m->seq};
        rest = ms_str_n(rest.ptr + m->field[field].text.len,
                        rest.len - m->field[field].text.len);
        assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
        while ((msg = ms_next(&it)) != NULL) {
            ms_str part = ms_content(msg).text;
            assert_int_equal(ms_kind_of(msg), MS_KIND_PART);
            assert_int_equal(ms_seq(msg), m->seq);
            assert_true(test_str_starts_with(rest, part));
            rest = ms_str_n(rest.ptr + part.len, rest.len - part.len);
        }
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        assert_int_equal(rest.len, 0);
    }
}

/* The facts of every location that the twin has heard of. */
static inline void twin_must_equal_facts(const twin *t, ms_store *store, ms_arena *arena)
{
    for (size_t i = 0; i < t->n_places; i++) {
        const twin_place *place = &t->places[i];
        ms_str facts;
        ms_error err;
        if (ms_location_get(store, ms_str_n(place->location, place->len), arena, &facts,
                            &err) != MS_OK)
            fail_msg("facts: %s", err.message);
        json_t *got = json_loadb(facts.ptr, facts.len, 0, NULL);
        json_t *want = place->facts != NULL ? json_incref(place->facts) : json_object();
        if (got == NULL || !json_equal(got, want))
            fail_msg("facts of %.*s: %.*s", (int)place->len, place->location,
                     (int)facts.len, facts.ptr);
        json_decref(got);
        json_decref(want);
    }
}

/* The totals. */
static inline void twin_must_count(const twin *t, ms_store *store, uint64_t *changes)
{
    ms_stat stat;
    uint64_t bytes = 0, hidden = 0;
    for (size_t i = 0; i < t->count; i++) {
        bytes += twin_first(t->items[i])->size;
        hidden += t->items[i]->hidden;
    }
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    assert_int_equal(stat.messages, t->count - hidden);
    assert_int_equal(stat.hidden, hidden);
    assert_int_equal(stat.last_seq, twin_last_seq(t));
    assert_int_equal(stat.bytes, bytes);
    if (changes != NULL) assert_int_equal(stat.changes, *changes);
}

/* Every message, forwards and by number, every record, the totals, and the store's own
 * check. */
static inline void twin_must_equal(twin *t, ms_store *store)
{
    ms_query all;
    ms_error err;
    ms_arena arena;
    uint64_t changes = 0;
    test_arena_init(&arena, NULL);
    memset(&all, 0, sizeof all);
    must_ok(ms_selfcheck(store, &err), &err, "selfcheck");
    if (t->raw) {
        twin_must_equal_raw(t, store, &changes);
        twin_must_equal_parts(t, store);
        twin_must_equal_facts(t, store, &arena);
    }
    twin_must_query(t, store, &all);
    for (size_t i = 0; i < t->count; i++) twin_must_get(t, t->items[i], store, &arena);
    ms_arena_deinit(&arena);
    twin_must_count(t, store, &changes);
}


/* ---- changes: each is tried on both ---- */

/* The results of a change of message i when it is hidden or not there; 0: it is. */
static inline uint64_t twin_unfit(const twin *t, size_t i)
{
    if (i == SIZE_MAX) return TWIN_BIT(MS_E_NOT_FOUND);
    return t->items[i]->hidden ? TWIN_BIT(MS_E_HIDDEN) : 0;
}

static inline twin_msg *twin_new_record(twin *t, ms_kind kind, const ms_envelope *m,
                                        uint64_t seq)
{
    twin_msg *record = twin_msg_new(m, ms_str_n(NULL, 0));
    record->kind = kind;
    record->seq = seq;
    return twin_put(&t->records, record);
}

static inline bool twin_other(ms_str given, const twin_msg *old, ms_field field)
{
    return given.ptr != NULL && !twin_str_equal(given, old->field[field].text);
}

/* What an amended message may not change. */
static inline uint64_t twin_unfit_amend(const twin *t, size_t i, const ms_envelope *m)
{
    uint64_t wrong = twin_unfit(t, i);
    if (i == SIZE_MAX) return wrong;
    const twin_msg *old = t->items[i];
    if (m->type != old->type) wrong |= TWIN_BIT(MS_E_TYPE);
    if (old->redacted) wrong |= TWIN_BIT(MS_E_CONFLICT);
    if (twin_other(m->location, old, MS_F_LOCATION) ||
        twin_other(m->agent_key, old, MS_F_AGENT_KEY) ||
        twin_other(m->key, old, MS_F_KEY))
        wrong |= TWIN_BIT(MS_E_ARGUMENT);
    return wrong;
}

/* Replaces message i. unfinished: the flag stays (a recovered stream). */
static inline twin_msg *twin_replace(twin *t, size_t i, const ms_envelope *m,
                                     bool unfinished)
{
    twin_msg *old = t->items[i];
    ms_envelope full = *m;
    uint32_t loose = 0;
    ms_str *const kept[] = {&full.turn_id, &full.id, &full.key, &full.location,
                            &full.agent_key};
    const ms_field from[] = {MS_F_TURN_ID, MS_F_ID, MS_F_KEY, MS_F_LOCATION,
                             MS_F_AGENT_KEY};
    for (size_t k = 0; k < 5; k++) {
        if (kept[k]->ptr != NULL) continue;
        *kept[k] = old->field[from[k]].text;
        if (kept[k]->ptr != NULL) loose |= old->flags & (uint32_t)MS_FLAG_REPAIRED;
    }
    if (!full.has_time) {
        full.has_time = old->has_time;
        full.time_ns = old->time_ns;
        full.flags |= old->flags & (uint32_t)MS_FLAG_STAMPED;
    }
    full.flags |= old->flags & (uint32_t)MS_FLAG_JOINED;
    twin_msg *record = twin_new_record(t, MS_KIND_AMEND, &full, old->seq);
    record->flags |= (uint32_t)MS_FLAG_AMENDED;
    if (unfinished) record->flags |= (uint32_t)MS_FLAG_UNFINISHED;
    record->loose = loose | old->loose;
    record->first = old->first != NULL ? old->first : old;
    return t->items[i] = record;
}

static inline bool twin_amend_both(twin *t, ms_store *store, uint64_t seq,
                                   const ms_envelope *m)
{
    ms_error err;
    size_t i = twin_at(t, seq);
    uint64_t wrong = twin_unfit_amend(t, i, m);
    ms_result got = ms_amend(store, seq, m, &err);
    if (!twin_answer(t, wrong, got, "amend", &err)) return false;
    twin_replace(t, i, m, false);
    return true;
}

/* Hides what a location shows from first to last; how many. */
static inline uint64_t twin_hide_range(twin *t, ms_str location, uint64_t first,
                                       uint64_t last)
{
    uint64_t n = 0, lowest = 0, highest = 0;
    for (size_t i = 0; i < t->count; i++) {
        twin_msg *old = t->items[i];
        if (old->hidden || old->seq < first || old->seq > last ||
            !twin_str_equal(old->field[MS_F_LOCATION].text, location))
            continue;
        old->hidden = true;
        if (n++ == 0) lowest = old->seq;
        highest = old->seq;
    }
    if (n == 0) return 0;
    ms_envelope m = {.location = location};
    twin_msg *record = twin_new_record(t, MS_KIND_HIDE, &m, 0);
    record->lowest = lowest;
    record->highest = highest;
    record->hid = n;
    record->from = first;
    record->to = last < twin_last_seq(t) ? last : twin_last_seq(t);
    return n;
}

static inline bool twin_hide_both(twin *t, ms_store *store, uint64_t seq)
{
    ms_error err;
    size_t i = twin_at(t, seq);
    uint64_t wrong = twin_unfit(t, i);
    ms_result got = ms_hide(store, seq, &err);
    if (!twin_answer(t, wrong, got, "hide", &err)) return false;
    twin_hide_range(t, t->items[i]->field[MS_F_LOCATION].text, seq, seq);
    return true;
}

static inline bool twin_hide_range_both(twin *t, ms_store *store, ms_str location,
                                        uint64_t first, uint64_t last)
{
    ms_error err;
    uint64_t hidden = 77;
    ms_result got = ms_hide_range(store, location, first, last, &hidden, &err);
    uint64_t allowed = TWIN_BIT(first > last ? MS_E_RANGE : MS_OK);
    if (!twin_answer(t, allowed, got, "hide a range", &err)) return false;
    assert_int_equal(hidden, twin_hide_range(t, location, first, last));
    return true;
}

static inline bool twin_rewind_both(twin *t, ms_store *store, ms_str location,
                                    uint64_t seq)
{
    ms_error err;
    uint64_t hidden = 77;
    size_t i = twin_at(t, seq);
    uint64_t wrong = seq != 0 ? twin_unfit(t, i) : 0;
    if (seq != 0 && i != SIZE_MAX &&
        !twin_str_equal(t->items[i]->field[MS_F_LOCATION].text, location))
        wrong |= TWIN_BIT(MS_E_ARGUMENT);
    ms_result got = ms_rewind(store, location, seq, &hidden, &err);
    if (!twin_answer(t, wrong, got, "rewind", &err)) return false;
    assert_int_equal(hidden, twin_hide_range(t, location, seq + 1, UINT64_MAX));
    return true;
}

/* The one change of copies that there are: the caller sees that no cursor holds one. What
 * is visible is shown by an amend from then on. */
static inline bool twin_redact_both(twin *t, ms_store *store, uint64_t seq)
{
    ms_error err;
    size_t at = twin_at(t, seq);
    ms_result got = ms_redact(store, seq, &err);
    uint64_t allowed = TWIN_BIT(at == SIZE_MAX ? MS_E_NOT_FOUND : MS_OK);
    if (!twin_answer(t, allowed, got, "redact", &err)) return false;
    twin_msg *m = t->items[at];
    if (!m->hidden && !m->redacted) {
        ms_envelope shown = twin_envelope(m);
        m = twin_replace(t, at, &shown, false);
        m->flags &= ~(uint32_t)MS_FLAG_AMENDED;
        m->flags |= (uint32_t)MS_FLAG_REDACTED;
        m->loose |= (uint32_t)(MS_FLAG_AMENDED | MS_FLAG_REPAIRED |
                               MS_FLAG_UNFINISHED);
    }
    for (size_t i = 0; i < t->records.count; i++) {
        twin_msg *record = t->records.items[i];
        bool cost = record->kind == MS_KIND_NOTE &&
                    ms_str_equal(record->field[MS_F_TYPE_NAME].text, MS_STR("usage"));
        if (record->seq == seq && record->kind != MS_KIND_HIDE && !cost)
            record->redacted = true;
    }
    return true;
}

/* Adds the note that the store took, if it did. */
static inline bool twin_noted(twin *t, uint64_t seq, ms_str kind, ms_value value,
                              ms_result got, const ms_error *err)
{
    size_t i = twin_at(t, seq);
    if (!twin_answer(t, twin_unfit(t, i), got, "note", err)) return false;
    ms_envelope m = {.location = t->items[i]->field[MS_F_LOCATION].text,
                     .agent_key = t->items[i]->field[MS_F_AGENT_KEY].text,
                     .turn_id = t->items[i]->field[MS_F_TURN_ID].text, .type_name = kind,
                     .content = value, .has_time = true, .time_ns = t->now};
    twin_new_record(t, MS_KIND_NOTE, &m, seq);
    return true;
}

static inline bool twin_note_both(twin *t, ms_store *store, uint64_t seq, ms_str kind,
                                  ms_value value)
{
    ms_error err;
    ms_result got = ms_note(store, seq, kind, value, &err);
    return twin_noted(t, seq, kind, value, got, &err);
}

/* What is 0 is not in the note. */
static inline bool twin_usage_both(twin *t, ms_store *store, uint64_t seq,
                                   const ms_usage *u)
{
    const struct { const char *name; double value; } members[] = {
        {"input_tokens", (double)u->input_tokens},
        {"output_tokens", (double)u->output_tokens},
        {"cached_tokens", (double)u->cached_tokens},
        {"reasoning_tokens", (double)u->reasoning_tokens},
        {"seconds", (double)u->duration_ns / 1e9}};
    char text[300] = "{";
    size_t used = 1;
    ms_error err;
    for (size_t i = 0; i < 5; i++)
        if (members[i].value != 0)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%s\":%.12g",
                                     used > 1 ? "," : "", members[i].name,
                                     members[i].value);
    strcpy(text + used, "}");
    ms_result got = ms_note_usage(store, seq, u, &err);
    return twin_noted(t, seq, MS_STR("usage"), ms_json(ms_str_of(text)), got, &err);
}

/* Replaces members, null removes one. */
static inline void twin_set_facts(twin_place *place, json_t *facts)
{
    const char *name;
    json_t *value;
    if (place->facts == NULL) place->facts = json_object();
    if (place->set == NULL) place->set = json_object();
    json_object_update(place->set, facts);
    json_object_foreach(facts, name, value) {
        if (json_is_null(value)) json_object_del(place->facts, name);
        else json_object_set(place->facts, name, value);
    }
}

static inline bool twin_facts_both(twin *t, ms_store *store, ms_str location,
                                   ms_str facts)
{
    ms_error err;
    ms_result got = ms_location_set(store, location, facts, &err);
    if (!twin_answer(t, 0, got, "facts", &err)) return false;
    json_t *json = json_loadb(facts.ptr, facts.len, 0, NULL);
    assert_non_null(json);
    twin_set_facts(twin_place_of(t, location), json);
    json_decref(json);
    t->facts++;
    return true;
}

/* Messages of a location, hidden ones too. */
static inline size_t twin_count_of(const twin *t, ms_str location)
{
    size_t n = 0;
    for (size_t i = 0; i < t->count; i++)
        n += twin_str_equal(t->items[i]->field[MS_F_LOCATION].text, location);
    return n;
}

/* The twin takes over what a fork has made; the numbers are the store's and must rise. */
static inline void twin_fork(twin *t, ms_store *store, ms_str from, uint64_t seq,
                             ms_str to)
{
    ms_cursor it;
    twin_msg *last = NULL;
    json_t *facts = json_object();
    size_t count = t->count;
    ms_query q = {.location = to};
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    for (size_t i = 0; i < count; i++) {
        const twin_msg *m = t->items[i];
        if (m->hidden || m->seq > seq ||
            !twin_str_equal(m->field[MS_F_LOCATION].text, from))
            continue;
        const ms_msg *got = ms_next(&it);
        twin_msg *copy = twin_fold(m, to);
        if (got == NULL) fail_msg("fork: a message is missing");
        if (ms_seq(got) <= t->given) fail_msg("fork: numbers do not grow");
        copy->seq = ms_seq(got);
        twin_push(t, copy);
        if (last != NULL) last->inside = true;
        last = copy;
    }
    if (ms_next(&it) != NULL) fail_msg("fork: a message too much");
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    if (twin_place_of(t, from)->facts != NULL)
        json_object_update(facts, twin_place_of(t, from)->facts);
    json_object_set_new(facts, "parent", json_stringn(from.ptr, from.len));
    json_object_set_new(facts, "parent_seq", json_integer((json_int_t)seq));
    twin_set_facts(twin_place_of(t, to), facts);
    json_decref(facts);
    t->facts++;
}

static inline bool twin_fork_both(twin *t, ms_store *store, ms_str from, uint64_t seq,
                                  ms_str to, ms_arena *arena)
{
    ms_error err;
    size_t i = twin_at(t, seq);
    uint64_t wrong = seq != 0 ? twin_unfit(t, i) : 0;
    if (seq != 0 && i != SIZE_MAX &&
        !twin_str_equal(t->items[i]->field[MS_F_LOCATION].text, from))
        wrong |= TWIN_BIT(MS_E_ARGUMENT);
    if (twin_count_of(t, to) != 0) wrong |= TWIN_BIT(MS_E_CONFLICT);
    ms_result got = ms_fork(store, from, seq, to, arena, &err);
    if (!twin_answer(t, wrong, got, "fork", &err)) return false;
    twin_fork(t, store, from, seq, to);
    return true;
}


/* ---- unions ---- */

/* Returns a copy under the number of the union, which borrows the fields of m. */
static inline twin_msg *twin_renumbered(const twin_msg *m, uint64_t which)
{
    twin_msg *out = (twin_msg *)twin_memory(NULL, sizeof *out);
    *out = *m;
    out->bytes = NULL;
    if (m->seq != 0) out->seq |= which << 40;
    out->from |= which << 40; /* `lowest` and `highest` stand in the text of a HIDE */
    out->to |= which << 40;
    return out;
}

/* Adds the twin of store `which`, which has to stay: its records after those that there
 * are, and its facts over them. */
static inline void twin_join(twin *all, const twin *part, uint64_t which)
{
    all->joined = all->raw = all->copies = true;
    for (size_t i = 0; i < part->records.count; i++)
        twin_put(&all->records, twin_renumbered(part->records.items[i], which));
    for (size_t i = 0; i < part->count; i++) {
        const twin_msg *m = part->items[i];
        twin_msg *out = twin_put(&all->others, twin_renumbered(m, which));
        if (m->first != NULL)
            out->first = twin_put(&all->others, twin_renumbered(m->first, which));
        if (m->so_far != NULL)
            out->so_far = twin_put(&all->others, twin_renumbered(m->so_far, which));
        twin_grow(all);
        all->items[all->count++] = out;
    }
    for (size_t i = 0; i < part->n_places; i++) {
        ms_str location = ms_str_n(part->places[i].location, part->places[i].len);
        twin_place *place = twin_place_of(all, location);
        if (part->places[i].set != NULL) twin_set_facts(place, part->places[i].set);
    }
    all->facts += part->facts;
    if (part->given != 0) all->given = part->given | which << 40;
}


/* ---- streams ----
 * Parts are whole characters, and what a writer collects is written before the next look.
 * What it holds back until then is in tests/scripts/stream.txt. */

/* The writer's side of a message that is being written. */
typedef struct twin_stream {
    ms_stream s;
    uint64_t seq;             /* 0: none */
} twin_stream;

static inline ms_field twin_stream_field(const twin_msg *m)
{
    return m->type == MS_T_ACTION ? MS_F_ARGS : MS_F_CONTENT;
}

static inline ms_str twin_text_so_far(const twin_msg *m)
{
    return (m->so_far != NULL ? m->so_far : m)->field[twin_stream_field(m)].text;
}

/* Appends the unfinished message. content (args of an action) is text or absent. */
static inline bool twin_begin_both(twin *t, ms_store *store, twin_stream *w,
                                   ms_str location, const ms_envelope *m,
                                   const ms_stream_opts *opts)
{
    ms_error err;
    ms_envelope begun = *m;
    ms_value *text = m->type == MS_T_ACTION ? &begun.args : &begun.content;
    if (text->text.ptr == NULL) *text = ms_text("");
    memset(w, 0, sizeof *w);
    ms_result got = ms_stream_begin(&w->s, store, location, m, opts, &err);
    if (!twin_answer(t, 0, got, "begin a stream", &err)) {
        assert_null(w->s.store);
        return false;
    }
    ms_append_opts append = {.location = location};
    w->seq = w->s.seq;
    twin_add(t, &begun, 1, &append, &w->seq);
    twin_msg *item = t->items[t->count - 1];
    item->flags |= (uint32_t)MS_FLAG_UNFINISHED;
    item->open = true;
    return true;
}

/* The results for a writer whose message is not what it was; 0: it is. */
static inline uint64_t twin_unfit_stream(const twin *t, const twin_stream *w)
{
    const twin_msg *m = twin_get(t, w->seq);
    uint64_t wrong = m->hidden ? TWIN_BIT(MS_E_HIDDEN) : 0;
    if (!m->open || m->redacted) wrong |= TWIN_BIT(MS_E_CLOSED);
    return wrong;
}

/* A message with the text that was streamed: of an action JSON when it is an object. */
static inline ms_envelope twin_streamed(const twin_msg *m, ms_str text)
{
    ms_envelope out = twin_envelope(m);
    if (m->type == MS_T_ACTION) {
        json_t *json = json_loadb(text.ptr, text.len, JSON_ALLOW_NUL, NULL);
        out.args = ms_text_n(text);
        out.args.json = json_is_object(json);
        json_decref(json);
    } else {
        out.content = ms_text_n(text);
    }
    return out;
}

/* Views with an arena show the part from now on. */
static inline void twin_write(twin *t, twin_msg *m, ms_str part)
{
    ms_str old = twin_text_so_far(m);
    char *text = (char *)twin_memory(NULL, old.len + part.len);
    memcpy(text, old.ptr, old.len);
    memcpy(text + old.len, part.ptr, part.len);
    ms_envelope shown = twin_streamed(m, ms_str_n(text, old.len + part.len));
    twin_msg *so_far = twin_msg_new(&shown, ms_str_n(NULL, 0));
    so_far->seq = m->seq;
    so_far->flags = m->flags;
    so_far->loose = m->loose;
    so_far->open = true;
    m->so_far = twin_put(&t->others, so_far);
    free(text);
}

static inline bool twin_feed_both(twin *t, ms_store *store, twin_stream *w, ms_str part)
{
    ms_error err;
    twin_msg *m = t->items[twin_at(t, w->seq)];
    uint64_t wrong = twin_unfit_stream(t, w), allowed = wrong;
    ms_result got = ms_stream_feed(&w->s, part, &err);
    if (got == MS_OK) got = test_stream_flush(&w->s, &err);
    if (part.len == 0) allowed |= TWIN_BIT(MS_OK); /* nothing is written */
    bool took = twin_answer(t, allowed, got, "feed", &err) && wrong == 0;
    if (took && part.len != 0) twin_write(t, m, part);
    if (wrong == 0) twin_must_follow(store, w->seq, twin_text_so_far(m), false);
    return took;
}

/* final: NULL, or what the message is in the end. */
static inline bool twin_end_both(twin *t, ms_store *store, twin_stream *w,
                                 const ms_envelope *final)
{
    ms_error err;
    size_t i = twin_at(t, w->seq);
    uint64_t wrong = twin_unfit_stream(t, w);
    if (final != NULL) wrong |= twin_unfit_amend(t, i, final);
    ms_result got = ms_stream_end(&w->s, final, NULL, &err);
    if (!twin_answer(t, wrong, got, "end", &err)) return false;
    assert_null(w->s.store);
    ms_envelope whole = twin_streamed(t->items[i], twin_text_so_far(t->items[i]));
    twin_msg *m = twin_replace(t, i, final != NULL ? final : &whole, false);
    if (final == NULL) m->loose |= (uint32_t)MS_FLAG_REPAIRED;
    twin_must_follow(store, w->seq, twin_text_so_far(m), true);
    w->seq = 0;
    return true;
}

/* Ends the stream of a message whose writer is gone. */
static inline bool twin_recover_both(twin *t, ms_store *store, uint64_t seq)
{
    ms_error err;
    ms_arena arena;
    size_t i = twin_at(t, seq);
    uint64_t wrong = twin_unfit(t, i);
    const twin_msg *m = i != SIZE_MAX ? t->items[i] : NULL;
    if (m != NULL && (!m->open || m->redacted)) wrong |= TWIN_BIT(MS_E_CLOSED);
    if (wrong == TWIN_BIT(MS_E_CLOSED) && m->folded) wrong |= TWIN_BIT(MS_OK);
    test_arena_init(&arena, NULL);
    ms_result got = ms_stream_recover(store, seq, &arena, &err);
    ms_arena_deinit(&arena);
    if (!twin_answer(t, wrong, got, "recover", &err)) return false;
    ms_envelope whole = twin_streamed(m, twin_text_so_far(m));
    twin_msg *now = twin_replace(t, i, &whole, true);
    now->loose |= (uint32_t)MS_FLAG_REPAIRED;
    return true;
}

#endif /* TWIN_H */
