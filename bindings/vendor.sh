#!/usr/bin/env bash
# Copies a package and the headers that it compiles into a folder of its own:
#
#   bindings/vendor.sh rust FOLDER    the workspace of two crates, with csrc/ filled
#   bindings/vendor.sh go FOLDER      the module, with csrc/ filled
#   bindings/vendor.sh js FOLDER      the package, with native/csrc/ filled; not its
#                                     msgstore.wasm, see tools/wasm.sh
#
# The headers are in the repository once; what is published, or tested as if it were, comes
# from here. What is in FOLDER and equal stays as it is, so that nothing is compiled anew.
# STB_INC names the folder of stb_ds.h.
set -eu
case ${1:-}:$# in
rust:2 | go:2 | js:2) ;;
*) echo "usage: bindings/vendor.sh rust|go|js FOLDER" >&2; exit 2 ;;
esac
kind=$1
mkdir -p "$2"
to=$(cd "$2" && pwd)
cd "$(dirname "$0")/.."
stb=$(sh tools/setup.sh stb)
stb=${stb#-isystem }
[ -n "$stb" ] || { echo "bindings/vendor.sh: stb_ds.h is not found (Debian: libstb-dev)" >&2; exit 1; }

# put FILE NAME: copies it unless the copy is equal.
put()
{
    cmp -s "$1" "$to/$2" || { mkdir -p "$(dirname "$to/$2")" && cp "$1" "$to/$2"; }
}

# Files that the repository has, and new ones that it does not ignore.
git ls-files -co --exclude-standard "bindings/$kind" | while read -r file; do
    [ ! -f "$file" ] || put "$file" "${file#bindings/"$kind"/}"
done
case $kind in
rust) c=msgstore-sys/csrc licences='msgstore-sys msgstore' ;;
go) c=csrc licences=. ;;
js) c=native/csrc licences=. ;;
esac
put msgstore.h $c/msgstore.h
put bindings/msgstore_ffi.h $c/msgstore_ffi.h
put "$stb/stb_ds.h" $c/stb_ds.h
for folder in $licences; do put LICENSE "$folder/LICENSE"; done
