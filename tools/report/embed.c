/* Makes report_page.h from page.html, page.css and the scripts, which become one: the
 * page as an array of bytes, and the offsets in it where a report puts its title, the
 * type of its data and the data, and a server what the page may fetch. The page allows
 * one style and one script, by their SHA-256 in base64.
 *
 *     embed report page.html page.css texts.js page.js >report_page.h
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *what, const char *name)
{
    fprintf(stderr, "embed: %s %s\n", what, name);
    exit(1);
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = malloc(1 << 20);
    if (file == NULL || text == NULL) die("cannot read", path);
    size_t len = fread(text, 1, (1 << 20) - 1, file);
    if (!feof(file) && len == (1 << 20) - 1) die("too large:", path);
    fclose(file);
    text[len] = '\0';
    return text;
}

/* Returns the scripts one after the other. */
static char *read_scripts(char **paths)
{
    char *all = calloc(1, 1);
    for (size_t len = 0; *paths != NULL; paths++) {
        char *one = read_file(*paths);
        all = all != NULL ? realloc(all, len + strlen(one) + 1) : NULL;
        if (all == NULL) die("no memory for", *paths);
        memcpy(all + len, one, strlen(one) + 1);
        len += strlen(one);
        free(one);
    }
    return all;
}

/* Returns the end of a comment that begins here, if the line ends with it; else NULL. */
static const char *comment_end(const char *at)
{
    const char *end = strncmp(at, "/*", 2) == 0 ? strstr(at, "*/") : NULL;
    return end != NULL && end[2] == '\n' ? end + 1 : NULL;
}

/* Returns whether a character is one of a list, or the end of the text. */
static bool is_one_of(char c, const char *list)
{
    return strchr(list, c) != NULL;
}

/* Removes in place what a browser does not need: indents, comments at the end of a line,
 * line ends where no statement can end, and with `style` spaces beside punctuation. No
 * text of the page has a string of several lines. */
static char *without_indents(char *text, bool style)
{
    char *to = text, last = '\n';
    bool begins = true; /* only spaces came in this line */
    for (const char *at = text; *at != '\0'; at++) {
        const char *end = comment_end(*at == ' ' && !begins ? at + 1 : at);
        if (end != NULL && (*at == ' ' || begins)) {
            at = end;
            continue;
        }
        const char *next = at + 1 + strspn(at + 1, " \n");
        bool space = *at == ' ', line = *at == '\n';
        bool indent = space && begins;
        bool joined = line && (is_one_of(last, style ? "\n,;{([}" : "\n,;{([") ||
                               is_one_of(*next, "})],;"));
        bool tight = style && space && (is_one_of(last, ":,;{") || at[1] == '{');
        begins = line || (begins && space);
        if (indent || joined || tight) continue;
        *to++ = last = *at;
    }
    *to = '\0';
    return text;
}


/* ---- SHA-256, as FIPS 180-4 has it; the constants are computed --------------------- */

