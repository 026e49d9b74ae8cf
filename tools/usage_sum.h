/* Adds up usage notes by location, agent or turn, for msgstore info --usage and its
 * test. It uses the public interface only. One walk visits the notes of the store. If
 * the store has hidden messages, the walk looks each noted message up, since a hidden
 * message does not count here. A note counts for the agent and the turn that its
 * message had when the note was made. */

#ifndef USAGE_SUM_H
#define USAGE_SUM_H

#include "../msgstore.h"

#include <string.h>

typedef enum usage_by { USAGE_BY_LOCATION, USAGE_BY_AGENT, USAGE_BY_TURN } usage_by;

typedef struct usage_item {
    ms_str location;
    ms_str part;              /* the agent, the turn; absent: by location, or unknown */
    uint64_t notes;
    ms_usage usage;
} usage_item;

typedef struct usage_list {
    usage_item *items;        /* in the arena, in order of their first note */
    size_t count, cap;
    uint32_t *slots;          /* open addressing, at most half full: an index, plus one */
    size_t n_slots;
    usage_item total;
} usage_list;

static uint64_t usage_hash(uint64_t hash, ms_str text)
{
    for (size_t i = 0; i < text.len; i++)
        hash = (hash ^ (unsigned char)text.ptr[i]) * UINT64_C(0x100000001B3);
    return (hash ^ (text.ptr != NULL)) * UINT64_C(0x9E3779B97F4A7C15);
}

static uint32_t *usage_slot(usage_list *list, ms_str location, ms_str name)
{
    uint64_t hash = usage_hash(usage_hash(0, location), name);
    for (size_t at = (size_t)(hash >> 20) & (list->n_slots - 1);;
         at = (at + 1) & (list->n_slots - 1)) {
        uint32_t n = list->slots[at];
        if (n == 0 || (ms_str_equal(list->items[n - 1].location, location) &&
                       ms_str_equal(list->items[n - 1].part, name)))
            return &list->slots[at];
    }
}

static bool usage_copy(ms_arena *a, ms_str *text)
{
    char *copy = text->ptr != NULL ? (char *)ms_arena_alloc(a, text->len) : NULL;
    if (text->ptr == NULL) return true;
    if (copy != NULL) memcpy(copy, text->ptr, text->len);
    text->ptr = copy;
    return copy != NULL;
}

/* Makes room for twice as many items. */
static bool usage_grow(usage_list *list, ms_arena *a)
{
    size_t cap = list->cap != 0 ? 2 * list->cap : 16;
    usage_item *items = (usage_item *)ms_arena_alloc(a, cap * sizeof *items);
    uint32_t *slots = (uint32_t *)ms_arena_alloc(a, 2 * cap * sizeof *slots);
    if (items == NULL || slots == NULL) return false;
    if (list->count > 0) memcpy(items, list->items, list->count * sizeof *items);
    memset(slots, 0, 2 * cap * sizeof *slots);
    list->items = items;
    list->cap = cap;
    list->slots = slots;
    list->n_slots = 2 * cap;
    for (size_t i = 0; i < list->count; i++)
        *usage_slot(list, items[i].location, items[i].part) = (uint32_t)i + 1;
    return true;
}

/* Returns the item of a note, made if it is new; NULL: no memory. */
static usage_item *usage_item_of(usage_list *list, ms_arena *a, ms_str location,
                                 ms_str name)
{
    if (list->count == list->cap && !usage_grow(list, a)) return NULL;
    uint32_t *slot = usage_slot(list, location, name);
    if (*slot != 0) return &list->items[*slot - 1];
    usage_item *item = &list->items[list->count];
    memset(item, 0, sizeof *item);
    item->location = location;
    item->part = name;
    if (!usage_copy(a, &item->location) || !usage_copy(a, &item->part)) return NULL;
    *slot = (uint32_t)++list->count;
    return item;
}

/* Adds usage; sums stay at the largest number. */
static void usage_add(usage_item *sum, const ms_usage *u)
{
    const uint64_t more[4] = {u->input_tokens, u->output_tokens, u->cached_tokens,
                              u->reasoning_tokens};
    uint64_t *to[4] = {&sum->usage.input_tokens, &sum->usage.output_tokens,
                       &sum->usage.cached_tokens, &sum->usage.reasoning_tokens};
    for (int i = 0; i < 4; i++)
        *to[i] = more[i] > UINT64_MAX - *to[i] ? UINT64_MAX : *to[i] + more[i];
    int64_t *ns = &sum->usage.duration_ns;
    *ns = u->duration_ns > INT64_MAX - *ns ? INT64_MAX : *ns + u->duration_ns;
    sum->notes++;
}

static ms_result usage_no_memory(ms_error *err)
{
    return ms_error_set(err, MS_E_NO_MEMORY, "no memory for a sum");
}

/* Adds up all notes. MS_E_DAMAGED: some notes could not be read, the list has the
 * others. */
static ms_result usage_sum(ms_store *store, usage_by by, ms_arena *a, usage_list *list,
                           ms_error *err)
{
    ms_query q;
    ms_cursor it;
    ms_stat stat;
    ms_arena room;
    const ms_msg *note, *msg;
    uint64_t asked = 0;
    bool shown = true;
    memset(list, 0, sizeof *list);
    memset(&q, 0, sizeof q);
    memset(&room, 0, sizeof room);
    q.raw = MS_RAW_NOTES;
    bool asks = ms_store_stat(store, &stat, NULL) != MS_OK || stat.hidden > 0;
    ms_result result = ms_query_open(store, &q, &it, err);
    if (result != MS_OK) return result;
    while ((note = ms_next(&it)) != NULL && result == MS_OK) {
        ms_usage u;
        ms_str none = {NULL, 0};
        if (!ms_usage_of(note, &u)) continue;
        if (asks && asked != ms_seq(note)) {
            asked = ms_seq(note);
            ms_arena_reset(&room);
            shown = ms_get_by_seq(store, asked, &room, &msg, NULL) != MS_E_NOT_FOUND;
        }
        if (!shown) continue;
        ms_str name = by == USAGE_BY_AGENT  ? ms_get(note, MS_F_AGENT_KEY).text
                      : by == USAGE_BY_TURN ? ms_get(note, MS_F_TURN_ID).text
                                            : none;
        usage_item *item = usage_item_of(list, a, ms_get(note, MS_F_LOCATION).text, name);
        if (item == NULL) result = usage_no_memory(err);
        if (item != NULL) usage_add(item, &u);
        if (item != NULL) usage_add(&list->total, &u);
    }
    ms_arena_deinit(&room);
    ms_result end = ms_cursor_close(&it, result == MS_OK ? err : NULL);
    return result != MS_OK ? result : end;
}

#endif /* USAGE_SUM_H */
