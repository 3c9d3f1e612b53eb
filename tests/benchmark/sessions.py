#!/usr/bin/env python3
"""Requests beside each other, of one served model; takes some minutes.

  tests/benchmark/sessions.py [--rounds N] [--modes A,B] [--parts 1,2,3,4] [SERVE FLAGS]

1. Throughput and tau with 1, 2, 4 and 8 sessions: tau must not fall when sessions
   share a pass, as a session's text and drafts do not depend on the others. (The
   strategy `budgeted` drafts less under load by design; its tau falls.)
2. Throughput with 8 sessions whose prompts of some 1,500 tokens begin alike, and
   with as many that do not.
3. Milliseconds to the first token of a short request: alone, and while a prompt of
   some 1,500 tokens is computed.
4. Processor time of the server, `budgeted` beside plain decoding in turns, with 3
   and 8 sessions, at T = 0 and T = 1.

The modes of `espalier load` take turns, but in part 2, where each turn shares
nothing with others. SERVE FLAGS go to `espalier serve`, for
instance `--set verifier.threads=1`. Exits with 1 if a fixed mode's tau falls by
more than 2 %. Standard library only.
"""
import argparse
import contextlib
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

REPO = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("ESPALIER_BIN", REPO / "build/release/bin"))
LONG_TEXT = (REPO / "tests/benchmark/quality.txt").read_text()[:6500]  # some 1,500 tokens
SESSIONS = [1, 2, 4, 8]
ALLOWED_LOSS = 0.02
PROCESSOR_TURNS = 3
QUESTIONS = ["What is it about?", "Name three terms.", "Who is it for?", "Shorten it.",
             "What is measured?", "What is missing?", "Translate a line.", "Give it a title."]


