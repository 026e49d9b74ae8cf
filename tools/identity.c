/* See identity.h. */

#define _GNU_SOURCE
#include "identity.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { GONE_MAX = 1 << 24 };

uint64_t hash_bytes(ms_str text)
{
    uint64_t hash = 0x9e3779b97f4a7c15u, word;
    for (; text.len >= 8; text = ms_str_n(text.ptr + 8, text.len - 8)) {
        memcpy(&word, text.ptr, 8);
        hash = (hash ^ word) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    return hash ^ hash_text(text);
}


/* ---- Numbers as text --------------------------------------------------------------- */

bool number_read(ms_str *text, uint64_t *out)
{
    size_t i = 0;
    uint64_t n = 0;
    for (; i < text->len && text->ptr[i] >= '0' && text->ptr[i] <= '9'; i++) {
        uint64_t digit = (uint64_t)(text->ptr[i] - '0');
        if (n > (UINT64_MAX - digit) / 10) return false;
        n = n * 10 + digit;
    }
    *text = ms_str_n(text->ptr + i, text->len - i);
    *out = n;
    return i > 0 && n > 0;
}

bool numbers_read(uint64_t **numbers, ms_str text, size_t most)
{
    while (text.len > 0) {
        uint64_t first, last;
        if (!number_read(&text, &first)) return false;
        last = first;
        if (text.len > 0 && text.ptr[0] == '-') {
            text = ms_str_n(text.ptr + 1, text.len - 1);
            if (!number_read(&text, &last) || last < first) return false;
        }
        if (last - first >= most) return false;
        most -= (size_t)(last - first + 1);
        for (uint64_t n = first; n < last; n++) arrput(*numbers, n);
        arrput(*numbers, last);
        if (text.len > 0 && text.ptr[0] != ',') return false;
        if (text.len > 0) text = ms_str_n(text.ptr + 1, text.len - 1);
    }
    return true;
}

void numbers_put(ms_buf *buf, const uint64_t *numbers, size_t n)
{
    char text[64];
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;
        while (end < n && numbers[end] == numbers[end - 1] + 1) end++;
        int len = end - i > 1
                      ? snprintf(text, sizeof text, "%s%" PRIu64 "-%" PRIu64,
                                 i > 0 ? "," : "", numbers[i], numbers[end - 1])
                      : snprintf(text, sizeof text, "%s%" PRIu64, i > 0 ? "," : "",
                                 numbers[i]);
        ms_buf_write(buf, text, (size_t)len);
        i = end;
    }
}


/* ---- A walk over messages ---------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t more)
{
    hash = (hash ^ more) * 0xff51afd7ed558ccdu;
    return hash ^ (hash >> 32);
}

/* Returns a hash of what a message has, for one without an id. */
static uint64_t hash_of_message(const ms_envelope *m)
{
    uint64_t hash = mix(2, (uint64_t)m->type);
    hash = mix(hash, hash_bytes(m->call_id));
    hash = mix(hash, hash_bytes(m->tool));
    /* Its text can be erased. What is unknown was stored without its time before. */
    bool timed = m->has_time && m->type != MS_T_OTHER;
    if (timed) return mix(hash, (uint64_t)m->time_ns);
    hash = mix(hash, hash_bytes(m->content.text));
    return mix(hash, hash_bytes(m->args.text));
}

uint64_t identity_next(identity_walk *w, const ms_envelope *m)
{
    bool joined = (m->flags & MS_FLAG_JOINED) != 0;
    if (m->id.len > 0) w->base = mix(1, hash_bytes(m->id));
    else if (!joined || w->base == 0) w->base = hash_of_message(m);
    uint64_t base = mix(w->base, hash_bytes(m->location));
    identity_count *found = hmgetp_null(w->counts, base);
    uint32_t place = found != NULL ? found->value : 0;
    if (found != NULL) found->value++;
    else hmput(w->counts, base, 1);
    return mix(base, place);
}

void identity_walk_free(identity_walk *w)
{
    hmfree(w->counts);
    w->base = 0;
}


/* ---- What is stored of a location -------------------------------------------------- */

static ms_str hidden_name(ms_str location, char out[MS_KEY_MAX + 1])
{
    int n = snprintf(out, MS_KEY_MAX + 1, "hidden:%.*s", (int)location.len, location.ptr);
    if (n > MS_KEY_MAX) {
        n = snprintf(out, MS_KEY_MAX + 1, "hidden:%016" PRIx64, hash_text(location));
    }
    return ms_str_n(out, (size_t)n);
}

/* Reads what syncs hid of a location: members "g..." of the gone ones, "d..." of the dead
 * ones. Of damaged facts it reads what is whole. */
static void read_hidden(identities *all, ms_store *store)
{
    char name[MS_KEY_MAX + 1];
    ms_error err;
    ms_arena arena = {0};
    ms_str facts = {NULL, 0}, key = hidden_name(all->location, name);
    ms_result result = ms_location_get(store, key, &arena, &facts, &err);
    uint64_t told = hash_text(all->location);
    if (result != MS_OK && result != MS_E_NOT_FOUND && told != all->told) {
        all->unread = true;
        all->told = told;
        complain("%.*s: the list of what earlier syncs hid cannot be read (%s): messages "
                 "that come back may stay hidden", (int)all->location.len,
                 all->location.ptr, err.message);
    }
    ms_json_iter it = ms_json_iterate(facts);
    while (ms_json_next(&it)) {
        uint64_t *numbers = NULL;
        bool dead = it.key.len > 1 && it.key.ptr[1] == 'd';
        numbers_read(&numbers, text_of(&arena, it.value), GONE_MAX);
        for (size_t i = 0; i < arrlenu(numbers); i++) {
            if (dead) hmput(all->dead, numbers[i], 1);
            else hmput(all->gone, numbers[i], 1);
        }
        arrfree(numbers);
    }
    ms_arena_deinit(&arena);
}

