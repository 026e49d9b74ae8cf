#!/usr/bin/env bash
# Containers that share a log: each sees a boot number of its own for the one machine, as
# systemd-nspawn and LXC mount it. Two writers and a reader in mount namespaces of their
# own: what an append returned for is there, once, and the reader sees it come. In every
# other round one writer is killed, and another one of its container goes on.
#
#   tests/platform/boots.sh
#
# BOOTS_ROUNDS=n rounds (4). Needs the right to make a mount namespace; where that is not
# there it says "skip" and why. At the end "tally: rounds of containers N".
set -u
# shellcheck source=tests/platform/mounted.sh
. "$(dirname "$0")/mounted.sh" boots 'rounds of containers'

# (inside N COMMAND ...): in a container with a boot number of its own. It becomes the
# command, so that a kill of the job kills that.
inside()
{
    local n=$1
    shift
    exec unshare -m bash -c 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"' \
        "$out/boot-$n" "$@"
}

command -v unshare >/dev/null || skip 'there is no unshare'
for n in 1 2 3; do cat /proc/sys/kernel/random/uuid >"$out/boot-$n"; done
seen=$(inside 1 cat /proc/sys/kernel/random/boot_id 2>"$out/why") ||
    skip "$(head -n 1 "$out/why")"
[ "$seen" = "$(cat "$out/boot-1")" ] || skip 'the boot number cannot be mounted over'
build || exit 1

log=$out/live/a.msl

# same ACKNOWLEDGED ...: each line of these files is a message, once
same()
{
    "$out/boots" names "$log" | sort >"$out/found" || return 1
    [ -z "$(uniq -d "$out/found")" ] || { echo 'a message is there twice'; return 1; }
    sort "$@" | comm -23 - "$out/found" >"$out/lost"
    [ ! -s "$out/lost" ] || { echo "lost: $(wc -l <"$out/lost")"; return 1; }
}

# one KILLED: the host, and two containers; 150 messages
one()
{
    local host second status=0 reader
    rm -f "$out"/live/* "$out"/said-*
    "$out/boots" share "$log" first 10 >"$out/said-first" || return 1
    (inside 3 "$out/boots" await "$log" 150 >"$out/reader") &
    reader=$!
    until grep -q ready "$out/reader"; do sleep 0.01; done
    "$out/boots" share "$log" host 70 >"$out/said-host" &
    host=$!
    if [ "$1" -eq 1 ]; then
        (inside 1 "$out/boots" share "$log" killed 1000 >"$out/said-killed") &
        second=$!
        sleep 0.2
        kill -9 "$second"
        wait "$second" 2>/dev/null
        (inside 1 "$out/boots" share "$log" later 70 >"$out/said-later") || status=1
    else
        (inside 2 "$out/boots" share "$log" guest 70 >"$out/said-guest") || status=1
    fi
    wait "$host" || status=1
    wait "$reader" || status=1
    [ "$status" -eq 0 ] || { echo 'a process failed'; return 1; }
    [ "$(tail -n 1 "$out/reader")" -ge 150 ] || { cat "$out/reader"; return 1; }
    same "$out"/said-*
}

failed=0
wanted=${BOOTS_ROUNDS:-4}
for ((round = 0; round < wanted; round++)); do
    one $((round % 2)) 2>"$out/errors" ||
        { echo "FAIL round $round"; cat "$out/errors"; failed=$((failed + 1)); }
done
echo "tally: rounds of containers $wanted"
[ "$failed" -eq 0 ]
