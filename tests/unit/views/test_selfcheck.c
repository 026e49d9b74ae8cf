/* ms_selfcheck: does it find what it promises to find? Stores are broken on purpose, one
 * thing at a time. It has to return MS_E_DAMAGED and name the invariant; put right again,
 * the store has to pass.
 *
 *   - Arena store: each list that there is, with room that is still reserved, with a
 *     posting that leads back, after the end or to a record of elsewhere; chunks, order,
 *     and all the numbers that are counted twice.
 *   - Log: each number of a segment index, its arrays, a summary without its lists, an
 *     end that is durable before it is written.
 *   - A store of the caller's own, whose cursor returns what no store takes.
 *
 * Left out: what other tests break in files (test_corrupt, test_hostile), and allocations
 * that fail (test_fault_alloc).
 */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"
#include "log_internals.h"

static unsigned breaks; /* that were found */

static void must_be_sound(ms_store *store, const char *what)
{
    ms_error err;
    if (ms_selfcheck(store, &err) != MS_OK) fail_msg("%s: %s", what, err.message);
}

static void must_be_broken(ms_store *store, const char *what, const char *says)
{
    ms_error err;
    memset(&err, 0, sizeof err);
    ms_result code = ms_selfcheck(store, &err);
    if (code != MS_E_DAMAGED || strstr(err.message, says) == NULL)
        fail_msg("%s: '%s' was expected, the answer was %s: %s", what, says,
                 ms_result_text(code), err.message);
    breaks++;
}

/* One number is another one, for the time of a check. */
static void with64(ms_store *store, uint64_t *p, uint64_t value, const char *what,
                   const char *says)
{
    uint64_t kept = *p;
    *p = value;
    must_be_broken(store, what, says);
    *p = kept;
    must_be_sound(store, what);
}

static void with32(ms_store *store, uint32_t *p, uint32_t value, const char *what,
                   const char *says)
{
    uint32_t kept = *p;
    *p = value;
    must_be_broken(store, what, says);
    *p = kept;
    must_be_sound(store, what);
}

/* The same of some bytes: those that the mask has are flipped. */
static void with_bytes(ms_store *store, unsigned char *p, size_t n, unsigned char mask,
                       const char *what, const char *says)
{
    for (size_t i = 0; i < n; i++) p[i] ^= mask;
    must_be_broken(store, what, says);
    for (size_t i = 0; i < n; i++) p[i] ^= mask;
    must_be_sound(store, what);
}


/* ---- an arena store with something in each of its lists ---- */

static ms_store *store;
static ms__mem *mem;

enum { ROUNDS = 24, LISTS = 10 };

static uint64_t put(const char *place, ms_envelope m, const char *agent)
{
    uint64_t seq;
    m.agent_key = ms_str_of(agent);
    assert_int_equal(ms_append(store, ms_str_of(place), &m, &seq, NULL), MS_OK);
    return seq;
}

/* Changes of each kind in one place. */
static void change_place(const char *place, uint64_t seq)
{
    ms_envelope better = ms_user_message(ms_text("better words"));
    ms_envelope begun = ms_assistant_message(ms_text(""));
    ms_stream stream;
    assert_int_equal(ms_amend(store, seq, &better, NULL), MS_OK);
    assert_int_equal(ms_note(store, seq, MS_STR("stars"), ms_text("5"), NULL), MS_OK);
    assert_int_equal(ms_hide(store, seq + 1, NULL), MS_OK);
    assert_int_equal(ms_location_set(store, ms_str_of(place), MS_STR("{\"a\":1}"), NULL),
                     MS_OK);
    assert_int_equal(
        ms_stream_begin(&stream, store, ms_str_of(place), &begun, NULL, NULL), MS_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ms_stream_feed(&stream, MS_STR("some text"), NULL), MS_OK);
        assert_int_equal(test_stream_flush(&stream, NULL), MS_OK);
    }
}

