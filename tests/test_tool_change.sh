#!/usr/bin/env bash
# The commands of build/msgstore that change what a log shows (amend, hide, rewind, fork,
# note, location, redact), those that look for something in it (search, diff, view --raw,
# info --usage), several stores read as one, writers that wait for each other, and what
# follow shows of changes and of messages that are being written.
. "$(dirname "$0")/tool_checks.sh"
log=$tmp/a.log

# shown [ARGUMENTS]: number, agent and type of what a view of the log shows.
shown()
{
    "$tool" view "$log" "$@" 2>&1 |
        awk '{ printf "%s%s %s %s", (NR > 1 ? " | " : ""), $1, $3, $4 }'
}

# numbers ARGUMENTS: the first word of each line of the tool's output.
numbers()
{
    "$tool" "$@" 2>&1 | awk '{ printf "%s%s", (NR > 1 ? " " : ""), $1 }'
}

# holds TEXT: how many times the file has it.
holds()
{
    grep -aoF -e "$1" "$log" | wc -l
}

has()
{
    grep -qaE -e "$1" "$2"
}

# A call, its result and an answer, twice, in one location; and one in another.
messages()
{
    cat <<'END'
{"type":"user_message","content":"alpha"}
{"type":"action","tool":"look","args":{"limit":5,"of":["x"]},"agent_key":"w"}
{"type":"observation","content":"beta","agent_key":"w"}
{"type":"assistant_message","content":"gamma"}
{"type":"delegation","worker":"w","task":"delta","agent_key":"m"}
{"type":"final","content":"epsilon","agent_key":"w"}
END
}

# fresh [LOCATION]: a new log with these.
fresh()
{
    rm -f "$log"
    messages | "$tool" import "$log" - --location "${1:-l}" >/dev/null
}


# ---- Usage.

check rewind_many 2 '' 'two files, not 3' rewind "$log" 1 3
check fork_many 2 '' 'no x' fork "$log" l 1 k x
for number in x -1 1.5 '' 18446744073709551616; do
    check "amend_number_'$number'" 2 '' '(number of a message|understand)' \
        amend "$log" "$number" text
    check "hide_number_'$number'" 2 '' '(numbers of messages|understand)' \
        hide "$log" "$number"
    check "redact_number_'$number'" 2 '' '(number of a message|understand)' \
        redact "$log" "$number"
done
check amend_zero 2 '' 'number of a message, not 0' amend "$log" 0 text
check hide_zero 2 '' 'not 0' hide "$log" 0
check hide_backwards 2 '' 'not 4-2' hide "$log" 4-2
check hide_open_range 2 '' 'not 4-' hide "$log" 4-
check wait_word 2 '' 'milliseconds, not soon' hide "$log" 1 --wait soon
check wait_elsewhere 2 '' 'takes no option --wait' view "$log" --wait 1
check also_word 2 '' 'times, ids, numbers, rest, not time' diff a b --also time
check also_list 2 '' 'not ids,,times' diff a b --also ids,,times
check diff_three_locations 2 '' 'two --location' diff a b --location 1 --location 2 \
    --location 3
check redact_all 2 '' 'needs numbers of messages, or options' redact "$log" --apply
check redact_both 2 '' 'not both' redact "$log" 1 --agent w
check raw_agent 2 '' 'not with --conversation, --agent' view "$log" --raw --agent w
check raw_format 2 '' 'no message format' view "$log" --raw --format openai
check json_or_format 2 '' 'one of them' view "$log" --json --format openai
same usage_makes_no_file '' "$(find "$tmp" -name '*.log*')"


# ---- amend

fresh
check amend 0 '^amended +message 1$' '' amend "$log" 1 'alpha two'
check amend_shows 0 '^1 .* user_message\* +alpha two$' '' view "$log"
input='from standard input\n'
check amend_stdin 0 '.' '' amend "$log" 4
same amend_stdin_shows '4 - assistant_message*' "$(shown --conversation -n 1)"
check amend_stdin_text 0 '"content":"from standard input"' '' view "$log" \
    --format framework
