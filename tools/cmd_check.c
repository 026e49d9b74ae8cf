/* msgstore check: finds what a provider would refuse in a list of messages. */

#define _GNU_SOURCE
#include "commands.h"
#include "lint.h"

#include <stdio.h>
#include <string.h>


/* ---- msgstore check ---------------------------------------------------------------- */

typedef struct checker {
    output out;
    const char *file;
    ms_arena arena;           /* of the current file */
    uint64_t found;           /* violations in all files */
} checker;

static void check_report(void *ctx, const char *path, const char *text)
{
    checker *c = ctx;
    char line[4096];
    cell shown = cell_over(line, sizeof line, sizeof line);
    cell_put(&shown, ms_str_of(c->file));
    cell_put(&shown, MS_STR(": "));
    cell_put(&shown, ms_str_of(path));
    if (path[0] != '\0') cell_put(&shown, MS_STR(": "));
    cell_put(&shown, ms_str_of(text));
    emit(&c->out, shown.buf, shown.len);
    emit(&c->out, "\n", 1);
    c->found++;
}

/* Makes a list of lines that have a message each; *json is absent if the first line has
 * none. A later one that has none is reported. */
static int list_of_lines(checker *c, const source *s, ms_str text, ms_str *json)
{
    ms_str value;
    ms_error err;
    const char *begin = text.ptr;
    ms_buf list = {&c->arena, NULL, 0, 0};
    ms_result result = MS_OK;
    *json = ms_str_n(NULL, 0);
    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t len = end != NULL ? (size_t)(end - text.ptr) : text.len;
        size_t used = len + (end != NULL);
        ms_str line = ms_str_n(text.ptr, len);
        text = ms_str_n(text.ptr + used, text.len - used);
        while (line.len > 0 && is_space(line.ptr[line.len - 1])) line.len--;
        if (line.len == 0) continue;
        size_t at = (size_t)(line.ptr - begin);
        bool read = ms_json_check(line, NULL, &value, &err) == MS_OK;
        if (list.len == 0 && (!read || !is_object(value))) return FINE;
        if (!read) {
            at += err.offset < line.len ? (size_t)err.offset : line.len;
            return complain_at(s, at, reason_of(&err), "");
        }
        if (!is_object(value)) return complain_at(s, at, "no message object", "");
        if (result == MS_OK) result = ms_buf_write(&list, list.len > 0 ? "," : "[", 1);
        if (result == MS_OK) result = ms_buf_write(&list, value.ptr, value.len);
    }
    if (result == MS_OK && list.len > 0) result = ms_buf_write(&list, "]", 1);
    if (result != MS_OK) return no_memory();
    if (list.len > 0) *json = ms_buf_text(&list);
    return FINE;
}

/* Returns whether an object is a message, as no body of a request is. */
static bool is_message(ms_str object)
{
    static const char *const names[] = {"role", "kind", "type"};
    ms_str value;
    bool any = false;
    for (size_t i = 0; i < COUNT_OF(names) && !any; i++) {
        any = ms_json_member(object, ms_str_of(names[i]), &value);
    }
    return any;
}

/* Makes a list of one message. */
static int list_of_one(checker *c, ms_str *json)
{
    ms_buf list = {&c->arena, NULL, 0, 0};
    bool good = ms_buf_write(&list, "[", 1) == MS_OK &&
                ms_buf_write(&list, json->ptr, json->len) == MS_OK &&
                ms_buf_write(&list, "]", 1) == MS_OK;
    if (!good) return no_memory();
    *json = ms_buf_text(&list);
    return FINE;
}

/* Finds the messages in the input. Of a request's body only the members that the rules
 * look at are checked, of some providers all. A list alone is a body without the
 * others. */
