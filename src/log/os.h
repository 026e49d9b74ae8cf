
/* ==== [os] the system, through one table ==============================================
 * The only section that makes system calls on files. It uses:
 *
 *   POSIX    open close fstat pread pwrite fsync mmap munmap rename unlink readlink chown
 *            chmod getrlimit getpid geteuid clock_gettime fcntl(F_DUPFD, F_SETFD); flock,
 *            except on Linux
 *   Linux    fcntl(F_OFD_SETLK) fdatasync fallocate madvise mprotect posix_fadvise
 *            fstatfs process_madvise pwritev2 /proc/sys/kernel/random/boot_id
 *   macOS    fcntl(F_FULLFSYNC) sysctl(KERN_BOOTTIME)
 *   Windows  CreateFile CloseHandle GetFileInformationByHandle GetFileType ReadFile
 *            WriteFile SetEndOfFile FlushFileBuffers LockFileEx CreateFileMapping
 *            MapViewOfFile MoveFileEx DeleteFile
 *
 * The other sections use a table (ms_os), so that a test can be the disk. Its functions
 * do one thing each and decide nothing: 0, or an errno value, on Windows too. Short reads
 * and writes, interrupts and the meaning of errors are handled once, after the table.
 *
 * What the log relies on, in any table:
 *
 *   stat         Device and inode name one file under all its names. The writer's line
 *                has both, so no handle trusts the watermark in a copy of a log.
 *   write, map   A map shows what calls have written, at once and to all processes: the
 *                engine WRITE stores by calls, and every handle reads through maps.
 *   allocate     Changes no byte that is there. On a file system with keeps_room, a later
 *                write into this room finds space. EFBIG where a write there would
 *                exceed a limit of the process: the log asks before it writes, so that no
 *                signal comes.
 *   sync         When it returns 0, the disk has all bytes that any process had stored
 *                before, by calls or maps, and the size that they need. If it fails, the
 *                state of the disk is not known: see [log-sync] for what follows.
 *   lock         Belongs to the open file, excludes others, and ends with unlock, close
 *                and the death of the process.
 *   rename       The path names the old file or the new one at every moment.
 *   sync_folder  When it returns 0, creations and renames in the folder are on the disk.
 *   boot         Differs after each start of the machine. 0, not known: no watermark is
 *                trusted, and shared writers are refused.
 *
 * Nothing else orders what reaches the disk. Between two syncs the pages of a file are
 * written in any order, or not at all. A power loss leaves each sector of 512 bytes old
 * or new. So what must not be seen half has a check, or lies in one such sector; and
 * what must come first is followed by a sync.
 *
 * Locks. A process loses a lock of fcntl's old kind when it closes any descriptor of the
 * file: a reader of the same program would end the lock of its writer. A lock that
 * belongs to the open file (OFD, or flock elsewhere) stays. fork duplicates both: a child
 * that lives on keeps the file locked, so a handle notices that it is in a child (below),
 * and only frees memory there.
 *
 * Maps. On POSIX systems a map can be longer than the file, and starts to work as the
 * file grows: one map serves for a long time. A load beyond the end of the file raises
 * SIGBUS, so sections compare with the size first. On Windows a map cannot be longer
 * (exact_maps): there each growth of the file takes one more map.
 * ================================================================================== */

#define MS__PAGES_EACH 32u /* pages that populate_each reads, at most */

#include <errno.h>
#include <time.h>

#ifdef EDQUOT
#define MS__EDQUOT EDQUOT
#else
#define MS__EDQUOT ENOSPC
#endif

#if MS__WINDOWS

static int ms__win_error(void)
{
    switch (GetLastError()) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
        return ENOENT;
    case ERROR_FILE_EXISTS:
    case ERROR_ALREADY_EXISTS:
        return EEXIST;
    case ERROR_ACCESS_DENIED:
        return EACCES;
    case ERROR_SHARING_VIOLATION:
    case ERROR_LOCK_VIOLATION:
    case ERROR_USER_MAPPED_FILE:
        return EAGAIN;
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL:
        return ENOSPC;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_COMMITMENT_LIMIT:
        return ENOMEM;
    case ERROR_TOO_MANY_OPEN_FILES:
        return EMFILE;
    default:
        return EIO;
    }
}

static HANDLE ms__win_file(ms_file file)
{
    return (HANDLE)file;
}

/* Converts a path to UTF-16; free() it. */
static wchar_t *ms__win_path(const char *path)
{
    int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
    wchar_t *wide = n > 0 ? (wchar_t *)malloc((size_t)n * sizeof *wide) : NULL;
    if (wide) (void)MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, n);
    return wide;
}

static int ms__os_open(MS__UNUSED void *ctx, const char *path, unsigned how,
                       ms_file *file)
{
    DWORD access = how & MS_OS_WRITE ? GENERIC_READ | GENERIC_WRITE : GENERIC_READ;
    DWORD share = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    DWORD making = how & MS_OS_CREATE ? OPEN_ALWAYS : OPEN_EXISTING;
    wchar_t *wide = ms__win_path(path);
    if (!wide) return ENOENT;
    HANDLE h =
        CreateFileW(wide, access, share, NULL, making, FILE_ATTRIBUTE_NORMAL, NULL);
    int code = h == INVALID_HANDLE_VALUE ? ms__win_error() : 0;
    free(wide);
    *file = (ms_file)h;
    return code;
}

