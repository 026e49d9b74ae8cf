#!/usr/bin/env bash
# The store over PostgreSQL: the suites that hold for every store, over one server and
# over three; then faults (tests/platform/postgres/faults.c), and ship and fetch of the
# tool. The servers are this script's own, in a temporary folder, and are gone at the end.
#
#   tests/platform/postgres.sh              all of it, in less than 5 minutes
#   tests/platform/postgres.sh suites|sharded|replica|faults|plans|tool|fleet|rounds|example
#
# MS_TEST_SCALE=n percent of the long loops; PG_ROUNDS=n rounds of faults (3);
# PG_MESSAGES=n messages to ship (20,000). PG_PERCENT=n percent of what these three are
# by default (100); at least one round. PG_ROWS=n messages of the store whose plans are
# looked at (200,000). ROUNDS=n rounds of faults while logs are shipped, SEED=n; without
# ROUNDS four, of which none begins after 40 s. Where no server can run the script prints "skip"
# and why. The last line counts: "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../.." || exit 1
server=tests/platform/postgres/server.sh
why=$(bash $server able)
if [ -n "$why" ]; then
    echo "skip postgres: $why"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
folder=$(mktemp -d "${TMPDIR:-/tmp}/msgstore_pg.XXXXXX") && chmod 755 "$folder" || exit 1
failed=0

# part_of N: PG_PERCENT of it, rounded up.
part_of()
{
    echo $((($1 * ${PG_PERCENT:-100} + 99) / 100))
}

