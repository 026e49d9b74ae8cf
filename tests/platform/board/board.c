/* An agent's memory on a Cortex-M4 with 64 KiB of RAM: a store in a static buffer of 32 KiB,
 * no heap. It is filled, its four views and an agent's history are read, its image is
 * written to flash; then power fails, RAM is lost, and the store is attached from flash
 * and goes on. tests/platform/board.sh builds it, runs it under qemu and weighs it.
 *
 * With BOARD_RING and BOARD_FLASH: the buffer is a ring, which drops its oldest messages;
 * a store in flash goes on after power failed in the middle of an append.
 *
 * Prints "ok NAME", "FAIL NAME: reason", "figure NAME: N" and "cost NAME: MEAN LONGEST"
 * lines; a cost is a number of instructions. */
#define MSGSTORE_STATIC
#define MSGSTORE_IMPLEMENTATION
#define MSGSTORE_FREESTANDING
#define MSGSTORE_NO_FORMATS
#ifndef BOARD_TEXT
#define MSGSTORE_NO_ERROR_TEXT
#endif
#ifndef BOARD_CHANGES
#define MSGSTORE_NO_CHANGES
#endif
#ifdef BOARD_FLASH
#define MSGSTORE_FLASH
#elif defined(BOARD_RING)
#define MSGSTORE_RING
#endif
#include "msgstore.h"

#include "start.h"
#include <string.h>

#define STORE_SIZE 32768
#define BOARD_MESSAGES 328 /* that fit with the headers of file format 3, 8 bytes longer */

static uint64_t buffer[STORE_SIZE / 8];
static int failed;

static void check(int holds, const char *name)
{
    put(holds ? "ok " : "FAIL ");
    put(name);
    put(holds ? "\n" : ": it does not hold\n");
    failed |= !holds;
}

static void figure(const char *name, unsigned n)
{
    put("figure ");
    put(name);
    put(": ");
    put_number(n);
    put("\n");
}

/* Instructions of the calls of one kind. */
typedef struct cost {
    unsigned n, longest;
    uint32_t sum, begun;
} cost;

static void cost_begin(cost *c) { c->begun = timer(); }

static void cost_end(cost *c)
{
    unsigned took = instructions(c->begun);
    c->n++;
    c->sum += took / 8; /* that of 1,500 appends fits 32 bits */
    if (took > c->longest) c->longest = took;
}

static void cost_print(const cost *c, const char *name)
{
    put("cost ");
    put(name);
    put(": ");
    put_number(c->sum / c->n * 8);
    put(" ");
    put_number(c->longest);
    put("\n");
}

static int64_t ticks(void *ctx)
{
    int64_t *now = (int64_t *)ctx;
    return *now += 1000000;
}

static void entropy(void *ctx, void *out, size_t len)
{
    (void)ctx;
    memset(out, 7, len);
}

static ms_mem_desc describe(int64_t *now)
{
    ms_mem_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.buffer = buffer;
    desc.buffer_size = sizeof buffer;
    desc.clock.now = ticks;
    desc.clock.ctx = now;
    desc.entropy.fill = entropy;
    return desc;
}

/* A message of 17 bytes that an agent saw. */
static ms_result append(ms_store *store, unsigned n, uint64_t *seq)
{
    char text[] = "goblin sees you00";
    ms_envelope m;
    text[15] = (char)('0' + n / 10 % 10);
    text[16] = (char)('0' + n % 10);
    m = ms_message(n % 8 == 0 ? MS_T_USER_MESSAGE : MS_T_OBSERVATION, ms_text(text));
    m.agent_key = n % 2 ? MS_STR("goblin") : MS_STR("troll");
    return ms_append(store, MS_STR("level_1"), &m, seq, NULL);
}

/* Messages of a query, read to its end; ~0: it failed. */
static unsigned count(ms_store *store, const ms_query *query)
{
    ms_cursor it;
    unsigned n = 0;
    if (ms_query_open(store, query, &it, NULL) != MS_OK) return ~0u;
    while (ms_next(&it) != NULL) n++;
    return ms_cursor_close(&it, NULL) == MS_OK ? n : ~0u;
}

static unsigned count_view(ms_store *store, unsigned view, ms_str agent, size_t limit)
{
    ms_query query;
    memset(&query, 0, sizeof query);
    query.location = MS_STR("level_1");
    query.views = view;
    query.agent_key = agent;
    query.agent_keys = &agent;
    query.n_agent_keys = 1;
    query.limit = limit;
    return count(store, &query);
}

