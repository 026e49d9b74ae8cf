/* aider: .aider.chat.history.md. A session begins with "# aider chat started at DATE".
 * Lines of the user begin with "#### ", lines of the program with "> "; all others are
 * the model's. A line "#### " of the user ends with two blanks. In files without such
 * lines a "#### " in a fence, or after text of the model, is a heading of the model. */

#define _GNU_SOURCE
#include "read.h"

#include <stdio.h>
#include <string.h>

static const char start[] = "# aider chat started at ";

static bool aider_shows(ms_str text)
{
    while (text.len > 0 && (text.ptr[0] == '\n' || text.ptr[0] == '\r')) {
        text = ms_str_n(text.ptr + 1, text.len - 1);
    }
    return text_begins(text, ms_str_of(start));
}

typedef enum voice { NOBODY, USER, PROGRAM, MODEL } voice;

typedef struct chat {
    reading *r;
    voice speaks;
    ms_buf buf;               /* its text so far */
    bool fence;
    bool marked;         /* lines of the user end with two blanks, as aider writes them */
    bool answered;            /* the model has answered, so usage can be noted */
    ms_envelope time;         /* of the session */
} chat;

/* Returns a number of "> Tokens: 5,244 sent, 604 received. Cost: $0.02 message, ..." */
static uint64_t aider_number(const char *at)
{
    const double most = 9007199254740992; /* larger numbers are no counts */
    double number = 0, unit = 1, place = 0;
    for (; (*at >= '0' && *at <= '9') || *at == ',' || *at == '.'; at++) {
        if (*at == ',') continue;
        if (*at == '.') {
            place = 1;
            continue;
        }
        number = number * 10 + (*at - '0');
        if (place > 0) place *= 10;
    }
    if (*at == 'k') unit = 1000;
    if (*at == 'M') unit = 1000000;
    number = number / (place > 0 ? place : 1) * unit + 0.5;
    return (uint64_t)(number < most ? number : most); /* also if it is no number */
}

static void take_tokens(chat *c, ms_str text)
{
    char line[256];
    use u;
    memset(&u, 0, sizeof u);
    snprintf(line, sizeof line, "%.*s", (int)(text.len < 250 ? text.len : 250), text.ptr);
    if (strncmp(line, "Tokens: ", 8) != 0) return;
    const char *received = strstr(line, "sent, "), *cost = strstr(line, "Cost: $");
    const char *hit = strstr(line, " cache hit");
    u.input = aider_number(line + 8);
    while (received != NULL && strstr(received + 6, ", ") != NULL &&
           strstr(received + 6, ", ") < strstr(received, " received")) {
        received = strstr(received + 6, ", ") - 4;
    }
    if (received != NULL) u.output = aider_number(received + 6);
    while (hit != NULL && hit > line && hit[-1] != ' ') hit--;
    if (hit != NULL) u.cached = aider_number(hit);
    if (cost != NULL) u.cost = strtod(cost + 7, NULL);
    u.model = c->r->model;
    if (c->answered) trace_use(c->r->t, &u);
    else if (!is_no_use(&u)) {
        trace_incomplete(c->r->t, MS_STR("usage without an answer"));
    }
}

static void aider_flush(chat *c)
{
    ms_str none = {NULL, 0};
    ms_str text = ms_buf_text(&c->buf);
    while (text.len > 0 && (unsigned char)text.ptr[text.len - 1] <= ' ') text.len--;
    while (text.len > 0 && (text.ptr[0] == '\n' || text.ptr[0] == '\r')) {
        text = ms_str_n(text.ptr + 1, text.len - 1);
    }
    if (text.len > 0 && c->speaks != NOBODY) {
        ms_envelope m = c->speaks == USER    ? ms_user_message(ms_text_n(text))
                        : c->speaks == MODEL ? ms_assistant_message(ms_text_n(text))
                                             : other_message(MS_STR("aider:output"),
                                                             ms_text_n(text));
        m.has_time = c->time.has_time;
        m.time_ns = c->time.time_ns;
        if (c->speaks == USER) note_prompt_text(c->r, text);
        if (c->speaks == MODEL) c->answered = true;
        trace_put(c->r->t, &m);
    }
    c->speaks = NOBODY;
    trace_entry(c->r->t, none, none, 0);
    memset(&c->buf, 0, sizeof c->buf);
    c->buf.arena = trace_arena(c->r->t);
}

