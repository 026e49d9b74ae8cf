#!/usr/bin/env bash
# Builds msgstore as a library with the flat interface ([api-ffi]): tools/lib.sh FOLDER.
#
#   libmsgstore.so.VERSION   and its links; on macOS libmsgstore.dylib
#   libmsgstore.a
#   msgstore.dll             where x86_64-w64-mingw32-gcc is installed; not with DLL=0
#   libmsgstore.pc, cmake/   for pkg-config and for find_package(libmsgstore); the header
#                            alone is msgstore for both
#
# Only the public functions are visible. Until 1.0 the name that a program records has the
# minor version (libmsgstore.so.0.3), and so have the symbols, since the interface may
# change with it. CC, CFLAGS (-O2), STB_INC as in the Makefile.
set -eu
cd "$(dirname "$0")/.."
out=${1:-build/lib}
mkdir -p "$out/cmake"
out=$(cd "$out" && pwd)
version=$(sed -n 's/^#define MSGSTORE_VERSION *"\(.*\)".*/\1/p' msgstore.h)
minor=${version%.*}
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
        echo "MSGSTORE_$minor { global: ms_*; local: *; };" >"$out/symbols"
        $cc -shared -pthread -Wl,-soname,"libmsgstore.so.$minor" \
            -Wl,--version-script="$out/symbols" \
            -o "$out/libmsgstore.so.$version" "$out/msgstore.o"
        ln -sf "libmsgstore.so.$version" "$out/libmsgstore.so.$minor"
        ln -sf "libmsgstore.so.$minor" "$out/libmsgstore.so"
    fi
    rm -f "$out/msgstore.o" "$out/symbols"
    mingw=x86_64-w64-mingw32-gcc
    if [ "${DLL:-1}" = 0 ]; then
        :
    elif command -v $mingw >/dev/null; then
        $mingw $flags '-DMS_API=extern __declspec(dllexport)' -shared -static-libgcc \
            -x c $source -o "$out/msgstore.dll" -Wl,--out-implib,"$out/msgstore.dll.a"
    else
        echo "no msgstore.dll: $mingw is not installed"
    fi
}

sed -e "s|^prefix=.*|prefix=$out|" -e 's|{prefix}/lib|{prefix}|' \
    -e "s|^includedir=.*|includedir=$PWD|" -e 's|^Cflags: .*|& -I${includedir}/bindings -I${includedir}/bindings/cpp|' \
    -e "s|@VERSION@|$version|" tools/libmsgstore.pc.in >"$out/libmsgstore.pc"

cat >"$out/cmake/libmsgstore-config.cmake" <<'CMAKE'
# find_package(libmsgstore CONFIG) defines libmsgstore::shared and libmsgstore::static.
# Installed it stands in lib/cmake/libmsgstore, in the folder of the build in cmake/.
get_filename_component(_lib "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
if(EXISTS "${CMAKE_CURRENT_LIST_DIR}/include-folder")
    file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/include-folder" _include)
else()
    get_filename_component(_lib "${_lib}/.." ABSOLUTE)
    get_filename_component(_include "${_lib}/../include" ABSOLUTE)
endif()
find_package(Threads REQUIRED)
foreach(_kind shared static)
    string(TOUPPER ${_kind} _upper)
    if(NOT TARGET libmsgstore::${_kind})
        add_library(libmsgstore::${_kind} ${_upper} IMPORTED)
        set_target_properties(libmsgstore::${_kind} PROPERTIES
            INTERFACE_INCLUDE_DIRECTORIES "${_include}"
            INTERFACE_LINK_LIBRARIES Threads::Threads)
    endif()
endforeach()
if(APPLE)
    set(_shared libmsgstore.dylib)
else()
    set(_shared libmsgstore.so)
endif()
set_property(TARGET libmsgstore::shared PROPERTY IMPORTED_LOCATION "${_lib}/${_shared}")
set_property(TARGET libmsgstore::static PROPERTY IMPORTED_LOCATION "${_lib}/libmsgstore.a")
CMAKE
printf '%s\n' "$PWD" "$PWD/bindings" "$PWD/bindings/cpp" >"$out/cmake/include-folder"
echo "built in $out:"
# shellcheck disable=SC2012
ls "$out"
