"""Passes files of msgstore hand-over, doctor --fix and export to the programs that they are
for, and compares the messages that these take with those that msgstore reads.

    check.py TOOL SAMPLES OUT      OUT has js/node_modules
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOOL, DATA, OUT = (os.path.abspath(path) for path in sys.argv[1:4])
JS = os.path.join(OUT, "js")
LAST_WORDS = "please go on from here"
TIMEOUT = 300


def ok(name):
    print("ok " + name, flush=True)


def fail(name, why):
    print("FAIL %s: %s" % (name, str(why)[:300]), flush=True)


def skip(name, why):
    print("skip %s: %s" % (name, why), flush=True)


def tool(*args):
    return subprocess.run([TOOL, *args], capture_output=True, text=True)


def sample(pattern):
    return sorted(glob.glob(os.path.join(DATA, pattern)))[0]


# ---- The provider: a server that keeps each request, and answers "gone on".

asked = []

RESPONSES = [
    ("response.created", {"response": {"id": "r1"}}),
    ("response.output_item.done", {"item": {
        "type": "message", "role": "assistant", "id": "m1",
        "content": [{"type": "output_text", "text": "gone on"}]}}),
    ("response.completed", {"response": {"id": "r1", "usage": {
        "input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
        "input_tokens_details": None, "output_tokens_details": None}}}),
]
MESSAGES = [
    ("message_start", {"message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": None, "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1}}}),
    ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
    ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "gone on"}}),
    ("content_block_stop", {"index": 0}),
    ("message_delta", {"delta": {"stop_reason": "end_turn", "stop_sequence": None},
                       "usage": {"output_tokens": 2}}),
    ("message_stop", {}),
]

CHAT = [
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "gone on"},
                  "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
     "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}},
]
CANDIDATE = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "gone on"}]},
                    "finishReason": "STOP", "index": 0}],
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
}


def data_lines(events):
    return "".join("data: %s\n\n" % json.dumps(event) for event in events)


class Provider(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(426 if "responses" in self.path else 404, "text/plain", b"")

    do_HEAD = do_GET

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            asked.append(json.loads(body))
        except ValueError:
            asked.append({})
        if "chat/completions" in self.path:
            head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
            text = data_lines(dict(head, **event) for event in CHAT) + "data: [DONE]\n\n"
            return self.answer(200, "text/event-stream", text.encode())
        if "enerateContent" in self.path:
            stream = "stream" in self.path
            text = data_lines([CANDIDATE]) if stream else json.dumps(CANDIDATE)
            kind = "text/event-stream" if stream else "application/json"
            return self.answer(200, kind, text.encode())
        events = RESPONSES if "responses" in self.path else MESSAGES
        text = "".join("event: %s\ndata: %s\n\n" % (name, json.dumps(dict(data, type=name)))
                       for name, data in events)
        self.answer(200, "text/event-stream", text.encode())


server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
threading.Thread(target=server.serve_forever, daemon=True).start()
URL = "http://127.0.0.1:%d" % server.server_port


# ---- Messages, as lists of (kind, ...) that can be compared.

def arguments_of(value):
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            pass
    return json.dumps(value, sort_keys=True)


def text_of(content):
    """Returns all text of a content."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    return "\n\n".join(part.get("text", "") for part in content)


def messages_in_file(path):
    """Returns the messages that msgstore reads in the written file."""
    found = []
    for line in tool("view", "--json", path).stdout.splitlines():
        m = json.loads(line)
        kind, content = m.get("type"), m.get("content", "")
        if m["kind"] != "message":
            continue
        if kind == "action":
            found.append(("call", m["tool"], arguments_of(m["args"]), m["call_id"]))
        elif kind in ("observation", "error"):
            found.append(("result", m["call_id"], content))
        elif kind in ("user_message", "assistant_message"):
            found.append((kind.split("_")[0], content))
    return found


# The members of a call (tool, arguments, id) and of a result (id, content), by their types.
CALLS = {"function_call": ("name", "arguments", "call_id"), "tool_use": ("name", "input", "id"),
         "toolCall": ("name", "arguments", "id")}
RESULTS = {"function_call_output": ("call_id", "output"),
           "tool_result": ("tool_use_id", "content"), "toolResult": ("toolCallId", "content")}


