/* The list of commands. */

#define _GNU_SOURCE
#include "commands.h"

static const command between = {
    NULL, NULL, NULL, false, 0, 0, NULL, 0, NULL, NULL, false,
};

const command *const commands[] = {
    &sync_command, &sessions_command, &search_command, &usage_command, &report_command,
    &show_command, &view_command,
    &between,
    &history_command, &export_command, &serve_command, &doctor_command,
    &hand_over_command, &mcp_command,
    &between,
    &convert_command, &diff_command, &lookup_command, &check_command, &info_command,
    &between,
    &import_command, &append_command, &follow_command, &verify_command, &repair_command,
    &compact_command, &ship_command, &fetch_command, &retire_command,
    &between,
    &amend_command, &hide_command, &rewind_command, &fork_command, &note_command,
    &location_command, &redact_command, &compact_context_command,
    &between,
    &formats_command, &completion_command, &manual_command,
    NULL,
};
