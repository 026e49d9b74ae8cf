#!/usr/bin/env bash
# Compiles each file of src/ alone after the files that stand before it in the spine: no
# file needs one that comes later. With clang the files before are one precompiled header,
# each made from the one before; else they are taken in one by one, as
# compile_commands.json does.
#
# Then a call upward is planted in a copy, and the compiler must refuse that file.
#
# Prints "ok NAME" or "FAIL NAME: reason" for each check, and the lines of each folder.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=build/alone
failed=0
rm -rf "$out"
mkdir -p "$out"
options="-std=c99 -Wall -Wextra -Werror -Wno-unused-function -Wno-unused-const-variable
    -Wno-misleading-indentation -Wno-unknown-warning-option -Wno-ignored-pragmas
    -DMSGSTORE_IMPLEMENTATION -DMSGSTORE_FLASH $(sh tools/setup.sh stb)"
clang=$(command -v "${CLANG:-clang}")

# compile FOLDER FILE NUMBER: compiles a file after those of `before`; adds it to them.
# shellcheck disable=SC2086
compile()
{
    if [ -n "$clang" ]; then
        "$clang" $options $before -x c-header "$1/$2" -o "$out/$3.pch" || return 1
        before="-include-pch $out/$3.pch"
    else
        ${CC:-cc} $options $before -fsyntax-only -x c "$1/$2" || return 1
        before="$before -include $1/$2"
    fi
}

# compile_all FOLDER LAST: compiles the files of a copy of src/, up to that one or to the
# end. Sets stopped to the file that was refused.
compile_all()
{
    local file number=0
    before=
    stopped=
    for file in $files; do
        number=$((number + 1))
        compile "$1" "$file" "$number" >"$out/log" 2>&1 || { stopped=$file && return; }
        [ "$file" != "${2:-}" ] || return
    done
}

files=$(bash tools/join.sh --files | sed 's/^src.//')
compile_all src
if [ -z "$stopped" ]; then echo "ok every_file_compiles_after_those_before_it"; else
    echo "FAIL every_file_compiles_after_those_before_it: $stopped: $(grep -m 1 error "$out/log")"
    failed=1
fi

cp -r src "$out/src"
cat >>"$out/src/foundation/bits.h" <<'END'

static uint32_t ms__planted(ms_writer *w) { return ms__os_begin(w); }
END
compile_all "$out/src" foundation/bits.h
if [ "$stopped" = foundation/bits.h ] && grep -q 'error.*ms__os_begin' "$out/log"; then
    echo "ok self_a_call_upward_is_refused"
else
    echo "FAIL self_a_call_upward_is_refused: it stopped at '$stopped', see $out/log"
    failed=1
fi

for folder in src/*/; do
    echo "tally: lines of $folder $(cat "$folder"*.h | wc -l)"
done
exit $failed
