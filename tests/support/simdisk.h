/* A simulated disk: a folder of files in memory, as file operations, that knows what a
 * power loss may leave of it.
 *
 *     sim_disk d, after;
 *     sim_init(&d);
 *     sim_init(&after);
 *     desc.os = &d.os;                       ... a writer works on d ...
 *     sim_cuts cuts = {0};
 *     sim_cuts_begin(&cuts, &d, 64, 30, 20, seed);
 *     while (sim_cuts_next(&cuts, &after)) {
 *         ... `after` is what a power loss leaves: a writer recovers, works ...
 *     }
 *     sim_cuts_free(&cuts);
 *
 * Of a file it keeps `base`, what the disk surely has, and the live bytes, what everybody
 * sees. Between the two lies the log of units, each of which may have reached the disk or
 * not:
 *
 *   DATA      a page (4096 bytes) of a file as it was after one write, or after stores
 *             into a map. A page written five times has five units. A sector (512 bytes)
 *             is the least that is written as one: its versions can be mixed with those
 *             of its neighbours, but nothing within a sector can.
 *   SIZE      a file's end has moved
 *   CREATE, RENAME, REMOVE
 *             a name stands for another file, or for none. A rename may also be half
 *             there: the new name stands for the file, and so does the old one.
 *
 * A sync of a file makes its DATA and SIZE units part of base; only a sync of the folder
 * does so with names. Everything else may be written back at any time and in any order:
 * every subset of the units is a legal state (of the versions of a sector the newest in
 * the subset counts).
 *
 * Stores into maps come without a call. They are found by comparing the pages of
 * writable maps with their newest unit: at each call that changes a disk or syncs, and
 * at sim_look. What happens to a page between two looks is one unit.
 *
 * sim_cuts_next makes one image after the other, no two the same. Where there are not
 * too many states, all of them, by sectors, else by pages. Otherwise every prefix of the
 * units in order, and all but one. Then, where that was not all by sectors: a prefix
 * whose last page is torn at a sector (what was not written of it holds what it held, or
 * garbage where that was nothing). Always: sizes and names without any data (blocks that
 * nobody wrote are zero, or hold what an older file left in them); data without sizes;
 * names without the rest, and the rest without names; random subsets, by sector and by
 * page.
 *
 * sim_kill copies a disk with its units, in the same boot, without the locks: what a
 * killed process leaves. A later power loss takes what was not synced as if the process
 * lived.
 *
 * A sync that fails (d.fails) leaves what it was to write in memory, and clean, as file
 * systems do: everybody reads it, it may be on the disk or not, and no later sync writes
 * it, unless the page was written again.
 *
 * What it leaves out: a touch after the end of a file does no harm here (disk.h has a
 * disk where it does); files do not shrink, the table has no call for that; bytes after
 * a file's end read zero. For one thread.
 */

#ifndef SIMDISK_H
#define SIMDISK_H

#include <endian.h>
#include "numbered_messages.h"

enum {
    SIM_PAGE = 4096,
    SIM_SECTOR = 512,
    SIM_ROOM = 1 << 19,       /* bytes that a file can have */
    SIM_VIEW = 4 * SIM_ROOM,  /* most that is mapped */
    SIM_PAGES = SIM_ROOM / SIM_PAGE,
    SIM_FILES = 8,
    SIM_NAMES = 8,
    SIM_OPEN = 16,
    SIM_MAPS = 8,             /* writable maps of a file */
    SIM_PATH = 56,
    SIM_CELLS = 24
};

typedef enum sim_kind { SIM_DATA, SIM_SIZE, SIM_CREATE, SIM_RENAME, SIM_REMOVE } sim_kind;

typedef struct sim_unit {
    sim_kind kind;
    int file;
    int page;                 /* DATA */
    unsigned changed;         /* DATA: sectors not as in the version before, bits */
    size_t bytes;             /* DATA: where the page's content is kept */
    bool dead;                /* DATA: a sync of it has failed; no later one writes it */
    uint64_t size;            /* SIZE: the new one */
    char name[SIM_PATH];      /* CREATE, REMOVE; RENAME: the new one */
    char old[SIM_PATH];       /* RENAME */
} sim_unit;

typedef struct sim_name {
    char path[SIM_PATH];
    int file;
} sim_name;

typedef struct sim_folder {
    sim_name names[SIM_NAMES];
    int count;
} sim_folder;

typedef struct sim_file {
    bool used;
    int fd;
    unsigned char *ro, *rw;   /* live: two views of the same bytes */
    unsigned char *base;      /* what the disk has */
    uint64_t size, base_size;
    size_t high;              /* all from here on is zero, in live and base; pages */
    int newest[SIM_PAGES];    /* unit of a page, -1: none */
    uint64_t inode;
    int opens, maps, locker;  /* locker: the handle that has the lock, 0: none */
    int n_stores;             /* writable maps: */
    struct { size_t at, size; } stores[SIM_MAPS];
} sim_file;

typedef struct sim_disk sim_disk;

typedef enum sim_call { SIM_AT_SYNC, SIM_AT_SYNC_FOLDER, SIM_AT_RENAME, SIM_AT_REMOVE,
                        SIM_AT_CREATE, SIM_AT_WRITE } sim_call;

struct sim_disk {
    ms_os os;                 /* pass its address to the library */
    sim_file files[SIM_FILES];
    sim_folder folder, base;  /* names now, and those the disk has */
    struct { int file; unsigned how; } handles[SIM_OPEN]; /* file -1: free */
    sim_unit *units;
    int n_units, cap_units;
    unsigned char *bytes;     /* of DATA units */
    size_t n_bytes, cap_bytes;
    uint64_t boot, next_inode, process;
    uint64_t micros;          /* the clock: grows by one at each look */
    uint64_t changes;         /* calls so far that change something */
    uint64_t syncs;           /* of files and of the folder */
    bool lies, folder_lies;   /* a sync of a file, of the folder does nothing */
    bool fails;               /* the next sync of a file fails */
    /* NULL, or called before such a call has any effect */
    void (*moment)(void *ctx, sim_disk *d, sim_call call);
    void *ctx;
    uint64_t device_more, inode_more; /* what stat adds to the numbers of a file */
    char link[SIM_PATH], link_to[SIM_PATH]; /* a symbolic link, on the disk; "": none */
    const char *synced_folder; /* a path in it */
    int from_page, upto_page; /* of a file, that are synced */
    const unsigned char *stale; /* SIM_ROOM bytes of an older file; NULL: zeros */
};