static int ms__os_close(MS__UNUSED void *ctx, ms_file file)
{
    return CloseHandle(ms__win_file(file)) ? 0 : ms__win_error();
}

static int ms__os_stat(MS__UNUSED void *ctx, ms_file file, ms_os_stat *out)
{
    BY_HANDLE_FILE_INFORMATION info;
    memset(out, 0, sizeof *out);
    if (!GetFileInformationByHandle(ms__win_file(file), &info)) return ms__win_error();
    out->size = (uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow;
    out->device = info.dwVolumeSerialNumber;
    out->inode = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow;
    out->regular = GetFileType(ms__win_file(file)) == FILE_TYPE_DISK &&
                   !(info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY);
    return 0;
}

static OVERLAPPED ms__win_at(uint64_t offset)
{
    OVERLAPPED at;
    memset(&at, 0, sizeof at);
    at.Offset = (DWORD)offset;
    at.OffsetHigh = (DWORD)(offset >> 32);
    return at;
}

static MS__ONCE int ms__os_read(MS__UNUSED void *ctx, ms_file file, uint64_t offset,
                                void *to, size_t size, size_t *done)
{
    OVERLAPPED at = ms__win_at(offset);
    DWORD n = 0, most = size > 1u << 30 ? 1u << 30 : (DWORD)size;
    BOOL fine = ReadFile(ms__win_file(file), to, most, &n, &at);
    *done = n;
    return fine || GetLastError() == ERROR_HANDLE_EOF ? 0 : ms__win_error();
}

static int ms__os_write(MS__UNUSED void *ctx, ms_file file, uint64_t offset,
                        const void *from, size_t size, size_t *done)
{
    OVERLAPPED at = ms__win_at(offset);
    DWORD n = 0, most = size > 1u << 30 ? 1u << 30 : (DWORD)size;
    BOOL fine = WriteFile(ms__win_file(file), from, most, &n, &at);
    *done = n;
    return fine ? 0 : ms__win_error();
}

/* Makes the file longer. NTFS allocates what the file has. */
static int ms__os_allocate(void *ctx, ms_file file, uint64_t offset, uint64_t size)
{
    ms_os_stat now;
    LARGE_INTEGER end;
    int code = ms__os_stat(ctx, file, &now);
    if (code != 0 || now.size >= offset + size) return code;
    end.QuadPart = (LONGLONG)(offset + size);
    if (!SetFilePointerEx(ms__win_file(file), end, NULL, FILE_BEGIN) ||
        !SetEndOfFile(ms__win_file(file)))
        return ms__win_error();
    return 0;
}

static int ms__os_sync(MS__UNUSED void *ctx, ms_file file)
{
    return FlushFileBuffers(ms__win_file(file)) ? 0 : ms__win_error();
}

/* Locks one byte far after every record: other processes cannot read locked bytes. */
static int ms__os_lock(MS__UNUSED void *ctx, ms_file file)
{
    OVERLAPPED at = ms__win_at((uint64_t)1 << 62);
    return LockFileEx(ms__win_file(file),
                      LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
               ? 0
               : ms__win_error();
}

static int ms__os_unlock(MS__UNUSED void *ctx, ms_file file)
{
    OVERLAPPED at = ms__win_at((uint64_t)1 << 62);
    return UnlockFileEx(ms__win_file(file), 0, 1, 0, &at) ? 0 : ms__win_error();
}

static int ms__os_map(MS__UNUSED void *ctx, ms_file file, uint64_t offset, size_t size,
                      unsigned how, void **out)
{
    DWORD protect = how & MS_OS_WRITE ? PAGE_READWRITE : PAGE_READONLY;
    DWORD access = how & MS_OS_WRITE ? FILE_MAP_WRITE : FILE_MAP_READ;
    HANDLE map = CreateFileMappingW(ms__win_file(file), NULL, protect, 0, 0, NULL);
    *out = NULL;
    if (!map) return ms__win_error();
    *out = MapViewOfFile(map, access, (DWORD)(offset >> 32), (DWORD)offset, size);
    int code = *out ? 0 : ms__win_error();
    (void)CloseHandle(map); /* the view keeps the file mapping alive */
    return code;
}

static int ms__os_unmap(MS__UNUSED void *ctx, void *map, MS__UNUSED size_t size)
{
    return UnmapViewOfFile(map) ? 0 : ms__win_error();
}

#define MS__OS_READ_AHEAD NULL
#define MS__OS_POPULATE NULL
#define MS__OS_POPULATE_EACH NULL
#define MS__OS_WRITE_SYNCED NULL

/* Write-through: the name is on the disk when this returns. An open file at `to` is not
 * replaced. */
static int ms__os_rename(MS__UNUSED void *ctx, const char *from, const char *to)
{
    wchar_t *a = ms__win_path(from), *b = ms__win_path(to);
    int code = !a || !b ? ENOENT
               : MoveFileExW(a, b, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)
                   ? 0
                   : ms__win_error();
    free(a);
    free(b);
    return code;
}

static int ms__os_remove(MS__UNUSED void *ctx, const char *path)
{
    wchar_t *wide = ms__win_path(path);
    int code = wide && DeleteFileW(wide) ? 0 : ms__win_error();
    free(wide);
    return code;
}

static int ms__os_sync_folder(MS__UNUSED void *ctx, MS__UNUSED const char *path)
{
    return 0; /* MoveFileEx has written the name already */
}

#define MS__OS_ACCESS_LIKE NULL /* the folder decides who may use its files */
#define MS__OS_READ_LINK NULL

/* Returns the number of this boot: the BootId of KUSER_SHARED_DATA, a page that every
 * process may read. Before Windows 10 it is zero. Then the result is the time of the last
 * start, in steps of ten seconds. Two clocks give that time, so it may seldom change by
 * one step while the machine runs. A reader then stops following until it is opened
 * again. */
static uint64_t ms__os_boot(MS__UNUSED void *ctx)
{
    uint32_t boot = *(const volatile uint32_t *)(uintptr_t)(0x7FFE0000u + 0x2C4u);
    if (boot != 0) return (uint64_t)1 << 63 | boot;
    return ((uint64_t)ms__system_time() / 1000000 - GetTickCount64()) / 10000;
}

static uint64_t ms__os_micros(MS__UNUSED void *ctx)
{
    LARGE_INTEGER now, second;
    (void)QueryPerformanceCounter(&now);
    (void)QueryPerformanceFrequency(&second);
    return (uint64_t)((double)now.QuadPart / (double)second.QuadPart * 1e6);
}

static uint64_t ms__os_process(MS__UNUSED void *ctx)
{
    return GetCurrentProcessId();
}

#else /* POSIX */

#include <fcntl.h>
#include <stdio.h> /* rename */
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#if MS__LINUX
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#else
#include <sys/file.h>
#endif
#if MS__APPLE
#include <sys/sysctl.h>
#endif

/* The C library hides these if a program includes it first with stricter settings. */
#if MS__LINUX && !defined(__USE_GNU) && !defined(__cplusplus)
#if defined(__USE_FILE_OFFSET64) && !defined(__LP64__)
#define MS__WIDE(name) __asm__(name "64") /* as the system's headers would have it */
#else
#define MS__WIDE(name)
#endif
extern ssize_t pread(int fd, void *to, size_t size, off_t offset) MS__WIDE("pread");
extern ssize_t pwrite(int fd, const void *from, size_t size, off_t offset)
    MS__WIDE("pwrite");
extern int fallocate(int fd, int mode, off_t offset, off_t size) MS__WIDE("fallocate");
extern int fdatasync(int fd);
extern int fsync(int fd);
extern ssize_t readlink(const char *path, char *to, size_t size);
extern int madvise(void *at, size_t size, int advice);
extern int posix_fadvise(int fd, off_t offset, off_t size, int advice)
    MS__WIDE("posix_fadvise");
extern long syscall(long number, ...);
extern char *strchr(const char *text, int c);
#endif
#ifndef O_CLOEXEC
#define MS__O_CLOEXEC 02000000
#else
#define MS__O_CLOEXEC O_CLOEXEC
#endif
#define MS__F_OFD_SETLK         37 /* Linux */
#define MS__MADV_RANDOM         1
#define MS__MADV_POPULATE_READ  22
#define MS__PIDFD_SELF          (-10000)
#if defined MAP_ANONYMOUS /* strict modes hide it */
#define MS__MAP_ANONYMOUS       MAP_ANONYMOUS
#elif defined __mips__ || defined __xtensa__
#define MS__MAP_ANONYMOUS       0x800
#elif defined __alpha__ || defined __hppa__
#define MS__MAP_ANONYMOUS       0x10
#else
#define MS__MAP_ANONYMOUS       0x20
#endif
#define MS__FADV_WILLNEED       3
#define MS__RWF_DSYNC           2

/* Gives an open file a number above those of the standard streams. In a program whose
 * streams are closed it has one of theirs, and what is printed would be written over the
 * log. -1: errno has the reason, and the file is closed. */
static int ms__os_above_streams(int fd)
{
    int above = fcntl(fd, F_DUPFD, 3), code = errno;
    (void)close(fd);
    errno = code;
    if (above >= 0) (void)fcntl(above, F_SETFD, FD_CLOEXEC);
    return above;
}

static int ms__os_open(MS__UNUSED void *ctx, const char *path, unsigned how,
                       ms_file *file)
{
    int flags = (how & MS_OS_WRITE ? O_RDWR : O_RDONLY) | MS__O_CLOEXEC | O_NONBLOCK;
    if (how & MS_OS_CREATE) flags |= O_CREAT;
    int fd = open(path, flags, 0600);
    if (fd >= 0 && fd < 3) fd = ms__os_above_streams(fd);
    *file = fd;
    return fd < 0 ? errno : 0;
}

static int ms__os_close(MS__UNUSED void *ctx, ms_file file)
{
    return close((int)file) == 0 ? 0 : errno;
}

/* Returns whether the file system can always write an allocated block. On others (of the
 * network, or where files share blocks: btrfs, XFS) a store into a map may raise
 * SIGBUS. */
static bool ms__keeps_room(MS__UNUSED int fd)
{
#if MS__LINUX
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0) return false;
    uint32_t type = (uint32_t)fs.f_type; /* ext2 to ext4, tmpfs */
    return type == 0xEF53u || type == 0x01021994u;
#else
    return false;
#endif
}

static int ms__os_stat(MS__UNUSED void *ctx, ms_file file, ms_os_stat *out)
{
    struct stat st;
    memset(out, 0, sizeof *out);
    if (fstat((int)file, &st) != 0) return errno;
    out->size = (uint64_t)st.st_size;
    out->device = (uint64_t)st.st_dev;
    out->inode = (uint64_t)st.st_ino;
    out->regular = S_ISREG(st.st_mode);
    out->keeps_room = ms__keeps_room((int)file);
    uint64_t room = (uint64_t)st.st_blocks * 512;
    out->holes = room < out->size ? out->size - room : 0;
    return 0;
}

static MS__ONCE int ms__os_read(MS__UNUSED void *ctx, ms_file file, uint64_t offset,
                                void *to, size_t size, size_t *done)
{
    ssize_t n = pread((int)file, to, size, (off_t)offset);
    *done = n < 0 ? 0 : (size_t)n;
    return n < 0 ? errno : 0;
}

static int ms__os_write(MS__UNUSED void *ctx, ms_file file, uint64_t offset,
                        const void *from, size_t size, size_t *done)
{
    ssize_t n = pwrite((int)file, from, size, (off_t)offset);
    *done = n < 0 ? 0 : (size_t)n;
    return n < 0 ? errno : 0;
}

/* posix_fallocate is no substitute: it may store zeros in each block, where another
 * process stores records meanwhile. Without allocation the log is written by calls, which
 * report a full disk. A call beyond the limit of a process (ulimit -f) raises SIGXFSZ. */
static int ms__os_allocate(MS__UNUSED void *ctx, MS__UNUSED ms_file file, uint64_t offset,
                           uint64_t size)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        offset + size > limit.rlim_cur)
        return EFBIG;
