/* msgstore serve: the page of a report over a whole log, for a browser on this machine.
 * The page (tools/report/serve.js) fetches what it shows from here:
 *
 *   ""         the page
 *   sessions   the list, newest first: arguments and answer of mcp's list_sessions, with
 *              what each session cost
 *   search     arguments and answer of mcp's search
 *   session    the data of a page with one session (cmd_report.c): message, which is in
 *              it, or name, also where the message is not shown any more; limit: its
 *              newest messages; requests: with what providers would get; hash: of the
 *              data that the page has
 *   state      of the log, another text after it has grown or was replaced; its name;
 *              --timezone
 *
 * An answer is {"data": ..., "warning": text}, or {"error": text}. Of a session the data
 * is {"hash": h, "page": {...}}, with page null where the page has that hash. */

#define _GNU_SOURCE
#include "cmd_report.h"
#include "commands.h"
#include "costs.h"
#include "postgres.h"
#include "questions.h"
#include "serve_page.h"
#include "web.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifndef _WIN32
#include <sys/wait.h>
#endif

/* Messages of a session that a page gets at first, and at most; and their bytes in the
 * log. */
enum { SESSION_USUAL = 2000, SESSION_MOST = 50000, SESSION_BYTES = 32 << 20 };

typedef struct served {
    asked asked;
    prices prices;
    ms_arena arena;           /* of one request */
    ms_arena policy_arena;
    const char *policy;       /* of the page */
} served;


/* ---- Answers ----------------------------------------------------------------------- */

enum { D_NAME, D_MESSAGE, D_LIMIT, D_REQUESTS, D_HASH, D_COUNT };

static const mcp_arg session_args[D_COUNT] = {
    {"name", SESSION_TEXT, MCP_TEXT, false, 1, 1000, 0, NULL},
    {"message", "a message of the session", MCP_INTEGER, false, 1, 9007199254740991, 0,
     NULL},
    {"limit", "its newest messages", MCP_INTEGER, false, 1, SESSION_MOST, SESSION_USUAL,
     NULL},
    {"requests", "also what providers would get", MCP_INTEGER, false, 0, 1, 0, NULL},
    {"hash", "of the data that the page has", MCP_TEXT, false, 1, 20, 0, NULL},
};

/* Counts the newest messages of a session up to the limit that fit into SESSION_BYTES,
 * and as many more as reach back to a message. */
static int count_newest(asked *a, ms_str location, uint64_t limit, uint64_t message,
                        uint64_t *count)
{
    ms_cursor it;
    ms_error err;
    const ms_msg *msg;
    ms_query q = {0};
    ms_arena arena = {0};
    uint64_t n = 0, bytes = 0, oldest = UINT64_MAX;
    q.location = location;
    q.limit = SESSION_MOST;
    q.arena = &arena;
    ms_result result = ms_query_open(a->job->store, &q, &it, &err);
    if (result != MS_OK) return complain_of("reading the log", result, &err);
    uint64_t *sizes = NULL;   /* an stb_ds array, oldest first */
    uint64_t *seqs = NULL;
    while ((msg = ms_next(&it)) != NULL) {
        arrput(sizes, ms_size(msg));
        arrput(seqs, ms_seq(msg));
    }
    result = ms_cursor_close(&it, &err);
    for (size_t i = arrlenu(sizes); i > 0; i--) {
        bool wanted = n < limit || (message > 0 && oldest > message);
        if (!wanted || (n > 0 && bytes + sizes[i - 1] > SESSION_BYTES)) break;
        bytes += sizes[i - 1];
        oldest = seqs[i - 1];
        n++;
    }
    arrfree(sizes);
    arrfree(seqs);
    ms_arena_deinit(&arena);
    *count = n > 0 ? n : 1;
    if (result == MS_OK || result == MS_E_DAMAGED) return FINE;
    return complain_of("reading the log", result, &err);
}

