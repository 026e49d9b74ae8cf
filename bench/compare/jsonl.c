/* A file of JSON lines in the frame of driver.h: the way of a program without a
 * store.
 *
 *     bench_jsonl, see driver.c
 *
 * A message is one line, its columns as strings (the arguments too: JSON within a string,
 * so that the same text comes back), its time a number. A commit is one write(2) of all
 * its lines, and with sync one fdatasync. A reader maps the file, walks it once and keeps
 * a place and a length for each line, by view, in memory; before each read it walks the
 * added lines. The walk looks at the first three columns only, whose place in the line is
 * known. A row is parsed with cJSON when it is read; its strings are those that cJSON has
 * unescaped. cJSON takes its memory from a block that is empty again after each row, so
 * that it calls malloc and free for none of its nodes.
 *
 * Locations and agents are distinguished by the number at the end of their names, as the
 * key-value peers get the numbers too. A reader ignores a torn last line, a writer
 * removes it. Left out: any index on the disk, so opening to read is a walk over all.
 */
#define _GNU_SOURCE
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver.h"

#define MAP_SIZE ((size_t)1 << 40) /* bytes of address space */

enum {
    TAIL = 20,
    LENGTH_BITS = 24,              /* of a place: the line's length; above, where it is */
    LINE_MOST = (1 << LENGTH_BITS) - 1,
    BLOCK = 1 << 20,               /* memory for cJSON, for one row */
    VIEWS_OF = 2 + BENCH_AGENTS    /* stored views of a location */
};

typedef struct places {
    uint64_t *at;
    size_t count, room;
} places;

static struct jsonl {
    int file;
    bool sync;
    char *out;                     /* lines to write */
    size_t used, room;
    const char *map;               /* NULL before the first read */
    size_t walked;                 /* bytes */
    places views[BENCH_LOCATIONS][VIEWS_OF];
} json;

static const char *const names[] = {"type", "location", "agent", "turn", "content",
                                    "args", "tool", "summary", "from_worker",
                                    "from_manager", "time"};


/* ---- memory ---- */

static double block[BLOCK / sizeof(double)];
static size_t block_used;

static void *block_take(size_t size)
{
    size_t from = block_used;
    size = (size + 15) & ~(size_t)15;
    if (size > sizeof block - from) return NULL;
    block_used = from + size;
    return (char *)block + from;
}

static void block_keep(void *memory) { (void)memory; }

static void *grown(void *memory, size_t size)
{
    void *more = realloc(memory, size);
    if (!more) bench_die("jsonl", "no memory");
    return more;
}

static void add_place(places *list, uint64_t place)
{
    if (list->count == list->room) {
        list->room = list->room ? list->room * 2 : 64;
        list->at = (uint64_t *)grown(list->at, list->room * sizeof *list->at);
    }
    list->at[list->count++] = place;
}


/* ---- writing lines ---- */

/* Returns room for `size` more bytes to write. */
static inline char *out_room(size_t size)
{
    if (size > json.room - json.used) {
        json.room = (json.used + size) * 2;
        json.out = (char *)grown(json.out, json.room);
    }
    return json.out + json.used;
}

/* Returns whether one of eight bytes is a quote, a backslash or below a blank. A byte
 * of 128 or more may be taken for one; then the caller looks at single bytes. */
static inline bool any_special(uint64_t word)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t quote = word ^ ones * '"', back = word ^ ones * '\\';
    uint64_t found = (word - ones * ' ') | (quote - ones) | (back - ones);
    return (found & (ones * 0x80)) != 0;
}

static inline char *escape_byte(char *p, unsigned char byte)
{
    static const char digits[] = "0123456789abcdef";
    if (byte >= ' ' && byte != '"' && byte != '\\') {
        *p++ = (char)byte;
        return p;
    }
    *p++ = '\\';
    if (byte >= ' ') {
        *p++ = (char)byte;
    } else if (byte == '\n') {
        *p++ = 'n';
    } else {
        memcpy(p, "u00", 3);
        p[3] = digits[byte >> 4];
        p[4] = digits[byte & 15];
        p += 5;
    }
    return p;
}

/* Writes a text with escapes: at most 6 bytes for each byte. */
static inline char *escape(char *p, ms_str text)
{
    size_t i = 0;
    for (; i + 8 <= text.len; i += 8) {
        uint64_t word = bench_word(text.ptr + i);
        if (!any_special(word)) {
            memcpy(p, &word, 8);
            p += 8;
            continue;
        }
        for (size_t j = i; j < i + 8; j++) p = escape_byte(p, (unsigned char)text.ptr[j]);
    }
    for (; i < text.len; i++) p = escape_byte(p, (unsigned char)text.ptr[i]);
    return p;
}

static inline char *put(char *p, const char *text)
{
    size_t len = strlen(text);
    memcpy(p, text, len);
    return p + len;
}

