/* Fuzzes the tool's readers of transcripts (tools/read_*.c), with the trace that they
 * fill, and its reader of messages (tools/input.c).
 *
 *   byte 0    the format, by its place in the tool's list; the number after the last:
 *             the one that the text is recognised as, or messages
 *   byte 1    bits: --strict; calls without an agent get one; --keep-going for messages
 *   byte 2    where the file is cut, in parts of 256 of its length
 *   the rest  the file
 *
 * What a reader takes goes to an arena store. No store refuses it, and the process does
 * not exit: without --strict a reader ends well, or has counted damage. Of each message
 *
 *   the text as JSON lines is read back as the same message
 *   secrets are masked, and masked again they are the same; JSON stays JSON
 *
 * Of each file
 *
 *   every entry is taken, or counted: a line of JSON Lines, an element of the lists of a
 *   document
 *   read again, and stored after each entry rather than at the end, it gives the same
 *   messages, facts, notes and counts
 *   cut in JSON Lines, it has the messages of the lines before, and what is left of the
 *   last line is counted
 *   what is complained of has no control character
 *
 * Memory that an input takes is given back; the sanitizer counts that.
 * Left out: databases, ZIP files, zstd and folders, which are read from paths (rows of a
 * database, as the tool makes them, are JSON, and are here); files beside a transcript;
 * what a file is that was stored before, see test_sync.c.
 */

#define _GNU_SOURCE
#define FUZZ_MOST 4096
#include "store.h"

#include "tools/formats.h"
#include "tools/input.h"
#include "tools/secrets.h"

#ifdef FUZZ_ASAN
#include <sanitizer/allocator_interface.h>
#endif

enum { STRICT = 1, GUESS = 2, KEEP = 4 };
enum { ROOM = 4 << 20, SAID = 1 << 18, MOST = 8192 };

/* The path of all inputs: there is no file there, nor one beside it. */
static const char path[] = "/dev/null/p/sample.jsonl";

static uint64_t rooms[2][ROOM / 8];
static union {
    char bytes[SAID];
    double align;
} said_room;
static ms_arena arena;        /* of this input */
static ms_str input;
static const char *whose;     /* the format's name */
static const char *step;      /* what is being done with it */

static const ms_buf *said;    /* what the reader complains of; NULL: it does not read */

static void wrong(const char *what, const ms_error *err)
{
    fuzz_show("file", input);
    if (said != NULL) fuzz_show("said", ms_str_n(said->ptr, said->len));
    fuzz_fail("%s, %s: %s%s%s", whose, step, what, err != NULL ? ": " : "",
              err != NULL ? err->message : "");
}

/* A reader that calls exit() ends the process here. */
static bool inside;

static void at_exit(void)
{
    if (inside) wrong("it exits", NULL);
}


/* ---- Memory that is not given back ------------------------------------------------- */

#ifdef FUZZ_ASAN
static size_t live_blocks;

static void block_taken(const volatile void *at, size_t size)
{
    (void)size;
    live_blocks += at != NULL;
}

static void block_given(const volatile void *at)
{
    live_blocks -= at != NULL;
}
#else
static const size_t live_blocks = 0;
#endif

static void begin_once(void)
{
    static bool begun;
    if (begun) return;
    begun = true;
    atexit(at_exit);
#ifdef FUZZ_ASAN
    __sanitizer_install_malloc_and_free_hooks(block_taken, block_given);
#endif
}


/* ---- What was read ----------------------------------------------------------------- */

typedef struct outcome {
    int code;
    uint64_t done;            /* bytes that were read */
    uint64_t messages, calls, results, answers, unknown, hidden, bad;
    uint64_t counted;         /* entries that are no message */
    uint64_t tallies;         /* hash of what they are */
    uint64_t notes, facts, shown, places, complaints;   /* hashes */
} outcome;

/* One reading: what it gave, and hashes of its messages, in the order of the file. */
typedef struct taking {
    outcome out;
    ms_store *store;
    counts counts;
    options options;
    size_t live;              /* blocks of memory before it */
    bool late;                /* messages were stored before their session was named */
    uint64_t hashes[MOST];
} taking;

