#!/usr/bin/env bash
# msgstore ship: shipper and server are killed (-9) at random while a log with changes is
# copied; in the end the log and the server hold the same, in the same order in each
# location, and nothing twice. Then the tool reads the server's URL, and fetch brings a
# location back.
#
#   tests/platform/postgres/ship.sh FOLDER TOOL MESSAGES ROUNDS
set -u
folder=$1 tool=$2 messages=$3 rounds=$4
server=tests/platform/postgres/server.sh
out=$folder/ship_out
mkdir -p "$out"
RANDOM=${MS_TEST_SEED:-20260101}
failed=0 given_up=0

fail()
{
    echo "ERROR: $1"
    failed=1
}

bash $server make "$folder/ship" autovacuum=off synchronous_commit=on || exit 1
url="postgresql:///postgres?host=$folder/ship&user=test"
ship()
{
    "$tool" ship "$out/a.msl" --to "$url" >"$out/log" 2>&1 &
    shipper=$!
}
sql() { psql -qAt "host=$folder/ship user=test dbname=postgres" -c "$1" 2>/dev/null; }

# Keys, times, agents, unknown members, and two writers' worth of places.
awk -v n="$messages" 'BEGIN { for (i = 1; i <= n; i++) {
    printf "{\"type\":\"%s\",\"content\":\"message %d of the log\",", \
        i % 3 ? "user_message" : "assistant_message", i
    if (i % 4 == 0) printf "\"timestamp\":%d.25,", 1700000000 + i
    if (i % 7 == 0) printf "\"agent_key\":\"w%d\",\"odd\":[1,null],", i % 5
    printf "\"location\":\"place %d\"}\n", i * i % 23 } }' >"$out/in.jsonl"
"$tool" import "$out/a.msl" "$out/in.jsonl" >/dev/null || exit 1
for seq in 5 50 500; do
    "$tool" note "$out/a.msl" $seq rating "$seq" >/dev/null || fail "note"
    "$tool" hide "$out/a.msl" $((seq + 1)) >/dev/null || fail "hide"
    "$tool" amend "$out/a.msl" $((seq + 2)) amended >/dev/null || fail "amend"
done
"$tool" location "$out/a.msl" 'place 1' '{"title":"the first"}' >/dev/null || fail facts
head -n 100 "$out/in.jsonl" >"$out/more.jsonl"
"$tool" import "$out/a.msl" "$out/more.jsonl" >/dev/null || exit 1
# Compactions: a summary, and items that only their maker reads.
"$tool" compact-context "$out/a.msl" 'place 3' --keep-tokens 200 --summary - \
    <<<'SUMMARY' >/dev/null || fail compact-context
printf '%s' '{"type":"compaction","content":"","location":"place 4","compaction":{"keep":2,' \
    '"items":[{"type":"compaction","encrypted_content":"SEALED"}]},' \
    '"signed":{"provider":"openai-responses"}}' >"$out/sealed.jsonl"
"$tool" import "$out/a.msl" "$out/sealed.jsonl" >/dev/null || fail sealed

# asked STORE PLACE: the next request of a location.
asked() { "$tool" history "$1" "$2" --format openai-responses 2>&1; }