static int make_store(void **state)
{
    uint64_t room = 0, hall = 0;
    assert_int_equal(ms_mem_open(&store, NULL, NULL), MS_OK);
    mem = ms__mem_of(store);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t seq = put("room", ms_user_message(ms_text("hello")), "ann");
        if (i == 0) room = seq;
        put("room", ms_message(MS_T_TASK, ms_text("look")), "ann");
        put("room", ms_message(MS_T_TASK, ms_text("look, too")), "bob");
        put("room", ms_message(MS_T_GLOBAL_OBSERVATION,
                               ms_text("it rains")), "ann");
        seq = put("hall", ms_user_message(ms_text("hello there")), "ann");
        if (i == 0) hall = seq;
        put("hall", ms_message(MS_T_TASK, ms_text("search")), "ann");
    }
    change_place("room", room);
    change_place("hall", hall);
    must_be_sound(store, "a fresh store");
    return 0;
}

static int close_store(void **state)
{
    ms_close(store);
    return 0;
}

static ms__loc *place_of(const char *name)
{
    ms__loc *loc = ms__loc_get(&mem->tail.names, ms_str_of(name), false);
    assert_non_null(loc);
    return loc;
}

static uint32_t *entry_of(const ms__postings *s, uint32_t i)
{
    const ms__chunk *c = ms__postings_chunk(s, i);
    return ms__chunk_entries(c) + (i - c->first);
}

static unsigned char *record_of(uint32_t unit)
{
    return (unsigned char *)(uintptr_t)ms__mem_at(&mem->core, (uint64_t)unit * 8);
}

typedef struct named {
    const char *name;
    ms__postings *list;
} named;

/* All lists that one place is in. */
static void lists_of(const char *place, named out[LISTS])
{
    ms__loc *loc = place_of(place);
    ms__agent *ann = ms__agent_get(&mem->tail.names, loc, MS_STR("ann"), false);
    ms__edits *edits = (ms__edits *)loc->edits;
    ms__stream *stream = ms__stream_at(mem->tail.names.linked[MS__STREAMS].first);
    while (stream->name.loc != loc) stream = ms__stream_at(stream->name.node.next);
    named all[LISTS] = {
        {"all messages", &mem->tail.names.all}, {"all changes", &mem->tail.names.others},
        {"a place", &loc->all},           {"its conversation", &loc->conversation},
        {"its observations", &loc->global}, {"what an agent did", &ann->trace},
        {"what an agent said", &ann->rest}, {"changes", &edits->changes},
        {"facts", &edits->facts},         {"parts", &stream->parts},
    };
    memcpy(out, all, sizeof all);
}

TEST(a_posting_that_leads_astray_is_found)
{
    named all[LISTS];
    lists_of("room", all);
    for (size_t i = 0; i < LISTS; i++) {
        ms__postings *s = all[i].list;
        if (s->count < 2) fail_msg("%s: too few entries for this test", all[i].name);
        with32(store, &s->wanted, 1, all[i].name, "NM2");
        with32(store, entry_of(s, 1), *entry_of(s, 0), all[i].name, "NM1: the posting");
        with32(store, entry_of(s, s->count - 1), mem->tail.end, all[i].name,
               "the end is");
    }
}

/* The unit of the first record of that kind, type (0: any) and place after a unit. */
static uint32_t record_behind(uint32_t unit, unsigned kind, unsigned type,
                              const char *place, const char *agent)
{
    const ms__tail_names *names = &mem->tail.names;
    const ms__postings *s = kind == MS__KIND_MESSAGE ? &names->all : &names->others;
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t found = *entry_of(s, i);
        const ms_msg *msg = ms__msg(record_of(found));
        if (found > unit && (unsigned)ms_kind_of(msg) == kind &&
            (type == 0 || (unsigned)ms_type_of(msg) == type) &&
            ms_str_equal(test_location(msg), ms_str_of(place)) &&
            (agent == NULL || ms_str_equal(test_agent_key(msg), ms_str_of(agent))))
            return found;
    }
    fail_msg("no record of kind %u, type %u in %s", kind, type, place);
    return 0;
}

