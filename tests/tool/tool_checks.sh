# What the suites of the command line tool share; each begins with
# `. "$(dirname "$0")/tool_checks.sh"`, which changes to the folder of the Makefile. It
# defines paths, a temporary folder $tmp, sessions and helpers. A test prints "ok NAME" or
# "FAIL NAME: reason" and sets failed; a suite prints "skip NAME: reason" for what it
# leaves out.
# shellcheck shell=bash disable=SC2034
set -u
cd "$(dirname "$0")/../.." || exit 1

tool=${MSGSTORE:-build/msgstore}
shared=${MS_SHARED:-../shared}/data
demo=tools/demo.jsonl
unset NO_COLOR MSGSTORE_PAGER LESS MSGSTORE_LOG
export TZ=UTC
export PAGER=cat
export LC_ALL=C.UTF-8 # for bash: ${#text} counts characters of UTF-8
tmp=$(mktemp -d) || exit 1
exec 3>&1 # a command of a session may end the shell while its output goes elsewhere
s_running= # that command
ends()
{
    [ -z "$s_running" ] ||
        fail "$s_name" "$s_running ended the shell: $(tail -n 1 "$tmp/err")" >&3
    rm -rf "$tmp"
}
trap ends EXIT
export XDG_STATE_HOME=$tmp/state # no usual log
failed=0

# Both end the suite where MS_TEST_UNTIL names the test: nobody asks for the others.
ok()
{
    echo "ok $1"
    [ "$1" != "${MS_TEST_UNTIL:-}" ] || exit $failed
}

fail()
{
    printf 'FAIL %s: %s\n' "$1" "$2"
    failed=1
    [ "$1" != "${MS_TEST_UNTIL:-}" ] || exit $failed
}

if ! "$tool" --version >/dev/null 2>&1; then
    fail tool "$tool is not built, or does not start"
    exit 1
fi

# Loading libcrypto, of libzip, is most of what a start of the tool costs. No suite calls
# it, so an empty library that the Makefile builds takes its place.
empty=$PWD/build/empty${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
if LD_LIBRARY_PATH=$empty "$tool" --version >/dev/null 2>&1; then
    export LD_LIBRARY_PATH=$empty
fi

# count FILE PATTERN: sets found to the number of lines that match the extended regular
# expression. Files below 100 lines cost no process.
count()
{
    local line lines
    mapfile -t -n 100 lines <"$1"
    if [ "${#lines[@]}" -eq 100 ]; then
        found=$(grep -caE -e "$2" "$1")
        return
    fi
    found=0
    for line in "${lines[@]}"; do
        [[ $line =~ $2 ]]
        case $? in
        0) found=$((found + 1)) ;;
        2) found=-1 && return ;;
        esac
    done
}

# matches FILE PATTERN: "" asks for an empty file, "*" for any, else a line has to match.
matches()
{
    case $2 in
    '') [ ! -s "$1" ] ;;
    '*') true ;;
    *) count "$1" "$2" && [ "$found" -gt 0 ] ;;
    esac
}

