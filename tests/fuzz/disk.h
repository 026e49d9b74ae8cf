/* A disk for fuzz targets: file operations over one file in a static array, quick to
 * fill and to forget. Bytes behind the end of the file are forbidden to the library (the
 * sanitizer tells), as they are behind a real map. It knows what was synced, makes what
 * a power cut may leave, and fails the k-th call.
 *
 * Whatever path is opened, it is this file: there is no renaming.
 */

#ifndef FUZZ_DISK_H
#define FUZZ_DISK_H

#include "fuzz.h"

enum { DISK_ROOM = 192 << 10, DISK_SECTOR = 512 };

typedef struct fuzz_disk {
    ms_os os;
    uint64_t size, synced_size;
    uint64_t room;            /* no more than so many bytes; at most DISK_ROOM */
    bool there, locked, keep_synced;
    int files, maps;          /* open now */
    uint64_t boot, inode, micros, process;
    size_t calls, fail_at;    /* trouble at this call, from 1; 0: none */
    bool fail_from;           /* and at all after it */
    int code;                 /* errno */
    size_t hits;
} fuzz_disk;

static union {
    unsigned char bytes[DISK_ROOM];
    uint64_t align;
} disk_now;
static unsigned char disk_synced[DISK_ROOM], disk_image[DISK_ROOM];

static inline bool disk_fails(fuzz_disk *d)
{
    d->calls++;
    bool hit = d->fail_at != 0 &&
               (d->fail_from ? d->calls >= d->fail_at : d->calls == d->fail_at);
    d->hits += hit;
    return hit;
}

static inline void disk_resize(fuzz_disk *d, uint64_t size)
{
    if (size < d->size) memset(disk_now.bytes + size, 0, (size_t)(d->size - size));
    fuzz_allow(disk_now.bytes, (size_t)size);
    fuzz_forbid(disk_now.bytes + size, (size_t)(DISK_ROOM - size));
    d->size = size;
}

static inline int disk_open(void *ctx, const char *path, unsigned how, ms_file *file)
{
    fuzz_disk *d = (fuzz_disk *)ctx;
    (void)path;
    if (disk_fails(d)) return d->code;
    if (!d->there && !(how & MS_OS_CREATE)) return ENOENT;
    d->there = true;
    d->files++;
    *file = how & MS_OS_WRITE ? 2 : 1;
    return 0;
}

/* A close that fails has closed all the same. */
static inline int disk_close(void *ctx, ms_file file)
{
    fuzz_disk *d = (fuzz_disk *)ctx;
    d->files--;
    if (file == 2) d->locked = false;
    return disk_fails(d) ? d->code : 0;
}

static inline int disk_stat(void *ctx, ms_file file, ms_os_stat *out)
{
    fuzz_disk *d = (fuzz_disk *)ctx;
    (void)file;
    if (disk_fails(d)) return d->code;
    memset(out, 0, sizeof *out);
    out->size = d->size;
    out->device = 7;
    out->inode = d->inode;
    out->regular = true;
    out->keeps_room = true;
    return 0;
}

static inline int disk_read(void *ctx, ms_file file, uint64_t offset, void *to,
                            size_t size, size_t *done)
{
    fuzz_disk *d = (fuzz_disk *)ctx;
    uint64_t left = offset < d->size ? d->size - offset : 0;
    (void)file;
    *done = 0;
    if (disk_fails(d)) return d->code;
    *done = size < left ? size : (size_t)left;
    if (*done > 0) memcpy(to, disk_now.bytes + offset, *done);
    return 0;
}

static inline int disk_grow(fuzz_disk *d, ms_file file, uint64_t offset, uint64_t size)
{
    if (file != 2) return EBADF;
    uint64_t room = d->size > d->room ? d->size : d->room; /* what is there can be written */
    if (offset > room || size > room - offset) return ENOSPC;
    if (offset + size > d->size) disk_resize(d, offset + size);
    return 0;
}

/* One that fails has written its first half. */
static inline int disk_write(void *ctx, ms_file file, uint64_t offset, const void *from,
                             size_t size, size_t *done)
{
    fuzz_disk *d = (fuzz_disk *)ctx;
    bool fails = disk_fails(d);
    *done = 0;
    if (fails) size /= 2;
    int code = disk_grow(d, file, offset, size);
    if (code != 0) return code;
    memcpy(disk_now.bytes + offset, from, size);
    if (fails) return d->code;
    *done = size;
    return 0;
}

static inline int disk_allocate(void *ctx, ms_file file, uint64_t offset, uint64_t size)
{
    fuzz_disk *d = (fuzz_disk *)ctx;
    return disk_fails(d) ? d->code : disk_grow(d, file, offset, size);
}

static inline int disk_sync(void *ctx, ms_file file)
{
    fuzz_disk *d = (fuzz_disk *)ctx;
    (void)file;
    if (disk_fails(d)) return d->code;
    if (!d->keep_synced) return 0;
    uint64_t most = d->synced_size > d->size ? d->synced_size : d->size;
    fuzz_allow(disk_now.bytes, (size_t)most);
    memcpy(disk_synced, disk_now.bytes, (size_t)most);
    fuzz_forbid(disk_now.bytes + d->size, (size_t)(most - d->size));
    d->synced_size = d->size;
    return 0;
}

