/* A disk (tests/support/disk.h) for fuzz targets: its bytes are in static arrays, quick
 * to fill and to forget. Bytes after the end of the file are forbidden to the library, as
 * they are after a real map: the sanitizer reports a read of them. */

#ifndef FUZZ_DISK_H
#define FUZZ_DISK_H

#include "fuzz.h"
#include "tests/support/disk.h"

enum { DISK_ROOM = 192 << 10 };

typedef struct fuzz_room {
    union {
        unsigned char bytes[DISK_ROOM];
        uint64_t align;
    } live;
    unsigned char synced[DISK_ROOM];
} fuzz_room;

static inline bool fuzz_disk_resize(disk *d, uint64_t size)
{
    if (size > DISK_ROOM) return false;
    if (size < d->size) memset(d->rw + size, 0, (size_t)(d->size - size));
    fuzz_allow(d->rw, (size_t)size);
    fuzz_forbid(d->rw + size, (size_t)(DISK_ROOM - size));
    return true;
}

/* An empty disk in `room`, zero or begun before; what was there is forgotten. */
static inline void fuzz_disk_begin(disk *d, fuzz_room *room)
{
    fuzz_allow(room->live.bytes, (size_t)d->size);
    memset(room->live.bytes, 0, (size_t)d->size);
    memset(room->synced, 0, (size_t)d->synced_size);
    disk_begin(d, DISK_ROOM);
    d->view = DISK_ROOM;
    d->resize = fuzz_disk_resize;
    d->ro = d->rw = room->live.bytes;
    d->synced = room->synced;
    fuzz_forbid(d->rw, DISK_ROOM);
}

/* What a power loss leaves, to `image`: each page (or sector) that was not synced is old
 * or new, and so is the size. Its size. */
static inline size_t fuzz_disk_cut(const disk *d, uint64_t seed, bool sectors,
                                   unsigned char *image)
{
    size_t grain = sectors ? 512 : 4096;
    uint64_t size = d->size > d->synced_size && seed % 4 == 1 ? d->synced_size : d->size;
    for (size_t at = 0; at < size; at += grain) {
        size_t len = size - at < grain ? (size_t)(size - at) : grain;
        bool old = at < d->synced_size ? (test_random(&seed) & 1) != 0
                                       : (test_random(&seed) & 3) == 0;
        memcpy(image + at, (old ? d->synced : d->ro) + at, len);
    }
    return (size_t)size;
}

#endif /* FUZZ_DISK_H */
