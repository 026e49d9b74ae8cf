/* The operations of the vectors about task messages. Taken in by test_conformance.c
 * behind its own helpers; rows for `operations` there:
 *
 *     {"validate_content", op_validate_content},
 *     {"accumulate_deltas", op_accumulate_deltas},
 *     {"merge_consecutive_deltas", op_merge_consecutive_deltas},
 *     {"to_llm_messages", op_to_llm_messages},
 */

#ifndef CONFORM_TASK_H
#define CONFORM_TASK_H

static const ms_dialect *task_dialect(void)
{
    return ms_dialect_find(MS_STR("task"));
}

/* What was written is "equals", or the error. */
static json_t *task_result(ms_result result, const ms_buf *buf, const ms_error *err)
{
    ms_str text = ms_buf_text(buf);
    if (result != MS_OK) return failure(err);
    return json_pack("{s:o}", "equals", json_parse_n(text.ptr, text.len));
}

/* One message as the format writes it with all its defaults. */
static json_t *task_written(const ms_envelope *m)
{
    ms_writer_opts opts;
    ms_writer w;
    ms_buf buf;
    ms_error err;
    memset(&opts, 0, sizeof opts);
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    opts.defaults = true;
    ms_writer_init(&w, task_dialect(), &opts, &arena, ms_buf_write, &buf);
    ms_result result = ms_writer_put(&w, m, &err);
    if (result == MS_OK) result = ms_writer_finish(&w, &err);
    return task_result(result, &buf, &err);
}

/* An error with the field that it names; the original has a word of its own for a content
 * without a type. */
static json_t *task_refusal(const ms_error *err)
{
    bool untagged = err->code == MS_E_MISSING && strcmp(err->path, "type") == 0;
    const char *field = untagged ? "union_tag_not_found" : err->path;
    return json_pack("{s:s, s:[s]}", "error", err->message, "fields", field);
}

static json_t *op_validate_content(json_t *input)
{
    ms_envelopes list;
    ms_error err;
    ms_str json = json_of(json_object_get(input, "content"));
    ms_result result = ms_read(task_dialect(), json, NULL, &arena, &list, &err);
    return result == MS_OK ? task_written(&list.items[0]) : task_refusal(&err);
}

static json_t *op_accumulate_deltas(json_t *input)
{
    ms_deltas deltas;
    ms_envelope m;
    ms_error err;
    json_t *delta;
    size_t i;
    ms_result result = MS_OK;
    ms_deltas_init(&deltas, &arena);
    json_array_foreach (json_object_get(input, "deltas"), i, delta) {
        if (result == MS_OK) result = ms_deltas_put(&deltas, json_of(delta), &err);
    }
    if (result == MS_OK) result = ms_deltas_finish(&deltas, &m, &err);
    return result == MS_OK ? task_written(&m) : failure(&err);
}

/* A writer into a fresh buffer. */
static void task_begin(ms_json_writer *w, ms_buf *buf)
{
    memset(buf, 0, sizeof *buf);
    buf->arena = &arena;
    ms_json_init(w, ms_buf_write, buf, false);
}

static json_t *op_merge_consecutive_deltas(json_t *input)
{
    ms_json_writer w;
    ms_buf buf;
    ms_error err;
    task_begin(&w, &buf);
    ms_str list = json_of(json_object_get(input, "deltas"));
    ms_result result = ms_deltas_merge(list, &w, &err);
    if (result == MS_OK) result = ms_json_finish(&w);
    return task_result(result, &buf, &err);
}

static json_t *op_to_llm_messages(json_t *input)
{
    ms_json_writer w;
    ms_envelopes list;
    ms_buf buf;
    ms_error err;
    task_begin(&w, &buf);
    ms_str contents = json_of(json_object_get(input, "contents"));
    ms_result result = ms_read_list(task_dialect(), contents, NULL, &arena, &list, &err);
    if (result == MS_OK)
        result = ms_task_convert(list.items, list.count, NULL, &arena, &w, &err);
    if (result == MS_OK) result = ms_json_finish(&w);
    return task_result(result, &buf, &err);
}

#endif
