#!/usr/bin/env python3
"""Espalier beside llama.cpp; see compare.sh, which makes what this needs."""

import argparse
import json
import math
import pathlib
import platform
import statistics
import subprocess
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[3]
ROWS = (1, 2, 5, 8, 16, 64)
SUITES = ["summarise", "chat"]
PROMPTS_OF_SUITE = 2
MAX_TOKENS = 128
DRAFT_TOKENS = 8  # kDraftTokens of llama_measure.cc
QUALITY_TEXT = ROOT / "tests/benchmark/quality.txt"
WINDOW = 512  # of the text that both score, as of `espalier bench quality`

# What one process of either side says about one prompt.
Answer = namedtuple("Answer", "tokens seconds prefill_seconds token_ids")
# A number for each token of some texts, in order, but for the first of each.
Scores = namedtuple("Scores", "logprobs likeliest")


def run(*command: Any, text: str | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in command], input=text, check=True, stdout=subprocess.PIPE,
        encoding="utf-8"
    )
    return done.stdout


def json_lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


class Espalier:
    name = "Espalier"

    def __init__(self, bin_folder: pathlib.Path, model: pathlib.Path, compute_type: str,
                 threads: int) -> None:
        self._bin = bin_folder
        self._model = model
        self._compute_type = compute_type
        self._threads = threads

    def version(self) -> str:
        header = run(
            self._bin / "espalier", "bench", "forward", "--rows", 1,
            "--model", self._model, "--threads", self._threads,
            "--compute-type", self._compute_type,
        )  # fmt: skip
        version = run(self._bin / "espalier", "--version").strip()
        return f"{version} ({header.splitlines()[0].rpartition(',')[0]})"

    def forward(self) -> dict[str, Any]:
        lines = run(
            self._bin / "espalier", "bench", "forward", "--json",
            "--model", self._model, "--threads", self._threads,
            "--rows", ",".join(map(str, ROWS)), "--compute-type", self._compute_type,
        )  # fmt: skip
        return {x["rows"]: x["ms"] for x in json_lines(lines) if "rows" in x}

    def generate(self, token_ids: list[int], mode: str) -> Answer:
        lookup = ["--drafters", "lookup", "--nodes", DRAFT_TOKENS]
        text = run(
            self._bin / "espalier", "generate", "--local", "--json",
            "--set", f"verifier.model={self._model}",
            "--set", f"verifier.threads={self._threads}",
            "--set", f"verifier.compute_type={self._compute_type}",
            "--token-ids", ",".join(map(str, token_ids)),
            "--max-tokens", MAX_TOKENS,
            *(["--no-speculation"] if mode == "plain" else lookup),
        )  # fmt: skip
        answer = json.loads(text)
        timing = answer["timing"]
        prefill_seconds = timing["time_to_first_token_ms"] / 1e3
        seconds = timing["total_ms"] / 1e3 - prefill_seconds
        tokens = round((timing["tokens_per_s"] or 0) * seconds)
        return Answer(tokens, seconds, prefill_seconds, answer["token_ids"])

    def quality(self, tokens: int) -> list[dict[str, Any]]:
        lines = run(
            self._bin / "espalier", "bench", "quality", "--json",
            "--model", self._model, "--text", QUALITY_TEXT,
            "--window", WINDOW, "--tokens", tokens,
        )  # fmt: skip
        return json_lines(lines)

    def score(self, texts: list[list[int]]) -> Scores:
        """In float32."""
        scores = Scores([], [])
        for ids in texts:
            text = run(
                self._bin / "espalier", "generate", "--local", "--json",
                "--no-speculation", "--max-tokens", 1, "--prompt-logprobs", 1,
                "--set", f"verifier.model={self._model}",
                "--set", f"verifier.threads={self._threads}",
                "--set", "verifier.compute_type=float32",
                "--set", "core.warm_up=false",
                "--token-ids", ",".join(map(str, ids)),
            )  # fmt: skip
            for token in json.loads(text)["prompt"]["logprobs"]:
                scores.logprobs.append(token["logprob"])
                scores.likeliest.append(token["top"][0]["token_id"])
        return scores