static taking whole, again, part;

static uint64_t mixed(uint64_t hash, uint64_t more)
{
    return (hash ^ more) * UINT64_C(0x9E3779B97F4A7C15) + (hash >> 29);
}

static uint64_t hash_tally(uint64_t hash, const tally *t)
{
    for (size_t i = 0; i < arrlenu(t->rows); i++) {
        hash = mixed(hash, hash_bytes(t->rows[i].text));
        hash = mixed(hash, t->rows[i].count);
    }
    return hash;
}

static uint64_t count_tally(const tally *t)
{
    uint64_t n = 0;
    for (size_t i = 0; i < arrlenu(t->rows); i++) n += t->rows[i].count;
    return n;
}

static uint64_t hash_message(const ms_msg *msg)
{
    ms_value fields[MS_FIELD_COUNT];
    int64_t time = 0;
    uint32_t set = ms_fields(msg, fields);
    uint64_t hash = mixed((uint64_t)ms_type_of(msg), (uint64_t)ms_role_of(msg));
    hash = mixed(hash, ms_time(msg, &time) ? (uint64_t)time : 1);
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) {
        if (!(set >> f & 1) || f == MS_F_LOCATION) continue;
        hash = mixed(hash, hash_bytes(fields[f].text));
        hash = mixed(hash, f * 2 + fields[f].json);
    }
    return hash;
}

/* Hashes of the records of a store; `places`: of the locations of its messages. */
static uint64_t hash_records(taking *t, unsigned raw, uint64_t *places)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    uint64_t hash = 1;
    size_t n = 0;
    memset(&q, 0, sizeof q);
    q.raw = raw;
    if (ms_query_open(t->store, &q, &it, NULL) != MS_OK) wrong("no query", NULL);
    while ((msg = ms_next(&it)) != NULL) {
        uint64_t one = hash_message(msg);
        if (raw == MS_RAW_MESSAGES && n < MOST) t->hashes[n++] = one;
        hash = mixed(hash, one);
        if (places != NULL) *places = mixed(*places, hash_bytes(location_of(msg)));
    }
    if (ms_cursor_close(&it, NULL) != MS_OK) wrong("a cursor that fails", NULL);
    return hash;
}

/* The facts of all locations. */
static uint64_t hash_facts(ms_store *store)
{
    ms_list_query all;
    ms_listing list;
    ms_str facts;
    uint64_t hash = 1;
    memset(&all, 0, sizeof all);
    if (ms_list(store, &all, &arena, &list, NULL) != MS_OK) wrong("no listing", NULL);
    for (size_t i = 0; i < list.count; i++) {
        ms_result result = ms_location_get(store, list.items[i].location, &arena, &facts,
                                           NULL);
        if (result != MS_OK) wrong("facts that cannot be read", NULL);
        if (facts.len > 0) hash = mixed(hash, hash_bytes(facts));
    }
    return hash;
}

/* Complaints are printed on terminals. */
static uint64_t look_at_complaints(void)
{
    for (size_t i = 0; i < said->len; i++) {
        unsigned char c = (unsigned char)said->ptr[i];
        if ((c < 0x20 && c != '\n') || c == 0x7f) wrong("a control character", NULL);
    }
    ms_str text = ms_str_n(said->ptr, said->len);
    if (text.len > 0 && !ms_utf8_check(text, NULL)) wrong("a complaint, no UTF-8", NULL);
    return hash_bytes(text);
}

static void note_counts(taking *t)
{
    counts *c = &t->counts;
    outcome *o = &t->out;
    o->messages = c->messages;
    o->calls = c->calls;
    o->results = c->results;
    o->answers = c->answers;
    o->unknown = c->unknown;
    o->hidden = c->hidden;
    o->bad = c->bad_lines;
    o->counted = count_tally(&c->left_out) + count_tally(&c->incomplete);
    o->tallies = hash_tally(hash_tally(hash_tally(1, &c->others), &c->left_out),
                            &c->incomplete);
    tally_free(&c->others);
    tally_free(&c->left_out);
    tally_free(&c->incomplete);
}