static uint32_t turn(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

/* The first 32 bits of the fraction of a root of n: 2 or 3 is which. Found bit by bit in
 * integers: the largest r with r^root <= n * 2^(32 * root). */
static uint32_t root_bits(unsigned n, unsigned root)
{
    uint64_t low = 0, high = (uint64_t)64 << 32;
    while (high - low > 1) {
        uint64_t mid = low + (high - low) / 2;
        /* mid^root against n << (32 * root), in digits of 32 bits */
        uint64_t a = mid >> 32, b = mid & 0xffffffffu;
        uint64_t s0 = b * b, s1 = 2 * a * b, s2 = a * a;
        s1 += s0 >> 32;
        s0 &= 0xffffffffu;
        s2 += s1 >> 32;
        s1 &= 0xffffffffu;
        int above;
        if (root == 2) {
            above = s2 >= n;
        } else {
            uint64_t c0 = s0 * b, c1 = s1 * b + s0 * a, c2 = s2 * b + s1 * a, c3 = s2 * a;
            c1 += c0 >> 32;
            c2 += c1 >> 32;
            c3 += c2 >> 32;
            above = c3 >= n;
        }
        if (above) high = mid;
        else low = mid;
    }
    return (uint32_t)low;
}

static void sha256(const char *text, size_t len, unsigned char out[32])
{
    uint32_t k[64], h[8], w[64];
    unsigned n = 0;
    size_t padded = (len + 9 + 63) / 64 * 64;
    unsigned char *bytes = calloc(padded, 1);
    if (bytes == NULL) die("no memory for", "SHA-256");
    memcpy(bytes, text, len);
    bytes[len] = 0x80;
    for (unsigned i = 0; i < 8; i++) {
        bytes[padded - 1 - i] = (unsigned char)((uint64_t)len * 8 >> (8 * i));
    }
    for (unsigned prime = 2; n < 64; prime++) {
        unsigned d = 2;
        while (d * d <= prime && prime % d != 0) d++;
        if (d * d <= prime) continue;
        if (n < 8) h[n] = root_bits(prime, 2);
        k[n++] = root_bits(prime, 3);
    }
    for (size_t at = 0; at < padded; at += 64) {
        uint32_t v[8];
        for (unsigned i = 0; i < 64; i++) {
            const unsigned char *p = bytes + at + 4 * (i & 15);
            if (i < 16) {
                w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
                       p[3];
                continue;
            }
            uint32_t x = w[i - 15], y = w[i - 2];
            w[i] = w[i - 16] + (turn(x, 7) ^ turn(x, 18) ^ x >> 3) + w[i - 7] +
                   (turn(y, 17) ^ turn(y, 19) ^ y >> 10);
        }
        memcpy(v, h, sizeof v);
        for (unsigned i = 0; i < 64; i++) {
            uint32_t t1 = v[7] + (turn(v[4], 6) ^ turn(v[4], 11) ^ turn(v[4], 25)) +
                          ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
            uint32_t t2 = (turn(v[0], 2) ^ turn(v[0], 13) ^ turn(v[0], 22)) +
                          ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
            memmove(v + 1, v, 7 * sizeof v[0]);
            v[4] += t1;
            v[0] = t1 + t2;
        }
        for (unsigned i = 0; i < 8; i++) h[i] += v[i];
    }
    for (unsigned i = 0; i < 32; i++) {
        out[i] = (unsigned char)(h[i / 4] >> (24 - 8 * (i % 4)));
    }
    free(bytes);
}

/* The digest in base64, 44 characters. */
static const char *digest_of(const char *text, char out[45])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                 "0123456789+/";
    unsigned char digest[33] = {0};
    sha256(text, strlen(text), digest);
    for (unsigned i = 0; i < 44; i++) {
        const unsigned char *p = digest + i / 4 * 3;
        unsigned bits = (unsigned)p[0] << 16 | (unsigned)p[1] << 8 | p[2];
        out[i] = digits[bits >> (18 - 6 * (i % 4)) & 63];
    }
    out[43] = '='; /* 32 bytes: the last group has two */
    out[44] = '\0';
    return out;
}


/* ---- The page ---------------------------------------------------------------------- */

static size_t written;

static void put(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++, written++) {
        printf("%u,%s", (unsigned)(unsigned char)text[i], written % 20 == 19 ? "\n" : "");
    }
}

int main(int argc, char **argv)
{
    char style_digest[45], script_digest[45];
    size_t places[4] = {0, 0, 0, 0};
    if (argc < 5) die("usage:", "embed NAME page.html page.css SCRIPT...");
    const char *name = argv[1], *html = read_file(argv[2]);
    const char *css = without_indents(read_file(argv[3]), true);
    const char *js = without_indents(read_scripts(argv + 4), false);
    if (strstr(css, "</") != NULL || strstr(js, "</script") != NULL ||
        strstr(js, "<!--") != NULL) die("a text would end its element in", argv[4]);
    const struct {
        const char *word, *text;
        size_t *place;        /* the report puts something here */
    } slots[] = {
        {"@STYLE@", css, NULL},
        {"@SCRIPT@", js, NULL},
        {"@STYLE-HASH@", digest_of(css, style_digest), NULL},
        {"@SCRIPT-HASH@", digest_of(js, script_digest), NULL},
        {"@TITLE@", "", &places[0]},
        {"@DATA-TYPE@", "", &places[1]},
        {"@DATA@", "", &places[2]},
        {"@FETCH@", "", &places[3]},
    };
    printf("/* Made by tools/report/embed.c from page.html, page.css and scripts. */\n"
           "static const unsigned char %s_page[] = {\n", name);
    for (const char *at = html; *at != '\0';) {
        size_t i = 0, n = sizeof slots / sizeof slots[0];
        while (i < n && strncmp(at, slots[i].word, strlen(slots[i].word)) != 0) i++;
        if (i == n) {
            put(at++, 1);
            continue;
        }
        if (slots[i].place != NULL) *slots[i].place = written;
        put(slots[i].text, strlen(slots[i].text));
        at += strlen(slots[i].word);
    }
    printf("};\nenum {\n    %s_title = %zu, %s_type = %zu, %s_data = %zu, %s_fetch = %zu\n"
           "};\n", name, places[0], name, places[1], name, places[2], name, places[3]);
    bool whole = places[0] > 0 && places[1] > 0 && places[2] > 0 && places[3] > 0;
    if (!whole) die("a slot is missing in", argv[2]);
    return fclose(stdout) == 0 ? 0 : 1;
}
