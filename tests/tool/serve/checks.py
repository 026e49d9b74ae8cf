"""checks.py TOOL FOLDER: asks `msgstore serve` as a browser does, and as one that must get
nothing. FOLDER has t, which ../mcp/sessions.py wrote. Prints "ok NAME" or "FAIL NAME:
why"."""

import hashlib
import http.client
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

TOOL, FOLDER = sys.argv[1], sys.argv[2]
SCALE = float(os.environ.get("MS_TEST_SCALE") or 100) / 100  # percent
ONLY = os.environ.get("MS_TEST_ONLY", "")
LOG = os.path.join(FOLDER, "my.log")
COUNT = 120
CONNECTIONS, IDLE, SECONDS = 32, 10, 20  # WEB_CONNECTIONS, WEB_IDLE, WEB_SECONDS
failed = []
started = []                  # servers


def run(*words):
    return subprocess.run([TOOL, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class Server:
    def __init__(self, log=LOG, words=(), env=None):
        self.process = subprocess.Popen(
            [TOOL, "serve", *([log] if log else []), *words], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=env)
        started.append(self.process)
        self.url = self.process.stdout.readline().decode().rstrip("\n")
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/[0-9a-f]{32}/)", self.url)
        assert found, (self.url, self.process.stderr.read())
        self.port, self.path = int(found[1]), found[2]

    def ask(self, path="", method="GET", headers=None, body=None, raw=False, timeout=60):
        """Returns status, headers, body of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        connection.putrequest(method, path if raw else self.path + path,
                              skip_host=headers is not None and "Host" in headers)
        for name, value in (headers or {}).items():
            for one in value if isinstance(value, list) else [value]:
                connection.putheader(name, one)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        got = answer.status, dict(answer.getheaders()), answer.read()
        connection.close()
        return got

    def get(self, what, **arguments):
        query = urllib.parse.urlencode(arguments)
        status, _, body = self.ask(what + ("?" + query if query else ""))
        assert status == 200, (status, body)
        return json.loads(body)

    def data(self, what, **arguments):
        answer = self.get(what, **arguments)
        assert "warning" not in answer, answer["warning"]
        return answer["data"]

    def socket(self, request=b""):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        s.sendall(request)
        return s

    def memory(self):
        with open("/proc/%d/status" % self.process.pid) as file:
            return int(re.search(r"VmRSS:\s+(\d+) kB", file.read())[1]) * 1024

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=30)
        assert out == b"", out
        return self.process.returncode, err.decode()


def stop(number, frame):
    raise TimeoutError("no answer for two minutes")


signal.signal(signal.SIGALRM, stop)


def test(function):
    if ONLY not in function.__name__:
        return
    try:
        signal.alarm(120)
        function()
        print("ok serve_" + function.__name__, flush=True)
    except Exception as error:  # a test that fails in any way
        place = error.__traceback__
        while place.tb_next is not None:
            place = place.tb_next
        said = str(error).replace("\n", " ")[:600]
        print("FAIL serve_%s: line %d: %s: %s" % (function.__name__, place.tb_lineno,
                                                  type(error).__name__, said), flush=True)
        failed.append(function.__name__)


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest(), os.stat(path).st_mtime_ns


run("sync", LOG, os.path.join(FOLDER, "t"))
before = digest(LOG)
server = Server()


def texts_of(page):
    """All messages of a page's session, with their texts."""
    assert len(page["runs"]) == 1 and len(page["runs"][0]["sessions"]) == 1
    text = lambda v: page["texts"][v] if isinstance(v, int) else v
    return [(m["n"], text(m.get("c", ""))) for m in page["runs"][0]["sessions"][0]["messages"]]


# ---- What it answers.

@test
def page_has_one_policy_and_the_headers_that_forbid():
    status, headers, body = server.ask()
    assert status == 200 and body.startswith(b"<!doctype html>"), (status, body[:40])
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-"), policy
    for word in ("connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'",
                 "form-action 'none'", "trusted-types 'none'"):
        assert word in policy, word
    for word in ("unsafe", "http", "*"):
        assert word not in policy, word
    meta = re.search(rb'Content-Security-Policy" content="([^"]*)"', body)[1].decode()
    assert policy == meta + "; frame-ancestors 'none'", meta
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    for path in ("", "state", "nothing", "session"):
        _, headers, _ = server.ask(path)
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert "Access-Control-Allow-Origin" not in headers


@test
def sessions_are_all_listed_by_pages():
    seen, cursor = [], None
    while True:
        answer = server.data("sessions", limit=50, **({"cursor": cursor} if cursor else {}))
        seen += answer["sessions"]
        cursor = answer.get("next_cursor")
        if not cursor:
            break
    assert answer["matched"] == COUNT == len({s["session"] for s in seen}) == len(seen)
    listed = [json.loads(l) for l in run("sessions", LOG, "--json").stdout.splitlines()]
    assert [s["session"] for s in seen] == [s["session"] for s in listed], listed[:1]
    assert server.data("sessions", folder="/w/project3")["matched"] < COUNT
    assert server.data("sessions", agent="codex")["matched"] == 0


@test
def list_has_the_tokens_and_costs_of_the_usage_command():
    log = os.path.join(FOLDER, "costs.log")
    with open(log + ".jsonl", "w") as file:
        for i in range(6):
            file.write(json.dumps({"type": "assistant_message", "content": "answer %d" % i,
                                   "location": "s%d" % (i % 3), "timestamp": 1772442000 + i}) + "\n")
    run("import", log, log + ".jsonl", "--from", "framework")
    for i, model in enumerate(["claude-sonnet-4-5", "unheard-of-1", "unheard-of-1"] * 2):
        usage = {"input_tokens": 1000 * (i + 1), "output_tokens": 10, "model": model}
        if i == 2:
            usage["cost"] = 1.25
        run("note", log, str(i + 1), "usage", "--json", json.dumps(usage))
    prices = os.path.join(FOLDER, "prices.json")
    with open(prices, "w") as file:
        json.dump({"unheard-of-1": {"input_cost_per_token": 1e-3, "output_cost_per_token": 0}}, file)
    for words in ([], ["--prices", prices]):
        own = Server(log, words)
        rows = json.loads(run("usage", log, "--by", "session", "--json", *words).stdout)["rows"]
        listed = {s["session"]: s for s in own.data("sessions")["sessions"]}
        assert sorted(listed) == [r["session"] for r in sorted(rows, key=lambda r: r["session"])]
        for row in rows:
            s = listed[row["session"]]
            got = s["tokens"], s["cost"], s["unpriced_answers"]
            assert got == (row["total_tokens"], row["cost"], row["unpriced_answers"]), (got, row)
        if not words:
            assert listed["s1"]["cost"] is None and listed["s2"]["unpriced_answers"] == 1
        assert own.end() == (0, "")
    bad = run("serve", log, "--prices", log + ".jsonl")
    assert bad.returncode == 1 and b"prices by model" in bad.stderr, bad


@test
def search_finds_what_the_command_finds():
    lines = run("search", LOG, "limit=77", "--json").stdout.splitlines()
    found = server.data("search", query="limit=77")["messages"]
    assert len(found) == len(lines) == 1, (found, lines)
    assert "limit=77" in found[0]["text"]


@test
def session_is_the_data_of_a_report():
    name = server.data("sessions", limit=1)["sessions"][0]["session"]
    answer = server.data("session", name=name)
    messages = texts_of(answer["page"])
    assert len(messages) == 4 and "requests" not in answer["page"]["runs"][0]["sessions"][0]
    again = server.data("session", message=messages[2][0], requests=1)
    assert texts_of(again["page"]) == messages
    assert len(again["page"]["runs"][0]["sessions"][0]["requests"]) > 3
    assert server.data("session", name=name, hash=answer["hash"]) == {
        "hash": answer["hash"], "page": None}
    few = server.data("session", name=name, limit=1)["page"]
    assert texts_of(few) == messages[-1:]
    assert few["runs"][0]["sessions"][0]["skipped"] == 3
    back = server.data("session", message=messages[1][0], limit=1)["page"]
    assert texts_of(back) == messages[1:], "a message that was named is left out"
    other = server.data("sessions", limit=2)["sessions"][1]["session"]
    both = server.data("session", message=messages[1][0], name=other)["page"]
    assert texts_of(both) == messages, "the name of another session comes first"
    gone = server.data("session", message=99999999, name=name)["page"]
    assert texts_of(gone) == messages, "a message that is gone hides the session"


@test
def wrong_arguments_are_named():
    for path, status, word in (
            ("session", 400, "name"), ("session?name=nobody", 404, "nobody"),
            ("session?message=99999999", 404, "99999999"), ("session?message=x", 400, "message"),
            ("session?name=a&limit=0", 400, "limit"), ("search", 400, "query"),
            ("search?query=", 400, "query"), ("sessions?cursor=1:2:3", 400, "cursor"),
            ("sessions?since=gestern", 400, "since"), ("sessions?limit=-1", 400, "limit")):
        got, headers, body = server.ask(path)
        assert got == status and word in json.loads(body)["error"], (path, got, body)
        assert headers["Content-Type"].startswith("application/json")


@test
def secrets_are_masked_unless_they_are_asked_for():
    with open(os.path.join(FOLDER, "secrets")) as file:
        secrets = file.read().split()
    assert len(secrets) > COUNT
    everything = []
    for s in server.data("sessions", limit=100)["sessions"]:
        everything.append(json.dumps(server.data("session", name=s["session"], requests=1)))
    everything.append(json.dumps(server.data("sessions", limit=100)))
    everything.append(json.dumps(server.data("search", query="token", limit=100)))
    for secret in [s for s in secrets if s.startswith("ghp_")]:
        everything.append(json.dumps(server.data("search", query=secret[:6])))
        everything.append(server.ask("session?name=" + secret)[2].decode())
        if len(everything) > 180:
            break
    whole = "\n".join(everything)
    assert "[masked github-token]" in whole
    told = [s for s in secrets if s in whole]
    assert not told, told[:3]
    shown = Server(words=["--show-secrets"])
    found = shown.data("search", query="limit=77")["messages"]
    data = json.dumps(shown.data("session", message=found[0]["message"]))
    assert any(s in data for s in secrets)
    assert shown.end() == (0, "")


# ---- Requests that get nothing.

def refused(status, path="", raw=False, **more):
    got, headers, body = server.ask(path, raw=raw, **more)
    assert got == status, (got, path, more)
    assert body == b"", body
    return headers


@test
def nothing_leaves_without_the_token():
    token = server.path[1:-1]
    other = ("0" if token[0] != "0" else "1") + token[1:]
    last = token[:-1] + ("0" if token[-1] != "0" else "1")
    for path in ("/", "/sessions", "/" + other + "/", "/" + last + "/state", "//",
                 "/" + token, "/" + token[:-1] + "/", "/" + token + "0/", "/" + token.upper() + "x/",
                 "/?" + token, "/../" + token + "/", "/" + "a" * 32 + "/", "/favicon.ico",
                 "/%00" + token + "/", "/" + "a" * 2000):
        refused(403, path, raw=True)


@test
def paths_lead_nowhere_else():
    for path in ("../../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "..%2fmy.log", "my.log",
                 "/etc/passwd", "sessions/", "sessions/../state", "page.js"):
        got, _, body = server.ask(path)
        assert got == 404 and body == b"", (path, got, body[:80])


@test
def other_hosts_and_origins_get_nothing():
    here = "127.0.0.1:%d" % server.port
    for host in ("evil.example", "evil.example:%d" % server.port, "127.0.0.1", here + "0",
                 "127.0.0.1.evil.example:%d" % server.port, "[::1]:%d" % server.port, "",
                 "0.0.0.0:%d" % server.port, here + "@evil.example"):
        refused(403, "state", headers={"Host": host})
    for hosts in ([here, "evil.example"], ["evil.example", here], [here, here]):
        refused(403, "state", headers={"Host": hosts})
    s = server.socket(b"GET %sstate HTTP/1.0\r\n\r\n" % server.path.encode())
    assert b" 403 " in s.recv(4096).split(b"\r\n")[0], "without a Host"
    s.close()
    for origin in ("http://evil.example", "null", "https://" + here, "http://127.0.0.1",
                   "http://" + here + ".evil.example", "http://127.0.0.1:1"):
        refused(403, "state", headers={"Origin": origin})
    for site in ("cross-site", "same-site", "other"):
        refused(403, "", headers={"Sec-Fetch-Site": site})
    for headers in ({"Host": "localhost:%d" % server.port}, {"Origin": "http://" + here},
                    {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}):
        assert server.ask("state", headers=headers)[0] == 200, headers


@test
def other_methods_are_refused():
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"):
        headers = refused(405, "state", method=method)
        assert headers["Allow"] == "GET, HEAD"
    refused(405, "state", method="POST", body=b"x" * 100000)
    got, headers, body = server.ask("sessions", method="HEAD")
    assert got == 200 and body == b"" and int(headers["Content-Length"]) > 1000
    refused(403, "/", raw=True, method="HEAD")


@test
def only_loopback_listens():
    with open("/proc/net/tcp") as file:
        listening = [l.split()[1] for l in file if " 0A " in l]
    mine = [a for a in listening if int(a.split(":")[1], 16) == server.port]
    assert mine == ["0100007F:%04X" % server.port], mine


# ---- What it bears.

@test
def half_requests_end_in_time():
    whole = b"GET %sstate HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % (server.path.encode(), server.port)
    began = time.monotonic()
    held = [server.socket(), server.socket(b"GET /"), server.socket(whole),
            server.socket(b"POST / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 99\r\n\r\nx"
                          % server.port)]
    drip = server.socket(b"GET /")

    def drop():
        try:
            while True:
                drip.sendall(b"a")
                time.sleep(0.5)
        except OSError:
            pass

    drip.settimeout(SECONDS + 4)
    thread = threading.Thread(target=drop, daemon=True)
    thread.start()
    assert server.ask("state")[0] == 200, "half requests keep others out"
    for s in held:
        while s.recv(4096):
            pass
    assert time.monotonic() - began < IDLE + 4, time.monotonic() - began
    try:
        while drip.recv(4096):
            pass
    except ConnectionResetError:
        pass
    assert time.monotonic() - began < SECONDS + 4, time.monotonic() - began
    thread.join()


@test
def odd_requests_leave_the_server_well():
    for request in (b"\0" * 5000, b"GET", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 1000,
                    b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 5000,
                    b"GET / HTTP/1.1\r\nHost: " + b"h" * 60000 + b"\r\n\r\n",
                    b"GET " + server.path.encode() + b"?" + b"a=b&" * 9000 + b" HTTP/1.1\r\n\r\n",
                    b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                    bytes(range(256)) * 40):
        s = server.socket()
        try:
            s.sendall(request)
            s.shutdown(socket.SHUT_WR)
            answer = s.recv(100)
        except OSError:
            answer = b""
        assert b" 200 " not in answer, (request[:40], answer)
        s.close()
    assert server.ask("state")[0] == 200


@test
def thousands_of_connections_take_bounded_memory():
    server.data("sessions", limit=100)
    start = server.memory()
    n = max(200, int(10000 * SCALE))
    statuses = []

    def many(count):
        for i in range(count):
            good = i % 3 != 0
            got, _, _ = server.ask("state" if good else "/x/", raw=not good)
            if got != (200 if good else 403):
                statuses.append(got)

    threads = [threading.Thread(target=many, args=(n // 8,)) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not statuses, statuses[:5]
    idle = [server.socket() for _ in range(200)]
    for s in idle:
        s.close()
    kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    for _ in range(200):  # of one connection that stays
        kept.request("GET", server.path + "state")
        answer = kept.getresponse()
        assert answer.status == 200 and answer.read()
    kept.close()
    name = server.data("sessions", limit=1)["sessions"][0]["session"]
    for _ in range(200):
        server.data("session", name=name, requests=1)
        assert len(server.ask()[2]) > 100000
    grown = server.memory() - start
    assert grown < 8 << 20, "%d connections took %d bytes" % (n, grown)


@test
def connections_beyond_the_most_wait_for_their_turn():
    request = b"GET %sstate HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % (
        server.path.encode(), server.port)
    for _ in range(10):
        idle = [server.socket() for _ in range(CONNECTIONS)]
        time.sleep(0.05)  # it has all of them
        waiting = [server.socket(request) for _ in range(5)]
        waiting[0].settimeout(0.1)
        try:
            got = waiting[0].recv(1)
        except socket.timeout:
            got = None
        assert got is None, "answered beside %d connections: %r" % (CONNECTIONS, got)
        for s in idle:
            s.close()
        for s in waiting:
            s.settimeout(60)
            assert s.recv(100).startswith(b"HTTP/1.1 200 ")
            s.close()


@test
def answer_that_takes_long_is_whole():
    log = os.path.join(FOLDER, "long.log")
    with open(log + ".jsonl", "w") as file:
        for i in range(16):
            file.write(json.dumps({"type": "user_message", "location": "l",
                                   "content": "%d " % i + "word " * 200000}) + "\n")
    run("import", log, log + ".jsonl", "--from", "framework")
    own = Server(log)
    path = "%ssession?name=l" % own.path
    for wait in 0.3, 0.1, 0.03, 0.01, 0.003:
        connection = http.client.HTTPConnection("127.0.0.1", own.port, timeout=60)
        connection.request("GET", path)
        time.sleep(wait)      # it makes the answer
        own.process.send_signal(signal.SIGSTOP)
        making = not select.select([connection.sock], [], [], 0.05)[0]
        if making:
            time.sleep(SECONDS + 2)
        own.process.send_signal(signal.SIGCONT)
        if making:
            break             # otherwise it was already sending
        connection.close()
    assert making
    answer = connection.getresponse()
    assert answer.status == 200
    data = json.loads(answer.read())["data"]
    assert len(texts_of(data["page"])) == 16
    connection.close()
    assert own.end() == (0, "")


@test
def readers_that_do_not_read_hold_no_memory_for_ever():
    path = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % (server.path.encode(), server.port)
    start = server.memory()
    held = [server.socket(path * 50) for _ in range(30)]
    time.sleep(0.5)
    assert server.memory() - start < 64 << 20, server.memory() - start
    assert server.ask("state")[0] == 200
    for s in held:
        s.close()


# ---- The log.

@test
def appended_messages_and_changes_are_seen():
    log = os.path.join(FOLDER, "grows.log")
    shutil.copy(LOG, log)
    own = Server(log)
    state = own.data("state")
    assert own.data("state") == state and state["log"] == "grows.log"
    name = own.data("sessions", limit=1)["sessions"][0]["session"]
    first = own.data("session", name=name)
    message = {"type": "user_message", "content": "a late word", "location": name}
    subprocess.run([TOOL, "append", log], input=json.dumps(message).encode(), check=True,
                   stdout=subprocess.DEVNULL)
    later = own.data("state")
    assert later["state"] != state["state"]
    second = own.data("session", name=name, hash=first["hash"])
    assert second["page"] and texts_of(second["page"])[-1][1] == "a late word"
    n = texts_of(second["page"])[-1][0]
    assert own.data("search", query="a late word")["messages"][0]["message"] == n
    assert run("hide", log, str(n)).returncode == 0
    assert own.data("state")["state"] != later["state"], "a change is not seen"
    assert own.data("session", name=name, hash=second["hash"])["page"]
    assert own.data("search", query="a late word")["messages"] == []
    assert own.end() == (0, "")


@test
def log_that_is_replaced_or_gone_is_no_crash():
    log = os.path.join(FOLDER, "gone.log")
    shutil.copy(LOG, log)
    own = Server(log)
    state = own.data("state")
    os.rename(log, log + ".old")
    got, _, body = own.ask("state")
    assert got == 404 and "gone.log" in json.loads(body)["error"], (got, body)
    run("import", log, "tools/demo.jsonl")
    assert own.data("state") != state
    assert own.data("sessions")["matched"] == 1
    with open(log, "wb") as file:
        file.write(b"no log at all")
    got, _, body = own.ask("sessions")
    assert got == 400 and "no log" in json.loads(body)["error"], (got, body)
    assert own.end() == (0, "")


@test
def damage_is_a_warning_beside_the_data():
    log = os.path.join(FOLDER, "damaged.log")
    shutil.copy(LOG, log)
    found = server.data("search", query="limit=60")["messages"][0]["message"]
    with open(log, "r+b") as file:
        data = file.read()
        at = data.index(b"limit=60 ")
        file.seek(at)
        file.write(b"\xff\xff\xff\xff")
    own = Server(log)
    answer = own.get("session", message=found - 1)
    told = answer.get("warning", "") + str(answer["data"]["page"]["runs"][0]["damaged"])
    assert told != "0", answer
    own.process.send_signal(signal.SIGTERM)
    own.process.communicate()


@test
def two_logs_have_two_servers_and_two_tokens():
    log = os.path.join(FOLDER, "two.log")
    run("import", log, "tools/demo.jsonl")
    other = Server(log)
    assert other.path != server.path and other.port != server.port
    assert other.data("sessions")["matched"] == 1
    got, _, body = other.ask(server.path + "state", raw=True)
    assert got == 403 and body == b""
    assert server.data("sessions")["matched"] == COUNT
    assert other.end(signal.SIGINT) == (0, "")


@test
def log_is_the_usual_one_when_none_is_named():
    own = Server(None, env={**os.environ, "MSGSTORE_LOG": LOG})
    assert own.data("state")["log"] == "my.log"
    assert own.end(signal.SIGHUP) == (0, "")


@test
def port_is_the_one_that_is_asked_for():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
    taken = run("serve", LOG, "--port", str(port))
    assert taken.returncode == 1 and b"port %d" % port in taken.stderr, taken
    s.close()
    own = Server(words=["--port", str(port)])
    assert own.port == port
    assert own.end() == (0, "")


@test
def browser_is_opened_with_the_url_and_no_browser_is_no_error():
    tools = os.path.join(FOLDER, "bin")
    os.mkdir(tools)
    opened = os.path.join(FOLDER, "opened")
    with open(os.path.join(tools, "xdg-open"), "w") as file:
        file.write('#!/bin/sh\necho "$1" >%s.new; mv %s.new %s\n' % (opened, opened, opened))
    os.chmod(os.path.join(tools, "xdg-open"), 0o755)
    own = Server(words=["--open"], env={**os.environ, "PATH": tools + ":/bin:/usr/bin"})
    for _ in range(200):
        if os.path.exists(opened):
            break
        time.sleep(0.05)
    with open(opened) as file:
        assert file.read() == own.url + "\n"
    assert own.end() == (0, "")
    own = Server(words=["--open"], env={**os.environ, "PATH": "/nonexistent"})
    assert own.data("state")["log"] == "my.log"
    time.sleep(0.3)
    code, said = own.end()
    assert code == 0 and "xdg-open" in said, (code, said)


@test
def log_is_unchanged_when_the_server_ends():
    assert server.end() == (0, "")
    assert digest(LOG) == before


for process in started:       # of tests that failed
    if process.poll() is None:
        process.kill()
        process.wait()
sys.exit(1 if failed else 0)
