/* What model providers demand of the list of messages in a request, checked over jansson.
 *
 * Written from the published rules of the providers and sharing nothing with the library,
 * so that it can judge what the library projects. Every rule is one function, or one row
 * of a table, with the provider's demand in its comment. Request shapes:
 *
 *     openai, chat-strict, ollama, pydantic-ai   [message, ...]
 *     anthropic    {"system": text or text blocks, "messages": [...]}     system optional
 *     gemini       {"systemInstruction": {"parts": [...]}, "contents": [...]}    likewise
 *
 * openai is the provider itself, chat-strict the sum of what its compatible servers and
 * their templates demand. A call without its result is refused by all of them here, also
 * at the end of a list. That strings are UTF-8 and numbers finite is jansson's promise.
 */

#ifndef PROVIDERS_H
#define PROVIDERS_H

#include <jansson.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PROVIDER_WHY 300
#define PV_NONE SIZE_MAX
#define PV_NAME_CHARS \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

/* Where in the request a check is at work. */
typedef struct pv_place {
    char *why;            /* PROVIDER_WHY bytes */
    const char *list;     /* "messages", "contents" */
    size_t message;       /* in the list, or PV_NONE */
    const char *parts;    /* the member with the message's parts */
    size_t part;          /* in the parts, or PV_NONE */
    bool strict;          /* chat-strict */
} pv_place;


/* ---- saying no ---- */

/* Writes "messages[3].content[1]: " and the reason; always false. */
static inline bool pv_refuse(const pv_place *at, const char *format, ...)
{
    char where[80];
    va_list args;
    if (at->message == PV_NONE) {
        snprintf(where, sizeof where, "%s", at->list);
    } else if (at->part == PV_NONE) {
        snprintf(where, sizeof where, "%s[%lu]", at->list, (unsigned long)at->message);
    } else {
        snprintf(where, sizeof where, "%s[%lu].%s[%lu]", at->list,
                 (unsigned long)at->message, at->parts, (unsigned long)at->part);
    }
    int len = snprintf(at->why, PROVIDER_WHY, "%s: ", where);
    va_start(args, format);
    vsnprintf(at->why + len, PROVIDER_WHY - (size_t)len, format, args);
    va_end(args);
    return false;
}

static inline pv_place pv_at_message(const pv_place *at, size_t message)
{
    pv_place there = *at;
    there.message = message;
    there.part = PV_NONE;
    return there;
}

static inline pv_place pv_at_part(const pv_place *at, const char *parts, size_t part)
{
    pv_place there = *at;
    there.parts = parts;
    there.part = part;
    return there;
}


/* ---- values ---- */

/* Is the word one of the words, which have one space between them? */
static inline bool pv_word(const char *words, const char *word)
{
    size_t len = strchr(word, ' ') == NULL ? strlen(word) : 0;
    for (const char *at = words; len > 0 && (at = strstr(at, word)) != NULL; at += len) {
        bool begins = at == words || at[-1] == ' ';
        if (begins && (at[len] == ' ' || at[len] == '\0')) return true;
    }
    return false;
}

