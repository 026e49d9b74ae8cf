/* The sync of the tool (tools/sync.c), stopped before each of its writes in turn: what it
 * stored last and what it notes of a file are one append. The next sync finds a log that
 * has nothing twice and lacks nothing, in files that are new, grow, change, move, are
 * copied, have branches, or are read back to what they were. Also what a log notes of a
 * file that grows, in bytes, and notes that no sync has written.
 */

#define _XOPEN_SOURCE 700
#include "silence.h"
#include "support.h"
#include "scratch.h"

#include "tools/sync.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Of the many writes of a long file the first are tried, and then every FARth. */
enum { STOPPED = 77, LONG = 1300, NEAR = 30, FAR = 211 };


/* ---- A store that stops the process before a write ---- */

static const ms_backend *real;
static ms_backend stopping;
static uint64_t writes_left;

/* Begins a write of the real store: its functions look at its table. */
static void write_begin(ms_store *store)
{
    if (writes_left-- == 0) _exit(STOPPED);
    store->backend = real;
}

static ms_result stop_append(ms_store *store, ms_str location, const ms_envelope *items,
                             size_t n, const ms_append_opts *opts, ms_error *err)
{
    write_begin(store);
    ms_result result = real->append(store, location, items, n, opts, err);
    store->backend = &stopping;
    return result;
}

static ms_result stop_change(ms_store *store, ms_str location, const ms_record *records,
                             size_t n, const ms_append_opts *opts, ms_error *err)
{
    write_begin(store);
    ms_result result = real->change(store, location, records, n, opts, err);
    store->backend = &stopping;
    return result;
}

static ms_store *open_log(const char *path)
{
    ms_store *store;
    ms_error err;
    ms_log_desc how;
    memset(&how, 0, sizeof how);
    how.path = path;
    how.keep_unset_times = true;
    if (ms_log_open(&store, &how, &err) != MS_OK) fail_msg("%s", err.message);
    return store;
}

/* Syncs a folder; the exit code. */
static int sync_folder(ms_store *store, const char *folder, counts *c)
{
    syncing s;
    options o;
    rescue lost;
    memset(&s, 0, sizeof s);
    memset(&o, 0, sizeof o);
    memset(&lost, 0, sizeof lost);
    memset(c, 0, sizeof *c);
    s.in.store = store;
    s.in.options = &o;
    s.in.counts = c;
    s.in.rescue = &lost;
    s.in.guess_agent = true;
    int code = sync_path(&s, folder);
    sync_free(&s);
    tally_free(&c->others);
    tally_free(&c->left_out);
    return code;
}

/* Syncs in a process of its own, which ends without closing the log, before its write
 * number `stop`, from 0, at the latest. */
static pid_t sync_begin(const char *log, const char *folder, uint64_t stop)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        counts c;
        ms_store *store = open_log(log);
        real = store->backend;
        stopping = *real;
        stopping.append = stop_append;
        stopping.change = stop_change;
        stopping.hooks = NULL;
        store->backend = &stopping;
        writes_left = stop;
        _exit(sync_folder(store, folder, &c));
    }
    return pid;
}

/* Returns whether the sync was stopped. */
static bool sync_until(const char *log, const char *folder, uint64_t stop)
{
    int status;
    pid_t pid = sync_begin(log, folder, stop);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) != STOPPED) assert_int_equal(WEXITSTATUS(status), FINE);
    return WEXITSTATUS(status) == STOPPED;
}

/* Kills the sync after that time; returns whether it had not ended. */
static bool sync_killed(const char *log, const char *folder, long ns)
{
    int status;
    struct timespec time = {0, ns};
    pid_t pid = sync_begin(log, folder, UINT64_MAX);
    nanosleep(&time, NULL);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status);
}


/* ---- What a log shows ---- */

typedef struct shown {
    char *text;               /* an stb_ds array */
    uint64_t tokens;          /* of all notes */
} shown;

static void show(shown *s, const char *between, ms_str text)
{
    size_t at = arrlenu(s->text), len = strlen(between);
    arrsetlen(s->text, at + len + text.len);
    memcpy(s->text + at, between, len);
    if (text.len > 0) memcpy(s->text + at + len, text.ptr, text.len);
}