/* ---- what is logged ---- */

static inline void sim_stop(const char *what)
{
    fprintf(stderr, "simulated disk: %s\n", what);
    abort();
}

static inline sim_unit *sim_log(sim_disk *d, sim_kind kind, int file)
{
    if (d->n_units == d->cap_units) {
        d->cap_units = d->cap_units > 0 ? 2 * d->cap_units : 256;
        d->units = (sim_unit *)realloc(d->units,
                                       (size_t)d->cap_units * sizeof d->units[0]);
        if (d->units == NULL) sim_stop("no memory for units");
    }
    sim_unit *u = &d->units[d->n_units++];
    u->kind = kind;
    u->file = file;
    u->name[0] = u->old[0] = '\0';
    u->dead = false;
    return u;
}

static inline size_t sim_keep_page(sim_disk *d, const unsigned char *page)
{
    if (d->n_bytes + SIM_PAGE > d->cap_bytes) {
        d->cap_bytes = d->cap_bytes > 0 ? 2 * d->cap_bytes : (size_t)64 * SIM_PAGE;
        d->bytes = (unsigned char *)realloc(d->bytes, d->cap_bytes);
        if (d->bytes == NULL || d->cap_bytes > (size_t)1 << 28)
            sim_stop("too much was written without a sync");
    }
    memcpy(d->bytes + d->n_bytes, page, SIM_PAGE);
    d->n_bytes += SIM_PAGE;
    return d->n_bytes - SIM_PAGE;
}

/* Returns the newest known version of a page. */
static inline const unsigned char *sim_known(const sim_disk *d, const sim_file *f,
                                             int page)
{
    if (f->newest[page] >= 0) return d->bytes + d->units[f->newest[page]].bytes;
    return f->base + (size_t)page * SIM_PAGE;
}

/* Returns whether no sync will write the newest version of a page. */
static inline bool sim_is_dead(const sim_disk *d, const sim_file *f, int page)
{
    return f->newest[page] >= 0 && d->units[f->newest[page]].dead;
}

/* Makes a unit of a page whose live bytes differ from its known version; written: also of
 * one whose sync has failed. */
static inline void sim_look_at(sim_disk *d, int file, int page, bool written)
{
    sim_file *f = &d->files[file];
    const unsigned char *live = f->ro + (size_t)page * SIM_PAGE;
    const unsigned char *known = sim_known(d, f, page);
    bool again = written && sim_is_dead(d, f, page);
    unsigned changed = 0;
    if (!again && memcmp(live, known, SIM_PAGE) == 0) return;
    for (unsigned i = 0; i < 8; i++)
        if (again ||
            memcmp(live + i * SIM_SECTOR, known + i * SIM_SECTOR, SIM_SECTOR) != 0)
            changed |= 1u << i;
    sim_unit *u = sim_log(d, SIM_DATA, file);
    u->page = page;
    u->changed = changed;
    u->bytes = sim_keep_page(d, live);
    f->newest[page] = d->n_units - 1;
    if (f->high < (size_t)(page + 1) * SIM_PAGE) f->high = (size_t)(page + 1) * SIM_PAGE;
}

static inline void sim_look_between(sim_disk *d, int file, size_t from, size_t upto)
{
    for (size_t page = from / SIM_PAGE; page * SIM_PAGE < upto; page++)
        sim_look_at(d, file, (int)page, false);
}

/* Finds what was stored through maps since the last look. */
static inline void sim_look(sim_disk *d)
{
    for (int i = 0; i < SIM_FILES; i++) {
        const sim_file *f = &d->files[i];
        for (int k = f->n_stores; k-- > 0;) { /* windows before the head */
            size_t end = f->stores[k].at + f->stores[k].size;
            if (end > f->size) end = (size_t)f->size;
            sim_look_between(d, i, f->stores[k].at, end);
        }
    }
}

static inline void sim_moment(sim_disk *d, sim_call call)
{
    sim_look(d);
    if (d->moment != NULL) d->moment(d->ctx, d, call);
    d->changes++;
}

/* Drops the units of a file (-1: those of names), but those that are `kept`. */
static inline void sim_forget(sim_disk *d, int file, bool (*kept)(const sim_disk *, int))
{
    int n = 0;
    bool data = false;
    if (file >= 0 && kept == NULL)
        memset(d->files[file].newest, -1, sizeof d->files[file].newest);
    for (int i = 0; i < d->n_units; i++) {
        const sim_unit *u = &d->units[i];
        bool of_file = u->kind == SIM_DATA || u->kind == SIM_SIZE;
        bool drop = of_file ? u->file == file : file < 0;
        if (drop && (kept == NULL || !kept(d, i))) {
            if (u->kind == SIM_DATA && d->files[u->file].newest[u->page] == i)
                d->files[u->file].newest[u->page] = -1;
            continue;
        }
        if (u->kind == SIM_DATA && d->files[u->file].newest[u->page] == i)
            d->files[u->file].newest[u->page] = n;
        data = data || u->kind == SIM_DATA;
        if (n != i) d->units[n] = *u;
        n++;
    }
    d->n_units = n;
    if (!data) d->n_bytes = 0;
}

/* Returns whether a unit is of a page whose newest version no sync writes. */
static inline bool sim_stays(const sim_disk *d, int unit)
{
    const sim_unit *u = &d->units[unit];
    return u->kind == SIM_DATA && sim_is_dead(d, &d->files[u->file], u->page);
}

/* The same, or a unit that a sync of some pages leaves alone. */
static inline bool sim_is_beside(const sim_disk *d, int unit)
{
    const sim_unit *u = &d->units[unit];
    if (u->kind != SIM_DATA || u->page < d->from_page || u->page >= d->upto_page)
        return true;
    return sim_stays(d, unit);
}

/* Copies a page to the disk if this unit is its newest one, and not given up. */
static inline void sim_to_base(sim_disk *d, int file, int unit)
{
    sim_file *f = &d->files[file];
    const sim_unit *u = &d->units[unit];
    if (u->kind != SIM_DATA || u->file != file || f->newest[u->page] != unit || u->dead ||
        u->page < d->from_page || u->page >= d->upto_page)
        return;
    memcpy(f->base + (size_t)u->page * SIM_PAGE, d->bytes + u->bytes, SIM_PAGE);
}

