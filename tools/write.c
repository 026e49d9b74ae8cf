/* See write.h. */

#define _GNU_SOURCE
#include "write.h"
#include "secrets.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { CALL_ID_LIMIT = 64, MADE_STEP_NS = 1000000 };

static const char no_result[] = "[the session has no result of this call]";
static const char late_result[] = "[the result comes after another message]";

/* A call without an id that has no result yet. */
typedef struct open_call {
    ms_str id, tool, agent;   /* in `ids` */
    bool old;                 /* a result of its agent, or a prompt, came since */
} open_call;

static const filewriter *const writers[] = {
    &claude_writer, &codex_writer, &opencode_writer, &gemini_writer, &pi_writer,
    &sts_writer, &atif_writer,
};

const filewriter *writer_at(size_t index)
{
    return index < COUNT_OF(writers) ? writers[index] : NULL;
}

const filewriter *writer_find(ms_str name)
{
    for (size_t i = 0; i < COUNT_OF(writers); i++) {
        if (ms_str_equal(name, ms_str_of(writers[i]->name))) return writers[i];
    }
    return NULL;
}


/* ---- Shared functions -------------------------------------------------------------- */

void make_id(writing *w, char out[MADE_ID])
{
    char seed[64];
    int n = snprintf(seed, sizeof seed, "%016" PRIx64 "%" PRIu64 "%d",
                     hash_text(w->location), w->made++, (int)w->hand_over);
    uint64_t a = hash_text(ms_str_n(seed, (size_t)n));
    seed[0] = '-';
    uint64_t b = hash_text(ms_str_n(seed, (size_t)n));
    snprintf(out, MADE_ID, "%08x-%04x-4%03x-8%03x-%012" PRIx64, (unsigned)(a >> 32),
             (unsigned)(a >> 16 & 0xffff), (unsigned)(a & 0xfff),
             (unsigned)(b >> 48 & 0xfff), b & 0xffffffffffffu);
}

static tally_row *counted(tally *t, ms_str text)
{
    tally_row *row = tally_row_of(t, text);
    if (row == NULL) exit(no_memory());
    return row;
}

void count_left_out(writing *w, const char *what)
{
    counted(&w->left_out, ms_str_of(what))->count++;
}

static ms_str kept(writing *w, ms_str text)
{
    ms_str out = text;
    if (text.ptr != NULL && !copy_text(&w->arena, text, &out)) exit(no_memory());
    return out;
}

/* Appends to the current answer: a thought, a text and calls, in this order; then the
 * results of the calls. */
bool goes_on(const writing *w, const said_part *p)
{
    size_t n = arrlenu(w->held);
    part_kind last = n > 0 ? w->held[n - 1].kind : PART_USER;
    if (n == 0 || p->kind == PART_RESULT) return true;
    return last != PART_RESULT && (p->kind == PART_CALL ||
                                   (last == PART_THOUGHT && p->kind == PART_ANSWER));
}

void hold(writing *w, const said_part *p)
{
    said_part own = *p;
    own.text = kept(w, p->text);
    own.tool = kept(w, p->tool);
    own.call_id = kept(w, p->call_id);
    arrput(w->held, own);
}

const said_part *held_of(const writing *w, part_kind kind, ms_str call_id)
{
    for (size_t i = 0; i < arrlenu(w->held); i++) {
        const said_part *p = &w->held[i];
        if (p->kind != kind) continue;
        if (call_id.ptr == NULL || ms_str_equal(p->call_id, call_id)) return p;
    }
    return NULL;
}

bool count_result(writing *w, const said_part *p)
{
    if (p->kind != PART_RESULT) return false;
    bool alone = held_of(w, PART_CALL, p->call_id) == NULL;
    bool further = held_of(w, PART_RESULT, p->call_id) != p;
    if (alone) count_left_out(w, "results after another message");
    else if (further) count_left_out(w, "further results of one call");
    return alone;
}

