#!/usr/bin/env bash
# The page of msgstore report without a browser: exit codes, what is never overwritten, that
# the data in the page is JSON and whole, that content cannot leave its place in the page,
# that secrets are masked, that equal input gives equal pages, that a damaged file leaves the
# others in the page. How the page behaves in a
# browser is tests/tool/report/test.mjs, `make test-report`.
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
        return 0
    else
        sed -n 's/.*<script id="data" type="application\/json">\([^<]*\)<.*/\1/p' "$1"
    fi
}

page=$tmp/page.html
# The token is put together here: it never was one.
token=gh"p_"R7kq2ZpX9vLm4TnB8wYc3HsJ6dFgQ1aEuV5o
log=$tmp/demo.log
"$tool" import "$log" $demo >"$tmp/out"
printf 'my notes\n' >"$tmp/notes.txt"
hello='{"type":"user_message","content":"hello"}'
printf 'kept\n' >"$tmp/kept"
ln -s kept "$tmp/beside.html.part"
cp "$tmp/kept" "$tmp/plain.html.part"
yes '{"type":"user_message","content":"x"}' | head -n 30000 >"$tmp/large.jsonl"
head -c 3000 $demo >"$tmp/broken.jsonl"
leak='{"type":"user_message","content":"use '$token' now, or ask jane@host.org"}
{"type":"action","tool":"t","args":{"key":"'$token'","'$token'":"a name"},"agent_key":"a"}'
echo "$hello" >"$tmp/<b>&.jsonl"
session <<'END'
== report_writes_a_page_and_replaces_one
report $demo -o $page => [0-9]+ messages, .
$ cp $page $tmp/again.html
report $demo -o $page => [0-9]+ messages, .
$ cat $page == $tmp/again.html
report $demo == $page
report - -o $tmp/one.html <<<$hello => 1 message, .
report $demo --output $tmp/long.html => ^wrote .
report $log -o $tmp/log.html => ^wrote .
report $log $demo -o $tmp/two.html => ^wrote .

== limit_counts_visible_messages
$ for i in 1 2 3 4; do echo "$hello"; done | "$tool" import $tmp/back.log - --location b
$ "$tool" rewind $tmp/back.log 0 --location b
$ for i in 5 6 7 8 9; do printf '{"type":"user_message","content":"new %s"}\n' $i; done | "$tool" import $tmp/back.log - --location b
report $tmp/back.log -n 2 -o $tmp/back.html => *
$ data $tmp/back.html | grep -oE '"c":"(new .|hello)"' =1> new 8 =1> new 9 =0> new [5-7] =0> hello
$ data $tmp/back.html => "skipped":3
$ "$tool" rewind $tmp/back.log 8 --location b
report $tmp/back.log -n 2 -o $tmp/back.html => *
$ data $tmp/back.html | grep -oE '"c":"(new .|hello)"' =1> new 7 =1> new 8 =1> new 9 =0> new [56] =0> hello

== report_never_overwrites_what_is_no_page
report $demo -o $tmp/notes.txt -> 5 it is not replaced
$ cat $tmp/notes.txt => ^my notes$
report $demo -o $log -> 5 it is not replaced
report $demo -o $tmp -> 1 directory
report $demo -o $tmp/none/x.html -> 1 ^msgstore: .*/none/x.html: No such file or directory$
report $demo --location nobody -o $tmp/x.html -> 4 no messages of session

== report_touches_no_other_file_and_only_its_owner_reads_it
$ umask 022
report $demo -o $tmp/beside.html => ^wrote .
report $demo -o $tmp/plain.html => ^wrote .
$ cat $tmp/beside.html.part $tmp/plain.html.part =2> ^kept$
$ stat -c %a $tmp/beside.html $tmp/plain.html =2> ^600$
$ ls $tmp =0> [0-9]\.part$

== page_has_one_policy_and_loads_nothing
$ grep -c "default-src 'none'" $page => ^1$
$ sed '/id="data"/d' $page | grep -oE '(src|href)="?(https?:)?//[^" ]*|@import|url\([^)]*\)' =0> -> 1

== page_without_messages_is_small
$ wc -c <$page | awk '{ print ($1 < 150000 ? "small" : "large: " $1) }' => ^small$

