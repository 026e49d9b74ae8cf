"""A user's program with LangGraph, for mypy --strict and pyright: it is checked, not run."""

from typing import Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph

import msgstore
from msgstore.adapters.langgraph import MsgstoreSaver, MsgstoreStore


class State(TypedDict):
    said: str


def say(state: State) -> dict[str, Any]:
    return {"said": state["said"] + "!"}


def main() -> None:
    with msgstore.open("a.msl", mode="write", sync="each") as log:
        builder = StateGraph(State)
        builder.add_node("say", say)
        builder.set_entry_point("say")
        graph = builder.compile(checkpointer=MsgstoreSaver(log), store=MsgstoreStore(log))
        config: RunnableConfig = {"configurable": {"thread_id": "t"}}
        print(graph.invoke({"said": "x"}, config))
        saver = MsgstoreSaver(log)
        for one in saver.list(config, limit=3):
            print(one.checkpoint["id"], one.metadata.get("step"))
        items = MsgstoreStore(log)
        items.put(("users", "1"), "name", {"value": "x"})
        print([item.value for item in items.search(("users",))])