/* Messages of the goblin's history, of which the newest says `last`. */
static unsigned history(ms_store *store, const char *last)
{
    ms_memory memory;
    ms_cursor it;
    const ms_msg *msg;
    unsigned n = 0;
    int same = 0;
    ms_memory_init(&memory, store, MS_STR("level_1"), MS_STR("goblin"));
    memory.timeline = true;
    if (ms_get_history(&memory, &it, NULL) != MS_OK) return ~0u;
    for (; (msg = ms_next(&it)) != NULL; n++)
        same = ms_str_equal(ms_content(msg).text, ms_str_of(last));
    return ms_cursor_close(&it, NULL) == MS_OK && same ? n : ~0u;
}

/* Fills the store, reads it, writes its image to flash; how many messages it holds goes
 * to the head of the flash. */
static void first_life(void)
{
    int64_t now = 0;
    unsigned n = 0, users, n10;
    uint64_t seq;
    cost c = {0, 0, 0, 0};
    ms_mem_desc desc = describe(&now);
    ms_store *store;
    ms_str image;
    if (ms_mem_open(&store, &desc, NULL) != MS_OK) { check(0, "open"); return; }
    for (;; n++) {
        cost_begin(&c);
        if (append(store, n, &seq) != MS_OK) break;
        cost_end(&c);
    }
    cost_print(&c, "append");
    figure("messages of 17 bytes in 32 KiB", n);
    check(n >= BOARD_MESSAGES,
          "no_fewer_messages_fit_than_before");
    users = (n + 7) / 8;
    check(count_view(store, MS_VIEW_TIMELINE, MS_STR("goblin"), 0) == n, "timeline_has_all");
    check(count_view(store, MS_VIEW_CONVERSATION, MS_STR("goblin"), 0) == users,
          "conversation_has_the_users_messages");
    check(count_view(store, MS_VIEW_AGENT, MS_STR("goblin"), 0) == n / 2,
          "an_agent_has_its_observations");
    check(count_view(store, MS_VIEW_TEAM, MS_STR("troll"), 0) == (n + 1) / 2,
          "a_team_has_its_members_messages");
    check(count_view(store, MS_VIEW_GLOBAL, MS_STR("goblin"), 0) == 0, "nothing_is_global");
    memset(&c, 0, sizeof c);
    cost_begin(&c);
    n10 = count_view(store, MS_VIEW_TIMELINE, MS_STR("goblin"), 10);
    cost_end(&c);
    cost_print(&c, "view");
    check(n10 == 10, "a_view_has_the_newest_ten");
    image = ms_mem_image(store);
    memcpy(flash_begin + 16, image.ptr, image.len);
    memcpy(flash_begin + 8, &image.len, sizeof image.len);
    memcpy(flash_begin + 4, &n, sizeof n);
}

/* Attaches what the first life left, and goes on. */
static void second_life(void)
{
    int64_t now = 1000000000;
    cost c = {0, 0, 0, 0};
    unsigned n;
    size_t len;
    uint64_t seq = 0;
    ms_mem_desc desc = describe(&now);
    ms_store *store;
    ms_stat stat;
    memcpy(&n, flash_begin + 4, sizeof n);
    memcpy(&len, flash_begin + 8, sizeof len);
    memcpy(buffer, flash_begin + 16, len);
    cost_begin(&c);
    if (ms_mem_attach(&store, &desc, NULL, NULL) != MS_OK) { check(0, "attach"); return; }
    cost_end(&c);
    cost_print(&c, "attach");
    memset(&c, 0, sizeof c);
    cost_begin(&c);
    (void)history(store, "");
    cost_end(&c);
    cost_print(&c, "history");
    check(ms_store_stat(store, &stat, NULL) == MS_OK && stat.messages == n,
          "the_image_has_all_messages_after_a_power_cut");
    check(append(store, n, &seq) == MS_E_FULL && seq == 0, "a_full_store_says_so");
    check(ms_mem_reset(store, NULL) == MS_OK && append(store, 3, &seq) == MS_OK && seq == 1,
          "a_store_begins_again");
    check(history(store, "goblin sees you03") == 1, "a_history_ends_with_the_newest");
    ((uint8_t *)buffer)[ms_mem_image(store).len - 9] ^= 1;
    check(ms_mem_attach(&store, &desc, NULL, NULL) != MS_OK, "a_damaged_image_is_refused");
}

