
/* ==== [api-mem] the arena store ==================================================
 * A store in memory: on the heap, or in one buffer, whose bytes are an image of it that
 * [api-image] opens again. */

typedef struct ms_mem_desc {
    void *buffer;             /* one buffer for everything, no heap call ever; 8-byte
                                 aligned; NULL: memory comes from alloc */
    size_t buffer_size;       /* at least MS_MEM_MIN */
    ms_alloc alloc;           /* {0}: malloc */
    size_t chunk_size;        /* bytes of a chunk of records, a power of two from 1,024
                                 on; 0: 64 KiB; not for a buffer */
    size_t max_message;       /* limit on one record in bytes; 0: 256 MiB */
    bool keep_unset_times;    /* false: a message without time is stamped from clock */
    ms_clock clock;           /* {0}: the system's */
    ms_entropy entropy;       /* {0}: see ms_entropy */
    bool salvage;             /* attach: keep verified records, skip damaged ones */
#ifdef MSGSTORE_RING
    bool drop_oldest;         /* see [api-ring]; the buffer has at least twice MS_MEM_MIN
                                 bytes. An image does not have it: set it to attach,
                                 too */
#endif
#ifdef MSGSTORE_FLASH
    struct ms_flash *flash;   /* a ring in flash, see [api-flash]; NULL: none */
#endif
} ms_mem_desc;

#define MS_MEM_MIN 2048 /* bytes */

/* Opens an empty store; the earlier content of a buffer is lost. desc NULL: all defaults.
 * MS_E_ARGUMENT: a size or the alignment is not as above. */
MS_API ms_result ms_mem_open(ms_store **store, const ms_mem_desc *desc, ms_error *err);

/* Removes all messages and keeps the memory. Sequence numbers start again at 1. Needs
 * exclusive use of the store. MS_E_UNSUPPORTED: it is in flash, or no arena store. */
MS_API ms_result ms_mem_reset(ms_store *store, ms_error *err);
