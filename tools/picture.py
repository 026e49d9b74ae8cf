#!/usr/bin/env python3
"""Records docs/terminal.svg: five commands of the tool on three transcripts.

`make picture` runs it by tools/picture.sh. With --check it records nothing, and fails when the
tool prints something else than the picture shows. It writes transcripts of two programs to a
home folder of its own, runs build/msgstore there in a terminal of 92 columns, and draws what
it printed with the package rich. The conversations are made up.
"""

import json
import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

COLUMNS = 92
COMMANDS = [
    "msgstore sync my.log",
    "msgstore sessions my.log",
    "msgstore search my.log 'rate limit'",
    "msgstore usage my.log --by day",
    "msgstore report my.log -o run.html",
]
TEMPLATE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"
  role="img" aria-label="Five commands of msgstore and what they print">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px }}
{styles}
</style>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def write_claude(folder, session, day, turns):
    """Writes a transcript of Claude Code. A turn has a question, calls with their results, and
    an answer."""
    lines, parent, n = [], None, 0

    def entry(kind, message):
        nonlocal parent, n
        n += 1
        uuid = f"{session[:8]}-0000-4000-8000-{n:012d}"
        lines.append({"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": session,
                      "timestamp": f"{day}T09:{n // 4:02d}:{n % 4 * 13:02d}.000Z",
                      "cwd": "/home/ada/shop", "isSidechain": False, "message": message})
        parent = uuid

    def answer(content, tokens):
        usage = {"input_tokens": 4, "cache_read_input_tokens": tokens,
                 "cache_creation_input_tokens": 900, "output_tokens": 40 + tokens % 97}
        entry("assistant", {"id": f"msg_{session[:4]}{n}", "type": "message", "role": "assistant",
                            "model": "claude-sonnet-4-5", "content": [content], "usage": usage})

    for said, calls, text in turns:
        entry("user", {"role": "user", "content": said})
        for name, arguments, result in calls:
            call = f"toolu_{session[:4]}{n}"
            answer({"type": "tool_use", "id": call, "name": name, "input": arguments},
                   9000 + 700 * n)
            entry("user", {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": call, "content": result}]})
        answer({"type": "text", "text": text}, 9100 + 700 * n)
    path = folder / ".claude/projects/-home-ada-shop" / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def write_codex(folder, session, day, said, command, result, text):
    """Writes a transcript of Codex with one call."""
    total = {"input_tokens": 18703, "cached_input_tokens": 11200, "output_tokens": 412,
             "reasoning_output_tokens": 62, "total_tokens": 19115}
    items = [
        ("session_meta", {"id": session, "timestamp": f"{day}T16:02:11.000Z",
                          "cwd": "/home/ada/shop", "cli_version": "0.125.0"}),
        ("response_item", {"type": "message", "role": "user",
                           "content": [{"type": "input_text", "text": said}]}),
        ("response_item", {"type": "function_call", "name": "exec_command", "call_id": "call_1",
                           "arguments": json.dumps({"cmd": command})}),
        ("response_item", {"type": "function_call_output", "call_id": "call_1", "output": result}),
        ("response_item", {"type": "message", "role": "assistant",
                           "content": [{"type": "output_text", "text": text}]}),
        ("event_msg", {"type": "token_count",
                       "info": {"total_token_usage": total, "last_token_usage": total}}),
    ]
    path = folder / ".codex/sessions" / day.replace("-", "/")
    path.mkdir(parents=True)
    with open(path / f"rollout-{day}T16-02-11-{session}.jsonl", "w", encoding="utf-8") as file:
        for i, (kind, payload) in enumerate(items):
            file.write(json.dumps({"timestamp": f"{day}T16:02:{11 + 7 * i}.000Z", "type": kind,
                                   "payload": payload}) + "\n")


def write_transcripts(home):
    write_claude(home, "5c1f2a90-7d3e-4b6a-9a51-0c2e8f1b7d44", "2026-11-23", [
        ("The checkout answers 429 on Mondays. Why?",
         [("Grep", {"pattern": "429"}, "src/pay.c:88: if (status == 429) return -1;"),
          ("Read", {"file_path": "src/pay.c"}, "/* The bank takes 50 calls a minute. */")],
         "Monday's imports share the bank's rate limit with the checkout."),
        ("Then wait and try again, at most three times.",
         [("Edit", {"file_path": "src/pay.c", "old_string": "return -1;",
                    "new_string": "return wait_and_retry(3);"}, "The file was edited."),
          ("Bash", {"command": "make check"}, "all 212 tests passed")],
         "Done: it waits as long as Retry-After says, three times at most."),
    ])
    write_claude(home, "b8207e11-2f4c-4c0d-8f0e-6a95d3c4e1f2", "2026-11-24", [
        ("Write the release notes.",
         [("Bash", {"command": "git log --oneline v2.3..HEAD"}, "4f1c2d9 pay: wait and try again")],
         "The checkout keeps its rate limit. Nothing else changed for users."),
    ])
    write_codex(home, "019e1625-789d-76c0-80ab-3724b5ddb799", "2026-11-24",
                "Does the importer respect the rate limit, too?", "grep -n retry src/import.c",
                "src/import.c:31: /* no retry here */", "No. It needs the same three lines.")


def record(command, folder, environment):
    """Returns what a command prints to a terminal. It must succeed."""
    control, terminal = pty.openpty()
    subprocess.run(["stty", "cols", str(COLUMNS)], stdin=terminal, check=True)
    running = subprocess.Popen(["sh", "-c", command], cwd=folder, env=environment,
                               stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    printed = b""
    try:
        while part := os.read(control, 65536):
            printed += part
    except OSError:  # no process has the terminal any more
        pass
    os.close(control)
    if running.wait() != 0:
        sys.exit(f"tools/picture.py: '{command}' failed: {printed.decode()}")
    return printed.decode().replace("\r", "")


def simplified(picture):
    """Returns the drawing without what strict viewers refuse: clips of rows, colours by
    function, empty texts."""
    picture = re.sub(r' clip-path="url\(#[^)]*\)"', "", picture)
    picture = re.sub(r"<text[^>]*>\s*</text>", "", picture)
    return picture.replace('"rgba(255,255,255,0.35)"', '"#fff" stroke-opacity="0.35"')


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(f"tools/picture.py takes --check, not {' '.join(sys.argv[1:])}")
    root = pathlib.Path(__file__).resolve().parent.parent
    console = Console(record=True, width=COLUMNS, height=100, file=open(os.devnull, "w"),
                      force_terminal=True, _environ={})
    with tempfile.TemporaryDirectory() as name:
        home = pathlib.Path(name)
        write_transcripts(home)
        environment = {"HOME": name, "PATH": f"{root / 'build'}:{os.environ['PATH']}",
                       "TERM": "xterm-256color", "LANG": "C.UTF-8", "TZ": "UTC",
                       "MSGSTORE_PAGER": "cat"}
        for command in COMMANDS:
            console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
            console.print(Text.from_ansi(record(command, name, environment)))
    picture = simplified(console.export_svg(title="", theme=MONOKAI, code_format=TEMPLATE,
                                            clear=False, unique_id="t"))
    path = root / "docs/terminal.svg"
    if not check:
        path.write_text(picture, encoding="utf-8")
    elif path.read_text(encoding="utf-8") != picture:
        sys.exit("docs/terminal.svg shows something else than this: run `make picture`\n" +
                 console.export_text())


main()
