#!/usr/bin/env bash
# msgstore ship where data could be lost without an error: two hosts with one key, numbers
# that were used before, a server that went back, logs that appear, are damaged, are
# compacted, or have a tail that no sync has made durable.
#
#   tests/platform/postgres/fleet.sh FOLDER TOOL [TEST ...]
set -u
folder=$1 tool=$2
shift 2
server=tests/platform/postgres/server.sh
out=$folder/fleet_out
mkdir -p "$out"
failed=0

fail()
{
    echo "ERROR: $test: $1"
    failed=1
}

bash $server make "$folder/fleet" autovacuum=off synchronous_commit=on fsync=off || exit 1
url="postgresql:///postgres?host=$folder/fleet&user=test"
sql() { psql -qAt "host=$folder/fleet user=test dbname=postgres" -c "$1"; }

# put LOG TEXT LOCATION [KEY]: one more message.
put()
{
    printf '{"type":"user_message","content":"%s","location":"%s"%s}\n' "$2" "$3" \
        "${4:+,\"idempotency_key\":\"$4\"}" >"$out/put.jsonl"
    "$tool" import "$1" "$out/put.jsonl" >/dev/null || fail "import into $1"
}

# ship ARGUMENT...: once; exit code in $code, output in $out/log.
ship()
{
    "$tool" ship "$@" --to "$url" >"$out/log" 2>&1
    code=$?
}