static void note_store(taking *t)
{
    outcome *o = &t->out;
    o->places = 1;
    (void)hash_records(t, MS_RAW_MESSAGES, &o->places);
    o->shown = hash_records(t, 0, NULL);
    o->notes = hash_records(t, MS_RAW_NOTES, NULL);
    o->facts = hash_facts(t->store);
    if (o->messages > MOST) wrong("too many messages: make MOST larger", NULL);
}


/* ---- Reading ----------------------------------------------------------------------- */

static const fileformat *watched;
static taking *watching;

static uint64_t done_by(const counts *c)
{
    return c->messages + c->bad_lines + count_tally(&c->left_out) +
           count_tally(&c->incomplete);
}

/* Returns whether all that an entry has are facts of its session, or the usage of an
 * answer. */
static bool is_noted(ms_str entry)
{
    if (watched == &gemini_format) return member(entry, "sessionId").ptr != NULL &&
                                          member(entry, "messages").ptr == NULL;
    return watched == &kimi_format && is_object(member_at(entry, "event.usage"));
}

/* Reads an entry, stores what it gave, and looks whether it gave anything. */
static void read_watched(reading *r, ms_str entry)
{
    uint64_t before = done_by(&watching->counts);
    watched->read(r, entry);
    if (trace_location(r->t).ptr == NULL) watching->late = true;
    trace_flush(r->t);
    bool silent = done_by(&watching->counts) == before && !is_noted(entry);
    if (silent && trace_code(r->t) == FINE) wrong("an entry is not counted", NULL);
}

static void begin_taking(taking *t, unsigned how)
{
    static ms_arena said_arena;
    static ms_buf buf;
    memset(&t->out, 0, sizeof t->out);
    memset(&t->counts, 0, sizeof t->counts);
    memset(&t->options, 0, sizeof t->options);
    t->late = false;
    if (how & STRICT) t->options.given |= BIT(REFUSE);
    if (how & KEEP) t->options.given |= BIT(KEEP_GOING);
    t->store = fuzz_store_in(rooms[t == &part || t == &again], ROOM, true);
    test_arena_init_fixed(&said_arena, said_room.bytes, sizeof said_room.bytes);
    memset(&buf, 0, sizeof buf);
    buf.arena = &said_arena;
    said = &buf;
    complain_into(&buf);
    inside = true;
    t->live = live_blocks;
}

static void end_taking(taking *t)
{
    inside = false;
    complain_into(NULL);
    note_counts(t);
    if (live_blocks != t->live) wrong("memory is not given back", NULL);
    t->out.complaints = look_at_complaints();
    note_store(t);
}

/* Reads a text in that format. watch: store after each entry, and look at each. */
static void take_text(taking *t, const fileformat *f, ms_str text, unsigned how,
                      bool watch)
{
    trace_desc desc;
    fileformat other = *f;
    memset(&desc, 0, sizeof desc);
    begin_taking(t, how);
    desc.store = t->store;
    desc.options = &t->options;
    desc.counts = &t->counts;
    desc.format = f->name;
    desc.path = path;
    desc.tree = f->tree;
    desc.guess_agent = (how & GUESS) != 0;
    watched = f;
    watching = t;
    if (watch && f->shape == FILE_LINES) other.read = read_watched;
    trace *tr = trace_begin(&desc);
    int code = format_read(&other, text, tr, path, &t->options, &t->counts, false,
                           &t->out.done);
    if (!is_read(code)) trace_fail(tr, code);
    int ended = trace_end(tr);
    if (ended != FINE) code = ended;
    t->out.code = code;
    trace_free(tr);
    end_taking(t);
}

/* The sink of messages outside of transcripts. */
static int take_messages(void *ctx, const taken *m)
{
    taking *t = (taking *)ctx;
    ms_error err;
    for (size_t i = 0; i < m->list.count; i++) {
        ms_envelope e = m->list.items[i];
        if (e.location.ptr == NULL) wrong("a message without a location", NULL);
        ms_result result = ms_append(t->store, e.location, &e, NULL, &err);
        if (result == MS_E_FULL) wrong("ROOM is too small", NULL);
        if (result != MS_OK) return complain_at(m->source, m->at, "", err.message);
        t->counts.messages++;
    }
    return FINE;
}

