#!/usr/bin/env bash
# Builds and runs two consumers, in C and in C++17, with every build system that msgstore.h
# has files for; then with some of them from the archive of a release: make test-packaging.
# Tools that Debian or PyPI have and this machine lacks are installed (the latter into
# build/packaging/venv); what cannot be had is named and skipped. Everything is done under
# build/packaging.
#
#   ONLY=zig      one of them
#   ARCHIVED=0    from the archive only with a compiler (dist)
#
# The last line counts: "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
work=$root/build/packaging
rm -rf "$work/try" "$work/prefix"
mkdir -p "$work"
passed=0 failed=0 skipped=0
stb=$(sh tools/setup.sh stb)
minor=$(sed -n 's/^#define MSGSTORE_VERSION *"\(.*\)\..*".*/\1/p' msgstore.h)
export CC=${CC:-cc} CXX=${CXX:-c++}

# pip_tool COMMAND PACKAGE: is the command there, after an attempt to install it?
pip_tool()
{
    PATH=$work/venv/bin:$PATH
    command -v "$1" >/dev/null && return 0
    [ "${SETUP:-1}" != 0 ] || return 1
    [ -x "$work/venv/bin/pip" ] || python3 -m venv "$work/venv" 2>/dev/null || return 1
    echo "installing into build/packaging/venv: $2"
    timeout 300 "$work/venv/bin/pip" install --quiet --disable-pip-version-check "$2" \
        2>/dev/null
    command -v "$1" >/dev/null
}

# apt_tool COMMAND PACKAGE
apt_tool()
{
    command -v "$1" >/dev/null && return 0
    [ "${SETUP:-1}" != 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    echo "installing with apt-get, as root: $2"
    { apt-get update && apt-get install -y "$2"; } >/dev/null 2>&1
    command -v "$1" >/dev/null
}

skip()
{
    echo "skip $1: $2"
    skipped=$((skipped + 1))
}

# consumer NAME: runs the function of that name in a folder of its own; its last line of
# output must be the consumer's.
consumer()
{
    local status
    [ "${ONLY:-$1}" = "$1" ] || return 0
    case $1 in archive_*) [ "${ARCHIVED:-1}" != 0 ] || return 0 ;; esac
    mkdir -p "$work/try/$1"
    # Not in a condition: there set -e does not end a subshell.
    (
        set -e
        cd "$work/try/$1"
        cp "$root"/tests/platform/packaging/consumer.* .
        "try_$1"
    ) >"$work/$1.log" 2>&1
    status=$?
    if [ "$status" -eq 0 ] && [ "$(tail -n 1 "$work/$1.log")" = "consumer: message 1" ] &&
        { [ "$1" = static ] || grep -qx "consumer of C++: message 1" "$work/$1.log"; }; then
        echo "ok $1"
        passed=$((passed + 1))
    else
        echo "FAIL $1:"
        tail -n 12 "$work/$1.log"
        failed=$((failed + 1))
    fi
}

# needs apt|pip COMMAND PACKAGE NAME...: the consumers that need a command, or why they are
# left out.
needs()
{
    local how=$1 command=$2 package=$3 name
    shift 3
    for name in "$@"; do
        if "${how}_tool" "$command" "$package"; then consumer "$name"
        else skip "$name" "$command is not installed ($how: $package)"; fi
    done
}

# copy_interface FOLDER: the interfaces for other languages, into a copy of the project.
copy_interface()
{
    mkdir -p "$1/bindings/cpp"
    cp "$root/bindings/msgstore_ffi.h" "$1/bindings/"
    cp "$root/bindings/cpp/msgstore.hpp" "$1/bindings/cpp/"
}

# plus FLAGS: the consumer in C++ with a compiler alone.
plus()
{
    $CXX -std=c++17 -o plus consumer.cpp "$@" -pthread
}

