#!/usr/bin/env python3
"""Makes the fixtures of drafter_golden_test.cc.

    make_fixtures.py           writes fixtures/ beside this file
    make_fixtures.py --check   fails if fixtures/ is not what it would write

For each case a folder with head/ (the checkpoint) and expected.json (rounds of a
conversation with the drafter, and the trees it must answer); targets/ has the
targets. Skips, with a message, where numpy is not installed.
"""

import argparse
import itertools
import json
import pathlib
import random
import sys
import tempfile
import zlib
from collections.abc import Callable
from typing import Any

try:
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(0)

import dflash_reference
import eagle_reference
from cases import (CASES, DRAFT_VOCABULARY, TARGET_HIDDEN, TARGET_LAYERS,
                   VOCABULARY, Case, SMALL, Weights, draw_target, draw_weights,
                   llama_fields)
from coupled_noise import NearTie
from safetensors_file import from_bfloat16, to_bfloat16, write_safetensors

# (committed tokens more than before, max_nodes, max_depth): the prompt; a bonus
# token alone; two drafted ones before it; no tree wanted; another bonus token;
# one drafted before it; the same text asked again.
ROUNDS = [(6, 12, 4), (1, 8, 4), (3, 12, 3), (1, 0, 4), (1, 16, 7), (2, 6, 4),
          (0, 5, 2)]


def write_json(path: pathlib.Path, value: dict) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")


def write_target(folder: pathlib.Path, name: str, weights: Weights) -> None:
    folder = folder / "targets" / name
    folder.mkdir(parents=True)
    write_json(folder / "config.json", llama_fields(
        SMALL, architectures=["LlamaForCausalLM"],
        num_hidden_layers=TARGET_LAYERS, tie_word_embeddings=name == "tied"))
    names = {"embed": "model.embed_tokens.weight", "norm": "model.norm.weight",
             "head": "lm_head.weight"}
    write_safetensors(folder / "model.safetensors",
                      {names[short]: w for short, w in weights.items()})


def write_head(folder: pathlib.Path, case: Case, weights: Weights,
               draft_tokens: np.ndarray) -> None:
    folder.mkdir(parents=True)
    write_json(folder / "config.json", case.config)
    tensors = {case.rename(short): w for short, w in weights.items()}
    if case.draft_vocabulary:
        tensors["d2t"] = draft_tokens - np.arange(DRAFT_VOCABULARY)
        if case.type == "eagle":
            tensors["t2d"] = np.isin(np.arange(VOCABULARY), draft_tokens)
    for name in case.training_only:
        shape = (TARGET_HIDDEN,) if "norm" in name else (4, TARGET_HIDDEN)
        tensors[name] = np.ones(shape)
    write_safetensors(folder / "model.safetensors", tensors, case.dtype)


def drafter_of(case: Case, weights: Weights, target: Weights,
               draft_tokens: np.ndarray) -> Callable[..., dict[str, Any]]:
    """A function of (tokens, taps, max_nodes, max_depth, sampling)."""
    w = {"embed": target["embed"],
         "head": target.get("head", target["embed"])[draft_tokens]} | weights
    drafter: Any
    draft_tree: Callable[..., dict[str, Any]]
    if case.block is None:
        drafter = eagle_reference.EagleHead(case.shape, case.flags, w,
                                            draft_tokens)
        draft_tree = eagle_reference.draft_tree
    else:
        drafter = dflash_reference.DFlashDrafter(case.shape, case.block, w,
                                                 draft_tokens)
        draft_tree = dflash_reference.draft_tree
    return lambda tokens, taps, max_nodes, max_depth, sampling: draft_tree(
        drafter, tokens, taps, max_nodes, max_depth, case.width, sampling,
        case.noise_scale)


def accept(tree: dict, count: int) -> list[int]:
    """The path to the first node at that depth; NearTie if there is none."""
    paths: list[list[int]] = [[]]
    for token, parent in zip(tree["tokens"][1:], tree["parents"][1:]):
        paths.append(paths[parent] + [token])
    for path in paths:
        if len(path) == count:
            return path
    raise NearTie


