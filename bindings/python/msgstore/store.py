"""Stores, messages, histories."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
import warnings
from typing import (Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple,
                    Union, cast)

from . import _ffi
from ._ffi import ArgumentError, DamagedError, KeyReusedError, MsgstoreError, _kind
from .words import Cache, Format, Mode, Provider, Sync, Thinking, View

PAGE = 500  # messages in one read of an iteration


class Message(Dict[str, Any]):
    """A message as a dictionary in the format of the options.

    In the default format, "framework", it has the member ``type`` and those of that type::

        {"type": "user_message", "content": "hello", "timestamp": 1720000000.5}

    ``seq`` is its sequence number in the store; 0 if it was not read from one, or where
    the format joins several messages into one item.
    """

    seq: int = 0

    @property
    def type(self) -> str:
        return self.get("type", "")

    @property
    def content(self) -> Any:
        return self.get("content")


class History(List[Message]):
    """Messages in order. ``damaged`` counts unreadable records that this page met: it may
    lack their messages. ``seqs`` has the numbers of the stored messages: more than items
    where a format joins messages."""

    damaged: int = 0
    seqs: Sequence[int] = ()


class Found(List[Dict[str, Any]]):
    """Matches of a search, or what is listed. ``damaged`` is not 0 if unreadable records
    may belong to it."""

    damaged: int = 0


class Request(Dict[str, Any]):
    """The body of a request. ``report`` has the counts of what was changed or left out so
    that the provider accepts it, what a compaction covers (compacted, compaction_seq,
    compaction_missing, compaction_unusable), and whether one is due (compaction_due)."""

    report: Mapping[str, Any] = {}


KEY_MAX = 1023  # bytes of an idempotency key


def _built(message: Message, idempotency_key: Optional[str]) -> Message:
    """Adds the key, if there is one, and checks the members that the store would ignore."""
    if "key" in message:
        raise ArgumentError("E_ARGUMENT", "key is no argument of a message: pass "
                            "idempotency_key= so that a repeat is stored once (a member "
                            "of your own named key goes into a plain dict)", "key")
    call_id = message.get("tool_call_id")
    for name, value in (("idempotency_key", idempotency_key), ("tool_call_id", call_id)):
        if value is not None and not isinstance(value, str):
            raise ArgumentError("E_KIND", f"{name} is {_kind(value)}, a string was "
                                "expected", name)
    if idempotency_key is not None:
        if not 0 < len(_ffi.utf8(idempotency_key)) <= KEY_MAX:
            raise ArgumentError("E_RANGE", f"idempotency_key is {idempotency_key[:20]!r}, "
                                f"1 to {KEY_MAX} bytes were expected", "idempotency_key")
        message["idempotency_key"] = idempotency_key
    return message


def user(content: Any, *, idempotency_key: Optional[str] = None, **members: Any) -> Message:
    """A message of the user. ``content`` is a text, or a list of parts.

    ``idempotency_key``, 1 to 1023 bytes, makes an append safe to repeat: a location has
    one message with that key. A repeat returns its number, also when the message is
    hidden since; other content is a :class:`KeyReusedError`. All builders take it.
    ``members`` are agent_key, turn_id, timestamp and those of your own."""
    message = Message(type="user_message", content=content, **members)
    return _built(message, idempotency_key)


def assistant(content: Any, *, idempotency_key: Optional[str] = None,
              **members: Any) -> Message:
    """A message of the assistant. The arguments are those of :func:`user`."""
    message = Message(type="assistant_message", content=content, **members)
    return _built(message, idempotency_key)


def action(tool: str, args: Union[Mapping[str, Any], str], call_id: Optional[str] = None,
           *, idempotency_key: Optional[str] = None, **members: Any) -> Message:
    """A call of the tool named ``tool``. ``args`` is a dict, or its JSON as a model wrote
    it; other text stays a string. ``call_id`` is what the result names, the member
    tool_call_id. ``idempotency_key`` and ``members`` as in :func:`user`."""
    if isinstance(args, str):
        try:
            parsed = json.loads(args)
        except ValueError:
            parsed = None
        args = parsed if isinstance(parsed, dict) else args
    elif isinstance(args, Mapping):
        args = dict(args)
    else:
        raise ArgumentError("E_KIND", f"args is {_kind(args)}, a dict was expected", "args")
    if call_id is not None:
        members["tool_call_id"] = call_id
    message = Message(type="action", tool=tool, args=args, **members)
    return _built(message, idempotency_key)


def observation(content: Any, call_id: Optional[str] = None, *,
                idempotency_key: Optional[str] = None, **members: Any) -> Message:
    """The result of the call with the id ``call_id``; with ``type="error"`` its failure.
    ``content``, ``idempotency_key`` and ``members`` as in :func:`user`."""
    if call_id is not None:
        members["tool_call_id"] = call_id
    message = Message({"type": "observation", "content": content, **members})
    return _built(message, idempotency_key)


def _history(result: Dict[str, Any]) -> History:
    history = History(map(Message, result["messages"]))
    history.damaged = result["damaged"]
    history.seqs = result["seqs"]
    if len(result["seqs"]) == len(history):
        for message, seq in zip(history, result["seqs"]):
            message.seq = seq
    return history


def _found(result: Dict[str, Any], name: str) -> Found:
    found = Found(result[name])
    found.damaged = result.get("damaged", 0)
    return found


def _words(name: str, words: Iterable[str]) -> List[str]:
    if isinstance(words, str):
        raise ArgumentError("E_KIND", f"{name} is {words!r}, a list was expected", name)
    return list(words)


def _response(body: Any) -> bytes:
    """Returns the body of a provider's response as bytes."""
    if isinstance(body, str):
        return _ffi.utf8(body)
    if isinstance(body, (bytes, bytearray)):
        return bytes(body)
    if hasattr(body, "model_dump"):
        body = body.model_dump(mode="json", exclude_none=True, by_alias=True)
    if not isinstance(body, Mapping):
        raise ArgumentError("E_KIND", f"body is {_kind(body)}: the body of a "
                            "response was expected, as bytes, text or dict", "body")
    return _ffi.encode(body, "body", mend=True)


