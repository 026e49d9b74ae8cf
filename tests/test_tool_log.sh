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

# found PATTERN: the files of that name.
found()
{
    find "$tmp" -name "$1" -exec basename {} \;
}

# fresh COUNT [ARGUMENTS]: a new log with so many tasks in the location l.
fresh()
{
    local count=$1
    shift
    rm -f "$log"
    tasks 1 "$count" | "$tool" import "$log" - --location l "$@" >/dev/null
}


# ---- Usage.

check verify_two 2 '' 'one file' verify a b
check repair_three 2 '' 'two files, not c' repair a b c
check sync_word 2 '' 'none, each or end, not often' import "$log" $demo --sync often
check sync_end 2 '' 'none or each, not end' append "$log" --sync end
check after_word 2 '' 'a number, not x' follow "$log" --after x
check seconds_word 2 '' 'a number, not -1' follow "$log" --seconds -1
check keep_last_word 2 '' 'a number, not x' compact a b --keep-last x
check keys_elsewhere 2 '' 'takes no option --keys' append "$log" --keys
same usage_makes_no_file '' "$(found '*.log*')"

check import_missing 4 '' 'no\.jsonl' import "$log" $demo "$tmp/no.jsonl"
check import_folder 4 '' 'no_folder' import "$tmp/no_folder/a.log" $demo
same missing_makes_no_file '' "$(found '*.log*')"


# ---- import; a log is read like the file that it came from.

check import_demo 0 '^appended +31 messages, the last is number 31$' '' import "$log" $demo
# alike NAME ARGUMENTS: the same output for FILE being the log, and the file.
alike()
{
    local name=$1
    shift
    "$tool" "${@//FILE/$demo}" >"$tmp/a" 2>"$tmp/a.err"
    "$tool" "${@//FILE/$log}" >"$tmp/b" 2>"$tmp/b.err"
    equal "$name" "$tmp/a" "$tmp/b"
    same "${name}_messages" "$(cat "$tmp/a.err")" "$(cat "$tmp/b.err")"
}
team=data_worker,report_worker
alike view view FILE
alike view_agent view FILE --agent data_worker --global -n 7
alike view_since view FILE --since 2026-03-02T09:00:30Z --oldest -n 5
alike view_team view FILE --team $team --format openai
alike view_json view FILE --format framework --with-location
alike history history FILE --agent orchestrator --team $team
alike history_timeline history FILE --agent data_worker --timeline --format openai
alike history_scope history FILE --agent data_worker --scope worker
alike convert convert FILE --to framework --with-location
alike convert_chat convert FILE --to openai
alike convert_array convert FILE --to openai --array
alike export export FILE
alike export_chat export FILE --format openai
"$tool" convert $demo --to framework --with-location >"$tmp/demo.out"
prints export_is_convert "$tmp/demo.out" export "$log"
check view_unknown 4 '' 'locations: shop-osaka' view "$log" --location shop-tokyo
check export_unknown 4 '' 'locations: shop-osaka' export "$log" --location shop-tokyo
check export_one_unknown 4 '' 'location x' export "$log" --location shop-osaka --location x

"$tool" info $demo | grep -v '^messages' >"$tmp/a"
"$tool" info "$log" | sed -n '/^times/,$p' >"$tmp/b"
equal info "$tmp/a" "$tmp/b"
check info_log 0 '^log +[0-9a-f]{32}, made 20[0-9-]+T[0-9:]+Z$' '' info "$log"
check info_bytes 0 '^bytes +[0-9]+ in use, [0-9]+ in the file$' '' info "$log"
check info_durable 0 '^durable +up to message 31 ' '' info "$log"
check info_writer 0 '^writer +process [1-9][0-9]* was' '' info "$log"
check info_whole 0 '^damaged +nothing$' '' info "$log"
check info_newest 0 '^newest +2026-03-02T09:01:38Z +31 messages  shop-osaka$' '' info "$log"
run info "$log" --json
same info_json '1 1' "$(wc -l <"$tmp/out") $(grep -cE \
    '^\{"messages":31,"last_seq":31,.*"log":\{"id":"[0-9a-f]{32}".*"durable_seq":31,' \
    "$tmp/out")"
if command -v jq >/dev/null 2>&1; then
    same info_json_rows '11 data_worker 5 true' "$(jq -r \
        '[.agents.rows[0].messages, .agents.rows[0].name, .types.rows[0].messages,
          .log.end <= .log.size] | join(" ")' "$tmp/out")"
    "$tool" info $demo --json >"$tmp/a"
    same info_json_of_file '31 null' "$(jq -r '"\(.messages) \(.log)"' "$tmp/a")"
