#!/usr/bin/env python3
"""Adds up what tests/run/coverage.sh measured and prints it by sections of a header.

    coverage.py HEADER LIST [--missing SECTION]... NAME...

For each NAME there are NAME.json and NAME.lcov, from llvm-cov export, and NAME.map, what
clang wrote for -dump-coverage-mapping. LIST is tests/run/coverage.txt. See coverage.sh
for what is counted and what is an error.
"""
import json
import re
import sys

GOAL_HEADER = 95.0
GOAL_WHOLE = ("file-format", "record", "json", "log-map", "log-index", "log-sync", "log-append",
              "log-recover", "log-cursor", "log-open")


class Header:
    """The text of the header and where its sections begin."""

    def __init__(self, path):
        self.path = path
        with open(path, encoding="utf-8") as file:
            self.lines = [""] + file.read().split("\n")
        self.starts = []
        for number, line in enumerate(self.lines):
            found = re.match(r"/\* ==== \[([a-z-]+)\] ", line)
            if found:
                self.starts.append((number, found.group(1)))

    def section(self, line):
        name = "manual"
        for start, section in self.starts:
            if start > line:
                break
            name = section
        return name

    def text(self, place):
        """What stands between two places, with single spaces. Columns count bytes."""
        first, column, last, end = place
        lines = [line.encode() for line in self.lines[first:last + 1]]
        lines[-1] = lines[-1][:end - 1]
        lines[0] = lines[0][column - 1:]
        return " ".join(b" ".join(lines).decode("utf-8", "replace").split())


class Branch:
    """One condition: which of its two sides were taken. place: where it stands, or the
    macro that it stands in; the condition of MS__TRY is "it failed"."""

    SIDES = ("true", "false")

    def __init__(self, header, function, place):
        self.function = function
        self.line = place[0]
        self.section = header.section(self.line)
        self.condition = header.text(place)
        self.source = header.lines[self.line].strip()
        self.taken = dict.fromkeys(self.SIDES, False)
        self.listed = dict.fromkeys(self.SIDES, False)


def decided(path):
    """Conditions that are decided when compiling: (function, file, place)."""
    found, function = set(), ""
    with open(path, encoding="utf-8") as file:
        for line in file:
            if not line.startswith(" "):
                function = line.strip().rstrip(":")
                continue
            match = re.match(r"\s+Branch,File (\d+), (\d+):(\d+) -> (\d+):(\d+) = 0, 0\s",
                             line)
            if match:
                numbers = [int(n) for n in match.groups()]
                found.add((function, numbers[0], tuple(numbers[1:])))
    return found


def outermost(function, file_id):
    """Where the macros stand that a place came from, from the innermost out."""
    places = []
    while True:
        step = [r for r in function["regions"] if r[7] == 1 and r[6] == file_id]
        if not step:
            return places
        places.append(tuple(step[0][:4]))
        file_id = step[0][5]


def read_branches(header, name, branches):
    fixed = decided(name + ".map")
    with open(name + ".json", encoding="utf-8") as file:
        data = json.load(file)["data"][0]
    for function in data["functions"]:
        files = function["filenames"]
        if not files[0].endswith("/" + header.path) and files[0] != header.path:
            continue
        short = function["name"].split(":")[-1]
        for b in function["branches"]:
            place, file_id = tuple(b[:4]), b[6]
            if files[file_id] != files[0] or (short, file_id, place) in fixed:
                continue
            chain = outermost(function, file_id)
            key = (short, place, tuple(chain))
            if key not in branches:
                branches[key] = Branch(header, short, chain[-1] if chain else place)
            branches[key].taken["true"] |= b[4] > 0
            branches[key].taken["false"] |= b[5] > 0


def read_lines(header, name, lines):
    inside = False
    with open(name + ".lcov", encoding="utf-8") as file:
        for text in file:
            if text.startswith("SF:"):
                inside = text.strip().endswith("/" + header.path)
            elif inside and text.startswith("DA:"):
                line, count = text[3:].strip().split(",")[:2]
                lines[int(line)] = lines.get(int(line), False) or int(count) > 0


def read_list(path):
    """Entries: section, function, side, condition, piece of the line, number of line."""
    entries = []
    shape = re.compile(r"\[([a-z-]+)\] (\w+): (by chance )?(true|false) of `(.*?)`"
                       r"(?: in `(.*)`)?$")
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n")
            if not line or line.startswith("#"):
                continue
            if line.startswith("    "):
                if entries:
                    entries[-1]["reason"] += line.strip()
                continue
            match = shape.match(line)
            if not match:
                sys.exit("FAIL coverage: %s:%d: no entry: %s" % (path, number, line))
            section, function, chance, side, condition, piece = match.groups()
            entries.append({"section": section, "function": function, "side": side,
                            "condition": condition, "piece": piece or "", "chance": chance,
                            "place": "%s:%d" % (path, number), "reason": ""})
    return entries


