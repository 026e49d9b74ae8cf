/* Histories that agents left behind are read, stored, read back and written again: what
 * comes out is equal as JSON to what went in, over every kind of store. 200 conversations
 * of the tau-bench airline runs, five SWE-agent trajectories, a pi session, and the demo
 * of this repository. */

#define _POSIX_C_SOURCE 200809L

#include "stores.h"
#include "format_tables.h"
#include "traces.h"

static void must_be_equal(ms_str got, json_t *expected, unsigned options)
{
    json_where where;
    json_t *value = json_parse_n(got.ptr, got.len);
    assert_non_null(value);
    if (!json_same(value, expected, options, &where)) fail_msg("differs at %s", where.path);
    json_decref(value);
}

static size_t field_bytes(const ms_envelope *m)
{
    return m->content.text.len + m->args.text.len + m->tool.len + m->call_id.len +
           m->extra.len + m->source.len + m->role_name.len + m->id.len +
           sizeof "conversation";
}

/* A store on the heap, a log, or one buffer of just the size that ms_mem_size says, and
 * what a batch needs: the length of the list decides. */
static test_store open_store(const ms_envelopes *list)
{
    size_t most = 0;
    store_options options = {.keep_unset_times = true};
    for (size_t i = 0; i < list->count; i++) {
        size_t bytes = field_bytes(&list->items[i]);
        if (bytes > most) most = bytes;
    }
    options.room = ms_mem_size(list->count, most, 1, 1, 0) + 32 * list->count;
    return store_open(store_kind_at(list->count), &options);
}

/* Appends the list to a store and writes its timeline. */
static ms_str through_a_store(const ms_envelopes *list)
{
    ms_error err;
    ms_cursor it;
    ms_writer w;
    ms_buf buf;
    const ms_msg *msg;
    size_t n = 0;
    test_store s = open_store(list);
    ms_append_opts where = {.location = MS_STR("conversation")};
    must(ms_append_batch(s.store, list->items, list->count, &where, &err), &err);
    store_reopen(&s);
    must(ms_selfcheck(s.store, &err), &err);
    ms_query query = {.location = where.location, .views = MS_VIEW_TIMELINE};
    start(&w, "openai", ARRAY, &buf);
    must(ms_query_open(s.store, &query, &it, &err), &err);
    for (; (msg = ms_next(&it)) != NULL; n++) must(test_writer_put_msg(&w, msg, &err), &err);
    must(ms_cursor_close(&it, &err), &err);
    must(ms_writer_finish(&w, &err), &err);
    assert_int_equal(n, list->count);
    store_close(&s);
    return ms_buf_text(&buf);
}

/* One message list: read strictly, written at once, by way of a store, and by way of the
 * framework's format. */
static void there_and_back(json_t *messages, size_t types[MS_TYPE_COUNT])
{
    char *text = json_dumps(messages, JSON_COMPACT);
    assert_non_null(text);
    ms_envelopes list = reads("openai", ms_str_of(text), STRICT);
    for (size_t i = 0; i < list.count; i++) types[list.items[i].type]++;
    must_be_equal(written("openai", &list, ARRAY), messages, 0);
    must_be_equal(through_a_store(&list), messages, 0);
    ms_envelopes back = reads("framework", written("framework", &list, ARRAY), STRICT);
    assert_int_equal(back.count, list.count);
    must_be_equal(written("openai", &back, ARRAY), messages, JSON_ARGUMENTS);
    ms_arena_reset(&arena);
    free(text);
}

/* Of tau-bench, 2,454 assistant messages: 1,290 of text alone, 90 of text with a call,
 * 1,074 of a call with content null. */
TEST(conversation_comes_back_by_every_way)
{
    static trace traces[TRACES_MOST];
    static const struct {
        const char *name;
        size_t traces, types[6]; /* by ms_type, from 1: users, assistants, texts, calls */
    } rows[] = {
        {"tau-bench", 200, {0, 1490, 1290 + 90, 200, 1164, 1164}},
        {"SWE-agent", 5, {0, 5, 57, 5, 57, 57}},
        {"pi", 1, {0, 88, 453, 0, 391, 373}},
    };
    size_t n = traces_load(traces, TRACES_MOST), at = 0;
    if (n == 0) skip();
    for (size_t k = 0; k < COUNT(rows); k++) {
        size_t types[MS_TYPE_COUNT] = {0};
        for (size_t i = 0; i < rows[k].traces && at < n; i++)
            there_and_back(traces[at++].messages, types);
        if (memcmp(types, rows[k].types, sizeof rows[k].types) != 0)
            fail_msg("%s: types %zu %zu %zu %zu %zu", rows[k].name, types[1], types[2],
                     types[3], types[4], types[5]);
    }
    assert_int_equal(at, n);
    traces_free(traces, n);
}

