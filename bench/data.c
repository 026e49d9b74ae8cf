/* Makes the messages of data.h. */
#define _GNU_SOURCE
#include "data.h"

#include "system.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double bench_unit(uint64_t *state)
{
    return ((double)(bench_random(state) >> 11) + 0.5) / 9007199254740992.0;
}

/* Returns a random length with that median and sigma 1, between least and most. */
static size_t bench_length(uint64_t *state, double median, size_t least,
                                  size_t most)
{
    double a = bench_unit(state), b = bench_unit(state);
    double len = median * exp(sqrt(-2 * log(a)) * cos(6.283185307179586 * b));
    return len < (double)least ? least : len > (double)most ? most : (size_t)len;
}

/* Fills size bytes with words; if `json`, with the text of a JSON string. */
static void bench_words(uint64_t *state, char *out, size_t size, bool json)
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

/* Makes {"path":"words","limit":number,"text":"words"}, len bytes in all. */
static ms_str bench_make_args(uint64_t *state, char *out, size_t len)
{
    static const char head[] = "{\"path\":\"/srv/app/main.c\",\"limit\":100,\"text\":\"";
    size_t text = len - (sizeof head - 1) - 2;
    memcpy(out, head, sizeof head - 1);
    bench_words(state, out + sizeof head - 1, text, true);
    memcpy(out + len - 2, "\"}", 2);
    return ms_str_n(out, len);
}

static ms_type bench_type(uint64_t *state)
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

static size_t bench_location(uint64_t *state)
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

/* Adds the bytes of message i to the sums. */
static void bench_weigh(bench_data *d, size_t i)
{
    ms_envelope m = bench_message(d, i);
    size_t names = m.location.len + m.agent_key.len + d->words[m.type].len;
    size_t text = m.content.text.len + m.args.text.len + m.task.len;
    d->names += (double)names;
    d->payload += (double)(text + m.turn_id.len + m.tool.len + m.worker.len +
                           m.from_worker.len + m.from_manager.len + m.summary.len +
                           m.error_type.len + sizeof m.time_ns);
}

static void bench_draw(bench_data *d, size_t i, uint64_t *state, uint32_t *turn)
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

bench_data *bench_make_names(void)
{
    bench_data *d = (bench_data *)bench_memory(sizeof *d);
    memset(d, 0, sizeof *d);
    for (int i = 0; i < BENCH_LOCATIONS; i++)
        snprintf(d->locations[i], BENCH_NAME, "location_%03d", i);
    for (int i = 1; i < MS_TYPE_COUNT; i++)
        d->words[i] = bench_name(ms_type_word((ms_type)i));
    for (int i = 0; i < BENCH_AGENTS; i++)
        snprintf(d->agents[i], BENCH_NAME, "agent_%d", i);
    return d;
}

void bench_by_session(bench_data *d, size_t count)
{
    size_t at[BENCH_LOCATIONS + 1] = {0};
    bench_item *items = (bench_item *)bench_memory(d->count * sizeof *items);
    for (size_t i = 0; i < count; i++) at[d->items[i].location + 1]++;
    for (size_t i = 1; i <= BENCH_LOCATIONS; i++) at[i] += at[i - 1];
    for (size_t i = 0; i < count; i++) items[at[d->items[i].location]++] = d->items[i];
    memcpy(d->items, items, count * sizeof *items);
    free(items);
}

bench_data *bench_make(size_t count)
{
    uint64_t state = 20260101;
    uint32_t turn = 0;
    bench_data *d = bench_make_names();
    d->count = count;
    d->pool = (char *)bench_memory(BENCH_POOL);
    bench_words(&state, d->pool, BENCH_POOL, false);
    d->args_text = (char *)bench_memory((size_t)BENCH_ARGS * BENCH_ARGS_LARGEST);
    for (size_t i = 0; i < BENCH_ARGS; i++)
        d->args[i] = bench_make_args(&state, d->args_text + i * BENCH_ARGS_LARGEST,
                                     bench_length(&state, 160, 60, BENCH_ARGS_LARGEST));
    d->items = (bench_item *)bench_memory(count * sizeof *d->items);
    for (size_t i = 0; i < count; i++) bench_draw(d, i, &state, &turn);
    d->turns = (char(*)[BENCH_NAME])bench_memory(((size_t)turn + 1) * BENCH_NAME);
    for (uint32_t i = 0; i <= turn; i++)
        snprintf(d->turns[i], BENCH_NAME, "turn_%07u", i % 10000000);
    for (size_t i = 0; i < count; i++) bench_weigh(d, i);
    return d;
}
