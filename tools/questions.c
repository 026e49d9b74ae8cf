/* See questions.h. */

#define _GNU_SOURCE
#include "questions.h"
#include "cmd_sessions.h"
#include "postgres.h"
#include "zone.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


/* ---- The log ----------------------------------------------------------------------- */

/* Returns whether the file that is there goes on where the open one was, which was whole:
 * one that ended before its watermark may be whole again. */
static bool goes_on(const log_file *open, const log_file *now)
{
    return (uint64_t)open->st.st_size >= open->mark &&
           now->st.st_ino == open->st.st_ino && now->st.st_dev == open->st.st_dev &&
           now->st.st_size >= open->st.st_size && now->mark >= open->mark &&
           memcmp(now->fixed, open->fixed, FIXED_BYTES) == 0;
}

int asked_open(asked *a)
{
    log_file now;
    job *j = a->job;
    const char *path = a->base->files[0];
    bool url = is_postgres(path);
    if (!url && !log_file_look(path, &now)) {
        complain("%s: %s; `msgstore sync` makes a log", path, strerror(errno));
        return NOT_FOUND;
    }
    bool same = url || goes_on(&a->file, &now);
    if (!url) a->file = now;
    if (j->store != NULL && same) return FINE;
    ms_close(j->store);
    j->store = NULL;
    j->n_events = j->reported = 0;
    if (!url && !is_log(path)) {
        complain("%s is no log; `msgstore sync %s FOLDER` makes one of transcripts", path,
                 path);
        return USAGE;
    }
    return open_to_read(j);
}

#if defined SIGBUS && !defined _WIN32
static sigjmp_buf out_of_call;
static volatile sig_atomic_t in_call;

/* A page of the map that lies after the end of the file: another program has truncated
 * the log since the call began. */
static void on_bus(int number)
{
    if (in_call) siglongjmp(out_of_call, 1);
    signal(number, SIG_DFL);
    raise(number);
}
#endif

void asked_watch(void)
{
#if defined SIGBUS && !defined _WIN32
    signal(SIGBUS, on_bus);
#endif
}

int asked_guarded(asked *a, const mcp_value *v, ms_buf *answer,
                  int (*run)(asked *, const mcp_value *, ms_buf *))
{
#if defined SIGBUS && !defined _WIN32
    if (sigsetjmp(out_of_call, 1) != 0) {
        in_call = 0;
        a->job->store = NULL;
        a->job->options = a->base;
        complain("the log became shorter while it was read: ask again");
        return FAILED;
    }
    in_call = 1;
#endif
    int code = run(a, v, answer);
#if defined SIGBUS && !defined _WIN32
    in_call = 0;
#endif
    return code;
}

int asked_begin(asked *a)
{
    a->call = *a->base;
    a->job->options = &a->call;
    a->job->damage_told = false;
    ms_arena_reset(&a->job->arena);
    return asked_open(a);
}

int asked_end(asked *a, int code)
{
    size_t n = 0;
    job *j = a->job;
    for (size_t i = 0; i < j->n_events; i++) n += j->events[i].kind == MS_LOG_DAMAGE;
    if (n > 0) {
        complain("the log is damaged in %zu place%s: messages may be missing; "
                 "`msgstore verify` has more", n, plural(n));
    }
    j->options = a->base;
    bool damaged = n > 0 || j->damage_told;
    return code == FINE && damaged ? DAMAGED : code;
}

static int take_time(asked *a, const char *name, const mcp_value *v, bool since)
{
    int64_t ns;
    if (!v->given) return FINE;
    if (!parse_time(v->text, &ns)) {
        complain("%s: expected 2026-03-02, 2026-03-02T09:30:00, yesterday or 2 days ago",
                 name);
        return USAGE;
    }
    ns = local_time(v->text, ns);
    a->call.given |= since ? BIT(SINCE) : BIT(UNTIL);
    if (since) a->call.since_ns = ns;
    else a->call.until_ns = ns;
    return FINE;
}

int asked_times(asked *a, const mcp_value *since, const mcp_value *until)
{
    int code = take_time(a, "since", since, true);
    return code == FINE ? take_time(a, "until", until, false) : code;
}

