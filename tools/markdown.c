/* See markdown.h. A text is cut into lines; a line is a run of glyphs, each a character
 * and its style, which are then wrapped and printed. */

#define _GNU_SOURCE
#include "markdown.h"

enum { BOLD = 1, ITALIC = 2, STRUCK = 4, CODE = 8, LINK = 16, DIM = 32 };

enum {
    LINE_MOST = 1 << 16,      /* bytes of a line whose marks are read */
    RUN_MOST = 8,             /* characters of a mark of code or of a fence */
    LINK_MOST = 1000,         /* bytes of the text or the address of a link */
    COLUMNS_MOST = 32,        /* of a table */
    QUOTES_MOST = 8
};

typedef struct glyph {
    uint32_t point;
    unsigned style;
} glyph;

typedef struct page {
    output *out;
    ms_str rest;              /* the lines that are not printed yet */
    unsigned width;
    bool colour;
    glyph *line;              /* an stb_ds array; of the line, or of a cell */
    const char *no_table;     /* rows before it are no table */
    size_t unclosed[2];       /* fences of ` and ~ so long have no end; 0: unknown */
    bool after_blank;         /* the line before was empty, or indented code */
    bool in_list;             /* indented lines go on with an item */
} page;

static bool is_blank_char(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Returns whether a character beside a mark makes the mark a part of a word, as in a*b
 * and snake_case. Languages without spaces have * beside their letters. */
static bool is_in_word(char mark, char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (mark == '_' && (unsigned char)c >= 0x80);
}

static ms_str part(ms_str text, size_t begin, size_t end)
{
    return ms_str_n(text.ptr + begin, end - begin);
}

/* Removes the next line from a text and returns it, without \n, \r\n. */
static ms_str take_line(ms_str *text)
{
    const char *end = text->len > 0 ? memchr(text->ptr, '\n', text->len) : NULL;
    size_t len = end != NULL ? (size_t)(end - text->ptr) : text->len;
    ms_str line = part(*text, 0, len);
    *text = part(*text, end != NULL ? len + 1 : len, text->len);
    if (line.len > 0 && line.ptr[line.len - 1] == '\r') line.len--;
    return line;
}

static ms_str trimmed(ms_str text)
{
    while (text.len > 0 && is_blank_char(text.ptr[text.len - 1])) text.len--;
    while (text.len > 0 && is_blank_char(text.ptr[0])) text = part(text, 1, text.len);
    return text;
}

/* Returns how often the character at a place is there in sequence. */
static size_t run_at(ms_str text, size_t at)
{
    size_t n = 1;
    while (at + n < text.len && text.ptr[at + n] == text.ptr[at]) n++;
    return n;
}


/* ---- Glyphs ------------------------------------------------------------------------ */

static void add_point(page *p, uint32_t point, unsigned style)
{
    glyph g = {point, style};
    arrput(p->line, g);
}

static void add_text(page *p, ms_str text, unsigned style)
{
    while (text.len > 0) add_point(p, visible(next_point(&text)), style);
}

/* Adds a mark that a style replaces: only without colours. */
static void add_mark(page *p, ms_str mark, unsigned style)
{
    if (!p->colour) add_text(p, mark, style);
}

static unsigned width_of(const glyph *g, size_t n)
{
    unsigned width = 0;
    for (size_t i = 0; i < n; i++) width += columns_of(g[i].point);
    return width;
}

static void put_style(page *p, unsigned style)
{
    static const char *const codes[] = {";1", ";3", ";9", ";36", ";4", ";2"};
    if (!p->colour) return;
    emit_text(p->out, "\033[0");
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        if ((style & 1u << i) != 0) emit_text(p->out, codes[i]);
    }
    emit_text(p->out, "m");
}

static void put_glyphs(page *p, const glyph *g, size_t n)
{
    char bytes[4];
    unsigned style = 0;
    for (size_t i = 0; i < n; i++) {
        if (g[i].style != style) put_style(p, g[i].style);
        style = g[i].style;
        emit(p->out, bytes, put_utf8(bytes, g[i].point));
    }
    if (style != 0) put_style(p, 0);
}

