#!/usr/bin/env bash
# The Python package: builds its wheel, installs it with the packages that its adapters
# serve into a virtual environment under build/, runs its tests, doctests, README and type
# check there: `make test-python`. Prints versions. Nothing is installed elsewhere.
#
#   PYTHON=python3.12   another interpreter (3.9 or later)
#   OLDEST=1            only the adapters' tests, with the oldest packages that are supported
#                       (requirements-oldest.txt), in an environment of its own
#   BENCH=1             also compares speeds with SQLAlchemy and the SDK's SQLite session
#
# A package that cannot be installed is named, and the tests of its adapter skip.
# The last line counts: "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../.." || exit 1
python=${PYTHON:-python3}
venv=build/python/venv
package=bindings/python
out=$PWD/build/python/out
skip()
{
    echo "make test-python: $1; skipped"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
command -v "$python" >/dev/null || skip "there is no $python"
"$python" -c 'import venv, ensurepip' 2>/dev/null ||
    skip "$python has no venv (Debian: python3-venv)"

# The source archive, from a copy (building leaves files beside its sources), and the wheel
# from the archive, as a user gets it.
rm -rf build/python/wheel build/python/source build/python/dist
mkdir -p build/python/wheel build/python/source/csrc
cp -R "$package/." build/python/source/
rm -rf build/python/source/build build/python/source/*.egg-info
cp msgstore.h bindings/msgstore_ffi.h build/python/source/csrc/
cp LICENSE build/python/source/
"$python" -m venv "$venv" || skip "a virtual environment cannot be made"
pip="$venv/bin/pip --disable-pip-version-check --quiet"
stb=$(sh tools/setup.sh stb)
echo "installing into $venv: pip, setuptools, wheel and what $package/requirements-test.txt names"
$pip install 'setuptools>=77' wheel || skip "pip reaches no registry"
if ! (cd build/python/source && STB_INC="${stb#-isystem }" \
    "../../../$venv/bin/python" setup.py -q sdist -d ../dist) || ! rm -r build/python/source ||
    ! $pip wheel --no-deps --no-build-isolation -w build/python/wheel build/python/dist/*.tar.gz
then
    echo "FAIL the wheel does not build from the source archive"
    echo "0 passed, 1 failed"
    exit 1
fi
wheel=$(echo build/python/wheel/msgstore-*.whl)
echo "wheel: ${wheel##*/}, from $(cd build/python/dist && echo *.tar.gz)"

count() { grep -oE "[0-9]+ $1" "$out" | awk '{ n += $1 } END { print n + 0 }'; }
tally()
{
    local failed=$(($(count failed) + $(count error)))
    echo "$(count passed) passed, $failed failed, $(count skipped) skipped"
    [ "$failed" -eq 0 ]
}

# The adapters with the oldest packages, as one set: they must fit together.
oldest()
{
    local old=build/python/oldest
    "$python" -m venv "$old" && "$old/bin/pip" --disable-pip-version-check --quiet install \
        --force-reinstall --no-deps "$wheel" || { echo "1 failed (its wheel)"; return; }
    if ! "$old/bin/pip" --disable-pip-version-check --quiet install \
        --no-deps -r "$package/requirements-oldest.txt" 2>build/python/pip.log; then
        echo "1 skipped (the oldest packages: $(tail -n 1 build/python/pip.log))"
        return
    fi
    echo "with the oldest packages: $(sed '/^# What/,$d; /^#/d' "$package/requirements-oldest.txt" | xargs)"
    (cd build/python && PYTHONPATH='' MSGSTORE_LIBRARY='' "../../$old/bin/python" -m pytest -q \
        -p no:cacheprovider -W ignore::DeprecationWarning \
        "../../$package/tests/test_adapters.py" "../../$package/tests/test_langgraph.py" 2>&1)
}
if [ "${OLDEST:-0}" = 1 ]; then
    oldest | tee "$out"
    tally
    exit
fi

$pip install --force-reinstall --no-deps "$wheel" || exit 1
while read -r name; do
    case $name in '#'* | '') continue ;; esac
    $pip install "$name" 2>build/python/pip.log ||
        echo "not installed: $name ($(tail -n 1 build/python/pip.log))"
