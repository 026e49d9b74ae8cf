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
 * What a message says is drawn when the data is made; bench_message only sets pointers
 * into a pool of text, so that a loop over it costs a dozen nanoseconds a message.
 */

#ifndef BENCH_DATA_H
#define BENCH_DATA_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef MSGSTORE_VERSION
#include "../msgstore.h"
#endif

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
    uint32_t at;              /* of an action: which arguments; else where in the pool */
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
    char locations[BENCH_LOCATIONS][BENCH_NAME];
    char agents[BENCH_AGENTS][BENCH_NAME];
    double payload;           /* bytes of all other fields, and 8 of time a message */
    double names;             /* bytes of location, agent key and type word */
} bench_data;

/* Random numbers: splitmix64. */
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

static inline double bench_unit(uint64_t *state)
{
    return ((double)(bench_random(state) >> 11) + 0.5) / 9007199254740992.0;
}

/* A length with that median and sigma 1, between least and most. */
static inline size_t bench_length(uint64_t *state, double median, size_t least,
                                  size_t most)
{
    double a = bench_unit(state), b = bench_unit(state);
    double len = median * exp(sqrt(-2 * log(a)) * cos(6.283185307179586 * b));
    return len < (double)least ? least : len > (double)most ? most : (size_t)len;
}

static inline void *bench_memory(size_t size)
{
    void *memory = malloc(size);
    if (memory == NULL) {
        fprintf(stderr, "no memory for the data\n");
        exit(1);
    }
    memset(memory, 1, size); /* touched, so that no page has to come later */
    return memory;
}

/* Fills size bytes with words; as they stand inside a JSON string when `json`. */
static inline void bench_words(uint64_t *state, char *out, size_t size, bool json)
{
    static const char *const words[] = {
        "the ", "table ", "has ", "a ", "column ", "that ", "nobody ", "reads, ", "so ",
        "list ", "all ", "rows ", "of ", "orders ", "and ", "count ", "them ", "again ",
        "because ", "result ", "was ", "empty. ", "error: ", "timeout ", "after ",
        "30 s ", "in ", "function ", "main() ", "return ", "value ", "x = 42; "};
    size_t used = 0;
    while (used < size) {
        size_t pick = bench_below(state, 36);
        const char *word = pick < 32   ? words[pick]
                           : pick < 34 ? (json ? "\\\"so\\\" " : "\"so\" ")
                                       : (json ? "line\\n" : "line\n");
        size_t len = strlen(word);
        if (len > size - used) break;
        memcpy(out + used, word, len);
        used += len;
    }
    memset(out + used, '.', size - used);
}

/* {"path":"words","limit":number,"text":"words"}, len bytes in all. */
static inline ms_str bench_make_args(uint64_t *state, char *out, size_t len)
{
    static const char head[] = "{\"path\":\"/srv/app/main.c\",\"limit\":100,\"text\":\"";
    size_t text = len - (sizeof head - 1) - 2;
    memcpy(out, head, sizeof head - 1);
    bench_words(state, out + sizeof head - 1, text, true);
    memcpy(out + len - 2, "\"}", 2);
    return ms_str_n(out, len);
}

static inline ms_type bench_type(uint64_t *state)
{
    static const struct {
        size_t below;
        ms_type type;
    } mix[] = {{10, MS_T_USER_MESSAGE}, {20, MS_T_ASSISTANT_MESSAGE},
               {30, MS_T_TASK},         {55, MS_T_ACTION},
               {80, MS_T_OBSERVATION},  {85, MS_T_ERROR},
               {90, MS_T_FINAL},        {95, MS_T_DELEGATION},
               {98, MS_T_GLOBAL_OBSERVATION}, {100, MS_T_SYNTHESIS}};
    size_t pick = bench_below(state, 100), i = 0;
    while (pick >= mix[i].below) i++;
    return mix[i].type;
}