/* The facts of a session; the number of its first prompt as its text. */
static void show_facts(shown *s, ms_store *store, ms_str location, ms_arena *arena)
{
    int64_t first = 0;
    ms_str facts, value;
    const ms_msg *msg;
    assert_int_equal(ms_location_get(store, location, arena, &facts, NULL), MS_OK);
    show(s, "\nfacts of ", location);
    ms_json_iter it = ms_json_iterate(facts);
    while (ms_json_next(&it)) {
        show(s, " ", it.key);
        if (!key_is(it.key, MS_STR("first"))) show(s, ":", it.value);
    }
    value = text_of(arena, member(facts, "first"));
    if (value.ptr == NULL || ms_json_i64(value, &first) != MS_OK) return;
    if (ms_get_by_seq(store, (uint64_t)first, arena, &msg, NULL) != MS_OK) return;
    show(s, "\nfirst ", ms_content(msg).text);
}

static void show_messages(shown *s, ms_store *store, ms_str location)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    memset(&q, 0, sizeof q);
    q.location = location;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        show(s, "\n", location);
        show(s, " ", ms_content(msg).text);
    }
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
}

/* The tokens of all notes; of one answer, which a branch that was brought back has
 * twice, once. */
static uint64_t tokens_in_notes(ms_store *store)
{
    ms_query q;
    ms_cursor it;
    uint64_t tokens = 0, answers[64];
    size_t n = 0;
    const ms_msg *msg;
    memset(&q, 0, sizeof q);
    q.raw = MS_RAW_NOTES;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        ms_str answer = member(ms_content(msg).text, "answer");
        uint64_t key = hash_text(answer);
        size_t i = 0;
        while (answer.ptr != NULL && i < n && answers[i] != key) i++;
        if (answer.ptr != NULL && i < n) continue;
        if (answer.ptr != NULL && n < COUNT_OF(answers)) answers[n++] = key;
        tokens += count_of(member(ms_content(msg).text, "output_tokens"));
    }
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    return tokens;
}

static int by_location(const void *a, const void *b)
{
    const ms_info *x = a, *y = b;
    size_t len = x->location.len < y->location.len ? x->location.len : y->location.len;
    int c = memcmp(x->location.ptr, y->location.ptr, len);
    return c != 0 ? c : (int)x->location.len - (int)y->location.len;
}

static shown what_is_in(const char *log)
{
    shown s = {NULL, 0};
    ms_arena arena;
    ms_listing list;
    ms_list_query all;
    ms_store *store = open_log(log);
    memset(&arena, 0, sizeof arena);
    memset(&all, 0, sizeof all);
    assert_int_equal(ms_list(store, &all, &arena, &list, NULL), MS_OK);
    if (list.count > 1) qsort(list.items, list.count, sizeof *list.items, by_location);
    for (size_t i = 0; i < list.count; i++) {
        show_messages(&s, store, list.items[i].location);
        show_facts(&s, store, list.items[i].location, &arena);
    }
    s.tokens = tokens_in_notes(store);
    ms_arena_deinit(&arena);
    ms_close(store);
    return s;
}


/* ---- Transcripts ---- */

static char home[200], folder[220];

static void write_text(const char *name, const char *text)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

#define CLAUDE(id, parent, text)                                                         \
    "{\"type\":\"assistant\",\"uuid\":\"" id "\",\"parentUuid\":\"" parent               \
    "\",\"sessionId\":\"s\",\"message\":{\"role\":\"assistant\",\"model\":\"m-" text     \
    "\",\"content\":\"" text "\",\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n"
#define PI_BEGIN "{\"type\":\"session\",\"id\":\"p1\",\"cwd\":\"/x\"}\n"
#define PI(id, parent, text)                                                             \
    "{\"type\":\"message\",\"id\":\"" id "\",\"parentId\":\"" parent                     \
    "\",\"message\":{\"role\":\"user\",\"content\":\"" text "\"}}\n"
#define PI_ANSWER(id, parent, text)                                                      \
    "{\"type\":\"message\",\"id\":\"" id "\",\"parentId\":\"" parent                     \
    "\",\"message\":{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"" \
    text "\"}],\"usage\":{\"input\":5,\"output\":7}}}\n"
#define PI_TREE PI_BEGIN PI("a", "", "root") PI("b", "a", "one")                         \
    PI_ANSWER("c", "b", "answer") PI("d", "a", "two")
