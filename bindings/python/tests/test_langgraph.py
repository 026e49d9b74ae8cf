"""Checkpoints and items of LangGraph, beside the package's own savers and stores."""

import asyncio
import base64
import contextlib
import json
import os
import random
import signal
import warnings

import pytest

import msgstore

pytest.importorskip("langgraph.graph")

import langgraph_program  # noqa: E402
import langgraph.checkpoint.base  # noqa: E402
from langgraph.checkpoint.base import WRITES_IDX_MAP, empty_checkpoint  # noqa: E402
from langgraph.checkpoint.memory import InMemorySaver  # noqa: E402
from langgraph.store.base import GetOp, PutOp, SearchOp  # noqa: E402
from langgraph.store.memory import InMemoryStore  # noqa: E402
from langgraph.types import Command  # noqa: E402

from msgstore.adapters.langgraph import MsgstoreSaver, MsgstoreStore  # noqa: E402

def at(thread="t", ns="", key=None):
    inner = {"thread_id": thread, "checkpoint_ns": ns}
    return {"configurable": {**inner, "checkpoint_id": key} if key else inner}


def checkpoint(key, **values):
    made = empty_checkpoint()
    made.update(id=key, channel_values=values,
                channel_versions={name: f"{1:032}.{key}" for name in values})
    return made


def put(saver, key, thread="t", ns="", parent=None, metadata=None, **values):
    made = checkpoint(key, **values)
    return saver.put(at(thread, ns, parent), made, metadata or {}, made["channel_versions"])


def ids(found):
    return [one.config["configurable"]["checkpoint_id"] for one in found]


# ---- The package's own tests.

@pytest.mark.parametrize("capability", ["put", "put_writes", "get_tuple", "list",
                                        "delete_thread", "delete_for_runs", "copy_thread",
                                        "prune"])
def test_conformance(capability, tmp_path):
    conformance = pytest.importorskip("langgraph.checkpoint.conformance")

    @conformance.checkpointer_test(name="MsgstoreSaver")
    async def made():
        with msgstore.open(tmp_path / "log.msl") as log:
            yield MsgstoreSaver(log)

    report = asyncio.run(conformance.validate(made, capabilities={capability}))
    result = report.results[capability]
    assert result.failures == [] and result.tests_passed >= 5


# ---- What is stored.

def test_checkpoint_comes_back_with_equal_bytes(tmp_path):
    from langchain_core.messages import AIMessage, HumanMessage

    values = {"messages": [HumanMessage("q", id="1"), AIMessage("a", id="2")], "raw": b"\0\xff",
              "text": "é\0\U0001f600",
              "set": {1}, "none": None, "deep": {"a": [{"b": (1, 2.5)}]}, "big": 2 ** 60}
    with msgstore.open(tmp_path / "log.msl") as log:
        saver = MsgstoreSaver(log)
        one = checkpoint("1", **values)
        bytes_of = saver.serde.dumps_typed
        config = saver.put(at(), one, {"source": "loop", "step": 2, "own": "é"}, {})
        saver.put_writes(config, list(values.items()), "task")
    with msgstore.open(tmp_path / "log.msl", mode="read") as log:
        found = MsgstoreSaver(log).get_tuple(at())
    assert bytes_of(found.checkpoint) == bytes_of(one)
    assert found.metadata == {"source": "loop", "step": 2, "own": "é"}
    assert {w[1]: bytes_of(w[2]) for w in found.pending_writes} == {
        name: bytes_of(value) for name, value in values.items()}


def test_saver_passes_its_serializer_through(store):
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    class Reversed(JsonPlusSerializer):
        def dumps_typed(self, value):
            kind, data = super().dumps_typed(value)
            return "r" + kind, data[::-1]

        def loads_typed(self, pair):
            return super().loads_typed((pair[0][1:], pair[1][::-1]))

    saver = MsgstoreSaver(store, serde=Reversed())
    put(saver, "1", a="secret")
    assert saver.get_tuple(at()).checkpoint["channel_values"] == {"a": "secret"}
    assert b"secret" not in json.dumps(store.query()).encode()


