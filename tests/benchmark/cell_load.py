#!/usr/bin/env python3
"""Cells beside each other on one machine, and `espalier load` against all of them at once:

  tests/benchmark/cell_load.py [--cells 1,2,4] [--concurrency N] [--pace MS | --model PATH]

A cell is a verifier and a coordinator with prompt lookup in its process. With --pace it is a
target that needs no core for most of its MS milliseconds a pass, as one on a GPU
(paced_verifier, the character model): then cells should add up. With --model it is a real one on
the machine's cores, shared by the cells: then they should lose nothing. One `espalier load` for
each cell; the sum of their tokens/s, the worst cell's time to the first token, and the
processor time of the coordinators for each token (plain: for each round) and of the clients.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
from typing import Any

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests/deploy"))

import live_cluster  # noqa: E402
from live_cluster import BIN, CHAR_MODEL  # noqa: E402

PROMPTS = ["First Citizen:\n", "HAMLET:\n", "ROMEO:\n", "Good morrow, cousin.\n"]
TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Cells(live_cluster.Services):
    def __init__(self, count: int, options: argparse.Namespace) -> None:
        super().__init__()
        self.names = [str(number) for number in range(1, count + 1)]
        model = options.model or CHAR_MODEL
        if options.pace:
            os.environ["ESPALIER_PACE_MS"] = str(options.pace)
        for name in self.names:
            self.start_verifier(name, model, bool(options.pace))
            self.start_service(
                f"coordinator{name}", f'model: "{model}" verifier: '
                f'"{self.address("verifier" + name)}" '
                'drafters { name: "lookup" type: "prompt_lookup" } '
                f'core {{ max_running_requests: {options.concurrency} warm_up: false }}')
        for name in self.names:
            self.await_serving(f"coordinator{name}")

    def start_verifier(self, name: str, model: str | pathlib.Path, paced: bool) -> None:
        path = self.folder / f"cell{name}.textproto"
        path.write_text(f'server {{ listen: "{self.address("verifier" + name)}" }} '
                        f'engine {{ model: "{model}" threads: 1 max_batch_rows: 256 }}')
        program = "paced_verifier" if paced else "espalier-verifier"
        self.start(f"verifier{name}", BIN / program, "--config", path)

    def load(self, mode: str, options: argparse.Namespace) -> tuple[Any, Any, Any, Any, Any]:
        """One line of the table."""
        prompts = self.folder / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in PROMPTS))
        source = ["--suite", "chat,math"] if options.model else ["--prompts", prompts]
        before = {name: processor_seconds(self.process(f"coordinator{name}").pid)
                  for name in self.names}
        clients = [subprocess.Popen(
            [str(word) for word in (
                BIN / "espalier", "load", "--address", self.address(f"coordinator{name}"), *source,
                "--modes", mode, "--turns", 1, "--concurrency", options.concurrency,
                "--requests", options.requests, "--max-tokens", options.max_tokens, "--json")],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for name in self.names]
        rows = [json.loads(client.communicate()[0]) for client in clients]
        used = sum(processor_seconds(self.process(f"coordinator{name}").pid) - before[name]
                   for name in self.names)
        if bad := sum(row["failed"] + row["refused"] for row in rows):
            raise SystemExit(f"{bad} requests failed or were refused")
        tokens = self.tokens()
        return (sum(row["tokens_per_s"] for row in rows),
                statistics.mean(row["tau"] for row in rows),
                max(row["first_token_ms"]["p50"] for row in rows),
                max(row["first_token_ms"]["p99"] for row in rows), 1e6 * used / tokens)

    def tokens(self) -> float:
        """Emitted since the last call."""
        total = sum(float(line.split()[-1]) for name in self.names
                    for line in self.scrape(f"coordinator{name}").splitlines()
                    if line.startswith("espalier_generation_tokens_total"))
        new, self._seen = total - getattr(self, "_seen", 0), total
        return new


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default="1,2,4")
    parser.add_argument("--concurrency", type=int, default=8, help="requests of each cell")
    parser.add_argument("--requests", type=int, default=48, help="of each cell and mode")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--modes", default="plain,budgeted")
    parser.add_argument("--pace", type=float, default=0)
    parser.add_argument("--model")
    options = parser.parse_args()
    if bool(options.pace) == bool(options.model):
        parser.error("one of --pace and --model")
    print(f"{'cells':>6} {'mode':10}{'tokens/s':>10}{'tau':>6}{'first ms':>10}{'p99':>8}"
          f"{'coordinator us/token':>22}")
    for count in map(int, options.cells.split(",")):
        cells = Cells(count, options)
        try:
            for mode in options.modes.split(","):
                rate, tau, first, last, used = cells.load(mode, options)
                print(f"{count:6} {mode:10}{rate:10.0f}{tau:6.2f}{first:10.0f}{last:8.0f}"
                      f"{used:22.1f}", flush=True)
        finally:
            cells.close()


if __name__ == "__main__":
    main()
