#!/usr/bin/env bash
# msgstore usage: prices of the table and of --prices, tokens that stay in a cache for an
# hour, tiers of long requests, costs and totals that transcripts have, unknown costs, and
# days, weeks and months of a time zone.
. "$(dirname "$0")/tool_checks.sh"
unset TZ TZDIR

# answer ID MODEL TIME USAGE [MORE]: a line of Claude Code with the tokens of one answer.
answer()
{
    printf '{"type":"assistant","uuid":"u%s","parentUuid":null,"sessionId":"s","cwd":"/w/p","timestamp":"%s"%s,"message":{"id":"m%s","role":"assistant","model":"%s","content":[{"type":"text","text":"hi"}],"usage":{%s}}}\n' \
        "$1" "$3" "${5:-}" "$1" "$2" "$4"
}

# money FILE ARGUMENTS: the cost and the unpriced answers of the total.
money()
{
    "$tool" usage --json "$@" 2>/dev/null |
        sed 's/.*"total"://; s/.*"cost":\([^,]*\),"unpriced_answers":\([0-9]*\).*/\1 \2/'
}

noon=2026-05-11T12:00:00Z
million='"input_tokens":0,"output_tokens":0,"cache_creation_input_tokens":1000000'
{
    answer 1 x $noon "$million,\"cache_creation\":{\"ephemeral_5m_input_tokens\":400000,\"ephemeral_1h_input_tokens\":600000}"
    answer 2 x $noon '"input_tokens":150000,"output_tokens":1000,"cache_read_input_tokens":50000'
    answer 3 x $noon '"input_tokens":150001,"output_tokens":1000,"cache_read_input_tokens":50000'
} >"$tmp/rates.jsonl"
for n in 1 2 3; do sed -n "${n}p" "$tmp/rates.jsonl" >"$tmp/rate$n.jsonl"; done
cat >"$tmp/list" <<'END'
{"x": {"input_cost_per_token": 1e-6, "output_cost_per_token": 10e-6,
       "cache_read_input_token_cost": 0.1e-6, "cache_creation_input_token_cost": 1.25e-6,
       "cache_creation_input_token_cost_above_1hr": 2e-6,
       "input_cost_per_token_above_200k_tokens": 2e-6,
       "output_cost_per_token_above_200k_tokens": 20e-6,
       "cache_read_input_token_cost_above_200k_tokens": 0.2e-6},
 "y": {"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6,
       "cache_creation_input_token_cost": 1.25e-6}}
END
sed 's/"model":"x"/"model":"y"/' "$tmp/rate1.jsonl" >"$tmp/hour.jsonl"

two='"input_tokens":1000000,"output_tokens":0'
answer 1 claude-opus-4-6 $noon "$two" ',"costUSD":0.5' >"$tmp/own.jsonl"
answer 1 claude-opus-4-6 $noon "$two" ',"costUSD":0' >"$tmp/free.jsonl"
answer 1 no-such-model $noon "$two" >"$tmp/unknown.jsonl"
{ cat "$tmp/own.jsonl"; answer 2 no-such-model $noon "$two"; } >"$tmp/some.jsonl"
# A cost of many digits, and names as long as a note takes them.
long()
{
    printf "%0$2d" 0 | tr 0 "$1"
}
printf '{"type":"assistant","uuid":"u1","parentUuid":null,"sessionId":"s","timestamp":"%s","costUSD":0.%s,"message":{"id":"%s","role":"assistant","model":"%s","content":[{"type":"tool_use","id":"c","name":"%s","input":{}}],"usage":{%s}}}\n' \
    $noon "$(long 1 1100)" "$(long m 299)" "$(long x 299)" "$(long B 299)" "$two" >"$tmp/digits.jsonl"
names='claude-opus-4-6 claude-opus-4-6-20991231 claude-opus-4-6[1m] anthropic/claude-opus-4-6 openrouter/anthropic/claude-opus-4-6'
for name in $names; do answer "${name//[^a-z0-9]/}" "$name" $noon "$two"; done >"$tmp/names.jsonl"
for name in claude opus-4-6 claude-opus-4-60 claude-opus-4-6-fast; do
    answer "$name" "$name" $noon "$two"
