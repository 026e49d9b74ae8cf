#!/usr/bin/env bash
# The plan of every statement that a client sends, at a store that is not small: a statement
# that names its bucket reads rows of one partition, by an index, and few of them; the
# others are those of a list. A statement of the header that was not sent is an error.
# Then what 50 waiters cost an appender.
#
#   tests/platform/postgres/plans.sh FOLDER PROGRAM [MESSAGES [TEST ...]]
#
# PROGRAM is build/pg/plans. MESSAGES: 200,000; with fewer the planner reads tables whole.
# PLANS=all prints all statements with their largest numbers of rows.
set -u
folder=$1 program=$2 messages=${3:-200000}
shift 2
shift
tests=" ${*:-plans waiters} "
server=tests/platform/postgres/server.sh
mkdir -p "$folder/plans_out"
failed=0
fail()
{
    echo "ERROR: $1"
    failed=1
}

bash $server make "$folder/plans" autovacuum=off synchronous_commit=off fsync=off \
    shared_buffers=256MB max_wal_size=4GB || exit 1
url="host=$folder/plans user=test dbname=postgres"
explain="options='-csession_preload_libraries=auto_explain -cauto_explain.log_analyze=on
 -cauto_explain.log_min_duration=0 -cauto_explain.log_timing=off'"
log=$folder/plans/log

# Prints for each statement: partitions of the records that were read, rows that were read
# or passed over, whether a table was read whole, and the text.
statements()
{
    awk '
    function end() {
        if (text == "") return
        n++
        count[text]++
        np = 0
        for (p in parts) np++
        if (np > most_parts[text]) most_parts[text] = np
        if (rows > most_rows[text]) most_rows[text] = rows
        if (whole > was_whole[text]) was_whole[text] = whole
    }
    / plan:$/ { end(); text = ""; rows = whole = 0; split("", parts); next }
    /^\tQuery Text: / { text = substr($0, 14); next }
    !/^\t/ { end(); text = ""; next }
    /never executed/ || text == "" { next }
    / (Scan|Scan Backward|Scan using [a-z0-9_]*|Scan Backward using [a-z0-9_]*) on msgstore_record/ {
        match($0, /msgstore_record_[0-9]+/)
        parts[substr($0, RSTART, RLENGTH)] = 1
        if ($0 ~ /Seq Scan on/) whole = 1
    }
    / Scan/ && /msgstore_record|_idx/ {
        if (match($0, /actual rows=[0-9]+ loops=[0-9]+/)) {
            split(substr($0, RSTART + 12, RLENGTH - 12), a, / loops=/)
            rows += a[1] * a[2]
        }
    }
    /Rows Removed by/ { rows += $NF }
    END {
        end()
        for (t in count)
            printf "%d\t%d\t%d\t%s\n", most_parts[t], most_rows[t], was_whole[t], t
    }' "$log" | sort -t "	" -k 2,2nr
}

# Statements that are for all buckets. The others must name theirs.
for_all()
{
    case $1 in
    'select coalesce(sum(stored)'* | 'select max(newest) from msgstore_bucket' | \
        'select (select max(last) from msgstore_bucket)' | \
        'select count(*), coalesce(max(last)'* | 'update msgstore_bucket set last = greatest(last, $1'* | \
        'select location, null::text, n, first'* | 'select max(version)'* | \
        'select prefix, before from msgstore_retired' | 'insert into msgstore_retired'* | \
        'select pg_advisory_lock_shared('* | 'unlisten'* | \
        'begin;'* | 'select set_config('* | 'select count(*) from pg_catalog'* | 'select (extract(epoch'* | \
        'select seq, place from msgstore_record where kind = 1 and seq >= $1::bigint order'* | \
        '(select kind, type, location, until, body, place from msgstore_record where seq = $1::bigint and kind = 1 order'* | \
        'select seq, place, body from msgstore_record where true and kind in'* | \
        'select seq, place, body from msgstore_record where true and place < $1::bigint and kind in'* | \
        'select seq, place, body from msgstore_record where true and place < $1::bigint and seq > $2::bigint and kind in'* | \
        'select seq, place, body from msgstore_record where true and place < $1::bigint and seq < $2::bigint and kind in'*) return 0 ;;
    esac
    return 1
}

