#!/usr/bin/env bash
# What tools/flat.sh writes is written, and the headers have the C functions of its table. A
# change of a file, of a prototype or of a row is noticed.
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

# mutated FILE NAME WANTED SED: a copy of the tree with that change; the check must say WANTED.
copy=$PWD/build/flat/copy
written='docs/flat.md bindings/python/msgstore/words.py bindings/python/msgstore/_flat.py
    bindings/js/msgstore.d.ts bindings/js/flat.d.ts bindings/rust/msgstore-sys/src/lib.rs
    tests/platform/compile/ffi_prototypes.h'
mutated()
{
    local found file
    rm -rf "$copy"
    for file in $written bindings/flat.table bindings/msgstore_ffi.h; do
        mkdir -p "$copy/$(dirname "$file")"
        cp "$file" "$copy/$file"
    done
    sed "$4" "$1" >"$copy/$1"
    found=$(MS_FLAT=$copy bash tools/flat.sh --check 2>&1)
    case $found in
    *"$3"*) found= ;;
    *) found="a change of it is not noticed: $found" ;;
    esac
    result "$2" "$found"
}

for file in $written; do
    mutated "$file" "change_noticed_in_$(basename "$file" | tr . _)" "$file differs from" \
        's/chat-strict//; s/args_len//; s/ctypes.c_int/ctypes.c_long/'
done
header=bindings/msgstore_ffi.h table=bindings/flat.table
mutated $header prototype_noticed "other types than the headers" \
    's/^\(MS_API int ms_ffi_union(.*\)size_t n_stores,/\1unsigned n_stores,/'
mutated $header result_noticed "other types than the headers" \
    's/^MS_API void ms_ffi_free(char \*out);/MS_API int ms_ffi_free(char *out);/'
mutated $header function_noticed "lacks: ms_ffi_more" \
    's/^MS_API void ms_ffi_free(char \*out);/&\nMS_API void ms_ffi_more(void);/'
mutated $table row_noticed "lacks: ms_ffi_free" '/^ms_ffi_free /d'
mutated $table type_noticed "other types than the headers" '/^ms_ffi_call /s/args_len:size/args_len:text/'
mutated $table unknown_type_noticed "there is no type" '/^ms_ffi_call /s/args_len:size/args_len:long/'
exit "$failed"
