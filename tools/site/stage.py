#!/usr/bin/env python3
"""Puts the pages of the site together, for MkDocs: stage.py FOLDER.

Run from the top folder, by tools/site.sh. Writes FOLDER/docs, with the repository's folders,
so that links between its pages work as they are, and FOLDER/mkdocs.yml, which adds the
navigation to tools/site/mkdocs.yml.

A link to a file that is no page leads to a page made of that file, below source/; one to a
folder leads to a list of its files. A link to what does not exist ends the script with its
name. Names of the interface (`ms_append`, `[api-log]`) that stand alone in a code span
become links to their entries, except in headings and in the list of changes.
"""

import glob
import json
import os
import posixpath
import re
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import interface  # noqa: E402

HEADERS = ["msgstore.h", "bindings/msgstore_ffi.h"]
PAGES = ["*.md", "docs/*.md", "bench/*.md", "backends/*.md", "examples/*.md", "tests/*.md",
         "tests/*/README.md", "bindings/README.md", "bindings/*/README.md",
         "bindings/rust/msgstore/README.md"]
# The guides in the order of reading. Others follow in the order of their names.
GUIDES = ["ten-calls", "agent", "content", "context", "team", "mcp", "serve", "python", "harness",
          "game", "board", "fleet", "fleet-data", "fleet-limits", "flat", "defaults"]
LANGUAGES = ["bindings/README.md", "bindings/python/README.md", "bindings/js/README.md",
             "bindings/rust/msgstore/README.md", "bindings/go/README.md"]
PROJECT = [("Architecture", "ARCHITECTURE.md"), ("Known limits", "tests/LIMITS.md"),
           ("Guarantees and their tests", "tests/GUARANTEES.md"), ("Security", "SECURITY.md"),
           ("Changes", "CHANGELOG.md"), ("Contributing", "CONTRIBUTING.md")]
ASSETS = (".svg", ".webp", ".png", ".jsonl", ".html")
LANGUAGE = {".c": "c", ".h": "c", ".hpp": "cpp", ".py": "python", ".js": "js", ".mjs": "js",
            ".ts": "ts", ".rs": "rust", ".go": "go", ".sh": "bash", ".sql": "sql",
            ".toml": "toml", ".json": "json"}
LARGEST = 200_000  # bytes of a file that becomes a page; a larger one is copied
LEFT_OUT = {"node_modules", "target", "build", "__pycache__", "vendor"}
LINK = re.compile(r"!?\[(?P<text>(?:[^\[\]`]|`[^`]*`)*)\]\((?P<to>[^()\s]+)\)"
                  r"|(?P<ticks>`+)(?P<code>(?:(?!\n\n).)+?)(?P=ticks)(?!`)", re.S)
FENCE = re.compile(r"(?m)^( *)(```+)[^\n]*\n.*?^\1\2[ \t]*$\n?", re.S)

FIGURES = [("append", "Append one message", "ns a message"),
           ("tail", "The newest 20 messages of a conversation", "ns a query"),
           ("view", "A whole conversation", "ns a message"),
           ("open", "Open a store, to the first answer", "ns"),
           ("bytes", "Disk space", "bytes a message")]