else
    echo "skip info_json_rows: there is no jq"
fi

# The same messages from standard input, from several files, from an export.
rm -f "$log"
"$tool" import "$log" - <$demo >/dev/null
prints import_standard_input "$tmp/demo.out" export "$log"
head -n 10 $demo >"$tmp/one.jsonl"
tail -n +11 $demo >"$tmp/two.jsonl"
rm -f "$log"
check import_two 0 'number 31$' '' import "$log" "$tmp/one.jsonl" "$tmp/two.jsonl"
prints import_two_files "$tmp/demo.out" export "$log"
rm -f "$log"
"$tool" import "$log" "$tmp/demo.out" >/dev/null
prints import_export "$tmp/demo.out" export "$log"

# exported NAME FILE [ARGUMENTS]: an import of its export is an equal log.
exported()
{
    local name=$1 file=$2
    shift 2
    rm -f "$tmp/x.log" "$tmp/y.log"
    "$tool" import "$tmp/x.log" "$file" "$@" >"$tmp/out"
    "$tool" export "$tmp/x.log" >"$tmp/x.jsonl"
    "$tool" import "$tmp/y.log" "$tmp/x.jsonl" --lenient --from framework >"$tmp/out"
    "$tool" export "$tmp/y.log" >"$tmp/y.jsonl"
    equal "export_$name" "$tmp/x.jsonl" "$tmp/y.jsonl"
    same "export_info_$name" \
        "$("$tool" info --all "$tmp/x.log" | awk '/^locations/, /^types/ { print $1, $4 }')" \
        "$("$tool" info --all "$tmp/y.log" | awk '/^locations/, /^types/ { print $1, $4 }')"
}
cat >"$tmp/talks.jsonl" <<'END'
{"task_id":1,"traj":[{"role":"user","content":"a"},{"role":"assistant","content":"b","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c2","content":"r2"},{"role":"tool","tool_call_id":"c1","content":"r1"}]}
{"task_id":2,"traj":[{"role":"user","content":"c"},{"role":"assistant","content":"d"}]}
{"type":"task","content":{"a":[1,null,"é"]},"timestamp":12.25,"location":"1","x":1.50}
{"type":"final","content":"","location":"2","agent_key":"w","idempotency_key":"k"}
END
exported demo $demo
exported talks "$tmp/talks.jsonl"
exported keys "$tmp/talks.jsonl" --keys
if [ -d "$shared/tau-bench-airline" ]; then
    exported tau "$shared/tau-bench-airline/gpt-4o-airline.json"
    "$tool" convert "$shared/tau-bench-airline/gpt-4o-airline.json" --to openai >"$tmp/a"
    prints export_tau_chat "$tmp/a" export "$tmp/x.log" --format openai
    same tau_locations 200 "$("$tool" info "$tmp/x.log" | awk '/^locations/ { print $2 }')"
else
    echo "skip export_tau: no $shared/tau-bench-airline"
fi

# Conversations that were written by turns come out one after the other in chat formats.
rm -f "$log"
for i in 1 2; do
    for place in a b; do
        echo '{"type":"user_message","content":"'$place$i'","location":"'$place'"}'
    done
done | "$tool" import "$log" - >"$tmp/out"
# contents ARGUMENTS: of what is exported.
contents()
{
    "$tool" export "$log" "$@" | sed -E 's/.*"content": ?"([^"]*)".*/\1/' | tr '\n' ' ' |
        sed 's/ $//'
}
same export_turns 'a1 b1 a2 b2' "$(contents)"
same export_turns_chat 'a1 a2 b1 b2' "$(contents --format openai)"
same export_location 'b1 b2' "$(contents --location b)"
same export_locations 'a1 b1 a2 b2' "$(contents --location b --location a)"
same export_location_chat 'b1 b2' "$(contents --location b --format openai)"
check export_array 0 '^\[\{.*\}\]$' '' export "$log" --array

# A message without a time stays without; a bad line ends the import, but what was before
# it stays.
fresh 3
same import_no_time '- - -' "$(column 2 view "$log")"
input='{"type":"task","content":"4"}\n{"type":"task",}\n{"type":"task","content":"5"}'
check import_bad_line 1 '^appended +1 message, the last is number 4$' \
    'line 2, column 16 \(byte 45\)' import --strict "$log" - --location l
same import_until_bad_line '1 2 3 4' "$(column 5 view "$log")"
input=
check import_log_file 1 '' 'this is a log' import "$tmp/b.log" "$log"
same import_log_file_makes_none no "$([ -e "$tmp/b.log" ] || echo no)"
for mode in none each end; do
    rm -f "$log"
    check "import_sync_$mode" 0 'number 31$' '' import "$log" $demo --sync $mode
    prints "import_synced_$mode" "$tmp/demo.out" export "$log"