def _of_key(error: MsgstoreError) -> MsgstoreError:
    """Returns an error about the member ``key`` of C with the name that it has here."""
    path = re.sub(r"\bkey$", "idempotency_key", error.path or "")
    message = re.sub(r"^(the )?key\b", r"\1idempotency_key", error.message)
    message = message.replace(": it is '', not", ": it is none, not")
    return type(error)(error.code, message, path, error.offset)


def _members(extra: Optional[Mapping[str, Any]], members: Dict[str, Any]) -> Dict[str, Any]:
    """Returns further members of a body: those of extra, and those passed by name."""
    if extra is None:
        return members
    if not isinstance(extra, Mapping):
        raise ArgumentError("E_KIND", f"extra is {_kind(extra)}, a dict was expected",
                            "extra")
    for name in extra:
        if name in members:
            raise ArgumentError("E_ARGUMENT", f"{name} is passed twice: by its name and "
                                "in extra", name)
    return {**extra, **members}


def _of_request(error: ArgumentError, named: Mapping[str, Any]) -> ArgumentError:
    """Returns an error of a request with the names of the arguments of Python. ``named``
    are the members of the body that were passed by name."""
    inner = (error.path or "")[len("extra."):]
    if (error.path or "").startswith("extra.") and re.split(r"[.\[]", inner)[0] in named:
        message = error.message.replace(str(error.path), inner)
        return ArgumentError(error.code, message, inner)
    own = re.search(r"\b(?:own member|writes) (\w+)\b.* extra must not have it",
                    error.message)
    if own and own[1] in ("model", "system", "tools"):
        return ArgumentError(error.code, f"{own[1]} is an argument: pass {own[1]}=, not "
                             "in extra", own[1])
    if own:
        return ArgumentError(error.code, f"the request writes {own[1]} itself: it can "
                             "neither be passed nor be in extra", own[1])
    if error.path == "opts.model":
        return ArgumentError(error.code, "the model is missing: pass model=", "model")
    return error


def _given(**arguments: Any) -> Dict[str, Any]:
    return {name: value for name, value in arguments.items()
            if value is not None and value is not False}


def _kept(newest: int, newest_bytes: int, since: Optional[float], whole_turns: bool,
          locations: Optional[Sequence[str]], dry_run: bool) -> Dict[str, Any]:
    return _given(newest=newest or None, newest_bytes=newest_bytes or None, since=since,
                  whole_turns=whole_turns, dry_run=dry_run,
                  locations=None if locations is None else _words("locations", locations))