/* The first entry of a list of the room is made one of a record that stands elsewhere. */
static void stray(const named *s, unsigned kind, unsigned type, const char *place,
                  const char *agent)
{
    char what[80];
    uint32_t *entry = entry_of(s->list, 0), kept = s->list->count;
    snprintf(what, sizeof what, "%s, with one of kind %u, type %u of %s", s->name, kind,
             type, place);
    uint32_t unit = record_behind(*entry, kind, type, place, agent);
    if (unit >= *entry_of(s->list, 1)) s->list->count = 1; /* still rising */
    uint32_t own = *entry;
    *entry = unit;
    must_be_broken(store, what, "is in a wrong list");
    *entry = own;
    s->list->count = kept;
    must_be_sound(store, what);
}

TEST(a_record_of_elsewhere_is_found)
{
    enum { ALL, OTHERS, PLACE, TALK, GLOBAL, TRACE, REST, CHANGES, FACTS, PARTS };
    const unsigned message = MS__KIND_MESSAGE;
    named s[LISTS];
    lists_of("room", s);
    stray(&s[PLACE], message, 0, "hall", NULL);
    stray(&s[TALK], message, MS_T_TASK, "room", NULL);
    stray(&s[TALK], message, MS_T_USER_MESSAGE, "hall", NULL);
    stray(&s[GLOBAL], message, MS_T_USER_MESSAGE, "room", NULL);
    stray(&s[TRACE], message, MS_T_TASK, "room", "bob");
    stray(&s[TRACE], message, MS_T_GLOBAL_OBSERVATION, "room", "ann");
    stray(&s[REST], message, MS_T_TASK, "room", "ann");
    stray(&s[REST], message, MS_T_USER_MESSAGE, "hall", "ann");
    stray(&s[CHANGES], MS__KIND_NOTE, 0, "room", NULL);
    stray(&s[CHANGES], MS__KIND_AMEND, 0, "hall", NULL);
    stray(&s[FACTS], MS__KIND_HIDE, 0, "room", NULL);
    stray(&s[FACTS], MS__KIND_NOTE, 0, "hall", NULL);
    stray(&s[PARTS], MS__KIND_PART, 0, "hall", NULL);
    uint32_t first = *entry_of(s[ALL].list, 1);
    with32(store, entry_of(s[OTHERS].list, 0), first, "a message among changes",
           "is in a wrong list");
}

TEST(a_damaged_record_of_a_store_is_found)
{
    for (int changes = 0; changes < 2; changes++) {
        const ms__postings *s = changes ? &mem->tail.names.others : &mem->tail.names.all;
        uint32_t unit = *entry_of(s, s->count / 2);
        unsigned char *r = record_of(unit);
        with_bytes(store, r + 8, 1, 1, "a bit of a header", "header does not match");
        with_bytes(store, r + MS__HEADER + 4, 1, 1, "a bit of a body", "");
    }
}

/* Records of an arena store whose header is damaged, among messages that are changed. */
TEST(a_damaged_record_is_passed_over_when_its_place_is_changed)
{
    static const uint32_t which[] = {9, 20, 59};
    ms_store *full;
    ms__mem *m;
    uint64_t n;
    assert_int_equal(ms_mem_open(&full, NULL, NULL), MS_OK);
    m = ms__mem_of(full);
    for (int i = 0; i < 60; i++) say(full, "room", "ann");
    assert_int_equal(ms_hide(full, 2, NULL), MS_OK);
    for (size_t i = 0; i < 3; i++) {
        uint32_t unit = ms__chunk_entry(ms__postings_chunk(&m->tail.names.all, which[i]),
                                        which[i]);
        const void *r = ms__mem_at(&m->core, (uint64_t)unit * 8);
        ((unsigned char *)(uintptr_t)r)[9] ^= 1;
    }
    assert_int_equal(count_all(full, query_at("room"), MS_E_DAMAGED), 56);
    assert_int_equal(look_up(full, 60), MS_E_DAMAGED);
    ms_envelope better = ms_user_message(ms_text("better"));
    assert_int_equal(ms_amend(full, 60, &better, NULL), MS_E_DAMAGED);
    assert_int_equal(ms_hide_range(full, MS_STR("room"), 8, 25, &n, NULL), MS_OK);
    assert_int_equal(n, 16);
    ms_close(full);
}

