/* [log-recover], [log-append]: the file becomes the state of a handle, whatever a crash,
 * a flipped bit or a truncation left in it, and appends go on from there.
 *
 * Scenarios (scenario.h), each with both engines, and files that were made to be slow,
 * large or wrong, with checks that hold. Left out: power losses at random moments
 * (test_power), damage at every byte (test_corrupt).
 */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"
#include "format.h"
#include "scenario.h"

/* Two durable messages. Of ten more a power loss has taken the first: nine are dead. */
#define DEAD_OF(bytes)                                                                  \
    "open; say m x2; sync; mark d; long " bytes "; mark e; long " bytes " x9; mark f;"  \
    "keep all; on; zero d e; left 2; "
#define DEAD DEAD_OF("330")

#define WORK                                                                            \
    "open segments; batch 3 700; say a x20; sync; batch 5 200; long 600 x5; close;"      \
    "open segments; say b x15; sync; batch 4 20; rewrite; close; open; batch 2; close"

static const scenario rows[] = {
    /* ---- killed ---- */
    {"appends_stay_when_the_writer_is_killed_at_any_call", 1, 420, 1,
     "at any $ {keep kill; image stands};" WORK},
    {"appends_stay_when_the_writer_is_killed_in_any_write", 1, 270, 1,
     "at half $ {keep kill; image stands};" WORK},
    {"appends_stay_when_a_recovery_is_killed_at_any_call", 1, 60, 1,
     DEAD "at any $ {keep kill; image stands}; open; say a; close; left 3"},
    {"a_log_opens_when_its_creation_ended_at_any_byte", 0, 4097, 11,
     "open; close; zero 1024 4096; put64 1024 4096; truncate $; stands"},

    /* ---- the watermark ---- */
    {"a_watermark_is_ignored_when_it_is_from_before_the_restart", 1, 8, 1,
     "open; say a x5; sync; close; restart; put64 1024 @1024+8192;"
     "at stat $ {other open; other say late; other close}; reader open read; at none;"
     "open; say first; same; say later x200; same; reader sound"},
    {"appends_stay_when_a_bit_of_the_watermark_flipped", 0, 64, 1,
     "open; say a x50; sync; close; flip 1024 $;"
     "open; say there x2; close; left 52 any; restart; left 52 any"},
    {"appends_of_a_shared_writer_stay_when_a_bit_of_the_watermark_flipped", 0, 64, 1,
     "open; say a x50; sync; close; flip 1024 $;"
     "open shared; say there x2; close; left 52 any; restart; left 52 any"},
    {"a_log_begins_after_the_superblock_when_its_watermark_is_inside", 0, 0, 0,
     "open; close; open; say 'not synced'; kill; put64 1024 56; zero 2048 2092;"
     "zero 2560 2604; open; say there x2; close; left 2 any"},
    {"a_log_of_a_shared_writer_begins_after_the_superblock_when_its_watermark_is_inside",
     0, 0, 0,
     "open; close; open; say 'not synced'; kill; put64 1024 56; zero 2048 2092;"
     "zero 2560 2604; open shared; say there x2; close; left 2 any"},
    /* a valid header reaches over what the next writer appends */
    {"new_appends_stay_when_the_watermark_is_inside_of_a_record", 8, 500, 8,
     "open; say a; sync; close; mark b; open; long 500; kill; put64 1024 b+$;"
     "open; say h x3; close; left 4 damaged; open; say h x3; close; left 7 damaged;"
     "open; say h x3; close; left 10 damaged; open; say h x3; close; left 13 damaged;"
     "restart; left 13 damaged; reader open read; reader sees 13 damaged;"
     "reader damaged 1"},
    {"readers_see_all_when_the_epoch_of_a_writer_is_torn", 0, 0, 0,
     "open; say a x3; sync; close; reader open read; open write; say before; dies;"
     "open write; at write@1184 1 midway ENOSPC; say 'no room' -> FULL; at none;"
     "reader sees 4; left 4; say again; reader sees 5"},
    /* of a copy the body was read before a message came, and the superblock after */
    {"a_copy_reads_as_after_a_crash_when_a_writer_ran_beside_it", 0, 0, 0,
     "open; say m x2; keep kill; say n; copy_head; image shows 'm m'"},
    {"a_log_is_not_opened_when_its_watermark_cannot_be_stored_again", 0, 0, 0,
     "open; say a x5; sync; close; put64 1024 4096; at write@1024 1 fail EIO;"
     "open write -> IO; says watermark; at none; open write; sees 5; is @1024 @2056"},
    {"a_reader_loses_nothing_when_the_watermark_goes_back", 0, 0, 0,
     "open; say a x9; mark e; reader open read; put64 1024 4160; reader sees 9;"
     "put64 1024 e; say b; reader sees 10"},
    {"messages_are_found_when_the_map_has_many_pieces", 0, 0, 0,
     "exact; open map; long 4000 x60; pieces >2; sees 60; redact 3; redact 60"},
    {"a_reader_from_before_a_recovery_sees_what_follows", 0, 0, 0,
     "open; say a; cut 0; reader open read; reader sees 0; open; say a; reader sees 1"},
    {"a_reader_reports_no_loss_when_it_opens_beside_a_sync", 1, 4, 1,
     "open; say a x3; sync; close; open; say there; after stat $ {grow; sync};"
     "reader open read; acted; at none; reader sound; same"},

    /* ---- truncated, torn, lost ---- */
    {"appends_are_visible_when_the_file_was_truncated_anywhere", 0, 400, 1,
     "open; say a x2; batch 3 84; sync; mark e; close; truncate e-400+$; restart;"
     "left ? any; open; say after; close; left +1 any"},
    {"messages_stay_when_a_truncated_one_has_them_inside", 0, 0, 0,
     "open; say a; sync; close; open; say before; mark a; long 3000; close;"
     "truncate a+512; open; say inside; say damaged; say 'inside, too'; close;"
     "damage damaged; left 4 any; open; long 3000; close; left 5 any; open; long 3000;"
     "close; left 6 any; open; long 3000; close; left 7 any; open; long 3000; close;"
     "left 8 any"},
    /* a redaction ended at its mark, which stands for the check of the body */
    {"messages_stay_when_a_redacted_one_was_truncated", 0, 0, 0,
     "open; say a; sync; close; open; say before; mark a; long 600; sync; close;"
     "redacted a; truncate a+128; open; say inside; long 600; close;"
     "shows 'a before inside' any"},
    {"numbers_of_lost_messages_are_not_given_again", 0, 0, 0,
     "open; say m x3; mark e; say m x3; say last; last 7; close; restart; truncate e;"
     "open; sees 3 damaged; say next; last >7"},
    {"new_messages_stay_when_those_of_a_segment_index_are_lost", 0, 0, 0,
     "open; say a x3; sync; close; mark d; open segments; say below; long 5000; kill;"
     "mark e; checkpoint end e; zero d @1088; restart; left ? any;"
     "open segments; say new; last >5; say new; kill; left +2 any"},
    /* the first record of a session is lost, its index record and an amendment are not */
    {"a_segment_index_is_not_followed_when_its_session_is_dead", 0, 0, 0,
     "open segments; say hello x3; sync; mark d; long 5000; say next; amend 1 amended;"
     "kill; left 5; contains amended; zero d @1088; restart;"
     "open; say after; close; shows 'hello hello hello after'"},
    /* VOID lies across two sectors: each of two writers leaves one, and the first bytes
     * of both are the same; together they are the first VOID, whose message is dead */
    {"a_dead_session_stays_dead_when_the_next_one_dies_at_its_place", 0, 0, 0,
     "open; long 443; close; mark e; is e 4584; open; long 20; cut 1 0xfe;"
     "open; long 40; cut 1 0x01; left 1"},
    /* the change of a lost message is about no message that comes later */
    {"a_number_is_not_given_again_when_an_amendment_is_about_it", 0, 0, 0,
     "open; say m x2; say lost; amend 3 amended; kill; damage lost;"
     "open; say new; last 4; close; shows 'm m new' damaged"},
    {"a_number_is_not_given_again_when_a_hide_is_about_it", 0, 0, 0,
     "open; say m x2; say lost; hide 3; kill; damage lost;"
     "open; say new; last 4; close; shows 'm m new' damaged"},
    {"a_number_is_not_given_again_when_a_hidden_range_ends_with_it", 0, 0, 0,
     "open; say m x2; say lost; hide 2 3; kill; damage lost;"
     "open; say new; last 4; close; shows 'm new' damaged"},
    {"a_number_is_not_given_again_when_a_note_is_about_it", 0, 0, 0,
     "open; say m x2; say lost; note 3; kill; damage lost;"
     "open; say new; last 4; close; shows 'm m new' damaged"},
    {"new_messages_are_shown_when_a_hide_reaches_into_the_future", 0, 0, 0,
     "open; say m x3; mark h; hide 2 3; kill; reach h 8;"
     "open; say new; last 9; close; shows 'm new'"},
    /* a durable file was truncated and goes on with a LOST record */
    {"lost_bytes_stay_reported_when_a_bit_of_their_record_flips", 0, 384, 3,
     "open; say m x5; mark e; say m x5; sync; close; truncate e; open; say m x3; close;"
     "left 8 damaged; flip e $; open segments; say m x40; close; left 48 damaged;"
     "reader open read; reader damaged >0; reader close; verify -> DAMAGED;"
     "open segments; say m x40; close; left 88 damaged;"
     "reader open read; reader damaged >0; verify -> DAMAGED"},
    {"damage_is_reported_when_it_is_after_the_last_checkpoint", 0, 0, 0,
     "open each; say m x2; mark e; say n x3; close; restart; zero 2048 3072; flip e+40;"
     "shows 'm m n n' damaged; reader open read; reader sees 4 damaged;"
     "reader damaged 1; open; sees 4 damaged; damaged 1; say x; last 6"},
    {"a_batch_is_kept_when_a_later_record_shows_that_it_was_synced", 0, 0, 0,
     "open each; say m x2; mark b; long 8; mark c; batch 3 8; say n x2; close; restart;"
     "zero 2048 3072; flip c+c-b+40; reader open read; reader sees 7 damaged;"
     "reader damaged 1; open; sees 7 damaged; damaged 1; say x; last 9"},
    {"a_reader_reports_no_damage_when_a_writer_begins_meanwhile", 0, 0, 0,
     "open each; say m x2; mark e; say n x3; close; restart; zero 2048 3072; flip e+40;"
     "at stat 3 {line}; reader open read; acted; reader sound"},
    {"damage_is_reported_when_too_little_follows_it", 0, 0, 0,
     "open; say m x3; mark b; say m; sync; mark e; put64 1024 e+16; flip b+40; kill;"
     "reader open read; reader damaged >0; reader sees 3 damaged"},
    {"messages_stay_when_the_durable_end_is_inside_of_a_record", 0, 0, 0,
     "open; say m x3; mark b; say m; sync; kill; checkpoint end b+16; flip b+40; restart;"
     "left 3 any"},
    {"messages_stay_when_the_file_ends_with_a_record_of_the_durable_end", 0, 0, 0,
     "open; say m x3; mark b; say m; sync; mark e; kill; checkpoint end b+16; flip b+40;"
     "truncate e; restart; left 3 any"},
    {"strict_opening_fails_when_there_are_bytes_after_the_end", 0, 0, 0,
     "open; say m x4; close; mark e; strict; strict write; flip e+100; strict;"
     "strict write -> DAMAGED; restart; strict -> DAMAGED; strict write -> DAMAGED;"
     "flip e+100; strict; strict write"},

    {"a_lost_record_reports_no_bytes_when_it_is_too_short", 0, 0, 0,
     "open; say m x3; kind 8; say m; close; reader open read; reader damaged 1;"
     "reader sees 4 damaged"},

    /* ---- records of an unknown kind ---- */
    {"a_refresh_fails_when_a_record_must_be_understood", 0, 0, 0,
     "open; say m x9; reader open read; kind 200; reader refresh -> FOREIGN"},
    {"a_verify_goes_on_when_a_record_is_of_kind_0", 0, 0, 0,
     "open; say m x3; kind 0; say m x2; close; verify -> DAMAGED; left 5 any"},

    /* ---- checkpoints ---- */
    {"a_checkpoint_is_ignored_when_its_check_does_not_match", 0, 0, 0,
     "open; say m x3; close; restart; flip 2059; flip 2571; shows 'm m m'"},
    {"the_largest_number_is_not_given_when_a_checkpoint_has_it", 0, 0, 0,
     "open; say a x2; sync; close; checkpoint seq 0xffffffffffffffff;"
     "open; say x; last >2; last <0xffffffffffffffff; close; left 3"},
    {"a_checkpoint_is_followed_by_a_newer_one_when_its_number_is_the_largest", 0, 0, 0,
     "open; say a x2; sync; close; checkpoint generation 0xffffffffffffffff;"
     "open; say 'will be damaged'; say stands; sync; kill; restart;"
     "damage 'will be damaged'; shows 'a a stands' damaged"},

    /* ---- dead bytes ---- */
    {"dead_bytes_stay_dead_when_the_log_is_salvaged", 0, 0, 0,
     "open; say m x2; sync; mark d; say dead x9; keep all; on; zero d d+32;"
     "open; sees 2; say new; close; reader open read salvage; reader sees 3"},
    {"an_append_fails_when_dead_bytes_cannot_be_zeroed", 0, 0, 0,
     DEAD "open; keeps 0 1232; at write@d 1+ fail EIO; say no -> IO; has 0 1232; sees 2;"
     "close; at none; left 2"},
    {"an_append_succeeds_when_dead_bytes_can_be_zeroed_again", 0, 0, 0,
     DEAD "open; at write@d 1+ fail EIO; say no -> IO; at none; long 330; close; restart;"
     "left 3"},
    /* also those in pages that get no record */
    {"zeros_are_written_again_when_their_sync_failed", 0, 0, 0,
     DEAD_OF("1500") "open; keeps 0 1232; fails; say no -> POISONED; has 0 1232;"
     "say no -> POISONED; sync -> POISONED; sees 2; close;"
     "open; long 1500; keep cut; image zeros d f; close; restart; left 3"},
    {"dead_messages_do_not_return_when_a_sector_is_lost", 4096, 6000, 512,
     DEAD "open; long 331 x5; sync; mark g; close; is_below $ g; rot $; restart;"
     "no_text 330; left >2 damaged; left <7 damaged"},
    {"dead_bytes_are_not_kept_when_it_is_not_asked_for", 0, 0, 0,
     DEAD "open; say alive x2; close; left 4; torn none"},
    /* zeroing did not end, as far as the superblock shows, and nothing is left of it */
    {"nothing_is_kept_when_there_are_no_dead_bytes", 0, 0, 0,
     "open; say m x2; sync; mark e; close; truncate e; put64 1232 @1152;"
     "open torn; say m; is @1232 0; torn none; close; left 3"},
    {"dead_bytes_are_kept_beside_the_log_when_it_is_asked_for", 0, 0, 0,
     DEAD "open torn; say alive x2; close; left 4; torn 9"},
    {"dead_bytes_are_kept_when_others_were_kept_before", 0, 0, 0,
     DEAD "open torn shared; say alive x2; sync; mark d; long 330; mark e; long 330 x9;"
     "keep all; on; zero d e; left 4; open torn shared; say alive; close; left 5;"
     "torn 9"},
    {"an_append_zeroes_nothing_when_dead_bytes_cannot_be_kept", 0, 0, 0,
     DEAD "open torn; keeps d 3000; at open 1+ fail EACCES; say no -> IO; has d 3000;"
     "at none; say now; close; left 3"},

    /* ---- redactions ---- */
    {"a_redaction_is_made_again_when_it_ended_at_its_mark", 0, 0, 0,
     "open; long 700; sync; at sync 1 {keep cut 1 1}; redact 1; acted; on;"
     "open; has_flag 1; no_text 10; redact 1; has_flag 1; shows [redacted]"},
    {"a_redaction_reports_a_damaged_record_when_it_passes_one_over", 0, 0, 0,
     "open; say m; sync; close; open; say 'secret 1'; mark a; amend 2 'secret 2'; close;"
     "flip a+32; restart; open; redact 2 -> DAMAGED; says damaged; lacks 'secret 1';"
     "contains 'secret 2'; redact 2 -> DAMAGED; say another"},

    /* ---- room ---- */
    /* a store into the map where nothing can be written ends in a signal */
    {"an_append_finds_no_room_when_zeros_cannot_be_written_ahead", 1, 4, 1,
     "open; say a x3; sync; close; open map; at write $+ fail ENOSPC; say no -> FULL;"
     "at none; say again; close; left 4"},
    {"appends_go_on_when_there_is_room_again", 0, 0, 0,
     "open; say a x3; sync; close; open map; say first; at write 1+ fail ENOSPC;"
     "fill -> FULL; mark e; is_below e 300000; at none; say last"},
    /* had it stored anything, the next opening would find a whole record */
    {"an_append_stores_nothing_when_no_map_can_be_made", 0, 0, 0,
     "exact; open; say first; at map 1+ fail ENOMEM; fill -> NO_MEMORY; at none; sees ?;"
     "keep all; image left +0; say next; sees +1"},
};


