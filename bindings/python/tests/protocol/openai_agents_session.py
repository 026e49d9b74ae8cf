"""A pytest plugin: the session tests of openai-agents meet MsgstoreSession.

The tests of the SDK's source package (tests/memory/test_session.py, test_session_limit.py)
make sessions by ``SQLiteSession(session_id, db_path, session_settings=..)``. Loaded with
``-p`` before they are imported, this puts a session over a log at ``db_path`` there.
"""

from typing import Any, Dict

import agents

import msgstore
from msgstore.adapters.openai_agents import MsgstoreSession

#: Names in tests of SQLite's own session: its connections, locks and damaged rows.
SQLITE_ONLY = ("worker_thread", "retired_connections", "closed_rejects", "corrupt",
               "file_lock", "write_lock", "rolls_back", "evicts_connection",
               "close_retries", "post_commit")

_stores: Dict[str, msgstore.Store] = {}


class SQLiteSession(MsgstoreSession):
    def __init__(self, session_id: str, db_path: Any = ":memory:", **options: Any):
        path = str(db_path)
        if path == ":memory:":
            store = msgstore.open()
        else:
            if path not in _stores:
                _stores[path] = msgstore.open(path)
            store = _stores[path]
        super().__init__(store, session_id, **options)

    def close(self) -> None:
        """Does nothing: the SDK's tests close their sessions, and a store may serve several."""


def pytest_configure(config: Any) -> None:
    agents.SQLiteSession = SQLiteSession  # type: ignore[misc, assignment]


def pytest_collection_modifyitems(config: Any, items: Any) -> None:
    ours = [i for i in items if not any(word in i.name for word in SQLITE_ONLY)]
    config.hook.pytest_deselected(items=[i for i in items if i not in ours])
    items[:] = ours
