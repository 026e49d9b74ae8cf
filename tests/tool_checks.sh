# What the tests of the command line tool share; they take it in with `. tests/tool_checks.sh`
# from the folder above: where things are, a folder for files, and checks that print
# "ok NAME" or "FAIL NAME: reason" a line and set failed.
# shellcheck shell=bash disable=SC2034,SC2059

tool=${MSGSTORE:-build/msgstore}
shared=${MS_SHARED:-../shared}/data
demo=tools/demo.jsonl
unset NO_COLOR MSGSTORE_PAGER LESS
export PAGER=cat
export LC_ALL=C.UTF-8 # the tool has no locale; bash counts characters by it
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
input_format=%b # how $input is printed
failed=0

ok()
{
    echo "ok $1"
}

fail()
{
    printf 'FAIL %s: %s\n' "$1" "$2"
    failed=1
}

if [ ! -x "$tool" ]; then
    fail tool "$tool is not built"
    exit 1
fi

# run ARGUMENTS: the tool with the text $input as its standard input; its output goes to
# $tmp/out and $tmp/err, its exit code to $status.
input=
status=0
run()
{
    printf "$input_format" "$input" | "$tool" "$@" >"$tmp/out" 2>"$tmp/err"
    status=$?
}

# matches FILE PATTERN: "" asks for an empty file, "*" for any, else a line has to match
# the extended regular expression.
matches()
{
    case $2 in
    '') [ ! -s "$1" ] ;;
    '*') true ;;
    *) grep -qaE -e "$2" "$1" ;;
    esac
}

# check NAME STATUS OUT ERR ARGUMENTS: exit code and patterns of output and messages.
check()
{
    local name=$1 want=$2 out=$3 err=$4
    shift 4
    run "$@"
    if [ "$status" -ne "$want" ]; then
        fail "$name" "exit code $status instead of $want: $(head -n 1 "$tmp/err")"
    elif ! matches "$tmp/out" "$out"; then
        fail "$name" "output is not '$out': $(head -n 3 "$tmp/out" | tr '\n' '|')"
    elif ! matches "$tmp/err" "$err"; then
        fail "$name" "message is not '$err': $(head -n 2 "$tmp/err" | tr '\n' '|')"
    else
        ok "$name"
    fi
}

# same NAME EXPECTED ACTUAL: two texts.
same()
{
    if [ "$2" = "$3" ]; then ok "$1"; else fail "$1" "'$3' instead of '$2'"; fi
}

# equal NAME FILE FILE: two files, which must not be empty.
equal()
{
    if [ ! -s "$2" ]; then
        fail "$1" "there is nothing in the first"
    elif cmp -s "$2" "$3"; then
        ok "$1"
    else
        fail "$1" "$(diff "$2" "$3" | head -n 3 | cut -c 1-120 | tr '\n' '|')"
    fi
}

# column N ARGUMENTS: the Nth word of each line of the tool's output, on one line.
column()
{
    local n=$1
    shift
    "$tool" "$@" 2>/dev/null | awk -v n="$n" '{ printf "%s%s", (NR > 1 ? " " : ""), $n }'
}

# soon COMMAND...: waits until it succeeds, for ten seconds.
soon()
{
    for _ in $(seq 200); do
        if "$@" 2>/dev/null; then return 0; fi
        sleep 0.05
    done
    return 1
}

# helps COMMAND...: each has a page that begins with examples, names its usage, is not too
# wide, and is listed in the first page.
helps()
{
    local command
    for command in "$@"; do
        run "$command" -h
        same "help_$command" "0 examples: 1" "$status $(head -n 1 "$tmp/out") $(
            grep -c "^usage: msgstore $command " "$tmp/out")"
        same "help_width_$command" 0 "$(awk 'length > 84' "$tmp/out" | wc -l)"
        same "help_main_$command" 1 "$("$tool" -h | grep -c "^  $command ")"
    done
}
