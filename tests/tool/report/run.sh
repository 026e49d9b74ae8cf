#!/usr/bin/env bash
# `make test-report`: the page of msgstore report in a browser without a window. Skips, and
# prints why, where no browser or no node is installed. axe-core comes from npm into
# build/report (versions.txt). The last line counts.
set -u
cd "$(dirname "$0")/../../.." || exit 1
export MS_SHARED=${MS_SHARED:-../shared}

for program in "${CHROMIUM:-chromium}" node; do
    command -v "$program" >/dev/null 2>&1 && continue
    echo "skip test-report: there is no $program"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
done
. tests/support/packages.sh
install build/report tests/tool/report/versions.txt
exec node tests/tool/report/test.mjs "${MSGSTORE:-build/msgstore}" \
    "${CHROMIUM:-chromium}" ${REPORT_SHOTS:+"$REPORT_SHOTS"}
