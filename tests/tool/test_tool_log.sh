#!/usr/bin/env bash
# The commands of build/msgstore that work on logs: import (keys, damaged input), append
# (a number is printed when its message is stored, one writer at a time), follow, export,
# verify, repair, compact; view, history, info and convert of a log.
. "$(dirname "$0")/tool_checks.sh"
log=$tmp/a.log

# tasks FROM TO: so many messages, a line each; their content is their number.
tasks()
{
    awk -v i="$1" -v n="$2" 'BEGIN {
        for (; i <= n; i++) print "{\"type\":\"task\",\"content\":\"" i "\"}"
    }'
}

# fresh COUNT: a new log with so many tasks in the location l.
fresh()
{
    rm -f "$log"
    tasks 1 "$1" | "$tool" import "$log" - --location l >/dev/null
}

# alike ARGUMENTS: prints what differs when FILE is the log and when it is the sample.
alike()
{
    "$tool" "${@//FILE/$log}" >"$tmp/b" 2>&1
    "$tool" "${@//FILE/$demo}" 2>&1 | diff "$tmp/b" -
}


# ---- Usage.

session <<'END'
== arguments_are_refused_when_they_do_not_fit
verify a b -> 2 one file
repair a b c -> 2 two files, not c
import $log $demo --sync often -> 2 none, each or end, not often
append $log --sync end -> 2 none or each, not end
follow $log --after x -> 2 a number, not x
follow $log --seconds -1 -> 2 a number, not -1
compact a b --keep-last x -> 2 a number, not x
append $log --keys -> 2 takes no option --keys
import $log $demo $tmp/no.jsonl -> 4 no\.jsonl
import $tmp/no_folder/a.log $demo -> 4 no_folder
$ ls $tmp =0> \.log
END


# ---- A log of 0.2.0, as CHANGELOG.md says: tests/golden/version2.jsonl is what `msgstore
# export` of 0.2.0 wrote of one with keys, agents, turns, an amended and a hidden message,
# and what its `location` and `note` printed is set and noted anew.

old=tests/golden/version2.msl
exported=tests/golden/version2.jsonl
session <<'END'
== log_of_0_2_0_is_taken_over
view $old -> 3 version 2, of msgstore 0\.2\.0: use msgstore export of that version, then msgstore import of this one
import $tmp/moved.log $exported => ^appended +6 messages, the last is number 6$
$ "$tool" export $tmp/moved.log | diff - $exported =0>
location $tmp/moved.log job_1 '{"title":"All tables","model":"m1"}' => ^set +facts of job_1$
location $tmp/moved.log job_1 => ^\{"title":"All tables","model":"m1"\}$
note $tmp/moved.log 4 usage '{"input_tokens":120,"output_tokens":7}' --json => ^noted
usage $tmp/moved.log => ^ +1 +120 +0 +0 +7 +- +-$
import $tmp/moved.log $exported --keys => ^appended +5 messages
END


# ---- import; a log is read like the file that it came from.

team=data_worker,report_worker
session <<'END'
== log_is_read_like_the_file_that_it_came_from
import $log $demo => ^appended +31 messages, the last is number 31$
$ alike view FILE =0>
$ alike view FILE --agent data_worker --global -n 7 =0>
$ alike view FILE --since 2026-03-02T09:00:30Z --oldest -n 5 =0>
$ alike view FILE --team $team --format openai =0>
$ alike view FILE --format framework --with-location =0>
$ alike history FILE --agent orchestrator --team $team =0>
$ alike history FILE --agent data_worker --timeline --format openai =0>
$ alike history FILE --agent data_worker --scope worker =0>
$ alike convert FILE --to framework --with-location =0>
$ alike convert FILE --to openai =0>
$ alike convert FILE --to openai --array =0>
$ alike export FILE =0>
$ alike export FILE --format openai =0>
convert $demo --to framework --with-location >$tmp/demo.out
export $log == $tmp/demo.out
view $log --location shop-tokyo -> 4 ^msgstore: shop-osaka Why did the Osaka shop
export $log --location shop-tokyo -> 4 ^msgstore: shop-osaka Why did the Osaka shop
export $log --location shop-osaka --location x -> 4 session x