# Prints the statements of the header, each on a line: all of one, or how it begins. They
# are the literals of the implementation that begin with a word of SQL, with the macros
# in them expanded; but for those that make and migrate the tables.
written()
{
    printf '#include "%s"\n' msgstore.h backends/msgstore_postgres.h |
        ${CC:-cc} -E -P -x c -DMSGSTORE_POSTGRES_IMPLEMENTATION -I. -isystem \
            "$(pg_config --includedir 2>/dev/null || echo /usr/include/postgresql)" - |
        perl -0777 -ne '
            s/ms__pg_(create|migrations)\[\] = \{.*?\};//gs;
            while (/((?:"(?:[^"\\]|\\.)*"\s*)+)/g) {
                my $text = join "", $1 =~ /"((?:[^"\\]|\\.)*)"/g;
                next if $text !~ /^(begin;|\(?(select|with|update|insert|delete)) ./;
                $text =~ s/%[du].*//;
                print "$text\n";
            }' | sort -u
}

# Statements that the program does not send, and where they are sent.
elsewhere()
{
    case $1 in
    # of several servers (test_twin, three servers)
    'select count(*) from (select 1' | 'select bucket, last from msgstore_bucket') ;;
    # where the tables are made
    'insert into msgstore_bucket'* | 'select pg_advisory_xact_lock('*) ;;
    "select count(*) from pg_catalog.pg_class where oid = to_regclass('msgstore_schema')") ;;
    # with row-level security (faults, a_tenant_has*)
    'select r.n, r.n - coalesce(l.n'* | 'select c.relname::text, current_user'*) ;;
    'select row_security_active('*) ;;
    # of a replica (test_twin, a standby)
    'select r.r::int, case when r.r'*) ;;
    *) return 1 ;;
    esac
}

plans()
{
    "$program" fill "$url" "$messages" || fail 'the store is not filled'
    psql -q "$url" -c 'vacuum analyze'
    : >"$log"
    "$program" run "$url $explain" || fail 'a statement fails'
    statements >"$folder/plans_out/all"
    [ "${PLANS:-}" != all ] || cat "$folder/plans_out/all"
    written >"$folder/plans_out/written"
    while IFS= read -r text; do
        cut -f 4- "$folder/plans_out/all" | grep -qF "$text"
        case $?$(elsewhere "$text" && echo ' elsewhere') in
        0 | '1 elsewhere') ;;
        0*) fail "is sent here, too: $text" ;;
        *) fail "was not sent: $text" ;;
        esac
    done <"$folder/plans_out/written"
    n=$(wc -l <"$folder/plans_out/written")
    echo "tally: statements of the header $n"
    [ "$n" -ge 60 ] || fail "$n statements are found in the header"
    n=0
    while IFS='	' read -r parts rows whole text; do
        n=$((n + 1))
        [ "$whole" = 0 ] || fail "reads a table of records whole: $text"
        for_all "$text" && continue
        case $text in
        *'bucket = $'* | *'bucket = any($'* | *'bucket = u.bucket'* | *'bucket = k.bucket'*) ;;
        *) fail "names no bucket: $text" ;;
        esac
        case $text in *'r.bucket = k.bucket'* | *'b.bucket = u.bucket ret'*) ;;
        *) [ "$parts" -le 1 ] || fail "reads $parts partitions: $text" ;;
        esac
        case $text in # a later page of a team sorts what its agents wrote there
        *'place < $1'*'agent = any('*) continue ;;
        esac
        case $text in # a page of facts, twice; of shipped ones more
        *'(facts'* | *'set facts'*) [ "$rows" -le 400 ] || fail "reads $rows rows: $text" ;;
        esac
        [ "$rows" -le 6000 ] || fail "reads $rows rows: $text"
    done <"$folder/plans_out/all"
    echo "tally: statements whose plans were looked at $n"
    [ "$n" -ge 100 ] || fail "$n statements"
}

for each in plans waiters; do
    case $tests in *" $each "*) ;; *) continue ;; esac
    case $each in
    plans) plans ;;
    *) "$program" "$each" "$url" || fail "$each" ;;
    esac
done
bash $server stop "$folder/plans"
exit $failed
