#!/usr/bin/env bash
# Compiles msgstore.h with several compilers, as C and as C++, in each configuration, and
# beside stb_ds in the same program. No warning is allowed. Each build calls into the
# library and is linked and run, but for Windows, where it is linked.
#
# Prints "ok NAME", "skip NAME: reason" or "FAIL NAME: reason" a line.
set -u
cd "$(dirname "$0")/.." || exit 1
src=tests/compile
out=build/compile
rm -rf "$out"
mkdir -p "$out/no_stb"
# With this folder in front, a build that includes stb_ds.h fails.
echo '#error "stb_ds.h was included"' >"$out/no_stb/stb_ds.h"

stb=$(sh tools/setup.sh stb)
warn='-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wcast-qual'
warn="$warn -Werror"
warn_c="$warn -Wstrict-prototypes"
n=0

# check NAME: takes a script from standard input, to be run later. It works in $dir, a
# folder of its own; the first error line of its output is the reason when it fails.
check()
{
    n=$((n + 1))
    local file
    file=$out/$(printf '%03d' $n)_$1
    mkdir -p "$file.dir"
    { echo "set -e; dir=$file.dir; src=$src"; cat; } >"$file.sh"
}

have()
{
    command -v "${1%% *}" >/dev/null 2>&1
}


# ---- Compilers and languages: implementation, a user of it, both after system headers.

for language in gcc:c99 gcc:c11 gcc:c17 clang:c99 clang:c11 clang:c17 \
    g++:c++11 g++:c++17 clang++:c++11 clang++:c++17; do
    compiler=${language%%:*}
    standard=${language#*:}
    flags="$warn_c"
    case $standard in c++*) flags="$warn -x c++" ;; esac
    if ! have "$compiler"; then
        echo "skip ${compiler}_$standard: no $compiler"
        continue
    fi
    check "${compiler}_$standard" <<END
$compiler -std=$standard $flags $stb -c \$src/implementation.c -o \$dir/implementation.o
$compiler -std=$standard $flags -c \$src/user.c -o \$dir/user.o
$compiler \$dir/user.o \$dir/implementation.o -pthread -o \$dir/user
\$dir/user
END
    check "${compiler}_${standard}_system_headers" <<END
$compiler -std=$standard $flags $stb -DSYSTEM_FIRST \$src/single.c \
    -pthread -o \$dir/single
$compiler -std=$standard $flags -DSYSTEM_FIRST -c \$src/user.c -o \$dir/user.o
\$dir/single
END
done

check optimised_gcc <<END
gcc -std=c99 -O3 $warn_c $stb \$src/single.c -pthread -o \$dir/single
\$dir/single
END
check no_asserts_gcc <<END
gcc -std=c99 -O2 -DNDEBUG $warn_c $stb \$src/single.c -pthread -o \$dir/single
\$dir/single
END

if echo 'int main(void) { return 0; }' | gcc -m32 -x c - -o "$out/m32" 2>/dev/null; then
    check gcc_32_bit <<END
gcc -m32 -std=c99 $warn_c $stb \$src/single.c -pthread -o \$dir/single
\$dir/single
END
fi

for compiler in x86_64-w64-mingw32-gcc x86_64-w64-mingw32-g++; do
    flags="-std=c99 $warn_c"
    name=windows_c99
    case $compiler in *++) flags="-std=c++11 $warn -x c++" name=windows_c++11 ;; esac
    if ! have "$compiler"; then
        echo "skip $name: no $compiler"
        continue
    fi
    check "$name" <<END
$compiler $flags $stb -c \$src/implementation.c -o \$dir/implementation.o
$compiler $flags -c \$src/user.c -o \$dir/user.o
$compiler \$dir/user.o \$dir/implementation.o -o \$dir/user.exe
END
    check "${name}_system_headers" <<END
$compiler $flags $stb -DSYSTEM_FIRST \$src/single.c -o \$dir/single.exe
END
done


# ---- Implementation in C, user in C++, and the other way round.

check c_implementation_c++_user <<END
gcc -std=c99 $warn_c $stb -c \$src/implementation.c -o \$dir/implementation.o
g++ -std=c++11 $warn -x c++ -c \$src/user.c -o \$dir/user.o
g++ \$dir/user.o \$dir/implementation.o -pthread -o \$dir/user
\$dir/user
END
check c++_implementation_c_user <<END
g++ -std=c++11 $warn -x c++ $stb -c \$src/implementation.c -o \$dir/implementation.o
gcc -std=c99 $warn_c -c \$src/user.c -o \$dir/user.o
g++ \$dir/user.o \$dir/implementation.o -pthread -o \$dir/user
\$dir/user
END
check exports_only_ms_names <<END
gcc -std=c99 $stb -c \$src/implementation.c -o \$dir/implementation.o
nm -g --defined-only \$dir/implementation.o >\$dir/names
grep -q ' ms_append\$' \$dir/names
! grep -v ' ms_[a-z0-9_]*\$' \$dir/names
END


