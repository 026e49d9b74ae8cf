/* Secrets in texts (tools/secrets.c): that planted ones of many kinds are found in many
 * places, that masking takes all of a secret and nothing else, however it is spelled,
 * that JSON stays JSON, that placeholders and code raise no alarm, that a search takes
 * linear time, and how many alarms recorded transcripts raise.
 * Every secret is drawn when the test runs: none of them ever worked.
 */

#define _XOPEN_SOURCE 700
#include "support.h"

#include "tools/secrets.c"

#include <ftw.h>
#include <time.h>


/* ---- planted secrets ---- */

static char random_of(uint64_t *rng, char set)
{
    static const char all[] = "0123456789abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ_-+/";
    static const char base32[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    switch (set) {
    case 'd': return all[test_below(rng, 10)];
    case 'x': return all[test_below(rng, 16)];
    case 'z': return all[10 + test_below(rng, 26)];
    case 'U': return base32[test_below(rng, 32)];
    case 'A': return all[(36 + test_below(rng, 36)) % 62];
    case 'w': return all[test_below(rng, 64)];
    case 'b': return all[test_below(rng, 10) < 9 ? test_below(rng, 62)
                                                 : 64 + test_below(rng, 2)];
    default: return all[test_below(rng, 62)];
    }
}

/* Writes letters and digits in base64, four characters for each three. */
static void draw_base64(uint64_t *rng, size_t n, char *out)
{
    static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                              "0123456789+/";
    for (; n >= 4; n -= 4, out += 4) {
        uint32_t bits = 0;
        for (int i = 0; i < 3; i++) {
            bits = bits << 8 | (unsigned char)random_of(rng, 'a');
        }
        for (int i = 0; i < 4; i++) out[i] = set[bits >> (18 - 6 * i) & 63];
    }
}

/* Draws a secret: "{a36}" stands for 36 random letters and digits, "{B16}" for 16 of
 * base64 that decode to letters and digits, the rest for itself.
 * Beginnings are written in two halves where a scanner of code hosts would look. */
static size_t draw(uint64_t *rng, const char *form, char *out)
{
    size_t len = 0;
    for (; *form != '\0'; form++) {
        if (*form != '{') {
            out[len++] = *form;
            continue;
        }
        char set = form[1];
        size_t n = (size_t)strtoul(form + 2, NULL, 10);
        if (set == 'B') {
            draw_base64(rng, n, out + len);
            len += n;
            n = 0;
        }
        for (; n > 0; n--) out[len++] = random_of(rng, set);
        form = strchr(form, '}');
    }
    out[len] = '\0';
    return len;
}

static const char key_form[] =
    "-----BE" "GIN RSA PRIVATE KEY-----\n"
    "{b64}\n{b64}\n{b64}\n{b40}\n-----END RSA PRIVATE KEY-----";

static const struct {
    const char *kind, *form;
    const char *place;        /* where it stands, %s; NULL: in each of the places below */
} planted[] = {
    {"aws-access-key", "AK" "IA{U16}", NULL},
    {"github-token", "gh" "p_{a36}", NULL},
    {"secret-value", "{b40}", "aws_secret_access_key = %s"},
    {"github-token", "github" "_pat_{a22}_{a59}", NULL},
    {"gitlab-token", "gl" "pat-{w20}", NULL},
    {"slack-token", "xox" "b-{d12}-{d12}-{a24}", NULL},
    {"url-password", "{a14}", "DATABASE_URL=postgres://app:%s@db.internal:5432/prod"},
    {"slack-webhook", "https://hooks.slack" ".com/services/T{d9}A/B{d9}B/{a24}", NULL},
    {"anthropic-key", "sk-" "ant-api03-{w93}AA", NULL},
    {"openai-key", "sk-" "proj-{w74}T3Blbk" "FJ{w74}", NULL},
    {"password", "{z5}{d3}!{A2}", "password: \"%s\""},
    {"google-api-key", "AI" "za{w35}", NULL},
    {"stripe-key", "sk_" "live_{a24}", NULL},
    {"npm-token", "np" "m_{a36}", NULL},
    {"password", "{a12}#{d2}", "\"db_password\": \"%s\","},
    {"pypi-token", "py" "pi-AgEIcHlwaS5vcmc{w140}", NULL},
    {"huggingface-token", "h" "f_{a34}", NULL},
    {"sendgrid-key", "S" "G.{w22}.{w43}", NULL},
    {"secret-value", "{x32}", "X-Api-Key: %s"},
    {"telegram-token", "{d9}:" "AA{w33}", NULL},
    {"discord-token", "M{a23}.G{w5}.{w38}", NULL},
    {"jwt", "ey" "JhbGciOiJIUzI1NiJ9.ey" "J{a60}.{w43}", NULL},
    {"bearer-token", "{a43}", "curl -H 'Accept: */*' -H 'X: Bearer %s' https://host/v1"},
    {"private-key", key_form, NULL},
    {"shopify-token", "shp" "at_{x32}", NULL},
    {"azure-storage-key", "{b86}==", "EndpointSuffix=core;AccountKey=%s;"},
    /* robot: in base64, then the password */
    {"basic-auth", "cm9ib3Q6{B16}", "{\"auths\": {\"ghcr.io\": {\"auth\": \"%s\"}}}"},
    {"password", "{z6}", "machine git.internal login deploy password %s\n"},
    {"password", "{z5}{d2}", "machine h.internal\n  login me\n  password %s\n"},
    {"password", "{z7}{d1}", "$ mysqldump -h db -u root -p%s shop >shop.sql"},
    {"password", "{z9}", "mysql -uroot -p'%s' -e 'select 1'"},
    {"password", "{a10}", "curl -s -u deploy:%s https://host/v1"},
    {"password", "{z8}", "curl -X POST \\\n  --user 'deploy:%s' https://host/v1"},
    {"url-password", "{z6}", "redis://:%s@cache:6379/0"},
    {"url-password", "{z4}", "git clone https://me:%s@git.internal/a/b.git"},
    {"discord-token", "MT{a24}.G{w5}.{w38}", NULL},
    {"atlassian-token", "ATA" "TT3{a180}", NULL},
    {"databricks-token", "da" "pi{x32}", NULL},
    {"digitalocean-token", "dop" "_v1_{x64}", NULL},
    {"docker-token", "dckr" "_pat_{w26}A", NULL},
    {"doppler-token", "dp" ".pt.{a43}", NULL},
    {"figma-token", "fi" "gd_{w40}A", NULL},
    {"google-oauth-secret", "GOC" "SPX-{w27}A", NULL},
    {"grafana-token", "gl" "sa_{a32}_{x8}", NULL},
    {"groq-key", "gs" "k_{a52}", NULL},
    {"langsmith-key", "lsv2" "_pt_{x32}_{x10}", NULL},
    {"linear-key", "lin" "_api_{a40}", NULL},
    {"mailchimp-key", "{x32}-us{d2}", NULL},
    {"netlify-token", "nf" "p_{w36}A", NULL},
    {"notion-token", "nt" "n_{a46}", NULL},
    {"nvidia-key", "nv" "api-{w60}A", NULL},
    {"openrouter-key", "sk-" "or-v1-{x64}", NULL},
    {"perplexity-key", "pp" "lx-{a48}", NULL},
    {"replicate-token", "r8" "_{w36}A", NULL},
    {"resend-key", "re" "_{a8}_{a24}", NULL},
    {"sentry-token", "sntr" "yu_{x64}", NULL},
    {"supabase-token", "sb" "p_{x40}", NULL},
    {"tailscale-key", "ts" "key-auth-{w20}A", NULL},
    {"twilio-key", "S" "K{x32}", NULL},
    {"vault-token", "hv" "s.{w24}A", NULL},
    {"xai-key", "xa" "i-{a80}", NULL},
};

static const char *const places[] = {
    "the key is %s, keep it safe",
    "export SERVICE=%s",
    "{\"role\": \"user\", \"content\": \"use %s\"}",
    "{\"args\": \"{\\\"value\\\": \\\"%s\\\"}\"}",
    "stdout:\\n%s\\nexit 0",
    "(%s)",
    "- name: value\n  value: '%s'\n",
    "%s",
};

static size_t plant(uint64_t *rng, size_t kind, size_t nth, char *drawn, char *out)
{
    draw(rng, planted[kind].form, drawn);
    const char *place = planted[kind].place;
    if (place == NULL) place = places[nth % COUNT(places)];
    const char *at = strstr(place, "%s");
    return (size_t)sprintf(out, "%.*s%s%s", (int)(at - place), place, drawn, at + 2);
}

/* Finds the first secret of a plain text. Its text is not kept. */
static bool find_first(ms_str text, unsigned classes, secret *out)
{
    ms_arena arena = {0};
    secret_list list;
    assert_true(secrets_find(ms_text_n(text), classes, &arena, &list));
    if (list.count > 0) *out = list.items[0];
    ms_arena_deinit(&arena);
    return list.count > 0;
}

TEST(planted_secrets_are_found_when_drawn_by_chance)
{
    uint64_t rng = test_seed();
    size_t kinds = COUNT(planted), n = 0, missed = 0, wrong = 0;
    for (size_t round = 0; round < 16; round++) {
        for (size_t kind = 0; kind < kinds; kind++, n++) {
            char drawn[2048], text[4096];
            size_t len = plant(&rng, kind, round, drawn, text);
            secret found = {0, 0, "", {NULL, 0}};
            bool any = find_first(ms_str_n(text, len), SECRETS_KEYS, &found);
            bool whole = any && found.len == strlen(drawn) &&
                         memcmp(text + found.at, drawn, found.len) == 0;
            if (!whole) {
                printf("missed %s: %s\n", planted[kind].kind, text);
                missed++;
            } else if (strcmp(found.kind, planted[kind].kind) != 0) {
                printf("%s was called %s\n", planted[kind].kind, found.kind);
                wrong++;
            }
        }
    }
    test_tally("planted secrets", n);
    printf("%zu of %zu missed, %zu with another name\n", missed, n, wrong);
    assert_true(missed * 50 <= n);
    assert_true(wrong * 50 <= n);
}


/* ---- masking ---- */

/* A text in JSON, and that JSON as a text in JSON; numbers beside it. */
static ms_str in_json(ms_str text, ms_arena *arena)
{
    ms_json_writer w;
    ms_buf buf = {arena, NULL, 0, 0};
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    ms_json_key(&w, MS_STR("n"));
    ms_json_put_u64(&w, 12345678901u);
    ms_json_key(&w, MS_STR("text"));
    ms_json_put_string(&w, text);
    ms_json_key(&w, MS_STR("token"));
    ms_json_put_u64(&w, UINT64_MAX);
    ms_json_end(&w);
    assert_int_equal(ms_json_finish(&w), MS_OK);
    return ms_buf_text(&buf);
}

TEST(masked_json_stays_json_when_secrets_are_in_strings)
{
    uint64_t rng = test_seed() + 1;
    ms_arena arena = {0};
    for (size_t i = 0; i < test_times(4000); i++) {
        char drawn[2048], text[4096];
        size_t kind = (size_t)test_below(&rng, COUNT(planted));
        plant(&rng, kind, i, drawn, text);
        ms_str json = ms_str_of(text);
        for (unsigned level = 0; level < 2; level++) {
            ms_value masked;
            ms_error err;
            json = in_json(json, &arena);
            assert_true(secrets_mask(ms_json(json), SECRETS_PERSONAL, &arena, NULL, NULL,
                                     &masked));
            if (ms_json_check(masked.text, NULL, NULL, &err) != MS_OK)
                fail_msg("%s: %.*s", err.message, (int)masked.text.len, masked.text.ptr);
            if (!has_text(masked.text, "[masked ")) printf("kept in JSON: %s\n", text);
            else assert_false(has_text(masked.text, drawn));
        }
        ms_arena_reset(&arena);
    }
    ms_arena_deinit(&arena);
}

/* Writes a text as a member of an object, in one of its spellings: .NET writes \u002B for
 * +, PHP \/ for /, and each character may be written so. */
static ms_str spelled_in_json(ms_str text, uint64_t *rng, ms_arena *arena)
{
    ms_buf buf = {arena, NULL, 0, 0};
    ms_buf_write(&buf, "{\"text\":\"", 9);
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i], as[8];
        bool must = c == '"' || c == '\\' || (unsigned char)c < ' ';
        const char *form = test_one_in(rng, 2) ? "\\u%04x" : "\\u%04X";
        if (must || test_one_in(rng, c == '/' ? 2 : 4))
            snprintf(as, sizeof as, form, (unsigned)(unsigned char)c);
        else snprintf(as, sizeof as, c == '/' ? "\\%c" : "%c", c);
        ms_buf_write(&buf, as, strlen(as));
    }
    ms_buf_write(&buf, "\"}", 2);
    return ms_buf_text(&buf);
}