ms_str absent_result(writing *w, ms_str call_id)
{
    bool late = counted(&w->results, call_id)->count > 0;
    return ms_str_of(late ? late_result : no_result);
}

void note_entry(writing *w, uint64_t seq, const char *id)
{
    ms_str own = kept(w, ms_str_n(id, strlen(id) + 1));
    char *value = (char *)(uintptr_t)own.ptr;
    hmput(w->entry_at, seq, value);
}

const char *entry_from(const writing *w, uint64_t seq)
{
    uint64_t least = UINT64_MAX;
    const char *found = NULL;
    for (size_t i = 0; i < hmlenu(w->entry_at); i++) {
        uint64_t key = w->entry_at[i].key;
        if (key < seq || key > least) continue;
        least = key;
        found = w->entry_at[i].value;
    }
    return found;
}

void put_arguments(ms_json_writer *w, const char *name, const said_part *p)
{
    ms_json_key(w, ms_str_of(name));
    if (p->json) {
        ms_json_put_raw(w, p->text);
        return;
    }
    ms_json_begin(w, MS_JSON_OBJECT);
    json_text(w, "input", p->text);
    ms_json_end(w);
}

void end_line(writing *w)
{
    ms_json_end(&w->w);
    ms_json_separator(&w->w, '\n');
}

void put_flag(ms_json_writer *w, const char *name, bool value)
{
    ms_json_key(w, ms_str_of(name));
    ms_json_put_raw(w, value ? MS_STR("true") : MS_STR("false"));
}

void open_member(ms_json_writer *w, const char *name, bool array)
{
    ms_json_key(w, ms_str_of(name));
    if (array) ms_json_begin(w, MS_JSON_ARRAY);
    else ms_json_begin(w, MS_JSON_OBJECT);
}


/* ---- A message as a part ----------------------------------------------------------- */

/* Sets "2026-03-02T09:00:05.123Z". A message without a time gets a made one, a
 * millisecond after that of the message before. */
static void set_time(writing *w, const ms_envelope *m, char out[TIME_MAX])
{
    struct tm tm;
    if (m->has_time && m->time_ns >= 0) w->time_ns = m->time_ns;
    else w->time_ns += MADE_STEP_NS;
    time_t seconds = (time_t)(w->time_ns / 1000000000);
    if (gmtime_r(&seconds, &tm) == NULL) memset(&tm, 0, sizeof tm);
    size_t n = strftime(out, TIME_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, TIME_MAX - n, ".%03dZ", (int)(w->time_ns / 1000000 % 1000));
}

/* Returns the texts of a list of parts; *others: how many parts are no text. Other JSON
 * becomes text. */
static ms_str text_of_value(writing *w, ms_value value, uint64_t *others)
{
    ms_buf buf = {&w->arena, NULL, 0, 0};
    size_t n = 0;
    if (!value.json || value.text.ptr == NULL) return value.text;
    if (is_kind(value.text, MS_JSON_STRING)) return text_of(&w->arena, value.text);
    if (!is_kind(value.text, MS_JSON_ARRAY)) return value.text;
    ms_json_iter it = ms_json_iterate(value.text);
    while (ms_json_next(&it)) {
        ms_str text = text_of(&w->arena, member(it.value, "text"));
        *others += text.ptr == NULL;
        if (text.ptr == NULL) continue;
        if (n++ > 0) json_piece(&buf, "\n\n");
        ms_buf_write(&buf, text.ptr, text.len);
    }
    return n > 0 ? ms_buf_text(&buf) : MS_STR("");
}

static ms_role role_of(const ms_envelope *m)
{
    static const ms_role roles[MS_TYPE_COUNT] = {
#define MS__X(n, name, role, req, cls, proj, fw, env, task) [n] = MS_ROLE_##role,
        MS_TYPES(MS__X)
#undef MS__X
    };
    return m->role != MS_ROLE_NONE ? m->role : roles[m->type];
}