def test_saver_needs_a_store():
    with pytest.raises(msgstore.ArgumentError):
        MsgstoreSaver("checkpoints.msl")
    with pytest.raises(msgstore.ArgumentError):
        MsgstoreStore("checkpoints.msl")


# ---- Beside the package's saver in memory: any calls, equal answers.

def answers(found):
    return [(one.checkpoint, dict(one.metadata), one.pending_writes,
             one.parent_config and one.parent_config["configurable"]["checkpoint_id"])
            for one in found if one]


def same_order(found):
    """A saver of an older package has the writes of a checkpoint as they came."""
    if hasattr(langgraph.checkpoint.base, "writes_sort_key"):
        return found
    return [(a, b, sorted(map(repr, c or [])), d) for a, b, c, d in found]


@pytest.mark.parametrize("seed", range(int(os.environ.get("MS_TEST_SCALE", "1")) * 20))
def test_saver_answers_as_the_one_in_memory(seed, store):
    pick = random.Random(seed)
    # A second saver of the same store is another program: it has its own memory of what
    # is newest.
    ours, theirs = [MsgstoreSaver(store), MsgstoreSaver(store)], InMemorySaver()
    all_keys, last = {}, 0
    for n in range(120):
        thread, ns = pick.choice("ab"), pick.choice(["", "", "sub:1"])
        saver, keys = pick.choice(ours), all_keys.setdefault((thread, ns), [])
        what = pick.random()
        key = pick.choice(keys) if keys and pick.random() < .5 else None
        if what < .4:
            last += 1
            new = f"{last - pick.choice([0, 0, 0, 3, 9]):06}"
            values = {name: pick.random() for name in "xyz"[:pick.randint(0, 3)]}
            made = checkpoint(new, **values)
            made["channel_versions"] = {name: f"{last}.{n}" for name in values}
            metadata = {"source": pick.choice(["input", "loop"]), "step": n % 3}
            for one in (saver, theirs):
                one.put(at(thread, ns, key), made, metadata, made["channel_versions"])
            keys.append(new)
        elif what < .6 and key:
            key = pick.choice(keys[-2:])
            writes = [(pick.choice(["x", "y", *WRITES_IDX_MAP]), pick.random())
                      for _ in range(pick.randint(1, 3))]
            task, path = pick.choice(["t1", "t2"]), pick.choice(["", "~p"])
            for one in (saver, theirs):
                one.put_writes(at(thread, ns, key), writes, task, path)
        elif what < .62:
            for one in (saver, theirs):
                one.delete_thread(thread)
        else:
            config = at(thread, ns, key)
            assert same_order(answers([saver.get_tuple(config)])) == same_order(
                answers([theirs.get_tuple(config)]))
            before = at(thread, ns, pick.choice(keys)) if keys and pick.random() < .5 else None
            how = {"before": before, "limit": pick.choice([None, 1, 2, 7]),
                   "filter": pick.choice([None, {"step": 1}, {"source": "loop", "step": 2}])}
            config = at(thread, ns, key if pick.random() < .2 else None)
            assert same_order(answers(saver.list(config, **how))) == same_order(
                answers(theirs.list(config, **how)))


def test_list_without_a_config_has_all_threads_by_falling_ids(store):
    saver = MsgstoreSaver(store)
    for n in range(200):
        put(saver, f"{n:03}", thread=f"t{n % 7}", ns=["", "s:1"][n % 2], metadata={"n": n % 2})
    assert ids(saver.list(None)) == [f"{n:03}" for n in range(199, -1, -1)]
    assert ids(saver.list(None, limit=3)) == ["199", "198", "197"]
    assert ids(saver.list(None, filter={"n": 1}, before=at("", "", "004"))) == ["003", "001"]
    both = {"configurable": {"thread_id": "t3"}}
    assert ids(saver.list(both)) == [f"{n:03}" for n in range(199, -1, -1) if n % 7 == 3]
    assert list(saver.list(both, limit=0)) == []


