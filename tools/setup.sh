#!/bin/sh
# Installs what a target of the Makefile needs and this machine lacks.
#
#   tools/setup.sh demo    a C compiler and stb_ds.h; tool: the same
#   tools/setup.sh test    also the libraries, compilers and checkers of the tests
#   tools/setup.sh setup   the same as test, for `make setup`
#   tools/setup.sh fuzz    of these what fuzzing needs; controls: what `make controls` needs
#   tools/setup.sh bench   also the libraries of the stores that are compared, and python3
#   tools/setup.sh cross s390x|i386|armhf    a compiler for that machine and its emulator
#   tools/setup.sh windows a compiler for Windows, and wine (not with BUILD_ONLY=1)
#   tools/setup.sh postgres what `make test-postgres` needs: libpq and a server
#   tools/setup.sh citus   also what building Citus for that server needs; pgbouncer: also
#                 PgBouncer
#   tools/setup.sh board   a compiler for Cortex-M, newlib and its emulator
#   tools/setup.sh report  what `make test-report` needs: chromium, node, zlib,
#                          libmicrohttpd
#   tools/setup.sh site    what `make test-site` needs: the same, python3 with venv, gnuplot
#   tools/setup.sh rust    cargo and rustc; go: a go; both with a C compiler and stb_ds.h
#
# These install nothing:
#
#   tools/setup.sh check   fails and prints the names where a package of `make check` lacks
#   tools/setup.sh absent  prints "san" without clang's sanitizers, "val" without valgrind
#   tools/setup.sh peers   prints which of the stores that are compared can be built
#   tools/setup.sh stb     prints the compiler flag that finds stb_ds.h
#   tools/setup.sh zlib    prints the flag that links zlib, when it is there
#   tools/setup.sh without FILE    prints what a tool whose flags are in FILE (build/with) was
#                          built without, and Debian's packages
#
# A thing is there when it works, however it came: each is tried. Where all is there,
# nothing is done and nothing printed. Otherwise the script prints the names of Debian's
# packages and installs them with apt-get, as root or through sudo. It fails where it
# cannot.
#
#   SETUP=0       nothing is installed. `make test` goes on without the programs that it can
#                 do without; every other target that lacks a package fails.
#   STB_INC=dir   names the folder of stb_ds.h.
set -u

cc=${CC:-cc}
empty='int main(void) { return 0; }'
before_cmocka='#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>'
before_cmocka="$before_cmocka\n#include <setjmp.h>"
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

stb_flag()
{
    if [ -n "${STB_INC:-}" ]; then
        echo "-isystem $STB_INC"
        return
    fi
    for dir in "$(cd "$(dirname "$0")/.." && pwd)" \
        $(pkg-config --cflags-only-I stb 2>/dev/null | sed 's/-I//g') \
        /usr/include/stb /usr/local/include/stb /usr/local/include \
        /opt/homebrew/include/stb; do
        if [ -f "$dir/stb_ds.h" ]; then
            echo "-isystem $dir"
            return
        fi
    done
}

# compiles SOURCE FLAGS COMPILER...: does this program compile and link?
# shellcheck disable=SC2086
compiles()
{
    printf '%b\n' "$1" >"$tmp/try.c"
    flags=$2
    shift 2
    "$@" -o "$tmp/try" "$tmp/try.c" $flags >/dev/null 2>&1
}

# library MODULE LINKNAME INCLUDES: is there a C library of this name?
# shellcheck disable=SC2086
library()
{
    found=$(pkg-config --cflags --libs "$1" 2>/dev/null) || found="-l$2"
    compiles "$3\n$empty" "$found" $cc
}

# The sanitizer runtime is a package of its own that carries clang's version.
clang_runtime()
{
    version=$(clang -dumpversion 2>/dev/null | sed 's/\..*//')
    if [ -z "$version" ] && command -v apt-cache >/dev/null 2>&1; then
        version=$(apt-cache depends clang 2>/dev/null |
            sed -n 's/.*Depends: clang-\([0-9][0-9]*\)$/\1/p' | head -n 1)
    fi
    echo "libclang-rt-${version:-14}-dev"
}

