/* The commands: a row each, which stands with the help in the file of the command. */

#ifndef COMMANDS_H
#define COMMANDS_H

#include "store.h"

typedef struct command {
    const char *name;
    int (*run)(job *j);
    bool store;               /* the first argument is a STORE, which run() gets opened */
    size_t least, most;       /* arguments; of one that may be left out, "-" is meant */
    const char *arguments;    /* what is missing when there are too few */
    uint64_t takes, needs;    /* options */
    const char *help;
} command;

#define ANY_NUMBER SIZE_MAX
#define INPUT_OPTIONS                                                                    \
    (BIT(HELP) | BIT(LOCATION) | BIT(AGENT) | BIT(FROM) | BIT(LENIENT) | BIT(STRICT))
#define PRINT_OPTIONS (BIT(FORMAT) | BIT(WITH_LOCATION) | BIT(LIMIT))

#define INPUT_HELP                                                                       \
    "  --from FORMAT    the input's format; without it each message is looked at\n"      \
    "  --strict         refuse what is unknown or odd instead of keeping it whole\n"
#define VIEW_HELP                                                                        \
    "  --team A,B       everything that these agents wrote\n"                            \
    "  --global         broadcasts: global_observation, synthesis\n"                     \
    "  --timeline       everything (the default)\n"
#define WHEN_HELP                                                                        \
    "  --turn T         only this turn\n"                                                \
    "  --since T        only from T on: seconds since 1970, 2026-03-02, or\n"            \
    "                   2026-03-02T09:30:00Z (UTC)\n"                                    \
    "  --until T        only before T\n"
#define WRITE_OPTIONS (BIT(HELP) | BIT(WAIT) | BIT(SHARED))
#define WRITE_HELP                                                                       \
    "  --wait MS        wait so long when somebody else writes\n"                        \
    "  --shared         write beside others that do, too: each append takes its turn\n"
#define JOIN_HELP                                                                        \
    "Several STOREs are read as one, in order of time: 2:17 is message 17 of the\n"      \
    "second.\n"
#define PRINT_HELP                                                                       \
    "  --format F       table (the default), or a message format\n"                      \
    "  --with-location  with a message format: write location and agent_key, too\n"

extern const command convert_command;
extern const command view_command;
extern const command search_command;
extern const command diff_command;
extern const command history_command;
extern const command lookup_command;
extern const command check_command;
extern const command info_command;
extern const command report_command;
extern const command import_command;
extern const command append_command;
extern const command follow_command;
extern const command export_command;
extern const command amend_command;
extern const command hide_command;
extern const command rewind_command;
extern const command fork_command;
extern const command note_command;
extern const command location_command;
extern const command redact_command;
extern const command verify_command;
extern const command repair_command;
extern const command compact_command;
extern const command sync_command;
extern const command sessions_command;
extern const command usage_command;
extern const command formats_command;

#endif /* COMMANDS_H */