static ms_str masked_text(ms_value value, ms_arena *arena)
{
    ms_value out;
    assert_true(secrets_mask(value, SECRETS_KEYS, arena, NULL, NULL, &out));
    return out.text;
}

/* However often a text is written as JSON in JSON, and however that is spelled, masking
 * it equals masking the text. */
TEST(secrets_are_masked_whole_when_escapes_spell_them)
{
    uint64_t rng = test_seed() + 5;
    ms_arena arena = {0};
    for (size_t i = 0; i < test_times(4000); i++) {
        char drawn[2048], text[4096];
        size_t kind = (size_t)test_below(&rng, COUNT(planted)), depth = 1 + i % 3;
        plant(&rng, kind, i, drawn, text);
        ms_str want = masked_text(ms_text(text), &arena), json = ms_str_of(text);
        for (size_t k = 0; k < depth; k++) json = spelled_in_json(json, &rng, &arena);
        ms_str is = masked_text(ms_json(json), &arena);
        for (size_t k = 0; k < depth; k++) {
            ms_str member;
            ms_error err;
            if (ms_json_check(is, NULL, NULL, &err) != MS_OK)
                fail_msg("%s: %.*s", err.message, (int)is.len, is.ptr);
            assert_true(ms_json_member(is, MS_STR("text"), &member));
            assert_int_equal(ms_json_string(member, &arena, &is), MS_OK);
        }
        if (!ms_str_equal(is, want))
            fail_msg("%s: \"%.*s\" instead of \"%.*s\"", text, (int)is.len, is.ptr,
                     (int)want.len, want.ptr);
        ms_arena_reset(&arena);
    }
    ms_arena_deinit(&arena);
}