static uint32_t check_add(uint32_t check, const char *text)
{
    for (; *text != '\0'; text++) check = (check ^ (unsigned char)*text) * 16777619u;
    return (check ^ 0xffu) * 16777619u; /* the end of the text */
}

const char *cursor_text(const char *tool, const mcp_value *v, size_t n, const place *at,
                        char out[CURSOR_BYTES])
{
    uint32_t check = check_add(2166136261u, tool);
    for (size_t i = 0; i < n; i++) {
        check = check_add(check, v[i].text != NULL ? v[i].text : "");
    }
    int len = snprintf(out, CURSOR_BYTES, "%" PRId64 ":%" PRIu64, at->ns, at->number);
    check = check_add(check, out);
    snprintf(out + len, CURSOR_BYTES - (size_t)len, ":%08" PRIx32, check);
    return out;
}

int cursor_take(const char *tool, const mcp_value *v, size_t n, const char *text,
                place *at)
{
    char same[CURSOR_BYTES];
    bool read = sscanf(text, "%" SCNd64 ":%" SCNu64 ":", &at->ns, &at->number) == 2;
    if (read && strcmp(cursor_text(tool, v, n, at, same), text) == 0) return FINE;
    complain("cursor: expected the next_cursor of an answer to the same question");
    return USAGE;
}

/* Returns whether a row stands after a place, where newer ones come first. */
static bool is_after(const place *at, int64_t ns, uint64_t number)
{
    return ns != at->ns ? ns < at->ns : number < at->number;
}


/* ---- What answers have in common --------------------------------------------------- */

ms_str short_text(asked *a, ms_str text)
{
    ms_value value = {text, false};
    bool good = text.len == 0 ||
                secrets_mask(value, a->classes, &a->job->arena, NULL, NULL, &value);
    return good ? clip(value.text, NAME_BYTES) : ms_str_n(NULL, 0);
}

int choose_session(asked *a, const char *name, ms_str *location)
{
    ms_listing real, shown;
    size_t found = 0;
    job *j = a->job;
    ms_str none = {NULL, 0}, wanted = ms_str_of(name);
    ms_value plain = {wanted, false};
    if (!secrets_mask(plain, a->classes, &j->arena, NULL, NULL, &plain)) {
        return no_memory();
    }
    *location = wanted;
    if (plain.text.ptr == wanted.ptr && is_on_server(j, wanted)) return FINE;
    int code = look_up(j, false, none, none, &real);
    if (code != FINE) return code;
    shown.count = real.count;
    shown.items = ms_arena_alloc(&j->arena, (real.count + 1) * sizeof *shown.items);
    for (size_t i = 0; shown.items != NULL && i < real.count; i++) {
        ms_value text = {real.items[i].location, false};
        if (!secrets_mask(text, a->classes, &j->arena, NULL, NULL, &text)) {
            return no_memory();
        }
        shown.items[i].location = text.text;
    }
    code = shown.items != NULL ? resolve(j, &shown, wanted, &wanted) : no_memory();
    for (size_t i = 0; code == FINE && i < real.count; i++) {
        if (!ms_str_equal(shown.items[i].location, wanted)) continue;
        *location = real.items[i].location;
        found++;
    }
    if (found < 2) return code;
    complain("%zu sessions have the masked name %s; read takes a message's number, too",
             found, name);
    return USAGE;
}

void put_set(asked *a, ms_json_writer *w, const char *name, ms_str text)
{
    if (text.len > 0) json_text(w, name, short_text(a, text));
}

void put_time(ms_json_writer *w, const char *name, bool known, int64_t ns)
{
    char text[TIME_MAX];
    if (known) json_text(w, name, ms_str_of(time_text(ns, text)));
}

void answer_open(ms_json_writer *w, const char *name)
{
    ms_json_begin(w, MS_JSON_OBJECT);
    ms_json_key(w, ms_str_of(name));
    ms_json_begin(w, MS_JSON_ARRAY);
}

int answer_close(ms_json_writer *w)
{
    ms_json_end(w);
    return ms_json_finish(w) == MS_OK ? FINE : no_memory();
}

static void note_secret(void *ctx, const secret *found)
{
    masked_text *m = ctx;
    secret_list *l = &m->found;
    if (l->count == l->cap) {
        size_t cap = l->cap > 0 ? 2 * l->cap : 16;
        secret *items = ms_arena_alloc(m->arena, cap * sizeof *items);
        if (items != NULL && l->count > 0) {
            memcpy(items, l->items, l->count * sizeof *items);
        }
        m->failed = m->failed || items == NULL;
        if (items == NULL) return;
        l->items = items;
        l->cap = cap;
    }
    l->items[l->count++] = *found;
}

