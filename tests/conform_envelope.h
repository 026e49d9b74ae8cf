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
        result = test_writer_put_msg(&w, msg, &err);
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

/* The builders of the original: what they make is normalised. */
static json_t *envelope_built(json_t *made)
{
    json_t *out = envelope_written(made, "envelope");
    json_decref(made);
    return out;
}

static json_t *op_text(json_t *input) { return op_normalize(input); }

static json_t *with_type(json_t *input, const char *type, const char *role,
                         json_t *payload)
{
    return json_pack("{s:s, s:i, s:s, s:s, s:O, s:o, s:O*}", "schema",
                     "agents-api.message", "version", 1, "type", type, "role", role,
                     "content", json_object_get(input, "content"), "payload", payload,
                     "metadata", json_object_get(input, "metadata"));
}

static json_t *op_tool_call(json_t *input)
{
    json_t *payload = json_pack("{s:O, s:O, s:O}", "tool_name",
                                json_object_get(input, "tool_name"), "parameters",
                                json_object_get(input, "parameters"), "turn",
                                json_object_get(input, "turn"));
    return envelope_built(with_type(input, "tool_call", "assistant", payload));
}

static json_t *op_tool_result(json_t *input)
{
    json_t *payload = json_copy(json_object_get(input, "payload"));
    json_object_set(payload, "tool_name", json_object_get(input, "tool_name"));
    return envelope_built(with_type(input, "tool_result", "user", payload));
}

/* What the library makes of a list, as JSON; NULL and *failed: it is refused. */
static json_t *envelope_list(json_t *input, json_t **failed)
{
    json_t *out = envelope_written(input, "envelope");
    json_t *list = json_incref(json_object_get(out, "equals"));
    *failed = list == NULL ? json_incref(out) : NULL;
    json_decref(out);
    return list;
}

static json_t *op_coalesce(json_t *input)
{
    json_t *failed, *list = envelope_list(input, &failed);
    if (list == NULL) return failed;
    json_t *merged = origin_coalesce(list), *out = envelope_written(merged, "envelope");
    json_decref(merged);
    json_decref(list);
    return out;
}

static json_t *op_pairs(json_t *input)
{
    json_t *failed, *list = envelope_list(input, &failed);
    if (list == NULL) return failed;
    json_t *orphans = origin_orphans(list);
    json_decref(list);
    return json_pack("{s:{s:o, s:b}}", "equals", "orphans", orphans, "is_paired",
                     json_array_size(orphans) == 0);
}

/* The event that the original reports when something was removed. */
static json_t *prune_events(size_t total, size_t kept, json_t *orphans)
{
    json_t *indices = json_array(), *orphan;
    size_t i;
    if (json_array_size(orphans) == 0) return indices;
    json_array_foreach (orphans, i, orphan)
        json_array_append(indices, json_object_get(orphan, "index"));
    return json_pack("[{s:s, s:{s:I, s:I, s:I, s:o, s:O}}]", "type", "tool_pair_pruned",
                     "metadata", "total_messages", (json_int_t)total, "orphan_count",
                     (json_int_t)(total - kept), "retained_count", (json_int_t)kept,
                     "removed_indices", indices, "orphans", orphans);
}

/* The rows of the input that are left, as they came. */
static json_t *op_prune(json_t *input)
{
    json_t *failed, *list = envelope_list(input, &failed);
    if (list == NULL) return failed;
    json_t *orphans = origin_orphans(list), *rows = json_copy(input);
    size_t total = json_array_size(list);
    for (size_t i = json_array_size(orphans); i-- > 0;) {
        json_t *index = json_object_get(json_array_get(orphans, i), "index");
        json_array_remove(rows, (size_t)json_integer_value(index));
    }
    json_decref(list);
    json_t *events = prune_events(total, json_array_size(rows), orphans);
    return json_pack("{s:{s:o, s:o, s:o}}", "equals", "messages", rows, "removed",
                     orphans, "events", events);
}

#endif
