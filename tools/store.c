/* See store.h. */

#define _GNU_SOURCE
#include "store.h"
#include "cmd_sessions.h"
#include "near.h"
#include "postgres.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>


/* ---- Stores: the one place where they are opened ----------------------------------- */

static void note_event(void *ctx, const ms_log_event *event)
{
    job *j = ctx;
    for (size_t i = 0; i < j->n_events; i++) {
        const ms_log_event *e = &j->events[i];
        if (e->kind == event->kind && e->offset == event->offset) return;
    }
    if (j->events == NULL) j->events = calloc(EVENTS_MAX, sizeof *j->events);
    if (j->events != NULL && j->n_events < EVENTS_MAX) j->events[j->n_events++] = *event;
}

const char *event_text(const ms_log_event *e, char out[EVENT_TEXT])
{
    static const char *const words[] = {"damaged", "torn", "sync", "index"};
    uint64_t last = e->offset + (e->length > 0 ? e->length - 1 : 0);
    int n = snprintf(out, EVENT_TEXT, "%-10s bytes %" PRIu64 " to %" PRIu64,
                     (size_t)e->kind < COUNT_OF(words) ? words[e->kind] : "event",
                     e->offset, last);
    size_t len = (size_t)n, room = EVENT_TEXT - len;
    if (e->kind == MS_LOG_SYNC_FAILED) {
        snprintf(out + len, room, ": a sync failed: %s", strerror(e->sys_errno));
    } else if (e->kind == MS_LOG_INDEX_DAMAGE && e->offset == 56) {
        snprintf(out + len, room, ", and their copy: the lineage is unknown; "
                 "'compact' begins a new one");
    } else if (e->kind == MS_LOG_INDEX_DAMAGE) {
        snprintf(out + len, room, ": made again, nothing is lost");
    } else if (e->after_seq > 0 && e->before_seq > 0) {
        snprintf(out + len, room, ", between messages %" PRIu64 " and %" PRIu64,
                 e->after_seq, e->before_seq);
    } else if (e->after_seq > 0) {
        snprintf(out + len, room, ", after message %" PRIu64, e->after_seq);
    } else if (e->before_seq > 0) {
        snprintf(out + len, room, ", before message %" PRIu64, e->before_seq);
    }
    return out;
}

void print_events(output *out, job *j)
{
    char text[EVENT_TEXT];
    for (; j->reported < j->n_events; j->reported++) {
        emit_format(out, "%s\n", event_text(&j->events[j->reported], text));
    }
}

void complain_of_events(job *j)
{
    char text[EVENT_TEXT];
    for (; j->reported < j->n_events; j->reported++) {
        complain("%s: %s", j->options->files[0],
                 event_text(&j->events[j->reported], text));
    }
}

/* Returns whether damage was found while reading. */
static bool met_damage(const job *j)
{
    for (size_t i = 0; i < j->n_events && !j->appends; i++) {
        if (j->events[i].kind == MS_LOG_DAMAGE) return true;
    }
    return false;
}

void set_writing(const options *o, ms_log_desc *desc)
{
    desc->shared = GIVEN(o, SHARED);
    desc->lock_wait_ms = o->wait_ms;
}

bool is_log(const char *path)
{
    static const char magic[] = "\x89MSL\r\n\x1a\n";
    static const off_t pages[] = {0, 4096}; /* the first one can be damaged */
    char found[sizeof magic - 1];
    struct stat st;
    bool log = false;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    for (size_t i = 0; i < COUNT_OF(pages) && !log; i++) {
        bool there = lseek(fd, pages[i], SEEK_SET) == pages[i] &&
                     read(fd, found, sizeof found) == (ssize_t)sizeof found;
        log = there && memcmp(found, magic, sizeof found) == 0;
    }
    close(fd);
    return log;
}

