"""Sessions of Google's Agent Development Kit over a store.

A session is a location; its events are messages. An event is appended together with what
it changes: a message for each state that it changes, of the app, of the user or of the
session, at a location of that state. A state is its facts, a key each, and these messages
over them. From CHANGES messages on they are entered into the facts, and hidden. The facts
of app and user are those of the same location, those of a session are with its events. The
sessions of an app are the facts of a location, too. A deleted session's events are hidden.

A state is read, changed and written under the lock of its service: let one service at a
time use a store.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
import uuid
from typing import Any, Dict, List, Optional, Set

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import (BaseSessionService, GetSessionConfig,
                                                      ListSessionsResponse)
from google.adk.sessions.session import Session
from google.adk.sessions.state import State

from .._ffi import encode
from ..store import Message, Store, action, observation
from ._items import chat, items, note_usage, read, store_of, wrap


def _location(app_name: str, user_id: str, session_id: str) -> str:
    """Names a location. JSON strings keep the three names apart."""
    return "adk" + json.dumps([app_name, user_id, session_id], ensure_ascii=False)


def _scope(app_name: str, user_id: Optional[str] = None, *session_id: str) -> str:
    """Names the location of a state: of an app, of a user or of a session."""
    return "adk-state" + json.dumps([app_name, user_id, *session_id], ensure_ascii=False)


def _sessions(app_name: str) -> str:
    return "adk-sessions" + json.dumps([app_name], ensure_ascii=False)


CHANGES = 16  # messages of a state, until they are entered into its facts
_KEY = "state:"  # before a key of a state; a value is in a list, since None removes a fact


def _entered(values: Dict[str, Any]) -> Dict[str, Any]:
    return {_KEY + key: [value] for key, value in values.items()}


def _state_of(facts: Dict[str, Any]) -> Dict[str, Any]:
    """Returns the state that facts have; before 0.3 it was one fact."""
    state = dict(facts.get("state") or {})
    state.update((key[len(_KEY):], value[0]) for key, value in facts.items()
                 if key.startswith(_KEY))
    return state


def _temporary(delta: Dict[str, Any]) -> Set[str]:
    return {key for key in delta if key.startswith(State.TEMP_PREFIX)}


def _messages(event: Event, temporary: Set[str]) -> List[Message]:
    """Makes messages of an event: the first has the event; its calls and results follow."""
    role = "user" if event.author == "user" else "assistant"
    parts = (event.content.parts if event.content else None) or []
    text = "\n".join(part.text for part in parts if part.text and not part.thought)
    rest: List[Message] = []
    for part in parts:
        if part.function_call:
            rest.append(action(part.function_call.name or "", part.function_call.args or {},
                               part.function_call.id))
        elif part.function_response:
            rest.append(observation(part.function_response.response,
                                    part.function_response.id))
    for message in rest:
        message["agent_key"] = event.author
    item = json.loads(event.model_dump_json(
        exclude_none=True, exclude={"actions": {"state_delta": temporary}}))
    first = rest.pop(0) if rest and not text else chat(role, text)
    made = [wrap(first, item), *rest]
    for message in made:  # the last one has the time of the session
        message["timestamp"] = event.timestamp
    return made


class MsgstoreSessionService(BaseSessionService):
    """All sessions of a store."""

    def __init__(self, store: Store):
        self.store = store_of(store)
        self._changing = threading.RLock()
        self._known: Set[str] = set()  # locations of sessions that are there
        self._changes: Dict[str, int] = {}  # of a location: messages of its state

    # ---- State.

    def _split(self, app: str, user: str, session: str,
               delta: Dict[str, Any]) -> Dict[str, Dict[str, Any]]:
        """Returns what changes of each state, by the location of its messages."""
        parts: Dict[str, Dict[str, Any]] = {}
        for key, value in delta.items():
            if key.startswith(State.APP_PREFIX):
                location, key = _scope(app), key[len(State.APP_PREFIX):]
            elif key.startswith(State.USER_PREFIX):
                location, key = _scope(app, user), key[len(State.USER_PREFIX):]
            elif key.startswith(State.TEMP_PREFIX):
                continue
            else:
                location = _scope(app, user, session)
            parts.setdefault(location, {})[key] = value
        return parts

    def _facts(self, location: str) -> Dict[str, Any]:
        return self.store.facts(location)

    def _changed(self, location: str) -> Dict[str, Any]:
        """Returns what the messages of a state change of its facts."""
        state: Dict[str, Any] = {}
        changes = items(read(self.store, location), location)
        self._changes[location] = len(changes)
        for values in changes:
            state.update(values)
        return state

    def _change(self, location: str, values: Dict[str, Any], facts: str) -> Message:
        """Makes the message of a change. Many that are there are entered into the facts,
        which have another location for a session. A kill between the two writes leaves
        messages whose values the facts have."""
        count = self._changes.get(location)
        if count is None or count >= CHANGES:
            state = self._changed(location)
            if self._changes[location] >= CHANGES:
                self.store.facts_set(facts, _entered(state))
                self.store.rewind(location, 0)
                self._changes[location] = 0
        return wrap(Message(type="data", content="state", location=location), values)

    def _changes_of(self, app: str, user: str, session: str,
                    delta: Dict[str, Any]) -> List[Message]:
        own, facts = _scope(app, user, session), _location(app, user, session)
        return [self._change(location, values, facts if location == own else location)
                for location, values in self._split(app, user, session, delta).items()]

    def _append_all(self, messages: List[Message], changes: List[Message]) -> int:
        """Appends messages and changes of states, all or none."""
        seqs = self.store.append([*messages, *changes])
        for change in changes:
            self._changes[change["location"]] += 1
        return seqs[0]

    def _state_at(self, location: str) -> Dict[str, Any]:
        """Returns the state of an app or a user."""
        with self._changing:
            return {**_state_of(self._facts(location)), **self._changed(location)}

    def _state(self, app: str, user: str, own: Dict[str, Any]) -> Dict[str, Any]:
        state = dict(own)
        for key, value in self._state_at(_scope(app)).items():
            state[State.APP_PREFIX + key] = value
        for key, value in self._state_at(_scope(app, user)).items():
            state[State.USER_PREFIX + key] = value
        return state

    # ---- Sessions.

    def _session(self, app: str, user: str, session: str,
                 events: List[Event]) -> Optional[Session]:
        location = _location(app, user, session)
        with self._changing:
            facts = self._facts(location)
            if "created" not in facts:
                return None
            own = {**_state_of(facts), **self._changed(_scope(app, user, session))}
        newest = [m.get("timestamp") for m in self.store.query(location, limit=1)]
        updated = newest[0] if newest else facts.get("updated")
        return Session(id=session, app_name=app, user_id=user, events=events,
                       state=self._state(app, user, own),
                       last_update_time=updated or facts["created"])

    def _index(self, app: str) -> Dict[str, List[str]]:
        index: Dict[str, List[str]] = {}
        for user, sessions in (self._facts(_scope(app)).get("sessions") or {}).items():
            index[user] = list(sessions)  # before 0.3
        for name in self._facts(_sessions(app)):
            user, session = json.loads(name)
            index.setdefault(user, []).append(session)
        return index

    def _is_there(self, location: str) -> bool:
        if location not in self._known and "created" in self._facts(location):
            self._known.add(location)
        return location in self._known

    def _create(self, app: str, user: str, state: Dict[str, Any], session: str) -> Session:
        location = _location(app, user, session)
        with self._changing:
            if self._is_there(location):
                raise AlreadyExistsError(f"Session with id {session} already exists.")
            encode(state)  # refused before anything is written
            created = time.time()
            name = json.dumps([user, session], ensure_ascii=False)
            self.store.facts_set(_sessions(app), {name: created})
            parts = self._split(app, user, session, state)
            own = parts.pop(_scope(app, user, session), {})
            if parts:
                self._append_all([], [self._change(at, values, at)
                                      for at, values in parts.items()])
            self.store.facts_set(location, {**_entered(own), "created": created})
            made = self._session(app, user, session, [])
        assert made is not None
        return made

    async def create_session(self, *, app_name: str, user_id: str,
                             state: Optional[Dict[str, Any]] = None,
                             session_id: Optional[str] = None) -> Session:
        session_id = (session_id or "").strip() or str(uuid.uuid4())
        return await asyncio.to_thread(self._create, app_name, user_id, state or {},
                                       session_id)

    def _get(self, app: str, user: str, session: str,
             config: Optional[GetSessionConfig]) -> Optional[Session]:
        limit = config.num_recent_events if config else None
        found = self._session(app, user, session, [])
        if found is None or limit == 0:
            return found
        events = [Event.model_validate(m["item"])
                  for m in read(self.store, _location(app, user, session)) if "item" in m]
        if config and config.after_timestamp is not None:
            events = [e for e in events if e.timestamp >= config.after_timestamp]
        found.events = events[-limit:] if limit else events
        return found

    async def get_session(self, *, app_name: str, user_id: str, session_id: str,
                          config: Optional[GetSessionConfig] = None) -> Optional[Session]:
        return await asyncio.to_thread(self._get, app_name, user_id, session_id.strip(),
                                       config)

    def _list(self, app: str, user: Optional[str]) -> List[Session]:
        found = [self._session(app, u, session, [])
                 for u, sessions in self._index(app).items() if user in (None, u)
                 for session in sessions]
        return sorted((s for s in found if s is not None),
                      key=lambda s: (s.last_update_time, s.user_id, s.id))

    async def list_sessions(self, *, app_name: str,
                            user_id: Optional[str] = None) -> ListSessionsResponse:
        sessions = await asyncio.to_thread(self._list, app_name, user_id)
        return ListSessionsResponse(sessions=sessions)

    def _delete(self, app: str, user: str, session: str) -> None:
        location = _location(app, user, session)
        with self._changing:
            name = json.dumps([user, session], ensure_ascii=False)
            self.store.facts_set(_sessions(app), {name: None})
            old = self._facts(_scope(app)).get("sessions") or {}
            if session in old.get(user, []):
                old[user].remove(session)
                self.store.facts_set(_scope(app), {"sessions": old})
            self.store.rewind(_scope(app, user, session), 0)
            self._changes.pop(_scope(app, user, session), None)
            self.store.rewind(location, 0)
            self.store.facts_set(location, dict.fromkeys(self._facts(location)))
            self._known.discard(location)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        await asyncio.to_thread(self._delete, app_name, user_id, session_id.strip())

    async def get_user_state(self, *, app_name: str, user_id: str) -> Dict[str, Any]:
        return await asyncio.to_thread(self._state_at, _scope(app_name, user_id))

    # ---- Events.

    def _append(self, session: Session, event: Event) -> None:
        location = _location(session.app_name, session.user_id, session.id)
        with self._changing:
            if not self._is_there(location):
                raise SessionNotFoundError(f"Session {session.id} not found.")
            delta = event.actions.state_delta if event.actions else {}
            temporary = _temporary(delta)
            changes = self._changes_of(session.app_name, session.user_id, session.id, delta)
            seq = self._append_all([Message(message, location=location)
                                    for message in _messages(event, temporary)], changes)
            usage = event.usage_metadata
            if usage is not None:
                thoughts = usage.thoughts_token_count or 0
                note_usage(self.store, seq, input_tokens=usage.prompt_token_count,
                           output_tokens=(usage.candidates_token_count or 0) + thoughts,
                           cached_tokens=usage.cached_content_token_count,
                           reasoning_tokens=thoughts,
                           model=getattr(event, "model_version", None))

    async def append_event(self, session: Session, event: Event) -> Event:
        if event.partial:
            return event
        await asyncio.to_thread(self._append, session, event)
        event = await super().append_event(session=session, event=event)
        session.last_update_time = event.timestamp
        return event
