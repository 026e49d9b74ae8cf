#!/usr/bin/env bash
# The torture suite: the long loops of the tests at release size, the fuzzers and the
# negative controls; then one table of what was tried, how many times, and what failed.
#
#   bash tests/run/torture.sh [--percent P] [--only NAME,NAME] [--table FILE] [--programs]
#
# P (100) scales all counts: 10 is a look in a tenth of the time. --only runs some of the
# jobs below. The table is printed and written to FILE (build/torture.md), with date,
# machine and commit. With --programs it prints what `make torture` builds for it, and runs
# nothing. MS_TEST_JOBS says how many jobs run at a time (2), FUZZ_S how many seconds a
# fuzz target has at most with sanitizers, and as many without (2400). That is a bound for
# slow machines: a target ends with its ten million executions, and has failed when time
# ends it before. The exit status is 1 when anything failed.
#
# A program tells what it tried in lines "tally: WHAT N"; those of all jobs are added up.
# A job that tells nothing has failed, and has a row "nothing told"; so has one that left
# no result, because it was killed or never begun. Outputs are in build/torture/NAME.log.
set -u
cd "$(dirname "$0")/../.." || exit 1
logs=build/torture
export FUZZ_S=${FUZZ_S:-2400}

# NAME VARIANT PROGRAM SCALE [PATTERN], those that take longest first. SCALE is the
# MS_TEST_SCALE at which the counts of a release are reached; programs under sanitizers
# are given a tenth of it. PATTERN says which of the program's tests; none: all. For a
# script, SCALE is the number in the variable that PATTERN names; fuzz_NAME is one target.
jobs()
{
    cat <<'END'
fuzz_ops       sh   fuzz.sh        10000000 FUZZ_RUNS
fuzz_log       sh   fuzz.sh        10000000 FUZZ_RUNS
fuzz_project   sh   fuzz.sh        10000000 FUZZ_RUNS
fuzz_readers   sh   fuzz.sh        10000000 FUZZ_RUNS
fuzz_answer    sh   fuzz.sh        10000000 FUZZ_RUNS
kills          o2   test_crash     36000
power          o2   test_power     20000
controls       sh   controls.sh    100      MS_TEST_SCALE
fuzz_format   sh   fuzz.sh        10000000 FUZZ_RUNS
fuzz_image     sh   fuzz.sh        10000000 FUZZ_RUNS
fuzz_json      sh   fuzz.sh        10000000 FUZZ_RUNS
shared_kills   o2   test_shared    10000    *killed_at_random_times*
sync_kills     o2   test_sync      1000     *killed_at_random_times*
small          o2   test_small     20000
twin           o2   test_twin      1000
corrupt        o2   test_corrupt   1000
rot            o2   test_rot       10000
rot_san        san  test_rot       1000
corrupt_san    san  test_corrupt   1000
project        o2   test_project_window   1000
project_san    san  test_project_window   1000
histories      o2   test_project_hostile  1000
histories_san  san  test_project_hostile  1000
twin_san       san  test_twin      1000
readers        o2   test_threads   1000
readers_tsan   tsan test_threads   1000
hostile        o2   test_hostile   1000
hostile_san    san  test_hostile   1000
fault_io       o2   test_fault_io     1000
fault_io_san   san  test_fault_io     1000
fault_alloc    o2   test_fault_alloc  1000
fault_alloc_san san test_fault_alloc  1000
damage_san     san  test_damage    1000
buffer         o2   test_mem_buffer 1000
image          o2   test_mem_image 1000
flash          o2   test_flash     2500
ring           o2   test_ring      1000
numbers        o2   test_numbers   1000
shared_ends    o2   test_shared    1000     *file_operation*
copies         o2   test_shared    1000     copies_of*
compile        sh   test_compile.sh 1000    MS_TEST_SCALE
wasm           sh   test_wasm.sh   1000     MS_TEST_SCALE
ext4           sh   ext4.sh        400      EXT4_COPIES
cow            sh   cow.sh         60       COW_RUNS
full           sh   full.sh        2        FULL_ROUNDS
eio            sh   eio.sh         2        EIO_ROUNDS
boots          sh   boots.sh       60       BOOTS_ROUNDS
END
}

# The sanitizers' fixed addresses can collide with randomised ones.
still=
if setarch "$(uname -m)" -R true 2>/dev/null; then still="setarch $(uname -m) -R"; fi

