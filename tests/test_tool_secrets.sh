#!/usr/bin/env bash
# Secrets in a log, and out of it: msgstore redact --secrets shows them wherever they stand
# (messages, hidden ones, earlier words, notes, facts), erases or masks them; exports mask.
# What finds them is tests/test_secrets.c. The tokens are put together here: they never were
# any.
. "$(dirname "$0")/tool_checks.sh"

token=gh"p_"R7kq2ZpX9vLm4TnB8wYc3HsJ6dFgQ1aEuV5o
second=npm"_"q8Zt3LxC5vB9nM2kJ7hG4fD1sA6pO0iUyTrE

# fresh: $log with secrets in all places.
log=$tmp/leak.log
fresh()
{
    rm -f "$log"
    cat >"$tmp/leak.jsonl" <<END
{"type":"user_message","content":"use $token now","location":"a"}
{"type":"action","tool":"bash","agent_key":"w","args":{"command":"x $token"},"tool_call_id":"1","location":"a"}
{"type":"observation","content":"ok","agent_key":"w","tool_call_id":"1","location":"a","env":{"T":"$token"}}
{"type":"user_message","content":"nothing, but jane@host.org","location":"b"}
{"type":"user_message","content":"hide $token","location":"b"}
{"type":"user_message","content":"amend $token","location":"b"}
{"type":"user_message","content":"noted","location":"b"}
END
    "$tool" import "$log" "$tmp/leak.jsonl" --from framework --lenient >/dev/null 2>&1
    "$tool" hide "$log" 5 >/dev/null
    "$tool" amend "$log" 6 'amended' >/dev/null
    "$tool" note "$log" 7 review "\"$second\"" --json >/dev/null
    "$tool" location "$log" b "{\"title\":\"with $second\",\"cwd\":\"/tmp\"}" >/dev/null
}

# clean NAME: does the file have none of the tokens?
clean()
{
    if grep -qaE "$token|$second" "$log"; then fail "$1" "the file has a token"; else ok "$1"; fi
}

fresh
cp "$log" "$tmp/before.log"
check secrets_are_shown 0 '^found      7 in 5 messages: 5 github-token, 2 npm-token$' '' redact "$log" --secrets
places=$(awk '$1 ~ /^[0-9-]+$/ { printf "%s %s %s|", $1, $2, $3 }' "$tmp/out")
for place in '1 now content' '2 now args' '3 now source' '5 hidden content' \
    '6 earlier content' '7 note content' '- facts content'; do
    case "|$places" in
    *"|$place|"*) ok "secrets_have_places_$place" ;;
    *) fail "secrets_have_places_$place" "places are $places" ;;
    esac
done
if grep -q "$token" "$tmp/out"; then fail secrets_are_not_printed whole; else ok secrets_are_not_printed; fi
equal nothing_is_written_without_apply "$log" "$tmp/before.log"
check location_is_chosen 0 '^found      3 in 3 messages' '' redact "$log" --secrets --location a
check location_is_refused 4 '' 'no messages of' redact "$log" --secrets --location nobody
check addresses_are_found_when_asked_for 0 '^found      8 .* 1 e-mail' '' redact "$log" --secrets --personal
check numbers_are_refused 2 '' 'takes no numbers' redact "$log" 17 --secrets
check views_are_refused 2 '' 'takes no numbers' redact "$log" --agent w --secrets

check secrets_are_erased 0 '^erased     5 messages$' '' redact "$log" --secrets --apply
check erased_ones_are_gone 0 '^found      2 in 0 messages' '' redact "$log" --secrets
check facts_are_masked 0 '"title":"with \[masked npm-token\]"' '' location "$log" b
check other_facts_stay 0 '"cwd":"/tmp"' '' location "$log" b
check other_messages_stay 0 'nothing, but jane@host.org' '' export "$log"
run compact "$log" "$log" --replace
clean file_has_none_when_erased_and_compacted

fresh
check secrets_are_masked 0 '^masked     3 messages$' '' redact "$log" --secrets --mask-secrets --apply
check masked_message_keeps_the_rest 0 '"content":"use \[masked github-token\] now"' '' export "$log"
check masked_arguments_are_json 0 '"args":\{"command":"x \[masked github-token\]"\}' '' export "$log"
check masked_member_is_json 0 '"env":\{"T":"\[masked github-token\]"\}' '' export "$log"
check masking_again_finds_less 0 '^found      7 in 2 messages' '' redact "$log" --secrets
run redact "$log" --secrets --apply
run compact "$log" "$log" --replace
clean file_has_none_when_masked_and_compacted

fresh
for args in 'export' 'export --format openai' 'convert --to anthropic'; do
    # shellcheck disable=SC2086
    run $args "$log" --mask-secrets
    if [ "$status" -ne 0 ]; then
        fail "masked_$args" "exit code $status: $(head -n 1 "$tmp/err")"
    elif grep -q "$token" "$tmp/out" || ! grep -q 'masked github-token' "$tmp/out"; then
        fail "masked_$args" "a token, or no mark"
    else
        ok "masked_$args"
    fi
done
counts masked_file_keeps_other_messages 1 'jane@host.org' \
    convert --from framework --to framework "$tmp/leak.jsonl" --mask-secrets
found_by masked_file_has_no_token 0 "$token"

exit $failed