/* Moves all units of a file to the disk, except those given up. */
static inline void sim_settle(sim_disk *d, int file)
{
    sim_file *f = &d->files[file];
    d->from_page = 0;
    d->upto_page = SIM_PAGES;
    for (int i = 0; i < d->n_units; i++) sim_to_base(d, file, i);
    f->base_size = f->size;
    sim_forget(d, file, sim_stays);
}

/* Moves the units of some pages of a file to the disk; its size, as far as they need it. */
static inline void sim_settle_part(sim_disk *d, int file, uint64_t from, uint64_t upto)
{
    sim_file *f = &d->files[file];
    d->from_page = (int)(from / SIM_PAGE);
    d->upto_page = (int)((upto + SIM_PAGE - 1) / SIM_PAGE);
    for (int i = 0; i < d->n_units; i++) sim_to_base(d, file, i);
    if (f->base_size < upto) f->base_size = upto;
    sim_forget(d, file, sim_is_beside);
}

/* Gives up pages of a file that a sync would write. */
static inline void sim_give_up(sim_disk *d, int file, uint64_t from, uint64_t upto)
{
    for (int i = 0; i < d->n_units; i++) {
        sim_unit *u = &d->units[i];
        uint64_t at = (uint64_t)u->page * SIM_PAGE;
        if (u->kind == SIM_DATA && u->file == file && at < upto && at + SIM_PAGE > from)
            u->dead = true;
    }
}


/* ---- names ---- */

static inline int sim_find(const sim_folder *f, const char *path)
{
    for (int i = 0; i < f->count; i++)
        if (strcmp(f->names[i].path, path) == 0) return i;
    return -1;
}

static inline void sim_unname(sim_folder *f, const char *path)
{
    int i = sim_find(f, path);
    if (i >= 0) f->names[i] = f->names[--f->count];
}

static inline void sim_name_it(sim_folder *f, const char *path, int file)
{
    sim_unname(f, path);
    if (f->count == SIM_NAMES || strlen(path) >= SIM_PATH) sim_stop("too many names");
    snprintf(f->names[f->count].path, SIM_PATH, "%s", path);
    f->names[f->count++].file = file;
}

/* Applies a unit to the names; half: a rename leaves the old one. */
static inline void sim_rename_in(sim_folder *f, const sim_unit *u, bool half)
{
    int i = sim_find(f, u->old);
    if (u->kind == SIM_REMOVE) {
        sim_unname(f, u->name);
        return;
    }
    if (u->kind == SIM_RENAME && !half && i >= 0 && f->names[i].file == u->file)
        sim_unname(f, u->old);
    sim_name_it(f, u->name, u->file);
}

static inline bool sim_is_named(const sim_folder *f, int file)
{
    for (int i = 0; i < f->count; i++)
        if (f->names[i].file == file) return true;
    return false;
}

/* Gives back what no name and no handle leads to any more. */
static inline void sim_sweep(sim_disk *d)
{
    bool kept[SIM_FILES];
    for (int i = 0; i < SIM_FILES; i++)
        kept[i] = !d->files[i].used || d->files[i].opens > 0 || d->files[i].maps > 0 ||
                  sim_is_named(&d->folder, i) || sim_is_named(&d->base, i);
    for (int i = 0; i < d->n_units; i++)
        if (d->units[i].kind >= SIM_CREATE) kept[d->units[i].file] = true;
    for (int i = 0; i < SIM_FILES; i++) {
        sim_file *f = &d->files[i];
        if (kept[i]) continue;
        sim_forget(d, i, NULL);
        memset(f->rw, 0, f->high);
        memset(f->base, 0, f->high);
        f->size = f->base_size = 0;
        f->high = 0;
        f->used = false;
    }
}

static inline int sim_new_file(sim_disk *d)
{
    for (int i = 0; i < SIM_FILES; i++) {
        if (d->files[i].used) continue;
        d->files[i].used = true;
        d->files[i].inode = d->next_inode++;
        return i;
    }
    sim_stop("too many files");
    return -1;
}

static inline void sim_change_names(sim_disk *d, sim_kind kind, int file,
                                    const char *name, const char *old)
{
    sim_unit *u = sim_log(d, kind, file);
    snprintf(u->name, sizeof u->name, "%s", name);
    snprintf(u->old, sizeof u->old, "%s", old);
    sim_rename_in(&d->folder, u, false);
}


/* ---- the file operations ---- */

static inline sim_file *sim_of(sim_disk *d, ms_file file)
{
    if (file < 1 || file > SIM_OPEN || d->handles[file - 1].file < 0)
        sim_stop("a handle that is not open");
    return &d->files[d->handles[file - 1].file];
}

static inline bool sim_writes(const sim_disk *d, ms_file file)
{
    return (d->handles[file - 1].how & MS_OS_WRITE) != 0;
}

/* Returns where a path leads. */
static inline const char *sim_linked(const sim_disk *d, const char *path)
{
    bool link = d->link_to[0] != '\0' && strcmp(path, d->link) == 0;
    return link ? d->link_to : path;
}

static inline int sim_read_link(void *ctx, const char *path, char *to, size_t size)
{
    const sim_disk *d = (const sim_disk *)ctx;
    const char *end = sim_linked(d, path);
    if (end == path) return EINVAL;
    snprintf(to, size, "%s", end);
    return 0;
}

static inline int sim_open(void *ctx, const char *path, unsigned how, ms_file *file)
{
    sim_disk *d = (sim_disk *)ctx;
    path = sim_linked(d, path);
    int i = sim_find(&d->folder, path), h = 0;
    if (i < 0 && !(how & MS_OS_CREATE)) return ENOENT;
    while (h < SIM_OPEN && d->handles[h].file >= 0) h++;
    if (h == SIM_OPEN) return EMFILE;
    if (i < 0) {
        sim_moment(d, SIM_AT_CREATE);
        int made = sim_new_file(d);
        sim_change_names(d, SIM_CREATE, made, path, "");
        i = sim_find(&d->folder, path);
    }
    d->handles[h].file = d->folder.names[i].file;
    d->handles[h].how = how;
    d->files[d->handles[h].file].opens++;
    *file = h + 1;
    return 0;
}

static inline int sim_close(void *ctx, ms_file file)
{
    sim_disk *d = (sim_disk *)ctx;
    sim_file *f = sim_of(d, file);
    sim_look(d);
    f->opens--;
    if (f->locker == (int)file) f->locker = 0;
    d->handles[file - 1].file = -1;
    sim_sweep(d);
    return 0;
}

