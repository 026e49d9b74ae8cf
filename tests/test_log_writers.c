/* [log-sync], [log-append], [log-open]: what one writer and several that share a log make
 * visible and durable, whose turn it is, and what they do after a call that failed.
 *
 * Scenarios (scenario.h), each with both engines.
 */

#define _GNU_SOURCE
#include "scenario.h"

/* 100 durable messages, and 5 after which a sync has failed. */
#define UNCONFIRMED                                                              \
    "open segments; say a x100; close; open; say b x5; at sync 1 fail EIO;"     \
    "sync -> POISONED; at none; close; "

/* A log of 20 messages, truncated to ten, with two writers. */
#define TRUNCATED                                                                \
    "open segments; say a x10; mark e; say a x10; close; truncate e;"            \
    "open shared; other open shared; other say b; say c; "

/* A call fails once while one of two writers appends: what failed was not appended, and
 * the other one goes on. */
#define TROUBLED(call)                                                              \
    {"another_writer_goes_on_when_a_" call "_failed", 1, 5, 1,                      \
     "open shared segments; other open shared segments; say a x3; other say b x40;" \
     "at " call " $ fail EIO; tries 1; at none; other say c x30; left 73+t;"        \
     "tries 2; other say c; left 74+t; close; other close; open; say d"}

