/* Of <sys/mman.h> and its neighbours, what the tests use: pages that may not be touched,
 * and maps of a file in memory (numbered_messages.h, simdisk.h). See ../posix.c. */

#ifndef WINDOWS_MMAN_H
#define WINDOWS_MMAN_H

#include <stddef.h>
#include <stdint.h>

enum { PROT_NONE = 0, PROT_READ = 1, PROT_WRITE = 2 };
enum { MAP_SHARED = 1, MAP_PRIVATE = 2, MAP_ANONYMOUS = 4 };

#define MAP_FAILED ((void *)-1)

void *mmap(void *where, size_t size, int protection, int flags, int fd, int64_t offset);
int mprotect(void *at, size_t size, int protection);
int munmap(void *at, size_t size);

/* A file in memory, and its size: what a name was made for is in memory too. */
int memory_file(void);
int memory_resize(int fd, uint64_t size);

#define mkstemp(path) memory_file()
#define ftruncate(fd, size) memory_resize(fd, (uint64_t)(size))

#endif /* WINDOWS_MMAN_H */
