"""Asks `msgstore mcp` by the official client of the Model Context Protocol.

    mcp_client.py TOOL LOG      of sessions that tests/tool/mcp/sessions.py wrote

Each tool answers, by the handshake of older versions and by the requests of the newest
one; the input schemas pass the validator of JSON Schema. The log's bytes stay. Prints
"ok mcp_python_MODE: N answers", or "FAIL ...: why"."""

import asyncio
import hashlib
import json
import pathlib
import sys

import jsonschema
from mcp import Client, MCPError, StdioServerParameters
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

TOOL, LOG = sys.argv[1:3]
MODES = {"legacy": LATEST_HANDSHAKE_VERSION, "auto": LATEST_MODERN_VERSION,
         LATEST_MODERN_VERSION: LATEST_MODERN_VERSION}


def bytes_of_log():
    return hashlib.sha256(pathlib.Path(LOG).read_bytes()).hexdigest()


async def answers_of(client, count):
    """Walks through all pages of all tools; returns how many answers came."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert sorted(tools) == ["list_sessions", "read", "search", "usage"], sorted(tools)
    n = 0

    async def call(name, **arguments):
        nonlocal n
        n += 1
        jsonschema.validate(arguments, tools[name].input_schema)
        result = await client.call_tool(name, arguments)
        assert not result.is_error and len(result.content) == 1, result
        return json.loads(result.content[0].text)

    async def pages(name, rows, **arguments):
        found = []
        while True:
            page = await call(name, **arguments)
            found += page[rows]
            if "next_cursor" not in page:
                return found
            arguments["cursor"] = page["next_cursor"]

    for tool in tools.values():
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert tool.annotations.read_only_hint
    sessions = await pages("list_sessions", "sessions", limit=100)
    assert len({one["session"] for one in sessions}) == count, len(sessions)
    found = await pages("search", "messages", query="rate limit", limit=100)
    assert len({one["session"] for one in found}) == count, len(found)
    for one in found[::50]:
        page = await call("read", message=one["message"], before=2, after=3)
        assert len(page["messages"]) == 4 and page["session"] == one["session"]
    rows = await pages("usage", "rows", by="session", limit=200)
    assert len(rows) == count and sum(row["answers"] for row in rows) == count
    wrong = await client.call_tool("read", {"message": 0})
    assert wrong.is_error and "expected" in wrong.content[0].text
    try:
        await client.call_tool("remove", {})
        raise AssertionError("a tool that is none answered")
    except MCPError as error:
        assert error.code == -32602, error
    return n


async def ask(mode, count):
    server = StdioServerParameters(command=TOOL, args=["mcp", LOG])
    async with Client(server, mode=mode, read_timeout_seconds=60) as client:
        assert client.protocol_version == MODES[mode], client.protocol_version
        return await answers_of(client, count)


def main():
    before = bytes_of_log()
    for mode in MODES:
        name = "mcp_python_" + mode
        try:
            print(f"ok {name}: {asyncio.run(ask(mode, 1000))} answers")
            assert bytes_of_log() == before, "the log was written"
        except Exception as error:  # of the client, or of an assertion
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            print(f"FAIL {name}: {type(error).__name__}: {error}")


main()