bool mask_text(asked *a, ms_value value, ms_arena *arena, masked_text *out)
{
    memset(out, 0, sizeof *out);
    out->arena = arena;
    if (value.text.ptr == NULL) return true;
    bool good = secrets_mask(value, a->classes, arena, note_secret, out, &value);
    out->text = value.text;
    return good && !out->failed;
}

int find_message(asked *a, uint64_t seq, const ms_msg **msg)
{
    ms_error err;
    char text[40];
    job *j = a->job;
    ms_result result = ms_wait(j->store, 0, 0, NULL, &err);
    if (result == MS_OK) result = get_shown(j->store, seq, &j->arena, msg, &err);
    if (result == MS_OK) return FINE;
    snprintf(text, sizeof text, "message %" PRIu64, seq);
    return complain_of(text, result, &err);
}


/* ---- list_sessions ----------------------------------------------------------------- */

const mcp_arg list_args[S_COUNT] = {
    {"agent", "only sessions of this program: claude-code, codex, gemini-cli, ...",
     MCP_TEXT, false, 1, 200, 0, NULL},
    {"folder", "only sessions that worked in this folder or below it; or a piece of its "
               "name",
     MCP_TEXT, false, 1, 1000, 0, NULL},
    {"since", "only sessions that went on after this time: " TIME_TEXT,
     MCP_TEXT, false, 1, 60, 0, NULL},
    {"until", "only sessions that began before this time", MCP_TEXT, false, 1, 60, 0,
     NULL},
    {"limit", "how many sessions", MCP_INTEGER, false, 1, 100, 20, NULL},
    {"cursor", CURSOR_TEXT, MCP_TEXT, false, 1, 60, 0, NULL},
};

/* Writes dollars, or null where no answer has a price, and how many answers have none. */
static void put_cost(ms_json_writer *w, const cost_row *cost)
{
    char text[MONEY_MAX];
    snprintf(text, sizeof text, "%.6f", cost->cost);
    ms_json_key(w, MS_STR("cost"));
    bool known = cost->unpriced < cost->answers;
    ms_json_put_raw(w, known ? ms_str_of(text) : MS_STR("null"));
    json_u64(w, "unpriced_answers", cost->unpriced);
}

static void put_session(asked *a, ms_json_writer *w, const session_list *l,
                        const session *s)
{
    const ms_info *info = s->info;
    ms_json_begin(w, MS_JSON_OBJECT);
    json_text(w, "session", short_text(a, info->location));
    put_set(a, w, "title", s->title);
    put_set(a, w, "agent", s->agent);
    put_set(a, w, "folder", s->cwd);
    put_set(a, w, "model", s->model);
    put_set(a, w, "parent", s->parent);
    put_time(w, "began", info->first_time_ns != MS_TIME_NONE, info->first_time_ns);
    put_time(w, "ended", info->last_time_ns != MS_TIME_NONE, info->last_time_ns);
    json_u64(w, "messages", info->messages);
    json_u64(w, "last_message", info->last_seq);
    json_u64(w, "tokens", s->cost.input + s->cost.output);
    if (a->prices != NULL) put_cost(w, &s->cost);
    put_set(a, w, "resume", resume_text(l, s));
    ms_json_end(w);
}

/* Writes the sessions after a place, and moves it to the last one. */
static int put_sessions(asked *a, session_list *l, const mcp_value *v, place *last,
                        ms_buf *answer)
{
    ms_json_writer w;
    char next[CURSOR_BYTES] = "";
    int code = FINE;
    uint64_t matched = 0, shown = 0;
    ms_json_init(&w, ms_buf_write, answer, false);
    answer_open(&w, "sessions");
    for (size_t i = 0; i < arrlenu(l->items); i++) {
        session *s = &l->items[i];
        place here = {s->info->last_time_ns, s->info->last_seq};
        matched += s->shown;
        if (!s->shown || next[0] != '\0') continue;
        if (v[S_CURSOR].given && !is_after(last, here.ns, here.number)) continue;
        if (shown == v[S_LIMIT].number || answer->len > ANSWER_BYTES) {
            cursor_text("list_sessions", v, S_LIMIT, last, next);
            continue;
        }
        int costs = session_costs(l, s, a->prices);
        if (!is_read(costs)) return costs;
        if (costs != FINE) code = costs;
        put_session(a, &w, l, s);
        *last = here;
        shown++;
    }
    ms_json_end(&w);
    json_u64(&w, "matched", matched);
    if (l->undated > 0) json_u64(&w, "left_out_without_a_time", l->undated);
    if (next[0] != '\0') json_text(&w, "next_cursor", ms_str_of(next));
    int closed = answer_close(&w);
    return closed != FINE ? closed : code;
}