# shellcheck disable=SC2086
missing_for_demo()
{
    if compiles "#include <stdio.h>\n$empty" '' $cc; then
        compiles "#include \"stb_ds.h\"\n$empty" "$(stb_flag)" $cc || echo libstb-dev
    else
        echo gcc libc6-dev
        [ -n "$(stb_flag)" ] || echo libstb-dev
    fi
}

missing_for_tool()
{
    missing_for_demo
}

# What no test can do without.
missing_for_check()
{
    missing_for_demo
    library cmocka cmocka "$before_cmocka\n#include <cmocka.h>" || echo libcmocka-dev
    library jansson jansson '#include <jansson.h>' || echo libjansson-dev
    library libcjson cjson '#include <cjson/cJSON.h>' || echo libcjson-dev
    library sqlite3 sqlite3 '#include <sqlite3.h>' || echo libsqlite3-dev
    compiles "#include <cstddef>\n$empty" '' g++ -x c++ || echo g++
    command -v python3 >/dev/null 2>&1 || echo python3 # it judges messages of real traces
}

sanitizers()
{
    compiles "$empty" -fsanitize=address,undefined clang &&
        compiles "$empty" -fsanitize=thread clang
}

missing_for_fuzz()
{
    missing_for_check
    compiles "#include <cstddef>\n$empty" '' clang++ -x c++ || echo clang
    sanitizers || echo clang "$(clang_runtime)"
}

missing_for_controls()
{
    missing_for_fuzz
    python3 -m pytest --version >/dev/null 2>&1 || echo python3-pytest
}

missing_for_test()
{
    missing_for_fuzz
    compiles "#include <windows.h>\n$empty" '' x86_64-w64-mingw32-gcc ||
        echo gcc-mingw-w64-x86-64
    compiles "#include <windows.h>\n$empty" '' x86_64-w64-mingw32-g++ ||
        echo g++-mingw-w64-x86-64
    command -v valgrind >/dev/null 2>&1 || echo valgrind
    command -v pkg-config >/dev/null 2>&1 || echo pkg-config
    library libzstd zstd '#include <zstd.h>' || echo libzstd-dev
    library libzip zip '#include <zip.h>' || echo libzip-dev
    library libmicrohttpd microhttpd '#include <microhttpd.h>' || echo libmicrohttpd-dev
    command -v mandoc >/dev/null 2>&1 || echo mandoc
}

missing_for_setup()
{
    missing_for_test
}

absent()
{
    sanitizers || echo san
    command -v valgrind >/dev/null 2>&1 || echo val
}

# peer NAME: is the library of that store there?
peer()
{
    case $1 in
    sqlite) library sqlite3 sqlite3 '#include <sqlite3.h>' ;;
    lmdb) library lmdb lmdb '#include <lmdb.h>' ;;
    leveldb) library leveldb leveldb '#include <leveldb/c.h>' ;;
    jsonl) library libcjson cjson '#include <cjson/cJSON.h>' ;;
    esac
}

peers()
{
    for name in sqlite lmdb leveldb jsonl; do
        if peer "$name"; then echo "$name"; fi
    done
}

missing_for_bench()
{
    missing_for_demo
    peer sqlite || echo libsqlite3-dev
    peer lmdb || echo liblmdb-dev
    peer leveldb || echo libleveldb-dev
    peer jsonl || echo libcjson-dev
    command -v python3 >/dev/null 2>&1 || echo python3
    command -v gnuplot >/dev/null 2>&1 || echo gnuplot-nox
    command -v bash >/dev/null 2>&1 || echo bash
}

# foreign COMPILER EMULATOR PACKAGES...: are both there?
foreign()
{
    compiler=$1
    command -v "$2" >/dev/null 2>&1 || echo qemu-user
    shift 2
    compiles "#include <stdio.h>\n$empty" '' "$compiler" || echo "$@"
}