/* ---- steps of this suite ---- */

/* Changes the newest checkpoint in both places: end, seq or generation N. */
static void step_checkpoint(world *w)
{
    unsigned char head[MS__SUPER_SIZE];
    memcpy(head, file_of(w, w->at)->ro, sizeof head);
    ms__checkpoint slot = ms__checkpoint_newest(head);
    uint64_t n = number(w, 2);
    slot.generation++;
    if (step_has(w, "end")) slot.end = n;
    if (step_has(w, "seq")) slot.seq = n;
    if (step_has(w, "generation")) slot.generation = n;
    for (unsigned i = 0; i < 2; i++) {
        uint32_t at = MS__AT_CHECKPOINTS + i * MS__CHECKPOINT_STEP;
        ms__checkpoint_encode(&slot, head + at);
        poke(w, at, head + at, MS__CHECKPOINT_SIZE);
    }
}

/* Hides a message, or all up to another one. */
static void step_hide(world *w)
{
    ms_error err;
    ms_store *store = store_of(w);
    uint64_t seq = number(w, 1), last = number_or(w, 2, 0);
    step_must(w, last == 0 ? ms_hide(store, seq, &err)
                           : ms_hide_range(store, MS_STR("here"), seq, last, NULL, &err),
              &err);
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
    unsigned char r[48] = {0};
    ms__own_header(r, 40, MS__KIND_INDEX, 0, 9);
    r[4] = (unsigned char)number(w, 1);
    assert_int_equal(ms__record_put(ms__log_of(store_of(w)), r, NULL), MS_OK);
}

