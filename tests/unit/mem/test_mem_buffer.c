/* The arena store in one buffer of the caller: it calls no heap function, works in every
 * size of buffer, and is as before when a full one refuses a message. Its images are in
 * test_mem_image.
 */

#define _GNU_SOURCE
#include "buffer_stores.h"


/* ---- the heap, watched ---- */

static size_t heap_calls;

/* Every call of the program is counted here. A sanitizer has its own heap functions. */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__has_feature)

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *ptr, size_t size);
void __libc_free(void *ptr);

void *malloc(size_t size)
{
    heap_calls++;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    heap_calls++;
    return __libc_calloc(count, size);
}

void *realloc(void *ptr, size_t size)
{
    heap_calls++;
    return __libc_realloc(ptr, size);
}

void free(void *ptr)
{
    heap_calls++;
    __libc_free(ptr);
}

#endif

/* Is a call counted here? Not where another tool stands before malloc. */
static bool heap_is_watched(void)
{
    void *(*volatile get)(size_t) = malloc;
    void (*volatile give)(void *) = free;
    size_t before = heap_calls;
    give(get(100));
    if (heap_calls != before) return true;
    printf("skipped: heap calls cannot be seen here\n");
    return false;
}


/* ---- no heap ---- */

/* The steps of a whole life. What cmocka asserts calls no heap function, if it holds. */

static size_t write_until_full(ms_store *store)
{
    ms_envelope m = ms_action(MS_STR("list_tables"), ms_json(MS_STR("{\"a\":1}")),
                              ms_str_of(NULL));
    ms_envelope batch[10];
    const ms_append_opts opts = {.location = MS_STR("job")};
    size_t n = 11;
    for (size_t i = 0; i < 10; i++) batch[i] = ms_user_message(ms_text("x"));
    assert_int_equal(ms_append_batch(store, batch, 10, &opts, NULL), MS_OK);
    m.agent_key = MS_STR("w1");
    m.key = MS_STR("k");
    for (int i = 0; i < 2; i++)
        assert_int_equal(ms_append(store, MS_STR("job"), &m, NULL, NULL), MS_OK);
    m.key = no_str();
    while (ms_append(store, n % 3 ? MS_STR("job") : MS_STR("other"), &m, NULL, NULL) ==
           MS_OK)
        n++;
    assert_true(n > 100);
    assert_int_equal(ms_append_batch(store, batch, 10, &opts, NULL), MS_E_FULL);
    return n;
}

static void read_all(ms_store *store, size_t stored, ms_arena *arena)
{
    ms_str team[] = {MS_STR("w1"), MS_STR("w2")};
    ms_query q = query_of(MS_STR("job"), 15);
    ms_memory memory;
    ms_cursor it;
    ms_stat stat;
    const ms_msg *msg;
    q.agent_key = team[0];
    q.agent_keys = team;
    q.n_agent_keys = 2;
    assert_true(count_of(store, &q) > 60);
    q.by_time = true;
    q.arena = arena;
    assert_true(count_of(store, &q) > 60);
    for (int agents = 0; agents < 2; agents++) {
        const ms_list_query list = {.agents = agents};
        ms_listing listing;
        assert_int_equal(ms_list(store, &list, arena, &listing, NULL), MS_OK);
        assert_int_equal(listing.count, 2);
    }
    assert_int_equal(ms_get_by_seq(store, 3, NULL, &msg, NULL), MS_OK);
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    assert_int_equal(stat.messages, stored);
    ms_memory_init(&memory, store, MS_STR("job"), team[0]);
    assert_int_equal(ms_get_history(&memory, &it, NULL), MS_OK);
    while (ms_next(&it) != NULL) {}
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
}

/* The image to a second buffer, and all of it back by a copy. */
static void move_there_and_back(ms_store *store, buffer two, ms_arena *arena)
{
    ms_query all = query_of(no_str(), 0);
    ms_str image = ms_mem_image(store);
    memcpy(two.bytes, image.ptr, image.len);
    ms_store *second = attach_in(two);
    assert_true(count_of(second, &all) > 100);
    assert_int_equal(ms_mem_reset(store, NULL), MS_OK);
    assert_int_equal(ms_copy(store, second, NULL, arena, NULL, NULL), MS_OK);
    ms_close(second);
}

