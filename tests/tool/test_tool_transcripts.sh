#!/usr/bin/env bash
# Transcripts of agent programs in the command line tool: what is read in each sample (the
# table of transcripts.txt), usage by hand-checked values, branches, sync that is
# incremental and takes nothing twice, sessions, names by a piece, search, completions and
# the manual page.
. "$(dirname "$0")/tool_checks.sh"
export TZ=UTC
log=$tmp/t.log


# total MEMBER ARGUMENTS: a member of the sums of usage.
total()
{
    "$tool" usage --json "${@:2}" | sed 's/.*"total"://' | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"
}

# times ARGUMENTS: the time in each line of JSON that the tool prints.
times()
{
    "$tool" "$@" | sed 's/.*"time":\([0-9.]*\).*/\1/'
}

# texts: the contents of the messages in standard input, on a line.
texts()
{
    "$tool" view --json - | sed 's/.*"content":"\([^"]*\)".*/\1/' | paste -sd' '
}


# ---- The samples.

real=$shared/claude-code-real
if [ -d "$real" ]; then
    bash tests/tool/transcripts.sh >"$tmp/table" 2>"$tmp/err"
    without='^$'
    if "$tool" formats | grep -q 'without libzip\|neither'; then without='\.eval$'; fi
    cat "$real/short.jsonl" "$real/tool_heavy.jsonl" >"$tmp/both.jsonl"
    rollout=$(find "$shared/codex-rollout" -name 'rollout-*')
    dag=$real/dag_compact_after_rewind.jsonl
    session <<'END'
== samples_are_read_as_the_table_has_it
$ grep -v "$without" tests/tool/transcripts.txt >$tmp/want
$ grep -v "$without" $tmp/table == $tmp/want
$ awk 'NR > 1 && $9 != 0' $tmp/table =0>

# Counted by hand: the last line of each message.id; the last running total of a rollout.
== usage_counts_each_answer_once
$ total output_tokens $real/short.jsonl => ^13$
$ total output_tokens $real/subagents/agent-aac57f5.jsonl => ^7$
$ total output_tokens $tmp/both.jsonl => ^225$
$ total cache_read_tokens $real/short.jsonl => ^11515$
$ total output_tokens $rollout => ^374$
$ total cache_read_tokens $rollout => ^37120$
$ total output_tokens $shared/openhands-events/litellm-completion-log.json => ^146$

== history_begins_at_a_compaction_and_hides_what_was_rewound
view $dag --json =0> First a =9>
view $dag --raw => First attempt
history $dag --format openai => "content":"This session is being =0> Keep going
history $dag --format openai --all => Keep going
END
    for provider in openai anthropic gemini; do
        for file in "$real/tool_heavy.jsonl" "$rollout" \
            "$shared/cline-session/session.messages.json" \
            "$shared/gemini-cli/session-2026-01-16T11-01-37b7abef.json"; do
            session <<'END'
== history_of_a_sample_passes_the_check_of_a_provider
history --format $provider $file >$tmp/request -> 0 *
check --as $provider $tmp/request =0>
END
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
    echo '{"claude-opus-4-6":{"input_cost_per_token":1e-6,"output_cost_per_token":1e-3,
        "cache_read_input_token_cost":0,"cache_creation_input_token_cost":0}}' >"$tmp/prices"
    grown=$HOME/.claude/projects/spotter/grown.jsonl
    elsewhere=$HOME/elsewhere
    mkdir "$elsewhere"
    chat=$HOME/.gemini/tmp/h/chats/session-2026-01-16T11-01-37b7abef.json
    half='{"type":"user","uuid":"x","sessionId":"s1","message":{"rol'
    session <<'END'
== sync_takes_the_sessions_of_every_program_once
sync $log => ^sessions   10 new -> 0 *
sync $log => ^files      0 read, 10 unchanged, 2 of unknown formats => ^messages   0 new, 0 taken back

== sessions_are_listed_by_time_agent_folder_and_text
sessions $log =10> => ^[^ ]+ +[^ ]+ +019e1625
sessions $log --agent gemini => gemini-cli =2>
sessions $log --cwd codemie => codemie-code
sessions $shared/openhands-events/litellm-completion-log.json => Hello! Can you =0> "type"
usage $log codemie -> 4 ^msgstore: sessions of a folder with that name: msgstore sessions --cwd codemie$
$ "$tool" info $log | sed -n '/^newest/,/^messages/p' | grep -o '20[0-9-]*T[0-9:]*' | sort -c -r
sessions $log --grep 'phoenix in back' => start phoenix =1>
sessions $log --since '2 days ago' -> 1 none of 10 sessions
sessions $log --since '2 days ago' -> 1 ^msgstore: the newest message is of 2026-
search $log phoenix --since '2 days ago' -> 1 ^msgstore: the newest message is of 2026-
$ "$tool" sessions $log >$tmp/all
sessions $log -n 0 == $tmp/all
sessions --json $log => "session":"019e1625-.*"agent":"codex".*"output_tokens":374

== session_is_named_by_a_piece_of_its_name
view $log d6e0bada => ^[0-9]+ .* start phoenix
view $log s_stage0 -> 2 sessions have s_stage0
view $log zz9 -> 4 no messages of session zz9
history $log d6e0bada --format openai => "role":"user","content":"start phoenix
export $log --session d6e0bada => "content":"start phoenix
rewind $log 1 --location d6e0bada -> 4 no messages

# Sessions come into the log by their folders; what is found comes by its time.
== search_shows_what_is_found_by_its_time
search $log 'phoenix in back' -C 2 => start phoenix =3>
search $log 'phoenix in back' --json => "session":"d6e0bada.*"field":"content"
search $log e --json -n 40 =40>
$ times search $log e --json -n 40 | sort -c -g -r
$ times search $log e --json -n 40 --oldest | sort -c -g

== usage_is_summed_by_day_tool_agent_and_price
$ total output_tokens $log => ^88376$
usage $log --by day => [ ]2026-05-11$
usage $log --by tool => [ ]Bash$
usage $log --by agent => [ ]claude-code/aac57f5$
usage $log --prices $tmp/prices => [ ]0\.23  claude-opus-4-6$ => ^no price: gemini-3
usage $log --prices $dag -> 1 prices by model

== sync_takes_what_is_new_when_a_file_grows_or_moves
$ head -n 6 $dag >$grown
sync $log $grown => ^messages   6 new, 2 taken back -> 0 *
$ cp $dag $grown
sync $log $grown => ^messages   5 new, 0 taken back -> 0 *
$ total output_tokens $log s1 => ^25$
$ mv $grown $elsewhere
sync $log $elsewhere => ^messages   0 new
$ printf %s "$half" >>$elsewhere/grown.jsonl
sync $log $elsewhere => ^messages   0 new
$ echo 'e":"user","content":"late"}}' >>$elsewhere/grown.jsonl
sync $log $elsewhere => ^messages   1 new

== sync_hides_what_is_gone_and_brings_back_nothing_redacted
$ sed -i 's/remove 2 and 3 line/remove all lines/' $chat
sync $log => ^messages   [1-9][0-9]? new, [1-9][0-9]? taken back
$ number=$("$tool" search $log 'expore repository' --json | sed 's/.*"seq":\([0-9]*\).*/\1/')
redact $log $number --apply => erased
$ sed -i 's/remove all lines/remove no line/' $chat
sync $log => ^messages   [1-9][0-9]? new
search $log 'expore repository' -> 1 nothing found in 
sync $log => ^messages   0 new, 0 taken back
END
    if command -v zstd >/dev/null && "$tool" formats | grep -q 'files: zstd'; then
        zstd -q --rm "$HOME/.codex/sessions/2026/05/11"/*.jsonl
        session <<'END'
== compressed_file_is_the_file_that_it_was
sync $log => ^messages   0 new, 0 taken back
view $HOME/.codex/sessions => show tools -> 0 *
END
    else
        echo "skip compressed: no zstd"
    fi
    moving=$tmp/moving.jsonl
    cp "$real/tool_heavy.jsonl" "$moving"
    session <<'END'
== sync_keeps_messages_when_a_file_is_emptied_and_comes_back
sync $tmp/moving.log $moving => . -> 0 *
$ : >$moving
sync $tmp/moving.log $moving => ^messages   0 new, 0 taken back -> 0 *
$ cp $real/tool_heavy.jsonl $moving
sync $tmp/moving.log $moving => ^messages   0 new, 0 taken back -> 0 *
$ head -n 12 $real/tool_heavy.jsonl >$moving
sync $tmp/moving.log $moving => ^messages   0 new, 18 taken back -> 0 *
view --raw $tmp/moving.log => ^22 .

== sync_says_that_what_it_hid_cannot_be_read
$ at=$(grep -abo '"g[0-9]*":' $tmp/moving.log | tail -n 1 | cut -d : -f 1)
$ printf '#' | dd of=$tmp/moving.log bs=1 seek=$at conv=notrunc 2>/dev/null
$ cp $real/tool_heavy.jsonl $moving
sync $tmp/moving.log $moving => ^messages   0 new -> 3 ^msgstore: .*: the list of what earlier syncs hid cannot be read .*checksum

== sync_stores_nothing_twice_when_three_run_at_once
$ for i in 1 2 3; do "$tool" sync $tmp/both.log $real >$tmp/both.$i 2>&1 & done; wait
verify $tmp/both.log => whole
sync $tmp/both.log $real => ^messages   0 new -> 0 *

== import_by_keys_takes_a_session_once
import --keys $tmp/keys.log $dag => . -> 0 *
import --keys $tmp/keys.log $dag => ^appended   0 messages -> 0 *
END
else
    echo "skip samples: no $real"
fi


# ---- Files of messages with one name.

same=$tmp/same
mkdir -p "$same/a" "$same/b" "$same/c"
echo '{"role":"user","content":"one"}' >"$same/a/chat.jsonl"
echo '{"role":"user","content":"two"}' >"$same/b/chat.jsonl"
echo '{"role":"user","content":"three"}' >"$same/c/$(printf 'x\377.jsonl')"
echo '{"role":"user","content":"four"}' >"$same/c/$(printf 'y\377.jsonl')"
session <<'END'
== files_are_conversations_of_their_own_when_they_have_one_name
import $tmp/same.log $same/*/*.jsonl => number 4$
view $tmp/same.log =$3> chat chat.2 input input.2
import $tmp/one.log --location l $same/*/*.jsonl => number 4$
info $tmp/one.log => ^locations +1$
view $same =$3> chat chat.2 input input.2
sessions $same =4>

== sync_finds_the_names_of_conversations_again
sync $tmp/names.log $same => ^messages   4 new
$ for i in a b; do echo '{"role":"user","content":"more"}' >>$same/$i/chat.jsonl; done
sync $tmp/names.log $same/b $same => ^messages   2 new
view $tmp/names.log --format table =$3> chat chat.2 input input.2 chat.2 chat
$ sed -i s/one/another/ $same/a/chat.jsonl
sync $tmp/names.log $same => ^messages   2 new, 2 taken back
view $tmp/names.log =$3> chat.2 input input.2 chat.2 chat chat
END


# ---- A sync that ends early, and the next one.

# long_session LINES: answers of a model, half a KiB each, which cost one token each.
long_session()
{
    awk -v n="$1" 'BEGIN { for (pad = "x"; length(pad) < 500;) pad = pad pad
        for (i = 0; i < n; i++) printf("{\"type\":\"assistant\",\"uuid\":\"u%d\",\"parentUuid\":\"u%d\",\"sessionId\":\"s\",\"message\":{\"role\":\"assistant\",\"content\":\"%d %s\",\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n", i, i - 1, i, pad) }'
}

# stopped_sync: the system refuses the log more than 1.5 MiB.
stopped_sync()
{
    (ulimit -c 0 -f 1536; "$tool" sync "$early" "$long" >"$tmp/out" 2>&1; exit $?) 2>/dev/null
    [ $? -eq 1 ]
}

early=$tmp/early.log
long=$tmp/long.jsonl
long_session 4000 >"$long"
session <<'END'
== sync_stores_nothing_twice_when_the_one_before_was_stopped
$ stopped_sync
sync $early $long => ^messages   [12][0-9]{3} new, 0 taken back$
view $early --json =4000>
$ total output_tokens $early => ^4000$

== sync_stores_nothing_twice_when_the_one_before_refused_a_message
$ rm $early; sed -i '2500i{"type":"novelty"}' $long
sync $early $long --strict => ^messages   [12][0-9]{3} new -> 1 line 2500 .*novelty is unknown
sync $early $long => ^messages   [12][0-9]{3} new, 0 taken back$ -> 0 *
view $early --json =4001>
$ total output_tokens $early => ^4000$
sync $early $long => ^messages   0 new, 0 taken back$ -> 0 *
END
if [ -d "$real" ] && "$tool" formats | grep -q 'compressed files: .*zip$'; then
    head -c 800 "$shared/inspect-logs/log_formats.eval" >"$tmp/broken.eval"
    session <<'END'
== sync_goes_on_after_a_damaged_member_of_an_archive
sync $tmp/broken.log $tmp/broken.eval $same => ^files      5 read => ^messages   6 new -> 3 broken\.eval: samples/.* is not complete JSON; left out
END
fi


# ---- Files that stay as they are, by whatever path they are reached.

mkdir -p "$tmp/stays/in"
long_session 4 >"$tmp/stays/in/s.jsonl"
long_session 3 | sed 's/"u\([0-9-]*\)"/"v\1"/g; s/"sessionId":"s"/"sessionId":"t"/' >"$tmp/stays/t.jsonl"
session <<'END'
== file_of_the_same_size_and_time_is_not_opened
sync $tmp/stays.log $tmp/stays => ^messages   7 new
$ touch -r $tmp/stays/t.jsonl $tmp/time; sed -i 's/"v1"/"w1"/' $tmp/stays/t.jsonl; touch -r $tmp/time $tmp/stays/t.jsonl
sync $tmp/stays.log $tmp/stays => ^files      0 read, 2 unchanged => ^messages   0 new

== file_is_the_same_one_when_a_link_leads_to_it
$ ln -s stays $tmp/alias; ln -s ../stays/in/s.jsonl $tmp/stays/link.jsonl; ln -s $tmp/stays/in $tmp/inner
sync $tmp/stays.log $tmp/alias => ^files      0 read, 3 unchanged => ^messages   0 new
sync $tmp/stays.log $tmp/stays/link.jsonl $tmp/inner/s.jsonl => ^files      0 read, 2 unchanged
$ (home=$PWD; cd $tmp/stays/in && "$home/$tool" sync $tmp/stays.log s.jsonl ../t.jsonl ./s.jsonl) => ^files      0 read, 3 unchanged
$ "$tool" view --json --raw $tmp/stays.log | grep -o '"location":"file:[^"]*' | sort -u =2> /stays/(in/s|t)\.jsonl$
END


# ---- A session that goes on from a branch that was taken back.

forked=$tmp/forked.jsonl
# said_in_pi ID PARENT TEXT: a prompt in a session of pi.
said_in_pi()
{
    printf '{"type":"message","id":"%s","parentId":"%s","message":{"role":"user","content":"%s"}}\n' "$@"
}
{
    echo '{"type":"session","id":"p1","cwd":"/x"}'
    said_in_pi a '' root
    said_in_pi b a one
    echo '{"type":"message","id":"c","parentId":"b","message":{"role":"assistant","content":[{"type":"text","text":"answer"}],"usage":{"input":5,"output":7}}}'
    said_in_pi d a two
} >"$forked"
session <<'END'
== sync_brings_back_a_branch_when_the_session_goes_on_there
sync $tmp/forked.log $forked => ^messages   4 new, 2 taken back
$ said_in_pi e c more >>$forked
sync $tmp/forked.log $forked => .
$ "$tool" export $tmp/forked.log | texts => ^root one answer more$
$ total output_tokens $tmp/forked.log => ^7$
$ said_in_pi f d 'two more' >>$forked
sync $tmp/forked.log $forked => .
$ "$tool" export $tmp/forked.log | texts => ^root two two more$
sync $tmp/forked.log $forked => ^messages   0 new, 0 taken back$

== sync_brings_back_nothing_that_somebody_hid_or_redacted
$ number() { "$tool" search $tmp/forked.log "$1" --json -n 1 | sed 's/.*"seq":\([0-9]*\).*/\1/'; }
hide $tmp/forked.log $(number root) => .
redact $tmp/forked.log $(number 'two more') --apply => erased
$ said_in_pi g c again >>$forked
sync $tmp/forked.log $forked => .
$ said_in_pi h f 'third' >>$forked
sync $tmp/forked.log $forked => .
$ "$tool" export $tmp/forked.log | texts => third =0> root|two more
END


# ---- A file, and a copy of it.

copied=$tmp/copied.log
mkdir -p "$tmp/a" "$tmp/b"
long_session 4 >"$tmp/a/s.jsonl"
cp "$tmp/a/s.jsonl" "$tmp/b/s.jsonl"
session <<'END'
== copy_that_shrinks_hides_nothing_of_its_original
sync $copied $tmp/a $tmp/b => ^messages   4 new
$ head -n 2 $tmp/a/s.jsonl >$tmp/b/s.jsonl
sync $copied $tmp/a $tmp/b => ^messages   0 new, 0 taken back$
view $copied =4>

# A file that is moved has its messages for itself.
== file_that_moves_and_shrinks_hides_what_it_lost
$ mv $tmp/a $tmp/moved
sync $copied $tmp/moved => ^messages   0 new, 0 taken back$
$ sed -i 3,4d $tmp/moved/s.jsonl
sync $copied $tmp/moved => ^messages   0 new, 2 taken back$
END


# ---- Copies of a session of Claude Code.

once=$tmp/once
session_id=11111111-2222-4333-8444-555555555555
mkdir -p "$once/home" "$once/backup" "$once/resumed"
# claude_line N TEXT SESSION: an answer that costs N tokens.
claude_line()
{
    printf '{"type":"assistant","uuid":"uuid-of-%s","parentUuid":"uuid-of-%s","sessionId":"%s","message":{"id":"msg_0123456789abcdef%s","role":"assistant","model":"m","content":[{"type":"text","text":"%s"}],"usage":{"input_tokens":1,"output_tokens":%s}}}\n' "$1" "$(($1 - 1))" "$3" "$1" "$2" "$1"
}
# claude_lines LAST SESSION
claude_lines()
{
    for n in $(seq "$1"); do claude_line "$n" "answer $n" "$2"; done
}
claude_lines 6 $session_id >"$once/home/$session_id.jsonl"
claude_lines 4 $session_id >"$once/backup/$session_id.jsonl"
claude_lines 5 $session_id >"$once/backup/$session_id copy.jsonl"
other_id=99999999-2222-4333-8444-555555555555
{ claude_lines 6 $other_id; claude_line 7 'answer 7' $other_id; } >"$once/resumed/$other_id.jsonl"
session <<'END'
== sync_stores_each_message_once_of_a_backup_and_a_copy_beside
sync $once.log $once/home => ^messages   6 new
sync $once.log $once/backup => ^files      2 read => ^messages   0 new, 0 taken back
view $once.log => answer 6 =6>
sync $once.2.log $once/backup => ^messages   5 new
sync $once.2.log $once/home => ^messages   1 new, 0 taken back
sync $once.2.log $once => ^files      1 read, 3 unchanged => ^messages   7 new
view $once.2.log $session_id --json =6>
$ total output_tokens $once.log => ^21$

# A program that goes on from a session can begin its new file with the lines of the old one.
== sessions_have_their_own_tokens_when_one_repeats_the_other
sync $once.3.log $once/resumed $once/home => ^messages   13 new
sessions $once.3.log --json => "session":"11111111.*"output_tokens":21[,}] => "session":"99999999.*"output_tokens":28[,}]
$ total output_tokens $once.3.log => ^28$
$ total output_tokens $once.3.log $session_id => ^21$

== entry_that_stands_twice_in_its_file_is_stored_once
$ claude_lines 3 $session_id >>$once/home/$session_id.jsonl; claude_line 7 seven $session_id >>$once/home/$session_id.jsonl
sync $once.log $once/home => ^messages   1 new, 0 taken back
$ "$tool" history $once/home/$session_id.jsonl --format openai | grep -o 'answer 2' =1> .
END

