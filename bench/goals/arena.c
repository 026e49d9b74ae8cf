/* Appends to an arena store, and appends with a key: arena, keyed. */
#define _GNU_SOURCE
#include "goals.h"

/* The floor: what an arena store cannot do without, and nothing else. Two hashes find the
 * list of a location and an agent, ten fields follow a head with their lengths in memory
 * that was touched before, and the list takes the place of the record. */
enum { BARE_FIELDS = 10, BARE_HEAD = 56, BARE_NAMES = 4096 };

typedef struct bare_name {
    uint64_t hash;            /* 0: the slot is free */
    ms_str name;
    uint64_t *list;           /* places of records */
    size_t count, cap;
} bare_name;

typedef struct bare_store {
    char *room;
    size_t used, size;
    bare_name names[BARE_NAMES];
} bare_store;

static uint64_t bare_hash(uint64_t hash, ms_str name)
{
    uint64_t word;
    size_t i = 0;
    for (; i + 8 <= name.len; i += 8) {
        memcpy(&word, name.ptr + i, 8);
        hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
    }
    for (; i < name.len; i++)
        hash = (hash ^ (unsigned char)name.ptr[i]) * UINT64_C(0x100000001B3);
    return (hash ^ hash >> 29) | 1;
}

/* Returns the list of a name, found or made. */
static bare_name *bare_find(bare_store *b, uint64_t seed, ms_str name)
{
    uint64_t hash = bare_hash(seed, name);
    for (size_t at = (size_t)(hash >> 20) % BARE_NAMES;; at = (at + 1) % BARE_NAMES) {
        bare_name *slot = &b->names[at];
        if (slot->hash == hash && slot->name.len == name.len &&
            memcmp(slot->name.ptr, name.ptr, name.len) == 0)
            return slot;
        if (slot->hash != 0) continue;
        slot->hash = hash;
        slot->name = name;
        return slot;
    }
}

static void bare_push(bare_name *name, uint64_t place)
{
    if (name->count == name->cap) {
        name->cap = name->cap > 0 ? 2 * name->cap : 64;
        name->list = (uint64_t *)realloc(name->list, name->cap * sizeof *name->list);
        if (name->list == NULL) bench_die("the floor", "no memory for a list");
    }
    name->list[name->count++] = place;
}

static void bare_put(bare_store *b, const ms_envelope *m)
{
    const ms_str fields[BARE_FIELDS] = {
        m->location, m->agent_key, m->turn_id, m->content.text, m->args.text,
        m->task, m->summary, m->tool.len > 0 ? m->tool : m->error_type,
        m->worker.len > 0 ? m->worker : m->from_worker, m->from_manager};
    bare_name *view = bare_find(b, 1, m->location);
    if (m->agent_key.len > 0) view = bare_find(b, view->hash, m->agent_key);
    char *head = b->room + b->used, *to = head + BARE_HEAD;
    for (int i = 0; i < BARE_FIELDS; i++) {
        uint32_t len = (uint32_t)fields[i].len;
        memcpy(head + 4 * i, &len, 4);
        if (len > 0) memcpy(to, fields[i].ptr, len);
        to += len;
    }
    memcpy(head + 40, &m->time_ns, 8);
    memcpy(head + 48, &m->type, sizeof m->type);
    bare_push(view, b->used);
    b->used += ((size_t)(to - head) + 7) / 8 * 8;
}

static void bare_append(bare_store *b, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        ms_envelope m = bench_message(data, i);
        bare_put(b, &m);
    }
}

static bare_store *bare_open(void)
{
    bare_store *b = (bare_store *)bench_memory(sizeof *b);
    memset(b, 0, sizeof *b);
    b->size = (size_t)(data->payload + data->names) + data->count * (BARE_HEAD + 8);
    b->room = (char *)bench_memory(b->size);
    return b;
}

/* Removes the messages; memory and lists stay. */
static void bare_reset(bare_store *b)
{
    b->used = 0;
    for (size_t i = 0; i < BARE_NAMES; i++) b->names[i].count = 0;
}

