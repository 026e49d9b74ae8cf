#!/usr/bin/env bash
# Builds the WebAssembly module of bindings/js: tools/wasm.sh FILE. Needs clang, lld and
# wasi-libc (Debian: clang lld wasi-libc libclang-rt-14-dev-wasm32). The log is left out:
# a module has no maps of files.
set -eu
cd "$(dirname "$0")/.."
out=${1:-bindings/js/msgstore.wasm}
stb=$(sh tools/setup.sh stb)
# shellcheck disable=SC2086
"${CLANG:-clang}" --target=wasm32-wasi -O2 -DNDEBUG -DMSGSTORE_NO_LOG -DMSGSTORE_NO_THREADS \
    -DMSGSTORE_IMPLEMENTATION -DMSGSTORE_FFI_IMPLEMENTATION $stb -mexec-model=reactor \
    $(bash tools/flat.sh --exports | sed 's/^/-Wl,--export=/') \
    -Wl,--export=malloc,--export=free \
    -Wl,--gc-sections,-s,-z,stack-size=262144 -include msgstore.h \
    -x c bindings/msgstore_ffi.h -o "$out"
