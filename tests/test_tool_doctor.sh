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

# keeps NAME STORE PATTERN: the doctor finds this in a damaged one, and mends it to a file
# without a fault that has each of its messages.
keeps()
{
    check "$1" 3 "$3" '*' doctor --fix -o "$tmp/fixed.jsonl" "$2"
    said "$2" >"$tmp/before"
    said "$tmp/fixed.jsonl" >"$tmp/after"
    same "$1_keeps" '' "$(LC_ALL=C comm -23 "$tmp/before" "$tmp/after" | cut -c 1-200)"
    check "$1_is_whole" 0 '*' '*' view "$tmp/fixed.jsonl"
}

real=$shared/claude-code-real

# ---- What it tells, and where it writes.

cp "$real/short.jsonl" "$tmp/s.jsonl"
# A folder is examined file by file, a tree of files whole.
mkdir -p "$tmp/many" && cp "$shared/claude-code-real/short.jsonl" "$tmp/many/a.jsonl"
head -n 8 "$tmp/many/a.jsonl" >"$tmp/many/b.jsonl"
check folder 3 'many/a.jsonl: claude-code, nothing is wrong' '' doctor "$tmp/many"
check folder_names_each 3 'many/b.jsonl: claude-code, 1 fault' '' doctor "$tmp/many"
cp -r "$shared/opencode-storage" "$tmp/tree" && chmod -R u+w "$tmp/tree"
check tree 0 'tree: messages, nothing is wrong' '' doctor "$tmp/tree"
part=$(find "$tmp/tree/part" -type f | LC_ALL=C sort | tail -n 1)
for kind in torn half empty; do
    rm -rf "$tmp/tree" && cp -r "$shared/opencode-storage" "$tmp/tree" && chmod -R u+w "$tmp/tree"
    damage $kind "$part" >"$tmp/piece" && cp "$tmp/piece" "$part"
    keeps "tree_$kind" "$tmp/tree" 'tree: messages, .* fault'
done
# Lines are damaged at random in tests/test_doctor.c.
for file in inspect-logs/log_formats.eval cline-session/session.messages.json \
    atif-trajectory/openhands_hello-world.trajectory.json \
    swe-agent-traj/sweagent-function_calling_simple.traj; do
    kinds='torn half byte'
    case $file in
    *.eval) "$tool" formats | grep -q 'compressed files: .*zip$' || continue ;;
    *.traj) kinds='torn half' ;; # the byte is in a string
    esac
    for kind in $kinds; do
        damage $kind "$shared/$file" >"$tmp/bad.${file##*.}"
        keeps "${kind}_${file##*/}" "$tmp/bad.${file##*.}" ', [0-9]+ fault'
    done
done

# Odd files: none, nothing, one long line, names that steer terminals, pipes, links that lead back.
: >"$tmp/nothing.jsonl"
check nothing 0 'nothing is wrong' 'no messages in it' doctor "$tmp/nothing.jsonl"
odd=$tmp/odd/$(printf 'a\nb\033[31m')
mkdir -p "$odd" && cp "$shared/claude-code-real/short.jsonl" "$odd/x.jsonl"
ln -s . "$tmp/odd/again" && ln -s ../odd "$tmp/odd/loop"
mkfifo "$tmp/odd/pipe.jsonl"
check odd_folder 0 'x.jsonl: claude-code, nothing' '' doctor "$tmp/odd"
same odd_names_are_shown '' "$(grep -ac "$(printf '\033')" "$tmp/out" | grep -v '^0$')"
check odd_folder_view 0 '^9 ' '' view "$tmp/odd"
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    mkdir "$tmp/shut" && cp "$real/short.jsonl" "$tmp/shut/a.jsonl"
    cp "$tmp/shut/a.jsonl" "$tmp/shut/b.jsonl" && cp "$tool" "$tmp/shut/tool" && chmod 000 "$tmp/shut/b.jsonl"
    chmod 755 "$tmp" "$tmp/shut"
    # as_nobody NAME STATUS COMMAND: of the folder, by a user who may not read b.jsonl.
    as_nobody()
    {
        setpriv --reuid=65534 --regid=65534 --clear-groups "$tmp/shut/tool" "$3" \
            "$tmp/shut" >"$tmp/out" 2>"$tmp/err"
        same "$1" "$2" $?
    }
    as_nobody shut_file_is_named 3 view
    found_by shut_file_hides_no_other 9 ''
    as_nobody shut_file_is_examined 1 doctor
