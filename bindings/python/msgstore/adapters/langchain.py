"""A chat message history of LangChain over a store."""

from __future__ import annotations

from typing import Any, List, Sequence

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import (AIMessage, BaseMessage, HumanMessage, ToolMessage,
                                     message_to_dict, messages_from_dict)

from ..store import Message, Store, action, observation
from ._items import chat, items, store_of, text_of, wrap


def _messages(message: BaseMessage) -> List[Message]:
    """Makes messages of an item: the first has the item; calls of an answer follow."""
    if isinstance(message, ToolMessage):
        first = observation(text_of(message.content), message.tool_call_id)
    elif isinstance(message, HumanMessage):
        first = chat("user", message.content)
    elif isinstance(message, AIMessage):
        first = chat("assistant", message.content)
    else:
        first = chat(message.type, message.content)
    result = [wrap(first, message_to_dict(message))]
    for call in getattr(message, "tool_calls", None) or []:
        result.append(action(call["name"], call["args"], call.get("id")))
    return result


class MsgstoreChatMessageHistory(BaseChatMessageHistory):
    """The messages of one location."""

    def __init__(self, store: Store, session_id: str):
        self.store = store_of(store)
        self.session_id = session_id

    @property
    def messages(self) -> List[BaseMessage]:  # type: ignore[override]
        return messages_from_dict(items(self.store.query(self.session_id)))

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        batch: List[Any] = [m for message in messages for m in _messages(message)]
        if batch:
            self.store.append(batch, self.session_id)

    def clear(self) -> None:
        self.store.rewind(self.session_id, 0)
