/* [log-sync], [log-open]: what is durable, when, and what is reported as durable.
 *
 * Scenarios (scenario.h), each with both engines: syncs that fail, writers that were
 * killed, damage before what is synced, other processes that take the lock during a sync,
 * rewrites in place. After a power loss the files have what was synced, or single pages
 * more; `cuts` tries the images between.
 */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"
#include "scenario.h"

/* A killed writer has left 24 messages: three of them synced, the fifth damaged. */
#define HURT(options)                                                                   \
    "open" options "; long 500 x3; sync; long 500; mark e; long 500 x20; kill; "        \
    "flip e+200; "

/* A log of two segments after three synced messages, from a killed writer. */
#define TWO_SEGMENTS                                                                    \
    "open; say a x3; sync; close; open segments; say below; long 5000; kill; "

static const scenario rows[] = {
    /* ---- a new name ---- */
    {"a_new_log_keeps_its_name_when_power_is_lost", 0, 0, 0,
     "open each; say one; cut; shows one"},
    /* somebody has put the file there, and synced neither it nor its folder */
    {"a_log_keeps_its_name_when_its_creator_synced_nothing", 0, 0, 0,
     "lies; open new; say one; close; honest;"
     "open; say two; sync; cut; shows 'one two'"},
    {"a_log_keeps_its_superblock_when_its_creator_was_killed_early", 0, 0, 0,
     "at sync 1 {keep kill}; open; on;"
     "open; say a; cuts; say a; cuts; say a; cuts"},
    {"a_rewrite_keeps_its_place_when_power_is_lost", 0, 0, 0,
     "open; say a; say b; say c; say d; say e; sync; rewrite 2; cut; shows 'd e'"},

    /* ---- the moment of a sync ---- */
    /* a checkpoint of a sync that has not ended would make records out of nothing */
    {"nothing_is_durable_when_power_is_lost_in_a_sync", 0, 0, 0,
     "open; say one; sync; say two;"
     "at sync 1 {keep cut 0; image shows one} {keep cut 0; image shows 'one two'};"
     "sync; acted"},
    {"a_sync_covers_what_was_there_before_it", 0, 0, 0,
     "open; say early; after sync 1 {say late}; sync; durable 1; unsynced;"
     /* the sync of the checkpoint took it along */
     "keep cut 0; image shows 'early late'"},
    /* its checkpoint names the index before the one that is written meanwhile */
    {"a_sync_covers_what_was_there_when_a_segment_ends_in_it", 0, 0, 0,
     "open segments; say a x100; at sync 1 {say late x100}; sync; acted; durable 100;"
     "cut; left 200; open segments; sees 200"},
    {"nothing_is_durable_when_the_sync_of_the_checkpoint_fails", 0, 0, 0,
     TWO_SEGMENTS "open; durable 3; say more;"
     "at sync 1 {durable 3} {durable 3; fails}; sync -> POISONED; acted; durable 3"},
    {"what_was_not_synced_is_not_reported_durable_when_its_writer_was_killed", 0, 0, 0,
     "open; say a x2; sync; close; open; say third; kill;"
     "reader open read; reader sees 3; reader durable 2; reader unsynced;"
     "open; durable 2; unsynced"},

    /* ---- a writer that was killed ---- */
    {"what_a_killed_writer_left_is_durable_when_it_was_synced", 0, 0, 0,
     "open; say a x20; kill; open; cuts; sync; durable 20; cuts"},
    {"a_close_syncs_its_appends_when_older_ones_cannot_be_written_again", 0, 0, 0,
     "open; say a x5; sync; say a; kill;"
     "open; say a; at write 1+ fail ENOSPC; close; cut; left 7"},
    /* the other writer is gone without a sync; this one has looked, not appended */
    {"a_close_syncs_its_appends_when_another_writer_died", 0, 0, 0,
     "open shared; say a x2; sync; say a x3;"
     "at sync 1+ fail EIO; other open; other say a; other close; at none;"
     "tick; close; cut; left 6"},
    /* its sync had failed, or not: nobody knows */
    {"what_a_sync_left_is_durable_when_it_failed_and_its_writer_was_killed", 0, 0, 0,
     "open; long 700 x20; fails; after sync 1 {keep kill}; sync -> POISONED; acted; on;"
     "open; sync; durable 20; cuts"},
    {"an_append_is_durable_with_all_before_it_when_a_writer_was_killed_in_a_sync", 0, 0, 0,
     "open; long 700 x20; fails; after sync 1 {keep kill}; sync -> POISONED; acted; on;"
     "open each; say b; durable 21; cuts"},
    {"a_shared_writer_makes_all_durable_when_another_was_killed_in_a_sync", 0, 0, 0,
     "open shared; long 700 x20; fails; after sync 1 {keep kill}; sync -> POISONED; acted;"
     "on; open shared; sync; durable 20; cuts"},
    {"a_shared_writer_makes_all_durable_when_a_sync_of_another_failed", 0, 0, 0,
     "open shared; other open shared; long 700 x20; fails; other sync -> POISONED;"
     "other close; sync; durable 20; cuts"},
    {"a_shared_writer_makes_all_durable_when_it_appends_after_the_sync_of_another_failed",
     0, 0, 0,
     "open shared; other open shared; long 700 x20; fails; other sync -> POISONED;"
     "other close; say b; sync; durable 21; cuts"},
    {"a_redaction_waits_when_a_sync_writes_again", 0, 0, 0,
     "open shared; say secret x3; kill; open shared; other open shared;"
     "at write 1 {other redact 2 -> BUSY}; sync; acted; at none; other redact 2"},
    {"a_sync_writes_no_record_again_when_the_writer_closed_the_log", 0, 0, 0,
     "open; close; open; say a x20; mark e; close;"
     "open each; count e; say b; sync; close; written 0; left 21"},
    {"a_log_without_syncs_writes_no_record_again_when_it_zeroes_dead_bytes", 0, 0, 0,
     "open; close; open; say a x20; mark e; kill; put64 e+800 7;"
     "open; count e; say b; written 0; left 21"},
    {"a_sync_writes_no_record_again_when_the_machine_restarted", 0, 0, 0,
     "open; close; open; say a x20; mark e; kill; restart;"
     "open each; count e; say b; sync; close; written 0; left 21"},

    /* ---- a sync that fails ---- */
    /* the pages are in memory, clean, and perhaps not on the disk */
    {"what_a_failed_sync_left_is_durable_when_it_was_synced_again", 0, 0, 0,
     "open; long 700 x20; fails; sync -> POISONED; close;"
     "open; cuts; sync; durable 20; cuts"},
    {"a_folder_that_cannot_be_opened_poisons_nothing", 0, 0, 0,
     "open; say a; close; open; say b; at sync_folder 1+ fail EMFILE; sync -> IO;"
     "at none; say c; sync; close; left 3"},
    {"a_folder_that_may_not_be_read_is_not_synced", 0, 0, 0,
     "open; say a; close; open; say b; at sync_folder 1+ fail EPERM; sync; at none;"
     "durable 2; close; left 2"},
    {"a_tick_fails_when_a_sync_failed", 0, 0, 0,
     "open; say a; fails; sync -> POISONED; tick -> POISONED"},
    {"an_append_reports_its_number_when_its_sync_failed", 0, 0, 0,
     "open; say a x3; close;"
     "open each; fails; batch 2 -> POISONED; first 4; last 5; sees 5;"
     "batch 2 -> POISONED; first 0; last 0; say a -> POISONED; last 0; close;"
     /* what was not synced is written and synced first */
     "open each; fails; say a -> POISONED; last 0; close;"
     "open each; say a; last 6; fails; say a -> POISONED; last 7"},
    {"an_append_reports_no_number_when_the_sync_of_the_folder_failed", 0, 0, 0,
     "open; say a x3; close;"
     "open each; at sync_folder 1+ fail EIO; batch 2 -> POISONED; first 0; last 0;"
     "sees 3;"
     "batch 2 -> POISONED; first 0; last 0; say a -> POISONED; last 0"},

    /* ---- damage before what is synced: the checkpoint has to be synced, too ---- */
    {"a_checkpoint_is_ignored_when_its_sync_failed", 0, 0, 0,
     HURT("") "open; at sync 1 {} {fails}; sync -> POISONED; acted; at none; close;"
     "open; sync; cut; left 23 any"},
    {"a_checkpoint_is_ignored_when_its_sync_failed_after_an_index_record", 0, 0, 0,
     HURT(" segments") "open segments; at sync 1 {} {fails}; sync -> POISONED; acted;"
     "at none; close; open segments; sync; cut; left 23 any"},
    {"an_erasure_during_a_sync_takes_nothing_with_it", 0, 0, 0,
     HURT("") "open; at sync 1 {erase}; sync; acted; cut; left 23 any"},
    {"an_erasure_during_a_later_sync_takes_nothing_with_it", 0, 0, 0,
     HURT("") "open; sync; long 500; at sync 1 {erase}; sync; acted; cut; left 24 any"},
    /* a sync that begins when bytes were erased while another one worked does not rely on
     * that one */
    {"an_erasure_is_synced_again_when_it_came_while_a_sync_worked", 0, 0, 0,
     HURT("") "open; after sync 1 {erase}; sync; acted; sync; cut; left 23 any;"
     "erased 1"},
    {"an_erasure_is_synced_again_when_it_came_while_the_checkpoint_was_synced", 0, 0, 0,
     HURT("") "open; after sync 1 {} {erase}; sync; acted; sync; cut; left 23 any;"
     "erased 1"},
    {"a_sync_is_busy_when_others_keep_its_checkpoint_from_being_stored", 0, 0, 0,
     HURT("") "open shared; at sync 1 {steal}; sync -> BUSY; acted; at none; release;"
     "sync; cut; left 23 any"},
    /* its record carries SYNCED, and needs no checkpoint */
    {"an_append_is_durable_after_damage_when_another_process_keeps_the_lock", 0, 0, 0,
     HURT("") "open shared each; at sync 1 {locked} {steal}; say b; acted; last 25;"
     "release; cut; left 24 any"},
    {"synced_appends_survive_when_a_record_before_them_is_damaged", 0, 0, 0,
     "open; close; open; say a; say 'not synced'; kill; damage 'not synced';"
     "open; say b x2; sync; cut; left 3 any"},
    {"synced_appends_survive_when_a_record_before_them_is_torn", 0, 0, 0,
     "open; close; open; say a; say 'not synced'; mark e; kill; truncate e-24;"
     "open; say b x2; sync; cut; left 3 any"},
    {"an_append_with_a_sync_survives_when_a_record_before_it_is_damaged", 0, 0, 0,
     "open; close; open; say a; say 'not synced'; kill; damage 'not synced';"
     "open each; say b; cut; left 2 any"},
    {"an_append_with_a_sync_survives_when_a_record_before_it_is_torn", 0, 0, 0,
     "open; close; open; say a; say 'not synced'; mark e; kill; truncate e-24;"
     "open each; say b; cut; left 2 any"},
    /* opening begins after the newest segment index, and does not see the damage */
    {"synced_appends_survive_when_unseen_damage_is_before_them", 0, 0, 0,
     TWO_SEGMENTS "damage below; open; say b x2; sync; cut; left 6 any"},
    {"synced_appends_survive_when_a_damaged_index_record_is_before_them", 0, 0, 0,
     TWO_SEGMENTS "flip @1088+200; open; say b x2; sync; cut; left 7 any"},

    /* ---- rewrites ---- */
    {"a_new_file_proves_all_its_bytes_when_a_rewrite_ends", 0, 0, 0,
     "open; long 300 x20; rewrite; cut; left 20; mark e; reader open read; events 0;"
     "reader close; flip e-20; reader open read; events 1"},
    {"the_last_batch_of_a_rewrite_is_whole_when_power_is_lost", 0, 0, 0,
     "open; long 700 x20; begin; run; batch 5 700; end; cuts 21 22 23 24;"
     "close; other sync; other cuts"},
    {"a_new_file_has_all_that_is_durable_when_the_source_synced_after_the_copy", 0, 0, 0,
     "open; long 700 x20; begin; run; say b; sync; durable 21; end -> BUSY;"
     "run; end; cuts"},
    {"a_rewrite_loses_nothing_when_it_is_killed_before_its_name_is_durable", 0, 0, 0,
     "open; long 300 x20; at sync_folder 2 {keep kill}; rewrite; acted; on;"
     "open; durable 20; cuts"},
    /* bytes of the new file are durable once its name is: the next writer syncs both */
    {"a_new_file_is_durable_with_its_name_when_its_writer_was_poisoned", 0, 0, 0,
     "open; long 300 x20; begin; run; end; other say b;"
     "at sync_folder 1 fail EIO; other sync -> POISONED; at none; close; other close;"
     "open ticked; at sync_folder 1 fail EIO; say c -> POISONED; durable 20; cuts"},
    {"a_new_file_is_durable_with_its_name_when_its_writer_was_killed_in_an_append", 0, 0, 0,
     "open; long 300 x20; begin; run; end; other say b x2; at write 1 {} {keep kill};"
     "other batch 3 700; on; open; say c; cuts"},
    {"a_new_file_is_durable_with_its_name_when_its_source_was_one", 0, 0, 0,
     "open; long 300 x20; begin; run; end; close; other say b x2;"
     "other begin; run; end; other durable 22; other cuts"},
    /* its pages are in memory, clean, and perhaps not on the disk */
    {"a_new_file_reports_what_both_files_have_when_a_sync_of_the_source_had_failed", 0, 0, 0,
     "open; long 700 x20; fails; sync -> POISONED; close;"
     "open; begin; run; after rename 1 {keep kill}; end; acted; other durable 20;"
     "other cuts; other close; close; on; open; durable 20; cuts"},
    {"a_new_file_is_durable_with_its_name_when_it_takes_the_place_of_another_log", 0, 0, 0,
     "open; say a x3; sync; close; other open elsewhere; other long 300 x20;"
     "other begin; run; end; other durable 20; other cuts"},
    /* after a power loss the old file ends at its damage */
    {"a_new_file_is_durable_with_its_name_when_its_source_is_damaged", 0, 0, 0,
     "open; say a; say hurt; say b x3; kill; damage hurt; open; begin; run;"
     "end -> DAMAGED; other durable 5; keep cut; image left 4 any"},
    {"a_new_file_reports_what_both_files_have_when_its_source_is_poisoned", 0, 0, 0,
     "open; long 700 x20; fails; sync -> POISONED; begin; run; end; other durable 20;"
     "other cuts"},
    /* appends to the old file would be durable in a file without a name */
    {"a_source_refuses_appends_when_its_new_name_may_not_be_durable", 0, 0, 0,
     "open each; say a x3; at sync_folder 2+ fail EMFILE; rewrite -> POISONED;"
     "says 'too many open files'; say lost -> POISONED; last 0; sync -> POISONED; close;"
     "at none; open each; say b; sees 4; keep cut; image left 4;"
     "at sync_folder 2+ fail EACCES; rewrite -> POISONED"},
    {"another_process_is_busy_when_a_rewrite_takes_the_place", 0, 0, 0,
     "open; say a x3; at rename 1 {other open elsewhere -> BUSY}; rewrite elsewhere;"
     "acted; left 3 any elsewhere"},
    {"the_place_is_empty_when_a_rewrite_failed", 0, 0, 0,
     "open; say a x3; at allocate 1+ fail ENOSPC; rewrite elsewhere -> FULL; names 1"},
    {"the_place_is_empty_when_a_rewrite_got_no_name", 0, 0, 0,
     "open; say a x3; at rename 1 fail EACCES; rewrite elsewhere -> IO; names 1"},
    /* nothing is at the place while the copy is made, also when that fails */
    {"the_place_stays_empty_when_an_open_file_cannot_be_replaced", 0, 0, 0,
     "open; say a x3; close; exact; open read; at allocate 1+ fail ENOSPC;"
     "rewrite elsewhere -> FULL; names 1; at rename 1 {absent}; rewrite elsewhere; acted;"
     "rewrite elsewhere -> CONFLICT; names 2; left 3 any elsewhere"},
    {"an_append_is_refused_when_a_rewrite_takes_the_place", 0, 0, 0,
     "open; say a x3; at sync 1 {say meanwhile}; rewrite; acted;"
     "say after -> CONFLICT; close; left 4"},
    {"an_append_is_refused_when_a_new_file_has_the_name", 0, 0, 0,
     "open; say a x3; at sync_folder 2 {say late -> CONFLICT}; rewrite; acted;"
     "say after -> CONFLICT; close; left 3"},
    /* a rewrite marks the file while the tick syncs its folder */
    {"a_tick_syncs_nothing_when_a_new_file_is_about_to_have_the_name", 0, 0, 0,
     "open; say a; close; open every ticked; long 3000 x10;"
     "at sync_folder 1 {put64 1224 1}; tick; acted; unsynced; close;"
     "put64 1224 0; left 11"},
    {"a_log_takes_appends_again_when_a_rewrite_failed", 0, 0, 0,
     "open; say a x3; at rename 1 fail EACCES; rewrite -> IO; at none; say b; close;"
     "open; at open 1+ fail EACCES; rewrite -> IO; at none; say c; close; left 5"},
    {"a_log_takes_appends_again_when_a_rewrite_was_killed", 0, 0, 0,
     "open; say a x3; close; put64 1224 1; open; say b; close; left 4"},
    {"a_log_is_busy_when_its_writer_has_left_no_number", 0, 0, 0,
     "open; say a; close; put64 1200 0; steal; open -> BUSY; says 'by another process';"
     "release; open; sees 1"},
    {"a_lock_is_taken_again_when_the_file_was_replaced_before_it", 0, 0, 0,
     "open; say a x3; sync; close;"
     "at lock 1 {other open read; other rewrite; other close};"
     "open; acted; say acknowledged; sync; close; left 4"},
};


