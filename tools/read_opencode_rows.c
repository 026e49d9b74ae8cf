/* OpenCode's database since 1.2, as rows that sqlite3 prints:
 *
 *     sqlite3 -json opencode.db 'select * from session; select * from message;
 *         select * from part' | msgstore view -
 *
 * Arrays one after the other; a row of message or part has its object, without ids, as
 * text in `data`. They are put together in the form of an export. */

#define _GNU_SOURCE
#include "read.h"

#include <stdlib.h>
#include <string.h>

enum { R_ID, R_SESSION, R_MESSAGE, R_DATA, R_DIRECTORY, R_TITLE, R_PARENT, R_VERSION,
       R_KEYS };
static const json_key keys[] = {
    KEY("id"), KEY("session_id"), KEY("message_id"), KEY("data"), KEY("directory"),
    KEY("title"), KEY("parent_id"), KEY("version"),
};

typedef struct db_row {
    ms_str v[R_KEYS];
    size_t next;              /* the next row of the same owner, plus one; 0 at the end */
    size_t last;              /* of the first row: the last one, plus one */
} db_row;

typedef struct owner {
    uint64_t key;             /* hash of a session's or a message's id */
    size_t value;             /* its first row, plus one */
} owner;

typedef struct db_rows {
    db_row *sessions, *messages, *parts; /* stb_ds arrays */
    owner *of_session, *of_message;      /* stb_ds maps */
} db_rows;

static bool rows_show(ms_str text)
{
    size_t head = text.len < 4096 ? text.len : 4096;
    bool array = head > 2 && text.ptr[0] == '[' && text.ptr[1] == '{';
    bool ids = find_bytes(text.ptr, head, "\"session_id\":", 13) != NULL ||
               find_bytes(text.ptr, head, "\"project_id\":", 13) != NULL;
    return array && ids && find_bytes(text.ptr, text.len, "\"data\":\"{", 9) != NULL;
}

static void add_owned(db_row **rows, owner **owners, ms_str id, const db_row *row)
{
    size_t number = arrlenu(*rows) + 1;
    uint64_t hash = hash_text(id);
    arrput(*rows, *row);
    owner *first = hmgetp_null(*owners, hash);
    if (first == NULL) {
        hmput(*owners, hash, number);
        (*rows)[number - 1].last = number;
        return;
    }
    db_row *begin = &(*rows)[first->value - 1];
    (*rows)[begin->last - 1].next = number;
    begin->last = number;
}

static void take_row(db_rows *d, ms_str object)
{
    db_row row;
    memset(&row, 0, sizeof row);
    pick(object, keys, R_KEYS, row.v);
    if (row.v[R_MESSAGE].ptr != NULL) {
        add_owned(&d->parts, &d->of_message, row.v[R_MESSAGE], &row);
    } else if (row.v[R_SESSION].ptr != NULL && row.v[R_DATA].ptr != NULL) {
        add_owned(&d->messages, &d->of_session, row.v[R_SESSION], &row);
    } else if (row.v[R_DIRECTORY].ptr != NULL || row.v[R_TITLE].ptr != NULL) {
        arrput(d->sessions, row);
    }
}

/* Reads the arrays, one after the other. */
static void take_arrays(db_rows *d, ms_str text)
{
    ms_str value;
    ms_error err;
    while (text.len > 0) {
        size_t used = text.len;
        if (ms_json_check(text, NULL, &value, &err) != MS_OK) {
            if (err.offset == 0 || err.offset >= text.len) return;
            used = (size_t)err.offset;
            if (ms_json_check(ms_str_n(text.ptr, used), NULL, &value, NULL) != MS_OK) {
                return;
            }
        }
        ms_json_iter it = ms_json_iterate(value);
        while (ms_json_next(&it)) take_row(d, it.value);
        text = ms_str_n(text.ptr + used, text.len - used);
    }
}

