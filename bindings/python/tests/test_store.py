"""The package's own interface: stores, messages, histories, errors."""

import asyncio
import copy
import doctest
import gc
import inspect
import json
import os
import pathlib
import pickle
import random
import re
import signal
import subprocess
import sys
import threading
import time
import typing
import urllib.error

import pytest

import msgstore
from msgstore import _flat, words


def test_append_returns_rising_numbers(store):
    assert store.append(msgstore.user("a"), "l") == [1]
    assert store.append([msgstore.user("b"), msgstore.assistant("c")], "l") == [2, 3]
    assert store.append([], "l") == []
    assert store.append((m for m in [msgstore.user("d")]), "l") == [4]


def test_messages_come_back_with_all_members(store):
    message = {"type": "action", "tool": "f", "args": {"ä": [1, None, 2.50]}, "agent_key": "w",
               "timestamp": 1720000000.25, "turn_id": "t", "more": {"deep": [True]}}
    store.append(message, "l")
    found = store.query("l")
    assert dict(found[0]) == {**message, "location": "l"}
    assert found[0].seq == 1 and found[0].type == "action"
    assert found.damaged == 0


@pytest.mark.parametrize("call, path, words", [
    (lambda s, t: s.append(msgstore.user(t), "l"), "messages[0].content", "character 1"),
    (lambda s, t: s.append([msgstore.user("a"), msgstore.action("f", {"x": [1, t]})], "l"),
     "messages[1].args.x[1]", r"U\+D800"),
    (lambda s, t: s.append(msgstore.user("a", **{t: 1}), "l"), "messages[0]", "name"),
    (lambda s, t: s.append(msgstore.user("a"), t), "location", "surrogate"),
    (lambda s, t: s.amend(1, msgstore.user(t)), "message.content", "surrogate"),
    (lambda s, t: s.facts("l", title=t), "value.title", "surrogate"),
    (lambda s, t: s.request("l", "openai", model="m", stop=[t]), "stop[0]",
     r"stop\[0\] has .*surrogate"),
    (lambda s, t: s.request("l", "openai", model="m", extra={"stop": [t]}),
     "extra.stop[0]", r"extra\.stop\[0\] has .*surrogate"),
])
def test_a_lone_surrogate_is_refused_where_it_is(store, call, path, words):
    store.append(msgstore.user("before"), "l")
    with pytest.raises(ValueError, match=words) as caught:
        call(store, "x\ud800y")
    assert (caught.value.code, caught.value.path) == ("E_UTF8", path)
    assert [m.content for m in store] == ["before"]
    store.append([msgstore.user("\U0001f600"), msgstore.user("a\ud83d\ude00b")], "l")
    assert [m.content for m in store][1:] == ["\U0001f600", "a\U0001f600b"] # a pair is one
    with pytest.raises(ValueError, match="U\\+D83D\\) at character 2,"):
        store.append(msgstore.user("\ud83d\ude00\ud83d"), "l")


@pytest.mark.parametrize("wrong, what", [
    (b"x", "is a bytes"), ({3}, "is a set"), (float("nan"), "is nan"),
    (float("-inf"), "is -inf"), ({(1, 2): 3}, "a member's name is a tuple")])
def test_what_json_has_not_is_refused_where_it_is(store, wrong, what):
    with pytest.raises(msgstore.ArgumentError, match="JSON") as caught:
        store.append([msgstore.user("a"), msgstore.user({"deep": ["b", wrong]})], "l")
    assert caught.value.path == "messages[1].content.deep[1]"
    assert f"messages[1].content.deep[1]{': ' * ('name' in what) or ' '}{what}" in str(
        caught.value)
    assert len(store) == 0
    circle = []
    circle.append(circle)
    with pytest.raises(msgstore.ArgumentError, match="messages.*JSON.*ircular"):
        store.append(msgstore.user(circle), "l")


def test_iteration_reads_every_page(store):
    batch = [msgstore.user(str(n)) for n in range(1201)]
    store.append(batch, "l")
    store.append(msgstore.user("other"), "k")
    assert [m.content for m in store.messages("l")] == [m["content"] for m in batch]
    assert len(list(store)) == len(store) == 1202


def test_iteration_reads_every_page_of_a_format_that_joins(store):
    for n in range(400):
        store.append([{"role": "assistant", "content": f"turn {n}", "tool_calls": [
            {"id": f"c{n}", "type": "function",
             "function": {"name": "f", "arguments": "{}"}}]}], "l", format="openai")
    assert len(store) == 800
    items = list(store.messages("l", format="openai"))
    assert [m["content"] for m in items if m.get("content")] == [
        f"turn {n}" for n in range(400)]


@pytest.mark.parametrize("order", ["by_time", "reverse"])
def test_iteration_reads_each_message_once_when_the_order_is_another(store, order):
    store.append([msgstore.user(str(n), timestamp=2000.0 - n) for n in range(1200)], "l")
    assert [m.seq for m in store.messages("l", **{order: True})] == list(range(1200, 0, -1))


@pytest.mark.parametrize("format", ["openai", "anthropic", "gemini", "gemini-interactions",
                                    "bedrock", "pydantic-ai"])
