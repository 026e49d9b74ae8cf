#!/usr/bin/env bash
# Compiles msgstore.h with several compilers, as C and as C++, in each configuration, for
# other processors, and beside stb_ds in the same program. No warning is allowed. Four
# compilers make an object of the library. The quickest one of C builds each configuration,
# runs it and looks for symbols that a switch takes away. Others look at a configuration
# (-fsyntax-only), which tells all errors and warnings but those of data flow.
#
# MS_TEST_SCALE says how much: below 100, as in `make check`, level 1, where switches that
# stand alone are looked at; from 1000 on, as in `make torture`, all levels, optimised, and
# each look compiles to an object.
#
# Prints "ok NAME", "skip NAME: reason" or "FAIL NAME: reason" a line, and in the end
# "tally: compiled configurations N".
set -u
cd "$(dirname "$0")/../.." || exit 1
src=tests/platform/compile
out=build/compile
rm -rf "$out"
mkdir -p "$out/no_stb"
# With this folder in front, a build that includes stb_ds.h fails.
echo '#error "stb_ds.h was included"' >"$out/no_stb/stb_ds.h"
no_stb="-isystem $out/no_stb"
stb=$(sh tools/setup.sh stb)
warn='-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wcast-qual -Werror'
n=0
level=2
looks=-fsyntax-only
code='-O0 -D__OPTIMIZE_SIZE__' # the code of -Os, compiled in a fifth of the time
[ "${MS_TEST_SCALE:-100}" -ge 100 ] || level=1
[ "${MS_TEST_SCALE:-100}" -lt 1000 ] || { level=3 && code=-Os && looks='-c -o $dir/look.o'; }

have()
{
    command -v "${1%% *}" >/dev/null 2>&1
}

# at LEVEL COMMAND...: from that level on.
at()
{
    [ "$level" -lt "$1" ] || "${@:2}"
}

# check NAME: takes a script from standard input, to be run later. It works in $dir, a
# folder of its own; the first error line of its output is the reason when it fails.
check()
{
    local file
    n=$((n + 1))
    file=$out/$(printf '%03d' $n)_${1// /_}
    mkdir -p "$file.dir"
    { echo "set -e; dir=$file.dir; src=$src"; cat; } >"$file.sh"
}

# look NAME COMPILER SOURCE...: does each source compile without a warning?
look()
{
    if ! have "$2"; then echo "skip $1: no ${2%% *}"; return; fi
    check "$1" < <(printf "$2 $looks \$src/%s.c\n" "${@:3}")
}

# build NAME COMPILER SOURCE [LINKED [PATTERN]]: builds and runs a program. PATTERN must not
# occur among the symbols of the source's object.
build()
{
    if ! have "$2"; then echo "skip $1: no ${2%% *}"; return; fi
    check "$1" <<END
$2 -c \$src/$3.c -o \$dir/it.o
${2%% *} \$dir/it.o ${4:--pthread} -o \$dir/it
\$dir/it \$dir/use.msl
nm \$dir/it.o >\$dir/names
! grep -E '${5:- nothing }' \$dir/names
END
}

# library NAME COMPILER: an object of the library, for several checks. That it compiles
# without warnings is the first thing looked at.
library()
{
    have "$2" || return
    $2 $stb -c $src/implementation.c -o "$out/$1.o" >"$out/$1.log" 2>&1 &
    check "library_$1" <<<"cat $out/$1.log; [ -f $out/$1.o ]"
}

c99="-std=c99 -I. $warn -Wstrict-prototypes"
cpp11="-std=c++11 -I. $warn -x c++"
mingw=x86_64-w64-mingw32
if [ build/o2/msgstore.o -nt msgstore.h ] && [ build/o2/msgstore.o -nt tools/Makefile ] &&
    readelf -p .comment build/o2/msgstore.o 2>/dev/null | grep -q GCC; then
    # The Makefile compiles it with all of these warnings but one.
    cp build/o2/msgstore.o "$out/gcc.o"
    at 2 look library_gcc "gcc $c99 $stb" implementation
else library gcc "gcc $c99"; fi
library clang "clang $c99"
at 2 library g++ "g++ $cpp11"
at 2 library mingw "$mingw-gcc $c99"
quick=gcc
if have clang; then quick=clang; fi
library no_changes "$quick $c99 -DMSGSTORE_NO_CHANGES -DMSGSTORE_NO_FORMATS"
wait

# gcc spends most of its time of looking on this warning: having it above is enough.
c99="$c99 -Wno-misleading-indentation"
cpp11="$cpp11 -Wno-misleading-indentation"
c="$quick $c99"


# ---- Compilers and languages: a user of the library, in C and in C++; system headers.

user="-pthread"
for name in gcc clang g++; do
    [ ! -f "$out/$name.o" ] || user="$out/$name.o -pthread"
    case $name in
    g++) at 2 build user_g++ "g++ $cpp11" user "$user" ;;
    *) build "user_$name" "$name $c99" user "$user" ;;
    esac
    # bindings/msgstore_ffi.h, which sees the interface alone
    case $name in
    gcc) build ffi_gcc "gcc $c99" ffi "$user" ;;
    clang) at 2 build ffi_clang "clang $c99" ffi "$user" ;;
    g++) at 2 build ffi_g++ "g++ $cpp11" ffi "$user" ;;
    esac
