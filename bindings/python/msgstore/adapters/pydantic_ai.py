"""Model messages of pydantic-ai, saved and loaded.

pydantic-ai has no protocol for stores: an agent takes ``message_history=`` and a result
has ``new_messages()``. The library reads and writes its format itself, so saved messages can be
sent to any provider, and messages of other formats can be loaded here.

    save(store, "chat_1", result.new_messages())
    agent.run("go on", message_history=load(store, "chat_1"))
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from ..store import Store


def save(store: Store, location: str, messages: Sequence[ModelMessage]) -> List[int]:
    """Appends messages, all or none."""
    dumped = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    return store.append(dumped, location, format="pydantic-ai") if dumped else []


def load(store: Store, location: str, newest: Optional[int] = None) -> List[ModelMessage]:
    """Returns the conversation as saved; ``newest`` keeps the newest stored messages."""
    found: List[Any] = list(store.query(location, limit=newest, format="pydantic-ai"))
    return ModelMessagesTypeAdapter.validate_python(found)
