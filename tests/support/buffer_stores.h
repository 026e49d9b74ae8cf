/* Arena stores in buffers from malloc, each with a twin. A buffer has exactly the
 * requested size. */

#ifndef BUFFER_STORES_H
#define BUFFER_STORES_H

#include "stores.h"
#include "twin.h"

typedef struct buffer {
    char *bytes;              /* from malloc, of just that size */
    size_t size;
} buffer;

static inline buffer buffer_new(size_t size)
{
    buffer b = {(char *)malloc(size != 0 ? size : 1), size};
    if (b.bytes == NULL) abort();
    memset(b.bytes, 0xA5, size);
    return b;
}

static inline ms_mem_desc desc_in(buffer b)
{
    const ms_mem_desc desc = {.buffer = b.bytes, .buffer_size = b.size,
                              .entropy = constant_entropy(), .keep_unset_times = true};
    return desc;
}

static inline ms_store *open_in(buffer b)
{
    ms_mem_desc desc = desc_in(b);
    ms_store *store;
    ms_error err;
    must_ok(ms_mem_open(&store, &desc, &err), &err, "open in a buffer");
    return store;
}

static inline ms_store *attach_in(buffer b)
{
    ms_mem_desc desc = desc_in(b);
    ms_store *store;
    ms_error err;
    must_ok(ms_mem_attach(&store, &desc, NULL, &err), &err, "attach in a buffer");
    return store;
}

/* NULL where the image cannot be salvaged, and *result why. */
static inline ms_store *salvage_in(buffer b, uint64_t *damaged, ms_result *result)
{
    ms_mem_desc desc = desc_in(b);
    ms_store *store;
    desc.salvage = true;
    *result = ms_mem_attach(&store, &desc, damaged, NULL);
    return store;
}

static inline ms_store *must_salvage(buffer b, uint64_t *damaged)
{
    ms_result result;
    ms_store *store = salvage_in(b, damaged, &result);
    assert_int_equal(result, MS_OK);
    return store;
}

static inline buffer image_in(const ms_store *store, size_t size)
{
    ms_str image = ms_mem_image(store);
    buffer b = buffer_new(size > image.len ? size : image.len);
    memcpy(b.bytes, image.ptr, image.len);
    return b;
}

/* Appends one message to both; false when the store is full. */
static inline bool append_both(twin *t, ms_store *store, const ms_envelope *m)
{
    const ms_append_opts opts = {.keep_seq = false};
    return twin_append_both(t, store, m, 1, &opts, true) == MS_OK;
}

/* Appends random messages until one does not fit. */
static inline void fill(twin *t, ms_store *store, uint64_t *rng)
{
    ms_envelope m;
    do m = random_message(rng);
    while (append_both(t, store, &m));
}

static inline ms_envelope small_message(void)
{
    ms_envelope m = ms_message(MS_T_FINAL, ms_text(""));
    m.location = MS_STR("j");
    return m;
}

static inline uint64_t room_of(ms_store *store)
{
    ms_stat stat;
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    return stat.room;
}

#endif /* BUFFER_STORES_H */
