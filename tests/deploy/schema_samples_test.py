#!/usr/bin/env python3
"""Random texts of the grammars of JSON schemas are valid under them, by the package
jsonschema: schemas of a fixed seed, of what clients' libraries write (pydantic, and
OpenAI's strict form), and reported ones. Tokens are drawn from the masks without a model."""

import enum
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import typing
import unittest
from typing import Any

from http_clients_test import CLIENTS

try:
    import jsonschema
except ImportError:
    jsonschema = None
try:
    import pydantic
except ImportError:
    pydantic = None

REPO = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("ESPALIER_BIN", REPO / "build/release/bin"))
SAMPLER = pathlib.Path(os.environ.get("ESPALIER_SAMPLER", BIN.parent / "tests/bin/sample_grammar"))
COUNT = int(os.environ.get("ESPALIER_SCHEMAS", "600"))
NAMES = ["a", "b", "name", "é", "q\"uote", "b\\s", "line\nend", "tags", "x-1"]
VALUES = ["red", "a\"b", "tab\t", "", "é", 1, 2.5, -3, 0, None, True, False, [1, "a"], {"k": [None]}]
PATTERNS = ["^[a-z]{2,4}$", "^a\"b$", "^\\\\x$", "^[^a]{1,3}$", "a|b", "^(ab|c)+$", "^\\d{3}-\\d{2}$",
            "^\\x41b$", "^\\S\\W\\D$", "^.{0,3}$", "^\\u00e9*$", "[\\s\\S]{2}", "^(?:x|y)?$"]
FORMATS = ["date", "time", "date-time", "uuid", "ipv4", "ipv6", "email", "hostname", "uri", "duration"]
LARGE = 10 ** 17


def bounds(pick: random.Random, least: str, most: str, low: int, high: int) -> dict[str, Any]:
    """Keywords `least` and `most`, or one, or none, with low <= least <= most <= high."""
    first = pick.randint(low, high)
    keywords: dict[str, Any] = {}
    if pick.random() < 0.6:
        keywords[least] = first
    if pick.random() < 0.6:
        keywords[most] = pick.randint(first, high)
    return keywords


def number(pick: random.Random) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": pick.choice(["integer", "number"])}
    low = pick.choice([pick.randint(-200, 200), pick.uniform(-3, 3), round(pick.uniform(-1, 1), 3),
                       pick.randint(-LARGE, LARGE)])
    high = low + pick.choice([0, 1, 0.5, pick.randint(1, 5000), 10 ** 12])
    if pick.random() < 0.7:
        schema[pick.choice(["minimum", "exclusiveMinimum"])] = low
    if pick.random() < 0.7:
        schema[pick.choice(["maximum", "exclusiveMaximum"])] = high
    if schema["type"] == "integer" and pick.random() < 0.3:
        schema["multipleOf"] = pick.choice([1, 2, 3, 5, 7, 10, 64, 100])
    if pick.random() < 0.2:
        del schema["type"]
    return schema


def text(pick: random.Random) -> dict[str, str]:
    schema = {"type": "string"}
    kind = pick.randint(0, 3)
    if kind == 0:
        schema.update(bounds(pick, "minLength", "maxLength", 0, 12))
    elif kind == 1:
        schema["pattern"] = pick.choice(PATTERNS)
        if pick.random() < 0.3:
            schema.update(bounds(pick, "minLength", "maxLength", 0, 6))
    elif kind == 2:
        schema["format"] = pick.choice(FORMATS)
    if pick.random() < 0.1:
        del schema["type"]
    return schema


