"""The suite `round` of tests/device/run.sh: texts with speculation against the same
without, equal, and how fast."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from published import serve_published
from serving import RANDOM, Client, Server, Services, options
from shapes import TINY, Network, Target, targets, write_shape
from stages import print_table

if TYPE_CHECKING:
    from suites import Suite

# Hit rates by depth whose expectation is the given tau (EAGLE, DFlash at 64 and
# 128 nodes as published).
RATES = {"4": "0.75", "7": "0.865", "9.5": "0.91"}
LOOKUP = 'drafters { name: "lookup" type: "prompt_lookup" }'


@dataclasses.dataclass(frozen=True)
class Known:
    """A target of random weights, and its plain texts after a prompt."""
    name: str
    folder: pathlib.Path
    prompt: list
    plain: dict  # by temperature: answers
    texts: pathlib.Path  # for the drafter `replay`


def run(suite: Suite) -> None:
    try:
        first, *others = targets(suite.emulated)
        known = plain_texts(suite, first)
        if known is not None:
            for part, of in ((combs, ()), (networks, (first,)), (ways, (first,)), (deaths, ()),
                             (full_pools, ())):
                if has_time(suite, part.__name__):
                    part(suite, known, *of)
        for target in others:
            if has_time(suite, target.name):
                other = plain_texts(suite, target)
                if other is not None:
                    networks(suite, other, target)
        for target in (first, *others):
            serve_published(suite, target, generate)
    finally:
        print_table(suite.rows)


def has_time(suite: Suite, what: str) -> bool:
    """Less than this is too little for a server to start and answer."""
    if suite.left() >= 20:
        return True
    suite.add(what, True, says="no time left")
    return False


def plain_texts(suite: Suite, target: Target) -> Known | None:
    folder = write_shape(suite.work / target.name.replace(" ", "-"), target.config)
    prompt = [7 * i % 50 + 1 for i in range(40 if suite.emulated else 1024)]
    plain: dict[str, dict[str, Any]] = {}
    with Server(suite, folder, LOOKUP) as server:
        for temperature in ("0", "1"):
            answer = generate(
                suite, server, f"{target.name}, plain, temperature {temperature}", prompt,
                24 if suite.emulated else 512, "--no-speculation", "--temperature", temperature)
            if answer is None:
                return None
            plain[temperature] = answer
    texts = folder / "texts"
    texts.write_text("".join(
        " ".join(map(str, prompt + answer["token_ids"])) + "\n" for answer in plain.values()))
    return Known(target.name, folder, prompt, plain, texts)


def generate(suite: Suite, client: Client, name: str, prompt: list[int],
             tokens: int, *flags: str,
             wanted: dict[str, Any] | None = None) -> dict[str, Any] | None:
    """A row of the table. wanted: the answer with the same text."""
    answer, stages = client.measure(
        lambda: client.generate(prompt, tokens, "--seed", "5", *flags))
    if answer is None:
        suite.add(name, False)
        return None
    same = wanted is None or answer["token_ids"] == wanted["token_ids"]
    if wanted is not None:
        stages = {"text": "equal" if same else "DIFFERS"} | stages
    suite.add(name, same, tau=round(answer["spec_stats"]["mean_acceptance_length"], 2),
              tokens_per_s=round(answer["timing"]["tokens_per_s"] or 0, 1), **stages)
    return answer


def replay_options(suite: Suite, known: Known, tau: str,
                   network: Network | None = None) -> dict[str, Any]:
    """Of trees that cost nothing, or of a network of random weights."""
    values = {"drafter": "comb", "texts": known.texts, "rates": RATES[tau]}
    if network is None:
        return values
    folder = write_shape(suite.work / f"{network.kind}-{known.name}".replace(" ", "-"),
                         network.config)
    return values | {"drafter": network.kind, "drafter.model": folder,
                     "drafter.device": suite.device, "drafter.random_weights": 1}


def replay(values: Mapping[str, object]) -> str:
    return f'drafters {{ name: "replay" type: "replay" {options(values)} }}'


def combs(suite: Suite, known: Known) -> None:
    for tau in ("4",) if suite.emulated else RATES:
        with Server(suite, known.folder, replay(replay_options(suite, known, tau))) as server:
            rounds_of(suite, server, known, f"comb, hits of tau {tau}")


def networks(suite: Suite, known: Known, target: Target) -> None:
    for network in target.networks:
        for tau in network.taus:
            values = replay_options(suite, known, tau, network)
            with Server(suite, known.folder, replay(values)) as server:
                rounds_of(suite, server, known, f"{network.kind}, hits of tau {tau}")


def rounds_of(suite: Suite, client: Client, known: Known, name: str,
              sizes: Sequence[int] | None = None) -> None:
    """Texts drafted by the drafter `replay` against the plain ones."""
    tokens = len(known.plain["0"]["token_ids"])
    client.generate(known.prompt, 2, "--seed", "5")  # computes the prompt
    for nodes in sizes or ((8,) if suite.emulated else (16, 64, 128)):
        for temperature, wanted in known.plain.items():
            generate(suite, client,
                     f"{known.name}, {name}, {nodes} nodes, temperature {temperature}",
                     known.prompt, tokens, "--temperature", temperature, "--nodes", str(nodes),
                     wanted=wanted)


def ways(suite: Suite, known: Known, target: Target) -> None:
    """The first network at the first of its hit rates, several sessions at once; and in a
    node, where features stay on the GPU, and in a process of its own, to which they are
    sent."""
    network = target.networks[0]
    tau = network.taus[0]
    values = replay_options(suite, known, tau, network)
    with Server(suite, known.folder, replay(values)) as server:
        sessions(suite, server, known, f"{network.kind}, hits of tau {tau}")
    for as_node, name in ((True, "node"), (False, "processes")):
        with Services(suite, known.folder, values, as_node) as services:
            rounds_of(suite, services, known, f"{network.kind} in {name}, hits of tau {tau}",
                      (8,) if suite.emulated else (64, 128))


def sessions(suite: Suite, server: Server, known: Known, name: str) -> None:
    """The plain text for each, and tokens of all per second."""
    tokens = len(known.plain["0"]["token_ids"])
    for count in (1, 3) if suite.emulated else (1, 8, 32):
        temperatures = [str(i % 2) for i in range(count)]
        requests = [(known.prompt, tokens, "--seed", "5", "--temperature", t)
                    for t in temperatures]
        began = time.monotonic()
        answers, stages = server.measure(lambda: server.generate_all(requests))
        seconds = time.monotonic() - began
        same = all(a is not None and a["token_ids"] == known.plain[t]["token_ids"]
                   for a, t in zip(answers, temperatures))
        suite.add(f"{known.name}, {name}, {count} sessions at once", same,
                  text="equal" if same else "DIFFERS",
                  tokens_per_s=round(count * tokens / seconds, 1), **stages)


def deaths(suite: Suite, known: Known) -> None:
    """A service dies in the middle of a text and is started again."""
    wanted = known.plain["1"]["token_ids"]
    with Services(suite, known.folder, replay_options(suite, known, "7")) as services:
        for name in ("drafter", "verifier"):
            command = services.command(known.prompt, len(wanted), "--seed", "5",
                                       "--temperature", "1")
            with subprocess.Popen(command, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT) as running:
                while running.poll() is None and suite.left() > 0:
                    newest = services.report()["request"]
                    if newest is not None and newest["live"] and newest["rounds"] > 0:
                        break
                came_first = running.poll() is not None
                services.restart(name)
                began = time.monotonic()
                try:
                    output = running.communicate(timeout=max(1, suite.left()))[0]
                except subprocess.TimeoutExpired:
                    running.kill()
                    output = running.communicate()[0]
            suite.log(f"death of the {name}", output)
            lines = [line for line in output.splitlines() if line.startswith("{")]
            same = bool(lines) and json.loads(lines[-1])["token_ids"] == wanted
            suite.add(f"the {name} dies and comes back", same and not came_first,
                      text="ended before" if came_first else "equal" if same else "DIFFERS",
                      rest_s=round(time.monotonic() - began, 1))


def full_pools(suite: Suite, known: Known) -> None:
    """K/V for less than is asked for: requests end or wait, and the server goes on."""
    target = known.folder
    if suite.emulated:  # a shape of which 1 MiB holds 256 tokens
        target = write_shape(suite.work / "wide",
                             TINY | {"head_dim": 128, "num_key_value_heads": 4})
    pool = f"{RANDOM} kv_cache_mib: {1 if suite.emulated else 256}"
    with Server(suite, target, LOOKUP, pool) as server:
        room = server.report()["verifier"]["memory"]["kv_tokens"]
        size = room * 3 // 4
        requests = [([(7 + seed) * i % 50 + 1 for i in range(size)], room // 16,
                     "--seed", str(seed), "--temperature", "1") for seed in range(3)]
        alone = [server.generate(*request) for request in requests]
        together = server.generate_all(requests)
        same = all(a is not None and b is not None and a["token_ids"] == b["token_ids"]
                   for a, b in zip(alone, together))
        suite.add(f"3 sessions in a pool of {room} tokens", same,
                  text="equal" if same else "DIFFERS")
        endless = server.generate(requests[0][0], room)
        suite.add("a text that fills the pool ends there",
                  endless is not None and endless["finish_reason"] == "length" and
                  room - size <= len(endless["token_ids"]) < room,
                  tokens=len(endless["token_ids"]) if endless else 0)
        status, output = suite.run(server.command([1] * (room + 1), 1))
        suite.add("a prompt that never fits is refused",
                  status == 2 and "INVALID_ARGUMENT" in output, status=status)
        again = server.generate(*requests[0])
        suite.add("the server goes on", again is not None and alone[0] is not None and
                  again["token_ids"] == alone[0]["token_ids"])
    with Server(suite, target, LOOKUP, f"{RANDOM} kv_cache_mib: 1000000") as server:
        ended = server.process.poll()
        says = (suite.work / "serve.log").read_text()
        suite.add("a pool that the device has no memory for is refused",
                  ended == 1 and "no room for" in says, status=ended)
