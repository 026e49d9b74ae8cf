#!/usr/bin/env bash
# The commands of build/msgstore that change what a log shows (amend, hide, rewind, fork,
# note, location, redact), those that look for something in it (search, diff, view --raw,
# info --usage), several stores read as one, writers that wait for each other, and what
# follow shows of changes and of messages that are being written. What the changes do to a
# store is in tests/scripts.
. "$(dirname "$0")/tool_checks.sh"
log=$tmp/a.log

# holds TEXT: prints how many times $log contains it.
holds()
{
    grep -aoF -e "$1" "$log" | wc -l
}

# has PATTERN FILE: does a line of it match?
has()
{
    grep -qaE -e "$1" "$2"
}

# Six messages of one location, by the agents w and m and by none.
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

# fresh [LOCATION]: makes a new log of messages().
fresh()
{
    rm -f "$log"
    messages | "$tool" import "$log" - --location "${1:-l}" >/dev/null
}


# ---- Usage.

for number in x -1 1.5 '' 18446744073709551616; do
    session <<'END'
== number_of_a_message_is_refused_when_it_is_not_a_number
amend $log "$number" text -> 2 (number of a message|understand)
hide $log "$number" -> 2 (numbers of messages|understand)
redact $log "$number" -> 2 (number of a message|understand)
END
done
session <<'END'
== arguments_are_refused_when_they_do_not_fit
rewind $log 1 3 -> 2 two files, not 3
fork $log l 1 k x -> 2 no x
amend $log 0 text -> 2 number of a message, not 0
hide $log 0 -> 2 not 0
hide $log 4-2 -> 2 not 4-2
hide $log 4- -> 2 not 4-
hide $log 1 --wait soon -> 2 milliseconds, not soon
view $log --wait 1 -> 2 takes no option --wait
diff a b --also time -> 2 times, ids, numbers, rest, not time
diff a b --also ids,,times -> 2 not ids,,times
diff a b --location 1 --location 2 --location 3 -> 2 two --location
redact $log --apply -> 2 needs numbers of messages, or options
redact $log 1 --agent w -> 2 not both
view $log --raw --agent w -> 2 not with --conversation, --agent
view $log --raw --format openai -> 2 no message format
view $log --json --format openai -> 2 one of them
$ ls $tmp =0> \.log
END


# ---- Changes.

session <<'END'
== amend_takes_a_text_json_or_a_message
$ fresh
amend $log 1 'alpha two' => ^amended +message 1$
amend $log 4 <<<'from standard input' => .
view $log --format framework => "content":"from standard input"
amend $log 2 '{"limit":7}' => .
amend $log 2 'limit 7' -> 1 JSON object
amend $log 2 '[7]' -> 1 .
amend $log 5 'delta two' => .
amend $log 5 --json '"x"' -> 1 not with --json
amend $log 3 --json ' {"rows": [1, 2]} ' => .
view $log --format framework => "content":\{"rows":\[1,2\]\}
amend $log 3 --json '{"rows"' -> 1 no JSON: .
amend $log 3 --from framework '{"type":"observation","content":"whole","summary":"s"}' => .
view $log --format framework => "content":"whole".*"summary":"s"
amend $log 3 --from framework '{"type":"task","content":"a"}' -> 1 type
amend $log 3 --from openai '{"role":"assistant","content":"a","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}' -> 1 one message was expected, this becomes 2
amend $log 3 --json --from framework '{}' -> 2 json or --from
view $log =$1> {1..6} => ^1 .* user_message\* +alpha two$
=> ^2 .*action\* +look\(\{"limit":7\}\)$
=> ^3 .* w +observation\* +whole$
=> ^4 .* assistant_message\*
=> ^5 .*-> w: delta two$
info $log => ^messages +6, => ^changes +[1-9][0-9]* records, 0 messages hidden$

== hide_takes_numbers_and_ranges
$ fresh
hide $log 2 4 => ^hidden +2 messages$
view $log =$1> 1 3 5 6
hide $log 2 -> 4 .
hide $log 3 7 -> 4 .
view $log =$1> 1 3 5 6
amend $log 2 text -> 4 .
hide $log 2-5 6 => ^hidden +3 messages$
view $log =$1> 1
hide $log 2-5 => ^hidden +0 messages$
hide $log 2-5 --location k -> 4 there are sessions:
info $log => ^changes .* 5 messages hidden$
$ messages | "$tool" import $log - --location k
hide $log 7-9 -> 2 sessions is to be named, with --location
hide $log 1-99 --location l => ^hidden +1 message$
view $log =$1> {7..12}

