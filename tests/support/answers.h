/* Responses of providers, as their SDKs' types have them: whole bodies, and streams of
 * the same answer. A row of tests/tables/answers.jsonl is a text, thinking where the
 * provider has it, and calls. test_answer feeds them, and tests/platform/sdk asks the
 * SDKs whether they are right. */

#ifndef ANSWERS_H
#define ANSWERS_H

#include "table.h"

typedef struct answer_case {
    const char *name, *provider, *model;
    const char *body;      /* a whole response */
    const char *stream;    /* the same in parts; NULL: none */
    const char *sent;      /* what a request has of it, with thinking switched on and with
                              results of its calls */
    unsigned messages, calls;
    unsigned left_out;     /* names of members that are not stored */
    unsigned input, output; /* tokens */
    const char *stop;
} answer_case;

static table_row answer_rows[40];
static answer_case provider_answers[40];
static size_t answer_count;

static inline char *answer_spelled(const table_row *r, const char *member)
{
    ms_str text = row_spelled(r, member);
    return strndup(text.ptr, text.len);
}

static inline void load_answers(void)
{
    answer_count = load_table("tests/tables/answers.jsonl", "", answer_rows,
                              COUNT(answer_rows));
    for (size_t i = 0; i < answer_count; i++) {
        const table_row *r = &answer_rows[i];
        answer_case *c = &provider_answers[i];
        c->name = r->name;
        c->provider = row_text(r, "provider");
        c->model = row_text(r, "model");
        c->body = answer_spelled(r, "body");
        c->stream = row_text(r, "stream");
        char *sent = answer_spelled(r, "sent");
        if (sent[0] == '[') { /* items, not one message */
            memmove(sent, sent + 1, strlen(sent));
            sent[strlen(sent) - 1] = '\0';
        }
        c->sent = sent;
        c->messages = (unsigned)row_number(r, "messages");
        c->calls = (unsigned)row_number(r, "calls");
        c->left_out = (unsigned)row_number(r, "left_out");
        c->input = (unsigned)row_number(r, "input");
        c->output = (unsigned)row_number(r, "output");
        c->stop = row_text(r, "stop");
    }
}

#endif /* ANSWERS_H */
