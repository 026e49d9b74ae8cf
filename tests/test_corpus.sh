#!/usr/bin/env bash
# Runs the kept inputs of the fuzz targets once each, with sanitizers: every input that ever
# found something, and enough others that every part of the targets is reached. The
# programs are built by the Makefile; `make fuzz` looks for new inputs.
set -u
under=
if setarch "$(uname -m)" -R true 2>/dev/null; then under="setarch $(uname -m) -R"; fi
for source in tests/fuzz/fuzz_*.c; do
    name=${source##*/fuzz_}
    name=${name%.c}
    corpus=tests/fuzz/corpus/$name
    program=build/san/fuzz_$name
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
done
