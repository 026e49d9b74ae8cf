"""checks.py TOOL FOLDER: asks `msgstore mcp` as a client does, and compares its answers
with those of the other commands. FOLDER has t, which sessions.py wrote. Prints "ok NAME"
or "FAIL NAME: why"."""

import glob
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys

import sessions

TOOL, FOLDER = sys.argv[1], sys.argv[2]
LOG = os.path.join(FOLDER, "my.log")
COUNT = 120
LINE = 1 << 20                # bytes, the longest request
META = "io.modelcontextprotocol/"
SESSION_VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
MODERN = {"_meta": {META + "protocolVersion": "2026-07-28",
                    META + "clientCapabilities": {}}}
failed = []


def run(*words):
    return subprocess.run([TOOL, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class Server:
    def __init__(self, log=LOG, version="2025-06-18", words=()):
        self.process = subprocess.Popen(
            [TOOL, "mcp", log, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        self.id = 0
        self.lines = []       # all that the server wrote
        if version:
            self.call("initialize", protocolVersion=version, capabilities={},
                      clientInfo={"name": "checks", "version": "1"})
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, value):
        self.write(json.dumps(value).encode() + b"\n")

    def read(self):
        line = self.process.stdout.readline()
        self.lines.append(line)
        assert line.endswith(b"\n"), "the server ended"
        assert line.count(b"\n") == 1 and not any(c < 32 for c in line[:-1])
        return json.loads(line)

    def ask(self, data):
        self.write(data + b"\n")
        return self.read()

    def call(self, method, **params):
        self.id += 1
        self.send({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params})
        answer = self.read()
        assert answer["jsonrpc"] == "2.0" and answer["id"] == self.id, answer
        return answer

    def texts(self, name, **arguments):
        answer = self.call("tools/call", name=name, arguments=arguments)
        result = answer["result"]
        return result["isError"], [part["text"] for part in result["content"]]

    def tool(self, name, **arguments):
        error, texts = self.texts(name, **arguments)
        assert not error and len(texts) == 1, texts
        return json.loads(texts[0])

    def error(self, name, **arguments):
        error, texts = self.texts(name, **arguments)
        assert error and len(texts) == 1, texts
        return texts[0]

    def end(self):
        self.process.stdin.close()
        rest = self.process.stdout.read()
        assert rest == b"", rest
        said = self.process.stderr.read().decode()
        return self.process.wait(), said


def code_of(answer):
    return answer["error"]["code"]


def stop(number, frame):
    raise TimeoutError("no answer for two minutes")


signal.signal(signal.SIGALRM, stop)


def test(function):
    try:
        signal.alarm(120)
        function()
        print("ok mcp_" + function.__name__, flush=True)
    except Exception as error:  # a test that fails in any way
        place = error.__traceback__
        while place.tb_next is not None:
            place = place.tb_next
        said = str(error).replace("\n", " ")[:600]
        print("FAIL mcp_%s: line %d: %s: %s" % (function.__name__, place.tb_lineno,
                                                type(error).__name__, said), flush=True)
        failed.append(function.__name__)


def file_state():
    state = []
    for path in sorted(glob.glob(os.path.join(FOLDER, "*"))):
        if os.path.isfile(path):
            with open(path, "rb") as file:
                digest = hashlib.sha256(file.read()).hexdigest()
            state.append((path, digest, os.stat(path).st_mtime_ns))
    return state


# ---- The protocol.

@test
def versions_are_agreed_on():
    run("sync", LOG, os.path.join(FOLDER, "t"))
    for version in SESSION_VERSIONS + ["1999-01-01", "2027-01-01", "2026-07-28"]:
        server = Server(version=None)
        answer = server.call("initialize", protocolVersion=version, capabilities={},
                             clientInfo={"name": "x", "version": "1"})["result"]
        expected = version if version in SESSION_VERSIONS else SESSION_VERSIONS[-1]
        assert answer["protocolVersion"] == expected, answer
        assert answer["capabilities"] == {"tools": {}}
        assert answer["serverInfo"]["name"] == "msgstore"
        assert server.end() == (0, "")
    server = Server(version=None)
    assert code_of(server.call("initialize")) == -32602
    assert code_of(server.call("tools/list")) == -32602
    assert server.call("ping")["result"] == {}
    assert server.end() == (0, "")


@test
def requests_that_name_their_version_need_no_beginning():
    server = Server(version=None)
    found = server.call("server/discover", **MODERN)["result"]
    assert found["supportedVersions"] == ["2026-07-28"]
    assert found["resultType"] == "complete" and found["ttlMs"] >= 0
    assert found["_meta"][META + "serverInfo"]["name"] == "msgstore"
    listed = server.call("tools/list", **MODERN)["result"]
    assert listed["resultType"] == "complete" and listed["cacheScope"] == "private"
    called = server.call("tools/call", name="usage", **MODERN)["result"]
    assert called["resultType"] == "complete" and called["isError"] is False
    other = server.call("tools/list", _meta={META + "protocolVersion": "1900-01-01",
                                             META + "clientCapabilities": {}})["error"]
    assert other["code"] == -32022 and other["data"]["requested"] == "1900-01-01"
    assert "2026-07-28" in other["data"]["supported"]
    bare = {"_meta": {META + "protocolVersion": "2026-07-28"}}
    assert code_of(server.call("tools/list", **bare)) == -32602
    assert code_of(server.call("server/discover")) == -32602
    for method in "ping", "initialize", "resources/list":
        assert code_of(server.call(method, **MODERN)) == -32601, method
    server.send({"jsonrpc": "2.0", "id": "s", "method": "subscriptions/listen",
                 "params": dict(MODERN, notifications={"toolsListChanged": True})})
    agreed = server.read()
    assert agreed["method"] == "notifications/subscriptions/acknowledged"
    assert agreed["params"]["_meta"][META + "subscriptionId"] == "s"
    assert server.end() == (0, "")


@test
def bad_messages_are_errors_and_the_next_is_answered():
    server = Server()
    bad = {
        b"{": -32700, b"nonsense": -32700, b'{"a":"\xff"}': -32700, b"\x00": -32700,
        b"[" * 100000: -32700, b'{"a":1}{"b":2}': -32700, b'{"id":1': -32700,
        b"1": -32600, b'"x"': -32600, b"null": -32600, b"{}": -32600, b"[]": -32600,
        b'{"jsonrpc":"2.0","id":1}': -32600,
        b'{"jsonrpc":"1.0","id":1,"method":"ping"}': -32600,
        b'{"id":1,"method":"ping"}': -32600,
        b'{"jsonrpc":"2.0","id":null,"method":"ping"}': -32600,
        b'{"jsonrpc":"2.0","id":{},"method":"ping"}': -32600,
        b'{"jsonrpc":"2.0","id":true,"method":"ping"}': -32600,
        b'{"jsonrpc":"2.0","id":1,"method":7}': -32600,
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}': -32602,
        b'{"jsonrpc":"2.0","id":1,"method":"pong"}': -32601,
        b'{"jsonrpc":"2.0","id":1,"method":"server/discover"}': -32601,
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}': -32602,
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}': -32602,
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
        b'{"name":"usage","arguments":[]}}': -32602,
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}': -32602,
    }
    for line, code in bad.items():
        answer = server.ask(line)
        assert code_of(answer) == code, (line[:80], answer)
        assert server.call("ping")["result"] == {}, line[:80]
    for line in (b"", b"  ", b"\r", b'{"jsonrpc":"2.0","method":"ping"}',
                 b'{"jsonrpc":"2.0","method":"no/such"}',
                 b'{"jsonrpc":"2.0","id":9,"result":{}}',
                 b'{"jsonrpc":"2.0","id":9,"error":{"code":1,"message":""}}',
                 b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}'):
        server.write(line + b"\n")
        assert server.call("ping")["result"] == {}, line
    for name in b'"a\\u00e9\\n"', b"-7", b"1.5", b"123456789012345678901234567890":
        answer = server.ask(b'{"jsonrpc":"2.0","id":' + name + b',"method":"ping"}\r')
        assert answer["id"] == json.loads(name), answer
    assert server.end() == (0, "")