static part_kind kind_of(const writing *w, const ms_envelope *m)
{
    ms_role role = role_of(m);
    if (m->type == MS_T_COMPACTION && w->format->sums) return PART_SUMMARY;
    if (m->type == MS_T_ACTION) return PART_CALL;
    if (m->type == MS_T_OBSERVATION) return PART_RESULT;
    if (m->type == MS_T_ERROR && m->call_id.len > 0) return PART_RESULT;
    if (m->type == MS_T_REASONING) return PART_THOUGHT;
    if (role == MS_ROLE_SYSTEM || role == MS_ROLE_DEVELOPER) return PART_SYSTEM;
    return role == MS_ROLE_ASSISTANT ? PART_ANSWER : PART_USER;
}

static bool is_valid_id(ms_str id)
{
    if (id.len == 0 || id.len > CALL_ID_LIMIT) return false;
    for (size_t i = 0; i < id.len; i++) {
        char c = id.ptr[i];
        bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                    (c >= '0' && c <= '9') || c == '_' || c == '-';
        if (!good) return false;
    }
    return true;
}

static ms_str lasting(writing *w, ms_str text)
{
    ms_str out = text;
    if (text.ptr != NULL && !copy_text(&w->ids, text, &out)) exit(no_memory());
    return out;
}

/* Returns the id of the call that a result without an id answers: the oldest of its agent
 * and tool that waits for one, else the last call if it is of that tool; absent: there is
 * none. */
static ms_str answered_call(writing *w, const ms_envelope *m)
{
    bool last = m->tool.len == 0 || ms_str_equal(w->last_tool, m->tool), found = false;
    ms_str id = last ? w->last_call : ms_str_n(NULL, 0);
    for (size_t i = 0; i < arrlenu(w->waiting);) {
        open_call *c = &w->waiting[i];
        bool ours = ms_str_equal(c->agent, m->agent_key);
        bool same = ours && (m->tool.len == 0 || ms_str_equal(c->tool, m->tool));
        c->old = c->old || ours;
        if (same && !found) {
            found = true;
            id = c->id;
            arrdel(w->waiting, i);
        } else {
            i++;
        }
    }
    return id;
}

/* Adds a call that waits for a result; those that its agent left open before are closed,
 * as the library's writers do. */
static void add_waiting(writing *w, const ms_envelope *m, ms_str id)
{
    open_call call = {id, lasting(w, m->tool), lasting(w, m->agent_key), false};
    for (size_t i = 0; i < arrlenu(w->waiting);) {
        const open_call *c = &w->waiting[i];
        if (c->old && ms_str_equal(c->agent, m->agent_key)) arrdel(w->waiting, i);
        else i++;
    }
    if (m->call_id.len == 0) arrput(w->waiting, call);
}

/* Returns the id of a call or a result in the new file. A call without an id gets a new
 * one. */
static ms_str call_id_of(writing *w, const ms_envelope *m, bool result)
{
    char text[MADE_ID];
    ms_str id = m->call_id;
    ptrdiff_t at = id.len == 0 && result ? hmgeti(w->call_at, m->seq) : -1;
    if (at >= 0) return w->call_at[at].value;
    if (id.len > 0 && (!w->hand_over || is_valid_id(id))) return kept(w, id);
    int n = snprintf(text, sizeof text, "call_%016" PRIx64,
                     id.len > 0 ? hash_text(id) : hash_text(w->location) + m->seq);
    return kept(w, ms_str_n(text, (size_t)n));
}

/* Notes which result without an id answers which call, message by message. */
static void note_ids(writing *w, const ms_envelope *m)
{
    part_kind kind = kind_of(w, m);
    if (kind == PART_CALL) {
        w->last_call = lasting(w, call_id_of(w, m, false));
        w->last_tool = lasting(w, m->tool);
        add_waiting(w, m, w->last_call);
    } else if (kind == PART_RESULT && m->call_id.len == 0) {
        ms_str id = answered_call(w, m);
        if (id.len > 0) hmput(w->call_at, m->seq, id);
    } else if (kind == PART_USER) {
        for (size_t i = 0; i < arrlenu(w->waiting); i++) w->waiting[i].old = true;
    }
}

