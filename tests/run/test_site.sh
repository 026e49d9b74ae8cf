#!/usr/bin/env bash
# The pages of `make site`, without MkDocs: every function of the interface has an entry with
# a comment in a page that tools/site/interface.py writes, and every link of the guides
# leads to something. A function without a comment is noticed wherever it is declared, and
# so is a broken link. links.py, which checks the built site, finds what is wrong in a small
# one.
#
# Prints "ok NAME" or "FAIL NAME: reason" for each check.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=build/pages
failed=0
rm -rf $out
mkdir -p $out

result()
{
    if [ -z "$2" ]; then echo "ok $1"; return; fi
    echo "FAIL $1: $(tr '\n' ' ' <<<"$2")"
    failed=1
}

check() { python3 tools/site/interface.py --check "$@" 2>&1; }

result functions_have_comments "$(check msgstore.h bindings/msgstore_ffi.h)"
result links_of_pages_lead_somewhere "$(python3 tools/site/stage.py $out 2>&1)"

# undocumented NAME WANTED AWK: the check prints WANTED for a header that awk has changed.
undocumented()
{
    local found
    awk "$3" msgstore.h >$out/$1.h
    found=$(check $out/$1.h)
    [ "$found" = "$2" ] && found= || found="it finds '$found'"
    result "self_$1" "$found"
}

new='print "MS_API void ms_new(int n);"'
undocumented after_a_function 'ms_new has no comment' \
    "{ print } /^MS_API void ms_close\\(ms_store/ { $new }"
undocumented apart 'ms_new has no comment' \
    "{ print } /^MS_API void ms_close\\(ms_store/ { print \"\"; $new }"
undocumented after_a_struct 'ms_new has no comment' "{ print } /^} ms_buf;/ { print \"\"; $new }"
undocumented in_a_condition 'ms_new has no comment' \
    "{ print } /^MS_API ms_result ms_json_finish/ { print \"#ifdef X\"; $new; print \"#endif\" }"
undocumented without_words 'ms_new has no comment' \
    "{ print } /^MS_API void ms_close\\(ms_store/ { print \"\"; print \"/* ... */\"; $new }"
undocumented without_its_comment 'ms_hide has no comment' \
    '/^\/\* Removes one message from every view/ { skip = 1 } !skip { print } skip && /\*\// { skip = 0 }'

# has PAGE TEXT: a page that was written has this line, or a part of it.
has()
{
    grep -qF -- "$2" "$out/docs/$1" || echo "$1 lacks '$2'"
}
pages_have()
{
    has interface/store.md "### \`ms_append\` { #ms_append }"
    has interface/store.md 'Appends one message to a location (absent: m-&gt;location).'
    has interface/store.md '<a href="error.html#MS_E_KEY_REUSED"><code>MS_E_KEY_REUSED</code></a> the key'
    has interface/store.md 'the newest n of those that pass all filters; 0: all</td>'
    has interface/store.md '<tr id="ms_query.limit">'
    has interface/error.md '<tr id="MS_E_FULL"><td><code>MS_E_FULL</code></td>'
    has interface/message.md 'which agent wrote it</td>'
    has interface/json.md 'ms_json_iter it = ms_json_iterate(value);'
    has docs/agent.md '](../interface/request.md#ms_request)'
    has docs/team.md '(../source/examples/manager.c.md)'
    has docs/ten-calls.md '](../interface/ten.md'
}
result pages_have_what_the_sources_have "$(pages_have)"
result no_private_name_has_an_entry "$(grep -lE '^### .(ms__|MS__)' $out/docs/interface/*.md)"


# What links and names of docs/agent.md become: NAME, text, what it becomes and what is
# reported.
links=$(python3 - $out <<'PY' 2>&1
import sys
sys.path.insert(0, "tools/site")
import stage
one = stage.Stage(sys.argv[1])
for name, text, wanted, *problems in [
    ("a_page", "[a](team.md#x)", "[a](team.md#x)"),
    ("a_file", "[a](../examples/loop.c)", "[a](../source/examples/loop.c.md)"),
    ("a_folder", "[a](../tests/scripts/log)", "[a](../source/tests/scripts/log/index.md)"),
    ("a_large_file", "[a](../msgstore.h)", "[a](../msgstore.h)"),
    ("nothing", "[a](gone.md)", "[a](gone.md)",
     "docs/agent.md: a link to gone.md, which does not exist"),
    ("outside", "[a](../../x.md)", "[a](../../x.md)",
     "docs/agent.md: a link to ../../x.md, which does not exist"),
    ("a_call", "call `ms_next()`.", "call [`ms_next()`](../interface/store.md#ms_next)."),
    ("a_member", "`ms_query.limit`", "[`ms_query.limit`](../interface/store.md#ms_query.limit)"),
    ("a_section", "`[api-log]`", "[`[api-log]`](../interface/log.md)"),
    ("in_code", "`f(a)[b](c)` `ms_gone`", "`f(a)[b](c)` `ms_gone`"),
    ("in_a_heading", "# `ms_next`", "# `ms_next`"),
]:
    one.problems.clear()
    got = one.prose("docs/agent.md", text)
    if (got, one.problems) != (wanted, problems):
        print(f"{name} becomes {got}", *one.problems)
PY
)
result links_become_those_of_the_site "$links"

# wrong NAME HTML WANTED: what links.py prints of a page with this in it.
site=$out/small
wrong()
{
    local got
    rm -rf $site
    mkdir -p $site/html
    echo "<h1>H</h1>a b c d e f g h i j<p id=\"there\">" >$site/html/other.html
    echo 'p { background: url(p.png) }' >$site/html/good.css
    echo "<h1>H</h1>a b c d e f g h i j<a href=\"other.html#there\">x</a>$2" >$site/html/index.html
    got=$(python3 tools/site/links.py $site/html | sed '$d')
    [ "$got" = "$3" ] && got= || got="it prints '$got'"
    result "checker_$1" "$got"
}
wrong accepts_what_is_there '<a href="other.html#there">x</a><a href="https://host.example/">x</a>' ''
wrong finds_a_second_head '<h1>I</h1>' 'index.html has 2 headings h1'
wrong finds_a_missing_file '<a href="gone.html">x</a>' 'index.html: gone.html leads to no file'
wrong finds_a_missing_picture '<img src="gone.png">' 'index.html: gone.png leads to no file'
wrong finds_a_missing_anchor '<a href="other.html#gone">x</a>' \
    'index.html: other.html#gone leads to no element'
wrong finds_an_anchor_of_its_own_missing '<a href="#gone">x</a>' 'index.html: #gone leads to no element'
wrong finds_an_anchor_that_is_there_twice '<i id="a"></i><i id="a"></i>' 'index.html has #a twice'
wrong finds_a_script_from_elsewhere '<script src="https://host.example/a.js"></script>' \
    'index.html loads https://host.example/a.js'
wrong finds_a_font_from_elsewhere '<link rel="stylesheet" href="//host.example/font.css">' \
    'index.html loads //host.example/font.css'
wrong finds_a_style_from_elsewhere '<style>@import "https://host.example/a.css";</style>' \
    'index.html loads https://host.example/a.css'
wrong finds_a_connection_to_elsewhere '<link rel="preconnect" href="https://host.example">' \
    'index.html loads https://host.example'
exit "$failed"
