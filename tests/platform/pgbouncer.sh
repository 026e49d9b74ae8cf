#!/usr/bin/env bash
# The store through PgBouncer, in session and in transaction mode: eight processes on a
# pool of four sessions (tests/platform/pgbouncer/pooled.c). Servers and poolers are this
# script's own, in a temporary folder, on sockets. Where they cannot run the script prints
# "skip" and why. The last line counts: "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../.." || exit 1
server=tests/platform/postgres/server.sh
sh tools/setup.sh pgbouncer || exit 1
why=$(bash $server able)
if [ -n "$why" ]; then
    echo "skip pgbouncer: $why"
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
fi
"${MAKE:-make}" --no-print-directory -f tests/Makefile build/pg/pooled || exit 1
folder=$(mktemp -d "${TMPDIR:-/tmp}/msgstore_pooled.XXXXXX") && chmod 755 "$folder" || exit 1
poolers=
finish()
{
    # shellcheck disable=SC2086
    [ -z "$poolers" ] || kill $poolers 2>/dev/null
    for each in pg standby; do
        [ ! -d "$folder/$each/data" ] || bash $server stop "$folder/$each"
    done
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 1' INT TERM

PATH=$PATH:/usr/sbin
owner=$(id -un)
as_owner=
if [ "$(id -u)" -eq 0 ]; then
    owner=postgres
    as_owner="setpriv --reuid $owner --regid $(id -g $owner) --clear-groups"
fi

bash $server make "$folder/pg" fsync=off && bash $server copy "$folder/standby" "$folder/pg" ||
    exit 1
echo '"test" ""' >"$folder/users"
for name in session transaction session_standby transaction_standby; do
    mode=${name%_standby} host=pg
    [ "$mode" = "$name" ] || host=standby
    mkdir "$folder/$name" && chown "$owner" "$folder/$name" || exit 1
    cat >"$folder/$name.ini" <<END
[databases]
* = host=$folder/$host port=5432
[pgbouncer]
listen_addr =
listen_port = 5432
unix_socket_dir = $folder/$name
logfile = $folder/$name/log
auth_type = trust
auth_file = $folder/users
pool_mode = $mode
default_pool_size = 4
max_client_conn = 100
END
    # shellcheck disable=SC2086
    $as_owner pgbouncer -q "$folder/$name.ini" >/dev/null 2>&1 &
    poolers="$poolers $!"
    for _ in $(seq 100); do
        [ ! -S "$folder/$name/.s.PGSQL.5432" ] || break
        sleep 0.05
    done
    [ -S "$folder/$name/.s.PGSQL.5432" ] || { tail "$folder/$name/log"; exit 1; }
done

pgbouncer --version | head -n 1
PG_SERVER=$server build/pg/pooled "$folder" >"$folder/output" 2>&1
status=$?
[ "$status" -eq 0 ] || grep -v 'RUN ' "$folder/output" | tail -n 60
echo "$(grep -c '^\[       OK \]' "$folder/output") passed," \
    "$(grep '^\[  FAILED  \] [a-z]' "$folder/output" | sort -u | wc -l) failed, 0 skipped"
exit "$status"
