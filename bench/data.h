/* The messages of the benchmarks: made up, but shaped like those of real agents, and the
 * same in every run.
 *
 * 100 locations, picked by a Zipf law with s = 0.8; 8 agents in each, uniform. Of 100
 * messages 10 are of the user, 10 of the assistant, 10 tasks, 25 actions, 25
 * observations, 5 each errors, finals and delegations, 3 global observations and 2
 * syntheses. Content is lognormal, median 200 bytes, sigma 1; 15 % of the observations
 * have 4 to 16 KiB. An action has arguments, a JSON object of a median of about 160
 * bytes, and no content. All text is words with quotes and line ends. The time goes on by
 * 10 ms a message; a user message begins a new turn.
 *
 * Messages are drawn when the data is made; bench_message only sets pointers
 * into a pool of text, so that a loop over it costs a dozen nanoseconds a message.
 */

#ifndef BENCH_DATA_H
#define BENCH_DATA_H

#include "../msgstore.h"

#include <string.h>

enum {
    BENCH_LOCATIONS = 100,
    BENCH_AGENTS = 8,
    BENCH_POOL = 8 << 20,      /* bytes of text */
    BENCH_LARGEST = 16 << 10,  /* the longest content */
    BENCH_ARGS = 4096,         /* texts of arguments */
    BENCH_ARGS_LARGEST = 4096,
    BENCH_NAME = 16            /* bytes of a name, its NUL included */
};

/* One message, before it is an envelope. */
typedef struct bench_item {
    uint32_t at;           /* of an action: which arguments; else the place in the pool */
    uint32_t len;
    uint32_t turn;
    uint8_t type, location, agent;
} bench_item;

typedef struct bench_data {
    size_t count;
    bench_item *items;
    char *pool;
    ms_str args[BENCH_ARGS];
    char *args_text;
    char (*turns)[BENCH_NAME];
    ms_str words[MS_TYPE_COUNT];
    char locations[BENCH_LOCATIONS][BENCH_NAME];
    char agents[BENCH_AGENTS][BENCH_NAME];
    double payload;           /* bytes of all other fields, and 8 of time a message */
    double names;             /* bytes of location, agent key and type word */
} bench_data;

/* Returns the next number of splitmix64. */
static inline uint64_t bench_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static inline size_t bench_below(uint64_t *state, size_t n)
{
    return (size_t)(bench_random(state) % n);
}

static inline ms_str bench_name(const char *name)
{
    return ms_str_n(name, strlen(name));
}

/* Returns message i as an envelope to append. */
static inline ms_envelope bench_message(const bench_data *d, size_t i)
{
    const bench_item *item = &d->items[i];
    ms_str text = ms_str_n(d->pool + item->at, item->len);
    ms_envelope m;
    memset(&m, 0, sizeof m);
    m.type = (ms_type)item->type;
    m.has_time = true;
    m.time_ns = INT64_C(1700000000000000000) + (int64_t)i * 10000000;
    m.location = ms_str_n(d->locations[item->location], 12);
    m.turn_id = ms_str_n(d->turns[item->turn], 12);
    if (m.type != MS_T_USER_MESSAGE && m.type != MS_T_ASSISTANT_MESSAGE)
        m.agent_key = ms_str_n(d->agents[item->agent], 7);
    switch (m.type) {
    case MS_T_ACTION:
        m.tool = MS_STR("read_file");
        m.args.text = d->args[item->at];
        m.args.json = true;
        return m;
    case MS_T_DELEGATION:
        m.worker = MS_STR("agent_0");
        m.task = text;
        return m;
    case MS_T_GLOBAL_OBSERVATION:
        m.from_worker = MS_STR("agent_1");
        m.summary = MS_STR("what was found, in a few words");
        break;
    case MS_T_SYNTHESIS: m.from_manager = MS_STR("agent_2"); break;
    case MS_T_ERROR: m.error_type = MS_STR("ToolError"); break;
    default: break;
    }
    m.content.text = text;
    return m;
}

/* Makes count messages. The data lives as long as the process. */
bench_data *bench_make(size_t count);

/* Makes the names alone, for a process that only reads: no message, no text. */
bench_data *bench_make_names(void);

/* Orders the first count messages by location, one location after the other, as if each
 * was a session. Each location keeps its order; the time goes on by 10 ms a message as
 * before. */
void bench_by_session(bench_data *d, size_t count);

#endif /* BENCH_DATA_H */