static void take_input(taking *t, ms_str text, unsigned how)
{
    rescue lost;
    sink to;
    memset(&lost, 0, sizeof lost);
    memset(&to, 0, sizeof to);
    begin_taking(t, how);
    to.take = take_messages;
    to.ctx = t;
    to.guess_agent = (how & GUESS) != 0;
    to.needs_location = true;
    to.rescue = how & KEEP ? &lost : NULL;
    t->out.code = read_input(&t->options, path, &text, -1, &to);
    t->counts.bad_lines = lost.places + lost.repaired;
    end_taking(t);
}


/* ---- What must hold of each message ------------------------------------------------ */

static ms_str compact(ms_str json)
{
    ms_json_writer w;
    ms_buf out;
    memset(&out, 0, sizeof out);
    out.arena = &arena;
    ms_json_init(&w, ms_buf_write, &out, false);
    ms_json_put_raw(&w, json);
    return ms_json_finish(&w) == MS_OK ? ms_buf_text(&out) : json;
}

/* A string in JSON is the same as its text. */
static bool same_value(ms_value a, ms_value b)
{
    if (a.text.ptr == NULL || b.text.ptr == NULL) return a.text.ptr == b.text.ptr;
    if (a.json && is_kind(a.text, MS_JSON_STRING))
        a = ms_text_n(text_of(&arena, a.text));
    if (b.json && is_kind(b.text, MS_JSON_STRING))
        b = ms_text_n(text_of(&arena, b.text));
    if (a.json != b.json) return false;
    return ms_str_equal(a.text, b.text) ||
           (a.json && ms_str_equal(compact(a.text), compact(b.text)));
}

/* The name of what differs, or NULL. */
static const char *differs(const ms_envelope *a, const ms_envelope *b)
{
    if (a->type != b->type) return "type";
    if (a->role != b->role) return "role";
    if (a->has_time != b->has_time || (a->has_time && a->time_ns != b->time_ns))
        return "time";
    if ((a->flags ^ b->flags) & MS_FLAG_JOINED) return "joined";
#define TEXT(s) ms_text_n(s)
#define OBJECT(s) ms_json(s)
#define VALUE(v) (v)
#define X(number, NAME, member, kind) \
    if (!same_value(kind(a->member), kind(b->member))) return #member;
    MS_FIELDS(X)
#undef X
#undef TEXT
#undef OBJECT
#undef VALUE
    return NULL;
}

static void must_mask(const ms_envelope *m)
{
    ms_envelope once, twice;
    const ms_msg *msg;
    ms_error err;
    step = "secrets";
    memcpy(&once, m, sizeof once);
    if (!secrets_mask_message(&once, SECRETS_PERSONAL, &arena, NULL, NULL))
        wrong("no memory", NULL);
    if (memcmp(&once, m, sizeof once) == 0) return; /* the same would be masked again */
    if (ms_encode(&once, &arena, &msg, &err) != MS_OK)
        wrong("masked, it is refused", &err);
    twice = once;
    if (!secrets_mask_message(&twice, SECRETS_PERSONAL, &arena, NULL, NULL))
        wrong("no memory", NULL);
    const char *what = differs(&once, &twice);
    if (what == NULL) return;
    fuzz_show("once", once.content.text);
    fuzz_show("twice", twice.content.text);
    wrong(what, NULL);
}

static ms_str line_of(const ms_envelope *m)
{
    ms_writer_opts opts = {false, false, true};
    ms_writer w;
    ms_buf buf;
    ms_error err;
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    ms_writer_init(&w, ms_format_find(MS_STR("framework")), &opts, &arena, ms_buf_write,
                   &buf);
    if (ms_writer_put(&w, m, &err) != MS_OK || ms_writer_finish(&w, &err) != MS_OK)
        wrong("it cannot be written", &err);
    return ms_buf_text(&buf);
}

