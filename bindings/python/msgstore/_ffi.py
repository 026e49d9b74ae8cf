"""The shared library through ctypes. Everything above this module is plain Python.

Requests and results are JSON; see [api-ffi] in msgstore_ffi.h for the members of each.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import pathlib
import re
import sys
import threading
import time
from types import FrameType
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple, TypeVar

from ._flat import FUNCTIONS

_T = TypeVar("_T")
_NAMES = {"win32": "msgstore.dll", "darwin": "libmsgstore.dylib"}


class MsgstoreError(Exception):
    """A call failed, and the store is as before; an answer may have kept its messages.

    ``code`` is the name of the result ("E_CONFLICT"), ``path`` the field that was wrong
    ("messages[3].args") and ``offset`` the byte, where they apply.
    """

    code = "E_UNKNOWN"

    def __init__(self, code: str, message: str, path: Optional[str] = None,
                 offset: Optional[int] = None):
        super().__init__(f"{path}: {message}" if path and path not in message else message)
        self.code = code
        self.message = message
        self.path = path
        self.offset = offset

    def __str__(self) -> str:  # not that of OSError, which has errno and filename alone
        return BaseException.__str__(self)

    def __reduce__(self) -> Any:  # exceptions cross processes pickled
        members = dict(self.__dict__)
        if isinstance(self, OSError):
            members.update(errno=self.errno, filename=self.filename)
        return type(self), (self.code, self.message, self.path, self.offset), members


class ArgumentError(MsgstoreError, ValueError):
    """An argument is not allowed, or a message lacks something."""


class NotFoundError(MsgstoreError, LookupError):
    """There is no such message, file or location."""


class MissingFileError(NotFoundError, FileNotFoundError):
    """There is no such log, or no folder for it. ``filename`` is its path."""


class ConflictError(MsgstoreError):
    """Another append was first (expect_seq), or the name is in use."""


class KeyReusedError(ConflictError):
    """The idempotency key was used with other content."""


class BusyError(MsgstoreError):
    """Another process is writing to the log."""


class DamagedError(MsgstoreError):
    """Stored bytes are damaged. ``result`` has what could be read."""

    result: Any = None


class FullError(MsgstoreError):
    """The disk or the buffer is full. Nothing was appended."""


class ReadOnlyError(MsgstoreError):
    """The log was opened for reading."""


class StorageError(MsgstoreError, OSError):
    """Reading, writing or syncing failed."""


class FolderError(StorageError, IsADirectoryError):
    """The path is that of a folder, ``filename``, not of a log."""


class RefusedError(MsgstoreError):
    """The provider answered with an error."""


class UnsupportedError(MsgstoreError):
    """This store or this build cannot do that."""


for _class in list(globals().values()):  # so tracebacks name msgstore.ConflictError
    if isinstance(_class, type) and issubclass(_class, MsgstoreError):
        _class.__module__ = "msgstore"

_ERRORS = {
    "E_ARGUMENT": ArgumentError, "E_SYNTAX": ArgumentError, "E_UTF8": ArgumentError,
    "E_DEPTH": ArgumentError, "E_KIND": ArgumentError, "E_RANGE": ArgumentError,
    "E_MISSING": ArgumentError, "E_TYPE": ArgumentError, "E_TOO_LARGE": ArgumentError,
    "E_NOT_FOUND": NotFoundError, "E_HIDDEN": NotFoundError, "E_CONFLICT": ConflictError,
    "E_KEY_REUSED": KeyReusedError, "E_BUSY": BusyError, "E_DAMAGED": DamagedError,
    "E_FOREIGN": DamagedError, "E_FULL": FullError, "E_NO_MEMORY": FullError,
    "E_READ_ONLY": ReadOnlyError, "E_IO": StorageError, "E_POISONED": StorageError,
    "E_UNREACHABLE": StorageError,
    "E_UNSUPPORTED": UnsupportedError, "E_REFUSED": RefusedError,
}


def _load() -> ctypes.CDLL:
    name = _NAMES.get(sys.platform, "libmsgstore.so")
    beside = pathlib.Path(__file__).with_name(name)
    path = os.environ.get("MSGSTORE_LIBRARY") or (str(beside) if beside.exists() else name)
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(
            f"cannot load the msgstore library from {path!r} ({error}); install the "
            "package with pip, or set MSGSTORE_LIBRARY to a library made by `make lib`"
        ) from error


_lib = _load()
for _name, (_returns, _takes) in FUNCTIONS.items():
    getattr(_lib, _name).restype = _returns
    getattr(_lib, _name).argtypes = _takes
_open, _union, _call = _lib.ms_ffi_open, _lib.ms_ffi_union, _lib.ms_ffi_call

_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"),
                          allow_nan=False).encode


def _kind(value: Any) -> str:
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"


_LONE = re.compile("[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]")


def _surrogate(text: Any) -> Optional[str]:
    """Returns what is wrong with a text that UTF-8 cannot have, None of another one."""
    lone = _LONE.search(text) if isinstance(text, str) else None
    return lone and (f"a lone surrogate (U+{ord(lone[0]):04X}) at character "
                     f"{lone.start()}, which UTF-8 cannot have")


def _refused(value: Any, name: str, error: Exception) -> ArgumentError:
    """Returns the error of a value that cannot be written, with the path of its first part
    that cannot. ``name`` is that of the value, "" of an object of arguments."""
    parts: List[Tuple[str, Any]] = [(name, value)]
    seen = set()  # containers: one may contain itself
    while parts:
        path, part = parts.pop()
        where = path or "the value"
        lone = _surrogate(part)
        if lone:
            return ArgumentError("E_UTF8", f"{where} has {lone}", path)
        if isinstance(part, float) and not part - part == 0:
            return ArgumentError("E_ARGUMENT", f"{where} is {part}: JSON has no NaN and no "
                                 "infinity", path)
        if part is None or isinstance(part, (str, int, float)) or id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, dict):
            for key in part:
                lone = _surrogate(key)
                if lone:
                    return ArgumentError("E_UTF8", f"{where}: a member's name has {lone}",
                                         path)
                if key is not None and not isinstance(key, (str, int, float)):
                    return ArgumentError("E_ARGUMENT", f"{where}: a member's name is "
                                         f"{_kind(key)}: in JSON it is a string", path)
            parts += [(f"{path}.{key}" if path else str(key), part[key])
                      for key in reversed(list(part))]
        elif isinstance(part, (list, tuple)):
            parts += [(f"{path}[{i}]", part[i]) for i in reversed(range(len(part)))]
        else:
            return ArgumentError("E_ARGUMENT", f"{where} is {_kind(part)}: JSON has only "
                                 "texts, numbers, True, False, None, lists and dicts", path)
    return ArgumentError("E_ARGUMENT", f"{name or 'this'} cannot be written as JSON: "
                         f"{error}", name or None)


def encode(value: Any, name: str = "", mend: bool = False) -> bytes:
    """Returns a value as JSON for the library. An error has the path of what is wrong,
    which begins with the name. Two surrogates that are a pair are its character; with
    ``mend`` lone ones become U+FFFD."""
    try:
        return utf8(_dumps(value), "replace" if mend else "strict")
    except (TypeError, ValueError) as error:
        raise _refused(value, name, error) from None
    except RecursionError:
        raise ArgumentError("E_DEPTH", "this is nested too deep") from None


def utf8(text: str, lone: str = "replace") -> bytes:
    """Returns a text as UTF-8. Lone surrogates become U+FFFD, or are a UnicodeDecodeError
    if ``lone`` is "strict"."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", lone).encode()


