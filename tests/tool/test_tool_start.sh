#!/usr/bin/env bash
# msgstore in its first five minutes: what a start loads, words that are nearly right, help,
# arguments in the wrong order, the log that is used when none is named, local time, full
# names of sessions with the command that resumes them, and single messages as text.
. "$(dirname "$0")/tool_checks.sh"
unset TZ TZDIR


# ---- What a start loads.

# loads ARGUMENTS: the names of the libraries that the tool looks for.
loads()
{
    LD_DEBUG=files "$tool" "$@" 2>&1 | sed -n 's/.*file=\(lib[^ ]*\).*/\1/p' | sort -u
}

if [ -n "$(loads --version)" ]; then
    same start_without_a_url_loads_no_libpq '' "$(
        loads sessions "$demo" | grep -E 'libpq|libssl|libldap')"
    if "$tool" sessions 'postgresql://[' 2>&1 | grep -q 'built without'; then
        echo "skip libpq: the tool was built without it"
    else
        same url_loads_libpq libpq.so.5 "$(
            loads sessions 'postgresql://[' | grep libpq | tail -1)"
        mkdir "$tmp/none"
        echo none >"$tmp/none/libpq.so.5"
        echo none >"$tmp/none/libpq.so"
        session <<'END'
== missing_libpq_is_named
$ LD_LIBRARY_PATH=$tmp/none "$tool" sessions 'postgresql://[' -> 1 ^msgstore: .*no libpq on this machine.*libpq5
$ LD_LIBRARY_PATH=$tmp/none "$tool" ship $demo --to 'postgresql://[' -> 1 no libpq
END
    fi
else
    echo "skip start: LD_DEBUG prints nothing here"
fi


# ---- Words that are nearly right, help, the wrong order.

cat >"$tmp/s.jsonl" <<'END2'
{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"0a1b2c3d-1111-4222-8333-444455556666","cwd":"/w/my app","timestamp":"2026-05-11T22:30:00Z","message":{"role":"user","content":"the rate limit\nis low"}}
{"type":"assistant","uuid":"u2","parentUuid":"u1","sessionId":"0a1b2c3d-1111-4222-8333-444455556666","cwd":"/w/my app","timestamp":"2026-05-11T22:31:00Z","message":{"id":"m2","role":"assistant","model":"x","content":[{"type":"text","text":"raised"}]}}
END2
log=$tmp/my.log
"$tool" sync "$log" "$tmp/s.jsonl" >"$tmp/out"
session <<'END'
== nearest_word_is_named
serch x -> 2 no such command: serch, did you mean search\?
sesions -> 2 did you mean sessions\?
xyzzy -> 2 no such command: xyzzy$
view $demo --lmit 3 -> 2 --lmit, did you mean --limit\?$
view $demo --format opnai -> 2 not opnai, did you mean openai\?
convert --from codx --to openai $demo -> 2 did you mean codex\?
usage $demo --by mnth -> 2 did you mean month\?
view $demo --agent data_woker => * -> 0 no messages of agent data_woker, did you mean data_worker\?
hand-over $log --to copilot-cli -> 2 ^written sessions: .*claude-code
$ echo -DWITH_ZLIB >$tmp/with; sh tools/setup.sh without $tmp/with => serve \(libmicrohttpd-dev\).*\(libpq-dev\) =0> gzip
formats => ~/\.codex/sessions, ~/\.codex/archived_sessions$ => ~/[^ ]*kilocode.kilo-code/tasks$
hand-over $log --to kodex -> 2 --to expects a program, not kodex
$ "$tool" hand-over $log --to copilot-cli 2>&1 | sed -n '/message formats/p' | wc -l => ^0$

== help_is_a_word_and_a_letter
help => ^examples:
help sync => ^usage: msgstore sync 
help snyc -> 2 did you mean sync\?
-V => ^msgstore [0-9]

== store_comes_first
search 'rate limit' $log -> 2 takes the STORE first: msgstore search .*my\.log 'rate limit'$
view 0a1b $log -> 2 takes the STORE first: msgstore view .*my\.log 0a1b$
view $log 0a1b => raised

== time_that_is_none_lists_what_is_one
view $demo --since gestern -> 2 '2 days ago'
END


# ---- The usual log.

mkdir -p "$tmp/home/.claude/projects/p"
cp "$tmp/s.jsonl" "$tmp/home/.claude/projects/p/"
usual=$tmp/home/.local/state/msgstore/messages.log
alone()
{
    env -u XDG_STATE_HOME -u CLAUDE_CONFIG_DIR -u CODEX_HOME HOME="$tmp/home" "$tool" "$@"
}
session <<'END'
== usual_log_is_not_there_at_first
$ alone sessions -> 4 there is no log yet; `msgstore sync` makes it
$ alone search x -> 4 there is no log yet

