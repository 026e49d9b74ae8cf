/* msgstore formats: the formats that are read and written. */

#define _GNU_SOURCE
#include "commands.h"
#include "places.h"
#include "write.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Formats without a reader of their own: lists of messages in a member. */
static const struct {
    const char *name, *program, *versions;
} lists[] = {
    {"swe-agent", "SWE-agent, SWE-smith: .traj, members history or trajectory", "1"},
    {"mini-swe-agent", "mini-swe-agent: .traj.json, member messages", "-"},
    {"tau-bench", "tau-bench: a list with members task_id and traj", "1"},
    {"litellm", "LiteLLM: messages, and the answer in response.choices", "1"},
};

static void put_row(output *out, const char *name, const char *program,
                    const char *versions, const char *place)
{
    char buf[1024];
    cell c = cell_over(buf, sizeof buf, UINT_MAX);
    emit_format(out, "%-15s ", name);
    cell_put(&c, ms_str_of(program));
    if (versions[0] != '-') {
        cell_put(&c, MS_STR("; seen: "));
        cell_put(&c, ms_str_of(versions));
    }
    if (place[0] != '\0') {
        const char *before = "; ~/";
        while (place[0] != '\0') { /* paths of the home folder, with commas between */
            size_t len = strcspn(place, ",");
            cell_put(&c, ms_str_of(before));
            cell_put(&c, ms_str_n(place, len));
            place += len + (place[len] == ',');
            before = ", ~/";
        }
    }
    emit(out, c.buf, c.len);
    emit_text(out, "\n");
}

static void print_rows(output *out)
{
    emit_text(out, "transcripts, read by view, history, search, sync, ...:\n");
    for (size_t i = 0; format_at(i) != NULL; i++) {
        const fileformat *f = format_at(i);
        put_row(out, f->name, f->program, f->versions, f->places);
    }
    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        put_row(out, lists[i].name, lists[i].program, lists[i].versions, "");
    }
    emit_text(out, "\ntranscripts, written by export and hand-over:\n");
    for (size_t i = 0; writer_at(i) != NULL; i++) {
        emit_format(out, "%s\n", writer_at(i)->name);
    }
    emit_text(out, "\nmessage formats, read and written:\n");
    for (size_t i = 0; ms_format_at(i) != NULL; i++) {
        emit_format(out, "%s\n", ms_format_at(i)->name);
    }
    emit_text(out, "\nproviders, for requests:\n");
    for (size_t i = 0; ms_profile_at(i) != NULL; i++) {
        emit_format(out, "%s\n", ms_profile_at(i)->name);
    }
    emit_format(out, "\ncompressed files: %s\n", files_built_with());
}

static void json_row(ms_json_writer *w, const char *name, const char *program,
                     const char *versions, const char *places, bool writes)
{
    ms_json_begin(w, MS_JSON_OBJECT);
    json_text(w, "name", ms_str_of(name));
    if (program != NULL) json_text(w, "program", ms_str_of(program));
    if (versions != NULL) json_text(w, "seen", ms_str_of(versions));
    if (places != NULL && places[0] != '\0') json_text(w, "places", ms_str_of(places));
    ms_json_key(w, MS_STR("writes"));
    ms_json_put_raw(w, writes ? MS_STR("true") : MS_STR("false"));
    ms_json_end(w);
    ms_json_separator(w, '\n');
}

static void print_json_rows(output *out)
{
    ms_json_writer w;
    ms_json_init(&w, emit, out, false);
    for (size_t i = 0; format_at(i) != NULL; i++) {
        const fileformat *f = format_at(i);
        json_row(&w, f->name, f->program, f->versions, f->places,
                 writer_find(ms_str_of(f->name)) != NULL);
    }
    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        json_row(&w, lists[i].name, lists[i].program, lists[i].versions, NULL, false);
    }
    for (size_t i = 0; ms_format_at(i) != NULL; i++) {
        json_row(&w, ms_format_at(i)->name, NULL, NULL, NULL, true);
    }
    ms_json_finish(&w);
}

static void print_places(output *out, bool json)
{
    ms_json_writer w;
    usual_place *places = places_of_user();
    ms_json_init(&w, emit, out, false);
    for (size_t i = 0; i < arrlenu(places); i++) {
        const usual_place *p = &places[i];
        if (!json) {
            emit_format(out, "%-12s %-7s ", p->format, p->there ? "there" : "absent");
            if (p->variable != NULL) emit_format(out, "$%s: ", p->variable);
            emit_message_text(out, ms_str_of(p->path));
            continue;
        }
        ms_json_begin(&w, MS_JSON_OBJECT);
        json_text(&w, "format", ms_str_of(p->format));
        json_text(&w, "path", ms_str_of(p->path));
        if (p->variable != NULL) json_text(&w, "variable", ms_str_of(p->variable));
        ms_json_key(&w, MS_STR("there"));
        ms_json_put_raw(&w, p->there ? MS_STR("true") : MS_STR("false"));
        ms_json_end(&w);
        ms_json_separator(&w, '\n');
    }
    (void)ms_json_finish(&w);
    places_free(places);
}

static int run_formats(job *j)
{
    output out = {stdout, 0};
    if (GIVEN(j->options, PLACES)) {
        print_places(&out, GIVEN(j->options, JSON));
        return output_end(&out, FINE);
    }
    if (GIVEN(j->options, JSON)) print_json_rows(&out);
    else print_rows(&out);
    return output_end(&out, FINE);
}

static const option_row formats_rows[] = {
    {OPT_PLACES, "where sync looks for transcripts, and which of it is there"},
    {OPT_JSON, "a JSON object a line"},
    {OPT_END, NULL},
};

const command formats_command = {
    "formats", "the formats that are read and written",
    run_formats, false, 0, 0, "", 0, formats_rows,
    "examples:\n"
    "  msgstore formats\n"
    "  msgstore formats --json\n"
    "\n"
    "usage: msgstore formats [OPTION...]\n"
    "Lists the formats of transcripts and messages, the versions of them that were\n"
    "seen, and where sync looks for them.\n",
    false,
};