/* Writes {"id":ID, and the members of the object whose text is in `data`. */
static void put_object(ms_buf *buf, ms_arena *arena, const db_row *row)
{
    ms_str value, data = text_of(arena, row->v[R_DATA]);
    bool object = data.len > 1 && ms_json_check(data, NULL, &value, NULL) == MS_OK &&
                  is_object(value);
    json_piece(buf, "{\"id\":");
    ms_buf_write(buf, row->v[R_ID].ptr, row->v[R_ID].len);
    if (object && value.len > 2) {
        json_piece(buf, ",");
        ms_buf_write(buf, value.ptr + 1, value.len - 1);
    } else {
        json_piece(buf, "}");
    }
}

static void put_info(ms_buf *buf, const db_rows *d, ms_str id)
{
    static const struct {
        int from;
        const char *to;
    } members[] = {{R_TITLE, "title"}, {R_DIRECTORY, "directory"},
                   {R_VERSION, "version"}, {R_PARENT, "parentID"}};
    json_piece(buf, "{\"info\":{\"id\":");
    ms_buf_write(buf, id.ptr, id.len);
    for (size_t i = 0; i < arrlenu(d->sessions); i++) {
        const db_row *row = &d->sessions[i];
        if (!ms_str_equal(row->v[R_ID], id)) continue;
        for (size_t k = 0; k < COUNT_OF(members); k++) {
            ms_str value = row->v[members[k].from];
            if (value.ptr == NULL) continue;
            json_piece(buf, ",\"");
            json_piece(buf, members[k].to);
            json_piece(buf, "\":");
            ms_buf_write(buf, value.ptr, value.len);
        }
        break;
    }
    json_piece(buf, "},\"messages\":[");
}

static void put_message(ms_buf *buf, ms_arena *arena, db_rows *d, const db_row *row)
{
    owner *parts = hmgetp_null(d->of_message, hash_text(row->v[R_ID]));
    json_piece(buf, "{\"info\":");
    put_object(buf, arena, row);
    json_piece(buf, ",\"parts\":[");
    for (size_t n = parts != NULL ? parts->value : 0; n > 0; n = d->parts[n - 1].next) {
        put_object(buf, arena, &d->parts[n - 1]);
        if (d->parts[n - 1].next > 0) json_piece(buf, ",");
    }
    json_piece(buf, "]}");
}

static void read_session(reading *r, db_rows *d, size_t first)
{
    ms_arena arena = {0};
    ms_buf buf = {&arena, NULL, 0, 0};
    ms_str value;
    put_info(&buf, d, d->messages[first - 1].v[R_SESSION]);
    for (size_t n = first; n > 0; n = d->messages[n - 1].next) {
        put_message(&buf, &arena, d, &d->messages[n - 1]);
        if (d->messages[n - 1].next > 0) json_piece(&buf, ",");
    }
    json_piece(&buf, "]}");
    if (ms_json_check(ms_buf_text(&buf), NULL, &value, NULL) == MS_OK) {
        trace_new_session(r->t, trace_text(r->t, d->messages[first - 1].v[R_SESSION]));
        opencode_format.read(r, value);
    }
    trace_flush(r->t); /* messages view the text */
    ms_arena_deinit(&arena);
}

static void rows_read(reading *r, ms_str text)
{
    db_rows d;
    memset(&d, 0, sizeof d);
    take_arrays(&d, text);
    for (size_t i = 0; i < arrlenu(d.messages); i++) {
        if (d.messages[i].last > 0) read_session(r, &d, i + 1);
    }
    arrfree(d.sessions);
    arrfree(d.messages);
    arrfree(d.parts);
    hmfree(d.of_session);
    hmfree(d.of_message);
}

const fileformat opencode_rows_format = {
    "opencode", "OpenCode's database: sqlite3 -json of its tables", "1.2", "", FILE_TEXT,
    TREE_NONE, rows_show, rows_read, NULL,
};
