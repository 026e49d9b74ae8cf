/* See help.h. */

#define _GNU_SOURCE
#include "help.h"
#include "write.h"

#include <stdio.h>
#include <string.h>

enum { HELP_WIDTH = 79, TEXT_COLUMN = 19 };

static const struct {
    const char *word, *argument;
} option_words[] = {
#define X(name, word, argument) {word, argument},
    OPTIONS(X)
#undef X
};

const char *option_word(int id)
{
    return option_words[id].word;
}

const char *option_argument(const command *c, int id)
{
    if (id == OPT_TO && c == &ship_command) return "URL";
    if (id == OPT_TO && c == &hand_over_command) return "PROGRAM";
    return option_words[id].argument;
}

char option_letter(int id)
{
    return id == OPT_LIMIT ? 'n' : id == OPT_QUIET ? 'q' : id == OPT_CONTEXT ? 'C'
           : id == OPT_OUTPUT ? 'o' : id == OPT_HELP ? 'h' : '\0';
}

bool takes_option(const command *c, int id)
{
    if (id == OPT_HELP) return true;
    for (const option_row *row = c->rows; row->id != OPT_END; row++) {
        if (row->id == id) return true;
    }
    return false;
}


/* ---- Help -------------------------------------------------------------------------- */

/* Prints words from column `used` on; further lines begin at `column`. */
static void put_words(output *out, const char *text, size_t used, size_t column)
{
    while (*text != '\0') {
        size_t len = strcspn(text, " ");
        if (used + 1 + len > HELP_WIDTH && used > column) {
            emit_text(out, "\n");
            emit_pad(out, 0, (unsigned)column);
            used = column;
        } else if (used > column) {
            emit_text(out, " ");
            used++;
        }
        emit(out, text, len);
        used += len;
        text += len + (text[len] == ' ');
    }
    emit_text(out, "\n");
}

static void put_option(output *out, const command *c, const option_row *row)
{
    char head[64];
    char letter = option_letter(row->id);
    const char *argument = option_argument(c, row->id);
    int n = snprintf(head, sizeof head, "  %c%c%s--%s%s%s", letter != '\0' ? '-' : ' ',
                     letter != '\0' ? letter : ' ', letter != '\0' ? ", " : "",
                     option_word(row->id), argument != NULL ? " " : "",
                     argument != NULL ? argument : "");
    size_t len = (size_t)n;
    const char *text = head;
    if (letter == '\0') { /* an option without a letter has two blanks in its place */
        text = head + 2;
        len -= 2;
    }
    emit_text(out, text);
    size_t column = len + 1 < TEXT_COLUMN ? TEXT_COLUMN : len + 2;
    emit_pad(out, (unsigned)len, (unsigned)column);
    put_words(out, row->text, column, TEXT_COLUMN);
}

/* Prints a word of a list, on the next line if this one, of which *used columns are
 * taken, has no room for it. */
static void put_word(output *out, const char *word, size_t *used)
{
    if (*used + 1 + strlen(word) > HELP_WIDTH) {
        emit_text(out, "\n   ");
        *used = 3;
    }
    emit_text(out, " ");
    emit_text(out, word);
    *used += strlen(word) + 1;
}

/* Returns whether the row is the first of its name: a format with two shapes has two
 * rows. */
static bool is_first_name(size_t index)
{
    const char *name = format_at(index)->name;
    return format_find(ms_str_of(name)) == format_at(index);
}

void put_formats(output *out, bool transcripts)
{
    size_t used = 16;
    emit_text(out, "message formats:");
    for (size_t i = 0; ms_format_at(i) != NULL; i++) {
        put_word(out, ms_format_at(i)->name, &used);
    }
    emit_text(out, "\n");
    if (!transcripts) return;
    used = 13;
    emit_text(out, "to read only:");
    for (size_t i = 0; format_at(i) != NULL; i++) {
        if (is_first_name(i)) put_word(out, format_at(i)->name, &used);
    }
    emit_text(out, "\n");
}

void put_providers(output *out)
{
    size_t used = 10;
    emit_text(out, "providers:");
    for (size_t i = 0; ms_profile_at(i) != NULL; i++) {
        put_word(out, ms_profile_at(i)->name, &used);
    }
    emit_text(out, "\n");
}

void put_writers(output *out, bool resumed)
{
    size_t used = 17;
    emit_text(out, "written sessions:");
    for (size_t i = 0; writer_at(i) != NULL; i++) {
        if (writer_at(i)->resumed || !resumed) put_word(out, writer_at(i)->name, &used);
    }
    emit_text(out, "\n");
}

int print_command_help(const command *c)
{
    output out = {stdout, 0};
    emit_text(&out, c->help);
    bool any = false;
    for (const option_row *row = c->rows; row->id != OPT_END; row++) {
        if (row->text == NULL) continue;
        if (!any) emit_text(&out, "\n");
        any = true;
        if (row->id == OPT_LABEL) emit_format(&out, "%s:\n", row->text);
        else put_option(&out, c, row);
    }
    if (takes_option(c, OPT_FROM) || takes_option(c, OPT_FORMAT) ||
        c == &convert_command || takes_option(c, OPT_AS)) {
        emit_text(&out, "\n");
        put_formats(&out, takes_option(c, OPT_FROM));
        put_providers(&out);
    }
    return output_end(&out, FINE);
}

static const char main_begin[] =
    "examples:\n"
    "  msgstore sync\n"
    "  msgstore sessions --since '2 days ago'\n"
    "  msgstore search 'rate limit' -C 2\n"
    "  msgstore history my.log 5560 --format anthropic -n 40\n"
    "  msgstore view ~/.codex/sessions -n 20\n"
    "  msgstore convert --from openai --to framework chat.jsonl\n"
    "\n"
    "usage: msgstore COMMAND [OPTION...] [FILE...]\n";

static const char main_end[] =
    "\n"
    "msgstore help COMMAND has more, msgstore -V the version.\n"
    "\n"
    "A STORE is a log. Without one sync, sessions, search, usage, report, show, view,\n"
    "history, export, serve, hand-over, info, verify, follow, redact --secrets and mcp\n"
    "take $MSGSTORE_LOG, else ~/.local/state/msgstore/messages.log. A command that\n"
    "changes a log is given its name.\n"
    "In place of a log view, sessions, search, usage, history, info and others also\n"
    "take a file or a folder (- is standard input): transcripts of agent programs, or\n"
    "JSON or JSON Lines of messages, lists of messages, bodies of requests, or objects\n"
    "that carry such a list under messages, contents, traj, history or trajectory.\n"
    "view, sessions, search and info take several stores.\n\n";

int print_main_help(void)
{
    output out = {stdout, 0};
    char text[128];
    emit_text(&out, main_begin);
    emit_text(&out, "\nfirst:\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        const command *c = commands[i];
        if (c->name == NULL) emit_text(&out, "\n");
        else emit_format(&out, "  %-10s %s\n", c->name, c->summary);
    }
    emit_text(&out, main_end);
    put_formats(&out, true);
    put_providers(&out);
    for (size_t i = 0; i < EXIT_CODES; i++) {
        snprintf(text, sizeof text, "exit code %zu: %s\n", i, exit_texts[i]);
        emit_text(&out, text);
    }
    return output_end(&out, FINE);
}
