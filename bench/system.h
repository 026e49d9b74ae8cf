/* What all programs of the benchmark share: the clock, medians, the machine and its disk,
 * files, child processes, options, and how a program ends. Define _GNU_SOURCE before any
 * include. */

#ifndef BENCH_SYSTEM_H
#define BENCH_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

static inline uint64_t bench_now(void) /* nanoseconds, only goes forward */
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline double bench_since(uint64_t begin)
{
    return (double)(bench_now() - begin);
}

/* Sorts n values. bench_median needs at least one value. */
void bench_sort(uint64_t *values, size_t n);
double bench_median(double *values, size_t n);

/* Returns "10k", "1M". */
const char *bench_short(char out[32], size_t n);

/* Writes processor, system and compiler as one line. */
void bench_machine(char *out, size_t size);

/* Returns the number after `name` in a file of lines "name: number ..."; -1 if absent. */
double bench_number_in(const char *file, const char *name);

/* Returns the bytes that any process has made the disk of a folder write so far.
 * Without such a disk it returns the bytes that this process made dirty; -1: the system
 * does not count. *disk (may be NULL) receives whether the disk counted them. */
double bench_written_bytes(const char *folder, bool *disk);

/* Touches as much memory as n messages need, copies and page cache included, and frees
 * it. A virtual machine may have to get a page from its host at the first touch, which
 * costs many times what is measured. */
void bench_touch(size_t n);

/* Returns memory that was touched. The program ends if there is none. */
void *bench_memory(size_t size);


/* ---- files ---- */

/* Makes a folder for the program's files inside `where`, else $BENCH_DIR, else the
 * current folder. The program removes it when it ends, also by a signal. */
extern char bench_folder[4096];
void bench_make_folder(const char *where, const char *name);

/* These take a file, or all files below a folder. */
void bench_remove(const char *path);
void bench_read(const char *path);             /* into the page cache */
void bench_settle(const char *path, bool drop); /* to the disk; out of the page cache */
double bench_blocks(const char *path);          /* bytes of all blocks */


/* ---- processes ---- */

/* Forks a child that removes no folder and dies by signals. bench_wait returns how the
 * child ended; bench_ended returns whether one of the children has ended. */
pid_t bench_fork(void);
int bench_wait(pid_t pid);
bool bench_ended(void);

/* Returns zeroed memory that children share. */
void *bench_shared(size_t size);


/* ---- the end of a program, and its options ---- */

/* Kills the children and removes the folder. */
void bench_clean_up(void);

/* bench_die ends the program. bench_must ends it unless `fine`, with the text of
 * errno. */
__attribute__((noreturn)) void bench_die(const char *what, const char *why);
void bench_must(bool fine, const char *what);

/* Parses a whole number. The program ends with status 2 if the text is not a number
 * from least to most. *end (may be NULL) receives the end of the number; with NULL
 * nothing may follow it. */
size_t bench_number(const char *text, char **end, size_t least, size_t most);

/* Returns whether `word` is in the list, which commas separate. A NULL list has all. */
bool bench_listed(const char *list, const char *word);

#endif /* BENCH_SYSTEM_H */
