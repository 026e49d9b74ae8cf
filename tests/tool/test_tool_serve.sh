#!/usr/bin/env bash
# msgstore serve: a log for a browser on this machine. Its answers, compared with the other
# commands; requests that get nothing: without the token, from other hosts and origins, by
# other methods and paths; half requests, thousands of connections; a log that grows, that is
# replaced, that is damaged; and that nothing is written. The page in a browser is tested by
# `make test-report`.
. "$(dirname "$0")/tool_checks.sh"

log=$tmp/a.log
"$tool" import "$log" $demo >"$tmp/out"
mkdir "$tmp/without"
echo none >"$tmp/without/libmicrohttpd.so.12"
echo none >"$tmp/without/libmicrohttpd.so"
session <<'END'
== serve_is_listed_and_explained
help => ^  serve  
serve -h => msgstore serve --open
serve $tmp/a.log $tmp/b.log -> 2 takes one file
serve $tmp/a.log --port 65536 -> 2 expects a port
serve $tmp/a.log --port x -> 2 expects a port
serve $demo -> 2 is no log
serve $tmp/none.log -> 4 sync
serve postgresql://db.example/x -> 2 msgstore fetch
$ "$tool" completion bash | grep -c ' serve.*--port' => ^[1-9]
END

built=$("$tool" serve "$tmp/a.log" </dev/null 2>&1 >"$tmp/url" &
    sleep 0.5
    kill $! 2>/dev/null)
case $built in
*'built without libmicrohttpd'* | *'no libmicrohttpd on this machine'*)
    echo "skip serve: there is no libmicrohttpd"
    exit $failed
    ;;
esac
session <<'END'
== missing_library_is_named
$ LD_LIBRARY_PATH=$tmp/without timeout 20 "$tool" serve $tmp/a.log -> 1 ^msgstore: .*no libmicrohttpd on this machine.*libmicrohttpd12
END

if python3 -c 'import http.client, json' 2>/dev/null; then
    PYTHONDONTWRITEBYTECODE=1
    export PYTHONDONTWRITEBYTECODE
    mkdir "$tmp/serve"
    if python3 tests/tool/mcp/sessions.py "$tmp/serve/t" 120; then
        python3 tests/tool/serve/checks.py "$tool" "$tmp/serve" || failed=1
    else
        fail serve_sessions 'they were not written'
    fi
else
    echo "skip serve: no python3"
fi
exit $failed
