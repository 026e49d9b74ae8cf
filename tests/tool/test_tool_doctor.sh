#!/usr/bin/env bash
# msgstore doctor, hand-over and the writers of transcripts: what the doctor reports and where
# it writes, damaged folders, archives and documents; what is written is read back to the
# same messages.
. "$(dirname "$0")/tool_checks.sh"
export TZ=UTC

if [ ! -d "$shared/claude-code-real" ]; then
    echo "skip doctor: no samples in $shared"
    exit 0
fi

# said FILE: what its messages contain, a line each, sorted; without numbers, times and ids.
said_in_order()
{
    "$tool" view --raw --json "$1" 2>/dev/null | sed -n '/"kind":"message"/{
        s/,"\(call_id\|id\|key\|source\|extra\)":.*/}/
        s/"\(seq\|time\|location\|turn_id\|flags\)":\("[^"]*"\|[0-9.]*\),\{0,1\}//g
        s/"\(uuid\|parentUuid\)":"[^"]*"//g
        s/"type":"injected_context"/"type":"text"/
        p
    }'
}

said()
{
    said_in_order "$1" | LC_ALL=C sort -u
}

# damage KIND FILE: the file with a fault.
damage()
{
    case $1 in
    empty) ;;
    torn) head -c $(($(wc -c <"$2") * 3 / 4)) "$2" ;;
    half) head -c $(($(wc -c <"$2") / 2)) "$2" ;;
    byte) { head -c 1800 "$2"; printf U; tail -c +1802 "$2"; } ;;
    esac
}

# mended STORE: mends it to $tmp/fixed.jsonl; prints what the doctor reports, and lines that
# begin with "wrong" for messages that are lost and for faults that are left.
mended()
{
    "$tool" doctor --fix -o "$tmp/fixed.jsonl" "$1" 2>"$tmp/told"
    [ $? -eq 3 ] || echo "wrong: no fault"
    "$tool" view "$tmp/fixed.jsonl" >"$tmp/shown" 2>&1 || echo "wrong: a fault is left"
    said "$1" >"$tmp/before"
    said "$tmp/fixed.jsonl" | LC_ALL=C comm -23 "$tmp/before" - | sed 's/^/wrong: lost /'
}

real=$shared/claude-code-real

# ---- What it tells, and where it writes.

cp "$real/short.jsonl" "$tmp/s.jsonl"
mkdir -p "$tmp/many" && cp "$real/short.jsonl" "$tmp/many/a.jsonl"
head -n 8 "$tmp/many/a.jsonl" >"$tmp/many/b.jsonl"
# tree: a copy of a tree of files.
tree()
{
    rm -rf "$tmp/tree" && cp -r "$shared/opencode-storage" "$tmp/tree" && chmod -R u+w "$tmp/tree"
}
session <<'END'
== folder_is_examined_file_by_file_and_a_tree_whole
$ tree
doctor $tmp/many => many/a.jsonl: claude-code, nothing is wrong => many/b.jsonl: claude-code, 1 fault -> 3
doctor $tmp/tree => tree: messages, nothing is wrong -> 0 tree: passed over 2 files without messages, the first is .*/SOURCE.md$