TEST(a_store_in_a_buffer_calls_no_heap_function)
{
    buffer one = buffer_new(65536), two = buffer_new(65536), room = buffer_new(65536);
    ms_arena arena;
    test_arena_init_fixed(&arena, room.bytes, room.size);
    bool watched = heap_is_watched();
    size_t before = heap_calls;
    ms_store *store = open_in(one);
    read_all(store, write_until_full(store), &arena);
    move_there_and_back(store, two, &arena);
    ms_close(store);
    size_t calls = heap_calls - before;
    free(one.bytes);
    free(two.bytes);
    free(room.bytes);
    if (!watched) skip();
    assert_int_equal(calls, 0);
}


/* ---- full ---- */

/* Two stores take the same messages, one of them between appends that fail: they stay
 * equal to the byte, and one is full when the other is. */
TEST(a_refused_append_makes_no_difference)
{
    static char text[16384];
    uint64_t rng = test_seed();
    size_t refused = 0;
    for (size_t round = 0; round < test_times(300); round++) {
        buffer one = buffer_new(3000 + 8 * (size_t)test_below(&rng, 2000));
        buffer two = buffer_new(one.size);
        ms_store *a = open_in(one), *b = open_in(two);
        for (int i = 0; i < 60; i++) {
            ms_envelope bad[3], m = random_message(&rng);
            char name[24];
            snprintf(name, sizeof name, "name %d", i);
            for (size_t k = 0; k < 3; k++) bad[k] = random_message(&rng);
            bad[0].location = bad[1].agent_key = bad[1].key = ms_str_of(name);
            bad[2].summary = ms_str_n(text, one.size / 2 + 16 * (size_t)i);
            if (ms_append_batch(a, bad, 3, NULL, NULL) == MS_OK)
                ms_append_batch(b, bad, 3, NULL, NULL);
            else refused++;
            ms_result got = ms_append(a, no_str(), &m, NULL, NULL);
            assert_int_equal(ms_append(b, no_str(), &m, NULL, NULL), got);
            assert_int_equal(room_of(a), room_of(b));
        }
        ms_str image = ms_mem_image(a);
        assert_int_equal(image.len, ms_mem_image(b).len);
        assert_memory_equal(image.ptr, two.bytes, image.len);
        ms_close(a);
        ms_close(b);
        free(one.bytes);
        free(two.bytes);
    }
    assert_true(refused > 0);
}

/* 100 bytes of content, "job_123", "worker-1", "turn_12", 8 bytes of time, the type's
 * word: what of a 64 KiB buffer is this, when no more of them fit? */
TEST(three_quarters_of_a_buffer_are_payload)
{
    buffer b = buffer_new(65536);
    ms_store *store = open_in(b);
    char text[100];
    ms_envelope m = ms_observation(ms_text_n(ms_str_n(text, sizeof text)),
                                   ms_str_of(NULL));
    size_t n = 0, fields = sizeof text + 7 + 8 + 7;
    memset(text, 't', sizeof text);
    m.agent_key = MS_STR("worker-1");
    m.turn_id = MS_STR("turn_12");
    m.has_time = true;
    while (ms_append(store, MS_STR("job_123"), &m, NULL, NULL) == MS_OK) n++;
    double payload = (double)(n * (fields + 8 + strlen("observation"))) / (double)b.size;
    printf("64 KiB hold %zu messages: %.1f %% payload, %.1f %% field bytes alone\n", n,
           100 * payload, 100 * (double)(n * fields) / (double)b.size);
    if (payload < 0.715) fail_msg("%.1f %%", 100 * payload);
    ms_close(store);
    free(b.bytes);
}

typedef struct shape {
    size_t messages, content, locations, agents;  /* agents: in each location */
    bool keys;                /* each message has one */
    size_t name;              /* bytes of a location's name; 0: a few */
    bool all_fields;          /* each message has every text field, of one byte */
} shape;