"$tool" export "$out/a.msl" --format framework --with-location >"$out/want" 2>/dev/null
for ((round = 1; round <= rounds; round++)); do
    sql 'drop table if exists msgstore_record, msgstore_bucket, msgstore_source,
         msgstore_location, msgstore_schema'
    kills=0
    ship
    # later and later, so that it comes to an end
    while sleep "$(awk -v r=$RANDOM -v k=$kills 'BEGIN { print r / 32768 * (k + 1) / 10 }')"; do
        if ! kill -0 "$shipper" 2>/dev/null; then
            wait "$shipper" && break
            # on a busy machine a server may need more than the 30 s of a call to recover
            given_up=$((given_up + 1))
            if ((given_up > 20)) || ! grep -q 'in time\|cannot connect' "$out/log"; then
                fail "ship: $(cat "$out/log")"
                break
            fi
            ship
        elif ((RANDOM % 3 == 0)); then
            bash $server kill "$folder/ship"
            bash $server start "$folder/ship" || exit 1
        else
            kill -9 "$shipper"
            wait "$shipper" 2>/dev/null
            ship
        fi
        kills=$((kills + 1))
    done
    "$tool" ship "$out/a.msl" --to "$url" >"$out/log" 2>&1 || fail "ship: $(cat "$out/log")"
    grep -q ': 0 messages, 0 changes' "$out/log" || fail "shipped again: $(cat "$out/log")"
    # in the order of each location, whatever the order of the locations
    "$tool" export "$url" --format framework --with-location >"$out/got" 2>"$out/log"
    for file in want got; do
        sed 's/.*"location":"\([^"]*\)".*/\1\t&/' "$out/$file" | sort -s -t "	" -k 1,1 \
            >"$out/$file.sorted"
    done
    cmp -s "$out/want.sorted" "$out/got.sorted" ||
        fail "round $round: $(diff "$out/want.sorted" "$out/got.sorted" | head -n 3)"
    twice=$(sql "select count(*) - count(distinct key) from msgstore_record")
    [ "$twice" = 0 ] || fail "round $round: $twice rows twice"
    notes=$(sql "select count(*) from msgstore_record where kind = 5")
    [ "$notes" = 3 ] || fail "round $round: $notes notes"
    totals=$(sql "select sum(stored) - (select count(*) from msgstore_record
                  where kind = 1) from msgstore_bucket")
    [ "$totals" = 0 ] || fail "round $round: totals differ by $totals"
    total_kills=$((${total_kills:-0} + kills))
    echo "round $round: $kills kills, failed $failed"
done

"$tool" fetch "$url" --location 'place 3' -o "$out/b.msl" >/dev/null || fail fetch
cmp -s <("$tool" export "$out/a.msl" --location 'place 3' --format framework) \
    <("$tool" export "$out/b.msl" --location 'place 3' --format framework) ||
    fail 'fetch brings back something else'
for place in 'place 3 SUMMARY' 'place 4 SEALED'; do
    word=${place##* } place=${place% *}
    "$tool" fetch "$url" --location "$place" -o "$out/$word.msl" >/dev/null || fail fetch
    case $(asked "$out/a.msl" "$place") in *"$word"*) ;; *) fail "no $word is asked" ;; esac
    for store in "$url" "$out/$word.msl"; do
        [ "$(asked "$store" "$place")" = "$(asked "$out/a.msl" "$place")" ] ||
            fail "the request of $place is another one in $store"
    done
done
[ "$("$tool" search "$url" 'message 77 of' | grep -c 'message 77 of')" -ge 1 ] ||
    fail 'search finds nothing'
[ "$("$tool" sessions "$url" | wc -l)" -eq "$("$tool" sessions "$out/a.msl" | wc -l)" ] ||
    fail 'sessions differ'
"$tool" ship "$out/a.msl" --to "$url" --follow >"$out/log" 2>&1 &
shipper=$!
before=$(sql 'select sum(stored) from msgstore_bucket')
"$tool" import "$out/a.msl" "$out/more.jsonl" >/dev/null
for ((i = 0; i < 100; i++)); do
    [ "$(sql 'select sum(stored) from msgstore_bucket')" = $((before + 100)) ] && break
    sleep 0.1
done
((i < 100)) || fail 'follow ships nothing'
kill -TERM $shipper
wait $shipper || fail "follow: $(cat "$out/log")"

# A client that began early appends to one location. Another one is ahead of the clock, in
# another location. A follower prints each message and change once, in whatever order the
# numbers are.
coproc early { exec "$tool" append "$url" --location 'place 3'; }
early_pid=$early_PID to_early=${early[1]} from_early=${early[0]}
say() { echo "{\"type\":\"user_message\",\"content\":\"$1\"}"; }
say 'early one' >&"$to_early"
read -r -t 30 -u "$from_early" _ || fail 'append stores nothing'
# Two shippers began early, too: one has a log with a stream.
cat >"$out/streamer.c" <<'END'
#define MSGSTORE_NO_FORMATS
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"
#include <stdio.h>
int main(int argc, char **argv)
{
    ms_store *store;
    ms_stream s;
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.path = argv[argc - 1];
    desc.sync = MS_SYNC_EACH; /* what is not durable is not shipped */
    ms_envelope m = ms_assistant_message(ms_text("first part, "));
    if (ms_log_open(&store, &desc, NULL) != MS_OK ||
        ms_stream_begin(&s, store, MS_STR("place s"), &m, NULL, NULL) != MS_OK)
        return 1;
    (void)getchar();
    if (ms_stream_feed(&s, MS_STR("second part"), NULL) != MS_OK ||
        ms_stream_end(&s, NULL, NULL, NULL) != MS_OK)
        return 1;
    ms_close(store);
    return 0;
}
END
${CC:-cc} -std=c99 -pthread -I. -o "$out/streamer" "$out/streamer.c" || fail streamer
mkfifo "$out/go"
"$out/streamer" "$out/s.msl" <"$out/go" &
stream_pid=$!
exec {to_stream}>"$out/go"
say 'to be amended' | "$tool" append "$out/c.msl" --location 'place c' >"$out/log"
shippers=
for file in c s; do
    "$tool" ship "$out/$file.msl" --to "$url" --follow >"$out/log_$file" 2>&1 &
    shippers="$shippers $!"