fi
# A full disk leaves the file that is there; a device stays one.
mkdir "$tmp/small"
if mount -t tmpfs -o size=32k none "$tmp/small" 2>/dev/null; then
    head -c 150000 "$shared/pi-session/large-session.jsonl" >"$tmp/large.jsonl"
    echo kept >"$tmp/small/f.jsonl" && echo kept >"$tmp/want"
    check full_disk_fix 1 '*' 'No space left' doctor --fix -o "$tmp/small/f.jsonl" "$tmp/large.jsonl"
    equal full_disk_keeps "$tmp/want" "$tmp/small/f.jsonl"
    check full_disk_hand_over 1 '' 'No space left' hand-over --to pi -o "$tmp/small/f.jsonl" "$tmp/large.jsonl"
    equal full_disk_keeps_it "$tmp/want" "$tmp/small/f.jsonl"
    check full_disk_report 1 '' 'No space left' report -o "$tmp/small/r.html" "$tmp/large.jsonl"
    same full_disk_leaves_nothing f.jsonl "$(ls -A "$tmp/small")"
    umount "$tmp/small"
fi
if mknod "$tmp/device" c 1 3 2>/dev/null; then
    check device 0 '' '' hand-over --to pi -o "$tmp/device" "$tmp/s.jsonl"
    same device_stays yes "$([ -c "$tmp/device" ] && echo yes)"
fi
echo old >"$tmp/target" && ln -s target "$tmp/link"
check link 0 '' '' hand-over --to pi -o "$tmp/link" "$tmp/s.jsonl"
same link_stays yes "$([ -L "$tmp/link" ] && grep -q '"type":"session"' "$tmp/target" && echo yes)"

# What is not broken keeps its spelling.
printf '%s\n' '{"type":"user","uuid":"0","parentUuid":null,"timestamp":"2026-01-01T00:00:00Z","sessionId":"s","n":1.50e1,  "x":"\u00e9\/","message":{"role":"user","content":"a"}}' \
    >"$tmp/spelled"
{ cat "$tmp/spelled" && sed 's/"uuid":"0"/"uuid":"1"/; s/"content":"a"/"content":"'"$(printf 'a\377')"'"/' "$tmp/spelled" &&
    printf '{"type":"us\0\0\0\n\0\0\0\0\n'; } >"$tmp/bytes.jsonl"
check bytes 3 '1  lines with text that is not UTF-8: line 2' '' \
    doctor --fix -o "$tmp/fixed.jsonl" "$tmp/bytes.jsonl"
check bytes_of_nothing 3 '2  torn lines, 18 bytes: line 3, 4' '' doctor "$tmp/bytes.jsonl"
{ cat "$tmp/spelled" && sed 's/"uuid":"0"/"uuid":"1"/; s/"content":"a"/"content":"a'"$(printf '\357\277\275')"'"/' "$tmp/spelled"; } >"$tmp/want"
equal bytes_stay "$tmp/want" "$tmp/fixed.jsonl"
printf '{"schema_version":"ATIF-v1.5",\n "session_id":"s1","x":1.50e1,"y":"\\u00e9\\/","steps":[{"step_id":1,"source":"user","message":"one"},\n{"step_id":2,"source":"user","message":"tw' >"$tmp/doc.json"
check document 3 '1  document that ends too early, 14 bytes: line 3' '*' \
    doctor --fix "$tmp/doc.json"
