/* Allocations that fail.
 *
 *   - The operations of fault.h with each of their allocations failing, on logs and on an
 *     arena store; with arenas of 0, 16, 32, ... bytes until that is enough; and with so
 *     little memory for the names of a log's newest messages.
 *   - A limit on the bytes in use: appends fail with a code, the store stays whole.
 *     Projection is in test_project_hostile.
 *
 * From MS_TEST_SCALE=100 on each allocation of the script fails.
 */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"
#include "fault.h"
#include "low_memory.h"


/* ---- arenas of each size ---- */

/* Operations on a log without an arena, then in one that is too small, until it is large
 * enough; what fails leaves the log and its handle as they were. */
static void operation_returns_an_error_when_an_arena_is_too_small(void **state)
{
    size_t least = test_scale() >= 100 ? 16 : 208;
    world *w = world_new(&ways[ALONE]);
    (void)state;
    for (size_t i = 0; i < n_steps; i++) {
        const struct step *s = &steps[i];
        ms_error err;
        if (!(s->on & ON_WRITER)) continue;
        image_learn(w, RICH, s, NULL);
        image_begin(w, RICH, s);
        for (size_t size = NO_ARENA;; memory_faults++) {
            if (size > 1 << 18) fail_msg("%s never has enough", s->name);
            w->arena_size = size;
            ms_result result = step_call(w, s, &err);
            if (result == MS_OK) break;
            describe(w, s);
            must_explain(w, result, &err);
            world_quiet(w);
            (void)after_failure(w, s, result, text_for(w, 0), text_for(w, 1));
            size_t more = size / 32 & ~(size_t)15;
            size = size == NO_ARENA ? 16 : size + (more > least ? more : least);
        }
        image_end(w, text_for(w, 1));
    }
    world_free(w);
}

/* Works on a message in small steps, each of which needs memory. */
static ms_result handle_texts(void *expected, ms_arena *in)
{
    static char page[1500];
    ms_buf out = {in, NULL, 0, 0};
    ms_envelope m, copy, call;
    const ms_msg *msg;
    ms_str plain;
    memset(page, 'l', sizeof page);
    m = ms_assistant_message(ms_text_n(ms_str_n(page, sizeof page)));
    call = ms_action(MS_STR("a tool"), ms_json(MS_STR("{\"a\":[1]}")), ms_str_of(NULL));
    ms_result result = ms_shorten_message(&m, NULL, MS_STR("session-s-msg-1"), in, NULL);
    if (result == MS_OK)
        result = ms_buf_write(&out, m.content.text.ptr, m.content.text.len);
    if (result == MS_OK)
        result = ms_json_string(MS_STR("\"a\\u00e9\\n and more\""), in, &plain);
    if (result == MS_OK) result = ms_envelope_copy(&call, in, &copy);
    if (result == MS_OK) result = ms_encode(&copy, in, &msg, NULL);
    for (int i = 0; i < 100 && result == MS_OK; i++)
        result = ms_buf_write(&out, "0123456789012345678901234567890123456789", 40);
    if (result != MS_OK) return result;
    ms_str all = ms_buf_text(&out);
    const unsigned char *bytes = (const unsigned char *)all.ptr;
    uint32_t sum = file_crc((uint32_t)ms_size(msg), bytes, all.len);
    uint32_t *want = (uint32_t *)expected;
    if (*want == 0) *want = sum;
    assert_int_equal(sum, *want);
    return MS_OK;
}

static void text_is_the_same_or_refused_when_memory_ends_anywhere(void **state)
{
    uint32_t expected = 0;
    ms_arena plenty;
    (void)state;
    test_arena_init(&plenty, NULL);
    assert_int_equal(handle_texts(&expected, &plenty), MS_OK);
    ms_arena_deinit(&plenty);
    memory_faults += low_memory(handle_texts, &expected, 16);
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
    ms_arena *arena = which ? &log->edits.names.nodes : &ms__tail_of(log)->names.nodes;
    ms_arena whole = *arena;
    test_arena_init_fixed(arena, narrow[which].bytes, left);
    snprintf(w->when, sizeof w->when, "%s with %zu bytes for names", s->name, left);
    ms_result code = step_call(w, s, &err);
    if (code != MS_OK) {
        *arena = whole;
        if (code != MS_E_NO_MEMORY) fail_msg("%s: %s", w->when, ms_result_text(code));
        text_must_be(w, w->log, &now, "the handle");
        (void)must_look(w, &now, text_for(w, 0), text_for(w, 1), s->leaves);
        if (step_call(w, s, &err) != MS_OK)
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
        for (size_t i = 0; i < n_steps; i++) {
            if (!(steps[i].on & (way == READING ? ON_READER : ON_WRITER))) continue;
            if (steps[i].run == do_open || steps[i].run == do_verify) continue;
            image_learn(w, SMALL, &steps[i], NULL);
            for (int which = 0; which < 2; which++)
                for (size_t left = 0; !narrow_is_enough(w, &steps[i], which, left);
                     left += stride, memory_faults++)
                    if (left > 1 << 15) fail_msg("%s has no end", steps[i].name);
        }
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
    for (size_t i = 0; i < n_steps; i++)
        for (int arena = 0; arena < 2; arena++) {
            ms_store closed;
            ms_error err;
            memset(&closed, 0, sizeof closed);
            image_names(w, RICH);
            if (!(steps[i].on & IMAGES) || steps[i].run == do_open) continue;
            if (steps[i].run == do_verify || steps[i].run == do_reader) continue;
            if (steps[i].run == do_leave_out || steps[i].run == do_selfcheck) continue;
            if (strcmp(steps[i].name, "feed w") == 0) continue; /* has nothing to do */
            w->log = stream_of(w)->store = &closed;
            w->arena_size = arena == 0 ? NO_ARENA : 0;
            if (step_call(w, &steps[i], &err) == MS_OK) fail_msg("%s: ok", steps[i].name);
            must_be_idle(w);
        }
    world_free(w);
}


int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(operation_returns_an_error_when_an_arena_is_too_small),
        cmocka_unit_test(text_is_the_same_or_refused_when_memory_ends_anywhere),
        cmocka_unit_test(operation_stays_whole_when_names_have_no_room),
        cmocka_unit_test(appends_are_whole_or_refused_when_memory_is_limited),
        cmocka_unit_test(operation_returns_an_error_when_the_store_is_closed),
    };
    int failed =
        run_faults("fault_alloc", true, others, sizeof others / sizeof others[0]);
    printf("tally: fault points (allocations) %llu\n", (unsigned long long)memory_faults);
    return failed;
}
