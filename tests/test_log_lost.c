/* [log-append], [log-index]: what a first append does with dead bytes after the end, and
 * with an end that the file has lost. Later handles report what is missing or damaged, and
 * each segment index carries the count.
 *
 * Scenarios (scenario.h), each with both engines.
 */

#define _GNU_SOURCE
#include "log_bytes.h"
#include "scenario.h"

/* A message, a hole of $ bytes, and two whole appends of a writer whose power was lost. */
#define DEAD                                                                      \
    "open; say one; sync; mark e; long 2500; mark h; say three; say four; mark f;" \
    "keep all; on; "

/* What is found of them: readers write nothing; the first append makes them zero. */
#define ZEROED                                                                    \
    "reader open read; reader sees 1; reader sound; reader zeroed 0; reader close;" \
    "open; sees 1; zeroed 0; close; contains four; open; say new; zeroed f-e; say new x29;" \
    "zeroed f-e; sees 31; lacks four; zeros @1024 f; walks 31 0 0; "

/* `n` messages, of which from b on some are lost; the log had ended at e. */
#define LOSES(n, m)                                                               \
    "open segments; say m x" #n "; mark b; say m; mark c; say m x" #m "; close; mark e;"

/* Of four messages in the last segment of a closed log one is damaged. */
#define FLIPPED                                                                   \
    "open; say m x2; mark b; say m; mark c; say m; sync; close; is_tail b; flip c-10;"

/* Every later handle reports it, for several segments. */
#define FOR_LONG(n, low, high)                                                    \
    "reports " #n " " low " " high "; open segments; long 500; close;"            \
    "reports " #n "+1 " low " " high "; open segments; long 500 x7; close;"      \
    "reports " #n "+8 " low " " high "; open segments; long 500 x30; close;"     \
    "reports " #n "+38 " low " " high "; "