#if MS__LINUX
    return fallocate((int)file, 0, (off_t)offset, (off_t)size) == 0 ? 0 : errno;
#else
    return EOPNOTSUPP;
#endif
}

/* fdatasync leaves out times, but not a size that the bytes need. On macOS fsync does not
 * flush the cache of the drive: it is the second choice, where the file system has no
 * F_FULLFSYNC. */
static int ms__os_sync(MS__UNUSED void *ctx, ms_file file)
{
#if MS__APPLE
    if (fcntl((int)file, F_FULLFSYNC) == 0) return 0;
#endif
#if MS__LINUX
    return fdatasync((int)file) == 0 ? 0 : errno;
#else
    return fsync((int)file) == 0 ? 0 : errno;
#endif
}

#if MS__LINUX
#define MS__TAKE F_WRLCK
#define MS__GIVE F_UNLCK
/* Locks the whole file for the open file. Kernels before 3.15 return EINVAL: such a lock
 * is not replaced by one of the old kind, which is lost too easily. */
static int ms__os_set_lock(ms_file file, int type)
{
    struct flock lock;
    memset(&lock, 0, sizeof lock);
    lock.l_type = (short)type;
    lock.l_whence = SEEK_SET;
    int code = fcntl((int)file, MS__F_OFD_SETLK, &lock) == 0 ? 0 : errno;
    if (code == EACCES) return EAGAIN;
    return code == EINVAL || code == ENOSYS || code == EOPNOTSUPP ? ENOLCK : code;
}
#else
#define MS__TAKE (LOCK_EX | LOCK_NB)
#define MS__GIVE LOCK_UN
static int ms__os_set_lock(ms_file file, int operation)
{
    if (flock((int)file, operation) == 0) return 0;
    return errno == EWOULDBLOCK ? EAGAIN : errno == EOPNOTSUPP ? ENOLCK : errno;
}
#endif