== folder_with_a_file_that_is_all_damage_is_not_whole
$ mkdir $tmp/lost $tmp/bare; printf '{"type":"user","uuid":"a","torn' >$tmp/lost/torn.jsonl; echo text >$tmp/lost/readme.txt; : >$tmp/lost/empty.jsonl
doctor $tmp/lost => torn.jsonl: messages, 1 fault =0> readme -> 3 lost: passed over 2 files without messages$
$ rm $tmp/lost/torn.jsonl
doctor $tmp/lost -> 0 lost: passed over 2 files without messages$
doctor $tmp/bare -> 0 bare: no files in it$
END
part=$(find "$tmp/tree/part" -type f | LC_ALL=C sort | tail -n 1)
session <<'END'
== tree_is_mended_without_loss_when_a_file_is_damaged
$ for kind in torn half empty; do tree; damage $kind $part >$tmp/piece; cp $tmp/piece $part; mended $tmp/tree; done =3> tree: messages, .* fault =0> ^wrong
END
# Lines are damaged at random in tests/tool/test_doctor.c.
for file in inspect-logs/log_formats.eval cline-session/session.messages.json \
    atif-trajectory/openhands_hello-world.trajectory.json \
    swe-agent-traj/sweagent-function_calling_simple.traj; do
    kinds='torn half byte'
    case $file in
    *.eval) "$tool" formats | grep -q 'compressed files: .*zip$' || continue ;;
    *.traj) kinds='torn half' ;; # the byte is in a string
    esac
    bad=$tmp/bad.${file##*.}
    for kind in $kinds; do
        session <<'END'
== document_is_mended_without_loss_when_it_is_damaged
$ damage $kind $shared/$file >$bad; mended $bad => , [0-9]+ fault =0> ^wrong
END
    done
done

# Odd files: none, nothing, one long line, names that steer terminals, pipes, links that lead back.
odd=$tmp/odd/$(printf 'a\nb\033[31m')
mkdir -p "$odd" && cp "$real/short.jsonl" "$odd/x.jsonl"
ln -s . "$tmp/odd/again" && ln -s ../odd "$tmp/odd/loop"
mkfifo "$tmp/odd/pipe.jsonl"
session <<'END'
== odd_files_are_examined_and_named_without_controls
$ : >$tmp/nothing.jsonl
doctor $tmp/nothing.jsonl => nothing is wrong -> 0 no messages in it
doctor $tmp/odd => x.jsonl: claude-code, nothing =0> [[:cntrl:]] -> 0 odd: left out 1 pipe, socket, device or broken link$
view $tmp/odd => ^9 . -> 0 odd: left out 1 pipe, socket, device or broken link$

# Nobody writes the pipe; all four wait for it at the same time.
== pipe_is_an_error_when_nobody_writes_it
$ for c in view info doctor "sync $tmp/odd.log"; do timeout 30 "$tool" $c $tmp/odd/pipe.jsonl >/dev/null 2>"$tmp/err.${c%% *}" & done; wait
$ cat $tmp/err.* =4> pipe.jsonl: a pipe that nobody writes, which is not read$
sync $tmp/odd.log $tmp/odd => ^files      1 read => ^left out   1 pipe, socket, device or broken link$
sync $tmp/odd.log $tmp/odd --json => "others":1[,}]

== device_or_socket_is_an_error
view /dev/zero -> 1 /dev/zero: a device, which is not read$
sync $tmp/odd.log /dev/zero => ^messages   0 new -> 1 /dev/zero: a device, which is not read$
view /dev/null -> 0 /dev/null: no messages in it$
END
if python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('$tmp/odd/socket')" 2>/dev/null; then
    session <<'END'
== socket_is_an_error
info $tmp/odd/socket -> 1 socket: a socket, which is not read$
view $tmp/odd => ^9 . -> 0 odd: left out 2 pipes, sockets, devices or broken links$
END
else
    echo "skip socket_is_an_error: no python3"
fi
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    mkdir "$tmp/shut" && cp "$real/short.jsonl" "$tmp/shut/a.jsonl"
    cp "$tmp/shut/a.jsonl" "$tmp/shut/b.jsonl" && cp "$tool" "$tmp/shut/tool" && chmod 000 "$tmp/shut/b.jsonl"
    chmod 755 "$tmp" "$tmp/shut"
    # as_nobody COMMAND: of the folder, by a user who may not read b.jsonl.
    as_nobody()
    {
        setpriv --reuid=65534 --regid=65534 --clear-groups "$tmp/shut/tool" "$1" "$tmp/shut"
    }
    session <<'END'
== file_that_cannot_be_read_hides_no_other
$ as_nobody view =9> -> 3 *
$ as_nobody doctor => * -> 1 *
END
fi
# A full disk leaves the file that is there; a device stays one.
mkdir "$tmp/small"
if mount -t tmpfs -o size=32k none "$tmp/small" 2>/dev/null; then
    head -c 150000 "$shared/pi-session/large-session.jsonl" >"$tmp/large.jsonl"
    session <<'END'
