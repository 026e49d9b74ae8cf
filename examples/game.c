/* 200 agents in a game of 60 frames a second, with one log that does not grow without
 * end. The frame thread appends what agents see and do, and waits for no disk. A second
 * thread reads histories. A third one syncs, and every so many frames rewrites the log
 * beside the appends: retention (the newest messages), in between a compaction that keeps
 * all. The frame thread then takes over the new store with one call. Printed: the longest
 * time that the store took of a frame, beside that of a loop of the same length without
 * it. From 10,000 frames on the exit status is 1 if that is over 2 ms longer. Left out: a
 * game. The arguments: frames (600), microseconds of a frame (16667), the log (game.msl).
 * Build by hand, in the folder of msgstore.h:
 *
 *     cc -std=c99 -O2 -pthread -I/usr/include/stb -o game examples/game.c
 */
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { AGENTS = 200, ACTING = 10, KEPT = 20000, EVERY = 250 };
enum { BEYOND_US = 2000, COMPARED = 10000 };

/* The state of the rewrite. Each thread waits for its own states and sets the next
 * one. */
enum { IDLE, WANTED, READY, OLD };

typedef struct game {
    ms_store *store;          /* atomic: of the frame thread; others read it */
    ms_store *old;            /* replaced: to be closed */
    ms_store *reading;        /* atomic: what the reader uses; NULL: nothing */
    ms_log_desc desc;
    ms_keep keep;
    ms_rewrite rewrite;
    int state;                /* atomic */
    bool quit;                /* atomic */
    unsigned rewrites;
    uint64_t histories, largest;
    uint64_t worst, sum, bare_worst; /* microseconds */
    uint64_t late, bare_late; /* frames over 2 ms */
    ms_result result;         /* of a thread */
    ms_error err;
} game;

static uint64_t now_us(void)
{
    const ms_os *os = ms_os_default();
    return os->micros(os->ctx);
}

static void pause_us(uint64_t us)
{
    const ms_os *os = ms_os_default();
    os->sleep(os->ctx, us);
}

static ms_str name_of(unsigned agent, char name[24])
{
    snprintf(name, 24, "agent_%u", agent);
    return ms_str_of(name);
}

/* Reads the history of one agent after the other. */
static void *reader(void *arg)
{
    game *g = (game *)arg;
    for (unsigned agent = 0; !__atomic_load_n(&g->quit, __ATOMIC_ACQUIRE); agent++) {
        char name[24];
        ms_cursor it;
        ms_store *store = __atomic_load_n(&g->store, __ATOMIC_SEQ_CST);
        __atomic_store_n(&g->reading, store, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&g->store, __ATOMIC_SEQ_CST) != store) continue;
        if (ms_get_agent_messages(store, MS_STR("level_1"), name_of(agent % AGENTS, name),
                                  20, &it, NULL) == MS_OK)
            while (ms_next(&it)) continue;
        if (ms_cursor_close(&it, NULL) == MS_OK) g->histories++;
        __atomic_store_n(&g->reading, NULL, __ATOMIC_SEQ_CST);
        if (agent % 20 == 0) pause_us(1000);
    }
    __atomic_store_n(&g->reading, NULL, __ATOMIC_SEQ_CST);
    return NULL;
}

/* Does one step of the work that a frame must not wait for. */
static ms_result keep_house(game *g, ms_error *err)
{
    bool more = true;
    ms_log_info info;
    ms_result result = MS_OK;
    int state = __atomic_load_n(&g->state, __ATOMIC_ACQUIRE);
    if (state == OLD) {
        while (__atomic_load_n(&g->reading, __ATOMIC_SEQ_CST) == g->old) pause_us(200);
        ms_close(g->old);
        __atomic_store_n(&g->state, IDLE, __ATOMIC_RELEASE);
    }
    if (state == WANTED) {
        g->rewrite.source = g->store;
        g->rewrite.to = &g->desc;
        g->rewrite.replace = true;
        g->rewrite.keep = g->rewrites % 4 == 3 ? NULL : &g->keep; /* NULL: a compaction */
        while (result == MS_OK && more)
            result = ms_rewrite_run(&g->rewrite, 0, &more, err);
        if (result == MS_OK) __atomic_store_n(&g->state, READY, __ATOMIC_RELEASE);
        return result;
    }
    if (state == READY) return MS_OK; /* a sync of the old log would need another run */
    result = ms_log_stat(g->store, &info, err);
    if (result == MS_OK && info.size > g->largest) g->largest = info.size;
    return result == MS_OK ? ms_sync(g->store, NULL, err) : result;
}

static void *housekeeper(void *arg)
{
    game *g = (game *)arg;
    while (!__atomic_load_n(&g->quit, __ATOMIC_ACQUIRE) && g->result == MS_OK) {
        g->result = keep_house(g, &g->err);
        pause_us(20000);
    }
    return NULL;
}

/* Ends a rewrite that is ready: from here on the new store is used. */
static ms_result take_over(game *g, ms_error *err)
{
    ms_store *fresh;
    ms_result result = ms_rewrite_end(&g->rewrite, &fresh, err);
    if (result == MS_E_BUSY) { /* synced meanwhile: one more run */
        __atomic_store_n(&g->state, WANTED, __ATOMIC_RELEASE);
        return MS_OK;
    }
    if (result != MS_OK) return result;
    g->old = g->store;
    __atomic_store_n(&g->store, fresh, __ATOMIC_SEQ_CST);
    g->rewrites++;
    __atomic_store_n(&g->state, OLD, __ATOMIC_RELEASE);
    return MS_OK;
}

