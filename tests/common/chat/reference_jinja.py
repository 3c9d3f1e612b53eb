"""Jinja2 as transformers sets it up for chat templates: what the tests compare
with."""
import datetime
import functools
import json
import warnings

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


# Python's compiler warns of random templates such as "1[0]".
warnings.simplefilter("ignore", SyntaxWarning)


@functools.lru_cache(maxsize=1)
def parsed(source):
    return environment().from_string(source)


def render(source, trusted, given):
    """The text, and None; or None, and what was raised."""
    try:
        text = parsed(source).render(**given, **trusted)
        text.encode()
        return text, None
    except Exception as error:  # whatever a template raises
        return None, f"{type(error).__name__}: {error}"
