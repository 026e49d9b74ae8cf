/* A chat in which the user reconsiders. A question is edited and the answers after it are
 * hidden (rewind); the conversation continues there; then a second one branches off
 * (fork). Nothing is rewritten: a change is a record of its own, and a raw query still
 * returns every record. A log does the same. Left out: redaction, which erases in place,
 * and compaction, which drops hidden messages. Build by hand:
 *
 *     cc -std=c99 -pthread -I/usr/include/stb -o edit_rewind examples/edit_rewind.c
 */
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"

#include <stdio.h>

static ms_result say(ms_store *store, ms_str chat, ms_envelope m, uint64_t *seq,
                     ms_error *err)
{
    return ms_append(store, chat, &m, seq, err);
}

static ms_result print_chat(ms_store *store, ms_str chat, ms_error *err)
{
    ms_cursor it;
    const ms_msg *msg;
    ms_result result = ms_get_conversation_messages(store, chat, 0, &it, err);
    if (result != MS_OK) return result;
    printf("%.*s\n", (int)chat.len, chat.ptr);
    while ((msg = ms_next(&it)) != NULL) {
        ms_str text = ms_content(msg).text;
        printf("  %llu  %s: %.*s%s\n", (unsigned long long)ms_seq(msg),
               ms_role_word(ms_role_of(msg)), (int)text.len, text.ptr,
               ms_flags(msg) & MS_FLAG_AMENDED ? " (edited)" : "");
    }
    return ms_cursor_close(&it, err);
}

/* Amends the question, and hides the messages after it. */
static ms_result edit(ms_store *store, ms_str chat, uint64_t seq, const char *text,
                      ms_error *err)
{
    uint64_t hidden;
    ms_envelope m = ms_user_message(ms_text(text));
    ms_result result = ms_amend(store, seq, &m, err);
    if (result == MS_OK) result = ms_rewind(store, chat, seq, &hidden, err);
    if (result == MS_OK) printf("edited, %llu messages hidden\n",
                                (unsigned long long)hidden);
    return result;
}

/* Counts all records of the location, changes included. */
static ms_result print_records(ms_store *store, ms_error *err)
{
    ms_cursor it;
    ms_query q = {0};
    ms_stat stat;
    unsigned n = 0;
    q.raw = MS_RAW_ALL;
    ms_result result = ms_query_open(store, &q, &it, err);
    if (result != MS_OK) return result;
    while (ms_next(&it) != NULL) n++;
    result = ms_cursor_close(&it, err);
    if (result == MS_OK) result = ms_store_stat(store, &stat, err);
    if (result == MS_OK) printf("%u records: %llu messages, %llu of them hidden\n", n,
                                (unsigned long long)(stat.messages + stat.hidden),
                                (unsigned long long)stat.hidden);
    return result;
}

static ms_result run(ms_store *store, ms_error *err)
{
    ms_str chat = MS_STR("chat"), other = MS_STR("chat, in French");
    uint64_t question = 0;
    ms_envelope user = ms_user_message(ms_text("Write a haiku"));
    ms_envelope poem = ms_assistant_message(ms_text("An old silent pond ..."));
    ms_result result = say(store, chat, user, &question, err);
    if (result == MS_OK) result = say(store, chat, poem, NULL, err);
    if (result == MS_OK) result = print_chat(store, chat, err);
    if (result == MS_OK) result = edit(store, chat, question, "Write a limerick", err);
    poem.content = ms_text("There was an old man with a beard ...");
    if (result == MS_OK) result = say(store, chat, poem, NULL, err);
    if (result == MS_OK) result = ms_fork(store, chat, question, other, NULL, err);
    poem.content = ms_text("Il y avait un homme barbu ...");
    if (result == MS_OK) result = say(store, other, poem, NULL, err);
    if (result == MS_OK) result = print_chat(store, chat, err);
    if (result == MS_OK) result = print_chat(store, other, err);
    return result == MS_OK ? print_records(store, err) : result;
}

int main(void)
{
    ms_store *store = NULL;
    ms_error err;
    ms_result result = ms_mem_open(&store, NULL, &err);
    if (result == MS_OK) result = run(store, &err);
    if (result != MS_OK) fprintf(stderr, "%s\n", err.message);
    ms_close(store);
    return result != MS_OK;
}
