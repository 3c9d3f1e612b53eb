#!/usr/bin/env python3
"""A long test: Gemma 3 270M, a model with windows, with its real weights, fetched
by `deploy/setup.sh --gemma`, beside transformers and beside llama.cpp, which
tests/benchmark/llama_cpp/compare.sh builds."""

import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/benchmark/llama_cpp"))
import compare  # pylint: disable=wrong-import-position

BIN = pathlib.Path(os.environ.get("ESPALIER_BIN", ROOT / "build/release/bin"))
CACHE = pathlib.Path(
    os.environ.get("ESPALIER_CACHE")
    or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    / "espalier")
MODEL = CACHE / "models/gemma-3-270m"
MEASURE = CACHE / "llama.cpp/llama_measure"
THREADS = 2
PROMPT = "The capital of France is"
TOKENS = [818, 5279, 529, 7001, 563]  # after <bos>
# transformers 5.24 gave these for the file's dequantized weights in float32.
LOGPROBS = [-2.93745, -9.66313, -0.86600, -5.11186, -1.35208]
SCORED = 1024  # tokens of the text that measures quality
# llama.cpp's log-probabilities were apart by up to 0.73 over 4,096 tokens.
NEAR_TIE = 0.75


def perplexity(logprobs: list[float]) -> float:
    return math.exp(-statistics.mean(logprobs))


class GemmaTest(unittest.TestCase):
    gguf: pathlib.Path
    ours: compare.Espalier
    theirs: compare.LlamaCpp

    @classmethod
    def setUpClass(cls) -> None:
        subprocess.run([ROOT / "deploy/setup.sh", "--gemma"], check=True)
        cls.gguf = next(MODEL.glob("*.gguf"))
        # Without rounds and tokens it builds libllama and measures nothing.
        subprocess.run(
            [ROOT / "tests/benchmark/llama_cpp/compare.sh", "--model", cls.gguf,
             "--formats", "AS_IS", "--rounds", "0"],
            check=True)
        cls.ours = compare.Espalier(BIN, cls.gguf, "float32", THREADS)
        cls.theirs = compare.LlamaCpp(MEASURE, cls.gguf, 1, THREADS, "auto")

    def test_float32_is_what_transformers_computes(self) -> None:
        run = subprocess.run(
            [BIN / "espalier", "generate", "--local", "--model", MODEL, "--json",
             "--set", "verifier.compute_type=float32", "--prompt", PROMPT,
             "--max-tokens", "1", "--prompt-logprobs", "0"],
            check=True, capture_output=True, text=True)
        tokens = json.loads(run.stdout)["prompt"]["logprobs"]
        self.assertEqual([token["token_id"] for token in tokens], TOKENS)
        for token, expected in zip(tokens, LOGPROBS):
            self.assertAlmostEqual(token["logprob"], expected, delta=1e-3)

    # llama.cpp rounds the rows of its products to 8 bits.
    def test_llama_cpp_reads_the_same_tokens_and_finds_them_as_likely(self) -> None:
        texts = compare.windows_of(MEASURE, self.gguf, SCORED)
        self.assertEqual([len(ids) for ids in texts], [513, 513])
        ours, theirs = self.ours.score(texts), self.theirs.score(texts)
        self.assertEqual(len(ours.logprobs), SCORED)
        apart = [abs(a - b) for a, b in zip(ours.logprobs, theirs.logprobs)]
        self.assertLess(statistics.mean(apart), 0.12)
        top1 = statistics.mean(
            a == b for a, b in zip(ours.likeliest, theirs.likeliest))
        self.assertGreater(top1, 0.92)
        ratio = perplexity(theirs.logprobs) / perplexity(ours.logprobs)
        self.assertAlmostEqual(ratio, 1, delta=0.02)

    # Its rounding decides where two tokens are nearly as likely.
    def test_llama_cpp_writes_the_same_text_up_to_a_near_tie(self) -> None:
        ids = compare.tokens_of(MEASURE, self.gguf, PROMPT)
        self.assertEqual(ids[1:], TOKENS)
        ours = self.ours.generate(ids, "plain").token_ids
        theirs = self.theirs.generate(ids, "plain").token_ids
        same = compare.common_prefix(ours, theirs)
        self.assertGreaterEqual(same, 3)
        if same < min(len(ours), len(theirs)):
            texts = [ids + text[: same + 1] for text in (ours, theirs)]
            best, other = (self.ours.score([text]).logprobs[-1] for text in texts)
            self.assertLess(best - other, NEAR_TIE)

    # What auto_compute_type.h allows a type, with room for a text this short.
    def test_auto_is_int8_and_good_enough(self) -> None:
        run = subprocess.run(
            [BIN / "espalier", "bench", "quality", "--json", "--model", MODEL,
             "--text", ROOT / "tests/benchmark/quality.txt", "--tokens", str(SCORED),
             "--compute-types", "auto"],
            check=True, capture_output=True, text=True)
        quality = json.loads(run.stdout)
        self.assertEqual(quality["compute_type"], "int8")
        self.assertLess(quality["kl"], 0.01)
        self.assertGreater(quality["top1"], 0.95)


if __name__ == "__main__":
    unittest.main()
