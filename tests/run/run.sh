#!/usr/bin/env bash
# Runs test suites, two at a time, and counts.
#
#   tests/run/run.sh [--unbuilt] [VARIANT:PROGRAM ...]
#
# Variants: o2, san, tsan, os, arena, check (programs built so), val (under valgrind), sh
# (a shell script), example (a program that has to end with 0). Without arguments: all of
# o2, san and tsan that is in build/, and the scripts.
# --unbuilt tells that building failed; that counts as one failure.
#
# MS_TEST_SCALE (percent) says how much of the long loops to run, MS_TEST_JOBS how many
# suites at a time, MS_TEST_TIMEOUT when a suite is stopped (seconds).
#
# Each suite's output goes to build/log/NAME.log. A suite that fails is followed by its
# failing tests, with their output and the command that runs them alone. Then come the
# lines "skip SUITE: TEST: why" of the tests that did not run. The last line is "N passed,
# N failed, N skipped".
set -u
log=build/log
jobs=${MS_TEST_JOBS:-2}
limit=${MS_TEST_TIMEOUT:-600}
shared=${MS_SHARED:-../shared}

# How many failing tests of a suite are printed, and how many lines of each.
most_tests=10
most_lines=20

# variant NAME: sets what it is run under, and how much of the long loops it does.
variant()
{
    scale=100
    under=
    case $1 in
    o2) scale=30 ;;
    os | arena) scale=10 ;;
    san | tsan)
        scale=5
        # The sanitizers' fixed addresses can collide with randomised ones.
        if setarch "$(uname -m)" -R true 2>/dev/null; then
            under="setarch $(uname -m) -R"
        fi
        ;;
    val)
        scale=1
        under="valgrind --error-exitcode=9 --leak-check=full"
        under="$under --show-leak-kinds=definite,indirect -q"
        ;;
    sh) under=bash ;;
    esac
    scale=$((scale * ${MS_TEST_SCALE:-100} / 100))
    [ "$scale" -ge 1 ] || scale=1
}

# arguments_of PROGRAM: sets arguments.
arguments_of()
{
    arguments=
    case $1 in
    # Only whether they work: their figures are for a quiet machine.
    */bench_goals)
        arguments="--n 2000 --runs 1 --shared=$(cd "$shared" 2>/dev/null && pwd)"
        ;;
    */bench_micro) arguments="--runs 1" ;;
    esac
}

# launch VARIANT PROGRAM OUTPUT: run it; the status is the program's.
# shellcheck disable=SC2086
launch()
{
    variant "$1"
    arguments_of "$2"
    if command -v timeout >/dev/null 2>&1; then under="timeout -k 5 $limit $under"; fi
    if [ "$1" = example ]; then
        # In a folder of its own, so that the files it writes are new each time.
        local folder="build/run/${2##*/}"
        rm -rf "$folder" && mkdir -p "$folder"
        (cd "$folder" && exec $under "$OLDPWD/$2" $arguments) >"$3" 2>&1 </dev/null
    else
        MS_TEST_SCALE=$scale $under "$2" $arguments >"$3" 2>&1 </dev/null
    fi
}

# sum FILE PATTERN: adds up the first number of all lines that match.
sum()
{
    grep -aE "$2" "$1" | sed -E 's/^[^0-9]*([0-9]+).*/\1/' |
        awk '{ n += $1 } END { print n + 0 }'
}

# count VARIANT FILE STATUS: prints "passed failed skipped". cmocka tells its counts;
# scripts print a line "ok", "FAIL" or "skip" per check; others may end with the line
# "N passed, N failed". Whatever ends with another status than 0 has failed.
count()
{
    local passed failed skipped=0
    if [ "$1" = example ]; then
        passed=$((${3} == 0))
        failed=0
    elif [ "$1" = sh ]; then
        passed=$(grep -acE '^ok ' "$2")
        failed=$(grep -acE '^FAIL ' "$2")
        skipped=$(grep -acE '^skip ' "$2")
    elif grep -qaE '^\[=+\] ' "$2"; then
        passed=$(sum "$2" '^\[  PASSED  \] [0-9]+ test')
        failed=$(sum "$2" '^\[  FAILED  \] [0-9]+ test')
        skipped=$(sum "$2" '^\[  SKIPPED \] [0-9]+ test')
    else
        local line
        line=$(grep -aE '[0-9]+ passed.*[0-9]+ failed' "$2" | tail -n 1)
        passed=$(sed -E 's/.*[^0-9]([0-9]+) passed.*/\1/' <<<" ${line:-0 passed}")
        failed=$(sed -E 's/.*[^0-9]([0-9]+) failed.*/\1/' <<<" ${line:-0 failed}")
        skipped=$(grep -acE '^skipped: ' "$2")
    fi
    if [ "$3" -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi
    if [ $((passed + failed + skipped)) -eq 0 ]; then failed=1; fi
    echo "$passed $failed $skipped"
}

# alone VARIANT PROGRAM [TEST]: prints the command that runs it again, or that test of it.
alone()
{
    local name settings=
    variant "$1"
    arguments_of "$2"
    for name in MS_SHARED MS_TEST_SEED MSGSTORE MS_FUZZ_BUILD; do
        case $1:$name in
        sh:*) ;;
        *:MSGSTORE | *:MS_FUZZ_BUILD) continue ;; # only scripts read these
        esac
        [ -z "${!name:-}" ] || settings="$settings$name='${!name}' "
    done
    [ "$1" = example ] || settings="${settings}MS_TEST_SCALE=$scale "
    [ -z "${3:-}" ] || settings="${settings}MS_TEST_ONLY='$3' "
    echo "alone: $settings${under:+$under }$2${arguments:+ $arguments}"
}

