/* [log-sync], [log-open]: what is durable, when, and what is reported as durable. The
 * scenarios are in scripts/log/sync.txt: syncs that fail, writers that were killed, damage
 * before what is synced, other processes that take the lock during a sync, rewrites in
 * place. After a power loss the files have what was synced, or single pages more; `cuts`
 * tries the images between.
 */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"
#include "scenario.h"

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
    for (size_t at = MS__FIRST_RECORD; at + 40 <= f->high; at += 8)
        n += memcmp(f->ro + at + MS__AT_BODY_CHECK, "ARED", 4) == 0;
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

/* Somebody removes the file. */
static void step_vanish(world *w)
{
    sim_disk *d = &w->disks[w->at];
    assert_int_equal(d->os.remove(d, SCENARIO_LOG), 0);
}

static uint64_t written_below, written_bytes;

static int count_write(void *ctx, ms_file file, uint64_t offset, const void *from,
                       size_t size, size_t *done)
{
    if (offset >= MS__FIRST_RECORD && offset < written_below) written_bytes += size;
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
    ms_log_desc desc = step_desc(w, MS_LOG_WRITE);
    ms_rewrite r = {.source = store_of(w), .to = &desc, .replace = true};
    bool more;
    step_must(w, ms_rewrite_run(&r, 1, &more, &err), &err);
    if (w->want == MS_OK) rewrite = r;
    else assert_int_equal(ms_rewrite_end(&r, NULL, NULL), MS_OK);
}

static void step_run(world *w)
{
    ms_error err;
    bool more = true;
    step_must(w, ms_rewrite_run(&rewrite, 0, &more, &err), &err);
    if (w->want == MS_OK) assert_false(more);
}

static void step_end(world *w)
{
    ms_error err;
    ms_store *before = w->stores[OTHER];
    step_must(w, ms_rewrite_end(&rewrite, &w->stores[OTHER], &err), &err);
    if (w->want == MS_E_BUSY || w->want == MS_E_CONFLICT) assert_null(w->stores[OTHER]);
    if (w->stores[OTHER] != before) ms_close(before);
}

static void step_give_up(world *w)
{
    ms_error err;
    step_must(w, ms_rewrite_end(&rewrite, NULL, &err), &err);
}

static const scenario_step own[] = {
    {"erase", step_erase}, {"erased", step_erased}, {"steal", step_steal},
    {"locked", step_locked}, {"release", step_release}, {"vanish", step_vanish},
    {"count", step_count},
    {"written", step_written}, {"begin", step_begin}, {"run", step_run},
    {"end", step_end}, {"give_up", step_give_up},
    {NULL, NULL}};

int main(void)
{
    return scenarios_run("log/sync", own);
}
