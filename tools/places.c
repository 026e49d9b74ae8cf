/* See places.h. */

#define _GNU_SOURCE
#include "places.h"

#include <stdlib.h>
#include <string.h>

typedef struct place_row {
    const char *format, *variable, *path;
} place_row;

#define IN_CODE(variable, before)                                                        \
    {"roo-code", variable, before "globalStorage/rooveterinaryinc.roo-cline/tasks"},     \
    {"roo-code", variable, before "globalStorage/saoudrizwan.claude-dev/tasks"},         \
    {"roo-code", variable, before "globalStorage/kilocode.kilo-code/tasks"}

#define CURSOR(variable, before) \
    {"cursor", variable, before "Cursor/User/globalStorage/state.vscdb"}

/* Without a variable a path is one of the home folder. */
static const place_row rows[] = {
    {"claude-code", "CLAUDE_CONFIG_DIR", "projects"},
    {"claude-code", NULL, ".claude/projects"},
    {"claude-code", "CLAUDE_CONFIG_DIR", "history.jsonl"},
    {"claude-code", NULL, ".claude/history.jsonl"},
    {"claude-code", "XDG_CONFIG_HOME", "claude/projects"},
    {"claude-code", NULL, ".config/claude/projects"},
    {"codex", "CODEX_HOME", "sessions"},
    {"codex", "CODEX_HOME", "archived_sessions"},
    {"codex", NULL, ".codex/sessions"},
    {"codex", NULL, ".codex/archived_sessions"},
    {"gemini-cli", NULL, ".gemini/tmp"},
    {"copilot-cli", NULL, ".copilot/session-state"},
    {"openhands", NULL, ".openhands/conversations"},
    {"pi", "PI_CODING_AGENT_DIR", "sessions"},
    {"pi", NULL, ".pi/agent/sessions"},
    {"opencode", "XDG_DATA_HOME", "opencode/storage"},
    {"opencode", NULL, ".local/share/opencode/storage"},
    {"opencode", "XDG_DATA_HOME", "opencode/opencode.db"},
    {"opencode", NULL, ".local/share/opencode/opencode.db"},
    {"qwen-code", NULL, ".qwen/projects"},
    {"kimi-code", NULL, ".kimi-code/sessions"},
    {"crush", NULL, ".crush/crush.db"},
    {"cline", NULL, ".cline/data/sessions"},
    IN_CODE("XDG_CONFIG_HOME", "Code/User/"),
    IN_CODE(NULL, ".config/Code/User/"),
    IN_CODE(NULL, "Library/Application Support/Code/User/"),
    IN_CODE("APPDATA", "Code/User/"),
    IN_CODE(NULL, "AppData/Roaming/Code/User/"),
    IN_CODE(NULL, ".vscode-server/data/User/"),
    CURSOR("XDG_CONFIG_HOME", ""),
    CURSOR(NULL, ".config/"),
    CURSOR(NULL, "Library/Application Support/"),
    CURSOR("APPDATA", ""),
    CURSOR(NULL, "AppData/Roaming/"),
};

static void add_place(usual_place **places, const place_row *row, const char *base)
{
    usual_place p = {row->format, row->variable, path_join(base, row->path), false};
    for (size_t i = 0; i < arrlenu(*places); i++) {
        bool same = strcmp((*places)[i].path, p.path) == 0;
        if (same) free(p.path);
        if (same) return;
    }
    p.there = is_there(p.path);
    arrput(*places, p);
}

usual_place *places_of_user(void)
{
    usual_place *places = NULL;
    const char *home = getenv("HOME");
    if (home == NULL) home = getenv("USERPROFILE");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *at = rows[i].variable != NULL ? getenv(rows[i].variable) : home;
        while (at != NULL && *at != '\0') { /* Claude's variable can have several */
            size_t len = rows[i].variable != NULL ? strcspn(at, ",") : strlen(at);
            char *base = copy_chars(at, len);
            if (base == NULL) exit(no_memory());
            if (len > 0) add_place(&places, &rows[i], base);
            free(base);
            at += len + (at[len] == ',');
        }
    }
    return places;
}

void places_free(usual_place *places)
{
    for (size_t i = 0; i < arrlenu(places); i++) free(places[i].path);
    arrfree(places);
}
