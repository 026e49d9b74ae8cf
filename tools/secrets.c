/* Finds keys, tokens and passwords, by three kinds of evidence:
 *
 *   form      most issuers give their tokens a prefix and a length: the table of rules
 *   place     "password = ...", "the password is ...", "--password ...",
 *             "Authorization: ...", user:password@host, commands such as
 *             mysql -pPASSWORD, files such as .netrc
 *   entropy   a random text uses its characters evenly, a placeholder does not.
 *             Shannon's measure in bits a character, over the match
 *
 * A rule is a pattern: characters stand for themselves, %sN for a run of a set s, of N
 * characters (N-M: of N to M; N+: of N or more). A run takes all that it can.
 *
 *   %d digits    %x 0-9a-f     %U A-Z2-7    %A A-Z0-9    %a letters and digits
 *   %w letters, digits, _ -    %b letters, digits, + / =  %v as %w, and . ~ + / =
 *
 * A match never begins or ends inside a word, except those of a few issuers, whose
 * beginnings no word has: distinct_at(). An escape counts as a boundary
 * ("\nghp_..."). A match never crosses a quote, so JSON around it stays JSON.
 *
 * A text is searched as it is, then with its escapes decoded, then with the escapes of
 * that decoded: a JSON string can hold JSON, whose strings hold JSON. Level 0 is the text
 * itself; of JSON it is left out, since level 1 has the strings as they are meant. Each
 * match is traced back to the bytes of level 0, and matches that overlap become one. */

#include "secrets.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


/* ---- Characters -------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_alnum(char c)
{
    return is_digit(c) || is_letter(c);
}

static char to_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool is_in_set(char set, char c)
{
    switch (set) {
    case 'd': return is_digit(c);
    case 'x': return is_digit(c) || (c >= 'a' && c <= 'f');
    case 'U': return (c >= 'A' && c <= 'Z') || (c >= '2' && c <= '7');
    case 'A': return (c >= 'A' && c <= 'Z') || is_digit(c);
    case 'a': return is_alnum(c);
    case 'w': return is_alnum(c) || c == '_' || c == '-';
    case 'b': return is_alnum(c) || c == '+' || c == '/' || c == '=';
    default: return is_alnum(c) || (c != '\0' && strchr("_-.~+/=", c) != NULL);
    }
}

static bool is_blank_at(ms_str text, size_t at)
{
    return text.ptr[at] == ' ' || text.ptr[at] == '\t' || text.ptr[at] == '\r' ||
           text.ptr[at] == '\n';
}

/* Returns whether a token can begin here: not after a word character, unless that ends
 * an escape. */
static bool is_begin(ms_str text, size_t at)
{
    char before = at > 0 ? text.ptr[at - 1] : ' ';
    char escape = at > 1 ? text.ptr[at - 2] : ' ';
    if (before == '\\') return false;
    if (!is_alnum(before) && before != '_') return true;
    return escape == '\\' && strchr("nrtbf", before) != NULL;
}

/* Returns whether a word stands at a place of a text. */
static bool holds(ms_str text, size_t at, const char *word)
{
    if (at >= text.len || text.ptr[at] != word[0]) return false; /* most of them */
    size_t len = strlen(word);
    return len <= text.len - at && memcmp(text.ptr + at, word, len) == 0;
}

/* Returns the length of a beginning that no word has, so that a token with it can stand
 * inside of one, as in call_ghp_...; 0: none. */
static size_t distinct_at(ms_str text, size_t at)
{
    static const char *const beginnings[] = {
        "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "sk-ant-",
        "sk-or-v1-", "xoxb-", "xoxp-",
    };
    char c = text.ptr[at], next = at + 1 < text.len ? text.ptr[at + 1] : '\0';
    bool may = (c == 'g' && (next == 'h' || next == 'i' || next == 'l')) ||
               (c == 's' && next == 'k') || (c == 'x' && next == 'o');
    for (size_t i = 0; may && i < sizeof beginnings / sizeof beginnings[0]; i++) {
        if (holds(text, at, beginnings[i])) return strlen(beginnings[i]);
    }
    return 0;
}

/* Returns where a token with such a beginning ends, of which n bytes at least belong to
 * it: before the next one, if its run took the first bytes of that. */
static size_t distinct_end(ms_str text, size_t at, size_t n, size_t end)
{
    enum { LONGEST = 11 };
    for (size_t k = LONGEST; k > 0; k--) {
        if (end - at < n + k) continue;
        if (distinct_at(text, end - k) > k) return end - k;
    }
    return end;
}

/* Does what holds() does, in any case of letters; word is in lower case. */
static bool holds_any_case(ms_str text, size_t at, const char *word)
{
    size_t i = 0, room = text.len - at;
    while (word[i] != '\0' && i < room && to_lower(text.ptr[at + i]) == word[i]) i++;
    return word[i] == '\0';
}

static bool contains_any_case(ms_str text, const char *word)
{
    for (size_t i = 0; i < text.len; i++) {
        if (holds_any_case(text, i, word)) return true;
    }
    return false;
}

/* Parses the four digits of an escape \u0022. */
static bool hex_point(ms_str text, size_t at, unsigned *point)
{
    static const char digits[] = "0123456789abcdef";
    *point = 0;
    if (text.len - at < 4) return false;
    for (size_t i = at; i < at + 4; i++) {
        char c = to_lower(text.ptr[i]);
        const char *d = c != '\0' ? strchr(digits, c) : NULL;
        if (d == NULL) return false;
        *point = *point << 4 | (unsigned)(d - digits);
    }
    return true;
}

static ms_str part_of(ms_str text, size_t at, size_t len)
{
    return ms_str_n(text.ptr + at, len);
}


/* ---- How random a text is ---------------------------------------------------------- */

static double entropy(ms_str text)
{
    unsigned counts[256] = {0};
    double bits = 0;
    for (size_t i = 0; i < text.len; i++) counts[(unsigned char)text.ptr[i]]++;
    for (size_t i = 0; i < 256; i++) {
        if (counts[i] == 0) continue;
        double p = (double)counts[i] / (double)text.len;
        bits -= p * log2(p);
    }
    return bits;
}

/* Returns the part of a token that is measured. A search meets the same characters in
 * many tokens, of which each ends where the last one does: sk-sk-sk-. */
static ms_str measured(ms_str text)
{
    enum { MEASURED = 256 };
    return part_of(text, 0, text.len < MEASURED ? text.len : MEASURED);
}

/* Returns whether one of n words in lower case is in a text. */
static bool contains_one(ms_str text, const char *const *words, size_t n)
{
    uint64_t firsts[4] = {0, 0, 0, 0}; /* a bit for each first character */
    for (size_t k = 0; k < n; k++) {
        unsigned char c = (unsigned char)words[k][0];
        firsts[c >> 6] |= (uint64_t)1 << (c & 63);
    }
    for (size_t i = 0; i < text.len; i++) {
        char c = to_lower(text.ptr[i]);
        bool may = (firsts[(unsigned char)c >> 6] >> ((unsigned char)c & 63) & 1) != 0;
        for (size_t k = 0; may && k < n; k++) {
            if (words[k][0] == c && holds_any_case(text, i, words[k])) return true;
        }
    }
    return false;
}

/* Returns whether a text is a word of examples, or a mask in the place of a secret. */
static bool is_placeholder(ms_str text)
{
    static const char *const words[] = {
        "example", "placeholder", "your", "xxxx", "....", "****", "abcdefgh", "12345678",
        "changeme", "redacted", "masked", "dummy", "insert", "deadbeef", "00000000",
        "sample", "foobar", "&lt;",
    };
    return contains_one(text, words, sizeof words / sizeof words[0]);
}

typedef struct makeup {
    bool digit, lower, upper, other;
    unsigned kinds;           /* sets that the text uses */
    unsigned turns;           /* changes between digits and letters */
} makeup;

static makeup makeup_of(ms_str text)
{
    makeup m = {false, false, false, false, 0, 0};
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (is_digit(c)) m.digit = true;
        else if (c >= 'a' && c <= 'z') m.lower = true;
        else if (is_letter(c)) m.upper = true;
        else m.other = true;
        if (i > 0 && is_alnum(c) && is_digit(c) != is_digit(text.ptr[i - 1])) m.turns++;
    }
    m.kinds = (unsigned)m.digit + (unsigned)m.lower + (unsigned)m.upper +
              (unsigned)m.other;
    return m;
}


