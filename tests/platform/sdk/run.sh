#!/usr/bin/env bash
# Checks that the providers' own packages take the output of ms_project and ms_request.
#
#   tests/platform/sdk/run.sh            all judges
#   MS_TEST_SCALE=n             percent of the windows of long traces (100)
#   MS_SDK=FOLDER               where the packages are, of FOLDER/versions.txt (build/sdk, of
#                               the list here). renew.sh makes a list of newer ones
#   MS_RECORDED='FOLDER ...'    git repositories with recordings, instead of those that git
#                               gets from GitHub
#
# Installs the packages of versions.txt under build/sdk (pip into a virtual environment, npm
# into node_modules), names those that it cannot install, and goes on without them. Then
# project.c projects every trace of ../shared/data that a format reads, for each profile,
# and the judges read the lines: judge.py over the Python packages, judge.mjs
# over those of npm. recorded.c judges the requests of the recordings that two of these
# packages test themselves with (recorded.py), recorded_lists.c their lists, and
# recorded_turns.py whether each answer goes back as it came; they stay under build.
# compacted.py compares requests after compactions with those of the packages, and the
# clients of the Model Context Protocol ask `msgstore mcp` (mcp_client.py, .mjs). Prints
# "ok NAME: N taken" or "FAIL NAME: why" for each judge, "skip NAME: why" for missing ones,
# and "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../../.." || exit 1
. tests/support/packages.sh
out=${MS_SDK:-build/sdk}
versions=tests/platform/sdk/versions.txt
[ -z "${MS_SDK:-}" ] || versions=$out/versions.txt
shared=${MS_SHARED:-../shared}
mkdir -p $out

install "$out" $versions

# The traces that other formats read go into a log, one location a file.
make -s build/msgstore build/sdk/project build/sdk/recorded_lists || exit 1
rm -f $out/traces.msl
taken=0 files=0
while read -r file; do
    files=$((files + 1))
    build/msgstore import --lenient --keep-going --location "${file#"$shared"/data/}" \
        $out/traces.msl "$file" >/dev/null 2>&1
    [ $? -le 3 ] && taken=$((taken + 1))
done < <(find "$shared/data" -type f ! -name '*.md' ! -path '*json-test-suite*' \
    ! -path '*tau-bench*' ! -path '*swe-agent*' 2>/dev/null | sort)
echo "$taken of $files files of $shared/data were read, beside the traces of traces.h"
if ! build/sdk/project $out/traces.msl >$out/projections.jsonl ||
    ! build/sdk/project --answers >$out/answers.jsonl; then
    echo "FAIL project: the projections were not made"
    exit 1
fi
echo "$(wc -l <$out/projections.jsonl) projections, $(wc -l <$out/answers.jsonl) answers," \
    "$(($(wc -c <$out/projections.jsonl) / 1000000)) MB"

# recordings: the folders of the repositories that have recordings.
recordings()
{
    local name
    [ -z "${MS_RECORDED:-}" ] || { echo "$MS_RECORDED" && return; }
    for name in pydantic/pydantic-ai vercel/ai; do
        [ -d "$out/recordings/$name" ] || GIT_TERMINAL_PROMPT=0 timeout 600 \
            git clone -q --bare --depth 1 "https://github.com/$name" \
            "$out/recordings/$name" >>$out/install.log 2>&1 || rm -rf "$out/recordings/$name"
        [ ! -d "$out/recordings/$name" ] || echo "$out/recordings/$name"
    done
}

# judge_recorded: prints what recorded.c says, or why it cannot be asked.
judge_recorded()
{
    local folders
    read -r -a folders < <(recordings | tr '\n' ' ')
    if [ ${#folders[@]} = 0 ]; then
        echo "skip recorded: git cannot get the recordings of pydantic-ai and ai"
    elif ! $out/py/bin/python -c 'import yaml' 2>/dev/null; then
        echo "skip recorded: there is no PyYAML to read them"
    elif ! make -s build/sdk/recorded build/sdk/recorded_turns ||
        ! $out/py/bin/python tests/platform/sdk/recorded.py "${folders[@]}" \
            >$out/recorded.jsonl || [ ! -s $out/recorded.jsonl ]; then
        echo "FAIL recorded: the lines were not made"
    else
        build/sdk/recorded <$out/recorded.jsonl
        $out/py/bin/python tests/platform/sdk/recorded_lists.py "${folders[@]}" |
            build/sdk/recorded_lists || echo "FAIL recorded_lists: no line was judged"
        $out/py/bin/python tests/platform/sdk/recorded_turns.py build/sdk/recorded_turns \
            "${folders[@]}" || echo "FAIL recorded_turns: it ended with $?"
    fi
}

# judge_mcp: the official clients ask `msgstore mcp` about a log of 1,000 sessions.
judge_mcp()
{
    rm -rf $out/mcp && mkdir -p $out/mcp
    if ! python3 tests/tool/mcp/sessions.py $out/mcp/t 1000 ||
        ! build/msgstore sync $out/mcp/my.log $out/mcp/t >>$out/install.log; then
        echo "FAIL mcp: the log was not made"
        return
    fi
    if $out/py/bin/python -c 'from mcp import Client' 2>/dev/null; then
        $out/py/bin/python tests/platform/sdk/mcp_client.py build/msgstore $out/mcp/my.log ||
            echo "FAIL mcp_client.py: it ended with $?"
    else echo "skip mcp_python: the package is not there"; fi
    if [ -d $out/js/node_modules ]; then
        node tests/platform/sdk/mcp_client.mjs $out build/msgstore $out/mcp/my.log ||
            echo "FAIL mcp_client.mjs: it ended with $?"
    else echo "skip mcp_node: no package is there"; fi
}

{
    judge_recorded
    judge_mcp
    if [ -x $out/py/bin/python ]; then
        LITELLM_LOCAL_MODEL_COST_MAP=True $out/py/bin/python tests/platform/sdk/judge.py \
            $out ||
            echo "FAIL judge.py: it ended with $?"
        if bash tools/lib.sh $out/lib >>$out/install.log 2>&1; then
            MSGSTORE_LIBRARY=$PWD/$out/lib/libmsgstore.so \
                $out/py/bin/python tests/platform/sdk/compacted.py ||
                echo "FAIL compacted.py: it ended with $?"
        else echo "FAIL compacted.py: the library is not built"; fi
    else
        echo "skip python: there is no virtual environment"
    fi
    if [ -d $out/js/node_modules ]; then
        node tests/platform/sdk/judge.mjs $out || echo "FAIL judge.mjs: it ended with $?"
    else echo "skip node: no package is there"; fi
} | tee $out/judged
passed=$(grep -c '^ok ' $out/judged) failed=$(grep -c '^FAIL ' $out/judged)
skipped=$(grep -c '^skip ' $out/judged)
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