#define CHAT(text) "{\"role\":\"user\",\"content\":\"" text "\"}\n"
#define KEYED(key, text)                                                                 \
    "{\"type\":\"user_message\",\"location\":\"l\",\"key\":\"" key                      \
    "\",\"content\":\"" text "\"}\n"
#define THREE CLAUDE("1", "", "one") CLAUDE("2", "1", "two") CLAUDE("3", "2", "three")
#define FOUR THREE CLAUDE("4", "3", "four")
#define FIVE FOUR CLAUDE("5", "4", "five")
#define TWO_OF_FIVE CLAUDE("1", "", "one") CLAUDE("2", "1", "two")
#define TWO CLAUDE("1", "", "one") CLAUDE("2", "1", "TWO")
#define PI_MORE PI_TREE PI("e", "c", "more")
#define PI_ON PI_MORE PI("f", "d", "on")
#define CODEX_BEGIN                                                                      \
    "{\"timestamp\":\"2026-01-01T00:00:00Z\",\"type\":\"session_meta\",\"payload\":"     \
    "{\"id\":\"c1\",\"cwd\":\"/x\"}}\n"
#define CODEX(text)                                                                      \
    "{\"timestamp\":\"2026-01-01T00:00:01Z\",\"type\":\"response_item\",\"payload\":"    \
    "{\"type\":\"message\",\"role\":\"assistant\",\"content\":"                         \
    "[{\"type\":\"output_text\",\"text\":\"" text "\"}]}}\n"
#define CODEX_TOKENS(n)                                                                  \
    "{\"timestamp\":\"2026-01-01T00:00:02Z\",\"type\":\"event_msg\",\"payload\":"        \
    "{\"type\":\"token_count\",\"info\":{\"last_token_usage\":{\"input_tokens\":5,"      \
    "\"output_tokens\":" n "},\"total_token_usage\":{\"input_tokens\":5,"                \
    "\"output_tokens\":" n "}}}}\n"

#define CODEX_TWO_SAID CODEX_BEGIN CODEX("one") CODEX("two")
#define CODEX_TWO CODEX_BEGIN CODEX("one") CODEX_TOKENS("3") CODEX("two")

/* A file of many batches; `more` lines follow that the first three do not have. */
static void write_long(unsigned lines)
{
    char path[400];
    snprintf(path, sizeof path, "%s/s.jsonl", folder);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (unsigned i = 0; i < lines; i++) {
        fprintf(file, "{\"type\":\"assistant\",\"uuid\":\"u%u\",\"parentUuid\":\"u%u\","
                "\"sessionId\":\"s\",\"message\":{\"role\":\"assistant\","
                "\"content\":\"%u\",\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n",
                i, i - 1, i);
    }
    assert_int_equal(fclose(file), 0);
}

/* A session: what is in the folder at each of up to four syncs. The sync before the last
 * is the one that is stopped. */
typedef struct change_row {
    const char *name;
    const char *texts[4];     /* of s.jsonl; NULL: no more */
    void (*also)(unsigned step); /* other changes of the folder; NULL: none */
    bool reverts;             /* the costs of a text that was never read are not there */
} change_row;

static void grow_long(unsigned step)
{
    write_long(step == 0 ? 3 : step == 1 ? LONG : LONG + 1);
}

static void make_folder(const char *name)
{
    char *path = scratch_file(folder, name);
    (void)mkdir(path, 0700);
    free(path);
}

static void move_away(unsigned step)
{
    char from[400], to[400];
    if (step == 0) return;
    snprintf(from, sizeof from, "%s/s.jsonl", folder);
    snprintf(to, sizeof to, "%s/moved/s.jsonl", folder);
    make_folder("moved");
    assert_int_equal(rename(from, to), 0);
}

static void copy_beside(unsigned step)
{
    make_folder("z");
    if (step == 1) write_text("z/s.jsonl", FOUR);
    if (step >= 2) write_text("z/s.jsonl", FIVE);
}