done
build ffi_MSGSTORE_STATIC "$c -DMSGSTORE_IMPLEMENTATION -DMSGSTORE_STATIC $stb" ffi '' \
    ' [TDBRC] ms_'
at 2 look ffi_MSGSTORE_NO_LOG "$c -DMSGSTORE_NO_LOG" ffi
at 2 look ffi_windows "$mingw-gcc $c99" ffi
build c_implementation_c++_user "g++ $cpp11" user "$out/gcc.o -pthread"
at 2 build c++_implementation_c_user "gcc $c99" user "-lstdc++ $out/g++.o -pthread"
for row in gcc:c17:2 clang:c99:2 g++:c++11:1 clang++:c++11:2 clang++:c++17:2 \
    gcc:c11:3 clang:c11:3 clang:c17:3 g++:c++17:3; do
    IFS=: read -r compiler standard from <<<"$row"
    flags=$c99
    case $compiler in *++) flags=$cpp11 ;; esac
    at "$from" look "${compiler}_$standard" \
        "$compiler $flags -std=$standard $stb -DSYSTEM_FIRST" single user
done
at 2 look without_asserts "$c -DNDEBUG $stb" single
at 3 look without_asserts_at_O3 "gcc $c99 -O3 -DNDEBUG $stb" single
check exports_only_ms_names <<END
nm -g --defined-only $out/gcc.o >\$dir/names
grep -q ' ms_append\$' \$dir/names
! grep -v ' ms_[a-z0-9_]*\$' \$dir/names
END

# What system headers declare depends on these; ours must do with whatever it is.
for feature in -std=gnu11 -D_GNU_SOURCE -D_POSIX_C_SOURCE=200809L -D_XOPEN_SOURCE=700 \
    '-std=gnu99 -D_FILE_OFFSET_BITS=64'; do
    at 2 look "with_${feature#-}_first" "$c $feature -DSYSTEM_FIRST $stb" single
    at 3 look "with_${feature#-}_last" "$c $feature -DSYSTEM_LAST $stb" single
done

have $mingw-gcc && at 2 check windows <<END
$mingw-gcc $c99 -c \$src/user.c -o \$dir/user.o
$mingw-gcc \$dir/user.o $out/mingw.o -o \$dir/user.exe
END
look windows_system_headers "$mingw-gcc $c99 $stb -DSYSTEM_FIRST" single
at 2 look windows_c++11 "$mingw-g++ $cpp11 $stb -DSYSTEM_FIRST" single
at 3 look windows_c++11_user "$mingw-g++ $cpp11 $stb -DSYSTEM_FIRST" user
# What MSVC sees, as far as clang and mingw's headers show it: clang-cl, and cl, which has none
# of gcc's builtins and attributes.
if have clang && have $mingw-gcc; then
    msvc="--target=x86_64-pc-windows-msvc -fgnuc-version=4.2.1 -fms-compatibility -nostdlibinc"
    msvc="$msvc -isystem $(clang -print-resource-dir)/include -isystem /usr/$mingw/include"
    msvc="$msvc -include $src/msvc.h -Wno-unused-parameter -Wno-unused-function"
    look msvc_cl "clang $c99 $msvc -DAS_CL $stb" single
    at 2 look msvc_cl_interface "clang $c99 $msvc -DAS_CL" user ffi
    at 2 look msvc_cl_c++14 "clang++ $cpp11 -std=c++14 $msvc -DAS_CL $stb" single user
    at 2 look msvc_clang_cl "clang $c99 $msvc $stb" single user ffi
    at 3 look msvc_clang_cl_c++17 "clang++ $cpp11 -std=c++17 $msvc $stb" single user
