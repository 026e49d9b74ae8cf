#!/usr/bin/env bash
# Secrets in a log, and out of it: msgstore redact --secrets shows them wherever they
# stand (messages, hidden ones, earlier words, streams, notes, facts, names, what crashes
# leave), erases or masks them, and reports what is left; exports mask. What finds them is
# tests/tool/test_secrets.c. The tokens are put together here: they never were any.
. "$(dirname "$0")/tool_checks.sh"

token=gh"p_"R7kq2ZpX9vLm4TnB8wYc3HsJ6dFgQ1aEuV5o
second=npm"_"q8Zt3LxC5vB9nM2kJ7hG4fD1sA6pO0iUyTrE

# fresh: $log with secrets in all places.
log=$tmp/leak.log
fresh()
{
    rm -f "$log"
    cat >"$tmp/leak.jsonl" <<END
{"type":"user_message","content":"use $token now","location":"a"}
{"type":"action","tool":"bash","agent_key":"w","args":{"command":"x $token"},"tool_call_id":"1","location":"a"}
{"type":"observation","content":"ok","agent_key":"w","tool_call_id":"1","location":"a","env":{"T":"$token"}}
{"type":"user_message","content":"nothing, but jane@host.org","location":"b"}
{"type":"user_message","content":"hide $token","location":"b"}
{"type":"user_message","content":"amend $token","location":"b"}
{"type":"user_message","content":"noted","location":"b"}
END
    "$tool" import "$log" "$tmp/leak.jsonl" --from framework --lenient >/dev/null 2>&1
    "$tool" hide "$log" 5 >/dev/null
    "$tool" amend "$log" 6 'amended' >/dev/null
    "$tool" note "$log" 7 review "\"$second\"" --json >/dev/null
    "$tool" location "$log" b "{\"title\":\"with $second\",\"cwd\":\"/tmp\"}" >/dev/null
}

# tokens FILE: how many lines of it have a token, or eight characters of one.
tokens()
{
    grep -caE "$token|$second|R7kq2ZpX|9vLm4TnB|8wYc3HsJ|6dFgQ1aE|8Zt3LxC5|vB9nM2kJ" "$1"
}

fresh
session <<'END'
== secrets_are_shown_with_their_places_and_nothing_is_written
$ cp $log $tmp/before.log
redact $log --secrets => ^found      7 in 5 messages: 5 github-token, 2 npm-token$
=> ^ *1 +now +content => ^ *2 +now +args => ^ *3 +now +source => ^ *5 +hidden +content
=> ^ *6 +earlier +content => ^ *7 +note +content => ^ *- +facts +content
redact $log --secrets >$tmp/shown
$ tokens $tmp/shown => ^0$ -> 1
$ cat $log == $tmp/before.log
redact $log --secrets --location a => ^found      3 in 3 messages
redact $log --secrets --location nobody -> 4 no messages of
redact $log --secrets --personal => ^found      8 .* 1 e-mail
redact $log 17 --secrets -> 2 takes no numbers
redact $log --agent w --secrets -> 2 takes no numbers

== secrets_are_erased_when_it_is_applied
redact $log --secrets --apply => ^erased     5 messages$ => ^left       2 in the file, -> 1
redact $log --secrets => ^found      2 in 0 messages
redact $log --secrets --apply => ^found      2 in 0 messages => ^left       2 in -> 1
location $log b => "title":"with \[masked npm-token\]" => "cwd":"/tmp"
export $log => nothing, but jane@host.org
compact $log $log --replace => .
$ tokens $log => ^0$ -> 1
redact $log --secrets --apply => ^found      0 in 0 messages$ =0> left

== secrets_are_masked_when_it_is_asked_for
$ fresh
redact $log --secrets --mask-secrets --apply => ^masked     3 messages$ -> 1
=> ^kept       2 messages, => ^left       6 in the file, => ^left       1 that views show: --apply
export $log => "content":"use \[masked github-token\] now"
=> "args":\{"command":"x \[masked github-token\]"\}
=> "env":\{"T":"\[masked github-token\]"\}
redact $log --secrets => ^found      7 in 2 messages
redact $log --secrets --apply => ^erased     2 messages$ => ^left       5 in the file, -> 1
compact $log $log --replace => .
$ tokens $log => ^0$ -> 1
END

fresh
for arguments in "export $log" "export --format openai $log" "convert --to anthropic $log" \
    "convert --from framework --to framework $tmp/leak.jsonl"; do
    session <<'END'
== exports_mask_secrets_and_nothing_else
$ "$tool" $arguments --mask-secrets >$tmp/masked
$ cat $tmp/masked => \[masked github-token\] => jane@host.org
$ tokens $tmp/masked => ^0$ -> 1
END
done

