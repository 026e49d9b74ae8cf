/* See costs.h. */

#define _GNU_SOURCE
#include "costs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The owner of an answer, and its row. */
typedef struct answer_of {
    uint64_t key;             /* hash of the answer's identity */
    struct {
        uint64_t owner;       /* hash of location and agent */
        size_t row;
    } value;
} answer_of;

void costs_add(cost_row *to, const cost_row *row)
{
    to->answers += row->answers;
    to->input += row->input;
    to->cached += row->cached;
    to->written += row->written;
    to->written_1h += row->written_1h;
    to->output += row->output;
    to->reasoning += row->reasoning;
    to->cost += row->cost;
    to->unpriced += row->unpriced;
}

enum { N_INPUT, N_OUTPUT, N_CACHED, N_WRITTEN, N_REASONING, N_COST, N_MODEL, N_ANSWER,
       N_TIME, N_TOOL, N_WRITTEN_1H, N_TOTAL, N_KEYS };
static const json_key note_keys[] = {
    KEY("input_tokens"), KEY("output_tokens"), KEY("cached_tokens"),
    KEY("cache_write_tokens"), KEY("reasoning_tokens"), KEY("cost"), KEY("model"),
    KEY("answer"), KEY("time"), KEY("tool"), KEY("cache_write_1h_tokens"),
    KEY("total_cost"),
};

/* Returns a shared copy of the name. There are few different names. */
static ms_str shared_text(tally *names, ms_str text)
{
    if (text.ptr == NULL) return text;
    tally_row *row = tally_row_of(names, text);
    return row != NULL ? row->text : ms_str_n(NULL, 0);
}

/* Returns the seconds of a time; programs note milliseconds of this century, too. */
static double seconds_of(double time)
{
    return time >= 946684800e3 && time < 4102444800e3 ? time / 1000 : time;
}

static bool row_of_note(const ms_msg *msg, ms_arena *arena, tally *names, cost_row *row,
                        ms_str *answer)
{
    ms_str v[N_KEYS];
    ms_value content = ms_content(msg);
    memset(row, 0, sizeof *row);
    if (!content.json || !is_object(content.text)) return false;
    pick(content.text, note_keys, N_KEYS, v);
    row->answers = 1;
    row->seq = ms_seq(msg);
    row->input = count_of(v[N_INPUT]);
    row->output = count_of(v[N_OUTPUT]);
    row->cached = count_of(v[N_CACHED]);
    row->written = count_of(v[N_WRITTEN]);
    row->reasoning = count_of(v[N_REASONING]);
    row->written_1h = count_of(v[N_WRITTEN_1H]);
    row->cost = number_of(v[N_COST]);
    row->unpriced = !is_kind(v[N_COST], MS_JSON_NUMBER);
    row->total = is_kind(v[N_TOTAL], MS_JSON_NUMBER) ? number_of(v[N_TOTAL]) : -1;
    row->time = seconds_of(number_of(v[N_TIME]));
    row->location = shared_text(names, location_of(msg));
    row->agent = shared_text(names, agent_key_of(msg));
    row->turn = shared_text(names, ms_get(msg, MS_F_TURN_ID).text);
    row->model = shared_text(names, text_of(arena, v[N_MODEL]));
    row->tool = shared_text(names, text_of(arena, v[N_TOOL]));
    *answer = text_of(arena, v[N_ANSWER]);
    return true;
}

/* Ids of this length are unique everywhere, so a copy of a session counts once. A short
 * id is unique in its location only. */
enum { UNIQUE_ID = 20 };

static uint64_t answer_key(ms_str answer, ms_str location, bool each)
{
    uint64_t key = hash_text(answer);
    return answer.len >= UNIQUE_ID && !each ? key : key * 31 + hash_text(location);
}

/* Returns a hash of location and agent. Calls of the main agent are of "assistant", its
 * words of none, and an answer may have both. */
static uint64_t owner_of(const cost_row *row)
{
    bool main_agent = ms_str_equal(row->agent, MS_STR("assistant"));
    ms_str agent = main_agent ? MS_STR("") : row->agent;
    return hash_text(row->location) * 31 + hash_text(agent);
}