static inline size_t bench_location(uint64_t *state)
{
    static double sum[BENCH_LOCATIONS];
    if (sum[0] == 0)
        for (int i = 0; i < BENCH_LOCATIONS; i++)
            sum[i] = (i > 0 ? sum[i - 1] : 0) + pow(i + 1, -0.8);
    double pick = bench_unit(state) * sum[BENCH_LOCATIONS - 1];
    size_t i = 0;
    while (i < BENCH_LOCATIONS - 1 && sum[i] <= pick) i++;
    return i;
}

static inline ms_str bench_name(const char *name)
{
    return ms_str_n(name, strlen(name));
}

/* Message i as an envelope to append. */
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
        m.args = ms_json(d->args[item->at]);
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
    m.content = ms_text_n(text);
    return m;
}

/* Adds what message i takes to the sums. */
static inline void bench_weigh(bench_data *d, size_t i)
{
    ms_envelope m = bench_message(d, i);
    size_t names = m.location.len + m.agent_key.len + strlen(ms_type_word(m.type));
    size_t text = m.content.text.len + m.args.text.len + m.task.len;
    d->names += (double)names;
    d->payload += (double)(text + m.turn_id.len + m.tool.len + m.worker.len +
                           m.from_worker.len + m.from_manager.len + m.summary.len +
                           m.error_type.len + sizeof m.time_ns);
}

static inline void bench_draw(bench_data *d, size_t i, uint64_t *state, uint32_t *turn)
{
    bench_item *item = &d->items[i];
    ms_type type = bench_type(state);
    size_t len = bench_length(state, 200, 1, BENCH_LARGEST);
    if (type == MS_T_OBSERVATION && bench_below(state, 100) < 15)
        len = 4096 + bench_below(state, BENCH_LARGEST - 4096);
    *turn += type == MS_T_USER_MESSAGE && i > 0;
    item->type = (uint8_t)type;
    item->location = (uint8_t)bench_location(state);
    item->agent = (uint8_t)bench_below(state, BENCH_AGENTS);
    item->turn = *turn;
    item->len = (uint32_t)len;
    item->at = (uint32_t)bench_below(state, type == MS_T_ACTION ? BENCH_ARGS
                                                                : BENCH_POOL - len);
}

/* Makes count messages. Lives as long as the process. */
static inline bench_data *bench_make(size_t count)
{
    uint64_t state = 20260101;
    uint32_t turn = 0;
    bench_data *d = (bench_data *)bench_memory(sizeof *d);
    memset(d, 0, sizeof *d);
    d->count = count;
    d->pool = (char *)bench_memory(BENCH_POOL);
    bench_words(&state, d->pool, BENCH_POOL, false);
    d->args_text = (char *)bench_memory((size_t)BENCH_ARGS * BENCH_ARGS_LARGEST);
    for (size_t i = 0; i < BENCH_ARGS; i++)
        d->args[i] = bench_make_args(&state, d->args_text + i * BENCH_ARGS_LARGEST,
                                     bench_length(&state, 160, 60, BENCH_ARGS_LARGEST));
    for (int i = 0; i < BENCH_LOCATIONS; i++)
        snprintf(d->locations[i], BENCH_NAME, "location_%03d", i);
    for (int i = 0; i < BENCH_AGENTS; i++)
        snprintf(d->agents[i], BENCH_NAME, "agent_%d", i);
    d->items = (bench_item *)bench_memory(count * sizeof *d->items);
    for (size_t i = 0; i < count; i++) bench_draw(d, i, &state, &turn);
    d->turns = (char(*)[BENCH_NAME])bench_memory(((size_t)turn + 1) * BENCH_NAME);
    for (uint32_t i = 0; i <= turn; i++)
        snprintf(d->turns[i], BENCH_NAME, "turn_%07u", i % 10000000);
    for (size_t i = 0; i < count; i++) bench_weigh(d, i);
    return d;
}

#endif /* BENCH_DATA_H */
