#!/usr/bin/env bash
# The message formats in build/msgstore: which format a message shows, bodies of requests,
# round trips through every format, transcripts of other programs, requests for providers
# (history --format), the linter (check), the originals of shortened messages (lookup).
#
. "$(dirname "$0")/tool_checks.sh"
input_format='%s\n'
providers='openai chat-strict anthropic gemini pydantic-ai'


# ---- Help and usage.

run -h
for word in session task envelope-rows anthropic gemini pydantic-ai claude-code lookup \
    check; do
    same "help_names_$word" yes "$(grep -qw -e "$word" "$tmp/out" && echo yes)"
done
check unknown_to 2 '' '^message formats: framework .*openai' convert --to klingon -
check to_transcript 2 '' 'a message format, not pi' convert --to pi -
check from_transcript_named 2 '' ' claude-code codex .* pi ' convert --from klingon --to openai -
check unknown_provider 2 '' '^providers: openai .*gemini' history $demo --format klingon
check unknown_as 2 '' '^providers: openai .*gemini' check --as klingon -
check as_missing 2 '' 'needs the option --as' check -
check agent_or_provider 2 '' '--agent, or --format PROVIDER' history $demo
check agent_for_format 2 '' '--agent, or --format PROVIDER' history $demo --format task
for option in '--budget 9' '--step 2' '--system x' --report; do
    # shellcheck disable=SC2086
    check "list_takes_no_${option%% *}" 2 '' "history ${option%% *} is for requests" \
        history $demo --agent orchestrator $option
done
check list_of_team 2 '' '--report is for requests' history $demo --agent orchestrator \
    --format openai --team data_worker --report
check bad_budget 2 '' 'a number, not x' history $demo --format openai --budget x
check empty_system 2 '' 'expects a text' history $demo --format openai --system ''
check three_words 2 '' 'not x$' history $demo shop-osaka x --format openai
check format_is_no_provider 0 '^\{"type":' '' history $demo --agent data_worker \
    --format framework


# ---- Which format a message shows: how it is read tells what it becomes.

# shows NAME PATTERN TEXT ARGUMENTS: in the framework format it is that.
shows()
{
    local name=$1 want=$2
    input=$3
    shift 3
    check "shows_$name" 0 "$want" '' convert --to framework - "$@"
}

shows openai '"type":"action","tool":"f","args":\{\}' '{"role":"assistant","tool_calls":
    [{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}'
shows anthropic '"type":"action","tool":"f","args":\{"a":1\},"tool_call_id":"c"' \
    '{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{"a":1}}]}'
shows anthropic_result '"type":"observation","content":"r","tool_call_id":"c"' \
    '{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"r"}]}'
shows anthropic_answer '"type":"assistant_message".*stop_reason.*end_turn' \
    '{"id":"m","type":"message","role":"assistant","stop_reason":"end_turn",
    "content":[{"type":"text","text":"hi"}]}'
shows gemini '"type":"action","tool":"f","args":\{\}' \
    '{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]}'
shows pydantic '"type":"action","tool":"f"' '{"kind":"response","parts":[
    {"part_kind":"tool-call","tool_name":"f","args":{},"tool_call_id":"c"}]}'
shows session '"type":"observation","content":"r","tool":"f".*"timestamp":' \
    '{"role":"tool","content":"r","tool_name":"f","timestamp":"2026-03-02T09:00:00Z"}'
shows session_row '"timestamp":1772442000' \
    '{"role":"user","content":"x","created_at":"2026-03-02T09:00:00Z"}'
shows openai_odd_time '"content":"a","source":".*timestamp\\":\\"yesterday' \
    '{"role":"user","content":"a","timestamp":"yesterday"}'
shows openai_with_time '"tool":"f"' '{"role":"assistant","timestamp":"yesterday",
    "tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}'
shows task '"type":"assistant_message","content":"hi"' \
    '{"type":"text","author":"agent","content":"hi"}'
shows task_wrapped '"type":"observation","content":5,"tool":"f"' '{"id":"1","task_id":"t",
    "content":{"type":"tool_response","author":"agent","tool_call_id":"c","name":"f",
    "content":5}}'
shows envelope '"type":"observation","content":"r"' '{"schema":"agents-api.message",
    "version":1,"type":"tool_result","role":"tool","content":"r","payload":{}}'
shows envelope_draft '"type":"action","tool":"f"' '{"version":1,"type":"tool_call",
    "role":"assistant","content":"","payload":{"tool_name":"f","parameters":{}}}'