static int ms__os_lock(MS__UNUSED void *ctx, ms_file file)
{
    return ms__os_set_lock(file, MS__TAKE);
}

static int ms__os_unlock(MS__UNUSED void *ctx, ms_file file)
{
    return ms__os_set_lock(file, MS__GIVE);
}

static int ms__os_map(MS__UNUSED void *ctx, ms_file file, uint64_t offset, size_t size,
                      unsigned how, void **out)
{
    int protect = how & MS_OS_WRITE ? PROT_READ | PROT_WRITE : PROT_READ;
    void *p = mmap(NULL, size, protect, MAP_SHARED, (int)file, (off_t)offset);
    *out = NULL;
    if (p == MAP_FAILED) return errno;
#if MS__LINUX
    if (how & MS_OS_RANDOM) (void)madvise(p, size, MS__MADV_RANDOM);
#endif
    *out = p;
    return 0;
}

static int ms__os_unmap(MS__UNUSED void *ctx, void *map, size_t size)
{
    return munmap(map, size) == 0 ? 0 : errno;
}

#if MS__LINUX
#define MS__UNREADABLE 0x5b /* the bytes in place of a bad block: no zeros */

/* Replaces a page of a map, which raises a signal where it is read, by a copy that a call
 * reads. Where that fails, by bytes that are not the file's, and counts them in *bad. */
