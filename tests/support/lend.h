/* Arguments in memory of their own, which is overwritten and freed right behind the call
 * that got them: see test_lifetimes.
 */

#ifndef LEND_H
#define LEND_H

#include "support.h"

#define LENT_MOST 64

static struct { void *at; size_t size; } lent[LENT_MOST];
static size_t n_lent;

static inline void *lend_bytes(const void *from, size_t size)
{
    void *at = malloc(size + 1);
    if (at == NULL || n_lent == LENT_MOST) abort();
    memcpy(at, from, size);
    ((char *)at)[size] = '\0';
    lent[n_lent].at = at;
    lent[n_lent++].size = size;
    return at;
}

#define LEND(type, value) ((type *)lend_bytes(&(value), sizeof(type)))

static inline ms_str lend(const char *text)
{
    size_t len = strlen(text);
    return ms_str_n((const char *)lend_bytes(text, len), len);
}

static inline void take_back(void)
{
    while (n_lent > 0) {
        n_lent--;
        memset(lent[n_lent].at, 'Z', lent[n_lent].size);
        free(lent[n_lent].at);
    }
}

/* Takes everything back right behind a call. */
static inline void gone(ms_result code)
{
    take_back();
    assert_int_equal(code, MS_OK);
}

static inline ms_envelope *lent_message(const char *text)
{
    ms_envelope m = ms_user_message(ms_text_n(lend(text)));
    m.agent_key = lend("agent");
    m.turn_id = lend("turn");
    m.id = lend("id");
    m.extra = lend("{\"more\":1}");
    return LEND(ms_envelope, m);
}

#endif