# A session of Gemini CLI, one object, before and after it grows.
chat='{"sessionId":"g","projectHash":"p","messages":[{"id":"1","type":"user","content":"use %s, jane@host.org"}%s]}'
more=',{"id":"2","type":"gemini","content":"done"}'
for personal in '' --personal; do
    rm -f "$tmp/chat.log"
    printf "$chat" "$token" '' >"$tmp/chat.json"
    session <<'END'
== session_with_masked_secrets_is_known_when_it_grows
sync $tmp/chat.log $tmp/chat.json => ^messages   1 new
redact $tmp/chat.log --secrets --mask-secrets $personal --apply => ^masked     1 message$ -> 1
compact $tmp/chat.log $tmp/chat.log --replace => .
$ printf "$chat" $token "$more" >$tmp/chat.json
sync $tmp/chat.log $tmp/chat.json => ^messages   1 new, 0 taken back$
$ tokens $tmp/chat.log => ^0$ -> 1
END
done

fresh
at=$(grep -abo "hide $token" "$log" | head -n 1)
printf '?' | dd of="$log" bs=1 seek="${at%%:*}" conv=notrunc 2>/dev/null
session <<'END'
== damaged_log_is_searched_and_stays_as_it_is
redact $log --secrets --apply => ^found      6 in 4 messages: => ^unchanged  since -> 3 damaged
redact $log --secrets => ^found      6 in 4 messages: -> 3 damaged
END


# ---- Streams, and what crashes leave

# A program that makes a log with a token in it: leaks LOG TOKEN SCENES.
cat >"$tmp/leaks.c" <<'END'
#define MSGSTORE_NO_FORMATS
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"
#include <stdio.h>
#include <stdlib.h>

static ms_store *store;
static ms_error err;
static ms_str place = {"job", 3};

static void must(ms_result result)
{
    if (result == MS_OK) return;
    puts(err.message);
    exit(1);
}

/* Streams "the key is TOKEN now", with the token in two parts. */
static void stream(ms_stream *s, ms_envelope m, const char *token)
{
    ms_stream_opts opts;
    char text[128];
    int half = (int)strlen(token) / 2;
    memset(&opts, 0, sizeof opts);
    opts.every_part = true;
    must(ms_stream_begin(s, store, place, &m, &opts, &err));
    snprintf(text, sizeof text, "{\"key\":\"%.*s", half, token);
    must(ms_stream_feed(s, ms_str_of(text), &err));
    snprintf(text, sizeof text, "%s\"}", token + half);
    must(ms_stream_feed(s, ms_str_of(text), &err));
}

/* Writes the token to a file beside the log, under the name that the library gives it. */
static void beside(const char *path, const char *ending, const char *token)
{
    size_t size;
    char *name = ms__path_beside(&ms__log_of(store)->opts.alloc, path, ending, &size);
    FILE *f = name == NULL ? NULL : fopen(name, "w");
    if (f == NULL || fprintf(f, "use %s now", token) < 0 || fclose(f) != 0) exit(1);
}

int main(int argc, char **argv)
{
    ms_stream s;
    ms_log_desc desc;
    ms_log_info info;
    uint64_t first, hidden;
    char text[128];
    const char *token = argv[2];
    bool torn = false;
    memset(&desc, 0, sizeof desc);
    desc.path = argv[1];
    ms_envelope m = ms_user_message(ms_text("go")), answer = ms_assistant_message(m.content);
    ms_envelope said = ms_assistant_message(ms_text("no key here"));
    answer.content = ms_text("");
    must(ms_log_open(&store, &desc, &err));
    must(ms_append(store, place, &m, &first, &err));
    for (const char *scene = argv[3]; *scene != '\0'; scene++) {
        switch (*scene) {
        case 'e': /* ends with another text */
            stream(&s, answer, token);
            must(ms_stream_end(&s, &said, NULL, &err));
            break;
        case 's': /* ends with the same text */
            stream(&s, answer, token);
            must(ms_stream_end(&s, NULL, NULL, &err));
            break;
        case 'i': stream(&s, answer, token); break; /* is interrupted */
        case 'c': stream(&s, ms_action(MS_STR("t"), ms_text(""), MS_STR("1")), token); break;
        case 'r': /* what comes after the first message is taken back */
            must(ms_rewind(store, place, first, &hidden, &err));
            break;
        case 't': torn = true; break;
        case 'b': beside(argv[1], ".torn", token); beside(argv[1], ".compacting", token); break;
        case 'f':
            for (int i = 0; i < 3000; i++) {
                snprintf(text, sizeof text, "{\"n\":%d}", i);
                must(ms_location_set(store, place, ms_str_of(text), &err));
            }
            break;
        }
    }
    must(ms_log_stat(store, &info, &err));
    ms_close(store);
    if (!torn) return 0;
    FILE *f = fopen(argv[1], "r+b");
    return f == NULL || fseek(f, (long)info.end + 64, SEEK_SET) != 0 ||
           fprintf(f, "use %s now", token) < 0 || fclose(f) != 0;
}
END
if ! ${CC:-cc} -std=c99 -O0 -pthread -I. -o "$tmp/leaks" "$tmp/leaks.c" \
    >"$tmp/err" 2>&1; then
    fail leaks "$(grep -m 1 error "$tmp/err")"
