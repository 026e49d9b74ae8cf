#!/usr/bin/env bash
# The command line tool build/msgstore: every command, exit codes, bad input with its
# position, detection of formats and conversations, streaming, what reaches a terminal,
# round trips of recorded traces.
. "$(dirname "$0")/tool_checks.sh"


# ---- Help, version, usage.

check no_arguments 2 '' 'a command is needed'
check help 0 '^examples:' '' -h
check help_long 0 '^exit code 6' '' --help
check version 0 '^msgstore [0-9]+\.[0-9]+\.[0-9]+$' '' --version
check unknown_command 2 '' 'no such command: shwo' shwo
check unknown_option 2 '' '--colour' view $demo --colour
check unknown_short 2 '' '-x' view $demo -x
check argument_missing 2 '' '--location' view $demo --location
check option_of_another 2 '' 'takes no option --phase' view $demo --phase 1
check to_missing 2 '' 'needs the option --to' convert $demo
check agent_missing 2 '' 'needs the option --agent' history $demo
check two_files 2 '' 'one file' export $demo $demo
check unknown_dialect 2 '' 'message format.*klingon' convert --to klingon $demo
check unknown_from 2 '' 'message format.*klingon' convert --from klingon --to openai $demo
check unknown_format 2 '' 'table or a message format' view $demo --format klingon
check bad_number 2 '' 'a number, not ten' view $demo -n ten
check bad_number_negative 2 '' 'a number, not -1' view $demo -n -1
check bad_phase 2 '' 'a number' history $demo --agent a --phase x
check bad_scope 2 '' 'orchestrator, manager or worker' history $demo --agent a --scope all
check empty_location 2 '' 'a name' view $demo --location ''
check empty_agent 2 '' 'a name' history $demo --agent ''
for team in '' 'a,' ',a' 'a,,b'; do
    check "bad_team_'$team'" 2 '' 'agents with commas' view $demo --team "$team"
done
for date in tomorrow '2 lightyears' 'ago' 2026-02-30 2026-13-01 2026-03-02T24:00 2026-03-02T09:30:60 2026-03 \
    2026-03-02T09 2026-03-02T09:30+01:00 2026-03-02T09:30:01. nan ''; do
    check "bad_time_'$date'" 2 '' '2026-03-02T09:30:00Z, not' view $demo --since "$date"
done


# ---- Every command: its help, nothing given, a file that is not there or is no log.

# The help of each begins with examples, names its usage, is not too wide, and is listed.
"$tool" -h >"$tmp/help"
for command in $(awk '/^  [a-z-]+ +[a-z]/ && !/msgstore/ { print $1 }' "$tmp/help"); do
    run "$command" -h
    same "help_$command" "0 examples: 1" \
        "$status $(head -n 1 "$tmp/out") $(grep -cE "^usage: msgstore $command( |\$)" "$tmp/out")"
    same "help_width_$command" 0 "$(awk 'length > 84' "$tmp/out" | wc -l)"
    same "help_main_$command" 1 "$(grep -c "^  $command " "$tmp/help")"
done

