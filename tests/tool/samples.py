#!/usr/bin/env python3
"""The table of the sample transcripts: what the files have, beside what msgstore reads.

    samples.py TOOL DATA [--table] [--drop N] [NAME...]

Counts the messages, calls, results, tokens and unknown entries of each sample in the
folder DATA from its raw JSON, and collects the texts. `TOOL sync`, `info` and `usage`
print the same numbers, and `view` all texts, or the sample fails. No code here is shared
with the tool's readers: each function below follows the members of the files.

The columns: messages; those taken back; those that remain (info); calls; results; answers
with usage, and their tokens; entries of unknown types; texts that no message has.

A line for each sample: "ok FILE", or "FAIL FILE: ..." with the members that differ, the
file's number first. --table prints one row a sample instead, as make samples does.
--drop N gives the tool copies without the Nth message from the end: a control, in which
every sample with messages has to fail, but for those that cannot be copied so. NAME: only
samples whose path has it. Exit 1: something differs.

A message is a piece that the model or the user reads: a text, a thought, a call, a result,
or an unknown entry, which the tool keeps whole.
"""
import collections
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile

COLUMNS = ("messages", "back", "listed", "calls", "results", "answers", "input", "output",
           "unknown", "lost")


class Count:
    """What a sample has. Tokens of input include those read from a cache or written."""

    def __init__(self):
        self.n = collections.Counter()
        self.texts = []
        self.uses = {}        # answer -> (input, output); of several the last counts

    def text(self, text):
        self.n["messages"] += 1
        if isinstance(text, str) and text.strip():
            self.texts.append(text)

    def call(self):
        self.n["messages"] += 1
        self.n["calls"] += 1

    def result(self, text):
        self.text(text)
        self.n["results"] += 1

    def unknown(self):
        self.n["messages"] += 1
        self.n["unknown"] += 1

    def use(self, answer, taken, given):
        if taken or given:
            self.uses[answer if answer else len(self.uses)] = (taken, given)

    def numbers(self):
        self.n["listed"] = self.n["messages"] - self.n["back"]
        self.n["answers"] = len(self.uses)
        self.n["input"] = sum(u[0] for u in self.uses.values())
        self.n["output"] = sum(u[1] for u in self.uses.values())
        return self.n


def sum_of(record, *names):
    return sum(record.get(name) or 0 for name in names)


