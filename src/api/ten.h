
/* ==== [api-ten] the ten calls ========================================================
 * A store holds messages, numbered from 1 on: that number is a message's seq. A location
 * is one conversation or job. An agent key names the agent that wrote a message. These
 * ten calls are enough for an agent:
 *
 *   ms_log_open(&store, &log, &err)             opens the file log.path, or creates it
 *   ms_append(store, location, &m, &seq, &err)  stores a message; seq may be NULL
 *   ms_memory_init(&me, store, location, key)   names the agent that reads
 *   ms_request(&ask, write, ctx, NULL, &err)    writes the next request to a model
 *   ms_answer(&ask, body, &answered, &err)      stores the response to it
 *   ms_query_open(store, &query, &it, &err)     begins to read messages of a location
 *   ms_get_history(&me, &it, &err)              begins to read what the agent should see
 *   ms_next(&it)                                returns the next message; NULL: no more
 *   ms_cursor_close(&it, &err)                  ends reading; returns the first failure
 *   ms_close(store)                             closes the store
 *
 * Structs that a caller fills are zeroed first: 0 is the default of each member. (Write
 * `= {0}` in C, `= {}` in C++. Here they are static, which zeroes them in both, once: do
 * not do so in functions that are called again or by several threads. ms_memory_init
 * zeroes its own.) A call returns MS_OK, or another code and a sentence in err.message. A
 * string is a pointer and a length (ptr, len), without a NUL. A value is a string
 * (value.text) that is text or JSON. Small functions make and read what the calls take
 * and return:
 *
 *   a string              MS_STR("literal"), ms_str_of(pointer), ms_str_n(pointer, len)
 *   a value               ms_text("hello"), ms_json(MS_STR("{}"))
 *   a message to append   ms_user_message, ms_assistant_message, ms_message(type, value)
 *   a tool call           ms_action;  its result: ms_observation
 *   calls to run          ms_pending: those without a result
 *   a stored message      ms_type_of, ms_content, ms_get(msg, MS_F_CALL_ID), ms_seq
 *   a provider            ms_profile_find: "openai", "anthropic", "gemini", "ollama"
 *   JSON, as arguments    ms_json_member, ms_json_string, ms_json_i64, see [api-json]
 *   a growing text        ms_buf, ms_buf_write, ms_buf_text
 *
 * A complete agent:
 *
 *     #define MSGSTORE_IMPLEMENTATION
 *     #include "msgstore.h"
 *     #include <stdio.h>
 *
 *     // Your program sends the body by HTTP, and returns what comes back.
 *     static ms_str post(ms_str body)
 *     {
 *         static int n;
 *         (void)body;
 *         return n++ == 0
 *             ? MS_STR("{\"choices\":[{\"message\":{\"tool_calls\":[{\"id\":\"call_1\","
 *                      "\"function\":{\"name\":\"weather\",\"arguments\":\"{}\"}}]}}]}")
 *             : MS_STR("{\"choices\":[{\"message\":{\"content\":\"It will rain.\"}}]}");
 *     }
 *
 *     // Runs the tool calls that have no result, and appends the result of each.
 *     static ms_result run_calls(const ms_request_desc *ask, ms_arena *arena,
 *                                ms_calls *calls, ms_error *err)
 *     {
 *         ms_result code = ms_pending(ask, arena, calls, err);
 *         for (size_t i = 0; code == MS_OK && i < calls->count; i++) {
 *             // A call also has the tool and its arguments.
 *             ms_str id = calls->items[i].id;
 *             ms_envelope result = ms_observation(ms_text("rain, 90 %"), id);
 *             code = ms_memory_add(ask->memory, &result, NULL, err);
 *         }
 *         return code;
 *     }
 *
 *     int main(void)
 *     {
 *         ms_store *store;
 *         ms_error err;
 *         static ms_log_desc log;
 *         log.path = "agent.msl";
 *         if (ms_log_open(&store, &log, &err) != MS_OK) return puts(err.message), 1;
 *
 *         ms_memory me;
 *         ms_memory_init(&me, store, MS_STR("chat_1"), MS_STR("forecaster"));
 *         me.timeline = true; // messages in their order
 *         ms_envelope question = ms_user_message(ms_text("Will it rain?"));
 *         if (ms_append(store, me.location, &question, NULL, &err) != MS_OK)
 *             return puts(err.message), 1;
 *
 *         static ms_request_desc ask;
 *         ask.memory = &me;
 *         ask.profile = ms_profile_find(MS_STR("openai"));
 *         ask.opts.model = MS_STR("gpt-5");
 *         ask.opts.newest = 100; // at most the newest 100 messages
 *         ask.tools = MS_STR("[{\"type\":\"function\",\"function\":"
 *                            "{\"name\":\"weather\"}}]");
 *         static ms_arena arena;
 *         static ms_buf body;
 *         ms_calls calls;
 *         body.arena = &arena;
 *         do {
 *             body.len = 0;
 *             if (ms_request(&ask, ms_buf_write, &body, NULL, &err) != MS_OK ||
 *                 ms_answer(&ask, post(ms_buf_text(&body)), NULL, &err) != MS_OK ||
 *                 run_calls(&ask, &arena, &calls, &err) != MS_OK)
 *                 return puts(err.message), 1;
 *         } while (calls.count > 0);
 *
 *         ms_cursor it;
 *         const ms_msg *msg;
 *         if (ms_get_history(&me, &it, &err) != MS_OK) return puts(err.message), 1;
 *         while ((msg = ms_next(&it)) != NULL) {
 *             ms_str word = ms_type_name(msg), text = ms_content(msg).text;
 *             if (ms_type_of(msg) == MS_T_ACTION) text = ms_get(msg, MS_F_TOOL).text;
 *             printf("%.*s: %.*s\n", (int)word.len, word.ptr, (int)text.len, text.ptr);
 *         }
 *         if (ms_cursor_close(&it, &err) != MS_OK) return puts(err.message), 1;
 *         ms_arena_deinit(&arena);
 *         ms_close(store);
 *         return 0;
 *     }
 *
 * The first run prints "user_message: Will it rain?", "action: weather",
 * "observation: rain, 90 %" and "assistant_message: It will rain.". After a kill, run it
 * again: the messages are in the file, and ms_request writes a result for a call that
 * never had one.
 *
 *   in memory only              ms_mem_open instead of ms_log_open, see [api-mem]
 *   the response is a stream    ms_answer_begin, feed, end, see [api-request]
 *   other agents in one chat    each has a key and an ms_memory of its own, [api-memory]
 *   several messages at once    ms_append_batch, see [api-store]
 *   undo, edit, or branch off   ms_rewind, ms_amend, ms_fork, see [api-change]
 *
 * The sections from here to [api-request] have these calls and their structs, the next
 * ones further calls. A title with [expert] marks what few programs need: JSON, encoded
 * records, images, stores of your own, rules of a new provider, private members. */