/* What begins or ends a secret, and what an escape is made of, in any order. */
static const char *const likely_parts[] = {
    "password", "token", "=", ":", " ", "\"", "'", "\\", "\\\\", "\\n", "\\u0022", "u00",
    "/",
    "h7Kq2Zp!m9", "wJ4lrXUtnF3MI7K9", "jane@host.org", "://u:", "/home/jane", "Bearer ",
    "gh" "p_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5", "-----BE" "GIN PRIVATE KEY-----",
    "-----END", "-----", "wJ4lrXUtnF3MI7K9wJ4lrXUtnF3MI7K9wJ4lrXUtnF3MI7K9",
};

TEST(masked_json_stays_json_when_texts_in_it_are_random)
{
    uint64_t rng = test_seed() + 6;
    ms_arena arena = {0};
    size_t n_masked = 0;
    for (size_t i = 0; i < test_times(20000); i++) {
        char text[1024] = "";
        size_t len = 0;
        for (size_t n = 1 + (size_t)test_below(&rng, 10); n > 0; n--) {
            const char *part = likely_parts[test_below(&rng, COUNT(likely_parts))];
            len += (size_t)sprintf(text + len, "%s", part);
        }
        ms_str json = in_json(ms_str_n(text, len), &arena), inner;
        bool twice = i % 2 == 1;
        if (twice) json = spelled_in_json(json, &rng, &arena);
        ms_value masked, value = ms_json(json);
        assert_true(secrets_mask(value, SECRETS_PERSONAL, &arena, NULL, NULL, &masked));
        n_masked += masked.text.ptr != json.ptr;
        assert_int_equal(ms_json_check(masked.text, NULL, &json, NULL), MS_OK);
        assert_true(ms_json_member(masked.text, MS_STR("text"), &inner));
        assert_int_equal(ms_json_string(inner, &arena, &inner), MS_OK);
        if (twice && ms_json_check(inner, NULL, NULL, NULL) != MS_OK)
            fail_msg("%s: %.*s", text, (int)inner.len, inner.ptr);
        ms_arena_reset(&arena);
    }
    ms_arena_deinit(&arena);
    test_tally("random texts with secrets", n_masked);
}

