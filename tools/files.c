/* See files.h. */

#define _GNU_SOURCE
#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef _WIN32
#include <sys/mman.h>
#include <sys/time.h>
#endif
#ifdef WITH_ZSTD
#include <zstd.h>
#endif
#ifdef WITH_ZIP
#include <zip.h>
#ifdef WITH_ZLIB
#include <limits.h>
#include <zlib.h>
#endif
#endif

/* A file below this size is read into a reused buffer; a larger one is mapped. */
#define MAP_FROM ((uint64_t)64 << 20)
#define STEP ((size_t)1 << 20)
#define HEAD_MAX ((size_t)64 << 10)
#define LIMIT ((uint64_t)1 << 30)
#define PIPE_WAIT 2.0 /* seconds for a writer to come */

static uint64_t limit = LIMIT;

const char *files_built_with(void)
{
#if defined(WITH_ZSTD) && defined(WITH_ZIP)
    return "zstd, zip";
#elif defined(WITH_ZSTD)
    return "zstd; without libzip";
#elif defined(WITH_ZIP)
    return "zip; without libzstd";
#else
    return "neither libzstd nor libzip";
#endif
}

void files_limit(uint64_t bytes)
{
    limit = bytes > 0 ? bytes : LIMIT;
}

uint64_t files_most(void)
{
    return limit;
}

#if defined(WITH_ZSTD) || defined(WITH_ZIP)
/* Returns how many bytes may be written to the buffer: the first one too many ends the
 * unpacking. */
static size_t end_of(const file_text *f, uint64_t most)
{
    return f->cap > most ? (size_t)most + 1 : f->cap;
}
#endif

/* Reports a text that is longer than allowed. */
static int too_long(const char *name, const char *member, const char *what)
{
    complain("%s: %s%s%s to more than %" PRIu64 " bytes; --max-input allows more", name,
             member, *member != '\0' ? " " : "", what, limit);
    return FAILED;
}


/* ---- Opening ----------------------------------------------------------------------- */

#ifdef _WIN32
int file_open(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) complain("%s: %s", path, strerror(errno));
    return fd;
}
#else
static int refuse(int fd, const char *path, const char *kind)
{
    complain("%s: %s, which is not read", path, kind);
    if (fd >= 0) close(fd);
    errno = EINVAL;
    return -1;
}

static void wake(int signal)
{
    (void)signal; /* open ends with EINTR */
}

/* Opens a pipe when somebody has opened it for writing. */
static int open_pipe(const char *path)
{
    struct sigaction quiet, before;
    const struct itimerval often = {{0, 50000}, {0, 50000}}, never = {{0, 0}, {0, 0}};
    double began = clock_seconds();
    int fd;
    memset(&quiet, 0, sizeof quiet);
    quiet.sa_handler = wake;
    sigaction(SIGALRM, &quiet, &before);
    setitimer(ITIMER_REAL, &often, NULL);
    do fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd < 0 && errno == EINTR && clock_seconds() - began < PIPE_WAIT);
    int error = errno;
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    if (fd < 0 && error == EINTR) return refuse(-1, path, "a pipe that nobody writes");
    if (fd < 0) complain("%s: %s", path, strerror(error));
    errno = error;
    return fd;
}

int file_open(const char *path)
{
    struct stat st;
    bool there = stat(path, &st) == 0;
    if (there && S_ISFIFO(st.st_mode)) return open_pipe(path);
    if (there && S_ISSOCK(st.st_mode)) return refuse(-1, path, "a socket");
    if (there && S_ISBLK(st.st_mode)) return refuse(-1, path, "a device");
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* others do not wait */
    if (fd < 0) {
        int error = errno;
        complain("%s: %s", path, strerror(error));
        errno = error;
        return -1;
    }
    bool device = fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && isatty(fd) == 0;
    if (device && strcmp(path, "/dev/null") != 0) return refuse(fd, path, "a device");
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
}
#endif