/* Writes seconds with six decimals: the data has no more. */
static char *put_time(char *p, int64_t time_ns)
{
    uint64_t micros = (uint64_t)time_ns / 1000, whole = micros / 1000000;
    char digits[24];
    int i = 24;
    for (uint64_t rest = micros % 1000000; i > 18; rest /= 10)
        digits[--i] = (char)('0' + rest % 10);
    digits[--i] = '.';
    do digits[--i] = (char)('0' + whole % 10);
    while ((whole /= 10) > 0);
    memcpy(p, digits + i, (size_t)(24 - i));
    return p + 24 - i;
}

static void add_line(const bench_row *row)
{
    size_t most = 512;
    for (int i = 0; i < COLUMNS; i++) most += 6 * row->column[i].len;
    char *p = out_room(most), *start = p;
    *p++ = '{';
    for (int i = 0; i < COLUMNS; i++) {
        if (row->column[i].len == 0) continue;
        *p++ = '"';
        p = put(p, names[i]);
        p = put(p, "\":\"");
        p = escape(p, row->column[i]);
        p = put(p, "\",");
    }
    p = put(p, "\"time\":");
    p = put_time(p, row->time_ns);
    p = put(p, "}\n");
    if (p - start > LINE_MOST) bench_die("jsonl", "a line is too long");
    json.used += (size_t)(p - start);
}

static void commit(const bench_data *data, size_t first, size_t count)
{
    json.used = 0;
    for (size_t i = first; i < first + count; i++) {
        bench_row row = bench_row_of(data, i);
        add_line(&row);
    }
    for (size_t done = 0; done < json.used;) {
        ssize_t wrote = write(json.file, json.out + done, json.used - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) bench_die("write", strerror(errno));
        done += (size_t)wrote;
    }
    if (json.sync && fdatasync(json.file) != 0) bench_die("fdatasync", strerror(errno));
}


/* ---- opening and closing ---- */

/* Removes a torn last line. */
static void cut_torn_line(void)
{
    char last[4096];
    off_t size = lseek(json.file, 0, SEEK_END), end = size;
    while (end > 0) {
        off_t from = end > (off_t)sizeof last ? end - (off_t)sizeof last : 0;
        ssize_t got = pread(json.file, last, (size_t)(end - from), from);
        if (got != (ssize_t)(end - from)) bench_die("jsonl", "cannot read its end");
        const char *line = (const char *)memrchr(last, '\n', (size_t)got);
        if (line) {
            end = from + (line - last) + 1;
            break;
        }
        end = from;
    }
    if (end < size && ftruncate(json.file, end) != 0)
        bench_die("ftruncate", strerror(errno));
}

static void walk(void);

static void open_file(const char *folder, int how)
{
    char path[4096];
    bool writes = how & (OPEN_NEW | OPEN_WRITE);
    int flags = writes ? O_RDWR | O_APPEND : O_RDONLY;
    cJSON_Hooks hooks = {block_take, block_keep};
    memset(&json, 0, sizeof json);
    int len = snprintf(path, sizeof path, "%s/messages.jsonl", folder);
    if (len < 0 || (size_t)len >= sizeof path) bench_die(folder, "name too long");
    if (how & OPEN_NEW) flags |= O_CREAT | O_EXCL;
    json.file = open(path, flags | O_CLOEXEC, 0644);
    if (json.file < 0) bench_die(path, strerror(errno));
    json.sync = how & OPEN_SYNC;
    cJSON_InitHooks(&hooks);
    if (how & OPEN_WRITE) cut_torn_line();
    if (!writes) walk();
}

static void close_file(void)
{
    for (int i = 0; i < BENCH_LOCATIONS; i++)
        for (int j = 0; j < VIEWS_OF; j++) free(json.views[i][j].at);
    free(json.out);
    if (json.map) munmap((void *)(uintptr_t)json.map, MAP_SIZE);
    if (close(json.file) != 0) bench_die("close", strerror(errno));
    memset(&json, 0, sizeof json);
}


/* ---- the walk ---- */

/* Returns the string after `lead` at *p, which moves past its quote. Without lead p
 * stays. Names and types have no escapes. */
static inline ms_str field(const char **p, const char *end, const char *lead)
{
    size_t len = strlen(lead);
    if ((size_t)(end - *p) <= len || memcmp(*p, lead, len) != 0) return ms_str_n(NULL, 0);
    const char *text = *p + len;
    const char *quote = (const char *)memchr(text, '"', (size_t)(end - text));
    if (!quote) bench_die("jsonl", "a line that was not written here");
    *p = quote + 1;
    return ms_str_n(text, (size_t)(quote - text));
}

/* Returns the number at the end of a name. */
static inline size_t number_of(ms_str name, size_t below)
{
    size_t number = 0, i = name.len;
    while (i > 0 && name.ptr[i - 1] >= '0' && name.ptr[i - 1] <= '9') i--;
    for (; i < name.len; i++) number = number * 10 + (size_t)(name.ptr[i] - '0');
    if (name.len == 0 || number >= below) bench_die("jsonl", "a name without a number");
    return number;
}

static inline bool is(ms_str word, const char *text)
{
    return word.len == strlen(text) && memcmp(word.ptr, text, word.len) == 0;
}

/* Returns which of a location's stored views a line belongs to: conversation, global,
 * agents. */
