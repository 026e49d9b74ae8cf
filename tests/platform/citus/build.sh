#!/usr/bin/env bash
# Citus for tests: built from its source, beside the PostgreSQL that is installed.
#
#   build.sh able           prints why it cannot be had here, if so; gets the source
#   build.sh make           builds it, if that was not done before
#   build.sh stage FOLDER   an installation of PostgreSQL with Citus in FOLDER, whose
#                           programs are in FOLDER/usr/lib/postgresql/MAJOR/bin
#   build.sh version        prints the tag
#
# CITUS_SOURCE=PATH   the source: a git directory that has the tag, or an unpacked release.
#                     Without it the tag is cloned from Citus's public repository.
# CITUS_VERSION=TAG   another release than the one that fits the server
# All files are in build/citus; the installation of the system is only read.
set -u
cd "$(dirname "$0")/../../.." || exit 1

bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
[ -n "$bin" ] || bin=$(dirname "$(command -v postgres || echo /none/postgres)")
config=$bin/pg_config
major=$("$bin/postgres" --version 2>/dev/null | sed 's/.* \([0-9]*\)[.a-z].*/\1/')
case ${major:-none} in
15 | 16 | 17) tag=v13.2.2 ;;
18) tag=v14.0.1 ;;
*) tag= ;;
esac
tag=${CITUS_VERSION:-$tag}
place=build/citus/pg${major:-none}-$tag
repository=https://github.com/citusdata/citus

# Gets the source; the exit status is that of the last step.
source_get()
{
    [ ! -x "$place/source/configure" ] || return 0
    rm -rf "$place"
    mkdir -p "$place/source" || return 1
    if [ -z "${CITUS_SOURCE:-}" ]; then
        GIT_TERMINAL_PROMPT=0 timeout 120 git clone --quiet --depth 1 --branch "$tag" \
            "$repository" "$place/clone" >"$place/get.log" 2>&1 &&
            git -C "$place/clone" archive "$tag" | tar -x -C "$place/source"
    elif [ -x "$CITUS_SOURCE/configure" ]; then
        cp -R "$CITUS_SOURCE/." "$place/source"
    else
        git -C "$CITUS_SOURCE" archive "$tag" 2>"$place/get.log" |
            tar -x -C "$place/source" 2>>"$place/get.log"
    fi && [ -x "$place/source/configure" ]
}

able()
{
    [ -x "$bin/initdb" ] || { echo 'there is no PostgreSQL server'; return; }
    [ -n "$tag" ] ||
        { echo "no release of Citus for PostgreSQL ${major:-none} is known here"; return; }
    [ ! -e "$place/built" ] || return
    if ! source_get; then
        echo "the source of Citus $tag cannot be had from ${CITUS_SOURCE:-$repository}"
        rm -rf "$place"
    fi
}

make_it()
{
    [ ! -e "$place/built" ] || return 0
    source_get || return 1
    echo "build Citus $tag for PostgreSQL $major"
    (
        cd "$place/source" &&
            ./configure --without-libcurl --without-lz4 --without-zstd \
                PG_CONFIG="$config" &&
            make -j"${JOBS:-2}" CFLAGS='-O1 -w' extension &&
            make CFLAGS='-O1 -w' install DESTDIR="$PWD/../root"
    ) >"$place/build.log" 2>&1 || { tail -n 20 "$place/build.log"; return 1; }
    rm -rf "$place/source" "$place/clone"
    : >"$place/built"
}

# The server looks for its files from where its program is. Programs are copies, since
# links would lead to the installed ones; all else may be links.
stage()
{
    local root=$1 lib share
    lib=$("$config" --pkglibdir) share=$("$config" --sharedir)
    mkdir -p "$root$lib" "$root$share" "$root$bin" &&
        cp "$bin"/{postgres,initdb,pg_ctl,pg_basebackup,pg_config,psql} "$root$bin" &&
        cp -Rs "$lib/." "$root$lib" && cp -R "$share/." "$root$share" &&
        cp -R "$place/root/." "$root" && echo "$root$bin"
}

case ${1:-} in
able) able ;;
make) make_it ;;
stage) stage "$2" ;;
version) echo "$tag" ;;
*)
    echo 'usage: build.sh able|make|stage FOLDER|version' >&2
    exit 2
    ;;
esac