static const struct {
    const char *text, *masked;
    bool json;
} spellings[] = {
    {"{\"aws_secret_access_key\":\"wJ4lrXUtnF3MI7K9\\u002BMDENGbPxRf1CYzK3yQ8pL2mNaB\"}",
     "{\"aws_secret_access_key\":\"[masked secret-value]\"}", true},
    {"{\"aws_secret_access_key\":\"wJ4lrXUtnF3MI7K9\\/MDENGbPxRf1CYzK3yQ8pL2mNaB\"}",
     "{\"aws_secret_access_key\":\"[masked secret-value]\"}", true},
    {"aws_secret_access_key: wJ4lrXUtnF3MI7K9\\u002bMDENGbPxRf1CYzK3yQ8pL2mNaB, that",
     "aws_secret_access_key: [masked secret-value], that", false},
    {"{\"t\":\"\\u0067hp_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5\"}",
     "{\"t\":\"[masked github-token]\"}", true},
    {"{\"t\":\"\\u00e9gh" "p_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5\\u20ac\"}",
     "{\"t\":\"\\u00e9[masked github-token]\\u20ac\"}", true},
    {"{\"t\":\"\\u00zznp" "m_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5 \\u00\"}",
     "{\"t\":\"\\u00zznp" "m_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5 \\u00\"}", false},
    {"{\"password\":\"h7Kq\\\\x2Zp!m9\",\"n\":1}",
     "{\"password\":\"[masked password]\",\"n\":1}", true},
    {"{\"password\":\"h7Kqx2Zp!m9\\\"\",\"n\":1}",
     "{\"password\":\"[masked password]\\\"\",\"n\":1}", true},
    {"{\"a\":\"{\\\"password\\\":\\\"h7Kq\\\\\\\\x2Zp!m9\\\"}\"}",
     "{\"a\":\"{\\\"password\\\":\\\"[masked password]\\\"}\"}", true},
    {"password='h7Kq\\x2Zp!m9' and", "password='[masked password]' and", false},
    {"{\"password\":\"gr\xc3\xbcn7Kq!m9\"}", "{\"password\":\"[masked password]\"}",
     true},
    {"{\"password\":\"gr\\u00fcn7Kq!m9\"}", "{\"password\":\"[masked password]\"}",
     true},
    {"password: x7Kq!m9ab\xef\xbc\x8cthen", "password: [masked password]\xef\xbc\x8cthen",
     false},
    {"-----BE" "GIN \",\"PRIVATE KEY-----aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
     "-----BE" "GIN \",\"PRIVATE KEY-----aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
     false},
};

TEST(mask_leaves_no_tail_when_a_secret_has_escapes)
{
    ms_arena arena = {0};
    for (size_t i = 0; i < COUNT(spellings); i++) {
        ms_value value = ms_text(spellings[i].text);
        value.json = spellings[i].json;
        ms_str is = masked_text(value, &arena);
        if (!ms_str_equal(is, ms_str_of(spellings[i].masked)))
            fail_msg("%s: %.*s", spellings[i].text, (int)is.len, is.ptr);
    }
    ms_arena_deinit(&arena);
}

#define LONG_WORD "0123456789.0123456789.0123456789.0123456789.0123456789.0123456789." \
                  "0123456789.012345678"

/* A mark stands for what it hides: what is beside it is a secret as it was before. */
#define LONG_KEY "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cD1fG3hJ5" \
                 "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cD1fG3hJ5"
#define GITHUB "gh" "p_aB3dE5gH7jK9mN1pQ3sT5vX7zA9cD1fG3hJ5"

