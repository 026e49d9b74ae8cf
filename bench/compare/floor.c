/* The bounds of the hardware, for `make bench`: logs with nothing that a store needs.
 *
 *   floor map         Records are copied into a shared map of a file, which gets room in
 *                     steps of 64 MiB. A sync is fdatasync.
 *   floor write       The same records, one write(2) a commit, and fdatasync.
 *   floor prefaulted  floor map with room, blocks and page tables of the whole test made
 *                     when it is opened, outside of the timing.
 *   floor index       floor map that writes the index to a file of its own when it is
 *                     closed. A reader maps both files, walks nothing and checks
 *                     nothing: the floor of a new process that reads some views.
 *                     Compaction writes the records view by view, so that those of a view
 *                     stand side by side.
 *   floor segments    floor index, with the index laid out as in a log of ours: for each
 *                     8 MiB of records the places of the records, and a table of posting
 *                     lists found by a hash of their names; a word a record shows that
 *                     it was checked. It is written when the log is closed, read in turn
 *                     segment by segment, with the records read ahead as in floor index:
 *                     what this layout costs alone. A list's name is never compared.
 *
 * A record is 48 bytes of header with a crc32c, and the texts. Beside the file there is
 * only an index in memory, the number and the place of each message in each (location,
 * view). Opening walks the file, checks each record, and makes the index anew (but see
 * floor index and floor segments). All else is left out: recovery, several readers,
 * queries other than the views, unknown names (locations and agents are numbers here),
 * errors of any kind. Run as in driver.c.
 */
#define _GNU_SOURCE
#include "driver.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum {
    TEXTS = COLUMN_FROM_MANAGER - COLUMN_TURN + 1,
    STEP = 64 << 20,          /* bytes of room at a time */
    NAMES = 12 + 7,           /* bytes of a location and an agent, which the header counts
                                 by `named` */
    RECORD_MOST = 48 + 64 + 2 * BENCH_LARGEST,
    LISTS = BENCH_AGENTS + 2  /* of a location: agents, conversation, global */
};

typedef struct record {
    uint32_t size, crc;       /* of the whole record, padded to 8; of all after it */
    int64_t time_ns;
    uint8_t type, location, agent, named;
    uint32_t len[TEXTS];      /* columns TURN to FROM_MANAGER; the texts follow */
} record;

/* Entries: the number of a message in the upper 32 bits, its offset / 8 below. */
typedef struct list {
    uint64_t *at;
    size_t count, room;
} list;

/* The file of floor index begins so; the entries of all lists follow. */
typedef struct index_head {
    struct {
        uint64_t first, count;
    } list[BENCH_LOCATIONS][LISTS];
} index_head;

static const size_t map_size = (size_t)64 << 30; /* addresses; the file is smaller */
static list lists[BENCH_LOCATIONS][LISTS];
static ms_str words[MS_TYPE_COUNT];
static uint32_t (*checksum)(const char *bytes, size_t size);

static struct peer {
    int file;
    bool writing, synced;
    char *map, *buffer;
    uint64_t end, room;       /* bytes used; bytes of file that may be used */
    uint64_t count;           /* messages */
    const index_head *index;  /* in a map of index_size bytes; NULL: the lists count */
    size_t index_size;
    char folder[4096];        /* of floor index */
} peer;


/* ---- crc32c, size a multiple of 8 ---- */

static uint32_t crc_plain(const char *bytes, size_t size)
{
    static uint32_t table[256];
    uint32_t crc = UINT32_MAX;
    for (uint32_t i = 0; table[255] == 0 && i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = (table[i] >> 1) ^ (table[i] & 1 ? UINT32_C(0x82F63B78) : 0);
    }
    for (size_t i = 0; i < size; i++)
        crc = (crc >> 8) ^ table[(crc ^ (unsigned char)bytes[i]) & 255];
    return ~crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("sse4.2"))) static uint32_t crc_fast(const char *bytes, size_t size)
{
    uint64_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i += 8)
        crc = __builtin_ia32_crc32di(crc, bench_word(bytes + i));
    return ~(uint32_t)crc;
}