/* ---- By form: the table ------------------------------------------------------------ */

typedef struct rule {
    const char *pattern;      /* two characters, then more or runs; sorted by the first */
    const char *kind;
    double bits;              /* the least entropy, in bits a character */
} rule;

static const rule rules[] = {
    {"ABIA%U16", "aws-access-key", 2.5},
    {"ACCA%U16", "aws-access-key", 2.5},
    {"AGE-SECRET-KEY-1%A58", "age-key", 3},
    {"AIza%w35", "google-api-key", 3},
    {"AKIA%U16", "aws-access-key", 2.5},
    {"ASIA%U16", "aws-access-key", 2.5},
    {"ATATT3%v100+", "atlassian-token", 3.5},
    {"ATCTT3%v100+", "atlassian-token", 3.5},
    {"ATBB%a32", "bitbucket-password", 3.5},
    {"AccountKey=%b80-100", "azure-storage-key", 4},
    {"Basic %b16+", "basic-auth", 3},
    {"Bearer %v20+", "bearer-token", 3.5},
    {"EAA%a90+", "facebook-token", 4},
    {"FLWSECK_TEST-%a12+", "flutterwave-key", 2.5},
    {"FLWSECK-%a12+", "flutterwave-key", 2.5},
    {"GOCSPX-%w28", "google-oauth-secret", 3},
    {"GR1348941%w20+", "gitlab-token", 3},
    {"HRKU-%w36+", "heroku-key", 3},
    {"LTAI%a12-20", "alibaba-key", 3},
    {"NRAK-%A27", "new-relic-key", 3},
    {"PMAK-%x24-%x34", "postman-key", 3},
    {"SG.%w16-32.%w32-64", "sendgrid-key", 3.5},
    {"SK%x32", "twilio-key", 3},
    {"SharedAccessKey=%b40-50", "azure-shared-key", 3.5},
    {"age-secret-key-1%a58", "age-key", 3},
    {"apify_api_%a36+", "apify-token", 3},
    {"bearer %v20+", "bearer-token", 3.5},
    {"dapi%x32", "databricks-token", 3},
    {"dckr_pat_%w27+", "docker-token", 3},
    {"dckr_oat_%w27+", "docker-token", 3},
    {"do_v1_%x64", "digitalocean-token", 3},
    {"doo_v1_%x64", "digitalocean-token", 3},
    {"dop_v1_%x64", "digitalocean-token", 3},
    {"dor_v1_%x64", "digitalocean-token", 3},
    {"dp.ct.%a40+", "doppler-token", 3},
    {"dp.pt.%a40+", "doppler-token", 3},
    {"dp.st.%v40+", "doppler-token", 3},
    {"dt0c01.%A24.%A64", "dynatrace-token", 3},
    {"duffel_live_%w43", "duffel-token", 3},
    {"duffel_test_%w43", "duffel-token", 3},
    {"eyJ%w8+.eyJ%w8+.%w16+", "jwt", 3},
    {"figd_%w40+", "figma-token", 3},
    {"fio-u-%w64", "frameio-token", 3},
    {"fo1_%w43", "fly-token", 3},
    {"ghb_%a36", "github-token", 3},
    {"gho_%a36+", "github-token", 3},
    {"ghp_%a36+", "github-token", 3},
    {"ghr_%a36+", "github-token", 3},
    {"ghs_%a36+", "github-token", 3},
    {"ghu_%a36+", "github-token", 3},
    {"github_pat_%w60+", "github-token", 3},
    {"glagent-%w40+", "gitlab-token", 3},
    {"glc_%b32+", "grafana-token", 3.5},
    {"glcbt-%w20+", "gitlab-token", 3},
    {"gldt-%w20+", "gitlab-token", 3},
    {"glft-%w20+", "gitlab-token", 3},
    {"gloas-%w40+", "gitlab-token", 3},
    {"glpat-%v20+", "gitlab-token", 3},
    {"glptt-%x40", "gitlab-token", 3},
    {"glrt-%w20+", "gitlab-token", 3},
    {"glsa_%a32_%x8", "grafana-token", 3},
    {"glsoat-%w20+", "gitlab-token", 3},
    {"gsk_%a40+", "groq-key", 3.5},
    {"hf_%a30+", "huggingface-token", 3.5},
    {"https://discord.com/api/webhooks/%d16+/%w60+", "discord-webhook", 3},
    {"https://discordapp.com/api/webhooks/%d16+/%w60+", "discord-webhook", 3},
    {"https://hooks.slack.com/services/%A8+/%A8+/%a20+", "slack-webhook", 3},
    {"https://hooks.slack.com/workflows/%A8+/%A8+/%d8+/%a20+", "slack-webhook", 3},
    {"hvb.%w100+", "vault-token", 3.5},
    {"hvs.%w20+", "vault-token", 3},
    {"key-%x32", "mailgun-key", 3},
    {"lin_api_%a40", "linear-key", 3},
    {"lin_oauth_%x64", "linear-key", 3},
    {"live_%w35", "cloud-key", 3.8},
    {"lsv2_pt_%x32_%x10", "langsmith-key", 3},
    {"lsv2_sk_%x32_%x10", "langsmith-key", 3},
    {"mfp_%w30+", "token", 3.5},
    {"nfp_%w36+", "netlify-token", 3},
    {"npm_%a36", "npm-token", 3},
    {"ntn_%a40+", "notion-token", 3.5},
    {"nvapi-%w50+", "nvidia-key", 3.5},
    {"ops_eyJ%b100+", "1password-token", 3.5},
    {"pat%a14.%x64", "airtable-token", 3},
    {"phc_%a40+", "posthog-key", 3.5},
    {"phx_%a40+", "posthog-key", 3.5},
    {"pplx-%a48+", "perplexity-key", 3},
    {"prefect_%a36", "token", 3.5},
    {"pscale_oauth_%w32+", "planetscale-token", 3},
    {"pscale_pw_%w32+", "planetscale-token", 3},
    {"pscale_tkn_%w32+", "planetscale-token", 3},
    {"pul-%x40", "pulumi-token", 3},
    {"pypi-%w60+", "pypi-token", 3.5},
    {"r8_%w37", "replicate-token", 3.5},
    {"rdme_%a70", "readme-token", 3.5},
    {"re_%a8_%a20+", "resend-key", 3},
    {"rk_live_%a24+", "stripe-key", 3},
    {"rk_test_%a24+", "stripe-key", 3},
    {"rubygems_%x48", "rubygems-key", 3},
    {"sbp_%x40", "supabase-token", 3},
    {"sb_secret_%w20+", "supabase-token", 3},
    {"scw_%a36", "token", 3.5},
    {"secret_%a43", "notion-token", 3.8},
    {"sgp_%a16_%x40", "sourcegraph-token", 3},
    {"sgp_%x40", "sourcegraph-token", 3},
    {"shippo_live_%x40", "shippo-token", 3},
    {"shpat_%x32", "shopify-token", 3},
    {"shpca_%x32", "shopify-token", 3},
    {"shppa_%x32", "shopify-token", 3},
    {"shpss_%x32", "shopify-token", 3},
    {"sk-%x32", "deepseek-key", 3},
    {"sk-ant-%w40+", "anthropic-key", 3.5},
    {"sk-lf-%w30+", "langfuse-key", 3},
    {"sk-or-v1-%x64", "openrouter-key", 3},
    {"sk-%a20T3BlbkFJ%a20", "openai-key", 3.5},
    {"sk-%a40+", "openai-key", 3.5},
    {"sk-%w40+", "openai-key", 4},
    {"sk_live_%a24+", "stripe-key", 3},
    {"sk_test_%a24+", "stripe-key", 3},
    {"sk_%x40+", "elevenlabs-key", 3},
    {"sntryu_%x64", "sentry-token", 3},
    {"sntrys_%b60+", "sentry-token", 3.5},
    {"sq0atp-%w22+", "square-token", 3},
    {"sq0csp-%w43", "square-token", 3},
    {"tfp_%a40+", "token", 3.5},
    {"tskey-%w20+", "tailscale-key", 3},
    {"tvly-%w28+", "tavily-key", 3.5},
    {"vercel_blob_rw_%w30+", "vercel-token", 3},
    {"whsec_%b24+", "webhook-secret", 3.5},
    {"xai-%a70+", "xai-key", 3.5},
    {"xapp-%d1-%A10+-%d10+-%x60+", "slack-token", 3},
    {"xoxa-%w20+", "slack-token", 2.5},
    {"xoxb-%w20+", "slack-token", 2.5},
    {"xoxc-%w20+", "slack-token", 2.5},
    {"xoxd-%v20+", "slack-token", 2.5},
    {"xoxe.xoxb-%w20+", "slack-token", 2.5},
    {"xoxe.xoxp-%w20+", "slack-token", 2.5},
    {"xoxe-%w20+", "slack-token", 2.5},
    {"xoxo-%w20+", "slack-token", 2.5},
    {"xoxp-%w20+", "slack-token", 2.5},
    {"xoxr-%w20+", "slack-token", 2.5},
    {"xoxs-%w20+", "slack-token", 2.5},
    {"ya29.%w30+", "google-oauth-token", 3.5},
};

