#!/usr/bin/env bash
# Starts a server with its defaults (synchronous_commit=on) in BENCH_DIR, measures the store
# over PostgreSQL beside statements by hand, and stops the server.
#
#   bench/postgres.sh [SECONDS [ROWS]]
#
# SECONDS of each measurement (2); ROWS in the tables before the first one (0).
set -u
cd "$(dirname "$0")/.." || exit 1
server=tests/platform/postgres/server.sh
why=$(bash $server able)
[ -z "$why" ] || { echo "skip: $why"; exit 0; }
folder=$(mktemp -d "${BENCH_DIR:-/tmp}/bench_pg.XXXXXX") && chmod 755 "$folder" || exit 1
trap 'bash $server stop "$folder/server"; rm -rf "$folder"' EXIT
bash $server make "$folder/server" ${PG_SETTINGS:-shared_buffers=256MB \
    max_wal_size=4GB} || exit 1
echo "PostgreSQL $(psql -V | sed 's/.*) //'), $(nproc) cores, $(uname -m), $(df --output=fstype "$folder" | tail -n 1)"
build/bench_postgres "$(bash $server url "$folder/server")" "${1:-2}" "${2:-0}"
