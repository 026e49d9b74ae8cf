/* [log-recover], [log-append]: the file becomes the state of a handle, whatever a crash,
 * a flipped bit or a truncation left in it, and appends go on from there. The scenarios are
 * in scripts/log/recover.txt. Left out: power losses at random moments (test_power), damage
 * at every byte (test_corrupt).
 */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"
#include "file_format.h"
#include "scenario.h"

/* Changes the newest checkpoint in both places: end, seq or generation N. */
static void step_checkpoint(world *w)
{
    unsigned char super[MS__SUPER_SIZE];
    memcpy(super, file_of(w, w->at)->ro, sizeof super);
    ms__checkpoint slot = ms__checkpoint_newest(super);
    uint64_t n = number(w, 2);
    slot.generation++;
    if (step_has(w, "end")) slot.end = n;
    if (step_has(w, "seq")) slot.seq = n;
    if (step_has(w, "generation")) slot.generation = n;
    for (unsigned i = 0; i < 2; i++) {
        uint32_t at = MS__AT_CHECKPOINTS + i * MS__CHECKPOINT_STEP;
        ms__checkpoint_encode(&slot, super + at);
        poke(w, at, super + at, MS__CHECKPOINT_SIZE);
    }
}

static void step_note(world *w)
{
    ms_error err;
    ms_value text = ms_text("note");
    step_must(w, ms_note(store_of(w), number(w, 1), MS_STR("k"), text, &err), &err);
}

/* The HIDE at a place has another last number, and checks that hold. */
static void step_reach(world *w)
{
    unsigned char r[200];
    uint64_t at = number(w, 1);
    const unsigned char *file = file_of(w, w->at)->ro;
    size_t size = ms__padded(ms__get32(file + at));
    assert_true(size <= sizeof r);
    memcpy(r, file + at, size);
    char *last = (char *)memmem(r, size, "\"last\":3", 8);
    assert_non_null(last);
    last[7] = (char)('0' + number(w, 2));
    file_seal(file + 24, at, r);
    poke(w, at, r, size);
}

static void step_verify(world *w)
{
    ms_error err;
    ms_log_report report;
    ms_log_desc desc = world_desc(w, MS_LOG_READ, &w->disks[w->at].os);
    step_must(w, ms_log_verify(&desc, &report, &err), &err);
}

static void step_refresh(world *w)
{
    ms_error err;
    step_must(w, test_refresh(store_of(w), NULL, &err), &err);
}

/* Appends a record of that kind, whose checks hold. */
static void step_kind(world *w)
{
    unsigned char r[56] = {0};
    ms__own_header(r, 48, MS__KIND_INDEX, 0, 9);
    r[4] = (unsigned char)number(w, 1);
    assert_int_equal(ms__record_put(ms__log_of(store_of(w)), r, NULL), MS_OK);
}

/* Stores the line of a writer of this boot. */
static void step_line(world *w)
{
    ms__writer_line line;
    unsigned char super[MS__SUPER_SIZE];
    memcpy(super, file_of(w, w->at)->ro, sizeof super);
    assert_true(ms__writer_decode(&line, super));
    line.boot = w->disks[w->at].boot;
    ms__writer_encode(&line, super + MS__AT_WRITER);
    poke(w, MS__AT_WRITER, super + MS__AT_WRITER, 40);
}

static void step_mappings(world *w)
{
    step_compares(w, 1, "mappings", ms__log_of(store_of(w))->map.n_mappings, 0);
}

/* The writer's process is killed, on the same disk; its handle is closed at the end. */
static void step_dies(world *w)
{
    file_of(w, w->at)->locker = 0;
    w->stores[OTHER] = w->stores[WRITER];
    w->stores[WRITER] = NULL;
}

/* Appends until the file has grown. */
static void step_grow(world *w)
{
    uint64_t size = stat_of(w).size;
    while (stat_of(w).size <= size + 65536) append_texts(w, MS_STR("meanwhile"), 1);
}

static void step_fill(world *w)
{
    ms_error err;
    ms_envelope m = ms_user_message(ms_text("one of many"));
    ms_result code = MS_OK;
    for (int i = 0; i < 100000 && code == MS_OK; i++)
        code = ms_append(store_of(w), MS_STR("here"), &m, NULL, &err);
    step_must(w, code, &err);
}

/* The image has the superblock that the log has now, and is another file. */
static void step_copy_head(world *w)
{
    sim_file *f = file_of(w, w->at + 1);
    memcpy(f->rw, file_of(w, w->at)->ro, SIM_PAGE);
    memcpy(f->base, f->rw, SIM_PAGE);
    f->inode++;
}

/* The first page is that of another log, of this machine, with a checkpoint. */
static void step_foreign(world *w)
{
    unsigned char super[MS__SUPER_SIZE], id[16] = {7};
    memcpy(super, file_of(w, w->at)->ro, sizeof super);
    memcpy(super + 24, id, sizeof id);
    file_seal_superblock(super);
    ms__checkpoint checkpoint = ms__checkpoint_newest(super);
    checkpoint.end += 4096;
    checkpoint.generation++;
    ms__checkpoint_encode(&checkpoint, super + MS__AT_CHECKPOINTS);
    poke(w, 0, super, sizeof super);
}