static inline int sim_stat(void *ctx, ms_file file, ms_os_stat *out)
{
    const sim_file *f = sim_of((sim_disk *)ctx, file);
    *out = stat_in_memory(f->size, f->inode + ((sim_disk *)ctx)->inode_more);
    out->device += ((sim_disk *)ctx)->device_more;
    return 0;
}

static inline int sim_read(void *ctx, ms_file file, uint64_t offset, void *to,
                           size_t size, size_t *done)
{
    const sim_file *f = sim_of((sim_disk *)ctx, file);
    *done = read_in_memory(f->ro, f->size, offset, to, size);
    return 0;
}

static inline int sim_grow(sim_disk *d, ms_file file, uint64_t offset, uint64_t size)
{
    sim_file *f = sim_of(d, file);
    if (!sim_writes(d, file)) return EBADF;
    if (offset > SIM_ROOM || size > SIM_ROOM - offset) return ENOSPC;
    if (offset + size <= f->size) return 0;
    f->size = offset + size;
    sim_log(d, SIM_SIZE, (int)(f - d->files))->size = f->size;
    return 0;
}

static inline int sim_write(void *ctx, ms_file file, uint64_t offset, const void *from,
                            size_t size, size_t *done)
{
    sim_disk *d = (sim_disk *)ctx;
    sim_file *f = sim_of(d, file);
    *done = 0;
    sim_moment(d, SIM_AT_WRITE);
    int code = sim_grow(d, file, offset, size);
    if (code != 0) return code;
    size_t at = (size_t)offset, end = at + size;
    while (at < end) { /* page by page: most writes of zeros change nothing */
        size_t n = SIM_PAGE - at % SIM_PAGE;
        if (n > end - at) n = end - at;
        const unsigned char *part = (const unsigned char *)from + (at - (size_t)offset);
        int page = (int)(at / SIM_PAGE);
        if (memcmp(f->ro + at, part, n) != 0 || sim_is_dead(d, f, page)) {
            memmove(f->rw + at, part, n);
            sim_look_at(d, (int)(f - d->files), page, true);
        }
        at += n;
    }
    *done = size;
    return 0;
}

static inline int sim_allocate(void *ctx, ms_file file, uint64_t offset, uint64_t size)
{
    sim_disk *d = (sim_disk *)ctx;
    sim_look(d);
    d->changes++;
    return sim_grow(d, file, offset, size);
}

static inline int sim_sync(void *ctx, ms_file file)
{
    sim_disk *d = (sim_disk *)ctx;
    const sim_file *f = sim_of(d, file);
    sim_moment(d, SIM_AT_SYNC);
    d->syncs++;
    if (d->fails) {
        d->fails = false;
        sim_give_up(d, (int)(f - d->files), 0, SIM_ROOM);
        return EIO;
    }
    if (!d->lies) sim_settle(d, (int)(f - d->files));
    return 0;
}

static inline int sim_write_synced(void *ctx, ms_file file, uint64_t offset,
                                   const void *from, size_t size, size_t *done)
{
    sim_disk *d = (sim_disk *)ctx;
    int of = (int)(sim_of(d, file) - d->files), code;
    code = sim_write(ctx, file, offset, from, size, done);
    if (code != 0) return code;
    sim_moment(d, SIM_AT_SYNC);
    d->syncs++;
    if (d->fails) {
        d->fails = false;
        sim_give_up(d, of, offset, offset + size);
        return EIO;
    }
    if (!d->lies) sim_settle_part(d, of, offset, offset + size);
    return 0;
}

/* Returns how long the part of a path is that names the folder. */
static inline size_t sim_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) : 0;
}

/* Returns whether a unit is of another folder than that which is synced. */
static inline bool sim_elsewhere(const sim_disk *d, int unit)
{
    const char *name = d->units[unit].name;
    size_t n = sim_folder_of(d->synced_folder);
    return sim_folder_of(name) != n || memcmp(name, d->synced_folder, n) != 0;
}

static inline int sim_sync_folder(void *ctx, const char *path)
{
    sim_disk *d = (sim_disk *)ctx;
    sim_moment(d, SIM_AT_SYNC_FOLDER);
    d->syncs++;
    if (d->folder_lies) return 0;
    d->synced_folder = path;
    for (int i = 0; i < d->n_units; i++)
        if (d->units[i].kind >= SIM_CREATE && !sim_elsewhere(d, i))
            sim_rename_in(&d->base, &d->units[i], false);
    sim_forget(d, -1, sim_elsewhere);
    sim_sweep(d);
    return 0;
}

static inline int sim_lock(void *ctx, ms_file file)
{
    sim_disk *d = (sim_disk *)ctx;
    sim_file *f = sim_of(d, file);
    if (!sim_writes(d, file)) return EBADF;
    if (f->locker != 0 && f->locker != (int)file) return EAGAIN;
    f->locker = (int)file;
    return 0;
}

static inline int sim_unlock(void *ctx, ms_file file)
{
    sim_file *f = sim_of((sim_disk *)ctx, file);
    if (f->locker != (int)file) return EBADF;
    f->locker = 0;
    return 0;
}

static inline int sim_map(void *ctx, ms_file file, uint64_t offset, size_t size,
                          unsigned how, void **out)
{
    sim_disk *d = (sim_disk *)ctx;
    sim_file *f = sim_of(d, file);
    bool stores = (how & MS_OS_WRITE) != 0;
    if (stores && !sim_writes(d, file)) return EACCES;
    if (offset > SIM_VIEW || size > SIM_VIEW - offset) return ENOMEM;
    if (stores && f->n_stores == SIM_MAPS) return ENOMEM;
    *out = (stores ? f->rw : f->ro) + offset;
    f->maps++;
    if (!stores) return 0;
    f->stores[f->n_stores].at = (size_t)offset;
    f->stores[f->n_stores++].size = size;
    return 0;
}

static inline int sim_unmap(void *ctx, void *map, size_t size)
{
    sim_disk *d = (sim_disk *)ctx;
    const unsigned char *p = (const unsigned char *)map;
    for (int i = 0; i < SIM_FILES; i++) {
        sim_file *f = &d->files[i];
        bool stores = p >= f->rw && p < f->rw + SIM_VIEW;
        if (!stores && !(p >= f->ro && p < f->ro + SIM_VIEW)) continue;
        if (stores) sim_look(d);
        f->maps--;
        for (int k = 0; stores && k < f->n_stores; k++) {
            if (f->rw + f->stores[k].at != p || f->stores[k].size != size) continue;
            f->stores[k] = f->stores[--f->n_stores];
            break;
        }
        sim_sweep(d);
        return 0;
    }
    return EINVAL;
}