bool log_file_look(const char *path, log_file *f)
{
    unsigned char mark[8];
    memset(f, 0, sizeof *f);
    memset(mark, 0, sizeof mark);
    if (stat(path, &f->st) != 0) return false;
    FILE *file = fopen(path, "rb");
    if (file == NULL) return false;
    bool whole = fread(f->fixed, 1, FIXED_BYTES, file) == FIXED_BYTES &&
                 fseek(file, MARK_AT, SEEK_SET) == 0 && fread(mark, 1, 8, file) == 8;
    fclose(file);
    if (!whole) memset(mark, 0, sizeof mark);
    for (size_t i = 8; i > 0; i--) f->mark = f->mark << 8 | mark[i - 1];
    return true;
}

/* Says that a file which is read as an empty log has bytes of one. */
static void complain_of_stub(ms_store *store, const char *path)
{
    ms_log_info info;
    ms_result result = ms_log_stat(store, &info, NULL);
    if (result != MS_OK || info.end > 0 || info.size == 0) return;
    complain("%s: %" PRIu64 " bytes of a creation that did not end, or of a log that was "
             "cut; it has no messages", path, info.size);
}

int open_log(job *j, const char *path, const ms_log_desc *how)
{
    ms_error err;
    ms_log_desc desc = *how;
    desc.path = path;
    desc.events.event = note_event;
    desc.events.ctx = j;
    ms_result result = ms_log_open(&j->store, &desc, &err);
    if (result != MS_OK) return complain_of(NULL, result, &err);
    if (desc.mode == MS_LOG_READ) complain_of_stub(j->store, path);
    j->log = true;
    return FINE;
}

int open_to_read(job *j)
{
    ms_log_desc desc = {0};
    if (is_postgres(j->options->files[0]))
        return open_postgres(j, j->options->files[0], false);
    desc.mode = MS_LOG_READ;
    return open_log(j, j->options->files[0], &desc);
}

int open_to_append(job *j, bool keep_unset_times, uint64_t *newest)
{
    ms_error err;
    ms_log_desc desc = {0};
    desc.mode = MS_LOG_CREATE;
    desc.sync = j->options->sync == SYNC_EACH ? MS_SYNC_EACH : MS_SYNC_NONE;
    desc.keep_unset_times = keep_unset_times;
    set_writing(j->options, &desc);
    j->appends = true;
    const char *path = j->options->files[0];
    int code = is_postgres(path) ? open_postgres(j, path, true)
                                 : open_log(j, path, &desc);
    if (code != FINE) return code;
    ms_result result = ms_wait(j->store, 0, 0, newest, &err);
    return result == MS_OK ? FINE : complain_of("reading the log", result, &err);
}

/* Returns whether an error is about this message only, so that others may be stored. */
static bool is_about_message(ms_result result)
{
    static const ms_result results[] = {
        MS_E_ARGUMENT, MS_E_TOO_LARGE, MS_E_KEY_REUSED, MS_E_SYNTAX, MS_E_UTF8,
        MS_E_DEPTH,    MS_E_KIND,      MS_E_RANGE,      MS_E_MISSING, MS_E_TYPE,
    };
    for (size_t i = 0; i < COUNT_OF(results); i++) {
        if (results[i] == result) return true;
    }
    return false;
}

int store_messages(ms_store *store, const taken *t, uint64_t *seqs)
{
    ms_error err;
    ms_append_opts opts = {0};
    opts.seqs = seqs;
    ms_result result = ms_append_batch(store, t->list.items, t->list.count, &opts, &err);
    if (result == MS_OK) return FINE;
    if (!is_about_message(result)) return complain_of("storing a message", result, &err);
    source loud = *t->source; /* only damaged input is passed over without a message
                               * here */
    if (!loud.rescuing) loud.fault = NULL;
    int code = complain_at(&loud, t->at, "storing this message: ", err.message);
    return code == SKIPPED ? UNSTORED : exit_code(result);
}

static int load_take(void *ctx, const taken *t)
{
    return store_messages(ctx, t, NULL);
}

/* Adds the usage of the answer that was stored last. */
static void load_answered(void *ctx, ms_str response)
{
    use u;
    uint64_t last = 0;
    ms_arena arena = {0};
    use_of_response(response, &arena, &u);
    if (u.input + u.output > 0 && ms_wait(ctx, 0, 0, &last, NULL) == MS_OK) {
        ms_note(ctx, last, MS_STR("usage"), ms_json(use_json(&u, &arena)), NULL);
    }
    ms_arena_deinit(&arena);
}