def leaf(pick: random.Random) -> object:
    return pick.choice([
        lambda: number(pick), lambda: number(pick), lambda: text(pick), lambda: text(pick),
        lambda: {"type": pick.sample(["null", "boolean", "integer", "string", "array"], 2)},
        lambda: {"enum": pick.sample(VALUES, pick.randint(1, 5))},
        lambda: {"enum": pick.sample(VALUES, 6), "type": ["string", "number"], "minimum": 1, "maxLength": 2},
        lambda: {"const": pick.choice(VALUES)},
        lambda: pick.choice([True, {}, {"title": "t", "default": 3}]),
        lambda: {"$ref": pick.choice(["#/$defs/one", "#/$defs/two", "#/parts/deep"])},
        # What refers to itself without an array between has no meaning.
        lambda: {"type": "array", "items": {"$ref": pick.choice(["#", "#/parts/deep"])}, "maxItems": 2},
    ])()


def without_references(schema: Any) -> Any:
    if isinstance(schema, list):
        return [without_references(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: {"type": "null"} if name != "items" and isinstance(part, dict) and "$ref" in part
            else without_references(part) for name, part in schema.items() if name != "$ref"}


def tree(pick: random.Random, depth: int) -> Any:
    if depth == 0 or pick.random() < 0.25:
        return leaf(pick)
    part = lambda: tree(pick, depth - 1)  # noqa: E731
    kind = pick.choice(["object"] * 5 + ["array"] * 3 + ["anyOf", "oneOf", "allOf", "tuple", "map", "beside"])
    if kind == "object":
        names = pick.sample(NAMES, pick.randint(0, 4))
        schema: dict[str, Any] = {"type": "object", "properties": {n: part() for n in names},
                  "required": pick.sample(NAMES, pick.randint(0, 2)) if pick.random() < 0.3
                  else pick.sample(names, pick.randint(0, len(names)))}
        if pick.random() < 0.5:
            schema["additionalProperties"] = pick.choice([False, False, True, part()])
        if pick.random() < 0.2:
            schema.update(bounds(pick, "minProperties", "maxProperties", 0, 4))
        if pick.random() < 0.2:
            schema[pick.choice(["dependentRequired", "dependencies"])] = {pick.choice(NAMES): [pick.choice(NAMES)]}
        if pick.random() < 0.1:
            schema[pick.choice(["dependentSchemas", "dependencies"])] = {pick.choice(NAMES): part()}
        # jsonschema as Debian 12 has it (4.10) takes what additionalProperties allows for
        # unevaluated.
        if pick.random() < 0.1 and "additionalProperties" not in schema:
            schema["unevaluatedProperties"] = False
        return schema
    if kind == "array":
        schema = {"type": "array", **bounds(pick, "minItems", "maxItems", 0, 4)}
        if pick.random() < 0.8:
            schema["items"] = part()
        if pick.random() < 0.03:
            schema["uniqueItems"] = True
        return schema
    if kind == "tuple":
        schema = {"type": "array", "prefixItems": [part() for _ in range(pick.randint(1, 3))],
                  **bounds(pick, "minItems", "maxItems", 0, 5)}
        if pick.random() < 0.6:
            schema["items"] = pick.choice([False, part()])
        return schema
    if kind == "map":
        schema = {"type": "object"}
        if pick.random() < 0.5:
            schema["patternProperties"] = {pick.choice(PATTERNS): part()}
            schema["additionalProperties"] = pick.choice([False, part()])
        else:
            schema["additionalProperties"] = part()
            schema["propertyNames"] = pick.choice([text(pick), {"enum": ["k", "l", 3]}])
        if pick.random() < 0.3:
            schema.update(bounds(pick, "minProperties", "maxProperties", 0, 3))
        return schema
    if kind == "beside":
        base = part()
        return {**base, "anyOf": [part(), part()]} if isinstance(base, dict) else base
    return {kind: [part() for _ in range(pick.randint(1, 3))]}


def random_schema(seed: int) -> dict[str, Any]:
    pick = random.Random(seed)
    schema = tree(pick, 3)
    if isinstance(schema, bool) or "$ref" in schema:
        schema = {"type": "object", "properties": {"p": schema}}
    schema["$defs"] = {"one": without_references(tree(pick, 1)), "two": without_references(tree(pick, 2))}
    schema["parts"] = {"deep": {"type": ["array", "boolean"], "items": {"$ref": "#/$defs/two"}, "maxItems": 2}}
    return schema


class Sampler:
    def __init__(self) -> None:
        self.process = subprocess.Popen([SAMPLER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, encoding="utf-8")

    def __call__(self, kind: str, wanted: object, seed: int = 1, count: int = 10,
                 compact: bool = False) -> dict[str, Any]:
        asked = {"kind": kind, "text": wanted if isinstance(wanted, str) else json.dumps(wanted),
                 "seed": seed, "count": count, "compact": compact}
        assert self.process.stdin and self.process.stdout
        print(json.dumps(asked), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def has_bounded_space(answer: str) -> bool:
    """Between tokens: at most one blank, or one line end with an indentation."""
    without = re.sub(r'"(?:[^"\\]|\\.)*"', '""', answer, flags=re.DOTALL)
    return all(re.fullmatch(r" |\n(?: {0,64}|\t{1,16})", found) for found in re.findall(r"\s+", without)) \
        and without == without.strip()


class SchemaSamples(unittest.TestCase):
    sample: Sampler

    @classmethod
    def setUpClass(cls) -> None:
        cls.sample = Sampler()
        cls.addClassCleanup(cls.sample.close)

    def check(self, schema: Any, answer: dict[str, Any]) -> int:
        """All finished texts are valid; returns their number."""
        validator = jsonschema.Draft202012Validator(schema)
        for given in answer["texts"]:
            with self.subTest(schema=json.dumps(schema), text=given):
                self.assertTrue(has_bounded_space(given), "white space")
                validator.validate(json.loads(given))
                given.encode("utf-8")
                self.assertNotIn("\ufffd", given)
        return len(answer["texts"])

    def test_random_schemas(self) -> None:
        refused = texts = 0
        for seed in range(COUNT):
            schema = random_schema(seed)
            answer = self.sample("json_schema", schema, seed, compact=seed % 3 == 0)
            if "refused" in answer:
                refused += 1
                continue
            texts += self.check(schema, answer)
        print(f"{texts} texts of {COUNT - refused} schemas are valid; {refused} schemas are refused")
        self.assertLess(refused, 0.5 * COUNT)
        self.assertGreater(texts, 3 * (COUNT - refused))

    def test_reported_schemas_are_followed_or_refused(self) -> None:
        for schema in [
                {"type": "string", "minLength": 2, "maxLength": 6},
                {"type": "string", "pattern": "^a\"b$"},
                {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["b"]},
                {"required": ["b"]},
                {"minimum": 3}, {"maxLength": 2}, {"maxItems": 1},
                {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "null"}], "type": ["integer", "null"]}},
                {"type": "object", "dependencies": {"a": ["b"]}, "properties": {"a": {}, "b": {}}},
                {"type": "array", "minItems": 1, "items": {"type": "object", "anyOf": [
                    {"properties": {"name": {"enum": ["f"]}, "parameters": {"type": "object", "properties": {}}},
                     "required": ["name", "parameters"]},
                    {"properties": {"name": {"enum": ["g"]}, "parameters": {"$ref": "#/$defs/P"}},
                     "required": ["name", "parameters"]}]}, "$defs": {"P": {"type": "object", "properties": {
                         "x": {"type": "number"}}, "required": ["x"]}}}]:
            answer = self.sample("json_schema", schema, count=40)
            self.assertNotIn("refused", answer)
            self.assertGreater(self.check(schema, answer), 10, schema)
        for schema, path in [
                ({"$ref": "#/components/A", "components": {"A": {"type": "array", "uniqueItems": True}}},
                 "#/components/A.uniqueItems"),
                ({"$dynamicRef": "#a"}, "$dynamicRef"),
                ({"properties": {"a": {"items": {"contains": {}}}}}, "properties.a.items.contains"),
                ({"$defs": {"a": {"not": {}}}}, "$defs.a.not"),
                ({"type": "string", "pattern": "^([a-z]{0,30}[0-9]{0,30}){0,30}$"}, "pattern")]:
            answer = self.sample("json_schema", schema)
            self.assertIn(path + ":", answer.get("refused", ""), schema)

    def test_regexes(self) -> None:
        for regex, python in [("\\x41b", "Ab"), ("[^a]b?", "[^a]b?"), ("a|b+", "a|b+"), ("\\u{e9}\\cA", "é\x01"),
                              ("(?<n>x){2,3}", "x{2,3}"), ("[\\d-]{2}", "[0-9-]{2}"), ("\\$\\.", "\\$\\.")]:
            answer = self.sample("regex", regex, count=20)
            for given in answer["texts"]:
                self.assertIsNotNone(re.fullmatch(python, given, re.DOTALL), f"{regex}: {given!r}")
            self.assertTrue(answer["texts"], regex)

    def test_json_ends(self) -> None:
        tag = {"type": "structural_tag", "format": {"type": "tag", "begin": "<f>", "end": "</f>", "content": {
            "type": "json_schema", "json_schema": {"type": "object", "properties": {"a": {"type": "array"}},
                                                   "required": ["a"]}}}}
        for kind, wanted in [("json_object", ""), ("structural_tag", tag)]:
            answer = self.sample(kind, wanted, count=60)
            self.assertGreater(len(answer["texts"]), 10)
            for given in answer["texts"]:
                inner = given.removeprefix("<f>").removesuffix("</f>")
                self.assertIsInstance(json.loads(inner), dict)
                self.assertTrue(has_bounded_space(inner), given)

    def test_schemas_of_pydantic(self) -> None:
        if pydantic is None:
            self.skipTest("needs pydantic")
        for model in pydantic_models():
            for schema in [model.model_json_schema(), strict(model.model_json_schema())]:
                answer = self.sample("json_schema", schema, count=40)
                self.assertNotIn("refused", answer, schema)
                self.assertGreater(self.check(schema, answer), 5, schema)
                if schema.get("additionalProperties") is False:
                    for given in answer["texts"]:
                        model.model_validate_json(given)


