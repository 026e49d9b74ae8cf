/* The bounds of the hardware, for `make bench`: logs with nothing that a store needs.
 *
 *   floor map         Records are copied into a shared map of a file, which gets room in
 *                     steps of 64 MiB. A sync is fdatasync.
 *   floor write       The same records, one write(2) a commit, and fdatasync.
 *   floor prefaulted  floor map with room, blocks and page tables of the whole test made
 *                     when it is opened, outside of the timing.
 *
 * A record is 48 bytes of header with a crc32c, and the texts. Beside the file there is
 * only an index in memory, an offset for each message in each (location, view). Opening
 * walks the file, checks each record, and makes the index anew. All else is left
 * out: recovery, several readers, queries other than the views, unknown names (locations
 * and agents are numbers here), errors of any kind. Run as in driver.c.
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

typedef struct list {
    uint64_t *at;
    size_t count, room;
} list;

static const size_t map_size = (size_t)64 << 30; /* addresses; the file is smaller */
static list lists[BENCH_LOCATIONS][LISTS];
static ms_str words[MS_TYPE_COUNT];
static uint32_t (*checksum)(const char *bytes, size_t size);

static struct peer {
    int file;
    bool writing, synced;
    char *map, *buffer;
    uint64_t end, room;       /* bytes used; bytes of file that may be used */
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

static list *list_of(size_t location, int class, size_t agent)
{
    size_t which = class == CLASS_AGENT          ? agent
                   : class == CLASS_CONVERSATION ? BENCH_AGENTS
                                                 : BENCH_AGENTS + 1;
    return &lists[location][which];
}

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
    push(list_of(r->location, bench_class(&item), r->agent), at);
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

static void take_list(const list *l, size_t newest, bench_reader *reader)
{
    size_t i = newest > 0 && newest < l->count ? l->count - newest : 0;
    for (; i < l->count; i++) {
        if (i + 3 < l->count) {
            __builtin_prefetch(peer.map + l->at[i + 3]);
            __builtin_prefetch(peer.map + l->at[i + 3] + 64);
        }
        take(l->at[i], reader);
    }
}

static void take_team(size_t location, bench_reader *reader)
{
    size_t at[BENCH_AGENTS] = {0};
    for (;;) {
        uint64_t least = UINT64_MAX;
        size_t which = 0;
        for (size_t a = 0; a < BENCH_AGENTS; a++) {
            const list *l = &lists[location][a];
            if (at[a] == l->count || l->at[at[a]] >= least) continue;
            least = l->at[at[a]];
            which = a;
        }
        if (least == UINT64_MAX) return;
        at[which]++;
        take(least, reader);
    }
}

static void map_read(const bench_data *d, int view, size_t location, size_t agent,
                     bench_reader *reader)
{
    const list *conversation = list_of(location, CLASS_CONVERSATION, agent);
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

const bench_store bench_stores[] = {
    {"floor map", "stores into a map, room in steps of 64 MiB", map_open, map_commit,
     map_read, map_close, map_scan},
    {"floor write", "one write(2) a commit", write_open, write_commit, map_read,
     map_close, map_scan},
    {"floor prefaulted", "map with blocks and page tables made before", ready_open,
     map_commit, map_read, map_close, map_scan}};
const size_t bench_n_stores = sizeof bench_stores / sizeof bench_stores[0];
