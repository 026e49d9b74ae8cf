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
compact-context $log t --keep-tokens 60 -> 4 no messages of location t
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
compact-context $log s --keep-tokens 60 --summary $tmp/cut --model m -> 1 cut off
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
exit "$failed"