static void pick_checksum(void)
{
    checksum = __builtin_cpu_supports("sse4.2") ? crc_fast : crc_plain;
}
#else
static void pick_checksum(void) { checksum = crc_plain; }
#endif


/* ---- index and records ---- */

static size_t which_list(int class, size_t agent)
{
    return class == CLASS_AGENT          ? agent
           : class == CLASS_CONVERSATION ? BENCH_AGENTS
                                         : BENCH_AGENTS + 1;
}

/* Returns a list to read. */
static list list_of(size_t location, int class, size_t agent)
{
    size_t which = which_list(class, agent);
    if (peer.index == NULL) return lists[location][which];
    list l = {NULL, (size_t)peer.index->list[location][which].count, 0};
    l.at = (uint64_t *)(uintptr_t)(peer.index + 1);
    l.at += peer.index->list[location][which].first;
    return l;
}

static uint64_t place_of(uint64_t entry) { return (entry & UINT32_MAX) * 8; }

static void push(list *l, uint64_t at)
{
    if (l->count == l->room) {
        l->room = l->room > 0 ? 2 * l->room : 64;
        l->at = (uint64_t *)realloc(l->at, l->room * sizeof *l->at);
        bench_must(l->at != NULL, "memory");
    }
    l->at[l->count++] = at;
}

static void index_record(const record *r, uint64_t at)
{
    bench_item item = {0, 0, 0, r->type, r->location, r->agent};
    push(&lists[r->location][which_list(bench_class(&item), r->agent)],
         peer.count++ << 32 | at / 8);
}

static char *put(char *to, ms_str text)
{
    if (text.len > 0) memcpy(to, text.ptr, text.len);
    return to + text.len;
}

/* Writes message i as a record; returns its size. */
static size_t encode(const bench_data *d, size_t i, char *to)
{
    bench_row row = bench_row_of(d, i);
    const bench_item *item = &d->items[i];
    record r;
    char *at = to + sizeof r;
    for (int c = COLUMN_LOCATION; c < COLUMNS; c++) at = put(at, row.column[c]);
    for (; (at - to) % 8 != 0; at++) *at = 0;
    r.size = (uint32_t)(at - to);
    r.time_ns = row.time_ns;
    r.type = item->type;
    r.location = item->location;
    r.agent = item->agent;
    r.named = row.column[COLUMN_AGENT].len > 0;
    for (int c = 0; c < TEXTS; c++)
        r.len[c] = (uint32_t)row.column[COLUMN_TURN + c].len;
    memcpy(to, &r, sizeof r);
    r.crc = checksum(to + 8, r.size - 8);
    memcpy(to + 4, &r.crc, sizeof r.crc);
    return r.size;
}

static void take(uint64_t at, bench_reader *reader)
{
    const char *text = peer.map + at + sizeof(record);
    bench_row row;
    record r;
    memcpy(&r, peer.map + at, sizeof r);
    row.column[COLUMN_TYPE] = words[r.type];
    row.column[COLUMN_LOCATION] = ms_str_n(text, 12);
    row.column[COLUMN_AGENT] = ms_str_n(text + 12, r.named ? NAMES - 12 : 0);
    text += r.named ? NAMES : 12;
    for (int c = 0; c < TEXTS; c++) {
        row.column[COLUMN_TURN + c] = ms_str_n(text, r.len[c]);
        text += r.len[c];
    }
    row.time_ns = r.time_ns;
    bench_take(reader, &row);
}


/* ---- opening and closing ---- */

