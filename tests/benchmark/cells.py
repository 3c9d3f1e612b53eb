#!/usr/bin/env python3
"""Simulates many cells (a verifier with its coordinator and drafters) behind a balancer, with
failures, and says how many a traffic needs.

    tests/benchmark/cells.py --cells 1000 --model 8b-h200

Discrete events on a simulated clock. The costs of a pass are measured ones (COSTS names the
measurement); traffic and failures are assumptions, which the arguments change. A cell runs rounds:
in each, every running text gets `tau` tokens, and the round takes as long as a pass over the rows of
all texts. Prompts are computed in chunks that share passes with rounds. Texts that wait fill a queue
of bounded length; what does not fit is refused. A cell that fails loses its running texts, whose
clients resume them in other cells: prompt and tokens are computed again there.
"""

import argparse
import dataclasses
import heapq
import itertools
import json
import math
import random
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Costs:
    source: str
    rows_ms: tuple  # ((rows, ms), ...) of a pass, ascending
    tau: float      # emitted tokens per verification
    nodes: int      # tree nodes per text and pass, root included
    places: int     # texts that run at a time

    def pass_ms(self, rows: float) -> float:
        """Between two measurements linear, beyond the last one in proportion to the last step."""
        points = self.rows_ms
        for (low, low_ms), (high, high_ms) in itertools.pairwise(points):
            if rows <= high:
                return low_ms + (high_ms - low_ms) * max(0, rows - low) / (high - low)
        (low, low_ms), (high, high_ms) = points[-2:]
        return high_ms + (rows - high) * (high_ms - low_ms) / (high - low)


@dataclasses.dataclass
class Text:
    arrived: float
    prompt: int
    left: float               # tokens to be emitted
    done: float = 0           # emitted ones
    first_token: float | None = None
    resumed: int = 0


class Cell:
    """Running and waiting texts of one verifier."""

    CHUNK = 512  # rows of prompts in a pass

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self.running: list[Text] = []
        self.waiting: list[Text] = []
        self.to_compute: dict[int, float] = {}  # id of text -> tokens whose K/V is missing
        self.up, self.busy, self.generation = True, False, 0
        self.passes = 0
        self.tokens = self.busy_ms = 0.0

    @property
    def load(self) -> int:
        return len(self.running) + len(self.waiting)

    def take(self, text: Text) -> None:
        self.waiting.append(text)

    def begin_pass(self) -> float | None:
        """Milliseconds of the next pass; None: there is nothing to do."""
        while self.waiting and len(self.running) < self.costs.places:
            text = self.waiting.pop(0)
            self.running.append(text)
            self.to_compute[id(text)] = text.prompt + text.done
        if not self.running:
            return None
        room, rows = float(self.CHUNK), 0.0
        self.drafting: list[Text] = []
        for text in self.running:
            missing = self.to_compute[id(text)]
            if missing > 0:
                share = min(room, missing)
                self.to_compute[id(text)] -= share
                room -= share
                rows += share
            else:
                rows += self.costs.nodes
                self.drafting.append(text)
        self.passes += 1
        time = self.costs.pass_ms(max(1, rows))
        self.busy_ms += time
        return time

    def end_pass(self, now: float) -> list[Any]:
        """The texts that have ended."""
        ended = []
        for text in self.drafting:
            step = min(self.costs.tau, text.left)
            text.left -= step
            text.done += step
            self.tokens += step
            if text.first_token is None:
                text.first_token = now
            if text.left <= 0:
                ended.append(text)
        for text in ended:
            self.running.remove(text)
            del self.to_compute[id(text)]
        return ended

    def fail(self) -> list[Any]:
        lost = self.running + self.waiting
        self.running, self.waiting, self.to_compute = [], [], {}
        self.up, self.busy = False, False
        self.generation += 1
        return lost


# Measurements: see the sources. Rows beyond the last point are extrapolated.
COSTS: dict[str, Costs] = {}


def cost(name: str, **fields: Any) -> None:
    COSTS[name] = Costs(**fields)


cost("8b-h200", tau=1, nodes=1, places=64,
     rows_ms=((1, 4.24), (16, 4.58), (64, 5.32), (128, 6.54), (256, 11.31), (1024, 41.2)),
     source="README.md: Qwen3-8B in bf16 on an H200, plain decoding; 1024 rows: its prompts of 1024")
cost("8b-h100", tau=1, nodes=1, places=64,
     rows_ms=((1, 5.84), (16, 6.21), (64, 6.70), (128, 7.72), (256, 11.73), (1024, 44.0)),
     source="README.md: Qwen3-8B in bf16 on an H100, plain decoding; 1024 rows: its prompts of 1024")
# Whole rounds of one to eight sessions, so nothing is to be added for a round.
cost("135m-cpu", tau=1, nodes=1, places=8,
     rows_ms=((1, 3.02), (2, 3.88), (4, 5.63), (8, 10.09), (512, 295)),
     source="README.md: sessions.py, the default model in int4 on two cores with AMX, plain "
            "decoding; 512 rows: its prompt of 1,600 tokens in 921 ms")


