/* A provider's answer of the bytes of an input, in two forms: a whole body, and a stream
 * of events. Both say the same, as the types of the providers' packages have it (see
 * tests/tables/answers.jsonl). Before it `arena` is defined: the texts are there. */

#ifndef FUZZ_ANSWER_H
#define FUZZ_ANSWER_H

#include "take.h"

enum { MOST_SAID = 5 };

typedef enum said_kind {
    SAID_TEXT,
    SAID_THOUGHT,
    SAID_CALL,
    SAID_OTHER              /* what only its maker reads */
} said_kind;

typedef struct said {
    said_kind kind;
    ms_str text;            /* of a call its arguments */
    size_t cut;             /* a stream sends it in two parts */
    ms_str id, tool, sign;  /* sign absent: none */
    unsigned form;
    bool written;           /* the provider has a form for it */
    ms_str blocks[2];       /* of SAID_OTHER, as they are written */
} said;

typedef struct made_answer {
    const ms_profile *profile;
    said parts[MOST_SAID];
    size_t n;
    const char *id, *stop;  /* of the response; the reason to stop */
    bool cut_off;           /* the reason is that there was no more room */
    unsigned input, output; /* tokens */
    unsigned left;          /* a bit for each member that is not stored */
    unsigned frame;         /* what is around the events of a stream */
    bool repeats;           /* the end of a stream has all of it again */
} made_answer;

static unsigned others_made, answers_made; /* of this input: for ids */


/* ---- text ---- */

static void out_escaped(ms_buf *b, ms_str s)
{
    char code[8];
    size_t from = 0;
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        (void)ms_buf_write(b, s.ptr + from, i - from);
        from = i + 1;
        int n = snprintf(code, sizeof code, c < 0x20 ? "\\u%04x" : "\\%c", c);
        (void)ms_buf_write(b, code, (size_t)n);
    }
    (void)ms_buf_write(b, s.ptr + from, s.len - from);
}

/* Writes a text with %s a C string, %j a text as it is, %q one as a JSON string, %u a
 * number. */
static void out(ms_buf *b, const char *form, ...)
{
    va_list args;
    char number[16];
    va_start(args, form);
    for (const char *p; (p = strchr(form, '%')) != NULL; form = p + 2) {
        (void)ms_buf_write(b, form, (size_t)(p - form));
        if (p[1] == 's') {
            const char *s = va_arg(args, const char *);
            (void)ms_buf_write(b, s, strlen(s));
        } else if (p[1] == 'u') {
            int n = snprintf(number, sizeof number, "%u", va_arg(args, unsigned));
            (void)ms_buf_write(b, number, (size_t)n);
        } else {
            ms_str s = va_arg(args, ms_str);
            if (p[1] == 'q') (void)ms_buf_write(b, "\"", 1);
            if (p[1] == 'q') out_escaped(b, s);
            else (void)ms_buf_write(b, s.ptr, s.len);
            if (p[1] == 'q') (void)ms_buf_write(b, "\"", 1);
        }
    }
    va_end(args);
    (void)ms_buf_write(b, form, strlen(form));
}

/* A text of the input as UTF-8, without the characters of a marker. */
static ms_str said_text(fuzz_input *in, size_t most)
{
    static const char *const texts[] = {
        "", "a", "so ", "caf\xC3\xA9 \"x\"\\", " \n", "\xF0\x9F\x98\x80\xF0\x9F\x98\x80",
        "[DONE]", "data: {\"error\":1}\n\n: {", "}]}\n",
    };
    unsigned which = fuzz_below(in, 12);
    if (which < sizeof texts / sizeof texts[0]) return ms_str_of(texts[which]);
    ms_str bytes = fuzz_bytes(in, fuzz_below(in, (unsigned)most));
    char *copy = (char *)ms_arena_alloc(&arena, bytes.len + 1);
    if (copy == NULL) abort();
    for (size_t i = 0; i < bytes.len; i++) {
        char c = (char)(bytes.ptr[i] & 0x7f);
        copy[i] = c == ';' || c == '\0' ? ',' : c;
    }
    return ms_str_n(copy, bytes.len);
}

/* The two parts of a text, between characters. */
static ms_str said_half(const said *s, bool second)
{
    size_t at = s->cut < s->text.len ? s->cut : s->text.len;
    while (at > 0 && at < s->text.len && ((unsigned char)s->text.ptr[at] & 0xC0) == 0x80)
        at--;
    return second ? ms_str_n(s->text.ptr + at, s->text.len - at) : ms_str_n(s->text.ptr, at);
}

static bool frames_lines(const made_answer *a)
{
    return a->profile->wire == MS_WIRE_OLLAMA || a->profile->wire == MS_WIRE_BEDROCK;
}

static void event_begin(ms_buf *b, const made_answer *a)
{
    static const char *const before[] = {"data: ", ": {\n\ndata: ", "event: x\r\ndata: ",
                                         "id: 1\ndata: "};
    if (!frames_lines(a)) out(b, "%s", before[a->frame % 4]);
}

static void event_end(ms_buf *b, const made_answer *a)
{
    out(b, "%s", frames_lines(a) ? "\n" : a->frame % 4 == 2 ? "\r\n\r\n" : "\n\n");
}

#define EVENT(b, a, ...)        \
    do {                        \
        event_begin(b, a);      \
        out(b, __VA_ARGS__);    \
        event_end(b, a);        \
    } while (0)


/* Writes a member that is not stored, if the answer has it. */
static void out_left(ms_buf *b, const made_answer *a, unsigned bit, const char *member)
{
    if (a->left & bit) out(b, "%s", member);
}

enum { LEFT_1 = 1, LEFT_2 = 2, LEFT_3 = 4, LEFT_ALL = 7 };


/* ---- chat completions ---- */

static said *first_said(made_answer *a, said_kind kind)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->parts[i].kind == kind) return &a->parts[i];
    return NULL;
}

static bool has_details(const made_answer *a, const said *s)
{
    return strcmp(a->profile->name, "openrouter") == 0 && (s->form & 1);
}

