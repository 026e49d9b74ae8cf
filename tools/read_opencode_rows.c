/* OpenCode's database since 1.2, as rows that sqlite3 prints:
 *
 *     sqlite3 -json opencode.db 'select * from session; select * from message;
 *         select * from part' | msgstore view -
 *
 * or as database.c makes them of the database.
 * Arrays one after the other, a row a line; a row of message or part has its object,
 * without ids, as text in `data`. They are put together in the form of an export. After
 * damage the lines are read one by one. */

#define _GNU_SOURCE
#include "read.h"

#include <stdlib.h>
#include <string.h>

enum { R_ID, R_SESSION, R_MESSAGE, R_DATA, R_DIRECTORY, R_TITLE, R_PARENT, R_VERSION,
       R_REVERT, R_KEYS };
static const json_key keys[] = {
    KEY("id"), KEY("session_id"), KEY("message_id"), KEY("data"), KEY("directory"),
    KEY("title"), KEY("parent_id"), KEY("version"),
    KEY("revert"),
};

typedef struct db_row {
    ms_str v[R_KEYS];
    size_t next;              /* the next row of the same owner, plus one; 0 at the end */
    size_t last;              /* of the first row: the last one, plus one */
    uint64_t offset;          /* in the text */
    bool used;                /* a part: its message has it */
} db_row;

typedef struct owner {
    uint64_t key;             /* hash of a session's or a message's id */
    size_t value;             /* its first row, plus one */
} owner;

typedef struct db_rows {
    reading *r;
    const char *begin;        /* of the text */
    ms_arena arena;           /* rows of a line that is cut */
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

static void take_row(db_rows *d, ms_str object, uint64_t offset)
{
    db_row row;
    memset(&row, 0, sizeof row);
    row.offset = offset;
    pick(object, keys, R_KEYS, row.v);
    if (row.v[R_MESSAGE].ptr != NULL) {
        add_owned(&d->parts, &d->of_message, row.v[R_MESSAGE], &row);
    } else if (row.v[R_SESSION].ptr != NULL && row.v[R_DATA].ptr != NULL) {
        add_owned(&d->messages, &d->of_session, row.v[R_SESSION], &row);
    } else if (row.v[R_DIRECTORY].ptr != NULL || row.v[R_TITLE].ptr != NULL) {
        arrput(d->sessions, row);
    } else {
        trace_incomplete(d->r->t, MS_STR("row"));
    }
}

static uint64_t offset_in(const db_rows *d, ms_str text)
{
    return (uint64_t)(text.ptr - d->begin);
}

static void take_list(db_rows *d, ms_str list)
{
    ms_json_iter it = ms_json_iterate(list);
    while (ms_json_next(&it)) take_row(d, it.value, offset_in(d, it.value));
}

/* Returns a line without what stands around a row. */
static ms_str row_of_line(ms_str line)
{
    while (line.len > 0 && strchr("[ \t", line.ptr[0]) != NULL) {
        line = ms_str_n(line.ptr + 1, line.len - 1);
    }
    while (line.len > 0 && strchr("], \t\r", line.ptr[line.len - 1]) != NULL) line.len--;
    return line;
}

/* Reads the rows line by line. Of a torn line with several rows the whole ones count. */
static void take_lines(db_rows *d, ms_str text)
{
    ms_str value;
    ms_error err;
    bool whole;
    size_t kept;
    while (text.len > 0 && trace_code(d->r->t) == FINE) {
        ms_str line = next_line(&text, &whole), row = row_of_line(line);
        uint64_t at = offset_in(d, line);
        if (row.len == 0) continue;
        if (ms_json_check(row, NULL, &value, &err) == MS_OK) {
            take_row(d, value, offset_in(d, row));
            continue;
        }
        if (ms_json_check(line, NULL, &value, &err) == MS_OK) {
            take_list(d, value);
            continue;
        }
        if (err.offset == MS_NO_OFFSET) err.offset = 0;
        const char *place = strstr(err.message, "): ");
        d->r->damaged(d->r, at + err.offset, place != NULL ? place + 3 : err.message);
        if (line.ptr[0] != '[' || !json_close(line, &d->arena, &value, &kept)) continue;
        ms_json_iter it = ms_json_iterate(value);
        while (ms_json_next(&it)) {
            bool closed = it.value.ptr + it.value.len > value.ptr + kept; /* it is torn */
            if (!closed) take_row(d, it.value, at);
        }
    }
}

/* Reads the arrays, one after the other. */
static void take_arrays(db_rows *d, ms_str text)
{
    ms_str value;
    ms_error err;
    while (text.len > 0 && !is_blank(text)) {
        size_t used = text.len;
        if (ms_json_check(text, NULL, &value, &err) != MS_OK) {
            used = err.offset < text.len ? (size_t)err.offset : 0;
            if (ms_json_check(ms_str_n(text.ptr, used), NULL, &value, NULL) != MS_OK) {
                take_lines(d, text);
                return;
            }
        }
        take_list(d, value);
        text = ms_str_n(text.ptr + used, text.len - used);
    }
}

/* Writes {"id":ID, and the members of the object whose text is in `data`. Returns
 * whether it has an object. */
static bool put_object(ms_buf *buf, db_rows *d, ms_arena *arena, const db_row *row)
{
    ms_str value, id = row->v[R_ID], data = text_of(arena, row->v[R_DATA]);
    bool object = data.len > 1 && ms_json_check(data, NULL, &value, NULL) == MS_OK &&
                  is_object(value);
    if (!object) {
        d->r->damaged(d->r, row->offset, "a row whose data is not an object");
        return false;
    }
    if (id.ptr == NULL) id = MS_STR("\"\"");
    json_piece(buf, "{\"id\":");
    ms_buf_write(buf, id.ptr, id.len);
    if (value.len > 2) json_piece(buf, ",");
    ms_buf_write(buf, value.ptr + 1, value.len - 1);
    return true;
}

/* Writes what a session was taken back to: an object, or the text of one. */
static void put_revert(ms_buf *buf, const db_row *row)
{
    ms_str value = text_of(buf->arena, row->v[R_REVERT]);
    if (value.len == 0) value = row->v[R_REVERT];
    if (ms_json_check(value, NULL, &value, NULL) != MS_OK || !is_object(value)) return;
    json_piece(buf, ",\"revert\":");
    ms_buf_write(buf, value.ptr, value.len);
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
        put_revert(buf, row);
        break;
    }
    json_piece(buf, "},\"messages\":[");
}

