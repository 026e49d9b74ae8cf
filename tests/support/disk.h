/* A disk: file operations over one file in memory.
 *
 * Whatever path is opened, it is this file. It has two views: reading maps are given the
 * one that cannot be written, so that a store into it ends the process, as a touch after
 * the end of the file does. What the last sync has seen is kept in `synced`.
 *
 *     disk d;
 *     disk_init(&d, 1 << 20);
 *     desc.os = &d.os;
 *
 * simdisk.h is a folder of such files and knows what a power loss may leave of it;
 * fuzz/disk.h has them in static arrays, which are quicker; os_faults.h lets calls fail.
 * Define _GNU_SOURCE before any include.
 */

#ifndef DISK_H
#define DISK_H

#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#define DISK_VIEW ((size_t)1 << (sizeof(size_t) > 4 ? 31 : 27)) /* most that is mapped */

typedef struct disk disk;

struct disk {
    ms_os os;                 /* pass its address to the library */
    int fd;
    unsigned char *ro, *rw;   /* the file's bytes */
    size_t view;              /* most that is mapped */
    size_t room;              /* most bytes that the file can grow to */
    uint64_t size;
    bool there, locked;
    int files, maps;          /* open now */
    uint64_t boot, inode, process;
    uint64_t micros;          /* the clock: grows by one at each look */
    unsigned char *synced;    /* the content at the last sync, ... */
    uint64_t synced_size;     /* ... its size; what is after it is zero */
    bool keep_synced;         /* false: syncs copy nothing */
    uint64_t syncs, writes;
    bool (*resize)(disk *d, uint64_t size); /* moves the end of the bytes */
};

static inline bool disk_truncate(disk *d, uint64_t size)
{
    return size <= d->room && ftruncate(d->fd, (off_t)size) == 0;
}

static inline bool disk_resize(disk *d, uint64_t size)
{
    if (size == d->size) return true;
    if (!d->resize(d, size)) return false;
    d->size = size;
    return true;
}

static inline int disk_open(void *ctx, const char *path, unsigned how, ms_file *file)
{
    disk *d = (disk *)ctx;
    if (!d->there && !(how & MS_OS_CREATE)) return ENOENT;
    d->there = true;
    d->files++;
    *file = how & MS_OS_WRITE ? 2 : 1;
    return 0;
}

static inline int disk_close(void *ctx, ms_file file)
{
    disk *d = (disk *)ctx;
    d->files--;
    if (file == 2) d->locked = false;
    return 0;
}

static inline ms_os_stat stat_in_memory(uint64_t size, uint64_t inode)
{
    ms_os_stat out = {.size = size, .device = 7, .inode = inode, .regular = true};
    out.keeps_room = true;
    return out;
}

static inline int disk_stat(void *ctx, ms_file file, ms_os_stat *out)
{
    const disk *d = (const disk *)ctx;
    *out = stat_in_memory(d->size, d->inode);
    return 0;
}

/* Reads from a file of `all` bytes; returns how many. */
static inline size_t read_in_memory(const unsigned char *bytes, uint64_t all,
                                    uint64_t offset, void *to, size_t size)
{
    uint64_t left = offset < all ? all - offset : 0;
    size_t n = size < left ? size : (size_t)left;
    if (n > 0) memcpy(to, bytes + offset, n);
    return n;
}

static inline int disk_read(void *ctx, ms_file file, uint64_t offset, void *to,
                            size_t size, size_t *done)
{
    const disk *d = (const disk *)ctx;
    *done = read_in_memory(d->ro, d->size, offset, to, size);
    return 0;
}

/* Makes the file so long that a write has room. */
static inline int disk_grow(disk *d, ms_file file, uint64_t offset, uint64_t size)
{
    uint64_t room = d->size > d->room ? d->size : d->room;
    if (file != 2) return EBADF;
    if (offset > room || size > room - offset) return ENOSPC;
    return offset + size <= d->size || disk_resize(d, offset + size) ? 0 : ENOSPC;
}