/* ---- One file ---------------------------------------------------------------------- */

static void release_map(file_text *f)
{
#ifndef _WIN32
    if (f->map != NULL) munmap(f->map, f->map_size);
#endif
    f->map = NULL;
}

void file_free(file_text *f)
{
    release_map(f);
    if (f->pipe > 0) close(f->pipe);
    free(f->buf);
    memset(f, 0, sizeof *f);
}

static bool file_room(file_text *f, size_t size)
{
    if (size <= f->cap) return true;
    size_t cap = f->cap > STEP ? f->cap : STEP;
    while (cap < size) cap *= 2;
    char *buf = realloc(f->buf, cap);
    if (buf == NULL) return false;
    f->buf = buf;
    f->cap = cap;
    return true;
}

static bool file_map(file_text *f, int fd, uint64_t size)
{
#ifdef _WIN32
    (void)f, (void)fd, (void)size;
    return false;
#else
    void *map = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) return false;
    madvise(map, (size_t)size, MADV_SEQUENTIAL);
    f->map = map;
    f->map_size = (size_t)size;
    f->text = ms_str_n(map, (size_t)size);
    return true;
#endif
}

/* Reads on after `len` bytes. */
static int file_read(file_text *f, int fd, const char *name, uint64_t expected,
                     size_t len)
{
    for (;;) {
        size_t want = len < expected ? (size_t)expected - len : 0;
        if (!file_room(f, len + (want > 0 ? want + 1 : STEP))) return no_memory();
        ssize_t n = read(fd, f->buf + len, f->cap - len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            complain("%s: cannot read: %s", name, strerror(errno));
            return FAILED;
        }
        if (n == 0) break;
        len += (size_t)n;
        if (!f->plain && len > limit) return too_long(name, "", "a pipe that comes");
    }
    f->text = ms_str_n(f->buf, len);
    return FINE;
}

bool is_zstd(ms_str text)
{
    return text.len >= 4 && memcmp(text.ptr, "\x28\xb5\x2f\xfd", 4) == 0;
}

#ifdef WITH_ZSTD
static int unpack(file_text *f, const char *name)
{
    file_text out = {{NULL, 0}, NULL, 0, NULL, 0, false, 0};
    ZSTD_DStream *stream = ZSTD_createDStream();
    ZSTD_inBuffer in = {f->text.ptr, f->text.len, 0};
    size_t len = 0, left = 1;
    unsigned long long stated = ZSTD_getFrameContentSize(f->text.ptr, f->text.len);
    bool known = stated != ZSTD_CONTENTSIZE_UNKNOWN && stated != ZSTD_CONTENTSIZE_ERROR;
    if (known && stated > limit) len = SIZE_MAX;
    while (stream != NULL && in.pos < in.size && !ZSTD_isError(left) && len <= limit) {
        if (!file_room(&out, len + 4 * STEP)) break;
        ZSTD_outBuffer to = {out.buf, end_of(&out, limit), len};
        left = ZSTD_decompressStream(stream, &to, &in);
        len = to.pos;
    }
    ZSTD_freeDStream(stream);
    if (len > limit) {
        free(out.buf);
        return too_long(name, "", "unpacks");
    }
    if (stream == NULL || in.pos < in.size || ZSTD_isError(left)) {
        complain("%s: cannot unpack: %s", name,
                 ZSTD_isError(left) ? ZSTD_getErrorName(left) : "no memory");
        free(out.buf);
        return FAILED;
    }
    if (left != 0) complain("%s: the compressed text ends early", name);
    out.plain = f->plain;
    file_free(f);
    *f = out;
    f->text = ms_str_n(f->buf, len);
    return left != 0 ? DAMAGED : FINE;
}
#else
static int unpack(file_text *f, const char *name)
{
    (void)f;
    complain("%s: compressed with zstd; this msgstore was built without libzstd", name);
    return FAILED;
}
#endif

