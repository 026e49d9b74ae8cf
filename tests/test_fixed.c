/* The arena store in one buffer of the caller: not a single heap call, every size of
 * buffer, what happens when it is full, and images that were moved, cut or damaged.
 */

#define _GNU_SOURCE
#include "stores.h"
#include "twin.h"


/* ---- the heap, watched: every call of the program is seen ---- */

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

static size_t heap_calls;

#if defined(SANITIZED)

int __sanitizer_install_malloc_and_free_hooks(void (*got)(const volatile void *, size_t),
                                              void (*gave)(const volatile void *));

static void on_malloc(const volatile void *ptr, size_t size)
{
    (void)ptr;
    (void)size;
    heap_calls++;
}

static void on_free(const volatile void *ptr)
{
    (void)ptr;
    heap_calls++;
}

static void watch_heap(void)
{
    static bool watched;
    if (!watched) __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    watched = true;
}

#elif defined(__GLIBC__)

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

static void watch_heap(void)
{
}

#else

static void watch_heap(void)
{
}

#endif

/* Does the watch see a call here? Not where another tool has put itself before malloc. */
static bool heap_is_watched(void)
{
    void *(*volatile get)(size_t) = malloc;
    void (*volatile give)(void *) = free;
    watch_heap();
    size_t before = heap_calls;
    give(get(100));
    if (heap_calls != before) return true;
    printf("skipped: heap calls cannot be seen here\n");
    return false;
}


/* ---- helpers ---- */

typedef struct buffer {
    char *bytes;              /* from malloc, exactly as large as said */
    size_t size;
} buffer;

static buffer buffer_new(size_t size)
{
    buffer b = {(char *)malloc(size != 0 ? size : 1), size};
    if (b.bytes == NULL) abort();
    memset(b.bytes, 0xA5, size);
    return b;
}

static ms_mem_desc desc_in(buffer b)
{
    ms_mem_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.buffer = b.bytes;
    desc.buffer_size = b.size;
    desc.entropy = constant_entropy();
    desc.keep_unset_times = true;
    return desc;
}

static ms_store *open_in(buffer b)
{
    ms_mem_desc desc = desc_in(b);
    ms_store *store;
    ms_error err;
    if (ms_mem_open(&store, &desc, &err) != MS_OK)
        fail_msg("open in %zu bytes: %s", b.size, err.message);
    return store;
}

static ms_store *attach_in(buffer b)
{
    ms_mem_desc desc = desc_in(b);
    ms_store *store;
    ms_error err;
    if (ms_mem_attach(&store, &desc, NULL, &err) != MS_OK)
        fail_msg("attach in %zu bytes: %s", b.size, err.message);
    return store;
}

static buffer image_in(const ms_store *store, size_t size)
{
    ms_str image = ms_mem_image(store);
    buffer b = buffer_new(size > image.len ? size : image.len);
    memcpy(b.bytes, image.ptr, image.len);
    return b;
}

/* Appends one message to both; false when the store is full. */
static bool append_both(twin *t, ms_store *store, const ms_envelope *m)
{
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    return twin_append_both(t, store, m, 1, &opts, true) == MS_OK;
}

/* Appends random messages until one does not fit. */
static void fill(twin *t, ms_store *store, uint64_t *rng)
{
    ms_envelope m;
    do m = random_message(rng);
    while (append_both(t, store, &m));
}

static ms_envelope small_message(void)
{
    ms_envelope m = ms_message(MS_T_FINAL, ms_text(""));
    m.location = MS_STR("j");
    return m;
}


/* ---- no heap ---- */

static size_t drain(ms_store *store, const ms_query *q)
{
    ms_cursor it;
    size_t n = 0;
    if (ms_query_open(store, q, &it, NULL) != MS_OK) return SIZE_MAX;
    while (ms_next(&it) != NULL) n++;
    return ms_cursor_close(&it, NULL) == MS_OK ? n : SIZE_MAX;
}

/* The steps of a whole life; each function returns how many went as they should. */

enum { WRITE_STEPS = 5, READ_STEPS = 9, MOVE_STEPS = 4 };

static int write_until_full(ms_store *store, size_t *stored)
{
    ms_envelope m = ms_action(MS_STR("list_tables"), ms_json(MS_STR("{\"a\":1}")),
                              ms_str_of(NULL));
    ms_envelope batch[10];
    ms_append_opts opts;
    int good = 0;
    size_t n = 11;
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("job");
    for (size_t i = 0; i < 10; i++) batch[i] = ms_user_message(ms_text("x"));
    good += ms_append_batch(store, batch, 10, &opts, NULL) == MS_OK;
    m.agent_key = MS_STR("w1");
    m.key = MS_STR("k");
    good += ms_append(store, MS_STR("job"), &m, NULL, NULL) == MS_OK;
    good += ms_append(store, MS_STR("job"), &m, NULL, NULL) == MS_OK;
    m.key = no_str();
    for (; ms_append(store, n % 3 ? MS_STR("job") : MS_STR("other"), &m, NULL, NULL) ==
           MS_OK;)
        n++;
    good += n > 100;
    good += ms_append_batch(store, batch, 10, &opts, NULL) == MS_E_FULL;
    *stored = n;
    return good;
}

static int read_all(ms_store *store, size_t stored, ms_arena *arena)
{
    ms_str team[] = {MS_STR("w1"), MS_STR("w2")};
    ms_query q = query_of(MS_STR("job"), 15);
    ms_list_query list;
    ms_listing listing;
    ms_memory memory;
    ms_cursor it;
    ms_stat stat;
    const ms_msg *msg;
    int good = 0;
    memset(&list, 0, sizeof list);
    q.agent_key = team[0];
    q.agent_keys = team;
    q.n_agent_keys = 2;
    good += drain(store, &q) > 60;
    q.by_time = true;
    q.arena = arena;
    good += drain(store, &q) > 60;
    good += ms_list(store, &list, arena, &listing, NULL) == MS_OK && listing.count == 2;
    list.agents = true;
    good += ms_list(store, &list, arena, &listing, NULL) == MS_OK && listing.count == 2;
    good += ms_get_by_seq(store, 3, NULL, &msg, NULL) == MS_OK;
    good += ms_store_stat(store, &stat, NULL) == MS_OK && stat.messages == stored;
    ms_memory_init(&memory, store, MS_STR("job"), team[0]);
    good += ms_get_history(&memory, &it, NULL) == MS_OK;
    while (ms_next(&it) != NULL) {}
    good += ms_cursor_close(&it, NULL) == MS_OK;
    good += ms_selfcheck(store, NULL) == MS_OK;
    return good;
}