static void chat_call(ms_buf *b, const said *s, unsigned index, ms_str args, bool begins)
{
    bool custom = (s->form & 3) == 3;
    out(b, "{\"index\":%u", index);
    if (begins && s->id.len > 0) out(b, ",\"id\":%q", s->id);
    if (begins) out(b, ",\"type\":\"%s\"", custom ? "custom" : "function");
    out(b, ",\"%s\":{", custom ? "custom" : "function");
    if (begins) out(b, "\"name\":%q,", s->tool);
    out(b, "\"%s\":%q}", custom ? "input" : "arguments", args);
    if (begins && s->sign.ptr)
        out(b, ",\"extra_content\":{\"google\":{\"thought_signature\":%q}}", s->sign);
    out(b, "}");
}

static void chat_usage(ms_buf *b, const made_answer *a)
{
    out(b, "\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u}", a->input, a->output);
}

#define CHAT_NOTES ",\"annotations\":[{\"type\":\"url_citation\"}]"
#define CHAT_MARKS ",\"logprobs\":{\"content\":[{\"token\":\"a\"}]}"

static void chat_body(ms_buf *b, made_answer *a)
{
    said *text = first_said(a, SAID_TEXT), *thought = first_said(a, SAID_THOUGHT);
    unsigned calls = 0;
    out(b, "{\"id\":\"%s\",\"object\":\"chat.completion\",\"model\":\"m-1\",\"choices\":[{"
           "\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":", a->id);
    if (text != NULL && text->form != 1) out(b, "%q", text->text);
    else out(b, "null");
    if (text != NULL && text->form == 1) out(b, ",\"refusal\":%q", text->text);
    if (text != NULL) text->written = true;
    if (thought != NULL) {
        out(b, ",\"reasoning_content\":%q", thought->text);
        if (has_details(a, thought))
            out(b, ",\"reasoning_details\":[{\"type\":\"reasoning.text\",\"index\":0,"
                   "\"text\":%q,\"signature\":%q}]", thought->text, MS_STR("S"));
        thought->written = true;
    }
    for (size_t i = 0; i < a->n; i++) {
        said *s = &a->parts[i];
        if (s->kind != SAID_CALL) continue;
        out(b, calls == 0 ? ",\"tool_calls\":[" : ",");
        chat_call(b, s, calls++, s->text, true);
        s->written = true;
    }
    out(b, "%s", calls > 0 ? "]" : "");
    out_left(b, a, LEFT_1, CHAT_NOTES);
    out_left(b, a, LEFT_2, ",\"audio\":{\"id\":\"a\",\"data\":\"QUJD\"}");
    out(b, "},\"finish_reason\":\"%s\"", a->stop);
    out_left(b, a, LEFT_3, CHAT_MARKS);
    out(b, "}],");
    chat_usage(b, a);
    out(b, "}");
}

#define DELTA(b, a, ...)                                                          \
    do {                                                                          \
        event_begin(b, a);                                                        \
        out(b, "{\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":{");       \
        out(b, __VA_ARGS__);                                                      \
        out(b, "},\"finish_reason\":null}]}");                                    \
        event_end(b, a);                                                          \
    } while (0)

static void chat_stream(ms_buf *b, made_answer *a)
{
    said *text = first_said(a, SAID_TEXT), *thought = first_said(a, SAID_THOUGHT);
    unsigned calls = 0;
    DELTA(b, a, "\"role\":\"assistant\",\"content\":\"\"");
    if (a->left & LEFT_2) DELTA(b, a, "\"audio\":{\"id\":\"a\",\"data\":\"QU\"}");
    if (a->left & LEFT_2) DELTA(b, a, "\"audio\":{\"data\":\"JD\"}");
    for (int half = 0; thought != NULL && half < 2; half++) {
        ms_str piece = said_half(thought, half);
        if (!has_details(a, thought))
            DELTA(b, a, "\"reasoning_content\":%q", piece);
        else
            DELTA(b, a, "\"reasoning_content\":%q,\"reasoning_details\":[{\"type\":"
                        "\"reasoning.text\",\"index\":0,\"text\":%q%s}]", piece, piece,
                  half ? ",\"signature\":\"S\"" : "");
    }
    for (int half = 0; text != NULL && half < 2; half++)
        DELTA(b, a, text->form == 1 ? "\"refusal\":%q" : "\"content\":%q",
              said_half(text, half));
    for (size_t i = 0; i < a->n; i++) {
        if (a->parts[i].kind != SAID_CALL) continue;
        for (int half = 0; half < 2; half++) {
            event_begin(b, a);
            out(b, "{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[");
            chat_call(b, &a->parts[i], calls, said_half(&a->parts[i], half), !half);
            out(b, "]}}]}");
            event_end(b, a);
        }
        calls++;
    }
    EVENT(b, a, "{\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"%s},"
                "\"finish_reason\":\"%s\"%s}]}", a->left & LEFT_1 ? CHAT_NOTES : "", a->stop,
          a->left & LEFT_3 ? CHAT_MARKS : "");
    event_begin(b, a);
    out(b, "{\"choices\":[],");
    chat_usage(b, a);
    out(b, "}");
    event_end(b, a);
    out(b, "data: [DONE]\n\n");
}


/* ---- ollama ---- */

static void ollama_calls(ms_buf *b, made_answer *a)
{
    unsigned calls = 0;
    for (size_t i = 0; i < a->n; i++) {
        said *s = &a->parts[i];
        if (s->kind != SAID_CALL) continue;
        out(b, calls++ == 0 ? ",\"tool_calls\":[" : ",");
        out(b, "{\"function\":{\"name\":%q,\"arguments\":%j}}", s->tool, s->text);
        s->written = true;
    }
    if (calls > 0) out(b, "]");
}

static void ollama_end(ms_buf *b, const made_answer *a)
{
    out(b, "\"done\":true,\"done_reason\":\"%s\",\"prompt_eval_count\":%u,"
           "\"eval_count\":%u}", a->stop, a->input, a->output);
}

#define OLLAMA_PICTURES ",\"images\":[\"QUJD\"]"
#define OLLAMA_MARKS "\"logprobs\":[{\"token\":\"a\",\"logprob\":-1}],"

