/* Fuzzes the image of an arena store.
 *
 *   byte 0    bits: checks computed anew; salvage; more room behind it; the end set, too
 *   the rest  the image
 *
 * The bytes are attached to, raw, or with the checks of the header and of every record
 * made to match, so that it is not them that refuse. Refused, they are as before.
 * Attached, the store passes its own check; what each view, listing, search and number
 * shows is read to the last byte; messages are appended, amended, hidden, noted; the
 * image that is then there is attached to once more and has the same records.
 * Left out: appending until it is full, see test_mem_buffer.c.
 */

#define _POSIX_C_SOURCE 200809L
#define FUZZ_MOST 4096
#include "store.h"

enum { RECHECK = 1, SALVAGE = 2, ROOMY = 4, SET_END = 8 };
enum { HEADER = 64, ROOM = 16384 };

static uint64_t first_room[ROOM / 8], second_room[ROOM / 8];
static ms_arena arena;


/* ---- checks anew ---- */

static void seal(unsigned char *image, size_t at)
{
    unsigned char seed[16], *r = image + at;
    memcpy(seed, image + 16, 8);
    file_put64(seed + 8, at);
    fuzz_seal_body(r);
    file_put32(r + FILE_AT_CHECK,
               file_crc(file_crc(0, seed, 16), r, FILE_AT_CHECK));
}

static void recheck(unsigned char *image, size_t size, bool set_end)
{
    static const unsigned char begin[16] = {0x89, 'M', 'S', 'G', 13, 10, 26, 10, 1};
    size_t at = HEADER, step;
    if (size < HEADER) return;
    memcpy(image, begin, sizeof begin);
    while ((step = fuzz_record_size(image + at, size - at)) != 0) {
        seal(image, at);
        at += step;
    }
    if (set_end) file_put64(image + 24, at);
    file_put32(image + 32, file_crc(0, image, 24));
    file_put32(image + 36, file_crc(0, image + 16, 16));
}


/* ---- looking ---- */

static void look(ms_store *store)
{
    fuzz_eyes e = {&arena, FUZZ_MOST, NULL};
    fuzz_look(&e, store);
    if (e.odd != NULL) fuzz_fail("it shows something odd: %s", e.odd);
}


/* ---- going on ---- */

static bool change(ms_store *store)
{
    ms_envelope m = ms_user_message(ms_text("new")), other = ms_message(MS_T_FINAL,
                                                                        ms_text("other"));
    uint64_t seq = 0, after = 0;
    ms_stat stat;
    m.agent_key = MS_STR("a");
    (void)ms_store_stat(store, &stat, NULL);
    ms_result result = ms_append(store, MS_STR("a"), &m, &seq, NULL);
    if (result != MS_OK) {
        if (result != MS_E_FULL && stat.last_seq < UINT64_MAX - 8)
            fuzz_fail("append: %s", ms_result_text(result));
        return false;
    }
    if (seq <= stat.last_seq) fuzz_fail("a sequence number comes twice");
    (void)ms_append(store, MS_STR("b"), &other, &after, NULL);
    (void)ms_note(store, seq, MS_STR("k"), ms_text("n"), NULL);
    (void)ms_amend(store, stat.last_seq, &other, NULL);
    (void)ms_hide(store, after, NULL);
    (void)ms_location_set(store, MS_STR("a"), MS_STR("{\"x\":1}"), NULL);
    (void)ms_hide_range(store, MS_STR("a"), 1, seq - 1, NULL, NULL);
    return true;
}

static ms_result attach(ms_store **store, uint64_t *room, size_t size, bool salvage,
                        uint64_t *damaged)
{
    /* a byte too far is after the array */
    ms_mem_desc desc = fuzz_mem_desc(room + (ROOM - size) / 8, size);
    desc.salvage = salvage;
    return ms_mem_attach(store, &desc, damaged, NULL);
}

/* What was written is attached to: the same records. */
static void attach_again(ms_store *store, size_t size)
{
    ms_store *again;
    uint64_t damaged;
    ms_stat a, b;
    ms_str image = ms_mem_image(store);
    memcpy((unsigned char *)(second_room + (ROOM - size) / 8), image.ptr, image.len);
    ms_result result = attach(&again, second_room, size, false, &damaged);
    if (result == MS_E_FULL) return; /* postings of a fresh store are packed otherwise */
    if (result != MS_OK)
        fuzz_fail("its own image is refused: %s", ms_result_text(result));
    (void)ms_store_stat(store, &a, NULL);
    (void)ms_store_stat(again, &b, NULL);
    if (a.messages != b.messages || a.last_seq != b.last_seq || a.hidden != b.hidden ||
        a.changes != b.changes || a.bytes != b.bytes)
        fuzz_fail("attached again it has other totals");
    look(again);
    ms_close(again);
}

static void fuzz_one(const unsigned char *bytes, size_t size)
{
    unsigned how = size > 0 ? bytes[0] : 0;
    size_t len = size > 0 ? size - 1 : 0;
    size_t all = (len + (how & ROOMY ? 6000 : 1200) + 7) & ~(size_t)7;
    ms_store *store;
    ms_error err;
    uint64_t damaged = 0;
    if (all < MS_MEM_MIN) all = MS_MEM_MIN;
    unsigned char *image = (unsigned char *)(first_room + (ROOM - all) / 8);
    memset(image, 0, all);
    if (len > 0) memcpy(image, bytes + 1, len);
    if (how & RECHECK) recheck(image, len, (how & SET_END) != 0);
    fuzz_drawn = 0;
    memcpy(second_room, image, len);
    if (attach(&store, first_room, all, (how & SALVAGE) != 0, &damaged) != MS_OK) {
        if (store != NULL) fuzz_fail("refused, but there is a store");
        size_t end = len < 32 ? len : (size_t)file_get64(image + 24);
        if (!(how & SALVAGE) && memcmp(second_room, image, end < len ? end : len) != 0)
            fuzz_fail("refused, but changed");
        return;
    }
    if (damaged > 0 && !(how & SALVAGE)) fuzz_fail("damage without salvage");
    if (ms_selfcheck(store, &err) != MS_OK && damaged == 0)
        fuzz_fail("selfcheck: %s", err.message);
    if (damaged == 0) look(store);
    bool changed = change(store);
    if (damaged == 0 && ms_selfcheck(store, &err) != MS_OK)
        fuzz_fail("selfcheck after changes: %s", err.message);
    if (damaged == 0 && changed) attach_again(store, all);
    ms_close(store);
    ms_arena_reset(&arena);
}