done >"$tmp/others.jsonl"

# done_with DOLLARS: the end of a run, with what the session has cost so far.
done_with()
{
    printf '{"type":"result","subtype":"success","result":"hi","sessionId":"s","uuid":"r%s","total_cost_usd":%s}\n' "$1" "$1"
}
{ sed 's/"costUSD":[0-9.]*,//' "$tmp/digits.jsonl"; done_with "0.$(long 2 1100)"; } >"$tmp/digits-total.jsonl"
{
    answer 1 claude-opus-4-6 $noon "$two"
    answer 2 claude-sonnet-4-6 $noon "$two"
    done_with 16
    answer 3 claude-opus-4-6 $noon "$two"
    done_with 17
} >"$tmp/totals.jsonl"
{ cat "$tmp/totals.jsonl"; answer 4 claude-opus-4-6 $noon "$two"; done_with 3; } >"$tmp/again.jsonl"
{ answer 1 odd $noon "$two"; answer 2 claude-opus-4-6 $noon "$two"; done_with 4; } >"$tmp/odd.jsonl"
head -n 2 "$tmp/totals.jsonl" >"$tmp/grows.jsonl"

{
    answer 1 x 2026-01-04T23:30:00Z "$two"
    answer 2 x 2026-01-31T22:30:00Z "$two"
    answer 3 x 2026-03-29T00:30:00Z "$two"
} >"$tmp/days.jsonl"
answer 1 x 2026-06-30T22:30:00Z "$two" >"$tmp/summer.jsonl"
log=$tmp/grows.log

session <<'END'
== tokens_that_stay_for_an_hour_have_their_own_price
$ money $tmp/rate1.jsonl --prices $tmp/list => ^1\.700000 0$
usage $tmp/rate1.jsonl --json => "cache_write_tokens":1000000,"cache_write_1h_tokens":600000
# without one: 1.6 times that of five minutes
$ money $tmp/hour.jsonl --prices $tmp/list => ^1\.700000 0$

== long_request_has_the_price_above_its_limit
$ money $tmp/rate2.jsonl --prices $tmp/list => ^0\.165000 0$
$ money $tmp/rate3.jsonl --prices $tmp/list => ^0\.330002 0$

== cost_of_a_transcript_is_never_replaced
$ money $tmp/own.jsonl => ^0\.500000 0$
$ money $tmp/own.jsonl --prices $tmp/list => ^0\.500000 0$
$ money $tmp/free.jsonl => ^0\.000000 0$

== cost_that_is_unknown_is_null_and_named
$ money $tmp/unknown.jsonl => ^null 1$
usage $tmp/unknown.jsonl => ^ +1 +1000000 +0 +0 +0 +-  no-such-model$ => ^no price: no-such-model \(1 answer, 1000000 tokens\)$
usage $tmp/unknown.jsonl --json => "unpriced":\["no-such-model"\]
$ money $tmp/some.jsonl => ^0\.500000 1$
usage $tmp/some.jsonl => ^ +2 .* 0\.50  in all$

== long_words_and_numbers_of_a_file_make_no_bad_note
$ money $tmp/digits.jsonl => ^0\.111111 0$
usage $tmp/digits.jsonl --by tool => ^ +1 .* B{299}$
$ money $tmp/digits-total.jsonl => ^0\.222222 0$

== model_is_found_by_its_whole_name
$ money $tmp/names.jsonl => ^25\.000000 0$
$ money $tmp/others.jsonl => ^null 4$
usage $tmp/own.jsonl => ^costs in US dollars, of transcripts, else prices of 20[0-9][0-9]-[01][0-9]-[0-3][0-9]$
usage $tmp/own.jsonl --prices $tmp/list => else prices of .*/list, else of 20