/* The text of a string member, "" when there is none. */
static inline const char *pv_text(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static inline bool pv_is(json_t *object, const char *key, const char *text)
{
    return json_is_string(json_object_get(object, key)) &&
           strcmp(pv_text(object, key), text) == 0;
}

/* Nothing but an object, with no member that the provider does not know. */
static inline bool pv_object(const pv_place *at, json_t *value, const char *known)
{
    const char *key;
    json_t *member;
    if (!json_is_object(value)) return pv_refuse(at, "must be an object");
    json_object_foreach (value, key, member) {
        if (!pv_word(known, key)) return pv_refuse(at, "unknown member '%.60s'", key);
    }
    return true;
}

static inline bool pv_need_string(const pv_place *at, json_t *object, const char *key)
{
    if (json_is_string(json_object_get(object, key))) return true;
    return pv_refuse(at, "'%s' must be a string", key);
}

static inline bool pv_need_object(const pv_place *at, json_t *object, const char *key)
{
    if (json_is_object(json_object_get(object, key))) return true;
    return pv_refuse(at, "'%s' must be an object", key);
}

/* A member may be missing; when it is there it is a string, never null (B.7). */
static inline bool pv_maybe_string(const pv_place *at, json_t *object, const char *key)
{
    return json_object_get(object, key) == NULL || pv_need_string(at, object, key);
}

/* The bytes of the white space character at p, 0 when it is none: Unicode White_Space. */
static inline size_t pv_space(const unsigned char *p, size_t left)
{
    if (p[0] == ' ' || (p[0] >= 9 && p[0] <= 13)) return 1;
    if (left >= 2 && p[0] == 0xC2 && (p[1] == 0x85 || p[1] == 0xA0)) return 2;
    if (left < 3) return 0;
    unsigned c = (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    bool wide = c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
                c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
    return (p[0] & 0xF0) == 0xE0 && wide ? 3 : 0;
}

/* Nothing but white space, or nothing at all. */
static inline bool pv_blank(json_t *string)
{
    const unsigned char *p = (const unsigned char *)json_string_value(string);
    size_t left = json_string_length(string), n = 1;
    for (; left > 0 && n > 0; p += n, left -= n) n = pv_space(p, left);
    return n > 0;
}

static inline bool pv_ends_in_space(json_t *string)
{
    const unsigned char *p = (const unsigned char *)json_string_value(string);
    size_t len = json_string_length(string);
    for (size_t n = 1; n <= 3 && n <= len; n++) {
        if (pv_space(p + len - n, n) == n) return true;
    }
    return false;
}

static inline size_t pv_characters(json_t *string)
{
    const char *text = json_string_value(string);
    size_t count = 0;
    for (size_t i = 0; i < json_string_length(string); i++) {
        count += ((unsigned char)text[i] & 0xC0) != 0x80;
    }
    return count;
}

/* One character or more of a to z, A to Z, 0 to 9, _ and -. */
static inline bool pv_plain(json_t *string)
{
    size_t len = json_string_length(string);
    return len > 0 && strspn(json_string_value(string), PV_NAME_CHARS) == len;
}

/* B.1: tool names are ^[a-zA-Z0-9_-]{1,64}$. */
static inline bool pv_tool_name(const pv_place *at, json_t *object, const char *key)
{
    json_t *name = json_object_get(object, key);
    if (!pv_need_string(at, object, key)) return false;
    if (pv_plain(name) && json_string_length(name) <= 64) return true;
    return pv_refuse(at, "tool name '%.70s' is not ^[a-zA-Z0-9_-]{1,64}$",
                     json_string_value(name));
}


/* ---- openai (B.1) and chat-strict (B.7): the shape of a message ---- */

/* B.1: roles, the members of each, and the kinds of its parts. */
static const struct pv_role {
    const char *role, *members, *parts;
} pv_roles[] = {
    {"system", "role content name", "text"},
    {"developer", "role content name", "text"},
    {"user", "role content name", "text image_url input_audio file"},
    {"assistant", "role content name tool_calls refusal", "text refusal"},
    {"tool", "role content tool_call_id name", "text"},
};

static inline const struct pv_role *pv_role_of(json_t *message)
{
    for (size_t i = 0; i < sizeof pv_roles / sizeof pv_roles[0]; i++) {
        if (pv_is(message, "role", pv_roles[i].role)) return &pv_roles[i];
    }
    return NULL;
}

/* A part is {"type": T, T: value}: text in text and refusal, else an object. */
static inline bool pv_chat_part(const pv_place *at, json_t *part, const char *kinds)
{
    char members[64];
    const char *type = pv_text(part, "type");
    if (!json_is_object(part)) return pv_refuse(at, "a part must be an object");
    if (!pv_word(kinds, type)) return pv_refuse(at, "part type '%.60s'", type);
    snprintf(members, sizeof members, "type %s", type);
    if (!pv_object(at, part, members)) return false;
    return pv_word("text refusal", type) ? pv_need_string(at, part, type)
                                         : pv_need_object(at, part, type);
}

/* B.1: content is a string or a list of parts; an empty list is refused. */
static inline bool pv_chat_content(const pv_place *at, json_t *content, const char *kinds)
{
    if (json_is_string(content)) return true;
    if (!json_is_array(content)) {
        return pv_refuse(at, "'content' must be a string or a list of parts");
    }
    if (json_array_size(content) == 0) return pv_refuse(at, "'content' is an empty list");
    for (size_t i = 0; i < json_array_size(content); i++) {
        pv_place there = pv_at_part(at, "content", i);
        if (!pv_chat_part(&there, json_array_get(content, i), kinds)) return false;
    }
    return true;
}

/* B.1: a call id is a string of at most 40 characters. B.7: never null. */
static inline bool pv_chat_id(const pv_place *at, json_t *object, const char *key)
{
    json_t *id = json_object_get(object, key);
    if (!pv_need_string(at, object, key)) return false;
    if (json_string_length(id) == 0) return pv_refuse(at, "'%s' is empty", key);
    if (pv_characters(id) <= 40) return true;
    return pv_refuse(at, "'%s' has %lu characters, at most 40 are allowed", key,
                     (unsigned long)pv_characters(id));
}

/* B.1, B.7: a call has id, type function, a name, and its arguments as a string, which
 * may be wrong JSON. */
static inline bool pv_chat_call(const pv_place *at, json_t *call)
{
    json_t *function = json_object_get(call, "function");
    return pv_object(at, call, "id type function") && pv_chat_id(at, call, "id") &&
           (pv_is(call, "type", "function") ||
            pv_refuse(at, "'type' must be function")) &&
           pv_need_object(at, call, "function") &&
           pv_object(at, function, "name arguments") &&
           pv_tool_name(at, function, "name") &&
           pv_need_string(at, function, "arguments");
}

/* B.1: every id is answered exactly once, so an id stands once in a message. */
static inline bool pv_chat_ids_differ(const pv_place *at, json_t *calls)
{
    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_t *id = json_object_get(json_array_get(calls, i), "id");
        pv_place there = pv_at_part(at, "tool_calls", i);
        for (size_t k = 0; k < i; k++) {
            if (json_equal(id, json_object_get(json_array_get(calls, k), "id"))) {
                return pv_refuse(&there, "call id used twice in one message");
            }
        }
    }
    return true;
}

/* B.1: tool_calls is a list and never empty. */
static inline bool pv_chat_calls(const pv_place *at, json_t *calls)
{
    if (calls == NULL) return true;
    if (!json_is_array(calls)) return pv_refuse(at, "'tool_calls' must be a list");
    if (json_array_size(calls) == 0) return pv_refuse(at, "'tool_calls' is empty");
    for (size_t i = 0; i < json_array_size(calls); i++) {
        pv_place there = pv_at_part(at, "tool_calls", i);
        if (!pv_chat_call(&there, json_array_get(calls, i))) return false;
    }
    return pv_chat_ids_differ(at, calls);
}

/* B.1: an assistant's content may be missing or null only beside tool_calls. */
static inline bool pv_chat_assistant(const pv_place *at, json_t *message)
{
    json_t *content = json_object_get(message, "content");
    json_t *calls = json_object_get(message, "tool_calls");
    json_t *refusal = json_object_get(message, "refusal");
    bool no_content = content == NULL || json_is_null(content);
    if (no_content && calls == NULL) {
        return pv_refuse(at, "assistant with neither content nor tool_calls");
    }
    if (refusal != NULL && !json_is_string(refusal) && !json_is_null(refusal)) {
        return pv_refuse(at, "'refusal' must be a string or null");
    }
    return pv_maybe_string(at, message, "reasoning_content") &&
           (no_content || pv_chat_content(at, content, "text refusal")) &&
           pv_chat_calls(at, calls);
}

/* B.1: the shape of one message. B.7: all but assistants contain content; developer is
 * no role of the templates; reasoning_content is a member there. */
static inline bool pv_chat_message(const pv_place *at, json_t *message)
{
    char members[96];
    const struct pv_role *role = pv_role_of(message);
    json_t *content = json_object_get(message, "content");
    if (!json_is_object(message)) return pv_refuse(at, "a message must be an object");
    if (role == NULL || (at->strict && strcmp(role->role, "developer") == 0)) {
        return pv_refuse(at, "role '%.60s'", pv_text(message, "role"));
    }
    bool assistant = strcmp(role->role, "assistant") == 0;
    snprintf(members, sizeof members, "%s%s", role->members,
             at->strict && assistant ? " reasoning_content" : "");
    if (!pv_object(at, message, members)) return false;
    if (!pv_maybe_string(at, message, "name")) return false;
    if (assistant) return pv_chat_assistant(at, message);
    if (content == NULL) return pv_refuse(at, "%s without content", role->role);
    if (!pv_chat_content(at, content, role->parts)) return false;
    return strcmp(role->role, "tool") != 0 || pv_chat_id(at, message, "tool_call_id");
}


/* ---- openai and chat-strict: calls and results ---- */

/* How many of the tool messages that follow directly after message i have this id? */
static inline size_t pv_chat_answers(json_t *list, size_t i, json_t *id)
{
    size_t count = 0;
    for (i++; pv_is(json_array_get(list, i), "role", "tool"); i++) {
        json_t *answered = json_object_get(json_array_get(list, i), "tool_call_id");
        count += json_equal(answered, id) != 0;
    }
    return count;
}

/* B.1: after a message with tool_calls, one tool message per id, in any order, before
 * any other role. */
static inline bool pv_chat_answered(const pv_place *at, json_t *list, size_t i)
{
    json_t *calls = json_object_get(json_array_get(list, i), "tool_calls");
    for (size_t k = 0; k < json_array_size(calls); k++) {
        json_t *id = json_object_get(json_array_get(calls, k), "id");
        size_t answers = pv_chat_answers(list, i, id);
        const char *text = json_string_value(id);
        if (answers == 0) {
            return pv_refuse(at, "call '%.60s' has no result directly after it", text);
        }
        if (answers > 1) return pv_refuse(at, "call '%.60s' is answered twice", text);
    }
    return true;
}

/* B.1: a tool message needs a preceding call: of the message before the tool messages. */
static inline bool pv_chat_called(const pv_place *at, json_t *list, size_t i)
{
    json_t *id = json_object_get(json_array_get(list, i), "tool_call_id");
    if (!pv_is(json_array_get(list, i), "role", "tool")) return true;
    while (i > 0 && pv_is(json_array_get(list, i), "role", "tool")) i--;
    json_t *calls = json_object_get(json_array_get(list, i), "tool_calls");
    for (size_t k = 0; k < json_array_size(calls); k++) {
        if (json_equal(json_object_get(json_array_get(calls, k), "id"), id)) return true;
    }
    return pv_refuse(at, "result without a call: '%.60s'", json_string_value(id));
}


/* ---- chat-strict (B.7): order of roles ---- */

/* B.7: one optional system message, and that first. */
static inline bool pv_strict_system(const pv_place *at, json_t *list, size_t i)
{
    if (i == 0 || !pv_is(json_array_get(list, i), "role", "system")) return true;
    return pv_refuse(at, "a system message that is not the first message");
}

/* B.7: the conversation starts with user. */
static inline bool pv_strict_start(const pv_place *at, json_t *list)
{
    size_t first = pv_is(json_array_get(list, 0), "role", "system") ? 1 : 0;
    if (pv_is(json_array_get(list, first), "role", "user")) return true;
    return pv_refuse(at, "the first message after the system message must be user");
}

/* B.7: user and assistant alternate, with calls and results between them; an assistant
 * message stands between results and the user's next one (Mistral: "Unexpected role 'user'
 * after role 'tool'"). */
static inline bool pv_strict_alternate(const pv_place *at, json_t *list, size_t i)
{
    const char *role = pv_text(json_array_get(list, i), "role");
    if (i == 0 || strcmp(role, "tool") == 0) return true;
    if (strcmp(role, "user") == 0 && pv_is(json_array_get(list, i - 1), "role", "tool"))
        return pv_refuse(at, "roles must alternate: user follows tool");
    if (!pv_is(json_array_get(list, i - 1), "role", role)) return true;
    return pv_refuse(at, "roles must alternate: %s follows %s", role, role);
}

static inline bool pv_chat(pv_place *list_at, json_t *list)
{
    if (!json_is_array(list)) return pv_refuse(list_at, "must be a list");
    for (size_t i = 0; i < json_array_size(list); i++) {
        pv_place at = pv_at_message(list_at, i);
        if (!pv_chat_message(&at, json_array_get(list, i))) return false;
    }
    if (list_at->strict && !pv_strict_start(list_at, list)) return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        pv_place at = pv_at_message(list_at, i);
        if (!pv_chat_called(&at, list, i)) return false;
        if (!pv_chat_answered(&at, list, i)) return false;
        if (!at.strict) continue;
        if (!pv_strict_system(&at, list, i)) return false;
        if (!pv_strict_alternate(&at, list, i)) return false;
    }
    return true;
}