static int ms__os_page_copy(ms_file file, unsigned char *at, uint64_t offset,
                            uint64_t *bad)
{
    void *p = mmap(at, 4096, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MS__MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (p == MAP_FAILED) return errno;
    if (pread((int)file, p, 4096, (off_t)offset) < 0) {
        memset(p, MS__UNREADABLE, 4096);
        *bad += 4096;
    }
    return mprotect(p, 4096, PROT_READ) == 0 ? 0 : errno;
}

/* Linux 5.14 reads the pages at once, and fails where one cannot be read. Then, and with
 * older systems, a byte of each page is read by a call. A page after the end of the file
 * stays as it is. A hole in a full tmpfs can be read by a call alone. */
static int ms__os_populate(MS__UNUSED void *ctx, ms_file file, void *at, uint64_t offset,
                           size_t size, uint64_t *bad)
{
    unsigned char byte;
    *bad = 0;
    if (madvise(at, size, MS__MADV_POPULATE_READ) == 0) return 0;
    for (size_t i = 0; i < size; i += 4096) {
        unsigned char *page = (unsigned char *)at + i;
        ssize_t got = pread((int)file, &byte, 1, (off_t)(offset + i));
        if (got == 0 || (got > 0 && (madvise(page, 4096, MS__MADV_POPULATE_READ) == 0 ||
                                     errno != EFAULT)))
            continue;
        int code = ms__os_page_copy(file, page, offset + i, bad);
        if (code != 0) return code;
    }
    return 0;
}

static int ms__os_read_ahead(MS__UNUSED void *ctx, ms_file file, uint64_t offset,
                             uint64_t size)
{
    return posix_fadvise((int)file, (off_t)offset, (off_t)size, MS__FADV_WILLNEED);
}
#define MS__OS_READ_AHEAD ms__os_read_ahead
#define MS__OS_POPULATE ms__os_populate
#else
#define MS__OS_READ_AHEAD NULL
#define MS__OS_POPULATE NULL
#endif

/* Linux 6.15; earlier ones do not know that name of the own process, or do not read pages
 * for this call. */
#if MS__LINUX && defined SYS_process_madvise && !defined __ANDROID__
static int ms__os_populate_each(MS__UNUSED void *ctx, void *const *pages, size_t n)
{
    struct iovec part[MS__PAGES_EACH];
    for (size_t i = 0; i < n; i++) {
        part[i].iov_base = pages[i];
        part[i].iov_len = 4096;
    }
    long got = syscall(SYS_process_madvise, (long)MS__PIDFD_SELF, part, n,
                       (long)MS__MADV_POPULATE_READ, 0ul);
    if (got < 0) return errno;
    return (size_t)got == n * 4096 ? 0 : EIO;
}
#define MS__OS_POPULATE_EACH ms__os_populate_each
#else
#define MS__OS_POPULATE_EACH NULL
#endif

/* Linux 4.7. The C libraries came to have this call later. Android ends a process that
 * makes a call which it does not know. */
#if MS__LINUX && defined SYS_pwritev2 && !defined __ANDROID__
static int ms__os_write_synced(MS__UNUSED void *ctx, ms_file file, uint64_t offset,
                               const void *from, size_t size, size_t *done)
{
    struct iovec part;
    part.iov_base = (void *)(uintptr_t)from;
    part.iov_len = size;
    long n = syscall(SYS_pwritev2, (int)file, &part, 1ul, (unsigned long)offset,
                     (unsigned long)(offset >> 32), MS__RWF_DSYNC);
    *done = n < 0 ? 0 : (size_t)n;
    if (n >= 0) return 0;
    return errno == ENOSYS || errno == EINVAL ? EOPNOTSUPP : errno;
}
#define MS__OS_WRITE_SYNCED ms__os_write_synced
#else
#define MS__OS_WRITE_SYNCED NULL
#endif

static int ms__os_rename(MS__UNUSED void *ctx, const char *from, const char *to)
{
    return rename(from, to) == 0 ? 0 : errno;
}

static int ms__os_remove(MS__UNUSED void *ctx, const char *path)
{
    return unlink(path) == 0 ? 0 : errno;
}

/* Copies owner, group and permissions. If the owner cannot be set, the group must be set,
 * and must have all rights. */
static int ms__os_access_like(MS__UNUSED void *ctx, const char *path, const char *like)
{
    struct stat st;
    int fd = open(like, O_RDONLY | MS__O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno;
    int code = fstat(fd, &st) == 0 ? 0 : errno;
    (void)close(fd);
    if (code != 0) return code;
    if (chown(path, st.st_uid, st.st_gid) != 0 &&
        ((st.st_mode & 060) != 060 || chown(path, geteuid(), st.st_gid) != 0))
        return EPERM;
    return chmod(path, st.st_mode & 0777) == 0 ? 0 : errno;
}

#define MS__OS_ACCESS_LIKE ms__os_access_like

static int ms__os_read_link(MS__UNUSED void *ctx, const char *path, char *to, size_t size)
{
    ssize_t n = readlink(path, to, size);
    if (n < 0) return errno;
    if ((size_t)n == size) return ENAMETOOLONG;
    to[n] = 0;
    return 0;
}

#define MS__OS_READ_LINK ms__os_read_link

/* Syncs the folder: the path up to its last slash. A folder that may not be read cannot
 * be synced (EACCES); the caller decides what that means. */
static int ms__os_sync_folder(MS__UNUSED void *ctx, const char *path)
{
    size_t n = strlen(path);
    while (n > 0 && path[n - 1] != '/') n--;
    char *folder = (char *)malloc(n + 2);
    if (!folder) return ENOMEM;
    if (n > 0)
        memcpy(folder, path, n);
    else
        folder[n++] = '.';
    folder[n] = 0;
    int fd = open(folder, O_RDONLY | MS__O_CLOEXEC);
    free(folder);
    if (fd < 0) return errno;
    int code = fsync(fd) == 0 ? 0 : errno;
    (void)close(fd);
    return code == EINVAL ? 0 : code; /* the file system cannot sync folders */
}

/* Returns a hash of the system's name for this boot, odd, so never 0; 0: unknown. */
static uint64_t ms__os_boot(MS__UNUSED void *ctx)
{
    static const uint64_t key[2] = {0x6d7367, 0x626f6f74};
#if MS__LINUX
    char text[64];
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | MS__O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = pread(fd, text, sizeof text, 0);
    (void)close(fd);
    return n > 0 ? ms__hash(key, 0, text, (size_t)n) | 1 : 0;
#elif MS__APPLE
    struct timeval boot;
    size_t size = sizeof boot;
    int name[2] = {CTL_KERN, KERN_BOOTTIME};
    if (sysctl(name, 2, &boot, &size, NULL, 0) != 0) return 0;
    return ms__hash(key, 0, (const char *)&boot.tv_sec, sizeof boot.tv_sec) | 1;
#else
    (void)key;
    return 0;
#endif
}

static uint64_t ms__os_micros(MS__UNUSED void *ctx)
{
#if defined(CLOCK_MONOTONIC)
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) == 0)
        return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
#endif
    return (uint64_t)ms__system_time() / 1000;
}

