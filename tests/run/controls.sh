#!/usr/bin/env bash
# Negative controls: is each defence guarded by a test that notices when it is gone?
#
#   tests/run/controls.sh [NAME ...]        all controls, or those
#   tests/run/controls.sh --fits [NAME ...] does each edit fit its file? Builds nothing
#   tests/run/controls.sh --edits           "NAME SUITE FUNCTION ...": what each one edits
#                                           in the header
#
# A control is a copy of msgstore.h in build/controls/NAME in which one defence is taken
# out (of msgstore_ffi.h, where a function is named ms_ffi__...), and the test that has to
# fail then. First the same test must pass with the header
# as it is. Then it must fail with the copy: by its own assertion, by a crash, or by a
# sanitizer's report in it. A copy that cannot be built, an edit that does not fit in
# exactly one place of its function, a program that has to be stopped and a failure of any
# other test are errors of the control.
#
# controls_tool.sh has the controls of the command line tool and of the bindings. They edit
# copies of other files (FILE:FUNCTION), and have two variants of their own: tool, whose
# test is of a suite of tests/tool, and python, of bindings/python/tests.
#
# A line "ok NAME: TEST failed as it must", "FAIL NAME: why" or "skip NAME: why", when the
# test says why it is left out, for each; a control without one has failed. At the end
# "tally: negative controls N" and "N passed, N failed"; where any are left out also "tally:
# negative controls skipped N" and ", N skipped". Edits are of the implementation alone:
# tests that do not take it in are compiled once and linked to each copy.
#
# JOBS=n controls at a time (2); CONTROL_LIMIT=n seconds until a program is stopped (60).
# CONTROL_SAMPLE=n about so many controls instead of all, other ones each day.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/run/suites.sh
. tests/run/controls_tool.sh
out=build/controls
limit=${CONTROL_LIMIT:-60}
jobs=${JOBS:-2}
warnings=-w # what an edit leaves unused is no matter here
flags="-std=c99 -g $warnings -pthread"
stb=$(STB_INC="${STB_INC:-}" sh tools/setup.sh stb)
packages="cmocka jansson libcjson sqlite3"
# shellcheck disable=SC2086
includes=$(pkg-config --cflags-only-I $packages 2>/dev/null | sed 's/-I/-isystem /g')
# shellcheck disable=SC2086
libraries=$(pkg-config --libs $packages 2>/dev/null || \
    echo -lcmocka -ljansson -lcjson -lsqlite3)

# ---- editing

# edit FILE FUNCTION OLD NEW: replaces OLD, which must stand once in the function of that
# name (in all of its versions together). In Python a function goes on to the next one, or
# to the next line that is not indented.
edit()
{
    local python=
    case $1 in *.py) python=yes ;; esac
    PYTHON=$python FUNCTION=${2##*:} OLD=$3 NEW=$4 awk '
        function opens(line,    at) {
            at = index(line, name)
            return at > 1 && substr(line, at - 1, 1) !~ /[A-Za-z0-9_]/
        }
        function swap(text,    at, done) {
            while ((at = index(text, old)) > 0) {
                places++
                done = done substr(text, 1, at - 1) new
                text = substr(text, at + length(old))
            }
            return done text
        }
        BEGIN {
            name = ENVIRON["FUNCTION"] "("; old = ENVIRON["OLD"]; new = ENVIRON["NEW"]
            python = ENVIRON["PYTHON"]
        }
        python && (/^ *(async )?(def|class) / || /^[^ #)]/) {
            printf "%s", swap(body)
            body = ""
            where = index($0, "def " name) > 0
        }
        python && where { body = body $0 "\n"; next }
        python { print; next }
        where == 2 { # its body
            if ($0 != "}") { body = body $0 "\n"; next }
            printf "%s}\n", swap(body)
            where = 0
            next
        }
        where == 0 && /^[A-Za-z]/ && opens($0) { where = 1 }
        where == 1 && $0 == "{" { where = 2; body = ""; print; next }
        where == 1 && /}$/ { print swap($0); where = 0; next }
        where == 1 && /;$/ { where = 0 } # declared, not defined
        { print }
        END {
            if (python) printf "%s", swap(body)
            if (places == 1) exit 0
            printf "the edit of %s fits %d places, not one\n", \
                ENVIRON["FUNCTION"], places >"/dev/stderr"
            exit 1
        }' "$1" >"$1.edited" && mv "$1.edited" "$1"
}

# edited FOLDER FUNCTION: the file in a copied tree that defines a function.
edited()
{
    case $2 in
    *:*) echo "$1/${2%:*}" ;;
    ms_ffi_*) echo "$1/bindings/msgstore_ffi.h" ;;
    *) echo "$1/msgstore.h" ;;
    esac
}

# copy_headers FOLDER: what the edits of a control are made in.
copy_headers()
{
    mkdir -p "$1/bindings" && cp msgstore.h "$1/" &&
        cp bindings/msgstore_ffi.h "$1/bindings/"
}

# copy_edited VARIANT FOLDER [FUNCTION OLD NEW ...]: copies the files that a control edits.
copy_edited()
{
    local variant=$1 folder=$2
    shift 2
    case $variant in
    tool)
        mkdir -p "$folder/tools" || return 1
        while [ $# -ge 3 ]; do
            cp "${1%:*}" "$folder/tools/" || return 1
            shift 3
        done
        ;;
    python)
        mkdir -p "$folder/bindings/python" &&
            cp -R bindings/python/msgstore "$folder/bindings/python/"
        ;;
    *) copy_headers "$folder" ;;
    esac
}

# ---- building

# How a variant is compiled and run.
compiler_of()
{
    case $1 in
    gcc) echo "${CC:-cc} $flags -O0" ;;
    san) echo "${CLANG:-clang} $flags -O0 -fsanitize=address,undefined" \
        "-fno-sanitize-recover=all -fno-omit-frame-pointer" ;;
    tsan) echo "${CLANG:-clang} $flags -O0 -fsanitize=thread -DMSGSTORE_NO_FORMATS" ;;
    esac
}

# compile VARIANT FOLDER SOURCE OBJECT: with the header of that folder.
# shellcheck disable=SC2046,SC2086
compile()
{
    $(compiler_of "$1") $(steps_flag "$3") -I"$2" -I. -Itests/support $stb $includes \
        -c -o "$4" "$3"
}

# build VARIANT FOLDER PROGRAM: links FOLDER/VARIANT-PROGRAM.
# shellcheck disable=SC2046,SC2086
build()
{
    local object=$out/base/$1-$3.o library= source
    case $1 in
    tool) build_tool "$2" "$3"; return ;;
    python) : >"$2/python-$3"; return ;; # its library is that of all
    esac
    source=$(suite_file "$3")
    if takes_in "$source"; then
        object=$2/$1-$3.o
        compile "$1" "$2" "$source" "$object" || return 1
    else
        library=$2/$1-msgstore.o
        [ -f "$library" ] ||
            compile "$1" "$2" tests/support/msgstore_impl.c "$library" || return 1
        [ -f "$object" ] ||
            compile "$1" "$out/base" "$source" "$object" || return 1
    fi
    $(compiler_of "$1") -o "$2/$1-$3" "$object" $library "$out/base/only.o" $libraries -lm
}

# prepare VARIANT: what its copies share.
prepare()
{
    copy_edited "$1" "$base" || return 1
    case $1 in
    tool) make_tool -j"$jobs" build/msgstore ;;
    python) make_library ;;
    *) compile "$1" "$base" tests/support/msgstore_impl.c "$base/$1-msgstore.o" ;;
    esac
}

# ---- running

# limit_of VARIANT: the suites of the tool run all tests before theirs.
limit_of()
{
    [ "$1" = tool ] && echo $((limit * 10)) || echo "$limit"
}

# run VARIANT PROGRAM-FILE TEST SCALE OUTPUT: only that test; the status is the program's.
# shellcheck disable=SC2086
run()
{
    local under=
    case $1 in
    tool | python) run_"$1" "$@"; return ;;
    esac
    if [ "$1" != gcc ] && setarch "$(uname -m)" -R true 2>/dev/null; then
        under="setarch $(uname -m) -R"
    fi
    # in a shell of its own: what it says of a program that aborts goes to OUTPUT, too
    (TSAN_OPTIONS=halt_on_error=1:symbolize=0 MS_TEST_ONLY="$3*" MS_TEST_SCALE=$4 \
        timeout -k 5 "$limit" $under "$2") >"$5" 2>&1 </dev/null
}

# failed_in TEST OUTPUT STATUS: did just that test fail?
failed_in()
{
    grep -qaF "[  FAILED  ] $1" "$2" && return 0
    # ended in it: it was begun, and neither passed nor was left out
    [ "$3" -ne 0 ] && grep -aE '^\[ RUN      \] |^\[       OK \] |^\[  SKIPPED \] ' "$2" |
        tail -n 1 | grep -qF "[ RUN      ] $1"
}

# ---- one control

base=$out/base

