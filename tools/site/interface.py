#!/usr/bin/env python3
"""Makes pages of the interface from the comments of the headers.

    interface.py HEADER ...            prints the names of the functions, and their pages
    interface.py --check HEADER ...    fails where a function of the interface has no comment
    interface.py --page SECTION HEADER ...    prints one page

tools/site/stage.py calls `Interface`. A section of the interface is a page: its banner's
comment, then an entry for each function, struct, enum, macro and type, in the order of the
header. An entry has the declaration, the comment, a table of members or values, and the
results that the comment names. Private names (ms__, MS__) have no entry.

A comment belongs to the declaration that follows it without an empty line, to those after
that without a comment and an empty line if it is in SHARED, and, where it stands after a
declaration on the same line, to that one alone.
"""

import html
import re
import sys

BANNER = re.compile(r"^/\* ==== \[(api-[a-z-]+)\] (.*?) *=*(?: \*/)?$")
NAME = re.compile(r"\b(?:ms_[a-z0-9_]+|MS_[A-Z0-9_]+|MSGSTORE_[A-Z0-9_]+)\b")
INLINE = re.compile(r"\[(?P<tag>api-[a-z-]+)\]|`(?P<code>[^`\n]+)`|"
                    r"(?P<family>MS_[A-Z_]*_)(?:\*|\.\.\.)|(?P<name>" + NAME.pattern + r")"
                    r"(?:\(\)|(?P<member>\.[a-z_]+))?|"
                    r"(?<=see )(?P<part>DURABILITY|DAMAGE|GUARANTEES)\b")
DIRECTIVE = re.compile(r"(?:[^\n]*\\\n)*[^\n]*")
# Functions whose comment is written for those after them, too.
SHARED = {"ms_message", "ms_get_conversation_messages", "ms_json_i64"}


class Problem(Exception):
    """What is wrong in a header."""


class Entry:
    """A declaration with its comment."""

    def __init__(self, kind, name, code, comment):
        self.kind, self.name, self.code, self.comment = kind, name, code, comment
        self.rows = []  # of a struct, an enum or a list: (name, code, comment)
        self.columns = []
        self.group = []  # functions that share the comment
        self.shares = None  # the function whose comment it is
        self.is_list = False  # a macro of rows X(...)
        self.listed = ""  # of an enum: that macro
        self.opaque = False  # a struct whose members are elsewhere


class Section:
    """A page: `tag` is "api-store", `items` has entries, and texts as (title, comment)."""

    def __init__(self, tag, title):
        self.tag, self.title = tag, title.replace("[expert] ", "")
        self.expert = title.startswith("[expert]")
        self.intro, self.items = "", []
        self.code = ""  # of a section without a comment and without entries

    @property
    def page(self):
        return self.tag[4:] + ".md"

    def entries(self):
        return [item for item in self.items if isinstance(item, Entry)]


# ---- Reading


def comment_text(raw):
    """Returns the lines of a comment without its stars, with their indentation."""
    body = raw[2:-2]
    lines = body.split("\n")
    out = [lines[0].strip()]
    for line in lines[1:]:
        line = line.rstrip()
        stripped = re.sub(r"^ *\* ?", "", line) if re.match(r"^ *\*", line) else line.strip()
        out.append(stripped)
    return "\n".join(out).strip("\n")


def tokens(text):
    """Splits C text into (kind, text, line): comment, directive, code, blank."""
    at, out, line = 0, [], 0

    def add(kind, end):
        nonlocal at, line
        out.append((kind, text[at:end], line))
        line += text.count("\n", at, end)
        at = end

    while at < len(text):
        if text.startswith("/*", at):
            end = text.find("*/", at)
            if end < 0:
                raise Problem("a comment has no end: " + text[at : at + 60])
            add("comment", end + 2)
        elif text[at] == "#" and (at == 0 or not text[text.rfind("\n", 0, at) + 1 : at].strip()):
            end = DIRECTIVE.match(text, at).end()
            # A comment after its last line is a token of its own.
            comment = text.find("/*", max(text.rfind("\n", at, end), at), end)
            add("directive", comment if comment >= 0 else end)
        elif text[at].isspace():
            end = at
            while end < len(text) and text[end].isspace():
                end += 1
            add("blank", end)
        else:
            depth, end = 0, at
            while end < len(text):
                c = text[end]
                if text.startswith("/*", end):
                    end = text.find("*/", end) + 2
                    continue
                if c in "({":
                    depth += 1
                elif c in ")}":
                    depth -= 1
                    if depth == 0 and c == "}" and re.match(
                            r"static|extern \"C\"", text[at:]):
                        end += 1
                        break
                elif c == ";" and depth == 0:
                    end += 1
                    break
                elif c == '"':
                    end = text.index('"', end + 1)
                end += 1
            add("code", end)
    return out