/* Opens a file; returns the descriptor, or reports the error and returns -1. */
static int open_file(file_text *f, const char *path, uint64_t *size)
{
    struct stat st;
    bool standard = strcmp(path, "-") == 0;
    int fd = standard ? STDIN_FILENO : file_open(path);
    if (fd >= 0 && fstat(fd, &st) != 0) {
        complain("%s: %s", path, strerror(errno));
        if (!standard) close(fd);
        errno = EINVAL;
        fd = -1;
    }
    if (fd < 0) return -1;
    f->plain = S_ISREG(st.st_mode) && !standard;
    if (size != NULL) *size = f->plain && st.st_size > 0 ? (uint64_t)st.st_size : 0;
    return fd;
}

int file_load(file_text *f, const char *path)
{
    uint64_t size;
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    release_map(f);
    f->text = ms_str_n(NULL, 0);
    int code = FINE, fd = open_file(f, path, &size);
    if (fd < 0) return errno == ENOENT ? NOT_FOUND : FAILED;
    if (size < MAP_FROM || !file_map(f, fd, size)) code = file_read(f, fd, name, size, 0);
    if (fd != STDIN_FILENO) close(fd);
    return code == FINE && is_zstd(f->text) ? unpack(f, name) : code;
}

int file_load_head(file_text *f, const char *path, bool *all)
{
    size_t len = 0;
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    int code = FINE, fd = open_file(f, path, NULL);
    *all = false;
    f->text = ms_str_n(NULL, 0);
    if (fd < 0) return errno == ENOENT ? NOT_FOUND : FAILED;
    if (!file_room(f, HEAD_MAX)) code = no_memory();
    while (code == FINE && len < HEAD_MAX &&
           (f->plain || memchr(f->buf, '\n', len) == NULL)) {
        ssize_t n = read(fd, f->buf + len, HEAD_MAX - len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            complain("%s: cannot read: %s", name, strerror(errno));
            code = FAILED;
        }
        *all = n == 0;
        if (n <= 0) break;
        len += (size_t)n;
    }
    if (f->plain) close(fd);
    else f->pipe = fd;
    f->text = ms_str_n(f->buf, len);
    return code;
}

int file_load_rest(file_text *f, const char *path)
{
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    int code = file_read(f, f->pipe, name, 0, f->text.len);
    return code == FINE && is_zstd(f->text) ? unpack(f, name) : code;
}


/* ---- ZIP --------------------------------------------------------------------------- */

bool is_zip(ms_str text)
{
    return text.len >= 4 && memcmp(text.ptr, "PK\x03\x04", 4) == 0;
}

#ifdef WITH_ZIP
/* Unpacks a member, at most one byte more than `most`. */
static int zip_member(zip_t *zip, zip_uint64_t index, file_text *f, uint64_t most)
{
    zip_stat_t st;
    size_t len = 0;
    if (zip_stat_index(zip, index, 0, &st) != 0) return FAILED;
    zip_file_t *file = zip_fopen_index(zip, index, 0);
    if (file == NULL) return FAILED;
    for (zip_int64_t n = 1; n > 0 && len <= most; len += (size_t)n) {
        if (!file_room(f, len + STEP)) n = -1;
        else n = zip_fread(file, f->buf + len, end_of(f, most) - len);
        if (n <= 0) break;
    }
    zip_fclose(file);
    f->text = ms_str_n(f->buf, len);
    if (len > most) return FAILED;
    if (len > st.size) len = (size_t)st.size;
    f->text = ms_str_n(f->buf, len);
    return len == st.size ? FINE : DAMAGED;
}

#ifdef WITH_ZLIB
static unsigned number_at(const char *at, int bytes)
{
    unsigned value = 0;
    while (bytes-- > 0) value = value << 8 | (unsigned char)at[bytes];
    return value;
}

/* Unpacks as much as possible of a member whose bytes begin there, and not much more than
 * `most` bytes. */
