#!/usr/bin/env python3
"""Draws the graph of folders in ARCHITECTURE.md from the table of include_arrows.py.

    arrows_graph.py REPOSITORY [--write]

Compares the document with the table, or writes the graph into the document.
"""

import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import include_arrows

BEGIN = "<!-- arrows: tests/architecture/arrows_graph.py --write -->\n```\n"
END = "```\n<!-- end of arrows -->"
WIDTH = 100
COLUMN = 28


# Parts that are drawn as the whole that they belong to.
WHOLES = {"coordinator/coordinator_main": "coordinator",
          "coordinator/in_process_peers": "coordinator",
          **{row: "coordinator/cli" for row in include_arrows.ARROWS
             if row.startswith("coordinator/cli/")}}


def drawn(row: str) -> str:
    return WHOLES.get(row, row)


def arrows() -> dict[str, Any]:
    """Row -> the rows that it lists; a folder without a row stands for its parts."""
    rows = include_arrows.ARROWS
    graph: dict[str, set[str]] = {}
    for row, names in rows.items():
        graph.setdefault(drawn(row), set()).update(
            drawn(other) for name in names for other in rows
            if drawn(other) != drawn(row)
            and (other == name or name not in rows and other.startswith(name + "/")))
    return graph


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    found, waiting = set(), list(graph[start])
    while waiting:
        row = waiting.pop()
        if row not in found:
            found.add(row)
            waiting += graph[row]
    return found


def reduced(graph: dict[str, set[str]]) -> dict[str, Any]:
    """The arrows that do not follow from others."""
    return {upper: {lower for lower in lowers
                    if not any(lower in reachable(graph, other) for other in lowers)}
            for upper, lowers in graph.items()}


def layer(graph: dict[str, set[str]], node: str) -> int:
    return 1 + max((layer(graph, lower) for lower in graph[node]), default=-1)


def wrapped(name: str, others: Sequence[str]) -> list[str]:
    lines, line = [], name.ljust(COLUMN)
    for number, other in enumerate(others):
        word = ("-> " if number == 0 else ", ") + other
        if len(line) + len(word) > WIDTH:
            lines.append(line + "," * (number > 0))
            line, word = " " * (COLUMN + 3), word.removeprefix(", ")
        line += word
    return lines + [line.rstrip()]


def text() -> str:
    graph = reduced(arrows())
    layers: dict[int, dict[tuple[str, ...], list[str]]] = {}
    for row, others in graph.items():  # rows with the same arrows share a line
        layers.setdefault(layer(graph, row), {}).setdefault(tuple(sorted(others)), []).append(row)
    lines = []
    for number in sorted(filter(lambda layer: layer > 1, layers), reverse=True):
        drawn = sorted((", ".join(sorted(rows)), others)
                       for others, rows in layers[number].items())
        for index, (rows, others) in enumerate(drawn):
            lines += wrapped(f"{'' if index else number:>2} {rows} ", others)
    return "\n".join(lines) + "\n"


def main() -> int:
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