static const change_row rows[] = {
    {"is new", {"", THREE, THREE}, NULL, false},
    {"grows", {THREE, FOUR,
               FIVE}, NULL, false},
    {"changes", {THREE, TWO, THREE}, NULL, true},
    {"changes and comes back",
     {THREE, TWO CLAUDE("3", "2", "3"),
      CLAUDE("1", "", "one")}, NULL, true},
    {"has a branch", {PI_BEGIN PI("a", "", "root") PI("b", "a", "one"), PI_TREE,
                      PI_MORE,
                      PI_ON}, NULL, false},
    {"goes on in a branch", {PI_TREE, PI_MORE,
                             PI_ON}, NULL, false},
    {"is of messages", {CHAT("one"), CHAT("one") CHAT("two"),
                        CHAT("one") CHAT("two") CHAT("three")}, NULL, false},
    {"has keys twice", {KEYED("a", "one") KEYED("a", "one") KEYED("b", "two"),
                        KEYED("a", "one") KEYED("a", "one") KEYED("b", "two")
                            KEYED("b", "two") KEYED("c", "three"),
                        KEYED("a", "one") KEYED("a", "one") KEYED("b", "two")
                            KEYED("b", "two") KEYED("c", "three") KEYED("d", "four")},
     NULL, false},
    {"has counts that come late", {CODEX_BEGIN CODEX("one"),
                                   CODEX_TWO, CODEX_TWO CODEX_TOKENS("9")}, NULL, false},
    {"is long", {NULL}, grow_long, false},
    {"moves", {THREE, FOUR,
               FIVE}, move_away, false},
    {"has a copy", {THREE, THREE, THREE}, copy_beside, false},
};

static void set_folder(const change_row *row, unsigned step)
{
    if (row->texts[step] != NULL) write_text("s.jsonl", row->texts[step]);
    if (row->also != NULL) row->also(step);
}

static unsigned steps_of(const change_row *row)
{
    unsigned n = 0;
    while (n < 4 && row->texts[n] != NULL) n++;
    return n > 0 ? n : 3;
}

static void begin_folder(char *log, size_t size, const char *name)
{
    scratch_remove(home);
    assert_int_equal(mkdir(home, 0700), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(log, size, "%s/%s", home, name);
}

/* Runs the steps; the sync of step `at` is stopped before its write `stop`, and then, if
 * `again`, done once more. *stopped: it was. */
static shown run_steps(const change_row *row, unsigned at, uint64_t stop, bool again,
                       bool *stopped)
{
    char log[300];
    begin_folder(log, sizeof log, "a.log");
    for (unsigned step = 0; step < steps_of(row); step++) {
        set_folder(row, step);
        bool cut = sync_until(log, folder, step == at ? stop : UINT64_MAX);
        if (step == at) *stopped = cut;
        if (cut && again) assert_false(sync_until(log, folder, UINT64_MAX));
    }
    return what_is_in(log);
}

static void compare(const change_row *row, unsigned at, uint64_t stop, const shown *is,
                    const shown *want, bool tokens)
{
    bool same = arrlenu(is->text) == arrlenu(want->text) &&
                memcmp(is->text, want->text, arrlenu(is->text)) == 0;
    if (!same) {
        fail_msg("a file that %s, sync %u stopped before write %u: %.*s\nnot%.*s", row->name, at, (unsigned)stop, (int)arrlenu(is->text), is->text,
                 (int)arrlenu(want->text), want->text);
    }
    if (tokens && is->tokens != want->tokens) {
        fail_msg("a file that %s, sync %u stopped before write %u: %u tokens, not %u",
                 row->name, at, (unsigned)stop, (unsigned)is->tokens,
                 (unsigned)want->tokens);
    }
}

/* Returns how many stops there were. */
static uint64_t stop_everywhere(const change_row *row, unsigned at, bool again)
{
    bool stopped = true;
    shown want = run_steps(row, UINT_MAX, 0, false, &stopped);
    uint64_t stop = 0, stops = 0;
    for (stopped = true; stopped; stop += stop < NEAR ? 1 : stop < LONG ? FAR : 1) {
        shown is = run_steps(row, at, stop, again, &stopped);
        compare(row, at, stop, &is, &want, again || !row->reverts);
        arrfree(is.text);
        stops += stopped;
    }
    arrfree(want.text);
    return stops;
}

TEST(sync_has_nothing_twice_when_stopped_before_any_write)
{
    uint64_t stops = 0;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (unsigned at = 0; at < steps_of(&rows[i]); at++) {
            stops += stop_everywhere(&rows[i], at, true);
            bool more = at + 1 < steps_of(&rows[i]) && test_scale() >= 100;
            if (more) stops += stop_everywhere(&rows[i], at, false);
        }
    }
    test_tally("syncs stopped before a write", stops);
    assert_true(stops > 100);
}