bool identity_is_dead(const identities *all, uint64_t seq)
{
    identity_seq *dead = all->dead;
    return dead != NULL && hmgetp_null(dead, seq) != NULL;
}

bool identity_is_gone(const identities *all, uint64_t seq)
{
    identity_seq *gone = all->gone;
    return gone != NULL && hmgetp_null(gone, seq) != NULL;
}

/* Reads the messages of a location, hidden ones, too. What is damaged has no identity. */
static void read_all(identities *all, ms_store *store)
{
    ms_cursor it;
    ms_query q = {0};
    const ms_msg *msg;
    identity_walk walk = {NULL, 0};
    q.location = all->location;
    q.raw = MS_RAW_MESSAGES;
    q.oldest = true;
    read_hidden(all, store);
    if (ms_query_open(store, &q, &it, NULL) == MS_OK) {
        while ((msg = ms_next(&it)) != NULL) {
            ms_envelope m = ms_envelope_of(msg);
            uint64_t seq = ms_seq(msg);
            if (identity_is_gone(all, seq)) continue;
            uint64_t id = identity_next(&walk, &m);
            if (hmgetp_null(all->seqs, id) == NULL) hmput(all->seqs, id, seq);
        }
        ms_cursor_close(&it, NULL);
    }
    identity_walk_free(&walk);
}

static void begin(identities *all, ms_store *store, ms_str location)
{
    hmfree(all->seqs);
    hmfree(all->dead);
    hmfree(all->gone);
    ms_arena_reset(&all->arena);
    if (!copy_text(&all->arena, location, &all->location)) exit(no_memory());
    read_all(all, store);
}

uint64_t identity_find(identities *all, ms_store *store, ms_str location, uint64_t id)
{
    if (!ms_str_equal(location, all->location)) begin(all, store, location);
    identity_seq *found = hmgetp_null(all->seqs, id);
    return found != NULL ? found->value : 0;
}

bool identity_is_empty(identities *all, ms_store *store, ms_str location)
{
    ms_cursor it;
    ms_query q = {0};
    if (ms_str_equal(location, all->location)) return hmlenu(all->seqs) == 0;
    q.location = location;
    q.raw = MS_RAW_MESSAGES;
    q.limit = 1;
    if (ms_query_open(store, &q, &it, NULL) != MS_OK) return false;
    bool none = ms_next(&it) == NULL;
    return ms_cursor_close(&it, NULL) == MS_OK && none;
}

void identity_add(identities *all, ms_str location, uint64_t id, uint64_t seq)
{
    if (ms_str_equal(location, all->location)) hmput(all->seqs, id, seq);
}

void identities_forget(identities *all)
{
    all->location = ms_str_n(NULL, 0);
}

void identities_free(identities *all)
{
    hmfree(all->seqs);
    hmfree(all->dead);
    hmfree(all->gone);
    ms_arena_deinit(&all->arena);
    all->location = ms_str_n(NULL, 0);
}


/* ---- Notes of what is hidden ------------------------------------------------------- */

/* Copies the location of a message; false: there is none. */
static bool location_at(ms_store *store, uint64_t seq, ms_arena *arena, ms_str *out)
{
    ms_cursor it;
    ms_query q = {0};
    q.raw = MS_RAW_MESSAGES;
    q.after_seq = seq - 1;
    q.before_seq = seq + 1;
    if (ms_query_open(store, &q, &it, NULL) != MS_OK) return false;
    const ms_msg *msg = ms_next(&it);
    bool there = msg != NULL && ms_seq(msg) == seq;
    if (there && !copy_text(arena, ms_get(msg, MS_F_LOCATION).text, out)) {
        exit(no_memory());
    }
    ms_cursor_close(&it, NULL);
    return there;
}

static ms_result note_of(ms_store *store, ms_str location, bool gone,
                         const uint64_t *numbers, size_t n, ms_error *err)
{
    char name[MS_KEY_MAX + 1], begins[40];
    ms_arena arena = {0};
    ms_buf buf = {&arena, NULL, 0, 0};
    snprintf(begins, sizeof begins, "{\"%c%" PRIu64 "\":\"", gone ? 'g' : 'd',
             numbers[0]);
    json_piece(&buf, begins);
    numbers_put(&buf, numbers, n);
    json_piece(&buf, "\"}");
    ms_result result = ms_location_set(store, hidden_name(location, name),
                                       ms_buf_text(&buf), err);
    ms_arena_deinit(&arena);
    return result;
}

ms_result identity_note_hidden(ms_store *store, bool gone, const uint64_t *numbers,
                               size_t n, ms_error *err)
{
    ms_result result = MS_OK;
    ms_arena arena = {0};
    for (size_t i = 0; i < n && result == MS_OK;) {
        ms_str location, next;
        size_t end = i + 1;
        ms_arena_reset(&arena);
        bool there = location_at(store, numbers[i], &arena, &location);
        while (there && end < n && location_at(store, numbers[end], &arena, &next) &&
               ms_str_equal(next, location)) {
            end++;
        }
        if (there) result = note_of(store, location, gone, numbers + i, end - i, err);
        i = end;
    }
    ms_arena_deinit(&arena);
    return result;
}