TEST(chunks_that_are_not_linked_are_found)
{
    ms__chunk *last = (ms__chunk *)mem->tail.names.all.tail, *middle = last->before;
    assert_non_null(middle);
    ms__chunk *first = middle->before;
    assert_non_null(first);
    middle->after = NULL;
    must_be_broken(store, "a chunk without the next one", "not linked");
    middle->after = first;
    must_be_broken(store, "a chunk before itself", "not linked");
    middle->after = last;
    ms__chunk *root = middle;
    while (root->before) root = root->before;
    root->before = last;
    must_be_broken(store, "a chunk before the first", "not linked");
    root->before = NULL;
    must_be_sound(store, "linked again");
}

/* A record gets another number, and checks that hold. */
static void number_record(uint32_t unit, uint64_t seq)
{
    unsigned char *r = record_of(unit);
    ms__put64(r + 8, seq);
    ms__seal(r, ms__seed_at(mem->core.seed, (uint64_t)unit * 8));
}

TEST(numbers_that_do_not_rise_are_found)
{
    uint32_t unit = *entry_of(&mem->tail.names.all, 20);
    uint64_t seq = ms_seq(ms__msg(record_of(unit)));
    number_record(unit, seq - 1);
    must_be_broken(store, "the number of the one before", "MM2");
    number_record(unit, seq);
    with64(store, &mem->tail.names.last_seq, mem->tail.names.last_seq + 1,
           "the last number", "MM2");
    must_be_sound(store, "numbered again");
}

TEST(what_is_counted_twice_has_to_agree)
{
    ms__loc *room = place_of("room");
    ms__agent *ann = ms__agent_get(&mem->tail.names, room, MS_STR("ann"), false);
    ms__edits *edits = (ms__edits *)room->edits;
    with64(store, &edits->hidden, 5, "hidden of a place", "NM4");
    with64(store, &mem->tail.names.hidden, 9, "hidden of all", "NM4");
    with64(store, &mem->tail.names.changes, 1, "changes", "NM1");
    with32(store, &edits->changes.count, 1, "changes of a place", "NM4");
    with32(store, &edits->facts.count, 1, "facts of a place", "NM1");
    with32(store, &room->conversation.count, ROUNDS - 1, "a class", "by class");
    with32(store, &ann->rest.count, ann->rest.count - 1, "an agent", "by class");
    with32(store, &room->all.count, room->all.count - 1, "a place", "by location");
}


/* ---- a store of the caller's own ---- */

static struct own {
    ms_store store;
    const ms_msg *give[2];
    size_t at;
    ms_result opening;
    uint64_t damaged;
} own;

static ms_result own_query(ms_store *s, ms_cursor *it, ms_error *err)
{
    own.at = 0;
    it->damaged = own.damaged;
    return own.opening == MS_OK ? MS_OK : ms__fail(err, own.opening, "not today");
}

static const ms_msg *own_next(ms_store *s, ms_cursor *it)
{
    return own.at < 2 ? own.give[own.at++] : NULL;
}

static void own_close(ms_store *s, ms_cursor *it)
{
}

static const ms_msg *message_of(ms_arena *arena, uint64_t seq, const char *place)
{
    const ms_msg *msg;
    ms_envelope m = ms_user_message(ms_text("some words"));
    m.seq = seq;
    if (place != NULL) m.location = ms_str_of(place);
    assert_int_equal(ms_encode(&m, arena, &msg, NULL), MS_OK);
    return msg;
}

