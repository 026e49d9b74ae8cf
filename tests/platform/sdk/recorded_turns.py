"""Judges whether recorded answers go back to their makers as they came.

    recorded_turns.py PROGRAM REPOSITORY...

REPOSITORY is a git directory with recordings, as in recorded.py. Each accepted answer is
read here, whole or streamed, without the library; PROGRAM is recorded_turns, which stores
the answer and writes the next request. The turn in that request must be the answer's. Not
compared is what the provider makes of itself or ignores in a request: see the functions
named turn_. Prints each turn that differs, and a line of counts for each provider.
"""

import json
import os
import re
import struct
import subprocess
import sys
from collections import Counter, defaultdict
from urllib.parse import urlparse

import yaml
from recordings import LOADER, files, json_of, recorded


# ---- Recordings.

def frames(data):
    """The events of Bedrock's binary frames, as the SDKs hand them out."""
    at = 0
    while at + 16 <= len(data):
        size, head = struct.unpack(">II", data[at:at + 8])
        if size < 16 or at + size > len(data):
            return
        headers, i, end = {}, at + 12, at + 12 + head
        while i < end:
            n = data[i]
            name = data[i + 1:i + 1 + n].decode()
            i += 1 + n
            kind = data[i]
            length = struct.unpack(">H", data[i + 1:i + 3])[0]
            if kind != 7:
                return
            headers[name] = data[i + 3:i + 3 + length].decode()
            i += 3 + length
        payload = json_of(data[end:at + size - 4])
        name = headers.get(":event-type") or headers.get(":exception-type")
        if name and isinstance(payload, dict):
            payload.pop("p", None)
            yield {name: payload}
        at += size


def body_of(response):
    """The text of a body, or None."""
    answer = response.get("parsed_body")
    if answer is not None:
        return json.dumps(answer, default=str)
    text = (response.get("body") or {}).get("string")
    if isinstance(text, bytes):
        events = list(frames(text))
        if events:
            return "\n".join(json.dumps(event) for event in events)
        text = text.decode("utf-8", "replace")
    return text


def events_of(body):
    """The objects of a body: one, lines of JSON, or server-sent events."""
    whole = json_of(body)
    if whole is not None:
        return whole if isinstance(whole, list) else [whole]
    events, data = [], []
    for line in body.splitlines() + [""]:
        if line.startswith("data:"):
            data.append(line[5:].strip())
            value = json_of("\n".join(data))
            if value is not None:
                events.append(value)
                data = []
        elif line.startswith("{"):
            events.append(json_of(line))
        elif not line:
            data = []
    return [event for event in events if isinstance(event, dict)]


# ---- What an answer is, read without the library: its turn, in the form of a request.

def join(parts):
    return "".join(part for part in parts if isinstance(part, str))


def read_chat(events):
    said = {"texts": [], "thoughts": [], "calls": [], "details": []}
    place, done = {}, False
    for event in events:
        if event.get("error"):
            return False, None
        for choice in (event.get("choices") or [])[:1]:
            # Snowflake has no reason to stop; a whole message is one
            done = done or bool(choice.get("finish_reason")) or "message" in choice
            delta = choice.get("delta") or choice.get("message") or {}
            content = delta.get("content")
            if isinstance(content, list):
                for part in content:
                    said["texts"].append(part.get("text"))
                    for thought in part.get("thinking") or []:
                        said["thoughts"].append(thought.get("text"))
            else:
                said["texts"].append(content)
            said["texts"].append(delta.get("refusal"))
            said["thoughts"].append(delta.get("reasoning_content") or delta.get("reasoning"))
            said["details"] += [(choice.get("message") is None, detail) for detail
                                in delta.get("reasoning_details") or []]
            for n, call in enumerate(delta.get("tool_calls") or []):
                index = call.get("index", n)
                kind = "custom" if call.get("custom") and not call.get("function") \
                    else "function"
                of = call.get(kind) or {}
                old = place.get(index)
                if old is None or (call.get("id") and of.get("name") and old["id"]
                                   and old["id"] != call["id"]):
                    place[index] = {"id": call.get("id"), "type": kind, kind: {
                        "name": of.get("name"),
                        "arguments" if kind == "function" else "input": ""}}
                    for name in call:
                        if name not in ("id", "type", "index", kind) and call[name]:
                            place[index][name] = call[name]
                    said["calls"].append(place[index])
                mine = place[index][kind]
                mine["name"] = mine["name"] or of.get("name")
                for name in ("arguments", "input"):
                    if name in mine and of.get(name):
                        value = of[name]
                        mine[name] += value if isinstance(value, str) else json.dumps(value)
    details = []
    for streamed, detail in said["details"]:
        last = details[-1] if details else None
        if streamed and last and all(last.get(k) == detail.get(k) for k in ("index", "type")):
            for name, value in detail.items():
                joins = name in ("text", "summary", "data") and last.get(name)
                if value is not None or name not in last:
                    last[name] = last[name] + value if joins else value
        else:
            details.append(dict(detail))
    return done, {"content": join(said["texts"]), "reasoning": join(said["thoughts"]),
                  "tool_calls": said["calls"], "reasoning_details": details}


