"""Random conversations and random pieces of Jinja, by a grammar. The same seed
gives the same ones."""
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

TEXTS = ["", "Hi", "  two words\n", "Größe: 3 µm²", "ŉ ǆ ΑΣ ß İ", "🌳🌲", "a\tb",
         "\"quoted\" 'both'", "<b>&amp;</b>", "line one\nline two\r\nthree",
         "<think>\nhm\n</think>\n\nwell", "{\"a\": 1}", "\\n", "ЖАР птица",
         "日本語のテキスト", "e\u0301", "\u00a0x\u2003", "tool: x", "null"]
NUMBERS = [0, 1, -1, 2, 3, 7, 21.0, 1.0, 0.1, 0.5, 2.5, -2.5, 1e16, 1e-5, 123456789.125,
           16777217.5, 0.123456789, 2 ** 31, 2 ** 53 + 1, 2 ** 63 - 1, -2 ** 63,
           2 ** 64 - 1, 1e22, 5e-324, 1.7976931348623157e308]


class Values:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def json(self, depth: int = 2) -> dict[str, Any] | list[Any] | bool | float | str | None:
        rng = self.rng
        kinds = ["text", "number", "number", "bool", "none"]
        if depth > 0:
            kinds += ["list", "dict", "dict"]
        kind = rng.choice(kinds)
        if kind == "text":
            return rng.choice(TEXTS)
        if kind == "number":
            return rng.choice(NUMBERS)
        if kind == "bool":
            return rng.random() < 0.5
        if kind == "none":
            return None
        if kind == "list":
            return [self.json(depth - 1) for _ in range(rng.randrange(4))]
        return {rng.choice(["a", "b", "key", "größe", "items", "x y", "Z"]):
                self.json(depth - 1) for _ in range(rng.randrange(4))}

    def schema(self, depth: int = 2) -> dict[str, Any]:
        rng = self.rng
        kind = rng.choice(["string", "integer", "number", "boolean", "array",
                           "object"] if depth > 0 else ["string", "number"])
        schema: dict[str, Any] = {"type": kind}
        if rng.random() < 0.7:
            schema["description"] = rng.choice(TEXTS)
        if kind in ("integer", "number"):
            for bound in ("minimum", "maximum", "default"):
                if rng.random() < 0.5:
                    schema[bound] = rng.choice(NUMBERS)
        if kind == "string" and rng.random() < 0.3:
            schema["enum"] = rng.sample(TEXTS, 2)
        if kind == "boolean" and rng.random() < 0.5:
            schema["default"] = False
        if kind == "array":
            schema["items"] = self.schema(depth - 1)
        if kind == "object":
            schema["properties"] = {
                name: self.schema(depth - 1)
                for name in rng.sample(["a", "place", "größe", "limit"], 2)}
            schema["required"] = ["a"]
        if rng.random() < 0.1:
            schema["type"] = [kind, "null"]
        return schema

    def tool(self, name: str) -> dict[str, Any]:
        return {"type": "function", "function": {
            "name": name, "description": self.rng.choice(TEXTS[1:]),
            "parameters": {"type": "object", "properties": {
                "place": self.schema(), "limit": self.schema(0),
                "share": {"type": "number", "default": 1.0}},
                "required": ["place"]}}}

    def arguments(self) -> dict[str, Any]:
        names = self.rng.sample(["place", "limit", "share", "größe", "more"], 2)
        given = {name: self.json() for name in names}
        if self.rng.random() < 0.5:
            given["days"] = 21.0
        return given

    def conversation(self) -> dict[str, Any]:
        rng = self.rng
        messages: list[dict[str, Any]] = []
        if rng.random() < 0.6:
            messages.append({"role": "system", "content": self.content(0.1)})
        tools = [self.tool(name) for name in rng.sample(
            ["get_weather", "now", "count"], rng.randrange(3))]
        for turn in range(rng.randrange(1, 4)):
            messages.append({"role": "user", "content": self.content(0.2)})
            if turn > 0 and rng.random() < 0.3:
                break
            if tools and rng.random() < 0.6:
                messages += self.tool_turn()
            if rng.random() < 0.6:
                answer = {"role": "assistant", "content": rng.choice(TEXTS)}
                if rng.random() < 0.3:
                    answer["reasoning_content"] = rng.choice(TEXTS)
                messages.append(answer)
        if messages[-1]["role"] == "assistant":
            messages.append({"role": "user", "content": "And then?"})
        given: dict[str, Any] = {"messages": messages}
        if tools:
            given["tools"] = tools
        if rng.random() < 0.3:
            given["enable_thinking"] = rng.random() < 0.5
        return given

    def content(self, parts_chance: float) -> list[Any] | str:
        text = self.rng.choice(TEXTS)
        if self.rng.random() >= parts_chance:
            return text
        return [{"type": "text", "text": text},
                {"type": "text", "text": self.rng.choice(TEXTS)}]

    def tool_turn(self) -> list[Any]:
        name = "get_weather"
        call = {"id": "call00001", "type": "function",
                "function": {"name": name, "arguments": self.arguments()}}
        return [{"role": "assistant", "tool_calls": [call],
                 "content": self.rng.choice([None, None, "", "Let me look."])},
                {"role": "tool", "name": name, "tool_call_id": "call00001",
                 "content": self.rng.choice(TEXTS)}]