# baseline VARIANT PROGRAM TEST SCALE: builds and runs it with the header as it is. What it
# said is kept: the same test is asked for by many controls.
baseline()
{
    local run=$base/$1-$2-${3//\//.}-$4
    local said=$run.said output=$run.log
    [ ! -f "$said" ] || return 0
    [ -f "$base/$1-$2" ] || build "$1" "$base" "$2" >"$output" 2>&1 || {
        echo "its program cannot be built with the header as it is, see $output" >"$said"
        return 0
    }
    if ! run "$1" "$base/$1-$2" "$3" "$4" "$output"; then
        echo "$3 does not pass with the header as it is, see $output" >"$said"
    elif grep -qaE '^skipped: .|^skip .' "$output"; then
        echo "skip $(grep -aE '^skipped: .|^skip .' "$output" | head -n 1)" >"$said"
    elif grep -qaF '[  SKIPPED ]' "$output"; then
        echo "$3 is left out and does not say why, see $output" >"$said"
    elif ! grep -qaF "[       OK ] $3" "$output"; then
        echo "$2 has no test of the name $3" >"$said"
    else
        : >"$said"
    fi
}

# say RESULT NAME TEXT
say()
{
    echo "$1 $2: $3" | tee "$out/$2.result"
}

# control NAME VARIANT PROGRAM TEST SCALE FUNCTION OLD NEW [FUNCTION OLD NEW ...]
control()
{
    local name=$1 variant=$2 program=$3 test=$4 scale=$5 folder=$out/$1 said status=0
    case $step in
    list) echo "$name $variant $program" && return ;;
    edits)
        case $variant in tool | python) return ;; esac
        printf '%s %s' "$name" "$program"
        shift 5
        while [ $# -ge 3 ]; do printf ' %s' "$1" && shift 3; done
        echo
        return
        ;;
    fits)
        [ -z "$wanted" ] || [[ " $wanted " == *" $name "* ]] || return 0
        shift 5
        has_test "$variant" "$program" "$test" ||
            { echo "FAIL $name: $program has no test of the name $test" && return; }
        [ $# -ge 3 ] && [ $(($# % 3)) -eq 0 ] ||
            { echo "FAIL $name: of FUNCTION OLD NEW one is missing" && return; }
        copy_edited "$variant" "$out/fits" "$@"
        while [ $# -ge 3 ]; do
            edit "$(edited "$out/fits" "$1")" "$1" "$2" "$3" 2>"$out/fits/log" ||
                { echo "FAIL $name: $(cat "$out/fits/log")" && return; }
            shift 3
        done
        echo "ok $name: fits"
        return
        ;;
    base)
        [ "$variant:$program" = "$wanted" ] && grep -q "^$name " "$out/chosen" &&
            baseline "$variant" "$program" "$test" "$scale"
        return
        ;;
    one) [ "$name" = "$wanted" ] || return 0 ;;
    esac
    shift 5
    said=$base/$variant-$program-${test//\//.}-$scale.said
    if [ ! -f "$said" ]; then
        say FAIL "$name" "$test was not tried with the header as it is" && return
    fi
    said=$(cat "$said")
    case $said in
    '') ;;
    skip*) say skip "$name" "${said#skip }" && return ;;
    *) say FAIL "$name" "$said" && return ;;
    esac
    rm -rf "$folder"
    copy_edited "$variant" "$folder" "$@"
    while [ $# -ge 3 ]; do
        if ! edit "$(edited "$folder" "$1")" "$1" "$2" "$3" 2>"$folder/log"; then
            say FAIL "$name" "$(tail -n 1 "$folder/log")" && return
        fi
        shift 3
    done
    if ! build "$variant" "$folder" "$program" >"$folder/log" 2>&1; then
        say FAIL "$name" "the copy cannot be built: $(grep -m 1 error "$folder/log")"
        return
    fi
    run "$variant" "$folder/$variant-$program" "$test" "$scale" "$folder/log" || status=$?
    rm -rf "$folder/$variant-$program" "$folder/msgstore" "$folder"/*.o "$folder/tool"
    if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
        say FAIL "$name" "$test had to be stopped after $(limit_of "$variant") s"
    elif [ "$status" -eq 0 ]; then
        say FAIL "$name" "$test of $program does not notice"
    elif ! failed_in "$test" "$folder/log" "$status"; then
        say FAIL "$name" "$program failed elsewhere than in $test, see $folder/log"
    else
        say ok "$name" "$test failed as it must"
    fi
}

# ---- the controls: what is taken out, and who has to notice

controls()
{
    # What makes bytes durable, and tells so in the right order.

    control log_not_synced gcc test_power nothing_durable_is_lost_when_power_is_lost 20 \
        ms__os_sync_done 'int code = os->sync(os->ctx, file);' 'int code = 0;'
    control superblock_not_synced gcc test_power \
        nothing_durable_is_lost_when_power_is_lost 40 \
        ms__super_durable \
        'if (failed == 0) failed = ms__os_sync_done(log->os, log->file.handle);' ''
    control superblock_synced_by_each_opening gcc test_log_writers \
        a_log_is_opened_without_a_sync_when_its_superblock_was_synced 100 \
        ms__super_synced 'return ms__writer_decode(&w, h) &&' 'return !log &&'
    control line_of_another_file_believed gcc test_log_writers \
        a_copy_of_a_log_that_was_never_synced_is_synced 100 \
        ms__super_synced 'w.device == log->file.stat.device &&' 'w.device == w.device ||'
    control each_append_not_synced gcc test_log_writers each_append_syncs_in_mode_each 100 \
        ms__sync_due 'if (log->opts.sync == MS_SYNC_EACH) return true;' \
        'if (log->opts.sync == MS_SYNC_EACH) return false;'
    control name_of_a_new_log_not_synced gcc test_log_sync \
        a_new_log_keeps_its_name_when_power_is_lost 100 ms__super_durable \
        'if (failed == 0 && folder)' 'if (false)'
    control name_of_a_log_not_synced gcc test_log_sync \
        a_log_keeps_its_name_when_its_creator_synced_nothing 100 \
        ms__log_folder_now 'ms__os_folder_done(log->os, &log->opts.alloc, log->file.path)' \
        '0'
    control name_of_a_rewrite_not_synced gcc test_log_sync \
        a_rewrite_keeps_its_place_when_power_is_lost 100 \
        ms_log_rewrite 'ms__folder_sync(ms__log_of(fresh)->os, real)' '0'
    control rewrite_not_synced gcc test_power \
        nothing_durable_is_lost_when_power_is_lost_in_a_rewrite 100 \
        ms__rewrite_sync 'ms_result code = ms_sync(fresh, NULL, err);' \
        'ms_result code = MS_OK; (void)fresh;'
    control checkpoint_of_a_rewrite_not_synced gcc test_log_sync \
        a_new_file_proves_all_its_bytes_when_a_rewrite_ends 100 \
        ms__log_sync_now 'if (failed == 0 && code == MS_OK && confirm)' \
        'if (failed == 0 && code == MS_OK && confirm && !log)'
    control damage_beside_a_redaction_not_reported gcc test_log_recover \
        a_redaction_reports_a_damaged_record_when_it_passes_one_over 100 \
        ms__redact_erase 'if (end == MS_OK && stat.damaged == 0 && (!MS__LOG || whole))' ''
    control owner_and_permissions_lost gcc test_log_place \
        permissions_stay_when_a_log_is_rewritten_in_place 100 \
        ms__rewrite_place 'if (w->old && os->access_like) {' 'if (false) {'
    control header_at_the_watermark_overlooked gcc test_log_recover \
        new_appends_stay_when_the_watermark_is_inside_of_a_record 100 \
        ms__record_walk_skip 'if (!sized && limit - from >= MS__HEADER)' \
        'if (!sized && limit - from >= MS__HEADER + 8)'
    control damaged_summary_hides gcc test_log_index \
        a_conversation_stays_when_index_records_are_damaged 100 \
        ms__summary_find 'if (!s->filters) return UINT32_MAX;' 'if (!s->filters) return 0;'
    control damage_counted_at_each_retry gcc test_log_state \
        damage_is_counted_once_when_a_refresh_fails_after_it 100 \
        ms__apply_visible 's.at : offset;' 's.at : log->end;'
    control zeros_at_the_end_salvaged_as_none gcc test_log_recover \
        damage_is_reported_by_salvage_when_the_last_durable_message_became_zeros 100 \
        ms__log_attach_content 'if (dead > visible) visible = dead;' \
        'if (salvage) visible = dead;'
    control damage_of_a_derived_index_not_reported gcc test_log_index \
        damage_is_reported_when_a_message_and_its_index_are_damaged 100 \
        ms__segment_lost 'return l->damaged_ranges;' 'return l->own ? 0 : l->damaged_ranges;'
    control times_skip_changes gcc test_change \
        raw/raw_queries_return_changes_when_times_exclude_their_segment 100 \
        ms__log_run '(li->list & 7) != MS__P_CHANGE &&' ''
    control damaged_filter_hides gcc test_log_index \
        a_conversation_stays_when_index_records_are_damaged 100 \
        ms__summary_find 'place)) return UINT32_MAX;' 'place)) return 0;'
    control erased_meanwhile_taken_for_synced gcc test_log_sync \
        an_erasure_is_synced_again_when_it_came_while_ 100 ms__durable_move \
        'if (log->durable.syncing && end > log->durable.erased) end = log->durable.erased;' ''
    control zeros_ahead_that_failed_ignored gcc test_log_recover \
        appends_go_on_when_there_is_room_again 100 \
        ms__log_allocate 'code = ms__log_zero(log, from > clear ? from : clear, goal);' \
        '(void)ms__log_zero(log, from > clear ? from : clear, goal);'
    control blocks_of_a_copy_stored_to gcc test_log_recover \
        an_append_finds_no_room_when_zeros_cannot_be_written_ahead 100 \
        ms__writer_prepare 'failed = ms__blocks_own(log);' '(void)ms__blocks_own;'
    control holes_of_a_file_overlooked gcc test_log_place \
        holes_of_a_file_are_filled_when_it_is_opened 100 ms__os_stat \
        'room < out->size ? out->size - room : 0' '0'
    control large_holes_mapped gcc test_log_place \
        a_file_with_large_holes_is_written_by_calls 100 ms__holes_fill \
        'if (failed != 0 || holes > MS__HOLES_MOST)' 'if (failed != 0)'
    control limit_of_the_process_overlooked gcc test_log_place \
        a_log_is_full_when_the_process_may_not_write_that_far 100 ms__os_allocate \
        'limit.rlim_cur != RLIM_INFINITY &&' 'false &&'
    control bytes_written_again_beyond_a_limit gcc test_log_place \
        a_limit_of_the_process_is_a_code_when_bytes_are_written_again 100 \
        ms__os_may_write 'return ms__os_no_allocate(code) ? 0 : code;' 'return 0;'
    control superblock_not_allocated gcc test_log_state \
        a_log_is_written_by_calls_when_its_superblock_cannot_be_allocated 100 \
        ms__log_attach_file 'log->writer && !fresh && !holes)' 'false)'
    control holes_mapped_on_a_full_disk gcc test_log_state \
        a_log_is_full_when_its_holes_cannot_be_filled 100 ms__holes_fill \
        '(full && size > MS__SUPER_SIZE)' 'false'
    control page_of_the_end_not_allocated gcc test_log_state \
        pages_that_are_stored_to_are_allocated_as_a_whole 100 ms__room_fill \
        'log->end & ~(uint64_t)4095;' 'log->end;'
    control room_read_before_it_is_allocated gcc test_log_state \
        bytes_after_the_end_are_allocated_before_they_are_read 100 ms__writer_prepare \
        'MS__TRY(ms__room_fill(log, err));' ''
    control replaced_reader_not_told gcc test_log_place \
        a_reader_learns_that_another_process_has_replaced_its_file 100 ms__log_catch_up \
        'return ms__reader_replaced(log, err);' 'return MS_OK;'
    control replaced_shared_writer_not_told gcc test_log_place \
        a_reader_learns_that_another_process_has_replaced_its_file 100 ms__log_catch_up \
        'log->writer && !log->opts.shared' 'log->writer'
    control open_reading_ends_with_its_file gcc test_log_place \
        a_reading_goes_on_when_its_file_is_replaced 100 ms__log_query \
        'if (it->query.as_of == 0) ' ''
    control shared_opening_loses_its_lock gcc test_log_state \
        shared_opening_does_not_lose_its_lock_when_it_prepares_the_file 100 \
        ms__log_file_open 'ms__log_hold(log);' ''
    control reader_told_of_a_running_copy gcc test_log_writers \
        a_reader_is_not_told_before_its_file_is_replaced 100 ms__reader_replaced \
        '!log->recovery.reported && !ms__log_in_place(log)' '!log->recovery.reported'
    control folder_of_a_link_synced gcc test_log_sync \
        durable_messages_stay_when_a_log_was_created_through_a_symbolic_link 100 \
        ms__os_folder_done 'ms__folder_sync(os, real)' 'ms__folder_sync(os, path)'
    control link_replaced_by_a_rewrite gcc test_log_place \
        a_rewrite_through_a_symbolic_link_replaces_the_file 100 ms__rewrite_place \
        'os->rename(os->ctx, w->part, w->path)' 'os->rename(os->ctx, w->part, w->to.path)'
    control link_removed gcc test_log_place \
        a_symbolic_link_stays_when_a_log_cannot_be_made 100 ms__log_remove \
        'log->os->remove(log->os->ctx, real)' 'log->os->remove(log->os->ctx, log->file.path)'
    control long_names_not_shortened gcc test_log_place \
        a_log_is_compacted_when_its_name_is_long 100 ms__path_kept \
        'if (n - *name <= MS__NAME_MOST - more) return n;' 'return n;'
    control long_names_taken_for_one gcc test_log_place \
        a_log_is_compacted_when_its_name_is_long 100 ms__path_beside \
        'ms__hash(key, 0, path + name, n - name)' 'n'
    control long_name_cut_in_a_character gcc test_log_place \
        torn_bytes_are_kept_when_the_name_of_a_log_is_long 100 ms__path_kept \
        'while (n > *name &&' 'while (false &&'
    control torn_epoch_left gcc test_log_recover \
        damage_is_reported_when_the_epoch_of_a_writer_is_torn 100 \
        ms__writer_prepare 'if (failed != 0) /* it may be torn' 'if (false) /* it may be torn'
    control map_where_no_room_is_kept gcc test_log_state \
        log_is_written_by_calls_when_its_file_system_keeps_no_room 100 \
        ms__log_file_once 'map = map && log->file.stat.keeps_room &&' 'map = map &&'
    control unsynced_of_this_boot_taken_for_durable gcc test_log_sync \
        what_was_not_synced_is_not_reported_durable_when_its_writer_was_killed 100 \
        ms__log_attach_content '!same && !salvage ? proven : 0' '!salvage ? proven : 0'
    control old_file_of_a_rewrite_not_synced gcc test_log_sync \
        a_rewrite_loses_nothing_when_it_is_killed_before_its_name_is_durable 100 \
        ms__log_sync_bytes 'code == MS_OK ? ms__log_disk(log, true) : 0;' '0;'
    control folder_of_an_unsure_rewrite_not_synced gcc test_log_sync \
        a_new_file_reports_what_both_files_have_when_its_source_is_poisoned 100 \
        ms__rewrite_finish 'if (w->own && !w->unsure && *copied == MS_OK) return MS_OK;' \
        'return MS_OK;' \
        ms__log_sync_bytes 'ms__log_rewrite_range(log, poisoned ? NULL : err);' 'MS_OK;'
    control lost_record_left_unsynced gcc test_log_lost \
        a_lost_record_is_durable_when_the_folder_could_not_be_opened_before_it 100 \
        ms__log_sync_now 'if (!apart) MS__TRY(ms__log_folder_now(log, false, err));' ''
    control two_syncs_of_a_file gcc test_rewrite \
        threads_append_and_read_while_the_file_is_replaced 100 \
        ms__log_sync_bytes 'ms__log_await_sync(log);' ''
    control name_of_another_log_not_synced gcc test_log_sync \
        a_new_file_is_durable_with_its_name_when_it_takes_the_place_of_another_log 100 \
        ms__rewrite_finish 'if (w->own && !w->unsure' 'if (!w->unsure'
    control name_of_a_damaged_log_not_synced gcc test_log_sync \
        a_new_file_is_durable_with_its_name_when_its_source_is_damaged 100 \
        ms__rewrite_finish '!w->unsure && *copied == MS_OK)' '!w->unsure)'
    control name_of_a_replaced_file_not_synced gcc test_log_sync \
        a_new_file_is_durable_with_its_name_when_its_writer_was_poisoned 100 \
        ms__log_sync_now 'if (!apart) MS__TRY(ms__log_folder_now(log, false, err));' ''
    control durable_end_of_a_rewrite_overtaken gcc test_log_sync \
        a_new_file_has_all_that_is_durable_when_the_source_synced_after_the_copy 100 \
        ms__rewrite_covers 'durable <= w->covered' 'true'
    control name_of_a_new_file_not_synced gcc test_power \
        nothing_durable_is_lost_when_power_is_lost_in_a_rewrite 100 \
        ms__rewrite_place 'fresh->file.folder_synced = false;' ''
    control batch_of_a_rewrite_torn gcc test_log_sync \
        the_last_batch_of_a_rewrite_is_whole_when_power_is_lost 100 \
        ms__copy_since '& MS_FLAG_COMMIT ? ms__copy_batch(c, err) : MS_OK;' \
        '| 1 ? ms__copy_batch(c, err) : MS_OK;'
    control lineage_dropped_by_a_rewrite gcc test_rewrite \
        lineage_is_kept_by_rewrites_and_beside_damage 100 \
        ms__rewrite_lineage 'memcpy(fresh->id.lineage, from->lineage, 16);' ''
    control lost_lineage_not_said_by_a_rewrite gcc test_rewrite \
        lineage_that_is_damaged_in_both_places_is_reported_until_a_rewrite 100 \
        ms__rewrite_finish '*copied == MS_OK && w->unknown' 'false'
    control lost_lineage_counts_as_the_id gcc test_rewrite \
        lineage_that_is_damaged_in_both_places_is_reported_until_a_rewrite 100 \
        ms__super_lineage_get 'if (zeros && ' 'if ('
    control lost_lineage_not_in_the_verdict gcc test_rewrite \
        lineage_that_is_damaged_in_both_places_is_reported_until_a_rewrite 100 \
        ms__log_verify 'report->lineage_damaged = ' '(void)'
    control lineage_not_taken_from_the_copy gcc test_rewrite \
        lineage_is_kept_by_rewrites_and_beside_damage 100 \
        ms__super_lineage_get 'i < 2' 'i < 1'
    control source_of_a_rewrite_not_marked gcc test_rewrite \
        threads_append_and_read_while_the_file_is_replaced 100 \
        ms__rewrite_finish 'if (w->own) MS__TRY(ms__hold_mark(w, 1, err));' ''
    control rest_of_a_rewrite_left_out gcc test_log_sync a_reader_notices_the_new_file 100 \
        ms__rewrite_finish 'MS__TRY(ms__rewrite_copy(w, 0, 0, &end, &upto, err));' ''
    control redaction_marked_before_a_sync gcc test_log_recover \
        a_redaction_marks_nothing_before_it_is_durable 100 \
        ms__redact_all 'MS__TRY(ms_sync(store, NULL, err));' ''
    control one_look_at_a_redacted_body gcc test_log_durable \
        a_reader_finds_no_damage_when_another_process_redacts 100 \
        ms__whole_at 'tries < MS__CHECK_TRIES' 'tries < 1'
    control late_note_redacted gcc test_log_recover \
        a_redaction_leaves_a_note_alone_that_comes_in_between 100 \
        ms__redact_all 'q.as_of = now.as_of;' ''
    control dead_bytes_of_a_refused_append_left gcc test_log_recover \
        what_a_refused_append_has_stored_is_zeroed_by_the_next_one 100 \
        ms__log_put 'ms__log_dead(log, offset + size);' ''
    control damage_of_the_tail_unreported gcc test_silent \
        every_call_says_it_when_a_message_of_the_open_part_is_damaged 100 ms__core_open \
        'ms__damage_report(it);' ';'
    control number_in_a_hole_not_found gcc test_silent \
        every_call_says_it_when_a_message_of_the_open_part_is_damaged 100 ms__seek \
        'ms__tail_lost(t, before, (uint32_t)f.place, seq)' 'false'
    control damage_before_the_newest_reported gcc test_silent \
        every_call_says_it_when_a_message_of_the_open_part_is_damaged 100 ms__damage_report \
        'if (merge->full) from' 'if (false) from'
    control names_of_a_queue_not_compared gcc test_log_cursor \
        names_are_kept_apart_when_their_lists_have_one_number 100 ms__queue_own \
        'return false;' 'return true;'
    control names_of_a_run_not_compared gcc test_log_cursor \
        names_are_kept_apart_when_their_lists_have_one_number 100 ms__list_iter_own \
        'ms__msg(r))) return false;' 'ms__msg(r))) return true;'
    control one_name_counted_as_another gcc test_log_cursor \
        names_are_kept_apart_when_their_lists_have_one_number 100 ms__list_iter_counts \
        'if (li->agent & MS__FOR_COMPARE) return 1;' ''
    control damaged_first_record_proves_a_run gcc test_log_cursor \
        names_are_kept_apart_when_records_beside_them_are_damaged 100 ms__queue_check \
        'it->damaged++;' '{
            it->damaged++;
            ms__list_iters(it)[q->which[at]].proven = (uint32_t)(q->place[at] >> 32) + 1;
        }'
    control run_alone_goes_on gcc test_related \
        notes_of_a_message_are_those_of_the_list 100 ms__next_run \
        'if (li->agent & MS__FOR_ALONE) return false;' ''
    control note_after_the_opening_shown gcc test_related \
        notes_are_those_of_the_opening_when_more_come 100 ms__next_note \
        'if (n->place < from || n->place >= to) continue;' ''
    control notes_remembered_beside_damage gcc test_related \
        damage_is_reported_again_when_it_was_reported_before 100 ms__notes_read \
        'w.damaged + w.reading.damaged_ranges + w.reading.damaged_records > 0' 'false'
    control facts_remembered_beside_damage gcc test_related \
        damage_is_reported_again_when_it_was_reported_before 100 ms__facts_of \
        'remembers && code == MS_OK && !more.ptr' 'remembers && !more.ptr'
    control facts_of_a_fork_remembered gcc test_related \
        facts_are_the_last_values_when_they_are_read_between 100 ms__facts_of \
        'code == MS_OK && !more.ptr' 'code == MS_OK'
    control facts_read_from_a_later_place gcc test_related \
        facts_are_the_last_values_when_they_are_read_between 100 ms__facts_known \
        'x->folded.upto = f->upto;' 'x->folded.upto = f->upto + 64;'
    control union_of_one_store_less gcc test_ffi union_reads_its_stores_one_after_another 100 \
        ms_ffi_union 'members.n_stores = n_stores;' 'members.n_stores = n_stores > 1;'
    control empty_location_is_all_of_them gcc test_ffi empty_location_selects_nothing 100 \
        ms_ffi__parse '&& f->location.len == 0' '&& f->location.len > 9999'
    control usage_that_failed_has_no_name gcc test_ffi \
        usage_without_room_is_an_error_that_names_it 100 \
        ms_ffi__noted 'code != MS_OK && stored' 'false'
    control damage_of_the_whole_log_in_a_page gcc test_ffi \
        results_say_how_much_is_damaged 100 ms_ffi__messages 'if (image &&' 'if ('
    control notes_of_another_kind_are_read gcc test_ffi notes_of_a_message_are_read 100 \
        ms_ffi__notes '!kind.ptr || ms_str_equal' 'true || ms_str_equal'
    control verify_loses_the_sentence_of_an_opening gcc test_ffi \
        verify_of_a_log_that_cannot_be_opened_is_an_error_with_its_sentence 100 \
        ms_ffi__verify ' && report.end > 0' ''
    control backup_replaces_a_log gcc test_ffi store_is_backed_up_and_goes_on 100 \
        ms_ffi__backup '&to, false,' '&to, true,'
    control all_facts_written_over_others gcc test_related \
        all_facts_are_refused_when_some_were_set_meanwhile 100 ms__facts_check \
        'if (!late) return MS_OK;' 'return MS_OK;'
    control all_facts_written_over_those_of_a_writer gcc test_related \
        all_facts_are_refused_when_another_writer_set_some 100 ms__facts_check \
        'n - 1)) >= upto)' 'n - 1)) >= upto + 1000)'
    control all_facts_written_in_a_new_segment gcc test_related \
        all_facts_are_refused_when_some_were_set_meanwhile 100 ms__facts_check \
        'upto < ms__place(t->segment, 0)' 'false'
    control all_facts_written_over_a_hole gcc test_related \
        all_facts_are_refused_when_some_were_set_meanwhile 100 ms__facts_check \
        't->holes[i].unit) >= upto' 't->holes[i].unit) < upto'
    control change_of_facts_taken_for_a_repetition gcc test_related \
        removed_facts_stay_removed_when_all_are_written 100 ms_repeats_facts \
        '== MS__FACTS_ALL' '!= 0'
    control repeated_facts_copied_as_changes gcc test_rewrite \
        repeated_facts_do_not_become_changes_of_the_new_file 100 ms__copy_since \
        'if (repeats) return MS_OK;' 'if (repeats && !c) return MS_OK;'
    control all_facts_written_beside_damage gcc test_related \
        all_facts_are_not_written_beside_damage 100 ms__facts_all \
        'MS__TRY(ms__facts_read_back(x->store, x->location, &f, NULL));' \
        '(void)ms__facts_read_back(x->store, x->location, &f, NULL);'
    control known_facts_added_to_all gcc test_related \
        facts_are_the_last_values_when_they_are_read_between 100 ms__facts_read_back \
        'else if (!all) code' 'else code'
    control facts_read_back_to_the_first gcc test_growth \
        'facts after many changes' 10 ms__facts_read_back \
        '== MS__FACTS_ALL;' '== MS__FACTS_ALL && n == 0;'
    control facts_after_notes_not_remembered gcc test_growth 'facts after many notes' 10 \
        ms__facts_keep ' && !distant' ''
    control notice_taken_by_a_refused_change gcc test_rewrite \
        reader_hears_of_a_new_file_after_a_change_that_it_may_not_make 100 \
        ms__log_facts 'if (f->set && !log->writer) return false;' ''
    control all_facts_never_written gcc test_growth 'facts after many changes' 10 \
        ms__facts_budget 'return x->left == 0;' \
        'if (x->left == 0) x->left = ms__facts_room(0); return x->first;'
    control facts_lost_that_are_too_large gcc test_related \
        facts_are_whole_when_all_are_too_large_for_a_record 100 ms__facts_set_in \
        'code = ms__facts_put(&x, all, MS__FACTS_ALL, x.upto, NULL);' \
        'return ms__facts_put(&x, all, MS__FACTS_ALL, x.upto, err);'
    control record_of_two_lists_comes_twice gcc test_views \
        queries_views_and_listings_equal_those_of_a_twin 100 ms__queue_next \
        'if (q->place[at] == merge->last_place) continue;' ''
    control ready_record_of_two_lists_comes_twice gcc test_views \
        queries_views_and_listings_equal_those_of_a_twin 100 ms__queue_settle \
        'place == last ||' ''
    control names_of_ready_records_not_compared gcc test_log_cursor \
        names_are_kept_apart_when_their_lists_have_one_number 100 ms__queue_settle \
        '(uint32_t)(place >> 32) + 1 != iters[q->which[at]].proven' 'false'
    control index_whole_before_its_last_block gcc test_log_index \
        messages_stay_when_a_block_of_their_index_is_damaged 100 ms__block_note \
        'if (n == last' 'if (true || n == last'
    control unknown_segment_passed_over gcc test_log_segments \
        runs_found_beforehand_are_those_of_lookups 100 ms__runs_keep \
        'li->all_found = i == n;' 'li->all_found = true;'
    control runs_found_passed_over gcc test_log_segments \
        runs_found_beforehand_are_those_of_lookups 100 ms__runs_pass \
        '|| li->found < li->n_found' ''
    control skipped_run_read_again gcc test_log_segments \
        run_found_beforehand_is_taken_only_where_it_still_holds 100 ms__run_found \
        'if (s->backward ? segment >= li->from : segment < li->from) continue;' ''
    control run_found_in_another_list gcc test_log_segments \
        run_found_beforehand_is_taken_only_where_it_still_holds 100 ms__run_found \
        'ms__segment_list(l, list) == li->list &&' ''
    control runs_found_of_another_step gcc test_log_segments \
        run_found_beforehand_is_taken_only_where_it_still_holds 100 ms__run_found \
        '&& kept[MS__RUNS_SOON] == li->soon' ''
    control ready_messages_of_a_ring_outlive_it gcc test_ring \
        the_newest_end_when_messages_are_dropped 100 ms__ring_query \
        'it->history.each = true;' ''
    control ring_of_a_history_is_forgotten gcc test_ring \
        the_newest_end_when_messages_are_dropped 100 ms__step_open \
        'MS__SMALL || h->each ||' 'MS__SMALL ||'
    control step_read_ahead_again gcc test_log_segments \
        a_step_is_read_ahead_once_when_a_log_was_written_session_by_session 100 \
        ms__segment_walk 'now == ms__load32(&l->ahead)' 'false'
    control damaged_hiding_shows_what_it_hid gcc test_silent \
        what_a_damaged_change_was_about_is_not_shown 100 ms__shown_at \
        'ms__withheld(c, ms_seq(ms__msg(r)), now)' 'false'
    control damaged_changes_of_a_tail_not_held gcc test_silent \
        what_a_damaged_change_was_about_is_not_shown 100 ms__edits_load \
        'ms__edits_hold_tail(log, c, location);' ''
    control damaged_changes_without_memory_not_counted gcc test_log_segments \
        damaged_change_is_reported_when_there_is_no_memory_to_hold_it 100 \
        ms__edits_hold_tail 'c->damaged++;' ''
    control lost_changes_of_a_tail_not_counted gcc test_silent \
        a_lost_change_of_the_open_part_is_reported_in_the_segments_before_it 100 \
        ms__edits_hold_tail 'if (h->kind != 0 &&' 'if (h->kind == 0 ||'
    control edits_kept_beside_later_damage gcc test_silent \
        a_damaged_change_is_reported_to_a_reader_who_knows_those_before_it 100 \
        ms__holes_add 'ms__edits_forget(log);' ';'
    control damaged_record_made_valid_by_erasing gcc test_silent \
        a_redaction_makes_no_damaged_record_valid 100 \
        ms__log_erase 'if (code == MS_OK && !holds)' 'if (false)'
    control damaged_change_counted_twice gcc test_silent \
        damage_that_may_be_a_change_is_counted_once_whatever_the_limit 100 \
        ms__damage_report 'if (s->unsure) s->damaged_ranges--;' ''
    control damaged_change_of_those_before_it gcc test_silent \
        damage_that_may_be_a_change_is_counted_once_whatever_the_limit 100 \
        ms__list_iter_shown 'li->place < c->damaged_to' 'c->damaged > 0'
    control damaged_record_keeps_the_others gcc test_silent \
        a_redaction_erases_what_is_whole_beside_a_damaged_record 100 \
        ms__redact_erase 'if (MS__LOG && code == MS_E_DAMAGED)' 'if (false)'
    control damaged_record_not_told_of_a_redaction gcc test_silent \
        a_redaction_erases_what_is_whole_beside_a_damaged_record 100 \
        ms__redact_erase ' && (!MS__LOG || whole)' ''
    control missed_index_renumbers_what_is_known gcc test_silent \
        a_reader_who_missed_a_damaged_index_opens_the_log_again 100 \
        ms__apply_segment 'if (!fits && log->map.super_now)' \
        'if (!fits && log->map.super_now && seg->number <= t->segment)'
    control damaged_changes_of_a_segment_not_held gcc test_silent \
        what_a_damaged_change_was_about_is_not_shown 100 ms__list_walk_step \
        'ms__walk_hold(core, s, li, r);' 'true;'
    control damage_under_an_amendment_unreported gcc test_silent \
        a_replaced_message_that_is_damaged_is_reported 100 ms__merge_step \
        'if (broken || !whole)' 'if (!whole)'
    control listing_without_a_name_unreported gcc test_silent \
        a_listing_that_lacks_a_location_says_it 100 ms__naming_entry \
        'if (!last || !first) n->damaged = true;' ''
    control damage_of_another_location_reported gcc test_silent \
        every_call_says_it_when_a_message_of_the_open_part_is_damaged 100 ms__hole_concerns \
        'if (where != 0 && hole->where != where) return false;' ''
    control unknown_damage_unreported gcc test_silent \
        a_change_whose_header_is_damaged_is_reported 100 ms__hole_concerns \
        'if (hole->kind == 0) return true;' 'if (hole->kind == 0) return false;'
    control damaged_key_stored_again gcc test_silent \
        a_key_is_not_stored_again_where_its_message_may_be_damaged 100 ms__log_key \
        'if (!r) lost = true;' ''
    control key_lost_before_its_segment_stored_again gcc test_silent \
        a_key_is_not_stored_again_where_its_message_may_be_damaged 100 ms__log_key \
        'ms__segment_may_lack(run.index, 0, where)' 'false'
    control key_lost_in_a_tail_stored_again gcc test_silent \
        a_key_is_not_stored_again_where_its_message_may_be_damaged 100 ms__key_known \
        'result = MS_E_DAMAGED;' ';'
    control append_after_a_lost_message_taken gcc test_silent \
        an_append_after_a_message_is_refused_where_a_newer_one_may_be_damaged 100 \
        ms__last_of 'if (lost && *result == MS_OK)' 'if (false)'
    control append_after_a_message_lost_in_a_segment_taken gcc test_silent \
        an_append_after_a_message_is_refused_where_a_newer_one_may_be_damaged 100 \
        ms__last_of 'MS__LOG && w.reading' 'false && w.reading'
    control append_after_older_damage_refused gcc test_silent \
        an_append_after_a_message_is_refused_where_a_newer_one_may_be_damaged 100 \
        ms__log_lacks 'uint32_t unit = (uint32_t)from,' 'uint32_t unit = 0,'
    control part_missing_in_a_union_unreported gcc test_silent \
        a_text_without_one_of_its_parts_is_reported_by_a_union_too 100 ms__appended_read \
        'f->it.damaged > 0' 'false'
    control damaged_task_overlooked gcc test_silent \
        a_worker_whose_last_task_is_damaged_is_told 100 ms__last_task \
        'kept.doubt += it->damaged;' ''
    control later_task_overlooked_behind_a_limit gcc test_silent \
        a_worker_whose_later_task_is_damaged_is_told_whatever_its_limit 100 \
        ms__last_task 'kept.doubt += it->damaged;' \
        'kept.doubt += msg ? 0 : it->damaged;'
    control damage_before_the_last_task_reported gcc test_silent \
        a_worker_whose_last_task_is_damaged_is_told 100 ms__last_task \
        'kept.doubt = 0;' ';'
    control first_page_not_read_from_its_copy gcc test_log_recover \
        a_log_is_whole_when_its_first_page_is_zeros 100 ms__super_choose \
        'log->file.super_lost = true;' 'return code;'
    control page_of_another_log_taken gcc test_log_recover \
        a_log_is_whole_when_its_first_page_is_that_of_another 100 ms__super_choose \
        'if (!foreign) return MS_OK;' 'return MS_OK;'
    control only_checkpoint_overwritten gcc test_log_recover \
        the_checkpoint_of_a_mended_first_page_stays_until_the_other_one_is_there 100 \
        ms__super_mend 'ms__checkpoint c = {2, ' 'ms__checkpoint c = {1, '
    control superblock_not_mended gcc test_log_recover \
        a_log_is_whole_when_a_byte_of_its_fixed_part_is_flipped 100 ms__log_attach_file \
        'log->file.super_mend)' 'false)'
    control pages_not_populated gcc test_silent a_bad_block_is_reported_wherever_it_is 100 \
        ms__log_populate 'for (; page <= last && page < log->map.n_looked; page++)' \
        'for (; page < 1; page++)'
    control bad_first_page_not_written_again gcc test_silent \
        a_first_page_that_cannot_be_read_is_written_again_by_a_writer 100 \
        ms__log_attach_file 'if (log->writer && log->file.super_unreadable)' 'if (false)'
    control last_part_of_a_page_not_populated gcc test_silent \
        a_bad_block_is_reported_where_the_file_ends_inside_of_it 100 ms__pages_populate \
        '(m->start + m->size + MS__PAGE - 1) / MS__PAGE' '(m->start + m->size) / MS__PAGE'
    control zeros_believed_beside_a_bad_block gcc test_silent \
        zeros_end_no_log_that_has_a_bad_block 100 ms__record_walk_damaged \
        's->log->file.super_lost || s->log->map.bad_pages > 0' 's->log->file.super_lost'
    control first_page_read_with_the_rest gcc test_silent \
        a_bad_block_is_reported_wherever_it_is 100 ms__super_pages \
        'if (code != EIO) return code;' 'if (code != 0) return code;'
    control messages_among_changes_counted_anew gcc test_log_place \
        parts_of_a_message_cost_no_time_when_its_segment_is_sealed 100 \
        ms__segment_messages 'if (!ms__load32(&l->ranked))' 'if (true)'
    control lost_numbers_of_a_segment_not_found gcc test_corrupt \
        log_loses_what_was_hit_when_sectors_change 20 ms__log_seek \
        'ms__segment_past(log, first, seq, locked, &f->damaged, result)' 'MS__NO_PLACE'
    control hidden_range_skipped_up_to_what_is_known gcc test_silent \
        reading_that_skips_messages_reports_what_is_lost_beside_them 100 \
        ms__list_iter_leap 's->backward ? f.place : f.past' 'f.place'
    control reading_begins_at_what_is_known gcc test_silent \
        reading_that_skips_messages_reports_what_is_lost_beside_them 100 ms__log_seek \
        's == first && k == 0' 'false'
    control reading_of_a_tail_begins_at_what_is_known gcc test_silent \
        reading_that_skips_messages_reports_what_is_lost_beside_them 100 ms__seek \
        'ms__load32(&t->n_holes) > 0' 'false'
    control reading_ends_at_the_first_damaged_one gcc test_silent \
        a_query_reports_what_is_damaged_beside_its_bounds 100 ms__place_of \
        'locked, result).place' 'locked, result).from'
    control number_of_a_damaged_body_not_compared gcc test_silent \
        a_query_reports_what_is_damaged_beside_its_bounds 100 ms__segment_numbered \
        'offset - offset, false)) r = NULL;' 'offset - offset, true)) r = NULL;'
    control damage_beyond_the_window_unreported gcc test_silent \
        a_query_reports_what_is_damaged_beside_its_bounds 100 ms__merge_window \
        'if (n == q->limit) it->damaged += outer;' ''
    control damage_within_the_window_counted_twice gcc test_silent \
        a_query_reports_what_is_damaged_beside_its_bounds 100 ms__merge_window \
        'if (n == q->limit) it->damaged += outer;' 'it->damaged += outer;'
    control number_of_a_replaced_message_returned_again gcc test_silent \
        a_replaced_message_that_is_damaged_is_reported 100 ms__segment_numbered \
        'offset - offset, false)) r = NULL;' 'offset - offset, true)) r = NULL;'
    control clustered_hole_at_its_place gcc test_silent \
        an_append_is_refused_where_a_clustered_segment_may_lack_a_newer_message 100 \
        ms__segment_hole 'if (l->clustered)' 'if (false)'
    control places_of_a_clustered_segment_are_ranks gcc test_silent \
        places_of_a_clustered_segment_stay_when_its_index_is_derived 100 \
        ms__order_fill '(uint32_t)sorted[i].key' 'i + 1'
    control loss_before_a_segment_of_notes_forgotten gcc test_silent \
        a_loss_before_a_segment_of_notes_is_reported 100 \
        ms__segment_past 'if (last) break;' 'break;'
    control segment_swallows_the_next_one gcc test_silent \
        nothing_is_shown_twice_behind_a_clustered_segment_without_an_index 100 \
        ms__segment_end '&l)) end = l.base < from ? from : l.base;' \
        '&l) && l.base >= from) end = l.base;'
    control wide_numbers_clustered gcc test_silent \
        messages_with_numbers_of_over_32_bits_are_not_clustered 100 \
        ms__copy_hold 'if (ms_seq(msg) >= MS__CLUSTER_SEQ) c->wide = true;' ''
    control wide_numbers_beside_clustered_ones_unreported gcc test_silent \
        messages_with_numbers_of_over_32_bits_are_not_clustered 100 \
        ms__segment_derive 'if (clustered && s.last_seq >= MS__CLUSTER_SEQ)' 'if (false)'
    control hidden_range_of_63_bits gcc test_rewrite \
        hidden_ranges_of_any_number_follow_to_the_new_file 100 \
        ms__copy_batch '(void)ms_json_u64(text, &opts.expect_seq);' \
        '{ int64_t v = 0; (void)ms_json_i64(text, &v); opts.expect_seq = (uint64_t)v; }'
    control failed_call_for_several_pages_believed gcc test_silent \
        a_bad_block_is_reported_among_several_pages 100 ms__pages_read \
        'if (log->os->populate_each(log->os->ctx, p->at, p->n) != 0)' \
        'if (log->os->populate_each(log->os->ctx, p->at, p->n) < 0)'
    control window_in_a_clustered_segment_begins_at_what_is_known gcc test_silent \
        numbers_are_reported_when_the_file_ends_inside_a_clustered_segment 100 \
        ms__log_seek 'f->past == MS__NO_PLACE && ms__segment_lost(l) > 0' 'false'
    control clustered_numbers_have_to_rise gcc test_silent \
        a_clustered_log_without_its_indexes_is_read_as_before 100 \
        ms__record_walk_floor 'cluster == s->cluster ? s->floor' \
        'cluster == s->cluster ? s->last_seq'
    control clustered_tail_goes_on gcc test_corrupt \
        clustered_log_keeps_what_is_left_when_it_ends_at_any_byte 20 \
        ms__apply_visible 'if (code == MS_OK && log->map.cluster)' 'if (false)'
    control clustered_tail_takes_other_records gcc test_corrupt \
        clustered_log_without_its_indexes_loses_one_message_when_a_byte_changes 20 \
        ms__apply_record 'if (other && ms__tail_of(log)->count > 0)' 'if (false)'
    control order_of_a_clustered_segment_ignored gcc test_corrupt \
        clustered_log_loses_one_message_when_a_bit_flips 20 \
        ms__run_entry 'ms__segment_entry(li->index, i)' 'i'
    control loss_in_a_clustered_segment_unreported gcc test_corrupt \
        clustered_log_keeps_what_is_left_when_it_ends_at_any_byte 20 \
        ms__apply_visible 'if (lost) ms__tail_damage(ms__tail_of(log), &any);' ''
    control loss_in_a_clustered_segment_forgotten gcc test_silent \
        numbers_are_reported_when_the_file_ends_inside_a_clustered_segment 100 \
        ms__lost_entered 'ms__last_clustered(log)' 'false'
    control order_of_a_clustered_segment_unverified gcc test_file_format_index \
        clustered_segment_is_found_wrong_when_its_order_is_not_that_of_the_numbers 100 \
        ms__verify_segment 'if (judged && sound) sound = ms__verify_order(log, &l);' ''
    control damaged_message_of_a_raw_query_unreported gcc test_silent \
        a_replaced_message_that_is_damaged_is_reported 100 ms__raw_messages \
        'if (!there && !(MS__LOG && f.damaged)) return MS_OK;' \
        'if (!there) return MS_OK;'
    control lost_change_of_a_number_unreported gcc test_silent \
        a_message_found_by_its_number_may_lack_a_change 100 ms__core_get \
        'lost ? MS__UNSURE : MS_OK' 'MS_OK'
    control lost_change_of_a_number_in_a_segment_unreported gcc test_silent \
        a_message_found_by_its_number_may_lack_a_change 100 ms__change_lost \
        'c && c->damaged > 0' 'false'
    control number_after_a_lost_change_reported gcc test_silent \
        a_message_found_by_its_number_may_lack_a_change 100 ms__list_walk_step \
        'w->place + 1' 'UINT64_MAX'
    control number_after_damage_of_its_segment_reported gcc test_corrupt \
        short_log_loses_one_message_when_a_bit_flips 20 ms__segment_report \
        'damaged_to = ms__place(l->number, h.unit);' \
        'damaged_to = ms__place(l->number + 1, 0);'
    control message_with_a_lost_change_not_changeable gcc test_silent \
        a_message_found_by_its_number_may_lack_a_change 100 ms__get \
        'code == MS__UNSURE ? MS_OK : code' 'code == MS__UNSURE ? MS_E_DAMAGED : code'
    control damaged_newest_of_a_history_unreported gcc test_silent \
        a_history_and_a_union_report_a_damaged_newest_message 100 ms__store_now \
        'now->as_of > 0 && stat.damaged > 0' 'false'
    control damaged_message_counted_by_a_listing gcc test_silent \
        a_listing_counts_what_is_left_of_a_location 100 ms__info_count \
        '(MS__LOG && n->damaged)' 'false'
    control range_of_changes_and_messages_counted_twice gcc test_silent \
        each_damaged_segment_is_counted_once_whichever_view_meets_it_first 100 \
        ms__reading_report 's->announced -= known;' 'known = 0;'
    control salvaged_store_reports_nothing gcc test_mem_image \
        salvage_drops_a_torn_batch_or_changes_nothing 100 ms_mem_attach \
        'if (gone > 0)' 'if (false)'
    control hidden_messages_not_counted_by_salvage gcc test_mem_image \
        salvage_counts_the_hidden_messages_that_it_leaves 100 ms__mem_adopt_edit \
        'span.hidden = ms__visible(&m->core, location, span.first, span.last, &result);' \
        '(void)result;'
    control damaged_newest_left_out_without_numbers gcc test_memory \
        a_history_has_what_is_readable_when_the_newest_message_is_damaged 100 \
        ms__now_before 'now->damaged' 'false'
    control holes_of_a_full_disk_looked_at gcc test_fault_io \
        holes_of_a_log_are_read_when_the_file_system_is_full 100 ms__os_populate \
        'errno != EFAULT' 'true'
    control damaged_amendment_overlooked_by_a_redaction gcc test_silent \
        what_a_damaged_change_was_about_is_not_shown 100 ms__raw_edits \
        'c->n_held > 0' 'false'
    control unsynced_damage_taken_for_torn gcc test_log_lost \
        damage_is_reported_and_nothing_is_zeroed_when_unsynced_messages_follow_it 100 \
        ms__record_walk_damaged 's->trusted = ms__record_walk_seek(s, next, s->limit);' \
        'if (next) return false;'
    control zeros_of_a_power_loss_taken_for_damage gcc test_log_lost \
        dead_bytes_are_zeroed_when_a_writer_appends 100 ms__record_walk_damaged \
        '!lost && ms__sector_is_zero(s->log, s->at, s->at + size, s->limit)' 'false'
    control found_after_a_restart_not_synced gcc test_log_writers \
        the_first_writer_syncs_what_it_found_when_the_machine_has_restarted 100 \
        ms__writer_prepare 'if (other_boot || ms__log_must_prove(log))' \
        'if (ms__log_must_prove(log))'
    control whole_dead_messages_not_kept gcc test_log_recover \
        whole_dead_messages_are_kept_beside_the_log_when_it_is_not_asked_for 100 \
        ms__log_settle ' || ms__holds_record(log, log->end, dead)' ''
    control watermark_of_another_boot_ignored gcc test_log_writers \
        shared_writers_lose_nothing_when_they_see_different_boots 100 ms__mark_current \
        'return mark % 8 == 0 &&' 'return mark % 8 == 1 &&'
    control sync_beside_a_first_append gcc test_log_durable \
        a_first_append_waits_when_another_thread_syncs 100 \
        ms__append_begin '!log->append.prepared && log->durable.syncing' 'false' \
        ms__writer_prepare 'if (log->durable.syncing)' 'if (false)'
    control nobody_woken_by_a_sync_given_up gcc test_log_durable \
        threads_that_wait_are_woken_when_a_sync_is_given_up 100 \
        ms__log_sync_to 'd->syncing = false;' 'if (code != MS_OK) continue; d->syncing = false;'
    control unknown_boot_forgotten gcc test_log_writers \
        a_sync_that_was_seen_to_fail_is_made_good_when_the_boot_number_was_unknown 100 \
        ms__log_unconfirmed '!= 0;' '== log->file.boot;' \
        ms__may_be_of_boot 'w.boot == 0' 'false'
    control failed_sync_of_another_boot_forgotten gcc test_log_writers \
        a_sync_that_failed_is_made_good_by_a_writer_that_sees_another_boot 100 \
        ms__log_unconfirmed '!= 0;' '== log->file.boot;'
    control watermark_of_another_device_ignored gcc test_log_writers \
        shared_writers_lose_nothing_when_they_see_different_devices 100 ms__mark_current \
        'return mark % 8 == 0 &&' 'return mark % 8 == 1 &&'
    control records_after_the_watermark_not_shown gcc test_log_writers \
        a_dead_append_is_of_all_writers_when_they_see_different_boots 100 \
        ms__log_file_open 'log->opts.shared && ms__mark_lags(log)' 'false'
    control records_of_a_walk_not_compared gcc test_log_writers \
        a_reader_of_another_boot_is_told_when_a_dead_append_is_as_long_as_the_next 100 \
        ms__doubt_over 'ms__doubt_check(log) != r->doubt_check' 'false'
    control line_before_its_watermark_ignored gcc test_log_writers \
        a_reader_of_another_boot_is_told_when_a_writer_begins_before_a_dead_append 100 \
        ms__mark_current 'ms__log_line(log->map.super) != log->map.found_line);' 'false);'
    control room_that_is_not_there_believed gcc test_log_writers \
        a_lost_end_is_found_by_another_writer_when_nothing_can_be_allocated 100 \
        ms__log_follow 'log->append.no_allocate ? 0 : log->append.allocated' \
        'log->append.allocated'
    control records_of_a_walk_believed gcc test_log_writers \
        a_reader_of_another_boot_is_told_when_a_dead_append_is_written_over 100 \
        ms__log_follow 'if (log->recovery.doubt && ms__mark_current(log))' 'if (false)'
    control reader_of_another_device_stays_behind gcc test_log_writers \
        a_reader_of_another_device_follows 100 ms__mark_current \
        'return mark % 8 == 0 &&' 'return mark % 8 == 1 &&'
    control redaction_lost_in_a_rewrite gcc test_log_sync a_redaction_ends_a_rewrite 100 \
        ms__rewrite_sound 'w->old->append.erasures == w->erasures' 'w->old'
    control sync_of_a_replaced_file_reported gcc test_rewrite changes_follow_to_the_new_file 100 \
        ms__log_sync_to 'ms__replaced_check(log, NULL) != MS_OK' 'false'
    control messages_without_time_dropped gcc test_twin arena_stores_and_twin_agree 100 \
        ms__kept_turns '!timed || time >= keep->since_ns' 'time >= keep->since_ns'
    control change_of_a_copied_message_left_out gcc test_rewrite \
        changes_follow_to_the_new_file 100 \
        ms__copy_on '(unsigned)MS_RAW_ALL : 0;' '(unsigned)MS_RAW_MESSAGES : 0;'
    control unconfirmed_not_written_again gcc test_log_sync \
        what_a_failed_sync_left_is_durable_when_it_was_synced_again 100 \
        ms__log_rewrite_range 'if (!ms__log_owes(log)) return MS_OK;' 'return MS_OK;'
    control killed_writer_taken_for_synced gcc test_log_sync \
        what_a_sync_left_is_durable_when_it_failed_and_its_writer_was_killed 100 \
        ms__durable_begin 'unsure ? d->unproven_end : 0' '0'
    control sync_of_a_killed_writer_unmarked gcc test_log_sync \
        what_a_sync_left_is_durable_when_it_failed_and_its_writer_was_killed 100 \
        ms__log_disk 'MS__AT_SYNCING, 1);' 'MS__AT_SYNCING, 0);'
    control debt_of_a_killed_writer_dropped gcc test_log_sync \
        what_a_sync_of_a_shared_writer_left_is_durable_when_two_were_killed 100 \
        ms__writer_prepare 'ms__log_owes(log));' '0);'
    control shared_sync_taken_for_done gcc test_log_sync \
        a_shared_writer_makes_all_durable_when_another_was_killed_in_a_sync 100 \
        ms__sync_unknown '|| !exclusive' ''
    control records_rewritten_after_each_kill gcc test_log_sync \
        a_sync_writes_no_record_again_when_its_writer_was_killed_between_two 100 \
        ms__sync_unknown '|| !exclusive' '|| true'
    control file_synced_for_dead_bytes gcc test_log_sync \
        messages_are_not_synced_when_dead_bytes_are_zeroed 100 \
        ms__log_settle 'unsure ? EOPNOTSUPP :' 'true ? EOPNOTSUPP :'
    control unknown_boot_taken_for_another gcc test_log_writers \
        a_sync_that_failed_is_made_good_when_the_boot_number_is_unknown 100 \
        ms__may_be_of_boot '!known || w.boot == 0 ||' 'known && w.boot != 0 &&'
    control damaged_watermark_taken_for_another_boot gcc test_log_sync \
        what_a_sync_left_is_durable_when_it_failed_and_the_watermark_is_damaged 100 \
        ms__may_be_of_boot 'return !known' \
        'if (ms__load_mark(log->map.super + MS__AT_MARK) % 8) return false; return !known'
    control confirmed_without_writing_again gcc test_log_sync \
        a_shared_writer_makes_all_durable_when_it_appends_after_the_sync_of_another_failed \
        100 ms__log_settle 'if (unsure)' 'if (false)'
    control written_again_beside_a_redaction gcc test_log_sync \
        a_redaction_waits_when_a_sync_writes_again 100 \
        ms__log_rewrite_range 'log->opts.shared && !log->recovery.holds_lock' 'false'
    control unsure_word_not_stored gcc test_log_sync \
        a_shared_writer_makes_all_durable_when_a_sync_of_another_failed 100 \
        ms__log_poison '(void)ms__unconfirmed_set(log, true);' ''
    control closed_without_a_sync gcc test_log_sync \
        a_close_syncs_its_appends_when_older_ones_cannot_be_written_again 100 \
        ms__log_close 'ms__log_sync_to(log, log->end, true, NULL) == MS_OK)' 'true)'
    control list_with_a_number_is_silent gcc test_request \
        extra_members_of_odd_shapes_go_back_or_change_nothing 100 \
        ms__is_raw 'ms_json_kind_of(it.value) != MS_JSON_STRING' \
        'ms_json_kind_of(it.value) == MS_JSON_OBJECT'
    control thinking_of_an_edited_answer gcc test_request \
        thinking_stays_out_when_its_answer_was_edited 100 \
        ms__thought_holds '(s->has_of ? s->of == s->sum : !s->edited)' 'true'
    control blocks_of_the_provider_not_of_a_memory gcc test_answer \
        agent_reads_blocks_of_its_provider_when_a_memory_is_the_source 100 \
        ms__history_open ' | MS_BIT(MS_T_MULTIMODAL_PART)' ''
    control damaged_text_of_an_answer_not_repaired gcc test_answer \
        answer_is_stored_repaired_when_its_bytes_are_no_text 100 \
        ms__answer_repair '*event = ms_buf_text(&buf);' ''
    control later_messages_of_a_refused_one_complete gcc test_answer \
        streamed_answer_does_not_seem_complete_when_one_of_its_messages_is_refused 100 \
        ms__answer_ends 'if (first != MS_OK) a->whole = false;' ''
    control thinking_without_a_place gcc test_answer \
        thinking_is_stored_when_it_is_a_part_of_the_content 100 \
        ms__answer_part_put 'ms__answer_part_begins(a, part);' \
        'if (part->kind != MS__ANSWER_THOUGHT) ms__answer_part_begins(a, part);'
    control text_that_begins_with_nothing_a_block gcc test_answer \
        streamed_answer_stays_one_turn_whoever_writes_beside_it 100 \
        ms__answer_union 'block.len > 2' 'true'
    control call_with_a_type_a_block gcc test_answer \
        streamed_answer_stays_one_turn_whoever_writes_beside_it 100 \
        ms__answer_union 'MS_STR("server_tool_use")' 'MS_STR("tool_use")'
    control contents_of_a_block_left_out gcc test_answer \
        streamed_answer_stays_one_turn_whoever_writes_beside_it 100 \
        ms__answer_part_input 'bool listed = list->len > 0' 'bool listed = false'
    control items_in_the_order_of_their_ends gcc test_answer \
        streamed_answer_stays_one_turn_whoever_writes_beside_it 100 \
        ms__answer_item_begins 'if (!part) return;' 'return;'
    control text_without_an_agent_not_of_the_answer gcc test_request \
        text_without_an_agent_stays_before_its_call 100 \
        ms__answer_find '(!before->first.ptr || !m->agent_key.ptr)' 'false'
    control thinking_of_another_model gcc test_project \
        thinking_is_of_another_model_family_another_version 100 \
        ms__signed '!ms__same_model(model, p->opts.model)' 'false'
    control thinking_of_another_provider gcc test_project \
        thinking_stays_out_when_another_provider_signed_it 100 \
        ms__signed '!ms_json_string_is(name, ms_str_of(p->profile->name))' 'false'
    control user_after_results gcc test_project call_without_a_result_in_the_middle 100 \
        ms__list_make 'if (!profile->bridge_text || !*next ||' 'if (true || !*next ||'
    control template_of_another_type gcc test_formats \
        openai/another_type_takes_the_writers_form 100 \
        ms__source_of 's[1] != (char)(m->type + 32)' 'false'
    control template_never_kept gcc test_formats \
        framework/time_comes_back_to_the_byte_when_it_has_a_trailing_zero 100 \
        ms__is_canonical 'if (s != own) return false;' 'return true;'
    control template_not_scanned gcc test_format template_spoils_nothing_when_it_is_wrong 100 \
        ms__token_value '!ms__scan_value(s, MS_JSON_MAX_DEPTH)' \
        '((s->p = ms__pass_value(s->p, s->end)), false)'
    control fields_not_counted gcc test_format what_has_no_place_is_counted 100 \
        ms__left_count '& ~covered;' '& 0;'
    control failure_not_reported gcc test_project call_that_failed 100 \
        ms__reply_failed 'if (!mark ||' 'if (true ||'
    control text_before_an_interrupted_call gcc test_project \
        text_after_an_interrupted_call_follows_its_result 100 \
        ms__project_write 'ms__turns_divide(p, start);' ''
    control turns_walked_for_each_division gcc test_growth 'project open calls' 10 \
        ms__turns_divide 'item->next = NULL;' \
        'item->next = NULL; for (ms__item *i = rest->first; i; i = i->next) i->group = rest;'
    control narrow_ranges_in_a_list gcc test_growth 'hide ranges' 10 \
        ms__is_range 'names->buffer ? 0 : MS__LEAP' '0'
    control wide_ranges_not_sorted gcc test_growth 'hide wide ranges at random' 10 \
        ms__range_link 'range->n_sorted > 0' '(range->n_sorted = 0) > 0'
    control wide_range_in_another_lost gcc test_change \
        wide_ranges_hide_what_a_list_of_them_hides 100 \
        ms__ranges_join 'least->last > out[n - 1]->last' 'least->first > out[n - 1]->last'
    control wide_range_of_the_future gcc test_change \
        wide_ranges_hide_what_a_list_of_them_hides 100 \
        ms__hidden_by 'range->n_sorted && range->place < end' 'range->n_sorted'
    control parts_followed_from_the_first gcc test_growth 'following a stream' 10 \
        ms_stream_follow 'text->place = f->it.now' 'text->place = 0 * f->it.now'
    control follower_in_a_ring_keeps_its_place gcc test_ring \
        a_follower_goes_on_when_messages_are_dropped 100 \
        ms__ring_query '*as_from >> 32 == m->drops ?' 'true ?'
    control follower_in_a_union_keeps_its_place gcc test_ring \
        a_follower_goes_on_when_messages_are_dropped 100 \
        ms__union_query 'q->as_from && ms__union_moves' 'false && ms__union_moves'
    control answer_divided_at_its_call gcc test_project \
        text_of_one_answer_stays_beside_its_interrupted_call 100 \
        ms__call_given_up '!call->next->joined &&' ''
    control damage_counted_twice gcc test_log_place \
        a_damaged_record_is_counted_once_when_its_log_is_copied 100 \
        ms__copy_each 'if (c->phase == MS__COPY_CHANGES)' 'if (false)'
    control text_beside_a_call_of_another gcc test_project \
        text_beside_a_call_of_another_precedes_it 100 \
        ms__item_as_anothers '!ms__is_blank(*text)) beside = *text;' 'false) beside = *text;'
    control manager_without_the_conversation gcc test_memory \
        'memory/a_shared_worker_reads_conversation_own_messages_and_broadcasts on heap' 100 \
        ms_shared_memory_init 'memory->team_by_agent = true;' \
        'memory->team_by_agent = memory->no_conversation = n_subordinates > 0;'
    control broadcast_words_of_nobody gcc test_memory \
        'memory/a_broadcast_has_its_sender on heap' 100 \
        ms_memory_broadcast 'if (!said)' 'if (true)'
    control pictures_of_results_dropped gcc test_project \
        pictures_of_results_follow_them_when_results_take_none 100 \
        ms__list_make 'files = ms__files_insert(p, files, item);' '(void)files;'
    control pictures_of_others_dropped gcc test_project \
        pictures_of_another_agent_follow_its_words 100 \
        ms__item_show 'item->parts = ms__files_of(p, item->text.text, item->files);' ''
    control data_of_tools_taken_for_parts gcc test_project \
        one_picture_is_a_part_without_a_list 100 \
        ms__is_part 'return file || (strings && f->tag);' 'return true;'
    control sounds_left_in_results gcc test_project \
        sound_alone_follows_a_result_that_keeps_its_document 100 \
        ms__item_divide 'bool sounds = all || !ms__has_rule(p->wire, MS__RESULT_SOUNDS);' \
        'bool sounds = all;'
    control documents_that_are_data_taken_for_files gcc test_project \
        document_alone_is_a_part_of_a_result_and_other_objects_are_data 100 \
        ms__part_form_of 'return tag || kind == MS_JSON_OBJECT ? f : NULL;' 'return f;'
    control documents_of_text_left_out gcc test_project document_of_text_is_a_text 100 \
        ms__file_of ' || ms__file_text(p, x)' ''
    control bytes_that_are_no_text_sent_as_one gcc test_project documents_that_are_none 100 \
        ms__base64_text 'text && ms_utf8_check(out, NULL)' 'text'
    control ids_of_another_provider_sent gcc test_project \
        documents_of_users_anthropic_to_responses 100 \
        ms__file_of "ms__file_members(p, member, claude ? 'a' : 'o', x);" \
        "ms__file_members(p, member, 'o', x);"
    control names_of_documents_repeated gcc test_project \
        documents_of_users_anthropic_to_bedrock 100 \
        ms__file_only_name 'while (made->taken && !p->no_memory)' 'while (0)'
    control document_without_a_text_beside_it gcc test_project \
        documents_of_users_anthropic_to_bedrock 100 \
        ms__gather 'if (ms__has_rule(p->wire, MS__DOCUMENT_TEXT)) ms__gather_text(p);' ''
    control name_of_a_file_grows gcc test_project \
        files_of_any_name_and_place_are_taken 100 \
        ms__file_name 'name = ms__name_cut(name, MS__FILE_NAME - 1 - format.len);' ''
    control files_of_geminis_store_sent_elsewhere gcc test_project \
        files_of_users_gemini_to_pydantic_ai 100 \
        ms__file_kind_find "x->by = 'g';" ''
    control citations_of_a_document_lost gcc test_project \
        documents_of_users_stay_for_anthropic 100 \
        ms__file_of 'ms__file_member(p, of, "citations", MS_JSON_OBJECT, x);' ''
    control files_of_results_not_counted gcc test_project \
        files_count_as_their_size 100 \
        ms__item_cost 'cost += ms__file_cost(x);' 'cost += 0;'
    control id_of_a_provider_without_files gcc test_project \
        parts_are_refused_when_they_do_not_say_what_they_are 100 \
        ms__part_check 'if (!part->file_id.ptr || *store) return MS_OK;' 'return MS_OK;'
    control breakpoint_of_the_request_before_lost gcc test_cache \
        breakpoints_stand_where_the_request_before_ended 100 \
        ms__emit_list 'if (user) ends[1] = ends[0];' ''
    control breakpoint_in_a_message_that_goes_on gcc test_cache \
        breakpoints_stand_where_the_request_before_ended 100 \
        ms__run_next 'return ms__run_last(next)->next;' 'return next;'
    control user_text_with_a_breakpoint_is_a_string gcc test_cache \
        breakpoints_stand_where_the_request_before_ended 100 \
        ms__out_form '(ms__has_files(parts) || p->mark)' 'ms__has_files(parts)'
    control breakpoints_of_the_caller_not_counted gcc test_cache \
        breakpoints_are_four_at_most 100 \
        ms__mark_room 'return n < MS__MARKS_MOST ? MS__MARKS_MOST - n : 0;' \
        'return MS__MARKS_MOST;'
    control breakpoint_on_a_tool_that_is_not_sent gcc test_cache \
        breakpoints_are_four_at_most 100 \
        ms__tools_end ' && !ms__has_member(last, "defer_loading")' ''
    control cache_key_sent_twice gcc test_cache cache_options_change_nothing_elsewhere 100 \
        ms__request_tail '!ms__has_member(desc->extra, "prompt_cache_key")' 'true'
    control custom_call_of_the_server_is_open gcc test_answer \
        answer_is_sent_back_when_it_was_stored_whole_or_cut_anywhere 4 \
        ms__answer_item_kind 'ms__is_server_call(item)' 'false'
    control custom_call_of_the_server_is_read_as_a_call gcc test_formats \
        openai-responses/custom_call_that_the_server_answers_is_kept_whole 100 \
        ms__item_form 'if (ms__is_server_call(item)) return NULL;' ''
    control system_text_after_assistant_text_stays gcc test_request \
        system_text_stays_inside_of_a_list_when_the_profile_has_it_there 100 \
        ms__system_settle '|| after)' '|| true)'
    control system_text_begins_a_window gcc test_request \
        system_text_stays_inside_of_a_list_when_the_profile_has_it_there 100 \
        ms__list_make '!apart && *at' '*at'
    control dots_of_ids_are_renamed gcc test_project \
        ids_differ_and_keep_the_rule_of_any_profile 100 \
        ms__id_char 'return profile->ids == MS_IDS_DOTTED;' 'return false;'
    control call_of_a_server_without_result_is_sent gcc test_answer \
        call_of_a_server_without_result_is_named_before_a_prompt 100 \
        ms__uses_end 'prompt && item;' 'prompt && !item;'
    control call_of_a_server_that_waits_is_left_out gcc test_answer \
        call_of_a_server_without_result_is_named_before_a_prompt 100 \
        ms__uses_end ' && item->group->number <= prompt->number' ''
    control result_of_a_server_without_its_call_is_sent gcc test_answer \
        result_of_a_server_without_its_call_is_named 100 \
        ms__use_note 'n == 1 && lone.ptr' 'false'
    control blocks_of_a_server_go_as_data gcc test_answer \
        blocks_of_a_server_in_a_text_are_counted 100 \
        ms__is_raw 'if (ms__is_use(it.value)) return true;' ''
    control ids_go_without_their_thinking gcc test_answer \
        items_have_no_id_where_thinking_is_off 100 \
        ms__out_item '(lacks || item->lacks)' 'lacks'
    control choices_do_not_count gcc test_answer \
        choices_beside_the_stored_one_count 100 \
        ms__answer_choose 'it.value.ptr != a->choice.ptr' 'false'
    control results_of_any_form_are_outputs gcc test_answer \
        results_that_do_not_fit_their_item_go_to_a_function 100 \
        ms__reply 'ms__reply_fits(call->reply, r)' 'true'
    control lists_of_any_form_are_printed gcc test_answer \
        results_that_do_not_fit_their_item_go_to_a_function 100 \
        ms__reply_list '(printed && !ms__is_printed(it.value))' 'false'
    control covered_call_of_a_fork_comes_back gcc test_compact \
        fork_knows_the_covered_call_that_had_no_id 100 \
        ms__covered_is 'm->type == MS_T_ACTION' 'false'
    control block_of_a_cut_answer_is_text gcc test_answer \
        block_of_an_answer_that_was_cut_off_is_no_text 100 \
        ms__item_of '!m->content.json && (m->flags & MS_FLAG_UNFINISHED)' 'false'
    control call_of_a_fork_lost_its_result gcc test_request \
        results_find_calls_without_ids_in_a_fork_and_in_a_union 100 \
        ms__fork_read 'm.type == MS_T_ACTION && m.call_id.len == 0' 'false'
    control call_of_a_union_lost_its_result gcc test_request \
        results_find_calls_without_ids_in_a_fork_and_in_a_union 100 \
        ms__id_own 'MS_UNION_SEQ(m->seq)' 'm->seq'
    control response_named_after_an_edit gcc test_previous \
        request_sends_all_when_the_server_has_something_else 100 \
        ms__previous_use 'ms__list_sum(p, last) != r->sent.of ||' ''
    control response_named_without_a_part gcc test_previous \
        request_sends_all_when_the_server_has_something_else 100 \
        ms__previous_use 'r->found != r->messages || r->sum_found != r->sum ||' ''
    control messages_before_the_response_are_lost gcc test_previous \
        request_has_what_others_wrote_before_the_response_came 100 \
        ms__previous_last 'g->first->read > p->previous.sent.read' \
        'g->first->response == p->previous.number'
    control items_of_the_response_sent_again gcc test_previous \
        request_has_only_what_came_after_the_response_it_names 100 \
        ms__is_held 'p->held != 0' 'false'
    control comma_before_the_first_item gcc test_previous \
        request_has_only_what_came_after_the_response_it_names 100 \
        ms__emit_run '!p->held ||' 'true ||'
    control thinking_is_sent_without_its_item gcc test_previous \
        request_sends_all_when_thinking_belongs_to_an_item_that_the_server_has 100 \
        ms__previous_fits '!ms__thought_leads(item, number)' 'false'
    control log_is_a_standard_stream gcc test_os what_is_printed_is_not_written_over_the_log \
        100 ms__os_open 'fd >= 0 && fd < 3' 'fd == 1000'
    control call_is_sent_as_a_block gcc test_answer \
        call_stored_as_a_block_is_left_out_when_its_maker_is_asked 100 \
        ms__item_as_blocks 'stay += ms__block_stays(it.value)' '(void)it'
    control response_named_with_nothing_new gcc test_previous \
        request_sends_all_when_the_response_is_no_place_to_go_on 100 \
        ms__previous_fits 'return some;' 'return true;'
    control response_of_another_model_named gcc test_previous \
        request_sends_all_when_the_response_is_no_place_to_go_on 100 \
        ms__response_note 'all = ms__signed(p, m);' \
        'if (!ms_json_member(m->extra, MS_STR("signed"), &all)) return;'
    control response_that_was_cut_named gcc test_previous \
        request_sends_all_when_the_response_is_no_place_to_go_on 100 \
        ms__answer_messages 'if (!a->whole || ms__answer_cut(a)) a->response.len = 0;' ''
    control response_that_is_not_kept_named gcc test_previous \
        request_sends_all_when_the_response_is_no_place_to_go_on 100 \
        ms__answer_kept 'MS_JSON_FALSE' 'MS_JSON_ARRAY'
    control store_of_the_caller_beside_previous gcc test_previous \
        request_that_names_a_response_by_itself_is_refused 100 \
        ms__request_check '|| ms_str_equal(name, MS_STR("store"))' ''
    control server_is_not_asked_to_keep gcc test_previous \
        request_has_only_what_came_after_the_response_it_names 100 \
        ms__request_tail 'ms__keeps_responses(p) && strcmp(name, "store") == 0' 'false'
    control words_of_another_agent_as_one_s_own gcc test_project \
        what_another_agent_said_is_user_text 100 \
        ms__is_anothers 'return ms__chat_role(m) == MS_ROLE_ASSISTANT;' 'return false;'
    control words_of_a_team_as_one_s_own gcc test_team \
        requests_of_a_team_are_right_in_any_order 100 \
        ms__is_anothers 'return ms__chat_role(m) == MS_ROLE_ASSISTANT;' 'return false;'
    control words_of_a_worker_as_the_manager_s_own gcc test_manager \
        example_sends_requests_that_its_providers_take 100 \
        ms__is_anothers 'return true;' 'return false;'
    control words_of_the_manager_as_a_worker_s_own gcc test_manager \
        example_sends_requests_that_its_providers_take 100 \
        ms__item_as_sourced 'own ? MS__ITEM_ASSISTANT : MS__ITEM_USER' 'MS__ITEM_ASSISTANT'
    control messages_of_a_team_joined_by_place gcc test_team \
        requests_of_a_team_are_right_in_any_order 100 \
        ms__item_put 'if (turn && p->answer && p->answer->turn)' 'if (false)'
    control answers_of_a_team_are_one gcc test_team \
        requests_of_a_team_are_right_in_any_order 100 \
        ms__answer_find 'm->agent_key, m->turn_id, true' 'm->turn_id, m->turn_id, true'
    control turn_ends_at_words_of_another_agent gcc test_request \
        thinking_of_the_running_turn_is_sent_or_reported 100 \
        ms__same_turn '(g->kind == MS__ITEM_USER && g->first->aside)' 'false'
    control thinking_behind_words_not_asked_for gcc test_request \
        thinking_of_the_running_turn_is_sent_or_reported 100 \
        ms__running_turn 'begins || g == first || g == reply' 'begins || g == first'
    control messages_joined_by_place gcc test_project \
        answer_stays_one_turn_when_others_write_between_its_messages 100 \
        ms__item_put 'if (turn && p->answer && p->answer->turn)' 'if (false)'
    control joined_to_an_answer_before_the_user gcc test_project \
        joined_message_whose_answer_is_gone_stays_behind_the_user 100 \
        ms__answer_find 'answer->turn->number >= p->asked' 'true'
    control joined_to_an_answer_before_its_results gcc test_project \
        joined_message_whose_answer_is_gone_stays_behind_the_user 100 \
        ms__names_answer 'seq == answer->seq' 'true'
    control answer_of_another_turn_id gcc test_project \
        joined_message_of_another_turn_id_is_another_answer 100 \
        ms__answer_find 'm->agent_key, m->turn_id, true' 'm->agent_key, ms__absent(), true'
    control answers_of_all_agents_are_one gcc test_project \
        two_answers_that_stand_in_each_other 100 \
        ms__answer_find 'm->agent_key, m->turn_id, true' 'm->turn_id, m->turn_id, true'
    control broadcast_ends_an_answer gcc test_project \
        answer_of_nobody_stays_one_turn_beside_a_broadcast 100 \
        ms__answer_find 'm->type == MS_T_SYNTHESIS && m->agent_key.ptr;' \
        'm->type == MS_T_SYNTHESIS;'
    control answer_not_named_beside_others gcc test_answer \
        messages_of_a_stream_name_their_answer_where_others_wrote 100 \
        ms__answer_messages 'apart = apart || (before != 0 && part->seq > before + 1);' ''
    control answer_named_once gcc test_answer \
        streamed_answer_stays_one_turn_whoever_writes_beside_it 100 \
        ms__answer_messages 'apart = apart ||' 'apart ='
    control call_in_a_message_of_another_agent gcc test_format \
        call_is_no_part_of_what_another_agent_said 100 \
        ms__joins '(!before.ptr || ms_str_equal(before, m->agent_key))' 'true'
    control text_without_an_agent_stands_alone gcc test_format \
        call_is_no_part_of_what_another_agent_said 100 \
        ms__joins '!before.ptr || ' ''
    control type_of_texts_not_taken gcc test_answer \
        texts_of_an_answer_have_the_type_that_is_asked_for 100 \
        ms__answer_part_message ': said, text);' ': MS_T_ASSISTANT_MESSAGE, text);'
    control own_answers_not_read gcc test_answer \
        texts_of_an_answer_have_the_type_that_is_asked_for 100 \
        ms__history_open 'memory->agent_types |= MS_BIT(said);' ';'
    control own_answers_not_read_without_a_conversation gcc test_answer \
        agent_reads_its_answers_without_the_conversation 100 \
        ms__history_open 'desc->text_type : MS_T_ASSISTANT_MESSAGE' \
        'desc->text_type : MS_T_FINAL'
    control type_of_an_unknown_word gcc test_ffi answer_has_the_type_that_is_asked_for 100 \
        ms_ffi__text 'return f->ask.text_type ? MS_OK : MS_E_TYPE;' 'return MS_OK;'
    control texts_of_any_type gcc test_answer \
        answer_is_refused_when_no_text_of_an_agent_has_its_type 100 \
        ms_answer_begin '!(MS_BIT(desc->text_type) & MS__SAID_TYPES)' 'false'
    control question_not_counted gcc test_project questions_that_are_not_answered 100 \
        ms__project_read 'p->report.dropped += p->question != NULL;' ''
    control final_of_another_agent gcc test_project \
        equal_finals_of_two_agents_are_both_sent 100 \
        ms__repeats 'if (before.ptr && m->agent_key.ptr &&' 'if (false &&'
    control request_by_time gcc test_request \
        request_keeps_the_order_of_sequence_when_a_memory_is_by_time 100 \
        ms__history_open 'memory->by_time = false;' ''
    control comment_within_an_event_read gcc test_answer \
        streamed_answer_is_stored_when_comments_are_within_an_event 100 ms__answer_byte \
        'a->depth == 0 || a->framed' 'a->depth == 0'
    control line_of_a_body_taken_for_a_comment gcc test_answer \
        streamed_answer_is_stored_when_comments_are_within_an_event 100 ms__answer_byte \
        'a->depth == 0 || a->framed' 'true'
    control block_not_repaired gcc test_answer \
        block_of_another_kind_is_repaired_when_it_has_a_lone_surrogate 100 \
        ms__answer_repair 'ms_json_put_raw(&w, *event);' \
        'ms__json_scalar(&w, event->ptr, event->len);' \
        ms__answer_part_block 'ms_json_put_raw(&w, block);' \
        'ms__json_scalar(&w, block.ptr, block.len);'
    control choices_not_distinguished gcc test_answer \
        answer_is_the_first_choice_when_there_are_several 100 \
        ms__answer_choose 'if (index == a->choice_index && !a->choice.ptr)' \
        'if (!a->choice.ptr)'
    control only_choice_0_is_read gcc test_answer \
        answer_is_its_only_choice_whatever_the_index 100 \
        ms__answer_choose 'if (!a->chosen && !a->choice.ptr)' 'if (false)'
    control found_id_instead_of_null gcc test_formats pydantic-ai/null_id_stays 100 \
        ms__gives_way 'if (o->m != o->given && !ms__field_has(ph, o->given)) return false;' ''
    control failed_answer_is_complete gcc test_answer \
        streamed_answer_is_unfinished_when_its_messages_could_not_begin 100 \
        ms__answer_ends 'if (part->seq == 0) ms__answer_part_stream(a, part);' \
        'if (part->seq == 0) { if (ms_append(a->desc.store, a->desc.location, m, &part->seq, err)
            == MS_OK) a->out.first_seq = part->seq; continue; }'
    control answer_ends_well_after_a_failed_feed gcc test_answer \
        end_of_an_answer_is_the_failure_of_its_feed 100 \
        ms_answer_end 'if (failed != MS_OK) code = failed;' ''
    control answer_keeps_strings_of_its_caller gcc test_answer \
        answer_keeps_copies_when_its_description_is_gone 100 \
        ms__answer_describe \
        'if (!ms__keep_copy(ms__answer_arena(a), texts[i]))' 'if (false)'
    control answer_keeps_the_profile_of_its_caller gcc test_lifetimes \
        answers_keep_nothing_of_their_arguments 100 \
        ms__answer_describe 'own->profile = &a->profile;' 'own->profile = desc->profile;'
    control parts_of_an_answer_in_one_branch gcc test_answer \
        answer_takes_linear_time_when_calls_are_many 100 \
        ms__answer_part_place 'at = &(*at)->child[bits >> 63]' 'at = &(*at)->child[0]'
    control history_that_fails_closes_well gcc test_memory \
        memory_is_refused_without_store_location_agent_or_runtime 100 \
        ms_get_history 'ms_result code = it->result =' 'ms_result code ='
    control search_of_limit_0_finds_nothing gcc test_ffi \
        search_ends_at_its_limit 100 ms_ffi__search 'if (left == 0) left = SIZE_MAX;' ''
    control redaction_reads_all_amendments gcc test_change many_changes_stay_quick 100 \
        ms__raw_edits 'if (q->about_seq && !(q->raw & MS_RAW_HIDES))' 'if (false)'
    control stream_too_large_for_its_end gcc test_change \
        stream_is_refused_at_the_feed_that_makes_it_too_large 100 ms_stream_feed \
        'code = ms__size_check(stream->size + stored, stream->most, err);' \
        'code = ms__size_check(stream->size + stored, 8 * stream->most, err);'
    control reopened_flash_drops_a_third gcc test_flash \
        reopening_shows_the_newest_messages_that_the_same_memory_takes 100 \
        ms__flash_room 'if (left >= units || now >= units / 3)' 'if (true)'
    control resumed_stream_counts_from_nothing gcc test_change \
        stream_is_refused_at_the_feed_that_makes_it_too_large 100 ms_stream_begin \
        'if (e->key.ptr) ms__stream_resume(stream, appended->text.len);' ''
    control stream_collects_less_than_it_says gcc test_change \
        stream_is_refused_when_it_collects_more_than_it_has_room_for 100 ms_stream_begin \
        'if (opts && opts->flush_chars > MS__STREAM_ROOM)' 'if (false)'
    control untimed_message_keeps_its_turn gcc test_copy \
        turns_are_kept_by_the_times_of_their_messages 100 ms__kept_turns \
        '!timed || time >= keep->since_ns' '!ms_time(msg, NULL) || time >= keep->since_ns'
    control young_turn_keeps_all_after_it gcc test_copy \
        turns_are_kept_by_the_times_of_their_messages 100 ms__kept_turns \
        'wanted = ended = !msg;' 'ended = !msg; wanted = wanted || ended;'
    control error_of_a_note_that_is_left_out gcc test_error \
        error_stays_as_it_was_when_a_copy_leaves_something_out 100 \
        ms__copy_step '&c->error);' 'err);'
    control error_of_a_number_that_is_an_id gcc test_error \
        error_stays_as_it_was_when_a_call_of_the_formats_succeeds 100 \
        ms__task_numbered 'ms_result code = ms_get_by_seq(store, seq, arena, msg, &failed);' \
        'ms_result code = ms_get_by_seq(store, seq, arena, msg, err);'
    control update_fails_after_its_change gcc test_task \
        update_is_made_when_memory_ends_after_it 100 ms_task_update \
        'if (code == MS_OK && msg) (void)ms_get' 'if (code == MS_OK && msg) code = ms_get'
    control error_of_a_ring_that_drops gcc test_error \
        error_stays_as_it_was_when_a_ring_drops 100 \
        ms__ring_append 'code = ms__mem_try(m, &own, &failed);' \
        'code = ms__mem_try(m, &own, err);'
    control error_of_an_answer_without_a_note gcc test_error \
        error_stays_as_it_was_when_an_answer_is_not_noted 100 \
        ms_answer_end 'ms__answer_note(a, first)' 'ms__answer_note(a, err)'
    control error_of_damage_behind_the_last_task gcc test_error \
        error_stays_as_it_was_when_damage_does_not_matter 100 \
        ms__newest 'if (*damaged) it->result = MS_OK;' \
        'if (*damaged && ms_cursor_close(it, err) != MS_OK) it->result = MS_OK;'
    control reason_truncated_in_a_character gcc test_answer \
        reason_to_stop_is_cut_between_characters 100 \
        ms__answer_stops 'while (n < word.len &&' 'while (false &&'
    control block_of_an_index_again_is_lost gcc test_answer \
        block_is_kept_when_an_index_comes_again 100 \
        ms__answer_other 'if (!part || part->bufs[MS__ANSWER_BODY].len > 0)' \
        'if (part && part->bufs[MS__ANSWER_BODY].len > 0) return; if (!part)'
    control memory_of_arguments_is_a_syntax gcc test_answer \
        member_without_a_name_is_an_argument 100 \
        ms__answer_part_args 'if (code == MS_E_ARENA || code == MS_E_NO_MEMORY)' \
        'if (false)'
    control picture_of_another_block_is_silent gcc test_answer \
        members_that_are_not_stored_are_counted 100 \
        ms__answer_picture 'ms__answer_left(a, MS_STR("image"));' ''
    control call_that_is_no_object_is_silent gcc test_answer \
        members_that_are_not_stored_are_counted 100 \
        ms__answer_said 'ms__answer_left(a, MS_STR("tool_calls"));' '(void)0;'
    control deep_arguments_as_json gcc test_answer \
        answer_is_stored_when_a_part_is_as_deep_as_a_body_can_be 100 \
        ms__field_json 'MS_FIELD_MAX_DEPTH' 'MS_JSON_MAX_DEPTH'
    control request_of_all_locations gcc test_request \
        request_is_refused_when_its_store_has_no_location 100 \
        ms__source_check 'if (desc->store && ms__is_empty(desc->location))' 'if (false)'
    control result_without_an_agent gcc test_project \
        result_without_an_agent_answers_an_open_call_of_its_id 100 \
        ms__call_by_id 'if (call || m->agent_key.ptr) return call;' 'return call;'
    control result_without_an_agent_takes_any gcc test_project \
        result_without_an_agent_answers_a_call_without_one_first 100 \
        ms__call_by_id 'if (call || m->agent_key.ptr)' 'if (m->agent_key.ptr)'
    control failure_beside_a_picture gcc test_project \
        failure_is_said_in_the_text_when_a_result_has_a_picture 100 \
        ms__reply_failed 'if (r->parts) r->failed = false;' ''
    control failure_without_a_text gcc test_project \
        failure_has_a_text_when_its_result_has_none 100 \
        ms__reply_failed '(r->parts || ms__is_blank(*text))' 'r->parts'
    control append_beside_a_compaction gcc test_log_sync \
        an_append_is_refused_when_a_rewrite_takes_the_place 100 \
        ms__replaced_check 'if (ms__get32(log->map.super + MS__AT_REPLACED) == 0) return MS_OK;' 'return MS_OK;'
    control expect_before_key gcc test_change \
        append/a_retry_with_keys_succeeds_when_the_end_has_moved 100 ms__core_append \
        'if (code == MS_OK && run->offset == run->start) {' \
        'if (code == MS_OK && run->offset == run->start &&
            (code = ms__expect_check(core, run->opts, err)) == MS_OK) {'
    control checkpoint_that_was_not_stored_believed gcc test_log_sync \
        a_sync_is_busy_when_others_keep_its_checkpoint_from_being_stored 100 \
        ms__log_sync_now 'if (!confirm) code = MS_OK;' 'code = MS_OK;'
    control append_before_damage_is_proven gcc test_log_sync \
        an_append_is_durable_after_damage_when_another_process_keeps_the_lock 100 \
        ms__writer_prepare 'if (other_boot || ms__log_must_prove(log))' 'if (other_boot)'
    control closed_after_a_dead_writer_without_a_sync gcc test_log_sync \
        a_close_syncs_its_appends_when_another_writer_died 100 \
        ms__log_close 'log->writer && log->append.wrote' 'log->writer && log->append.prepared'
    control mark_of_a_failed_compaction_kept gcc test_log_sync \
        a_log_takes_appends_again_when_a_rewrite_ 100 \
        ms__rewrite_undo '(void)ms__hold_mark(w, 0, NULL);' ''
    control mark_of_a_killed_compaction_kept gcc test_log_sync \
        a_log_takes_appends_again_when_a_rewrite_ 100 \
        ms__log_file_open 'if (code == MS_OK && log->writer) (void)ms__replaced_set(log, 0);' ''
    control replaced_file_written_on gcc test_log_sync \
        a_source_refuses_appends_when_its_new_name_may_not_be_durable 100 \
        ms_log_rewrite 'ms__log_refuse(ms__log_of(source));' ''
    control number_of_an_unconfirmed_append_kept_back gcc test_log_sync \
        an_append_reports_its_number_when_its_sync_failed 100 \
        ms__append_all 'code != MS_OK && code != MS_E_POISONED' 'code != MS_OK'
    control zeros_not_rewritten gcc test_log_recover \
        zeros_are_written_again_when_their_sync_failed 100 \
        ms__writer_prepare 'if (unsure && log->append.stop > dead) dead = log->append.stop;' ''
    control zeros_not_synced gcc test_log_recover \
        zeros_are_written_again_when_their_sync_failed 100 \
        ms__log_settle 'unsure ? EOPNOTSUPP : ms__zeros_synced(log, log->end, dead);' '0;'
    control superblock_of_a_killed_creation_not_synced gcc test_log_sync \
        a_log_keeps_its_superblock_when_its_creator_was_killed_early 100 \
        ms__log_attach_file 'code = ms__super_durable(log, again, sizeof again, false, err);' ';'
    control rewrite_not_verified gcc test_log_place \
        a_rewrite_is_refused_when_its_bytes_are_wrong 100 \
        ms__rewrite_run 'MS__TRY(ms__rewrite_verify(w, err));' ''
    control durable_reported_before_the_sync gcc test_log_sync \
        nothing_is_durable_when_power_is_lost_in_a_sync 100 \
        ms__log_sync_now 'd->erased = UINT64_MAX;' \
        'd->erased = UINT64_MAX; ms__checkpoint_store(log, end, seq, false, NULL);'
    control durable_reported_of_later_appends gcc test_log_sync \
        a_sync_covers_what_was_there_before_it 100 \
        ms__log_sync_now 'ms__durable_move(log, end, seq);' 'ms__durable_move(log, log->end, seq);'
    control failed_sync_forgotten gcc test_fault_io script_stays_whole_when_a_sync_fails 100 \
        ms__log_poison 'ms__log_refuse(log);' ''

    # What readers see, and when.

    control mark_before_written_bytes gcc test_log_recover \
        appends_stay_when_the_writer_is_killed_in_any_write 100 \
        ms__log_put 'int code = ms__os_write_all(log->os, log->file.handle, offset, bytes, size);' \
        'ms__store_mark(log->map.super + MS__AT_MARK, offset + size);
        int code = ms__os_write_all(log->os, log->file.handle, offset, bytes, size);'
    control mark_before_mapped_bytes gcc test_threads \
        readers_see_order_whole_batches_and_their_snapshot 100 \
        ms__log_put 'memcpy(log->append.window' \
        'ms__store_mark(log->map.super + MS__AT_MARK, offset + size); memcpy(log->append.window'
    control mark_without_release tsan test_log_place \
        readers_do_not_race_when_they_share_the_memory_of_a_writer 1000 \
        ms__store_ptr '__ATOMIC_RELEASE' '__ATOMIC_RELAXED'
    control end_without_release tsan test_threads \
        readers_see_order_whole_batches_and_their_snapshot 10 \
        ms__store32 '__ATOMIC_RELEASE' '__ATOMIC_RELAXED'
    control old_tails_not_pinned san test_twin logs_and_twin_agree 2 \
        ms__tails_sweep '|| ms__load32_full(&log->map.pins[i]) != 0' ''
    control mark_of_another_boot_believed gcc test_log_recover \
        a_watermark_is_ignored_when_it_is_from_before_the_restart 100 \
        ms__mark_trusted 'w.boot == log->file.boot &&' ''
    control mark_of_a_copy_believed gcc test_log_recover \
        a_copy_reads_as_after_a_crash_when_a_writer_ran_beside_it 100 ms__mark_trusted \
        'w.device == log->file.stat.device &&' '' \
        ms__mark_trusted 'w.inode == log->file.stat.inode &&' ''

    # What is valid.

    control superblock_check_dropped gcc test_log_recover \
        a_log_is_refused_when_both_fixed_parts_are_damaged 100 \
        ms__super_decode 'if (!holds)' 'if (0)'
    control checkpoint_check_dropped gcc test_log_recover \
        a_checkpoint_is_ignored_when_its_check_does_not_match 100 \
        ms__checkpoint_decode 'ms__get32(copy + 40) == ms__crc32c(0, copy, 40) &&' ''
    control header_check_dropped gcc test_corrupt \
        log_loses_one_message_when_a_bit_flips 50 \
        ms__record_walk_next 'ms__holds_at(s->log->id.crc, s->at, r);' 'true;'
    control header_check_of_a_posting_dropped gcc test_corrupt \
        log_loses_one_message_when_a_bit_flips 50 \
        ms__log_holds '!ms__holds_at(log->id.crc, offset, r) ||' ''
    control body_check_dropped gcc test_record every_flipped_bit_is_found 20 \
        ms__check_fields \
        'if (!ms__is_erased(r) && ms__body_check(r) != ms__get32(r + MS__AT_BODY_CHECK))' 'if (0)'
    control index_check_dropped gcc test_corrupt \
        log_loses_one_message_when_a_bit_flips 50 \
        ms__index_holds 'ms__body_check(r) == ms__get32(r + MS__AT_BODY_CHECK)' 'true'
    control block_check_of_an_index_dropped gcc test_log_index \
        messages_stay_when_a_block_of_their_index_is_damaged 100 \
        ms__blocks_sound '!= ms__segment_block(l, b)) return false;' '== 0) return false;'
    control damaged_block_not_mended gcc test_log_index \
        messages_stay_when_a_block_of_their_index_is_damaged 100 \
        ms__segment_has 'while (l && !ms__segment_find(log, l, list, run))' \
        'if (l && !ms__segment_find(log, l, list, run) && (run->n = 0) > 0)'
    control front_check_of_an_index_dropped gcc test_log_index \
        messages_stay_when_a_block_of_their_index_is_damaged 100 \
        ms__segment_at 'ms__segment_front(&log->id, offset, l);' \
        '(ms__segment_front(&log->id, offset, l), ms__get32(l->numbers - 4));'
    control place_not_in_the_check gcc test_corrupt \
        log_loses_what_was_hit_when_sectors_change 20 \
        ms__check_at 'return ms__crc_header_x86(seed, offset, r);' \
        'return ms__crc_header_x86(seed, 0, r);' \
        ms__seed_at 'ms__put64(at, offset);' 'ms__put64(at, 0);'
    control file_not_in_the_check gcc test_corrupt \
        log_loses_what_was_hit_when_sectors_change 20 \
        ms__file_id_set 'f->crc = ms__crc32c(0, id, 16);' 'f->crc = 0;'
    control size_not_bounded gcc test_corrupt \
        record_is_found_when_its_size_or_number_is_wrong 20 \
        ms__size_fits '&& ms__padded(size) <= left' ''
    control fields_not_bounded gcc test_record a_record_with_right_checksums_is_refused_when_it_lies 20 \
        ms__body_fault \
        'return values == size - dir ? NULL : "its fields do not fill its body";' \
        'return NULL;'
    control directory_not_bounded san test_record \
        a_directory_longer_than_its_body_is_not_read 20 \
        ms__body_fault 'if (dir < 1 || dir > size) return' 'if (dir < 1) return'
    control sequence_may_repeat gcc test_corrupt \
        record_is_found_when_its_size_or_number_is_wrong 20 \
        ms__record_walk_body \
        'ms_seq(ms__msg(r)) > ms__record_walk_floor(s, r)' 'true'
    control posting_not_bounded gcc test_file_format_index \
        segment_index_leads_nowhere_when_its_arrays_are_wrong 100 \
        ms__segment_offset 'if (i >= l->n) return 0;' '' \
        ms__segment_offset 'return offset < l->offset ? offset : 0;' 'return offset;'
    control runs_not_bounded gcc test_file_format_index \
        segment_index_leads_nowhere_when_its_arrays_are_wrong 100 \
        ms__segment_run 'if (from > to || to > l->postings) return false;' ''
    control segment_number_believed gcc test_log_index \
        numbers_of_segments_cost_no_memory_when_they_are_wrong 100 \
        ms__segment_decode 'l->number >= offset / MS__SEGMENT_FIXED ||' ''
    control nested_sizes_with_large_budget gcc test_log_place \
        nested_sizes_cost_no_time_when_a_log_is_opened 100 \
        ms__record_walk_candidate 's->spent / 4 > s->limit' 's->spent / 8000 > s->limit'
    control generations_without_wrap gcc test_log_recover \
        a_checkpoint_is_followed_by_a_newer_one_when_its_number_is_the_largest 100 \
        ms__generation_after 'return a - b - 1 < UINT64_MAX / 2;' 'return a > b;'
    control truncated_record_kept gcc test_log_recover \
        messages_stay_when_a_redacted_one_was_truncated 100 \
        ms__record_walk_skip 'if (s->over != 0) s->at = s->limit = s->trusted = s->over;' ''
    control attached_ranges_made_shorter gcc test_mem_image attaching_takes_no_more_room 100 \
        ms__mem_adopt_edit 'if (span.last > names->last_seq) span.last = names->last_seq;' \
        'span.last = span.first;'
    control hidden_message_amended gcc test_mem_image an_amend_shows_no_hidden_message 100 \
        ms__edit_link '&& (!v->before || v->before->record))' ')'
    control unknown_kinds_taken gcc test_file_format unknown_kinds_are_skipped_below 100 \
        ms__record_walk_next 'if (sized && (r[4] >= 128 ||' 'if (sized && (0 ||'

    # What is torn, what is damaged.

    control commit_ignored gcc test_file_format \
        an_append_is_not_shown_when_its_commit_is_missing 100 \
        ms__log_find_end \
        'if (offset < s.trusted || (r[7] & MS_FLAG_COMMIT)) committed = s.at;' 'committed = s.at;'
    control commit_on_every_record gcc test_power nothing_durable_is_lost_when_power_is_lost 20 \
        ms__run_seal '(flags | (i == last ? MS_FLAG_COMMIT : 0))' '(flags | MS_FLAG_COMMIT)'
    control damage_taken_for_the_end gcc test_log_recover \
        damage_that_was_reported_stays_reported_after_a_restart 100 \
        ms__record_walk_next 'if (s->at >= s->trusted) return MS__FOUND_END;' \
        'return MS__FOUND_END;'
    control durable_end_not_believed gcc test_corrupt \
        log_keeps_what_is_left_when_it_ends_at_any_byte 20 \
        ms__log_attach_content \
        'uint64_t proven = same && mark > checkpoint.end ? mark : checkpoint.end;' \
        'uint64_t proven = same ? mark : 0;'
    control older_first_page_believed gcc test_rot \
        log_goes_on_when_its_first_page_is_an_older_one 100 \
        ms__log_attach_content \
        'if (same && !salvage) MS__TRY(ms__mark_passed(log, mark, size, err));' ''
    control first_page_without_live_words_believed gcc test_rot \
        log_goes_on_when_its_first_page_is_the_copy_of_the_fixed_part 100 \
        ms__super_choose 'ms__super_page_incomplete(h);' 'false;'
    control first_page_without_live_words_and_copy_believed gcc test_rot \
        log_goes_on_when_its_first_page_has_no_live_words_and_the_copy_is_lost 100 \
        ms__super_choose 'log->file.super_lost = none;' ''
    control clustered_records_not_kept gcc test_rot \
        whole_clustered_records_are_kept_when_they_count_as_dead 100 \
        ms__holds_record 's.limit = upto;' 's.limit = upto, s.last_seq = log->sum.last_seq;'
    control noise_taken_for_a_watermark gcc test_rot \
        log_is_refused_when_both_pages_are_the_copy_of_another_log 100 \
        ms__log_find_end 'mark < MS__FIRST_RECORD || mark >> 62 != 0' 'mark == 0'
    control foreign_copy_believed gcc test_rot \
        log_is_refused_when_its_first_page_is_lost_and_the_copy_is_of_another_log 100 \
        ms__log_find_end 'if (!found_none ||' 'if (1 ||'
    control foreign_superblock_believed gcc test_rot \
        log_is_refused_when_both_pages_are_the_copy_of_another_log 100 \
        ms__log_find_end 'if (!log->file.super_mend && !none)' 'if (!log->file.super_mend)'
    control end_torn_without_a_first_page gcc test_rot \
        damage_stays_known_when_the_first_page_is_lost_too 100 \
        ms__log_find_end 'if (dead > *visible && log->file.super_lost) *visible = dead;' ''
    control damage_forgotten_with_the_first_page gcc test_rot \
        damage_stays_known_when_the_first_page_is_lost_too 100 \
        ms__super_mend 'ms__checkpoint_encode(&c, h + MS__AT_CHECKPOINTS);' '(void)c;'
    control lost_tail_forgotten_with_the_first_page gcc test_log_recover \
        a_lost_tail_stays_known_when_a_writer_has_mended_the_first_page 100 \
        ms__super_mend 'if (c.end < most) c.end = most;' '(void)most;'
    control foreign_first_page_believed gcc test_rot \
        log_is_its_own_when_its_first_page_is_of_another_one 100 \
        ms__super_foreign '*foreign = true;' '*foreign = at + i == MS__FIRST_RECORD;'
    control first_page_believed_when_no_record_is_read gcc test_log_recover \
        a_log_is_not_opened_when_it_cannot_be_read_whose_first_page_it_has 100 \
        ms__super_foreign 'if (code != 0 || got < MS__HEADER) return code;' \
        'if (code != 0 || got < MS__HEADER) return 0;'
    control first_page_mended_with_zeros gcc test_log_recover \
        a_log_is_not_opened_when_its_copy_is_cut_off_meanwhile 100 \
        ms__super_mend 'if (failed == 0 && !ms__super_names(log, h)) failed = EIO;' ''
    control first_page_mended_with_another_name gcc test_log_state \
        superblock_is_not_mended_with_the_name_of_another_file 100 \
        ms__super_names 'memcmp(h + 24, log->id.id, 16) == 0' 'true'
    control numbers_of_a_cluster_not_bounded gcc test_log_state \
        index_of_a_clustered_segment_is_refused_when_its_numbers_are_too_large 100 \
        ms__segment_decode '(l->clustered && l->state.last_seq >= MS__CLUSTER_SEQ) ||' ''
    control window_of_a_second_look_unbounded gcc test_log_state \
        second_look_into_the_last_64_kib_ends_with_the_file 100 \
        ms__pages_populate 'if (last >= n) last = n - 1;' '(void)n;'
    control torn_first_message_taken_for_another_log gcc test_log_recover \
        a_log_is_not_refused_for_its_copy_when_its_first_message_is_torn 100 \
        ms__log_find_end \
        'ms__holds_record(log, MS__FIRST_RECORD, dead < size ? dead : size))' 'false)'
    control damage_forgotten_without_memory gcc test_log_recover \
        damage_is_reported_when_there_was_no_memory_to_note_it 100 \
        ms__apply_visible 'else code = ms__no_memory' \
        'else log->end = offset, code = ms__no_memory'
    control unknown_damage_changes_nothing gcc test_silent \
        damage_in_a_clustered_segment_is_reported_whatever_its_place 100 \
        ms__holes_add 'if (MS__CHANGES && kind == 0) room = ms__bloom_fill(log);' ''
    control damage_forgotten_after_a_restart gcc test_log_recover \
        damage_that_was_reported_stays_reported_after_a_restart 100 \
        ms__log_must_prove '|| log->durable.damage' ''
    control synced_flag_ignored gcc test_log_recover \
        damage_is_reported_when_it_is_after_the_last_checkpoint 100 \
        ms__record_walk_synced 'if (found == 0) return false;' 'return false;'
    control torn_bytes_not_kept gcc test_log_recover \
        a_part_of_a_dead_message_is_kept_when_it_is_asked_for 100 \
        ms__log_settle 'log->opts.keep_torn || ' ''
    control torn_bytes_zeroed_unkept gcc test_log_recover \
        an_append_zeroes_nothing_when_the_file_for_dead_bytes_cannot_be_opened 100 \
        ms__log_settle 'MS__TRY(ms__torn_keep(log, dead, err));' '(void)ms__torn_keep(log, dead, err);'
    control records_rewritten_unasked gcc test_log_sync \
        a_sync_writes_no_record_again_when_the_machine_restarted 100 \
        ms__durable_begin 'unsure ? d->unproven_end : 0' 'd->unproven_end'
    control segments_walked_for_a_summary gcc test_log_index \
        a_query_reads_segment_indexes_alone_when_a_summary_is_damaged 100 \
        ms__segment_read 'if (!ms__segment_known(' 'if (true || !ms__segment_known('
    control maps_read_ahead_at_random_places gcc test_log_index \
        few_pages_are_read_when_a_cold_log_is_opened 100 \
        ms__os_map 'if (how & MS_OS_RANDOM) (void)madvise(p, size, MS__MADV_RANDOM);' ''
    control tail_without_a_place_ignored gcc test_log_state \
        refresh_fails_when_no_tail_slot_is_left 100 \
        ms__apply_segment 'if (!ms__tail_slot(log, &now))' \
        'if (!ms__tail_slot(log, &now)) return MS_OK; if (false)'
    control damage_not_carried_by_the_index gcc test_log_lost \
        damage_is_counted_in_every_later_segment_index 100 \
        ms__log_state 'ms__state s = log->sum;' 'ms__state s = log->sum; s.damaged = 0;'
    control dead_bytes_not_zeroed gcc test_log_recover \
        dead_messages_do_not_return_when_a_sector_is_lost 100 \
        ms__writer_prepare 'if (unsure || dead > log->end) MS__TRY(ms__log_settle(log, dead, err));' ''
    control checkpoint_after_damage_not_synced gcc test_log_sync \
        a_checkpoint_is_durable_when_a_sync_returns 100 \
        ms__log_sync_now 'if (failed == 0 && code == MS_OK && confirm)' \
        'if (failed == 0 && code == MS_OK && confirm && !log)'
    control durable_reported_before_its_checkpoint_is gcc test_log_sync \
        nothing_is_durable_when_the_sync_of_the_checkpoint_fails 100 \
        ms__log_sync_now 'code = ms__checkpoint_store(log, end, seq, confirm, confirm ? err : NULL);' \
        '{
            ms__durable_move(log, end, seq);
            code = ms__checkpoint_store(log, end, seq, confirm, confirm ? err : NULL);
        }'
    control header_that_reaches_over_the_end_believed gcc test_log_recover \
        new_appends_stay_when_the_watermark_is_inside_of_a_record 100 \
        ms__record_walk_skip 'if (s->over != 0) s->at = s->limit = s->trusted = s->over;' ''
    control numbers_of_lost_messages_given_again gcc test_log_recover \
        new_messages_stay_when_those_of_a_segment_index_are_lost 100 \
        ms__apply_index 'if (log->writer && log->sum.last_seq < ms_seq(ms__msg(r)))' 'if (false)'
    control dead_bytes_salvaged gcc test_log_recover \
        dead_bytes_stay_dead_when_the_log_is_salvaged 100 \
        ms__writer_prepare 'if (unsure || dead > log->end) MS__TRY(ms__log_settle(log, dead, err));' ''
    control numbers_used_again gcc test_log_recover \
        numbers_of_lost_messages_are_not_given_again 100 \
        ms__log_attach_content 'if (log->writer && checkpoint.seq > log->sum.last_seq)' 'if (0)'
    control watermark_that_went_back_kept gcc test_log_recover \
        appends_of_a_shared_writer_stay_when_a_bit_of_the_watermark_flipped 100 \
        ms__mark_restore 'mark >= log->end' 'true'
    control remains_of_a_dead_writer_kept gcc test_log_writers \
        a_dead_batch_stays_dead_when_another_writer_takes_its_place 100 \
        ms__turn_check 'ms__load_mark(log->map.super + MS__AT_BUSY) <= mark' 'true'

    # What fails leaves all as it was.

    control failed_append_not_undone gcc test_mem_buffer a_refused_append_makes_no_difference 100 \
        ms__core_append 'ms__plans_undo(names, plans, done, &mark);' ''
    control staging_not_checked gcc test_fault_alloc \
        script_stays_whole_when_an_allocation_fails 100 \
        ms__staging_reach 'if (!p) return false;' ''
    control copy_elsewhere_lacks_what_came_meanwhile gcc test_rewrite \
        changes_follow_to_a_file_at_another_path 100 \
        ms__rewrite_open 'live = source->backend == &ms__log_backend' 'live = w->own'
    control copy_elsewhere_has_what_was_redacted gcc test_rewrite \
        a_redaction_during_a_copy_to_another_path_is_a_conflict 100 \
        ms__copy_since 'kind == MS_KIND_AMEND && ms__redact_keeps(msg)' 'false'
    control copy_of_memory_lacks_what_came_meanwhile gcc test_rewrite \
        a_store_in_memory_that_is_written_to_during_a_copy_is_a_conflict 100 \
        ms__rewrite_still 'if (same)' 'if (true)'
    control segment_in_two_maps_has_one_address gcc test_log_segments \
        segments_that_lie_in_two_maps_are_read_whole 100 \
        ms__segment_new ' && l->offset - m->start <= m->size' ''
    control listing_asks_every_segment gcc test_log_segments \
        listing_looks_only_at_what_it_returns 100 \
        ms__naming_enough '!ms__load32(&n->core->edited)) return true;' \
        '!ms__load32(&n->core->edited)) return false;'
    control names_not_checked gcc test_mem_buffer every_size_of_buffer_works 100 \
        ms__prepare 'if (!loc) return core->home->no_room' \
        'if (0) return core->home->no_room'
    control segment_index_not_checked gcc test_fault_alloc \
        script_stays_whole_when_an_allocation_fails 100 \
        ms__segment_write 'if (!r) return ms__no_memory(err, size);' ''
    control interrupted_write_given_up gcc test_fault_io \
        script_stays_whole_when_a_call_is_interrupted 100 \
        ms__os_write_by 'if (code == EINTR) continue;' ''
    control interrupted_read_given_up gcc test_fault_io \
        script_stays_whole_when_a_call_is_interrupted 100 \
        ms__os_read_all 'if (code == EINTR) continue;' ''
    control interrupted_sync_given_up gcc test_fault_io \
        script_stays_whole_when_a_call_is_interrupted 100 \
        ms__os_sync_done 'while (code == EINTR) code = os->sync(os->ctx, file);' ''
    control interrupted_folder_given_up gcc test_fault_io \
        script_stays_whole_when_a_call_is_interrupted 100 \
        ms__folder_sync 'while (code == EINTR)' 'while (false)'
    control interrupted_lock_given_up gcc test_fault_io \
        script_stays_whole_when_a_call_is_interrupted 100 \
        ms__log_lock 'if (code == EINTR) continue;' ''
    control short_write_not_completed gcc test_fault_io \
        script_stays_whole_when_reads_and_writes_are_short_from_one_on 100 \
        ms__os_write_by 'size -= done;' 'size = 0;'
    control short_read_not_completed gcc test_fault_io \
        script_stays_whole_when_reads_and_writes_are_short_from_one_on 100 \
        ms__os_read_all 'while (*got < size) {' 'while (*got == 0 && size > 0) {'
    control room_not_allocated gcc test_fault_io \
        append_is_whole_or_refused_when_the_file_system_is_full 20 \
        ms__os_allocate \
        'return fallocate((int)file, 0, (off_t)offset, (off_t)size) == 0 ? 0 : errno;' \
        'extern int ftruncate(int, off_t);
    ms_os_stat now;
    if (ms__os_stat(ctx, file, &now) != 0 || now.size >= offset + size) return 0;
    return ftruncate((int)file, (off_t)(offset + size)) == 0 ? 0 : errno;'

    # One writer, one meaning.

    control lock_not_taken gcc test_log_lock a_second_writer_reports_the_first_when_the_log_is_busy 100 \
        ms__log_file_once 'if (log->writer) return ms__log_lock(log, err);' \
        'if (log->writer) return MS_OK;'
    control rewrite_told_to_share gcc test_log_sync \
        a_rewrite_beside_a_shared_writer_is_told_to_wait 100 ms__log_busy \
        'lock_wait_ms waits for that; ' ''
    control shared_lock_not_taken gcc test_threads \
        readers_see_order_whole_batches_and_their_snapshot 20 \
        ms__log_enter 'MS__TRY(ms__log_lock(log, err));' ''
    control lock_of_a_replaced_file_kept gcc test_log_sync \
        a_lock_is_taken_again_when_the_file_was_replaced_before_it 100 \
        ms__log_file_open 'if (!log->writer || ms__log_in_place(log)) break;' 'break;'
    control place_of_a_failed_rewrite_left gcc test_log_sync \
        the_place_is_empty_when_a_rewrite_got_no_name 100 \
        ms__rewrite_undo 'if (w->old && w->made) (void)os->remove(os->ctx, w->path);' ''
    control part_of_a_failed_rewrite_left gcc test_log_sync \
        the_place_is_empty_when_a_rewrite_got_no_name 100 \
        ms__rewrite_undo 'if (w->begun) (void)os->remove(os->ctx, w->part);' ''
    control place_of_a_rewrite_not_held gcc test_log_sync \
        another_process_is_busy_when_a_rewrite_takes_the_place 100 \
        ms__rewrite_open 'MS__TRY(ms__hold_both(w, source, replace, err));' ''
    control child_of_fork_let_in gcc test_log_lock a_forked_child_is_refused 100 \
        ms__log_ready 'if (!ms__forked(&log->file.fork_mark, log->os)) return MS_OK;' \
        'return MS_OK;'
    control keys_of_old_segments_forgotten gcc test_views ten_thousand_keys_are_remembered 100 \
        ms__key_find 'return ms__sealed_of(core) ?' 'return ms__sealed_of(core) && 0 ?'
    control null_description_of_a_request_read gcc test_bad_input \
        a_description_that_is_null_is_refused 100 \
        ms__profile_check 'if (!desc) return ms__no_desc(err);' ''
    control null_description_of_an_answer_read gcc test_bad_input \
        a_description_that_is_null_is_refused 100 \
        ms_answer_begin '!desc ||' ''
    control null_function_of_a_writer_called gcc test_bad_input \
        a_description_that_is_null_is_refused 100 \
        ms__writer_check 'return w->json.write ? MS_OK' 'return w->json.write || 1 ? MS_OK'
    control null_name_of_a_call_read gcc test_ffi \
        call_is_refused_when_its_name_is_null_or_unknown 100 \
        ms_ffi_call 'name &&' ''
    control tool_without_a_name_sent gcc test_request \
        request_is_refused_when_its_tools_have_what_every_provider_refuses 100 \
        ms__functions_check 'return code == MS_OK ? code : ms__fail_in(err, code, "tools[%u]", n);' \
        'return MS_OK;'
    control tool_with_any_name_sent gcc test_request \
        request_is_refused_when_its_tools_have_what_every_provider_refuses 100 \
        ms__function_check 'judged && !ms__tool_name_fits' 'judged && 0 && !ms__tool_name_fits'
    control tools_of_one_name_sent gcc test_request \
        request_is_refused_when_the_last_of_many_tools_has_the_name_of_another 100 \
        ms__names_check 'if (new_bit) continue;' 'if (new_bit || n > 299) continue;'
    control member_of_extra_sent_twice gcc test_request \
        request_is_refused_when_extra_has_a_member_twice 100 \
        ms__request_check 'last.ptr != it.value.ptr' 'last.ptr == NULL'
    control key_with_another_content_taken gcc test_bad_input \
        a_batch_is_refused_when_it_reuses_a_number_or_key 100 \
        ms__plan_repeat 'p->repeat = ms__same_message(r, e, l);' 'p->repeat = true;'
    control damage_after_the_expected_number_ignored gcc test_error \
        texts_of_an_append_name_what_a_location_ends_with 100 \
        ms__expect_last 'last == opts->expect_seq && !damaged' 'last == opts->expect_seq'
    control facts_called_by_another_name gcc test_error \
        texts_of_a_change_name_the_parameter 100 \
        ms_location_set 'facts, true, true, "facts"' 'facts, true, true, "content"'
    control byte_of_a_failed_call_not_named gcc test_error \
        texts_of_failed_system_calls_name_the_byte 100 \
        ms__os_fail_at 'if (offset == MS_NO_OFFSET)' 'if (offset || !offset)'
    control first_message_of_a_batch_blamed gcc test_bad_input \
        a_batch_is_refused_when_it_reuses_a_number_or_key 100 \
        ms__run_prepare '"messages[%u]", (uint64_t)i' '"messages[%u]", (uint64_t)0'
    control expected_number_not_compared gcc test_change \
        append/an_append_is_refused_when_another_was_first 100 \
        ms__expect_last 'if (last == opts->expect_seq && !damaged) return MS_OK;' \
        'return MS_OK;'
    control size_of_a_message_not_limited gcc test_mem \
        a_record_over_max_message_is_refused 100 \
        ms__size_check 'if (size <= limit) return MS_OK;' 'return MS_OK;'

    # Text, and images of arena stores.

    control nesting_without_end gcc test_json depth_is_refused_beyond_its_limit 100 \
        ms__scan_value 'if (depth == max_depth)' 'if (depth == max_depth + 1)'
    control utf8_not_checked gcc test_json utf8_is_checked_like_the_twin 20 \
        ms__utf8_char 'if (i >= n || p[i] < low || p[i] > high) {' 'if (i >= n) {'
    control overlong_utf8_taken gcc test_json utf8_is_checked_like_the_twin 20 \
        ms__utf8_char 'if (c == 0xE0) low = 0xA0;' 'if (0) ;'
    control malformed_escape_grows gcc test_json string_stays_in_its_room_when_malformed 20 \
        ms__string_char "out[0] = at ? to[at - from] : '\\\\'" \
        "if (!at) return ms__utf8_write(0xFFFD, out); out[0] = at ? to[at - from] : '?'"
    control system_role_not_first gcc test_formats \
        gemini/system_instruction_is_the_systems_when_it_has_another_role 100 \
        ms__body_message 'if (ms_json_string_is(it.key, MS_STR("role"))) continue;' ''
    control null_member_stays gcc test_formats openai/changed_id_shows_when_it_was_null 100 \
        ms__kept_put 'if (ms__gives_way(o, form, token->value)) {' 'if (false) {'
    control new_field_inside_not_written gcc test_formats \
        envelope/new_fields_show_in_the_objects_inside 100 \
        ms__object_fill '        } else if (kind == MS__TOKEN_CLOSE && o->parent) {
            ms__object_rest(w, o);' '        } else if (kind == MS__TOKEN_CLOSE && o->parent) {
            o->parent = 0; ms_json_end(&w->json);'
    control writer_goes_on_inside gcc test_format \
        writer_begins_nothing_inside_a_message_when_memory_ends 100 \
        ms__writer_emit 'joins || w->json.depth != depth' 'joins'
    control item_of_another_type_is_no_item gcc test_formats \
        openai-responses/item_of_any_other_type_is_kept_whole 100 \
        ms__responses_read 'MS__TRY(ms__item_form(r->json) ?' 'MS__TRY(true ?'
    control items_of_an_answer_stand_alone gcc test_formats \
        openai-responses/items_of_one_answer_are_joined 100 \
        ms__responses_read 'm->flags |= MS_FLAG_JOINED;' ';'
    control message_items_become_one gcc test_formats \
        openai-responses/message_items_in_a_row_stay_apart 100 \
        ms__responses_read '!(ms__is_said(before) && ms__is_said(m))' 'true'
    control search_of_the_server_is_the_clients gcc test_formats \
        openai-responses/tool_search_of_the_server_is_kept_whole 100 \
        ms__item_form 'if (!ms__is_client_search(item)) return NULL;' ''
    control kind_of_a_call_outlives_its_tool gcc test_formats \
        openai-responses/call_of_another_tool_is_a_function_call 100 \
        ms__source_of 'return false; /* it calls another tool now */' ';'
    control spelling_of_texts_not_kept gcc test_formats \
        openai-responses/summary_of_several_texts_is_one_text 100 \
        ms__member_read 'if (!ms__texts_are_plain(e->value, ms__texts_type(ph)))' \
        'if (false)'
    control spelling_of_texts_stays gcc test_format \
        spelling_of_texts_goes_when_it_means_something_else 100 \
        ms__placeholder_fill 'ms__texts_mean(spelled, o->m->content.text)' 'true'
    control text_of_a_call_is_lost gcc test_formats \
        openai-responses/text_of_a_call_precedes_it 100 \
        ms__unit_put 'if (f->lists == MS__LISTS_TEXTS && ms__call_says(m)) {' 'if (false) {'
    control type_of_an_item_from_extra gcc test_formats \
        openai-responses/extra_members_stand_in_an_item_and_none_changes_its_type 100 \
        ms__extra_fill 'ph->as == &ms__as_word ||' ''
    control parts_of_an_assistant_stay_a_list gcc test_formats \
        openai-responses/unknown_part_of_an_assistant_comes_back_beside_a_text 100 \
        ms__item_content_read \
        'others && ms__chat_role(f->m) != MS_ROLE_ASSISTANT' 'others'
    control left_out_beside_whole_items gcc test_format \
        members_beside_an_item_that_is_kept_whole_are_counted 100 \
        ms__format_write 'ms__left_count(w, f, &m[i], MS__ONE(CONTENT) | MS__ONE(TYPE_NAME));' ''
    control text_of_a_body_is_no_message gcc test_formats \
        openai-responses/text_of_a_body_is_the_users 100 \
        ms__read_body 'bool text = d->list && !d->system_parts;' 'bool text = false;'
    control block_template_with_a_list gcc test_formats \
        gemini/template_is_not_used_when_its_block_has_a_list 100 \
        ms__source_of 'return outer || !ms__list_placeholder(*form);' 'return true;'
    control member_of_another_object_is_written gcc test_formats \
        bedrock/template_is_not_used_when_its_objects_are_in_the_wrong_place 100 \
        ms__object_fill 'if (ph && ph->parent != o->parent) continue;' ''
    control object_inside_ends_all_objects gcc test_formats \
        bedrock/reasoning_comes_back_with_members_of_every_level 100 \
        ms__object_rest 'o->parent = ms__placeholder_lettered(o->form, parent)->parent;' \
        'o->parent = 0;'
    control members_inside_not_found gcc test_format \
        member_of_an_object_inside_is_found_unless_another_has_its_name 100 \
        ms_member 'inside < 2' 'inside < 1'
    control call_of_the_service_is_a_call gcc test_formats \
        bedrock/calls_of_the_service_come_back 100 \
        ms__bedrock_element '(form == 3 && ms_json_member(value, MS_STR("type"), &type))' \
        'false'
    control every_status_is_an_error gcc test_formats \
        bedrock/results_become_messages_of_their_own_types 100 \
        ms__bedrock_status_read 'ms_json_string_is(f->value, MS_STR("error"))' 'true'
    control changed_result_keeps_its_kind gcc test_formats \
        bedrock/changed_result_shows_in_the_block_of_its_kind 100 \
        ms__bedrock_text_has '!ms__bedrock_json_has(ph, m, n)' 'true'
    control every_block_is_a_step gcc test_formats \
        gemini-interactions/contents_of_other_kinds_come_back 100 \
        ms__is_kept_step "ms__step_letter(m) != 'k'" 'false'
    control content_of_a_call_is_no_step gcc test_formats \
        gemini-interactions/content_of_a_call_is_a_step_before_it 100 \
        ms__step_put 'if (m->content.text.len > 0 && !ms__is_null(m)) {' 'if (false) {'
    control empty_summary_is_left_out gcc test_formats \
        gemini-interactions/thoughts_come_back_as_they_came 100 \
        ms__summary_read '&& f->value.len > 2' ''
    control step_without_content_gets_one gcc test_formats \
        gemini-interactions/steps_without_content_come_back 100 \
        ms__contents_have 'n > 1 || !ms__is_null(m)' 'true'
    control call_alone_needs_content gcc test_formats \
        gemini-interactions/calls_come_back 100 \
        ms__outer_read '!(ms__type_row_of(m->type)->required >> MS_F_CONTENT & 1)' 'false'
    control text_of_a_body_is_a_turn gcc test_formats \
        gemini-interactions/text_of_a_body_is_the_users 100 \
        ms__read_body '.source = ms__absent();' '.source;'
    control every_list_is_a_result gcc test_formats \
        gemini-interactions/results_come_back_whatever_they_have 100 \
        ms__step_result_read 'ms__is_parts(f->value)' 'true'
    control step_that_is_no_object_is_written gcc test_formats \
        gemini-interactions/step_that_is_no_object_is_a_content 100 \
        ms__is_kept_step 'if (ms_json_kind_of(it.value) != MS_JSON_OBJECT) return false;' ';'
    control derived_index_moves_places gcc test_log_index \
        queries_by_number_are_whole_when_indexes_in_a_row_are_damaged 100 \
        ms__segment_load 'if (e->bad) from = e->bad->base;' ''
    control segments_made_anew_are_ignored gcc test_log_index \
        an_open_reader_is_whole_or_has_an_error_when_segments_are_made_again 100 \
        ms__apply_segment 'if (!fits && log->map.super_now)' 'if (false)'
    control filter_without_lost_records gcc test_log_index \
        damage_is_reported_when_a_summary_is_made_after_it 100 \
        ms__summary_build_filter 'ms__segment_lost(l) > 0 && word < 256' 'word < 0'
    control damaged_batch_joins_the_next gcc test_log_index \
        a_damaged_batch_keeps_its_location_when_a_rewrite_follows_it 100 \
        ms__copy_since 'if (c->it->damaged != c->met)' 'if (false)'
    control salvage_replaces_newer gcc test_log_index \
        salvage_replaces_no_file_that_has_more_since 100 \
        ms__hold_both 'if (!log ||' 'if (log != NULL ||'
    control copy_without_statistics_has_no_changes gcc test_copy \
        notes_and_facts_are_copied_when_the_source_has_no_statistics 100 \
        ms__copy_list 'if (known) c->changed' 'c->changed'
    control facts_beside_a_rewrite_not_chosen gcc test_log_index \
        a_rewrite_leaves_out_facts_of_a_location_that_is_not_kept 100 \
        ms__copy_since 'ms__kept_find(c, m.location, &k)' '(k = NULL, true)'
    control date_of_a_model_ends_anywhere gcc test_request \
        thinking_goes_to_its_model_alone_whatever_its_date 100 \
        ms__same_model 'return n == rest.len ||' 'return n <= rest.len ||'
    control salvage_conflicts_with_its_own_mend gcc test_log_recover \
        a_salvaged_log_is_replaced_when_a_byte_of_its_fixed_part_is_flipped 100 \
        ms__hold_both 'uint64_t mark = ms__load_mark(w->old->map.super + MS__AT_MARK);' \
        'uint64_t mark = w->old->map.marked;'
    control replaced_source_replaces gcc test_rewrite \
        a_source_that_was_replaced_replaces_no_file_of_its_path 100 \
        ms__hold_both 'if (log && !w->made) MS__TRY(ms__hold_current(w, log, err));' ''
    control replaced_source_makes_no_backup gcc test_rewrite \
        a_source_that_was_replaced_replaces_no_file_of_its_path 100 \
        ms__hold_current ' || !ms__log_is(w->old, &st)' ''
    control salvage_of_an_empty_file_replaces gcc test_log_index \
        salvage_of_an_empty_file_replaces_none_that_has_messages_since 100 \
        ms__hold_both '|| w->made ||' '|| !log->map.super || w->made ||'
    control salvage_overlooks_a_writer gcc test_log_index \
        salvage_replaces_no_file_that_has_more_since 100 \
        ms__salvage_holds '&& line == log->map.seen_line' '&& line == line'
    control reading_begins_after_a_loss gcc test_silent \
        a_window_of_lost_numbers_is_reported 100 \
        ms__log_seek 'f->past == MS__NO_PLACE && ms__segment_lost(l) > 0' 'false'
    control reading_begins_after_a_damaged_one gcc test_log_index \
        a_window_of_one_damaged_message_is_reported_beside_a_damaged_index 100 \
        ms__segment_from_nth 'ms__segment_nth(l, k - 1)) + 1' 'ms__segment_nth(l, k))'
    control changes_cut_off_forgotten gcc test_silent \
        a_message_found_by_its_number_may_lack_a_change_that_was_cut_off 100 \
        ms__apply_visible 'if (MS__CHANGES && code == MS_OK && lost && !ms__bloom_fill(log))' 'if (false)'
    control truncated_room_mapped gcc test_log_index \
        a_writer_goes_on_when_room_was_cut_off 100 \
        ms__writer_prepare 'if (log->append.stop > st.size) log->append.stop = st.size;' ''
    control salvage_follows_overwritten gcc test_log_index \
        salvage_tells_when_a_writer_overwrites_its_records 100 \
        ms__log_follow 'log->map.salvaged ?' 'false ?'
    control damaged_change_not_reported gcc test_log_index \
        queries_report_a_damaged_change_whether_of_a_location_or_of_all 100 \
        ms__list_iter_shown 's->damaged_ranges++;' ''
    control silent_answer_ends_a_turn gcc test_request thinking_of_the_running_turn_is_sent_or_reported 100 \
        ms__running_turn ' || ms__is_silent(last)' ''
    control anothers_thinking_is_an_answer gcc test_request thinking_of_the_running_turn_is_sent_or_reported 100 \
        ms__thought_of 'if (ms__is_anothers(p, m)) return NULL;' ''
    control thinking_alone_is_not_counted gcc test_request thinking_of_the_running_turn_is_sent_or_reported 100 \
        ms__silent_drop 'p->report.dropped +=' '(void)'
    control silent_turn_is_the_newest gcc test_request thinking_of_the_running_turn_is_sent_or_reported 100 \
        ms__project_write 'ms__end_trim(p);' ''
    control thinking_after_a_text_counts gcc test_request thinking_of_the_running_turn_is_sent_or_reported 100 \
        ms__group_thinks 'return false; /* it must be first */' '(void)p;'
    control system_text_ends_a_turn gcc test_request thinking_of_the_running_turn_is_sent_or_reported 100 \
        ms__same_turn 'g->kind == MS__ITEM_SYSTEM' 'false'
    control request_without_a_model gcc test_request \
        request_is_refused_when_its_model_or_max_tokens_is_missing 100 \
        ms__request_check 'ms__is_blank(desc->opts.model)' 'false'
    control request_without_max_tokens gcc test_request \
        request_is_refused_when_its_model_or_max_tokens_is_missing 100 \
        ms__max_tokens_check '!given && most == 0' 'false'
    control thinking_takes_all_tokens gcc test_request \
        request_is_refused_when_its_model_or_max_tokens_is_missing 100 \
        ms__max_tokens_check 'budget < most' 'true'
    control max_tokens_of_the_profile_left_out gcc test_request \
        request_has_only_what_its_provider_needs_when_nothing_is_given 100 \
        ms__request_tail 'p->profile->max_tokens > 0' 'false'
    control max_tokens_written_twice gcc test_request \
        request_is_refused_when_its_model_or_max_tokens_is_missing 100 \
        ms__request_tail '!ms__extra_max_tokens(desc, &value)' 'true'
    control tools_of_another_provider gcc test_request \
        request_is_refused_when_its_tools_have_the_form_of_another_provider 100 \
        ms__tool_check 'ms__has_word(wire->tool_members, ms_str_of(f->member))' 'true'
    control tool_of_the_responses_api gcc test_request \
        request_is_refused_when_its_tools_have_the_form_of_another_provider 100 \
        ms__tool_check '(items || !function)' 'true'
    control request_of_an_empty_history gcc test_request \
        request_is_refused_when_nothing_of_its_history_is_sent 100 \
        ms__project_write 'whole && ms__is_empty_history(p)' 'false'
    control system_prompt_is_a_history gcc test_request \
        request_is_refused_when_nothing_of_its_history_is_sent 100 \
        ms__is_empty_history 'p->pinned->first->text.text.ptr == p->opts.system.ptr' 'false'
    control unread_location_is_unknown gcc test_request \
        request_is_refused_when_nothing_of_its_history_is_sent 100 \
        ms__request_empty 'memory && ms_next(it)' 'false'
    control profile_without_a_place_for_system_text gcc test_request \
        request_of_any_profile_is_written_or_refused 100 \
        ms__profile_check '!ms__system_apart(profile) &&' 'false &&'
    control profile_with_pictures_by_url gcc test_request \
        request_of_any_profile_is_written_or_refused 100 \
        ms__profile_check 'profile->images && profile->image_urls && !wire->url' 'false'
    control system_member_that_a_wire_has_not gcc test_request \
        request_of_any_profile_is_written_or_refused 100 \
        ms__request_check 'ms__system_apart(desc->profile) && !wire->prompt' 'false'
    control assistant_text_stays_last gcc test_request \
        request_ends_with_the_user_when_a_profile_has_an_end_text 100 \
        ms__text_ends '!p->profile->end_text ||' 'true ||'
    control end_text_behind_results gcc test_request \
        request_ends_with_the_user_when_a_profile_has_an_end_text 100 \
        ms__text_ends '|| g->has_calls' ''
    control raw_blocks_for_any_provider gcc test_answer \
        block_of_another_kind_is_kept_when_it_comes 100 \
        ms__item_as_raw 'ms__is_own(p, m)' 'true'
    control first_of_raw_blocks_alone gcc test_compact \
        all_items_of_a_compaction_are_sent 100 \
        ms__out_values "*at != ','" 'true'
    control tail_of_a_compaction_from_a_format gcc test_compact \
        tail_stays_when_a_compaction_was_read_from_a_format 100 \
        ms__compaction_add 'ms_member(m,' 'ms_json_member(m->extra,'
    control raw_blocks_are_not_counted gcc test_answer \
        block_of_another_kind_is_kept_when_it_comes 100 \
        ms__item_as_raw 'p->report.raw_left_out++;' ''
    control citations_are_lost gcc test_answer \
        answer_is_sent_back_when_it_was_stored_whole_or_cut_anywhere 4 \
        ms__answer_part_cited 'if (list->len == 0) return;' 'return;'
    control members_of_a_block_are_lost gcc test_answer \
        answer_is_sent_back_when_it_was_stored_whole_or_cut_anywhere 4 \
        ms__answer_keeps 'ms__answer_has_more(block, held)' 'false'
    control first_attempt_stays gcc test_answer \
        answer_begins_anew_when_a_second_message_starts 100 \
        ms__answer_event 'if (inner.ptr && wire->anew && a->parts) ms__answer_void(a);' ''
    control begun_messages_of_the_first_attempt_stay gcc test_answer \
        answer_begins_anew_when_a_second_message_starts 100 \
        ms__answer_void 'if (a->code == MS_OK) a->code = ms_hide(a->desc.store, part->seq, err);' ''
    control arguments_in_parts_are_whole gcc test_answer \
        call_is_not_run_when_its_arguments_are_not_whole 100 \
        ms__answer_messages 'a->whole = a->whole && !part->open;' ''
    control arguments_that_do_not_fit gcc test_answer \
        call_is_not_run_when_its_arguments_are_not_whole 100 \
        ms__answer_part_args '!fine || code != MS_OK' 'false'
    control done_is_no_end gcc test_answer stream_ends_with_done_alone 100 \
        ms__answer_byte 'a->done = 0;' 'a->done = 0; return false;'
    control calls_without_tools_for_bedrock gcc test_answer exception_of_bedrock_is_a_refusal 100 \
        ms__project_write 'ms__has_rule(p->wire, MS__TOOLS_NEEDED)' 'false'
    control exception_of_bedrock_is_no_answer gcc test_answer exception_of_bedrock_is_a_refusal \
        100 ms__answer_refused 'it.key.len > 11' 'false'
    control second_item_of_an_index_is_lost gcc test_answer items_of_one_index_are_all_kept 100 \
        ms__answer_item 'part = ms__answer_part_make(a, kind, index);' 'return;'
    control answer_that_was_cut_off_has_calls gcc test_answer \
        call_is_not_run_when_its_answer_was_cut_off 100 \
        ms__answer_messages '!(a->out.calls > 0 && ms__answer_cut(a))' 'true'
    control items_at_the_end_are_lost gcc test_answer \
        items_that_come_only_at_the_end_are_kept 100 \
        ms__answer_responses '(all ? !ms__answer_item_has(a, index) : index >= a->n_parts)' 'false'
    control items_at_the_end_come_twice gcc test_answer \
        items_that_come_only_at_the_end_are_kept 100 \
        ms__answer_responses 'bool all = !a->at_once || ms__answer_further(a, it);' \
        'bool all = true;'
    control compaction_of_a_stream_is_empty gcc test_answer compaction_of_a_stream_is_whole 100 \
        ms__answer_anthropic 'ms__answer_part_members(a, other, delta, "type");' ''
    control compaction_begins_as_a_block gcc test_answer \
        compaction_of_a_stream_is_one_when_it_is_done 100 \
        ms__answer_place '!ms_json_string_is(ms__json_path(item, "type"), MS_STR("compaction"))' \
        'true'
    control call_without_a_name_is_left_out gcc test_answer \
        call_without_a_name_makes_the_answer_incomplete 100 \
        ms__answer_messages ' && a->nameless == 0' ''
    control step_that_has_only_begun_is_gone gcc test_answer \
        steps_are_made_of_their_deltas 100 \
        ms__answer_step 'else ms__answer_place(a, part, step);' ''
    control half_of_a_pair_makes_arguments_text gcc test_answer \
        arguments_are_json_when_they_have_half_of_a_pair 100 \
        ms__answer_messages 'm->type == MS_T_ACTION && !part->custom' 'false'
    control content_of_a_failed_compaction_is_gone gcc test_answer \
        compaction_of_a_stream_is_whole 100 \
        ms__answer_part_later 'if (!values[i].ptr)' 'if (false)'
    control computer_without_a_screen gcc test_answer \
        results_of_computers_and_searches_are_their_own 100 \
        ms__reply 'call->reply = NULL;' ''
    control search_of_the_server_is_a_call gcc test_answer \
        results_of_computers_and_searches_are_their_own 100 \
        ms__answer_item_kind '(*i + 1 == n && !ms__is_client_search(item))' 'false'
    control members_of_a_step_come_twice gcc test_answer steps_are_made_of_their_deltas 100 \
        ms__answer_step_ends 'later = ms_str_equal(ahead.key, it.key);' ''
    control step_needs_no_end gcc test_answer steps_are_made_of_their_deltas 100 \
        ms__answer_messages 'a->whole = a->whole && !part->open;' ''
    control arguments_of_a_hosted_step_are_lost gcc test_answer steps_are_made_of_their_deltas 100 \
        ms__answer_step_ends 'if (parsed) ms__answer_put(a, &all, args);' \
        'ms__answer_put(a, &all, MS_STR("{}"));'
    control steps_of_the_client_come_again gcc test_answer \
        answer_is_sent_back_when_it_was_stored_whole_or_cut_anywhere 4 \
        ms__answer_interactions '!ms_json_string_is(of, MS_STR("user_input")) &&' ''
    control annotations_of_a_stream_are_lost gcc test_answer \
        answer_is_sent_back_when_it_was_stored_whole_or_cut_anywhere 4 \
        ms__answer_contents 'ms__answer_put(a, &notes, each.value);' 'notes.len = 0;'
    control pictures_of_a_step_are_not_counted gcc test_answer \
        pictures_in_a_step_are_counted_for_another_provider 100 \
        ms__item_leaves 'f->kind != MS__PART_TEXT' 'false'
    control items_that_were_read_are_made_anew gcc test_project \
        items_that_were_read_go_back_as_they_were 100 \
        ms__item_whole 'whole = p->whole;' ';'
    control items_have_members_of_the_caller gcc test_project \
        items_that_were_read_go_back_as_they_were 100 \
        ms__item_view 'm->extra = m->location = m->agent_key = ms__absent();' ''
    control edited_items_keep_their_ids gcc test_request \
        item_that_was_read_is_made_anew_when_it_was_edited 100 \
        ms__item_read '(ms_flags(msg) & (MS_FLAG_AMENDED | MS_FLAG_REDACTED))' 'false'
    control items_of_responses_are_made_anew gcc test_answer \
        answer_is_sent_back_when_it_was_stored_whole_or_cut_anywhere 4 \
        ms__item_whole 'item->raw = whole;' ''
    control items_that_are_done_come_twice gcc test_answer \
        answer_is_sent_back_when_it_was_stored_whole_or_cut_anywhere 4 \
        ms__answer_item 'part->bufs[MS__ANSWER_BODY].len = 0;' ''
    control result_of_a_shell_is_that_of_a_function gcc test_answer \
        answer_is_sent_back_when_it_was_stored_whole_or_cut_anywhere 4 \
        ms__item_whole 'item->reply = t->reply,' ''
    control calls_without_ids_have_none gcc test_request \
        results_find_calls_without_ids_in_any_order 100 \
        ms__pending_copy 'out->id = ms__id_own(p, &m);' 'out->id = m.call_id;'
    control tail_is_one_shorter gcc test_compact messages_appended_meanwhile_stay 100 \
        ms__compact_count 'if (m.seq == upto) *covered = ms__covered_sum(&m);' \
        'if (m.seq == upto) --*n;'
    control covered_again_for_hidden_ones gcc test_compact \
        covered_messages_stay_covered_when_kept_ones_are_hidden 100 \
        ms__compaction_kept 'found = true;' ''
    control equal_of_the_last_covered gcc test_compact \
        tail_is_counted_when_it_has_the_last_covered_message_again 100 \
        ms__compact_count 'else if (*covered && ms__covered_is(&m, *covered)) *covered = 0;' ''
    control equal_call_with_an_id gcc test_compact \
        tail_is_counted_when_it_has_the_last_covered_call_with_an_id 100 \
        ms__compact_count 'ms__covered_is(&m, *covered)' 'ms__covered_sum(&m) == *covered'
    control summary_of_another_agent gcc test_compact \
        compaction_of_another_agent_changes_nothing 100 \
        ms__compaction_add '!ms_str_equal(m->agent_key, reader)' 'false'
    control items_for_any_provider gcc test_compact \
        compaction_that_a_provider_made_goes_back_to_it 100 \
        ms__compaction_add 'ms__signed(p, m).ptr' 'true'
    control covered_to_an_open_call gcc test_compact open_work_is_never_covered 100 \
        ms__compact_cover 'item->kind == MS__ITEM_CALL && !result' 'false'
    control appended_meanwhile_is_covered gcc test_compact messages_appended_meanwhile_stay 100 \
        ms__compact_count 'q->after_seq = upto - 1;' 'q->after_seq = upto + 4;'
    control thinking_behind_a_summary gcc test_compact \
        thinking_of_the_tail_is_sent_where_it_may_be 100 \
        ms__group_asked 'g->number < p->since' 'false'
    control interrupted_summary_is_used gcc test_compact interrupted_compaction_is_passed_over 100 \
        ms__compaction_add \
        'if (!counts || (m->flags & (MS_FLAG_UNFINISHED | MS_FLAG_REDACTED))) return;' \
        'c->item = item; item->kind = MS__ITEM_USER;'
    control compaction_without_keep_covers_all gcc test_compact \
        compaction_without_a_usable_keep_is_passed_over 100 \
        ms__compaction_add '!counts ||' 'false && counts ||'
    control missing_tail_is_not_counted gcc test_compact \
        messages_that_a_compaction_keeps_are_counted_when_missing 100 \
        ms__compaction_use 'if (c->keep > there)' 'if (false)'
    control maker_of_items_is_lost_in_a_format gcc test_compact \
        items_go_back_to_their_maker_when_they_were_read_from_a_format 100 \
        ms__signed '!ms_member(m, MS_STR("signed"), &all)' \
        '!m->extra.ptr || !ms_json_member(m->extra, MS_STR("signed"), &all)'
    control plain_summary_gets_words gcc test_compact plain_summary_has_its_own_words 100 \
        ms__compaction_add 'ms_json_kind_of(plain) != MS_JSON_TRUE' 'true'
    control late_result_is_covered gcc test_compact \
        cut_never_stands_between_a_call_and_its_result 100 \
        ms__item_stays '{item, item->result}' '{item, NULL}'
    control covered_behind_a_late_result gcc test_compact \
        late_result_goes_with_its_call_alone 100 \
        ms__compaction_put 'if (!ms__group_stays(g, seq, read)) {' \
        'if (p->last == p->pinned && !ms__group_stays(g, seq, read)) {'
    control covered_beside_a_late_result gcc test_compact \
        late_result_has_the_thinking_of_its_answer 100 \
        ms__compaction_put 'if (seq ? first->seq < seq : first->read < read)' 'if (false)'
    control thinking_of_a_late_result_is_lost gcc test_compact \
        late_result_has_the_thinking_of_its_answer 100 \
        ms__group_reduce 'if (thinks && !leads)' 'if (false)'
    control thinking_before_a_late_result_is_sent gcc test_compact \
        thinking_before_a_late_result_is_left_out 100 \
        ms__late_results 'item->thinking_check->late = true' \
        'item->thinking_check->late = false'
    control full_arena_of_a_summary_has_no_error gcc test_compact \
        summary_without_room_writes_the_error 100 \
        ms__compact_body 'code = ms__no_arena(err, arena, summary->len + items->len);' \
        'code = room;'
    control runtime_store_is_covered gcc test_compact \
        compaction_covers_no_message_of_a_runtime_store 100 \
        ms__item_stays 'of[i]->runtime ||' 'false ||'
    control numbers_of_two_stores_are_compared gcc test_compact \
        compaction_covers_no_message_of_a_runtime_store 100 \
        ms__compact_cut '!own || g->first->seq > last' 'g->first->seq > last'
    control plan_covers_a_runtime_store gcc test_compact \
        plan_covers_nothing_when_all_is_in_a_runtime_store 100 \
        ms__compact_cover 'item->runtime || (result && result->runtime)' 'false'
    control result_in_a_runtime_store_is_covered gcc test_compact \
        compaction_covers_no_group_that_a_runtime_store_continues 100 \
        ms__compact_cover '|| (result && result->runtime)' ''
    control compaction_of_a_runtime_store_is_used gcc test_compact \
        compaction_in_a_runtime_store_is_refused_or_passed_over 100 \
        ms__compaction_add 'if (p->runtime) return;' ''
    control compaction_is_answered_to_a_runtime_store gcc test_compact \
        compaction_in_a_runtime_store_is_refused_or_passed_over 100 \
        ms__answer_messages 'a->merged &&' 'false &&'
    control answer_passes_the_runtime_store gcc test_request \
        loop_over_a_runtime_store_is_as_one_over_the_store 100 \
        ms__answer_target 'memory->runtime != memory->store ? memory->runtime : NULL' \
        'memory->store'
    control answer_to_no_runtime_store gcc test_request \
        answer_is_refused_when_its_memory_has_no_runtime_store 100 \
        ms_answer_begin '!ms__answer_target(desc)' 'false'
    control ignored_answer gcc test_request \
        answer_is_stored_where_a_memory_ignores_what_is_added 100 \
        ms__answer_target 'memory->runtime_mode != MS_RUNTIME_MERGE' \
        'memory->runtime_mode == MS_RUNTIME_STORE'
    control tail_of_a_cursor_is_what_it_reads gcc test_compact \
        cursor_of_the_caller_has_the_tail_of_its_location 100 \
        ms__store_of 'it ? it->store' 'it ? NULL'
    control tail_of_a_history_is_what_it_reads gcc test_compact \
        cursor_of_the_caller_has_the_tail_of_its_location 100 \
        ms__store_of 'memory ? memory->store' 'it && memory ? NULL : memory ? memory->store'
    control compaction_of_several_locations_is_used gcc test_compact \
        compaction_is_read_from_a_cursor_of_one_location 100 \
        ms__compaction_use '!c->item || p->several' '!c->item'
    control cut_off_summary_is_stored gcc test_compact wrong_compactions_are_refused 100 \
        ms__compact_body 'ms__stop_cuts(ms_str_of(out->stop))' 'false'
    control interrupted_text_runs_on gcc test_thinking thinking_is_sent_only_where_it_stood 100 \
        ms__text_ends 'g->last->unfinished &&' 'false &&'
    control window_moves_in_a_turn gcc test_thinking thinking_is_sent_only_where_it_stood 100 \
        ms__window_start 'end = end->begin;' ''
    control window_that_began_elsewhere gcc test_thinking thinking_is_sent_only_where_it_stood 100 \
        ms__bound_turns '!ms__window_begins(p, start, before) ||' ''
    control results_shortened_since gcc test_thinking thinking_is_sent_only_where_it_stood 100 \
        ms__bound_turns 'then != old' 'false'
    control thinking_behind_an_edit gcc test_thinking thinking_is_sent_only_where_it_stood 100 \
        ms__bound_turns 'if (edited) p->edited = g->number;' ''
    control speaker_inside_a_loop gcc test_thinking thinking_is_sent_only_where_it_stood 100 \
        ms__turns_find 'inside && p->wire->after' 'false'
    control empty_reasoning_is_left_out gcc test_thinking \
        reasoning_of_each_turn_with_calls_goes_back 100 \
        ms__emit_turns 'p->profile->thinking_always' 'false'
    control reasoning_of_old_turns gcc test_thinking \
        thinking_of_the_turns_that_the_policy_names_is_sent 100 \
        ms__group_asked 'p->thinking == MS_THINKING_CALLS' 'false'
    control answered_call_waits gcc test_request \
        calls_wait_until_they_have_a_result_or_their_agent_went_on 100 \
        ms__pending_list 'if (w->call->result) continue;' ''
    control abandoned_call_waits gcc test_request \
        calls_wait_until_they_have_a_result_or_their_agent_went_on 100 \
        ms__pending_list '!ms__is_newest_answer(p, w->call->group)' 'false'
    control interrupted_turn_waits gcc test_request \
        calls_wait_until_they_have_a_result_or_their_agent_went_on 100 \
        ms__pending_run 'ms__turns_divide(p, p->first);' ''
    control call_of_a_joined_turn_is_abandoned gcc test_request \
        calls_wait_until_they_have_a_result_or_their_agent_went_on 100 \
        ms__is_newest_answer 'agent->turn->first->joined' 'false'
    control truncated_call_waits gcc test_request \
        call_that_is_cut_off_is_counted_and_not_listed 100 \
        ms__pending_list 'ms_flags(w->msg) & MS_FLAG_UNFINISHED' 'false'
    control interrupted_call_takes_the_result gcc test_request \
        calls_wait_until_they_have_a_result_or_their_agent_went_on 100 \
        ms__call_open '!at->unfinished || call->unfinished' 'true'
    control system_text_of_a_report_is_the_caller_s gcc test_lifetimes \
        'requests_keep_nothing_of_their_arguments on heap' 100 \
        ms__project_write '!ms__keep_copy(p->arena, &p->report.system)' 'false'
    control delegation_waits gcc test_request \
        calls_come_as_the_model_made_them 100 \
        ms__pending_read '|| last->delegation' ''
    control call_as_the_provider_has_it gcc test_request \
        calls_come_as_the_model_made_them 100 \
        ms__pending_copy 'm.type == MS_T_ACTION' 'false'
    control calls_beside_damage gcc test_request \
        calls_are_not_listed_when_a_message_is_damaged_or_an_argument_is_missing 100 \
        ms_pending 'if (code != MS_OK) memset(out, 0, sizeof *out);' 'if (code == MS_E_DAMAGED) code = MS_OK;'
    control answer_of_another_provider_unnamed gcc test_answer \
        error_of_a_provider_is_reported_when_it_answers_with_one 100 \
        ms__answer_incomplete 'if (a->other)' 'if (false)'
    control missing_reason_to_stop_unnamed gcc test_answer \
        error_of_a_provider_is_reported_when_it_answers_with_one 100 \
        ms__answer_incomplete 'a->begun || a->known' 'false'
    control page_of_a_proxy_is_bad_json gcc test_answer \
        error_of_a_provider_is_reported_when_it_answers_with_one 100 \
        ms__answer_event 'a->code == MS_E_SYNTAX' 'false'
    control white_space_is_a_body gcc test_answer \
        error_of_a_provider_is_reported_when_it_answers_with_one 100 \
        ms__answer_begins "if (a->n_begins > 0 || (unsigned char)bytes.ptr[i] > ' ')" ''
    control query_without_views_ignores_its_agent gcc test_views \
        agents_select_by_writer_when_a_query_has_no_views 100 \
        ms__resolve 'q->views == 0 && q->agent_key.ptr;' 'false;'
    control query_without_views_ignores_its_team gcc test_views \
        agents_select_by_writer_when_a_query_has_no_views 100 \
        ms__resolve 'if (q->n_agent_keys > 0) q->views |= MS_VIEW_TEAM;' ''
    control writer_has_traces_alone gcc test_views \
        agents_select_by_writer_when_a_query_has_no_views 100 \
        ms__resolve 'writer ? MS_TYPES_ALL : MS_TYPES_AGENT' 'MS_TYPES_AGENT'
    control types_of_raw_queries_not_tested gcc test_twin logs_and_twin_agree 10 \
        ms__passes 'if (!(MS_BIT(ms_type_of(msg)) & q->types)) return false;' ''
    control buffer_without_an_arena gcc test_json buffer_without_an_arena_takes_no_text 100 \
        ms_buf_write 'if (!b->arena) return MS_E_ARENA;' ''
    control type_taken_as_a_set gcc test_bad_input \
        a_type_is_refused_where_a_set_of_types_is_needed 100 \
        ms__query_check '(q->types | q->agent_types) & (MS_BIT(1) - 1)' 'false'
    control even_type_taken_as_a_set gcc test_bad_input \
        a_type_is_refused_where_a_set_of_types_is_needed 100 \
        ms__query_check '& (MS_BIT(1) - 1)' '& 65'
    control memory_stores_what_is_ignored gcc test_memory \
        'memory/an_added_message_is_ignored_when_the_memory_says_so' 100 \
        ms_memory_add 'memory->runtime_mode == MS_RUNTIME_IGNORE' 'false'
    control memory_without_room gcc test_request \
        request_over_a_memory_is_as_one_over_the_store 100 \
        ms__history_open 'if (!memory->arena)' 'if (false)'
    control memory_without_thinking gcc test_request \
        request_over_a_memory_is_as_one_over_the_store 100 \
        ms__history_open 'if (desc->opts.thinking)' 'if (false)'
    control text_beside_a_call_counts gcc test_request newest_counts_messages 100 \
        ms__item_count '!item->part' '1'
    control delegation_without_a_tool gcc test_request \
        delegation_is_answered_by_a_result_of_its_tool 100 \
        ms__item_as_delegation 'item->tool = item->named =' 'item->tool ='
    control result_without_room gcc test_ffi \
        change_is_made_or_refused_when_memory_ends 100 \
        ms_ffi__call 'ms_result code = ms_ffi__room(f, 0);' 'ms_result code = MS_OK;'
    control usage_sum_wraps gcc test_ffi \
        usage_is_the_largest_number_when_sums_do_not_fit 100 \
        ms_ffi__add 'n < UINT64_MAX - *sum ? *sum + n : UINT64_MAX' '*sum + n'
    control first_item_of_a_compaction_alone gcc test_compact \
        items_of_a_compaction_are_sent_whole 100 \
        ms__out_values 'at = ms__skip_space(stop, end);' 'break;'
    control prompt_is_needed_by_the_flat_interface gcc test_ffi \
        compaction_is_planned_asked_for_and_stored 100 \
        ms_ffi__compact_request 'f->prompt.ptr ? f->prompt : MS_STR(MS_COMPACT_PROMPT)' \
        'f->prompt'
    control answer_without_bytes_is_one gcc test_ffi compaction_has_what_it_is_given 100 \
        ms_ffi__compact 'f->body.len > 0' 'f->body.ptr'
    control due_compaction_is_not_told gcc test_ffi \
        compaction_is_planned_asked_for_and_stored 100 \
        ms_ffi__report 'f->report.compaction_due' 'false'
    control plan_of_cohere_is_lost gcc test_answer \
        streamed_answer_stays_one_turn_whoever_writes_beside_it 100 \
        ms__answer_cohere 'm, "tool_plan"' 'm, "plan"'
    control error_of_cohere_is_no_answer gcc test_answer \
        error_of_a_provider_is_reported_when_it_answers_with_one 100 \
        ms__answer_refused '"delta.error"' '"delta.fault"'
    control hash_of_what_was_sent_is_lost gcc test_ffi \
        request_names_the_response_before 100 \
        ms_ffi__sent_of 'ms_json_u64(of, &out->of) == MS_OK' 'true'
    control cache_of_the_flat_interface_is_lost gcc test_ffi \
        request_has_cache_breakpoints_and_a_key 100 \
        ms_ffi__ask 'f->ask.opts.cache = (ms_cache)f->cache;' ''
    control empty_list_widens_a_query gcc test_ffi \
        query_returns_nothing_when_a_list_is_empty 100 \
        ms_ffi__select '&& q->views == 0;' '&& false;'
    control first_argument_counts gcc test_ffi the_last_of_equal_arguments_counts 100 \
        ms_ffi__take '(void)ms_json_member(args, ms_str_of(row->name), &value);' \
        '{ ms_json_iter each = ms_json_iterate(args); while (ms_json_next(&each) &&
           each.key.ptr != name.ptr) {} value = each.value; }'
    control split_goes_far_in_bad_bytes gcc test_shorten \
        split_moves_by_few_bytes_when_they_are_not_utf8 100 \
        ms__split_outwards 'ms__chars_end(s, 0, head - moved, &ignored)' \
        'at - 1; while (at > 0 && ((unsigned char)s.ptr[at] & 0xC0) == 0x80) at--'
    control usage_sum_of_zero gcc test_answer usage_is_noted_when_its_sum_is_too_large 100 \
        ms__answer_note 'u->input_tokens | u->output_tokens' \
        'u->input_tokens + u->output_tokens'
    control ring_drops_within_a_turn gcc test_ring a_ring_is_as_a_list_that_drops 10 \
        ms__ring_choose 'if (!r || !ms__turn_begins(turn, user, last)) continue;' \
        'break;'
    control ring_keeps_changes_of_dropped gcc test_ring a_ring_is_as_a_list_that_drops 10 \
        ms__ring_keeps_change 'if (!loc->all.first) return false;' 'return true;'
    control ring_cursor_not_stopped gcc test_ring a_ring_is_as_a_list_that_drops 10 \
        ms__ring_stands 'it->now >> 32 == m->drops' 'true'
    control ring_redaction_reads_moved_bytes gcc test_ring \
        a_redaction_erases_its_message_alone 100 \
        ms_redact 'ms__get(store, seq, &own, &msg, err)' 'MS_OK'
    control ring_moved_under_a_search gcc test_ring \
        a_search_ends_when_messages_are_dropped 100 \
        ms__find_same '!hooks->stands' 'true'
    control ring_moved_under_a_union gcc test_ring \
        a_union_keeps_its_messages_when_a_ring_drops_them 100 \
        ms__union_moves '!hooks || hooks->stands' '!hooks'
    control ring_keeps_bytes_of_a_refused_append gcc test_ring \
        a_redaction_erases_its_message_alone 100 \
        ms__ring_move '(m->tail.names.top - end)' '(im.end - end)'
    control ring_leaves_borrowed_texts gcc test_ring \
        a_message_made_of_another_moves_with_it 10 \
        ms__text_move '(const char *)to + at' 'text->ptr'
    control ring_forgets_numbers gcc test_ring numbers_go_on_when_all_is_dropped 10 \
        ms__ring_enter 'if (m->tail.names.last_seq >= given) return;' 'return;'
    control flash_of_another_format_taken gcc test_flash flash_of_another_format_or_sector_size_is_refused 1 \
        ms__sector_header '!whole || *holds' 'true'
    control flash_commit_not_checked gcc test_flash nothing_acknowledged_is_lost_in_power_losses 40 \
        ms__frame_holds 'ms__get32(bytes) == crc && ms__get32(bytes + 4) == ~crc' 'true'
    control flash_sector_not_retired gcc test_flash nothing_acknowledged_is_lost_in_power_losses 100 \
        ms__flash_settle 'if (!f->program(f->ctx, next * f->sector_size, h, MS__SECTOR_HEADER))' \
        'if (false)'
    control flash_not_read_back gcc test_flash a_flash_that_lies_is_noticed 40 \
        ms__burn_put ' && memcmp(back, from, n) == 0' ''
    control flash_facts_not_kept gcc test_flash nothing_acknowledged_is_lost_in_power_losses 40 \
        ms__flash_leave 'return ms__frame_put(m, NULL, 0, err);' 'return MS_OK;'
    control flash_units_programmed_twice gcc test_flash nothing_acknowledged_is_lost_in_power_losses 40 \
        ms__flash_scan 'if (used) f->at = at + step;' 'if (frame) f->at = at + step;'
    control flash_messages_not_dropped gcc test_flash nothing_acknowledged_is_lost_in_power_losses 40 \
        ms__flash_leave 'if (first < x || ms__facts_size(m) > most)' 'if (ms__facts_size(m) > most)'
    control flash_key_of_a_dropped_message gcc test_flash a_key_stands_for_its_newest_message 40 \
        ms__ring_adopt 'if (k) k->entry' 'if (false) k->entry'
    control image_records_not_checked gcc test_mem_image damage_is_found_at_any_byte 20 \
        ms__check_header 'if (!ms__header_holds(r, seed))' 'if (0)'
    control image_header_not_checked gcc test_mem_image damage_is_found_at_any_byte 20 \
        ms__image_header 'im->header_known = ms__get32(h + 32) == ms__crc32c(0, h, 24);' \
        'im->header_known = true;'
    control image_zeros_not_checked gcc test_mem_image damage_is_found_at_any_byte 20 \
        ms__image_header 'if (h[i] != 0)' 'if (0)'
    control image_end_not_checked gcc test_mem_image damage_is_found_at_any_byte 20 \
        ms__image_header 'im->end_known = ms__get32(h + 36) == ms__crc32c(0, h + 16, 16) &&' \
        'im->end_known ='
    control image_records_may_repeat gcc test_hostile image_does_no_harm_when_its_bytes_lie 100 \
        ms__image_record 'if (r[4] == MS__KIND_MESSAGE && e.seq <= im->last_seq)' 'if (0)'
    control heap_in_a_buffer gcc test_mem_buffer a_store_in_a_buffer_calls_no_heap_function 100 \
        ms__arena_fixed 'a->buffer_used += pad + size;' \
        'a->buffer_used += pad + size; free(malloc(1));'

    # What is read.

    control union_backwards_is_forwards gcc test_union unions_and_twins_agree 10 \
        ms__union_next 'it, run, q->reverse, NULL)' 'it, run, false, NULL)'
    control escaped_text_not_found gcc test_find any_spelling_in_json_is_found 100 \
        ms__find_over 'if (!*stop && !n->plain) *stop = ms__spelled_at(n, p, end);' ''
    control another_users_key_found gcc test_session \
        user_reaches_own_sessions_only_when_names_look_alike 100 \
        ms_session_lookup 'if (ms__starts_with(place, prefix)) {' 'if (true) {' \
        ms_session_lookup 'if (ms_str_equal(key, ms_str_n(text, len))) return code;' \
        'return code;'
    control end_of_a_stream_lost gcc test_change stream/a_stream_ends_with_its_text 100 \
        ms_stream_end 'ms_str_n(stream->pending, stream->n_pending), 0, arena,' \
        'ms_str_of(NULL), 0, arena,'
    control changed_task_has_any_members gcc test_task \
        task/change_is_refused_when_it_does_not_fit 100 ms__task_changed \
        'if (m->extra.ptr) MS__TRY(ms__field_check(m, MS_F_EXTRA, err));' ''
    control shortened_message_has_any_members gcc test_shorten \
        message_is_refused_when_its_extra_is_no_object 100 ms_shorten_message \
        'if (m->extra.ptr) MS__TRY(ms__field_check(m, MS_F_EXTRA, err));' ''
    control model_lost_without_memory gcc test_answer \
        answer_has_its_model_or_is_refused_when_memory_ends 100 ms__answer_word \
        'ms__answer_no_memory(a, v.len);' '(void)0;'
    control call_without_memory_takes_a_number gcc test_format \
        call_gets_the_id_of_its_number_when_it_is_put_again 100 ms__identified \
        'if (code != MS_OK) w->last_id = last;' ''
    control another_tasks_message_found gcc test_task task/message_is_found_when_asked_by_id 100 \
        ms__task_numbered 'ms_str_equal(ms__location(*msg), task_id) &&' ''
    control view_of_another_agent gcc test_twin arena_stores_and_twin_agree 10 \
        ms__view_iters 'l ? &l->conversation : NULL, err));' \
        'l ? &l->all : NULL, err));'

    controls_of_the_tool
    controls_of_the_bindings
}

