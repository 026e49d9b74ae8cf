#!/usr/bin/env bash
# A file system that writes each block to a new place (btrfs), in a mounted image that gets
# full while a log is written: an append says MS_E_FULL, no store ends in a signal, and all
# that was acknowledged is there afterwards. In one half of the runs the log's file shares
# its blocks with a copy (cp --reflink), so that even what was allocated needs new ones.
#
#   tests/platform/cow.sh
#
# COW_RUNS=n runs (24). Needs the right to mount, a loop device and mkfs.btrfs; where they
# are not there it says "skip" and why. At the end "tally: full file systems N".
set -u
# shellcheck source=tests/platform/mounted.sh
. "$(dirname "$0")/mounted.sh" cow 'full file systems'
wanted=${COW_RUNS:-24}

leave()
{
    exec 3>&- 4<&-
    umount "$out/live" 2>/dev/null
}

command -v mkfs.btrfs >/dev/null || skip 'there is no mkfs.btrfs'
grep -q btrfs /proc/filesystems || skip 'this kernel has no btrfs'
build || exit 1
truncate -s 120M "$out/disk" && mkfs.btrfs -q -f -M "$out/disk" >/dev/null 2>&1 ||
    skip 'mkfs.btrfs fails'
mount -o loop "$out/disk" "$out/live" 2>"$out/why" || skip "$(head -n 1 "$out/why")"
trap leave EXIT

# stuff: writes a file until there is no room left
stuff() { dd if=/dev/urandom of="$out/live/stuffing" bs=64k status=none 2>/dev/null; sync; }

# compare ACKNOWLEDGED: a reader finds at least as many
compare()
{
    local n
    n=$("$out/cow" count "$out/live/a.msl") || return 1
    [ "$n" -ge "$1" ] || { echo "$n messages, $1 were acknowledged"; return 1; }
}

# one ENGINE SIZE: the disk gets full by the log, or nearly full before
one()
{
    local n
    rm -f "$out"/live/*
    sync
    dd if=/dev/urandom of="$out/live/ballast" bs=1M count=$((20 + RANDOM % 40)) status=none
    n=$("$out/cow" fill "$out/live/a.msl" "$1" "$2") || { echo "fill: status $?"; return 1; }
    compare "$n" || return 1
    rm "$out/live/ballast" && sync # room again: the log goes on
    n=$("$out/cow" fill "$out/live/a.msl" "$1" 60000) || { echo "again: status $?"; return 1; }
    compare "$n"
}

# copied ENGINE: the file is copied without its blocks, the disk filled; then it goes on
copied()
{
    local line n status=0
    rm -f "$out"/live/*
    sync
    rm -f "$out/in" "$out/said" && mkfifo "$out/in" "$out/said"
    "$out/cow" wait "$out/live/a.msl" "$1" <"$out/in" >"$out/said" &
    exec 3>"$out/in" 4<"$out/said"
    read -r line <&4
    cp --reflink=always "$out/live/a.msl" "$out/live/copy.msl" || return 1
    stuff
    echo >&3
    read -r n <&4
    wait $! || status=$?
    exec 3>&- 4<&-
    [ "$line" = ready ] && [ "$status" -eq 0 ] || { echo "copied: status $status"; return 1; }
    compare "$n"
}

failed=0
for ((run = 0; run < wanted; run++)); do
    engine=$(echo map write auto | cut -d ' ' -f $((run % 3 + 1)))
    if [ $((run / 3 % 2)) -eq 0 ]; then one "$engine" $((100 + run * 411)); else copied "$engine"; fi ||
        { echo "FAIL run $run, engine $engine"; failed=$((failed + 1)); }
done
echo "tally: full file systems $wanted"
[ "$failed" -eq 0 ]
