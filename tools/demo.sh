#!/usr/bin/env bash
# A short tour: one written trace of an orchestrator and two workers, read through each
# one's eyes; the agent loop of the examples; and, where it is at hand, a file of recorded
# conversations. Run by `make demo`, which builds what is used here.
set -u
cd "$(dirname "$0")/.." || exit 1
trace=tools/demo.jsonl
recorded=../shared/data/tau-bench-airline/gpt-4o-airline.json
PATH=$PWD/build:$PATH
failed=0

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

say "That was it" "build/msgstore -h and README.md tell how to go on."
exit $failed