# ---- all of them

# chosen [NAME ...]: "NAME VARIANT PROGRAM" of all controls, or of those.
chosen()
{
    step=list
    controls | awk -v names="$*" '
        BEGIN { n = split(names, asked, " "); for (i in asked) want[asked[i]] = 1 }
        n == 0 || $1 in want'
}

# sample: of the lines of stdin about CONTROL_SAMPLE, at equal distances. The first one
# moves on by a line each day.
sample()
{
    awk -v n="${CONTROL_SAMPLE:-0}" -v day=$(($(date +%s) / 86400)) '
        { line[NR] = $0 }
        END {
            step = n > 0 && NR > n ? int(NR / n) : 1
            for (i = 1 + day % step; i <= NR; i += step) print line[i]
        }'
}

# Lets a test program run only the tests that MS_TEST_ONLY, a pattern, names.
# shellcheck disable=SC2086
make_filter()
{
    cat >"$base/only.c" <<'END'
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>
__attribute__((constructor)) static void only(void)
{
    if (getenv("MS_TEST_ONLY")) cmocka_set_test_filter(getenv("MS_TEST_ONLY"));
}
END
    ${CC:-cc} $flags $includes -c -o "$base/only.o" "$base/only.c"
}

# The header as it is, once a variant; then each program with the tests that the chosen
# controls ask of it; then the copies.
main()
{
    rm -rf "$base" && mkdir -p "$base" && make_filter || exit 1
    rm -f "$out"/*.result
    if [ $# -gt 0 ]; then chosen "$@"; else chosen | sample; fi >"$out/chosen"
    for name in "$@"; do
        grep -q "^$name " "$out/chosen" || say FAIL "$name" 'there is no such control'
    done
    # shellcheck disable=SC2013
    for variant in $(awk '{ print $2 }' "$out/chosen" | sort -u); do
        prepare "$variant" || exit 1
    done
    awk '{ print $2 ":" $3 }' "$out/chosen" | sort -u |
        xargs -P "$jobs" -I '{}' bash tests/run/controls.sh --base '{}'
    awk '{ print $1 }' "$out/chosen" |
        xargs -P "$jobs" -I '{}' bash tests/run/controls.sh --one '{}'
    while read -r name _; do
        [ -s "$out/$name.result" ] || say FAIL "$name" 'it left no result'
    done <"$out/chosen"
    passed=$(cat "$out"/*.result | grep -c '^ok ')
    failed=$(cat "$out"/*.result | grep -c '^FAIL ')
    skipped=$(cat "$out"/*.result | grep -c '^skip ')
    echo "tally: negative controls $passed"
    [ "$skipped" -eq 0 ] || echo "tally: negative controls skipped $skipped"
    echo "$passed passed, $failed failed$([ "$skipped" -eq 0 ] || echo ", $skipped skipped")"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

case ${1:-} in
--fits)
    step=fits
    shift
    wanted=$*
    mkdir -p "$out"
    controls
    ;;
--edits)
    step=edits
    controls
    ;;
--one | --base)
    step=${1#--} wanted=$2
    controls
    ;;
*) main "$@" ;;
esac
exit