@test
def batches_are_of_one_version():
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    note = {"jsonrpc": "2.0", "method": "notifications/x"}
    for version in SESSION_VERSIONS:
        server = Server(version=version)
        server.send([ping, note, 7, dict(ping, id="b", method="no"),
                     dict(ping, id=3, method="initialize",
                          params={"protocolVersion": version})])
        answer = server.read()
        if version != "2025-03-26":
            assert code_of(answer) == -32600
            assert server.end() == (0, "")
            continue
        assert answer[0] == {"jsonrpc": "2.0", "id": 1, "result": {}}
        assert [code_of(one) for one in answer[1:]] == [-32600, -32601, -32600]
        assert [one["id"] for one in answer[1:]] == [None, "b", 3]
        server.send([note, note])
        server.send([])
        assert code_of(server.read()) == -32600
        assert server.call("ping")["result"] == {}
        assert server.end() == (0, "")


@test
def long_lines_are_refused_in_bounded_memory():
    server = Server()
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    assert server.ask(ping + b" " * (LINE - len(ping)))["result"] == {}
    for length in LINE + 1, LINE + 2, 2 * LINE + 1, 2 * LINE + 2, 9 * LINE:
        answer = server.ask(ping + b" " * (length - len(ping)))
        assert code_of(answer) == -32600, length
        assert answer["id"] is None
        assert server.ask(ping)["result"] == {}
    for _ in range(20):
        server.ask(b"x" * 9 * LINE)
    if os.path.exists("/proc/self/status") and "san" not in TOOL:
        with open("/proc/%d/status" % server.process.pid) as file:
            peak = [int(row.split()[1]) for row in file if row.startswith("VmHWM")]
        assert peak[0] < 32000, peak
    server.write(ping)        # the last line has no end
    server.process.stdin.close()
    assert json.loads(server.process.stdout.read())["result"] == {}
    assert server.process.wait() == 0


