#!/usr/bin/env python3
"""A long test: Gemma 3 270M, a model with windows, with its real weights, fetched
by `deploy/setup.sh --gemma`. Its tokens and log-probabilities are those of
transformers 5.24, which ran the file's dequantized weights in float32."""

import json
import os
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("ESPALIER_BIN", ROOT / "build/release/bin"))
CACHE = pathlib.Path(
    os.environ.get("ESPALIER_CACHE")
    or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    / "espalier")
MODEL = CACHE / "models/gemma-3-270m"
PROMPT = "The capital of France is"
TOKENS = [818, 5279, 529, 7001, 563]  # after <bos>
LOGPROBS = [-2.93745, -9.66313, -0.86600, -5.11186, -1.35208]


class GemmaTest(unittest.TestCase):
    def test_float32_is_what_transformers_computes(self) -> None:
        subprocess.run([ROOT / "deploy/setup.sh", "--gemma"], check=True)
        run = subprocess.run(
            [BIN / "espalier", "generate", "--local", "--model", MODEL, "--json",
             "--set", "verifier.compute_type=float32", "--prompt", PROMPT,
             "--max-tokens", "1", "--prompt-logprobs", "0"],
            check=True, capture_output=True, text=True)
        tokens = json.loads(run.stdout)["prompt"]["logprobs"]
        self.assertEqual([token["token_id"] for token in tokens], TOKENS)
        for token, expected in zip(tokens, LOGPROBS):
            self.assertAlmostEqual(token["logprob"], expected, delta=1e-3)


if __name__ == "__main__":
    unittest.main()
