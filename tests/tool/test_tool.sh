#!/usr/bin/env bash
# The command line tool build/msgstore: every command, exit codes, bad input with its
# position, detection of formats and conversations, streaming, what reaches a terminal,
# round trips of recorded traces.
. "$(dirname "$0")/tool_checks.sh"


# ---- Help, version, usage.

session <<'END'
== help_and_version_are_shown
-h => ^examples:
--help => ^exit code 6
--version => ^msgstore [0-9]+\.[0-9]+\.[0-9]+$

== arguments_are_refused_when_they_do_not_fit
$ "$tool" -> 2 a command is needed
shwo -> 2 no such command: shwo
view $demo --colour -> 2 --colour
view $demo -x -> 2 -x
view $demo --location -> 2 --location
view $demo --phase 1 -> 2 takes no option --phase
convert $demo -> 2 needs the option --to
history $demo -> 2 needs the option --agent
export $demo $demo -> 2 one file
convert --to klingon $demo -> 2 message format.*klingon
convert --from klingon --to openai $demo -> 2 message format.*klingon
view $demo --format klingon -> 2 table or a message format
view $demo -n ten -> 2 a number, not ten
view $demo -n -1 -> 2 a number, not -1
history $demo --agent a --phase x -> 2 a number
history $demo --agent a --scope all -> 2 orchestrator, manager or worker
view $demo --location '' -> 2 a name
history $demo --agent '' -> 2 a name
END
for team in '' a, ,a a,,b; do
    session <<'END'
== team_is_refused_when_a_name_is_missing
view $demo --team "$team" -> 2 agents with commas
END
done
for date in tomorrow '2 lightyears' 'ago' 2026-02-30 2026-13-01 2026-03-02T24:00 \
    2026-03-02T09:30:60 2026-03 2026-03-02T09 2026-03-02T09:30+01:00 \
    2026-03-02T09:30:01. nan ''; do
    session <<'END'
== time_is_refused_when_it_is_none
view $demo --since "$date" -> 2 2026-03-02T09:30:00Z, not
END
done


# ---- Every command: its help, nothing given, a file that is not there or is no log.

"$tool" -h >"$tmp/help"
seen=0
for command in $(awk '/^  [a-z-]+ +[a-z]/ && !/msgstore/ { print $1 }' "$tmp/help"); do
    session <<END
== help_of_a_command_begins_with_examples_and_has_its_usage
$command -h =1> ^usage: msgstore $command( |$) =0> ^.{85}
\$ "\$tool" $command -h | head -n 1 => ^examples:
\$ grep -c '^  $command ' $tmp/help => ^1$
END
    seen=$((seen + 1))
done
[ "$seen" -ge 20 ] || fail help_lists_every_command "it lists $seen"

# A row: too few arguments | the rest of them | what the message asks for | the exit codes
# of a FILE that is not there and of one that is no log (-: the command takes it). The
# usual log is not there.
cp $demo "$tmp/demo.jsonl"
while IFS='|' read -r few rest needs missing no_log; do
    whole="$few ${rest//OUT/$tmp/out.log}"
    rows="${few//FILE/$tmp/no.log} -> 2 needs $needs"
    [ "$needs" != "the usual log" ] || rows="$few -> 4 there is no log yet"
    [ "$missing" = - ] || rows="$rows
