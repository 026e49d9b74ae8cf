"""The stores and memories of the agent framework guide: plain dictionaries in, plain
dictionaries out, no package needed.

    messages = MessageStore(msgstore.open("jobs.msl"))
    memory = MessageStoreMemory(messages, location="job_123", agent_key="orchestrator")
    memory.get_history()
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..store import Message, Store
from ._items import location_of, store_of

Messages = List[Message]


class MessageStore:
    """The four views of the guide. ``limit`` keeps the newest."""

    def __init__(self, store: Store):
        self.store = store_of(store)

    def get_conversation_messages(self, location: str,
                                  limit: Optional[int] = None) -> Messages:
        return self.store.query(location_of(location), views=["conversation"], limit=limit)

    def get_agent_messages(self, location: str, agent_key: str,
                           limit: Optional[int] = None) -> Messages:
        return self.store.query(location_of(location), views=["agent"],
                                agent_key=agent_key, limit=limit)

    def get_global_messages(self, location: str, limit: Optional[int] = None) -> Messages:
        return self.store.query(location_of(location), views=["global"], limit=limit)

    def get_team_messages(self, location: str, agent_keys: Sequence[str],
                          limit: Optional[int] = None) -> Messages:
        if not agent_keys:
            return []
        return self.store.query(location_of(location), views=["team"],
                                agent_keys=agent_keys, limit=limit)

    def add_message(self, location: str, message: Mapping[str, Any],
                    agent_key: Optional[str] = None) -> int:
        """Appends a message, of that agent unless it names one. Returns its number."""
        own: Dict[str, Any] = dict(message)
        if agent_key is not None:
            own.setdefault("agent_key", agent_key)
        return self.store.append(own, location)[0]


class MessageStoreMemory:
    """The history that one agent reads: conversation, own steps, [team], broadcasts."""

    def __init__(self, message_store: MessageStore, location: str, agent_key: str,
                 subordinates: Sequence[str] = (), *, write_through: bool = False):
        self.message_store = message_store
        self.location = location
        self.agent_key = agent_key
        self.subordinates = list(subordinates)
        self.write_through = write_through

    def get_history(self) -> Messages:
        return self.message_store.store.history(self.location, self.agent_key,
                                                subordinates=self.subordinates)

    def add(self, message: Mapping[str, Any]) -> None:
        """Does nothing, as in the guide's option A; with write_through it appends."""
        if self.write_through:
            self.message_store.add_message(self.location, message, self.agent_key)


class SharedMemory(MessageStoreMemory):
    """Agents of one process, or of one log, that talk through one namespace."""

    # Without an author. An assistant_message has its own: its words are no other agent's.
    PUBLIC = ("user_message", "global_observation", "synthesis")

    def __init__(self, message_store: MessageStore, namespace: str, agent_key: str,
                 subordinates: Sequence[str] = ()):
        super().__init__(message_store, namespace, agent_key, subordinates,
                         write_through=True)

    def add(self, message: Mapping[str, Any]) -> None:
        if message.get("type") in self.PUBLIC:
            self.message_store.add_message(self.location, message)
        else:
            super().add(message)

    def broadcast(self, content: Any) -> None:
        """Appends a global observation for all agents of the namespace."""
        self.message_store.add_message(self.location, {
            "type": "global_observation", "content": content,
            "from_worker": self.agent_key})