# Two copies that went on apart: one rewinds a prompt from which the other goes on.
apart=$tmp/apart
mkdir -p "$apart/a" "$apart/b"
# claude_entry TYPE ID PARENT TEXT
claude_entry()
{
    printf '{"type":"%s","uuid":"id-%s","parentUuid":"id-%s","sessionId":"%s","message":{"role":"%s","content":"%s"}}\n' "$1" "$2" "$3" $session_id "$1" "$4"
}
{
    claude_entry user 1 0 first
    claude_entry assistant 2 1 second
    claude_entry user 3 2 third
} | tee "$apart/a/$session_id.jsonl" >"$apart/b/$session_id.jsonl"
for n in 4 5; do claude_entry assistant $n $((n - 1)) "only in a $n"; done >>"$apart/a/$session_id.jsonl"
claude_entry user 6 2 'only in b' >>"$apart/b/$session_id.jsonl"
session <<'END'
== copies_that_went_on_apart_take_back_nothing_of_each_other
sync $apart.log $apart/a => ^messages   5 new, 0 taken back
sync $apart.log $apart/b => ^messages   1 new, 0 taken back
view $apart.log =6> => third => only in a 4 => only in a 5 => only in b
# What the first copy itself rewound stays so; the other one adds what it has alone.
sync $apart.2.log $apart/b => ^messages   4 new, 1 taken back
sync $apart.2.log $apart/a => ^messages   2 new, 0 taken back
view $apart.2.log =5> => only in a 4 => only in a 5 => only in b
# Once a copy has all of the other, its tree decides.
$ claude_entry assistant 4 3 'only in a 4' >>$apart/b/$session_id.jsonl; claude_entry assistant 5 4 'only in a 5' >>$apart/b/$session_id.jsonl; claude_entry user 7 2 'newest' >>$apart/b/$session_id.jsonl
sync $apart.log $apart/b => ^messages   1 new, [45] taken back
view $apart.log =3> => first => second => newest
END


# ---- OpenCode's database, beside a program that writes it.
#
# The tables are those that OpenCode 1.18.33 makes. The writer keeps the database open in
# WAL mode, takes a word a line, and answers with it.

base=$tmp/opencode/opencode.db
mkdir -p "$tmp/opencode" "$tmp/without"
cat >"$tmp/writer.py" <<'END'
import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("pragma journal_mode = wal")
db.execute("pragma wal_autocheckpoint = 0")
made = [0]

def row(session, role, parts, **more):
    made[0] += 1
    n, when = "%04d" % made[0], 1795926454000 + made[0]
    info = dict(role=role, time={"created": when}, **more)
    db.execute("insert into message values (?, ?, ?, ?, ?)",
               ("msg_" + n, session, when, when, json.dumps(info)))
    for i, part in enumerate(parts):
        db.execute("insert into part values (?, ?, ?, ?, ?, ?)",
                   ("prt_%s_%d" % (n, i), "msg_" + n, session, when, when, json.dumps(part)))

def answer(session, words):
    row(session, "assistant", [{"type": "text", "text": words}], modelID="gpt-5.2",
        providerID="openai", cost=0, tokens={"input": 700, "output": 20, "reasoning": 0,
                                             "cache": {"read": 300, "write": 0}})

for line in sys.stdin:
    word = line.strip()
    if word == "make":
        db.execute("create table session (id text primary key, project_id text not null, parent_id text,"
                   " slug text not null, directory text not null, title text not null, version text not null,"
                   " revert text, cost real default 0 not null, time_created integer not null,"
                   " time_updated integer not null)")
        db.execute("create table message (id text primary key, session_id text not null,"
                   " time_created integer not null, time_updated integer not null, data text not null)")
        db.execute("create table part (id text primary key, message_id text not null, session_id text not null,"
                   " time_created integer not null, time_updated integer not null, data text not null)")
        for session in "ses_a", "ses_b":
            db.execute("insert into session values (?, 'p', null, 's', '/w/oc', ?, '1.18.33', null, 0, 1, 1)",
                       (session, "title of " + session))
            row(session, "user", [{"type": "text", "text": "list \u00e9 \"it\""}])
            answer(session, "all done")
    elif word == "more":
        answer("ses_a", "one more")
    elif word == "half":
        db.execute("begin immediate")
        answer("ses_b", "not yet")
    elif word == "whole":
        db.execute("commit")
    elif word == "revert":
        db.execute("update session set revert = ?, time_updated = 1895926454000 where id = 'ses_a'", (json.dumps({"messageID": "msg_0005"}),))
    print(word, flush=True)
END
if python3 -c 'import sqlite3' 2>/dev/null; then
    mkfifo "$tmp/words"
    python3 "$tmp/writer.py" "$base" <"$tmp/words" >"$tmp/written" &
    exec 7>"$tmp/words"
    # writes WORD: the writer has done it.
    writes()
    {
        echo "$1" >&7
        soon grep -q "^$1$" "$tmp/written"
    }
    "${CC:-cc}" -shared -x c /dev/null -o "$tmp/without/libsqlite3.so.0" 2>/dev/null
    session <<'END'
== database_is_read_beside_its_writer
$ writes make; [ -s $base-wal ]
view $base =4> => list é "it" => all done
sync $tmp/oc.log $tmp/opencode => ^files +2 read, 0 unchanged, 0 of unknown => ^messages   4 new
sync $tmp/oc.log $tmp/opencode => ^files +0 read, 2 unchanged
sessions $tmp/oc.log --json => "session":"ses_a".*"agent":"opencode".*"title":"title of ses_a"
usage $tmp/oc.log => ^ +2 +1400 +0 +600 +40 +0\.00  gpt-5\.2$
# What is in the write-ahead log alone is new; what is not committed is not there.
$ writes more; writes half
sync $tmp/oc.log $tmp/opencode => ^files +1 read, 1 unchanged => ^messages   1 new, 0 taken back
view $tmp/oc.log =5> => one more =0> not yet
$ writes whole
sync $tmp/oc.log $tmp/opencode => ^messages   1 new, 0 taken back
$ writes revert
sync $tmp/oc.log $tmp/opencode => ^messages   0 new, 1 taken back
view $tmp/oc.log =5> => not yet =0> one more
import $tmp/oc.2.log $base => ^appended   6 messages
doctor $base -> 1 a database
view $base --max-input 200 -> 1 too large

== database_is_named_when_it_is_of_another_program
$ python3 -c 'import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute("create table x (a)"); d.commit()' $tmp/opencode/other.db
view $tmp/opencode/other.db -> 1 not read: its format is that of an SQLite database; of those OpenCode
sync $tmp/oc.log $tmp/opencode => ^not read +.*other.db: of an SQLite database
END
    if [ -s "$tmp/without/libsqlite3.so.0" ]; then
        session <<'END'
== database_without_the_library_is_an_error_that_names_it
$ LD_LIBRARY_PATH=$tmp/without "$tool" view $base -> 1 no libsqlite3 on this machine
$ LD_LIBRARY_PATH=$tmp/without "$tool" sync $tmp/oc.3.log $base => ^files +0 read -> 1 no libsqlite3 on this machine
$ LD_LIBRARY_PATH=$tmp/without "$tool" --version => .
END
    fi
    exec 7>&-
    wait
else
    echo "skip database: no sqlite3 of python3"
fi


# ---- Prompts of deleted sessions, and sync by the clock.

claude=$tmp/deleted/.claude
mkdir -p "$claude/projects/p" "$tmp/deleted/backup" "$tmp/deleted/a %d"
old_id=22222222-2222-4333-8444-555555555555
# typed TEXT MILLISECONDS SESSION [MORE]: a line of history.jsonl.
typed()
{
    printf '{"display":"%s","pastedContents":{%s},"timestamp":%s,"project":"/w/p","sessionId":"%s"}\n' "$1" "${4:-}" "$2" "$3"
}
{
    typed first 1784950605093 $session_id
    typed 'deleted one' 1784950606000 $old_id
    typed 'read [Pasted text #1 +9 lines] now' 1784950607000 $old_id '"1":{"id":1,"type":"text","content":"this"}'
    typed 'deleted one' 1784950608000 $old_id
    echo '{"display":"of an old version","pastedContents":{},"timestamp":1784950604000,"project":"/w/p"}'
    echo '{"display":"torn'
    printf '{"display":"being wri'
} >"$claude/history.jsonl"
cp "$apart/a/$session_id.jsonl" "$claude/projects/p/"
{
    claude_entry user 1 0 'deleted one'
    claude_entry assistant 2 1 'its answer'
} | sed "s/$session_id/$old_id/" >"$tmp/deleted/backup/$old_id.jsonl"
past=$tmp/past.log
session <<'END'
== prompts_of_deleted_sessions_are_taken_once
$ HOME=$tmp/deleted "$tool" sync $past => ^messages   5 new => ^prompts    3 new of 1 deleted session, 0 taken back .* 1 left out that name no session, 1 bad line$
view $past =8>
view $past $old_id --json =3> "history":true => "time":1784950606,.*"content":"deleted one" => "content":"read this now"
sessions $past --json => "session":"22222222.*"agent":"claude-code".*"resume":null
sessions $past => claude-code +p +3 .* deleted one$
$ HOME=$tmp/deleted "$tool" sync $past --json => "messages":0,.*|"prompts":\{"new":0,"sessions":0,"hidden":0,"unnamed":1,"bad_lines":1\}
redact $past 6 --apply => erased
sync $past $claude/history.jsonl => ^prompts    0 new
$ printf 'tten","timestamp":1784950609000,"project":"/w/p","sessionId":"%s"}\n' $old_id >>$claude/history.jsonl
sync $past $claude => ^prompts    1 new of 0 deleted sessions, .* 1 bad line
view $past $old_id =4> deleted one|this|written|redacted

== prompts_leave_when_the_transcript_comes
sync $past $tmp/deleted/backup => ^messages   2 new, 0 taken back
sync $past $claude => ^prompts    0 new of 0 deleted sessions, 4 taken back as the transcript came
sessions $past --json => "session":"22222222.*"resume":"cd /w/p && claude --resume 2222
view $past $old_id =2>
sync $past $claude => ^prompts    0 new of 0 deleted sessions, 0 taken back

== timer_of_sync_is_written_and_removed
$ XDG_CONFIG_HOME=$tmp/config "$tool" sync --install $tmp/new.log $tmp/nowhere -> 4 nowhere: no such file or folder
$ [ -e $tmp/config ] -> 1
$ cd "$tmp/deleted/a %d" && XDG_CONFIG_HOME=$tmp/config CODEX_HOME="/c d" "$OLDPWD/$tool" sync --install it\'s.log .. >$tmp/install; cd "$OLDPWD"
$ cat $tmp/install => ^wrote .*/config/systemd/user/msgstore-sync\.service$ => ^wrote .*timer$ => ^start it   systemctl --user => ^or crontab 17 \* \* \* \* CODEX_HOME='/c d'
$ cat $tmp/config/systemd/user/msgstore-sync.service => ^Environment="CODEX_HOME=/c d"$ => ^ExecStart=".*/msgstore" sync --quiet --wait 60000 -- ".*/deleted/a %%d/it's\.log" ".*/deleted"$
$ cat $tmp/config/systemd/user/msgstore-sync.timer => ^OnCalendar=hourly$ => ^Persistent=true$ => ^WantedBy=timers\.target$
$ [ -e "$tmp/deleted/a %d/it's.log" ] -> 1
$ sed -n 's/^or crontab \(.... . . .\|17 \* \* \* \*\) //p' $tmp/install | sed 's/\\%/%/g' >$tmp/cron; HOME=$tmp/deleted XDG_CONFIG_HOME= sh $tmp/cron
view "$tmp/deleted/a %d/it's.log" =2> deleted one|its answer
$ XDG_CONFIG_HOME=$tmp/config "$tool" sync --install --agent 'a $b %c' --strict --full --shared --wait 5 --sync none --max-input 2M --json $tmp/opt.log => ^or crontab .* sync --quiet --strict --full --shared --json --wait 5 --sync none --max-input 2097152 --agent 'a \$b '\\%'c' -- '/.*/opt\.log'$
$ cat $tmp/config/systemd/user/msgstore-sync.service => sync --quiet --strict --full --shared --json --wait 5 --sync none --max-input 2097152 --agent "a \$\$b %%c" -- "/.*/opt\.log"$
$ XDG_CONFIG_HOME=$tmp/config "$tool" sync --install --agent $'a\nb' $tmp/opt.log -> 1 a control character in a path or an option$
$ XDG_CONFIG_HOME=$tmp/config "$tool" sync --uninstall => ^removed .*service$ => ^removed .*timer$ => ^stop it
$ XDG_CONFIG_HOME=$tmp/config "$tool" sync --uninstall -> 4 no timer is installed
sync --install $tmp/no/such/folder/a.log -> 4 no such folder
END
if command -v systemd-analyze >/dev/null; then
    XDG_CONFIG_HOME=$tmp/config "$tool" sync --install "$tmp/deleted/a %d/it.log" >/dev/null
    same timer_is_valid '' "$(systemd-analyze verify --user "$tmp/config/systemd/user/msgstore-sync.timer" \
        "$tmp/config/systemd/user/msgstore-sync.service" 2>&1 | grep msgstore-sync)"
else
    echo "skip timer_is_valid: no systemd-analyze"
fi


# ---- Nothing is dropped.

