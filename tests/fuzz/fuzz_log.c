/* Fuzzes the file of a log.
 *
 *   byte 0    bits: checks of the superblock made to match, checks of the records, the
 *             watermark set and the writer made one of this machine, exact maps, the
 *             engine MAP, shared; two bits of sync mode
 *   byte 1    two bits: opened normal, strict, for salvage; bits: written to, copied,
 *             verified first, a reader beside the writer, the machine restarted
 *   byte 2    zeros behind the bytes, in units of 256
 *   the rest  the bytes that are not zero: two bytes of place, one of length, in units
 *             of 8, then the bytes
 *
 * The file is verified and opened to be read; every view, listing, search, number and
 * record is read to its last byte, in bounded steps; nothing behind the end of the file
 * is touched. Opened to be written, it takes messages and changes; closed and opened
 * again, what was appended is there, and, where nothing was damaged, as many messages as
 * before; but where it had an INDEX record, a header over a body that is not its own, or
 * numbers that do not rise, which with checks that hold may hide what they like. Left
 * out: full disks and failing calls, see fuzz_ops.c; two writers at once.
 */

#define _GNU_SOURCE
#define FUZZ_MOST 4096
#include "disk.h"
#include "store.h"
#include "hostile.h"

enum { FIT_SUPER = 1, FIT_RECORDS = 2, TRUSTED = 4, EXACT = 8, MAPPED = 16, SHARED = 32 };
enum { WRITTEN = 4, COPIED = 8, VERIFIED = 16, BESIDE = 32, RESTARTED = 64 };
enum { SUPER_SIZE = 8192, MOST_MESSAGES = 20000, WRITE_ROOM = 24 << 10 };

static fuzz_room drive_room;
static disk drive;
static ms_arena arena;
static fuzz_alloc heap;


/* ---- a file as an input: what is not zero ---- */

enum { FUZZ_FILE = 65536 };  /* bytes of the largest one */

/* Takes it apart into `file`, which has FUZZ_FILE bytes of zeros. Its size. */
static inline size_t fuzz_unpack(fuzz_input *in, unsigned char *file)
{
    size_t size = 0;
    while (fuzz_left(in) > 3) {
        size_t at = (size_t)fuzz_u16(in) * 8, len = fuzz_u8(in) * (size_t)8;
        if (at + len > FUZZ_FILE) continue;
        ms_str bytes = fuzz_bytes(in, len);
        if (bytes.len > 0) memcpy(file + at, bytes.ptr, bytes.len);
        if (at + len > size) size = at + len;
    }
    return size;
}


/* ---- the file ---- */

static uint64_t unpack(fuzz_input *in, unsigned zeros)
{
    disk_resize(&drive, FUZZ_FILE);
    uint64_t size = fuzz_unpack(in, drive.rw) + 256 * (uint64_t)zeros;
    disk_resize(&drive, size);
    drive.there = true;
    drive.room = size + WRITE_ROOM; /* a small file is quicker */
    return size;
}

static void fit_super(unsigned char *h)
{
    static const unsigned char begin[8] = {0x89, 'M', 'S', 'L', 13, 10, 26, 10};
    memcpy(h, begin, 8);
    file_put32(h + 8, FILE_VERSION);
    file_put32(h + 12, SUPER_SIZE);
    file_put32(h + 48, 1);
    file_seal_superblock(h);
}

/* Record by record. Where they end. */
static uint64_t walk(unsigned char *file, uint64_t size, bool fit)
{
    uint64_t at = SUPER_SIZE;
    while (at < size) {
        size_t step = fuzz_record_size(file + at, (size_t)(size - at));
        if (step == 0) break;
        if (fit) {
            if (file_is_segment(file + at)) file_seal_segment(file + 24, at, file + at);
            fuzz_seal_body(file + at);
            file_put32(file + at + FILE_AT_CHECK, file_check(file + 24, at, file + at));
        }
        at += step;
    }
    return at;
}

/* Is there perhaps an INDEX record, a header that holds over a body that does not, or a
 * message whose number is not above the last one's? With checks that hold they may hide
 * what they like, the second what comes to stand inside, the third what comes again. */
