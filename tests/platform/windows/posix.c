/* What of POSIX the tests use and needs windows.h: hard links, and the maps of
 * tests/platform/windows/sys/mman.h. Pages without access are reserved and not committed.
 * A file in memory is a section of the paging file, reserved as large as its first map;
 * memory_resize commits its bytes in each of its maps, so that a touch behind its last
 * page ends the program, as it does elsewhere.
 *
 * Left out: pages that were committed stay so when a file shrinks; they read zero. A file
 * has two maps at most, both from its beginning and of one size. For one thread. */

#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <string.h>
#include "sys/mman.h"

enum { FILES = 512, VIEWS = 2 };

typedef struct memory {
    int fd;                   /* of NUL: a number that nobody else has; 0: none */
    HANDLE section;
    uint64_t size;
    char *views[VIEWS];
    DWORD access[VIEWS];      /* what their pages are committed with */
} memory;

static memory files[FILES];

static memory *file_of(int fd)
{
    for (int i = 0; i < FILES; i++)
        if (files[i].fd == fd) return &files[i];
    return NULL;
}

/* A descriptor that was closed may come again: its file of then is gone. */
int memory_file(void)
{
    int fd = _open("NUL", _O_RDWR | _O_NOINHERIT);
    memory *f = fd > 0 ? file_of(fd) : NULL;
    if (fd > 0 && f == NULL) f = file_of(0);
    if (f == NULL) return -1;
    memset(f, 0, sizeof *f);
    f->fd = fd;
    return fd;
}

static int commit(const memory *f, int view)
{
    if (f->views[view] == NULL || f->size == 0) return 0;
    return VirtualAlloc(f->views[view], (SIZE_T)f->size, MEM_COMMIT, f->access[view]) ==
                   NULL
               ? -1
               : 0;
}

int memory_resize(int fd, uint64_t size)
{
    memory *f = file_of(fd);
    if (f == NULL) return -1;
    for (int i = 0; i < VIEWS && size < f->size; i++)
        if (f->views[i] != NULL && f->access[i] == PAGE_READWRITE)
            memset(f->views[i] + size, 0, (size_t)(f->size - size));
    f->size = size;
    for (int i = 0; i < VIEWS; i++)
        if (commit(f, i) != 0) return -1;
    return 0;
}

static void *map_file(memory *f, size_t size, int protection)
{
    int view = f->views[0] == NULL ? 0 : 1;
    DWORD access = protection & PROT_WRITE ? FILE_MAP_WRITE : FILE_MAP_READ;
    if (f->section == NULL)
        f->section = CreateFileMappingA(INVALID_HANDLE_VALUE, NULL,
                                        PAGE_READWRITE | SEC_RESERVE,
                                        (DWORD)((uint64_t)size >> 32), (DWORD)size, NULL);
    if (f->section == NULL || f->views[view] != NULL) return MAP_FAILED;
    f->views[view] = (char *)MapViewOfFile(f->section, access, 0, 0, size);
    f->access[view] = protection & PROT_WRITE ? PAGE_READWRITE : PAGE_READONLY;
    if (f->views[view] == NULL || commit(f, view) != 0) return MAP_FAILED;
    return f->views[view];
}

void *mmap(void *where, size_t size, int protection, int flags, int fd, int64_t offset)
{
    if (where != NULL || offset != 0) return MAP_FAILED;
    if (flags & MAP_ANONYMOUS) {
        void *at = VirtualAlloc(NULL, size, MEM_RESERVE, PAGE_NOACCESS);
        if (at == NULL) return MAP_FAILED;
        return protection == PROT_NONE || mprotect(at, size, protection) == 0 ? at
                                                                              : MAP_FAILED;
    }
    memory *f = file_of(fd);
    return f != NULL ? map_file(f, size, protection) : MAP_FAILED;
}

int mprotect(void *at, size_t size, int protection)
{
    DWORD access = protection & PROT_WRITE  ? PAGE_READWRITE
                   : protection & PROT_READ ? PAGE_READONLY
                                            : PAGE_NOACCESS;
    return VirtualAlloc(at, size, MEM_COMMIT, access) != NULL ? 0 : -1;
}

int munmap(void *at, size_t size)
{
    (void)size;
    for (memory *f = files; f < files + FILES; f++)
        for (int i = 0; i < VIEWS; i++) {
            if (f->views[i] == NULL || f->views[i] != (char *)at) continue;
            UnmapViewOfFile(at);
            f->views[i] = NULL;
            if (f->views[1 - i] != NULL) return 0;
            CloseHandle(f->section);
            memset(f, 0, sizeof *f);
            return 0;
        }
    return VirtualFree(at, 0, MEM_RELEASE) ? 0 : -1;
}

int link(const char *from, const char *to)
{
    if (CreateHardLinkA(to, from, NULL)) return 0;
    errno = GetLastError() == ERROR_FILE_NOT_FOUND ? ENOENT : EIO;
    return -1;
}

char *strcasestr(const char *text, const char *part)
{
    size_t n = strlen(part);
    for (; *text != '\0'; text++)
        if (_strnicmp(text, part, n) == 0) return (char *)text;
    return n == 0 ? (char *)text : NULL;
}
