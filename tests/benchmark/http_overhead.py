#!/usr/bin/env python3
"""What HTTP costs beside gRPC, of one served model; takes a minute.

  tests/benchmark/http_overhead.py [--rounds N] [SERVE FLAGS]

1. Milliseconds to the first token of a short chat, one at a time; most of the prompts
   are cached.
2. Tokens per second of 16 streams.

`espalier load` asks both ways, with the same code, prompts and seeds, and gets the same
texts; the two take turns. Decoding is plain, at temperature 0. SERVE FLAGS go to
`espalier serve`. Standard library only.
"""
import argparse
import json
import pathlib
import re
import statistics
import tempfile
from typing import Any

import sessions

STREAMS = 16
TEXTS = [f"Write {number} sentences about {thing}." for number in (3, 4, 5, 6)
         for thing in ("a river", "a bridge", "a clock", "a garden")]
PARTS = {"first token, ms": (1, 8 * len(TEXTS), 1), "tokens/s": (STREAMS, 2 * STREAMS, 96)}


def load(way: tuple[str, str], prompts: pathlib.Path, streams: int, requests: Any,
         tokens: int) -> dict[str, Any]:
    """The row of `espalier load`; `way`: its flag and value."""
    row = json.loads(sessions.run(
        "load", "--json", *way, "--prompts", prompts, "--concurrency", streams, "--requests",
        requests, "--max-tokens", tokens, "--turns", 1, "--modes", "plain", "--temperature", 0))
    if row["failed"] or row["refused"]:
        raise SystemExit(f"requests failed: {row}")
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    options, flags = parser.parse_known_args()
    seen: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prompts = folder / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"id": text, "chat": text}) + "\n"
                                   for text in TEXTS))
        with sessions.served(folder, ["--http-listen", "127.0.0.1:0", *flags]) as (address, _):
            url = re.search(r"OpenAI's API: (http://[^/]+)", (folder / "serve.log").read_text())
            assert url
            ways = {"gRPC": ("--address", address), "HTTP": ("--http", url[1])}
            for _ in range(options.rounds):
                for part, shape in PARTS.items():
                    for way, flag in ways.items():
                        row = load(flag, prompts, *shape)
                        seen.setdefault((part, way), []).append(
                            row["first_token_ms"]["p50"] if shape[0] == 1 else row["tokens_per_s"])
    for (part, way), values in sorted(seen.items()):
        print(f"{way} {part:<16} median {statistics.median(values):>8.2f}   "
              f"all {', '.join(f'{value:.2f}' for value in values)}")


if __name__ == "__main__":
    main()
