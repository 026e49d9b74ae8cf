"""Sessions of the OpenAI Agents SDK over a store.

    store = msgstore.open("agents.msl")
    session = MsgstoreSession(store, "chat_1")
    await Runner.run(agent, "Hello", session=session)

MsgstoreCompactionSession also compacts: a long history is sent as OpenAI's compaction of
it, and stays in the store.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set

from agents.memory import SessionSettings

from .._ffi import ArgumentError, ConflictError, NotFoundError, _kind
from ..store import History, Message, Store, action, observation
from ._items import (chat, items, location_of, object_of, read, settled, store_of,
                     text_of, wrap)


def _message(item: Dict[str, Any], place: int) -> Message:
    if not isinstance(item, dict):
        raise ArgumentError("E_KIND", f"items[{place}] is {_kind(item)}, a dict was expected",
                            f"items[{place}]")
    kind = item.get("type", "message")
    if kind == "function_call":
        message = action(item.get("name") or "", object_of(item.get("arguments")),
                         item.get("call_id"))
    elif kind == "function_call_output":
        message = observation(text_of(item.get("output")), item.get("call_id"))
    elif kind == "message" and "role" in item:
        message = chat(item["role"], item.get("content"))
    else:
        message = Message(type="injected_context", content=f"[{kind}]")
    return wrap(message, item)


PROVIDER = "openai-responses"
log = logging.getLogger("msgstore")


class _Compaction(NamedTuple):
    seq: int
    keep: int  # messages before it that stay
    items: List[Any]
    model: Optional[str]


def _compaction(message: Message) -> Optional[_Compaction]:
    """Returns what a compaction has for a session: items of Responses, or a summary."""
    made, signed = (value if isinstance(value, dict) else {} for value in
                    (message.get("compaction"), message.get("signed")))
    keep = made.get("keep")
    if "agent_key" in message or message.get("outcome") == "interrupted":
        return None
    if not isinstance(keep, int) or isinstance(keep, bool) or keep < 0:
        return None  # it does not say what it covers
    found, text = made.get("items"), text_of(message.content)
    if not isinstance(found, list) or signed.get("provider") != PROVIDER:
        if not text.strip():
            return None
        if made.get("plain") is not True:
            text = f"<conversation_summary>\n{text}\n</conversation_summary>"
        found = [{"role": "user", "content": text}]
    return _Compaction(message.seq, keep, found, signed.get("model"))


class MsgstoreSession:
    """One conversation; its items come back exactly as they were added.

    session_settings: the SDK's SessionSettings, or a dict of its members.

    A removed item is hidden, not erased: a location that was forked before still has it.
    ``msgstore compact`` drops it. Messages of other writers are no items: reading warns of
    them, and they stay until the session is cleared. An amended message has the ``item``
    of its amendment, or none. But for compactions (``Store.compact``): the newest one of
    all agents is read instead of what it covers.
    """

    def __init__(self, store: Store, session_id: str, *, location: Optional[str] = None,
                 session_settings: Any = None):
        self.session_id = session_id
        self.session_settings: Optional[SessionSettings] = SessionSettings().resolve(
            session_settings)
        self.store = store_of(store)
        self.location = location_of(session_id if location is None else location)

    async def get_items(self, limit: Optional[int] = None) -> List[Any]:
        """Returns all items, or the newest ``limit``, oldest first."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        if limit is not None and limit <= 0:
            return []
        return await asyncio.to_thread(self._newest, limit)

    def _newest(self, limit: Optional[int]) -> List[Any]:
        if limit is None:
            return self._read()
        found = read(self.store, self.location, limit=limit)
        if any("item" not in message for message in found):
            return self._read()[-limit:]
        return self._items(found)

    def _items(self, found: History) -> List[Any]:
        return items(found, self.location, ["compaction"])

    def _in_use(self) -> Optional[_Compaction]:
        """Returns the newest compaction that has something for a session."""
        before = None
        while True:
            found = read(self.store, self.location, types=["compaction"], limit=1,
                         before_seq=before)
            if not found:
                return None
            made = _compaction(found[0])
            if made is not None:
                return made
            before = found[0].seq

    def _read(self, made: Optional[_Compaction] = None,
              last: Optional[int] = None) -> List[Any]:
        """Returns all items, or those up to a number, with a compaction in the place of
        what it covers."""
        made = made or self._in_use()
        end = None if last is None else last + 1
        if made is None:
            return self._items(read(self.store, self.location, before_seq=end))
        found = made.items + self._items(read(
            self.store, self.location, before_seq=made.seq,
            limit=made.keep)) if made.keep else made.items
        return found + self._items(read(self.store, self.location, after_seq=made.seq,
                                        before_seq=end))

    async def add_items(self, items: List[Any]) -> None:
        """Appends items, all or none."""
        if items:
            await settled(self.store.append, [_message(item, i) for i, item in enumerate(items)],
                          self.location)

    async def pop_item(self) -> Optional[Any]:
        """Removes the newest item and returns it; None if there is none."""
        return await settled(self._pop)

    def _pop(self) -> Optional[Any]:
        before = last = None
        while True:
            newest = read(self.store, self.location, limit=1, before_seq=before)
            if not newest:
                return None
            before = newest[0].seq
            last = last or before
            made = _compaction(newest[0]) if newest[0].type == "compaction" else None
            try:
                if made is not None:
                    return self._pop_compacted(made, last)
                if "item" not in newest[0]:  # of another writer
                    continue
                self.store.hide(before)
                return newest[0]["item"]
            except (ConflictError, NotFoundError):  # another object was quicker
                before = last = None

    def _pop_compacted(self, made: _Compaction, last: int) -> Optional[Any]:
        """Removes the newest item of what a compaction has and leaves: by another one, which
        covers all that is there and has the other items."""
        found = self._read(made, made.seq)
        if not found:
            return None
        self._append_compaction(made.seq, last, found[:-1], made.model)
        return found[-1]

    def _append_compaction(self, upto: int, last: int, made: List[Any],
                           model: Optional[str], **members: Any) -> int:
        """Appends a compaction of what there is up to a message, if the last message of
        the location is the one that was seen. ``store.compact`` does not compare."""
        keep = len(read(self.store, self.location, after_seq=upto))
        message = Message(type="compaction", content="",
                          compaction={"keep": keep, **members, "items": made},
                          signed={"provider": PROVIDER, **({"model": model} if model else {})})
        return self.store.append(message, self.location, expect_seq=last)[0]

    async def clear_session(self) -> None:
        """Removes all items."""
        await settled(self.store.rewind, self.location, 0)


