
/* ==== [api-os] [expert] the file operations of a log ============================= */

/* The file operations: the library's whole contact with the file system. All return 0 or
 * an errno value (of <errno.h>, also on Windows). Any thread; ctx is passed to them. */
typedef intptr_t ms_file;

enum {
    MS_OS_READ = 1,           /* open: for reading; always set. map: readable */
    MS_OS_WRITE = 2,          /* open: for writing too. map: writable, shared */
    MS_OS_CREATE = 4,         /* created if missing, accessible to the owner alone */
    MS_OS_RANDOM = 8          /* map: pages are read and written one by one */
};

typedef struct ms_os_stat {
    uint64_t size;            /* bytes */
    uint64_t device, inode;   /* which file it is, under any of its names */
    bool regular;             /* not a folder, pipe or device */
    bool keeps_room;          /* a write into allocated room never lacks space */
    uint64_t holes;           /* bytes for which the disk has no space yet; 0: unknown */
} ms_os_stat;

struct ms_os {
    void *ctx;
    /* Must not block on a pipe. Programs that are started must not inherit the file. */
    int (*open)(void *ctx, const char *path, unsigned how, ms_file *file);
    int (*close)(void *ctx, ms_file file);
    int (*stat)(void *ctx, ms_file file, ms_os_stat *out);
    /* May transfer fewer bytes than `size`; *done: how many, 0 at the end of the file. */
    int (*read)(void *ctx, ms_file file, uint64_t offset, void *to, size_t size,
                size_t *done);
    int (*write)(void *ctx, ms_file file, uint64_t offset, const void *from, size_t size,
                 size_t *done);
    /* Allocates room; the file grows to offset + size. EOPNOTSUPP: not possible here. */
    int (*allocate)(void *ctx, ms_file file, uint64_t offset, uint64_t size);
    int (*sync)(void *ctx, ms_file file);
    /* Takes the writer's lock, held until unlock or close. EAGAIN: another process has
     * it; ENOLCK: not possible here. */
    int (*lock)(void *ctx, ms_file file);
    int (*unlock)(void *ctx, ms_file file);
    /* offset is a multiple of 64 KiB. The map may reach beyond the end of the file, which
     * may grow into it. */
    int (*map)(void *ctx, ms_file file, uint64_t offset, size_t size, unsigned how,
               void **out);
    int (*unmap)(void *ctx, void *map, size_t size);
    int (*rename)(void *ctx, const char *from, const char *to); /* replaces `to` */
    int (*remove)(void *ctx, const char *path);
    int (*sync_folder)(void *ctx, const char *path); /* the folder that has `path` */
    uint64_t (*boot)(void *ctx);    /* the same until the machine restarts; 0: unknown */
    uint64_t (*micros)(void *ctx);  /* a clock that only goes forward */
    void (*sleep)(void *ctx, uint64_t micros);
    uint64_t (*process)(void *ctx); /* the process id */
    bool exact_maps;          /* maps cannot reach beyond the end of the file */
    /* Gives the file `path` the access rights of the file `like`: permissions, group, and
     * owner if the group may not read and write. NULL: nothing to do. */
    int (*access_like)(void *ctx, const char *path, const char *like);
    /* Begins to read a part of the file into memory, and does not wait. NULL: nothing to
     * do. */
    int (*read_ahead)(void *ctx, ms_file file, uint64_t offset, uint64_t size);
    /* Copies to `to` where the symbolic link `path` leads, and a zero byte. EINVAL: it is
     * no link; ENAMETOOLONG: that takes more than `size` bytes. NULL: there are none. */
    int (*read_link)(void *ctx, const char *path, char *to, size_t size);
    /* Reads pages of a map, which are at that offset of the file, so that looking at them
     * raises no signal. Both are multiples of 4,096. Pages that the disk cannot read
     * become pages of bytes that are not the file's, which no check matches; *bad: their
     * bytes. Pages that only calls can read (holes of a full tmpfs) become copies. NULL:
     * a bad block raises a signal where it is first looked at. */
    int (*populate)(void *ctx, ms_file file, void *at, uint64_t offset, size_t size,
                    uint64_t *bad);
    /* The same for n pages of maps (at most 32), wherever they are, in one call. Not 0:
     * some were not read, or may be bad; populate is called for them. NULL: it always is.
     * Who replaces `populate` replaces this, too. */
    int (*populate_each)(void *ctx, void *const *pages, size_t n);
    /* The same as write, and these bytes are durable when it returns, as after a sync;
     * others need not be. EOPNOTSUPP: not possible here. NULL: the whole file is synced
     * instead. */
    int (*write_synced)(void *ctx, ms_file file, uint64_t offset, const void *from,
                        size_t size, size_t *done);
};

/* Returns the operations of the system. Copy the struct to replace some of them. */
MS_API const ms_os *ms_os_default(void);