def lines_of(path):
    """The JSON values of a file of lines."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def document_of(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def plain(content):
    """The text of a content that is a string or a list of parts."""
    if isinstance(content, list):
        return "\n\n".join(p["text"] for p in content
                           if isinstance(p, dict) and isinstance(p.get("text"), str))
    return content


# ---- One function a format.

def claude(path):
    c = Count()
    parents, said, prompts, order = {}, collections.Counter(), set(), []
    for entry in lines_of(path):
        if not isinstance(entry, dict):
            c.unknown()
            continue
        uuid, kind, message = entry.get("uuid"), entry.get("type"), entry.get("message")
        before = c.n["messages"]
        if kind in ("user", "assistant"):
            content = message.get("content") if isinstance(message, dict) else None
            if not isinstance(content, (str, list)):
                c.unknown()
            elif isinstance(content, str) or entry.get("isCompactSummary"):
                c.text(plain(content))
            else:
                claude_blocks(c, kind, content)
            if kind == "assistant" and content is not None:
                u = message.get("usage", {})
                c.use(message.get("id"),
                      sum_of(u, "input_tokens", "cache_read_input_tokens",
                             "cache_creation_input_tokens"), u.get("output_tokens", 0))
            tool = isinstance(content, list) and content and \
                isinstance(content[0], dict) and content[0].get("type") == "tool_result"
            if kind == "user" and not tool and not entry.get("isSidechain") \
                    and not entry.get("isCompactSummary") and not entry.get("isMeta"):
                prompts.add(uuid)
        elif kind is None:
            c.unknown()
        if uuid and not entry.get("isSidechain"):
            parents[uuid] = entry.get("parentUuid") or entry.get("logicalParentUuid")
            said[uuid] += c.n["messages"] - before
            order.append(uuid)
    c.n["back"] = rewound(order, parents, prompts, said)
    return c


def claude_blocks(c, kind, content):
    results = content and isinstance(content[0], dict) and \
        content[0].get("type") == "tool_result"
    if kind == "user" and not results:
        c.text(plain(content))
        return
    for block in content:
        if block["type"] == "tool_use":
            c.call()
        elif block["type"] == "tool_result":
            c.result(plain(block.get("content")))
        else:
            c.text(block.get("text") or block.get("thinking"))


def rewound(order, parents, prompts, said):
    """Messages of prompts that have a newer sibling, and of what follows them."""
    newest = {}
    for uuid in order:
        if uuid in prompts and parents[uuid] is not None:
            newest[parents[uuid]] = uuid
    back = 0
    for uuid in set(order):
        at, seen, dead = uuid, set(), False
        while at in parents and at not in seen:
            seen.add(at)
            dead = dead or (at in prompts and newest.get(parents[at], at) != at)
            at = parents[at]
        back += said[uuid] if dead else 0
    return back


def codex(path):
    c = Count()
    for line in lines_of(path):
        item = line["payload"]
        kind = item.get("type")
        if line["type"] == "response_item":
            if kind in ("message", "reasoning"):
                c.text(plain(item.get("content") or item.get("summary")))
            elif kind in ("function_call", "custom_tool_call", "local_shell_call",
                          "tool_call"):
                c.call()
            elif kind.endswith("_output") or kind == "tool_result":
                c.result(item.get("output"))
            else:
                c.unknown()
        elif kind == "token_count" and (item["info"] or {}).get("last_token_usage"):
            u = item["info"]["last_token_usage"]
            c.use(None, u["input_tokens"], u["output_tokens"])
    return c


def gemini(path):
    c = Count()
    entries = lines_of(path) if path.endswith(".jsonl") else document_of(path)["messages"]
    for entry in entries:
        if "type" not in entry:
            continue
        for thought in entry.get("thoughts") or []:
            c.text(thought["description"])
        if plain(entry["content"]):
            c.text(plain(entry["content"]))
        for call in entry.get("toolCalls") or []:
            c.call()
            parts = call.get("result")
            if parts is not None:
                response = parts[0].get("functionResponse", {}).get("response", {}) \
                    if isinstance(parts, list) and parts else {}
                c.result(response.get("output"))
        u = entry.get("tokens")
        if u:
            c.use(entry["id"], u["input"] + u.get("tool", 0),
                  u["output"] + u.get("thoughts", 0))
    return c


def blocks(c, content):
    """The blocks of a message in Anthropic's form."""
    if isinstance(content, str):
        c.text(content)
        return
    for block in content:
        if block["type"] == "tool_use":
            c.call()
        elif block["type"] == "tool_result":
            c.result(plain(block.get("content")))
        else:
            c.text(block.get("text") or block.get("thinking"))


def cline(path):
    c = Count()
    document = document_of(path)
    for message in document["messages"]:
        blocks(c, message["content"])
        u = message.get("metrics")
        if u:
            c.use(message["id"], u["inputTokens"], u["outputTokens"])
    return c


def copilot(path):
    c = Count()
    for event in lines_of(path):
        kind, data = event["type"], event["data"]
        if kind in ("system.message", "user.message", "assistant.reasoning"):
            c.text(data["content"])
        elif kind == "assistant.message":
            if data.get("reasoningText"):
                c.text(data["reasoningText"])
            if data["content"] or not data["toolRequests"]:
                c.text(data["content"])
            for _ in data["toolRequests"]:
                c.call()
            c.use(data["messageId"], 0, data["outputTokens"])
        elif kind == "tool.execution_complete":
            c.result((data.get("result") or {}).get("content"))
        elif kind == "session.shutdown":
            u = data.get("tokenDetails") or {}
            c.use(None, sum(u.get(k, {}).get("tokenCount", 0)
                            for k in ("input", "cache_read", "cache_write")), 0)
    return c


