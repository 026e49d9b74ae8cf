/* Runs the conformance vectors, one JSON object a line, through the public interface:
 *
 *     test_conformance [DIRECTORY [FILE ...]]     all *.jsonl of ../shared/conformance
 *
 * Each vector names an operation (a row of `operations` below), its input and what the
 * original did. The operation gives a JSON object with the members that a vector expects
 * ("equals", "message_ids", "key_order"), or "error". An operation without a row fails.
 * A vector passes when it does so on every kind of store. Vectors that fail are printed
 * with what was expected and what came. */

#define _POSIX_C_SOURCE 200809L

#include "stores.h"
#include "json_equal.h"

#include <dirent.h>
#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])


/* ---- between jansson and the library ---- */

static ms_arena arena; /* of one vector */
static const store_kind *kind; /* of the stores that a vector opens */

static json_t *failure(const ms_error *err)
{
    return json_pack("{s:s, s:s}", "error", err->message, "path", err->path);
}

static ms_str text_of(json_t *value)
{
    ms_str absent = {NULL, 0};
    if (!json_is_string(value)) return absent;
    return ms_str_n(json_string_value(value), json_string_length(value));
}

/* A JSON value as text in the arena. */
static ms_str json_of(json_t *value)
{
    size_t len = json_dumpb(value, NULL, 0, JSON_ENCODE_ANY | JSON_COMPACT);
    char *text = (char *)ms_arena_alloc(&arena, len);
    json_dumpb(value, text, len, JSON_ENCODE_ANY | JSON_COMPACT);
    return ms_str_n(text, len);
}

/* A string is text, anything else is JSON, a missing member is absent. */
static ms_value value_of(json_t *value)
{
    if (value == NULL || json_is_string(value)) return ms_text_n(text_of(value));
    return ms_json(json_of(value));
}

static const ms_dialect *framework(void)
{
    return ms_dialect_find(MS_STR("framework"));
}

static ms_result read_message(json_t *value, bool lenient, ms_envelope *out,
                              ms_error *err)
{
    ms_read_opts opts = {false, false};
    ms_envelopes all = {NULL, 0};
    ms_result result;
    opts.lenient = lenient;
    result = ms_read(framework(), json_of(value), &opts, &arena, &all, err);
    if (result == MS_OK) *out = all.items[0];
    return result;
}

/* Starts a writer of one array in the framework dialect. */
static void start_writing(ms_writer *w, ms_buf *buf)
{
    ms_writer_opts opts = {false, false, false};
    memset(buf, 0, sizeof *buf);
    buf->arena = &arena;
    opts.array = true;
    ms_writer_init(w, framework(), &opts, &arena, ms_buf_write, buf);
}

/* Ends it and parses what was written; an error when a put before (result) or the end
 * failed. */
static json_t *end_writing(ms_writer *w, ms_buf *buf, ms_result result, ms_error *err)
{
    ms_str text;
    if (result == MS_OK) result = ms_writer_finish(w, err);
    if (result != MS_OK) return failure(err);
    text = ms_buf_text(buf);
    return json_parse_n(text.ptr, text.len);
}

/* {"message_ids": the members `mid` of an array of messages}; an error passes through. */
static json_t *message_ids(json_t *messages)
{
    json_t *ids, *message;
    size_t i;
    if (!json_is_array(messages)) return messages;
    ids = json_array();
    json_array_foreach (messages, i, message) {
        json_t *mid = json_object_get(message, "mid");
        if (mid != NULL) json_array_append(ids, mid);
        else json_array_append_new(ids, json_null());
    }
    json_decref(messages);
    return json_pack("{s:o}", "message_ids", ids);
}

static json_t *cursor_ids(ms_cursor *it, ms_error *err)
{
    ms_writer w;
    ms_buf buf;
    const ms_msg *msg;
    ms_result result = MS_OK;
    start_writing(&w, &buf);
    while (result == MS_OK && (msg = ms_next(it)) != NULL) {
        result = test_writer_put_msg(&w, msg, err);
    }
    if (result == MS_OK) result = ms_cursor_close(it, err);
    return message_ids(end_writing(&w, &buf, result, err));
}

/* A store with the vector's rows: {"location", "agent_key", "msg"}. A log is read after
 * it was closed and opened again. */
