#!/usr/bin/env bash
# `make test-handover`: files of msgstore for other agent programs, read by them.
#
# Codex, Claude Code, OpenCode and Gemini CLI go on with handed-over sessions, and the first
# two with one that the doctor has mended: a server on this machine stands in for their
# providers, and their requests to it must have every message. pi's and Claude's own session readers and the models of the
# package atif read the rest; ccusage counts the same tokens. The programs come from npm and
# PyPI into build/handover (versions.txt); a package that cannot be installed is named and
# left out. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why" a line, and "N passed, N
# failed, N skipped".
set -u
cd "$(dirname "$0")/../../.." || exit 1
. tests/support/packages.sh
out=build/handover
shared=${MS_SHARED:-../shared}/data
mkdir -p $out/js

if [ ! -d "$shared" ]; then
    echo "skip handover: there are no samples in $shared"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
[ -f $out/js/package.json ] || echo '{"private": true, "type": "module"}' >$out/js/package.json
install $out tests/tool/handover/versions.txt
cp tests/tool/handover/sessions.mjs $out/js/

python=python3
[ -x $out/py/bin/python ] && python=$out/py/bin/python
$python tests/tool/handover/check.py "${MSGSTORE:-build/msgstore}" "$shared" $out |
    tee $out/judged
[ "${PIPESTATUS[0]}" -eq 0 ] || echo "FAIL check.py: it did not end" >>$out/judged
passed=$(grep -c '^ok ' $out/judged) failed=$(grep -c '^FAIL ' $out/judged)
skipped=$(grep -c '^skip ' $out/judged)
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
