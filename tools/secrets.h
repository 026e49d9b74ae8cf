/* Finds keys, tokens and passwords in texts, and masks them. Pure computation. No list
 * of rules is exact, so the caller shows what was found. */

#ifndef SECRETS_H
#define SECRETS_H

#include "../msgstore.h"

/* The classes of secrets. */
enum {
    SECRETS_KEYS = 1,         /* keys, tokens, passwords, private keys */
    SECRETS_MAIL = 2,         /* e-mail addresses */
    SECRETS_HOMES = 4         /* names of users in paths of home folders */
};
#define SECRETS_PERSONAL (SECRETS_KEYS | SECRETS_MAIL | SECRETS_HOMES)

typedef struct secret {
    size_t at, len;           /* its bytes in the text, escapes included */
    const char *kind;         /* "github-token" */
    ms_str text;              /* without escapes; in the text or in the arena */
} secret;

typedef struct secret_list {
    secret *items;            /* in the order of the text; none overlaps another */
    size_t count, cap;
} secret_list;

/* Finds all secrets of a text, also those that are spelled with the escapes of JSON, as
 * in a JSON string that holds JSON. The list is in the arena. The time is linear in the
 * length of the text. False: no memory. */
bool secrets_find(ms_value value, unsigned classes, ms_arena *arena, secret_list *out);

/* Reports each secret that was masked. */
typedef void (*secret_fn)(void *ctx, const secret *found);

/* Writes "[masked KIND]" in the place of each secret. *out is text itself if it has no
 * secret, else a text in the arena. In JSON only strings change, so that it stays JSON.
 * note may be NULL. False: no memory. */
bool secrets_mask(ms_value text, unsigned classes, ms_arena *arena, secret_fn note,
                  void *ctx, ms_value *out);

/* Does the same for the texts of a message: content, arguments, task, summary, members
 * of its format. Ids, keys and names stay, since other messages refer to them. */
bool secrets_mask_message(ms_envelope *m, unsigned classes, ms_arena *arena,
                          secret_fn note, void *ctx);

/* Writes the beginning of a secret, and its length: "ghp_..., 40 characters". */
enum { SECRET_HINT = 64 };
const char *secret_hint(const secret *found, char out[SECRET_HINT]);

#endif /* SECRETS_H */
