# The negative controls of the command line tool and of the bindings. controls.sh takes
# this in; it stands apart as what it edits, builds and runs is not the header.
#
# A control of the variant tool edits copies of files of tools/. They are compiled and
# linked to the other objects of build/tool. Its suite is a script of tests/tool, which
# gets that tool in MSGSTORE and ends at the named test, or a program that is linked to
# parts of the tool. A control of the variant python edits a copy of the package
# bindings/python/msgstore; all copies call one library. Its suite is a file of
# bindings/python/tests. The flat interface, which all languages call, is edited by
# controls of controls.sh (ms_ffi__...).
# shellcheck shell=bash disable=SC2016,SC2154

# make_tool TARGET [VARIABLE=VALUE]
make_tool()
{
    MAKEFLAGS='' "${MAKE:-make}" -s -f tests/Makefile "$@" CC="${CC:-cc}"
}

# build_tool FOLDER SUITE: FOLDER/tool-SUITE is the tool with the edited files of the
# folder, or the program of that suite.
build_tool()
{
    local target=msgstore
    case $(suite_file "$2") in *.c) target=$2 ;; esac
    make_tool CONTROL="$1" "$1/$target" && ln -f "$1/$target" "$1/tool-$2"
}

# make_library: the library of the Python package, as its setup.py builds it, without -O2.
# shellcheck disable=SC2086
make_library()
{
    ${CC:-cc} -std=c99 -w -shared -fPIC -pthread -DNDEBUG -DMSGSTORE_IMPLEMENTATION \
        -DMSGSTORE_FFI_IMPLEMENTATION $stb -include ./msgstore.h \
        -x c bindings/msgstore_ffi.h -o "$base/libmsgstore.so"
}