== total_of_a_session_is_shared_by_its_answers
$ money $tmp/totals.jsonl => ^17\.000000 0$
usage $tmp/totals.jsonl => ^ +2 .* 11\.00  claude-opus-4-6$ => ^ +1 .* 6\.00  claude-sonnet-4-6$
$ money $tmp/again.jsonl => ^20\.000000 0$
usage $tmp/odd.jsonl => ^ +1 .* 2\.00  odd$ => ^ +1 .* 2\.00  claude-opus-4-6$

== total_counts_when_it_comes_after_its_answers_were_stored
sync $log $tmp/grows.jsonl => . -> 0 *
$ money $log => ^8\.000000 0$
$ cp $tmp/totals.jsonl $tmp/grows.jsonl
sync $log $tmp/grows.jsonl => . -> 0 *
$ money $log => ^17\.000000 0$
sync $log $tmp/grows.jsonl => ^messages   0 new -> 0 *

== days_are_those_of_the_zone
usage $tmp/days.jsonl --by day --timezone UTC => 2026-01-04$ => 2026-01-31$ => 2026-03-29$
usage $tmp/days.jsonl --by day --timezone +02:00 => 2026-01-05$ => 2026-02-01$
usage $tmp/days.jsonl --by day --timezone -0100 => 2026-03-28$
$ TZ='<XXX>-2' "$tool" usage $tmp/days.jsonl --by day => 2026-01-05$
$ TZ='<XXX>-2' "$tool" usage $tmp/days.jsonl --by day --timezone UTC => 2026-01-04$
usage $tmp/days.jsonl --by week --timezone UTC => 2026-W01$ => 2026-W05$
usage $tmp/days.jsonl --by week --timezone +02:00 => 2026-W02$
usage $tmp/days.jsonl --by month --timezone UTC => ^ +2 .*2026-01$
usage $tmp/days.jsonl --by month --timezone +02:00 => ^ +1 .*2026-01$ => 2026-02$
usage $tmp/days.jsonl --by project => [ ]/w/p$
usage $tmp/days.jsonl --timezone Nowhere/Town -> 2 expects a zone
usage $tmp/days.jsonl --timezone +15 -> 2 expects a zone

== dates_of_since_and_until_are_those_of_the_zone
usage $tmp/days.jsonl --since 2026-02-01 --timezone UTC => ^ +1 .*in all$
usage $tmp/days.jsonl --since 2026-02-01 --timezone +02:00 => ^ +2 .*in all$
usage $tmp/days.jsonl --since 2026-02-01T00:00:00Z --timezone +02:00 => ^ +1 .*in all$
usage $tmp/days.jsonl --until 2026-01-05 --timezone +02:00 => ^ +0 .*in all$

== time_in_smaller_units_is_recognised
view --json - <<<'[{"type":"user_message","content":"hi","timestamp":1784950605093}]' => "time":1784950605\.093,
$ echo '{"type":"user_message","content":"hi"}' | "$tool" import $tmp/noted.log - --location n => *
note $tmp/noted.log 1 usage --json '{"input_tokens":3,"output_tokens":4,"time":1784950605093}' => *
usage $tmp/noted.log --by day --timezone UTC => ^ +1 .*2026-07-25$
END

# ---- Sessions without times: two answers in two files, one with a time before it.