static void ollama_body(ms_buf *b, made_answer *a)
{
    said *text = first_said(a, SAID_TEXT), *thought = first_said(a, SAID_THOUGHT);
    out(b, "{\"model\":\"m-1\",\"message\":{\"role\":\"assistant\",\"content\":%q",
        text != NULL ? text->text : MS_STR(""));
    if (text != NULL) text->written = true;
    if (thought != NULL) out(b, ",\"thinking\":%q", thought->text);
    if (thought != NULL) thought->written = true;
    ollama_calls(b, a);
    out_left(b, a, LEFT_1, OLLAMA_PICTURES);
    out_left(b, a, LEFT_2, ",\"future\":0");
    out(b, "},");
    out_left(b, a, LEFT_3, OLLAMA_MARKS);
    ollama_end(b, a);
}

static void ollama_stream(ms_buf *b, made_answer *a)
{
    said *text = first_said(a, SAID_TEXT), *thought = first_said(a, SAID_THOUGHT);
    static const char begin[] = "{\"model\":\"m-1\",\"message\":{\"role\":\"assistant\","
                                "\"content\":";
    for (int half = 0; thought != NULL && half < 2; half++)
        EVENT(b, a, "%s\"\",\"thinking\":%q},\"done\":false}", begin,
              said_half(thought, half));
    for (int half = 0; text != NULL && half < 2; half++)
        EVENT(b, a, "%s%q},\"done\":false}", begin, said_half(text, half));
    event_begin(b, a);
    out(b, "%s\"\"", begin);
    ollama_calls(b, a);
    out_left(b, a, LEFT_1, OLLAMA_PICTURES);
    out(b, "},");
    out_left(b, a, LEFT_3, OLLAMA_MARKS);
    out(b, "\"done\":false}");
    event_end(b, a);
    event_begin(b, a);
    out(b, "%s\"\"", begin);
    out_left(b, a, LEFT_2, ",\"future\":0");
    out(b, "},");
    out_left(b, a, LEFT_3, OLLAMA_MARKS);
    ollama_end(b, a);
    event_end(b, a);
}


/* ---- anthropic ---- */

static void anthropic_block(ms_buf *b, said *s, bool whole)
{
    static const char cites[] = "[{\"type\":\"char_location\",\"cited_text\":\"c\","
                                "\"document_index\":0,\"document_title\":null,"
                                "\"start_char_index\":0,\"end_char_index\":1}]";
    s->written = true;
    if (s->kind == SAID_TEXT) {
        out(b, "{\"type\":\"text\",\"text\":%q", whole ? s->text : MS_STR(""));
        if (s->form == 1) out(b, ",\"citations\":%s", whole ? cites : "[]");
        out(b, "}");
    } else if (s->kind == SAID_THOUGHT && s->form == 1) {
        out(b, "{\"type\":\"redacted_thinking\",\"data\":\"UkVE\"}");
    } else if (s->kind == SAID_THOUGHT) {
        out(b, "{\"type\":\"thinking\",\"thinking\":%q,\"signature\":%q}",
            whole ? s->text : MS_STR(""), whole && s->sign.ptr ? s->sign : MS_STR(""));
    } else if (s->kind == SAID_CALL) {
        out(b, "{\"type\":\"tool_use\",\"id\":%q,\"name\":%q,\"input\":%j%s}", s->id, s->tool,
            whole ? s->text : MS_STR("{}"),
            s->form == 1 ? ",\"caller\":{\"type\":\"direct\"}" : "");
    }
}

static void anthropic_usage(ms_buf *b, const made_answer *a)
{
    out(b, "\"usage\":{\"input_tokens\":%u,\"output_tokens\":%u}", a->input, a->output);
}

#define CONTAINER ",\"container\":{\"id\":\"c\",\"expires_at\":\"t\"}"
#define DETAILS ",\"stop_details\":{\"type\":\"refusal\"}"
#define EDITS "\"context_management\":{\"applied_edits\":[{\"type\":\"x\"}]},"

static void anthropic_body(ms_buf *b, made_answer *a)
{
    out(b, "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m-1\","
           "\"content\":[", a->id);
    for (size_t i = 0; i < a->n; i++) {
        said *s = &a->parts[i];
        if (i > 0) out(b, ",");
        if (s->kind == SAID_OTHER) out(b, "%j,%j", s->blocks[0], s->blocks[1]);
        anthropic_block(b, s, true);
    }
    out(b, "],\"stop_reason\":\"%s\"", a->stop);
    out_left(b, a, LEFT_1, CONTAINER);
    out_left(b, a, LEFT_2, DETAILS);
    out(b, ",");
    out_left(b, a, LEFT_3, EDITS);
    anthropic_usage(b, a);
    out(b, "}");
}

static void anthropic_stream(ms_buf *b, made_answer *a)
{
    unsigned index = 0;
    EVENT(b, a, "{\"type\":\"message_start\",\"message\":{\"id\":\"%s\",\"type\":\"message\","
                "\"model\":\"m-1\",\"content\":[],\"stop_reason\":null,\"usage\":{"
                "\"input_tokens\":%u,\"output_tokens\":1}}}", a->id, a->input);
    for (size_t i = 0; i < a->n; i++) {
        said *s = &a->parts[i];
        if (s->kind == SAID_OTHER) {
            for (int k = 0; k < 2; k++)
                EVENT(b, a, "{\"type\":\"content_block_start\",\"index\":%u,"
                            "\"content_block\":%j}", index++, s->blocks[k]);
            continue;
        }
        event_begin(b, a);
        out(b, "{\"type\":\"content_block_start\",\"index\":%u,\"content_block\":", index);
        anthropic_block(b, s, false);
        out(b, "}");
        event_end(b, a);
        for (int half = 0; half < 2 && !(s->kind == SAID_THOUGHT && s->form == 1); half++)
            EVENT(b, a, "{\"type\":\"content_block_delta\",\"index\":%u,\"delta\":{\"type\":"
                        "\"%s\":%q}}", index,
                  s->kind == SAID_TEXT      ? "text_delta\",\"text"
                  : s->kind == SAID_THOUGHT ? "thinking_delta\",\"thinking"
                                            : "input_json_delta\",\"partial_json",
                  said_half(s, half));
        if (s->kind == SAID_THOUGHT && s->form != 1 && s->sign.ptr)
            EVENT(b, a, "{\"type\":\"content_block_delta\",\"index\":%u,\"delta\":{\"type\":"
                        "\"signature_delta\",\"signature\":%q}}", index, s->sign);
        if (s->kind == SAID_TEXT && s->form == 1)
            EVENT(b, a, "{\"type\":\"content_block_delta\",\"index\":%u,\"delta\":{\"type\":"
                        "\"citations_delta\",\"citation\":{\"type\":\"char_location\","
                        "\"cited_text\":\"c\",\"document_index\":0,\"document_title\":null,"
                        "\"start_char_index\":0,\"end_char_index\":1}}}", index);
        EVENT(b, a, "{\"type\":\"content_block_stop\",\"index\":%u}", index++);
    }
    event_begin(b, a);
    out(b, "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"%s\"", a->stop);
    out_left(b, a, LEFT_1, CONTAINER);
    out_left(b, a, LEFT_2, DETAILS);
    out(b, "},");
    out_left(b, a, LEFT_3, EDITS);
    anthropic_usage(b, a);
    out(b, "}");
    event_end(b, a);
    EVENT(b, a, "{\"type\":\"message_stop\"}");
}