== file_stays_when_the_disk_is_full
$ echo kept >$tmp/small/f.jsonl
doctor --fix -o $tmp/small/f.jsonl $tmp/large.jsonl => * -> 1 No space left
hand-over --to pi -o $tmp/small/f.jsonl $tmp/large.jsonl -> 1 No space left
report -o $tmp/small/r.html $tmp/large.jsonl -> 1 No space left
$ cat $tmp/small/* =1> ^kept$
$ ls -A $tmp/small =1>
END
    umount "$tmp/small"
fi
session <<'END'
== device_or_link_stays_what_it_is
$ echo old >$tmp/target; ln -s target $tmp/link; mknod $tmp/device c 1 3 || ln -s /dev/null $tmp/device
hand-over --to pi -o $tmp/device $tmp/s.jsonl =1> ^session +[-0-9a-f]{36}$ -> 0 left out 2 parts
$ test -c $tmp/device
hand-over --to pi -o $tmp/link $tmp/s.jsonl => ^then +pi --session .*link$ -> 0 left out 2 parts
$ readlink $tmp/link => ^target$
$ cat $tmp/target => "type":"session"
END

# What is not broken keeps its spelling.
printf '%s\n' '{"type":"user","uuid":"0","parentUuid":null,"timestamp":"2026-01-01T00:00:00Z","sessionId":"s","n":1.50e1,  "x":"\u00e9\/","message":{"role":"user","content":"a"}}' \
    >"$tmp/spelled"
{
    cat "$tmp/spelled"
    sed 's/"uuid":"0"/"uuid":"1"/; s/"content":"a"/"content":"a\xff"/' "$tmp/spelled"
    printf '{"type":"us\0\0\0\n\0\0\0\0\n'
} >"$tmp/bytes.jsonl"
sed '3,$d; s/\xff/\xef\xbf\xbd/' "$tmp/bytes.jsonl" >"$tmp/mended.jsonl"
printf '{"schema_version":"ATIF-v1.5",\n "session_id":"s1","x":1.50e1,"y":"\\u00e9\\/","steps":[{"step_id":1,"source":"user","message":"one"},\n{"step_id":2,"source":"user","message":"tw' >"$tmp/doc.json"
printf '{"schema_version":"ATIF-v1.5",\n "session_id":"s1","x":1.50e1,"y":"\\u00e9\\/","steps":[{"step_id":1,"source":"user","message":"one"},\n{"step_id":2,"source":"user"}]}\n' >"$tmp/mended.json"
grep -v '"type":"tool_result"' "$real/short.jsonl" >"$tmp/open.jsonl"
grep -v '"type":"tool_use"' "$real/short.jsonl" >"$tmp/lost.jsonl"
sed 's/,$//' "$shared/tau-bench-airline/gpt-4o-airline.json" >"$tmp/places.json"
mkdir -p "$tmp/.claude/projects/x"
cp "$tmp/open.jsonl" "$tmp/.claude/projects/x/"
session <<'END'
== what_is_not_broken_keeps_its_spelling
doctor --fix -o $tmp/fixed.jsonl $tmp/bytes.jsonl => 1  lines with text that is not UTF-8: line 2 -> 3
doctor $tmp/bytes.jsonl => 2  torn lines, 18 bytes: line 3, 4 -> 3
$ cat $tmp/fixed.jsonl == $tmp/mended.jsonl
doctor --fix $tmp/doc.json => 1  document that ends too early, 14 bytes: line 3 -> 3 *
$ cat $tmp/doc.fixed.json == $tmp/mended.json

== damage_in_lines_of_messages_is_named_with_its_first_lines
$ printf '{"role":"user","content":"%b"}\n' a 'b\xff' c '\xffd' >$tmp/text.jsonl
doctor --fix -o $tmp/fixed.jsonl $tmp/text.jsonl => text.jsonl: messages, 2 faults => 2  lines with text that is not UTF-8: line 2, 4$ -> 3 *
doctor $tmp/fixed.jsonl => nothing is wrong
view $tmp/fixed.jsonl => b�$ => �d$
$ printf '%s\n' '{"role":"user","content":"a"}' '{"role":' '{"role":"user","content":"c"}' '[5' >$tmp/torn.jsonl
doctor $tmp/torn.jsonl => 2  damaged places, 10 bytes: line 2, 4$ -> 3 *

== document_that_ends_too_early_is_read_unless_it_is_strict
view $tmp/doc.json => ^1 .* one$ -> 3 line 3, .*the text ends
view --strict $tmp/doc.json -> 1 the text ends
# Not each of many damaged places is named.
$ "$tool" view $tmp/places.json 2>&1 >$tmp/out2 | grep -c 'skipped bytes\|more places' => ^21$

== faults_of_a_session_are_named_with_their_lines
doctor $tmp/s.jsonl => claude-code, nothing is wrong
doctor $tmp/open.jsonl => 2  calls without a result: line 8, 10 -> 3
doctor $tmp/lost.jsonl => 2  results without a call: line . -> 3

== doctor_writes_beside_a_file_and_never_over_one
doctor --fix $tmp/open.jsonl => wrote  .*/open.fixed.jsonl -> 3
doctor $tmp/open.fixed.jsonl => nothing is wrong
doctor --fix $tmp/open.jsonl => * -> 5 exists; name another one
doctor --fix -o $tmp/open.jsonl $tmp/open.jsonl => * -> 2 is not written to
doctor --fix $tmp/.claude/projects/x/open.jsonl => * -> 2 a program reads what is put there
doctor --fix -o $tmp/.claude/projects/x/b.jsonl $tmp/.claude/projects/x/open.jsonl => wrote -> 3
doctor -o x $tmp/s.jsonl $tmp/s.jsonl -> 2 needs --fix, and one file
END