static uint64_t ms__os_process(MS__UNUSED void *ctx)
{
    return (uint64_t)getpid();
}

#endif

static void ms__os_sleep(MS__UNUSED void *ctx, uint64_t micros)
{
    ms__pause(micros);
}

static const ms_os ms__os_table = {
    NULL,         ms__os_open,     ms__os_close,  ms__os_stat,    ms__os_read,
    ms__os_write, ms__os_allocate, ms__os_sync,   ms__os_lock,    ms__os_unlock,
    ms__os_map,   ms__os_unmap,    ms__os_rename, ms__os_remove,
    ms__os_sync_folder, ms__os_boot, ms__os_micros, ms__os_sleep, ms__os_process,
    MS__WINDOWS, MS__OS_ACCESS_LIKE, MS__OS_READ_AHEAD, MS__OS_READ_LINK,
    MS__OS_POPULATE, MS__OS_POPULATE_EACH, MS__OS_WRITE_SYNCED};

MS_API const ms_os *ms_os_default(void)
{
    return &ms__os_table;
}

/* ---- After the table: what a result means. Here an error becomes a code and a text, a
 * short transfer is continued, and a call that a signal interrupted is made again. */

/* offset: of the bytes in the file, or MS_NO_OFFSET. */
static MS__RARE ms_result ms__os_fail_at(ms_error *err, int code, const char *what,
                                         const char *path, uint64_t offset)
{
    ms_result result = code == ENOENT || code == ENOTDIR ? MS_E_NOT_FOUND
                       : code == EEXIST                  ? MS_E_CONFLICT
                       : code == EAGAIN || code == EBUSY ? MS_E_BUSY
                       : code == ENOMEM                  ? MS_E_NO_MEMORY
                       : code == ENOSPC || code == MS__EDQUOT || code == EFBIG ? MS_E_FULL
                       : code == ENOLCK || code == ENODEV ? MS_E_UNSUPPORTED
                                                          : MS_E_IO;
    const char *why = code == ENOENT || code == ENOTDIR  ? "no such file"
                      : code == EEXIST                   ? "the file exists"
                      : code == EACCES || code == EPERM  ? "permission denied"
                      : code == EROFS                    ? "the file system is read-only"
                      : code == ENOMEM                   ? "out of memory"
                      : code == EIO                      ? "the device reports an error"
                      : code == ENOSPC                   ? "the disk is full"
                      : code == MS__EDQUOT               ? "the disk quota is exceeded"
                      : code == EFBIG                    ? "the file would be too large"
                      : code == EMFILE || code == ENFILE ? "too many open files"
                      : code == ENOLCK                   ? "the file system has no locks"
                      : code == ENODEV                   ? "the file cannot be mapped"
                      : code == EISDIR                   ? "the path is a folder"
                      : code == ELOOP ? "symbolic links lead in a circle"
                                                         : "the system call failed";
    if (offset == MS_NO_OFFSET)
        (void)ms__fail(err, result, "%s '%s': %s (errno %u)", what, path, why,
                       (uint64_t)code);
    else
        (void)ms__fail(err, result, "%s '%s' at byte %u: %s (errno %u)", what, path,
                       offset, why, (uint64_t)code);
    if (!err) return result;
    err->sys_errno = code;
    err->offset = offset;
    return result;
}

