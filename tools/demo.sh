#!/usr/bin/env bash
# A short tour. It shows the histories of an orchestrator and two workers in one written
# trace, then the agent loop of the examples, and recorded conversations if they exist.
# Then it changes the trace in a log, and kills a program that appends to a log.
# `make demo` builds the programs and runs it. Exit code 1 means that a step failed.
set -u
cd "$(dirname "$0")/.." || exit 1
trace=tools/demo.jsonl
recorded=../shared/data/tau-bench-airline/gpt-4o-airline.json
PATH=$PWD/build:$PATH
failed=0
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT

# show LINES COMMAND...: the command as one would type it, then the start of its output.
show()
{
    local lines=$1
    shift
    printf '$ %s\n' "$*"
    "$@" | awk -v lines="$lines" '
        NR <= lines
        END { if (NR > lines) print "... and " NR - lines " more" }'
    [ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
}

say()
{
    printf '\n== %s\n' "$1"
    shift
    [ $# -eq 0 ] || printf '   %s\n' "$@"
}

# wrong TEXT: reports a failed step.
wrong()
{
    printf '   FAILED: %s\n' "$1"
    failed=1
}

# Messages without end, a line each; "note 1", "note 2", ...
stream()
{
    awk 'BEGIN {
        for (i = 1; ; i++) {
            print "{\"type\":\"observation\",\"content\":\"note " i "\",\"agent_key\":\"w\"}"
        }
    }' 2>/dev/null
}

# One process appends as fast as it can and is killed with SIGKILL; another one reads
# back. Each number that the first has printed must be there, with its own message.
kill_while_appending()
{
    local acknowledged stored missing
    say "kill -9 in the middle of appending" \
        "append prints the number of each message once it is stored; what it has printed" \
        "when it dies must be in the log."
    echo '$ stream | msgstore append stream.log --location job_7 >acknowledged &'
    msgstore append stream.log --location job_7 < <(stream) >acknowledged &
    local pid=$!
    sleep 1
    echo "\$ kill -9 $pid"
    kill -9 $pid
    wait $pid 2>/dev/null
    echo '$ msgstore export stream.log >stored'
    msgstore export stream.log >stored || wrong "export has failed"
    acknowledged=$(wc -l <acknowledged)
    stored=$(wc -l <stored)
    # Number n was given to the note n, line n of what is read back.
    missing=$(awk '
        NR == FNR { notes[FNR] = $0; next }
        index(notes[$1], "\"note " $1 "\"") == 0 { n++ }
        END { print n + 0 }' stored acknowledged)
    printf '   acknowledged %d, read back %d, missing %d\n' "$acknowledged" "$stored" \
        "$missing"
    [ "$acknowledged" -gt 0 ] || wrong "nothing was acknowledged within a second"
    [ "$missing" -eq 0 ] || wrong "acknowledged messages are missing"
    show 8 msgstore verify stream.log
}

if [ ! -x build/msgstore ]; then
    echo "build/msgstore is not built: make demo" >&2
    exit 1
fi

say "A trace is a file of messages, a line each" \
    "An orchestrator gets a question and delegates to data_worker and report_worker."
show 2 cat $trace

say "What the orchestrator reads before its next step" \
    "The conversation, then what it did itself, then what its team wrote, then" \
    "broadcasts not yet seen. Its own plans and contexts are no part of a history."
show 40 msgstore history $trace --agent orchestrator --team data_worker,report_worker

say "What data_worker reads" \
    "The conversation, its own trace, the broadcasts; nothing of the other worker."
show 20 msgstore history $trace --agent data_worker

say "The same in order of time, as the messages of an OpenAI request" \
    "Calls and results are paired; other formats: msgstore convert -h"
show 6 msgstore history $trace --agent data_worker --timeline --format openai

if [ -x build/agent_loop ]; then
    say "examples/agent_loop.c: a loop in C that reads such a history before each step"
    show 14 agent_loop
fi

if [ -f $recorded ]; then
    say "A file of 200 recorded conversations with an airline's agent (tau-bench)"
    show 9 msgstore info $recorded
    say "One of them, as its agent reads it: calls and results last, as its own trace"
    show 8 msgstore history $recorded --location 3.2 --agent assistant -n 4
fi

cp $trace "$folder/trace.jsonl"
cd "$folder" || exit 1
say "A log keeps them: one file, for one writer and any number of readers"
show 2 msgstore import trace.log trace.jsonl
show 12 msgstore info trace.log
show 5 msgstore view trace.log --agent data_worker -n 5
show 3 msgstore search trace.log 'note is saved'

say "The question is put in another way, and what came after it is taken back" \
    "Nothing is rewritten: a change is a record of its own, and --raw shows every word." \
    "The first run goes on beside it, in a fork."
show 1 msgstore fork trace.log shop-osaka 31 shop-osaka.first
show 1 msgstore amend trace.log 1 'Why did the Kyoto shops sell less?'
show 1 msgstore rewind trace.log --location shop-osaka 1
show 2 msgstore view trace.log --location shop-osaka
show 3 msgstore view trace.log --location shop-osaka --raw -n 3
kill_while_appending

say "That was it" "build/msgstore -h and README.md show how to go on."
exit $failed