input=
check amend_action 0 '.' '' amend "$log" 2 '{"limit":7}'
check amend_action_shows 0 '^2 .*action\* +look\(\{"limit":7\}\)$' '' view "$log"
check amend_action_text 1 '' 'JSON object' amend "$log" 2 'limit 7'
check amend_action_list 1 '' '.' amend "$log" 2 '[7]'
check amend_action_same 0 'look\(\{"limit":7\}\)$' '' view "$log"
check amend_delegation 0 '.' '' amend "$log" 5 'delta two'
check amend_delegation_shows 0 '^5 .*-> w: delta two$' '' view "$log"
check amend_delegation_json 1 '' 'not with --json' amend "$log" 5 --json '"x"'
check amend_json 0 '.' '' amend "$log" 3 --json ' {"rows": [1, 2]} '
check amend_json_shows 0 '"content":\{"rows":\[1,2\]\}' '' view "$log" --format framework
check amend_bad_json 1 '' 'no JSON: ' amend "$log" 3 --json '{"rows"'
check amend_message 0 '.' '' amend "$log" 3 --from framework \
    '{"type":"observation","content":"whole","summary":"s"}'
check amend_message_shows 0 '"content":"whole".*"summary":"s"' '' view "$log" \
    --format framework
check amend_message_agent 0 '^3 .* w +observation\* +whole$' '' view "$log"
check amend_type 1 '' 'type' amend "$log" 3 --from framework \
    '{"type":"task","content":"a"}'
input='{"role":"assistant","content":"a","tool_calls":[{"id":"1","type":"function",
"function":{"name":"f","arguments":"{}"}}]}'
check amend_two 1 '' 'one message was expected, this becomes 2' amend "$log" 3 \
    --from openai
input=
check amend_json_from 2 '' 'json or --from' amend "$log" 3 --json --from framework '{}'
check amend_unknown 4 '' '.' amend "$log" 7 text
same amend_order '1 2 3 4 5 6' "$(numbers view "$log")"
check amend_again 0 '.' '' amend "$log" 1 'alpha three'
check amend_newest_wins 0 '^1 .* alpha three$' '' view "$log"
check amend_info 0 '^messages +6, ' '' info "$log"
check amend_changes 0 '^changes +[1-9][0-9]* records, 0 messages hidden$' '' info "$log"
check amend_verify 0 '^verdict +whole$' '' verify "$log"


# ---- hide, rewind

fresh
check hide 0 '^hidden +2 messages$' '' hide "$log" 2 4
same hide_shows '1 - user_message | 3 w observation | 5 m delegation | 6 w final' \
    "$(shown)"
check hide_again 4 '' '.' hide "$log" 2
check hide_unknown 4 '' '.' hide "$log" 3 7
same hide_unknown_nothing '1 3 5 6' "$(numbers view "$log")"
check hide_amend 4 '' '.' amend "$log" 2 text
check hide_range 0 '^hidden +3 messages$' '' hide "$log" 2-5 6
same hide_range_shows '1 - user_message' "$(shown)"
check hide_range_none 0 '^hidden +0 messages$' '' hide "$log" 2-5
check hide_range_unknown 4 '' 'locations: l' hide "$log" 2-5 --location k
check hide_info 0 '^changes .* 5 messages hidden$' '' info "$log"
messages | "$tool" import "$log" - --location k >/dev/null
check hide_range_which 2 '' 'location is needed' hide "$log" 7-9
check hide_range_of 0 '^hidden +1 message$' '' hide "$log" 1-99 --location l
same hide_range_other 6 "$("$tool" view "$log" | wc -l)"

fresh
check rewind_dry 0 '^would hide 4 messages$' '' rewind "$log" 2 --dry-run
same rewind_dry_nothing 6 "$("$tool" view "$log" | wc -l)"
check rewind 0 '^hidden +4 messages$' '' rewind "$log" 2
same rewind_shows '1 - user_message | 2 w action' "$(shown)"
check rewind_unknown 4 '' '.' rewind "$log" 9
check rewind_hidden 5 '' 'hidden' rewind "$log" 3
input='{"type":"task","content":"on"}' \
    check rewind_goes_on 0 '^7$' '' append "$log" --location l
