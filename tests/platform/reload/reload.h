/* What the host keeps while the game's code is exchanged. */
#ifndef RELOAD_H
#define RELOAD_H

typedef struct reload {
    uint64_t buffer[16384];   /* the arena store is in it */
    ms_store *mem;            /* a handle in it */
    ms_store *log;            /* the host's; NULL where the library has the store */
    unsigned frames;
} reload;

int play(reload *host);

#endif
