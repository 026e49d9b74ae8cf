"""A pytest plugin: the history tests of langchain-core meet MsgstoreChatMessageHistory.

The tests of the package's source (tests/unit_tests/runnables/test_history.py and
chat_history/test_chat_history.py) make histories by
``InMemoryChatMessageHistory(messages=..)``. Loaded with ``-p`` before they are imported,
this puts a history over a store of ours there.
"""

from typing import Any, Sequence

import langchain_core.chat_history as chat_history
from langchain_core.messages import BaseMessage

import msgstore
from msgstore.adapters.langchain import MsgstoreChatMessageHistory


class InMemoryChatMessageHistory(MsgstoreChatMessageHistory):
    def __init__(self, messages: Sequence[BaseMessage] = ()):
        super().__init__(msgstore.open(), "history")
        self.add_messages(messages)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InMemoryChatMessageHistory) and (
            self.messages == other.messages)


def pytest_configure(config: Any) -> None:
    chat_history.InMemoryChatMessageHistory = (  # type: ignore[misc, assignment]
        InMemoryChatMessageHistory)


def pytest_collection_modifyitems(config: Any, items: Any) -> None:
    # One test reads the class's own documentation.
    ours = [i for i in items if "chat_history_deprecated" not in i.name]
    config.hook.pytest_deselected(items=[i for i in items if i not in ours])
    items[:] = ours