class LlamaCpp:
    def __init__(self, program: pathlib.Path, gguf: str | pathlib.Path, stop_id: int, threads: int,
                 flash: str) -> None:
        self.name = "llama.cpp" + ("" if flash == "auto" else ", flash attention off")
        self._program = program
        self._measure = [program, gguf, threads, flash]
        self._stop_id = stop_id

    def version(self) -> str:
        about = json.loads(run(self._program, "about"))
        return f"{about['version']} ({about['features'].strip(' |')})"

    def forward(self) -> dict[str, Any]:
        lines = run(*self._measure, "forward", ",".join(map(str, ROWS)))
        return {x["rows"]: x["ms"] for x in json_lines(lines)}

    def generate(self, token_ids: list[int], mode: str) -> Answer:
        ids = ",".join(map(str, token_ids))
        answer = json.loads(
            run(*self._measure, mode, ids, MAX_TOKENS, self._stop_id)
        )
        return Answer(
            answer["tokens"], answer["seconds"], answer["prefill_seconds"],
            answer["token_ids"],
        )  # fmt: skip

    def score(self, texts: list[list[int]]) -> Scores:
        lines = "".join(",".join(map(str, ids)) + "\n" for ids in texts)
        scores = Scores([], [])
        for text in json_lines(run(*self._measure, "score", text=lines)):
            scores.logprobs.extend(text["logprobs"])
            scores.likeliest.extend(text["likeliest"])
        return scores


def tokens_of(program: pathlib.Path, gguf: str | pathlib.Path, text: str) -> list[int]:
    return json.loads(run(program, "prompt", gguf, text=text))["token_ids"]


def has_chatml(program: pathlib.Path, gguf: str | pathlib.Path) -> bool:
    """Whether the mark is one token, after what begins every text."""
    mark = len(tokens_of(program, gguf, "<|im_start|>"))
    return mark == 1 + len(tokens_of(program, gguf, ""))


def read_prompts(program: pathlib.Path,
                 gguf: str | pathlib.Path) -> tuple[dict[str, list[list[int]]], int]:
    """The first prompts of each suite: {suite: [token ids]}; the stop id."""
    chatml = has_chatml(program, gguf)
    prompts: dict[str, list[list[int]]] = {}
    stop_id = -1
    for suite in SUITES:
        path = ROOT / "deploy" / "suites" / f"{suite}.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines()[:PROMPTS_OF_SUITE]
        prompts[suite] = []
        for chat in (json.loads(line)["chat"] for line in lines):
            text = chat
            if chatml:
                text = f"<|im_start|>user\n{chat}<|im_end|>\n<|im_start|>assistant\n"
            answer = json.loads(run(program, "prompt", gguf, text=text))
            prompts[suite].append(answer["token_ids"])
            stop_id = answer["stop_id"]
    return prompts, stop_id


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    pairs = zip(a, b)
    return next((i for i, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))


def tokens_per_second(answers: Any) -> float:
    return sum(x.tokens for x in answers) / sum(x.seconds for x in answers)


def prompt_tokens_per_second(prompts: list[list[int]], answers: list[Answer]) -> float:
    return sum(map(len, prompts)) / sum(x.prefill_seconds for x in answers)


def measure_round(sides: Any, prompts: Any, parts: list[str],
                  first_answers: Any) -> dict[tuple[str, Any], Any]:
    """One number for each cell of the table: {(cell, side's name): number}.

    The sides take turns, process by process.
    """
    cells = {}
    for side in sides if "forward" in parts else []:
        for rows, ms in side.forward().items():
            cells[f"forward, rows: {rows}", side.name] = ms
    for suite, token_ids in prompts.items():
        for mode in [part for part in parts if part != "forward"]:
            answers: dict[str, list[Answer]] = {side.name: [] for side in sides}
            for ids in token_ids:
                for side in sides:
                    answers[side.name].append(side.generate(ids, mode))
            for name, of_side in answers.items():
                cells[f"{mode}, {suite}", name] = tokens_per_second(of_side)
                if mode == "plain":
                    cells[f"prompt, {suite}", name] = prompt_tokens_per_second(
                        token_ids, of_side
                    )
                first_answers.setdefault((mode, suite, name), of_side)
    return cells


def print_table(rounds: Any, names: Sequence[str]) -> None:
    """Medians of the rounds; of ratios too, each of one round."""
    print(f"| | {' | '.join(names)} | Espalier / the faster llama.cpp |")
    print("| --- |" + " ---: |" * (len(names) + 1))
    for cell in dict.fromkeys(cell for cell, _ in rounds[0]):
        is_time = cell.startswith("forward")
        medians = [statistics.median(x[cell, name] for x in rounds) for name in names]
        ratios = []
        for numbers in ([x[cell, name] for name in names] for x in rounds):
            ours, *theirs = (1 / x if is_time else x for x in numbers)
            ratios.append(ours / max(theirs))
        unit = "ms" if is_time else "tokens/s"
        columns = " | ".join(f"{x:.2f}" for x in medians)
        print(f"| {cell}, {unit} | {columns} | {statistics.median(ratios):.2f} x |")


