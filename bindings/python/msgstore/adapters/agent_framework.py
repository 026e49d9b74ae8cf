"""A history provider of Microsoft's Agent Framework over a store."""

from __future__ import annotations

import asyncio
from typing import Any, Dict, List, Optional, Sequence

from agent_framework import HistoryProvider
from agent_framework import Message as ChatMessage

from ..store import Message, Store, action, observation
from ._items import chat, items, object_of, read, store_of, text_of, wrap


def _messages(message: ChatMessage) -> List[Message]:
    """Makes messages of an item: the first has the item; calls and results follow."""
    item = message.to_dict()
    role = str(getattr(message.role, "value", message.role))
    rest = []
    for content in item.get("contents") or []:
        if content.get("type") == "function_call":
            rest.append(action(content.get("name") or "",
                               object_of(content.get("arguments")),
                               content.get("call_id")))
        elif content.get("type") == "function_result":
            rest.append(observation(text_of(content.get("result")), content.get("call_id")))
    if rest and not message.text:
        return [wrap(rest[0], item), *rest[1:]]
    return [wrap(chat(role, message.text), item), *rest]


class MsgstoreHistoryProvider(HistoryProvider):
    """Keeps each session's messages in a location of that name."""

    def __init__(self, store: Store, source_id: str = "msgstore", *, prefix: str = "",
                 **options: Any):
        super().__init__(source_id, **options)
        self.store = store_of(store)
        self.prefix = prefix

    def _location(self, session_id: Optional[str]) -> str:
        return self.prefix + (session_id or "default")

    async def get_messages(self, session_id: Optional[str], *,
                           state: Optional[Dict[str, Any]] = None,
                           **kwargs: Any) -> List[ChatMessage]:
        location = self._location(session_id)
        found = await asyncio.to_thread(read, self.store, location)
        return [ChatMessage.from_dict(item)
                for item in items(found, location, ["action", "observation"])]

    async def save_messages(self, session_id: Optional[str],
                            messages: Sequence[ChatMessage], *,
                            state: Optional[Dict[str, Any]] = None,
                            **kwargs: Any) -> None:
        batch = [m for message in messages for m in _messages(message)]
        if batch:
            await asyncio.to_thread(self.store.append, batch, self._location(session_id))