# ---- Writers that are late, and several at once.

def test_newest_is_the_greatest_id_when_a_writer_is_late(store):
    saver, other = MsgstoreSaver(store), MsgstoreSaver(store)
    put(saver, "2")
    put(other, "3")
    put(saver, "1")
    assert ids([saver.get_tuple(at())]) == ["3"]
    assert ids(other.list(at())) == ["3", "2", "1"]
    put(other, "4")
    assert ids([saver.get_tuple(at())]) == ["4"]
    assert ids(saver.list(at(), before=at(key="4"))) == ["3", "2", "1"]


def test_newest_after_the_deletion_of_a_run_is_the_greatest_that_is_left(store):
    saver = MsgstoreSaver(store)
    for key, run in (("1", "a"), ("3", "b"), ("2", "a")):
        put(saver, key, metadata={"run_id": run})
    saver.put_writes(at(key="3"), [("a", 1)], "task")
    saver.delete_for_runs(["b"])
    assert ids([saver.get_tuple(at())]) == ["2"]
    put(saver, "4")
    assert ids(saver.list(at())) == ["4", "2", "1"]
    put(saver, "3")
    assert saver.get_tuple(at(key="3")).pending_writes == []


def test_message_of_another_program_in_the_location_is_passed(store):
    saver = MsgstoreSaver(store)
    put(saver, "1")
    store.append(msgstore.user("hello"), 'langgraph["t", ""]')
    assert ids([saver.get_tuple(at())]) == ["1"]
    put(saver, "2")
    assert ids(saver.list(at())) == ["2", "1"] and ids([saver.get_tuple(at())]) == ["2"]


def forked(run, *args):
    """Runs in a process of its own, and returns its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        run(*args)
        code = 0
    finally:
        os._exit(code)


def ended(child):
    """Returns the exit code of a process; of one that was killed the negative signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def write(path, name):
    with msgstore.open(path, shared=True, lock_wait_ms=60000) as log:
        saver = MsgstoreSaver(log)
        for n in range(60):
            config = put(saver, f"{n:03}-{name}", metadata={"step": n}, a=n)
            saver.put_writes(config, [("a", n)], name)


def test_two_processes_put_into_one_thread(tmp_path):
    path = tmp_path / "log.msl"
    msgstore.open(path, shared=True).close()
    assert [ended(child) for child in [forked(write, path, "p"), forked(write, path, "q")]
            ] == [0, 0]
    with msgstore.open(path, mode="read") as log:
        found = list(MsgstoreSaver(log).list(at()))
    assert ids(found) == sorted((f"{n:03}-{name}" for n in range(60) for name in "pq"),
                                reverse=True)
    assert all(len(one.pending_writes) == 1 for one in found)


# ---- Cost.

class Counting:
    """Counts the messages that a store's queries return."""

    def __init__(self, store):
        self.store, self.messages, self.calls = store, 0, 0
        self.query, store.query = store.query, self.counted

    def counted(self, *args, **options):
        page = self.query(*args, **options)
        self.calls, self.messages = self.calls + 1, self.messages + len(page)
        return page

    def of(self, run):
        self.calls = self.messages = 0
        run()
        return self.calls, self.messages


def test_cost_of_a_call_does_not_grow_with_the_thread(store):
    saver = MsgstoreSaver(store)
    counting = Counting(store)
    costs = []
    for n in range(300):
        config = put(saver, f"{n:03}", parent=f"{n - 1:03}" if n else None)
        saver.put_writes(config, [("a", n)], "t")
        if n in (20, 299):
            costs.append([
                counting.of(lambda: put(saver, f"{n:03}-1")),
                counting.of(lambda: saver.put_writes(config, [("b", n)], "u")),
                counting.of(lambda: MsgstoreSaver(store).get_tuple(at())),
                counting.of(lambda: saver.get_tuple(at(key="010"))),
                counting.of(lambda: list(saver.list(at(), limit=3))),
                counting.of(lambda: list(saver.list(at(), limit=3, before=at(key="015"))))])
    assert costs[0] == costs[1]
    assert costs[0][0] == (0, 0) and costs[0][2][1] <= 2