/* Returns whether a further member gives way to one of the format. */
static bool is_word_of_format(ms_str name)
{
    static const char *const words[] = {"type", "role", "timestamp", "idempotency_key"};
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (ms_str_equal(name, ms_str_of(words[i]))) return true;
    return message_field(name) != MS_FIELD_COUNT;
}

/* Are all further members of a message in the other one? There they are members of the
 * format. */
static bool has_extra_of(const ms_envelope *m, const ms_envelope *other)
{
    ms_str value;
    ms_json_iter it = ms_json_iterate(m->extra);
    while (m->extra.ptr != NULL && ms_json_next(&it)) {
        ms_str key = text_of(&arena, it.key);
        if (is_word_of_format(key)) continue;
        if (!ms_member(other, key, &value)) return false;
        if (!same_value(ms_json(value), ms_json(it.value))) return false;
    }
    return true;
}

/* A string in JSON is read as its text, which has no escapes. */
static bool is_string(ms_value value)
{
    return value.json && is_kind(value.text, MS_JSON_STRING);
}

/* Written as a line, and read again. The format has another word for a text of the
 * system. */
static void must_come_back(const ms_envelope *m)
{
    ms_read_opts how = {true, false}; /* types of a reader's own */
    ms_error err;
    ms_envelopes list;
    step = "JSON lines";
    ms_str text = line_of(m);
    if (ms_read(ms_format_find(MS_STR("framework")), text, &how, &arena, &list, &err) !=
        MS_OK) {
        fuzz_show("written", text);
        wrong("it cannot be read again", &err);
    }
    ms_envelope had = *m, has = *list.items;
    if (!had.content.json && had.content.text.len > 0) /* of aider: any bytes */
        had.content.text = text_repaired(had.content.text, &arena);
    const char *what = list.count != 1 ? "its number" : NULL;
    if (what == NULL && !has_extra_of(m, &has)) what = "further members";
    had.extra = has.extra = had.source = has.source = ms_str_n(NULL, 0);
    if (m->type == MS_T_TEXT) had.type = has.type;
    if (m->type == MS_T_TEXT && m->role == MS_ROLE_NONE) had.role = has.role;
    if (what == NULL) what = differs(&had, &has);
    bool respelt = is_string(m->content) || is_string(m->args);
    if (what == NULL && !respelt && !ms_str_equal(text, line_of(list.items)))
        what = "the text";
    if (what == NULL) return;
    fuzz_show("written", text);
    fuzz_show("again", line_of(list.items));
    wrong(what, NULL);
}

static void look_at_messages(ms_store *store)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    memset(&q, 0, sizeof q);
    q.raw = MS_RAW_MESSAGES;
    if (ms_query_open(store, &q, &it, NULL) != MS_OK) wrong("no query", NULL);
    while ((msg = ms_next(&it)) != NULL) {
        ms_envelope m = ms_envelope_of(msg);
        must_come_back(&m);
        must_mask(&m);
    }
    if (ms_cursor_close(&it, NULL) != MS_OK) wrong("a cursor that fails", NULL);
}


/* ---- What must hold of each file --------------------------------------------------- */

static void must_end_well(const taking *t, unsigned how)
{
    const outcome *o = &t->out;
    step = "read";
    if (o->code != FINE && o->code != DAMAGED && !((how & STRICT) && o->code == FAILED))
        wrong("it fails", NULL);
    if (o->code == FINE && o->bad > 0) wrong("damage is not reported", NULL);
    if (o->code == DAMAGED && o->bad == 0) wrong("damage is not counted", NULL);
    if ((how & STRICT) && o->code == FINE && (o->bad > 0 || o->unknown > 0))
        wrong("--strict lets something pass", NULL);
    if (o->code == FAILED && o->bad == 0 && o->complaints == hash_bytes(MS_STR("")))
        wrong("it fails without a reason", NULL);
}

static size_t length_of(ms_str list)
{
    size_t n = 0;
    ms_json_iter it = ms_json_iterate(list);
    while (is_kind(list, MS_JSON_ARRAY) && ms_json_next(&it)) n++;
    return n;
}