static inline int disk_write(void *ctx, ms_file file, uint64_t offset, const void *from,
                             size_t size, size_t *done)
{
    disk *d = (disk *)ctx;
    int code = disk_grow(d, file, offset, size);
    *done = 0;
    if (code != 0) return code;
    memcpy(d->rw + offset, from, size);
    *done = size;
    d->writes++;
    return 0;
}

static inline int disk_allocate(void *ctx, ms_file file, uint64_t offset, uint64_t size)
{
    return disk_grow((disk *)ctx, file, offset, size);
}

/* Makes all bytes of the file durable. */
static inline void disk_keep(disk *d)
{
    memcpy(d->synced, d->ro, (size_t)d->size);
    if (d->synced_size > d->size)
        memset(d->synced + d->size, 0, (size_t)(d->synced_size - d->size));
    d->synced_size = d->size;
}

static inline int disk_sync(void *ctx, ms_file file)
{
    disk *d = (disk *)ctx;
    d->syncs++;
    if (d->keep_synced) disk_keep(d);
    return 0;
}

static inline int disk_write_synced(void *ctx, ms_file file, uint64_t offset,
                                    const void *from, size_t size, size_t *done)
{
    disk *d = (disk *)ctx;
    int code = disk_write(ctx, file, offset, from, size, done);
    d->syncs++;
    if (code != 0 || !d->keep_synced) return code;
    memcpy(d->synced + offset, from, *done);
    if (d->synced_size < offset + *done) d->synced_size = offset + *done;
    return 0;
}

static inline int disk_lock(void *ctx, ms_file file)
{
    disk *d = (disk *)ctx;
    if (d->locked || file != 2) return EAGAIN;
    d->locked = true;
    return 0;
}

static inline int disk_unlock(void *ctx, ms_file file)
{
    disk *d = (disk *)ctx;
    if (file != 2) return EBADF;
    d->locked = false;
    return 0;
}

static inline int disk_map(void *ctx, ms_file file, uint64_t offset, size_t size,
                           unsigned how, void **out)
{
    disk *d = (disk *)ctx;
    if ((how & MS_OS_WRITE) && file != 2) return EACCES;
    if (offset > d->view || size > DISK_VIEW - offset) return ENOMEM;
    if (d->os.exact_maps && (offset > d->size || size > d->size - offset)) {
        fprintf(stderr, "disk: a map of %lu bytes from %lu on reaches beyond %lu\n",
                (unsigned long)size, (unsigned long)offset, (unsigned long)d->size);
        abort();
    }
    *out = (how & MS_OS_WRITE ? d->rw : d->ro) + offset;
    d->maps++;
    return 0;
}

static inline int disk_unmap(void *ctx, void *map, size_t size)
{
    ((disk *)ctx)->maps--;
    return 0;
}

static inline int disk_rename(void *ctx, const char *from, const char *to)
{
    return 0;
}

static inline int disk_remove(void *ctx, const char *path)
{
    disk *d = (disk *)ctx;
    disk_resize(d, 0);
    d->there = false;
    return 0;
}

static inline int disk_sync_folder(void *ctx, const char *path)
{
    return 0;
}

static inline uint64_t disk_boot(void *ctx) { return ((disk *)ctx)->boot; }
static inline uint64_t disk_micros(void *ctx) { return ((disk *)ctx)->micros++; }
static inline uint64_t disk_process(void *ctx) { return ((disk *)ctx)->process; }

static inline void disk_sleep(void *ctx, uint64_t micros)
{
    ((disk *)ctx)->micros += micros;
}

static inline int disk_file(void)
{
#ifdef __linux__
    return memfd_create("msgstore", MFD_CLOEXEC);
#else
    char path[] = "/tmp/msgstore-XXXXXX";
    int fd = mkstemp(path);
    if (fd >= 0) unlink(path);
    return fd;
#endif
}