/* ---- anthropic (B.3): the shape of a message ---- */

/* B.3: kinds of blocks, their members, and where they may stand: u in a user message, a
 * in an assistant message, r in a tool result, s in the system text. */
static const struct pv_block {
    const char *type, *members, *places;
} pv_blocks[] = {
    {"text", "type text", "uars"},
    {"image", "type source", "ur"},
    {"document", "type source", "ur"},
    {"tool_use", "type id name input", "a"},
    {"tool_result", "type tool_use_id content is_error", "u"},
    {"thinking", "type thinking signature", "a"},
    {"redacted_thinking", "type data", "a"},
};

/* B.3: text blocks are not empty and not only white space. */
static inline bool pv_block_text(const pv_place *at, json_t *block)
{
    if (!pv_need_string(at, block, "text")) return false;
    if (!pv_blank(json_object_get(block, "text"))) return true;
    return pv_refuse(at, "a text block must not be empty or only white space");
}

/* B.3: ids match ^[a-zA-Z0-9_-]+$. */
static inline bool pv_block_id(const pv_place *at, json_t *block, const char *key)
{
    if (!pv_need_string(at, block, key)) return false;
    if (pv_plain(json_object_get(block, key))) return true;
    return pv_refuse(at, "'%s' is not ^[a-zA-Z0-9_-]+$: '%.60s'", key,
                     pv_text(block, key));
}

/* B.3: a thinking block keeps its signature; an empty one is an error. */
static inline bool pv_block_thinking(const pv_place *at, json_t *block)
{
    if (!pv_need_string(at, block, "thinking")) return false;
    if (!pv_need_string(at, block, "signature")) return false;
    if (pv_text(block, "signature")[0] != '\0') return true;
    return pv_refuse(at, "invalid signature: it is empty");
}