/* Does the store's part of one frame: a tenth of the agents see and act. */
static ms_result store_frame(game *g, unsigned frame, ms_error *err)
{
    ms_envelope m[2 * AGENTS / ACTING];
    char names[AGENTS / ACTING][24], text[64];
    ms_append_opts opts = {0};
    ms_result result = MS_OK;
    size_t n = 0;
    snprintf(text, sizeof text, "{\"frame\":%u,\"sees\":\"the player\"}", frame);
    for (unsigned i = 0; i < AGENTS / ACTING; i++) {
        ms_str agent = name_of(i * ACTING + frame % ACTING, names[i]);
        m[n] = ms_message(MS_T_OBSERVATION, ms_json(ms_str_of(text)));
        m[n++].agent_key = agent;
        m[n] = ms_action(MS_STR("walk"), ms_json(MS_STR("{\"to\":\"the door\"}")),
                         ms_str_of(NULL));
        m[n++].agent_key = agent;
    }
    int state = __atomic_load_n(&g->state, __ATOMIC_ACQUIRE);
    if (state == READY) result = take_over(g, err);
    if (state == IDLE && frame % EVERY == EVERY - 1)
        __atomic_store_n(&g->state, WANTED, __ATOMIC_RELEASE);
    opts.location = MS_STR("level_1");
    if (result == MS_OK) result = ms_append_batch(g->store, m, n, &opts, err);
    return result == MS_OK ? ms_tick(g->store, 200, err) : result;
}

/* Computes for some microseconds, as a game does. */
static uint64_t bare_frame(uint64_t us)
{
    volatile uint64_t x = 1;
    uint64_t begin = now_us();
    while (now_us() - begin < us) x = x * 3 + 1;
    return now_us() - begin;
}

static ms_result play(game *g, unsigned frames, unsigned frame_us, ms_error *err)
{
    uint64_t next = now_us();
    ms_result result = MS_OK;
    for (unsigned i = 0; i < frames && result == MS_OK && g->result == MS_OK; i++) {
        uint64_t bare = bare_frame(i ? g->sum / i : 100); /* as long as the store's mean */
        uint64_t begin = now_us();
        result = store_frame(g, i, err);
        uint64_t took = now_us() - begin;
        g->sum += took;
        g->late += took > 2000;
        g->bare_late += bare > 2000;
        if (took > g->worst) g->worst = took;
        if (bare > g->bare_worst) g->bare_worst = bare;
        next += frame_us;
        if (now_us() < next) pause_us(next - now_us());
        else next = now_us();
    }
    return result;
}

/* Returns whether the worst frame is within its limit. In few frames a bare loop meets too
 * few stalls of the machine to be compared. */
static bool report(const game *g, unsigned frames)
{
    long long beyond = (long long)g->worst - (long long)g->bare_worst;
    uint64_t mean = frames ? g->sum / frames : 0;
    printf("%u frames, %u rewrites, %llu histories read, log at most %llu KiB\n", frames,
           g->rewrites, (unsigned long long)g->histories,
           (unsigned long long)g->largest / 1024);
    printf("              mean us   worst us   over 2 ms\n");
    printf("bare loop  %10llu %10llu  %10llu\n", (unsigned long long)mean,
           (unsigned long long)g->bare_worst, (unsigned long long)g->bare_late);
    printf("store      %10llu %10llu  %10llu\n", (unsigned long long)mean,
           (unsigned long long)g->worst, (unsigned long long)g->late);
    printf("the store's worst frame is %lld us beyond the bare loop's, at most %d%s\n",
           beyond, BEYOND_US, frames < COMPARED ? ", of more frames" : "");
    return frames < COMPARED || beyond <= BEYOND_US;
}

int main(int argc, char **argv)
{
    static game g;
    ms_error err;
    pthread_t threads[2];
    unsigned frames = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 600;
    unsigned frame_us = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 16667;
    g.desc.path = argc > 3 ? argv[3] : "game.msl";
    g.desc.ticked = true; /* and no sync mode: the housekeeper syncs */
    g.keep.newest = KEPT;
    if (ms_log_open(&g.store, &g.desc, &err) != MS_OK) return puts(err.message), 1;
    if (pthread_create(&threads[0], NULL, reader, &g) != 0 ||
        pthread_create(&threads[1], NULL, housekeeper, &g) != 0)
        return puts("no thread"), 1;
    ms_result result = play(&g, frames, frame_us, &err);
    __atomic_store_n(&g.quit, true, __ATOMIC_RELEASE);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    bool fine = report(&g, frames);
    (void)ms_rewrite_end(&g.rewrite, NULL, NULL);
    if (g.state == OLD) ms_close(g.old);
    ms_close(g.store);
    if (result != MS_OK) fprintf(stderr, "%s\n", err.message);
    if (g.result != MS_OK) fprintf(stderr, "%s\n", g.err.message);
    return result != MS_OK || g.result != MS_OK || !fine;
}