def openhands(path):
    """Running totals of each model; an answer is known by llm_response_id."""
    c = Count()
    total, answers = {}, set()
    for event in lines_of(path):
        kind = event["kind"]
        if kind == "ActionEvent":
            answers.add(event["llm_response_id"])
            if plain(event["thought"]):
                c.text(plain(event["thought"]))
            if event.get("reasoning_content"):
                c.text(event["reasoning_content"])
            c.call()
        elif kind == "ObservationEvent":
            c.result(plain(event["observation"]["content"]))
        elif kind == "MessageEvent":
            c.text(plain(event["llm_message"]["content"]))
        elif event.get("key") == "stats":
            total = {k: v["accumulated_token_usage"]
                     for k, v in event["value"]["usage_to_metrics"].items()}
    spent = list(total.values())
    for answer in answers:
        c.uses[answer] = (sum(u["prompt_tokens"] for u in spent),
                          sum(u["completion_tokens"] for u in spent))
        spent = []
    return c


def completion(path):
    """A request and its answer, as LiteLLM logs them."""
    c = Count()
    log = document_of(path)
    for message in log["messages"] + [log["response"]["choices"][0]["message"]]:
        c.text(plain(message["content"]))
        for _ in message.get("tool_calls") or []:
            c.call()
    u = log["response"]["usage"]
    c.use(None, u["prompt_tokens"], u["completion_tokens"])
    return c


def inspect(path):
    c = Count()
    if path.endswith(".eval"):
        with zipfile.ZipFile(path) as archive:
            samples = [json.loads(archive.read(name)) for name in archive.namelist()
                       if name.startswith("samples/")]
    else:
        samples = document_of(path)["samples"]
    for sample in samples:
        for message in sample["messages"]:
            calls = message.get("tool_calls") or []
            if message["role"] == "tool":
                c.result(plain(message["content"]))
            elif plain(message["content"]) or not calls:
                c.text(plain(message["content"]))
            for _ in calls:
                c.call()
        # Old logs have the usage of the last answer alone.
        for u in list(sample["model_usage"].values()) or [sample["output"]["usage"]]:
            c.use(None, sum_of(u, "input_tokens"), u["output_tokens"])
    return c


def opencode(path):
    c = Count()
    parts = collections.defaultdict(list)
    for name in sorted(glob.glob(path + "/part/*/*.json")):
        parts[os.path.basename(os.path.dirname(name))].append(document_of(name))
    for name in sorted(glob.glob(path + "/message/*/*.json")):
        message = document_of(name)
        for part in parts[message["id"]]:
            if part["type"] == "tool":
                c.call()
                if "output" in part["state"]:
                    c.result(part["state"]["output"])
            elif part["type"] in ("text", "reasoning", "file"):
                c.text(part.get("text"))
        u = message.get("tokens")
        if u:
            cache = u.get("cache", {})
            c.use(message["id"], sum_of(u, "input") + sum_of(cache, "read", "write"),
                  sum_of(u, "output", "reasoning"))
    return c


def pi(path):
    c = Count()
    parents, said, last = {}, {}, None
    for entry in lines_of(path):
        message = entry.get("message", {})
        before = c.n["messages"]
        role, content = message.get("role"), message.get("content")
        if entry["type"] == "message" and role == "toolResult":
            c.result(plain(content))
        elif entry["type"] == "message" and role == "user":
            c.text(plain(content))
        elif entry["type"] == "message":
            for part in content:
                if part["type"] == "toolCall":
                    c.call()
                else:
                    c.text(part.get("text") or part.get("thinking"))
            if not content: # a turn that was stopped
                c.text(None)
            u = message["usage"]
            c.use(entry.get("id"), sum_of(u, "input", "cacheRead", "cacheWrite"), u["output"])
        if "parentId" in entry:
            last = entry["id"]
            parents[last] = entry["parentId"]
            said[last] = c.n["messages"] - before
    alive = set()
    while last in parents and last not in alive:
        alive.add(last)
        last = parents[last]
    c.n["back"] = sum(n for id, n in said.items() if id not in alive)
    return c