static size_t number_of(const char **at)
{
    size_t n = 0;
    for (; is_digit(**at); (*at)++) n = n * 10 + (size_t)(**at - '0');
    return n;
}

/* Parses the counts of a run, "16", "16-32" or "16+". A hyphen that no digit follows is
 * a character of the pattern. */
static void run_bounds(const char **at, size_t *least, size_t *most)
{
    *least = *most = number_of(at);
    if (**at == '+') {
        (*at)++;
        *most = SIZE_MAX;
    } else if (**at == '-' && is_digit((*at)[1])) {
        (*at)++;
        *most = number_of(at);
    }
}

/* A text that is searched. It keeps where its runs of a set end: a run in which many
 * tokens begin is walked once. The first runs of patterns are kept apart from the second
 * ones, and so on. */
static const char sets[] = "dxUAawbv";
enum { SETS = sizeof sets - 1, RUNS = 4 };

typedef struct scan {
    ms_str text;
    struct { size_t from, to; } runs[RUNS][SETS];
    size_t at, done;          /* the next place; where the last secret ends */
    secret waiting;           /* it is found, and comes after those before it */
} scan;

/* Returns the end of the run of a set that is the nth one of a pattern. */
static size_t run_end(scan *s, unsigned nth, char set, size_t at)
{
    size_t i = at, k = (size_t)(strchr(sets, set) - sets);
    size_t *from = &s->runs[nth][k].from, *to = &s->runs[nth][k].to;
    if (*from <= at && at < *to) return *to;
    while (i < s->text.len && is_in_set(set, s->text.ptr[i])) i++;
    *from = at;
    return *to = i;
}

/* Matches a pattern at a place. Returns the length; 0 if it does not match. */
static size_t pattern_match(const char *pattern, scan *s, size_t at)
{
    ms_str text = s->text;
    size_t i = at, all = 0; /* all: bytes that a match has at least */
    unsigned nth = 0;
    while (*pattern != '\0') {
        if (*pattern != '%') {
            if (i == text.len || text.ptr[i++] != *pattern++) return 0;
            all++;
            continue;
        }
        size_t least, most, n = 0;
        char set = pattern[1];
        pattern += 2;
        run_bounds(&pattern, &least, &most);
        /* Inside a pattern a run stops at its bound. At the end of a pattern the text
         * must end the run, or a token that can stand inside of a word. */
        n = run_end(s, nth++, set, i) - i;
        bool next = *pattern == '\0' && n > most && distinct_at(text, i + most) > 0;
        if ((*pattern != '\0' && n > most) || next) n = most;
        if (n < least || n > most) return 0;
        i += n;
        all += least;
    }
    size_t end = distinct_end(text, at, all, i);
    if (end < i || i == text.len || distinct_at(text, at) > 0) return end - at;
    bool inside = is_alnum(text.ptr[i]) || text.ptr[i] == '_';
    return inside && distinct_at(text, i) == 0 ? 0 : end - at;
}

/* Returns whether a text is "user:password" in base64. */
static bool is_credentials(ms_str text)
{
    static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                              "0123456789+/";
    uint32_t bits = 0;
    unsigned n = 0;
    bool colon = false;
    for (size_t i = 0; i < text.len && text.ptr[i] != '='; i++) {
        const char *at = strchr(set, text.ptr[i]);
        if (at == NULL) return false;
        bits = bits << 6 | (uint32_t)(at - set);
        n += 6;
        if (n < 8) continue;
        n -= 8;
        unsigned char c = (unsigned char)(bits >> n & 0xff);
        if (c < ' ' || c == 0x7f) return false;
        colon = colon || c == ':';
    }
    return colon;
}

/* Returns whether a match is random after the fixed beginning of its pattern. */
static bool is_random(const rule *r, ms_str match)
{
    size_t fixed = strcspn(r->pattern, "%");
    ms_str whole = part_of(match, fixed, match.len - fixed), rest = measured(whole);
    if (strcmp(r->kind, "basic-auth") == 0) {
        return is_credentials(whole) && !is_placeholder(rest);
    }
    makeup m = makeup_of(rest);
    bool mixed = m.digit || m.kinds > 1 || strstr(r->pattern, "%U") != NULL;
    if (strcmp(r->kind, "bearer-token") == 0) {
        mixed = m.digit && (m.turns >= 3 || m.kinds >= 3);
    }
    return mixed && entropy(rest) >= r->bits && !is_placeholder(rest);
}

/* Returns the first rule that begins with a character, or with one after it. */
static size_t first_rule(char c)
{
    size_t low = 0, high = sizeof rules / sizeof rules[0];
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (rules[middle].pattern[0] < c) low = middle + 1;
        else high = middle;
    }
    return low;
}

static bool find_by_form(scan *s, size_t at, secret *out)
{
    ms_str text = s->text;
    char first = text.ptr[at];
    if (!is_begin(text, at)) {
        char before = text.ptr[at - 1];
        if ((!is_alnum(before) && before != '_') || distinct_at(text, at) == 0) {
            return false;
        }
    }
    char next = at + 1 < text.len ? text.ptr[at + 1] : '\0';
    for (size_t i = first_rule(first); i < sizeof rules / sizeof rules[0]; i++) {
        const rule *r = &rules[i];
        if (r->pattern[0] != first) break;
        if (r->pattern[1] != next) continue;
        size_t len = pattern_match(r->pattern, s, at);
        if (len == 0 || !is_random(r, part_of(text, at, len))) continue;
        size_t fixed = strcspn(r->pattern, "%");
        if (strchr(" =", r->pattern[fixed - 1]) == NULL) fixed = 0; /* part of it */
        out->at = at + fixed;
        out->len = len - fixed;
        out->kind = r->kind;
        return true;
    }
    return false;
}


/* ---- Private keys ------------------------------------------------------------------ */

static bool is_label(char c)
{
    return is_alnum(c) || c == ' ';
}

/* Finds "-----BEGIN ... PRIVATE KEY...-----", base64 in lines (or with escapes for
 * their ends), "-----END ...-----". The end may be missing. */
static bool find_private_key(ms_str text, size_t at, secret *out)
{
    if (!holds(text, at, "-----BEGIN ")) return false;
    size_t i = at + 11, key = 0, digits = 0;
    for (; i < text.len && i - at < 60 && is_label(text.ptr[i]); i++) {
        if (holds(text, i, "PRIVATE KEY")) key = i;
    }
    if (key == 0 || !holds(text, i, "-----")) return false;
    i += 5;
    for (; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '\\' && i + 1 < text.len && strchr("nrt\\", text.ptr[i + 1]) != NULL) {
            i++;
        } else if (is_in_set('b', c)) {
            digits++;
        } else if (c == '\0' || strchr(" \t\r\n:,-", c) == NULL ||
                   holds(text, i, "-----END")) {
            break;
        }
    }
    if (digits < 40) return false;
    if (i < text.len && holds(text, i, "-----END")) {
        size_t from = i + 8;
        while (from < text.len && from - i < 60 && is_label(text.ptr[from])) from++;
        if (from < text.len && holds(text, from, "-----")) i = from + 5;
    }
    out->at = at;
    out->len = i - at;
    out->kind = "private-key";
    return true;
}


