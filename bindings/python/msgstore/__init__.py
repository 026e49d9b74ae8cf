"""Message store for agent programs.

>>> import msgstore
>>> with msgstore.open() as store:
...     _ = store.append([msgstore.user("List all tables"),
...                       msgstore.action("list_tables", {}, agent_key="worker")], "job_1")
...     [m.type for m in store.history("job_1", "worker")]
['user_message', 'action']
"""

from ._ffi import (ArgumentError, BusyError, ConflictError, DamagedError, FolderError,
                   FullError, KeyReusedError, MissingFileError, MsgstoreError,
                   NotFoundError, ReadOnlyError, RefusedError, StorageError,
                   UnsupportedError)
from .store import (History, Message, Request, Store, action, assistant, member,
                    observation, open, rewrite, union, user, verify)
from .words import Format, Provider

__version__ = "0.3.0"
__all__ = [
    "ArgumentError", "BusyError", "ConflictError", "DamagedError", "FolderError",
    "Format", "FullError", "History", "KeyReusedError", "Message", "MissingFileError", "MsgstoreError",
    "NotFoundError", "Provider", "ReadOnlyError", "RefusedError", "Request",
    "StorageError", "Store", "UnsupportedError", "action", "assistant", "member",
    "observation", "open", "rewrite", "union", "user", "verify",
]