def atif(path):
    c = Count()
    document = document_of(path)
    for step in document["steps"]:
        calls = step.get("tool_calls") or []
        if step.get("reasoning_content"):
            c.text(step["reasoning_content"])
        observed = step.get("observation", {}).get("results", [])
        bare = step["source"] == "system" and observed and not plain(step["message"])
        if (plain(step["message"]) or not calls) and not bare:
            c.text(plain(step["message"]))
        for _ in calls:
            c.call()
        for result in observed:
            if result.get("source_call_id") or len(calls) == 1:
                c.result(plain(result.get("content")))
            else: # what a terminal shows next: no call asked for it
                c.text(plain(result.get("content")))
        u = step.get("metrics")
        if u:
            c.use(None, u["prompt_tokens"], u["completion_tokens"])
    return c


def otel(path):
    c = Count()
    for line in lines_of(path):
        for span in (s for r in line["resourceSpans"] for g in r["scopeSpans"]
                     for s in g["spans"]):
            have = {a["key"]: a["value"].get("stringValue") for a in span["attributes"]}
            if have["gen_ai.operation.name"] == "execute_tool":
                c.call()
                c.result(have["gen_ai.tool.call.result"])
    return c


def chat(c, messages):
    """Messages in OpenAI's form."""
    for message in messages:
        calls = message.get("tool_calls") or []
        if message["role"] == "tool":
            c.result(plain(message["content"]))
            continue
        if plain(message.get("content")) or not calls:
            c.text(plain(message.get("content")))
        for _ in calls:
            c.call()


def swe_agent(path):
    c = Count()
    chat(c, document_of(path)["history"])
    return c


def tau_bench(path):
    c = Count()
    for run in document_of(path):
        chat(c, run["traj"])
    return c


def aider(path):
    """Lines of one kind are one message: prompts "#### ", the program's "> ", answers."""
    c = Count()
    last, kept = None, []

    def flush():
        if last and "".join(kept).strip():
            c.text(None)
            if last == "answer":
                c.texts += [line for line in kept if line.strip()]
        kept.clear()

    with open(path, encoding="utf-8") as file:
        for line in file.read().split("\n"):
            if line.startswith("# aider chat started at"):
                kind = "start"
            elif line.startswith("####"):
                kind = "prompt"
            elif line.startswith("> ") or line == ">":
                kind = "program"
                found = re.match(r"> Tokens: ([\d,.]+)(k?) sent, ([\d,.]+)(k?) received",
                                 line)
                if found:
                    sent, many, received, much = found.groups()
                    c.use(None, *(int(float(n.replace(",", "")) * (1000 if k else 1))
                                  for n, k in ((sent, many), (received, much))))
            elif not line.strip():
                kind = last
            else:
                kind = "answer"
            if kind != last or kind == "start":
                flush()
                last = kind
            if kind != "start":
                kept.append(line.lstrip("#> ") if kind != "answer" else line.rstrip())
    flush()
    return c


FORMATS = (
    ("claude-code-", claude), ("codex-rollout/", codex), ("gemini-cli/", gemini),
    ("cline-session/", cline), ("copilot-cli/", copilot),
    ("openhands-events/litellm", completion), ("openhands-events/", openhands),
    ("inspect-logs/", inspect), ("opencode-storage", opencode), ("pi-session/", pi),
    ("atif-trajectory/", atif), ("otel-genai/", otel), ("swe-agent-traj/", swe_agent),
    ("tau-bench-airline/", tau_bench), ("aider-history/", aider),
)


# ---- What the tool reads.

def asked(tool, *arguments):
    """The lines of JSON that the tool prints, and its exit code."""
    run = subprocess.run([tool, *arguments], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, check=False)
    return [json.loads(line) for line in run.stdout.splitlines()], run.returncode


def words(text):
    """A text without white space: readers trim it, and join parts with it."""
    return re.sub(r"\s+", "", text)