shows envelope_row '"type":"final"' \
    '{"role":"assistant","content":"x","metadata":{"type":"final_result"}}'
shows framework_before_role '"type":"task"' '{"type":"task","role":"user","content":"a"}'
shows escaped_name '"type":"user_message","content":"a"' '{"r\u006fle":"user","content":"a"}'
input='{"silly":1}'
check shows_nothing 1 '' 'line 1, column 1 \(byte 0\): this message shows no format' \
    view - --strict
input='{"role":"model","parts":[{"functionCall":{"args":5}}]}'
check names_the_format 1 '' 'gemini message: ' view - --strict


# ---- Bodies of requests.

# body NAME EXPECTED TEXT ARGUMENTS: types of the messages in it, with their content.
body()
{
    local name=$1 want=$2
    input=$3
    shift 3
    run convert --to framework - "$@"
    same "body_$name" "0 $want" "$status $(sed -E \
        's/.*"type":"([a-z_]*)",.*"content":"?([^,"}]*).*/\1=\2/' "$tmp/out" | tr '\n' ' ' |
        sed 's/ $//')$(head -n 1 "$tmp/err")"
}

body openai 'user_message=a' '{"model":"m","messages":[{"role":"user","content":"a"}]}'
body anthropic 'injected_context=s user_message=a' \
    '{"model":"m","system":"s","messages":[{"role":"user","content":"a"}]}'
body anthropic_from 'injected_context=s user_message=a' \
    '{"system":"s","messages":[{"role":"user","content":"a"}]}' --from anthropic
body anthropic_null_system 'user_message=a' \
    '{"system":null,"messages":[{"role":"user","content":"a"}]}' --from anthropic
body gemini 'injected_context=s user_message=a assistant_message=b' \
    '{"systemInstruction":{"parts":[{"text":"s"}]},"contents":[
    {"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"b"}]}]}'
body system_alone 'injected_context=s' '{"system":"s","messages":[]}'
body two_bodies 'user_message=a injected_context=s user_message=b' \
    '[{"messages":[{"role":"user","content":"a"}]},
    {"system":"s","messages":[{"role":"user","content":"b"}]}]'
body from_without_sign 'user_message=a' \
    '{"messages":[{"version":1,"type":"text","role":"user","content":"a","payload":{}}]}' \
    --from envelope
input='{"system":5,"messages":[{"role":"user","content":"a"}]}'
check body_bad_system 1 '' 'column 11 \(byte 10\): the system text: ' \
    convert --from anthropic --to framework - --strict
input='{"system":"s","messages":[{"role":"user","content":"a"},{"role":"user"}]}'
check body_bad_message 1 '"content":"a"' 'column 57 \(byte 56\): .*content' convert --to framework - --strict


# ---- Each format by its name, there and back (tests/test_crossing.c has all pairs).

cat >"$tmp/openai" <<'END_OF_CHAT'
{"role":"user","content":"Which tables?"}
{"role":"assistant","content":"I look.","tool_calls":[{"id":"c1","type":"function","function":{"name":"tables","arguments":"{\"limit\":5}"}},{"id":"c2","type":"function","function":{"name":"views","arguments":"{}"}}]}
{"role":"tool","tool_call_id":"c1","content":"users, orders"}
{"role":"tool","tool_call_id":"c2","content":"none"}
{"role":"assistant","content":"Two: \"users\" and 注文."}
{"role":"user","content":"Thanks"}
END_OF_CHAT

# Some formats want the tool's name with its result, and keep it; a row that is taken for a
# chat message keeps its order of members.
unnamed()
{
    sed -E 's/("role":"tool".*),"name":"(tables|views)"/\1/
        s/("content":"[^"]*"),("tool_call_id":"[^"]*")/\2,\1/'
}

for format in $providers; do
    "$tool" convert --from openai --to "$format" "$tmp/openai" >"$tmp/$format.1"
    "$tool" convert --from "$format" --to openai "$tmp/$format.1" 2>"$tmp/err" |
        unnamed >"$tmp/back"
    equal "openai_${format}_openai" "$tmp/openai" "$tmp/back"
    "$tool" convert --to openai "$tmp/$format.1" 2>"$tmp/err" | unnamed >"$tmp/back"
    equal "openai_${format}_openai_detected" "$tmp/openai" "$tmp/back"
done


# ---- Requests: history --format PROVIDER, and check of what it prints.

# good NAME PROVIDER ARGUMENTS: a history is a request that passes; it stays in $tmp/out.
good()
{
    local name=$1 provider=$2
    shift 2
    run history "$@" --format "$provider"
    if [ "$status" -ne 0 ] || [ "$(wc -l <"$tmp/out")" -ne 1 ]; then
        fail "request_$name" "exit code $status: $(head -n 1 "$tmp/err")"
        return
    fi
    accepted "request_$name" "$provider"
}

input=$(cat "$tmp/openai")
open='{"role":"user","content":"u"}
{"role":"assistant","tool_calls":[{"id":"bad id!","type":"function","function":{"name":"a b","arguments":"[]"}}]}
{"role":"user","content":"and?"}'
for provider in $providers; do
    good "${provider}_chat" "$provider" "$tmp/openai"
    good "${provider}_demo" "$provider" $demo
    good "${provider}_agent" "$provider" $demo --agent data_worker --system 'You are.'
    good "${provider}_newest" "$provider" $demo -n 3
    good "${provider}_budget" "$provider" $demo --budget 400
    good "${provider}_step" "$provider" $demo -n 4 --step 4
    input=$open
    run convert --from openai --to "$( [ "$provider" = chat-strict ] &&
        echo openai || echo "$provider")" -
    cp "$tmp/out" "$tmp/naive"
    check "naive_$provider" 1 'naive: (messages|contents)' '' check --as "$provider" \
        "$tmp/naive"
    good "${provider}_open" "$provider" -
