"""The store of the agent framework guide for `make bench`: Python and SQLite, unchanged.

    python3 bench/compare/python.py MODE --n N --dir FOLDER [--variant python]
                                 [--seconds S] [--cold] [--build FOLDER]

Modes and lines are those of driver.c; the messages come from bench_floor in --build
(build). Each call of the store opens a connection, runs one statement and closes it;
content and arguments are stored as JSON; a view is selected by its types and sorted by
time. So every append is a synced commit of the
rollback journal, and there is no append, batch or batch-sync. The mode fill inserts all
messages by one executemany in one transaction, which the store itself cannot do. The
newest 20 are the last of the whole conversation, since a limit returns the oldest.

Differences from the other programs: content is an object of one text, because the store
fails when it reads a plain text back; a delegation's task and worker go into the columns
content and from_worker; an error's type is lost, as the store has
no column for it; a team has no filter of types, so it has more rows than elsewhere; no
view has all columns. Hence no mode check: compare the rows a query of the other views.
There is no scan either: the store has no such call. Shallow counts the rows, deep reads
the text of each once more; in both all of it has been decoded. The memory is not touched
beforehand: at these speeds it does not show.
"""

import argparse
import itertools
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
import zlib

STORE = "python"
LOCATIONS, AGENTS = 100, 8
SYNCS, PASSES, TIMES = 1000, 20, 20000
VIEWS = ["tail", "conversation", "agent", "team", "global", "history"]
MASK = (1 << 64) - 1

LOCATION_NAMES = ["location_%03d" % i for i in range(LOCATIONS)]
AGENT_NAMES = ["agent_%d" % i for i in range(AGENTS)]


# ---- the messages of data.h ----

class Random:
    """splitmix64."""

    def __init__(self, state):
        self.state = state

    def below(self, n):
        self.state = z = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) % n


