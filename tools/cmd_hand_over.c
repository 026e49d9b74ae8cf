/* msgstore hand-over: a session of one agent program as the transcript of another one,
 * which can go on with it. */

#define _GNU_SOURCE
#include "commands.h"
#include "write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Gives the written file its name. Windows wants the name to be free. */
static int put_in_place(const char *written, const char *path)
{
    if (rename(written, path) == 0) return FINE;
    (void)remove(path);
    if (rename(written, path) == 0) return FINE;
    complain("%s: %s", path, strerror(errno));
    return FAILED;
}

/* Writes beside the file, so that one that is there stays when the session is refused. */
static int hand_over_to(job *j, const char *path)
{
    char beside[4096];
    output out = {NULL, 0};
    if (snprintf(beside, sizeof beside, "%s.part", path) >= (int)sizeof beside) {
        complain("%s: the name is too long", path);
        return USAGE;
    }
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    out.file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (out.file == NULL) {
        complain("%s: %s", beside, strerror(errno));
        if (fd >= 0) close(fd);
        return FAILED;
    }
    int code = output_end(&out, write_sessions(j, j->options->writer, true, &out));
    if (fclose(out.file) != 0 && code == FINE) {
        complain("%s: %s", beside, strerror(errno));
        code = FAILED;
    }
    if (code != FINE && code != DAMAGED) {
        (void)remove(beside);
        return code;
    }
    int placed = put_in_place(beside, path);
    return placed == FINE ? code : placed;
}

static int run_hand_over(job *j)
{
    const options *o = j->options;
    output out = {stdout, 0};
    if (o->writer == NULL || !o->writer->resumed) {
        complain("hand-over --to expects claude-code, codex, pi or sts%s",
                 o->writer == NULL ? "" : "; no program goes on with others: see export");
        return USAGE;
    }
    if (o->output == NULL) {
        return output_end(&out, write_sessions(j, o->writer, true, &out));
    }
    if (same_file(o->output, o->files[0])) {
        complain("%s: the file itself is not written to; name another one", o->output);
        return USAGE;
    }
    return hand_over_to(j, o->output);
}

static const option_row hand_over_rows[] = {
    {OPT_TO, "the other program: claude-code, codex, pi; sts for the Hugging Face hub"},
    {OPT_OUTPUT, "where to; a file that is there is replaced"},
    {OPT_LOCATION, "the same as SESSION"},
    {OPT_REPORT, "count on standard error what the other format cannot say"},
    {OPT_MASK_SECRETS, "without keys, tokens and passwords"},
    INPUT_ROWS,
    {OPT_END, NULL},
};

const command hand_over_command = {
    "hand-over", "a session for another agent program to go on with",
    run_hand_over, true, 1, 1, "a STORE", BIT(TO), hand_over_rows,
    "examples:\n"
    "  msgstore hand-over my.log d6e0bada --to codex -o rollout.jsonl\n"
    "  msgstore hand-over session.jsonl --to claude-code --report >new.jsonl\n"
    "\n"
    "usage: msgstore hand-over [OPTION...] STORE [SESSION] --to PROGRAM\n"
    "Writes a session as the transcript of another program. Entries are linked anew,\n"
    "and ids of calls made valid. A call without a result gets one that says so, and a\n"
    "result without a call gets a call. Thoughts stay out, since the provider of the\n"
    "other program did not sign them; so do messages of other agents.\n",
    true,
};
