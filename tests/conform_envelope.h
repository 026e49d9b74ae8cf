/* Operations of the conformance vectors on the envelope format, for test_conformance.c,
 * which includes this behind its own helpers. Its rows in `operations`:
 *
 *     {"normalize", op_normalize},
 *     {"normalize_many", op_normalize_many},
 *     {"to_provider", op_to_provider},
 *     {"to_provider_many", op_to_provider_many},
 *     {"text", op_text},
 *     {"tool_call", op_tool_call},
 *     {"tool_result", op_tool_result},
 *     {"coalesce", op_coalesce},
 *     {"pairs", op_pairs},
 *     {"prune", op_prune},
 *
 * What is read goes through a store of the kind at hand before it is written. */

#ifndef CONFORM_ENVELOPE_H
#define CONFORM_ENVELOPE_H

/* Reads an object or a list; the failure, or NULL and *out. */
static json_t *envelope_read(json_t *input, ms_envelopes *out)
{
    ms_error err;
    const ms_dialect *dialect = ms_dialect_find(MS_STR("envelope"));
    ms_result result = json_is_array(input)
                           ? ms_read_list(dialect, json_of(input), NULL, &arena, out,
                                          &err)
                           : ms_read(dialect, json_of(input), NULL, &arena, out, &err);
    return result == MS_OK ? NULL : failure(&err);
}

/* Appends the messages to a fresh store and writes what a cursor gives. */
static json_t *envelope_stored(const ms_envelopes *list, const char *name)
{
    ms_str place = MS_STR("place");
    ms_writer_opts opts;
    ms_writer w;
    ms_buf buf;
    ms_query query;
    ms_cursor it;
    const ms_msg *msg;
    ms_error err;
    ms_result result = MS_OK;
    store_options options;
    test_store s;
    memset(&options, 0, sizeof options);
    memset(&opts, 0, sizeof opts);
    memset(&buf, 0, sizeof buf);
    options.keep_unset_times = true;
    opts.array = true;
    buf.arena = &arena;
    s = store_open(kind, &options);
    for (size_t i = 0; i < list->count && result == MS_OK; i++) {
        ms_envelope m = list->items[i];
        m.location = place;
        result = ms_append(s.store, place, &m, NULL, &err);
    }
    ms_writer_init(&w, ms_dialect_find(ms_str_of(name)), &opts, &arena, ms_buf_write,
                   &buf);
    if (result == MS_OK) {
        memset(&query, 0, sizeof query);
        query.location = place;
        store_reopen(&s);
        result = ms_query_open(s.store, &query, &it, &err);
    }
    while (result == MS_OK && (msg = ms_next(&it)) != NULL) {
        result = ms_writer_put_msg(&w, msg, &err);
    }
    if (result == MS_OK) result = ms_cursor_close(&it, &err);
    json_t *out = end_writing(&w, &buf, result, &err);
    store_close(&s);
    return out;
}

/* {"equals": the list, or when `one` its only member}; errors pass through. */
static json_t *envelope_equals(const ms_envelopes *list, const char *name, bool one)
{
    json_t *all = envelope_stored(list, name);
    if (!json_is_array(all)) return all;
    json_t *out = json_pack("{s:O}", "equals", one ? json_array_get(all, 0) : all);
    json_decref(all);
    return out;
}

static json_t *envelope_written(json_t *input, const char *name)
{
    ms_envelopes list;
    json_t *failed = envelope_read(input, &list);
    return failed != NULL ? failed
                          : envelope_equals(&list, name, !json_is_array(input));
}

static json_t *op_normalize(json_t *input)
{
    return envelope_written(input, "envelope");
}

static json_t *op_normalize_many(json_t *input)
{
    return envelope_written(input, "envelope");
}

static json_t *op_to_provider(json_t *input)
{
    return envelope_written(input, "envelope-rows");
}

static json_t *op_to_provider_many(json_t *input)
{
    return envelope_written(input, "envelope-rows");
}

/* A JSON object as its text; another value or none is absent. */
static ms_str object_of(json_t *value)
{
    ms_str absent = {NULL, 0};
    return json_is_object(value) ? json_of(value) : absent;
}

static json_t *envelope_built(ms_result result, ms_envelope *m, ms_error *err)
{
    ms_envelopes list;
    list.items = m;
    list.count = 1;
    return result == MS_OK ? envelope_equals(&list, "envelope", true) : failure(err);
}