def messages(build, n):
    """Yields n times (location, message, agent key), as a program stores them."""
    command = [build + "/bench_floor", "messages", "--n", str(n), "--dir", ".",
               "--variant", "floor map"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        for line in program.stdout:
            (kind, location, agent, turn, content, args, tool, summary, worker, manager,
             time_ns) = json.loads(line)
            message = {"type": kind, "timestamp": time_ns / 1e9, "turn_id": turn}
            if args:
                message["args"] = json.loads(args)
            else:
                message["content"] = {"text": content}
            for name, value in (("error_type" if kind == "error" else "tool", tool),
                                ("summary", summary), ("from_worker", worker),
                                ("from_manager", manager)):
                if value:
                    message[name] = value
            yield location, message, agent or None


# ---- the store: the guide's, call by call ----

INSERT = ("INSERT INTO messages (location, agent_key, type, content, timestamp, turn_id,"
          " tool, args, from_worker, from_manager, summary)"
          " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")


def row_of(location, message, agent_key):
    content, args = message.get("content"), message.get("args")
    return (location, agent_key, message.get("type"),
            content if isinstance(content, str) else json.dumps(content),
            message.get("timestamp"), message.get("turn_id"), message.get("tool"),
            json.dumps(args) if args else None, message.get("from_worker"),
            message.get("from_manager"), message.get("summary"))


class SeedStore:
    def __init__(self, path):
        self.path = path
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE IF NOT EXISTS messages ("
                   "id INTEGER PRIMARY KEY AUTOINCREMENT, location TEXT NOT NULL,"
                   " agent_key TEXT, type TEXT NOT NULL, content TEXT NOT NULL,"
                   " timestamp REAL, turn_id TEXT, tool TEXT, args TEXT,"
                   " from_worker TEXT, from_manager TEXT, summary TEXT)")
        db.execute("CREATE INDEX IF NOT EXISTS idx_location_type"
                   " ON messages(location, type)")
        db.execute("CREATE INDEX IF NOT EXISTS idx_location_agent"
                   " ON messages(location, agent_key)")
        db.commit()
        db.close()

    def write(self, location, message, agent_key):
        db = sqlite3.connect(self.path)
        db.execute(INSERT, row_of(location, message, agent_key))
        db.commit()
        db.close()

    def select(self, columns, where, values):
        db = sqlite3.connect(self.path)
        rows = db.execute("SELECT type, content, timestamp, turn_id" + columns +
                          " FROM messages WHERE location = ? AND " + where +
                          " ORDER BY timestamp ASC", values).fetchall()
        db.close()
        return rows

    def conversation(self, location):
        rows = self.select("", "type IN ('user_message', 'assistant_message')",
                           (location,))
        return [{"type": row[0], "content": json.loads(row[1]), "timestamp": row[2],
                 "turn_id": row[3]} for row in rows]

    def agent(self, location, agent_key):
        rows = self.select(", tool, args", "agent_key = ? AND type IN ('task', 'action',"
                           " 'observation', 'error', 'final', 'delegation')",
                           (location, agent_key))
        return [{"type": row[0], "content": json.loads(row[1]), "timestamp": row[2],
                 "turn_id": row[3], "tool": row[4],
                 "args": json.loads(row[5]) if row[5] else None} for row in rows]

    def broadcasts(self, location):
        rows = self.select(", from_worker, from_manager, summary",
                           "type IN ('global_observation', 'synthesis')", (location,))
        return [{"type": row[0], "content": json.loads(row[1]), "timestamp": row[2],
                 "turn_id": row[3], "from_worker": row[4], "from_manager": row[5],
                 "summary": row[6]} for row in rows]

    def team(self, location, agent_keys):
        places = ",".join("?" * len(agent_keys))
        rows = self.select(", agent_key", "agent_key IN (" + places + ")",
                           (location, *agent_keys))
        return [{"type": row[0], "content": json.loads(row[1]), "timestamp": row[2],
                 "turn_id": row[3], "agent_key": row[4]} for row in rows]


def read_view(store, view, location, agent):
    name, key = LOCATION_NAMES[location], AGENT_NAMES[agent]
    if view == "tail":
        return store.conversation(name)[-20:]
    if view == "conversation":
        return store.conversation(name)
    if view == "agent":
        return store.agent(name, key)
    if view == "team":
        return store.team(name, AGENT_NAMES)
    if view == "global":
        return store.broadcasts(name)
    return store.conversation(name) + store.agent(name, key) + store.broadcasts(name)


# ---- files, and figures of the system ----

class Bench:
    """One run: the command line, the folder, the lines on stdout."""

    def __init__(self, options):
        self.mode, self.n, self.dir = options.mode, options.n, options.dir
        self.build = options.build
        self.seconds, self.cold = options.seconds, options.cold

    def folder(self, kept):
        return os.path.join(self.dir, "%s-%s" % (STORE, self.n if kept else self.mode))

    def new_store(self, kept):
        folder = self.folder(kept)
        if os.path.exists(folder):
            shutil.rmtree(folder)
        os.makedirs(folder, 0o700)
        return SeedStore(os.path.join(folder, "messages.db"))

    def old_path(self):
        folder = self.folder(True)
        if not os.path.exists(folder):
            sys.exit(folder + ": not there, run the mode fill before")
        read_files(folder)
        return os.path.join(folder, "messages.db")

    def tell(self, what, value, unit):
        print('{"store":"%s","n":%d,"what":"%s","value":%.6g,"unit":"%s"}'
              % (STORE, self.n, what, value, unit))

    def skip(self, why):
        print('{"store":"%s","n":%d,"what":"%s","skip":"%s"}'
              % (STORE, self.n, self.mode, why))


def files_in(folder):
    return [os.path.join(folder, name) for name in os.listdir(folder)]


def read_files(folder):
    for path in files_in(folder):
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass


def drop_files(folder):
    """Writes the files to the disk, and drops them from the page cache."""
    for path in files_in(folder):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def written_bytes(folder):
    """Returns the bytes that the folder's disk wrote, or else this process."""
    device = os.stat(folder).st_dev
    disk = "/sys/dev/block/%d:%d/stat" % (os.major(device), os.minor(device))
    if os.path.exists(disk):
        with open(disk) as file:
            return 512 * int(file.read().split()[6])
    with open("/proc/self/io") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("write_b"))


# ---- modes ----

def put_all(store, some):
    db = sqlite3.connect(store.path)
    db.executemany(INSERT, (row_of(*one) for one in some))
    db.commit()
    db.close()


def fill(bench):
    store = bench.new_store(True)
    begin = time.perf_counter_ns()
    put_all(store, messages(bench.build, bench.n))
    spent = time.perf_counter_ns() - begin
    blocks = sum(os.stat(path).st_blocks for path in files_in(bench.folder(True)))
    bench.tell("fill", spent / bench.n, "ns/message")
    bench.tell("disk", 512 * blocks / bench.n, "bytes/message")


