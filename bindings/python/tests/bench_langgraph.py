"""Speeds of the LangGraph saver beside the package's SQLite saver: 1,000 threads with 10
checkpoints each, every one with two writes, then one thread with 10,000; the newest
checkpoint of each thread; the newest 10 of 10,000. Each part is timed in tenths, so that
a cost that grows shows: the last tenth beside the first. CPU seconds of one run. SQLite
does not sync, as the log does not by default."""

import os
import tempfile
import time

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

import msgstore
from msgstore.adapters.langgraph import MsgstoreSaver

VALUES = {"messages": [{"role": "user", "content": "row %d of the table" % n}
                       for n in range(10)]}


def tenths(work):
    """Returns the seconds of all ten parts, and of the last one beside the first."""
    spent = []
    for part in range(10):
        start = time.process_time()
        work(part)
        spent.append(time.process_time() - start)
    return f"{sum(spent):8.2f} s, last tenth {spent[-1] / spent[0]:5.2f} of the first"


def run(saver):
    def at(thread, key=None):
        inner = {"thread_id": thread, "checkpoint_ns": ""}
        return {"configurable": {**inner, "checkpoint_id": key} if key else inner}

    def put(n, thread, parent):
        made = empty_checkpoint()
        made.update(id=f"{n:08}", channel_values=VALUES, channel_versions={"messages": n})
        config = saver.put(at(thread, parent), made, {"source": "loop", "step": n},
                           {"messages": n})
        saver.put_writes(config, [("messages", n), ("other", n)], "task")

    def threads(part):
        for n in range(part * 1000, part * 1000 + 1000):
            put(n, f"t{n // 10}", f"{n - 1:08}" if n % 10 else None)

    def one(part):
        for n in range(part * 1000, part * 1000 + 1000):
            put(n, "one", f"{n - 1:08}" if n else None)

    def newest(part):
        for n in range(part * 100, part * 100 + 100):
            assert saver.get_tuple(at(f"t{n}")).checkpoint["id"] == f"{n * 10 + 9:08}"

    def page(part):
        for n in range(100):
            assert len(list(saver.list(at("one"), limit=10))) == 10

    def delete(part):
        for n in range(part * 100, part * 100 + 100):
            saver.delete_thread(f"t{n}")

    for name, work in (("1,000 threads of 10", threads), ("1 thread of 10,000", one),
                       ("newest of 1,000 threads", newest), ("newest 10, 1,000 times", page),
                       ("delete 1,000 threads", delete)):
        print(f"    {name:25}{tenths(work)}")


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "ours.msl")
    print("msgstore")
    with msgstore.open(path) as log:
        run(MsgstoreSaver(log))
    print(f"    file {os.path.getsize(path) / 1e6:.1f} MB")
    path = os.path.join(folder, "theirs.db")
    print("SqliteSaver")
    with SqliteSaver.from_conn_string(path) as saver:
        saver.setup()
        saver.conn.execute("pragma synchronous = off")
        run(saver)
    print(f"    file {os.path.getsize(path) / 1e6:.1f} MB")