/* ---- By place: after a name, or in an address -------------------------------------- */

/* Ends of names. A password may be any word that a person would choose, other values are
 * random. `auth` of Docker has "user:password" in base64. */
#define WORD(text) text, sizeof text - 1
static const struct {
    const char *word;
    size_t len;
    bool password;
} names[] = {
    {WORD("password"), true}, {WORD("passwd"), true}, {WORD("passphrase"), true},
    {WORD("passwort"), true}, {WORD("pwd"), true}, {WORD("pass"), true},
    {WORD("secret"), true}, {WORD("token"), false}, {WORD("apikey"), false},
    {WORD("api_key"), false}, {WORD("api-key"), false}, {WORD("accesskey"), false},
    {WORD("access_key"), false}, {WORD("access-key"), false},
    {WORD("secretkey"), false}, {WORD("secret_key"), false},
    {WORD("secret-key"), false}, {WORD("privatekey"), false},
    {WORD("private_key"), false}, {WORD("auth_key"), false}, {WORD("authkey"), false},
    {WORD("credential"), false}, {WORD("credentials"), false},
    {WORD("accountkey"), false}, {WORD("account_key"), false},
    {WORD("encryption_key"), false}, {WORD("signing_key"), false},
    {WORD("service_key"), false}, {WORD("master_key"), false},
    {WORD("authorization"), false}, {WORD("_auth"), false}, {WORD("authtoken"), false},
    {WORD("client_key"), false}, {WORD("auth"), false}, {WORD("api key"), false},
    {WORD("access key"), false}, {WORD("secret key"), false},
};
#undef WORD

/* Returns the end of the name before a ':' or '=', perhaps in quotes; 0 if there is
 * none. */
static size_t name_end(ms_str text, size_t at)
{
    while (at > 0 && (text.ptr[at - 1] == ' ' || text.ptr[at - 1] == '"' ||
                      text.ptr[at - 1] == '\'' || text.ptr[at - 1] == '\\' ||
                      text.ptr[at - 1] == ']')) {
        at--;
    }
    return at;
}

enum { MARK_MAX = 48 };       /* bytes of a mark "[masked KIND]", at most */

/* Returns whether the kind of a mark ends at a place. */
static bool is_in_mark(ms_str text, size_t at)
{
    static const char begin[] = "[masked ";
    const size_t n = sizeof begin - 1, end = at;
    while (at > 0 && end - at < MARK_MAX &&
           (is_alnum(text.ptr[at - 1]) || text.ptr[at - 1] == '-')) {
        at--;
    }
    return at >= n && holds(text, at - n, begin);
}

static int name_before(ms_str text, size_t at)
{
    size_t end = name_end(text, at);
    char last = end > 0 ? to_lower(text.ptr[end - 1]) : '\0';
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t len = names[i].len;
        if (names[i].word[len - 1] != last || len > end ||
            !holds_any_case(text, end - len, names[i].word)) continue;
        bool whole = strcmp(names[i].word, "pass") == 0 ||
                     strcmp(names[i].word, "auth") == 0;
        if (whole && !is_begin(text, end - len)) continue;
        return is_in_mark(text, end) ? -1 : (int)i; /* a mark names nothing */
    }
    return -1;
}

enum { VALUE_MAX = 4096 };

/* Returns whether a value ends before a character, in quotes or without. In quotes it has
 * any letters, without them those of ASCII: a sentence can follow without a blank. */
static bool ends_value(char c, bool quoted)
{
    bool ascii = (unsigned char)c < 0x80;
    if (!ascii) return !quoted;
    if (c <= ' ' || c == 0x7f || strchr("\"'`", c) != NULL) return true;
    return !quoted && strchr("\\,;(){}[]<>&|", c) != NULL;
}

/* Returns the length of a value in quotes. A backslash belongs to it, except before a
 * quote. nested: the first quote has a backslash, so that any backslash ends the value;
 * the next level has the whole one. 0: too long. */
static size_t quoted_length(ms_str text, size_t at, bool nested)
{
    size_t i = at;
    while (i < text.len && !ends_value(text.ptr[i], true)) {
        size_t begin = i;
        while (i < text.len && text.ptr[i] == '\\') i++;
        bool last = i == text.len || strchr("\"'`", text.ptr[i]) != NULL;
        if (i > begin && (nested || last)) return begin - at;
        if (i == begin) i++;
        if (i - at > VALUE_MAX) return 0;
    }
    return i - at;
}

/* Returns the length of a mark "[masked KIND]" at a place; 0 if there is none. */
static size_t mark_at(ms_str text, size_t at)
{
    size_t i = at;
    if (!holds(text, at, "[masked ")) return 0;
    while (i < text.len && i - at < MARK_MAX && text.ptr[i] != ']') i++;
    return i < text.len && text.ptr[i] == ']' && is_in_mark(text, i) ? i + 1 - at : 0;
}

/* Returns the length of a value without quotes, to a blank or a bracket; a mark is a part
 * of it, as what it stands for was. 0: too long, or an expression, a=b or a:b. So each
 * byte is in few values: in token=token=token= the first one ends at the second =. */
static size_t bare_length(ms_str text, size_t at)
{
    size_t i = at, mark;
    for (; i < text.len; i++) {
        char c = text.ptr[i];
        if ((mark = mark_at(text, i)) > 0) i += mark - 1;
        if (mark > 0) continue;
        if (ends_value(c, false)) break;
        bool inside = i > at && i + 1 < text.len && !ends_value(text.ptr[i + 1], false);
        if (i - at >= VALUE_MAX || (inside && (c == ':' || c == '='))) return 0;
    }
    return i - at;
}

static bool looks_like_code(ms_str value, bool quoted)
{
    static const char *const marks[] = {"${", "{{", "$(", "%(", "<", "://", "()", "env.",
                                        "env[", "self."};
    if (contains_one(value, marks, sizeof marks / sizeof marks[0])) return true;
    if (value.ptr[0] == '$' || value.ptr[0] == '@') return true;
    if (value.ptr[0] == '/' && value.len != 40) return true; /* a path; 40: keys of AWS */
    bool member = false;       /* of something: a.b */
    for (size_t i = 1; i + 1 < value.len && !quoted && !member; i++) {
        member = value.ptr[i] == '.' && is_alnum(value.ptr[i - 1]) &&
                 is_letter(value.ptr[i + 1]);
    }
    return member && entropy(value) < 4.5;
}

/* Returns whether a person or a program could have made this value as a password: it has
 * a digit and a letter. */
static bool is_password(ms_str value, bool quoted)
{
    if (value.len < 6 || value.len > 128) return false;
    makeup m = makeup_of(value);
    bool mixed = m.digit && (m.lower || m.upper);
    if (quoted && value.len >= 8 && m.other && m.kinds >= 3) mixed = true;
    if (!mixed || entropy(value) < 2.5) return false;
    /* password = password1 names a variable */
    return quoted || m.kinds >= 3 || !contains_any_case(value, "password");
}

static bool is_token(ms_str value)
{
    size_t i = 0;
    while (i < value.len && is_in_set('v', value.ptr[i])) i++;
    if (i < value.len || value.len < 16) return false;
    makeup m = makeup_of(value);
    return m.digit && (m.lower || m.upper) && m.turns >= 3 && entropy(value) >= 3;
}

/* Returns whether a value without quotes is a word in lower case that '-' or '/' join, as
 * the name of a secret: db-credentials-v1. */
static bool is_joined(ms_str value)
{
    return !makeup_of(value).upper && (memchr(value.ptr, '-', value.len) != NULL ||
                                       memchr(value.ptr, '/', value.len) != NULL);
}

/* Returns whether a value is a password after a name that also has other values: a test
 * has a pass, "first pass: 100ms"; a secret has a name. */
static bool fits_name(const char *name, ms_str value, bool quoted)
{
    if (strcmp(name, "pass") == 0)
        return quoted || (value.len >= 8 && makeup_of(value).kinds >= 3);
    return strcmp(name, "secret") != 0 || (value.len >= 8 && !is_joined(value));
}

