#!/usr/bin/env bash
# A real file system: while a log is written in a mounted ext4 image, the image is copied;
# a copy is what a cut of the power at that moment would leave. Each is mounted, which
# plays its journal back; the log in it must have all that was acknowledged, and go on.
#
#   tests/platform/ext4.sh
#
# EXT4_COPIES=n copies (60), 20 of each file system, of which each has a new writer.
# The disk beneath a copy must have stood still while it was made: only of two copies one
# after the other that are equal, byte by byte, the second one is looked at.
#
# Needs the right to mount, a loop device and mkfs.ext4; where they are not there it says
# "skip" and why. At the end "tally: copies of a file system N".
set -u
# shellcheck source=tests/platform/mounted.sh
. "$(dirname "$0")/mounted.sh" ext4 'copies of a file system'
wanted=${EXT4_COPIES:-60}
mkdir -p "$out/seen" || exit 1

writer=
leave()
{
    [ -z "$writer" ] || kill -9 "$writer" 2>/dev/null
    wait 2>/dev/null
    umount "$out/seen" 2>/dev/null
    umount "$out/live" 2>/dev/null
}

# made PATH: a file system of 8 MiB
made()
{
    rm -f "$1" && truncate -s 8M "$1" && mkfs.ext4 -q -F "$1"
}

command -v mkfs.ext4 >/dev/null || skip 'there is no mkfs.ext4'
build || exit 1
made "$out/disk" || skip 'mkfs.ext4 fails'
mount -o loop "$out/disk" "$out/live" 2>"$out/why" || skip "$(head -n 1 "$out/why")"
umount "$out/live"
trap leave EXIT

# look LEAST: mounts the copy and looks at the log in it
look()
{
    mount -o loop "$copy" "$out/seen" || return 1
    local status=0
    "$out/ext4" check "$out/seen/a.msl" "$1" >"$out/last" 2>&1 || status=1
    umount "$out/seen"
    [ "$status" -eq 0 ] || cat "$out/last"
    return "$status"
}

# one SEED: a file system, its writer, 20 copies. Each copy is a file of its own: a loop
# device that is not yet given back may still know the blocks of the one before.
one()
{
    local tries=0 taken=0 least
    made "$out/disk" && mount -o loop "$out/disk" "$out/live" || return 1
    rm -f "$out/ack"
    echo 0 >"$out/ack"
    "$out/ext4" write "$out/live/a.msl" "$out/ack" "$1" &
    writer=$!
    while [ "$taken" -lt 20 ] && [ "$tries" -lt 400 ]; do
        tries=$((tries + 1))
        sleep "0.0$((RANDOM % 6))"
        least=$((10#$(head -c 10 "$out/ack" | tr -d '\n')))
        rm -f "$out"/copy-*
        copy=$out/copy-$((copies + 1))-$tries
        cp "$out/disk" "$copy" || return 1
        cmp -s "$out/disk" "$copy" || continue
        taken=$((taken + 1))
        copies=$((copies + 1))
        look "$least" || { failed=$((failed + 1)); cp "$copy" "$out/failed-$copies"; }
    done
    kill -9 "$writer"
    wait "$writer" 2>/dev/null
    writer=
    umount "$out/live"
}

copies=0
failed=0
for ((seed = 1; copies < wanted && seed <= wanted; seed++)); do
    one "$seed" || failed=$((failed + 1))
done
echo "$copies copies, last: $(cat "$out/last")"
echo "tally: copies of a file system $copies"
[ "$failed" -eq 0 ] && [ "$copies" -gt 0 ]