static void put_spaces(page *p, unsigned n)
{
    while (n-- > 0) emit_text(p->out, " ");
}

/* Returns how many glyphs of g[0..n) go on a line of so many columns: up to a space, or
 * beside a wide character; more if the first word is longer. */
static size_t fitting(const glyph *g, size_t n, unsigned room)
{
    unsigned used = 0;
    size_t best = 0, i = 0;
    while (i < n && g[i].point == ' ') i++, used++;
    for (size_t first = i; i < n; i++) {
        unsigned columns = columns_of(g[i].point);
        bool gap = g[i].point == ' ', wide = columns == 2;
        if (i > first && columns > 0) wide = wide || columns_of(g[i - 1].point) == 2;
        if (i > first && (gap || wide) && (used <= room || best == 0)) best = i;
        if (best > 0 && used + (gap ? 0 : columns) > room) return best;
        used += columns;
    }
    return n;
}

/* Prints the line, wrapped. Its lines after the first begin with the quote marks and
 * `indent` spaces. */
static void put_wrapped(page *p, unsigned quotes, unsigned indent)
{
    const glyph *g = p->line;
    size_t n = arrlenu(p->line);
    unsigned before = 2 * quotes;
    if (indent > p->width / 2) indent = p->width / 2;
    unsigned taken = 0;
    do {
        for (unsigned i = 0; i < quotes; i++) emit_text(p->out, "\xe2\x94\x82 ");
        put_spaces(p, taken);
        unsigned room = p->width > before + taken ? p->width - before - taken : 1;
        size_t now = fitting(g, n, room);
        put_glyphs(p, g, now);
        emit_text(p->out, "\n");
        if (now == n) break;
        g += now;
        n -= now;
        while (n > 0 && g->point == ' ') g++, n--;
        taken = indent;
    } while (n > 0 && p->out->error == 0);
}

/* Prints a line as it is, after so many spaces. */
static void put_plain(page *p, ms_str line, unsigned indent, unsigned style)
{
    char bytes[4];
    put_spaces(p, indent);
    if (style != 0) put_style(p, style);
    while (line.len > 0) {
        uint32_t point = next_point(&line);
        emit(p->out, bytes, put_utf8(bytes, point == '\t' ? point : visible(point)));
    }
    if (style != 0) put_style(p, 0);
    emit_text(p->out, "\n");
}


/* ---- Marks in a line --------------------------------------------------------------- */

/* What changes the style between two places of a line. */
typedef struct mark {
    char c;
    size_t len;
    unsigned style;
} mark;

static const mark marks[] = {
    {'*', 2, BOLD}, {'_', 2, BOLD}, {'*', 1, ITALIC}, {'_', 1, ITALIC}, {'~', 2, STRUCK},
};

typedef struct inline_state {
    size_t close[COUNT_OF(marks)]; /* where an open mark ends; 0: it is not open */
    bool none[COUNT_OF(marks)];    /* no mark of it closes in the rest of the line */
    bool no_code[RUN_MOST + 1];    /* no run of so many ` is in the rest */
    size_t link;                   /* the ] of an open link; 0: none */
    size_t link_end;               /* its ) */
} inline_state;

/* Returns the end of a code span whose run of n marks is at a place; 0: it has none. */
static size_t code_end(inline_state *s, ms_str text, size_t at, size_t n)
{
    if (n > RUN_MOST || s->no_code[n]) return 0;
    for (size_t i = at + n; i < text.len;) {
        size_t run = text.ptr[i] == '`' ? run_at(text, i) : 0;
        if (run == n) return i + n;
        i += run > 0 ? run : 1;
    }
    s->no_code[n] = true;
    return 0;
}

/* Returns where a mark closes that opens at a place; 0: nowhere. */
static size_t closing(inline_state *s, ms_str text, size_t at, size_t kind)
{
    const mark *m = &marks[kind];
    size_t i = at + m->len;
    if (s->none[kind]) return 0;
    while (i < text.len) {
        char c = text.ptr[i];
        size_t run = c == m->c || c == '`' ? run_at(text, i) : 0;
        size_t code = c == '`' ? code_end(s, text, i, run) : 0;
        if (c == '\\') i += 2;
        else if (code > 0) i = code;
        else if (c != m->c) i += run > 0 ? run : 1;
        else {
            bool good = (run == m->len || run == 3) && !is_blank_char(text.ptr[i - 1]) &&
                        i > at + m->len;
            bool word = i + run < text.len && is_in_word(c, text.ptr[i + run]);
            if (good && !word) return run == 3 && m->len == 1 ? i + 2 : i;
            i += run;
        }
    }
    s->none[kind] = true;
    return 0;
}

