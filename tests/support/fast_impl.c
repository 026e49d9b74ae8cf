/* The implementation by itself, for test_fast: compiled once as it is and once with
 * MS__SIMD=0, without its wide paths. What is tested goes out in a table. */
#ifdef MS__SIMD
#define PLAIN
#endif
#define MSGSTORE_STATIC
#define MSGSTORE_NO_LOG
#define MSGSTORE_NO_FORMATS
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"

#include "fast.h"

static void fill_wide(fast *f)
{
#if MS__CRC_X86
    if (ms__crc_fast()) f->crc_header = ms__crc_header_x86;
#endif
#if MS__SSE2 || MS__NEON
    f->ascii_16 = ms__ascii_16;
    f->plain_16 = ms__plain_16;
#endif
    f->name = f->ascii_16 != NULL ? "wide" : "plain";
}

#ifdef PLAIN
fast fast_plain(void)
#else
fast fast_wide(void)
#endif
{
    fast f;
    memset(&f, 0, sizeof f);
    fill_wide(&f);
    f.crc = ms__crc32c;
    f.crc_table = ms__crc32c_table;
    f.ascii_few = ms__ascii_few;
    f.ascii_run = ms__ascii_run;
    f.plain_run = ms__plain_run;
    f.is_plain_name = ms__is_plain_name;
    f.name_mark = ms__name_mark;
    f.utf8_check = ms_utf8_check;
    f.json_check = ms_json_check;
    f.encode = ms_encode;
    return f;
}
