#!/usr/bin/env bash
# Checks tools/join.sh, which keeps msgstore.h and src/ equal, on a copy of both: an edit of
# either side is carried to the other, and what cannot be carried is refused with nothing
# written.
#
# Prints "ok NAME" or "FAIL NAME: reason" for each check.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$PWD/build/join
failed=0
export MS_ROOT=$out
rm -rf "$out"
mkdir -p "$out"

# fresh: the copy as the tree is, in a repository of its own, joined.
fresh()
{
    rm -rf "$out/src" "$out/build" "$out/.git"
    cp -r src msgstore.h "$out/"
    bash tools/join.sh
    [ "${1:-}" != committed ] || commit
}

# commit: all of the copy; what was equal before is forgotten, as in a fresh clone.
commit()
{
    rm -rf "$out/build"
    git -C "$out" init -q
    git -C "$out" add src msgstore.h
    git -C "$out" -c user.name=join -c user.email=join@example.org commit -qm copy
}

# join STATUS [ARGUMENT ...]: runs it on the copy, keeps what it says in $said, and adds to
# $problem if it ends with another status.
join()
{
    local expected=$1 status=0
    shift
    said=$(bash tools/join.sh "$@" 2>&1) || status=$?
    [ "$status" -eq "$expected" ] || problem="$problem it ended with $status: $said;"
}

# says TEXT: what it said must have this text.
says()
{
    case $said in *"$1"*) ;; *) problem="$problem it did not say '$1': $said;" ;; esac
}

# changed: prints the files of the copy that differ from the tree.
changed()
{
    diff -rq src "$out/src" | sed -n 's|^Files src/\([^ ]*\) .*|src/\1|p; s|^Only.*|&|p'
    cmp -s msgstore.h "$out/msgstore.h" || echo msgstore.h
}

# result NAME EXPECTED: these files and no others must have changed.
result()
{
    local found
    found=$(changed | xargs)
    [ "$found" = "$2" ] || problem="$problem changed is '$found', not '$2';"
    if [ -z "$problem" ]; then echo "ok $1"; else
        echo "FAIL $1:$problem"
        failed=1
    fi
}

# begin [committed]: the next check.
begin()
{
    problem=
    fresh "$@"
}

begin
join 0 --check
result equal_sides_pass_the_check ''

begin
sed -i '$s/$/\n\/* planted *\//' "$out/src/log/os.h"
join 1 --check
says 'edited was src'
join 0
join 0 --check
[ "$(grep -c '^/\* planted \*/$' "$out/msgstore.h")" -eq 1 ] || problem=' it was not carried;'
result an_edit_of_a_file_is_carried_to_the_header 'src/log/os.h msgstore.h'

begin
for tag in log-sync fmt-openai; do # the line after the title of the section
    sed -i "/^\/\* ==== \[$tag\]/s/\$/\n * planted/" "$out/msgstore.h"
done
join 1 --check
says 'edited was msgstore.h'
join 0
says src/log/sync.h
says src/formats/openai.h
[ "$(sed -n 3p "$out/src/log/sync.h")" = ' * planted' ] || problem=' it is not in the file;'
result an_edit_of_the_header_is_carried_to_the_files_it_belongs_to \
    'src/formats/openai.h src/log/sync.h msgstore.h'

begin
sed -i '$s/$/\n\/* planted *\//' "$out/src/log/os.h"
join 0
sed -i '/^\/\* ==== \[json\]/s/$/\n * planted/' "$out/msgstore.h"
join 0
says src/foundation/json.h
result edits_of_both_sides_are_carried_one_after_the_other \
    'src/foundation/json.h src/log/os.h msgstore.h'

begin
sed -i '$s/$/\n\/* planted *\//' "$out/src/log/os.h"
sed -i '3s/$/ planted/' "$out/msgstore.h"
cp "$out/msgstore.h" "$out/kept.h"
join 1
says 'nothing is'
says 'make header FROM=src'
cmp -s "$out/kept.h" "$out/msgstore.h" || problem="$problem msgstore.h was written;"
result edits_of_both_sides_at_once_are_refused 'src/log/os.h msgstore.h'

join 0 --from src
join 0 --check
grep -q '^/\* planted \*/$' "$out/msgstore.h" || problem=' src does not count;'
result a_named_side_counts 'src/log/os.h msgstore.h'

