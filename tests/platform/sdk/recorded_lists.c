/* Reads, writes and judges lists that were recorded between clients and providers.
 *
 *     recorded_lists.py ... | recorded_lists
 *
 * A line is {"format", "name", "list", "request", "accepted", "refused"}: a list of
 * messages, the request that the judge of tools/lint.c gets, whether the provider
 * accepted it, and whether the judge is known to refuse it. What a format reads it has
 * to write equal as JSON. A request that was accepted has to be accepted by the judge,
 * unless it is known to be refused. Prints "ok NAME: ..." or "FAIL NAME: ..." for each
 * format.
 */

#define _GNU_SOURCE

#include "provider_lint.h"
#include "format_calls.h"

typedef struct tally {
    char format[32];
    size_t lists, accepted, judged, known, wrong;
} tally;

static tally tallies[8];
static size_t tally_count;

static tally *tally_of(const char *format)
{
    size_t i = 0;
    while (i < tally_count && strcmp(tallies[i].format, format) != 0) i++;
    if (i == COUNT(tallies)) exit(1);
    if (i == tally_count) snprintf(tallies[tally_count++].format, 32, "%s", format);
    return &tallies[i];
}

static ms_str text_of(json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(17));
    ms_str copy = joined("", ms_str_of(text), "");
    free(text);
    return copy;
}

/* Returns NULL, or why the list does not come back. */
static const char *comes_back(const char *format, ms_str list)
{
    static ms_error err;
    ms_envelopes messages;
    json_where where = {{0}, 0};
    ms_result code = try_read(format, list, STRICT, &messages, &err);
    if (code != MS_OK) return err.message;
    return equal_json(written(format, &messages, ARRAY), list, 0, &where)
               ? NULL : "it does not come back";
}

static void judge_line(json_t *line)
{
    char why[PROVIDER_LINT_TEXT];
    const char *format = json_string_value(json_object_get(line, "format"));
    const char *name = json_string_value(json_object_get(line, "name"));
    tally *t = tally_of(format);
    const char *wrong = comes_back(format, text_of(json_object_get(line, "list")));
    t->lists++;
    if (wrong == NULL && json_is_true(json_object_get(line, "accepted"))) {
        bool known = json_is_true(json_object_get(line, "refused"));
        const char *refused =
            provider_lint(format, text_of(json_object_get(line, "request")), why);
        t->accepted++;
        t->judged += refused == NULL;
        t->known += known && refused != NULL;
        if (known && refused == NULL) wrong = "it is no longer refused";
        if (!known) wrong = refused;
    }
    if (wrong == NULL) return;
    t->wrong++;
    printf("# %s, %s: %s\n", format, name, wrong);
}

int main(void)
{
    char *text = NULL;
    size_t cap = 0, lines = 0;
    ssize_t n;
    for (; (n = getline(&text, &cap, stdin)) > 0; lines++) {
        json_t *line = json_loadb(text, (size_t)n, 0, NULL);
        if (line == NULL) return 1;
        test_arena_init(&arena, NULL);
        judge_line(line);
        ms_arena_deinit(&arena);
        json_decref(line);
    }
    free(text);
    for (size_t i = 0; i < tally_count; i++) {
        const tally *t = &tallies[i];
        printf("%s recorded_lists %s: %zu lists come back, %zu of %zu accepted requests "
               "are judged so, %zu are known not to be\n", t->wrong > 0 ? "FAIL" : "ok",
               t->format, t->lists, t->judged, t->accepted, t->known);
    }
    return lines > 0 ? 0 : 1;
}