static inline bool pv_block_list(const pv_place *at, json_t *blocks, char place);

/* B.3: a result has content as text or blocks, or none, and is_error is a boolean. */
static inline bool pv_block_result(const pv_place *at, json_t *block)
{
    json_t *content = json_object_get(block, "content");
    json_t *is_error = json_object_get(block, "is_error");
    if (!pv_block_id(at, block, "tool_use_id")) return false;
    if (is_error != NULL && !json_is_boolean(is_error)) {
        return pv_refuse(at, "'is_error' must be true or false");
    }
    if (content == NULL || json_is_string(content)) return true;
    return pv_block_list(at, content, 'r');
}

/* B.3: what each kind of block needs beside its known members. */
static inline bool pv_block_body(const pv_place *at, json_t *block, const char *type)
{
    if (strcmp(type, "text") == 0) return pv_block_text(at, block);
    if (strcmp(type, "thinking") == 0) return pv_block_thinking(at, block);
    if (strcmp(type, "tool_result") == 0) return pv_block_result(at, block);
    if (strcmp(type, "redacted_thinking") == 0) return pv_need_string(at, block, "data");
    if (strcmp(type, "tool_use") != 0) return pv_need_object(at, block, "source");
    return pv_block_id(at, block, "id") && pv_tool_name(at, block, "name") &&
           pv_need_object(at, block, "input");
}

static inline bool pv_block_check(const pv_place *at, json_t *block, char place)
{
    const struct pv_block *kind = NULL;
    if (!json_is_object(block)) return pv_refuse(at, "a block must be an object");
    for (size_t i = 0; i < sizeof pv_blocks / sizeof pv_blocks[0]; i++) {
        bool here = strchr(pv_blocks[i].places, place) != NULL;
        if (here && pv_is(block, "type", pv_blocks[i].type)) kind = &pv_blocks[i];
    }
    if (kind == NULL) {
        return pv_refuse(at, "a block of type '%.60s' has no place here",
                         pv_text(block, "type"));
    }
    return pv_object(at, block, kind->members) && pv_block_body(at, block, kind->type);
}

/* B.3: no empty content list; the last assistant message is excepted by the caller. */
static inline bool pv_block_list(const pv_place *at, json_t *blocks, char place)
{
    if (!json_is_array(blocks)) {
        return pv_refuse(at, "'content' must be a string or a list of blocks");
    }
    if (json_array_size(blocks) == 0) return pv_refuse(at, "an empty content list");
    for (size_t i = 0; i < json_array_size(blocks); i++) {
        pv_place there = place == 'r' ? *at : pv_at_part(at, "content", i);
        if (!pv_block_check(&there, json_array_get(blocks, i), place)) return false;
    }
    return true;
}

/* B.3: top-level system is a string or text blocks. */
static inline bool pv_anthropic_system(const pv_place *list_at, json_t *system)
{
    pv_place at = *list_at;
    at.list = "system";
    if (system == NULL) return true;
    if (!json_is_string(system)) return pv_block_list(&at, system, 's');
    if (!pv_blank(system)) return true;
    return pv_refuse(&at, "the system text must not be empty or only white space");
}

/* B.3: a message is user or assistant, and its content a string or blocks. A string is
 * short for one text block, and may be empty only at the end, where [] may stand too. */
static inline bool pv_anthropic_message(const pv_place *at, json_t *message, bool last)
{
    json_t *content = json_object_get(message, "content");
    bool assistant = pv_is(message, "role", "assistant");
    if (!pv_object(at, message, "role content")) return false;
    if (!assistant && !pv_is(message, "role", "user")) {
        return pv_refuse(at, "role '%.60s'", pv_text(message, "role"));
    }
    if (last && assistant) {
        if (json_is_array(content) && json_array_size(content) == 0) return true;
        if (json_is_string(content) && json_string_length(content) == 0) return true;
    }
    if (!json_is_string(content)) {
        return pv_block_list(at, content, assistant ? 'a' : 'u');
    }
    if (!pv_blank(content)) return true;
    return pv_refuse(at, "text content must not be empty or only white space");
}


/* ---- anthropic: calls, results, first and last ---- */

static inline json_t *pv_blocks_of(json_t *list, size_t i)
{
    return json_object_get(json_array_get(list, i), "content");
}

/* How many blocks of this type in message i have this id in the member key? */
static inline size_t pv_count_blocks(json_t *list, size_t i, const char *type,
                                     const char *key, json_t *id)
{
    json_t *blocks = pv_blocks_of(list, i);
    size_t count = 0;
    for (size_t k = 0; k < json_array_size(blocks); k++) {
        json_t *block = json_array_get(blocks, k);
        if (!pv_is(block, "type", type)) continue;
        count += json_equal(json_object_get(block, key), id) != 0;
    }
    return count;
}

/* B.3: the results of all calls stand in the one user message directly after them. */
static inline bool pv_use_answered(const pv_place *at, json_t *list, json_t *block)
{
    json_t *id = json_object_get(block, "id");
    if (!pv_is(block, "type", "tool_use")) return true;
    size_t answers = pv_count_blocks(list, at->message + 1, "tool_result", "tool_use_id",
                                     id);
    if (answers == 1) return true;
    if (answers > 1) {
        return pv_refuse(at, "call '%.60s' is answered twice", json_string_value(id));
    }
    return pv_refuse(at, "call '%.60s' has no result in the next message",
                     json_string_value(id));
}

/* B.3: each result matches a call of the previous message. */
static inline bool pv_result_called(const pv_place *at, json_t *list, json_t *block)
{
    json_t *id = json_object_get(block, "tool_use_id");
    if (!pv_is(block, "type", "tool_result")) return true;
    if (at->message > 0 &&
        pv_count_blocks(list, at->message - 1, "tool_use", "id", id) > 0) {
        return true;
    }
    return pv_refuse(at, "result without a call in the previous message: '%.60s'",
                     json_string_value(id));
}