def run(*words: object) -> str:
    done = subprocess.run([BIN / "espalier", *map(str, words)], capture_output=True,
                          text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words[:2]))}: {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def served(folder: pathlib.Path, flags: Sequence[str],
           espalier: str | pathlib.Path = BIN / "espalier") -> Iterator[tuple[str, int]]:
    """The address and the process of a server."""
    address = f"unix:{folder}/serve.sock"
    with open(folder / "serve.log", "wb") as log:
        server = subprocess.Popen([espalier, "serve", "--set",
                                   f"server.listen={address}", *flags],
                                  stdout=log, stderr=subprocess.STDOUT)
    try:
        while b"info serving" not in (folder / "serve.log").read_bytes():
            if server.poll() is not None:
                raise SystemExit((folder / "serve.log").read_text())
            time.sleep(0.1)
        yield address, server.pid
    finally:
        server.terminate()
        server.wait()


def load(address: str, sessions: int, modes: str, *flags: object,
         temperature: float = 0) -> list[Any]:
    """The rows of `espalier load`."""
    out = run("load", "--json", "--address", address, "--concurrency", sessions,
              "--modes", modes, "--temperature", temperature, *flags)
    rows = [json.loads(line) for line in out.splitlines()]
    for row in rows:
        if row["failed"] or row["refused"]:
            raise SystemExit(f"requests failed: {row}")
    return rows


def print_row(label: str, row: Any) -> None:
    print(f"{label:<28}{row['mode']:<18}{row['tokens_per_s']:>9.1f} tokens/s   "
          f"tau {row['tau']:.3f}   first token p50 {row['first_token_ms']['p50']:.0f} ms",
          flush=True)


def by_sessions(address: str, modes: str, requests: int) -> list[Any]:
    """Prints the first table; returns the modes whose tau fell."""
    taus: dict[str, list[float]] = {}
    for sessions in SESSIONS:
        for row in load(address, sessions, modes, "--suite", "chat,math", "--requests",
                        requests, "--max-tokens", 96):
            print_row(f"{sessions} sessions", row)
            taus.setdefault(row["mode"], []).append(row["tau"])
    return [mode for mode, seen in taus.items()
            if mode != "budgeted" and min(seen) < (1 - ALLOWED_LOSS) * seen[0]]


def shared_prompt(address: str, modes: str, folder: pathlib.Path, requests: int) -> None:
    for name, before in (("alike", ""), ("apart", "Copy {} of a text.\n")):
        prompts = folder / f"{name}.jsonl"
        with open(prompts, "w") as out:
            for i, question in enumerate(QUESTIONS):
                text = f"{before.format(i)}{LONG_TEXT}\n\n{question}"
                out.write(json.dumps({"id": f"{name}-{i}", "chat": text}) + "\n")
        for row in load(address, 8, modes, "--prompts", prompts, "--requests", requests,
                        "--turns", 1, "--max-tokens", 32):
            print_row(f"8 long prompts, {name}", row)


def first_token_ms(address: str, text: str, salt: str) -> float:
    answer = json.loads(run("generate", "--address", address, "--json", "--chat", text,
                            "--max-tokens", 2, "--cache-salt", salt))
    return answer["timing"]["time_to_first_token_ms"]


def beside_a_long_prompt(address: str, rounds: int) -> None:
    alone, beside, long = [], [], []
    for i in range(rounds):
        alone.append(first_token_ms(address, "Hello", f"a{i}"))
        command = [str(BIN / "espalier"), "generate", "--address", address, "--json", "--chat",
                   LONG_TEXT, "--max-tokens", "2", "--cache-salt", f"l{i}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as prefilling:
            time.sleep(0.1)  # the prompt's first chunk runs
            beside.append(first_token_ms(address, "Hello", f"b{i}"))
            still_running = prefilling.poll() is None
            out, _ = prefilling.communicate()
        long.append(json.loads(out)["timing"]["time_to_first_token_ms"])
        if not still_running:
            beside.pop()  # it was not beside it
    for label, times in (("alone", alone), ("beside a long prompt", beside),
                         ("the long prompt itself", long)):
        if times:
            print(f"first token, {label:<24} median {statistics.median(times):7.1f} ms, "
                  f"worst {max(times):7.1f} ms, {len(times)} requests", flush=True)


def processor_seconds(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # utime, stime


def processor_time(address: str, pid: int, requests: int) -> None:
    def seconds(mode: str, sessions: int, temperature: float) -> float:
        before = processor_seconds(pid)  # the modes get the same requests and answers
        load(address, sessions, mode, "--suite", "chat,math", "--requests", requests,
             "--turns", 1, temperature=temperature)
        return processor_seconds(pid) - before

    seconds("plain", 8, 0)  # both find the prompts cached
    for temperature, sessions in itertools.product((0, 1), (3, 8)):
        turns = [seconds("budgeted", sessions, temperature) /
                 seconds("plain", sessions, temperature) for _ in range(PROCESSOR_TURNS)]
        print(f"T = {temperature}, {sessions} sessions: {statistics.median(turns):.3f} times the "
              f"processor time of plain decoding ({min(turns):.3f} to {max(turns):.3f})",
              flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12, help="of the third part")
    parser.add_argument("--requests", type=int, default=24, help="per mode and row")
    parser.add_argument("--modes", default="plain,single:chat@4,budgeted")
    parser.add_argument("--parts", default="1,2,3,4")
    args, flags = parser.parse_known_args()
    with tempfile.TemporaryDirectory(prefix="espalier-") as name:
        folder = pathlib.Path(name)
        with served(folder, flags) as (address, pid):
            fallen = []
            if "1" in args.parts:
                fallen = by_sessions(address, args.modes, args.requests)
            if "2" in args.parts:
                shared_prompt(address, args.modes, folder, args.requests)
            if "3" in args.parts:
                beside_a_long_prompt(address, args.rounds)
            if "4" in args.parts:
                processor_time(address, pid, args.requests)
    for mode in fallen:
        print(f"tau of {mode} fell when sessions shared passes")
    sys.exit(1 if fallen else 0)


if __name__ == "__main__":
    main()
