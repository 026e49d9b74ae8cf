/* msgstore lookup: prints the original of a shortened message. */

#define _GNU_SOURCE
#include "commands.h"

#include <stdio.h>
#include <string.h>


/* ---- msgstore lookup --------------------------------------------------------------- */

/* Parses "session-<location>-msg-<seq>" into the location and the sequence number. */
static bool parse_key(ms_str key, ms_str *location, uint64_t *seq)
{
    static const char mark[] = "-msg-";
    const size_t len = sizeof mark - 1;
    size_t at = key.len;
    if (!text_begins(key, MS_STR("session-"))) return false;
    while (at > 8 + len && memcmp(key.ptr + at - len, mark, len) != 0) at--;
    if (at <= 8 + len || at == key.len || key.ptr[at] == '-') return false;
    *location = ms_str_n(key.ptr + 8, at - len - 8);
    return ms_json_u64(ms_str_n(key.ptr + at, key.len - at), seq) == MS_OK;
}

/* Prints the text of the message found; with a format, or without a text, the complete
 * message. */
static int print_found(job *j, const ms_msg *msg)
{
    output out = {stdout, 0};
    ms_error err;
    ms_writer w;
    ms_result result = MS_OK;
    const ms_format *to = j->options->to;
    ms_writer_opts opts = {false, false, GIVEN(j->options, WITH_LOCATION)};
    if (to == NULL && ms_content(msg).text.ptr != NULL) {
        emit_message_text(&out, ms_content(msg).text);
        return output_end(&out, FINE);
    }
    if (to == NULL) to = ms_format_find(MS_STR("framework"));
    ms_writer_init(&w, to, &opts, &j->arena, emit, &out);
    result = write_msg(&w, msg, &err);
    if (result == MS_OK) result = ms_writer_finish(&w, &err);
    int code = result == MS_OK || out.error != 0 ? FINE : complain_of(NULL, result, &err);
    return output_end(&out, code);
}

/* Finds the message of a key in a location of that name. */
static ms_result find_plain(job *j, ms_str key, const ms_msg **msg, ms_error *err)
{
    ms_str location;
    uint64_t seq;
    if (!parse_key(key, &location, &seq)) {
        return ms_error_set(err, MS_E_NOT_FOUND,
                            "no key; session-ID-msg-NUMBER was expected");
    }
    ms_result result = ms_get_by_seq(j->store, seq, &j->arena, msg, err);
    if (*msg == NULL || ms_str_equal(location_of(*msg), location)) return result;
    return ms_error_set(err, MS_E_NOT_FOUND, "that message is of another location");
}

static int run_lookup(job *j)
{
    ms_error err;
    const ms_msg *msg = NULL;
    const options *o = j->options;
    ms_str key = ms_str_of(o->files[1]);
    ms_result result = o->user != NULL
                           ? ms_session_lookup(j->store, ms_str_of(o->user), key,
                                               &j->arena, &msg, &err)
                           : find_plain(j, key, &msg, &err);
    if (result == MS_OK) return print_found(j, msg);
    if (result == MS_E_DAMAGED && msg != NULL) { /* a change of it may be lost */
        int code = print_found(j, msg);
        if (code != FINE) return code;
    }
    if (result != MS_E_NOT_FOUND) return complain_of(o->files[1], result, &err);
    complain("%s: not found%s%s%s; %s", o->files[1], o->user != NULL ? " for user " : "",
             o->user != NULL ? o->user : "",
             o->user != NULL ? "" : " (the key of a user's session needs --user)",
             err.message);
    return FAILED;
}

static const option_row lookup_rows[] = {
    {OPT_USER, "the user whose session it is"},
    {OPT_FORMAT, "the whole message in a message format"},
    {OPT_WITH_LOCATION, "with a message format: write location and agent_key, too"},
    {OPT_LOCATION, "the location of messages that have none"},
    {OPT_AGENT, "the agent of tasks, calls, results and plans that have none"},
    INPUT_ROWS,
    {OPT_END, NULL},
};

const command lookup_command = {
    "lookup", "the original of a message that was shortened",
    run_lookup, true, 2, 2, "a STORE and a KEY", 0, lookup_rows,
    "examples:\n"
    "  msgstore lookup trace.log session-abc-msg-5 --user ann\n"
    "  msgstore lookup trace.log session-job_42-msg-1 --format framework\n"
    "\n"
    "usage: msgstore lookup [OPTION...] STORE KEY\n"
    "Prints the original of a shortened message: the text that the KEY in its hint\n"
    "names. Without --user session-L-msg-N is the message of location L with the\n"
    "sequence number N. Exit code 1: there is no such message.\n",
    false,
};