static inline size_t view_of(ms_str type, ms_str agent)
{
    if (is(type, "user_message") || is(type, "assistant_message")) return 0;
    if (is(type, "global_observation") || is(type, "synthesis")) return 1;
    return 2 + number_of(agent, BENCH_AGENTS);
}

static void add_walked(const char *line, const char *end)
{
    const char *p = line;
    uint64_t place = (uint64_t)(line - json.map) << LENGTH_BITS | (uint64_t)(end - line);
    if (end - line > LINE_MOST) bench_die("jsonl", "a line is too long");
    ms_str type = field(&p, end, "{\"type\":\"");
    ms_str location = field(&p, end, ",\"location\":\"");
    ms_str agent = field(&p, end, ",\"agent\":\"");
    size_t where = number_of(location, BENCH_LOCATIONS);
    add_place(&json.views[where][view_of(type, agent)], place);
}

static void map_file(void)
{
    void *map = mmap(NULL, MAP_SIZE, PROT_READ, MAP_SHARED | MAP_NORESERVE, json.file, 0);
    if (map == MAP_FAILED) bench_die("mmap", strerror(errno));
    json.map = (const char *)map;
}

/* Walks the lines that were added since the last walk. */
static void walk(void)
{
    struct stat st;
    if (!json.map) map_file();
    if (fstat(json.file, &st) != 0) bench_die("fstat", strerror(errno));
    const char *p = json.map + json.walked, *end = json.map + st.st_size;
    while (p < end) {
        const char *line_end = (const char *)memchr(p, '\n', (size_t)(end - p));
        if (!line_end) break; /* the last line is not complete */
        add_walked(p, line_end);
        p = line_end + 1;
    }
    json.walked = (size_t)(p - json.map);
}


/* ---- reading ---- */

static inline void put_column(bench_row *row, int column, const cJSON *value)
{
    if (column == COLUMNS && cJSON_IsNumber(value)) {
        row->time_ns = (int64_t)(value->valuedouble * 1e6 + 0.5) * 1000;
    } else if (column < COLUMNS && cJSON_IsString(value)) {
        row->column[column] = bench_name(value->valuestring);
    } else {
        bench_die("jsonl", "a value of another kind");
    }
}

static void take(const char *line, size_t len, bench_reader *reader)
{
    bench_row row;
    int column = 0;
    memset(&row, 0, sizeof row);
    block_used = 0;
    cJSON *object = cJSON_ParseWithLength(line, len);
    if (!object) bench_die("jsonl", "a line is not JSON, or too large");
    /* The members are in the order of the columns. */
    for (const cJSON *value = object->child; value; value = value->next, column++) {
        while (column <= COLUMNS && strcmp(names[column], value->string) != 0) column++;
        if (column > COLUMNS) bench_die("jsonl", "a member with a name unknown");
        put_column(&row, column, value);
    }
    bench_take(reader, &row);
}

static inline void take_place(uint64_t place, bench_reader *reader)
{
    take(json.map + (place >> LENGTH_BITS), place & LINE_MOST, reader);
}

static void rows_of(const places *list, size_t first, bench_reader *reader)
{
    for (size_t i = first; i < list->count; i++) take_place(list->at[i], reader);
}

static void team(const places *agents, bench_reader *reader)
{
    size_t next[BENCH_AGENTS] = {0};
    for (;;) {
        uint64_t first = UINT64_MAX;
        int of = 0;
        for (int i = 0; i < BENCH_AGENTS; i++) {
            if (next[i] == agents[i].count || agents[i].at[next[i]] > first) continue;
            first = agents[i].at[next[i]];
            of = i;
        }
        if (first == UINT64_MAX) return;
        take_place(first, reader);
        next[of]++;
    }
}

static void read_view(const bench_data *data, int view, size_t location, size_t agent,
                      bench_reader *reader)
{
    const places *views = json.views[location];
    size_t count;
    (void)data;
    walk();
    count = views[0].count;
    if (view == VIEW_TAIL) rows_of(&views[0], count > TAIL ? count - TAIL : 0, reader);
    if (view == VIEW_CONVERSATION || view == VIEW_HISTORY) rows_of(&views[0], 0, reader);
    if (view == VIEW_AGENT || view == VIEW_HISTORY)
        rows_of(&views[2 + agent], 0, reader);
    if (view == VIEW_GLOBAL || view == VIEW_HISTORY) rows_of(&views[1], 0, reader);
    if (view == VIEW_TEAM) team(&views[2], reader);
}

static void scan(bench_reader *reader)
{
    walk();
    const char *p = json.map, *end = json.map + json.walked;
    while (p < end) {
        const char *line_end = (const char *)memchr(p, '\n', (size_t)(end - p));
        if (!line_end) bench_die("jsonl", "the file became shorter");
        take(p, (size_t)(line_end - p), reader);
        p = line_end + 1;
    }
}


const bench_store bench_stores[] = {
    {"jsonl", "write(2) a commit; reader: map, places by view in memory, cJSON a row",
     open_file, commit, read_view, close_file, scan, NULL},
};
const size_t bench_n_stores = sizeof bench_stores / sizeof bench_stores[0];
