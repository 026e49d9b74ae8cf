#!/usr/bin/env bash
# Prints a table of the sample transcripts in ../shared/data: what msgstore reads in each.
# tests/transcripts.txt keeps it: bash tests/transcripts.sh >tests/transcripts.txt
# A row: messages, those taken back, calls, results, answers with usage, their tokens of
# input and output, unknown entries, exit code, file.
set -u
cd "$(dirname "$0")/.." || exit 1
tool=${MSGSTORE:-build/msgstore}
data=${MS_SHARED:-../shared}/data
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

# number NAME FILE: the first member of that name in a JSON object.
number()
{
    sed -n "s/.*\"total\"://; s/.*[{,]\"$1\":\([0-9]*\).*/\1/p" "$2" | head -n 1
}

row()
{
    rm -f "$tmp/log"
    "$tool" sync --json "$tmp/log" "$1" >"$tmp/sync" 2>/dev/null
    local code=$?
    "$tool" usage --json "$tmp/log" >"$tmp/usage" 2>/dev/null
    sed 's/.*"total"://' "$tmp/usage" >"$tmp/total"
    local cached written
    cached=$(number cache_read_tokens "$tmp/total")
    written=$(number cache_write_tokens "$tmp/total")
    printf '%8s %5s %5s %7s %7s %9s %7s %7s %4s  %s\n' "$(number messages "$tmp/sync")" \
        "$(number hidden "$tmp/sync")" "$(number calls "$tmp/sync")" \
        "$(number results "$tmp/sync")" "$(number answers "$tmp/total")" \
        "$(($(number input_tokens "$tmp/total") + cached + written))" \
        "$(number output_tokens "$tmp/total")" "$(number unknown "$tmp/sync")" "$code" \
        "${1#"$data"/}"
}

printf '%8s %5s %5s %7s %7s %9s %7s %7s %4s  %s\n' messages back calls results answers \
    input output unknown exit file
find "$data" -type f ! -name SOURCE.md ! -path '*/json-test-suite/*' \
    ! -path '*/opencode-storage/*' ! -name session.json | LC_ALL=C sort | while read -r file; do
    row "$file"
done
row "$data/opencode-storage"