static MS__RARE ms_result ms__os_fail(ms_error *err, int code, const char *what,
                                      const char *path)
{
    return ms__os_fail_at(err, code, what, path, MS_NO_OFFSET);
}

/* Reads the status of the file at a path; returns errno. */
static int ms__os_look(const ms_os *os, const char *path, ms_os_stat *st)
{
    ms_file file;
    int code = os->open(os->ctx, path, MS_OS_READ, &file);
    if (code != 0) return code;
    code = os->stat(os->ctx, file, st);
    (void)os->close(os->ctx, file);
    return code;
}

typedef int ms__os_writer(void *ctx, ms_file file, uint64_t offset, const void *from,
                          size_t size, size_t *done);

static int ms__os_write_by(const ms_os *os, ms__os_writer *write, ms_file file,
                           uint64_t offset, const unsigned char *from, size_t size)
{
    while (size > 0) {
        size_t done = 0;
        int code = write(os->ctx, file, offset, from, size, &done);
        if (code == EINTR) continue;
        if (code != 0) return code;
        if (done == 0 || done > size) return EIO;
        from += done;
        offset += done;
        size -= done;
    }
    return 0;
}

/* Writes all bytes, or returns a code; then a part of them may be written. */
static int ms__os_write_all(const ms_os *os, ms_file file, uint64_t offset,
                            const unsigned char *from, size_t size)
{
    return ms__os_write_by(os, os->write, file, offset, from, size);
}

/* The same, and they are durable. EOPNOTSUPP: the file must be synced instead. */
static int ms__os_write_synced_all(const ms_os *os, ms_file file, uint64_t offset,
                                   const unsigned char *from, size_t size)
{
    if (!os->write_synced) return EOPNOTSUPP;
    return ms__os_write_by(os, os->write_synced, file, offset, from, size);
}

/* Reads up to size bytes; *got is less only at the end of the file. */
static int ms__os_read_all(const ms_os *os, ms_file file, uint64_t offset,
                           unsigned char *to, size_t size, size_t *got)
{
    *got = 0;
    while (*got < size) {
        size_t done = 0;
        int code = os->read(os->ctx, file, offset + *got, to + *got, size - *got, &done);
        if (code == EINTR) continue;
        if (code != 0) return code;
        if (done == 0) return 0;
        *got += ms__min(done, size - *got);
    }
    return 0;
}

/* Syncs the file. Only an interrupted sync may be repeated: no write has failed. */
static MS__ONCE int ms__os_sync_done(const ms_os *os, ms_file file)
{
    int code = os->sync(os->ctx, file);
    while (code == EINTR) code = os->sync(os->ctx, file);
    return code;
}

#define MS__NAME_MOST 255u /* bytes of a name in a folder */

/* Returns how many bytes of a path stay when `more` are added to its name, which begins
 * at *name: less than all if it becomes too long. Never a part of a UTF-8 character. */
static size_t ms__path_kept(const char *path, size_t n, size_t more, size_t *name)
{
    *name = n;
    while (*name > 0 && path[*name - 1] != '/' && path[*name - 1] != '\\') --*name;
    if (n - *name <= MS__NAME_MOST - more) return n;
    n = *name + MS__NAME_MOST - more - 17;
    while (n > *name && ((unsigned char)path[n] & 0xC0) == 0x80) n--;
    return n;
}

/* Returns the path with `ending` added; *size bytes of the allocator. The end of a name
 * that becomes too long is replaced by its hash. */
static char *ms__path_beside(const ms_alloc *alloc, const char *path, const char *ending,
                             size_t *size)
{
    static const uint64_t key[2] = {0x6e616d65, 0x73};
    size_t name = 0, n = strlen(path), more = strlen(ending);
    size_t kept = more > 0 ? ms__path_kept(path, n, more, &name) : n;
    *size = kept + (kept < n ? 17 : 0) + more + 1;
    char *p = (char *)ms__resize(alloc, NULL, 0, *size);
    if (!p) return NULL;
    memcpy(p, path, kept);
    uint64_t hash = kept < n ? ms__hash(key, 0, path + name, n - name) : 0;
    for (size_t i = kept + 1; kept < n && i < kept + 17; i++, hash >>= 4)
        p[i] = "0123456789abcdef"[hash & 15];
    if (kept < n) p[kept] = '-';
    memcpy(p + *size - more - 1, ending, more + 1);
    return p;
}

/* ---- Symbolic links. The folder of a file is that of the path at which links end, and a
 * rename would replace a link, not the file. */

#define MS__LINKS_MOST 40
#define MS__LINK_SIZE  4096u

