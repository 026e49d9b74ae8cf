#!/usr/bin/env bash
# Secrets in a log, and out of it: msgstore redact --secrets shows them wherever they
# stand (messages, hidden ones, earlier words, notes, facts), erases or masks them;
# exports mask. What finds them is tests/tool/test_secrets.c. The tokens are put together
# here: they never were any.
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

# tokens FILE: how many lines of it have a token.
tokens()
{
    grep -caE "$token|$second" "$1"
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
redact $log --secrets --apply => ^erased     5 messages$
redact $log --secrets => ^found      2 in 0 messages
location $log b => "title":"with \[masked npm-token\]" => "cwd":"/tmp"
export $log => nothing, but jane@host.org
compact $log $log --replace => .
$ tokens $log => ^0$ -> 1

== secrets_are_masked_when_it_is_asked_for
$ fresh
redact $log --secrets --mask-secrets --apply => ^masked     3 messages$
export $log => "content":"use \[masked github-token\] now"
=> "args":\{"command":"x \[masked github-token\]"\}
=> "env":\{"T":"\[masked github-token\]"\}
redact $log --secrets => ^found      7 in 2 messages
redact $log --secrets --apply => .
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
redact $tmp/chat.log --secrets --mask-secrets $personal --apply => ^masked     1 message$
compact $tmp/chat.log $tmp/chat.log --replace => .
$ printf "$chat" $token "$more" >$tmp/chat.json
sync $tmp/chat.log $tmp/chat.json => ^messages   1 new, 0 taken back$
$ tokens $tmp/chat.log => ^0$ -> 1
END
done

exit $failed