static bool may_hide(void)
{
    const unsigned char *file = drive.rw;
    uint64_t last = 0;
    for (uint64_t at = SUPER_SIZE; at + 48 <= drive.size; at += 8) {
        const unsigned char *r = file + at;
        size_t size = file_padded(file_get32(r));
        if (r[4] == 2 && r[5] >= 1 && r[5] <= 3) return true;
        if (size < 48 || file_get32(r + FILE_AT_CHECK) != file_check(file + 24, at, r)) continue;
        if (size > drive.size - at) return true;
        if (file_body_check(r) != file_get32(r + FILE_AT_BODY_CHECK)) return true;
        if (r[4] != 1) continue;
        if (file_get64(r + 8) <= last) return true;
        last = file_get64(r + 8);
    }
    return false;
}

static void make_file(fuzz_input *in, unsigned how, unsigned zeros)
{
    unsigned char *file = drive.rw;
    uint64_t size = unpack(in, zeros);
    if (size < SUPER_SIZE) return;
    uint64_t end = walk(file, size, (how & FIT_RECORDS) != 0);
    if (how & TRUSTED) {
        file_put64(file + 1024, end);
        file_put64(file + 1152, drive.boot);
        file_put64(file + 1160, 7);
        file_put64(file + 1168, drive.inode);
    }
    if (how & (FIT_SUPER | TRUSTED)) fit_super(file);
}

static unsigned damages;  /* told of so far */
static bool lies;         /* records were made to hold */

static void on_event(void *ctx, const ms_log_event *event)
{
    (void)ctx;
    damages += event->kind == MS_LOG_DAMAGE;
}

static ms_log_desc desc_of(unsigned how, ms_log_mode mode, ms_log_opening opening)
{
    ms_log_desc desc = fuzz_log_desc(&drive.os, (how & MAPPED) != 0);
    desc.mode = mode;
    desc.opening = opening;
    desc.sync = (ms_sync_mode)((how >> 6) % 3);
    desc.shared = (how & SHARED) && mode != MS_LOG_READ;
    desc.alloc = heap.alloc;
    desc.events.event = on_event;
    return desc;
}


/* ---- looking ---- */

static uint64_t count_all(ms_store *store)
{
    fuzz_eyes e = {&arena, MOST_MESSAGES, NULL};
    ms_query q;
    memset(&q, 0, sizeof q);
    return fuzz_ask(&e, store, &q);
}

static void search(ms_store *store)
{
    size_t n;
    ms_find_query q = {.text = {"e", 1}};
    (void)test_find_all(store, &q, MOST_MESSAGES + 1, &n, NULL);
    if (n > MOST_MESSAGES) fuzz_fail("searching has no end");
}

/* Whatever it shows, reading ends and stays inside. */
static void look(ms_store *store)
{
    fuzz_eyes e = {&arena, MOST_MESSAGES, NULL};
    ms_log_info info;
    ms_arena_reset(&arena);
    (void)ms_log_stat(store, &info, NULL);
    fuzz_look(&e, store);
    (void)fuzz_look_at_place(&e, store, MS_STR("a"));
    search(store);
    (void)ms_selfcheck(store, NULL);
}

static void copy(ms_store *store)
{
    ms_store *to;
    ms_mem_desc desc;
    ms_error err;
    memset(&desc, 0, sizeof desc);
    desc.chunk_size = 4096;
    desc.alloc = heap.alloc;
    if (ms_mem_open(&to, &desc, NULL) != MS_OK) fuzz_fail("no store to copy to");
    (void)ms_copy(to, store, NULL, &arena, NULL, NULL);
    if (ms_selfcheck(to, &err) != MS_OK) fuzz_fail("the copy: %s", err.message);
    ms_close(to);
}

static void verify(unsigned how)
{
    ms_log_desc desc = desc_of(how, MS_LOG_READ, MS_OPEN_NORMAL);
    ms_log_report report;
    ms_result result = ms_log_verify(&desc, &report, NULL);
    uint64_t found = report.damaged + report.index_damaged + report.lineage_damaged;
    if (result == MS_OK && found > 0)
        fuzz_fail("verify finds damage and says ok");
}

