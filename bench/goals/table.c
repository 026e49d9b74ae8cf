/* The goals: what each figure must reach, and where it is to go. See table.h. */
#include "table.h"

#include <stdio.h>
#include <string.h>

/* A goal: a value of at least, or at most, `must`; 0: no bound. PEER: the ratio of our
 * speed to that of the best store whose name begins with `peer`. */
#define LEAST(id, which, what, must, stretch, unit)                                    \
    {id, which, what, NULL, must, stretch, unit, true}
#define MOST(id, which, what, must, stretch, unit)                                     \
    {id, which, what, NULL, must, stretch, unit, false}
#define PEER(id, name, peer, what, must, stretch)                                      \
    {id, "x " name, what, peer, must, stretch, "x", true}

const bench_goal bench_goals[] = {
    PEER("A1", "sqlite", "sqlite tuned", "append, visible, no sync", 30, 50),
    PEER("A1", "lmdb", "lmdb", "append, visible, no sync", 3, 8),
    PEER("A1", "leveldb", "leveldb", "append, visible, no sync", 3.8, 0),
    PEER("A1", "jsonl", "jsonl", "append, visible, no sync", 3, 0),
    PEER("A2", "sqlite", "sqlite tuned", "append by 1000, no sync", 12, 25),
    PEER("A2", "lmdb", "lmdb", "append by 1000, no sync", 1.5, 0),
    PEER("A2", "leveldb", "leveldb", "append by 1000, no sync", 2.3, 0),
    PEER("A2", "floor", "floor prefaulted", "append by 1000, no sync", 0, 0.6),
    PEER("A3", "sqlite", "sqlite tuned", "append by 1000, then sync", 10, 0),
    PEER("A3", "lmdb", "lmdb", "append by 1000, then sync", 2.5, 0),
    PEER("A3", "leveldb", "leveldb", "append by 1000, then sync", 1.8, 0),
    PEER("A3", "floor", "floor write", "append by 1000, then sync", 0, 0.95),
    PEER("A4", "sqlite", "sqlite tuned", "sync each", 1.3, 0),
    PEER("A4", "lmdb", "lmdb", "sync each", 2, 0),
    PEER("A4", "python", "python", "sync each", 8, 0),
    LEAST("A4", "x bare, cache as written", "sync each", 0.75, 0.9, "x"),
    LEAST("A4", "x bare, cache read anew", "sync each", 0.75, 0.9, "x"),
    MOST("A4", "disk, cache as written", "sync each", 16, 0, "KiB/append"),
    MOST("A4", "disk, cache read anew", "sync each", 16, 0, "KiB/append"),
    MOST("A5", "time", "arena append, warmed", 200, 100, "ns"),
    LEAST("A5", "x floor", "arena append, warmed", 0.75, 0, "x"),
    MOST("A6", "slowest", "slowest of all appends", 2, 0.1, "ms"),
    LEAST("A7", "8 threads", "sync each, 8 threads to 1", 3, 6, "x"),
    MOST("A8", "log, fresh", "append with a key", 3, 1, "us"),
    MOST("A8", "log, repeated", "append with a known key", 3, 1, "us"),
    MOST("A8", "arena, fresh", "append with a key", 3, 1, "us"),
    MOST("A8", "arena, repeated", "append with a known key", 3, 1, "us"),
    PEER("R1", "sqlite", "sqlite tuned", "views, shallow", 40, 80),
    PEER("R1", "lmdb", "lmdb clustered", "views, shallow", 1.5, 2),
    PEER("R1", "leveldb", "leveldb", "views, shallow", 5, 0),
    PEER("R2", "sqlite", "sqlite tuned", "views, every byte", 7, 0),
    PEER("R2", "lmdb", "lmdb clustered", "views, every byte", 1.7, 0),
    PEER("R2", "leveldb", "leveldb", "views, every byte", 1, 1.3),
    MOST("R3", "time", "newest 20, hottest", 0.6, 0.3, "us"),
    MOST("R3", "flat", "newest 20, largest to least", 2, 0, "x"),
    PEER("R3", "sqlite", "sqlite tuned", "newest 20", 25, 0),
    PEER("R3", "lmdb", "lmdb", "newest 20", 1, 0),
    PEER("R4", "python", "python", "merged history", 100, 280),
    MOST("R5", "time", "newest 20, long ago", 50, 5, "us"),
    MOST("R6", "counted", "newest 20 locations", 5, 0.5, "ms"),
    MOST("R6", "names only", "newest 20 locations", 5, 0.5, "ms"),
    MOST("R7", "warm", "get an old message", 0.05, 0.01, "ms"),
    MOST("R7", "cold", "get an old message", 5, 1, "ms"),
    MOST("R8", "time", "one conversation, new process", 2000, 0, "ns/message"),
    PEER("R8", "lmdb", "lmdb clustered", "one conversation, new process", 0, 1),
    PEER("R8", "floor", "floor index", "one conversation, new process", 0, 0.5),
    PEER("R9", "lmdb", "lmdb clustered", "the same, compacted", 1, 0),
    PEER("R9", "floor", "floor index", "the same, compacted", 0, 0.5),
    PEER("F1", "lmdb", "lmdb clustered", "first views, shallow", 0.8, 0),
    PEER("F1", "leveldb", "leveldb", "first views, shallow", 1, 0),
    PEER("F2", "lmdb", "lmdb clustered", "first views, every byte", 1, 0),
    PEER("F2", "leveldb", "leveldb", "first views, every byte", 1, 0),
    PEER("W1", "lmdb", "lmdb clustered", "warm views of one list", 1.5, 0),
    PEER("W1", "floor", "floor index", "warm views of one list", 0.5, 0),
    PEER("W2", "lmdb", "lmdb clustered", "warm merges, newest 20", 1, 0),
    MOST("O1", "warm, reader", "open to first answer", 1, 0.2, "ms"),
    MOST("O1", "warm, writer", "open to first answer", 1, 0.2, "ms"),
    MOST("O1", "cold, reader", "open to first answer", 5, 1, "ms"),
    MOST("O1", "cold, writer", "open to first answer", 5, 1, "ms"),
    MOST("O1", "flat, reader", "warm, largest to least", 2, 0, "x"),
    MOST("O1", "flat, writer", "warm, largest to least", 2, 0, "x"),
    MOST("O2", "reader", "open after kill -9", 5, 1.5, "ms"),
    MOST("O2", "writer", "open after kill -9", 5, 1.5, "ms"),
    LEAST("O3", "verify", "verify the file", 5, 9, "GB/s"),
    MOST("D1", "ratio", "bytes on disk to those of fields", 1.12, 1.08, "x"),
    MOST("D2", "ratio", "the same, many small locations", 2.4, 1.6, "x"),
    MOST("M1", "RssAnon", "memory of a writer", 4, 1, "MiB"),
    MOST("M1", "as it says", "memory of a writer", 4, 1, "MiB"),
    MOST("M2", "RssAnon", "memory of a reader", 2, 0.5, "MiB"),
    MOST("M2", "as it says", "memory of a reader", 2, 0.5, "MiB"),
    LEAST("C1", "writer", "beside a reader, to alone", 0.8, 0.95, "x"),
    LEAST("C1", "reader", "beside a writer, to alone", 0.8, 0.95, "x"),
    LEAST("J1", "check", "check JSON", 1, 2.5, "GB/s"),
    LEAST("J1", "x cjson", "check JSON", 2, 0, "x"),
    MOST("P1", "openai", "project a history", 3, 0.6, "us"),
    MOST("P1", "chat-strict", "project a history", 3, 0.6, "us"),
    MOST("P1", "anthropic", "project a history", 3, 0.6, "us"),
    MOST("P1", "gemini", "project a history", 3, 0.6, "us"),
    MOST("P1", "pydantic-ai", "project a history", 3, 0.6, "us"),
    MOST("P1", "ollama", "project a history", 3, 0.6, "us"),
    MOST("P1", "deepseek", "project a history", 3, 0.6, "us"),
    MOST("P1", "glm", "project a history", 3, 0.6, "us"),
    MOST("P1", "openrouter", "project a history", 3, 0.6, "us"),
    MOST("P1", "openai-responses", "project a history", 3, 0.6, "us"),
    MOST("P1", "bedrock", "project a history", 3, 0.6, "us"),
    MOST("P1", "gemini-interactions", "project a history", 3, 0.6, "us"),
    MOST("P1", "cohere", "project a history", 3, 0.6, "us"),
    MOST("X1", "-O2", "compile the implementation", 6, 2.5, "s"),
    MOST("X1", "-O0", "compile the implementation", 1.5, 0.8, "s"),
    MOST("X1", "interface", "include the interface alone", 30, 10, "ms"),
    MOST("X2", "text", "code of the smallest program", 48, 24, "KiB"),

    MOST("log", "append", "append, page supply included", 600, 0, "ns/message"),
    MOST("log", "warm", "append, pages are there", 200, 0, "ns/message"),
    MOST("log", "tail", "newest 20 of a view", 1, 0, "us/query"),
    LEAST("log", "search", "search, later passes", 3, 0, "GB/s"),
    LEAST("log", "writers", "several writers, appends", 200, 0, "1000/s"),
    MOST("log", "longest", "several writers, longest append", 100, 0, "ms"),
    MOST("log", "changes", "beside changed locations", 3, 0, "% more"),
};

