#!/usr/bin/env python3
"""Answers of a served model to 200 random JSON schemas, of what structured output
supports, are valid under them (the package jsonschema)."""

import concurrent.futures
import json
import os
import pathlib
import random
import unittest
import urllib.request
from typing import Any

import live_cluster
from live_cluster import BIN

try:
    import jsonschema
except ImportError:
    jsonschema = None

CACHE = pathlib.Path(os.environ.get("ESPALIER_CACHE") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME") or
                                  pathlib.Path.home() / ".cache") / "espalier")
MODEL = CACHE / "models/smollm2-135m-instruct"
COUNT = 200 if live_cluster.NIGHTLY else 50
NAMES = ["name", "age", "tags", "city", "kind", "score", "ok", "id", "unit", "parts"]


def leaf(pick: random.Random) -> Any:
    return pick.choice([
        lambda: {"type": "boolean"},
        lambda: {"type": "null"},
        lambda: {"type": "integer", "minimum": pick.randint(-50, 0), "maximum": pick.randint(1, 2000)},
        lambda: {"type": "integer", "exclusiveMinimum": 3, "maximum": 99, "multipleOf": 3},
        lambda: {"type": "number", "minimum": 0, "maximum": 9},
        lambda: {"enum": pick.sample(["red", "green", "blue", 1, 2.5, None, True], pick.randint(1, 4))},
        lambda: {"const": pick.choice(["fixed", 7, [1, "a"], {"k": False}])},
        lambda: {"type": "string", "pattern": pick.choice(["^[a-z]{2,6}$", "^[A-Z][a-z]{0,8}$", "^\\d{3}-\\d{2}$"])},
        lambda: {"type": "string", "format": pick.choice(["date", "time", "uuid", "ipv4"])},
        lambda: {"type": "string", "maxLength": 8, "title": "a text", "description": "a short one"},
        lambda: {"type": ["boolean", "null"]},
    ])()


def schema(pick: random.Random, depth: int) -> dict[str, Any]:
    if depth == 0 or pick.random() < 0.4:
        return leaf(pick)
    kind = pick.choice(["object", "object", "array", "anyOf", "tuple"])
    if kind == "object":
        names = pick.sample(NAMES, pick.randint(1, 4))
        return {"type": "object", "properties": {n: schema(pick, depth - 1) for n in names},
                "required": pick.sample(names, pick.randint(0, len(names))),
                "additionalProperties": False}
    if kind == "array":
        least = pick.randint(0, 2)
        return {"type": "array", "items": schema(pick, depth - 1), "minItems": least,
                "maxItems": least + pick.randint(0, 2)}
    if kind == "tuple":
        parts = [schema(pick, depth - 1) for _ in range(pick.randint(1, 3))]
        return {"type": "array", "prefixItems": parts, "items": False,
                "minItems": len(parts)}
    return {"anyOf": [schema(pick, depth - 1) for _ in range(pick.randint(2, 3))]}


def random_schema(seed: int) -> dict[str, Any]:
    pick = random.Random(seed)
    parts: dict[str, Any] = {"type": "object",
             "properties": {n: schema(pick, 2) for n in pick.sample(NAMES, pick.randint(1, 4))},
             "additionalProperties": False}
    parts["required"] = list(parts["properties"])
    if pick.random() < 0.3:
        parts["$defs"] = {"shared": schema(pick, 1)}
        parts["properties"]["shared"] = {"$ref": "#/$defs/shared"}
    return parts


class RandomSchemas(unittest.TestCase):
    def setUp(self) -> None:
        self.processes = live_cluster.Processes()
        self.addCleanup(self.processes.close)
        self.address = f"unix:{self.processes.folder}/serve.sock"
        self.processes.start("serve", BIN / "espalier", "serve", "--model", MODEL, "--set",
                             f"server.listen={self.address}", "--set", "server.metrics_listen=none")
        live_cluster.await_true(lambda: "info serving" in self.processes.log("serve"), "it serves")
        self.url = live_cluster.found(r"OpenAI's API: (http://127\.0\.0\.1:\d+/v1)",
                                      self.processes.log("serve"))[1]

    def answer(self, seed: int) -> tuple[Any, Any]:
        wanted = random_schema(seed)
        body = {
            "messages": [{"role": "user", "content": "Give me an example in JSON."}],
            "structured_outputs": {
                "json": wanted,
                # A small model may lay out white space for ever.
                "disable_any_whitespace": seed % 5 != 0},
            "temperature": seed % 3 / 2, "seed": seed, "max_tokens": 160}
        request = urllib.request.Request(
            f"{self.url}/chat/completions", data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as response:
            return wanted, json.load(response)["choices"][0]

    def test_answers_are_valid(self) -> None:
        complete = 0
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for seed, (wanted, answer) in enumerate(pool.map(self.answer, range(COUNT))):
                # At its limit of tokens, an answer is only the beginning of one.
                if answer["finish_reason"] != "stop":
                    continue
                complete += 1
                text = answer["message"]["content"]
                with self.subTest(seed=seed, schema=wanted, text=text):
                    jsonschema.Draft202012Validator(wanted).validate(json.loads(text))
        print(f"{complete} of {COUNT} answers were complete; all of these are valid")
        self.assertGreater(complete, 0.7 * COUNT)


if __name__ == "__main__":
    if jsonschema is None or not MODEL.exists():
        print("skipped: needs python3-jsonschema and the default model")
    else:
        unittest.main(verbosity=2)