# ---- Tools and their arguments.

@test
def arguments_are_those_of_the_schemas():
    server = Server()
    tools = server.call("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == ["list_sessions", "search", "read",
                                                "usage"]
    good = {"search": {"query": "limit"}, "read": {"message": 1}}
    for tool in tools:
        schema, name = tool["inputSchema"], tool["name"]
        assert schema["type"] == "object" and schema["additionalProperties"] is False
        assert tool["annotations"]["readOnlyHint"] is True
        assert tool["annotations"]["destructiveHint"] is False
        base = good.get(name, {})
        assert schema["required"] == [key for key in base if name == "search"]
        server.tool(name, **base)
        assert "no argument" in server.error(name, **base, xyzzy=1)
        for key, rule in schema["properties"].items():
            wrong = [None, [], {}, True]
            if rule["type"] == "integer":
                wrong += [rule["minimum"] - 1, rule["maximum"] + 1, "7", 1.5, -1, 1e300]
                right = [rule["minimum"], float(rule["minimum"])]
                if rule["maximum"] < 1000:
                    right.append(rule["maximum"])
            elif "enum" in rule:
                wrong += [7, "", "xyzzy", rule["enum"][0] + "\0"]
                right = rule["enum"]
                assert rule["default"] == right[0]
            else:
                wrong += [7, "", "\u00e9" * (rule["maxLength"] + 1), "a\0b"]
                right = []
            for value in wrong:
                said = server.error(name, **dict(base, **{key: value}))
                assert key in said and "expected" in said, (key, value, said)
            for value in right:
                server.tool(name, **dict(base, **{key: value}))
    assert "did you mean" in server.error("usage", bye="day")
    assert "needs the argument query" in server.error("search")
    assert "needs the argument" in server.error("read")
    assert "expected" in server.error("list_sessions", since="gestern")
    assert "expected" in server.error("usage", until="x")
    for name in "list_sessions", "search", "usage":
        base = good.get(name, {})
        for cursor in ("x", "1:2:3", "-1:3", "9999:3", "0:0", "1", "7",
                       "18446744073709551615", "1:99999999999999999999"):
            said = server.error(name, cursor=cursor, **base)
            assert said.startswith("cursor: expected"), (cursor, said)
    assert "did you mean" in server.error(
        "usage", session=sessions.name_of(7).replace("8333", "8332"))
    assert "no message" in server.error("read", message=99999999)
    assert "another session" in server.error("read", message=1, session=[
        one["session"] for one in server.tool("list_sessions", limit=100)["sessions"]
        if one["session"] not in str(server.tool("read", message=1))][0])
    server.end()