TEST(masking_changes_nothing_when_a_text_was_masked_before)
{
    static const struct {
        size_t marks;
        const char *text;
    } cases[] = {
        /* a mark is one word, which has an option's hyphen */
        {1, " mysql -phunter2\"x mysql -phunter2\"y"},
        {1, " mysql -phunter2a\"x# curl -u ann:hunter2b"},
        /* it can make a word shorter than a bound */
        {1, " mysql -phunter2\"" LONG_WORD " mysql -phunter2\"y"},
        {5, " mysql -p" LONG_KEY " -p" LONG_KEY " -p" LONG_KEY " -p" LONG_KEY
            " -phunter2b"},
        /* it is a part of the value that it ends */
        {1, " curl -u u:hunt@.nnM@ead.startn"},
        /* a token ends where one begins that can stand inside of a word */
        {2, "AKIA" "Z2Y3X4W5V6U7T2S3" GITHUB},
        {2, "h" "f_aB3dE5gH7jK9mN1pQ3sT5vX7zA9cD1fG3" GITHUB},
        {2, "AI" "zaSyB3dE5gH7jK9mN1pQ3sT5vX7zA9cD1fG3h" GITHUB},
        /* the user before a password can be a token */
        {2, "https://" GITHUB ":x-oauth-basic@a.b/c"},
        {2, "curl -u " GITHUB ":x-oauth-basic a.b/c"},
        {2, "curl -u ann@b.org:hunter2b a.b/c"},
        /* a mark has no hyphen, so that what is behind it is of the next command */
        {2, "mysql -phunta@b.example curl -u u:hunter2x9 z"},
    };
    ms_arena arena = {0};
    for (size_t i = 0; i < COUNT(cases); i++) {
        ms_value once, twice, text = ms_text(cases[i].text);
        assert_true(secrets_mask(text, SECRETS_PERSONAL, &arena, NULL, NULL, &once));
        size_t marks = 0;
        for (size_t k = 0; k < once.text.len; k++) marks += mark_at(once.text, k) > 0;
        if (marks != cases[i].marks)
            fail_msg("%s: %.*s", text.text.ptr, (int)once.text.len, once.text.ptr);
        assert_true(secrets_mask(once, SECRETS_PERSONAL, &arena, NULL, NULL, &twice));
        if (twice.text.ptr != once.text.ptr)
            fail_msg("%.*s: %.*s", (int)once.text.len, once.text.ptr, (int)twice.text.len,
                     twice.text.ptr);
    }
    ms_arena_deinit(&arena);
}

TEST(masking_changes_nothing_else_when_a_text_has_secrets)
{
    uint64_t rng = test_seed() + 2;
    char token[64], text[256], want[256];
    ms_arena arena = {0};
    ms_value masked;
    draw(&rng, "gh" "p_{a36}", token);
    snprintf(text, sizeof text, "one %s two %s, three", token, token);
    snprintf(want, sizeof want, "one [masked %s] two [masked %s], three", "github-token",
             "github-token");
    assert_true(secrets_mask(ms_text(text), SECRETS_KEYS, &arena, NULL, NULL, &masked));
    assert_int_equal(masked.text.len, strlen(want));
    assert_memory_equal(masked.text.ptr, want, masked.text.len);
    ms_value again;
    assert_true(secrets_mask(masked, SECRETS_KEYS, &arena, NULL, NULL, &again));
    assert_ptr_equal(again.text.ptr, masked.text.ptr);
    ms_value torn = ms_text("\"password\":\"hunter2x!ab\":\"hunter3y!cd");
    assert_true(secrets_mask(torn, SECRETS_KEYS, &arena, NULL, NULL, &masked));
    assert_true(secrets_mask(masked, SECRETS_KEYS, &arena, NULL, NULL, &again));
    assert_ptr_equal(again.text.ptr, masked.text.ptr);
    char beside[128];
    snprintf(beside, sizeof beside, "%s: tT5vX7zA9cD1conten", token);
    assert_true(secrets_mask(ms_text(beside), SECRETS_KEYS, &arena, NULL, NULL, &masked));
    assert_true(secrets_mask(masked, SECRETS_KEYS, &arena, NULL, NULL, &again));
    assert_ptr_equal(again.text.ptr, masked.text.ptr);
    ms_value mail = ms_text("password:!1nverent_m?a@b.example\xff subd");
    assert_true(secrets_mask(mail, SECRETS_PERSONAL, &arena, NULL, NULL, &masked));
    assert_true(has_text(masked.text, "?[masked e-mail]"));
    assert_true(secrets_mask(masked, SECRETS_PERSONAL, &arena, NULL, NULL, &again));
    assert_ptr_equal(again.text.ptr, masked.text.ptr);
    snprintf(beside, sizeof beside, "to ann@b.org%s", token);
    assert_true(secrets_mask(ms_text(beside), SECRETS_PERSONAL, &arena, NULL, NULL, &masked));
    assert_true(has_text(masked.text, "@b.org[masked github-token]"));
    assert_true(secrets_mask(masked, SECRETS_PERSONAL, &arena, NULL, NULL, &again));
    assert_ptr_equal(again.text.ptr, masked.text.ptr);
    char room[16];
    ms_arena full;
    test_arena_init_fixed(&full, room, sizeof room);
    assert_false(secrets_mask(ms_text(token), SECRETS_KEYS, &full, NULL, NULL, &again));
    ms_value plain = ms_text("nothing to see here");
    assert_true(secrets_mask(plain, SECRETS_PERSONAL, &arena, NULL, NULL, &masked));
    assert_ptr_equal(masked.text.ptr, plain.text.ptr);
    ms_arena_deinit(&arena);
}

/* The domain of one reaches into the name of the next one. */
TEST(addresses_are_masked_when_they_share_bytes)
{
    ms_arena arena = {0};
    ms_value masked, text = ms_text("to ann@host--a.org--@host.org--, and ann@a.org,bob@b.org; "
                                      "x@y--b.org@z.org");
    const char *want = "to [masked e-mail][masked e-mail]--, and [masked e-mail],[masked e-mail]; "
                       "[masked e-mail][masked e-mail]";
    assert_true(secrets_mask(text, SECRETS_MAIL, &arena, NULL, NULL, &masked));
    assert_int_equal(masked.text.len, strlen(want));
    assert_memory_equal(masked.text.ptr, want, masked.text.len);
    ms_arena_deinit(&arena);
}