== rewind_hides_what_follows_a_message
$ fresh
rewind $log 2 --dry-run => ^would hide 4 messages$
view $log =$1> {1..6}
rewind $log 2 => ^hidden +4 messages$
view $log =$1> 1 2
rewind $log 3 -> 5 hidden
append $log --location l <<<'{"type":"task","content":"on"}' => ^7$
view $log =$1> 1 2 7
rewind $log 0 --location l => ^hidden +3 messages$
info $log => ^messages +0,

== facts_of_a_location_are_set_and_shown
$ fresh
location $log l => ^\{\}$
location $log l '{"title":"T","model":"m"}' => ^set +facts of l$
location $log l '{"model":null,"n":[1]}' => .
location $log l => ^\{"title":"T","n":\[1\]\}$
location $log l - <<<'{"title":"U"}' => .
location $log l '[1]' -> 1 .
location $log l '{title' -> 1 no JSON
location $log later '{"a":1}' => .
info $log => ^locations +1$
location $log k -> 4 there are sessions:
location $log later => ^\{"a":1\}$
location $demo shop-osaka => ^\{\}$

== fork_copies_a_location_up_to_a_message
fork $log l 3 k => ^copied +3 messages to k$
view $log --location k =$1> 7 8 9 =$4> user_message action observation
location $log k => "parent":"l"
fork $log l 3 k -> 5 .

