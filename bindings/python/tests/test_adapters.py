"""Each adapter with the package that it serves."""

import asyncio
import importlib
import json
import os
import pathlib
import subprocess
import sys
import threading
import warnings

import pytest

import msgstore


def run(coroutine):
    return asyncio.run(coroutine)


def adapter(name):
    return importlib.import_module(f"msgstore.adapters.{name}")


def framework(store):
    return adapter("framework").MessageStore(store)


# ---- What the package declares

def test_declared_versions_are_the_oldest_that_are_tested():
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    package = pathlib.Path(__file__).parent.parent
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    declared = [one for group in project["optional-dependencies"].values() for one in group]
    oldest = (package / "requirements-oldest.txt").read_text().splitlines()
    assert len(declared) == 6
    for one in declared:
        assert one.replace(">=", "==") in oldest


# ---- OpenAI Agents SDK

def test_openai_session_keeps_the_protocol(store):
    pytest.importorskip("agents")
    from agents.memory.session import Session

    from msgstore.adapters.openai_agents import MsgstoreSession

    session = MsgstoreSession(store, "chat")
    assert isinstance(session, Session)
    items = [{"role": "user", "content": "hi"},
             {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{\"a\":1}"},
             {"type": "function_call_output", "call_id": "c", "output": "42"},
             {"type": "reasoning", "id": "r", "summary": []},
             {"type": "message", "role": "assistant", "id": "m", "status": "completed",
              "content": [{"type": "output_text", "text": "done", "annotations": []}]}]

    async def walk():
        await session.add_items([])
        await session.add_items(items[:2])
        await session.add_items(items[2:])
        assert await session.get_items() == items
        assert await session.get_items(limit=2) == items[-2:]
        assert await session.get_items(limit=0) == []
        assert await session.pop_item() == items[-1]
        assert await session.get_items() == items[:-1]
        await session.clear_session()
        assert await session.get_items() == [] and await session.pop_item() is None
        await session.add_items(items[:1])
        assert await session.get_items() == items[:1]

    run(walk())


@pytest.mark.parametrize("arguments", [
    '{"x": NaN}', '{"x": 1e999}', '{"x": "\\ud800"}', "[" * 100000, '{"x": ', "", "3"])
def test_openai_session_keeps_arguments_as_the_model_wrote_them(arguments, store):
    pytest.importorskip("agents")
    item = {"type": "function_call", "name": "f", "call_id": "c", "arguments": arguments}
    session = adapter("openai_agents").MsgstoreSession(store, "chat")
    run(session.add_items([item]))
    assert run(session.get_items()) == [item]
    args = store.query("chat")[0]["args"]
    assert args == ({"value": 3} if arguments == "3" else {"INVALID_JSON": arguments})


def test_openai_session_is_settled_when_a_cancelled_change_returns(store, monkeypatch):
    pytest.importorskip("agents")
    session = adapter("openai_agents").MsgstoreSession(store, "chat")
    items = [{"role": "user", "content": word} for word in ("one", "two")]

    async def cancelled(name, change, *arguments):
        runs, goes_on = threading.Event(), threading.Event()
        write = getattr(store, name)

        def slow(*args, **options):
            runs.set()
            assert goes_on.wait(30)
            return write(*args, **options)

        with monkeypatch.context() as patch:
            patch.setattr(store, name, slow)
            task = asyncio.create_task(change(*arguments))
            await asyncio.to_thread(runs.wait, 30)
            for _ in range(2):
                task.cancel()
                await asyncio.sleep(0.01)
            goes_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task
        return await session.get_items()

    async def main():
        assert await cancelled("append", session.add_items, items) == items
        assert await cancelled("hide", session.pop_item) == items[:1]
        assert await cancelled("rewind", session.clear_session) == []

    run(main())


def test_openai_session_passes_messages_of_other_writers(store):
    pytest.importorskip("agents")
    from msgstore.adapters.openai_agents import MsgstoreSession

    session = MsgstoreSession(store, "chat")
    items = [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]

    async def walk():
        await session.add_items(items)
        store.append({"type": "injected_context", "content": "a note"}, "chat")
        assert await session.get_items(2) == items
        assert await session.pop_item() == items[1]
        assert [m.content for m in store.query("chat")] == ["one", "a note"]
        assert await session.pop_item() == items[0] and await session.pop_item() is None

    run(walk())


def test_openai_runner_uses_the_session(store):
    agents = pytest.importorskip("agents")
    from agents.items import ModelResponse
    from agents.models.interface import Model
    from agents.usage import Usage
    from openai.types.responses import ResponseOutputMessage, ResponseOutputText

    from msgstore.adapters.openai_agents import MsgstoreSession

    seen = []

    class Echo(Model):
        async def get_response(self, system_instructions, input, *args, **kwargs):
            seen.append(input)
            text = ResponseOutputText(type="output_text", text=f"answer {len(seen)}",
                                      annotations=[])
            message = ResponseOutputMessage(id="m", type="message", role="assistant",
                                            status="completed", content=[text])
            usage = Usage(requests=1, input_tokens=3, output_tokens=2, total_tokens=5)
            return ModelResponse(output=[message], usage=usage, response_id=None)

        def stream_response(self, *args, **kwargs):
            raise NotImplementedError

    agents.set_tracing_disabled(True)
    session = MsgstoreSession(store, "chat")
    agent = agents.Agent(name="a", model=Echo())

    async def walk():
        for question in ("one", "two"):
            await agents.Runner.run(agent, question, session=session)

    run(walk())
    assert [m["role"] for m in seen[1]] == ["user", "assistant", "user"]
    assert [(m.type, m.content) for m in store.query("chat")] == [
        ("user_message", "one"), ("assistant_message", "answer 1"),
        ("user_message", "two"), ("assistant_message", "answer 2")]
    assert store.usage("chat")["notes"] == 0  # a session is given items alone


def test_openai_session_survives_its_process(tmp_path):
    pytest.importorskip("agents")
    from msgstore.adapters.openai_agents import MsgstoreSession

    async def add(path, item):
        with msgstore.open(path) as log:
            session = MsgstoreSession(log, "chat")
            await session.add_items([item])
            return await session.get_items()

    for n in range(3):
        found = run(add(tmp_path / "log.msl", {"role": "user", "content": str(n)}))
    assert [item["content"] for item in found] == ["0", "1", "2"]


class Compactions:
    """OpenAI's responses.compact: user messages and one encrypted item, or `output`.
    `meanwhile` is run before it answers."""

    def __init__(self, output=None):
        self.responses, self.asked, self.meanwhile, self.output = self, [], None, output

    async def compact(self, **what):
        from openai._models import construct_type
        from openai.types.responses.compacted_response import CompactedResponse

        self.asked.append(what)
        if self.meanwhile:
            await self.meanwhile()
        n = len(self.asked)
        return construct_type(type_=CompactedResponse, value={
            "id": f"resp_c{n}", "created_at": 1, "object": "response.compaction",
            "output": self.output if self.output is not None else [
                {"id": "msg_u", "type": "message", "role": "user", "status": "completed",
                 "content": [{"type": "input_text", "text": "q", "detail": None}]},
                {"id": f"cmp_{n}", "type": "compaction", "encrypted_content": f"C{n}",
                 "created_by": "x"}],
            "usage": {"input_tokens": 900, "output_tokens": 70, "total_tokens": 970,
                      "input_tokens_details": {"cached_tokens": 0},
                      "output_tokens_details": {"reasoning_tokens": 0}}})


def compacted(n):
    return [{"id": "msg_u", "type": "message", "role": "user", "status": "completed",
             "content": [{"type": "input_text", "text": "q"}]},
            {"id": f"cmp_{n}", "type": "compaction", "encrypted_content": f"C{n}"}]


def said(n):
    return [{"role": "user", "content": f"q{n}"},
            {"type": "message", "role": "assistant", "id": f"m{n}", "status": "completed",
             "content": [{"type": "output_text", "text": f"a{n}", "annotations": []}]}]


def test_openai_session_passes_over_compactions_that_do_not_say_what_they_keep(store):
    pytest.importorskip("agents")
    from msgstore.adapters.openai_agents import MsgstoreSession

    session = MsgstoreSession(store, "chat")
    run(session.add_items(said(1)))
    last = store.query("chat")[-1].seq
    for made in (None, {}, {"keep": "1"}, {"keep": -1}, {"keep": True}, {"keep": None}):
        more = {} if made is None else {"compaction": made}
        store.append({"type": "compaction", "content": "S", **more}, "chat")
        assert run(session.get_items()) == said(1), made
        store.rewind("chat", last)
    for plain, text in ((True, "S"), (False, "<conversation_summary>\nS\n"
                                             "</conversation_summary>")):
        store.append({"type": "compaction", "content": "S",
                      "compaction": {"keep": 1, "plain": plain}}, "chat")
        assert run(session.get_items()) == [{"role": "user", "content": text}, said(1)[1]]
        store.rewind("chat", last)


def test_openai_session_compacts_and_keeps_all(store):
    agents = pytest.importorskip("agents")
    from agents.memory import OpenAIResponsesCompactionAwareSession
    from agents.usage import Usage

    from msgstore.adapters.openai_agents import MsgstoreCompactionSession, MsgstoreSession

    client = Compactions()
    session = MsgstoreCompactionSession(store, "chat", client=client, model="gpt-5.1")
    assert isinstance(session, OpenAIResponsesCompactionAwareSession)
    assert agents.is_openai_responses_compaction_aware_session(session)
    assert not agents.is_openai_responses_compaction_aware_session(
        MsgstoreSession(store, "chat"))
    history = [item for n in range(9) for item in said(n)]
    wrapper = agents.RunContextWrapper(None, usage=Usage())

    async def walk():
        await session.run_compaction({"force": True})  # nothing is there
        await session.add_items(history)
        await session.run_compaction({"response_id": "r"})  # nine candidates
        assert client.asked == [] and await session.get_items() == history
        await session.add_items(said(9))
        await session.run_compaction({"response_id": "r", "store": True}, wrapper=wrapper)
        assert client.asked == [{"model": "gpt-5.1", "input": history + said(9)}]
        assert await session.get_items() == compacted(1)
        await session.add_items(said(10))
        assert await session.get_items() == compacted(1) + said(10)
        assert await session.get_items(2) == said(10)
        assert await session.get_items(3) == compacted(1)[1:] + said(10)
        plain = MsgstoreSession(store, "chat")
        assert await plain.get_items() == compacted(1) + said(10)

    run(walk())
    assert wrapper.usage.input_tokens == 900 and store.usage("chat")["output_tokens"] == 70
    assert [m.content for m in store.query("chat", types=["user_message"])] == [
        f"q{n}" for n in range(11)]
    made = store.query("chat", types=["compaction"])[0]
    assert made["compaction"]["cause"] == "auto"
    assert made["signed"] == {"provider": "openai-responses", "model": "gpt-5.1"}
    body = store.request("chat", "openai-responses", model="gpt-5.1")
    assert body["input"][:2] == compacted(1) and body.report["compacted"] == 20
    store.hide(made.seq)
    assert run(session.get_items()) == history + said(9) + said(10)


def test_openai_session_waits_for_results_before_it_compacts(store):
    pytest.importorskip("agents")
    from msgstore.adapters.openai_agents import MsgstoreCompactionSession

    client = Compactions()
    session = MsgstoreCompactionSession(store, "chat", client=client)
    call = {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}",
            "_agents_tool_title": "F"}
    result = {"type": "function_call_output", "call_id": "c", "output": "42"}
    ask = {"type": "mcp_approval_request", "id": "a", "name": "f", "arguments": "{}",
           "server_label": "s"}
    search = {"type": "web_search_call", "id": "w", "status": "completed"}

    async def walk():
        for item, open_ in ((call, True), (result, False), (ask, True),
                            ({"type": "mcp_approval_response", "approval_request_id": "a",
                              "approve": True}, False), (search, False)):
            await session.add_items([item])
            count = len(client.asked)
            await session.run_compaction({"force": True})
            assert len(client.asked) == count + (not open_), item["type"]
        assert "_agents_tool_title" not in client.asked[0]["input"][0]
        with pytest.raises(ValueError):
            await session.run_compaction({"compaction_mode": "previous_response_id"})
        await session.run_compaction({"compaction_mode": "previous_response_id",
                                      "response_id": "r", "force": True})
        assert client.asked[-1] == {"model": "gpt-4.1", "previous_response_id": "r"}

    run(walk())