static inline int sim_rename(void *ctx, const char *from, const char *to)
{
    sim_disk *d = (sim_disk *)ctx;
    int i = sim_find(&d->folder, from);
    if (i < 0) return ENOENT;
    sim_moment(d, SIM_AT_RENAME);
    sim_change_names(d, SIM_RENAME, d->folder.names[i].file, to, from);
    return 0;
}

static inline int sim_remove(void *ctx, const char *path)
{
    sim_disk *d = (sim_disk *)ctx;
    int i = sim_find(&d->folder, path);
    if (i < 0) return ENOENT;
    sim_moment(d, SIM_AT_REMOVE);
    sim_change_names(d, SIM_REMOVE, d->folder.names[i].file, path, "");
    return 0;
}

static inline uint64_t sim_boot(void *ctx) { return ((sim_disk *)ctx)->boot; }
static inline uint64_t sim_micros(void *ctx) { return ((sim_disk *)ctx)->micros++; }
static inline uint64_t sim_process(void *ctx) { return ((sim_disk *)ctx)->process; }

static inline void sim_sleep(void *ctx, uint64_t micros)
{
    ((sim_disk *)ctx)->micros += micros;
}


/* ---- a disk ---- */

static inline void sim_file_init(sim_file *f)
{
    f->fd = views_in_memory(SIM_VIEW, &f->ro, &f->rw);
    f->base = (unsigned char *)calloc(1, SIM_ROOM);
    if (ftruncate(f->fd, SIM_ROOM) != 0 || f->base == NULL) sim_stop("no memory");
    memset(f->newest, -1, sizeof f->newest);
}

static inline void sim_init(sim_disk *d)
{
    const ms_os os = {d,        sim_open,   sim_close,       sim_stat,
                      sim_read, sim_write,  sim_allocate,    sim_sync,
                      sim_lock, sim_unlock, sim_map,         sim_unmap,
                      sim_rename, sim_remove, sim_sync_folder,
                      sim_boot, sim_micros, sim_sleep, sim_process, false, NULL, NULL,
                      sim_read_link, NULL, NULL, sim_write_synced};
    memset(d, 0, sizeof *d);
    d->os = os;
    d->boot = 1001;
    d->next_inode = 1;
    d->process = 77;
    for (int i = 0; i < SIM_OPEN; i++) d->handles[i].file = -1;
    for (int i = 0; i < SIM_FILES; i++) sim_file_init(&d->files[i]);
}

static inline void sim_deinit(sim_disk *d)
{
    for (int i = 0; i < SIM_FILES; i++) {
        munmap(d->files[i].ro, SIM_VIEW);
        munmap(d->files[i].rw, SIM_VIEW);
        close(d->files[i].fd);
        free(d->files[i].base);
    }
    free(d->units);
    free(d->bytes);
    memset(d, 0, sizeof *d);
}

/* Is everything closed that was opened? */
static inline bool sim_idle(const sim_disk *d)
{
    for (int i = 0; i < SIM_FILES; i++)
        if (d->files[i].opens != 0 || d->files[i].maps != 0) return false;
    return true;
}

/* Nothing is left on a disk that nobody uses. */
static inline void sim_empty(sim_disk *d)
{
    d->folder.count = d->base.count = 0;
    d->n_units = 0;
    d->n_bytes = 0;
    for (int i = 0; i < SIM_FILES; i++)
        memset(d->files[i].newest, -1, sizeof d->files[i].newest);
}

/* An empty folder on a disk that nobody uses. */
static inline void sim_clear(sim_disk *d)
{
    if (!sim_idle(d)) sim_stop("cleared while it is used");
    sim_empty(d);
    sim_sweep(d);
    d->moment = NULL;
    d->fails = false;
    d->changes = d->syncs = 0;
    d->link_to[0] = '\0';
    d->device_more = d->inode_more = 0;
}

/* The file that a path names now; NULL: none. */
static inline sim_file *sim_at(sim_disk *d, const char *path)
{
    int i = sim_find(&d->folder, sim_linked(d, path));
    return i < 0 ? NULL : &d->files[d->folder.names[i].file];
}


/* ---- images that are known ---- */

/* Hashes of images, in a table with room; all zero to begin with. */
typedef struct sim_images {
    uint64_t *hashes;         /* 0: free */
    size_t cap, count;
    uint64_t all;
} sim_images;

static inline uint64_t sim_mix(uint64_t h, uint64_t with)
{
    h = (h ^ with) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 29;
}

static inline uint64_t sim_bytes_hash(uint64_t h, const unsigned char *p, size_t len)
{
    uint64_t word[4] = {h, ~h, h + 1, h - 1}, in[4];
    for (; len >= sizeof in; p += sizeof in, len -= sizeof in) {
        memcpy(in, p, sizeof in);
        for (int i = 0; i < 4; i++) word[i] = sim_mix(word[i], in[i]);
    }
    for (; len > 0; len--) word[0] = sim_mix(word[0], *p++);
    for (int i = 0; i < 4; i++) h = sim_mix(h, word[i]);
    return h;
}

/* What an image is: names, sizes, bytes. Never 0. */
static inline uint64_t sim_hash(const sim_disk *d)
{
    uint64_t h = 0;
    for (int i = 0; i < d->folder.count; i++) {
        const char *path = d->folder.names[i].path;
        const sim_file *f = &d->files[d->folder.names[i].file];
        size_t len = f->high < f->size ? f->high : (size_t)f->size;
        uint64_t one = sim_bytes_hash(f->size, (const unsigned char *)path, strlen(path));
        while (len > 0 && f->ro[len - 1] == 0) len--;
        h += sim_bytes_hash(one, f->ro, len);
    }
    return h != 0 ? h : 1;
}

/* True when the hash was not in the table. */
static inline bool sim_put_hash(sim_images *m, uint64_t h)
{
    size_t at = (size_t)h & (m->cap - 1);
    while (m->hashes[at] != 0 && m->hashes[at] != h) at = (at + 1) & (m->cap - 1);
    bool fresh = m->hashes[at] == 0;
    m->count += fresh;
    m->hashes[at] = h;
    return fresh;
}