same rewind_numbers '1 2 7' "$(numbers view "$log")"
check rewind_clear 0 '^hidden +3 messages$' '' rewind "$log" 0 --location l
check rewind_cleared 0 '^messages +0, ' '' info "$log"
check rewind_verify 0 '^verdict +whole$' '' verify "$log"


# ---- fork, location

fresh
check location_none 0 '^\{\}$' '' location "$log" l
check location_set 0 '^set +facts of l$' '' location "$log" l '{"title":"T","model":"m"}'
check location_more 0 '.' '' location "$log" l '{"model":null,"n":[1]}'
check location_get 0 '^\{"title":"T","n":\[1\]\}$' '' location "$log" l
input='{"title":"U"}\n' check location_stdin 0 '.' '' location "$log" l -
check location_stdin_got 0 '"title":"U"' '' location "$log" l
check location_no_object 1 '' '.' location "$log" l '[1]'
check location_no_json 1 '' 'no JSON' location "$log" l '{title'
check location_ahead 0 '.' '' location "$log" later '{"a":1}'
check location_not_listed 0 '^locations +1$' '' info "$log"
check location_unknown 4 '' 'locations: l' location "$log" k
check location_ahead_got 0 '^\{"a":1\}$' '' location "$log" later
check location_of_file 0 '^\{\}$' '' location $demo shop-osaka

check fork 0 '^copied +3 messages to k$' '' fork "$log" l 3 k
same fork_shows '7 - user_message | 8 w action | 9 w observation' "$(shown --location k)"
check fork_facts 0 '"parent":"l"' '' location "$log" k
check fork_facts_seq 0 '"parent_seq":3[,}]' '' location "$log" k
check fork_facts_title 0 '"title":"U"' '' location "$log" k
check fork_again 5 '' '.' fork "$log" l 3 k
check fork_other 1 '' '.' fork "$log" l 7 j
check fork_unknown 4 '' '.' fork "$log" l 99 j
check fork_amend 0 '.' '' amend "$log" 7 'other'
check fork_apart 0 '^1 .* alpha$' '' view "$log" --location l
check fork_rewind 0 '^hidden +2 messages$' '' rewind "$log" 7 --location k
same fork_origin_whole 6 "$("$tool" view "$log" --location l | wc -l)"
check fork_empty 0 '^copied +0 messages to i$' '' fork "$log" l 0 i


# ---- note, info --usage

fresh
check note 0 '^noted +rating of message 4$' '' note "$log" 4 rating 5 --json
check note_true 0 '.' '' note "$log" 4 bookmark
check note_text 0 '.' '' note "$log" 4 remark 'well said'
input='a long one\n' check note_stdin 0 '.' '' note "$log" 4 remark -
run note "$log" 4
same note_list 'rating 5,bookmark true,remark well said,remark a long one' "$(
    sed -E 's/.* note +([a-z]+) +/\1 /' "$tmp/out" | paste -sd,)"
check note_list_json 0 '^\{"kind":"note","seq":4,.*"content":5,.*"type_name":"rating"' \
    '' note "$log" 4 --json
check note_bad_json 1 '' 'no JSON' note "$log" 4 rating --json '{'
check note_unknown 4 '' '.' note "$log" 9 rating
check note_list_unknown 4 '' '.' note "$log" 9
check note_empty_kind 1 '' '.' note "$log" 4 ''
check note_view 0 '^4 .* gamma$' '' view "$log"
check note_same_count 0 '^messages +6, ' '' info "$log"

"$tool" note "$log" 2 usage --json '{"input_tokens":100,"output_tokens":7}' >/dev/null
"$tool" note "$log" 3 usage --json '{"input_tokens":20,"cached_tokens":9,"seconds":1.5}' \
    >/dev/null
"$tool" note "$log" 4 usage --json '{"output_tokens":1000,"reasoning_tokens":3}' \
    >/dev/null
run info "$log" --usage
same usage_locations '3 120 1007 9 3 1.5 l' "$(sed -n '/^usage by location/,$p' \
    "$tmp/out" | awk 'NR == 3 { $1 = $1; print }')"
same usage_agents '2 120 7 9 0 1.5 l w' \
    "$(awk '$NF == "w" && NF == 8 { $1 = $1; print }' "$tmp/out")"
