#!/usr/bin/env bash
# Blocks that the disk cannot read: a log on an ext4 image whose second half is gone, and on
# a btrfs image in which one byte of a message has changed, which its checksum turns into an
# error. Every command of the tool that reads the log must end with a code, and with no
# signal; what lies on other blocks is read, and the damage is reported.
#
#   tests/platform/eio.sh
#
# EIO_ROUNDS=n so many times (1).
#
# Needs the right to mount, a loop device, filefrag, and build/msgstore; for btrfs also
# mkfs.btrfs. What is not there is left out with a line "skip" and why. At the end "tally:
# commands on bad blocks N".
set -u
# shellcheck source=tests/platform/mounted.sh
. "$(dirname "$0")/mounted.sh" eio 'commands on bad blocks'
tool=$PWD/build/msgstore
log=$out/live/a.msl
messages=4000

[ -x "$tool" ] || skip 'build/msgstore is not built'
command -v filefrag >/dev/null || skip 'there is no filefrag'
trap 'umount "$out/live" 2>/dev/null' EXIT

# made MKFS SIZE: a file system with a log in it
made()
{
    umount "$out/live" 2>/dev/null
    rm -f "$out/disk" && truncate -s "$2" "$out/disk" && $1 "$out/disk" >"$out/why" 2>&1 &&
        mount -o loop "$out/disk" "$out/live" 2>"$out/why" &&
        seq "$messages" | sed 's/.*/{"type":"task","location":"room","content":"message <&> '"$(
            printf 'x%.0s' {1..900})"'"}/' | "$tool" append "$log" >"$out/why" 2>&1 && sync
}

again()
{
    umount "$out/live" && mount -o loop "$out/disk" "$out/live"
}

count=0
failed=0
# command WANTED ARGS...: ends with that status, and not by a signal
command_ends()
{
    local wanted=$1 status=0
    shift
    "$tool" "$@" >"$out/last" 2>&1 </dev/null || status=$?
    count=$((count + 1))
    [[ " $wanted " == *" $status "* ]] && return
    echo "FAIL $system: msgstore $1: status $status, not $wanted"
    tail -n 3 "$out/last"
    failed=$((failed + 1))
}

# Every command; LEAST messages at least are read.
all_commands()
{
    local n
    command_ends 3 verify "$log"
    grep -q '^unreadable *[1-9]' "$out/last" ||
        { echo "FAIL $system: verify reports nothing"; failed=$((failed + 1)); }
    command_ends 3 info "$log"
    command_ends '0 3' sessions "$log"
    command_ends 3 view "$log" --json
    n=$(grep -c '"content":"message <' "$out/last")
    [ "$n" -ge "$1" ] || { echo "FAIL $system: $n messages"; failed=$((failed + 1)); }
    command_ends 3 repair "$log" "$out/mended.log"
    command_ends '0 1 3' doctor "$log"
    rm -f "$out/mended.log"
}

round()
{
    system=ext4
    made 'mkfs.ext4 -q -F -b 4096 -O ^has_journal' 64M || skip "$(head -n 1 "$out/why")"
    cut=$(filefrag -v "$log" | awk '$1 ~ /^[0-9]+:$/ {
            gsub(/[.:]/, " ")
            if ($4 + 0 > m) { m = $4 + 0; l = $5 - $4 }
        } END { print int(m + l / 2) }')
    again && truncate -s $((cut * 4096)) "$out/disk" && echo 3 >/proc/sys/vm/drop_caches ||
        skip 'the disk cannot be cut'
    all_commands 1000

    system=btrfs
    if ! command -v mkfs.btrfs >/dev/null; then
        echo 'skip eio on btrfs: there is no mkfs.btrfs'
    elif ! made 'mkfs.btrfs -q -f -d single' 256M; then
        echo "skip eio on btrfs: $(head -n 1 "$out/why")"
    else
        umount "$out/live"
        at=$(grep -abo 'message <2000>' "$out/disk" | head -n 1 | cut -d: -f1)
        printf '#' | dd of="$out/disk" bs=1 seek=$((at + 20)) conv=notrunc 2>/dev/null
        mount -o loop "$out/disk" "$out/live" || exit 1
        all_commands $((messages - 10))
        echo '{"type":"task","location":"on","content":"more"}' >"$out/more.jsonl"
        command_ends '0 3' import "$log" "$out/more.jsonl"
    fi
}

for ((n = 0; n < ${EIO_ROUNDS:-1}; n++)); do round; done
umount "$out/live"
rm -f "$out/disk"
echo "tally: commands on bad blocks $count"
[ "$failed" -eq 0 ]