/* Counts an image. True when no image before was the same. */
static inline bool sim_note(sim_images *m, const sim_disk *image)
{
    if (2 * m->count >= m->cap) {
        sim_images more = {NULL, m->cap > 0 ? 2 * m->cap : 1 << 8, 0, m->all};
        more.hashes = (uint64_t *)calloc(more.cap, sizeof more.hashes[0]);
        if (more.hashes == NULL) sim_stop("no memory for hashes");
        for (size_t i = 0; i < m->cap; i++)
            if (m->hashes[i] != 0) (void)sim_put_hash(&more, m->hashes[i]);
        free(m->hashes);
        *m = more;
    }
    m->all++;
    return sim_put_hash(m, sim_hash(image));
}

static inline void sim_images_clear(sim_images *m)
{
    if (m->count > 0) memset(m->hashes, 0, m->cap * sizeof m->hashes[0]);
    m->count = 0;
    m->all = 0;
}

static inline void sim_images_free(sim_images *m)
{
    free(m->hashes);
    memset(m, 0, sizeof *m);
}


/* ---- which units a power loss leaves ---- */

typedef enum sim_plan {
    SIM_EACH_SECTOR, SIM_EACH_PAGE, SIM_PREFIX, SIM_DROPPED, SIM_TORN, SIM_SPECIAL,
    SIM_RANDOM
} sim_plan;

enum { SIM_SPECIALS = 7 };

/* Units of which a power loss leaves at most one: versions of a sector or page, sizes,
 * or what one rename may have done. */
typedef struct sim_cell {
    sim_kind kind;
    int file, page;
    unsigned bit;             /* sector; 0xFF: the whole page */
    unsigned choices, now;    /* now: 0 none of the units, k the k-th of them */
} sim_cell;

typedef struct sim_cuts {
    sim_disk *from;
    uint64_t rng;
    size_t random;            /* images with random subsets */
    size_t every;             /* of the other ones one in so many is given */
    sim_plan plan;            /* of the image that comes */
    size_t index;             /* its number among those of the plan */
    bool first;
    unsigned char *take;      /* by unit. DATA: sectors, by bit; RENAME: 2: half */
    size_t cap;
    bool stale;               /* blocks that nobody wrote hold what an older file left */
    int garbage;              /* the unit whose other sectors are garbage; -1: none */
    sim_cell cells[SIM_CELLS];
    int n_cells;
    size_t all;               /* images when each state is given */
    sim_images made;          /* images so far */
    char text[64];            /* which image it is, for messages */
} sim_cuts;

static inline sim_cell *sim_cell_of(sim_cuts *c, sim_kind kind, int file, int page,
                                    unsigned bit)
{
    for (int i = 0; i < c->n_cells; i++) {
        sim_cell *cell = &c->cells[i];
        if (kind < SIM_CREATE && cell->kind == kind && cell->file == file &&
            cell->page == page && cell->bit == bit)
            return cell;
    }
    if (c->n_cells == SIM_CELLS) return NULL;
    sim_cell *cell = &c->cells[c->n_cells++];
    cell->kind = kind;
    cell->file = file;
    cell->page = page;
    cell->bit = bit;
    cell->choices = 1;
    cell->now = 0;
    return cell;
}

/* The cells of all units; false: too many. For names, page is the unit's number. */
static inline bool sim_cells_find(sim_cuts *c, bool sectors)
{
    c->n_cells = 0;
    for (int i = 0; i < c->from->n_units; i++) {
        const sim_unit *u = &c->from->units[i];
        bool each = sectors && u->kind == SIM_DATA;
        int page = u->kind == SIM_DATA ? u->page : u->kind == SIM_SIZE ? 0 : i;
        for (unsigned s = 0; s < 8; s++) {
            if (each ? !(u->changed >> s & 1) : s > 0) continue;
            unsigned bit = each ? 1u << s : 0xFF;
            sim_cell *cell = sim_cell_of(c, u->kind, u->file, page, bit);
            if (cell == NULL) return false;
            cell->choices += u->kind == SIM_RENAME ? 2 : 1;
        }
    }
    return true;
}

/* How many states there are; 0: more than `most`. */
static inline size_t sim_states(sim_cuts *c, bool sectors, size_t most)
{
    size_t n = 1;
    if (!sim_cells_find(c, sectors)) return 0;
    for (int i = 0; i < c->n_cells && n <= most; i++) n *= c->cells[i].choices;
    return n <= most ? n : 0;
}

/* From here on sim_cuts_next gives images of d, which must not change meanwhile. An
 * interval with at most `all` states gives each of them; else `random` random ones, and
 * of the others described above about `some`, or, where that is 0, all. */
static inline void sim_cuts_begin(sim_cuts *c, sim_disk *d, size_t all, size_t some,
                                  size_t random, uint64_t seed)
{
    sim_look(d);
    size_t others = 3 * (size_t)d->n_units + 1 + SIM_SPECIALS;
    if ((size_t)d->n_units + 1 > c->cap) {
        c->cap = 2 * (size_t)d->n_units + 64;
        c->take = (unsigned char *)realloc(c->take, c->cap);
        if (c->take == NULL) sim_stop("no memory for a cut");
    }
    c->from = d;
    sim_images_clear(&c->made);
    c->stale = false;
    c->garbage = -1;
    c->rng = seed;
    c->random = random;
    c->every = some > 0 ? others / some : 1;
    c->index = 0;
    c->first = true;
    c->plan = SIM_EACH_SECTOR;
    c->all = sim_states(c, true, all);
    if (c->all == 0) {
        c->plan = SIM_EACH_PAGE;
        c->all = sim_states(c, false, all);
    }
    if (c->all == 0) c->plan = SIM_PREFIX;
}

static inline void sim_cuts_free(sim_cuts *c)
{
    free(c->take);
    sim_images_free(&c->made);
    memset(c, 0, sizeof *c);
}

/* Takes the unit that a cell's choice means. */
static inline void sim_take_cell(sim_cuts *c, const sim_cell *cell)
{
    unsigned k = cell->now;
    if (cell->kind >= SIM_CREATE) {
        c->take[cell->page] = (unsigned char)k;
        return;
    }
    for (int i = 0; i < c->from->n_units && k > 0; i++) {
        const sim_unit *u = &c->from->units[i];
        if (u->kind != cell->kind || u->file != cell->file) continue;
        if (u->kind == SIM_DATA && u->page != cell->page) continue;
        bool whole = u->kind != SIM_DATA || cell->bit == 0xFF;
        if (!whole && !(u->changed & cell->bit)) continue;
        if (--k == 0) c->take[i] |= (unsigned char)cell->bit;
    }
}