TEST(a_cursor_that_gives_nonsense_is_found)
{
    static ms_backend backend;
    ms_arena arena;
    test_arena_init(&arena, NULL);
    backend.query = own_query;
    backend.next = own_next;
    backend.cursor_close = own_close;
    own.store.backend = &backend;
    own.store.open = MS_STORE_OPEN;
    own.give[0] = message_of(&arena, 1, "x");
    own.give[1] = message_of(&arena, 2, "x");
    must_be_sound(&own.store, "two messages");
    own.give[1] = message_of(&arena, 1, "x");
    must_be_broken(&own.store, "one number twice", "message 1 comes after 1");
    own.give[1] = message_of(&arena, 2, NULL);
    must_be_broken(&own.store, "a message of nowhere", "message 2 has no location");
    own.give[1] = message_of(&arena, 2, "x");
    ((unsigned char *)(uintptr_t)ms__bytes(own.give[1]))[5] = 200;
    assert_int_equal(ms_selfcheck(&own.store, NULL), MS_E_TYPE); /* no such type */
    own.give[1] = NULL;
    own.damaged = 1;
    assert_int_equal(ms_selfcheck(&own.store, NULL), MS_E_DAMAGED);
    own.opening = MS_E_IO;
    assert_int_equal(ms_selfcheck(&own.store, NULL), MS_E_IO);
    own.store.open = 0;
    assert_int_equal(ms_selfcheck(&own.store, NULL), MS_E_CLOSED);
    ms_arena_deinit(&arena);
}


/* ---- a log ---- */

/* A closed log that has segment indexes and summaries. */
static void make_closed(void)
{
    ms_store *log = make_log(0);
    while (ms__log_of(log)->index.summaries.n < 2) say_some(log, 1);
    finish(log);
}

TEST(a_segment_index_that_differs_from_its_records_is_found)
{
    make_closed();
    ms_store *log = open_log(MS_LOG_WRITE);
    const ms__segment *valid = ms__segment_valid(ms__log_of(log), 3, true, true);
    ms__segment *l = (ms__segment *)(uintptr_t)valid;
    uint32_t *numbers[] = {&l->n, &l->lists, &l->postings, &l->bits, &l->width};
    uint64_t *sums[] = {&l->first_seq, &l->last_seq, &l->messages, &l->bytes};
    for (size_t i = 0; i < COUNT(numbers); i++)
        with32(log, numbers[i], *numbers[i] + 1, "a number of a segment", "LM3");
    for (size_t i = 0; i < COUNT(sums); i++)
        with64(log, sums[i], *sums[i] + 1, "a sum of a segment", "LM3");
    unsigned char *p = drive.rw + l->offset +
                       (l->record - (l->directory - MS__SEGMENT_FIXED));
    with_bytes(log, p, 1, 1, "an array of a segment", "LM3");
    ms_close(log);
    test_alloc_done(&heap);
}

TEST(a_summary_that_forgot_its_lists_is_found)
{
    make_closed();
    ms_store *log = open_log(MS_LOG_WRITE);
    const ms__summary *s = ms__summary_get(ms__log_of(log), 0);
    assert_non_null(s->filters);
    must_be_sound(log, "each filter is known whole");
    unsigned char kept[MS__FILTER_SIZE], *p = drive.rw + ms__get64(s->filters);
    memcpy(kept, p, sizeof kept);
    memset(p + 40, 0, sizeof kept - 40);
    must_be_broken(log, "a filter without lists", "LM3: the summary");
    memcpy(p, kept, sizeof kept);
    must_be_sound(log, "put right again");
    ms_close(log);
}