static int put_session(asked *a, const mcp_value *v, ms_str location, ms_buf *answer)
{
    char hash[20];
    uint64_t count = 0;
    ms_json_writer w;
    ms_arena arena = {0};
    ms_buf data = {&arena, NULL, 0, 0};
    int code = count_newest(a, location, v[D_LIMIT].number, v[D_MESSAGE].number, &count);
    a->call.limit = (size_t)count;
    if (code == FINE) {
        code = report_session(a->job, location, v[D_REQUESTS].number == 1,
                              a->base->prices, &data);
    }
    if (is_read(code)) {
        snprintf(hash, sizeof hash, "%016" PRIx64, hash_text(ms_buf_text(&data)));
        bool same = v[D_HASH].given && strcmp(v[D_HASH].text, hash) == 0;
        ms_json_init(&w, ms_buf_write, answer, false);
        ms_json_begin(&w, MS_JSON_OBJECT);
        json_text(&w, "hash", ms_str_of(hash));
        ms_json_key(&w, MS_STR("page"));
        ms_json_put_raw(&w, same ? MS_STR("null") : ms_buf_text(&data));
        ms_json_end(&w);
        if (ms_json_finish(&w) != MS_OK) code = no_memory();
    }
    ms_arena_deinit(&arena);
    return code;
}

static int answer_session(asked *a, const mcp_value *v, ms_buf *answer)
{
    const ms_msg *msg = NULL;
    ms_str location = {NULL, 0};
    int code = asked_begin(a);
    bool numbered = v[D_MESSAGE].given;
    if (code == FINE && numbered && v[D_NAME].given) {
        ms_store *store = a->job->store;
        ms_result result = ms_wait(store, 0, 0, NULL, NULL);
        if (result == MS_OK) {
            result = get_shown(store, v[D_MESSAGE].number, &a->job->arena, &msg, NULL);
        }
        numbered = result == MS_OK;
    }
    if (code == FINE && numbered) {
        code = find_message(a, v[D_MESSAGE].number, &msg);
        bool copied = code != FINE ||
                      copy_text(&a->job->arena, location_of(msg), &location);
        if (!copied) code = no_memory();
    } else if (code == FINE && v[D_NAME].given) {
        code = choose_session(a, v[D_NAME].text, &location);
    } else if (code == FINE) {
        complain("session needs the argument name, or message");
        code = USAGE;
    }
    if (code == FINE) code = put_session(a, v, location, answer);
    return asked_end(a, code);
}

static int serve_session(void *ctx, const mcp_value *v, ms_buf *answer)
{
    return asked_guarded(ctx, v, answer, answer_session);
}

