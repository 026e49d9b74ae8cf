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
    size_t at, len;           /* bytes of the text */
    const char *kind;         /* "github-token" */
} secret;

/* Finds the first secret at or after *from and moves *from past it. */
bool secret_next(ms_str text, unsigned classes, size_t *from, secret *out);

/* Reports each secret that was masked. */
typedef void (*secret_fn)(void *ctx, const secret *found, ms_str text);

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
const char *secret_hint(ms_str text, const secret *found, char out[SECRET_HINT]);

#endif /* SECRETS_H */