same usage_total '3 120 1007 9 3 1.5 in all' \
    "$(tail -n 1 "$tmp/out" | awk '{ $1 = $1; print }')"
check usage_json 0 '"usage":\{"location":\[\{"location":"l","notes":3,"input_' '' \
    info "$log" --usage --json
check usage_json_total 0 '"total":\{"notes":3,.*"output_tokens":1007,' '' \
    info "$log" --usage --json
"$tool" hide "$log" 4 >/dev/null
check usage_hidden 0 '^ +2 +120 +7 +9 +0 +1\.5 +in all$' '' info "$log" --usage
check usage_joined 0 '^ +4 +240 +14 +18 +0 +3\.0 +in all$' '' info "$log" "$log" --usage
check usage_none 0 '^ +0 +0 .* in all$' '' info $demo --usage


# ---- redact

fresh
"$tool" amend "$log" 1 'secret of one' >/dev/null
"$tool" amend "$log" 3 'secret of three' >/dev/null
"$tool" amend "$log" 3 'nothing now' >/dev/null
"$tool" note "$log" 3 remark 'secret note' >/dev/null
cp "$log" "$tmp/before.log"
check redact_dry 0 '^would erase 2 messages; --apply does it$' '' redact "$log" 1 3
check redact_dry_shows 0 '^1 .* user_message' '' redact "$log" 1 3
check redact_dry_view 0 '^would erase 3 messages' '' redact "$log" --agent w
check redact_dry_limit 0 '^would erase 1 message' '' redact "$log" --agent w -n 1
check redact_dry_all 0 '^would erase 6 messages' '' redact "$log" --timeline
equal redact_dry_nothing "$tmp/before.log" "$log"
same redact_there 3 "$(holds secret)"
check redact_unknown 4 '' 'no message has the number 9' redact "$log" 1 9 --apply
same redact_unknown_nothing 3 "$(holds secret)"
check redact 0 '^erased +2 messages$' '' redact "$log" 1 3 --apply
same redact_gone 0 "$(holds secret)"
same redact_gone_first 0 "$(holds alpha)"
same redact_gone_amended 0 "$(holds nothing)"
same redact_others 1 "$(holds epsilon)"
check redact_shows 0 '^1 .* \[redacted\]$' '' view "$log"
check redact_again 0 '^erased +1 message$' '' redact "$log" 1 --apply
check redact_amend 5 '' '.' amend "$log" 1 text
check redact_verify 0 '^verdict +whole$' '' verify "$log"
"$tool" hide "$log" 6 >/dev/null
check redact_hidden 5 '' 'message 6 is hidden; --raw' redact "$log" 6
check redact_hidden_view 0 '^would erase 2 messages' '' redact "$log" --agent w
check redact_hidden_raw 0 '^would erase 3 messages' '' redact "$log" --agent w --raw
check redact_hidden_newest 0 '^6 .* final' '' redact "$log" --agent w --raw -n 1
check redact_hidden_oldest 0 '^2 .* action' '' redact "$log" --agent w --raw -n 1 --oldest
check redact_hidden_apply 0 '^erased +1 message$' '' redact "$log" 6 --raw --apply
same redact_hidden_gone 0 "$(holds epsilon)"
check redact_all_apply 0 '^erased +6 messages$' '' redact "$log" --timeline --raw --apply
same redact_all_gone '0 0' "$(holds gamma) $(holds delta)"
fresh
check redact_newest 0 '^erased +1 message$' '' redact "$log" --agent w --raw -n 1 --apply
same redact_newest_only '0 1' "$(holds epsilon) $(holds beta)"
check redact_location 4 '' 'locations: l' redact "$log" --location k


# ---- view --raw; compaction folds

fresh
"$tool" amend "$log" 1 'again' >/dev/null
"$tool" hide "$log" 3 >/dev/null
"$tool" note "$log" 4 rating 5 --json >/dev/null
"$tool" location "$log" l '{"title":"T"}' >/dev/null
"$tool" view "$log" --raw --json >"$tmp/raw"
same raw_kinds '6 message,1 amend,1 hide,1 note,1 location' "$(
    sed -E 's/^\{"kind":"([a-z]+)".*/\1/' "$tmp/raw" | uniq -c | sed 's:^ *::' |
        paste -sd,)"