static void open_file(const char *folder, int how)
{
    char path[4200];
    struct stat st;
    if (sizeof(record) != 48) bench_die("floor", "the header is not 48 bytes long");
    snprintf(path, sizeof path, "%s/floor.log", folder);
    peer.writing = (how & (OPEN_NEW | OPEN_WRITE)) != 0;
    peer.synced = (how & OPEN_SYNC) != 0;
    int rights = (peer.writing ? O_RDWR : O_RDONLY) | (how & OPEN_NEW ? O_CREAT : 0);
    peer.file = open(path, rights, 0600);
    bench_must(peer.file >= 0 && fstat(peer.file, &st) == 0, path);
    peer.end = peer.room = (uint64_t)st.st_size;
    peer.count = 0;
    pick_checksum();
    for (int i = 1; i < MS_TYPE_COUNT; i++)
        words[i] = ms_str_of(ms_type_word((ms_type)i));
}

static void map_file(void)
{
    int rights = peer.writing ? PROT_READ | PROT_WRITE : PROT_READ;
    void *at = mmap(NULL, map_size, rights, MAP_SHARED | MAP_NORESERVE, peer.file, 0);
    bench_must(at != MAP_FAILED, "a map");
    peer.map = (char *)at;
}

/* Checks each record and makes the index. */
static void walk(void)
{
    record r;
    for (uint64_t at = 0; at < peer.end; at += r.size) {
        memcpy(&r, peer.map + at, sizeof r);
        if (r.size > peer.end - at || checksum(peer.map + at + 8, r.size - 8) != r.crc)
            bench_die("floor", "a record is damaged");
        index_record(&r, at);
    }
}

static void map_open(const char *folder, int how)
{
    open_file(folder, how);
    map_file();
    walk();
}

static void write_open(const char *folder, int how)
{
    map_open(folder, how);
    bench_must(lseek(peer.file, 0, SEEK_END) >= 0, "lseek");
    if (peer.writing && peer.buffer == NULL) peer.buffer = (char *)bench_memory(STEP);
}

static void make_room(uint64_t size)
{
    errno = posix_fallocate(peer.file, (off_t)peer.room, (off_t)size);
    bench_must(errno == 0, "room");
    peer.room += size;
}

static void ready_open(const char *folder, int how)
{
    map_open(folder, how);
    if (!peer.writing) return;
    make_room(bench_messages() * 1024 + STEP);
    if (madvise(peer.map, peer.room, MADV_POPULATE_WRITE) == 0) return;
    volatile char *page = peer.map;
    for (uint64_t at = peer.end; at < peer.room; at += 4096) page[at] = 0;
}

static void map_close(void)
{
    for (size_t i = 0; i < BENCH_LOCATIONS * LISTS; i++) {
        free(lists[i / LISTS][i % LISTS].at);
        memset(&lists[i / LISTS][i % LISTS], 0, sizeof(list));
    }
    munmap(peer.map, map_size);
    if (peer.writing) bench_must(ftruncate(peer.file, (off_t)peer.end) == 0, "ftruncate");
    close(peer.file);
}


/* ---- commits ---- */

static void map_commit(const bench_data *d, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        if (peer.room - peer.end < RECORD_MOST) make_room(STEP);
        size_t size = encode(d, i, peer.map + peer.end);
        index_record((const record *)(const void *)(peer.map + peer.end), peer.end);
        peer.end += size;
    }
    if (peer.synced) bench_must(fdatasync(peer.file) == 0, "fdatasync");
}

static void write_commit(const bench_data *d, size_t first, size_t count)
{
    size_t used = 0;
    for (size_t i = first; i < first + count; i++) {
        if (STEP - used < RECORD_MOST) bench_die("floor", "the batch is too large");
        size_t size = encode(d, i, peer.buffer + used);
        index_record((const record *)(const void *)(peer.buffer + used),
                     peer.end + used);
        used += size;
    }
    bench_must(write(peer.file, peer.buffer, used) == (ssize_t)used, "write");
    peer.end += used;
    if (peer.synced) bench_must(fdatasync(peer.file) == 0, "fdatasync");
}


/* ---- reading ---- */

static void take_list(list l, size_t newest, bench_reader *reader)
{
    size_t i = newest > 0 && newest < l.count ? l.count - newest : 0;
    for (; i < l.count; i++) {
        if (i + 3 < l.count) {
            const char *soon = peer.map + place_of(l.at[i + 3]);
            __builtin_prefetch(soon);
            __builtin_prefetch(soon + 64);
        }
        take(place_of(l.at[i]), reader);
    }
}