# in_claude UUID TIME SESSION: a prompt of that time, absent if it is "", and an answer
# without one that costs 3 and 4 tokens.
in_claude()
{
    printf '{"type":"user","uuid":"%s","sessionId":"%s"%s,"message":{"role":"user","content":"%s"}}\n' \
        "$1" "$3" "${2:+,\"timestamp\":\"$2\"}" "$1"
    printf '{"type":"assistant","uuid":"%s.a","parentUuid":"%s","sessionId":"%s","message":{"id":"%s.m","role":"assistant","model":"m","content":"%s.a","usage":{"input_tokens":3,"output_tokens":4}}}\n' \
        "$1" "$1" "$3" "$1" "$1"
}
mkdir -p "$tmp/undated"
{ in_claude one '' c; in_claude two '' c; } >"$tmp/undated/c.jsonl"
{ in_claude three 2026-01-01T10:00:00Z d; in_claude four 2026-01-01T12:00:00Z d; } >"$tmp/undated/d.jsonl"
in_claude five 2026-01-01T11:00:00Z e >"$tmp/undated/e.jsonl"
undated=$tmp/undated.log
session <<'END'
== message_without_a_time_keeps_its_place_when_files_are_merged
view $tmp/undated/c.jsonl $tmp/undated/d.jsonl $tmp/undated/e.jsonl =$6> one one.a two two.a three three.a five five.a four four.a
sync $undated $tmp/undated => ^messages   10 new
$ "$tool" search $undated o --oldest --json | sed 's/.*"text":"\([^"]*\)".*/\1/' => ^one$ => ^four$
$ "$tool" sessions $undated --json | cut -d '"' -f 4 =$1> d e c

== answer_without_a_time_has_the_day_of_the_message_before_or_none
usage $undated --by day => ^ +2 +6 .*  -$ => ^ +3 +9 .*2026-01-01$ =0> 1970
usage $undated --by month --json => "month":"","answers":2

# Neither 1970 nor today: what has no time is outside of every span, and counted.
== what_has_no_time_is_outside_of_a_span_and_counted
usage $undated --until 2027-01-01 => ^ +3 .*in all$ => ^no time: 2 answers, 14 tokens, left out$
usage $undated --since 2020-01-01 => ^ +3 .*in all$ => ^no time: 2 answers, 14 tokens, left out$
usage $undated --since 2020-01-01 --json => "undated_answers":2,"undated_tokens":14
usage $undated => ^ +5 .*in all$ =0> no time
sessions $undated --since 2020-01-01 =$3> d e -> 0 ^msgstore: 1 session without a time left out$
sessions $undated --until 2027-01-01 =$3> d e -> 0 ^msgstore: 1 session without a time left out$
END
if [ -e /usr/share/zoneinfo/Europe/Berlin ]; then
    session <<'END'
== days_follow_summer_time
usage $tmp/days.jsonl --by day --timezone Europe/Berlin => 2026-01-05$ => 2026-01-31$ => 2026-03-29$
usage $tmp/summer.jsonl --since 2026-07-01 --timezone Europe/Berlin => ^ +1 .*in all$
usage $tmp/summer.jsonl --until 2026-07-01 --timezone Europe/Berlin => ^ +0 .*in all$
END
else
    echo "skip days_follow_summer_time: no /usr/share/zoneinfo"
fi

# ---- On a terminal no row of a table is wider than it.

# widest COLUMNS ARGUMENTS: the columns of the widest line that the tool prints there, "-"
# if it is wider than the terminal.
widest()
{
    script -qec "stty cols $1; NO_COLOR=1 PAGER=cat $tool ${*:2}" /dev/null </dev/null |
        tr -d '\r' | sed 's/…/./g' >"$tmp/wide"
    awk -v n="$1" 'length > most { most = length } END { print (most > n ? "-" : most) }' "$tmp/wide"
}

