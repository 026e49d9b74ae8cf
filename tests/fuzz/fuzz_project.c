/* Fuzzes ms_project: no history that it makes may be refused by the provider.
 *
 *   bytes 0 to 6   the provider; who reads, system prompt, counting, shortening (bits);
 *                  newest, budget, step, fresh, fresh_step
 *   the rest       messages, one after the other: type, bits of what it has, then a byte
 *                  for each of it: an entry of a table, or a text from the input
 *
 * What is projected must be JSON that the linter of the tool takes; projected
 * again from what was read back it is the same bytes; with texts that are copied and with
 * texts that stay, too.
 * Left out: profiles and dialects of one's own, see test_project.c.
 */

#define _GNU_SOURCE
#define FUZZ_MOST 1024
#include "fuzz.h"
#include "../../tools/lint.c"
#include "../projection.h"

static ms_arena arena;
static const ms_project_opts everything; /* no window, no reader */

/* A counter that a caller could write: bytes. */
static size_t count_bytes(void *ctx, ms_value text)
{
    (void)ctx;
    return text.text.len;
}

#include "message.h"

enum { MOST_MESSAGES = 48 };

static const ms_msg *history[MOST_MESSAGES];
static size_t n_history;


static void read_history(fuzz_input *in)
{
    n_history = 0;
    while (fuzz_left(in) > 0 && n_history < MOST_MESSAGES) {
        ms_envelope m = message_of(in);
        if (ms_encode(&m, &arena, &history[n_history], NULL) == MS_OK) n_history++;
    }
}


/* ---- projections ---- */

static const ms_msg *next_of(void *ctx)
{
    size_t *at = (size_t *)ctx;
    return *at < n_history ? history[(*at)++] : NULL;
}

static ms_result project(const ms_profile *profile, const ms_project_opts *opts,
                         ms_str *body)
{
    ms_buf out;
    ms_error err;
    size_t at = 0;
    memset(&out, 0, sizeof out);
    out.arena = &arena;
    ms_result result = projection_write(profile, opts, next_of, &at, &arena, ms_buf_write, &out,
                                  NULL, &err);
    if (result != MS_OK && !(result == MS_E_TOO_LARGE && opts->budget > 0))
        fuzz_fail("%s: %s", profile->name, err.message);
    *body = ms_buf_text(&out);
    return result;
}

static void show_history(void)
{
    ms_writer w;
    ms_writer_opts opts = {false, false, true};
    ms_buf out;
    memset(&out, 0, sizeof out);
    out.arena = &arena;
    ms_writer_init(&w, ms_dialect_find(MS_STR("framework")), &opts, &arena, ms_buf_write,
                   &out);
    for (size_t i = 0; i < n_history; i++)
        (void)test_writer_put_msg(&w, history[i], NULL);
    (void)ms_writer_finish(&w, NULL);
    fuzz_show("history", ms_buf_text(&out));
}

static void keep_first(void *ctx, const char *path, const char *text)
{
    char *why = (char *)ctx;
    if (why[0] == '\0') snprintf(why, 1200, "%s: %s", path, text);
}

/* The linter of the tool judges what jansson has read, without a member of DeepSeek. */
static void must_accept(const ms_profile *profile, ms_str body)
{
    char why[1200] = "";
    json_error_t err;
    json_t *request = fuzz_jansson(body, JSON_REJECT_DUPLICATES, &err), *message;
    size_t i;
    json_array_foreach (request, i, message) json_object_del(message, "reasoning_content");
    char *text = request != NULL ? json_dumps(request, JSON_COMPACT) : NULL;
    json_decref(request);
    /* jansson takes no number beyond its own; JSON has no largest one */
    if (request == NULL && json_error_code(&err) == json_error_numeric_overflow) return;
    if (request != NULL && text == NULL) return;
    if (text == NULL) snprintf(why, sizeof why, "%s", err.text);
    else (void)lint_request(profile->name, ms_str_of(text), &arena, keep_first, why);
    fuzz_heap_give(text);
    if (why[0] == '\0') return;
    show_history();
    fuzz_show("request", body);
    fuzz_fail("%s refuses: %s", profile->name, why);
}

/* Read in the profile's dialect and projected again: the same bytes. */
static void must_stay(const ms_profile *profile, ms_str body)
{
    ms_envelopes read;
    ms_error err;
    ms_str second;
    const ms_dialect *d = projection_dialect(profile);
    if (d == NULL) return; /* ollama: there is no reader */
    if (ms_read_list(d, body, NULL, &arena, &read, &err) != MS_OK) {
        fuzz_show("request", body);
        fuzz_fail("%s does not read it: %s %s", profile->name, err.path, err.message);
    }
    if (read.count > MOST_MESSAGES) return;
    for (n_history = 0; n_history < read.count; n_history++)
        if (ms_encode(&read.items[n_history], &arena, &history[n_history], &err) != MS_OK)
            fuzz_fail("what was read is no message: %s", err.message);
    (void)project(profile, &everything, &second);
    if (ms_str_equal(second, body)) return;
    fuzz_show("request", body);
    fuzz_show("projected again", second);
    fuzz_fail("%s: what was projected changes when it is projected again", profile->name);
}


/* ---- the same once more ---- */

/* With texts copied and with texts that stay: the same bytes. */
static void must_repeat(const ms_profile *profile, const ms_project_opts *opts,
                        ms_result result, ms_str body)
{
    ms_project_opts other = *opts;
    ms_str again;
    other.stable = !opts->stable;
    if (project(profile, &other, &again) != result) fuzz_fail("another code");
    if (result != MS_OK || ms_str_equal(again, body)) return;
    show_history();
    fuzz_show("once", body);
    fuzz_show("again", again);
    fuzz_fail("%s: copied texts make another list", profile->name);
}

static void fuzz_one(const unsigned char *bytes, size_t size)
{
    fuzz_input in = {bytes, bytes + size};
    unsigned first = fuzz_u8(&in);
    const ms_profile *profile = ms_profile_at(first % 6);
    ms_project_opts opts = options_of(&in);
    ms_str body;
    read_history(&in);
    ms_result result = project(profile, &opts, &body);
    must_repeat(profile, &opts, result, body);
    if (result == MS_OK) {
        must_accept(profile, body);
        if (!opts.thinking) must_stay(profile, body);
    }
    ms_arena_reset(&arena);
}