same raw_numbers '1 2 3 4 5 6 1 - 4 -' "$(numbers view "$log" --raw)"
check raw_first 0 '^1 .* message +user_message +alpha$' '' view "$log" --raw
check raw_amend 0 '^1 .* amend +user_message\*? +again$' '' view "$log" --raw
check raw_hide 0 '^- .* hide .*"first": ?3' '' view "$log" --raw
check raw_note 0 '^4 .* note +rating +5$' '' view "$log" --raw
check raw_limit 0 '^- .* location ' '' view "$log" --raw -n 1
check raw_json 0 '^\{"kind":"message","seq":2,"type":"action",.*"args":\{"limit":5,' '' \
    view "$log" --raw --json
check raw_of_file 0 '^ 1 .* message +user_message ' '' view $demo --raw
check compact_dry 0 '^copied +5 messages' '' compact "$log" --dry-run
check compact 0 '^copied +5 messages' '' compact "$log" "$log" --replace
check compact_notes 0 '^4 .* note +rating +5$' '' view "$log" --raw
same compact_folds '0 0 1' "$(holds alpha) $(holds beta) $(holds again)"
same compact_shows '1 2 4 5 6' "$(numbers view "$log")"
check compact_facts 0 '^\{"title":"T"\}$' '' location "$log" l


# ---- search

fresh
check search 0 '^3 .* observation +beta$' '' search "$log" beta
check search_case 0 '^3 .* observation +beta$' '' search "$log" BETA
check search_exact 1 '' '' search "$log" BETA --exact-case
check search_none 1 '' '' search "$log" nowhere
check search_empty 1 '' '.' search "$log" ''
check search_tool 0 '^2 .* action +tool: look$' '' search "$log" look
check search_args 0 'args: \{"limit":5' '' search "$log" '"limit":5'
check search_task 0 'task: delta$' '' search "$log" delta
same search_order '6 5 4 3 2 1' "$(numbers search "$log" l --all-fields)"
same search_oldest '3 5' "$(numbers search "$log" TA --oldest)"
same search_limit 2 "$("$tool" search "$log" a -n 2 | wc -l)"
check search_agent 1 '' '' search "$log" alpha --agent w
check search_location 4 '' 'locations: l' search "$log" alpha --location k
check search_format 0 '^\{"type":"observation","content":"beta"' '' search "$log" beta \
    --format framework
same search_all 3 "$(printf '%s' '{"type":"task","content":"ab ab xxx ab"}' |
    "$tool" search - ab --all | wc -l)"
long=$(printf 'word %.0s' $(seq 300))
input="{\"type\":\"task\",\"content\":\"${long}needle\\\\n $long\"}"
check search_snippet 0 '…(word )+needle (word )+.*…$' '' search - needle
line=$(printf '%b' "$input" | "$tool" search - needle)
same search_width yes "$([ ${#line} -gt 80 ] && [ ${#line} -le 100 ] && echo yes)"
input='{"type":"task","content":{"say":"a \\"b\\" \\u00e9t\\u00e9"}}'
check search_escaped 0 '^1 ' '' search - 'a "b"'
check search_unicode 0 '^1 ' '' search - 'été'
input='{"type":"task","content":"a\\u001b[31mred needle"}' \
    check search_clean 0 '␛\[31mred needle$' '' search - needle
"$tool" amend "$log" 3 'zeta' >/dev/null
check search_amended 0 '^3 .* zeta$' '' search "$log" zeta
check search_before_amended 1 '' '' search "$log" beta
"$tool" hide "$log" 3 >/dev/null
check search_hidden 1 '' '' search "$log" zeta


# ---- diff

fresh
cp "$log" "$tmp/b.log"
check diff_equal 0 '^equal, 6 messages$' '' diff "$log" "$tmp/b.log"
messages >"$tmp/b.jsonl"
check diff_equal_file 0 '^equal, 6 messages$' '' diff "$log" "$tmp/b.jsonl"
check diff_also_ids 1 'message 1 \(user_message\) differs in location$' '' \
    diff "$log" "$tmp/b.jsonl" --also ids