static void inflate_member(ms_str packed, file_text *f, uint64_t most)
{
    z_stream z;
    size_t len = 0;
    int result = Z_OK;
    memset(&z, 0, sizeof z);
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK) return;
    z.next_in = (unsigned char *)(uintptr_t)packed.ptr;
    z.avail_in = (unsigned)(packed.len < UINT_MAX ? packed.len : UINT_MAX);
    while (result == Z_OK && len <= most && file_room(f, len + STEP)) {
        z.next_out = (unsigned char *)f->buf + len;
        z.avail_out = (unsigned)STEP;
        result = inflate(&z, Z_SYNC_FLUSH);
        len += STEP - z.avail_out;
    }
    inflateEnd(&z);
    f->text = ms_str_n(f->buf, len);
}

/* Reads the members of a ZIP without its directory, by the header before each. */
static int zip_salvage(const char *path, ms_str text, const char *prefix, void *ctx,
                       int (*visit)(void *ctx, const char *name, ms_str text))
{
    enum { HEADER = 30, NAME = 512, STORED = 0, DEFLATED = 8 };
    file_text f = {{NULL, 0}, NULL, 0, NULL, 0, false, 0};
    const char *at = text.ptr, *end = text.ptr + text.len;
    char name[NAME];
    int code = DAMAGED, one = FINE;
    uint64_t may = limit;
    while ((at = find_bytes(at, (size_t)(end - at), "PK\3\4", 4)) != NULL &&
           end - at >= HEADER && one == FINE) {
        unsigned method = number_at(at + 8, 2), size = number_at(at + 18, 4);
        size_t len = number_at(at + 26, 2), skip = HEADER + len + number_at(at + 28, 2);
        if (len >= NAME || skip > (size_t)(end - at)) break;
        memcpy(name, at + HEADER, len);
        name[len] = '\0';
        at += skip;
        size_t left = (size_t)(end - at);
        bool wanted = strncmp(name, prefix, strlen(prefix)) == 0;
        if (wanted && method == STORED) f.text = ms_str_n(at, size < left ? size : left);
        else if (wanted && method == DEFLATED) {
            inflate_member(ms_str_n(at, left), &f, may);
            if (f.text.len > may) one = too_long(path, name, "unpacks");
            else may -= f.text.len;
        }
        if (one == FINE && wanted && f.text.len > 0) one = visit(ctx, name, f.text);
        if (size < left) at += size;
        f.text.len = 0;
    }
    if (one != FINE) code = one;
    if (code == DAMAGED) {
        complain("%s: a ZIP without its end; what is there is read", path);
    }
    file_free(&f);
    return code;
}
#endif

static int zip_torn(const char *path, ms_str text, const char *reason,
                    const char *prefix, void *ctx,
                    int (*visit)(void *ctx, const char *name, ms_str text))
{
    int code = FAILED;
#ifdef WITH_ZLIB
    (void)reason;
    code = zip_salvage(path, text, prefix, ctx, visit);
#else
    (void)text, (void)prefix, (void)ctx, (void)visit;
    complain("%s: no ZIP that can be read: %s", path, reason);
#endif
    return code;
}

/* Opens a ZIP in memory; NULL: error has the reason. */
static zip_t *zip_of_text(ms_str text, zip_error_t *error)
{
    zip_source_t *source = zip_source_buffer_create(text.ptr, text.len, 0, error);
    if (source == NULL) return NULL;
    zip_t *zip = zip_open_from_source(source, ZIP_RDONLY, error);
    if (zip == NULL) zip_source_free(source);
    return zip;
}

