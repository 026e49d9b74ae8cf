#!/usr/bin/env bash
# Compiles msgstore.h with several compilers, as C and as C++, in each configuration, for
# other processors, and beside stb_ds in the same program. No warning is allowed. Each
# compiler builds the library once, and each configuration is built once, by the compiler
# that is quickest at it: such a build calls into the library and is linked and run, but
# for Windows, where it is linked, and for processors whose programs cannot run here.
# Others look at the configuration only (-fsyntax-only), which tells every error and every
# warning but those of data flow: at a switch g++, beside the quickest one of C.
#
# With MS_TEST_SCALE from 1000 on every compiler builds every configuration, and the
# library is compiled with -O3, too: a job of `make torture`.
#
# Below 100, as in `make check`, each compiler builds the library, and each switch is tried
# alone, as C. Left out are newer languages, the other orders of includes, other features of
# the system, stb_ds in the same file, and clang++.
#
# Prints "ok NAME", "skip NAME: reason" or "FAIL NAME: reason" a line, and in the end
# "tally: compiled configurations N".
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
all=
few=
[ "${MS_TEST_SCALE:-100}" -lt 1000 ] || all=yes
[ "${MS_TEST_SCALE:-100}" -ge 100 ] || few=yes

# left_out NAME: is it not among the few checks of a quick look?
left_out()
{
    [ -n "$few" ] || return 1
    case $1 in
    *_system_headers | *_SYSTEM_FIRST | *_SYSTEM_LAST | *in_the_same_file* | clang++_*) ;;
    *_c11 | *_c17 | *_c++17 | windows_c++11 | compiled_for_i386 | MSGSTORE_*_g++) ;;
    without_asserts_* | large_files_* | small_program | windows_*NO_LOG | *_STB_DS) ;;
    store_part_is_small) ;;
    *) return 1 ;;
    esac
}

# check NAME: takes a script from standard input, to be run later. It works in $dir, a
# folder of its own; the first error line of its output is the reason when it fails.
check()
{
    if left_out "$1"; then
        cat >/dev/null
        return
    fi
    n=$((n + 1))
    local file
    file=$out/$(printf '%03d' $n)_$1
    mkdir -p "$file.dir"
    { echo "set -e; dir=$file.dir; src=$src"; cat; } >"$file.sh"
}

# The implementation, compiled once for several checks. That it compiles without warnings
# is the first thing looked at: a check that needs it fails where it does not.
prepared()
{
    local object=$out/$1.o
    shift
    $* $stb -c "$src/implementation.c" -o "$object" >"$object.log" 2>&1 || rm -f "$object"
}

have()
{
    command -v "${1%% *}" >/dev/null 2>&1
}


have gcc && prepared gcc gcc -std=c99 $warn_c &
have clang && prepared clang clang -std=c99 $warn_c &
have g++ && prepared g++ g++ -std=c++11 $warn -x c++ &
have x86_64-w64-mingw32-gcc && prepared mingw x86_64-w64-mingw32-gcc -std=c99 $warn_c &
wait

# gcc spends most of its time of looking on this warning: having it above is enough.
warn="$warn -Wno-misleading-indentation"
warn_c="$warn_c -Wno-misleading-indentation"

# The compilers that build a configuration; all others look at it. clang is quicker.
c_quick=gcc cpp_quick=g++
if have clang; then c_quick=clang; fi
if have clang++; then cpp_quick=clang++; fi

# builds COMPILER: is a configuration built by this compiler, or looked at?
builds()
{
    [ -n "$all" ] || [ "$1" = $c_quick ] || [ "$1" = $cpp_quick ]
}


# ---- Compilers and languages: implementation, a user of it, both after system headers.

for language in gcc:c99 gcc:c17 clang:c99 ${all:+gcc:c11 clang:c11 clang:c17} \
    g++:c++11 ${all:+g++:c++17} clang++:c++11 clang++:c++17; do
    compiler=${language%%:*}
    standard=${language#*:}
    flags="$warn_c"
    case $standard in c++*) flags="$warn -x c++" ;; esac
    if ! have "$compiler"; then
        echo "skip ${compiler}_$standard: no $compiler"
        continue
    fi
    case $standard in
    c11 | c17 | c++17) # looked at only; single.c has the implementation in it
        check "${compiler}_$standard" <<END