static void read_it(unsigned how, unsigned then)
{
    static const ms_log_opening openings[] = {MS_OPEN_NORMAL, MS_OPEN_STRICT,
                                              MS_OPEN_SALVAGE, MS_OPEN_NORMAL};
    ms_log_desc desc = desc_of(how, MS_LOG_READ, openings[then & 3]);
    ms_store *store;
    if (ms_log_open(&store, &desc, NULL) != MS_OK) return;
    look(store);
    if (then & COPIED) copy(store);
    ms_close(store);
}


/* ---- going on ---- */

/* Appends and changes. The number of the last message, 0: it was refused. */
static uint64_t write_some(ms_store *store, uint64_t last)
{
    ms_envelope batch[2] = {ms_user_message(ms_text("first of two")),
                            ms_message(MS_T_FINAL, ms_text("after"))};
    ms_append_opts opts;
    uint64_t seqs[2] = {0, 0}, one = 0;
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("a");
    opts.seqs = seqs;
    batch[1].agent_key = batch[1].key = MS_STR("a");
    if (ms_append(store, MS_STR("b"), &batch[0], &one, NULL) != MS_OK) return 0;
    if (one <= last && last != 0) fuzz_fail("a sequence number comes twice");
    (void)ms_amend(store, last, &batch[0], NULL);
    (void)ms_note(store, one, MS_STR("k"), ms_text("n"), NULL);
    (void)ms_hide(store, last / 2, NULL);
    (void)ms_location_set(store, MS_STR("a"), MS_STR("{\"x\":1}"), NULL);
    batch[1].key = ms_str_n(NULL, 0);
    if (ms_append_batch(store, batch, 2, &opts, NULL) != MS_OK) return 0;
    if (seqs[0] <= one || seqs[1] <= seqs[0]) fuzz_fail("sequence numbers do not rise");
    return seqs[1];
}

static bool is_damaged(ms_store *store)
{
    ms_cursor it;
    ms_query q = {.raw = MS_RAW_ALL};
    if (ms_query_open(store, &q, &it, NULL) != MS_OK) return false;
    while (ms_next(&it) != NULL) continue;
    return ms_cursor_close(&it, NULL) == MS_E_DAMAGED;
}

/* Changes that somebody made up are about what was there before them, too. A message is
 * there that may lack a damaged change; then a query over everything reports damage.
 * Where damage was told of and records were made to hold, a checkpoint or a mark can
 * divide the file so that handles walk different records of it: what one has appended may
 * be damaged to the other, or its segments be others, and that is said. */
static void must_have(ms_store *store, uint64_t seq)
{
    const ms_msg *msg = NULL;
    ms_error err;
    ms_result result = ms_get_by_seq(store, seq, &arena, &msg, &err);
    if (result == MS_E_DAMAGED && msg != NULL && ms_seq(msg) == seq && is_damaged(store))
        return;
    if (lies && damages > 0 && (result == MS_E_DAMAGED || result == MS_E_CONFLICT)) return;
    if (result != MS_OK)
        fuzz_fail("what was appended as %llu is not there: %s", (unsigned long long)seq,
                  err.message);
    if (!ms_str_equal(ms_content(msg).text, MS_STR("after"))) fuzz_fail("another text");
}

