/* See past.h. */

#define _GNU_SOURCE
#include "past.h"
#include "files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { H_TEXT, H_TIME, H_PROJECT, H_SESSION, H_PASTED, H_KEYS };
static const json_key keys[] = {KEY("display"), KEY("timestamp"), KEY("project"),
                                KEY("sessionId"), KEY("pastedContents")};

/* What the log has of a session. */
enum { SESSION_NEW = 1, SESSION_PAST, SESSION_WHOLE };

bool past_shows(ms_str text)
{
    bool whole;
    ms_str v[H_KEYS], line = next_line(&text, &whole);
    if (ms_json_check(line, NULL, &line, NULL) != MS_OK) return false;
    pick(line, keys, H_KEYS, v);
    return is_kind(v[H_TEXT], MS_JSON_STRING) && is_kind(v[H_TIME], MS_JSON_NUMBER) &&
           is_kind(v[H_PROJECT], MS_JSON_STRING);
}

/* Looks at the messages of a location, hidden ones, too. Collects those of this file in
 * `ours` if there are others. Of a transcript that came first one message is read. */
static ms_result look_at(ms_store *store, ms_str location, unsigned *state,
                         uint64_t **ours, ms_error *err)
{
    ms_cursor it;
    ms_query q = {0};
    const ms_msg *msg;
    *state = SESSION_NEW;
    q.location = location;
    q.raw = MS_RAW_MESSAGES;
    q.oldest = true;
    ms_result result = ms_query_open(store, &q, &it, err);
    if (result != MS_OK) return result;
    while (*state != SESSION_WHOLE && (msg = ms_next(&it)) != NULL) {
        ms_str key = ms_get(msg, MS_F_KEY).text; /* a redaction leaves it */
        bool past = text_begins(key, MS_STR("history:"));
        *state = past ? SESSION_PAST : SESSION_WHOLE;
        if (past) arrput(*ours, ms_seq(msg));
    }
    return ms_cursor_close(&it, err);
}

/* (HP2) */
static ms_result hide_ours(ms_store *store, uint64_t *ours, past_counts *counts,
                           ms_error *err)
{
    ms_result result = MS_OK;
    for (size_t i = 0; i < arrlenu(ours) && result == MS_OK; i++) {
        result = ms_hide(store, ours[i], err);
        if (result == MS_OK) counts->hidden++;
        if (result == MS_E_HIDDEN || result == MS_E_NOT_FOUND) result = MS_OK;
    }
    return result;
}

static ms_result name_session(ms_store *store, ms_str location, ms_str project,
                              uint64_t first, ms_error *err)
{
    char text[40];
    ms_arena arena = {0};
    ms_buf buf = {&arena, NULL, 0, 0};
    json_piece(&buf, "{\"agent\":\"claude-code\",\"cwd\":");
    ms_buf_write(&buf, project.ptr, project.len);
    snprintf(text, sizeof text, ",\"first\":\"%" PRIu64 "\"}", first);
    json_piece(&buf, text);
    ms_result result = ms_location_set(store, location, ms_buf_text(&buf), err);
    ms_arena_deinit(&arena);
    return result;
}

/* Returns the prompt with the texts that were pasted in place of what stands for them:
 * "[Pasted text #1 +20 lines]". */
static ms_str whole_prompt(ms_arena *arena, const ms_str *v)
{
    char mark[40];
    ms_buf buf = {arena, NULL, 0, 0};
    ms_str text = text_of(arena, v[H_TEXT]);
    ms_json_iter it = ms_json_iterate(v[H_PASTED]);
    while (is_object(v[H_PASTED]) && ms_json_next(&it)) {
        ms_str pasted = text_of(arena, member(it.value, "content"));
        int n = snprintf(mark, sizeof mark, "[Pasted text #%" PRIu64,
                         count_of(member(it.value, "id")));
        const char *at = find_bytes(text.ptr, text.len, mark, (size_t)n);
        const char *end = text.ptr + text.len;
        const char *after = at != NULL ? memchr(at, ']', (size_t)(end - at)) : NULL;
        if (pasted.len == 0 || after == NULL || (at[n] != ' ' && at[n] != ']')) continue;
        memset(&buf, 0, sizeof buf);
        buf.arena = arena;
        ms_buf_write(&buf, text.ptr, (size_t)(at - text.ptr));
        ms_buf_write(&buf, pasted.ptr, pasted.len);
        ms_buf_write(&buf, after + 1, (size_t)(end - after) - 1);
        text = ms_buf_text(&buf);
    }
    return text;
}