done

input=
run history $demo shop-osaka --format anthropic --agent orchestrator --system 'You are.'
same request_system '{"system":"You are.' "$(head -c 19 "$tmp/out")"
check request_location 4 '' 'no messages of location x' history $demo x --format openai
same request_location_option "$("$tool" history $demo shop-osaka --format openai)" \
    "$("$tool" history $demo --location shop-osaka --format openai)"
check request_others 0 '"content":"\[data_worker\]' '' history $demo --format openai \
    --agent report_worker
check request_of_all 0 '"tool_calls":\[\{"id"' '' history $demo --format openai
check request_report 0 '^\[' '^ +31  messages read$' history $demo --format openai --report
check request_report_window 0 '^\[' '^ +[1-9][0-9]*  left out before the window$' \
    history $demo --format openai --report -n 5
check request_silent 0 '^\[' '' history $demo --format openai
check request_budget_small 1 '' 'the budget is 3' history $demo --format openai --budget 3
input='{"role":"user","content":"a"}
{"role":"assistant","content":"b"}
{"role":"user","content":"c"}'
run history - --format openai -n 1
same request_newest '[{"role":"user","content":"c"}]' "$(cat "$tmp/out")"
input='[{"task_id":1,"traj":[{"role":"user","content":"one"}]},
    {"task_id":2,"traj":[{"role":"user","content":"two"}]}]'
check request_needs_location 2 '' 'locations: (1, 2|2, 1)' history - --format gemini
check request_second_location 0 '"text":"two"' '' history - 2 --format gemini

# With an option of lists they stay lines, one a message.
run history $demo --agent data_worker --timeline --format anthropic
same list_of_provider '0 yes' "$status $([ "$(wc -l <"$tmp/out")" -gt 5 ] && echo yes)"


# ---- check: the violations, the files, the exit codes.

input='[{"role":"user","content":"a"},{"role":"tool","tool_call_id":"x","content":"r"}]'
check lint_line 1 '^standard input: messages\[1\]\.tool_call_id: ' '' check --as openai -
check lint_default_input 1 '^standard input: messages\[1\]' '' check --as openai
input='{"model":"m","stream":true,"messages":[{"role":"tool","tool_call_id":"x","content":"r"}]}'
check lint_body 1 '^standard input: messages\[0\]\.tool_call_id: ' '' check --as openai -
input='{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"}]}'
check lint_body_fine 0 '' '' check --as anthropic -
input='{"model":"m","system":5,"messages":[{"role":"user","content":"a"}]}'
check lint_body_system 1 '^standard input: system: ' '' check --as anthropic -
input='{"role":"user","content":"a"}
{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"r"}]}'
check lint_lines 1 '^standard input: messages\[1\]\.content\[0\]\.tool_use_id: ' '' \
    check --as anthropic -
