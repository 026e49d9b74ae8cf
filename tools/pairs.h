/* Which result answers which call, by the rule of ms_request: the messages are projected
 * with their numbers as contents, and the request names the pairs. */

#ifndef PAIRS_H
#define PAIRS_H

#include "base.h"

typedef struct pair {
    uint64_t call, result;    /* numbers of messages */
} pair;

typedef struct pairing {
    ms_arena arena;
    const ms_msg **items;     /* an stb_ds array: what a projection reads */
    size_t next;
    ms_result result;         /* of the first message that could not be added */
    ms_error err;
} pairing;

/* Adds a message, without its texts. Compactions are left out: they hide older calls. */
void pairing_add(pairing *p, const ms_msg *msg);
/* Collects the pairs of the messages in an stb_ds array, in the order of the request. */
ms_result pairing_find(pairing *p, pair **out, ms_error *err);
void pairing_free(pairing *p);

#endif /* PAIRS_H */
