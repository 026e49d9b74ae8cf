#!/usr/bin/env bash
# Writes msgstore_single.h: msgstore.h with stb_ds.h taken in, for those who want one file
# without any other: tools/single.sh FILE. The licence of stb_ds stays in it. stb_ds comes
# from this machine (STB_INC, or where Debian's libstb-dev has it).
set -eu
cd "$(dirname "$0")/.."
out=${1:-build/msgstore_single.h}
flag=$(sh tools/setup.sh stb)
stb=${flag#-isystem }/stb_ds.h
[ -f "$stb" ] || { echo "make single: stb_ds.h is not found (Debian: libstb-dev)" >&2; exit 1; }
mkdir -p "$(dirname "$out")"
awk -v stb="$stb" '
    /^#[ \t]*ifndef MSGSTORE_STB_DS/ { looks = 1 }
    /^#[ \t]*include MSGSTORE_STB_DS/ {
        print "/* ---- stb_ds.h, taken in; its licence is at its end. */"
        while ((getline line < stb) > 0) print line
        print "/* ---- end of stb_ds.h */"
        taken++
        looks = 0
        next
    }
    !looks { print }
    END { if (taken != 1) exit 1 }' msgstore.h >"$out" ||
    { echo "make single: msgstore.h has no single place for stb_ds.h" >&2; exit 1; }
echo "$out: $(wc -l <"$out") lines"