# has_test VARIANT SUITE TEST: does its source name it?
has_test()
{
    local file name=$3
    case $1 in
    tool) file=$(suite_file "$2") ;;
    python) file=bindings/python/tests/$2.py ;;
    *) return 0 ;;
    esac
    case $3 in
    mcp_* | serve_*) # these are functions of a program in Python
        grep -qE "(^|[^a-z0-9_])$name([^a-z0-9_]|\$)" "$file" ||
            { file=tests/tool/${2#test_tool_}/checks.py name=${3#*_}; }
        ;;
    esac
    grep -qE "(^|[^a-z0-9_])$name([^a-z0-9_]|\$)" "$file"
}

# said TEST OUTPUT PASSED FAILED STATUS: what a suite said of a test, in the words that
# cmocka has for it. PASSED and FAILED are patterns of its lines.
said()
{
    if grep -qaE "$4" "$2"; then
        echo "[  FAILED  ] $1" >>"$2"
        return 1
    elif grep -qaE "$3" "$2"; then
        sed -i '/^skip/d' "$2" # what the suite leaves out beside it
        echo "[       OK ] $1" >>"$2"
        return 0
    fi
    return "$5"
}

# run_tool VARIANT PROGRAM-FILE TEST SCALE OUTPUT: as run(). With the tool as it is, a
# script runs once, to its end, for all tests that are asked of it.
run_tool()
{
    local suite=${2##*/tool-} until=$3 log=$5 status=0
    case $(suite_file "$suite") in
    *.c)
        run gcc "${@:2}"
        return
        ;;
    esac
    [ "${2%/*}" != "$base" ] || until='' log=$base/$suite.log
    if [ -n "$until" ] || [ ! -f "$log" ]; then
        (MSGSTORE=$2 MS_TEST_UNTIL=$until timeout -k 5 "$(limit_of tool)" \
            bash "$(suite_file "$suite")") >"$log" 2>&1 </dev/null || status=$?
    fi
    [ "$log" = "$5" ] || cp "$log" "$5"
    said "$3" "$5" "^ok $3\$" "^FAIL $3: " "$status"
}

# run_python VARIANT FILE TEST SCALE OUTPUT: as run().
run_python()
{
    local folder=${2%/*} file status=0
    file=$PWD/bindings/python/tests/${2##*/python-}.py
    if ! python3 -m pytest --version >/dev/null 2>&1; then
        echo 'skip python: there is no pytest' >"$5"
        return 0
    fi
    (PYTHONPATH=$folder/bindings/python MSGSTORE_LIBRARY=$PWD/$base/libmsgstore.so \
        PYTHONDONTWRITEBYTECODE=1 timeout -k 5 "$limit" python3 -m pytest -q \
        -p no:cacheprovider "$file::$3") >"$5" 2>&1 </dev/null || status=$?
    said "$3" "$5" '^[0-9]+ passed' "^FAILED .*::$3" "$status"
}

controls_of_the_tool()
{
    # What sync takes of transcripts, and what it notes.

    control unknown_entry_not_counted tool test_tool_transcripts \
        sync_counts_of_a_file_that_grew_what_is_new 100 \
        tools/trace.c:trace_unknown_at 't->desc.counts->unknown++;' ''
    control unknown_entry_dropped tool test_tool_formats \
        unknown_message_of_pi_is_kept_whole 100 \
        tools/trace.c:trace_unknown_at 'trace_put(t, &m);' ''
    control stored_message_not_found tool test_tool_transcripts \
        sync_stores_each_message_once_of_a_backup_and_a_copy_beside 100 \
        tools/identity.c:identity_find 'found != NULL ? found->value : 0' '0'
    control log_that_was_cut_is_empty tool test_tool_log \
        file_that_is_no_log_yet_is_not_called_whole 100 \
        tools/store.c:open_log 'if (desc.mode == MS_LOG_READ)' 'if (false)'
    control unread_lists_of_the_hidden_not_told tool test_tool_transcripts \
        sync_says_that_what_it_hid_cannot_be_read 100 \
        tools/identity.c:read_hidden 'all->unread = true;' ''
    control odd_row_hides_a_database tool test_tool_transcripts \
        odd_row_of_a_database_hides_no_other_one 100 \
        tools/read_crush.c:crush_shows '(session || role) &&' 'session && role &&'
    control rows_of_no_session_not_told tool test_tool_transcripts \
        odd_row_of_a_database_hides_no_other_one 100 \
        tools/sync.c:units_apart 'if (lost.rows > 0)' 'if (false)'
    control null_in_a_thought_is_unknown tool test_tool_transcripts \
        what_chatgpt_has_in_other_types_is_kept_and_counted 100 \
        tools/read_chatgpt.c:is_text_or_none 'is_kind(value, MS_JSON_NULL)' 'false'
    control unread_time_of_a_number_not_counted tool test_tool_transcripts \
        time_of_a_database_that_cannot_be_read_is_counted 100 \
        tools/trace.c:set_number_time \
        'trace_incomplete(t, MS_STR("time that cannot be read"));' '(void)t;'
    control infinity_is_a_number_of_json tool test_tool_transcripts \
        time_of_a_database_that_cannot_be_read_is_counted 100 \
        tools/database.c:put_row 'ms_json_check(value, NULL, NULL, NULL) == MS_OK' \
        'is_kind(value, MS_JSON_NUMBER)'
    control replaced_bytes_of_a_database_not_counted tool test_tool_transcripts \
        bytes_of_a_database_that_are_no_UTF_8_are_counted 100 \
        tools/database.c:put_row '!ms_utf8_check(value, NULL)' 'false'
    control orphans_of_cursor_not_counted tool test_tool_transcripts \
        bubbles_of_no_composer_are_counted_by_sync 100 \
        tools/read_cursor.c:cursor_read \
        'trace_incomplete(r->t, MS_STR("bubble of no composer"));' ''
    control unknown_rows_are_messages tool test_tool_transcripts \
        database_with_other_rows_is_refused 100 \
        tools/formats.c:rows_load 'bool rows = code == FINE &&' 'bool rows = false &&'
    control unknown_rows_of_a_session_refused tool test_tool_transcripts \
        session_of_a_database_with_other_rows_is_named_once_and_counted 100 \
        tools/formats.c:rows_load '|| session != NULL ||' '||'
    control orphans_of_a_tree_not_told tool test_tool_transcripts \
        what_a_tree_of_opencode_lacks_is_told 100 \
        tools/formats.c:describe_lost '} else if (n > 0) {' '} else if (false) {'
    control message_without_an_id_skipped tool test_tool_transcripts \
        what_a_tree_of_opencode_lacks_is_told 100 \
        tools/formats.c:grow_session 'g->damaged = true;' ''
    control unread_token_count_not_told tool test_tool_transcripts \
        token_count_that_cannot_be_read_is_counted 100 \
        tools/trace.c:tokens_of 'trace_incomplete(t, MS_STR("token count that cannot be' \
        '(void)(MS_STR("token count that cannot be'
    control huge_token_count_is_summed tool test_tool_transcripts \
        token_count_that_cannot_be_read_is_counted 100 \
        tools/trace.c:tokens_of 'number >= 0 && number <= 1e15' 'number >= 0'
    control strange_time_of_a_session_is_none tool test_tool_transcripts \
        row_of_a_database_that_grows_by_a_round_number_is_read_again 100 \
        tools/database.c:changed_of '(int64_t)(hash_text(ms_str_of(text)) >> 1)' '0'
    control time_of_a_session_ends_at_a_point tool test_tool_transcripts \
        row_of_a_database_whose_time_is_no_whole_number_is_read_again 100 \
        tools/database.c:changed_of "*end == '\\0'" "(*end == '\\0' || *end == '.')"
    control undo_without_a_count_is_silent tool test_tool_transcripts \
        what_kimi_code_cannot_mean_is_kept_and_counted 100 \
        tools/read_kimi.c:kimi_read \
        'text_is(type, "context.undo") && count_of(member(line, "count")) > 0' \
        'text_is(type, "context.undo")'
    control picture_of_a_result_dropped tool test_tool_transcripts \
        what_qwen_code_has_beside_a_call_or_result_is_kept 100 \
        tools/read_qwen.c:put_part '(acts && acts_more(part))' 'false'
    control answer_without_an_id_has_no_usage tool test_tool_transcripts \
        answer_of_qwen_code_without_an_id_has_its_usage 100 \
        tools/read_qwen.c:take_telemetry 'r->turn = id;' 'r->turn = r->turn;'
    control passed_over_in_silence tool test_tool_log \
        what_a_folder_has_without_messages_is_counted 100 \
        tools/intake.c:take_path 'if (passed.n > 0)' 'if (false)'
    control copy_of_the_first_page_not_seen tool test_tool_log \
        log_whose_first_page_is_damaged_is_read_by_its_copy 100 \
        tools/store.c:is_log '{0, 4096}' '{0, 0}'
    control redacted_message_comes_back tool test_tool_transcripts \
        sync_hides_what_is_gone_and_brings_back_nothing_redacted 100 \
        tools/trace.c:is_redacted '(flags & MS_FLAG_REDACTED) != 0 ||
           text_begins(ms_content(msg).text, MS_STR("[redacted]"))' 'false'
    control numbers_of_a_batch_not_noted tool test_sync \
        sync_has_nothing_twice_when_stopped_before_any_write 100 \
        tools/sync.c:put_from 'anywhere, records, b->n + 1,' 'anywhere, records, b->n,'
    control damaged_facts_of_a_file_believed tool test_sync \
        sync_refuses_a_file_when_its_facts_are_damaged 100 \
        tools/sync.c:read_state 'if (result == MS_OK) {' \
        'if (result == MS_E_DAMAGED) return MS_OK; if (result == MS_OK) {'
    control impossible_facts_of_a_file_believed tool test_sync \
        sync_refuses_a_file_when_its_facts_are_impossible 100 \
        tools/sync.c:sync_changed 'st->impossible' 'false'
    control unread_file_forgotten tool test_tool_transcripts \
        files_of_unknown_formats_are_named_by_sync 100 \
        tools/sync.c:note_unchanged 'if (facts->unread) note_unread_before(s, u);' ''
    control unread_file_passes_strictly tool test_tool_transcripts \
        files_of_unknown_formats_are_named_by_sync 100 \
        tools/sync.c:is_refused '(facts->bad > 0 || facts->unread || facts->cut)' \
        'facts->bad > 0'
    control old_entries_counted_as_new tool test_tool_transcripts \
        sync_counts_of_a_file_that_grew_what_is_new 100 \
        tools/trace.c:trace_is_fresh 'offset >= t->desc.done' 'true'
    control log_is_made_under_any_name tool test_tool_start \
        log_is_made_under_the_name_of_a_log 100 \
        tools/cmd_sync.c:run_sync '!is_log_name(j, o->files[0])' 'false'
    control broken_link_is_a_file tool test_tool_start \
        broken_link_of_a_folder_is_counted 100 \
        tools/files.c:entry_type 'lstat(path, &st) == 0 ? ENTRY_OTHER : ENTRY_FILE' \
        'ENTRY_FILE'

    # Tokens and costs, times and zones.

    control answer_counted_twice tool test_tool_transcripts \
        usage_counts_each_answer_once 100 \
        tools/trace.c:trace_use 'if (found != NULL) {' 'if (false) {' \
        tools/costs.c:collect 'if (found != NULL) {' 'if (false) {'
    control answer_of_a_copy_counted_twice tool test_tool_transcripts \
        sessions_have_their_own_tokens_when_one_repeats_the_other 100 \
        tools/costs.c:collect 'if (found != NULL) {' 'if (false) {'
    control short_id_is_of_all_sessions tool test_tool_transcripts \
        sessions_have_their_own_tokens_when_one_repeats_the_other 100 \
        tools/costs.c:answer_key '&& !each' ''
    control cost_of_a_transcript_replaced tool test_tool_usage \
        cost_of_a_transcript_is_never_replaced 100 \
        tools/costs.c:costs_apply 'if (!own[i] && prices_cost(' 'if (prices_cost('
    control unknown_cost_is_nothing tool test_tool_usage \
        cost_that_is_unknown_is_null_and_named 100 \
        tools/costs.c:row_of_note '!is_kind(v[N_COST], MS_JSON_NUMBER)' '0'
    control days_are_of_utc tool test_tool_usage days_are_those_of_the_zone 100 \
        tools/zone.c:local_day 'localtime_r' 'gmtime_r'
    control any_file_is_a_zone tool test_tool_start time_is_local_and_has_its_zone 100 \
        tools/zone.c:is_zone 'memcmp(mark, "TZif", sizeof mark) == 0' 'true'
    control message_without_a_time_left_out tool test_tool_start \
        messages_without_a_time_are_counted_when_times_are_asked_for 100 \
        tools/cmd_search.c:run_search \
        'if (code == FINE) complain_of_undated(j, &q.query);' ''
    control undated_message_not_erased tool test_tool_change \
        redact_counts_messages_that_a_time_cannot_choose 100 \
        tools/cmd_change.c:run_redact 'if (code == FINE) complain_of_kept(&s);' ''
    control last_location_alone_is_obeyed tool test_tool_change \
        command_refuses_a_location_that_it_would_not_obey 100 \
        tools/msgstore.c:check_session 'return bad_usage(c, "takes one --location", "");' ''
    control damaged_facts_take_a_session_along tool test_tool_change \
        damaged_facts_take_no_session_along 100 \
        tools/base.c:get_facts 'result == MS_E_DAMAGED' 'false'
    control part_of_a_name_keeps_nothing tool test_tool_log \
        compaction_keeps_what_its_options_choose 100 \
        tools/cmd_verify.c:run_compact 'if (code == FINE) code = check_locations(j);' ''
    control call_of_an_answer_is_another_answer tool test_tool_usage \
        answer_that_is_synced_in_parts_counts_once_with_its_last_report 100 \
        tools/costs.c:owner_of 'main_agent ? MS_STR("") : row->agent' 'row->agent'
    control trace_counts_an_answer_twice tool test_tool_usage \
        answer_that_is_synced_in_parts_counts_once_with_its_last_report 100 \
        tools/otlp.c:take_tokens 'row->count = i + 1' 'row->count = 0'
    control dates_have_no_summer_time tool test_tool_usage days_follow_summer_time 100 \
        tools/zone.c:local_time 't.tm_isdst = -1' 't.tm_isdst = 0'
    control milliseconds_are_seconds tool test_tool_usage \
        time_in_smaller_units_is_recognised \
        100 tools/costs.c:seconds_of 'time / 1000' 'time'
    control usage_of_hidden_answers_lost tool test_tool_start \
        compact_counts_the_usage_of_hidden_answers 100 \
        tools/cmd_verify.c:count_lost_usage 'costs_add(&lost->hidden, &rows[i])' '(void)0'

    # Exit codes, and what is damaged.

    control damage_is_success tool test_tool_change \
        damage_is_reported_beside_what_is_whole 100 \
        tools/base.c:exit_code 'return exit_codes[i].code;' \
        'return exit_codes[i].code == DAMAGED ? FINE : exit_codes[i].code;' \
        tools/store.c:close_job 'met_damage(j) || j->lossy || j->damage_told' 'false'
    control what_is_missing_is_a_failure tool test_tool_change \
        hide_takes_numbers_and_ranges 100 \
        tools/base.c:exit_code 'return exit_codes[i].code;' \
        'return exit_codes[i].code == NOT_FOUND ? FAILED : exit_codes[i].code;'
    control busy_is_a_failure tool test_tool_change \
        writer_waits_for_another_as_long_as_it_is_told 100 \
        tools/base.c:exit_code 'return exit_codes[i].code;' \
        'return exit_codes[i].code == BUSY ? FAILED : exit_codes[i].code;'
    control conflict_is_a_failure tool test_tool_change \
        fork_copies_a_location_up_to_a_message 100 \
        tools/base.c:exit_code 'return exit_codes[i].code;' \
        'return exit_codes[i].code == CONFLICT ? FAILED : exit_codes[i].code;'
    control closed_output_becomes_the_log tool test_tool \
        closed_output_is_no_file_of_the_tool 100 \
        tools/msgstore.c:main 'standard_files_keep();' ''
    control file_without_a_log_is_whole tool test_tool_log \
        file_that_is_no_log_yet_is_not_called_whole 100 \
        tools/cmd_verify.c:run_verify \
        'return output_end(&out, DAMAGED); /* in doubt */' ''
    control damaged_export_is_empty tool test_tool_doctor \
        a_damaged_message_is_left_out_and_the_rest_is_written 100 \
        tools/write.c:write_session 'bool begun = is_read(code);' \
        'bool begun = code == FINE;'
    control mended_file_is_written_over tool test_tool_doctor \
        doctor_writes_beside_a_file_and_never_over_one 100 \
        tools/cmd_doctor.c:fix 'there ? CONFLICT : fix_into(e, path)' 'fix_into(e, path)'
    control pipe_is_waited_for tool test_tool_doctor \
        pipe_is_an_error_when_nobody_writes_it 100 \
        tools/files.c:open_pipe 'clock_seconds() - began < PIPE_WAIT' 'true'
    control long_pipe_is_cut tool test_tool_transcripts \
        bomb_is_refused_by_its_size_or_on_the_way 100 \
        tools/files.c:file_read 'return too_long(name, "", "a pipe that comes");' 'break;'
    control archive_fills_the_memory tool test_tool_transcripts \
        zip_is_refused_when_it_unpacks_to_too_much 100 \
        tools/files.c:zip_each 'may -= f.text.len;' ''

    # Transcripts for other programs.

    control opaque_data_handed_over tool test_tool_doctor \
        data_that_only_its_program_reads_is_left_out_and_counted 100 \
        tools/write.c:left_out_as 'else if (is_opaque(m)) what = opaque_text;' ''
    control losses_of_a_hand_over_not_counted tool test_tool_doctor \
        what_a_format_has_no_place_for_is_counted 100 \
        tools/write.c:write_sessions 'else complain_of_losses(' 'if (false) complain_of_losses('
    control result_without_an_id_is_of_the_last_call tool test_tool_doctor \
        results_without_an_id_are_of_the_oldest_open_call 100 \
        tools/write.c:answered_call 'if (same && !found) {' 'if (false) {'
    control further_result_of_a_call_written tool test_tool_doctor \
        hand_over_writes_one_result_of_a_call_after_it 100 \
        tools/write.c:pair 'return false;' 'return true;'
    control file_is_handed_over_to_itself tool test_tool_doctor \
        hand_over_is_refused_and_leaves_the_file 100 \
        tools/cmd_hand_over.c:run_hand_over 'same_file(o->output, o->files[0])' 'false'
    control failed_file_replaces_the_old_one tool test_tool_doctor \
        hand_over_is_refused_and_leaves_the_file 100 \
        tools/files.c:new_file_end \
        'if (n->beside != NULL && (code == FINE || code == DAMAGED)) {' \
        'if (n->beside != NULL) {'
    control large_integers_are_doubles tool test_tool_change \
        diff_compares_large_integers_by_their_digits 100 \
        tools/cmd_diff.c:same_number 'same_digits(a, b)' 'true'

    # Keys and passwords, and text that a terminal obeys.

    control secrets_of_an_export_stay tool test_tool_doctor \
        export_masks_every_secret 100 \
        tools/write.c:mask 'if (!GIVEN(w->job->options, MASK_SECRETS)) return;' 'return;'
    control secrets_of_facts_stay tool test_tool_doctor export_masks_every_secret 100 \
        tools/write.c:take_facts 'GIVEN(w->job->options, MASK_SECRETS)' 'false'
    control secrets_of_a_report_stay tool test_report \
        secrets_are_masked_unless_they_are_asked_for 100 \
        tools/cmd_report.c:masked \
        'secrets_mask(value, r->classes, &r->scratch, note_secret, r, &out)' 'true'
    control secrets_of_other_requests_counted tool test_report \
        secrets_are_masked_unless_they_are_asked_for 100 \
        tools/cmd_report.c:note_secret 'if (r->copies) return;' ''
    control secret_in_escapes_not_found tool test_secrets \
        secrets_are_masked_whole_when_escapes_spell_them 100 \
        tools/secrets.c:find_once 'more; k++' 'more && k < 1; k++'
    control masked_text_not_searched_again tool test_secrets \
        masking_changes_nothing_when_a_text_was_masked_before 100 \
        tools/secrets.c:secrets_find 'i < TIMES && grown' 'i < TIMES && !grown'
    control half_of_two_secrets_stays tool test_secrets \
        addresses_are_masked_when_they_share_bytes 100 \
        tools/secrets.c:scan_next 'if (s->at <= s->done) continue;' 'if (out->at < s->done) continue;'
    control secrets_leave_by_mcp tool test_tool_mcp mcp_secrets_never_leave 100 \
        tools/questions.c:mask_text \
        'secrets_mask(value, a->classes, arena, note_secret, out, &value)' 'true'
    control secrets_in_names_leave_by_mcp tool test_tool_mcp \
        mcp_filters_match_what_is_shown 100 \
        tools/questions.c:short_text \
        'secrets_mask(value, a->classes, &a->job->arena, NULL, NULL, &value)' 'true' \
        tools/mcp.c:call_tool \
        'secrets_mask(text, s->desc->masked, &s->arena, NULL, NULL, &text)' 'true'
    control secrets_that_are_left_are_success tool test_tool_secrets \
        what_crashes_leave_is_searched_and_reported 100 \
        tools/leaks.c:print_left 'l->found > 0 ? FAILED : FINE' 'FINE'
    control message_with_a_secret_name_shown tool test_tool_secrets \
        names_are_reported_and_their_messages_hidden 100 \
        tools/leaks.c:erase_message '(m->value & HIDE) != 0' 'false'
    control escapes_reach_the_terminal tool test_tool \
        controls_never_reach_a_terminal 100 \
        tools/base.c:visible 'if (point < 0x20) return 0x2400 + point;' ''

    control follow_takes_changes_of_the_newest_alone tool test_tool_change \
        follow_shows_changes_of_older_messages 100 \
        tools/cmd_follow.c:follow_changes 'every.after_seq = f->after;' ''
    control follow_forgets_changes_of_a_replaced_log tool test_tool_change \
        follow_shows_changes_that_a_rewrite_takes_in 100 \
        tools/cmd_follow.c:follow_file 'int code = follow_changes(f, q, t, false);' \
        'int code = FINE;'
    control follow_takes_another_log_for_the_same tool test_tool_log \
        follow_shows_another_log_that_takes_the_place 100 \
        tools/follow.c:follow_compare 'memset(&f->all, 0, sizeof f->all);' ''
    control follow_shows_copied_changes_again tool test_tool_change \
        follow_shows_changes_that_a_rewrite_copies_once 100 \
        tools/follow.c:follow_align 'count_copied(was, handled, is, copy)' '0'
    control follow_takes_a_number_to_come_for_one_that_was tool test_tool_log \
        follow_begins_after_a_number_that_a_rewritten_log_has_not_yet 100 \
        tools/follow.c:follow_align 'c.reached && ' ''
    control follow_passes_over_an_older_file tool test_tool_log \
        follow_goes_on_from_an_older_file_that_is_put_back 100 \
        tools/follow.c:follow_align 'c.reached && c.seq < last' 'c.seq > last'
    control follow_forgets_messages_of_a_replaced_log tool test_tool_change \
        follow_shows_messages_that_a_compaction_drops 100 \
        tools/cmd_follow.c:follow_file 'code = follow_new(f, q, t);' 'code = FINE;'
    control follow_takes_a_number_for_a_message tool test_tool_log \
        follow_shows_the_other_messages_of_an_older_file 100 \
        tools/follow.c:follow_common ' || !is_same(x, y)' ''
    control follow_takes_a_rewrite_for_an_older_file tool test_tool_log \
        follow_goes_on_when_the_newest_message_was_dropped 100 \
        tools/follow.c:follow_align 'else if (older)' 'else'
    control follow_passes_over_changes_that_a_file_lacks tool test_tool_log \
        follow_tells_of_an_older_file_without_a_change 100 \
        tools/follow.c:follow_align 'copy && c.seq == last' 'c.seq > last'
    control follow_keeps_a_number_of_an_older_file tool test_tool_log \
        follow_goes_on_from_each_older_file 100 \
        tools/follow.c:follow_align 'if (f->after > c.seq) f->after = c.seq;' \
        'if (f->after > c.seq) t->printed = f->after;'
    control follow_takes_a_new_change_for_a_copied_one tool test_tool_change \
        follow_shows_a_change_that_repeats_an_earlier_one 100 \
        tools/follow.c:count_copied 'if (old[n_old - 1] == new[i]) copied' 'copied'
    control follow_shows_a_message_for_each_of_its_changes tool test_tool_change \
        follow_shows_a_message_once_in_a_look 100 \
        tools/cmd_follow.c:follow_shows 'number_put(&f->shown, seq);' ''
    control follow_waits_for_the_streams_it_read_alone tool test_tool_change \
        follow_shows_the_end_of_a_stream_from_before_it_began 100 \
        tools/cmd_follow.c:follow_shows ' || (seq < f->first && is_end(f, change))' ''
    control follow_takes_a_hidden_stream_for_a_lost_one tool test_tool_change \
        follow_forgets_a_stream_that_was_hidden 100 \
        tools/cmd_follow.c:follow_hide 'if (f->job->options->to != NULL) (void)follow_forget(f);' ''
    control follow_prints_records_of_all_turns tool test_tool_log \
        follow_filters_records 100 \
        tools/cmd_follow.c:follow_changes '!(raw && ms_query_match(&every, msg))' '!raw'
    control follow_prints_hidings_of_others tool test_tool_log \
        follow_passes_over_hidings_of_others 100 \
        tools/cmd_follow.c:follow_hide 'any && !followed' 'any && false'
    control follow_tells_of_damage_at_each_look tool test_tool_log \
        follow_goes_on_after_a_change_that_is_damaged 100 \
        tools/cmd_follow.c:follow_end ' && damaged == told' ' && damaged < told'
    control follow_ends_at_a_message_that_cannot_be_read tool test_tool_log \
        follow_goes_on_after_a_message_that_cannot_be_read 100 \
        tools/cmd_follow.c:follow_change 'return code == DAMAGED ? FINE : code;' \
        'return code;'

    # The page of serve.

    control any_token_is_right tool test_tool_serve \
        serve_nothing_leaves_without_the_token 100 \
        tools/web.c:has_token 'differ == 0' 'true'
    control any_origin_is_served tool test_tool_serve \
        serve_other_hosts_and_origins_get_nothing 100 \
        tools/web.c:is_own_origin 'o.hosts == 1 && !o.other' 'true'
    control every_address_is_served tool test_tool_serve serve_only_loopback_listens 100 \
        tools/web.c:listen_on 'INADDR_LOOPBACK' 'INADDR_ANY'
    control answer_that_takes_long_is_cut_off tool test_tool_serve \
        serve_answer_that_takes_long_is_whole 100 \
        tools/web.c:on_request 's->clients[i].since += took;' '(void)took;'
    control connection_beyond_the_most_is_reset tool test_tool_serve \
        serve_connections_beyond_the_most_wait_for_their_turn 100 \
        tools/web.c:wait_and_run 'connections >= WEB_CONNECTIONS' 'false'
    control session_is_lost_with_its_message tool test_tool_serve \
        serve_session_is_the_data_of_a_report 100 \
        tools/cmd_serve.c:answer_session 'numbered = result == MS_OK;' ''
    control bad_utf8_of_a_transcript_is_not_told tool test_tool_transcripts \
        bad_utf8_of_a_transcript_is_counted 100 \
        tools/formats.c:check_value 'in->counts->repaired++;' ';'
    control time_that_cannot_be_read_is_not_told tool test_tool_transcripts \
        time_that_cannot_be_read_is_counted 100 \
        tools/trace.c:trace_time_iso 'value.ptr == NULL ||' 'true ||'
    control file_cut_short_is_told_once tool test_tool_transcripts \
        rest_of_a_compressed_file_is_read_when_it_ends_early 100 \
        tools/sync.c:note_unchanged 's->cut_before += facts->cut;' ''
    control file_cut_short_is_empty tool test_tool_transcripts \
        rest_of_a_compressed_file_is_read_when_it_ends_early 100 \
        tools/sync.c:sync_loaded 's->empty += loaded != DAMAGED &&' 's->empty +='
    control damage_beside_titles_is_not_told tool test_tool_transcripts \
        damage_is_told_beside_titles_times_and_commands 100 \
        tools/cmd_sessions.c:is_known 'j->damage_told = true;' ''
    control session_beside_damage_is_resumed tool test_tool_transcripts \
        damage_is_told_beside_titles_times_and_commands 100 \
        tools/cmd_sessions.c:is_partial 'return past || side || (!known && msg == NULL);' \
        'return known && (past || side);'
    control damage_beside_a_list_is_no_warning tool test_tool_mcp \
        mcp_damage_beside_what_is_listed_is_a_warning 100 \
        tools/cmd_sessions.c:take_words \
        'is_known(l->job, ms_cursor_close(&it, &err), &err);' \
        'ms_cursor_close(&it, &err);'
    control damage_of_a_page_is_in_the_page_alone tool test_tool_transcripts \
        damage_is_told_beside_titles_times_and_commands 100 \
        tools/cmd_report.c:close_query 'r->job->damage_told = true;' ''
    control call_before_the_page_is_none tool test_report \
        result_names_its_call_before_the_page 100 \
        tools/cmd_report.c:put_messages 'skip <= CALLS_BEFORE' 'skip == 0'
    control unread_places_are_not_in_the_page tool test_report \
        runs_of_damaged_files_are_in_the_page 100 \
        tools/cmd_report.c:put_run \
        'r->job->rescue.places + r->job->counts.bad_lines' '0'
}

controls_of_the_bindings()
{
    control surrogate_becomes_another_character python test_store \
        test_a_lone_surrogate_is_refused_where_it_is 100 \
        bindings/python/msgstore/_ffi.py:encode \
        '"replace" if mend else "strict"' '"replace"'
    control number_that_json_has_not_is_written python test_store \
        test_what_json_has_not_is_refused_where_it_is 100 \
        bindings/python/msgstore/_ffi.py:_refused 'not part - part == 0' 'False'
    control iteration_of_a_closed_store_goes_on python test_store \
        test_an_iteration_raises_once_the_store_is_closed 100 \
        bindings/python/msgstore/store.py:messages \
        'self._open  # refuses once it is closed' 'pass'
    control error_loses_its_path python test_store test_error_names_the_field 100 \
        bindings/python/msgstore/_ffi.py:_result 'failure.get("path")' 'None'
    control folder_is_a_damaged_log python test_store test_a_folder_is_no_log 100 \
        bindings/python/msgstore/_ffi.py:_of_file 'os.path.isdir(path)' 'False'
    control none_is_every_location python test_adapters \
        test_adapters_refuse_none_for_a_location 100 \
        bindings/python/msgstore/adapters/_items.py:location_of \
        'not isinstance(name, str)' 'False'
    control closed_store_is_called python test_store test_closed_store_refuses 100 \
        bindings/python/msgstore/store.py:_open 'self._handle.closed' 'False' \
        bindings/python/msgstore/_ffi.py:call 'if self._closed:
                raise' 'if False:
                raise'
    control union_frees_its_members python test_store \
        test_union_keeps_its_stores_open 100 \
        bindings/python/msgstore/_ffi.py:_free_if_idle ' and not self._unions' ''
    control missing_file_is_a_missing_message python test_store \
        test_a_missing_file_is_a_file_not_found_error 100 \
        bindings/python/msgstore/_ffi.py:_of_file \
        'isinstance(found, NotFoundError)' 'False'
    control deep_message_overflows_the_stack python test_store \
        test_too_deep_a_message_is_an_argument_error 100 \
        bindings/python/msgstore/_ffi.py:encode \
        'except RecursionError:' 'except EOFError:'
    control text_is_a_list_of_names python test_store \
        test_a_text_is_no_list_of_names 100 \
        bindings/python/msgstore/store.py:_words 'isinstance(words, str)' 'False'
    control page_ends_the_iteration python test_store \
        test_iteration_reads_every_page 100 \
        bindings/python/msgstore/store.py:messages \
        'at_once or len(page.seqs) < PAGE' 'True'
    control key_has_the_name_of_c python test_store \
        test_errors_name_the_key_as_messages_do 100 \
        bindings/python/msgstore/store.py:append 'raise _of_key(error) from None' 'raise'
    control answer_is_repeated_for_its_usage python test_store \
        test_an_answer_is_not_repeated_for_its_usage 100 \
        bindings/python/msgstore/_ffi.py:_waiting 'error.path == "usage" or ' ''
    control iteration_passes_over_damage python test_store \
        test_damage_shows_in_iterations_searches_and_listings 100 \
        bindings/python/msgstore/store.py:messages 'if damaged:' 'if False:'
    control search_hides_its_damage python test_store \
        test_damage_shows_in_iterations_searches_and_listings 100 \
        bindings/python/msgstore/store.py:_found 'result.get("damaged", 0)' '0'
    control text_is_a_list_of_locations python test_store \
        test_a_text_is_no_list_of_locations 100 \
        bindings/python/msgstore/store.py:_kept '_words("locations", locations)' \
        'list(locations)'
    control rewind_to_nothing_hides_all python test_store \
        test_a_rewind_to_nothing_hides_nothing 100 \
        bindings/python/msgstore/store.py:rewind 'if seq is None:' 'if False:'
    control wait_for_a_lock_is_one_slice python test_store \
        test_lock_is_waited_for_in_full \
        100 bindings/python/msgstore/_ffi.py:_waiting 'time.monotonic() + seconds' \
        'time.monotonic()'
}