fi


# ---- Other processors (tests/platform/cross.sh runs programs there). In any case clang
# looks for one of 32 bits and for one that is also big-endian, with the headers of this
# machine.

for target in i686-linux-gnu powerpc-linux-gnu s390x-linux-gnu aarch64-linux-gnu \
    arm-linux-gnueabihf; do
    compiler=$(command -v "$target-gcc" "$target-gcc-12" | head -n 1)
    [ -z "$compiler" ] || look "cross_${target%%-*}" "$compiler $c99 $stb" single
done
if echo 'int main(void) { return 0; }' | gcc -m32 -x c - -o "$out/m32" 2>/dev/null; then
    build gcc_32_bit "gcc -m32 $c99 $stb" single
fi
mkdir -p "$out/headers/gnu"
: >"$out/headers/gnu/stubs-32.h"
headers="-isystem $out/headers -isystem /usr/include/$(gcc -print-multiarch 2>/dev/null)"
for target in i386-linux-gnu:2 powerpc-linux-gnu:1; do
    at ${target#*:} look "compiled_for_${target%%-*}" "clang --target=${target%:*} $c99 \
        '-D__regparm__(x)=unused' $headers $stb" single
done
# Offsets of 64 bits must go to the functions that take them.
have clang && at 2 check large_files_on_32_bit <<END
clang --target=i386-linux-gnu -std=c99 -I. -D_FILE_OFFSET_BITS=64 -DSYSTEM_FIRST $headers $stb \
    -c \$src/single.c -o \$dir/single.o
nm \$dir/single.o >\$dir/names
if grep -E ' U (open|fstat|mmap|pread|pwrite|fallocate|ftruncate)\$' \$dir/names
then exit 1; fi
grep -q ' U pread64' \$dir/names
END


# ---- Switches, each alone and all together. What a switch takes away must be gone.

# switched NAME FLAGS PATTERN [LIBRARIES]: from level 3 on g++ looks at it, too. At level 1 a
# switch alone is looked at: all_switches asks for most of the symbols.
switched()
{
    case $level$1 in
    1*_NO_* | 1*_STATIC) look "$1" "$c $2" single ;;
    *) build "$1" "$c $2" single "${4:-}" "$3" ;;
    esac
    at 3 look "$1_g++" "g++ $cpp11 $2" single
}

threads=' U (pthread_|mtx_|call_once)'
stdio=' U (__assert|_*f?printf|_*v?snprintf|fopen|fread|fwrite|f?puts|stderr|stdout)'
# What only the log asks of the system.
log='mmap|munmap|madvise|msync|fsync|fdatasync|pread|pwrite|fallocate|posix_fallocate'
log="$log|ftruncate|open|openat|close|fcntl|flock|fstat|fstatfs|rename|unlink|syscall"
log=" U ($log)(64)?\$|[Tt] (ms_log|ms_os|ms__log|ms__os)_"
log_windows='CreateFile|MapViewOfFile|FlushFileBuffers|LockFile|WriteFile|ReadFile'
stored="-DMSGSTORE_NO_FORMATS -DMSGSTORE_NO_LOG $no_stb"
switched MSGSTORE_STATIC "-DMSGSTORE_STATIC $stb" ' [TDBRC] ms_'
switched MSGSTORE_NO_THREADS "-DMSGSTORE_NO_THREADS $stb" "$threads" ' '
own_assert="'-DMS_ASSERT(condition)=((condition)?(void)0:abort())'"
switched MS_ASSERT_of_the_program "$own_assert $stb" "$stdio"
switched MSGSTORE_NO_FORMATS "-DMSGSTORE_NO_FORMATS $no_stb" 'stbds_|ms_(read_list|writer_put)'
switched MSGSTORE_NO_LOG "-DMSGSTORE_NO_LOG $stb" "$log"
switched MSGSTORE_NO_CHANGES "-DMSGSTORE_NO_CHANGES -DMSGSTORE_NO_FORMATS $no_stb" 'stbds_'
switched MSGSTORE_NO_ERROR_TEXT "-DMSGSTORE_NO_ERROR_TEXT $stb" ' ms__line'
at 2 look switches_g++ "g++ $cpp11 -DMSGSTORE_STATIC -DMSGSTORE_NO_THREADS \
    $own_assert -DMSGSTORE_NO_CHANGES -DMSGSTORE_NO_ERROR_TEXT $stored" single
