#!/usr/bin/env python3
"""Finds what to build and run for the words of tests/run.sh.

    find_tests.py BUILD WORD...

A word is a label, such as the folder `control`, or the name of a test file, such
as `drafter_policy_test`, or a program of tests, or a test in Python, such as
`upgrade_test`. Prints three lines: targets to build, a regular expression of
ctest's names or labels with its flag, and the filter of cases, which is empty for
labels. Fails with a list of the words if one is unknown.
"""

import json
import pathlib
import re
import subprocess
import sys

CASE = re.compile(r"^\s*(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+)\s*,", re.MULTILINE)


# Program -> its labels and its sources.
Programs = dict[str, tuple[list[str], list[pathlib.Path]]]


def read_programs(build: pathlib.Path) -> Programs:
    """Program -> its labels and its sources, from what CMake wrote."""
    programs = {}
    for line in (build / "tests" / "programs.txt").read_text().splitlines():
        name, labels, sources = line.split("|")
        programs[name] = (labels.split(";"), [pathlib.Path(s) for s in sources.split(";")])
    return programs


def suites(source: pathlib.Path) -> list[str]:
    """The suites of a test file; those of parameters have a prefix."""
    return sorted(set(CASE.findall(source.read_text(encoding="utf-8"))))


def filter_of(source: pathlib.Path) -> str:
    """Returns the filter of GoogleTest that selects a file's cases."""
    return ":".join(f"{s}.*:*/{s}.*:{s}/*" for s in suites(source))


def selected_cases(program: str, source: pathlib.Path, tests: str) -> list[str]:
    """Returns the full names of a test file's cases that a filter selects."""
    listed = subprocess.run([program, "--gtest_list_tests", f"--gtest_filter={tests}"],
                            stdout=subprocess.PIPE, text=True, check=True).stdout
    wanted = set(suites(source))
    cases, suite = [], None
    for line in listed.splitlines():
        name = line.split("#")[0].rstrip()
        if not name.startswith(" "):
            suite = name if wanted & set(name.rstrip(".").split("/")) else None
        elif suite:
            cases.append(suite + name.strip())
    return cases


def find_file(programs: Programs, word: str) -> tuple[str, pathlib.Path | None] | None:
    """Returns the program and, if the word names no whole program, the source of a test file."""
    if word in programs:
        return word, None
    found = [(name, source) for name, (_, sources) in programs.items()
             for source in sources if source.stem == word]
    if len({source for _, source in found}) > 1:
        sys.exit(f"{word} is the name of several files: {', '.join(str(s) for _, s in found)}")
    return found[0] if found else None


def in_python(build: pathlib.Path, words: list[str]) -> bool:
    """Returns whether all words are tests that ctest runs with Python."""
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"],
                            stdout=subprocess.PIPE, text=True, check=True).stdout
    scripts = {pathlib.Path(word).stem for test in json.loads(listed)["tests"]
               for word in test.get("command", [])[1:2] if word.endswith(".py")}
    return set(words) <= scripts


def main() -> None:
    build, words = pathlib.Path(sys.argv[1]), sys.argv[2:]
    programs = read_programs(build)
    labels = {label for labels, _ in programs.values() for label in labels} | {"fuzz"}
    if all(word in labels for word in words):
        print(" ".join(f"test-{word}" for word in words))
        print(f"--label-regex ^({'|'.join(words)})$")
        print()
        return
    if in_python(build, words):
        print("all")
        print(f"--tests-regex ^({'|'.join(words)})$")
        print()
        return
    found = [file for word in words if (file := find_file(programs, word))]
    if len(found) < len(words):
        unknown = [word for word in words if find_file(programs, word) is None]
        sys.exit(f"No area and no test file: {', '.join(unknown)}. Areas: "
                 f"{' '.join(sorted(labels))}. A test file is named without its ending.")
    names = sorted({name for name, _ in found})
    print(" ".join(names))
    print(f"--tests-regex ^({'|'.join(names)})(\\.[0-9]+)?$")
    # A filter holds for all programs that run, so a whole one names its cases beside files.
    files = any(source for _, source in found)
    print(":".join(filter_of(source) for name, file in found
                   for source in ([file] if file else programs[name][1])) if files else "")


if __name__ == "__main__":
    main()
