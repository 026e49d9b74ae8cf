/* The goals of the benchmarks: what each figure must reach, and where it is to go.
 *
 * A row is found by its id and by which of the id's figures it is about; times are of one
 * message, query or call. A figure with unit "x" is a ratio of two that were measured in
 * the same run: "x sqlite" is how many times as fast as SQLite, "x bare" as the operating
 * system's calls alone. Ids of capital letters are those of the comparison with other
 * stores; "log" are goals that the log has of its own. The programs that measure
 * (goals.c, the drivers of stores) tell figures only; whoever prints a verdict takes it
 * from here.
 */

#ifndef BENCH_GOALS_TABLE_H
#define BENCH_GOALS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct bench_goal {
    const char *id, *which, *what;
    double must, stretch;     /* 0: none */
    const char *unit;
    bool at_least;            /* a good value is not below; else not above */
} bench_goal;

static const bench_goal bench_goals[] = {
    {"A1", "x sqlite", "append, visible, no sync", 30, 50, "x", true},
    {"A1", "x lmdb", "append, visible, no sync", 3, 8, "x", true},
    {"A1", "x leveldb", "append, visible, no sync", 3.8, 0, "x", true},
    {"A1", "x jsonl", "append, visible, no sync", 3, 0, "x", true},
    {"A2", "x sqlite", "append by 1000, no sync", 12, 25, "x", true},
    {"A2", "x lmdb", "append by 1000, no sync", 1.5, 0, "x", true},
    {"A2", "x leveldb", "append by 1000, no sync", 2.3, 0, "x", true},
    {"A2", "x floor", "append by 1000, no sync", 0, 0.6, "x", true},
    {"A3", "x sqlite", "append by 1000, then sync", 10, 0, "x", true},
    {"A3", "x lmdb", "append by 1000, then sync", 2.5, 0, "x", true},
    {"A3", "x leveldb", "append by 1000, then sync", 1.8, 0, "x", true},
    {"A3", "x floor", "append by 1000, then sync", 0, 0.95, "x", true},
    {"A4", "x sqlite", "sync each", 1.3, 0, "x", true},
    {"A4", "x lmdb", "sync each", 2, 0, "x", true},
    {"A4", "x python", "sync each", 8, 0, "x", true},
    {"A4", "x bare, cache as written", "sync each", 0.75, 0.9, "x", true},
    {"A4", "x bare, cache read anew", "sync each", 0.75, 0.9, "x", true},
    {"A4", "disk, cache as written", "sync each", 16, 0, "KiB/append", false},
    {"A4", "disk, cache read anew", "sync each", 16, 0, "KiB/append", false},
    {"A5", "time", "arena append, warmed", 200, 100, "ns", false},
    {"A5", "x floor", "arena append, warmed", 0.75, 0, "x", true},
    {"A6", "slowest", "slowest of all appends", 2, 0.1, "ms", false},
    {"A7", "8 threads", "sync each, 8 threads to 1", 3, 6, "x", true},
    {"A8", "log, fresh", "append with a key", 3, 1, "us", false},
    {"A8", "log, repeated", "append with a known key", 3, 1, "us", false},
    {"A8", "arena, fresh", "append with a key", 3, 1, "us", false},
    {"A8", "arena, repeated", "append with a known key", 3, 1, "us", false},
    {"R1", "x sqlite", "views, shallow", 40, 80, "x", true},
    {"R1", "x lmdb", "views, shallow", 1.5, 2, "x", true},
    {"R1", "x leveldb", "views, shallow", 5, 0, "x", true},
    {"R2", "x sqlite", "views, every byte", 7, 0, "x", true},
    {"R2", "x lmdb", "views, every byte", 1.7, 0, "x", true},
    {"R2", "x leveldb", "views, every byte", 1, 1.3, "x", true},
    {"R3", "time", "newest 20, hottest", 0.6, 0.3, "us", false},
    {"R3", "flat", "newest 20, largest to least", 2, 0, "x", false},
    {"R3", "x sqlite", "newest 20", 25, 0, "x", true},
    {"R3", "x lmdb", "newest 20", 1, 0, "x", true},
    {"R4", "x python", "merged history", 100, 280, "x", true},
    {"R5", "time", "newest 20, long ago", 50, 5, "us", false},
    {"O1", "warm, reader", "open to first answer", 1, 0.2, "ms", false},
    {"O1", "warm, writer", "open to first answer", 1, 0.2, "ms", false},
    {"O1", "cold, reader", "open to first answer", 5, 1, "ms", false},
    {"O1", "cold, writer", "open to first answer", 5, 1, "ms", false},
    {"O1", "flat, reader", "warm, largest to least", 2, 0, "x", false},
    {"O1", "flat, writer", "warm, largest to least", 2, 0, "x", false},
    {"O2", "reader", "open after kill -9", 5, 1.5, "ms", false},
    {"O2", "writer", "open after kill -9", 5, 1.5, "ms", false},
    {"O3", "verify", "verify the file", 5, 9, "GB/s", true},
    {"D1", "ratio", "bytes on disk to those of fields", 1.12, 1.08, "x", false},
    {"D2", "ratio", "the same, many small locations", 2.4, 1.6, "x", false},
    {"M1", "RssAnon", "memory of a writer", 4, 1, "MiB", false},
    {"M1", "as it says", "memory of a writer", 4, 1, "MiB", false},
    {"M2", "RssAnon", "memory of a reader", 2, 0.5, "MiB", false},
    {"M2", "as it says", "memory of a reader", 2, 0.5, "MiB", false},
    {"C1", "writer", "beside a reader, to alone", 0.8, 0.95, "x", true},
    {"C1", "reader", "beside a writer, to alone", 0.8, 0.95, "x", true},
    {"J1", "check", "check JSON", 1, 2.5, "GB/s", true},
    {"J1", "x cjson", "check JSON", 2, 0, "x", true},
    {"P1", "openai", "project a history", 3, 0.6, "us", false},
    {"P1", "chat-strict", "project a history", 3, 0.6, "us", false},
    {"P1", "anthropic", "project a history", 3, 0.6, "us", false},
    {"P1", "gemini", "project a history", 3, 0.6, "us", false},
    {"P1", "pydantic-ai", "project a history", 3, 0.6, "us", false},
    {"P1", "ollama", "project a history", 3, 0.6, "us", false},
    {"X1", "-O2", "compile the implementation", 6, 2.5, "s", false},
    {"X1", "-O0", "compile the implementation", 1.5, 0.8, "s", false},
    {"X1", "interface", "include the interface alone", 30, 10, "ms", false},
    {"X2", "text", "code of the smallest program", 48, 24, "KiB", false},

    {"log", "append", "append, page supply included", 600, 0, "ns/message", false},
    {"log", "warm", "append, pages are there", 200, 0, "ns/message", false},
    {"log", "tail", "newest 20 of a view", 1, 0, "us/query", false},
    {"log", "search", "search, later passes", 3, 0, "GB/s", true},
    {"log", "writers", "several writers, appends", 200, 0, "1000/s", true},
    {"log", "longest", "several writers, longest append", 100, 0, "ms", false},
    {"log", "changes", "beside changed locations", 3, 0, "% more", false},
};