missing_for_cross()
{
    case $machine in
    s390x) foreign s390x-linux-gnu-gcc qemu-s390x \
        gcc-s390x-linux-gnu libc6-dev-s390x-cross ;;
    i386) foreign i686-linux-gnu-gcc qemu-i386 gcc-i686-linux-gnu libc6-dev-i386-cross ;;
    armhf) foreign arm-linux-gnueabihf-gcc qemu-arm \
        gcc-arm-linux-gnueabihf libc6-dev-armhf-cross ;;
    esac
    [ -n "$(stb_flag)" ] || echo libstb-dev
}

missing_for_windows()
{
    compiles "#include <windows.h>\n$empty" '' x86_64-w64-mingw32-gcc ||
        echo gcc-mingw-w64-x86-64
    [ "${BUILD_ONLY:-0}" = 1 ] || command -v wine >/dev/null 2>&1 || echo wine wine64
    [ -n "$(stb_flag)" ] || echo libstb-dev
}

# What a browser test needs. The tool works without zlib, with larger pages.
missing_for_report()
{
    missing_for_demo
    library zlib z '#include <zlib.h>' || echo zlib1g-dev
    library libmicrohttpd microhttpd '#include <microhttpd.h>' || echo libmicrohttpd-dev
    command -v chromium >/dev/null 2>&1 || echo chromium
    command -v node >/dev/null 2>&1 || echo nodejs
}

missing_for_site()
{
    missing_for_report
    python3 -c 'import venv, ensurepip' 2>/dev/null || echo python3-venv
    command -v gnuplot >/dev/null 2>&1 || echo gnuplot-nox
}

missing_for_postgres()
{
    missing_for_check
    compiles "#include <libpq-fe.h>\n$empty" \
        "-I$(pg_config --includedir 2>/dev/null || echo /usr/include/postgresql) -lpq" \
        $cc || echo libpq-dev
    ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 ||
        command -v initdb >/dev/null 2>&1 || echo postgresql
    command -v setpriv >/dev/null 2>&1 || echo util-linux
}