/* Message i of a shape; its names are in the room given. */
static ms_envelope shape_message(const shape *sh, size_t i, char names[3][MS_KEY_MAX])
{
    static char text[4096];
    ms_type type = (ms_type)(i % 3 == 0 ? MS_T_FINAL : i % 3 == 1 ? MS_T_SYNTHESIS
                                                                    : MS_T_USER_MESSAGE);
    memset(text, 't', sizeof text);
    ms_envelope m = message_of(type, ms_str_n(text, sh->content));
    size_t pad = sh->name > 12 ? sh->name - 12 : 0;
    memset(names[0], 'l', pad);
    snprintf(names[0] + pad, MS_KEY_MAX - pad, "%06zu", i % sh->locations);
    m.location = ms_str_of(names[0]);
    if (sh->agents != 0)
        snprintf(names[1], MS_KEY_MAX, "agent%zu", i / sh->locations % sh->agents);
    if (sh->agents != 0) m.agent_key = ms_str_of(names[1]);
    snprintf(names[2], MS_KEY_MAX, "key%zu", i);
    if (sh->keys) m.key = ms_str_of(names[2]);
    if (!sh->all_fields) return m;
    m.turn_id = m.tool = m.call_id = m.worker = m.task = m.from_worker = MS_STR("f");
    m.summary = m.error_type = m.id = m.source = m.role_name = MS_STR("f");
    return m;
}

/* Do all messages of that shape fit into a buffer of this size? field_bytes: the largest
 * sum of a message's fields. */
static bool shape_fits(const shape *sh, size_t size, size_t *field_bytes)
{
    static char names[3][MS_KEY_MAX];
    buffer b = buffer_new(size);
    ms_mem_desc desc = desc_in(b);
    ms_store *store = NULL;
    bool fits = ms_mem_open(&store, &desc, NULL) == MS_OK;
    *field_bytes = 0;
    for (size_t i = 0; fits && i < sh->messages; i++) {
        ms_envelope m = shape_message(sh, i, names);
        ms_value field[MS_FIELD_COUNT];
        size_t sum = 0;
        message_fields(&m, field);
        for (int f = 1; f < MS_FIELD_COUNT; f++) sum += field[f].text.len;
        if (*field_bytes < sum) *field_bytes = sum;
        fits = ms_append(store, no_str(), &m, NULL, NULL) == MS_OK;
    }
    ms_close(store);
    free(b.bytes);
    return fits;
}

TEST(ms_mem_size_is_enough_and_not_much_more)
{
    static const shape shapes[] = {
        {100, 100, 1, 1, false, 0, false},     {1000, 100, 1, 1, false, 0, false},
        {1000, 40, 10, 8, false, 0, false},    {1000, 1000, 1, 0, false, 0, false},
        {2000, 20, 1, 1, false, 0, false},     {5000, 200, 50, 8, false, 0, false},
        {400, 60, 400, 1, false, 0, false},    {3000, 0, 1, 1, false, 0, false},
        {100, 20, 100, 1, false, 0, false},    {1000, 300, 3, 40, false, 0, false},
        {64, 4096, 2, 2, false, 0, false},     {20000, 100, 100, 8, false, 0, false},
        {1000, 20, 1, 1, true, 0, false},      {300, 20, 100, 1, false, 1000, false},
        {1000, 1, 1, 1, false, 0, true},       {500, 1, 5, 3, true, 1000, true},
    };
    size_t too_little = 0, too_much = 0;
    for (size_t i = 0; i < COUNT(shapes); i++) {
        const shape *sh = &shapes[i];
        size_t fields, low = 0, high = 1;
        while (!shape_fits(sh, high, &fields)) high *= 2;
        size_t asked = ms_mem_size(sh->messages, fields, sh->locations,
                                  sh->locations * sh->agents,
                                  sh->keys ? sh->messages : 0);
        while (low + 64 < high) {
            size_t middle = low + (high - low) / 2, ignored;
            if (shape_fits(sh, middle, &ignored)) high = middle;
            else low = middle;
        }
        printf("%5zu messages of %4zu bytes, %3zu x %2zu%s%s%s: %zu, need %zu: %.2f\n",
               sh->messages, fields, sh->locations, sh->agents, sh->keys ? ", keys" : "",
               sh->name ? ", long names" : "", sh->all_fields ? ", all fields" : "",
               asked, high, (double)asked / (double)high);
        too_little += !shape_fits(sh, asked, &fields);
        too_much += (double)asked > 1.65 * (double)high;
    }
    assert_int_equal(too_little, 0);
    assert_int_equal(too_much, 0);
    assert_true(ms_mem_size(0, 0, 0, 0, 0) >= MS_MEM_MIN);
    assert_true(ms_mem_size(SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX, 0) == SIZE_MAX);
    assert_true(ms_mem_size(SIZE_MAX / 16, 16, 0, 0, 0) == SIZE_MAX);
    assert_true(ms_mem_size(1, SIZE_MAX, 0, 0, 0) == SIZE_MAX);
    assert_true(ms_mem_size(1, 1, SIZE_MAX / 8, 0, 0) == SIZE_MAX);
    assert_true(ms_mem_size(1, 1, 1, 1, SIZE_MAX / 2) == SIZE_MAX);
}