static const scenario rows[] = {
    /* ---- dead bytes ---- */
    {"dead_bytes_are_zeroed_when_a_writer_appends", 8, 2532, 631,
     DEAD "zero e e+$; verifies 1 f-e; strict -> DAMAGED; reader open salvage read;"
     "reader sees >1 damaged; reader close;" ZEROED "epoch 2"},
    {"dead_bytes_after_a_watermark_are_zeroed_when_a_writer_appends", 8, 2532, 631,
     "open; say one; sync; mark e; long 2500; mark h; say three; say four; mark f; kill;"
     "put64 1024 e; zero e e+$; verifies 1 0; strict; reader open salvage read;"
     "reader sees >1 damaged; reader close;" ZEROED "epoch 2"},
    {"dead_bytes_that_are_no_zeros_are_zeroed_when_a_writer_appends", 0, 24, 8,
     DEAD "flip e+$; flip e+28; verifies 1 f-e; strict -> DAMAGED;" ZEROED},

    /* ---- a durable file is truncated: a LOST record is written ---- */
    {"a_truncated_file_gets_a_lost_record_when_a_writer_goes_on", 0, 0, 0,
     LOSES(70, 29) "truncate b; strict -> DAMAGED; says '1 damaged ranges';"
     "open segments; damaged 1; lost_end e; say new; last 101;"
     "close; lost b b e;" FOR_LONG(71, "e-b", "e-b") "walks 109 1 e-b"},
    {"a_file_gets_a_lost_record_when_its_last_message_was_truncated", 0, 48, 8,
     "open segments; say m x99; mark b; say m; mark c; close; mark e;"
     "truncate b+$; restart; strict -> DAMAGED; open segments; damaged >0; lost_end e;"
     "say new; last 101; close; lost b c e;" FOR_LONG(100, "e-c", "?")},
    {"a_file_gets_a_lost_record_when_it_was_truncated_inside_of_a_record", 8, 48, 8,
     LOSES(50, 49) "truncate b+$; open segments; damaged >0; lost_end e; say new; last 101;"
     "close; lost b c e;" FOR_LONG(51, "e-c", "?")},
    {"a_file_gets_a_lost_record_when_little_is_left", 0, 48, 24,
     LOSES(3, 96) "truncate b+$; restart; open segments; damaged >0; lost_end e; say new;"
     "last 101; close; lost b c e;" FOR_LONG(4, "e-c", "?")},
    /* whatever is appended in the end, later handles report what is missing */
    {"a_lost_record_is_written_when_a_write_has_failed", 1, 7, 1,
     LOSES(10, 9) "truncate b; open write; at write $ fail EIO; tries 3; close; at none;"
     "reports 10+t e-b ?; open; say m; close; reports 11+t e-b ?"},
    {"a_lost_record_is_written_when_a_sync_has_failed", 1, 4, 1,
     LOSES(10, 9) "truncate b; open write; at sync $ fail EIO; tries 3; close; at none;"
     "reports 10+t e-b ?; open; say m; close; reports 11+t e-b ?"},
    {"a_lost_record_is_durable_when_the_folder_could_not_be_opened_before_it", 0, 0, 0,
     LOSES(10, 9) "truncate b; open; at sync_folder 1 fail EMFILE; say new -> IO; say new;"
     "cut; lost b b e"},
    {"a_lost_record_is_written_when_an_allocation_has_failed", 1, 4, 1,
     LOSES(10, 9) "truncate b; open write; at allocate $ fail EIO; tries 3; close; at none;"
     "reports 10+t e-b ?; open; say m; close; reports 11+t e-b ?"},

    /* ---- a bit of a message flips before its segment index is written ---- */
    {"damage_is_counted_in_every_later_segment_index", 0, 0, 0,
     "open; say m x3; close;" FLIPPED FOR_LONG(6, "c-b", "c-b") "leaf 1 c-b"},
    {"damage_is_counted_when_more_is_before_it_in_the_segment", 0, 0, 0,
     "open; say m x20; close;" FLIPPED FOR_LONG(23, "c-b", "c-b") "leaf 1 c-b"},
    {"damage_is_counted_when_segments_are_before_it", 0, 0, 0,
     "open segments; say m x120; close;" FLIPPED FOR_LONG(123, "c-b", "c-b") "leaf 1 c-b"},
};


/* ---- steps of this suite ---- */

static uint64_t words_value(world *w, size_t at, size_t n)
{
    return file_get(file_of(w, w->at)->ro + at, n);
}

static void step_lost_end(world *w)
{
    step_compares(w, 1, "end of what was lost", stat_of(w).lost_end, 0);
}

/* verifies MESSAGES TORN: what ms_log_verify reports of a file without damage. */
static void step_verifies(world *w)
{
    ms_error err;
    ms_log_report report;
    ms_log_desc desc = world_desc(w, MS_LOG_READ, &w->disks[w->at].os);
    step_must(w, ms_log_verify(&desc, &report, &err), &err);
    step_equals(w, "messages", number(w, 1), report.messages);
    step_equals(w, "torn bytes", number(w, 2), report.torn_bytes);
}

/* walks MESSAGES DAMAGED BYTES: by the words of the essay. */
static void step_walks(world *w)
{
    const sim_file *f = file_of(w, w->at);
    walk k = walk_of((const char *)f->ro, (size_t)f->size, false);
    step_equals(w, "messages", number(w, 1), k.messages);
    step_equals(w, "ranges", number(w, 2), k.damaged);
    step_equals(w, "bytes", number(w, 3), k.damaged_bytes);
    walk_free(&k);
}

/* lost LOW HIGH END: where the first LOST record stands, and the end that it has. */
static void step_lost(world *w)
{
    const sim_file *f = file_of(w, w->at);
    walk k;
    uint64_t at = FILE_HEAD;
    memset(&k, 0, sizeof k);
    k.bytes = f->ro;
    k.size = k.end = f->size;
    k.id = k.bytes + 24;
    while (at + 48 <= k.size && (k.bytes[at + 4] != FILE_KIND_LOST || !is_record(&k, at)))
        at += 8;
    if (at < number(w, 1) || at > number(w, 2)) step_fails(w, "at %u", (unsigned)at);
    step_equals(w, "end", number(w, 3), file_get64(k.bytes + at + FILE_HEADER));
}

