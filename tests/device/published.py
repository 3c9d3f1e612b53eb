"""Targets and draft networks of full size, from folders as they are published."""

from __future__ import annotations

import pathlib
import shutil
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from layouts import LAYOUTS, Numbers, language_model, size, write_folder
from serving import Server, options
from shapes import Target

if TYPE_CHECKING:
    from suites import Suite

LEAST_SECONDS = 120


def serve_published(suite: Suite, target: Target,
                    generate: Callable[..., dict[str, Any] | None]) -> None:
    """Writes the folders, serves them, and compares each network's texts with the plain
    ones. generate: rounds.generate."""
    folder = suite.work / "published"
    models = {folder: (target.config, language_model(target.config))}
    for network in target.networks:
        models[folder / "drafters" / network.kind] = (
            network.config, LAYOUTS[network.kind](network.config))
    need = sum(size(tensor) for _, tensors in models.values() for tensor in tensors.values())
    if suite.left() < LEAST_SECONDS:
        suite.add(f"{target.name}, published folder", True, says="no time left")
        return
    if shutil.disk_usage(suite.work).free < need + (1 << 30):
        suite.add(f"{target.name}, published folder", True,
                  says=f"no room for {need / 1e9:.1f} GB in {suite.work}")
        return
    began = time.monotonic()
    for place, (config, tensors) in models.items():
        write_folder(place, config, tensors, Numbers())
    suite.add(f"{target.name}, published folder", True, gb=round(need / 1e9, 3),
              tensors="+".join(str(len(tensors)) for _, tensors in models.values()),
              write_s=round(time.monotonic() - began, 1))
    try:
        serve(suite, target, folder, generate)
    finally:
        shutil.rmtree(folder)


def drafters(target: Target, folder: pathlib.Path) -> str:
    """None where `espalier serve` finds them by itself: it takes no language model for a
    drafter."""
    if all(network.kind != "lm" for network in target.networks):
        return ""
    return "".join(
        f'drafters {{ name: "{network.kind}" type: "{network.kind}" '
        f'{options({"model": folder / "drafters" / network.kind})} }}\n'
        for network in target.networks)


def serve(suite: Suite, target: Target, folder: pathlib.Path,
          generate: Callable[..., dict[str, Any] | None]) -> None:
    prompt = [7 * i % 50 + 1 for i in range(40 if suite.emulated else 1024)]
    tokens = 8 if suite.emulated else 128
    name = f"{target.name}, published folder"
    with Server(suite, folder, drafters(target, folder), verifier="") as server:
        suite.add(f"{name}, start", server.process.poll() is None, s=server.start_s)
        for temperature in ("0", "1"):
            flags = ("--temperature", temperature)
            plain = generate(suite, server, f"{name}, plain, temperature {temperature}",
                             prompt, tokens, "--no-speculation", *flags)
            for network in target.networks:
                generate(suite, server, f"{name}, {network.kind}, temperature {temperature}",
                         prompt, tokens, "--drafters", network.kind, "--nodes", "8", *flags,
                         wanted=plain)