def test_openai_session_takes_any_output(store):
    pytest.importorskip("agents")
    from msgstore.adapters.openai_agents import MsgstoreCompactionSession

    answer = said(0)[1]
    reasoning = {"type": "reasoning", "id": "r", "summary": []}
    bare = {name: value for name, value in answer.items() if name != "id"}

    async def walk():
        for n, (output, found) in enumerate((([answer], [bare]),
                                             ([reasoning, answer], [reasoning, answer]))):
            client = Compactions(output)
            session = MsgstoreCompactionSession(store, f"chat {n}", client=client)
            await session.add_items(said(0))
            await session.run_compaction({"force": True})
            assert await session.get_items() == found
            client.output = []
            with pytest.raises(msgstore.ArgumentError):
                await session.run_compaction({"force": True})
            assert await session.get_items() == found

    run(walk())


def test_openai_session_changes_while_it_compacts(store):
    pytest.importorskip("agents")
    from msgstore.adapters.openai_agents import MsgstoreCompactionSession

    client = Compactions()
    session = MsgstoreCompactionSession(store, "chat", client=client)

    async def walk():
        await session.add_items(said(0))
        client.meanwhile = lambda: session.add_items(said(1))
        await session.run_compaction({"force": True})
        assert await session.get_items() == compacted(1) + said(1)
        client.meanwhile = session.pop_item  # an item that is kept
        await session.run_compaction({"force": True})
        assert client.asked[-1]["input"] == compacted(1) + said(1)  # what is sent again
        left = compacted(1) + said(1)[:1]
        assert await session.get_items() == left
        other = MsgstoreCompactionSession(store, "chat", client=Compactions())
        await session.add_items(said(2)[:1])
        store.append({"type": "injected_context", "content": "a note"}, "chat")
        left += said(2)[:1]
        for pop in (session.pop_item, other.pop_item):  # an item, one of the compaction
            client.meanwhile = pop
            await session.run_compaction({"force": True})
            left = left[:-1]
            assert await session.get_items() == left
        client.meanwhile = session.clear_session
        await session.run_compaction({"force": True})
        assert await session.get_items() == []

    run(walk())


