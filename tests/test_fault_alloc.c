/* Allocations that fail.
 *
 *   - The operations of fault.h with each of their allocations failing, on logs and on an
 *     arena store; with arenas of 0, 16, 32, ... bytes until that is enough; and with so
 *     little memory for the names of a log's newest messages.
 *   - A limit on the bytes in use: appends fail with a code, the store stays whole.
 *   - Functions that need memory and no store: formats, shortening, JSON. Projection is
 *     in test_project_hostile.
 *
 * From MS_TEST_SCALE=100 on each allocation of the script fails.
 */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"
#include "fault.h"


/* ---- arenas of each size ---- */

static size_t next_size(size_t size)
{
    size_t step = test_scale() >= 100 ? 16 : 208;
    if (size == NO_ARENA) return 16;
    return size + (size < 1024 || size / 32 < step ? step : size / 32 & ~(size_t)15);
}

/* Operations on a rich log without an arena, then in one that is too small, until it is
 * large enough. */
static void operation_returns_an_error_when_an_arena_is_too_small(void **state)
{
    world *w = world_new(&ways[ALONE]);
    (void)state;
    for (size_t i = 0; i < STEPS; i++) {
        size_t size = NO_ARENA, failed = 0;
        if (!(steps[i].on & ON_WRITER)) continue;
        image_learn(w, RICH, &steps[i]);
        for (bool enough = false; !enough; size = next_size(size)) {
            if (size > 1 << 18) fail_msg("%s never has enough", steps[i].name);
            image_begin(w, RICH, &steps[i]);
            w->arena_size = size;
            w->too_small = 0;
            run_step(w, &steps[i], text_for(w, 0), text_for(w, 1));
            enough = w->too_small == 0;
            failed += !enough;
            image_end(w, text_for(w, 1));
        }
        memory_faults += failed;
    }
    folder_empty(w->folder);
    world_free(w);
}

/* The memory for names of the tail (0), or of changes (1), ends after `left` bytes. True:
 * that is enough. */
static bool narrow_is_enough(world *w, const struct step *s, int which, size_t left)
{
    static union {
        uint64_t align;
        unsigned char bytes[1 << 16];
    } narrow[2];
    static text now;
    ms_error err;
    image_begin(w, SMALL, s);
    ms__log *log = ms__log_of(w->log);
    ms_arena *arena = which ? &log->edits.live.nodes : &ms__tail_of(log)->live.nodes;
    ms_arena whole = *arena;
    test_arena_init_fixed(arena, narrow[which].bytes, left);
    snprintf(w->when, sizeof w->when, "%s with %zu bytes for names", s->name, left);
    w->arg = s->arg;
    ms_result code = call(w, s->run, &err);
    if (code != MS_OK) {
        *arena = whole;
        if (code != MS_E_NO_MEMORY) fail_msg("%s: %s", w->when, ms_result_text(code));
        text_must_be(w, w->log, &now, "the handle");
        (void)must_show(w, &now, text_for(w, 0), text_for(w, 1), s->leaves);
        if (call(w, s->run, &err) != MS_OK)
            fail_msg("%s, then: %s", w->when, err.message);
    }
    if (code == MS_OK) { /* names were in both */
        do_close(w, NULL);
        whole.alloc = w->heap.alloc; /* which the log has passed on */
        ms_arena_deinit(&whole);
    }
    image_end(w, text_for(w, 1));
    return code == MS_OK;
}

/* A handle that writes, and one that has to catch up with a writer. */
static void operation_stays_whole_when_names_have_no_room(void **state)
{
    size_t stride = test_scale() >= 100 ? 8 : 88;
    (void)state;
    for (int way = ALONE; way <= READING; way++) {
        world *w = world_new(&ways[way]);
        w->segment = (size_t)1 << 20;
        for (size_t i = 0; i < STEPS; i++) {
            if (!(steps[i].on & (way == READING ? ON_READER : ON_WRITER))) continue;
            if (steps[i].run == do_open || steps[i].run == do_verify) continue;
            image_learn(w, SMALL, &steps[i]);
            for (int which = 0; which < 2; which++)
                for (size_t left = 0; !narrow_is_enough(w, &steps[i], which, left);
                     left += stride, memory_faults++)
                    if (left > 1 << 15) fail_msg("%s has no end", steps[i].name);
        }
        folder_empty(w->folder);
        world_free(w);
    }
}


/* ---- stores that have no memory, or are closed ---- */

/* Appends until 50 are refused, none of which changes the store. */
static void append_beyond_the_limit(world *w)
{
    ms_stat before, after;
    ms_error err;
    w->repeat = 0;
    for (size_t refused = 0; refused < 50; w->repeat++) {
        assert_int_equal(ms_store_stat(w->log, &before, NULL), MS_OK);
        ms_result result = call(w, w->repeat % 2 ? do_fill : do_new_names, &err);
        if (result == MS_OK) continue;
        assert_int_equal(result, MS_E_NO_MEMORY);
        refused++;
        assert_int_equal(ms_store_stat(w->log, &after, NULL), MS_OK);
        assert_int_equal(after.messages, before.messages);
        assert_int_equal(after.last_seq, before.last_seq);
    }
    must_be_whole(w);
}

