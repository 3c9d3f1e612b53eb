#!/usr/bin/env python3
"""Wake-ups and processor time of a round, by thread of each process.

    wakeups.py BIN/espalier [--tokens 256] [--modes plain,single:lookup@4,single:chat@4] [--serve]

Starts the cluster of deploy/cluster.sh (--serve: one process), and for each mode asks for an answer
at T = 0 after one that warms up. A mode is "plain" or STRATEGY:DRAFTER@NODES. A wake-up is a voluntary switch of a thread, as /proc counts them;
threads with less than 0.05 a round are one line.
"""

import argparse
import contextlib
import pathlib
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

import sessions
import starts

PROMPT = "Write a function that returns the prime numbers up to n."
SELDOM = 0.05  # wake-ups a round


class Used(NamedTuple):
    wakeups: int
    ticks: int  # of 10 ms


def ours() -> Iterator[tuple[str, pathlib.Path]]:
    """Name and folder in /proc of each process of Espalier's services."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().decode().split("\0")
            program = pathlib.Path(words[0]).name
            if not program.startswith("espalier"):
                continue
            config = [pathlib.Path(word).stem for word in words[1:] if ".textproto" in word]
            yield " ".join([program.removeprefix("espalier-")] + config[:1]), folder


def used() -> dict[tuple[str, str, str], Used]:
    """By process, thread's name and thread."""
    counts = {}
    for process, folder in ours():
        for task in (folder / "task").iterdir():
            with contextlib.suppress(OSError):
                status = dict(line.split(":", 1) for line in
                              (task / "status").read_text().splitlines())
                times = (task / "stat").read_text().rsplit(")", 1)[1].split()
                counts[process, status["Name"].strip(), task.name] = Used(
                    int(status["voluntary_ctxt_switches"]), int(times[11]) + int(times[12]))
    return counts


def answer(args: argparse.Namespace, address: str, mode: str) -> dict[str, Any]:
    flags = ["--no-speculation"]
    if mode != "plain":
        strategy, drafter, nodes = mode.replace("@", ":").split(":")
        flags = ["--strategy", strategy, "--drafters", drafter, "--nodes", nodes]
    server = starts.Server(args.espalier, address)
    return server.answer(PROMPT, args.tokens, 0, flags)


def show(mode: str, rounds: int, spent: dict[tuple[str, str, str], Used]) -> None:
    total = sum(one.wakeups for one in spent.values()) / rounds
    print(f"\n{mode}: {rounds} rounds, {total:.1f} wake-ups a round")
    for (process, thread, _), one in sorted(spent.items(), key=lambda item: -item[1].wakeups):
        if one.wakeups / rounds >= SELDOM:
            print(f"  {process:24} {thread:16} {one.wakeups / rounds:6.2f} "
                  f"{10 * one.ticks / rounds:6.2f} ms")
    rest = [one for one in spent.values() if one.wakeups / rounds < SELDOM]
    print(f"  {'all other threads':41} {sum(one.wakeups for one in rest) / rounds:6.2f} "
          f"{10 * sum(one.ticks for one in rest) / rounds:6.2f} ms", flush=True)


def measure(args: argparse.Namespace, address: str) -> None:
    for mode in args.modes.split(","):
        answer(args, address, mode)
        before = used()
        rounds = answer(args, address, mode)["spec_stats"]["num_spec_steps"]
        after = used()
        show(mode, rounds, {key: Used(now.wakeups - before[key].wakeups,
                                      now.ticks - before[key].ticks)
                            for key, now in after.items() if key in before})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("espalier")
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--modes", default="plain,single:lookup@4,single:chat@4")
    parser.add_argument("--serve", action="store_true")
    args = parser.parse_args()
    if args.serve:
        with (tempfile.TemporaryDirectory() as folder,
              sessions.served(pathlib.Path(folder), [], args.espalier) as (address, _)):
            measure(args, address)
    else:
        with starts.clustered(args.espalier) as server:
            measure(args, server.address)


if __name__ == "__main__":
    main()