/* A fixed part, at a place, is of another version, and its check holds. */
static void step_version(world *w)
{
    unsigned char super[MS__SUPER_SIZE];
    uint64_t at = number(w, 1);
    memcpy(super, file_of(w, w->at)->ro + at, sizeof super);
    file_put32(super + 8, (uint32_t)number(w, 2));
    file_seal_superblock(super);
    poke(w, at, super, FILE_AT_WRITER);
}

/* Puts the mark of a redaction on the record at a place. */
static void step_redacted(world *w)
{
    ms__file_id id;
    unsigned char super[MS__HEADER];
    uint64_t at = number(w, 1);
    const sim_file *f = file_of(w, w->at);
    assert_int_equal(ms__super_decode(f->ro, SCENARIO_LOG, &id, NULL), MS_OK);
    memcpy(super, f->ro + at, sizeof super);
    ms__put32(super + MS__AT_BODY_CHECK, MS__ERASED);
    ms__put32(super + MS__AT_CHECK, ms__check_at(id.crc, at, super));
    poke(w, at, super, sizeof super);
}

static void step_has_flag(world *w)
{
    ms_arena arena;
    const ms_msg *msg;
    test_arena_init(&arena, NULL);
    assert_int_equal(ms_get_by_seq(store_of(w), number(w, 1), &arena, &msg, NULL), MS_OK);
    if (!(ms_flags(msg) & MS_FLAG_REDACTED)) step_fails(w, "it is not marked");
    ms_arena_deinit(&arena);
}

/* No message has a text of so many bytes. */
static void step_no_text(world *w)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    ms_store *store = new_reader(w);
    memset(&q, 0, sizeof q);
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL)
        if (ms_content(msg).text.len == number(w, 1)) step_fails(w, "there is one");
    (void)ms_cursor_close(&it, NULL);
    ms_close(store);
}

/* A sector is lost. */
static void step_rot(world *w)
{
    uint64_t at = number(w, 1);
    unsigned char sector[SIM_SECTOR];
    for (size_t i = 0; i < sizeof sector; i++)
        sector[i] = file_of(w, w->at)->ro[at + i] ^ 0xa5;
    poke(w, at, sector, sizeof sector);
}

static ms_alloc plenty;       /* of the handle that starves */
static uint64_t allocations_left;
static bool starves_on;

static void *starving(void *ctx, void *ptr, size_t old_size, size_t new_size)
{
    (void)ctx;
    bool fails = new_size > 0 && (allocations_left == 0 || --allocations_left == 0);
    if (fails && !starves_on) allocations_left = UINT64_MAX;
    if (fails) return NULL;
    return ms__resize(&plenty, ptr, old_size, new_size);
}

/* Opens the log, each allocation of that failing in turn, until none is left. */
static void step_open_starved(world *w)
{
    ms_error err;
    ms_log_desc desc = step_desc(w, MS_LOG_WRITE);
    test_alloc heap;
    size_t k = 0;
    do {
        ms_store *store = NULL;
        test_alloc_init(&heap);
        heap.fail_at = ++k;
        desc.alloc = heap.alloc;
        ms_result code = ms_log_open(&store, &desc, &err);
        w->want = heap.failed > 0 ? MS_E_NO_MEMORY : MS_OK;
        step_must(w, code, &err);
        ms_close(store);
        test_alloc_done(&heap);
    } while (heap.failed > 0);
}

/* Appends a text that ends in N zero bytes. */
static void step_nuls(world *w)
{
    char text[100] = "x";
    append_texts(w, ms_str_n(text, 1 + (size_t)number(w, 1)), 1);
}

/* The N-th allocation of the handle from here on fails; on: and all after it. */
static void step_starve(world *w)
{
    ms__log *log = ms__log_of(store_of(w));
    if (log->opts.alloc.resize != starving) plenty = log->opts.alloc;
    log->opts.alloc.resize = starving;
    allocations_left = number(w, 1);
    starves_on = step_has(w, "on");
}

/* Whole messages in PATH.torn; none: there is no such file. */
static void step_torn(world *w)
{
    ms_error err;
    ms_store *store;
    ms_result result;
    ms_log_desc desc = world_desc(w, MS_LOG_READ, &w->disks[w->at].os);
    desc.path = SCENARIO_LOG ".torn";
    desc.opening = MS_OPEN_SALVAGE;
    if (step_has(w, "none")) w->want = MS_E_NOT_FOUND;
    step_must(w, ms_log_open(&store, &desc, &err), &err);
    if (step_has(w, "none")) return;
    step_compares(w, 1, "messages", read_store(w, store, NULL, 0, &result), 0);
    assert_int_equal(result, MS_E_DAMAGED);
    ms_close(store);
}

static const scenario_step own[] = {
    {"checkpoint", step_checkpoint}, {"grow", step_grow}, {"fill", step_fill},
    {"copy_head", step_copy_head}, {"redacted", step_redacted},
    {"has_flag", step_has_flag}, {"no_text", step_no_text}, {"rot", step_rot},
    {"torn", step_torn}, {"version", step_version},
    {"starve", step_starve}, {"open_starved", step_open_starved}, {"nuls", step_nuls},
    {"dies", step_dies}, {"note", step_note},
    {"reach", step_reach}, {"verify", step_verify},
    {"refresh", step_refresh}, {"kind", step_kind}, {"line", step_line},
    {"mappings", step_mappings}, {"foreign", step_foreign},
    {NULL, NULL}};

int main(void)
{
    return scenarios_run("log/recover", own);
}
