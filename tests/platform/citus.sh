#!/usr/bin/env bash
# The store over Citus: a coordinator and two workers of this script's own, in a temporary
# folder, on sockets. The tables are distributed by bucket, see backends/README.md.
#
#   tests/platform/citus.sh                 all of it
#   tests/platform/citus.sh routing|suites  a part: which shards each operation asks and
#                                           what happens when a worker is killed
#                                           (tests/platform/citus/citus.c); or the suites
#                                           that hold for every store
#
# MS_TEST_SCALE=n percent of the long loops (1); CITUS_ROUNDS=n kills of a worker (4);
# CITUS_SUITES='twin find' only these suites; CITUS_SOURCE=path as of
# tests/platform/citus/build.sh. Where Citus cannot be had, the script prints "skip" and
# why. The last line counts: "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../.." || exit 1
build=tests/platform/citus/build.sh
server=tests/platform/postgres/server.sh

skip()
{
    echo "skip citus: $1"
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
}

sh tools/setup.sh postgres || exit 1
why=$(bash $server able)
[ -n "$why" ] || why=$(bash $build able)
[ -z "$why" ] || skip "$why"
sh tools/setup.sh citus || exit 1
bash $build make || { echo '0 passed, 1 failed, 0 skipped'; exit 1; }
"${MAKE:-make}" --no-print-directory -f tests/Makefile -j"${JOBS:-2}" citus-tests || exit 1

folder=$(mktemp -d "${TMPDIR:-/tmp}/msgstore_citus.XXXXXX") && chmod 755 "$folder" || exit 1
finish()
{
    for each in c w1 w2; do
        [ ! -d "$folder/$each/data" ] || bash $server stop "$folder/$each"
    done
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 1' INT TERM
PG_BIN=$(bash $build stage "$folder/root") || exit 1
PG_SERVER=$server
export PG_BIN PG_SERVER

PGOPTIONS='-c client_min_messages=error'
export PGOPTIONS
sql() { "$PG_BIN/psql" -X -q -v ON_ERROR_STOP=1 -h "$folder/$1" -U test postgres -c "$2"; }

# Servers that forget when the power fails. Transactions that a killed worker has left
# prepared hold their locks until they are ended, after five seconds.
for name in c w1 w2; do
    bash $server make "$folder/$name" shared_preload_libraries=citus fsync=off \
        full_page_writes=off synchronous_commit=off autovacuum_naptime=20s \
        max_locks_per_transaction=256 max_prepared_transactions=200 \
        "citus.local_hostname=$folder/$name" citus.node_conninfo=sslmode=prefer \
        citus.shard_count=8 citus.recover_2pc_interval=5s citus.log_remote_commands=on \
        log_min_messages=notice || exit 1
    sql $name 'create extension citus' || exit 1
done
for name in w1 w2; do
    sql c "select citus_add_node('$folder/$name', 5432)" >/dev/null || exit 1
done

passed=0 failed=0
# run NAME COMMAND...: one line, when it is over; of a failure the end of its output.
run()
{
    local name=$1 start=$SECONDS log=$folder/output
    shift
    if "$@" >"$log" 2>&1; then
        printf '%-28sok      %s s\n' "$name" $((SECONDS - start))
        passed=$((passed + 1))
    else
        printf '%-28sFAILED  %s s\n' "$name" $((SECONDS - start))
        failed=$((failed + 1))
        grep -v ' OK \]\|RUN ' "$log" | tail -n 80
        return
    fi
    [ "$name" != routing ] || grep -v '^\[' "$log"
}

routing() { run routing build/pg/citus "$folder" "${CITUS_ROUNDS:-4}"; }

suites()
{
    sql c 'alter system set citus.log_remote_commands = off'
    sql c 'select pg_reload_conf()' >/dev/null
    MS_TEST_PG=$(bash $server url "$folder/c")
    export MS_TEST_PG MS_TEST_CITUS=1
    for suite in ${CITUS_SUITES:-twin memory find}; do
        MS_TEST_SCALE=${MS_TEST_SCALE:-1} run "test_$suite" "build/pg/test_$suite"
    done
}

echo "Citus $(bash $build version), $("$PG_BIN/postgres" --version)"
for part in ${*:-routing suites}; do $part; done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