cmake_lists()
{
    printf 'cmake_minimum_required(VERSION 3.15)\nproject(app C CXX)\n%s\n' "$1" >CMakeLists.txt
    printf 'add_executable(app consumer.c)\ntarget_link_libraries(app PRIVATE %s)\n' \
        "${2:-msgstore::msgstore}" >>CMakeLists.txt
    printf 'add_executable(plus consumer.cpp)\ntarget_link_libraries(plus PRIVATE %s)\n' \
        "${3:-msgstore::hpp}" >>CMakeLists.txt
}

cmake_build()
{
    cmake -S . -B build "$@"
    cmake --build build
    ./build/plus
    ./build/app
}

try_cmake_subdirectory()
{
    cmake_lists "add_subdirectory($root msgstore)"
    cmake_build
    # A subproject installs nothing of its own.
    cmake --install build --prefix "$PWD/prefix"
    [ ! -e prefix/include/msgstore.h ]
    # A program in C alone needs no compiler of C++.
    sed -i 's/ C CXX)/ C)/; /plus/d' CMakeLists.txt
    cmake -S . -B plain -DCMAKE_CXX_COMPILER=none
    ./build/app
}

try_cmake_fetchcontent()
{
    cmake_lists "include(FetchContent)
FetchContent_Declare(msgstore SOURCE_DIR $root)
FetchContent_MakeAvailable(msgstore)"
    cmake_build
}

try_cmake_find_package()
{
    cmake -S "$root" -B msgstore
    cmake --install msgstore --prefix "$PWD/prefix"
    cmake_lists "find_package(msgstore CONFIG REQUIRED)"
    cmake_build -DCMAKE_PREFIX_PATH="$PWD/prefix"
}

try_pkg_config()
{
    mkdir -p prefix
    make -C "$root" install PREFIX="$PWD/prefix"
    export PKG_CONFIG_PATH=$PWD/prefix/lib/pkgconfig
    # shellcheck disable=SC2046,SC2086
    $CC -o header consumer.c $(pkg-config --cflags --libs msgstore) $stb
    ./header
    # shellcheck disable=SC2046
    $CC -DMSGSTORE_LINKED -o linked consumer.c $(pkg-config --cflags --libs libmsgstore)
    LD_LIBRARY_PATH=$PWD/prefix/lib ./linked
    # shellcheck disable=SC2046,SC2086
    plus $(pkg-config --cflags --libs msgstore) $stb && ./plus
    # shellcheck disable=SC2046
    plus -DMSGSTORE_LINKED $(pkg-config --cflags --libs libmsgstore)
    LD_LIBRARY_PATH=$PWD/prefix/lib ./plus
    cmake_lists "find_package(libmsgstore CONFIG REQUIRED)
add_compile_definitions(MSGSTORE_LINKED)" libmsgstore::shared libmsgstore::shared
    cmake_build -DCMAKE_PREFIX_PATH="$PWD/prefix"
    prefix/bin/msgstore --version
    make -C "$root" uninstall PREFIX="$PWD/prefix"
    [ -z "$(find prefix ! -type d)" ]
    [ ! -e prefix/lib/cmake/libmsgstore ] && [ -d prefix/bin ]
    ./header
}

