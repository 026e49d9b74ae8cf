/* Judges requests that providers have accepted, and reads and writes their messages.
 *
 *     recorded <LINES
 *
 * A line is {"name", "as", "format", "request"} or {"name", "format", "list"}, as
 * recorded.py prints them. The lint of `as` must take the request, and the format must
 * write what it reads of the list. Prints each request that is refused and each list that
 * differs, then a line of counts for each format: "ok recorded NAME: ..." or "FAIL ...".
 * Servers take the status null, which their own types do not have: such requests are
 * counted.
 */

#define _GNU_SOURCE

#include "provider_lint.h"

#include <jansson.h>

#define FORMATS 8

typedef struct counts {
    char format[32];
    size_t requests, taken, null_status, lists, items, differ;
} counts;

typedef struct findings {
    size_t all, null_status;
    char first[1200];
} findings;

static counts *counts_of(const char *format)
{
    static counts all[FORMATS];
    for (size_t i = 0; format != NULL && i < FORMATS; i++) {
        if (all[i].format[0] == '\0') snprintf(all[i].format, sizeof all[i].format, "%s", format);
        if (strcmp(all[i].format, format) == 0) return &all[i];
    }
    return format == NULL ? all : NULL;
}

static void find(void *ctx, const char *path, const char *text)
{
    findings *f = (findings *)ctx;
    static const char end[] = ".status", null[] = "is null";
    size_t n = strlen(path), k = strlen(text);
    f->null_status += n > sizeof end && strcmp(path + n - (sizeof end - 1), end) == 0 &&
                      k > sizeof null && strcmp(text + k - (sizeof null - 1), null) == 0;
    if (f->all++ == 0) snprintf(f->first, sizeof f->first, "%s: %s", path, text);
}

static void judge(const char *name, const char *as, json_t *request, counts *to)
{
    ms_arena arena = {0};
    findings f = {0, 0, ""};
    char *text = json_dumps(request, JSON_COMPACT | JSON_REAL_PRECISION(17));
    int n = text != NULL ? lint_request(as, ms_str_of(text), &arena, find, &f) : -1;
    to->requests++;
    to->taken += n == 0;
    to->null_status += n > 0 && f.all == f.null_status;
    if (n < 0) printf("%s: no such judge\n", name);
    else if (f.all > f.null_status) printf("%s: refused: %s\n", name, f.first);
    free(text);
    ms_arena_deinit(&arena);
}

/* Returns the list that the format writes of what it reads; NULL: it reads nothing. */
static json_t *back(const char *format, json_t *list, char why[300])
{
    static const ms_writer_opts opts = {true, false, false};
    ms_arena arena = {0};
    ms_envelopes read;
    ms_error err;
    ms_writer w;
    ms_buf out = {&arena, NULL, 0, 0};
    json_t *value = NULL;
    const ms_format *d = ms_format_find(ms_str_of(format));
    char *text = json_dumps(list, JSON_COMPACT | JSON_REAL_PRECISION(17));
    ms_result code = d != NULL && text != NULL ? MS_OK : MS_E_ARGUMENT;
    memset(&err, 0, sizeof err);
    if (code == MS_OK)
        code = ms_read_list(d, ms_str_of(text), NULL, &arena, &read, &err);
    if (code == MS_OK) ms_writer_init(&w, d, &opts, &arena, ms_buf_write, &out);
    for (size_t i = 0; code == MS_OK && i < read.count; i++)
        code = ms_writer_put(&w, &read.items[i], &err);
    if (code == MS_OK) code = ms_writer_finish(&w, &err);
    if (code == MS_OK) value = json_loadb(out.ptr, out.len, JSON_ALLOW_NUL, NULL);
    snprintf(why, 300, "%.60s: %.200s", err.path, err.message);
    free(text);
    ms_arena_deinit(&arena);
    return value;
}

static void cross(const char *name, const char *format, json_t *list, counts *to)
{
    char why[300];
    json_t *got = back(format, list, why);
    bool same = got != NULL && json_equal(got, list);
    to->lists++;
    to->items += json_array_size(list);
    to->differ += !same;
    if (got == NULL) printf("%s: not read: %s\n", name, why);
    else if (!same) printf("%s: comes back in another form\n", name);
    json_decref(got);
}

/* The messages of a request; NULL: it has a text instead. */
static json_t *list_of(const char *as, json_t *request)
{
    const char *const *names = lint_members_of(as);
    if (json_is_array(request)) return request;
    for (; names != NULL && *names != NULL; names++) {
        json_t *list = json_object_get(request, *names);
        if (names[1] == NULL && json_is_array(list)) return list;
    }
    return NULL;
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;
    int failed = 0;
    while (getline(&line, &cap, stdin) > 0) {
        json_t *value = json_loads(line, JSON_ALLOW_NUL, NULL);
        const char *name = json_string_value(json_object_get(value, "name"));
        const char *as = json_string_value(json_object_get(value, "as"));
        const char *format = json_string_value(json_object_get(value, "format"));
        json_t *request = json_object_get(value, "request");
        json_t *list = json_object_get(value, "list");
        counts *to = format != NULL ? counts_of(format) : NULL;
        if (to == NULL || name == NULL) return 1;
        if (request != NULL && as != NULL) judge(name, as, request, to);
        if (request != NULL && as != NULL) list = list_of(as, request);
        if (list != NULL) cross(name, format, list, to);
        json_decref(value);
    }
    free(line);
    for (counts *c = counts_of(NULL); c->format[0] != '\0'; c++) {
        bool bad = c->taken + c->null_status < c->requests || c->differ > 0;
        failed += bad;
        printf("%s recorded %s: %lu of %lu requests taken, %lu more with a status of null;"
               " %lu of %lu lists came back, %lu items\n", bad ? "FAIL" : "ok", c->format,
               (unsigned long)c->taken, (unsigned long)c->requests,
               (unsigned long)c->null_status, (unsigned long)(c->lists - c->differ),
               (unsigned long)c->lists, (unsigned long)c->items);
    }
    return failed > 0;
}