static json_t *op_text(json_t *input)
{
    ms_envelope m;
    ms_error err;
    ms_result result = ms_row(text_of(json_object_get(input, "role")),
                              value_of(json_object_get(input, "content")),
                              object_of(json_object_get(input, "metadata")), &arena, &m,
                              &err);
    return envelope_built(result, &m, &err);
}

static json_t *op_tool_call(json_t *input)
{
    ms_envelope m;
    ms_error err;
    ms_result result = ms_tool_call(value_of(json_object_get(input, "content")),
                                    text_of(json_object_get(input, "tool_name")),
                                    value_of(json_object_get(input, "parameters")),
                                    json_integer_value(json_object_get(input, "turn")),
                                    object_of(json_object_get(input, "metadata")), &arena,
                                    &m, &err);
    return envelope_built(result, &m, &err);
}

static json_t *op_tool_result(json_t *input)
{
    ms_envelope m;
    ms_error err;
    ms_result result = ms_tool_result(value_of(json_object_get(input, "content")),
                                      text_of(json_object_get(input, "tool_name")),
                                      object_of(json_object_get(input, "payload")),
                                      object_of(json_object_get(input, "metadata")),
                                      &arena, &m, &err);
    return envelope_built(result, &m, &err);
}

static json_t *op_coalesce(json_t *input)
{
    ms_error err;
    ms_envelopes list, merged;
    json_t *failed = envelope_read(input, &list);
    if (failed != NULL) return failed;
    if (ms_coalesce(list.items, list.count, &arena, &merged, &err) != MS_OK) {
        return failure(&err);
    }
    return envelope_equals(&merged, "envelope", false);
}

static json_t *orphan_list(const ms_pairs *pairs)
{
    json_t *out = json_array();
    for (size_t i = 0; i < pairs->count; i++) {
        const ms_orphan *o = &pairs->orphans[i];
        const char *type = o->is_call ? "tool_call" : "tool_result";
        json_t *row = json_pack("{s:I, s:s+, s:s, s:s%}", "index", (json_int_t)o->index,
                                "kind", "orphan_", type, "type", type, "tool_name",
                                o->tool.ptr != NULL ? o->tool.ptr : "", o->tool.len);
        if (o->call_id.ptr != NULL) {
            json_object_set_new(row, "tool_call_id",
                                json_stringn(o->call_id.ptr, o->call_id.len));
        }
        json_array_append_new(out, row);
    }
    return out;
}

static json_t *op_pairs(json_t *input)
{
    ms_error err;
    ms_envelopes list;
    ms_pairs pairs;
    json_t *failed = envelope_read(input, &list);
    if (failed != NULL) return failed;
    if (ms_pair_check(list.items, list.count, &arena, &pairs, &err) != MS_OK) {
        return failure(&err);
    }
    return json_pack("{s:{s:o, s:b}}", "equals", "orphans", orphan_list(&pairs),
                     "is_paired", pairs.count == 0);
}

/* The event that the original reports when something was removed. */
static json_t *prune_events(size_t total, size_t kept, const ms_pairs *removed)
{
    json_t *indices = json_array();
    if (removed->count == 0) return indices;
    for (size_t i = 0; i < removed->count; i++) {
        json_int_t index = (json_int_t)removed->orphans[i].index;
        json_array_append_new(indices, json_integer(index));
    }
    return json_pack("[{s:s, s:{s:I, s:I, s:I, s:o, s:o}}]", "type", "tool_pair_pruned",
                     "metadata", "total_messages", (json_int_t)total, "orphan_count",
                     (json_int_t)removed->count, "retained_count", (json_int_t)kept,
                     "removed_indices", indices, "orphans", orphan_list(removed));
}

/* The rows of the input that are left, as they came; what the list without orphans writes
 * must be what these write. */
static json_t *op_prune(json_t *input)
{
    ms_error err;
    ms_envelopes list, kept;
    ms_pairs removed;
    json_t *failed = envelope_read(input, &list), *rows, *left, *again;
    if (failed != NULL) return failed;
    if (ms_prune(list.items, list.count, &arena, &kept, &removed, &err) != MS_OK) {
        return failure(&err);
    }
    rows = json_copy(input);
    for (size_t i = removed.count; i-- > 0;) {
        json_array_remove(rows, removed.orphans[i].index);
    }
    left = envelope_equals(&kept, "envelope", false);
    again = envelope_written(rows, "envelope");
    if (!json_equal(left, again)) json_array_clear(rows);
    json_decref(left);
    json_decref(again);
    return json_pack("{s:{s:o, s:o, s:o}}", "equals", "messages", rows, "removed",
                     orphan_list(&removed), "events",
                     prune_events(list.count, kept.count, &removed));
}

#endif