/* How many elements the lists `inner` have that the elements of a list have. */
static size_t lengths_in(ms_str list, const char *inner)
{
    size_t n = 0;
    ms_json_iter it = ms_json_iterate(list);
    while (is_kind(list, MS_JSON_ARRAY) && ms_json_next(&it))
        n += length_of(member(it.value, inner));
    return n;
}

static size_t spans_of(ms_str resources)
{
    size_t n = 0;
    ms_json_iter it = ms_json_iterate(resources);
    while (is_kind(resources, MS_JSON_ARRAY) && ms_json_next(&it))
        n += lengths_in(member(it.value, "scopeSpans"), "spans");
    return n;
}

/* How many nodes of a conversation have a message, or are none. */
static size_t nodes_of(ms_str chat)
{
    size_t n = 0;
    ms_str nodes = member(chat, "mapping");
    ms_json_iter it = ms_json_iterate(nodes);
    while (is_object(nodes) && ms_json_next(&it)) {
        ms_str has = member(it.value, "message");
        n += !is_object(it.value) || (has.ptr != NULL && !is_kind(has, MS_JSON_NULL));
    }
    return n;
}

/* The same of a list; one that the list has twice is read once. */
static size_t nodes_in(ms_str list)
{
    size_t n = 0;
    ms_json_iter it = ms_json_iterate(list), before;
    while (ms_json_next(&it)) {
        bool twice = false;
        before = ms_json_iterate(list);
        while (ms_json_next(&before) && before.value.ptr != it.value.ptr)
            twice = twice || ms_str_equal(before.value, it.value);
        n += twice ? 1 : nodes_of(it.value);
    }
    return n;
}

/* Rows of the database that are no composers. */
static size_t bubbles_in(ms_str rows)
{
    size_t n = 0;
    ms_json_iter it = ms_json_iterate(rows);
    while (ms_json_next(&it))
        n += !text_begins(member(it.value, "key"), MS_STR("\"composerData:"));
    return n;
}

/* How many elements the lists have in which a document of that format has its entries. */
static size_t elements_of(const fileformat *f, ms_str doc)
{
    if (f == &gemini_whole_format && member(doc, "sessionId").ptr == NULL)
        return 1; /* no session: it is kept as a whole */
    if (f == &gemini_whole_format || f == &opencode_format || f == &cline_format ||
        f == &inspect_sample_format)
        return length_of(member(doc, "messages"));
    if (f == &inspect_format) return lengths_in(member(doc, "samples"), "messages");
    if (f == &atif_format)
        return length_of(member(doc, "steps")) +
               lengths_in(member(doc, "subagent_trajectories"), "steps");
    if (f == &agents_state_format)
        return length_of(member(doc, "original_input")) +
               length_of(member(doc, "session_items")) +
               length_of(member(doc, "pending_input"));
    if (f == &otel_whole_format) return spans_of(member(doc, "resourceSpans"));
    if (f == &chatgpt_format)
        return is_kind(doc, MS_JSON_ARRAY) ? nodes_in(doc) : nodes_of(doc);
    if (f == &cursor_format) return bubbles_in(doc);
    return length_of(doc); /* the other documents are lists */
}

/* Of a document, at least as much is taken or counted as its lists have elements. */
static void must_count(const taking *t, const fileformat *f, ms_str text)
{
    ms_str doc;
    const outcome *o = &t->out;
    if (f->shape != FILE_WHOLE || o->code != FINE) return;
    if (ms_json_check(without_mark(text), NULL, &doc, NULL) != MS_OK) return;
    step = "count";
    size_t n = elements_of(f, doc);
    if (o->messages + o->counted < n) wrong("an element is not counted", NULL);
}