static inline int disk_lock(void *ctx, ms_file file)
{
    fuzz_disk *d = (fuzz_disk *)ctx;
    if (disk_fails(d)) return d->code;
    if (d->locked || file != 2) return EAGAIN;
    d->locked = true;
    return 0;
}

static inline int disk_unlock(void *ctx, ms_file file)
{
    fuzz_disk *d = (fuzz_disk *)ctx;
    (void)file;
    d->locked = false;
    return 0;
}

static inline int disk_map(void *ctx, ms_file file, uint64_t offset, size_t size,
                           unsigned how, void **out)
{
    fuzz_disk *d = (fuzz_disk *)ctx;
    if (disk_fails(d)) return d->code;
    if ((how & MS_OS_WRITE) && file != 2) return EACCES;
    if (offset > DISK_ROOM) return ENOMEM;
    if (d->os.exact_maps && (offset > d->size || size > d->size - offset)) {
        fuzz_fail("a map of %lu bytes from %lu on reaches beyond the file of %lu",
                  (unsigned long)size, (unsigned long)offset, (unsigned long)d->size);
    }
    *out = disk_now.bytes + offset;
    d->maps++;
    return 0;
}

static inline int disk_unmap(void *ctx, void *map, size_t size)
{
    (void)map;
    (void)size;
    ((fuzz_disk *)ctx)->maps--;
    return 0;
}

static inline int disk_rename(void *ctx, const char *from, const char *to)
{
    (void)ctx;
    (void)from;
    (void)to;
    return EACCES;
}

static inline int disk_remove(void *ctx, const char *path)
{
    fuzz_disk *d = (fuzz_disk *)ctx;
    (void)path;
    disk_resize(d, 0);
    d->there = false;
    return 0;
}

static inline int disk_sync_folder(void *ctx, const char *path)
{
    (void)path;
    return disk_fails((fuzz_disk *)ctx) ? ((fuzz_disk *)ctx)->code : 0;
}

static inline uint64_t disk_boot(void *ctx) { return ((fuzz_disk *)ctx)->boot; }
static inline uint64_t disk_micros(void *ctx) { return ((fuzz_disk *)ctx)->micros++; }
static inline uint64_t disk_process(void *ctx) { return ((fuzz_disk *)ctx)->process; }

static inline void disk_sleep(void *ctx, uint64_t micros)
{
    ((fuzz_disk *)ctx)->micros += micros;
}

/* An empty disk; the bytes of the one before are forgotten. */
static inline void disk_begin(fuzz_disk *d, uint64_t size_before)
{
    const ms_os os = {d,         disk_open,   disk_close,       disk_stat,
                      disk_read, disk_write,  disk_allocate,    disk_sync,
                      disk_lock, disk_unlock, disk_map,         disk_unmap,
                      disk_rename, disk_remove, disk_sync_folder,
                      disk_boot, disk_micros, disk_sleep, disk_process, false, NULL,
                      NULL};
    fuzz_allow(disk_now.bytes, (size_t)size_before);
    memset(disk_now.bytes, 0, (size_t)size_before);
    memset(disk_synced, 0, (size_t)d->synced_size);
    memset(d, 0, sizeof *d);
    d->os = os;
    d->room = DISK_ROOM;
    d->boot = 1001;
    d->inode = 1;
    d->process = 77;
    d->code = EIO;
    disk_resize(d, 0);
}

/* What a power cut leaves, to disk_image: each page (or sector) that was not synced is
 * old or new, and so is the size. Its size. */
static inline uint64_t disk_cut(const fuzz_disk *d, uint64_t seed, bool sectors)
{
    uint64_t most = d->size > d->synced_size ? d->size : d->synced_size;
    size_t grain = sectors ? DISK_SECTOR : 4096;
    uint64_t size = d->size > d->synced_size && seed % 4 == 1 ? d->synced_size : d->size;
    fuzz_allow(disk_now.bytes, (size_t)most);
    for (size_t at = 0; at < most; at += grain) {
        size_t len = most - at < grain ? (size_t)(most - at) : grain;
        bool old = at < d->synced_size ? (test_random(&seed) & 1) != 0
                                       : (test_random(&seed) & 3) == 0;
        const unsigned char *from = old ? disk_synced : disk_now.bytes;
        if (old && at >= d->synced_size) memset(disk_image + at, 0, len);
        else memcpy(disk_image + at, from + at, len);
    }
    fuzz_forbid(disk_now.bytes + d->size, (size_t)(most - d->size));
    return size;
}

/* Gives the file these bytes; synced: all of them are on the disk. */
static inline void disk_load(fuzz_disk *d, const unsigned char *bytes, uint64_t size,
                             bool synced)
{
    disk_resize(d, 0);
    disk_resize(d, size);
    memcpy(disk_now.bytes, bytes, (size_t)size);
    d->there = true;
    if (!synced) return;
    if (d->synced_size > size)
        memset(disk_synced + size, 0, (size_t)(d->synced_size - size));
    memcpy(disk_synced, bytes, (size_t)size);
    d->synced_size = size;
}

#endif /* FUZZ_DISK_H */