# has LOCATION TEXT...: the texts of a location on the server, in this order, and no more.
has()
{
    where=$1
    shift
    "$tool" export "${from:-$url}" --location "$where" --format framework 2>/dev/null |
        sed -n 's/.*"content":"\([^"]*\)".*/\1/p' >"$out/has"
    { [ $# = 0 ] || printf '%s\n' "$@"; } | cmp -s - "$out/has"
}
must_have() { has "$@" || fail "$1 has: $(tr '\n' '|' <"$out/has"), wanted: $*"; }

# soon COMMAND...: waits until it succeeds, for 20 s at most.
soon()
{
    for ((i = 0; i < 100; i++)); do
        "$@" && return
        sleep 0.2
    done
    return 1
}
follow()
{
    "$tool" ship "$@" --to "${to:-$url}" --follow >"$out/follow" 2>&1 &
    shipper=$!
}
unfollow()
{
    kill -TERM $shipper
    wait $shipper
    code=$?
}

# Host 2 uses host 1's key for another message: neither that nor a redaction of it reaches
# host 1's message, in the same run or a later one. The report names the message.
a_change_reaches_only_its_own_source()
{
    put "$out/k1.msl" 'text of host 1' keys turn-1
    put "$out/k2.msl" 'text of host 2' keys turn-1
    ship "$out/k1.msl"
    [ $code = 0 ] || fail "ship: $(cat "$out/log")"
    ship "$out/k2.msl"
    [ $code != 0 ] || fail 'a message is left out, and the exit code is 0'
    grep -q 'k2.msl.*message 1\b' "$out/log" || fail "no name: $(cat "$out/log")"
    "$tool" redact --raw --apply "$out/k2.msl" 1 >/dev/null || fail redact
    ship "$out/k2.msl"
    must_have keys 'text of host 1'
    [ $code != 0 ] || fail 'a redaction is left out, and the exit code is 0'
    "$tool" hide "$out/k2.msl" 1 >/dev/null
    ship "$out/k2.msl"
    must_have keys 'text of host 1'
}

# An older copy of a log is written to: its numbers are used again.
numbers_used_before_stop_the_shipper()
{
    put "$out/n.msl" n1 numbers
    cp "$out/n.msl" "$out/n.old"
    put "$out/n.msl" n2 numbers
    ship "$out/n.msl"
    [ $code = 0 ] || fail "ship: $(cat "$out/log")"
    cp "$out/n.old" "$out/n.msl"
    ship "$out/n.msl"
    [ $code != 0 ] || fail "the log ends before the position: $(cat "$out/log")"
    put "$out/n.msl" 'another n2' numbers
    put "$out/n.msl" n3 numbers
    ship "$out/n.msl"
    [ $code != 0 ] || fail "message 2 is another one: $(cat "$out/log")"
    grep -q 'n.msl.*message 2\b' "$out/log" || fail "no name: $(cat "$out/log")"
    must_have numbers n1 n2
    # so does a copy whose position was lost
    sql 'delete from msgstore_source'
    ship "$out/n.msl"
    [ $code != 0 ] || fail "message 2 is another one, without a position: $(cat "$out/log")"
    must_have numbers n1 n2
}

# A copy has another message at the position, and it is redacted there: nothing is left to
# compare, so an earlier message is.
a_redacted_message_proves_nothing()
{
    put "$out/w.msl" w1 redacted
    cp "$out/w.msl" "$out/w1.msl"
    for i in 2 3; do put "$out/w.msl" "w$i" redacted; done
    ship "$out/w.msl"
    for i in 2 3 4; do put "$out/w1.msl" "other w$i" redacted; done
    "$tool" redact --raw --apply "$out/w1.msl" 3 >/dev/null || fail redact
    ship "$out/w1.msl"
    [ $code = 5 ] && grep -q 'w1.msl: message 3: .*another message' "$out/log" ||
        fail "a copy: $code $(cat "$out/log")"
    must_have redacted w1 w2 w3
    "$tool" redact --raw --apply "$out/w.msl" 3 >/dev/null || fail redact
    put "$out/w.msl" w4 redacted
    ship "$out/w.msl"
    [ $code = 0 ] || fail "ship: $(cat "$out/log")"
    must_have redacted w1 w2 '[redacted]' w4
    # also one that was changed, shipped, and then redacted and hidden
    "$tool" amend "$out/w.msl" 4 'w4 amended' >/dev/null || fail amend
    ship "$out/w.msl"
    "$tool" redact --raw --apply "$out/w.msl" 4 >/dev/null || fail redact
    "$tool" hide "$out/w.msl" 4 >/dev/null || fail hide
    ship "$out/w.msl"
    [ $code = 0 ] || fail "redacted and hidden: $(cat "$out/log")"
    must_have redacted w1 w2 '[redacted]'
}

# Two copies of a log are changed, and have no new messages: the one that ships later stops,
# whether it has more changes than the other, as many, or fewer.
changes_of_a_copy_stop_the_shipper()
{
    put "$out/v.msl" v1 copies
    put "$out/v.msl" v2 copies
    ship "$out/v.msl"
    for n in 1 2 3; do cp "$out/v.msl" "$out/v$n.msl"; done
    "$tool" amend "$out/v.msl" 1 'v1 amended' >/dev/null || fail amend
    "$tool" note "$out/v.msl" 2 rating 1 >/dev/null || fail note
    ship "$out/v.msl"
    [ $code = 0 ] || fail "ship: $(cat "$out/log")"
    "$tool" amend "$out/v1.msl" 1 'v1 of 1' >/dev/null || fail amend
    for n in 2 3; do
        "$tool" amend "$out/v$n.msl" 1 'v1 amended' >/dev/null || fail amend
        "$tool" amend "$out/v$n.msl" 2 "v2 of $n" >/dev/null || fail amend
    done
    "$tool" redact --raw --apply "$out/v3.msl" 2 >/dev/null || fail redact
    for n in 1 2 3; do
        ship "$out/v$n.msl"
        [ $code = 5 ] && grep -q "v$n.msl: message 2: .*other changes after it" "$out/log" ||
            fail "copy $n: $code $(cat "$out/log")"
        must_have copies 'v1 amended' v2
    done
    "$tool" amend "$out/v.msl" 2 'v2 amended' >/dev/null || fail amend
    "$tool" redact --raw --apply "$out/v.msl" 1 >/dev/null || fail redact
    ship "$out/v.msl"
    [ $code = 0 ] || fail "ship: $(cat "$out/log")"
    must_have copies '[redacted]' 'v2 amended'
    ship "$out/v.msl"
    grep -q ': 0 messages, 0 changes shipped$' "$out/log" || fail "again: $(cat "$out/log")"
}

# A message is amended with a text that it had before.
an_earlier_text_comes_back()
{
    put "$out/t.msl" t1 texts
    put "$out/t.msl" t2 texts t-key
    for text in X Y X Y; do
        "$tool" amend "$out/t.msl" 1 "$text" >/dev/null || fail amend
        "$tool" amend "$out/t.msl" 2 "$text" >/dev/null || fail amend
        ship "$out/t.msl"
        [ $code = 0 ] || fail "ship: $(cat "$out/log")"
        must_have texts "$text" "$text"
    done
    # once more after a compaction, which leaves the last text alone
    "$tool" amend "$out/t.msl" 1 X >/dev/null || fail amend
    "$tool" amend "$out/t.msl" 2 X >/dev/null || fail amend
    "$tool" compact "$out/t.msl" "$out/t.msl" --replace >/dev/null || fail compact
    ship "$out/t.msl"
    [ $code = 0 ] || fail "ship compacted: $(cat "$out/log")"
    must_have texts X X
    # and all at once, also from the beginning
    put "$out/t3.msl" t3 texts3
    for text in X Y X; do "$tool" amend "$out/t3.msl" 1 "$text" >/dev/null || fail amend; done
    ship "$out/t3.msl"
    must_have texts3 X
    sql 'delete from msgstore_source'
    ship "$out/t3.msl"
    [ $code = 0 ] || fail "ship from the beginning: $(cat "$out/log")"
    must_have texts3 X
}

# A message is hidden, and a compaction forgets it and its key. The next message with that
# key is shipped, and so is what is changed of it. That of a copy is not: its number, or that
# of another message of the copy, is the hidden message's.
a_forgotten_key_is_used_again()
{
    put "$out/y.msl" y1 forgotten
    put "$out/y.msl" y2 forgotten turn-7
    ship "$out/y.msl"
    cp "$out/y.msl" "$out/y1.msl"
    "$tool" hide "$out/y.msl" 2 >/dev/null || fail hide
    ship "$out/y.msl"
    must_have forgotten y1
    "$tool" compact "$out/y.msl" "$out/y.msl" --replace >/dev/null || fail compact
    put "$out/y.msl" y3 forgotten turn-7
    ship "$out/y.msl"
    [ $code = 0 ] || fail "ship: $code $(cat "$out/log")"
    must_have forgotten y1 y3
    "$tool" amend "$out/y.msl" 3 'y3 amended' >/dev/null || fail amend
    ship "$out/y.msl"
    [ $code = 0 ] || fail "ship a change: $code $(cat "$out/log")"
    must_have forgotten y1 'y3 amended'
    put "$out/y1.msl" y4 forgotten
    ship "$out/y1.msl"
    [ $code = 5 ] && grep -q 'y1.msl: message 2: .*with this key' "$out/log" ||
        fail "the log before it: $code $(cat "$out/log")"
    must_have forgotten y1 'y3 amended'
    "$tool" redact --raw --apply "$out/y.msl" 3 >/dev/null || fail redact
    sql 'delete from msgstore_source'
    ship "$out/y.msl"
    [ $code = 0 ] || fail "ship from the beginning: $code $(cat "$out/log")"
    must_have forgotten y1 '[redacted]'
    put "$out/z.msl" z1 forgotten2
    cp "$out/z.msl" "$out/z1.msl"
    put "$out/z.msl" z2 forgotten2 turn-8
    "$tool" hide "$out/z.msl" 2 >/dev/null || fail hide
    ship "$out/z.msl"
    put "$out/z1.msl" 'other z2' forgotten2 turn-8
    "$tool" compact "$out/z1.msl" "$out/z1.msl" --replace >/dev/null || fail compact
    ship "$out/z1.msl"
    [ $code = 5 ] && grep -q 'z1.msl: message 2: .*another message' "$out/log" ||
        fail "a copy: $code $(cat "$out/log")"
    must_have forgotten2 z1
    # also where the hide was not shipped, and the message stays
    put "$out/z.msl" z3 forgotten2 turn-9
    ship "$out/z.msl"
    "$tool" hide "$out/z.msl" 3 >/dev/null || fail hide
    "$tool" compact "$out/z.msl" "$out/z.msl" --replace >/dev/null || fail compact
    put "$out/z.msl" z4 forgotten2 turn-9
    "$tool" amend "$out/z.msl" 4 'z4 amended' >/dev/null || fail amend
    ship "$out/z.msl"
    [ $code = 0 ] || fail "hidden, and not shipped: $code $(cat "$out/log")"
    must_have forgotten2 z1 z3 'z4 amended'
    # and where another message has the number
    put "$out/z2.msl" z1 forgotten3
    cp "$out/z2.msl" "$out/z3.msl"
    put "$out/z2.msl" z2 forgotten3 turn-8
    ship "$out/z2.msl"
    put "$out/z3.msl" z3 forgotten3 turn-9
    put "$out/z3.msl" z4 forgotten3 turn-8
    "$tool" compact "$out/z3.msl" "$out/z3.msl" --replace >/dev/null || fail compact
    ship "$out/z3.msl"
    [ $code = 5 ] && grep -q 'z3.msl: message 3: .*with this key' "$out/log" ||
        fail "another copy: $code $(cat "$out/log")"
    ship "$out/z2.msl"
    [ $code = 0 ] || fail "not the copy: $code $(cat "$out/log")"
}

# A log is compacted while its shipper waits for the server: it goes on with the new file.
a_compaction_amid_shipping_is_no_conflict()
{
    put "$out/q1.msl" q1 amid turn-1
    ship "$out/q1.msl"
    put "$out/q2.msl" 'another q1' amid turn-1
    put "$out/q2.msl" q2 amid
    sql 'begin; select from msgstore_bucket for update; select pg_sleep(3); commit' &
    sleep 1
    "$tool" ship "$out/q2.msl" --to "$url" >"$out/log" 2>&1 &
    shipper=$!
    sleep 1
    "$tool" compact "$out/q2.msl" "$out/q2.msl" --replace >/dev/null || fail compact
    wait $shipper
    code=$?
    [ $code = 5 ] && grep -q 'q2.msl: message 1 is left out' "$out/log" ||
        fail "ship: $code $(cat "$out/log")"
    ! grep -q 'stopped$\|a rewrite has replaced' "$out/log" || fail "$(cat "$out/log")"
    must_have amid q1 q2
    wait
}

# Facts of a location that two logs share: what a log repeats of its own does not undo what
# the other has set since.
repeated_facts_are_not_set_again()
{
    set_fact() { "$tool" location "$1" shared "$2" >/dev/null || fail location; }
    put "$out/fa.msl" fa1 shared
    put "$out/fb.msl" fb1 shared
    set_fact "$out/fa.msl" '{"title":"a"}'
    for ((i = 0; i < 300; i++)); do set_fact "$out/fa.msl" "{\"fact $i\":$i}"; done
    ship "$out/fa.msl"
    set_fact "$out/fb.msl" '{"title":"b"}'
    ship "$out/fb.msl"
    repeats() { "$tool" view "$out/fa.msl" --raw --json | grep -c '"fact 7":7.*"fact 9":9'; }
    first=$(repeats)
    for ((i = 0; i < 1000 && $(repeats) == first; i++)); do
        set_fact "$out/fa.msl" "{\"fact 0\":\"$i $(printf '%0200d' 0)\"}"
    done
    [ "$(repeats)" -gt "$first" ] || fail 'no record repeats all facts'
    ship "$out/fa.msl"
    [ $code = 0 ] || fail "ship: $code $(cat "$out/log")"
    "$tool" location "$url" shared >"$out/facts" || fail location
    grep -q '"title": *"b"' "$out/facts" || fail "title: $(grep -o '"title":[^,}]*' "$out/facts")"
    n=$("$tool" location "$url" shared | grep -o '"fact ' | wc -l)
    [ "$n" = 300 ] || fail "$n facts"
}

# A compaction leaves one record of all facts of a location. Shipped is what has changed
# since: also what was removed, and nothing that another log has set.
facts_of_a_compacted_log_are_compared()
{
    set_fact() { "$tool" location "$1" both "$2" >/dev/null || fail location; }
    facts_are()
    {
        "$tool" location "$url" both | python3 -c 'import json, sys
sys.exit(json.load(sys.stdin) != json.loads(sys.argv[1]))' "$1" ||
            fail "facts: $("$tool" location "$url" both), wanted: $1"
    }
    put "$out/fc.msl" fc1 both
    put "$out/fd.msl" fd1 both
    set_fact "$out/fc.msl" '{"title":"c","x":1,"y":2}'
    cp "$out/fc.msl" "$out/fe.msl"
    ship "$out/fc.msl"
    set_fact "$out/fd.msl" '{"title":"d","y":3}'
    ship "$out/fd.msl"
    set_fact "$out/fc.msl" '{"y":null,"z":4,"a \u00e4\"":[1, 2]}'
    "$tool" compact "$out/fc.msl" "$out/fc.msl" --replace >/dev/null || fail compact
    set_fact "$out/fc.msl" '{"w":5}'
    ship "$out/fc.msl"
    [ $code = 0 ] || fail "ship: $code $(cat "$out/log")"
    facts_are '{"title":"d","x":1,"z":4,"a \u00e4\"":[1,2],"w":5}'
    rows() { sql "select count(*) from msgstore_record where kind = 6 and location = 'both'"; }
    n=$(rows)
    set_fact "$out/fd.msl" '{"z":null}'
    ship "$out/fd.msl"
    "$tool" compact "$out/fc.msl" "$out/fc.msl" --replace >/dev/null || fail compact
    ship "$out/fc.msl"
    [ "$(rows)" = $((n + 1)) ] || fail "records: $(rows)"
    sql 'delete from msgstore_source'
    ship "$out/fc.msl"
    [ $code = 0 ] || fail "ship from the beginning: $code $(cat "$out/log")"
    facts_are '{"title":"d","x":1,"a \u00e4\"":[1,2],"w":5}'
    # an older copy has removed nothing
    put "$out/fc.msl" fc2 both
    ship "$out/fc.msl"
    [ $code = 0 ] || fail "ship: $code $(cat "$out/log")"
    "$tool" compact "$out/fe.msl" "$out/fe.msl" --replace >/dev/null || fail compact
    ship "$out/fe.msl"
    [ $code = 5 ] && grep -q 'fe.msl: message 2: .*an older copy' "$out/log" ||
        fail "an older copy: $code $(cat "$out/log")"
    facts_are '{"title":"d","x":1,"a \u00e4\"":[1,2],"w":5}'
}

# A writer without syncs: what a power loss may take is not shipped.
only_durable_records_are_shipped()
{
    put "$out/d.msl" d1 durable
    mkfifo "$out/in"
    "$tool" append "$out/d.msl" --location durable --sync none <"$out/in" >"$out/ack" &
    writer=$!
    exec 9>"$out/in"
    printf '{"type":"user_message","content":"d2"}\n' >&9
    soon grep -q . "$out/ack" || fail 'append stores nothing'
    ship "$out/d.msl"
    [ $code = 0 ] || fail "ship: $(cat "$out/log")"
    must_have durable d1
    grep -q '1 record not durable' "$out/log" || fail "not reported: $(cat "$out/log")"
    exec 9>&-
    wait $writer
    ship "$out/d.msl"
    must_have durable d1 d2
}

# The follower stays; its server goes back to an earlier state, as after a failover to a
# replica that had not received everything, or a restored backup.
a_server_that_went_back_is_healed()
{
    bash $server make "$folder/ship1" synchronous_commit=on fsync=off || exit 1
    bash $server copy "$folder/ship2" "$folder/ship1" || exit 1
    to="postgresql:///postgres?host=$folder/ship1,$folder/ship2&user=test"
    f="postgresql:///postgres?host=$folder/ship1&user=test"
    for i in 1 2 3; do put "$out/f.msl" "f$i" back; done
    follow "$out/f.msl"
    from=$f soon has back f1 f2 f3 || fail "nothing: $(cat "$out/follow")"
    sleep 1
    bash $server stop "$folder/ship2"
    put "$out/f.msl" f4 back
    put "$out/f.msl" f5 back
    from=$f soon has back f1 f2 f3 f4 f5 || fail "nothing: $(cat "$out/follow")"
    sleep 0.5 # the position, too
    bash $server kill "$folder/ship1"
    bash $server start "$folder/ship2"
    bash $server promote "$folder/ship2"
    f="postgresql:///postgres?host=$folder/ship2&user=test"
    # also where nothing new comes
    from=$f soon has back f1 f2 f3 f4 f5 ||
        fail "a hole stays: $(tr '\n' '|' <"$out/has") $(cat "$out/follow")"
    put "$out/f.msl" f6 back
    from=$f soon has back f1 f2 f3 f4 f5 f6 ||
        fail "a hole: $(tr '\n' '|' <"$out/has") $(cat "$out/follow")"
    unfollow
    [ $code = 0 ] || fail "follow: $(cat "$out/follow")"
    bash $server stop "$folder/ship2"
    unset to
}

# A compacted log is the same source: nothing is doubled, and what the compaction has
# applied before it was shipped arrives.
a_compacted_log_goes_on()
{
    mkdir "$out/c"
    for i in 1 2 3 4 5; do put "$out/c/c.msl" "c$i" compacted; done
    "$tool" note "$out/c/c.msl" 1 rating 5 >/dev/null || fail note
    follow "$out/c"
    soon has compacted c1 c2 c3 c4 c5 || fail "nothing: $(cat "$out/follow")"
    unfollow
    "$tool" amend "$out/c/c.msl" 2 'c2 amended' >/dev/null || fail amend
    "$tool" redact --raw --apply "$out/c/c.msl" 4 >/dev/null || fail redact
    follow "$out/c"
    soon has compacted c1 'c2 amended' c3 '[redacted]' c5 || fail "no changes: $(cat "$out/follow")"
    "$tool" compact "$out/c/c.msl" "$out/c/c.msl" --replace >/dev/null || fail compact
    put "$out/c/c.msl" c6 compacted
    soon has compacted c1 'c2 amended' c3 '[redacted]' c5 c6 ||
        fail "after compaction: $(tr '\n' '|' <"$out/has") $(cat "$out/follow")"
    unfollow
    [ $code = 0 ] || fail "follow: $(cat "$out/follow")"
    "$tool" amend "$out/c/c.msl" 3 'c3 amended' >/dev/null || fail amend
    "$tool" redact --raw --apply "$out/c/c.msl" 5 >/dev/null || fail redact
    "$tool" compact "$out/c/c.msl" "$out/c/c.msl" --replace >/dev/null || fail compact
    ship "$out/c"
    [ $code = 0 ] || fail "ship: $(cat "$out/log")"
    must_have compacted c1 'c2 amended' 'c3 amended' '[redacted]' '[redacted]' c6
    ship "$out/c"
    grep -q ': 0 messages, 0 changes' "$out/log" || fail "again: $(cat "$out/log")"
    notes=$(sql "select count(*) from msgstore_record where kind = 5 and location = 'compacted'")
    [ "$notes" = 1 ] || fail "$notes notes"
    [ "$(sql "select count(*) from msgstore_record where kind = 1 and location =
        'compacted'")" = 6 ] || fail 'messages twice'
    for at in 60 4156; do
        printf '\377\377' | dd of="$out/c/c.msl" bs=1 seek=$at conv=notrunc status=none
    done
    ship "$out/c"
    [ $code = 3 ] && grep -q 'its lineage (bytes 56 to 75' "$out/log" ||
        fail "a damaged lineage: $code $(cat "$out/log")"
    must_have compacted c1 'c2 amended' 'c3 amended' '[redacted]' '[redacted]' c6
}

# Logs that appear, and logs that cannot be read, beside others.
the_fleet_goes_on()
{
    mkdir "$out/g"
    put "$out/g/a.msl" a1 'go on'
    follow "$out/g"
    soon has 'go on' a1 || fail "nothing: $(cat "$out/follow")"
    put "$out/g/b.msl" b1 'go on'
    soon has 'go on' a1 b1 || fail "a new log: $(cat "$out/follow")"
    mkdir "$out/g/sub"
    put "$out/g/sub/c.msl" c1 'go on'
    soon has 'go on' a1 b1 c1 || fail "a new folder: $(cat "$out/follow")"
    unfollow
    [ $code = 0 ] || fail "follow: $(cat "$out/follow")"
    mkdir "$out/bad"
    for name in a b c; do
        for i in 1 2 3; do
            put "$out/bad/$name.msl" "$name$i-$(head -c 300 /dev/zero | tr '\0' x)" "bad $name"
        done
    done
    python3 - "$out/bad/b.msl" <<'END' || fail 'no python3'
import sys
b = bytearray(open(sys.argv[1], 'rb').read())
i = b.find(b'b2-')
b[i:i + 40] = b'\xff' * 40
open(sys.argv[1], 'wb').write(b)
END
    echo 'no log' >"$out/bad/d.msl"
    python3 -c 'print("{\"type\":\"user_message\",\"location\":\"bad e\",\"content\":\"%s\"}"
        % ("x" * (70 << 20)))' >"$out/large.jsonl"
    put "$out/bad/e.msl" e1 'bad e'
    "$tool" import "$out/bad/e.msl" "$out/large.jsonl" >/dev/null || fail 'import of 70 MB'
    rm "$out/large.jsonl"
    put "$out/bad/e.msl" e3 'bad e'
    ship "$out/bad"
    [ $code != 0 ] || fail 'logs are damaged, and the exit code is 0'
    for name in a c; do
        [ "$(sql "select count(*) from msgstore_record where location = 'bad $name'")" = 3 ] ||
            fail "$name.msl is not shipped"
    done
    for name in b e; do
        grep -q "/$name.msl" "$out/log" || fail "$name.msl is not named: $(cut -c 1-200 "$out/log")"
    done
    grep -q 'e.msl.*message 2' "$out/log" || fail "no name: $(cut -c 1-300 "$out/log")"
    [ "$(sql "select count(*) from msgstore_record where location = 'bad e'")" = 1 ] ||
        fail 'e.msl: others than those before the large message'
    rm -r "$out/bad"
}

# A location by its name costs no listing.
a_name_is_tried_first()
{
    put "$out/l.msl" l1 listed
    ship "$out/l.msl"
    sql "alter system set log_statement = 'all'" && sql 'select pg_reload_conf()' >/dev/null
    sleep 0.5
    : >"$folder/fleet/log"
    "$tool" view "$url" --location listed >/dev/null 2>&1 || fail view
    "$tool" search "$url" l1 --location listed >/dev/null 2>&1 || fail search
    "$tool" fetch "$url" --location listed -o "$out/l2.msl" >/dev/null 2>&1 || fail fetch
    sql 'alter system reset log_statement' && sql 'select pg_reload_conf()' >/dev/null
    grep -q 'group by bucket' "$folder/fleet/log" && fail 'all locations are listed'
    grep -q 'msgstore_record' "$folder/fleet/log" || fail 'no statement is seen'
    "$tool" view "$url" --location liste >"$out/log" 2>&1 || fail 'a part of a name'
    "$tool" view "$url" --location absent >"$out/log" 2>&1 && fail 'no such location'
    grep -q 'absent' "$out/log" || fail "$(cat "$out/log")"
}

# Where each log is, and counters for Prometheus.
status_and_metrics_name_what_waits()
{
    put "$out/s0.msl" s0 first
    ship "$out/s0.msl"
    put "$out/s1.msl" s1 status s-key
    put "$out/s2.msl" 'another s1' status s-key
    "$tool" ship "$out/s1.msl" --to "$url" --status >"$out/log" 2>&1 || fail "$(cat "$out/log")"
    grep -q 's1.msl: shipped up to message 0, 1 record to ship, 0 left out' "$out/log" ||
        fail "status: $(cat "$out/log")"
    must_have status
    ship "$out/s1.msl" "$out/s2.msl" --metrics "$out/metrics"
    "$tool" ship "$out/s1.msl" "$out/s2.msl" --to "$url" --status >"$out/log" 2>&1
    grep -q 's1.msl: shipped up to message 1, 0 records to ship, 0 left out' "$out/log" ||
        fail "status: $(cat "$out/log")"
    grep -q 's2.msl: shipped up to message 1, 0 records to ship, 1 left out' "$out/log" ||
        fail "status: $(cat "$out/log")"
    grep -q '^msgstore_ship_messages_total{log=".*/s1.msl"} 1$' "$out/metrics" &&
        grep -q '^msgstore_ship_left_out{log=".*/s2.msl"} 1$' "$out/metrics" &&
        grep -q '^# TYPE msgstore_ship_waiting gauge$' "$out/metrics" ||
        fail "metrics: $(cat "$out/metrics")"
    # after a compaction all of the log is compared, and what is left out is counted anew
    "$tool" compact "$out/s2.msl" "$out/s2.msl" --replace >/dev/null || fail compact
    "$tool" ship "$out/s2.msl" --to "$url" --status >"$out/log" 2>&1 ||
        fail "status of a compacted log: $(cat "$out/log")"
    grep -q 's2.msl: shipped up to message 0, 1 record to ship, 0 left out' "$out/log" ||
        fail "status of a compacted log: $(cat "$out/log")"
    ship "$out/s2.msl"
    "$tool" ship "$out/s2.msl" --to "$url" --status >"$out/log" 2>&1
    grep -q 's2.msl: shipped up to message 1, 0 records to ship, 1 left out' "$out/log" ||
        fail "status after a compaction: $(cat "$out/log")"
}

# put_at LOG TEXT LOCATION SECONDS: one more message, with a time.
put_at()
{
    printf '{"type":"user_message","content":"%s","location":"%s","timestamp":%s}\n' "$2" \
        "$3" "$4" >"$out/put.jsonl"
    "$tool" import "$1" "$out/put.jsonl" >/dev/null || fail "import into $1"
}

# What a rule of retire removed does not come back: from the log, from its beginning, from
# a compacted log, from a copy that is a source of its own. Reports and counters say so.
what_is_retired_stays_away()
{
    put_at "$out/r.msl" r1 'ret/a' 1577836800
    put_at "$out/r.msl" r2 'ret/a' 1704067200
    put_at "$out/r.msl" r3 'ret/b' 1577836800
    "$tool" note "$out/r.msl" 1 rating good >/dev/null || fail note
    "$tool" amend "$out/r.msl" 3 'r3 amended' >/dev/null || fail amend
    ship "$out/r.msl"
    [ $code = 0 ] || fail "ship: $(cat "$out/log")"
    must_have ret/a r1 r2
    must_have ret/b 'r3 amended'
    retire() { "$tool" retire "$url" --location ret/ --until 2022-01-01 "$@"; }
    retire --dry-run >"$out/dry" || fail 'retire --dry-run'
    grep -q '^would delete 2 messages, 2 changes, .* 1 location would be gone$' "$out/dry" ||
        fail "dry run: $(cat "$out/dry")"
    must_have ret/a r1 r2
    retire >"$out/retired" || fail retire
    grep -q '^deleted 2 messages, 2 changes, .* 1 location is gone$' "$out/retired" ||
        fail "retire: $(cat "$out/retired")"
    must_have ret/a r2
    must_have ret/b
    ship "$out/r.msl"
    [ $code = 0 ] || fail "ship again: $(cat "$out/log")"
    sql 'delete from msgstore_source'
    ship "$out/r.msl" --metrics "$out/metrics"
    [ $code = 0 ] || fail "ship from the start: $(cat "$out/log")"
    grep -q ': 1 message, 2 changes shipped, 4 retired$' "$out/log" ||
        fail "report: $(cat "$out/log")"
    grep -q '^msgstore_ship_retired{log=".*/r.msl"} 4$' "$out/metrics" ||
        fail "metrics: $(cat "$out/metrics")"
    "$tool" ship "$out/r.msl" --to "$url" --status >"$out/log" 2>&1
    grep -q ', 0 left out, 4 retired$' "$out/log" || fail "status: $(cat "$out/log")"
    "$tool" compact "$out/r.msl" "$out/r.msl" --replace >/dev/null || fail compact
    ship "$out/r.msl"
    [ $code = 0 ] || fail "ship compacted: $(cat "$out/log")"
    put_at "$out/r2.msl" r1 'ret/a' 1577836800
    put_at "$out/r2.msl" r4 'ret/c' 1704067200
    ship "$out/r2.msl"
    [ $code = 0 ] || fail "another log: $(cat "$out/log")"
    must_have ret/a r2
    must_have ret/b
    must_have ret/c r4
    "$tool" retire "$url" --location ret/ --until 2999-01-01 >"$out/log" 2>&1 &&
        fail 'a time that is to come is accepted'
    sql 'delete from msgstore_retired'
    ship "$out/r2.msl"
}

# Two hosts have a location of one name: with a prefix they are two on the server. What is
# changed later, also in a compacted log, reaches the right one; fetch takes it off again.
a_prefix_keeps_hosts_apart()
{
    put "$out/h1.msl" 'one of host 1' main
    put "$out/h1.msl" 'two of host 1' main turn-2
    put "$out/h2.msl" 'one of host 2' main
    put "$out/h2.msl" 'two of host 2' main turn-2
    ship "$out/h1.msl" --prefix host1/
    [ $code = 0 ] || fail "ship: $(cat "$out/log")"
    ship "$out/h2.msl" --prefix host2/
    [ $code = 0 ] || fail "ship: $(cat "$out/log")"
    must_have host1/main 'one of host 1' 'two of host 1'
    must_have host2/main 'one of host 2' 'two of host 2'
    "$tool" amend "$out/h1.msl" 1 'amended' >/dev/null || fail amend
    "$tool" note "$out/h1.msl" 2 rating good >/dev/null || fail note
    "$tool" location "$out/h1.msl" main '{"title":"of host 1"}' >/dev/null || fail location
    ship "$out/h1.msl" --prefix host1/
    grep -q ': 0 messages, 3 changes shipped$' "$out/log" || fail "changes: $(cat "$out/log")"
    must_have host1/main amended 'two of host 1'
    must_have host2/main 'one of host 2' 'two of host 2'
    sql 'update msgstore_source set mark = 1'
    "$tool" compact "$out/h1.msl" "$out/h1.msl" --replace >/dev/null || fail compact
    put "$out/h1.msl" 'three of host 1' main
    ship "$out/h1.msl" --prefix host1/
    [ $code = 0 ] || fail "ship compacted: $(cat "$out/log")"
    sql 'update msgstore_source set mark = 1'
    ship "$out/h2.msl" --prefix host2/
    [ $code = 0 ] || fail "ship with another mark: $(cat "$out/log")"
    must_have host1/main amended 'two of host 1' 'three of host 1'
    "$tool" fetch "$url" --location host1/main --prefix host1/ -o "$out/h1.back" \
        >"$out/log" 2>&1 || fail "fetch: $(cat "$out/log")"
    from=$out/h1.back has main amended 'two of host 1' 'three of host 1' ||
        fail "fetched: $(tr '\n' '|' <"$out/has")"
    ! grep -qa 'host1/' "$out/h1.back" || fail 'the log has the prefix'
    "$tool" location "$out/h1.back" main | grep -q 'of host 1' || fail 'facts'
    "$tool" fetch "$url" --location host2/main --prefix host1/ -o "$out/h2.back" \
        >"$out/log" 2>&1 && fail 'another prefix'
    grep -q 'does not begin with host1/' "$out/log" || fail "fetch: $(cat "$out/log")"
}

for test in ${*:-a_change_reaches_only_its_own_source numbers_used_before_stop_the_shipper \
    a_redacted_message_proves_nothing changes_of_a_copy_stop_the_shipper an_earlier_text_comes_back \
    a_forgotten_key_is_used_again a_compaction_amid_shipping_is_no_conflict \
    repeated_facts_are_not_set_again facts_of_a_compacted_log_are_compared \
    only_durable_records_are_shipped a_server_that_went_back_is_healed \
    a_compacted_log_goes_on the_fleet_goes_on a_name_is_tried_first \
    status_and_metrics_name_what_waits what_is_retired_stays_away \
    a_prefix_keeps_hosts_apart}; do
    before=$failed failed=0
    $test
    [ $failed = 0 ] && echo "ok $test"
    failed=$((before + failed))
done
bash $server stop "$folder/fleet"
[ $failed = 0 ]