# ---- Switches, each alone and all together. What a switch takes away must be gone.

# switched NAME FLAGS INCLUDES PATTERN: PATTERN must not occur among the symbols.
switched()
{
    for compiler in 'gcc -std=c99' 'clang -std=c99' 'g++ -std=c++11 -x c++'; do
        have "$compiler" || continue
        local flags=$warn_c
        case $compiler in *++*) flags=$warn ;; esac
        check "$1_${compiler%% *}" <<END
$compiler $flags $2 $3 -c \$src/single.c -o \$dir/single.o
${compiler%% *} \$dir/single.o ${5:--pthread} -o \$dir/single
\$dir/single
nm \$dir/single.o >\$dir/names
! grep -E '$4' \$dir/names
END
    done
}

no_stb="-isystem $out/no_stb"
threads=' U (pthread_|mtx_|call_once)'
stdio=' U (__assert|_*f?printf|_*v?snprintf|fopen|fread|fwrite|f?puts|stderr|stdout)'
log=' U (mmap|munmap|msync|fdatasync|fsync|pwrite|fallocate|ftruncate|open64?)$'
switched MSGSTORE_STATIC -DMSGSTORE_STATIC "$stb" ' [TDBRC] ms_'
switched MSGSTORE_NO_THREADS -DMSGSTORE_NO_THREADS "$stb" "$threads" ' '
switched MSGSTORE_NO_STDIO -DMSGSTORE_NO_STDIO "$stb" "$stdio"
switched MSGSTORE_NO_DIALECTS -DMSGSTORE_NO_DIALECTS "$no_stb" \
    'stbds_|ms_(read_list|writer_put)'
switched MSGSTORE_NO_LOG -DMSGSTORE_NO_LOG "$stb" "$log"
switched all_switches "-DMSGSTORE_STATIC -DMSGSTORE_NO_THREADS -DMSGSTORE_NO_STDIO \
    -DMSGSTORE_NO_DIALECTS -DMSGSTORE_NO_LOG" "$no_stb" "$threads|$stdio|$log|stbds_"
check MSGSTORE_STB_DS <<END
cp "$(set -- $stb; echo "${2:-.}")/stb_ds.h" \$dir/other_name.h
gcc -std=c99 -I\$dir -isystem $out/no_stb -DMSGSTORE_STB_DS='"other_name.h"' \
    \$src/single.c -pthread -o \$dir/single
\$dir/single
END


# ---- A program that uses stb_ds itself. In another file it must work; in the same file
# it must work or be refused by an #error that names msgstore.h.

for compiler in 'gcc -std=c99' 'clang -std=c99' 'g++ -std=c++11 -x c++'; do
    have "$compiler" || continue
    name=${compiler%% *}
    flags=$warn_c
    case $compiler in *++*) flags=$warn ;; esac
    check "stb_ds_in_another_file_$name" <<END
$compiler $flags $stb -c \$src/implementation.c -o \$dir/implementation.o
$compiler $flags $stb -c \$src/stb_user.c -o \$dir/user.o
$name \$dir/user.o \$dir/implementation.o -pthread -o \$dir/user
\$dir/user
END
    for order in before after; do
        for place in '' -DSTB_ELSEWHERE; do
            first=
            [ $order = after ] || first=-DSTB_FIRST
            check "stb_ds_${order}_in_the_same_file${place:+_only_interface}_$name" <<END
if ! $compiler $flags $stb $place $first -c \$src/stb_same.c -o \$dir/same.o \
    2>\$dir/errors
then
    cat \$dir/errors
    grep -q 'error: .*msgstore\.h' \$dir/errors
    echo 'note: refused by an #error'
    exit 0
fi
other=
if [ -n "$place" ]; then
    $compiler $stb -c \$src/stb_implementation.c -o \$dir/stb.o
    other=\$dir/stb.o
fi
$name \$dir/same.o \$other -pthread -o \$dir/same
\$dir/same
END
        done
    done
done


# ---- Run them, two at a time, and tell.

printf '%s\n' "$out"/*.sh | xargs -P "${MS_TEST_JOBS:-2}" -I '{}' \
    bash -c 'bash "$1" >"$1.log" 2>&1; echo $? >"$1.status"' _ '{}'

failed=0
for file in "$out"/*.sh; do
    name=$(basename "$file" .sh)
    name=${name#*_}
    if [ "$(cat "$file.status")" -eq 0 ]; then
        note=$(sed -n 's/^note: / (/p' "$file.log" | tail -n 1)
        echo "ok $name${note:+$note)}"
    else
        failed=1
        reason=$(grep -m 1 -E 'error|undefined|multiple| [TDBRC] ' "$file.log" ||
            tail -n 1 "$file.log")
        echo "FAIL $name: ${reason:-ended with $(cat "$file.status")} (see $file)"
    fi
done
exit $failed