def read(tool, path, texts, folder):
    log = os.path.join(folder, "one.log")
    if os.path.exists(log):
        os.remove(log)
    (counts,), code = asked(tool, "sync", "--json", log, path)
    got = collections.Counter({
        "messages": counts["messages"], "back": counts["hidden"],
        "calls": counts["calls"], "results": counts["results"],
        "unknown": counts["unknown"]})
    if counts["messages"] == 0:
        return got, code
    (usage,), _ = asked(tool, "usage", "--json", log)
    (info,), _ = asked(tool, "info", "--json", log)
    got["listed"] = info["messages"]
    total = usage["total"]
    got["answers"] = total.get("answers", 0)
    got["input"] = sum_of(total, "input_tokens", "cache_read_tokens", "cache_write_tokens")
    got["output"] = total.get("output_tokens", 0)
    stored = [m["content"] for m in asked(tool, "view", "--json", "--raw", log)[0]
              if m.get("kind") == "message" and "content" in m]
    whole = "\0".join(words(s if isinstance(s, str) else
                            "\0".join(strings_in(s))) for s in stored)
    got["lost"] = sum(words(text) not in whole for text in set(texts))
    return got, code


def strings_in(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings_in(inner)


def without_message(path, which, folder):
    """A copy of a sample without one message, the nth from the end; None: not made."""
    if os.path.isdir(path) or not path.endswith((".json", ".jsonl", ".traj", ".md")):
        return None
    if os.path.getsize(path) > 300_000: # as good as the small ones, and slower
        return None
    copy = os.path.join(folder, os.path.basename(path))
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if path.endswith((".jsonl", ".md")):
        lines = text.splitlines(True)
        speaks = re.compile(r'"(role|toolCalls|ObservationEvent|execute_tool)"|^#### |'
                            r'"type": ?"(gemini|tool.execution_complete)"')
        places = [i for i, line in enumerate(lines[1:], 1) if speaks.search(line)]
        if len(places) < which:
            return None
        del lines[places[-which]]
        text = "".join(lines)
    else:
        document = json.loads(text)
        inner = document[-1] if isinstance(document, list) else document
        inner = inner["samples"][-1] if "samples" in inner else inner
        for name in ("messages", "steps", "history", "traj"):
            if name in inner:
                del inner[name][-which]
        text = json.dumps(document)
    with open(copy, "w", encoding="utf-8") as file:
        file.write(text)
    return copy


def samples_of(data):
    found = [data + "/opencode-storage"]
    for folder, _, names in os.walk(data):
        if "json-test-suite" in folder or "opencode-storage" in folder:
            continue
        found += [folder + "/" + name for name in names
                  if name not in ("SOURCE.md", "session.json")]
    return sorted(found)


def main(arguments):
    tool, data = arguments[:2]
    table = "--table" in arguments
    drop = int(arguments[arguments.index("--drop") + 1]) if "--drop" in arguments else 0
    names = [a for a in arguments[2:] if not a.startswith("--") and not a.isdigit()]
    failed = False
    if table:
        print(*(f"{name:>9}" for name in COLUMNS), " file")
    with tempfile.TemporaryDirectory() as folder:
        for path in samples_of(data):
            name = path[len(data) + 1:]
            if names and not any(n in name for n in names):
                continue
            source = without_message(path, drop, folder) if drop else path
            if source is None:
                continue
            counter = next((f for begin, f in FORMATS if name.startswith(begin)), None)
            if counter is None:
                print(f"skip {name}: samples.py has no function for it")
                continue
            count = counter(path)
            have = count.numbers()
            got, code = read(tool, source, count.texts, folder)
            wrong = [f"{c} {have[c]}, read {got[c]}" for c in COLUMNS if have[c] != got[c]]
            wrong += [f"exit code {code}"] if code else []
            failed = failed or bool(wrong)
            if table:
                print(*(f"{have[c]:>9}" if have[c] == got[c] else
                        f"{str(have[c]) + '!' + str(got[c]):>9}" for c in COLUMNS),
                      "", name)
            else:
                print(f"FAIL {name}: {'; '.join(wrong)}" if wrong else f"ok {name}")
    return failed


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokenPipeError: # head has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