static void write_it(unsigned how, unsigned then)
{
    ms_log_desc desc = desc_of(how, MS_LOG_WRITE, MS_OPEN_NORMAL);
    ms_log_desc reading = desc_of(how, MS_LOG_READ, MS_OPEN_NORMAL);
    ms_store *store, *beside = NULL;
    ms_error err;
    ms_stat stat;
    bool plain = !may_hide();
    lies = (how & FIT_RECORDS) != 0;
    uint64_t seq = 0, before = 0, after = 0;
    damages = 0;
    if (ms_log_open(&store, &desc, NULL) != MS_OK) return;
    if (then & BESIDE) (void)ms_log_open(&beside, &reading, NULL);
    memset(&stat, 0, sizeof stat);
    if (ms_store_stat(store, &stat, NULL) == MS_OK)
        seq = write_some(store, stat.last_seq);
    before = count_all(store);
    if (seq != 0 && plain) must_have(store, seq);
    if (seq != 0 && plain && beside != NULL) must_have(beside, seq);
    bool synced = ms_sync(store, NULL, NULL) == MS_OK; /* BUSY: it may not write there */
    ms_close(store);
    ms_close(beside);
    if (then & RESTARTED) drive.boot++;
    ms_result result = ms_log_open(&store, &reading, &err);
    if (result == MS_E_FOREIGN) return; /* a kind that must be known, met late */
    if (result != MS_OK) fuzz_fail("it cannot be opened again: %s", err.message);
    if (seq != 0 && plain) must_have(store, seq);
    after = count_all(store);
    bool forged = (how & SHARED) && (how & TRUSTED); /* such a writer believes BUSY */
    if (plain && synced && damages == 0 && !forged && before != after)
        fuzz_fail("%llu messages before, %llu after it was opened again",
                  (unsigned long long)before, (unsigned long long)after);
    ms_close(store);
}

static void fuzz_one(const unsigned char *bytes, size_t size)
{
    fuzz_input in = {bytes, bytes + size};
    unsigned how = fuzz_u8(&in), then = fuzz_u8(&in), zeros = fuzz_u8(&in);
    fuzz_disk_begin(&drive, &drive_room);
    drive.os.exact_maps = (how & EXACT) != 0;
    fuzz_alloc_init(&heap);
    fuzz_drawn = 0;
    make_file(&in, how, zeros);
    if (then & VERIFIED) verify(how);
    read_it(how, then);
    if (then & WRITTEN) write_it(how, then);
    if (drive.files != 0 || drive.maps != 0 || drive.locked)
        fuzz_fail("files %d, maps %d, lock %d are left open", drive.files, drive.maps,
                  (int)drive.locked);
    if (heap.live != 0)
        fuzz_fail("%lu bytes were not given back", (unsigned long)heap.live);
    ms_arena_reset(&arena);
}


/* ---- changing inputs ----
 * Half of them as bytes; the others as the file that they are: hostile.h lies in
 * one to five places and puts the checks right. */

#if !defined(FUZZ_REPLAY) && !defined(FUZZ_AFL)
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t room, unsigned seed);

/* Packs a file for fuzz_unpack, after three bytes that choose what is done with it. 0: no room. */
static size_t fuzz_pack(const unsigned char *file, size_t size,
                        const unsigned char *head, unsigned char *out, size_t room)
{
    size_t used = 3, at = 0;
    if (room < 3) return 0;
    memcpy(out, head, 3);
    while (at + 8 <= size) {
        size_t end, last;
        if (file_get64(file + at) == 0) {
            at += 8;
            continue;
        }
        for (end = last = at; end + 8 <= size && end - at < 255 * 8 && end - last <= 16;
             end += 8)
            if (file_get64(file + end) != 0) last = end;
        end = last + 8;
        if (used + 3 + (end - at) > room) return 0;
        file_put(out + used, 2, at / 8);
        out[used + 2] = (unsigned char)((end - at) / 8);
        memcpy(out + used + 3, file + at, end - at);
        used += 3 + (end - at);
        at = end;
    }
    return used;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t room, unsigned seed)
{
    static unsigned char file[FUZZ_FILE], out[FUZZ_MOST];
    static size_t used;
    fuzz_input in = {bytes, bytes + size};
    uint64_t rng = seed;
    if (seed % 2 == 0 || size < 4) return LLVMFuzzerMutate(bytes, size, room);
    unsigned char head[3] = {(unsigned char)fuzz_u8(&in), (unsigned char)fuzz_u8(&in),
                             (unsigned char)fuzz_u8(&in)};
    memset(file, 0, used);
    used = fuzz_unpack(&in, file);
    size_t lied = used > 0 ? hostile_mutate(file, used, FUZZ_FILE, &rng) : 0;
    if (lied > used) used = lied;
    size_t packed = fuzz_pack(file, lied, head, out, room < FUZZ_MOST ? room : FUZZ_MOST);
    if (packed == 0) return LLVMFuzzerMutate(bytes, size, room);
    memcpy(bytes, out, packed);
    return packed;
}
#endif