class Store:
    """A message store: a log file, or an arena in memory. Use :func:`msgstore.open`.

    Any thread may call it, and close it. Calls release Python's lock.
    """

    def __init__(self, handle: _ffi.Handle, path: Optional[str],
                 members: Tuple["Store", ...] = ()):
        self._handle = handle
        self.path = path
        self.members = members  # of a union

    # ---- Life.

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._handle.closed else "open"
        if self.members:
            return f"<msgstore.Store of {len(self.members)} stores, {state}>"
        return f"<msgstore.Store {self.path or 'in memory'!r}, {state}>"

    def close(self) -> None:
        """Makes the appends of this handle durable, and closes it. Twice is fine.

        It waits for the calls of other threads, also of tasks that were cancelled, whose
        threads go on; later calls fail with E_CLOSED. A child process of fork leaves the
        store to its parent. If a union has it, its file and lock stay in use until that is
        closed, too."""
        self._handle.close()

    def __reduce__(self) -> Any:  # a copy would close the handle of the original
        raise TypeError("a Store cannot be copied or pickled; open its path again")

    @property
    def _open(self) -> _ffi.Handle:
        if self._handle.closed:
            raise MsgstoreError("E_CLOSED", "the store is closed")
        return self._handle

    # ---- Appending.

    def append(self, messages: Union[Mapping[str, Any], Iterable[Mapping[str, Any]]],
               location: Optional[str] = None, *, format: Format = "framework",
               lenient: bool = False, expect_seq: Optional[int] = None) -> List[int]:
        """Appends one message or several, all or none, and returns their numbers.

        ``messages`` are in the ``format``. ``location`` is that of all messages, also of
        those that have a member ``location``; without it each must have one.
        ``expect_seq`` compares first: :class:`ConflictError` unless the last message of
        the location has that number (0: it has none). With ``lenient`` a type that is
        unknown becomes "other", and a member of a wrong kind stays as it is; otherwise
        both are refused. A lone surrogate, NaN or bytes in a message are an
        :class:`ArgumentError` with the path.
        """
        if isinstance(messages, Mapping):
            messages = [messages]
        elif not isinstance(messages, Iterable) or isinstance(messages, (str, bytes)):
            raise ArgumentError("E_KIND", f"messages is {_kind(messages)}, a message or a "
                                "list of messages was expected", "messages")
        args = _given(location=location, lenient=lenient, expect_seq=expect_seq)
        if format != "framework":
            args["format"] = format
        body = _ffi.encode(messages if isinstance(messages, list) else list(messages),
                           "messages")
        try:
            return _ffi.call("append", self._open, args, body)["seqs"]
        except KeyReusedError as error:
            raise _of_key(error) from None

    def answer(self, body: Any, provider: Provider, location: str, *,
               agent_key: Optional[str] = None, text_type: Optional[str] = None,
               sent: Optional[str] = None) -> Dict[str, Any]:
        """Stores the answer of a provider at ``location``. ``body`` is that of its
        response, as bytes, text, dict or the object of the provider's SDK, and is read as
        ``provider`` writes it. Lone surrogates in it become U+FFFD.

        ``text_type`` says for whom its texts are: "assistant_message" (the default) for
        all agents, "final" for the agent and its managers, "synthesis" for all as global.
        ``sent`` is ``report.get("sent")`` of its own request, if that had ``previous``: a
        later request can name this response then.
        Returns first_seq, last_seq, messages, stop (the provider's word), calls: how many
        tools are to be called now, and left_out: of how many names it has members that
        are not stored, such as ``annotations``. An answer without text and calls, such as
        one that was cut off, makes no message: messages and first_seq are 0. With
        ``agent_key`` the results of its calls need the same one. If storing the note of
        its usage fails, the messages stay, and the error's path is "usage": repeat the
        note, not the answer.
        """
        args = _given(provider=provider, location=location, agent_key=agent_key,
                      text_type=text_type, sent=sent)
        return _ffi.call("answer", self._open, args, _response(body))

    # ---- Reading.

    def query(self, location: Optional[str] = None, *,
              views: Optional[Sequence[View]] = None,
              types: Optional[Sequence[str]] = None, agent_key: Optional[str] = None,
              agent_keys: Optional[Sequence[str]] = None, turn_id: Optional[str] = None,
              since: Optional[float] = None, until: Optional[float] = None,
              after_seq: Optional[int] = None, before_seq: Optional[int] = None,
              limit: Optional[int] = None, oldest: bool = False, reverse: bool = False,
              by_time: bool = False, format: Format = "framework") -> History:
        """Returns one page of messages. ``limit`` keeps the newest n, oldest first; 0
        keeps all. ``oldest``: it keeps the oldest n. ``reverse``: newest first.
        ``by_time``: in order of their times, not of their numbers.

        All filters must be met: ``location`` (absent: all locations), ``types`` (a list
        of type words), ``turn_id``, ``since`` <= time < ``until`` in seconds,
        ``after_seq`` < number < ``before_seq``.

        ``views``: "conversation", "agent" (steps of ``agent_key``), "team" (all of
        ``agent_keys``), "global", "timeline" (all). Without them ``agent_key`` or
        ``agent_keys`` are the writers. An empty list of views, types or agent keys
        selects nothing. ``format`` is that of the result."""
        args = _given(location=location, agent_key=agent_key, turn_id=turn_id, since=since,
                      until=until, after_seq=after_seq, before_seq=before_seq,
                      limit=limit, oldest=oldest, reverse=reverse, by_time=by_time)
        for name, value in (("views", views), ("types", types), ("agent_keys", agent_keys)):
            if value is not None:
                args[name] = _words(name, value)
        if format != "framework":
            args["format"] = format
        return _history(_ffi.call("query", self._open, args))

    def messages(self, location: Optional[str] = None, *,
                 views: Optional[Sequence[View]] = None,
                 types: Optional[Sequence[str]] = None, agent_key: Optional[str] = None,
                 agent_keys: Optional[Sequence[str]] = None, turn_id: Optional[str] = None,
                 since: Optional[float] = None, until: Optional[float] = None,
                 after_seq: Optional[int] = None, before_seq: Optional[int] = None,
                 limit: Optional[int] = None, oldest: bool = False, reverse: bool = False,
                 by_time: bool = False, format: Format = "framework") -> Iterator[Message]:
        """All messages that a query has, oldest first, a page at a time. The arguments are
        those of :meth:`query`.

        With ``by_time``, ``reverse``, a ``limit`` or a ``format``, one read collects all
        of them. Once the store is closed the next message is an E_CLOSED, also within a
        page. After the last message a :class:`DamagedError` if records were unreadable."""
        damaged = 0
        at_once = by_time or reverse or bool(limit) or format != "framework"
        if not at_once:  # an iterator serves one page only
            views = None if views is None else cast(List[View], _words("views", views))
            types = None if types is None else _words("types", types)
            agent_keys = None if agent_keys is None else _words("agent_keys", agent_keys)
        while True:
            page = self.query(location, views=views, types=types, agent_key=agent_key,
                              agent_keys=agent_keys, turn_id=turn_id, since=since,
                              until=until, after_seq=after_seq, before_seq=before_seq,
                              limit=limit if at_once else PAGE,
                              oldest=oldest if at_once else True, reverse=reverse,
                              by_time=by_time, format=format)
            damaged += page.damaged
            for message in page:
                self._open  # refuses once it is closed
                yield message
            if at_once or len(page.seqs) < PAGE:
                break
            after_seq = page.seqs[-1]
        if damaged:
            raise DamagedError("E_DAMAGED", "all messages but unreadable records were read")

    def __iter__(self) -> Iterator[Message]:
        return self.messages()

    def __bool__(self) -> bool:
        return True  # although it may be empty

    def __len__(self) -> int:
        return self.stat()["messages"]

    def history(self, location: str, agent_key: str, *,
                subordinates: Sequence[str] = (), timeline: bool = False,
                by_time: bool = False, conversation_limit: Optional[int] = None,
                agent_limit: Optional[int] = None, team_limit: Optional[int] = None,
                global_limit: Optional[int] = None, limit: Optional[int] = None,
                scope: Optional[str] = None, turns: Optional[int] = None,
                phase: Optional[int] = None, previous_phase: Optional[int] = None,
                format: Format = "framework") -> History:
        """Returns the history of the agent ``agent_key`` at a ``location``: conversation,
        own steps, those of its ``subordinates`` (a list of agent keys), broadcasts.

        The blocks follow one another, each with a limit of its own, which keeps the newest
        n: ``conversation_limit``, ``agent_limit``, ``team_limit``, ``global_limit``. With
        ``by_time`` each is in order of time. A ``timeline`` is one block, ordered by
        number; ``limit`` keeps its newest n. ``format`` is that of the result.

        ``scope`` narrows it: "orchestrator" (the last ``turns`` messages of the
        conversation; default 8), "manager" (synthesis of ``previous_phase``, by default
        the one before ``phase``), "worker" (own steps and broadcasts after its newest
        task), "since_task" (all of the conversation, the rest from its newest task on).
        """
        args = _given(location=location, agent_key=agent_key, timeline=timeline,
                      by_time=by_time, conversation_limit=conversation_limit,
                      agent_limit=agent_limit, team_limit=team_limit,
                      global_limit=global_limit, limit=limit, scope=scope, turns=turns,
                      phase=phase, previous_phase=previous_phase)
        if subordinates:
            args["subordinates"] = _words("subordinates", subordinates)
        if format != "framework":
            args["format"] = format
        return _history(_ffi.call("history", self._open, args))

    def request(self, location: str, provider: Provider, *, model: Optional[str] = None,
                system: Optional[str] = None, tools: Optional[Sequence[Any]] = None,
                agent_key: Optional[str] = None, subordinates: Sequence[str] = (),
                newest: Optional[int] = None, budget: Optional[int] = None,
                thinking: Union[bool, Thinking] = False, text_type: Optional[str] = None,
                compact_at: Optional[int] = None, full: bool = False,
                cache: Optional[Cache] = None, cache_key: Optional[str] = None,
                previous: bool = False, extra: Optional[Mapping[str, Any]] = None,
                **members: Any) -> Request:
        """Returns the body of the next request: a history that the provider accepts.

        ``location`` is the conversation, ``provider`` the form of the body. ``model``,
        ``system`` (the system text) and ``tools`` (a list in the provider's own shape) go
        into it. So do ``members``, which are all other names, such as max_tokens, and
        those of ``extra``, a dict, which may have names that are arguments here.

        With ``agent_key`` it has what that agent reads, with its ``subordinates`` (a list
        of agent keys); what other agents said is user text with their names.
        ``text_type`` is that of ``answer``. ``newest`` keeps at most so many of the newest
        messages, ``budget`` so many tokens, as the library estimates them; neither divides
        a turn. If the newest turn alone is over the budget, that is an
        :class:`ArgumentError` (E_TOO_LARGE).

        ``thinking`` selects the stored thinking that is sent back: False (none: the
        report counts it in ``dropped``), True (as the provider wants it), "running",
        "calls" or "all". To ask for thinking is the provider's own member:
        ``extra={"thinking": {"type": "enabled", "budget_tokens": 1024}}``.

        The newest compaction is sent instead of what it covers, unless ``full``;
        ``report["compaction_due"]`` says that the history costs more than ``compact_at``
        tokens.

        ``cache`` is "5m" or "1h": how long anthropic and bedrock cache what a request
        shares with the next; ``report["breakpoints"]`` counts their marks, 0 for others,
        which cache by themselves. ``cache_key`` is of requests that begin alike, for openai
        and openai-responses.

        With ``previous`` the server of openai-responses or gemini-interactions keeps its
        responses, and a request has only what came after the newest one, which it names;
        ``report["previous_unusable"]`` is 1 if all is sent although there is one. Pass
        ``report.get("sent")`` to ``answer``.
        """
        return self._request("request", {}, location, provider, model=model, system=system,
                             tools=tools, agent_key=agent_key, subordinates=subordinates,
                             newest=newest, budget=budget, thinking=thinking,
                             text_type=text_type, compact_at=compact_at, full=full,
                             cache=cache, cache_key=cache_key, previous=previous,
                             extra=extra, **members)

    def _request(self, op: str, more: Dict[str, Any], location: str, provider: Provider, *,
                 model: Optional[str] = None, system: Optional[str] = None,
                 tools: Optional[Sequence[Any]] = None, agent_key: Optional[str] = None,
                 subordinates: Sequence[str] = (), newest: Optional[int] = None,
                 budget: Optional[int] = None, thinking: Union[bool, Thinking] = False,
                 text_type: Optional[str] = None, compact_at: Optional[int] = None,
                 full: bool = False, cache: Optional[Cache] = None,
                 cache_key: Optional[str] = None, previous: bool = False,
                 extra: Optional[Mapping[str, Any]] = None, **members: Any) -> Any:
        if isinstance(thinking, Mapping):
            raise ArgumentError("E_KIND", "thinking is a dict: it selects the stored "
                                "thinking that is sent back, by True or a word. The body's "
                                'own member is passed as extra={"thinking": {...}}',
                                "thinking")
        args = _given(location=location, provider=provider, model=model, system=system,
                      agent_key=agent_key, newest=newest, budget=budget,
                      thinking=thinking, text_type=text_type, compact_at=compact_at,
                      full=full, cache=cache, cache_key=cache_key, previous=previous,
                      **more)
        if tools is not None:
            args["tools"] = list(tools)
            for i, tool in enumerate(args["tools"]):
                if not isinstance(tool, Mapping):
                    raise ArgumentError("E_KIND", f"tools[{i}] is {_kind(tool)}, a dict in "
                                        "the provider's shape was expected", "tools")
        if subordinates:
            args["subordinates"] = _words("subordinates", subordinates)
        further = _members(extra, members)
        if further:
            args["extra"] = further
        try:
            result = _ffi.call(op, self._open, args)
        except ArgumentError as error:
            raise _of_request(error, members) from None
        if "body" not in result:
            return result
        body = Request(result["body"])
        body.report = result.get("report", {})
        return body

    def compact_plan(self, location: str, provider: Provider, keep: int,
                     **options: Any) -> Dict[str, Any]:
        """Returns what a compaction would cover that leaves the newest messages of at most
        ``keep`` tokens. ``location``, ``provider`` and ``options`` are those of
        :meth:`request`. Changes nothing.

        ``upto`` is the last message covered, 0 if nothing can be covered now; the others
        are due, cost, first_seq, messages (covered) and kept (tokens that stay).
        """
        return self._request("compact_plan", {"keep": keep}, location, provider, **options)

    def compact_request(self, location: str, provider: Provider, upto: int, *,
                        prompt: Optional[str] = None, **options: Any) -> Request:
        """Returns the body of the request for the summary: the messages up to ``upto``, a
        number of a plan, and the ``prompt``. Without one it is the library's, with "" the
        provider's own form, which Anthropic and Responses have. ``location``,
        ``provider`` and ``options`` are those of :meth:`request`."""
        more = {"upto": upto, "prompt": prompt}
        return self._request("compact_request", more, location, provider, **options)

    def compact(self, location: str, provider: Provider, upto: int, *, body: Any = None,
                summary: Optional[str] = None, items: Optional[Sequence[Any]] = None,
                model: Optional[str] = None, agent_key: Optional[str] = None,
                for_all: bool = False, cause: Optional[str] = None,
                tokens_before: Optional[int] = None,
                tokens_after: Optional[int] = None) -> int:
        """Appends a compaction, which requests have instead of the messages of a
        ``location`` up to ``upto``, and returns its number. Nothing is deleted; a rewind to
        before it undoes it.

        ``body`` is the provider's answer to ``compact_request``; without it a ``summary``,
        or ``items`` that only ``provider`` and ``model`` read, or both. It is of the agent
        ``agent_key``, with ``for_all`` of all. ``cause`` (a word), ``tokens_before`` and
        ``tokens_after`` are kept with it, and not read. Messages that came since the plan
        stay. If storing the note of its usage fails, the compaction stays, and the
        error's path is "usage".
        """
        args = _given(location=location, provider=provider, upto=upto, summary=summary,
                      items=items, model=model, agent_key=agent_key, all=for_all,
                      cause=cause, tokens_before=tokens_before, tokens_after=tokens_after)
        text = b"" if body is None else _response(body)
        return _ffi.call("compact", self._open, args, text)["seq"]

    def pending(self, location: str, *, agent_key: Optional[str] = None,
                subordinates: Sequence[str] = ()) -> Dict[str, Any]:
        """Returns the calls of the newest answer at ``location`` that have no result yet;
        with ``agent_key`` of what that agent reads, with its ``subordinates``.

        ``calls`` is a list of dicts with seq, id, tool, args and agent_key. Left out, and
        counted: ``unfinished`` (cut off) and ``abandoned`` (the agent went on). With
        ``answered`` there is nothing to run and nothing to ask.
        """
        args = _given(location=location, agent_key=agent_key)
        if subordinates:
            args["subordinates"] = _words("subordinates", subordinates)
        return _ffi.call("pending", self._open, args)

    def search(self, text: str, location: Optional[str] = None, *, limit: int = 100,
               exact_case: bool = False, oldest_first: bool = False,
               types: Sequence[str] = (), agent_key: Optional[str] = None,
               since: Optional[float] = None, until: Optional[float] = None,
               views: Optional[Sequence[View]] = None,
               agent_keys: Optional[Sequence[str]] = None, turn_id: Optional[str] = None,
               after_seq: Optional[int] = None,
               before_seq: Optional[int] = None) -> Found:
        """Returns matches of ``text`` with their seq, location, type, field and a snippet,
        newest first, or ``oldest_first``. ``exact_case``: else ASCII letters match in both
        cases. ``limit`` (100; 0: all) is that of the matches. The filters are those of
        :meth:`query`; without ``types`` all types are searched."""
        args = _given(text=text, location=location, exact_case=exact_case,
                      oldest_first=oldest_first, since=since, until=until,
                      agent_key=agent_key, turn_id=turn_id, after_seq=after_seq,
                      before_seq=before_seq)
        args["limit"] = limit
        if types:
            args["types"] = _words("types", types)
        for name, words in (("views", views), ("agent_keys", agent_keys)):
            if words is not None:
                args[name] = _words(name, words)
        return _found(_ffi.call("search", self._open, args), "matches")

    # ---- Changes.

    def _change(self, op: str, **arguments: Any) -> Dict[str, Any]:
        return _ffi.call(op, self._open, arguments)

    def amend(self, seq: int, message: Mapping[str, Any], *,
              format: Format = "framework") -> None:
        """Replaces the message with the number ``seq`` by ``message``, which is in the
        ``format``. Number, place, type, location, agent key and idempotency key stay;
        another one of these is an :class:`ArgumentError`. The time and the turn stay where
        ``message`` has none."""
        try:
            self._change("amend", seq=seq, message=message, format=format)
        except ArgumentError as error:
            raise (_of_key(error) if error.path == "key" else error) from None

    def hide(self, seq: int) -> None:
        """Hides the message with the number ``seq`` from every view. It keeps its key."""
        self._change("hide", seq=seq)

    def rewind(self, location: str, seq: int = 0) -> int:
        """Hides all messages of ``location`` after the one with the number ``seq``, which
        is visible there (0: all). Returns how many it hid. They keep their keys."""
        if seq is None:  # in JSON it would be absent, and hide all
            raise ArgumentError("E_KIND", "seq is None, a number was expected", "seq")
        return self._change("rewind", location=location, seq=seq)["hidden"]

    def redact(self, seq: int) -> None:
        """Erases the content of the message with the number ``seq``, also one that is
        hidden, in the file too. Number, time, type and keys stay. Forks and copies made
        before keep theirs."""
        self._change("redact", seq=seq)

    def note(self, seq: int, kind: str, value: Any) -> None:
        """Attaches ``value``, any JSON but null, to the message with the number ``seq``.
        ``kind`` is a word: "usage" is added up by :meth:`usage`."""
        if value is None:
            raise ArgumentError("E_KIND", "value is None: any JSON but null was expected",
                                "value")
        self._change("note", seq=seq, kind=kind, value=value)

    def notes(self, seq: int, kind: Optional[str] = None) -> Found:
        """Returns the notes of the message with the number ``seq``, which must be shown,
        oldest first, as dicts of kind, value and time; with ``kind`` those of it alone. A
        note that C wrote may lack a value."""
        return _found(_ffi.call("notes", self._open, _given(seq=seq, kind=kind)), "notes")

    def fork(self, location: str, seq: int, to: str) -> None:
        """Copies what ``location`` shows, up to its message ``seq`` (0: facts alone), to
        the location ``to``. :class:`ConflictError`: that has messages. The copies have new
        numbers. The facts are copied, too, with parent and parent_seq."""
        self._change("fork", location=location, seq=seq, to=to)

    def facts(self, location: str, /, **facts: Any) -> Dict[str, Any]:
        """Sets the ``facts`` of ``location`` that are named (None removes one) and returns
        all of them."""
        if facts:
            self.facts_set(location, facts)
        return _ffi.call("facts", self._open, {"location": location})

    def facts_set(self, location: str, facts: Mapping[str, Any]) -> None:
        """Sets ``facts``, a dict with any names (None removes one), of ``location``. It
        reads none."""
        self._change("set_facts", location=location, value=dict(facts))

    # ---- Listings, figures, waiting.

    def locations(self, prefix: Optional[str] = None,
                  limit: Optional[int] = None) -> Found:
        """Returns locations with counts and times, newest activity first: those that begin
        with ``prefix``, at most ``limit``."""
        args = _given(prefix=prefix, limit=limit)
        return _found(_ffi.call("list", self._open, args), "items")

    def agents(self, location: Optional[str] = None,
               limit: Optional[int] = None) -> Found:
        """Returns the agent keys of ``location``, or of all, newest activity first, at most
        ``limit``."""
        args = _given(agents=True, location=location, limit=limit)
        return _found(_ffi.call("list", self._open, args), "items")

    def usage(self, location: Optional[str] = None) -> Dict[str, Any]:
        """Returns the sums of the notes of kind "usage" at ``location``, or of all, and the
        count of damaged records."""
        return _ffi.call("usage", self._open, _given(location=location))

    def stat(self) -> Dict[str, Any]:
        """Returns counts and sizes."""
        return _ffi.call("stat", self._open, {})

    def sync(self) -> int:
        """Makes all appended messages durable; returns the last durable number."""
        return _ffi.call("sync", self._open, {})["durable_seq"]

    def backup(self, path: Union[str, bytes, "os.PathLike[str]"], *, newest: int = 0,
               newest_bytes: int = 0, since: Optional[float] = None,
               whole_turns: bool = False, locations: Optional[Sequence[str]] = None,
               dry_run: bool = False) -> Dict[str, int]:
        """Writes the store to a new log at ``path``, without what is hidden or replaced,
        and goes on as it is. Returns counts; :class:`DamagedError` has them in
        ``result``: then the new log has all that is readable. By default it has
        everything, else of each location the ``newest`` messages, of these the newest of
        ``newest_bytes`` together, and those ``since`` a time, in ``whole_turns``.
        ``locations``: of these alone. ``dry_run`` only counts."""
        name = _path(path)
        args = _kept(newest, newest_bytes, since, whole_turns, locations, dry_run)
        return _ffi.call_file("backup", self._open, name, {**args, "to_path": name})

    def copy(self, path: Union[str, bytes, "os.PathLike[str]"], *, newest: int = 0,
             newest_bytes: int = 0, since: Optional[float] = None,
             whole_turns: bool = False, locations: Optional[Sequence[str]] = None,
             dry_run: bool = False) -> Dict[str, int]:
        """Appends the messages of the log at ``path``, with notes and facts. They keep
        their numbers, which must be larger than those of this store. Options and result
        as of :meth:`backup`."""
        name = _path(path)
        args = _kept(newest, newest_bytes, since, whole_turns, locations, dry_run)
        return _ffi.call_file("copy", self._open, name, {**args, "from_path": name})

    def wait(self, after_seq: int, timeout: float = 1.0) -> int:
        """Waits for a message after the number ``after_seq``, also of another process, at
        most ``timeout`` seconds. Returns the last number of the store; after a timeout it
        may be the same."""
        deadline = time.monotonic() + timeout
        while True:
            left = max(deadline - time.monotonic(), 0) * 1000
            args = {"after_seq": after_seq, "timeout_ms": int(min(left, _ffi.SLICE_MS))}
            last: int = _ffi.call("wait", self._open, args)["last_seq"]
            if last > after_seq or left <= _ffi.SLICE_MS:
                return last

    # ---- The calls that can wait for a lock, a disk or a message, for asyncio. A
    # cancelled append may still be stored: its thread goes on.

    async def append_async(self, messages: Union[Mapping[str, Any],
                                                 Iterable[Mapping[str, Any]]],
                           location: Optional[str] = None, *, format: Format = "framework",
                           lenient: bool = False,
                           expect_seq: Optional[int] = None) -> List[int]:
        """:meth:`append`, in a thread."""
        return await asyncio.to_thread(self.append, messages, location, format=format,
                                       lenient=lenient, expect_seq=expect_seq)

    async def answer_async(self, body: Any, provider: Provider, location: str, *,
                           agent_key: Optional[str] = None,
                           text_type: Optional[str] = None,
                           sent: Optional[str] = None) -> Dict[str, Any]:
        """:meth:`answer`, in a thread."""
        return await asyncio.to_thread(self.answer, body, provider, location,
                                       agent_key=agent_key, text_type=text_type, sent=sent)

    async def sync_async(self) -> int:
        """:meth:`sync`, in a thread."""
        return await asyncio.to_thread(self.sync)

    async def wait_async(self, after_seq: int, timeout: float = 1.0) -> int:
        """:meth:`wait`; cancelling it ends the wait within 0.1 s."""
        deadline = time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            part = min(max(left, 0), _ffi.SLICE_MS / 1000)
            last = await asyncio.to_thread(self.wait, after_seq, part)
            if last > after_seq or left <= part:
                return last

    async def close_async(self) -> None:
        """:meth:`close`, in a thread."""
        await asyncio.to_thread(self.close)