def pages(server, name, rows, **arguments):
    found = []
    while True:
        page = server.tool(name, **arguments)
        found += page[rows]
        if "next_cursor" not in page:
            return found
        arguments["cursor"] = page["next_cursor"]


@test
def answers_agree_with_the_other_commands():
    server = Server()
    printed = [json.loads(row) for row in
               run("sessions", LOG, "--json").stdout.splitlines()]
    for limit in 7, 100:
        found = pages(server, "list_sessions", "sessions", limit=limit)
        assert [one["session"] for one in found] == [one["session"] for one in printed]
        assert [one["messages"] for one in found] == [one["messages"] for one in printed]
        assert [one["resume"] for one in found] == [one["resume"] for one in printed]
    some = server.tool("list_sessions", folder="project3", since="2026-05-10", limit=100)
    printed = run("sessions", LOG, "--json", "--cwd", "project3", "--since", "2026-05-10")
    assert some["matched"] == len(some["sessions"]) == len(printed.stdout.splitlines())
    assert 0 < some["matched"] < COUNT / 7
    assert server.tool("list_sessions", agent="codex")["matched"] == 0
    printed = [json.loads(row) for row in
               run("search", LOG, "RATE limit", "--json").stdout.splitlines()]
    for limit in 9, 100:
        found = pages(server, "search", "messages", query="RATE limit", limit=limit)
        assert [one["message"] for one in found] == [one["seq"] for one in printed]
        assert len(found) == COUNT and "rate limit" in found[0]["text"]
    name = sessions.name_of(9)
    found = server.tool("search", query="limit", session=name)["messages"]
    assert len(found) == 3 and {one["session"] for one in found} == {name}
    for by in "model", "session", "agent", "day", "tool":
        printed = json.loads(run("usage", LOG, "--json", "--by", by).stdout)
        assert pages(server, "usage", "rows", by=by, limit=7) == printed["rows"], by
        assert server.tool("usage", by=by)["total"] == printed["total"]
    server.end()


@test
def cursors_are_of_one_question():
    server = Server()
    for name, other in (("search", {"query": "limit "}), ("usage", {"by": "day"}),
                        ("list_sessions", {"folder": "project3"})):
        base = {"search": {"query": "limit"}, "usage": {"by": "session"}}.get(name, {})
        cursor = server.tool(name, limit=1, **base)["next_cursor"]
        server.tool(name, cursor=cursor, limit=9, **base)
        for wrong in cursor + "0", cursor[:-1], " " + cursor, "0" + cursor:
            assert "cursor: expected" in server.error(name, cursor=wrong, **base), wrong
        said = server.error(name, **dict(base, cursor=cursor, **other))
        assert said.startswith("cursor: expected"), said
    server.end()


def transcript(path, texts, session="pages", cwd="/w", **more):
    """Writes a session of Claude Code: a list of (text, second or None, parent)."""
    with open(path, "w") as file:
        for i, (text, second, parent) in enumerate(texts):
            kind = "user" if i % 2 == 0 else "assistant"
            above = None if parent is None else "%s-%d" % (session, parent)
            line = dict(type=kind, uuid="%s-%d" % (session, i), sessionId=session,
                        cwd=cwd, parentUuid=above,
                        message=dict({"role": kind, "content": text}, **more))
            if second is not None:
                line["timestamp"] = "2026-05-01T10:%02d:%02dZ" % divmod(second, 60)
            file.write(json.dumps(line) + "\n")


