# What cross.sh and windows.sh share: test programs of another system, which an emulator
# runs. They take it in with `. tests/platform/foreign.sh`, and define
#
#   machine, out, emulator, suffix, scale, limit   its name, folder, emulator, ending of
#                      programs, percent of the long loops, seconds until one is stopped
#   build PROGRAM      makes $out/PROGRAM$suffix
#   left_out PROGRAM   prints why it is not run, if so
#   known PROGRAM TEST prints why it may fail, if so
#
# JOBS=n programs at a time (2). PROGRAMS names those that are run, by default all. With
# BUILD_ONLY=1 a program that is built has passed, and does not run.
# shellcheck shell=bash disable=SC2034,SC2154

. tests/run/suites.sh
here=$PWD
jobs=${JOBS:-2}
stb=$(sh tools/setup.sh stb)
warnings="-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wcast-qual"
# What test_doctor and test_sync are linked with; test_sync with `syncing`, too.
readers="tools/base.c tools/json.c tools/files.c tools/secrets.c tools/identity.c tools/trace.c"
readers="$readers tools/database.c"
readers="$readers tools/formats.c tools/doctor.c $(echo tools/read*.c)"
syncing="tools/input.c tools/intake.c tools/sync.c tools/past.c"
passed=0 failed=0 all_passed=0 all_failed=0 all_skipped=0
build_only=${BUILD_ONLY:-0}

ok()
{
    echo "ok $1"
    passed=$((passed + 1))
}

fail()
{
    echo "FAIL $1: $2"
    failed=$((failed + 1))
}

# why LOG: the first error of a compiler.
why()
{
    grep -m 1 -E 'error|undefined' "$1"
}

# apt ARGUMENTS: apt-get with folders of its own: nothing foreign is installed.
apt()
{
    local state=$here/$out/apt
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
    : >"$state/status"
    apt-get -q -o APT::Sandbox::User=root -o Dir::State="$state" \
        -o Dir::State::status="$state/status" -o Dir::Cache="$state/cache" \
        "${apt_options[@]}" "$@"
}

# judge NAME LOG STATUS: what its output shows; sets passed, failed and skipped.
judge()
{
    local test reason
    passed=$(awk '/^\[  PASSED  \] [0-9]/ { n += $4 } END { print n + 0 }' "$2")
    skipped=$(grep -acE '^\[  SKIPPED \] [^0-9]|^skipped' "$2")
    if [ "$3" -eq 124 ]; then
        fail "$machine $1" \
            "stopped after $limit s in $(grep -a '^\[ RUN ' "$2" | tail -n 1)"
    elif [ "$passed" -eq 0 ] || ! grep -qaE '^\[==========\] .* run\.' "$2"; then
        fail "$machine $1" "it did not come to its end, status $3, see $2"
    elif [ "$3" -gt 0 ] && ! grep -qaE '^\[  FAILED  \] ' "$2"; then
        fail "$machine $1" "it ended with status $3, see $2"
    fi
    for test in $(grep -aE '^\[  FAILED  \] [^0-9]' "$2" | awk '{ print $4 }' | sort -u); do
        reason=$(known "$1" "$test")
        if [ -n "$reason" ]; then
            echo "skip $machine $1 $test: $reason"
        else
            fail "$machine $1" "$test, see $2"
        fi
    done
}

# program NAME: one line with what came out; the counts go to NAME.count.
program()
{
    local log=$out/log/$1 status=0 skipped=0 start=$SECONDS reason
    reason=$(left_out "$1")
    if [ -n "$reason" ]; then
        echo "skip $machine $1: $reason"
    elif ! build "$1" >"$log" 2>&1; then
        fail "$machine $1" "cannot be built: $(why "$log")"
    elif [ "$build_only" = 1 ]; then
        ok "$machine $1 is built"
    else
        MS_TEST_SCALE=$scale timeout -k 5 "$limit" $emulator "$out/$1$suffix" >"$log" 2>&1 \
            </dev/null || status=$?
        sed -i 's/\r$//' "$log"
        judge "$1" "$log" "$status"
        printf '%-8s %-22s %4d passed %3d failed %3d skipped %4d s\n' "$machine" "$1" \
            "$passed" "$failed" "$skipped" "$((SECONDS - start))"
    fi
    echo "$passed $failed" >"$out/log/$1.count"
}

# shellcheck disable=SC2046,SC2086
programs() { basename -s .c -a ${PROGRAMS:-$(suite_files | grep '\.c$')}; }

# Runs all of them; one that leaves no result has failed.
run_programs()
{
    local name
    programs | xargs -P "$jobs" -I '{}' bash "$0" --program "$machine" '{}'
    for name in $(programs); do
        [ -s "$out/log/$name.count" ] || fail "$machine $name" "it left no result"
    done
    read -r count_passed count_failed < <(cat "$out"/log/*.count 2>/dev/null |
        awk '{ p += $1; f += $2 } END { print p + 0, f + 0 }')
    passed=$((passed + count_passed)) failed=$((failed + count_failed))
}

# tally WHAT: of the machine.
tally()
{
    echo "tally: $1 $passed"
    all_passed=$((all_passed + passed)) all_failed=$((all_failed + failed))
    passed=0 failed=0
}

finish()
{
    echo "$all_passed passed, $all_failed failed, $all_skipped skipped"
    [ "$all_failed" -eq 0 ]
}