/* Stores the line of a writer of this boot. */
static void step_line(world *w)
{
    ms__writer_line line;
    unsigned char head[MS__SUPER_SIZE];
    memcpy(head, file_of(w, w->at)->ro, sizeof head);
    assert_true(ms__writer_decode(&line, head));
    line.boot = w->disks[w->at].boot;
    ms__writer_encode(&line, head + MS__AT_WRITER);
    poke(w, MS__AT_WRITER, head + MS__AT_WRITER, 40);
}

static void step_pieces(world *w)
{
    step_compares(w, 1, "pieces", ms__log_of(store_of(w))->map.n_pieces, 0);
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

/* Puts the mark of a redaction on the record at a place. */
static void step_redacted(world *w)
{
    ms__file_id id;
    unsigned char head[MS__HEADER];
    uint64_t at = number(w, 1);
    const sim_file *f = file_of(w, w->at);
    assert_int_equal(ms__super_decode(f->ro, SCENARIO_LOG, &id, NULL), MS_OK);
    memcpy(head, f->ro + at, sizeof head);
    ms__put32(head + 24, MS__ERASED);
    ms__put32(head + 28, ms__check_at(id.crc, at, head));
    poke(w, at, head, sizeof head);
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

static void step_is_below(world *w)
{
    if (number(w, 1) >= number(w, 2)) step_fails(w, "it is not");
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
    {"is_below", step_is_below}, {"torn", step_torn},
    {"dies", step_dies}, {"hide", step_hide}, {"note", step_note},
    {"reach", step_reach}, {"verify", step_verify},
    {"refresh", step_refresh}, {"kind", step_kind}, {"line", step_line},
    {"pieces", step_pieces},
    {NULL, NULL}};

int main(void)
{
    return scenarios_run("log_recover", rows, sizeof rows / sizeof rows[0], own, NULL, 0);
}
