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

enum { MOST_MESSAGES = 48 };
#define FORTY "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN"
#define ONE_OF(in, list) (list)[fuzz_below(in, sizeof(list) / sizeof((list)[0]))]

static ms_arena arena;
static const ms_msg *history[MOST_MESSAGES];
static size_t n_history;
static const ms_project_opts everything; /* no window, no reader */


/* ---- messages ---- */

static ms_value content_of(fuzz_input *in)
{
    static const char *const texts[] = {
        "", " \t", "\xC2\xA0\xE3\x80\x80", "a", "so ", "\n\nlate\r\n", "caf\xC3\xA9",
        "{\"a\":1}", "<context>\nx\n</context>", "Observation: 1", "null",
        "\xF0\x9F\x98\x80", "a long text that is cut when it is to be cut, in the middle",
    };
    static const char *const jsons[] = {
        "null", "[]", "{}", "\"\"", "\" \"", "\"s\\u0041\\n\"", "7", "true", "[1,[2]]",
        "[\"p\",\"q\"]", "{\"result\":1}", "{\"error\":\"e\"}", "{\"result\":{\"a\":1}}",
        "[{\"type\":\"text\",\"text\":\"t\"}]", "[{\"type\":\"text\",\"text\":\" \"}]",
        "[{\"text\":\"g\"}]", "[{\"type\":\"image_url\",\"image_url\":{}}]",
        "[{\"type\":\"tool_use\",\"id\":\"x\",\"name\":\"f\",\"input\":{}}]",
        "[{\"type\":\"refusal\",\"refusal\":\"no\"}]", " [ null ] ",
        "[{\"part_kind\":\"tool-return\"}]", "[{}]", "{ \"a\" : 1 }",
        "[\"t\",{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,AA==\"}}]",
        "[{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"https://a/b\"}}]",
        "[{\"inlineData\":{\"mimeType\":\"image/webp\",\"data\":\"AA-_\"}},{\"text\":\"t\"}]",
    };
    unsigned kind = fuzz_below(in, 4);
    if (kind == 0) return ms_text(ONE_OF(in, texts));
    if (kind == 1) return ms_json(ms_str_of(ONE_OF(in, jsons)));
    if (kind == 2) return ms_json(fuzz_text(in));
    return ms_text_n(fuzz_text(in));
}

/* Without NUL: the checkers compare names as C does. */
static ms_str name_of(fuzz_input *in)
{
    static const char *const names[] = {
        NULL, "f", "f", "g", "", "a b", "\xC3\xA9", FORTY FORTY, "x_2", "call_2",
        "call_3", FORTY "zz", FORTY "zy", "x y", "x",
    };
    unsigned which = fuzz_below(in, 16);
    if (which != 15) return ms_str_of(names[which]);
    ms_str text = fuzz_text(in);
    char *copy = (char *)ms_arena_alloc(&arena, text.len + 1);
    if (copy == NULL) abort();
    for (size_t i = 0; i < text.len; i++)
        copy[i] = text.ptr[i] != '\0' ? text.ptr[i] : '0';
    return ms_str_n(copy, text.len);
}

static ms_str agent_of(fuzz_input *in)
{
    static const char *const agents[] = {NULL, NULL, "a", "b", "m"};
    return ms_str_of(ONE_OF(in, agents));
}

static void call_of(fuzz_input *in, ms_envelope *m)
{
    static const char *const args[] = {
        "{}", "{\"q\":[1]}", " { } ", "{\"INVALID_JSON\":1}",
    };
    m->tool = name_of(in);
    m->args = fuzz_below(in, 4) == 0 ? ms_text_n(content_of(in).text)
                                     : ms_json(ms_str_of(ONE_OF(in, args)));
}

static ms_envelope message_of(fuzz_input *in)
{
    static const char *const beside[] = {
        "{\"thoughtSignature\":\"s\"}", "{\"outcome\":\"denied\"}",
        "{\"type\":\"odd\",\"id\":\"z\"}", "{\"role\":\"x\",\"content\":1,\"m\":2}",
        "{\"signed\":{\"provider\":\"anthropic\",\"signature\":\"s\"}}",
        "{\"signed\":{\"provider\":\"openai\",\"of\":1}}",
        "{\"signed\":{\"provider\":\"ollama\"},\"reasoning_content\":\"r\"}",
    };
    static const ms_type frequent[] = {
        MS_T_USER_MESSAGE, MS_T_ASSISTANT_MESSAGE, MS_T_ACTION, MS_T_ACTION,
        MS_T_OBSERVATION, MS_T_OBSERVATION, MS_T_ERROR,
    };
    ms_envelope m;
    unsigned type = fuzz_below(in, MS_TYPE_COUNT + 7), has = fuzz_u8(in);
    memset(&m, 0, sizeof m);
    m.type = type < MS_TYPE_COUNT ? (ms_type)type : frequent[type - MS_TYPE_COUNT];
    m.agent_key = agent_of(in);
    if (m.type != MS_T_ACTION) m.content = content_of(in);
    else call_of(in, &m);
    if (has & 1) m.call_id = name_of(in);
    if (has & 2) m.flags = MS_FLAG_JOINED;
    if (has & 4) m.role = (ms_role)fuzz_below(in, MS_ROLE_FUNCTION + 1);
    if (has & 8) m.extra = ms_str_of(ONE_OF(in, beside));
    if (has & 16) m.extra = ms_str_of(ONE_OF(in, beside));
    if (has & 32) m.turn_id = MS_STR("t");
    if ((has & 64) && m.type != MS_T_ACTION) call_of(in, &m);
    if (has & 128) m.summary = m.error_type = content_of(in).text;
    if (m.type == MS_T_DELEGATION) {
        m.worker = MS_STR("w");
        m.task = content_of(in).text;
    }
    if (m.type == MS_T_SYNTHESIS) m.from_manager = agent_of(in);
    if (m.type == MS_T_GLOBAL_OBSERVATION) m.from_worker = agent_of(in);
    if (m.type == MS_T_OTHER) m.type_name = MS_STR("odd");
    return m;
}

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

/* A counter that a caller could write: bytes. */
static size_t count_bytes(void *ctx, ms_value text)
{
    (void)ctx;
    return text.text.len;
}

static ms_project_opts options_of(fuzz_input *in)
{
    ms_project_opts opts = everything;
    unsigned bits = fuzz_u8(in);
    static const char *const readers[] = {NULL, "a", "b", "c"};
    opts.agent_key = ms_str_of(readers[bits & 3]);
    if (bits & 4) opts.system = MS_STR("be good");
    if (bits & 8) opts.count = count_bytes;
    opts.stable = (bits & 16) != 0;
    opts.shorten = (bits & 32) != 0;
    opts.shorten_opts.keep = 10;
    opts.thinking = (bits & 64) != 0;
    opts.newest = fuzz_u8(in) % 16;
    opts.budget = fuzz_u8(in);
    opts.step = fuzz_u8(in) % 8;
    opts.fresh = fuzz_u8(in) % 5;
    opts.fresh_step = fuzz_u8(in) % 4;
    return opts;
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