static void take_team(size_t location, bench_reader *reader)
{
    size_t at[BENCH_AGENTS] = {0};
    list all[BENCH_AGENTS];
    for (size_t a = 0; a < BENCH_AGENTS; a++) all[a] = list_of(location, CLASS_AGENT, a);
    for (;;) {
        uint64_t least = UINT64_MAX;
        size_t which = 0;
        for (size_t a = 0; a < BENCH_AGENTS; a++) {
            const list *l = &all[a];
            if (at[a] == l->count || l->at[at[a]] >= least) continue;
            least = l->at[at[a]];
            which = a;
        }
        if (least == UINT64_MAX) return;
        at[which]++;
        take(place_of(least), reader);
    }
}

static void map_read(const bench_data *d, int view, size_t location, size_t agent,
                     bench_reader *reader)
{
    list conversation = list_of(location, CLASS_CONVERSATION, agent);
    (void)d;
    if (view == VIEW_TAIL) take_list(conversation, 20, reader);
    if (view == VIEW_TEAM) take_team(location, reader);
    if (view == VIEW_CONVERSATION || view == VIEW_HISTORY)
        take_list(conversation, 0, reader);
    if (view == VIEW_AGENT || view == VIEW_HISTORY)
        take_list(list_of(location, CLASS_AGENT, agent), 0, reader);
    if (view == VIEW_GLOBAL || view == VIEW_HISTORY)
        take_list(list_of(location, CLASS_GLOBAL, agent), 0, reader);
}

static void map_scan(bench_reader *reader)
{
    uint32_t size, crc;
    for (uint64_t at = 0; at < peer.end; at += size) {
        memcpy(&size, peer.map + at, sizeof size);
        memcpy(&crc, peer.map + at + 4, sizeof crc);
        if (checksum(peer.map + at + 8, size - 8) != crc)
            bench_die("floor", "a record is damaged");
        take(at, reader);
    }
}


/* ---- floor index ---- */

static void index_path(char path[4200], const char *name)
{
    snprintf(path, 4200, "%s/%s", peer.folder, name);
}

static FILE *new_file(const char *name)
{
    char path[4200];
    index_path(path, name);
    FILE *out = fopen(path, "wb");
    bench_must(out != NULL && setvbuf(out, NULL, _IOFBF, 1 << 20) == 0, path);
    return out;
}

static void put_bytes(FILE *out, const void *bytes, size_t size)
{
    bench_must(fwrite(bytes, 1, size, out) == size, "write");
}

/* Writes the lists as the file of that name. */
static void write_index(const char *name)
{
    static index_head head;
    uint64_t first = 0;
    FILE *out = new_file(name);
    for (size_t i = 0; i < BENCH_LOCATIONS * LISTS; i++) {
        const list *l = &lists[i / LISTS][i % LISTS];
        head.list[i / LISTS][i % LISTS].first = first;
        head.list[i / LISTS][i % LISTS].count = l->count;
        first += l->count;
    }
    put_bytes(out, &head, sizeof head);
    for (size_t i = 0; i < BENCH_LOCATIONS * LISTS; i++) {
        const list *l = &lists[i / LISTS][i % LISTS];
        if (l->count > 0) put_bytes(out, l->at, l->count * sizeof *l->at);
    }
    bench_must(fclose(out) == 0, name);
}

static void map_index(void)
{
    char path[4200];
    struct stat st;
    index_path(path, "floor.index");
    int file = open(path, O_RDONLY);
    bench_must(file >= 0 && fstat(file, &st) == 0, path);
    peer.index_size = (size_t)st.st_size;
    void *at = mmap(NULL, peer.index_size, PROT_READ, MAP_SHARED, file, 0);
    bench_must(at != MAP_FAILED, path);
    peer.index = (const index_head *)at;
    close(file);
}

