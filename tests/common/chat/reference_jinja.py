"""Jinja2 as transformers sets it up for chat templates: what the tests compare
with."""
import datetime
import functools
import json
import warnings
from typing import Any

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

NOW = datetime.datetime(2024, 7, 26, 12, tzinfo=datetime.timezone.utc)
TRUSTED = {"add_generation_prompt": True, "bos_token": "<s>",
           "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks what an assistant wrote; renders its body."""
    tags = {"generation"}

    def parse(self, parser: Any) -> Any:
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_render")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _render(self, caller: Any) -> Any:
        return caller()


def raise_exception(message: str) -> None:
    raise jinja2.exceptions.TemplateError(message)


def tojson(value: object, ensure_ascii: bool = False, indent: int | None = None,
           separators: tuple[str, str] | None = None, sort_keys: bool = False) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent,
                      separators=separators, sort_keys=sort_keys)


def environment() -> Any:
    result = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True,
        extensions=[Generation, jinja2.ext.loopcontrols])
    result.filters["tojson"] = tojson
    result.globals["raise_exception"] = raise_exception
    result.globals["strftime_now"] = NOW.strftime
    return result


# Python's compiler warns of random templates such as "1[0]".
warnings.simplefilter("ignore", SyntaxWarning)


@functools.lru_cache(maxsize=1)
def parsed(source: str) -> Any:
    return environment().from_string(source)


def render(source: str, trusted: Any, given: Any) -> tuple[str, None] | tuple[None, str]:
    """The text, and None; or None, and what was raised."""
    try:
        text = parsed(source).render(**given, **trusted)
        text.encode()
        return text, None
    except Exception as error:  # whatever a template raises
        return None, f"{type(error).__name__}: {error}"