done
if has_terminal; then
    tasks 1 180000 | sed "s/:\"task\"/&,\"turn_id\":\"$(printf 'x%.0s' $(seq 60))\"/" >"$tmp/long"
    script -qec "$tool import $tmp/b.log $tmp/long --location l >/dev/null" /dev/null \
        </dev/null >"$tmp/out"
    same import_progress yes "$(grep -qE '16 MB read, [0-9]{6} messages, [0-9]+ MB/s' \
        "$tmp/out" && echo yes)"
    same import_large '180000 180000' "$("$tool" info "$tmp/b.log" --json |
        sed -E 's/.*"messages":([0-9]+),"last_seq":([0-9]+),.*/\1 \2/; q')"
    rm -f "$tmp/long" "$tmp/b.log"
else
    echo "skip import_progress: there is no script(1) to pretend a terminal"
fi


# ---- import --keys: nothing twice.

input=
for file in $demo "$tmp/talks.jsonl"; do
    name=keys_$(basename "$file" .jsonl)
    rm -f "$log"
    "$tool" import --keys "$log" "$file" >"$tmp/first"
    "$tool" export "$log" >"$tmp/a"
    check "$name" 0 '^appended +0 messages' '' import --keys "$log" "$file"
    same "${name}_known" "$(awk '/^appended/ { print $2 }' "$tmp/first")" \
        "$(awk '/^known/ { print $2 }' "$tmp/out")"
    prints "${name}_nothing_new" "$tmp/a" export "$log"
done
rm -f "$log"
tasks 1 100 >"$tmp/grows.jsonl"
"$tool" import --keys "$log" "$tmp/grows.jsonl" >/dev/null
tasks 101 150 >>"$tmp/grows.jsonl"
check keys_grown 0 '^appended +50 messages, the last is number 150$' '' \
    import --keys "$log" "$tmp/grows.jsonl"
same keys_grown_contents "$(seq -s ' ' 150)" "$(column 5 view "$log")"
sed -i '5s/"5"/"five"/' "$tmp/grows.jsonl"
check keys_changed_line 0 '^appended +1 message' '' \
    import --keys "$log" "$tmp/grows.jsonl"
tasks 1 20000 >"$tmp/long"
run import --keys "$log" "$tmp/long" --location long
check keys_many 0 '^known +20000 messages' '' \
    import --keys "$log" "$tmp/long" --location long
yes '{"type":"task","content":"a"}' | head -n 5 >"$tmp/same.jsonl"
check keys_equal_lines 0 '^appended +5 messages' '' import --keys "$log" "$tmp/same.jsonl"
check keys_equal_lines_again 0 '^known +5 messages' '' \
    import --keys "$log" "$tmp/same.jsonl"
check keys_not_wanted 0 '^appended +5 messages' '' import "$log" "$tmp/same.jsonl"
# Own ids count, wherever the line is; the same id with another content is a conflict.
input='{"type":"task","content":"a","id":"i1"}\n{"type":"task","content":"b","id":"i2"}'
check ids_first 0 '^appended +2 messages' '' import --keys "$log" - --location n
input='{"type":"task","content":"c","id":"i3"}\n{"type":"task","content":"b","id":"i2"}'
check ids_moved 0 '^appended +1 message' '' import --keys "$log" - --location n
input='{"type":"task","content":"d","id":"i1"}'
check ids_conflict 5 '^appended +0 messages' 'line 1, column 1 .*key' \
    import --keys "$log" - --location n
input='{"type":"task","content":"d","id":"i1"}\n{"type":"task","content":"e","id":"i4"}'
check ids_conflict_skipped 3 '^appended +1 message' 'line 1, .*key' \
    import --keys --keep-going "$log" - --location n
input='{"type":"task","content":"a","id":"'$(printf 'x%.0s' $(seq 3000))'"}'
check ids_long 0 '^appended +1 message' '' import --keys "$log" - --location n
check ids_long_again 0 '^appended +0 messages' '' import --keys "$log" - --location n
input=


# ---- import --keep-going: what is whole in a damaged file.

line()
{
    printf '{"type":"task","content":"%s","location":"l"}' "$1"
}

nul()
{
    head -c "$1" /dev/zero
}

# counted N WORD: "1 line", "2 lines".
counted()
{
    if [ "$1" -eq 1 ]; then echo "$1 $2"; else echo "$1 $2s"; fi
}