# ---- Writers, read back; a session that another program goes on with.

# plain FILE: type, tool, arguments and content of each message, but what the format leaves out.
plain()
{
    said_in_order "$1" | grep -v '"role":"\(system\|developer\)"\|"type":"[a-z-]*:' |
        sed 's/"\(type_name\|error_type\)":"[^"]*",//; s/"type":"error"/"type":"observation"/; s/,"agent_key":"[^"]*"//
             s/"role":"[a-z]*",\{0,1\}//; s/,"tool":"[^"]*"\(,"args"\)\{0\}$//' |
        grep -v '"content":\([[{]\|"{\)' | sed 's/"type":"observation".*"content"/"type":"observation","content"/
             s/"type":"observation",\(.*[^}]\),"tool":.*/"type":"observation",\1}/' |
        grep -v '"type":"reasoning","content":""'
}

for file in "$real/short.jsonl" "$real/tool_heavy.jsonl" \
    "$shared/codex-rollout/stage0-large.jsonl" "$shared"/codex-rollout/rollout-*.jsonl \
    "$shared/atif-trajectory/openhands_hello-world.trajectory.json"; do
    plain "$file" >"$tmp/want"
    for to in claude-code codex pi sts atif; do
        session <<'END'
== exported_session_has_the_same_messages
export --format $to $file >$tmp/w.jsonl -> 0 *
$ plain $tmp/w.jsonl == $tmp/want
END
    done
done
for to in claude-code codex pi sts atif; do
    printf '{"type":"user","uuid":"1","sessionId":"s","cwd":"/ghp_%s","message":{"role":%s}}\n' \
        k3J9xQv7Lm2PzR8sT4wYb6NcD1fGh5aE0uVi \
        '"user","content":"my key: ghp_k3J9xQv7Lm2PzR8sT4wYb6NcD1fGh5aE0uVi"' >"$tmp/key.jsonl"
    session <<'END'
== export_masks_every_secret
export --mask-secrets --format $to $tmp/key.jsonl => masked =0> ghp_k3J9
END
done