int open_memory(job *j)
{
    ms_error err;
    ms_mem_desc desc = {0};
    desc.keep_unset_times = true;
    ms_result result = ms_mem_open(&j->store, &desc, &err);
    return result == MS_OK ? FINE : complain_of("opening a store", result, &err);
}

int take_into(job *j, const char *path, const sink *messages, bool guess_agent,
              bool rename)
{
    intake in = {j->store, j->options, &j->counts, messages->rescue, messages,
                 guess_agent,
                 rename, false, NULL, NULL, NULL};
    return take_path(&in, path);
}

ms_str only_agent(job *j, ms_str location)
{
    ms_cursor it;
    ms_query q = {0};
    const ms_msg *msg;
    ms_str only = {NULL, 0};
    bool one = true;
    q.location = location;
    if (ms_query_open(j->store, &q, &it, NULL) != MS_OK) return only;
    while (one && (msg = ms_next(&it)) != NULL) {
        ms_str agent = agent_key_of(msg);
        one = agent.len > 0 && !ms_str_equal(agent, MS_STR("assistant")) &&
              (only.ptr == NULL || ms_str_equal(agent, only));
        if (one && only.ptr == NULL && !copy_text(&j->arena, agent, &only)) {
            exit(no_memory());
        }
    }
    ms_cursor_close(&it, NULL);
    return one ? only : ms_str_n(NULL, 0);
}

int open_store(job *j)
{
    const char *path = j->options->files[0];
    if (is_log(path)) return open_to_read(j);
    if (is_postgres(path)) return open_postgres(j, path, false);
    int code = open_memory(j);
    rescue *going = GIVEN(j->options, REFUSE) ? NULL : &j->rescue;
    sink to = {load_take, j->store, true, true, false, going, load_answered,
               &j->names, NULL};
    if (code == FINE) code = take_into(j, path, &to, true, false);
    if (code != DAMAGED) return code;
    j->lossy = true; /* the readable messages are shown */
    return FINE;
}

/* Joins the parts of a job into one store. */
static int join_parts(job *j)
{
    ms_error err;
    ms_union_desc desc;
    memset(&desc, 0, sizeof desc);
    ms_store **stores = ms_arena_alloc(&j->arena, j->n_parts * sizeof *stores);
    if (stores == NULL) return no_memory();
    for (size_t i = 0; i < j->n_parts; i++) stores[i] = j->parts[i].job.store;
    desc.stores = stores;
    desc.n_stores = j->n_parts;
    ms_result result = ms_union_open(&j->store, &desc, &err);
    return result == MS_OK ? FINE : complain_of("joining the stores", result, &err);
}

int open_stores(job *j, size_t n)
{
    if (n == 1) return open_store(j);
    j->parts = calloc(n, sizeof *j->parts);
    if (j->parts == NULL) return no_memory();
    for (; j->n_parts < n; j->n_parts++) {
        part *p = &j->parts[j->n_parts];
        p->options = *j->options;
        p->options.files = j->options->files + j->n_parts;
        p->job.options = &p->options;
        int code = open_store(&p->job);
        if (code == FINE) continue;
        j->n_parts++; /* it may be half open */
        return code;
    }
    return join_parts(j);
}

ms_store *joined_store(const job *j)
{
    return j->n_parts > 0 ? j->store : NULL;
}

int close_job(job *j)
{
    int code = FINE;
    ms_close(j->store);
    j->store = NULL;
    for (size_t i = 0; i < j->n_parts; i++) {
        if (close_job(&j->parts[i].job) != FINE) code = DAMAGED;
    }
    complain_of_events(j);
    if (met_damage(j) || j->lossy || j->damage_told) code = DAMAGED;
    counts_free(&j->counts);
    tally_free(&j->names);
    ms_arena_deinit(&j->arena);
    free(j->parts);
    free(j->events);
    return code;
}