# rescued NAME CONTENTS PLACES LINES BYTES [TEXT]: of the file $tmp/bad just these come in.
# TEXT becomes that file; <word> stands for the message of that content.
rescued()
{
    [ $# -lt 6 ] || printf '%b' "$6" |
        sed 's/<\([a-z]*\)>/{"type":"task","content":"\1","location":"l"}/g' >"$tmp/bad"
    rm -f "$tmp/r.log"
    "$tool" import --strict --keep-going "$tmp/r.log" "$tmp/bad" >"$tmp/out" 2>"$tmp/err"
    local code=$? want=3 places=$3
    [ "$places" -ne 0 ] || want=0
    same "rescue_$1" "$want $2" "$code $(column 5 view "$tmp/r.log")"
    same "rescue_report_$1" "$(counted "$places" place) in $(counted "$4" line), $(counted "$5" byte)" \
        "$(sed -n 's/^skipped *//p' "$tmp/out")"
    same "rescue_places_$1" "$places" \
        "$(grep -cE '^msgstore: .*/bad: line [0-9]+, .*; skipped bytes [0-9]+ to [0-9]+$' \
            "$tmp/err")"
}

rescued undamaged 'one two' 0 0 0 '<one>\n<two>\n'
rescued glued 'one two three' 0 0 0 '<one><two><three>'
rescued bad_line 'one two' 1 1 16 '<one>\n{"type":"task",}\n<two>\n'
same rescue_where 1 "$(grep -c \
    'bad: line 2, column 16 (byte 62): .*; skipped bytes 47 to 62' "$tmp/err")"
rescued cut_end one 1 1 21 '<one>\n{"type":"task","conte'
rescued cut_and_glued 'one two x' 1 1 21 '<one>\n{"type":"task","conte<two>\n<x>'
rescued no_message 'one two' 2 2 10 '<one>\n{"foo":1}\n5\n<two>'
rescued in_list 'one two' 1 1 1 '{"messages":[<one>,5,<two>]}\n'
rescued array_cut 'one two three' 1 1 1 '[\n<one>,\n<two>,\n<three>,\n'
rescued array_damaged 'one two x' 2 1 18 '[<one> , <two>,{"type":"task",}]\n<x>'
rescued brackets 'one two' 1 1 2 '<one>\n}}<two>\n'
rescued over_lines one 1 1 8 \
    '{"type":"task","content":\n "one","location":"l"\n}\n{"type":'
rescued empty '' 0 0 0 ''
{ line one; echo; nul 5000; line two; echo; } >"$tmp/bad"
rescued nuls 'one two' 1 1 5000
{ line one; echo; printf '{"type":"ta'; nul 300000; echo; line two; } >"$tmp/bad"
rescued nuls_in_line 'one two' 2 1 300011
{ printf '{"type":"ta'; nul 70; line one; nul 70; } >"$tmp/bad"
rescued nuls_around one 3 1 151
# What stands inside of a damaged object is none of its own.
inner='{"type":"task","content":"inner","location":"l"}'
rescued inner_objects one 1 1 128 '<one>\n{"type":"action","args":<inner>,@ "x":<inner>}\n'
rescued inner_cut 'one two' 1 1 72 '<one>\n{"type":"action","args":<inner><two>'
rescued inner_quoted one 1 1 45 \
    '<one>\n{"type":"task","content":"{\\"type\\":\\"task\\"}\n'
{ line one; echo; printf '{"type":"action","x":['; nul 9; echo "$inner],\"y\":1}"; } >"$tmp/bad"
rescued inner_rest one 3 1 87
{ nul 100000 | tr '\0' '['; echo; line one; } >"$tmp/bad"
rescued deep one 1 1 100000
{ yes '{"a":[{"b":' | head -n 20000 | tr -d '\n'; echo; line one; } >"$tmp/bad"
rescued deep_objects one 1 1 220000
# Many bad places in one line cost processor time by their number, not by its square.
awk 'BEGIN { for (i = 0; i < 60000; i++) printf "{\"type\":\"ta%s",
    "{\"type\":\"task\",\"content\":\"x\",\"location\":\"l\"}" }' >"$tmp/bad"
rm -f "$tmp/r.log"
(ulimit -t 20 && "$tool" import --keep-going "$tmp/r.log" "$tmp/bad") >"$tmp/out" 2>/dev/null
same rescue_long_line '3 60000' "$? $(awk '/^appended/ { print $2 }' "$tmp/out")"

printf '{"type":"task","content":"a\xffb","location":"l"}\n' >"$tmp/bad"
rm -f "$tmp/r.log"
check rescue_utf8 3 '^repaired +1 ' 'line 1, column 28 \(byte 27\): bad UTF-8' \
    import --keep-going "$tmp/r.log" "$tmp/bad"
