#!/usr/bin/env bash
# A PostgreSQL server of its own for tests, in one folder, as a user without privileges.
#
#   server.sh make FOLDER [SETTING...]   creates a cluster and starts it ("fsync=on")
#   server.sh copy FOLDER FROM [SETTING...]   a streaming replica of FROM, started
#   server.sh adopt FOLDER FROM [SETTING...] [standby]   the files of FROM, which is stopped
#   server.sh start|kill|promote FOLDER  kill: -9 to all of its processes
#   server.sh stop FOLDER [MODE]         as pg_ctl does it: immediate, or another mode
#   server.sh url FOLDER                 prints a connection string
#   server.sh able                       prints why no server can run here, if so
#
# It listens on a socket in its folder, and with listen_addresses=* in its own network. The
# superuser "test" needs no password, a user "guarded" does.
#
# PG_BIN=FOLDER   of the programs; without it, of the newest that are installed
set -u

bin=${PG_BIN:-}
[ -n "$bin" ] || bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
[ -n "$bin" ] || bin=$(dirname "$(command -v postgres || echo /none/postgres)")
owner=$(id -un)
[ "$(id -u)" -ne 0 ] || owner=postgres

as_owner()
{
    if [ "$(id -u)" -eq 0 ]; then
        (cd / && exec setpriv --reuid "$owner" --regid "$(id -g "$owner")" \
            --clear-groups "$@")
    else
        "$@"
    fi
}

able()
{
    [ -x "$bin/initdb" ] || { echo 'there is no PostgreSQL server'; return; }
    if [ "$(id -u)" -eq 0 ]; then
        id postgres >/dev/null 2>&1 || useradd --system postgres 2>/dev/null ||
            { echo 'root cannot run a server, and there is no user postgres'; return; }
        command -v setpriv >/dev/null || echo 'there is no setpriv'
    fi
}

configure()
{
    folder=$1
    shift
    {
        echo "listen_addresses = ''"
        echo "unix_socket_directories = '$folder'"
        echo "max_connections = 200"
        echo "max_prepared_transactions = 0"
        echo "shared_buffers = 64MB"
        echo "logging_collector = off"
        for setting in "$@"; do
            [ "$setting" = standby ] || echo "${setting%%=*} = '${setting#*=}'"
        done
    } | as_owner tee -a "$folder/data/postgresql.conf" >/dev/null
}

start()
{
    # processes of a killed server may need a moment to let go of its memory
    for _ in 1 2 3; do
        as_owner "$bin/pg_ctl" -D "$1/data" -l "$1/log" -w -t 60 start >/dev/null && return
        sleep 1
    done
    tail -n 5 "$1/log" >&2
    return 1
}

what=$1
folder=${2:-}
case $what in
able) able ;;
url) echo "host=$folder user=test dbname=postgres" ;;
make)
    mkdir -p "$folder" && chown "$owner" "$folder" || exit 1
    as_owner "$bin/initdb" -D "$folder/data" -A trust -U test -E UTF8 --locale=C \
        --no-sync >"$folder/initdb" 2>&1 || { tail -n 5 "$folder/initdb" >&2; exit 1; }
    as_owner sed -i '1i local all guarded scram-sha-256\nhost all test samenet trust' \
        "$folder/data/pg_hba.conf"
    shift 2
    configure "$folder" "$@"
    start "$folder"
    ;;
copy)
    from=$3
    mkdir -p "$folder" && chown "$owner" "$folder" || exit 1
    as_owner "$bin/pg_basebackup" -D "$folder/data" -h "$from" -U test -R -X stream \
        -c fast >"$folder/basebackup" 2>&1 || { cat "$folder/basebackup" >&2; exit 1; }
    shift 3
    configure "$folder" "$@"
    start "$folder"
    ;;
adopt)
    from=$3
    mkdir -p "$folder" && chown "$owner" "$folder" || exit 1
    as_owner cp -a "$from/data" "$folder/data" || exit 1
    shift 3
    configure "$folder" "$@"
    case " $* " in *" standby "*) as_owner touch "$folder/data/standby.signal" ;; esac
    ;;
start)
    pid=$(head -n 1 "$folder/data/postmaster.pid" 2>/dev/null)
    [ -z "$pid" ] || ! kill -0 "$pid" 2>/dev/null || exit 0 # it runs
    rm -f "$folder/data/postmaster.pid"
    start "$folder"
    ;;
stop) as_owner "$bin/pg_ctl" -D "$folder/data" -m "${3:-immediate}" -w stop >/dev/null 2>&1 ;;
promote) as_owner "$bin/pg_ctl" -D "$folder/data" -w promote >/dev/null ;;
kill)
    pid=$(head -n 1 "$folder/data/postmaster.pid" 2>/dev/null) || exit 0
    children=$(ps -o pid= --ppid "$pid" 2>/dev/null)
    # shellcheck disable=SC2086
    kill -9 "$pid" $children 2>/dev/null
    while kill -0 "$pid" 2>/dev/null; do sleep 0.01; done
    ;;
*)
    echo 'usage: server.sh able|make|copy|adopt|start|stop|kill|promote|url FOLDER' >&2
    exit 2
    ;;
esac
