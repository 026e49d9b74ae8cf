/* The commands: one row each, in the command's file, with its help. */

#ifndef COMMANDS_H
#define COMMANDS_H

#include "store.h"

/* An option of a command, with its line in the help. An option without a line is
 * accepted, but not shown. */
typedef struct option_row {
    int id;                   /* OPT_*; OPT_LABEL: a line between options; OPT_END */
    const char *text;
} option_row;

enum { OPT_END = -1, OPT_LABEL = -2 };

typedef struct command {
    const char *name;
    const char *summary;      /* in the list of commands */
    int (*run)(job *j);
    bool store;            /* the first argument is a STORE, which main opens for run() */
    size_t least, most;       /* arguments; a left out one means "-" */
    const char *arguments;    /* for the message about too few arguments */
    uint64_t needs;           /* options */
    const option_row *rows;
    const char *help;         /* examples, usage, effect */
    bool session;             /* a last argument that is no file names a session */
} command;

/* In the order of the help, with an entry without a name between groups; NULL at the
 * end. */
extern const command *const commands[];

#define ANY_NUMBER SIZE_MAX

#define MAX_ROW                                                                         \
    {OPT_MAX_INPUT, "refuse a compressed file that unpacks to more, and a transcript "  \
                    "from a pipe that is longer (1G)"}
#define INPUT_ROWS                                                                      \
    {OPT_FROM, "the input's format; without it each message is looked at"},             \
    MAX_ROW,                                                                            \
    {OPT_LENIENT, NULL},                                                                \
    {OPT_REFUSE, "refuse what is unknown or odd instead of keeping it whole"}
#define VIEW_ROWS                                                                       \
    {OPT_TEAM, "everything that these agents wrote"},                                   \
    {OPT_GLOBAL, "broadcasts: global_observation, synthesis"},                          \
    {OPT_TIMELINE, "everything (the default)"}
#define WHEN_ROWS                                                                       \
    {OPT_TURN, "only this turn"},                                                       \
    {OPT_SINCE, "only from T on: '2 days ago', yesterday, seconds since 1970, "         \
                "2026-03-02, or 2026-03-02T09:30:00 (with a Z: UTC)"},                  \
    {OPT_UNTIL, "only before T"}
#define PLAIN_ROW                                                                       \
    {OPT_PLAIN, "on a terminal, too, the text of messages as it is, with its Markdown"}
#define ZONE_ROW                                                                        \
    {OPT_TIMEZONE, "of times: Europe/Berlin, UTC, +02:00; else that of the machine"}
#define WRITE_ROWS                                                                      \
    {OPT_WAIT, "how long to wait for another writer"},                                  \
    {OPT_SHARED, "write beside others that do, too: each append takes its turn"}
#define PRINT_ROWS                                                                      \
    {OPT_FORMAT, "table (the default), or a message format"},                           \
    {OPT_WITH_LOCATION, "with a message format: write location and agent_key, too"}
#define JOIN_HELP                                                                        \
    "Several STOREs are read as one, in order of time: 2:17 is message 17 of the\n"      \
    "second.\n"

extern const command sync_command;
extern const command sessions_command;
extern const command search_command;
extern const command usage_command;
extern const command view_command;
extern const command show_command;
extern const command history_command;
extern const command export_command;
extern const command convert_command;
extern const command diff_command;
extern const command lookup_command;
extern const command check_command;
extern const command info_command;
extern const command report_command;
extern const command serve_command;
extern const command doctor_command;
extern const command hand_over_command;
extern const command import_command;
extern const command append_command;
extern const command follow_command;
extern const command ship_command;
extern const command fetch_command;
extern const command retire_command;
extern const command verify_command;
extern const command repair_command;
extern const command compact_command;
extern const command compact_context_command;
extern const command amend_command;
extern const command hide_command;
extern const command rewind_command;
extern const command fork_command;
extern const command note_command;
extern const command location_command;
extern const command redact_command;
extern const command mcp_command;
extern const command formats_command;
extern const command completion_command;
extern const command manual_command;

#endif /* COMMANDS_H */