static void bare_close(bare_store *b)
{
    sink += (unsigned char)b->room[b->used / 2];
    for (size_t i = 0; i < BARE_NAMES; i++) free(b->names[i].list);
    free(b->room);
    free(b);
}

/* Times both stores with the same tenth of the messages, one after the other. They take
 * turns in going first. */
static void time_slices(ms_store *store, bare_store *bare, size_t n, double spent[2])
{
    enum { SLICES = 10 };
    for (size_t i = 0; i < 2 * SLICES; i++) {
        size_t slice = i / 2, from = n * slice / SLICES, to = n * (slice + 1) / SLICES;
        size_t who = (i + slice) % 2;
        uint64_t begin = bench_now();
        if (who == 0) append(store, from, to);
        else bare_append(bare, from, to);
        spent[who] += bench_since(begin);
    }
}

/* arena: appends to an arena store that was filled once and reset, so that all its
 * memory exists. Beside it, in turn, the floor. */
void run_arena(void)
{
    size_t n = n_messages < 1000000 ? n_messages : 1000000;
    double spent[2] = {0, 0};
    ms_error err;
    ms_store *store = new_arena();
    bare_store *bare = bare_open();
    append(store, 0, n); /* now all memory exists */
    bare_append(bare, 0, n);
    must(ms_mem_reset(store, &err), &err);
    bare_reset(bare);
    time_slices(store, bare, n, spent);
    ms_close(store);
    bare_close(bare);
    hold("A5", "time", n, spent[0] / (double)n, "arena append, warmed");
    record(n, spent[1] / (double)n, "ns/message", "  hashes, copies and a list alone");
    hold("A5", "x floor", n, spent[1] / spent[0], "arena append, floor to ours");
}

enum { KEY = 16 }; /* bytes of a key's text, its NUL included */

/* Appends message i with the key of that number; returns the message's number. */
static uint64_t append_keyed(ms_store *store, size_t i)
{
    char key[KEY] = "key_00000000000";
    uint64_t seq;
    ms_error err;
    ms_envelope m = bench_message(data, i % data->count);
    for (size_t at = KEY - 1, rest = i; rest > 0; rest /= 10)
        key[--at] = (char)('0' + rest % 10);
    m.key = ms_str_n(key, KEY - 1);
    must(ms_append(store, m.location, &m, &seq, &err), &err);
    return seq;
}

/* keyed: appends with an idempotency key where N keys (at most 1,000,000) are remembered,
 * in a log and in an arena store: N / 10 new keys, and as many known ones, which append
 * nothing. */
void run_keyed(void)
{
    static const char *const kinds[2] = {"log", "arena"};
    size_t n = n_messages < 1000000 ? n_messages : 1000000, few = n / 10;
    uint64_t *seqs = (uint64_t *)bench_memory((n + few) * sizeof *seqs), state = 3;
    for (int arena = 0; arena < 2; arena++) {
        char which[32];
        ms_store *store = arena ? new_arena() : new_log(false);
        for (size_t i = 0; i < n; i++) seqs[i] = append_keyed(store, i);
        uint64_t begin = bench_now();
        for (size_t i = n; i < n + few; i++) seqs[i] = append_keyed(store, i);
        double fresh = bench_since(begin) / (double)few / 1e3;
        begin = bench_now();
        for (size_t i = 0; i < few; i++) {
            size_t pick = bench_below(&state, n);
            if (append_keyed(store, pick) != seqs[pick])
                bench_die("a repeated key", "the message was appended again");
        }
        double repeated = bench_since(begin) / (double)few / 1e3;
        ms_close(store);
        snprintf(which, sizeof which, "%s, fresh", kinds[arena]);
        hold("A8", which, n, fresh, "keyed append, %s, fresh key", kinds[arena]);
        snprintf(which, sizeof which, "%s, repeated", kinds[arena]);
        hold("A8", which, n, repeated, "keyed append, %s, known key", kinds[arena]);
    }
    free(seqs);
}