static ms_result open_store(json_t *rows, test_store *s, ms_error *err)
{
    store_options options;
    json_t *row;
    size_t i;
    ms_result result = MS_OK;
    memset(&options, 0, sizeof options);
    options.keep_unset_times = true;
    *s = store_open(kind, &options);
    json_array_foreach (rows, i, row) {
        ms_envelope m;
        if (result != MS_OK) break;
        result = read_message(json_object_get(row, "msg"), false, &m, err);
        if (result != MS_OK) break;
        m.agent_key = text_of(json_object_get(row, "agent_key"));
        m.location = text_of(json_object_get(row, "location"));
        result = ms_append(s->store, m.location, &m, NULL, err);
    }
    store_reopen(s);
    return result;
}

static ms_str *list_of(json_t *names, size_t *n)
{
    ms_str *list;
    *n = json_array_size(names);
    list = (ms_str *)ms_arena_alloc(&arena, (*n + 1) * sizeof *list);
    for (size_t i = 0; i < *n; i++) list[i] = text_of(json_array_get(names, i));
    return list;
}


/* ---- build ---- */

static ms_envelope built(const char *builder, json_t *args)
{
    ms_value content = value_of(json_object_get(args, "content"));
    ms_envelope none;
    if (strcmp(builder, "create_user_message") == 0) return ms_user_message(content);
    if (strcmp(builder, "create_assistant_message") == 0) {
        return ms_assistant_message(content);
    }
    if (strcmp(builder, "create_task_entry") == 0) return ms_message(MS_T_TASK, content);
    if (strcmp(builder, "create_action_entry") == 0) {
        return ms_action(text_of(json_object_get(args, "tool_name")),
                         value_of(json_object_get(args, "tool_args")), ms_str_of(NULL));
    }
    if (strcmp(builder, "create_observation_entry") == 0) {
        return ms_message(MS_T_OBSERVATION, content);
    }
    if (strcmp(builder, "create_error_entry") == 0) {
        return test_error_message(content, text_of(json_object_get(args, "error_type")));
    }
    if (strcmp(builder, "create_final_entry") == 0) return ms_message(MS_T_FINAL,
                                                                      content);
    if (strcmp(builder, "create_synthesis_entry") == 0) {
        return test_synthesis(content, text_of(json_object_get(args, "from_manager")));
    }
    if (strcmp(builder, "create_strategic_plan_entry") == 0) {
        return ms_message(MS_T_STRATEGIC_PLAN, value_of(json_object_get(args, "plan")));
    }
    if (strcmp(builder, "create_delegation_entry") == 0) {
        return test_delegation(text_of(json_object_get(args, "worker")),
                             text_of(json_object_get(args, "task")));
    }
    if (strcmp(builder, "create_global_observation_entry") == 0) {
        return ms_message(MS_T_GLOBAL_OBSERVATION, content);
    }
    if (strcmp(builder, "create_director_context_entry") == 0) {
        return ms_message(MS_T_DIRECTOR_CONTEXT, content);
    }
    memset(&none, 0, sizeof none);
    return none;
}

/* The arguments that every builder takes, or that are set behind it. */
static void set_common(ms_envelope *m, json_t *args)
{
    json_t *timestamp = json_object_get(args, "timestamp");
    m->has_time = json_is_number(timestamp);
    if (m->has_time) m->time_ns = SECONDS(json_number_value(timestamp));
    m->turn_id = text_of(json_object_get(args, "turn_id"));
    m->from_worker = text_of(json_object_get(args, "from_worker"));
    m->summary = text_of(json_object_get(args, "summary"));
    m->phase_id = value_of(json_object_get(args, "phase_id"));
}

static json_t *key_order(json_t *object)
{
    json_t *keys = json_array(), *value;
    const char *key;
    json_object_foreach (object, key, value) {
        json_array_append_new(keys, json_string(key));
    }
    return keys;
}

static json_t *op_build(json_t *input)
{
    json_t *args = json_object_get(input, "args"), *messages, *message, *keys;
    ms_envelope m = built(json_string_value(json_object_get(input, "builder")), args);
    ms_writer w;
    ms_buf buf;
    ms_error err;
    set_common(&m, args);
    if (test_envelope_check(&m, &err) != MS_OK) return failure(&err);
    start_writing(&w, &buf);
    messages = end_writing(&w, &buf, ms_writer_put(&w, &m, &err), &err);
    if (!json_is_array(messages)) return messages;
    message = json_incref(json_array_get(messages, 0));
    keys = key_order(message);
    json_decref(messages);
    return json_pack("{s:o, s:o}", "equals", message, "key_order", keys);
}


/* ---- histories and views ---- */

