#!/usr/bin/env bash
# Writes the archive of a release from what is committed: tools/dist.sh [FOLDER], else
# build/dist.
#
#   msgstore-VERSION.tar.gz   the tree, with stb_ds.h, msgstore_single.h and a bill of
#                             materials (msgstore.spdx.json, SPDX 2.3)
#   SHA256SUMS
#
# Two runs on one commit, anywhere, write the same bytes: names are sorted, times are that
# of the commit (or SOURCE_DATE_EPOCH), owners are 0. stb_ds.h is the one of this machine;
# its checksum is in the bill.
set -eu
cd "$(dirname "$0")/.."
export LC_ALL=C TZ=UTC
out=${1:-build/dist}
if ! git rev-parse HEAD >/dev/null 2>&1; then
    echo "make dist: this is no checkout of git" >&2
    exit 1
fi
changed=$(git status --porcelain --untracked-files=no | head -n 3)
if [ -n "$changed" ]; then
    echo "make dist: not committed: $changed" >&2
    exit 1
fi
flag=$(sh tools/setup.sh stb)
stb=${flag#-isystem }/stb_ds.h
[ -f "$stb" ] || { echo "make dist: stb_ds.h is not found (Debian: libstb-dev)" >&2; exit 1; }
version=$(sed -n 's/^#define MSGSTORE_VERSION *"\(.*\)".*/\1/p' msgstore.h)
stb_version=$(sed -n '1s/.*v\([0-9.]*\).*/\1/p' "$stb")
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
name=msgstore-$version
mkdir -p "$out"
out=$(cd "$out" && pwd)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
tree=$stage/$name
mkdir "$tree"
git archive HEAD | tar -x -C "$tree"
cp "$stb" "$tree/stb_ds.h"
bash tools/single.sh "$tree/msgstore_single.h" >/dev/null

sum()
{
    sha256sum "$1" | cut -d ' ' -f 1
}

# part ID NAME VERSION FILE ORIGIN: a package of the bill. Its licence is that of LICENSE.
part()
{
    cat <<END
    {
      "SPDXID": "SPDXRef-$1",
      "name": "$2",
      "versionInfo": "$3",
      "packageFileName": "${4##*/}",
      "checksums": [{"algorithm": "SHA256", "checksumValue": "$(sum "$4")"}],
      "downloadLocation": "$5",
      "filesAnalyzed": false,
      "licenseConcluded": "MIT OR Unlicense",
      "licenseDeclared": "MIT OR Unlicense",
      "copyrightText": "$6"
    }
END
}

cat >"$tree/msgstore.spdx.json" <<END
{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "$name",
  "documentNamespace": "https://spdx.org/spdxdocs/$name-$(sum "$tree/msgstore.h")",
  "creationInfo": {
    "created": "$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ 2>/dev/null ||
        date -u -r "$epoch" +%Y-%m-%dT%H:%M:%SZ)",
    "creators": ["Tool: tools/dist.sh"]
  },
  "packages": [
$(part msgstore msgstore "$version" "$tree/msgstore.h" NOASSERTION \
    "Copyright (c) 2026 the msgstore.h authors"),
$(part stb-ds stb_ds.h "$stb_version" "$tree/stb_ds.h" https://github.com/nothings/stb \
    "Copyright (c) 2019 Sean Barrett")
  ],
  "relationships": [
    {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
     "relatedSpdxElement": "SPDXRef-msgstore"},
    {"spdxElementId": "SPDXRef-msgstore", "relationshipType": "DEPENDS_ON",
     "relatedSpdxElement": "SPDXRef-stb-ds"}
  ]
}
END
tar --sort=name --format=gnu --mtime="@$epoch" --owner=0 --group=0 --numeric-owner \
    --mode='u=rwX,go=rX' -C "$stage" -cf - "$name" | gzip -9n >"$out/$name.tar.gz"
(cd "$out" && sha256sum "$name.tar.gz" >SHA256SUMS)
echo "wrote $out/$name.tar.gz, $(wc -c <"$out/$name.tar.gz") bytes"
cat "$out/SHA256SUMS"
