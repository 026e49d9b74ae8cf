#!/usr/bin/env bash
# The page of msgstore report without a browser: exit codes, what is never overwritten, that
# the data in the page is JSON and whole, that content cannot leave its place in the page,
# that secrets are masked, that equal input gives equal pages. How the page behaves in a
# browser is tests/report/test.mjs, `make test-report`.
. "$(dirname "$0")/tool_checks.sh"


# data PAGE: the JSON in it. Deflated data gets the header of a gzip file; what gzip
# complains of is the missing end.
data()
{
    local packed
    packed=$(sed -n 's/.*<script id="data" type="application\/octet-stream">\([^<]*\)<.*/\1/p' "$1")
    if [ -n "$packed" ]; then
        { printf '\037\213\010\0\0\0\0\0\0\003'; printf '%s' "$packed" | base64 -d; } |
            gzip -dcq 2>/dev/null
    else
        sed -n 's/.*<script id="data" type="application\/json">\([^<]*\)<.*/\1/p' "$1"
    fi
}

# has NAME PAGE PATTERN, lacks NAME PAGE PATTERN: of the page's data.
has()
{
    if data "$2" | grep -qaE -e "$3"; then ok "$1"; else fail "$1" "no '$3' in the data"; fi
}

lacks()
{
    if data "$2" | grep -qaE -e "$3"; then fail "$1" "'$3' is in the data"; else ok "$1"; fi
}


# ---- The command.

page=$tmp/page.html
check report_writes_a_page 0 '[0-9]+ messages, ' '' report $demo -o "$page"
input='{"type":"final_answer","content":"yes"}\n' \
    check report_counts_one_message 0 '1 message, ' '' report - -o "$tmp/one.html"
check report_replaces_a_page 0 '[0-9]+ messages, ' '' report $demo -o "$page"
cp "$page" "$tmp/again.html"
run report $demo -o "$page"
equal report_is_equal_when_input_is_equal "$page" "$tmp/again.html"
prints report_goes_to_a_pipe "$page" report $demo
check report_takes_long_option 0 '^wrote ' '' report $demo --output "$tmp/long.html"

printf 'my notes\n' >"$tmp/notes.txt"
check report_keeps_another_file 5 '' 'it stays' report $demo -o "$tmp/notes.txt"
same report_kept_it "my notes" "$(cat "$tmp/notes.txt")"
"$tool" import "$tmp/demo.log" $demo >/dev/null 2>&1
check report_keeps_a_log 5 '' 'it stays' report $demo -o "$tmp/demo.log"
check report_refuses_a_folder 1 '' 'directory' report $demo -o "$tmp"
check report_of_a_log 0 '^wrote ' '' report "$tmp/demo.log" -o "$tmp/log.html"
check report_of_two 0 '^wrote ' '' report "$tmp/demo.log" $demo -o "$tmp/two.html"
check report_location_unknown 4 '' 'no messages of location' \
    report $demo --location nobody -o "$tmp/x.html"

# ---- The page: one policy, nothing from elsewhere.

same page_has_one_policy 1 "$(grep -c "default-src 'none'" "$page")"
same page_loads_nothing "" "$(sed '/id="data"/d' "$page" |
    grep -oE '(src|href)="?(https?:)?//[^" ]*|@import|url\([^)]*\)' | head -n 3)"

# ---- The data.

has data_is_one_object "$page" '^\{"tool":"msgstore .*\}$'
data "$page" >"$tmp/data.json"
has data_has_both_runs "$tmp/two.html" '"name":"demo.log".*"name":"demo.jsonl"'
has data_has_each_provider "$page" '"profile":"openai".*"profile":"anthropic"'
run report $demo --as anthropic -o "$tmp/one.html"
lacks provider_is_alone_when_named "$tmp/one.html" '"profile":"openai"'
run report $demo -n 2 -o "$tmp/few.html"
more=$(data "$page" | grep -o '"n":[0-9]*' | wc -l)
few=$(data "$tmp/few.html" | grep -o '"n":[0-9]*' | wc -l)
if [ "$few" -lt "$more" ] && [ "$few" -gt 0 ]; then
    ok messages_are_fewer_when_limited
else
    fail messages_are_fewer_when_limited "$few of $more"
fi

# ---- Content stays in its place.

input='{"type":"user_message","content":"</script><script>alert(1)</script><!--"}\n'
run report - --from framework -o "$tmp/hostile.html"
same content_ends_no_script 2 "$(grep -o '</script' "$tmp/hostile.html" | wc -l)"
has content_is_whole "$tmp/hostile.html" '(<|.u003c)/script>(<|.u003c)script>alert\(1\)'
input='{"type":"user_message","content":"hello"}\n'
printf "$input" >"$tmp/<b>&.jsonl"
run report "$tmp/<b>&.jsonl" --from framework -o "$tmp/title.html"
same title_is_escaped 1 "$(grep -c '<title>&lt;b>&amp;.jsonl</title>' "$tmp/title.html")"

# ---- Secrets. The token is put together here: it never was one.

token=gh"p_"R7kq2ZpX9vLm4TnB8wYc3HsJ6dFgQ1aEuV5o
input='{"type":"user_message","content":"use '$token' now, or ask jane@host.org"}\n'
input=$input'{"type":"action","tool":"t","args":{"key":"'$token'"},"agent_key":"a"}\n'
run report - --from framework -o "$tmp/masked.html"
lacks secret_is_masked "$tmp/masked.html" "$token"
has secret_is_marked "$tmp/masked.html" 'use \[masked github-token\] now, or ask jane@host.org'
has secrets_are_counted "$tmp/masked.html" '"kinds":\[\["github-token",[0-9]+\]\]'
run report - --from framework --show-secrets -o "$tmp/shown.html"
has secret_is_shown_when_asked_for "$tmp/shown.html" "$token"
run report - --from framework --personal -o "$tmp/personal.html"
has address_is_masked_when_asked_for "$tmp/personal.html" 'ask \[masked e-mail\]'

# ---- Hidden messages, notes, facts.

log=$tmp/demo.log
last=$("$tool" view "$log" | tail -n 1 | awk '{ print $1 }')
"$tool" hide "$log" "$last" >/dev/null 2>&1
"$tool" note "$log" 1 usage '{"input_tokens":900,"output_tokens":7}' --json >/dev/null 2>&1
"$tool" note "$log" 1 rating 5 --json >/dev/null 2>&1
run report "$log" -o "$tmp/changed.html"
has hidden_message_is_marked "$tmp/changed.html" "\"n\":$last,[^}]*\"h\":1"
has usage_is_a_row "$tmp/changed.html" '"usage":\[\[1,900,7,0,0,'
has note_is_there "$tmp/changed.html" '\{"n":1,"kind":"rating","v":"5"\}'

exit $failed