done
for ((i = 0; i < 200; i++)); do
    [ "$(sql "select count(*) from msgstore_record
              where location in ('place c', 'place s') and kind = 1")" = 2 ] && break
    sleep 0.1
done
((i < 200)) || fail 'the early shippers ship nothing'
[ "$(sql "update msgstore_bucket set last = last + 100000 where bucket =
     (select bucket from msgstore_record where location = 'place 8' limit 1)
     returning 1")" = 1 ] || fail 'place 8 has no bucket'
say 'far ahead' | "$tool" append "$url" --location 'place 8' >"$out/ahead"
"$tool" follow "$url" -n 1 --seconds 60 >"$out/all" 2>&1 &
followers=$!
for row in 'raw --raw' 'lines --format framework'; do
    # shellcheck disable=SC2086
    "$tool" follow "$url" -n 1 --seconds 60 ${row#* } >"$out/${row%% *}" 2>&1 &
    followers="$followers $!"
done
"$tool" follow "$url" -n 1 --seconds 60 --location 'place 3' >"$out/place" 2>&1 &
followers="$followers $!"
# soon COMMAND...: waits until it succeeds, for 20 s at most.
soon()
{
    for ((i = 0; i < 200; i++)); do
        "$@" && return
        sleep 0.1
    done
    return 1
}
soon grep -q 'far ahead' "$out/all" || fail "follow: $(cat "$out/all")"
soon grep -q 'early one' "$out/place" || fail "follow: $(cat "$out/place")"
for file in raw lines; do
    soon grep -q 'far ahead' "$out/$file" || fail "follow: $(cat "$out/$file")"
done
"$tool" amend "$out/c.msl" 1 'amended early' >"$out/log" || fail amend
echo >&"$to_stream"
exec {to_stream}>&-
wait "$stream_pid" || fail 'the stream does not end'
soon grep -q '\* *amended early' "$out/all" || fail "follow misses a change: $(cat "$out/all")"
soon grep -q 'first part, second part' "$out/all" || fail "follow misses an end: $(cat "$out/all")"
soon grep -q 'amend .*amended early' "$out/raw" || fail "follow --raw: $(cat "$out/raw")"
soon grep -q 'first part, second part' "$out/lines" ||
    fail "follow in a format: $(cat "$out/lines")"
say 'early two' >&"$to_early"
read -r -t 30 -u "$from_early" number || fail 'append stores nothing'
[ "${number%% *}" -lt "$(cut -d ' ' -f 1 "$out/ahead")" ] || fail "no client is ahead: $number"
soon grep -q 'early two' "$out/all" || fail "follow misses a smaller number: $(cat "$out/all")"
soon grep -q 'early two' "$out/place" || fail "follow of a location: $(cat "$out/place")"
soon grep -q 'early two' "$out/raw" || fail "follow --raw: $(cat "$out/raw")"
say 'a new place' | "$tool" append "$url" --location 'place x' >"$out/log"
soon grep -q 'a new place' "$out/all" || fail "follow misses a location: $(cat "$out/all")"
say 'early three' >&"$to_early"
soon grep -q 'early three' "$out/all" || fail "follow: $(cat "$out/all")"
soon grep -q 'early three' "$out/place" || fail "follow: $(cat "$out/place")"
exec {to_early}>&-
wait "$early_pid"
# shellcheck disable=SC2086
kill -TERM $followers
# shellcheck disable=SC2086
wait $followers
# shellcheck disable=SC2086
kill -TERM $shippers
# shellcheck disable=SC2086
wait $shippers
[ "$(wc -l <"$out/all")" = 6 ] || fail "follow of all: $(cat "$out/all")"
[ "$(wc -l <"$out/lines")" = 5 ] || fail "follow in a format: $(cat "$out/lines")"
[ "$(sort -u "$out/raw" | wc -l)" = "$(wc -l <"$out/raw")" ] ||
    fail "follow --raw: $(cat "$out/raw")"
[ "$(wc -l <"$out/place")" = 3 ] || fail "follow of a location: $(cat "$out/place")"

# Two logs use one key for different messages: the second one is left out with its changes,
# all else is shipped, also by a run that begins after it.
row() { printf '{"type":"user_message","content":"%s","location":"keys","idempotency_key":"%s"}\n' "$@"; }
row 'of host 1' turn-1 >"$out/one.jsonl"
{ row 'of host 2' turn-1; row 'secret of host 2' turn-2; } >"$out/two.jsonl"
row 'of host 3' turn-3 >"$out/three.jsonl"
for name in one two three; do
    "$tool" import "$out/$name.msl" "$out/$name.jsonl" >/dev/null || fail import
done
"$tool" note "$out/two.msl" 1 rating 1 >/dev/null || fail note
"$tool" ship "$out/one.msl" "$out/two.msl" "$out/three.msl" --to "$url" >"$out/log" 2>&1
[ $? = 5 ] || fail "a key of two messages: $(cat "$out/log")"
grep -q 'two.msl: 1 message, 1 change shipped, 2 do not fit' "$out/log" ||
    fail "a key of two messages: $(cat "$out/log")"
"$tool" amend "$out/two.msl" 1 'of host 2, amended' >/dev/null || fail amend
"$tool" note "$out/two.msl" 2 usage '{"input_tokens":7001}' >/dev/null || fail note
"$tool" redact --raw --apply "$out/two.msl" 2 >/dev/null || fail redact
"$tool" ship "$out/two.msl" --to "$url" >"$out/log" 2>&1
[ $? = 5 ] || fail "a change that is left out: $(cat "$out/log")"
"$tool" view "$url" --location keys >"$out/got" 2>&1
for text in 'of host 1' redacted 'of host 3'; do
    grep -q "$text" "$out/got" || fail "'$text' is not on the server: $(cat "$out/got")"
done
grep -q 'host 2' "$out/got" && fail "a message that was left out reaches another one"
"$tool" view --raw "$url" --location keys >"$out/got" 2>&1
grep -q 7001 "$out/got" || fail "the usage of a redacted message: $(cat "$out/got")"
"$tool" amend "$out/one.msl" 1 "of host 1, gh""p_R7kq2ZpX9vLm4TnB8wYc3HsJ6dFgQ1aEuV5o" >/dev/null
"$tool" ship "$out/one.msl" --to "$url" >"$out/log" 2>&1 || fail "ship: $(cat "$out/log")"
"$tool" redact --secrets "$url" >"$out/got" 2>&1
grep -q ' now .* github-token' "$out/got" || fail "a secret in an amendment: $(cat "$out/got")"

# A log that has messages is not fetched into.
"$tool" import "$out/full.msl" "$out/one.jsonl" >/dev/null || fail import
"$tool" fetch "$url" --location 'place 2' -o "$out/full.msl" >"$out/log" 2>&1
[ $? = 5 ] || fail "a log that has messages is fetched into: $(cat "$out/log")"
grep -q 'full.msl: has messages; fetch writes a new log$' "$out/log" ||
    fail "a log that has messages: $(cat "$out/log")"
[ "$("$tool" view "$out/full.msl" | wc -l)" = 1 ] || fail 'fetch has changed a log'

# What cannot be read of a location is an error of fetch, also among its notes.
sql "update msgstore_record set body = '\\x00' where kind = 5 and location = 'place 2'"
"$tool" fetch "$url" --location 'place 2' -o "$out/noted.msl" >"$out/log" 2>&1
[ $? = 3 ] || fail "a damaged note is fetched: $(cat "$out/log")"

# A signal before all is shipped is an error, except with --follow, which ends so.
# cut TABLE OPTIONS...: a run of ship gets a signal while it waits for the lock of a table.
cut()
{
    table=$1
    shift
    sql "begin; lock table $table in access exclusive mode; select pg_sleep(30)" >/dev/null &
    holder=$!
    is_held() { [ -n "$(sql "select 1 from pg_locks where mode = 'AccessExclusiveLock' and
        granted and relation = '$table'::regclass")" ]; }
    is_waiting() { [ -n "$(sql 'select 1 from pg_locks where not granted limit 1')" ]; }
    soon is_held || fail 'the table is not locked'
    "$tool" ship "$@" --to "$url" >"$out/log" 2>&1 &
    shipper=$!
    soon is_waiting || fail 'the shipper does not wait'
    kill -INT $shipper
    sql "select pg_terminate_backend(pid) from pg_stat_activity where query ~ 'pg_slee[p]'" \
        >/dev/null
    wait $holder
    wait $shipper
}
sed 's/"place /"signal /' "$out/in.jsonl" >"$out/signal.jsonl"
"$tool" import "$out/signal.msl" "$out/signal.jsonl" >/dev/null || fail import
cut msgstore_record "$out/signal.msl"
[ $? = 1 ] || fail "an interrupted run: $(cat "$out/log")"
grep -q '^msgstore: interrupted before all was shipped$' "$out/log" &&
    grep -q 'signal.msl: [0-9]* messages, 0 changes shipped, interrupted before its end$' "$out/log" ||
    fail "an interrupted run: $(cat "$out/log")"
"$tool" ship "$out/signal.msl" --to "$url" >"$out/log" 2>&1 || fail "ship: $(cat "$out/log")"
grep -q interrupted "$out/log" && fail "ship: $(cat "$out/log")"
for option in '' --status; do
    # shellcheck disable=SC2086
    cut msgstore_schema "$out/signal.msl" $option
    [ $? = 1 ] || fail "interrupted before the first log: $(cat "$out/log")"
    [ "$(grep -c '^msgstore: interrupted before all was ' "$out/log")" = 1 ] ||
        fail "interrupted before the first log: $(cat "$out/log")"
done

# Damaged records that were passed are counted by each later run, one at the end is met again.
for ((i = 1; i <= 9; i++)); do
    printf '{"type":"user_message","content":"harm %d.","location":"harm"}\n' $i
done >"$out/harm.jsonl"
"$tool" import "$out/harm.msl" "$out/harm.jsonl" >/dev/null || fail import
# harm N: damages message N.
harm()
{
    at=$(grep -abo "harm $1\\." "$out/harm.msl" | head -n 1)
    printf X | dd of="$out/harm.msl" bs=1 seek="${at%%:*}" conv=notrunc 2>/dev/null
}
harm 4
harm 9
# harmed CODE TEXT OPTIONS...: what ship answers.
harmed()
{
    code=$1 text=$2
    shift 2
    "$tool" ship "$out/harm.msl" --to "$url" "$@" >"$out/log" 2>&1
    [ $? = "$code" ] && grep -q "harm.msl: .*$text" "$out/log" ||
        fail "damage, $text: $(cat "$out/log")"
}
harmed 3 '7 messages, 0 changes shipped, 2 damaged$'
harmed 3 '0 messages, 0 changes shipped, 1 damaged, 1 left out before$'
harmed 3 '0 records to ship, 1 left out' --status
say 'after it' | "$tool" append "$out/harm.msl" --location harm >/dev/null 2>&1
harmed 3 '1 message, 0 changes shipped, 1 damaged, 1 left out before$'
harmed 0 '0 messages, 0 changes shipped, 2 left out before$'
harmed 0 '0 records to ship, 2 left out' --status

# However often a run is interrupted before a damaged record, it is counted once. The log
# has no index yet, at any number of messages: an opening reads all of it, and knows of it.
last=$((messages < 3000 ? messages : 3000))
{
    head -n "$last" "$out/in.jsonl" | sed 's/"place /"cut /'
    for ((i = last + 1; i <= last + 3; i++)); do
        printf '{"type":"user_message","content":"harm %d.","location":"harm"}\n' $i
    done
} >"$out/harm.jsonl"
rm "$out/harm.msl"
"$tool" import "$out/harm.msl" "$out/harm.jsonl" >/dev/null || fail import
harm $((last + 2))
for run in 1 2; do
    cut msgstore_record "$out/harm.msl"
    [ $? = 3 ] || fail "interrupted before damage: $(cat "$out/log")"
    grep -q '^msgstore: interrupted before all was shipped$' "$out/log" &&
        grep -q '1000 messages, .*, 1 damaged, interrupted before its end$' "$out/log" ||
        fail "interrupted before damage: $(cat "$out/log")"
    harmed 3 "message ${run}000, .* 0 left out" --status
done
harmed 3 "$((last - 1998)) .* shipped, 1 damaged$"
harmed 0 '0 messages, 0 changes shipped, 1 left out before$'

# A shipper has not read the first index (kind 2) when it is damaged. The writer goes on to
# the next segment, whose number the shipper does not expect. A segment is 8 MiB.
coproc early { exec "$tool" append "$out/index.msl" --location index --sync each 2>/dev/null; }
early_pid=$early_PID to_early=${early[1]} from_early=${early[0]}
text=$(head -c 900000 /dev/zero | tr '\0' x)
# put COUNT: so many messages.
put()
{
    for ((k = 0; k < $1; k++)); do
        say "$text" >&"$to_early"
        read -r -t 30 -u "$from_early" number || fail 'append stores nothing'
    done
}
# there COUNT: so many messages are on the server.
there() { [ "$(sql "select count(*) from msgstore_record where location = 'index'")" = "$1" ]; }
put 1
"$tool" ship "$out/index.msl" --to "$url" --follow >"$out/log" 2>&1 &
shipper=$!
soon there 1 || fail "ship: $(cat "$out/log")"
kill -STOP $shipper
put 10
perl -e 'open(F, "+<", $ARGV[0]) or die; binmode F; local $/; my ($b, $at) = (<F>, 8192);
    $at += unpack("V", substr($b, $at, 4)) + 7 & ~7 while ord(substr($b, $at + 4, 1)) != 2;
    seek F, $at + 9, 0; print F "X"' "$out/index.msl"
kill -CONT $shipper
soon there 11 || fail "ship: $(cat "$out/log")"
put 12
soon there 23 || fail "a missed index: $(cat "$out/log")"
kill -TERM $shipper
wait $shipper
[ $? = 3 ] || fail "a missed index: $(cat "$out/log")"
grep -q 'index.msl: 23 messages, 0 changes shipped, 1 damaged$' "$out/log" ||
    fail "a missed index: $(cat "$out/log")"
exec {to_early}>&-
wait "$early_pid"

# What a folder has beside logs is counted; a log whose first page is damaged is one.
mkdir -p "$out/logs" "$out/no_logs"
cp "$out/harm.jsonl" "$out/logs/a.jsonl"
: >"$out/logs/empty.msl"
"$tool" import "$out/logs/page.msl" "$out/harm.jsonl" >/dev/null || fail import
printf XXXXXXXX | dd of="$out/logs/page.msl" conv=notrunc 2>/dev/null
"$tool" ship "$out/logs" "$out/no_logs" --to "$url" >"$out/log" 2>&1 || fail "a folder: $(cat "$out/log")"
grep -q 'logs: passed over 2 files which are no log, the first is .*/a.jsonl$' "$out/log" &&
    grep -q 'page.msl: ' "$out/log" && grep -q 'no_logs: there are no logs in it$' "$out/log" ||
    fail "a folder: $(cat "$out/log")"
: >"$out/empty.msl"
"$tool" ship "$out/empty.msl" "$out/logs/empty.msl" --to "$url" >"$out/log" 2>&1 ||
    fail "two empty logs: $(cat "$out/log")"

# The encoding of a database lacks a character: the message that has it is named, and those
# before it are shipped.
sql "create database koi8 encoding 'KOI8R' locale 'C' template template0"
printf '{"type":"user_message","content":"x","location":"%s"}\n' one two 日 four \
    >"$out/names.jsonl"
"$tool" import "$out/names.msl" "$out/names.jsonl" >/dev/null || fail import
"$tool" ship "$out/names.msl" --to "postgresql:///koi8?host=$folder/ship&user=test" \
    >"$out/log" 2>&1 && fail "a name that the server cannot have: $(cat "$out/log")"
grep -q 'names.msl: message 3: ' "$out/log" || fail "no message is named: $(cat "$out/log")"
grep -q 'names.msl: 2 messages, 0 changes shipped, stopped' "$out/log" ||
    fail "messages before one that cannot be shipped: $(cat "$out/log")"

"$tool" view nothing://x >/dev/null 2>&1 && fail 'a URL that is none'
bash $server stop "$folder/ship"
echo "tally: kills while shipping ${total_kills:-0}, given up by the shipper $given_up"
exit $failed