/* Returns whether a value is one in a sentence or a command, where hyphens join words, as
 * in "is base64-encoded". */
static bool is_plain_password(ms_str value)
{
    bool joined = memchr(value.ptr, '-', value.len) != NULL && !makeup_of(value).upper;
    return value.len >= 8 && !joined && is_password(value, false);
}

/* Returns the place after "Bearer" or "Basic", which precede the value of a header. */
static size_t skip_scheme(ms_str text, size_t at)
{
    static const char *const schemes[] = {"bearer ", "basic ", "token ", "apikey "};
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (holds_any_case(text, at, schemes[i])) return at + strlen(schemes[i]);
    }
    return at;
}

/* Finds a secret by the name before it. at: a ':' or '=' */
static bool find_by_name(scan *s, size_t at, secret *out)
{
    ms_str text = s->text;
    int name = name_before(text, at);
    bool quoted = false, nested = false;
    if (name < 0) return false;
    at++;
    if (at < text.len && text.ptr[at - 1] == ':' && text.ptr[at] == '=') at++;
    else if (at < text.len && text.ptr[at] == '=') return false;
    if (at < text.len && text.ptr[at] == '>') at++;
    while (at < text.len && text.ptr[at] == ' ') at++;
    size_t before = at;
    while (at < text.len && text.ptr[at] == '\\') at++;
    if (at < text.len && strchr("\"'`", text.ptr[at]) != NULL) {
        nested = text.ptr[at - 1] == '\\';
        quoted = true;
        at++;
    }
    unsigned point;
    bool escaped = !quoted && at > before; /* the first character, \n or \u0022 */
    if (escaped && holds(text, at, "u") && hex_point(text, at + 1, &point)) return false;
    size_t from = at;
    at = skip_scheme(text, at);
    size_t begin = escaped && at == from ? before : at;
    size_t len = quoted ? quoted_length(text, at, nested) : bare_length(text, at);
    if (len == 0) return false;
    ms_str value = part_of(text, at, len);
    if (is_placeholder(value) || looks_like_code(value, quoted)) return false;
    bool call = !quoted && at + len < text.len && text.ptr[at + len] == '('; /* f(x) */
    if (call) return false;
    bool docker = strcmp(names[name].word, "auth") == 0;
    bool good = docker                 ? len >= 8 && is_credentials(value)
                : names[name].password ? is_password(value, quoted) &&
                                             fits_name(names[name].word, value, quoted)
                                       : is_token(value);
    bool token = !good && strcmp(names[name].word, "secret") == 0 && is_token(value);
    out->at = begin;
    out->len = at + len - begin;
    out->kind = docker                 ? "basic-auth"
                : names[name].password && !token ? "password"
                                                 : "secret-value";
    secret formed;
    bool known = find_by_form(s, at, &formed);
    if (known) *out = formed; /* the form names the issuer, the place does not */
    return known || good || token;
}

/* Finds a secret after a name that ends before `end`, and words that join both. sentence:
 * its full stop is not of the value. */
static bool find_after_name(scan *s, size_t end, size_t at, bool sentence, secret *out)
{
    ms_str text = s->text;
    int name = name_before(text, end);
    if (name < 0 || at >= text.len) return false;
    bool quoted = strchr("\"'`", text.ptr[at]) != NULL && text.ptr[at] != '\0';
    at += quoted;
    if (at >= text.len || text.ptr[at] == '-') return false; /* the next option */
    size_t len = quoted ? quoted_length(text, at, false) : bare_length(text, at);
    while (sentence && !quoted && len > 0 &&
           strchr(".?!", text.ptr[at + len - 1]) != NULL) {
        len--;
    }
    if (len == 0) return false;
    ms_str value = part_of(text, at, len);
    if (is_placeholder(value) || looks_like_code(value, quoted)) return false;
    out->at = at;
    out->len = len;
    out->kind = names[name].password ? "password" : "secret-value";
    secret formed;
    bool known = find_by_form(s, at, &formed);
    if (known) *out = formed;
    return known || (names[name].password ? is_plain_password(value) : is_token(value));
}

/* Finds that of "the password is VALUE". at: the 'i' */
static bool find_in_sentence(scan *s, size_t at, secret *out)
{
    if (!holds(s->text, at, "is ") || at < 2 || s->text.ptr[at - 1] != ' ') return false;
    return find_after_name(s, at - 1, at + 3, true, out);
}

enum { OPTION_LENGTH_MAX = 40 };

/* Finds that of "--password VALUE". at: the first '-' */
static bool find_in_option(scan *s, size_t at, secret *out)
{
    ms_str text = s->text;
    size_t end = at + 2;
    if (!holds(text, at, "--") || (at > 0 && !is_blank_at(text, at - 1))) return false;
    while (end < text.len && end - at < OPTION_LENGTH_MAX &&
           (is_alnum(text.ptr[end]) || text.ptr[end] == '-' || text.ptr[end] == '_')) {
        end++;
    }
    if (end >= text.len || text.ptr[end] != ' ') return false;
    return find_after_name(s, end, end + 1, false, out);
}

static bool is_plain_in_url(char c)
{
    return c > ' ' && (unsigned char)c < 0x7f && strchr("/@\"'`\\<>{}()", c) == NULL;
}

/* Returns whether a value stands for a password in examples and scripts: a word for one,
 * or a variable. */
static bool stands_for_one(ms_str value)
{
    static const char *const common[] = {"password", "pass", "passwd", "pwd", "secret",
                                         "pw", "user", "username", "token", "admin"};
    if (is_placeholder(value) || value.ptr[0] == '$' || value.ptr[0] == '%') return true;
    for (size_t i = 0; i < sizeof common / sizeof common[0]; i++) {
        if (value.len == strlen(common[i]) && holds_any_case(value, 0, common[i])) {
            return true;
        }
    }
    return false;
}

/* Finds "://user:password@host". at: the ':' */
static bool find_in_url(ms_str text, size_t at, secret *out)
{
    if (!holds(text, at, "://")) return false;
    size_t i = at + 3;
    while (i < text.len && i - at < 200 && text.ptr[i] != ':' &&
           is_plain_in_url(text.ptr[i])) i++;
    if (i >= text.len || text.ptr[i] != ':') return false;
    size_t from = ++i;
    while (i < text.len && i - from < 200 && is_plain_in_url(text.ptr[i])) i++;
    if (i >= text.len || text.ptr[i] != '@' || i - from < 4) return false;
    ms_str value = part_of(text, from, i - from);
    if (stands_for_one(value)) return false;
    if (from - 1 - (at + 3) == value.len &&
        memcmp(text.ptr + at + 3, value.ptr, value.len) == 0) return false;
    out->at = from;
    out->len = value.len;
    out->kind = "url-password";
    return true;
}

/* Returns whether a word begins at a place, after a blank. That of a mark joins it. */
static bool is_word_begin(ms_str text, size_t at)
{
    enum { BEFORE_KIND = sizeof "[masked " - 1 };
    if (at == 0) return true;
    bool mark = at >= BEFORE_KIND && mark_at(text, at - BEFORE_KIND) > 0;
    return is_blank_at(text, at - 1) && !mark;
}

/* Returns the word before a place, and moves the place to its beginning. Absent: there is
 * none with at most 100 blanks after it. Its length has no bound, which a mark would
 * change. */
static ms_str word_before(ms_str text, size_t *at)
{
    size_t end = *at, begin;
    while (end > 0 && *at - end < 100 && is_blank_at(text, end - 1)) end--;
    for (begin = end; !is_word_begin(text, begin);) begin--;
    bool whole = end < *at && end > begin;
    *at = begin;
    return whole ? part_of(text, begin, end - begin) : ms_str_n(NULL, 0);
}

/* Returns whether a word and blanks end at a place. The word may begin after a quote. */
static bool is_after_word(ms_str text, size_t at, const char *word)
{
    size_t end = at, len = strlen(word);
    while (end > 0 && at - end < 100 && is_blank_at(text, end - 1)) end--;
    return end < at && end >= len && memcmp(text.ptr + end - len, word, len) == 0 &&
           is_begin(text, end - len);
}