same rescue_utf8_content 'a�b' "$(column 5 view "$tmp/r.log")"
check no_rescue 1 '^appended +0' 'line 1, column 28 \(byte 27\)' \
    import --strict "$tmp/r.log" "$tmp/bad"

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
rm -f "$tmp/r.log" "$tmp/s.log"
"$tool" import --strict --keep-going "$tmp/r.log" "$tmp/bad" >"$tmp/out" 2>"$tmp/err"
status=$?
same rescue_every_cut "3 $(cat "$tmp/want")" "$status $(column 5 view "$tmp/r.log")"
run import --keep-going --keys "$tmp/s.log" "$tmp/bad"
check rescue_keys_again 3 '^appended +0 ' '*' \
    import --keep-going --keys "$tmp/s.log" "$tmp/bad"
{ line one; echo; printf '{"type":"ta\n'; line two; echo; } >"$tmp/bad"
cp "$tmp/bad" "$tmp/bad2"
rm -f "$tmp/r.log"
check rescue_two_files 3 '^skipped +2 places in 2 lines, 22 bytes$' '/bad2: line 2' \
    import --keep-going "$tmp/r.log" "$tmp/bad" "$tmp/bad2"


# ---- append: a number when it is stored, not before.

# words FILE: on one line.
words()
{
    tr '\n' ' ' <"$1" | sed 's/ $//'
}

rm -f "$log"
input=$(tasks 1 5)
run append "$log" --location l
same append_numbers '0 1 2 3 4 5' "$status $(words "$tmp/out")"
same append_contents '1 2 3 4 5' "$(column 5 view "$log")"
same append_times 5 "$(column 2 view "$log" | grep -oE '[0-9]Z' | wc -l)"
input='{"type":"task","content":"6","location":"m"}\n{"type":"task","content":"7"}'
check append_no_location 1 '^6$' 'line 2, column 1 .*no location' append "$log"
check append_location 0 '^8$' '' append "$log" --location n
same append_locations 'm m n' "$(column 3 view "$log" | cut -d ' ' -f 6-)"
input='{"type":"task","content":"9","location":"m"}\n{"type":"task",\n"content":"10"}\n'
check append_line_cut 1 '^9$' 'standard input: line 2, column 16 ' append "$log"
input='{"type":"task","content":"10","location":"m"}\nnonsense\n'
check append_no_json 1 '^10$' 'line 2, column 1 \(byte 46\)' append "$log"
input='\n \n'
check append_blank_lines 0 '' 'no messages' append "$log"
input='{"role":"assistant","content":"x",'
input=$input'"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}\n'
input=$input'{"role":"user","content":"a"}'
run append "$log" --location c --sync each
same append_several '0 12 13' "$status $(words "$tmp/out")"
same append_agent 'assistant_message action user_message' \
    "$(column 4 view "$log" --location c)"
check append_durable 0 '^durable +up to message 13 ' '' info "$log"
input='{"type":"task","content":"a"}'
check append_from 1 '' 'openai message' append "$log" --location c --from openai
input='{"type":"task","content":"a","idempotency_key":"k"}\n'
input=$input'{"type":"task","content":"b","idempotency_key":"k"}'
run append "$log" --location c
same append_prints_what_is_stored '5 14' "$status $(words "$tmp/out")"
input=

# Each number comes before the next line is sent; one writer at a time.
holder_PID=0 reader_PID=0 writer_PID=0 # set by bash while they run
coproc holder { exec "$tool" append "$log" --location h 2>"$tmp/holder"; }
talk=
for i in 1 2 3; do
    tasks $i $i >&"${holder[1]}"
    read -r -t 5 -u "${holder[0]}" number && talk="$talk $number"
    talk="$talk $("$tool" view "$log" --location h | wc -l)"
done
last=${number:-0}
same append_at_once " $((last - 2)) 1 $((last - 1)) 2 $last 3" "$talk"
tasks 1 1 | "$tool" append "$log" --location h >"$tmp/out" 2>"$tmp/err"
same append_busy "6 0 1" "$? $(wc -c <"$tmp/out") $(grep -c "$holder_PID" "$tmp/err")"
check import_busy 6 '' "$holder_PID" import "$log" $demo
check compact_busy 6 '' "$holder_PID" compact "$log" "$log" --replace
check info_not_busy 0 "^writer +process $holder_PID " '' info "$log"
check verify_not_busy 0 '^verdict +whole' '' verify "$log"
pid=$holder_PID input_of=${holder[1]}
exec {input_of}>&-
wait "$pid"
same append_ends 0 $?
check append_free 0 '*' '' import "$log" $demo


# ---- follow: the newest, then what comes.