TEST(a_durable_end_after_the_end_is_found)
{
    make_closed();
    ms_store *log = open_log(MS_LOG_WRITE);
    ms__log *l = ms__log_of(log);
    with64(log, &l->durable.end, l->end + 8, "a durable end", "LM4");
    ms__fork_mark kept = l->file.fork_mark;
    l->file.fork_mark.page = NULL;
    l->file.fork_mark.process = 1 + (uint32_t)drive.process; /* somebody's child looks */
    assert_int_equal(ms_selfcheck(log, NULL), MS_E_FORKED);
    l->file.fork_mark = kept;
    ms_close(log);
}

/* The segment index is whole, a record of its segment is not: the cursor reports the
 * record, and the index is not at fault. */
TEST(a_damaged_record_is_not_reported_as_its_segment_index)
{
    make_closed();
    for (int without = 0; without < 2; without++) { /* its index */
        ms_store *log = open_log(MS_LOG_WRITE);
        const ms__segment *l = ms__segment_of(ms__log_of(log), 1, true);
        ms_error err;
        if (!without) drive.rw[ms__segment_offset(l, 5) + 8] ^= 1;
        else drive.rw[l->offset + MS__SEGMENT_FIXED] ^= 1;
        if (without) ms_close(log);
        if (without) log = open_log(MS_LOG_WRITE);
        assert_int_equal(ms_selfcheck(log, &err), MS_E_DAMAGED);
        assert_null(strstr(err.message, "LM3"));
        ms_close(log);
    }
}

/* A HIDE of the messages 1 to n, which somebody has made, at a place of an image. */
static uint64_t make_hide(const ms__mem *m, uint64_t at, uint64_t n)
{
    char text[MS__HIDE_TEXT];
    ms__part parts[MS_FIELD_COUNT];
    ms__layout l;
    unsigned char *r = m->buffer.base + at;
    ms_envelope h = {.seq = n};
    const ms__span span = {1, n, n};
    h.content = ms__hide_text(text, &span);
    l.parts = parts;
    assert_int_equal(ms__layout_of(&h, MS_STR("l"), MS__CHECKED, &l, NULL), MS_OK);
    memset(r, 0, ms__padded(l.size));
    ms__encode_header(&h, MS__KIND_HIDE, &l, n, MS_TIME_NONE, MS_FLAG_COMMIT, r);
    ms__encode_body(&l, r + MS__HEADER);
    ms__seal(r, ms__seed_at(m->core.seed, at));
    return at + ms__padded(l.size);
}

/* Each message is hidden by itself, then all of them again and again: attaching must not
 * look at all of them each time. */
TEST(hiding_what_is_hidden_costs_no_time)
{
    enum { N = 20000 };
    ms_store *full;
    ms_error err;
    ms_envelope e = ms_user_message(ms_text("x"));
    if (test_scale() < 100) skip(); /* sanitizers are slow, too */
    ms_mem_desc desc = {.buffer_size = (size_t)N * 600};
    desc.buffer = malloc(desc.buffer_size);
    assert_int_equal(ms_mem_open(&full, &desc, &err), MS_OK);
    for (int i = 0; i < N; i++)
        assert_int_equal(ms_append(full, MS_STR("l"), &e, NULL, &err), MS_OK);
    for (uint64_t i = 1; i <= N; i++) assert_int_equal(ms_hide(full, i, &err), MS_OK);
    ms__mem *m = ms__mem_of(full);
    uint64_t end = (uint64_t)m->tail.end * 8;
    for (int i = 0; i < N; i++) end = make_hide(m, end, N);
    ms__image_end(m, end);
    alarm(10); /* a moment; looking at each took half a minute */
    assert_int_equal(ms_mem_attach(&full, &desc, NULL, &err), MS_OK);
    alarm(0);
    must_be_sound(full, "what was hidden twice");
    ms_close(full);
    free(desc.buffer);
}

int main(void)
{
    disk_init(&drive, 16 << 20);
    int failed = run_all_tests(make_store, close_store);
    disk_deinit(&drive);
    printf("tally: broken promises that ms_selfcheck named %u\n", breaks);
    return failed;
}