def messages_of(entries):
    """Returns the messages in a program's list of them, or in its request to a provider."""
    found = []
    for entry in entries:
        role, parts = entry.get("role"), [entry]
        if role in ("user", "assistant"):
            parts = entry.get("content") or []
            # Codex has parts of one text, the others have texts of their own.
            if isinstance(parts, str) or any(p["type"].endswith("put_text") for p in parts):
                parts = [{"type": "text", "text": text_of(parts)}]
        for part in parts:
            kind = part.get("type") or role
            if kind == "text":
                found.append((role, part["text"]))
            elif kind in CALLS:
                name, arguments, id = (part[member] for member in CALLS[kind])
                found.append(("call", name, arguments_of(arguments), id))
            elif kind in RESULTS:
                id, content = (part.get(member) for member in RESULTS[kind])
                found.append(("result", id, text_of(content)))
    return found


def chat_messages(request):
    """Returns the messages in a request in the form of chat completions, each result after
    its call, as OpenCode's own file has them."""
    found = []
    results = {m["tool_call_id"]: text_of(m["content"])
               for m in request.get("messages", []) if m["role"] == "tool"}
    for m in request.get("messages", []):
        if m["role"] == "tool":
            continue
        if text_of(m.get("content")):
            found.append((m["role"], text_of(m["content"])))
        for call in m.get("tool_calls", []):
            function = call["function"]
            found.append(("call", function["name"], arguments_of(function["arguments"]),
                          call["id"]))
            if call["id"] in results:
                found.append(("result", call["id"], results[call["id"]]))
    return found


def gemini_messages(request):
    found = []
    for content in request.get("contents", []):
        for part in content["parts"]:
            if "functionCall" in part:
                call = part["functionCall"]
                found.append(("call", call["name"], arguments_of(call["args"]), call["id"]))
            elif "functionResponse" in part:
                said = part["functionResponse"]
                text = said["response"].get("output", said["response"].get("error"))
                found.append(("result", said["id"], text))
            elif "text" in part:
                role = "assistant" if content["role"] == "model" else "user"
                found.append((role, part["text"]))
    return found


def without_odd(found):
    """Trims texts, as programs do, and sorts the results of one answer's calls."""
    out, results = [], []
    for item in found:
        if item[0] == "result":
            results.append(item)
            continue
        if item[-1].strip() == "":
            continue
        out += sorted(results) + [item[:-1] + (item[-1].strip(),)]
        results = []
    return out + sorted(results)


def is_taken(want, got):
    """Compares two messages. Codex replaces the middle of long results by its length."""
    if want == got or want[:-1] != got[:-1]:
        return want == got
    if want[0] == "user":
        return want[1] in got[1]
    ends = re.split("…[0-9]+ chars truncated…", got[-1])
    return (want[0] == "result" and len(ends) == 2 and want[-1].startswith(ends[0])
            and want[-1].endswith(ends[1]))


def missing_of(want, got):
    """Returns the first of `want` that is not in `got` in its order; None if all are."""
    want, got, at = without_odd(want), without_odd(got), 0
    for item in got:
        if at < len(want) and is_taken(want[at], item):
            at += 1
    return want[at] if at < len(want) else None


def compare(name, want, got):
    gone = missing_of(want, got)
    if not want:
        fail(name, "there is nothing in the file")
    elif gone is not None:
        fail(name, "missing: %r" % (gone,))
    else:
        ok("%s: %d messages" % (name, len(want)))


# ---- The programs.