class Fleet:
    def __init__(self, options: argparse.Namespace, costs: Costs) -> None:
        self.options, self.costs = options, costs
        self.random = random.Random(options.seed)
        self.cells = [Cell(costs) for _ in range(options.cells)]
        self.events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self.order = itertools.count()
        self.now = 0.0  # ms
        self.finished: list[tuple[Text, float]] = []
        self.refused = self.resumed = self.failures = 0

    def at(self, time: float, action: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(self.events, (time, next(self.order), action, arguments))

    def run(self) -> None:
        horizon = self.options.seconds * 1e3
        self.at(0, self.arrive)
        if self.options.mtbf_hours > 0:
            for cell in self.cells:
                self.at(self.time_to_failure(), self.fail, cell)
        while self.events and self.events[0][0] <= horizon:
            self.now, _, action, arguments = heapq.heappop(self.events)
            action(*arguments)

    def time_to_failure(self) -> float:
        return self.now + self.random.expovariate(1 / (self.options.mtbf_hours * 3.6e6))

    def arrive(self) -> None:
        self.at(self.now + self.random.expovariate(self.options.rate / 1e3), self.arrive)
        length = self.random.expovariate
        self.place(Text(self.now, 1 + int(length(1 / self.options.prompt)),
                        1 + int(length(1 / self.options.output))))

    def place(self, text: Text) -> None:
        """Two cells are drawn and the emptier one gets the text, as balancers do."""
        draws = [cell for cell in self.random.choices(self.cells, k=2) if cell.up]
        if not draws:
            draws = [cell for cell in self.random.choices(self.cells, k=8) if cell.up]
        if not draws or (best := min(draws, key=lambda cell: cell.load)).load >= \
                self.costs.places * (1 + self.options.queue):
            self.refused += 1
            return
        best.take(text)
        if not best.busy:
            self.next_pass(best)

    def next_pass(self, cell: Cell) -> None:
        time = cell.begin_pass()
        cell.busy = time is not None
        if time is not None:
            self.at(self.now + time + self.options.round_ms, self.end_pass, cell, cell.generation)

    def end_pass(self, cell: Cell, generation: int) -> None:
        if generation != cell.generation:
            return  # it failed meanwhile
        for text in cell.end_pass(self.now):
            self.finished.append((text, self.now))
        self.next_pass(cell)

    def fail(self, cell: Cell) -> None:
        self.failures += 1
        for text in cell.fail():
            text.resumed += 1
            self.resumed += 1
            self.at(self.now + self.options.notice_ms, self.place, text)
        self.at(self.now + self.options.repair_s * 1e3, self.repair, cell)

    def repair(self, cell: Cell) -> None:
        cell.up = True
        self.at(self.time_to_failure(), self.fail, cell)

    def report(self) -> dict[str, Any]:
        seconds = self.options.seconds

        def percentile(values: list[float], share: float) -> float:
            values = sorted(values)
            return values[min(len(values) - 1, int(share * len(values)))] if values else math.nan
        first = [text.first_token - text.arrived for text, _ in self.finished
                 if text.first_token is not None]
        pace = [(end - text.first_token) / max(1, text.done - self.costs.tau)
                for text, end in self.finished
                if text.first_token is not None and text.done > self.costs.tau]
        moved = [text for text, _ in self.finished if text.resumed]
        return {
            "cells": self.options.cells, "requests_per_s": self.options.rate,
            "finished": len(self.finished), "refused": self.refused,
            "tokens_per_s": round(sum(cell.tokens for cell in self.cells) / seconds, 1),
            "busy": round(sum(cell.busy_ms for cell in self.cells)
                          / (1e3 * seconds * len(self.cells)), 3),
            "rounds_per_s_and_cell": round(sum(cell.passes for cell in self.cells)
                                           / seconds / len(self.cells), 1),
            "first_token_ms": {"p50": round(percentile(first, .5)), "p99": round(percentile(first, .99))},
            "token_ms": {"p50": round(percentile(pace, .5), 2), "p99": round(percentile(pace, .99), 2)},
            "failures": self.failures, "resumed": self.resumed, "moved_and_finished": len(moved),
        }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=sorted(COSTS), required=True)
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--rate", type=float, help="requests a second; default: --share of what "
                                                   "the cells can serve")
    parser.add_argument("--share", type=float, default=.6)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--prompt", type=float, default=500, help="mean tokens, exponential")
    parser.add_argument("--output", type=float, default=250)
    parser.add_argument("--queue", type=float, default=.5, help="of the places")
    parser.add_argument("--round-ms", type=float, default=.3, help="of a round outside the pass")
    parser.add_argument("--mtbf-hours", type=float, default=0, help="of a cell; 0: none fails")
    parser.add_argument("--repair-s", type=float, default=60)
    parser.add_argument("--notice-ms", type=float, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def capacity(costs: Costs, options: argparse.Namespace) -> float:
    """Requests a second of a cell whose places are all taken, by its costs alone."""
    passes = options.output / costs.tau
    share_of_prompt = options.prompt / (options.prompt + passes * costs.nodes)
    rows = costs.places * costs.nodes / max(1e-9, 1 - share_of_prompt)
    rows = min(rows, costs.places * costs.nodes + Cell.CHUNK)
    work = options.prompt + passes * costs.nodes
    return rows / (costs.pass_ms(rows) + options.round_ms) * 1e3 / work


def main() -> None:
    options = parse()
    costs = COSTS[options.model]
    if options.rate is None:
        options.rate = options.share * options.cells * capacity(costs, options)
    fleet = Fleet(options, costs)
    fleet.run()
    print(json.dumps({"model": options.model, "costs": costs.source} | fleet.report(), indent=1))


if __name__ == "__main__":
    main()
