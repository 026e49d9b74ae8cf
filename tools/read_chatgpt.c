/* ChatGPT's export: conversations.json, a list of conversations, or one. `mapping` has
 * the nodes of a tree in any order; the branch that ends at current_node goes on. A
 * message of the assistant to a recipient other than "all" is a call, and a message of
 * the tool that hangs on it the result. Times are seconds. There is no usage. */

#define _GNU_SOURCE
#include "read.h"

#include <string.h>

static bool is_conversation(ms_str v)
{
    return is_object(v) && is_object(member(v, "mapping")) &&
           member(v, "current_node").ptr != NULL;
}

/* One of the first elements of a list has to be a conversation. */
static bool chatgpt_shows(ms_str v)
{
    enum { FIRST = 16 };
    if (!is_kind(v, MS_JSON_ARRAY)) return is_conversation(v);
    ms_json_iter it = ms_json_iterate(v);
    for (int i = 0; i < FIRST && ms_json_next(&it); i++) {
        if (is_conversation(it.value)) return true;
    }
    return false;
}

typedef struct chat_node {
    ms_str id, parent, message, children;
    bool seen;
} chat_node;

typedef struct node_at {
    uint64_t key;             /* hash of a node's id, with its quotes */
    size_t value;             /* its index, plus one */
} node_at;

typedef struct chat_tree {
    chat_node *nodes;         /* this and the next ones: stb_ds arrays */
    node_at *of_id;           /* an stb_ds map */
    size_t *stack;            /* nodes to be read */
} chat_tree;

static chat_node *node_of(chat_tree *t, ms_str id)
{
    bool named = is_kind(id, MS_JSON_STRING);
    node_at *at = named ? hmgetp_null(t->of_id, hash_text(id)) : NULL;
    return at != NULL ? &t->nodes[at->value - 1] : NULL;
}

/* Returns whom a message of the assistant is for, unless that is everyone. */
static ms_str recipient_of(ms_str message)
{
    ms_str to = member(message, "recipient"), none = {NULL, 0};
    bool calls = text_is(member_at(message, "author.role"), "assistant") &&
                 is_kind(to, MS_JSON_STRING) && !text_is(to, "all");
    return calls ? to : none;
}

static void set_time(reading *r, ms_envelope *m, const chat_node *n)
{
    trace_time_s(r->t, m, member(n->message, "create_time"));
}

static void put(reading *r, ms_envelope *m, const chat_node *n)
{
    bool first = true;
    set_time(r, m, n);
    put_piece(r, m, n->id, &first);
}

static bool is_text_or_none(ms_str value)
{
    return value.ptr == NULL || is_kind(value, MS_JSON_STRING) ||
           is_kind(value, MS_JSON_NULL);
}

/* Returns whether all thoughts are objects of texts. */
static bool are_thoughts(ms_str list)
{
    ms_json_iter it = ms_json_iterate(list);
    while (is_kind(list, MS_JSON_ARRAY) && ms_json_next(&it)) {
        bool texts = is_text_or_none(member(it.value, "summary")) &&
                     is_text_or_none(member(it.value, "content"));
        if (!is_object(it.value) || !texts) return false;
    }
    return list.ptr == NULL || is_kind(list, MS_JSON_ARRAY) ||
           is_kind(list, MS_JSON_NULL);
}

/* Returns the thoughts as one text. */
static ms_str thoughts_of(reading *r, ms_str list)
{
    ms_buf buf = {trace_arena(r->t), NULL, 0, 0};
    ms_json_iter it = ms_json_iterate(list);
    while (is_kind(list, MS_JSON_ARRAY) && ms_json_next(&it)) {
        static const char *const names[] = {"summary", "content"};
        for (size_t i = 0; i < COUNT_OF(names); i++) {
            ms_str text = trace_text(r->t, member(it.value, names[i]));
            if (text.len > 0 && buf.len > 0) json_piece(&buf, "\n\n");
            if (text.len > 0) ms_buf_write(&buf, text.ptr, text.len);
        }
    }
    return buf.len > 0 ? ms_buf_text(&buf) : ms_str_n(NULL, 0);
}

/* Reads what a message says; false: its type is not known. */
static bool said_of(reading *r, ms_str content, ms_value *said)
{
    ms_str type = member(content, "content_type"), parts = member(content, "parts");
    if (text_is(type, "text") || text_is(type, "multimodal_text")) {
        *said = is_plain(parts) ? ms_text_n(plain_text(r, parts)) : ms_json(parts);
        return is_kind(parts, MS_JSON_ARRAY);
    }
    *said = value_of(r, member(content, "text"));
    return text_is(type, "code") || text_is(type, "execution_output");
}