# ---- Deleting, pruning, copying.

def test_deleted_thread_starts_anew(store):
    saver, other = MsgstoreSaver(store), MsgstoreSaver(store)
    for ns in ("", "s:1"):
        saver.put_writes(put(saver, "5", ns=ns), [("a", 1)], "task")
    other.delete_thread("t")
    assert saver.get_tuple(at()) is None and list(saver.list(None)) == []
    for ns in ("", "s:1"):
        put(saver, "1", ns=ns)
        assert [saver.get_tuple(at(ns=ns)).pending_writes, ids(saver.list(at(ns=ns)))] == [
            [], ["1"]]
    assert ids(saver.list({"configurable": {"thread_id": "t"}})) == ["1", "1"]


def test_copy_keeps_what_the_target_has(store):
    saver = MsgstoreSaver(store)
    put(saver, "1", thread="to")
    saver.put_writes(put(saver, "2", ns="s:1", a=1), [("a", 3)], "task")
    for key in ("5", "3"):
        put(saver, key)
    saver.copy_thread("t", "to")
    copied = store.query('langgraph["to", ""]')
    assert [m["agent_key"] for m in copied] == ["1", "3", "5"]
    assert not any("late" in m["item"] for m in copied)
    messages = len(store)
    saver.copy_thread("to", "to")
    assert len(store) == messages
    assert ids(saver.list({"configurable": {"thread_id": "to"}})) == [
        "5", "3", "2", "1"]
    found = saver.get_tuple(at("to", "s:1"))
    assert found.checkpoint["channel_values"] == {"a": 1}
    assert found.pending_writes == [("task", "a", 3)]


def test_prune_refuses_an_unknown_strategy(store):
    with pytest.raises(msgstore.ArgumentError):
        MsgstoreSaver(store).prune(["t"], strategy="all")


def test_prune_keeps_what_delta_channels_are_rebuilt_from(store):
    pytest.importorskip("langgraph.channels.delta")
    from typing import Annotated, TypedDict

    from langgraph.channels.delta import DeltaChannel
    from langgraph.graph import StateGraph

    class State(TypedDict):
        words: Annotated[list, DeltaChannel(lambda state, writes: sum(writes, state),
                                            snapshot_frequency=4)]

    build = StateGraph(State)
    build.add_node("say", lambda state: {"words": [len(state["words"])]})
    build.set_entry_point("say")
    saver = MsgstoreSaver(store)
    graph = build.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "t"}}
    for _ in range(5):
        graph.invoke({"words": ["q"]}, config)
    words = graph.get_state(config).values["words"]
    before = len(ids(saver.list(config)))
    saver.prune(["t"])
    assert graph.get_state(config).values["words"] == words and len(words) == 10
    assert 1 < len(ids(saver.list(config))) < before
    assert graph.invoke({"words": []}, config)["words"][:10] == words