/* The demo has a message a line with the members location and agent_key. */
TEST(demo_comes_back_line_by_line)
{
    size_t size, n = 0;
    char *bytes = read_file("tools/demo.jsonl", &size);
    if (bytes == NULL) {
        printf("skipped: no tools/demo.jsonl\n");
        skip();
    }
    for (char *line = bytes, *end; line < bytes + size; line = end + 1) {
        end = strchr(line, '\n');
        if (end == NULL) end = bytes + size;
        if (end == line) continue;
        ms_envelopes one = reads("framework", ms_str_n(line, (size_t)(end - line)), STRICT);
        assert_int_equal(one.count, 1);
        json_t *expected = json_parse_n(line, (size_t)(end - line));
        must_be_equal(written("framework", &one, PLACES), expected, 0);
        json_decref(expected);
        n++;
    }
    assert_true(n > 0);
    free(bytes);
}

/* ---- every object of every file ---- */

/* Tries an object as a message of every format: what a strict reader takes is written
 * equal. The envelope format makes messages canonical, and has tests of its own. */
static size_t object_comes_back(json_t *object)
{
    const ms_format *d;
    size_t taken = 0;
    ms_str text = text_of_json(json_incref(object), JSON_COMPACT);
    for (size_t i = 0; (d = ms_format_at(i)) != NULL; i++)
        if (strncmp(d->name, "envelope", 8) != 0)
            taken += is_refused_or_comes_back(d->name, text, STRICT);
    ms_arena_reset(&arena);
    return taken;
}

/* All objects in a value, without recursion. */
static size_t objects_come_back(json_t *value)
{
    json_t *stack = json_pack("[O]", value), *member;
    size_t taken = 0, i;
    const char *key;
    while (json_array_size(stack) > 0) {
        json_t *top = json_incref(json_array_get(stack, json_array_size(stack) - 1));
        json_array_remove(stack, json_array_size(stack) - 1);
        if (json_is_object(top) &&
            (json_object_get(top, "role") || json_object_get(top, "type") ||
             json_object_get(top, "parts") || json_object_get(top, "content")))
            taken += object_comes_back(top);
        json_object_foreach (top, key, member)
            if (json_is_object(member) || json_is_array(member))
                json_array_append(stack, member);
        json_array_foreach (top, i, member)
            if (json_is_object(member) || json_is_array(member))
                json_array_append(stack, member);
        json_decref(top);
    }
    json_decref(stack);
    return taken;
}

/* A file of one value, or of one a line. */
static size_t file_comes_back(const char *path)
{
    size_t size, taken = 0;
    char *bytes = read_file(path, &size);
    if (bytes == NULL) return 0;
    json_t *whole = json_parse_n(bytes, size);
    if (whole != NULL) taken += objects_come_back(whole);
    for (char *line = bytes; whole == NULL && line < bytes + size;) {
        char *end = (char *)memchr(line, '\n', (size_t)(bytes + size - line));
        if (end == NULL) end = bytes + size;
        json_t *one = json_parse_n(line, (size_t)(end - line));
        if (one != NULL) taken += objects_come_back(one);
        json_decref(one);
        line = end + 1;
    }
    json_decref(whole);
    free(bytes);
    return taken;
}

/* Each file of the traces, whichever program wrote it. */
TEST(object_comes_back_when_a_format_takes_it)
{
    static const struct {
        const char *folder;
        size_t taken;         /* objects, counted once a format */
    } folders[] = {
        {"tau-bench-airline", 26082}, {"swe-agent-traj", 3864},  {"cline-session", 297},
        {"claude-code-jsonl", 507},   {"claude-code-real", 551}, {"pi-session", 7000},
        {"inspect-logs", 152},         {"openhands-events", 118}, {"gemini-cli", 54},
        {"codex-rollout", 321},        {"atif-trajectory", 82},   {"copilot-cli", 95},
        {"otel-genai", 0},
    };
    size_t all = 0;
    for (size_t i = 0; i < COUNT(folders); i++) {
        char folder[4096], name[512];
        size_t taken = 0;
        snprintf(name, sizeof name, "data/%s", folders[i].folder);
        if (!shared_path(folder, sizeof folder, name)) skip();
        DIR *dir = opendir(folder);
        if (dir == NULL) skip();
        for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
            char path[5000];
            if (strchr(entry->d_name, '.') == NULL || entry->d_name[0] == '.') continue;
            if (strstr(entry->d_name, ".md") != NULL) continue;
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
            taken += file_comes_back(path);
        }
        closedir(dir);
        printf("%s: %lu objects\n", folders[i].folder, (unsigned long)taken);
        assert_int_equal(taken, folders[i].taken);
        all += taken;
    }
    test_tally("objects of traces that came back", all);
}

int main(void)
{
    return run_all_tests(open_arena, close_arena);
}