/* Sets a password that begins at a place, in a quote or without. A backslash ends it: the
 * next level has the whole one. A mark is a part of it, see bare_length(). */
static bool take_password(ms_str text, size_t at, size_t least, secret *out)
{
    enum { PASSWORD_MAX = 200 };
    bool quoted = at < text.len && (text.ptr[at] == '"' || text.ptr[at] == '\'');
    at += quoted;
    size_t len = 0, mark;
    for (; at + len < text.len && len < PASSWORD_MAX; len += mark > 0 ? mark : 1) {
        char c = text.ptr[at + len];
        mark = quoted ? 0 : mark_at(text, at + len);
        if (mark == 0 && (c == '\\' || ends_value(c, quoted))) break;
    }
    if (len < least || len >= PASSWORD_MAX) return false;
    ms_str value = part_of(text, at, len);
    if (stands_for_one(value) || looks_like_code(value, quoted)) return false;
    out->at = at;
    out->len = len;
    out->kind = "password";
    return true;
}

/* Finds that of a .netrc: "machine HOST login USER password PASSWORD". at: the 'p' */
static bool find_in_netrc(ms_str text, size_t at, secret *out)
{
    size_t from = at, value = at + 8;
    if (!holds(text, at, "password") || value == text.len || !is_blank_at(text, value)) {
        return false;
    }
    while (value < text.len && value - at < 100 && is_blank_at(text, value)) value++;
    if (word_before(text, &from).ptr == NULL || !is_after_word(text, from, "login")) {
        return false;
    }
    (void)word_before(text, &from); /* login */
    bool line = is_after_word(text, from, "default");
    if (!line) {
        ms_str host = word_before(text, &from);
        line = host.ptr != NULL && memchr(host.ptr, '.', host.len) != NULL &&
               is_after_word(text, from, "machine");
    }
    return line && value < text.len && take_password(text, value, 3, out);
}

enum { COMMAND_MAX = 60 };     /* blanks of a command before its password: a mark in the
                                * place of a secret changes the bytes, not the words */

/* Returns whether a command of that name begins before a place. Its lines end with \. */
static bool is_after_command(ms_str text, size_t at, const char *name)
{
    size_t blanks = 0;
    for (size_t i = at; i > 0 && blanks < COMMAND_MAX; i--) {
        char c = text.ptr[i - 1];
        if (is_blank_at(text, i - 1) && is_word_begin(text, i)) blanks++;
        if (c == ';' || c == '|' || c == '&') return false;
        if (c == '\n' && (i < 2 || text.ptr[i - 2] != '\\')) return false;
        if (c != name[0] || !holds(text, i - 1, name)) continue;
        char before = i > 1 ? text.ptr[i - 2] : ' ';
        size_t end = i - 1 + strlen(name);
        while (end < at && (is_letter(text.ptr[end]) || text.ptr[end] == '-')) end++;
        if (end < at && is_blank_at(text, end) && before != '-' && before != '.' &&
            is_begin(text, i - 1)) {
            size_t word = i - 1;
            ms_str option = word_before(text, &word); /* docker run --name mysql */
            return option.ptr == NULL || option.ptr[0] != '-';
        }
    }
    return false;
}

static bool has_letter(ms_str text)
{
    size_t i = 0;
    while (i < text.len && !is_letter(text.ptr[i])) i++;
    return i < text.len;
}

/* Finds those of commands: "mysql -pPASSWORD", "curl -u USER:PASSWORD". at: the '-' */
static bool find_in_command(ms_str text, size_t at, secret *out)
{
    size_t i = at + 2;
    if (at == 0 || !is_blank_at(text, at - 1) || i >= text.len) return false;
    if (holds(text, at, "-p")) {
        return !is_blank_at(text, i) && text.ptr[i] != '-' &&
               (is_after_command(text, at, "mysql") ||
                is_after_command(text, at, "mariadb")) &&
               take_password(text, i, 3, out) &&
               has_letter(part_of(text, out->at, out->len));
    }
    if (holds(text, at, "--user")) i = at + 6;
    else if (!holds(text, at, "-u")) return false;
    if (!is_after_command(text, at, "curl")) return false;
    if (i < text.len && (text.ptr[i] == ' ' || text.ptr[i] == '=')) i++;
    bool quoted = i < text.len && (text.ptr[i] == '"' || text.ptr[i] == '\'');
    i += quoted;
    size_t user = i;
    while (i < text.len && i - user < 100 && text.ptr[i] != ':' &&
           !ends_value(text.ptr[i], false)) {
        i++;
    }
    if (i == user || i >= text.len || text.ptr[i] != ':') return false;
    ms_str name = part_of(text, user, i - user);
    if (name.ptr[0] == '$' || name.ptr[0] == '<' || holds(text, i, "://")) return false;
    if (!has_letter(name) || !take_password(text, i + 1, 3, out)) return false;
    ms_str value = part_of(text, out->at, out->len);
    return out->at == i + 1 && !ms_str_equal(name, value);
}

/* Finds forms that begin with digits or with any letter, by a character in them.
 * Telegram    123456789:AA...            at: the ':'
 * Discord     M....................... .XXXXXX.27 and more, at: the first '.'
 * Mailchimp   32 hexadecimal digits, -us1  at: the '-' */