static void index_open(const char *folder, int how)
{
    snprintf(peer.folder, sizeof peer.folder, "%s", folder);
    open_file(folder, how);
    map_file();
    if (peer.writing) walk();
    else map_index();
}

static void index_close(void)
{
    if (peer.writing) write_index("floor.index");
    if (peer.index != NULL) munmap((void *)(uintptr_t)peer.index, peer.index_size);
    peer.index = NULL;
    map_close();
}

/* Appends the records of a list to a file that has *end bytes; the entries get the new
 * places. */
static void move_list(list *l, FILE *out, uint64_t *end)
{
    for (size_t i = 0; i < l->count; i++) {
        const char *from = peer.map + place_of(l->at[i]);
        uint32_t size;
        memcpy(&size, from, sizeof size);
        put_bytes(out, from, size);
        l->at[i] = (l->at[i] >> 32 << 32) | *end / 8;
        *end += size;
    }
}

static void put_in_place(const char *fresh, const char *name)
{
    char from[4200], to[4200];
    index_path(from, fresh);
    index_path(to, name);
    bench_must(rename(from, to) == 0, to);
}

/* Writes both files anew. The records must be in the order of their numbers. */
static void index_compact(const char *folder)
{
    uint64_t end = 0;
    snprintf(peer.folder, sizeof peer.folder, "%s", folder);
    map_open(folder, 0);
    FILE *out = new_file("new.log");
    for (size_t i = 0; i < BENCH_LOCATIONS * LISTS; i++)
        move_list(&lists[i / LISTS][i % LISTS], out, &end);
    bench_must(fclose(out) == 0, "close");
    write_index("new.index");
    map_close();
    put_in_place("new.log", "floor.log");
    put_in_place("new.index", "floor.index");
}

/* ---- floor segments ---- */

enum {
    SEGMENT = 8 << 20,
    RECORDS = 65536,          /* of a segment at most: an entry has 2 bytes */
    BUCKETS = 1024,           /* about as many as lists */
    SOON = 16                 /* places are prefetched so many records before */
};

/* A segment in the file of the index: this struct, and its arrays one after the other. */
typedef struct segment {
    uint64_t base;            /* of its records in the log */
    uint32_t records, lists, size, zero; /* size: of all of it */
    uint32_t bucket[BUCKETS + 1]; /* the first list of each */
} segment;

static const segment *segments[4096];
static size_t n_segments;

/* The arrays of a segment. */
typedef struct arrays {
    const uint64_t *number;   /* of each list */
    const uint32_t *place;    /* of each record, in units of 8 bytes from the base */
    const uint32_t *checked;  /* a bit for each record */
    const uint32_t *begin;    /* of each list its first posting; and the end */
    const uint16_t *posting;  /* numbers of records in the segment */
} arrays;

static arrays arrays_of(const segment *s)
{
    arrays a;
    a.number = (const uint64_t *)(const void *)(s + 1);
    a.place = (const uint32_t *)(a.number + s->lists);
    a.checked = a.place + s->records;
    a.begin = a.checked + s->records / 32 + 1;
    a.posting = (const uint16_t *)(a.begin + s->lists + 1);
    return a;
}

/* Returns the number of a list: a hash of its names. The upper bits are its bucket. */
static uint64_t number_of(size_t location, size_t which)
{
    uint64_t state = location * LISTS + which + 1;
    return bench_random(&state);
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = (const uint64_t *)a, *y = (const uint64_t *)b;
    return *x < *y ? -1 : *x > *y;
}

static size_t list_number(const record *r)
{
    bench_item item = {0, 0, 0, r->type, r->location, r->agent};
    return r->location * LISTS + which_list(bench_class(&item), r->agent);
}