/* B.3: results stand before any text in their message. */
static inline bool pv_result_first(const pv_place *at, json_t *blocks, size_t k)
{
    if (k == 0 || !pv_is(json_array_get(blocks, k), "type", "tool_result")) return true;
    if (pv_is(json_array_get(blocks, k - 1), "type", "tool_result")) return true;
    return pv_refuse(at, "results must stand before all other blocks");
}

/* B.3: call ids are unique in the request. */
static inline bool pv_use_unique(const pv_place *at, json_t *seen, json_t *block)
{
    if (!pv_is(block, "type", "tool_use")) return true;
    const char *id = pv_text(block, "id");
    if (json_object_get(seen, id) != NULL) {
        return pv_refuse(at, "call ids must be unique: '%.60s'", id);
    }
    json_object_set_new(seen, id, json_true());
    return true;
}

static inline bool pv_anthropic_pairs(const pv_place *at, json_t *list, json_t *seen)
{
    json_t *blocks = pv_blocks_of(list, at->message);
    for (size_t k = 0; k < json_array_size(blocks); k++) {
        json_t *block = json_array_get(blocks, k);
        pv_place there = pv_at_part(at, "content", k);
        if (!pv_use_unique(&there, seen, block)) return false;
        if (!pv_use_answered(&there, list, block)) return false;
        if (!pv_result_called(&there, list, block)) return false;
        if (!pv_result_first(&there, blocks, k)) return false;
    }
    return true;
}

/* B.3: the first message should be user. */
static inline bool pv_anthropic_first(const pv_place *list_at, json_t *list)
{
    if (pv_is(json_array_get(list, 0), "role", "user")) return true;
    return pv_refuse(list_at, "the first message should be user");
}

/* B.3: a final assistant message must not end in white space. */
static inline bool pv_anthropic_last(const pv_place *list_at, json_t *list)
{
    size_t last = json_array_size(list) - 1;
    json_t *text = pv_blocks_of(list, last);
    pv_place at = pv_at_message(list_at, last);
    if (!pv_is(json_array_get(list, last), "role", "assistant")) return true;
    if (json_is_array(text) && json_array_size(text) > 0) {
        text = json_object_get(json_array_get(text, json_array_size(text) - 1), "text");
    }
    if (!json_is_string(text) || !pv_ends_in_space(text)) return true;
    return pv_refuse(&at, "the final assistant message must not end in white space");
}

/* B.3: at most 100,000 messages. */
static inline bool pv_anthropic_count(const pv_place *list_at, json_t *list)
{
    if (!json_is_array(list)) return pv_refuse(list_at, "must be a list");
    if (json_array_size(list) <= 100000) return true;
    return pv_refuse(list_at, "more than 100000 messages");
}

static inline bool pv_anthropic(pv_place *list_at, json_t *request)
{
    json_t *list = json_object_get(request, "messages");
    pv_place at = *list_at;
    at.list = "request";
    if (!pv_object(&at, request, "system messages")) return false;
    if (!pv_anthropic_system(list_at, json_object_get(request, "system"))) return false;
    if (!pv_anthropic_count(list_at, list)) return false;
    size_t count = json_array_size(list);
    for (size_t i = 0; i < count; i++) {
        at = pv_at_message(list_at, i);
        if (!pv_anthropic_message(&at, json_array_get(list, i), i + 1 == count))
            return false;
    }
    if (!pv_anthropic_first(list_at, list)) return false;
    json_t *seen = json_object();
    bool paired = true;
    for (size_t i = 0; paired && i < count; i++) {
        at = pv_at_message(list_at, i);
        paired = pv_anthropic_pairs(&at, list, seen);
    }
    json_decref(seen);
    return paired && pv_anthropic_last(list_at, list);
}


/* ---- gemini (B.4): the shape of a content ---- */

/* B.4: what a part can be, and in which role: u user, m model. */
static const struct pv_gemini_kind {
    const char *name, *members, *roles;
} pv_gemini_kinds[] = {
    {"text", "text thought thoughtSignature", "um"},
    {"inlineData", "inlineData thoughtSignature", "um"},
    {"fileData", "fileData", "um"},
    {"functionCall", "functionCall thoughtSignature", "m"},
    {"functionResponse", "functionResponse", "u"},
};

/* B.4: a call has a name and args, a response a name and a response; args and response
 * are objects; an id is optional. */
static inline bool pv_gemini_function(const pv_place *at, json_t *function,
                                      const char *body)
{
    char members[32];
    snprintf(members, sizeof members, "name id %s", body);
    return pv_object(at, function, members) && pv_tool_name(at, function, "name") &&
           pv_need_object(at, function, body) && pv_maybe_string(at, function, "id");
}

static inline bool pv_gemini_body(const pv_place *at, json_t *part, const char *kind)
{
    json_t *body = json_object_get(part, kind);
    json_t *thought = json_object_get(part, "thought");
    if (!pv_maybe_string(at, part, "thoughtSignature")) return false;
    if (thought != NULL && !json_is_boolean(thought)) {
        return pv_refuse(at, "'thought' must be true or false");
    }
    if (strcmp(kind, "text") == 0) return pv_need_string(at, part, "text");
    if (strcmp(kind, "functionCall") == 0) return pv_gemini_function(at, body, "args");
    if (strcmp(kind, "functionResponse") != 0) return pv_need_object(at, part, kind);
    return pv_gemini_function(at, body, "response");
}

/* B.4: a part holds exactly one thing, in the role that may say it. */
static inline bool pv_gemini_part(const pv_place *at, json_t *part, char role)
{
    const struct pv_gemini_kind *kind = NULL;
    if (!json_is_object(part)) return pv_refuse(at, "a part must be an object");
    for (size_t i = 0; i < sizeof pv_gemini_kinds / sizeof pv_gemini_kinds[0]; i++) {
        if (json_object_get(part, pv_gemini_kinds[i].name) == NULL) continue;
        kind = &pv_gemini_kinds[i];
        break;
    }
    if (kind == NULL) return pv_refuse(at, "a part with nothing in it");
    if (strchr(kind->roles, role) == NULL) {
        return pv_refuse(at, "%s in the wrong role", kind->name);
    }
    return pv_object(at, part, kind->members) && pv_gemini_body(at, part, kind->name);
}

