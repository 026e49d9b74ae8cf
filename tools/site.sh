#!/usr/bin/env bash
# `make site`: the documentation as a static site, in build/site/html.
#
# tools/site/stage.py puts its pages together: the guides, the files of the project, the
# interface from the comments of the headers, the figures, and a report that build/msgstore
# writes. MkDocs with the theme Material, from PyPI, makes the site; tools/site/links.py
# checks its links. The site loads nothing from elsewhere, and can be read without a server
# but for its search. A broken link fails.
#
#   SETUP=0        installs nothing
#   SITE_URL=url   where it will be published: for the page of unknown addresses, and a map
#
# The packages of tools/site/requirements.txt are installed into build/site/venv. Where they
# cannot be, no site is written, and a line reports it.
set -u
cd "$(dirname "$0")/.." || exit 1
site=build/site
venv=$site/venv
wanted=tools/site/requirements.txt
rm -rf $site/html
mkdir -p $site

installed() { cmp -s $wanted $venv/installed.txt; }

install()
{
    [ "${SETUP:-1}" != 0 ] || return 1
    echo "make site installs MkDocs and Material from PyPI into $venv"
    rm -rf $venv
    python3 -m venv $venv >$site/pip.log 2>&1 &&
        timeout 300 $venv/bin/pip install -q --disable-pip-version-check -r $wanted \
            >>$site/pip.log 2>&1 &&
        cp $wanted $venv/installed.txt
}

if ! installed && ! install; then
    why="PyPI: $(tail -n 1 $site/pip.log 2>/dev/null)"
    [ "${SETUP:-1}" != 0 ] || why='SETUP=0: nothing is installed'
    echo "skip site: MkDocs is not installed in $venv, and no site is written ($why)"
    exit 0
fi

set -e
$venv/bin/python tools/site/stage.py $site
if command -v gnuplot >/dev/null 2>&1; then
    cp bench/results/scale.jsonl $site/docs/bench/results/
    bash bench/scale.sh --plot --results $site/docs/bench/results >$site/plots.log
fi
for run in run:tools/demo.jsonl team:tests/tool/report/team.jsonl; do
    build/msgstore report "${run#*:}" --from framework -o "$site/docs/report/${run%%:*}.html" \
        >$site/report.log
    chmod 644 "$site/docs/report/${run%%:*}.html"
done
if ! NO_MKDOCS_2_WARNING=1 $venv/bin/mkdocs -q build -f $site/mkdocs.yml >$site/mkdocs.log 2>&1; then
    cat $site/mkdocs.log
    exit 1
fi
echo "wrote $site/html"
exec $venv/bin/python tools/site/links.py $site/html