@test
def pages_of_a_search_miss_nothing_when_hits_go():
    log, path = os.path.join(FOLDER, "pages.log"), os.path.join(FOLDER, "pages.jsonl")
    texts = [("topic %d" % i, i, i - 1 if i else None) for i in range(20)]
    transcript(path, texts)
    run("sync", log, path)
    server = Server(log=log)
    every = [one["message"] for one in
             server.tool("search", query="topic", limit=100)["messages"]]
    assert len(every) == 20 and every == sorted(every, reverse=True)
    page = server.tool("search", query="topic", limit=6)
    for gone in every[0], every[5], every[6]: # of page 1, its last, of page 2
        assert run("hide", log, str(gone)).returncode == 0
    more = pages(server, "search", "messages", query="topic", limit=4,
                 cursor=page["next_cursor"])
    assert [one["message"] for one in more] == every[7:], more
    transcript(path, texts + [("other way", 30, 11)])
    run("sync", log, path)    # a rewind to message 11
    more = pages(server, "search", "messages", query="topic", limit=4,
                 cursor=page["next_cursor"])
    assert [one["message"] for one in more] == [n for n in every[7:] if n <= every[8]]
    server.end()


@test
def pages_of_a_search_have_messages_without_a_time():
    log, path = os.path.join(FOLDER, "mixed.log"), os.path.join(FOLDER, "mixed.jsonl")
    transcript(path, [("topic %d" % i, None if i % 3 == 1 else 50 - i,
                       i - 1 if i else None) for i in range(20)])
    run("sync", log, path)
    server = Server(log=log)
    for limit in 1, 3, 7, 100:
        found = pages(server, "search", "messages", query="topic", limit=limit)
        numbers = [one["message"] for one in found]
        assert len(set(numbers)) == len(numbers) == 20, numbers
        timed = [one.get("time", "") for one in found]
        assert timed == sorted(timed, reverse=True), timed
    for base in {"since": "2026-05-01"}, {"until": "2026-05-02"}:
        page = server.tool("search", query="topic", **base)
        assert len(page["messages"]) == 13 and page["left_out_without_a_time"] == 7, page
    page = server.tool("search", query="topic", since="2026-05-01", session="pages")
    assert page["left_out_without_a_time"] == 7
    assert "left_out_without_a_time" not in server.tool("search", query="topic")
    server.end()


@test
def windows_walk_through_a_session():
    server = Server()
    name = sessions.name_of(9)
    page = server.tool("read", session=name[:13], before=0, after=1)
    numbers = [one["message"] for one in page["messages"]]
    assert page["session"] == name and len(numbers) == 2
    while "previous_message" in page:
        page = server.tool("read", message=page["previous_message"], before=0, after=0)
        numbers.insert(0, page["messages"][0]["message"])
        assert page["next_message"] == numbers[1]
    printed = [json.loads(row)["seq"] for row in
               run("view", LOG, name, "--json").stdout.splitlines()]
    assert numbers == printed and len(numbers) == 4
    page = server.tool("read", message=numbers[1], before=1, after=1)
    assert [one["message"] for one in page["messages"]] == numbers[:3]
    assert "previous_message" not in page and page["next_message"] == numbers[3]
    texts = [one["text"] for one in page["messages"]]
    assert texts[:2] == ["Why does the rate limit hit shop 9?", "Answer 9."]
    assert page["messages"][2]["tool"] == "Bash" and "grep -n" in texts[2]
    server.end()


@test
def long_texts_say_how_to_go_on():
    server = Server()
    page = server.tool("read", session=sessions.name_of(3), before=0, after=0)
    message, text, offset = page["messages"][0], "", 0
    while True:
        assert len(message["text"]) <= 16000
        text += message["text"]
        if "cut" not in message:
            break
        assert message["cut"]["next_offset"] == offset + len(message["text"].encode())
        offset = message["cut"]["next_offset"]
        message = server.tool("read", message=message["message"], offset=offset, before=0,
                              after=0)["messages"][0]
    assert text.startswith("limit=3 ") and text.endswith("word5999")
    assert "before the key [masked private-key] after the key" in text
    assert len(server.lines[-1]) < 100000
    server.end()


# ---- What must not leave, and what must not be taken for more than text.

def all_answers(server):
    for one in pages(server, "list_sessions", "sessions", limit=100):
        server.tool("read", session=one["session"], before=50, after=50)
    for query in ("limit", "token", "end", "key", "word1", "PRIVATE", "masked", "shop"):
        pages(server, "search", "messages", query=query, limit=100)
    pages(server, "usage", "rows", by="session")


