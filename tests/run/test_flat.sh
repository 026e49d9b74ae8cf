#!/usr/bin/env bash
# What tools/flat.sh writes is written: the page about the flat interface and the words of
# Python and TypeScript are those of the tables of bindings/msgstore_ffi.h. A word that is
# missing in one of them is noticed.
#
# Prints "ok NAME" or "FAIL NAME: reason" for each check.
set -u
cd "$(dirname "$0")/../.." || exit 1
failed=0
result()
{
    if [ -z "$2" ]; then echo "ok $1"; else echo "FAIL $1: $2"; failed=1; fi
}

result written_from_the_tables "$(bash tools/flat.sh --check 2>&1)"

copy=$PWD/build/flat/copy
rm -rf "$copy"
mkdir -p "$copy/bindings/js" "$copy/bindings/python/msgstore" "$copy/docs"
cp bindings/js/msgstore.d.ts "$copy/bindings/js/"
cp bindings/python/msgstore/words.py "$copy/bindings/python/msgstore/"
cp docs/flat.md "$copy/docs/"
for file in bindings/js/msgstore.d.ts bindings/python/msgstore/words.py docs/flat.md; do
    sed 's/chat-strict//' "$file" >"$copy/$file"
    found=$(MS_FLAT=$copy bash tools/flat.sh --check 2>&1)
    case $found in
    "$file differs from"*) found= ;;
    *) found="a change of it is not noticed: $found" ;;
    esac
    result "change_noticed_in_$(basename "$file" | tr . _)" "$found"
    cp "$file" "$copy/$file"
done
exit "$failed"