/* ---- Choosing what to look at ------------------------------------------------------ */

enum { HINTED = 10 };         /* names that a complaint lists */

static bool has_piece(ms_str name, bool begin, ms_str piece)
{
    return begin ? text_begins(name, piece)
                 : find_bytes(name.ptr, name.len, piece.ptr, piece.len) != NULL;
}

/* Prints the agents, each once. */
static void hint_agents(const ms_listing *list)
{
    char text[1024] = "";
    size_t len = 0, more = 0;
    ms_str shown[HINTED];
    size_t n = 0;
    for (size_t i = 0; i < list->count; i++) {
        ms_str item = list->items[i].agent_key;
        size_t k = 0;
        while (k < n && !ms_str_equal(shown[k], item)) k++;
        if (item.len == 0 || k < n) continue;
        if (n == HINTED) {
            more++;
            continue;
        }
        shown[n++] = item;
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%.*s",
                                n > 1 ? ", " : "", item.len < 80 ? (int)item.len : 80,
                                item.ptr);
    }
    if (n > 0) complain("there are agents: %s%s", text, more > 0 ? ", ..." : "");
}

enum { TITLE_COLUMNS = 60 };

/* Prints the names of the sessions that have a piece, or begin with it, newest first, a
 * line each, with their titles. */
static void hint(job *j, const ms_listing *list, bool begin, ms_str piece)
{
    size_t shown = 0, more = 0;
    char title[6 * TITLE_COLUMNS];
    for (size_t i = 0; i < list->count; i++) {
        ms_str item = list->items[i].location;
        if (item.len == 0 || !has_piece(item, begin, piece)) continue;
        if (shown == HINTED) {
            more++;
            continue;
        }
        if (shown++ == 0) complain("there are sessions:");
        cell c = cell_over(title, sizeof title, TITLE_COLUMNS);
        cell_put(&c, session_title(j, &list->items[i], 0));
        complain("%.*s %.*s", item.len < 80 ? (int)item.len : 80, item.ptr, (int)c.len,
                 title);
    }
    if (more > 0) {
        complain("and %zu more: see %s", more,
                 j->lister != NULL ? j->lister : "msgstore sessions");
    }
}

ms_result list_names(job *j, const ms_list_query *query, ms_arena *arena,
                     ms_listing *list, ms_error *err)
{
    ms_result result = ms_list(j->store, query, arena, list, err);
    if (result != MS_E_DAMAGED) return result;
    if (!j->damage_told) complain("listing the store: %s", err->message);
    j->damage_told = true;
    return MS_OK;
}

int look_up(job *j, bool agents, ms_str location, ms_str name, ms_listing *list)
{
    ms_error err;
    ms_list_query query = {0};
    query.agents = agents;
    query.location = location;
    ms_result result = list_names(j, &query, &j->arena, list, &err);
    if (result != MS_OK) return complain_of("listing the store", result, &err);
    if (name.ptr == NULL) return FINE;
    for (size_t i = 0; i < list->count; i++) {
        ms_str item = agents ? list->items[i].agent_key : list->items[i].location;
        if (ms_str_equal(item, name)) return FINE;
    }
    char meant[128];
    near_word n = near_begin(name);
    for (size_t i = 0; i < list->count; i++) {
        near_try(&n, agents ? list->items[i].agent_key : list->items[i].location);
    }
    complain("no messages of %s %.*s%s", agents ? "agent" : "session",
             name.len < 1024 ? (int)name.len : 1024, name.ptr, near_text(&n, meant));
    if (!agents) hint(j, list, true, MS_STR(""));
    else hint_agents(list);
    if (agents && format_find(name) != NULL) {
        complain("%.*s is a program: sessions --agent lists its sessions",
                 (int)name.len, name.ptr);
    }
    return NOT_FOUND;
}

static bool is_a_file(ms_str name)
{
    char path[1024];
    snprintf(path, sizeof path, "%.*s", name.len < 1024 ? (int)name.len : 0, name.ptr);
    return is_there(path);
}

