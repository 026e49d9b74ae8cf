/* See costs.h. */

#define _GNU_SOURCE
#include "costs.h"

#include <stdio.h>
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
    to->output += row->output;
    to->reasoning += row->reasoning;
    to->cost += row->cost;
}

enum { N_INPUT, N_OUTPUT, N_CACHED, N_WRITTEN, N_REASONING, N_COST, N_MODEL, N_ANSWER,
       N_TIME, N_TOOL, N_KEYS };
static const json_key note_keys[] = {
    KEY("input_tokens"), KEY("output_tokens"), KEY("cached_tokens"),
    KEY("cache_write_tokens"), KEY("reasoning_tokens"), KEY("cost"), KEY("model"),
    KEY("answer"), KEY("time"), KEY("tool"),
};

/* Returns a shared copy of the name. There are few different names. */
static ms_str shared_text(tally *names, ms_str text)
{
    if (text.ptr == NULL) return text;
    tally_row *row = tally_row_of(names, text);
    return row != NULL ? row->text : ms_str_n(NULL, 0);
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
    row->cost = number_of(v[N_COST]);
    row->time = number_of(v[N_TIME]);
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
        uint64_t owner = hash_text(row.location) * 31 + hash_text(row.agent);
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


/* ---- Prices ------------------------------------------------------------------------ */

int prices_load(prices *p, const char *path)
{
    ms_error err;
    memset(p, 0, sizeof *p);
    int code = file_load(&p->file, path);
    if (code != FINE) return code;
    if (ms_json_check(p->file.text, NULL, &p->list, &err) == MS_OK &&
        is_object(p->list)) {
        return FINE;
    }
    complain("%s: a JSON object of prices by model was expected", path);
    p->list = ms_str_n(NULL, 0);
    return FAILED;
}

void prices_free(prices *p)
{
    file_free(&p->file);
}

/* Returns the entry of a model. A provider may stand before the name in the list, or in
 * the notes. */
static ms_str price_of(const prices *p, ms_str model)
{
    static const char *const providers[] = {"", "anthropic/", "openai/", "gemini/",
                                            "vertex_ai/", "openrouter/"};
    char name[256];
    for (;;) {
        for (size_t i = 0; i < COUNT_OF(providers); i++) {
            int n = snprintf(name, sizeof name, "%s%.*s", providers[i],
                             (int)(model.len < 200 ? model.len : 200), model.ptr);
            ms_str entry = member(p->list, name);
            if (n > 0 && is_object(entry)) return entry;
        }
        const char *slash = memchr(model.ptr, '/', model.len);
        if (slash == NULL) return ms_str_n(NULL, 0);
        size_t skip = (size_t)(slash - model.ptr) + 1;
        model = ms_str_n(model.ptr + skip, model.len - skip);
    }
}

bool prices_apply(const prices *p, cost_row *row)
{
    static const json_key names[] = {
        KEY("input_cost_per_token"), KEY("output_cost_per_token"),
        KEY("cache_read_input_token_cost"), KEY("cache_creation_input_token_cost"),
    };
    ms_str v[4], entry = {NULL, 0};
    if (row->model.len > 0) entry = price_of(p, row->model);
    if (entry.ptr == NULL) return false;
    pick(entry, names, 4, v);
    double in = number_of(v[0]), out = number_of(v[1]);
    double read = v[2].ptr != NULL ? number_of(v[2]) : in;
    double write = v[3].ptr != NULL ? number_of(v[3]) : in;
    uint64_t cached = row->cached + row->written;
    uint64_t fresh = row->input > cached ? row->input - cached : 0;
    row->cost = (double)fresh * in + (double)row->output * out +
                (double)row->cached * read + (double)row->written * write;
    return true;
}
