#!/usr/bin/env bash
# The JavaScript package: builds its module, packs it, installs it with the SDKs that it
# serves under build/js, runs its tests under Node, the TypeScript compiler over its
# declarations, and the module in chromium: `make test-js`. Prints versions. Then it builds
# the examples for esbuild and Vite and runs them, and runs the SDKs' tests with the oldest
# versions that package.json declares.
#
# The package is packed with the headers of the native module, which npm's install script
# compiles. Its tests run again with a module under AddressSanitizer, and the package is
# installed without a compiler. MSGSTORE_TOOL and MSGSTORE_PYTHON name the programs that share
# logs with it: build/msgstore, and python3 with build/lib, where they are there.
#
# What cannot be had is named and skipped. The last line counts.
set -u
cd "$(dirname "$0")/../.." || exit 1
skip()
{
    echo "make test-js: $1; skipped"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
command -v node >/dev/null || skip "there is no node"
try()
{
    echo 'int x;' | "${CLANG:-clang}" --target=wasm32-wasi -mexec-model=reactor \
        -Wl,--export=x -x c - -o build/js/try.wasm 2>/dev/null
}
mkdir -p build/js
if ! try && [ "${SETUP:-1}" != 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "make test-js installs with apt-get, as root: clang lld wasi-libc libclang-rt-14-dev-wasm32"
    { apt-get update && apt-get install -y clang lld wasi-libc libclang-rt-14-dev-wasm32; } \
        >/dev/null 2>&1
fi
try || skip "clang cannot build for wasm32-wasi (Debian: clang lld wasi-libc libclang-rt-14-dev-wasm32)"

passed=0 failed=0 skipped=0
result()
{
    if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}
rm -rf build/js/package build/js/app
mkdir -p build/js/package build/js/app
bash bindings/vendor.sh js build/js/package || exit 1
bash tools/wasm.sh build/js/package/msgstore.wasm || exit 1
echo "node $(node --version), msgstore.wasm $(wc -c <build/js/package/msgstore.wasm) bytes"
echo "installing into build/js/app with npm: the package, @openai/agents-core @openai/agents-openai ai zod typescript @types/node esbuild vite"
(
    cd build/js/app || exit 1
    echo '{"name":"app","private":true,"type":"module"}' >package.json
    npm pack --silent --pack-destination . ../package >/dev/null &&
        npm install --silent --no-audit --no-fund ./msgstore-*.tgz >npm.log 2>&1
) || { cat build/js/app/npm.log; echo "0 passed, 1 failed"; exit 1; }
(
    cd build/js/app || exit 1
    npm install --silent --no-audit --no-fund @openai/agents-core@0.20.0 \
        @openai/agents-openai@0.20.0 ai@7.0.173 zod typescript@5.9 @types/node@22 \
        esbuild@0.28 vite@8 >npm.log 2>&1 ||
        echo "not installed: $(head -n 1 npm.log)"
    npm ls --depth=0 2>/dev/null | tail -n +2
)
mkdir -p build/js/app/test
cp bindings/js/test/* build/js/app/test/
cp bindings/js/README.md build/js/app/
examples=$PWD/bindings/js/examples
[ ! -x build/msgstore ] || export MSGSTORE_TOOL="${MSGSTORE_TOOL:-$PWD/build/msgstore}"
if [ -f build/lib/libmsgstore.so ]; then
    export MSGSTORE_LIBRARY="$PWD/build/lib/libmsgstore.so" PYTHONPATH="$PWD/bindings/python"
    export MSGSTORE_PYTHON="${MSGSTORE_PYTHON:-python3}"
fi
cd build/js/app || exit 1
native=node_modules/msgstore/native
[ -f $native/msgstore.node ] ||
    { echo "the native module is not built:"; node $native/build.js 2>&1 | head -n 5; }
node --test --test-reporter=spec test/*.test.mjs >out 2>&1
cat out
n() { sed -n "s/^ℹ $1 //p" out; }
passed=$((passed + $(n pass))) failed=$((failed + $(n fail))) skipped=$((skipped + $(n skipped)))

# The native module under AddressSanitizer, which has to be loaded before node.
asan=$(gcc -print-file-name=libasan.so 2>/dev/null)
if [ ! -f $native/msgstore.node ] || [ ! -f "$asan" ]; then
    echo "there is no libasan.so of gcc, or no native module: it is not tried with it"
    skipped=$((skipped + 1))
elif CC=gcc CFLAGS='-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined' \
    node $native/build.js "$PWD/asan.node" >/dev/null; then
    MSGSTORE_NATIVE_FILE=$PWD/asan.node LD_PRELOAD="$asan $(gcc -print-file-name=libubsan.so)" \
        ASAN_OPTIONS=detect_leaks=0 node --test --test-reporter=spec test/native.test.mjs >out 2>&1
    grep -e '^✖' -e ERROR: -e 'runtime error' out
    passed=$((passed + $(n pass))) failed=$((failed + $(n fail))) skipped=$((skipped + $(n skipped)))
else
    result asan 1
fi

# The package where there is no compiler: all but msgstore/native works.
rm -rf ../bare
mkdir -p ../bare
(
    cd ../bare || exit 1
    echo '{"name":"bare","private":true,"type":"module"}' >package.json
    CC=$PWD/none npm install --silent --no-audit --no-fund ../app/msgstore-*.tgz >npm.log 2>&1 &&
        node -e 'import("msgstore/native").then(async (native) => {
            const { open } = native.isBuilt() ? native : await import("msgstore/node");
            const store = await open();
            store.append(native.user("x"), "l");
            await native.open("x.log").catch((error) => console.log(error.code));
        })'
) >out 2>&1
grep -qx E_UNSUPPORTED out
code=$?
[ $code -eq 0 ] || { echo "FAIL the package without a compiler:"; cat out; }
result bare $code
if [ -x node_modules/.bin/tsc ]; then
    node_modules/.bin/tsc --noEmit --strict --skipLibCheck --target es2022 --module nodenext \
        --lib es2022,dom,esnext.disposable test/types.ts
    result types $?
else
    echo "typescript is not installed: the declarations are not checked"
    skipped=$((skipped + 1))
fi
if ! command -v chromium >/dev/null; then
    echo "chromium is not installed (Debian: chromium): the module is not tried in a browser"
    skipped=$((skipped + 1))
else
    cp -R node_modules/msgstore/. .
    node test/browser.mjs
    result browser $?
fi

# The examples, in folders below, so that they find the packages.
for example in esbuild vite; do
    if [ ! -x node_modules/.bin/$example ]; then
        echo "$example is not installed: its example is not built"
        skipped=$((skipped + 1))
        continue
    fi
    rm -rf $example
    cp -R "$examples/$example" .
    if (cd $example && PATH=$PWD/../node_modules/.bin:$PATH npm run --silent build) >out 2>&1
    then
        result build 0
    else
        tail -n 5 out
        result build 1
    fi
done
if [ -f esbuild/dist/main.js ]; then
    found=$(cd esbuild && npm start --silent 2>&1 | tail -n 1)
    [ "$found" = "hello again" ] ||
        echo "FAIL the example for esbuild prints: $(echo "$found" | cut -c 1-200)"
    [ "$found" = "hello again" ]
    result esbuild $?
fi
if [ -d vite/dist ] && command -v chromium >/dev/null; then
    node test/browser.mjs vite/dist "hello again"
    result vite $?
fi

# The oldest SDKs that package.json declares.
rm -rf ../oldest
mkdir -p ../oldest/test
cd ../oldest || exit 1
echo '{"name":"oldest","private":true,"type":"module"}' >package.json
cp ../app/test/sdk.test.mjs test/
if MSGSTORE_NATIVE=0 npm install --silent --no-audit --no-fund ../app/msgstore-*.tgz @openai/agents-core@0.12.0 \
    @openai/agents-openai@0.12.0 ai@6.0.0 zod@4 >npm.log 2>&1; then
    npm ls --depth=0 2>/dev/null | tail -n +2
    node --test --test-reporter=spec test/sdk.test.mjs >out 2>&1
    grep '^✖' out
    passed=$((passed + $(n pass))) failed=$((failed + $(n fail))) skipped=$((skipped + $(n skipped)))
else
    echo "the oldest SDKs are not installed: $(head -n 1 npm.log)"
    skipped=$((skipped + 1))
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
