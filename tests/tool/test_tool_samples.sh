#!/usr/bin/env bash
# Every sample transcript of ../shared/data has as many messages, calls, results, tokens and
# unknown entries in the tool as samples.py counts in the file itself, and all its texts.
# A control gives the tool files without their last message: each of them has to fail.
. "$(dirname "$0")/tool_checks.sh"

if ! command -v python3 >/dev/null; then
    echo "skip samples_are_read_whole: no python3"
    exit 0
elif [ ! -d "$shared/claude-code-real" ]; then
    echo "skip samples_are_read_whole: no $shared"
    exit 0
fi

python3 tests/tool/samples.py "$tool" "$shared" >"$tmp/rows" 2>"$tmp/err"
status=$?
without='^$'
if "$tool" formats | grep -q 'without libzip\|neither'; then without='\.eval'; fi
bad=$(grep -v -e "$without" "$tmp/rows" | grep ^FAIL)
grep ^skip "$tmp/rows"
if [ -s "$tmp/err" ] || { [ "$status" -ne 0 ] && [ -z "$bad" ] && [ "$without" = '^$' ]; }; then
    fail samples_are_read_whole "samples.py ended with $status: $(tail -n 1 "$tmp/err")"
elif [ -n "$bad" ]; then
    fail samples_are_read_whole "${bad#FAIL }"
else
    ok samples_are_read_whole
fi
[ "$(grep -c ^ok "$tmp/rows")" -ge 30 ] || fail samples_are_counted "fewer than 30 samples"

# Of the samples that can be copied without a message, only a file without any passes.
python3 tests/tool/samples.py "$tool" "$shared" --drop 1 >"$tmp/rows" 2>"$tmp/err"
same sample_without_its_last_message_is_noticed '' \
    "$(cat "$tmp/err"; grep -v '^FAIL' "$tmp/rows")"
[ "$(grep -c ^FAIL "$tmp/rows")" -ge 25 ] || fail controls_are_made "fewer than 25"
exit "$failed"
