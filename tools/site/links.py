#!/usr/bin/env python3
"""Checks the links of a built site: links.py FOLDER.

Every page has one heading h1, and a text. Every address inside of the site must lead to a
file, and its anchor to an element of that file. Nothing may be loaded from elsewhere: no script, style, font, picture or frame. Links
that lead elsewhere are not followed; FOLDER/../external.txt lists them, with a page each.
Prints what is wrong, a line each, and at the end a count. Pages of `msgstore report` and the
page for addresses that do not exist are judged only by what they load.
"""

import html.parser
import os
import re
import sys
import urllib.parse

LOADS = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"),
         ("video", "src"), ("audio", "src"), ("embed", "src"), ("object", "data"),
         ("input", "src"), ("img", "srcset")}
LOADING = re.compile(r"stylesheet|icon|preload|preconnect|prefetch|manifest|modulepreload")


class Page(html.parser.HTMLParser):
    """The links, loads and anchors of a page."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.links, self.loads, self.anchors, self.double = [], [], set(), []
        self.style, self.heads, self.words = False, 0, 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.heads += tag == "h1"
        if tag == "style":
            self.style = True
        for name in ("id", "name") if tag == "a" else ("id",):
            if values.get(name):
                if name == "id" and values[name] in self.anchors:
                    self.double.append(values[name])
                self.anchors.add(values[name])
        if "style" in values:
            self.styles(values["style"] or "")
        for name, value in attrs:
            if value is None:
                continue
            if (tag, name) in LOADS:
                self.loads.append(value.split()[0] if name == "srcset" else value)
            elif tag == "link" and name == "href" and LOADING.search(values.get("rel") or ""):
                self.loads.append(value)
            elif name == "href" and tag in ("a", "area"):
                self.links.append(value)

    def handle_endtag(self, tag):
        if tag == "style":
            self.style = False

    def handle_data(self, data):
        if self.style:
            self.styles(data)
        elif self.heads:
            self.words += len(data.split())

    def styles(self, text):
        self.loads += loads_of_css(text)


def loads_of_css(text):
    found = re.findall(r"url\(\s*[\"']?([^\"')]+)", text)
    found += re.findall(r"@import\s+[\"']([^\"']+)", text)
    return [one for one in found if not one.startswith(("data:", "#"))]


def foreign(address):
    return bool(re.match(r"(?:[a-zA-Z][a-zA-Z0-9+.-]*:)?//", address))


def main():
    folder = sys.argv[1]
    files, pages, problems, external, count = set(), {}, [], {}, 0
    for root, _, names in os.walk(folder):
        files.update(os.path.relpath(os.path.join(root, name), folder) for name in names)
    for name in sorted(files):
        path = os.path.join(folder, name)
        if name.endswith(".html"):
            with open(path, encoding="utf-8") as file:
                pages[name] = Page(file.read())
        elif name.endswith(".css"):
            with open(path, encoding="utf-8") as file:
                problems += [f"{name} loads {one}" for one in loads_of_css(file.read())
                             if foreign(one)]
    for name, page in pages.items():
        apart = name == "404.html" or (name.startswith("report/") and name != "report/index.html")
        problems += [f"{name} loads {one}" for one in page.loads if foreign(one)]
        if apart:
            continue
        problems += [f"{name} has #{one} twice" for one in page.double]
        if page.heads != 1:
            problems.append(f"{name} has {page.heads} headings h1")
        elif page.words < 10:
            problems.append(f"{name} has no text")
        for link in page.links + page.loads:
            if foreign(link) or re.match(r"[a-z]+:", link):
                if not link.startswith(("data:", "javascript:")):
                    external.setdefault(link, name)
                continue
            count += 1
            path, _, anchor = link.partition("#")
            path = urllib.parse.unquote(path.split("?")[0])
            target = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            if os.path.isdir(os.path.join(folder, target)):
                target = os.path.normpath(os.path.join(target, "index.html"))
            if target not in files:
                problems.append(f"{name}: {link} leads to no file")
            elif anchor and target in pages and \
                    urllib.parse.unquote(anchor) not in pages[target].anchors:
                problems.append(f"{name}: {link} leads to no element")
    with open(os.path.join(folder, "..", "external.txt"), "w", encoding="utf-8") as file:
        file.writelines(f"{link} {page}\n" for link, page in sorted(external.items()))
    for problem in problems:
        print(problem)
    print(f"{len(pages)} pages, {count} links inside, {len(external)} addresses outside, "
          f"{len(problems)} wrong")
    if problems or not count:
        sys.exit(1)


if __name__ == "__main__":
    main()
