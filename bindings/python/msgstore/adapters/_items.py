"""Helpers of all adapters: a package's own item inside a message, and its texts."""

from __future__ import annotations

import asyncio
import json
import warnings
from typing import Any, Callable, Collection, Dict, List, Optional

from .._ffi import ArgumentError, _kind, encode
from ..store import History, Message, Store


def store_of(store: Any) -> Store:
    """Checks the first argument of an adapter's constructor, and returns it."""
    if not isinstance(store, Store):
        raise ArgumentError("E_KIND", "the first argument is a "
                            f"{type(store).__name__}, a msgstore.Store was expected")
    return store


def location_of(name: Any) -> str:
    """Checks the name of a location, and returns it. To a query None is all of them."""
    if not isinstance(name, str):
        raise ArgumentError("E_KIND", f"the location is {_kind(name)}, a string was "
                            "expected")
    return name


def warn_of(damaged: int, location: str) -> None:
    """Warns if unreadable records may belong to what was read."""
    if damaged:
        warnings.warn(f"{damaged} records are unreadable: messages may be missing from "
                      f"{location!r}", RuntimeWarning, stacklevel=3)


def read(store: Store, location: str, **filters: Any) -> History:
    """Returns a page of one location; warns of unreadable records."""
    page = store.query(location_of(location), **filters)
    warn_of(page.damaged, location)
    return page


async def settled(change: Callable[..., Any], *arguments: Any) -> Any:
    """Runs a change in a thread. A task that is cancelled meanwhile ends when the change
    has: no read after it meets a change that is still to come."""
    running = asyncio.ensure_future(asyncio.to_thread(change, *arguments))
    cancelled = False
    while not running.done():
        try:
            await asyncio.wait({running})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        running.exception()  # otherwise asyncio logs that nobody asked for it
        raise asyncio.CancelledError
    return running.result()


def text_of(content: Any) -> str:
    """Returns the text of a content: a string, or a list of parts with texts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part if isinstance(part, str) else part.get("text") or part.get("refusal")
                 for part in content if isinstance(part, (str, dict))]
        return "\n".join(part for part in parts if part)
    return json.dumps(content, ensure_ascii=False)


def object_of(arguments: Any) -> Dict[str, Any]:
    """Returns the arguments of a call as an object, whatever the model wrote."""
    if isinstance(arguments, str):
        written = arguments
        try:
            arguments = json.loads(written)
            encode(arguments)  # Python reads NaN and lone surrogates
        except (ValueError, RecursionError):
            return {"INVALID_JSON": written}
    return arguments if isinstance(arguments, dict) else {"value": arguments}


def wrap(message: Message, item: Any) -> Message:
    """Puts the package's item into the message."""
    message["item"] = item
    return message


def items(history: History, location: str, without: Collection[str] = ()) -> List[Any]:
    """Returns the packages' items of the messages of a location. Warns of messages that
    have none and are left out, as another writer appended, amended or redacted them, but
    for the types that an adapter itself stores without items."""
    foreign = [m for m in history if "item" not in m and m.type not in without]
    if foreign:
        warnings.warn(f"{len(foreign)} messages of {location!r} have no item of this adapter "
                      f"and are left out, the first is number {foreign[0].seq}: they were "
                      "appended, amended or redacted by another writer", RuntimeWarning,
                      stacklevel=3)
    return [message["item"] for message in history if "item" in message]


def chat(role: Optional[str], content: Any, **members: Any) -> Message:
    """Makes a message of a role: user, assistant, or another one."""
    kind = {"user": "user_message", "assistant": "assistant_message"}.get(role or "")
    if kind is None:
        return Message(type="injected_context", content=text_of(content), **members)
    return Message(type=kind, content=text_of(content), **members)


def note_usage(store: Store, seq: int, **values: Any) -> None:
    """Notes the tokens of an answer, for ``Store.usage`` and the tool, if it has any.

    input_tokens and output_tokens are all of them: cached_tokens and cache_write_tokens
    are of the input, reasoning_tokens of the output."""
    counts = {name: value for name, value in values.items()
              if isinstance(value, int) and value > 0}
    if counts:
        if values.get("model"):
            counts["model"] = values["model"]
        store.note(seq, "usage", counts)