fi

# SCENES|how many lines|what they show, without the kind and the token
rows='e|1|2 parts content
s|1|2 now content
i|1|2 now content
c|1|2 now args
ir|1|2 hidden content
cr|1|2 hidden args
er|1|2 hidden content
sr|2|2 hidden content'
while IFS='|' read -r scenes count shown; do
    rm -f "$log"
    same leaks '' "$("$tmp/leaks" "$log" "$token" "$scenes" 2>&1)"
    # shellcheck disable=SC2086
    places=$(printf '^ *%s +%s +%s +github-token' $shown)
    session <<'END'
== parts_of_streams_are_searched_and_erased
redact $log --secrets =1> ^found      .* in 1 message: . github-token$
$ "$tool" redact $log --secrets | grep -cE "$places" =$1> $count
$ "$tool" redact $log --secrets | grep -cE "^ *[0-9-]+  " =$1> $count
redact $log --secrets --apply => ^erased     1 message$ =0> left
$ tokens $log => ^0$ -> 1
redact $log --secrets => ^found      0 in 0 messages$
END
done <<<"$rows"

rm -f "$log"
"$tmp/leaks" "$log" "$token" ei
session <<'END'
== parts_of_streams_are_left_when_messages_are_masked
redact $log --secrets --mask-secrets --apply => ^masked     1 message$ -> 1
=> ^kept       1 message, => ^left       2 in the file,
view $log => no key here => masked github-token
compact $log $log --replace => .
$ tokens $log => ^0$ -> 1
redact $log --secrets --apply => ^found      0 in 0 messages$
END

rm -f "$log"
"$tmp/leaks" "$log" "$token" t
printf 'x use %s now' "$token" | tee "$log.torn" >"$log.compacting"
ln -s leak.log "$tmp/link.log"
session <<'END'
== what_crashes_leave_is_searched_and_reported
redact $log --secrets => ^found      3 in 0 messages: 3 github-token$
=1> ^ *- +torn +bytes +github => ^ *- +beside +torn +github => ^ *- +beside +compacting +github
redact $tmp/link.log --secrets => ^found      3 in 0 messages: 3 github-token$
redact $log --secrets --apply => ^left       1 in the file, -> 1
=> ^left       1 in .*\.torn: remove => ^left       1 in .*\.compacting: msgstore compact
compact $log $log --replace => .
$ tokens $log => ^0$ -> 1
redact $log --secrets --apply =1> ^left       => ^left       1 in .*\.torn: remove -> 1
$ rm $log.torn; ls $tmp =0> compacting
redact $log --secrets --apply => ^found      0 in 0 messages$ =0> left
$ mkdir $log.torn
redact $log --secrets -> 1 /leak\.log\.torn: cannot read: Is a directory$
$ rmdir $log.torn
END

# Names that are too long for an ending are shortened: with one ending, with both, in UTF-8.
here=$(realpath "$tool")
for name in "$(printf 'n%.0s' {1..245})" "$(printf 'n%.0s' {1..255})" \
    "$(printf 'n%.0s' {1..226})$(printf 'ü%.0s' {1..14})"; do
    mkdir "$tmp/long"
    long=$tmp/long/$name
    "$tmp/leaks" "$long" "$token" bt
    printf 'of another log' >"$tmp/long/${name::200}x-0123456789abcdef.torn"
    ln -s "$long" "$tmp/long.log"
    session <<'END'
