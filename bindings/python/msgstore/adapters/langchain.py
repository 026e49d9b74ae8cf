"""A chat message history of LangChain over a store."""

from __future__ import annotations

from typing import List, Sequence

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import (AIMessage, BaseMessage, HumanMessage, ToolMessage,
                                     message_to_dict, messages_from_dict)

from ..store import Message, Store, action, observation
from ._items import (chat, items, location_of, note_usage, read, store_of, text_of,
                     wrap)


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


def _note(store: Store, seq: int, message: BaseMessage) -> None:
    usage = getattr(message, "usage_metadata", None)
    if not usage:
        return
    read = usage.get("input_token_details") or {}
    made = usage.get("output_token_details") or {}
    note_usage(store, seq, input_tokens=usage.get("input_tokens"),
               output_tokens=usage.get("output_tokens"), cached_tokens=read.get("cache_read"),
               cache_write_tokens=read.get("cache_creation"),
               reasoning_tokens=made.get("reasoning"),
               model=message.response_metadata.get("model_name"))


class MsgstoreChatMessageHistory(BaseChatMessageHistory):
    """The messages of one location."""

    def __init__(self, store: Store, session_id: str):
        self.store = store_of(store)
        self.session_id = location_of(session_id)

    @property
    def messages(self) -> List[BaseMessage]:  # type: ignore[override]
        return messages_from_dict(items(read(self.store, self.session_id),
                                        self.session_id, ["action"]))

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        made = [_messages(message) for message in messages]
        seqs = iter(self.store.append([m for own in made for m in own], self.session_id))
        for message, own in zip(messages, made):
            first = [next(seqs) for _ in own][0]
            _note(self.store, first, message)

    def clear(self) -> None:
        self.store.rewind(self.session_id, 0)