static int answer_list(asked *a, const mcp_value *v, ms_buf *answer)
{
    session_list l;
    place last = {0, 0};
    int code = asked_begin(a);
    if (code == FINE) code = asked_times(a, &v[S_SINCE], &v[S_UNTIL]);
    if (code == FINE && v[S_CURSOR].given) {
        code = cursor_take("list_sessions", v, S_LIMIT, v[S_CURSOR].text, &last);
    }
    if (code != FINE) return asked_end(a, code);
    a->call.only_agent = v[S_AGENT].text;
    a->call.cwd = v[S_FOLDER].text;
    code = sessions_find(&l, a->job, a->classes, false);
    if (is_read(code)) {
        int put = put_sessions(a, &l, v, &last, answer);
        if (put != FINE) code = put;
    }
    sessions_free(&l);
    return asked_end(a, code);
}

int asked_list(void *ctx, const mcp_value *v, ms_buf *answer)
{
    return asked_guarded(ctx, v, answer, answer_list);
}


/* ---- search ------------------------------------------------------------------------ */

const mcp_arg search_args[F_COUNT] = {
    {"query", "the text to find, as it is written; ASCII letters match in both cases",
     MCP_TEXT, true, 1, 1000, 0, NULL},
    {"session", "only here: " SESSION_TEXT, MCP_TEXT, false, 1, 1000, 0, NULL},
    {"since", "only messages from this time on: " TIME_TEXT, MCP_TEXT, false, 1, 60, 0,
     NULL},
    {"until", "only messages before this time", MCP_TEXT, false, 1, 60, 0, NULL},
    {"limit", "how many messages", MCP_INTEGER, false, 1, 100, 20, NULL},
    {"cursor", CURSOR_TEXT, MCP_TEXT, false, 1, 60, 0, NULL},
};

/* A search of masked texts. */
typedef struct masked_search {
    asked *asked;
    uint64_t seq;             /* of the message whose field is masked here */
    ms_field field;
    masked_text text;
    size_t next;              /* the first secret that does not end before the match */
    size_t added;             /* bytes that masks have added before it; may wrap round */
} masked_search;

static size_t mask_length(const secret *found)
{
    return strlen("[masked ]") + strlen(found->kind);
}

/* Sets where a match is in the masked text. *shown: it is outside of all secrets. False:
 * no memory. */
static bool place_match(masked_search *m, const ms_found *f, size_t *at, bool *shown)
{
    if (m->seq != ms_seq(f->msg) || m->field != f->field) {
        m->seq = ms_seq(f->msg);
        m->field = f->field;
        m->next = m->added = 0;
        ms_arena_reset(&m->asked->room);
        if (!mask_text(m->asked, ms_get(f->msg, f->field), &m->asked->room, &m->text)) {
            return false;
        }
    }
    const secret_list *l = &m->text.found;
    for (; m->next < l->count; m->next++) {
        const secret *s = &l->items[m->next];
        if (s->at + s->len > f->at) break;
        m->added += mask_length(s) - s->len;
    }
    *at = f->at + m->added;
    *shown = m->next == l->count || l->items[m->next].at >= f->at + f->length;
    return true;
}