# against NAME STATUS PATTERN SED [ARGUMENTS]: the log and a changed copy of its messages.
against()
{
    local name=$1 want=$2 out=$3 edit=$4
    shift 4
    messages | sed -E "$edit" >"$tmp/c.jsonl"
    check "diff_$name" "$want" "$out" '' diff "$log" "$tmp/c.jsonl" "$@"
}
against spelling 0 '^equal, 6' \
    's/\{"limit":5,"of":\["x"\]\}/{ "of": ["x"], "limit": 5.0 }/'
against content 1 '^message 3 \(observation of w\) differs in content$' 's/beta/bets/'
against content_a 1 '^A  number 3: beta$' 's/beta/bets/'
against content_b 1 '^B  number 3: bets$' 's/beta/bets/'
against member 1 'differs in args\.limit$' 's/"limit":5/"limit":6/'
against member_values 1 '^B  number 2: 6$' 's/"limit":5/"limit":6/'
against element 1 'differs in args\.of\[0\]$' 's/"x"/"y"/'
against element_more 1 'differs in args\.of\[1\]$' 's/"x"/"x","y"/'
against element_nothing 1 '^A  number 2: \(nothing\)$' 's/"x"/"x","y"/'
against member_missing 1 'differs in args\.of$' 's/,"of":\["x"\]//'
against agent 1 'message 3 .* differs in agent_key$' \
    's/(beta","agent_key":")w/\1v/'
against type 1 'message 6 \(final of w\) differs in type$' 's/final/task/'
against shorter 1 '^message 6 is only in A; B ends after 5$' '6d'
against longer 1 '^message 7 is only in B; A ends after 6$' '6p'
against time 0 '^equal' 's/"type"/"timestamp":5,"type"/'
against also_time 1 'message 1 .* differs in time$' 's/"type"/"timestamp":5,"type"/' \
    --also times
against also_two 1 'message 1 .* differs in location$' 's/"type"/"timestamp":5,"type"/' \
    --also times,ids
against rest 0 '^equal' 's/alpha"/alpha","extra_member":1/' --lenient
against also_rest 1 'message 1 .* differs in source' 's/alpha"/alpha","extra_member":1/' \
    --lenient --also rest
against view 0 '^equal, 2 messages$' 's/beta/bets/' --conversation
against view_agent 1 '^message 2 ' 's/beta/bets/' --agent w
check diff_swapped 1 '^B  number 3: beta$' '' diff "$tmp/c.jsonl" "$log"
printf '{"type":"task","content":"%sLEFT%s"}' "$long" "$long" >"$tmp/1.jsonl"
printf '{"type":"task","content":"%sRIGHT%s"}' "$long" "$long" >"$tmp/2.jsonl"
input=
check diff_around 1 '^A  number 1: ….* word LEFTword .*…$' '' \
    diff "$tmp/1.jsonl" "$tmp/2.jsonl"
"$tool" fork "$log" l 4 k >/dev/null
check diff_fork 1 '^message 5 is only in A; B ends after 4$' '' diff "$log" "$log" \
    --location l --location k
check diff_fork_also 1 'differs in number$' '' diff "$log" "$log" --location l \
    --location k --also numbers
check diff_location 4 '' 'locations: ' view "$log" --location j
check diff_location_missing 2 '' 'locations: ' diff "$log" "$log" --location l \
    --location j
LC_ALL=C sed 's/gamma/gamna/' "$log" >"$tmp/bad.log"
check diff_damaged 2 '.' 'damaged' diff "$tmp/bad.log" "$log"
check diff_damaged_second 2 '.' 'damaged' diff "$log" "$tmp/bad.log"
check search_damaged 3 '^6 .* epsilon$' 'damaged' search "$tmp/bad.log" epsilon
check raw_damaged 3 '^6 .* epsilon$' 'damaged' view "$tmp/bad.log" --raw
check union_damaged 3 '^ 1:6 .* epsilon$' 'damaged' view "$tmp/bad.log" "$log"
input=$(messages)
check diff_stdin 1 '^message 7 is only in A' '' diff "$log" -
input='{"type":"task"' check diff_bad_input 2 '' 'line 1' diff --strict "$log" -


# ---- Several stores as one

fresh one
printf '%s\n' '{"type":"task","content":"early","timestamp":10}' \
    '{"type":"task","content":"late","timestamp":30}' >"$tmp/two.jsonl"
