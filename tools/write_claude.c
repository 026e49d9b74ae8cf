/* Claude Code: a line for each block, linked by uuid and parentUuid. Blocks of one
 * answer share a message.id. The format keeps no system text. It signs thoughts;
 * written ones have no signature. A summary begins a new chain, in which the messages
 * that stay are repeated. */

#define _GNU_SOURCE
#include "write.h"

#include <stdio.h>
#include <string.h>

static void put_block(ms_json_writer *w, const said_part *p)
{
    static const char *const types[] = {"text", "text", "text", "thinking", "tool_use",
                                        "tool_result"};
    ms_json_begin(w, MS_JSON_OBJECT);
    json_text(w, "type", ms_str_of(types[p->kind]));
    if (p->kind == PART_CALL) {
        json_text(w, "id", p->call_id);
        json_text(w, "name", p->tool);
        put_arguments(w, "input", p);
    } else if (p->kind == PART_RESULT) {
        json_text(w, "tool_use_id", p->call_id);
        json_text(w, "content", p->text);
        if (p->failed) put_flag(w, "is_error", true);
    } else {
        json_text(w, p->kind == PART_THOUGHT ? "thinking" : "text", p->text);
        if (p->kind == PART_THOUGHT) json_text(w, "signature", MS_STR(""));
    }
    ms_json_end(w);
}

static void put_message(writing *w, const said_part *p, bool user)
{
    open_member(&w->w, "message", false);
    if (!user) {
        json_text(&w->w, "id", ms_str_of(w->answer));
        json_text(&w->w, "type", MS_STR("message"));
        json_text(&w->w, "model", w->model.len > 0 ? w->model : MS_STR("<synthetic>"));
    }
    json_text(&w->w, "role", user ? MS_STR("user") : MS_STR("assistant"));
    if (p->kind == PART_USER) {
        json_text(&w->w, "content", p->text);
    } else {
        open_member(&w->w, "content", true);
        put_block(&w->w, p);
        ms_json_end(&w->w);
    }
    if (!user) {
        ms_json_key(&w->w, MS_STR("stop_reason"));
        ms_json_put_raw(&w->w, MS_STR("null"));
        open_member(&w->w, "usage", false);
        json_u64(&w->w, "input_tokens", 0);
        json_u64(&w->w, "output_tokens", 0);
        ms_json_end(&w->w);
    }
    ms_json_end(&w->w);
}

/* Begins a line, which follows the one before; that of a summary begins a new chain. */
static void line_begin(writing *w, const said_part *p)
{
    ms_json_begin(&w->w, MS_JSON_OBJECT);
    ms_json_key(&w->w, MS_STR("parentUuid"));
    bool linked = w->last[0] != '\0' && p->kind != PART_SUMMARY;
    if (linked) ms_json_put_string(&w->w, ms_str_of(w->last));
    else ms_json_put_raw(&w->w, MS_STR("null"));
    if (!linked && w->last[0] != '\0') {
        json_text(&w->w, "logicalParentUuid", ms_str_of(w->last));
    }
    put_flag(&w->w, "isSidechain", p->side);
    if (p->side) json_text(&w->w, "agentId", p->agent);
    json_text(&w->w, "userType", MS_STR("external"));
    json_text(&w->w, "cwd", w->cwd.len > 0 ? w->cwd : MS_STR("/"));
    json_text(&w->w, "sessionId", ms_str_of(w->session));
    json_text(&w->w, "version", MS_STR("2.1.0"));
    json_text(&w->w, "gitBranch", MS_STR(""));
}

static void line_end(writing *w, const said_part *p, const char *id)
{
    json_text(&w->w, "uuid", ms_str_of(id));
    json_text(&w->w, "timestamp", ms_str_of(p->time));
    end_line(w);
    memcpy(w->last, id, MADE_ID);
}

static void claude_put(writing *w, const said_part *p);

/* Writes the boundary, the summary, and the messages that stay. */
static void put_summary(writing *w, const said_part *p)
{
    char id[MADE_ID];
    said_part said = *p;
    make_id(w, id);
    line_begin(w, p);
    json_text(&w->w, "type", MS_STR("system"));
    json_text(&w->w, "subtype", MS_STR("compact_boundary"));
    json_text(&w->w, "content", MS_STR("Conversation compacted"));
    put_flag(&w->w, "isMeta", false);
    json_text(&w->w, "level", MS_STR("info"));
    open_member(&w->w, "compactMetadata", false);
    json_text(&w->w, "trigger", MS_STR("manual"));
    json_u64(&w->w, "preTokens", p->tokens);
    ms_json_end(&w->w);
    line_end(w, p, id);
    make_id(w, id);
    said.kind = PART_USER;
    line_begin(w, &said);
    json_text(&w->w, "type", MS_STR("user"));
    put_flag(&w->w, "isVisibleInTranscriptOnly", true);
    put_flag(&w->w, "isCompactSummary", true);
    put_message(w, &said, true);
    line_end(w, p, id);
    w->before = PART_USER;
    if (each_kept(w, p, claude_put) != FINE) {
        count_left_out(w, "messages beside a summary");
    }
}

static void claude_put(writing *w, const said_part *p)
{
    char id[MADE_ID];
    bool user = p->kind == PART_USER || p->kind == PART_RESULT;
    if (p->kind == PART_SYSTEM) {
        count_left_out(w, "system texts");
        return;
    }
    if (p->kind == PART_SUMMARY) {
        put_summary(w, p);
        return;
    }
    make_id(w, id);
    if (w->answer[0] == '\0' || w->before == PART_USER || w->before == PART_RESULT ||
        w->before == PART_SUMMARY) {
        snprintf(w->answer, sizeof w->answer, "msg_%.8s%.12s", id, id + 24);
    }
    line_begin(w, p);
    json_text(&w->w, "type", user ? MS_STR("user") : MS_STR("assistant"));
    put_message(w, p, user);
    line_end(w, p, id);
}

const filewriter claude_writer = {"claude-code", true, NULL, claude_put, NULL, NULL,
                                  true};