input='[{"role":"user","content":"a"},{"role":"user","content":"b"}]'
check lint_ollama 1 '^standard input: messages\[1\]\.role: roles must alternate' '' check --as ollama -
input='{"role":"user","content":"a"}'
check lint_one_line 1 'standard input: ' '' check --as gemini -
input='[{"role":"user","content":"a"}'
check lint_no_json 2 '' 'standard input: line 2, column 1 \(byte 31\): ' check --as openai -
input=
check lint_empty 2 '' 'standard input: line' check --as openai -
check lint_no_file 2 '' 'none: No such file' check --as openai "$tmp/none"
check lint_folder 2 '' 'directory' check --as openai "$tmp"
echo '[{"role":"user","content":"a"}]' >"$tmp/fine.json"
echo '[{"role":"user","content":null}]' >"$tmp/bad.json"
check lint_fine 0 '' '' check --as openai "$tmp/fine.json" "$tmp/fine.json"
check lint_second_bad 1 'bad.json: messages\[0\]\.content: ' '' check --as openai \
    "$tmp/fine.json" "$tmp/bad.json"
check lint_unreadable_first 2 'bad.json: messages\[0\]\.content: ' 'none: No such' \
    check --as openai "$tmp/none" "$tmp/bad.json"
printf '\xef\xbb\xbf[{"role":"user","content":"a"}]' >"$tmp/mark.json"
check lint_mark 0 '' '' check --as openai "$tmp/mark.json"
printf '[{"role":"\\u001b[31m","content":"a"}]' >"$tmp/nasty.json"
run check --as openai "$tmp/nasty.json"
same lint_clean '1 0' "$status $(LC_ALL=C grep -caE "$(printf '\033')" "$tmp/out")"


# ---- lookup.

input='{"role":"user","content":"first\nline"}
{"role":"assistant","content":"the long answer"}
{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}'
log=$tmp/lookup.log
run import "$log" - --location job
run import "$log" - --location 3:ann/abc
run import "$log" - --location 'x-msg-7'
same lookup_text "0 first line" \
    "$("$tool" lookup "$log" session-job-msg-1 | tr '\n' ' ' | sed 's/^/0 /; s/ $//')"
check lookup_second 0 '^the long answer$' '' lookup "$log" session-job-msg-2
check lookup_action 0 '^\{"type":"action","tool":"f"' '' lookup "$log" session-job-msg-3
check lookup_format 0 '^\{"role":"user","content":"first\\nline"\}$' '' \
    lookup "$log" session-job-msg-1 --format openai
check lookup_mark_in_name 0 '^the long' '' lookup "$log" session-x-msg-7-msg-8
check lookup_user 0 '^the long answer$' '' lookup "$log" session-abc-msg-5 --user ann
check lookup_other_user 1 '' 'not found for user bob' \
    lookup "$log" session-abc-msg-5 --user bob
check lookup_no_user 1 '' 'needs --user' lookup "$log" session-abc-msg-5
check lookup_other_place 1 '' 'session-job-msg-4: not found' lookup "$log" session-job-msg-4
check lookup_huge 1 '' 'not found' lookup "$log" session-job-msg-18446744073709551615
for key in '' job session- session-job session-job-msg- session--msg-1 session-job-msg-01 \
    session-job-msg-+1 session-job-msg--1 session-job-msg-1x msg-1; do
    check "lookup_no_key_'$key'" 1 '' 'not found' lookup "$log" "$key"
    check "lookup_no_key_of_ann_'$key'" 1 '' 'not found' lookup "$log" "$key" --user ann
done
printf '%s\n' "$input" >"$tmp/chat.jsonl"
check lookup_in_file 0 '^the long answer$' '' lookup "$tmp/chat.jsonl" session-chat-msg-2
"$tool" compact "$log" "$tmp/kept.log" --keep-last 1 >"$tmp/out"
check lookup_after_compaction 0 '"tool":"f"' '' lookup "$tmp/kept.log" session-job-msg-3
check lookup_left_out 1 '' 'not found' lookup "$tmp/kept.log" session-job-msg-2


# ---- Transcripts of other programs.

# pi LINES: a session of these messages, in $tmp/pi.jsonl.
pi()
{
    local line
    echo '{"type":"session","id":"s1","timestamp":"2025-11-20T23:33:50Z","cwd":"/x"}'
    for line in "$@"; do
        echo '{"type":"message","timestamp":"2025-11-20T23:33:51Z","message":'"$line"'}'
    done
    echo '{"type":"model_change","modelId":"m"}'
}

