/* Fuzzes ms_project: no history that it makes may be refused by the provider.
 *
 *   bytes 0 to 6   the provider; who reads, system prompt, counting, shortening (bits);
 *                  newest, budget, step, fresh, fresh_step
 *   the rest       messages, one after the other: type, bits of what it has, then a byte
 *                  for each of it: an entry of a table, or a text from the input
 *
 * What is projected must be JSON that the linter of the tool takes; projected
 * again from what was read back it is the same bytes; with texts that are copied and with
 * texts that stay, too: see tests/support/project.h.
 * Left out: profiles and formats of one's own, see test_project.c; whether a provider
 * takes, and its format has, blocks that a program has signed as the provider's.
 */

#define _GNU_SOURCE
#define FUZZ_MOST 1024
#include "fuzz.h"
#include "project.h"
#include "message.h"

enum { MOST_MESSAGES = 48 };

static void fuzz_one(const unsigned char *bytes, size_t size)
{
    fuzz_input in = {bytes, bytes + size};
    const ms_profile *profile = ms_profile_at(fuzz_u8(&in) % PROFILES);
    ms_project_opts opts = options_of(&in);
    history h = history_of(MOST_MESSAGES);
    ms_result code;
    bool vouched = false;
    while (fuzz_left(&in) > 0 && h.n < MOST_MESSAGES) {
        ms_envelope m = message_of(&in);
        vouched = vouched || has_signed_blocks(&m);
        (void)history_add(&h, m);
    }
    must_repeat(profile, &opts, &h);
    ms_str body = projected(profile, &opts, &h, h.n, NULL, &code);
    if (code == MS_OK) {
        if (!vouched) must_accept(profile, body, &h);
        if (!vouched && !opts.thinking) must_stay(profile, false, body, &h);
    } else if (code != MS_E_TOO_LARGE || opts.budget == 0) {
        print_history(&h);
        fuzz_fail("%s: %s", profile->name, ms_result_text(code));
    }
    (void)reset(NULL);
}
