#!/usr/bin/env bash
# `make test-site`: the site of `make site`, built and looked at in a browser without a
# window. Skips, and prints why, where the site, a browser or node cannot be had. axe-core
# comes from npm into build/report. The last line counts.
#
#   SITE_SHOTS=dir   pictures of its pages at three widths go there
set -u
cd "$(dirname "$0")/../../.." || exit 1
skip()
{
    echo "skip test-site: $1"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
bash tools/site.sh || { echo "FAIL the site is not built"; echo "0 passed, 1 failed"; exit 1; }
[ -d build/site/html ] || skip 'there is no site'
for program in "${CHROMIUM:-chromium}" node; do
    command -v "$program" >/dev/null 2>&1 || skip "there is no $program"
done
. tests/support/packages.sh
install build/report tests/tool/report/versions.txt
exec node tests/tool/site/test.mjs "${CHROMIUM:-chromium}" ${SITE_SHOTS:+"$SITE_SHOTS"}
