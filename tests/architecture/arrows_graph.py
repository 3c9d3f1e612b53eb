#!/usr/bin/env python3
"""Draws the graph of folders in ARCHITECTURE.md from the table of include_arrows.py.

    arrows_graph.py REPOSITORY [--write]

Compares the document with the table, or writes the graph into the document.
"""

import pathlib
import sys

import include_arrows

BEGIN = "<!-- arrows: tests/architecture/arrows_graph.py --write -->\n```\n"
END = "```\n<!-- end of arrows -->"
WIDTH = 98
COLUMN = 48


def arrows():
    """Row -> the rows that it lists; a folder without a row stands for its parts."""
    rows = include_arrows.ARROWS
    return {row: {other for name in names for other in rows if other != row
                  and (other == name or name not in rows and other.startswith(name + "/"))}
            for row, names in rows.items()}


def reachable(graph, start):
    found, waiting = set(), list(graph[start])
    while waiting:
        row = waiting.pop()
        if row not in found:
            found.add(row)
            waiting += graph[row]
    return found


def groups_of(graph):
    """Rows, those that reach each other together."""
    below = {row: reachable(graph, row) for row in graph}
    return {row: frozenset({row} | {other for other in below[row] if row in below[other]})
            for row in graph}


def reduced(graph, group):
    """The arrows between groups that do not follow from others."""
    merged = {}
    for row, others in graph.items():
        merged.setdefault(group[row], set()).update(
            group[other] for other in others if group[other] != group[row])
    return {upper: {lower for lower in lowers
                    if not any(lower in reachable(merged, other) for other in lowers)}
            for upper, lowers in merged.items()}


def layer(graph, node):
    return 1 + max((layer(graph, lower) for lower in graph[node]), default=-1)


def label(rows):
    """One row's name, or those of a circle: "folder {its rows}"."""
    first, *others = sorted(rows)
    parts = [other.removeprefix(first + "/") for other in others]
    return f"{first} {{{', '.join(parts)}}}" if parts else first


def wrapped(name, others):
    lines, line = [], name.ljust(COLUMN)
    for number, other in enumerate(others):
        word = ("-> " if number == 0 else ", ") + other
        if len(line) + len(word) > WIDTH:
            lines.append(line + "," * (number > 0))
            line, word = " " * (COLUMN + 3), word.removeprefix(", ")
        line += word
    return lines + [line.rstrip()]


def text():
    full = arrows()
    group = groups_of(full)
    graph = reduced(full, group)
    names = {node: label(node) for node in graph}
    layers = {}
    for node in graph:
        layers.setdefault(layer(graph, node), []).append(node)
    lines = []
    for number in sorted(layers, reverse=True):
        for node in sorted(layers[number], key=names.get):
            first = node == min(layers[number], key=names.get)
            lines += wrapped(f"{number if first else '':>2} {names[node]}",
                             sorted(min(lower) for lower in graph[node]))
    return "\n".join(lines) + "\n"


def main():
    document = pathlib.Path(sys.argv[1]) / "ARCHITECTURE.md"
    before = document.read_text(encoding="utf-8")
    head, _, rest = before.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not end:
        print(f"{document} has no place for the graph of folders")
        return 1
    after = head + BEGIN + text() + END + tail
    if "--write" in sys.argv:
        document.write_text(after, encoding="utf-8")
    elif after != before:
        print("ARCHITECTURE.md draws other arrows than include_arrows.py has; "
              "tests/architecture/arrows_graph.py . --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
