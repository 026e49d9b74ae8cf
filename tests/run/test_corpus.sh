#!/usr/bin/env bash
# Runs the kept inputs of the fuzz targets once each, with sanitizers: every input that ever
# found something, and enough others that every part of the targets is reached. They stand
# in tests/fuzz/TARGET.inputs, see tests/fuzz/inputs.sh. The programs are built by the
# Makefile; `make fuzz` looks for new inputs. What is built for AFL++, here with an ordinary
# compiler, reads one of them from standard input.
#
#   MS_FUZZ_BUILD=dir   runs the programs in that folder instead, and nothing for AFL++
set -u
build=${MS_FUZZ_BUILD:-build/san}
under=
if setarch "$(uname -m)" -R true 2>/dev/null; then under="setarch $(uname -m) -R"; fi
for source in tests/fuzz/fuzz_*.c; do
    name=${source##*/fuzz_}
    name=${name%.c}
    inputs=tests/fuzz/$name.inputs
    program=$build/fuzz_$name
    if [ ! -x "$program" ]; then
        echo "FAIL $program was not built"
    elif output=$($under "$program" "$inputs" 2>&1); then
        grep '^tally: ' <<<"$output"
        echo "ok $name"
    else
        tail -n 30 <<<"$output"
        echo "FAIL $name"
    fi
    [ "$build" = build/san ] || continue
    program=build/o2/fuzz_$name
    first=$(head -n 1 "$inputs")
    if [ ! -x "$program" ]; then
        echo "FAIL $program was not built"
    elif output=$(sh tests/fuzz/inputs.sh print "$name" "${first%% *}" | "$program" 2>&1); then
        echo "ok $name as for AFL++"
    else
        tail -n 30 <<<"$output"
        echo "FAIL $name as for AFL++"
    fi
done
