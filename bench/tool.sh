#!/usr/bin/env bash
# The tool on transcripts that it makes up: how long it takes to store, search and list
# them.
#
#   bash bench/tool.sh [MB] [RUNS]
#
# It writes MB megabytes (20) of transcripts in the format of Claude Code, the same bytes
# in every run: sessions of 2 to 1,500 messages, about 200 in the mean, of prompts, answers,
# calls and their results, about 950 bytes a line. Each step runs RUNS times (3):
#   sync         into a new log; nothing of it was there
#   second sync  of the same folder, when nothing has changed
#   search       a word that one message has
#   sessions     the list of all
#   grep         grep -rlF of the same word over the transcripts
# It prints the median of each, and the processor time of that sync. The page cache is
# warm: the files were just written. Files are in a folder of their own inside $BENCH_DIR,
# else build, and are removed at the end; they need three times MB. $MSGSTORE is the tool,
# else build/msgstore.
#
# Left out: jq and sqlite-utils, which are other programs' work on the same files.
set -u
megabytes=${1:-20} runs=${2:-3}
case $megabytes$runs in
*[!0-9]* | 0*) echo "usage: bash bench/tool.sh [MB] [RUNS]" >&2 && exit 2 ;;
esac
tool=${MSGSTORE:-build/msgstore}
"$tool" --version >/dev/null || exit 1
mkdir -p "${BENCH_DIR:-build}" || exit 1
dir=$(mktemp -d "${BENCH_DIR:-build}/tool.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
word=quagmire4711

python3 - "$dir/transcripts" "$megabytes" "$word" <<'END' || exit 1
import json, os, random, sys, uuid

folder, limit, word = sys.argv[1], int(sys.argv[2]) * 1000000, sys.argv[3]
rng = random.Random(1)
words = [
    "".join(rng.choice("abcdefghijklmnoprstuvw") for _ in range(rng.randint(2, 11)))
    for _ in range(4000)
]


def text(least, most):
    return " ".join(rng.choices(words, k=rng.randint(least, most)))


def ident():
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def messages(session, cwd, count, found):
    parent, clock = None, rng.randint(0, 10**7)
    for i in range(count):
        part, user = None, True
        if i % 4 == 1:
            part, user = {"type": "text", "text": text(20, 120)}, False
        elif i % 4 == 2:
            call = "toolu_%024x" % rng.getrandbits(96)
            args = {"command": text(3, 12), "description": text(3, 8)}
            part, user = {"type": "tool_use", "id": call, "name": "Bash", "input": args}, False
        elif i % 4 == 3:
            part = {"type": "tool_result", "tool_use_id": call, "content": text(10, 200)}
        content = [part] if part else text(5, 60) + (" " + word if found else "")
        found, clock, own = False, clock + rng.randint(1, 60), ident()
        message = {"role": "user" if user else "assistant", "content": content}
        if not user:
            message.update(id="msg_" + own[:20], type="message", model="claude-sonnet-4-5")
            message["usage"] = {"input_tokens": rng.randint(1, 900), "output_tokens": 100}
        day, second = divmod(clock, 86400)
        time = "2026-%02d-%02dT%02d:%02d:%02d.000Z" % (
            day // 28 % 12 + 1, day % 28 + 1, second // 3600, second // 60 % 60, second % 60)
        yield json.dumps({
            "parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": cwd,
            "sessionId": session, "version": "2.1.0", "gitBranch": "main",
            "type": message["role"], "message": message, "uuid": own, "timestamp": time,
        })
        parent = own


size = sessions = count = 0
while size < limit:
    session, cwd = ident(), "/home/user/project%d" % (sessions % 40)
    path = os.path.join(folder, cwd.replace("/", "-"))
    os.makedirs(path, exist_ok=True)
    most = min(1500, max(2, int(rng.lognormvariate(4.6, 1.2))))
    with open(os.path.join(path, session + ".jsonl"), "w") as file:
        for line in messages(session, cwd, most, sessions == 0):
            size += file.write(line + "\n")
            count += 1
            if size >= limit:
                break
    sessions += 1
print("%d MB: %d sessions, %d messages" % (size // 1000000, sessions, count))
END

# measure NAME COMMAND...: sets TIMES to "SECONDS PROCESSOR" lines of each run; prints the
# median. A command that fails ends the script.
measure()
{
    local name=$1 i TIMEFORMAT='%R %U %S'
    shift
    : >"$dir/times"
    for ((i = 0; i < runs; i++)); do
        if [ "$name" = sync ]; then rm -f "$dir/all.log"*; fi
        { time "$@" >"$dir/out" 2>"$dir/err"; } 2>"$dir/time" || {
            echo "$name failed: $(head -n 1 "$dir/err")" >&2
            exit 1
        }
        tail -n 1 "$dir/time" >>"$dir/times"
    done
    sort -n "$dir/times" | awk -v name="$name" -v n="$runs" \
        'NR == int((n + 1) / 2) { printf "%-12s %7.2f s  (%.2f s of processor time)\n", name, $1, $2 + $3 }'
}

measure sync "$tool" sync "$dir/all.log" "$dir/transcripts"
grep -E '^(appended|sessions)' "$dir/out"
measure 'second sync' "$tool" sync "$dir/all.log" "$dir/transcripts"
measure search "$tool" search "$dir/all.log" "$word"
[ "$(wc -l <"$dir/out")" -ge 1 ] || { echo "search found nothing" >&2 && exit 1; }
measure sessions "$tool" sessions "$dir/all.log"
measure grep grep -rlF "$word" "$dir/transcripts"