/* Returns the tool of a result: that of its call. */
static ms_str tool_of(writing *w, const ms_envelope *m, ms_str call_id)
{
    if (m->tool.len > 0) return m->tool;
    if (call_id.len > 0) {
        const tally_row *call = counted(&w->calls, call_id);
        if (call->bytes > 0) return w->tools.rows[call->bytes - 1].text;
    }
    return MS_STR("unknown");
}

static void note_call(writing *w, const said_part *p)
{
    tally_row *row = counted(&w->calls, p->call_id);
    row->count++;
    row->bytes = (uint64_t)(counted(&w->tools, p->tool) - w->tools.rows) + 1;
}

static said_part part_of(writing *w, const ms_envelope *m)
{
    said_part p;
    memset(&p, 0, sizeof p);
    p.kind = kind_of(w, m);
    p.seq = m->seq;
    p.failed = m->type == MS_T_ERROR;
    p.agent = m->agent_key;
    p.side = m->agent_key.len > 0 && !ms_str_equal(m->agent_key, MS_STR("assistant")) &&
             !ms_str_equal(m->agent_key, w->main_agent);
    p.role = role_of(m) == MS_ROLE_DEVELOPER ? MS_STR("developer") : MS_STR("system");
    p.text = p.kind == PART_CALL ? m->args.text
                                 : text_of_value(w, m->content, &p.others);
    p.json = p.kind == PART_CALL && m->args.json && is_object(m->args.text);
    if (p.kind == PART_CALL || p.kind == PART_RESULT) {
        p.call_id = call_id_of(w, m, p.kind == PART_RESULT);
    }
    p.tool = tool_of(w, m, p.call_id);
    set_time(w, m, p.time);
    p.time_ns = w->time_ns;
    p.timed = m->has_time && m->time_ns >= 0;
    if (m->type == MS_T_COMPACTION) {
        ms_str of = ms_str_n(NULL, 0), made = of;
        (void)ms_member(m, MS_STR("compaction"), &of);
        (void)ms_member(m, MS_STR("signed"), &made);
        p.items = member(of, "items");
        p.tokens = count_of(member(of, "tokens_before"));
        ms_str maker = member(made, "provider");
        if (!text_is(maker, "openai-responses")) p.items = ms_str_n(NULL, 0);
    }
    ptrdiff_t cost = hmgeti(w->cost_at, m->seq);
    if (cost >= 0) p.cost = &w->costs[w->cost_at[cost].value];
    return p;
}


/* ---- Sessions ---------------------------------------------------------------------- */

/* Returns the name under which a message is counted as left out; NULL: it is written. No
 * format of transcripts has such messages. A hand-over also leaves out work of other
 * agents, and thoughts: a provider refuses thoughts that another one signed. */
static const char *left_out_as(const writing *w, const ms_envelope *m,
                               const said_part *p)
{
    const char *what = NULL;
    uint64_t keep;
    bool takes_items = w->format == &codex_writer && p->items.ptr != NULL;
    if (m->type == MS_T_OTHER) what = "entries of other formats";
    else if (is_opaque(m)) what = opaque_text;
    else if (m->type == MS_T_COMPACTION && !keep_of(m, &keep)) {
        what = "compactions that do not say what they keep";
    }
    else if (m->type == MS_T_COMPACTION && p->side) what = "summaries of other agents";
    else if (m->type == MS_T_COMPACTION && p->text.len == 0 && !takes_items) {
        what = "compactions that only their maker reads";
    }
    else if (p->text.ptr == NULL) what = "messages without text";
    else if (w->hand_over && p->side) what = "messages of other agents";
    else if (w->hand_over && p->kind == PART_THOUGHT) what = "thoughts";
    return what;
}