def print_agreement(answers: Any, suites: Any, names: Sequence[str]) -> None:
    """Shows that all ran the same weights, and whose text speculation changed."""

    def texts(mode: str, name: str) -> list[list[int]]:
        return [x.token_ids for suite in suites for x in answers[mode, suite, name]]

    print()
    for name in names:
        pairs = list(zip(texts("plain", names[0]), texts("plain", name)))
        same = sum(common_prefix(a, b) for a, b in pairs)
        total = sum(max(len(a), len(b)) for a, b in pairs)
        plain, lookup = texts("plain", name), texts("lookup", name)
        changed = sum(a != b for a, b in zip(plain, lookup))
        print(
            f"* {name}: {same} of {total} greedy tokens as {names[0]}'s before they"
            f" part; lookup changed {changed} of {len(plain)} texts."
        )


def windows_of(program: pathlib.Path, gguf: str | pathlib.Path, count: int) -> list[list[int]]:
    """So many tokens of the text that measures quality, as `bench quality` has it."""
    text = QUALITY_TEXT.read_text(encoding="utf-8")
    begin = tokens_of(program, gguf, "")
    ids = tokens_of(program, gguf, text.replace("\n", " "))
    ids = ids[len(begin) :][:count]
    return [begin + ids[i : i + WINDOW] for i in range(0, len(ids), WINDOW)]


def print_quality(espalier: Any, llama_cpp: Any, texts: list[list[int]],
                  tokens: int) -> None:
    """Both sides beside Espalier in float32, with the same file and tokens."""
    ours, theirs = espalier.score(texts), llama_cpp.score(texts)
    pairs = list(zip(ours.likeliest, theirs.likeliest, strict=True))
    top1 = statistics.mean(a == b for a, b in pairs)
    apart = [abs(a - b) for a, b in zip(ours.logprobs, theirs.logprobs, strict=True)]
    perplexity = math.exp(-statistics.mean(theirs.logprobs))
    print(f"\n| {len(pairs)} positions | KL | top 1 | perplexity |")
    print("| --- | ---: | ---: | ---: |")
    for x in espalier.quality(tokens):
        print(
            f"| {espalier.name}, {x['compute_type']} | {x['kl']:.5f} |"
            f" {100 * x['top1']:.2f} % | {x['perplexity']:.4f} |"
        )
    print(f"| {llama_cpp.name} | | {100 * top1:.2f} % | {perplexity:.4f} |")
    print(
        f"\n* log p of a token, {llama_cpp.name} and Espalier in float32: apart by"
        f" {statistics.mean(apart):.5f} in the mean, by {max(apart):.3f} at most."
    )


def cpu_model() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--measure", type=pathlib.Path, required=True)
    parser.add_argument("--stem", required=True, help="files are STEM-FORMAT.gguf")
    parser.add_argument("--formats", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--parts", required=True)
    parser.add_argument("--quality", type=int, required=True)
    return parser.parse_args()


def sides_of(flags: argparse.Namespace, model_format: str,
             stop_id: int) -> list[Espalier | LlamaCpp]:
    gguf = pathlib.Path(f"{flags.stem}-{model_format}.gguf")
    # `auto` would round the weights of BF16 to int8.
    compute_type = "bfloat16" if model_format == "BF16" else "auto"
    return [Espalier(flags.bin, gguf, compute_type, flags.threads),
            *(LlamaCpp(flags.measure, gguf, stop_id, flags.threads, flash)
              for flash in ("auto", "off"))]


def main() -> None:
    flags = parse_arguments()
    formats, parts = flags.formats.split(","), flags.parts.split(",")
    prompts, stop_id = read_prompts(flags.measure, f"{flags.stem}-{formats[0]}.gguf")
    sides = {name: sides_of(flags, name, stop_id) for name in formats}
    rounds: dict[str, list[Any]] = {name: [] for name in formats}
    answers: dict[str, dict[Any, list[Answer]]] = {name: {} for name in formats}
    for _ in range(flags.rounds):
        for name in formats:
            rounds[name].append(
                measure_round(sides[name], prompts, parts, answers[name])
            )
    print(
        f"{cpu_model()}, {flags.threads} threads, {pathlib.Path(flags.stem).name},"
        f" medians of {flags.rounds} rounds."
        " K/V cache: Espalier bf16, llama.cpp f16."
    )
    for name in formats:
        names = [side.name for side in sides[name]]
        print(f"\n## {name}\n")
        if flags.rounds > 0:
            print_table(rounds[name], names)
        if flags.rounds > 0 and {"plain", "lookup"} <= set(parts):
            print_agreement(answers[name], SUITES, names)
        if flags.quality > 0:
            gguf = f"{flags.stem}-{name}.gguf"
            texts = windows_of(flags.measure, gguf, flags.quality)
            print_quality(sides[name][0], sides[name][1], texts, flags.quality)
        print(f"\n* {sides[name][0].version()}")
    print(f"\nllama.cpp {sides[formats[0]][1].version()}")


if __name__ == "__main__":
    main()