switched all_switches "-DMSGSTORE_STATIC -DMSGSTORE_NO_THREADS $own_assert $stored" \
    "$threads|$stdio|$log|stbds_"
# The switches that add something are tried without the formats and the log.
switched MSGSTORE_RING "-DMSGSTORE_RING $code $stored" ms__flash
switched MSGSTORE_FLASH "-DMSGSTORE_FLASH $code $stored" stbds_
at 3 switched MSGSTORE_RING_at_O2 "-DMSGSTORE_RING -O2 $stored" ms__flash
at 3 switched MSGSTORE_FLASH_at_O2 "-DMSGSTORE_FLASH -O2 $stored" stbds_
# Without a system, the C library gives memory and string functions, and abort. FLASH has
# all code of the others.
freestanding="$quick $code"
[ "$level" -lt 3 ] || freestanding='gcc -Os'
for row in FLASH:1 RING:3 NOTHING:3; do
    at ${row#*:} check "MSGSTORE_FREESTANDING_${row%:*}_asks_for_no_system" <<END
$freestanding $c99 -DMSGSTORE_FREESTANDING -DMSGSTORE_NO_FORMATS \
    -DMSGSTORE_${row%:*} $no_stb -c \$src/single.c -o \$dir/single.o
nm -u \$dir/single.o | sed 's/^ *U //' >\$dir/names
grep -q '^memmove\$' \$dir/names
! grep -vE '^(mem(cpy|set|move|cmp|chr)|str(len|chr|cmp)|abort|strtod)\$' \$dir/names
END
done
check MSGSTORE_RING_is_asked_for <<END
$quick -std=c99 -I. -DMSGSTORE_RING -fsyntax-only \$src/ring.c
! $quick -std=c99 -I. -fsyntax-only \$src/ring.c 2>\$dir/errors
grep -q 'error: .*drop_oldest' \$dir/errors
END
check the_log_is_seen_by_its_names <<END
nm $out/$quick.o >\$dir/names
for name in ' U mmap' ' U f(data)?sync' ' T ms_log_open' ' T ms_os_'; do
    grep -E '$log' \$dir/names | grep -Eq "\$name"
done
END
linked=-DMSGSTORE_IMPLEMENTED
check MSGSTORE_NO_CHANGES_refuses_a_changed_log <<END
$quick -std=c99 -I. $linked \$src/changed.c $out/$quick.o -pthread -o \$dir/with
$quick -std=c99 -I. $linked -DMSGSTORE_NO_CHANGES \$src/changed.c $out/no_changes.o \
    -pthread -o \$dir/without
\$dir/with \$dir/changed.msl make
\$dir/with \$dir/changed.msl
\$dir/without \$dir/changed.msl
END
build raw_queries_are_honoured_or_refused_with_MSGSTORE_NO_CHANGES \
    "$quick -std=c99 -I. $linked" raw "$out/no_changes.o -pthread"
check MSGSTORE_NO_LOG_has_no_log <<END
gcc -std=c99 -I. -fsyntax-only \$src/no_log.c
! gcc -std=c99 -I. -DMSGSTORE_NO_LOG -fsyntax-only \$src/no_log.c 2>\$dir/errors
grep -q 'error: .*ms_log' \$dir/errors
END
have $mingw-gcc && at 3 check windows_MSGSTORE_NO_LOG <<END
$mingw-gcc -std=c99 -I. -DMSGSTORE_NO_LOG $stb -c \$src/single.c -o \$dir/none.o
$mingw-nm $out/mingw.o | grep -Eq '$log_windows'
! $mingw-nm \$dir/none.o | grep -E '$log_windows'
END

# fits BYTES NAME FLAGS: gcc's code for this machine, with its unwind tables.
fits()
{
    [ "$(uname -m)" = x86_64 ] && have size || return
    check "$2" <<END
gcc $3 -Os -o \$dir/it
text=\$(size \$dir/it | awk 'NR == 2 { print \$1 }')
echo "note: \$text bytes of code, at most $1"
[ "\$text" -le $1 ]
END
}
# The smallest program: arena store and histories alone. It must not grow by what it does
# not use. Then all of the store part but the log.
at 2 fits 49152 small_program "$c99 -ffunction-sections -fdata-sections -Wl,--gc-sections \
    $src/small.c"
at 2 fits 107840 store_part_is_small "-std=c99 -DMSGSTORE_IMPLEMENTATION \
    -DMSGSTORE_NO_FORMATS -DMSGSTORE_NO_LOG -x c -c msgstore.h"
at 2 build small_program_runs "$c" small


# ---- A program that uses stb_ds itself. In another file it must work; in the same file
# it must work or be refused by an #error that names msgstore.h. (There without the log:
# what stb_ds could meet is in the formats.)

mkdir -p "$out/other"
cp "$(set -- $stb; echo "${2:-.}")/stb_ds.h" "$out/other/other_name.h"
at 2 build MSGSTORE_STB_DS "$c -I$out/other $no_stb -DMSGSTORE_STB_DS=\\\"other_name.h\\\"" single
# A machine without stb_ds.h: the error names three ways on, the compiler stops there, and the
# third one compiles.
check stb_ds_missing <<END
mkdir -p \$dir/include
for file in /usr/include/*; do
    case \$file in */stb) ;; *) ln -sfn \$file \$dir/include/ ;; esac