/* A number may look like a password; a mark in its place would be no JSON. */
TEST(numbers_stay_when_they_look_like_secrets)
{
    static const char json[] = "{\"a\": \"\\\"password\", \"password\": 13579.2468e17}";
    ms_arena arena = {0};
    ms_value masked, number = ms_json(ms_str_of(json));
    assert_true(secrets_mask(number, SECRETS_KEYS, &arena, NULL, NULL, &masked));
    assert_ptr_equal(masked.text.ptr, json);
    number.json = false;
    assert_true(secrets_mask(number, SECRETS_KEYS, &arena, NULL, NULL, &masked));
    assert_true(has_text(masked.text, "[masked password]"));
    ms_arena_deinit(&arena);
}


/* ---- what is no secret ---- */

/* Beginnings that no word ends in are found inside words, too. */
TEST(tokens_are_found_when_they_stand_inside_words)
{
    static const struct {
        const char *before, *between, *after; /* between NULL: one token alone */
    } glued[] = {
        {"call_", NULL, ""}, {"Bash_", NULL, ""}, {"id9", NULL, ""}, {"x", NULL, ""},
        {"", NULL, "_1"}, {"a_", NULL, "_b"}, {"", "", ""}, {"", "_", ""}, {"", NULL, ""},
    };
    static const char *const forms[] = {
        "gh" "p_{a36}", "gh" "s_{a36}", "sk-" "ant-api03-{w93}AA", "xox" "b-{d12}-{a24}",
        "github" "_pat_{a22}_{a59}", "glp" "at-{a20}",
    };
    uint64_t rng = test_seed() + 7;
    ms_arena arena = {0};
    for (size_t i = 0; i < COUNT(glued) * COUNT(forms); i++) {
        char one[128], two[128], text[300];
        size_t form = i / COUNT(glued);
        const char *before = glued[i % COUNT(glued)].before;
        const char *between = glued[i % COUNT(glued)].between;
        const char *after = glued[i % COUNT(glued)].after;
        bool both = between != NULL;
        draw(&rng, forms[form], one);
        draw(&rng, forms[form], two);
        snprintf(text, sizeof text, "%s%s%s%s%s", before, one, both ? between : "",
                 both ? two : "", after);
        ms_str is = masked_text(ms_text(text), &arena);
        assert_false(both && has_text(is, two));
        for (size_t k = 0; k + 12 < strlen(one); k++) { /* nor any piece of them */
            char piece[13] = "";
            memcpy(piece, one + k, 12);
            if (has_text(is, piece)) fail_msg("%s: %.*s", text, (int)is.len, is.ptr);
        }
        if (form < 2) { /* what is beside them stays, and each has a mark */
            char want[300];
            static const char mark[] = "[masked github-token]";
            snprintf(want, sizeof want, "%s%s%s%s%s", before, mark, both ? between : "",
                     both ? mark : "", after);
            if (!ms_str_equal(is, ms_str_of(want)))
                fail_msg("%s: %.*s", text, (int)is.len, is.ptr);
        }
        ms_arena_reset(&arena);
    }
    ms_arena_deinit(&arena);
}

/* The first secret of a text; NULL: there is none. */
static void must_find(const char *text, unsigned classes, const char *want)
{
    secret found = {0, 0, "", {NULL, 0}};
    bool any = find_first(ms_str_of(text), classes, &found);
    bool right = any && want != NULL && found.len == strlen(want) &&
                 memcmp(text + found.at, want, found.len) == 0;
    if (any != (want != NULL) || (any && !right))
        fail_msg("%s: found \"%.*s\" (%s), not \"%s\"", text, (int)found.len,
                 text + found.at, found.kind, want != NULL ? want : "");
}

/* Placeholders and code that have the form of a secret. */
static const char *const harmless[] = {
    "AK" "IAIOSFODNN7EXAMPLE", "gh" "p_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "sk-" "ant-api03-YOUR-KEY-HERE-YOUR-KEY-HERE-YOUR-KEY-HERE",
    "password = request.form.password1", "password: \"********\"",
    "api_key = os.environ[\"API_KEY_2\"]", "token = self.token2",
    "postgres://user:password@localhost/db", "https://user:$PASS@host/",
    "max_tokens: 4096", "\"input_tokens\": 123456", "password: string",
    "const password = generatePassword(16)", "PASSWORD=${DB_PASSWORD1}",
    "-----BE" "GIN RSA PRIVATE KEY-----\n...\n-----END RSA PRIVATE KEY-----",
    "Authorization: Bearer <token>", "Authorization: Bearer $TOKEN",
    "if (password == other1Password) return", "http://host:8080/a@b",
    "secret_key_base: <%= ENV[\"SECRET\"] %>", "token: 'abc'", "user-agent: x1y2z3",
    "toolu_018GZVh9ymkrdx1TnR8reg5Y", "msg_01NUXWeNeduGBJVib8gyo9kz",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "\"uuid\": \"c1c5c2a8-5edd-4e0e-9d40-3c2f6ad12f0b\"",
    "sk-learn-pipeline-with-steps",
    "machine HOST login USER password TOKEN", "the login page password reset works",
    "machine h login me password $TOKEN", "machine learning login form password field",
    "docker run --name mysql -p3306:3306 mysql", "mysql -u root -p shop",
    "mysql -uroot -p$MYSQL_PWD shop", "mysql -u root -p${DB_PASS}", "ps -pabcdef",
    "curl -u user:password https://host/", "curl -u $USER:$PASS https://host/",
    "curl -u \"${A}:${B}\" https://host/", "docker exec -u root:wheel box",
    "curl -u 1000:1000 x", "curl -u <user>:<token> x", "curl -u https://host/x",
    "the password is base64-encoded", "a token is 32-bytes long", "the password is required",
    "--password $TOKEN2", "--password --user2", "--password <your1password>",
    "password = password1", "first pass: 100.5ms", "the api key is in vault2",
    "\"auth\": \"required\"", "auth: middleware(session)", "oauth: cm9ib3Q6c2VjcmV0",
};

