#!/usr/bin/env bash
# Negative controls of the store over PostgreSQL: each takes one defence out of a copy of
# the source, and a test must fail then. `make test-postgres` shows that it passes else.
#
#   tests/platform/postgres/controls.sh [NAME ...]       all controls, or those
#   tests/platform/postgres/controls.sh --fits           only: does each edit fit?
#
# A line "ok NAME: TEST failed as it must" or "FAIL NAME: why" for each. An edit that does
# not fit in exactly one place, or does not compile, is an error of the control.
set -u
cd "$(dirname "$0")/../../.." || exit 1
server=tests/platform/postgres/server.sh
fits=${1:-}
store=backends/msgstore_postgres.h
names=" $* "
passed=0 failed=0
[ "$fits" != --fits ] || names='  '
folder=$(mktemp -d "${TMPDIR:-/tmp}/msgstore_pgc.XXXXXX") && chmod 755 "$folder" || exit 1

stop_servers()
{
    for each in "$folder"/run/*/; do
        [ ! -d "$each/data" ] || bash $server stop "$each"
    done
    rm -rf "$folder/run"
    mkdir -m 755 "$folder/run"
}
trap 'stop_servers; rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM

tree=$folder/tree
if [ "$fits" != --fits ]; then
    why=$(bash $server able)
    [ -z "$why" ] || { echo "skip postgres controls: $why"; exit 0; }
    ${MAKE:-make} --no-print-directory build/pg/faults build/msgstore >/dev/null || exit 1
    mkdir "$tree"
    for each in *; do cp -a "$each" "$tree/"; done
fi

# edit FILE OLD NEW: OLD must stand once.
edit()
{
    OLD=$2 NEW=$3 perl -0777 -i -pe '
        my ($old, $new) = ($ENV{OLD}, $ENV{NEW});
        my $n = () = /\Q$old\E/g;
        die "the edit fits $n places, not one\n" if $n != 1;
        s/\Q$old\E/$new/' "$1"
}

run_test()
{
    case $1 in
    pooled) bash tests/platform/pgbouncer.sh ;;
    routing) CITUS_ROUNDS=1 bash tests/platform/citus.sh routing ;;
    ship) bash tests/platform/postgres/ship.sh "$folder/run" build/msgstore 20000 3 ;;
    rounds\ *) python3 tests/platform/postgres/rounds.py "$folder/run" build/msgstore \
        build/pg/writer --rounds 12 --stop --faults "${1#* }" ;;
    fleet\ *) bash tests/platform/postgres/fleet.sh "$folder/run" build/msgstore "${1#* }" ;;
    *) PG_SERVER=$server MS_TEST_ONLY=$1 build/pg/faults "$folder/run" 1 ;;
    esac
}

# control NAME TEST FILE OLD NEW
control()
{
    name=$1 test=$2 file=$3
    case $names in *" $name "* | "  ") ;; *) return ;; esac
    if [ "$fits" = --fits ]; then
        cp "$file" "$folder/edited"
        if edit "$folder/edited" "$4" "$5" 2>"$folder/log"; then
            passed=$((passed + 1))
        else
            echo "FAIL $name: $(head -n 1 "$folder/log")"
            failed=$((failed + 1))
        fi
        return
    fi
    target=build/pg/faults
    case $test in
    ship | fleet\ *) target=build/msgstore ;;
    rounds\ *) target="build/msgstore build/pg/writer" ;;
    pooled) target=build/pg/pooled ;;
    routing) target=build/pg/citus ;;
    esac
    stop_servers
    if ! (cd "$tree" && edit "$file" "$4" "$5" && ${MAKE:-make} --no-print-directory $target) \
        >"$folder/log" 2>&1; then
        echo "FAIL $name: $(grep -m 1 'places\|error' "$folder/log")"
        failed=$((failed + 1))
    elif (cd "$tree" && run_test "$test") >"$folder/log" 2>&1; then
        echo "FAIL $name: $test passes without it"
        failed=$((failed + 1))
    else
        echo "ok $name: $test failed as it must: $(grep -m 1 ERROR "$folder/log")"
        passed=$((passed + 1))
    fi
    cp -a "$file" "$tree/$file"
    touch "$tree/$file"
}

control key_is_made_once 'operations_happen_once*' $store \
    '    if (facts) {' \
    '    if (b->uncertain) ((unsigned char *)(uintptr_t)b->rows[0].key.ptr)[9]++;
    if (facts) {'
control key_is_sent 'operations_happen_once*' $store \
    'row->m->turn_id);
    ms__pg_bytea(&q, row->key);' 'row->m->turn_id);
    ms__pg_bytea(&q, ms_str_n(NULL, 0));'
control keys_are_looked_for 'operations_happen_once*' $store \
    '    if (!b->source.len || b->change_only || b->uncertain)
' '    if (b->change_only)
'
control number_is_the_counter 'a_follower_misses_nothing*' $store \
    'returning b.last * 1024 + $1::int as seq)' 'returning $2::bigint * 1024 + $1::int as seq)'
control counter_is_locked 'one_append_wins*' $store '" $1::int for update");' '" $1::int");'
control snapshot_is_compared 'one_append_wins*' $store \
    '" and last = (select last from msgstore_bucket where bucket = $1::int)"' '""'
control bucket_is_the_same_everywhere 'locations_have*' $store \
    '(h ^ (unsigned char)s.ptr[i])' '(h + (unsigned char)s.ptr[i])'
control row_is_in_its_bucket 'names_are_data*' $store \
    'row->bucket = ms_pg_bucket(row->location);' \
    'row->bucket = ms_pg_bucket(row->location) ^ 1u;'
control call_is_repeated 'a_cursor_goes_on*' $store \
    'if (!again || late) return code;' \
    'if (!again || attempt == 0) return code;'
control serialization_failure_is_repeated 'appends_are_repeated*' $store \
    '{"40", MS_E_BUSY, true,' '{"40", MS_E_BUSY, false,'
control refused_user_is_not_repeated 'opening_fails_at_once*' $store \
    ' && !strstr(text, ":  28P01: ")' ''
control missing_password_is_not_repeated 'opening_fails_at_once*' $store \
    ' &&
                  !PQconnectionNeedsPassword(line->conn)' ''
control refused_option_is_not_repeated 'opening_fails_at_once*' $store \
    ' !strstr(text, ":  42") &&' ''
control warnings_of_a_login_are_dropped 'warnings_of_a_login*' $store \
    'PQsetNoticeReceiver(line->conn, ms__pg_hush, NULL); /* also while it connects */' \
    '(void)ms__pg_hush;'
control warnings_after_a_silent_host_are_dropped 'warnings_of_a_login*' $store \
    'PQreset(line->conn);' \
    'PQfinish(line->conn), line->conn = PQconnectdbParams(names, values, 1);'
control last_refusal_is_kept 'a_client_waits*' $store \
    'before = *err;' 'before = *err, before.message[0] = 0;'
control version_is_checked 'opening_fails_at_once*' $store \
    'if (version == MS__PG_VERSION) return MS_OK;' 'if (version > 0) return MS_OK;'
control facts_are_entered 'facts_are_read*' $store \
    'if (code == MS_OK && b->facts_due && b->retired == 0)' 'if (false)'
control facts_begin_with_the_newest 'facts_are_read*' $store \
    'facts is not null order by place desc"' 'facts is not null order by place"'
control facts_are_entered_after_a_page 'facts_are_read*' $store \
    'count(*) > 61 or' 'count(*) > 610 or'
control facts_are_entered_after_their_bytes 'facts_are_read*' $store \
    'greatest(4096, max(most))' '4096000'
control facts_are_entered_where_they_were_read 'facts_are_whole*' $store \
    'and place < $4::bigint order by' 'and place < $4::bigint + 1000000 order by'
control facts_are_looked_at_when_shipped 'shipped_facts*' $store \
    'if (facts && n > 0) b->facts_due' 'if (facts && n < 0) b->facts_due'
control damaged_facts_are_passed_over 'damage_among*' $store \
    'if (code == MS_OK && c->from_facts) code' 'if (false) code'
control damage_is_not_entered 'damage_among*' $store \
    'MS__PG_TRY(ms_location_get(&reader.base, location, arena, &text, NULL));' \
    '(void)ms_location_get(&reader.base, location, arena, &text, NULL);'
control facts_rest_after_a_failure 'damage_among*' $store \
    's->facts_rest = s->facts_pause;' 's->facts_rest = 0;'
control data_is_shipped_first ship tools/cmd_ship.c \
    '    ms_result result = ms_pg_ship(s->to, source_of(s), &s->noted, s->rows' \
    '    s->at.message = s->rows[n - 1].seq;
    if (note_position(s) != FINE) return FAILED;
    ms_result result = ms_pg_ship(s->to, source_of(s), &s->noted, s->rows'
control facts_are_found_when_shipped 'what_was_shipped*' $store \
    'row->repeats = seq ? seq : place;' 'row->repeats = seq;'
control shipped_rows_have_keys ship $store \
    'if (b->source.len) return ms__pg_ship_keys' \
    'if (b->source.len && !s->process) return ms__pg_ship_keys'
control child_is_refused 'a_parent_reads_on*' $store \
    '    MS__PG_TRY(ms__pg_check(s, false, err));
    for (unsigned attempt' '    for (unsigned attempt'
control unanswered_append_is_in_doubt 'an_append_is_in_doubt*' $store \
    'if (line->sent && line->lost) b->unanswered = true;' ''
control place_is_of_the_bucket 'a_history_ends*' $store \
    'if (end < part->as_of) part->as_of = end;' \
    'if (part->as_of == (uint64_t)INT64_MAX) part->as_of = end;'
control waiter_compares_totals 'a_waiter_wakes_when_a_message*' $store \
    ' &&
                   now.messages + now.hidden == w->first.messages + w->first.hidden' ''
control listed_number_is_seen 'an_append_has_a_larger*' $store \
    '    if (out->count) ms__pg_saw(s, (int64_t)(out->items[0].last_seq / MS_PG_BUCKETS));
' ''
control stale_log_is_opened_again ship tools/cmd_ship.c \
    '!s->reopened && is_stale(s)' 's->reopened && is_stale(s)'
control follow_keeps_each_location ship tools/cmd_follow.c \
    'f->each = is_postgres(o->files[0]) && o->location == NULL;' 'f->each = false;'
control follow_looks_at_changes_of_each_location ship tools/cmd_follow.c \
    '&& f->changed && code == FINE' '&& false'
control sources_are_compared 'another_message*' $store \
    'if (!own && !PQgetisnull(r, 0, 5)) code = ms__pg_reused(&b, 0, err);' ''
control shipped_contents_are_compared 'another_message*' $store \
    '        return ms__pg_found_shipped(b, r, at, i, stored, err);
    if (row' '        return MS_OK;
    if (row'
control erased_is_not_equal_elsewhere 'another_message*' $store \
    'if (!own || changed ?' 'if (changed ?'
control position_is_compared 'a_position_moves*' $store \
    ' and message = $7::bigint"
                     " and changes = $8::bigint returning 1)' \
    ' and $7::bigint is not null"
                     " and $8::bigint is not null returning 1)'
control position_is_read_again 'fleet a_server_that_went_back_is_healed' tools/cmd_ship.c \
    'if (s->checked > 0 && clock_seconds()' 'if (s->checked > 0 || clock_seconds()'
control message_at_the_position_is_compared 'fleet numbers_used_before_stop_the_shipper' \
    tools/cmd_ship.c 'if (msg != NULL && !same) {' 'if (msg != NULL && s->at.mark == 1) {'
control changes_at_the_position_are_compared 'fleet changes_of_a_copy_stop_the_shipper' \
    tools/cmd_ship.c 'if (at.changes == s->at.changes && (*same || kept)) return' \
    'if (at.changes <= s->at.changes) return'
control what_a_redaction_keeps_is_compared 'fleet changes_of_a_copy_stop_the_shipper' \
    tools/cmd_ship.c '(erased && (uint32_t)*mark == (uint32_t)at.mark)' 'erased'
control changes_at_the_position_are_marked 'fleet changes_of_a_copy_stop_the_shipper' \
    tools/cmd_ship.c '    s->at.mark = mark_after(&s->at, s->at.mark, change);
' ''
control rows_come_after_the_position 'a_position_moves*' $store \
    'if (here) return MS_OK;' 'if (r) return MS_OK;'
control rounds_find_content_that_is_not_compared 'rounds keys of two hosts' $store \
    '    bool changed = (row->m->flags & (MS_FLAG_AMENDED' \
    '    if (row) return MS_OK;
    bool changed = (row->m->flags & (MS_FLAG_AMENDED'
control rounds_find_a_redaction_that_is_not_carried 'rounds redaction' $store \
    'return ms_redact(&s->base, e->seq, err);' 'return MS_OK;'
control rounds_find_what_is_not_counted 'rounds keys of two hosts' tools/cmd_ship.c \
    '    s->left_out++;
' ''
control rounds_find_a_stop_that_is_not_reported 'rounds copy of a log' tools/cmd_ship.c \
    's->halted ? ", stopped\n" : "\n"' '"\n"'
control forgotten_key_is_taken 'fleet a_forgotten_key_is_used_again' tools/cmd_ship.c \
    '        take_key(s, msg);' '        if (s == NULL) take_key(s, msg);'
control key_of_another_message_stays 'fleet a_forgotten_key_is_used_again' tools/cmd_ship.c \
    'MS_OK && same == NULL) {' 'MS_OK) {'
control keyed_messages_have_numbers 'fleet a_forgotten_key_is_used_again' $store \
    'bool numbered = row->kind == MS_KIND_MESSAGE &&' 'bool numbered = row->kind == MS_KIND_PART &&'
control replaced_log_is_no_conflict 'fleet a_compaction_amid_shipping_is_no_conflict' \
    tools/cmd_ship.c 's->checked > 0 && is_replaced(s)' 's->checked < 0 && is_replaced(s)'
control repeated_facts_are_left_out 'fleet repeated_facts_are_not_set_again' tools/cmd_ship.c \
    'bool repeats = ms_repeats_facts(change);' 'bool repeats = s == NULL && ms_repeats_facts(change);'
control compacted_facts_are_compared 'fleet facts_of_a_compacted_log_are_compared' \
    tools/cmd_ship.c 's->compacted && is_first(s, change)' \
    's->compacted && is_first(s, change) && change == NULL'
control removed_facts_are_shipped 'fleet facts_of_a_compacted_log_are_compared' \
    tools/cmd_ship.c '(f->at != HERE && is_kind' '(f->at != HERE || is_kind'
control only_the_first_facts_are_all 'fleet facts_of_a_compacted_log_are_compared' \
    tools/cmd_ship.c 's->compacted && is_first(s, change)' \
    's->compacted && (is_first(s, change) || change)'
control compacted_older_copy_stops 'fleet facts_of_a_compacted_log_are_compared' \
    tools/cmd_ship.c '    code = check_end(s);' '    code = s != NULL ? FINE : check_end(s);'
control hidden_may_be_erased 'fleet a_redacted_message_proves_nothing' tools/cmd_ship.c \
    '!= MS_OK ||
           (ms_flags' '== MS_OK &&
           (ms_flags'
control text_again_is_seen 'fleet an_earlier_text_comes_back' tools/cmd_ship.c \
    'if (is_text_again(s, change))' 'if (s == NULL && is_text_again(s, change))'
control text_again_has_another_key 'fleet an_earlier_text_comes_back' $store \
    'b->replaces ? 32 : 24' '24'
control only_durable_is_shipped 'fleet only_durable_records_are_shipped' tools/cmd_ship.c \
    '    if (s->durable) return false;' '    if (msg) return false;'
control lineage_is_the_source 'fleet a_compacted_log_goes_on' tools/cmd_ship.c \
    'ms_str_n((const char *)s->info.lineage, sizeof s->info.lineage);' \
    'ms_str_n((const char *)s->info.id, sizeof s->info.id);'
control replaced_log_is_opened 'fleet a_compacted_log_goes_on' tools/cmd_ship.c \
    's->info.replaced && access' 's->info.poisoned && access'
control new_logs_are_found 'fleet the_fleet_goes_on' tools/cmd_ship.c \
    'if (f->looked > 0 && clock' 'if (f->looked > 0 || clock'
control made_keys_are_compared 'appends_are_stored_when_another*' $store \
    'if (!b->unanswered || !ms__pg_is_mine(row, stored)) {' \
    'if (b->unanswered && !ms__pg_is_mine(row, stored)) {'
control kept_numbers_have_a_limit 'a_kept_number*' $store \
    'if (seq > MS__PG_KEPT_MOST) /* others' 'if (seq > INT64_MAX) /* others'
control migrations_are_under_the_lock 'tables_of_version_2*' $store \
    'if (code == MS_OK) code = ms__pg_migrate(line, err);' \
    'if (code == MS_OK && !s->process) code = ms__pg_migrate(line, err);'
control tables_of_0_2_0_are_not_migrated 'tables_of_version_1*' $store \
    'version < 2 || !create' 'version < 1 || !create'
control frozen_client_is_ended 'appends_go_on_when_a_client_is_frozen*' $store \
    'set idle_in_transaction_session_timeout = %d"' 'set work_mem = %d"'
control first_attempt_has_a_third 'no_call_fails*' $store \
    'line->deadline = ms__pg_now() + s->desc.timeout_ms / 3;' 'line->deadline = deadline;'
control connections_of_one_age_are_dropped 'no_call_fails*' $store \
    'if (!line->busy && line->conn) line->stale = true;' \
    'if (!line->busy && line->conn) line->stale = false;'
control kinds_let_the_index_be_used 'queries_of_a_location*' $store \
    '                              : " and kind in (";' \
    '                              : " and kind in (0, ";'
control name_is_tried_first 'fleet a_name_is_tried_first' tools/store.c \
    'if (name.len == 0 || !is_postgres' 'if (name.len != 0 || !is_postgres'
control idle_waiter_pauses 'an_idle_waiter*' $store \
    'pause = 2 * pause < longest ? 2 * pause : longest;' 'pause = 50;'
control append_is_entered 'a_listing_is_by*' $store \
    'newest = greatest(l.newest, excluded.newest),' 'newest = l.newest,'
control hide_is_entered 'a_listing_is_by*' $store \
    'update msgstore_location set n = n -"' 'update msgstore_location set n = n + 0 *"'
control waiter_listens_to_its_bucket 'a_waiter_of_a_location*' $store \
    'int bucket = w->location.len ? (int)ms_pg_bucket(w->location) : -1;' 'int bucket = -1;'
control notifications_have_listeners 'a_notification_is_sent*' $store \
    '"]) as b where not"' '"]) as b where true or"'
control listener_is_known 'a_notification_is_sent*' $store \
    'select pg_advisory_lock_shared(' 'select int4larger('
control no_place_is_missed 'a_waiter_of_a_location*' $store \
    '    *ended = place != w->place;' '    *ended = w->begun && place != w->place, w->begun = true;'
control lock_is_not_awaited_for_ever 'an_append_names*' $store \
    'set lock_timeout = %d"' 'set work_mem = %d"'
control locations_without_messages_are_migrated 'tables_of_version_2*' $store \
    '" max(place) as place from msgstore_record group' \
    '" max(place) as place from msgstore_record where kind = 1 group'
control retiring_has_a_fence 'retiring_waits*' $store \
    't->desc.dry_run ? MS_OK :' 't->desc.dry_run || t->s ? MS_OK :'
control rules_are_seen 'what_was_retired*' $store \
    '        if (row->retired) row->repeats = 1;' '        row->retired = false;'
control absent_facts_are_retired 'what_was_retired*' $store \
    'row->kind == MS_KIND_LOCATION) code = ms__pg_is_there' \
    'row->kind == MS_KIND_PART) code = ms__pg_is_there'
control hides_of_what_is_left_stay 'old_messages_go*' $store \
    ' m.bucket = $1::int and m.location = $2::text and m.kind = 1 and m.seq >= h.seq and"
    " m.seq <= h.upto)' ' m.bucket = $1::int and m.location = $2::text and m.kind = 1 and m.seq =" " h.seq)'
control facts_stay_with_a_message 'old_messages_go*' $store \
    'kind not in (4, 6) returning kind' 'kind not in (4, 5) returning kind'
control retired_is_entered 'old_messages_go*' $store \
    'least = (select seq from b), most' 'least = least, most'
control retiring_is_one_transaction 'retiring_goes_on*' $store \
    '    MS__PG_TRY(ms__pg_simple(line, "begin isolation level read committed", err));
    ms_result code = ms__pg_retire_locked' '    ms_result code = ms__pg_retire_locked'
control retired_change_is_accepted 'fleet what_is_retired_stays_away' $store \
    'if (*under) return MS_OK;' ''
control retired_is_counted 'fleet what_is_retired_stays_away' tools/cmd_ship.c \
    'count_retired(s, retired);
    if (result == MS_E_KEY_REUSED' 'if (result == MS_E_KEY_REUSED'
control totals_are_of_what_is_seen 'a_tenant_has*' $store \
    's->secured ? ms__pg_totals_seen' 's->secured && !s->process ? ms__pg_totals_seen'
control role_has_a_policy 'a_role_without*' $store \
    'if (active) MS__PG_TRY(ms__pg_need' 'if (!active) MS__PG_TRY(ms__pg_need'
control policy_is_of_the_role 'a_role_without*' $store \
    "pg_has_role(role, 'USAGE')" 'role > 0'
control own_writes_are_counted 'a_reader_has_its_own*' $store \
    's->servers[server].replica.answers++;' '(void)server;'
control old_marks_are_renewed 'a_reader_has_its_own*' $store \
    'ms__pg_now() - rep->reached.at <= (int64_t)s->desc.replica_lag_ms;' \
    'rep->reached.at > 0;'
control waiters_ask_the_primary 'a_reader_has_its_own*' $store \
    'MS__PG_TRY(ms__pg_sum(s, true, &now, err));' \
    'MS__PG_TRY(ms__pg_sum(s, false, &now, err));'
control position_of_the_replica_is_compared 'what_is_read_never*' $store \
    'if (now.lsn >= mark.lsn) break;' 'if (now.lsn >= 0) break;'
control promotion_is_noticed 'a_promoted_replica*' $store \
    'return strcmp(says, "on") == 0;' 'return true;'
control timeline_is_compared 'a_replica_of_another*' $store \
    'now.timeline != mark.timeline ||' ''
control tables_of_the_replica_are_compared 'readers_leave*' $store \
    'now.identity != mark.identity || ' ''
control failed_replica_is_not_an_error 'readers_go_on_when_a_replica*' $store \
    'return why == MS__PG_FITS ? MS_OK : ms__pg_ask_by(s, server, q, deadline, out, err);' \
    'return why == MS__PG_FITS ? MS_OK : why == MS__PG_AWAY ?
        MS_E_UNREACHABLE : ms__pg_ask_by(s, server, q, deadline, out, err);'
control reader_has_one_deadline 'a_reader_ends_in_time*' $store \
    'return why == MS__PG_FITS ? MS_OK : ms__pg_ask_by(s, server, q, deadline, out, err);' \
    'return why == MS__PG_FITS || deadline < 0 ? MS_OK : ms__pg_ask(s, server, q, out, err);'
control reader_keeps_its_replica 'readers_go_on_with_another*' $store \
    'if (!same || reader->instance != line->instance) {' 'if (!same) {'
control promoted_replica_is_left 'readers_go_on_with_another*' $store \
    'line->lost = true; /* another host' '/* another host'
control end_of_the_log_is_exact 'a_mark_has_the_end*' $store \
    '= 0 then 40 else 24 end' '= 0 then 40 else 40 end'
control crash_of_a_replica_is_noticed 'a_replica_that_has_crashed*' $store \
    'pg_stat_get_bgwriter_stat_reset_time()' 'pg_postmaster_start_time()'
control found_again_waits_for_the_standby 'what_is_found_again*' $store \
    'MS__PG_TRY(ms__pg_simple(line, "commit", err));' \
    'MS__PG_TRY(ms__pg_simple(line, some ? "commit" : "rollback", err));'
control one_server_of_two_is_known 'one_server_of_two*' $store \
    'f->foreign = f->n > 0 && f->n < MS_PG_BUCKETS;' ''
control migration_sees_all 'tables_are_migrated_whole*' $store \
    'MS__PG_TRY(ms__pg_simple(line, "begin isolation level read committed", err));
    code = ' 'MS__PG_TRY(ms__pg_simple(line, "begin", err));
    code = '
control encoding_is_asked 'a_prefix_is_found*' $store \
    'if (!s->reordered) end' 'end'
control sync_writes_the_log 'what_was_synced*' $store \
    '"begin; set local synchronous_commit = local; select' '"begin; select'
control left_out_number_is_bounded 'a_copy_is_refused*' $store \
    'if (seq > MS__PG_KEPT_MOST) /* as of' 'if (false) /* as of'
control idle_connections_are_found 'idle_connections*' $store \
    'now - line->at >= idle_ms;' 'now - line->at < 0;'
control waiter_is_not_idle 'idle_connections*' $store \
    'bool idle = !line->busy && line->conn' \
    'bool idle = (!line->busy || line == &s->listener) && line->conn'
control position_of_another_role_is_a_conflict 'a_tenant_has*' $store \
    'from->message == 0 && from->changes == 0 && now.message == 0 && now.changes == 0' 'false'
control positions_have_a_tenant 'a_tenant_has*' backends/tenant.sql \
    'using (tenant = current_user)' 'using (true)'
control changes_have_the_prefix 'fleet a_prefix_keeps_hosts_apart' tools/cmd_ship.c \
    'if (result == MS_OK) result = record_there(s, msg, &arena, &msg, err);' ''
control fetched_names_have_no_prefix 'fleet a_prefix_keeps_hosts_apart' tools/cmd_fetch.c \
    '        copy.location = f->name;
' ''
control left_out_is_counted_again 'fleet status_and_metrics_name_what_waits' tools/cmd_ship.c \
    's->at.left_out = s->at.retired = 0; /*' 's->at.retired = 0; /*'
control status_notes_no_position 'fleet status_and_metrics_name_what_waits' tools/cmd_ship.c \
    's->checked > 0 && !count) code = note' 's->checked > 0) code = note'
control compared_file_is_noted 'fleet status_and_metrics_name_what_waits' tools/cmd_ship.c \
    'moved = true; /* the file' '(void)0; /* the file'
control fetch_ends_its_notes ship tools/cmd_fetch.c \
    'if (result == MS_OK) result = read;' '(void)read;'
control interrupted_run_is_an_error ship tools/cmd_ship.c \
    'if (code == FINE) code = FAILED;' ''
control interruption_before_damage_is_told ship tools/cmd_ship.c \
    'stopped && !s->complete && !s->halted;' \
    'stopped && !s->complete && !s->halted && s->code == FINE;'
control interruption_of_the_begin_is_told ship tools/cmd_ship.c \
    'bool interrupted = stopped && f.looked <= 0;' 'bool interrupted = false;'
control passed_damage_is_counted ship tools/cmd_ship.c \
    's->at.left_out += passed - s->passed;' ''
control damage_at_the_end_is_met_again ship tools/cmd_ship.c \
    'it.damaged > s->tail ? it.damaged - s->tail : 0' 'it.damaged'
control what_is_no_log_is_passed_over_aloud ship tools/cmd_ship.c \
    'if (f->looked <= 0 && passed > 0) {' 'if (false) {'
control empty_logs_are_no_copies ship tools/cmd_ship.c \
    '!other->open || is_empty(s) ||' '!other->open ||'
control fetch_is_into_a_new_log ship tools/cmd_fetch.c \
    'if (stat.last_seq == 0) return FINE;' 'if (stat.last_seq + 1 > 0) return FINE;'
control refused_name_is_shipped_alone ship tools/cmd_ship.c \
    'result == MS_E_TOO_LARGE || result == MS_E_ARGUMENT) {' 'result == MS_E_TOO_LARGE) {'
control released_connection_is_closed pooled $store \
    'if (line->lost || s->desc.release ||' 'if (line->lost ||'
control released_connection_is_quiet pooled $store \
    'if (s->desc.release && !line->lost) (void)' 'if (false) (void)'
control promotion_is_asked_through_a_pooler pooled $store \
    'if (says && !line->no_prepare) return' 'if (says) return'
control promotion_before_a_connection_is_noticed pooled $store \
    'if (line->promoted) return false;' 'if (false) return false;'
control nothing_is_prepared pooled $store \
    'if (!line->no_prepare) MS__PG_TRY' 'if (true) MS__PG_TRY'
if [ "$fits" = --fits ] || [ -z "$(bash tests/platform/citus/build.sh able)" ]; then
    control node_errors_are_repeated routing $store \
        'if (line->routed && (strcmp' 'if (false && (strcmp'
    control shipped_message_is_on_one_shard routing $store \
        'a where a.bucket = $2::int and"' 'a where a.bucket = r.bucket and"'
else
    echo 'skip controls of Citus: it cannot be had here'
fi
echo "tally: negative controls $passed"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