/* A limit on the bytes in use; a reset gives them back. */
static void appends_are_whole_or_refused_when_memory_is_limited(void **state)
{
    (void)state;
    for (size_t most = 16384; most < 400000; most += 30001) {
        world *w = world_new(&configs[CONFIGS - 1]);
        ms_error err;
        w->heap.limit_bytes = most;
        snprintf(w->when, sizeof w->when, "%zu bytes of memory", most);
        if (do_open(w, &err) != MS_OK) assert_int_equal(err.code, MS_E_NO_MEMORY);
        for (int round = 0; round < 3 && w->log != NULL; round++) {
            append_beyond_the_limit(w);
            assert_true(w->heap.live_bytes <= most);
            assert_int_equal(ms_mem_reset(w->log, NULL), MS_OK);
        }
        ms_close(w->log);
        must_be_idle(w);
        world_free(w);
    }
}

static void operation_returns_an_error_when_the_store_is_closed(void **state)
{
    world *w = world_new(&ways[ALONE]);
    (void)state;
    for (size_t i = 0; i < STEPS; i++)
        for (int arena = 0; arena < 2; arena++) {
            ms_store closed;
            ms_error err;
            memset(&closed, 0, sizeof closed);
            memcpy(w->seq, images[RICH].seq, sizeof w->seq);
            if (!(steps[i].on & IMAGES) || steps[i].run == do_open) continue;
            if (steps[i].run == do_verify || steps[i].run == do_reader) continue;
            if (steps[i].run == do_leave_out || steps[i].run == do_selfcheck) continue;
            if (steps[i].run == do_flush) continue; /* which has nothing to do */
            w->log = w->stream.store = &closed;
            w->arena_size = arena == 0 ? NO_ARENA : 0;
            w->arg = steps[i].arg;
            if (call(w, steps[i].run, &err) == MS_OK) fail_msg("%s: ok", steps[i].name);
            must_be_idle(w);
        }
    world_free(w);
}


/* ---- functions that need memory and no store ---- */

enum { STORY = 8 };

typedef struct pure {
    ms_arena arena;           /* that has an end */
    ms_arena beside;          /* that has none */
    ms_buf buf;               /* what was written */
    size_t which;             /* format */
} pure;

/* Messages that every format has a form for, with a long text and escapes. */
static const ms_envelope *story(void)
{
    static ms_envelope m[STORY];
    static char page[1500];
    memset(page, 'l', sizeof page);
    m[0] = ms_user_message(ms_text("a \"question\"\n\xc3\xa9"));
    m[1] = ms_assistant_message(ms_text_n(ms_str_n(page, sizeof page)));
    m[2] = ms_action(MS_STR("a tool"), ms_json(MS_STR("{\"a\":[1,\"\\u00e9\\n\"]}")),
                     ms_str_of(NULL));
    m[2].call_id = MS_STR("call 1");
    m[3] = ms_observation(ms_json(MS_STR("{\"b\":\"\\\"\"}")), ms_str_of(NULL));
    m[3].call_id = MS_STR("call 1");
    m[3].tool = MS_STR("a tool");
    m[4] = ms_assistant_message(ms_text("an answer"));
    m[5] = ms_user_message(ms_text("once more"));
    m[6] = ms_user_message(ms_text("and more"));
    m[7] = ms_action(MS_STR("a tool"), ms_json(MS_STR("{}")), ms_str_of(NULL));
    for (int i = 0; i < STORY; i++) {
        m[i].has_time = true;
        m[i].time_ns = SECONDS(1700000000 + i);
        m[i].location = MS_STR("job");
        m[i].agent_key = i == 5 ? MS_STR("other") : MS_STR("worker");
    }
    return m;
}

/* Writes the story in a format, and reads that. */
static ms_result pure_dialect(pure *p, ms_error *err)
{
    const ms_dialect *dialect = ms_dialect_at(p->which);
    ms_writer_opts opts = {true, false, true};
    ms_read_opts how = {true, false};
    ms_writer w;
    ms_envelopes read;
    ms_writer_init(&w, dialect, &opts, &p->arena, ms_buf_write, &p->buf);
    ms_result result = MS_OK;
    for (int i = 0; i < STORY && result == MS_OK; i++)
        result = ms_writer_put(&w, &story()[i], err);
    if (result == MS_OK) result = ms_writer_finish(&w, err);
    if (result == MS_OK)
        result = ms_read_list(dialect, ms_buf_text(&p->buf), &how, &p->arena, &read, err);
    return result;
}