fresh 30
same follow_newest "$(seq -s ' ' 21 30)" "$(column 1 follow "$log" --seconds 0)"
same follow_n '29 30' "$(column 1 follow "$log" --seconds 0 -n 2)"
same follow_all "$(seq -s ' ' 30)" "$(column 1 follow "$log" --seconds 0 -n 0)"
same follow_after '28 29 30' "$(column 1 follow "$log" --seconds 0.3 --after 27)"
same follow_after_n '28 29 30' "$(column 1 follow "$log" --seconds 0.3 --after 27 -n 1)"
same follow_after_end '' "$(column 1 follow "$log" --seconds 0.3 --after 30)"
"$tool" view "$log" --format framework --with-location >"$tmp/a"
prints follow_format "$tmp/a" follow "$log" --format framework --with-location \
    --seconds 0 -n 0
check export_format_word 2 '' 'a message format, not table' export "$log" --format table
check follow_format_word 2 '' 'table or a message format' follow "$log" --format x

# Everything that is appended meanwhile, once and in order.
follow 0 --after 10 --seconds 30
tasks 31 2030 | while IFS= read -r text; do echo "$text"; done |
    "$tool" append "$log" --location l >"$tmp/acks"
unfollow 2020
same follow_append "0 $(seq -s ' ' 11 2030)" "$status $(awk '{ print $1 }' "$tmp/follow" |
    tr '\n' ' ' | sed 's/ $//')"
same follow_append_contents "$(seq -s ' ' 11 2030)" "$(awk '{ print $NF }' "$tmp/follow" |
    tr '\n' ' ' | sed 's/ $//')"

# Each at once, those that are asked for; it ends at a signal.
coproc reader { exec "$tool" follow "$log" -n 1 --agent w --location m --format framework; }
pid=$reader_PID
got=
for text in '"type":"task","content":"1","agent_key":"w"' \
    '"type":"task","content":"2","agent_key":"v"' \
    '"type":"user_message","content":"3"' \
    '"type":"final","content":"4","agent_key":"w"'; do
    echo "{$text}" | "$tool" append "$log" --location m >/dev/null
    case $text in
    *'"w"'*)
        read -r -t 5 -u "${reader[0]}" text
        got="$got $(sed -E 's/.*"content": ?"(.)".*/\1/' <<<"$text")"
        ;;
    esac
done
same follow_filters ' 1 4' "$got"
kill -TERM "$pid"
wait "$pid"
same follow_terminated 0 $?
follow 1 -n 1
kill -INT "$follower"
# A shell lets programs in the background ignore an interrupt; a second signal ends it.
sleep 0.2
unfollow 1
same follow_interrupted '0 1' "$status $(wc -l <"$tmp/follow")"

# A call and its result belong together also when the result comes later.
rm -f "$log"
echo '{"type":"action","tool":"f","args":{}}' | "$tool" append "$log" --location c >/dev/null
follow 1 --format openai --seconds 20
echo '{"type":"observation","content":"r"}' | "$tool" append "$log" --location c >/dev/null
unfollow 2
prints follow_chat "$tmp/follow" view "$log" --format openai

# It goes on when the log is compacted in place.
fresh 10
follow 2 --after 8 --seconds 20
"$tool" compact "$log" "$log" --keep-last 3 --replace >/dev/null
tasks 11 12 | "$tool" append "$log" --location l >/dev/null
unfollow 4
same follow_compaction '9 10 11 12' "$(awk '{ print $1 }' "$tmp/follow" | tr '\n' ' ' |
    sed 's/ $//')"


# ---- verify and repair: damage costs the message that is damaged, no other.

# damage WORD: changes one byte of it in the log.
damage()
{
    local at
    at=$(LC_ALL=C grep -abo -- "$1" "$log" | head -n 1 | cut -d : -f 1)
    printf '#' | dd of="$log" bs=1 seek=$((at + 1)) conv=notrunc 2>/dev/null
}

fresh 40
check verify 0 '^verdict +whole' '' verify "$log"
check verify_messages 0 '^messages +40 whole, the last is number 40$' '' verify "$log"
check repair_whole 0 '^copied +40 messages' '' repair "$log" "$tmp/o.log"
"$tool" export "$log" >"$tmp/a"
prints repair_whole_equal "$tmp/a" export "$tmp/o.log"
check repair_exists 5 '' 'o\.log' repair "$log" "$tmp/o.log"
check repair_replace 0 '^copied +40' '' repair "$log" "$tmp/o.log" --replace
for i in $(seq 40); do
    line "word$i"
    echo