/* Replaces the last part of a path by what a link there leads to. */
static char *ms__path_linked(const ms_alloc *alloc, const char *path, const char *to,
                             size_t *size)
{
    size_t n = to[0] == '/' ? 0 : strlen(path), more = strlen(to) + 1;
    while (n > 0 && path[n - 1] != '/') n--;
    *size = n + more;
    char *p = (char *)ms__resize(alloc, NULL, 0, *size);
    if (!p) return NULL;
    memcpy(p, path, n);
    memcpy(p + n, to, more);
    return p;
}

/* Finds the path at which symbolic links end; a file need not be there. *size bytes of
 * the allocator. Returns an errno value. */
static int ms__path_real(const ms_os *os, const ms_alloc *alloc, const char *path,
                         char **real, size_t *size)
{
    char *to = (char *)ms__resize(alloc, NULL, 0, MS__LINK_SIZE);
    char *p = ms__path_beside(alloc, path, "", size);
    int code = to && p ? 0 : ENOMEM;
    for (int links = 0; code == 0; links++) {
        code = os->read_link ? os->read_link(os->ctx, p, to, MS__LINK_SIZE) : EINVAL;
        if (code == 0 && links == MS__LINKS_MOST) code = ELOOP;
        if (code != 0) break;
        size_t more;
        char *next = ms__path_linked(alloc, p, to, &more);
        if (!next) code = ENOMEM;
        if (!next) break;
        (void)ms__resize(alloc, p, *size, 0);
        p = next;
        *size = more;
    }
    if (to) (void)ms__resize(alloc, to, MS__LINK_SIZE, 0);
    bool wrong = code == ENOMEM || code == ELOOP || code == ENAMETOOLONG;
    *real = p;
    if (!wrong) return 0; /* an opening meets other faults */
    if (p) (void)ms__resize(alloc, p, *size, 0);
    *real = NULL;
    return code;
}

/* Syncs the folder of a file. path: no symbolic link. */
static int ms__folder_sync(const ms_os *os, const char *path)
{
    int code = os->sync_folder(os->ctx, path);
    while (code == EINTR) code = os->sync_folder(os->ctx, path);
    return code;
}

/* Syncs the folder of the file that a path leads to. */
static int ms__os_folder_done(const ms_os *os, const ms_alloc *alloc, const char *path)
{
    char *real;
    size_t size;
    int code = ms__path_real(os, alloc, path, &real, &size);
    if (code != 0) return code;
    code = ms__folder_sync(os, real);
    (void)ms__resize(alloc, real, size, 0);
    return code;
}

static MS__ONCE int ms__os_allocated(const ms_os *os, ms_file file, uint64_t from,
                                     uint64_t size)
{
    int code = os->allocate(os->ctx, file, from, size);
    while (code == EINTR) code = os->allocate(os->ctx, file, from, size);
    return code;
}

/* Returns whether allocate failed because the file system has no such call. */
static bool ms__os_no_allocate(int code)
{
    return code == EOPNOTSUPP || code == ENOSYS || code == EINVAL;
}

/* Allocates bytes that this handle has not allocated, before they are written: a write
 * beyond the limit of the process raises a signal. Returns an errno value. */
static int ms__os_may_write(const ms_os *os, ms_file file, uint64_t from, uint64_t size)
{
    int code = size > 0 ? ms__os_allocated(os, file, from, size) : 0;
    return ms__os_no_allocate(code) ? 0 : code;
}

static MS__ONCE int ms__os_write_anew(const ms_os *os, ms_file file, uint64_t offset,
                                      const unsigned char *from, size_t size)
{
    int code = ms__os_may_write(os, file, offset, size);
    return code != 0 ? code : ms__os_write_all(os, file, offset, from, size);
}

/* ---- Fork. The kernel wipes a page of each child, so a child needs no system call to
 * know what it is (getpid costs about 116 ns an append). Elsewhere the process number
 * serves. */

typedef struct ms__fork_mark {
    volatile unsigned char *page;
    uint64_t process;
} ms__fork_mark;

#define MS__FORK_PAGE 4096u

static void ms__fork_mark_set(ms__fork_mark *mark, const ms_os *os)
{
    mark->page = NULL;
    mark->process = os->process(os->ctx);
#if MS__LINUX
    void *p = mmap(NULL, MS__FORK_PAGE, PROT_READ | PROT_WRITE, 0x22, -1, 0);
    if (p == MAP_FAILED) return;
    /* MADV_WIPEONFORK, Linux 4.14. qemu-user up to 7.2 accepts any advice, even one that
     * does not exist, and follows none. */
    if (madvise(p, MS__FORK_PAGE, 18) != 0 || madvise(p, MS__FORK_PAGE, 0x7fff) == 0) {
        (void)munmap(p, MS__FORK_PAGE);
        return;
    }
    mark->page = (volatile unsigned char *)p;
    *mark->page = 1;
#endif
}

static bool ms__forked(const ms__fork_mark *mark, const ms_os *os)
{
    if (mark->page) return *mark->page == 0;
    return mark->process != os->process(os->ctx);
}

static void ms__fork_mark_unset(ms__fork_mark *mark)
{
#if MS__LINUX
    if (mark->page) (void)munmap((void *)(uintptr_t)mark->page, MS__FORK_PAGE);
#endif
    mark->page = NULL;
}
