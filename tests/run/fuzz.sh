#!/usr/bin/env bash
# Fuzzes: `make fuzz`, from the folder of the Makefile.
#
#   FUZZ_S=seconds      how long each target runs (60)
#   FUZZ_RUNS=n         so many executions each: a twentieth with sanitizers, then the others
#                       without, which is several times as quick; each part for at most
#                       FUZZ_S where that is given: a target that time ends has failed
#   FUZZ_ONLY=log,ops   only these targets
#   JOBS=n              so many targets side by side (2)
#
# A target begins with the kept inputs (tests/fuzz/TARGET.inputs), a file each in
# build/fuzz/seeds/TARGET, and with what earlier runs have left in
# build/fuzz/corpus/TARGET. It ends at its first finding, whose input goes to
# build/fuzz/crashes/TARGET; the line about it has the command that runs it again, and
# tests/fuzz/inputs.sh keeps it. Exit status 1: there are findings, or fewer executions
# than FUZZ_RUNS. The last lines count, the last one targets:
#
#   tally: fuzz executions TARGET n
#   tally: fuzz executions TARGET, with sanitizers n
#   tally: fuzz findings TARGET n
#   N passed, N failed, N skipped
set -u
runs=${FUZZ_RUNS:-0}
seconds=${FUZZ_S:-$([ "$runs" -eq 0 ] || echo 0)}
jobs=${JOBS:-2}
out=build/fuzz

targets()
{
    if [ -n "${FUZZ_ONLY:-}" ]; then
        tr ' ,' '\n\n' <<<"$FUZZ_ONLY" | grep .
    else
        for file in tests/fuzz/fuzz_*.c; do
            file=${file##*/fuzz_}
            echo "${file%.c}"
        done
    fi
}

# The bytes of the longest input: short ones are quicker, and reach the same.
longest()
{
    case $1 in
    json) echo 512 ;;
    project) echo 320 ;;
    answer) echo 128 ;;
    ops) echo 48 ;;
    image) echo 2048 ;;
    readers) echo 1024 ;;
    log) echo 4096 ;;
    *) echo 1024 ;;
    esac
}

# The sanitizers' fixed addresses can collide with randomised ones.
plain_addresses()
{
    if setarch "$(uname -m)" -R true 2>/dev/null; then
        setarch "$(uname -m)" -R "$@"
    else
        "$@"
    fi
}

# fuzz TARGET PROGRAM LOG RUNS LONGEST: runs it; -1 runs: as many as the time allows.
fuzz()
{
    local name=$1 log=$3 corpus=$out/corpus/$1 crashes=$out/crashes/$1 seeds=$out/seeds/$1
    local options=(-max_len="$5" -timeout=20 -entropic=0 -detect_leaks=0 -reload=0
        -print_final_stats=1 -print_funcs=0 -print_pcs=0 -artifact_prefix="$crashes/")
    mkdir -p "$corpus" "$crashes"
    rm -rf "$seeds"
    sh tests/fuzz/inputs.sh unpack "$name" "$seeds"
    options+=(-runs="$4" -max_total_time="${seconds:-60}") # 0 seconds: no limit
    [ ! -f "tests/fuzz/$name.dict" ] || options+=(-dict="tests/fuzz/$name.dict")
    plain_addresses "$2" "${options[@]}" \
        "$corpus" "$seeds" >"$log" 2>&1 </dev/null
}

# fuzz_both TARGET: with sanitizers, then without, and inputs of half the length. The logs
# are build/fuzz/TARGET.log and TARGET_plain.log.
fuzz_both()
{
    local status=0 most checked=$((runs > 0 ? (runs + 19) / 20 : -1))
    most=$(longest "$1")
    fuzz "$1" "$out/fuzz_$1" "$out/$1.log" "$checked" "$most" || status=$?
    if [ "$status" -eq 0 ] && [ "$runs" -gt "$checked" ] && [ "$runs" -gt 0 ]; then
        fuzz "$1" "$out/plain/fuzz_$1" "$out/$1_plain.log" $((runs - checked)) \
            $((most / 2)) || status=$?
    fi
    echo "$status" >"$out/$1.status"
}