static json_t *op_history(json_t *input)
{
    json_t *args = json_object_get(input, "args"), *actual;
    test_store s;
    ms_memory memory;
    ms_cursor it;
    ms_error err;
    if (open_store(json_object_get(input, "rows"), &s, &err) != MS_OK) {
        actual = failure(&err);
    } else {
        ms_memory_init(&memory, s.store, text_of(json_object_get(args, "location")),
                       text_of(json_object_get(args, "agent_key")));
        memory.subordinates = list_of(json_object_get(args, "subordinates"),
                                      &memory.n_subordinates);
        memory.keep_duplicates = true;
        memory.by_time = true;
        memory.untimed_first = true;
        memory.arena = &arena;
        actual = ms_get_history(&memory, &it, &err) != MS_OK ? failure(&err)
                                                             : cursor_ids(&it, &err);
    }
    store_close(&s);
    return actual;
}

static json_t *op_history_open(json_t *input)
{
    json_t *args = json_object_get(input, "args");
    json_t *actual = json_object();
    test_store s = store_open(kind, NULL);
    ms_memory memory;
    ms_cursor it;
    ms_error err;
    ms_memory_init(&memory, s.store, text_of(json_object_get(args, "location")),
                   text_of(json_object_get(args, "agent_key")));
    if (ms_get_history(&memory, &it, &err) != MS_OK) {
        json_decref(actual);
        actual = failure(&err);
    }
    store_close(&s);
    return actual;
}

static unsigned view_of(const char *name)
{
    if (strcmp(name, "conversation") == 0) return MS_VIEW_CONVERSATION;
    if (strcmp(name, "agent") == 0) return MS_VIEW_AGENT;
    if (strcmp(name, "team") == 0) return MS_VIEW_TEAM;
    return MS_VIEW_GLOBAL;
}

static json_t *op_store_view(json_t *input)
{
    test_store s;
    ms_query query;
    ms_cursor it;
    ms_error err;
    json_t *actual;
    memset(&query, 0, sizeof query);
    query.location = text_of(json_object_get(input, "location"));
    query.views = view_of(json_string_value(json_object_get(input, "view")));
    query.agent_key = text_of(json_object_get(input, "agent_key"));
    query.agent_keys = list_of(json_object_get(input, "agent_keys"), &query.n_agent_keys);
    query.limit = (size_t)json_integer_value(json_object_get(input, "limit"));
    query.oldest = query.by_time = query.untimed_first = true;
    query.arena = &arena;
    if (open_store(json_object_get(input, "rows"), &s, &err) != MS_OK ||
        ms_query_open(s.store, &query, &it, &err) != MS_OK) {
        actual = failure(&err);
    } else {
        actual = cursor_ids(&it, &err);
    }
    store_close(&s);
    return actual;
}


/* ---- filters ---- */

static void set_scope(ms_scope *scope, json_t *input)
{
    const char *filter = json_string_value(json_object_get(input, "filter"));
    json_t *context = json_object_get(input, "context");
    json_t *turns = json_object_get(context, "max_conversation_turns");
    json_t *phase = json_object_get(context, "phase_id");
    json_t *previous = json_object_get(context, "previous_phase_id");
    if (turns == NULL) {
        turns = json_object_get(json_object_get(input, "ctor"), "max_conversation_turns");
    }
    memset(scope, 0, sizeof *scope);
    scope->kind = MS_SCOPE_ALL;
    if (strcmp(filter, "OrchestratorHistoryFilter") == 0) {
        scope->kind = MS_SCOPE_ORCHESTRATOR;
    }
    if (strcmp(filter, "ManagerHistoryFilter") == 0) scope->kind = MS_SCOPE_MANAGER;
    if (strcmp(filter, "WorkerHistoryFilter") == 0) scope->kind = MS_SCOPE_WORKER;
    scope->turns = (size_t)json_integer_value(turns);
    scope->has_phase = json_is_integer(phase);
    scope->phase = json_integer_value(phase);
    scope->has_previous_phase = json_is_integer(previous);
    scope->previous_phase = json_integer_value(previous);
}

