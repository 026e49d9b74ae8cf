/* A message, and options to project it, of the bytes of an input: for fuzz_project and
 * test_project_hostile. Before it `arena`, `everything` and `count_bytes` are defined. */

#ifndef FUZZ_MESSAGE_H
#define FUZZ_MESSAGE_H

#include "take.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN"
#define ONE_OF(in, list) (list)[fuzz_below(in, sizeof(list) / sizeof((list)[0]))]

static ms_value content_of(fuzz_input *in)
{
    static const char *const texts[] = {
        "", " \t", "\xC2\xA0\xE3\x80\x80", "a", "so ", "\n\nlate\r\n", "caf\xC3\xA9",
        "{\"a\":1}", "<context>\nx\n</context>", "Observation: 1", "null",
        "\xF0\x9F\x98\x80", "a long text that is cut when it is to be cut, in the middle",
    };
    static const char *const jsons[] = {
        "null", "[]", "{}", "\"\"", "\" \"", "\"s\\u0041\\n\"", "7", "true", "[1,[2]]",
        "[\"p\",\"q\"]", "{\"result\":1}", "{\"error\":\"e\"}", "{\"result\":{\"a\":1}}",
        "[{\"type\":\"text\",\"text\":\"t\"}]", "[{\"type\":\"text\",\"text\":\" \"}]",
        "[{\"text\":\"g\"}]", "[{\"type\":\"image_url\",\"image_url\":{}}]",
        "[{\"type\":\"tool_use\",\"id\":\"x\",\"name\":\"f\",\"input\":{}}]",
        "[{\"type\":\"refusal\",\"refusal\":\"no\"}]", " [ null ] ",
        "[{\"part_kind\":\"tool-return\"}]", "[{}]", "{ \"a\" : 1 }",
        "[\"t\",{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,AA==\"}}]",
        "[{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"https://a/b\"}}]",
        "[{\"inlineData\":{\"mimeType\":\"image/webp\",\"data\":\"AA-_\"}},{\"text\":\"t\"}]",
    };
    unsigned kind = fuzz_below(in, 4);
    if (kind == 0) return ms_text(ONE_OF(in, texts));
    if (kind == 1) return ms_json(ms_str_of(ONE_OF(in, jsons)));
    if (kind == 2) return ms_json(fuzz_text(in));
    return ms_text_n(fuzz_text(in));
}

/* Without NUL: the checkers compare names as C does. */
static ms_str name_of(fuzz_input *in)
{
    static const char *const names[] = {
        NULL, "f", "f", "g", "", "a b", "\xC3\xA9", LETTERS LETTERS, "x_2", "call_2",
        "call_3", LETTERS "zz", LETTERS "zy", "x y", "x",
    };
    unsigned which = fuzz_below(in, 16);
    if (which != 15) return ms_str_of(names[which]);
    ms_str text = fuzz_text(in);
    char *copy = (char *)ms_arena_alloc(&arena, text.len + 1);
    if (copy == NULL) abort();
    for (size_t i = 0; i < text.len; i++)
        copy[i] = text.ptr[i] != '\0' ? text.ptr[i] : '0';
    return ms_str_n(copy, text.len);
}

static ms_str agent_of(fuzz_input *in)
{
    static const char *const agents[] = {NULL, NULL, "a", "b", "m"};
    return ms_str_of(ONE_OF(in, agents));
}

static void call_of(fuzz_input *in, ms_envelope *m)
{
    static const char *const args[] = {
        "{}", "{\"q\":[1]}", " { } ", "{\"INVALID_JSON\":1}",
    };
    m->tool = name_of(in);
    m->args = fuzz_below(in, 4) == 0 ? ms_text_n(content_of(in).text)
                                     : ms_json(ms_str_of(ONE_OF(in, args)));
}

static ms_envelope message_of(fuzz_input *in)
{
    static const char *const beside[] = {
        "{\"thoughtSignature\":\"s\"}", "{\"outcome\":\"denied\"}",
        "{\"type\":\"odd\",\"id\":\"z\"}", "{\"role\":\"x\",\"content\":1,\"m\":2}",
        "{\"signed\":{\"provider\":\"anthropic\",\"signature\":\"s\"}}",
        "{\"signed\":{\"provider\":\"openai\",\"of\":1}}",
        "{\"signed\":{\"provider\":\"ollama\"},\"reasoning_content\":\"r\"}",
    };
    static const ms_type frequent[] = {
        MS_T_USER_MESSAGE, MS_T_ASSISTANT_MESSAGE, MS_T_ACTION, MS_T_ACTION,
        MS_T_OBSERVATION, MS_T_OBSERVATION, MS_T_ERROR,
    };
    ms_envelope m;
    unsigned type = fuzz_below(in, MS_TYPE_COUNT + 7), has = fuzz_u8(in);
    memset(&m, 0, sizeof m);
    m.type = type < MS_TYPE_COUNT ? (ms_type)type : frequent[type - MS_TYPE_COUNT];
    m.agent_key = agent_of(in);
    if (m.type != MS_T_ACTION) m.content = content_of(in);
    else call_of(in, &m);
    if (has & 1) m.call_id = name_of(in);
    if (has & 2) m.flags = MS_FLAG_JOINED;
    if (has & 4) m.role = (ms_role)fuzz_below(in, MS_ROLE_FUNCTION + 1);
    if (has & 8) m.extra = ms_str_of(ONE_OF(in, beside));
    if (has & 16) m.extra = ms_str_of(ONE_OF(in, beside));
    if (has & 32) m.turn_id = MS_STR("t");
    if ((has & 64) && m.type != MS_T_ACTION) call_of(in, &m);
    if (has & 128) m.summary = m.error_type = content_of(in).text;
    if (m.type == MS_T_DELEGATION) {
        m.worker = MS_STR("w");
        m.task = content_of(in).text;
    }
    if (m.type == MS_T_SYNTHESIS) m.from_manager = agent_of(in);
    if (m.type == MS_T_GLOBAL_OBSERVATION) m.from_worker = agent_of(in);
    if (m.type == MS_T_OTHER) m.type_name = MS_STR("odd");
    return m;
}

/* Blocks that a program signs as a provider's go to that provider as they are: that it
 * takes them is the word of the program, not the library's. A call among them is left out,
 * so a list of one is no exception. */
static inline bool has_signed_blocks(const ms_envelope *m)
{
    return m->type == MS_T_MULTIMODAL_PART && m->role == MS_ROLE_ASSISTANT &&
           m->content.json && has_text(m->extra, "\"signed\"") &&
           !has_text(m->content.text, "\"tool_use\"");
}

static ms_project_opts options_of(fuzz_input *in)
{
    ms_project_opts opts = everything;
    unsigned bits = fuzz_u8(in);
    static const char *const readers[] = {NULL, "a", "b", "c"};
    opts.agent_key = ms_str_of(readers[bits & 3]);
    if (bits & 4) opts.system = MS_STR("be good");
    if (bits & 8) opts.count = count_bytes;
    opts.stable = (bits & 16) != 0;
    opts.shorten = (bits & 32) != 0;
    opts.shorten_opts.keep = 10;
    opts.thinking = (bits & 64) != 0;
    opts.newest = fuzz_u8(in) % 16;
    opts.budget = fuzz_u8(in);
    opts.step = fuzz_u8(in) % 8;
    opts.fresh = fuzz_u8(in) % 5;
    opts.fresh_step = fuzz_u8(in) % 4;
    return opts;
}

#endif /* FUZZ_MESSAGE_H */