def _plain(item: Any) -> Any:
    """Returns an item as a dict of what the API takes."""
    if not isinstance(item, dict):
        item = item.model_dump(exclude_unset=True, warnings=False)
    return {name: value for name, value in item.items()
            if name != "created_by" and not name.startswith("_agents_")}


def _replayable(output: List[Any]) -> List[Any]:
    """Returns the output of a compaction as input: without members that are null, and
    without the ids of answers whose reasoning is not there."""
    found = [_plain(item) for item in output]
    reasons = any(item.get("type") == "reasoning" for item in found)
    for item in found:
        if item.get("role") == "user" and isinstance(item.get("content"), list):
            item["content"] = [{name: value for name, value in part.items()
                                if value is not None} for part in item["content"]]
        if item.get("role") == "assistant" and not reasons:
            item.pop("id", None)
    return found


def _is_open(found: List[Any]) -> bool:
    """Are there calls, or requests for an approval, without a result?"""
    asked: Set[Any] = set()
    answered: Set[Any] = set()
    for item in found:
        kind = item.get("type") or ""
        if kind.endswith("_output"):
            answered.update((item.get("call_id"), item.get("id")))
        elif kind == "mcp_approval_response":
            answered.add(item.get("approval_request_id"))
        elif kind == "mcp_approval_request":
            asked.add(item.get("id"))
        elif kind.endswith("_call") and item.get("call_id"):
            asked.add(item["call_id"])
    return not asked <= answered


