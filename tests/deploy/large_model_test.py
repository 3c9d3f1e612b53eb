#!/usr/bin/env python3
"""A long test: models of 8B load on 24 GiB, and loading takes hardly more memory
than the packed weights. Prints the seconds."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("ESPALIER_BIN", ROOT / "build/release/bin"))
sys.path.insert(0, str(ROOT / "tests/benchmark"))

import sparse_gguf  # noqa: E402

SHAPE = ROOT / "deploy/shapes/qwen3-8b"
MOST_BESIDE_WEIGHTS = 300e6  # bytes, most of it the program itself


def load(*flags: str | pathlib.Path) -> dict[str, Any]:
    """Loads a model as int4; returns the cost of that."""
    run = subprocess.run(
        [BIN / "espalier", "bench", "forward", "--compute-type", "int4", "--rows",
         "1", "--context", "1", "--json", *flags],
        check=True, capture_output=True, text=True)
    return json.loads(run.stdout.splitlines()[0])


class LargeModelTest(unittest.TestCase):
    def expect_fits(self, cost: dict[str, Any], weight_bytes: float) -> None:
        print(f"{cost['load_s']:.1f} s, {cost['weight_bytes'] / 1e9:.2f} GB of "
              f"weights, peak {cost['peak_bytes'] / 1e9:.2f} GB")
        self.assertAlmostEqual(cost["weight_bytes"], weight_bytes, delta=1e8)
        self.assertLess(cost["peak_bytes"],
                        cost["weight_bytes"] + MOST_BESIDE_WEIGHTS)

    def test_a_file_of_q4_k(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.gguf"
            sparse_gguf.write(json.loads((SHAPE / "config.json").read_text()), path)
            self.expect_fits(load("--model", path), 6.46e9)

    def test_random_weights(self) -> None:
        self.expect_fits(load("--random-weights", SHAPE), 5.66e9)


if __name__ == "__main__":
    unittest.main()