@test
def secrets_never_leave():
    with open(os.path.join(FOLDER, "secrets")) as file:
        secrets = file.read().split()
    server = Server()
    all_answers(server)
    assert b"[masked github-token]" in b"".join(server.lines)
    assert b"[masked private-key]" in b"".join(server.lines)
    for secret in secrets:
        for piece in secret, secret[:20], secret[-20:]:
            assert piece.encode() not in b"".join(server.lines), piece
    server.lines.clear()
    for secret in secrets[:40]:
        for query in secret, secret[8:20], secret[:6], "token " + secret[:4]:
            assert server.tool("search", query=query)["messages"] == [], query
    assert secrets[0] not in server.error("read", session=secrets[0])
    found = server.tool("search", query=" end3")["messages"]
    assert "token [masked github-token] end3" in str(found)
    found = server.tool("search", query="after the key")["messages"]
    assert "before the key [masked private-key] after the key" in found[0]["text"]
    server.end()


@test
def filters_match_what_is_shown():
    log, folder = os.path.join(FOLDER, "filters.log"), os.path.join(FOLDER, "filters")
    tokens = ["ghp_" + sessions.random_text("filter%d" % i, 36) for i in range(3)]
    os.makedirs(folder)
    for i in range(2):
        transcript(os.path.join(folder, "%d.jsonl" % i), [("word", i, None)],
                   session="one." + tokens[i], cwd="/w/x/" + tokens[2])
    transcript(os.path.join(folder, "2.jsonl"), [("word", 1, None)], session="two." +
               tokens[2])
    run("sync", log, folder)
    server = Server(log=log)
    shown = server.tool("list_sessions")["sessions"]
    assert {one["session"] for one in shown} == {"one.[masked github-token]",
                                                 "two.[masked github-token]"}, shown
    for token in tokens:
        for piece in token, "/w/x/" + token, token[:5], token[9:13]:
            assert server.tool("list_sessions", folder=piece)["matched"] == 0, piece
            for name in "read", "usage":
                assert "no messages" in server.error(name, session=piece), piece
            assert "no messages" in server.error("search", query="word", session=piece)
    for folder in "/w/x", "/w/x/[masked github-token]", "[masked":
        assert server.tool("list_sessions", folder=folder)["matched"] == 2, folder
    for name in "two", "two.[masked github-token]":
        page = server.tool("read", session=name)
        assert page["session"] == "two.[masked github-token]", page
        assert len(server.tool("search", query="word", session=name)["messages"]) == 1
        assert server.tool("usage", session=name, by="session")["rows"] is not None
    assert "2 sessions" in server.error("read", session="one.[masked github-token]")
    for piece in tokens:
        assert piece not in str(server.lines), piece
    server.end()


@test
def tokens_inside_of_words_are_masked():
    log, path = os.path.join(FOLDER, "glued.log"), os.path.join(FOLDER, "glued.jsonl")
    token, second = ("ghp_" + sessions.random_text("glued%d" % i, 36) for i in range(2))
    call = {"type": "tool_use", "id": "call_" + token, "name": "Bash_" + token,
            "input": {"command": "x " + token + second}}
    transcript(path, [("go", 1, None), ([call], 2, 0)], id="m1", model="m")
    run("sync", log, path)
    server = Server(log=log)
    message = server.tool("read", session="pages")["messages"][-1]
    mark = "[masked github-token]"
    assert message["call"] == "call_" + mark and message["tool"] == "Bash_" + mark
    assert mark + mark in message["text"]
    server.tool("usage", by="tool")
    server.tool("search", query="command")
    for piece in token, second, token[4:20], second[4:20]:
        assert piece not in str(server.lines)
    server.end()


@test
def hostile_texts_stay_texts():
    server = Server()
    page = server.tool("read", session=sessions.name_of(4), before=9, after=9)
    text = page["messages"][-1]["text"]
    assert text.endswith(sessions.HOSTILE), text
    found = server.tool("search", query="Ignore all earlier")["messages"]
    assert len(found) == 1 and "\x1b" not in server.lines[-1].decode()
    assert server.call("ping")["result"] == {}
    server.end()