def read_anthropic(events):
    blocks, done, inputs = {}, False, {}
    for event in events:
        kind = event.get("type")
        if kind == "message":
            return bool(event.get("stop_reason")), event["content"]
        if kind == "message_start":
            blocks, inputs = {}, {}
        elif kind == "content_block_start":
            blocks[event["index"]] = dict(event["content_block"])
        elif kind == "content_block_delta":
            block, delta = blocks[event["index"]], event["delta"]
            if delta["type"] == "input_json_delta":
                inputs[event["index"]] = inputs.get(event["index"], "") + \
                    delta["partial_json"]
            elif delta["type"] == "citations_delta":
                block["citations"] = (block.get("citations") or []) + [delta["citation"]]
            else:
                for name, value in delta.items():
                    if name != "type" and value is not None:
                        block[name] = (block.get(name) or "") + value
        elif kind == "message_delta":
            done = done or bool(event["delta"].get("stop_reason"))
    for index, text in inputs.items():
        if text:
            blocks[index]["input"] = json_of(text)
    return done, [blocks[index] for index in sorted(blocks)]


def read_gemini(events):
    parts, done = [], False
    for event in events:
        for choice in (event.get("candidates") or [])[:1]:
            done = done or bool(choice.get("finishReason"))
            for part in (choice.get("content") or {}).get("parts") or []:
                call = part.get("functionCall")
                if call is None or ("args" in call and "willContinue" not in call):
                    parts.append(part)
                    continue
                if call.get("name"):
                    parts.append(dict(part, functionCall={
                        key: call[key] for key in ("name", "id", "args") if key in call}))
                    parts[-1]["functionCall"].setdefault("args", {})
                for piece in call.get("partialArgs") or []:
                    set_path(parts[-1]["functionCall"]["args"], piece)
    return done, parts


def set_path(value, piece):
    """Sets what a part of arguments holds at its path; a text goes on."""
    steps = [int(number) if number else name or quoted for name, quoted, number in
             re.findall(r"\.([^.\[]+)|\['([^']*)'\]|\[(\d+)\]", piece["jsonPath"])]
    for step, after in zip(steps, steps[1:]):
        empty = [] if isinstance(after, int) else {}
        if isinstance(step, int):
            value += [empty] * (step + 1 - len(value))
        else:
            value.setdefault(step, empty)
        value = value[step]
    new = next((piece[kind] for kind in ("stringValue", "numberValue", "boolValue")
                if kind in piece), None)
    if isinstance(steps[-1], int):
        value += [None] * (steps[-1] + 1 - len(value))
        old = value[steps[-1]]
    else:
        old = value.get(steps[-1])
    value[steps[-1]] = old + new if isinstance(old, str) and isinstance(new, str) else new