/* The image to a second buffer, and all of it back by a copy. */
static int move_there_and_back(ms_store *store, buffer two, ms_arena *arena)
{
    ms_mem_desc desc = desc_in(two);
    ms_query all = query_of(no_str(), 0);
    ms_str image = ms_mem_image(store);
    ms_store *second;
    int good = 0;
    memcpy(two.bytes, image.ptr, image.len);
    good += ms_mem_attach(&second, &desc, NULL, NULL) == MS_OK;
    good += drain(second, &all) > 100;
    good += ms_mem_reset(store, NULL) == MS_OK;
    good += ms_copy(store, second, NULL, arena, NULL, NULL) == MS_OK;
    ms_close(second);
    return good;
}

static void a_fixed_store_never_calls_the_heap(void **state)
{
    buffer one = buffer_new(65536), two = buffer_new(65536), room = buffer_new(65536);
    ms_mem_desc desc = desc_in(one);
    ms_arena arena;
    ms_store *store;
    size_t stored;
    (void)state;
    test_arena_init_fixed(&arena, room.bytes, room.size);
    bool watched = heap_is_watched();
    size_t before = heap_calls;
    int opened = ms_mem_open(&store, &desc, NULL) == MS_OK;
    int wrote = write_until_full(store, &stored);
    int read = read_all(store, stored, &arena);
    int moved = move_there_and_back(store, two, &arena);
    ms_close(store);
    size_t calls = heap_calls - before;
    assert_int_equal(opened, 1);
    assert_int_equal(wrote, WRITE_STEPS);
    assert_int_equal(read, READ_STEPS);
    assert_int_equal(moved, MOVE_STEPS);
    free(one.bytes);
    free(two.bytes);
    free(room.bytes);
    if (!watched) skip();
    assert_int_equal(calls, 0);
}


/* ---- full ---- */

static uint64_t room_of(ms_store *store)
{
    ms_stat stat;
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    return stat.room;
}

static void a_full_store_is_as_before_and_in_use(void **state)
{
    uint64_t rng = test_seed();
    (void)state;
    for (size_t round = 0; round < test_times(60); round++) {
        buffer b = buffer_new(4096 + 8 * (size_t)test_below(&rng, 8000));
        ms_store *store = open_in(b);
        ms_envelope m = small_message(), keyed = m, batch[20];
        ms_append_opts opts;
        twin t;
        twin_init(&t);
        t.keep_unset_times = true;
        memset(&opts, 0, sizeof opts);
        keyed.key = MS_STR("key");
        append_both(&t, store, &keyed);
        fill(&t, store, &rng);
        twin_must_equal(&t, store);
        uint64_t room = room_of(store), before = room;
        for (; append_both(&t, store, &m); before = room) {
            room = room_of(store);
            assert_true(room < before && room + ms_mem_image(store).len <= b.size);
        }
        for (int i = 0; i < 100; i++) {
            for (size_t k = 0; k < 20; k++) batch[k] = random_message(&rng);
            batch[0].location = MS_STR("new location");
            batch[1].agent_key = MS_STR("new agent");
            assert_int_equal(twin_append_both(&t, store, batch, i % 2 ? 20 : 8, &opts,
                                              true), MS_E_FULL);
        }
        assert_int_equal(room_of(store), room);
        assert_true(append_both(&t, store, &keyed));    /* a repeat needs no room */
        twin_must_equal(&t, store);
        ms_list_query list;
        memset(&list, 0, sizeof list);
        twin_must_list(&t, store, &list);
        list.agents = true;
        twin_must_list(&t, store, &list);
        ms_close(store);
        twin_deinit(&t);
        free(b.bytes);
    }
}

/* What cannot be stored leaves no trace: however often it is tried, with however many
 * names, what fitted before still fits. */
static void failed_appends_do_not_use_up_the_buffer(void **state)
{
    buffer b = buffer_new(16384);
    ms_store *store = open_in(b);
    static char text[20000];
    ms_envelope m = small_message(), large = m, keyed = m;
    (void)state;
    memset(text, 't', sizeof text);
    large.content = ms_text_n(ms_str_n(text, sizeof text));
    keyed.key = MS_STR("key");
    must_append(store, MS_STR("job"), &m);
    must_append(store, MS_STR("job"), &keyed);
    keyed.content = ms_text("other");
    uint64_t room = room_of(store);
    for (int i = 0; i < 1000; i++) {
        char name[24];
        snprintf(name, sizeof name, "name %d", i);
        large.agent_key = keyed.agent_key = ms_str_of(name);
        assert_int_equal(ms_append(store, ms_str_of(name), &large, NULL, NULL),
                         MS_E_FULL);
        assert_int_equal(ms_append(store, MS_STR("job"), &keyed, NULL, NULL),
                         MS_E_KEY_REUSED);
    }
    printf("2000 refused appends took %llu of %llu bytes\n",
           (unsigned long long)(room - room_of(store)), (unsigned long long)room);
    m.content = ms_text_n(ms_str_n(text, 8000));
    assert_int_equal(ms_append(store, MS_STR("job"), &m, NULL, NULL), MS_OK);
    ms_close(store);
    free(b.bytes);
}

/* Two stores take the same messages, one of them between appends that fail: they stay
 * equal to the byte, and one is full when the other is. */
static void a_refused_append_makes_no_difference(void **state)
{
    static char text[16384];
    uint64_t rng = test_seed();
    size_t refused = 0;
    (void)state;
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
static void three_quarters_of_a_buffer_are_payload(void **state)
{
    buffer b = buffer_new(65536);
    ms_store *store = open_in(b);
    char text[100];
    ms_envelope m = ms_observation(ms_text_n(ms_str_n(text, sizeof text)),
                                   ms_str_of(NULL));
    size_t n = 0, fields = sizeof text + 7 + 8 + 7;
    (void)state;
    memset(text, 't', sizeof text);
    m.agent_key = MS_STR("worker-1");
    m.turn_id = MS_STR("turn_12");
    m.has_time = true;
    while (ms_append(store, MS_STR("job_123"), &m, NULL, NULL) == MS_OK) n++;
    double payload = (double)(n * (fields + 8 + strlen("observation"))) / (double)b.size;
    printf("64 KiB hold %zu messages: %.1f %% payload, %.1f %% field bytes alone\n", n,
           100 * payload, 100 * (double)(n * fields) / (double)b.size);
    if (payload < 0.75) fail_msg("%.1f %%", 100 * payload);
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
        twin_fields(&m, field);
        for (int f = 1; f < MS_FIELD_COUNT; f++) sum += field[f].text.len;
        if (*field_bytes < sum) *field_bytes = sum;
        fits = ms_append(store, no_str(), &m, NULL, NULL) == MS_OK;
    }
    ms_close(store);
    free(b.bytes);
    return fits;
}