begin
sed -i 's/^#ifdef MSGSTORE_RING$/#if defined(MSGSTORE_RING)/' "$out/msgstore.h"
join 1
says 'edit guards and add sections in src/'
result an_edited_guard_of_the_header_is_refused msgstore.h

begin
sed -i '/^\/\* ==== \[log-sync\]/s/log-sync/log-snyc/' "$out/msgstore.h"
join 1
says 'expected "/* ==== [log-sync]"'
result a_new_section_of_the_header_is_refused msgstore.h

begin
sed -i 's/^#include "log\/os.h"$/&\n#include "log\/more.h"/' "$out/src/msgstore.h"
join 1
says 'includes src/log/more.h, which is missing'
result a_missing_file_is_refused src/msgstore.h

begin
sed -i 's/^#include "log\/os.h"$/& \/* x *\//' "$out/src/msgstore.h"
join 1
says 'expected #include'
result another_form_of_an_include_is_refused src/msgstore.h

begin
sed -i 's/$/\r/' "$out/src/msgstore.h"
join 1
says 'expected #include'
result a_spine_with_returns_is_refused src/msgstore.h

begin
cp "$out/src/log/list.h" "$out/src/log/extra.h"
join 1
says 'src/msgstore.h does not include src/log/extra.h'
result a_file_that_the_spine_lacks_is_refused 'Only in '"$out/src/log: extra.h"

begin
sed -i '$s/$/\n\/* ==== [log-more] a second tag *\//' "$out/src/log/os.h"
join 1
says 'a file has one tag'
result a_second_tag_in_a_file_is_refused src/log/os.h

begin
sed -i '/^\/\* ==== \[log-sync\]/s/$/\n * planted/' "$out/msgstore.h"
truncate -s -1 "$out/msgstore.h"
join 1
says 'msgstore.h does not end with a line feed'
result a_header_without_a_last_line_feed_is_refused msgstore.h

begin
truncate -s 500000 "$out/msgstore.h"
echo >>"$out/msgstore.h"
join 1
says 'msgstore.h ends before'
result a_header_that_ends_early_is_refused msgstore.h

# Without build/, as in a fresh clone, the last commit shows which side was edited.
begin committed
sed -i '/^\/\* ==== \[json\]/s/$/\n * planted/' "$out/msgstore.h"
join 1 --check
says 'edited was msgstore.h'
join 0
says src/foundation/json.h
result the_last_commit_shows_an_edit_of_the_header 'src/foundation/json.h msgstore.h'

begin committed
sed -i '$s/$/\n\/* planted *\//' "$out/src/log/os.h"
join 0
says 'msgstore.h is written'
result the_last_commit_shows_an_edit_of_a_file 'src/log/os.h msgstore.h'

# A commit that has only one side: nothing tells which one counts.
begin committed
sed -i '/^\/\* ==== \[json\]/s/$/\n * planted/' "$out/msgstore.h"
commit
join 1 --check
says 'FROM=src or FROM=msgstore.h'
join 1
says 'nothing is'
result a_commit_of_one_side_is_not_undone msgstore.h
join 0 --from msgstore.h
says src/foundation/json.h
result the_header_counts_when_it_is_named 'src/foundation/json.h msgstore.h'

# The commit shows an edit of the header, the state in build/ that it came from the file.
begin committed
sed -i '$s/$/\n\/* planted *\//' "$out/src/log/os.h"
join 0
cp src/log/os.h "$out/src/log/os.h"
join 0
says 'msgstore.h is written'
result an_edit_of_a_file_that_is_undone_is_carried ''

begin
printf '/* no end */' >>"$out/src/log/os.h"
join 1
says 'src/log/os.h does not end with a line feed'
result a_file_without_a_last_line_feed_is_refused src/log/os.h

# Whoever reads this tree sees it: outside of MS_ROOT the check takes the tree itself.
unset MS_ROOT
problem=
said=$(bash tools/join.sh --check 2>&1) || problem=" $said"
if [ -z "$problem" ]; then echo "ok the_tree_is_joined"; else
    echo "FAIL the_tree_is_joined:$problem"
    failed=1
fi
exit $failed