static int answer_state(asked *a, const mcp_value *v, ms_buf *answer)
{
    char text[100];
    ms_error err;
    ms_json_writer w;
    uint64_t newest = 0;
    (void)v;
    int code = asked_begin(a);
    if (code == FINE) {
        ms_result result = ms_wait(a->job->store, 0, 0, &newest, &err);
        if (result != MS_OK) code = complain_of("reading the log", result, &err);
    }
    snprintf(text, sizeof text, "%" PRIu64 ":%" PRIu64 ":%" PRIu64, newest, a->file.mark,
             (uint64_t)a->file.st.st_ino);
    ms_json_init(&w, ms_buf_write, answer, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    json_text(&w, "state", ms_str_of(text));
    json_text(&w, "log", short_text(a, ms_str_of(path_name(a->base->files[0]))));
    json_text(&w, "tool", MS_STR("msgstore " MSGSTORE_VERSION));
    if (a->base->timezone != NULL) {
        json_text(&w, "zone", ms_str_of(a->base->timezone));
    }
    ms_json_end(&w);
    if (is_read(code) && ms_json_finish(&w) != MS_OK) code = no_memory();
    return asked_end(a, code);
}

static int serve_state(void *ctx, const mcp_value *v, ms_buf *answer)
{
    return asked_guarded(ctx, v, answer, answer_state);
}

static const struct {
    const char *name;
    const mcp_arg *args;
    size_t n_args;
    int (*run)(void *ctx, const mcp_value *v, ms_buf *answer);
} questions[] = {
    {"sessions", list_args, S_COUNT, asked_list},
    {"search", search_args, F_COUNT, asked_search},
    {"session", session_args, D_COUNT, serve_session},
    {"state", NULL, 0, serve_state},
};

/* Sets the body of an answer to a copy of the text, which the server frees. */
static void set_body(web_answer *to, ms_str text)
{
    to->body = malloc(text.len + 1);
    if (to->body == NULL) {
        to->status = 500;
        return;
    }
    memcpy(to->body, text.ptr, text.len);
    to->size = text.len;
}

static unsigned status_of(int code)
{
    return is_read(code)       ? 200
           : code == NOT_FOUND ? 404
           : code == USAGE     ? 400
                               : 500;
}

/* Answers a question, with its complaints. */
static void answer_question(served *s, const web_request *r, size_t which, web_answer *to)
{
    ms_json_writer w;
    mcp_value v[MCP_ARGS];
    int code = FINE;
    ms_buf data = {&s->arena, NULL, 0, 0}, said = {&s->arena, NULL, 0, 0};
    ms_buf all = {&s->arena, NULL, 0, 0};
    memset(v, 0, sizeof v);
    complain_into(&said);
    for (size_t i = 0; i < questions[which].n_args && code == FINE; i++) {
        const mcp_arg *arg = &questions[which].args[i];
        code = mcp_take(arg, web_argument(r, arg->name), &s->arena, &v[i]);
    }
    if (code == FINE) code = questions[which].run(&s->asked, v, &data);
    complain_into(NULL);
    ms_value words = {ms_buf_text(&said), false};
    if (!secrets_mask(words, s->asked.classes, &s->arena, NULL, NULL, &words)) {
        words.text = MS_STR("");
    }
    ms_json_init(&w, ms_buf_write, &all, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    if (is_read(code)) {
        ms_json_key(&w, MS_STR("data"));
        ms_json_put_raw(&w, ms_buf_text(&data));
    }
    if (words.text.len > 0) {
        json_text(&w, is_read(code) ? "warning" : "error", words.text);
    }
    ms_json_end(&w);
    to->status = ms_json_finish(&w) == MS_OK ? status_of(code) : 500;
    to->type = "application/json; charset=utf-8";
    set_body(to, to->status == 500 && all.len == 0 ? MS_STR("{}") : ms_buf_text(&all));
}


/* ---- The page ---------------------------------------------------------------------- */

static const char fetch_policy[] = "connect-src 'self'; ";
static const char page_type[] = "application/x-served";

static void answer_page(served *s, web_answer *to)
{
    static const size_t ends[] = {serve_fetch, serve_title, serve_type,
                                  sizeof serve_page};
    static const char *const between[] = {fetch_policy, "msgstore", page_type, ""};
    size_t from = 0;
    ms_result result = MS_OK;
    ms_buf page = {&s->arena, NULL, 0, 0};
    for (size_t i = 0; i < COUNT_OF(ends) && result == MS_OK; i++) {
        ms_buf_write(&page, (const char *)serve_page + from, ends[i] - from);
        result = ms_buf_write(&page, between[i], strlen(between[i]));
        from = ends[i];
    }
    if (result != MS_OK) {
        to->status = 500;
        return;
    }
    to->status = 200;
    to->type = "text/html; charset=utf-8";
    to->policy = s->policy;
    set_body(to, ms_buf_text(&page));
}

/* Makes the policy of the page as a header: that of the page itself, and what only a
 * header can forbid. */
static bool make_policy(served *s)
{
    static const char begin[] = "default-src 'none'";
    const char *page = (const char *)serve_page, *at = page + serve_fetch;
    const char *from = find_bytes(page, serve_fetch, begin, sizeof begin - 1);
    const char *end = find_bytes(at, sizeof serve_page - serve_fetch, "\"", 1);
    if (from == NULL || end == NULL) return false;
    ms_buf policy = {&s->policy_arena, NULL, 0, 0};
    ms_buf_write(&policy, from, (size_t)(at - from));
    ms_buf_write(&policy, fetch_policy, sizeof fetch_policy - 1);
    ms_buf_write(&policy, at, (size_t)(end - at));
    json_piece(&policy, "; frame-ancestors 'none'");
    bool good = ms_buf_write(&policy, "", 1) == MS_OK; /* it ends as a string */
    s->policy = policy.ptr;
    return good;
}

static void answer(void *ctx, const web_request *r, const char *name, web_answer *to)
{
    served *s = ctx;
    size_t i = 0;
    ms_arena_reset(&s->arena);
    if (name[0] == '\0') {
        answer_page(s, to);
        return;
    }
    while (i < COUNT_OF(questions) && strcmp(questions[i].name, name) != 0) i++;
    if (i < COUNT_OF(questions)) answer_question(s, r, i, to);
}


/* ---- The command ------------------------------------------------------------------- */

/* Opens a URL in the browser of the user. A machine without one is no error. */
static void open_browser(const char *url)
{
#ifdef _WIN32
    (void)url;
#else
#ifdef __APPLE__
    static const char opener[] = "open";
#else
    static const char opener[] = "xdg-open";
#endif
    pid_t pid = fork();
    if (pid == 0) {
        /* Its child outlives this process and is nobody's to wait for. */
        if (fork() != 0) _exit(0);
        setsid();
        if (freopen("/dev/null", "r", stdin) == NULL) _exit(1);
        if (freopen("/dev/null", "w", stdout) == NULL) _exit(1);
        execlp(opener, opener, url, (char *)NULL);
        complain("there is no %s to open the browser with: open the URL in it", opener);
        _exit(1);
    }
    if (pid > 0) waitpid(pid, NULL, 0);
    else complain("no process for the browser: open the URL in it");
#endif
}

static bool ready(void *ctx, const char *url)
{
    served *s = ctx;
    output out = {stdout, 0};
    emit_format(&out, "%s\n", url);
    if (output_end(&out, FINE) != FINE) return false;
    if (s->asked.base->open) open_browser(url);
    return true;
}

static int run_serve(job *j)
{
    served s;
    memset(&s, 0, sizeof s);
    asked *a = &s.asked;
    a->job = j;
    a->base = j->options;
    a->classes = report_classes(j->options);
    if (is_postgres(j->options->files[0])) {
        complain("serve reads a log file: `msgstore fetch` makes one of a server's "
                 "messages");
        return USAGE;
    }
    a->prices = &s.prices;
    int code = asked_begin(a);
    if (code == FINE) code = asked_end(a, code);
    j->options = a->base;
    if (is_read(code) && a->base->prices != NULL) {
        int priced = prices_load(&s.prices, a->base->prices);
        if (priced != FINE) code = priced;
    }
    if (!is_read(code)) {
        prices_free(&s.prices);
        return code;
    }
    asked_watch();
    web_server server = {a->base->port, &s, ready, answer};
    code = make_policy(&s) ? web_serve(&server) : no_memory();
    ms_arena_deinit(&s.arena);
    ms_arena_deinit(&a->room);
    ms_arena_deinit(&s.policy_arena);
    prices_free(&s.prices);
    return code;
}

static const option_row serve_rows[] = {
    {OPT_PORT, "the port of 127.0.0.1; without it a free one"},
    {OPT_OPEN, "open the page in the browser"},
    {OPT_AS, "only the request to this provider; without it, to each"},
    {OPT_PRICES, "LiteLLM's price list, above the tool's own prices"},
    {OPT_PERSONAL, "mask e-mail addresses and names of home folders, too"},
    {OPT_SHOW_SECRETS, "mask nothing"},
    ZONE_ROW,
    {OPT_END, NULL},
};

const command serve_command = {
    "serve", "show a whole log in a browser on this machine",
    run_serve, false, 1, 1, "a STORE", 0, serve_rows,
    "examples:\n"
    "  msgstore serve\n"
    "  msgstore serve my.log --port 8080\n"
    "  msgstore serve --open\n"
    "\n"
    "usage: msgstore serve [OPTION...] [STORE]\n"
    "Serves the page of `msgstore report` over a whole log: a list of its sessions, a\n"
    "search in all of them, and one session at a time, which follows what is appended.\n"
    "Prints the URL and serves until Ctrl-C. It listens on 127.0.0.1 alone, and answers\n"
    "only requests with the token of the URL. It reads only. Keys, tokens and\n"
    "passwords are masked. Without a STORE it is the usual log of sync.\n",
    false,
};