/* ---- steps of this suite ---- */

/* Erases the first message; ms_redact itself would wait for the sync that goes on. */
static void step_erase(world *w)
{
    ms_query q;
    ms_cursor it;
    ms_store *store = store_of(w);
    memset(&q, 0, sizeof q);
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    const ms_msg *msg = ms_next(&it);
    assert_non_null(msg);
    assert_int_equal(store->backend->erase(store, msg, 0, NULL), MS_OK);
    (void)ms_cursor_close(&it, NULL);
}

/* How many records are marked as erased. */
static void step_erased(world *w)
{
    const sim_file *f = file_of(w, w->at);
    uint64_t n = 0;
    for (size_t at = SIM_PAGE; at + 32 <= f->high; at += 8)
        n += memcmp(f->ro + at + 24, "ARED", 4) == 0;
    step_compares(w, 1, "erased records", n, 0);
}

static ms_file stolen;

/* Another process takes the lock, if it can. */
static int take_lock(world *w)
{
    sim_disk *d = &w->disks[w->at];
    unsigned how = MS_OS_READ | MS_OS_WRITE;
    assert_int_equal(d->os.open(d, SCENARIO_LOG, how, &stolen), 0);
    return d->os.lock(d, stolen);
}

static void step_release(world *w)
{
    sim_disk *d = &w->disks[w->at];
    assert_int_equal(d->os.close(d, stolen), 0);
}

