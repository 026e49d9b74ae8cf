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

/* One message as the format writes it, with the defaults of the original. */
static json_t *task_written(const ms_envelope *m)
{
    ms_writer w;
    ms_buf buf;
    ms_error err;
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    ms_writer_init(&w, task_dialect(), NULL, &arena, ms_buf_write, &buf);
    ms_result result = ms_writer_put(&w, m, &err);
    if (result == MS_OK) result = ms_writer_finish(&w, &err);
    json_t *out = task_result(result, &buf, &err), *content = json_object_get(out, "equals");
    json_t *defaults = json_pack("{s:s}", "style", "static");
    if (strcmp(word_of(content, "type"), "text") == 0)
        json_object_set_new(defaults, "format", json_string("plain"));
    json_object_update_missing(content, defaults);
    json_decref(defaults);
    return out;
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

/* What the deltas make is a content that the format reads. */
static json_t *op_accumulate_deltas(json_t *input)
{
    const char *why = "";
    json_t *content = origin_accumulate(json_object_get(input, "deltas"), &why);
    if (content == NULL) return json_pack("{s:s}", "error", why);
    json_t *made = json_pack("{s:o}", "content", content);
    json_t *out = op_validate_content(made);
    json_decref(made);
    return out;
}

static json_t *op_merge_consecutive_deltas(json_t *input)
{
    json_t *deltas = json_object_get(input, "deltas");
    return json_pack("{s:o}", "equals", origin_merge_deltas(deltas));
}

/* Each message by itself, as the chat format writes it. */
static json_t *op_to_llm_messages(json_t *input)
{
    ms_writer_opts opts;
    ms_envelopes list;
    ms_error err;
    json_t *out = json_array();
    ms_str contents = json_of(json_object_get(input, "contents"));
    ms_result result = ms_read_list(task_dialect(), contents, NULL, &arena, &list, &err);
    memset(&opts, 0, sizeof opts);
    for (size_t i = 0; result == MS_OK && i < list.count; i++) {
        ms_writer w;
        ms_buf buf;
        memset(&buf, 0, sizeof buf);
        buf.arena = &arena;
        list.items[i].extra = text_of(NULL);
        ms_writer_init(&w, ms_dialect_find(MS_STR("openai")), &opts, &arena, ms_buf_write,
                       &buf);
        result = ms_writer_put(&w, &list.items[i], &err);
        if (result == MS_OK) result = ms_writer_finish(&w, &err);
        ms_str text = ms_buf_text(&buf);
        json_array_append_new(out, json_parse_n(text.ptr, text.len));
    }
    if (result != MS_OK) return failure(&err);
    return json_pack("{s:o}", "equals", out);
}

#endif