# executions LOG...: the sum.
executions()
{
    cat "$@" 2>/dev/null | awk '/^stat::number_of_executed_units:/ { n += $2 }
                                END { print n + 0 }'
}

# tell TARGET: its line, and what was found.
tell()
{
    local name=$1 log=$out/$1.log status file
    status=$(cat "$out/$name.status" 2>/dev/null || echo none)
    for file in "$log" "$out/$1_plain.log"; do
        [ -f "$file" ] || continue
        printf '%-10s %12s executions %8s a second%s\n' "$name" "$(executions "$file")" \
            "$(sed -n 's/^stat::average_exec_per_sec: *//p' "$file")" \
            "$([ "$file" = "$log" ] || echo ', without sanitizers')"
        log=$file
    done
    if [ "$status" != 0 ]; then
        grep -aE 'fuzz_fail|^==.*ERROR|runtime error|SUMMARY|\[   LINE' "$log" | head -n 5
        tail -n 3 "$log" | grep -a 'Test unit written' || tail -n 3 "$log"
        file=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
        echo "FINDING in $name (status $status), see $log; again:"
        echo "    make build/san/fuzz_$name && build/san/fuzz_$name ${file:-(no input)}"
    fi
}

# enough TARGET: did it come to its executions? Says so when not.
enough()
{
    local n
    n=$(executions "$out/$1.log" "$out/$1_plain.log")
    [ "$n" -lt "$runs" ] || return 0
    echo "fuzz $1: $n of $runs executions in $seconds seconds: raise FUZZ_S"
    return 1
}

case ${1:-} in
--one)
    fuzz_both "$2"
    exit 0
    ;;
esac

printf '#include <stdint.h>\n#include <stddef.h>\n%s\n' \
    'int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n) { return p == 0 && n == 1; }' \
    >"${TMPDIR:-/tmp}/msgstore-fuzz-$$.c"
${CLANG:-clang} -fsanitize=fuzzer,address,undefined -o /dev/null \
    "${TMPDIR:-/tmp}/msgstore-fuzz-$$.c" >/dev/null 2>&1
works=$?
rm -f "${TMPDIR:-/tmp}/msgstore-fuzz-$$.c"
if [ $works -ne 0 ]; then
    echo "skip fuzz: ${CLANG:-clang} has no -fsanitize=fuzzer (Debian: clang, libclang-rt)"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi

mkdir -p "$out"
# shellcheck disable=SC2046
${MAKE:-make} --no-print-directory -j"$jobs" $(targets | sed "s|^|$out/fuzz_|") \
    $([ "$runs" -eq 0 ] || targets | sed "s|^|$out/plain/fuzz_|") || exit 1
for name in $(targets); do
    rm -f "$out/$name.status" "$out/$name.log" "$out/${name}_plain.log"
done
targets | xargs -P "$jobs" -I '{}' bash "$0" --one '{}'

found=0
unfinished=0
tried=0
for name in $(targets); do tell "$name"; done
for name in $(targets); do
    bad=0
    tried=$((tried + 1))
    [ "$(cat "$out/$name.status" 2>/dev/null)" = 0 ] || bad=1
    found=$((found + bad))
    echo "tally: fuzz executions $name $(executions "$out/$name.log" "$out/${name}_plain.log")"
    echo "tally: fuzz executions $name, with sanitizers $(executions "$out/$name.log")"
    echo "tally: fuzz findings $name $bad"
    [ "$bad" -ne 0 ] || enough "$name" || unfinished=$((unfinished + 1))
done
echo "$((tried - found - unfinished)) passed, $((found + unfinished)) failed, 0 skipped"
[ $((found + unfinished)) -eq 0 ]
