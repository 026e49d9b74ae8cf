/* See pairs.h. */

#define _GNU_SOURCE
#include "pairs.h"
#include "json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Copies an answer's number, which joins the messages of one answer. */
static ms_str answer_of(ms_arena *arena, ms_str extra)
{
    ms_str value = member(extra, "answer");
    ms_buf buf = {arena, NULL, 0, 0};
    if (!is_kind(value, MS_JSON_NUMBER)) return ms_str_n(NULL, 0);
    json_piece(&buf, "{\"answer\":");
    ms_buf_write(&buf, value.ptr, value.len);
    ms_buf_write(&buf, "}", 1);
    return ms_buf_text(&buf);
}

void pairing_add(pairing *p, const ms_msg *msg)
{
    char number[24], args[40];
    ms_envelope from = ms_envelope_of(msg), e;
    const ms_msg *made;
    if (from.type == MS_T_COMPACTION) return;
    memset(&e, 0, sizeof e);
    e.type = from.type;
    e.role = from.role;
    e.flags = from.flags;
    e.seq = from.seq;
    e.location = from.location;
    e.agent_key = from.agent_key;
    e.turn_id = from.turn_id;
    e.tool = from.tool;
    e.call_id = from.call_id;
    e.worker = from.worker;
    e.task = from.task;
    e.from_manager = from.from_manager;
    e.from_worker = from.from_worker;
    e.type_name = from.type_name;
    e.role_name = from.role_name;
    snprintf(number, sizeof number, "%" PRIu64, from.seq);
    snprintf(args, sizeof args, "{\"n\":%s}", number);
    bool answers = from.type == MS_T_OBSERVATION || from.type == MS_T_ERROR;
    bool empty = is_blank(from.content.text) ||
                 (from.content.json && from.content.text.len == 2); /* [] or "" */
    e.content = answers || !empty ? ms_text(number) : from.content;
    if (from.type == MS_T_ACTION) {
        memset(&e.content, 0, sizeof e.content); /* a text beside a call pairs nothing */
        e.args = ms_json(ms_str_of(args));
    }
    if (answers) {
        e.type = MS_T_OBSERVATION; /* an error pairs as it does */
        memset(&e.type_name, 0, sizeof e.type_name);
    }
    if (from.extra.ptr != NULL) e.extra = answer_of(&p->arena, from.extra);
    if (p->result != MS_OK) return;
    p->result = ms_encode(&e, &p->arena, &made, &p->err);
    if (p->result == MS_OK) arrput(p->items, made);
}

static const ms_msg *next_item(void *ctx)
{
    pairing *p = ctx;
    return p->next < arrlenu(p->items) ? p->items[p->next++] : NULL;
}

/* Reads the number in a text; 0: it is not one of ours. */
static uint64_t number_in(ms_str text)
{
    uint64_t n = 0;
    size_t at = 0;
    while (at < text.len && (text.ptr[at] < '0' || text.ptr[at] > '9')) at++;
    for (; at < text.len && text.ptr[at] >= '0' && text.ptr[at] <= '9'; at++) {
        n = n * 10 + (uint64_t)(text.ptr[at] - '0');
    }
    return n;
}

typedef struct call_of {
    uint64_t key;             /* hash of the id in the request, which no other call has */
    uint64_t value;           /* number of the call */
} call_of;

/* Reads the pairs from the messages of a request. */
static void read_pairs(ms_str body, pair **out)
{
    call_of *calls = NULL;
    ms_json_iter it = ms_json_iterate(body);
    while (ms_json_next(&it)) {
        ms_str id = member(it.value, "tool_call_id");
        ms_str list = member(it.value, "tool_calls");
        ms_json_iter each = ms_json_iterate(list);
        while (is_kind(list, MS_JSON_ARRAY) && ms_json_next(&each)) {
            call_of row;
            row.key = hash_text(member(each.value, "id"));
            row.value = number_in(member_at(each.value, "function.arguments"));
            if (row.value > 0) hmputs(calls, row);
        }
        if (id.ptr == NULL) continue;
        ms_str content = member(it.value, "content");
        call_of *found = hmgetp_null(calls, hash_text(id));
        pair one;
        one.result = number_in(content);
        bool ours = content.len > 2 && content.ptr[1] >= '0' && content.ptr[1] <= '9';
        if (found == NULL || !ours) continue; /* a result that was made up */
        one.call = found->value;
        arrput(*out, one);
    }
    hmfree(calls);
}

ms_result pairing_find(pairing *p, pair **out, ms_error *err)
{
    ms_arena arena;
    ms_request_desc desc;
    memset(&arena, 0, sizeof arena);
    memset(&desc, 0, sizeof desc);
    ms_buf body = {&arena, NULL, 0, 0};
    p->next = 0;
    if (p->result != MS_OK) *err = p->err;
    if (p->result != MS_OK) return p->result;
    if (arrlenu(p->items) == 0) return MS_OK;
    desc.profile = ms_profile_find(MS_STR("openai"));
    desc.next = next_item;
    desc.next_ctx = p;
    desc.arena = &arena;
    ms_result result = ms_project(&desc, ms_buf_write, &body, NULL, err);
    if (result == MS_OK) read_pairs(ms_buf_text(&body), out);
    ms_arena_deinit(&arena);
    return result;
}

void pairing_free(pairing *p)
{
    arrfree(p->items);
    ms_arena_deinit(&p->arena);
}
