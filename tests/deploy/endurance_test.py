#!/usr/bin/env python3
"""Long tests: a soak, and latencies under overload. Prints its results;
deploy/FAULTS.md has the figures of one run.

ESPALIER_SOAK_S shortens the soak, which is 15 minutes.
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import time
import unittest
from typing import Any

import live_cluster
import stubs
from live_cluster import BIN
from recorded_client import PROMPT, SERVICES_OF_A_TEXT, RecordedTest, gauges

SOAK_S = float(os.environ.get("ESPALIER_SOAK_S", 15 * 60))
WARM_PART = 0.1  # of the soak
TOKENS = 160  # of a text, under overload


class EnduranceTest(RecordedTest):
    def stream_for(self, seconds: float, client: Any) -> Any:
        """Runs and checks four streams at a time; returns the number of texts."""
        end = time.monotonic() + seconds

        def ask(seed: int) -> int:
            count = 0
            while time.monotonic() < end:
                self.assert_unharmed(client.generate(seed=seed), seed)
                count += 1
            return count
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            return sum(pool.map(ask, range(5, 9)))

    def test_a_soak_leaves_memory_descriptors_and_threads_flat(self) -> None:
        cluster, client = self.cluster()

        def sizes() -> dict[str, Any]:
            self.await_idle(cluster)
            return {name: (gauges(cluster, name, "process_resident_memory_bytes")[0] / 2**20,
                           gauges(cluster, name, "process_open_fds")[0],
                           len(os.listdir(f"/proc/{cluster.process(name).pid}/task")))
                    for name in SERVICES_OF_A_TEXT}
        self.stream_for(WARM_PART * SOAK_S, client)
        before = sizes()
        texts = self.stream_for((1 - WARM_PART) * SOAK_S, client)
        after = sizes()
        print(f"\n{texts} texts in {(1 - WARM_PART) * SOAK_S:.0f} s")
        for name in SERVICES_OF_A_TEXT:
            print("%-12s %.1f to %.1f MiB, %d to %d descriptors, %d to %d threads" % (
                name, *(number for pair in zip(before[name], after[name]) for number in pair)))
        for name, (memory, descriptors, threads) in after.items():
            with self.subTest(name, before=before[name], after=after[name]):
                self.assertLess(memory, before[name][0] * 1.1 + 8)
                self.assertLessEqual(descriptors, before[name][1] + 8)
                self.assertLessEqual(threads, before[name][2] + 8)

    def load(self, cluster: live_cluster.Cluster, rate: float, requests: int) -> dict[str, Any]:
        """{mode: row} of `espalier load` with texts of 160 tokens."""
        prompts = cluster.folder / "prompts.jsonl"
        prompts.write_text(json.dumps({"prompt": PROMPT}) + "\n")
        done = subprocess.run(
            [BIN / "espalier", "load", "--address", cluster.address("coordinator"), "--prompts",
             prompts, "--modes", "plain,budgeted", "--max-tokens", str(TOKENS), "--temperature",
             "1", "--json", "--rate", str(rate), "--requests", str(requests)],
            capture_output=True, text=True, check=True)
        return {row["mode"]: row for row in map(json.loads, done.stdout.splitlines())}

    def test_ten_times_overload_costs_the_accepted_half_their_latency_at_most(self) -> None:
        cluster, _ = self.cluster("core.max_running_requests=4", "core.max_queued_requests=1")
        flood = self.load(cluster, rate=500, requests=1000)
        served = flood["plain"]["tokens_per_s"] / TOKENS  # a second, at most
        full, overload = (self.load(cluster, rate=times * served, requests=200 * times)
                          for times in (1, 10))
        print(f"\n{served:.1f} requests a second; full, ten times as many; ms p50 / p99")
        for mode, before in full.items():
            after = overload[mode]
            for name in ("total_ms", "per_token_ms", "refused_ms"):
                print("%-9s %-13s %.1f / %.1f, %.1f / %.1f" % (
                    mode, name, *(row[name][part] for row in (before, after)
                                  for part in ("p50", "p99"))))
            print(f"refused: {before['refused']} of {before['requests']}, "
                  f"{after['refused']} of {after['requests']}")
            with self.subTest(mode):
                self.assertEqual(after["failed"], 0)
                self.assertLess(after["total_ms"]["p50"], 1.5 * before["total_ms"]["p50"])
                self.assertLess(after["refused_ms"]["p50"], 0.1 * after["total_ms"]["p50"])


if __name__ == "__main__":
    if why := stubs.missing():
        print(f"skipped: {why}")
        sys.exit(0)
    unittest.main(verbosity=2)
