#!/usr/bin/env bash
# Hot reload: a game's code is unloaded and another build of it loaded, and goes on with
# the same stores. Once the host has msgstore.h: the handles of an arena store and of a
# log stay as they are. Once the library has it: the arena store lives in a buffer of the
# host, and the new code attaches it. tests/platform/reload has the sources; all link to
# one object.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=build/reload
cc=${CC:-cc}
stb=$(STB_INC="${STB_INC:-}" sh tools/setup.sh stb)
flags="-std=c99 -I. -O0 -Wall -Wextra -Werror -Wno-misleading-indentation -fPIC -pthread $stb"
store="-DHAS_STORE -DMSGSTORE_IMPLEMENTED $out/msgstore.o"
failed=0
rm -rf "$out"
mkdir -p "$out"

# compile NAME COMPILER-AND-FLAGS...: the reason is told when it fails.
compile()
{
    # shellcheck disable=SC2086
    "${@:2}" $flags >"$out/$1.log" 2>&1 && return
    echo "FAIL $1: $(grep -m 1 -E 'error|undefined' "$out/$1.log")"
    failed=1
    return 1
}

# reload NAME HOST-FLAGS GAME-FLAGS EXPECTED: builds and runs.
reload()
{
    local name=$1 host=$2 game=$3 want=$4 got build
    # shellcheck disable=SC2086
    for build in 1 2; do
        compile "$name" $cc tests/platform/reload/game.c $game \
            -DBUILD=$build -shared -Wl,-Bsymbolic -o "$out/$name$build.so" || return
    done
    # shellcheck disable=SC2086
    compile "$name" $cc tests/platform/reload/host.c $host -ldl -rdynamic \
        -o "$out/$name" || return
    got=$("$out/$name" "$out/${name}1.so" "$out/${name}2.so" "$out/$name.msl" 2>&1 |
        paste -sd '|')
    if [ "$got" = "$want" ]; then
        echo "ok $name"
    else
        echo "FAIL $name: it prints '$got', '$want' was expected"
        failed=1
    fi
}

compile library "$(command -v clang || echo "$cc")" -c tests/support/msgstore_impl.c \
    -o "$out/msgstore.o" || exit 1
reload stores_stay_when_the_host_has_them "$store" '' '400 messages in the log|400 frames'
reload an_image_is_attached_when_the_library_has_the_store '' "$store" '400 frames'
exit $failed
