/* Claude Code: a line for each block, linked by uuid and parentUuid. Blocks of one
 * answer share a message.id. The format keeps no system text. It signs thoughts;
 * written ones have no signature. */

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

static void claude_put(writing *w, const said_part *p)
{
    char id[MADE_ID];
    bool user = p->kind == PART_USER || p->kind == PART_RESULT;
    if (p->kind == PART_SYSTEM) {
        count_left_out(w, "system texts");
        return;
    }
    make_id(w, id);
    if (w->answer[0] == '\0' || w->before == PART_USER || w->before == PART_RESULT) {
        snprintf(w->answer, sizeof w->answer, "msg_%.8s%.12s", id, id + 24);
    }
    ms_json_begin(&w->w, MS_JSON_OBJECT);
    ms_json_key(&w->w, MS_STR("parentUuid"));
    if (w->last[0] != '\0') ms_json_put_string(&w->w, ms_str_of(w->last));
    else ms_json_put_raw(&w->w, MS_STR("null"));
    put_flag(&w->w, "isSidechain", p->side);
    if (p->side) json_text(&w->w, "agentId", p->agent);
    json_text(&w->w, "userType", MS_STR("external"));
    json_text(&w->w, "cwd", w->cwd.len > 0 ? w->cwd : MS_STR("/"));
    json_text(&w->w, "sessionId", ms_str_of(w->session));
    json_text(&w->w, "version", MS_STR("2.1.0"));
    json_text(&w->w, "gitBranch", MS_STR(""));
    json_text(&w->w, "type", user ? MS_STR("user") : MS_STR("assistant"));
    put_message(w, p, user);
    json_text(&w->w, "uuid", ms_str_of(id));
    json_text(&w->w, "timestamp", ms_str_of(p->time));
    end_line(w);
    memcpy(w->last, id, sizeof id);
}

const filewriter claude_writer = {"claude-code", true, NULL, claude_put, NULL, NULL};