@pytest.mark.parametrize("change, found", [
    (lambda other: other.add_items(said(1)), compacted(1) + said(1)),
    (lambda other: other.pop_item(), said(0)[:1]),
    (lambda other: other.run_compaction({"force": True}), compacted(7)),
])
def test_openai_session_compares_what_is_there_with_its_compaction(change, found, store,
                                                                   monkeypatch):
    """What changes before the last step of a compaction."""
    pytest.importorskip("agents")
    from msgstore.adapters.openai_agents import MsgstoreCompactionSession

    session = MsgstoreCompactionSession(store, "chat", client=Compactions())
    other = MsgstoreCompactionSession(store, "chat", client=Compactions(compacted(7)))
    run(session.add_items(said(0)))
    write = store.append

    def append(*args, **options):
        monkeypatch.setattr(store, "append", write)
        run(change(other))
        return write(*args, **options)

    monkeypatch.setattr(store, "append", append)
    run(session.run_compaction({"force": True}))
    assert run(session.get_items()) == found


def test_openai_session_pops_what_was_compacted(store):
    pytest.importorskip("agents")
    from msgstore.adapters.openai_agents import MsgstoreCompactionSession

    client = Compactions()
    session = MsgstoreCompactionSession(store, "chat", client=client)

    async def walk():
        await session.add_items(said(0))
        client.meanwhile = lambda: session.add_items(said(1))
        await session.run_compaction({"force": True})
        await session.add_items(said(2))
        store.append({"type": "injected_context", "content": "a note"}, "chat")
        whole = compacted(1) + said(1) + said(2)
        while whole:
            assert await session.get_items() == whole
            assert await session.pop_item() == whole.pop()
        assert await session.get_items() == [] and await session.pop_item() is None
        await session.add_items(said(3))
        assert await session.get_items() == said(3)

    run(walk())


def compacted_log(log, count):
    """Makes a session whose items are all in a compaction but for the newest one."""
    items = [{"role": "user", "content": str(n)} for n in range(count)]
    run(adapter("openai_agents").MsgstoreSession(log, "chat").add_items(items))
    log.compact("chat", "openai-responses", count - 1, items=items[:-1], model="m")
    return items


def test_openai_session_pops_an_item_of_a_compaction_once(store, monkeypatch):
    pytest.importorskip("agents")
    first, second = (adapter("openai_agents").MsgstoreSession(store, "chat")
                     for _ in range(2))
    items = compacted_log(store, 9)
    assert run(first.pop_item()) == items.pop()
    for meanwhile in (lambda: run(second.pop_item()),
                      lambda: run(second.add_items([{"role": "user", "content": "new"}])),
                      lambda: run(second.clear_session())):
        write, found = store.append, []

        def append(*args, **options):
            monkeypatch.setattr(store, "append", write)  # it has read what is there
            found.append(meanwhile())
            return write(*args, **options)

        monkeypatch.setattr(store, "append", append)
        popped = run(first.pop_item())
        if found[0]:
            assert [found[0], popped] == [items.pop(), items.pop()]
        else:
            assert popped in ({"role": "user", "content": "new"}, None)
        if popped:
            assert run(first.get_items()) == items and len(items) == 6
        else:
            assert run(first.get_items()) == []


POPS = """
import asyncio, json, sys
import msgstore
from msgstore.adapters.openai_agents import MsgstoreSession

async def main():
    with msgstore.open(sys.argv[1], shared=True) as log:
        session = MsgstoreSession(log, "chat")
        print("ready", flush=True)
        sys.stdin.read(1)
        while item := await session.pop_item():
            print(json.dumps(item), flush=True)

asyncio.run(main())
"""