/* Writes the segment of the records from `base` on; returns where the next one begins. */
static uint64_t write_segment(FILE *out, uint64_t base)
{
    enum { ALL = LISTS * BENCH_LOCATIONS };
    static uint32_t place[RECORDS], checked[RECORDS / 32 + 1], of[RECORDS];
    static uint32_t count[ALL], begin[ALL + 1];
    static uint64_t sorted[ALL][2];
    static uint16_t posting[RECORDS];
    static segment s;
    uint64_t at = base;
    memset(&s, 0, sizeof s);
    memset(count, 0, sizeof count);
    memset(checked, 255, sizeof checked);
    for (; at < peer.end && at - base < SEGMENT && s.records < RECORDS; s.records++) {
        const record *r = (const record *)(const void *)(peer.map + at);
        place[s.records] = (uint32_t)((at - base) / 8);
        of[s.records] = (uint32_t)list_number(r);
        count[of[s.records]]++;
        at += r->size;
    }
    for (size_t l = 0; l < ALL; l++) {
        if (count[l] == 0) continue;
        sorted[s.lists][0] = number_of(l / LISTS, l % LISTS);
        sorted[s.lists++][1] = l;
    }
    qsort(sorted, s.lists, sizeof sorted[0], by_number);
    s.base = base;
    s.size = (uint32_t)(sizeof s + s.lists * 12 + 4 + s.records * 6 +
                        (s.records / 32 + 1) * 4 + 7) & ~7u;
    for (size_t i = 0, b = 0; i <= s.lists; i++) {
        size_t to = i < s.lists ? (size_t)(sorted[i][0] >> 54) : BUCKETS;
        for (; b <= to; b++) s.bucket[b] = (uint32_t)i;
        begin[i] = i == 0 ? 0 : begin[i - 1] + count[sorted[i - 1][1]];
    }
    for (size_t i = 0; i < s.lists; i++) count[sorted[i][1]] = begin[i];
    for (uint32_t i = 0; i < s.records; i++) posting[count[of[i]]++] = (uint16_t)i;
    put_bytes(out, &s, sizeof s);
    for (size_t i = 0; i < s.lists; i++) put_bytes(out, &sorted[i][0], 8);
    put_bytes(out, place, s.records * 4);
    put_bytes(out, checked, (s.records / 32 + 1) * 4);
    put_bytes(out, begin, (s.lists + 1) * 4);
    put_bytes(out, posting, s.records * 2);
    size_t used = sizeof s + s.lists * 12 + 4 + s.records * 6 + (s.records / 32 + 1) * 4;
    put_bytes(out, "\0\0\0\0\0\0\0", s.size - used);
    return at;
}

static void segments_open(const char *folder, int how)
{
    index_open(folder, how);
    n_segments = 0;
    if (peer.index == NULL) return;
    const char *at = (const char *)(const void *)peer.index, *end = at + peer.index_size;
    for (; at < end; at += segments[n_segments++]->size)
        segments[n_segments] = (const segment *)(const void *)at;
}

static void segments_close(void)
{
    if (peer.writing) {
        FILE *out = new_file("floor.index");
        for (uint64_t at = 0; at < peer.end;) at = write_segment(out, at);
        bench_must(fclose(out) == 0, "close");
    }
    if (peer.index != NULL) munmap((void *)(uintptr_t)peer.index, peer.index_size);
    peer.index = NULL;
    map_close();
}

/* Where a reader stands in a list: addresses of the records that are next. */
typedef struct run {
    uint64_t number;
    size_t segment;           /* the next one */
    const uint16_t *posting;
    const segment *s;
    arrays a;
    uint32_t n;               /* of the run, not yet read */
    uint64_t next;            /* place of the next record */
} run;