pi '{"role":"user","content":[{"type":"text","text":"hi"}],"timestamp":1763681630791}' \
    '{"role":"assistant","content":[{"type":"thinking","thinking":"hm","thinkingSignature":"s"},
        {"type":"text","text":"I look."},
        {"type":"toolCall","id":"c1","name":"ls","arguments":{"a":1},"partialJson":"{"}],
        "model":"m","usage":{"input":3},"timestamp":1763681630800}' \
    '{"role":"toolResult","toolCallId":"c1","toolName":"ls","details":{"n":1},
        "content":[{"type":"text","text":"a"}],"isError":false}' \
    '{"role":"toolResult","toolCallId":"c1","toolName":"ls","content":[],"isError":true}' \
    '{"role":"user","content":[{"type":"text","text":"see"},{"type":"image","data":"x"}]}' \
    '{"role":"assistant","content":[],"stopReason":"aborted"}' >"$tmp/pi.jsonl"
tr '\n' '@' <"$tmp/pi.jsonl" | sed 's/,@ */,/g' | tr '@' '\n' >"$tmp/flat.jsonl"
left_out='left out what is no message: 1 session, 1 model_change'
left_out=$left_out'|left out what is no message: 1 model_change, 1 session'
input=
check pi_read 0 '*' "$left_out" convert --to framework --with-location "$tmp/flat.jsonl"

# line NAME N PATTERN: line N of the output.
line()
{
    if sed -n "$2p" "$tmp/out" | grep -qE -e "$3"; then
        ok "$1"
    else
        fail "$1" "$(sed -n "$2p" "$tmp/out")"
    fi
}

line pi_user 1 '"type":"user_message","content":"hi","timestamp":1763681630.791,.*"location":"s1"'
line pi_line_kept 1 '"pi":\{"timestamp":"2025-11-20T23:33:51Z"\}'
line pi_thought 2 '"type":"reasoning","content":"hm".*"usage":\{"input":3\}'
line pi_part_kept 2 '"part":\{"thinkingSignature":"s"\}'
line pi_text 3 '"type":"assistant_message","content":"I look.".*"joined":true'
line pi_call 4 '"type":"action","tool":"ls","args":\{"a":1\}.*"tool_call_id":"c1"'
line pi_call_joined 4 '"joined":true'
line pi_call_kept 4 '"partialJson":"\{"'
line pi_result 5 '"type":"observation","content":"a","tool":"ls","timestamp":1763681631,'
line pi_details 5 '"details":\{"n":1\}'
line pi_error 6 '"type":"error","content":""'
line pi_image 7 '"content":\[\{"type":"text","text":"see"\},\{"type":"image","data":"x"\}\]'
line pi_aborted 8 '"type":"assistant_message","content":"".*"stopReason":"aborted"'
same pi_lines 8 "$(wc -l <"$tmp/out")"
equal pi_from "$tmp/out" <("$tool" convert --from pi --to framework --with-location \
    "$tmp/flat.jsonl" 2>"$tmp/err")
check pi_location 0 '"location":"here"' '*' convert --to framework --with-location \
    --location here "$tmp/flat.jsonl"
{ cat "$tmp/flat.jsonl"; sed 's/"s1"/"s2"/' "$tmp/flat.jsonl"; } >"$tmp/two.jsonl"
check pi_two_sessions 0 '^ +8 .*bytes  s2$' '*' info "$tmp/two.jsonl"
check pi_first_session 0 '^ +8 .*bytes  s1$' '*' info "$tmp/two.jsonl"
check pi_agent 0 '^ +3 .*bytes  assistant$' '*' info "$tmp/flat.jsonl"
for bad in 'x|{"role":"x","content":"a"}' 'message without content|{"role":"user"}' \
    'message without content|{"role":"user","content":5}' 'message without content|5' \
    'part|{"role":"assistant","content":[5]}'; do
    pi "${bad#*|}" >"$tmp/bad.jsonl"
    check "pi_strict_$bad" 1 '*' "line 2 \(byte [0-9]+\): pi:${bad%%|*} is unknown" \
        convert --strict --to framework "$tmp/bad.jsonl"
    check "pi_kept_$bad" 0 "\"type\":\"pi:${bad%%|*}\"" \
        "unknown, kept whole: 1 pi:${bad%%|*}$" convert --to framework "$tmp/bad.jsonl"
done
input='{"type":"message","message":{"role":"user","content":"a\ud800"},"id":"e1"}
{"type":"message","message":{"role":"user","content":"b"}}'
check pi_surrogate 1 '*' 'line 1' convert --strict --to framework -
rm -f "$log"
check pi_repaired 0 '^appended   2 messages' '' import "$log" -
check pi_id 0 '"content":"a�".*"id":"e1"' '' export "$log"

