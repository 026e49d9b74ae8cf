"""A user's program, for mypy --strict and pyright: it is checked, not run."""

from agents import Agent, Runner

import msgstore
from msgstore.adapters.openai_agents import MsgstoreCompactionSession, MsgstoreSession


async def ask(provider: msgstore.Provider, format: msgstore.Format) -> None:
    with msgstore.open() as store:
        store.append(msgstore.user("y", idempotency_key="k"), "x", format=format)
        store.request("x", provider, model="m")


async def main() -> None:
    with msgstore.open("a.msl", mode="write", sync="each") as store:
        await Runner.run(Agent(name="a"), "x", session=MsgstoreSession(store, "x"))
        await Runner.run(Agent(name="a"), "x", session=MsgstoreCompactionSession(store, "x"))
        body = store.request("x", "anthropic", model="m", thinking=True, cache="5m",
                             extra={"thinking": {"type": "adaptive"}}, top_k=3)
        answer = store.answer(body, "anthropic", "x")
        seqs: list[int] = await store.append_async(msgstore.user("y"), "x")
        print(answer["calls"], seqs, await store.wait_async(seqs[-1], 1))
        store.query("x", format="openai", views=["team"])
