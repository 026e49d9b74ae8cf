#!/usr/bin/env bash
# The context of an agent in the command line tool: msgstore compact-context, and what
# transcripts of agent programs have of compactions: as messages, in a history, and in the
# transcript of another program.
. "$(dirname "$0")/tool_checks.sh"
log=$tmp/c.log

# turns FIRST LAST: so many turns of a user and a worker.
turns()
{
    local i
    for i in $(seq "$1" "$2"); do
        printf '{"type":"user_message","content":"question-%d."}\n' "$i"
        printf '{"type":"action","tool":"look","args":{},"call_id":"c%d"}\n' "$i"
        printf '{"type":"observation","content":"result-%d.","call_id":"c%d"}\n' "$i" "$i"
        printf '{"type":"assistant_message","content":"answer-%d."}\n' "$i"
    done
}

# fresh: a new log of six turns.
fresh()
{
    rm -f "$log"
    turns 1 6 | "$tool" import "$log" - --location s >/dev/null
}

# asked ARGUMENTS: the questions that a request has.
asked()
{
    "$tool" "$@" | grep -o 'question-[0-9]' | sort -u | sed 's/.*-//' | paste -sd' '
}

openai='{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"BODY"}}],"usage":{"prompt_tokens":90,"completion_tokens":5,"total_tokens":95}}'
session <<'END'
== context_command_is_refused_when_its_arguments_do_not_fit
compact-context $log s -> 2 needs --keep-tokens
compact-context $log s --keep-tokens x -> 2 a number, not x
compact-context $log s --keep-tokens 9 --request a --summary b -> 2 not both
compact-context $log s --keep-tokens 9 --prompt p -> 2 for --request
compact-context $log s --keep-tokens 9 --after 4 -> 2 for --summary
compact-context $log s --keep-tokens 9 -> 4 c\.log
compact-context $log s --keep-tokens 9 --summary - <<<text -> 4 c\.log

== plan_says_what_a_summary_would_cover
$ fresh
compact-context $log s --keep-tokens 60 => ^covers +16 messages, from 1 to 16$
=> ^tokens +[0-9]+, by estimate; [0-9]+ stay
compact-context $log --keep-tokens 100000 => ^covers +nothing$ -> 1
compact-context $log t --keep-tokens 60 -> 4 no messages of session t
info $log => ^messages +24,

== request_for_a_summary_has_what_it_covers
compact-context $log s --keep-tokens 60 --model m --request $tmp/ask => ^covers +16 messages
=> ^then +--summary FILE --after 16$
$ grep -o "question-[0-9]" $tmp/ask | sort -u | wc -l => ^4$
check --as openai $tmp/ask =0>
compact-context $log s --keep-tokens 60 --model m --request - => "model":"m".*question-4.*Summarise the conversation =0> question-5
compact-context $log s --keep-tokens 60 --model m --as anthropic --request - => "max_tokens"
$ echo 'Tell me all.' >$tmp/prompt
compact-context $log s --keep-tokens 60 --model m --request - --prompt $tmp/prompt => Tell me all =0> Summarise
compact-context $log s --keep-tokens 60 --model m --system 'Be brief.' --request - => Be brief
compact-context $log s --keep-tokens 60 --request $tmp/none -> 2 needs --model
compact-context $log s --keep-tokens 100000 --model m --request $tmp/none -> 1 nothing can be covered
compact-context $log s --keep-tokens 60 --model m --request $log -> 2 not written to
$ ls $tmp =0> none
info $log => ^messages +24,

