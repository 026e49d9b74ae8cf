#!/usr/bin/env bash
# Installs or removes what `make tool lib` has built, the headers, the manual page and the
# completions: tools/install.sh install|uninstall.
#
#   PREFIX=dir    /usr/local; DESTDIR=dir is put in front of it
#
# uninstall removes the same files, and the two folders that are msgstore's own.
set -eu
cd "$(dirname "$0")/.."
prefix=${PREFIX:-/usr/local}
case $prefix in
/*) ;;
*)
    echo "make install: PREFIX is $prefix, a path that begins with / was expected" >&2
    exit 2
    ;;
esac
root=${DESTDIR:-}$prefix
version=$(sed -n 's/^#define MSGSTORE_VERSION *"\(.*\)".*/\1/p' msgstore.h)

# put MODE SOURCE FILE: FILE is below the prefix. A link is copied as a link.
put()
{
    local mode=$1 source=$2 file=$root/$3
    if [ "$action" = uninstall ]; then
        rm -f "$file"
        return
    fi
    mkdir -p "${file%/*}"
    if [ -L "$source" ]; then
        cp -Pf "$source" "$file"
    else
        install -m "$mode" "$source" "$file"
    fi
}

# made MODE FILE COMMAND...: what the command prints.
made()
{
    local mode=$1 file=$2
    shift 2
    if [ "$action" = install ]; then "$@" >"$tmp/made"; fi
    put "$mode" "$tmp/made" "$file"
}

filled()
{
    local quoted
    quoted=$(printf '%s' "$prefix" | sed 's/[&|\\]/\\&/g')
    sed -e "s|@PREFIX@|$quoted|" -e "s|@VERSION@|$version|" "$1"
}

action=${1:-}
case $action in
install | uninstall) ;;
*)
    echo "usage: tools/install.sh install|uninstall" >&2
    exit 2
    ;;
esac
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
tool=build/msgstore
put 644 msgstore.h include/msgstore.h
put 644 bindings/msgstore_ffi.h include/msgstore_ffi.h
put 644 bindings/cpp/msgstore.hpp include/msgstore.hpp
put 755 $tool bin/msgstore
made 644 share/man/man1/msgstore.1 $tool manual
made 644 share/bash-completion/completions/msgstore $tool completion bash
made 644 share/zsh/site-functions/_msgstore $tool completion zsh
made 644 share/fish/vendor_completions.d/msgstore.fish $tool completion fish
made 644 lib/pkgconfig/msgstore.pc filled tools/msgstore.pc.in
made 644 lib/pkgconfig/libmsgstore.pc filled tools/libmsgstore.pc.in
put 644 build/lib/cmake/libmsgstore-config.cmake lib/cmake/libmsgstore/libmsgstore-config.cmake
put 644 LICENSE share/doc/msgstore/LICENSE
minor=${version%.*}
for name in libmsgstore.a libmsgstore.dylib libmsgstore.so "libmsgstore.so.$minor" \
    "libmsgstore.so.$version"; do
    if [ "$action" = uninstall ] || [ -e "build/lib/$name" ]; then
        put 755 "build/lib/$name" "lib/$name"
    fi
done
if [ "$action" = uninstall ]; then
    rmdir "$root/share/doc/msgstore" "$root/lib/cmake/libmsgstore" 2>/dev/null || true
fi
