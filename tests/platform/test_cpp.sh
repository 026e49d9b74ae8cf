#!/usr/bin/env bash
# bindings/cpp/msgstore.hpp, the interface for C++17: g++ and clang++ compile it without a
# warning, and without exceptions; a program of two files (tests/platform/cpp) uses all of
# it under AddressSanitizer and UBSan. Then copies of the header lack one defence each, and
# the program must notice. From MS_TEST_SCALE 1000 on, also as C++20.
#
# Prints "ok NAME", "skip NAME: reason" or "FAIL NAME: reason" a line.
set -u
cd "$(dirname "$0")/../.." || exit 1
src=tests/platform/cpp
header=bindings/cpp/msgstore.hpp
out=build/cpp
stb=$(STB_INC="${STB_INC:-}" sh tools/setup.sh stb)
warn='-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wcast-qual -Werror'
san='-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -O0 -g1'
scale=${MS_TEST_SCALE:-100}
failed=0
rm -rf "$out"
mkdir -p "$out"

# result NAME STATUS LOG: one line; of a log, its first error or last line.
result()
{
    if [ "$2" -eq 0 ]; then echo "ok $1"; return; fi
    echo "FAIL $1: $({ grep -m 1 -E 'error|FAIL|ERROR' "$3" || tail -n 1 "$3"; } | tr '\n' ' ')"
    failed=1
}

# look NAME COMPILER FLAGS...: does it compile without a warning?
look()
{
    command -v "$2" >/dev/null || { echo "skip $1: no $2"; return; }
    # shellcheck disable=SC2086
    "${@:2}" $warn -I. -Ibindings/cpp -fsyntax-only $src/cpp.cpp $src/other.cpp \
        >"$out/$1.log" 2>&1
    result "$1" $? "$out/$1.log"
}

# program NAME FOLDER: builds it with the header in that folder.
# shellcheck disable=SC2086
program()
{
    ${CLANGXX:-clang++} -std=c++17 $warn $san -I. -I"$2" -pthread $src/cpp.cpp \
        $src/other.cpp "$object" -o "$out/$1" >"$out/$1.log" 2>&1
}

# run NAME: it must pass. noticed NAME: it must not.
run() { { "$out/$1" "$out/$1.msl" >"$out/$1.log" 2>&1; } 2>/dev/null; }

# control NAME OLD NEW: a copy of the header in which NEW stands for OLD, once.
control()
{
    mkdir -p "$out/$1.dir"
    if ! OLD=$2 NEW=$3 awk '
        (at = index($0, ENVIRON["OLD"])) > 0 {
            $0 = substr($0, 1, at - 1) ENVIRON["NEW"] substr($0, at + length(ENVIRON["OLD"]))
            n++
        }
        { print }
        END { exit n != 1 }' $header >"$out/$1.dir/msgstore.hpp"; then
        echo "FAIL control_$1: the edit does not fit in one place"
    elif ! program "$1" "$out/$1.dir"; then
        echo "FAIL control_$1: it does not compile: $(grep -m 1 error "$out/$1.log")"
    elif run "$1"; then
        echo "FAIL control_$1: the program does not notice"
    else
        echo "ok control_$1"
    fi
}

controls()
{
    control strings_are_not_copied 'str(all.emplace_back(view(s))) : s' 's : s'
    control store_is_not_closed 'const { ms_close(s); }' 'const { (void)s; }'
}

if ! echo 'int main() {}' | ${CLANGXX:-clang++} -fsanitize=address,undefined -x c++ - \
    -o "$out/try" 2>/dev/null; then
    echo 'skip sanitized: clang++ has no sanitizers here'
    look g++ g++ -std=c++17
    exit $failed
fi
object=build/san/msgstore.o
if [ ! "$object" -nt msgstore.h ] || [ ! "$object" -nt tools/Makefile ]; then
    object=$out/msgstore.o
    # shellcheck disable=SC2086
    ${CLANG:-clang} -std=c99 -w $san -pthread -I. $stb -c tests/support/msgstore_impl.c \
        -o "$object" || exit 1
fi
controls >"$out/controls" &
look g++ g++ -std=c++17
look without_exceptions "${CLANGXX:-clang++}" -std=c++17 -fno-exceptions
[ "$scale" -lt 1000 ] || look g++_c++20 g++ -std=c++20
program sanitized bindings/cpp && run sanitized
result sanitized $? "$out/sanitized.log"
wait
cat "$out/controls"
! grep -q '^FAIL' "$out/controls" || failed=1
exit $failed