== commands_work_without_a_store
$ alone sync => ^log +.*/\.local/state/msgstore/messages\.log$ => ^messages   2 new
$ stat -c %a $tmp/home/.local/state/msgstore => ^700$
$ alone sync $tmp/home/.claude => ^messages   0 new
$ alone sessions => 0a1b2c3d.*the rate limit
$ alone search 'RATE limit' => rate limit
$ alone usage => in all$
$ alone view => raised
$ alone view 0a1b => raised
$ alone history 0a1b --format openai => raised
$ alone view nothing -> 4 no messages of session nothing
$ cp $usual $tmp/other.log; HOME=$tmp/none MSGSTORE_LOG=$tmp/other.log "$tool" sessions => 0a1b
END

mkdir -p "$tmp/cwd/docs" "$tmp/home/.claude/projects/q"
here=$PWD
case $tool in
/*) ;;
*) tool=$here/$tool ;;
esac
cat >"$tmp/home/.claude/projects/q/t.jsonl" <<'END2'
{"type":"user","uuid":"v1","parentUuid":null,"sessionId":"77e60a1b-5252-4222-8333-444455556666","cwd":"/w/b","timestamp":"2026-05-12T22:30:00Z","message":{"role":"user","content":"look at docs/theme.md and /mode"}}
{"type":"assistant","uuid":"v2","parentUuid":"v1","sessionId":"77e60a1b-5252-4222-8333-444455556666","cwd":"/w/b","timestamp":"2026-05-12T22:31:00Z","message":{"id":"m3","role":"assistant","model":"x","content":[{"type":"text","text":"the phoenix server is up"}]}}
END2
ln -s /nowhere "$tmp/home/.claude/projects/q/latest.jsonl"
alone sync >"$tmp/out" 2>&1
session <<'END'
== one_argument_of_search_is_the_text
$ (cd $tmp/cwd && alone search docs/theme.md) => docs/theme
$ (cd $tmp/cwd && alone search docs) => docs/theme
$ (cd $tmp/cwd && alone search /mode) => mode
$ (cd $tmp/cwd && alone search -- /mode) => mode
$ alone search https://hex.pm -> 1 ^msgstore: nothing found in 4 messages of 2 sessions$
$ alone search absent --location 77e6 -> 1 nothing found in 2 messages of session 77e60a1b
search $log -> 2 search needs a TEXT
search -> 2 search needs a TEXT

== words_of_search_are_quoted_or_one_is_a_session
$ alone search phoenix 77e6 => phoenix
$ alone search 77e6 phoenix => phoenix
$ alone search phoenix 0a1b -> 1 nothing found in 2 messages of session 0a1b
$ alone search phoenix server -> 2 msgstore search 'phoenix server'$
$ alone search phoenix server -> 2 --location SESSION$
$ alone search phoenix server is -> 2 quoted
$ alone search missing.log x -> 4 missing.log
$ (cd $tmp/cwd && alone search docs theme) -> 1 the folder docs has no messages; a TEXT of several words is quoted$

== broken_link_of_a_folder_is_counted
sessions $tmp/home/.claude =2> . -> 0 left out 1 pipe, socket, device or broken link$
$ alone sync => ^left out   1 pipe, socket, device or broken link$

== log_is_made_under_the_name_of_a_log
sync $tmp/README.nothing $tmp/s.jsonl -> 2 ends in .log or .msl: msgstore sync .*README.nothing.log$
$ test ! -e $tmp/README.nothing
sync $tmp/made.msl $tmp/s.jsonl => ^log +.*made.msl$
sync $tmp/made.msl $tmp/s.jsonl =0> ^log

== commands_that_read_take_the_usual_log
$ alone redact --secrets => ^found
$ alone hand-over 77e6 --to codex => phoenix
$ alone verify => ^verdict +whole
$ alone follow --seconds 0 => phoenix
$ alone info => ^messages +4

== commands_that_change_name_the_usual_log
$ alone redact --secrets --apply -> 2 msgstore redact .*/messages.log --secrets --apply$
$ alone hide 2 -> 2 msgstore hide .*/messages.log 2$
$ alone note 2 rating 5 -> 2 msgstore note .*/messages.log 2 rating 5$
$ alone info 77e6 -> 4 takes no session; .*: msgstore view 77e6$
$ alone doctor 77e6 -> 4 takes no session
$ alone serve 77e6 -> 4 takes no session
redact $tmp/home/.claude --secrets -> 2 is no log, and redact changes logs

== session_is_its_beginning_before_a_piece
$ alone view 77e6 => phoenix
$ alone view 5252 => phoenix -> 0 session 77e60a1b-5252.*, which has 5252 in its name; msgstore show 5252 is the message$
$ alone view 60a1b => phoenix -> 0 session 77e60a1b-5252
$ alone view 0a1b => raised =0> phoenix
$ alone history -> 2 one of 2 sessions is to be named
$ alone view zzz -> 4 ^msgstore: 77e60a1b-5252[-0-9a-f]* look at docs/theme.md and /mode$
$ alone view --agent claude-code => * -> 0 claude-code is a program: sessions --agent

