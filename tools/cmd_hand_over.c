/* msgstore hand-over: writes a session of one agent program as a transcript of another
 * program, which can continue it. */

#define _GNU_SOURCE
#include "commands.h"
#include "write.h"

#include <stdio.h>
#include <string.h>

/* Prints how a written session is continued. path: of the file, as a word of a shell. */
static void print_next(output *out, const written_next *next, const char *path)
{
    if (next->session[0] != '\0') emit_format(out, "session    %s\n", next->session);
    if (next->place[0] != '\0') {
        emit_text(out, "place      ");
        emit_visible(out, next->place);
        emit_text(out, "\n");
    }
    emit_format(out, "then       %s", next->command);
    if (next->takes_file) emit_text(out, " ");
    if (next->takes_file) emit_visible(out, path);
    emit_text(out, "\n");
}

static int run_hand_over(job *j)
{
    const options *o = j->options;
    output out = {stdout, 0};
    new_file file;
    written_next next;
    if (o->writer == NULL || !o->writer->resumed) {
        complain("hand-over --to expects claude-code, codex, opencode, gemini-cli, pi or "
                 "sts%s",
                 o->writer != NULL ? "; no program can resume others: see export"
                 : o->to != NULL && strcmp(o->to->name, "gemini") == 0
                     ? "; did you mean gemini-cli?" : "");
        return USAGE;
    }
    if (o->output == NULL) {
        return output_end(&out, write_sessions(j, o->writer, true, &out, NULL));
    }
    if (same_file(o->output, o->files[0])) {
        complain("%s: the file itself is not written to; name another one", o->output);
        return USAGE;
    }
    memset(&next, 0, sizeof next);
    int code = new_file_begin(&file, o->output, 0600);
    if (code != FINE) return code;
    code = write_sessions(j, o->writer, true, &file.out, &next);
    bool apart = !new_file_is_output(&file);
    code = new_file_end(&file, code);
    if (is_read(code) && apart && next.command[0] != '\0') {
        print_next(&out, &next, shell_word(&j->arena, o->output));
    }
    return output_end(&out, code);
}

static const option_row hand_over_rows[] = {
    {OPT_TO, "the other program: claude-code, codex, opencode (for opencode import), "
             "gemini-cli (for gemini --session-file), pi; sts for the Hugging Face hub"},
    {OPT_OUTPUT, "where to; a file that is there is replaced"},
    {OPT_LOCATION, "the same as SESSION"},
    {OPT_REPORT, "name on standard error what is left out, and count each kind"},
    {OPT_MASK_SECRETS, "without keys, tokens and passwords"},
    INPUT_ROWS,
    {OPT_END, NULL},
};

const command hand_over_command = {
    "hand-over", "write a session for another agent program to continue",
    run_hand_over, true, 1, 1, "a STORE", BIT(TO), hand_over_rows,
    "examples:\n"
    "  msgstore hand-over my.log d6e0bada --to codex -o rollout.jsonl\n"
    "  msgstore hand-over session.jsonl --to claude-code --report >new.jsonl\n"
    "\n"
    "usage: msgstore hand-over [OPTION...] [STORE] [SESSION] --to PROGRAM\n"
    "Writes a session as the transcript of another program. Entries are linked anew,\n"
    "and ids of calls made valid. A call without a result gets a made one, and a result\n"
    "without a call gets a call. Thoughts stay out, since the provider of the\n"
    "other program did not sign them; so do messages of other agents, and data that\n"
    "only its own program reads, as LangGraph's checkpoints. A message without a time\n"
    "gets a made date, a millisecond after the one before; without any time dates begin\n"
    "at the last change of the file. What is left out is counted on standard error, by\n"
    "its kind with --report. With -o it prints the new\n"
    "session's name, the place where its program looks for the file, and the command\n"
    "that goes on with it. Without a STORE it is the usual log.\n",
    true,
};