huge='"input_tokens":81234567,"output_tokens":7654321,"cache_creation_input_tokens":12345678,"cache_read_input_tokens":43210987'
{
    answer 1 a-model-with-a-name-that-is-longer-than-any-terminal-of-a-person-who-reads-this $noon "$huge"
    answer 2 x $noon "$huge"
    answer 3 x '' "$huge"
} | sed 's|/w/p|/home/a-person-with-a-long-name/projects-of-the-year/a-folder-with-a-long-name|' >"$tmp/huge.jsonl"
cp "$tmp/list" "$tmp/a-list-of-prices-with-a-name-that-is-longer-than-sixty-columns"
# A model's answer is written line by line, and a sync comes between its words and its call.
mkdir "$tmp/parts"
cat >"$tmp/parts.jsonl" <<'END'
{"type":"user","uuid":"p1","parentUuid":null,"sessionId":"parts","timestamp":"2026-05-12T22:30:00Z","message":{"role":"user","content":"go"}}
{"type":"assistant","uuid":"p2","parentUuid":"p1","sessionId":"parts","timestamp":"2026-05-12T22:31:00Z","message":{"id":"msg_of_two_parts_012345","role":"assistant","model":"x","content":[{"type":"text","text":"I look"}],"usage":{"input_tokens":30,"output_tokens":4}}}
{"type":"assistant","uuid":"p3","parentUuid":"p2","sessionId":"parts","timestamp":"2026-05-12T22:31:01Z","message":{"id":"msg_of_two_parts_012345","role":"assistant","model":"x","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}],"usage":{"input_tokens":30,"output_tokens":9}}}
END
session <<'END'
== answer_that_is_synced_in_parts_counts_once_with_its_last_report
$ head -n 2 $tmp/parts.jsonl >$tmp/parts/parts.jsonl; "$tool" sync $tmp/parts.log $tmp/parts => ^messages   2 new
$ cp $tmp/parts.jsonl $tmp/parts/; "$tool" sync $tmp/parts.log $tmp/parts => ^messages   1 new
usage $tmp/parts.log --by tool => ^ +1 +30 +0 +0 +9 +- +Bash$ => ^ +1 +30 +0 +0 +9 +- +in all$
$ "$tool" usage $tmp/parts.log --json >$tmp/parts1; "$tool" usage $tmp/parts --json | cmp - $tmp/parts1 && echo same => ^same$
sessions $tmp/parts.log --json => "input_tokens":30,"output_tokens":9\}
export $tmp/parts.log --format otlp >$tmp/trace
$ grep -o 'usage.[a-z]*put_tokens","value":{"intValue":"[0-9]*"' $tmp/trace =2> input.*"30"$ =2> output.*"9"$ =4> .
END

session <<'END'
== cost_of_any_size_is_printed_whole
$ printf '{"role":"user","content":"a"}\n{"role":"assistant","content":"b"}\n' | "$tool" import $tmp/dear.log -
note $tmp/dear.log 2 usage '{"input_tokens":9,"output_tokens":3,"cost":1e40}' --json
export $tmp/dear.log --format atif => "cost_usd":10000000000000000303786028427003666890752\.0\}
usage $tmp/dear.log --json => "cost":10000000000000000303786028427003666890752\.000000,
usage $tmp/dear.log => [ ]10000000000000000303786028427003666890752\.00 
END

if has_terminal; then
    for columns in 40 60 80 140; do
        session <<'END'
== usage_is_no_wider_than_the_terminal
$ widest $columns usage $tmp/huge.jsonl => ^[1-9]
$ widest $columns usage $tmp/huge.jsonl --by project => ^[1-9]
$ widest $columns usage $tmp/huge.jsonl --by session --since 2020-01-01 => ^[1-9]
$ widest $columns usage $tmp/huge.jsonl --prices $tmp/a-list-of-prices-with-a-name-that-is-longer-than-sixty-columns => ^[1-9]
END
    done
    session <<'END'
== usage_keeps_exact_numbers_where_they_fit
$ widest 80 usage $tmp/huge.jsonl --by day; cat $tmp/wide => ^answers +input +written +cached +output +cost$ => ^ +3 +243703701 +37037034 +129632961 +22962963 
$ widest 60 usage $tmp/huge.jsonl --by day; cat $tmp/wide => ^answers +input written cached output +cost$ => ^ +3 243\.7M +37\.0M 129\.6M +23\.0M 
$ widest 40 usage $tmp/huge.jsonl --by day; cat $tmp/wide => ^ *input output +cost$ => ^243\.7M +23\.0M 

== names_are_whole_without_a_terminal
usage $tmp/huge.jsonl => who-reads-this$
usage $tmp/huge.jsonl --by project => [ ]/home/a-person-with-a-long-name/projects-of-the-year/a-folder-with-a-long-name$
END
else
    echo "skip usage_is_no_wider_than_the_terminal: no script(1)"
fi