finish()
{
    for each in "$folder"/*/ "$folder"/round*/*/; do
        [ ! -d "$each/data" ] || bash $server stop "$each"
    done
    hosts_end
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 1' INT TERM

# run NAME COMMAND...: one line, when it is over.
run()
{
    name=$1
    shift
    start=$(date +%s)
    log=$(mktemp "$folder/log.XXXXXX")
    if "$@" >"$log" 2>&1; then
        grep -h '^tally\|^skip' "$log" >>"$folder/tally"
        echo "passed $name" >>"$folder/results"
        printf '%-28sok      %s s\n' "$name" $(($(date +%s) - start))
    else
        printf '%-28sFAILED  %s s\n' "$name" $(($(date +%s) - start))
        grep -v '^ok \| OK \]\|RUN ' "$log" >"$log.short"
        sed -n 1,25p "$log.short" # what failed first, and the sum
        sed 1,25d "$log.short" | tail -n 25
        echo "failed $name" >>"$folder/results"
        failed=1
    fi
}

# A server that forgets when the power fails: what these suites test is not the disk.
quick()
{
    bash $server make "$folder/$1" fsync=off full_page_writes=off \
        synchronous_commit=off autovacuum_naptime=20s max_locks_per_transaction=256
}

compiled()
{
    echo '#include "msgstore.h"' >"$folder/both.c"
    echo '#include "backends/msgstore_postgres.h"' >>"$folder/both.c"
    if command -v x86_64-w64-mingw32-gcc >/dev/null; then # with the headers of libpq alone
        mkdir "$folder/pq"
        cp "$(pg_config --includedir 2>/dev/null || echo /usr/include/postgresql)"/{libpq-fe,postgres_ext,pg_config_ext}.h \
            "$folder/pq" || return 1
        x86_64-w64-mingw32-gcc -std=gnu99 -Wall -Wextra -Werror -I. -isystem "$folder/pq" \
            -DMSGSTORE_POSTGRES_IMPLEMENTATION -fsyntax-only "$folder/both.c" || return 1
    fi
    set -- -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wcast-qual \
        -Werror -DMSGSTORE_POSTGRES_IMPLEMENTATION -I. -isystem \
        "$(pg_config --includedir 2>/dev/null || echo /usr/include/postgresql)" \
        -fsyntax-only "$folder/both.c"
    ${CC:-cc} -std=c99 -D_POSIX_C_SOURCE=200809L -Wstrict-prototypes "$@" &&
        ${CXX:-g++} -x c++ -std=c++11 "$@"
}

suites()
{
    run 'C99, C++11, Windows' compiled
    run 'controls fit' bash tests/platform/postgres/controls.sh --fits
    quick suites || exit 1
    MS_TEST_PG=$(bash $server url "$folder/suites")
    export MS_TEST_PG
    # The twin compares 10,000 histories.
    MS_TEST_SCALE=${MS_TEST_SCALE:-$(part_of 100)} run test_twin build/pg/test_twin
    for suite in views change change_shared memory find copy session compact; do
        MS_TEST_SCALE=${MS_TEST_SCALE:-$(part_of 10)} \
            run "test_$suite" "build/pg/test_$suite"
    done
    bash $server stop "$folder/suites"
    unset MS_TEST_PG
}

# Readers use a standby, whatever was written just before.
replica()
{
    bash $server make "$folder/read1" fsync=off full_page_writes=off autovacuum_naptime=20s \
        max_locks_per_transaction=256 &&
        bash $server copy "$folder/read2" "$folder/read1" || exit 1
    MS_TEST_PG=$(bash $server url "$folder/read1")
    MS_TEST_PG_REPLICA=$(bash $server url "$folder/read2")
    export MS_TEST_PG MS_TEST_PG_REPLICA
    MS_TEST_SCALE=${MS_TEST_SCALE:-$(part_of 3)} \
        run 'test_twin, a standby' build/pg/test_twin
    for name in read1 read2; do bash $server stop "$folder/$name"; done
    unset MS_TEST_PG MS_TEST_PG_REPLICA
}

sharded()
{
    for name in s1 s2 s3; do quick $name || exit 1; done
    MS_TEST_PG=$(bash $server url "$folder/s1")
    MS_TEST_PG_2=$(bash $server url "$folder/s2")
    MS_TEST_PG_3=$(bash $server url "$folder/s3")
    export MS_TEST_PG MS_TEST_PG_2 MS_TEST_PG_3
    MS_TEST_SCALE=${MS_TEST_SCALE:-$(part_of 100)} \
        run 'test_twin, three servers' build/pg/test_twin
    MS_TEST_SCALE=${MS_TEST_SCALE:-$(part_of 10)} \
        run 'test_change, three servers' build/pg/test_change
    for name in s1 s2 s3; do bash $server stop "$folder/$name"; done
    unset MS_TEST_PG MS_TEST_PG_2 MS_TEST_PG_3
}

faults()
{
    PG_SERVER=$server run faults build/pg/faults "$folder" "${PG_ROUNDS:-$(part_of 3)}"
    ! mountpoint -q "$folder/full" 2>/dev/null || umount "$folder/full"
}

plans()
{
    run 'plans, waiters' bash tests/platform/postgres/plans.sh "$folder" \
        build/pg/plans "${PG_ROWS:-200000}"
}

tool()
{
    run 'ship and fetch' bash tests/platform/postgres/ship.sh "$folder" \
        "${PG_TOOL:-build/msgstore}" \
        "${PG_MESSAGES:-$(part_of 20000)}" "${PG_ROUNDS:-$(part_of 3)}"
}

fleet()
{
    run 'a fleet of logs' bash tests/platform/postgres/fleet.sh "$folder" \
        "${PG_TOOL:-build/msgstore}"
}

rounds()
{
    if ! command -v python3 >/dev/null; then
        echo 'skip shipping under faults: no python3' | tee -a "$folder/tally"
        echo 'skipped shipping under faults' >>"$folder/results"
        return
    fi
    [ -n "${ROUNDS:-}" ] || set -- --seconds 40
    run 'shipping under faults' python3 tests/platform/postgres/rounds.py "$folder" \
        "${PG_TOOL:-build/msgstore}" build/pg/writer --rounds "${ROUNDS:-4}" \
        --seed "${SEED:-20260101}" "$@"
}

# Three hosts in network namespaces: the server, and two that reach it alone.
network=ms_pg_$$
hosts()
{
    for host in server one two; do
        ip netns add $network$host && ip -n $network$host link set lo up || return 1
    done
    for n in 1 2; do
        host=$network$([ $n = 1 ] && echo one || echo two)
        ip link add eth0 netns "$host" type veth peer name eth$n netns ${network}server &&
            ip -n "$host" addr add 10.99.$n.2/24 dev eth0 &&
            ip -n "$host" link set eth0 up &&
            ip -n ${network}server addr add 10.99.$n.1/24 dev eth$n &&
            ip -n ${network}server link set eth$n up || return 1
    done
}

hosts_end() { for host in server one two; do ip netns del $network$host 2>/dev/null; done; }

# A manager and a worker share what is on the server; the worker is cut off for a while.
two_agents()
{
    ip netns exec ${network}one build/pg/shared_memory \
        'host=10.99.1.1 user=test dbname=postgres' worker >"$folder/worker" &
    worker=$!
    ip netns exec ${network}two build/pg/shared_memory \
        'host=10.99.2.1 user=test dbname=postgres' manager >"$folder/manager" &
    manager=$!
    sleep 0.2
    ip -n ${network}one link set eth0 down && sleep 1 && ip -n ${network}one link set eth0 up
    wait $manager && wait $worker || return 1
    grep -q "the worker says 'task 3 is done'" "$folder/manager"
}

example()
{
    if ! hosts >"$folder/hosts" 2>&1; then
        hosts_end
        echo 'skip two agents, one memory: no network namespaces here' | tee -a "$folder/tally"
        echo 'skipped two agents' >>"$folder/results"
        return
    fi
    ip netns exec ${network}server bash $server make "$folder/agents" \
        "listen_addresses=*" || exit 1
    run 'two agents, one memory' two_agents
    bash $server stop "$folder/agents"
    hosts_end
}

: >"$folder/tally"
: >"$folder/results"
running=0
over() { wait -n || failed=1; running=$((running - 1)); }
for part in ${*:-sharded suites replica faults plans tool fleet rounds example}; do
    [ $running -lt 2 ] || over
    (
        trap - EXIT
        $part
        exit "$failed"
    ) &
    running=$((running + 1))
done
while [ $running -gt 0 ]; do over; done
sort "$folder/tally" | uniq
count() { grep -c "^$1 " "$folder/results"; }
n_failed=$(count failed)
# A part that ended before it had a result has failed, too.
[ "$failed" -eq 0 ] || [ "$n_failed" -gt 0 ] || n_failed=1
echo "$(count passed) passed, $n_failed failed, $(count skipped) skipped"
exit "$failed"