# A row: too few arguments | the rest of them | what the message asks for | the exit codes
# of a FILE that is not there and of one that is no log (-: the command takes it).
cp $demo "$tmp/demo.jsonl"
while IFS='|' read -r few rest needs missing no_log; do
    whole="$few $rest"
    # shellcheck disable=SC2086
    check "nothing_given_${few// /_}" 2 '' "needs $needs" ${few//FILE/$tmp/no.log}
    name=${whole// /_}
    whole=${whole//OUT/$tmp/out.log}
    # shellcheck disable=SC2086
    [ "$missing" = - ] || check "missing_$name" "$missing" '' 'no\.log' \
        ${whole//FILE/$tmp/no.log}
    # shellcheck disable=SC2086
    [ "$no_log" = - ] || check "no_log_$name" "$no_log" '' 'demo\.jsonl' \
        ${whole//FILE/$tmp/demo.jsonl}
done <<'END'
view|FILE|a STORE|4|-
info|FILE|a STORE|4|-
export|FILE|a STORE|4|-
sessions|FILE|a STORE|4|-
usage|FILE|a STORE|4|-
doctor|FILE|a FILE|4|-
report|FILE -o OUT|a STORE|4|-
history|FILE --format openai|a STORE|4|-
lookup FILE|session-a-msg-1|a STORE and a KEY|4|-
search FILE|text|a STORE and a TEXT|4|-
diff FILE|tools/demo.jsonl|two STOREs|2|-
diff tools/demo.jsonl|FILE|two STOREs|2|-
import|FILE tools/demo.jsonl|a STORE and a FILE|-|3
import FILE|tools/demo.jsonl|a STORE and a FILE|-|3
append|FILE|a STORE|-|3
follow|FILE|a STORE|4|3
verify|FILE|a STORE|4|3
repair FILE|OUT|IN and OUT|4|3
compact FILE|OUT|a second file, OUT, or --dry-run|4|3
compact FILE|--dry-run|a second file, OUT, or --dry-run|4|3
amend FILE|1 text|a STORE and a NUMBER|4|3
hide FILE|1|a STORE and a NUMBER|4|3
rewind FILE|1|a STORE and a NUMBER|4|3
fork FILE l 1|k|a STORE, FROM, a NUMBER and TO|4|3
note FILE|1 kind|a STORE and a NUMBER|4|3
location FILE|l {}|a STORE and a LOCATION|4|3
redact|FILE 1|a STORE|4|3
redact|FILE 1 --apply|a STORE|4|3
END
equal no_log_untouched $demo "$tmp/demo.jsonl"
same refused_calls_make_no_file '' "$(find "$tmp" -name 'no.log*' -o -name 'out.log*')"


# ---- Bad input: exit code, nothing printed, and where in the file it is wrong.

task='{"type":"task","content":"a"}'
user='{"role":"user","content":"a"}'

# bad NAME LINE COLUMN BYTE TEXT: the file is refused at that place.
bad()
{
    input=$5
    check "bad_$1" 1 '' "line $2, column $3 \(byte $4\): ." view - --strict
}

bad member_missing 1 16 15 '{"type":"task",}'
bad second_line 2 16 45 "$task\n{\"type\":\"task\",}\n$task\n"
bad crlf 2 16 46 "$task\r\n{\"type\":\"task\",}\r\n"
bad blank_lines 4 16 47 "\n\n$task\n{\"type\":\"task\",}\n\n"
bad byte_order_mark 1 16 18 '\xef\xbb\xbf{"type":"task",}'
bad second_byte_order_mark 1 1 3 '\xef\xbb\xbf\xef\xbb\xbf'"$task"
bad byte_order_mark_inside 2 1 30 "$task\n\xef\xbb\xbf$task\n"
bad in_array 3 16 49 "[\n $task,\n {\"type\":\"task\"+\"x\":1}\n]"
bad no_comma 1 32 31 "[$task $task]"
bad comma_at_end 1 32 31 "[$task,]"
bad array_cut 1 31 30 "[$task"
bad array_ends_after_comma 1 32 31 "[$task,"
bad bracket_after_the_end 1 30 29 "$task]"
bad object_cut 1 16 15 '{"type":"task",'
bad two_commas 1 32 31 "[$task,,$task]"
bad scalar 1 1 0 '5'
bad text 2 1 30 "$task\nnonsense"
bad no_dialect 1 1 0 '{"foo":1}'
bad no_dialect_in_list 2 3 46 "{\"messages\":[$user,\n  {\"foo\":1}]}"
bad no_object_in_list 1 44 43 "{\"messages\":[$user,5]}"
bad no_object_in_array 1 32 31 "[$task,5]"
bad utf8 1 29 28 '{"type":"task","content":"ab\xff"}'
bad newline_in_string 1 28 27 '{"type":"task","content":"a\nb"}'
bad unfinished_line 2 1 15 "{\"type\":\"task\"\n$task\n"
bad list_item 3 9 54 "{\"messages\":[$user,\n{\n \"x\":[1,]}]}"

input='{"type":"task"}'
check bad_content_missing 1 '' 'line 1, column 1 \(byte 0\): framework.*content' view - --strict
input="$task\n{\"type\":\"taks\",\"content\":\"a\"}"
check bad_type 1 '' 'line 2, .*type' view - --strict
check kind 0 '^2 .* taks +a$' '' view -
input='{"role":"user","content":5}' \
    check bad_role_content 1 '' 'line 1, .*openai.*content' view - --strict
input=
mkdir "$tmp/folder"
check directory 0 '' '' view "$tmp/folder"
check empty_file 0 '' 'no messages' view -
check empty_convert 0 '' 'no messages' convert --to openai -
check empty_array 0 '^\[ *\]$' 'no messages' convert --to openai --array -
check empty_info 0 '^messages +0' 'no messages' info -
check empty_history 4 '' 'no messages' history - --agent a
check binary 1 '' 'line 1, column 1 \(byte 0\)' view --strict "$tool"
input='[]\n \n[ ]'
check empty_arrays 0 '' 'no messages' view -

head -c 100000 /dev/zero | tr '\0' '[' >"$tmp/deep"
check deep 1 '' 'line 1, column 5[0-9][0-9] \(byte 5[0-9][0-9]\): ' view "$tmp/deep" --strict
{ printf '{"type":"task","content":' && cat "$tmp/deep"; } >"$tmp/deep2"
check deep_content 1 '' 'line 1, column 5[0-9][0-9] ' view "$tmp/deep2" --strict

# A place far behind the first block of the reader.
{ yes "$task" | head -n 10000 && echo '{"type":"task",}'; } >"$tmp/far"
check bad_far 1 '' 'line 10001, column 16 \(byte 300015\)' view "$tmp/far" --strict
{ echo '[' && yes "$task," | head -n 10000 && echo '{"type":"task",}]'; } >"$tmp/far"
check bad_far_in_array 1 '' 'line 10002, column 16 \(byte 310017\)' view "$tmp/far" --strict

# What was converted before stays; an array is all or nothing.
input="$task\n$task\n{\"type\":\"task\",}"
run convert --strict --to framework -
same convert_until_error "1 2" "$status $(grep -c '^{' "$tmp/out")"
check array_all_or_nothing 1 '' 'line 3' convert --strict --to framework --array -


# ---- Which format, which conversation.

# places NAME EXPECTED TEXT ARGUMENTS: the location of each message of talk.json.
places()
{
    local name=$1 want=$2
    printf '%b' "$3" >"$tmp/talk.json"
    shift 3
    run convert --to framework --with-location "$tmp/talk.json" "$@"
    same "place_$name" "$want" "$(sed -E 's/.*"location":"([^"]*)".*/\1/' "$tmp/out" |
        tr '\n' ' ' | sed 's/ $//')$(head -n 1 "$tmp/err")"
}

function='{"name":"f","arguments":"{}"}'
calls='"tool_calls":[{"id":"c","type":"function","function":'$function'}]'
call='{"role":"assistant","content":null,'$calls'}'
answer='{"role":"tool","tool_call_id":"c","content":"r"}'
step='{"action":"ls","observation":"a b"}'

# recorded ID: a conversation of one message.
recorded()
{
    printf '{"task_id":%s,"traj":[%s]}' "$1" "$user"
}

places lines 'talk talk' "$task\n$task"
places lines_of_chat 'talk talk' "$user\n$user"
places array 'talk talk' "[$task,$task]"
places array_of_chat 'talk talk' "[$user,$call]"
places two_arrays 'talk talk.2' "[$user]\n[$user]"
places messages talk "{\"messages\":[$user]}"
places traj talk "{\"traj\":[$user]}"
places history 'talk talk' "{\"trajectory\":[$step],\"history\":[$user,$user]}"
places trajectory talk "{\"trajectory\":[$user]}"
places first_of_several talk "{\"history\":[$user,$user],\"messages\":[$user]}"
places list_of_other_things 'talk talk' \
    "{\"messages\":[\"a\"],\"traj\":[$step],\"history\":[$user,$user]}"
places empty_list_is_no_list 'talk talk' "{\"messages\":[],\"history\":[$user,$user]}"
places empty_conversation talk "[{\"messages\":[]},$user]"
places framework_list 'talk talk' "{\"messages\":[$task,$task]}"
places task_id '3 x' "$(recorded 3)\n$(recorded '"x"')"
places task_id_of_no_use 'talk talk.2' "$(recorded null)\n$(recorded '""')"
places instance_id abc "{\"instance_id\":\"abc\",\"messages\":[$user]}"
places repeated '3 3.2 3.3 4' "[$(recorded 3),$(recorded 3),$(recorded 3),$(recorded 4)]"
places taken '3.2 3 3.3' "[$(recorded '"3.2"'),$(recorded 3),$(recorded 3)]"
places nameless 'talk talk.2' "[{\"traj\":[$user]},{\"traj\":[$user]}]"
places mixed 'talk talk talk.2' "$task\n$user\n[$user]"
places nested 'talk talk.2' "[[$user],[$user]]"
here='{"type":"task","content":"a","location":"here"}'
places located 'here talk' "$here\n$task"
places named 'here there there.2' "$here\n[$user]\n[$user]" --location there

input='{"type":"task","content":"a\\\\\\"]}[{"}\n'
input=$input'[{"type":"task","content":"]\\\\"},'$task']'
check brackets_in_strings 0 '^3 +- +stdin.2 +- +task +a$' '' view -

# framework, chat: how a message is read shows in what it becomes.
for text in "$user" "[$user]" "{\"traj\":[$user]}"; do
    input=$text
    check "chat_$text" 0 '"type": ?"user_message"' '' convert --to framework -
done
input='{"type":"task","role":"user","content":"a"}'
check type_before_role 0 '"type": ?"task"' '' convert --to framework -
input='{"type":"text","role":"user","content":"a"}'
check role_before_odd_type 0 '"type": ?"user_message"' '' convert --to framework -
input=$task
check from_wins 1 '' 'openai message' convert --strict --from openai --to framework -
input='{"type":"message","role":"user","content":"a"}'
check role_before_unknown_type 0 '"type": ?"user_message"' '' convert --to framework -

# Agents of chats.
input="$user\n$call\n$answer"
check chat_agent 0 '^2 +- +assistant +action +f\(\{\}\)$' '' view -
check chat_agent_set 0 '^3 +- +main +observation +r$' '' view - --agent main
check chat_no_agent 0 '^1 +- +- +user_message +a$' '' view -
check chat_history 0 '^3 .*observation' '' history - --agent assistant
counts convert_adds_no_agent 3 type convert --to framework --with-location -
found_by convert_adds_no_agent_key 0 agent_key
counts convert_sets_agent 2 '"agent_key": ?"me"' convert --to framework --with-location \
    --agent me -
# A call that one conversation leaves open is not answered in the next.
input='[{"messages":[{"type":"action","tool":"t","args":{}}]},'
input=$input'{"messages":[{"type":"observation","content":"r"}]}]'
counts calls_end_with_conversation 2 '' convert --to openai -
found_by calls_end_without_a_result 0 '"role":"tool"'
input=$task
check stdin_name 0 'stdin$' '' info -


# ---- view and history of the sample trace: which messages, in which order.

same view_all "$(seq -s ' ' 31)" "$(column 1 view $demo)"
same view_timeline "$(seq -s ' ' 31)" "$(column 1 view $demo --timeline)"
same view_conversation '1 18 19 31' "$(column 1 view $demo --conversation)"
same view_global '16 17' "$(column 1 view $demo --global)"
same view_agent '3 5 20 30' "$(column 1 view $demo --agent orchestrator)"
same view_agent_other "$(seq -s ' ' 7 15 | sed 's/ 8 / /')" \
    "$(column 1 view $demo --agent data_worker)"
same view_team "$(seq -s ' ' 6 16) $(seq -s ' ' 21 29)" \
    "$(column 1 view $demo --team data_worker,report_worker)"
same view_two "1 $(seq -s ' ' 16 19) 31" "$(column 1 view $demo --conversation --global)"
same view_turn "$(seq -s ' ' 19 31)" "$(column 1 view $demo --turn turn_2)"
same view_newest '30 31' "$(column 1 view $demo -n 2)"
same view_oldest '1 2' "$(column 1 view $demo -n 2 --oldest)"
same view_limit_0 31 "$(column 1 view $demo -n 0 | wc -w)"
same view_since '2 3 4 5' \
    "$(column 1 view $demo --since 2026-03-02T09:00:01Z --until 2026-03-02T09:00:08)"
same view_since_number 30 "$(column 1 view $demo --since 1772442001 | wc -w)"
same view_since_fraction '7 8' \
    "$(column 1 view $demo --since 2026-03-02T09:00:08.25 --until '2026-03-02 09:00:12Z')"
same view_until_date 0 "$(column 1 view $demo --until 2026-03-02 | wc -w)"
same view_since_date 31 "$(column 1 view $demo --since 2026-03-02 | wc -w)"
same view_location 31 "$(column 1 view $demo --location shop-osaka | wc -w)"
check view_location_unknown 4 '' 'shop-osaka' view $demo --location shop-tokyo
check view_agent_unknown 0 '' 'agents: .*report_worker' view $demo --agent data-worker

team='data_worker,report_worker'
own='1 18 19 31 3 5 20 30'
same history_flat "$own 16 17" "$(column 1 history $demo --agent orchestrator)"
same history_team "$own $(seq -s ' ' 6 16) $(seq -s ' ' 21 29) 17" \
    "$(column 1 history $demo --agent orchestrator --team $team)"
same history_worker "1 18 19 31 7 $(seq -s ' ' 9 15) 16 17" \
    "$(column 1 history $demo --agent data_worker)"
same history_timeline '1 3 5 16 17 18 19 20 30 31' \
    "$(column 1 history $demo --agent orchestrator --timeline)"
same history_limit '19 31 20 30 16 17' \
    "$(column 1 history $demo --agent orchestrator -n 2)"
same history_limit_timeline '30 31' \
    "$(column 1 history $demo --agent orchestrator -n 2 --timeline)"
same history_scope_orchestrator '19 31' \
    "$(column 1 history $demo --agent orchestrator --scope orchestrator -n 2)"
same history_scope_manager 17 \
    "$(column 1 history $demo --agent orchestrator --scope manager --phase 1)"
same history_scope_manager_first '' \
    "$(column 1 history $demo --agent orchestrator --scope manager --phase 0)"
same history_scope_worker "9 10 11 12 13 14 16" \
    "$(column 1 history $demo --agent data_worker --scope worker)"
check history_agent_unknown 0 '^ 1 ' 'no messages of agent who' history $demo --agent who

input='[{"task_id":1,"traj":['$user']},{"task_id":2,"traj":['$call']}]'
check history_location_missing 2 '' 'locations: (1, 2|2, 1)' history - --agent assistant
check history_location 0 '^2 .*action' '' history - --agent assistant --location 2
check view_two_locations 0 '^1 +- +1 +- +user_message' '' view -
input='{"task_id":1,"traj":['$(yes "$user" | head -n 30 | tr '\n' ',')$user']}'
check history_only_location 0 '^31 ' '*' history - --agent assistant

# Formats: lines of the dialect.
counts format_openai 14 '^\{"role":' history $demo --agent data_worker --timeline \
    --format openai
same format_openai_is_silent '' "$(cat "$tmp/err")"
counts format_framework 31 '^\{' view $demo --format framework
found_by format_framework_has_no_agent 0 agent_key
counts format_with_location 27 agent_key view $demo --format framework --with-location

# A call whose text is left out by the view is no part of the message before it.
input=$user'\n{"role":"assistant","content":"text",'$calls'}\n'$answer'\n'
input=$input'{"role":"assistant","content":"end"}'
counts joined_alone 1 '"content": *"end"}' history - --agent assistant --format openai
counts joined 4 '' history - --agent assistant --format openai --timeline


# ---- info: counts, the first rows.

check info_messages 0 '^messages +31, [0-9]+ bytes and [0-9]+ of index$' '' info $demo
check info_times 0 '^times +2026-03-02T09:00:00Z to 2026-03-02T09:01:38Z, 0 messages' '' \
    info $demo
check info_location 0 '^ +31 +[0-9]+ bytes  shop-osaka$' '' info $demo
check info_agent 0 '^ +11 +[0-9]+ bytes  data_worker$' '' info $demo
check info_no_agent 0 '^ +4 +[0-9]+ bytes  -$' '' info $demo
check info_type 0 '^ +5 +[0-9]+ bytes  action$' '' info $demo
check info_types 0 '^types +16$' '' info $demo
for i in $(seq 30); do
    echo '{"type":"task","content":"a","location":"l'"$i"'"}'
done >"$tmp/many"
check info_more 0 '^ +\.\.\. and 10 more$' '' info "$tmp/many"
found_by info_rows 20 'bytes  l'
counts info_all 30 'bytes  l' info --all "$tmp/many"
input=$task
check info_no_times 0 '^times +none$' '' info -


# ---- What reaches a terminal: no control characters, columns below each other.

nasty='\\u001b[31m\\u0007\\u007f\\u009b31m\\u202e\\u2066\\u200f\\u2028\\r\\n\\tx'
input='{"type":"action","tool":"t'$nasty'","args":{"a":"'$nasty'"},
"agent_key":"a'$nasty'"}
{"type":"task","content":"c\\u0000'$nasty'","agent_key":"b","location":"l'$nasty'"}
{"type":"delegation","worker":"w'$nasty'","task":"d'$nasty'"}'
controls='[\001-\011\013-\037\177]|\302[\200-\237]'
controls=$(printf '%b' "$controls"'|\342\200[\216\217\250-\256]|\342\201[\246-\251]')
for command in 'view -' 'info -' 'history - --agent b --location stdin' \
    'view - --location x'; do
    # shellcheck disable=SC2086
    run $command
    if LC_ALL=C grep -qaE "$controls" "$tmp/out" "$tmp/err"; then
        fail "clean_$command" "controls: $(cat -v "$tmp/out" "$tmp/err" | head -n 3)"
    else
        ok "clean_$command"
    fi
done
counts clean_lines 3 '' view -
found_by clean_visible 3 '␛\[31m␇␡�31m�'
input='{"type":"\\u001b[31m\\u202e","content":"a"}'
run view --strict -
same clean_message "1 0" "$status $(LC_ALL=C grep -caE "$controls" "$tmp/err")"
check clean_argument 4 '' '␛\[31m' view $demo --location "$(printf '\033[31m')"

input='{"type":"task","content":"x","agent_key":"作業員"}
{"type":"task","content":"x","agent_key":"worker"}
{"type":"task","content":"x","agent_key":"e\\u0301te\\u0301"}
{"type":"task","content":"x","agent_key":"🤖🤖"}
{"type":"final","content":"x"}'
run view -
# shellcheck disable=SC2059
same wide_columns "$(printf '1  -  作業員  task   x\n2  -  worker  task   x
3  -  e\u0301te\u0301     task   x\n4  -  🤖🤖    task   x\n5  -  -       final  x')" "$(cat "$tmp/out")"

kanji=$(printf '漢%.0s' $(seq 200))
input='{"type":"user_message","content":"'$kanji'"}
{"type":"user_message","content":"'${kanji//漢/ab}'"}'
run view -
same wide_cut "1  -  -  user_message  ${kanji:0:38}…" "$(head -n 1 "$tmp/out")"
same narrow_cut 100 "$(tail -n 1 "$tmp/out" | sed 's/…/./' | tr -d '\n' | wc -c)"
input='{"type":"task","content":"'${kanji:0:42}'"}
{"type":"task","content":"'${kanji:0:43}'"}'
run view -
same wide_fits "${kanji:0:42}|${kanji:0:42}…" \
    "$(awk '{ printf "%s%s", (NR > 1 ? "|" : ""), $5 }' "$tmp/out")"
input='{"type":"task","content":"a'$(printf '\\u0301%.0s' $(seq 9000))'b"}'
run view -
same combining_bound "0 yes" "$status $([ "$(wc -c <"$tmp/out")" -lt 9000 ] && echo yes)"

input='{"type":"task","content":"a\\r\\n\\t  b","agent_key":"'${kanji:0:20}'"}'
run view -
same long_name "1  -  ${kanji:0:11}…  task  a b" "$(cat "$tmp/out")"
check body_action 0 'action +query\(\{"sql"' '' view $demo
check body_delegation 0 'delegation +-> data_worker: Compare' '' view $demo

input='{"type":"task","content":"a","timestamp":1e300}
{"type":"task","content":"a","timestamp":-1.5}
{"type":"task","content":"a","timestamp":253402300799}'
run view -
same odd_times '2262-04-11T23:47:16Z|1969-12-31T23:59:58Z|2262-04-11T23:47:16Z' \
    "$(awk '{ printf "%s%s", (NR > 1 ? "|" : ""), $2 }' "$tmp/out")"

# A terminal: colours, unless NO_COLOR says not; its width.
if has_terminal; then
    escape=$(printf '\033')
    same terminal_colour 5 "$(on_terminal '' | grep -cF "${escape}[36maction${escape}[0m")"
    same terminal_no_color 0 "$(on_terminal NO_COLOR=1 | grep -cF "$escape")"
    same terminal_empty_no_color 31 "$(on_terminal NO_COLOR= | grep -cF "${escape}[0m")"
    same terminal_width 110 \
        "$(on_terminal NO_COLOR=1 | sed -n 3p | tr -d '\n' | sed 's/…/./' | wc -c)"
    yes "$task" | head -n 700000 >"$tmp/long"
    convert="$tool convert --to framework $tmp/long >/dev/null"
    script -qec "$convert" /dev/null </dev/null >"$tmp/out"
    same terminal_progress yes "$(grep -q '16 MB read' "$tmp/out" && echo yes)"
    rm -f "$tmp/long"
else
    echo "skip terminal: there is no script(1) to pretend one"
fi


# ---- Output that cannot be written.

"$tool" view "$tmp/many" --format framework 2>"$tmp/err" | head -n 0
same closed_pipe_small ' ' " $(cat "$tmp/err")"
yes "$task" | head -n 100000 >"$tmp/long"
for arguments in 'view' 'view --format framework' 'history --agent a' \
    'convert --to framework' 'convert --to openai --array'; do
    # shellcheck disable=SC2086
    { "$tool" $arguments "$tmp/long" 2>"$tmp/err"; echo $? >"$tmp/status"; } |
        head -c 1 >/dev/null
    same "closed_pipe_$arguments" "1 " "$(cat "$tmp/status") $(cat "$tmp/err")"
done
echo '[{"role":"user","content":null}]' >"$tmp/bad.json"
"$tool" import "$tmp/a.log" $demo >/dev/null
input='{"type":"task","content":"a"}'
for arguments in "view $demo" "info $demo" "convert --to openai $demo" -h 'view -h' \
    "convert --array --to openai $demo" "view $demo --format openai" --version \
    "history $demo --format openai" "check --as openai $tmp/bad.json" \
    "info $tmp/a.log --json" "verify $tmp/a.log" "export $tmp/a.log" \
    "import $tmp/a.log $demo" "append $tmp/a.log --location c" \
    "follow $tmp/a.log --seconds 0" "compact $tmp/a.log --dry-run"; do
    # shellcheck disable=SC2086
    fills_disk "disk_full_${arguments//"$tmp/"/}" $arguments
done


# ---- Round trips, compared as JSON by a program of its own.

# equals FILE FILE: how many messages both have, lines or an array; those of conversations
# are taken out of them. A number is its value.
equals()
{
    python3 - "$@" <<'END'
import decimal, json, sys

def read(path):
    text = open(path, encoding="utf-8-sig").read().strip()
    if not text.startswith("["):
        text = "[" + ",".join(text.splitlines()) + "]"
    values = json.loads(text, parse_float=decimal.Decimal)
    return [message for value in values for message in value.get("traj", [value])]

a, b = map(read, sys.argv[1:])
print(len(a) if a == b else f"{len(a)} and {len(b)} messages, which differ")
END
}

# round NAME COUNT FILE ARGUMENTS: converted, the file has the same messages, so many.
round()
{
    local name=$1 count=$2 file=$3
    shift 3
    run convert "$@" "$file"
    same "round_$name" "0 $count" "$status $(equals "$file" "$tmp/out" 2>&1)"
}

round demo 31 $demo --to framework --with-location
round demo_from 31 $demo --from framework --to framework --with-location
round demo_array 31 $demo --to framework --with-location --array
"$tool" convert $demo --to framework --with-location --array >"$tmp/array.json"
round array_input 31 "$tmp/array.json" --to framework --with-location
sed 's/$/\r/; $s/$/\n\n/' $demo >"$tmp/crlf"
round crlf 31 "$tmp/crlf" --to framework --with-location
{ printf '\xef\xbb\xbf'; printf '%s' "$(cat $demo)"; } >"$tmp/mark"
"$tool" convert "$tmp/mark" --to framework --with-location >"$tmp/out"
same round_mark_no_newline 31 "$(equals $demo "$tmp/out")"
"$tool" view $demo --format framework --with-location >"$tmp/out"
same round_view 31 "$(equals $demo "$tmp/out")"
"$tool" convert $demo --to framework --with-location | tail -n 1 >"$tmp/a"
tail -n 1 $demo | "$tool" convert --to framework --with-location >"$tmp/b"
same standard_input "$(cat "$tmp/a")" "$(cat "$tmp/b")"

if [ -d "$shared/tau-bench-airline" ]; then
    tau=$shared/tau-bench-airline/gpt-4o-airline.json
    round tau_detected 5308 "$tau" --to openai
    check tau_locations 0 '^locations +200$' '' info "$tau"
    check tau_agent 0 '^ +2328 +[0-9]+ bytes  assistant$' '' info "$tau"
    same tau_names '3 3.2 3.3 3.4' "$("$tool" info --all "$tau" | awk '{ print $4 }' |
        grep -E '^3(\.|$)' | sort | tr '\n' ' ' | sed 's/ $//')"
else
    echo "skip tau: no $shared/tau-bench-airline"
fi


# ---- A file is not held: 60 MB go through 30 MB of address space.

if [ "${MS_TEST_SCALE:-100}" -eq 100 ] &&
    (ulimit -v 30000 && "$tool" --version) >/dev/null 2>&1; then
    # big COUNT LINE: the line so many times.
    big()
    {
        yes "$2" | head -n "$1"
    }

    # streamed NAME LINES ARGUMENTS: standard input through the limit, so many lines out.
    streamed()
    {
        local name=$1 want=$2
        shift 2
        (ulimit -v 30000 && exec "$tool" "$@") 2>"$tmp/err" >"$tmp/lines"
        same "streamed_$name" "0 $want" "$? $(wc -l <"$tmp/lines")$(head -n 1 "$tmp/err")"
        rm -f "$tmp/lines"
    }

    text=$(printf 'word %.0s' $(seq 200))
    long='{"type":"task","content":"'$text'","agent_key":"a"}'
    { echo '['; big 60000 "$long,"; echo "$long]"; } |
        streamed array 60001 convert --to framework -
    big 60000 "$long" | streamed lines 60000 convert --to framework -
    { echo '['; big 60000 '{"role":"user","content":"'"$text"'"},'; echo "$user]"; } |
        streamed chat 60001 convert --to openai -
    { echo '['; big 60000 '{"task_id":1,"traj":[{"role":"user","content":"'"$text"'"}]},'
        echo "$user]"; } | streamed conversations 60001 convert --to openai -
    { echo '{'; big 60000 "$long"; } >"$tmp/broken"
    (ulimit -v 30000 && exec "$tool" convert --strict --to framework "$tmp/broken") \
        2>"$tmp/err" >"$tmp/out"
    same streamed_broken "1 1" "$? $(grep -c 'line 2, column 1 (byte 2): ' "$tmp/err")"
    rm -f "$tmp/broken"
    { printf '{"type":"task","content":"'; head -c 270000000 /dev/zero | tr '\0' a; } |
        "$tool" view --strict - 2>"$tmp/err" >"$tmp/out"
    same element_limit "1 1" \
        "$? $(grep -c 'line 1, column 1 (byte 0): .*256 MiB' "$tmp/err")"
else
    echo "skip streaming: only with MS_TEST_SCALE 100 and where ulimit -v works"
fi

# The tool's own sources.
same sources_are_narrow '' "$(grep -nE '^.{91,}$' tools/*.[ch] | cut -c 1-60 | head -n 3)"

exit $failed