printf '{"schema_version":"ATIF-v1.5",\n "session_id":"s1","x":1.50e1,"y":"\\u00e9\\/","steps":[{"step_id":1,"source":"user","message":"one"},\n{"step_id":2,"source":"user"}]}\n' >"$tmp/want"
equal document_stays "$tmp/want" "$tmp/doc.fixed.json"
check document_is_read 3 '^1 .* one$' 'line 3, .*the text ends' view "$tmp/doc.json"
check document_strict 1 '' 'the text ends' view --strict "$tmp/doc.json"
# Not each of many damaged places is named.
sed 's/,$//' "$shared/tau-bench-airline/gpt-4o-airline.json" >"$tmp/places.json"
run view "$tmp/places.json"
same places_are_few 21 "$(grep -c 'skipped bytes\|more places' "$tmp/err")"

check fine 0 'claude-code, nothing is wrong' '' doctor "$tmp/s.jsonl"
grep -v '"type":"tool_result"' "$real/short.jsonl" >"$tmp/open.jsonl"
check unanswered 3 '2  calls without a result: line 8, 10' '' doctor "$tmp/open.jsonl"
grep -v '"type":"tool_use"' "$real/short.jsonl" >"$tmp/lost.jsonl"
check lost 3 '2  results without a call: line ' '' doctor "$tmp/lost.jsonl"
check fix_beside 3 "wrote  $tmp/open.fixed.jsonl" '' doctor --fix "$tmp/open.jsonl"
check fixed_is_fine 0 'nothing is wrong' '' doctor "$tmp/open.fixed.jsonl"
check fixed_stays 5 '*' 'exists; name another one' doctor --fix "$tmp/open.jsonl"
check itself_stays 2 '*' 'is not written to' doctor --fix -o "$tmp/open.jsonl" "$tmp/open.jsonl"
mkdir -p "$tmp/.claude/projects/x"
cp "$tmp/open.jsonl" "$tmp/.claude/projects/x/"
check program_folder 2 '*' 'a program reads what is put there' \
    doctor --fix "$tmp/.claude/projects/x/open.jsonl"
check program_folder_named 3 'wrote' '' doctor --fix -o "$tmp/.claude/projects/x/b.jsonl" \
    "$tmp/.claude/projects/x/open.jsonl"
check output_of_one 2 '' 'needs --fix, and one file' doctor -o x "$tmp/s.jsonl" "$tmp/s.jsonl"


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
        name=${to}_$(basename "$file" | cut -c 1-20)
        "$tool" export --format $to "$file" >"$tmp/w.jsonl" 2>"$tmp/err" ||
            fail "export_$name" "$(head -n 1 "$tmp/err")"
        plain "$tmp/w.jsonl" >"$tmp/got"
        equal "export_$name" "$tmp/want" "$tmp/got"
    done