# ATIF has a place for what an answer cost and for other agents: nothing of them is lost.
# figures FILE: what all its answers cost.
figures()
{
    "$tool" usage --json "$1" | sed 's/.*"total"://; s/"cost":\([0-9]*\.[0-9]\{4\}\)[0-9]*/"cost":\1/'
}
# told FILE: the messages of the session at hand; agents one after another. A step has one
# time, its results have their own.
told()
{
    "$tool" view --json "$1" | sed -n '/"kind":"message"/{
        s/,"\(id\|key\|source\|extra\)":.*/}/
        s/"\(seq\|turn_id\|flags\|error_type\|location\)":\("[^"]*"\|[0-9.]*\),\{0,1\}//g
        /"type":"\(assistant_message\|action\)"/s/"time":[0-9.]*,//; p
    }' | awk '{ side = /"agent_key"/ && !/"agent_key":"assistant"/
        if (side) held = held $0 "\n"; else print } END { printf "%s", held }'
}
# texts_of FILE: those whose content is a text; results do not name their tool, and a
# summary is the system's text.
texts_of()
{
    told "$1" | grep -v '"content":[[{]' |
        sed 's/\("type":"\(observation\|error\)".*\),"tool":"[^"]*"/\1/; s/"type":"compaction"/"type":"text"/'
}
cat "$real/short.jsonl" "$real/tool_heavy.jsonl" "$real"/subagents/*.jsonl |
    sed 's/"sessionId":"[^"]*"/"sessionId":"s1"/' >"$tmp/agents.jsonl"
for file in "$real"/*.jsonl "$real"/subagents/*.jsonl "$tmp/agents.jsonl" \
    "$shared"/atif-trajectory/*.json "$shared/pi-session/large-session.jsonl" \
    "$shared"/gemini-cli/*.json*; do
    session <<'END'
== exported_trajectory_has_every_message_and_cost
$ "$tool" export --format atif --report $file >$tmp/w.json 2>$tmp/report && texts_of $file >$tmp/want
$ texts_of $tmp/w.json == $tmp/want
# Contents in parts become their texts.
$ grep -q 'parts that are not text' $tmp/report || [ "$(told $file | wc -l)" = "$(told $tmp/w.json | wc -l)" ]
$ grep -q usage $tmp/report || [ "$(figures $file)" = "$(figures $tmp/w.json)" ]
END
done
nested='{"schema_version":"ATIF-v1.7","session_id":"s9","agent":{"name":"a","version":"1"},"steps":[{"step_id":1,"source":"user","message":"hi"}],"subagent_trajectories":[{"trajectory_id":"sub1","schema_version":"ATIF-v1.7","agent":{"name":"b","version":"1"},"steps":[{"step_id":1,"source":"agent","message":"found it"}],"subagent_trajectories":[{"trajectory_id":"sub2","steps":[]}]}]}'
several=$shared/tau-bench-airline/gpt-4o-airline.json
session <<'END'
== what_a_format_has_no_place_for_is_counted
export --format atif --report $real/dag_compact_after_rewind.jsonl => * -> 0 ^ +1  left out: usage of answers
export --format atif --report $real/dag_compact_after_rewind.jsonl => * -> 0 ^ +1  left out: marks of compactions
hand-over --to codex --report $real/tool_heavy.jsonl => * -> 0 ^ +4  left out: usage of answers
view --json - <<<$nested => "agent_key":"sub1".*"content":"found it" -> 0 kept whole: 1 atif:subagents of a subagent
export --format codex $real/tool_heavy.jsonl => * -> 0 ^msgstore: export: left out [1-9][0-9]* parts of the session; --report names them$
hand-over --to pi $real/tool_heavy.jsonl => "role":"toolResult".*"toolName":"Bash" =0> "toolName":"unknown" -> 0 ^msgstore: hand-over: left out 5 parts of the session; --report names them$
hand-over --to claude-code --report $shared/codex-rollout/rollout-*.jsonl => * -> 0 left out: system texts

== results_without_an_id_are_of_the_oldest_open_call
$ printf '{"type":"%s","location":"s",%s}\n' action '"tool":"ls","args":{"p":1}' action '"tool":"ls","args":{"p":2}' observation '"content":"first"' observation '"content":"second"' action '"tool":"left","args":"no JSON"' user_message '"content":"more"' action '"tool":"x","args":{}' observation '"content":"third"' >$tmp/noid.jsonl
import $tmp/noid.log $tmp/noid.jsonl => ^appended +8
export $tmp/noid.log --format gemini-cli --report => \{"p":1},"result":[^]]*"output":"first".*\{"p":2},"result":[^]]*"output":"second" => "name":"x".*"output":"third" => "name":"left".*has no result of this call =0> after another -> 0 8  without a time
export $tmp/noid.log --format opencode => "tool":"ls".*\{"p":1},"output":"first".*\{"p":2},"output":"second".*"tool":"left".*has no result of this call.*"output":"third" =0> after another
export $tmp/noid.log --format atif => \{"p":1}.*\{"p":2}.*"content":"first".*"content":"second" =0> "content":"first".*"content":"first"
hand-over $tmp/noid.log --to pi => "toolResult".*"first" => "toolResult".*"third" =0> unknown","isError

== result_of_a_tool_that_no_call_has_is_kept
$ printf '{"type":"%s","location":"s",%s}\n' action '"tool":"ls","args":{}' observation '"tool":"ls","content":"files"' observation '"tool":"grep","content":"found"' >$tmp/lone.jsonl
import $tmp/lone.log $tmp/lone.jsonl => ^appended +3
hand-over $tmp/lone.log --to claude-code --report => "tool_result".*"files" => "tool_result".*"found" -> 0 ^ +3  without a time: their dates are made$

== further_results_and_parts_and_early_times_are_counted_once
$ printf '{"type":"%s","location":"s",%s}\n' user_message '"content":[{"type":"image_url","image_url":{"url":"data:x"}},{"type":"text","text":"look"}],"timestamp":-5' action '"tool":"ls","args":{},"tool_call_id":"c"' observation '"content":"one","tool_call_id":"c"' observation '"content":"two","tool_call_id":"c"' >$tmp/twice.jsonl
import $tmp/twice.log $tmp/twice.jsonl => ^appended +4
export $tmp/twice.log --format gemini-cli --report => "one" =0> "two" -> 0 ^ +1  left out: further results of one call$
export $tmp/twice.log --format opencode --report => "one" =0> "two" -> 0 ^ +1  left out: further results of one call$
export $tmp/twice.log --format pi --report => "one" => "two" -> 0 ^ +1  left out: parts that are not text$
export $tmp/twice.log --format atif --report => "one".*"two" -> 0 ^ +1  left out: times before 1970$
export $tmp/twice.log --format codex --report => * -> 0 ^ +3  without a time: their dates are made$

== hand_over_writes_one_result_of_a_call_after_it
hand-over $tmp/twice.log --to claude-code --report => "tool_result".*"one" =0> "two" -> 0 ^ +1  left out: further results of one call$
$ printf '{"type":"%s","location":"s",%s}\n' observation '"content":"early","tool_call_id":"c"' action '"tool":"ls","args":{},"tool_call_id":"c"' observation '"content":"lone","tool_call_id":"d"' observation '"content":"second","tool_call_id":"d"' >$tmp/early.jsonl
import $tmp/early.log $tmp/early.jsonl => ^appended +4
hand-over $tmp/early.log --to claude-code --report =0> early|second =2> "type":"tool_use" =2> "type":"tool_result" => has no result of this call => lone -> 0 ^ +1  left out: results before their call$
export $tmp/early.log --format claude-code => early => second

== a_damaged_message_is_left_out_and_the_rest_is_written
$ LC_ALL=C sed 's/"two"/"twu"/; s/two/twu/' $tmp/twice.log >$tmp/hurt.log
export $tmp/hurt.log --format codex => "one" -> 3 1 records were skipped
export $tmp/hurt.log --format atif => "one".*}$ -> 3 1 records were skipped
hand-over $tmp/hurt.log --to opencode -o $tmp/hurt.json => ^then -> 3 1 records were skipped
$ cat $tmp/hurt.json => "look".*"one".*}$

# As LangGraph's checkpoints: a word, and what the serializer of the program made.
== data_that_only_its_program_reads_is_left_out_and_counted
$ printf '{"type":"data","content":"loop 1","agent_key":"c1","location":"g","item":{"checkpoint":["msgpack","hKF2AQ=="]}}\n' >$tmp/opaque.jsonl
$ printf '{"type":"user_message","content":"hi","location":"g"}\n{"type":"data","content":{"a":1},"location":"g"}\n' | cat - $tmp/opaque.jsonl | sed 's/"agent_key":"c1",//' >$tmp/mixed.jsonl
import $tmp/mixed.log $tmp/mixed.jsonl --from framework => ^appended +3
import $tmp/opaque.log $tmp/opaque.jsonl --from framework => ^appended +1
hand-over $tmp/mixed.log --to codex => "hi" =0> loop 1|hKF2 => a.*:1} -> 0 ^msgstore: g: left out 1 message of data that only its own program reads$
hand-over $tmp/mixed.log --to pi --report => "hi" =0> loop 1|hKF2 -> 0 ^ +1  left out: data that only its own program reads$
export $tmp/mixed.log --format codex => "hi" =0> loop 1 -> 0 ^msgstore: g: left out 1 message of data
hand-over $tmp/opaque.log --to codex -> 4 ^msgstore: g: left out 1 message of data that only its own program reads$
hand-over $tmp/opaque.log --to codex -> 4 ^msgstore: g: no messages that another program can continue$
$ for to in session task envelope-rows openai gemini; do "$tool" export $tmp/mixed.log --format $to; done =5> hi =5> a.*:.*1} =0> loop 1|hKF2 -> 0 ^msgstore: left out 1 message of data that only its own program reads$
export $tmp/mixed.log --format framework => loop 1.*hKF2
export $tmp/mixed.log --format otlp => hi =0> loop 1|hKF2 -> 0 ^msgstore: g: left out 1 message of data
convert $tmp/mixed.jsonl --from framework --to openai --array => ^\[.*hi.*]$ =0> loop 1 -> 0 ^msgstore: left out 1 message of data
view $tmp/mixed.log --format openai =2> role -> 0 ^msgstore: left out 1 message of data
view $tmp/mixed.log => loop 1
history $tmp/mixed.log --format anthropic => hi =0> loop 1 -> 0 ^msgstore: g: left out 1 message of data
history $tmp/opaque.log --format openai -> 4 no messages that a request can have

== hand_over_is_refused_and_leaves_the_file
$ echo kept >$tmp/kept.jsonl
hand-over $several --to codex -> 2 has .* sessions
hand-over $several --to codex -o $tmp/kept.jsonl -> 2 has .* sessions
$ cat $tmp/kept.jsonl* =1> ^kept$ =1>
$ cp $real/short.jsonl $tmp/own.jsonl; ln -s own.jsonl $tmp/link-to-own.jsonl
hand-over $tmp/own.jsonl --to codex -o $tmp/link-to-own.jsonl -> 2 the file itself is not written to
$ cat $tmp/own.jsonl == $real/short.jsonl
hand-over $tmp/s.jsonl --to openai -> 2 expects claude-code
hand-over --to atif $real/short.jsonl -> 2 no program can resume others

== hand_over_of_a_session_without_messages_is_refused
$ echo '{"type":"novelty","uuid":"u","sessionId":"s9","parentUuid":null,"version":"2.0.1","timestamp":"2026-01-01T00:00:00Z"}' >$tmp/none.jsonl
hand-over $tmp/none.jsonl --to codex -> 4 s9: no messages that another program can continue
hand-over $tmp/none.jsonl --to pi -o $tmp/kept.jsonl -> 4 no messages that
hand-over $tmp/none.jsonl --to opencode -> 4 no messages that
$ cat $tmp/kept.jsonl* =1> ^kept$ =1>
$ echo '{"type":"reasoning","agent_key":"assistant","content":"hm"}' | "$tool" hand-over - --to claude-code -> 4 no messages that
$ echo '{"role":"system","content":"be brief"}' | "$tool" hand-over - --to claude-code -> 4 no messages that
$ echo '{"role":"user","content":"hi"}' | "$tool" hand-over - --to claude-code => "hi"
export $tmp/none.jsonl --format codex => session_meta -> 0 *
END

# dates FILE: the times in a transcript, in order.
dates()
{
    grep -o '"timestamp":"[^"]*"' "$1" | cut -d '"' -f 4
}

line='{"type":"user","uuid":"%s","sessionId":"u"%s,"message":{"role":"user","content":"again"}}\n'
for i in 1 2 3; do
    printf "$line" $i '' # the same text each time
done >"$tmp/undated.jsonl"
{ cat "$tmp/undated.jsonl"; printf "$line" 4 ',"timestamp":"2026-01-01T10:00:00Z"'
    printf "$line" 5 ''; } >"$tmp/half.jsonl"
touch -d 2026-02-03T04:05:06Z "$tmp/undated.jsonl"
for to in claude-code codex gemini-cli pi sts; do
    session <<'END'
== handed_over_session_without_times_has_made_dates_that_sort
hand-over $tmp/undated.jsonl --to $to -o $tmp/h.jsonl --report => * -> 0 ^ +3  without a time: their dates are made$
$ dates $tmp/h.jsonl => ^2026-02-03T04:05:06.000Z$ => ^2026-02-03T04:05:06.002Z$ =0> 1970
$ dates $tmp/h.jsonl | sort -c
doctor $tmp/h.jsonl => nothing is wrong
hand-over $tmp/half.jsonl --to $to -o $tmp/h.jsonl --report => * -> 0 ^ +4  without a time: their dates are made$
$ dates $tmp/h.jsonl => ^2026-01-01T09:59:59.997Z$ => ^2026-01-01T10:00:00.000Z$ => ^2026-01-01T10:00:00.001Z$
$ dates $tmp/h.jsonl | sort -c
END
done
session <<'END'
== date_is_the_present_when_the_session_has_no_file
$ "$tool" hand-over - --to pi <$tmp/undated.jsonl => "timestamp":"20[2-9][0-9]- =0> 1970
$ "$tool" hand-over --to codex --report $real/short.jsonl 2>&1 => * =0> dates are made
export --format atif --report $tmp/undated.jsonl => * =0> timestamp
hand-over $tmp/undated.jsonl --to opencode => "created":1770091506000.*"created":1770091506001.*"created":1770091506002
END

# Gemini CLI and OpenCode have a result in its call.
late='{"type":"%s","uuid":"%s","parentUuid":"%s","sessionId":"l","timestamp":"2026-01-01T10:00:0%sZ","message":{"role":"%s","content":[%s]}}\n'
{
    printf "$late" user 1 0 1 user '{"type":"text","text":"/mode"}'
    printf "$late" assistant 2 1 2 assistant '{"type":"tool_use","id":"c1","name":"Look","input":{"at":1}}'
    printf "$late" user 3 2 3 user '{"type":"text","text":"meanwhile"}'
    printf "$late" user 4 3 4 user '{"type":"tool_result","tool_use_id":"c1","content":"seen"}'
} >"$tmp/late.jsonl"
for to in gemini-cli opencode; do
    session <<'END'
== result_after_another_message_is_counted_and_its_call_stays
hand-over $tmp/late.jsonl --to $to --report => Look.*the result comes after another message -> 0 ^ +1  left out: results after another message
END
done
session <<'END'
== prompt_that_gemini_takes_for_a_command_gets_a_word
hand-over $tmp/late.jsonl --to gemini-cli => "text":"Prompt: /mode" -> 0 left out 1 part of the session; --report names it$
export $tmp/late.jsonl --format gemini-cli => "text":"/mode" -> 0 export: left out 1 part of the session; --report names it$

# OpenCode sorts by times: one that is early would move its message.
== time_of_opencode_is_not_before_that_of_the_message_before
$ sed 's/10:00:02Z/09:00:00Z/' $tmp/late.jsonl >$tmp/early.jsonl
$ "$tool" hand-over $tmp/early.jsonl --to opencode --report 2>$tmp/e | grep -o '"created":[0-9]*' | tail -n +2 | tee $tmp/created | sort -c; sed -n 2p $tmp/created => ^"created":1767261601000$
$ cat $tmp/e => ^ +1  left out: times before that of the message before$

# Two sessions have other ids, and the same one the same ids each time.
== ids_of_opencode_ascend_and_are_their_sessions_own
$ "$tool" hand-over $tmp/late.jsonl --to opencode >$tmp/l.json; "$tool" hand-over $tmp/late.jsonl --to opencode | cmp - $tmp/l.json -> 0 left out 1 part
$ grep -o '"id":"[mp][sr][gt]_[^"]*"' $tmp/l.json | cut -d _ -f 2 >$tmp/ids; LC_ALL=C sort -cu $tmp/ids; cat $tmp/ids => ^0{11}[1-9][0-9a-f]{14}"$
$ "$tool" hand-over $tmp/undated.jsonl --to opencode | grep -cF "$(cut -c 13-26 $tmp/ids | head -n 1)" =0> [1-9] -> 1
END

for to in claude-code codex opencode gemini-cli pi sts; do
    provider=openai
    [ $to = claude-code ] && provider=anthropic
    for file in "$real/tool_heavy.jsonl" "$tmp/open.jsonl" "$tmp/lost.jsonl" \
        "$shared"/codex-rollout/rollout-*.jsonl "$shared/pi-session/large-session.jsonl" \
        "$shared/cline-session/session.messages.json" \
        "$shared/swe-agent-traj/sweagent-function_calling_simple.traj" \
        "$shared/openhands-events/events.jsonl"; do
        session <<'END'
== handed_over_session_is_whole_and_its_request_passes
hand-over $file --to $to -o $tmp/h.jsonl => * -> 0 *
$ "$tool" doctor $tmp/h.jsonl | grep -o ": $to, nothing is wrong" => .
history --format $provider $tmp/h.jsonl >$tmp/request -> 0 *
check --as $provider $tmp/request =0>
END
    done
done
exit $failed