def read_bedrock(events):
    blocks, done = {}, False
    for event in events:
        if "output" in event:
            return bool(event.get("stopReason")), event["output"]["message"]["content"]
        start, delta = event.get("contentBlockStart"), event.get("contentBlockDelta")
        if start:
            blocks[start["contentBlockIndex"]] = json.loads(json.dumps(start["start"]))
        if delta:
            block = blocks.setdefault(delta["contentBlockIndex"], {})
            for name, value in delta["delta"].items():
                if name == "text":
                    block["text"] = block.get("text", "") + value
                elif name == "toolUse":
                    block["toolUse"]["input"] = block["toolUse"].get("input", "") + \
                        value["input"]
                elif name == "reasoningContent":
                    mine = block.setdefault(name, {})
                    if "redactedContent" not in value:
                        mine = mine.setdefault("reasoningText", {})
                    for member, text in value.items():
                        mine[member] = mine.get(member, "") + text
                elif name == "toolResult":
                    block[name].setdefault("content", []).extend(value)
                else:
                    block.setdefault(name, []).append(value)
        done = done or "messageStop" in event
    for block in blocks.values():
        call = block.get("toolUse")
        if call and isinstance(call.get("input"), str):
            call["input"] = json_of(call["input"]) if call["input"] else {}
    return done, [blocks[index] for index in sorted(blocks)]


def read_responses(events):
    items, done, begun = {}, False, 0
    for event in events:
        response = event if event.get("object") == "response" else event.get("response")
        if event.get("type") == "response.created":
            begun += 1  # some files hold several answers
        elif event.get("type") == "response.output_item.done":
            items[begun, event["output_index"], len(items)] = event["item"]
        elif isinstance(response, dict) and \
                response.get("status") in ("completed", "incomplete"):
            done = True
            for n, item in enumerate(response["output"]):  # begun and never done
                if not any(key[:2] == (begun, n) or "id" in item and
                           one.get("id") == item["id"] for key, one in items.items()):
                    items[begun, n, 0] = item
    return done, [items[key] for key in sorted(items)]


READERS = {"chat": read_chat, "anthropic": read_anthropic, "gemini": read_gemini,
           "bedrock": read_bedrock, "responses": read_responses}


# ---- The turn of a request, and what of a turn is compared.

def without_none(value):
    if isinstance(value, dict):
        return {key: without_none(of) for key, of in value.items() if of is not None}
    if isinstance(value, list):
        return [without_none(of) for of in value]
    return value


def compacted(answer):
    """The answer from its last compaction on, which stands for all before it, also for
    what the user said; and whether it has one."""
    at = [n for n, one in enumerate(answer) if one.get("type") == "compaction"]
    return (answer[at[-1]:], True) if at else (answer, False)


def second(request, member, role, first=False):
    """The message after the user's, or the first, if the assistant has said it."""
    messages = request[member][0 if first else 1:][:1]
    return messages[0] if messages and messages[0]["role"] == role else {}


def turn_chat(request, answer):
    """A message. Thinking has one of two names. A call without an id gets one; the index
    of a call is of streams."""
    got = second(request, "messages", "assistant")
    mine = {"content": got.get("content") or "",
            "reasoning": got.get("reasoning_content") or "",
            "tool_calls": got.get("tool_calls") or [],
            "reasoning_details": got.get("reasoning_details") or []}
    want = dict(answer)
    if want["reasoning_details"]:
        mine["reasoning"] = want["reasoning"] = ""
    for one, other in zip(want["tool_calls"], mine["tool_calls"]):
        if not one["id"]:
            one["id"] = other["id"]
        of = one.get("function")
        if of and not of["arguments"].strip():
            of["arguments"] = "{}"
    return without_none(mine), without_none(want)


def turn_anthropic(request, answer):
    """Blocks. Providers ignore null; empty texts are refused in a request."""
    answer, first = compacted(answer)
    content = second(request, "messages", "assistant", first).get("content", [])
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    want = []
    for block in without_none(answer):
        if block["type"] == "text" and not block["text"].strip():
            continue
        if block.get("caller") == {"type": "direct"}:
            pass
        if block.get("citations") == []:
            del block["citations"]
        want.append(block)
    return without_none(content), want


def turn_gemini(request, answer):
    """Parts. The texts of a stream are joined; of thinking without a signature the
    provider makes nothing."""
    parts = second(request, "contents", "model").get("parts", [])
    want = []
    for part in without_none(answer):
        part = dict(part)
        if part.get("thought") is False:
            del part["thought"]
        if "thoughtSignature" not in part and (part.get("thought") or part.get("text") == ""):
            continue
        last = want[-1] if want else None
        if last is not None and set(part) - {"thoughtSignature"} <= {"text", "thought"} and \
                "text" in part and "text" in last and \
                last.get("thought") == part.get("thought"):
            last["text"] += part["text"]
            if "thoughtSignature" in part:
                last["thoughtSignature"] = part["thoughtSignature"]
        else:
            want.append(part)
    return without_none(parts), want