/* ---- every size, every alignment ---- */

/* Opens, fills to the last byte, compares; then in its place, as if the program had ended,
 * and moved to as large a buffer. A repeat of a key needs no room. */
static void one_size(size_t size, uint64_t *rng)
{
    buffer b = buffer_new(size);
    ms_store *store = open_in(b);
    ms_envelope m = small_message(), keyed = m;
    twin t;
    twin_init(&t);
    t.keep_unset_times = true;
    keyed.key = MS_STR("key");
    assert_true(append_both(&t, store, &keyed));
    fill(&t, store, rng);
    for (uint64_t before = SIZE_MAX, room; append_both(&t, store, &m); before = room) {
        room = room_of(store);
        assert_true(room < before && room + ms_mem_image(store).len <= size);
    }
    twin_must_equal(&t, store);
    store = attach_in(b);
    assert_true(append_both(&t, store, &keyed));
    twin_must_equal(&t, store);
    buffer moved = image_in(store, size);
    ms_close(store);
    store = attach_in(moved);
    twin_must_equal(&t, store);
    ms_close(store);
    twin_deinit(&t);
    free(moved.bytes);
    free(b.bytes);
}

TEST(every_size_of_buffer_works)
{
    uint64_t rng = test_seed();
    for (size_t size = MS_MEM_MIN; size <= MS_MEM_MIN + 4096; size += 8)
        one_size(size, &rng);
    for (size_t odd = 1; odd < 8; odd++) one_size(MS_MEM_MIN + 1000 + odd, &rng);
    for (size_t i = 0; i < test_times(300); i++)
        one_size(MS_MEM_MIN + (size_t)test_below(&rng, 1 << (12 + i % 7)), &rng);
    test_tally("buffers of a size filled", 520 + test_times(300));
}

/* One batch that makes as many names as messages, in buffers where it just fits or just
 * does not. */
TEST(a_batch_of_new_names_fits_or_leaves_no_trace)
{
    enum { BATCH = 20 };
    size_t fitted = 0, refused = 0;
    for (size_t size = MS_MEM_MIN; size < 20000; size += 8) {
        buffer b = buffer_new(size);
        ms_store *store = open_in(b);
        ms_envelope batch[BATCH], m = small_message();
        char names[BATCH][8];
        const ms_append_opts opts = {.keep_seq = false};
        twin t;
        twin_init(&t);
        t.keep_unset_times = true;
        for (size_t i = 0; i < BATCH; i++) {
            snprintf(names[i], sizeof names[i], "n%zu", i);
            batch[i] = m;
            batch[i].location = batch[i].agent_key = batch[i].key = ms_str_of(names[i]);
        }
        append_both(&t, store, &m);
        if (twin_append_both(&t, store, batch, BATCH, &opts, true) == MS_OK) fitted++;
        else refused++;
        twin_must_equal(&t, store);
        ms_close(store);
        twin_deinit(&t);
        free(b.bytes);
    }
    assert_true(fitted > 0 && refused > 0);
}

TEST(a_buffer_is_refused_when_it_is_small_or_misaligned)
{
    static const size_t small[] = {0, 1, 8, 64, 1024, MS_MEM_MIN - 8, MS_MEM_MIN - 1};
    buffer b = buffer_new(8192);
    ms_store *store;
    for (size_t i = 0; i < 7 + COUNT(small); i++) {
        ms_mem_desc desc = desc_in(b);
        ms_error err;
        if (i < 7) desc.buffer = b.bytes + 1 + i;
        desc.buffer_size = i < 7 ? 4096 : small[i - 7];
        store = (ms_store *)b.bytes;
        assert_int_equal(ms_mem_open(&store, &desc, &err), MS_E_ARGUMENT);
        assert_null(store);
        assert_true(err.message[0] != '\0');
        store = (ms_store *)b.bytes;
        assert_int_not_equal(ms_mem_attach(&store, &desc, NULL, &err), MS_OK);
        assert_null(store);
    }
    for (size_t i = 0; i < b.size; i++) assert_int_equal((unsigned char)b.bytes[i], 0xA5);
    free(b.bytes);
}


int main(void)
{
    return run_all_tests(NULL, NULL);
}