== data_of_a_page_is_one_object_with_what_was_asked_for
$ data $page => ^\{"tool":"msgstore .*\}$ => "profile":"openai".*"profile":"anthropic"
$ data $page | grep -o '"n":[0-9]*' =31>
$ data $tmp/two.html => "name":"demo.log".*"name":"demo.jsonl"
report $demo --as anthropic -o $tmp/one.html => .
$ data $tmp/one.html => ^\{"tool":"msgstore =0> "profile":"openai"
report $demo -n 2 -o $tmp/few.html => .
$ data $tmp/few.html | grep -o '"n":[0-9]*' =2>

== a_large_page_is_announced_before_it_is_made
report $tmp/large.jsonl --from framework --as openai -o $tmp/large.html => ^wrote -> 0 ^msgstore: 30000 messages become a page of about [0-9.]* MB
report $tmp/large.jsonl --from framework --as openai -n 29999 -o $tmp/large.html => ^wrote
$ script -qec "$tool report $tmp/large.jsonl --from framework --as openai -o $tmp/large.html" /dev/null => [0-9]+ % of the page => become a page of

== each_call_has_the_result_that_a_request_gives_it
report tests/tool/report/pair.jsonl --from framework -o $tmp/pair.html => .
$ data $tmp/pair.html => "pairs":\[\[2,3\],\[4,5\],\[6,7\],\[8,9\],\[1[45],1[67]\],\[1[45],1[67]\]\]
import $tmp/pair.log tests/tool/report/pair.jsonl --from framework => .
rewind $tmp/pair.log 5 => .
report $tmp/pair.log -o $tmp/rewound.html => .
$ data $tmp/rewound.html => "pairs":\[\[2,3\],\[4,5\],\[6,7\],\[8,9\],

== result_names_its_call_before_the_page
report $demo -n 4 -o $tmp/four.html => ^wrote      4 messages
$ data $tmp/four.html => "pairs":\[\[27,28\]\]
report $demo -n 3 -o $tmp/three.html => ^wrote      3 messages
$ data $tmp/three.html => "pairs":\[\]

== runs_of_damaged_files_are_in_the_page
report $tmp/broken.jsonl $demo -o $tmp/broken.html => ^wrote      44 messages -> 3 broken.jsonl: line 14,
$ data $tmp/broken.html | tail -c 2 => ^\]\}$
$ data $tmp/broken.html => "name":"broken.jsonl".*"name":"demo.jsonl"
$ data $tmp/broken.html | grep -o '"unread":[0-9]*' | tr '\n' ' ' => ^"unread":1 "unread":0 $

== content_stays_in_its_place
report - --from framework -o $tmp/hostile.html <<<'{"type":"user_message","content":"</script><script>alert(1)</script><!--"}' => .
$ grep -o '</script' $tmp/hostile.html =2>
$ data $tmp/hostile.html => (<|.u003c)/script>(<|.u003c)script>alert\(1\)
report "$tmp/<b>&.jsonl" --from framework -o $tmp/title.html => .
$ grep -c '<title>&lt;b>&amp;.jsonl</title>' $tmp/title.html => ^1$

== secrets_are_masked_unless_they_are_asked_for
report - --from framework -o $tmp/masked.html <<<$leak => ^wrote .*, 3 secrets masked$
$ data $tmp/masked.html => use \[masked github-token\] now, or ask jane@host.org => "kinds":\[\["github-token",3\]\]
$ data $tmp/masked.html | grep -c $token => ^0$ -> 1
$ data $tmp/masked.html | grep -o '\\"\[masked github-token\]\\":{\\"\$\\":\\"=a name\\"}' => .
report - --from framework --show-secrets -o $tmp/shown.html <<<$leak => ^wrote .*, no secret looked for$
$ data $tmp/shown.html | grep -o $token => .
report - --from framework --personal -o $tmp/personal.html <<<$leak => .
$ data $tmp/personal.html => ask \[masked e-mail\]

== hidden_messages_usage_and_notes_are_shown
hide $log 31 => .
note $log 1 usage '{"input_tokens":900,"output_tokens":7}' --json => .
note $log 1 rating 5 --json => .
report $log -o $tmp/changed.html => .
$ data $tmp/changed.html => "n":31,[^}]*"h":1 => "usage":\[\[1,900,7,0,0, => \{"n":1,"kind":"rating","v":"5"\}
END

exit $failed
