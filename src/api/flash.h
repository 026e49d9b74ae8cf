
/* ==== [api-flash] [expert] a log in raw flash ====================================
 * An arena store in a buffer, whose appends are written to flash before they are visible:
 * for NOR flash and the flash inside of microcontrollers, without a file system. Sectors
 * are used in turn, so that they wear evenly. Once an append has returned, its messages
 * survive a power loss at any moment; a batch is complete or absent. Queries read RAM.
 *
 * ms_mem_open with desc.flash opens the store that the flash has, or begins one. It reads
 * all sectors and erases none. The store is a ring. Before a sector is erased its
 * messages are dropped from RAM, too, and facts of locations are written again. After
 * opening the store has the newest messages that RAM takes, perhaps older ones than
 * before, which a ms_rewind or ms_hide_range that found none in RAM has not hidden; the
 * first turn of a location may lack its beginning. ms_tick erases a sector ahead of time;
 * otherwise the next append waits for it.
 *
 * The records of a message or a batch take up to a quarter of a sector less 24 bytes (64
 * with units of 32), each padded to a multiple of `unit`. All facts take up to an eighth
 * (a 16th with units over 8). MS_E_IO: a callback failed, or the flash differs from the
 * data written; the message is absent. MS_E_POISONED: the last program call of an append
 * failed, so it is unknown whether the message is stored; open the store again.
 * MS_E_FOREIGN: a sector has another format (of msgstore 0.2.0), or another size; it is
 * not changed. Flash that was used for something else is taken. ms_redact returns
 * MS_E_UNSUPPORTED. */

/* Set the first seven members, zero the others. It must outlive the store. */
typedef struct ms_flash {
    /* Addresses are bytes from the start of the first sector. false: failure. */
    bool (*read)(void *ctx, uint32_t at, void *out, uint32_t size);
    /* Changes bits from 1 to 0; address and size are multiples of `unit`. Each unit is
     * programmed at most once between two erasures; only a complete header may be
     * programmed again, with zeros. */
    bool (*program)(void *ctx, uint32_t at, const void *data, uint32_t size);
    bool (*erase)(void *ctx, uint32_t sector); /* all bits become 1 */
    void *ctx;
    uint32_t sector_size;     /* a multiple of 32, at least 1024 */
    uint32_t sectors;         /* at least 3 */
    uint32_t unit;            /* a power of two up to 32; 0: 1 */
    uint32_t torn;            /* appends found without an end when it was opened */
    uint64_t order;           /* sectors begun since the first one: each was erased about
                                 order / sectors times */
    uint32_t sector, at;      /* private from here: the end of the newest frame */
    uint32_t left;            /* opening: bytes of records not entered yet */
    bool erased;              /* the next sector is erased */
    bool poisoned;
} ms_flash;