/* Returns whether a mark may open at a place: a word follows it. */
static bool can_open(ms_str text, size_t at, const mark *m)
{
    size_t run = run_at(text, at), end = at + run;
    if (run != m->len && run != 3) return false;
    if (m->c == '~' && run != 2) return false;
    if (end >= text.len || is_blank_char(text.ptr[end])) return false;
    return at == 0 || !is_in_word(m->c, text.ptr[at - 1]);
}

/* Returns whether a mark of one is the last of three, and the first two were read. */
static bool is_third(ms_str text, size_t at, const mark *m)
{
    bool three = m->len == 1 && at >= 2 && text.ptr[at - 2] == m->c;
    return three && at + 1 < text.len && text.ptr[at + 1] != m->c &&
           !is_blank_char(text.ptr[at + 1]);
}

/* Reads [text](address) at a place. The text has no brackets, the
 * address has only pairs of them. */
static bool read_link(inline_state *s, ms_str text, size_t at)
{
    size_t i = at + 1, most = at + LINK_MOST, depth = 0;
    while (i < text.len && i < most && text.ptr[i] != ']' && text.ptr[i] != '[') i++;
    bool closed = i + 1 < text.len && text.ptr[i] == ']' && i > at + 1;
    if (!closed || text.ptr[i + 1] != '(') return false;
    size_t end = i + 2;
    most = end + LINK_MOST;
    for (; end < text.len && end < most; end++) {
        char c = text.ptr[end];
        if (c == ')' && depth == 0) break;
        if (c == '(') depth++;
        else if (c == ')') depth--;
    }
    if (end >= text.len || end == most || end == i + 2) return false;
    s->link = i;
    s->link_end = end;
    return true;
}

static unsigned style_at(const inline_state *s, unsigned base)
{
    unsigned style = base | (s->link > 0 ? (unsigned)LINK : 0);
    for (size_t k = 0; k < COUNT_OF(marks); k++) {
        if (s->close[k] > 0) style |= marks[k].style;
    }
    return style;
}

/* Reads a mark of emphasis at a place; returns its length, 0: it is text. */
static size_t take_mark(page *p, inline_state *s, ms_str text, size_t at, unsigned base)
{
    for (size_t k = 0; k < COUNT_OF(marks); k++) {
        const mark *m = &marks[k];
        ms_str word = part(text, at, at + m->len > text.len ? text.len : at + m->len);
        if (s->close[k] > 0 && s->close[k] == at) {
            add_mark(p, word, style_at(s, base));
            s->close[k] = 0;
            return m->len;
        }
    }
    for (size_t k = 0; k < COUNT_OF(marks); k++) {
        const mark *m = &marks[k];
        if (m->c != text.ptr[at] || s->close[k] > 0) continue;
        bool rest = at > 0 && text.ptr[at - 1] == m->c;
        if (rest ? !is_third(text, at, m) : !can_open(text, at, m)) continue;
        size_t end = closing(s, text, at, k);
        if (end == 0) continue;
        s->close[k] = end;
        add_mark(p, part(text, at, at + m->len), style_at(s, base));
        return m->len;
    }
    return 0;
}