def bare(code):
    """Returns a declaration without comments."""
    code = re.sub(r"[ \t]*/\*.*?\*/", "", code, flags=re.S)
    return "\n".join(line.rstrip() for line in code.split("\n") if line.strip())


def members(body, separator):
    """Returns the members of a struct's or an enum's body: (code, comment) each."""
    rows, pending, at, start = [], "", 0, 0
    depth = 0

    def close(end):
        nonlocal pending, start
        code = " ".join(bare(body[start:end]).split())
        if code:
            rows.append([code, pending])
            pending = ""
        start = end

    while at < len(body):
        if body.startswith("/*", at):
            end = body.index("*/", at) + 2
            text = comment_text(body[at:end])
            same = "\n" not in body[body.rfind(";" if separator == ";" else ",", 0, at) + 1 : at]
            if bare(body[start:at]).strip():  # an enum's last value, or inside of a member
                rest = body[end:].lstrip()
                if separator == "," and not rest:
                    close(at)
                    rows[-1][1] = join(rows[-1][1], text)
                else:
                    pending = join(pending, text)
            elif rows and same:
                rows[-1][1] = join(rows[-1][1], text)
            else:
                pending = join(pending, text)
            body = body[:at] + re.sub(r"[^\n]", " ", body[at:end]) + body[end:]
            at = end
            continue
        c = body[at]
        if c == "#" and not body[body.rfind("\n", 0, at) + 1 : at].strip():
            close(at)
            at = start = (body + "\n").index("\n", at)
            continue
        if c in "({":
            depth += 1
        elif c in ")}":
            depth -= 1
        elif c == separator and depth == 0:
            close(at)
            start = at + 1
        at += 1
    close(len(body))
    return rows


def join(a, b):
    return a + "\n" + b if a else b


def macro_rows(code, prefix, parameters):
    """Returns the rows of a list macro, X(...) each: (name, arguments, comment)."""
    rows = []
    at_name = parameters.index("name")
    text = re.sub(r"\\\n", "\n", code)
    for match in re.finditer(r"^[ \t]*X\(((?:[^()\"]|\"[^\"]*\")*)\)[ \t]*(/\*.*?\*/)?", text,
                             re.S | re.M):
        parts = re.findall(r'"[^"]*"|[^,\s][^,]*', match.group(1))
        parts = [part.strip() for part in parts]
        comment = comment_text(match.group(2)) if match.group(2) else ""
        rest = [part for i, part in enumerate(parts) if i != at_name]
        rows.append((prefix + parts[at_name], rest, comment))
    return rows