/* Is message i of the array in the scope? task: index of the last task. */
static bool origin_keeps(const ms_scope *scope, const ms_msg *msg, size_t i, size_t task)
{
    ms_value phase = ms_get(msg, MS_F_PHASE_ID);
    int64_t wanted = scope->has_previous_phase ? scope->previous_phase : scope->phase - 1;
    int64_t found;
    ms_type type = ms_type_of(msg);
    switch (scope->kind) {
    case MS_SCOPE_ORCHESTRATOR:
        return type == MS_T_USER_MESSAGE || type == MS_T_ASSISTANT_MESSAGE;
    case MS_SCOPE_MANAGER:
        if (!scope->has_previous_phase && !(scope->has_phase && scope->phase > 0))
            return false;
        return type == MS_T_SYNTHESIS && phase.text.ptr != NULL && phase.json &&
               ms_json_i64(phase.text, &found) == MS_OK && found == wanted;
    case MS_SCOPE_WORKER:
        return task < i && (type == MS_T_GLOBAL_OBSERVATION || type == MS_T_TASK ||
                            type == MS_T_ACTION || type == MS_T_OBSERVATION ||
                            type == MS_T_ERROR);
    default: return true;
    }
}

/* The origin scopes a history that is an array; ours are in queries. */
static size_t origin_scope(const ms_scope *scope, const ms_msg *const *history, size_t n,
                           const ms_msg **out)
{
    size_t kept = 0, turns = scope->turns != 0 ? scope->turns : 8;
    size_t task = n; /* if it has no task */
    for (size_t i = 0; i < n; i++)
        if (ms_type_of(history[i]) == MS_T_TASK) task = i;
    for (size_t i = 0; i < n; i++)
        if (origin_keeps(scope, history[i], i, task)) out[kept++] = history[i];
    if (scope->kind != MS_SCOPE_ORCHESTRATOR || kept <= turns) return kept;
    memmove(out, out + (kept - turns), turns * sizeof *out);
    return turns;
}

static json_t *op_history_filter(json_t *input)
{
    json_t *history = json_object_get(input, "history");
    size_t n = json_array_size(history), kept;
    const ms_msg **all = (const ms_msg **)ms_arena_alloc(&arena, sizeof *all * (n + 1));
    const ms_msg **out = (const ms_msg **)ms_arena_alloc(&arena, sizeof *out * (n + 1));
    ms_result result = MS_OK;
    ms_scope scope;
    ms_writer w;
    ms_buf buf;
    ms_error err;
    for (size_t i = 0; i < n && result == MS_OK; i++) {
        ms_envelope m;
        result = read_message(json_array_get(history, i), true, &m, &err);
        if (result == MS_OK) result = ms_encode(&m, &arena, &all[i], &err);
    }
    if (result != MS_OK) return failure(&err);
    set_scope(&scope, input);
    kept = origin_scope(&scope, all, n, out);
    start_writing(&w, &buf);
    for (size_t i = 0; i < kept && result == MS_OK; i++) {
        result = test_writer_put_msg(&w, out[i], &err);
    }
    return message_ids(end_writing(&w, &buf, result, &err));
}

static json_t *op_normalize_agent_key(json_t *input)
{
    json_t *names = json_object_get(input, "names"), *name, *out = json_array();
    size_t i;
    json_array_foreach (names, i, name) {
        ms_str s = text_of(name);
        char *room = (char *)ms_arena_alloc(&arena, s.len);
        s = ms_normalize_agent_key(s, room);
        json_array_append_new(out, json_stringn(s.ptr, s.len));
    }
    return json_pack("{s:o}", "equals", out);
}


#include "origins.h"
#include "conform_envelope.h"
#include "conform_session.h"
#include "conform_task.h"


/* ---- the vectors ---- */

static const struct {
    const char *name;
    json_t *(*run)(json_t *input);
} operations[] = {
    {"build", op_build},
    {"history", op_history},
    {"history_open", op_history_open},
    {"store_view", op_store_view},
    {"history_filter", op_history_filter},
    {"normalize_agent_key", op_normalize_agent_key},
    {"compress", op_compress},
    {"decompress", op_decompress},
    {"entity_key", op_entity_key},
    {"load_session", op_load_session},
    {"to_model_messages", op_to_model_messages},
    {"sanitize_tool_name", op_sanitize_tool_name},
    {"validate_content", op_validate_content},
    {"accumulate_deltas", op_accumulate_deltas},
    {"merge_consecutive_deltas", op_merge_consecutive_deltas},
    {"to_llm_messages", op_to_llm_messages},
    {"normalize", op_normalize},
    {"normalize_many", op_normalize_many},
    {"to_provider", op_to_provider},
    {"to_provider_many", op_to_provider_many},
    {"text", op_text},
    {"tool_call", op_tool_call},
    {"tool_result", op_tool_result},
    {"coalesce", op_coalesce},
    {"pairs", op_pairs},
    {"prune", op_prune},
};

