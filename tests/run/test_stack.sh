#!/usr/bin/env bash
# How much stack the library uses, told by gcc: no function of msgstore.h may take more
# than 4096 bytes or a size that is not known when compiling, no chain of calls may take
# more than 4096 bytes in all, and there is no recursion. A chain counts the frames of
# stb_ds too. Calls through pointers (allocators, clocks, writers, tables of functions)
# and functions of libc are not known to the compiler: they are not counted.
set -u
cd "$(dirname "$0")/../.." || exit 1
limit=4096
out=build/stack
rm -rf "$out"
mkdir -p "$out"

gcc=
for compiler in gcc "${CC:-cc}"; do
    if echo 'int main(void) { return 0; }' |
        $compiler -x c - -c -o "$out/probe.o" -fcallgraph-info=su,da 2>/dev/null; then
        gcc=$compiler
        break
    fi
done
if [ -z "$gcc" ]; then
    echo "skip stack: no gcc that tells frames and calls (-fcallgraph-info, gcc 10)"
    exit 0
fi

# make test has let gcc tell it with the tests' own object.
# shellcheck disable=SC2046
told=build/o2/msgstore
if [ $told.ci -nt msgstore.h ] && [ $told.su -nt msgstore.h ]; then
    cp $told.ci $told.su "$out/"
elif ! $gcc -std=c99 -I. -O2 $(sh tools/setup.sh stb) -fstack-usage -fcallgraph-info=su,da \
    -c tests/support/msgstore_impl.c -o "$out/msgstore.o" >"$out/log" 2>&1; then
    echo "FAIL stack_compile: $(grep -m 1 error "$out/log")"
    exit 1
fi

# Frames: FILE:LINE:COLUMN:FUNCTION, BYTES, and static, dynamic or dynamic,bounded.
awk -F '\t' -v limit=$limit '
    $1 !~ /msgstore\.h:/ { next }
    {
        name = $1
        sub(/.*:/, "", name)
        seen++
        if ($2 + 0 > largest) { largest = $2 + 0; where = name }
        if ($2 + 0 > limit) bad = bad "FAIL stack_frame: " name " takes " $2 " bytes\n"
        if ($3 == "dynamic") bad = bad "FAIL stack_frame: " name " has no bound\n"
    }
    END {
        if (!seen) bad = "FAIL stack_frame: no function of msgstore.h seen\n"
        printf "%s", bad
        if (bad) exit 1
        print "ok stack_frame (" seen " functions, largest " largest " bytes: " where ")"
    }' "$out/msgstore.su"
failed=$?

# Calls: node: { title: "ID" label: "NAME\nPLACE\nBYTES bytes (static)\n..." }
#        edge: { sourcename: "ID" targetname: "ID" label: "PLACE" }
# The deepest chain of a function is its frame plus the deepest one of those it calls.
awk -v limit=$limit '
    function field(key,    rest) {
        rest = $0
        if (!sub(".*" key ": \"", "", rest)) return ""
        sub(/".*/, "", rest)
        return rest
    }
    function short(id) { return id in name ? name[id] : id }
    function chain(id,    s) {
        s = short(id)
        while (id in next_of) { id = next_of[id]; s = s " > " short(id) }
        return s
    }
    # Depth of id; "state" is 1 while it is being visited: a call back to it is recursion.
    function depth(id,    i, n, d, list) {
        if (state[id] == 2) return deep[id]
        if (state[id] == 1) return 0
        state[id] = 1
        n = split(calls[id], list, SUBSEP)
        for (i = 1; i <= n; i++) {
            if (list[i] == "") continue
            if (state[list[i]] == 1 && ours[list[i]]) loop[list[i]] = id
            d = depth(list[i])
            if (d > most[id]) { most[id] = d; next_of[id] = list[i] }
        }
        state[id] = 2
        deep[id] = frame[id] + most[id]
        return deep[id]
    }
    /^node:/ {
        id = field("title")
        split(field("label"), part, /\\n/)
        name[id] = part[1]
        ours[id] = part[2] ~ /msgstore\.h:/
        for (i in part) if (part[i] ~ /^[0-9]+ bytes/) frame[id] = part[i] + 0
    }
    /^edge:/ {
        from = field("sourcename")
        to = field("targetname")
        if (to == "__indirect_call") unknown++
        else calls[from] = calls[from] SUBSEP to
    }
    END {
        for (id in ours) {
            if (ours[id] && depth(id) > largest) { largest = deep[id]; top = id }
        }
        for (id in loop) {
            print "FAIL stack_recursion: " short(id) " again from " short(loop[id])
            bad = 1
        }
        if (!bad) print "ok stack_recursion"
        told = largest + 0 " bytes: " chain(top)
        if (largest > limit || largest == 0) { print "FAIL stack_chain: " told; exit 1 }
        print "ok stack_chain (" told "; " unknown + 0 " calls through pointers unknown)"
        exit bad
    }' "$out"/msgstore.ci || failed=1
exit $failed