done <"$package/requirements-test.txt"
$venv/bin/pip list 2>/dev/null |
    grep -iE '^(msgstore|openai-agents|agent-framework-core|langchain-core|langgraph[a-z-]*|pydantic-ai-slim|google-adk|pytest|mypy|sqlalchemy) '

# Away from the sources, so that the installed package is tested.
here=$PWD
cd "$here/build/python" || exit 1
export PYTHONPATH='' MSGSTORE_LIBRARY=''
status=0
"$here/$venv/bin/python" -m pytest -q -p no:cacheprovider "$here/$package/tests" \
    "$here/$package/README.md" "$here/docs/python.md" --doctest-glob='*.md' \
    -W ignore::DeprecationWarning -o asyncio_default_fixture_loop_scope=function 2>&1 | tee "$out"
site=$("$here/$venv/bin/python" -c 'import msgstore, os; print(os.path.dirname(msgstore.__file__))')
"$here/$venv/bin/python" -m pytest -q -p no:cacheprovider --doctest-modules \
    "$site/__init__.py" "$site/store.py" 2>&1 | tee -a "$out"

# The packages' own tests of their protocols, from their source packages; a plugin puts ours
# in the place of theirs.
sources() # PACKAGE FOLDER: the source package of the version that is installed, unpacked
{
    local version
    version=$("$here/$venv/bin/pip" list --format=freeze 2>/dev/null | sed -n "s/^$1==//p")
    [ -n "$version" ] || return 1
    [ -d "$2-$version" ] || { "$here/"$pip download --no-deps --no-binary "$1" -d . \
        "$1==$version" >/dev/null 2>"pip.log" && tar xzf "$2-$version.tar.gz"; } || return 1
    echo "$here/build/python/$2-$version"
}
protocol() # PACKAGE FOLDER PLUGIN TEST...
{
    local package=$1 folder=$2 plugin=$3 source
    shift 3
    if ! source=$(sources "$package" "$folder"); then
        echo "1 skipped (the source package of $package cannot be had)" | tee -a "$out"
        return
    fi
    (cd "$source" && PYTHONPATH=$here/bindings/python/tests/protocol \
        "$here/$venv/bin/python" -m pytest -q -p "$plugin" -p no:cacheprovider \
        -o addopts= "$@" 2>&1) | sed 's/ deselected/ not asked/' | tee -a "$out"
}
protocol openai-agents openai_agents openai_agents_session \
    tests/memory/test_session.py tests/memory/test_session_limit.py
protocol langchain-core langchain_core langchain_history \
    tests/unit_tests/chat_history tests/unit_tests/runnables/test_history.py
if "$here/$venv/bin/python" -m mypy --version >/dev/null 2>&1; then
    if "$here/$venv/bin/python" -m mypy --ignore-missing-imports \
        --cache-dir="$here/build/python/mypy" "$here/$package/msgstore/__init__.py" \
        >"$out.mypy" 2>&1; then
        echo "1 passed (mypy)" | tee -a "$out"
    else
        cat "$out.mypy"
        echo "1 failed (mypy)" | tee -a "$out"
    fi
    # The first program of README.md, too. Each line of wrong.py has one error.
    typed=$here/$package/tests/typed
    sed -n '/^```python$/,/^```$/{/^```/d;p}; /^## Messages/q' "$here/$package/README.md" >first.py
    wrong=$(grep -c 'msgstore\.open(' "$typed/wrong.py")
    "$here/$venv/bin/python" -m mypy --strict --cache-dir="$here/build/python/mypy" first.py \
        "$typed/runner.py" "$typed/graph.py" "$typed/wrong.py" >"$out.mypy" 2>&1
    if [ "$(grep -c '^[^ ]*wrong.py:.* error: ' "$out.mypy")" = "$wrong" ] &&
        grep -q '^def chat' first.py &&
        grep -q "^Found $wrong errors in 1 file (checked 4 " "$out.mypy"; then
        echo "1 passed (a user's program, mypy --strict)" | tee -a "$out"
    else
        cat "$out.mypy"
        echo "1 failed (a user's program, mypy --strict)" | tee -a "$out"
    fi
fi
if [ "${BENCH:-0}" = 1 ]; then "$here/$venv/bin/python" "$here/$package/tests/bench.py"
    "$here/$venv/bin/python" "$here/$package/tests/bench_langgraph.py"; fi
tally