# same NAME EXPECTED ACTUAL: two texts.
same()
{
    if [ "$2" = "$3" ]; then ok "$1"; else fail "$1" "'$3' instead of '$2'"; fi
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

# lines COUNT FILE: it has at least so many lines.
lines()
{
    [ "$(wc -l <"$2")" -ge "$1" ]
}

# follow COUNT ARGUMENTS: follows the log in the background, its output in $tmp/follow,
# and waits for so many lines.
follow()
{
    local count=$1
    shift
    rm -f "$tmp/follow"
    "$tool" follow "$log" "$@" >"$tmp/follow" &
    follower=$!
    [ "$count" -eq 0 ] || soon lines "$count" "$tmp/follow"
}

# unfollow COUNT: waits for so many lines, then ends what follow began; sets status.
unfollow()
{
    soon lines "$1" "$tmp/follow"
    kill -TERM "$follower" 2>/dev/null
    wait "$follower"
    status=$?
}

# has_terminal: can script(1) pretend a terminal?
has_terminal()
{
    command -v script >/dev/null 2>&1 &&
        script -qec true "$tmp/typescript" >/dev/null 2>&1 </dev/null
}

# on_terminal VARIABLE=VALUE [COLUMNS]: `view` of the sample on a terminal of that width.
on_terminal()
{
    script -qec "stty cols ${2:-110}; $1 $tool view $demo" /dev/null </dev/null | tr -d '\r'
}


# ---- Sessions.
#
# session: runs the rows of its standard input, which read like a session at a terminal.
# "== NAME" begins a test, "# " a comment. Any other row is a command of the tool, or after
# "$ " one of the shell, and what it must answer:
#
#   => PATTERN            a line of its output matches
#   =N> PATTERN           exactly N lines match
#   =$N> WORDS            the Nth words of all lines are these; the shell expands them
#   == FILE               its output is the same as the file, which is not empty
#   -> STATUS PATTERN     its exit status; a line of its stderr matches
#
# Without "->" the status is 0 and stderr is empty. If "->" is the only arrow, stdout is
# empty; without arrows stdout is not checked. A PATTERN is an extended regular expression,
# or "*" for anything; after a status it may be absent: then stderr is empty. An arrow has
# a space on each side, so no command or pattern contains " => ". A row that begins with
# =>, =N> or =$N> checks the stdout of the row above it once more. The stdout of a row is
# in $tmp/out, which the next command empties. The shell expands a row when it runs it, so
# the here-document is quoted: session <<'END'.
#
# A row that fails prints its test, the row and the reason; the rows after it still run.
session()
{
    local s_row s_rows s_name= s_bad=1
    mapfile -t s_rows
    for s_row in "${s_rows[@]}" '== '; do
        case $s_row in
        '' | '# '*) ;;
        '-> '* | '->') wrong "no command" ;;
        '== '*)
            [ "$s_bad" -ne 0 ] || ok "$s_name"
            s_name=${s_row#== } s_bad=0
            ;;
        *) session_row " $s_row" ;;
        esac
    done
}

session_row()
{
    local s_rest=$1 s_want=0 s_errors= s_arrows=() s_asked=() i
    local s_arrow='^(.*) (=\$?[0-9]*>|==|->)( (.*))?$'
    while [[ $s_rest =~ $s_arrow ]]; do
        s_rest=${BASH_REMATCH[1]}
        if [ "${BASH_REMATCH[2]}" = '->' ]; then
            read -r s_want s_errors <<<"${BASH_REMATCH[4]}"
        else
            s_arrows+=("${BASH_REMATCH[2]}") s_asked+=("${BASH_REMATCH[4]}")
        fi
    done
    if [ -n "$s_rest" ]; then
        session_run "$s_rest"
        if [ "$1" != "$s_rest" ] && [ ${#s_arrows[@]} -eq 0 ]; then s_arrows=('=0>'); fi
    fi
    for i in "${!s_arrows[@]}"; do
        session_answer "${s_arrows[i]}" "${s_asked[i]:-}"
    done
}

# wrong REASON: the row of a session fails.
wrong()
{
    fail "$s_name" "\`$s_row\`: $1"
    s_bad=1
}

# session_run COMMAND: its exit status and its stderr are what the row asks for.
session_run()
{
    s_running=\`$1\`
    case $1 in
    ' $ '*) eval "${1# \$ }" ;;
    *) eval "\"\$tool\"$1" ;;
    esac >"$tmp/out" 2>"$tmp/err" </dev/null
    status=$?
    s_running=
    if [[ ! $s_want =~ ^[0-9]+$ ]]; then
        wrong "no status after ->"
    elif [ "$status" -ne "$s_want" ]; then
        wrong "exit status $status: $(head -n 1 "$tmp/err")"
    elif ! matches "$tmp/err" "$s_errors"; then
        wrong "stderr is $(head -n 3 "$tmp/err" | tr '\n' '|')"
    fi
}

# session_answer ARROW TEXT: the output is what the arrow asks for.
session_answer()
{
    local words found= want=${1//[^0-9]/}
    if [ "$1" = == ]; then
        eval "words=$2"
        [ -s "$words" ] && cmp -s "$words" "$tmp/out" ||
            wrong "$(diff "$words" "$tmp/out" 2>&1 | head -n 3 | cut -c 1-120 | tr '\n' '|')"
    elif [ "${1:1:1}" = '$' ]; then
        while read -ra words; do found="$found ${words[want - 1]-}"; done <"$tmp/out"
        eval "words=($2)"
        [ "${found# }" = "${words[*]}" ] || wrong "the words are $found"
    elif [ "$2" != '*' ]; then
        count "$tmp/out" "$2"
        [ "$found" -eq "${want:-$((found > 0 ? found : 1))}" ] ||
            wrong "$found lines match in $(head -n 3 "$tmp/out" | cut -c 1-120 | tr '\n' '|')"
    fi
}
