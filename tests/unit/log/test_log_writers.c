/* [log-sync], [log-append], [log-open]: what one writer and several that share a log make
 * visible and durable, whose turn it is, and what they do after a call that failed. The
 * scenarios are in scripts/log/writers.txt.
 */

#define _GNU_SOURCE
#include "scenario.h"

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
    return scenarios_run("log/writers", own);
}