def pydantic_models() -> list[Any]:
    class Colour(enum.Enum):
        RED = "red"
        BLUE = "blue"

    class Point(pydantic.BaseModel):
        x: float
        y: typing.Optional[int] = None

    class Cat(pydantic.BaseModel):
        kind: typing.Literal["cat"]
        lives: int = pydantic.Field(ge=0, le=9, description="how many")

    class Dog(pydantic.BaseModel):
        kind: typing.Literal["dog"]
        name: str = pydantic.Field(min_length=1, max_length=8)

    class Node(pydantic.BaseModel):
        value: int
        next: typing.Optional["Node"] = None

    class All(pydantic.BaseModel):
        """What models commonly have."""
        colour: Colour
        pet: typing.Union[Cat, Dog] = pydantic.Field(discriminator="kind")
        either: typing.Union[int, bool, None]
        points: typing.List[Point] = pydantic.Field(max_length=2)
        counts: typing.Dict[str, int]
        pair: typing.Tuple[int, str]
        literal: typing.Literal["a", 1, None] = "a"
        code: str = pydantic.Field(pattern="^[A-Z]{2}[0-9]{2}$", examples=["AB12"])
        short: str = pydantic.Field(default="", pattern="^[a-z]+$", max_length=4, title="T")
        amount: typing.Annotated[float, pydantic.Field(gt=0, lt=10)] = 1.0

    return [Point, Cat, Node, All]


def strict(schema: Any) -> Any:
    """As openai's library makes it for parse()."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {name: strict(part) for name, part in schema.items() if name != "default"}
    if schema.get("type") == "object" and "properties" in schema:
        schema["additionalProperties"] = False
        schema["required"] = list(schema["properties"])
    return schema


if __name__ == "__main__":
    if pydantic is None and CLIENTS.exists() and sys.executable != str(CLIENTS):
        os.execv(CLIENTS, [str(CLIENTS), *sys.argv])
    if jsonschema is None:
        print("skipped: needs python3-jsonschema")
    else:
        unittest.main(verbosity=2)