class MsgstoreCompactionSession(MsgstoreSession):
    """A session that compacts: after a turn the SDK calls ``run_compaction``, which sends
    the items to OpenAI's ``responses.compact`` and appends what comes back.

    Nothing is deleted or hidden: ``get_items`` begins with the compaction, the messages
    before it stay in the store. ``store.hide`` of the message of type "compaction" undoes
    it. Items that are added meanwhile stay as they are.

    should_trigger_compaction: the SDK's hook, called with a dict of response_id,
    compaction_mode, compaction_candidate_items and session_items; by default true from 10
    candidates on, which are all items but those of the user and compactions.
    compaction_mode: "input" sends the items; "previous_response_id" lets OpenAI take what
    it has stored, which must be the same. "auto" is "input".
    """

    def __init__(self, store: Store, session_id: str, *, client: Any = None,
                 model: str = "gpt-4.1", compaction_mode: str = "input",
                 should_trigger_compaction: Optional[Callable[[Dict[str, Any]], bool]] = None,
                 location: Optional[str] = None, session_settings: Any = None):
        super().__init__(store, session_id, location=location,
                         session_settings=session_settings)
        if compaction_mode not in ("auto", "input", "previous_response_id"):
            raise ArgumentError("E_ARGUMENT", f"compaction_mode is {compaction_mode!r}: "
                                "auto, input or previous_response_id was expected")
        self.model = model
        self.compaction_mode = compaction_mode
        self.should_trigger_compaction = should_trigger_compaction or (
            lambda context: len(context["compaction_candidate_items"]) >= 10)
        self._client = client

    @property
    def client(self) -> Any:
        """The AsyncOpenAI that was given, else the SDK's default or a new one."""
        if self._client is None:
            from agents.models._openai_shared import get_default_openai_client
            from openai import AsyncOpenAI
            self._client = get_default_openai_client() or AsyncOpenAI()
        return self._client

    async def run_compaction(self, args: Any = None, *, wrapper: Any = None) -> None:
        """Compacts all items, if ``args["force"]`` is true or the hook says so.

        Does nothing while a call has no result. Drops the compaction where items that it
        covers were removed meanwhile. wrapper: a run's context, whose usage it counts in.
        """
        args = args or {}
        response_id = args.get("response_id")
        mode = args.get("compaction_mode") or self.compaction_mode
        mode = "input" if mode == "auto" else mode
        if mode == "previous_response_id" and not response_id:
            raise ValueError("compaction by previous_response_id needs a response_id")
        before, last, found = await asyncio.to_thread(self._now)
        candidates = [item for item in found if item.get("type") != "compaction" and
                      (item.get("role") != "user" or item.get("type", "message") != "message")]
        if not found or _is_open(found) or not (
                args.get("force") or self.should_trigger_compaction({
                    "response_id": response_id, "compaction_mode": mode,
                    "compaction_candidate_items": candidates, "session_items": found})):
            return
        what: Dict[str, Any] = {"previous_response_id": response_id}
        if mode == "input":
            what = {"input": [_plain(item) for item in found]}
        compacted = await self.client.responses.compact(model=self.model, **what)
        usage = getattr(compacted, "usage", None)
        if wrapper is not None and usage is not None:
            from agents.usage import Usage
            wrapper.usage.add(Usage(requests=1, input_tokens=usage.input_tokens,
                                    output_tokens=usage.output_tokens,
                                    total_tokens=usage.total_tokens))
        made = _replayable(compacted.output or [])
        if not made:
            raise ArgumentError("E_MISSING", "the compaction has no items; the history is "
                                "as before")
        await settled(self._compact, before, last, found, made, usage,
                      "auto" if response_id else "manual")

    def _now(self) -> Any:
        made = self._in_use()
        newest = self.store.query(self.location, limit=1)
        last = newest[0].seq if newest else 0
        return made and made.seq, last, self._read(made, last)

    def _compact(self, before: Optional[int], last: int, found: List[Any],
                 made: List[Any], usage: Any, cause: str) -> None:
        """Appends what a compaction of the items up to a message has made of them."""
        while True:
            newest = self.store.query(self.location, limit=1)
            now = self._in_use()
            if (now and now.seq) != before or self._read(now, last) != found:
                log.warning("a compaction of %s was dropped, since what it covers has "
                            "changed", self.location)
                return
            try:
                seq = self._append_compaction(last, newest[0].seq, made, self.model,
                                              cause=cause)
                break
            except ConflictError:  # something was appended meanwhile
                continue
        if usage is not None:
            self.store.note(seq, "usage", {"input_tokens": usage.input_tokens,
                                           "output_tokens": usage.output_tokens})
