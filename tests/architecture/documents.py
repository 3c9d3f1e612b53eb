#!/usr/bin/env python3
"""Guards what can be kept true in the documents that describe the code.

Each has at most its number of lines. Files, folders and names in CamelCase that it
mentions, in code spans and in diagrams, exist. Links lead to files and headings. Every
option has a line in deploy/OPTIONS.md. Run by ctest; the argument is the repository.
"""

import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

LINES = {"README.md": 130, "ARCHITECTURE.md": 300}
LINES_OF_CHAPTERS = 150
CHAPTERS = [
    "common/cuda", "common/grammar", "common/model", "common/nn", "common/rpc",
    "coordinator/api", "coordinator/control", "coordinator/peers", "drafter", "verifier",
    "verifier/flow"]
OPTIONS = "deploy/OPTIONS.md"
DOCUMENTS = ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md",
             *[f"{folder}/README.md" for folder in CHAPTERS], "common/cuda/CHAIN.md",
             *[f"deploy/{name}.md" for name in ("CLIENTS", "MODELS", "OPERATION", "OPTIONS")]]
CODE = (".h", ".cc", ".cu", ".py", ".sh", ".proto", ".txt", ".cmake")
# Classes of others, and words of the text that look like names of code.
FOREIGN = {"num_speculative_tokens", "speculative_num_draft_tokens"}
TOP_FOLDERS = ("common/", "coordinator/", "deploy/", "docker/", "drafter/", "proto/", "tests/",
               "verifier/")
NAME = re.compile(r"\b[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+\b|\bk[A-Z]\w+\b|\b[a-z]+_[a-z_]*[a-z]\b")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def code_spans(text: str) -> Iterator[Any]:
    """Inline code and fenced blocks, without the indented commands."""
    for fence in re.findall(r"^```\w*\n(.*?)^```", text, re.S | re.M):
        yield fence
    for span in re.findall(r"`([^`\n]+(?:\n[^`\n]+)?)`",
                           re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)):
        yield " ".join(span.split())


def exists(root: pathlib.Path, names: Sequence[str], path: str) -> bool:
    """A file or folder, also without the ending, also with a member after it."""
    path = path.rstrip("/.")
    return (root / path).exists() or any(name.startswith(path + ".") for name in names)


def heading_anchors(text: str) -> Iterator[str]:
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def broken_links(path: pathlib.Path, text: str) -> Iterator[str]:
    for link in LINK.findall(text):
        if "://" in link or link.startswith("mailto:"):
            continue
        target, _, anchor = link.partition("#")
        other = path.parent / target if target else path
        if not other.exists():
            yield f"link to {link}"
        elif anchor and anchor not in heading_anchors(other.read_text(encoding="utf-8")):
            yield f"link to {link}: no such heading"


def unknown_names(root: pathlib.Path, names: Sequence[str], words: set[str],
                  text: str) -> Iterator[str]:
    for span in code_spans(text):
        for path in re.findall(r"[\w./*-]+/[\w./*-]*", span):
            if path.startswith(TOP_FOLDERS) and "*" not in path \
                    and not exists(root, names, path):
                yield f"no file {path}"
        for name in NAME.findall(span):
            if name.startswith("my_") or "My" in name:  # of the reader's own
                continue
            if name not in words and name not in FOREIGN:
                yield f"no {name} in the code"


def missing_options(root: pathlib.Path) -> Iterator[str]:
    """Fields of configuration files and options of drafters without a line in OPTIONS.md."""
    described = set(re.findall(r"`([a-z_]+)`", (root / OPTIONS).read_text(encoding="utf-8")))
    config = (root / "proto/espalier/v1/config.proto").read_text(encoding="utf-8")
    fields = re.findall(r"^  (?:optional |repeated )?[\w<>, ]+ (\w+) = \d+;", config, re.M)
    options = []
    for path in sorted((root / "drafter").rglob("*.cc")):
        options += re.findall(r'reader\.(?:Integer|Number|Flag|Text|RequiredText)\(\s*"(\w+)"',
                              path.read_text(encoding="utf-8"))
    for name in sorted({*fields, *options} - described):
        yield f"{OPTIONS}: {name} is missing"


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    names = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard"],
                           text=True, capture_output=True, check=True).stdout.split("\n")
    words = set()
    for name in names:
        if name.endswith(CODE) and (root / name).exists():
            words.update(re.findall(r"\w+", (root / name).read_text(encoding="utf-8")))
        words.add(pathlib.PurePath(name).name.partition(".")[0])
        words.update(pathlib.PurePath(name).parts)
    found = list(missing_options(root))
    for document in DOCUMENTS:
        path = root / document
        text = path.read_text(encoding="utf-8")
        most = LINES.get(document, LINES_OF_CHAPTERS)
        if text.count("\n") > most:
            found.append(f"{document} has {text.count(chr(10))} lines, more than {most}")
        found += [f"{document}: {problem}" for problem in
                  [*broken_links(path, text), *unknown_names(root, names, words, text)]]
    print("\n".join(found) or f"{len(DOCUMENTS)} documents looked at")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
