/* The few functions of POSIX that the portable tests and the tool use and mingw lacks. It
 * is put in front of each source by tests/platform/windows.sh. */

#ifndef WINDOWS_POSIX_H
#define WINDOWS_POSIX_H

#ifdef WINDOWS_NAMES /* the tool has variables of names that windows.h defines away */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#undef near
#undef far
#endif
#include <direct.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define O_CLOEXEC _O_NOINHERIT
#define SIGPIPE 13
#define tzset _tzset
#define localtime_r(when, parts) (localtime_s(parts, when) == 0 ? (parts) : NULL)
#define timegm(parts) _mkgmtime(parts)
#define gmtime_r(when, parts) (gmtime_s(parts, when) == 0 ? (parts) : NULL)
#define realpath(path, out) _fullpath(out, path, 0)
#define lstat(path, about) stat(path, about)
#define mkdir(path, mode) _mkdir(path)
#define setenv(name, value, over) _putenv_s(name, value)
#define st_mtim st_mtime

#define EDQUOT ENOSPC /* as in the library, where there is none */

/* Numbers that no function of Windows gives. */
#define SIGBUS 7
#define SIGALRM 14

enum { _SC_PAGESIZE, _SC_THREAD_STACK_MIN };

static inline long sysconf(int what) { return what == _SC_PAGESIZE ? 4096 : 65536; }

/* What takes too long is stopped by tests/platform/windows.sh. */
static inline unsigned alarm(unsigned seconds)
{
    (void)seconds;
    return 0;
}

/* As malloc aligns, which is what it gets freed as. */
static inline int posix_memalign(void **out, size_t alignment, size_t size)
{
    (void)alignment;
    *out = malloc(size);
    return *out != NULL ? 0 : 12;
}

/* tests/platform/windows/posix.c */
int link(const char *from, const char *to);
char *strcasestr(const char *text, const char *part);

/* Bytes are bytes: no line ends are changed. */
static __attribute__((constructor)) void bytes_are_bytes(void)
{
    _fmode = _O_BINARY;
    _setmode(0, _O_BINARY);
    _setmode(1, _O_BINARY);
}

struct sigaction {
    void (*sa_handler)(int);
};

static inline int sigaction(int number, const struct sigaction *act, void *old)
{
    (void)old;
    return signal(number, act->sa_handler) == SIG_ERR ? -1 : 0;
}

/* Makes a folder of the name; its last six characters are chosen. */
static inline char *mkdtemp(char *name)
{
    size_t n = strlen(name);
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(name + n - 6, 7, "%06u", (unsigned)(getpid() * 1000 + (int)i) % 1000000);
        if (_mkdir(name) == 0) return name;
    }
    return NULL;
}

static inline void *memmem(const void *in, size_t size, const void *what, size_t len)
{
    const char *at = (const char *)in;
    for (; size >= len; at++, size--)
        if (memcmp(at, what, len) == 0) return (void *)(uintptr_t)at;
    return NULL;
}

static inline char *strndup(const char *text, size_t most)
{
    size_t n = strnlen(text, most);
    char *copy = (char *)malloc(n + 1);
    if (copy == NULL) return NULL;
    memcpy(copy, text, n);
    copy[n] = '\0';
    return copy;
}

#endif /* WINDOWS_POSIX_H */