printf '%s\n' '{"type":"task","content":"middle","timestamp":20}' \
    '{"type":"task","content":"last","timestamp":40}' >"$tmp/three.jsonl"
# joined [ARGUMENTS]: number and text of what a view of both shows.
joined()
{
    "$tool" view "$tmp/two.jsonl" "$tmp/three.jsonl" "$@" 2>&1 |
        awk '{ printf "%s%s %s", (NR > 1 ? "," : ""), $1, $NF }'
}
same union_time '1:1 early,2:1 middle,1:2 late,2:2 last' "$(joined)"
same union_store '1:1 early,1:2 late,2:1 middle,2:2 last' "$(joined --by-store)"
same union_newest '1:2 late,2:2 last' "$(joined -n 2)"
same union_oldest '1:1 early,2:1 middle,1:2 late' "$(joined -n 3 --oldest)"
same union_since '1:2 late,2:2 last' "$(joined --since 25)"
same union_one '1 2' "$(numbers view "$tmp/two.jsonl")"
check union_location 0 '^2:1 .* middle$' '' view "$tmp/two.jsonl" "$tmp/three.jsonl" \
    --location three
check union_unknown 4 '' 'locations: ' view "$log" "$log" --location x
check union_missing 4 '' 'no\.log' view "$tmp/two.jsonl" "$tmp/no.log"
check union_format 0 '"content":"late"' '' view "$tmp/two.jsonl" "$tmp/three.jsonl" \
    --format framework
check union_search 0 '^2:1 .* middle$' '' search "$tmp/two.jsonl" "$tmp/three.jsonl" \
    middle
same union_search_order '2:2 1:2' \
    "$(numbers search "$tmp/two.jsonl" "$tmp/three.jsonl" la)"
check union_info 0 '^messages +10, ' '' info "$tmp/two.jsonl" "$log" "$tmp/three.jsonl"
check union_info_json 0 '^\{"messages":10,' '' info "$tmp/two.jsonl" "$log" \
    "$tmp/three.jsonl" --json
check union_raw 0 '^2:6 .* message +final' '' view "$tmp/two.jsonl" "$log" --raw
check union_twice 0 '^messages +12, ' '' info "$log" "$log"


# ---- Writers that wait for each other

fresh
mkfifo "$tmp/held"
"$tool" append "$log" --location l --wait 20000 2>/dev/null <"$tmp/held" &
writer=$!
exec 7>"$tmp/held" # the writer has the log until this is closed
check_busy()
{
    "$tool" note "$log" 1 asked >/dev/null 2>"$tmp/err"
    [ $? -eq 6 ]
}
if soon check_busy; then ok busy_found; else fail busy_found "nobody has the log"; fi
check busy_amend 6 '' '.' amend "$log" 2 '{}'
check busy_note 6 '' '.' note "$log" 2 rating
check busy_redact 6 '' '.' redact "$log" 2 --apply
check busy_short 6 '' '.' note "$log" 2 rating --wait 100
check busy_reads 0 '.' '' search "$log" gamma
sleep 0.3 & # holds the pipe for so long
exec 7>&-
check busy_wait 0 '^noted ' '' note "$log" 2 rating --wait 60000
wait "$writer"

fresh
mkfifo "$tmp/pipe"
"$tool" append "$log" --location l --shared <"$tmp/pipe" >"$tmp/numbers" &
writer=$!
exec 9>"$tmp/pipe"
echo '{"type":"task","content":"one"}' >&9
soon has '^7$' "$tmp/numbers" || fail shared_first "nothing was appended"
check shared_amend 0 '^amended ' '' amend "$log" 1 'beside' --shared
input='{"type":"task","content":"two"}' \
    check shared_append 0 '^8$' '' append "$log" --location l --shared
echo '{"type":"task","content":"three"}' >&9
exec 9>&-
wait "$writer"
same shared_numbers '7 9' "$(paste -sd' ' "$tmp/numbers")"
same shared_shows 9 "$("$tool" view "$log" | wc -l)"
check shared_verify 0 '^verdict +whole$' '' verify "$log"


# ---- follow: changes, and messages that are being written