static void step_steal(world *w) { assert_int_equal(take_lock(w), 0); }

static void step_locked(world *w)
{
    assert_int_equal(take_lock(w), EAGAIN);
    step_release(w);
}

static uint64_t written_below, written_bytes;

static int count_write(void *ctx, ms_file file, uint64_t offset, const void *from,
                       size_t size, size_t *done)
{
    if (offset >= MS__SUPER_SIZE && offset < written_below) written_bytes += size;
    return sim_write(ctx, file, offset, from, size, done);
}

/* Counts from here on what is written between the superblock and a place. */
static void step_count(world *w)
{
    written_below = number(w, 1);
    written_bytes = 0;
    w->disks[w->at].os.write = count_write;
}

static void step_written(world *w)
{
    step_compares(w, 1, "bytes", written_bytes, 0);
    w->disks[w->at].os.write = sim_write;
}

static ms_rewrite rewrite;

static void step_begin(world *w)
{
    ms_error err;
    ms_log_desc desc = world_desc(w, MS_LOG_WRITE, &w->trips[w->at].os);
    bool more;
    memset(&rewrite, 0, sizeof rewrite);
    rewrite.source = store_of(w);
    rewrite.to = &desc;
    rewrite.replace = true;
    step_must(w, ms_rewrite_run(&rewrite, 1, &more, &err), &err);
}

static void step_run(world *w)
{
    ms_error err;
    bool more = true;
    step_must(w, ms_rewrite_run(&rewrite, 0, &more, &err), &err);
    assert_false(more);
}

static void step_end(world *w)
{
    ms_error err;
    ms_store *before = w->stores[OTHER];
    step_must(w, ms_rewrite_end(&rewrite, &w->stores[OTHER], &err), &err);
    if (w->stores[OTHER] != before) ms_close(before);
}

static const scenario_step own[] = {
    {"erase", step_erase}, {"erased", step_erased}, {"steal", step_steal},
    {"locked", step_locked}, {"release", step_release}, {"count", step_count},
    {"written", step_written}, {"begin", step_begin}, {"run", step_run},
    {"end", step_end}, {NULL, NULL}};

int main(void)
{
    return scenarios_run("log_sync", rows, sizeof rows / sizeof rows[0], own, NULL, 0);
}