def turn_gemini_ids(mine, want):
    for part in list(want):
        call = part.get("functionCall")
        if call is not None and "name" not in call:
            want.remove(part)
    for one, other in zip(mine, want):
        a, b = one.get("functionCall"), other.get("functionCall")
        if a and b and "id" not in b:
            a.pop("id", None)
        if a and b and "thoughtSignature" not in other:
            one.pop("thoughtSignature", None)
        if b is not None and "args" not in b:
            b["args"] = {}


def turn_bedrock(request, answer):
    """Blocks. Blank texts are refused in a request."""
    content = second(request, "messages", "assistant").get("content", [])
    want = [block for block in without_none(answer)
            if "text" not in block or block["text"].strip()]
    for block in want:  # an answer's word for the client's calls, which requests lack
        if block.get("toolUse", {}).get("type") == "tool_use":
            del block["toolUse"]["type"]
    return without_none(content), want


def turn_responses(request, answer):
    """Items, up to the first result or user's message."""
    got = []
    answer, first = compacted(answer)
    for item in request["input"][0 if first else 1:]:
        kind = item.get("type", "message")
        if (kind == "message" and item.get("role") == "user") or \
                kind.endswith("_output") and item not in answer:
            continue
        got.append(item)
    return got, answer


TURNS = {"chat": turn_chat, "anthropic": turn_anthropic, "gemini": turn_gemini,
         "bedrock": turn_bedrock, "responses": turn_responses}

# Turns that come back in another form: a part of the name, the reason.
KNOWN = [
    ("test_snowflake_t", "an empty custom call beside the function"),
    ("test_bedrock_thinking_high_qwen_variant.yaml#0", "thinking alone is not sent"),
    ("amazon-bedrock-json-tool-with-answer.1.json", "edited by hand: blocks with a type"),
    ("amazon-bedrock-json-tool.2.json", "edited by hand: blocks with a type"),
    ("amazon-bedrock-json-tool.3.", "texts without thinking are joined"),
    ("amazon-bedrock-json-with-tool.1.", "texts without thinking are joined"),
    ("amazon-bedrock-json-with-tools.1.", "texts without thinking are joined"),
]


def known(name):
    return next((why for part, why in KNOWN if part in name), None)


# ---- Whose answers they are.

HOSTS = [  # a part of the host, the profile, the provider
    ("api.anthropic.com", "anthropic"), ("deepseek", "deepseek"), ("z.ai", "glm"),
    ("openrouter.ai", "openrouter"), ("mistral.ai", "chat-strict")]
FOLDERS = {"deepseek": "deepseek", "mistral": "chat-strict"}


def wire_of(events):
    for event in events:
        if event.get("object") == "response" or \
                str(event.get("type", "")).startswith("response."):
            return "responses"
        if isinstance(event.get("response"), dict) and \
                event["response"].get("object") == "response":
            return "responses"
        if event.get("type") in ("message", "message_start") and \
                (event.get("role") == "assistant" or "message" in event):
            return "anthropic"
        if isinstance(event.get("candidates"), list):
            return "gemini"
        if "messageStart" in event or "contentBlockDelta" in event or \
                isinstance((event.get("output") or {}) if isinstance(
                    event.get("output"), dict) else {}, dict) and \
                "message" in (event.get("output") if isinstance(event.get("output"), dict)
                              else {}):
            return "bedrock"
        if isinstance(event.get("choices"), list) and event["choices"] and \
                ("message" in event["choices"][0] or "delta" in event["choices"][0]):
            return "chat"
    return None


PROFILE = {"anthropic": "anthropic", "gemini": "gemini", "bedrock": "bedrock",
           "responses": "openai-responses"}
BEDROCK_TOOLS = '[{"toolSpec":{"name":"t","inputSchema":{"json":{"type":"object"}}}}]'