$compiler -std=$standard $flags $stb -fsyntax-only -DSYSTEM_FIRST \$src/single.c
$compiler -std=$standard $flags -fsyntax-only \$src/user.c
END
        continue
        ;;
    esac
    check "${compiler}_$standard" <<END
if [ -f $out/$compiler.o.log ]; then # made above
    cat $out/$compiler.o.log
    cp $out/$compiler.o \$dir/implementation.o
else
    $compiler -std=$standard $flags $stb -c \$src/implementation.c \
        -o \$dir/implementation.o
fi
$compiler -std=$standard $flags -c \$src/user.c -o \$dir/user.o
$compiler \$dir/user.o \$dir/implementation.o -pthread -o \$dir/user
\$dir/user \$dir/use.msl
END
    if ! builds "$compiler"; then
        check "${compiler}_${standard}_system_headers" <<END
$compiler -std=$standard $flags $stb -DSYSTEM_FIRST -fsyntax-only \$src/single.c
$compiler -std=$standard $flags -DSYSTEM_FIRST -fsyntax-only \$src/user.c
END
        continue
    fi
    check "${compiler}_${standard}_system_headers" <<END
$compiler -std=$standard $flags $stb -DSYSTEM_FIRST \$src/single.c \
    -pthread -o \$dir/single
$compiler -std=$standard $flags -DSYSTEM_FIRST -c \$src/user.c -o \$dir/user.o
\$dir/single \$dir/use.msl
END
done

# The warnings of -O2 come from the tests' own object.
check without_asserts_gcc <<END
gcc -std=c99 ${all:+-O3} -DNDEBUG $warn_c $stb \$src/single.c -pthread -o \$dir/single
\$dir/single \$dir/use.msl
END

# What system headers declare depends on these; ours must do with whatever it is. The
# compiler does not matter.
for feature in -std=gnu11 '-std=c99 -D_GNU_SOURCE' '-std=c99 -D_POSIX_C_SOURCE=200809L' \
    '-std=c99 -D_XOPEN_SOURCE=700' '-std=gnu99 -D_FILE_OFFSET_BITS=64'; do
    for first in ${all:+-DSYSTEM_LAST} -DSYSTEM_FIRST; do
        name=${feature#*-D}
        check "with_${name#-std=}_${first#-D}" <<END
$c_quick $feature $first $warn_c $stb -fsyntax-only \$src/single.c
END
    done
done

for compiler in x86_64-w64-mingw32-gcc x86_64-w64-mingw32-g++; do
    flags="-std=c99 $warn_c"
    name=windows_c99
    case $compiler in *++) flags="-std=c++11 $warn -x c++" name=windows_c++11 ;; esac
    if ! have "$compiler"; then
        echo "skip $name: no $compiler"
        continue
    fi
    if [ -z "$all" ] && [ $name = windows_c++11 ]; then
        check "$name" <<END
$compiler $flags $stb -fsyntax-only \$src/implementation.c
$compiler $flags -fsyntax-only \$src/user.c
END
    else
        check "$name" <<END
if [ $name = windows_c99 ]; then # made above
    cat $out/mingw.o.log
    cp $out/mingw.o \$dir/implementation.o
else
    $compiler $flags $stb -c \$src/implementation.c -o \$dir/implementation.o
fi
$compiler $flags -c \$src/user.c -o \$dir/user.o
$compiler \$dir/user.o \$dir/implementation.o -o \$dir/user.exe
END
    fi
    check "${name}_system_headers" <<END
$compiler $flags $stb -DSYSTEM_FIRST -fsyntax-only \$src/single.c
END
done


# ---- Other processors. Where there is a compiler it looks; the program is built and,
# where there is an emulator, run when all is built (tests/cross.sh runs far more there).
# In any case clang compiles for one of 32 bits and for one that is also
# big-endian, with the headers of this machine.