done
for to in claude-code codex pi sts atif; do
    printf '{"type":"user","uuid":"1","sessionId":"s","cwd":"/ghp_%s","message":{"role":%s}}\n' \
        k3J9xQv7Lm2PzR8sT4wYb6NcD1fGh5aE0uVi \
        '"user","content":"my key: ghp_k3J9xQv7Lm2PzR8sT4wYb6NcD1fGh5aE0uVi"' >"$tmp/key.jsonl"
    check "export_masks_$to" 0 'masked' '' export --mask-secrets --format $to "$tmp/key.jsonl"
    same "export_masks_all_$to" '' "$(grep -o 'ghp_k3J9' "$tmp/out")"
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
cat "$real/short.jsonl" "$real/tool_heavy.jsonl" "$real"/subagents/*.jsonl |
    sed 's/"sessionId":"[^"]*"/"sessionId":"s1"/' >"$tmp/agents.jsonl"
for file in "$real"/*.jsonl "$real"/subagents/*.jsonl "$tmp/agents.jsonl" \
    "$shared"/atif-trajectory/*.json "$shared/pi-session/large-session.jsonl" \
    "$shared"/gemini-cli/*.json*; do
    name=atif_$(basename "$file" | cut -c 1-40)
    "$tool" export --format atif --report "$file" >"$tmp/w.json" 2>"$tmp/err" ||
        fail "$name" "$(head -n 1 "$tmp/err")"
    told "$file" | grep -v '"content":[[{]' >"$tmp/want"
    told "$tmp/w.json" | grep -v '"content":[[{]' >"$tmp/got"
    # Contents in parts become their texts; results do not name their tool.
    grep -q 'parts that are no text' "$tmp/err" || [ "$(told "$file" | wc -l)" = \
        "$(told "$tmp/w.json" | wc -l)" ] || fail "${name}_count" "messages are missing"
    for f in want got; do
        sed -i 's/"type":"observation\(.*\),"tool":"[^"]*"/"type":"observation\1/
            s/"type":"error\(.*\),"tool":"[^"]*"/"type":"error\1/' "$tmp/$f"
    done
    equal "$name" "$tmp/want" "$tmp/got"
    case $(cat "$tmp/err") in
    *usage*) ;;
    *) same "${name}_usage" "$(figures "$file")" "$(figures "$tmp/w.json")" ;;
    esac
done
check atif_names_what_stays 0 '*' '^ +1  usage of answers left out' \
    export --format atif --report "$real/dag_compact_after_rewind.jsonl"
check atif_is_no_program 2 '' 'no program goes on with others' \
    hand-over --to atif "$real/short.jsonl"
check hand_over_counts_usage 0 '*' '^ +4  usage of answers left out' \
    hand-over --to codex --report "$real/tool_heavy.jsonl"
input='{"schema_version":"ATIF-v1.7","session_id":"s9","agent":{"name":"a","version":"1"},"steps":[{"step_id":1,"source":"user","message":"hi"}],"subagent_trajectories":[{"trajectory_id":"sub1","schema_version":"ATIF-v1.7","agent":{"name":"b","version":"1"},"steps":[{"step_id":1,"source":"agent","message":"found it"}],"subagent_trajectories":[{"trajectory_id":"sub2","steps":[]}]}]}'
check atif_subagents_are_read 0 '"agent_key":"sub1".*"content":"found it"' \
    'kept whole: 1 atif:subagents of a subagent' view --json -
input=

for to in claude-code codex pi sts; do
    provider=openai
    [ $to = claude-code ] && provider=anthropic
    for file in "$real/tool_heavy.jsonl" "$tmp/open.jsonl" "$tmp/lost.jsonl" \
        "$shared"/codex-rollout/rollout-*.jsonl "$shared/pi-session/large-session.jsonl" \
        "$shared/cline-session/session.messages.json" \
        "$shared/swe-agent-traj/sweagent-function_calling_simple.traj" \
        "$shared/openhands-events/events.jsonl"; do
        name=${to}_$(basename "$file" | cut -c 1-20)
        check "hand_over_$name" 0 '' '*' hand-over "$file" --to $to -o "$tmp/h.jsonl"
        check "whole_$name" 0 "$to, nothing is wrong" '' doctor "$tmp/h.jsonl"
        run history --format $provider "$tmp/h.jsonl"
        accepted "request_$name" $provider
    done
done
check hand_over_names_tools 0 '"role":"toolResult".*"toolName":"Bash"' '' \
    hand-over --to pi "$real/tool_heavy.jsonl"
found_by hand_over_names_all_tools 0 '"toolName":"unknown"'
check hand_over_of_several 2 '' 'has .* sessions' hand-over "$shared/tau-bench-airline/gpt-4o-airline.json" --to codex
echo kept >"$tmp/kept.jsonl"
check hand_over_refused 2 '' 'has .* sessions' hand-over \
    "$shared/tau-bench-airline/gpt-4o-airline.json" --to codex -o "$tmp/kept.jsonl"
echo kept >"$tmp/want"
equal a_refused_hand_over_leaves_the_file "$tmp/want" "$tmp/kept.jsonl"
if [ -e "$tmp/kept.jsonl.part" ]; then fail no_part "kept.jsonl.part is there"; fi
check hand_over_to_messages 2 '' 'expects claude-code' hand-over "$tmp/s.jsonl" --to openai
check hand_over_says 0 '*' 'system texts left out' hand-over --to claude-code --report \
    "$shared"/codex-rollout/rollout-*.jsonl
exit $failed
