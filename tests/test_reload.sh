#!/usr/bin/env bash
# Hot reload: a game's code is unloaded and another build of it loaded, and goes on with the
# same stores. Once the host has msgstore.h: the handles of an arena store and of a log
# stay as they are. Once the library has it: the arena store lives in a buffer of the host,
# and the new code attaches it. tests/reload has the sources.
set -u
cd "$(dirname "$0")/.." || exit 1
out=build/reload
cc=${CC:-cc}
stb=$(STB_INC="${STB_INC:-}" sh tools/setup.sh stb)
flags="-std=c99 -O0 -Wall -Wextra -Werror -Wno-misleading-indentation -Wno-unused-function"
flags="$flags -pthread $stb"
failed=0
rm -rf "$out"
mkdir -p "$out"

# reload NAME HOST-FLAGS GAME-FLAGS EXPECTED: builds and runs.
reload()
{
    local name=$1 host=$2 game=$3 want=$4 got
    for build in 1 2; do
        # shellcheck disable=SC2086
        $cc $flags $game -DBUILD=$build -fPIC -shared -o "$out/$name$build.so" \
            tests/reload/game.c >"$out/$name.log" 2>&1 ||
            { echo "FAIL $name: $(grep -m 1 error "$out/$name.log")"; failed=1; return; }
    done
    # shellcheck disable=SC2086
    $cc $flags $host -o "$out/$name" tests/reload/host.c -ldl -rdynamic \
        >"$out/$name.log" 2>&1 ||
        { echo "FAIL $name: $(grep -m 1 error "$out/$name.log")"; failed=1; return; }
    got=$("$out/$name" "$out/${name}1.so" "$out/${name}2.so" "$out/$name.msl" 2>&1 |
        paste -sd '|')
    if [ "$got" = "$want" ]; then
        echo "ok $name"
    else
        echo "FAIL $name: it prints '$got', '$want' was expected"
        failed=1
    fi
}

reload stores_stay_when_the_host_has_them -DHAS_STORE '' '400 messages in the log|400 frames'
reload an_image_is_attached_when_the_library_has_the_store '' '-DHAS_STORE' '400 frames'
exit $failed