static void the_size_told_is_enough_and_not_much_more(void **state)
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
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const shape *sh = &shapes[i];
        size_t fields, low = 0, high = 1;
        while (!shape_fits(sh, high, &fields)) high *= 2;
        size_t told = ms_mem_size(sh->messages, fields, sh->locations,
                                  sh->locations * sh->agents,
                                  sh->keys ? sh->messages : 0);
        while (low + 64 < high) {
            size_t middle = low + (high - low) / 2, ignored;
            if (shape_fits(sh, middle, &ignored)) high = middle;
            else low = middle;
        }
        printf("%5zu messages of %4zu bytes, %3zu x %2zu%s%s%s: told %zu, %zu do: %.2f\n",
               sh->messages, fields, sh->locations, sh->agents, sh->keys ? ", keys" : "",
               sh->name ? ", long names" : "", sh->all_fields ? ", all fields" : "", told,
               high, (double)told / (double)high);
        too_little += !shape_fits(sh, told, &fields);
        too_much += (double)told > 1.65 * (double)high;
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

/* Opens, fills, compares, moves the image to as large a buffer, compares again. */
static void one_size(size_t size, uint64_t *rng)
{
    buffer b = buffer_new(size);
    ms_store *store = open_in(b);
    ms_envelope m = small_message();
    twin t;
    twin_init(&t);
    t.keep_unset_times = true;
    assert_true(append_both(&t, store, &m));
    fill(&t, store, rng);
    while (append_both(&t, store, &m)) {}
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

static void every_size_of_buffer_works(void **state)
{
    uint64_t rng = test_seed();
    (void)state;
    for (size_t size = MS_MEM_MIN; size <= MS_MEM_MIN + 4096; size += 8)
        one_size(size, &rng);
    for (size_t odd = 1; odd < 8; odd++) one_size(MS_MEM_MIN + 1000 + odd, &rng);
    for (size_t i = 0; i < test_times(300); i++)
        one_size(MS_MEM_MIN + (size_t)test_below(&rng, 1 << (12 + i % 7)), &rng);
}

/* One batch that makes as many names as messages, in buffers where it just fits or just
 * does not. */
static void a_batch_of_new_names_fits_or_leaves_no_trace(void **state)
{
    enum { BATCH = 20 };
    size_t fitted = 0, refused = 0;
    (void)state;
    for (size_t size = MS_MEM_MIN; size < 20000; size += 8) {
        buffer b = buffer_new(size);
        ms_store *store = open_in(b);
        ms_envelope batch[BATCH], m = small_message();
        char names[BATCH][8];
        ms_append_opts opts;
        twin t;
        twin_init(&t);
        t.keep_unset_times = true;
        memset(&opts, 0, sizeof opts);
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

static void small_and_misaligned_buffers_are_refused(void **state)
{
    static const size_t small[] = {0, 1, 8, 64, 1024, MS_MEM_MIN - 8, MS_MEM_MIN - 1};
    buffer b = buffer_new(8192);
    ms_store *store;
    (void)state;
    for (size_t i = 0; i < 7 + sizeof small / sizeof small[0]; i++) {
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


/* ---- images ---- */

typedef struct pictured {
    buffer image;             /* exactly the bytes of the image */
    size_t *at;               /* offset of each message's record */
    twin t;
} pictured;

/* Copies the image of a store whose twin is p->t, and notes where its records are. */
static void picture_take(pictured *p, ms_store *store, const char *bytes)
{
    p->image = image_in(store, 0);
    p->at = (size_t *)twin_memory(NULL, p->t.count * sizeof p->at[0]);
    for (size_t i = 0; i < p->t.count; i++) {
        const ms_msg *msg;
        ms_get_by_seq(store, p->t.items[i]->seq, NULL, &msg, NULL);
        p->at[i] = (size_t)((const char *)msg - bytes);
        assert_true(p->at[i] + p->t.items[i]->size <= p->image.size);
    }
}

/* A store of about that many bytes, its image and what is in it. */
static pictured picture(size_t size, uint64_t seed)
{
    buffer b = buffer_new(8 * size);
    ms_store *store = open_in(b);
    uint64_t rng = seed;
    pictured p;
    twin_init(&p.t);
    p.t.keep_unset_times = true;
    while (ms_mem_image(store).len < size) {
        ms_envelope m = random_message(&rng);
        if (m.content.text.len > 300) continue;
        if (p.t.count == 3) m.key = MS_STR("k");
        append_both(&p.t, store, &m);
    }
    twin_must_equal(&p.t, store);
    picture_take(&p, store, b.bytes);
    ms_close(store);
    free(b.bytes);
    return p;
}

static void picture_free(pictured *p)
{
    twin_deinit(&p->t);
    free(p->image.bytes);
    free(p->at);
}

static void a_moved_image_goes_on_where_it_was(void **state)
{
    pictured p = picture(20000, test_seed());
    (void)state;
    for (size_t extra = 8192; extra <= 65536; extra *= 2) {
        buffer b = buffer_new(p.image.size + extra);
        ms_envelope m = small_message(), keyed = twin_envelope(p.t.items[3]);
        memcpy(b.bytes, p.image.bytes, p.image.size);
        ms_store *store = attach_in(b);
        uint64_t last = twin_last_seq(&p.t), seq = 0;
        twin_must_equal(&p.t, store);
        assert_int_equal(ms_append(store, no_str(), &keyed, &seq, NULL), MS_OK);
        assert_int_equal(seq, p.t.items[3]->seq);
        keyed.turn_id = MS_STR("another");
        assert_int_equal(ms_append(store, no_str(), &keyed, &seq, NULL), MS_E_KEY_REUSED);
        assert_int_equal(ms_append(store, no_str(), &m, &seq, NULL), MS_OK);
        assert_true(seq > last);
        assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
        ms_close(store);
        free(b.bytes);
    }
    picture_free(&p);
}

/* A program that went on without closing, and one that closed: the buffer is the same. */
static void a_buffer_can_be_attached_where_it_is(void **state)
{
    (void)state;
    for (int closed = 0; closed < 2; closed++) {
        uint64_t rng = test_seed();
        buffer b = buffer_new(30000);
        ms_store *store = open_in(b);
        twin t;
        twin_init(&t);
        t.keep_unset_times = true;
        for (int life = 0; life < 5; life++) {
            for (int i = 0; i < 10; i++) {
                ms_envelope m = random_message(&rng);
                append_both(&t, store, &m);
            }
            if (closed) ms_close(store);
            store = attach_in(b);
            twin_must_equal(&t, store);
        }
        ms_close(store);
        twin_deinit(&t);
        free(b.bytes);
    }
}

/* One step of any kind; what is refused, as the buffer is full or the message hidden, is
 * refused. Ranges end behind the newest message of their location, too. */
static void random_step(ms_store *store, uint64_t *rng)
{
    ms_envelope batch[4];
    ms_stat stat;
    for (size_t i = 0; i < 4; i++) batch[i] = random_message(rng);
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    uint64_t last = 1 + test_below(rng, (unsigned)stat.last_seq + 1);
    uint64_t first = 1 + test_below(rng, (unsigned)last);
    switch (test_below(rng, 7)) {
    case 0: (void)ms_append_batch(store, batch, 4, NULL, NULL); break;
    case 1: (void)ms_hide_range(store, batch[0].location, first, last, NULL, NULL); break;
    case 2: (void)ms_hide(store, last, NULL); break;
    case 3: (void)ms_amend(store, last, &batch[0], NULL); break;
    case 4: (void)ms_note(store, last, MS_STR("k"), ms_text("v"), NULL); break;
    case 5: (void)ms_location_set(store, batch[0].location, MS_STR("{}"), NULL); break;
    default: (void)ms_append(store, no_str(), &batch[0], NULL, NULL); break;
    }
}

/* What was built step by step is built anew from the image: in no more memory, or a
 * buffer that is nearly full could not be attached again. */
static void attaching_takes_no_more_room(void **state)
{
    uint64_t rng = test_seed();
    (void)state;
    for (size_t round = 0; round < test_times(60); round++) {
        buffer b = buffer_new(8192 + 8 * (size_t)test_below(&rng, 3000));
        ms_store *store = open_in(b);
        for (int i = 0; i < 120; i++) {
            random_step(store, &rng);
            if (i % 4 != 3) continue;
            buffer moved = image_in(store, b.size);
            ms_store *again = attach_in(moved);
            assert_true(room_of(again) >= room_of(store));
            ms_close(again);
            free(moved.bytes);
        }
        ms_close(store);
        free(b.bytes);
    }
}

static void an_empty_image_is_an_image(void **state)
{
    buffer b = buffer_new(4096);
    ms_store *store = open_in(b);
    buffer moved = image_in(store, 4096);
    ms_query all = query_of(no_str(), 0);
    ms_envelope m = small_message();
    (void)state;
    ms_close(store);
    store = attach_in(moved);
    assert_int_equal(count_of(store, &all), 0);
    assert_int_equal(must_append(store, no_str(), &m), 1);
    ms_close(store);
    free(b.bytes);
    free(moved.bytes);
}


/* ---- damage ---- */

/* Is record i untouched by damage at [from, to)? */
static bool is_whole(const pictured *p, size_t i, size_t from, size_t to)
{
    return p->at[i] + p->t.items[i]->size <= from || p->at[i] >= to;
}

/* Reads a salvaged store: every message is the twin's of that number, and all records
 * that the damage did not touch are there. Returns how many are lost. */
static size_t must_be_honest(const pictured *p, ms_store *store, size_t from, size_t to)
{
    ms_query all = query_of(no_str(), 0);
    ms_cursor it;
    const ms_msg *msg;
    size_t lost = 0, i = 0;
    assert_int_equal(ms_query_open(store, &all, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        for (; i < p->t.count && p->t.items[i]->seq != ms_seq(msg); i++, lost++)
            if (is_whole(p, i, from, to)) fail_msg("record at %zu is lost", p->at[i]);
        if (i == p->t.count) fail_msg("a message that was never written");
        p->t.items[i]->last = false;    /* what is left of a batch may end elsewhere */
        twin_must_match(p->t.items[i++], msg, "salvaged");
    }
    for (; i < p->t.count; i++, lost++)
        if (is_whole(p, i, from, to)) fail_msg("record at %zu is lost", p->at[i]);
    ms_cursor_close(&it, NULL);
    return lost;
}

/* The buffer holds a damaged image: strict attaching refuses it and leaves it alone,
 * salvage loses at most what was touched. */
static void must_notice(const pictured *p, buffer b, size_t image, size_t from, size_t to)
{
    ms_mem_desc desc = desc_in(b);
    ms_store *store = NULL;
    uint64_t damaged = 0;
    ms_error err;
    char *before = (char *)twin_memory(NULL, image);
    memcpy(before, b.bytes, image);
    ms_result result = ms_mem_attach(&store, &desc, &damaged, &err);
    if (result == MS_OK) {    /* reserved bytes of the head carry nothing */
        if (from < 40 || to > 64 || must_be_honest(p, store, 0, 0) != 0)
            fail_msg("bytes %zu to %zu: not noticed", from, to);
        ms_close(store);
        free(before);
        return;
    }
    assert_null(store);
    assert_int_equal(err.code, result);
    assert_memory_equal(b.bytes, before, image);
    desc.salvage = true;
    result = ms_mem_attach(&store, &desc, &damaged, &err);
    if (result == MS_OK) {
        must_be_honest(p, store, from, to);
        if (damaged == 0) fail_msg("byte %zu: salvage says nothing", from);
        if (ms_selfcheck(store, &err) != MS_OK)
            fail_msg("byte %zu: %s", from, err.message);
    } else {
        assert_null(store);
        assert_memory_equal(b.bytes, before, image);
    }
    ms_close(store);
    free(before);
}

static bool sampled(uint64_t *rng)
{
    return test_below(rng, 100) < test_scale();
}

/* A single bit, and whole bytes set to 00 and FF. */
static void damage_at_any_byte_is_noticed(void **state)
{
    pictured p = picture(4096, test_seed());
    buffer b = buffer_new(p.image.size + 8192);
    uint64_t rng = test_seed();
    (void)state;
    for (size_t at = 0; at < p.image.size; at++) {
        for (int change = 0; change < 10; change++) {
            unsigned char byte = (unsigned char)p.image.bytes[at];
            unsigned bit = change < 8 ? 1u << change : 0;
            unsigned char bad = (unsigned char)(byte ^ bit);
            if (change >= 8) bad = change == 8 ? 0x00 : 0xff;
            if (bad == byte || !sampled(&rng)) continue;
            memcpy(b.bytes, p.image.bytes, p.image.size);
            memset(b.bytes + p.image.size, 0xA5, 8192);
            b.bytes[at] = (char)bad;
            must_notice(&p, b, p.image.size, at, at + 1);
        }
    }
    picture_free(&p);
    free(b.bytes);
}

/* Runs of bytes lost: zeroed, or replaced by others of the same image. */
static void damage_over_several_records_costs_only_those(void **state)
{
    pictured p = picture(16384, test_seed() + 1);
    buffer b = buffer_new(p.image.size + 32768);
    uint64_t rng = test_seed();
    (void)state;
    for (size_t i = 0; i < test_times(3000); i++) {
        size_t len = 1 + (size_t)test_below(&rng, i % 2 ? 64 : 4096);
        size_t from = (size_t)test_below(&rng, p.image.size - len);
        size_t other = (size_t)test_below(&rng, p.image.size - len) / 8 * 8;
        memcpy(b.bytes, p.image.bytes, p.image.size);
        if (i % 3 == 0) memset(b.bytes + from, 0, len);
        else if (i % 3 == 1) test_fill(&rng, b.bytes + from, len);
        else memcpy(b.bytes + from / 8 * 8, p.image.bytes + other, len);
        if (memcmp(b.bytes, p.image.bytes, p.image.size) == 0) continue;
        must_notice(&p, b, p.image.size, from / 8 * 8, from + len);
    }
    picture_free(&p);
    free(b.bytes);
}

/* An image cut anywhere: the buffer ends there, or zeros or other bytes follow. */
static void an_image_cut_anywhere_is_noticed(void **state)
{
    pictured p = picture(4096, test_seed());
    uint64_t rng = test_seed();
    (void)state;
    for (size_t len = 0; len < p.image.size; len++) {
        for (int behind = 0; behind < 3; behind++) {
            if (!sampled(&rng)) continue;
            buffer b = buffer_new(behind != 0 ? p.image.size + 8192 : len);
            memcpy(b.bytes, p.image.bytes, len);
            if (behind == 1) memset(b.bytes + len, 0, b.size - len);
            if (b.size < p.image.size ||
                memcmp(b.bytes, p.image.bytes, p.image.size) != 0)
                must_notice(&p, b, b.size < p.image.size ? b.size : p.image.size, len,
                            p.image.size);
            free(b.bytes);
        }
    }
    picture_free(&p);
}

/* Records in the text of a message, at every place on the grid of 8 bytes: when the
 * header of the message around them is damaged, they do not turn up. */
static void records_inside_a_message_are_not_taken_for_records(void **state)
{
    buffer inner = buffer_new(8192), outer = buffer_new(65536);
    ms_store *store = NULL;
    ms_str records = no_str();
    pictured p;
    (void)state;
    for (unsigned i = 0;; i++) {    /* until the two checks happen to be text */
        char text[16];
        ms_close(store);
        store = open_in(inner);
        snprintf(text, sizeof text, "%u", i);
        ms_envelope m = ms_message(MS_T_FINAL, ms_text(text));
        m.has_time = true;
        must_append(store, MS_STR("j"), &m);
        ms_str image = ms_mem_image(store);
        records = ms_str_n(image.ptr + 64, image.len - 64);
        if (ms_utf8_check(records, NULL)) break;
    }
    ms_store *around = open_in(outer);
    twin_init(&p.t);
    p.t.keep_unset_times = true;
    for (size_t i = 0; i < 24; i++) {
        char text[400];
        memset(text, ' ', sizeof text);
        for (size_t at = i % 8; at + records.len < sizeof text; at += 96)
            memcpy(text + at, records.ptr, records.len);
        ms_envelope m = ms_message(MS_T_FINAL, ms_text_n(ms_str_n(text, sizeof text)));
        m.location = MS_STR("j");
        append_both(&p.t, around, &m);
    }
    twin_must_equal(&p.t, around);
    picture_take(&p, around, outer.bytes);
    ms_close(around);
    ms_close(store);
    for (size_t i = 0; i < p.t.count; i++) {
        memcpy(outer.bytes, p.image.bytes, p.image.size);
        outer.bytes[p.at[i] + 8] ^= 1;
        must_notice(&p, outer, p.image.size, p.at[i] + 8, p.at[i] + 9);
    }
    picture_free(&p);
    free(inner.bytes);
    free(outer.bytes);
}

/* The buffer held more before it was reset, or opened anew. With the end of the image
 * damaged, salvage reads on behind it: none of that comes back. */
static void what_was_forgotten_does_not_come_back(void **state)
{
    (void)state;
    for (int reopened = 0; reopened < 2; reopened++) {
        for (size_t kept = 0; kept < 6; kept++) {
            buffer b = buffer_new(16384);
            ms_store *store = open_in(b);
            ms_envelope m = small_message();
            ms_mem_desc desc = desc_in(b);
            ms_query all = query_of(no_str(), 0);
            for (int i = 0; i < 9; i++) must_append(store, no_str(), &m);
            if (reopened) ms_close(store);
            if (reopened) store = open_in(b);
            else assert_int_equal(ms_mem_reset(store, NULL), MS_OK);
            for (size_t i = 0; i < kept; i++) must_append(store, no_str(), &m);
            ms_close(store);
            b.bytes[36] ^= 1;
            desc.salvage = true;
            assert_int_equal(ms_mem_attach(&store, &desc, NULL, NULL), MS_OK);
            if (count_of(store, &all) != kept)
                fail_msg("%zu messages instead of %zu", count_of(store, &all), kept);
            ms_close(store);
            free(b.bytes);
        }
    }
}

/* The end of the image and a record are damaged: the others are kept. */
static void salvage_without_the_end_keeps_what_is_whole(void **state)
{
    pictured p = picture(6000, test_seed() + 3);
    buffer b = buffer_new(p.image.size + 16384);
    (void)state;
    for (size_t i = 0; i < 10 * p.t.count; i++) {
        size_t n = i / 10, at = p.at[n], len = (size_t)p.t.items[n]->size;
        ms_mem_desc desc = desc_in(b);
        ms_store *store;
        uint64_t damaged = 0;
        memcpy(b.bytes, p.image.bytes, p.image.size);
        memset(b.bytes + p.image.size, i % 2 ? 0 : 0xA5, 16384);
        b.bytes[24 + i % 16] ^= 0x10;
        if (i % 10 < 4) memset(b.bytes + at, 0, i % 10 < 2 ? 4 : 32);
        else if (i % 10 < 6) memset(b.bytes + at, 0, len);
        else b.bytes[at + i * 7 % len] ^= 0x40;
        desc.salvage = true;
        assert_int_equal(ms_mem_attach(&store, &desc, &damaged, NULL), MS_OK);
        size_t lost = must_be_honest(&p, store, at, at + len);
        bool is_last = n + 1 == p.t.count;    /* it may look as free as what follows */
        if (lost != 1 || damaged < (is_last ? 1 : 2) || damaged > 2)
            fail_msg("record %zu: %zu lost, %llu damaged", n, lost,
                     (unsigned long long)damaged);
        ms_close(store);
    }
    picture_free(&p);
    free(b.bytes);
}

/* The end of the image and the last of a batch are damaged: the batch is given up as a
 * whole, or, in a buffer without room for the index, nothing is changed. */
static void salvage_gives_up_a_torn_batch_or_changes_nothing(void **state)
{
    enum { SINGLE = 60, BATCH = 5 }; /* more than the least buffer */
    size_t done = 0, full = 0;
    (void)state;
    for (size_t extra = 0; extra < 4096; extra += 8) {
        buffer b = buffer_new(32768);
        ms_store *store = open_in(b);
        ms_envelope batch[BATCH], m = small_message();
        const ms_msg *msg;
        for (int i = 0; i < SINGLE; i++) must_append(store, no_str(), &m);
        for (int i = 0; i < BATCH; i++) batch[i] = m;
        assert_int_equal(ms_append_batch(store, batch, BATCH, NULL, NULL), MS_OK);
        assert_int_equal(ms_get_by_seq(store, SINGLE + BATCH, NULL, &msg, NULL), MS_OK);
        size_t whole = (size_t)((const char *)msg - b.bytes);
        b.bytes[whole + 9] ^= 1;
        b.bytes[36] ^= 1;
        size_t image = ms_mem_image(store).len;
        buffer tight = buffer_new(image + extra);
        ms_mem_desc desc = desc_in(tight);
        ms_query all = query_of(no_str(), 0);
        memcpy(tight.bytes, b.bytes, image);
        ms_close(store);
        desc.salvage = true;
        ms_result got = ms_mem_attach(&store, &desc, NULL, NULL);
        if (got == MS_OK) {
            assert_int_equal(count_of(store, &all), SINGLE);
            ms_close(store);
            tight.bytes[36] ^= 1;    /* what was given up does not come back */
            assert_int_equal(ms_mem_attach(&store, &desc, NULL, NULL), MS_OK);
            assert_int_equal(count_of(store, &all), SINGLE);
            done++;
        } else {
            assert_memory_equal(tight.bytes, b.bytes, whole);
            full += got == MS_E_FULL;
        }
        ms_close(store);
        free(b.bytes);
        free(tight.bytes);
    }
    assert_true(done > 0 && full > 0);
}

/* What salvage left is a store like any other: it takes messages, and its own image can
 * be salvaged again. */
static void a_salvaged_store_goes_on(void **state)
{
    pictured p = picture(8192, test_seed());
    uint64_t rng = test_seed();
    (void)state;
    for (size_t round = 0; round < test_times(300); round++) {
        buffer b = buffer_new(p.image.size + 32768);
        ms_mem_desc desc = desc_in(b);
        ms_store *store, *again;
        ms_envelope m = small_message();
        size_t at = p.at[test_below(&rng, p.t.count)] + (size_t)test_below(&rng, 40);
        uint64_t damaged = 0;
        ms_query all = query_of(no_str(), 0);
        memcpy(b.bytes, p.image.bytes, p.image.size);
        b.bytes[at] ^= 4;
        desc.salvage = true;
        assert_int_equal(ms_mem_attach(&store, &desc, &damaged, NULL), MS_OK);
        assert_int_equal(damaged, 1);
        assert_int_equal(count_of(store, &all), p.t.count - 1);
        uint64_t seq = must_append(store, no_str(), &m);
        buffer moved = image_in(store, b.size);
        ms_close(store);
        desc.buffer = moved.bytes;
        assert_int_equal(ms_mem_attach(&again, &desc, &damaged, NULL), MS_OK);
        assert_int_equal(damaged, 1);
        assert_int_equal(count_of(again, &all), p.t.count);
        assert_true(must_append(again, no_str(), &m) > seq);
        assert_int_equal(ms_selfcheck(again, NULL), MS_OK);
        ms_close(again);
        free(b.bytes);
        free(moved.bytes);
    }
    picture_free(&p);
}

/* Message number seq is visible and says this. */
static void must_be_shown(ms_store *store, uint64_t seq, const char *text)
{
    const ms_msg *msg;
    ms_result got = ms_get_by_seq(store, seq, NULL, &msg, NULL);
    if (got != MS_OK)
        fail_msg("message %llu: %s", (unsigned long long)seq, ms_result_text(got));
    assert_true(ms_str_equal(ms_content(msg).text, ms_str_of(text)));
}

/* The newest messages were hidden, amended or noted, then they are lost, and only what
 * changed them is whole: it says nothing of the messages that come after salvage. */
static void changes_of_lost_messages_change_no_new_ones(void **state)
{
    enum { KEPT = 3, LOST = 2, ALL = KEPT + LOST, NEW = 4, CHANGES = 5 };
    (void)state;
    for (int change = 0; change < CHANGES; change++) {
        buffer b = buffer_new(16384);
        ms_mem_desc desc = desc_in(b);
        ms_store *store = open_in(b);
        ms_envelope old = small_message(), other = small_message(), m = small_message();
        const ms_msg *msg;
        ms_stat stat;
        uint64_t damaged, last = ALL;
        ms_error err;
        old.content = ms_text("old");
        other.content = ms_text("other");
        m.content = ms_text("new");
        for (int i = 0; i < ALL; i++) must_append(store, no_str(), &old);
        ms_result got =
            change < 2 ? ms_hide_range(store, old.location, 2 + 2 * (uint64_t)change, ALL,
                                       NULL, NULL)
            : change == 2 ? ms_hide(store, ALL, NULL)
            : change == 3 ? ms_amend(store, ALL, &other, NULL)
                          : ms_note(store, ALL, MS_STR("k"), ms_text("n"), NULL);
        assert_int_equal(got, MS_OK);
        assert_int_equal(ms_get_by_seq(store, 1, NULL, &msg, NULL), MS_OK);
        size_t size = (ms_size(msg) + 7) / 8 * 8;
        buffer moved = image_in(store, b.size);
        for (size_t i = KEPT; i < ALL; i++) moved.bytes[64 + i * size + 8] ^= 1;
        ms_close(store);
        desc.buffer = moved.bytes;
        desc.salvage = true;
        for (int round = 0; round < 2; round++) { /* what is then written is kept, too */
            assert_int_equal(ms_mem_attach(&store, &desc, &damaged, NULL), MS_OK);
            assert_int_not_equal(damaged, 0);
            for (uint64_t seq = ALL + 1; seq <= last; seq++)
                must_be_shown(store, seq, "new");
            for (int i = 0; i < NEW; i++) {
                assert_int_equal(must_append(store, no_str(), &m), ++last);
                must_be_shown(store, last, "new");
            }
            assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
            assert_int_equal(stat.hidden, change == 0 ? KEPT - 1 : 0);
            assert_int_equal(stat.messages + stat.hidden, KEPT + last - ALL);
            assert_int_equal(stat.last_seq, last);
            if (ms_selfcheck(store, &err) != MS_OK)
                fail_msg("change %d: %s", change, err.message);
            ms_close(store);
        }
        free(b.bytes);
        free(moved.bytes);
    }
}

/* One of n messages is damaged: reading gives all others, and says so. */
static void all_but_one_are_read(ms_store *store, size_t n)
{
    ms_query q = query_of(MS_STR("j"), 0);
    ms_copy_report report;
    ms_keep count_only;
    ms_cursor it;
    size_t read = 0;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while (ms_next(&it) != NULL) read++;
    assert_int_equal(read, n - 1);
    assert_int_equal(it.damaged, 1);
    assert_int_equal(ms_cursor_close(&it, NULL), MS_E_DAMAGED);
    memset(&count_only, 0, sizeof count_only);
    count_only.dry_run = true;
    ms_copy(NULL, store, &count_only, NULL, &report, NULL);
    assert_int_equal(report.copied, n - 1);
    assert_int_equal(report.damaged, 1);
    assert_int_equal(ms_selfcheck(store, NULL), MS_E_DAMAGED);
}

/* ... by number, and behind and before any number; none is left out without a word. */
static void all_but_one_are_found(ms_store *store, size_t n, size_t victim, size_t byte)
{
    for (uint64_t seq = 1; seq <= n; seq++) {
        const ms_msg *msg;
        ms_query q = query_of(MS_STR("j"), 0);
        ms_result got = ms_get_by_seq(store, seq, NULL, &msg, NULL);
        if ((got == MS_OK) == (seq == victim))
            fail_msg("byte %zu of %zu: message %llu: %s", byte, victim,
                     (unsigned long long)seq, ms_result_text(got));
        for (int before = 0; before < 2; before++) {
            ms_cursor it;
            size_t read = 0, want = before ? seq - 1 : n - seq;
            q.after_seq = before ? 0 : seq;
            q.before_seq = before ? seq : 0;
            want -= before ? victim < seq : victim > seq;
            assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
            while (ms_next(&it) != NULL) read++;
            ms_cursor_close(&it, NULL);
            if (read != want)
                fail_msg("byte %zu of %zu: %zu messages %s %llu", byte, victim, read,
                         before ? "before" : "after", (unsigned long long)seq);
        }
    }
}

/* A write from outside into the header of one record, while the store is open: that
 * record is skipped and counted, all others are found as before. */
static void a_stray_write_costs_one_record(void **state)
{
    enum { MESSAGES = 150 };
    uint64_t rng = test_seed();
    (void)state;
    for (size_t i = 0; i < 32 + test_times(400); i++) {
        size_t byte = i < 32 ? i : 8 + i % 8;
        size_t victim = i < 32 ? 100 : 1 + (size_t)test_below(&rng, MESSAGES);
        buffer b = buffer_new(65536);
        ms_store *store = open_in(b);
        ms_envelope m = small_message();
        const ms_msg *msg;
        for (size_t k = 0; k < MESSAGES; k++) must_append(store, no_str(), &m);
        assert_int_equal(ms_get_by_seq(store, victim, NULL, &msg, NULL), MS_OK);
        b.bytes[(size_t)((const char *)msg - b.bytes) + byte] ^= 0x40;
        all_but_one_are_read(store, MESSAGES);
        all_but_one_are_found(store, MESSAGES, victim, byte);
        ms_close(store);
        free(b.bytes);
    }
}

/* The walk over an open store finds a changed byte anywhere in a record, and trusts none
 * of them before. */
static void selfcheck_finds_a_stray_write_anywhere(void **state)
{
    pictured p = picture(4096, test_seed());
    uint64_t rng = test_seed();
    (void)state;
    for (size_t i = 0; i < p.t.count; i++) {
        for (size_t at = p.at[i]; at < p.at[i] + p.t.items[i]->size; at++) {
            if (!sampled(&rng)) continue;
            buffer b = buffer_new(p.image.size + 16384);
            memcpy(b.bytes, p.image.bytes, p.image.size);
            ms_store *store = attach_in(b);
            assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
            b.bytes[at] ^= (char)(1u << at % 8);
            if (at % 3 == 0) b.bytes[at] = (char)(b.bytes[at] ^ 0xff);
            if (b.bytes[at] != p.image.bytes[at])
                assert_int_not_equal(ms_selfcheck(store, NULL), MS_OK);
            ms_close(store);
            free(b.bytes);
        }
    }
    picture_free(&p);
}

/* CRC32C; crc is 0, or that of what comes before. */
static uint32_t crc32c_bitwise(uint32_t crc, const unsigned char *bytes, size_t n)
{
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static uint32_t load32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

static void store32(unsigned char *p, uint32_t word)
{
    for (size_t i = 0; i < 4; i++) p[i] = (unsigned char)(word >> 8 * i);
}

/* Puts the checks right that the format asks for: of the image's end, and of a record. */
static void reseal(unsigned char *image, size_t size, size_t at)
{
    unsigned char where[16] = {0}, *r = image + at;
    size_t padded = ((size_t)load32(r) + 7) / 8 * 8;
    store32(image + 36, crc32c_bitwise(0, image + 16, 16));
    if (padded <= 32 || padded > size - at) return;
    memcpy(where, image + 16, 8);
    for (size_t i = 0; i < 8; i++) where[8 + i] = (unsigned char)((uint64_t)at >> 8 * i);
    store32(r + 24, crc32c_bitwise(0, r + 32, padded - 32));
    store32(r + 28, crc32c_bitwise(crc32c_bitwise(0, where, 16), r, 28));
}

/* Every field lies inside its message, which is as sound as one that was appended. */
static void must_be_sound(ms_store *store)
{
    ms_query all = query_of(no_str(), 0);
    ms_cursor it;
    const ms_msg *msg;
    ms_error err;
    uint64_t last = 0;
    assert_int_equal(ms_query_open(store, &all, &it, NULL), MS_OK);
    for (; (msg = ms_next(&it)) != NULL; last = ms_seq(msg)) {
        ms_envelope m = ms_envelope_of(msg);
        ms_value field[MS_FIELD_COUNT];
        twin_fields(&m, field);
        for (int f = 1; f < MS_FIELD_COUNT; f++) {
            const char *p = field[f].text.ptr, *end = (const char *)msg + ms_size(msg);
            if (p == NULL) continue;
            assert_true(p > (const char *)msg && p <= end);
            assert_true(field[f].text.len <= (size_t)(end - p));
        }
        if (test_envelope_check(&m, &err) != MS_OK) fail_msg("unsound: %s", err.message);
        assert_true(m.location.len > 0);
        assert_true(ms_seq(msg) > last);
    }
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    if (ms_selfcheck(store, &err) != MS_OK) fail_msg("selfcheck: %s", err.message);
}

/* Images changed by somebody who puts the checks right: what is wrong inside a record is
 * found by looking at it, or does no harm. */
static void resealed_images_are_refused_or_sound(void **state)
{
    pictured p = picture(4096, test_seed() + 2);
    buffer b = buffer_new(p.image.size + 8192);
    uint64_t rng = test_seed();
    size_t taken = 0, times = test_times(30000);
    (void)state;
    for (size_t i = 0; i < times; i++) {
        ms_mem_desc desc = desc_in(b);
        ms_store *store;
        unsigned char *image = (unsigned char *)b.bytes;
        size_t n = (size_t)test_below(&rng, p.t.count), at = p.at[n];
        size_t reach = test_one_in(&rng, 2) ? 64 : (size_t)p.t.items[n]->size;
        memcpy(image, p.image.bytes, p.image.size);
        for (size_t k = 0; k <= test_below(&rng, 3); k++) {
            unsigned char *byte = image + at + test_below(&rng, reach);
            if (byte >= image + p.image.size) continue;
            if (test_one_in(&rng, 2)) *byte ^= (unsigned char)(1u << test_below(&rng, 8));
            else *byte = (unsigned char)test_random(&rng);
        }
        if (test_one_in(&rng, 20)) image[24 + test_below(&rng, 2)] ^= 8;
        reseal(image, p.image.size, at);
        desc.salvage = test_one_in(&rng, 2);
        if (ms_mem_attach(&store, &desc, NULL, NULL) != MS_OK) continue;
        must_be_sound(store);
        ms_envelope m = small_message();
        ms_append(store, no_str(), &m, NULL, NULL);
        must_be_sound(store);
        ms_close(store);
        taken++;
    }
    printf("%zu were taken, all sound\n", taken);
    test_tally("images changed and resealed", times);
    assert_true(taken > times / 100);
    picture_free(&p);
    free(b.bytes);
}

/* Somebody makes a HIDE reach to numbers that were given after it, and to some that were
 * not: it hides what stands before it. */
static void a_hide_hides_nothing_behind_it(void **state)
{
    buffer b = buffer_new(16384);
    ms_store *store = open_in(b);
    ms_envelope m = small_message();
    ms_query raw = query_of(no_str(), 0), all = query_of(no_str(), 0);
    ms_cursor it;
    const ms_msg *msg;
    size_t at = 0;
    (void)state;
    for (int i = 0; i < 3; i++) must_append(store, no_str(), &m);
    assert_int_equal(ms_hide_range(store, m.location, 2, 3, NULL, NULL), MS_OK);
    must_append(store, no_str(), &m);
    raw.raw = MS_RAW_ALL;
    assert_int_equal(ms_query_open(store, &raw, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL)
        if (ms_kind_of(msg) == MS_KIND_HIDE) at = (size_t)((const char *)msg - b.bytes);
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    buffer moved = image_in(store, b.size);
    ms_close(store);
    char *last = (char *)memmem(moved.bytes + at, 128, "\"last\":3", 8);
    assert_non_null(last);
    last[7] = '9';
    reseal((unsigned char *)moved.bytes, moved.size, at);
    store = attach_in(moved);
    must_be_sound(store);
    assert_int_equal(count_of(store, &all), 2);
    assert_int_equal(must_append(store, no_str(), &m), 10);
    must_be_sound(store);
    assert_int_equal(count_of(store, &all), 3);
    ms_close(store);
    free(b.bytes);
    free(moved.bytes);
}

/* Its head is as the format says, only the version is another one; the check is right. */
static void an_image_of_a_newer_version_is_foreign(void **state)
{
    pictured p = picture(2048, test_seed());
    buffer b = buffer_new(p.image.size + 8192);
    (void)state;
    for (unsigned version = 0; version < 4; version++) {
        memcpy(b.bytes, p.image.bytes, p.image.size);
        unsigned char *head = (unsigned char *)b.bytes;
        assert_int_equal(load32(head + 32), crc32c_bitwise(0, head, 24));
        head[8] = (unsigned char)version;
        store32(head + 32, crc32c_bitwise(0, head, 24));
        for (int salvage = 0; salvage < 2; salvage++) {
            ms_mem_desc desc = desc_in(b);
            ms_store *store;
            ms_error err;
            desc.salvage = salvage;
            ms_result got = ms_mem_attach(&store, &desc, NULL, &err);
            assert_int_equal(got, version == 1 ? MS_OK : MS_E_FOREIGN);
            if (version != 1) assert_non_null(strstr(err.message, "version"));
            ms_close(store);
        }
    }
    picture_free(&p);
    free(b.bytes);
}

static void what_is_no_image_is_foreign(void **state)
{
    static const char *const heads[] = {"", "SQLite format 3", "{\"type\":\"task\"}\n",
                                        "\x7f\x45LF", "MSGSTORE", "msgstore"};
    buffer b = buffer_new(8192);
    uint64_t rng = test_seed();
    (void)state;
    for (size_t i = 0; i < 6 + test_times(1000); i++) {
        ms_mem_desc desc = desc_in(b);
        ms_store *store = NULL;
        uint64_t damaged = 0;
        if (i < 6) {
            memset(b.bytes, 0, b.size);
            memcpy(b.bytes, heads[i], strlen(heads[i]));
        } else {
            test_fill(&rng, b.bytes, b.size);
        }
        desc.salvage = i % 2 == 1;
        assert_int_equal(ms_mem_attach(&store, &desc, &damaged, NULL), MS_E_FOREIGN);
        assert_null(store);
    }
    ms_mem_desc desc = desc_in(b);
    ms_store *store = NULL;
    desc.buffer = NULL;
    assert_int_equal(ms_mem_attach(&store, &desc, NULL, NULL), MS_E_ARGUMENT);
    assert_int_equal(ms_mem_attach(&store, NULL, NULL, NULL), MS_E_ARGUMENT);
    free(b.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fixed_store_never_calls_the_heap),
        cmocka_unit_test(a_full_store_is_as_before_and_in_use),
        cmocka_unit_test(failed_appends_do_not_use_up_the_buffer),
        cmocka_unit_test(a_refused_append_makes_no_difference),
        cmocka_unit_test(three_quarters_of_a_buffer_are_payload),
        cmocka_unit_test(the_size_told_is_enough_and_not_much_more),
        cmocka_unit_test(every_size_of_buffer_works),
        cmocka_unit_test(a_batch_of_new_names_fits_or_leaves_no_trace),
        cmocka_unit_test(small_and_misaligned_buffers_are_refused),
        cmocka_unit_test(a_moved_image_goes_on_where_it_was),
        cmocka_unit_test(a_buffer_can_be_attached_where_it_is),
        cmocka_unit_test(attaching_takes_no_more_room),
        cmocka_unit_test(an_empty_image_is_an_image),
        cmocka_unit_test(damage_at_any_byte_is_noticed),
        cmocka_unit_test(damage_over_several_records_costs_only_those),
        cmocka_unit_test(an_image_cut_anywhere_is_noticed),
        cmocka_unit_test(records_inside_a_message_are_not_taken_for_records),
        cmocka_unit_test(what_was_forgotten_does_not_come_back),
        cmocka_unit_test(salvage_without_the_end_keeps_what_is_whole),
        cmocka_unit_test(salvage_gives_up_a_torn_batch_or_changes_nothing),
        cmocka_unit_test(a_salvaged_store_goes_on),
        cmocka_unit_test(changes_of_lost_messages_change_no_new_ones),
        cmocka_unit_test(a_stray_write_costs_one_record),
        cmocka_unit_test(selfcheck_finds_a_stray_write_anywhere),
        cmocka_unit_test(resealed_images_are_refused_or_sound),
        cmocka_unit_test(a_hide_hides_nothing_behind_it),
        cmocka_unit_test(an_image_of_a_newer_version_is_foreign),
        cmocka_unit_test(what_is_no_image_is_foreign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