def literal(value: object) -> str:
    """A JSON value as an expression."""
    if isinstance(value, str):
        return "'" + (value.replace("\\", "\\\\").replace("'", "\\'")
                      .replace("\n", "\\n").replace("\r", "\\r")) + "'"
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}"
                               for k, v in value.items()) + "}"
    return repr(value)


METHODS = {
    "": ["upper()", "lower()", "title()", "capitalize()", "swapcase()",
         "casefold()", "strip()", "lstrip()", "rstrip()", "isupper()",
         "islower()", "istitle()", "isalpha()", "isdigit()", "isalnum()",
         "isspace()", "isnumeric()", "isdecimal()", "isidentifier()",
         "isprintable()", "isascii()", "splitlines()", "splitlines(true)",
         "split()", "items()|list", "keys()|list", "values()|list", "copy()",
         "expandtabs()", "expandtabs(3)"],
    "t": ["split({})", "rsplit({})", "strip({})", "lstrip({})", "rstrip({})",
          "find({})", "rfind({})", "index({})", "count({})", "startswith({})",
          "endswith({})", "partition({})", "rpartition({})", "join({})",
          "removeprefix({})", "removesuffix({})", "get({})", "format({})",
          "split({}, 1)", "rsplit({}, 1)", "zfill({})", "center({})",
          "ljust({}, '*')", "rjust({})", "replace({}, '_')",
          "replace('a', {})", "get({}, 5)"],
}
FILTERS = {
    "": ["upper", "lower", "title", "capitalize", "trim", "length", "string",
         "list", "first", "last", "tojson", "tojson(indent=2)",
         "tojson(ensure_ascii=true)", "tojson(sort_keys=true)",
         "tojson(separators=(',', ':'))", "int", "float", "abs", "round",
         "round(1)", "round(2, 'floor')", "round(1, 'ceil')", "sort",
         "sort(reverse=true)", "unique|list", "reverse|list", "sum", "min",
         "max", "dictsort", "dictsort(by='value')", "items|list", "join",
         "join(', ')", "indent", "indent(2, true)", "indent('> ', blank=true)",
         "safe", "escape", "e", "forceescape", "urlencode", "wordcount",
         "truncate(8)", "truncate(9, true)", "truncate(6, false, '', 0)",
         "batch(2)|list", "batch(3, 0)|list", "slice(2)|list", "default('d')",
         "default('d', true)", "d", "count", "center(12)", "filesizeformat",
         "map('upper')|list", "map('length')|list", "select|list",
         "select('string')|list", "reject('none')|list", "map('string')|join",
         "map(attribute='a')|list", "map(attribute='a', default=0)|list",
         "selectattr('a')|list", "selectattr('a', 'defined')|list",
         "rejectattr('a')|list", "groupby('a')", "sort(attribute='a')",
         "select('in', [1, 2, 'a'])|list", "sum(start=2)", "attr('a')",
         "reverse", "format(1)", "replace('a', 'ä')", "int(default=3)",
         "int(base=16)"],
    "t": ["default({})", "join({})", "replace({}, 'x')", "trim({})",
          "format({})"],
}
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float",
         "boolean", "true", "false", "mapping", "sequence", "iterable",
         "callable", "odd", "even", "lower", "upper", "divisibleby(2)",
         "divisibleby 3", "eq 1", "ne 'a'", "lt 2", "ge 0", "in [1, 'a']",
         "escaped", "equalto('a')", "sameas none", "filter", "test"]