/* Adds a line whose marks become styles. Marks do not nest: each has its own two ends. */
static void add_inline(page *p, ms_str text, unsigned base)
{
    inline_state s;
    memset(&s, 0, sizeof s);
    for (size_t i = 0; i < text.len;) {
        char c = text.ptr[i];
        unsigned style = style_at(&s, base);
        if (c == '\\' && i + 1 < text.len) { /* it stays, and the mark after it, too */
            ms_str two = part(text, i, text.len);
            add_point(p, visible(next_point(&two)), style);
            add_point(p, visible(next_point(&two)), style);
            i = text.len - two.len;
            continue;
        }
        if (c == '`') {
            size_t n = run_at(text, i), end = code_end(&s, text, i, n);
            bool whole = end > 0 && (s.link == 0 || end <= s.link);
            if (whole) {
                add_mark(p, part(text, i, i + n), style);
                add_text(p, part(text, i + n, end - n), style | CODE);
                add_mark(p, part(text, i, i + n), style);
            } else {
                add_text(p, part(text, i, i + n), style);
            }
            i = whole ? end : i + n;
            continue;
        }
        if (c == '[' && s.link == 0 && read_link(&s, text, i)) {
            i++;
            continue;
        }
        if (s.link > 0 && i == s.link) {
            size_t end = s.link_end;
            s.link = 0;
            add_text(p, MS_STR(" "), base);
            add_text(p, part(text, i + 1, end + 1), base);
            i = end + 1;
            for (size_t k = 0; k < COUNT_OF(marks); k++) { /* ends inside the address */
                if (s.close[k] > 0 && s.close[k] < i) s.close[k] = 0;
            }
            continue;
        }
        if (c == '*' || c == '_' || c == '~') {
            size_t n = take_mark(p, &s, text, i, base);
            if (n == 0) {
                n = run_at(text, i);
                for (size_t k = 0; k < COUNT_OF(marks); k++) { /* not past an end */
                    if (s.close[k] > i && s.close[k] < i + n) n = s.close[k] - i;
                }
                add_text(p, part(text, i, i + n), style);
            }
            i += n;
            continue;
        }
        ms_str rest = part(text, i, text.len);
        add_point(p, visible(next_point(&rest)), style);
        i = text.len - rest.len;
    }
}


/* ---- Blocks ------------------------------------------------------------------------ */

/* Returns the length of a fence that a line begins with, 0 if none; its indent. */
static size_t fence_of(ms_str line, size_t *indent)
{
    size_t i = 0;
    while (i < line.len && line.ptr[i] == ' ') i++;
    *indent = i;
    if (i >= line.len || (line.ptr[i] != '`' && line.ptr[i] != '~')) return 0;
    size_t n = run_at(line, i);
    bool info = line.ptr[i] == '~' ||
                memchr(line.ptr + i + n, '`', line.len - i - n) == NULL;
    return n >= 3 && n <= RUN_MOST && info ? n : 0;
}

static bool ends_fence(ms_str line, char c, size_t n)
{
    size_t indent, len = fence_of(line, &indent);
    return len >= n && line.ptr[indent] == c &&
           trimmed(part(line, indent + len, line.len)).len == 0;
}

/* Prints a block of code, if the line is a fence with an end. */
static bool put_fenced(page *p, ms_str line)
{
    size_t indent, n = fence_of(line, &indent);
    if (n == 0) return false;
    char c = line.ptr[indent];
    size_t *unclosed = &p->unclosed[c == '~'];
    if (*unclosed > 0 && n >= *unclosed) return false;
    ms_str rest = p->rest;
    bool found = false;
    while (!found && rest.len > 0) found = ends_fence(take_line(&rest), c, n);
    if (!found) {
        *unclosed = n;
        return false;
    }
    unsigned margin = indent < p->width / 2 ? (unsigned)indent : p->width / 2;
    ms_str info = trimmed(part(line, indent + n, line.len));
    if (info.len > 0) put_plain(p, info, margin + 2, DIM);
    for (;;) {
        ms_str code = take_line(&p->rest);
        if (ends_fence(code, c, n)) break;
        size_t cut = 0;
        while (cut < indent && cut < code.len && code.ptr[cut] == ' ') cut++;
        code = part(code, cut, code.len);
        put_plain(p, code, code.len > 0 ? margin + 4 : 0, code.len > 0 ? DIM : 0);
    }
    return true;
}

/* Cuts the next cell off a row; `row` begins after its first bar. */
static ms_str take_cell(ms_str *row)
{
    size_t i = 0;
    while (i < row->len && row->ptr[i] != '|') i += row->ptr[i] == '\\' ? 2 : 1;
    if (i > row->len) i = row->len;
    ms_str one = trimmed(part(*row, 0, i));
    *row = part(*row, i < row->len ? i + 1 : i, row->len);
    return one;
}

