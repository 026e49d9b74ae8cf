/* Functions of cmd_diff.c that other files use. */

#ifndef CMD_DIFF_H
#define CMD_DIFF_H

#include "store.h"

enum { DIFF_PATH = 256 };

/* The texts of two values that differ; absent on the side that lacks the value. */
typedef struct difference {
    char path[DIFF_PATH];     /* "args.limit" */
    size_t len;
    ms_str a, b;
    ms_arena *arena;          /* of strings with escapes */
} difference;

/* One of the two runs. */
typedef struct side {
    job job;
    options options;
    ms_cursor it;
    const ms_msg *msg;
} side;
#define DIFF_TIMES ((uint32_t)1 << 31) /* a time is no field */
#define DIFF_IDS                                                                         \
    ((uint32_t)1 << MS_F_LOCATION | (uint32_t)1 << MS_F_TURN_ID |                        \
     (uint32_t)1 << MS_F_CALL_ID | (uint32_t)1 << MS_F_ID | (uint32_t)1 << MS_F_KEY)
#define DIFF_REST                                                                        \
    ((uint32_t)1 << MS_F_EXTRA | (uint32_t)1 << MS_F_SOURCE)

#endif /* CMD_DIFF_H */