# failing OUTPUT: prints "TEST NAME" and the output of each failing test of a cmocka
# program. The last test of a program that crashed has not ended: it is one of them.
failing()
{
    awk -v tests=$most_tests -v lines=$most_lines '
        function failed(    i) {
            if (++seen > tests) return
            print "TEST " name
            for (i = n > lines ? n - lines + 1 : 1; i <= n; i++) print "    " line[i]
        }
        /^\[ RUN      \] / { name = substr($0, 14); n = 0; open = 1; next }
        /^\[       OK \] / || /^\[  SKIPPED \] / { open = 0 }
        open && index($0, "[  FAILED  ] " name) == 1 { failed(); open = 0 }
        open { line[++n] = $0 }
        END {
            if (open) { line[++n] = "(the program ended in this test)"; failed() }
            if (seen > tests) print "    and " seen - tests " more"
        }' "$1"
}

# report VARIANT PROGRAM OUTPUT: what failed, and the commands that run it alone.
report()
{
    local found last=
    printf '\n---- %s %s failed; its whole output: %s\n' "$1" "$2" "$3"
    if [ "$1" = sh ]; then
        grep -a '^FAIL ' "$3" || tail -n 60 "$3"
        alone sh "$2"
        return
    fi
    found=$(failing "$3")
    if [ -z "$found" ]; then
        tail -n 60 "$3"
        alone "$1" "$2"
        return
    fi
    while IFS= read -r line; do
        if [ "${line#TEST }" != "$line" ]; then
            [ -z "$last" ] || alone "$1" "$2" "$last"
            last=${line#TEST }
            echo "$last"
        else
            echo "$line"
        fi
    done <<<"$found"
    alone "$1" "$2" "$last"
}

# skips SUITE OUTPUT: prints a line for each test that was skipped; cmocka prints its name
# after what it says of it.
skips()
{
    awk -v suite="$1" '
        /^skip / { sub(/^skip /, ""); print "skip " suite ": " $0 }
        /^skipped: / { sub(/^skipped: /, ""); print "skip " suite ": " $0 }
        /^\[ RUN      \] / { said = ""; next }
        /^\[  SKIPPED \] [0-9]/ { exit }
        /^\[  SKIPPED \] / { print "skip " suite ": " substr($0, 14) said; next }
        { said = ": " $0 }' "$2"
}

# One suite: run, count, print a line, leave the counts in NAME.count.
suite()
{
    local kind=${1%%:*} program=${1#*:}
    local name=${program##*/}
    name=$kind-${name%.sh}
    local output=$log/$name.log status=0 passed failed skipped note=
    local start=$SECONDS
    [ "$kind" != example ] || output=build/${program##*/}.out
    rm -f "$log/$name.count"
    if [ ! -f "$program" ]; then
        echo "$program was not built" >"$output"
        status=127
    else
        launch "$kind" "$program" "$output" || status=$?
    fi
    read -r passed failed skipped <<<"$(count "$kind" "$output" "$status")"
    case $status in
    0) [ "$passed$failed$skipped" != 010 ] || note=" (it counted no test)" ;;
    1 | "$failed") ;; # cmocka ends with the number of failures
    124 | 137) note=" (stopped after ${limit} s, or killed)" ;;
    *) [ "$failed" -eq 0 ] || note=" (exit status $status)" ;;
    esac
    echo "$passed $failed $skipped $output" >"$log/$name.count"
    printf '%-34s %5d passed %3d failed %3d skipped %4d s%s\n' "$kind ${program##*/}" \
        "$passed" "$failed" "$skipped" "$((SECONDS - start))" "$note"
}

if [ "${1:-}" = --suite ]; then
    suite "$2"
    exit 0
fi

# counts_of VARIANT:PROGRAM: sets passed, failed, skipped and output.
counts_of()
{
    local name=${1##*/}
    name=${1%%:*}-${name%.sh}
    passed=0 failed=1 skipped=0 output=/dev/null
    [ ! -f "$log/$name.count" ] || read -r passed failed skipped output <"$log/$name.count"
}

total_passed=0
total_failed=0
total_skipped=0
mkdir -p "$log"
if [ "${1:-}" = --unbuilt ]; then
    shift
    total_failed=1
    echo "building failed: see the messages above"
fi
if [ $# -eq 0 ]; then
    for program in tests/*/test_*.sh; do set -- "$@" "sh:$program"; done
    for program in build/san/test_* build/tsan/test_* build/o2/test_*; do
        kind=${program#build/}
        [ ! -x "$program" ] || set -- "$@" "${kind%%/*}:$program"
    done
fi

rm -f "$log"/*.count "$log/total"
# Suites that wait most of their time run beside the others, which have all jobs.
waiting='test_tool_(serve|log)\.sh$|/game$'
printf '%s\n' "$@" | grep -E "$waiting" | xargs -P 2 -I '{}' bash "$0" --suite '{}' &
printf '%s\n' "$@" | grep -vE "$waiting" |
    xargs -P "$jobs" -I '{}' bash "$0" --suite '{}'
wait

for suite in "$@"; do
    counts_of "$suite"
    total_passed=$((total_passed + passed))
    total_failed=$((total_failed + failed))
    total_skipped=$((total_skipped + skipped))
    if [ "$failed" -ne 0 ]; then
        report "${suite%%:*}" "${suite#*:}" "$output"
    fi
done
for suite in "$@"; do
    counts_of "$suite"
    [ "$skipped" -eq 0 ] || skips "${suite##*/}" "$output"
done
echo "$total_passed passed, $total_failed failed, $total_skipped skipped" |
    tee "$log/total"
[ "$total_failed" -eq 0 ] && [ "$total_passed" -gt 0 ]