/* Moves to the next record; false: there is none. step: -1 reads the newest first. */
static bool run_next(run *r, int step)
{
    while (r->n == 0) {
        if (r->segment >= n_segments) return false;
        const segment *s = r->s = segments[r->segment];
        arrays a = r->a = arrays_of(s);
        r->segment += (size_t)(ptrdiff_t)step;
        uint32_t i = s->bucket[r->number >> 54], end = s->bucket[(r->number >> 54) + 1];
        while (i < end && a.number[i] != r->number) i++;
        if (i == end) continue;
        r->n = a.begin[i + 1] - a.begin[i];
        r->posting = a.posting + (step > 0 ? a.begin[i] : a.begin[i + 1] - 1);
        for (int k = 0; k < (int)r->n && k < SOON; k++)
            __builtin_prefetch(&a.place[r->posting[k * step]]);
    }
    if (r->n > SOON) __builtin_prefetch(&r->a.place[r->posting[SOON * step]]);
    uint32_t entry = *r->posting;
    if (!(r->a.checked[entry / 32] >> entry % 32 & 1)) bench_die("floor", "not checked");
    r->next = r->s->base + (uint64_t)r->a.place[entry] * 8;
    r->posting += step;
    r->n--;
    return true;
}

/* Takes records of a list, eight after each was found. */
static void take_run(size_t location, size_t which, bench_reader *reader)
{
    uint64_t ring[8];
    size_t found = 0, taken = 0;
    run r = {number_of(location, which), 0, NULL, NULL, {0}, 0, 0};
    while (run_next(&r, 1)) {
        if (found - taken == 8) take(ring[taken++ % 8], reader);
        ring[found++ % 8] = r.next;
        __builtin_prefetch(peer.map + r.next);
        __builtin_prefetch(peer.map + r.next + 64);
    }
    while (taken < found) take(ring[taken++ % 8], reader);
}

static void take_newest(size_t location, size_t which, bench_reader *reader)
{
    uint64_t at[20];
    size_t n = 0;
    run r = {number_of(location, which), n_segments - 1, NULL, NULL, {0}, 0, 0};
    while (n < 20 && run_next(&r, -1)) {
        __builtin_prefetch(peer.map + r.next);
        __builtin_prefetch(peer.map + r.next + 64);
        at[n++] = r.next;
    }
    while (n > 0) take(at[--n], reader);
}

static void take_runs(size_t location, bench_reader *reader)
{
    run all[BENCH_AGENTS];
    size_t n = 0, least;
    for (size_t a = 0; a < BENCH_AGENTS; a++) {
        run r = {number_of(location, a), 0, NULL, NULL, {0}, 0, 0};
        if (run_next(&r, 1)) all[n++] = r;
    }
    for (; n > 0;) {
        least = 0;
        for (size_t i = 1; i < n; i++)
            if (all[i].next < all[least].next) least = i;
        take(all[least].next, reader);
        if (!run_next(&all[least], 1)) all[least] = all[--n];
        else __builtin_prefetch(peer.map + all[least].next);
    }
}

static void segments_read(const bench_data *d, int view, size_t location, size_t agent,
                          bench_reader *reader)
{
    (void)d;
    if (view == VIEW_TAIL) take_newest(location, BENCH_AGENTS, reader);
    if (view == VIEW_TEAM) take_runs(location, reader);
    if (view == VIEW_CONVERSATION || view == VIEW_HISTORY)
        take_run(location, BENCH_AGENTS, reader);
    if (view == VIEW_AGENT || view == VIEW_HISTORY) take_run(location, agent, reader);
    if (view == VIEW_GLOBAL || view == VIEW_HISTORY)
        take_run(location, BENCH_AGENTS + 1, reader);
}

const bench_store bench_stores[] = {
    {"floor map", "stores into a map, room in steps of 64 MiB", map_open, map_commit,
     map_read, map_close, map_scan, NULL},
    {"floor write", "one write(2) a commit", write_open, write_commit, map_read,
     map_close, map_scan, NULL},
    {"floor prefaulted", "map with blocks and page tables made before", ready_open,
     map_commit, map_read, map_close, map_scan, NULL},
    {"floor index", "map, and a mapped index beside it; compacted: view by view",
     index_open, map_commit, map_read, index_close, map_scan, index_compact},
    {"floor segments", "floor index, laid out as a log of ours", segments_open,
     map_commit, segments_read, segments_close, map_scan, NULL}};
const size_t bench_n_stores = sizeof bench_stores / sizeof bench_stores[0];