static bool is_left_out(writing *w, const ms_envelope *m, const said_part *p)
{
    const char *what = left_out_as(w, m, p);
    if (what != NULL) count_left_out(w, what);
    else if (p->others > 0) {
        counted(&w->left_out, MS_STR("parts that are not text"))->count += p->others;
    }
    return what != NULL;
}

static void write_part(writing *w, const said_part *p)
{
    w->format->put(w, p);
    w->before = p->kind;
}

/* Writes results for calls that lack one, before the next message. */
static void put_open(writing *w, const said_part *like)
{
    for (size_t i = 0; i < arrlenu(w->open); i++) {
        said_part p = *like;
        p.kind = PART_RESULT;
        p.call_id = w->open[i];
        p.text = ms_str_of(no_result);
        p.failed = true;
        p.tool = w->tools.rows[counted(&w->calls, p.call_id)->bytes - 1].text;
        p.agent = ms_str_n(NULL, 0);
        write_part(w, &p);
    }
    arrsetlen(w->open, 0);
}

/* Pairs calls and results: a result whose call is nowhere gets a call. Returns whether
 * the part is written: not a further result of one call, nor a result before its call,
 * which providers refuse. */
static bool pair(writing *w, said_part *p)
{
    if (p->kind != PART_CALL) put_open(w, p);
    if (p->kind != PART_CALL && p->kind != PART_RESULT) return true;
    tally_row *live = counted(&w->live, p->call_id);
    bool open = live->count > 0, answered = live->bytes > 0;
    live->count = p->kind == PART_CALL;
    live->bytes += p->kind == PART_RESULT;
    if (p->kind == PART_CALL) {
        if (counted(&w->results, p->call_id)->count == 0) arrput(w->open, p->call_id);
        return true;
    }
    if (open) return true;
    if (counted(&w->calls, p->call_id)->count > 0) {
        if (!answered) counted(&w->results, p->call_id)->count--;
        if (!answered) live->bytes = 0;
        count_left_out(w, answered ? "further results of one call"
                                   : "results before their call");
        return false;
    }
    said_part call = *p;
    call.kind = PART_CALL;
    call.text = MS_STR("{}");
    call.json = true;
    write_part(w, &call);
    note_call(w, &call);
    return true;
}

/* Returns whether a message belongs to another agent's part, in a format with such
 * parts. */
static bool is_elsewhere(const writing *w, const said_part *p)
{
    if (w->format->side == NULL) return false;
    return w->only == NULL ? p->side : !p->side || !ms_str_equal(p->agent, *w->only);
}

/* Notes ids before anything is written. */
static void note(writing *w, const said_part *p)
{
    if (p->kind == PART_CALL) note_call(w, p);
    if (p->kind == PART_RESULT) counted(&w->results, p->call_id)->count++;
    if (p->side) counted(&w->sides, p->agent)->count++;
    if (w->began_ns > 0) return;
    if (p->timed) w->began_ns = p->time_ns;
    else w->leading++;
}

/* Returns when the file of the session was last changed, or the present if it has no
 * file: where the dates of a session without any begin. */
static int64_t made_begin(const job *j)
{
    struct stat st;
    const char *path = j->options->n_files > 0 ? j->options->files[0] : NULL;
    bool file = path != NULL && stat(path, &st) == 0 && S_ISREG(st.st_mode);
    return (int64_t)(file ? st.st_mtime : time(NULL)) * 1000000000;
}

/* Sets the dates of the messages that come before the first with a time. */
static void begin_dates(writing *w)
{
    ms_envelope first;
    memset(&first, 0, sizeof first);
    int64_t ns = w->began_ns > 0 ? w->began_ns : made_begin(w->job);
    int64_t back = (int64_t)w->leading * MADE_STEP_NS;
    w->time_ns = (w->began_ns > 0 && back < ns ? ns - back : ns) - MADE_STEP_NS;
    set_time(w, &first, w->began);
    w->time_ns -= MADE_STEP_NS;
}