/* B.4: a content is user or model and has parts. */
static inline bool pv_gemini_content(const pv_place *at, json_t *content)
{
    json_t *parts = json_object_get(content, "parts");
    bool user = pv_is(content, "role", "user");
    if (!pv_object(at, content, "role parts")) return false;
    if (!user && !pv_is(content, "role", "model")) {
        return pv_refuse(at, "role '%.60s'", pv_text(content, "role"));
    }
    if (!json_is_array(parts)) return pv_refuse(at, "'parts' must be a list");
    if (json_array_size(parts) == 0) return pv_refuse(at, "'parts' is empty");
    for (size_t i = 0; i < json_array_size(parts); i++) {
        pv_place there = pv_at_part(at, "parts", i);
        if (!pv_gemini_part(&there, json_array_get(parts, i), user ? 'u' : 'm')) {
            return false;
        }
    }
    return true;
}

/* B.4: systemInstruction is separate, and has text parts only. */
static inline bool pv_gemini_system(const pv_place *list_at, json_t *system)
{
    json_t *parts = json_object_get(system, "parts");
    pv_place at = *list_at;
    at.list = "systemInstruction";
    if (system == NULL) return true;
    if (!pv_object(&at, system, "parts")) return false;
    if (json_array_size(parts) == 0) return pv_refuse(&at, "needs a list of parts");
    for (size_t i = 0; i < json_array_size(parts); i++) {
        if (!pv_object(&at, json_array_get(parts, i), "text")) return false;
        if (!pv_need_string(&at, json_array_get(parts, i), "text")) return false;
    }
    return true;
}


/* ---- gemini: calls, responses, signatures ---- */

/* The k-th value of this name among the parts of content i, or NULL. */
static inline json_t *pv_gemini_nth(json_t *list, size_t i, const char *name, size_t k)
{
    json_t *parts = json_object_get(json_array_get(list, i), "parts");
    for (size_t p = 0; p < json_array_size(parts); p++) {
        json_t *value = json_object_get(json_array_get(parts, p), name);
        if (value != NULL && k-- == 0) return value;
    }
    return NULL;
}

static inline size_t pv_gemini_count(json_t *list, size_t i, const char *name)
{
    size_t count = 0;
    while (pv_gemini_nth(list, i, name, count) != NULL) count++;
    return count;
}

/* B.4: do not mix functionResponse with text in one content. */
static inline bool pv_gemini_unmixed(const pv_place *at, json_t *list, size_t i)
{
    json_t *parts = json_object_get(json_array_get(list, i), "parts");
    size_t responses = pv_gemini_count(list, i, "functionResponse");
    if (responses == 0 || responses == json_array_size(parts)) return true;
    return pv_refuse(at, "functionResponse is mixed with other parts");
}

/* B.4: as many responses as calls, in the one content directly after the call turn, and
 * none without a call turn before it. */
static inline bool pv_gemini_counts(const pv_place *at, json_t *list, size_t i)
{
    size_t calls = pv_gemini_count(list, i, "functionCall");
    size_t after = pv_gemini_count(list, i + 1, "functionResponse");
    size_t responses = pv_gemini_count(list, i, "functionResponse");
    if (calls > 0 && after != calls) {
        return pv_refuse(at, "%lu functionCall parts, but %lu functionResponse parts in "
                             "the next content", (unsigned long)calls,
                         (unsigned long)after);
    }
    if (responses == 0) return true;
    if (i > 0 && pv_gemini_count(list, i - 1, "functionCall") > 0) return true;
    return pv_refuse(at, "functionResponse without a call turn before it");
}

/* B.4: responses stand in the order of their calls: same name, and same id or none. */
static inline bool pv_gemini_order(const pv_place *at, json_t *list, size_t i)
{
    json_t *call;
    for (size_t k = 0; (call = pv_gemini_nth(list, i, "functionCall", k)) != NULL; k++) {
        json_t *response = pv_gemini_nth(list, i + 1, "functionResponse", k);
        json_t *call_id = json_object_get(call, "id");
        json_t *id = json_object_get(response, "id");
        if (!json_equal(json_object_get(call, "name"), json_object_get(response, "name")))
            return pv_refuse(at, "response %lu is for another tool than call %lu",
                             (unsigned long)k, (unsigned long)k);
        if (call_id == id || json_equal(call_id, id)) continue;
        return pv_refuse(at, "response %lu has another id than call %lu",
                         (unsigned long)k, (unsigned long)k);
    }
    return true;
}

/* B.4: a call turn comes directly after a user turn or a response turn. */
static inline bool pv_gemini_before(const pv_place *at, json_t *list, size_t i)
{
    if (pv_gemini_count(list, i, "functionCall") == 0) return true;
    if (i > 0 && pv_is(json_array_get(list, i - 1), "role", "user")) return true;
    return pv_refuse(at, "a call turn must come directly after a user or response turn");
}

/* The current turn begins at the last user content that is no response. */
static inline size_t pv_gemini_turn(json_t *list)
{
    size_t i = json_array_size(list);
    while (i > 0) {
        i--;
        if (!pv_is(json_array_get(list, i), "role", "user")) continue;
        if (pv_gemini_count(list, i, "functionResponse") == 0) break;
    }
    return i;
}

/* B.4, Gemini 3: the first functionCall of each step of the current turn carries its
 * thoughtSignature; its siblings need none. */
static inline bool pv_gemini_signed(const pv_place *at, json_t *list, size_t i)
{
    json_t *parts = json_object_get(json_array_get(list, i), "parts");
    for (size_t p = 0; p < json_array_size(parts); p++) {
        json_t *part = json_array_get(parts, p);
        if (json_object_get(part, "functionCall") == NULL) continue;
        if (pv_text(part, "thoughtSignature")[0] != '\0') return true;
        return pv_refuse(at, "the first functionCall has no thoughtSignature");
    }
    return true;
}

/* B.4: contents must not be empty and start with user. */
static inline bool pv_gemini_start(const pv_place *list_at, json_t *list)
{
    if (!json_is_array(list)) return pv_refuse(list_at, "must be a list");
    if (json_array_size(list) == 0) return pv_refuse(list_at, "must not be empty");
    if (pv_is(json_array_get(list, 0), "role", "user")) return true;
    return pv_refuse(list_at, "must start with user");
}

