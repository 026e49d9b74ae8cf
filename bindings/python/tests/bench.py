"""Speeds of the package beside SQLAlchemy and the SQLite session of the OpenAI Agents SDK:
appends in batches of 100, then the newest 1,000 of 20,000 messages. Medians of 5 runs."""

import asyncio
import json
import os
import statistics
import tempfile
import time

import msgstore

BATCH = [{"type": "observation", "content": "row %d of the table" % n, "agent_key": "w"}
         for n in range(100)]
ITEMS = [{"role": "user", "content": "row %d of the table" % n} for n in range(100)]
ROUNDS = 200


def timed(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ours(folder):
    with msgstore.open(os.path.join(folder, "ours.msl")) as store:
        append = timed(lambda: [store.append(BATCH, "l") for _ in range(ROUNDS)])
        read = timed(lambda: store.history("l", "w", agent_limit=1000))
    return append, read


def sqlalchemy(folder):
    import sqlalchemy as sa
    engine = sa.create_engine("sqlite:///" + os.path.join(folder, "alchemy.db"))
    meta = sa.MetaData()
    table = sa.Table("messages", meta, sa.Column("id", sa.Integer, primary_key=True),
                     sa.Column("location", sa.String, index=True),
                     sa.Column("body", sa.String))
    meta.create_all(engine)
    with engine.connect() as connection:
        connection.execute(sa.text("pragma journal_mode = wal"))
        connection.execute(sa.text("pragma synchronous = off"))

    def append():
        for _ in range(ROUNDS):
            with engine.begin() as connection:
                connection.execute(table.insert(), [
                    {"location": "l", "body": json.dumps(m)} for m in BATCH])

    def read():
        query = (sa.select(table.c.body).where(table.c.location == "l")
                 .order_by(table.c.id.desc()).limit(1000))
        with engine.connect() as connection:
            return [json.loads(row.body) for row in connection.execute(query)][::-1]

    return timed(append), timed(read)


def sdk(folder):
    from agents import SQLiteSession

    session = SQLiteSession("l", os.path.join(folder, "sdk.db"))

    async def append():
        for _ in range(ROUNDS):
            await session.add_items(ITEMS)

    async def read():
        return await session.get_items(1000)

    return timed(lambda: asyncio.run(append())), timed(lambda: asyncio.run(read()))


def adapter(folder):
    from msgstore.adapters.openai_agents import MsgstoreSession

    with msgstore.open(os.path.join(folder, "adapter.msl")) as store:
        session = MsgstoreSession(store, "l")

        async def append():
            for _ in range(ROUNDS):
                await session.add_items(ITEMS)

        async def read():
            return await session.get_items(1000)

        return timed(lambda: asyncio.run(append())), timed(lambda: asyncio.run(read()))


def main():
    print(f"{'':32} messages/s   newest 1,000 (ms)")
    for name, run in (("msgstore", ours), ("SQLAlchemy, SQLite, WAL, no sync", sqlalchemy),
                      ("msgstore as the SDK's session", adapter),
                      ("the SDK's SQLiteSession", sdk)):
        results = []
        try:
            for _ in range(5):
                with tempfile.TemporaryDirectory() as folder:
                    results.append(run(folder))
        except ImportError as error:
            print(f"{name:32} not installed: {error}")
            continue
        append = statistics.median(r[0] for r in results)
        read = statistics.median(r[1] for r in results)
        print(f"{name:32} {ROUNDS * 100 / append:10,.0f}   {read * 1000:10.2f}")


if __name__ == "__main__":
    main()