enum { BENCH_GOALS = sizeof bench_goals / sizeof bench_goals[0] };

/* Behind which figure it is, a number of messages may follow: "time, 10k". */
static inline bool bench_goal_names(const bench_goal *goal, const char *which)
{
    size_t len = strlen(goal->which);
    if (strncmp(goal->which, which, len) != 0) return false;
    return which[len] == '\0' || (strncmp(which + len, ", ", 2) == 0 &&
                                  which[len + 2] >= '0' && which[len + 2] <= '9');
}

/* NULL: there is no such row. */
static inline const bench_goal *bench_goal_find(const char *id, const char *which)
{
    for (size_t i = 0; i < BENCH_GOALS; i++)
        if (strcmp(bench_goals[i].id, id) == 0 &&
            bench_goal_names(&bench_goals[i], which))
            return &bench_goals[i];
    return NULL;
}

static inline bool bench_reaches(const bench_goal *goal, double bound, double value)
{
    return bound > 0 && (goal->at_least ? value >= bound : value <= bound);
}

/* "below", "ok" or "stretch". A row that only has a stretch is never below. */
static inline const char *bench_verdict(const bench_goal *goal, double value)
{
    if (bench_reaches(goal, goal->stretch, value)) return "stretch";
    return goal->must <= 0 || bench_reaches(goal, goal->must, value) ? "ok" : "below";
}

#endif /* BENCH_GOALS_TABLE_H */
