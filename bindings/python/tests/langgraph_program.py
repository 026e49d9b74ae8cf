"""A graph that asks its user amid two parallel nodes, for test_langgraph.py.

    main(kind, path, part)

`kind` is the saver: msgstore, sqlite or memory. Of the parts `ask` runs to the question, `die`
answers it and is killed in one of the nodes, after the other has finished; `resume` goes
on. `all` does these in one process, with an exception for the kill. Each part prints what
there is: answers, states, tasks, writes; without ids and times.
"""

import contextlib
import json
import operator
import os
import signal
from typing import Annotated, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt


class State(TypedDict):
    said: Annotated[list, operator.add]


def build(saver, store, die):
    """`die` is called when the question is answered."""

    def left(state):
        return {"said": ["left"]}

    def right(state):
        answer = interrupt({"question": "go on?"})
        die()
        return {"said": [f"right {answer}"]}

    def end(state):
        return {"said": ["end"]}

    made = StateGraph(State)
    made.add_node("left", left)
    made.add_node("right", right)
    made.add_node("end", end)
    made.add_edge(START, "left")
    made.add_edge(START, "right")
    made.add_edge(["left", "right"], "end")
    made.add_edge("end", END)
    return made.compile(checkpointer=saver, store=store)


def shape(graph, saver, config):
    """What there is of a thread, without what no two runs share."""
    states = [{"values": one.values, "next": one.next,
               "metadata": {key: one.metadata.get(key) for key in ("source", "step")},
               "asked": [asked.value for task in one.tasks for asked in task.interrupts],
               "failed": [bool(task.error) for task in one.tasks]}
              for one in graph.get_state_history(config)]
    writes = [sorted((channel, repr(getattr(value, "value", None)))
                     for _, channel, value in one.pending_writes
                     if channel not in ("__error__", "__resume__"))
              for one in saver.list(config)]
    return json.dumps([states, writes])


@contextlib.contextmanager
def opened(kind, path):
    if kind == "memory":
        from langgraph.checkpoint.memory import InMemorySaver
        yield InMemorySaver()
    elif kind == "sqlite":
        from langgraph.checkpoint.sqlite import SqliteSaver
        with SqliteSaver.from_conn_string(path) as saver:
            yield saver
    else:
        import msgstore
        from msgstore.adapters.langgraph import MsgstoreSaver
        with msgstore.open(path) as log:
            yield MsgstoreSaver(log)


def main(kind, path, part):
    config = {"configurable": {"thread_id": "t"}}
    killed = []

    def die():
        if part == "all" and not killed:
            killed.append(True)
            raise KeyboardInterrupt
        if part == "die":
            os.kill(os.getpid(), signal.SIGKILL)

    with opened(kind, path) as saver:
        graph = build(saver, None, die)
        if part in ("ask", "all"):
            print(sorted(graph.invoke({"said": ["hello"]}, config)))
            print(shape(graph, saver, config), flush=True)
        if part in ("die", "all"):
            with contextlib.suppress(KeyboardInterrupt):
                graph.invoke(Command(resume="yes"), config)
        if part in ("resume", "all"):
            print(graph.invoke(Command(resume="yes"), config)["said"])
            print(shape(graph, saver, config))
