#!/usr/bin/env bash
# Runs the kept inputs of the fuzz targets once each, with sanitizers: every input that ever
# found something, and enough others that every part of the targets is reached. The
# programs are built by the Makefile; `make fuzz` looks for new inputs. What is built for
# AFL++, here with an ordinary compiler, reads one of them from standard input.
#
#   MS_FUZZ_BUILD=dir   runs the programs in that folder instead, and nothing for AFL++
set -u
build=${MS_FUZZ_BUILD:-build/san}
under=
if setarch "$(uname -m)" -R true 2>/dev/null; then under="setarch $(uname -m) -R"; fi
for source in tests/fuzz/fuzz_*.c; do
    name=${source##*/fuzz_}
    name=${name%.c}
    corpus=tests/fuzz/corpus/$name
    program=$build/fuzz_$name
    if [ ! -x "$program" ]; then
        echo "FAIL $program was not built"
    elif [ ! -d "$corpus" ]; then
        echo "skip $name: no $corpus"
    elif output=$(CMOCKA_TEST_ABORT=1 $under "$program" "$corpus" 2>&1); then
        grep '^tally: ' <<<"$output"
        echo "ok $name"
    else
        tail -n 30 <<<"$output"
        echo "FAIL $name"
    fi
    [ "$build" = build/san ] || continue
    program=build/o2/fuzz_$name
    input=$(find "$corpus" -type f 2>/dev/null | sort | head -n 1)
    if [ ! -x "$program" ]; then
        echo "FAIL $program was not built"
    elif [ -z "$input" ]; then
        echo "skip $name as for AFL++: no input in $corpus"
    elif output=$("$program" 2>&1 <"$input"); then
        echo "ok $name as for AFL++"
    else
        tail -n 30 <<<"$output"
        echo "FAIL $name as for AFL++"
    fi
done