int zip_each(const char *path, ms_str text, const char *prefix, void *ctx,
             int (*visit)(void *ctx, const char *name, ms_str text))
{
    int code = FINE, one = FINE;
    zip_error_t error;
    file_text f = {{NULL, 0}, NULL, 0, NULL, 0, false, 0};
    zip_error_init(&error);
    zip_t *zip = zip_of_text(text, &error);
    if (zip == NULL) {
        const char *reason = zip_error_strerror(&error);
        code = zip_torn(path, text, reason, prefix, ctx, visit);
    }
    zip_error_fini(&error);
    if (zip == NULL) return code;
    uint64_t may = limit;
    zip_int64_t n = zip_get_num_entries(zip, 0);
    for (zip_int64_t i = 0; i < n && one == FINE; i++) {
        const char *name = zip_get_name(zip, (zip_uint64_t)i, 0);
        if (name == NULL || strncmp(name, prefix, strlen(prefix)) != 0) continue;
        f.text.len = 0;
        int got = zip_member(zip, (zip_uint64_t)i, &f, may);
        if (f.text.len > may) {
            one = too_long(path, name, "unpacks");
            break;
        }
        may -= f.text.len;
        if (got != FINE) {
            complain("%s: %s cannot be unpacked completely", path, name);
            code = DAMAGED;
        }
        if (f.text.len > 0) one = visit(ctx, name, f.text);
    }
    zip_discard(zip);
    file_free(&f);
    return one != FINE ? one : code;
}
#else
int zip_each(const char *path, ms_str text, const char *prefix, void *ctx,
             int (*visit)(void *ctx, const char *name, ms_str text))
{
    (void)text, (void)prefix, (void)ctx, (void)visit;
    complain("%s: a ZIP; this msgstore was built without libzip", path);
    return FAILED;
}
#endif


/* ---- Folders ----------------------------------------------------------------------- */

bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

bool is_pipe(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

bool is_there(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

const char *path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), n = strlen(end);
    return len >= n && strcmp(text + len - n, end) == 0;
}

char *path_join(const char *folder, const char *name)
{
    size_t a = strlen(folder), b = strlen(name);
    char *path = malloc(a + b + 2);
    if (path == NULL) exit(no_memory());
    memcpy(path, folder, a);
    if (a > 0 && folder[a - 1] != '/') path[a++] = '/';
    memcpy(path + a, name, b + 1);
    return path;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void paths_free(char **paths)
{
    for (size_t i = 0; i < arrlenu(paths); i++) free(paths[i]);
    arrfree(paths);
}

enum { ENTRY_OTHER, ENTRY_FILE, ENTRY_FOLDER, ENTRY_LINK };

/* Returns the type of an entry, from the folder or else from the file system. Links to
 * folders are not followed, since they could form a cycle. Others are pipes, sockets and
 * devices, since opening a pipe would wait for a writer, and links to nothing. */
static int entry_type(const struct dirent *e, const char *path)
{
    struct stat st;
#ifdef DT_DIR
    if (e->d_type == DT_DIR) return ENTRY_FOLDER;
    if (e->d_type == DT_REG) return ENTRY_FILE;
#endif
    (void)e;
    if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode)) return ENTRY_FOLDER;
    if (stat(path, &st) != 0) return lstat(path, &st) == 0 ? ENTRY_OTHER : ENTRY_FILE;
    if (S_ISREG(st.st_mode)) return ENTRY_FILE;
    return S_ISDIR(st.st_mode) ? ENTRY_LINK : ENTRY_OTHER;
}

void complain_of_others(const char *folder, uint64_t others)
{
    if (others == 0) return;
    complain("%s: left out %" PRIu64 " pipe%s, socket%s, device%s or broken link%s",
             folder, others, plural(others), plural(others), plural(others),
             plural(others));
}