${whole//FILE/$tmp/no.log} -> $missing no\.log"
    [ "$no_log" = - ] || rows="$rows
${whole//FILE/$tmp/demo.jsonl} -> $no_log demo\.jsonl"
    session <<<"== command_is_refused_when_a_file_is_missing_or_is_no_log
$rows"
done <<'END'
view|FILE|the usual log|4|-
info|FILE|the usual log|4|-
export|FILE|the usual log|4|-
sessions|FILE|the usual log|4|-
usage|FILE|the usual log|4|-
doctor|FILE|a FILE|4|-
report|FILE -o OUT|the usual log|4|-
history|FILE --format openai|the usual log|4|-
lookup FILE|session-a-msg-1|a STORE and a KEY|4|-
search FILE|text|the usual log|4|-
diff FILE|tools/demo.jsonl|two STOREs|2|-
diff tools/demo.jsonl|FILE|two STOREs|2|-
import|FILE tools/demo.jsonl|a STORE and a FILE|-|3
import FILE|tools/demo.jsonl|a STORE and a FILE|-|3
append|FILE|a STORE|-|3
follow|FILE|the usual log|4|3
verify|FILE|the usual log|4|3
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
session <<'END'
== refused_commands_leave_files_as_they_are
$ cat $tmp/demo.jsonl == $demo
$ ls $tmp =0> (no|out)\.log
END


# ---- Bad input: exit code, nothing printed, and where in the file it is wrong.

task='{"type":"task","content":"a"}'
user='{"role":"user","content":"a"}'

# bad NAME LINE COLUMN BYTE TEXT: the file is refused at that place.
bad()
{
    printf '%b' "$5" >"$tmp/in"
    session <<END
== ${1}_is_refused_at_its_place
view $tmp/in --strict -> 1 line $2, column $3 \(byte $4\): .
END
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
bad no_format 1 1 0 '{"foo":1}'
bad no_format_in_list 2 3 46 "{\"messages\":[$user,\n  {\"foo\":1}]}"
bad no_object_in_list 1 44 43 "{\"messages\":[$user,5]}"
bad no_object_in_array 1 32 31 "[$task,5]"
bad utf8 1 29 28 '{"type":"task","content":"ab\xff"}'
bad newline_in_string 1 28 27 '{"type":"task","content":"a\nb"}'
bad unfinished_line 2 1 15 "{\"type\":\"task\"\n$task\n"
bad list_item 3 9 54 "{\"messages\":[$user,\n{\n \"x\":[1,]}]}"

mkdir "$tmp/folder"
head -c 100000 /dev/zero | tr '\0' '[' >"$tmp/deep"
{ printf '{"type":"task","content":' && cat "$tmp/deep"; } >"$tmp/deep2"
# Places far behind the first block of the reader.
{ yes "$task" | head -n 10000 && echo '{"type":"task",}'; } >"$tmp/far"
{ echo '[' && yes "$task," | head -n 10000 && echo '{"type":"task",}]'; } >"$tmp/far2"
two=$task$'\n'$task$'\n{"type":"task",}'
odd=$task$'\n{"type":"taks","content":"a"}'
session <<'END'
== message_is_refused_with_its_place_when_it_is_no_message
view - --strict <<<'{"type":"task"}' -> 1 line 1, column 1 \(byte 0\): framework.*content
view - --strict <<<$odd -> 1 line 2, .*type
view - <<<$odd => ^2 .* taks +a$ -> 0 unknown, kept whole: 1 taks$
view - --strict <<<'{"role":"user","content":5}' -> 1 line 1, .*openai.*content
view $tool --strict -> 1 line 1, column 1 \(byte 0\)
view $tmp/deep --strict -> 1 line 1, column 5[0-9][0-9] \(byte 5[0-9][0-9]\): .
view $tmp/deep2 --strict -> 1 line 1, column 5[0-9][0-9] .
view $tmp/far --strict -> 1 line 10001, column 16 \(byte 300015\)
view $tmp/far2 --strict -> 1 line 10002, column 16 \(byte 310017\)

== input_without_messages_is_no_fault
view $tmp/folder =0>
view - -> 0 no messages
convert --to openai - -> 0 no messages
convert --to openai --array - => ^\[ *\]$ -> 0 no messages
info - => ^messages +0 -> 0 no messages
history - --agent a -> 4 no messages
view - <<<$'[]\n \n[ ]' -> 0 no messages

== conversion_prints_what_is_before_a_fault_but_no_part_of_an_array
convert --strict --to framework - <<<$two =2> ^\{ -> 1 line 3
convert --strict --to framework --array - <<<$two -> 1 line 3
END


# ---- Which format, which conversation.

# places TEXT ARGUMENTS: prints the location of each message of talk.json.
places()
{
    printf '%b' "$1" >"$tmp/talk.json"
    shift
    "$tool" convert --to framework --with-location "$tmp/talk.json" "$@" |
        sed -E 's/.*"location":"([^"]*)".*/\1/'
}

function='{"name":"f","arguments":"{}"}'
calls='"tool_calls":[{"id":"c","type":"function","function":'$function'}]'
call='{"role":"assistant","content":null,'$calls'}'
answer='{"role":"tool","tool_call_id":"c","content":"r"}'
step='{"action":"ls","observation":"a b"}'
here='{"type":"task","content":"a","location":"here"}'

# recorded ID: a conversation of one message.
recorded()
{
    printf '{"task_id":%s,"traj":[%s]}' "$1" "$user"
}

session <<'END'
== messages_of_a_file_are_one_conversation
$ places "$task\n$task" =$1> talk talk
$ places "$user\n$user" =$1> talk talk
$ places "[$task,$task]" =$1> talk talk
$ places "[$user,$call]" =$1> talk talk
$ places "$here\n$task" =$1> here talk

== list_in_an_object_is_a_conversation
$ places "[$user]\n[$user]" =$1> talk talk.2
$ places "{\"messages\":[$user]}" =$1> talk
$ places "{\"traj\":[$user]}" =$1> talk
$ places "{\"trajectory\":[$user]}" =$1> talk
$ places "{\"messages\":[$task,$task]}" =$1> talk talk
$ places "[{\"traj\":[$user]},{\"traj\":[$user]}]" =$1> talk talk.2
$ places "$task\n$user\n[$user]" =$1> talk talk talk.2
$ places "[[$user],[$user]]" =$1> talk talk.2
$ places "$here\n[$user]\n[$user]" --location there =$1> here there there.2

== list_of_an_object_is_chosen_when_it_has_messages
$ places "{\"trajectory\":[$step],\"history\":[$user,$user]}" =$1> talk talk
$ places "{\"history\":[$user,$user],\"messages\":[$user]}" =$1> talk
$ places "{\"messages\":[\"a\"],\"traj\":[$step],\"history\":[$user,$user]}" =$1> talk talk
$ places "{\"messages\":[],\"history\":[$user,$user]}" =$1> talk talk
$ places "[{\"messages\":[]},$user]" =$1> talk

== conversation_is_named_by_its_id
$ places "$(recorded 3)\n$(recorded '"x"')" =$1> 3 x
$ places "$(recorded null)\n$(recorded '""')" =$1> talk talk.2
$ places "{\"instance_id\":\"abc\",\"messages\":[$user]}" =$1> abc
$ places "[$(recorded 3),$(recorded 3),$(recorded 3),$(recorded 4)]" =$1> 3 3.2 3.3 4
$ places "[$(recorded '"3.2"'),$(recorded 3),$(recorded 3)]" =$1> 3.2 3 3.3

== brackets_in_strings_end_nothing
view - <<<'{"type":"task","content":"a\\\"]}[{"}[{"type":"task","content":"]\\"},'$task']' => ^3 +- +stdin.2 +- +task +a$

== message_is_read_in_the_format_that_it_shows
convert --to framework - <<<$user => "type": ?"user_message"
convert --to framework - <<<"[$user]" => "type": ?"user_message"
convert --to framework - <<<"{\"traj\":[$user]}" => "type": ?"user_message"
convert --to framework - <<<'{"type":"task","role":"user","content":"a"}' => "type": ?"task"
convert --to framework - <<<'{"type":"text","role":"user","content":"a"}' => "user_message"
convert --to framework - <<<'{"type":"message","role":"user","content":"a"}' => "user_message"
convert --strict --from openai --to framework - <<<$task -> 1 openai message
info - <<<$task => stdin$

== messages_of_a_chat_have_an_agent
view - <<<"$user"$'\n'"$call"$'\n'"$answer" => ^2 +- +assistant +action +f\(\{\}\)$
=> ^1 +- +- +user_message +a$
view - --agent main <<<"$user"$'\n'"$call"$'\n'"$answer" => ^3 +- +main +observation +r$
history - --agent assistant <<<"$user"$'\n'"$call"$'\n'"$answer" => ^3 .*observation
convert --to framework --with-location - <<<"$user"$'\n'"$call" =2> type =0> agent_key
convert --to framework --with-location --agent me - <<<"$user"$'\n'"$call" =1> "agent_key": ?"me"

== call_that_is_left_open_is_not_answered_in_the_next_conversation
convert --to openai - <<<'[{"messages":[{"type":"action","tool":"t","args":{}}]},{"messages":[{"type":"observation","content":"r"}]}]' =2>  =0> "role":"tool"
END


# ---- view and history of the sample trace: which messages, in which order.

team=data_worker,report_worker
alone=$user$'\n{"role":"assistant","content":"text",'$calls$'}\n'$answer
alone=$alone$'\n{"role":"assistant","content":"end"}'
session <<'END'
== view_shows_the_messages_that_are_asked_for
view $demo =$1> {1..31}
view $demo --timeline =$1> {1..31}
view $demo --conversation =$1> 1 18 19 31
view $demo --global =$1> 16 17
view $demo --agent orchestrator =$1> 3 5 20 30
view $demo --agent data_worker =$1> 7 {9..15}
view $demo --team $team =$1> {6..16} {21..29}
view $demo --conversation --global =$1> 1 {16..19} 31
view $demo --turn turn_2 =$1> {19..31}
view $demo -n 2 =$1> 30 31
view $demo -n 2 --oldest =$1> 1 2
view $demo -n 0 =31>
view $demo --since 2026-03-02T09:00:01Z --until 2026-03-02T09:00:08 =$1> {2..5}
view $demo --since 1772442001 =30>
view $demo --since 2026-03-02T09:00:08.25 --until '2026-03-02 09:00:12Z' =$1> 7 8
view $demo --until 2026-03-02 =0>
view $demo --since 2026-03-02 =31>
view $demo --location shop-osaka =31>
view $demo --location shop-tokyo -> 4 shop-osaka
view $demo --agent data-worker -> 0 agents: .*report_worker

== history_shows_what_an_agent_reads
history $demo --agent orchestrator =$1> 1 18 19 31 3 5 20 30 16 17
history $demo --agent orchestrator --team $team =$1> 1 18 19 31 3 5 20 30 {6..16} {21..29} 17
history $demo --agent data_worker =$1> 1 18 19 31 7 {9..17}
history $demo --agent orchestrator --timeline =$1> 1 3 5 {16..20} 30 31
history $demo --agent orchestrator -n 2 =$1> 19 31 20 30 16 17
history $demo --agent orchestrator -n 2 --timeline =$1> 30 31
history $demo --agent orchestrator --scope orchestrator -n 2 =$1> 19 31
history $demo --agent orchestrator --scope manager --phase 1 =$1> 17
history $demo --agent orchestrator --scope manager --phase 0 =0>
history $demo --agent data_worker --scope worker =$1> {9..14} 16
history $demo --agent who => ^ 1  -> 0 no messages of agent who

== history_needs_a_location_when_there_are_several
$ places "[$(recorded 1),{\"task_id\":2,\"traj\":[$call]}]" =$1> 1 2
history $tmp/talk.json --agent assistant -> 2 there are sessions:
history $tmp/talk.json --agent assistant --location 2 => ^2 .*action
view $tmp/talk.json => ^1 +- +1 +- +user_message
$ places "{\"traj\":[$(yes "$user," | head -n 30 | tr -d '\n')$user]}" =31>
history $tmp/talk.json --agent assistant => ^31  -> 0 *

== messages_are_lines_of_a_format_when_it_is_asked_for
history $demo --agent data_worker --timeline --format openai =14> ^\{"role":
view $demo --format framework =31> ^\{ =0> agent_key
view $demo --format framework --with-location =27> agent_key
# A call whose text is left out by the view is no part of the message before it.
history - --agent assistant --format openai <<<$alone =1> "content": *"end"\}
history - --agent assistant --format openai --timeline <<<$alone =4>

== info_counts_messages_times_and_names
info $demo => ^messages +31, [0-9]+ bytes and [0-9]+ of index$
=> ^times +2026-03-02T09:00:00Z to 2026-03-02T09:01:38Z, 0 messages
=> ^ +31 +[0-9]+ bytes  shop-osaka$
=> ^ +11 +[0-9]+ bytes  data_worker$
=> ^ +4 +[0-9]+ bytes  -$
=> ^ +5 +[0-9]+ bytes  action$
=> ^types +16$
$ for i in {1..30}; do echo '{"type":"task","content":"a","location":"l'$i'"}'; done >$tmp/many
info $tmp/many => ^ +\.\.\. and 10 more$ =20> bytes  l
info --all $tmp/many =30> bytes  l
info - <<<$task => ^times +none$
END


# ---- What reaches a terminal: no control characters, columns below each other.

nasty='\u001b[31m\u0007\u007f\u009b31m\u202e\u2066\u200f\u2028\r\n\tx'
cat >"$tmp/nasty.jsonl" <<END
{"type":"action","tool":"t$nasty","args":{"a":"$nasty"},"agent_key":"a$nasty"}
{"type":"task","content":"c\u0000$nasty","agent_key":"b","location":"l$nasty"}
{"type":"delegation","worker":"w$nasty","task":"d$nasty"}
END
escape=$(printf '\033')
controls='[\001-\011\013-\037\177]|\302[\200-\237]'
controls=$(printf '%b' "$controls"'|\342\200[\216\217\250-\256]|\342\201[\246-\251]')
# clean COMMAND...: runs it, and prints the lines with controls.
clean()
{
    "$@" 2>&1 | LC_ALL=C grep -aE "$controls" | cat -v
}
kanji=$(printf '漢%.0s' {1..200})
wide='{"type":"task","content":"x","agent_key":"作業員"}
{"type":"task","content":"x","agent_key":"worker"}
{"type":"task","content":"x","agent_key":"e\u0301te\u0301"}
{"type":"task","content":"x","agent_key":"🤖🤖"}
{"type":"final","content":"x"}'
session <<'END'
== controls_never_reach_a_terminal
$ clean "$tool" view $tmp/nasty.jsonl =0>
$ clean "$tool" info $tmp/nasty.jsonl =0>
$ clean "$tool" history $tmp/nasty.jsonl --agent b --location nasty =0>
$ clean "$tool" view $tmp/nasty.jsonl --location x =0>
$ clean "$tool" view --strict - <<<'{"type":"\u001b[31m\u202e","content":"a"}' =0>
view $tmp/nasty.jsonl =3> ␛\[31m␇␡�31m�
view $demo --location "$escape[31m" -> 4 ␛\[31m

== columns_stand_below_each_other_when_characters_are_wide
view - <<<$wide => ^1  -  作業員  task   x$ => ^2  -  worker  task   x$
=> ^4  -  🤖🤖    task   x$ => ^5  -  -       final  x$
=1> ^3  -  [^ ]{5}     task   x$
view - <<<'{"type":"task","content":"a\r\n\t  b","agent_key":"'${kanji:0:20}'"}' => ^1  -  漢{20}  task  a b$

== body_shows_calls_and_delegations
view $demo => action +query\(\{"sql" => delegation +-> data_worker: Compare

== time_is_the_nearest_that_has_a_date
$ printf '{"type":"task","content":"a","timestamp":%s}\n' 1e300 -1.5 253402300799 >$tmp/times
view $tmp/times =$2> 2262-04-11T23:47:16Z 1969-12-31T23:59:58Z 2262-04-11T23:47:16Z
END

# A terminal: colours, unless NO_COLOR says not; its width.
if has_terminal; then
    yes "${task/a\"/$(printf 'x%.0s' {1..1000})\"}" | head -n 20000 >"$tmp/long"
    convert="$tool convert --to framework $tmp/long >/dev/null"
    session <<'END'
== terminal_has_colours_its_width_and_progress
$ on_terminal '' | grep -cF "$escape[36maction$escape[0m" => ^5$
$ on_terminal NO_COLOR=1 | grep -F "$escape" =0> -> 1
$ on_terminal NO_COLOR= | grep -cF "$escape[0m" => ^31$
$ on_terminal NO_COLOR=1 | sed -n 3p => ^.{109}…$
$ script -qec "$convert" /dev/null => 16 MB read
END
    rm -f "$tmp/long"
else
    echo "skip terminal: there is no script(1) to pretend one"
fi


# ---- Output that cannot be written.

yes "$task" | head -n 10000 >"$tmp/long" # several times what a pipe holds
for arguments in 'view' 'view --format framework' 'history --agent a' \
    'convert --to framework' 'convert --to openai --array'; do
    session <<'END'
== command_ends_silently_when_its_reader_goes
$ { "$tool" $arguments $tmp/long; echo $? >$tmp/status; } | head -c 1 >$tmp/first
$ cat $tmp/status => ^1$
END
done
echo '[{"role":"user","content":null}]' >"$tmp/bad.json"
"$tool" import "$tmp/a.log" $demo >/dev/null
for arguments in "view $demo" "info $demo" "convert --to openai $demo" -h 'view -h' \
    "convert --array --to openai $demo" "view $demo --format openai" --version \
    "history $demo --format openai" "check --as openai $tmp/bad.json" \
    "info $tmp/a.log --json" "verify $tmp/a.log" "export $tmp/a.log" \
    "import $tmp/a.log $demo" "append $tmp/a.log --location c" \
    "follow $tmp/a.log --seconds 0" "compact $tmp/a.log --dry-run"; do
    [ -e /dev/full ] || continue
    session <<'END'
== command_reports_that_its_output_cannot_be_written
$ "$tool" $arguments <<<$task >/dev/full -> 1 cannot write.*No space
END
done

# The number of a closed output would become that of the log, and take the report.
session <<'END'
== closed_output_is_no_file_of_the_tool
import $tmp/closed.log $demo => ^appended
$ head -c 1024 $tmp/closed.log >$tmp/begin
$ "$tool" append $tmp/closed.log --location c <<<$task >&- -> 1 cannot write
$ head -c 1024 $tmp/closed.log | cmp - $tmp/begin && echo same => ^same$
$ "$tool" append $tmp/closed.log --location c <<<no >&- 2>&- -> 1
$ head -c 1024 $tmp/closed.log | cmp - $tmp/begin && echo same => ^same$
$ "$tool" import $tmp/closed.log - <&- => ^appended +0 -> 1 standard input
$ "$tool" info $tmp/closed.log <&- => ^damaged +nothing
END


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

# round FILE ARGUMENTS: how many messages of the file a conversion keeps, which is all.
round()
{
    local file=$1
    shift
    "$tool" convert "$file" "$@" >"$tmp/converted" && equals "$file" "$tmp/converted"
}

sed 's/$/\r/; $s/$/\n\n/' $demo >"$tmp/crlf"
{ printf '\xef\xbb\xbf'; printf '%s' "$(cat $demo)"; } >"$tmp/mark"
session <<'END'
== messages_are_the_same_when_they_are_converted
$ round $demo --to framework --with-location => ^31$
$ round $demo --from framework --to framework --with-location => ^31$
$ round $demo --to framework --with-location --array => ^31$
$ mv $tmp/converted $tmp/array.json
$ round $tmp/array.json --to framework --with-location => ^31$
$ round $tmp/crlf --to framework --with-location => ^31$
$ round $tmp/mark --to framework --with-location => ^31$
view $demo --format framework --with-location >$tmp/converted
$ equals $demo $tmp/converted => ^31$
$ tail -n 1 $demo | "$tool" convert --to framework >$tmp/last
$ "$tool" convert $demo --to framework | tail -n 1 == $tmp/last
END

tau=$shared/tau-bench-airline/gpt-4o-airline.json
if [ -f "$tau" ]; then
    session <<'END'
== conversations_of_a_benchmark_are_kept
$ round $tau --to openai => ^5308$
info $tau => ^locations +200$ => ^ +2328 +[0-9]+ bytes  assistant$
info --all $tau =1> bytes  3$ =1> bytes  3\.2$ =1> bytes  3\.3$ =1> bytes  3\.4$
END
else
    echo "skip tau: there is no $tau"
fi


# ---- A file is not held: 60 MB go through 30 MB of address space.

if [ "${MS_TEST_SCALE:-100}" -eq 100 ] &&
    (ulimit -v 30000 && "$tool" --version) >/dev/null 2>&1; then
    # big COUNT LINE: the line so many times.
    big()
    {
        yes "$2" | head -n "$1"
    }

    # limited ARGUMENTS: prints how many lines the tool prints within the limit.
    limited()
    {
        (ulimit -v 30000 && exec "$tool" "$@") | wc -l
    }

    text=$(printf 'word %.0s' {1..200})
    long='{"type":"task","content":"'$text'","agent_key":"a"}'
    said='{"role":"user","content":"'$text'"}'
    session <<'END'
== file_is_not_held_while_it_is_read
$ big 60000 "$long" | limited convert --to framework - => ^60000$
$ { echo '['; big 60000 "$long,"; echo "$long]"; } | limited convert --to framework - => ^60001$
$ { echo '['; big 60000 "$said,"; echo "$user]"; } | limited convert --to openai - => ^60001$
$ { echo '['; big 60000 '{"task_id":1,"traj":['"$said"']},'; echo "$user]"; } | limited convert --to openai - => ^60001$
$ { echo '{'; big 60000 "$long"; } | limited convert --strict --to framework - => ^0$ -> 0 line 2, column 1 \(byte 2\): .

== element_is_refused_when_it_is_over_256_MiB
$ { printf '{"type":"task","content":"'; head -c 270000000 /dev/zero | tr '\0' a; } | "$tool" view --strict - -> 1 line 1, column 1 \(byte 0\): .*256 MiB
END
else
    echo "skip streaming: only with MS_TEST_SCALE 100 and where ulimit -v works"
fi

# The tool's own sources.
same sources_are_narrow '' "$(grep -nE '^.{91,}$' tools/*.[ch] | cut -c 1-60 | head -n 3)"

# ---- A terminal of 100 columns: there a line is cut.

# on_line JSON: `view` of one message on it.
on_line()
{
    printf '%s\n' "$1" >"$tmp/line.jsonl"
    script -qec "stty cols 100; NO_COLOR=1 $tool view $tmp/line.jsonl" /dev/null \
        </dev/null | tr -d '\r'
}
if has_terminal; then
    session <<'END'
== line_is_cut_at_the_width_of_its_characters
$ on_line '{"type":"user_message","content":"'$kanji'"}' => ^1  -  -  user_message  漢{38}…$
$ on_line '{"type":"user_message","content":"'${kanji//漢/ab}'"}' => ^.{99}…$
$ on_line '{"type":"task","content":"'${kanji:0:42}'"}' => 漢{42}$
$ on_line '{"type":"task","content":"'${kanji:0:43}'"}' => 漢{42}…$
$ on_line '{"type":"task","content":"a'"$(printf '\\u0301%.0s' {1..9000})"'b"}' | wc -c => ^[1-8]?[0-9]{1,3}$
END
else
    echo "skip line_is_cut: script(1) gives no terminal"
fi

exit $failed