static void put_hit(ms_json_writer *w, masked_search *m, const ms_found *f, size_t at)
{
    int64_t ns;
    const ms_msg *msg = f->msg;
    ms_str text = m->text.text;
    ms_str near = ms_find_snippet(text, at, f->length, AROUND);
    ms_buf buf = {&m->asked->room, NULL, 0, 0};
    bool timed = ms_time(msg, &ns);
    if (near.ptr > text.ptr) json_piece(&buf, "\xe2\x80\xa6");
    ms_buf_write(&buf, near.ptr, near.len);
    if (near.ptr + near.len < text.ptr + text.len) json_piece(&buf, "\xe2\x80\xa6");
    ms_json_begin(w, MS_JSON_OBJECT);
    json_u64(w, "message", ms_seq(msg));
    json_text(w, "session", short_text(m->asked, location_of(msg)));
    put_time(w, "time", timed, timed ? ns : 0);
    put_set(m->asked, w, "agent", agent_key_of(msg));
    put_set(m->asked, w, "type", ms_type_name(msg));
    put_set(m->asked, w, "tool", ms_get(msg, MS_F_TOOL).text);
    const char *field = field_word(f->field);
    if (f->field != MS_F_CONTENT) put_set(m->asked, w, "field", ms_str_of(field));
    json_text(w, "text", ms_buf_text(&buf));
    ms_json_end(w);
}

/* Writes the messages found after a place, and moves it to the last one. undated: how
 * many messages were not searched, since they have no time. */
static int put_hits(masked_search *m, ms_finder *finder, const mcp_value *v, place *last,
                    uint64_t undated, ms_buf *answer)
{
    ms_found f;
    ms_json_writer w;
    char next[CURSOR_BYTES] = "";
    uint64_t n = 0;
    ms_json_init(&w, ms_buf_write, answer, false);
    answer_open(&w, "messages");
    while (next[0] == '\0' && ms_find_next(finder, &f)) {
        size_t at;
        bool shown;
        place here = {MS_TIME_NONE, ms_seq(f.msg)};
        if (!ms_time(f.msg, &here.ns)) here.ns = MS_TIME_NONE;
        bool paged = v[F_CURSOR].given || n > 0;
        if (paged && !is_after(last, here.ns, here.number)) continue;
        if (!place_match(m, &f, &at, &shown)) return no_memory();
        if (!shown) continue;
        if (n == v[F_LIMIT].number || answer->len > ANSWER_BYTES) {
            cursor_text("search", v, F_LIMIT, last, next);
            continue;
        }
        put_hit(&w, m, &f, at);
        *last = here;
        n++;
    }
    ms_json_end(&w);
    if (undated > 0) json_u64(&w, "left_out_without_a_time", undated);
    if (next[0] != '\0') json_text(&w, "next_cursor", ms_str_of(next));
    return answer_close(&w);
}

/* Searches the log, newest first, messages without a time last: so each has a place that
 * no other message changes. */
static int search_asked(asked *a, const mcp_value *v, ms_buf *answer)
{
    ms_error err;
    ms_find_query q;
    ms_finder finder;
    masked_search m;
    place last = {0, 0};
    memset(&q, 0, sizeof q);
    memset(&m, 0, sizeof m);
    m.asked = a;
    q.query = query_of(&a->call, &a->job->arena);
    q.query.by_time = true;
    q.query.untimed_first = true;
    q.text = ms_str_of(v[F_QUERY].text);
    q.every_match = true;
    int code = FINE;
    if (v[F_SESSION].given) {
        code = choose_session(a, v[F_SESSION].text, &q.query.location);
    }
    if (code == FINE && v[F_CURSOR].given) {
        code = cursor_take("search", v, F_LIMIT, v[F_CURSOR].text, &last);
    }
    if (code != FINE) return code;
    uint64_t undated = count_undated(a->job, &q.query);
    ms_result result = ms_find_open(a->job->store, &q, &finder, &err);
    if (result != MS_OK) return complain_of("searching", result, &err);
    code = put_hits(&m, &finder, v, &last, undated, answer);
    result = ms_find_close(&finder, &err);
    if (result == MS_OK || code != FINE) return code;
    return complain_of("searching", result, &err);
}

static int answer_search(asked *a, const mcp_value *v, ms_buf *answer)
{
    int code = asked_begin(a);
    if (code == FINE) code = asked_times(a, &v[F_SINCE], &v[F_UNTIL]);
    if (code == FINE) code = search_asked(a, v, answer);
    return asked_end(a, code);
}

int asked_search(void *ctx, const mcp_value *v, ms_buf *answer)
{
    return asked_guarded(ctx, v, answer, answer_search);
}