/* ---- gemini ---- */

/* Writes a part, of a text one half. */
static void gemini_part(ms_buf *b, said *s, ms_str text, bool ends)
{
    s->written = true;
    if (s->kind == SAID_OTHER) {
        out(b, "%j,%j", s->blocks[0], s->blocks[1]);
    } else if (s->kind == SAID_CALL) {
        out(b, "{\"functionCall\":{");
        if (s->id.len > 0) out(b, "\"id\":%q,", s->id);
        out(b, "\"name\":%q,\"args\":%j}", s->tool, s->text);
        if (s->sign.ptr) out(b, ",\"thoughtSignature\":%q", s->sign);
        out(b, "}");
    } else {
        out(b, "{\"text\":%q", text);
        if (s->kind == SAID_THOUGHT) out(b, ",\"thought\":true");
        if (ends && s->sign.ptr) out(b, ",\"thoughtSignature\":%q", s->sign);
        out(b, "}");
    }
}

static void gemini_end(ms_buf *b, const made_answer *a)
{
    out(b, "]},");
    out_left(b, a, LEFT_1, "\"groundingMetadata\":{\"webSearchQueries\":[\"q\"]},");
    out_left(b, a, LEFT_2, "\"citationMetadata\":{\"citations\":[{}]},");
    out_left(b, a, LEFT_3, "\"urlContextMetadata\":{\"urlMetadata\":[{}]},");
    out(b, "\"finishReason\":\"%s\",\"index\":0}],\"usageMetadata\":{"
           "\"promptTokenCount\":%u,\"candidatesTokenCount\":%u},\"modelVersion\":\"m-1\"}",
        a->stop, a->input, a->output);
}

static void gemini_body(ms_buf *b, made_answer *a)
{
    out(b, "{\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[");
    for (size_t i = 0; i < a->n; i++) {
        if (i > 0) out(b, ",");
        gemini_part(b, &a->parts[i], a->parts[i].text, true);
    }
    gemini_end(b, a);
}

static void gemini_stream(ms_buf *b, made_answer *a)
{
    for (size_t i = 0; i < a->n; i++) {
        said *s = &a->parts[i];
        bool halves = s->kind == SAID_TEXT || s->kind == SAID_THOUGHT;
        for (int half = halves ? 0 : 1; half < 2; half++) {
            event_begin(b, a);
            out(b, "{\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[");
            gemini_part(b, s, said_half(s, half), half);
            out(b, "]},\"index\":0}],\"modelVersion\":\"m-1\"}");
            event_end(b, a);
        }
    }
    event_begin(b, a);
    out(b, "{\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[");
    gemini_end(b, a);
    event_end(b, a);
}


/* ---- the Responses API ---- */

static const char *responses_call_type(const said *s)
{
    return s->form == 1 ? "custom_tool_call" : s->form == 2 ? "shell_call" : "function_call";
}

/* Writes an item; not whole: as a stream begins it. */
static void responses_item(ms_buf *b, said *s, unsigned n, bool whole)
{
    ms_str text = whole ? s->text : MS_STR("");
    const char *status = whole ? "completed" : "in_progress";
    s->written = true;
    if (s->kind == SAID_TEXT) {
        out(b, "{\"type\":\"message\",\"id\":\"msg_%u\",\"status\":\"%s\",\"role\":"
               "\"assistant\",\"content\":[", n, status);
        if (whole && s->form == 1)
            out(b, "{\"type\":\"refusal\",\"refusal\":%q}", text);
        else if (whole)
            out(b, "{\"type\":\"output_text\",\"text\":%q,\"annotations\":[]}", text);
        out(b, "]%s}", s->form == 2 ? ",\"phase\":\"commentary\"" : "");
    } else if (s->kind == SAID_THOUGHT) {
        out(b, "{\"type\":\"reasoning\",\"id\":\"rs_%u\",\"summary\":[", n);
        if (text.len > 0) out(b, "{\"type\":\"summary_text\",\"text\":%q}", text);
        out(b, "]");
        if (whole) out(b, ",\"encrypted_content\":\"RU5D\""); /* store is false */
        out(b, "}");
    } else if (s->kind == SAID_CALL) {
        out(b, "{\"type\":\"%s\",\"id\":\"fc_%u\",\"call_id\":%q,", responses_call_type(s), n,
            s->id);
        if (s->form == 2)
            out(b, "\"action\":{\"commands\":[%q]}", text);
        else
            out(b, "\"name\":%q,\"%s\":%q", s->tool, s->form == 1 ? "input" : "arguments",
                text);
        out(b, ",\"status\":\"%s\"}", status);
    }
}

static void responses_list(ms_buf *b, made_answer *a)
{
    out(b, "\"output\":[");
    for (size_t i = 0; i < a->n; i++) {
        said *s = &a->parts[i];
        if (i > 0) out(b, ",");
        if (s->kind == SAID_OTHER) out(b, "%j,%j", s->blocks[0], s->blocks[1]);
        responses_item(b, s, answers_made * 8 + (unsigned)i, true);
    }
    out(b, "]");
}

static void responses_head(ms_buf *b, const made_answer *a)
{
    out(b, "\"id\":\"%s\",\"object\":\"response\",\"model\":\"m-1\",\"error\":null,", a->id);
}

static void responses_end(ms_buf *b, const made_answer *a)
{
    out(b, ",\"status\":\"%s\",\"incomplete_details\":", a->cut_off ? "incomplete"
                                                                    : "completed");
    if (a->cut_off) out(b, "{\"reason\":\"%s\"}", a->stop);
    else out(b, "null");
    out(b, ",\"usage\":{\"input_tokens\":%u,\"output_tokens\":%u}}", a->input, a->output);
}

