#!/usr/bin/env bash
# Prints a table of the sample transcripts in ../shared/data: what msgstore reads in each.
# transcripts.txt keeps it: bash tests/tool/transcripts.sh >tests/tool/transcripts.txt
# A row: messages, those taken back, calls, results, answers with usage, their tokens of
# input and output, unknown entries, exit code, file.
set -u
cd "$(dirname "$0")/../.." || exit 1
tool=${MSGSTORE:-build/msgstore}
data=${MS_SHARED:-../shared}/data
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

# numbers TEXT NAME...: sets found to these members of a JSON object, or of its total.
numbers()
{
    local name pattern
    found=()
    for name in "${@:2}"; do
        pattern=".*[{,]\"$name\":([0-9]*)"
        [[ ${1##*'"total":'} =~ $pattern ]]
        found+=("${BASH_REMATCH[1]-}")
    done
}

row()
{
    local text code
    rm -f "$tmp/row.log"
    text=$("$tool" sync --json "$tmp/row.log" "$1" 2>/dev/null)
    code=$?
    numbers "$text" messages hidden calls results unknown
    set -- "$1" "${found[@]}"
    numbers "$("$tool" usage --json "$tmp/row.log" 2>/dev/null)" answers input_tokens \
        cache_read_tokens cache_write_tokens output_tokens
    printf '%8s %5s %5s %7s %7s %9s %7s %7s %4s  %s\n' "$2" "$3" "$4" "$5" "${found[0]}" \
        "$((${found[1]:-0} + ${found[2]:-0} + ${found[3]:-0}))" "${found[4]}" "$6" "$code" \
        "${1#"$data"/}"
}

printf '%8s %5s %5s %7s %7s %9s %7s %7s %4s  %s\n' messages back calls results answers \
    input output unknown exit file
find "$data" -type f ! -name SOURCE.md ! -path '*/json-test-suite/*' \
    ! -path '*/opencode-storage/*' ! -name session.json | LC_ALL=C sort | while read -r file; do
    row "$file"
done
row "$data/opencode-storage"