/* The next of all states. */
static inline void sim_next_state(sim_cuts *c)
{
    for (int i = 0; i < c->n_cells; i++) {
        sim_cell *cell = &c->cells[i];
        if (!c->first && ++cell->now < cell->choices) break;
        if (!c->first) cell->now = 0;
    }
    c->first = false;
    memset(c->take, 0, (size_t)c->from->n_units);
    for (int i = 0; i < c->n_cells; i++) sim_take_cell(c, &c->cells[i]);
}

static inline void sim_take_below(sim_cuts *c, size_t n)
{
    memset(c->take, 0, (size_t)c->from->n_units);
    memset(c->take, 0xFF, n);
}

/* The torn page is that of unit `index`; false: that unit cannot be torn. */
static inline bool sim_take_torn(sim_cuts *c)
{
    if (c->from->units[c->index].kind != SIM_DATA) return false;
    sim_take_below(c, c->index);
    unsigned mask = (1u << (1 + test_below(&c->rng, 7))) - 1;
    c->take[c->index] = (unsigned char)(test_one_in(&c->rng, 2) ? mask : ~mask);
    if (test_one_in(&c->rng, 3)) c->garbage = (int)c->index;
    return true;
}

/* Which kinds of units the special states take. */
static inline void sim_take_special(sim_cuts *c)
{
    static const struct { bool data, size, names, stale; } special[SIM_SPECIALS] = {
        {false, true, true, false},  {false, true, true, true},
        {true, false, true, false},  {false, false, true, false},
        {true, true, false, false},  {false, true, false, true},
        {true, true, true, true}};
    for (int i = 0; i < c->from->n_units; i++) {
        sim_kind kind = c->from->units[i].kind;
        bool take = kind == SIM_DATA   ? special[c->index].data
                    : kind == SIM_SIZE ? special[c->index].size
                                       : special[c->index].names;
        c->take[i] = take ? 0xFF : 0;
    }
    c->stale = special[c->index].stale;
}

static inline void sim_take_random(sim_cuts *c)
{
    static const unsigned odds[] = {1, 3, 5, 7, 9};
    unsigned odd = odds[test_below(&c->rng, 5)];
    bool sectors = test_one_in(&c->rng, 2);
    c->stale = test_one_in(&c->rng, 4);
    for (int i = 0; i < c->from->n_units; i++) {
        unsigned take = 0, names = c->from->units[i].kind == SIM_RENAME ? 2 : 1;
        for (unsigned s = 0; s < (sectors ? 8u : 1u); s++)
            if (test_below(&c->rng, 10) < odd) take |= sectors ? 1u << s : 0xFF;
        if (c->from->units[i].kind >= SIM_CREATE && take != 0)
            take = 1 + (unsigned)test_below(&c->rng, names);
        c->take[i] = (unsigned char)take;
    }
}

/* Numbers of images that a plan has. */
static inline size_t sim_plan_size(const sim_cuts *c)
{
    size_t n = (size_t)c->from->n_units;
    switch (c->plan) {
    case SIM_EACH_SECTOR:
    case SIM_EACH_PAGE: return c->from->stale != NULL ? 2 * c->all : c->all;
    case SIM_PREFIX: return n + 1;
    case SIM_DROPPED:
    case SIM_TORN: return n;
    case SIM_SPECIAL: return SIM_SPECIALS;
    default: return c->random;
    }
}

static inline bool sim_take(sim_cuts *c)
{
    size_t n = (size_t)c->from->n_units;
    switch (c->plan) {
    case SIM_EACH_SECTOR:
    case SIM_EACH_PAGE:
        sim_next_state(c);
        c->stale = c->index >= c->all;
        return true;
    case SIM_PREFIX: sim_take_below(c, c->index); return true;
    case SIM_DROPPED:
        sim_take_below(c, c->index + 1 + (size_t)test_below(&c->rng, n - c->index));
        c->take[c->index] = 0;
        return true;
    case SIM_TORN: return sim_take_torn(c);
    case SIM_SPECIAL: sim_take_special(c); return true;
    default: sim_take_random(c); return true;
    }
}

/* ---- what a power loss leaves ---- */

/* The size of a file after the power loss. */
static inline uint64_t sim_cut_size(const sim_cuts *c, int file)
{
    uint64_t size = c->from->files[file].base_size;
    for (int i = 0; i < c->from->n_units; i++) {
        const sim_unit *u = &c->from->units[i];
        if (u->kind == SIM_SIZE && u->file == file && c->take[i] != 0) size = u->size;
    }
    return size;
}

static inline void sim_names_left(const sim_cuts *c, sim_folder *out)
{
    *out = c->from->base;
    for (int i = 0; i < c->from->n_units; i++)
        if (c->from->units[i].kind >= SIM_CREATE && c->take[i] != 0)
            sim_rename_in(out, &c->from->units[i], c->take[i] == 2);
}

/* Copies the sectors of a page that a mask names. */
static inline void sim_put_sectors(unsigned char *to, const unsigned char *from,
                                   unsigned mask)
{
    if (mask == 0xFF) {
        memcpy(to, from, SIM_PAGE);
        return;
    }
    for (unsigned s = 0; s < 8; s++)
        if (mask >> s & 1)
            memcpy(to + s * SIM_SECTOR, from + s * SIM_SECTOR, SIM_SECTOR);
}

/* Blocks after all that was synced get what an older file left there. */
static inline void sim_cut_stale(const sim_cuts *c, int file, unsigned char *live,
                                 size_t size)
{
    const sim_file *f = &c->from->files[file];
    size_t at = ((size_t)f->base_size + SIM_PAGE - 1) & ~(size_t)(SIM_PAGE - 1);
    if (!c->stale || c->from->stale == NULL || at == 0 || at >= size) return;
    memcpy(live + at, c->from->stale + at, size - at);
}

/* Had a sector held nothing when it was written last? Zeros that a record ends with are
 * something: below the end that a checkpoint on the disk has, or after other bytes. */
static inline bool sim_held_nothing(const sim_file *f, size_t sector)
{
    static const unsigned char nothing[SIM_SECTOR];
    uint64_t ends[2];
    for (int i = 0; i < 2; i++) {
        memcpy(&ends[i], f->base + 2048 + 512 * i + 8, 8);
        ends[i] = le64toh(ends[i]);
        if (ends[i] < SIM_ROOM && sector < ends[i]) return false;
    }
    return memcmp(f->base + sector, nothing, SIM_SECTOR) == 0 &&
           memcmp(f->base + sector - 16, nothing, 16) == 0;
}

/* The sectors of a torn page that were on their way and had held nothing are garbage; not
 * in the superblock, as a file that begins with garbage is nobody's. */