static void responses_body(ms_buf *b, made_answer *a)
{
    out(b, "{");
    responses_head(b, a);
    responses_list(b, a);
    responses_end(b, a);
}

static void responses_stream(ms_buf *b, made_answer *a)
{
    unsigned index = 0;
    event_begin(b, a);
    out(b, "{\"type\":\"response.created\",\"response\":{");
    responses_head(b, a);
    out(b, "\"status\":\"in_progress\",\"output\":[]}}");
    event_end(b, a);
    for (size_t i = 0; i < a->n; i++) {
        said *s = &a->parts[i];
        unsigned n = answers_made * 8 + (unsigned)i;
        if (s->kind == SAID_OTHER) {
            for (int k = 0; k < 2; k++, index++) {
                EVENT(b, a, "{\"type\":\"response.output_item.added\",\"output_index\":%u,"
                            "\"item\":%j}", index, s->blocks[k]);
                EVENT(b, a, "{\"type\":\"response.output_item.done\",\"output_index\":%u,"
                            "\"item\":%j}", index, s->blocks[k]);
            }
            continue;
        }
        event_begin(b, a);
        out(b, "{\"type\":\"response.output_item.added\",\"output_index\":%u,\"item\":", index);
        responses_item(b, s, n, false);
        out(b, "}");
        event_end(b, a);
        for (int half = 0; half < 2 && s->kind == SAID_TEXT; half++)
            EVENT(b, a, "{\"type\":\"response.%s.delta\",\"output_index\":%u,\"delta\":%q}",
                  s->form == 1 ? "refusal" : "output_text", index, said_half(s, half));
        event_begin(b, a);
        out(b, "{\"type\":\"response.output_item.done\",\"output_index\":%u,\"item\":", index++);
        responses_item(b, s, n, true);
        out(b, "}");
        event_end(b, a);
    }
    event_begin(b, a);
    out(b, "{\"type\":\"response.completed\",\"response\":{");
    responses_head(b, a);
    if (a->repeats) responses_list(b, a);
    else out(b, "\"output\":[]");
    responses_end(b, a);
    out(b, "}");
    event_end(b, a);
}


/* ---- bedrock ---- */

static void bedrock_block(ms_buf *b, said *s)
{
    s->written = true;
    if (s->kind == SAID_TEXT) {
        out(b, "{\"text\":%q}", s->text);
    } else if (s->kind == SAID_THOUGHT && s->form == 1) {
        out(b, "{\"reasoningContent\":{\"redactedContent\":\"UkVE\"}}");
    } else if (s->kind == SAID_THOUGHT) {
        out(b, "{\"reasoningContent\":{\"reasoningText\":{\"text\":%q", s->text);
        if (s->sign.ptr) out(b, ",\"signature\":%q", s->sign);
        out(b, "}}}");
    } else {
        out(b, "{\"toolUse\":{\"toolUseId\":%q,\"name\":%q,\"input\":%j}}", s->id, s->tool,
            s->text);
    }
}

#define BEDROCK_FIELDS ",\"additionalModelResponseFields\":{\"x\":1}"
#define BEDROCK_TRACE ",\"trace\":{\"guardrail\":{\"x\":1}}"

static void bedrock_body(ms_buf *b, made_answer *a)
{
    out(b, "{\"output\":{\"message\":{\"role\":\"assistant\",\"content\":[");
    for (size_t i = 0; i < a->n; i++) {
        said *s = &a->parts[i];
        if (i > 0) out(b, ",");
        if (s->kind == SAID_OTHER) out(b, "%j,%j", s->blocks[0], s->blocks[1]);
        else bedrock_block(b, s);
    }
    out(b, "]}},\"stopReason\":\"%s\",\"usage\":{\"inputTokens\":%u,\"outputTokens\":%u}",
        a->stop, a->input, a->output);
    out_left(b, a, LEFT_1, BEDROCK_FIELDS);
    out_left(b, a, LEFT_2, BEDROCK_TRACE);
    out(b, "}");
}

static void bedrock_delta(ms_buf *b, const made_answer *a, unsigned index, const char *form,
                          ms_str text)
{
    event_begin(b, a);
    out(b, "{\"contentBlockDelta\":{\"contentBlockIndex\":%u,\"delta\":", index);
    out(b, form, text);
    out(b, "}}");
    event_end(b, a);
}

static void bedrock_stream(ms_buf *b, made_answer *a)
{
    unsigned index = 0;
    EVENT(b, a, "{\"messageStart\":{\"role\":\"assistant\"}}");
    for (size_t i = 0; i < a->n; i++, index++) {
        said *s = &a->parts[i];
        if (s->kind == SAID_OTHER) {
            for (int k = 0; k < 2; k++)
                EVENT(b, a, "{\"contentBlockStart\":{\"contentBlockIndex\":%u,\"start\":%j}}",
                      index + (unsigned)k, s->blocks[k]);
            index++;
            continue;
        }
        if (s->kind == SAID_CALL)
            EVENT(b, a, "{\"contentBlockStart\":{\"contentBlockIndex\":%u,\"start\":{"
                        "\"toolUse\":{\"toolUseId\":%q,\"name\":%q}}}}", index, s->id, s->tool);
        if (s->kind == SAID_THOUGHT && s->form == 1)
            bedrock_delta(b, a, index, "{\"reasoningContent\":{\"redactedContent\":\"UkVE\"}}",
                          s->text);
        for (int half = 0; half < 2 && !(s->kind == SAID_THOUGHT && s->form == 1); half++)
            bedrock_delta(b, a, index,
                          s->kind == SAID_TEXT      ? "{\"text\":%q}"
                          : s->kind == SAID_THOUGHT ? "{\"reasoningContent\":{\"text\":%q}}"
                                                    : "{\"toolUse\":{\"input\":%q}}",
                          said_half(s, half));
        if (s->kind == SAID_THOUGHT && s->form != 1 && s->sign.ptr)
            bedrock_delta(b, a, index, "{\"reasoningContent\":{\"signature\":%q}}", s->sign);
        EVENT(b, a, "{\"contentBlockStop\":{\"contentBlockIndex\":%u}}", index);
    }
    EVENT(b, a, "{\"messageStop\":{\"stopReason\":\"%s\"%s}}", a->stop,
          a->left & LEFT_1 ? BEDROCK_FIELDS : "");
    EVENT(b, a, "{\"metadata\":{\"usage\":{\"inputTokens\":%u,\"outputTokens\":%u}%s}}", a->input,
          a->output, a->left & LEFT_2 ? BEDROCK_TRACE : "");
}