def play(random: np.random.RandomState, case: Case, draft: Any) -> list[dict]:
    tokens: list[int] = []
    bits = np.zeros((0, len(case.taps) * TARGET_HIDDEN), np.uint16)
    rounds, tree = [], None
    for i, (count, max_nodes, max_depth) in enumerate(ROUNDS):
        if tree is None:
            tokens += random.randint(VOCABULARY, size=count).tolist()
        elif count > 0:
            tokens += accept(tree, count - 1) + [random.randint(VOCABULARY)]
        first = len(bits)
        fresh = random.standard_normal((len(tokens) - 1 - first, bits.shape[1]))
        bits = np.concatenate([bits, to_bfloat16(fresh)])
        sampling = case.sampling(i)
        tree = draft(
            tokens, from_bfloat16(bits).reshape(len(bits), len(case.taps), -1),
            max_nodes, max_depth, sampling)
        rounds.append({
            "tokens": list(tokens),
            "features": {"first_position": first,
                         "rows": bits[first:].tolist()},
            "budget": {"max_nodes": max_nodes, "max_depth": max_depth},
            "temperature": sampling.temperature, "seed": sampling.seed,
            "tree": tree | {
                "log_probs": [round(x, 6) for x in tree["log_probs"]]},
        })
    return rounds


def write_case(folder: pathlib.Path, case: Case, target: Weights) -> None:
    # Another draw where float32 could decide otherwise.
    for sample in itertools.count():
        random = np.random.RandomState(zlib.crc32(case.name.encode()) + sample)
        weights = draw_weights(random, case)
        draft_tokens = np.sort(random.permutation(VOCABULARY)
                               [:DRAFT_VOCABULARY]) \
            if case.draft_vocabulary else np.arange(VOCABULARY)
        try:
            rounds = play(random, case,
                          drafter_of(case, weights, target, draft_tokens))
            break
        except NearTie:
            pass
    write_head(folder / case.name / "head", case, weights, draft_tokens)
    text = json.dumps({"type": case.type, "target": case.target,
                       "taps": case.taps,
                       "options": {"width": str(case.width),
                                   "noise_scale": str(case.noise_scale)},
                       "rounds": rounds})
    text = text.replace('{"tokens": [', '\n {"tokens": [', len(rounds) * 2)
    (folder / case.name / "expected.json").write_text(text + "\n")


def write_all(folder: pathlib.Path) -> None:
    targets = {name: draw_target(np.random.RandomState(seed), name == "tied")
               for name, seed in (("tied", 1), ("untied", 2))}
    for name, weights in targets.items():
        write_target(folder, name, weights)
    for case in CASES:
        write_case(folder, case, targets[case.target])


def nearly_equal(a: Any, b: Any) -> bool:
    if isinstance(a, float) or isinstance(b, float):
        return abs(a - b) < 1e-5
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(
            nearly_equal(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(nearly_equal, a, b))
    return a == b


def differences(made: pathlib.Path, kept: pathlib.Path) -> list[str]:
    def files(folder: pathlib.Path) -> set[Any]:
        return {p.relative_to(folder) for p in folder.rglob("*") if p.is_file()}

    def same(name: pathlib.Path) -> bool:
        a, b = made / name, kept / name
        if name.suffix == ".json":
            return nearly_equal(json.loads(a.read_text()),
                                json.loads(b.read_text()))
        return a.read_bytes() == b.read_bytes()

    unmatched = files(made) ^ files(kept)
    return sorted(map(str, unmatched)) + sorted(
        str(name) for name in files(made) & files(kept) if not same(name))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    fixtures = pathlib.Path(__file__).parent / "fixtures"
    if not parser.parse_args().check:
        if fixtures.exists():
            sys.exit(f"{fixtures} exists: remove it first")
        write_all(fixtures)
        return 0
    with tempfile.TemporaryDirectory() as made:
        write_all(pathlib.Path(made))
        different = differences(pathlib.Path(made), fixtures)
    for name in different:
        print("differs:", name)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