class Stage:
    """The folder of the pages, what is in it, and what it lacks."""

    def __init__(self, folder):
        self.docs = os.path.join(folder, "docs")
        self.interface = interface.Interface(HEADERS)
        self.pages = sorted({path for pattern in PAGES for path in glob.glob(pattern)})
        self.sources, self.problems = {}, []

    def write(self, path, text):
        full = os.path.join(self.docs, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def copy(self, path):
        full = os.path.join(self.docs, path)
        if not os.path.exists(full):
            os.makedirs(os.path.dirname(full), exist_ok=True)
            shutil.copyfile(path, full)

    # ---- Pages

    def target(self, page, to):
        """Returns what a link of a page becomes."""
        if re.match(r"[a-z]+:|#", to):
            return to
        path, mark, anchor = to.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        if path in self.pages:
            return to
        if not os.path.exists(path) or path.startswith(".."):
            self.problems.append(f"{page}: a link to {to}, which does not exist")
            return to
        if os.path.isfile(path) and (path.endswith(ASSETS) or os.path.getsize(path) > LARGEST):
            self.copy(path)
            return to
        here = posixpath.dirname(page)
        return posixpath.relpath(self.source(path), here or ".") + mark + anchor

    def source(self, path):
        """Returns the page of a file or a folder, which it makes."""
        if path not in self.sources:
            name = "source/" + path + ("/index.md" if os.path.isdir(path) else ".md")
            self.sources[path] = name
            self.write(name, self.folder(path, name) if os.path.isdir(path) else self.file(path))
        return self.sources[path]

    @staticmethod
    def head(title):
        return f"---\ntitle: {title}\nsearch:\n  exclude: true\nhide:\n  - toc\n---\n\n"

    def file(self, path):
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        longest = max([2] + [len(run) for run in re.findall(r"`+", text)])
        fence = "`" * (longest + 1)
        language = LANGUAGE.get(os.path.splitext(path)[1], "text")
        return (self.head(posixpath.basename(path)) + f"# `{path}`\n\n{fence}{language}\n"
                + text.rstrip("\n") + f"\n{fence}\n")

    def folder(self, path, name):
        rows = []
        for root, folders, files in os.walk(path):
            folders[:] = sorted(f for f in folders if f not in LEFT_OUT and f[0] != ".")
            for file in sorted(files):
                one = posixpath.join(root, file)
                if os.path.getsize(one) > LARGEST or b"\0" in open(one, "rb").read(4096):
                    continue
                page = one if one in self.pages else self.source(one)
                rows.append(f"- [`{one[len(path) + 1:]}`]"
                            f"({posixpath.relpath(page, posixpath.dirname(name))})")
        return self.head(path) + f"# `{path}/`\n\n" + "\n".join(rows) + "\n"

    def page(self, path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        out, at = [], 0
        for fence in FENCE.finditer(text):
            out += [self.prose(path, text[at : fence.start()]), fence.group(0)]
            at = fence.end()
        out.append(self.prose(path, text[at:]))
        self.write(path, "".join(out))

    def prose(self, page, text):
        def put(match):
            if match.group("to"):
                whole = match.group(0)
                return whole[: match.start("to") - match.start()] + \
                    self.target(page, match.group("to")) + ")"
            line = text.rfind("\n", 0, match.start()) + 1
            if text[line] == "#" or page == "CHANGELOG.md":
                return match.group(0)
            address = self.address(match.group("code"), posixpath.dirname(page))
            return f"[{match.group(0)}]({address})" if address else match.group(0)

        return LINK.sub(put, text)

    def address(self, code, here):
        """Returns where the interface explains a name, or None."""
        section = re.fullmatch(r"\[(api-[a-z-]+)\]", code)
        if section:
            page = section.group(1)[4:] + ".md"
            if not any(s.page == page for s in self.interface.sections):
                return None
            return posixpath.relpath("interface/" + page, here or ".")
        found = self.interface.where.get(code[:-2] if code.endswith("()") else code)
        if found is None:
            return None
        return posixpath.relpath("interface/" + found[0], here or ".") + "#" + found[1]

    # ---- Pages that are made

    def make_interface(self):
        for section in self.interface.sections:
            self.write("interface/" + section.page, self.interface.page(section))
        self.write("interface/manual.md", self.interface.manual_page())
        self.write("interface/index.md", self.interface.index_page())

    def make_figures(self):
        """Draws tables of bench/results beside its plots."""
        with open("bench/results/scale.jsonl", encoding="utf-8") as file:
            first, *rows = [json.loads(line) for line in file if line.strip()]
        out = ["---\ntitle: Figures\n---", "# Figures",
               f"Stores as they grow, from 1,000 to 10,000,000 messages. Measured on {first['date']}: "
               f"{first['machine']}; {first['compiler']}. "
               "[How it was measured, and what else](README.md).",
               f"```sh\n{first['command']}\n```"]
        for what, title, unit in FIGURES:
            values = [row for row in rows if row.get("what") == what and "value" in row]
            stores = list(dict.fromkeys(row["store"] for row in values))
            sizes = sorted({row["n"] for row in values})
            out += [f"## {title}", f"![{title}, a line for each store](results/{what}.svg)"]
            table = ["| " + unit + " | " + " | ".join(f"{n:,}" for n in sizes) + " |",
                     "| --- |" + " ---: |" * len(sizes)]
            for store in stores:
                by_size = {row["n"]: row["value"] for row in values if row["store"] == store}
                cells = [f"{by_size[n]:,.0f}" if by_size.get(n, 0) >= 100 else
                         f"{by_size[n]:.3g}" if n in by_size else "" for n in sizes]
                table.append(f"| {store} | " + " | ".join(cells) + " |")
            out.append("\n".join(table))
            self.copy(f"bench/results/{what}.svg")
        self.write("bench/figures.md", "\n\n".join(out) + "\n")

    def make_report(self):
        frame = ('<iframe class="report" src="run.html" title="The page of msgstore report: '
                 'one run of an agent" loading="lazy"></iframe>')
        self.write("report/index.md", "\n\n".join([
            "---\ntitle: A report\nhide:\n  - toc\n---", "# A report",
            "`msgstore report` writes a run as one page, which loads nothing. This one was "
            "written when the site was built, by `msgstore report tools/demo.jsonl`. "
            "[Open it alone](run.html), or [the run of a team](team.html).", frame]) + "\n")

    # ---- The navigation

    def navigation(self):
        guides = [f"docs/{name}.md" for name in GUIDES if f"docs/{name}.md" in self.pages]
        guides += [path for path in self.pages if path.startswith("docs/") and path not in guides]
        by_tag = {section.tag: section for section in self.interface.sections}
        parts = [(title[:1].upper() + title[1:],
                  [(self.interface.title(by_tag[tag]), "interface/" + by_tag[tag].page)
                   for tag in tags]) for title, tags in self.interface.parts()]
        named = [path for _, path in PROJECT] + LANGUAGES + guides + ["README.md"]
        tests = [path for path in self.pages if path.startswith("tests/") and path not in named]
        rest = [path for path in self.pages if path not in named and path not in tests
                and path not in ("bench/README.md", "examples/README.md", "backends/README.md")]
        return [("Home", "README.md"),
                ("Guides", guides + ["examples/README.md", "backends/README.md"]),
                ("Interface", [("All functions", "interface/index.md"),
                               ("The manual", "interface/manual.md")] + parts +
                 [("Other languages", "interface/ffi.md")]),
                ("Languages", [path for path in LANGUAGES if path in self.pages]),
                ("Report", "report/index.md"),
                ("Figures", [("Plots", "bench/figures.md"), ("Measurements", "bench/README.md")]),
                ("Project", PROJECT + rest + [("Tests", tests)])]


def yaml(items, depth=1):
    """Returns a navigation as YAML: paths, and (title, path or items)."""
    out = []
    for item in items:
        pad = "  " * depth + "- "
        if isinstance(item, str):
            out.append(pad + json.dumps(item))
        elif isinstance(item[1], str):
            out.append(f"{pad}{json.dumps(item[0])}: {json.dumps(item[1])}")
        else:
            out.append(f"{pad}{json.dumps(item[0])}:")
            out += yaml(item[1], depth + 2)
    return out


def main():
    folder = sys.argv[1]
    stage = Stage(folder)
    shutil.rmtree(stage.docs, ignore_errors=True)
    stage.make_interface()
    stage.make_figures()
    stage.make_report()
    for path in stage.pages:
        stage.page(path)
    shutil.copyfile("tools/site/site.css", os.path.join(stage.docs, "site.css"))
    up = os.path.relpath("tools/site", folder)
    with open(os.path.join(folder, "mkdocs.yml"), "w", encoding="utf-8") as file:
        file.write(f"INHERIT: {up}/mkdocs.yml\nhooks: [{up}/hooks.py]\n"
                   "docs_dir: docs\nsite_dir: html\nnav:\n"
                   + "\n".join(yaml(stage.navigation())) + "\n")
    if stage.problems:
        sys.exit("\n".join(stage.problems))


if __name__ == "__main__":
    main()