try_library()
{
    bash "$root/tools/lib.sh" "$PWD/lib"
    export PKG_CONFIG_PATH=$PWD/lib
    # shellcheck disable=SC2046
    $CC -DMSGSTORE_LINKED -o app consumer.c $(pkg-config --cflags --libs libmsgstore)
    # shellcheck disable=SC2046
    plus -DMSGSTORE_LINKED $(pkg-config --cflags --libs libmsgstore)
    LD_LIBRARY_PATH=$PWD/lib ./plus
    LD_LIBRARY_PATH=$PWD/lib ./app
    [ "$(LD_LIBRARY_PATH=$PWD/lib ldd app | grep -c "libmsgstore.so.$minor")" = 1 ]
    # Nothing but the interface is visible, and all of it has the version.
    [ "$(nm -D --defined-only "lib/libmsgstore.so.$minor" | grep -c "ms_.*@@MSGSTORE_$minor$")" -gt 100 ]
    [ "$(nm -D --defined-only "lib/libmsgstore.so.$minor" |
        grep -cv -e "@@MSGSTORE_$minor$" -e " A MSGSTORE_$minor$")" = 0 ]
    for kind in shared static; do
        cmake_lists "find_package(libmsgstore CONFIG REQUIRED)
add_compile_definitions(MSGSTORE_LINKED)" "libmsgstore::$kind" "libmsgstore::$kind"
        rm -rf build
        cmake_build -Dlibmsgstore_DIR="$PWD/lib/cmake"
    done
}

try_meson()
{
    mkdir -p subprojects/msgstore
    cp "$root/msgstore.h" "$root/meson.build" "$root/meson_options.txt" subprojects/msgstore/
    copy_interface subprojects/msgstore
    cp "$root/packaging/msgstore.wrap" subprojects/
    printf "%s\n" "project('app', 'c', 'cpp', default_options : ['cpp_std=c++17'])" \
        "executable('app', 'consumer.c', dependencies : dependency('msgstore'))" \
        "executable('plus', 'consumer.cpp', dependencies : dependency('msgstore'))" >meson.build
    meson setup build
    meson compile -C build
    ./build/plus
    ./build/app
}

try_conan()
{
    export CONAN_HOME=$PWD/conan
    conan profile detect
    # Without stb: Conan's own registry is not needed for it.
    conan create "$root/packaging/conan" -o "msgstore/*:with_stb=False"
    printf '[requires]\nmsgstore/%s\n[generators]\nCMakeDeps\nCMakeToolchain\n%s\n' \
        "$(sed -n 's/^#define MSGSTORE_VERSION *"\(.*\)".*/\1/p' "$root/msgstore.h")" \
        "[options]
msgstore/*:with_stb=False" >conanfile.txt
    conan install . --output-folder=deps
    cmake_lists "find_package(msgstore CONFIG REQUIRED)
set(CMAKE_CXX_STANDARD 17)" msgstore::msgstore msgstore::msgstore
    cmake_build -DCMAKE_TOOLCHAIN_FILE="$PWD/deps/conan_toolchain.cmake" \
        -DCMAKE_BUILD_TYPE=Release
}

try_xmake()
{
    printf '%s\n' "includes(\"$root/xmake.lua\")" 'target("app")' '    set_kind("binary")' \
        '    add_files("consumer.c")' '    add_deps("msgstore")' 'target_end()' \
        'target("plus")' '    set_kind("binary")' '    set_languages("c++17")' \
        '    add_files("consumer.cpp")' '    add_deps("msgstore")' 'target_end()' >xmake.lua
    export XMAKE_ROOT=y XMAKE_GLOBALDIR=$PWD/global
    xmake f -P . -o build -y
    xmake build -P .
    xmake run -P . plus
    xmake run -P . app
}

try_zig()
{
    mkdir -p dep
    cp "$root/msgstore.h" "$root/build.zig" "$root/build.zig.zon" "$root/LICENSE" dep/
    copy_interface dep
    export ZIG_GLOBAL_CACHE_DIR=$work/zig ZIG_LOCAL_CACHE_DIR=$PWD/cache
    out=$PWD/out
    (cd dep && "$zig" build -Dstb="${stb#-isystem }" --prefix "$out")
    "$zig" cc -Iout/include -DMSGSTORE_LINKED consumer.c -Lout/lib -lmsgstore -o app
    CXX="$zig c++" plus -Iout/include -DMSGSTORE_LINKED -Lout/lib -lmsgstore
    ./plus
    ./app
}

try_static()
{
    make -C "$root" static
    cp "$root/build/msgstore-static" tool
    if ldd tool 2>/dev/null; then return 1; fi
    echo '{"type":"user_message","content":"hello"}' >in.jsonl
    env -i ./tool import new.log in.jsonl --location l
    env -i ./tool view new.log
    [ "$(env -i ./tool view new.log | grep -c hello)" = 1 ]
    # Start-up: the median of eleven runs, in milliseconds.
    for _ in 1 2 3 4 5 6 7 8 9 10 11; do
        start=$(date +%s%N)
        env -i ./tool --version >/dev/null
        echo $((($(date +%s%N) - start) / 1000))
    done | sort -n | sed -n '6s/$/ us to start and end/p'
    echo "consumer: message 1"
}

try_single()
{
    bash "$root/tools/single.sh" "$PWD/msgstore.h"
    $CC -std=c99 -DWITHOUT_FFI -I. -pthread -o app consumer.c
    grep -q 'Sean Barrett' msgstore.h
    plus -I. -I"$root/bindings/cpp"
    ./plus
    ./app
}

# The archive of a release, made twice in two copies, is the same; it needs nothing but a
# compiler, no stb_ds.h of the machine either.
try_dist()
{
    local copy
    for copy in one two; do
        git clone -q "$root" $copy
        (umask 0$([ $copy = one ] && echo 02 || echo 77) && cd $copy && bash tools/dist.sh)
        sleep 1
    done
    cmp one/build/dist/msgstore-*.tar.gz two/build/dist/msgstore-*.tar.gz
    (cd one/build/dist && sha256sum -c SHA256SUMS)
    tar xzf one/build/dist/msgstore-*.tar.gz
    python3 -m json.tool msgstore-*/msgstore.spdx.json >/dev/null
    cd msgstore-*/
    [ -n "$(sed -n 's/.*"checksumValue": "\(.*\)".*/\1  stb_ds.h/p' msgstore.spdx.json |
        tail -n 1 | sha256sum -c)" ]
    $CC -std=c99 -I. -Ibindings -pthread -o ../app ../consumer.c # stb_ds.h stands beside
    cmake -S . -B ../cmake
    cd ..
    plus -I"$(echo msgstore-*/)" -I"$(echo msgstore-*/bindings/cpp)"
    ./plus
    ./app
}