done >"$tmp/words.jsonl"
rm -f "$log" "$tmp/o.log"
"$tool" import "$log" "$tmp/words.jsonl" >/dev/null
cp "$log" "$tmp/whole.log"
damage word7
damage word23
range='^damaged +bytes [0-9]+ to [0-9]+, '
check verify_damaged 3 "${range}between messages 6 and 8$" '' verify "$log"
found_by verify_ranges 2 '^damaged '
found_by verify_counts_ranges 1 '^unreadable 2 ranges,'
check verify_second 3 'between messages 22 and 24$' '' verify "$log"
rest="$(seq -s ' ' 1 6) $(seq -s ' ' 8 22) $(seq -s ' ' 24 40)"
same view_damaged "$rest" "$(column 1 view "$log")"
check view_damaged_code 3 '^40 ' 'damaged' view "$log"
check view_damaged_format 3 'word40' 'damaged' view "$log" --format framework
check export_damaged 3 'word40' 'damaged' export "$log"
found_by export_damaged_lines 38 ''
check export_damaged_chat 3 'word40' 'damaged' export "$log" --format openai
check info_damaged 3 "${range}between messages 6 and 8$" '*' info "$log"
found_by info_damaged_ranges 2 '^damaged '
check info_damaged_json 3 '"kind":"damage","offset":[0-9]+,"length":[0-9]+,"after_seq":6,' \
    '*' info "$log" --json
check follow_damaged 3 '^ *40 ' 'damaged' follow "$log" --seconds 0 -n 0
check repair_damaged 3 '^copied +38 messages' '' repair "$log" "$tmp/o.log"
found_by repair_damaged_ranges 2 '^damaged '
same repair_kept "$rest" "$(column 1 view "$tmp/o.log")"
check repair_result 0 '^verdict +whole' '' verify "$tmp/o.log"
check repair_again 0 '^lost +0 ' '' repair "$tmp/o.log" "$tmp/p.log"
cp "$log" "$tmp/damaged.log"
check repair_in_place 3 '^copied +38 messages' '' repair "$log" "$log" --replace
check repair_in_place_whole 0 '^messages +38 whole' '' verify "$log"
input='{"type":"task","content":"41"}'
check repair_goes_on 0 '^41$' '' append "$log" --location l
check append_to_damaged 0 '^41$' '*' append "$tmp/damaged.log" --location l
same append_to_damaged_view "$rest 41" "$(column 1 view "$tmp/damaged.log")"
input=

# Whole messages behind a torn end are no part of the log any more, but repair finds them,
# also in place. The end is torn: the writer was killed, its machine is not known (bytes
# 1152 to 1191), and message 20 is damaged.
rm -f "$log" "$tmp/o.log" "$tmp/acks"
coproc writer { exec "$tool" append "$log" >"$tmp/acks"; }
pid=$writer_PID
cat "$tmp/words.jsonl" >&"${writer[1]}"
soon lines 40 "$tmp/acks"
{ kill -9 "$pid" && wait "$pid"; } 2>/dev/null
dd if=/dev/zero of="$log" bs=1 seek=1152 count=40 conv=notrunc 2>/dev/null
damage word20
check verify_torn 0 '^messages +19 whole' '' verify "$log"
same verify_torn_bytes yes "$(awk '/^torn/ && $2 > 900 { print "yes" }' "$tmp/out")"
same view_torn "$(seq -s ' ' 19)" "$(column 1 view "$log")"
rest="$(seq -s ' ' 19) $(seq -s ' ' 21 40)"
check repair_torn 3 '^copied +39 ' '' repair "$log" "$tmp/o.log"
same repair_torn_kept "$rest" "$(column 1 view "$tmp/o.log")"
check repair_torn_in_place 3 '^copied +39 ' '' repair "$log" "$log" --replace
same repair_torn_in_place_kept "$rest" "$(column 1 view "$log")"

# A log that was durable and is cut has lost something.
end=$("$tool" info "$tmp/whole.log" --json | sed -E 's/.*"end":([0-9]+),.*/\1/')
head -c $((end - 300)) "$tmp/whole.log" >"$log"
check info_cut 3 '^cut ' '*' info "$log"
rm -f "$tmp/o.log"
check repair_cut 3 '^copied +[1-3][0-9] messages' '*' repair "$log" "$tmp/o.log"
check repair_cut_result 0 '^verdict +whole' '' verify "$tmp/o.log"


# ---- compact: what is said on a dry run is what is done.

rm -f "$log" "$tmp/o.log"
for i in $(seq 60); do
    echo '{"type":"task","content":"'"$i"'","location":"l'$((i % 3))'","timestamp":'"$i"'}'