== hand_over_names_what_comes_next
$ alone hand-over 77e6 --to codex -o $tmp/h.jsonl => ^place +~/.codex/sessions/2026/05/12/rollout-2026-05-12T22-30-00-[-0-9a-f]{36}.jsonl$ => ^then +codex resume [-0-9a-f]{36}$
$ alone hand-over 77e6 --to claude-code -o $tmp/h.jsonl => ^place +~/.claude/projects/-w-b/[-0-9a-f]{36}.jsonl$ => ^then +claude --resume
$ alone hand-over 77e6 --to gemini-cli -o $tmp/h.jsonl => ^then +gemini --session-file .*h.jsonl$
help hand-over => program: claude-code, codex, opencode =1> claude-code,
hand-over $log --to nosuch -> 2 ^written sessions: claude-code codex opencode gemini-cli pi sts$
hand-over $log --to claude -> 2 did you mean claude-code\?
hand-over $log --to gemini -> 2 did you mean gemini-cli\?

$ alone hand-over 77e6 --to codex -o /dev/stdout => ^\{.*session_meta =0> ^place
$ alone hand-over 77e6 --to codex -o /dev/stdout >"$tmp/written"; cat $tmp/written => session_meta

== words_of_other_tools_are_known
version -> 2 did you mean -V\?
list -> 2 did you mean sessions\?
find -> 2 did you mean search\?
cost -> 2 did you mean usage\?
handoff -> 2 did you mean hand-over\?
show -> 2 show needs a NUMBER
END

# ---- Commands that are printed: pasted, they do what they say.

odd="$tmp/a  b'c"$'\n''d$(x)'
mkdir -p "$odd"
mkdir "$tmp/odd"
odd_session()
{
    printf '{"type":"user","uuid":"o%s","parentUuid":null,"sessionId":"%s","cwd":"%s",' \
        "$1" "$2" "$3"
    printf '"timestamp":"2026-05-12T22:3%s:00Z","message":{"role":"user","content":"%s"}}\n' \
        "$1" "$4"
}
odd_session 1 0dd00001-1 '/w/é 😀' odd >"$tmp/odd/1.jsonl"
odd_session 2 0dd0 /w even >"$tmp/odd/2.jsonl"
odd_session 3 10dd00001 /w 'x\u001b[31mlast\u0007\u202e' >"$tmp/odd/3.jsonl"
"$tool" sync "$odd/x.log" "$tmp/odd" >"$tmp/out"
"$tool" sync "$tmp/odd.log" "$tmp/odd" >"$tmp/out"

{
    echo '{"type":"user_message","content":"<caveat>x</caveat>","location":"w1"}'
    echo '{"type":"user_message","content":"why is it slow","location":"w1"}'
} >"$tmp/said.jsonl"

# pasted WORDS: runs what the last complaint or line of a command has after "msgstore".
pasted()
{
    local line
    line=$("$@" 2>&1 | sed -n 's/.*[: ] *msgstore \(.*\)/\1/p' | head -1)
    eval "HOME='$tmp/home' MSGSTORE_LOG='$tmp/odd.log' '$tool' $line"
}

named()
{
    MSGSTORE_LOG=$odd/x.log "$tool" "$@"
}

session <<'END'
== printed_command_takes_a_path_of_any_characters
$ pasted named note 1 rating 5 => ^noted|^$
$ "$tool" note "$odd/x.log" 1 => ^rating|rating.*5
$ pasted "$tool" search "it's  odd" "$odd/x.log" -> 1 nothing found in 3 messages
$ pasted named search odd even -> 1 nothing found in 3 messages of 3 sessions$
$ pasted "$tool" sync "$odd/y" => ^log +
$ test -s "$odd/y.log"
$ named redact "$odd" --secrets -> 2 msgstore sync new.log \$'/.*/a .040b.'c.012d\$\(x\)'
$ named hand-over 0dd00001 --to pi -o "$tmp/it's.jsonl" => ^then +pi --session '.*/it'.''s.jsonl'$
$ named hand-over 0dd00001 --to claude-code -o "$tmp/h.jsonl" => ^place +~/.claude/projects/-w-----/[-0-9a-f]*.jsonl$

== title_is_what_a_user_said_not_what_a_program_added
sessions $tmp/said.jsonl => why is it slow$

== session_that_is_the_beginning_of_others_is_taken
$ named search 0dd0 even => even
$ named search even 0dd0 => even
$ named view 0dd => * -> 2 ^msgstore: 2 sessions have 0dd in their names$
$ named view 0dd -> 2 ^msgstore: 0dd00001-1 odd$
$ named view 0dd 2>&1 | grep -c 10dd | tr 0 n => ^n$
$ named view 9 2>&1 | tr -cd '\007\033' | wc -c => ^0$
END


cat >"$tmp/cost.jsonl" <<'END2'
{"type":"user","uuid":"w1","parentUuid":null,"sessionId":"cc11","cwd":"/home/somebody/very/long/names/of/folders/that/are/wider/than/the/table/project-end","timestamp":"2026-05-12T22:30:00Z","message":{"role":"user","content":"one"}}
{"type":"assistant","uuid":"w2","parentUuid":"w1","sessionId":"cc11","timestamp":"2026-05-12T22:31:00Z","message":{"id":"m4","role":"assistant","model":"x","content":[{"type":"text","text":"two"}],"usage":{"input_tokens":30,"output_tokens":4}}}
{"type":"user","uuid":"w3","parentUuid":"w2","sessionId":"cc11","timestamp":"2026-05-12T22:32:00Z","message":{"role":"user","content":"three"}}
{"type":"assistant","uuid":"w4","parentUuid":"w3","sessionId":"cc11","timestamp":"2026-05-12T22:33:00Z","message":{"id":"m5","role":"assistant","model":"x","content":[{"type":"text","text":"four"}],"usage":{"input_tokens":50,"output_tokens":6}}}
END2
session <<'END'
== compact_counts_the_usage_of_hidden_answers
sync $tmp/cost.log $tmp/cost.jsonl => ^messages   4 new
compact $tmp/cost.log --dry-run =0> ^usage
rewind $tmp/cost.log 2 => ^hidden +2 messages
usage $tmp/cost.log => ^ +2 .* in all$
compact $tmp/cost.log --dry-run => ^usage +1 answer of hidden messages, 56 tokens, that the copy does not count$
compact $tmp/cost.log $tmp/less.log => ^usage +1 answer of hidden
usage $tmp/less.log => ^ +1 .* in all$
compact $tmp/less.log --dry-run =0> ^usage

== compact_counts_the_usage_of_dropped_answers
sync $tmp/four.log $tmp/cost.jsonl => ^messages   4 new
compact $tmp/four.log --keep-last 2 --dry-run => ^dropped +2 messages$ => ^usage +1 answer of visible messages, 34 tokens, that the copy does not count$
compact $tmp/four.log $tmp/two.log --keep-last 2 => ^usage +1 answer of visible messages, 34 tokens
usage $tmp/two.log => ^ +1 +50 +0 +0 +6 .* in all$
compact $tmp/four.log --keep-last 3 --dry-run =0> ^usage
compact $tmp/four.log --keep-last 4 --dry-run =0> ^usage
compact $tmp/four.log --since 2026-05-12T22:31:00Z --dry-run =0> ^usage
compact $tmp/four.log --since 2026-05-12T22:31:30Z --dry-run => ^usage +1 answer of visible messages, 34 tokens
compact $tmp/four.log --location cc11 --dry-run =0> ^usage
$ echo '{"type":"task","content":"x"}' | "$tool" append $tmp/four.log --location other => ^5$
compact $tmp/four.log --location other --dry-run => ^usage +2 answers of visible messages, 90 tokens
# hidden messages are none of the newest, and answers of them have a line of their own
compact $tmp/cost.log --keep-last 2 --dry-run => ^copied +2 messages =1> ^usage => ^usage +1 answer of hidden
compact $tmp/cost.log --keep-last 1 --dry-run => ^copied +1 message, =1> ^usage
$ cp $tmp/cost.log $tmp/other.log; echo '{"type":"task","content":"x"}' | "$tool" append $tmp/other.log --location other => ^5$
compact $tmp/other.log --location other --dry-run =2> ^usage => ^usage +1 answer of hidden messages, 56 => ^usage +1 answer of visible messages, 34
END
# shown COLUMNS WORDS...: what the tool prints on a terminal of that width.
shown()
{
    script -qec "stty cols $1; PAGER=cat $tool ${*:2}" /dev/null </dev/null | tr -d '\r'
}

if has_terminal; then
    {
        echo '{"type":"file-history-snapshot","sessionId":"1ef7","uuid":"l1"}'
        echo '{"type":"last-prompt","sessionId":"1ef7","uuid":"l2"}'
        cat "$tmp/s.jsonl"
    } >"$tmp/left.jsonl"
    session <<'END'
== folder_of_usage_keeps_its_end
$ script -qec "stty cols 100; PAGER=cat $tool usage $tmp/cost.log --by project" /dev/null </dev/null | tr -d '\r' => …[^ ]*/project-end$

== words_that_are_left_out_fit_no_terminal_at_all
$ script -qec "stty cols 8; $tool sync $tmp/left.log $tmp/left.jsonl" /dev/null </dev/null | tr -d '\r' => ^left out .* 2 that are no messages: 1 [^,]*, and 1 more$

== sessions_have_titles_of_columns_on_a_terminal_alone
$ shown 140 sessions $tmp/cost.log => ^last +session +program +folder +msgs +tokens +title$ => [ ]project-end +2 +90  one$
$ shown 60 sessions $tmp/cost.log =1> ^last +session +program +msgs +title$ =2> .
$ shown 140 sessions $tmp/cost.log --full =1> ^last
$ shown 140 sessions $tmp/cost.log --json =0> ^last
$ shown 140 sessions $tmp/cost.log --cwd /nowhere =0> ^last
sessions $tmp/cost.log =0> ^last =1> .

== rows_fit_a_narrow_terminal
$ script -qec "stty cols 60; NO_COLOR=1 $tool view $demo" /dev/null </dev/null | tr -d '\r' =0> ^.{61} => ^.{50,60}$
$ script -qec "stty cols 60; NO_COLOR=1 $tool search $demo the -C 1" /dev/null </dev/null | tr -d '\r' =0> ^.{61} => ^> .{40,58}$
END
else
    echo "skip rows_fit_a_narrow_terminal: no script(1)"
fi


# ---- Sessions with their names and commands, and local time.

session <<'END'
== session_has_its_name_and_its_command
sessions $log => 0a1b2c3d-1111-4222-8333-444455556666 
sessions $log --full => ^    cd '/w/my app' && claude --resume 0a1b2c3d-1111-4222-8333-444455556666$
sessions $log --json => "resume":"cd '/w/my app' && claude --resume 0a1b2c3d-1111-4222-8333-444455556666"

== time_is_local_and_has_its_zone
sessions $log => ^2026-05-11 22:31Z 
sessions $log --timezone +02:00 => ^2026-05-12 00:31\+02:00 
view $log --timezone -03:30 =2> 2026-05-11T1[89]:0[01]:00-03:30
$ TZ=UTC-5:45 "$tool" view $log =2> 2026-05-12T04:1[56]:00\+05:45
$ TZ=UTC-5:45 "$tool" view $log --timezone UTC =2> 2026-05-11T22:3[01]:00Z
$ TZ=UTC-5:45 "$tool" view $log --since 2026-05-12 =2> 2026-05-12
view $log --since 2026-05-12 =0> 2026
info $log --timezone +02:00 => 2026-05-12T00:31:00\+02:00
$ TZ=UTC-5:45 "$tool" view $log --json =2> "time":17
sessions $log --timezone zone.tab -> 2 zone
$ printf '{"type":"user_message","content":"%s","timestamp":%s}\n' early -10000 late 10 >$tmp/1969.jsonl
$ TZ=EST5 "$tool" view $tmp/1969.jsonl --until 1969-12-31T18:59:59 => early =0> late
END


# ---- Messages as text.

long=$(printf 'word%.0s ' {1..4000})
printf '%s\n' '{"type":"user_message","content":"one\ntwo\u001b[1m"}' \
    '{"type":"action","tool":"shell","args":{"command":"ls"},"agent_key":"worker","call_id":"c"}' \
    '{"type":"observation","content":"'"$long"'END","agent_key":"worker","call_id":"c"}' \
    '{"type":"final","content":"done","agent_key":"worker"}' >"$tmp/text.jsonl"
"$tool" import "$tmp/text.log" "$tmp/text.jsonl" --location here >"$tmp/out" 2>&1
session <<'END'
== message_is_shown_as_text
show $tmp/text.log 1 => ^1  .*  here  -  user_message$ => ^one$ => ^two
show $tmp/text.log 2 => ^2  .*worker  action$ => ^tool: shell$ => ^\{"command":"ls"\}$
show $tmp/text.log 3 => ^word.* END$
show $tmp/text.log 2 -C 1 =1> ^1  => ^> 2  =1> ^3  =0> ^4 
show $tmp/text.log 2 -C 9 =1> ^4  =1> ^> 
show $tmp/text.log 9 -> 4 *
show $tmp/text.log one -> 2 number of a message in 1 store, not one
show $tmp/text.log $tmp/my.log 2:1 =1> ^2:1  .*user_message => ^the rate limit
show $tmp/text.log $tmp/my.log 1 -> 2 STORE:NUMBER of 2 stores
show $tmp/text.log $tmp/my.log 3:1 -> 2 STORE:NUMBER of 2 stores
show $tmp/text.log 1:2 => tool: shell
view $tmp/text.log $tmp/my.log --full =1> ^1:1  =1> ^2:1 
$ MSGSTORE_LOG=$tmp/text.log "$tool" show 4 => ^done$
view $tmp/text.log --full =1> ^1  => ^two => END$ => ^tool: shell$

# As the pager gets it: "two" and the picture of an escape.
== no_escape_of_a_message_reaches_the_terminal
$ MSGSTORE_PAGER='sed s/^/PAGED/' NO_COLOR=1 script -qec "$tool show $tmp/text.log 1" /dev/null => ^PAGEDtwo␛\[1m

== nothing_is_cut_without_a_terminal
view $tmp/text.log =1> END$
view $tmp/text.log --raw =1> END$
search $log rate =1> 0a1b2c3d-1111-4222-8333-444455556666
search $tmp/text.log END =1> word.* END$

== context_of_two_matches_is_printed_once
search $tmp/text.log -C 1 --oldest one =1> ^[> ] 2 
search $tmp/text.log -C 9 --oldest on =1> ^[> ] 2 =1> ^[> ] 3 

== context_and_matches_have_one_row_a_message
search $tmp/text.log -C 1 --oldest one => ^> 1 .*one => ^  2 
search $tmp/text.log -C 1 e =1> ^[> ] 1 =1> ^[> ] 2 =1> ^[> ] 3 =1> ^[> ] 4
search $tmp/text.log -C 1 --oldest e =1> ^[> ] 1 =1> ^[> ] 2 =1> ^[> ] 3 =1> ^[> ] 4
search $tmp/text.log -C 9 e =1> ^[> ] 1 =1> ^[> ] 2 =1> ^[> ] 3 =1> ^[> ] 4 =0> ^--$
search $tmp/text.log -C 1 --all on =1> ^[> ] 1 =1> ^[> ] 2 =1> ^[> ] 3 =1> ^[> ] 4 =0> ^--$
$ printf '{"type":"user_message","content":"%s"}\n' 'hit hit' b c d hit | "$tool" import $tmp/hits.log - --location h
search $tmp/hits.log -C 9 --all hit =2> ^> 1 =1> ^> 5 =3> ^  [234] 
search $tmp/hits.log -C 1 --all hit =2> ^[> ] 1 =1> ^[> ] 2 =0> ^[> ] 3 =1> ^[> ] 4 =1> ^[> ] 5 =1> ^--$

== neighbours_of_matches_stand_in_their_order_newest_first
$ "$tool" search $tmp/hits.log -C 1 hit | sed 's/^[> ] *//' =$1> 4 5 -- 1 2
$ "$tool" search $tmp/hits.log -C 2 hit | sed 's/^[> ] *//' =$1> 1 2 3 4 5
$ "$tool" search $tmp/hits.log -C 1 -n 1 hit | sed 's/^[> ] *//' =$1> 4 5
$ printf '{"type":"user_message","content":"%s"}\n' hit b c hit | "$tool" import $tmp/hits.2.log - --location h
$ "$tool" search $tmp/hits.2.log -C 1 hit | sed 's/^[> ] *//' =$1> 1 2 3 4

== messages_without_a_time_are_counted_when_times_are_asked_for
view $tmp/text.log --since 2020-01-01 -> 0 ^msgstore: 4 messages without a time left out$
view $tmp/text.log --until 2020-01-01 --raw -> 0 ^msgstore: 4 messages without a time left out$
view $tmp/text.log --agent worker --since 2020-01-01 -n 1 -> 0 ^msgstore: 3 messages without
search $tmp/text.log done --since 2020-01-01 -> 1 ^msgstore: 4 messages without a time left out$
$ "$tool" search $tmp/text.log $log e --since 2020-01-01 2>&1 => ^msgstore: 4 messages without
$ "$tool" view $log --since 2020-01-01 2>&1 =0> left out
$ "$tool" view $tmp/text.log 2>&1 =0> left out

== format_of_transcripts_is_refused_for_a_message
$ echo '{}' | "$tool" append $tmp/text.log --from codex -> 2 not codex, which is one of transcripts
amend $tmp/text.log 1 x --from codex -> 2 not codex, which is one of transcripts
$ echo '{"role":"user","content":"x"}' | "$tool" append $tmp/text2.log --from openai --location x => ^1$
amend $tmp/text2.log 1 '{"role":"user","content":"y"}' --from openai => *
view $tmp/text2.log => y$

== second_store_is_no_session
usage $tmp/text.log $log -> 2 is a file, but one STORE is taken
usage $tmp/text.log nothing -> 4 no messages of session nothing$

== nothing_found_is_said
sessions $log --cwd /nowhere -> 1 ^msgstore: none of 1 sessions is what was asked for$
sessions $log --json --cwd /nowhere =0> . -> 1 *
END


# ---- Markdown on a terminal.

cat >"$tmp/mark.md" <<'END'
# Plan of the `store`

Some *quiet*, **loud** and ~~old~~ words; snake_case_name, 2*3*4, **open and `open
- an item that is long enough to be wrapped at eighty columns, because it says so itself twice
  - see [the page](https://example.org/a_b), and then some more words to reach the wrap, yes
10. a tenth item that is long enough to be wrapped at eighty columns, because it says so twice

> a quotation that is long enough to be wrapped at eighty columns, with its bar on each line

```sh
make   check # a line of code that is much too long for sixty or eighty columns stays what it is
```

| Name  | Count |
|:------|------:|
| `one` | 1     |
| two   | 22    |

| Name | What |
|------|------|
| wide | a cell that is far too wide for a table of sixty or of eighty columns to hold all of it |

```
no end of **this**
END
printf 'steer \033[31mred \033]0;title\007 \342\200\256 bidi\n' >>"$tmp/mark.md"
python3 - "$tmp/mark.md" >"$tmp/mark.jsonl" <<'END'
import json, sys
text = open(sys.argv[1], newline="").read()
for kind in "assistant_message", "observation", "task":
    print(json.dumps({"type": kind, "content": text, "tool_call_id": "c"}))
END
"$tool" import "$tmp/mark.log" "$tmp/mark.jsonl" --location here >"$tmp/out" 2>&1

# styles: with the escapes of styles as <1;4>, and bars and bullets as one byte.
styles()
{
    sed 's/\x1b\[0;\([0-9;]*\)m/<\1>/g; s/\x1b\[0m/<>/g' | sed 's/│/|/g; s/•/@/g; s/─/=/g; s/┼/+/g'
}

# words: the letters and digits of a text, without styles, each word on a line.
words()
{
    sed 's/\x1b\[0*[0-9;]*m//g' | tr -cs 'A-Za-z0-9' '\n'
}

session <<'END'
== usage_of_info_fits_the_terminal
$ "$tool" import $tmp/wide.log $tmp/mark.jsonl --location a-name-of-a-session-that-is-long-enough-to-wrap-on-a-terminal => appended
$ "$tool" note $tmp/wide.log 1 usage --json '{"input_tokens":123456789012,"output_tokens":7,"seconds":1.5}' => .
$ shown 80 info --usage $tmp/wide.log | sed -n '/^usage/,$p' >$tmp/usage80; shown 40 info --usage $tmp/wide.log | sed -n '/^usage/,$p' >$tmp/usage40
$ cat $tmp/usage80 =3> ^ +1 +123\.5G +7 +0 +0 +1\.5  a-name =0> ^.{81}
$ cat $tmp/usage40 =3> ^ +1 +123\.5G +7  a-name =0> ^.{41}
$ "$tool" info --usage $tmp/wide.log => 123456789012 .*to-wrap-on-a-terminal$ =3> to-wrap-on-a-terminal

== markdown_is_shown_on_a_terminal
$ shown 80 show $tmp/mark.log 1 | styles => ^<1;4>Plan of the <1;36;4>store<>$ => ^Some <3>quiet<>, <1>loud<> and <9>old<> words; snake_case_name, 2\*3\*4, \*\*open and `open$
=> ^@ an item that is
=1> ^  so itself twice$
=> ^  @ see <4>the page<> \(https://example.org/a_b\), and then
=> ^    the wrap, yes$
=> ^10\. a tenth item
=1> ^    says so twice$
=1> ^\| a quotation
=1> ^\| on each line
=> ^  <2>sh<>$
=> ^    <2>make   check # a line of code that is much too long for sixty or eighty columns stays what it is<>$
=> ^<1>Name<> \| <1>Count<>$
=> ^=====\+======$
=> ^<36>one<>  \|     1$
=> ^two  \|    22$
=> ^\| wide \| a cell that
=> ^```$
=> ^no end of <1>this<>$
$ shown 80 view $tmp/mark.log --full | styles =2> ^<1;4>Plan of the <1;36;4>store<>$

== markdown_of_a_task_is_shown_and_results_of_tools_stay
$ shown 80 show $tmp/mark.log 3 | styles => ^<1;4>Plan of
$ shown 80 show $tmp/mark.log 2 | styles => ^# Plan of the `store`$ => ^\| two   \| 22    \|$

== markdown_fits_the_terminal
$ for n in 60 80 140; do shown $n show $tmp/mark.log 1 | styles | sed 's/<[0-9;]*>//g; s/[␛␇�]/./g' | grep -v 'make   check' | awk -v n=$n 'length > n'; done =0>
$ shown 140 show $tmp/mark.log 1 | styles => ^<1>Name<> \| <1>What<>$ => itself twice$

== markdown_loses_no_word
$ shown 80 show --plain $tmp/mark.log 1 | words >$tmp/words; for n in 20 60 80 140; do shown $n show $tmp/mark.log 1 | words | cmp - $tmp/words || echo differs at $n; done =0> .
$ NO_COLOR=1; export NO_COLOR; for n in 20 60 80 140; do shown $n show $tmp/mark.log 1 | words | cmp - $tmp/words || echo differs at $n; done; unset NO_COLOR =0> .

== markdown_without_colours_keeps_the_marks_of_colours
$ NO_COLOR=1; export NO_COLOR; shown 80 show $tmp/mark.log 1 | sed 's/\x1b/ESC/g'; unset NO_COLOR =0> ESC => ^# Plan of the `store`$ => ^Some \*quiet\*, \*\*loud\*\* and

== markdown_stays_as_it_is_without_a_terminal_and_with_plain
$ tail -n +2 <("$tool" show $tmp/mark.log 1) | head -n -1 >$tmp/out.md; cmp $tmp/out.md $tmp/mark.md => *
$ "$tool" view $tmp/mark.log --full | cat =3> ^# Plan of the `store`$
$ shown 80 show --plain $tmp/mark.log 1 => ^# Plan of the `store`$ => ^\| two   \| 22    \|$
$ shown 80 view --full --plain $tmp/mark.log =3> ^# Plan of the `store`$

== line_of_nul_bytes_is_no_break_of_markdown
$ printf '{"type":"assistant_message","content":"a\\n\\u0000\\u0000\\u0000\\nb"}\n' >$tmp/nul.jsonl
$ "$tool" import $tmp/nul.log $tmp/nul.jsonl --location here => appended
$ shown 80 show $tmp/nul.log 1 => ^␀␀␀$

== escapes_in_markdown_reach_no_terminal
$ shown 80 show $tmp/mark.log 1 | grep -a steer | grep -ac "$(printf '[\001-\010\016-\037]')" => ^0$ -> 1
$ shown 80 show $tmp/mark.log 1 => ^steer ␛\[31mred ␛\]0;title␇ � bidi$
END


# ---- Prompts of deleted sessions: a name that no location can have, lines that are none.

for line in '"display":"one","sessionId":"s1"' '"display":"two","sessionId":"a\u0000b"' '"display":5,"sessionId":"s1"' \
    '"display":"last","sessionId":"s2"'; do
    echo "{$line,\"project\":\"/p\",\"timestamp\":1700000000000}"
done >"$tmp/history.jsonl"
session <<'END'
== prompts_after_an_impossible_name_are_stored
sync $tmp/history.log $tmp/history.jsonl => ^prompts +2 new of 2 deleted sessions, .* 1 left out that name no session, 1 bad line$
view $tmp/history.log --full => one => last
END


# ---- The measurement of the tool makes its transcripts, and finds what it looks for.

session <<'END'
== measurement_of_the_tool_runs
$ MSGSTORE=$tool BENCH_DIR=$tmp bash bench/tool.sh 1 1 => ^1 MB: [0-9]+ sessions, [0-9]{3,4} messages$ => ^second sync => ^search  => ^grep 
$ bash bench/tool.sh 0 -> 2 usage
END


# ---- The newest of a log whose sessions were stored one after the other.

for day in 3 1 2; do
    printf '%s\n' "{\"type\":\"user_message\",\"content\":\"of day $day\",\"timestamp\":177763$day}" \
        '{"type":"assistant_message","content":"yes"}' >"$tmp/day.jsonl"
    "$tool" import "$tmp/days.log" "$tmp/day.jsonl" --location "day$day" >"$tmp/out" 2>&1
done
session <<'END'
== newest_are_those_of_the_last_time
view $tmp/days.log -n 2 =1> ^1 .*of day 3 =1> ^2 .*yes
view $tmp/days.log -n 2 --oldest =1> ^3 .*of day 1 =1> ^4 .*yes
view $tmp/days.log -n 2 --by-store =1> ^5 .*of day 2 =1> ^6 .*yes
view $tmp/days.log day2 -n 1 =1> yes$
END


# ---- Sessions of two stores, whose messages have the same numbers; and messages without
# a time. A stream that failed says so.

streams=tests/tool/streams
for name in first second; do
    printf '%s\n' "{\"type\":\"user_message\",\"content\":\"the $name\",\"timestamp\":1778542260}" \
        '{"type":"user_message","content":"when?"}' >"$tmp/$name.jsonl"
    "$tool" import "$tmp/$name.log" "$tmp/$name.jsonl" --location "$name" >"$tmp/out" 2>&1
    echo "{\"agent\":\"claude-code\",\"first\":1}" >"$tmp/facts"
    "$tool" location "$tmp/$name.log" "$name" - <"$tmp/facts" >"$tmp/out" 2>&1
done
# What a program has added comes before the prompt. a and c are of one session.
for name in a b c; do
    printf '{"type":"user","uuid":"%s0","parentUuid":null,"sessionId":"%s","cwd":"/w","timestamp":"2026-05-12T22:30:00Z","isMeta":true,"message":{"role":"user","content":"added by a program"}}\n{"type":"user","uuid":"%s1","parentUuid":"%s0","sessionId":"%s","timestamp":"2026-05-12T22:31:00Z","message":{"role":"user","content":"prompt of %s"}}\n{"type":"assistant","uuid":"%s2","parentUuid":"%s1","sessionId":"%s","timestamp":"2026-05-12T22:32:00Z","message":{"id":"m%s","role":"assistant","content":"yes"}}\n' \
        $name ${name/c/a}${name/c/a}11 $name $name ${name/c/a}${name/c/a}11 $name $name $name ${name/c/a}${name/c/a}11 $name >"$tmp/meta-$name.jsonl"
done
"$tool" import "$tmp/stream.log" $streams/claude-partial.jsonl --from claude-code >"$tmp/out" 2>&1
sed '/"type":"result"/s/"is_error":false/"is_error":true/' $streams/claude-partial.jsonl >"$tmp/failed.jsonl"
session <<'END'
== session_of_several_stores_has_its_own_title
sessions $tmp/first.log $tmp/second.log =1> the first$ =1> the second$

== session_of_several_files_has_its_first_prompt_as_title
sessions $tmp/meta-a.jsonl $tmp/meta-b.jsonl =1> prompt of a$ =1> prompt of b$
sessions $tmp/meta-b.jsonl $tmp/first.log $tmp/meta-a.jsonl =1> prompt of a$ =1> prompt of b$ =1> the first$
view $tmp/meta-a.jsonl $tmp/meta-b.jsonl --location nobody -> 4 ^msgstore: bb11 prompt of b$
# one session in two files: its facts are those of the last one
sessions $tmp/meta-a.jsonl $tmp/meta-c.jsonl =1> prompt of c$

== session_is_found_by_the_times_that_are_known
sessions $tmp/first.log => ^2026-05-11 
sessions $tmp/first.log --since 2026-05-11 => the first
sessions $tmp/first.log --until 2026-05-12 => the first
sessions $tmp/first.log --since 2026-05-12 =0> the first -> 1 none of 1 sessions

== usage_of_an_agent_takes_the_name_that_it_prints
usage $tmp/stream.log --by agent => claude-code$
usage $tmp/stream.log --agent claude-code => ^ +3 .* in all$
usage $tmp/stream.log --agent nobody => ^ +0 .* in all$
usage $streams/claude-partial.jsonl --agent nobody => ^ +0 .* in all$

== error_of_a_failed_run_is_kept
$ "$tool" view $tmp/failed.jsonl --raw --json 2>&1 =2> "is_error":true => unknown, kept whole: 2 claude-code:result
END

exit $failed