/* Three files that grow at each sync. */
static void grow_all(uint64_t *rng, unsigned step, unsigned *lines)
{
    static const char *const trees[] = {PI_TREE, PI_MORE,
                                        PI_ON};
    static const char *const chats[] = {CHAT("one"), CHAT("one") CHAT("two"),
                                        CHAT("two") CHAT("one") CHAT("three")};
    write_text("pi.jsonl", trees[step]);
    write_text("chat.jsonl", chats[step]);
    *lines += (unsigned)test_below(rng, 900);
    write_long(*lines);
}

static uint64_t kill_round(uint64_t *rng)
{
    char log[300], whole[300];
    uint64_t kills = 0;
    unsigned lines = 1;
    begin_folder(log, sizeof log, "a.log");
    snprintf(whole, sizeof whole, "%s/whole.log", home);
    for (unsigned step = 0; step < 3; step++) {
        grow_all(rng, step, &lines);
        for (unsigned n = 0; n < 3; n++) {
            kills += sync_killed(log, folder, (long)test_below(rng, 30000000));
        }
        assert_false(sync_until(whole, folder, UINT64_MAX));
    }
    assert_false(sync_until(log, folder, UINT64_MAX));
    shown is = what_is_in(log), want = what_is_in(whole);
    assert_int_equal(arrlenu(is.text), arrlenu(want.text));
    assert_memory_equal(is.text, want.text, arrlenu(want.text));
    assert_int_equal(is.tokens, want.tokens);
    arrfree(is.text);
    arrfree(want.text);
    return kills;
}

TEST(sync_has_nothing_twice_when_killed_at_random_times)
{
    uint64_t kills = 0, rng = test_seed();
    for (size_t i = 0; i < test_times(20); i++) kills += kill_round(&rng);
    test_tally("syncs killed", kills);
}


/* ---- Copies: a session in three files, which come in every order ---- */

typedef struct copies_row {
    const char *name;
    const char *files[3][2];  /* path and text; the first is the longest */
} copies_row;

#define REPEATED FIVE CLAUDE("2", "1", "two") CLAUDE("3", "2", "three")
#define QUIET_CODEX CODEX_BEGIN CODEX("one") CODEX("two") CODEX("one")

static const copies_row copies[] = {
    {"a backup and a copy beside", {{"s.jsonl", FIVE}, {"old/s.jsonl", THREE},
                                    {"s copy.jsonl", FOUR}}},
    {"entries that stand twice", {{"s.jsonl", REPEATED}, {"old/s.jsonl", TWO_OF_FIVE},
                                  {"s copy.jsonl", REPEATED}}},
    {"branches", {{"p.jsonl", PI_ON}, {"old/p.jsonl", PI_TREE}, {"q.jsonl", PI_MORE}}},
    {"no ids", {{"c.jsonl", QUIET_CODEX CODEX("three")}, {"old/c.jsonl", CODEX_TWO_SAID},
                {"d.jsonl", QUIET_CODEX}}},
};

