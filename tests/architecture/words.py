#!/usr/bin/env python3
"""Finds words of an old private vocabulary, for which the glossary of
ARCHITECTURE.md has the field's terms. Run by ctest; the argument is the
repository.
"""

import pathlib
import re
import subprocess
import sys

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


def main():
    root = pathlib.Path(sys.argv[1])
    names = subprocess.run(["git", "-C", str(root), "ls-files"], text=True,
                           capture_output=True, check=True).stdout.split("\n")
    found = 0
    for name in names:
        if not name.endswith(SUFFIXES) or name.startswith(SKIPPED):
            continue
        text = (root / name).read_text(encoding="utf-8")
        for number, line in enumerate(text.split("\n"), 1):
            if WORDS.search(ALLOWED.sub("", line)):
                print(f"{name}:{number}: {line.strip()}")
                found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
