/* The rules of model providers for a list of messages, as a linter.
 *
 *     ms_arena arena = {0};
 *     int n = lint_request("anthropic", json, &arena, print_line, stdout);
 *     ms_arena_deinit(&arena);
 *
 * It finds all that a provider would refuse in a request. Each finding has its path,
 * what was found and what is expected. The text of a request is:
 *
 *     openai, chat-strict, ollama, pydantic-ai   [message, ...]
 *     anthropic    {"system": text or text blocks, "messages": [...]}
 *     gemini       {"systemInstruction": {"parts": [...]}, "contents": [...]}
 *     openai-responses   [item, ...], or {"instructions": text, "input": [...]} with
 *                  store (false if it is missing) and previous_response_id
 *     bedrock      {"system": [blocks], "messages": [...]}, or the whole request
 *     gemini-interactions
 *                  {"system_instruction": text, "input": [steps]}, or the whole request
 *
 * The system text is optional. chat-strict is the sum of what servers with openai's
 * format and their templates demand.
 *
 * There are three steps. First the shape of each message is compared with tables: a
 * lint_member is a member of an object, a lint_shape the members of one kind of object,
 * a lint_choice the kinds of object that can stand somewhere. Then functions look at
 * calls, results and the order of messages. They skip messages of a wrong shape, which
 * are reported already. At last the findings are sorted by their places in the text.
 * The time grows with the text and, for the sorting, with n log n of the findings. The
 * linter uses the public interface of msgstore.h alone. */

#ifndef LINT_H
#define LINT_H

#include "../msgstore.h"


/* ---- all of them ---- */

/* Checks a request by the rules of that provider. Calls report(ctx, path, text) for
 * each violation, in the order of the text. Returns their number; -1: no such provider;
 * -2: no memory, and nothing was reported. json must have passed ms_json_check. Paths
 * and texts last as long as the memory of the arena. */
int lint_request(const char *provider, ms_str json, ms_arena *arena,
                 void (*report)(void *ctx, const char *path, const char *text),
                 void *ctx);

/* Returns the names of the members of a body that the rules of a provider look at, NULL
 * after the last. The last one is the list: where it is the only one, a request is the
 * list itself. NULL: no such provider. */
const char *const *lint_members_of(const char *provider);

/* Returns whether the rules of a provider look at all members of a body, also at those
 * that lint_members_of does not name, so that lint_request takes the body as it is. */
bool lint_reads_body(const char *provider);

#endif /* LINT_H */
