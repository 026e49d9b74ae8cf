#!/usr/bin/env bash
# msgstore in its first five minutes: what a start loads, words that are nearly right, help,
# arguments in the wrong order, the log that is used when none is named, local time, full
# names of sessions with the command that resumes them, and single messages as text.
. "$(dirname "$0")/tool_checks.sh"
unset TZ TZDIR


# ---- What a start loads.

# loads ARGUMENTS: the names of the libraries that the tool looks for.
loads()
{
    LD_DEBUG=files "$tool" "$@" 2>&1 | sed -n 's/.*file=\(lib[^ ]*\).*/\1/p' | sort -u
}

if [ -n "$(loads --version)" ]; then
    same start_without_a_url_loads_no_libpq '' "$(
        loads sessions "$demo" | grep -E 'libpq|libssl|libldap')"
    if "$tool" sessions 'postgresql://[' 2>&1 | grep -q 'built without'; then
        echo "skip libpq: the tool was built without it"
    else
        same url_loads_libpq libpq.so.5 "$(loads sessions 'postgresql://[' | grep libpq)"
        mkdir "$tmp/none"
        echo none >"$tmp/none/libpq.so.5"
        echo none >"$tmp/none/libpq.so"
        session <<'END'
== missing_libpq_is_named
$ LD_LIBRARY_PATH=$tmp/none "$tool" sessions 'postgresql://[' -> 1 ^msgstore: .*no libpq on this machine.*libpq5
$ LD_LIBRARY_PATH=$tmp/none "$tool" ship $demo --to 'postgresql://[' -> 1 no libpq
END
    fi
else
    echo "skip start: LD_DEBUG prints nothing here"
fi

exit $failed