def _whole(digits: str) -> Any:
    try:
        return int(digits)
    except ValueError:  # more digits than Python reads; 1e5000 is a float, too
        return float(digits)


def _loads(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(text, parse_int=_whole)


def _result(code: int, out: ctypes.c_void_p, size: ctypes.c_size_t, parse: bool) -> Any:
    if not out.value:
        raise FullError("E_NO_MEMORY", "no memory for the result")
    try:
        text = ctypes.string_at(out.value, size.value)
    finally:
        _lib.ms_ffi_free(out)
    if code == 0:
        return _loads(text) if parse else text
    failure = json.loads(text)
    if "code" not in failure:  # verify or a copy: damage, with the whole report
        said = ("damaged ranges: {damaged} of records, {index_damaged} of the index, "
                "{lineage_damaged} of the lineage"
                if "index_damaged" in failure else
                "{damaged} records were unreadable; all others are copied"
                if failure["damaged"] > 0 else
                "the lineage is damaged: all is copied, to a log with a new one")
        error = DamagedError("E_DAMAGED", said.format(**failure))
        error.result = failure
        raise error
    raise _ERRORS.get(failure["code"], MsgstoreError)(
        failure["code"], failure.get("message", ""), failure.get("path"),
        failure.get("offset"))


def _run(function: Any, *arguments: Any, parse: bool = True) -> Any:
    out, size = ctypes.c_void_p(), ctypes.c_size_t()
    code = function(*arguments, ctypes.byref(out), ctypes.byref(size))
    return _result(code, out, size, parse)


def _of_file(found: MsgstoreError, path: Optional[str]) -> MsgstoreError:
    """Returns the error of a call that opens the log at a path: with the file's name where
    there is none, or a folder."""
    error: MsgstoreError
    if isinstance(found, NotFoundError):
        error = MissingFileError(found.code, found.message)
        error.errno, error.filename = errno.ENOENT, path
    elif found.code == "E_FOREIGN" and path and os.path.isdir(path):
        error = FolderError(found.code, f"{path!r} is a folder, not a log")
        error.errno, error.filename = errno.EISDIR, path
    else:
        error = found
    return error


SLICE_MS = 100  # a wait in the library, so that Ctrl-C and close take effect

_Calls = Dict[object, Tuple[int, FrameType]]


def _running(calls: _Calls) -> Set[int]:
    """Returns the threads of the calls that run. A call that an interrupt has ended
    between two steps may still be noted; its frame, which Python refuses to clear while it
    runs, can be cleared. (To look through the stacks of all threads would be the other
    way: sys._current_frames() may never return before Python 3.12, if a collection within
    it meets a finalizer that starts a thread or asks for the stacks.)"""
    threads = set()
    for thread, frame in list(calls.values()):
        try:
            frame.clear()
        except RuntimeError:
            threads.add(thread)
    return threads


class Handle:
    """An open store. Its calls are noted, so that it is freed when none of them runs. A
    union keeps its members: one that is closed is freed after its last union."""

    def __init__(self, lock_wait: float, members: Sequence["Handle"] = ()):
        self.lock_wait = lock_wait  # seconds, of a call
        self.pointer = ctypes.c_void_p()  # gone when it is freed
        self._pid = os.getpid()
        self._closed = False
        self._calls: _Calls = {}
        self._frees: _Calls = {}
        self._unions: Dict[object, None] = {}  # that read it
        self._members = tuple(members)  # gone when it is freed
        self._token = object()
        for member in self._members:
            member._unions[self._token] = None

    @property
    def closed(self) -> bool:
        return self._closed

    def call(self, function: Any, *arguments: Any, parse: bool = True) -> Any:
        token = object()
        try:
            self._calls[token] = threading.get_ident(), sys._getframe()
            if self._closed:
                raise MsgstoreError("E_CLOSED", "the store is closed")
            return _run(function, self.pointer, *arguments, parse=parse)
        finally:
            self._calls.pop(token, None)
            if self._closed:
                self._free_if_idle()

    def _free_if_idle(self) -> None:
        token = object()
        try:
            self._frees[token] = threading.get_ident(), sys._getframe()
            if not _running(self._calls) and not self._unions:
                self._free()
        finally:
            self._frees.pop(token, None)

    def _free(self) -> None:
        pointer = self.__dict__.pop("pointer", None)  # one of several callers gets it
        if pointer and self._pid == os.getpid():
            _lib.ms_close(pointer)
        for member in self.__dict__.pop("_members", ()):
            member._unions.pop(self._token, None)
            if member._closed:
                member._free_if_idle()

    def close(self) -> None:
        """Refuses new calls, waits for those of other threads, and frees the store. In a
        signal handler amid a call of this thread it leaves that to the end of the call.
        In a child of fork it does nothing. The store of a union is synced, and freed with
        the union."""
        if self._pid != os.getpid():
            return
        if self._unions and not self._closed:
            try:
                self.call(_call, b"sync", b"{}", 2, b"", 0)
            except MsgstoreError:  # as in ms_close
                pass
        self._closed = True
        pause = .001
        while True:
            threads = _running(self._calls) | _running(self._frees)
            if threading.get_ident() in threads:
                return
            if not threads:
                break
            time.sleep(pause)
            pause = min(2 * pause, .02)
        if "pointer" not in self.__dict__:
            return
        thread = threading.Thread(target=self._free_if_idle)  # no interrupt ends it
        try:
            thread.start()
        except RuntimeError:  # the interpreter ends
            self._free_if_idle()
            return
        thread.join()

    def __del__(self) -> None:
        try:
            self._free()
        except Exception:  # the interpreter may be going down
            pass


def _waiting(seconds: float, run: Callable[[], _T]) -> _T:
    """Runs what waits for a lock for up to SLICE_MS until it has it, or time is up. A
    call that was refused as busy has changed nothing, unless the path is "usage": then its
    messages are stored."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return run()
        except BusyError as error:
            if error.path == "usage" or time.monotonic() >= deadline:
                raise


def open_store(args: Dict[str, Any]) -> Handle:
    wait_ms = args.get("lock_wait_ms") or (1000 if args.get("shared") else 0)
    if not isinstance(wait_ms, int):
        raise ArgumentError("E_KIND", f"lock_wait_ms is a {type(wait_ms).__name__}, a "
                            "number was expected", "lock_wait_ms")
    if wait_ms > SLICE_MS:
        args = {**args, "lock_wait_ms": SLICE_MS}
    text = encode(args)
    seconds = (wait_ms - SLICE_MS) / 1000
    handle = Handle(seconds if args.get("shared") else 0)  # closes what is opened
    to = ctypes.byref(handle.pointer)
    try:
        _waiting(seconds, lambda: _run(_open, to, text, len(text)))
    except MsgstoreError as found:
        raise _of_file(found, args.get("path")) from None
    return handle


def open_union(members: Sequence[Handle]) -> Handle:
    handle = Handle(0, members)  # no member is freed from here on
    try:
        pointers = (ctypes.c_void_p * len(members))()
        for i, member in enumerate(members):
            if member.closed:
                raise MsgstoreError("E_CLOSED", "the store is closed", f"stores[{i}]")
            pointers[i] = member.pointer
        _run(_union, ctypes.byref(handle.pointer), pointers, len(members))
    except BaseException:
        handle._free()  # the traceback would keep it
        raise
    return handle


def call_file(name: str, handle: Optional[Handle], path: str, args: dict) -> Any:
    """As call, of a function that reads the log at a path."""
    try:
        return call(name, handle, args)
    except MsgstoreError as found:
        raise _of_file(found, path) from None


def verify(path: str) -> Any:
    return call_file("verify", None, path, {"path": path})


def call(name: str, handle: Optional[Handle], args: dict, body: bytes = b"",
         parse: bool = True) -> Any:
    text = encode(args)
    arguments = name.encode(), text, len(text), body, len(body)
    if handle is None:
        return _run(_call, None, *arguments, parse=parse)
    if handle.lock_wait <= 0:
        return handle.call(_call, *arguments, parse=parse)
    return _waiting(handle.lock_wait, lambda: handle.call(_call, *arguments, parse=parse))
