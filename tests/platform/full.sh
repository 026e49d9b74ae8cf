#!/usr/bin/env bash
# Full file systems that keep room for a log (ext4 with blocks of 1 KiB and 4 KiB, tmpfs),
# and logs with holes in them, as a copy by `cp --sparse=always` or `tar -S` has them: an
# append says MS_E_FULL, no store ends in a signal, and all messages are there afterwards.
# Where a process may not write as far as it likes (ulimit -f), the same.
#
#   tests/platform/full.sh
#
# FULL_ROUNDS=n rounds (1). Needs the right to mount, a loop device and mkfs.ext4; where
# they are not there it says "skip" and why. At the end "tally: logs with holes N".
set -u
# shellcheck source=tests/platform/mounted.sh
. "$(dirname "$0")/mounted.sh" full 'logs with holes'

leave() { umount "$out/live" 2>/dev/null; }

command -v mkfs.ext4 >/dev/null || skip 'there is no mkfs.ext4'
build || exit 1
trap leave EXIT

# mounted FS: a file system of 24 MiB
mounted()
{
    if [ "$1" = tmpfs ]; then
        mount -t tmpfs -o size=24m none "$out/live" 2>"$out/why"
        return
    fi
    rm -f "$out/disk" && truncate -s 24M "$out/disk" || return 1
    mkfs.ext4 -q -F -b "$1" "$out/disk" >"$out/why" 2>&1 &&
        mount -o loop "$out/disk" "$out/live" 2>"$out/why"
}

mounted 4096 || skip "$(head -n 1 "$out/why")"
umount "$out/live"

log=$out/live/a.msl

# hole FROM SIZE: makes one, FROM the page of the end of the records, or the file
hole() { fallocate -p -o "$1" -l "$2" "$log"; }

# holes HOW: what a copy, or its file system, may leave out
holes()
{
    local size end
    size=$(stat -c %s "$log")
    end=$(od -An -t u8 -j 1024 -N 8 "$log" | tr -d ' ')
    end=$((end / 4096 * 4096))
    case $1 in
    copied) cp --sparse=always --reflink=never "$log" "$log.new" && mv "$log.new" "$log" ;;
    dug) fallocate -d "$log" ;;
    superblock) hole 3072 1024 ;;
    block) hole $((end + 4096)) 4096 ;;
    later) hole $((end + 8192)) 8192 ;;
    last) hole $((size - 4096)) 4096 ;;
    room) hole $((end + 4096)) $((size - end - 4096)) ;;
    esac
}

# one FS HOW ENGINE: a log of some messages gets holes, then the disk gets full
one()
{
    local before n status=0
    mounted "$1" || return 1
    (ulimit -f 200 && exec "$out/full" fill "$log" "$3" 400) >"$out/last" ||
        { echo "fill: status $?"; return 1; }
    "$out/full" check "$log" "$(cat "$out/last")" >"$out/last" || return 1 # makes room
    before=$("$out/full" count "$log") || return 1
    holes "$2" || return 1
    dd if=/dev/zero of="$out/live/stuffing" bs=4k status=none 2>/dev/null
    dd if=/dev/zero of="$out/live/more" bs=1k status=none 2>/dev/null
    sync
    n=$("$out/full" fill "$log" "$3" 400) || status=$?
    [ "$status" -eq 0 ] || { echo "fill: status $status"; return 1; }
    # it opens, and has what it had; or it is refused because holes cannot be filled
    [ "$n" -ge "$before" ] || [ "$n" -eq 0 ] || { echo "$n of $before messages"; return 1; }
    [ "$2" != whole ] || [ "$n" -gt "$before" ] || { echo "refused: $n"; return 1; }
    rm "$out/live/stuffing" "$out/live/more" && sync # room again: the log goes on
    [ "$n" -eq 0 ] || before=$n
    n=$("$out/full" fill "$log" "$3" 60000) || { echo "again: status $?"; return 1; }
    [ "$n" -gt "$before" ] || { echo "it does not go on"; return 1; }
    [ "$("$out/full" count "$log")" -eq "$n" ] || { echo "a reader sees others"; return 1; }
}

tried=0
failed=0
# round: each file system, each kind of holes, both engines
round()
{
    local system how engine
    for system in 1024 4096 tmpfs; do
        for how in whole copied dug superblock block later last room; do
            for engine in map write; do
                one "$system" "$how" "$engine" ||
                    { echo "FAIL $system $how $engine"; failed=$((failed + 1)); }
                umount "$out/live"
                tried=$((tried + 1))
            done
        done
    done
}

for ((n = 0; n < ${FULL_ROUNDS:-1}; n++)); do round; done
echo "tally: logs with holes $tried"
[ "$failed" -eq 0 ]