done >"$tmp/many.jsonl"
"$tool" import "$log" "$tmp/many.jsonl" >/dev/null
echo '{"type":"task","content":"61","location":"l0"}' | "$tool" import "$log" - >/dev/null
"$tool" export "$log" >"$tmp/a"
cp "$log" "$tmp/before.log"

# compacted NAME NUMBERS ARGUMENTS: these are kept, and a dry run has told how many.
compacted()
{
    local name=$1 want=$2 count
    shift 2
    count=$(wc -w <<<"$want")
    rm -f "$tmp/o.log"
    run compact "$log" "$tmp/o.log" --dry-run "$@"
    same "compact_dry_$name" '0 no' "$status $([ -e "$tmp/o.log" ] || echo no)"
    grep -E '^(copied|dropped|lost)' "$tmp/out" >"$tmp/dry"
    check "compact_$name" 0 '^file +[0-9]+ bytes before, [0-9]+ after$' '' \
        compact "$log" "$tmp/o.log" "$@"
    grep -E '^(copied|dropped|lost)' "$tmp/out" >"$tmp/wet"
    equal "compact_as_said_$name" "$tmp/dry" "$tmp/wet"
    same "compact_sizes_$name" "$(wc -c <"$log") $(wc -c <"$tmp/o.log")" \
        "$(awk '/^file/ { print $2, $5 }' "$tmp/out")"
    same "compact_kept_$name" "$want" "$(column 1 view "$tmp/o.log")"
    same "compact_counts_$name" "$count $((61 - count))" \
        "$(awk '/^copied|^dropped/ { printf "%s%s", s, $2; s = " " }' "$tmp/out")"
    check "compact_verify_$name" 0 '^verdict +whole' '' verify "$tmp/o.log"
}

compacted all "$(seq -s ' ' 61)"
prints compact_all_equal "$tmp/a" export "$tmp/o.log"
compacted last '55 56 58 59 60 61' --keep-last 2
compacted location "$(seq -s ' ' 1 3 60)" --location l1
compacted locations '58 59' --location l1 --location l2 --keep-last 1
compacted since "$(seq -s ' ' 50 61)" --since 50
compacted since_date "$(seq -s ' ' 50 61)" --since 1970-01-01T00:00:50Z
compacted since_last "$(seq -s ' ' 55 61)" --since 55 --keep-last 3
compacted nothing '' --location nobody
same compact_source_untouched yes "$(cmp -s "$log" "$tmp/before.log" && echo yes)"
check compact_dry_alone 0 '^copied +6 ' '' compact "$log" --dry-run --keep-last 2
check compact_bad_since 2 '' '2026-03-02T09:30:00Z, not x' compact "$log" --dry-run --since x

check compact_exists 5 '' 'o\.log' compact "$log" "$tmp/o.log"
check compact_same_exists 5 '' 'a\.log' compact "$log" "$log"
same compact_same_untouched yes "$(cmp -s "$log" "$tmp/before.log" && echo yes)"
check compact_replace 0 '^copied +6 ' '' compact "$log" "$tmp/o.log" --keep-last 2 --replace
same compact_replaced '55 56 58 59 60 61' "$(column 1 view "$tmp/o.log")"
check compact_in_place 0 '^copied +6 ' '' compact "$log" "$log" --keep-last 2 --replace
same compact_in_place_kept '55 56 58 59 60 61' "$(column 1 view "$log")"
ln -s a.log "$tmp/link.log"
check compact_link 0 '^copied +6 ' '' compact "$tmp/link.log" "$tmp/link.log" --replace
same compact_link_stays "a.log $(wc -c <"$log")" \
    "$(readlink "$tmp/link.log") $(awk '/^file/ { print $5 }' "$tmp/out")"
input='{"type":"task","content":"62","location":"l0"}' \
    check compact_goes_on 0 '^62$' '' append "$log"
same compact_leaves_nothing '' "$(found '[ao].log?*')"

# A damaged log loses what is damaged, and says so.
cp "$tmp/damaged.log" "$log"
check compact_damaged_dry 3 '^lost +[1-9]' '' compact "$log" --dry-run
check compact_damaged 3 '^copied +39 ' '' compact "$log" "$tmp/o.log" --replace
check compact_damaged_result 0 '^messages +39 whole' '' verify "$tmp/o.log"


# ---- Output that cannot be written.

rm -f "$tmp/out"
"$tool" follow "$tmp/before.log" -n 0 2>"$tmp/err" | head -n 1 >"$tmp/out" &
pid=$!
soon lines 1 "$tmp/out"
tasks 1 1 | "$tool" append "$tmp/before.log" --location l >/dev/null 2>&1
wait $pid
same follow_closed_pipe '' "$(cat "$tmp/err")"

exit $failed
