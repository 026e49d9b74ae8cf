"""Checkpoints and long-term memory of LangGraph over a store.

    graph = builder.compile(checkpointer=MsgstoreSaver(log), store=MsgstoreStore(log))

Locations; JSON strings keep the names in them apart:

    langgraph[THREAD, NS]      one message a checkpoint; agent_key is its id
    langgraph-writes[THREAD]   one message a write; agent_key is [NS, ID] of its checkpoint
    langgraph-spaces[THREAD]   the namespaces of a thread, but for ""
    langgraph-store[LABEL...]  one message an item of MsgstoreStore; agent_key is its key
    langgraph-below[LABEL...]  the namespaces of items that begin with these labels

A checkpoint, its metadata and each write are what the serializer of the saver makes of
them, in base64. A checkpoint is whole: none needs another one. What is deleted is hidden
from every read; `msgstore compact FILE OUT` writes a file without it.
"""

from __future__ import annotations

import asyncio
import base64
import heapq
import itertools
import json
import operator
import random
import threading
import time
import warnings
from datetime import datetime, timezone
from typing import (Any, AsyncIterator, Dict, Iterable, Iterator, List, NamedTuple,
                    Optional, Sequence, Set, Tuple, cast)

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (WRITES_IDX_MAP, BaseCheckpointSaver, ChannelVersions,
                                       Checkpoint, CheckpointMetadata, CheckpointTuple,
                                       get_checkpoint_id, get_checkpoint_metadata)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.store.base import (BaseStore, GetOp, Item, ListNamespacesOp, MatchCondition,
                                  Op, PutOp, Result, SearchItem, SearchOp)

from .._ffi import ArgumentError, ConflictError, NotFoundError, UnsupportedError
from ..store import History, Message, Store
from ._items import read, store_of, warn_of, wrap

_PAGE = 64       # most checkpoints in one read; the first read of a list has one
_TRIES = 1000    # of a put, while other writers put into the same thread
_KEPT = 10000    # threads and namespaces that are remembered between calls


def _name(kind: str, *names: str) -> str:
    return kind + json.dumps(names, ensure_ascii=False)


def _names(location: str) -> Tuple[str, ...]:
    return tuple(json.loads(location[location.index("["):]))


def _hide(store: Store, seq: int) -> None:
    try:
        store.hide(seq)
    except NotFoundError:  # another writer was first
        pass


class _Newest(NamedTuple):
    """The last message of a location with checkpoints."""

    seq: int = 0
    id: str = ""
    late: bool = False  # a checkpoint before it has a greater id, or may have


def _of(config: RunnableConfig) -> Dict[str, Any]:
    return config.get("configurable") or {}


def _thread(config: RunnableConfig) -> Tuple[str, str]:
    """Returns the thread and the checkpoint namespace of a config."""
    return str(_of(config)["thread_id"]), _of(config).get("checkpoint_ns") or ""


def _config(thread: str, ns: str, key: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns,
                             "checkpoint_id": key}}


