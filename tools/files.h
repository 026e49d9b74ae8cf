/* Files as text in memory: plain files, files compressed with zstd, members of a ZIP,
 * and the files of a folder. */

#ifndef FILES_H
#define FILES_H

#include "base.h"

/* The text of a file, valid until the next one is loaded, or file_free. */
typedef struct file_text {
    ms_str text;
    char *buf;                /* reused for the next file */
    size_t cap;
    void *map;                /* of a large file */
    size_t map_size;
    bool plain;               /* a regular file, which can be read once more */
    int pipe;                 /* after file_load_head: of what has a name and is no
                               * regular file, still open; else 0 */
} file_text;

/* Sets the bound of what a file is unpacked to, and of a transcript from a pipe, which
 * are held in memory. 0: 1 GiB. Transcripts of several 100 MB exist; zstd packs text of
 * one letter 32,000 times. */
void files_limit(uint64_t bytes);
uint64_t files_most(void);

/* Opens a file, or a pipe that somebody writes, for reading. Returns the descriptor, or
 * reports the error, sets errno and returns -1: of a socket, of a device, of a pipe that
 * nobody has opened within two seconds. Of devices only terminals and /dev/null are
 * read. */
int file_open(const char *path);

/* Loads the beginning of a file ("-" is standard input): 64 KiB, or from a pipe at
 * least a line. *all: the file has no more. file_load_rest loads the rest of standard
 * input or of another pipe. */
int file_load_head(file_text *f, const char *path, bool *all);
int file_load_rest(file_text *f, const char *path);
/* Loads a file ("-" is standard input) and unpacks zstd. DAMAGED: the compressed text
 * ends early, and the text is what there is. A tool built without libzstd reports such a
 * file as an error. */
int file_load(file_text *f, const char *path);
void file_free(file_text *f);

/* Returns whether a text begins as a ZIP file, or as zstd output. */
bool is_zip(ms_str text);
bool is_zstd(ms_str text);
/* Calls visit for each member of a ZIP, the text of that file, whose name begins with
 * `prefix`. */
int zip_each(const char *path, ms_str text, const char *prefix, void *ctx,
             int (*visit)(void *ctx, const char *name, ms_str text));

bool is_folder(const char *path);
bool is_there(const char *path);
/* Returns whether a path is neither a file nor a folder: opening it again would lose
 * what was read, or wait. */
bool is_pipe(const char *path);
/* Returns whether both names are of one existing file. */
bool same_file(const char *a, const char *b);

/* Returns all files under a folder, by name, in an stb_ds array. Leaves out hidden
 * folders below it, and links to folders, which may form a cycle. *others (may be NULL):
 * added is the number of pipes, sockets, devices and links to nothing, which are left
 * out, too. Free with paths_free. */
char **paths_of(const char *folder, uint64_t *others);
void complain_of_others(const char *folder, uint64_t others);
void paths_free(char **paths);

/* Returns "dir/name" in a fresh string. */
char *path_join(const char *folder, const char *name);
/* Returns the last part of a path. */
const char *path_name(const char *path);
bool ends_with(const char *text, const char *end);

/* A file that is written under another name and renamed when it is complete: an
 * existing file stays until then. A device or a pipe is written directly. */
typedef struct new_file {
    output out;
    char *path, *beside;      /* beside: the other name; NULL: none */
} new_file;

/* Begins the file. mode: its permissions if it is new; 0600 keeps other users out. */
int new_file_begin(new_file *n, const char *path, unsigned mode);
/* Returns whether what is written goes to standard output. */
bool new_file_is_output(const new_file *n);
/* Ends the file and returns the exit code. After a code other than FINE and DAMAGED the
 * old file is unchanged. */
int new_file_end(new_file *n, int code);

/* Returns the libraries that the tool was built with: "zstd, zip". */
const char *files_built_with(void);

#endif /* FILES_H */
