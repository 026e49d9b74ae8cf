"""Model messages of pydantic-ai, saved and loaded.

pydantic-ai has no protocol for stores: an agent takes ``message_history=`` and a result
has ``new_messages()``. The library reads and writes its format itself, so saved messages can be
sent to any provider, and messages of other formats can be loaded here.

    save(store, "chat_1", result.new_messages())
    agent.run("go on", message_history=load(store, "chat_1"))
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse

from .. import store as _stores
from ..store import Store
from ._items import note_usage, read


def save(store: Store, location: str, messages: Sequence[ModelMessage]) -> List[int]:
    """Appends messages, all or none; notes the usage of each response."""
    dumped = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    if not dumped:
        return []
    seqs = store.append(dumped, location, format="pydantic-ai")
    responses = [m for m in messages if isinstance(m, ModelResponse)]
    if any(m.usage.input_tokens or m.usage.output_tokens for m in responses):
        with _stores.open() as scratch:  # how many messages one becomes
            counts = [len(scratch.append([one], "l", format="pydantic-ai")) for one in dumped]
        at = 0
        for message, count in zip(messages, counts):
            at = min(at + count, len(seqs))
            if isinstance(message, ModelResponse) and count > 0:
                usage = message.usage
                note_usage(store, seqs[at - 1], input_tokens=usage.input_tokens,
                           output_tokens=usage.output_tokens,
                           cached_tokens=usage.cache_read_tokens,
                           cache_write_tokens=usage.cache_write_tokens,
                           reasoning_tokens=(usage.details or {}).get("reasoning_tokens"),
                           model=message.model_name)
    return seqs


def load(store: Store, location: str, newest: Optional[int] = None) -> List[ModelMessage]:
    """Returns the conversation as saved; ``newest`` keeps the newest stored messages."""
    found: List[Any] = list(read(store, location, limit=newest, format="pydantic-ai"))
    return ModelMessagesTypeAdapter.validate_python(found)