def open(path: Union[str, bytes, "os.PathLike[str]", None] = None, *, mode: Mode = "create",
         sync: Sync = "none", shared: bool = False, sync_ms: Optional[int] = None,
         lock_wait_ms: Optional[int] = None, keep_unset_times: bool = False) -> Store:
    """Opens the log file at ``path``, or without a path a store in memory.

    ``mode``: "create" (creates a missing file), "write" (:class:`MissingFileError` without
    one), "new" (:class:`ConflictError` if there is one), "read".
    ``sync``: "none" survives the death of the process; "each" a power loss, too; "every" a
    power loss but for the newest messages, at most ``sync_ms`` (default 1000) old.
    ``shared``: several processes may write at once.
    ``lock_wait_ms``: how long to wait for another writer, then :class:`BusyError`; default
    0, with ``shared`` 1000.
    ``keep_unset_times``: a message without timestamp stays without; else it gets the
    present time.

    >>> with open() as store:
    ...     store.append(user("hello"), "chat_1")
    ...     [m.content for m in store.messages("chat_1")]
    [1]
    ['hello']
    """
    args: Dict[str, Any] = {}
    name = None if path is None else _path(path)
    if name is not None:
        args = _given(path=name, shared=shared, sync_ms=sync_ms,
                      lock_wait_ms=lock_wait_ms)
        args.update(mode=mode, sync=sync)
    if keep_unset_times:
        args["keep_unset_times"] = True
    store = Store(_ffi.open_store(args), name)
    if name is not None and store.stat()["damaged"]:
        warnings.warn(f"{name}: parts of the log are damaged and not read; "
                      "msgstore.verify has the report", RuntimeWarning, stacklevel=2)
    return store