def answers(repository):
    """Name, provider, host and body of each answer."""
    for name, data in files(repository, recorded(".json", ".txt", ".sse")):
        if not name.endswith(".yaml"):
            folder = name.split("/")[1]
            yield name, folder, folder, data.decode("utf-8", "replace")
            continue
        calls = yaml.load(data, Loader=LOADER) or {}
        for n, each in enumerate(calls.get("interactions", [])
                                 if isinstance(calls, dict) else []):
            if "request" not in each:
                continue
            response = each["response"]
            if (response.get("status") or {}).get("code") != 200:
                continue
            host = urlparse(each["request"].get("uri", "")).netloc
            yield f"{name}#{n}", host, host, body_of(response)


def lines(repository):
    for name, provider, host, body in answers(repository):
        if not isinstance(body, str):
            continue
        events = events_of(body)
        wire = wire_of(events)
        if wire is None:
            yield None, name, provider, None
            continue
        profile = PROFILE.get(wire) or next((p for part, p in HOSTS if part in host), None) \
            or FOLDERS.get(host, "openai")
        model = ""
        for event in events:
            for of in (event, event.get("message"), event.get("response")):
                if isinstance(of, dict) and isinstance(
                        of.get("model") or of.get("modelVersion"), str):
                    model = model or of.get("model") or of.get("modelVersion")
        line = {"name": name, "profile": profile, "model": model or "m", "body": body}
        if wire == "bedrock":
            line["tools"] = BEDROCK_TOOLS
        yield wire, name, provider, (line, events)


def difference(mine, want, path=""):
    if type(mine) is not type(want):
        return f"{path}: {str(mine)[:80]!r} for {str(want)[:80]!r}"
    if isinstance(mine, dict):
        for key in sorted(set(mine) | set(want)):
            if key not in mine:
                return f"{path}.{key} is left out: {str(want[key])[:60]}"
            if key not in want:
                return f"{path}.{key} is added: {str(mine[key])[:60]}"
            found = difference(mine[key], want[key], f"{path}.{key}")
            if found:
                return found
        return None
    if isinstance(mine, list):
        for n, (a, b) in enumerate(zip(mine, want)):
            found = difference(a, b, f"{path}[{n}]")
            if found:
                return found
        return None if len(mine) == len(want) else \
            f"{path}: {len(mine)} elements for {len(want)}"
    return None if mine == want else f"{path}: {str(mine)[:80]!r} for {str(want)[:80]!r}"


def main():
    counts = defaultdict(Counter)
    with subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as program:
        for repository in sys.argv[2:]:
            for wire, name, provider, of in lines(repository):
                if wire is None:
                    counts["no profile, " + provider]["other"] += 1
                    continue
                line, events = of
                try:
                    done, want = READERS[wire](events)
                    done = done or (want is not None and "[DONE]" in line["body"])
                except Exception as e:  # edited by hand
                    print(f"{name}: unreadable {e!r}")
                    continue
                program.stdin.write(json.dumps(line) + "\n")
                program.stdin.flush()
                said = json.loads(program.stdout.readline())
                count = counts[f"{line['profile']}, {provider}"]
                error = said.get("error")
                if error and error != "cut" and not done:
                    count["refused"] += 1
                    if os.environ.get("V"):
                        print(f"{name}: {error}")
                    continue
                count["turns"] += 1
                if error and error != "cut":
                    print(f"{name}: {line['profile']}: {error}")
                    continue
                if error == "cut":
                    print(f"{name}: parts: {difference(said['cut'], said['request'])}")
                    continue
                mine, want = TURNS[wire](said["request"], want)
                if wire == "gemini":
                    turn_gemini_ids(mine, want)
                found = difference(mine, want) if want or mine else None
                if not done:
                    found = "an answer without its end is taken"
                if found is None:
                    count["back"] += 1
                else:
                    why = known(name)
                    count["known"] += why is not None
                    print(f"{name}: {line['profile']}: {found}" + (f" ({why})" if why
                                                                  else ""))
        program.stdin.close()
    by = defaultdict(Counter)
    for provider, count in counts.items():
        by[provider.split(",")[0]].update(count)
    for provider in sorted(by):
        count = by[provider]
        if count["turns"]:
            bad = count["back"] + count["known"] < count["turns"]
            print(f"{'FAIL' if bad else 'ok'} recorded_turns {provider}: {count['back']} of "
                  f"{count['turns']} turns came back, "
                  f"{100 * count['back'] / count['turns']:.1f} %, {count['known']} more are "
                  f"known; {count['refused']} answers of errors or without an end")


main()
