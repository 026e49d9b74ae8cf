/* Prices of models' tokens: a table in the tool, made by prices.py, and lists of the user
 * in the form of LiteLLM: {"MODEL": {"input_cost_per_token", ...}}.
 *
 * (PR1) A cost that a transcript has is never replaced by one that is computed.
 * (PR2) A model is found by its own name, without the provider's name before it, a
 * variant in brackets, or a date at its end; never by a piece of its name. */

#ifndef PRICES_H
#define PRICES_H

#include "files.h"

/* Dollars for a million tokens. */
typedef struct price_rate {
    double input, output, cached; /* cached: read from a cache */
    double written, written_1h;   /* into a cache, for five minutes or for an hour */
} price_rate;

typedef struct price {
    price_rate base;
    uint64_t above;           /* tokens; 0: one price for all requests */
    price_rate more;          /* of a request whose input is longer than that */
} price;

/* The tokens of one request. */
typedef struct price_tokens {
    uint64_t input, output;   /* input includes those below */
    uint64_t cached, written, written_1h; /* written includes written_1h */
} price_tokens;

typedef struct price_found {
    uint64_t key;             /* hash of the model */
    struct {
        bool known;
        price price;
    } value;
} price_found;

typedef struct prices {
    file_text file;
    ms_str list;              /* absent: the table alone */
    price_found *found;       /* models asked for: an stb_ds map */
} prices;

/* Returns the day of the table, as "2026-11-29". */
const char *prices_date(void);
/* Reads a list, which stands above the table. */
int prices_load(prices *p, const char *path);
void prices_free(prices *p);
/* Returns whether the model has a price, and computes the dollars of a request. */
bool prices_cost(prices *p, ms_str model, const price_tokens *t, double *dollars);

#endif /* PRICES_H */