== notes_of_a_message_are_listed
$ fresh
note $log 4 rating 5 --json => ^noted +rating of message 4$
note $log 4 bookmark => .
note $log 4 remark 'well said' => .
note $log 4 remark - <<<'a long one' => .
note $log 4 =$6> rating bookmark remark remark =$7> 5 true well a
note $log 4 --json => ^\{"kind":"note","seq":4,.*"content":5,.*"type_name":"rating"
note $log 4 rating --json '{' -> 1 no JSON
note $log 9 -> 4 .

== usage_is_summed_by_location_and_agent
$ fresh
note $log 2 usage --json '{"input_tokens":100,"output_tokens":7}' => .
note $log 3 usage --json '{"input_tokens":20,"cached_tokens":9,"seconds":1.5}' => .
note $log 4 usage --json '{"output_tokens":1000,"reasoning_tokens":3}' => .
info $log --usage => ^ +3 +120 +1007 +9 +3 +1\.5 +l$
=> ^ +2 +120 +7 +9 +0 +1\.5 +l +w$
=> ^ +3 +120 +1007 +9 +3 +1\.5 +in all$
info $log --usage --json => "usage":\{"location":\[\{"location":"l","notes":3,"input_
=> "total":\{"notes":3,.*"output_tokens":1007,
hide $log 4 => .
info $log --usage => ^ +2 +120 +7 +9 +0 +1\.5 +in all$
info $log $log --usage => ^ +4 +240 +14 +18 +0 +3\.0 +in all$
info $demo --usage => ^ +0 +0 .* in all$

== redact_erases_every_version_when_it_applies
$ fresh
amend $log 1 'secret of one' => .
amend $log 3 'secret of three' => .
amend $log 3 'nothing now' => .
note $log 3 remark 'secret note' => .
$ cp $log $tmp/before.log
redact $log 1 3 => ^would erase 2 messages; --apply does it$ => ^1 .* user_message
redact $log --agent w => ^would erase 3 messages
redact $log --agent w -n 1 => ^would erase 1 message
redact $log --timeline => ^would erase 6 messages
$ cat $log == $tmp/before.log
redact $log 1 9 --apply -> 4 no message has the number 9
redact $log --location k -> 4 there are sessions:
redact $log 1 3 --apply => ^erased +2 messages$
$ for text in secret alpha nothing epsilon; do holds $text; done =$1> 0 0 0 1
view $log => ^1 .* \[redacted\]$
redact $log 1 --apply => ^erased +1 message$
amend $log 1 text -> 5 .
verify $log => ^verdict +whole$

== redact_takes_hidden_messages_when_it_is_raw
hide $log 6 => .
redact $log 6 -> 5 message 6 is hidden; --raw
redact $log --agent w => ^would erase 2 messages
redact $log --agent w --raw => ^would erase 3 messages
redact $log --agent w --raw -n 1 => ^6 .* final
redact $log --agent w --raw -n 1 --oldest => ^2 .* action
redact $log 6 --raw --apply => ^erased +1 message$
$ holds epsilon => ^0$
redact $log --timeline --raw --apply => ^erased +6 messages$
$ for text in gamma delta; do holds $text; done =$1> 0 0
$ fresh
redact $log --agent w --raw -n 1 --apply => ^erased +1 message$
$ for text in epsilon beta; do holds $text; done =$1> 0 1

== command_refuses_a_location_that_it_would_not_obey
$ fresh
$ echo '{"type":"task","content":"k1","agent_key":"w"}' | "$tool" append $log --location k => ^7$
location $log l '{"agent":"codex"}' => .
redact $log --location l --location k --apply -> 2 redact takes one --location
view $log => ^1 .* alpha$ => ^7 .* k1$
view $log --location l --location k -> 2 view takes one --location
search $log alpha --location k --session l -> 2 search takes one --location
usage $log --location l --location k -> 2 usage takes one --location
usage $log l --location k -> 2 usage takes SESSION or --location, not both
history $log l --location k --agent w -> 2 history takes SESSION or --location, not both
follow $log --location l --location k --seconds 0 -> 2 follow takes one --location
redact $log --secrets --location l --location k => ^found +0
info $log --location k -> 2 info counts all of a log
info $log --agent w -> 2 info counts all of a log
$ messages >$tmp/words; "$tool" info $tmp/words --location k --agent w => ^ +6 +[0-9]+ bytes  k$
history $log l --scope worker -> 2 history --scope is of what one agent reads
history $log l --phase 1 --format openai -> 2 history --phase is of what one agent reads

== damaged_facts_take_no_session_along
$ fresh
$ echo '{"type":"task","content":"k1"}' | "$tool" append $log --location k => ^7$
$ echo '{"type":"assistant_message","content":"k2"}' | "$tool" append $log --location k => ^8$
note $log 8 usage '{"input_tokens":7}' --json => .
location $log k '{"title":"Quux"}' => .
location $log k '{"agent":"codex"}' => .
$ LC_ALL=C sed -i 's/Quux/Quuy/' $log
usage $log --by agent => ^ +1 +7 .* codex$ -> 3 .
report $log -o $tmp/facts.html => ^wrote +8 messages -> 3 .
$ "$tool" export $log --format otlp 2>$tmp/told => ^\{"resourceSpans =2> . -> 3
sessions $log => k +codex .* k1$ =2> . -> 3 .

== redact_counts_messages_that_a_time_cannot_choose
$ fresh
$ echo '{"type":"task","content":"dated","agent_key":"w","timestamp":9}' | "$tool" append $log --location k => ^7$
redact $log --until 10 => ^would erase 1 message; -> 0 6 messages without a time left out$
redact $log --since 1 --agent w => ^would erase 1 message; -> 0 3 messages without a time left out$
redact $log --until 10 --location k => ^would erase 1 message;
hide $log 6 => .
redact $log --until 10 --agent w => ^would erase 1 message; -> 0 2 messages without a time left out$
redact $log --until 10 --agent w --raw => ^would erase 1 message; -> 0 3 messages without a time left out$
redact $log --until 10 --raw --apply => ^erased +1 message$ -> 0 6 messages without a time left out$

== raw_view_shows_changes_and_compaction_folds_them
$ fresh
amend $log 1 again => .
hide $log 3 => .
note $log 4 rating 5 --json => .
location $log l '{"title":"T"}' => .
view $log --raw =$1> {1..6} 1 - 4 - => ^1 .* message +user_message +alpha$
=> ^1 .* amend +user_message\*? +again$
=> ^- .* hide .*"first": ?3
=> ^4 .* note +rating +5$
view $log --raw -n 1 => ^- .* location
view $log --raw --json => ^\{"kind":"message","seq":2,"type":"action",.*"args":\{"limit":5,
=6> ^\{"kind":"message" =4> ^\{"kind":"(amend|hide|note|location)"
view $demo --raw => ^ 1 .* message +user_message
compact $log --dry-run => ^copied +5 messages
compact $log $log --replace => ^copied +5 messages
view $log --raw => ^4 .* note +rating +5$
$ for text in alpha beta again; do holds $text; done =$1> 0 0 1
view $log =$1> 1 2 4 5 6
location $log l => ^\{"title":"T"\}$
END


# ---- search

long=$(printf 'word %.0s' $(seq 300))
needle="{\"type\":\"task\",\"content\":\"${long}needle\\n $long\"}"
session <<'END'
== search_finds_texts_as_views_show_them
$ fresh
search $log beta => ^3 .* observation +beta$
search $log BETA => ^3 .* observation +beta$
search $log BETA --exact-case -> 1 nothing found in 
search $log nowhere -> 1 nothing found in 
search $log '' -> 1 .
search $log beta -C 1 --json -> 2 -C prints rows
search $log beta -C 1 --format framework -> 2 -C prints rows
search $log look => ^2 .* action +tool: look$
search $log '"limit":5' => args: \{"limit":5
search $log delta => task: delta$
search $log l --all-fields =$1> {6..1}
search $log TA --oldest =$1> 3 5
search $log a -n 2 =2>
search $log alpha --agent w -> 1 nothing found in 
search $log alpha --location k -> 4 there are sessions:
search $log beta --format framework => ^\{"type":"observation","content":"beta"
search - ab --all <<<'{"type":"task","content":"ab ab xxx ab"}' =3>
search - needle <<<$needle => … ?(word )+needle (word )+.*…$ => ^.{165,200}$
search - 'a "b"' <<<'{"type":"task","content":{"say":"a \"b\" \u00e9t\u00e9"}}' => ^1
search - été <<<'{"type":"task","content":{"say":"a \"b\" \u00e9t\u00e9"}}' => ^1
search - needle <<<'{"type":"task","content":"a\u001b[31mred needle"}' => ␛\[31mred needle$
amend $log 3 zeta => .
search $log zeta => ^3 .* zeta$
search $log beta -> 1 nothing found in 
hide $log 3 => .
search $log zeta -> 1 nothing found in 
END


# ---- diff

# against SED [OPTIONS]: compares the log with a changed copy of its messages.
against()
{
    messages | sed -E "$1" >"$tmp/c.jsonl"
    shift
    "$tool" diff "$log" "$tmp/c.jsonl" "$@"
}

fresh
cp "$log" "$tmp/b.log"
messages >"$tmp/b.jsonl"
printf '{"type":"task","content":"%sLEFT%s"}' "$long" "$long" >"$tmp/1.jsonl"
printf '{"type":"task","content":"%sRIGHT%s"}' "$long" "$long" >"$tmp/2.jsonl"
a=$log c=$tmp/c.jsonl
session <<'END'
== diff_names_the_first_difference
diff $log $tmp/b.log => ^equal, 6 messages$
diff $log $tmp/b.jsonl => ^equal, 6 messages$
diff $log $tmp/b.jsonl --also ids => message 1 \(user_message\) differs in location$ -> 1
$ against 's/\{"limit":5,"of":\["x"\]\}/{ "of": ["x"], "limit": 5.0 }/' => ^equal, 6
$ against 's/beta/bets/' => ^message 3 \(observation of w\) differs in content$ -> 1
=> ^A  number 3: beta$ => ^B  number 3: bets$
diff $a $c --conversation => ^equal, 2 messages$
diff $a $c --agent w => ^message 2  -> 1
diff $c $a => ^B  number 3: beta$ -> 1
$ against 's/"limit":5/"limit":6/' => differs in args\.limit$ => ^B  number 2: 6$ -> 1
$ against 's/"x"/"y"/' => differs in args\.of\[0\]$ -> 1
$ against 's/"x"/"x","y"/' => differs in args\.of\[1\]$ => ^A  number 2: \(nothing\)$ -> 1
$ against 's/,"of":\["x"\]//' => differs in args\.of$ -> 1
$ against 's/(beta","agent_key":")w/\1v/' => message 3 .* differs in agent_key$ -> 1
$ against 's/final/task/' => message 6 \(final of w\) differs in type$ -> 1
$ against 6d => ^message 6 is only in A; B ends after 5$ -> 1
$ against 6p => ^message 7 is only in B; A ends after 6$ -> 1
$ against 's/"type"/"timestamp":5,"type"/' => ^equal
diff $a $c --also times => message 1 .* differs in time$ -> 1
diff $a $c --also times,ids => message 1 .* differs in location$ -> 1
$ against 's/alpha"/alpha","extra_member":1/' --lenient => ^equal
diff $a $c --lenient --also rest => message 1 .* differs in source -> 1
diff $tmp/1.jsonl $tmp/2.jsonl => ^A  number 1: ….* word LEFTword .*…$ -> 1

== diff_compares_large_integers_by_their_digits
$ numbers() { printf '{"type":"action","tool":"t","args":{"k":%s}}\n' $1 >$tmp/n1; printf '{"type":"action","tool":"t","args":{"k":%s}}\n' $2 >$tmp/n2; "$tool" diff $tmp/n1 $tmp/n2; }
$ numbers 12345678901234567890 12345678901234567891.0 => differs in args.k$ -> 1
$ numbers 12345678901234567890 -12345678901234567890.0 => differs in args.k$ -> 1
$ numbers 12345678901234567890 0.01234567890123456789e21 => ^equal
$ numbers 10000000000000000000000 1e22 => ^equal
$ numbers 1 1.0 => ^equal
diff - - -> 2 standard input once

== diff_compares_locations_and_standard_input
fork $log l 4 k => .
diff $log $log --location l --location k => ^message 5 is only in A; B ends after 4$ -> 1
diff $log $log --location l --location k --also numbers => differs in number$ -> 1
view $log --location j -> 4 there are sessions:
diff $log $log --location l --location j -> 2 there are sessions:
$ messages >$c
diff $log - <$c => ^message 7 is only in A -> 1
diff --strict $log - <<<'{"type":"task"' -> 2 line 2

== damage_is_reported_beside_what_is_whole
$ LC_ALL=C sed 's/gamma/gamna/' $log >$tmp/bad.log
diff $tmp/bad.log $log => . -> 2 damaged
diff $log $tmp/bad.log => . -> 2 damaged
search $tmp/bad.log epsilon => ^6 .* epsilon$ -> 3 damaged
search $tmp/bad.log nowhere -> 3 damaged
search - nowhere <<<$'{"type":"task","content":"a"}\n{"type":' -> 3 line 2
view $tmp/bad.log --raw => ^6 .* epsilon$ -> 3 damaged
view $tmp/bad.log $log => ^ 1:6 .* epsilon$ -> 3 damaged

== what_is_whole_is_summed_when_a_message_is_damaged
note $log 2 usage --json '{"input_tokens":100,"output_tokens":7}' => .
$ LC_ALL=C sed 's/gamma/gamna/' $log >$tmp/bad.log
sessions $tmp/bad.log => l +- +- +5 +107  -> 3 damaged
sessions $tmp/bad.log --grep epsilon => l +- +- +5 +107  -> 3 damaged
usage $tmp/bad.log => ^ +1 +100 .* in all$ -> 3 damaged
usage $tmp/bad.log --json => "total":.*"input_tokens":100, -> 3 damaged
info $tmp/bad.log --usage => ^ +1 +100 .* in all$ -> 3 skipped
info $tmp/bad.log --usage --json => "total":\{"notes":1,"input_tokens":100, -> 3 skipped

== what_is_left_is_counted_when_the_newest_message_of_a_segment_is_damaged
$ pad=$(head -c 600000 /dev/zero | tr '\0' x); rm -f $tmp/big.log
$ for i in {1..20}; do echo '{"type":"task","content":"word'$i' '$pad'"}'; done >$c
import $tmp/big.log $c --location l => .
append $tmp/big.log --location k <<<'{"type":"task","content":"a"}' => .
sessions $tmp/big.log => ^- +l +- +- +20 =2> .
$ LC_ALL=C sed 's/word20 /wore20 /' $tmp/big.log >$tmp/bad.log
sessions $tmp/bad.log => ^- +l +- +- +19 =2> . -> 3 damaged
$ rm $tmp/big.log; messages >$c

== messages_are_counted_when_a_hidden_one_is_damaged
$ rm $log; sed 's/}$/,"timestamp":5}/' $c | "$tool" import $log - --location l >/dev/null
hide $log 4 => .
$ LC_ALL=C sed 's/gamma/gamna/' $log >$tmp/bad.log
info $tmp/bad.log => ^times .*, 0 messages without$ => ^messages   5, -> 3 *
info $tmp/bad.log --json => ^\{"messages":5,.*"without_time":0, -> 3 *
END


# ---- Several stores as one

fresh one
two=$tmp/two.jsonl three=$tmp/three.jsonl
printf '%s\n' '{"type":"task","content":"early","timestamp":10}' \
    '{"type":"task","content":"late","timestamp":30}' >"$two"
printf '%s\n' '{"type":"task","content":"middle","timestamp":20}' \
    '{"type":"task","content":"last","timestamp":40}' >"$three"
session <<'END'
== several_stores_are_read_as_one
view $two $three =$1> 1:1 2:1 1:2 2:2 =$6> early middle late last
view $two $three --by-store =$1> 1:1 1:2 2:1 2:2
view $two $three -n 2 =$1> 1:2 2:2
view $two $three -n 3 --oldest =$1> 1:1 2:1 1:2
view $two $three --since 25 =$1> 1:2 2:2
view $two =$1> 1 2
view $two $three --location three => ^2:1 .* middle$
view $log $log --location x -> 4 there are sessions:
view $two $tmp/no.log -> 4 no\.log
view $two $three --format framework => "content":"late"
search $two $three middle => ^2:1 .* middle$
search $two $three la =$1> 2:2 1:2
info $two $log $three => ^messages +10,
info $two $log $three --json => ^\{"messages":10,
view $two $log --raw => ^2:6 .* message +final
info $log $log => ^messages +12,
END


# ---- Writers that wait for each other

fresh
mkfifo "$tmp/held" "$tmp/pipe"
"$tool" append "$log" --location l --wait 20000 2>/dev/null <"$tmp/held" &
writer=$!
exec 7>"$tmp/held" # the writer has the log until this is closed
check_busy()
{
    "$tool" note "$log" 1 asked >/dev/null 2>"$tmp/err"
    [ $? -eq 6 ]
}
soon check_busy || fail busy_found "nobody has the log"
session <<'END'
== writer_waits_for_another_as_long_as_it_is_told
amend $log 2 '{}' -> 6 .
note $log 2 rating -> 6 .
redact $log 2 --apply -> 6 .
note $log 2 rating --wait 100 -> 6 .
search $log gamma => .
# The pipe is held for so long.
$ sleep 0.3 & exec 7>&-
note $log 2 rating --wait 60000 => ^noted
END
wait "$writer"

fresh
"$tool" append "$log" --location l --shared <"$tmp/pipe" >"$tmp/numbers" &
writer=$!
exec 9>"$tmp/pipe"
echo '{"type":"task","content":"one"}' >&9
soon has '^7$' "$tmp/numbers" || fail shared_first "nothing was appended"
session <<'END'
== writers_append_in_turn_when_they_share
amend $log 1 beside --shared => ^amended
append $log --location l --shared <<<'{"type":"task","content":"two"}' => ^8$
$ echo '{"type":"task","content":"three"}' >&9; exec 9>&-; wait $writer
$ cat $tmp/numbers =$1> 7 9
view $log =9>
verify $log => ^verdict +whole$
END


# ---- follow: changes, and messages that are being written

# A program that streams: two parts, then the end; the second message it leaves as it is.
cat >"$tmp/streamer.c" <<'END'
#define MSGSTORE_NO_FORMATS
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
soon has '"kind":"part","seq":8,.*"second part"' "$tmp/raw" ||
    fail follow_waits "no part"
"$tool" append "$log" --location l <<<'{"type":"task","content":"omega"}' >/dev/null
for file in follow raw lines; do
    soon has omega "$tmp/$file" || fail "follow_${file}_ends" "$(tail -n 1 "$tmp/$file")"
done
sleep 0.2
# shellcheck disable=SC2086
kill -TERM $followers
# shellcheck disable=SC2086
wait $followers
session <<'END'
== follow_shows_changes_and_streamed_messages
$ cat $tmp/follow =1> ^4 .* assistant_message\* .*gamma two$
=1> ^- .* hide .*"first": ?5
=1> ^7 .* assistant_message\* .*first part, second part$
=1> ^8 .* assistant_message~
=0> rating

== follow_shows_each_record_once_when_it_is_raw
$ sort -u $tmp/raw | comm -3 - <(sort $tmp/raw) =0>
$ cat $tmp/raw =4> "kind":"part"
$ sed -nE '7,9s/^\{"kind":"([a-z]+)".*/\1/p' $tmp/raw =$1> amend hide note

== follow_shows_whole_messages_when_it_has_a_format
$ cat $tmp/lines =8>  =1> first part, second part

== view_marks_a_message_that_is_not_finished
view $log => ^8 .* assistant_message~ +first part, second part$
=> ^7 .* assistant_message\* +first part, second part$
search $log 'second part' -n 1 => ^8
END


# A program that does what each line says, and answers with a line: say TEXT; begin a
# streamed message, end it; amend message 1; rewrite the log; copy it for that, place it.
cat >"$tmp/writer.c" <<'END'
#define MSGSTORE_NO_FORMATS
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"
#include <stdio.h>
int main(int argc, char **argv)
{
    ms_store *store;
    ms_error err;
    ms_log_desc desc;
    ms_stream s;
    ms_rewrite w;
    bool more = true;
    char line[100];
    memset(&desc, 0, sizeof desc);
    memset(&w, 0, sizeof w);
    desc.path = argv[argc - 1];
    ms_result code = ms_log_open(&store, &desc, &err);
    while (code == MS_OK && scanf(" %99[^\n]", line) == 1) {
        ms_envelope m = ms_user_message(ms_text(line));
        if (strcmp(line, "begin") == 0) {
            m = ms_assistant_message(ms_text("first part, "));
            code = ms_stream_begin(&s, store, MS_STR("l"), &m, NULL, &err);
        } else if (strcmp(line, "end") == 0) {
            code = ms_stream_feed(&s, MS_STR("second part"), &err);
            if (code == MS_OK) code = ms_stream_end(&s, NULL, NULL, &err);
        } else if (strcmp(line, "amend") == 0) {
            m = ms_user_message(ms_text("first, amended"));
            code = ms_amend(store, 1, &m, &err);
        } else if (strcmp(line, "hide") == 0) {
            code = ms_hide(store, 2, &err);
        } else if (strcmp(line, "rewrite") == 0) {
            code = ms_log_rewrite(store, &desc, true, NULL, NULL, &err);
            ms_close(store);
            if (code == MS_OK) code = ms_log_open(&store, &desc, &err);
        } else if (strcmp(line, "copy") == 0) {
            w.source = store;
            w.to = &desc;
            w.replace = true;
            while (code == MS_OK && more) code = ms_rewrite_run(&w, 1000, &more, &err);
        } else if (strcmp(line, "place") == 0) {
            ms_store *fresh;
            code = ms_rewrite_end(&w, &fresh, &err);
            ms_close(store);
            store = fresh;
        } else {
            code = ms_append(store, MS_STR("l"), &m, NULL, &err);
        }
        puts(code == MS_OK ? "done" : err.message);
        fflush(stdout);
    }
    ms_close(store);
    return 0;
}
END
if ! ${CC:-cc} -std=c99 -O0 -pthread -I. -o "$tmp/writer" "$tmp/writer.c" \
    >"$tmp/err" 2>&1; then
    fail writer "$(grep -m 1 error "$tmp/err")"
fi

# writes LINE...: the writer does it.
writes()
{
    local line got
    for line in "$@"; do
        echo "$line" >&"${writer[1]}"
        read -r -t 20 -u "${writer[0]}" got
        [ "$got" = done ] || fail "writer_$line" "$got"
    done
}

# follows TEST WAY ROWS TEXTS: what changes after a later message was shown is shown; so is
# what changes and comes just before the log is replaced (WAY: rewrite, compact), and what
# changes while it is copied (copy) is shown once.
follows()
{
    local way=$2 rows=$3 texts=$4 file row followers
    rm -f "$log"
    coproc writer { exec "$tmp/writer" "$log"; }
    pid=$writer_PID input_of=${writer[1]}
    writes first
    followers=
    for row in rows 'lines --format framework'; do
        file=$way${row%% *}
        # shellcheck disable=SC2086
        "$tool" follow "$log" --seconds 30 ${row#"${row%% *}"} >"$tmp/$file" 2>&1 &
        followers="$followers $!"
        soon has first "$tmp/$file" || fail "${file}_begins" "$(tail -n 1 "$tmp/$file")"
    done
    writes begin middle
    for file in rows lines; do soon has middle "$tmp/$way$file"; done
    # shellcheck disable=SC2086
    case $way in rewrite | compact) kill -STOP $followers ;; esac
    if [ "$way" = copy ]; then
        writes fourth
        for file in rows lines; do soon has fourth "$tmp/$way$file"; done
        writes copy end amend
        soon has amended "$tmp/${way}rows"
        writes place
        sleep 0.5
        writes late last
        exec {input_of}>&-
        wait "$pid"
    else
        writes end amend fourth late
    fi
    if [ "$way" = compact ]; then
        exec {input_of}>&-
        wait "$pid"
        "$tool" compact "$log" "$log" --keep-last 1 --replace >"$tmp/acks"
        "$tool" append "$log" --location l <<<'{"type":"task","content":"last"}' >"$tmp/acks"
    elif [ "$way" != copy ]; then
        [ "$way" = later ] || writes rewrite
        writes last
        exec {input_of}>&-
        wait "$pid"
    fi
    # shellcheck disable=SC2086
    kill -CONT $followers
    for file in rows lines; do
        soon has last "$tmp/$way$file" || fail "${way}_$file" "$(tail -n 1 "$tmp/$way$file")"
    done
    # shellcheck disable=SC2086
    kill -TERM $followers
    # shellcheck disable=SC2086
    wait $followers
    same "${1}_and_ends" 0 $?
    session <<END
== $1
\$ cat $tmp/${way}rows =\$1> $rows
=> ^1 .* user_message\\* .*first, amended\$
=1> ^2 .* assistant_message\\* .*first part, second part\$
\$ sed 's/.*"content":"//; s/[ "].*//' $tmp/${way}lines =\$1> $texts
\$ cat $tmp/${way}lines =1> "first part, second part"
END
}
follows follow_shows_changes_of_older_messages later \
    '1 2 3 2 1 4 5 6' 'first middle first fourth late last'
follows follow_shows_changes_that_a_rewrite_takes_in rewrite \
    '1 2 3 2 1 4 5 6' 'first middle first fourth late last'
follows follow_shows_messages_that_a_compaction_drops compact \
    '1 2 3 2 1 4 5 6' 'first middle first fourth late last'
follows follow_shows_changes_that_a_rewrite_copies_once copy \
    '1 2 3 4 2 1 5 6' 'first middle fourth first late last'

# An amendment back to a text that was shown before a compaction; two between two looks.
fresh
"$tool" follow "$log" -n 1 --seconds 30 >"$tmp/follow" 2>"$tmp/told" &
follower=$!
soon lines 1 "$tmp/follow"
for text in open closed; do
    "$tool" amend "$log" 1 "$text" >"$tmp/acks"
    soon has "$text" "$tmp/follow"
done
"$tool" compact "$log" "$log" --replace >"$tmp/acks"
"$tool" amend "$log" 1 open >"$tmp/acks"
soon lines 4 "$tmp/follow"
kill -STOP "$follower"
for text in three four; do "$tool" amend "$log" 4 "$text" >"$tmp/acks"; done
kill -CONT "$follower"
"$tool" amend "$log" 6 last >"$tmp/acks"
soon has last "$tmp/follow"
kill -TERM "$follower"
wait "$follower"
session <<'END'
== follow_shows_a_change_that_repeats_an_earlier_one
$ sed 1d $tmp/follow =5> . =2> open$ =1> closed$ =1> last$
$ cat $tmp/told =0>

== follow_shows_a_message_once_in_a_look
$ cat $tmp/follow =0> three$ =1> four$
END

# A stream that began before the newest ten; one that is hidden; one that an older file
# lacks.
rm -f "$log"
coproc writer { exec "$tmp/writer" "$log"; }
pid=$writer_PID input_of=${writer[1]}
writes first begin a b c d e f g h i j k
"$tool" follow "$log" --format framework --seconds 30 >"$tmp/lines" 2>"$tmp/told" &
follower=$!
soon has k "$tmp/lines"
writes end amend last
soon has last "$tmp/lines"
session <<'END'
== follow_shows_the_end_of_a_stream_from_before_it_began
$ cat $tmp/lines =12> . =1> first part, second part
END
kill -TERM "$follower"
wait "$follower"
exec {input_of}>&-
wait "$pid"
rm -f "$log"
coproc writer { exec "$tmp/writer" "$log"; }
pid=$writer_PID input_of=${writer[1]}
writes first
cp "$log" "$tmp/copy.log"
writes begin
"$tool" follow "$log" --format framework --seconds 30 >"$tmp/lines" 2>"$tmp/told" &
follower=$!
soon lines 1 "$tmp/lines"
writes hide third
soon has third "$tmp/lines"
writes rewrite
sleep 0.3
writes fourth
soon has fourth "$tmp/lines"
session <<'END'
== follow_forgets_a_stream_that_was_hidden
$ cat $tmp/told =0>
END
writes begin fifth
soon has fifth "$tmp/lines"
mv "$tmp/copy.log" "$log"
soon has lacks "$tmp/told"
kill -TERM "$follower"
wait "$follower"
exec {input_of}>&-
wait "$pid"
session <<'END'
== follow_tells_of_a_stream_that_is_gone
$ cat $tmp/told =1> the new file lacks 1 message that began to be written$
=1> an older file is there now: it has messages up to 1, not 6$
END

exit "$failed"
