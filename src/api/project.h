
/* ==== [api-project] a history that no provider refuses ===============================
 * A provider takes a list of messages only when every call in it has its result, every
 * result has its call, ids and names have its form, and roles come in its order. A stored
 * history often breaks these rules: a window began inside a turn, a run was interrupted,
 * or another provider wrote it. ms_project writes any messages as a list that keeps the
 * rules, and changes as little as it can; [project] has each step. ms_request, which
 * stands on it, writes the whole body of a request.
 *
 *     ms_request_desc desc = {0};                       // no window: everything
 *     desc.profile = ms_profile_find(MS_STR("anthropic"));
 *     desc.opts.newest = 40;
 *     desc.cursor = &it;                                // a cursor of ms_query_open
 *     desc.arena = &arena;
 *     ms_project(&desc, ms_buf_write, &buf, &report, &err);
 *
 * The same input makes the same bytes. A list that is projected, read and projected
 * again is the same. While the window's start stays, more messages only change the end
 * of the list, from the turn that they belong to, so that a provider's prompt cache
 * holds. The messages must come in order of sequence (a timeline), not in blocks.
 * Pictures are sent where the provider takes them, by data and by URL; another part of a
 * list becomes its name: "[file left out]". */

/* An estimate of tokens: letters of prose count a quarter, of JSON a third, of other
 * alphabets a half, Chinese, Japanese and Korean characters one. ctx is not used. */
MS_API size_t ms_count_tokens(void *ctx, ms_value text);

/* Reads all messages, then writes an array of messages. desc->arena must be set:
 * MS_E_ARENA. report may be NULL; it is also set on MS_E_TOO_LARGE. MS_E_DAMAGED:
 * messages of the store or the memory were skipped, in the window or before it, and
 * nothing was written (for a cursor of your own, call ms_cursor_close). After any other
 * failure the bytes passed to `write` are incomplete. */
MS_API ms_result ms_project(const ms_request_desc *desc, ms_write_fn write, void *ctx,
                            ms_project_report *report, ms_error *err);