const size_t bench_n_goals = sizeof bench_goals / sizeof bench_goals[0];

bool bench_goal_names(const bench_goal *goal, const char *id, const char *which)
{
    size_t len = strlen(goal->which);
    if (strcmp(goal->id, id) != 0 || strncmp(goal->which, which, len) != 0) return false;
    return which[len] == '\0' || (strncmp(which + len, ", ", 2) == 0 &&
                                  which[len + 2] >= '0' && which[len + 2] <= '9');
}

const bench_goal *bench_goal_find(const char *id, const char *which)
{
    for (size_t i = 0; i < bench_n_goals; i++)
        if (bench_goal_names(&bench_goals[i], id, which)) return &bench_goals[i];
    return NULL;
}

static bool reaches(const bench_goal *goal, double bound, double value)
{
    return bound > 0 && (goal->at_least ? value >= bound : value <= bound);
}

const char *bench_verdict(const bench_goal *goal, double value)
{
    if (goal == NULL) return "-";
    if (reaches(goal, goal->stretch, value)) return "stretch";
    if (goal->must <= 0) return "-";
    return reaches(goal, goal->must, value) ? "reached" : "MISSED";
}


/* ---- the report ---- */

static size_t counts[3]; /* of goals: reached, stretched, missed */
static char missed[4096];