#define LONG_TOKEN "fHk2Lz9QwXr7Tn4Vb8Ym3Cd6Gs1Jp5Ra0EuKiOxZ" "Wq8Nv3Bt6Hy1Mf4Lc7Dg2Sk9Pj5Xa0RzUeIoTw" \
                   "Vn6Cb1Ym8Kd3Fg7Hs2Jl9Qp4Wo5Ei0RuTyXaZc" "Bv8Nm3Lk6Jh1Gf4Ds7Ap2Qo9Wi5Eu0RyTtXzCc"

static const struct {
    const char *text, *found; /* NULL: nothing */
    unsigned classes;
} personal[] = {
    {"password=hunter2secret", "hunter2secret", SECRETS_KEYS},
    {"DB_PASSWORD=tigerlily88", "tigerlily88", SECRETS_KEYS},
    {"password: hunter2", "hunter2", SECRETS_KEYS},
    {"CLIENT_SECRET=tigerlily88", "tigerlily88", SECRETS_KEYS},
    {"x --password tigerlily88 y", "tigerlily88", SECRETS_KEYS},
    {"--db-password 'tiger lily88'", NULL, SECRETS_KEYS},
    {"--password=tigerlily88", "tigerlily88", SECRETS_KEYS},
    {"my password is Zx9kQw21.", "Zx9kQw21", SECRETS_KEYS},
    {"x --password P4ssw0rd! y", "P4ssw0rd!", SECRETS_KEYS},
    {"\"pass\": \"hunter22\"", "hunter22", SECRETS_KEYS},
    {"pass = 'mypassword99'", "mypassword99", SECRETS_KEYS},
    {"first pass: 100ms", NULL, SECRETS_KEYS},
    {"client_secret: " LONG_TOKEN, LONG_TOKEN, SECRETS_KEYS},
    {"\"secret\": \"" LONG_TOKEN "\"", LONG_TOKEN, SECRETS_KEYS},
    {"secret: db-credentials-v1", NULL, SECRETS_KEYS},
    {"\"secret\":\"projects/p1/secrets/db2\"", NULL, SECRETS_KEYS},
    {"password = b64decode(x)", NULL, SECRETS_KEYS},
    {"the api key is 7f3a9c1b2d4e5f60718293a4b5c6d7e8", "7f3a9c1b2d4e5f60718293a4b5c6d7e8",
     SECRETS_KEYS},
    {"api key: 7f3a9c1b2d4e5f60718293a4b5c6d7e8", "7f3a9c1b2d4e5f60718293a4b5c6d7e8",
     SECRETS_KEYS},
    {"mail jane.doe@host.org now", "jane.doe@host.org", SECRETS_MAIL},
    {"mail jane.doe@host.org.", "jane.doe@host.org", SECRETS_MAIL},
    {"{\"a\": \"\\njane@host.org\"}", "jane@host.org", SECRETS_MAIL},
    {"mail jane.doe@host.org now", NULL, SECRETS_KEYS},
    {"git@github.com:a/b.git", NULL, SECRETS_MAIL},
    {"react@18.2.0", NULL, SECRETS_MAIL},
    {"@app.route and a@b", NULL, SECRETS_MAIL},
    {"@", NULL, SECRETS_MAIL},
    {"a@", NULL, SECRETS_MAIL},
    {"a@.", NULL, SECRETS_MAIL},
    {"cd /home/jane/src", "jane", SECRETS_HOMES},
    {"/Users/Jane.Doe", "Jane.Doe", SECRETS_HOMES},
    {"C:\\Users\\jane\\src", "jane", SECRETS_HOMES},
    {"\"C:\\\\Users\\\\jane\\\\src\"", "jane", SECRETS_HOMES},
    {"/home/user/src", NULL, SECRETS_HOMES},
    {"cd /home/", NULL, SECRETS_HOMES},
};

TEST(text_is_taken_for_a_secret_when_it_is_one_that_is_asked_for)
{
    for (size_t i = 0; i < COUNT(harmless); i++) {
        must_find(harmless[i], SECRETS_KEYS, NULL);
    }
    for (size_t i = 0; i < COUNT(personal); i++)
        must_find(personal[i].text, personal[i].classes, personal[i].found);
}

/* Any bytes: it ends, stays inside, and goes forward. The text has its own block, so that
 * a sanitizer sees a byte too many. */