class Interface:
    """The sections of the headers, and where each name is explained."""

    def __init__(self, paths):
        self.sections, self.manual, self.where = [], "", {}
        lists = {}
        for path in paths:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            if not self.manual:
                self.manual = comment_text(text[: text.index("*/") + 2])
            self.read(text, lists)
        for part in re.split(r"(?m)^---- ", self.manual):
            if part.startswith("COMPILE-TIME OPTIONS"):
                for name in re.findall(r"(?m)^  (MS[A-Z_]*)", part):
                    self.add(name, Section("api-manual", ""), "compile-time")
        for section in self.sections:
            for entry in section.entries():
                # The comment stands where a struct is named first; its members may follow
                # in another section.
                self.add(entry.name, section, entry.name)
                for row in entry.rows:
                    if NAME.fullmatch(row[0]):
                        self.add(row[0], section, row[0])
                    elif section.tag != "api-structs":
                        for member in self.names_of(row[1]):
                            name = f"{entry.name}.{member}"
                            self.add(name, section, name)

    def add(self, name, section, anchor):
        if name and not name.startswith(("ms__", "MS__")):
            self.where.setdefault(name, (section.page, anchor))

    def read(self, text, lists):
        parts = re.split(r"(?m)^(?=/\* ==== \[)", text)
        for part in parts[1:]:
            first = part.split("\n", 1)[0]
            banner = BANNER.match(first)
            if not banner:
                continue
            section = Section(banner.group(1), banner.group(2))
            end = part.index("*/") + 2
            if "\n" in part[:end]:
                section.intro = comment_text(part[:end]).split("\n", 1)[-1]
            self.read_section(section, part[end:], lists)
            if not section.intro and not section.entries():
                section.code = part[end:].strip()
            self.sections.append(section)

    def read_section(self, section, text, lists):
        comment = ""  # the one that waits for its declaration
        shared = None  # the function before, whose comment may hold for the next one too
        last_entry, last_line = None, -1
        for kind, token, line in tokens(text):
            end_line = line + token.count("\n")
            if kind == "blank":
                if token.count("\n") > 1:
                    if comment and not comment.startswith("---- "):
                        section.items.append(("", comment))
                    comment, shared = "", None
            elif kind == "comment":
                words = comment_text(token)
                if last_entry is not None and line == last_line:
                    shared_too = last_entry.shares is not None
                    last_entry.comment = join(last_entry.comment, "\n" * shared_too + words)
                elif words.startswith("---- "):
                    title, _, rest = words[5:].partition(":")
                    section.items.append((title.strip(), ""))
                    comment = rest.strip()
                    comment = comment[:1].upper() + comment[1:]
                else:
                    comment = words
                continue
            elif kind == "directive":
                define = re.match(r"# *define +([A-Za-z_0-9]+)(\([^)]*\))?", token)
                if define and not self.private(define.group(1)) and \
                        define.group(1).startswith(("MS_", "MSGSTORE_")) and \
                        define.group(1) not in ("MS_API", "MSGSTORE_H", "MSGSTORE_FFI_H") and \
                        section.tag != "api-options":
                    name = define.group(1)
                    entry = Entry("macro", name, token.rstrip(), comment)
                    entry.is_list = define.group(2) == "(X)"
                    if entry.is_list:
                        lists[name] = token
                    section.items.append(entry)
                    last_entry, last_line, comment, shared = entry, end_line, "", None
            else:
                entry = self.declaration(token, comment, lists)
                if entry is None:
                    comment, shared, last_entry = "", None, None
                    continue
                if entry.kind == "function":
                    if not comment and shared is not None:
                        entry.comment, entry.shares = shared.comment, shared
                        shared.group.append(entry.name)
                        entry.group = shared.group
                    elif entry.name in SHARED:
                        shared, entry.group = entry, [entry.name]
                    else:
                        shared = None
                else:
                    shared = None
                section.items.append(entry)
                last_entry, last_line, comment = entry, end_line, ""
        if comment and not comment.startswith("---- "):
            section.items.append(("", comment))

    @staticmethod
    def private(name):
        return name.startswith(("ms__", "MS__"))

    def declaration(self, code, comment, lists):
        """Returns the entry of a declaration, None for what has none."""
        plain = bare(code)
        if plain.startswith("extern \"C\"") or plain.startswith("}"):
            return None
        body = re.search(r"\{(.*)\}", code, re.S)
        match = re.match(r"(?:typedef +)?(struct|enum|union) *([a-z0-9_]*)", plain)
        if match and body:
            kind, tag = match.groups()
            after = re.search(r"\}\s*([a-z0-9_]*)\s*;$", plain)
            name = (after.group(1) if after else "") or tag
            if self.private(name) or self.private(tag):
                return None
            entry = Entry(kind, name, plain, comment)
            if kind == "enum":
                self.fill_enum(entry, body.group(1), lists)
            else:
                self.fill_struct(entry, body.group(1))
            return entry
        if plain.startswith("MS_API") or plain.startswith("static inline"):
            head = plain.split("{")[0].strip()
            name = re.search(r"([A-Za-z_0-9]+)\s*\(", head[6:] if head.startswith("MS_API")
                             else head)
            if not name:
                raise Problem("a declaration has no name: " + plain)
            head = head[7:] if head.startswith("MS_API ") else head.replace("static inline ", "")
            head = re.sub(r"\n {7}", "\n", head)
            return Entry("function", name.group(1), head.rstrip(";") + ";", comment)
        if plain.startswith("typedef"):
            name = re.search(r"\(\*([a-z0-9_]+)\)|([a-z0-9_]+);$", plain)
            found = name.group(1) or name.group(2)
            if self.private(found):
                return None
            entry = Entry("type", found, plain, comment)
            entry.opaque = bool(re.fullmatch(r"typedef struct (\w+) \1;", plain))
            return entry
        if re.match(r"(struct|union|enum) [a-z0-9_]+;$", plain):
            return None
        raise Problem("what is this: " + plain.split("\n")[0])

    @staticmethod
    def fill_enum(entry, body, lists):
        use = re.search(r"#define MS__X\(([^)]*)\) (MS_[A-Z_]*)##name", body)
        if use:
            listed = re.search(r"(MS_[A-Z]+)\(MS__X\)", body).group(1)
            parameters = [p.strip() for p in use.group(1).split(",")]
            entry.columns = [p for p in parameters if p != "name"]
            entry.rows = macro_rows(lists[listed], use.group(2), parameters)
            entry.listed = listed
            return
        for code, comment in members(body, ","):
            name = code.split("=")[0].strip()
            entry.rows.append((name, code, comment))

    @staticmethod
    def fill_struct(entry, body):
        hidden = False
        for code, comment in members(body, ";"):
            if re.match(r"private(\b|:|,)", comment) and re.search(r"from here", comment):
                hidden = True
            if hidden or re.match(r"private\b", comment) or "struct ms__" in code:
                continue
            entry.rows.append((Interface.names_of(code)[0], code, comment))

    @staticmethod
    def names_of(code):
        """Returns the members that a declaration in a struct declares."""
        pointer = re.search(r"\(\*([a-z0-9_]+)\)\(", code)
        if pointer:
            return [pointer.group(1)]
        return re.findall(r"([a-z0-9_]+)(?:\[[^\]]*\])*(?=,|$)", code)

    # ---- Writing

    def link(self, name, here):
        """Returns the address of a name as a page of the interface writes it, or None."""
        found = self.where.get(name)
        if found is None:
            return None
        page, anchor = found
        target = "" if page == here else page[:-3] + ".html"
        return target + "#" + anchor

    def inline(self, text, here, codes=True, itself=None):
        """Returns text as HTML, its names as links."""
        out, at = [], 0
        for match in INLINE.finditer(text):
            out.append(html.escape(text[at : match.start()], quote=False))
            at = match.end()
            label = html.escape(match.group(0), quote=False)
            name = match.group("name")
            if match.group("tag"):
                page = [s for s in self.sections if s.tag == match.group("tag")]
                out.append(f'<a href="{page[0].page[:-3]}.html">{label}</a>' if page else label)
                continue
            if match.group("part"):
                target = "" if here == "manual.md" else "manual.html"
                out.append(f'<a href="{target}#{label.lower()}">{label}</a>')
                continue
            if match.group("code"):
                name = match.group("code")
                label = html.escape(name, quote=False)
            if match.group("member"):
                if name + match.group("member") in self.where:
                    name += match.group("member")
                else:
                    at -= len(match.group("member"))
                    label = label[: -len(match.group("member"))]
            address = self.link(name, here) if name and name != itself else None
            shown = f"<code>{label}</code>" if codes else label
            if name and name == itself:
                shown = f"<b>{label}</b>"
            out.append(f'<a href="{address}">{shown}</a>' if address else shown)
        out.append(html.escape(text[at:], quote=False))
        return "".join(out)

    def blocks(self, text, here):
        """Returns a comment as chunks of Markdown: HTML, and fences of code."""
        out, lines, i = [], text.split("\n"), 0
        paragraph = []

        def close():
            if paragraph:
                out.append("<p>" + self.inline(" ".join(paragraph), here) + "</p>")
                paragraph.clear()

        def indent(line):
            return len(line) - len(line.lstrip())

        def taken(condition):
            nonlocal i
            got = []
            while i < len(lines) and condition(lines[i]):
                got.append(lines[i])
                i += 1
            while got and not got[-1].strip():
                got.pop()
            return got

        while i < len(lines):
            line = lines[i]
            if not line.strip():
                close()
                i += 1
            elif re.match(r"^ {2,3}- ", line) or (re.match(r"^- ", line)):
                close()
                depth = indent(line)
                items = []
                while i < len(lines) and re.match(r"^ {%d}- " % depth, lines[i]):
                    first = lines[i].strip()[2:]
                    i += 1
                    more = taken(lambda one: one.strip() and indent(one) > depth)
                    items.append(" ".join([first] + [m.strip() for m in more]))
                out.append("<ul>\n" + "\n".join(
                    f"<li>{self.inline(item, here)}</li>" for item in items) + "\n</ul>")
            elif indent(line) >= 4:
                close()
                code = taken(lambda one: not one.strip() or indent(one) >= 4)
                cut = min(indent(c) for c in code if c.strip())
                out.append("```c\n" + "\n".join(c[cut:] for c in code) + "\n```")
            elif indent(line) >= 2:
                close()
                out.append(self.rows(taken(lambda one: one.strip() and indent(one) >= 2), here))
            else:
                paragraph.append(line.strip())
                i += 1
        close()
        return out

    def rows(self, lines, here):
        """Returns lines that are set as a table as one, else as they are."""
        rows = []
        for line in lines:
            if len(line) - len(line.lstrip()) > 2 and rows:
                rows[-1][1] = (rows[-1][1] + " " + line.strip()).strip()
                continue
            cells = re.split(r" {2,}", line.strip())
            if len(cells) > 2:
                rows = []
                break
            rows.append([cells[0], cells[1] if len(cells) == 2 else ""])
        if not rows or not all(row[1] for row in rows):
            cut = min(len(line) - len(line.lstrip()) for line in lines)
            text = "\n".join(self.inline(line[cut:], here, codes=False) for line in lines)
            return f'<div class="set"><pre tabindex="0">{text}</pre></div>'
        body = "\n".join(f"<tr><td>{self.term(left, here)}</td>"
                         f"<td>{self.inline(right, here)}</td></tr>" for left, right in rows)
        return f'<table class="terms"><tbody>\n{body}\n</tbody></table>'

    def term(self, text, here):
        shown = self.inline(text, here)
        return shown if "<code>" in shown or " " in text else f"<code>{shown}</code>"

    def signature(self, entry, here):
        shown = self.inline(entry.code, here, codes=False, itself=entry.name)
        return f'<div class="signature"><pre tabindex="0"><code>{shown}</code></pre></div>'

    def comment(self, text, here):
        return self.blocks(text, here) if text else []

    def results(self, entry, here):
        """Returns the codes that a function's comment names, with their texts."""
        named = []
        for name in NAME.findall(entry.comment):
            if re.match(r"MS_(E_|OK$)", name) and name not in named and name in self.where:
                named.append(name)
        if not named:
            return []
        texts = {row[0]: row[1][-1].strip('"') for s in self.sections for e in s.entries()
                 if e.listed == "MS_RESULTS" for row in e.rows}
        items = "".join(f"<li>{self.inline(name, here)} {html.escape(texts.get(name, ''))}</li>"
                        for name in named)
        return [f'<div class="results"><p>Codes in this text:</p><ul>{items}</ul></div>']

    def table(self, entry, here):
        if not entry.rows:
            return []
        if entry.listed:
            with_comment = any(row[2] for row in entry.rows)
            heads = ["name"] + entry.columns + (["meaning"] if with_comment else [])
        else:
            heads = ["value" if entry.kind == "enum" else "member", "meaning"]
        out = []
        for name, code, comment in entry.rows:
            anchor = f' id="{name}"' if self.where.get(name, ("", ""))[1] == name and \
                NAME.fullmatch(name) else ""
            if entry.listed:
                cells = [f"<code>{name}</code>"] + [
                    "<code>" + html.escape(cell.strip('"')) + "</code>" if not cell.startswith('"')
                    or " " not in cell else html.escape(cell.strip('"')) for cell in code]
                cells = ["" if cell == "<code></code>" else cell for cell in cells]
                cells += [self.inline(comment, here)] if with_comment else []
            else:
                text = self.inline(code, here, codes=False, itself=name)
                cells = [f"<code>{text}</code>", self.cell(comment, here)]
                if entry.kind != "enum":
                    anchor, *more = [f' id="{entry.name}.{one}"' for one in self.names_of(code)]
                    cells[0] += "".join(f"<span{one}></span>" for one in more)
            out.append(f"<tr{anchor}>" + "\n".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
        head = "\n".join(f"<th>{name}</th>" for name in heads)
        return [f'<div class="members"><table><thead><tr>{head}</tr></thead><tbody>\n'
                + "\n".join(out) + "\n</tbody></table></div>"]

    def cell(self, comment, here):
        chunks = self.blocks(comment, here)
        if len(chunks) == 1 and chunks[0].startswith("<p>"):
            return chunks[0][3:-4]
        return "".join(chunk if chunk.startswith("<") else
                       "<pre>" + html.escape(chunk[5:-4]) + "</pre>" for chunk in chunks)

    def entry(self, entry, here, private):
        out = []
        if entry.name:
            out.append(f"### `{entry.name}` {{ #{entry.name} }}")
        else:
            family = entry.rows[0][0].rsplit("_", 1)[0]
            out.append(f"### Constants: `{family}_*` {{ #{family} }}")
        if entry.kind in ("function", "type") or (entry.kind == "macro" and not entry.is_list):
            out.append(self.signature(entry, here))
        elif entry.name and entry.kind in ("struct", "enum"):
            out.append(f'<p class="kind"><code>{entry.kind}</code></p>')
        if len(entry.group) > 1:
            names = ", ".join(self.inline(name, here) for name in entry.group)
            out.append(f'<p class="group">For {names}:</p>')
        out += self.comment(entry.comment, here)
        if entry.kind == "macro" and entry.is_list:
            users = [e for s in self.sections for e in s.entries()
                     if e.listed == entry.name]
            out += [f"<p>The rows are in the table of {self.inline(e.name, here)}.</p>"
                    for e in users]
        if private:
            out.append("<p>Its members are private, but for those that its comment names.</p>")
        else:
            out += self.table(entry, here)
        if entry.kind == "type" and entry.opaque:
            for section in self.sections:
                if section.tag != "api-structs" and any(
                        e.kind == "struct" and e.name == entry.name for e in section.entries()):
                    address = section.page[:-3] + ".html"
                    out.append(f'<p>Its members: <a href="{address}#{entry.name}-members">'
                               f"[{section.tag}]</a>.</p>")
        if entry.kind == "function":
            out += self.results(entry, here)
        return out

    def page(self, section):
        """Returns a section's page, in Markdown."""
        here = section.page
        out = [f"---\ntitle: {self.title(section)}\n---", f"# {self.title(section)}",
               f'<p class="tag"><code>[{section.tag}]</code>'
               f'{", for experts" if section.expert else ""}</p>']
        out += self.blocks(section.intro, here)
        if section.code:
            return "\n\n".join(out + [f"```c\n{section.code}\n```"]) + "\n"
        for item in section.items:
            if not isinstance(item, Entry):
                title, text = item
                out += ([f"## {title}"] if title else []) + self.comment(text, here)
                continue
            private = section.tag == "api-structs"
            if private and not item.name:
                continue
            if private and item.kind == "macro":
                continue
            chunks = self.entry(item, here, private)
            if self.where.get(item.name, (here,))[0] != here and item.name:
                chunks[0] = f"### Members of `{item.name}` {{ #{item.name}-members }}"
            out += chunks
        return "\n\n".join(out) + "\n"

    @staticmethod
    def title(section):
        return section.title[:1].upper() + section.title[1:]

    def parts(self):
        """Returns the manual's list of the interface: (title, sections) each."""
        contents = self.manual[self.manual.index("---- CONTENTS") :]
        contents = contents.split("\n\n", 1)[1]
        out = []
        for line in contents.split("\n"):
            match = re.match(r"^  (\S.*?)  +\[", line)
            if match:
                out.append((match.group(1), []))
            if not line.strip() or not out:
                break
            out[-1][1].extend(re.findall(r"\[(api-[a-z-]+)\]", line))
        return [(title, tags) for title, tags in out if tags]

    def functions(self):
        return [(section, entry) for section in self.sections for entry in section.entries()
                if entry.kind == "function"]

    def manual_page(self):
        """Returns the manual, the comment at the head of the header, in Markdown."""
        here = "manual.md"
        first, *parts = re.split(r"(?m)^---- ([A-Z].*?) -*$\n", self.manual)
        title, first = first.split("\n\n", 1)[0], first.split("\n\n", 1)[1]
        out = ["---\ntitle: The manual\n---", "# The manual",
               f"<p>{html.escape(title.split(' - MIT')[0])}</p>"]
        out += self.blocks(first, here)
        for name, text in zip(parts[::2], parts[1::2]):
            if name.startswith("CONTENTS"):
                continue
            out.append(f"## {name[:1]}{name[1:].lower()} {{ #{name.split(' ')[0].lower()} }}")
            out += self.blocks(text.strip("\n"), here)
        return "\n\n".join(out) + "\n"

    def index_page(self):
        """Returns the list of all functions, in Markdown."""
        here = "index.md"
        out = ["---\ntitle: All functions\n---", "# All functions",
               "The interface of `msgstore.h`, written from its comments. "
               "[The manual](manual.md) explains what holds for all of it, "
               "[the ten calls](ten.md) are enough for an agent."]
        by_tag = {section.tag: section for section in self.sections}
        listed = self.parts()
        rest = [s.tag for s in self.sections if not any(s.tag in tags for _, tags in listed)]
        for title, tags in listed + ([("other languages", rest)] if rest else []):
            out.append("## " + title[:1].upper() + title[1:])
            for tag in tags:
                section = by_tag[tag]
                functions = [e for e in section.entries() if e.kind == "function"]
                out.append(f'<p><a href="{section.page[:-3]}.html">{self.title(section)}</a> '
                           f"<code>[{tag}]</code></p>")
                if functions:
                    body = "\n".join(
                        f"<tr><td>{self.inline(e.name, here)}</td>"
                        f"<td>{self.inline(self.first_sentence(e), here)}</td></tr>"
                        for e in functions)
                    out.append(f'<table class="terms"><tbody>\n{body}\n</tbody></table>')
        return "\n\n".join(out) + "\n"

    @staticmethod
    def first_sentence(entry):
        text = " ".join(entry.comment.split("\n\n")[0].split())
        return re.split(r"(?<=[.:;])\s", text, maxsplit=1)[0].rstrip(":;.") if text else ""


def declared(path):
    """Returns the functions that a header declares, found by another way than above."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    text = text.split("_IMPLEMENTATION\n#ifndef MSGSTORE_")[0]
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = re.findall(r"^MS_API\s[^;{]*?\b(ms_[a-z0-9_]+)\s*\(", text, re.M)
    return [name for name in found if not name.startswith("ms__")]


def check(paths):
    """Prints the functions without an entry, or with an empty one. Returns their number."""
    interface = Interface(paths)
    entries, pages = {}, {s.page: interface.page(s) for s in interface.sections}
    for section, entry in interface.functions():
        entries.setdefault(entry.name, (section, entry))
    bad = 0
    names = [name for path in paths for name in declared(path)]
    for name in names:
        problem = None
        if name not in entries:
            problem = "has no entry"
        elif not re.search(r"\w", entries[name][1].comment):
            problem = "has no comment"
        else:
            section = entries[name][0]
            at = pages[section.page].split(f"\n### `{name}` {{ #{name} }}\n")
            if len(at) != 2:
                problem = f"is {len(at) - 1} times in {section.page}"
            elif "<p>" not in at[1].split("\n## ")[0].split("\n### ")[0]:
                problem = f"has no text in {section.page}"
        if problem:
            print(f"{name} {problem}")
            bad += 1
    if not names:
        print("no function is declared")
        bad += 1
    return bad


def main():
    args = sys.argv[1:]
    if args[:1] == ["--check"]:
        sys.exit(1 if check(args[1:]) else 0)
    if args[:1] == ["--page"]:
        interface = Interface(args[2:])
        print([interface.page(s) for s in interface.sections if s.tag == args[1]][0], end="")
        return
    for section, entry in Interface(args).functions():
        print(entry.name, section.page)


if __name__ == "__main__":
    try:
        main()
    except Problem as problem:
        sys.exit(f"interface.py: {problem}")