/* Stores a prompt; *seq: its number. */
static ms_result put_prompt(ms_store *store, ms_arena *arena, ms_str line,
                            const ms_str *v, ms_str location, uint64_t *seq,
                            ms_error *err)
{
    char key[80];
    ms_buf buf = {arena, NULL, 0, 0};
    ms_envelope m = ms_user_message(ms_text_n(whole_prompt(arena, v)));
    json_piece(&buf, "{\"claude-code\":{\"history\":true,\"entry\":");
    ms_buf_write(&buf, line.ptr, line.len);
    json_piece(&buf, "}}");
    m.extra = ms_buf_text(&buf);
    uint64_t ms = count_of(v[H_TIME]);
    m.has_time = ms > 0 && ms < 9000000000000;
    if (m.has_time) m.time_ns = (int64_t)ms * 1000000;
    snprintf(key, sizeof key, "history:%" PRIu64 ":%016" PRIx64, ms,
             hash_text(v[H_TEXT]));
    m.key = ms_str_of(key);
    ms_result result = ms_append(store, location, &m, seq, err);
    return result == MS_E_KEY_REUSED ? MS_OK : result; /* erased since */
}

typedef struct past {
    ms_store *store;
    past_counts *counts;
    tally sessions;           /* count: the state of each */
    uint64_t newest;
} past;

/* Returns the state of a session, which is asked for once. */
static ms_result state_of(past *p, ms_str session, unsigned *state, ms_error *err)
{
    uint64_t *ours = NULL;
    ms_result result = MS_OK;
    tally_row *row = tally_row_of(&p->sessions, session);
    if (row == NULL) exit(no_memory());
    *state = (unsigned)row->count;
    if (*state != 0) return MS_OK;
    result = look_at(p->store, session, state, &ours, err);
    if (result == MS_OK && *state == SESSION_WHOLE) {
        result = hide_ours(p->store, ours, p->counts, err);
    }
    row->count = *state;
    arrfree(ours);
    return result;
}

/* whole: the line has its end; another one is still being written. */
static ms_result take_line(past *p, ms_arena *arena, ms_str line, bool whole,
                           ms_error *err)
{
    ms_str v[H_KEYS], value;
    unsigned state;
    uint64_t seq = 0;
    if (ms_json_check(line, NULL, &value, NULL) != MS_OK) {
        p->counts->bad_lines += whole;
        return MS_OK;
    }
    pick(value, keys, H_KEYS, v);
    ms_str session = text_of(arena, v[H_SESSION]), text = text_of(arena, v[H_TEXT]);
    if (!is_kind(v[H_TEXT], MS_JSON_STRING)) p->counts->bad_lines++;
    if (text.len == 0) return MS_OK;
    bool named = session.len > 0 && session.len <= MS_KEY_MAX &&
                 memchr(session.ptr, '\0', session.len) == NULL;
    if (!named) {
        p->counts->unnamed++;
        return MS_OK;
    }
    ms_result result = state_of(p, session, &state, err);
    if (result != MS_OK || state == SESSION_WHOLE) return result;
    result = put_prompt(p->store, arena, value, v, session, &seq, err);
    if (result != MS_OK || seq <= p->newest) return result;
    p->newest = seq;
    p->counts->prompts++;
    if (state != SESSION_NEW) return MS_OK;
    p->counts->sessions++;
    tally_row_of(&p->sessions, session)->count = SESSION_PAST;
    bool placed = is_kind(v[H_PROJECT], MS_JSON_STRING);
    ms_str project = placed ? v[H_PROJECT] : MS_STR("\"\"");
    return name_session(p->store, session, project, seq, err);
}

int past_take(ms_store *store, const char *path, past_counts *counts)
{
    ms_error err;
    ms_stat stat;
    ms_arena arena = {0};
    file_text file = {{NULL, 0}, NULL, 0, NULL, 0, false, 0};
    past p;
    memset(&p, 0, sizeof p);
    p.store = store;
    p.counts = counts;
    int code = file_load(&file, path);
    ms_result result = is_read(code) ? ms_store_stat(store, &stat, &err) : MS_OK;
    ms_str rest = file.text;
    if (result == MS_OK) p.newest = stat.last_seq;
    while (is_read(code) && result == MS_OK && rest.len > 0) {
        bool whole;
        ms_str line = next_line(&rest, &whole);
        if (is_blank(line)) continue;
        ms_arena_reset(&arena);
        result = take_line(&p, &arena, line, whole, &err);
    }
    if (result != MS_OK) code = complain_of(path, result, &err);
    ms_arena_deinit(&arena);
    tally_free(&p.sessions);
    file_free(&file);
    return code;
}