static int messages_of(checker *c, const ms_profile *provider, ms_str *json)
{
    ms_str value, body = *json;
    const char *const *names = lint_members_of(provider->name);
    size_t last = 0;
    ms_buf buf = {&c->arena, NULL, 0, 0};
    ms_json_writer w;
    if (names == NULL) return FINE;
    while (names[last + 1] != NULL) last++;
    ms_str list = ms_str_of(names[last]);
    bool alone = !is_object(body) || !ms_json_member(body, list, &value);
    if (alone && is_object(body) && is_message(body)) {
        int code = list_of_one(c, json);
        if (code != FINE) return code;
        body = *json;
    }
    if (alone && !is_kind(body, MS_JSON_ARRAY)) return FINE;
    if (!alone && lint_reads_body(provider->name)) return FINE;
    if (!alone) *json = value;
    if (last == 0) return FINE;
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    for (size_t i = 0; i < last; i++) {
        bool found = !alone && ms_json_member(body, ms_str_of(names[i]), &value);
        if (!alone && !found && strcmp(names[i], "systemInstruction") == 0)
            found = ms_json_member(body, MS_STR("system_instruction"), &value);
        if (!found) continue; /* Google takes its member under two names */
        ms_json_key(&w, ms_str_of(names[i]));
        ms_json_put_raw(&w, value);
    }
    ms_json_key(&w, list);
    ms_json_put_raw(&w, *json);
    ms_json_end(&w);
    if (ms_json_finish(&w) != MS_OK) return no_memory();
    *json = ms_buf_text(&buf);
    return FINE;
}

static int check_text(checker *c, const ms_profile *provider, source *s)
{
    ms_error err;
    ms_str json, text = ms_str_n(s->buf + s->start, s->len - s->start);
    int code = FINE;
    if (ms_json_check(text, NULL, &json, &err) != MS_OK) {
        code = list_of_lines(c, s, text, &json);
        if (code == FINE && json.ptr == NULL) {
            size_t at = err.offset < text.len ? (size_t)err.offset : text.len;
            return complain_at(s, at, reason_of(&err), "");
        }
    }
    if (code == FINE) code = messages_of(c, provider, &json);
    if (code != FINE) return code;
    int found = lint_request(provider->name, json, &c->arena, check_report, c);
    return found >= 0 ? FINE : no_memory();
}

/* Exit codes are those of a checker: 0 no violation, 1 violations, 2 an error. */
static int run_check(job *j)
{
    checker c;
    source s;
    int worst = FINE;
    const options *o = j->options;
    size_t n = o->n_files > 0 ? o->n_files : 1;     /* 0 files: standard input */
    memset(&c, 0, sizeof c);
    c.out.file = stdout;
    for (size_t i = 0; i < n; i++) {
        int code = source_open(&s, o->files[i], NULL, 0);
        c.file = s.name;
        if (code == FINE) {
            code = read_whole(&s);
            if (code == FINE) code = check_text(&c, o->provider, &s);
            source_close(&s);
        }
        if (code != FINE) worst = USAGE;
        ms_arena_reset(&c.arena);
    }
    ms_arena_deinit(&c.arena);
    if (worst == FINE && c.found > 0) worst = FAILED;
    return output_end(&c.out, worst);
}

static const option_row check_rows[] = {
    {OPT_AS, "whose rules"},
    {OPT_END, NULL},
};

const command check_command = {
    "check", "check whether a provider accepts a list of messages",
    run_check, false, 0, ANY_NUMBER, "", BIT(AS), check_rows,
    "examples:\n"
    "  msgstore check --as anthropic request.json\n"
    "  msgstore history trace.log --format openai | msgstore check --as openai -\n"
    "\n"
    "usage: msgstore check --as PROVIDER [FILE|-]...\n"
    "Lists what the provider would refuse in a list of messages, a line each. A FILE\n"
    "holds the body of a request, a list of messages, or a message a line. Nothing is\n"
    "printed when all is fine. Exit code 0: fine; 1: something would be refused; 2: a\n"
    "file that cannot be read, or is not JSON.\n",
    false,
};