@pytest.mark.parametrize("before", [497, 498, 499])
def test_iteration_keeps_items_whole_when_a_page_would_end_in_them(store, format, before):
    store.append([msgstore.user(str(n)) for n in range(before)], "l")
    store.answer({"choices": [{"message": {"content": "text", "tool_calls": [
        {"id": f"c{n}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        for n in range(3)]}}]}, "openai", "l")
    store.append([msgstore.observation(f"r{n}", f"c{n}") for n in range(3)], "l")
    assert list(store.messages("l", format=format)) == store.query("l", format=format)


def test_history_merges_views(store):
    store.append([msgstore.user("q"),
                  msgstore.action("f", {}, "c", agent_key="w"),
                  msgstore.observation("r", "c", agent_key="w"),
                  {"type": "global_observation", "content": "g"}], "l")
    assert [m.type for m in store.history("l", "w")] == [
        "user_message", "action", "observation", "global_observation"]
    assert [m.type for m in store.history("l", "m")] == [
        "user_message", "global_observation"]
    assert [m.seq for m in store.history("l", "m", subordinates=["w"], team_limit=1)] == [
        1, 3, 4]


def test_request_and_answer_make_a_loop(store):
    store.append(msgstore.user("weather?"), "l")
    body = store.request("l", "openai", model="m", system="be brief", max_tokens=5)
    assert body["model"] == "m" and body["max_tokens"] == 5
    assert [m["role"] for m in body["messages"]] == ["system", "user"]
    answer = {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c1", "type": "function",
         "function": {"name": "get", "arguments": "{\"city\":\"Ulm\"}"}}], "annotations": [{}]},
        "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    stored = store.answer(answer, "openai", "l")
    assert stored["calls"] == 1 and stored["left_out"] == 1
    pending = store.pending("l")
    assert pending["calls"][0]["args"] == {"city": "Ulm"} and not pending["answered"]
    store.append(msgstore.observation("rain", "c1"), "l")
    roles = [m["role"] for m in store.request("l", "openai", model="m")["messages"]]
    assert roles == ["user", "assistant", "tool"]
    assert store.pending("l")["calls"] == []
    body = store.request("l", "anthropic", model="m", max_tokens=9)
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "user"]
    assert store.usage("l")["output_tokens"] == 2
    with pytest.raises(msgstore.RefusedError):
        store.answer({"error": {"message": "overloaded"}}, "openai", "l")


def test_what_agents_say_is_not_the_words_of_others(store):
    def says(text):
        return {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
    store.append(msgstore.user("weather?"), "l")
    store.answer(says("rain"), "openai", "l", agent_key="ann")
    store.answer(says("noted"), "openai", "l", agent_key="ann", text_type="final")
    messages = store.request("l", "openai", agent_key="bob", model="m")["messages"]
    assert messages == [{"role": "user", "content": "weather?\n\n[ann] rain"}]
    messages = store.request("l", "openai", agent_key="boss", subordinates=["ann"],
                             model="m")["messages"]
    assert messages == [{"role": "user", "content": "weather?\n\n[ann] rain\n\n[ann] noted"}]
    messages = store.request("l", "openai", agent_key="ann", model="m")["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant"]
    for wrong in ("task", "nothing"):
        with pytest.raises(msgstore.ArgumentError):
            store.answer(says("x"), "openai", "l", text_type=wrong)


def talk(store, turns):
    for n in range(turns):
        store.append([msgstore.user(f"question {n}"), msgstore.assistant(f"answer {n}")], "l")


def questions(body):
    return [int(word) for word in re.findall(r"question (\d)", json.dumps(body))]


def test_a_compaction_stands_for_what_it_covers(store):
    talk(store, 6)
    how = {"model": "m", "system": "be brief", "compact_at": 60}
    body = store.request("l", "openai", **how)
    assert body.report["compaction_due"] is True and body.report["compacted"] == 0
    assert questions(body) == [0, 1, 2, 3, 4, 5] and "compact_at" not in body
    plan = store.compact_plan("l", "openai", 20, **how)
    assert plan["due"] is True and plan["messages"] == plan["upto"] == 10
    assert plan["cost"] == body.report["cost"]
    summary = store.compact_request("l", "openai", plan["upto"], max_tokens=9, **how)
    assert questions(summary) == [0, 1, 2, 3, 4] and summary["max_tokens"] == 9
    assert summary["messages"][-1]["content"].endswith("Write only the summary.")
    assert store.compact_request("l", "openai", 10, prompt="In short?", **how)[
        "messages"][-1]["content"].endswith("In short?")
    own = store.compact_request("l", "anthropic", 10, prompt="", max_tokens=9, **how)
    assert own["compaction"] == {"type": "summarize"}
    seq = store.compact("l", "openai", plan["upto"], model="m", body={
        "choices": [{"message": {"content": "They counted."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 70, "completion_tokens": 3}})
    body = store.request("l", "openai", **how)
    assert seq == 13 == body.report["compaction_seq"] and body.report["compacted"] == 10
    assert questions(body) == [5] and "They counted." in json.dumps(body)
    assert not body.report["compaction_due"] and not body.report["compaction_unusable"]
    assert questions(store.request("l", "openai", full=True, **how)) == [0, 1, 2, 3, 4, 5]
    assert len(store.query("l")) == 13 and store.usage("l")["input_tokens"] == 70
    assert store.rewind("l", 12) == 1
    assert questions(store.request("l", "openai", **how)) == [0, 1, 2, 3, 4, 5]


def test_a_compaction_is_of_its_agent_or_of_all(store):
    talk(store, 3)
    item = {"type": "compaction", "encrypted_content": "AA"}
    store.compact("l", "openai-responses", 4, model="m", items=[item], agent_key="ann",
                  cause="auto", tokens_before=90, tokens_after=7)
    found = store.query("l", types=["compaction"])[0]
    assert found["compaction"].pop("covered") > 0
    assert found["compaction"] == {"keep": 2, "cause": "auto", "tokens_before": 90,
                                   "tokens_after": 7, "items": [item]}
    assert found["agent_key"] == "ann"
    body = store.request("l", "openai-responses", model="m", agent_key="ann")
    assert body["input"][0] == item and questions(body) == [2]
    assert questions(store.request("l", "openai", model="m", agent_key="bob")) == [0, 1, 2]
    store.compact("l", "openai", 4, summary="They spoke.", agent_key="ann", for_all=True)
    assert questions(store.request("l", "openai", model="m", agent_key="bob")) == [2]


def test_a_request_has_cache_breakpoints_and_a_key(store):
    talk(store, 2)
    how = {"model": "m", "system": "be brief"}
    body = store.request("l", "anthropic", cache="1h", cache_key="k", **how)
    mark = {"type": "ephemeral", "ttl": "1h"}
    assert body["system"] == [{"type": "text", "text": "be brief", "cache_control": mark}]
    assert json.dumps(body).count("cache_control") == body.report["breakpoints"] == 3
    assert "cache" not in body and "cache_key" not in json.dumps(body)
    body = store.request("l", "openai", cache="1h", cache_key="k", **how)
    assert body["prompt_cache_key"] == "k" and body.report["breakpoints"] == 0
    assert "cache_control" not in json.dumps(store.request("l", "anthropic", **how))
    with pytest.raises(msgstore.ArgumentError, match="cache"):
        store.request("l", "anthropic", cache="2h", **how)


def test_a_request_names_the_response_before_it(store):
    ask = {"model": "m", "previous": True}
    response = {"id": "resp_1", "object": "response", "status": "completed", "model": "m",
                "output": [{"type": "message", "id": "msg_1", "role": "assistant",
                            "status": "completed", "content": [
                                {"type": "output_text", "text": "a", "annotations": []}]}]}
    store.append([{"type": "user_message", "content": "q"}], location="l")
    first = store.request("l", "openai-responses", **ask)
    assert first["store"] is True and "previous" not in first
    store.answer(response, "openai-responses", "l", sent=first.report["sent"])
    store.append([{"type": "user_message", "content": "new"}], location="l")
    second = store.request("l", "openai-responses", **ask)
    assert second["previous_response_id"] == "resp_1" and len(second["input"]) == 1
    assert second.report["previous_seq"] == second.report["held"] == 2
    assert "sent" not in store.request("l", "openai-responses", model="m").report
    store.hide(1)
    third = store.request("l", "openai-responses", **ask)
    assert third.report["previous_unusable"] == 1 and "previous_response_id" not in third
    with pytest.raises(msgstore.ArgumentError, match="sent"):
        store.answer(response, "openai-responses", "l", sent="x")


def test_a_compaction_of_nothing_is_refused(store):
    talk(store, 2)
    for wrong in ({}, {"body": b""}, {"summary": " "}, {"items": {}}, {"body": 3},
                  {"summary": "s", "body": {"choices": []}}):
        with pytest.raises(msgstore.ArgumentError):
            store.compact("l", "openai", 2, **wrong)
    with pytest.raises(msgstore.NotFoundError):
        store.compact("l", "openai", 9, summary="s")
    with pytest.raises(msgstore.ConflictError):
        store.compact_request("l", "openai", 0, model="m")
    assert len(store) == 4


def test_changes(store):
    store.append([msgstore.user("a"), msgstore.assistant("b"), msgstore.user("c")], "l")
    store.amend(1, msgstore.user("A"))
    store.fork("l", 2, "branch")
    store.hide(2)
    assert [m.content for m in store.query("l")] == ["A", "c"]
    assert [m.content for m in store.query("branch")] == ["A", "b"]
    assert store.rewind("l", 1) == 1
    assert store.facts("l", title="T", gone=1) == {"title": "T", "gone": 1}
    assert store.facts("l", gone=None) == {"title": "T"}
    assert store.facts("branch")["parent"] == "l"
    store.redact(1)
    assert store.query("l")[0].content == "[redacted]"
    store.note(1, "rating", {"stars": 5})


def test_search_listings_and_figures(store):
    store.append([msgstore.user("find the Needle here", agent_key="x")], "l")
    store.append([msgstore.user("nothing")], "k")
    match, = store.search("needle")
    assert match["seq"] == 1 and match["field"] == "content"
    assert store.search("needle", exact_case=True) == []
    assert store.search("needle", agent_key="nobody") == []
    assert [i["location"] for i in store.locations()] == ["k", "l"]
    assert [i["agent_key"] for i in store.agents("l")] == ["x"]
    assert store.stat()["messages"] == 2


@pytest.mark.parametrize("call, error, code", [
    (lambda s: s.append({"type": "action"}, "l"), msgstore.ArgumentError, "E_MISSING"),
    (lambda s: s.append({"type": "nope"}, "l"), msgstore.ArgumentError, "E_TYPE"),
    (lambda s: s.append(msgstore.user("x")), msgstore.ArgumentError, "E_ARGUMENT"),
    (lambda s: s.append(msgstore.user("x"), "l", expect_seq=7), msgstore.ConflictError,
     "E_CONFLICT"),
    (lambda s: s.query("l", format="nope"), msgstore.ArgumentError, "E_ARGUMENT"),
    (lambda s: s.query("l", views=["nope"]), msgstore.ArgumentError, "E_ARGUMENT"),
    (lambda s: s.request("l", "nope"), msgstore.ArgumentError, "E_ARGUMENT"),
    (lambda s: s.hide(5), msgstore.NotFoundError, "E_NOT_FOUND"),
])
def test_errors_have_classes_and_codes(store, call, error, code):
    with pytest.raises(error) as caught:
        call(store)
    assert caught.value.code == code and str(caught.value)


def test_error_names_the_field(store):
    with pytest.raises(msgstore.ArgumentError) as caught:
        store.append([msgstore.user("x"), {"type": "action", "tool": "f", "args": 3}], "l")
    assert caught.value.path == "messages[1].args"
    assert len(store) == 0


def test_log_keeps_messages(tmp_path):
    path = tmp_path / "log.msl"
    with msgstore.open(path, sync="each") as log:
        log.append(msgstore.user("kept"), "l")
        assert log.sync() == 1
        with pytest.raises(msgstore.BusyError):
            msgstore.open(path)
        reader = msgstore.open(path, mode="read")
        assert reader.query("l")[0].content == "kept"
        with pytest.raises(msgstore.ReadOnlyError):
            reader.append(msgstore.user("no"), "l")
        reader.close()
    with msgstore.open(path) as log:
        assert [m.content for m in log] == ["kept"]
    assert msgstore.verify(path)["messages"] == 1


@pytest.mark.parametrize("log", [True, False])
def test_backup_leaves_the_store_as_it_is(tmp_path, log):
    with msgstore.open(tmp_path / "log.msl" if log else None) as store:
        seqs = [store.append(msgstore.user(text), "l")[0] for text in ("a", "b", "c")]
        store.hide(seqs[1])
        store.facts("l", title="t")
        store.note(seqs[0], "k", 1)
        assert store.backup(tmp_path / "copy.msl", dry_run=True)["copied"] == 2
        assert not (tmp_path / "copy.msl").exists()
        found = store.backup(tmp_path / "copy.msl")
        assert (found["copied"], found["notes"], found["damaged"]) == (2, 1, 0)
        with pytest.raises(msgstore.ConflictError):
            store.backup(tmp_path / "copy.msl")
        assert store.backup(tmp_path / "new.msl", newest=1, locations=["l"])["dropped"] == 2
        assert store.append(msgstore.user("d"), "l") == [4]
    with msgstore.open(tmp_path / "copy.msl", mode="read") as copy:
        assert [m.seq for m in copy] == [1, 3]
        assert copy.facts("l") == {"title": "t"}
    with msgstore.open() as other:
        with pytest.raises(msgstore.MissingFileError) as caught:
            other.copy(tmp_path / "none.msl")
        assert caught.value.filename == str(tmp_path / "none.msl")
        assert other.copy(tmp_path / "copy.msl")["copied"] == 2
        assert [m.content for m in other] == ["a", "c"]


def test_rewrite_replaces_a_log_that_nobody_writes(tmp_path):
    path = tmp_path / "log.msl"
    with msgstore.open(path) as log:
        for n in range(20):
            log.append(msgstore.user(f"message {n}"), "l")
        log.rewind("l", 10)
        with pytest.raises(msgstore.BusyError):
            msgstore.rewrite(path)
    assert msgstore.rewrite(path)["copied"] == 10
    assert msgstore.rewrite(path, newest=4)["dropped"] == 6
    with msgstore.open(path) as log:
        assert [m.seq for m in log] == [7, 8, 9, 10]
    data = path.read_bytes()
    path.write_bytes(data.replace(b"message 8", b"message x"))
    with pytest.raises(msgstore.DamagedError, match="1 records were unreadable") as caught:
        msgstore.rewrite(path)
    assert caught.value.result["copied"] == 3
    with pytest.raises(msgstore.MissingFileError):
        msgstore.rewrite(tmp_path / "none.msl")


def test_union_reads_stores_as_one(tmp_path):
    with msgstore.open(tmp_path / "a.msl") as a, msgstore.open() as b:
        for n, store in enumerate([b, a, b]):
            store.append(msgstore.user(f"{n}", timestamp=1720000000.0 + n), "l")
        with msgstore.union([a, b]) as both:
            assert [m.content for m in both.query("l")] == ["1", "0", "2"]
            assert [m.content for m in both.query("l", by_time=True)] == ["0", "1", "2"]
            assert [msgstore.member(m.seq) for m in both] == [(0, 1), (1, 1), (1, 2)]
            assert both.members == (a, b) and "of 2 stores" in repr(both)
            a.append(msgstore.user("3"), "l")
            assert both.stat()["messages"] == 4
            assert both.search("3")[0]["seq"] == 2
            assert both.backup(tmp_path / "all.msl", dry_run=True)["copied"] == 4
            with pytest.raises(msgstore.ReadOnlyError):
                both.append(msgstore.user("x"), "l")
            with pytest.raises(msgstore.UnsupportedError) as caught:
                msgstore.union([a, both])
            assert caught.value.path == "stores[1]"
        for wrong in ([a, a], [a, None], [a, tmp_path]):
            with pytest.raises(msgstore.ArgumentError) as caught:
                msgstore.union(wrong)
            assert caught.value.path == "stores[1]"
        assert list(msgstore.union([])) == []
        both = msgstore.union([a])
    assert [m.content for m in both] == ["1", "3"]


def test_union_keeps_its_stores_open(tmp_path):
    path = tmp_path / "a.msl"
    a, b = msgstore.open(path), msgstore.open()
    a.append(msgstore.user("a"), "l")
    first, second = msgstore.union([a, b]), msgstore.union([b, a])
    a.close()
    a.close()
    with pytest.raises(msgstore.MsgstoreError) as caught:
        a.stat()
    assert caught.value.code == "E_CLOSED"
    with pytest.raises(msgstore.MsgstoreError) as caught:
        msgstore.union([b, a])
    assert (caught.value.code, caught.value.path) == ("E_CLOSED", "stores[1]")
    assert [m.content for m in first] == ["a"]
    first.close()
    assert [m.content for m in second] == ["a"]
    with pytest.raises(msgstore.BusyError):
        msgstore.open(path, mode="write")
    second.close()
    msgstore.open(path, mode="write").close()  # the lock is free with the last union
    assert b.append(msgstore.user("b"), "l") == [1]
    third = msgstore.union([b])
    del b
    gc.collect()
    assert len(third.query("l")) == 1


def test_unions_close_beside_their_stores_and_calls():
    for _ in range(200):
        stores = [msgstore.open() for _ in range(3)]
        for store in stores:
            store.append([msgstore.user("x" * 100)] * 20, "l")
        union = msgstore.union(stores)
        go = threading.Barrier(5)

        def close(store):
            go.wait()
            store.close()

        def read():
            go.wait()
            try:
                while True:
                    assert len(union.query("l")) == 60
            except msgstore.MsgstoreError as error:
                assert error.code == "E_CLOSED"

        threads = [threading.Thread(target=read)]
        threads += [threading.Thread(target=close, args=(s,)) for s in [union, *stores]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for store in stores:
            assert "pointer" not in store._handle.__dict__


def test_methods_have_the_arguments_of_the_library():
    store, request = msgstore.Store, {"location", "provider"}
    other = {"open": {"buffer_at", "buffer_size", "attach", "salvage"},  # of buffers
             "list": {"agents"}, "wait": {"timeout_ms"}, "set_facts": {"value"},
             "compact": {"all"}, "backup": {"to_path"}, "copy": {"from_path"}}
    mine = {"wait": {"timeout"}, "set_facts": {"facts"},
            "compact": {"for_all", "body"}, "backup": {"path"}, "copy": {"path"},
            "append": {"messages"}, "answer": {"body"}}
    methods = {"open": msgstore.open, "verify": msgstore.verify, "rewrite": msgstore.rewrite,
               "request": store._request, "compact_plan": store.compact_plan,
               "compact_request": store.compact_request, "set_facts": store.facts_set,
               "list": store.locations}
    for name, arguments in _flat.ARGUMENTS.items():
        method = methods.get(name) or getattr(store, name)
        given = {p.name for p in inspect.signature(method).parameters.values()
                 if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)} - {"self"}
        wanted = set(arguments) - other.get(name, set())
        if name == "list":
            given |= set(inspect.signature(store.agents).parameters) - {"self"}
        if name in ("compact_plan", "compact_request"):  # the rest is that of request
            wanted -= set(_flat.ARGUMENTS["request"]) - request
        if name == "request":
            given -= {"op", "more"}
        assert given - mine.get(name, set()) == wanted, name


def test_search_has_the_filters_of_a_query(store):
    for n in range(4):
        store.append(msgstore.user(f"word {n}", turn_id=f"t{n % 2}", agent_key=f"w{n}"), "l")
    found = lambda **filters: [m["seq"] for m in store.search("word", **filters)]
    assert found() == [4, 3, 2, 1]
    assert found(turn_id="t1") == [4, 2]
    assert found(after_seq=1, before_seq=4) == [3, 2]
    assert found(agent_keys=["w0", "w3"]) == [4, 1]
    assert found(agent_keys=[]) == [] and found(views=[]) == []
    assert found(views=["timeline"], oldest_first=True) == [1, 2, 3, 4]
    with pytest.raises(msgstore.ArgumentError):
        store.search("word", views="timeline")


def test_verify_reports_damage(tmp_path):
    path = tmp_path / "log.msl"
    with msgstore.open(path) as log:
        log.append(msgstore.user("damaged"), "l")
    data = bytearray(path.read_bytes())
    data[8192 + 48] ^= 0x55
    path.write_bytes(data)
    with pytest.raises(msgstore.DamagedError) as caught:
        msgstore.verify(path)
    assert caught.value.result["damaged"] == 1


def test_notes_of_a_message_are_read(tmp_path):
    path = tmp_path / "log.msl"
    with msgstore.open(path) as log:
        log.append([msgstore.user("a"), msgstore.user("b")], "l")
        assert log.notes(1) == [] and log.notes(1).damaged == 0
        values = [5, "text", {"a": [None]}, 5, False]
        for n, value in enumerate(values):
            log.note(1, "odd" if n % 2 else "even", value)
        log.note(2, "even", 0)
        found = log.notes(1)
        assert [(n["kind"], n["value"]) for n in found] == [
            ("odd" if n % 2 else "even", value) for n, value in enumerate(values)]
        assert all(abs(n["time"] - time.time()) < 60 for n in found)
        assert [n["value"] for n in log.notes(1, "odd")] == ["text", 5]
        assert log.notes(1, "none") == []
        with pytest.raises(msgstore.NotFoundError):
            log.notes(9)
        with pytest.raises(msgstore.ArgumentError):
            log.notes("1")
        with msgstore.union([msgstore.open(), log]) as both:
            assert [n["value"] for n in both.notes((1 << 40) + 2)] == [0]
        log.append([msgstore.user(f"m{n}") for n in range(50)], "l")
        log.hide(2)
        with pytest.raises(msgstore.MsgstoreError, match="hidden"):
            log.notes(2)
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"text"', b'"tex?"'))
    with pytest.warns(RuntimeWarning), msgstore.open(path) as log:
        found = log.notes(1)
        assert ([n["value"] for n in found], found.damaged) == ([5, {"a": [None]}, 5, False], 1)


def test_verify_of_a_log_that_cannot_be_opened_says_why(tmp_path):
    path = tmp_path / "log.msl"
    with msgstore.open(path) as log:
        log.append(msgstore.user("x"), "l")
    data = bytearray(path.read_bytes())
    data[20] ^= 0x55  # in the first page
    data[4096 + 20] ^= 0x55  # in its copy
    path.write_bytes(data)
    with pytest.raises(msgstore.DamagedError) as caught:
        msgstore.verify(path)
    assert str(caught.value) == f"'{path}': bytes 0 to 51 do not match their checksum"
    assert caught.value.result is None


def test_open_of_a_missing_log_says_which(tmp_path):
    with pytest.raises(msgstore.NotFoundError) as caught:
        msgstore.open(tmp_path / "none.msl", mode="write")
    assert "none.msl" in str(caught.value)


def test_words_of_types_are_those_of_the_library(store, tmp_path):
    calls = {
        words.Mode: lambda word: msgstore.open(tmp_path / "a", mode=word),
        words.Sync: lambda word: msgstore.open(tmp_path / "a", sync=word),
        words.View: lambda word: store.query("l", views=[word]),
        words.Format: lambda word: store.query("l", format=word),
        words.Provider: lambda word: store.request("l", word),
        words.Cache: lambda word: store.request("l", "openai", cache=word),
        words.Thinking: lambda word: store.request("l", "openai", thinking=word),
    }
    for type_, call in calls.items():
        with pytest.raises(msgstore.ArgumentError) as caught:
            call("bogus")
        assert sorted(caught.value.message.split("expected: ")[1].split()) == sorted(
            typing.get_args(type_))


def test_request_takes_every_provider_of_the_types(store):
    store.append(msgstore.user("hi"), "l")
    for provider in typing.get_args(words.Provider):
        assert "hi" in json.dumps(store.request("l", provider, model="m")), provider


def test_closed_store_refuses(store):
    store.close()
    store.close()
    with pytest.raises(msgstore.MsgstoreError) as caught:
        store.stat()
    assert caught.value.code == "E_CLOSED"
    assert "closed" in repr(store)


@pytest.mark.parametrize("in_memory", [True, False])
def test_close_waits_for_the_calls_of_other_threads(tmp_path, in_memory):
    for turn in range(20):
        path = None if in_memory else tmp_path / f"{turn}.msl"
        store = msgstore.open(path)
        store.append([msgstore.user("x" * 100) for _ in range(300)], "l")
        ready = threading.Barrier(5)
        ended = []

        def work(call):
            ready.wait()
            try:
                while True:
                    call()
            except msgstore.MsgstoreError as error:
                ended.append(error.code)

        threads = [threading.Thread(target=work, args=(call,)) for call in (
            lambda: store.query("l"), lambda: list(store.messages("l")),
            lambda: store.append(msgstore.user("y"), "l"), lambda: store.wait(2**40, 60))]
        for thread in threads:
            thread.start()
        ready.wait()
        time.sleep(.002)
        store.close()
        if path is not None:  # the lock is free when close returns
            msgstore.open(path, mode="write").close()
        for thread in threads:
            thread.join()
        assert ended == ["E_CLOSED"] * 4


def test_cancelled_task_survives_close():
    async def main():
        with msgstore.open() as store:
            store.append([msgstore.user("x" * 200) for _ in range(20000)], "l")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.to_thread(store.query, "l"), .01)

    for _ in range(5):
        asyncio.run(main())


def interrupt_after(seconds, call):
    """Returns the seconds that a call went on after its Ctrl-C."""
    timer = threading.Timer(seconds, signal.raise_signal, (signal.SIGINT,))
    begin = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        call()
    return time.monotonic() - begin - seconds


def test_every_wait_can_be_interrupted(tmp_path):
    path = tmp_path / "a.msl"
    with msgstore.open(path) as holder:
        assert interrupt_after(.2, lambda: holder.wait(2**40, 30)) < .2
        other = subprocess.Popen([sys.executable, "-c", f"""
import msgstore
try:
    msgstore.open({str(path)!r}, mode="write", lock_wait_ms=600)
except msgstore.BusyError:
    print("busy")
"""], stdout=subprocess.PIPE)
        assert other.communicate()[0] == b"busy\n"  # it does wait
        assert interrupt_after(.2, lambda: msgstore.open(
            path, mode="write", lock_wait_ms=30000)) < .3


def test_interrupts_at_any_moment_leave_nothing_open(tmp_path):
    class Interrupt(BaseException):
        pass

    def interrupt(*_):
        raise Interrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    chance = random.Random(7)
    try:
        for turn in range(300):
            path = tmp_path / f"{turn % 10}.msl"
            store = None
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(.0001, .003))
                store = msgstore.open(path)
                for n in range(100):
                    store.append(msgstore.user("x"), "l")
                store.close()
            except Interrupt:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            if store is not None:  # of another thread, which must not wait for anything
                closing = threading.Thread(target=store.close, daemon=True)
                closing.start()
                closing.join(10)
                assert not closing.is_alive()
            del store
            msgstore.open(path, lock_wait_ms=1000).close()
    finally:
        signal.signal(signal.SIGALRM, before)


def test_collection_amid_close_ends():
    done = subprocess.run([sys.executable, "-c", """
import gc, msgstore
for turn in range(500):
    member = msgstore.open()
    union = msgstore.union([member])
    union.itself = union
    member.close()
    del union, member  # garbage in a cycle: its finalizer frees a store
    store = msgstore.open()
    gc.set_threshold(1 + turn % 97)
    store.close()
print("ended")
"""], stdout=subprocess.PIPE, timeout=60)
    assert done.stdout == b"ended\n"


def test_handler_that_closes_amid_close_does_not_wait(tmp_path):
    store = msgstore.open(tmp_path / "a.msl")
    store.append([msgstore.user("x" * 1000) for _ in range(5000)], "l")
    before = signal.signal(signal.SIGALRM, lambda *_: store.close())
    try:
        signal.setitimer(signal.ITIMER_REAL, .0005, .0005)
        store.close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    msgstore.open(tmp_path / "a.msl", mode="write").close()


def test_lock_is_waited_for_in_full(tmp_path):
    path = tmp_path / "a.msl"
    holder = msgstore.open(path)
    threading.Timer(.5, holder.close).start()
    msgstore.open(path, mode="write", lock_wait_ms=10000).close()


def test_handler_amid_a_call_closes_the_store():
    store = msgstore.open()
    before = signal.signal(signal.SIGALRM, lambda *_: store.close())
    try:
        signal.setitimer(signal.ITIMER_REAL, .2)
        with pytest.raises(msgstore.MsgstoreError) as caught:
            store.wait(2**40, 30)
        assert caught.value.code == "E_CLOSED"
    finally:
        signal.signal(signal.SIGALRM, before)


def test_child_of_fork_leaves_the_store_to_its_parent(log):
    log.append(msgstore.user("a"), "l")
    child = os.fork()
    if child == 0:
        try:
            with log:
                log.query("l")
        except msgstore.MsgstoreError as error:
            os._exit(0 if error.code == "E_FORKED" else 3)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert log.append(msgstore.user("b"), "l") == [2]


def test_waits_of_asyncio(store):
    async def main():
        first = await store.append_async(msgstore.user("a"), "l")
        assert await store.wait_async(0, 5) == 1
        waiting = asyncio.ensure_future(store.wait_async(1, 30))
        await asyncio.sleep(.05)
        await store.append_async([msgstore.user("b"), msgstore.user("c")], "l")
        assert await waiting == 3
        assert await store.wait_async(3, .15) == 3
        begin = time.monotonic()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(store.wait_async(3, 30), .1)
        assert time.monotonic() - begin < 1
        assert await store.sync_async() == 0  # in memory
        await store.close_async()
        return first

    assert asyncio.run(main()) == [1]


def test_threads_append_side_by_side(log):
    def work(name):
        for n in range(200):
            log.append(msgstore.user(f"{name}.{n}"), "l")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    contents = [m.content for m in log.messages("l")]
    assert len(contents) == 800
    for name in range(4):
        own = [c for c in contents if c.startswith(f"{name}.")]
        assert own == [f"{name}.{n}" for n in range(200)]


def test_another_process_is_followed(tmp_path):
    path = tmp_path / "log.msl"
    writer = (f"import msgstore\nwith msgstore.open({str(path)!r}) as s:\n"
              "    s.append(msgstore.user('from afar'), 'l')\n")
    with msgstore.open(path):
        pass
    with msgstore.open(path, mode="read") as reader:
        assert reader.wait(0, 0) == 0
        subprocess.run([sys.executable, "-c", writer], check=True, env=os.environ)
        assert reader.wait(0, 5) == 1
        assert [m.content for m in reader] == ["from afar"]


def test_killed_writer_loses_nothing_acknowledged(tmp_path):
    path = tmp_path / "log.msl"
    writer = (f"import msgstore, os, signal\ns = msgstore.open({str(path)!r})\n"
              "for n in range(50): s.append(msgstore.user(str(n)), 'l')\n"
              "os.kill(os.getpid(), signal.SIGKILL)\n")
    subprocess.run([sys.executable, "-c", writer], env=os.environ)
    with msgstore.open(path) as log:
        assert [m.content for m in log] == [str(n) for n in range(50)]


@pytest.mark.parametrize("format", ["framework", "openai", "anthropic", "gemini",
                                    "gemini-interactions", "bedrock", "pydantic-ai",
                                    "openai-responses", "envelope", "task"])
def test_every_format_goes_in_and_out(store, format):
    store.append([msgstore.user("q"), msgstore.assistant("a")], "l")

    def plain(location):
        found = json.loads(json.dumps(store.query(location, format=format)))
        for message in found:
            message.pop("location", None)
        return found

    store.append(plain("l"), "again", format=format)
    assert plain("again") == plain("l") and len(plain("l")) == 2


README = (pathlib.Path(__file__).parent.parent / "README.md").read_text()
EMPTY = {"choices": [{"message": {"content": None}, "finish_reason": "length"}],
         "usage": {"prompt_tokens": 3, "completion_tokens": 2}}


def chat_program():
    names = {}
    exec(README.split("```python\n")[1].split("```")[0], names)
    return names["chat"]


def test_chat_program_of_the_readme_goes_on_after_a_restart(tmp_path, capsys):
    chat, bodies = chat_program(), []

    def ask(body):
        bodies.append(body)
        return json.dumps({"message": {"role": "assistant", "content": f"a{len(bodies)}"},
                           "done": True, "done_reason": "stop"}).encode()

    for line in ("one", "two"):
        chat(str(tmp_path / "log.msl"), ask, iter([line]))
    assert capsys.readouterr().out == "a1\na2\n"
    assert [m["content"] for m in bodies[1]["messages"]] == ["one", "a1", "two"]


def test_chat_program_of_the_readme_prints_why_an_answer_is_empty(tmp_path, capsys):
    chat_program()(str(tmp_path / "log.msl"), lambda body: {
        "message": {"role": "assistant", "content": ""}, "done": True,
        "done_reason": "length"}, iter(["one"]))
    assert capsys.readouterr().out == "(no answer: length)\n"


def test_chat_program_of_the_readme_keeps_the_line_that_has_no_answer(tmp_path):
    path, bodies = str(tmp_path / "log.msl"), []

    def refused(body):
        raise urllib.error.URLError("Connection refused")

    def ask(body):
        bodies.append(body)
        return {"message": {"role": "assistant", "content": "a"}, "done": True}

    with pytest.raises(SystemExit, match=f"no answer: .*refused.*stays in {path}"):
        chat_program()(path, refused, iter(["one"]))
    chat_program()(path, ask, iter(["two"]))
    assert [m["content"] for m in bodies[0]["messages"]] == ["one\n\ntwo"]


def test_chat_program_of_the_readme_runs_without_a_server(tmp_path, capsys, monkeypatch):
    call, = re.findall(r'`chat\("chat.msl", (lambda .*)\)`', README)
    monkeypatch.chdir(tmp_path)
    chat_program()("chat.msl", eval(call), iter(["one"]))
    assert capsys.readouterr().out == "hello\n"


def test_doctests_of_the_pages_run_without_options():
    docs = pathlib.Path(__file__).parents[3] / "docs" / "python.md"
    for page in (pathlib.Path(__file__).parents[1] / "README.md", docs):
        done = subprocess.run([sys.executable, "-m", "doctest", str(page)],
                              stdout=subprocess.PIPE)
        assert (done.returncode, done.stdout) == (0, b"")


def functions():
    """Returns the functions of the package by their names, with those of Store."""
    found = {name: getattr(msgstore, name) for name in msgstore.__all__}
    found = {name: thing for name, thing in found.items() if inspect.isfunction(thing)}
    found.update((f"Store.{name}", thing) for name, thing in vars(msgstore.Store).items()
                 if inspect.isfunction(thing) and not name.startswith("_"))
    return found


def docstrings(name):
    """Returns the docstring of a function, and those of the functions that it names."""
    text = functions()[name].__doc__
    for other in re.findall(r":meth:`(?:Store\.)?(\w+)`", text):
        if f"Store.{other}" != name:
            text += functions()[f"Store.{other}"].__doc__
    return text + "".join(functions()[other].__doc__ for other in re.findall(
        r":func:`(?:msgstore\.)?(\w+)`", text) if other != name and other in functions())


@pytest.mark.parametrize("name", sorted(functions()))
def test_docstrings_explain_each_argument(name):
    words = set(re.findall(r"\w+", " ".join(re.findall("``([^`]*)``", docstrings(name)))))
    arguments = set(inspect.signature(functions()[name]).parameters) - {"self"}
    assert not arguments - words


def test_tool_loop_of_the_readme_ends_at_an_empty_answer(store):
    block, = [block for block in README.split("```python\n") if ">>> while True:" in block]
    example, = [example for example in doctest.DocTestParser().get_examples(block)
                if example.source.startswith("while True:")]
    store.append(msgstore.user("q"), "job_1")
    names = {"store": store, "msgstore": msgstore, "tools": {}, "ask": lambda body: EMPTY}
    exec(example.source, names)
    assert names["got"]["messages"] == 0 and names["got"]["stop"] == "length"
    assert [m.content for m in store] == ["q"]


def test_results_of_an_agents_calls_have_its_agent_key(store):
    store.answer({"choices": [{"message": {"tool_calls": [{"id": "c", "function": {
        "name": "f", "arguments": "{}"}}]}}]}, "openai", "l", agent_key="w")
    store.append(msgstore.observation("2", "c"), "l")
    assert [c["id"] for c in store.pending("l", agent_key="w")["calls"]] == ["c"]
    store.append(msgstore.observation("2", "c", agent_key="w"), "l")
    assert store.pending("l", agent_key="w")["calls"] == []


BUILDERS = [msgstore.user, msgstore.assistant, msgstore.observation,
            lambda text, **members: msgstore.action(text, {}, **members)]


@pytest.mark.parametrize("build", BUILDERS)
def test_a_message_with_an_idempotency_key_is_stored_once(store, build):
    seq, = store.append(build("x", idempotency_key="k"), "l")
    assert store.append(build("x", idempotency_key="k"), "l") == [seq]
    assert store.query("l")[0]["idempotency_key"] == "k"
    with pytest.raises(msgstore.KeyReusedError):
        store.append(build("y", idempotency_key="k"), "l")
    store.hide(seq)
    assert store.append(build("x", idempotency_key="k"), "l") == [seq]
    assert store.query("l") == []
    assert store.append(build("x", idempotency_key="k"), "other") == [seq + 1]
    assert "idempotency_key" not in build("x", idempotency_key=None)


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("members, words", [
    ({"key": "k"}, "idempotency_key="), ({"idempotency_key": 3}, "idempotency_key is an? int"),
    ({"idempotency_key": ""}, "idempotency_key.*1 to 1023 bytes"),
    ({"idempotency_key": "\u00e4" * 512}, "idempotency_key.*1 to 1023 bytes"),
    ({"tool_call_id": 3}, "tool_call_id is an? int")])
def test_builders_refuse_keys_and_ids_that_the_store_would_not_use(build, members, words):
    with pytest.raises(msgstore.ArgumentError, match=words) as caught:
        build("x", **members)
    assert caught.value.path in members
    build("x", idempotency_key="\u00e4" * 511 + "a")


def test_builders_refuse_a_call_id_that_is_no_string():
    for build in (lambda id: msgstore.observation("x", id),
                  lambda id: msgstore.action("f", {}, id)):
        for wrong in (3, b"c", ["c"]):
            with pytest.raises(msgstore.ArgumentError, match="tool_call_id") as caught:
                build(wrong)
            assert caught.value.code == "E_KIND" and caught.value.path == "tool_call_id"
        assert "tool_call_id" not in build(None)


def test_a_member_named_key_is_of_the_user(store):
    store.append({"type": "user_message", "content": "x", "key": "k"}, "l")
    assert store.query("l")[0]["key"] == "k"


def test_a_request_without_a_model_names_the_argument(store):
    store.append([msgstore.user("x"), msgstore.assistant("y")], "l")
    for call in (store.request, lambda *args: store.compact_request(*args, 1)):
        with pytest.raises(msgstore.ArgumentError, match="model=") as caught:
            call("l", "openai")
        assert caught.value.path == "model" and caught.value.code == "E_ARGUMENT"
        assert "opts" not in str(caught.value)


def test_extra_has_members_of_the_body_also_with_names_of_arguments(store):
    store.append(msgstore.user("x"), "l")
    how = {"type": "enabled", "budget_tokens": 1024}
    body = store.request("l", "anthropic", model="m", extra={"thinking": how}, top_k=3)
    assert body["thinking"] == how and body["top_k"] == 3 and "extra" not in body
    body = store.compact_request("l", "anthropic", 1, model="m", extra={"thinking": how})
    assert body["thinking"] == how
    assert "extra" not in store.request("l", "openai", model="m", extra={})
    body = store.request("l", "openai", model="m", extra={"extra": {"a": 1}})
    assert body["extra"] == {"a": 1}
    with pytest.raises(msgstore.ArgumentError, match=r'extra=\{"thinking": ') as caught:
        store.request("l", "anthropic", model="m", thinking=how)
    assert caught.value.path == "thinking"
    with pytest.raises(msgstore.ArgumentError, match="top_k is passed twice"):
        store.request("l", "anthropic", model="m", extra={"top_k": 3}, top_k=3)
    for wrong in ([1], "x", 3):
        with pytest.raises(msgstore.ArgumentError, match="extra is an? .*dict"):
            store.request("l", "anthropic", model="m", extra=wrong)


@pytest.mark.parametrize("call, name", [
    (lambda s: s.request("l", "openai", model="m", messages=[]), "messages"),
    (lambda s: s.request("l", "openai", model="m", extra={"messages": []}), "messages"),
    (lambda s: s.request("l", "gemini", extra={"contents": []}), "contents"),
    (lambda s: s.request("l", "openai-responses", model="m", previous=True, store=False),
     "store")])
def test_a_member_that_the_request_writes_is_refused_by_its_name(store, call, name):
    store.append(msgstore.user("x"), "l")
    with pytest.raises(msgstore.ArgumentError, match=f"the request writes {name} itself"
                       ) as caught:
        call(store)
    assert caught.value.path == name


def test_thinking_that_is_not_sent_is_counted_as_the_readme_says(store):
    block = {"type": "thinking", "thinking": "hm", "signature": "s"}
    store.append(msgstore.user("x"), "l")
    store.answer({"type": "message", "role": "assistant", "model": "m", "content": [
        block, {"type": "text", "text": "y"}], "stop_reason": "end_turn"}, "anthropic", "l")
    store.append(msgstore.user("z"), "l")
    body = store.request("l", "anthropic", model="m")
    assert body.report["dropped"] == 1 and body.report["thinking_missing"] == 0
    assert "signature" not in json.dumps(body["messages"])
    body = store.request("l", "anthropic", model="m", thinking=True)
    assert body.report["dropped"] == 0 and block in body["messages"][1]["content"]


def test_errors_name_the_key_as_messages_do(store):
    store.append([msgstore.user("x", idempotency_key="k"), msgstore.user("z")], "l")
    with pytest.raises(msgstore.KeyReusedError) as caught:
        store.append([msgstore.user("a"), msgstore.user("y", idempotency_key="k")], "l")
    assert caught.value.path == "messages[1].idempotency_key"
    assert str(caught.value).startswith(
        "messages[1].idempotency_key: idempotency_key 'k' belongs to message 1")
    for seq, now in ((1, "'k'"), (2, "none")):
        with pytest.raises(msgstore.ArgumentError) as caught:
            store.amend(seq, msgstore.user("y", idempotency_key="k2"))
        assert str(caught.value) == ("the idempotency_key of a message cannot be changed: "
                                     f"it is {now}, not 'k2'")
        assert caught.value.path == "idempotency_key"


def test_a_folder_is_no_log(store, tmp_path):
    for call in (msgstore.open, msgstore.verify, msgstore.rewrite, store.copy,
                 lambda path: msgstore.open(path, mode="read")):
        with pytest.raises(IsADirectoryError, match="is a folder, not a log") as caught:
            call(tmp_path)
        assert type(caught.value) is msgstore.FolderError
        assert not isinstance(caught.value, msgstore.DamagedError)
        assert (caught.value.errno, caught.value.filename) == (21, str(tmp_path))
        again = pickle.loads(pickle.dumps(caught.value))
        assert (again.errno, str(again)) == (21, str(caught.value))
    (tmp_path / "x").write_bytes(b"x" * 9000)
    with pytest.raises(msgstore.DamagedError):
        msgstore.open(tmp_path / "x")


def test_an_iteration_raises_once_the_store_is_closed():
    for filters in ({}, {"reverse": True}, {"format": "openai"}):
        store = msgstore.open()
        store.append([msgstore.user("a"), msgstore.assistant("b")], "l")
        messages = store.messages("l", **filters)
        next(messages)
        store.close()
        with pytest.raises(msgstore.MsgstoreError) as caught:
            next(messages)
        assert caught.value.code == "E_CLOSED"


def test_words_have_types_to_import():
    assert msgstore.Provider is words.Provider and msgstore.Format is words.Format
    assert {"Provider", "Format"} <= set(msgstore.__all__)


def test_backup_and_copy_name_what_is_missing(store, tmp_path):
    path = tmp_path / "no" / "x.msl"
    for call in (store.backup, store.copy):
        with pytest.raises(FileNotFoundError) as caught:
            call(path)
        assert isinstance(caught.value, msgstore.MissingFileError)
        assert caught.value.errno == 2 and caught.value.filename == str(path)


def test_history_refuses_a_limit_without_a_timeline(store):
    store.append([msgstore.user(str(n)) for n in range(3)], "l")
    with pytest.raises(msgstore.ArgumentError, match="conversation_limit"):
        store.history("l", "w", limit=1)
    assert len(store.history("l", "w", limit=1, timeline=True)) == 1


def test_query_filters_by_agent_without_views(store):
    store.append([msgstore.user("q"), msgstore.action("f", {}, agent_key="w")], "l")
    assert [m.seq for m in store.query("l", agent_key="w")] == [2]
    assert store.query("l", agent_key="zzz") == store.query(agent_keys=["zzz"]) == []
    assert store.query("l", agent_keys=[]) == []
    assert store.query("l", views=[]) == store.query("l", types=[]) == []
    assert [m["seq"] for m in store.search("f", agent_key="w")] == [2]


def test_damage_shows_in_pages_and_at_open(tmp_path):
    path = tmp_path / "log.msl"
    with msgstore.open(path) as log:
        for n in range(50):
            log.append(msgstore.user(f"message {n}"), "l")
    data = path.read_bytes()
    path.write_bytes(data.replace(b"message 20", b"message 2x"))
    with pytest.warns(RuntimeWarning, match="log.msl.*verify"):
        log = msgstore.open(path)
    page = log.query("l")
    assert len(page) == 49 and page.damaged == 1
    log.close()


def test_damage_shows_in_iterations_searches_and_listings(tmp_path):
    path = tmp_path / "log.msl"
    with msgstore.open(path) as log:
        for n in range(50):
            log.append(msgstore.user(f"message {n}", agent_key="w"), "l")
        assert (log.search("message").damaged, log.locations().damaged) == (0, 0)
        assert len(list(log)) == 50
    data = path.read_bytes()
    path.write_bytes(data.replace(b"message 20", b"message 2x"))
    with pytest.warns(RuntimeWarning):
        log = msgstore.open(path)
    with log:
        for options in ({}, {"reverse": True}):
            read = []
            with pytest.raises(msgstore.DamagedError):
                for message in log.messages("l", **options):
                    read.append(message.seq)
            assert sorted(read) == [n for n in range(1, 51) if n != 21]
        matches = log.search("message", limit=0)
        assert len(matches) == 49 and matches.damaged == 1
        assert log.locations().damaged == 1 and log.agents("l").damaged == 1


def test_every_argument_reaches_the_library(store, monkeypatch):
    class Seen(Exception):
        pass

    def call(name, handle, args, *body):
        raise Seen(name, args)

    def opening(args):
        raise Seen("open", args)

    lists = {"views", "types", "agent_keys", "subordinates", "locations"}
    forms = {"tools": [{"tool": 1}], "extra": {"member": 1}, "format": "openai",
             "keep_unset_times": True}
    calls = {"query": store.query, "history": store.history, "request": store.request,
             "compact_plan": store.compact_plan, "compact_request": store.compact_request,
             "pending": store.pending, "search": store.search, "amend": store.amend,
             "usage": store.usage, "fork": store.fork, "note": store.note,
             "rewind": store.rewind, "hide": store.hide, "redact": store.redact,
             "append": lambda **how: store.append([], **how),
             "answer": lambda **how: store.answer({}, **how),
             "compact": lambda all, **how: store.compact(for_all=all, **how),
             "backup": lambda to_path, **how: store.backup(to_path, **how),
             "copy": lambda from_path, **how: store.copy(from_path, **how),
             "rewrite": msgstore.rewrite, "open": msgstore.open}
    monkeypatch.setattr(msgstore._ffi, "call", call)
    monkeypatch.setattr(msgstore._ffi, "open_store", opening)
    of_buffers = ("buffer_at", "buffer_size", "attach", "salvage")
    for name, run in calls.items():
        given = {one: [one] if one in lists else forms.get(one, one)
                 for one in _flat.ARGUMENTS[name] if one not in of_buffers}
        with pytest.raises(Seen) as caught:
            run(**given)
        assert caught.value.args == (name, given)
    for run, given in ((store.locations, {"prefix": "p", "limit": 1}),
                       (store.agents, {"location": "l", "limit": 1})):
        with pytest.raises(Seen) as caught:
            run(**given)
        more = {"agents": True} if run == store.agents else {}
        assert caught.value.args == ("list", {**given, **more})


def test_a_text_is_no_list_of_locations(tmp_path):
    path = tmp_path / "log.msl"
    with msgstore.open(path) as log:
        log.append(msgstore.user("a"), "chat")
        with pytest.raises(msgstore.ArgumentError, match="a list was expected") as caught:
            log.backup(tmp_path / "copy.msl", locations="chat")
        assert caught.value.path == "locations"
        assert not (tmp_path / "copy.msl").exists()
        with msgstore.open() as other, pytest.raises(msgstore.ArgumentError):
            other.copy(path, locations="chat")
    with pytest.raises(msgstore.ArgumentError):
        msgstore.rewrite(path, locations="chat")
    with msgstore.open(path, mode="read") as log:
        assert [m.content for m in log] == ["a"]


def test_a_rewind_to_nothing_hides_nothing(store):
    store.append([msgstore.user("a"), msgstore.user("b")], "l")
    with pytest.raises(msgstore.ArgumentError) as caught:
        store.rewind("l", None)
    assert caught.value.path == "seq" and len(store) == 2
    assert store.rewind("l", 1) == 1 and store.rewind("l") == 1


def test_an_empty_location_is_not_all_of_them(store):
    store.append(msgstore.user("a"), "l")
    for call in (store.query, store.agents, store.usage, store.messages,
                 lambda location: store.search("a", location)):
        with pytest.raises(msgstore.ArgumentError) as caught:
            list(call(""))
        assert caught.value.path == "location"


@pytest.mark.parametrize("path, stored", [("usage", 1), (None, 2)])
def test_an_answer_is_not_repeated_for_its_usage(tmp_path, monkeypatch, path, stored):
    body = {"choices": [{"message": {"content": "hi"}}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
    run, refusals = msgstore._ffi._run, [1]

    def busy(function, *arguments, **how):
        result = run(function, *arguments, **how)
        if b"answer" in arguments and refusals and refusals.pop():
            raise msgstore.BusyError("E_BUSY", "busy", path)
        return result

    with msgstore.open(tmp_path / "log.msl", shared=True) as log:
        monkeypatch.setattr(msgstore._ffi, "_run", busy)
        if path:
            with pytest.raises(msgstore.BusyError):
                log.answer(body, "openai", "l")
        else:
            log.answer(body, "openai", "l")
        assert len(log) == stored


@pytest.mark.parametrize("path", ["", b"", "a\udcffb"])
def test_open_refuses_a_path_that_is_none(path):
    with pytest.raises(msgstore.ArgumentError, match="path"):
        msgstore.open(path)


def test_open_takes_a_path_of_bytes(tmp_path):
    with msgstore.open(os.fsencode(tmp_path / "log.msl")) as log:
        assert log.path == str(tmp_path / "log.msl")


def test_an_empty_store_is_true(store):
    assert store and len(store) == 0


def test_action_takes_arguments_as_a_provider_has_them(store):
    store.append([msgstore.action("f", '{"a":1}', "c1"), msgstore.action("f", "{", "c2")], "l")
    assert [m["args"] for m in store.query("l")] == [{"a": 1}, "{"]
    for wrong in ([1], 3, None):
        with pytest.raises(msgstore.ArgumentError) as caught:
            msgstore.action("f", wrong)
        assert caught.value.path == "args"


def test_versions_agree(store):
    assert store.stat()["version"] == msgstore.__version__


def test_a_note_takes_any_json_but_null(store):
    store.append(msgstore.user("a"), "l")
    for value in (False, 0, "", [], {}):
        store.note(1, "rating", value)
    with pytest.raises(msgstore.ArgumentError, match="value is None.*but null") as caught:
        store.note(1, "rating", None)
    assert caught.value.path == "value"


@pytest.mark.parametrize("call, words", [
    (lambda s: s.append(None, "l"), "messages is None"),
    (lambda s: s.append("text", "l"), "messages is a str"),
    (lambda s: s.append(msgstore.action("f", {"x": float("nan")}), "l"), "NaN"),
    (lambda s: s.append(msgstore.user(b"x"), "l"), "JSON"),
    (lambda s: s.append({"role": "user", "content": "x"}, "l"), "openai"),
    (lambda s: s.answer(None, "openai", "l"), "body is None"),
    (lambda s: s.answer([], "openai", "l"), "body is a list"),
    (lambda s: s.request("l", "openai", tools=["weather"]), r"tools\[0\] is a str"),
    (lambda s: msgstore.open("x", mode="append"), "create write new read"),
    (lambda s: s.request("l", "opnai"), 'provider is "opnai".* openai '),
    (lambda s: s.answer({}, "opnai", "l"), 'provider is "opnai".* openai '),
    (lambda s: s.query("l", format="opnai"), 'format is "opnai".* openai '),
    (lambda s: s.append([], "l", format="opnai"), 'format is "opnai".* openai '),
])
def test_errors_help(store, call, words):
    with pytest.raises(msgstore.ArgumentError, match=words):
        call(store)


def test_answer_takes_the_object_of_an_sdk(store):
    class Response:
        def model_dump(self, **_):
            return {"choices": [{"message": {"role": "assistant", "content": "hi"}}]}

    store.answer(Response(), "openai", "l")
    assert store.query("l")[0].content == "hi"


def test_a_missing_file_is_a_file_not_found_error(tmp_path):
    for path, mode in ((tmp_path / "none.msl", "read"), (tmp_path / "no" / "x", "create")):
        with pytest.raises(FileNotFoundError) as caught:
            msgstore.open(path, mode=mode)
        assert isinstance(caught.value, msgstore.NotFoundError)
        assert caught.value.filename == str(path) and caught.value.errno == 2
        assert str(caught.value) == caught.value.message and str(path) in str(caught.value)


def test_error_classes_have_the_name_of_the_package():
    assert {getattr(msgstore, name).__module__ for name in msgstore.__all__
            if name.endswith("Error")} == {"msgstore"}


def test_shared_open_beside_an_unshared_one_says_why(tmp_path):
    with msgstore.open(tmp_path / "log.msl"):
        with pytest.raises(msgstore.BusyError, match="open it as shared"):
            msgstore.open(tmp_path / "log.msl", shared=True)


def test_numbers_longer_than_python_reads_are_floats(store):
    store.answer({"choices": [{"message": {"tool_calls": [{"id": "c", "function": {
        "name": "f", "arguments": '{"n": %s, "m": 7}' % ("9" * 5000)}}]}}]}, "openai", "l")
    assert store.query("l")[0]["args"] == {"n": float("inf"), "m": 7}
    assert len(list(store)) == 1


@pytest.mark.parametrize("error", [
    msgstore.ConflictError("E_CONFLICT", "m", "p", 3), msgstore.StorageError("E_IO", "m"),
    msgstore.RefusedError("E_REFUSED", "m", None, None)])
def test_errors_can_be_pickled(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error)
    assert (again.code, again.path, again.offset) == (error.code, error.path, error.offset)


def test_a_pickled_error_keeps_file_and_report(tmp_path):
    with pytest.raises(msgstore.MissingFileError) as caught:
        msgstore.open(tmp_path / "none.msl", mode="read")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.errno, again.filename) == (2, str(tmp_path / "none.msl"))
    damaged = msgstore.DamagedError("E_DAMAGED", "m")
    damaged.result = {"damaged": 1}
    assert pickle.loads(pickle.dumps(damaged)).result == {"damaged": 1}


def test_a_store_has_no_copies(store):
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="open"):
            make(store)
    assert store.append(msgstore.user("a"), "l") == [1]


def test_verify_of_a_missing_file_is_a_file_not_found_error(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        msgstore.verify(tmp_path / "none.msl")
    assert caught.value.filename == str(tmp_path / "none.msl")


def test_too_deep_a_message_is_an_argument_error(store):
    deep = []
    for _ in range(100000):
        deep = [deep]
    with pytest.raises(msgstore.ArgumentError) as caught:
        store.append(msgstore.user(deep), "l")
    assert caught.value.code == "E_DEPTH"
    while deep:  # freed step by step
        deep = deep.pop()


@pytest.mark.parametrize("form", [str, bytes, dict])
def test_an_answer_with_a_lone_surrogate_is_stored(store, form):
    text = '{"choices": [{"message": {"content": "x\ud800y"}}]}'
    store.answer({str: text, bytes: text.encode("ascii", "backslashreplace"),
                  dict: json.loads(text)}[form], "openai", "l")
    assert store.query("l")[0].content == "x\ufffdy"


def test_a_long_wait_is_cut(store):
    store.append(msgstore.user("a"), "l")
    assert store.wait(0, float("inf")) == store.wait(0, 1e30) == 1


def test_iteration_takes_iterators_limits_and_orders(store):
    store.append([msgstore.user(str(n)) for n in range(600)]
                 + [msgstore.assistant(str(n)) for n in range(600)], "l")
    users = iter(["user_message"])
    assert [m.seq for m in store.messages("l", types=users)] == list(range(1, 601))
    assert [m.seq for m in store.messages("l", limit=2)] == [1199, 1200]
    assert [m.seq for m in store.messages("l", limit=2, oldest=True)] == [1, 2]
    assert len(list(store.messages("l", limit=None, oldest=True))) == 1200


def test_a_text_is_no_list_of_names(store):
    store.append(msgstore.action("f", {}, agent_key="worker"), "l")
    for call in (lambda: store.query("l", agent_keys="worker"),
                 lambda: store.history("l", "m", subordinates="worker"),
                 lambda: store.request("l", "openai", agent_key="m", subordinates="worker"),
                 lambda: list(store.messages("l", types="action")),
                 lambda: store.search("f", types="action")):
        with pytest.raises(msgstore.ArgumentError, match="a list was expected"):
            call()


def test_an_observation_can_be_an_error(store):
    store.append([msgstore.action("f", {}, "c"),
                  msgstore.observation("no", "c", type="error")], "l")
    assert store.query("l")[1].type == "error"


def test_append_of_nothing_compares(store):
    store.append(msgstore.user("a"), "l")
    assert store.append([], "l", expect_seq=1) == []
    with pytest.raises(msgstore.ConflictError):
        store.append([], "l", expect_seq=0)
    with pytest.raises(msgstore.ArgumentError) as caught:
        store._change("set_facts", location="l", value=[1])
    assert caught.value.path == "value"


def test_a_build_without_stb_ds_says_how_to_get_it(tmp_path):
    pytest.importorskip("setuptools")
    source = (pathlib.Path(__file__).parents[1] / "setup.py").read_text()
    for name in ("msgstore.h", "msgstore_ffi.h"):
        (tmp_path / "csrc").mkdir(exist_ok=True)
        (tmp_path / "csrc" / name).touch()
    names = {"__file__": str(tmp_path / "setup.py"), "__name__": "setup"}
    exec(source.split("\nvendor()\n")[0], names)
    names["COPIES"][:] = [(target, [tmp_path / "none"]) for target, _ in names["COPIES"]]
    with pytest.raises(SystemExit, match="stb_ds.h was found in none(?s:.)*libstb-dev.*"
                                         "STB_INC"):
        names["vendor"]()
