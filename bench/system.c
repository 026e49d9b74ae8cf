/* See system.h. */
#define _GNU_SOURCE
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

static int compare_numbers(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_sort(uint64_t *values, size_t n)
{
    qsort(values, n, sizeof values[0], compare_numbers);
}

double bench_median(double *values, size_t n)
{
    qsort(values, n, sizeof values[0], compare_doubles);
    return n % 2 != 0 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

const char *bench_short(char out[32], size_t n)
{
    bool mega = n >= 1000000 && n % 1000000 == 0, kilo = n >= 1000 && n % 1000 == 0;
    snprintf(out, 32, "%zu%s", n / (mega ? 1000000 : kilo ? 1000 : 1),
             mega ? "M" : kilo ? "k" : "");
    return out;
}

void bench_machine(char *out, size_t size)
{
    struct utsname name;
    char line[256], *model = line;
    FILE *in = fopen("/proc/cpuinfo", "r");
    snprintf(line, sizeof line, "unknown processor");
    while (in != NULL && fgets(line, sizeof line, in) != NULL)
        if (strncmp(line, "model name", 10) == 0) break;
    if (in != NULL) fclose(in);
    line[strcspn(line, "\n")] = '\0';
    if (strchr(line, ':') != NULL) model = strchr(line, ':') + 2;
    uname(&name);
    snprintf(out, size, "%s, %ld processors, %s %s, compiler %s", model,
             sysconf(_SC_NPROCESSORS_ONLN), name.sysname, name.release, __VERSION__);
}

double bench_number_in(const char *file, const char *name)
{
    char line[256];
    double number = -1;
    FILE *in = fopen(file, "r");
    while (in != NULL && fgets(line, sizeof line, in) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            number = strtod(line + strlen(name), NULL);
    if (in != NULL) fclose(in);
    return number;
}

double bench_written_bytes(const char *folder, bool *disk)
{
    struct stat st;
    char file[64];
    unsigned long long sectors[7];
    int got = 0;
    bench_must(stat(folder, &st) == 0, folder);
    snprintf(file, sizeof file, "/sys/dev/block/%u:%u/stat", major(st.st_dev),
             minor(st.st_dev));
    FILE *in = fopen(file, "r");
    while (in != NULL && got < 7 && fscanf(in, "%llu", &sectors[got]) == 1) got++;
    if (in != NULL) fclose(in);
    if (disk != NULL) *disk = got == 7;
    return got == 7 ? 512 * (double)sectors[6]
                    : bench_number_in("/proc/self/io", "write_bytes:");
}

void bench_touch(size_t n)
{
    size_t size = n * 2048 + ((size_t)64 << 20);
    double most = 1024 * bench_number_in("/proc/meminfo", "MemAvailable:") / 2;
    if (most > 0 && (double)size > most) size = (size_t)most;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                        -1, 0);
    bench_must(memory != MAP_FAILED, "memory to touch");
    for (size_t i = 0; i < size; i += 4096) ((volatile char *)memory)[i] = 1;
    munmap(memory, size);
}

void *bench_memory(size_t size)
{
    void *memory = malloc(size);
    if (memory == NULL) bench_die("memory", "there is not enough");
    return memset(memory, 1, size);
}


/* ---- files ---- */

char bench_folder[4096]; /* "": none */

static void on_signal(int number)
{
    bench_clean_up();
    _exit(128 + number);
}

void bench_make_folder(const char *where, const char *name)
{
    const char *set = getenv("BENCH_DIR");
    char path[sizeof bench_folder];
    if (where == NULL) where = set != NULL && set[0] != '\0' ? set : ".";
    int len = snprintf(path, sizeof path, "%s/%s_XXXXXX", where, name);
    if (len >= (int)sizeof path || mkdtemp(path) == NULL)
        bench_die(where, "no folder can be made there");
    memcpy(bench_folder, path, sizeof path);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
}

static double blocks; /* bytes, summed up by visit_count */

static int visit_count(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)path, (void)at;
    if (kind == FTW_F) blocks += 512 * (double)st->st_blocks;
    return 0;
}

static int visit_remove(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

/* Opens a plain file; -1 if it is of another kind. */
static int plain_file(const char *path, const struct stat *st, int kind)
{
    if (kind != FTW_F || !S_ISREG(st->st_mode)) return -1;
    int file = open(path, O_RDONLY);
    bench_must(file >= 0, path);
    return file;
}

static int visit_read(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    static char piece[1 << 20];
    int file = plain_file(path, st, kind);
    (void)at;
    while (file >= 0 && read(file, piece, sizeof piece) > 0) continue;
    return file >= 0 ? close(file) : 0;
}

static int visit_sync(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    int file = plain_file(path, st, kind);
    (void)at;
    if (file < 0) return 0;
    bench_must(fsync(file) == 0, path);
    return close(file);
}

static int visit_drop(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    int file = plain_file(path, st, kind);
    (void)at;
    if (file < 0) return 0;
    errno = posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    bench_must(errno == 0, path);
    return close(file);
}

static void walk(const char *path,
                 int (*visit)(const char *, const struct stat *, int, struct FTW *))
{
    bench_must(nftw(path, visit, 16, FTW_DEPTH | FTW_PHYS) == 0, path);
}

void bench_remove(const char *path)
{
    if (access(path, F_OK) == 0) walk(path, visit_remove);
}

void bench_read(const char *path) { walk(path, visit_read); }

void bench_settle(const char *path, bool drop)
{
    walk(path, visit_sync);
    sync();
    if (drop) walk(path, visit_drop);
}

double bench_blocks(const char *path)
{
    blocks = 0;
    walk(path, visit_count);
    return blocks;
}


/* ---- processes ---- */

enum { CHILDREN = 8 };

static volatile pid_t children[CHILDREN]; /* 0: none */

pid_t bench_fork(void)
{
    int place = 0;
    while (place < CHILDREN && children[place] != 0) place++;
    if (place == CHILDREN) bench_die("fork", "there are too many children");
    pid_t pid = fork();
    bench_must(pid >= 0, "fork");
    if (pid > 0) return children[place] = pid;
    bench_folder[0] = '\0';
    for (int i = 0; i < CHILDREN; i++) children[i] = 0;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    return 0;
}

int bench_wait(pid_t pid)
{
    int status = 0;
    bench_must(waitpid(pid, &status, 0) == pid, "waiting for a child");
    for (int i = 0; i < CHILDREN; i++)
        if (children[i] == pid) children[i] = 0;
    return status;
}

bool bench_ended(void)
{
    int status;
    return waitpid(-1, &status, WNOHANG) > 0;
}

void *bench_shared(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                        -1, 0);
    bench_must(memory != MAP_FAILED, "shared memory");
    return memory;
}


/* ---- the end of a program, and its options ---- */

void bench_clean_up(void)
{
    for (int i = 0; i < CHILDREN; i++)
        if (children[i] > 0) {
            kill(children[i], SIGKILL);
            waitpid(children[i], NULL, 0);
        }
    if (bench_folder[0] != '\0' &&
        nftw(bench_folder, visit_remove, 16, FTW_DEPTH | FTW_PHYS) != 0)
        fprintf(stderr, "%s: cannot be removed: %s\n", bench_folder, strerror(errno));
}

void bench_die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    bench_clean_up();
    exit(1);
}

void bench_must(bool fine, const char *what)
{
    if (!fine) bench_die(what, strerror(errno));
}

size_t bench_number(const char *text, char **end, size_t least, size_t most)
{
    char *stop;
    unsigned long long number = strtoull(text, &stop, 10);
    if (end != NULL) *end = stop;
    if (stop == text || (end == NULL && *stop != '\0') || number < least ||
        number > most) {
        fprintf(stderr, "%s: not a number from %zu to %zu\n", text, least, most);
        exit(2);
    }
    return (size_t)number;
}

bool bench_listed(const char *list, const char *word)
{
    size_t len = strlen(word);
    if (list == NULL) return true;
    for (const char *at = list; *at != '\0'; at += *at == ',') {
        size_t n = strcspn(at, ",");
        if (n == len && memcmp(at, word, n) == 0) return true;
        at += n;
    }
    return false;
}
