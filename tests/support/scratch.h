/* Files and folders of a test: in one folder, which is gone at the end of the program.
 * Define _POSIX_C_SOURCE 200809L before any include.
 */

#ifndef SCRATCH_H
#define SCRATCH_H

#include "support.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* The path of a file in a folder, from malloc. */
static inline char *scratch_file(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = (char *)malloc(size);
    if (path == NULL) abort();
    snprintf(path, size, "%s/%s", folder, name);
    return path;
}

static inline void scratch_remove(const char *path);

/* Removes all that is in a folder; of a file nothing. */
static inline void scratch_empty(const char *path)
{
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        char *name = scratch_file(path, entry->d_name);
        scratch_remove(name);
        free(name);
    }
    if (folder != NULL) closedir(folder);
}

/* Removes a file, or a folder with all that is in it. */
static inline void scratch_remove(const char *path)
{
    struct stat about;
    if (lstat(path, &about) != 0) return;
    if (S_ISDIR(about.st_mode)) scratch_empty(path);
    remove(path);
}

static char scratch_root[256];     /* empty: not made yet */
static pid_t scratch_owner;

static inline void scratch_at_exit(void)
{
    if (scratch_owner == getpid()) scratch_remove(scratch_root);
}

/* TMPDIR, if it is set; else memory, the quickest disk, where there is enough of it. */
static inline const char *scratch_base(void)
{
    struct statvfs about;
    const char *named = getenv("TMPDIR");
    if (named != NULL && named[0] != '\0') return named;
    if (access("/dev/shm", W_OK | X_OK) == 0 && statvfs("/dev/shm", &about) == 0 &&
        (uint64_t)about.f_bavail * about.f_frsize >= (uint64_t)1 << 30)
        return "/dev/shm";
    return "/tmp";
}

/* A fresh folder, from malloc. It is removed at the end of the program at the latest. */
static inline char *scratch_folder(void)
{
    static unsigned count;
    size_t size = sizeof scratch_root + 16;
    char *path = (char *)malloc(size);
    if (path == NULL) abort();
    if (scratch_root[0] == '\0') {
        snprintf(scratch_root, sizeof scratch_root, "%s/msgstore_XXXXXX", scratch_base());
        scratch_owner = getpid();
        if (mkdtemp(scratch_root) == NULL || atexit(scratch_at_exit) != 0) {
            perror(scratch_root);
            abort();
        }
    }
    snprintf(path, size, "%s/%u", scratch_root, count++);
    if (mkdir(path, 0700) != 0) abort();
    return path;
}

/* How many there are in a folder. */
static inline size_t files_in(const char *folder)
{
    DIR *dir = opendir(folder);
    size_t n = 0;
    assert_non_null(dir);
    while (readdir(dir) != NULL) n++;
    closedir(dir);
    return n - 2;
}

static inline bool write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL) return false;
    bool whole = fwrite(bytes, 1, size, file) == size;
    return fclose(file) == 0 && whole;
}

#endif /* SCRATCH_H */