static void must_be_same(const taking *a, const taking *b)
{
    outcome x = a->out, y = b->out;
    if (x.code != y.code) wrong("another exit code", NULL);
    if (!is_read(x.code)) return; /* what is stored up to there depends on the batches */
    if (b->late) x.places = y.places = x.facts = y.facts = 0;
    if (x.messages != y.messages) wrong("another number of messages", NULL);
    if (memcmp(a->hashes, b->hashes, (size_t)x.messages * 8) != 0)
        wrong("other messages", NULL);
    if (x.tallies != y.tallies) wrong("other counts", NULL);
    if (x.shown != y.shown) wrong("others are shown", NULL);
    if (x.notes != y.notes) wrong("other notes", NULL);
    if (x.facts != y.facts) wrong("other facts", NULL);
    if (x.places != y.places) wrong("other locations", NULL);
    if (x.complaints != y.complaints) wrong("other complaints", NULL);
    if (x.done != y.done) wrong("another end", NULL);
}

/* Cuts a file behind a line, and within the next. What the lines before gave is there,
 * and what is left of the next one is taken or counted; of an object that is torn there,
 * as damage. */
static void must_survive_cut(const fileformat *f, ms_str text, size_t cut)
{
    ms_str value, rest;
    bool ends;
    size_t line = cut;
    while (line > 0 && text.ptr[line - 1] != '\n') line--;
    rest = ms_str_n(text.ptr + line, text.len - line);
    ms_str torn = ms_str_n(rest.ptr, cut - line), full = next_line(&rest, &ends);
    if (f->end != NULL) return; /* what waits at the end stands elsewhere in the whole */
    step = "cut behind a line";
    take_text(&part, f, ms_str_n(text.ptr, line), 0, false);
    const outcome lines = part.out, *o = &part.out;
    size_t n = (size_t)lines.messages;
    if (n > whole.out.messages || memcmp(whole.hashes, part.hashes, n * 8) != 0)
        wrong("other messages", NULL);
    if (is_blank(line == 0 ? without_mark(torn) : torn)) return; /* a mark is no line */
    step = "cut within a line";
    take_text(&part, f, ms_str_n(text.ptr, cut), 0, false);
    if (o->messages < n || memcmp(whole.hashes, part.hashes, n * 8) != 0)
        wrong("other messages", NULL);
    if (ms_json_check(full, NULL, &value, NULL) == MS_OK && is_object(value) &&
        torn.ptr + torn.len < value.ptr + value.len && o->bad <= lines.bad)
        wrong("the torn line is not counted", NULL);
    if (o->messages + o->counted + o->bad <= n + lines.counted + lines.bad &&
        !is_noted(torn))
        wrong("the last line is not counted", NULL);
}

static void file_of(const fileformat *f, ms_str text, unsigned how, size_t cut)
{
    whose = f->name;
    step = "read";
    take_text(&whole, f, text, how, false);
    must_end_well(&whole, how);
    must_count(&whole, f, text);
    look_at_messages(whole.store);
    step = "read again";
    take_text(&again, f, text, how, true);
    must_be_same(&whole, &again);
    if (f->shape == FILE_LINES && !(how & (STRICT | GUESS)))
        must_survive_cut(f, text, cut);
}

static void messages_of(ms_str text, unsigned how)
{
    char what[512];
    whose = "messages";
    step = "describe";
    describe_unknown(text, what, sizeof what);
    (void)shows_messages(text);
    step = "read";
    take_input(&whole, text, how);
    look_at_messages(whole.store);
    step = "read again";
    take_input(&again, text, how);
    must_be_same(&whole, &again);
}

static size_t n_formats(void)
{
    static size_t n;
    while (n == 0 || format_at(n) != NULL) n++;
    return n;
}

static void fuzz_one(const unsigned char *bytes, size_t size)
{
    fuzz_input in = {bytes, bytes + size};
    unsigned which = fuzz_below(&in, (unsigned)n_formats() + 1), how = fuzz_u8(&in);
    size_t cut = fuzz_u8(&in);
    begin_once();
    input = fuzz_bytes(&in, FUZZ_MOST);
    const fileformat *f = format_at(which);
    whose = "recognised";
    step = "look";
    if (f == NULL) f = format_of(input, true);
    if (f != NULL) file_of(f, input, how, input.len * cut / 256);
    else messages_of(input, how);
    ms_arena_reset(&arena);
}