/* Finds the locations that begin with a piece, or have it. *location: one of them. */
static size_t find_piece(const ms_listing *list, bool begin, ms_str piece,
                         ms_str *location)
{
    size_t found = 0;
    for (size_t i = 0; i < list->count; i++) {
        ms_str item = list->items[i].location;
        if (!has_piece(item, begin, piece)) continue;
        found++;
        *location = item;
    }
    return found;
}

/* Returns whether a session has a word in the folder that it was held in. */
static bool is_of_folder(job *j, const ms_listing *list, ms_str word)
{
    bool found = false;
    ms_arena arena = {0};
    for (size_t i = 0; i < list->count && !found && word.len > 0; i++) {
        ms_str facts, location = list->items[i].location;
        ms_arena_reset(&arena);
        if (get_facts(j->store, location, &arena, &facts, NULL) != MS_OK) continue;
        ms_str folder = text_of(&arena, member(facts, "cwd"));
        found = folder.len > 0 &&
                find_bytes(folder.ptr, folder.len, word.ptr, word.len) != NULL;
    }
    ms_arena_deinit(&arena);
    return found;
}

/* Accepts the beginning of a name if no other location has it, else a part. A change
 * needs the full name. Says which it is when the part is not its beginning. */
int resolve(job *j, const ms_listing *list, ms_str name, ms_str *location)
{
    size_t found = 0;
    uint64_t number;
    char word[24];
    *location = name;
    if (name.ptr == NULL) return FINE;
    for (size_t i = 0; i < list->count; i++) {
        if (ms_str_equal(list->items[i].location, name)) return FINE;
    }
    bool pieces = !j->appends && name.len > 0;
    if (pieces) found = find_piece(list, true, name, location);
    if (found == 1) return FINE;
    bool begins = found > 1;
    int len = name.len < 1024 ? (int)name.len : 1024;
    if (pieces && found == 0) found = find_piece(list, false, name, location);
    if (found == 1) {
        snprintf(word, sizeof word, "%.*s", name.len < sizeof word ? len : 0, name.ptr);
        bool of_message = parse_number(word, &number);
        complain("session %.*s, which has %.*s in its name%s%s%s",
                 location->len < 200 ? (int)location->len : 200, location->ptr, len,
                 name.ptr, of_message ? "; msgstore show " : "", of_message ? word : "",
                 of_message ? " is the message" : "");
        return FINE;
    }
    if (found > 1) {
        complain("%zu sessions have %.*s in their names", found, len, name.ptr);
    }
    char meant[128];
    near_word n = near_begin(name);
    for (size_t i = 0; i < list->count; i++) near_try(&n, list->items[i].location);
    if (found == 0) {
        complain("no messages of session %.*s%s", len, name.ptr, near_text(&n, meant));
    }
    if (found == 0 && is_a_file(name)) {
        complain("%.*s is a file, but one STORE is taken, then a SESSION", len, name.ptr);
        return USAGE;
    }
    if (found == 0 && j->lister == NULL && is_of_folder(j, list, name)) {
        complain("sessions of a folder with that name: msgstore sessions --cwd %.*s", len,
                 name.ptr);
    }
    hint(j, list, begins || found == 0, found > 1 ? name : MS_STR(""));
    return found > 1 ? USAGE : NOT_FOUND;
}

bool is_on_server(job *j, ms_str name)
{
    ms_cursor it;
    ms_query q = {0};
    q.location = name;
    q.limit = 1;
    if (name.len == 0 || !is_postgres(j->options->files[0])) return false;
    bool found = ms_query_open(j->store, &q, &it, NULL) == MS_OK && ms_next(&it) != NULL;
    ms_cursor_close(&it, NULL);
    return found;
}