/* ---- Interactions ---- */

static void interactions_step(ms_buf *b, said *s)
{
    s->written = true;
    if (s->kind == SAID_TEXT) {
        out(b, "{\"type\":\"model_output\",\"content\":[{\"type\":\"text\",\"text\":%q}]}",
            s->text);
    } else if (s->kind == SAID_THOUGHT) {
        out(b, "{\"type\":\"thought\"");
        if (s->sign.ptr) out(b, ",\"signature\":%q", s->sign);
        out(b, ",\"summary\":[{\"type\":\"text\",\"text\":%q}]}", s->text);
    } else {
        out(b, "{\"type\":\"function_call\",\"id\":%q,\"name\":%q,\"arguments\":%j}", s->id,
            s->tool, s->text);
    }
}

static void interactions_end(ms_buf *b, const made_answer *a)
{
    out(b, "\"object\":\"interaction\",\"id\":\"%s\",\"model\":\"m-1\",\"status\":\"%s\","
           "\"usage\":{\"total_input_tokens\":%u,\"total_output_tokens\":%u}}",
        a->id, a->stop, a->input, a->output);
}

static void interactions_body(ms_buf *b, made_answer *a)
{
    out(b, "{\"steps\":[");
    for (size_t i = 0; i < a->n; i++) {
        said *s = &a->parts[i];
        if (i > 0) out(b, ",");
        if (s->kind == SAID_OTHER) out(b, "%j,%j", s->blocks[0], s->blocks[1]);
        else interactions_step(b, s);
    }
    out(b, "],");
    interactions_end(b, a);
}

static void interactions_stream(ms_buf *b, made_answer *a)
{
    unsigned index = 0;
    EVENT(b, a, "{\"interaction\":{\"id\":\"%s\",\"object\":\"interaction\",\"model\":\"m-1\","
                "\"status\":\"in_progress\"},\"event_type\":\"interaction.created\"}", a->id);
    for (size_t i = 0; i < a->n; i++, index++) {
        said *s = &a->parts[i];
        if (s->kind == SAID_OTHER) {
            for (unsigned k = 0; k < 2; k++) {
                EVENT(b, a, "{\"index\":%u,\"step\":%j,\"event_type\":\"step.start\"}",
                      index + k, s->blocks[k]);
                EVENT(b, a, "{\"index\":%u,\"event_type\":\"step.stop\"}", index + k);
            }
            index++;
            continue;
        }
        event_begin(b, a);
        out(b, "{\"index\":%u,\"step\":{\"type\":", index);
        if (s->kind == SAID_CALL)
            out(b, "\"function_call\",\"id\":%q,\"name\":%q,\"arguments\":{}", s->id, s->tool);
        else
            out(b, "\"%s\"", s->kind == SAID_TEXT ? "model_output" : "thought");
        out(b, "},\"event_type\":\"step.start\"}");
        event_end(b, a);
        for (int half = 0; half < 2; half++)
            EVENT(b, a, s->kind == SAID_TEXT
                        ? "{\"index\":%u,\"delta\":{\"type\":\"text\",\"text\":%q},"
                          "\"event_type\":\"step.delta\"}"
                        : s->kind == SAID_THOUGHT
                        ? "{\"index\":%u,\"delta\":{\"type\":\"thought_summary\",\"content\":{"
                          "\"type\":\"text\",\"text\":%q}},\"event_type\":\"step.delta\"}"
                        : "{\"index\":%u,\"delta\":{\"type\":\"arguments_delta\","
                          "\"arguments\":%q},\"event_type\":\"step.delta\"}",
                  index, said_half(s, half));
        if (s->kind == SAID_THOUGHT && s->sign.ptr)
            EVENT(b, a, "{\"index\":%u,\"delta\":{\"type\":\"thought_signature\",\"signature\":"
                        "%q},\"event_type\":\"step.delta\"}", index, s->sign);
        EVENT(b, a, "{\"index\":%u,\"event_type\":\"step.stop\"}", index);
    }
    event_begin(b, a);
    out(b, "{\"event_type\":\"interaction.completed\",\"interaction\":{");
    interactions_end(b, a);
    out(b, "}");
    event_end(b, a);
}


/* ---- cohere ---- */

static void cohere_content(ms_buf *b, said *s, ms_str text)
{
    bool thinks = s->kind == SAID_THOUGHT;
    s->written = true;
    out(b, "{\"type\":\"%s\",\"%s\":%q}", thinks ? "thinking" : "text",
        thinks ? "thinking" : "text", text);
}

static void cohere_call(ms_buf *b, said *s, ms_str args)
{
    s->written = true;
    out(b, "{\"id\":%q,\"type\":\"function\",\"function\":{\"name\":%q,\"arguments\":%q}}",
        s->id, s->tool, args);
}

/* Returns whether it is the plan of the calls. */
static bool cohere_plans(made_answer *a, const said *s)
{
    return s == first_said(a, SAID_THOUGHT) && (s->form & 1);
}

static void cohere_usage(ms_buf *b, const made_answer *a)
{
    out(b, "\"finish_reason\":\"%s\",\"usage\":{\"tokens\":{\"input_tokens\":%u,"
           "\"output_tokens\":%u}}}", a->stop, a->input, a->output);
}

#define COHERE_CITE                                                                    \
    "{\"start\":0,\"end\":1,\"text\":\"a\",\"sources\":[],\"type\":\"TEXT_CONTENT\"}"

