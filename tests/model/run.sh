#!/usr/bin/env bash
# Checks the models of publication and of recovery with spin: `make model`. Each right
# model must hold in every state that it can reach, each wrong variant must be refused by
# an assertion. Needs spin and a C compiler; without spin it skips.
#
#   MODEL_CRASHES=1   the right models of a log with two writers have so many crashes in
#                     a history (2)
#
# The last line counts: "N passed, N failed".
set -u
cd "$(dirname "$0")" || exit 1
if ! command -v spin >/dev/null; then
    if [ "${SETUP:-1}" != 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "make model installs with apt-get, as root: spin"
        { apt-get update && apt-get install -y spin; } >/dev/null 2>&1
    fi
    if ! command -v spin >/dev/null; then
        echo "make model: spin is not installed (Debian: apt-get install spin); skipped"
        echo "0 passed, 0 failed, 1 skipped"
        exit 0
    fi
fi
work=../../build/model
mkdir -p "$work"
passed=0 failed=0

# verify MODEL OPTION ...: checks a model. Returns 0 if it holds, 1 if an assertion is
# violated, else 2; the output is in $work/out.
verify()
{
    local model=$1
    shift
    cp "$model" "$work/"
    (
        cd "$work" || exit 2
        rm -f pan pan.c ./*.trail out
        spin -a "$@" "$model" >out 2>&1 || exit 2
        "${CC:-cc}" -O1 -w -DSAFETY -DCOLLAPSE -DMEMLIM=6000 -o pan pan.c \
            >>out 2>&1 || exit 2
        ./pan -E -m200000 >out 2>&1
        grep -q 'errors: 0' out && ! grep -qE 'too small|out of memory|limit' out && exit 0
        grep -q 'assertion violated' out && exit 1
        exit 2
    )
}

# result NAME WANTED GOT: prints and counts a verdict.
result()
{
    if [ "$2" = "$3" ]; then
        passed=$((passed + 1))
        echo "ok $1 ($(grep -o '[0-9.e+]* states, stored' "$work/out" | head -n 1))"
    else
        failed=$((failed + 1))
        echo "FAIL $1: wanted verdict $2, got $3 (0 holds, 1 assertion, 2 trouble)"
        tail -n 5 "$work/out"
    fi
}

verify publish.pml
result publish 0 $?
for wrong in NO_RELEASE MARK_FIRST READ_PAST; do
    verify publish.pml -D$wrong
    result "publish with $wrong" 1 $?
done
# right NAME OPTION ...: this model of a log must hold.
right()
{
    local name=$1
    shift
    verify log.pml "$@"
    result "$name" 0 $?
}

# wrong NAME OPTION ...: this variant must be refused. The options leave out what it can
# do without, for fewer states.
wrong()
{
    local name=$1
    shift
    verify log.pml "-D$name" "$@"
    result "log with $name" 1 $?
}

crashes=${MODEL_CRASHES:-2}
right "log of containers" -DCRASHES="$crashes"
right "log of one boot number" -DBOOTS=1 -DBAD=0 -DCRASHES="$crashes"
right "log of one writer" -DWRITERS=1 -DCRASHES=3
right "log beside a reader" -DREADER -DBAD=0 -DCRASHES="$crashes"
for name in NO_ZERO ZERO_NO_SYNC ACK_FIRST TRUST_MARK NO_COMMIT CHECKPOINT_FIRST \
            DAMAGE_IS_TORN TORN_IS_DAMAGE NO_BOOT_SYNC NO_KEEP KEEP_LAST; do
    wrong $name -DWRITERS=1
done
wrong NO_UNCONFIRMED -DWRITERS=1 -DCRASHES=3
for name in NO_FOLLOW NO_BUSY BOOT_IS_PROOF LEFT_BEHIND NO_RESTORE; do
    wrong $name -DBAD=0
done
wrong NO_DOUBT -DREADER -DBAD=0 -DCRASHES=1
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