static void take_message(reading *r, chat_tree *t, const chat_node *n)
{
    ms_str role = member_at(n->message, "author.role"), to = recipient_of(n->message);
    ms_str content = member(n->message, "content");
    ms_str type = member(content, "content_type");
    ms_value said = ms_text("");
    ms_envelope m;
    bool user = text_is(role, "user");
    trace_fact(r->t, "model", trace_text(r->t, member_at(n->message,
                                                         "metadata.model_slug")));
    if (text_is(type, "thoughts") && are_thoughts(member(content, "thoughts"))) {
        m = ms_message(MS_T_REASONING,
                       ms_text_n(thoughts_of(r, member(content, "thoughts"))));
        if (m.content.text.len > 0) put(r, &m, n);
        else trace_incomplete(r->t, MS_STR("empty message"));
        return;
    }
    if (text_is(type, "reasoning_recap")) {
        trace_left_out(r->t, MS_STR("reasoning_recap"));
        return;
    }
    if (!is_object(n->message) || !said_of(r, content, &said)) {
        bool named = is_kind(type, MS_JSON_STRING);
        ms_str word = named ? trace_text(r->t, type) : MS_STR("message");
        memset(&m, 0, sizeof m);
        set_time(r, &m, n);
        trace_unknown_at(r->t, &m, word, n->message);
        return;
    }
    bool tool = text_is(role, "tool"), empty = !said.json && said.text.len == 0;
    chat_node *call = tool ? node_of(t, n->parent) : NULL;
    bool answers = call != NULL && recipient_of(call->message).ptr != NULL;
    if (to.ptr != NULL) {
        ms_str args = member(content, "text"), parts = member(content, "parts"), second;
        if (args.ptr == NULL) ms_json_element(parts, 0, &args);
        m = call_of(r, to, args, n->id);
        if (ms_json_element(parts, 1, &second)) {
            m.extra = object_text(r, "{\"parts\":", parts, "}");
        }
    } else if (empty && !answers) {
        trace_incomplete(r->t, MS_STR("empty message"));
        return;
    } else if (tool) {
        m = result_message(said, false);
        m.tool = trace_text(r->t, member_at(n->message, "author.name"));
        if (answers) m.call_id = trace_text(r->t, call->id);
    } else if (user || text_is(role, "assistant")) {
        m = user ? ms_user_message(said) : ms_assistant_message(said);
        if (user) note_prompt(r, member(content, "parts"));
    } else {
        m = text_message(trace_text(r->t, role), said);
    }
    put(r, &m, n);
}

static void take_node(reading *r, chat_tree *t, size_t index)
{
    chat_node *n = &t->nodes[index];
    bool user = text_is(member_at(n->message, "author.role"), "user");
    size_t from = arrlenu(t->stack);
    if (n->seen) return;
    n->seen = true;
    trace_entry(r->t, n->id, n->parent, user ? ENTRY_PROMPT : 0);
    bool none = n->message.ptr == NULL || is_kind(n->message, MS_JSON_NULL);
    if (!none) take_message(r, t, n);
    ms_json_iter it = ms_json_iterate(n->children);
    while (is_kind(n->children, MS_JSON_ARRAY) && ms_json_next(&it)) {
        chat_node *child = node_of(t, it.value);
        if (child != NULL) arrput(t->stack, (size_t)(child - t->nodes));
    }
    for (size_t to = arrlenu(t->stack); to > from + 1; from++, to--) { /* first on top */
        size_t other = t->stack[from];
        t->stack[from] = t->stack[to - 1];
        t->stack[to - 1] = other;
    }
}

/* Reads the nodes, each after its parent. What hangs on no root comes last. */
static void take_tree(reading *r, chat_tree *t)
{
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < arrlenu(t->nodes); i++) {
            if (pass == 0 && node_of(t, t->nodes[i].parent) != NULL) continue;
            arrput(t->stack, i);
            while (arrlenu(t->stack) > 0 && trace_code(r->t) == FINE) {
                take_node(r, t, arrpop(t->stack));
            }
            arrsetlen(t->stack, 0);
        }
    }
}

static void take_conversation(reading *r, ms_str v)
{
    chat_tree t;
    ms_str id = member(v, "conversation_id"), none = {NULL, 0};
    memset(&t, 0, sizeof t);
    if (is_object(member(v, "mapping")) && trace_had_line(r->t, v)) {
        trace_left_out(r->t, MS_STR("repeated conversation"));
        return;
    }
    if (!is_kind(id, MS_JSON_STRING)) id = member(v, "id");
    if (!is_object(member(v, "mapping"))) {
        trace_entry(r->t, none, none, 0);
        trace_unknown(r->t, MS_STR("conversation"), v);
        return;
    }
    if (r->talk.ptr != NULL) trace_new_session(r->t, none);
    if (is_kind(id, MS_JSON_STRING)) trace_session(r->t, trace_text(r->t, id));
    else session_of_path(r);
    r->talk = v;
    ms_json_iter it = ms_json_iterate(member(v, "mapping"));
    while (ms_json_next(&it)) {
        chat_node n = {member(it.value, "id"), member(it.value, "parent"),
                       member(it.value, "message"), member(it.value, "children"), false};
        if (is_object(it.value)) {
            arrput(t.nodes, n);
            hmput(t.of_id, hash_text(n.id), arrlenu(t.nodes));
        } else {
            trace_entry(r->t, none, none, 0);
            trace_unknown(r->t, MS_STR("node"), it.value);
        }
    }
    trace_fact(r->t, "agent", MS_STR("chatgpt"));
    trace_fact(r->t, "title", trace_text(r->t, member(v, "title")));
    take_tree(r, &t);
    trace_entry(r->t, none, member(v, "current_node"), 0); /* the end that counts */
    trace_flush(r->t);
    arrfree(t.nodes);
    arrfree(t.stack);
    hmfree(t.of_id);
}

static void chatgpt_read(reading *r, ms_str v)
{
    ms_json_iter it = ms_json_iterate(v);
    if (!is_kind(v, MS_JSON_ARRAY)) take_conversation(r, v);
    while (is_kind(v, MS_JSON_ARRAY) && ms_json_next(&it)) take_conversation(r, it.value);
}

const fileformat chatgpt_format = {
    "chatgpt", "ChatGPT's export", "2024 to 2026 (conversations.json)", "", FILE_WHOLE,
    TREE_CHAIN, chatgpt_shows, chatgpt_read, NULL,
};
