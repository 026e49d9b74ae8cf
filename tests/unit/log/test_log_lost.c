/* [log-append], [log-index]: what a first append does with dead bytes after the end, and
 * with an end that the file has lost. Later handles report what is missing or damaged, and
 * each segment index carries the count. The scenarios are in scripts/log/lost.txt.
 */

#define _GNU_SOURCE
#include "log_bytes.h"
#include "scenario.h"

static uint64_t words_value(world *w, size_t at, size_t n)
{
    return file_get(file_of(w, w->at)->ro + at, n);
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
    uint64_t at = FILE_SUPERBLOCK;
    memset(&k, 0, sizeof k);
    k.bytes = f->ro;
    k.size = k.end = f->size;
    k.id = k.bytes + 24;
    while (at + FILE_LOST_SIZE <= k.size && (k.bytes[at + 4] != FILE_KIND_LOST || !is_record(&k, at)))
        at += 8;
    if (at < number(w, 1) || at > number(w, 2)) step_fails(w, "at %u", (unsigned)at);
    step_equals(w, "end", number(w, 3), file_get64(k.bytes + at + FILE_HEADER));
}

/* segment DAMAGED BYTES: what the newest segment index has counted. */
static void step_segment(world *w)
{
    size_t at = (size_t)words_value(w, 1088, 8);
    if (at == 0 || !file_is_segment(file_of(w, w->at)->ro + at))
        step_fails(w, "no index");
    step_equals(w, "ranges", number(w, 1), words_value(w, at + 108, 4));
    step_equals(w, "bytes", number(w, 2), words_value(w, at + 40, 8));
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
    {"verifies", step_verifies}, {"walks", step_walks},
    {"lost", step_lost}, {"segment", step_segment}, {"is_tail", step_is_tail},
    {"reports", step_reports}, {NULL, NULL}};

int main(void)
{
    return scenarios_run("log/lost", own);
}