/* each: every location counts alone. */
static int collect(ms_store *store, ms_str location, bool each, ms_arena *arena,
                   cost_row **rows)
{
    ms_cursor it;
    ms_error err;
    ms_query q = {0};
    const ms_msg *msg;
    answer_of *answers = NULL;
    tally names;
    memset(&names, 0, sizeof names);
    q.location = location;
    q.raw = MS_RAW_NOTES;
    *rows = NULL;
    ms_result result = ms_query_open(store, &q, &it, &err);
    if (result != MS_OK) return complain_of("reading usage", result, &err);
    while ((msg = ms_next(&it)) != NULL) {
        cost_row row;
        ms_str answer;
        if (!ms_str_equal(ms_get(msg, MS_F_TYPE_NAME).text, MS_STR("usage"))) continue;
        if (!row_of_note(msg, arena, &names, &row, &answer)) continue;
        uint64_t owner = owner_of(&row);
        uint64_t id = answer_key(answer, row.location, each);
        answer_of *found = answer.len > 0 ? hmgetp_null(answers, id) : NULL;
        if (found != NULL) {
            if (found->value.owner == owner) (*rows)[found->value.row] = row;
            continue;
        }
        if (answer.len > 0) {
            answer_of entry;
            entry.key = id;
            entry.value.owner = owner;
            entry.value.row = arrlenu(*rows);
            hmputs(answers, entry);
        }
        arrput(*rows, row);
    }
    result = ms_cursor_close(&it, &err);
    /* The names must outlive this list, so they are copied to the caller's arena. */
    for (size_t i = 0; i < arrlenu(*rows); i++) {
        cost_row *row = &(*rows)[i];
        ms_str *texts[] = {&row->location, &row->agent, &row->turn, &row->model,
                           &row->tool};
        for (size_t k = 0; k < COUNT_OF(texts); k++) {
            if (texts[k]->ptr != NULL && !copy_text(arena, *texts[k], texts[k])) {
                exit(no_memory());
            }
        }
    }
    tally_free(&names);
    hmfree(answers);
    return result == MS_OK ? FINE : complain_of("reading usage", result, &err);
}

int costs_of(ms_store *store, ms_str location, ms_arena *arena, cost_row **rows)
{
    return collect(store, location, false, arena, rows);
}

int costs_of_each(ms_store *store, ms_arena *arena, cost_row **rows)
{
    return collect(store, ms_str_n(NULL, 0), true, arena, rows);
}

/* Returns what a row weighs in a total: its price, or without prices its tokens. */
static double weight_of(const cost_row *row, bool priced)
{
    return priced ? row->cost : (double)(row->input + row->output);
}

/* Shares what answers cost together among those without a cost of their own: by their
 * prices, or by their tokens if one has no price. own[i]: the row has its own cost. */
static void share_total(cost_row *rows, size_t *group, const bool *own,
                        double dollars)
{
    bool priced = true;
    double all = 0;
    size_t n = arrlenu(group), others = 0;
    for (size_t i = 0; i < n; i++) {
        const cost_row *row = &rows[group[i]];
        if (own[group[i]]) dollars -= row->cost;
        else if (row->unpriced > 0) priced = false;
    }
    for (size_t i = 0; i < n; i++) {
        if (own[group[i]]) continue;
        all += weight_of(&rows[group[i]], priced);
        others++;
    }
    if (dollars < 0) dollars = 0;
    for (size_t i = 0; i < n; i++) {
        cost_row *row = &rows[group[i]];
        if (own[group[i]]) continue;
        row->cost = all > 0 ? dollars * weight_of(row, priced) / all
                            : dollars / (double)others;
        row->unpriced = 0;
    }
}

/* The answers of a location since its last total. */
typedef struct total_of {
    uint64_t key;             /* hash of the location */
    struct {
        size_t *rows;         /* an stb_ds array */
        double last;
    } value;
} total_of;

static void share_totals(cost_row *rows, const bool *own)
{
    total_of *totals = NULL;
    for (size_t i = 0; i < arrlenu(rows); i++) {
        uint64_t key = hash_text(rows[i].location);
        if (hmgetp_null(totals, key) == NULL) {
            total_of made;
            memset(&made, 0, sizeof made);
            made.key = key;
            hmputs(totals, made);
        }
        total_of *t = hmgetp_null(totals, key);
        if (t == NULL) exit(no_memory());
        arrput(t->value.rows, i);
        if (rows[i].total < 0) continue;
        bool goes_on = rows[i].total >= t->value.last;
        share_total(rows, t->value.rows, own,
                    goes_on ? rows[i].total - t->value.last : rows[i].total);
        t->value.last = rows[i].total;
        arrsetlen(t->value.rows, 0);
    }
    for (size_t i = 0; i < hmlenu(totals); i++) arrfree(totals[i].value.rows);
    hmfree(totals);
}

void costs_apply(prices *p, cost_row *rows)
{
    size_t n = arrlenu(rows);
    bool any = false, *own = calloc(n + 1, sizeof *own);
    if (own == NULL) exit(no_memory());
    for (size_t i = 0; i < n; i++) {
        cost_row *row = &rows[i];
        price_tokens t = {row->input, row->output, row->cached, row->written,
                          row->written_1h};
        own[i] = row->unpriced == 0;
        any = any || row->total >= 0;
        if (!own[i] && prices_cost(p, row->model, &t, &row->cost)) row->unpriced = 0;
    }
    if (any) share_totals(rows, own);
    free(own);
}
