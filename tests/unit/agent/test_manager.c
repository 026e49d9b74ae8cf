/* examples/manager.c, as a child process in a folder of its own: run at once, and killed
 * at each of its steps and run again. Each request that it prints is judged by the linter,
 * and has no words of another agent in the assistant's role. What is stored at the end is
 * the same in all runs.
 */

#define _GNU_SOURCE

#include "provider_lint.h"
#include "scratch.h"

#include <sys/wait.h>

#define MSGSTORE_IMPLEMENTED /* it is linked */
#define main manager_main
#include "../../../examples/manager.c"
#undef main

enum { KILLED = 9, MOST_STEPS = 60, SAID = 1 << 16, WORDS = 1 << 12 };

static char *folder, *printed;

static void begin(void)
{
    folder = scratch_folder();
    printed = scratch_file(folder, "printed");
}

static void end(void)
{
    free(printed);
    scratch_remove(folder);
    free(folder);
}

/* Runs the example, which adds its requests to those of the runs before; returns its
 * status. */
static int run_example(int steps)
{
    int status = 0;
    char number[16];
    snprintf(number, sizeof number, "%d", steps);
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char *arguments[] = {(char *)"manager", steps > 0 ? number : NULL, NULL};
        if (chdir(folder) != 0 || freopen(printed, "a", stdout) == NULL) _exit(99);
        exit(manager_main(steps > 0 ? 2 : 1, arguments));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status)) fail_msg("with %d steps: a signal", steps);
    return WEXITSTATUS(status);
}

/* ---- what is stored ---- */

typedef struct said {
    char by[8], text[64];
} said;

static said words[MOST_STEPS];
static size_t n_words;

/* Reads all messages: *text has a line for each, `words` what agents have said. */
static void read_log(char text[WORDS])
{
    char *path = scratch_file(folder, "manager.msl");
    ms_store *store;
    ms_error err;
    ms_cursor it;
    const ms_msg *msg;
    ms_log_desc log = {0};
    ms_query query = {0};
    size_t len = 0;
    log.path = path;
    n_words = 0;
    text[0] = '\0';
    if (ms_log_open(&store, &log, &err) != MS_OK) fail_msg("%s", err.message);
    assert_int_equal(ms_query_open(store, &query, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        ms_str by = ms_get(msg, MS_F_AGENT_KEY).text, content = ms_content(msg).text;
        ms_type type = ms_type_of(msg);
        int n = snprintf(text + len, WORDS - len, "%s %.*s: %.*s\n", ms_type_word(type),
                         (int)by.len, by.ptr, (int)content.len, content.ptr);
        assert_in_range(n, 1, WORDS - len - 1);
        len += (size_t)n;
        if (type == MS_T_GLOBAL_OBSERVATION) by = ms_get(msg, MS_F_FROM_WORKER).text;
        if (type != MS_T_SYNTHESIS && type != MS_T_FINAL && type != MS_T_GLOBAL_OBSERVATION)
            continue;
        assert_true(n_words < COUNT(words));
        said *x = &words[n_words++];
        snprintf(x->by, sizeof x->by, "%.*s", (int)by.len, by.ptr);
        snprintf(x->text, sizeof x->text, "%.*s", (int)content.len, content.ptr);
    }
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    ms_close(store);
    free(path);
}

/* ---- what was sent ---- */

/* Returns how often words of others, or of the agent itself, stand in its role. */
static size_t in_its_role(const char *name, const char *body, bool of_others)
{
    size_t i, n = 0;
    json_t *message, *list, *request = json_loads(body, 0, NULL);
    assert_non_null(request);
    list = json_object_get(request, "messages");
    if (list == NULL) list = json_object_get(request, "contents");
    json_array_foreach (list, i, message) {
        const char *role = json_string_value(json_object_get(message, "role"));
        assert_non_null(role);
        if (strcmp(role, "assistant") != 0 && strcmp(role, "model") != 0) continue;
        char *text = json_dumps(message, JSON_COMPACT);
        for (size_t k = 0; k < n_words; k++)
            if ((strcmp(words[k].by, name) != 0) == of_others)
                n += strstr(text, words[k].text) != NULL;
        free(text);
    }
    json_decref(request);
    return n;
}

/* Judges each request; returns how many there are. *own: how often agents found their own
 * words in their role. */
static size_t judge(size_t *own)
{
    static char line[SAID];
    char name[16], provider[16], why[PROVIDER_LINT_TEXT];
    size_t n = 0;
    FILE *file = fopen(printed, "r");
    assert_non_null(file);
    for (*own = 0; fgets(line, sizeof line, file) != NULL; n++) {
        int at = 0;
        ms_arena memory;
        assert_int_equal(sscanf(line, "%15s %15s %n", name, provider, &at), 2);
        const char *body = line + at;
        test_arena_init(&memory, NULL);
        ms_str part = provider_lint_part(provider, ms_str_of(body), &memory);
        if (provider_lint(provider, part, why) != NULL) fail_msg("%s: %s", why, line);
        ms_arena_deinit(&memory);
        if (in_its_role(name, body, true) > 0) fail_msg("words of others: %s", line);
        *own += in_its_role(name, body, false);
    }
    fclose(file);
    return n;
}

TEST(example_sends_requests_that_its_providers_take)
{
    static char stored[WORDS];
    size_t own;
    begin();
    assert_int_equal(run_example(0), 0);
    read_log(stored);
    assert_int_equal(judge(&own), 6);
    assert_int_equal(own, 2); /* "I ask both.", "I look at the forecast." */
    assert_int_equal(n_words, 6);
    assert_int_equal(run_example(0), 0); /* there is nothing to do any more */
    assert_int_equal(judge(&own), 6);
    end();
}

TEST(example_goes_on_where_it_was_killed)
{
    static char stored[WORDS], want[WORDS];
    size_t own, n = 0;
    int status = KILLED;
    begin();
    assert_int_equal(run_example(0), 0);
    read_log(want);
    end();
    for (int steps = 1; status == KILLED; steps++, n++) {
        assert_true(steps < MOST_STEPS);
        begin();
        status = run_example(steps);
        if (status != KILLED) assert_int_equal(status, 0);
        assert_int_equal(run_example(0), 0);
        read_log(stored);
        assert_string_equal(stored, want);
        assert_in_range(judge(&own), 6, 7); /* an answer that was lost is asked for again */
        end();
    }
    assert_in_range(n, 20, MOST_STEPS);
}

TEST(example_goes_on_when_it_is_killed_again_and_again)
{
    static char stored[WORDS], want[WORDS];
    size_t own;
    begin();
    assert_int_equal(run_example(0), 0);
    read_log(want);
    end();
    for (int steps = 5; steps < 12; steps++) {
        int runs = 0;
        begin();
        while (run_example(steps) == KILLED) assert_true(++runs < MOST_STEPS);
        assert_true(runs > 0);
        read_log(stored);
        assert_string_equal(stored, want);
        assert_true(judge(&own) >= 6);
        end();
    }
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