int choose_location(job *j, const char *name, bool needed, ms_str *location)
{
    ms_listing list;
    const options *o = j->options;
    ms_str all = {NULL, 0};
    ms_str none = {NULL, 0};
    int code = FINE;
    if (is_on_server(j, ms_str_of(name))) {
        *location = ms_str_of(name);
        if (o->agent != NULL) look_up(j, true, *location, ms_str_of(o->agent), &list);
        return FINE;
    }
    code = look_up(j, false, all, none, &list);
    if (code == FINE) code = resolve(j, &list, ms_str_of(name), location);
    if (code != FINE) return code;
    if (name == NULL && needed && list.count == 0) return NOT_FOUND;
    if (name == NULL && needed && list.count > 1) {
        complain("one of %zu sessions is to be named, with --location (of view, history "
                 "and others also as the last argument)", list.count);
        hint(j, &list, true, MS_STR(""));
        return USAGE;
    }
    if (name == NULL && needed) *location = list.items[0].location;
    if (o->agent != NULL) look_up(j, true, *location, ms_str_of(o->agent), &list);
    return FINE;
}

int resolve_all(job *j)
{
    ms_listing list;
    ms_str none = {NULL, 0};
    const options *o = j->options;
    size_t exact = 0;
    while (exact < o->n_locations && is_on_server(j, o->locations[exact])) exact++;
    if (exact == o->n_locations) return FINE;
    int code = look_up(j, false, none, none, &list);
    for (size_t i = 0; i < o->n_locations && code == FINE; i++) {
        ms_str name = o->locations[i];
        code = resolve(j, &list, name, &o->locations[i]);
    }
    return code;
}

bool is_wanted(const options *o, ms_str location)
{
    bool wanted = o->n_locations == 0;
    for (size_t i = 0; i < o->n_locations && !wanted; i++) {
        wanted = ms_str_equal(o->locations[i], location);
    }
    return wanted;
}

ms_query query_of(const options *o, ms_arena *arena)
{
    ms_query q = {0};
    if (GIVEN(o, CONVERSATION)) q.views |= MS_VIEW_CONVERSATION;
    if (GIVEN(o, AGENT)) q.views |= MS_VIEW_AGENT;
    if (GIVEN(o, TEAM)) q.views |= MS_VIEW_TEAM;
    if (GIVEN(o, GLOBAL)) q.views |= MS_VIEW_GLOBAL;
    if (GIVEN(o, TIMELINE)) q.views |= MS_VIEW_TIMELINE;
    q.agent_key = ms_str_of(o->agent);
    q.agent_keys = o->team;
    q.n_agent_keys = o->n_team;
    q.turn_id = ms_str_of(o->turn);
    q.has_since = GIVEN(o, SINCE);
    q.since_ns = o->since_ns;
    q.has_until = GIVEN(o, UNTIL);
    q.until_ns = o->until_ns;
    q.limit = o->limit;
    q.oldest = GIVEN(o, OLDEST);
    q.arena = arena;
    return q;
}

/* Returns whether one of the stores is on a server. */
static bool is_remote(const job *j)
{
    const options *o = j->options;
    bool remote = false;
    for (size_t i = 0; i < o->n_files; i++) remote = remote || is_postgres(o->files[i]);
    return remote;
}

uint64_t count_undated(job *j, const ms_query *query)
{
    ms_cursor it;
    int64_t ns;
    uint64_t n = 0;
    const ms_msg *msg;
    ms_query q = *query, chosen;
    if ((!q.has_since && !q.has_until) || is_remote(j)) return 0;
    q.has_since = q.has_until = q.by_time = q.oldest = q.reverse = false;
    q.limit = 0;
    chosen = q;
    chosen.raw = 0;
    if (q.raw != 0) { /* redact --raw has views, too, which a raw query has not */
        memset(&q, 0, sizeof q);
        q.location = query->location;
        q.raw = MS_RAW_MESSAGES;
    }
    if (ms_query_open(j->store, &q, &it, NULL) != MS_OK) return 0;
    while ((msg = ms_next(&it)) != NULL) {
        n += !ms_time(msg, &ns) && (q.raw == 0 || ms_query_match(&chosen, msg));
    }
    ms_cursor_close(&it, NULL);
    return n;
}

void complain_of_undated(job *j, const ms_query *query)
{
    uint64_t n = count_undated(j, query);
    if (n > 0) complain("%" PRIu64 " message%s without a time left out", n, plural(n));
}