def sync(bench):
    store = bench.new_store(False)
    folder, times = bench.folder(False), []
    data = messages(bench.build, bench.n + SYNCS)
    put_all(store, itertools.islice(data, bench.n))
    rest = list(data)
    drop_files(folder)
    os.sync()
    read_files(folder)
    limit = (bench.seconds or 3) * 1e9
    before = written_bytes(folder)
    begin = last = time.perf_counter_ns()
    while len(times) < SYNCS and last - begin < limit:
        store.write(*rest[len(times)])
        now = time.perf_counter_ns()
        times.append(now - last)
        last = now
    count, written = len(times), written_bytes(folder) - before
    shutil.rmtree(folder)
    times.sort()
    bench.tell("sync p50", times[count // 2] / 1e3, "us")
    bench.tell("sync p99", times[count * 99 // 100] / 1e3, "us")
    bench.tell("sync mean", (last - begin) / count / 1e3, "us")
    bench.tell("sync device", written / count / 1024, "KiB/commit")


def make_plan():
    """Returns (location, agent) of each query, as in driver.c."""
    random, plan = Random(7), []
    for _ in range(PASSES):
        locations = [0] * LOCATIONS
        for i in range(LOCATIONS):
            other = random.below(i + 1)
            locations[i] = locations[other]
            locations[other] = i
        plan += [(location, random.below(AGENTS)) for location in locations]
    return plan


def passes(store, plan, view, deep, seconds):
    """Returns (nanoseconds, rows, queries) of whole passes."""
    count = rows = text = spent = 0
    limit, begin = seconds * 1e9, time.perf_counter_ns()
    while spent <= 5 * limit and (spent <= limit or count % LOCATIONS != 0):
        for _ in range(10):
            found = read_view(store, view, *plan[count % len(plan)])
            rows += len(found)
            count += 1
            if deep:
                for row in found:
                    if row["content"] is not None:
                        text ^= zlib.crc32(row["content"]["text"].encode())
        spent = time.perf_counter_ns() - begin
    return spent, rows, count


def latency(store, plan, view, seconds):
    times, begin = [], time.perf_counter_ns()
    last = begin
    while len(times) < TIMES and last - begin < seconds * 1e9:
        read_view(store, view, *plan[len(times) % len(plan)])
        now = time.perf_counter_ns()
        times.append(now - last)
        last = now
    times.sort()
    return times


def read(bench):
    path, plan, seconds = bench.old_path(), make_plan(), bench.seconds or 0.4
    store = SeedStore(path)
    for view in VIEWS:  # thrown away
        passes(store, plan, view, True, seconds / 10)
    for view in VIEWS:
        spent, rows, count = passes(store, plan, view, False, seconds)
        if rows == 0:
            sys.exit(view + ": no messages")
        bench.tell(view + " shallow", spent / rows, "ns/message")
        bench.tell(view + " rows", rows / count, "rows/query")
        spent, rows, count = passes(store, plan, view, True, seconds)
        bench.tell(view + " deep", spent / rows, "ns/message")
        times = latency(store, plan, view, seconds / 2)
        bench.tell(view + " p50", times[len(times) // 2], "ns/query")
        bench.tell(view + " p99", times[len(times) * 99 // 100], "ns/query")


def open_store(bench):
    path = bench.old_path()
    if bench.cold:
        drop_files(os.path.dirname(path))
        os.sync()
        drop_files(os.path.dirname(path))
    begin = time.perf_counter_ns()
    rows = read_view(SeedStore(path), "tail", 0, 0)
    spent = time.perf_counter_ns() - begin
    if not rows:
        sys.exit("open: the first answer has no messages")
    bench.tell("open cold" if bench.cold else "open warm", spent / 1e6, "ms")


SYNCED = "every append of this store is a synced commit"
MODES = {"fill": fill, "sync": sync, "read": read, "open": open_store}
SKIPS = {"append": SYNCED, "batch": SYNCED, "batch-sync": SYNCED,
         "check": "the store loses fields: compare the rows a query",
         "scan": "the store has no call for it"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["names", *MODES, *SKIPS])
    parser.add_argument("--n", type=int)
    parser.add_argument("--dir")
    parser.add_argument("--build", default="build")
    parser.add_argument("--variant", choices=[STORE])
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_args()
    if options.mode == "names":
        print('{"store":"%s","what":"name","notes":"the guide\'s SQLite store as written:'
              ' open, insert, commit, close"}' % STORE)
        return
    if not options.n or not options.dir:
        parser.error("--n and --dir are needed")
    bench = Bench(options)
    if options.mode in SKIPS:
        bench.skip(SKIPS[options.mode])
    else:
        MODES[options.mode](bench)


if __name__ == "__main__":
    main()