class Home:
    """A home folder of its own, and a folder to work in."""

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="home.", dir=OUT)
        self.work = os.path.join(self.dir, "work")
        os.mkdir(self.work)
        keep = ("PATH", "LANG", "TERM", "TMPDIR", "NODE_EXTRA_CA_CERTS")
        self.env = {name: os.environ[name] for name in keep if name in os.environ}
        self.env["HOME"] = self.dir
        return self

    def __exit__(self, *args):
        shutil.rmtree(self.dir, ignore_errors=True)

    def run(self, *command):
        return subprocess.run(command, env=self.env, cwd=self.work, timeout=TIMEOUT,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def put(self, source, *path):
        to = os.path.join(self.dir, *path)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copy(source, to)
        return to


def request_with(words):
    """The request that holds them, of those that came."""
    for request in reversed(asked):
        if words in json.dumps(request):
            return request
    return {}


def first_line(path):
    with open(path) as file:
        return json.loads(file.readline())


def checked(done):
    if done.returncode != 0:
        raise RuntimeError((done.stdout + done.stderr)[-300:])
    return done.stdout


def in_codex(path):
    meta = first_line(path)["payload"]
    with Home() as home:
        day = meta["timestamp"][:10].split("-")
        stem = "rollout-%s-%s.jsonl" % (meta["timestamp"][:19].replace(":", "-"), meta["id"])
        home.put(path, ".codex/sessions", *day, stem)
        home.env["CODEX_API_KEY"] = "none"
        asked.clear()
        checked(home.run(os.path.join(JS, "node_modules/.bin/codex"), "exec",
                         "--skip-git-repo-check", "-c", 'model="gpt-5"', "-c",
                         'openai_base_url="%s/v1"' % URL, "resume", meta["id"], LAST_WORDS))
    return {"": messages_of(request_with(LAST_WORDS).get("input", []))}


def claude_program():
    found = glob.glob(os.path.join(JS, "node_modules/@anthropic-ai/claude-agent-sdk-*/claude"))
    return found[0] if found else None


def session_of(path):
    with open(path) as file:
        for line in file:
            entry = json.loads(line)
            if "uuid" in entry:
                return entry["sessionId"]


def in_claude(path):
    session = session_of(path)
    with Home() as home:
        folder = "".join(c if c.isalnum() else "-" for c in home.work)
        home.put(path, ".claude/projects", folder, session + ".jsonl")
        home.env.update(ANTHROPIC_BASE_URL=URL, ANTHROPIC_API_KEY="none", IS_SANDBOX="1",
                        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", DISABLE_AUTOUPDATER="1")
        read = checked(home.run("node", os.path.join(JS, "sessions.mjs"), "claude-code",
                                session, home.work))
        taken = {"_reader": messages_of(json.loads(read))}
        if claude_program() is None:
            skip("claude-code_goes_on", "the package has no program for this machine")
            return taken
        asked.clear()
        checked(home.run(claude_program(), "-p", "--resume", session, LAST_WORDS))
    taken[""] = messages_of(request_with(LAST_WORDS).get("messages", []))
    return taken


def in_pi(path):
    with Home() as home:
        file = home.put(path, ".pi/agent/sessions/work", os.path.basename(path))
        read = checked(home.run("node", os.path.join(JS, "sessions.mjs"), "pi", file))
        return {"": messages_of(json.loads(read))}


def opencode_program():
    found = glob.glob(os.path.join(JS, "node_modules/opencode-linux-*/bin/opencode"))
    return sorted(found)[-1] if found else None


def in_opencode(path):
    with open(path) as file:
        session = json.load(file)["info"]["id"]
    with Home() as home:
        fake = {"npm": "@ai-sdk/openai-compatible", "models": {"m": {"name": "m"}},
                "options": {"baseURL": URL + "/v1", "apiKey": "none"}}
        with open(os.path.join(home.work, "opencode.json"), "w") as file:
            json.dump({"model": "fake/m", "small_model": "fake/m", "autoupdate": False,
                       "provider": {"fake": fake}}, file)
        home.env.update(OPENCODE_DISABLE_MODELS_FETCH="1", OPENCODE_DISABLE_AUTOUPDATE="1")
        asked.clear()
        checked(home.run(opencode_program(), "import", path))
        checked(home.run(opencode_program(), "run", "-m", "fake/m", "-s", session, LAST_WORDS))
    return {"": chat_messages(request_with(LAST_WORDS))}


def in_gemini(path):
    with Home() as home:
        folder = os.path.join(home.dir, ".gemini")
        os.mkdir(folder)
        with open(os.path.join(folder, "settings.json"), "w") as file:
            json.dump({"security": {"auth": {"selectedType": "gemini-api-key"}}}, file)
        home.env.update(GEMINI_API_KEY="none", GOOGLE_GEMINI_BASE_URL=URL,
                        GEMINI_CLI_TRUST_WORKSPACE="true")
        asked.clear()
        checked(home.run(os.path.join(JS, "node_modules/.bin/gemini"), "-m", "gemini-2.5-flash",
                         "--session-file", path, "-p", LAST_WORDS))
    return {"": gemini_messages(request_with(LAST_WORDS))}


# ---- Tokens.

def tokens_of(path):
    total = json.loads(tool("usage", "--json", path).stdout)["total"]
    return (total["input_tokens"] + total["cache_read_tokens"] + total["cache_write_tokens"],
            total["output_tokens"])


def ccusage(program, place, path, odd):
    """Returns the tokens of input and output and the dollars that ccusage counts in a file
    in its program's folder."""
    with Home() as home:
        to = os.path.join(home.dir, place.replace("NAME", os.path.basename(path)))
        if os.path.isdir(path):
            shutil.copytree(path, to)
        else:
            home.put(without_spaces(home, path) if odd == "spaces" else path, to)
        got = json.loads(checked(home.run(os.path.join(JS, "node_modules/.bin/ccusage"),
                                          program, "session", "--json", "--offline")))["totals"]
    taken = got["inputTokens"] + got["cacheReadTokens"] + got["cacheCreationTokens"]
    return taken, got["outputTokens"], got.get("totalCost", got.get("costUSD"))


def without_spaces(home, path):
    copy = os.path.join(home.dir, "compact.jsonl")
    with open(path) as file, open(copy, "w") as out:
        for line in file:
            out.write(json.dumps(json.loads(line), separators=(",", ":")) + "\n")
    return copy


def compare_tokens(name, program, place, path, odd):
    """odd: why ccusage counts otherwise. "spaces": it leaves out lines of JSON with spaces
    after colons, which Claude Code does not write. "thoughts": its output is without them,
    that of msgstore with them."""
    got = ccusage(program, place, path, odd)
    total = json.loads(tool("usage", "--json", path).stdout)["total"]
    taken, given = tokens_of(path)
    if odd == "spaces" and ccusage(program, place, path, None)[1] >= given:
        return fail(name, "it counts lines with spaces now")
    if odd == "thoughts":
        given -= total["reasoning_tokens"]
    if got[:2] != (taken, given):
        fail(name, "it counts %r, msgstore %r" % (got, (taken, given)))
    elif odd != "thoughts" and abs(got[2] - (total["cost"] or 0)) > 2e-6:
        fail(name, "it costs %r, msgstore %r" % (got[2], total["cost"]))
    else:
        but = ", but for its " + odd if odd else ""
        ok("%s: %d in, %d out, %.4f dollars%s" % (name, *got, but))


# ---- The cases.

SOURCES = [
    ("claude", "claude-code-real/tool_heavy.jsonl"), ("codex", "codex-rollout/rollout-*.jsonl"),
    ("pi", "pi-session/large-session.jsonl"), ("cline", "cline-session/session.messages.json"),
    ("gemini", "gemini-cli/session-2026*.json"), ("swe-agent", "swe-agent-traj/sweagent-function*"),
    ("openhands", "openhands-events/events.jsonl"),
]
PROGRAMS = [
    ("codex", in_codex, "node_modules/@openai/codex"),
    ("claude-code", in_claude, "node_modules/@anthropic-ai/claude-agent-sdk"),
    ("opencode", in_opencode, "node_modules/opencode-ai"),
    ("gemini-cli", in_gemini, "node_modules/@google/gemini-cli"),
    ("pi", in_pi, "node_modules/@mariozechner/pi-coding-agent"),
]
# OpenCode starts twice for each source, and slowly.
FEWER = {"opencode": ("claude", "codex", "pi", "openhands")}
# Programs whose files are lines that the doctor mends.
MENDED = ("codex", "claude-code", "pi")


def guarded(name, test, *args):
    try:
        test(name, *args)
    except Exception as error:  # one program's trouble is not the next one's
        fail(name, "%s %s" % (type(error).__name__, error))


def hand_over(name, program, accept, source, path):
    done = tool("hand-over", source, "--to", program, "-o", path)
    if done.returncode != 0:
        return fail(name, done.stderr)
    for reader, got in accept(path).items():
        compare(name + reader, messages_in_file(path), got)


def hand_over_all(out):
    for program, accept, package in PROGRAMS:
        if not os.path.exists(os.path.join(JS, package)):
            skip("hand_over_to_" + program, package + " could not be installed")
            continue
        for name, pattern in SOURCES:
            if name not in FEWER.get(program, (name,)):
                continue
            path = os.path.join(out, name + ".jsonl")
            guarded("%s_goes_on_with_%s" % (program, name), hand_over, program, accept,
                    sample(pattern), path)


def mend(name, accept, lines, out):
    """Compares the messages that a program takes from a whole session with those from the
    mended one. Only those of the torn and of the missing line may be absent."""
    whole, broken, fixed = (os.path.join(out, "%d.jsonl" % i) for i in range(3))
    with open(whole, "w") as file:
        file.writelines(lines)
    lines[4] = lines[4][:len(lines[4]) // 2] + "\n"
    del lines[8]
    lines[10], lines[11] = lines[11], lines[10]
    with open(broken, "w") as file:
        file.writelines(lines)
    code = tool("doctor", "--fix", "-o", fixed, broken).returncode
    if code != 3:
        return fail(name, "exit code %d of doctor" % code)
    readable, before, after = messages_in_file(fixed), accept(whole), accept(fixed)
    for reader in before:
        compare(name + reader, [m for m in before[reader] if m in readable], after[reader])


def mend_all(out):
    for program, accept, package in PROGRAMS:
        if program in MENDED and os.path.exists(os.path.join(JS, package)):
            pattern = dict(SOURCES)[{"claude-code": "claude"}.get(program, program)]
            guarded(program + "_goes_on_with_a_mended_session", mend, accept,
                    open(sample(pattern)).readlines()[:60], out)


def atif_all(out):
    try:
        from atif import Trajectory
    except ImportError:
        return skip("atif", "the package could not be installed")
    path = os.path.join(out, "atif.json")
    for name, pattern in SOURCES + [("agents", "claude-code-real/subagents/*.jsonl")]:
        name = "atif_takes_" + name
        done = tool("export", "--format", "atif", sample(pattern))
        try:
            taken = Trajectory.model_validate_json(done.stdout)
            again = json.dumps(taken.to_json_dict())
            with open(path, "w") as file:
                file.write(again)
            with open(path + ".ours", "w") as file:
                file.write(done.stdout)
            if messages_in_file(path) == messages_in_file(path + ".ours"):
                ok("%s: %d steps" % (name, len(taken.steps)))
            else:
                fail(name, "its own writing of it reads otherwise")
        except Exception as error:
            fail(name, error)


# A command of ccusage, where its program has the file, the file, and see compare_tokens.
CLAUDE, CODEX = ".claude/projects/x/NAME", ".codex/sessions/2026/01/01/NAME"
COUNTERS = [
    ("claude", CLAUDE, "claude-code-real/short.jsonl", None),
    ("claude", CLAUDE, "claude-code-real/tool_heavy.jsonl", None),
    ("claude", CLAUDE, "claude-code-real/dag*.jsonl", None),
    ("claude", CLAUDE, "claude-code-real/subagents/*.jsonl", None),
    ("claude", CLAUDE, "claude-code-jsonl/todowrite*.jsonl", None),
    ("claude", CLAUDE, "claude-code-jsonl/representative*.jsonl", "spaces"),
    ("claude", CLAUDE, "claude-code-jsonl/session_b.jsonl", "spaces"),
    ("claude", CLAUDE, "claude-code-jsonl/edge*.jsonl", "spaces"),
    ("codex", CODEX, "codex-rollout/rollout-*.jsonl", None),
    ("codex", CODEX, "codex-rollout/stage0-large.jsonl", None),
    ("pi", ".pi/agent/sessions/x/NAME", "pi-session/large-session.jsonl", None),
    ("gemini", ".gemini/tmp/h/chats/NAME", "gemini-cli/session-2026*.json", "thoughts"),
    ("gemini", ".gemini/tmp/h/chats/NAME", "gemini-cli/*.jsonl", None),
    ("opencode", ".local/share/opencode/storage", "opencode-storage", None),
]


def count_all():
    for program, place, pattern, odd in COUNTERS:
        path = sample(pattern)
        name = "ccusage_counts_as_we_do_%s" % os.path.basename(path)
        if os.path.exists(os.path.join(JS, "node_modules/ccusage")):
            guarded(name, compare_tokens, program, place, path, odd)
        else:
            skip(name, "ccusage could not be installed")


def main():
    with tempfile.TemporaryDirectory(dir=OUT) as out:
        hand_over_all(out)
        mend_all(out)
        atif_all(out)
    count_all()


main()