static void cohere_body(ms_buf *b, made_answer *a)
{
    said *plan = first_said(a, SAID_THOUGHT);
    unsigned n = 0;
    out(b, "{\"id\":\"%s\",\"message\":{\"role\":\"assistant\"", a->id);
    if (plan != NULL && cohere_plans(a, plan)) {
        out(b, ",\"tool_plan\":%q", plan->text);
        plan->written = true;
    }
    for (size_t i = 0; i < a->n; i++) {
        said *s = &a->parts[i];
        if (s->kind >= SAID_CALL || cohere_plans(a, s)) continue;
        out(b, n++ == 0 ? ",\"content\":[" : ",");
        cohere_content(b, s, s->text);
    }
    if (n > 0) out(b, "]");
    n = 0;
    for (size_t i = 0; i < a->n; i++) {
        if (a->parts[i].kind != SAID_CALL) continue;
        out(b, n++ == 0 ? ",\"tool_calls\":[" : ",");
        cohere_call(b, &a->parts[i], a->parts[i].text);
    }
    out(b, "%s", n > 0 ? "]" : "");
    out_left(b, a, LEFT_1, ",\"citations\":[" COHERE_CITE "," COHERE_CITE "]");
    out_left(b, a, LEFT_2, ",\"future\":{\"x\":1}");
    out(b, "},");
    out_left(b, a, LEFT_3, "\"logprobs\":[{\"token_ids\":[1]},{\"token_ids\":[2]}],");
    cohere_usage(b, a);
}

static void cohere_stream(ms_buf *b, made_answer *a)
{
    said *plan = first_said(a, SAID_THOUGHT);
    unsigned n = 0;
    EVENT(b, a, "{\"id\":\"%s\",\"type\":\"message-start\",\"delta\":{\"message\":{\"role\":"
                "\"assistant\",\"content\":[],\"tool_plan\":\"\",\"tool_calls\":[]}}}", a->id);
    for (int half = 0; half < 2 && plan != NULL && cohere_plans(a, plan); half++)
        EVENT(b, a, "{\"type\":\"tool-plan-delta\",\"delta\":{\"message\":{\"tool_plan\":%q}}}",
              said_half(plan, half));
    for (size_t i = 0; i < a->n; i++) {
        said *s = &a->parts[i];
        if (s->kind >= SAID_CALL || cohere_plans(a, s)) continue;
        for (int half = 0; half < 2; half++) {
            event_begin(b, a);
            out(b, "{\"type\":\"content-%s\",\"index\":%u,\"delta\":{\"message\":{"
                   "\"content\":", half ? "delta" : "start", n);
            cohere_content(b, s, said_half(s, half));
            out(b, "}}}");
            event_end(b, a);
        }
        n++;
    }
    n = 0;
    for (unsigned i = 0; (a->left & LEFT_1) && i < 2; i++) {
        EVENT(b, a, "{\"type\":\"citation-start\",\"index\":%u,\"delta\":{\"message\":{"
                    "\"citations\":" COHERE_CITE "}}}", i);
        EVENT(b, a, "{\"type\":\"citation-end\",\"index\":%u}", i);
    }
    if (a->left & LEFT_2)
        EVENT(b, a, "{\"type\":\"future-delta\",\"delta\":{\"message\":{\"future\":{\"x\":1}}}}");
    for (unsigned i = 1; (a->left & LEFT_3) && i <= 2; i++)
        EVENT(b, a, "{\"type\":\"content-delta\",\"index\":0,\"delta\":{\"message\":{\"content\":{"
                    "\"text\":\"\"}}},\"logprobs\":{\"token_ids\":[%u]}}", i);
    for (size_t i = 0; i < a->n; i++) {
        if (a->parts[i].kind != SAID_CALL) continue;
        event_begin(b, a);
        out(b, "{\"type\":\"tool-call-start\",\"index\":%u,\"delta\":{\"message\":{"
               "\"tool_calls\":", n);
        cohere_call(b, &a->parts[i], said_half(&a->parts[i], false));
        out(b, "}}}");
        event_end(b, a);
        EVENT(b, a, "{\"type\":\"tool-call-delta\",\"index\":%u,\"delta\":{\"message\":{"
                    "\"tool_calls\":{\"function\":{\"arguments\":%q}}}}}", n++,
              said_half(&a->parts[i], true));
    }
    event_begin(b, a);
    out(b, "{\"type\":\"message-end\",\"delta\":{");
    cohere_usage(b, a);
    out(b, "}");
    event_end(b, a);
}


/* ---- all of them ---- */