def test_openai_sessions_of_processes_and_threads_pop_each_item_once(tmp_path):
    pytest.importorskip("agents")
    path = tmp_path / "log.msl"
    with msgstore.open(path, shared=True) as log:
        items = compacted_log(log, 120)
        others = [subprocess.Popen([sys.executable, "-c", POPS, path], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                  for _ in range(2)]
        assert all(other.stdout.readline() == "ready\n" for other in others)
        found = []

        async def pops():
            session = adapter("openai_agents").MsgstoreSession(log, "chat")
            while item := await session.pop_item():
                found.append(item)

        threads = [threading.Thread(target=run, args=(pops(),)) for _ in range(2)]
        for other in others:
            other.stdin.write("g")
            other.stdin.flush()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for other in others:
            found += map(json.loads, other.communicate()[0].splitlines())
            assert other.returncode == 0
        assert sorted(int(item["content"]) for item in found) == list(range(len(items)))
        assert run(adapter("openai_agents").MsgstoreSession(log, "chat").get_items()) == []


def test_openai_session_reads_a_summary(store):
    pytest.importorskip("agents")
    from msgstore.adapters.openai_agents import MsgstoreSession

    session = MsgstoreSession(store, "chat")
    run(session.add_items(said(0) + said(1)))
    store.compact("chat", "openai", 2, summary="They spoke.")
    store.compact("chat", "openai", 3, summary="of ann", agent_key="ann")
    store.compact("chat", "anthropic", 3, items=[{"type": "compaction", "content": None}])
    summary = "<conversation_summary>\nThey spoke.\n</conversation_summary>"
    assert run(session.get_items()) == [{"role": "user", "content": summary}] + said(1)
    assert run(session.get_items(1)) == said(1)[1:]


def test_openai_runner_compacts_the_session(store):
    agents = pytest.importorskip("agents")
    from agents.items import ModelResponse
    from agents.memory import OpenAIResponsesCompactionSession
    from agents.models.interface import Model
    from agents.usage import Usage
    from openai.types.responses import ResponseOutputMessage, ResponseOutputText

    from msgstore.adapters.openai_agents import MsgstoreCompactionSession, MsgstoreSession

    class Echo(Model):
        async def get_response(self, system_instructions, input, *args, **kwargs):
            seen.append(input)
            text = ResponseOutputText(type="output_text", text="a", annotations=[])
            message = ResponseOutputMessage(id=f"m{len(seen)}", type="message",
                                            role="assistant", status="completed",
                                            content=[text])
            return ModelResponse(output=[message], usage=Usage(), response_id="r")

        def stream_response(self, *args, **kwargs):
            raise NotImplementedError

    agents.set_tracing_disabled(True)
    agent = agents.Agent(name="a", model=Echo())

    def three(context):
        return len(context["compaction_candidate_items"]) >= 3

    client = Compactions()
    ours = MsgstoreCompactionSession(store, "ours", client=client,
                                     should_trigger_compaction=three)
    theirs = OpenAIResponsesCompactionSession(  # ours below the SDK's own
        "theirs", MsgstoreSession(store, "theirs"), client=Compactions(),
        compaction_mode="input", should_trigger_compaction=three)
    for session, stored in ((ours, 9), (theirs, 4)):
        seen = []

        async def walk():
            for n in range(4):
                await agents.Runner.run(agent, f"q{n}", session=session)

        run(walk())
        if session is theirs:  # SDKs before 0.9 or so send it
            seen[3][1].pop("created_by", None)
        assert seen[3][1:] == compacted(1)[1:] + [{"role": "user", "content": "q3"}]
        assert len(store.query(session.session_id)) == stored
    assert len(client.asked) == 1 and len(client.asked[0]["input"]) == 6


# ---- LangChain

@pytest.mark.parametrize("package, module, name, arguments", [
    ("agents", "openai_agents", "MsgstoreSession", ("chat", None)),
    ("langchain_core", "langchain", "MsgstoreChatMessageHistory", ("chat", None)),
    ("agent_framework", "agent_framework", "MsgstoreHistoryProvider", ("chat",)),
    ("google.adk", "adk", "MsgstoreSessionService", ("chat",)),
    ("json", "framework", "MessageStore", ("chat",)),
])
def test_adapters_refuse_what_is_no_store(package, module, name, arguments):
    pytest.importorskip(package)
    adapter = getattr(importlib.import_module(f"msgstore.adapters.{module}"), name)
    with pytest.raises(msgstore.ArgumentError, match="msgstore.Store was expected"):
        adapter(*arguments)


@pytest.mark.parametrize("package, call", [
    ("agents", lambda store: adapter("openai_agents").MsgstoreSession(store, None)),
    ("langchain_core",
     lambda store: adapter("langchain").MsgstoreChatMessageHistory(store, None)),
    ("pydantic_ai", lambda store: adapter("pydantic_ai").load(store, None)),
    ("json", lambda store: framework(store).get_conversation_messages(None)),
    ("json", lambda store: framework(store).get_agent_messages(None, "a")),
    ("json", lambda store: framework(store).get_global_messages(None)),
    ("json", lambda store: framework(store).get_team_messages(None, ["a"])),
])
def test_adapters_refuse_none_for_a_location(package, call, store):
    """To a query it is every location: one session would have the items of all."""
    pytest.importorskip(package)
    store.append(msgstore.user("of another one"), "chat")
    with pytest.raises(msgstore.ArgumentError) as caught:
        call(store)
    assert str(caught.value) == "the location is None, a string was expected"
    assert caught.value.code == "E_KIND"


def write_agents(log, words):
    session = adapter("openai_agents").MsgstoreSession(log, "l")
    run(session.add_items([{"role": "user", "content": word} for word in words]))
    return lambda log: run(adapter("openai_agents").MsgstoreSession(log, "l").get_items())


def write_langchain(log, words):
    from langchain_core.messages import HumanMessage
    adapter("langchain").MsgstoreChatMessageHistory(log, "l").add_messages(
        [HumanMessage(word) for word in words])
    return lambda log: adapter("langchain").MsgstoreChatMessageHistory(log, "l").messages


def write_pydantic_ai(log, words):
    from pydantic_ai.messages import ModelRequest, UserPromptPart
    adapter("pydantic_ai").save(log, "l", [ModelRequest([UserPromptPart(word)])
                                           for word in words])
    return lambda log: adapter("pydantic_ai").load(log, "l")


def write_agent_framework(log, words):
    from agent_framework import Message
    run(adapter("agent_framework").MsgstoreHistoryProvider(log).save_messages(
        "l", [Message("user", [word]) for word in words]))
    return lambda log: run(
        adapter("agent_framework").MsgstoreHistoryProvider(log).get_messages("l"))


def write_adk(log, words):
    from google.adk.events.event import Event
    from google.genai import types
    name = {"app_name": "a", "user_id": "u", "session_id": "s"}

    async def write():
        service = adapter("adk").MsgstoreSessionService(log)
        session = await service.create_session(**name)
        for word in words:
            await service.append_event(session, Event(author="user", content=types.Content(
                role="user", parts=[types.Part(text=word)])))

    run(write())
    return lambda log: run(
        adapter("adk").MsgstoreSessionService(log).get_session(**name)).events


def write_langgraph(log, words):
    store = adapter("langgraph").MsgstoreStore(log)
    for word in words:
        store.put(("n",), word, {"a": 1})
    return lambda log: adapter("langgraph").MsgstoreStore(log).search(("n",), limit=99)


@pytest.mark.parametrize("package, write", [
    ("agents", write_agents), ("langchain_core", write_langchain),
    ("pydantic_ai", write_pydantic_ai), ("agent_framework", write_agent_framework),
    ("google.adk", write_adk), ("langgraph", write_langgraph),
])
def test_adapters_warn_of_unreadable_records(package, write, tmp_path):
    pytest.importorskip(package)
    path = tmp_path / "log.msl"
    with msgstore.open(path) as log:
        read = write(log, [f"message {n}" for n in range(50)])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(read(log)) == 50
    path.write_bytes(path.read_bytes().replace(b"message 20", b"message 2x"))
    with pytest.warns(RuntimeWarning, match="log.msl.*verify"):
        log = msgstore.open(path)
    with log, pytest.warns(RuntimeWarning, match="are unreadable: messages may be missing"):
        assert len(read(log)) == 49


def test_openai_session_refuses_what_is_no_item(store):
    pytest.importorskip("agents")
    session = adapter("openai_agents").MsgstoreSession(store, "chat")
    for wrong in b"bytes", "text", object(), None:
        with pytest.raises(msgstore.ArgumentError, match=r"^items\[1\] is .*, a dict") as info:
            asyncio.run(session.add_items([{"role": "user", "content": "a"}, wrong]))
        assert info.value.path == "items[1]"
    assert asyncio.run(session.get_items()) == []


@pytest.mark.parametrize("package, write", [
    ("agents", write_agents), ("langchain_core", write_langchain),
    ("agent_framework", write_agent_framework),
])
def test_adapters_warn_of_messages_without_items(package, write, tmp_path):
    pytest.importorskip(package)
    with msgstore.open(tmp_path / "log.msl") as log:
        read = write(log, [f"message {n}" for n in range(5)])
        seqs = [message.seq for message in log.query()]
        log.amend(seqs[1], msgstore.user("better"))
        log.redact(seqs[3])
        said = f"^2 messages of .* left out, the first is number {seqs[1]}: "
        with pytest.warns(RuntimeWarning, match=said):
            assert len(read(log)) == 3


def test_langchain_history(store):
    pytest.importorskip("langchain_core")
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.messages import (AIMessage, HumanMessage, SystemMessage,
                                         ToolMessage)

    from msgstore.adapters.langchain import MsgstoreChatMessageHistory

    history = MsgstoreChatMessageHistory(store, "chat")
    assert isinstance(history, BaseChatMessageHistory)
    messages = [SystemMessage("rules"), HumanMessage("hi", id="h"),
                AIMessage("", tool_calls=[{"name": "f", "args": {"x": 1}, "id": "c"}]),
                ToolMessage("7", tool_call_id="c"),
                AIMessage([{"type": "text", "text": "seven"}])]
    history.add_messages(messages)
    assert history.messages == messages
    history.add_user_message("more")
    assert run(history.aget_messages())[-1] == HumanMessage("more")
    run(history.aadd_messages([AIMessage("ok")]))
    assert len(history.messages) == 7
    assert [m.type for m in store.query("chat")][:5] == [
        "injected_context", "user_message", "assistant_message", "action", "observation"]
    roles = [m["role"] for m in store.request("chat", "openai", model="m")["messages"]]
    assert roles.count("tool") == 1
    history.clear()
    assert history.messages == []


def test_langchain_usage_is_noted(store):
    pytest.importorskip("langchain_core")
    from langchain_core.messages import AIMessage, HumanMessage

    from msgstore.adapters.langchain import MsgstoreChatMessageHistory

    history = MsgstoreChatMessageHistory(store, "chat")
    messages = [HumanMessage("hi"), AIMessage(
        "", tool_calls=[{"name": "f", "args": {}, "id": "c"}],
        response_metadata={"model_name": "m-1"},
        usage_metadata={"input_tokens": 10, "output_tokens": 4, "total_tokens": 14,
                        "input_token_details": {"cache_read": 6, "cache_creation": 1},
                        "output_token_details": {"reasoning": 3}}), AIMessage("free")]
    history.add_messages(messages)
    history.add_messages([])
    assert history.messages == messages
    usage = store.usage("chat")
    assert (usage["notes"], usage["input_tokens"], usage["output_tokens"],
            usage["cached_tokens"], usage["reasoning_tokens"]) == (1, 10, 4, 6, 3)


def test_pydantic_ai_usage_is_noted(store):
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel

    from msgstore.adapters import pydantic_ai as adapter

    agent = Agent(TestModel())

    @agent.tool_plain
    def weather(city: str) -> str:
        return city

    result = agent.run_sync("weather?")
    adapter.save(store, "chat", result.new_messages())
    made = result.usage() if not hasattr(result.usage, "input_tokens") else result.usage
    usage = store.usage("chat")
    assert (usage["notes"], usage["input_tokens"], usage["output_tokens"]) == (
        2, made.input_tokens, made.output_tokens)
    assert made.input_tokens > 0 and made.output_tokens > 0


def test_adk_refuses_a_state_before_it_writes(store):
    pytest.importorskip("google.adk")
    from google.adk.events.event import Event
    from google.adk.events.event_actions import EventActions
    from msgstore.adapters.adk import MsgstoreSessionService

    async def main():
        service = MsgstoreSessionService(store)
        bad = {"app:y": 1, "x": float("nan")}
        with pytest.raises(msgstore.ArgumentError):
            await service.create_session(app_name="a", user_id="u", session_id="s", state=bad)
        made = await service.create_session(app_name="a", user_id="u", session_id="s")
        assert made.state == {}
        event = Event(author="a", actions=EventActions(state_delta=bad))
        with pytest.raises(msgstore.ArgumentError):
            await service.append_event(made, event)
        got = await service.get_session(app_name="a", user_id="u", session_id="s")
        assert got.state == {} and got.events == []

    asyncio.run(main())


def test_adk_time_of_a_session_is_that_of_its_newest_event(store):
    pytest.importorskip("google.adk")
    from google.adk.events.event import Event
    from google.genai import types
    from msgstore.adapters.adk import MsgstoreSessionService

    async def main():
        service = MsgstoreSessionService(store)
        made = await service.create_session(app_name="a", user_id="u", session_id="s")
        await service.append_event(made, Event(
            author="agent", timestamp=1000.123456, content=types.Content(role="model", parts=[
                types.Part(text="I look."),
                types.Part(function_call=types.FunctionCall(id="c", name="f", args={}))])))
        got = await service.get_session(app_name="a", user_id="u", session_id="s")
        listed = await service.list_sessions(app_name="a")
        assert (made.last_update_time, got.last_update_time,
                listed.sessions[0].last_update_time) == (1000.123456,) * 3

    asyncio.run(main())


def test_adk_session_is_as_before_when_an_event_is_not_stored(store):
    pytest.importorskip("google.adk")
    from google.adk.errors.session_not_found_error import SessionNotFoundError
    from google.adk.events.event import Event
    from google.adk.events.event_actions import EventActions
    from msgstore.adapters.adk import MsgstoreSessionService

    async def main():
        service = MsgstoreSessionService(store)
        made = await service.create_session(app_name="a", user_id="u", session_id="s")
        other = object()  # what is temporary is not written, and may be anything
        event = Event(author="a", timestamp=1000, actions=EventActions(
            state_delta={"k": 1, "temp:t": other}))
        assert await service.append_event(made, event) is event
        assert made.state == {"k": 1, "temp:t": other} and made.last_update_time == 1000
        assert event.actions.state_delta == {"k": 1}
        got = await service.get_session(app_name="a", user_id="u", session_id="s")
        assert got.state == {"k": 1} and got.events == [event] == made.events
        for delta in ({"k": float("nan")}, {"k": 2}):
            if delta["k"] == 2:
                await service.delete_session(app_name="a", user_id="u", session_id="s")
            with pytest.raises((msgstore.ArgumentError, SessionNotFoundError)):
                await service.append_event(made, Event(
                    author="a", timestamp=2000, actions=EventActions(state_delta=delta)))
            assert made.state == {"k": 1, "temp:t": other} and made.events == [event]
            assert made.last_update_time == 1000

    asyncio.run(main())


def test_adk_session_is_created_whole_or_not(store, monkeypatch):
    pytest.importorskip("google.adk")
    from msgstore.adapters.adk import MsgstoreSessionService

    name = {"app_name": "a", "user_id": "u", "session_id": "s"}
    state = {"app:a": 1, "user:u": 2, "k": 3}
    calls = 0

    def failing(write):
        def wrapped(*arguments):
            nonlocal calls
            calls += 1
            if calls == fails:
                raise msgstore.StorageError("E_IO", "the disk is full")
            return write(*arguments)
        return wrapped

    async def main():
        service = MsgstoreSessionService(store)
        with pytest.raises(msgstore.StorageError):
            await service.create_session(**name, state=state)
        assert await service.get_session(**name) is None
        assert (await service.list_sessions(app_name="a")).sessions == []

    for name_of_call in ("facts_set", "append"):
        monkeypatch.setattr(store, name_of_call, failing(getattr(store, name_of_call)))
    for fails in (1, 2, 3):
        calls = 0
        asyncio.run(main())
    fails = calls = 0
    made = asyncio.run(MsgstoreSessionService(store).create_session(**name, state=state))
    assert made.state == state and calls == 3


def test_adk_usage_is_noted(store):
    pytest.importorskip("google.adk")
    from google.adk.events.event import Event
    from google.genai import types

    from msgstore.adapters.adk import MsgstoreSessionService

    async def main():
        service = MsgstoreSessionService(store)
        made = await service.create_session(app_name="a", user_id="u", session_id="s")
        await service.append_event(made, Event(
            author="a", content=types.Content(role="model", parts=[types.Part(text="x")]),
            usage_metadata=types.GenerateContentResponseUsageMetadata(
                prompt_token_count=20, candidates_token_count=5, thoughts_token_count=2,
                cached_content_token_count=8)))
        usage = store.usage()
        assert (usage["notes"], usage["input_tokens"], usage["output_tokens"],
                usage["cached_tokens"], usage["reasoning_tokens"]) == (1, 20, 7, 8, 2)

    asyncio.run(main())


def test_langchain_runnable_with_history(store):
    pytest.importorskip("langchain_core")
    from langchain_core.language_models.fake_chat_models import FakeListChatModel
    from langchain_core.runnables.history import RunnableWithMessageHistory

    from msgstore.adapters.langchain import MsgstoreChatMessageHistory

    chain = RunnableWithMessageHistory(
        FakeListChatModel(responses=["one", "two"]),
        lambda session_id: MsgstoreChatMessageHistory(store, session_id))
    config = {"configurable": {"session_id": "chat"}}
    chain.invoke("a", config)
    chain.invoke("b", config)
    assert [m.content for m in store.query("chat")] == ["a", "one", "b", "two"]


# ---- pydantic-ai

def test_pydantic_ai_messages_come_back_equal(store):
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessagesTypeAdapter
    from pydantic_ai.models.test import TestModel

    from msgstore.adapters import pydantic_ai as adapter

    agent = Agent(TestModel(custom_output_text="sunny"))

    @agent.tool_plain
    def weather(city: str) -> str:
        return city

    first = agent.run_sync("weather?")
    adapter.save(store, "chat", first.new_messages())
    loaded = adapter.load(store, "chat")

    def plain(messages):
        return ModelMessagesTypeAdapter.dump_python(messages, mode="json")

    assert plain(loaded) == plain(first.all_messages())
    second = agent.run_sync("and tomorrow?", message_history=loaded)
    adapter.save(store, "chat", second.new_messages())
    assert plain(adapter.load(store, "chat")) == plain(second.all_messages())
    assert "tool" in [m["role"] for m in store.request("chat", "openai", model="m")["messages"]]
    assert adapter.save(store, "chat", []) == []


# ---- Microsoft Agent Framework

def test_agent_framework_provider(store):
    framework = pytest.importorskip("agent_framework")
    from msgstore.adapters.agent_framework import MsgstoreHistoryProvider

    provider = MsgstoreHistoryProvider(store, prefix="maf/")
    assert isinstance(provider, framework.HistoryProvider)
    messages = [framework.Message(role="user", contents=["hi"]),
                framework.Message(role="assistant", contents=[
                    framework.Content.from_function_call("c", "f", arguments={"x": 1})]),
                framework.Message(role="tool", contents=[
                    framework.Content.from_function_result("c", result="7")]),
                framework.Message(role="assistant", contents=["seven"])]

    async def walk():
        assert await provider.get_messages("s") == []
        await provider.save_messages("s", messages)
        found = await provider.get_messages("s")
        assert [m.to_dict() for m in found] == [m.to_dict() for m in messages]
        assert await provider.get_messages("other") == []

    run(walk())
    assert [m.type for m in store.query("maf/s")] == [
        "user_message", "action", "observation", "assistant_message"]


def test_agent_framework_agent_remembers(store):
    framework = pytest.importorskip("agent_framework")
    from msgstore.adapters.agent_framework import MsgstoreHistoryProvider

    seen = []

    class Client(framework.BaseChatClient):
        def _inner_get_response(self, *, messages, stream=False, options=None, **kwargs):
            async def answer():
                seen.append([m.text for m in messages])
                return framework.ChatResponse(messages=[
                    framework.Message(role="assistant", contents=[f"answer {len(seen)}"])])
            return answer()

    agent = framework.Agent(client=Client(),
                            context_providers=[MsgstoreHistoryProvider(store)])

    async def walk():
        session = framework.AgentSession(session_id="s")
        await agent.run("one", session=session)
        await agent.run("two", session=session)

    run(walk())
    assert seen[1] == ["one", "answer 1", "two"]
    assert [m.content for m in store.query("s")] == ["one", "answer 1", "two", "answer 2"]


# ---- Google ADK

def test_adk_sessions(store):
    pytest.importorskip("google.adk")
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.errors.session_not_found_error import SessionNotFoundError
    from google.adk.events.event import Event
    from google.adk.events.event_actions import EventActions
    from google.adk.sessions.base_session_service import GetSessionConfig
    from google.genai import types

    from msgstore.adapters.adk import MsgstoreSessionService

    service = MsgstoreSessionService(store)

    def event(author, text, n, **delta):
        return Event(author=author, timestamp=float(n), invocation_id="i",
                     content=types.Content(role="user", parts=[types.Part(text=text)]),
                     actions=EventActions(state_delta=delta))

    async def walk():
        made = await service.create_session(app_name="a", user_id="u", session_id=" s ",
                                            state={"k": 1, "user:n": 2, "app:z": None})
        assert made.id == "s" and made.state == {"k": 1, "user:n": 2, "app:z": None}
        with pytest.raises(AlreadyExistsError):
            await service.create_session(app_name="a", user_id="u", session_id="s")
        for n in range(4):
            await service.append_event(made, event("user", f"e{n}", n + 1, k=n))
        await service.append_event(made, event("user", "t", 9, **{"temp:x": 1}))
        got = await service.get_session(app_name="a", user_id="u", session_id="s")
        assert [e.content.parts[0].text for e in got.events] == ["e0", "e1", "e2", "e3", "t"]
        assert got.events[0] == made.events[0]
        assert got.state == {"k": 3, "user:n": 2, "app:z": None}
        assert got.last_update_time == 9.0
        newest = await service.get_session(app_name="a", user_id="u", session_id="s",
                                           config=GetSessionConfig(num_recent_events=2))
        assert len(newest.events) == 2
        late = await service.get_session(app_name="a", user_id="u", session_id="s",
                                         config=GetSessionConfig(after_timestamp=3.0))
        assert [e.timestamp for e in late.events] == [3.0, 4.0, 9.0]
        other = await service.create_session(app_name="a", user_id="v")
        assert other.state == {"app:z": None}
        listed = await service.list_sessions(app_name="a")
        assert {s.id for s in listed.sessions} == {"s", other.id}
        assert len((await service.list_sessions(app_name="a", user_id="u")).sessions) == 1
        assert await service.get_user_state(app_name="a", user_id="u") == {"n": 2}
        await service.delete_session(app_name="a", user_id="u", session_id="s")
        assert await service.get_session(app_name="a", user_id="u", session_id="s") is None
        with pytest.raises(SessionNotFoundError):
            await service.append_event(made, event("user", "late", 10))
        again = await service.create_session(app_name="a", user_id="u", session_id="s")
        assert again.events == [] and again.state == {"user:n": 2, "app:z": None}

    run(walk())


def test_adk_grows_with_what_changes(log):
    pytest.importorskip("google.adk")
    from google.adk.events.event import Event
    from google.adk.events.event_actions import EventActions
    from msgstore.adapters.adk import MsgstoreSessionService

    async def main():
        service = MsgstoreSessionService(log)

        async def grown(count, step):
            before = os.path.getsize(log.path)
            for n in range(count):
                await step(n)
            return os.path.getsize(log.path) - before

        def create(n):
            return service.create_session(app_name="a", user_id="u")

        first, second = await grown(200, create), await grown(200, create)
        assert 0 < first + second < 400 * 1000
        listed = await service.list_sessions(app_name="a", user_id="u")
        assert len(listed.sessions) == 400
        big = await service.create_session(app_name="b", user_id="u",
                                           state={"doc": "x" * 20000})
        more = await grown(50, lambda n: service.append_event(big, Event(
            author="a", actions=EventActions(state_delta={"n": n}))))
        assert more < 50 * 2000  # without the 20 kB that did not change
        got = await service.get_session(app_name="b", user_id="u", session_id=big.id)
        assert got.state == {"doc": "x" * 20000, "n": 49}

    asyncio.run(main())


ADK_PROGRAM = """
import asyncio, json, os, signal, sys
import msgstore
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from msgstore import _ffi
from msgstore.adapters.adk import MsgstoreSessionService

call, left = _ffi.call, 0
name = {"app_name": "a", "user_id": "u", "session_id": "s"}

def killed(op, *arguments, **options):
    global left
    result = call(op, *arguments, **options)
    left -= op in ("append", "set_facts", "note", "hide", "rewind")
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return result

async def append():
    service = MsgstoreSessionService(msgstore.open(sys.argv[1]))
    session = await service.get_session(**name) or await service.create_session(**name)
    _ffi.call = killed
    for n in range(len(session.events) + 1, 41):
        states = {"n": n, "app:n": n, "user:n": n, f"k{n % 7}": n, "temp:n": n}
        await service.append_event(session, Event(
            author="a", invocation_id="i", actions=EventActions(state_delta=states)))

async def read():
    with msgstore.open(sys.argv[1]) as log:
        session = await MsgstoreSessionService(log).get_session(**name)
    print(json.dumps([len(session.events), session.state]))

status, most = None, 0
while status != 0:  # it is killed after its first write, then after its second one, ...
    most = left = most + 1
    if os.fork() == 0:
        asyncio.run(append())
        os._exit(0)
    status = os.wait()[1]
    asyncio.run(read())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_adk_event_and_its_states_are_stored_together_when_killed(tmp_path):
    pytest.importorskip("google.adk")
    found = subprocess.run([sys.executable, "-c", ADK_PROGRAM, tmp_path / "log.msl"],
                           stdout=subprocess.PIPE, check=True).stdout.splitlines()
    for n, state in map(json.loads, found):
        last = {f"k{i % 7}": i for i in range(1, n + 1)}
        assert state == {"n": n, "app:n": n, "user:n": n, **last}
    assert n == 40 and len(found) > 5


def test_adk_reads_the_facts_of_0_2(store):
    pytest.importorskip("google.adk")
    from msgstore.adapters.adk import MsgstoreSessionService

    async def main():
        service = MsgstoreSessionService(store)
        store.facts_set('adk["a", "u", "s"]', {"created": 1.0, "updated": 2.0,
                                               "state": {"k": 1, "none": None}})
        store.facts_set('adk-state["a", null]', {"sessions": {"u": ["s"]},
                                                 "state": {"z": 3}})
        got = await service.get_session(app_name="a", user_id="u", session_id="s")
        assert got.state == {"k": 1, "none": None, "app:z": 3}
        assert got.last_update_time == 2.0
        await service.create_session(app_name="a", user_id="u", session_id="t",
                                     state={"app:z": 4, "k": None})
        listed = await service.list_sessions(app_name="a")
        assert sorted((s.id, s.state.get("k"), s.state["app:z"])
                      for s in listed.sessions) == [("s", 1, 4), ("t", None, 4)]
        await service.delete_session(app_name="a", user_id="u", session_id="s")
        listed = await service.list_sessions(app_name="a")
        assert [s.id for s in listed.sessions] == ["t"]

    asyncio.run(main())


def test_adk_changes_the_facts_that_older_versions_wrote(store):
    pytest.importorskip("google.adk")
    from google.adk.events.event import Event
    from google.adk.events.event_actions import EventActions
    from msgstore.adapters import adk

    name = {"app_name": "a", "user_id": "u", "session_id": "s"}
    store.facts_set('adk["a", "u", "s"]', {"created": 1.0, "state:k": [1], "state:old": [1]})
    store.facts_set('adk-state["a", null]', {"state:z": [1], "state": {"first": 1}})
    store.facts_set('adk-state["a", "u"]', {"state:y": [1]})

    async def main():
        service = adk.MsgstoreSessionService(store)
        made = await service.get_session(**name)
        assert made.state == {"k": 1, "old": 1, "app:z": 1, "app:first": 1, "user:y": 1}
        for n in range(3 * adk.CHANGES):
            await service.append_event(made, Event(author="a", actions=EventActions(
                state_delta={"k": n, "app:z": n, "user:y": None, "app:first": 2})))
            got = await service.get_session(**name)
            assert got.state == made.state == {"k": n, "old": 1, "app:z": n, "app:first": 2,
                                               "user:y": None}
            assert len(store.query('adk-state["a", null]')) == n % adk.CHANGES + 1
            service = adk.MsgstoreSessionService(store)  # counts what is there
        assert store.facts('adk["a", "u", "s"]')["state:k"] == [2 * adk.CHANGES - 1]
        await service.delete_session(**name)
        assert store.query('adk-state["a", "u", "s"]') == []
        made = await service.create_session(**name)
        assert made.state == {"app:z": n, "app:first": 2, "user:y": None}

    asyncio.run(main())


def test_adk_sessions_and_states_are_all_kept_when_calls_run_at_once(store):
    pytest.importorskip("google.adk")
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.events.event import Event
    from google.adk.events.event_actions import EventActions

    from msgstore.adapters.adk import MsgstoreSessionService

    service = MsgstoreSessionService(store)
    names = {"app_name": "a", "user_id": "u"}

    async def walk():
        made = await asyncio.gather(*[service.create_session(
            **names, session_id=f"s{n}", state={f"user:k{n}": n}) for n in range(40)])
        await asyncio.gather(*[service.append_event(session, Event(
            author="user", invocation_id="i",
            actions=EventActions(state_delta={f"user:e{n}": n})))
            for n, session in enumerate(made)])
        assert len((await service.list_sessions(**names)).sessions) == 40
        assert len(await service.get_user_state(**names)) == 80
        same = await asyncio.gather(
            *[service.create_session(**names, session_id="same") for _ in range(20)],
            return_exceptions=True)
        assert sum(isinstance(s, AlreadyExistsError) for s in same) == 19
        await asyncio.gather(*[service.delete_session(**names, session_id=s.id)
                               for s in made])
        assert [s.id for s in (await service.list_sessions(**names)).sessions] == ["same"]

    run(walk())


def test_adk_runner_uses_the_service(store):
    pytest.importorskip("google.adk")
    from google.adk.agents import LlmAgent
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.adk.runners import Runner
    from google.genai import types

    from msgstore.adapters.adk import MsgstoreSessionService

    class Echo(BaseLlm):
        async def generate_content_async(self, llm_request, stream=False):
            count = len(llm_request.contents)
            yield LlmResponse(content=types.Content(
                role="model", parts=[types.Part(text=f"saw {count}")]))

    service = MsgstoreSessionService(store)
    runner = Runner(app_name="app", agent=LlmAgent(name="helper", model=Echo(model="echo")),
                    session_service=service)

    async def walk():
        await service.create_session(app_name="app", user_id="u", session_id="s")
        texts = []
        for question in ("one", "two"):
            message = types.Content(role="user", parts=[types.Part(text=question)])
            async for event in runner.run_async(user_id="u", session_id="s",
                                                new_message=message):
                texts.append(event.content.parts[0].text)
        return texts

    assert run(walk()) == ["saw 1", "saw 3"]
    assert len(store) == 4


# ---- the agent framework guide

def test_framework_views_and_memory(store):
    from msgstore.adapters.framework import MessageStore, MessageStoreMemory, SharedMemory

    messages = MessageStore(store)
    messages.add_message("l", {"type": "user_message", "content": "q"})
    messages.add_message("l", {"type": "action", "tool": "f", "args": {}}, "w")
    messages.add_message("l", {"type": "synthesis", "content": "s", "from_manager": "m"}, "m")
    assert [m.type for m in messages.get_conversation_messages("l")] == ["user_message"]
    assert [m.type for m in messages.get_agent_messages("l", "w", limit=5)] == ["action"]
    assert [m.type for m in messages.get_global_messages("l")] == ["synthesis"]
    assert [m.type for m in messages.get_team_messages("l", ["w", "m"])] == [
        "action", "synthesis"]
    assert messages.get_team_messages("l", []) == []

    memory = MessageStoreMemory(messages, location="l", agent_key="w")
    assert [m.type for m in memory.get_history()] == ["user_message", "action", "synthesis"]
    memory.add({"type": "observation", "content": "not kept"})
    assert len(store) == 3

    worker = SharedMemory(messages, "ns", "w")
    manager = SharedMemory(messages, "ns", "m", ["w"])
    worker.add({"type": "observation", "content": "found"})
    worker.broadcast("for all")
    manager.add({"type": "task", "content": "t"})
    assert [m.type for m in worker.get_history()] == ["observation", "global_observation"]
    assert [m.type for m in manager.get_history()] == [
        "task", "observation", "global_observation"]
    worker.add({"type": "assistant_message", "content": "done"})
    assert manager.get_history()[0].type == "assistant_message"
    said = store.request("ns", "openai", agent_key="m", model="m")["messages"][-1]
    assert said["role"] == "user" and said["content"].endswith("[w] done")
