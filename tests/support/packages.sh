# install FOLDER LIST: installs packages for tests that other programs judge. A line of the
# list is "REGISTRY NAME VERSION": those of PyPI go into the virtual environment FOLDER/py,
# those of npm into FOLDER/js. Names those that cannot be installed.
# shellcheck shell=bash
install()
{
    local registry name version
    mkdir -p "$1/js"
    [ -f "$1/js/package.json" ] || echo '{"private": true}' >"$1/js/package.json"
    [ -x "$1/py/bin/python" ] || ! grep -q '^pypi ' "$2" || python3 -m venv "$1/py" >/dev/null 2>&1
    while read -r registry name version; do
        case $registry in
        npm)
            [ "$(node -p "require('./$1/js/node_modules/$name/package.json').version" \
                2>/dev/null)" = "$version" ] ||
                (cd "$1/js" && npm install -s --no-audit --no-fund --ignore-scripts \
                    "$name@$version")
            ;;
        pypi) "$1/py/bin/pip" install -q --disable-pip-version-check "$name==$version" ;;
        esac >>"$1/install.log" 2>&1 ||
            echo "cannot install $name $version of $registry: its judges are left out"
    done <"$2"
}