class MsgstoreSaver(BaseCheckpointSaver[str]):
    """The checkpoints of a store, for `compile(checkpointer=...)`.

    The newest checkpoint of a thread is the one with the greatest id. Ids grow with time,
    so it is the last message of its location, unless a writer was late: a message says
    whether all before it have smaller ids, and its append compares, so that this holds
    with any number of writers."""

    def __init__(self, store: Store, *, serde: Optional[SerializerProtocol] = None):
        super().__init__(serde=serde)
        self.store = store_of(store)
        self._last: Dict[str, _Newest] = {}
        self._changing = threading.Lock()
        self._warned = False

    # ---- Reading.

    def _query(self, location: str, **filters: Any) -> History:
        page = self.store.query(location, types=["data"], **filters)
        if page.damaged and not self._warned:
            self._warned = True
            warnings.warn("parts of the log are damaged: checkpoints or writes are missing",
                          RuntimeWarning, stacklevel=3)
        return page

    def _dump(self, value: Any) -> List[str]:
        kind, data = self.serde.dumps_typed(value)
        return [kind, base64.b64encode(data).decode("ascii")]

    def _load(self, pair: Sequence[str]) -> Any:
        return self.serde.loads_typed((pair[0], base64.b64decode(pair[1])))

    def _down(self, location: str, before: Optional[int] = None) -> Iterator[Message]:
        """The messages of a location, newest first; the first read has one."""
        size = 1
        while True:
            page = self._query(location, limit=size, before_seq=before)
            yield from reversed(page)
            if len(page) < size:
                return
            size, before = min(4 * size, _PAGE), page[0].seq

    def _walk(self, location: str, before: Optional[str] = None) -> Iterator[Message]:
        """The checkpoints of a location with ids less than `before`, by falling ids; of
        one id the newest."""
        messages = self._down(location)
        first = next(messages, None)
        if first is None:
            return
        messages = itertools.chain([first], messages)
        if "late" in first["item"]:
            found: Dict[str, Message] = {}
            for message in messages:
                found.setdefault(message["agent_key"], message)
            yield from (found[key] for key in sorted(found, reverse=True)
                        if before is None or key < before)
            return
        start = self._query(location, agent_key=before, limit=1) if before else None
        if start:
            messages = self._down(location, start[0].seq)
        last = before
        for message in messages:
            key = message["agent_key"]
            if key != last and (before is None or key < before):
                yield message
            last = key

    def _writes(self, thread: str, ns: str, key: str) -> List[Message]:
        """The writes of a checkpoint in the order in which its tasks are applied. Of a
        task's writes with one index the first counts, of its error, interrupt and resume
        the last."""
        kept: Dict[Tuple[str, int], Message] = {}
        for message in self._query(_name("langgraph-writes", thread),
                                   agent_key=_name("", ns, key)):
            place = message["item"]["task"], message["item"]["index"]
            if place not in kept or place[1] < 0:
                kept[place] = message
        return [kept[place] for place in
                sorted(kept, key=lambda place: (kept[place]["item"]["path"], place))]

    def _tuple(self, message: Message, thread: str, ns: str,
               config: Optional[RunnableConfig] = None) -> CheckpointTuple:
        key, item = message["agent_key"], message["item"]
        writes = [(w["item"]["task"], w["item"]["channel"], self._load(w["item"]["value"]))
                  for w in self._writes(thread, ns, key)]
        parent = item.get("parent")
        return CheckpointTuple(
            config=config or _config(thread, ns, key),
            checkpoint=self._load(item["checkpoint"]),
            metadata=self._load(item["metadata"]),
            parent_config=_config(thread, ns, parent) if parent else None,
            pending_writes=writes)

    def get_tuple(self, config: RunnableConfig) -> Optional[CheckpointTuple]:
        thread, ns = _thread(config)
        location = _name("langgraph", thread, ns)
        key = get_checkpoint_id(config)
        if key:
            page = self._query(location, agent_key=key, limit=1)
            return self._tuple(page[0], thread, ns, config) if page else None
        message = next(self._walk(location), None)
        return None if message is None else self._tuple(message, thread, ns)

    def _spaces(self, thread: str) -> List[str]:
        """The checkpoint namespaces of a thread."""
        found = {m["agent_key"] for m in self._query(_name("langgraph-spaces", thread))}
        return ["", *sorted(found)]

    def _places(self, config: Optional[RunnableConfig]) -> List[Tuple[str, str]]:
        """The threads and namespaces that a config selects."""
        if config is None:
            listed = self.store.locations("langgraph[")
            warn_of(listed.damaged, "langgraph")
            found = [_names(one["location"]) for one in listed]
            return [(thread, ns) for thread, ns in found]
        thread = str(_of(config)["thread_id"])
        ns = _of(config).get("checkpoint_ns")
        return [(thread, one) for one in (self._spaces(thread) if ns is None else [ns])]

    def _selected(self, thread: str, ns: str, key: Optional[str], before: Optional[str],
                  wanted: Dict[str, Any]) -> Iterator[Tuple[str, str, str, Message]]:
        location = _name("langgraph", thread, ns)
        messages: Iterable[Message] = (self._query(location, agent_key=key, limit=1) if key
                                       else self._walk(location, before))
        for message in messages:
            if before is not None and message["agent_key"] >= before:
                continue
            if wanted:
                metadata = self._load(message["item"]["metadata"])
                if any(metadata.get(name) != value for name, value in wanted.items()):
                    continue
            yield message["agent_key"], thread, ns, message

    def list(self, config: Optional[RunnableConfig], *,
             filter: Optional[Dict[str, Any]] = None,
             before: Optional[RunnableConfig] = None,
             limit: Optional[int] = None) -> Iterator[CheckpointTuple]:
        if limit is not None and limit <= 0:
            return
        key = get_checkpoint_id(config) if config else None
        until = get_checkpoint_id(before) if before else None
        places = [self._selected(thread, ns, key, until, filter or {})
                  for thread, ns in self._places(config)]
        merged = heapq.merge(*places, key=lambda one: one[:1], reverse=True)
        for count, (_, thread, ns, message) in enumerate(merged, 1):
            yield self._tuple(message, thread, ns)
            if count == limit:
                return

    # ---- Writing.

    def put(self, config: RunnableConfig, checkpoint: Checkpoint,
            metadata: CheckpointMetadata, new_versions: ChannelVersions) -> RunnableConfig:
        thread, ns = _thread(config)
        values = cast(Dict[str, Any], get_checkpoint_metadata(config, metadata))
        item = {"parent": _of(config).get("checkpoint_id"),
                "run": str(values.get("run_id") or ""), "metadata": self._dump(values),
                "checkpoint": self._dump(checkpoint)}
        text = f"{values.get('source', 'checkpoint')} {values.get('step', '')}".strip()
        self._put(thread, ns, checkpoint["id"], text, item)
        return {"configurable": {"thread_id": _of(config)["thread_id"],
                                 "checkpoint_ns": ns, "checkpoint_id": checkpoint["id"]}}

    def _newest(self, location: str) -> _Newest:
        page = self.store.query(location, limit=1)
        if not page:
            return _Newest()
        if page[0].type != "data" or "item" not in page[0]:  # it is no checkpoint
            return _Newest(page[0].seq, "", True)
        return _Newest(page[0].seq, page[0]["agent_key"], "late" in page[0]["item"])

    def _put(self, thread: str, ns: str, key: str, text: str, item: Dict[str, Any]) -> None:
        location = _name("langgraph", thread, ns)
        for _ in range(_TRIES):
            with self._changing:
                newest = self._last.pop(location, None)
            if newest is None:
                newest = self._newest(location)
            if ns and not newest.seq:
                self._note_space(thread, ns)
            late = newest.late or key < newest.id
            item.pop("late", None)
            message = wrap(Message(type="data", content=text, agent_key=key),
                           {**item, "late": True} if late else item)
            try:
                seq = self.store.append(message, location, expect_seq=newest.seq)[0]
            except ConflictError:  # another writer was first
                continue
            with self._changing:
                if len(self._last) >= _KEPT:
                    self._last.clear()
                self._last[location] = _Newest(seq, key, late)
            return
        raise ConflictError("E_CONFLICT", f"other writers kept {location!r} busy")

    def _note_space(self, thread: str, ns: str) -> None:
        location = _name("langgraph-spaces", thread)
        if not self._query(location, agent_key=ns, limit=1):
            self.store.append(Message(type="data", content="namespace", agent_key=ns),
                              location)

    def put_writes(self, config: RunnableConfig, writes: Sequence[Tuple[str, Any]],
                   task_id: str, task_path: str = "") -> None:
        thread, ns = _thread(config)
        key = _name("", ns, _of(config)["checkpoint_id"])
        messages = [wrap(Message(type="data", content=channel, agent_key=key),
                         {"task": task_id, "path": task_path, "channel": channel,
                          "index": WRITES_IDX_MAP.get(channel, index),
                          "value": self._dump(value)})
                    for index, (channel, value) in enumerate(writes)]
        if messages:
            self.store.append(messages, _name("langgraph-writes", thread))

    # ---- Deleting and copying.

    def delete_thread(self, thread_id: str) -> None:
        thread = str(thread_id)
        for ns in self._spaces(thread):
            self.store.rewind(_name("langgraph", thread, ns), 0)
        self.store.rewind(_name("langgraph-writes", thread), 0)
        self.store.rewind(_name("langgraph-spaces", thread), 0)

    def _drop(self, thread: str, ns: str, message: Message) -> None:
        """Hides a checkpoint, then its writes."""
        _hide(self.store, message.seq)
        for write in self._query(_name("langgraph-writes", thread),
                                 agent_key=_name("", ns, message["agent_key"])):
            _hide(self.store, write.seq)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Deletes the checkpoints of these runs, and their writes. It reads all
        checkpoints of the store."""
        runs = {str(run) for run in run_ids}
        for thread, ns in self._places(None) if runs else []:
            for message in list(self._down(_name("langgraph", thread, ns))):
                if message["item"]["run"] in runs:
                    self._drop(thread, ns, message)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies the checkpoints and writes of a thread to another one, whose own
        checkpoints stay."""
        source, target = str(source_thread_id), str(target_thread_id)
        if source == target:
            return
        for message in self._query(_name("langgraph-writes", source)):
            copied = Message(type="data", content=message["content"],
                             agent_key=message["agent_key"])
            self.store.append(wrap(copied, message["item"]),
                              _name("langgraph-writes", target))
        for ns in self._spaces(source):
            for message in reversed(list(self._walk(_name("langgraph", source, ns)))):
                self._put(target, ns, message["agent_key"], message["content"],
                          message["item"])

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Deletes all checkpoints of the threads but the newest of each namespace, or all
        with the strategy "delete". The ancestors that the newest one's delta channels are
        rebuilt from stay."""
        if strategy not in ("keep_latest", "delete"):
            raise ArgumentError("E_ARGUMENT", f"strategy is {strategy!r}, keep_latest or "
                                "delete was expected", "strategy")
        for thread in map(str, thread_ids):
            if strategy == "delete":
                self.delete_thread(thread)
                continue
            for ns in self._spaces(thread):
                location = _name("langgraph", thread, ns)
                kept = self._needed(location)
                for message in list(self._down(location)):
                    if message.seq not in kept:
                        self._drop(thread, ns, message)

    def _needed(self, location: str) -> Set[int]:
        """The numbers of the newest checkpoint and of the ancestors of its delta
        channels, up to those that have the values."""
        message = next(self._walk(location), None)
        kept: Set[int] = set()
        if message is None:
            return kept
        counters = self._load(message["item"]["metadata"]).get(
            "counters_since_delta_snapshot")
        missing = set(counters or {})
        while message is not None and message.seq not in kept:
            kept.add(message.seq)
            missing -= set(self._load(message["item"]["checkpoint"])["channel_values"])
            parent = message["item"].get("parent")
            if not missing or not parent:
                break
            message = next(iter(self._query(location, agent_key=parent, limit=1)), None)
        return kept

    # ---- The same for asyncio, in threads. A cancelled put may still be stored.

    async def aget_tuple(self, config: RunnableConfig) -> Optional[CheckpointTuple]:
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(self, config: Optional[RunnableConfig], *,
                    filter: Optional[Dict[str, Any]] = None,
                    before: Optional[RunnableConfig] = None,
                    limit: Optional[int] = None) -> AsyncIterator[CheckpointTuple]:
        found = self.list(config, filter=filter, before=before, limit=limit)
        while True:
            one = await asyncio.to_thread(next, found, None)
            if one is None:
                return
            yield one

    async def aput(self, config: RunnableConfig, checkpoint: Checkpoint,
                   metadata: CheckpointMetadata,
                   new_versions: ChannelVersions) -> RunnableConfig:
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(self, config: RunnableConfig, writes: Sequence[Tuple[str, Any]],
                          task_id: str, task_path: str = "") -> None:
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *,
                     strategy: str = "keep_latest") -> None:
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)

    def get_next_version(self, current: Optional[str], channel: None) -> str:
        """Returns the next version of a channel: a count, and digits that keep the
        versions of two branches of a thread apart."""
        count = int(str(current).split(".")[0]) if current is not None else 0
        return f"{count + 1:032}.{random.random():016}"


# ---- Long-term memory.

_COMPARED = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt,
             "$lte": operator.le}


def _compared(value: Any, word: str, wanted: Any) -> bool:
    if word == "$eq":
        return bool(value == wanted)
    if word == "$ne":
        return bool(value != wanted)
    if word not in _COMPARED:
        raise ArgumentError("E_ARGUMENT", f"filter has {word!r}; $eq, $ne, $gt, $gte, $lt "
                            "and $lte are known", "filter")
    try:
        return bool(_COMPARED[word](float(value), float(wanted)))
    except (TypeError, ValueError):  # no number
        return False


def _matches(value: Any, wanted: Any) -> bool:
    """Tells whether a value has what a filter wants: an equal one, an object with such
    members, or one that the operators accept."""
    if isinstance(wanted, dict):
        if any(key.startswith("$") for key in wanted):
            return all(_compared(value, *one) for one in wanted.items())
        return isinstance(value, dict) and all(_matches(value.get(key), one)
                                               for key, one in wanted.items())
    if isinstance(wanted, (list, tuple)):
        return (isinstance(value, list) and len(value) == len(wanted)
                and all(map(_matches, value, wanted)))
    return bool(value == wanted)


def _check(op: Op) -> None:
    """Refuses what is no operation, and what the store cannot keep."""
    if isinstance(op, PutOp):
        if op.ttl is not None:
            raise UnsupportedError("E_UNSUPPORTED", "an item has no time to live here: "
                                   "delete it", "ttl")
        if not op.namespace or not op.key:
            raise ArgumentError("E_ARGUMENT", "an item needs a namespace and a key", "key")
    elif not isinstance(op, (GetOp, SearchOp, ListNamespacesOp)):
        raise ArgumentError("E_KIND", f"this is a {type(op).__name__}, an operation of a "
                            "BaseStore was expected", "ops")


def _selects(condition: MatchCondition, namespace: Tuple[str, ...]) -> bool:
    path = tuple(condition.path)
    if len(path) > len(namespace):
        return False
    if condition.match_type == "prefix":
        part = namespace[:len(path)]
    elif condition.match_type == "suffix":
        part = namespace[len(namespace) - len(path):]
    else:
        raise ArgumentError("E_ARGUMENT", f"match_type is {condition.match_type!r}, prefix "
                            "or suffix was expected", "match_conditions")
    return all(label in ("*", own) for label, own in zip(path, part))


def _members(message: Message, namespace: Tuple[str, ...]) -> Dict[str, Any]:
    item = message["item"]
    return {"namespace": namespace, "key": message["agent_key"],
            "value": message["content"],
            "created_at": datetime.fromtimestamp(item["created"], timezone.utc),
            "updated_at": datetime.fromtimestamp(item["updated"], timezone.utc)}


class MsgstoreStore(BaseStore):
    """The items of a store, for `compile(store=...)`.

    A search has the items that were put last first. It has no index of meanings: a search
    with a query in words, and an item with a time to live, are refused. Of items put by
    two writers at once under one key the last stays."""

    def __init__(self, store: Store):
        self.store = store_of(store)
        self._known: Set[Tuple[str, ...]] = set()

    def _down(self, namespace: Tuple[str, ...]) -> Iterator[Message]:
        """The items of a namespace, the last first; of one key the last."""
        before, seen = None, set()
        while True:
            page = read(self.store, _name("langgraph-store", *namespace), types=["data"],
                        limit=_PAGE, before_seq=before)
            for message in reversed(page):
                if message["agent_key"] not in seen:
                    yield message
                seen.add(message["agent_key"])
            if len(page) < _PAGE:
                return
            before = page[0].seq

    def _stored(self, namespace: Tuple[str, ...], key: str) -> History:
        return read(self.store, _name("langgraph-store", *namespace), agent_key=key)

    def _get(self, op: GetOp) -> Optional[Item]:
        found = self._stored(op.namespace, op.key)
        return Item(**_members(found[-1], op.namespace)) if found else None

    def _search(self, op: SearchOp) -> List[SearchItem]:
        if op.query is not None:
            raise UnsupportedError("E_UNSUPPORTED", "there is no index of meanings: search "
                                   "without a query, or by Store.search", "query")
        prefix = tuple(op.namespace_prefix)
        below = {_names(m["agent_key"]) for m in
                 read(self.store, _name("langgraph-below", *prefix), types=["data"])}
        if prefix:
            below.add(prefix)
        found = heapq.merge(*map(self._numbered, sorted(below)), reverse=True,
                            key=lambda one: one[0])
        chosen = (SearchItem(**_members(message, namespace))
                  for _, namespace, message in found
                  if _matches(message["content"], op.filter or {}))
        return list(itertools.islice(chosen, op.offset, op.offset + op.limit))

    def _numbered(self, namespace: Tuple[str, ...]
                  ) -> Iterator[Tuple[int, Tuple[str, ...], Message]]:
        return ((message.seq, namespace, message) for message in self._down(namespace))

    def _list(self, op: ListNamespacesOp) -> List[Tuple[str, ...]]:
        listed = self.store.locations("langgraph-store[")
        warn_of(listed.damaged, "langgraph-store")
        found = {_names(one["location"]) for one in listed}
        chosen = {namespace[:op.max_depth] for namespace in found
                  if all(_selects(one, namespace) for one in op.match_conditions or ())}
        return sorted(chosen)[op.offset:op.offset + op.limit]

    def _new_namespace(self, namespace: Tuple[str, ...]) -> List[Message]:
        """Makes the messages that note a namespace under each of its beginnings, unless
        they are there."""
        name = _name("", *namespace)
        if namespace in self._known or self.store.query(
                _name("langgraph-below", *namespace[:-1]), agent_key=name, limit=1):
            return []
        return [Message(type="data", content="namespace", agent_key=name,
                        location=_name("langgraph-below", *namespace[:size]))
                for size in range(len(namespace))]

    def _put(self, ops: Dict[Tuple[Tuple[str, ...], str], PutOp]) -> None:
        """Appends all items, all or none, then hides those that they replace."""
        spaces = sorted({namespace for (namespace, _), op in ops.items()
                         if op.value is not None})
        messages = [m for namespace in spaces for m in self._new_namespace(namespace)]
        old: List[int] = []
        now = time.time()
        for (namespace, key), op in ops.items():
            stored = self._stored(namespace, key)
            old += [message.seq for message in stored]
            if op.value is not None:
                created = stored[-1]["item"]["created"] if stored else now
                message = Message(type="data", content=dict(op.value), agent_key=key,
                                  location=_name("langgraph-store", *namespace))
                messages.append(wrap(message, {"created": created, "updated": now}))
        if messages:
            self.store.append(messages)
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known.update(spaces)
        for seq in old:
            _hide(self.store, seq)

    def batch(self, ops: Iterable[Op]) -> List[Result]:
        """Runs the reads, then the puts; of several puts of one key the last."""
        results: List[Result] = []
        puts: Dict[Tuple[Tuple[str, ...], str], PutOp] = {}
        for op in ops:
            _check(op)
            if isinstance(op, PutOp):
                puts[tuple(op.namespace), op.key] = op
                results.append(None)
            elif isinstance(op, GetOp):
                results.append(self._get(op))
            elif isinstance(op, SearchOp):
                results.append(self._search(op))
            else:
                results.append(self._list(op))
        self._put(puts)
        return results

    async def abatch(self, ops: Iterable[Op]) -> List[Result]:
        return await asyncio.to_thread(self.batch, list(ops))