@test
def changed_lines_never_end_the_server():
    seed = int(os.environ.get("MS_TEST_SEED", "1"))
    rounds = 30 * int(os.environ.get("MS_TEST_SCALE", "100"))
    chance = random.Random(seed)
    words = [b'"', b"\\", b"{", b"}", b"[", b"]", b"\xff", b"\x00", b"null", b"1e999",
             b"-1", b"\\ud800", b"_meta", b",", b":"]
    server = Server()
    tools = server.call("tools/list")["result"]["tools"]
    lines = []
    for tool in tools:
        arguments = {}
        for key, rule in tool["inputSchema"]["properties"].items():
            arguments[key] = rule.get("default", "a" if rule["type"] == "string" else 1)
        lines.append({"name": tool["name"], "arguments": arguments})
    for _ in range(rounds):
        params = chance.choice(lines)
        line = bytearray(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                                     "params": params}).encode())
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(line))
            if chance.random() < 0.5:
                line[at:at + chance.randrange(3)] = chance.choice(words)
            else:
                line[at] ^= 1 << chance.randrange(8)
        line = bytes(line).replace(b"\n", b"")
        server.write(line + b'\n{"jsonrpc":"2.0","id":"end","method":"ping"}\n')
        answer = server.read()
        if answer.get("id") != "end":
            assert server.read()["id"] == "end", line
    assert server.end()[0] == 0


# ---- The log.

@test
def reading_writes_nothing():
    before = file_state()
    server = Server()
    all_answers(server)
    assert server.end() == (0, "")
    assert file_state() == before


@test
def what_is_appended_is_seen():
    log = os.path.join(FOLDER, "grows.log")
    server = Server(log=log)
    assert "sync" in server.error("list_sessions")
    shutil.copy(LOG, log)
    assert server.tool("list_sessions")["matched"] == COUNT
    page = server.tool("search", query="rate limit", limit=10)
    sessions.write(os.path.join(FOLDER, "t2"), COUNT, 5, month=6)
    run("sync", log, os.path.join(FOLDER, "t2"))
    assert server.tool("list_sessions")["matched"] == COUNT + 5
    assert len(server.tool("search", query="shop %d?" % (COUNT + 2))["messages"]) == 1
    more = server.tool("search", query="rate limit", limit=100,
                       cursor=page["next_cursor"])["messages"]
    shown = [one["message"] for one in page["messages"]]
    assert not {one["message"] for one in more} & set(shown)
    assert len(more) == 100 and "next_cursor" in page
    run("compact", log, log + ".new")
    os.replace(log + ".new", log)
    sessions.write(os.path.join(FOLDER, "t2"), COUNT + 5, 3)
    run("sync", log, os.path.join(FOLDER, "t2"))
    assert server.tool("list_sessions")["matched"] == COUNT + 8
    assert server.end() == (0, "")


def write_over(path, data, cut):
    with open(path, "r+b") as file:
        if cut:
            file.truncate(0)
        file.write(data)


@test
def a_log_that_is_written_over_is_opened_again():
    log, other = os.path.join(FOLDER, "over.log"), os.path.join(FOLDER, "other.log")
    path = os.path.join(FOLDER, "other.jsonl")
    transcript(path, [("elsewhere", 1, None)], session="other")
    run("sync", other, path)
    with open(other, "rb") as file:
        small = file.read()
    with open(LOG, "rb") as file:
        large = file.read()
    server = Server(log=log)
    for cut in True, False, True:
        shutil.copy(LOG, log)
        assert server.tool("list_sessions")["matched"] == COUNT
        assert server.tool("search", query="rate limit", limit=100)["messages"]
        assert server.tool("read", message=3)["messages"]
        write_over(log, small, cut)
        error, texts = server.texts("list_sessions")
        assert not error and "other" in texts[0], (cut, texts)
        assert json.loads(texts[0])["matched"] == 1, (cut, texts)
        assert "elsewhere" in server.texts("read", message=1)[1][0], cut
        assert server.texts("search", query="rate limit")[1][0].startswith(
            '{"messages":[]')
    for data in b"", b"garbage" * 1000:
        write_over(log, large, True)
        assert server.tool("list_sessions")["matched"] == COUNT
        write_over(log, data, True)
        for name, more in ("list_sessions", {}), ("read", {"message": 3}):
            assert "no log" in server.error(name, **more)
    for size in 4096, 9000, 65536:
        write_over(log, large, True)
        assert server.tool("list_sessions")["matched"] == COUNT
        os.truncate(log, size)
        for name, more in (("list_sessions", {}), ("read", {"message": 3}), ("usage", {}),
                           ("search", {"query": "rate limit"})):
            server.texts(name, **more)
    os.remove(log)
    shutil.copy(LOG, log)
    assert server.tool("list_sessions")["matched"] == COUNT
    run("sync", log, path)
    assert server.tool("list_sessions")["matched"] == COUNT + 1
    write_over(log, large, False) # an older copy, as long as the newer one
    assert server.tool("list_sessions")["matched"] == COUNT
    assert server.end()[0] == 0