char **paths_of(const char *folder, uint64_t *others)
{
    char **files = NULL, **folders = NULL;
    arrput(folders, path_join(folder, ""));
    while (arrlenu(folders) > 0) {
        char *at = arrpop(folders);
        DIR *dir = opendir(at);
        struct dirent *e;
        if (dir == NULL) complain("%s: %s", at, strerror(errno));
        while (dir != NULL && (e = readdir(dir)) != NULL) {
            bool crush = strcmp(e->d_name, ".crush") == 0;
            if (e->d_name[0] == '.' && !crush) {
                if (strncmp(e->d_name, ".aider.chat", 11) != 0) continue;
            }
            char *path = path_join(at, e->d_name);
            if (crush) { /* beside its database it has logs */
                char *base = path_join(path, "crush.db");
                free(path);
                path = base;
                if (!is_there(path)) {
                    free(path);
                    continue;
                }
            }
            int type = crush ? ENTRY_FILE : entry_type(e, path);
            if (type == ENTRY_FOLDER) arrput(folders, path);
            else if (type == ENTRY_FILE) arrput(files, path);
            else free(path);
            if (type == ENTRY_OTHER && others != NULL) ++*others;
        }
        if (dir != NULL) closedir(dir);
        free(at);
    }
    arrfree(folders);
    if (arrlenu(files) > 1) qsort(files, arrlenu(files), sizeof *files, by_path);
    return files;
}


/* ---- Files that are written -------------------------------------------------------- */

/* Names the file beside only where it is in the way. */
static int new_file_failed(new_file *n, int fd)
{
    bool beside = n->beside != NULL && errno == EEXIST;
    complain("%s: %s", beside ? n->beside : n->path, strerror(errno));
    if (fd >= 0) close(fd);
    free(n->path);
    free(n->beside);
    return FAILED;
}

int new_file_begin(new_file *n, const char *path, unsigned mode)
{
    struct stat st;
    int flags = O_WRONLY | O_CREAT | O_CLOEXEC;
    bool there = stat(path, &st) == 0;
    n->out.error = 0;
    n->beside = NULL;
    bool regular = there && S_ISREG(st.st_mode);
    n->path = regular ? realpath(path, NULL) : strdup(path); /* the target of a link */
    if (n->path == NULL) {
        complain("%s: %s", path, strerror(errno));
        return FAILED;
    }
    if (!there || regular) {
        size_t size = strlen(n->path) + sizeof ".18446744073709551615.part";
        n->beside = malloc(size);
        if (n->beside == NULL) exit(no_memory());
        snprintf(n->beside, size, "%s.%llu.part", n->path, (unsigned long long)getpid());
        if (there) mode = st.st_mode & 0777;
    }
    flags |= n->beside != NULL ? O_EXCL : O_TRUNC; /* beside: no link, no other file */
    int fd = open(n->beside != NULL ? n->beside : n->path, flags, mode);
    n->out.file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    return n->out.file != NULL ? FINE : new_file_failed(n, fd);
}

bool new_file_is_output(const new_file *n)
{
    struct stat a, b;
    return n->beside == NULL && fstat(fileno(n->out.file), &a) == 0 &&
           fstat(STDOUT_FILENO, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Gives the written file its name. On Windows rename needs the name to be free. */
static int put_in_place(const new_file *n)
{
    if (rename(n->beside, n->path) == 0) return FINE;
    (void)remove(n->path);
    if (rename(n->beside, n->path) == 0) return FINE;
    complain("%s: %s", n->path, strerror(errno));
    return FAILED;
}

int new_file_end(new_file *n, int code)
{
    code = output_end(&n->out, code);
#ifndef _WIN32
    bool whole = code == FINE || code == DAMAGED;
    if (whole && n->beside != NULL && fsync(fileno(n->out.file)) != 0) {
        complain("%s: %s", n->beside, strerror(errno));
        code = FAILED;
    }
#endif
    if (fclose(n->out.file) != 0 && (code == FINE || code == DAMAGED)) {
        complain("%s: %s", n->path, strerror(errno));
        code = FAILED;
    }
    if (n->beside != NULL && (code == FINE || code == DAMAGED)) {
        int placed = put_in_place(n);
        if (placed != FINE) code = placed;
    } else if (n->beside != NULL) {
        (void)remove(n->beside);
    }
    free(n->path);
    free(n->beside);
    return code;
}
