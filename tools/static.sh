#!/usr/bin/env bash
# Builds the tool as one static binary with musl: tools/static.sh FILE. It needs musl-gcc
# (Debian: musl-tools) and no library at run time; what zlib, libzstd and libzip add is left
# out. Prints its size.
set -eu
cd "$(dirname "$0")/.."
out=${1:-build/msgstore-static}
command -v musl-gcc >/dev/null ||
    { echo "make static: musl-gcc is not installed (Debian: musl-tools)" >&2; exit 1; }
work=build/static
mkdir -p "$work"
flags="-std=c99 -O2 -DNDEBUG $(sh tools/setup.sh stb) -Ibuild -ffunction-sections"
for file in tools/*.c; do
    own=-DMSGSTORE_IMPLEMENTED
    [ "$file" != tools/library.c ] || own=
    # shellcheck disable=SC2086
    musl-gcc $flags $own -c "$file" -o "$work/$(basename "$file" .c).o"
done
musl-gcc -static -s -Wl,--gc-sections -o "$out" "$work"/*.o
echo "$out: $(wc -c <"$out") bytes"
