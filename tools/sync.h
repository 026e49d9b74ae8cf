/* Transcripts into a log, each message once. The log remembers each file as facts of a
 * location "file:PATH", which has no messages: size and time of the file, the bytes
 * that were read, the numbers of its messages, and how many of them have their notes.
 *
 * (SY1) A file of the same size and time is not opened; by an import it is if it ended
 * early, or was damaged, so that the import reports it each time.
 * (SY2) A file of lines that grew is recognised by the hash of its earlier bytes.
 * (SY3) The messages of a document are compared with those stored. From the first
 * difference on, the old ones are hidden and the new ones stored.
 * (SY4) A file that was moved, or compressed, is recognised by its name and its hash. A
 * copy shares the messages of its original, and hides none of them; so does any file with
 * messages that another one has stored (see identity.h).
 * (SY5) A conversation's name is another one if other files have messages of that name;
 * a file keeps the names of its known messages.
 * (SY6) A batch of messages and the facts that name them are one append. A sync that
 * ended early stores none of them again, writes the notes that are missing, and hides
 * what was to be hidden.
 * (SY7) A session can go on from a branch that was taken back. What is hidden stays so:
 * the branch is stored again, and after it what follows.
 * (SY8) A file is left out if the facts that the log has of it may be damaged, or what
 * leads to them.
 * (SY9) Numbers are facts in pieces of 16 messages, of which a sync writes those that
 * changed: what the log notes of a file grows as its messages do. */

#ifndef SYNC_H
#define SYNC_H

#include "intake.h"
#include "past.h"

typedef struct syncing {
    intake in;
    uint64_t unchanged;       /* files that an earlier sync has read */
    uint64_t ignored, failed;
    char **unread;            /* the first files of unknown formats, with what was seen:
                               * an stb_ds array */
    uint64_t ignored_before;  /* files that an earlier sync counted so, */
    char **unread_before;     /* with --full or --json their paths: an stb_ds array */
    uint64_t bad_before;      /* lines without JSON in unchanged files */
    uint64_t cut, cut_before; /* damaged files of which a part was read; unchanged ones */
    uint64_t empty;           /* files without a byte */
    char *log;                /* its path without links: no transcript; or NULL */
    uint64_t looked, found;   /* usual places; 0: folders were named */
    tally programs;           /* of the places that are there */
    uint64_t others;          /* pipes, sockets, devices, broken links in folders */
    uint64_t done, all;       /* files to look at */
    uint64_t bytes, bytes_all;
    double began, reported;
    bool progress;
    file_text text;
    identities stored;        /* of the location of the last file */
    char *folder, *real;      /* the last file's folder, as named and without links */
    char **past;              /* files of prompts, for sync_past: an stb_ds array */
    past_counts prompts;
} syncing;

/* Stores what is new under a path. */
int sync_path(syncing *s, const char *path);
/* Does the same for one transcript or file of messages. */
int sync_unit(syncing *s, const unit *u);
/* Stores the prompts of deleted sessions, after all transcripts (see past.h). */
int sync_past(syncing *s);
/* Reports files of unknown formats on standard error. */
void sync_complain_of_unread(const syncing *s);
void sync_free(syncing *s);
/* Returns the name by the hash of a path for the facts of a synced file that are named by
 * the path; absent for facts of another kind. */
ms_str sync_other_name(ms_str name, ms_str facts, char out[MS_KEY_MAX + 1]);
/* Returns whether a file or folder has transcripts. Standard input does not. */
bool is_transcript(const char *path);

#endif /* SYNC_H */