static inline bool pv_gemini(pv_place *list_at, json_t *request)
{
    json_t *list = json_object_get(request, "contents");
    pv_place at = *list_at;
    at.list = "request";
    if (!pv_object(&at, request, "systemInstruction contents")) return false;
    if (!pv_gemini_system(list_at, json_object_get(request, "systemInstruction")))
        return false;
    if (!pv_gemini_start(list_at, list)) return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        at = pv_at_message(list_at, i);
        if (!pv_gemini_content(&at, json_array_get(list, i))) return false;
    }
    size_t turn = pv_gemini_turn(list);
    for (size_t i = 0; i < json_array_size(list); i++) {
        at = pv_at_message(list_at, i);
        if (!pv_gemini_unmixed(&at, list, i)) return false;
        if (!pv_gemini_counts(&at, list, i)) return false;
        if (!pv_gemini_order(&at, list, i)) return false;
        if (!pv_gemini_before(&at, list, i)) return false;
        if (i >= turn && !pv_gemini_signed(&at, list, i)) return false;
    }
    return true;
}


/* ---- pydantic-ai (B.5) ---- */

/* B.5: kinds of parts, in which kind of message, and what their content must be: s
 * string, l string or list, a anything but missing, - no matter. */
static const struct pv_pydantic_part {
    const char *message, *kind;
    char content;
} pv_pydantic_parts[] = {
    {"request", "system-prompt", 's'},
    {"request", "user-prompt", 'l'},
    {"request", "tool-return", 'a'},
    {"request", "retry-prompt", 'l'},
    {"request", "instruction", '-'},
    {"request", "tool-availability-delta", '-'},
    {"request", "speech", '-'},
    {"response", "text", 's'},
    {"response", "tool-call", '-'},
    {"response", "thinking", 's'},
    {"response", "builtin-tool-call", '-'},
    {"response", "builtin-tool-return", '-'},
    {"response", "file", '-'},
    {"response", "compaction", '-'},
    {"response", "speech", '-'},
};

/* B.5: kind and part_kind are required, and an unknown part_kind is refused. */
static inline const struct pv_pydantic_part *pv_pydantic_kind(json_t *message,
                                                              json_t *part)
{
    for (size_t i = 0; i < sizeof pv_pydantic_parts / sizeof pv_pydantic_parts[0]; i++) {
        const struct pv_pydantic_part *row = &pv_pydantic_parts[i];
        if (pv_is(message, "kind", row->message) && pv_is(part, "part_kind", row->kind))
            return row;
    }
    return NULL;
}

/* B.5: a timestamp is ISO text or an epoch number. */
static inline bool pv_pydantic_time(const pv_place *at, json_t *object)
{
    json_t *time = json_object_get(object, "timestamp");
    int year, month, day;
    if (time == NULL || json_is_number(time)) return true;
    if (json_is_string(time) &&
        sscanf(json_string_value(time), "%4d-%2d-%2d", &year, &month, &day) == 3 &&
        month >= 1 && month <= 12 && day >= 1 && day <= 31) {
        return true;
    }
    return pv_refuse(at, "'timestamp' must be ISO text or a number");
}

/* B.5: objects are refused as content, but for a tool's return. */
static inline bool pv_pydantic_content(const pv_place *at, json_t *part, char kind)
{
    json_t *content = json_object_get(part, "content");
    if (kind == '-' || json_is_string(content)) return true;
    if (kind == 'l' && json_is_array(content)) return true;
    if (kind == 'a' && content != NULL) return true;
    return pv_refuse(at, "'content' is missing or of the wrong type");
}

/* B.5: a user prompt is a list of texts and of objects with a kind. */
static inline bool pv_pydantic_prompt(const pv_place *at, json_t *part)
{
    json_t *items = json_object_get(part, "content");
    if (!pv_is(part, "part_kind", "user-prompt")) return true;
    for (size_t i = 0; i < json_array_size(items); i++) {
        json_t *item = json_array_get(items, i);
        if (json_is_string(item)) continue;
        if (json_is_string(json_object_get(item, "kind"))) continue;
        return pv_refuse(at, "item %lu of the user prompt", (unsigned long)i);
    }
    return true;
}

/* B.5: args are an object, a string or null. */
static inline bool pv_pydantic_args(const pv_place *at, json_t *part)
{
    json_t *args = json_object_get(part, "args");
    if (args == NULL || json_is_object(args) || json_is_string(args)) return true;
    if (json_is_null(args)) return true;
    return pv_refuse(at, "'args' must be an object, a string or null");
}

/* B.5: the outcome of a tool's return is one of four. */
static inline bool pv_pydantic_outcome(const pv_place *at, json_t *part)
{
    const char *outcome = pv_text(part, "outcome");
    if (json_object_get(part, "outcome") == NULL) return true;
    if (pv_word("success failed denied interrupted", outcome)) return true;
    return pv_refuse(at, "unknown outcome '%.60s'", outcome);
}

static inline bool pv_pydantic_is_call(json_t *part)
{
    return pv_is(part, "part_kind", "tool-call");
}

/* A retry prompt that names a tool answers its call; one without is mere text. */
static inline bool pv_pydantic_is_result(json_t *part)
{
    if (pv_is(part, "part_kind", "tool-return")) return true;
    return pv_is(part, "part_kind", "retry-prompt") &&
           json_is_string(json_object_get(part, "tool_name"));
}

/* B.5: a missing tool_call_id is filled at random and breaks the pair: write it. */
static inline bool pv_pydantic_id(const pv_place *at, json_t *part)
{
    if (!pv_pydantic_is_call(part) && !pv_pydantic_is_result(part)) return true;
    if (!pv_need_string(at, part, "tool_name")) return false;
    if (pv_text(part, "tool_call_id")[0] != '\0') return true;
    return pv_refuse(at, "'tool_call_id' must be written");
}

static inline bool pv_pydantic_part_check(const pv_place *at, json_t *message,
                                          json_t *part)
{
    const struct pv_pydantic_part *row = pv_pydantic_kind(message, part);
    if (row == NULL) {
        return pv_refuse(at, "unknown part_kind '%.60s'", pv_text(part, "part_kind"));
    }
    return pv_pydantic_content(at, part, row->content) && pv_pydantic_prompt(at, part) &&
           pv_pydantic_args(at, part) && pv_pydantic_outcome(at, part) &&
           pv_pydantic_time(at, part) && pv_pydantic_id(at, part);
}