def test_damage_is_reported(tmp_path):
    path = tmp_path / "log.msl"
    with msgstore.open(path) as log:
        saver = MsgstoreSaver(log)
        for n in range(50):
            put(saver, f"{n:02}", text=f"checkpoint {n} " * 20)
    data = bytearray(path.read_bytes())
    where = data.index(base64.b64encode(saver.serde.dumps_typed(checkpoint("x"))[1])[:8],
                       len(data) // 2)
    data[where + 200] ^= 1
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log = msgstore.open(path, mode="read")
    with log, pytest.warns(RuntimeWarning, match="checkpoints or writes are missing"):
        assert len(ids(MsgstoreSaver(log).list(at()))) == 49


# ---- Graphs.

def run_part(kind, path, part):
    """Runs a part of the program in a process, and returns what it prints."""
    def run():
        with open(path.with_suffix(".out"), "w") as out, contextlib.redirect_stdout(out):
            langgraph_program.main(kind, str(path), part)

    code = ended(forked(run))
    assert code == (-signal.SIGKILL if part == "die" else 0)
    return path.with_suffix(".out").read_text().splitlines()


def test_graph_goes_on_in_another_process_as_with_the_other_savers(tmp_path):
    found = {}
    for kind in ("msgstore", "memory", "sqlite"):
        if kind == "sqlite":
            try:
                import langgraph.checkpoint.sqlite  # noqa: F401
            except ImportError:
                continue
        parts = ["all"] if kind == "memory" else ["ask", "die", "resume"]
        found[kind] = [line for part in parts for line in run_part(kind, tmp_path / kind, part)]
    assert len(found["msgstore"]) == 4
    assert all(lines == found["memory"] for lines in found.values())


def test_graph_runs_in_asyncio(log):
    async def walk():
        graph = langgraph_program.build(MsgstoreSaver(log), MsgstoreStore(log), lambda: None)
        config = {"configurable": {"thread_id": "t"}}
        await graph.ainvoke({"said": ["hello"]}, config)
        result = await graph.ainvoke(Command(resume="yes"), config)
        history = [one async for one in graph.aget_state_history(config)]
        await graph.aupdate_state(config, {"said": ["more"]})
        return result, len(history), (await graph.aget_state(config)).values["said"][-1]

    result, states, last = asyncio.run(walk())
    assert result["said"] == ["hello", "left", "right yes", "end"] and last == "more"
    assert states == 4


# ---- Items.

def stores(tmp_path):
    made = [MsgstoreStore(msgstore.open(tmp_path / "items.msl")), InMemoryStore()]
    try:
        import sqlite3

        from langgraph.store.sqlite import SqliteStore
        other = SqliteStore(sqlite3.connect(":memory:", isolation_level=None))
        other.setup()
        made.append(other)
    except ImportError:
        pass
    return made


def plain(item):
    return item and (item.namespace, item.key, item.value)


def test_store_answers_as_the_packages_stores(tmp_path):
    spaces = [("docs",), ("docs", "a"), ("docs", "a", "x"), ("docs", "b"), ("user", "a"),
              ("doc",)]
    told = []
    for one in stores(tmp_path):
        pick = random.Random(5)
        said = []
        for n in range(300):
            ns, key = pick.choice(spaces), pick.choice("kjé")
            what = pick.random()
            if what < .4:
                one.put(ns, key, {"n": n % 5, "kind": pick.choice(["p", "q"]),
                                  "deep": {"é": [1, 2.5, None, True]}})
            elif what < .5:
                one.delete(ns, key)
            elif what < .7:
                said.append(plain(one.get(ns, key)))
            elif what < .95:
                wanted = pick.choice([None, {"kind": "p"}, {"n": {"$gte": 2}},
                                      {"n": {"$ne": 1}, "kind": "q"}, {"n": {"$lt": 3.5}}])
                found = one.search(ns[:pick.randint(0, 2)], filter=wanted, limit=100)
                said.append(sorted(map(repr, map(plain, found))))
            else:
                gone = {ns for ns in spaces if not one.search(ns, limit=1)}
                found = one.list_namespaces(prefix=pick.choice([None, ("docs",), ("*", "a")]),
                                            suffix=pick.choice([None, ("a",), ("x",)]),
                                            max_depth=pick.choice([None, None, 2]))
                # The one in memory lists namespaces without items, too.
                said.append([ns for ns in found if ns not in gone])
        told.append(said)
    assert len(told[0]) > 100
    for other in told[1:]:
        assert other == told[0]


def test_items_outlive_their_process_and_keep_their_birth(tmp_path):
    ns = ("users", "1")
    with msgstore.open(tmp_path / "log.msl") as log:
        one = MsgstoreStore(log)
        one.put(ns, "a", {"n": 1})
        born = one.get(ns, "a").created_at
        one.put(ns, "b", {"n": 2})
        one.put(ns, "a", {"n": 3})
    with msgstore.open(tmp_path / "log.msl") as log:
        one = MsgstoreStore(log)
        found = one.get(ns, "a")
        assert found.value == {"n": 3} and found.created_at == born < found.updated_at
        assert [item.key for item in one.search(("users",))] == ["a", "b"]
        assert [item.key for item in one.search(("users",), limit=1, offset=1)] == ["b"]
        assert len(log.query('langgraph-store["users", "1"]')) == 2
        one.delete(ns, "a")
        one.put(ns, "a", {"n": 4})
        assert one.get(ns, "a").created_at > born


def test_batch_reads_before_it_puts_and_keeps_the_last(store):
    one = MsgstoreStore(store)
    ns = ("a", "b")
    assert one.batch([PutOp(ns, "k", {"n": 1}), GetOp(ns, "k"), PutOp(ns, "k", {"n": 2}),
                      SearchOp(("a",)), PutOp(ns, "j", {"n": 3})]) == [None, None, None, [],
                                                                       None]
    assert sorted(item.value["n"] for item in one.search(("a",))) == [2, 3]
    one.batch([PutOp(ns, "k", {"n": 5}), PutOp(ns, "k", None)])
    assert [item.key for item in asyncio.run(one.asearch(()))] == ["j"]
    one.delete(ns, "j")
    assert one.list_namespaces() == [] and one.search(()) == []


def test_batch_that_is_refused_changes_nothing(store):
    one = MsgstoreStore(store)
    one.put(("a",), "k", {"n": 1})
    before = store.stat()["last_seq"]
    for bad in (PutOp(("a",), "k", {"n": float("nan")}), PutOp(("a",), "k", {"n": 2}, None, 5),
                PutOp(("a",), "", {}), PutOp((), "k", {}), SearchOp(("a",), query="words"),
                SearchOp(("a",), {"n": {"$near": 1}}), "put"):
        with pytest.raises(msgstore.MsgstoreError):
            one.batch([PutOp(("a",), "k", {"n": 3}), bad])
    assert store.stat()["last_seq"] == before and one.get(("a",), "k").value == {"n": 1}
    with pytest.raises(NotImplementedError):
        one.put(("a",), "k", {"n": 2}, ttl=5)


def test_two_puts_of_a_new_key_at_once_leave_one_item(store):
    one = MsgstoreStore(store)
    one.put(("a",), "k", {"n": 1})
    first = store.query('langgraph-store["a"]')[0]
    store.append({**first, "content": {"n": 2}})  # another writer, before it hides
    assert one.get(("a",), "k").value == {"n": 2}
    assert [item.value for item in one.search(("a",))] == [{"n": 2}]
    one.delete(("a",), "k")
    assert one.search(("a",)) == []


def test_search_costs_what_its_namespaces_have(store):
    one = MsgstoreStore(store)
    counting = Counting(store)
    costs = []
    for n in range(120):
        one.put(("memories", f"u{n}"), "k", {"n": n})
        if n in (10, 119):
            costs.append([counting.of(lambda: one.get(("memories", "u3"), "k")),
                          counting.of(lambda: one.put(("memories", "u3"), "k", {"n": 0})),
                          counting.of(lambda: one.search(("memories", "u3")))])
    assert costs[0] == costs[1]


def test_a_search_finds_items_but_not_what_checkpoints_hold(log):
    put(MsgstoreSaver(log), "1", said="needle in a checkpoint")
    MsgstoreStore(log).put(("users", "1"), "name", {"value": "needle in an item"})
    found, = log.search("needle")
    assert found["location"].startswith("langgraph-store") and found["field"] == "content"
    assert len(log.locations()) > 1 and log.usage()["notes"] == 0
