#!/usr/bin/env python3
"""Writes testdata/templates.answers: what Python's Jinja makes of the chat
templates that `deploy/setup.sh --tests` fetches.

  pip install jinja2==3.1.6
  python3 make_template_goldens.py ~/.cache/espalier/chat-templates

Jinja is set up as transformers sets it up (reference_jinja.py). An answer is a
digest, or "error" where rendering fails; templates and texts are not kept.
"""
import json
import pathlib
import sys
from typing import Any

import jinja2

import reference_jinja

PINNED = "3.1.6"
TESTDATA = pathlib.Path(__file__).with_name("testdata")


def digest(text: str) -> str:
    """FNV-1a over bytes; golden_files.cc has the same."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return f"{value:08x}"


def answer(source: str, given: dict[str, Any]) -> str:
    text, _ = reference_jinja.render(source, reference_jinja.TRUSTED, given)
    return "error" if text is None else digest(text)


def main() -> None:
    assert jinja2.__version__ == PINNED, f"needs jinja2 {PINNED}"
    conversations = json.loads((TESTDATA / "conversations.json").read_text())
    lines = []
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.jinja")):
        source = path.read_text()
        for conversation in conversations:
            lines.append(f"{path.name} {conversation['name']} "
                         f"{answer(source, conversation['input'])}")
    (TESTDATA / "templates.answers").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