static ms_str row_of(ms_str line)
{
    line = trimmed(line);
    if (line.len > 0 && line.ptr[0] == '|') line = part(line, 1, line.len);
    bool escaped = line.len > 1 && line.ptr[line.len - 2] == '\\';
    if (line.len > 0 && line.ptr[line.len - 1] == '|' && !escaped) line.len--;
    return line;
}

static bool has_bar(ms_str line)
{
    return line.len > 0 && line.len <= LINE_MOST &&
           memchr(line.ptr, '|', line.len) != NULL;
}

/* Returns whether a line is one of dashes between head and rows. sides: 1 left, 2 right,
 * 3 centre. */
static bool is_rule(ms_str line, unsigned char *sides, size_t *columns)
{
    *columns = 0;
    if (!has_bar(line)) return false;
    ms_str row = row_of(line);
    do {
        ms_str one = take_cell(&row);
        size_t dashes = 0;
        bool first = one.len > 0 && one.ptr[0] == ':';
        bool last = one.len > 1 && one.ptr[one.len - 1] == ':';
        for (size_t i = first; i < one.len - last; i++) {
            if (one.ptr[i] != '-') return false;
            dashes++;
        }
        if (dashes == 0 || *columns == COLUMNS_MOST) return false;
        sides[(*columns)++] = (unsigned char)(last ? first ? 3 : 2 : 1);
    } while (row.len > 0);
    return true;
}

static void put_cell(page *p, unsigned width, unsigned side, bool last)
{
    unsigned used = width_of(p->line, arrlenu(p->line));
    unsigned room = width > used ? width - used : 0;
    unsigned before = side == 2 ? room : side == 3 ? room / 2 : 0;
    put_spaces(p, before);
    put_glyphs(p, p->line, arrlenu(p->line));
    if (!last) put_spaces(p, room - before);
    emit_text(p->out, last ? "\n" : " \xe2\x94\x82 ");
}

/* Prints a table, if the line and the one after it begin one that fits. */
static bool put_table(page *p, ms_str line)
{
    unsigned char sides[COLUMNS_MOST];
    unsigned widths[COLUMNS_MOST] = {0};
    size_t columns, n = 0;
    ms_str after = p->rest;
    if (!has_bar(line) || (p->no_table != NULL && line.ptr < p->no_table)) return false;
    if (!is_rule(take_line(&after), sides, &columns)) return false;
    bool fits = true;
    ms_str rest = after, row = line;
    while (has_bar(row)) { /* measures */
        ms_str cells = row_of(row);
        for (size_t i = 0; i == 0 || cells.len > 0; i++) {
            if (i == columns) {
                fits = false;
                break;
            }
            arrsetlen(p->line, 0);
            add_inline(p, take_cell(&cells), n == 0 ? BOLD : 0);
            unsigned width = width_of(p->line, arrlenu(p->line));
            if (width > widths[i]) widths[i] = width;
        }
        after = rest;
        row = take_line(&rest);
        n++;
    }
    unsigned all = 3 * (unsigned)(columns - 1);
    for (size_t i = 0; i < columns; i++) all += widths[i];
    if (!fits || all > p->width) {
        p->no_table = after.ptr;
        return false;
    }
    rest = p->rest;
    take_line(&rest);
    row = line;
    for (size_t r = 0; r < n; r++) {
        ms_str cells = row_of(row);
        for (size_t i = 0; i < columns; i++) {
            arrsetlen(p->line, 0);
            add_inline(p, take_cell(&cells), r == 0 ? BOLD : 0);
            put_cell(p, widths[i], sides[i], i + 1 == columns);
        }
        for (size_t i = 0; r == 0 && i < columns; i++) {
            for (unsigned k = 0; k < widths[i]; k++) emit_text(p->out, "\xe2\x94\x80");
            emit_text(p->out, i + 1 == columns ? "\n"
                                               : "\xe2\x94\x80\xe2\x94\xbc\xe2\x94\x80");
        }
        if (r + 1 < n) row = take_line(&rest);
    }
    p->rest = rest;
    return true;
}

