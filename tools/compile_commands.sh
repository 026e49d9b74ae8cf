#!/usr/bin/env bash
# Writes compile_commands.json, by which editors (clangd) open each file of src/ with those
# before it taken in, and each program of the tree with its own folders of headers:
# `make compile_commands.json`.
set -u
cd "$(dirname "$0")/.." || exit 1
folder=$(pwd)
stb=$(sh tools/setup.sh stb)
comma=

# entry FILE ARGUMENT ...: one object of the list.
entry()
{
    local file=$1 argument
    shift
    printf '%s{"directory": "%s", "file": "%s", "arguments": ["cc"' "$comma" "$folder" "$file"
    for argument in "$@" "$file"; do
        argument=${argument//\\/\\\\}
        printf ', "%s"' "${argument//\"/\\\"}"
    done
    printf ']}'
    comma=',
'
}

{
    echo '['
    before=()
    # shellcheck disable=SC2086
    while read -r file; do
        entry "$file" -std=c99 -Wall -Wextra -Wno-unused-function -Wno-unused-const-variable \
            -DMSGSTORE_IMPLEMENTATION -DMSGSTORE_FLASH -I. $stb "${before[@]}" -x c
        before+=(-include "$file")
    done < <(bash tools/join.sh --files)
    # shellcheck disable=SC2086
    while read -r file; do
        entry "$file" -std=c99 -Wall -Wextra -pthread -Isrc -I. -Itests/support -Ibench $stb
    done < <(git ls-files 'tests/*.c' 'tools/*.c' 'bench/*.c' 'examples/*.c')
    printf '\n]\n'
} >compile_commands.json