static inline bool pv_pydantic_message(const pv_place *at, json_t *message)
{
    json_t *parts = json_object_get(message, "parts");
    if (!json_is_object(message)) return pv_refuse(at, "a message must be an object");
    if (!pv_is(message, "kind", "request") && !pv_is(message, "kind", "response")) {
        return pv_refuse(at, "unknown kind '%.60s'", pv_text(message, "kind"));
    }
    if (!json_is_array(parts)) return pv_refuse(at, "'parts' must be a list");
    for (size_t i = 0; i < json_array_size(parts); i++) {
        pv_place there = pv_at_part(at, "parts", i);
        if (!pv_pydantic_part_check(&there, message, json_array_get(parts, i)))
            return false;
    }
    return pv_pydantic_time(at, message);
}

/* B.5: a call is answered once, in a later request. open holds the ids that wait, each
 * with the index of its message; an id may come again when it was answered. */
static inline bool pv_pydantic_pair(const pv_place *at, json_t *open, json_t *part)
{
    const char *id = pv_text(part, "tool_call_id");
    bool waits = json_object_get(open, id) != NULL;
    if (pv_pydantic_is_call(part)) {
        if (waits) return pv_refuse(at, "a second open call '%.60s'", id);
        json_object_set_new(open, id, json_integer((json_int_t)at->message));
    }
    if (!pv_pydantic_is_result(part)) return true;
    if (!waits) return pv_refuse(at, "result without an open call: '%.60s'", id);
    json_object_del(open, id);
    return true;
}

static inline bool pv_pydantic_pairs(const pv_place *list_at, json_t *list, json_t *open)
{
    const char *id;
    json_t *index;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *parts = json_object_get(json_array_get(list, i), "parts");
        pv_place at = pv_at_message(list_at, i);
        for (size_t k = 0; k < json_array_size(parts); k++) {
            pv_place there = pv_at_part(&at, "parts", k);
            if (!pv_pydantic_pair(&there, open, json_array_get(parts, k))) return false;
        }
    }
    json_object_foreach (open, id, index) {
        pv_place at = pv_at_message(list_at, (size_t)json_integer_value(index));
        return pv_refuse(&at, "call '%.60s' has no result", id);
    }
    return true;
}

static inline bool pv_pydantic(pv_place *list_at, json_t *list)
{
    if (!json_is_array(list)) return pv_refuse(list_at, "must be a list");
    for (size_t i = 0; i < json_array_size(list); i++) {
        pv_place at = pv_at_message(list_at, i);
        if (!pv_pydantic_message(&at, json_array_get(list, i))) return false;
    }
    json_t *open = json_object();
    bool paired = pv_pydantic_pairs(list_at, list, open);
    json_decref(open);
    return paired;
}


/* ---- ollama (B.6) ---- */

/* B.6: a call has a function with a name and arguments, which are an object. */
static inline bool pv_ollama_call(const pv_place *at, json_t *call)
{
    json_t *function = json_object_get(call, "function");
    return pv_object(at, call, "id function") && pv_maybe_string(at, call, "id") &&
           pv_need_object(at, call, "function") &&
           pv_object(at, function, "name arguments") &&
           pv_tool_name(at, function, "name") &&
           pv_need_object(at, function, "arguments");
}

/* B.6: content is always a string, images are a list of base64. */
static inline bool pv_ollama_message(const pv_place *at, json_t *message)
{
    json_t *calls = json_object_get(message, "tool_calls");
    json_t *images = json_object_get(message, "images");
    if (!pv_object(at, message, "role content thinking images tool_calls tool_name "
                                "tool_call_id")) return false;
    if (!pv_word("system user assistant tool", pv_text(message, "role")))
        return pv_refuse(at, "role '%.60s'", pv_text(message, "role"));
    if (!pv_need_string(at, message, "content")) return false;
    if (images != NULL && json_array_size(images) == 0)
        return pv_refuse(at, "'images' must be a list of base64");
    if (calls != NULL && json_array_size(calls) == 0)
        return pv_refuse(at, "'tool_calls' is empty");
    for (size_t i = 0; i < json_array_size(calls); i++) {
        pv_place there = pv_at_part(at, "tool_calls", i);
        if (!pv_ollama_call(&there, json_array_get(calls, i))) return false;
    }
    return !pv_is(message, "role", "tool") || pv_need_string(at, message, "tool_name");
}

/* B.6: templates decide, so calls, results and roles keep the strict rules. */
static inline bool pv_ollama(pv_place *list_at, json_t *list)
{
    if (!json_is_array(list)) return pv_refuse(list_at, "must be a list");
    if (!pv_strict_start(list_at, list)) return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        pv_place at = pv_at_message(list_at, i);
        if (!pv_ollama_message(&at, json_array_get(list, i))) return false;
        if (!pv_chat_called(&at, list, i) || !pv_chat_answered(&at, list, i))
            return false;
        if (!pv_strict_system(&at, list, i) || !pv_strict_alternate(&at, list, i))
            return false;
    }
    return true;
}


/* ---- all of them ---- */

static const struct pv_provider {
    const char *name, *list;
    bool strict;
    bool (*check)(pv_place *at, json_t *request);
} pv_providers[] = {
    {"openai", "messages", false, pv_chat},
    {"chat-strict", "messages", true, pv_chat},
    {"anthropic", "messages", false, pv_anthropic},
    {"gemini", "contents", false, pv_gemini},
    {"pydantic-ai", "messages", false, pv_pydantic},
    {"ollama", "messages", true, pv_ollama},
};

/* NULL when the provider would take it, else the first rule broken, with where:
 * "messages[3]: ...". */
static inline const char *provider_check(const char *provider, json_t *request,
                                         char why[PROVIDER_WHY])
{
    for (size_t i = 0; i < sizeof pv_providers / sizeof pv_providers[0]; i++) {
        const struct pv_provider *p = &pv_providers[i];
        pv_place at = {why, p->list, PV_NONE, "", PV_NONE, p->strict};
        if (strcmp(provider, p->name) == 0) return p->check(&at, request) ? NULL : why;
    }
    snprintf(why, PROVIDER_WHY, "no such provider: %.60s", provider);
    return why;
}

#endif /* PROVIDERS_H */