static void put_message(ms_buf *buf, ms_arena *arena, db_rows *d, const db_row *row)
{
    ms_buf info = {arena, NULL, 0, 0}, list = {arena, NULL, 0, 0};
    owner *parts = row->v[R_ID].ptr != NULL
                       ? hmgetp_null(d->of_message, hash_text(row->v[R_ID])) : NULL;
    if (row->v[R_ID].ptr == NULL) {
        d->r->damaged(d->r, row->offset, "a message without an id");
    }
    bool whole = put_object(&info, d, arena, row);
    for (size_t n = parts != NULL ? parts->value : 0; n > 0; n = d->parts[n - 1].next) {
        ms_buf part = {arena, NULL, 0, 0};
        d->parts[n - 1].used = true;
        if (!whole || !put_object(&part, d, arena, &d->parts[n - 1])) continue;
        if (list.len > 0) json_piece(&list, ",");
        ms_buf_write(&list, part.ptr, part.len);
    }
    if (!whole) return;
    json_piece(buf, buf->ptr[buf->len - 1] == '[' ? "{\"info\":" : ",{\"info\":");
    ms_buf_write(buf, info.ptr, info.len);
    json_piece(buf, ",\"parts\":[");
    ms_buf_write(buf, list.ptr, list.len);
    json_piece(buf, "]}");
}

static void read_session(reading *r, db_rows *d, size_t first)
{
    ms_arena arena = {0};
    ms_buf buf = {&arena, NULL, 0, 0};
    ms_str value, id = d->messages[first - 1].v[R_SESSION];
    put_info(&buf, d, id);
    for (size_t n = first; n > 0; n = d->messages[n - 1].next) {
        put_message(&buf, &arena, d, &d->messages[n - 1]);
    }
    json_piece(&buf, "]}");
    if (ms_json_check(ms_buf_text(&buf), NULL, &value, NULL) == MS_OK) {
        trace_new_session(r->t, trace_text(r->t, id));
        opencode_format.read(r, value);
    } else {
        r->damaged(r, d->messages[first - 1].offset, "a session that is not JSON");
    }
    trace_flush(r->t); /* messages view the text */
    ms_arena_deinit(&arena);
}

static void rows_read(reading *r, ms_str text)
{
    db_rows d;
    memset(&d, 0, sizeof d);
    d.r = r;
    d.begin = text.ptr;
    take_arrays(&d, text);
    for (size_t i = 0; i < arrlenu(d.messages) && trace_code(r->t) == FINE; i++) {
        if (d.messages[i].last > 0) read_session(r, &d, i + 1);
    }
    for (size_t i = 0; i < arrlenu(d.parts); i++) {
        if (!d.parts[i].used) trace_incomplete(r->t, MS_STR("part of no message"));
    }
    arrfree(d.sessions);
    arrfree(d.messages);
    arrfree(d.parts);
    hmfree(d.of_session);
    hmfree(d.of_message);
    ms_arena_deinit(&d.arena);
}

const fileformat opencode_rows_format = {
    "opencode", "OpenCode's database, or sqlite3 -json of its tables", "1.2, 1.18", "",
    FILE_TEXT, TREE_NONE, rows_show, rows_read, NULL,
};
