#!/usr/bin/env python3
"""Answers after fresh starts of `espalier serve` or of a cluster, beside plain decoding.

    starts.py BIN/espalier [--starts 6] [--answers 20] [--tokens 128]
              [--temperature 0,1] [--busy 0] [--noise] [--cluster]

For each start: a server (--cluster: the processes of deploy/cluster.sh), then prompts of the suites
in turn, each with speculation and without, the two sides in turns. Prints how many times as fast as
plain decoding the first answer, the worst one and all together are, by suite too, and what the
server itself says that it won (balance_ms).
--busy N runs N endless loops beside it, from before the start on. --noise decodes plainly on both
sides: what the machine alone makes of first and worst answers.
"""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import sessions

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
SUITES = DEPLOY / "suites"
NAMES = ("chat", "math", "code", "summarise")


Row = tuple[str, float, float, float]  # suite, ms, plain ms, balance_ms


def prompts() -> list[tuple[str, str]]:
    """(suite, prompt), one of each suite in turn."""
    lists = []
    for name in NAMES:
        with open(SUITES / f"{name}.jsonl", encoding="utf-8") as lines:
            lists.append([(name, json.loads(line)["chat"]) for line in lines])
    return [p for group in zip(*lists) for p in group]


class Server:
    """Something at `address` that answers."""

    def __init__(self, espalier: str, address: str) -> None:
        self.espalier, self.address = espalier, address

    def answer(self, prompt: str, tokens: int, temperature: float,
               flags: Sequence[str] = ()) -> dict[str, Any]:
        command = [self.espalier, "generate", "--address", self.address, "--json",
                   "--chat", prompt, "--max-tokens", str(tokens),
                   "--temperature", str(temperature), "--seed", "1", *flags]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return json.loads(done.stdout)


@contextlib.contextmanager
def served(espalier: str) -> Iterator[Server]:
    with (tempfile.TemporaryDirectory() as folder,
          sessions.served(pathlib.Path(folder), [], espalier) as (address, _)):
        yield Server(espalier, address)


@contextlib.contextmanager
def clustered(espalier: str) -> Iterator[Server]:
    def call(command: str) -> str:
        return subprocess.run([DEPLOY / "cluster.sh", command], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
    call("start")
    try:
        yield Server(espalier, call("address").strip())
    finally:
        call("stop")


def decode_ms(answer: dict[str, Any]) -> float:
    timing = answer["timing"]
    return timing["total_ms"] - timing["time_to_first_token_ms"]


def run_start(args: argparse.Namespace, temperature: float, turn: int) -> list[Any]:
    """Rows of (suite, ms with speculation, ms of plain decoding, balance_ms)."""
    rows = []
    every = prompts()
    chosen = itertools.islice(itertools.cycle(every[turn:] + every[:turn]), args.answers)
    with (clustered if args.cluster else served)(args.espalier) as server:
        for i, (suite, prompt) in enumerate(chosen):
            sides = {}
            for plain in ((False, True) if i % 2 == 0 else (True, False)):
                flags = ["--no-speculation"] if plain or args.noise else []
                sides[plain] = server.answer(prompt, args.tokens, temperature, flags)
            if sides[False]["token_ids"] != sides[True]["token_ids"]:
                sys.exit(f"the texts differ: {suite}: {prompt}")
            rows.append((suite, decode_ms(sides[False]), decode_ms(sides[True]),
                         sides[False]["spec_stats"]["balance_ms"]))
    return [row for row in rows if row[1] > 0]


def show(name: str, rows: list[Row]) -> None:
    if not rows:
        return
    fast, plain = sum(r[1] for r in rows), sum(r[2] for r in rows)
    print(f"{name}: {plain / fast:.2f} times as fast as plain; won {plain - fast:.0f} ms, "
          f"by the ledger {sum(r[3] for r in rows):.0f} ms", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("espalier")
    parser.add_argument("--starts", type=int, default=6)
    parser.add_argument("--answers", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--temperature", default="0,1")
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--noise", action="store_true")
    parser.add_argument("--cluster", action="store_true")
    args = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {args.busy} endless loops")
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
             for _ in range(args.busy)]
    try:
        for temperature in args.temperature.split(","):
            everything = []
            for start in range(args.starts):
                rows = run_start(args, temperature, 3 * start)
                ratios = [plain / fast for _, fast, plain, _ in rows]
                show(f"T = {temperature}, start {start}: first {ratios[0]:.2f}, worst "
                     f"{min(ratios):.2f}, all", rows)
                everything += rows
            for suite in NAMES:
                show(f"T = {temperature}, {suite}", [r for r in everything if r[0] == suite])
            show(f"T = {temperature}, all", everything)
    finally:
        for loop in loops:
            loop.terminate()


if __name__ == "__main__":
    main()
