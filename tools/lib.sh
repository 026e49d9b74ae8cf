#!/usr/bin/env bash
# Builds msgstore as a library with the flat interface ([api-ffi]): tools/lib.sh FOLDER.
#
#   libmsgstore.so.VERSION   and its links; on macOS libmsgstore.dylib
#   libmsgstore.a
#   msgstore.dll             where x86_64-w64-mingw32-gcc is installed
#   msgstore.pc, cmake/      for pkg-config and for find_package(msgstore)
#
# Only the public functions are visible. CC, CFLAGS (-O2), STB_INC as in the Makefile.
set -eu
cd "$(dirname "$0")/.."
out=${1:-build/lib}
mkdir -p "$out/cmake"
out=$(cd "$out" && pwd)
version=$(sed -n 's/^#define MSGSTORE_VERSION *"\(.*\)".*/\1/p' msgstore.h)
major=${version%%.*}
stb=$(sh tools/setup.sh stb)
[ -n "$stb" ] || { echo "make lib: stb_ds.h is not found (Debian: libstb-dev)" >&2; exit 1; }
flags="-std=c99 ${CFLAGS:--O2} -DNDEBUG -DMSGSTORE_IMPLEMENTATION $stb"
flags="$flags -DMSGSTORE_FFI_IMPLEMENTATION -include msgstore.h"
visible='-DMS_API=extern __attribute__((visibility("default")))'
source=bindings/msgstore_ffi.h
cc=${CC:-cc}

# shellcheck disable=SC2086
{
    $cc $flags -fPIC -fvisibility=hidden "$visible" -pthread -x c -c $source \
        -o "$out/msgstore.o"
    rm -f "$out/libmsgstore.a"
    ar rcs "$out/libmsgstore.a" "$out/msgstore.o"
    if [ "$(uname -s)" = Darwin ]; then
        $cc -dynamiclib -install_name "@rpath/libmsgstore.dylib" \
            -o "$out/libmsgstore.dylib" "$out/msgstore.o"
    else
        $cc -shared -pthread -Wl,-soname,"libmsgstore.so.$major" \
            -o "$out/libmsgstore.so.$version" "$out/msgstore.o"
        ln -sf "libmsgstore.so.$version" "$out/libmsgstore.so.$major"
        ln -sf "libmsgstore.so.$major" "$out/libmsgstore.so"
    fi
    rm -f "$out/msgstore.o"
    mingw=x86_64-w64-mingw32-gcc
    if command -v $mingw >/dev/null; then
        $mingw $flags '-DMS_API=extern __declspec(dllexport)' -shared -static-libgcc \
            -x c $source -o "$out/msgstore.dll" -Wl,--out-implib,"$out/msgstore.dll.a"
    else
        echo "no msgstore.dll: $mingw is not installed"
    fi
}

cat >"$out/msgstore.pc" <<PC
prefix=$out
libdir=\${prefix}
includedir=$PWD

Name: msgstore
Description: message store for agent programs, as a library
Version: $version
Cflags: -I\${includedir} -I\${includedir}/bindings
Libs: -L\${libdir} -lmsgstore -pthread
PC

cat >"$out/cmake/msgstore-config.cmake" <<'CMAKE'
# find_package(msgstore CONFIG) defines msgstore::shared and msgstore::static.
get_filename_component(_msgstore_lib "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/include-folder" _msgstore_include LIMIT_COUNT 1)
find_package(Threads REQUIRED)
foreach(_kind shared static)
    string(TOUPPER ${_kind} _upper)
    if(NOT TARGET msgstore::${_kind})
        add_library(msgstore::${_kind} ${_upper} IMPORTED)
        set_target_properties(msgstore::${_kind} PROPERTIES
            INTERFACE_INCLUDE_DIRECTORIES
                "${_msgstore_include};${_msgstore_include}/bindings"
            INTERFACE_LINK_LIBRARIES Threads::Threads)
    endif()
endforeach()
if(APPLE)
    set_property(TARGET msgstore::shared PROPERTY IMPORTED_LOCATION
        "${_msgstore_lib}/libmsgstore.dylib")
else()
    set_property(TARGET msgstore::shared PROPERTY IMPORTED_LOCATION
        "${_msgstore_lib}/libmsgstore.so")
endif()
set_property(TARGET msgstore::static PROPERTY IMPORTED_LOCATION
    "${_msgstore_lib}/libmsgstore.a")
CMAKE
echo "$PWD" >"$out/cmake/include-folder"
echo "built in $out:"
# shellcheck disable=SC2012
ls "$out"
