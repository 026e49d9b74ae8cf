/* Transcripts into a log, each message once. What a file gave is remembered as facts of a
 * location "file:PATH", which has no messages: size and time of the file, how much of it
 * was read, and the numbers of its messages.
 *
 * (Y1) A file whose size and time are the same is not opened.
 * (Y2) Of a file of lines that grew, what was there is recognised by its hash.
 * (Y3) Of a document the messages are compared with those stored; from the first that
 *      differs on the old ones are hidden and the new ones stored.
 * (Y4) A file that was moved, or compressed, is recognised by its name and its hash. */

#ifndef SYNC_H
#define SYNC_H

#include "intake.h"

typedef struct syncing {
    intake in;
    uint64_t unchanged, ignored, failed;
    uint64_t done, all;       /* files of those to be looked at */
    uint64_t bytes, bytes_all;
    double began, told;
    bool progress;
    file_text text;
} syncing;

/* Takes in what is new under a path. */
int sync_path(syncing *s, const char *path);
/* The same for one transcript or file of messages. */
int sync_unit(syncing *s, const unit *u);
void sync_free(syncing *s);
/* Returns whether a file or folder has transcripts. Standard input does not. */
bool is_transcript(const char *path);

#endif /* SYNC_H */