static void mask(writing *w, ms_envelope *m)
{
    ms_arena_reset(&w->masked);
    if (!GIVEN(w->job->options, MASK_SECRETS)) return;
    if (!secrets_mask_message(m, SECRETS_KEYS, &w->masked, NULL, NULL)) exit(no_memory());
}

/* Sets the number of the first message that stays before a summary. */
static int find_kept(writing *w, const ms_envelope *m, said_part *p)
{
    ms_cursor it;
    ms_query q = {0};
    listing l = {w->job->store, &q, NULL, NULL, NULL};
    uint64_t keep;
    if (!keep_of(m, &keep) || keep == 0) return FINE;
    q.location = w->location;
    q.before_seq = m->seq;
    q.limit = (size_t)keep;
    int code = listing_open(&l, &it);
    if (code != FINE) return code;
    const ms_msg *msg = ms_next(&it);
    if (msg != NULL) p->kept = ms_seq(msg);
    return listing_close(&it);
}

int each_kept(writing *w, const said_part *summary,
              void (*put)(writing *w, const said_part *p))
{
    ms_cursor it;
    const ms_msg *msg;
    ms_query q = {0};
    listing l = {w->job->store, &q, NULL, NULL, NULL};
    if (summary->kept == 0) return FINE;
    q.location = w->location;
    q.after_seq = summary->kept - 1;
    q.before_seq = summary->seq;
    int code = listing_open(&l, &it);
    if (code != FINE) return code;
    while ((msg = ms_next(&it)) != NULL) {
        ms_envelope m = ms_envelope_of(msg);
        mask(w, &m);
        said_part p = part_of(w, &m);
        if (p.kind == PART_SUMMARY || is_elsewhere(w, &p)) continue;
        if (left_out_as(w, &m, &p) == NULL) put(w, &p);
        w->before = p.kind;
    }
    return listing_close(&it);
}

/* Visits the messages. first: only ids are noted. */
static int each_message(writing *w, bool first)
{
    ms_cursor it;
    const ms_msg *msg;
    ms_query q = {0};
    listing l = {w->job->store, &q, NULL, NULL, NULL};
    said_part p;
    q.location = w->location;
    int code = listing_open(&l, &it);
    if (code != FINE) return code;
    memset(&p, 0, sizeof p);
    while ((msg = ms_next(&it)) != NULL) {
        ms_envelope m = ms_envelope_of(msg);
        if (first) note_ids(w, &m);
        else mask(w, &m);
        p = part_of(w, &m);
        if (first) note(w, &p);
        w->opaque += first && is_opaque(&m);
        w->own += first && p.kind != PART_SYSTEM && !is_elsewhere(w, &p) &&
                  left_out_as(w, &m, &p) == NULL;
        if (first || is_elsewhere(w, &p) || is_left_out(w, &m, &p)) continue;
        if (w->hand_over && !pair(w, &p)) continue;
        w->undated += !m.has_time;
        if (m.has_time && !p.timed) count_left_out(w, "times before 1970");
        if (p.kind == PART_SUMMARY) code = find_kept(w, &m, &p);
        else if (m.type == MS_T_COMPACTION) count_left_out(w, "marks of compactions");
        if (!is_read(code)) break;
        write_part(w, &p);
    }
    if (!first) put_open(w, &p);
    int closed = listing_close(&it);
    return code != FINE ? code : closed;
}

static void take_facts(writing *w)
{
    ms_str facts;
    ms_value value;
    if (get_facts(w->job->store, w->location, &w->arena, &facts, NULL) != MS_OK) {
        return;
    }
    if (GIVEN(w->job->options, MASK_SECRETS) && facts.len > 0) {
        if (!secrets_mask(ms_json(facts), SECRETS_KEYS, &w->arena, NULL, NULL, &value)) {
            exit(no_memory());
        }
        facts = value.text;
    }
    w->cwd = text_of(&w->arena, member(facts, "cwd"));
    w->model = text_of(&w->arena, member(facts, "model"));
    w->agent = text_of(&w->arena, member(facts, "agent"));
    w->version = text_of(&w->arena, member(facts, "version"));
    w->title = text_of(&w->arena, member(facts, "title"));
}