kept=$tmp/kept
mkdir -p "$kept"
in_claude='"sessionId":"11111111-2222-3333-4444-555555555555"'
{
    echo '{"type":"user","uuid":"u1","parentUuid":null,'"$in_claude"',"message":{"role":"user","content":"run the tests"}}'
    echo '{"type":"attachment","uuid":"q1","parentUuid":"u1",'"$in_claude"',"attachment":{"type":"queued_command","prompt":"use pytest","commandMode":"prompt"}}'
    echo '{"type":"queue-operation","operation":"enqueue",'"$in_claude"',"content":"draft PR please"}'
    echo '{"type":"queue-operation","operation":"enqueue",'"$in_claude"',"content":"use pytest"}'
    echo '{"type":"queue-operation","operation":"enqueue",'"$in_claude"',"content":"/mcp"}'
    echo '{"type":"queue-operation","operation":"enqueue",'"$in_claude"',"content":"in the editor again"}'
    for n in 1 2 3; do echo '{"type":"queue-operation","operation":"remove",'"$in_claude"'}'; done
    echo '{"type":"queue-operation","operation":"popAll",'"$in_claude"'}'
    echo '{"type":"assistant","uuid":"a1","parentUuid":"q1",'"$in_claude"',"message":{"role":"assistant","content":"done"}}'
} >"$kept/queued.jsonl"
side_entry='"isSidechain":true,"agentId":"abc",'"$in_claude"
{
    echo '{"type":"user","uuid":"s1","parentUuid":null,'"$side_entry"',"message":{"role":"user","content":"look it up"}}'
    echo '{"type":"assistant","uuid":"s2","parentUuid":"s1",'"$side_entry"',"message":{"role":"assistant","content":"found"}}'
} >"$kept/agent-abc.jsonl"
sed 's/abc/def/; s/"s1"/"t1"/; s/"s2"/"t2"/' "$kept/agent-abc.jsonl" >"$kept/agent-def.jsonl"
glued=$kept/glued.jsonl
{
    printf '{"type":"user","uuid":"u1",%s,"message":{"role":"user","content":"one"}}' "$in_claude"
    printf '{"type":"user","uuid":"u2",%s,"message":{"role":"user","content":"two"}}\n' "$in_claude"
    printf '{"type":"user","uuid":"u3",%s,"message":{"role":"us' "$in_claude"
    printf '{"type":"user","uuid":"u4",%s,"message":{"role":"user","content":"four"}}\n' "$in_claude"
} >"$glued"
cat >"$kept/rollout-1.jsonl" <<'END'
{"timestamp":"2026-05-12T10:00:00.000Z","type":"session_meta","payload":{"id":"s","cwd":"/w"}}
{"timestamp":"2026-05-12T10:00:01.000Z","type":"event_msg","payload":{"type":"user_message","message":"only here"}}
{"timestamp":"2026-05-12T10:00:02.000Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ok"}]}}
{"timestamp":"2026-05-12T10:00:03.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"item first"}]}}
{"timestamp":"2026-05-12T10:00:03.000Z","type":"event_msg","payload":{"type":"user_message","message":"item first"}}
{"timestamp":"2026-05-12T10:00:04.000Z","type":"response_item","payload":{"type":"image_generation_call","id":"ig_1","status":"completed","revised_prompt":"a cat","result":"aGk="}}
{"timestamp":"2026-05-12T10:00:05.000Z","type":"response_item","payload":{"type":"agent_message","content":[{"type":"input_text","text":"from a peer"}]}}
{"timestamp":"2026-05-12T10:00:06.000Z","type":"event_msg","payload":{"type":"user_message","message":"event first"}}
{"timestamp":"2026-05-12T10:00:06.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"event first"}]}}
{"timestamp":"2026-05-12T10:00:07.000Z","type":"event_msg","payload":{"type":"user_message","message":"at the end"}}
END
mkdir "$kept/task"
cat >"$kept/task/api_conversation_history.json" <<'END'
[{"role":"user","ts":1,"content":[{"type":"text","text":"<task>\nlist the files\n</task>"}]},
{"role":"assistant","ts":2,"content":[{"type":"tool_use","id":"t1","name":"list_files","input":{"path":"x"}},{"type":"tool_use","id":"t2","name":"read_file","input":{"path":"y"}}]},
{"role":"user","ts":3,"content":[{"type":"text","text":"[list_files for 'x'] Result:"},{"type":"text","text":"a.txt"},{"type":"text","text":"[read_file for 'y'] Result:\n\nhello"},{"type":"text","text":"<environment_details>now</environment_details>"}]},
{"role":"assistant","ts":4,"content":[{"type":"text","text":"done"}]}]
END
session <<'END'
== prompt_that_was_typed_while_the_agent_worked_is_a_users_message
history $kept/queued.jsonl --format openai => use pytest.*draft PR please.*"done" =0> /mcp|in the editor
export $kept/queued.jsonl => "queued":true =2> .*queued.*
search $kept/queued.jsonl 'use pytest' =1>

END
if [ -d "$real" ]; then
    session <<'END'
== subagents_file_alone_has_no_command_that_resumes_it
sessions --full $real/subagents/agent-aac57f5.jsonl => ae4a77f8 =0> --resume
sessions --json $real/subagents/agent-aac57f5.jsonl => "session":"ae4a77f8 =0> "resume":"
sessions --full $real/short.jsonl => claude --resume
END
fi
session <<'END'
== bad_utf8_of_a_transcript_is_counted
$ { claude_entry user 1 0 'ab'; claude_entry assistant 2 1 'caf@'; claude_entry user 3 2 '~ud800'; } | LC_ALL=C sed 's/@/\xe9/; s/~/\\/' >$tmp/bytes.jsonl; rm -f $log
view $tmp/bytes.jsonl =3> => caf�$ -> 0 ^msgstore: .*bytes.jsonl: bad UTF-8 was replaced by U\+FFFD in 2 entries$
convert --to openai $tmp/bytes.jsonl => caf -> 0 bytes.jsonl: bad UTF-8 was replaced by U\+FFFD in 2 entries$
import --keys $tmp/bytes.log $tmp/bytes.jsonl => ^appended   3 -> 0 bytes.jsonl: bad UTF-8 was replaced by U\+FFFD in 2 entries$
sync $log $tmp/bytes.jsonl => ^repaired   2 entries with bad UTF-8$
sync --json $log $tmp/bytes.jsonl => "repaired":0,
$ claude_entry assistant 4 3 'caf@' | LC_ALL=C sed 's/@/\xe9/' >>$tmp/bytes.jsonl
sync --json $log $tmp/bytes.jsonl => "messages":1,.*"repaired":1,
sync $log $tmp/bytes.jsonl =0> ^repaired
view $kept/queued.jsonl => .

# The last one has none, which is no fault.
== time_that_cannot_be_read_is_counted
$ { claude_entry user 1 0 'one'; claude_entry assistant 2 1 'two'; claude_entry user 3 2 'three'; claude_entry user 4 3 'four'; } | sed '1s/^{/&"timestamp":"2026-03-02T25:61:00Z",/; 2s/^{/&"timestamp":1772409600000,/; 3s/^{/&"timestamp":"2026-03-02T00:00:00Z",/; 4s/^{/&"timestamp":null,/' >$tmp/times.jsonl; rm -f $log
sync $log $tmp/times.jsonl => ^messages   4 new => left out +2 empty or incomplete: 2 time that cannot be read
convert --to openai $tmp/times.jsonl => three -> 0 left out, empty or incomplete: 2 time that cannot be read
END
if [ -d "$real" ]; then
    session <<'END'
# The records that list the sessions are whole, and older than the newest segment. rot PIECE:
# flips a bit of the piece.
== damage_is_told_beside_titles_times_and_commands
$ rot() { LC_ALL=C sed "s/${1%?}${1: -1}/${1%?}#/" $log >$tmp/rot.log; ! cmp -s $log $tmp/rot.log; }
$ rm -f $log; pad=$(head -c 600000 /dev/zero | tr '\0' x)
sync $log $real/subagents/agent-aac57f5.jsonl => ^messages   28 new
import $log - --location k <<<$'{"type":"assistant_message","content":"hello"}\n{"type":"user_message","content":"mend the quokka"}\n{"type":"assistant_message","content":"it is mended"}\n{"type":"assistant_message","content":"bye"}' => .
import $log - --location t <<<$'{"type":"assistant_message","content":"a"}\n{"type":"assistant_message","content":"the wombat","timestamp":1000}\n{"type":"assistant_message","content":"b","timestamp":2000}\n{"type":"assistant_message","content":"c"}' => .
$ for i in 1 2 3 4 5 6 7 8; do echo '{"type":"task","content":"'$pad'"}'; done | "$tool" import $log - --location z => .
sessions $log --json => "session":"k".*"title":"mend the quokka" => "session":"t".*"first_time":1000,"last_time":2000,
=> "session":"ae4a77f8.*"resume":null
$ rot 'versions of these OpenTelemetry'
sessions $tmp/rot.log --json => "session":"ae4a77f8.*"title":"Search hex.pm.*"resume":null -> 3 ^msgstore: reading sessions: 1 records were skipped: their checksums do not match; titles, times or what resumes may be missing$
sessions $tmp/rot.log --full =0> --resume -> 3 ^msgstore: reading sessions: 1 records
report $tmp/rot.log ae4a -o $tmp/rot.html => ^wrote -> 3 ^msgstore: reading sessions: 1 records
$ rot 'it is mended'
report $tmp/rot.log -o $tmp/rot.html => ^wrote -> 3 ^msgstore: reading the store: 1 records were skipped: their checksums do not match$
$ head -c 15 $tmp/rot.html => ^<!doctype html>$
report $tmp/rot.log --location k >$tmp/rot.html -> 3 ^msgstore: reading the store: 1 records
report $log -o $tmp/rot.html => ^wrote
$ rot 'mend the quokka'
sessions $tmp/rot.log --json => "session":"k".*"title":null -> 3 ^msgstore: reading sessions: 1 records
view $tmp/rot.log --location q -> 4 ^msgstore: reading sessions: 1 records
$ rot 'the wombat'
sessions $tmp/rot.log --json => "session":"t".*"first_time":2000, -> 3 ^msgstore: reading sessions: 1 records
END
fi
session <<'END'
== subagents_file_is_a_conversation_of_its_own
history $kept/agent-abc.jsonl --format openai => ^\[.*look it up.*found
hand-over $kept/agent-abc.jsonl --to codex => look it up => found
$ cat $kept/agent-abc.jsonl $kept/agent-def.jsonl >$kept/both.jsonl
history $kept/both.jsonl --format openai -> 4 no messages of the main agent, 4 of several subagents
history $kept/both.jsonl --format openai --agent def => look it up

== entries_on_one_line_are_all_read
view $glued =3> -> 3 line 2.*left out
$ "$tool" view $glued 2>/dev/null | grep -c 'one$\|two$\|four$' => ^3$

== prompt_that_only_an_event_has_is_read_in_its_place
$ "$tool" view $kept/rollout-1.jsonl --json | sed 's/.*"content":\("[^"]*"\|[^,]*\).*/\1/' | paste -sd' ' => ^"only here" "ok" "item first" .*image.* "from a peer" "event first" "at the end"$
history $kept/rollout-1.jsonl --format openai-responses => image_generation

== result_that_is_text_is_paired_with_its_call
history $kept/task/api_conversation_history.json --format openai => "tool_call_id":"t1","content":"a.txt" => "tool_call_id":"t2","content":"hello" =0> No result
sessions $kept/task => list the files *$ =0> task>|Result
END


# ---- Formats that are not read, and places.

alien=$tmp/alien
mkdir -p "$alien" "$tmp/homes/.config/claude/projects/p" "$tmp/homes/c/projects/p" \
    "$tmp/homes/x/sessions/2026" "$tmp/homes/.local/share/opencode" \
    "$tmp/homes/Library/Application Support/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/t"
# What two programs print to a pipe, as they printed it but for the names of folders.
streams=tests/tool/streams
head -n 5 $streams/codex-exec.jsonl >"$tmp/started.jsonl"
{ head -n 5 $streams/codex-exec.jsonl; echo '{"type":"item.completed","item":{"id":"item_4","type":"odd"}}'; } >"$tmp/oddly.jsonl"
sed 's/"exit_code":0/"exit_code":1/' $streams/codex-exec.jsonl >"$tmp/failing.jsonl"
{ cat $streams/codex-exec.jsonl; tail -n 1 $streams/codex-exec.jsonl | sed 's/:40,/:60,/; s/:18,/:27,/'; } >"$tmp/turns.jsonl"
session <<'END'
== stream_json_of_claude_is_its_transcript
view $streams/claude-partial.jsonl =7> => user_message +say hi => action +Bash => observation +hi there => user_message +and again -> 0 *
info $streams/claude-partial.jsonl => ba5fc01a-6bc1-4be2-be39-da8e7bbb7a34$
sync $tmp/stream.log $streams/claude-partial.jsonl => * -> 0 *
sessions --json $tmp/stream.log => "agent":"claude-code".*"cwd":"/home/u/work".*"model":"claude-opus-4-8"

# An answer says 1; the results of the two turns say 14 and 7.
== output_of_a_stream_is_that_of_its_results
$ total output_tokens $streams/claude-partial.jsonl => ^21$
usage --json $streams/claude-partial.jsonl => "total":\{"answers":3,.*"cost":0.000754

== subagent_of_a_stream_is_no_part_of_the_main_line
view $streams/claude-subagent.jsonl => toolu_9 +user_message +say hi => toolu_9 +action +Bash =6> .
history $streams/claude-subagent.jsonl --format anthropic => all done =0> say hi there
$ total output_tokens $streams/claude-subagent.jsonl => ^15$

== events_of_codex_exec_are_messages
view $streams/codex-exec.jsonl =4> => reasoning +thinking of it => command_execution.*echo hi there => observation +hi there => assistant_message +all done -> 0 *
history $tmp/started.jsonl --format openai => "id":"item_2".*"No result: the call was interrupted -> 0 *
view $tmp/oddly.jsonl => codex-exec:odd -> 0 unknown, kept whole: 1 codex-exec:odd
view $tmp/failing.jsonl => error +hi there
info $streams/codex-exec.jsonl => 01a225ae-b350-79e2-a9eb-ca897aa05678-exec$

# The usage of a turn is the total of the thread.
== usage_of_codex_exec_is_counted_once
$ total output_tokens $tmp/turns.jsonl => ^27$
$ total cache_read_tokens $tmp/turns.jsonl => ^8$
END

# A database as SQLiteSession of the package openai-agents wrote it.
if python3 -c 'import sqlite3' 2>/dev/null && "$tool" info "$demo" >/dev/null; then
    sessions=$tmp/sessions.db
    # change SQL: in that database.
    change()
    {
        python3 -c 'import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.executescript(sys.argv[2])' "$sessions" "$1"
    }
    change "$(cat $streams/agents.sql)"
    session <<'END'
== sessions_of_the_agents_sdk_are_read_from_their_database
view $sessions =11> => chat-1 +- +user_message +say hi => chat-2 +- +user_message +hello two => action +say.*hi => observation +hi there => reasoning +thinking -> 0 *
sync $tmp/sdk.log $sessions => ^sessions +2 new => ^messages +11 new -> 0 *
sync $tmp/sdk.log $sessions => ^files +0 read, 2 unchanged
sessions --json $tmp/sdk.log => "session":"chat-1","agent":"openai-agents".*"title":"say hi with the tool".*"messages":7
$ change "delete from agent_messages where id = 7; insert into agent_messages(session_id, message_data) values ('chat-1', '{\"role\":\"assistant\",\"content\":\"another end\"}'), ('chat-1', '{\"type\":\"odd\"}'), ('chat-1', '{')" => * -> 0 *
sync $tmp/sdk.log $sessions => ^files +1 read, 1 unchanged => ^messages +3 new, 1 taken back -> 0 1 openai-agents:odd, 1 openai-agents:row|1 openai-agents:row, 1 openai-agents:odd
history $tmp/sdk.log chat-1 --format openai-responses => and again.*another end
END
else
    echo "skip sessions_database: no sqlite3 of python3"
fi

# Tables as Crush makes them, with messages in its form.
if python3 -c 'import sqlite3' 2>/dev/null; then
    crush=$tmp/project/.crush/crush.db
    mkdir -p "$tmp/project/.crush/logs" "$tmp/project/.none/.crush"
    echo '{"level":"INFO"}' >"$tmp/project/.crush/logs/crush.log"
    # orders FILE...: whatever the order in which copies of a session come, and whether they
    # come again, the log shows the session as the last copy has it.
    orders()
    {
        local each file one=${*: -1} two=${*: -2:1}
        "$tool" view "$one" | sed 's/^ *[0-9]* *//' | sort >"$tmp/orders.want"
        for each in "$*" "$one $*" "$two $one $* $two" "$two $* $two" "$one $two $1 $one"; do
            rm -f "$tmp/orders.log"
            for file in $each; do "$tool" sync --quiet "$tmp/orders.log" "$file"; done
            "$tool" view "$tmp/orders.log" | sed 's/^ *[0-9]* *//' >"$tmp/orders.now"
            sort "$tmp/orders.now" | diff -q "$tmp/orders.want" - >&2 || echo "differs: $each"
        done
    }
    # crush_change SQL: in that database.
    crush_change()
    {
        python3 -c 'import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.executescript(sys.argv[2])' "$crush" "$1"
    }
    crush_change "$(cat $streams/crush.sql)"
    session <<'END'
== sessions_of_crush_are_read_from_their_database
view $crush =11> => ^ 1 .* 5eb7-main .* say hi with the tool => "type":"image" => reasoning +thinking => I say <hi> => observation +hi there => error +no agent => ^11 .* call_7 .* look -> 0 *
view --json $crush => "time":1761246835.*"call_id":"call_1" => "content":"thinking of it".*"signature":"c2ln" => "finish":\{"reason":"canceled" => "metadata":
sync $tmp/crush.log $tmp/project => ^files +2 read, 0 unchanged, 0 of unknown => ^messages +11 new -> 0 *
sync $tmp/crush.log $crush => ^files +0 read, 2 unchanged
sessions --json $tmp/crush.log => "session":"5eb7-main","agent":"crush".*"title":"A title" => "session":"call_7" => "cwd":".*/project" => "model":"gpt-4.1"
history $tmp/crush.log 5eb7 --format openai >$tmp/request -> 0 *
check --as openai $tmp/request =0>
usage $tmp/crush.log --json => "answers":0

# What follows a message that grew is stored again, in its place.
== message_of_crush_that_grows_is_stored_in_its_new_form
$ crush_change "update messages set parts = replace(parts, 'all done', 'all done, and more'), updated_at = updated_at where id = 'm-4'"
sync $tmp/crush.log $crush => ^files +1 read, 1 unchanged => ^messages +2 new, 2 taken back -> 0 *
view $tmp/crush.log =11> => and more
$ cp $crush $tmp/copy.db
sync $tmp/crush.log $tmp/copy.db => ^messages +0 new, 0 taken back -> 0 *

== copies_of_crush_of_several_ages_are_one_session
$ cp $crush $tmp/grown.3.db; crush_change "delete from messages where id in ('m-4', 'm-5')"; cp $crush $tmp/grown.2.db; crush_change "update messages set parts = replace(parts, '{\"text\":\"I say ', '{\"text\":\"I ')"; cp $crush $tmp/grown.1.db; cp $tmp/grown.3.db $crush
$ cmp -s $tmp/grown.1.db $tmp/grown.2.db -> 1
$ orders $tmp/grown.1.db $tmp/grown.2.db $tmp/grown.3.db -> 0
$ "$tool" view $tmp/orders.log | grep -n "I say" => ^4: -> 0

== requests_begin_at_the_summary_of_crush
$ crush_change "insert into messages values ('m-6', '5eb7-main', 'assistant', '[{\"type\":\"text\",\"data\":{\"text\":\"All of it.\"}}]', 'gpt-4.1', 1761246900, 1761246900, null, null, 1)"
history $crush 5eb7 --format openai => All of it =0> say hi -> 0 *
$ crush_change "update messages set is_summary_message = 0; update sessions set summary_message_id = 'm-6' where id = '5eb7-main'"
history $crush 5eb7 --format openai => All of it =0> say hi -> 0 *

== summary_of_crush_has_all_its_texts_and_an_end_says_what_went_wrong
$ cp $crush $tmp/kept.db; crush_change "update messages set parts = '[{\"type\":\"text\",\"data\":{\"text\":\"All of it.\"}},{\"type\":\"text\",\"data\":{\"text\":\"And more.\"}}]' where id = 'm-6'; insert into messages values ('m-61', '5eb7-main', 'assistant', '[{\"type\":\"text\",\"data\":{\"text\":\"half\"}},{\"type\":\"finish\",\"data\":{\"reason\":\"error\",\"message\":\"Overloaded\",\"details\":\"529\"}}]', '', 1761246901, 1, null, null, 0), ('m-62', '5eb7-main', 'referee', '[{\"type\":\"text\",\"data\":{\"text\":\"FOUL\"}}]', '', 1761246902, 1, null, null, 0)"; cp $crush $tmp/said.db; cp $tmp/kept.db $crush
view --json $tmp/said.db => All of it.*And more => "half" => "finish":.*Overloaded => :role".*FOUL -> 0 1 crush:role
history $tmp/said.db 5eb7 --format openai => half -> 0 *

== what_crush_has_that_is_unknown_or_damaged_is_counted
$ crush_change "insert into messages values ('m-7', '5eb7-main', 'user', '[{\"type\":\"odd\",\"data\":{}},7,{\"type\":\"text\",\"data\":{\"text\":7}}]', '', 1761246901, 1, null, null, 0), ('m-8', '5eb7-main', 'tool', '[{\"type\":\"tool_res', '', -5, 1, null, null, 0), ('m-9', 'lost', 'user', '{}', '', 1, 1, null, null, 0)"
view $crush => crush:odd -> 0 1 crush:odd.*|2 crush:row.*|1 crush:part.*
sync $tmp/crush.2.log $crush => ^messages -> 0 crush:odd|crush:row|crush:part
$ crush_change "drop table sessions; create table sessions (id, title)"
view $crush -> 1 SQLite: no such column
END
else
    echo "skip crush: no sqlite3 of python3"
fi

# A database of Cursor's form, with a secret beside the conversations.
if python3 -c 'import sqlite3' 2>/dev/null; then
    cursor=$tmp/cursor/state.vscdb
    mkdir -p "$tmp/cursor"
    # cursor_row ID VALUE: a row of the conversations.
    cursor_change()
    {
        python3 -c 'import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute("pragma journal_mode = wal"); d.executescript(sys.argv[2]); d.commit()' "$cursor" "$1"
    }
    cursor_row()
    {
        cursor_change "insert or replace into cursorDiskKV values ('$1', '$2')"
    }
    cursor_change 'create table ItemTable (key text unique on conflict replace, value blob);
        create table cursorDiskKV (key text unique on conflict replace, value blob)'
    cursor_change "insert into ItemTable values ('cursorAuth/accessToken', 'hush-token'); insert into cursorDiskKV values ('checkpointId:c1:x', 'hush-check'), ('bubbleId:c1:nil', null)"
    cursor_row composerData:c1 '{"_v":16,"composerId":"c1","name":"A title","createdAt":1748188500000,"lastUpdatedAt":1748188600000,"modelConfig":{"modelName":"gpt-5"},"speculativeSummarizationEncryptionKey":"hush-key","fullConversationHeadersOnly":[{"bubbleId":"u1","type":1},{"bubbleId":"a1","type":2},{"bubbleId":"t1","type":2},{"bubbleId":"t2","type":2},{"bubbleId":"e1","type":2},{"bubbleId":"nil","type":2},{"bubbleId":"a2","type":2}]}'
    cursor_row bubbleId:c1:a2 '{"_v":3,"type":2,"bubbleId":"a2","text":"all done","createdAt":"2025-05-25T15:55:20.000Z","tokenCount":{"inputTokens":5,"outputTokens":5}}'
    cursor_row bubbleId:c1:u1 '{"_v":3,"type":1,"bubbleId":"u1","text":"list \u00e9 it"}'
    cursor_row bubbleId:c1:a1 '{"_v":3,"type":2,"bubbleId":"a1","text":"I look","thinking":{"text":"hm","signature":""}}'
    cursor_row bubbleId:c1:t1 '{"_v":3,"type":2,"bubbleId":"t1","text":"","toolFormerData":{"tool":6,"toolCallId":"tool_1","status":"completed","name":"list_dir","rawArgs":"{\"p\": \".\"}","params":"{\"x\":1}","additionalData":{},"result":"{\"files\":[]}"}}'
    cursor_row bubbleId:c1:t2 '{"_v":3,"type":2,"bubbleId":"t2","toolFormerData":{"tool":7,"status":"completed","name":"edit_file_v2","params":"{\"file\":\"a\"}","additionalData":{"status":"error"}}}'
    cursor_row bubbleId:c1:e1 '{"_v":3,"type":2,"bubbleId":"e1","toolFormerData":{"additionalData":{"status":"error"}}}'
    cursor_row bubbleId:c1:gone '{"_v":3,"type":1,"bubbleId":"gone","text":"taken off the list"}'
    cursor_row composerData:c2 '{"_v":1,"composerId":"c2","createdAt":1748100000000,"conversation":[{"bubbleId":"i1","type":1,"text":"inline"},{"bubbleId":"i2","type":2,"text":"old copy"}]}'
    cursor_row bubbleId:c2:i2 '{"type":2,"bubbleId":"i2","text":"new copy"}'
    session <<'END'
== conversations_of_cursor_are_read_from_its_database
view $cursor =10> => ^ 1  2025-05-25T15:55:00Z  c1 .* list é it => reasoning +hm => I look => list_dir\(\{"p": "\."\}\) => observation +\{"files":\[\]\} => edit_file_v2 => ^ 7 .* error => ^ 8  2025-05-25T15:55:20Z .* all done => c2 .* inline => new copy -> 0 *
sync $tmp/cursor.log $tmp/cursor => ^files +2 read, 0 unchanged, 0 of unknown => ^messages +10 new -> 0 *
sync $tmp/cursor.log $tmp/cursor => ^files +0 read, 2 unchanged
sessions --json $tmp/cursor.log => "session":"c1","agent":"cursor".*"title":"A title" => "model":"gpt-5"
history $tmp/cursor.log c1 --format openai >$tmp/request -> 0 *
check --as openai $tmp/request =0>
usage $tmp/cursor.log --json => "answers":0
$ cp $cursor $tmp/copy.vscdb
sync $tmp/cursor.log $tmp/copy.vscdb => ^messages +0 new, 0 taken back -> 0 *

== copies_of_cursor_of_several_ages_are_one_session
$ cp $cursor $tmp/kept.vscdb
$ cursor_row bubbleId:c1:a1 '{"type":2,"text":"I look","toolFormerData":{"name":"n","rawArgs":"{}","toolCallId":"k","status":"running"}}'; cp $cursor $tmp/grown.1.vscdb
$ cursor_row bubbleId:c1:a1 '{"type":2,"text":"I look twice","toolFormerData":{"name":"n","rawArgs":"{}","toolCallId":"k","status":"completed","result":"r"}}'; cp $cursor $tmp/grown.2.vscdb
$ cursor_row bubbleId:c1:a1 '{"type":2,"text":"I look twice, thus","toolFormerData":{"name":"n","rawArgs":"{}","toolCallId":"k","status":"completed","result":"r"}}'; cursor_row bubbleId:c1:a2 '{"type":2,"text":"all done, I think"}'; cp $cursor $tmp/grown.3.vscdb; cp $tmp/kept.vscdb $cursor
$ orders $tmp/grown.1.vscdb $tmp/grown.2.vscdb $tmp/grown.3.vscdb -> 0 *
$ "$tool" view $tmp/orders.log | grep -n "I look twice, thus" => ^2: -> 0

== message_that_a_user_erased_or_hid_stays_so_when_one_before_it_grows
sync $tmp/touched.log $tmp/grown.1.vscdb => ^messages +10 new -> 0 *
$ "$tool" view $tmp/touched.log | sed -n 's/^ *\([0-9]*\) .*all done$/\1/p' >$tmp/number
redact $tmp/touched.log $(cat $tmp/number) --apply => erased +1 -> 0
sync $tmp/touched.log $tmp/grown.3.vscdb => ^messages +7 new, 6 taken back -> 0 *
view $tmp/touched.log => twice, thus => redacted =0> all done -> 0

== no_secret_of_cursor_is_read
$ for c in view export history; do "$tool" $c $cursor 2>&1; done | grep -c 'hush\|taken off\|old copy' => ^0$ -> 1
$ grep -c hush $tmp/cursor.log => ^0$ -> 1

== bubble_of_cursor_that_is_added_is_stored
$ cursor_row bubbleId:c2:i3 '{"type":2,"text":"more"}'; cursor_row composerData:c2 '{"lastUpdatedAt":1748188700000,"fullConversationHeadersOnly":[{"bubbleId":"i1","type":1},{"bubbleId":"i2","type":2},{"bubbleId":"i3","type":2}]}'; cursor_row bubbleId:c2:i1 '{"type":1,"text":"inline"}'
sync $tmp/cursor.log $tmp/cursor => ^files +1 read, 1 unchanged => ^messages +1 new, 0 taken back -> 0 *

== what_a_reader_leaves_out_is_counted_with_its_words
view $cursor => . -> 0 state.vscdb: left out, empty or incomplete: 1 tool that never began, 1 empty bubble, 1 bubble without its row, 1 bubble that no list has$
usage $cursor => . -> 0 left out, empty or incomplete: .*1 empty bubble
search $cursor 'all done' => all done -> 0 left out, empty or incomplete: .*1 empty bubble
info $cursor => . -> 0 left out, empty or incomplete: .*1 empty bubble
history $cursor c1 => all done -> 0 left out, empty or incomplete: .*1 empty bubble
sync $tmp/cursor.3.log $cursor => ^left out   4 empty or incomplete: .*1 empty bubble, .*1 bubble that no list has$ =0> no messages: -> 0 *
sync $tmp/cursor.3.log $cursor =0> left out
sync --json $tmp/cursor.4.log $cursor => "left_out":\{.*"empty bubble":1,.*"bubble that no list has":1\},"no_messages":\{\} -> 0 *
$ printf '%s\n' '{"timestamp":"2026-05-11T11:26:55Z","type":"session_meta","payload":{"id":"e1"}}' '{"timestamp":"2026-05-11T11:26:56Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}}' '{"timestamp":"2026-05-11T11:26:57Z","type":"event_msg","payload":{"type":"task_started"}}' >$tmp/rollout-e1.jsonl
sync $tmp/codex.log $tmp/rollout-e1.jsonl => ^left out   2 that are no messages: 1 session_meta, 1 event_msg$ =0> incomplete -> 0 *
sync --json $tmp/codex.2.log $tmp/rollout-e1.jsonl => "left_out":\{\},"no_messages":\{"session_meta":1,"event_msg":1\}
view $tmp/rollout-e1.jsonl => ^.*hi$

== what_cursor_has_beside_a_text_is_kept
$ cp $cursor $tmp/kept.vscdb; cursor_row composerData:c6 '{"lastUpdatedAt":1748188700000,"fullConversationHeadersOnly":[{"bubbleId":"p1"},{"bubbleId":"p2"},{"bubbleId":"p3"},{"bubbleId":"p4"},{"bubbleId":"p5"},{"bubbleId":"p6"},{"bubbleId":"p7"},{"bubbleId":"p8"}]}'; cursor_row bubbleId:c6:p1 '{"type":1,"text":"see this","images":[{"uuid":"IMG"}],"attachedCodeChunks":[{"lines":"CHUNK"}]}'; cursor_row bubbleId:c6:p2 '{"type":2,"text":"said","errorDetails":{"m":"ERRTEXT"},"codeBlocks":[{"content":"BLOCK"}]}'; cursor_row bubbleId:c6:p3 '{"type":2,"toolFormerData":{"name":"f","rawArgs":{"k":"ARGS"},"params":"{}","result":"part","error":"ERRTOOL"}}'; cursor_row bubbleId:c6:p4 '{"type":2,"toolFormerData":{"name":"g","result":[{"a":"LIST"}]},"codeBlocks":[{"content":"TOOLBLOCK"}]}'; cursor_row bubbleId:c6:p5 '{"type":2,"toolFormerData":{"name":"h","result":4711},"thinking":["THOUGHT"]}'; cursor_row bubbleId:c6:p6 '{"type":2,"thinking":{"text":"hm"},"errorDetails":{"m":"ERRALONE"}}'; cursor_row bubbleId:c6:p7 '{"type":2,"text":7}'; cursor_row bubbleId:c6:p8 '{"type":2,"toolFormerData":{"rawArgs":{"k":"NAMELESS"}}}'; cp $cursor $tmp/beside.vscdb; cp $tmp/kept.vscdb $cursor
view --json $tmp/beside.vscdb => "user_message".*see this => :images".*IMG => CHUNK => "said".*"extra".*ERRTEXT.*BLOCK => "args":\{"k":"ARGS"\} => "part".*"extra":\{"error":"ERRTOOL" => observation".*LIST => TOOLBLOCK => observation".*4711 => :thinking".*THOUGHT => ERRALONE => :text".*7 => NAMELESS -> 0 1 cursor:images, 1 cursor:attachedCodeChunks, 1 cursor:thinking, 1 cursor:text, 1 cursor:tool without a name|unknown

== what_cursor_has_that_is_unknown_or_damaged_is_counted
$ cursor_row composerData:c3 '{"fullConversationHeadersOnly":[{"bubbleId":"o1"},{"bubbleId":"o2"},7,{"bubbleId":"o3"},{"bubbleId":"o4"},{"bubbleId":"o5"}]}'; cursor_row bubbleId:c3:o1 '{"type":9,"text":"nine"}'; cursor_row bubbleId:c3:o2 '{"type":1,"te'; cursor_row bubbleId:c3:o3 '{"type":2,"toolFormerData":{"rawArgs":"{}"}}'; cursor_row bubbleId:c3:o4 '{"type":2,"codeBlocks":[{"content":"x"}]}'; cursor_row bubbleId:c3:o5 '[1]'; cursor_row composerData:c4 '{"full'; cursor_row bubbleId:c5:x '{"type":1,"text":"of none"}'
view $cursor =17> => ."type.":1,."te -> 0 1 cursor:row
view $cursor =0> of none -> 0 cursor:composer
view $cursor => . -> 0 1 cursor:tool without a name, 1 cursor:code blocks
$ python3 -c 'import sqlite3,sys; d=sqlite3.connect(sys.argv[1]); d.execute("update cursorDiskKV set value = ? where key = ?", (b"{\\xff\\x00}", "bubbleId:c3:o2")); d.commit()' $cursor
view $cursor =17> . -> 0 1 cursor:row
sync $tmp/cursor.2.log $cursor => ^messages +17 new -> 0 2 cursor:bubble
END
else
    echo "skip cursor: no sqlite3 of python3"
fi

# Databases whose rows are odd. database FILE SQL: makes one.
if python3 -c 'import sqlite3' 2>/dev/null; then
    mkdir -p "$tmp/rows"
    database()
    {
        python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])' "$tmp/rows/$1" "$2"
    }
    # said TEXT: the parts of a message of Crush. bubble ID VALUE: a row of Cursor.
    said() { printf "'[{\"type\":\"text\",\"data\":{\"text\":\"%s\"}}]'" "$1"; }
    bubble() { printf "insert into cursorDiskKV values ('%s', '%s');" "$1" "$2"; }
    crush_tables='create table goose_db_version (id);
        create table sessions (id, title, parent_session_id, summary_message_id, updated_at);
        create table messages (id, session_id, role, parts, created_at, updated_at);
        insert into sessions values ("s1", "one", null, null, 1750000000), ("s2", "two", null, null, null);'
    cursor_tables='create table ItemTable (key text unique, value blob);
        create table cursorDiskKV (key text unique, value blob);'
    database null.db "$crush_tables insert into messages values
        ('m1', 's1', 'user', $(said 'hello one'), 1750000000, 1750000000), ('m2', 's2', 'user', $(said 'hello two'), 1750000000, null),
        ('m3', null, 'user', $(said 'of nobody'), 1750000000, 1), ('m4', '', null, $(said 'no role'), 1750000000, 1)"
    database time.db "$crush_tables insert into messages values
        ('m1', 's1', 'user', $(said 'with a fraction'), 1750000000.25, 1), ('m2', 's1', 'user', $(said 'words'), '2025-06-15', 1),
        ('m3', 's1', 'user', $(said 'absent'), null, 1), ('m4', 's1', 'user', $(said 'below'), -5, 1), ('m5', 's1', 'user', $(said 'far'), 99999999999999, 1)"
    database endless.db "$crush_tables insert into messages values
        ('m1', 's1', 'user', $(said 'below all'), -9e999, 1), ('m2', 's1', 'user', $(said 'above all'), 9e999, 1), ('m3', 's1', 'user', $(said 'less than none'), -0.5, 1)"
    database bytes.db "$crush_tables insert into messages values ('m1', 's1', 'user', cast(x'5b7b2274797065223a2274657874222c2264617461223a7b2274657874223a22ff626164227d7d5d' as text), 1, 1)"
    database bare.db "$crush_tables alter table messages drop column parts; insert into messages values ('m1', 's1', 'user', 1, 1)"
    database other.db "$crush_tables insert into messages values ('m1', 's1', 'user', null, 1, 1), ('m2', 's2', 'user', $(said 'known'), 1, 1)"
    database open.db "create table session (id, time_updated); create table message (id, session_id, time_created, time_updated, data); create table part (id, message_id, session_id, time_updated, data);
        insert into message values ('1', 'm', 1, 1, '{\"role\":\"user\"}'); insert into part values ('2', '1', 'p', 1, '{\"type\":\"text\",\"text\":\"alone\"}')"
    database agents.db "create table agent_sessions (session_id); create table agent_messages (id integer primary key autoincrement, session_id, message_data, created_at);
        insert into agent_messages (session_id, created_at) values ('a', '2025-06-15')"
    database odd.db "$crush_tables insert into messages values ('m1', 's1', 'assistant', '[{\"type\":\"tool_call\",\"data\":{\"id\":\"c\",\"name\":9,\"input\":\"NAMELESS\"}},{\"type\":\"tool_result\",\"data\":{\"tool_call_id\":\"c\",\"content\":\"r\",\"metadata\":[\"LISTED\"]}}]', 1, 1)"
    database time.vscdb "$cursor_tables $(bubble composerData:A '{"createdAt":1750000000000,"fullConversationHeadersOnly":[{"bubbleId":"4"},{"bubbleId":"1"},{"bubbleId":"2"},{"bubbleId":"3"}]}')
        $(bubble bubbleId:A:1 '{"type":1,"text":"below","createdAt":-5}') $(bubble bubbleId:A:2 '{"type":2,"text":"far","createdAt":1e30}')
        $(bubble bubbleId:A:3 '{"type":2,"text":"object","createdAt":{"a":1}}') $(bubble bubbleId:A:4 '{"type":2,"text":"none","createdAt":0}')"
    database orphan.vscdb "$cursor_tables $(bubble bubbleId:Z:1 '{"type":1,"text":"of none"}') $(bubble composerData:A '{"conversation":[{"type":1,"text":"hi"}]}')
        insert into cursorDiskKV values ('composerData:N', null); $(bubble bubbleId:N:1 '{"type":1,"text":"of nothing"}')"
    database alone.vscdb "$cursor_tables $(bubble bubbleId:Z:1 '{"type":1,"text":"of none"}')"
    database odd.vscdb "$cursor_tables $(bubble composerData:A '{"fullConversationHeadersOnly":[{"bubbleId":"1"},{"bubbleId":"2"},{"bubbleId":"3"},{"bubbleId":"4"}]}')
        $(bubble bubbleId:A:1 '{"type":1,"text":"u","toolFormerData":{"name":"x","result":"USERTOOL"},"thinking":"USERTHINKS","errorDetails":{}}') $(bubble bubbleId:A:2 '{"type":2,"text":"a","images":["PICTURE"]}')
        $(bubble bubbleId:A:3 '{"type":2,"toolFormerData":{"name":5,"result":"NONAME"}}') $(bubble bubbleId:A:4 '{"type":2,"toolFormerData":{"name":"n","rawArgs":"{}","params":"{\"p\":\"PARAMS\"}"}}')"
    session <<'END'
== odd_row_of_a_database_hides_no_other_one
view $tmp/rows/null.db =4> => s1 .* hello one => s2 .* hello two => null.db .* crush:role => null.db .* of nobody -> 0 unknown, kept whole: 1 crush:role$
sync $tmp/rows/null.log $tmp/rows/null.db => ^messages +3 new => ^not read   .*null.db: 1 row of no session$ -> 0 1 crush:role$
sync --quiet $tmp/rows/null.log $tmp/rows/null.db -> 0
sync $tmp/rows/null.log $tmp/rows/null.db => ^files +0 read, 3 unchanged, 1 of unknown => ^not read   1 as before -> 0
view $tmp/rows/null.log =2> hello
view $tmp/rows/odd.db --json => NAMELESS => LISTED -> 0 1 crush:tool_call
view $tmp/rows/odd.vscdb --json => USERTOOL => USERTHINKS => PICTURE => NONAME => PARAMS =1> "args" -> 0 1 cursor:thinking, 1 cursor:toolFormerData, 1 cursor:images, 1 cursor:tool without a name$

== time_of_a_database_that_cannot_be_read_is_counted
view $tmp/rows/time.db =5> => 2025-06-15T15:06:40.25Z .* with a fraction|2025-06-15T15:06:40Z .* with a fraction -> 0 empty or incomplete: 3 time that cannot be read$
view $tmp/rows/endless.db =3> => below all => above all -> 0 empty or incomplete: 3 time that cannot be read$
sync $tmp/rows/endless.log $tmp/rows/endless.db => ^messages +3 new -> 0 *
view $tmp/rows/time.vscdb =4> => 2025-06-15T15:06:40Z .* none -> 0 empty or incomplete: 3 time that cannot be read$

== bytes_of_a_database_that_are_no_UTF_8_are_counted
view $tmp/rows/bytes.db => bad -> 0 bytes.db: bad UTF-8 was replaced by U.FFFD in 1 value$
sync $tmp/rows/bytes.log $tmp/rows/bytes.db => ^messages +1 new -> 0 bytes.db: bad UTF-8 was replaced by U.FFFD in 1 value$

== bubbles_of_no_composer_are_counted_by_sync
sync $tmp/rows/orphan.log $tmp/rows/orphan.vscdb => ^messages +1 new => ^left out   2 empty or incomplete: 2 bubble of no composer$ -> 0 *
sync $tmp/rows/orphan.log $tmp/rows/orphan.vscdb => ^files +0 read, 3 unchanged -> 0
view $tmp/rows/alone.vscdb -> 0 left out, empty or incomplete: 1 bubble of no composer$

== database_without_rows_is_an_empty_file
$ database none.db "$crush_tables"
sync $tmp/rows/none.log $tmp/rows/none.db => ^left out   1 empty file$ -> 0

== row_of_a_database_that_grows_by_a_round_number_is_read_again
$ cp $tmp/rows/null.db $tmp/rows/grown.db; cp $tmp/rows/odd.vscdb $tmp/rows/grown.vscdb
sync --quiet $tmp/rows/grown.log $tmp/rows/grown.db $tmp/rows/grown.vscdb -> 0 *
$ database grown.db "update messages set parts = replace(parts, 'hello one', 'hello one' || printf('%1000s', 'END')) where id = 'm1'"; database grown.vscdb "update cursorDiskKV set value = replace(value, 'NONAME', 'NONAME' || printf('%1000s', 'END')) where key = 'bubbleId:A:3'"
sync $tmp/rows/grown.log $tmp/rows/grown.db $tmp/rows/grown.vscdb => ^files +2 read, 2 unchanged -> 0 *
$ database grown.db "update messages set updated_at = -1761246860000000 where id = 'm1'; update sessions set updated_at = 1761246860000000"
sync --quiet $tmp/rows/grown.log $tmp/rows/grown.db -> 0 *
$ database grown.db "update messages set parts = replace(parts, 'hello one', 'hello again one') where id = 'm1'"
sync $tmp/rows/grown.log $tmp/rows/grown.db => ^files +1 read, 2 unchanged -> 0 *

== row_of_a_database_whose_time_is_no_whole_number_is_read_again
$ database real.db "$crush_tables insert into messages values ('m1', 's1', 'user', $(said 'hello'), 1, 1700000000123.0), ('m2', 's2', 'user', $(said 'hello'), 1, 1700000000.25)"
sync --quiet $tmp/rows/real.log $tmp/rows/real.db -> 0 *
$ database real.db "update messages set parts = replace(parts, 'hello', 'hello a') where id = 'm1'"
sync $tmp/rows/real.log $tmp/rows/real.db => ^files +1 read, 1 unchanged -> 0 *
$ database real.db "update messages set parts = replace(parts, 'hello', 'olleh'), updated_at = 1700000000.75 where id = 'm2'"
sync $tmp/rows/real.log $tmp/rows/real.db => ^files +1 read, 1 unchanged -> 0 *
sync $tmp/rows/real.log $tmp/rows/real.db => ^files +0 read, 2 unchanged -> 0 *
sync $tmp/rows/power.log $tmp/rows/open.db => ^files +1 read, 0 unchanged -> 0 *
$ database open.db "update message set time_updated = 1700000000123000.0"
sync $tmp/rows/power.log $tmp/rows/open.db => ^files +1 read, 0 unchanged -> 0 *
$ database open.db "update message set time_updated = 1700000000456000.0"
sync $tmp/rows/power.log $tmp/rows/open.db => ^files +1 read, 0 unchanged -> 0 *

== database_with_other_rows_is_refused
view $tmp/rows/bare.db -> 1 bare.db: its tables are named as a known program's, but no reader knows their rows$
sync $tmp/rows/bare.log $tmp/rows/bare.db => ^messages +0 new -> 1 bare.db: its tables are named

== session_of_a_database_with_other_rows_is_named_once_and_counted
sync --quiet $tmp/rows/other.log $tmp/rows/other.db -> 0 ^msgstore: not read: .*other.db#s1: no reader knows its rows$
sync $tmp/rows/other.log $tmp/rows/other.db => ^files +0 read, 1 unchanged, 1 of unknown => ^not read   1 as before -> 0
sync --full $tmp/rows/other.log $tmp/rows/other.db => ^not read   as before: .*/other.db#s1$ -> 0
view $tmp/rows/other.log =1> -> 0
$ database other.db "update messages set parts = 8 where id = 'm1'; update sessions set updated_at = 1750000001 where id = 's1'"
sync $tmp/rows/other.log $tmp/rows/other.db => ^files +0 read, 1 unchanged, 1 of unknown => ^not read   1 as before -> 0
sync --strict $tmp/rows/other.log $tmp/rows/other.db => ^files +0 read -> 1 not read: .*other.db#s1: no reader
sync $tmp/rows/open.log $tmp/rows/open.db => ^files +1 read, 0 unchanged, 1 of unknown => ^not read   .*#p: no reader knows its rows$ -> 0
sync $tmp/rows/open.log $tmp/rows/open.db => ^files +0 read, 1 unchanged, 1 of unknown => ^not read   1 as before -> 0
sync $tmp/rows/agents.log $tmp/rows/agents.db => ^not read   .*#a: no reader knows its rows$ -> 0
sync $tmp/rows/agents.log $tmp/rows/agents.db => ^not read   1 as before -> 0
view $tmp/rows/agents.db -> 1 agents.db: its tables are named as a known program's, but no reader knows their rows$
END
else
    echo "skip rows: no sqlite3 of python3"
fi

# tree_of_opencode [COMMAND...]: a tree of files anew, changed by a command in its folder.
tree_of_opencode()
{
    rm -rf "$tmp/lacking" "$tmp/lacking.log" && cp -r "$shared/opencode-storage" "$tmp/lacking" &&
        chmod -R u+w "$tmp/lacking" && rm -r "$tmp/lacking"/{SOURCE.md,migration} &&
        (cd "$tmp/lacking" && "$@")
}
if [ -d "$real" ]; then
    session <<'END'
== what_a_tree_of_opencode_lacks_is_told
$ tree_of_opencode true
view $tmp/lacking =12> . -> 0
$ tree_of_opencode rm session/proj_test/ses_s_stage0_large.json
sync $tmp/lacking.log $tmp/lacking => ^messages +4 new => ^not read   .*/lacking/message: 4 files of messages without their session, the first is .*/message/s_stage0_large/msg_0001.json$ -> 0
view $tmp/lacking =4> . -> 0 lacking/message: left out 4 files of messages without their session, the first is .*/message/s_stage0_large/msg_0001.json$
$ tree_of_opencode rm message/s_stage0_large/msg_0002.json
sync $tmp/lacking.log $tmp/lacking => ^messages +7 new => ^not read   .*/lacking/part: 8 files of parts without their message, the first is .*/part/m_assistant_large_1/001.json$ -> 0
sync --quiet $tmp/lacking.log $tmp/lacking -> 0
sync $tmp/lacking.log $tmp/lacking => ^files +0 read, 2 unchanged, 1 of unknown => ^not read   1 as before; -> 0
sync --full $tmp/lacking.log $tmp/lacking => ^not read   as before: .*/lacking/part$ -> 0
sync --strict $tmp/lacking.log $tmp/lacking => ^files -> 1 not read: .*/lacking/part: 8 files
view $tmp/lacking =7> . -> 0 lacking/part: left out 8 files
$ if command -v strace >/dev/null; then ! strace -f -e trace=open,openat "$tool" sync --quiet $tmp/lacking.log $tmp/lacking 2>&1 | grep '/lacking/.*json"'; fi
$ tree_of_opencode sed -i 's/"id"/"name"/' message/s_stage0_large/msg_0002.json
sync $tmp/lacking.log $tmp/lacking => ^messages +7 new -> 3 ses_s_stage0_large.json: a message without an id; left out
$ tree_of_opencode sed -i 's/"id"/"name"/' session/proj_test/ses_s_stage0_large.json
sync $tmp/lacking.log $tmp/lacking => ^messages +4 new -> 1 ses_s_stage0_large.json: a session without an id; left out
END
fi

# A session as Kimi Code 2.1 wrote it, without its system prompt and tools; a subagent.
kimi=$tmp/kimi/wd/session_k
mkdir -p "$kimi/agents/main" "$kimi/agents/agent-1" "$tmp/kimi.2/session_k/agents/main"
cp $streams/kimi.jsonl "$kimi/agents/main/wire.jsonl"
cp $streams/kimi.jsonl "$tmp/kimi.2/session_k/agents/main/wire.jsonl"
sed 's/"agentId":"main"/"agentId":"agent-1"/; s/list the C files/look aside/; s/"uuid":"/"uuid":"x-/; s/"id":"msg/"id":"x-msg/; s/"time":17959/"time":17958/' $streams/kimi.jsonl >"$kimi/agents/agent-1/wire.jsonl"
{
    cat $streams/kimi.jsonl
    echo '{"type":"usage.record","agentId":"main","model":"m","usage":{"inputOther":1000,"output":5,"inputCacheRead":0,"inputCacheCreation":7},"time":1}'
    echo '{"type":"context.undo","agentId":"main","count":1,"time":1}'
    echo '{"type":"context.apply_compaction","agentId":"main","summary":"so far","compactedCount":3}'
    echo '{"type":"context.append_loop_event","event":{"type":"novelty"}}'
    echo '{"type":"context.append_loop_event","event":{"type":"content.part","uuid":"p","part":7}}'
    echo '{"type":"context.append_loop_event","event":{"type":"content.part","uuid":"i","part":{"type":"image_url","imageUrl":{"url":"data:x"}}}}'
    echo '{"type":"context.append_message","message":{"role":"odd"}}'
    echo '{"type":"context.append_message","message":{"role":"us'
} >"$tmp/kimi.odd.jsonl"
session <<'END'
== session_of_kimi_code_is_read
view $kimi/agents/main/wire.jsonl =11> => ^ 1 .* list the C files here => ^ 4 .* reasoning +I look first => ^ 6 .* Glob => ^ 7 .* error +ripgrep => ^ 9 .* and again -> 0 *
usage $kimi/agents/main/wire.jsonl => ^ +3 +2106 +0 +900 +66 +- +-? *test-model -> 0 *
history $kimi/agents/main/wire.jsonl --format openai >$tmp/request -> 0 *
check --as openai $tmp/request =0>
sync $tmp/kimi.log $tmp/kimi => ^files +2 read, 0 unchanged, 0 of unknown => ^sessions +[12] new => ^messages +22 new -> 0 *
sessions $tmp/kimi.log --json => "session":"session_k","agent":"kimi-code".*"title":"list the C files here" =1> .
history $tmp/kimi.log session_k --format openai => list the C files =0> look aside -> 0 *
sync $tmp/kimi.log $tmp/kimi.2 => ^messages +0 new, 0 taken back -> 0 *
usage $tmp/kimi.log => ^ +6 +4212 +0 +1800 +132 -> 0 *

== undone_prompt_of_kimi_code_is_hidden_and_what_is_unknown_counted
view $tmp/kimi.odd.jsonl => list the C files => image_url =0> and again -> 3 1 kimi-code:context.apply_compaction, 1 kimi-code:novelty, 1 kimi-code:part, 1 kimi-code:message|left out
usage $tmp/kimi.odd.jsonl => ^ +4 +3106 +7 +900 +71 -> 3 left out|unknown

== what_kimi_code_has_in_other_shapes_is_kept
$ printf '%s\n' '{"type":"context.append_message","message":{"role":"user","content":"go","id":"m0"}}' '{"type":"context.append_message","message":{"role":"assistant","content":"x","id":"m1","toolCalls":{"a":"OBJCALLS"}}}' '{"type":"context.append_message","message":{"role":"assistant","content":"y","id":"m2","toolCalls":["STRCALL",{"id":"d","function":{"name":"FNAME","arguments":"{\"k\":1}"}},{"id":"e","name":"NAME","arguments":"{}"}]}}' '{"type":"context.append_loop_event","event":{"type":"tool.result","toolCallId":"d","result":"STRRESULT"}}' '{"type":"context.append_loop_event","event":{"type":"tool.result","toolCallId":"e","result":{"output":"OUT","message":"MSGOUT"}}}' '{"type":"context.append_loop_event","event":{"type":"content.part","uuid":"t","part":{"type":"think","think":"hm","encrypted":"ENC"}}}' >$kimi.shapes
view --json $kimi.shapes =10> => OBJCALLS => STRCALL => "tool":"FNAME","args":\{"k":1\}.*"d" => "tool":"NAME" => observation.*"STRRESULT".*"d" => "OUT".*"extra":\{"message":"MSGOUT" => "hm".*ENC -> 0 1 kimi-code:toolCalls, 1 kimi-code:call

== what_kimi_code_cannot_mean_is_kept_and_counted
$ printf '%s\n' '{"type":"context.append_message","message":{"role":"user","content":"go"},"time":"2025-06-15"}' '{"type":"context.append_message","message":{"role":"user","content":"on"},"time":-1}' '{"type":"context.append_loop_event","event":{"type":"tool.result","toolCallId":"e","result":{"content":"ELSEWHERE"}}}' '{"type":"context.append_loop_event","event":{"type":"tool.result","toolCallId":"f","result":{"output":"o","isError":false}}}' '{"type":"context.undo","count":"1"}' '{"type":"context.undo"}' >$kimi.odder
view --json $kimi.odder =6> => "go" => "on" => "extra":.*ELSEWHERE =1> "extra" -> 0 2 time that cannot be read|2 kimi-code:context.undo

== token_count_that_cannot_be_read_is_counted
$ printf '%s\n' '{"type":"context.append_message","message":{"role":"assistant","content":"a"}}' '{"type":"context.append_loop_event","event":{"type":"step.end","uuid":"e","usage":{"inputOther":1500.0,"output":"12","inputCacheRead":-3,"inputCacheCreation":null}}}' '{"type":"context.append_loop_event","event":{"type":"step.end","uuid":"f","usage":{"inputOther":18446744073709551615,"output":7,"inputCacheRead":10}}}' >$kimi.counts
usage $kimi.counts => ^ +2 +1500 +0 +10 +7 -> 0 incomplete: 3 token count that cannot be read$

== line_that_kimi_code_has_twice_is_read_once
$ awk '{ print; print }' $streams/kimi.jsonl >$kimi.twice
view $kimi.twice =11> . -> 0 *
usage $kimi.twice => ^ +3 +2106 +0 +900 +66 -> 0 *
END

# cuts FILE NAME: however many of its lines a first sync reads, a second sync of the whole
# file leaves what one of the whole leaves: messages, and usage.
cuts()
{
    local n lines file=$tmp/cuts/$2
    mkdir -p "$(dirname "$file")"
    lines=$(wc -l <"$1")
    for ((n = lines; n > 0; n--)); do
        rm -f "$tmp/cuts.log"
        if ((n < lines)); then
            head -n "$n" "$1" >"$file"
            "$tool" sync --quiet "$tmp/cuts.log" "$tmp/cuts" >/dev/null 2>&1
        fi
        cp "$1" "$file"
        "$tool" sync --quiet "$tmp/cuts.log" "$tmp/cuts" >/dev/null 2>&1
        "$tool" usage --json "$tmp/cuts.log" >"$tmp/cuts.now" 2>/dev/null
        "$tool" view "$tmp/cuts.log" | sed 's/^ *[0-9]*//' >>"$tmp/cuts.now"
        if ((n == lines)); then mv "$tmp/cuts.now" "$tmp/cuts.whole"
        elif ! cmp -s "$tmp/cuts.now" "$tmp/cuts.whole"; then
            echo "differs after $n lines"
        fi
    done
    rm -rf "$tmp/cuts"
    [ -s "$tmp/cuts.whole" ]
}

# A request of the program's own while a step is open: its usage is no step's.
awk '/"usage.record"/ && !n++ { a = $0; sub(/"output":21/, "\"output\":5", a); print a }
    { print }' $streams/kimi.jsonl >"$tmp/kimi.lone.jsonl"
session <<'END'
== file_that_grew_leaves_what_the_whole_one_leaves
$ cuts $tmp/kimi.lone.jsonl wd/session_k/agents/main/wire.jsonl -> 0
$ cuts $streams/qwen.jsonl session_q.jsonl -> 0
$ cuts $streams/codex-exec.jsonl exec.jsonl -> 0
$ cuts $streams/claude-partial.jsonl claude.jsonl -> 0
END

# ChatGPT's export: a tree whose nodes stand in any order; a file of other types.
gpt=$tmp/gpt
mkdir -p "$gpt"
# gpt_node ID PARENT CHILDREN ROLE CONTENT MORE
gpt_node()
{
    printf '"%s":{"id":"%s","parent":%s,"children":[%s],"message":{"id":"%s","author":{"role":"%s","name":%s},"create_time":1765782982.5,"content":%s,"recipient":%s,"metadata":{"model_slug":"gpt-5-2"}}}' \
        "$1" "$1" "$2" "$3" "$1" "$4" "${7:-null}" "$5" "$6"
}
{
    printf '[{"title":"One","conversation_id":"g-1","current_node":"a2","mapping":{'
    gpt_node a2 '"t"' '' assistant '{"content_type":"text","parts":["the end"]}' '"all"'
    printf ,
    gpt_node t '"c"' '"a2"' tool '{"content_type":"text","parts":["it is done"]}' '"all"' '"canmore.create"'
    printf ,
    gpt_node u '"r"' '"th","b"' user '{"content_type":"text","parts":["write it"]}' '"all"'
    printf ,
    gpt_node b '"u"' '' assistant '{"content_type":"text","parts":["regenerated away"]}' '"all"'
    printf ,
    gpt_node th '"u"' '"c"' assistant '{"content_type":"thoughts","thoughts":[{"summary":"S","content":"why"}]}' '"all"'
    printf ,
    gpt_node c '"th"' '"t"' assistant '{"content_type":"text","parts":["{\"name\":\"x\"}"]}' '"canmore.create"'
    printf ',"r":{"id":"r","parent":null,"children":["u"],"message":null}}},{"title":"Two","id":"g-2","current_node":"v","mapping":{'
    gpt_node v null '' user '{"content_type":"multimodal_text","parts":[{"content_type":"image_asset_pointer","asset_pointer":"f"},"see"]}' '"all"'
    printf '}}]'
} >"$gpt/conversations.json"
{
    printf '[{"id":"g-3","current_node":"x","mapping":{'
    gpt_node x '"y"' '"y"' user '{"content_type":"text","parts":["in a ring"]}' '"all"'
    printf ,
    gpt_node y '"x"' '"x"' assistant '{"content_type":"novelty","text":"n"}' '"all"'
    printf ,
    gpt_node z null '7' assistant '{"content_type":"text","parts":7}' '"all"'
    printf '}},7,{"mapping":7}]'
} >"$gpt.odd.json"
head -c 900 "$gpt/conversations.json" >"$gpt.torn.json"
{
    printf '[{},7,'
    printf '{"conversation_id":"g-4","current_node":"f","mapping":{'
    gpt_node p null '"q"' user '{"content_type":"text","parts":["call it"]}' '"all"'
    printf ,
    gpt_node q '"p"' '"e"' assistant '{"content_type":"text","parts":["{\"a\":1}","SECONDPART"]}' '"py"'
    printf ,
    gpt_node e '"q"' '"f"' tool '{"content_type":"execution_output","text":""}' '"all"' '"py"'
    printf ,
    gpt_node f '"e"' '' tool '{"content_type":"execution_output","text":""}' '"all"' '"py"'
    printf '}}]'
} >"$gpt.more.json"
sed 's/^\[{},7,\(.*\)\]$/[\1,\1]/' "$gpt.more.json" >"$gpt.twice.json"
session <<'END'
== export_of_chatgpt_is_read_along_its_current_node
view $gpt/conversations.json =0> away
view $gpt/conversations.json =6> => ^1  2025-12-15T07:16:22Z  g-1 .* write it => reasoning +S why => canmore.create\(\{"name":"x"\}\) => observation +it is done => the end => g-2 .*image_asset_pointer -> 0 *
history $gpt/conversations.json g-1 --format openai >$tmp/request -> 0 *
check --as openai $tmp/request =0>
$ cat $tmp/request => "tool_call_id":"c" =0> away
sync $tmp/gpt.log $gpt => ^messages +7 new, 1 taken back -> 0 *
sessions --json $tmp/gpt.log => "session":"g-1","agent":"chatgpt".*"title":"One" => "session":"g-2" => "model":"gpt-5-2"
$ cp $gpt/conversations.json $tmp/again.json
sync $tmp/gpt.log $tmp/again.json => ^messages +0 new, 0 taken back -> 0 *

== what_an_export_of_chatgpt_has_that_is_unknown_is_counted
view --raw $gpt.odd.json => in a ring -> 0 1 chatgpt:text, 1 chatgpt:novelty, 2 chatgpt:conversation
view --raw $gpt.torn.json => it is done|the end -> 3 left out|skipped

== list_whose_first_elements_are_none_is_an_export_of_chatgpt
view --json $gpt.more.json =5> => call it => "tool":"py","args":\{"a":1\}.*SECONDPART => "observation".*"call_id":"q" -> 0 2 chatgpt:conversation

== what_chatgpt_has_in_other_types_is_kept_and_counted
$ echo '{"conversation_id":"g","current_node":"n","mapping":{"n":{"id":"n","parent":null,"children":[],"message":{"id":"n","create_time":"1767261600","author":{"role":"assistant"},"content":{"content_type":"thoughts","thoughts":["STRAY"]}}}}}' >$gpt.types.json
view --json $gpt.types.json => STRAY =0> "time" -> 0 1 time that cannot be read|1 chatgpt:thoughts
$ echo '{"conversation_id":"g","current_node":"n","mapping":{"n":{"id":"n","parent":null,"children":[],"message":{"id":"n","author":{"role":"assistant"},"content":{"content_type":"thoughts","thoughts":[{"summary":null,"content":"WHY"},{"summary":"THUS","content":null}]}}}}}' >$gpt.null.json
view --json $gpt.null.json => "type":"reasoning",.*"content":"WHY.n.nTHUS" -> 0

== conversation_that_an_export_of_chatgpt_has_twice_is_read_once
view $gpt.twice.json =3> => ^1 .* call it => ^2 .* py => ^3 .* observation -> 0 *
END

# A session as Qwen Code 0.24.4 wrote it, with its long prompts cut, and a rewind.
qwen=$tmp/qwen
mkdir -p "$qwen/one" "$qwen/two"
cp $streams/qwen.jsonl "$qwen/one/s.jsonl"
cp $streams/qwen.jsonl "$qwen/two/s copy.jsonl"
# qwen_entry ID PARENT TYPE MORE
qwen_entry()
{
    printf '{"uuid":"%s","parentUuid":"%s","sessionId":"q2","timestamp":"2026-11-29T08:00:00.000Z","type":"%s",%s}\n' "$@"
}
{
    qwen_entry a '' system '"subtype":"parent_session","systemPayload":{"parentSessionId":"x"}'
    qwen_entry b a user '"message":{"role":"user","parts":[{"text":"first"},{"inlineData":{"mimeType":"image/png","data":"eA=="}}]}'
    qwen_entry c b assistant '"message":{"role":"model","parts":[{"text":"answer"}]},"model":"g","usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":2,"totalTokenCount":17}'
    qwen_entry d c user '"message":{"role":"user","parts":[{"text":"away"}]}'
    qwen_entry e c system '"subtype":"rewind","systemPayload":{"truncatedCount":1}'
    qwen_entry f e user '"subtype":"mid_turn_user_message","message":{"role":"user","parts":[{"text":"stays"}]},"systemPayload":{"displayText":"stays"}'
    qwen_entry f e user '"subtype":"mid_turn_user_message","message":{"role":"user","parts":[{"text":"stays"}]},"systemPayload":{"displayText":"stays"}'
    qwen_entry g f assistant '"agentId":"x-1","isSidechain":true,"message":{"role":"model","parts":[{"text":"aside"}]},"usageMetadata":{"promptTokenCount":99,"candidatesTokenCount":9}'
    qwen_entry h f system '"subtype":"novelty","systemPayload":{}'
    qwen_entry i h user '"message":{"role":"user","parts":[7,{"text":"end"}]}'
    printf '{"uuid":"j","parentUuid":"i","sessionId":"q2","type":"user","message":{"role":"us'
} >"$qwen/odd.jsonl"
session <<'END'
== session_of_qwen_code_is_read
view $qwen/one/s.jsonl =17> => ^ 1 .* list the C files => ^ 2 .* reasoning +I look first => ^ 4 .* glob => ^ 5 .* observation +Found 2 => ^11 .* compaction +Two files => ^12 .* go on -> 0 *
usage $qwen/one/s.jsonl => ^ +10 +165552 +0 +1000 +255 +- +-? *test-model -> 0 *
history $qwen/one/s.jsonl --format openai >$tmp/request -> 0 *
check --as openai $tmp/request =0>
$ cat $tmp/request => Resume the prior task.*go on =0> list the C files
sessions $qwen/one/s.jsonl --json => "agent":"qwen-code".*"model":"test-model" => "cwd":"/w/q"
sync $qwen.log $qwen/one => ^messages +17 new -> 0 *
sync $qwen.log $qwen/two => ^messages +0 new, 0 taken back -> 0 *
usage $qwen.log => ^ +10 +165552 -> 0 *

== rewound_prompt_of_qwen_code_is_hidden
view $qwen/odd.jsonl => first => "inlineData" => answer => aside => stays => end =0> away -> 3 1 qwen-code:novelty, 1 qwen-code:part|1 qwen-code:part, 1 qwen-code:novelty|left out
usage $qwen/odd.jsonl => ^ +1 +10 +0 +0 +7 -> 3 left out
history $qwen/odd.jsonl --format openai => stays.*end =0> aside|away -> 3 left out|unknown

== part_of_qwen_code_with_more_than_a_text_loses_nothing
$ printf '%s\n' '{"uuid":"a","parentUuid":null,"sessionId":"q9","type":"user","message":{"role":"user","parts":[{"text":"hi","inlineData":{"data":"BOTH"}}]}}' '{"uuid":"b","parentUuid":"a","sessionId":"q9","type":"assistant","message":{"role":"model","parts":[{"text":"txt","thoughtSignature":"s","functionCall":{"id":"c1","name":"n","args":{"a":"CALLED"}}},{"text":"plain","thoughtSignature":"s"}]}}' '{"uuid":"c","parentUuid":"b","sessionId":"q9","type":"tool_result","message":{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"n","response":{"output":"okout","error":null,"other":"MORE"}}},{"functionResponse":{"id":"c1","name":"n","response":{"output":"only"}}}]}}' >$qwen/more.jsonl
view --json $qwen/more.jsonl =6> => "hi".*BOTH => "assistant_message".*"txt" => "args":\{"a":"CALLED"\} => :"plain" => observation".*"okout".*"extra":\{"response".*MORE => :"only" =1> "extra" -> 0 *

== what_qwen_code_has_beside_a_call_or_result_is_kept
$ printf '%s\n' '{"uuid":"a","parentUuid":null,"sessionId":"q8","type":"user","message":{"role":"user","parts":[{"text":"hi"}]}}' '{"uuid":"b","parentUuid":"a","sessionId":"q8","type":"assistant","message":{"role":"model","parts":[{"functionCall":{"id":"c1","name":"n","args":{}},"inlineData":{"data":"BESIDE"}}]}}' '{"uuid":"c","parentUuid":"b","sessionId":"q8","type":"tool_result","message":{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"n","response":{"output":"o"},"parts":[{"inlineData":{"data":"PICTURED"}}]}}]}}' >$qwen/beside.jsonl
view --json $qwen/beside.jsonl => BESIDE => PICTURED -> 0 2 qwen-code:part$

== answer_of_qwen_code_without_an_id_has_its_usage
$ for n in 1 2; do printf '{"uuid":"t%s","parentUuid":null,"sessionId":"q7","type":"system","subtype":"ui_telemetry","systemPayload":{"uiEvent":{"event.name":"qwen-code.api_response","model":"m","input_token_count":100,"output_token_count":1%s}}}\n' $n $n; done | { head -n 1 $qwen/beside.jsonl; cat; } >$qwen/telemetry.jsonl
usage $qwen/telemetry.jsonl => ^ +2 +200 +0 +0 +23 -> 0 *
END

# A run that waited for an approval, as to_json of the package openai-agents wrote it.
run=$tmp/run
mkdir -p "$run"
sed 's/"original_input":"[^"]*"/"original_input":[{"role":"user","content":"a list"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"yes"}]}]/
    s/"pending_input":\[\]/"pending_input":[{"role":"user","content":"one more"},7]/
    s/"type":"reasoning",/"type":"oddity",/g; s/"response_id":"resp_1"/"response_id":null/
    s/"usage":{/"used":{/2' $streams/run-state.json >"$run/odd.json"
head -c 6000 $streams/run-state.json >"$run/torn.json"
sed 's/"session_items":\[/"session_items":[7,{"type":"x_item","agent":7},/' $streams/run-state.json >"$run/wrong.json"
session <<'END'
== state_of_a_run_is_a_conversation
view $streams/run-state.json =10> => ^ 1 .* user_message +remove the second => ^ 2 .* look first => ^ 9 .* removed => ^10 .* b.c is gone -> 0 *
view --json $streams/run-state.json => "location":"resp_1".*"extra":\{"agent":"lister"\} => b.c is gone.*"agent":"cleaner"
usage $streams/run-state.json => ^ +4 +840 +0 +160 +100 +- +-
history $streams/run-state.json --format openai >$tmp/request -> 0 *
check --as openai $tmp/request =0>

== state_of_a_run_keeps_what_is_unknown_and_counts_it
view $run/odd.json => ^ 1 .* a list => ^ 2 .* yes => one more =13> . -> 0 1 openai-agents:item, 1 openai-agents:oddity|1 openai-agents:oddity, 1 openai-agents:item
usage $run/odd.json => ^ +3 +680 +0 +120 +80 +- +- -> 0 *
view $run/wrong.json => ^12 .* b.c is gone -> 0 unknown, kept whole: 1 openai-agents:item, 1 openai-agents:x_item
view $run/torn.json => remove the second -> 3 left out|skipped
END
if python3 -c 'import json' 2>/dev/null; then
    session <<'END'
== state_of_a_run_is_stored_once_when_it_is_written_again
$ python3 -c 'import json,sys; d=json.load(open(sys.argv[1])); d["session_items"]=d["session_items"][:8]; d["model_responses"]=d["model_responses"][:3]; json.dump(d,open(sys.argv[2],"w"),indent=2)' $streams/run-state.json $run/before.json
sync $run.log $run/before.json => ^messages +8 new, 0 taken back -> 0 *
sync $run.log $streams/run-state.json => ^messages +2 new, 0 taken back -> 0 *
sync $run.log $run/before.json => ^messages +0 new, 0 taken back -> 0 *
usage $run.log => ^ +4 +840 +0 +160 +100 +- +-

== state_of_a_run_without_ids_is_named_by_what_it_has
$ python3 -c 'import json,sys; d=json.load(open(sys.argv[1])); [r.update(response_id=None) for r in d["model_responses"]]; json.dump(d,open(sys.argv[2],"w"),indent=2); d["session_items"]=d["session_items"][:8]; d["model_responses"]=d["model_responses"][:3]; json.dump(d,open(sys.argv[3],"w")); d["original_input"]="another"; json.dump(d,open(sys.argv[4],"w"))' $streams/run-state.json $run/copy.json $run/short.json $run/other.json
sync $run.2.log $run/short.json => ^messages +8 new -> 0 *
sync $run.2.log $run/copy.json => ^messages +2 new, 0 taken back -> 0 *
sync $run.2.log $run/other.json => ^messages +8 new -> 0 *
usage $run.2.log => ^ +7 -> 0 *

== state_of_a_run_has_its_items_where_they_are
$ python3 -c 'import json,sys; d=json.load(open(sys.argv[1])); i=d["session_items"]; w=lambda k,**m: json.dump({**d,**m},open(sys.argv[2]+k+".json","w")); w("generated",session_items=[],generated_items=i); w("outputs",session_items=[],generated_items=None); w("text",session_items="TEXT",generated_items=i); w("odd",model_responses=[7,d["model_responses"][0]])' $streams/run-state.json $run/items-
view $run/items-generated.json =10> => b.c is gone -> 0 *
view $run/items-outputs.json => ^1 .* remove the second => look first => list_files => b.c is gone =0> observation -> 0 *
usage $run/items-outputs.json => ^ +4 +840 +0 +160 +100 +- +- -> 0 *
view $run/items-text.json =11> => TEXT => b.c is gone -> 0 1 openai-agents:session_items
view $run/items-odd.json =11> => b.c is gone -> 0 1 openai-agents:response
END
fi

# What the package ai gave an application to keep.
sed 's/"type":"reasoning"/"type":"odd"/' $streams/ui.json >"$tmp/oddly.json"
session <<'END'
== list_of_ui_messages_is_a_conversation
view $streams/ui.json =8> => ^1 .* user_message +say hi => reasoning +thinking => ^3 .* I look => ^4 .* say.*hi => ^5 .* fail => observation +hi there => error +An error => ^8 .* all done -> 0 *
history $streams/ui.json --format openai >$tmp/request -> 0 *
check --as openai $tmp/request =0>
$ cat $tmp/request => "content":"I look.","tool_calls":.*"id":"call_1".*"id":"call_2".*"tool_call_id":"call_1".*"tool_call_id":"call_2".*"content":"all done"
view $tmp/oddly.json => ui-message:odd -> 0 unknown, kept whole: 1 ui-message:odd
END

# aliens: a line for each program: its file, and an entry of it.
aliens()
{
    cat <<'END'
Droid {"type":"session_start","id":"d1","title":"t","version":2,"cwd":"/w"}
Cursor {"role":"user","message":{"content":[{"type":"text","text":"hi"}]}}
Kimi {"timestamp":1770000000.1,"message":{"type":"TurnBegin","payload":{"user_input":"hi"}}}
Grok {"type":"user","content":[{"type":"text","text":"hi"}]}
Amp {"v":3,"id":"T-1","created":1770000000000,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}
UIMessage {"id":"m","role":"user","parts":[{"type":"text","text":"hi"}]}
claude.ai [{"uuid":"u","name":"n","chat_messages":[{"sender":"human","text":"hi"}]}]
SQLite SQLite format 3
END
}
while read -r program entry; do
    echo "$entry" >"$alien/$program.jsonl"
    session <<'END'
== transcript_of_a_program_that_is_not_read_is_named
view $alien/$program.jsonl -> 1 not read: its format is that of
history $alien/$program.jsonl --format openai -> 1 not read: its format is that of
$ "$tool" view $alien/$program.jsonl 2>&1 | grep -c "format is that of .*$program" => ^1$
END
done < <(aliens)
mkdir -p "$tmp/.openclaw" "$tmp/.iflow"
echo '{"type":"session","id":"o1","cwd":"/w"}
{"type":"message","id":"m","message":{"role":"user","content":"hi"}}' >"$tmp/.openclaw/o.jsonl"
echo '{"uuid":"a","sessionId":"s2","type":"user","message":{"role":"user","content":"hi"}}' >"$tmp/.iflow/i.jsonl"
echo '{"type":"novelty","uuid":"x","sessionId":"s","cwd":"/"}' >"$tmp/novelty.jsonl"
cp "$kept/queued.jsonl" "$tmp/homes/.config/claude/projects/p/11111111-2222-3333-4444-555555555555.jsonl"
cp "$kept/queued.jsonl" "$tmp/homes/c/projects/p/11111111-2222-3333-4444-555555555555.jsonl"
cp "$kept/rollout-1.jsonl" "$tmp/homes/x/sessions/2026/"
cp "$kept/task/api_conversation_history.json" "$tmp/homes/Library/Application Support/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/t/"
echo 'SQLite format 3' >"$tmp/homes/.local/share/opencode/opencode.db"
session <<'END'
== files_of_unknown_formats_are_named_by_sync
sync $tmp/alien.log $alien => ^files +0 read, 0 unchanged, 8 of unknown formats => ^not read +.*Droid.jsonl: of Factory Droid$
sync $tmp/alien.log $alien => ^files +0 read, 0 unchanged, 8 of unknown formats => ^not read +8 as before; sync --full =1> ^not read
sync --full $tmp/alien.log $alien =8> ^not read   as before: .*jsonl$
$ mkdir $tmp/growing; echo junk >$tmp/growing/debug.txt
sync -q $tmp/alien.4.log $tmp/growing -> 0 not read: .*debug.txt
$ echo more >>$tmp/growing/debug.txt
sync -q $tmp/alien.4.log $tmp/growing
sync $tmp/alien.4.log $tmp/growing => ^not read +1 as before
sync --json $tmp/alien.log $alien => "ignored":0,"unread":\[\],"ignored_before":8,"unread_before":\[".*Amp.jsonl"
sync -q $tmp/alien.log $alien =0> .
sync -q $tmp/alien.4.log $alien -> 0 not read: .*Droid.jsonl: of Factory Droid$
sync --strict $tmp/alien.5.log $alien => 8 of unknown formats =0> ^not read -> 1 not read: .*Droid.jsonl: of Factory Droid$
sync --strict $tmp/alien.log $alien => 8 of unknown formats =0> ^not read -> 1 not read: .*Droid.jsonl: of Factory Droid$
sync --json $tmp/alien.2.log $alien => "unread":\[".*Amp.jsonl: of Amp"
$ mkdir $alien/more; for n in 1 2 3; do echo '{"a":1,"b":2}' >$alien/more/$n.json; done
sync $tmp/alien.3.log $alien/more => 1.json: JSON with "a", "b"$
sync $tmp/alien.3.log $alien => ^not read =9> ^not read => ^not read +3 as before
$ : >$alien/more/empty.jsonl; echo '{"a":1,"b":2}' >$alien/more/mended.json
sync $tmp/alien.6.log $alien/more => 4 of unknown formats => ^left out   1 empty file$
$ echo '{"role":"user","content":"hello"}' >$alien/more/mended.json
sync $tmp/alien.6.log $alien/more => ^files      1 read, 1 unchanged, 3 of unknown formats => ^messages   1 new
sync $tmp/alien.6.log $alien/more => ^files      0 read, 2 unchanged, 3 of unknown formats
sync $alien/more/own.log $alien/more => 3 of unknown formats =0> not read.*own.log
sync $alien/more/own.log $alien/more => ^files      0 read, 2 unchanged, 3 of unknown
sync $tmp/alien.7.log $alien/more/own.log => own.log: a log of msgstore$

== sync_names_a_file_once_that_lost_its_messages
$ echo '{"role":"user","content":"hello"}' >$tmp/emptied.jsonl
sync $tmp/emptied.log $tmp/emptied.jsonl => ^messages   1 new
$ echo '{"a":1,"b":2,"c":3}' >$tmp/emptied.jsonl
sync $tmp/emptied.log $tmp/emptied.jsonl => ^not read +.*emptied.jsonl: JSON with "a", "b" => ^messages   0 new, 0 taken back$
sync $tmp/emptied.log $tmp/emptied.jsonl => ^not read +1 as before =0> emptied.jsonl
view $tmp/emptied.log =1> hello
$ printf '%s\n' '{"role":"user","content":"hello"}' '{"role":"user","content":"again"}' >$tmp/emptied.jsonl
sync $tmp/emptied.log $tmp/emptied.jsonl => ^messages   1 new, 0 taken back$ =0> ^not read
view $tmp/emptied.log =1> hello =1> again

== sync_counts_bad_lines_of_plain_messages_once
$ printf '%s\n' '{"role":"user","content":"one"}' 'torn {' '{"role":"user","content":"two"}' >$tmp/plain.jsonl
sync $tmp/plain.log $tmp/plain.jsonl => ^messages   2 new => ^bad        1 line without JSON$ -> 3 line 2
sync $tmp/plain.log $tmp/plain.jsonl => ^bad        0 lines without JSON, and 1 in what was read before$
$ echo '{"role":"user","content":"three"}' >>$tmp/plain.jsonl
sync $tmp/plain.log $tmp/plain.jsonl => ^messages   1 new => ^bad        0 lines without JSON, and 1 in what was read before$
$ printf 'worse\nworst\n' >>$tmp/plain.jsonl
sync $tmp/plain.log $tmp/plain.jsonl => ^messages   0 new => ^bad        2 lines without JSON, and 1 in what -> 3 line 5
sync --json $tmp/plain.log $tmp/plain.jsonl => "bad_lines":0,"bad_before":3
sync --strict $tmp/plain.log $tmp/plain.jsonl => * -> 1 line 2
$ { echo '{"role":"user","content":"zero"}'; cat $tmp/plain.jsonl; } >$tmp/plain.new
$ mv $tmp/plain.new $tmp/plain.jsonl
sync $tmp/plain.log $tmp/plain.jsonl => ^bad        3 lines without JSON$ -> 3 line 3
import $tmp/plain.log $tmp/plain.jsonl --keys => . -> 3 line 3
import $tmp/plain.log $tmp/plain.jsonl --keys => . -> 3 line 3

== sync_counts_of_a_file_that_grew_what_is_new
$ { long_session 2; echo '{"type":"novelty","uuid":"n"}'; echo '{"type":"progress"}'; echo 'torn {'; } >$tmp/grows.jsonl
sync $tmp/grows.log $tmp/grows.jsonl => ^messages   3 new => ^left out   1 that => ^unknown    1 entry, => ^bad        1 line without JSON$ -> 3 line 5
sync $tmp/grows.log $tmp/grows.jsonl => ^messages   0 new => ^bad        0 lines without JSON, and 1 in what was read before$ =0> ^left out|^unknown
$ echo '{"type":"progress"}' >>$tmp/grows.jsonl
sync $tmp/grows.log $tmp/grows.jsonl => ^files      1 read => ^left out   1 that => ^bad        0 lines without JSON, and 1 in what =0> ^unknown
$ echo 'torn again {' >>$tmp/grows.jsonl
sync $tmp/grows.log $tmp/grows.jsonl => ^bad        1 line without JSON, and 1 in what =0> ^unknown -> 3 line 7
sync --json $tmp/grows.log $tmp/grows.jsonl => "bad_lines":0,"bad_before":2
sync --strict $tmp/grows.log $tmp/grows.jsonl => . -> 1 line 3 .*novelty is unknown
import --keys $tmp/grows.log $tmp/grows.jsonl => . -> 3 line 5
$ sed -i '/torn/d' $tmp/grows.jsonl
sync $tmp/grows.log $tmp/grows.jsonl => ^messages   0 new =0> ^bad -> 0 *
sync $tmp/grows.log $tmp/grows.jsonl => ^messages   0 new =0> ^bad

== programs_with_the_format_of_another_have_their_own_name
sessions $tmp/.openclaw/o.jsonl =>  openclaw 
sessions $tmp/.iflow/i.jsonl =>  iflow 

== request_without_a_message_is_an_error
history $tmp/novelty.jsonl --format openai -> 4 no messages, 1 entries of unknown kinds

== sync_looks_in_the_places_of_every_system_and_variable
$ HOME=$tmp/homes CLAUDE_CONFIG_DIR=$tmp/homes/c CODEX_HOME=$tmp/homes/x "$tool" sync $tmp/homes.log => ^places +[0-9]+ looked at, 5 there: claude-code.* => ^sessions +3 new => opencode.db: of an SQLite database; of those OpenCode
$ HOME=$tmp/homes "$tool" formats --places => ^claude-code +there +.*/.config/claude/projects$ => ^roo-code +there +.*Library => ^codex +absent
$ HOME=$tmp/homes CODEX_HOME=$tmp/homes/x "$tool" formats --places --json => "format":"codex","path":".*/x/sessions","variable":"CODEX_HOME","there":true
$ HOME=$tmp/nowhere "$tool" sync $tmp/none.log => ^places +[0-9]+ looked at, 0 there -> 4 usual places
END


# ---- Formats by lines of our own.

sts='{"type":"session","harness":"mine","id":"h1","name":"A title"}
{"type":"message","message":{"role":"system","content":"be kind"}}
{"type":"message","message":{"role":"user","content":"hi"}}
{"type":"message","message":{"role":"assistant","content":"","reasoningContent":"hm","toolCalls":[{"id":"c","name":"ls","arguments":{"a":1}}]}}
{"type":"message","message":{"role":"tool","toolCallId":"c","content":"x"}}
{"type":"message","message":{"role":"assistant","content":"done"}}
{"type":"weather","sun":true}'

gemini='{"sessionId":"g","projectHash":"p"}
{"id":"1","type":"user","content":"one"}
{"id":"2","type":"gemini","content":"two","tokens":{"input":5,"output":2}}'
replaced=$gemini$'\n{"id":"2","type":"gemini","content":"two again","tokens":{"input":5,"output":3}}'
rewound=$gemini$'\n{"$rewindTo":"2"}\n{"id":"3","type":"gemini","content":"three"}'
reset=$gemini$'\n{"$set":{"messages":[{"id":"1","type":"user","content":"one"}]}}'

codex='{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"c","cwd":"/x"}}'
# said SECOND ROLE TEXT: a line of a rollout.
said()
{
    printf '{"timestamp":"2026-01-01T00:00:0%sZ","type":"response_item","payload":{"type":"message","role":"%s","content":[{"type":"input_text","text":"%s"}]}}\n' "$@"
}
rolled_back="$codex
$(said 1 user one 2 assistant two 3 user three 4 assistant four)
"'{"timestamp":"2026-01-01T00:00:05Z","type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":1}}
'"$(said 6 user five)"
patch="$codex
"'{"timestamp":"2026-01-01T00:00:01Z","type":"response_item","payload":{"type":"custom_tool_call","name":"apply_patch","input":"*** Begin","call_id":"p"}}
{"timestamp":"2026-01-01T00:00:01Z","type":"response_item","payload":{"type":"local_shell_call","call_id":"l","action":{"command":["ls"]}}}
{"timestamp":"2026-01-01T00:00:02Z","type":"response_item","payload":{"type":"custom_tool_call_output","call_id":"p","output":"{\"output\":\"Success\",\"metadata\":{\"exit_code\":0}}"}}
{"timestamp":"2026-01-01T00:00:03Z","type":"response_item","payload":{"type":"novelty","x":1}}'

# A model whose name has an escape, and more messages than are stored at a time.
escaped="$codex
"'{"timestamp":"2026-01-01T00:00:00Z","type":"turn_context","payload":{"model":"gpt\u002d5-codex"}}'"
$(for i in {1..1200}; do echo "$i"; done | sed "s/.*/$(said 1 assistant 'message number &')/")
"'{"timestamp":"2026-01-01T00:00:05Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":9,"output_tokens":4}}}}'

# span CONVERSATION USER [ASSISTANT USER]... ASSISTANT: an answer, as OpenTelemetry has it.
span()
{
    local n list='' role=user text
    for text in "${@:2}"; do
        printf -v n '{\\"role\\":\\"%s\\",\\"parts\\":[{\\"type\\":\\"text\\",\\"content\\":\\"%s\\"}]}' $role "$text"
        if [ $role = user ]; then role=assistant; else role=user; fi
        list=$list,$n
    done
    list=${list%,"$n"}
    printf '{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":['
    printf '{"key":"gen_ai.%s","value":{"stringValue":"%s"}},' \
        operation.name chat conversation.id "$1" input.messages "[${list#,}]"
    printf '{"key":"gen_ai.output.messages","value":{"stringValue":"[%s]"}}]}]}]}]}\n' "$n"
}

# A fence that an interrupted answer left open; a number that no counter has.
aider='# aider chat started at 2026-01-01 10:00:00

#### one  

```
#### a heading of the model

> ^C again to exit

#### two  

three

> Tokens: 99999999999999999999999999 sent, 5 received.
'
attached='{"version":2,"eval":{"task":"t"},"samples":[{"id":1,"epoch":1,"attachments":{"h":"long text","i":"data:image/png"},"messages":[
{"role":"user","content":[{"type":"text","text":"attachment://h"},{"type":"text","text":"a \"attachment://h"}]},
{"role":"assistant","content":[{"type":"reasoning","reasoning":"hm"},{"type":"text","text":"see"},{"type":"image","image":"attachment://i"}],"tool_calls":[{"id":"c","function":"f","arguments":{"p":["attachment://h","attachment://x"]}}]}]}]}'

pi='{"type":"session","id":"p1","cwd":"/x"}
{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"one"}}
{"type":"message","id":"b","parentId":"a","message":{"role":"user","content":"two"}}
{"type":"message","id":"c","parentId":"a","message":{"role":"bashExecution","command":"ls","output":"x"}}'

# OpenCode's database, as sqlite3 -json prints it.
rows='[{"id":"s1","project_id":"p","directory":"/x","title":"T"}]
[{"id":"m1","session_id":"s1","time_created":1,"data":"{\"role\":\"user\",\"time\":{\"created\":1730000000000}}"},
{"id":"m2","session_id":"s1","time_created":2,"data":"{\"role\":\"assistant\",\"modelID\":\"m\",\"tokens\":{\"input\":5,\"output\":7}}"}]
[{"id":"p2","message_id":"m2","session_id":"s1","data":"{\"type\":\"text\",\"text\":\"there\"}"},
{"id":"p1","message_id":"m1","session_id":"s1","data":"{\"type\":\"text\",\"text\":\"hi\"}"}]'
# The same as one line, as jq -c prints it.
row_line='[{"id":"m1","session_id":"s1","data":"{\"role\":\"user\"}"},{"id":"p1","message_id":"m1","session_id":"s1","data":"{\"type\":\"text\",\"text\":\"hi\"}"}]'
# Roo Code: what its answers cost stands in another file. A request that failed was paid for.
roo=$tmp/roo/tasks/t1/api_conversation_history.json
mkdir -p "${roo%/*}"
printf '%s' '[{"ts":10,"role":"user","content":[{"type":"text","text":"<task>do it</task>"}]},
{"ts":30,"role":"assistant","content":[{"type":"text","text":"one"}]},
{"ts":40,"role":"user","content":[{"type":"text","text":"more"}]},
{"ts":60,"role":"assistant","content":[{"type":"text","text":"two"}]}]' >"$roo"
{
    printf '[{"ts":1,"type":"say","say":"text","text":"do it"},\n'
    printf '{"ts":%s,"type":"say","say":"api_req_started","modelInfo":{"modelId":"m"},"text":"{\\"request\\":\\"x\\",\\"tokensIn\\":%s,\\"tokensOut\\":%s,\\"cacheReads\\":%s,\\"cacheWrites\\":0,\\"cost\\":0.5}"},\n' \
        15 5 0 0 20 10 7 100 50 200 8 100 70 1 2 0
    printf '{"ts":80,"type":"say","say":"api_req_started","text":"{}"}]'
} >"${roo%/*}/ui_messages.json"
printf '{"foo":"a\xff"}\n{"type":"task","content":"x"}\n' >"$tmp/odd.jsonl"
torn='{"type":"user","uuid":"1","sessionId":"s","message":{"role":"user","content":"one"}}
{"type":"user","uuid":"2","sess
{"type":"user","uuid":"3","sessionId":"s","message":{"role":"user","content":"three"}}'
dangling='{"type":"user","uuid":"1","parentUuid":"gone","sessionId":"s","message":{"role":"user","content":"one"}}
{"type":"user","uuid":"2","parentUuid":"lost","sessionId":"s","message":{"role":"user","content":"two"}}'
# names WORD: a session of Claude Code that has it in its names.
names()
{
    printf '{"type":"user","uuid":"1","sessionId":"%s","message":{"role":"user","content":"one"}}\n' "$1"
    printf '{"type":"user","uuid":"2","sessionId":"%s","agentId":"%s","isSidechain":true,"message":{"role":"user","content":"two"}}\n' "$1" "$1"
}
wide=$(printf 'é%.0s' {1..600})
names 'a\u0000b' >"$tmp/nul.jsonl"
names "$wide" >"$tmp/wide.jsonl"
turn='{"timestamp":"2026-01-01T00:00:00Z","type":"turn_context","payload":{"turn_id":"%s"}}\n'
roleless="$codex
$(printf "$turn" "$wide")
$(said 1 user one)
$(printf "$turn" 'a\u0000b')
$(said 2 user two | sed 's/"role":"user",//')"
long_name=$(printf '%01100d' 0)

# What a store would refuse, or what a reader took no notice of.
printf '{"schema_version":"ATIF-v1.5","session_id":"s1","steps":[{"source":"user","message":"a","k":"\xff"},{"source":"user","mess' >"$tmp/torn_bytes.json"
printf '# aider chat started at 2026-01-01\xff\n\n#### one  \n\ntwo\n' >"$tmp/bytes.md"
printf '# aider chat started at 2026-01-01 10:00:00%s\n\n#### one  \n\ntwo\n' "${wide:0:40}" >"$tmp/dated.md"
placeholder='{"schema_version":"ATIF-v1.5","session_id":"x'$wide'","steps":[{"source":"user","message":"a"}]}'
epoch='{"id":"x'$wide'","epoch":"'$wide'","target":"","messages":[{"role":"user","content":"hi"}]}'
novel='{"type":"user","uuid":"1","sessionId":"s","message":{"content":"one"}}
{"type":"'x$wide'","uuid":"2","sessionId":"s"}'
wordless='{"type":"thread.started","thread_id":"t"}
{"type":"item.completed","item":{"id":"i","type":"agent_message"}}
{"type":"item.completed","item":{"id":"j","type":"command_execution"}}'
twice='{"sessionId":"g","projectHash":"h"}
{"id":"1","type":"user","content":"one"}
{"id":"1","type":"user","content":"one"}
{"id":"2","type":"gemini","toolCalls":[ ]}'
# attributed VALUE: a chat whose input is that attribute.
attributed()
{
    printf '{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"t","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.input.messages","value":{%s}}]}]}]}]}\n' "$1"
}
spans=$(attributed '"stringValue":"no JSON"'
        attributed '"stringValue":"[{\"role\":\"user\"}]"'
        echo '{"resourceMetrics":[]}')
# nested N: so many lists in each other.
nested() { printf "[%.0s" $(seq "$1"); printf "]%.0s" $(seq "$1"); }
# entry TYPE CONTENT: a message of Claude Code.
entry() { printf '{"type":"%s","uuid":"%s","sessionId":"s","message":{"role":"%s","content":%s}}\n' "$1" "$RANDOM$RANDOM" "$1" "$2"; }
{
    entry user '"hi"'
    entry assistant '[{"type":"tool_use","id":"t","name":"f","input":{"x":'"$(nested 505)"'}}]'
    printf '{"type":"odd","uuid":"o","sessionId":"s","x":%s}\n' "$(nested 505)"
    entry assistant '[{"type":"tool_use","id":"u","name":"f","input":{"x":'"$(nested 400)"'}}]'
    entry user '"bye"'
} >"$tmp/deep.jsonl"
deep_text='{"timestamp":"2026-01-01T10:00:00Z","type":"session_meta","payload":{"id":"s"}}
{"timestamp":"2026-01-01T10:00:00Z","type":"response_item","payload":{"type":"function_call","name":"f","call_id":"c","arguments":"{\"x\":'$(nested 505)'}"}}'
without_parts='{"info":{"id":"s"},"messages":[{"info":{"id":"1","role":"user"},"parts":[{"type":"text","text":"one"}]},{"info":{"id":"2","role":"user"},"parts":[]}]}'
# What an answer cost, and where there is none; what a document has beside its list.
priceless=${aider/5 received./5 received. Cost: \$inf message.}
spent='# aider chat started at 2026-01-01 10:00:00

> Tokens: 7 sent, 5 received.

#### one  
'
free='{"type":"session","id":"p2","cwd":"/x"}
{"type":"message","id":"a","message":{"role":"assistant","content":"one","usage":{"input":0,"output":0,"cost":{"total":0.25}}}}'
beside='{"sessionId":"g","projectHash":"p","$set":{"summary":"T"},"messages":[{"id":"1","type":"user","content":"one"},{"id":"2","type":"user","content":"two"}]}'
stopped='{"info":{"id":"s"},"messages":[{"info":{"id":"1","role":"user"},"parts":[{"type":"text","text":"one"}]},
{"info":{"id":"2","role":"assistant","tokens":{"input":5,"output":7}},"parts":[{"type":"step-start"}]},
{"info":{"id":"3","role":"assistant"},"parts":[{"type":"tool","tool":"read","callID":"c","state":{"status":"completed","input":{},"output":"","attachments":[{"type":"file","url":"data:x"}]}}]}]}'
unasked='{"info":{"id":"s"},"messages":[{"info":{"id":"2","role":"assistant","tokens":{"input":5,"output":7}},"parts":[{"type":"step-start"}]}]}'
# Two sessions: one that announces a summary, and one that has a summary.
sums='[{"id":"m1","session_id":"s1","data":"{\"role\":\"user\"}"},{"id":"m2","session_id":"s2","data":"{\"role\":\"assistant\",\"summary\":true}"}]
[{"id":"p1","message_id":"m1","session_id":"s1","data":"{\"type\":\"compaction\",\"auto\":true}"},{"id":"p2","message_id":"m2","session_id":"s2","data":"{\"type\":\"text\",\"text\":\"the sum\"}"}]'
torn_roo=$tmp/roo.torn/tasks/t1 early_roo=$tmp/roo.early/tasks/t1
mkdir -p "$torn_roo" "$early_roo"
cp "$roo" "$torn_roo"
head -c -20 "${roo%/*}/ui_messages.json" >"$torn_roo/ui_messages.json"
cp "${roo%/*}/ui_messages.json" "$early_roo"
printf '[{"ts":10,"role":"user","content":"do it"}]' >"$early_roo/api_conversation_history.json"
roles='{"conversation_id":"g-5","current_node":"n","mapping":{"x":7,'$(gpt_node n null '' critic '{"content_type":"text","parts":["hm"]}' '"all"')'}}'
nameless="[$roles,{\"current_node\":\"n\",\"mapping\":{$(gpt_node n null '' user '{"content_type":"text","parts":["other"]}' '"all"')}}]"
critic='[{"role":"critic","parts":[{"type":"text","text":"hm"}]}]'
subagents='{"schema_version":"ATIF-v1.5","session_id":"s1","steps":[{"source":"user","message":"a"}],"subagent_trajectories":[7,{"trajectory_id":"t"}]}'
samples='{"version":2,"eval":{"task":"t"},"samples":[{"id":1,"epoch":1,"messages":[{"role":"user","content":"one"}]},7,{"id":2,"epoch":1,"messages":[],"model_usage":{"m":{"input_tokens":5,"output_tokens":7}}}]}'
instructed=$(attributed '"stringValue":"[{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"content\":\"one\"}]}]"' |
    sed 's/"traceId":"t",/&"startTimeUnixNano":"18446744073709551615",/
        s/"attributes":\[/&{"key":"gen_ai.system_instructions","value":{"stringValue":"[]"}},/')
echo "$instructed" >"$tmp/instructed.jsonl"
bubbles='[{"session":"c","key":"composerData:c","value":"{\"fullConversationHeadersOnly\":[{\"bubbleId\":\"b\"}]}"},
{"session":"c","key":"bubbleId:c:b","value":"{\"type\":1,\"text\":\"one\"}"},{"session":"c","key":"bubbleId:c:b","value":"{\"type\":1,\"text\":\"two\"}"}]'
aside='{"uuid":"a","sessionId":"q","type":"assistant","agentId":"x","message":{"role":"model","parts":[{"text":"one"}]}}'
waiting=$(sed 's/"pending_input":\[\]/"pending_input":null/' $streams/run-state.json)
# Entries of unknown types: their time is that of the line, the part or the message.
at=2026-01-01T10:00:00Z
odd_claude='{"type":"user","uuid":"a","sessionId":"s","timestamp":"'$at'","message":{"role":"user","content":"one"}}
{"type":"odd","uuid":"b","parentUuid":"a","sessionId":"s","timestamp":"'$at'"}
{"type":"user","uuid":"c","parentUuid":"b","sessionId":"s","timestamp":"'$at'","message":{"role":"user"}}
{"type":"user","uuid":"d","parentUuid":"c","sessionId":"s","timestamp":"'$at'","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"r"},7]}}'
odd_codex='{"timestamp":"'$at'","type":"session_meta","payload":{"id":"s"}}
{"timestamp":"'$at'","type":"response_item","payload":{"type":"odd"}}
{"timestamp":"'$at'","type":"odd","payload":{}}'
odd_opencode='{"info":{"id":"s"},"messages":[{"info":{"id":"1","role":"user","time":{"created":1767261600000}},"parts":[{"type":"text","text":"one"},{"type":"odd"}]}]}'
odd_pi='{"type":"session","id":"p","cwd":"/x"}
{"type":"message","id":"a","timestamp":"'$at'","message":{"role":"assistant","content":[7]}}
{"type":"odd","id":"b","timestamp":"'$at'"}'
odd_kimi='{"type":"metadata","protocol_version":"1.0","app_version":"2.1","created_at":1767261600000}
{"type":"context.append_message","time":1767261600000,"message":{"role":"odd","content":[]}}
{"type":"context.odd","time":1767261600000}'
odd_chatgpt='{"conversation_id":"g","current_node":"n","mapping":{"n":{"id":"n","parent":null,"children":[],"message":{"id":"n","create_time":1767261600,"author":{"role":"user"},"content":{"content_type":"odd"},"recipient":"all"}}}}'
session <<'END'
== line_nested_too_deep_is_left_out_and_the_others_are_read
import $tmp/deep.log $tmp/deep.jsonl => ^appended   3 messages -> 3 line 2, column .*expected less nesting; left out
view --json $tmp/deep.log =1> "args":\{"x":\[ =1> bye
view --json - <<<$deep_text => "args":"\{\\"x\\":\[

== damage_is_mended_when_a_torn_document_has_bytes_that_are_no_utf8
import $tmp/torn_bytes.log $tmp/torn_bytes.json => ^appended   2 messages -> 3 left out$
view --json $tmp/torn_bytes.log => "atif":\{"k":"�"\}

== bytes_that_are_no_utf8_are_replaced_when_a_name_has_them
import $tmp/bytes.log $tmp/bytes.md => ^appended   2 messages
sessions $tmp/bytes.log --json => "session":"aider-2026-01-01�"

== names_are_cut_between_characters
import $tmp/dated.log $tmp/dated.md => ^appended   2 messages
view --json - <<<$placeholder => "location":"xé{99}/stdin"
view --json - <<<$epoch => "location":"stdin/xé{39}\.\\"é{9}"
view --json - <<<$novel => "type":"claude-code:x[^x]+" -> 0 kept whole: 1 claude-code:x

== item_is_read_when_codex_exec_left_members_out
view --json - <<<$wordless => "type":"assistant_message".*"content":"" => "args":\{"command":null\} -> 0 *

== entries_that_give_no_message_are_counted
view --json - <<<$twice =1> "content":"one" -> 0 left out, empty or incomplete: 1 empty message$
view --json - <<<$spans =0> content -> 0 left out, empty or incomplete: 1 messages that are no list, 1 message without parts$
view --json - <<<$without_parts =1> content -> 0 left out, empty or incomplete: 1 empty message$

== cost_that_is_no_number_is_left_out
$ total output_tokens - <<<$priceless => ^5$
usage --json - <<<$priceless =0> "cost":inf
usage --json - <<<$free => "cost":0.25

== usage_without_an_answer_is_counted
usage --json - <<<$spent => * -> 0 left out, empty or incomplete: 1 usage without an answer$
usage --json $early_roo => * -> 0 left out, empty or incomplete: 1 usage without an answer$
usage --json - <<<$unasked => * -> 0 left out, empty or incomplete: 1 usage without an answer$
$ total output_tokens - <<<$stopped => ^7$

== costs_are_read_as_far_as_their_file_is_whole
$ total output_tokens $torn_roo/api_conversation_history.json => ^17$ -> 0 ui_messages.json: JSON at line .*; the rest is left out$|1 damaged file beside the transcript$

== files_of_a_result_are_kept
view --json - <<<$stopped => "observation".*"extra":\{"attachments":\[\{"type":"file","url":"data:x"\}\]\}

== list_is_read_whatever_stands_beside_it
$ texts <<<$beside => ^one two$
view --json - <<<$sums => "compaction".*the sum =0> "auto"

== unknown_entry_has_the_time_of_its_line
view --json - <<<$odd_claude =5> "time":1767261600[,}] -> 0 kept whole: 1 claude-code:odd, 1 claude-code:user without content, 1 claude-code:block$
view --json - <<<$odd_codex =2> "time":1767261600[,}] -> 0 kept whole: 2 codex:odd$
view --json - <<<$odd_opencode =2> "time":1767261600[,}] -> 0 kept whole: 1 opencode:odd$
view --json - <<<$odd_pi =3> "time":1767261600[,}] -> 0 kept whole: 
view --json - <<<$odd_kimi =2> "time":1767261600[,}] -> 0 kept whole: 
view --json - <<<$odd_chatgpt =1> "time":1767261600[,}] -> 0 kept whole: 

== elements_that_are_no_entries_are_counted
view --json - <<<$subagents =3> -> 0 kept whole: 2 atif:trajectory without steps$
view --json - <<<$samples =2> -> 0 kept whole: 1 inspect:sample without messages|incomplete: 1 usage without an answer
view --json - <<<$nameless =3> => "role":"critic" => "location":"stdin".*other -> 0 kept whole: 1 chatgpt:node$
view - <<<$bubbles =1> two -> 0 incomplete: 1 bubble that comes again$
sync $tmp/instructed.log $tmp/instructed.jsonl => system instructions -> 0 *
view --json $tmp/instructed.log => "one" =0> "time"

== what_has_nothing_is_not_counted
view --json - <<<$aside =1>
view --json - <<<$waiting =10>
view --json - <<<$critic => "role":"critic"

== name_is_shortened_when_no_store_would_take_it
import $tmp/nul.log $tmp/nul.jsonl => ^appended   2 messages
view --json $tmp/nul.log => "location":"ab","agent_key":"ab","content":"two"
import $tmp/wide.log $tmp/wide.jsonl => ^appended   2 messages
sessions $tmp/wide.log --json => "session":"é{511}"
view --json - <<<$roleless => "role":"unknown".*"turn_id":"ab" => "turn_id":"é{511}" -> 0 *

== refused_message_is_reported_with_its_file_and_not_counted
import $tmp/refused.log $tmp/nul.jsonl --agent $long_name => ^appended   0 messages, the last is number 0$ -> 1 nul\.jsonl: storing messages up to line 2: agent_key has

== session_of_sts_is_read_and_what_is_unknown_is_kept
view --json - <<<$sts =7> => "type":"action","role":"assistant".*"call_id":"c" -> 0 kept whole: 1 sts:weather$
view --strict - <<<$sts => * -> 1 line 7 .*sts:weather is unknown
history --format anthropic - <<<$sts => "messages":\[\{"role":"user","content":"hi"\} -> 0 *

== branch_of_a_session_is_the_one_that_goes_on
$ texts <<<$replaced => ^one two again$
$ total output_tokens - <<<$replaced => ^3$
$ texts <<<$rewound => ^one three$
$ texts <<<$reset => ^one$
$ texts <<<$rolled_back => ^one two five$
$ texts <<<$pi => ^one \$ ls\\nx$

== calls_of_a_rollout_have_their_patch_and_output
view --json - <<<$patch => "tool":"apply_patch","args":"\*\*\* Begin" => "content":"Success" -> 0 kept whole: 1 codex:novelty

== name_of_a_model_is_kept_when_its_line_is_stored
usage --by model - <<<$escaped => [ ]gpt-5-codex$

== conversations_of_a_trace_have_their_own_messages_when_they_alternate
$ { span A a1 a2; span B b1 b2; span A a1 a2 a3 a4; span B b1 b2 b3 b4; } >$tmp/spans.jsonl
$ texts <$tmp/spans.jsonl => ^a1 a2 b1 b2 a3 a4 b3 b4$
view $tmp/spans.jsonl =$3> A A B B A A B B
import $tmp/spans.log $tmp/spans.jsonl => ^appended   8 messages
sessions $tmp/spans.log => A .*a1$ => B .*b1$

== prompt_follows_a_fence_that_is_left_open
view - <<<$aider => [ ]user_message +one$ => [ ]user_message +two$ -> 0 *
$ total input_tokens - <<<$aider => ^9007199254740992$

== attachments_stand_in_their_places_and_pictures_are_kept
view --json - <<<$attached =4> => "content":"long text\\n\\na \\"attachment://h"
=> "reasoning",.*"content":"hm" => "args":\{"p":\["long text","attachment://x"\]\}
=> "content":\[\{"type":"text","text":"see"\},\{"type":"image","image":"data:image/png"\}\]

== rows_of_a_database_are_put_in_order
$ texts <<<$rows => ^hi there$
$ total output_tokens - <<<$rows => ^7$

== rest_of_a_database_is_read_when_a_row_is_damaged
view - <<<${rows::-40} => [ ]there$ =1> -> 3 standard input: line 5, column [0-9]+ \(byte [0-9]+\): .*; left out$
view --strict - <<<${rows::-40} -> 1 line 5, column
view - <<<${rows/\"id\":\"m2\",} => [ ]hi$ =1> -> 3 line 3, column 1 \(byte [0-9]+\): a message without an id
view --strict - <<<${rows/\"id\":\"m2\",} -> 1 line 3, column 1 .*without an id
view - <<<${rows/there/th\"ere} => [ ]hi$ -> 3 line 4, column
view - <<<${rows/\{\\\"role\\\":\\\"user\\\"/5} => [ ]there$ -> 3 line 2, column 2 .*: a row whose data is not an object
view - <<<${row_line::-3} -> 3 line 1, column
view - <<<${row_line::-1} => [ ]hi$ -> 3 line 1, column

== usage_is_taken_from_a_file_beside_the_session
$ for name in output_tokens input_tokens cache_read_tokens answers; do total $name $roo; done =$1> 17 116 200 3
view --json $tmp/roo =4> -> 0 *

== list_of_messages_is_read_beside_other_members
view - <<<'{"info":{"exit_status":"Submitted"},"messages":[{"role":"user","content":"do"},{"role":"exit","content":""}]}' => [ ]user_message  do$ -> 0 *
view $tmp/odd.jsonl => [ ]task  -> 3 kept whole: 1 object

== rest_is_read_when_a_line_is_no_json
view - <<<$torn => ^1 .* one$ =2> -> 3 line 2, column [0-9]+ .*; left out
view --strict - <<<$torn => * -> 1 line 2

== torn_last_line_is_reported_unless_it_may_grow
$ head -n 2 <<<$torn | head -c -1 >$tmp/cut.jsonl
import $tmp/cut.log $tmp/cut.jsonl => ^appended   1 message, -> 3 cut.jsonl: line 2, column [0-9]+ .*; left out$
convert --to openai $tmp/cut.jsonl =1> => "content":"one" -> 3 cut.jsonl: line 2
convert --strict --to openai $tmp/cut.jsonl => * -> 1 cut.jsonl: line 2
sync $tmp/grows.log $tmp/cut.jsonl => ^messages   1 new
import --keys $tmp/grows.log $tmp/cut.jsonl => ^appended   0 messages => ^known      1 message, -> 3 cut.jsonl: line 2, column [0-9]+ .*; left out$
sync $tmp/grows.log $tmp/cut.jsonl => ^messages   0 new
import --keys $tmp/keys.log $tmp/cut.jsonl => ^appended   1 message, -> 3 cut.jsonl: line 2, column [0-9]+ .*; left out$
import --keys $tmp/keys.log $tmp/cut.jsonl => ^known      1 message, -> 3 cut.jsonl: line 2, column [0-9]+ .*; left out$
$ cat <<<$torn >$tmp/cut.jsonl
import --keys $tmp/keys.log $tmp/cut.jsonl => ^appended   1 message, -> 3 line 2

== dangling_parent_hangs_on_the_entry_before
view --json - <<<$dangling =2>
END


# ---- Files that are compressed.

if command -v zstd >/dev/null && "$tool" formats | grep -q 'files: zstd'; then
    zst=$tmp/zst
    mkdir "$zst"
    zstd -q <<<$escaped >"$tmp/whole.jsonl.zst"
    head -c -100 "$tmp/whole.jsonl.zst" >"$zst/half.jsonl.zst"
    head -c 60 "$tmp/whole.jsonl.zst" >"$tmp/begun.jsonl.zst"
    session <<'END'
== rest_of_a_compressed_file_is_read_when_it_ends_early
import $tmp/zst.log $zst/half.jsonl.zst => ^appended   [5-9][0-9][0-9] messages -> 3 half.jsonl.zst: the compressed text ends early$
view --strict $zst/half.jsonl.zst -> 1 half.jsonl.zst: the compressed text ends early$
view -n 1 - <$zst/half.jsonl.zst =1> -> 3 standard input: the compressed text ends early$
view -n 1 $zst =1> -> 3 half.jsonl.zst: the compressed text ends early$
sync $tmp/half.log $zst => ^messages   [5-9][0-9][0-9] new -> 3 half.jsonl.zst: the compressed text ends early$
sync $tmp/half.log $tmp/begun.jsonl.zst => ^messages   0 new -> 3 begun.jsonl.zst: the compressed text ends early$
sync $tmp/half.log $zst $tmp/begun.jsonl.zst => ^files      0 read, 2 unchanged => ^damaged    0 files read in part, and 2 before$ =0> empty
sync --json $tmp/half.log $zst => "cut":0,"cut_before":1,
sync --strict $tmp/half.log $zst => ^damaged    1 file read in part$ -> 3 half.jsonl.zst: the compressed text ends early$
sync --json $tmp/begun.log $tmp/begun.jsonl.zst => "empty":0,.*"cut":1,"cut_before":0, -> 3 begun.jsonl.zst: the compressed text ends early$
$ cp $tmp/whole.jsonl.zst $zst/half.jsonl.zst
sync $tmp/half.log $zst => ^messages   [1-9][0-9]* new =0> ^damaged
sync --json $tmp/half.log $zst => "cut":0,"cut_before":0,
$ cp $zst/half.jsonl.zst $tmp/all.zst; head -c -100 $tmp/all.zst >$zst/half.jsonl.zst
doctor $zst/half.jsonl.zst => codex, 2 faults => 1  compressed text that ends early -> 3 half.jsonl.zst: the compressed text ends early$

== compressed_transcript_is_imported_once_by_keys
import --keys $tmp/once.log $tmp/whole.jsonl.zst => ^appended   1200 messages -> 0 *
import --keys $tmp/once.log $tmp/whole.jsonl.zst => ^appended   0 messages -> 0 *
import --keys $tmp/part.log $zst/half.jsonl.zst => ^appended   [5-9][0-9][0-9] messages -> 3 *
import --keys $tmp/part.log $zst/half.jsonl.zst => ^appended   0 messages => ^known      [5-9][0-9][0-9] messages -> 3 half.jsonl.zst: the compressed text ends early$
sync $tmp/part.log $zst => ^files      0 read, 1 unchanged
$ mkdir $tmp/rest; cp $tmp/whole.jsonl.zst $tmp/rest/half.jsonl.zst
import --keys $tmp/part.log $tmp/rest/half.jsonl.zst => ^appended   [3-7][0-9][0-9] messages
import --keys $tmp/part.log $tmp/rest/half.jsonl.zst => ^appended   0 messages
info $tmp/part.log => ^messages +1200,

# 131 KB that unpack to 4 GiB, with their size and without.
== bomb_is_refused_by_its_size_or_on_the_way
$ truncate -s 4G $tmp/zeros; zstd -q $tmp/zeros -o $tmp/bomb.jsonl.zst; zstd -q <$tmp/zeros >$tmp/stream.jsonl.zst; rm $tmp/zeros
$ mkdir $tmp/bombs; cp $tmp/bomb.jsonl.zst $tmp/bombs; cp $zst/half.jsonl.zst $tmp/bombs/x.jsonl.zst
info $tmp/bomb.jsonl.zst -> 1 bomb.jsonl.zst: unpacks to more than 1073741824 bytes; --max-input allows more$
view $tmp/stream.jsonl.zst --max-input 16M -> 1 stream.jsonl.zst: unpacks to more than 16777216 bytes; --max-input allows more$
view - --max-input 4096K <$tmp/stream.jsonl.zst -> 1 standard input: unpacks to more than 4194304 bytes
doctor $tmp/bomb.jsonl.zst -> 1 unpacks to more
sync $tmp/bombs.log $tmp/bombs => ^files      1 read -> 1 bomb.jsonl.zst: unpacks to more
import $tmp/bombs.log $tmp/stream.jsonl.zst --max-input 1M => ^appended   0 -> 1 more than 1048576 bytes
$ { head -n 1 <<<$escaped; yes; } | "$tool" view - --max-input 1M -> 1 standard input: a pipe that comes to more than 1048576 bytes; --max-input allows more$
view $zst/half.jsonl.zst --max-input 1K -> 1 more than 1024 bytes
view $zst/half.jsonl.zst --max-input 1G -n 1 =1> -> 3 ends early
view $zst --max-input 1X -> 2 --max-input expects bytes, as 300M or 2G, not 1X
view $zst --max-input 0 -> 2 expects bytes
view $zst --max-input 99999999999999999999G -> 2 expects bytes
view $zst --max-input 18014398509481984K -> 2 expects bytes

== compressed_messages_of_a_folder_are_read
$ mkdir $tmp/chats; zstd -q $demo -o $tmp/chats/demo.jsonl.zst
view --json $tmp/chats =31>
sync $tmp/chats.log $tmp/chats => ^messages   31 new
sync $tmp/chats.log $tmp/chats => ^messages   0 new
END
else
    echo "skip compressed_files: no zstd"
fi
if command -v zip >/dev/null && "$tool" formats | grep -q 'files: .*zip$'; then
    mkdir "$tmp/samples"
    echo '{"id":1,"epoch":1,"target":"","messages":[{"role":"user","content":"hi"}]}' \
        >"$tmp/samples/1_epoch_1.json"
    echo '{"a":1}' >"$tmp/samples/2_epoch_1.json"
    session <<'END'
== zip_is_read_from_a_pipe
$ (cd $tmp && zip -q one.eval samples/1_epoch_1.json && zip -q two.eval samples/*.json)
$ cat $tmp/one.eval | "$tool" import $tmp/zip.log - => ^appended   1 message,
$ cat $tmp/one.eval | head -c -30 | "$tool" view - => [ ]hi$ -> 3 -: a ZIP without its end

== zip_is_refused_when_it_unpacks_to_too_much
$ mkdir -p $tmp/bomb/samples; cd $tmp/bomb && truncate -s 40M samples/1.json && zip -q ../bomb.eval samples/1.json; cd "$OLDPWD"
$ cd $tmp/bomb && truncate -s 3M samples/1.json samples/2.json && zip -q ../sum.eval samples/*; cd "$OLDPWD"
$ head -c -30 $tmp/bomb.eval >$tmp/torn.eval
view $tmp/bomb.eval --max-input 16M -> 1 bomb.eval: samples/1.json unpacks to more than 16777216 bytes; --max-input allows more$
view $tmp/torn.eval --max-input 16M -> 1 torn.eval: samples/1.json unpacks to more than 16777216 bytes; --max-input allows more$
view $tmp/sum.eval --max-input 4M -> 1 sum.eval: samples/2.json unpacks to more than 4194304 bytes
sync $tmp/bomb.log $tmp/bomb.eval --max-input 16M => ^messages   0 new -> 1 bomb.eval: samples/1.json unpacks to more

== member_of_a_zip_is_damage_when_its_format_is_unknown
view $tmp/two.eval => [ ]hi$ -> 3 two.eval: samples/2_epoch_1.json: its format is not known; left out$
view --strict $tmp/two.eval => * -> 1 two.eval: samples/2_epoch_1.json: its format is not known
sync $tmp/two.log $tmp/two.eval => ^messages   1 new -> 3 samples/2_epoch_1.json: its format is not known
END
else
    echo "skip zip_files: no zip"
fi


# ---- What shells and man(1) read.

complete_in()
{
    PATH=$tmp/names:$PATH bash -c 'cd "${1%/*}/names"; . "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _msgstore; echo "${COMPREPLY[*]}"' - "$tmp/completion.bash" "$@"
}
# The scripts call msgstore by its name.
mkdir "$tmp/names"
ln -s "$(realpath "$tool")" "$tmp/names/msgstore"
printf '{"type":"user_message","content":"%s","location":"%s"}\n' 'first words' 0a1b \
    'second words' 'a b$(touch hit)' third 'line\u001b[1m' \
    | "$tool" import "$tmp/typed.log" - >"$tmp/out"
for shell in bash zsh fish; do
    "$tool" completion $shell >"$tmp/completion.$shell" || fail completion "of $shell"
    if ! command -v $shell >/dev/null; then
        echo "skip completion_$shell: no $shell"
    elif ! $shell -n "$tmp/completion.$shell"; then
        fail completion_is_understood "not by $shell"
    fi
done
session <<'END'
== formats_are_listed
formats => ^claude-code +Claude Code
formats --json => "name":"copilot-cli".*"writes":false => "name":"gemini-cli".*"writes":true => "name":"opencode".*"writes":true

== sessions_are_completed_from_the_usual_log
completion sessions =0> .
$ complete_in msgstore history 0a =0> 0a
$ MSGSTORE_LOG=$tmp/typed.log "$tool" completion sessions => ^0a1b	first words$ => ^a b\$\(touch hit\)	 =2> .
$ MSGSTORE_LOG=$tmp/typed.log complete_in msgstore history 0 => ^0a1b$
$ MSGSTORE_LOG=$tmp/typed.log complete_in msgstore view 'a b' => ^a b\$\(touch hit\)$
$ MSGSTORE_LOG=$tmp/typed.log complete_in msgstore show 0 =0> 0a1b
$ complete_in msgstore usage $tmp/typed.log 0 => ^0a1b$
$ complete_in msgstore usage $tmp/other.log 0 =0> 0a1b
$ complete_in msgstore hand-over $tmp/typed.log 0 => ^0a1b$
$ complete_in msgstore compact-context $tmp/typed.log 0 => ^0a1b$
$ MSGSTORE_LOG=$tmp/typed.log complete_in msgstore hand-over 0 =0> 0a1b
$ ls $tmp/names/hit -> 2 No such file
completion bash x -> 2 completion bash takes no x
completion sessions $tmp/no.log -> 4 no.log

== completion_knows_commands_options_and_words
$ complete_in msgstore ses => ^sessions$
$ complete_in msgstore sessions --si => ^--since$
$ complete_in msgstore usage --by ses => ^session$
$ complete_in msgstore convert --to anth => ^anthropic$
$ complete_in msgstore hand-over --to co => ^codex$
$ complete_in msgstore hand-over --to anth => ^$
$ complete_in msgstore ship --to anth => ^$
$ grep -F -- '--to[the server' $tmp/completion.zsh => :URL:_files
$ grep -e 'from ship. -l to' $tmp/completion.fish => -l to -r -d
completion ksh -> 2 bash, zsh or fish
manual => ^\.Ss msgstore sync

== to_is_explained_by_its_command
help convert => ^  --to FORMAT => ^message formats:
help hand-over => ^  --to PROGRAM
help ship => ^  --to URL =0> formats: =0> providers:
ship a --to x -> 2 ship --to expects a server, such as postgresql://host/database, not x
$ "$tool" ship a --to x 2>&1 | sed -n '/formats:/p' =0> .
END
if command -v fish >/dev/null; then
    same complete_fish '--grep' "$(HOME=$tmp fish -c "source $tmp/completion.fish
        complete -C 'msgstore sessions --gr'" 2>/dev/null | cut -f 1)"
    same complete_fish_sessions '0a1b' "$(HOME=$tmp PATH=$tmp/names:$PATH fish -c "
        source $tmp/completion.fish; cd $tmp/names
        complete -C 'msgstore view $tmp/typed.log 0a'
        complete -C 'msgstore hand-over 0a'" 2>/dev/null | cut -f 1)"
    same complete_fish_sessions_of_a_log '0a1b' "$(HOME=$tmp PATH=$tmp/names:$PATH fish -c "
        source $tmp/completion.fish; cd $tmp/names
        complete -C 'msgstore hand-over $tmp/typed.log 0a'" 2>/dev/null | cut -f 1)"
fi
if command -v zsh >/dev/null; then
    same complete_zsh_sessions '0a1b:first words' "$(PATH=$tmp/names:$PATH zsh -fc "
        compdef() { }; _files() { }; _describe() { print -rl -- \$found }
        source $tmp/completion.zsh
        words=(view $tmp/typed.log ''); CURRENT=3; _msgstore_sessions
        words=(hand-over ''); CURRENT=2; MSGSTORE_LOG=$tmp/typed.log _msgstore_sessions
        " | grep 0a)"
    same complete_zsh_sessions_of_a_log '0a1b:first words' "$(PATH=$tmp/names:$PATH zsh -fc "
        compdef() { }; _files() { }; _describe() { print -rl -- \$found }
        source $tmp/completion.zsh
        words=(hand-over $tmp/typed.log ''); CURRENT=3; _msgstore_sessions" | grep 0a)"
fi
"$tool" manual >"$tmp/manual"
if command -v mandoc >/dev/null; then
    same manual_clean '' "$(mandoc -T lint <"$tmp/manual" 2>&1 | head -n 3)"
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
    session <<'END'
== long_output_is_paged_in_colour_unless_the_pager_is_cat
$ on_terminal "MSGSTORE_PAGER='sed s/^/PAGED/'" | grep ^PAGED =31> => \[1m
$ on_terminal PAGER=cat => . =0> ^PAGED
END
    if [ -d "$real" ]; then
        for columns in 80 140; do
            session <<'END'
== sessions_are_as_wide_as_the_terminal
$ script -qec "stty cols $columns; NO_COLOR=1 $tool sessions $log" /dev/null | tr -d '\r' | sed 's/…/./g' | awk -v n=$columns 'length > n' =0>
END
        done
    fi
else
    echo "skip pager: there is no script(1)"
fi
session <<'END'
== times_are_words
$ for when in now today yesterday '2 days ago' 3h '1 week ago' 'last month' 90min; do "$tool" view $demo --since "$when"; done =0>
END

exit "$failed"
