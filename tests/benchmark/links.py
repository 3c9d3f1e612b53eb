#!/usr/bin/env python3
"""Bytes that cross each link of a cluster, with the default model and its drafters:

  tests/benchmark/links.py [--max-tokens N] [--temperature T]

One answer for each way of decoding. Each service is a process of its own, reached through a
relay that counts; framing of HTTP/2 is counted, that of TCP is not. `first`: bytes until the
first token; `round`: for each round after that; `token`: all, for each token of prompt and output.
"out" is away from the coordinator, to clients as well.
"""
import argparse
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests/deploy"))

import live_cluster  # noqa: E402
import stubs  # noqa: E402
from relay import Relay  # noqa: E402

MODEL = pathlib.Path(os.environ.get("ESPALIER_CACHE", pathlib.Path.home() / ".cache/espalier")
                     ) / "models/smollm2-135m-instruct"
DRAFTERS = {"lookup": ("prompt_lookup", {}),
            "chat": ("eagle", {"model": MODEL / "drafters/chat"}),
            "block": ("dflash", {"model": MODEL / "drafters/block"})}
WAYS = {"plain": [], **{name: [name] for name in DRAFTERS}, "all": list(DRAFTERS)}
PROMPT = "Summarise: " + (REPO / "tests/benchmark/quality.txt").read_text()[:1500]


class Counted(live_cluster.Services):
    """A cluster whose links are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.start_service("verifier", f'engine {{ model: "{MODEL}" threads: 1 }}')
        for name, (kind, options) in DRAFTERS.items():
            self.start_drafter(name, kind, options, MODEL)
        self.relays = {name: Relay(f"{self.folder}/{name}.relay", f"{self.folder}/{name}.sock")
                       for name in ("verifier", *DRAFTERS)}
        drafters = "".join(f' drafters {{ name: "{name}" address: "{self.relays[name].address}" }}'
                           for name in DRAFTERS)
        self.start_service("coordinator", f'model: "{MODEL}" verifier: '
                           f'"{self.relays["verifier"].address}"{drafters}',
                           ("core.warm_up=false", "core.draft_ahead=false"))
        self.relays["client"] = Relay(f"{self.folder}/client.relay",
                                      f"{self.folder}/coordinator.sock")
        self.await_serving("coordinator")

    def carried(self) -> dict[str, list[int]]:
        return {name: list(relay.carried) for name, relay in self.relays.items()}


def measure(cluster: Counted, stub: Any, pb: Any, drafters: Sequence[str],
            options: argparse.Namespace) -> tuple[int, int, int, dict[str, list[tuple[int, int]]]]:
    """(prompt tokens, tokens, rounds, {link: bytes until the first token, at the end})."""
    request = pb.GenerateRequest(
        prompt=PROMPT, max_tokens=options.max_tokens, temperature=options.temperature, seed=1,
        ignore_eos=True, speculation=pb.SpeculationOptions(
            enabled=bool(drafters), drafters=drafters, strategy="union"))
    before, first = cluster.carried(), None
    for message in stub.Generate(request):
        first = first or cluster.carried()
        summary = message.summary
    assert first
    after = cluster.carried()
    links = {name: [(first[name][way] - before[name][way], after[name][way] - first[name][way])
                    for way in (0, 1)] for name in before}
    return (summary.usage.prompt_tokens, summary.usage.completion_tokens,
            summary.spec_stats.num_spec_steps, links)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=0)
    options = parser.parse_args()
    stubs.make()
    import grpc
    from espalier.v1 import inference_pb2 as pb, inference_pb2_grpc
    cluster = Counted()
    try:
        channel = grpc.insecure_channel(cluster.relays["client"].address)
        stub = inference_pb2_grpc.InferenceStub(channel)
        measure(cluster, stub, pb, list(DRAFTERS), options)  # connects
        print(f"{'':8}{'':10}{'first out':>12}{'in':>10}{'round out':>12}{'in':>8}"
              f"{'token out':>12}{'in':>8}")
        for way, drafters in WAYS.items():
            prompt, tokens, rounds, links = measure(cluster, stub, pb, drafters, options)
            print(f"{way}: {prompt} + {tokens} tokens, {rounds} rounds")
            for name, (out, back) in links.items():
                if name == "client":
                    out, back = back, out
                if sum(out + back):
                    print(f"{'':8}{name:10}{out[0]:12}{back[0]:10}"
                          f"{out[1] / rounds:12.0f}{back[1] / rounds:8.0f}"
                          f"{sum(out) / (prompt + tokens):12.0f}"
                          f"{sum(back) / (prompt + tokens):8.0f}")
        channel.close()
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