static bool find_around(scan *s, size_t at, secret *out)
{
    ms_str text = s->text;
    static const struct {
        char mark, set;
        size_t least, most;   /* of the set before the mark */
        const char *pattern, *kind;
        const char *begins;   /* the first character is one of these */
    } forms[] = {
        {':', 'd', 8, 10, ":AA%w33", "telegram-token", "0123456789"},
        {'.', 'w', 23, 28, ".%w6.%w27-40", "discord-token", "MNO"},
        {'-', 'x', 32, 32, "-us%d1-2", "mailchimp-key", "0123456789abcdef"},
        {'.', 'a', 14, 14, ".atlasv1.%v60+", "terraform-token",
         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (forms[i].mark != text.ptr[at]) continue;
        size_t begin = at, far = forms[i].most + 2;
        while (begin > 0 && at - begin < far &&
               is_in_set(forms[i].set, text.ptr[begin - 1])) begin--;
        size_t n = at - begin;
        if (n > 0 && begin > 0 && text.ptr[begin - 1] == '\\') begin++; /* an escape */
        n = at - begin;
        if (n < forms[i].least || n > forms[i].most) continue;
        size_t len = pattern_match(forms[i].pattern, s, at);
        if (len == 0 || strchr(forms[i].begins, text.ptr[begin]) == NULL) continue;
        ms_str match = part_of(text, begin, n + len);
        if (is_placeholder(measured(match)) || entropy(measured(match)) < 3) continue;
        out->at = begin;
        out->len = n + len;
        out->kind = forms[i].kind;
        return true;
    }
    return false;
}


/* ---- Personal texts ---------------------------------------------------------------- */

static bool is_local_part(char c)
{
    return is_alnum(c) || (c != '\0' && strchr("._%+-", c) != NULL);
}

/* Finds an e-mail address. One whose domain goes on in a mark is none, as it was none
 * before that. at: the '@' */
static bool find_mail(ms_str text, size_t at, secret *out)
{
    size_t begin = at, end = at + 1, dot;
    while (begin > 0 && is_local_part(text.ptr[begin - 1])) begin--;
    if (begin > 0 && begin < at && text.ptr[begin - 1] == '\\') begin++; /* "\nname@" */
    while (end < text.len && (is_in_set('w', text.ptr[end]) || text.ptr[end] == '.')) {
        end++;
    }
    if (mark_at(text, end) > 0) return false;
    while (end > at + 1 && !is_alnum(text.ptr[end - 1])) end--;
    for (dot = end; dot > at && is_letter(text.ptr[dot - 1]); dot--) continue;
    bool domain = end - dot >= 2 && dot > at + 2 && text.ptr[dot - 1] == '.';
    if (begin == at || !domain) return false;
    ms_str match = part_of(text, begin, end - begin);
    if (holds(match, 0, "git@") || contains_any_case(match, "@example.")) return false;
    out->at = begin;
    out->len = match.len;
    out->kind = "e-mail";
    return true;
}

/* Finds the name in "/home/NAME", "/Users/NAME", "C:\Users\NAME" (also with doubled
 * backslashes). at: the first separator */
static bool find_home(ms_str text, size_t at, secret *out)
{
    static const char *const homes[] = {"/home/", "/Users/", "\\Users\\",
                                        "\\\\Users\\\\"};
    static const char *const shared[] = {"user", "users", "runner", "shared", "public",
                                         "root", "ubuntu", "node", "app"};
    for (size_t i = 0; i < sizeof homes / sizeof homes[0]; i++) {
        if (!holds(text, at, homes[i])) continue;
        size_t begin = at + strlen(homes[i]), end = begin;
        while (end < text.len && (is_alnum(text.ptr[end]) ||
                                  (text.ptr[end] != '\0' &&
                                   strchr("._-", text.ptr[end]) != NULL))) end++;
        ms_str name = part_of(text, begin, end - begin);
        bool common = name.len < 2;
        for (size_t k = 0; k < sizeof shared / sizeof shared[0] && !common; k++) {
            common = name.len == strlen(shared[k]) && holds_any_case(name, 0, shared[k]);
        }
        if (common) return false;
        out->at = begin;
        out->len = name.len;
        out->kind = "user-name";
        return true;
    }
    return false;
}


/* ---- A text of one level ----------------------------------------------------------- */

static bool find_here(scan *s, size_t at, unsigned classes, secret *out)
{
    ms_str text = s->text;
    char c = text.ptr[at];
    bool keys = (classes & SECRETS_KEYS) != 0;
    if (is_letter(c)) {
        return keys && (find_by_form(s, at, out) ||
                        (c == 'i' && find_in_sentence(s, at, out)) ||
                        (c == 'p' && find_in_netrc(text, at, out)));
    }
    switch (c) {
    case '-':
        return keys && (find_private_key(text, at, out) || find_around(s, at, out) ||
                        find_in_command(text, at, out) || find_in_option(s, at, out));
    case ':':
        return keys && (find_in_url(text, at, out) || find_around(s, at, out) ||
                        find_by_name(s, at, out));
    case '=': return keys && find_by_name(s, at, out);
    case '.': return keys && find_around(s, at, out);
    case '@': return (classes & SECRETS_MAIL) != 0 && find_mail(text, at, out);
    case '/':
    case '\\': return (classes & SECRETS_HOMES) != 0 && find_home(text, at, out);
    default: return false;
    }
}

/* Finds the next secret and goes past it. Of one that begins in the one before, what
 * follows that. A secret that a place before it shows waits for those between both: the
 * user of https://USER:PASSWORD@host can be a token. */
static bool scan_next(scan *s, unsigned classes, secret *out)
{
    for (;;) {
        bool waits = s->waiting.len > 0, any = false;
        size_t end = waits ? s->waiting.at : s->text.len, at = s->at;
        for (; !any && at < end; at++) {
            any = find_here(s, at, classes, out) && out->at + out->len > s->done &&
                  out->at < end;
        }
        s->at = at;
        if (!any && !waits) return false;
        if (any && !waits && out->at > at) {
            s->waiting = *out;
            continue;
        }
        if (!any) {
            *out = s->waiting;
            s->waiting.len = 0;
        }
        s->at = out->at + out->len;
        if (s->at <= s->done) continue; /* another one has all of it */
        if (out->at < s->done) out->at = s->done;
        out->len = s->at - out->at;
        s->done = s->at;
        return true;
    }
}

/* ---- A whole text ------------------------------------------------------------------ */

/* More levels are not decoded: no program nests JSON so deep. */
enum { LEVELS = 6 };

typedef struct decoded {
    ms_str text;
    size_t at, below;         /* a place, and the same one in the level below */
} decoded;

/* Writes a point of at most 16 bits as UTF-8; half of a pair as if it were a point. */
static size_t put_point(unsigned point, char out[3])
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t n = point < 0x800 ? 2 : 3;
    out[0] = (char)(n == 2 ? 0xc0 | point >> 6 : 0xe0 | point >> 12);
    if (n == 3) out[1] = (char)(0x80 | (point >> 6 & 0x3f));
    out[n - 1] = (char)(0x80 | (point & 0x3f));
    return n;
}

/* Decodes the byte or the escape at a place, and sets *n to the number of bytes in out.
 * Returns how many bytes it takes in the text. */
