#!/usr/bin/env bash
# `make picture`: records docs/terminal.svg, the picture of the tool in README.md.
#
#   tools/picture.sh            records it anew; fails where it cannot
#   tools/picture.sh --check    fails when the tool prints something else; skips where the
#                               package is missing that draws it
#
# The package rich of PyPI is installed into build/picture. SETUP=0: nothing is installed.
set -u
cd "$(dirname "$0")/.." || exit 1
venv=build/picture
rich=rich==13.9.4

if ! $venv/bin/python -c 'import rich' 2>/dev/null && [ "${SETUP:-1}" != 0 ]; then
    echo "make picture installs $rich from PyPI into $venv"
    python3 -m venv $venv && $venv/bin/pip -q --disable-pip-version-check install $rich
fi
if ! $venv/bin/python -c 'import rich' 2>/dev/null; then
    [ "${1:-}" = --check ] || {
        echo "tools/picture.sh: there is no $rich in $venv" >&2
        exit 1
    }
    echo "skip picture: there is no $rich in $venv"
    exit 0
fi
exec $venv/bin/python tools/picture.py "$@"