/* NULL: no such operation. */
static json_t *run(json_t *vector)
{
    const char *op = json_string_value(json_object_get(vector, "op"));
    for (size_t i = 0; op != NULL && i < COUNT(operations); i++) {
        if (strcmp(op, operations[i].name) == 0) {
            return operations[i].run(json_object_get(vector, "input"));
        }
    }
    return NULL;
}

/* Every member expected is there and the same; of an error only that it is one. */
static bool meets(json_t *actual, json_t *expect, json_where *where)
{
    unsigned options = JSON_MISSING_IS_NULL | JSON_ARGUMENTS;
    const char *key;
    json_t *value;
    if (json_object_size(expect) == 0) return false;
    json_object_foreach (expect, key, value) {
        json_t *got = json_object_get(actual, key);
        if (strcmp(key, "error") == 0 ? got == NULL
                                      : !json_same(got, value, options, where)) {
            return false;
        }
    }
    return json_object_get(expect, "error") != NULL ||
           json_object_get(actual, "error") == NULL;
}

static void print_json(const char *label, json_t *value)
{
    char *text = value != NULL ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    printf("    %s %s\n", label, text != NULL ? text : "(nothing)");
    free(text);
}

static bool passes_here(json_t *vector)
{
    json_where where = {{0}, 0};
    const char *id = json_string_value(json_object_get(vector, "id"));
    const char *op = json_string_value(json_object_get(vector, "op"));
    const char *what = json_string_value(json_object_get(vector, "case"));
    json_t *actual = run(vector);
    json_t *expect = json_object_get(vector, "expect");
    bool good = actual != NULL && meets(actual, expect, &where);
    ms_arena_reset(&arena);
    if (!good) {
        printf("FAIL %s %s: %s (%s)\n", id != NULL ? id : "(no id)",
               op != NULL ? op : "(no op)", what != NULL ? what : "", kind->name);
        if (actual == NULL) printf("    no such operation here\n");
        if (where.path[0] != '\0') printf("    they differ at %s\n", where.path);
        print_json("expected", expect);
        print_json("actual  ", actual);
    }
    json_decref(actual);
    return good;
}

static bool passes(json_t *vector)
{
    bool good = true;
    for (size_t i = 0; good && i < STORE_KINDS; i++) {
        kind = store_kind_at(i);
        good = passes_here(vector);
    }
    return good;
}

/* Adds the vectors of a file to the list; a line that is not JSON is one that fails. */
static bool load(const char *path, json_t *vectors)
{
    FILE *file = fopen(path, "rb");
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    if (file == NULL) {
        printf("FAIL cannot read %s\n", path);
        return false;
    }
    while ((len = getline(&line, &cap, file)) > 0) {
        json_t *vector = json_parse_n(line, (size_t)len);
        if (len == 1) continue;
        json_array_append_new(vectors, vector != NULL ? vector : json_object());
    }
    free(line);
    fclose(file);
    return true;
}

static int is_vectors(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);
    return len > 6 && strcmp(entry->d_name + len - 6, ".jsonl") == 0;
}

/* Loads the files named, or all of the directory; the number that could not be read. */
static unsigned load_all(const char *directory, char **names, int n, json_t *vectors)
{
    struct dirent **entries = NULL;
    unsigned failed = 0;
    int found = n > 0 ? 0 : scandir(directory, &entries, is_vectors, alphasort);
    for (int i = 0; i < n || i < found; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", directory,
                 n > 0 ? names[i] : entries[i]->d_name);
        failed += !load(path, vectors);
    }
    for (int i = 0; i < found; i++) free(entries[i]);
    free(entries);
    return failed;
}

int main(int argc, char **argv)
{
    const char *directory = argc > 1 ? argv[1] : "../shared/conformance";
    json_t *vectors = json_array(), *vector;
    DIR *there = opendir(directory);
    unsigned passed = 0, failed;
    size_t i;
    if (there == NULL) {
        printf("skipped: no %s\n", directory);
        json_decref(vectors);
        return 0;
    }
    closedir(there);
    failed = load_all(directory, argv + 2, argc - 2, vectors);
    printf("[==========] Running %u test(s).\n", (unsigned)json_array_size(vectors));
    json_array_foreach (vectors, i, vector) {
        if (passes(vector)) passed++;
        else failed++;
    }
    json_decref(vectors);
    ms_arena_deinit(&arena);
    printf("[==========] %u test(s) run.\n", passed + failed);
    printf("[  PASSED  ] %u test(s).\n", passed);
    if (failed > 0) printf("[  FAILED  ] %u test(s)\n", failed);
    return failed > 0 || passed == 0;
}
