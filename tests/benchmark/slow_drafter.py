#!/usr/bin/env python3
"""What a drafter that answers late costs: two coordinators on one verifier and
the same drafters, one of them with a third drafter behind a relay that delays,
take turns on the prompt suites.

    slow_drafter.py [--delay-ms 200] [--model FOLDER] [--suite chat,math]
                    [--limit 3] [--turns 3]

Needs a build (ESPALIER_BIN, or build/release/bin) and the default model, see
deploy/setup.sh. Prints tokens per second of each and their ratio.
"""

import argparse
import json
import pathlib
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "deploy"))
from live_cluster import BIN, Relay, Services  # noqa: E402

DEFAULT_MODEL = pathlib.Path.home() / ".cache/espalier/models/smollm2-135m-instruct"


def flags() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--delay-ms", type=float, default=200)
    p.add_argument("--model", type=pathlib.Path, default=DEFAULT_MODEL)
    p.add_argument("--suite", default="chat,math")
    p.add_argument("--limit", type=int, default=3)
    p.add_argument("--turns", type=int, default=3)
    return p.parse_args()


def start_peers(services: Services, args: argparse.Namespace) -> dict[str, Any]:
    """The verifier and three drafters; their addresses, the slow one last."""
    services.start_service("verifier", f'engine {{ model: "{args.model}" }}')
    services.start_drafter("lookup", "prompt_lookup", {}, args.model)
    for head in ("chat", "math"):
        services.start_drafter(head, "eagle", {"model": args.model / "drafters" / head}, args.model)
    for name in ("verifier", "lookup", "chat", "math"):
        services.await_serving(name)
    relay = Relay(f"{services.folder}/slow.sock", f"{services.folder}/math.sock")
    relay.latency_s = args.delay_ms / 1000
    return {"lookup": services.address("lookup"), "chat": services.address("chat"),
            "math": relay.address}


def start_coordinator(services: Services, verifier: str, drafters: Mapping[str, str],
                      args: argparse.Namespace) -> str:
    lines = [f'model: "{args.model}"', f'verifier: "{verifier}"']
    lines += [f'drafters {{ name: "{name}" address: "{address}" }}'
              for name, address in drafters.items()]
    services.start_service("coordinator", "\n".join(lines))
    services.await_serving("coordinator")
    return services.address("coordinator")


def measure(address: str, args: argparse.Namespace) -> list[Any]:
    """Tokens per second of each suite in one turn."""
    out = subprocess.run(
        [BIN / "espalier", "bench", "--address", address, "--suite", args.suite, "--limit",
         str(args.limit), "--max-tokens", "64", "--modes", "budgeted", "--json"],
        check=True, capture_output=True, text=True).stdout
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return [row["tokens_per_s"] for row in rows]


def main() -> None:
    args = flags()
    peers, with_slow = Services(), Services()
    try:
        drafters = start_peers(peers, args)
        verifier = peers.address("verifier")
        fast = {name: drafters[name] for name in ("lookup", "chat")}
        modes = {"two drafters": start_coordinator(peers, verifier, fast, args),
                 "and a slow one": start_coordinator(with_slow, verifier, drafters, args)}
        speeds: dict[str, list[float]] = {mode: [] for mode in modes}
        for turn in range(args.turns + 1):  # the first warms up
            for mode, address in modes.items():
                speed = measure(address, args)
                if turn > 0:
                    speeds[mode] += speed
        # Suites and turns weigh alike: harmonic means, as of time per token.
        mean = {mode: len(s) / sum(1 / x for x in s) for mode, s in speeds.items()}
        for mode, value in mean.items():
            print(f"{mode}: {value:.1f} tokens/s")
        print(f"ratio: {mean['and a slow one'] / mean['two drafters']:.3f}")
    finally:
        with_slow.close()
        peers.close()


if __name__ == "__main__":
    main()