# A program that streams: two parts, then the end; the second message it leaves as it is.
cat >"$tmp/streamer.c" <<'END'
#define MSGSTORE_NO_DIALECTS
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"
#include <stdio.h>
int main(int argc, char **argv)
{
    ms_store *store;
    ms_error err;
    ms_log_desc desc;
    ms_stream_opts opts;
    memset(&desc, 0, sizeof desc);
    memset(&opts, 0, sizeof opts);
    desc.path = argv[argc - 1];
    opts.every_part = true;
    if (ms_log_open(&store, &desc, &err) != MS_OK) return puts(err.message), 1;
    for (int i = 0; i < 2; i++) {
        ms_stream s;
        ms_envelope m = ms_assistant_message(ms_text(""));
        if (ms_stream_begin(&s, store, MS_STR("l"), &m, &opts, &err) != MS_OK ||
            ms_stream_feed(&s, MS_STR("first part, "), &err) != MS_OK ||
            (ms_os_default()->sleep(NULL, 300000), false) ||
            ms_stream_feed(&s, MS_STR("second part"), &err) != MS_OK ||
            (i == 0 && ms_stream_end(&s, NULL, NULL, &err) != MS_OK))
            return puts(err.message), 1;
    }
    ms_close(store);
    return 0;
}
END
if ! ${CC:-cc} -std=c99 -O0 -pthread -I. -o "$tmp/streamer" "$tmp/streamer.c" \
    >"$tmp/err" 2>&1; then
    fail streamer "$(grep -m 1 error "$tmp/err")"
fi
fresh
followers=
for row in follow 'raw --raw --json' 'lines --format framework'; do
    file=${row%% *}
    # shellcheck disable=SC2086
    "$tool" follow "$log" --seconds 30 ${row#"$file"} >"$tmp/$file" 2>&1 &
    followers="$followers $!"
    soon has epsilon "$tmp/$file" || fail "${file}_begins" "$(tail -n 1 "$tmp/$file")"
done
"$tool" amend "$log" 4 'gamma two' >/dev/null
"$tool" hide "$log" 5 >/dev/null
"$tool" note "$log" 4 rating 5 --json >/dev/null
same streamer '' "$("$tmp/streamer" "$log" 2>&1)"
soon has '"kind":"piece","seq":8,.*"second part"' "$tmp/raw" ||
    fail follow_waits "no piece"
"$tool" append "$log" --location l <<<'{"type":"task","content":"omega"}' >/dev/null
for file in follow raw lines; do
    soon has omega "$tmp/$file" || fail "follow_${file}_ends" "$(tail -n 1 "$tmp/$file")"
done
sleep 0.2
# shellcheck disable=SC2086
kill -TERM $followers
# shellcheck disable=SC2086
wait $followers
same follow_amended 1 "$(grep -c '^4 .* assistant_message\* .*gamma two$' "$tmp/follow")"
same follow_hidden 1 "$(grep -cE '^- .* hide .*"first": ?5' "$tmp/follow")"
same follow_streamed 1 "$(grep -c '^7 .* assistant_message\* .*first part, second part$' \
    "$tmp/follow")"
same follow_begun 1 "$(grep -c '^8 .* assistant_message~ ' "$tmp/follow")"
same follow_no_note 0 "$(grep -c rating "$tmp/follow")"
same follow_raw_pieces 4 "$(grep -c '"kind":"piece"' "$tmp/raw")"
same follow_raw_others 'amend hide note' "$(sed -nE '7,9s/^\{"kind":"([a-z]+)".*/\1/p' \
    "$tmp/raw" | paste -sd' ')"
same follow_raw_once "$(sort "$tmp/raw" | wc -l)" "$(sort -u "$tmp/raw" | wc -l)"
same follow_lines_whole 1 "$(grep -c 'first part, second part' "$tmp/lines")"
same follow_lines_count 8 "$(wc -l <"$tmp/lines")"
check view_unfinished 0 '^8 .* assistant_message~ +first part, second part$' '' \
    view "$log"
check view_streamed 0 '^7 .* assistant_message\* +first part, second part$' '' view "$log"
check search_unfinished 0 '^8 ' '' search "$log" 'second part' -n 1

exit "$failed"