static int take_costs(writing *w)
{
    int code = costs_of(w->job->store, w->location, &w->job->arena, &w->costs);
    for (size_t i = 0; i < arrlenu(w->costs); i++) {
        hmput(w->cost_at, w->costs[i].seq, i);
    }
    return code;
}

/* Writes the session's own messages, then those of each agent with a part of its own. */
static int write_all(writing *w)
{
    int code = each_message(w, false);
    for (size_t i = 0; i < arrlenu(w->sides.rows) && is_read(code); i++) {
        if (w->format->side == NULL) break;
        w->only = &w->sides.rows[i].text;
        w->format->side(w);
        int one = each_message(w, false);
        if (one != FINE) code = one;
    }
    return code;
}

static bool is_uuid(ms_str text)
{
    return text.len == 36 && text.ptr[8] == '-' && text.ptr[13] == '-' &&
           text.ptr[18] == '-' && text.ptr[23] == '-';
}

/* What a format has no place for, and the messages whose dates are made. */
typedef struct losses {
    tally left_out;
    uint64_t undated;
} losses;

/* Writes the place where Claude Code looks for a session of a folder. */
static void claude_place(const writing *w, char *out, size_t size)
{
    char folder[800];
    size_t i = 0;
    ms_str rest = w->cwd;
    while (rest.len > 0 && i + 2 < sizeof folder) { /* by units of UTF-16, as Claude */
        uint32_t c = next_point(&rest);
        bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
        folder[i++] = plain ? (char)c : '-';
        if (c > 0xffff) folder[i++] = '-';
    }
    folder[i] = '\0';
    snprintf(out, size, "~/.claude/projects/%s/%s.jsonl",
             i > 0 ? folder : "FOLDER-OF-THE-PROJECT", w->session);
}

/* Notes the new session's name, where its program looks for the file, and the command
 * that goes on with it. */
static void note_next(const writing *w, written_next *next)
{
    char when[TIME_MAX];
    memset(next, 0, sizeof *next);
    const char *file = w->format == &opencode_writer ? "opencode import"
                       : w->format == &gemini_writer ? "gemini --session-file"
                       : w->format == &pi_writer     ? "pi --session" : NULL;
    if (w->format != &opencode_writer) memcpy(next->session, w->session, MADE_ID);
    next->takes_file = file != NULL;
    if (file != NULL) {
        snprintf(next->command, sizeof next->command, "%s", file);
    } else if (w->format == &claude_writer) {
        claude_place(w, next->place, sizeof next->place);
        snprintf(next->command, sizeof next->command, "claude --resume %s", w->session);
    } else if (w->format == &codex_writer && strlen(w->began) >= 19) {
        memcpy(when, w->began, sizeof when);
        when[13] = when[16] = '-';
        snprintf(next->place, sizeof next->place,
                 "~/.codex/sessions/%.4s/%.2s/%.2s/rollout-%.19s-%s.jsonl",
                 when, when + 5, when + 8, when, w->session);
        snprintf(next->command, sizeof next->command, "codex resume %s", w->session);
    }
}