static ms_result pure_shorten(pure *p, ms_error *err)
{
    ms_envelope m = story()[1];
    ms_result result =
        ms_shorten_message(&m, NULL, MS_STR("session-s-msg-1"), &p->arena, err);
    if (result == MS_OK)
        result = ms_buf_write(&p->buf, m.content.text.ptr, m.content.text.len);
    return result;
}

static ms_result pure_small(pure *p, ms_error *err)
{
    ms_str out;
    ms_envelope copy;
    const ms_msg *msg;
    ms_result result =
        ms_json_string(MS_STR("\"a\\u00e9\\n and some more\""), &p->arena, &out);
    if (result == MS_OK) result = ms_envelope_copy(&story()[2], &p->arena, &copy);
    if (result == MS_OK) result = ms_encode(&copy, &p->arena, &msg, err);
    for (int i = 0; i < 100 && result == MS_OK; i++)
        result = ms_buf_write(&p->buf, "0123456789012345678901234567890123456789", 40);
    return result;
}

static const struct pure_step {
    const char *name;
    size_t variants;
    ms_result (*run)(pure *p, ms_error *err);
} pure_steps[] = {
    {"format", 10, pure_dialect},
    {"shorten", 1, pure_shorten},
    {"small ones", 1, pure_small},
};

/* Alone, with all after it, or the arena ends there. */
typedef enum lack { ONE, ALL, ROOM, LACKS } lack;

/* One run whose n-th allocation fails, or whose arena ends after n bytes (0: neither).
 * What it wrote goes to *out. Returns whether there was trouble. */
static bool pure_run(const struct pure_step *s, pure *p, lack what, size_t n, ms_str *out,
                     ms_result *result)
{
    static uint64_t room[1 << 16];
    test_alloc heap;
    ms_error err;
    test_alloc_init(&heap);
    if (what != ROOM) heap.fail_at = n;
    heap.fail_from = what == ALL;
    memset(&p->buf, 0, sizeof p->buf);
    ms_arena_reset(&p->beside);
    if (what == ROOM && n > 0) test_arena_init_fixed(&p->arena, room, n);
    else test_arena_init(&p->arena, &heap.alloc);
    p->buf.arena = what == ROOM ? &p->beside : &p->arena;
    *result = s->run(p, &err);
    *out = ms_str_of(NULL);
    if (*result == MS_OK) {
        ms_str written = ms_buf_text(&p->buf);
        char *copy = (char *)ms_arena_alloc(&p->beside, written.len + 1);
        memcpy(copy, written.ptr, written.len);
        *out = ms_str_n(copy, written.len);
    }
    ms_arena_deinit(&p->arena);
    test_alloc_done(&heap);
    return what == ROOM ? *result != MS_OK : heap.failed > 0;
}

/* What lacks memory returns that, or the same as ever. */
static void pure_fails(const struct pure_step *s, pure *p, lack what)
{
    static char want_bytes[1 << 16];
    size_t stride = what != ROOM ? 1 : test_scale() >= 100 ? 16 : 176;
    ms_result expected, result;
    ms_str want, got;
    bool trouble = true;
    (void)pure_run(s, p, ONE, 0, &want, &expected);
    assert_true(want.len < sizeof want_bytes);
    if (want.len > 0) memcpy(want_bytes, want.ptr, want.len);
    want.ptr = want_bytes;
    for (size_t n = what == ROOM ? 16 : 1; trouble; n += stride, memory_faults++) {
        trouble = pure_run(s, p, what, n, &got, &result);
        if (trouble && (result == MS_E_NO_MEMORY || result == MS_E_ARENA)) continue;
        if (result != expected || got.len != want.len ||
            memcmp(got.ptr ? got.ptr : "", want_bytes, got.len) != 0)
            fail_msg("%s %zu, lack %d at %zu: %s, another text", s->name, p->which,
                     (int)what, n, ms_result_text(result));
        if (what == ROOM) break;
    }
}

static void text_is_the_same_or_refused_when_memory_ends(void **state)
{
    static pure p;
    (void)state;
    for (size_t i = 0; i < sizeof pure_steps / sizeof pure_steps[0]; i++)
        for (p.which = 0; p.which < pure_steps[i].variants; p.which++)
            for (int what = ONE; what < LACKS; what++)
                pure_fails(&pure_steps[i], &p, (lack)what);
    ms_arena_deinit(&p.beside);
}


int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(operation_returns_an_error_when_an_arena_is_too_small),
        cmocka_unit_test(operation_stays_whole_when_names_have_no_room),
        cmocka_unit_test(appends_are_whole_or_refused_when_memory_is_limited),
        cmocka_unit_test(operation_returns_an_error_when_the_store_is_closed),
        cmocka_unit_test(text_is_the_same_or_refused_when_memory_ends),
    };
    int failed =
        run_faults("fault_alloc", true, others, sizeof others / sizeof others[0]);
    printf("tally: fault points (allocations) %llu\n", (unsigned long long)memory_faults);
    return failed;
}