for target in i686-linux-gnu: powerpc-linux-gnu:qemu-ppc s390x-linux-gnu:qemu-s390x \
    aarch64-linux-gnu:qemu-aarch64 arm-linux-gnueabihf:qemu-arm; do
    emulator=${target#*:}
    compiler=$(command -v "${target%%:*}-gcc" "${target%%:*}-gcc-12" | head -n 1)
    [ -n "$compiler" ] || continue
    if [ -z "$all" ]; then
        check "cross_${target%%-*}" <<END
$compiler -std=c99 $warn_c $stb -fsyntax-only \$src/single.c
END
        continue
    fi
    check "cross_${target%%-*}" <<END
$compiler -std=c99 $warn_c $stb \$src/single.c -static -pthread -o \$dir/single
if command -v ${emulator:-sh}; then $emulator \$dir/single \$dir/use.msl
else echo 'note: not run'; fi
END
done
if echo 'int main(void) { return 0; }' | gcc -m32 -x c - -o "$out/m32" 2>/dev/null; then
    check gcc_32_bit <<END
gcc -m32 -std=c99 $warn_c $stb \$src/single.c -pthread -o \$dir/single
\$dir/single \$dir/use.msl
END
fi

mkdir -p "$out/headers/gnu"
: >"$out/headers/gnu/stubs-32.h"
headers="-isystem $out/headers -isystem /usr/include/$(gcc -print-multiarch 2>/dev/null)"
for target in i386-linux-gnu powerpc-linux-gnu; do
    if ! have clang || ! echo 'int x;' |
        clang --target=$target -x c - -c -o "$out/probe.o" 2>/dev/null; then
        echo "skip compiled_for_${target%%-*}: no clang that can"
        continue
    fi
    compiled=-fsyntax-only
    [ -z "$all" ] || compiled='-c -o $dir/single.o'
    check "compiled_for_${target%%-*}" <<END
clang --target=$target -std=c99 $warn_c '-D__regparm__(x)=unused' $headers $stb \
    $compiled \$src/single.c
END
done
# Offsets of 64 bits must go to the functions that take them.
if have clang && [ -f "$out/probe.o" ]; then
    check large_files_on_32_bit <<END
for first in ${all:+-DSYSTEM_LAST} -DSYSTEM_FIRST; do
    clang --target=i386-linux-gnu -std=c99 -D_FILE_OFFSET_BITS=64 \$first $headers $stb \
        -c \$src/single.c -o \$dir/single.o
    nm \$dir/single.o >\$dir/names
    if grep -E ' U (open|fstat|mmap|pread|pwrite|fallocate|ftruncate)\$' \$dir/names
    then exit 1; fi
    grep -q ' U pread64' \$dir/names
done
END
fi


# ---- Implementation in C, user in C++, and the other way round.

check c_implementation_c++_user <<END
g++ -std=c++11 $warn -x c++ -c \$src/user.c -o \$dir/user.o
g++ \$dir/user.o $out/gcc.o -pthread -o \$dir/user
\$dir/user \$dir/use.msl
END
check c++_implementation_c_user <<END
gcc -std=c99 $warn_c -c \$src/user.c -o \$dir/user.o
g++ \$dir/user.o $out/g++.o -pthread -o \$dir/user
\$dir/user \$dir/use.msl
END
check exports_only_ms_names <<END
nm -g --defined-only $out/gcc.o >\$dir/names
grep -q ' ms_append\$' \$dir/names
! grep -v ' ms_[a-z0-9_]*\$' \$dir/names
END


# ---- Switches, each alone and all together. What a switch takes away must be gone.

# switched NAME FLAGS INCLUDES PATTERN: PATTERN must not occur among the symbols of the
# build.
switched()
{
    for compiler in 'gcc -std=c99' 'clang -std=c99' 'g++ -std=c++11 -x c++'; do
        have "$compiler" || continue
        local flags=$warn_c
        case $compiler in
        *++*) flags=$warn ;;
        *) [ -n "$all" ] || [ "${compiler%% *}" = $c_quick ] || continue ;;
        esac
        if ! builds "${compiler%% *}"; then
            check "$1_${compiler%% *}" <<END
$compiler $flags $2 $3 -fsyntax-only \$src/single.c
END
            continue
        fi
        check "$1_${compiler%% *}" <<END