# launch VARIANT PROGRAM SCALE PATTERN NAME: the status is the program's.
# shellcheck disable=SC2086
launch()
{
    local scale=$3
    case $1 in
    sh) env JOBS=1 "$4=$scale" FUZZ_ONLY="${5#fuzz_}" bash tests/*/"$2" ;;
    o2) MS_TEST_SCALE=$scale MS_TEST_ONLY=$4 "build/o2/$2" ;;
    *)
        scale=$((scale / 10 > 0 ? scale / 10 : 1))
        MS_TEST_SCALE=$scale MS_TEST_ONLY=$4 $still "build/$1/$2"
        ;;
    esac
}

# one PERCENT NAME VARIANT PROGRAM SCALE [PATTERN]: runs a job, leaves NAME.log and
# NAME.failed, the number of its failures.
one()
{
    local scale=$(($5 * $1 / 100)) name=$2 begin=$SECONDS status=0 failed unit=%
    [ "$scale" -ge 1 ] || scale=1
    [ "$3" != sh ] || unit=' '
    launch "$3" "$4" "$scale" "${6:-}" "$name" >"$logs/$name.log" 2>&1 </dev/null || status=$?
    failed=$(sed -nE 's/^\[  FAILED  \] ([0-9]+) test.*/\1/p' "$logs/$name.log" |
        awk '{ n += $1 } END { print n + 0 }')
    grep -aq '^tally: ' "$logs/$name.log" || status=127
    if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi
    echo "$failed" >"$logs/$name.failed"
    printf '%-14s %-20s %8s %s %6d s %4d failed\n' "$name" "$3/$4" "$scale" "$unit" \
        "$((SECONDS - begin))" "$failed"
}

if [ "${1:-}" = --one ]; then
    shift
    one "$@"
    exit 0
fi

die()
{
    echo "tests/run/torture.sh: $1" >&2
    exit 2
}

percent=100
only=
table=build/torture.md
programs=
while [ $# -gt 0 ]; do
    case $1 in
    --programs)
        programs=1
        shift
        continue
        ;;
    --percent) percent=${2:-} ;;
    --only) only=${2:-} ;;
    --table) table=${2:-} ;;
    *) die "no option $1; see the beginning of the file" ;;
    esac
    [ -n "${2:-}" ] || die "$1 takes a value"
    shift 2
done
case $percent in *[!0-9]* | 0) die "--percent takes a number from 1 on" ;; esac

chosen()
{
    jobs | while read -r name rest; do
        case ",${only:-$name}," in *",$name,"*) echo "$name $rest" ;; esac
    done
}
[ -n "$(chosen)" ] || die "no job is called $only"
if [ -n "$programs" ]; then
    # shellcheck disable=SC2034
    chosen | while read -r name variant program _; do
        case $variant:$program in
        sh:fuzz.sh) echo "build/fuzz/$name build/fuzz/plain/$name" ;;
        sh:eio.sh) echo build/msgstore ;;
        sh:*) ;;
        *) echo "build/$variant/$program" ;;
        esac
    done | sort -u
    exit 0
fi

# failures NAME: how many a job had; one, when it left no result.
failures()
{
    local n=
    [ ! -f "$logs/$1.failed" ] || read -r n <"$logs/$1.failed"
    echo "${n:-1}"
}

# total: reads the logs of the chosen jobs; prints the rows of the table.
total()
{
    chosen | while read -r name _; do
        { grep -a '^tally: ' "$logs/$name.log" 2>/dev/null || echo 'tally: nothing told 0'; } |
            sed "s/^tally:/$name $(failures "$name")/"
    done | awk '
        {
            n = $NF; name = $1; bad = $2; what = $3
            for (i = 4; i < NF; i++) what = what " " $i
            if (!(what in sum)) order[++kinds] = what
            sum[what] += n
            if (index(" " jobs[what] " ", " " name " ") == 0) {
                jobs[what] = jobs[what] (jobs[what] == "" ? "" : " ") name
                failed[what] += bad
            }
        }
        END {
            for (i = 1; i <= kinds; i++) {
                what = order[i]
                print "| " what " | " sum[what] " | " failed[what] " | " jobs[what] " |"
            }
        }'
}

# shellcheck disable=SC2016
print_table()
{
    local model
    model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)
    echo "$(date +%Y-%m-%d), ${model:-unknown processor}, $(getconf _NPROCESSORS_ONLN)" \
        "processors, $(uname -sr), commit $commit, $1 s:"
    echo "\`make torture${2:+ TORTURE='$2'} FUZZ_S=$FUZZ_S\`."
    echo
    echo '| what | how many | failures | jobs |'
    echo '| --- | ---: | ---: | --- |'
    total
}

commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
[ -z "$(git status --porcelain 2>/dev/null)" ] || commit="$commit and changes"
mkdir -p "$logs" "$(dirname "$table")"
rm -f "$logs"/*.log "$logs"/*.failed
begin=$SECONDS
# xargs would stop at a job that was killed.
# shellcheck disable=SC2016
chosen | xargs -P "${MS_TEST_JOBS:-2}" -L 1 sh -c 'bash "$@" || :' sh "$0" --one "$percent"

options=
[ "$percent" = 100 ] || options="--percent $percent"
[ -z "$only" ] || options="$options --only $only"
echo
print_table "$((SECONDS - begin))" "${options# }" | tee "$table"

failed=0
for name in $(chosen | awk '{ print $1 }'); do
    n=$(failures "$name")
    [ "$n" -ne 0 ] || continue
    failed=$((failed + n))
    [ -s "$logs/$name.failed" ] || printf '\n%s left no result: one failure' "$name"
    printf '\n---- %s: %s failed, end of %s\n' "$name" "$n" "$logs/$name.log"
    [ ! -f "$logs/$name.log" ] || tail -n 40 "$logs/$name.log"
done
echo
echo "$(chosen | wc -l) jobs, $failed failed"
[ "$failed" -eq 0 ]