static const scenario rows[] = {
    /* ---- visible and durable ---- */
    {"an_append_is_visible_at_once_and_durable_after_a_sync", 0, 0, 0,
     "open segments; reader open read;"
     "say a; sees 1; reader sees 1; say b x99; sees 100; reader sees 100;"
     "durable 0; unsynced; sync; durable 100; say c; durable 100; sync; durable 101;"
     "close; open; durable 101; sync; durable 101"},
    {"a_checkpoint_is_synced_when_a_caller_syncs_or_closes", 0, 0, 0,
     "open; say a; syncs ?; say b; syncs 0; sync; syncs 2; sync; syncs 0; say c;"
     "close; syncs 2; open each; syncs ?; say d; syncs 1; say e; syncs 1; sync;"
     "syncs 2; sync; syncs 0; say f; syncs 1; close; syncs 2; open; sync"},
    {"each_append_syncs_in_mode_each", 0, 0, 0,
     "open segments; close; open each; syncs ?; say a; syncs 1; durable 1; batch 5;"
     "syncs 1; durable 6; long 3000; syncs 1; durable 7; batch 5 900; syncs 1;"
     "durable 12"},
    {"a_sync_is_due_after_many_bytes_in_mode_every", 0, 0, 0,
     "open every; say x; sync; syncs ?; long 600 x30; syncs 0; long 600; syncs 1;"
     "durable 32; long 600 x30; syncs 0; long 600; syncs 1; durable 63; long 30000;"
     "syncs 1; durable 64; long 600 x20; syncs 0"},
    {"a_sync_is_due_after_a_time_in_mode_every", 0, 0, 0,
     "open every; syncs ?; later 200; say x; syncs >0; durable 1; say x; syncs 0; later 49;"
     "say x; syncs 0; later 2; say x; syncs >0; durable 4; later 30; say x; syncs 0;"
     "later 19; say x; syncs 0; later 10; say x; syncs >0; durable 7; later 1000; say x;"
     "syncs >0; later 49; say x; syncs 0; say x; syncs 0; later 51; say x; syncs >0;"
     "durable 11"},
    {"a_sync_that_is_due_waits_for_a_tick", 0, 0, 0,
     "open every ticked; syncs ?; later 200; say x; syncs 0; tick; syncs >0; durable 1;"
     "say x; tick; syncs 0; later 49; say x; tick; syncs 0; later 2; say x; syncs 0; tick;"
     "syncs >0; durable 4"},
    {"syncs_and_appends_go_on_when_a_clock_goes_back", 0, 0, 0,
     "open every; later 100000; say x; later 0-90000; say x; tick; syncs ?; later 60;"
     "say x x5; syncs >0; sees 7"},
    {"no_append_syncs_in_mode_none", 0, 0, 0,
     "open segments; syncs ?; say a x1000; syncs 0; sync; syncs 2"},
    {"a_sync_covers_what_others_have_appended", 0, 0, 0,
     "open shared; other open shared; say a; sync; durable 1; other say b; syncs ?;"
     "sync; durable 2; syncs >0; say c; other close; other open shared each; syncs ?;"
     "other say d; syncs 1; reader open read; reader durable 4; say e; syncs 0;"
     "other say f; other say g; syncs 2; reader sees 7; reader durable 7"},
    /* another writer appends and syncs while a sync works; its checkpoint stays, and is
     * stored once more, since a sync of it may have failed */
    {"what_is_durable_does_not_go_back_when_syncs_overlap", 0, 0, 0,
     "open shared; other open shared; say a; at sync 1 {other say b; other sync;"
     "other durable 2}; sync; acted; is @2048 @2560+1; is @2056 @2568;"
     "reader open read; reader durable 2; reader close; close; other close; open read;"
     "durable 2"},

    {"a_reader_of_an_empty_file_sees_it_begin", 0, 0, 0,
     "open; close; truncate 0; reader open read; reader sees 0; open; say a;"
     "reader sees 1; say b; reader sees 2"},

    /* ---- after a sync that failed: its bytes are written again before the next ---- */
    {"bytes_of_a_failed_sync_are_written_again_when_a_handle_syncs", 0, 0, 0,
     UNCONFIRMED "open; sees 105; is @1232 1001; at write 1 fail ENOSPC; sync -> FULL;"
     "at none; durable <101; is @1232 1001; writes ?; sync; writes >0; durable 105;"
     "sees 105; say c; is @1232 0"},
    {"nothing_becomes_durable_when_bytes_of_a_failed_sync_cannot_be_read", 0, 0, 0,
     UNCONFIRMED "open; at read 1 fail EIO; sync -> IO; at none; durable <101; sees 105;"
     "is @1232 1001; sync; durable 105; say c; is @1232 0"},
    {"nothing_becomes_durable_when_the_next_sync_fails_too", 0, 0, 0,
     UNCONFIRMED "open; at sync 1 fail EIO; sync -> POISONED; at none; durable <101;"
     "sees 105; close; open; is @1232 1001; sync; durable 105; say c;"
     "is @1232 0"},
    {"an_append_is_refused_when_it_cannot_sync_what_was_unconfirmed", 0, 0, 0,
     UNCONFIRMED "open each; at write 1 fail EIO; say c -> IO; at none; sees 105;"
     "durable <101; say c; durable 106; sees 106; is @1232 0"},
    {"bytes_of_a_failed_sync_stay_unconfirmed_when_they_cannot_be_written", 0, 0, 0,
     UNCONFIRMED "open shared; at lock 1+ fail EAGAIN; sync -> BUSY; at read 1+ fail EIO;"
     "say c -> IO; close; at none; open shared; durable <101; sees 105;"
     "is @1232 1001; mark e; truncate e-300; sync"},
    {"a_shared_writer_writes_again_at_its_close_when_a_sync_of_another_failed", 0, 0, 0,
     "open segments; say a x100; close; open shared; say a; other open shared;"
     "other say b; at sync 1 fail EIO; other sync -> POISONED; at none; other close;"
     "is @1232 1001; sees 102; close; open read; durable 102; sees 102"},
    {"a_shared_writer_writes_again_when_a_sync_of_another_failed", 0, 0, 0,
     "open segments; say a x100; close; open shared; say a; other open shared;"
     "other say b; at sync 1 fail EIO; other sync -> POISONED; at none; other close;"
     "is @1232 1001; say c; is @1232 0; close; open read; durable 103; sees 103"},
    {"a_superblock_that_cannot_be_written_again_opens_nothing", 0, 0, 0,
     "open; kill; at write 1 fail EIO; open -> IO; says superblock; at none; open; say a;"
     "sees 1"},
    {"a_superblock_that_cannot_be_synced_opens_nothing", 0, 0, 0,
     "open; kill; at sync 1 fail EIO; open -> IO; says superblock; at none; open; say a;"
     "sees 1"},
    /* in place of itself; a poisoned handle can be rewritten */
    {"an_old_file_is_not_replaced_when_it_cannot_be_synced", 0, 0, 0,
     "open; say a x100; close; open; say b; at sync 4 fail EIO; rewrite -> POISONED;"
     "sync -> POISONED; at none; names 1; rewrite; close; open; sees 101"},
    {"an_old_file_is_not_replaced_when_the_new_one_cannot_be_synced", 0, 0, 0,
     "open; say a x100; close; open; say b; sync; at sync 2 fail EIO; rewrite -> IO;"
     "at none; names 1; rewrite; close; open; sees 101"},

    /* ---- epochs, and the word at 1208: a writer may be storing ---- */
    {"a_writer_has_an_epoch_when_it_has_written", 0, 0, 0,
     "open; epoch 0; is @1208 0; say a; say b; epoch 1; is @1208 0-1; is @1160 7; close;"
     "is @1208 @1024; open; epoch 1; is @1208 @1024; say c; epoch 2; is @1208 0-1; close;"
     "is @1208 @1024; open; close; epoch 2"},
    {"shared_writers_go_on_in_one_epoch", 0, 0, 0,
     "open shared; say a; other open shared; other say b; say c; other close; epoch 1;"
     "other open shared; other say d; say e; other close; epoch 1; stored"},
    {"a_shared_writer_begins_anew_when_another_died_while_it_stored", 0, 0, 0,
     "open shared; say a x7; close; mark e; put64 e+16 0x5a5a5a5a5a5a5a5a;"
     "put64 1208 e+64; open shared; zeroed 0; say b; zeroed 24; epoch 2; stored; sees 8"},
    {"a_lost_record_is_written_once_when_writers_share_the_file", 0, 0, 0,
     TRUNCATED "other say d; say e; other say f; say g; close; other close;"
     "open read; damaged 1; sees 16 damaged"},
    {"a_lost_record_is_written_once_when_a_third_writer_died", 0, 0, 0,
     TRUNCATED "put64 1208 @1024+64; other say d; say e; other say f; say g; close;"
     "other close; open read; damaged 1; sees 16 damaged"},
    /* a writer died when its batch was written and not yet visible: another one writes over
     * the first message, and the second must not become valid with it */
    {"a_dead_batch_stays_dead_when_another_writer_takes_its_place", 0, 0, 0,
     "open shared; other open shared; say a; other say b; mark e; batch 2 8; put64 1024 e;"
     "other batch 1 8; other sees 3; boots 4711; reader open read; reader sees 3"},
    TROUBLED("stat"), TROUBLED("read"), TROUBLED("write"), TROUBLED("allocate"),
    TROUBLED("lock"), TROUBLED("map"),
    {"the_lock_stays_with_a_writer_whose_unlock_failed_until_it_goes_on", 0, 0, 0,
     "open shared; other open shared; say a; at unlock 1 fail EIO; say b; at none;"
     "other say c -> BUSY; say d; other say e; left 4"},
    {"writers_go_on_when_the_disk_was_full", 0, 0, 0,
     "open write shared; other open write shared; say a; other say b;"
     "at write 1+ fail ENOSPC; long 100000 -> FULL; other long 100000 -> FULL; at none; say c; other say d;"
     "at write 1+ fail ENOSPC; other long 100000 -> FULL; at none; other say e; say f;"
     "left 6"},
    {"the_place_of_a_large_append_is_cleaned_once_when_it_failed", 0, 0, 0,
     "open write shared; other open write shared; say a; at write 1 fail EIO;"
     "long 100000 -> IO; at none; say b; other say c; say b x20; other say c x20; say b;"
     "other say c; say b x3; other say c x4; close; other close; epoch <5; left 52"},

    /* ---- turns ---- */
    {"a_handle_for_reading_does_not_write", 0, 0, 0,
     "open; say a; reader open read; reader say x -> READ_ONLY;"
     "reader batch 2 -> READ_ONLY; reader amend 1 x -> READ_ONLY; reader tick;"
     "reader sees 1; close; reader close; left 1"},
    {"one_alone_between_shared_writers_holds_them_up", 0, 0, 0,
     "open shared; other open shared; say a; other say b; reader open;"
     "say x -> BUSY; says 'is being written by'; amend 1 x -> BUSY; reader say c; sees 3;"
     "other say y -> BUSY; other sees 3; reader amend 1 d; reader close; other sees 3;"
     "other say d; say e; reader open; reader close; other say f;" /* writes nothing */
     "sees 6; other sees 6; close; other close; epoch <4; shows 'd b c d e f'"},
    {"another_writer_is_refused_when_one_has_the_log_alone", 0, 0, 0,
     "open; other open shared -> BUSY; other open -> BUSY; say a; close; other open shared;"
     "other say b; reader open; other close; reader say c; left 3"},
    {"handles_of_a_replaced_file_refuse_appends_and_go_on_reading", 0, 0, 0,
     "open shared; other open shared; say a; other say b; rewrite;"
     "other say x -> CONFLICT; says 'open it anew'; say x -> CONFLICT;"
     "amend 1 x -> CONFLICT; other say x -> CONFLICT; sees 2; other sees 2;"
     "reader open shared; reader say c; sees 2; other sees 2; close; other close;"
     "reader say d; at rename 1 fail EACCES; reader rewrite -> IO; at none; reader say e;"
     "reader sees 5; reader close; left 5"},
    {"a_sync_that_failed_is_made_good_when_the_boot_number_is_unknown", 0, 0, 0,
     "boots 0; open; long 700 x20; fails; after sync 1 {keep kill}; sync -> POISONED;"
     "acted; on; open; sync; durable 20; cuts"},
    {"a_shared_writer_loses_nothing_when_the_boot_number_is_unknown", 0, 0, 0,
     "open; close; boots 0; open shared -> UNSUPPORTED; open; say a x20; close; boots 1001;"
     "left 20; open shared; say b; left 21"},
};