static void aider_session(chat *c, ms_str date)
{
    char name[64], when[64];
    aider_flush(c);
    while (date.len > 0 && (unsigned char)date.ptr[date.len - 1] <= ' ') date.len--;
    if (!ms_utf8_check(date, NULL)) date = text_repaired(date, trace_arena(c->r->t));
    size_t most = 40;
    while (most > 0 && most < date.len && (date.ptr[most] & 0xc0) == 0x80) most--;
    int len = (int)(date.len < most ? date.len : most);
    int n = snprintf(name, sizeof name, "aider-%.*s", len, date.ptr);
    for (int i = 0; i < n; i++) name[i] = name[i] == ' ' ? 'T' : name[i];
    trace_new_session(c->r->t, ms_str_n(name, (size_t)n));
    trace_fact(c->r->t, "agent", MS_STR("aider"));
    const char *slash = strrchr(c->r->path, '/');
    if (slash != NULL) {
        trace_fact(c->r->t, "cwd", ms_str_n(c->r->path, (size_t)(slash - c->r->path)));
    }
    n = snprintf(when, sizeof when, "%.*s", len, date.ptr);
    c->time.has_time = ms_iso_read(ms_str_n(when, (size_t)n), &c->time.time_ns) == MS_OK;
    c->fence = false;
    c->answered = false;
}

/* Reads "Model: gpt-4o with diff edit format", "Models: claude with ..." */
static void take_model(chat *c, ms_str text)
{
    static const char *const begins[] = {"Model: ", "Models: ", "Main model: "};
    for (size_t i = 0; i < COUNT_OF(begins); i++) {
        if (!text_begins(text, ms_str_of(begins[i]))) continue;
        ms_str name = ms_str_n(text.ptr + strlen(begins[i]),
                               text.len - strlen(begins[i]));
        size_t len = 0;
        while (len < name.len && name.ptr[len] != ' ') len++;
        c->r->model = ms_str_n(name.ptr, len);
        trace_fact(c->r->t, "model", c->r->model);
    }
}

static void aider_line(chat *c, ms_str line)
{
    voice speaks = MODEL;
    ms_str text = line;
    bool heading = text_begins(line, MS_STR("#### "));
    if (text_begins(line, MS_STR("```"))) c->fence = !c->fence;
    bool ends = line.len > 2 && memcmp(line.ptr + line.len - 2, "  ", 2) == 0;
    if (heading && (c->marked ? ends : !c->fence && c->speaks != MODEL)) {
        speaks = USER;
        c->fence = false; /* an answer that was interrupted may leave one open */
    }
    if (!c->fence && line.len > 0 && line.ptr[0] == '>') speaks = PROGRAM;
    if (speaks == USER) text = ms_str_n(line.ptr + 5, line.len - 5);
    if (speaks == PROGRAM) {
        size_t skip = line.len > 1 && line.ptr[1] == ' ' ? 2 : 1;
        text = ms_str_n(line.ptr + skip, line.len - skip);
    }
    while (speaks != MODEL && text.len > 0 && text.ptr[text.len - 1] == ' ') text.len--;
    bool empty = line.len == 0;
    if (empty && c->speaks != MODEL) speaks = c->speaks;
    if (speaks != c->speaks) aider_flush(c);
    c->speaks = speaks;
    if (speaks == PROGRAM) {
        take_model(c, text);
        take_tokens(c, text);
    }
    ms_buf_write(&c->buf, text.ptr, text.len);
    json_piece(&c->buf, "\n");
}

/* Returns whether a line "#### ..." ends with two spaces. */
static bool has_marks(ms_str text)
{
    const char *at = text.ptr, *end = text.ptr + text.len, *found;
    while ((found = find_bytes(at, (size_t)(end - at), "\n#### ", 6)) != NULL) {
        const char *stop = memchr(found + 1, '\n', (size_t)(end - found - 1));
        if (stop == NULL) return false;
        if (stop[-1] == '\r') stop--;
        if (stop[-1] == ' ' && stop[-2] == ' ') return true;
        at = stop;
    }
    return false;
}

static void aider_read(reading *r, ms_str text)
{
    chat c;
    bool whole;
    memset(&c, 0, sizeof c);
    c.r = r;
    c.marked = has_marks(text);
    c.buf.arena = trace_arena(r->t);
    while (text.len > 0 && trace_code(r->t) == FINE) {
        ms_str line = next_line(&text, &whole);
        if (line.len > 0 && line.ptr[line.len - 1] == '\r') line.len--;
        if (text_begins(line, ms_str_of(start))) {
            aider_session(&c, ms_str_n(line.ptr + sizeof start - 1,
                                       line.len - sizeof start + 1));
        } else {
            aider_line(&c, line);
        }
    }
    aider_flush(&c);
}

const fileformat aider_format = {
    "aider", "aider", "0.47", "", FILE_TEXT, TREE_NONE, aider_shows, aider_read, NULL,
};
