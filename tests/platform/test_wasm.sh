#!/usr/bin/env bash
# The formats on processors without threads, signals or files. The same program reads and
# writes every format here and as WebAssembly under Node: both print the same. For a
# Cortex-M4 it is compiled only.
#
# From MS_TEST_SCALE=1000 on, as in `make torture`, compilers optimise: clang with wasi-libc,
# lld and libclang-rt-14-dev-wasm32; gcc-arm-none-eabi. What is not installed is skipped.
#
# Prints "ok NAME", "skip NAME: reason" or "FAIL NAME: reason" a line, and in the end
# "tally: processors without a system N".
set -u
cd "$(dirname "$0")/../.." || exit 1
src=tests/platform/compile/formats.c
out=build/wasm
rm -rf "$out"
mkdir -p "$out"
flags="-std=c99 -I. -Wall -Wextra -Wno-misleading-indentation $(sh tools/setup.sh stb)"
optimised=-Os
cc=${CC:-cc}
if [ "${MS_TEST_SCALE:-100}" -lt 1000 ]; then
    optimised=-O0
    cc=$(command -v clang || echo "$cc") # the quicker one
fi
failed=0
processors=0

ok()
{
    echo "ok $1"
    processors=$((processors + 1))
}

fail()
{
    echo "FAIL $1: $2"
    failed=1
}

# builds NAME COMPILER...: the program, or what the compiler prints first.
builds()
{
    local name=$1
    shift
    # shellcheck disable=SC2086
    if "$@" $flags >"$out/$name.log" 2>&1; then return 0; fi
    fail "$name" "$(grep -m 1 -E 'error|undefined' "$out/$name.log")"
    return 1
}

wasm()
{
    cat >"$out/run.js" <<'END_OF_JS'
const { WASI } = require("wasi");
const wasi = new WASI({ version: "preview1", args: [], env: {} });
const bytes = require("fs").readFileSync(process.argv[2]);
WebAssembly.instantiate(bytes, { wasi_snapshot_preview1: wasi.wasiImport })
    .then((made) => wasi.start(made.instance));
END_OF_JS
    builds wasm_program clang --target=wasm32-wasi --sysroot=/usr $optimised -o "$out/program.wasm" \
        "$src" || return
    if ! node --no-warnings "$out/run.js" "$out/program.wasm" >"$out/wasm.txt" 2>"$out/node.log"
    then fail formats_in_wasm "$(head -n 1 "$out/node.log")$(tail -n 1 "$out/wasm.txt")"
    elif cmp -s "$out/here.txt" "$out/wasm.txt"; then ok formats_in_wasm
    else fail formats_in_wasm "it prints something else: $out/wasm.txt"; fi
}

builds program "$cc" -O0 -o "$out/here" "$src" || exit 1
if "$out/here" >"$out/here.txt" && [ "$(wc -l <"$out/here.txt")" -ge 100 ]
then echo "ok formats_here"
else fail formats_here "$(tail -n 1 "$out/here.txt")"; fi

if ! command -v node >/dev/null || [ ! -d /usr/lib/wasm32-wasi ] ||
    ! command -v wasm-ld >/dev/null
then echo "skip formats_in_wasm: no clang for wasm32-wasi, or no node"
else wasm; fi

if ! command -v arm-none-eabi-gcc >/dev/null
then echo "skip formats_on_cortex_m4: no arm-none-eabi-gcc"
elif builds formats_on_cortex_m4 arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb $optimised \
    -DWITHOUT_MAIN -c -o "$out/arm.o" "$src"
then ok formats_on_cortex_m4; fi
echo "tally: processors without a system $processors"
exit $failed