TEST(search_stays_inside_when_bytes_are_random)
{
    static const char likely[] = "-----BEGIN PRIVATE KEY://:@=\"'\\npassword token sk_.%";
    uint64_t rng = test_seed() + 4;
    ms_arena arena = {0};
    for (size_t i = 0; i < test_times(20000); i++) {
        size_t len = (size_t)test_below(&rng, 120);
        char *text = (char *)malloc(len > 0 ? len : 1);
        assert_non_null(text);
        for (size_t k = 0; k < len; k++) {
            text[k] = test_one_in(&rng, 3) ? (char)test_random(&rng)
                                           : likely[test_below(&rng, sizeof likely)];
        }
        secret_list list;
        size_t before = 0;
        ms_value value = ms_text_n(ms_str_n(text, len));
        assert_true(secrets_find(value, SECRETS_PERSONAL, &arena, &list));
        for (size_t k = 0; k < list.count; k++) {
            const secret *found = &list.items[k];
            assert_true(found->at >= before && found->len > 0);
            assert_true(found->at + found->len <= len);
            assert_true(found->text.len > 0 && found->text.len <= found->len);
            before = found->at + found->len;
        }
        ms_arena_reset(&arena);
        free(text);
    }
    ms_arena_deinit(&arena);
}

/* Texts in which many places begin something that might be a secret, and is none. */
static const char *const slow[] = {
    "token=", "secret:", "eyJ", "eyJ-", "a@", "password=a", "Authorization: ", "AKIA",
    "AKIA-", "://a:", "://a:b@", "api_key=x.", "sk-", "sk-aB3x-", "glc_aB1/", "gh" "p_", "xgh" "p_aB3d", "sk-" "ant-",
    "xsk-" "ant-aB3d", "github" "_pat_aB3d", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5gh", "glpat-",
    "token='", "token=\\\\", "token=\"a\\a", "AccountKey=", "M.aaaaaa.", "=", "-",
    "password is ", "--password ", "is ", "--", "password is a", "api key is a=",
    "\\", "\\u005c", "\\u0073k-", ("-----BE" "GIN PRIVATE KEY-----   "), "/home/",
    "mysql -p", " -p", " -u a:", "curl -u a:", "password ",
    "machine a.b login c password ",
};

/* Returns the processor time of a search in a text that repeats a unit. */
static double time_of_search(const char *unit, size_t size)
{
    size_t len = strlen(unit), n = size / len;
    char *text = (char *)malloc(n * len);
    assert_non_null(text);
    for (size_t i = 0; i < n; i++) memcpy(text + i * len, unit, len);
    ms_arena arena = {0};
    secret_list list;
    ms_value value = ms_text_n(ms_str_n(text, n * len));
    clock_t began = clock();
    assert_true(secrets_find(value, SECRETS_PERSONAL, &arena, &list));
    ms_arena_deinit(&arena);
    double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    free(text);
    return seconds;
}

/* The texts are as long as it takes until a search takes this time: the clock of the
 * processor may go in steps of 4 ms or more. */
#define LONG_ENOUGH 0.016

/* A search whose time grows with the square would take 16 times as long. */
TEST(search_takes_four_times_as_long_when_a_text_is_four_times_as_long)
{
    for (size_t i = 0; i < COUNT(slow); i++) {
        size_t size = 20000;
        double one = 0, four = 1e9, again;
        while ((one = time_of_search(slow[i], size)) < LONG_ENOUGH) size *= 2;
        for (size_t tries = 0; tries < 5; tries++) { /* the least: of the processor other
                                                        programs have a share */
            again = time_of_search(slow[i], 4 * size);
            if (again < four) four = again;
            if (four <= 7 * one) break;
            again = time_of_search(slow[i], size);
            if (again < one) one = again;
        }
        if (four > 7 * one)
            fail_msg("\"%s\": %zu bytes take %.4f s, four times as many %.4f s", slow[i],
                     size, one, four);
    }
}

/* The search finds the first rule of a character by halves, and compares the second. */
TEST(rules_are_sorted_and_begin_with_two_characters)
{
    for (size_t i = 0; i < COUNT(rules); i++) {
        const char *pattern = rules[i].pattern;
        size_t first = first_rule(pattern[0]);
        if (strcspn(pattern, "%") < 2) fail_msg("%s has one", pattern);
        if (i > 0) assert_true(rules[i - 1].pattern[0] <= pattern[0]);
        assert_true(first <= i && rules[first].pattern[0] == pattern[0]);
        assert_true(first == 0 || rules[first - 1].pattern[0] < pattern[0]);
    }
}


/* ---- recorded transcripts ---- */

static struct {
    uint64_t bytes, alarms;
} data;

static int look_at_file(const char *path, const struct stat *st, int kind,
                        struct FTW *ftw)
{
    if (kind != FTW_F || strstr(path, "json-test-suite") != NULL) return 0;
    size_t size;
    char *text = read_file(path, &size);
    assert_non_null(text);
    ms_arena arena = {0};
    secret_list list;
    ms_value value = ms_text_n(ms_str_n(text, size));
    assert_true(secrets_find(value, SECRETS_KEYS, &arena, &list));
    for (size_t i = 0; i < list.count; i++) {
        const secret *found = &list.items[i];
        int len = found->len < 80 ? (int)found->len : 80;
        printf("%s: %s: %.*s\n", path, found->kind, len, text + found->at);
        data.alarms++;
    }
    ms_arena_deinit(&arena);
    data.bytes += size;
    free(text);
    return 0;
}

TEST(transcripts_raise_few_alarms)
{
    char path[1024];
    if (!shared_path(path, sizeof path, "data")) skip();
    assert_int_equal(nftw(path, look_at_file, 16, FTW_PHYS), 0);
    printf("%llu alarms in %.1f MB\n", (unsigned long long)data.alarms,
           (double)data.bytes / 1e6);
    assert_true(data.alarms * 1000000 <= data.bytes);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
