/* msgstore retire: deletes old messages of a store on PostgreSQL, and keeps a rule, so
 * that ship does not bring them back. */

#define _GNU_SOURCE
#include "commands.h"
#include "postgres.h"

#include <inttypes.h>

#ifdef WITH_POSTGRES
#include "../backends/msgstore_postgres.h"

static void report_retired(const ms_pg_retire_report *r, bool dry, output *out)
{
    emit_format(out, "%s %" PRIu64 " message%s, %" PRIu64 " change%s, %" PRIu64
                " bytes of messages; %" PRIu64 " location%s %s gone\n",
                dry ? "would delete" : "deleted", r->messages, plural(r->messages),
                r->changes, plural(r->changes), r->bytes, r->locations,
                plural(r->locations),
                dry ? "would be" : r->locations == 1 ? "is" : "are");
    if (r->untimed > 0) {
        emit_format(out, "%" PRIu64 " message%s without a time: not deleted\n",
                    r->untimed, plural(r->untimed));
    }
}

static int run_retire(job *j)
{
    ms_error err;
    ms_pg_retire_desc desc;
    ms_pg_retire_report report;
    output out = {stdout, 0};
    const options *o = j->options;
    if (!is_postgres(o->files[0])) {
        complain("%s is not the URL of a server", o->files[0]);
        return USAGE;
    }
    memset(&desc, 0, sizeof desc);
    desc.prefix = ms_str_of(o->location);
    desc.before_ns = o->until_ns;
    desc.dry_run = GIVEN(o, DRY_RUN);
    int code = open_postgres(j, o->files[0], !desc.dry_run);
    if (code != FINE) return code;
    ms_result result = ms_pg_retire(j->store, &desc, &report, &err);
    if (result == MS_OK || report.messages > 0) {
        report_retired(&report, desc.dry_run, &out);
    }
    if (result != MS_OK) code = complain_of("retiring", result, &err);
    return output_end(&out, code);
}

#else

static int run_retire(job *j)
{
    return open_postgres(j, "postgresql://", true);
}

#endif

static const option_row retire_options[] = {
    {OPT_LOCATION, "locations that begin with this"},
    {OPT_UNTIL, "messages with a time before T"},
    {OPT_DRY_RUN, "only count; delete nothing, keep no rule"},
    {OPT_END, NULL},
};

const command retire_command = {
    "retire", "delete old messages of a store on PostgreSQL, for good",
    run_retire, false, 1, 1, "a URL", BIT(LOCATION) | BIT(UNTIL), retire_options,
    "examples:\n"
    "  msgstore retire postgresql://db.example/agents --location job_ \\\n"
    "      --until '90 days ago' --dry-run\n"
    "\n"
    "usage: msgstore retire [OPTION...] URL --location PREFIX --until T\n"
    "Deletes the messages of all locations that begin with PREFIX which have a time\n"
    "before T, with their changes and notes; the facts of a location go with its last\n"
    "message. Messages without a time stay. The server keeps PREFIX and T as a rule:\n"
    "ship does not store what falls under it, and counts that as retired. Interrupted,\n"
    "it has deleted a part: run it again.\n",
    false,
};