# The headers must be of the server that is installed. A newer version of them would bring
# a newer server.
server_headers()
{
    major=$(ls -d /usr/lib/postgresql/*/bin/initdb 2>/dev/null | sort -V | tail -n 1 |
        sed 's,/usr/lib/postgresql/\([0-9]*\)/.*,\1,')
    headers=$("/usr/lib/postgresql/${major:=15}/bin/pg_config" --includedir-server 2>/dev/null)
    [ ! -f "${headers:-/none}/postgres.h" ] || return 0
    version=$(dpkg-query -W -f '${Version}' "postgresql-$major" 2>/dev/null)
    if [ -n "$version" ] && apt-cache madison "postgresql-server-dev-$major" 2>/dev/null |
        grep -qF " $version "; then
        echo "postgresql-server-dev-$major=$version"
    else
        echo "postgresql-server-dev-$major"
    fi
}

missing_for_citus()
{
    missing_for_postgres
    server_headers
    compiles "#include <gssapi/gssapi.h>\n$empty" '' $cc || echo libkrb5-dev
    compiles "#include <openssl/ssl.h>\n$empty" '' $cc || echo libssl-dev
    command -v git >/dev/null 2>&1 || echo git
}

missing_for_pgbouncer()
{
    missing_for_postgres
    [ -x /usr/sbin/pgbouncer ] || command -v pgbouncer >/dev/null 2>&1 || echo pgbouncer
}

missing_for_board()
{
    compiles "#include <string.h>\n$empty" '--specs=nano.specs --specs=nosys.specs' \
        arm-none-eabi-gcc || echo gcc-arm-none-eabi libnewlib-arm-none-eabi
    command -v qemu-system-arm >/dev/null 2>&1 || echo qemu-system-arm
    [ -n "$(stb_flag)" ] || echo libstb-dev
}

# Both may have been installed beside Debian's packages.
missing_for_rust()
{
    missing_for_demo
    PATH=$PATH:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin
    cargo --version >/dev/null 2>&1 || echo cargo
    rustc --version >/dev/null 2>&1 || echo rustc
}

missing_for_go()
{
    missing_for_demo
    PATH=$PATH:/usr/local/go/bin go version >/dev/null 2>&1 || echo golang-go
}

# lacks FLAG WORDS PACKAGE: adds to $without where the flags of the tool lack FLAG.
lacks()
{
    grep -q -e "-DWITH_$1" "$flags" || without="$without${without:+, }$2 ($3)"
}

# without FLAGS: what the tool with these flags cannot do.
without()
{
    flags=$1 without=
    lacks MICROHTTPD serve libmicrohttpd-dev
    lacks POSTGRES 'ship and stores on PostgreSQL' libpq-dev
    lacks ZLIB 'files in gzip' zlib1g-dev
    lacks ZSTD 'files in zstd' libzstd-dev
    lacks ZIP 'logs of Inspect in ZIP' libzip-dev
    [ -z "$without" ] || echo "built without $without: Debian's packages are named"
}

machine=${2:-}
case ${1:-}:$machine in
without:?*) without "$machine" && exit 0 ;;
stb:) stb_flag && exit 0 ;;
zlib:)
    if library zlib z '#include <zlib.h>'; then echo -lz; fi
    exit 0
    ;;
peers:) peers && exit 0 ;;
absent:) absent && exit 0 ;;
demo: | tool: | test: | setup: | check: | fuzz: | controls: | bench: | windows: | report: | site: | postgres: | citus: | pgbouncer: | board: | rust: | go:) ;;
cross:s390x | cross:i386 | cross:armhf) ;;
*)
    echo "usage: tools/setup.sh demo|tool|test|setup|check|fuzz|controls|bench|windows|report" >&2
    echo "       tools/setup.sh site|postgres|citus|pgbouncer|board|rust|go" >&2
    echo "       tools/setup.sh absent|peers|stb|zlib|without FILE" >&2
    echo "       tools/setup.sh cross s390x|i386|armhf" >&2
    exit 2
    ;;
esac

# missing TARGET: one line of names, each once.
missing()
{
    "missing_for_$1" | tr ' ' '\n' | sort -u | tr '\n' ' ' | sed 's/ $//'
}

# give_up REASON: prints what to install and ends the script.
give_up()
{
    echo "$wanted_by needs packages: $names ($1)" >&2
    [ ! -s "$tmp/log" ] || tail -n 20 "$tmp/log" >&2
    exit 1
}

if [ -n "${STB_INC:-}" ] && [ ! -f "$STB_INC/stb_ds.h" ]; then
    echo "STB_INC=$STB_INC: there is no stb_ds.h in it" >&2
    exit 1
fi
target=$1
asked="make $target"
case $target in
cross | windows | report | site | postgres | citus | pgbouncer | board | rust | go) asked="make test-$target" ;;
esac
wanted_by=$asked
[ -z "$machine" ] || wanted_by="$asked, $machine,"
names=$(missing "$target")
[ -n "$names" ] || exit 0

if [ "$target" = check ]; then
    give_up "'make setup' installs them"
fi
if [ "${SETUP:-1}" = 0 ]; then
    if [ "$target" != test ] || [ -n "$(missing check)" ]; then
        give_up "SETUP=0: nothing is installed"
    fi
    echo "$asked goes on without packages: $names (SETUP=0: nothing is installed)"
    exit 0
fi

command -v apt-get >/dev/null 2>&1 || give_up "there is no apt-get to install them"
if [ "$(id -u)" -eq 0 ]; then
    root='env' by="as root"
elif sudo -n true 2>/dev/null; then
    root='sudo -n env' by="with sudo"
else
    give_up "not root, and sudo asks for a password"
fi

# The names come first: the update takes a while, time enough for Ctrl-C.
echo "$asked will install with apt-get, $by: $names"
echo "To install nothing: $asked SETUP=0"
if ! $root apt-get -q update >"$tmp/log" 2>&1; then
    echo "apt-get update failed; trying with the lists at hand" >&2
fi
# What clang's runtime is called is known only now.
names=$(missing "$target")
echo "installing: $names"
# shellcheck disable=SC2086
$root DEBIAN_FRONTEND=noninteractive \
    apt-get -q -y --no-install-recommends install $names >>"$tmp/log" 2>&1 </dev/null ||
    give_up "apt-get could not install them"
names=$(missing "$target")
[ -z "$names" ] || give_up "still missing after the installation"
