/* Nobody knows how much room there is: /dev/shm is not used then. */
#ifndef WINDOWS_STATVFS_H
#define WINDOWS_STATVFS_H

struct statvfs {
    unsigned long f_bavail, f_frsize;
};

static inline int statvfs(const char *path, struct statvfs *about)
{
    (void)path;
    about->f_bavail = about->f_frsize = 0;
    return -1;
}

#endif /* WINDOWS_STATVFS_H */