done
cc="gcc -nostdinc -isystem \$(gcc -print-file-name=include) -isystem \$dir/include \
    -isystem /usr/include/\$(gcc -print-multiarch) $c99 -c \$src/single.c -o \$dir/it.o"
if \$cc >\$dir/said 2>&1; then echo "it compiles without stb_ds.h"; exit 1; fi
for way in 'libstb-dev' 'msgstore_single.h' 'define MSGSTORE_NO_FORMATS'; do
    grep -q "error.*does not find stb_ds.h.*\$way" \$dir/said
done
[ "\$(grep -c ' error: ' \$dir/said)" -eq 2 ]
\$cc -DMSGSTORE_NO_FORMATS
END
build stb_ds_in_another_file_gcc "gcc $c99 $stb" stb_user "$out/gcc.o -pthread"
at 2 build stb_ds_in_another_file_g++ "g++ $cpp11 $stb" stb_user "$out/g++.o -pthread"
for row in "$quick:$c99:2" "clang++:$cpp11:3" "g++:$cpp11:3"; do
    IFS=: read -r compiler flags from <<<"$row"
    have "$compiler" || continue
    for order in -DSTB_FIRST -DSTB_LAST; do
        for place in -DSTB_HERE -DSTB_ELSEWHERE; do
            at "$from" check "stb_ds_in_the_same_file_$order${place}_$compiler" <<END
if ! $compiler $flags $stb -DMSGSTORE_NO_LOG $place $order -c \$src/stb_same.c \
    -o \$dir/same.o 2>\$dir/errors
then
    cat \$dir/errors
    grep -q 'error: .*msgstore\.h' \$dir/errors
    echo 'note: refused by an #error'
    exit 0
fi
[ $place = -DSTB_HERE ] || $compiler ${flags##*-Wno-misleading-indentation} $stb \
    -c \$src/stb_implementation.c -o \$dir/stb.o
$compiler \$dir/*.o -pthread -o \$dir/same
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
