#!/usr/bin/env bash
# msgstore mcp: a server of the Model Context Protocol over a log. Its versions, errors and
# batches, hostile and long lines, the arguments of its tools, answers compared with those
# of sessions, search, view and usage, cursors, masked secrets, a log that grows, that is
# replaced, that is damaged, and that nothing is written. The official clients are in
# `make test-sdk`.
. "$(dirname "$0")/tool_checks.sh"

session <<'END'
== mcp_is_listed_and_explained
help => ^  mcp  
mcp -h => claude mcp add
mcp $tmp/a.log $tmp/b.log -> 2 takes one file
mcp $demo -> 2 is no log
$ "$tool" completion bash | grep -c ' mcp' => ^[1-9]

== mcp_ends_with_its_input
$ : | "$tool" mcp $tmp/none.log
END

if python3 -c 'import json, subprocess' 2>/dev/null; then
    PYTHONDONTWRITEBYTECODE=1
    export PYTHONDONTWRITEBYTECODE
    mkdir "$tmp/mcp"
    if python3 tests/tool/mcp/sessions.py "$tmp/mcp/t" 120; then
        python3 tests/tool/mcp/checks.py "$tool" "$tmp/mcp" || failed=1
    else
        fail mcp_sessions 'they were not written'
    fi
else
    echo "skip mcp: no python3"
fi
exit $failed