== what_crashes_leave_of_a_log_with_a_long_name_is_searched
$ ls $tmp/long =4>
redact $long --secrets => ^found      3 in 0 messages: 3 github-token$
=1> ^ *- +torn +bytes +github =1> ^ *- +beside +torn +github =1> ^ *- +beside +compacting +github
redact $tmp/long.log --secrets => ^found      3 in 0 messages: 3 github-token$
$ (cd $tmp/long && "$here" redact $name --secrets) => ^found      3 in 0 messages: 3 github-token$
compact $long $long --replace => .
redact $long --secrets --apply =1> ^left       => ^left       1 in .*\.torn -> 1
$ rm $tmp/long/*.torn; ls $tmp/long =1>
redact $long --secrets --apply => ^found      0 in 0 messages$ =0> left
END
    rm -r "$tmp/long" "$tmp/long.log"
done

rm -f "$log"
"$tmp/leaks" "$log" "$token" f
if ! { (ulimit -v 200000 && "$tool" --version) >"$tmp/out"; } 2>/dev/null; then
    echo "skip facts_are_read_once: only where ulimit -v works"
else
    session <<'END'
== facts_are_read_once_when_they_were_set_often
$ (ulimit -v 200000; "$tool" redact $log --secrets) => ^found      0 in 0 messages$
END
fi


# ---- Names, which a redaction keeps, and spellings

# spelled TEXT: each third character as an escape of JSON.
spelled()
{
    local i
    for ((i = 0; i < ${#1}; i++)); do
        if ((i % 3 == 0)); then printf '\\u%04x' "'${1:i:1}"; else printf %s "${1:i:1}"; fi
    done
}

rm -f "$log"
cat >"$tmp/names.jsonl" <<END
{"type":"user_message","content":"clean","location":"a","id":"id-$token"}
{"type":"user_message","content":"clean","location":"a","turn_id":"https://u:$token@h/x"}
{"type":"action","tool":"t","args":{"k":"$(spelled "$token")"},"tool_call_id":"c-$token","location":"a","agent_key":"w"}
{"type":"observation","content":{"k":"{\"k\":\"\\$(spelled "$second")\"}"},"tool_call_id":"c-$token","location":"a","agent_key":"w"}
{"type":"user_message","content":"stays","location":"a"}
{"type":"user_message","content":"of a location","location":"in-$second"}
{"type":"user_message","content":"noted","location":"a"}
{"type":"user_message","content":"noted, too","location":"a"}
END
"$tool" import "$log" "$tmp/names.jsonl" --from framework >/dev/null
"$tool" note "$log" 7 usage "\"$second\"" --json >/dev/null
"$tool" note "$log" 8 "kind-$second" 1 --json >/dev/null
"$tool" location "$log" "in-$second" '{"title":"of a location"}' >/dev/null
"$tool" location "$log" a "{\"$second\":1,\"cwd\":\"/x/$(spelled "$token")\",\"n\":2}" >/dev/null
"$tool" location "$log" a '{"title":"of a","password":13579.2468e17}' >/dev/null
session <<'END'
== names_are_reported_and_their_messages_hidden
redact $log --secrets => ^found      13 in 7 messages: => ^ *1 +now +id => ^ *2 +now +turn_id
=> ^ *3 +now +call_id => ^ *3 +now +args => ^ *4 +now +content => ^ *6 +now +location
=> ^ *7 +note +content => ^ *8 +note +type_name =3> ^ *- +facts +content
=> ^ *- +facts +location
redact $log --secrets --apply => ^hid        7 messages => ^left       [0-9]+ in the file, -> 1
=1> ^left
export $log => ^.*"stays".*$ =1> content
location $log a => ^\{"cwd":"/x/\[masked github-token\]","n":2,"title":"of a","password":"\[masked\]","\[masked npm-token\]":1\}$
compact $log $log --replace => .
$ tokens $log => ^0$ -> 1
$ grep -ac 'of a location\|13579' $log => ^0$ -> 1
export $log => ^.*"stays".*$ =1> content
redact $log --secrets --apply => ^found      0 in 0 messages$ =0> left
END

# A transcript whose path has a token, in a folder that is synced.
rm -f "$log"
mkdir -p "$tmp/of-$token"
printf "$chat" "no key" '' >"$tmp/of-$token/chat-$second.json"
session <<'END'
== paths_of_synced_files_are_hashed_when_they_have_secrets
sync $log $tmp/of-$token => ^messages   1 new
redact $log --secrets => ^found      0 in 0 messages$
$ tokens $log => ^0$ -> 1
sync $log $tmp/of-$token => ^messages   0 new
END

# The same with the state under the path itself, as it was before.
state=$("$tool" view "$log" --raw --json |
    sed -n 's/.*"location":"\(file:[^"]*\)","content":\({.*}\)}$/\1 \2/p' | tail -n 1)
name=file:$(realpath "$tmp/of-$token/chat-$second.json")
session <<'END'
== state_under_a_path_with_secrets_is_known_and_moved
$ echo "$state" => ^file:[0-9a-f]{16} \{"size":[0-9]+,
location $log $name "${state#* }" => .
location $log ${state%% *} "$(sed -E 's/:("[^"]*"|[0-9]+)/:null/g' <<<"${state#* }")" => .
sync $log $tmp/of-$token => ^messages   0 new
redact $log --secrets => ^found      2 in 0 messages => ^ *- +facts +location
redact $log --secrets --apply => ^left       [0-9]+ in the file, =1> ^left -> 1
sync $log $tmp/of-$token => ^messages   0 new
compact $log $log --replace => .
$ tokens $log => ^0$ -> 1
sync $log $tmp/of-$token => ^messages   0 new
END

exit $failed