static const unsigned orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                      {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

/* Brings the files one by one, each with a sync; that of step `at` is stopped before its
 * write `stop`, and then done once more. */
static shown bring_copies(const copies_row *row, const unsigned *order, unsigned n,
                          unsigned at, uint64_t stop, bool *stopped)
{
    char log[300];
    begin_folder(log, sizeof log, "a.log");
    make_folder("old");
    for (unsigned step = 0; step < n; step++) {
        const char *const *file = row->files[order[step]];
        write_text(file[0], file[1]);
        bool cut = sync_until(log, folder, step == at ? stop : UINT64_MAX);
        if (step == at) *stopped = cut;
        if (cut) assert_false(sync_until(log, folder, UINT64_MAX));
    }
    assert_false(sync_until(log, folder, UINT64_MAX));
    return what_is_in(log);
}

TEST(sync_has_each_message_once_when_copies_come_in_any_order)
{
    uint64_t stops = 0;
    for (size_t i = 0; i < COUNT_OF(copies); i++) {
        bool stopped = false;
        shown want = bring_copies(&copies[i], orders[0], 1, UINT_MAX, 0, &stopped);
        change_row row = {copies[i].name, {NULL}, NULL, false};
        for (size_t k = 0; k < COUNT_OF(orders) * 3; k++) {
            stopped = true;
            for (uint64_t stop = 0; stopped; stop++) {
                unsigned at = (unsigned)(k % 3);
                shown is = bring_copies(&copies[i], orders[k / 3], 3, at, stop, &stopped);
                compare(&row, (unsigned)k, stop, &is, &want, true);
                arrfree(is.text);
                stops += stopped;
            }
        }
        arrfree(want.text);
    }
    test_tally("syncs of copies stopped before a write", stops);
    assert_true(stops > 100);
}


/* ---- What a log notes of files ---- */

/* Bytes of records that are no messages and not notes of a message. */
static void bytes_of(const char *log, uint64_t *facts, uint64_t *messages)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    ms_store *store = open_log(log);
    memset(&q, 0, sizeof q);
    q.raw = MS_RAW_MESSAGES | MS_RAW_LOCATIONS;
    *facts = *messages = 0;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        if (ms_kind_of(msg) == MS_KIND_LOCATION) *facts += ms_size(msg);
        else *messages += ms_size(msg);
    }
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    ms_close(store);
}

/* Three sessions grow together, one line a sync. */
static void grow_three(const char *log, unsigned lines)
{
    counts c;
    for (unsigned i = 0; i < lines; i++) {
        ms_store *store = open_log(log);
        for (unsigned k = 0; k < 3; k++) {
            char path[400];
            snprintf(path, sizeof path, "%s/s%u.jsonl", folder, k);
            FILE *file = fopen(path, "ab");
            assert_non_null(file);
            fprintf(file, "{\"type\":\"assistant\",\"uuid\":\"u%u\",\"parentUuid\":"
                    "\"u%u\",\"sessionId\":\"s%u\",\"message\":{\"role\":\"assistant\","
                    "\"content\":\"line %u of a session that grows by a line\"}}\n",
                    i, i - 1, k, i);
            assert_int_equal(fclose(file), 0);
        }
        assert_int_equal(sync_folder(store, folder, &c), FINE);
        assert_int_equal(c.messages - c.known, 3);
        ms_close(store);
    }
}

TEST(sync_notes_grow_with_the_messages_when_files_grow_by_a_line)
{
    char log[300];
    uint64_t half, half_messages, all, messages;
    begin_folder(log, sizeof log, "a.log");
    unsigned lines = test_scale() >= 100 ? 200 : 50;
    grow_three(log, lines);
    bytes_of(log, &half, &half_messages);
    begin_folder(log, sizeof log, "b.log");
    grow_three(log, 2 * lines);
    bytes_of(log, &all, &messages);
    printf("notes of files: %u bytes beside %u of messages, and %u beside %u\n",
           (unsigned)half, (unsigned)half_messages, (unsigned)all, (unsigned)messages);
    assert_true(all < 4 * messages);
    assert_true(all < 3 * half); /* facts are written whole where they have doubled */
}

/* The location that has the facts of s.jsonl. */
static void state_of(char *name, size_t size)
{
    char path[400], *whole;
    snprintf(path, sizeof path, "%s/s.jsonl", folder);
    whole = realpath(path, NULL);
    assert_non_null(whole);
    snprintf(name, size, "file:%s", whole);
    free(whole);
}

static void set_state(ms_store *store, const char *facts)
{
    char name[420];
    state_of(name, sizeof name);
    ms_result result = ms_location_set(store, ms_str_of(name), ms_str_of(facts), NULL);
    assert_int_equal(result, MS_OK);
}

