#!/usr/bin/env bash
# `make test-otlp`: files of msgstore export --format otlp, read with OpenTelemetry's own
# parser. Installs its packages from PyPI into build/otlp; skips where that fails. The
# last line counts: "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../../.." || exit 1
shared=${MS_SHARED:-../shared}/data
venv=build/otlp

if [ ! -x $venv/bin/python ] || ! $venv/bin/python -c 'import opentelemetry.proto' 2>/dev/null; then
    echo "test-otlp installs opentelemetry-proto and opentelemetry-sdk from PyPI into $venv"
    python3 -m venv $venv && $venv/bin/pip -q install opentelemetry-proto opentelemetry-sdk || {
        echo "skip test-otlp: they could not be installed"
        echo "0 passed, 0 failed, 1 skipped"
        exit 0
    }
fi
files=tools/demo.jsonl
if [ -d "$shared" ]; then
    files="$files $(find "$shared" -type f -size +1k ! -path '*json-test-suite*' \
        ! -path '*opencode*' ! -path '*aider*' ! -name SOURCE.md)"
fi
# shellcheck disable=SC2086
exec $venv/bin/python tests/tool/otlp/check.py "${MSGSTORE:-build/msgstore}" $files