static int write_session(job *j, const filewriter *format, bool hand_over, output *out,
                         ms_str location, losses *lost, written_next *next)
{
    writing w;
    memset(&w, 0, sizeof w);
    w.format = format;
    w.job = j;
    w.location = location;
    w.hand_over = hand_over;
    if (hand_over) w.main_agent = only_agent(j, location);
    w.left_out = lost->left_out;
    take_facts(&w);
    make_id(&w, w.session);
    if (!hand_over && is_uuid(location)) memcpy(w.session, location.ptr, 36);
    ms_json_init(&w.w, emit, out, false);
    int code = take_costs(&w), read = FINE;
    if (is_read(code)) read = each_message(&w, true);
    if (read != FINE) code = read;
    if (w.opaque > 0 && (w.own == 0 || !GIVEN(j->options, REPORT))) {
        complain_of_opaque(location, w.opaque);
    }
    if (is_read(code) && hand_over && w.own == 0) {
        complain("%.*s: no messages that another program can continue",
                 (int)location.len, location.ptr);
        code = NOT_FOUND;
    }
    ms_arena_reset(&w.arena);
    take_facts(&w);
    begin_dates(&w);
    bool begun = is_read(code);
    if (begun && format->begin != NULL) format->begin(&w);
    if (begun) read = write_all(&w);
    if (read != FINE) code = code == NOT_FOUND ? code : read;
    if (is_read(code) && format->end != NULL) format->end(&w);
    if (begun && ms_json_finish(&w.w) != MS_OK && out->error == 0) code = FAILED;
    uint64_t costs = arrlenu(w.costs) - w.costs_put;
    if (costs > 0) counted(&w.left_out, MS_STR("usage of answers"))->count += costs;
    if (next != NULL) note_next(&w, next);
    lost->left_out = w.left_out;
    if (format != &atif_writer) lost->undated += w.undated;
    tally_free(&w.calls);
    tally_free(&w.results);
    tally_free(&w.live);
    tally_free(&w.tools);
    tally_free(&w.sides);
    arrfree(w.costs);
    hmfree(w.cost_at);
    hmfree(w.entry_at);
    arrfree(w.open);
    arrfree(w.waiting);
    hmfree(w.call_at);
    ms_arena_deinit(&w.ids);
    arrfree(w.held);
    ms_arena_deinit(&w.arena);
    ms_arena_deinit(&w.masked);
    return code;
}

static void print_losses(const losses *lost)
{
    const tally *t = &lost->left_out;
    for (size_t i = 0; i < arrlenu(t->rows); i++) {
        fprintf(stderr, "%10" PRIu64 "  left out: %.*s\n", t->rows[i].count,
                (int)t->rows[i].text.len, t->rows[i].text.ptr);
    }
    if (lost->undated > 0) {
        fprintf(stderr, "%10" PRIu64 "  without a time: their dates are made\n",
                lost->undated);
    }
}

/* Reports how much is left out; --report has the words. */
static void complain_of_losses(const losses *lost, const char *command)
{
    uint64_t n = 0;
    for (size_t i = 0; i < arrlenu(lost->left_out.rows); i++) {
        n += lost->left_out.rows[i].count;
    }
    if (n == 0) return;
    complain("%s: left out %" PRIu64 " part%s of the session; --report names %s",
             command, n, plural(n), n == 1 ? "it" : "them");
}

int write_sessions(job *j, const filewriter *format, bool hand_over, output *out,
                   written_next *next)
{
    ms_listing list;
    losses lost;
    ms_str none = {NULL, 0};
    size_t n = 0, wanted = 0;
    memset(&lost, 0, sizeof lost);
    int code = look_up(j, false, none, none, &list);
    if (is_read(code)) code = resolve_all(j);
    if (!is_read(code)) return code;
    for (size_t i = 0; i < list.count; i++) {
        wanted += is_wanted(j->options, list.items[i].location);
    }
    if (wanted > 1) {
        complain("%s has %zu sessions, and a file of %s has one: name it",
                 j->options->files[0], wanted, format->name);
        return USAGE;
    }
    if (wanted == 0) complain("%s: no session", j->options->files[0]);
    if (wanted == 0) return NOT_FOUND;
    for (; n < list.count && is_read(code); n++) {
        ms_str location = list.items[n].location;
        if (!is_wanted(j->options, location)) continue;
        code = write_session(j, format, hand_over, out, location, &lost, next);
    }
    if (GIVEN(j->options, REPORT)) print_losses(&lost);
    else complain_of_losses(&lost, hand_over ? "hand-over" : "export");
    tally_free(&lost.left_out);
    return code;
}
