"""Runs the providers' own programs through a compaction and compares what they send with
what msgstore sends for the same conversation: the lists of messages must be equal.

    compacted.py        with MSGSTORE_LIBRARY, the library that the Python package loads

Anthropic's tool runner compacts by `compact_before_next_turn`, and by itself where
`context_management` asks for it; the OpenAI Agents SDK by responses.compact. A server here
answers them and keeps their requests. Prints "ok NAME: N requests", "FAIL NAME: why" or
"skip NAME: why"."""

import asyncio
import json
import pathlib
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "bindings/python"))
import msgstore  # noqa: E402

COMPACTION = {"type": "compaction", "content": "They look at a.txt.", "signature": "SIGN",
              "encrypted_content": "SEALED"}


class Provider(ThreadingHTTPServer):
    """Gives its answers one by one; `asked` has the requests."""

    def __init__(self, answers):
        self.answers, self.asked = list(answers), []
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.append((self.path.split("?")[0], json.loads(body)))
        answer = json.dumps(self.server.answers[len(self.server.asked) - 1]).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def plain(value, text="text"):
    """Returns a value without null members, and text as a list of one part."""
    if isinstance(value, list):
        return [plain(each, text) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: plain(each, text) for name, each in value.items() if each is not None}
    if found.get("role") and found.get("type") == "message":
        del found["type"]
    if isinstance(found.get("content"), str) and found.get("type") != "compaction":
        found["content"] = [{"type": text, "text": found["content"]}]
    return found


def same(what, theirs, ours, text="text"):
    theirs, ours = plain(theirs, text), plain(ours, text)
    if theirs != ours:
        raise AssertionError(f"{what}: they send\n{json.dumps(theirs)}\nmsgstore sends\n"
                             f"{json.dumps(ours)}")


# ---- Anthropic

def message(*content, stop):
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-m",
            "stop_reason": stop, "stop_sequence": None, "content": list(content),
            "usage": {"input_tokens": 9, "output_tokens": 5}}


def anthropic_of(provider):
    from anthropic import Anthropic
    return Anthropic(api_key="k", base_url=provider.url, max_retries=0)


CALL = message({"type": "text", "text": "I look."},
               {"type": "tool_use", "id": "toolu_1", "name": "look",
                "input": {"path": "a.txt"}}, stop="tool_use")
DONE = message({"type": "text", "text": "It has three lines."}, stop="end_turn")


def judge_tool_runner():
    from anthropic import beta_tool

    @beta_tool
    def look(path: str) -> str:
        """Looks at a file."""
        return "one\ntwo\nthree"

    provider = Provider([CALL, message(COMPACTION, stop="compaction"), DONE])
    runner = anthropic_of(provider).beta.messages.tool_runner(
        model="claude-m", max_tokens=100, tools=[look], betas=["compact-2026-09-04"],
        messages=[{"role": "user", "content": "How long is a.txt?"}])
    for n, _ in enumerate(runner):
        if n == 0:
            runner.compact_before_next_turn()
    bodies = [body for _, body in provider.asked]
    assert len(bodies) == 3, f"{len(bodies)} requests"
    how = {"model": "claude-m", "tools": bodies[0]["tools"]}
    with msgstore.open() as store:
        store.append({"type": "user_message", "content": "How long is a.txt?"}, "c")
        same("first", bodies[0]["messages"],
             store.request("c", "anthropic", **how)["messages"])
        store.answer(CALL, "anthropic", "c")
        last = store.append({"type": "observation", "content": "one\ntwo\nthree",
                             "call_id": "toolu_1"}, "c")[0]
        ask = store.compact_request("c", "anthropic", last, prompt="", **how)
        same("compaction", bodies[1]["messages"], ask["messages"])
        assert bodies[1]["compaction"] == ask["compaction"], bodies[1]["compaction"]
        store.compact("c", "anthropic", last, model="claude-m",
                      body=message(COMPACTION, stop="compaction"))
        same("next", bodies[2]["messages"],
             store.request("c", "anthropic", **how)["messages"])
    return len(bodies)