@test
def a_log_that_becomes_shorter_amid_a_call_is_an_error():
    log, seen = os.path.join(FOLDER, "shorter.log"), []
    shutil.copy(LOG, log)
    with open(LOG, "rb") as file:
        large = file.read()
    server = Server(log=log)
    for _ in range(200):
        for _ in range(20):
            server.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params":
                         {"name": "search", "arguments": {"query": "no such words"}}})
        for _ in range(20):
            write_over(log, large, True)
        seen += [server.read()["result"]["content"][0]["text"] for _ in range(20)]
        if any("became shorter" in text for text in seen):
            break
    else:
        print("skip mcp_shorter: no call met the end of the file", flush=True)
    assert server.tool("list_sessions")["matched"] == COUNT
    code = server.end()[0]    # the handle that was left is a leak to a sanitizer
    assert code == 0 or "san" in TOOL, code


@test
def damage_is_a_warning():
    log = os.path.join(FOLDER, "damaged.log")
    with open(LOG, "rb") as file:
        data = bytearray(file.read())
    at = data.index(b"shop 50?")
    data[at] ^= 1
    with open(log, "wb") as file:
        file.write(data)
    server = Server(log=log)
    error, texts = server.texts("search", query="rate limit", limit=100)
    assert not error and len(texts) == 2 and "damaged" in texts[1], texts[1:]
    cursor = json.loads(texts[0])["next_cursor"]
    error, more = server.texts("search", query="rate limit", limit=100, cursor=cursor)
    found = json.loads(texts[0])["messages"] + json.loads(more[0])["messages"]
    assert len(found) == COUNT - 1 and "damaged" in more[1], len(found)
    server.end()


@test
def damage_beside_what_is_listed_is_a_warning():
    log = os.path.join(FOLDER, "listed.log")
    told = ('{"type":"assistant_message","content":"hello"}\n'
            '{"type":"user_message","content":"mend the quokka"}\n'
            '{"type":"assistant_message","content":"it is mended"}\n')
    pad = '{"type":"task","content":"%s"}\n' % ("x" * 600000)
    for name, text in (("k", told), ("z", pad * 8)):
        subprocess.run([TOOL, "import", log, "-", "--location", name], check=True,
                       input=text.encode(), stdout=subprocess.PIPE)
    with open(log, "r+b") as file:
        at = file.read().index(b"quokka")
        file.seek(at)
        file.write(b"Q")
    server = Server(log=log)
    for _ in range(2):        # each answer has its own warning
        error, texts = server.texts("list_sessions")
        assert not error and len(texts) == 2, texts
        assert texts[1].startswith("reading sessions: 1 records were skipped"), texts[1]
        listed = [s for s in json.loads(texts[0])["sessions"] if s["session"] == "k"]
        assert len(listed) == 1 and "title" not in listed[0], listed
    server.end()


@test
def other_files_are_no_log():
    path = os.path.join(FOLDER, "t", sessions.name_of(0) + ".jsonl")
    answer = run("mcp", path)
    assert answer.returncode == 2 and b"is no log" in answer.stderr
    server = Server(words=("--personal", "--timezone", "+05:00"))
    assert "+05:00" in str(server.tool("list_sessions", limit=1))
    server.end()


sys.exit(1 if failed else 0)