== info_of_a_log_has_its_state_and_its_counts
$ "$tool" info $demo | grep -v '^messages' >$tmp/a
$ "$tool" info $log | sed -n '/^times/,$p' == $tmp/a
info $log => ^log +[0-9a-f]{32}, made 20[0-9-]+T[0-9:]+Z$
=> ^bytes +[0-9]+ in use, [0-9]+ in the file$
$ "$tool" info $log | awk '/^bytes/ { print ($2 <= $5) }' => ^1$
info $log => ^durable +up to message 31 .
=> ^writer +process [1-9][0-9]* was
=> ^damaged +nothing$
=> ^newest +2026-03-02T09:01:38Z +31 messages  shop-osaka$
info $log --json =1> ^\{"messages":31,"last_seq":31,.*"log":\{"id":"[0-9a-f]{32}".*"durable_seq":31,
=1> "agents":.*"rows":\[\{"name":"data_worker","messages":11
info $demo --json => "messages":31 =0> "log":\{

== import_takes_standard_input_files_and_exports
$ rm $log
import $log - <$demo => number 31$
export $log == $tmp/demo.out
$ rm $log; head -n 10 $demo >$tmp/one.jsonl; tail -n +11 $demo >$tmp/two.jsonl
import $log $tmp/one.jsonl $tmp/two.jsonl => number 31$
export $log == $tmp/demo.out
$ rm $log
import $log $tmp/demo.out => number 31$
export $log == $tmp/demo.out
END
for mode in none each end; do
    rm -f "$log"
    session <<'END'
== import_stores_the_same_in_each_mode_of_sync
import $log $demo --sync $mode => number 31$
export $log == $tmp/demo.out
END
done

cat >"$tmp/talks.jsonl" <<'END'
{"task_id":1,"traj":[{"role":"user","content":"a"},{"role":"assistant","content":"b","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c2","content":"r2"},{"role":"tool","tool_call_id":"c1","content":"r1"}]}
{"task_id":2,"traj":[{"role":"user","content":"c"},{"role":"assistant","content":"d"}]}
{"type":"task","content":{"a":[1,null,"é"]},"timestamp":12.25,"location":"1","x":1.50}
{"type":"final","content":"","location":"2","agent_key":"w","idempotency_key":"k"}
END
# named LOG: names and counts of its locations and agents.
named()
{
    "$tool" info --all "$1" | awk '/^locations/, /^types/ { print $1, $4 }'
}

tau=$shared/tau-bench-airline/gpt-4o-airline.json
[ -f "$tau" ] || echo "skip export_tau: there is no $tau"
for file in "$demo" "$tmp/talks.jsonl" "$tmp/talks.jsonl --keys" "$tau"; do
    [ "$file" != "$tau" ] || [ -f "$tau" ] || continue
    rm -f "$tmp"/[xy].log
    session <<'END'
== import_of_an_export_is_an_equal_log
import $tmp/x.log $file
$ "$tool" export $tmp/x.log >$tmp/x.jsonl; named $tmp/x.log >$tmp/x.names
import $tmp/y.log $tmp/x.jsonl --lenient --from framework
export $tmp/y.log == $tmp/x.jsonl
$ named $tmp/y.log == $tmp/x.names
END
done
if [ -f "$tau" ]; then
    session <<'END'
== export_is_what_a_conversion_of_the_file_is
convert $tau --to openai >$tmp/chat
export $tmp/x.log --format openai == $tmp/chat
info $tmp/x.log => ^locations +200
END
fi

for text in a1 b1 a2 b2; do
    echo '{"type":"user_message","content":"'$text'","location":"'${text%?}'"}'
done >"$tmp/turns.jsonl"
# texts ARGUMENTS: the contents of what is exported, on a line.
texts()
{
    "$tool" export "$log" "$@" | grep -oE '[ab][12]' | paste -sd' '
}

fault='{"type":"task","content":"4"}
{"type":"task",}
{"type":"task","content":"5"}'
session <<'END'
== conversations_follow_each_other_when_a_format_has_no_locations
$ rm $log
import $log $tmp/turns.jsonl => .
$ texts => ^a1 b1 a2 b2$
$ texts --format openai => ^a1 a2 b1 b2$
$ texts --location b => ^b1 b2$
$ texts --location b --location a => ^a1 b1 a2 b2$
$ texts --location b --format openai => ^b1 b2$
export $log --array => ^\[\{.*\}\]$

== import_keeps_what_is_before_a_fault
$ fresh 3
view $log =$2> - - -
import --strict $log - --location l <<<$fault => ^appended +1 message, the last is number 4$ -> 1 line 2, column 16 \(byte 45\)
view $log =$5> 1 2 3 4
import $tmp/b.log $log -> 1 this is a log
$ ls $tmp =0> b\.log
END
if has_terminal; then
    tasks 1 18000 | sed "s/:\"task\"/&,\"turn_id\":\"$(printf 'x%.0s' {1..960})\"/" >"$tmp/long"
    session <<'END'
== import_of_a_large_file_shows_its_progress
$ script -qec "$tool import $tmp/b.log $tmp/long --location l >$tmp/null" /dev/null => 16 MB read, [0-9]{5} messages, [0-9]+ MB/s
info $tmp/b.log --json => "messages":18000,"last_seq":18000,
END
    rm -f "$tmp/long" "$tmp/b.log"
else
    echo "skip import_progress: there is no script(1) to pretend a terminal"
fi


# ---- import --keys: nothing twice.

yes '{"type":"task","content":"a"}' | head -n 5 >"$tmp/same.jsonl"
tasks 1 100 >"$tmp/grows.jsonl"
tasks 1 150 >"$tmp/grown.jsonl"
sed '5s/"5"/"five"/' "$tmp/grown.jsonl" >"$tmp/edited.jsonl"
tasks 1 2000 >"$tmp/long"
# ids CONTENT ID ...: a task of each content and id.
ids()
{
    printf '{"type":"task","content":"%s","id":"%s"}\n' "$@"
}
long_id=$(printf 'x%.0s' {1..3000})

session <<'END'
== import_by_keys_takes_nothing_twice
$ rm $log
import --keys $log $demo => ^appended +31 messages
$ "$tool" export $log >$tmp/a
import --keys $log $demo => ^appended +0 messages => ^known +31 messages
import --keys $log $tmp/talks.jsonl => ^appended +10 messages
import --keys $log $tmp/talks.jsonl => ^appended +0 messages => ^known +10 messages
$ "$tool" export $log | head -n 31 == $tmp/a
import --keys $log $tmp/long --location long => ^appended +2000 messages
import --keys $log $tmp/long --location long => ^known +2000 messages

== import_by_keys_takes_what_is_new_in_a_file
$ rm $log
import --keys $log $tmp/grows.jsonl --location l => .
import --keys $log $tmp/grown.jsonl --location l => ^appended +50 messages, the last is number 150$
view $log =$5> {1..150}
import --keys $log $tmp/edited.jsonl --location l => ^appended +1 message

== import_by_keys_counts_equal_lines
import --keys $log $tmp/same.jsonl => ^appended +5 messages
import --keys $log $tmp/same.jsonl => ^known +5 messages
import $log $tmp/same.jsonl => ^appended +5 messages

== own_ids_count_wherever_their_line_is
$ ids a i1 b i2 | "$tool" import --keys $log - --location n => ^appended +2 messages
$ ids c i3 b i2 | "$tool" import --keys $log - --location n => ^appended +1 message
$ ids d i1 | "$tool" import --keys $log - --location n => ^appended +0 messages -> 5 line 1, column 1 .*key
$ ids d i1 e i4 | "$tool" import --keys --keep-going $log - --location n => ^appended +1 message -> 3 line 1, .*key
$ ids a $long_id | "$tool" import --keys $log - --location n => ^appended +1 message
$ ids a $long_id | "$tool" import --keys $log - --location n => ^appended +0 messages
END


# ---- Pipes with names. The second time the writer waits inside the file.

# pipes COMMAND...: writes the sample into $tmp/pipe while the command runs.
pipes()
{
    local code
    if [ -z "$late" ]; then cat "$demo" >"$tmp/pipe" &
    else { head -n 3 "$demo"; sleep 0.3; tail -n +4 "$demo"; } >"$tmp/pipe" & fi
    timeout 10 "$tool" "$@"
    code=$?
    kill $! 2>/dev/null
    return $code
}

mkfifo "$tmp/pipe"
"$tool" view "$demo" >"$tmp/want"
for late in '' late; do
    rm -f "$log"
    session <<'END'
== pipe_with_a_name_is_read_once
$ pipes view $tmp/pipe == $tmp/want
$ pipes import --keys $log $tmp/pipe => ^appended +31 messages
$ pipes doctor $tmp/pipe -> 1 name a file
END
done
if command -v zstd >/dev/null && "$tool" formats | grep -q 'files: zstd'; then
    session <<'END'
== compressed_messages_are_read_to_their_end_and_no_further
$ zstd -q $demo -o $tmp/demo.zst
view $tmp/demo.zst == $tmp/want
END
fi


# ---- import --keep-going: what is whole in a damaged file.

line()
{
    printf '{"type":"task","content":"%s","location":"l"}' "$1"
}

nul()
{
    head -c "$1" /dev/zero
}

# rescue [TEXT]: imports the file $tmp/bad. TEXT becomes that file; <word> stands for the
# message of that content. Prints the contents that come in, what is skipped, and how many
# messages name their place.
rescue()
{
    local code
    [ $# -eq 0 ] || printf '%b' "$1" |
        sed 's/<\([a-z]*\)>/{"type":"task","content":"\1","location":"l"}/g' >"$tmp/bad"
    rm -f "$tmp/r.log"
    "$tool" import --strict --keep-going "$tmp/r.log" "$tmp/bad" >"$tmp/report" 2>"$tmp/places"
    code=$?
    "$tool" view "$tmp/r.log" 2>&1 | awk '$4 == "task" { printf "%s ", $5 }'
    sed -n 's/^skipped */- /p' "$tmp/report" | tr '\n' ' '
    grep -cE '^msgstore: .*/bad: line [0-9]+, .*; skipped bytes [0-9]+ to [0-9]+$' "$tmp/places"
    return $code
}

inner='{"type":"task","content":"inner","location":"l"}'
session <<'END'
== whole_messages_are_imported_from_a_damaged_file
$ rescue '<one>\n<two>\n' => ^one two - 0 places in 0 lines, 0 bytes 0$
$ rescue '<one><two><three>' => ^one two three - 0 places in 0 lines, 0 bytes 0$
$ rescue '' => ^- 0 places in 0 lines, 0 bytes 0$
$ rescue '<one>\n{"type":"task",}\n<two>\n' => ^one two - 1 place in 1 line, 16 bytes 1$ -> 3
$ cat $tmp/places => bad: line 2, column 16 \(byte 62\): .*; skipped bytes 47 to 62
$ rescue '<one>\n{"type":"task","conte' => ^one - 1 place in 1 line, 21 bytes 1$ -> 3
$ rescue '<one>\n{"type":"task","conte<two>\n<x>' => ^one two x - 1 place in 1 line, 21 bytes 1$ -> 3
$ rescue '<one>\n{"foo":1}\n5\n<two>' => ^one two - 2 places in 2 lines, 10 bytes 2$ -> 3
$ rescue '{"messages":[<one>,5,<two>]}\n' => ^one two - 1 place in 1 line, 1 byte 1$ -> 3
$ rescue '[\n<one>,\n<two>,\n<three>,\n' => ^one two three - 1 place in 1 line, 1 byte 1$ -> 3
$ rescue '[<one> , <two>,{"type":"task",}]\n<x>' => ^one two x - 2 places in 1 line, 18 bytes 2$ -> 3
$ rescue '<one>\n}}<two>\n' => ^one two - 1 place in 1 line, 2 bytes 1$ -> 3
$ rescue '{"type":"task","content":\n "one","location":"l"\n}\n{"type":' => ^one - 1 place in 1 line, 8 bytes 1$ -> 3

== what_stands_in_a_damaged_object_is_no_message
$ rescue '<one>\n{"type":"action","args":<inner>,@ "x":<inner>}\n' => ^one - 1 place in 1 line, 128 bytes 1$ -> 3
$ rescue '<one>\n{"type":"action","args":<inner><two>' => ^one two - 1 place in 1 line, 72 bytes 1$ -> 3
$ rescue '<one>\n{"type":"task","content":"{\\"type\\":\\"task\\"}\n' => ^one - 1 place in 1 line, 45 bytes 1$ -> 3
$ { line one; echo; printf '{"type":"action","x":['; nul 9; echo "$inner],\"y\":1}"; } >$tmp/bad
$ rescue => ^one - 3 places in 1 line, 87 bytes 3$ -> 3

== nuls_and_deep_nesting_hide_no_message
$ { line one; echo; nul 5000; line two; echo; } >$tmp/bad
$ rescue => ^one two - 1 place in 1 line, 5000 bytes 1$ -> 3
$ { line one; echo; printf '{"type":"ta'; nul 300000; echo; line two; } >$tmp/bad
$ rescue => ^one two - 2 places in 1 line, 300011 bytes 2$ -> 3
$ { printf '{"type":"ta'; nul 70; line one; nul 70; } >$tmp/bad
$ rescue => ^one - 3 places in 1 line, 151 bytes 3$ -> 3
$ { nul 100000 | tr '\0' '['; echo; line one; } >$tmp/bad
$ rescue => ^one - 1 place in 1 line, 100000 bytes 1$ -> 3
$ { yes '{"a":[{"b":' | head -n 20000 | tr -d '\n'; echo; line one; } >$tmp/bad
$ rescue => ^one - 1 place in 1 line, 220000 bytes 1$ -> 3

== bad_utf8_is_repaired_unless_it_is_strict
$ printf '{"type":"task","content":"a\xffb","location":"l"}\n' >$tmp/bad; rm $tmp/r.log
import --keep-going $tmp/r.log $tmp/bad => ^repaired +1 . -> 3 line 1, column 28 \(byte 27\): bad UTF-8
view $tmp/r.log =$5> a�b
import --strict $tmp/r.log $tmp/bad => ^appended +0 -> 1 line 1, column 28 \(byte 27\)
$ printf '{"type":"task","content":"a\xff%70000dz","location":"l"}\n' 0 >$tmp/bad; rm $tmp/r.log
import --keep-going $tmp/r.log $tmp/bad => ^appended +1 => ^repaired +1 . -> 3 line 1, column 28 .*: bad UTF-8
export $tmp/r.log => a�0* *0*z

# Many bad places in one line cost processor time by their number, not by its square.
== long_line_is_searched_in_linear_time
$ yes '{"type":"ta{"type":"task","content":"x","location":"l"}' | head -n 60000 | tr -d '\n' >$tmp/bad; rm $tmp/r.log
$ (ulimit -t 20 && "$tool" import --keep-going $tmp/r.log $tmp/bad) => ^appended +60000 -> 3 *
END

# A line that was cut anywhere, and ran into the next one or into NULs: the lines around
# it are there, and it is if it is whole.
whole='{"type":"action","tool":"f","args":{"type":"task","content":"y"},"location":"l"}'
for ((cut = 0; cut <= ${#whole}; cut++)); do
    line "a$cut"
    echo
    printf '%s' "${whole:0:cut}"
    line "b$cut"
    echo
    printf '%s' "${whole:0:cut}"
    nul $((cut + 1))
    line "c$cut"
    echo
done >"$tmp/bad"
for ((cut = 0; cut <= ${#whole}; cut++)); do
    call=
    [ "$cut" -lt "${#whole}" ] || call='f({"type":"task","content":"y"}) '
    printf '%s %s%s %s%s ' "a$cut" "$call" "b$cut" "$call" "c$cut"
done | sed 's/ $//' >"$tmp/want"
{ line one; echo; printf '{"type":"ta\n'; line two; echo; } >"$tmp/bad2"
session <<'END'
== lines_around_a_cut_line_are_imported_wherever_it_is_cut
$ rm $tmp/r.log
import --strict --keep-going $tmp/r.log $tmp/bad => . -> 3 *
$ "$tool" view $tmp/r.log | awk '{ printf "%s%s", s, $5; s = " " }' == $tmp/want
import --keep-going --keys $tmp/s.log $tmp/bad => . -> 3 *
import --keep-going --keys $tmp/s.log $tmp/bad => ^appended +0 . -> 3 *

== damage_is_counted_over_all_files
$ cp $tmp/bad2 $tmp/bad; rm $tmp/r.log
import --keep-going $tmp/r.log $tmp/bad $tmp/bad2 => ^skipped +2 places in 2 lines, 22 bytes$ -> 3 /bad2: line 2
END


# ---- append: a number when it is stored, not before.

session <<'END'
== append_prints_the_number_of_each_message
$ rm $log
$ tasks 1 5 | "$tool" append $log --location l =$1> {1..5}
view $log =$5> {1..5} =5> [0-9]Z
append $log <<<$'{"type":"task","content":"6","location":"m"}\n{"type":"task","content":"7"}' => ^6$ -> 1 line 2, column 1 .*no location
append $log --location n <<<$'{"type":"task","content":"7","location":"m"}\n{"type":"task","content":"8"}' =$1> 7 8
view $log =$3> l l l l l m m n
append $log <<<$'{"type":"task","content":"9","location":"m"}\n{"type":"task",\n"content":"10"}\n' => ^9$ -> 1 standard input: line 2, column 16 .
append $log <<<$'{"type":"task","content":"10","location":"m"}\nnonsense\n' => ^10$ -> 1 line 2, column 1 \(byte 46\)
append $log <<<$'\n \n' -> 0 no messages
append $log --location c --sync each <<<$'{"role":"assistant","content":"x","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}\n{"role":"user","content":"a"}' =$1> 12 13
view $log --location c =$4> assistant_message action user_message
info $log => ^durable +up to message 13 .
append $log --location c --from openai <<<'{"type":"task","content":"a"}' -> 1 openai message
append $log --location c <<<$'{"type":"task","content":"a","idempotency_key":"k"}\n{"type":"task","content":"b","idempotency_key":"k"}' => ^14$ -> 5 .
END

# Each number comes before the next line is sent; one writer at a time.
holder_PID=0 reader_PID=0 writer_PID=0 # set by bash while they run
coproc holder { exec "$tool" append "$log" --location h 2>"$tmp/holder"; }
talk=
for i in 1 2 3; do
    tasks $i $i >&"${holder[1]}"
    read -r -t 5 -u "${holder[0]}" number && talk="$talk $((number - 14))"
    talk="$talk $("$tool" view "$log" --location h | wc -l)"
done
pid=$holder_PID input_of=${holder[1]}
session <<'END'
== append_stores_each_line_before_it_reads_the_next
$ echo "$talk" => ^ 1 1 2 2 3 3$

== writer_is_refused_when_another_has_the_log
append $log --location h <<<'{"type":"task","content":"a"}' -> 6 .
$ "$tool" import $log $demo 2>&1 | grep -o "process $pid" => .
compact $log $log --replace -> 6 .
$ "$tool" info $log | grep -o "^writer *process $pid " => .
verify $log => ^verdict +whole
$ exec {input_of}>&-; wait $pid
import $log $demo => .
END


# ---- follow: the newest, then what comes.

session <<'END'
== follow_begins_with_the_newest_or_after_a_number
$ fresh 30
follow $log --seconds 0 =$1> {21..30}
follow $log --seconds 0 -n 2 =$1> 29 30
follow $log --seconds 0 -n 0 =$1> {1..30}
follow $log --seconds 0 -n 1 --json => ^\{"kind":"message","seq":30,
follow -h => --json +an object a line
follow $log --seconds 0.3 --after 27 =$1> 28 29 30
follow $log --seconds 0.3 --after 27 -n 1 =$1> 28 29 30
follow $log --seconds 0.3 --after 30 =0>
view $log --format framework --with-location >$tmp/a
follow $log --format framework --with-location --seconds 0 -n 0 == $tmp/a
export $log --format table -> 2 a message format, not table
follow $log --format x -> 2 table or a message format
END

# Everything that is appended meanwhile, once and in order.
follow 0 --after 10 --seconds 30
tasks 31 2030 | while IFS= read -r text; do echo "$text"; done |
    "$tool" append "$log" --location l >"$tmp/acks"
unfollow 2020
session <<'END'
== follow_shows_what_is_appended_once_and_in_order
$ echo $status => ^0$
$ cat $tmp/follow =$1> {11..2030} =$6> {11..2030}
END

# Each at once, those that are asked for; it ends at a signal.
coproc reader { exec "$tool" follow "$log" -n 1 --agent w --location m --format framework; }
pid=$reader_PID input_of=${reader[0]}
session <<'END'
== follow_shows_what_is_asked_for_at_once_until_a_signal
append $log --location m <<<'{"type":"task","content":"1","agent_key":"w"}' => .
$ read -r -t 5 -u $input_of line; echo "$line" => "content":"1"
append $log --location m <<<'{"type":"task","content":"2","agent_key":"v"}' => .
append $log --location m <<<'{"type":"user_message","content":"3"}' => .
append $log --location m <<<'{"type":"final","content":"4","agent_key":"w"}' => .
$ read -r -t 5 -u $input_of line; echo "$line" => "content":"4"
$ kill -TERM $pid; wait $pid
END
follow 1 -n 1
kill -INT "$follower"
# A shell lets programs in the background ignore an interrupt; a second signal ends it.
sleep 0.2
unfollow 1
same follow_ends_at_an_interrupt '0 1' "$status $(wc -l <"$tmp/follow")"

rm -f "$log"
"$tool" append "$log" --location c <<<'{"type":"action","tool":"f","args":{}}' >"$tmp/acks"
follow 1 --format openai --seconds 20
"$tool" append "$log" --location c <<<'{"type":"observation","content":"r"}' >"$tmp/acks"
unfollow 2
session <<'END'
== follow_joins_a_result_to_its_call_when_it_comes_later
view $log --format openai == $tmp/follow
END
fresh 10
follow 2 --after 8 --seconds 20
"$tool" compact "$log" "$log" --keep-last 3 --replace >"$tmp/acks"
tasks 11 12 | "$tool" append "$log" --location l >"$tmp/acks"
unfollow 4
session <<'END'
== follow_goes_on_when_the_log_is_compacted_in_place
$ cat $tmp/follow =$1> 9 10 11 12
END

fresh 10
follow 2 --after 8 --seconds 20 2>"$tmp/told"
mv "$log" "$tmp/old.log"
tasks 21 23 | "$tool" append "$log" --location l >"$tmp/acks"
soon lines 5 "$tmp/follow"
"$tool" amend "$log" 1 changed >"$tmp/acks"
unfollow 6
session <<'END'
== follow_shows_another_log_that_takes_the_place
$ cat $tmp/follow =$1> 9 10 1 2 3 1
$ cat $tmp/told =1> another log is there now
END
fresh 3
follow 3 -n 0 --seconds 20 2>"$tmp/told"
kill -STOP "$follower"
"$tool" amend "$log" 1 'to be damaged' >"$tmp/acks"
at=$(LC_ALL=C grep -abo 'to be damaged' "$log" | head -n 1 | cut -d : -f 1)
printf '#' | dd of="$log" bs=1 seek="$at" conv=notrunc 2>/dev/null
kill -CONT "$follower"
soon has damaged "$tmp/told"
sleep 0.4
tasks 4 4 | "$tool" append "$log" --location l >"$tmp/acks" 2>&1
unfollow 4
session <<'END'
== follow_goes_on_after_a_change_that_is_damaged
$ echo $status => ^3$
$ cat $tmp/follow =$1> 1 2 3 4
$ cat $tmp/told =1> 1 records were skipped
END
# The change before it cannot be shown either: its message is read with all changes.
fresh 3
follow 3 -n 0 --seconds 20 2>"$tmp/told"
kill -STOP "$follower"
"$tool" amend "$log" 1 'good one' >"$tmp/acks"
"$tool" amend "$log" 1 'to be damaged' >"$tmp/acks"
at=$(LC_ALL=C grep -abo 'to be damaged' "$log" | head -n 1 | cut -d : -f 1)
printf '#' | dd of="$log" bs=1 seek="$at" conv=notrunc 2>/dev/null
kill -CONT "$follower"
soon has 'reading a change' "$tmp/told"
tasks 4 4 | "$tool" append "$log" --location l >"$tmp/acks" 2>&1
unfollow 4
session <<'END'
== follow_goes_on_after_a_message_that_cannot_be_read
$ echo $status => ^3$
$ cat $tmp/follow =$1> 1 2 3 4
END
fresh 10
follow 0 --after 12 --seconds 20 2>"$tmp/told"
sleep 0.3
"$tool" compact "$log" "$log" --keep-last 3 --replace >"$tmp/acks"
sleep 0.3
tasks 11 14 | "$tool" append "$log" --location l >"$tmp/acks"
unfollow 2
session <<'END'
== follow_begins_after_a_number_that_a_rewritten_log_has_not_yet
$ cat $tmp/follow =$1> 13 14
$ cat $tmp/told =0>
END
fresh 10
cp "$log" "$tmp/copy.log"
tasks 11 13 | "$tool" append "$log" --location l >"$tmp/acks"
follow 3 --after 10 --seconds 20 2>"$tmp/told"
mv "$tmp/copy.log" "$log"
soon lines 1 "$tmp/told"
tasks 21 24 | "$tool" append "$log" --location l >"$tmp/acks"
unfollow 7
session <<'END'
== follow_goes_on_from_an_older_file_that_is_put_back
$ cat $tmp/follow =$1> 11 12 13 11 12 13 14
$ cat $tmp/told =1> an older file is there now: it has messages up to 10, not 13
END
# An older file that was appended to: its messages are others, as their times tell.
fresh 10
cp "$log" "$tmp/copy.log"
tasks 11 13 | "$tool" append "$log" --location l >"$tmp/acks"
tasks 11 14 | "$tool" append "$tmp/copy.log" --location l >"$tmp/acks"
follow 4 --after 9 --seconds 20 2>"$tmp/told"
mv "$tmp/copy.log" "$log"
unfollow 8
session <<'END'
== follow_shows_the_other_messages_of_an_older_file
$ cat $tmp/follow =$1> 10 11 12 13 11 12 13 14
$ cat $tmp/told =1> an older file is there now, with other messages after 10$
END
fresh 5
cp "$log" "$tmp/copy5.log"
tasks 6 8 | "$tool" append "$log" --location l >"$tmp/acks"
cp "$log" "$tmp/copy8.log"
tasks 9 13 | "$tool" append "$log" --location l >"$tmp/acks"
follow 3 --after 10 --seconds 20 2>"$tmp/told"
mv "$tmp/copy8.log" "$log"
soon lines 1 "$tmp/told"
mv "$tmp/copy5.log" "$log"
soon lines 2 "$tmp/told"
tasks 6 9 | "$tool" append "$log" --location l >"$tmp/acks"
unfollow 7
session <<'END'
== follow_goes_on_from_each_older_file
$ cat $tmp/follow =$1> 11 12 13 6 7 8 9
$ cat $tmp/told =1> up to 8, not 13$ =1> up to 5, not 8$
END
fresh 3
cp "$log" "$tmp/copy.log"
follow 3 -n 0 --seconds 20 2>"$tmp/told"
"$tool" amend "$log" 1 changed >"$tmp/acks"
soon lines 4 "$tmp/follow"
mv "$tmp/copy.log" "$log"
soon lines 1 "$tmp/told"
"$tool" amend "$log" 2 changed >"$tmp/acks"
unfollow 5
session <<'END'
== follow_tells_of_an_older_file_without_a_change
$ cat $tmp/follow =$1> 1 2 3 1 2
$ cat $tmp/told =1> an older file is there now: it has 0 of 1 changes after message 3$
END
# A rewrite drops what was hidden, also the newest message: that is no older file.
fresh 5
follow 2 -n 2 --seconds 20 2>"$tmp/told"
"$tool" hide "$log" 5 >"$tmp/acks"
soon lines 3 "$tmp/follow"
"$tool" compact "$log" "$log" --replace >"$tmp/acks"
sleep 0.3
tasks 6 6 | "$tool" append "$log" --location l >"$tmp/acks"
unfollow 4
session <<'END'
== follow_goes_on_when_the_newest_message_was_dropped
$ cat $tmp/follow =$1> 4 5 - 6
$ cat $tmp/told =0>
END
# Another file over the bytes of the log.
fresh 5
mv "$log" "$tmp/other.log"
fresh 8
follow 2 -n 2 --seconds 20 2>"$tmp/told"
cp "$tmp/other.log" "$log"
soon has mv "$tmp/told"
unfollow 2
session <<'END'
== follow_ends_when_the_log_is_overwritten
$ echo $status => ^3$
$ cat $tmp/told => overwritten.*use mv
END
# Filters hold for what comes with --raw, too, and for hidings.
rm -f "$log"
for turn in a b a; do echo '{"type":"task","content":"x","turn_id":"'"$turn"'"}'; done \
    >"$tmp/turns"
"$tool" append "$log" --location l <"$tmp/turns" >"$tmp/acks"
follow 2 --raw --turn a --seconds 20
"$tool" append "$log" --location l <"$tmp/turns" >"$tmp/acks"
unfollow 4
session <<'END'
== follow_filters_records
$ cat $tmp/follow =$1> 1 3 4 6
$ fresh 3
hide $log 2 => .
follow $log --after 0 --seconds 0.3 =$1> 1 3
follow $log --after 2 --seconds 0.3 =$1> 3
END
rm -f "$log"
for agent in w v v; do echo '{"type":"task","content":"x","agent_key":"'"$agent"'"}'; done |
    "$tool" append "$log" --location l >"$tmp/acks"
follow 1 --agent w --seconds 20
"$tool" hide "$log" 2 >"$tmp/acks"
"$tool" hide "$log" 1 >"$tmp/acks"
unfollow 2
session <<'END'
== follow_passes_over_hidings_of_others
$ cat $tmp/follow =2> . =1> hide .*"first": ?1,
END

# A follower has not read the first index (kind 2) when it is damaged. Its writer goes on to
# the next segment, whose number the follower does not expect. A segment is 8 MiB.
rm -f "$log"
coproc writer { exec "$tool" append "$log" --location l 2>"$tmp/writer"; }
text=$(head -c 900000 /dev/zero | tr '\0' x)
# put COUNT: so many messages.
put()
{
    local k
    for ((k = 0; k < $1; k++)); do
        printf '{"type":"task","content":"%s"}\n' "$text" >&"${writer[1]}"
        read -r -t 20 -u "${writer[0]}" number || return
    done
}
put 1
follow 1 --seconds 60 2>"$tmp/told"
kill -STOP "$follower"
put 10
perl -e 'open(F, "+<", $ARGV[0]) or die; binmode F; local $/; my ($b, $at) = (<F>, 8192);
    $at += unpack("V", substr($b, $at, 4)) + 7 & ~7 while ord(substr($b, $at + 4, 1)) != 2;
    seek F, $at + 9, 0; print F "X"' "$log"
kill -CONT "$follower"
soon lines 11 "$tmp/follow"
put 12
unfollow 23
pid=$writer_PID input_of=${writer[1]}
exec {input_of}>&-
wait "$pid"
session <<'END'
== follow_goes_on_when_it_has_missed_a_damaged_index
$ echo $status => ^3$
$ cat $tmp/follow =$1> {1..23}
$ grep -c 'other segments' $tmp/told => ^0$ -> 1
END


# ---- verify and repair: damage costs the message that is damaged, no other.

# damage WORD: changes one byte of it in the log.
damage()
{
    local at
    at=$(LC_ALL=C grep -abo -- "$1" "$log" | head -n 1 | cut -d : -f 1)
    printf '#' | dd of="$log" bs=1 seek=$((at + 1)) conv=notrunc 2>/dev/null
}

for i in {1..40}; do
    line "word$i"
    echo
done >"$tmp/words.jsonl"
rm -f "$log" "$tmp/o.log"
"$tool" import "$log" "$tmp/words.jsonl" >/dev/null
cp "$log" "$tmp/whole.log"
session <<'END'
== whole_log_is_verified_and_copied
verify $log => ^verdict +whole => ^messages +40 whole, the last is number 40$
repair $log $tmp/o.log => ^copied +40 messages
export $log >$tmp/a
export $tmp/o.log == $tmp/a
repair $log $tmp/o.log -> 5 o\.log
repair $log $tmp/o.log --replace => ^copied +40

== damage_is_shown_by_each_command_that_reads
$ damage word7; damage word23; rm $tmp/o.log; cp $log $tmp/damaged.log
verify $log => ^damaged +bytes [0-9]+ to [0-9]+, between messages 6 and 8$ -> 3
=> between messages 22 and 24$ =2> ^damaged . =1> ^unreadable 2 ranges,
view $log =$1> {1..6} {8..22} {24..40} -> 3 damaged
view $log --format framework => word40 -> 3 damaged
export $log =38> -> 3 damaged
export $log --format openai => word40 -> 3 damaged
info $log => ^damaged +bytes [0-9]+ to [0-9]+, between messages 6 and 8$ =2> ^damaged . -> 3 *
info $log --json => "kind":"damage","offset":[0-9]+,"length":[0-9]+,"after_seq":6, -> 3 *
follow $log --seconds 0 -n 0 => ^ *40 . -> 3 damaged

== repair_loses_no_message_but_the_damaged_ones
repair $log $tmp/o.log => ^copied +38 messages =2> ^damaged . -> 3
view $tmp/o.log =$1> {1..6} {8..22} {24..40}
verify $tmp/o.log => ^verdict +whole
repair $tmp/o.log $tmp/p.log => ^lost +0 .
repair $log $log --replace => ^copied +38 messages -> 3
verify $log => ^messages +38 whole
append $log --location l <<<'{"type":"task","content":"41"}' => ^41$
append $tmp/damaged.log --location l <<<'{"type":"task","content":"41"}' => ^41$ -> 0 *
view $tmp/damaged.log =$1> {1..6} {8..22} {24..41} -> 3 *
END

# The writer was killed, its machine is not known (bytes 1152 to 1191), and message 20 is
# damaged: what follows is read, and the damage reported. If its sector is zeros from there on,
# as a power loss leaves it, whole messages behind that torn end are no part of the log any
# more, but repair finds them, also in place.
rm -f "$log" "$tmp/o.log" "$tmp/acks"
coproc writer { exec "$tool" append "$log" >"$tmp/acks"; }
pid=$writer_PID
cat "$tmp/words.jsonl" >&"${writer[1]}"
soon lines 40 "$tmp/acks"
{ kill -9 "$pid" && wait "$pid"; } 2>/dev/null
dd if=/dev/zero of="$log" bs=1 seek=1152 count=40 conv=notrunc 2>/dev/null
damage word20
# zero_damage FILE: makes zeros of the range that verify reports, to the end of its sector.
zero_damage()
{
    local from upto
    read -r from upto < <("$tool" verify "$1" |
        sed -n 's/^damaged *bytes \([0-9]*\) to \([0-9]*\),.*/\1 \2/p')
    upto=$((upto / 512 * 512 + 512))
    dd if=/dev/zero of="$1" bs=1 seek="$from" count=$((upto - from)) conv=notrunc \
        2>/dev/null
}
end=$("$tool" info "$tmp/whole.log" --json | sed -E 's/.*"end":([0-9]+),.*/\1/')
session <<'END'
== messages_after_damage_are_read_when_nothing_was_synced
verify $log => ^damaged .* between messages 19 and 21 => ^messages +39 whole -> 3 *
view $log =$1> {1..19} {21..40} -> 3 *
$ zero_damage $log

== repair_finds_messages_after_a_torn_end
verify $log => ^messages +19 whole => ^torn +(9[0-9]{2}|[0-9]{4,}) .
view $log =$1> {1..19}
repair $log $tmp/o.log => ^copied +31 . -> 3
view $tmp/o.log =$1> {1..19} {29..40}
repair $log $log --replace => ^copied +31 . -> 3
view $log =$1> {1..19} {29..40}

== log_that_was_durable_has_lost_something_when_it_is_cut
$ head -c $((end - 300)) $tmp/whole.log >$log; rm $tmp/o.log
info $log => ^cut . -> 3 *
repair $log $tmp/o.log => ^copied +[1-3][0-9] messages -> 3 *
verify $tmp/o.log => ^verdict +whole

== log_whose_first_page_is_damaged_is_read_by_its_copy
$ head -n 3 $demo >$tmp/three.jsonl
import $tmp/page.log $tmp/three.jsonl
$ printf XXXXXXXX | dd of=$tmp/page.log conv=notrunc 2>/dev/null
view $tmp/page.log =3> . -> 0 *

== what_a_folder_has_without_messages_is_counted
$ mkdir -p $tmp/beside; cp $tmp/three.jsonl $tmp/beside/a.jsonl; cp $tmp/page.log $tmp/beside/b.log; echo word >$tmp/beside/c.txt; : >$tmp/beside/d.jsonl
view $tmp/beside =3> . -> 0 beside: passed over 2 files without messages, the first is .*/b.log$
import $tmp/beside.log $tmp/beside => ^appended +3 -> 0 beside: passed over 2 files without messages

== file_that_is_no_log_yet_is_not_called_whole
$ head -c 400 $log >$tmp/cut.log; : >$tmp/none.log
verify $tmp/cut.log => ^verdict +no log: 400 bytes of a creation that did not end, or of a log that was cut$ -> 3
verify $tmp/none.log => ^verdict +no log: the file is empty$
info $tmp/cut.log => ^log +not made yet$ -> 0 cut.log: 400 bytes of a creation that did not end, or of a log that was cut; it has no messages$
view $tmp/cut.log -> 0 cut.log: 400 bytes of a creation that did not end, or of a log that was cut; it has no messages$
compact $tmp/cut.log $tmp/cut.out => ^copied +0 messages -> 0 cut.log: 400 bytes of a creation that did not end
view $tmp/none.log -> 0 none.log: no messages in it$

== lineage_that_is_damaged_in_both_places_is_in_the_verdict_until_a_rewrite
compact $tmp/o.log $tmp/o.log --replace => ^copied .
$ for at in 60 4156; do printf '\377\377' | dd of=$tmp/o.log bs=1 seek=$at conv=notrunc status=none; done
verify $tmp/o.log => ^index +bytes 56 to 75, and their copy: the lineage is unknown; .compact. begins a new one$ => ^verdict .*bytes 56 to 75 .the lineage. damaged$ -> 3
info $tmp/o.log => ^index +bytes 56 to 75.
compact $tmp/o.log $tmp/o.log --replace => ^copied -> 3 *
verify $tmp/o.log => ^verdict +whole
END


# ---- compact: a dry run shows what is done.

for i in {1..60}; do
    echo '{"type":"task","content":"'"$i"'","location":"l'$((i % 3))'","timestamp":'"$i"'}'
done >"$tmp/many.jsonl"
echo '{"type":"task","content":"61","location":"l0"}' >>"$tmp/many.jsonl"
rm -f "$log"
"$tool" import "$log" "$tmp/many.jsonl" >/dev/null
cp "$log" "$tmp/before.log"

# compacted ARGUMENTS: prints the numbers that a compaction keeps. Its report is the one of
# the dry run, and counts them; the sizes are those of the files.
compacted()
{
    rm -f "$tmp/o.log"
    "$tool" compact "$log" "$tmp/o.log" --dry-run "$@" | grep -E '^(copied|dropped|lost)' >"$tmp/dry"
    [ ! -e "$tmp/o.log" ] || echo "the dry run made a file"
    "$tool" compact "$log" "$tmp/o.log" "$@" >"$tmp/wet" || echo "exit status $?"
    grep -E '^(copied|dropped|lost)' "$tmp/wet" | diff "$tmp/dry" -
    awk -v a="$(wc -c <"$log")" -v b="$(wc -c <"$tmp/o.log")" \
        '/^file/ && ($2 != a || $5 != b) { print "sizes are " a ", " b }' "$tmp/wet"
    "$tool" verify "$tmp/o.log" | grep -q '^verdict *whole' || echo "it is damaged"
    "$tool" view "$tmp/o.log" | awk -v copied="$(awk '/^copied/ { print $2 }' "$tmp/wet")" \
        '{ print $1 } END { if (NR != copied) print "copied " copied }'
}

session <<'END'
== compaction_keeps_what_its_options_choose
$ compacted --keep-last 2 =$1> 55 56 {58..61}
$ compacted --location l1 =$1> 1 {4..58..3}
$ compacted --location l1 --location l2 --keep-last 1 =$1> 58 59
$ compacted --since 50 =$1> {50..61}
$ compacted --since 1970-01-01T00:00:50Z =$1> {50..61}
$ compacted --since 55 --keep-last 3 =$1> {55..61}
$ compacted =$1> {1..61}
export $log >$tmp/a
export $tmp/o.log == $tmp/a
compact $log --dry-run --keep-last 2 => ^copied +6 .
compact $log $tmp/n.log --location l1 --location l -> 4 no messages of session l$
$ [ ! -e $tmp/n.log ]
compact $log --dry-run --since x -> 2 2026-03-02T09:30:00Z, not x
compact $log $tmp/o.log -> 5 o\.log
compact $log $log -> 5 a\.log
$ cat $log == $tmp/before.log
compact $log $log --replace --location l1 --location l -> 4 no messages of session l$
view $log =$1> {1..61}

== compaction_replaces_a_file_when_it_is_asked_to
compact $log $tmp/o.log --keep-last 2 --replace => ^copied +6 .
view $tmp/o.log =$1> 55 56 {58..61}
compact $log $log --keep-last 2 --replace => ^copied +6 .
view $log =$1> 55 56 {58..61}
$ ln -s a.log $tmp/link.log
compact $tmp/link.log $tmp/link.log --replace => ^copied +6 .
$ readlink $tmp/link.log => ^a\.log$
append $log <<<'{"type":"task","content":"62","location":"l0"}' => ^62$
$ ls $tmp =0> ^[ao]\.log.

== compaction_of_a_damaged_log_loses_what_is_damaged
$ cp $tmp/damaged.log $log
compact $log --dry-run => ^lost +[1-9] -> 3
compact $log $tmp/o.log --replace => ^copied +39 . -> 3
verify $tmp/o.log => ^messages +39 whole
END


# ---- Output that cannot be written.

{ "$tool" follow "$tmp/before.log" -n 0 2>"$tmp/told"; echo "$?" >"$tmp/ended"; } |
    head -n 1 >"$tmp/first" &
soon lines 1 "$tmp/first"
session <<'END'
== follow_ends_silently_when_its_reader_goes
$ tasks 1 1 | "$tool" append $tmp/before.log --location l => .
$ soon test -s $tmp/ended; cat $tmp/ended => ^1$
$ cat $tmp/told =0>
END

exit $failed