def judge_context_management():
    """The SDK sends all; the server ignores what stands before the newest compaction."""
    made = message(COMPACTION, *DONE["content"], stop="end_turn")
    provider = Provider([made, DONE])
    client, said = anthropic_of(provider), [{"role": "user", "content": "How long is a.txt?"}]
    with msgstore.open() as store:
        store.append({"type": "user_message", "content": said[0]["content"]}, "c")
        for n, answer in enumerate((made, DONE)):
            got = client.beta.messages.create(
                model="claude-m", max_tokens=100, messages=said, betas=["compact-2026-01-12"],
                context_management={"edits": [{"type": "compact_20260112"}]})
            theirs = provider.asked[n][1]["messages"]
            if n:
                theirs = theirs[1:]
            same(f"request {n + 1}", theirs,
                 store.request("c", "anthropic", model="claude-m")["messages"])
            store.answer(answer, "anthropic", "c")
            said = [*said, {"role": "assistant", "content": got.content},
                    {"role": "user", "content": f"And b{n}.txt?"}]
            store.append({"type": "user_message", "content": f"And b{n}.txt?"}, "c")
    return len(provider.asked)


# ---- OpenAI

def response(n, *output):
    return {"id": f"resp_{n}", "object": "response", "created_at": 1, "model": "gpt-m",
            "status": "completed", "output": list(output), "parallel_tool_calls": True,
            "tool_choice": "auto", "tools": [],
            "usage": {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14,
                      "input_tokens_details": {"cached_tokens": 0},
                      "output_tokens_details": {"reasoning_tokens": 0}}}


def says(n, text):
    return {"id": f"msg_{n}", "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}]}


def judge_agents():
    from agents import Agent, OpenAIResponsesModel, Runner, SQLiteSession, function_tool
    from agents import set_tracing_disabled
    from agents.memory import OpenAIResponsesCompactionSession
    from openai import AsyncOpenAI

    set_tracing_disabled(True)

    @function_tool
    def look(path: str) -> str:
        return "three lines"

    calls = response(1, {"id": "fc_1", "type": "function_call", "call_id": "call_1",
                         "name": "look", "arguments": "{\"path\":\"a.txt\"}",
                         "status": "completed"})
    first, second = response(2, says(1, "Three.")), response(3, says(2, "Four."))
    output = [{"id": "msg_u", "type": "message", "role": "user", "status": "completed",
               "content": [{"type": "input_text", "text": "How long is a.txt?"}]},
              {"id": "cmp_1", "type": "compaction", "encrypted_content": "SEALED"}]
    made = {"id": "resp_c", "object": "response.compaction", "created_at": 1,
            "output": output, "usage": first["usage"]}
    provider = Provider([calls, first, made, second])

    async def run():
        client = AsyncOpenAI(api_key="k", base_url=provider.url, max_retries=0)
        agent = Agent(name="a", tools=[look],
                      model=OpenAIResponsesModel(model="gpt-m", openai_client=client))
        session = OpenAIResponsesCompactionSession(
            "s", SQLiteSession("s"), client=client, model="gpt-m", compaction_mode="input",
            should_trigger_compaction=lambda context: False)
        await Runner.run(agent, "How long is a.txt?", session=session)
        await session.run_compaction({"force": True})
        await Runner.run(agent, "And b.txt?", session=session)
    asyncio.run(run())
    asked = provider.asked
    assert [path for path, _ in asked] == ["/responses", "/responses", "/responses/compact",
                                           "/responses"], asked

    def ours():
        return store.request("c", "openai-responses", model="gpt-m")["input"]
    with msgstore.open() as store:
        store.append({"type": "user_message", "content": "How long is a.txt?"}, "c")
        same("first", asked[0][1]["input"], ours(), "input_text")
        store.answer(calls, "openai-responses", "c")
        store.append({"type": "observation", "content": "three lines", "call_id": "call_1"},
                     "c")
        same("second", asked[1][1]["input"], ours(), "input_text")
        last = store.answer(first, "openai-responses", "c")["last_seq"]
        same("compact", asked[2][1]["input"],
             store.compact_request("c", "openai-responses", last, prompt="", model="gpt-m")
             ["input"][:-1], "input_text")
        store.compact("c", "openai-responses", last, items=output, model="gpt-m")
        store.append({"type": "user_message", "content": "And b.txt?"}, "c")
        same("next", asked[3][1]["input"], ours(), "input_text")
    return len(asked)


def main():
    for name, package, judge in (
            ("compaction of anthropic's tool runner", "anthropic", judge_tool_runner),
            ("context_management of anthropic", "anthropic", judge_context_management),
            ("compaction of openai-agents", "agents", judge_agents)):
        try:
            __import__(package)
        except ImportError:
            print(f"skip {name}: {package} is not installed")
            continue
        try:
            print(f"ok {name}: {judge()} requests")
        except Exception as error:
            print(f"FAIL {name}: {type(error).__name__}: {error}")


main()