SPECS = ["'{}'", "'{0} {0!r}'", "'{:>5}'", "'{:*^9}'", "'{:.2f}'", "'{:05d}'",
         "'{:,}'", "'{:x}'", "'{:e}'", "'{:.3}'", "'{:+}'", "'{:%}'", "'{:#o}'",
         "'{:_}'", "'{!s:>6}'"]
PERCENTS = ["'%s'", "'%r'", "'%d'", "'%5.1f'", "'%-6s|'", "'%x'", "'%g'", "'%e'",
            "'%05d'", "'%+d'", "'%c'", "'%%'", "'%.2s'", "'%i %s'"]


class Snippets:
    """Statements over the variables v, w, t (a text), l, d and n."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.values = Values(rng)
        self.names = ["v", "w", "t", "l", "d", "n", "y", "z", "missing"]

    def expression(self, depth: int = 3) -> str:
        rng = self.rng
        if depth == 0 or rng.random() < 0.15:
            if rng.random() < 0.6:
                return rng.choice(self.names)
            return literal(self.values.json(1))
        sub = lambda: self.expression(depth - 1)
        kind = rng.randrange(18)
        if kind == 0:
            op = rng.choice(["+", "-", "*", "/", "//", "%", "~", "+", "~"])
            return f"({sub()} {op} {sub()})"
        if kind == 1:
            op = rng.choice(["==", "!=", "<", "<=", ">", ">=", "in", "not in"])
            return f"({sub()} {op} {sub()})"
        if kind == 2:
            return f"({sub()} {rng.choice(['and', 'or'])} {sub()})"
        if kind == 3:
            return f"({rng.choice(['not ', '-', '+'])}{sub()})"
        if kind == 4:
            tail = f" else {sub()}" if rng.random() < 0.8 else ""
            return f"({sub()} if {sub()}{tail})"
        if kind in (5, 6):
            return f"({sub()})|{self.choice(FILTERS)}"
        if kind in (7, 8):
            return f"({sub()}).{self.choice(METHODS)}"
        if kind == 9:
            negation = rng.choice(["", "", "not "])
            return f"(({sub()}) is {negation}{rng.choice(TESTS)})"
        if kind == 10:
            bound = lambda: rng.choice(["", "", "0", "1", "-1", "2", "-3", "9"])
            step = rng.choice(["", ":", ":2", ":-1", ":-2"])
            # Jinja2 folds a slice of a constant, and then forgives its type.
            subject = rng.choice(self.names)
            return f"({subject})[{bound()}:{bound()}{step}]"
        if kind == 11:
            return f"({sub()})[{rng.choice(['0', '-1', '1', 'n', repr('a')])}]"
        if kind == 12:
            return f"({sub()}).{rng.choice(['a', 'b', 'key', 'items', 'größe'])}"
        if kind == 13:
            items = ", ".join(sub() for _ in range(rng.randrange(4)))
            return rng.choice([f"[{items}]", f"({items},)" if items else "()"])
        if kind == 14:
            return f"{{'a': {sub()}, 'b': {sub()}}}"
        if kind == 15:
            return f"{rng.choice(SPECS)}.format({sub()})"
        if kind == 16:
            return f"({rng.choice(PERCENTS)} % ({sub()},))"
        return rng.choice(["range(5)|list", f"range({sub()})|list",
                           f"dict(a={sub()})", f"({sub()})|string",
                           f"({sub()} ** 2)", f"range(7)[{sub()}]"])

    def choice(self, table: Mapping[str, Sequence[str]]) -> str:
        rng = self.rng
        if rng.random() < 0.6:
            return rng.choice(table[""])
        return rng.choice(table["t"]).format(self.expression(1))

    def statements(self, depth: int = 2) -> str:
        return "".join(self.statement(depth)
                       for _ in range(self.rng.randrange(1, 4)))

    def tag(self, text: str) -> str:
        left = self.rng.choice(["", "", "", "-", "+"])
        right = self.rng.choice(["", "", "", "-", "+"])
        return "{%" + left + " " + text + " " + right + "%}"

    def output(self) -> str:
        left, right = self.rng.choice(["", "-"]), self.rng.choice(["", "-"])
        return "{{" + left + " " + self.expression() + " " + right + "}}"

    def data(self) -> str:
        return self.rng.choice(["\n", " ", "  \n", "text", "\n\n  ", "; ", "x\n",
                                "{# note #}", "{#- note -#}\n", "{% raw %}{{ x"
                                " }}{% endraw %}", "\t{#+ c +#}\n"])

    def statement(self, depth: int) -> str:
        rng = self.rng
        if depth == 0 or rng.random() < 0.4:
            return rng.choice([self.output, self.data])()
        body = lambda: self.statements(depth - 1)
        # Jinja2 takes a variable of the context for undefined in all of a scope
        # that sets it and does not read it before; we look names up when they
        # are used.
        name = rng.choice(["y", "z"])
        kind = rng.randrange(9)
        if kind == 0:
            other = self.tag("else") + body() if rng.random() < 0.5 else ""
            more = (self.tag("elif " + self.expression(2)) + body()
                    if rng.random() < 0.3 else "")
            return (self.tag("if " + self.expression(2)) + body() + more + other
                    + self.tag("endif"))
        if kind == 1:
            return self.loop(body)
        if kind == 2:
            return self.tag(f"set {name} = {self.expression(2)}")
        if kind == 3:
            return self.tag(f"set {name}") + body() + self.tag("endset")
        if kind == 4:
            return (self.tag(f"macro m(p, q={self.expression(1)}, r='R')")
                    + "[{{ p }},{{ q }},{{ r }}{{ caller('c') if caller }}]"
                    + body() + self.tag("endmacro")
                    + "{{ m(" + rng.choice(["", "1", "1, 2", "1, r=3", "r=1, p=2",
                                            "1, 2, 3"]) + ") }}")
        if kind == 5:
            return (self.tag("set ns = namespace(a=1)")
                    + self.tag("for i in [1, 2, 3]")
                    + self.tag("set ns.a = ns.a + i") + self.tag("endfor")
                    + "{{ ns.a }}")
        if kind == 6:
            return (self.tag(f"with {name} = {self.expression(1)}") + body()
                    + self.tag("endwith"))
        if kind == 7:
            return (self.tag(f"filter {self.choice(FILTERS)}") + body()
                    + self.tag("endfilter"))
        return (self.tag("macro k()") + "<{{ caller(5) }}>" + self.tag("endmacro")
                + self.tag("call(u) k()") + "{{ u }}" + body()
                + self.tag("endcall"))

    def loop(self, body: Callable[[], str]) -> str:
        rng = self.rng
        target = rng.choice(["x", "x", "y", "a, b"])
        test = f" if {self.expression(1)}" if rng.random() < 0.2 else ""
        inside = rng.choice([
            "", "{{ loop.index }}", "{{ loop.first }}{{ loop.last }}",
            "{{ loop.revindex0 }}/{{ loop.length }}", "{{ loop.previtem }}",
            "{{ loop.nextitem|string }}", "{{ loop.cycle('o', 'e') }}",
            "{{ loop.changed(1) }}", "{{ loop.depth }}"])
        jump = rng.choice(["", "", self.tag("break"), self.tag("continue")])
        if jump and rng.random() < 0.7:
            jump = self.tag("if loop.index == 2") + jump + self.tag("endif")
        other = self.tag("else") + body() if rng.random() < 0.3 else ""
        return (self.tag(f"for {target} in {self.expression(2)}{test}") + inside
                + jump + body() + other + self.tag("endfor"))

    def template(self) -> tuple[Any, dict[str, Any]]:
        given = {"v": self.values.json(), "w": self.values.json(),
                 "t": self.rng.choice(TEXTS),
                 "l": [self.values.json(1) for _ in range(3)],
                 "d": {"a": self.values.json(1), "key": self.values.json(1)},
                 "n": self.rng.choice(NUMBERS)}
        return self.statements(), given