static inline void sim_cut_garbage(const sim_cuts *c, int file, unsigned char *live)
{
    static const unsigned char nothing[SIM_SECTOR];
    if (c->garbage < 0 || c->from->units[c->garbage].page == 0) return;
    const sim_unit *u = &c->from->units[c->garbage];
    uint64_t rng = (uint64_t)c->garbage + 99;
    for (unsigned s = 0; u->file == file && s < 8; s++) {
        unsigned char *at = live + (size_t)u->page * SIM_PAGE + s * SIM_SECTOR;
        if ((c->take[c->garbage] >> s & 1) || !(u->changed >> s & 1)) continue;
        if (memcmp(at, nothing, SIM_SECTOR) == 0 &&
            sim_held_nothing(&c->from->files[file], (size_t)(at - live)))
            test_fill(&rng, at, SIM_SECTOR);
    }
}

/* A file on a disk after a power loss or a kill. */
static inline void sim_be(sim_file *t, const sim_file *f, size_t high, uint64_t size,
                          uint64_t base_size)
{
    t->high = high;
    t->size = size;
    t->base_size = base_size;
    t->inode = f->inode;
    t->used = true;
}

/* A file after the power loss; its live bytes and its base are the same then. */
static inline void sim_cut_file(const sim_cuts *c, int file, sim_disk *to)
{
    const sim_file *f = &c->from->files[file];
    sim_file *t = &to->files[file];
    size_t size = (size_t)sim_cut_size(c, file);
    size_t high = c->stale && c->from->stale != NULL && f->high < size ? size : f->high;
    high = (high + SIM_PAGE - 1) & ~(size_t)(SIM_PAGE - 1);
    memcpy(t->rw, f->base, f->high);
    size_t clear = high > t->high ? high : t->high;
    if (clear > f->high) memset(t->rw + f->high, 0, clear - f->high);
    sim_cut_stale(c, file, t->rw, size);
    for (int i = 0; i < c->from->n_units; i++) {
        const sim_unit *u = &c->from->units[i];
        if (u->kind == SIM_DATA && u->file == file && c->take[i] != 0)
            sim_put_sectors(t->rw + (size_t)u->page * SIM_PAGE, c->from->bytes + u->bytes,
                            c->take[i]);
    }
    sim_cut_garbage(c, file, t->rw);
    if (size < clear) memset(t->rw + size, 0, clear - size);
    memcpy(t->base, t->rw, clear);
    sim_be(t, f, high, size, size);
}

/* A disk after a power loss or a kill knows what the one before knew. */
static inline void sim_go_on(sim_disk *to, const sim_disk *from)
{
    sim_sweep(to);
    to->boot = from->boot;
    to->process = from->process;
    to->next_inode = from->next_inode;
    to->micros = from->micros;
    to->stale = from->stale;
    memcpy(to->link, from->link, sizeof to->link);
    memcpy(to->link_to, from->link_to, sizeof to->link_to);
    to->lies = from->lies;
    to->folder_lies = from->folder_lies;
    to->moment = NULL;
    to->fails = false;
    to->changes = to->syncs = 0;
}

/* Makes `to`, which nobody uses, what the chosen power loss leaves; another boot. */
static inline void sim_cut(const sim_cuts *c, sim_disk *to)
{
    if (!sim_idle(to)) sim_stop("an image is used");
    sim_empty(to);
    sim_names_left(c, &to->base);
    to->folder = to->base;
    for (int i = 0; i < SIM_FILES; i++)
        if (sim_is_named(&to->base, i)) sim_cut_file(c, i, to);
    sim_go_on(to, c->from);
    to->boot++;
}

/* The plan that follows when one has given all its images; false: none. What is given by
 * sectors needs no torn pages. */
static inline bool sim_next_plan(sim_cuts *c)
{
    static const sim_plan after[] = {SIM_SPECIAL, SIM_TORN,   SIM_DROPPED, SIM_TORN,
                                     SIM_SPECIAL, SIM_RANDOM, SIM_RANDOM};
    if (c->plan == SIM_RANDOM) return false;
    c->plan = after[c->plan];
    c->index = 0;
    return true;
}

/* Makes `to`, which nobody uses, the next image; false: there are no more. */
static inline bool sim_cuts_next(sim_cuts *c, sim_disk *to)
{
    static const char *const words[] = {"state by sectors", "state by pages", "prefix",
                                        "all but unit", "torn unit", "special", "random"};
    for (;; c->index++) {
        while (c->index == sim_plan_size(c))
            if (!sim_next_plan(c)) return false;
        bool given = c->plan <= SIM_EACH_PAGE || c->plan == SIM_RANDOM || c->every <= 1;
        c->stale = false;
        c->garbage = -1;
        if (!given && !test_one_in(&c->rng, c->every)) continue;
        if (!sim_take(c)) continue;
        sim_cut(c, to);
        if (sim_note(&c->made, to)) break;
    }
    snprintf(c->text, sizeof c->text, "%s %zu of %d units%s%s", words[c->plan], c->index,
             c->from->n_units, c->stale ? ", stale blocks" : "",
             c->garbage >= 0 ? ", garbage" : "");
    c->index++;
    return true;
}


/* ---- what a kill leaves ---- */

static inline void sim_copy_file(const sim_file *f, sim_file *t)
{
    size_t high = f->high > t->high ? f->high : t->high;
    memcpy(t->rw, f->ro, high);
    memcpy(t->base, f->base, high);
    memcpy(t->newest, f->newest, sizeof t->newest);
    sim_be(t, f, high, f->size, f->base_size);
}

/* Makes `to`, which nobody uses, what a process of the same boot finds when the one on
 * `from` was killed just now. */
static inline void sim_kill(sim_disk *from, sim_disk *to)
{
    if (!sim_idle(to)) sim_stop("the disk of a killed one is used");
    sim_look(from);
    sim_empty(to);
    to->base = from->base;
    to->folder = from->folder;
    for (int i = 0; i < from->n_units; i++) {
        sim_unit *u = sim_log(to, from->units[i].kind, from->units[i].file);
        *u = from->units[i];
        if (u->kind == SIM_DATA) u->bytes = sim_keep_page(to, from->bytes + u->bytes);
    }
    for (int i = 0; i < SIM_FILES; i++)
        if (from->files[i].used) sim_copy_file(&from->files[i], &to->files[i]);
    sim_go_on(to, from);
    to->process++;
}


#endif /* SIMDISK_H */