/* Returns whether a line has only three or more of one mark: a line between parts. */
static bool is_break(ms_str line)
{
    size_t n = 0;
    line = trimmed(line);
    if (line.len == 0 || line.ptr[0] == '\0') return false;
    if (strchr("-*_", line.ptr[0]) == NULL) return false;
    for (size_t i = 0; i < line.len; i++) {
        if (line.ptr[i] == line.ptr[0]) n++;
        else if (line.ptr[i] != ' ') return false;
    }
    return n >= 3;
}

/* Returns the length of the mark of an item with the blank after it, 0 if none. */
static size_t item_mark(ms_str text)
{
    size_t i = 0;
    while (i < text.len && i < 9 && text.ptr[i] >= '0' && text.ptr[i] <= '9') i++;
    bool numbered = i > 0 && i < text.len && (text.ptr[i] == '.' || text.ptr[i] == ')');
    bool bullet = i == 0 && text.len > 0 && text.ptr[0] != '\0' &&
                  strchr("-*+", text.ptr[0]) != NULL;
    if (!numbered && !bullet) return 0;
    return i + 1 < text.len && text.ptr[i + 1] == ' ' ? i + 2 : 0;
}

/* Prints a line of text: a heading, an item, a quotation, or none of them. */
static void put_text(page *p, ms_str line)
{
    unsigned quotes = 0;
    size_t indent = 0, level = 0;
    while (quotes < QUOTES_MOST) {
        size_t i = 0;
        while (i < line.len && i < 3 && line.ptr[i] == ' ') i++;
        if (i >= line.len || line.ptr[i] != '>') break;
        i += i + 1 < line.len && line.ptr[i + 1] == ' ' ? 2 : 1;
        line = part(line, i, line.len);
        quotes++;
    }
    while (indent < line.len && line.ptr[indent] == ' ') indent++;
    ms_str text = part(line, indent, line.len);
    arrsetlen(p->line, 0);
    if (is_break(line)) {
        for (unsigned i = 2 * quotes; i < p->width; i++) add_point(p, 0x2500, DIM);
        put_wrapped(p, quotes, 0);
        return;
    }
    while (level < text.len && text.ptr[level] == '#') level++;
    if (level >= 1 && level <= 6 && level < text.len && text.ptr[level] == ' ') {
        add_mark(p, part(text, 0, level + 1), 0);
        add_inline(p, trimmed(part(text, level, text.len)),
                   BOLD | (level == 1 ? (unsigned)LINK : 0));
        put_wrapped(p, quotes, 0);
        return;
    }
    for (size_t i = 0; i < indent; i++) add_point(p, ' ', 0);
    size_t item = item_mark(text);
    p->in_list = item > 0 || (p->in_list && indent > 0);
    bool bullet = item > 0 && (text.ptr[0] < '0' || text.ptr[0] > '9');
    if (bullet) add_text(p, MS_STR("\xe2\x80\xa2 "), 0);
    else if (item > 0) add_text(p, part(text, 0, item), 0);
    add_inline(p, part(text, item, text.len), 0);
    put_wrapped(p, quotes, (unsigned)(indent + item));
}

void emit_markdown(output *out, ms_str text, unsigned width, bool colour)
{
    page p;
    memset(&p, 0, sizeof p);
    p.out = out;
    p.rest = text;
    p.width = width < 20 ? 20 : width;
    p.colour = colour;
    p.after_blank = true;
    do {
        ms_str line = take_line(&p.rest);
        bool code = line.len >= 4 && memcmp(line.ptr, "    ", 4) == 0 && p.after_blank &&
                    !p.in_list && item_mark(trimmed(line)) == 0;
        bool tabs = line.len > 0 && memchr(line.ptr, '\t', line.len) != NULL;
        bool blank = trimmed(line).len == 0;
        if (blank || tabs || line.len > LINE_MOST) put_plain(&p, line, 0, 0);
        else if (code) put_plain(&p, line, 0, DIM);
        else if (!put_fenced(&p, line) && !put_table(&p, line)) put_text(&p, line);
        p.after_blank = blank || code;
    } while (p.rest.len > 0 && out->error == 0);
    arrfree(p.line);
}
