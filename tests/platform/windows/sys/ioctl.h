/* The width of a terminal is not known. */
#ifndef WINDOWS_IOCTL_H
#define WINDOWS_IOCTL_H

struct winsize {
    unsigned short ws_row, ws_col;
};

enum { TIOCGWINSZ = 0 };

static inline int ioctl(int fd, int what, struct winsize *size)
{
    (void)fd;
    (void)what;
    (void)size;
    return -1;
}

#endif /* WINDOWS_IOCTL_H */