def apply_list(entries, branches):
    """Marks what is listed; returns what is wrong with the list."""
    wrong = []
    for e in entries:
        fits = [b for b in branches.values()
                if b.section == e["section"] and b.function == e["function"]
                and b.condition == e["condition"] and e["piece"] in b.source]
        if not e["reason"]:
            wrong.append("%s: no reason is given" % e["place"])
        if not fits:
            wrong.append("%s: there is no such condition: [%s] %s: `%s`" %
                         (e["place"], e["section"], e["function"], e["condition"]))
        if fits and all(b.taken[e["side"]] for b in fits) and not e["chance"]:
            wrong.append("%s: line %d, `%s` was %s: it can be reached" %
                         (e["place"], fits[0].line, e["condition"], e["side"]))
        for b in fits:
            b.listed[e["side"]] = True
    return wrong


def percent(part, whole):
    return 100.0 * part / whole if whole else 100.0


def shown(part, whole):
    """One place behind the point, never rounded up to 100."""
    p = percent(part, whole)
    return "%.1f" % (99.9 if part < whole and p > 99.9 else p)


class Sum:
    def __init__(self):
        self.lines = self.lines_taken = 0
        self.branches = self.taken = self.listed = 0

    def add(self, other):
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def row(self, name):
        reachable = self.branches - self.listed
        return "%-15s %6d %6d %5s  %6d %6d %5s  %6d %5s" % (
            name, self.lines, self.lines_taken, shown(self.lines_taken, self.lines),
            self.branches, self.taken, shown(self.taken, self.branches),
            self.listed, shown(self.taken, reachable))


def add_up(header, branches, lines):
    sums = {name: Sum() for _, name in header.starts}
    sums["manual"] = Sum()
    for line, taken in lines.items():
        s = sums[header.section(line)]
        s.lines += 1
        s.lines_taken += taken
    for b in branches.values():
        s = sums[b.section]
        for side in b.SIDES:
            s.branches += 1
            s.taken += b.taken[side]
            s.listed += b.listed[side] and not b.taken[side]
    return sums


def print_missing(header, branches, section):
    for b in sorted(branches.values(), key=lambda b: b.line):
        if section not in ("all", b.section):
            continue
        for side in b.SIDES:
            if not b.taken[side] and not b.listed[side]:
                print("%s:%d: %s: never %s: `%s`\n        %s" % (
                    header.path, b.line, b.function, side, b.condition, b.source))


def print_table(header, sums):
    whole = Sum()
    print("%-15s %20s  %20s  %13s" % ("", "lines", "branches", "cannot, of"))
    print("%-15s %6s %6s %5s  %6s %6s %5s  %6s %5s" % (
        "section", "all", "taken", "%", "all", "taken", "%", "be", "rest"))
    for _, name in header.starts:
        s = sums[name]
        whole.add(s)
        if s.lines:
            print(s.row("[" + name + "]"))
    print(whole.row("all"))
    return whole


def main(arguments):
    header = Header(arguments.pop(0))
    listed = arguments.pop(0)
    missing = []
    while arguments and arguments[0] == "--missing":
        missing.append(arguments[1].strip("[]"))
        del arguments[:2]
    branches, lines = {}, {}
    for name in arguments:
        read_branches(header, name, branches)
        read_lines(header, name, lines)
    wrong = apply_list(read_list(listed), branches)
    for section in missing:
        print_missing(header, branches, section)
    sums = add_up(header, branches, lines)
    whole = print_table(header, sums)
    is_library = header.path == "msgstore.h"
    title = "the header" if is_library else header.path
    for name in GOAL_WHOLE if is_library else ():
        s = sums[name]
        if s.taken + s.listed < s.branches:
            wrong.append("%d branches of [%s] are neither taken nor listed" %
                         (s.branches - s.taken - s.listed, name))
    if percent(whole.taken, whole.branches) < GOAL_HEADER:
        wrong.append("less than %g percent of the branches of %s" % (GOAL_HEADER, title))
    for text in wrong:
        print("FAIL coverage: " + text)
    for name in GOAL_WHOLE if is_library else ():
        s = sums[name]
        print("tally: reachable branches percent of [%s] %s" %
              (name, shown(s.taken, s.branches - s.listed)))
    if is_library:
        print("tally: branches that cannot be taken, listed %d" % whole.listed)
    print("tally: line coverage percent of %s %s" %
          (title, shown(whole.lines_taken, whole.lines)))
    print("tally: branch coverage percent of %s %s" %
          (title, shown(whole.taken, whole.branches)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
