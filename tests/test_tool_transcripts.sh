#!/usr/bin/env bash
# Transcripts of agent programs in the command line tool: what is read in each sample (the
# table of transcripts.txt), usage by hand-checked values, branches, sync that is
# incremental and takes nothing twice, sessions, names by a piece, search, completions and
# the manual page.
. "$(dirname "$0")/tool_checks.sh"
export TZ=UTC
log=$tmp/t.log


# figure NAME WANT ARGUMENTS: a member of the JSON that the tool prints.
figure()
{
    local name=$1 want=$2
    shift 2
    run "$@"
    same "$name" "$want" "$(sed 's/.*"total"://' "$tmp/out" |
        sed -n "s/.*\"${name#*_}\":\([0-9]*\).*/\1/p" | head -n 1)"
}

# reads NAME CONTENTS: of the messages in $input.
reads()
{
    run view --json -
    same "$1" "$2" "$(sed 's/.*"content":"\([^"]*\)".*/\1/' "$tmp/out" | paste -sd' ')"
}


# ---- The samples.

if [ -d "$shared/claude-code-real" ]; then
    bash tests/transcripts.sh >"$tmp/table" 2>"$tmp/err"
    if "$tool" formats | grep -q 'without libzip\|neither'; then
        grep -v '\.eval$' tests/transcripts.txt >"$tmp/want"
        grep -v '\.eval$' "$tmp/table" >"$tmp/got"
    else
        cp tests/transcripts.txt "$tmp/want"
        cp "$tmp/table" "$tmp/got"
    fi
    equal samples "$tmp/want" "$tmp/got"
    same samples_exit 0 "$(awk 'NR > 1 && $9 != 0' "$tmp/table" | wc -l)"
    real=$shared/claude-code-real
    # By hand: the last line of each message.id.
    figure short_output_tokens 13 usage --json "$real/short.jsonl"
    figure agent_output_tokens 7 usage --json "$real/subagents/agent-aac57f5.jsonl"
    cat "$real/short.jsonl" "$real/tool_heavy.jsonl" >"$tmp/both.jsonl"
    figure both_output_tokens 225 usage --json "$tmp/both.jsonl"
    figure short_cache_read_tokens 11515 usage --json "$real/short.jsonl"
    # The last running total of the rollout.
    rollout=$(find "$shared/codex-rollout" -name 'rollout-*')
    figure codex_output_tokens 374 usage --json "$rollout"
    figure codex_cache_read_tokens 37120 usage --json "$rollout"
    figure litellm_output_tokens 146 usage --json \
        "$shared/openhands-events/litellm-completion-log.json"

    dag=$real/dag_compact_after_rewind.jsonl
    input=
    counts rewound 0 'First a' view "$dag" --json
    found_by alive 9 ''
    check raw_shows_all 0 'First attempt' '' view "$dag" --raw
    check history_begins_at_compaction 0 '"content":"This session is being' '' \
        history "$dag" --format openai
    same history_has_nothing_before '' "$(grep -o 'Keep going' "$tmp/out")"
    check history_all 0 'Keep going' '' history "$dag" --format openai --all
    for provider in openai anthropic gemini; do
        for file in "$real/tool_heavy.jsonl" "$rollout" \
            "$shared/cline-session/session.messages.json" \
            "$shared/gemini-cli/session-2026-01-16T11-01-37b7abef.json"; do
            run history --format "$provider" "$file"
            accepted "request_${provider}_$(basename "$file")" "$provider"
        done
    done

    # A home folder with samples in their usual places.
    export HOME=$tmp/home
    mkdir -p "$HOME/.claude/projects/spotter/ID/subagents" "$HOME/.codex/sessions/2026/05/11" \
        "$HOME/.gemini/tmp/h/chats" "$HOME/.local/share/opencode" "$HOME/.pi/agent/sessions" \
        "$HOME/.copilot/session-state/copilot_stage0_small"
    cp "$real"/{short,tool_heavy}.jsonl "$HOME/.claude/projects/spotter/"
    cp "$real"/subagents/*.jsonl "$HOME/.claude/projects/spotter/ID/subagents/"
    cp "$rollout" "$HOME/.codex/sessions/2026/05/11/"
    cp "$shared"/gemini-cli/*.json* "$HOME/.gemini/tmp/h/chats/"
    cp -r "$shared/opencode-storage" "$HOME/.local/share/opencode/storage"
    cp "$shared/pi-session/large-session.jsonl" "$HOME/.pi/agent/sessions/"
    cp "$shared/copilot-cli/events-small.jsonl" \
        "$HOME/.copilot/session-state/copilot_stage0_small/events.jsonl"
    chmod -R u+w "$HOME"
    check home_sync 0 '^sessions   10 new' '' sync "$log"
    check home_again 0 '^files      0 read, 12 unchanged' '' sync "$log"
    check home_again_nothing 0 '^messages   0 new, 0 taken back' '' sync "$log"
    counts home_sessions 10 '' sessions "$log"
    same home_newest 019e1625 "$(awk 'NR == 1 { print $3 }' "$tmp/out")"
    check home_agent 0 'gemini-cli' '' sessions "$log" --agent gemini
    found_by home_agent_only 2 ''
    check home_cwd 0 'codemie-code' '' sessions "$log" --cwd codemie
    check home_grep 0 'start phoenix' '' sessions "$log" --grep 'phoenix in back'
    found_by home_grep_only 1 ''
    check home_since 0 '' '' sessions "$log" --since '2 days ago'
    check home_json 0 '"session":"019e1625-.*"agent":"codex".*"output_tokens":374' '' \
        sessions --json "$log"
    check piece 0 '^[0-9]+ .* start phoenix' '' view "$log" d6e0bada
    check piece_not_unique 2 '' 'locations have s_stage0' view "$log" s_stage0
    check piece_unknown 4 '' 'no messages of location zz9' view "$log" zz9
    check piece_history 0 '"role":"user","content":"start phoenix' '' \
        history "$log" d6e0bada --format openai
    check piece_export 0 '"content":"start phoenix' '' export "$log" --session d6e0bada
    check piece_not_for_changes 4 '' 'no messages' rewind "$log" 1 --location d6e0bada
    check search_context 0 'start phoenix' '' search "$log" 'phoenix in back' -C 2
    found_by search_context_rows 3 ''
    check search_json 0 '"session":"d6e0bada.*"field":"content"' '' \
        search "$log" 'phoenix in back' --json
    # Sessions come into the log by their folders; what is found comes by its time.
    for order in -r --oldest; do
        run search "$log" e --json -n 40 ${order#-r}
        same "search_by_time_$order" 40 "$(sed 's/.*"time":\([0-9.]*\).*/\1/' "$tmp/out" |
            sort -c -g ${order%--oldest} 2>&1 && wc -l <"$tmp/out")"
    done
    figure home_output_tokens 88376 usage --json "$log"
    check usage_day 0 ' 2026-05-11$' '' usage "$log" --by day
    check usage_tool 0 ' Bash$' '' usage "$log" --by tool
    check usage_agent 0 ' claude-code/aac57f5$' '' usage "$log" --by agent
    echo '{"claude-opus-4-6":{"input_cost_per_token":1e-6,"output_cost_per_token":1e-3,
        "cache_read_input_token_cost":0,"cache_creation_input_token_cost":0}}' >"$tmp/prices"
    check prices 0 ' 0\.23  claude-opus-4-6$' '' usage "$log" --prices "$tmp/prices"
    check prices_missing 0 '^no price: gpt-5.5' '' usage "$log" --prices "$tmp/prices"
    check prices_bad 1 '' 'prices by model' usage "$log" --prices "$dag"

    # A file that grows, one that moves, one that is rewritten.
    grown=$HOME/.claude/projects/spotter/grown.jsonl
    head -n 6 "$dag" >"$grown"
    check grow_first 0 '^messages   6 new, 2 taken back' '' sync "$log" "$grown"
    cp "$dag" "$grown"
    check grow_more 0 '^messages   5 new, 0 taken back' '' sync "$log" "$grown"
    figure grow_output_tokens 25 usage --json "$log" s1
    mkdir "$HOME/elsewhere"
    mv "$grown" "$HOME/elsewhere/"
    check moved 0 '^messages   0 new' '' sync "$log" "$HOME/elsewhere"
    printf '%s' '{"type":"user","uuid":"x","sessionId":"s1","message":{"rol' \
        >>"$HOME/elsewhere/grown.jsonl"
    check half_a_line_waits 0 '^messages   0 new' '' sync "$log" "$HOME/elsewhere"
    echo 'e":"user","content":"late"}}' >>"$HOME/elsewhere/grown.jsonl"
    check half_a_line_ended 0 '^messages   1 new' '' sync "$log" "$HOME/elsewhere"
    chat=$HOME/.gemini/tmp/h/chats/session-2026-01-16T11-01-37b7abef.json
    sed 's/remove 2 and 3 line/remove all lines/' "$chat" >"$tmp/chat"
    cp "$tmp/chat" "$chat"
    check rewritten 0 '^messages   [1-9][0-9]? new, [1-9][0-9]? taken back' '' sync "$log"
    # What was redacted does not come back when the file changes behind it.
    seq=$("$tool" search "$log" 'expore repository' --json | sed 's/.*"seq":\([0-9]*\).*/\1/')
    run redact "$log" "$seq" --apply
    sed 's/remove all lines/remove no line/' "$chat" >"$tmp/chat"
    cp "$tmp/chat" "$chat"
    check redacted_stays 0 '^messages   [1-9][0-9]? new' '' sync "$log"
    check redacted_gone 1 '' '' search "$log" 'expore repository'
    check rewritten_again 0 '^messages   0 new, 0 taken back' '' sync "$log"
    if command -v zstd >/dev/null && "$tool" formats | grep -q 'files: zstd'; then
        zstd -q --rm "$HOME/.codex/sessions/2026/05/11"/*.jsonl
        check compressed 0 '^messages   0 new, 0 taken back' '' sync "$log"
        check compressed_view 0 'show tools' '' view "$HOME/.codex/sessions"
    else
        echo "skip compressed: no zstd"
    fi
    # A file that is emptied and comes back, and one that shrinks; two that write at once.
    cp "$real/tool_heavy.jsonl" "$tmp/moving.jsonl"
    run sync "$tmp/moving.log" "$tmp/moving.jsonl"
    : >"$tmp/moving.jsonl"
    check emptied_stays 0 '^messages   0 new, 0 taken back' '' sync "$tmp/moving.log" "$tmp/moving.jsonl"
    cp "$real/tool_heavy.jsonl" "$tmp/moving.jsonl"
    check emptied_comes_back 0 '^messages   0 new, 0 taken back' '' sync "$tmp/moving.log" "$tmp/moving.jsonl"
    head -n 12 "$real/tool_heavy.jsonl" >"$tmp/moving.jsonl"
    check shrunk 0 '^messages   0 new, 18 taken back' '' sync "$tmp/moving.log" "$tmp/moving.jsonl"
    check shrunk_keeps_all 0 '^22 ' '' view --raw "$tmp/moving.log"
    for i in 1 2 3; do "$tool" sync "$tmp/both.log" "$real" >"$tmp/both.$i" 2>&1 & done
    wait
    check both_at_once 0 'whole' '' verify "$tmp/both.log"
    check both_nothing_twice 0 '^messages   0 new' '' sync "$tmp/both.log" "$real"
    run import --keys "$tmp/keys.log" "$dag"
    check import_keys 0 '^appended   0 messages' '' import --keys "$tmp/keys.log" "$dag"
else
    echo "skip samples: no $shared/claude-code-real"
fi


# ---- Formats by lines of our own.

input='{"type":"session","harness":"mine","id":"h1","name":"A title"}
{"type":"message","message":{"role":"system","content":"be kind"}}
{"type":"message","message":{"role":"user","content":"hi"}}
{"type":"message","message":{"role":"assistant","content":"","reasoningContent":"hm","toolCalls":[{"id":"c","name":"ls","arguments":{"a":1}}]}}
{"type":"message","message":{"role":"tool","toolCallId":"c","content":"x"}}
{"type":"message","message":{"role":"assistant","content":"done"}}
{"type":"weather","sun":true}'
input_format=%s
counts sts 7 '' view --json -
check sts_call 0 '"type":"action","role":"assistant".*"call_id":"c"' 'kept whole: 1 sts:weather$' view --json -
check sts_strict 1 '*' 'line 7 .*sts:weather is unknown' view --strict -
check sts_request 0 '"messages":\[\{"role":"user","content":"hi"\}' '*' history --format anthropic -

gemini='{"sessionId":"g","projectHash":"p"}
{"id":"1","type":"user","content":"one"}
{"id":"2","type":"gemini","content":"two","tokens":{"input":5,"output":2}}'
input="$gemini
"'{"id":"2","type":"gemini","content":"two again","tokens":{"input":5,"output":3}}'
reads gemini_replaced 'one two again'
figure gemini_output_tokens 3 usage --json -
input="$gemini
"'{"$rewindTo":"2"}
{"id":"3","type":"gemini","content":"three"}'
reads gemini_rewound 'one three'
input="$gemini
"'{"$set":{"messages":[{"id":"1","type":"user","content":"one"}]}}'
reads gemini_set one

codex='{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"c","cwd":"/x"}}'
said()
{
    echo '{"timestamp":"2026-01-01T00:00:0'"$3"'Z","type":"response_item","payload":{"type":"message","role":"'"$1"'","content":[{"type":"input_text","text":"'"$2"'"}]}}'
}
input="$codex
$(said user one 1)
$(said assistant two 2)
$(said user three 3)
$(said assistant four 4)
"'{"timestamp":"2026-01-01T00:00:05Z","type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":1}}
'"$(said user five 6)"
reads codex_rolled_back 'one two five'
input="$codex
"'{"timestamp":"2026-01-01T00:00:01Z","type":"response_item","payload":{"type":"custom_tool_call","name":"apply_patch","input":"*** Begin","call_id":"p"}}
{"timestamp":"2026-01-01T00:00:01Z","type":"response_item","payload":{"type":"local_shell_call","call_id":"l","action":{"command":["ls"]}}}
{"timestamp":"2026-01-01T00:00:02Z","type":"response_item","payload":{"type":"custom_tool_call_output","call_id":"p","output":"{\"output\":\"Success\",\"metadata\":{\"exit_code\":0}}"}}
{"timestamp":"2026-01-01T00:00:03Z","type":"response_item","payload":{"type":"novelty","x":1}}'
check codex_patch 0 '"tool":"apply_patch","args":"\*\*\* Begin"' 'kept whole: 1 codex:novelty' view --json -
check codex_output 0 '"content":"Success"' '*' view --json -

input='{"type":"session","id":"p1","cwd":"/x"}
{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"one"}}
{"type":"message","id":"b","parentId":"a","message":{"role":"user","content":"two"}}
{"type":"message","id":"c","parentId":"a","message":{"role":"bashExecution","command":"ls","output":"x"}}'
reads pi_chain 'one $ ls\nx'

# OpenCode's database, as sqlite3 -json prints it.
input='[{"id":"s1","project_id":"p","directory":"/x","title":"T"}]
[{"id":"m1","session_id":"s1","time_created":1,"data":"{\"role\":\"user\",\"time\":{\"created\":1730000000000}}"},
{"id":"m2","session_id":"s1","time_created":2,"data":"{\"role\":\"assistant\",\"modelID\":\"m\",\"tokens\":{\"input\":5,\"output\":7}}"}]
[{"id":"p2","message_id":"m2","session_id":"s1","data":"{\"type\":\"text\",\"text\":\"there\"}"},
{"id":"p1","message_id":"m1","session_id":"s1","data":"{\"type\":\"text\",\"text\":\"hi\"}"}]'
reads opencode_rows 'hi there'
figure opencode_output_tokens 7 usage --json -
# Roo Code: what its answers cost stands in another file. A request that failed was paid for.
roo=$tmp/roo/tasks/t1
mkdir -p "$roo"
printf '%s' '[{"ts":10,"role":"user","content":[{"type":"text","text":"<task>do it</task>"}]},
{"ts":30,"role":"assistant","content":[{"type":"text","text":"one"}]},
{"ts":40,"role":"user","content":[{"type":"text","text":"more"}]},
{"ts":60,"role":"assistant","content":[{"type":"text","text":"two"}]}]' >"$roo/api_conversation_history.json"
asked()
{
    printf '{"ts":%s,"type":"say","say":"api_req_started","modelInfo":{"modelId":"m"},"text":"{\\"request\\":\\"x\\",\\"tokensIn\\":%s,\\"tokensOut\\":%s,\\"cacheReads\\":%s,\\"cacheWrites\\":0,\\"cost\\":0.5}"},\n' "$@"
}
{ printf '[{"ts":1,"type":"say","say":"text","text":"do it"},\n'; asked 15 5 0 0; asked 20 10 7 100
    asked 50 200 8 100; asked 70 1 2 0; printf '{"ts":80,"type":"say","say":"api_req_started","text":"{}"}]'; } \
    >"$roo/ui_messages.json"
figure roo_output_tokens 17 usage --json "$roo/api_conversation_history.json"
figure roo_input_tokens 116 usage --json "$roo/api_conversation_history.json"
figure roo_cache_read_tokens 200 usage --json "$roo/api_conversation_history.json"
figure roo_answers 3 usage --json "$roo/api_conversation_history.json"
same roo_folder 4 "$("$tool" view --json "$tmp/roo" 2>"$tmp/err" | wc -l)"
# A list of messages beside others, and bytes that are not UTF-8 in what is kept whole.
input='{"info":{"exit_status":"Submitted"},"messages":[{"role":"user","content":"do"},{"role":"exit","content":""}]}'
check mini_swe 0 ' user_message  do$' '' view -
printf '{"foo":"a\xff"}\n{"type":"task","content":"x"}\n' >"$tmp/odd.jsonl"
check odd_bytes 3 ' task  ' 'kept whole: 1 object' view "$tmp/odd.jsonl"

# JSON that is none: the rest is read.
input='{"type":"user","uuid":"1","sessionId":"s","message":{"role":"user","content":"one"}}
{"type":"user","uuid":"2","sess
{"type":"user","uuid":"3","sessionId":"s","message":{"role":"user","content":"three"}}'
check bad_line 3 '^1 .* one$' 'line 2, column [0-9]+ .*; left out' view -
found_by bad_line_rest 2 ''
check bad_line_strict 1 '*' 'line 2' view --strict -
# Dangling parents hang on the entry before.
input='{"type":"user","uuid":"1","parentUuid":"gone","sessionId":"s","message":{"role":"user","content":"one"}}
{"type":"user","uuid":"2","parentUuid":"lost","sessionId":"s","message":{"role":"user","content":"two"}}'
counts dangling 2 '' view --json -
input_format=%b
input=


# ---- What shells and man(1) read.

check formats 0 '^claude-code +Claude Code' '' formats
check formats_json 0 '"name":"gemini-cli".*"writes":false' '' formats --json
for shell in bash zsh fish; do
    run completion $shell
    cp "$tmp/out" "$tmp/completion.$shell"
    same "completion_$shell" 0 "$status"
    if command -v $shell >/dev/null; then
        same "completion_${shell}_parses" '' "$($shell -n "$tmp/completion.$shell" 2>&1)"
    else
        echo "skip completion_$shell: no $shell"
    fi
done
complete_in()
{
    bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _msgstore; echo "${COMPREPLY[*]}"' - "$tmp/completion.bash" "$@"
}
same complete_command sessions "$(complete_in msgstore ses)"
same complete_option --since "$(complete_in msgstore sessions --si)"
same complete_word session "$(complete_in msgstore usage --by ses)"
if command -v fish >/dev/null; then
    same complete_fish '--grep' "$(HOME=$tmp fish -c "source $tmp/completion.fish
        complete -C 'msgstore sessions --gr'" 2>/dev/null | cut -f 1)"
fi
check completion_unknown 2 '' 'bash, zsh or fish' completion ksh
check manual 0 '^\.Ss msgstore sync' '' manual
if command -v mandoc >/dev/null; then
    same manual_clean '' "$(mandoc -T lint <"$tmp/out" 2>&1 | head -n 3)"
else
    echo "skip manual_clean: no mandoc"
fi
# Every option that the help shows is in the manual and in the completions.
lost=
for command in $("$tool" -h | awk '/^  [a-z]+ +[a-z]/ && !/msgstore/ { print $1 }'); do
    for option in $("$tool" "$command" -h | grep -oE '^  (-., )?--[a-z-]+' | sed 's/.*--//'); do
        grep -q "$command) options='.* --$option[ ']" "$tmp/completion.bash" || lost="$lost $command:$option"
    done
done
same options_complete '' "$lost"


# ---- Pager, colours, words for times, wide characters.

if has_terminal; then
    same paged 31 "$(on_terminal "MSGSTORE_PAGER='sed s/^/PAGED/'" | grep -c ^PAGED)"
    same paged_colour yes "$(on_terminal "MSGSTORE_PAGER='sed s/^/PAGED/'" |
        grep -q "$(printf '\033')\[1m" && echo yes)"
    same not_paged 0 "$(on_terminal 'PAGER=cat' | grep -c ^PAGED)"
    if [ -d "$shared/claude-code-real" ]; then
        for columns in 80 140; do
            same "sessions_width_$columns" '' "$(script -qec "stty cols $columns
                NO_COLOR=1 $tool sessions $log" /dev/null </dev/null | tr -d '\r' |
                sed 's/…/./g' | awk -v n=$columns 'length > n')"
        done
    fi
else
    echo "skip pager: there is no script(1)"
fi
for when in now today yesterday '2 days ago' 3h '1 week ago' 'last month' 90min; do
    check "when_$when" 0 '' '' view $demo --since "$when"
done
input='{"type":"task","content":"大阪店 report","location":"店舗","agent_key":"a"}
{"type":"task","content":"plain","location":"shop","agent_key":"b"}'
run view -
same wide_aligned 1 "$(sed 's/大阪店/xxxxxx/; s/店舗/xxxx/' "$tmp/out" | awk '{ print index($0, "task") }' | sort -u | wc -l)"

exit $failed
