#!/usr/bin/env python3
"""Writes testdata/templates.answers: what Python's Jinja makes of the chat
templates that deploy/setup.sh puts beside the engine.

  pip install jinja2==3.1.6
  python3 make_template_goldens.py ~/.cache/espalier/jinja/models/templates

Jinja is set up as transformers sets it up (utils/chat_template_utils.py). An
answer is a digest, or "error" where rendering fails; templates and texts are
not kept.
"""
import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

PINNED = "3.1.6"
NOW = datetime.datetime(2024, 7, 26, 12, tzinfo=datetime.timezone.utc)
TRUSTED = {"add_generation_prompt": True, "bos_token": "<s>",
           "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
TESTDATA = pathlib.Path(__file__).with_name("testdata")


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks what an assistant wrote; renders its body."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_render")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None,
           sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent,
                      separators=separators, sort_keys=sort_keys)


def environment():
    result = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True,
        extensions=[Generation, jinja2.ext.loopcontrols])
    result.filters["tojson"] = tojson
    result.globals["raise_exception"] = raise_exception
    result.globals["strftime_now"] = NOW.strftime
    return result


def digest(text):
    """FNV-1a over bytes; golden_files.cc has the same."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return f"{value:08x}"


def answer(source, given):
    try:
        template = environment().from_string(source)
        return digest(template.render(**TRUSTED, **given))
    except Exception:  # whatever a template raises
        return "error"


def main():
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
