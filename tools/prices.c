/* See prices.h. */

#define _GNU_SOURCE
#include "prices.h"
#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct price_row {
    const char *model;
    price price;
} price_row;

#include "prices_table.h"

const char *prices_date(void)
{
    return PRICES_DATE;
}

int prices_load(prices *p, const char *path)
{
    ms_error err;
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
    hmfree(p->found);
}

/* Reads the five prices of an entry whose names end with the tier's. `base`: those
 * without it. Tokens without a price of their own cost what other input does; an hour in
 * a cache costs 1.6 times five minutes, Anthropic's ratio. False: no price of input. */
static bool read_rate(ms_str entry, const char *tier, const price_rate *base,
                      price_rate *out)
{
    static const char *const names[] = {
        "input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost",
        "cache_creation_input_token_cost", "cache_creation_input_token_cost_above_1hr"};
    const double none[5] = {0, 0, -1, -1, -1};
    double v[5];
    char name[160];
    if (base != NULL) {
        const double of[5] = {base->input, base->output, base->cached, base->written,
                              base->written_1h};
        memcpy(v, of, sizeof v);
        for (int i = 2; i < 5; i++) v[i] = of[i] == of[0] ? -1 : of[i];
    } else {
        memcpy(v, none, sizeof v);
    }
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "%s%s", names[i], tier);
        ms_str value = member(entry, name);
        if (is_kind(value, MS_JSON_NUMBER)) v[i] = number_of(value) * 1e6;
        else if (i == 0) return false;
    }
    out->input = v[0];
    out->output = v[1];
    out->cached = v[2] >= 0 ? v[2] : v[0];
    out->written = v[3] >= 0 ? v[3] : v[0];
    out->written_1h = v[4] >= 0 ? v[4] : v[3] >= 0 ? 1.6 * v[3] : v[0];
    return true;
}

/* Reads an entry of a list. Its lowest tier counts. */
static bool read_price(ms_str entry, price *out)
{
    static const unsigned tiers[] = {32, 100, 128, 200, 256, 272, 512};
    char tier[32];
    memset(out, 0, sizeof *out);
    if (!is_object(entry) || !read_rate(entry, "", NULL, &out->base)) return false;
    for (size_t i = 0; i < COUNT_OF(tiers) && out->above == 0; i++) {
        snprintf(tier, sizeof tier, "_above_%uk_tokens", tiers[i]);
        if (read_rate(entry, tier, &out->base, &out->more)) {
            out->above = tiers[i] * (uint64_t)1000;
        }
    }
    return true;
}

/* Finds a name in the list; a provider may stand before it there. */
static bool in_list(const prices *p, ms_str name, price *out)
{
    static const char *const providers[] = {"", "anthropic/", "openai/", "gemini/",
                                            "vertex_ai/", "openrouter/"};
    char key[256];
    if (p->list.ptr == NULL || name.len > 200) return false;
    for (size_t i = 0; i < COUNT_OF(providers); i++) {
        snprintf(key, sizeof key, "%s%.*s", providers[i], (int)name.len, name.ptr);
        if (read_price(member(p->list, key), out)) return true;
    }
    return false;
}

/* Returns the length of a date at the end of a name, "-20260205", "@20260205" or
 * "-2026-02-05"; 0 without one. */
static size_t date_len(ms_str name)
{
    static const char *const shapes[] = {"#dddddddd", "#dddd-dd-dd"};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        size_t n = strlen(shapes[i]), k = 0;
        if (name.len <= n) continue;
        const char *at = name.ptr + name.len - n;
        while (k < n && (shapes[i][k] == 'd'   ? at[k] >= '0' && at[k] <= '9'
                         : shapes[i][k] == '-' ? at[k] == '-'
                                               : at[k] == '-' || at[k] == '@')) {
            k++;
        }
        if (k == n) return n;
    }
    return 0;
}

/* Finds a name in the table; `dated`, one of its names with a date. */
static bool in_table(ms_str name, bool dated, price *out)
{
    bool found = false;
    for (size_t i = 0; i < COUNT_OF(price_table); i++) {
        ms_str row = ms_str_of(price_table[i].model);
        if (dated) row.len -= date_len(row);
        if (!ms_str_equal(row, name)) continue;
        *out = price_table[i].price; /* the newest of several dates */
        found = true;
    }
    return found;
}

static bool find_name(const prices *p, ms_str name, price *out)
{
    return name.len > 0 && (in_list(p, name, out) || in_table(name, false, out));
}

/* (PR2) */
static bool find_price(const prices *p, ms_str model, price *out)
{
    ms_str name = model;
    for (;;) {
        ms_str plain = name;
        if (find_name(p, plain, out)) return true;
        const char *bracket = memchr(name.ptr, '[', name.len);
        if (bracket != NULL) plain.len = (size_t)(bracket - name.ptr);
        if (bracket != NULL && find_name(p, plain, out)) return true;
        size_t date = date_len(plain);
        plain.len -= date;
        if (date > 0 && find_name(p, plain, out)) return true;
        if (date == 0 && plain.len > 0 && in_table(plain, true, out)) return true;
        const char *slash = memchr(name.ptr, '/', name.len);
        if (slash == NULL) return false;
        size_t skip = (size_t)(slash - name.ptr) + 1;
        name = ms_str_n(name.ptr + skip, name.len - skip);
    }
}

bool prices_cost(prices *p, ms_str model, const price_tokens *t, double *dollars)
{
    uint64_t key = hash_text(model);
    price_found *found = model.len > 0 ? hmgetp_null(p->found, key) : NULL;
    if (model.len == 0) return false;
    if (found == NULL) {
        price_found made;
        memset(&made, 0, sizeof made);
        made.key = key;
        made.value.known = find_price(p, model, &made.value.price);
        hmputs(p->found, made);
        found = hmgetp_null(p->found, key);
    }
    if (found == NULL || !found->value.known) return false;
    const price *of = &found->value.price;
    bool more = of->above > 0 && t->input > of->above;
    const price_rate *r = more ? &of->more : &of->base;
    uint64_t cache = t->cached + t->written;
    uint64_t fresh = t->input > cache ? t->input - cache : 0;
    uint64_t hour = t->written_1h < t->written ? t->written_1h : t->written;
    *dollars = ((double)fresh * r->input + (double)t->output * r->output +
                (double)t->cached * r->cached + (double)(t->written - hour) * r->written +
                (double)hour * r->written_1h) / 1e6;
    return true;
}
