/* The messages of a session by their identity: what a copy, a backup or a resumed file
 * repeats is found again.
 *
 * The identity of a message is the id of its entry in the format (Claude's uuid, an
 * item's or a message's id) and its place among the messages of that id. Where a format
 * has no id, it is the message's type, call and time (without a time, or of an unknown
 * type, its content), and its place among equal ones. Both a file and what is stored of a
 * location are walked in their order, so that the places agree.
 *
 * (ID1) Of two messages with one identity the later one is not stored.
 * (ID2) A message that a sync hid because its file lost it has no identity any more: when
 * it comes back, it is stored again. One that a user hid or erased keeps its identity.
 * (ID3) A file with an own message, and all that its session shows of its agents, is the
 * longest one. Its tree decides what is taken back; that of another copy does not. */

#ifndef IDENTITY_H
#define IDENTITY_H

#include "json.h"

/* Hashes eight bytes at a time. */
uint64_t hash_bytes(ms_str text);

typedef struct identity_count {
    uint64_t key;
    uint32_t value;
} identity_count;

/* The place in a walk over messages. */
typedef struct identity_walk {
    identity_count *counts;   /* messages of each id so far: an stb_ds map */
    uint64_t base;            /* of the message before */
} identity_walk;

/* Returns the identity of the next message, which has its location. */
uint64_t identity_next(identity_walk *w, const ms_envelope *m);
void identity_walk_free(identity_walk *w);

typedef struct identity_seq {
    uint64_t key, value;
} identity_seq;

/* What is stored of one location: that of the last call. */
typedef struct identities {
    ms_arena arena;           /* its name */
    ms_str location;          /* absent: none */
    identity_seq *seqs;       /* identity -> number; this and the next: stb_ds maps */
    identity_seq *dead;       /* numbers that a sync hid, as their tree took them back */
    identity_seq *gone;       /* that a sync hid, as their file lost or replaced them */
    bool unread;              /* those of some location were not all read: it was said */
    uint64_t told;            /* hash of that location */
} identities;

/* Returns the number of the stored message of that identity; 0 if there is none. The
 * messages of the location are read at the first call for it. */
uint64_t identity_find(identities *all, ms_store *store, ms_str location, uint64_t id);
/* Returns whether a location has no message. */
bool identity_is_empty(identities *all, ms_store *store, ms_str location);
/* Adds a message that was stored. */
void identity_add(identities *all, ms_str location, uint64_t id, uint64_t seq);
/* Returns whether a sync hid that message of the location because it was taken back; or
 * because its file has it no more, or stored it again. */
bool identity_is_dead(const identities *all, uint64_t seq);
bool identity_is_gone(const identities *all, uint64_t seq);
/* Has the location read again at the next call. */
void identities_forget(identities *all);
void identities_free(identities *all);

/* Notes that a sync hides these messages: gone, their file has them no more; else their
 * tree took them back. */
ms_result identity_note_hidden(ms_store *store, bool gone, const uint64_t *numbers,
                               size_t n, ms_error *err);

/* Appends "1-20,25" for numbers; reads such a text: false if it has others, or more than
 * `most`. */
bool number_read(ms_str *text, uint64_t *out);
void numbers_put(ms_buf *buf, const uint64_t *numbers, size_t n);
bool numbers_read(uint64_t **numbers, ms_str text, size_t most);

#endif /* IDENTITY_H */