static size_t decode_one(ms_str text, size_t at, char out[3], size_t *n)
{
    static const char spelled[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    unsigned point;
    out[0] = text.ptr[at];
    *n = 1;
    if (out[0] != '\\' || at + 1 == text.len) return 1;
    char c = text.ptr[at + 1];
    const char *simple = c != '\0' ? strchr(spelled, c) : NULL;
    if (simple != NULL) {
        out[0] = meant[simple - spelled];
        return 2;
    }
    if (c != 'u' || !hex_point(text, at + 2, &point)) return 1;
    *n = put_point(point, out);
    return 6;
}

/* Makes the text of the next level. *more: it differs. False: no memory. */
static bool level_up(const decoded *below, decoded *l, ms_arena *arena, bool *more)
{
    ms_str text = below->text;
    const char *first = text.len > 0 ? memchr(text.ptr, '\\', text.len) : NULL;
    *more = false;
    if (first == NULL) return true;
    size_t at = (size_t)(first - text.ptr), len = at, n;
    char *out = ms_arena_alloc(arena, text.len), bytes[3];
    if (out == NULL) return false;
    memcpy(out, text.ptr, at);
    while (at < text.len) {
        if (text.ptr[at] != '\\') {
            out[len++] = text.ptr[at++];
            continue;
        }
        at += decode_one(text, at, bytes, &n);
        memcpy(out + len, bytes, n);
        len += n;
    }
    *more = len < text.len;
    l->text = ms_str_n(out, len);
    return true;
}

/* Returns where a place of level k is in level 0. Places must not go back. */
static size_t place_of(decoded *levels, size_t k, size_t at)
{
    for (; k > 0; k--) {
        decoded *l = &levels[k];
        char bytes[3];
        size_t n;
        while (l->at < at) {
            l->below += decode_one(levels[k - 1].text, l->below, bytes, &n);
            l->at += n;
        }
        at = l->below;
    }
    return at;
}

static bool add_secret(secret_list *list, const secret *found, ms_arena *arena)
{
    if (list->count == list->cap) {
        size_t cap = list->cap > 0 ? 2 * list->cap : 8;
        secret *items = ms_arena_alloc(arena, cap * sizeof *items);
        if (items == NULL) return false;
        if (list->count > 0) memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
        list->cap = cap;
    }
    list->items[list->count++] = *found;
    return true;
}

/* Returns whether a place is inside an escape \u0022, or inside that of a later level,
 * \\u0022. A match that begins there is none: a later level has the character. */
static bool is_in_escape(ms_str text, size_t at)
{
    unsigned point;
    for (size_t i = 1; i < 6 && i <= at; i++) {
        if (text.ptr[at - i] != '\\') continue;
        return at - i + 1 < text.len && text.ptr[at - i + 1] == 'u' &&
               hex_point(text, at - i + 2, &point);
    }
    return false;
}

static bool search_level(decoded *levels, size_t k, unsigned classes, ms_arena *arena,
                         secret_list *out)
{
    scan s;
    secret found;
    memset(&s, 0, sizeof s);
    s.text = levels[k].text;
    for (size_t i = 1; i <= k; i++) levels[i].at = levels[i].below = 0;
    while (scan_next(&s, classes, &found)) {
        if (k < LEVELS && is_in_escape(s.text, found.at)) continue;
        found.text = part_of(s.text, found.at, found.len);
        size_t end = found.at + found.len;
        found.at = place_of(levels, k, found.at);
        found.len = place_of(levels, k, end) - found.at;
        if (!add_secret(out, &found, arena)) return false;
    }
    return true;
}

/* Orders by place. */
static int compare_secrets(const void *a, const void *b)
{
    const secret *x = a, *y = b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return x->len > y->len ? -1 : x->len < y->len;
}

/* Makes one of those that overlap: what the longest is, over the bytes of all. */
static void join_secrets(secret_list *list)
{
    size_t n = 0, longest = 0;
    if (list->count > 1) {
        qsort(list->items, list->count, sizeof *list->items, compare_secrets);
    }
    for (size_t i = 0; i < list->count; i++) {
        const secret found = list->items[i];
        secret *last = n > 0 ? &list->items[n - 1] : NULL;
        if (last == NULL || found.at >= last->at + last->len) {
            longest = found.len;
            list->items[n++] = found;
            continue;
        }
        if (found.len > longest) {
            longest = found.len;
            last->kind = found.kind;
            last->text = found.text;
        }
        size_t end = found.at + found.len;
        if (end > last->at + last->len) last->len = end - last->at;
    }
    list->count = n;
}

/* Finds what a text shows as it is. */
static bool find_once(ms_value value, unsigned classes, ms_arena *arena, secret_list *out)
{
    decoded levels[LEVELS + 1];
    bool more = true;
    memset(levels, 0, sizeof levels);
    memset(out, 0, sizeof *out);
    levels[0].text = value.text;
    for (size_t k = 0; more; k++) {
        more = false;
        if (k < LEVELS && !level_up(&levels[k], &levels[k + 1], arena, &more)) {
            return false;
        }
        if (k == 0 && value.json && more) continue;
        if (!search_level(levels, k, classes, arena, out)) return false;
    }
    join_secrets(out);
    return true;
}


/* ---- Masking ----------------------------------------------------------------------- */

/* The state of a JSON text that is followed from its beginning: in a string or not. */
typedef struct strings {
    size_t at;
    bool inside;
} strings;

/* Returns whether the secret is the inside of a string, or a part of it. A mask in the
 * place of a number would not be JSON. */
static bool is_in_string(strings *s, ms_str json, const secret *found)
{
    for (; s->at < found->at; s->at++) {
        if (json.ptr[s->at] == '"') s->inside = !s->inside;
        else if (json.ptr[s->at] == '\\' && s->inside) s->at++;
    }
    return s->inside && s->at == found->at;
}

enum { MARK = 64 };           /* bytes of a mark */

static size_t mark_of(const secret *found, char out[MARK])
{
    return (size_t)snprintf(out, MARK, "[masked %s]", found->kind);
}

/* Writes a mark in the place of each secret that can have one: those are in *put. */
static bool put_marks(ms_value text, const secret_list *list, ms_arena *arena,
                      secret_list *put, ms_value *out)
{
    ms_buf buf = {arena, NULL, 0, 0};
    strings place = {0, false};
    size_t done = 0;
    bool good = true;
    *out = text;
    memset(put, 0, sizeof *put);
    for (size_t i = 0; good && i < list->count; i++) {
        char mark[MARK];
        const secret *found = &list->items[i];
        if (text.json && !is_in_string(&place, text.text, found)) continue;
        good = ms_buf_write(&buf, text.text.ptr + done, found->at - done) == MS_OK &&
               ms_buf_write(&buf, mark, mark_of(found, mark)) == MS_OK &&
               add_secret(put, found, arena);
        done = found->at + found->len;
    }
    if (put->count == 0) return good;
    ms_result rest = ms_buf_write(&buf, text.text.ptr + done, text.text.len - done);
    out->text = ms_buf_text(&buf);
    return good && rest == MS_OK;
}

/* A place in a text, and in its masked form; i: the next mark. */
typedef struct unmasking {
    const secret_list *put;
    size_t i, text, masked;
} unmasking;

/* Returns which place of the text one of its masked form stands for: of one in a mark the
 * begin of its secret, or the end. Places must not go back. */
static size_t unmasked(unmasking *p, size_t at, bool end)
{
    char mark[MARK];
    for (; p->i < p->put->count; p->i++) {
        const secret *next = &p->put->items[p->i];
        size_t from = p->masked + next->at - p->text, to = from + mark_of(next, mark);
        if (at < from + end) break;
        if (at < to + end) return end ? next->at + next->len : next->at;
        p->text = next->at + next->len;
        p->masked = to;
    }
    return p->text + at - p->masked;
}

/* Adds those of `more`, in the masked form of the text, that the list does not cover. */
static bool add_more(ms_value text, secret_list *list, const secret_list *put,
                     const secret_list *more, ms_arena *arena)
{
    unmasking p = {put, 0, 0, 0};
    size_t known = list->count, k = 0;
    bool good = true;
    for (size_t i = 0; good && i < more->count; i++) {
        secret found = more->items[i];
        size_t at = unmasked(&p, found.at, false);
        size_t end = unmasked(&p, found.at + found.len, true);
        while (k < known && list->items[k].at + list->items[k].len < end) k++;
        if (k < known && list->items[k].at <= at) continue;
        found.at = at;
        found.len = end - at;
        found.text = part_of(text.text, at, found.len);
        good = add_secret(list, &found, arena);
    }
    return good;
}

/* What a mark has hidden can show another secret, so that a text which is masked is
 * searched again. Each time costs as much, so there is an end. */
bool secrets_find(ms_value value, unsigned classes, ms_arena *arena, secret_list *out)
{
    enum { TIMES = 8 };
    ms_value masked;
    secret_list put, more;
    if (!find_once(value, classes, arena, out)) return false;
    bool grown = out->count > 0;
    for (size_t i = 1; i < TIMES && grown; i++) {
        size_t before = out->count;
        if (!put_marks(value, out, arena, &put, &masked)) return false;
        if (put.count == 0) break;
        if (!find_once(masked, classes, arena, &more)) return false;
        if (!add_more(value, out, &put, &more, arena)) return false;
        grown = out->count > before;
        if (grown) join_secrets(out);
    }
    return true;
}

bool secrets_mask(ms_value text, unsigned classes, ms_arena *arena, secret_fn note,
                  void *ctx, ms_value *out)
{
    secret_list list, put;
    *out = text;
    if (!secrets_find(text, classes, arena, &list)) return false;
    if (!put_marks(text, &list, arena, &put, out)) return false;
    for (size_t i = 0; note != NULL && i < put.count; i++) note(ctx, &put.items[i]);
    return true;
}

/* Masks the template of a message: three bytes of its own, then members as JSON. */
static bool mask_source(ms_str *source, unsigned classes, ms_arena *arena, secret_fn note,
                        void *ctx)
{
    enum { HEAD = 3 };
    ms_value out;
    ms_buf buf = {arena, NULL, 0, 0};
    if (source->len <= HEAD) return true;
    ms_value rest = ms_json(part_of(*source, HEAD, source->len - HEAD));
    if (!secrets_mask(rest, classes, arena, note, ctx, &out)) return false;
    if (out.text.ptr == rest.text.ptr) return true;
    bool good = ms_buf_write(&buf, source->ptr, HEAD) == MS_OK &&
                ms_buf_write(&buf, out.text.ptr, out.text.len) == MS_OK;
    *source = ms_buf_text(&buf);
    return good;
}

bool secrets_mask_message(ms_envelope *m, unsigned classes, ms_arena *arena,
                          secret_fn note, void *ctx)
{
    ms_value *values[] = {&m->content, &m->args, &m->phase_id};
    ms_str *texts[] = {&m->task, &m->summary, &m->error_type, &m->extra};
    bool good = true;
    for (size_t i = 0; i < 3 && good; i++) {
        if (values[i]->text.ptr == NULL) continue;
        good = secrets_mask(*values[i], classes, arena, note, ctx, values[i]);
    }
    for (size_t i = 0; i < 4 && good; i++) {
        ms_value out = {*texts[i], i >= 3};
        if (out.text.ptr == NULL) continue;
        good = secrets_mask(out, classes, arena, note, ctx, &out);
        *texts[i] = out.text;
    }
    return good && mask_source(&m->source, classes, arena, note, ctx);
}

const char *secret_hint(const secret *found, char out[SECRET_HINT])
{
    static const char *const whole[] = {"password", "url-password", "secret-value",
                                        "user-name", "e-mail"};
    size_t len = found->text.len, shown = len >= 16 ? 4 : 0;
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        if (strcmp(found->kind, whole[i]) == 0) shown = len >= 24 ? 2 : 0;
    }
    snprintf(out, SECRET_HINT, "%.*s..., %zu characters", (int)shown, found->text.ptr,
             len);
    return out;
}