== summary_takes_the_place_of_what_it_covers
compact-context $log s --keep-tokens 60 --summary - <<<$'  The SUM.\n' => ^appended +message 25$
=> ^covers +16 messages, from 1 to 16$ => ^tokens +[0-9]+ before, [0-9]+ now
$ asked history $log s --format openai => ^5 6$
$ asked history $log s --format openai --all => ^1 2 3 4 5 6$
history $log s --format openai => conversation_summary>\\nThe SUM\.\\n
view $log --json => "compaction":\{"keep":8,"cause":"manual","tokens_before":[0-9]+
rewind $log 24 --location s => hidden
$ asked history $log s --format openai => ^1 2 3 4 5 6$

== summary_is_read_from_the_body_of_an_answer
$ fresh
$ echo $openai >$tmp/body
compact-context $log s --keep-tokens 60 --summary $tmp/body --model m => ^appended +message 25$
history $log s --format openai => conversation_summary>\\nBODY\\n
usage $log => ^ +1 +90
$ fresh
$ sed s/stop/length/ $tmp/body >$tmp/cut
compact-context $log s --keep-tokens 60 --summary $tmp/cut --model m -> 1 stopped for "length"
compact-context $log s --keep-tokens 60 --summary - <<<'{"error":{"message":"overloaded"}}' -> 1 .
compact-context $log s --keep-tokens 60 --summary - <<<'data: {"a":1}' -> 1 events of a stream
compact-context $log s --keep-tokens 60 --summary - <<<' ' -> 1 needs a summary
compact-context $log s --keep-tokens 60 --summary $tmp/none -> 4 none
view $log =24> .

# Between request and answer another process appends: a plan of now would cover more.
== summary_covers_no_message_that_it_was_not_made_of
$ fresh
$ turns 7 9 | "$tool" append $log --location s >$tmp/numbers
compact-context $log s --summary - --after 16 <<<SUM => ^covers +what is up to message 16$
$ asked history $log s --format openai => ^5 6 7 8 9$
compact-context $log s --summary - --after 99 <<<SUM -> 4 99
END


# ---- Compactions in transcripts.

# claude_line ROLE SECOND UUID PARENT TEXT [MORE]
claude_line()
{
    printf '{"type":"%s","uuid":"%s","parentUuid":%s,"sessionId":"s1","cwd":"/w","version":"2.1.0","timestamp":"2026-01-02T03:04:%02dZ","message":{"role":"%s","content":"%s"}%s}\n' \
        "$1" "$3" "$4" "$2" "$1" "$5" "${6:-}"
}

claude()
{
    claude_line user 1 u1 null question-1.
    claude_line assistant 2 a1 '"u1"' answer-1.
    claude_line user 3 dead '"a1"' question-7.
    claude_line user 4 u2 '"a1"' question-2.
    claude_line assistant 5 a2 '"u2"' answer-2.
    echo '{"type":"system","subtype":"compact_boundary","uuid":"b","parentUuid":null,"logicalParentUuid":"a2","sessionId":"s1","timestamp":"2026-01-02T03:04:06Z","compactMetadata":{"trigger":"auto","preTokens":1234'"$1"'}}'
    claude_line user 7 s '"b"' 'THE SUMMARY' ',"isCompactSummary":true'
    claude_line user 8 u3 '"s"' question-3.
    claude_line assistant 9 a3 '"u3"' answer-3.
}

codex()
{
    local at='"timestamp":"2026-01-02T03:04:05Z"'
    said() { printf '{"type":"message","role":"%s","content":[{"type":"input_text","text":"%s"}]}' "$1" "$2"; }
    item() { printf '{%s,"type":"response_item","payload":%s}\n' "$at" "$(said "$1" "$2")"; }
    echo "{$at,\"type\":\"session_meta\",\"payload\":{\"id\":\"x1\",\"cwd\":\"/w\"}}"
    echo "{$at,\"type\":\"turn_context\",\"payload\":{\"model\":\"gpt-5\"}}"
    item user question-1.
    item assistant answer-1.
    item user question-2.
    item assistant answer-2.
    echo "{$at,\"type\":\"compacted\",\"payload\":{\"message\":\"$1\"$2}}"
    item user question-3.
    item assistant answer-3.
}

pi()
{
    line() { printf '{"type":"message","id":"%s","parentId":%s,"timestamp":"2026-01-02T03:04:05Z","message":{"role":"%s","content":[{"type":"text","text":"%s"}]}}\n' "$@"; }
    echo '{"type":"session","version":3,"id":"p1","cwd":"/w","timestamp":"2026-01-02T03:04:05Z"}'
    line u1 null user question-1.
    line a1 '"u1"' assistant answer-1.
    line u2 '"a1"' user question-2.
    line dead '"u2"' assistant answer-7.
    line a2 '"u2"' assistant answer-2.
    echo '{"type":"compaction","id":"c","parentId":"a2","timestamp":"2026-01-02T03:04:06Z","summary":"THE SUMMARY","firstKeptEntryId":"'"$1"'","tokensBefore":1234}'
    line u3 '"c"' user question-3.
    line a3 '"u3"' assistant answer-3.
}

opencode()
{
    said() { printf '{"info":{"id":"%s","role":"%s","time":{"created":1}%s},"parts":[{"type":"text","text":"%s"}%s]}' "$@"; }
    printf '{"info":{"id":"o1","title":"t"},"messages":['
    said m1 user '' question-1. ''; printf ,
    said m2 assistant '' answer-1. ''; printf ,
    said m3 user '' question-2. ''; printf ,
    said m4 assistant '' answer-2. ''; printf ,
    printf '{"info":{"id":"m5","role":"user","time":{"created":2}},"parts":[{"type":"compaction","auto":true%s}]},' "$1"
    said m6 assistant ',"summary":true,"mode":"compaction"' 'THE SUMMARY' ''; printf ,
    said m7 user '' question-3. ''
    printf ']}\n'
}

gemini()
{
    echo '{"sessionId":"g1","projectHash":"h","startTime":"2026-01-02T03:04:05Z","messages":[{"id":"1","timestamp":"2026-01-02T03:04:05Z","type":"user","content":"question-1."},{"id":"2","timestamp":"2026-01-02T03:04:05Z","type":"gemini","content":"answer-1."},{"id":"3","timestamp":"2026-01-02T03:04:05Z","type":"user","content":"<state_snapshot>THE SUMMARY</state_snapshot>"},{"id":"4","timestamp":"2026-01-02T03:04:05Z","type":"user","content":"question-3."}]}'
}

claude '' >"$tmp/claude.jsonl"
claude ',"preservedSegment":{"headUuid":"u2","anchorUuid":"s","tailUuid":"a2"}' >"$tmp/segment.jsonl"
codex 'THE SUMMARY' '' >"$tmp/codex.jsonl"
codex 'THE SUMMARY' ',"replacement_history":[{"type":"message","role":"user","content":[{"type":"input_text","text":"question-2."}]},{"type":"message","role":"user","content":[{"type":"input_text","text":"THE SUMMARY"}]}]' >"$tmp/history.jsonl"
codex '' ',"replacement_history":[{"type":"message","role":"user","content":[{"type":"input_text","text":"question-2."}]},{"type":"compaction","encrypted_content":"SEALED"}]' >"$tmp/sealed.jsonl"
pi u2 >"$tmp/pi.jsonl"
pi c >"$tmp/none.jsonl"
pi gone >"$tmp/gone.jsonl"
opencode '' >"$tmp/opencode.json"
opencode ',"tail_start_id":"m3"' >"$tmp/tail.json"
gemini >"$tmp/gemini.json"

session <<'END'
== transcript_has_its_compaction_as_a_message
view $tmp/claude.jsonl --json => "type":"compaction".*"content":"THE SUMMARY" => "keep":0,"cause":"auto","tokens_before":1234
view $tmp/pi.jsonl --json => "type":"compaction".*"content":"THE SUMMARY" => "keep":2,"tokens_before":1234
view $tmp/opencode.json --json => "type":"compaction".*"content":"THE SUMMARY" => "keep":0,"cause":"auto"
view $tmp/gemini.json --json => "type":"compaction".*"content":"<state_snapshot>
view $tmp/claude.jsonl --raw =0> note

== context_of_a_transcript_is_what_its_program_sends
$ asked history $tmp/claude.jsonl --format openai => ^3$
history $tmp/claude.jsonl --format openai => ^\[\{"role":"user","content":"THE SUMMARY
$ asked history $tmp/segment.jsonl --format openai => ^2 3$
$ asked history $tmp/codex.jsonl --format openai => ^3$
history $tmp/codex.jsonl --format openai => ^\[\{"role":"user","content":"THE SUMMARY
$ asked history $tmp/pi.jsonl --format openai => ^2 3$
history $tmp/pi.jsonl --format openai => THE SUMMARY =0> answer-7
$ asked history $tmp/none.jsonl --format openai => ^3$
$ asked history $tmp/gone.jsonl --format openai => ^1 2 3$
$ asked history $tmp/opencode.json --format openai => ^3$
$ asked history $tmp/tail.json --format openai => ^2 3$
$ asked history $tmp/gemini.json --format gemini => ^3$
$ asked history $tmp/pi.jsonl --format openai --all => ^1 2 3$
history $tmp/pi.jsonl --format openai --report => * -> 0 ^ +2  covered by a compaction
history $tmp/pi.jsonl =$1> 3 5 6 7 8
history $tmp/pi.jsonl --all =$1> 1 2 3 5 6 7 8
history $tmp/claude.jsonl =$1> 6 7 8

# What a program has as items goes to the Responses API as it is; others get its texts, and
# where only the model reads the summary they get the messages.
== items_of_codex_go_back_to_their_provider
history $tmp/history.jsonl --format openai-responses => question-2\."\}\]\},\{"type":"message","role":"user","content":\[\{"type":"input_text","text":"THE SUMMARY"\}\]\},.*question-3 =0> question-1
history $tmp/history.jsonl --format anthropic => question-2\.\\n\\nTHE SUMMARY.*question-3 =0> question-1
$ asked history $tmp/sealed.jsonl --format anthropic => ^1 2 3$
history $tmp/sealed.jsonl --format anthropic --report => * -> 0 ^ +1  newer compactions

# A compaction that does not say what stays, and that is no reason to send less.
== compaction_without_a_count_of_what_stays_is_passed_over
$ turns 1 2 >$tmp/blind.jsonl; echo '{"type":"compaction","content":"BLIND","compaction":{"keep":"4"}}' >>$tmp/blind.jsonl; "$tool" import $tmp/blind.log $tmp/blind.jsonl --location s
history $tmp/blind.log s --format openai --report => question-1.*question-2 -> 0 ^ +1  newer compactions =0> BLIND
hand-over $tmp/blind.log s --to pi --report => question-1 -> 0 ^ +1  left out: compactions that do not say what they keep =0> BLIND
$ sed 's/"4"/40/' $tmp/blind.jsonl >$tmp/more.jsonl; "$tool" import $tmp/more.log $tmp/more.jsonl --location s
history $tmp/more.log s --format openai --report => BLIND.*question-1.*question-2 -> 0 ^ +32  messages that it keeps are not there

# A format that has all members of a message has its maker, too.
== items_go_back_to_their_provider_through_an_export
$ rm -f $tmp/i.log $tmp/o.log; "$tool" import $tmp/i.log $tmp/sealed.jsonl >/dev/null 2>&1; "$tool" view $tmp/i.log --format framework --with-location >$tmp/i.jsonl; "$tool" import $tmp/o.log $tmp/i.jsonl >/dev/null
$ for f in i o; do "$tool" history $tmp/$f.log x1 --format openai-responses --all >$tmp/$f.all; "$tool" history $tmp/$f.log x1 --format openai-responses; done | uniq | wc -l => ^1$
history $tmp/o.log x1 --format openai-responses => SEALED

== sync_reads_a_compacted_session_once
sync $tmp/sync.log $tmp/pi.jsonl => ^messages +8 new, 1 taken back -> 0 *
sync $tmp/sync.log $tmp/pi.jsonl => ^messages +0 new -> 0 *
$ asked history $tmp/sync.log p1 --format openai => ^2 3$
$ head -n 7 $tmp/pi.jsonl >$tmp/part.jsonl; rm -f $tmp/sync.log
sync $tmp/sync.log $tmp/part.jsonl => . -> 0 *
$ cp $tmp/pi.jsonl $tmp/part.jsonl
sync $tmp/sync.log $tmp/part.jsonl => ^messages +2 new, 0 taken back -> 0 *
$ asked history $tmp/sync.log p1 --format openai => ^2 3$

# ---- and in the transcripts that the tool writes.
== written_transcript_has_the_compaction
$ for to in claude-code codex opencode gemini-cli pi; do "$tool" hand-over $tmp/pi.jsonl --to $to -o $tmp/to.$to.jsonl || echo no; done =0> ^no$ -> 0 left out [0-9]+ parts?
$ grep -c compact_boundary $tmp/to.claude-code.jsonl => ^1$
$ grep '"type":"compacted"' $tmp/to.codex.jsonl => "message":"THE SUMMARY","replacement_history":\[.*THE SUMMARY.*question-2.*answer-2
$ grep '"type":"compaction"' $tmp/to.pi.jsonl => "summary":"THE SUMMARY","firstKeptEntryId":".*"tokensBefore":1234
$ asked history $tmp/to.claude-code.jsonl --format openai => ^2 3$
$ asked history $tmp/to.codex.jsonl --format openai-responses => ^2 3$
$ asked history $tmp/to.codex.jsonl --format openai => ^2 3$
$ asked history $tmp/to.pi.jsonl --format openai => ^2 3$
$ cat $tmp/to.opencode.jsonl => "type":"compaction","auto":false,"tail_start_id":"msg_[0-9a-f]*".*"summary":true.*THE SUMMARY
$ grep '"\$set"' $tmp/to.gemini-cli.jsonl => <state_snapshot>.nTHE SUMMARY.*question-2.*answer-2
$ asked history $tmp/to.opencode.jsonl --format openai => ^2 3$
$ asked history $tmp/to.gemini-cli.jsonl --format openai => ^2 3$
$ for to in claude-code codex pi; do "$tool" hand-over $tmp/claude.jsonl --to $to | "$tool" history - --format openai-responses | grep -o 'question-[0-9]' | sort -u; done => ^question-3$ =3> .
hand-over $tmp/sealed.jsonl --to pi --report => question-1 -> 0 ^ +1  left out: compactions that only their maker reads
hand-over $tmp/sealed.jsonl --to codex => "replacement_history":\[.*SEALED
END

# The longest session of the data: 1111 messages of pi.
long=$shared/pi-session/large-session.jsonl
if [ -f "$long" ]; then
    session <<'END'
== long_session_is_compacted_by_hand
$ rm -f $tmp/long.log; "$tool" import $tmp/long.log $long >/dev/null 2>&1; cp $tmp/long.log $tmp/before.log
$ "$tool" history $tmp/long.log --format anthropic >$tmp/before; wc -c <$tmp/before => ^6[0-9]{5}$
check --as anthropic $tmp/before =0>
compact-context $tmp/long.log --keep-tokens 20000 --model m --as anthropic --request $tmp/ask => ^covers +927 messages, from 1 to 941$
compact-context $tmp/long.log --summary - --after 941 <<<'They ported the renderer.' => ^appended +message 1112$
$ "$tool" history $tmp/long.log --format anthropic >$tmp/after; wc -c <$tmp/after => ^8[0-9]{4}$
check --as anthropic $tmp/after =0>
$ head -c 1000 $tmp/after => conversation_summary>\\nThey ported the renderer\.
$ "$tool" history $tmp/long.log --format anthropic --all | cmp - $tmp/before
rewind $tmp/long.log 1111 => hidden
$ "$tool" history $tmp/long.log --format anthropic | cmp - $tmp/before
END
else
    echo "skip long_session_is_compacted_by_hand: there is no $long"
fi
exit "$failed"