#if defined(BOARD_RING) || defined(BOARD_FLASH)
/* Appends 1,000 messages to a ring of 32 KiB. */
static void ring_life(void)
{
    int64_t now = 0;
    cost c = {0, 0, 0, 0};
    unsigned n = 0;
    uint64_t seq = 0;
    ms_mem_desc desc = describe(&now);
    ms_store *store;
    ms_stat stat;
    desc.drop_oldest = true;
    if (ms_mem_open(&store, &desc, NULL) != MS_OK) { check(0, "open_ring"); return; }
    for (; n < 1000; n++) {
        cost_begin(&c);
        if (append(store, n, &seq) != MS_OK) break;
        cost_end(&c);
    }
    cost_print(&c, "ring");
    check(n == 1000 && seq == 1000, "a_ring_never_is_full");
    check(ms_store_stat(store, &stat, NULL) == MS_OK && stat.dropped > 0 &&
              stat.messages + stat.dropped == n,
          "a_ring_counts_what_it_drops");
    check(history(store, "goblin sees you99") > 0, "a_history_of_a_ring_ends_with_the_newest");
}
#endif

#ifdef BOARD_FLASH
#define SECTOR 4096u

static uint32_t fuel = ~0u; /* bytes that are programmed until power fails */

static bool flash_read(void *ctx, uint32_t at, void *out, uint32_t size)
{
    memcpy(out, (const uint8_t *)ctx + at, size);
    return true;
}

static bool flash_program(void *ctx, uint32_t at, const void *data, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++) {
        if (fuel-- == 0) power_cut();
        ((uint8_t *)ctx)[at + i] &= ((const uint8_t *)data)[i];
    }
    return true;
}

static bool flash_erase(void *ctx, uint32_t sector)
{
    memset((uint8_t *)ctx + sector * SECTOR, 255, SECTOR);
    return true;
}

/* Appends to flash, in the second life until power fails; what was acknowledged stands
 * beside it. */
static void flash_life(int again)
{
    static ms_flash flash;
    cost c = {0, 0, 0, 0};
    int64_t now = 0;
    unsigned n = 0;
    uint64_t seq = 0, acknowledged;
    ms_mem_desc desc = describe(&now);
    ms_store *store;
    ms_stat stat;
    flash = (ms_flash){.read = flash_read, .program = flash_program, .erase = flash_erase,
                       .ctx = flash_begin + SECTOR, .sector_size = SECTOR, .sectors = 12,
                       .unit = 8};
    memcpy(&acknowledged, flash_begin + 8, sizeof acknowledged);
    desc.flash = &flash;
    if (ms_mem_open(&store, &desc, NULL) != MS_OK) { check(0, "open_flash"); return; }
    check(ms_store_stat(store, &stat, NULL) == MS_OK, "a_flash_opens");
    if (again) {
        check(stat.last_seq == acknowledged && flash.torn == 1,
              "a_flash_has_what_was_acknowledged_and_no_more");
        check(append(store, 7, &seq) == MS_OK && seq == acknowledged + 1,
              "a_flash_goes_on_after_a_power_cut");
        check(history(store, "goblin sees you07") > 0, "a_history_of_a_flash_is_read");
        return;
    }
    for (; n < 1500; n++) {
        cost_begin(&c);
        if (append(store, n, &seq) != MS_OK) break;
        cost_end(&c);
    }
    cost_print(&c, "flash");
    check(n == 1500 && seq == n, "a_flash_never_is_full");
    memcpy(flash_begin + 8, &seq, sizeof seq);
    put("power is cut in an append\n");
    fuel = 60;
    (void)append(store, n, &seq);
    check(0, "power_is_cut");
}
#endif

#define LIFE 0x4c494645u

int main(void)
{
    uint32_t life;
    memcpy(&life, flash_begin, sizeof life);
#ifdef BOARD_FLASH
    if (life != LIFE) {
        life = LIFE;
        memcpy(flash_begin, &life, sizeof life);
        ring_life();
        flash_life(0);
    } else {
        flash_life(1);
    }
    figure("bytes of stack", stack_used());
    return failed;
#endif
#ifdef BOARD_RING
    if (life != LIFE) ring_life();
#endif
    if (life != LIFE) {
        life = LIFE;
        first_life();
        memcpy(flash_begin, &life, sizeof life);
        if (failed) return 1;
        put("power is cut\n");
        power_cut();
    }
    second_life();
    figure("bytes of stack", stack_used());
    return failed;
}