/* In the order of ms_wire. */
static const struct answer_wire {
    void (*body)(ms_buf *b, made_answer *a);
    void (*stream)(ms_buf *b, made_answer *a);
    const char *stops[4];   /* the last one: the answer was cut off */
    const char *others[4];  /* two pairs of blocks, with a number; NULL: none */
    unsigned left;          /* the bits for which it writes a member that is not stored */
} answer_wires[] = {
    [MS_WIRE_CHAT] = {chat_body, chat_stream,
                        {"stop", "tool_calls", "content_filtered_not", "length"},
                        {NULL, NULL, NULL, NULL}, LEFT_ALL},
    [MS_WIRE_OLLAMA] = {ollama_body, ollama_stream, {"stop", "load", "stop", "length"},
                        {NULL, NULL, NULL, NULL}, LEFT_ALL},
    [MS_WIRE_ANTHROPIC] = {
        anthropic_body, anthropic_stream,
        {"end_turn", "tool_use", "pause_turn", "max_tokens"},
        {"{\"type\":\"server_tool_use\",\"id\":\"srvtoolu_%u\",\"name\":\"web_search\","
         "\"input\":{\"query\":\"q \\u00e9\"}}",
         "{\"type\":\"web_search_tool_result\",\"tool_use_id\":\"srvtoolu_%u\",\"content\":"
         "[{\"type\":\"web_search_result\",\"url\":\"https://x\",\"title\":\"X\","
         "\"encrypted_content\":\"enc\"}]}",
         "{\"type\":\"mcp_tool_use\",\"id\":\"mcptoolu_%u\",\"name\":\"f\",\"server_name\":"
         "\"s\",\"input\":{\"x\":[1,2.50e1]}}",
         "{\"type\":\"mcp_tool_result\",\"tool_use_id\":\"mcptoolu_%u\",\"is_error\":false,"
         "\"content\":[{\"type\":\"text\",\"text\":\"t\"}]}"}, LEFT_ALL},
    [MS_WIRE_GEMINI] = {
        gemini_body, gemini_stream, {"STOP", "STOP", "FINISH_REASON_UNSPECIFIED", "OTHER"},
        {"{\"executableCode\":{\"language\":\"PYTHON\",\"code\":\"print(%u)\"}}",
         "{\"codeExecutionResult\":{\"outcome\":\"OUTCOME_OK\",\"output\":\"%u\"}}",
         "{\"toolCall\":{\"id\":\"t%u\",\"toolType\":\"X\",\"args\":{}}}",
         "{\"toolResponse\":{\"id\":\"t%u\",\"toolType\":\"X\",\"response\":{}},"
         "\"thoughtSignature\":\"c2ln\"}"}, LEFT_ALL},
    [MS_WIRE_PYDANTIC] = {NULL, NULL, {"", "", "", ""}, {NULL, NULL, NULL, NULL}, 0},
    [MS_WIRE_RESPONSES] = {
        responses_body, responses_stream,
        {"completed", "completed", "completed", "max_output_tokens"},
        {"{\"type\":\"web_search_call\",\"id\":\"ws_%u\",\"status\":\"completed\",\"action\":{"
         "\"type\":\"search\",\"query\":\"q\"}}",
         "{\"type\":\"mcp_list_tools\",\"id\":\"mcpl_%u\",\"server_label\":\"s\",\"tools\":[]}",
         "{\"type\":\"code_interpreter_call\",\"id\":\"ci_%u\",\"status\":\"completed\","
         "\"code\":\"1 \\u2028\",\"container_id\":\"c\",\"outputs\":[]}",
         "{\"type\":\"future_item\",\"marker\":%u,\"x\":2.50e1}"}, 0},
    [MS_WIRE_BEDROCK] = {
        bedrock_body, bedrock_stream,
        {"end_turn", "tool_use", "stop_sequence", "max_tokens"},
        {"{\"toolUse\":{\"toolUseId\":\"s%u\",\"name\":\"nova_grounding\",\"type\":"
         "\"server_tool_use\",\"input\":{}}}",
         "{\"toolResult\":{\"toolUseId\":\"s%u\",\"type\":\"nova_grounding_result\",\"status\":"
         "\"success\",\"content\":[{\"text\":\"x\"}]}}",
         "{\"citationsContent\":{\"content\":[{\"text\":\"c%u\"}],\"citations\":[]}}",
         "{\"citationsContent\":{\"content\":[{\"text\":\"d%u\"}],\"citations\":[]}}"},
        LEFT_1 | LEFT_2},
    [MS_WIRE_INTERACTIONS] = {
        interactions_body, interactions_stream,
        {"completed", "requires_action", "completed", "incomplete"},
        {"{\"type\":\"google_search_call\",\"id\":\"gs%u\",\"arguments\":{\"queries\":[\"a\"]}}",
         "{\"type\":\"google_search_result\",\"call_id\":\"gs%u\",\"result\":[{"
         "\"search_suggestions\":\"<p>\"}]}",
         "{\"type\":\"future_call\",\"id\":\"x%u\",\"x\":[1,2.50e1]}",
         "{\"type\":\"future_step\",\"marker\":%u}"}, 0},
    [MS_WIRE_COHERE] = {cohere_body, cohere_stream,
                        {"COMPLETE", "TOOL_CALL", "STOP_SEQUENCE", "length"},
                        {NULL, NULL, NULL, NULL}, LEFT_ALL},
};

/* A call's name, id and arguments. */
static void said_call(fuzz_input *in, said *s)
{
    static const char *const tools[] = {"f", "g", "weather", "a_b-2"};
    static const char *const args[] = {"{}", "{\"q\":1}", "{\"a\":{\"b\":[1,\"x\"]}}",
                                       "{\"p\":\"\xC3\xA9\"}"};
    static const char *const ids[] = {"call_1", "call_2", "call_3", "call_4"};
    s->tool = ms_str_of(tools[fuzz_below(in, 4)]);
    s->text = ms_str_of(args[fuzz_below(in, 4)]);
    s->id = ms_str_of(ids[fuzz_below(in, 4)]);
}

static said said_of(fuzz_input *in, const struct answer_wire *wire)
{
    said s;
    unsigned bits = fuzz_u8(in);
    memset(&s, 0, sizeof s);
    s.text = MS_STR("");
    s.kind = (said_kind)(bits & 3);
    s.form = bits >> 2 & 3;
    s.cut = bits >> 4 & 7;
    if (bits & 128) s.sign = MS_STR("c2ln");
    if (s.kind == SAID_OTHER && wire->others[0] == NULL) s.kind = SAID_TEXT;
    if (s.kind == SAID_CALL) {
        said_call(in, &s);
    } else if (s.kind == SAID_OTHER) {
        others_made++;
        for (unsigned k = 0; k < 2; k++) {
            ms_buf b = {&arena, NULL, 0, 0};
            out(&b, wire->others[2 * (s.form & 1) + k], others_made);
            s.blocks[k] = ms_buf_text(&b);
        }
    } else {
        s.text = said_text(in, 24);
    }
    return s;
}

static made_answer answer_of(fuzz_input *in, const ms_profile *profile)
{
    static const char *const ids[] = {"resp_1", "resp_2", "resp_3", "resp_1"};
    const struct answer_wire *wire = &answer_wires[profile->wire];
    made_answer a;
    unsigned bits = fuzz_u8(in);
    memset(&a, 0, sizeof a);
    answers_made++;
    a.profile = profile;
    a.n = (bits & 3) == 3 ? MOST_SAID : bits & 3;
    a.cut_off = (bits >> 2 & 7) == 7;
    a.stop = wire->stops[a.cut_off ? 3 : (bits >> 2) % 3];
    a.id = ids[bits >> 5 & 3];
    a.repeats = (bits & 128) != 0;
    bits = fuzz_u8(in);
    a.frame = bits & 3;
    a.input = bits >> 2 & 7;
    a.output = bits >> 5 & 7;
    a.left = a.output & wire->left;
    for (size_t i = 0; i < a.n; i++) {
        a.parts[i] = said_of(in, wire);
        /* gemini's stream does not tell where one text ends and the next one begins */
        if (i > 0 && profile->wire == MS_WIRE_GEMINI && a.parts[i].kind <= SAID_THOUGHT &&
            a.parts[i].kind == a.parts[i - 1].kind)
            a.parts[i - 1].sign = ms_str_of(NULL);
    }
    return a;
}

#endif /* FUZZ_ANSWER_H */
