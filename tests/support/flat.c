/* Prints the tables of bindings/msgstore_ffi.h, for tools/flat.sh: a line for each
 * argument of each function (function, argument, "required" or "", what it takes), then
 * one for each set of words ("words", name, the words).
 */

#define MSGSTORE_IMPLEMENTATION
#define MSGSTORE_FFI_IMPLEMENTATION
#include "msgstore.h"
#include "bindings/msgstore_ffi.h"

#include <stdio.h>

static const char *const word_sets[] = {"mode",  "sync",  "views",
                                        "scope", "cache", "thinking"};

static void print_function(const ms_ffi__function *function)
{
    printf("function\t%s\n", function->name);
    const char *word = function->known;
    while (*word) {
        size_t len = strcspn(word, " *");
        for (size_t i = 0; i < MS_FFI__ROWS; i++) {
            const ms_ffi__row *row = &ms_ffi__rows[i];
            if (!ms_str_equal(ms_str_n(word, len), ms_str_of(row->name))) continue;
            printf("argument\t%s\t%s\t%s\t%s\n", row->name,
                   word[len] == '*' ? "required" : "-", ms_ffi__expected[row->kind],
                   row->kind == MS_FFI__FORMAT    ? "formats"
                   : row->kind == MS_FFI__PROFILE ? "providers"
                   : row->words[0]                ? row->words
                                                  : "-");
        }
        word += len;
        word += strspn(word, " *");
    }
}

int main(void)
{
    const ms_format *format;
    const ms_profile *profile;
    print_function(&ms_ffi__opening);
    for (size_t i = 0; i < sizeof ms_ffi__functions / sizeof *ms_ffi__functions; i++)
        print_function(&ms_ffi__functions[i]);
    for (size_t k = 0; k < sizeof word_sets / sizeof *word_sets; k++)
        for (size_t i = 0; i < MS_FFI__ROWS; i++)
            if (strcmp(ms_ffi__rows[i].name, word_sets[k]) == 0)
                printf("words\t%s\t%s\n", word_sets[k], ms_ffi__rows[i].words);
    printf("words\tformats\t");
    for (size_t i = 0; (format = ms_format_at(i)) != NULL; i++)
        printf(i ? " %s" : "%s", format->name);
    printf("\nwords\tproviders\t");
    for (size_t i = 0; (profile = ms_profile_at(i)) != NULL; i++)
        if (profile->wire != MS_WIRE_PYDANTIC) /* it has no request */
            printf(i ? " %s" : "%s", profile->name);
    return printf("\n") < 0;
}