# The build systems again, from an archive of what is committed.
archived()
{
    local tree=$work/try/archive
    if [ ! -d "$tree" ]; then
        git clone -q "$root" clone
        (cd clone && bash tools/dist.sh)
        tar xzf clone/build/dist/msgstore-*.tar.gz
        mv msgstore-*/ "$tree"
        rm -rf clone
    fi
    root=$tree
    "try_$1"
}
try_archive_cmake_find_package() { archived cmake_find_package; }
try_archive_cmake_subdirectory() { archived cmake_subdirectory; }
try_archive_pkg_config() { archived pkg_config; }
try_archive_meson() { archived meson; }
try_archive_conan() { archived conan; }

needs apt cmake cmake cmake_subdirectory cmake_fetchcontent cmake_find_package library
needs apt cmake cmake dist archive_cmake_subdirectory archive_cmake_find_package
consumer pkg_config
consumer archive_pkg_config
consumer single
needs apt musl-gcc musl-tools static
grep -hs -e 'msgstore-static:' -e 'us to start' "$work/static.log"
pip_tool ninja ninja
needs pip meson meson meson archive_meson
needs pip conan conan conan archive_conan
needs apt xmake xmake xmake
if pip_tool python-zig ziglang; then zig=$work/venv/bin/python-zig
else zig=$(command -v zig || echo); fi
if [ -n "$zig" ]; then consumer zig
else skip zig "zig is not installed (PyPI: ziglang)"; fi
skip vcpkg "no registry here has it; packaging/vcpkg was read against its documentation, 2026-11"
skip clib "no registry here has it; clib.json was read against its documentation, 2026-11"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