def union(stores: Iterable[Store]) -> Store:
    """Opens ``stores`` as one, for reading: the messages of the first one, then those of
    the second one, and so on; with ``by_time`` in order of time. Message ``n`` of
    ``stores[k]`` has the number ``k * 2**40 + n``; :func:`member` returns the two.

    What is appended to the stores shows in it. It keeps them: a store that is closed
    before it refuses calls of its own, and the union reads on.

    >>> with open() as day, open() as night, union([day, night]) as both:
    ...     day.append(user("a"), "l"), night.append(user("b"), "l")
    ...     [(m.content, *member(m.seq)) for m in both.query("l")]
    ([1], [1])
    [('a', 0, 1), ('b', 1, 1)]
    """
    members = tuple(stores)
    for i, store in enumerate(members):
        if not isinstance(store, Store):
            raise ArgumentError("E_KIND", f"stores[{i}] is {_kind(store)}, a Store was "
                                "expected", f"stores[{i}]")
    return Store(_ffi.open_union([store._handle for store in members]), None, members)


def member(seq: int) -> Tuple[int, int]:
    """Returns the index of the store that the message ``seq`` of a union lies in, and its
    number there."""
    return seq >> 40, seq & (1 << 40) - 1


def _path(path: Union[str, bytes, "os.PathLike[str]"]) -> str:
    name = os.fsdecode(path)
    if not name or name != name.encode("utf-8", "ignore").decode():
        raise ArgumentError("E_ARGUMENT", f"path is {path!r}, a name in UTF-8 was expected "
                            "(without a path the store is in memory)")
    return name


def verify(path: Union[str, bytes, "os.PathLike[str]"]) -> Dict[str, Any]:
    """Checks every byte of the log at ``path``. :class:`DamagedError` has the report in
    ``result``; None if the log cannot be opened."""
    return _ffi.verify(_path(path))


def rewrite(path: Union[str, bytes, "os.PathLike[str]"], *, newest: int = 0,
            newest_bytes: int = 0, since: Optional[float] = None, whole_turns: bool = False,
            locations: Optional[Sequence[str]] = None, dry_run: bool = False,
            lock_wait_ms: Optional[int] = None) -> Dict[str, int]:
    """Replaces the log at ``path`` by one without what is hidden or replaced, and without
    what the options of :meth:`Store.backup` leave out. :class:`BusyError`: a writer has it
    open, also after ``lock_wait_ms``. The next call of a reader or a
    shared writer is a :class:`ConflictError`, once."""
    name = _path(path)
    args = _kept(newest, newest_bytes, since, whole_turns, locations, dry_run)
    args.update(_given(lock_wait_ms=lock_wait_ms), path=name)
    return _ffi.call_file("rewrite", None, name, args)
