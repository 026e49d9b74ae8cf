// Messages whose texts have a form: Markdown, edits, patches, lists of tasks, pictures.

const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

export const MARKDOWN = [
  "# What was slow",
  "",
  "The export flushed **each row**; see [the notes](https://example.org/notes?a=1) and <https://example.org/x>.",
  "Second line of the *same* paragraph, `code with <b>` and ~~old~~.",
  "",
  "## Steps",
  "",
  "1. profile",
  "   - the job",
  "   - the queries",
  "     - the slow one",
  "2. change `one` thing",
  "",
  "- [x] measured",
  "- [ ] merged",
  "",
  "| query | calls | mean |",
  "| :--- | ---: | ---: |",
  "| SELECT a \\| b | 48,211 | **19.3 ms** |",
  "| UPDATE | 12 | 4.0 ms |",
  "",
  "> A quote",
  "> > within a quote",
  "",
  "```python",
  "def f(x):  # twice",
  '    return "a" * 2',
  "```",
  "",
  "---",
  "snake_case_name and 2*3*4 stay.",
].join("\n");

const OLD = ["def export(rows):", "    for row in rows:", "        out.write(row)", "        out.flush()", "    return out"];
const NEW = ["def export(rows):", "    for part in batches(rows, 500):", "        out.writelines(part)", "        out.flush()", "    return out"];

export const PATCH = [
  "*** Begin Patch",
  "*** Update File: src/a.py",
  "@@ def f():",
  " keep",
  "-old line",
  "+new line",
  "*** Add File: src/b.py",
  "+first",
  "*** End Patch",
].join("\n");

/* Patches with lines that look like headers: unified, of apply_patch, without headers, and
 * without counts. */
export const ODD_PATCHES = [
  [
    "commit 5f0c",
    "diff --git a/q.sql b/q.sql",
    "index deadbeef..cafe0001 100644",
    "--- a/q.sql",
    "+++ b/q.sql",
    "@@ -1,4 +1,4 @@ section",
    " SELECT 1;",
    "--- drop all users",
    "-index deadbeef",
    "+++ x",
    "+index cafe",
    " ",
    "diff --git a/DELETED.txt b/DELETED.txt",
    "deleted file mode 100644",
    "--- a/DELETED.txt",
    "+++ /dev/null",
    "@@ -1 +0,0 @@",
    "-last",
    "\\ No newline at end of file",
    "-rw-r--r-- 1 root listing",
    "--- a/from.txt",
    "+++ b/to.txt",
    "@@ -7 +7 @@",
    "-seven",
    "+SEVEN",
    "--- no header",
    "+++ a/no.header",
    "@@ -1,9 +1,9 @@",
    " broken",
    "?? not understood",
  ],
  [
    "*** Begin Patch",
    "*** Update File: q.lua",
    "*** Move to: r.lua",
    "@@ function f()",
    " keep",
    "--- OLDCOMMENT",
    "+++ NEWCOMMENT",
    "-index deadbeef",
    "-*** End Patch",
    "",
    "*** End of File",
    "*** Delete File: gone.lua",
    "*** End Patch",
    "trailing words",
  ],
  ["-- old comment", "--- drop", "+++ kept", "+index 1234", " same", "words"],
  ["--- a/loose.c", "+++ b/loose.c", "-one", "+two"],
];

export function texts() {
  const START = 1772442000;
  const call = (id, tool, args) => ({ type: "action", agent_key: "a", tool, tool_call_id: id, args });
  const done = (id, content = "ok") => ({ type: "observation", agent_key: "a", tool_call_id: id, content });
  return [
    { type: "user_message", content: "<local-command-caveat>Caveat: the messages below were made by local commands.</local-command-caveat>" },
    { type: "user_message", content: "Why is the export slow?" },
    { type: "reasoning", agent_key: "a", content: "Look at **flush** first." },
    { type: "assistant_message", content: MARKDOWN },
    call("e", "Edit", { file_path: "src/export.py", old_string: OLD.join("\n"), new_string: NEW.join("\n"), replace_all: false }),
    done("e"),
    call("m", "MultiEdit", { file_path: "src/m.c", edits: [{ old_string: "a", new_string: "b" }, { old_string: "c\nd", new_string: "c\ne" }] }),
    done("m"),
    call("w", "Write", { file_path: "src/new.py", content: "import os\nprint(1)\n" }),
    done("w"),
    call("p", "apply_patch", { input: PATCH }),
    done("p"),
    call("t", "TodoWrite", { todos: [
      { content: "profile it", status: "completed", activeForm: "profiling" },
      { content: "change it", status: "in_progress", activeForm: "changing" },
      { content: "test it", status: "pending", activeForm: "testing" },
    ] }),
    done("t"),
    call("u", "update_plan", { explanation: "next", plan: [{ step: "read", status: "completed" }, { step: "write", status: "pending" }] }),
    done("u"),
    call("d", "bash", { command: "git diff" }),
    done("d", "diff --git a/x.c b/x.c\n--- a/x.c\n+++ b/x.c\n@@ -1,2 +1,2 @@\n int a;\n-int b;\n+int c;\n"),
    { type: "assistant_message", content: [
      { type: "text", text: "A picture:" },
      { type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL } },
    ] },
  ].map((m, i) => ({ ...m, timestamp: START + i }));
}

/* Texts that want to leave their place through the forms of Markdown and of edits. */
export const BAD_FORMS = [
  "[x](javascript:alert(1))",
  "[x](JaVaScRiPt:alert(1)) [y](data:text/html,<script>alert(1)</script>) [z](vbscript:x)",
  "<javascript:alert(1)> [a](  javascript:alert(1)) [b](//example.org/x) [c](file:///etc/passwd)",
  "[x](https://example.org/\"onmouseover=\"alert(1))",
  "![x](https://example.org/x.png) ![y](javascript:alert(1))",
  "# <img src=x onerror=alert(1)>\n\n- <script>window.hacked=1</script>\n\n| <b>a</b> | b |\n|---|---|\n| <svg onload=alert(1)> | </script> |",
  "```html\n</script><script>window.hacked=1</script>\n```",
  "```\" onload=alert(1)\ncode\n```",
  "> ".repeat(5000) + "deep",
  Array.from({ length: 400 }, (_, i) => " ".repeat(2 * i) + "- deep").join("\n"),
  "*".repeat(20000) + "[".repeat(20000) + "`".repeat(20001),
  "[](https://example.org)\n[ ](mailto:a@b.c)\n[id]: javascript:alert(1)",
];