static void count(const bench_goal *goal, const char *what, const char *verdict)
{
    size_t used = strlen(missed);
    if (verdict[0] == '-') return;
    counts[verdict[0] == 'r' ? 0 : verdict[0] == 's' ? 1 : 2]++;
    if (verdict[0] == 'M')
        snprintf(missed + used, sizeof missed - used, "  %s %s\n", goal->id, what);
}

void bench_print_columns(void)
{
    printf("\n%-3s %-56s %10s %-11s %8s %8s  %-7s (least .. most)\n", "id", "what",
           "value", "unit", "goal", "stretch", "reached");
}

static const char *number_text(char out[32], double value)
{
    snprintf(out, 32, value < 1000 && value > -1000 ? "%.4g" : "%.0f", value);
    return out;
}

static const char *bound_text(char out[16], const bench_goal *goal, double bound)
{
    if (bound <= 0) return "-";
    snprintf(out, 16, "%s %g", goal->at_least ? ">=" : "<=", bound);
    return out;
}

void bench_print_line(const bench_goal *goal, const char *what, double value,
                      const char *unit, double least, double most, const char *noted)
{
    char must[16], stretch[16], texts[3][32];
    const char *verdict = bench_verdict(goal, value);
    if (goal != NULL) count(goal, what, verdict);
    printf("%-3s %-56s %10s %-11s %8s %8s  %-7s (%s .. %s)%s\n",
           goal != NULL ? goal->id : "", what, number_text(texts[0], value), unit,
           bound_text(must, goal, goal != NULL ? goal->must : 0),
           bound_text(stretch, goal, goal != NULL ? goal->stretch : 0), verdict,
           number_text(texts[1], least), number_text(texts[2], most), noted);
}

void bench_print_counts(void)
{
    printf("\nGoals: %zu reached, %zu of them stretched, %zu missed%s\n%s",
           counts[0] + counts[1], counts[1], counts[2], counts[2] > 0 ? ":" : ".",
           missed);
}
