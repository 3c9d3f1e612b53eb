#!/usr/bin/env python3
"""`espalier load` against a cluster with room, and one without."""

import json
import subprocess
import unittest
from collections.abc import Sequence
from typing import Any

import live_cluster
from live_cluster import BIN

PROMPTS = ["First Citizen:\nBefore we proceed any further, hear me speak.\n",
           "the king and the queen and the king and the queen"]
WAYS = ("--address", "--http")


class LoadTest(unittest.TestCase):
    def load(self, way: str, settings: Sequence[str], *flags: str) -> dict[str, Any]:
        """{mode: row} of a run of `espalier load`; `way`: "--address" or "--http"."""
        cluster = live_cluster.Cluster([*settings, "http_listen=127.0.0.1:0"])
        self.addCleanup(cluster.close)
        cluster.await_drafters()  # or plain decoding would be all that there is
        prompts = cluster.folder / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in PROMPTS))
        done = subprocess.run(
            [BIN / "espalier", "load", way,
             cluster.address("coordinator") if way == "--address" else
             cluster.http_url("coordinator"),
             "--prompts", prompts, "--modes", "plain,union", "--json", *flags],
            capture_output=True, text=True, timeout=120, check=True)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        return {row["mode"]: row for row in rows}

    def test_modes_get_the_same_requests_and_all_are_answered(self) -> None:
        for way in WAYS:
            with self.subTest(way):
                self.all_are_answered(self.load(way, ["core.draft_timeout_ms=1000"], "--rate", "50",
                                                "--requests", "20", "--max-tokens", "40"))

    def all_are_answered(self, rows: dict[str, Any]) -> None:
        self.assertEqual(list(rows), ["plain", "union"])
        for row in rows.values():
            self.assertEqual((row["requests"], row["refused"], row["failed"]), (20, 0, 0))
            for name in ("first_token_ms", "gap_ms", "per_token_ms", "total_ms"):
                self.assertGreater(row[name]["p50"], 0, name)
                self.assertLessEqual(row[name]["p50"], row[name]["p99"], name)
            self.assertGreater(row["goodput"], 0)
        self.assertAlmostEqual(rows["plain"]["tau"], 1, delta=0.01)
        self.assertGreater(rows["union"]["tau"], 1.2)

    def test_what_a_full_server_refuses_is_told_apart_from_failures(self) -> None:
        for way in WAYS:
            rows = self.load(way, ["core.max_running_requests=1", "core.max_queued_requests=1"],
                             "--rate", "2000", "--requests", "60", "--turns", "1", "--max-tokens",
                             "100")
            for row in rows.values():
                with self.subTest(way, mode=row["mode"]):
                    self.assertGreater(row["refused"], 0)
                    self.assertLess(row["refused"], 60)
                    self.assertEqual(row["failed"], 0)

    def test_nonsense_is_refused(self) -> None:
        for flags in (["--rate", "0"], ["--requests", "1", "--turns", "2"], ["--modes", ""],
                      ["--http", "nowhere"]):
            with self.subTest(flags=flags):
                done = subprocess.run([BIN / "espalier", "load", "--address", "unix:/nowhere",
                                       *flags], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 2, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