claude='"sessionId":"s2","timestamp":"2025-06-14T10:00:00Z","version":"1"'
input='{"type":"summary","summary":"s","leafUuid":"u2"}
{"type":"user","uuid":"u1","parentUuid":null,'$claude',"message":{"role":"user","content":"hi"}}
{"type":"assistant","uuid":"u2",'$claude',"message":{"id":"m","type":"message","role":"assistant","model":"x","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"t1","name":"ls","input":{"a":1}}]}}
{"type":"user","uuid":"u3",'$claude',"toolUseResult":{"n":1},"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"r","is_error":true}]}}
{"type":"assistant","uuid":"u4","isSidechain":true,'$claude',"message":{"role":"assistant","content":[{"type":"tool_use","id":"t2","name":"ls","input":{}}]}}
{"type":"progress","uuid":"u5"}'
check claude_read 0 '*' 'left out what is no message: (1 summary, 1 progress|1 progress, 1 summ)' \
    convert --to framework --with-location -
same claude_lines 5 "$(wc -l <"$tmp/out")"
line claude_user 1 '"content":"hi","timestamp":1749895200,.*"location":"s2".*"id":"u1"'
line claude_line_kept 1 '"claude-code":\{"parentUuid":null,"timestamp":.*"version":"1"\}'
line claude_text 2 '"content":"I look.".*model.*x'
line claude_call 3 '"type":"action","tool":"ls","args":\{"a":1\}.*"joined":true'
line claude_error 4 '"type":"error","content":"r".*"toolUseResult":\{"n":1\}'
line claude_side 5 '"agent_key":"sidechain"'
run convert --from claude-code --to anthropic -
line claude_to_anthropic 2 '"content":\[\{"type":"text",.*\{"type":"tool_use","id":"t1"'
input='{"type":"user","uuid":"u1",'$claude',"message":{"role":"user","content":"hi"}}
{"silly":"this"}
{"type":"user","uuid":"u2","message":"error"}
{"type":"user","uuid":"u3"}
{"type":"user","uuid":"u4","message":{"role":"user","content":[7]}}
42
{"type":"user","uuid":"u6","message":{"role":"user","content":"end"}}'
check claude_bad_line 1 '*' 'line 2 \(byte [0-9]+\): claude-code:entry without a type' \
    convert --strict --to framework -
rm -f "$log"
check claude_keeps 0 '^appended   7 messages' 'unknown, kept whole: 1 claude-code:entry' \
    import "$log" -

file=$shared/pi-session/large-session.jsonl
if [ -f "$file" ]; then
    input=
    rm -f "$log"
    check pi_real 0 '^appended   1111 messages' '103 thinking_level_change' import "$log" "$file"
    for row in '391 action' '354 observation' '19 error' '88 user_message' '1 reasoning'; do
        check "pi_real_${row#* }" 0 "^ +${row%% *} +[0-9]+ bytes  ${row#* }$" '' info "$log"
    done
    same pi_real_messages 914 "$("$tool" export "$log" | grep -cv '"joined":true')"
    same pi_real_keys 'appended   0 messages, the last is number 1111' "$(
        "$tool" import --keys "$tmp/keys.log" "$file" >"$tmp/out" 2>&1
        "$tool" import --keys "$tmp/keys.log" "$file" 2>"$tmp/err" | head -n 1)"
    for provider in $providers; do
        good "pi_real_$provider" "$provider" "$log" --report
        check "pi_real_answered_$provider" 0 '*' '^ +18  results made up' \
            history "$log" --format "$provider" --report
        good "pi_real_file_$provider" "$provider" "$file" -n 100 --step 50
    done
else
    echo "skip pi_real: no $file"
fi
file=$shared/claude-code-jsonl
if [ -d "$file" ]; then
    input=
    rm -f "$log"
    check claude_edges 0 '^appended   19 messages' \
        'unknown, kept whole: 2 claude-code:user without content, 3 claude-code:line' \
        import "$log" "$file/edge_cases.jsonl"
    for name in representative_messages session_b todowrite_examples; do
        rm -f "$log"
        check "claude_$name" 0 '^appended' '*' import "$log" "$file/$name.jsonl"
        for provider in $providers; do
            good "claude_${name}_$provider" "$provider" "$log"
        done
    done
else
    echo "skip claude_real: no $file"
fi
exit $failed
