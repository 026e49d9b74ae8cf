"""A Session of the OpenAI Agents SDK over a store.

    store = msgstore.open("agents.msl")
    session = MsgstoreSession(store, "chat_1")
    await Runner.run(agent, "Hello", session=session)
"""

from __future__ import annotations

import asyncio
from typing import Any, Dict, List, Optional

from agents.memory import SessionSettings

from .._ffi import NotFoundError
from ..store import Message, Store, action, observation
from ._items import chat, items, object_of, store_of, text_of, wrap


def _message(item: Dict[str, Any]) -> Message:
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


class MsgstoreSession:
    """One conversation; its items come back exactly as they were added.

    session_settings: the SDK's SessionSettings, or a dict of its members.

    A removed item is hidden, not erased: a location that was forked before still has it.
    ``msgstore compact`` drops it. Messages of other writers are no items, and stay until
    the session is cleared.
    """

    def __init__(self, store: Store, session_id: str, *, location: Optional[str] = None,
                 session_settings: Any = None):
        self.session_id = session_id
        self.session_settings = SessionSettings().resolve(session_settings)
        self.store = store_of(store)
        self.location = location or session_id

    async def get_items(self, limit: Optional[int] = None) -> List[Any]:
        """Returns all items, or the newest ``limit``, oldest first."""
        if limit is None:
            limit = self.session_settings.limit
        if limit is not None and limit <= 0:
            return []
        return await asyncio.to_thread(self._newest, limit)

    def _newest(self, limit: Optional[int]) -> List[Any]:
        found = self.store.query(self.location, limit=limit)
        own = items(found)
        if limit is None or len(own) == len(found):
            return own
        return items(self.store.query(self.location))[-limit:]

    async def add_items(self, items: List[Any]) -> None:
        """Appends items, all or none."""
        if items:
            await asyncio.to_thread(self.store.append, [_message(i) for i in items],
                                    self.location)

    async def pop_item(self) -> Optional[Any]:
        """Removes the newest item and returns it; None if there is none."""
        return await asyncio.to_thread(self._pop)

    def _pop(self) -> Optional[Any]:
        before = None
        while True:
            newest = self.store.query(self.location, limit=1, before_seq=before)
            if not newest:
                return None
            before = newest[0].seq
            if "item" not in newest[0]:  # of another writer
                continue
            try:
                self.store.hide(before)
            except NotFoundError:  # another thread was quicker
                before = None
                continue
            return newest[0]["item"]

    async def clear_session(self) -> None:
        """Removes all items."""
        await asyncio.to_thread(self.store.rewind, self.location, 0)
