#!/usr/bin/env bash
# docs/defaults.md names every public function, every member of a struct that a caller
# fills, and every compile-time option; and no other ones.
set -u
cd "$(dirname "$0")/../.." || exit 1
page=docs/defaults.md
structs="ms_envelope ms_append_opts ms_query ms_list_query ms_log_desc ms_mem_desc ms_memory \
ms_scope ms_stream_opts ms_request_desc ms_project_opts ms_shorten_opts ms_profile \
ms_find_query ms_union_desc ms_keep ms_rewrite ms_read_opts ms_writer_opts ms_task_change \
ms_session_load_opts ms_json_opts ms_record"
out=build/defaults
failed=0
mkdir -p "$out"

# same NAME: what the interface has, in $out/has, equals what the page lists, in $out/lists.
same()
{
    sort -u -o "$out/has" "$out/has"
    sort -u -o "$out/lists" "$out/lists"
    if [ ! -s "$out/has" ]; then
        echo "FAIL $1: the interface has none"
    elif cmp -s "$out/has" "$out/lists"; then
        echo "ok $1"
        return
    else
        echo "FAIL $1: the page lacks $(comm -23 "$out/has" "$out/lists" | paste -sd ' ')," \
            "and has beyond it $(comm -13 "$out/has" "$out/lists" | paste -sd ' ')"
    fi
    failed=1
}

# members STRUCT: its public members, one a line.
members()
{
    cat src/api/*.h | awk -v name="$1" '
        inside && /^}/ { exit }
        inside { print }
        $0 ~ "struct " name " \\{" { inside = 1 }' |
        sed 's|^#.*||' | awk '{ all = all $0 "\n" } END {
            while (match(all, /\/\*([^*]|\*+[^*\/])*\*+\//)) {
                comment = substr(all, RSTART, RLENGTH)
                all = substr(all, 1, RSTART - 1) (comment ~ /private/ ? "\001" : "") \
                    substr(all, RSTART + RLENGTH)
            }
            n = split(all, part, ";")
            for (i = 1; i <= n; i++) {
                if (part[i + 1] ~ /^[ \t]*\001/ && part[i] !~ /report|state/) continue
                if (match(part[i], /\(\*[a-z_]+\)/)) {
                    print substr(part[i], RSTART + 2, RLENGTH - 3)
                    continue
                }
                gsub(/[\001*]/, " ", part[i])
                k = split(part[i], one, ",")
                for (j = 1; j <= k; j++) if (match(one[j], /[a-z_]+[ \t\n]*$/)) {
                    word = substr(one[j], RSTART, RLENGTH)
                    gsub(/[ \t\n]/, "", word)
                    print word
                }
            }
        }'
}

# words: what stands in backticks, one a line.
words()
{
    grep -o '`[A-Za-z_]*`' | tr -d '`'
}

cat src/api/*.h | tr '\n' ' ' | grep -oE 'MS_API [^;{()]*\(' | grep -oE 'ms_[a-z0-9_]+ *\($' |
    tr -d ' (' >"$out/has"
sed -n '/^Calls:/,/^$/p' "$page" | grep -oE '`ms_[a-z0-9_]+`' | tr -d '`' >"$out/lists"
same public_functions
for s in $structs; do
    members "$s" >"$out/has"
    awk -v head="| \`$s\` |" 'index($0, head) == 1 { inside = 1; next } /^$/ { inside = 0 }
        inside { split($0, cell, "|"); print cell[2] }' "$page" | words >"$out/lists"
    same "members_of_$s"
done
grep -oE '^ \*   (MSGSTORE_[A-Z_]+|MS_ASSERT)' src/api/manual.h | awk '{ print $2 }' >"$out/has"
sed -n '/^## When compiled/,$p' "$page" | grep '^|' | awk -F '|' '{ print $2 }' | words >"$out/lists"
same compile_time_options
# Structs that a caller fills end so; one that is new has to be listed above.
grep -ohE 'typedef struct ms_[a-z_]+(_opts|_desc|_query|_change) \{' src/api/*.h |
    awk '{ print $3 }' >"$out/has"
tr ' ' '\n' <<<"$structs" | grep -E '^ms_[a-z_]+_(opts|desc|query|change)$' >"$out/lists"
same structs_that_a_caller_fills
exit "$failed"