$compiler $flags $2 $3 -c \$src/single.c -o \$dir/single.o
${compiler%% *} \$dir/single.o ${5:--pthread} -o \$dir/single
\$dir/single \$dir/use.msl
nm \$dir/single.o >\$dir/names
! grep -E '$4' \$dir/names
END
    done
}

no_stb="-isystem $out/no_stb"
threads=' U (pthread_|mtx_|call_once)'
stdio=' U (__assert|_*f?printf|_*v?snprintf|fopen|fread|fwrite|f?puts|stderr|stdout)'
# What only the log asks of the system.
log='mmap|munmap|madvise|msync|fsync|fdatasync|pread|pwrite|fallocate|posix_fallocate'
log="$log|ftruncate|open|openat|close|fcntl|flock|fstat|fstatfs|rename|unlink|syscall"
log=" U ($log)(64)?\$|[Tt] (ms_log|ms_os|ms__log|ms__os)_"
log_windows='CreateFile|MapViewOfFile|FlushFileBuffers|LockFile|WriteFile|ReadFile'
switched MSGSTORE_STATIC -DMSGSTORE_STATIC "$stb" ' [TDBRC] ms_'
switched MSGSTORE_NO_THREADS -DMSGSTORE_NO_THREADS "$stb" "$threads" ' '
switched MSGSTORE_NO_STDIO -DMSGSTORE_NO_STDIO "$stb" "$stdio"
switched MSGSTORE_NO_DIALECTS -DMSGSTORE_NO_DIALECTS "$no_stb" \
    'stbds_|ms_(read_list|writer_put)'
switched MSGSTORE_NO_LOG -DMSGSTORE_NO_LOG "$stb" "$log"
switched MSGSTORE_NO_CHANGES '-DMSGSTORE_NO_CHANGES -DMSGSTORE_NO_DIALECTS' "$no_stb" 'stbds_'
switched all_switches "-DMSGSTORE_STATIC -DMSGSTORE_NO_THREADS -DMSGSTORE_NO_STDIO \
    -DMSGSTORE_NO_DIALECTS -DMSGSTORE_NO_LOG" "$no_stb" "$threads|$stdio|$log|stbds_"
switched MSGSTORE_NO_ERROR_TEXT -DMSGSTORE_NO_ERROR_TEXT "$stb" ' ms__line'
# The switches that add something are tried without the formats and the log.
for switch in RING:ms__flash FLASH:stbds_; do
    for level in -O2 -Os; do
        switched "MSGSTORE_${switch%:*}_$level" "-DMSGSTORE_${switch%:*} $level \
            -DMSGSTORE_NO_DIALECTS -DMSGSTORE_NO_LOG" "$no_stb" "${switch#*:}"
    done
done
# Without a system, the C library gives memory and string functions, and abort.
for switch in '' -DMSGSTORE_RING -DMSGSTORE_FLASH; do
    check "MSGSTORE_FREESTANDING${switch#-DMSGSTORE}_asks_for_no_system" <<END
gcc -std=c99 $warn_c -DMSGSTORE_FREESTANDING -DMSGSTORE_NO_DIALECTS $switch -Os $no_stb \
    -c \$src/single.c -o \$dir/single.o
nm -u \$dir/single.o | sed 's/^ *U //' >\$dir/names
grep -q '^memmove\$' \$dir/names
! grep -vE '^(mem(cpy|set|move|cmp|chr)|str(len|chr|cmp)|abort|strtod)\$' \$dir/names
END
done
check MSGSTORE_RING_is_asked_for <<END
$c_quick -std=c99 -DMSGSTORE_RING -fsyntax-only \$src/ring.c
! $c_quick -std=c99 -fsyntax-only \$src/ring.c 2>\$dir/errors
grep -q 'error: .*drop_oldest' \$dir/errors
END
check the_log_is_seen_by_its_names <<END
nm $out/$c_quick.o >\$dir/names
for name in ' U mmap' ' U f(data)?sync' ' T ms_log_open' ' T ms_os_'; do
    grep -E '$log' \$dir/names | grep -Eq "\$name"