/* leaf DAMAGED BYTES: what the newest segment index has counted. */
static void step_leaf(world *w)
{
    size_t at = (size_t)words_value(w, 1088, 8);
    if (at == 0 || !file_is_leaf(file_of(w, w->at)->ro + at)) step_fails(w, "no index");
    step_equals(w, "ranges", number(w, 1), words_value(w, at + 100, 4));
    step_equals(w, "bytes", number(w, 2), words_value(w, at + 32, 8));
}

/* No segment index is after that place. */
static void step_is_tail(world *w)
{
    if (words_value(w, 1088, 8) >= number(w, 1)) step_fails(w, "it is sealed");
}

/* One range of damage, of so many bytes (words 2 and 3); "?": or more of both. */
static void must_be_harm(world *w, const char *who, uint64_t ranges, uint64_t bytes)
{
    bool more = strcmp(w->words[3], "?") == 0;
    if (ranges < 1 || bytes < number(w, 2) ||
        (!more && (ranges > 1 || bytes > number(w, 3))))
        step_fails(w, "%s: %u ranges, %u bytes", who, (unsigned)ranges, (unsigned)bytes);
}

static void handle_must_report(world *w, ms_log_mode mode, ms_log_opening opening)
{
    ms_error err;
    ms_result result;
    ms_log_info info;
    ms_store *store;
    ms_log_desc desc = world_desc(w, mode, &w->disks[w->at].os);
    desc.opening = opening;
    if (ms_log_open(&store, &desc, &err) != MS_OK) step_fails(w, "%s", err.message);
    assert_int_equal(ms_log_stat(store, &info, NULL), MS_OK);
    step_equals(w, "messages", number(w, 1), read_store(w, store, NULL, 0, &result));
    step_equals(w, "the cursor's result", MS_E_DAMAGED, (uint64_t)result);
    if (opening == MS_OPEN_NORMAL) must_be_harm(w, "stat", info.damaged, info.damaged_bytes);
    else if (info.damaged == 0) step_fails(w, "salvage reports no damage");
    ms_close(store);
}

/* reports MESSAGES LOW HIGH: readers, salvage, strict, verify, before a restart and after
 * one, and a writer, which appends nothing. */
static void step_reports(world *w)
{
    sim_disk *d = &w->disks[w->at];
    uint64_t changes = d->changes;
    ms_error err;
    ms_log_report report;
    ms_log_desc desc = world_desc(w, MS_LOG_READ, &d->os);
    for (int restarted = 0; restarted < 2; restarted++) {
        d->boot += (uint64_t)restarted;
        handle_must_report(w, MS_LOG_READ, MS_OPEN_NORMAL);
        handle_must_report(w, MS_LOG_READ, MS_OPEN_SALVAGE);
        w->want = MS_E_DAMAGED;
        step_strict(w);
        step_must(w, ms_log_verify(&desc, &report, &err), &err);
        must_be_harm(w, "verify", report.damaged, report.damaged_bytes);
        step_equals(w, "messages", number(w, 1), report.messages);
    }
    d->boot--;
    step_equals(w, "changes of the file", changes, d->changes);
    handle_must_report(w, MS_LOG_WRITE, MS_OPEN_NORMAL);
}

static const scenario_step own[] = {
    {"lost_end", step_lost_end},
    {"verifies", step_verifies}, {"walks", step_walks},
    {"lost", step_lost}, {"leaf", step_leaf}, {"is_tail", step_is_tail},
    {"reports", step_reports}, {NULL, NULL}};

int main(void)
{
    return scenarios_run("log_lost", rows, sizeof rows / sizeof rows[0], own, NULL, 0);
}
