#!/usr/bin/env bash
# Renews versions.txt, the packages of `make test-sdk`.
#
#   tests/platform/sdk/renew.sh          both lists are run, versions.txt becomes the new one
#   tests/platform/sdk/renew.sh --list   prints the new list, and runs nothing
#
# pip and npm are asked for the newest version of each package; one that they do not find
# keeps its own. Then run.sh judges with the list as it is, under build/sdk, and with the
# new one, under build/sdk-new. versions.txt is replaced only if both pass. It fails if one
# of them does not: the new packages refuse what the old ones take, or the reverse.
set -u
cd "$(dirname "$0")/../../.." || exit 1
old=tests/platform/sdk/versions.txt
new=build/sdk-new/versions.txt

# newest REGISTRY NAME: the newest version that is no preview; empty if it is not known.
newest()
{
    case $1 in
    pypi) python3 -m pip index versions --disable-pip-version-check "$2" 2>/dev/null |
        sed -n '1s/.*(\(.*\)).*/\1/p' ;;
    npm) npm view "$2" version 2>/dev/null ;;
    esac
}

# renewed: the list with the newest versions. A comment stays.
renewed()
{
    local registry name version found
    while read -r registry name version; do
        found=
        [ "$registry" = '#' ] || found=$(newest "$registry" "$name")
        echo "$registry $name ${found:-$version}"
    done <"$old"
}

[ "${1:-}" != --list ] || { renewed && exit; }
mkdir -p build/sdk-new
renewed >"$new"
echo "== $old"
bash tests/platform/sdk/run.sh
was=$?
echo "== $new"
diff "$old" "$new"
MS_SDK=build/sdk-new bash tests/platform/sdk/run.sh
is=$?
[ $was = 0 ] && [ $is = 0 ] && cp "$new" "$old"
