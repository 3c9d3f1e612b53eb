#!/usr/bin/env python3
"""Finds words of an old private vocabulary, for which the glossary of
ARCHITECTURE.md has the field's terms; phrases that readers stumbled over; and
comments without a subject. Run by ctest; the argument is the repository.
"""

import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

WORDS = re.compile(
    r"\b(laws?|verdicts?|twins?|fore(?:told|tells?|sees?|seen|sight)|duty|"
    r"duties|opinions?|choosers?|(?:target|draft|stop)_?laws?|lawful|num_finds|"
    r"ServeChosen|CountRefusal)\b", re.IGNORECASE)
# The experiment `espalier lab law`, its input and output keep their name.
ALLOWED = re.compile(r"lab law|\"law\"|law_experiment|LawExperiment|\blaw \+|"
                     r"law:|laws of motion|\blaw - |law = ")
SUFFIXES = (".h", ".cc", ".cu", ".proto", ".md", ".py", ".sh")
# This file, and prose that is data.
SKIPPED = ("tests/architecture/words.py", "tests/mutants/", "deploy/suites/",
           "drafter/training/", "tests/common/tokenizer/", "CHANGELOG.md")

PHRASES = re.compile(r"\btimes less\b|\bno choice about\b|\bthat cannot be followed\b|"
                     r"\bk(?:Most|Least)(?:[A-Z]\w*)?\b")  # kMax and kMin
# A comment that begins in the middle of a sentence, and one that goes on after the
# declaration.
BEGINS_LATE = re.compile(r"(Of|And|But|Those|The same|Also|and|or|then) ")
GOES_ON = re.compile(r",$")
# A comment of a header that begins with a clause in place of a sentence.
CLAUSE = re.compile(r"(What|Whether) ")
# Where comments are read.
COMMENTED = re.compile(r"(common/|drafter/|lab/|tests/|verifier/|coordinator/).*\.(h|cc|cu|py|sh)$")


def comments(name: str, text: str) -> Iterator[tuple[int, str]]:
    """The comments that have lines of their own: (number of the first line, text)."""
    mark = re.compile(r"\s*#(?!!) ?(.*)" if name.endswith((".py", ".sh")) else r"\s*// ?(.*)")
    first, lines = 0, []
    for number, line in enumerate([*text.split("\n"), ""], 1):
        match = mark.fullmatch(line)
        if match:
            first = first or number
            lines.append(match[1].strip())
        elif lines:
            yield first, " ".join(lines)
            first, lines = 0, []


def problems(name: str, text: str) -> Iterator[tuple[Any, str] | tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if WORDS.search(ALLOWED.sub("", line)) or PHRASES.search(line):
            yield number, line.strip()
    if COMMENTED.match(name):
        for number, comment in comments(name, text):
            if BEGINS_LATE.match(comment) or GOES_ON.search(comment) or (
                    name.endswith(".h") and CLAUSE.match(comment)):
                yield number, f"a comment needs a subject and a verb: {comment[:60]}"


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    names = subprocess.run(["git", "-C", str(root), "ls-files"], text=True,
                           capture_output=True, check=True).stdout.split("\n")
    found = 0
    for name in names:
        if not name.endswith(SUFFIXES) or name.startswith(SKIPPED):
            continue
        if not (root / name).exists():
            continue
        for number, problem in problems(name, (root / name).read_text(encoding="utf-8")):
            print(f"{name}:{number}: {problem}")
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