/* Makes an empty disk. */
static inline void disk_begin(disk *d, size_t room)
{
    const ms_os os = {d,         disk_open,   disk_close,       disk_stat,
                      disk_read, disk_write,  disk_allocate,    disk_sync,
                      disk_lock, disk_unlock, disk_map,         disk_unmap,
                      disk_rename, disk_remove, disk_sync_folder,
                      disk_boot, disk_micros, disk_sleep, disk_process, false, NULL,
                      NULL, NULL, NULL, NULL, disk_write_synced};
    memset(d, 0, sizeof *d);
    d->os = os;
    d->room = room;
    d->boot = 1001;
    d->inode = 1;
    d->process = 77;
}

/* Makes two views of a file in memory, of which one can be written. */
static inline int views_in_memory(size_t view, unsigned char **ro, unsigned char **rw)
{
    int fd = disk_file();
    void *reads = mmap(NULL, view, PROT_READ, MAP_SHARED, fd, 0);
    void *writes = mmap(NULL, view, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || reads == MAP_FAILED || writes == MAP_FAILED) abort();
    *ro = (unsigned char *)reads;
    *rw = (unsigned char *)writes;
    return fd;
}

static inline void disk_init(disk *d, size_t room)
{
    disk_begin(d, room);
    d->view = DISK_VIEW;
    d->resize = disk_truncate;
    d->fd = views_in_memory(DISK_VIEW, &d->ro, &d->rw);
    d->synced = (unsigned char *)calloc(1, room);
    if (d->synced == NULL) abort();
}

static inline void disk_deinit(disk *d)
{
    munmap(d->ro, DISK_VIEW);
    munmap(d->rw, DISK_VIEW);
    close(d->fd);
    free(d->synced);
    memset(d, 0, sizeof *d);
}

/* The log on a disk. */
static inline ms_log_desc disk_desc(const disk *d, ms_log_mode mode)
{
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.path = "log.msl";
    desc.mode = mode;
    desc.os = &d->os;
    desc.engine = MS_ENGINE_WRITE;
    return desc;
}

/* Opens a log, or fails the test. */
static inline ms_store *must_open_log(const ms_log_desc *desc, const char *when)
{
    ms_store *store;
    ms_error err;
    if (ms_log_open(&store, desc, &err) != MS_OK)
        fail_msg("%s: %s: %s", when, ms_result_text(err.code), err.message);
    return store;
}

/* Entropy that follows from one number. */
static inline void entropy_counts(void *ctx, void *out, size_t len)
{
    test_fill((uint64_t *)ctx, out, len);
}

/* Gives the file these bytes. */
static inline void disk_load(disk *d, const void *bytes, size_t size)
{
    if (!disk_resize(d, size)) abort();
    if (size > 0) memcpy(d->rw, bytes, size);
    d->there = true;
}

/* Rewrites an open log of the disk, closes it, and gives the disk the new file: its
 * messages are clustered. */
static inline void disk_compact(disk *d, ms_store *store, const ms_log_desc *desc)
{
    disk other;
    ms_error err;
    ms_log_desc to = *desc;
    disk_init(&other, d->room);
    other.boot = d->boot;
    other.inode = d->inode;
    other.os.exact_maps = true; /* its one file need not hold the path meanwhile */
    to.os = &other.os;
    if (ms_log_rewrite(store, &to, false, NULL, NULL, &err) != MS_OK)
        fail_msg("a rewrite: %s", err.message);
    ms_close(store);
    disk_load(d, other.ro, (size_t)other.size);
    disk_keep(d);
    disk_deinit(&other);
}

/* There is no file any more, nobody has its lock, and nothing is durable. */
static inline void disk_clear(disk *d)
{
    disk_resize(d, 0);
    memset(d->synced, 0, (size_t)d->synced_size);
    d->synced_size = 0;
    d->there = d->locked = false;
}

/* Everything that was opened is closed again. */
static inline void disk_is_idle(const disk *d)
{
    assert_int_equal(d->files, 0);
    assert_int_equal(d->maps, 0);
    assert_false(d->locked);
}

#endif /* DISK_H */