done
END
check MSGSTORE_NO_CHANGES_refuses_a_changed_log <<END
$c_quick -std=c99 \$src/changed.c -pthread -o \$dir/with
$c_quick -std=c99 -DMSGSTORE_NO_CHANGES \$src/changed.c -pthread -o \$dir/without
\$dir/with \$dir/changed.msl make
\$dir/with \$dir/changed.msl
\$dir/without \$dir/changed.msl
END
check raw_queries_are_honoured_or_refused_with_MSGSTORE_NO_CHANGES <<END
$c_quick -std=c99 \$src/raw.c -pthread -o \$dir/raw
\$dir/raw
END
check MSGSTORE_NO_LOG_has_no_log <<END
gcc -std=c99 -fsyntax-only \$src/no_log.c
! gcc -std=c99 -DMSGSTORE_NO_LOG -fsyntax-only \$src/no_log.c 2>\$dir/errors
grep -q 'error: .*ms_log' \$dir/errors
END
if have x86_64-w64-mingw32-gcc; then
    check windows_MSGSTORE_NO_LOG <<END
x86_64-w64-mingw32-gcc -std=c99 -DMSGSTORE_NO_LOG $stb -c \$src/single.c -o \$dir/none.o
x86_64-w64-mingw32-nm $out/mingw.o | grep -Eq '$log_windows'
! x86_64-w64-mingw32-nm \$dir/none.o | grep -E '$log_windows'
END
fi
# The smallest program: arena store and histories alone. It must not grow by what it does
# not use.
if [ "$(uname -m)" = x86_64 ] && have gcc && have size; then
    check small_program <<END
gcc -std=c99 -Os -ffunction-sections -fdata-sections -Wl,--gc-sections $warn_c \
    \$src/small.c -o \$dir/small
\$dir/small
text=\$(size \$dir/small | awk 'NR == 2 { print \$1 }')
echo "note: \$text bytes of code, at most 49152"
[ "\$text" -le 49152 ]
END
    # All of the store part but the log, with the unwind tables that gcc adds.
    check store_part_is_small <<END
gcc -std=c99 -Os -DMSGSTORE_NO_DIALECTS -DMSGSTORE_NO_LOG -DMSGSTORE_IMPLEMENTATION \
    -x c -c msgstore.h -o \$dir/store.o
text=\$(size \$dir/store.o | awk 'NR == 2 { print \$1 }')
echo "note: \$text bytes of code, at most 105472"
[ "\$text" -le 105472 ]
END
fi
check MSGSTORE_STB_DS <<END
cp "$(set -- $stb; echo "${2:-.}")/stb_ds.h" \$dir/other_name.h
$c_quick -std=c99 -I\$dir -isystem $out/no_stb -DMSGSTORE_STB_DS='"other_name.h"' \
    \$src/single.c -pthread -o \$dir/single
\$dir/single \$dir/use.msl
END


# ---- A program that uses stb_ds itself. In another file it must work; in the same file
# it must work or be refused by an #error that names msgstore.h. (There without the log:
# what stb_ds could meet is in the formats.)

for compiler in 'gcc -std=c99' 'clang -std=c99' 'g++ -std=c++11 -x c++' \
    'clang++ -std=c++11 -x c++'; do
    have "$compiler" || continue
    name=${compiler%% *}
    flags=$warn_c
    case $compiler in *++*) flags=$warn ;; esac
    [ ! -f "$out/$name.o.log" ] || check "stb_ds_in_another_file_$name" <<END
$compiler $flags $stb -c \$src/stb_user.c -o \$dir/user.o
$name \$dir/user.o $out/$name.o -pthread -o \$dir/user
\$dir/user \$dir/use.msl
END
    builds "$name" || continue # what stb_ds could meet is the same for all
    for order in before after; do
        for place in '' -DSTB_ELSEWHERE; do
            first=
            [ $order = after ] || first=-DSTB_FIRST
            check "stb_ds_${order}_in_the_same_file${place:+_only_interface}_$name" <<END
if ! $compiler $flags $stb -DMSGSTORE_NO_LOG $place $first -c \$src/stb_same.c \
    -o \$dir/same.o 2>\$dir/errors
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
\$dir/same \$dir/use.msl
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
echo "tally: compiled configurations $n"
exit $failed