/* Facts that no sync writes: the file is left out, the others are read. */
TEST(sync_refuses_a_file_when_its_facts_are_impossible)
{
    static const char *const impossible[] = {
        "{\"messages\":2,\"n0\":\"1-99999999999999999999\",\"size\":1}",
        "{\"messages\":3,\"n0\":\"3-1\",\"size\":1}",
        "{\"messages\":1,\"n0\":\"0\",\"size\":1}",
        "{\"messages\":2,\"n0\":\"1,x\",\"size\":1}",
        "{\"messages\":0,\"taken_back\":2,\"d0\":\"2-18446744073709551615\",\"size\":1}",
        "{\"messages\":18446744073709551615,\"n0\":\"1-16\",\"size\":1}",
        "{\"messages\":16777216,\"n0\":\"1-16\",\"size\":1}",
        "{\"messages\":17,\"n0\":\"1-17\",\"n1\":\"18\",\"size\":1}",
        "{\"messages\":3,\"n0\":\"1-2\",\"size\":1}",
        "{\"messages\":3,\"n0\":\"1-18446744073709551615\",\"size\":1}",
        "{\"messages\":0,\"taken_back\":2,\"d0\":\"1\",\"size\":1}",
        "{\"messages\":0,\"leaving\":\"1-18446744073709551615\",\"size\":1}",
    };
    for (size_t i = 0; i < COUNT(impossible); i++) {
        counts c;
        char log[300];
        begin_folder(log, sizeof log, "a.log");
        write_text("s.jsonl", THREE);
        write_text("t.jsonl", CHAT("one") CHAT("two"));
        ms_store *store = open_log(log);
        set_state(store, impossible[i]);
        silence(true);
        int code = sync_folder(store, folder, &c);
        silence(false);
        assert_int_equal(code, FAILED);
        assert_int_equal(c.messages, 2);
        set_state(store, "{\"messages\":0,\"taken_back\":0,\"leaving\":null}");
        assert_int_equal(sync_folder(store, folder, &c), FINE);
        assert_int_equal(c.messages, 3);
        ms_close(store);
    }
}

/* Flips a bit of the log at a text, which is a fact of a file, or in the header of it. */
static void damage(const char *log, const char *text, bool header)
{
    static char bytes[1 << 20];
    FILE *f = fopen(log, "r+b");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f), at = 0, len = strlen(text);
    while (at + len <= n && memcmp(bytes + at, text, len) != 0) at++;
    assert_true(at + len <= n);
    while (header && memcmp(bytes + at, "file:", 5) != 0 && memcmp(bytes + at, "name:", 5))
        at--;
    if (header) at -= 30;
    assert_int_equal(fseek(f, (long)at, SEEK_SET), 0);
    assert_true(fputc(bytes[at] ^ 4, f) != EOF);
    assert_int_equal(fclose(f), 0);
}

/* What the log notes of a file is damaged, in its body or in its header. It may be the
 * numbers of its messages, or, of a file that moved, its old name: the file is left out,
 * and nothing is stored twice. */
TEST(sync_refuses_a_file_when_its_facts_are_damaged)
{
    static const char *const facts[] = {"{\"size\":0,", "\"done\":", "{\"path\":"};
    for (size_t i = 0; i < 2 * COUNT(facts); i++) {
        counts c;
        char log[300], from[400], to[400];
        const char *fact = facts[i / 2];
        bool header = i % 2 != 0, moves = i / 2 == 2;
        begin_folder(log, sizeof log, "a.log");
        write_text("s.jsonl", THREE);
        ms_store *store = open_log(log);
        assert_int_equal(sync_folder(store, folder, &c), FINE);
        assert_int_equal(c.messages, 3);
        ms_close(store);
        damage(log, fact, header);
        snprintf(from, sizeof from, "%s/s.jsonl", folder);
        snprintf(to, sizeof to, "%s/moved", folder);
        if (moves) {
            assert_int_equal(mkdir(to, 0700), 0);
            snprintf(to, sizeof to, "%s/moved/s.jsonl", folder);
            assert_int_equal(rename(from, to), 0);
        }
        for (int times = 0; times < 2; times++) {
            write_text("t.jsonl", CHAT("one") CHAT("two"));
            store = open_log(log);
            silence(true);
            int code = sync_folder(store, folder, &c);
            silence(false);
            if (code != DAMAGED) fail_msg("%s, %d: %d", fact, (int)header, code);
            assert_int_equal(c.messages - c.known, header || times > 0 ? 0 : 2);
            assert_int_equal(c.hidden, 0);
            ms_close(store);
        }
    }
}

int main(void)
{
    char *scratch = scratch_folder();
    snprintf(home, sizeof home, "%s/sync", scratch);
    snprintf(folder, sizeof folder, "%s/files", home);
    free(scratch);
    return run_all_tests(NULL, NULL);
}