/* ---- steps of this suite ---- */

static uint64_t sync_calls, write_calls;

static int count_sync(void *ctx, ms_file file)
{
    sync_calls++;
    return sim_sync(ctx, file);
}

static int count_write(void *ctx, ms_file file, uint64_t offset, const void *from,
                       size_t size, size_t *done)
{
    write_calls++;
    return sim_write(ctx, file, offset, from, size, done);
}

/* How many calls since the last time; counted from the first time on. */
static void step_syncs(world *w)
{
    w->disks[w->at].os.sync = count_sync;
    step_compares(w, 1, "syncs", sync_calls, 0);
    sync_calls = 0;
}

static void step_writes(world *w)
{
    w->disks[w->at].os.write = count_write;
    step_compares(w, 1, "writes", write_calls, 0);
    write_calls = 0;
}

/* No writer may be storing after the end. */
static void step_stored(world *w)
{
    if (word_at(w, 1208) > word_at(w, 1024)) step_fails(w, "a writer may be storing");
}

/* So many milliseconds pass. */
static void step_later(world *w) { w->disks[w->at].micros += 1000 * number(w, 1); }

static void step_boots(world *w) { w->disks[w->at].boot = number(w, 1); }

static const scenario_step own[] = {
    {"syncs", step_syncs}, {"writes", step_writes}, {"stored", step_stored},
    {"boots", step_boots}, {"later", step_later}, {NULL, NULL}};

int main(void)
{
    return scenarios_run("log_writers", rows, sizeof rows / sizeof rows[0], own, NULL, 0);
}
