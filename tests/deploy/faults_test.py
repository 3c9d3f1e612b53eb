#!/usr/bin/env python3
"""Faults between and inside real processes while texts are streamed. Every
stream is recorded and checked: nothing lost, doubled or reordered, and the text
is the one without the fault. deploy/FAULTS.md is the table."""

import concurrent.futures
import random
import shlex
import signal
import sys
import threading
import time
import unittest
from typing import Any

import live_cluster
import stubs
from live_cluster import REPO
from recorded_client import Client, RecordedTest, counter, gauges, in_midstream


class FaultsTest(RecordedTest):
    # ---- drafters that misbehave ----

    def scripted(self, fault: str) -> str:
        address = f"unix:{self.reference.folder}/{fault}.sock"
        self.reference.start(fault, "env", f"PYTHONPATH={self.stubs}", sys.executable,
                             REPO / "tests/deploy/scripted_drafter.py", fault, address,
                             *self.identity)
        return address

    def test_a_drafter_that_lies_is_found_out_and_changes_nothing(self) -> None:
        for fault in ("cycle", "wrong_token", "not_a_number", "ragged", "huge", "wrong_root",
                      "wrong_round", "wrong_length", "end_stream", "slow"):
            with self.subTest(fault):
                cluster, client = self.cluster(others={"liar": self.scripted(fault)})

                # The warm-up may have found out who does not pay.
                def is_counted() -> bool:
                    self.assert_unharmed(client.generate(strategy="union"))
                    return any(counter(cluster, "espalier_drafter_requests_total",
                                       drafter="liar", outcome=outcome)
                               for outcome in ("malformed", "error", "timeout", "late"))
                live_cluster.await_true(is_counted, f"{fault} is counted")

    def test_a_drafter_of_another_vocabulary_is_refused_and_changes_nothing(self) -> None:
        size, fingerprint = self.identity
        address = f"unix:{self.reference.folder}/other.sock"
        self.reference.start("other", "env", f"PYTHONPATH={self.stubs}", sys.executable,
                             stubs.EXAMPLE / "drafter.py", address, int(size) + 1, fingerprint)
        cluster, client = self.cluster(others={"other": address})
        live_cluster.await_true(
            lambda: '"state":"refused"' in live_cluster.get(
                f"http://{cluster.http_address('coordinator')}/status.json"), "it is refused")
        self.assert_unharmed(client.generate())

    # ---- links ----

    def test_latency_of_50_ms_on_every_link(self) -> None:
        cluster, client = self.cluster("core.draft_timeout_ms=1000",
                                       relayed=("verifier", "lookup", "bigram"))
        for relay in cluster.relays.values():
            relay.latency_s = 0.05
        self.assert_unharmed(client.generate())

    def test_a_stalled_link_to_a_drafter(self) -> None:
        cluster, client = self.cluster(relayed=("bigram",))
        relay = cluster.relays["bigram"]
        self.assert_unharmed(client.generate(in_midstream(relay.stall)))
        relay.go_on()
        self.assert_unharmed(client.generate())

    def test_a_stalled_link_to_the_verifier(self) -> None:
        cluster, client = self.cluster(relayed=("verifier",))
        relay = cluster.relays["verifier"]

        def stall() -> None:
            relay.stall()
            threading.Timer(2, relay.go_on).start()
        self.assert_unharmed(client.generate(in_midstream(stall)))

    def test_links_that_are_cut_again_and_again(self) -> None:
        cluster, client = self.cluster(relayed=("verifier", "lookup", "bigram"))

        def cut(number: int) -> None:
            if number % 10 == 3:
                for relay in cluster.relays.values():
                    relay.cut()

        # One text counts; all of them are cut. A link that breaks again at once
        # waits longer each time.
        first = min(self.texts)
        with concurrent.futures.ThreadPoolExecutor(len(self.texts)) as pool:
            streams = {seed: pool.submit(client.generate, seed=seed,
                                         on_message=cut if seed == first else lambda number: None)
                       for seed in self.texts}
        for seed, stream in streams.items():
            self.assert_unharmed(stream.result(), seed)
        self.await_idle(cluster)

    def test_a_half_open_connection_frees_what_it_held(self) -> None:
        cluster, _ = self.cluster(relayed=("coordinator",))
        relay = cluster.relays["coordinator"]
        client = Client(relay.address)
        self.addCleanup(client.close)
        stream = client.open(tokens=2000)
        next(stream)
        relay.stall()  # the client's machine is gone, and says nothing
        self.await_idle(cluster)

    # ---- clients ----

    def test_a_thousand_cancels_at_random_moments_leave_nothing(self) -> None:
        cluster, client = self.cluster("core.max_queued_requests=1000")
        dice = random.Random(1)

        def ask_and_cancel(_: Any) -> None:
            stream = client.open(seed=dice.randrange(100), tokens=60)
            try:
                for _, _ in zip(range(dice.randrange(8)), stream):
                    pass
            finally:
                stream.cancel()
        before = gauges(cluster, "coordinator", "process_open_fds")
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(ask_and_cancel, range(1000)))
        self.await_idle(cluster)
        live_cluster.await_true(
            lambda: gauges(cluster, "coordinator", "process_open_fds")[0] <= before[0] + 8,
            "descriptors are given back")
        self.assert_unharmed(client.generate())

    def test_a_slow_reader_holds_up_nobody(self) -> None:
        _, client = self.cluster()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            slow = pool.submit(client.generate, lambda number: time.sleep(0.02))
            for seed in self.texts:
                self.assert_unharmed(client.generate(seed=seed), seed)
            self.assert_unharmed(slow.result())

    # ---- operations ----

    def test_a_rolling_restart_fails_no_request(self) -> None:
        cluster, client = self.cluster("server.drain_seconds=20")
        stop = threading.Event()
        failures, served = [], []

        def ask(seed: int) -> None:
            while not stop.is_set():
                problems = client.generate_retrying(seed=seed).problems(self.texts[seed])
                failures.extend(problems)
                served.append(seed)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            askers = [pool.submit(ask, seed) for seed in range(5, 9)]
            for name in ("lookup", "bigram", "verifier", "coordinator"):
                so_far = len(served)
                cluster.process(name).send_signal(signal.SIGTERM)
                self.assertEqual(cluster.process(name).wait(timeout=60), 0, name)
                cluster.restart(name)
                cluster.await_serving(name)
                live_cluster.await_true(lambda: len(served) > so_far + 4, "texts after a restart")
            stop.set()
            for asker in askers:
                asker.result()
        self.assertEqual(failures, [])

    def test_overload_refuses_at_once_and_serves_whom_it_took(self) -> None:
        _, client = self.cluster("core.max_running_requests=2", "core.max_queued_requests=4")
        with concurrent.futures.ThreadPoolExecutor(60) as pool:
            records = list(pool.map(lambda _: client.generate(), range(60)))
        taken = [record for record in records if record.code is None]
        refused = [record for record in records if record.code]
        self.assertGreaterEqual(len(taken), 6)
        self.assertGreater(len(refused), 0)
        self.assertEqual({record.code for record in refused}, {"RESOURCE_EXHAUSTED"})
        self.assertFalse(any(record.messages for record in refused))
        for record in taken:
            self.assert_unharmed(record)

    def test_a_full_disk_for_logs_is_no_reason_to_stop(self) -> None:
        cluster, client = self.cluster()
        for name in ("verifier", "coordinator"):
            cluster.process(name).kill()
            cluster.process(name).wait()
            argv = shlex.join(cluster.argv(name))
            cluster.start(name, "bash", "-c", f"exec {argv} >/dev/full 2>&1")
            cluster.await_serving(name)
        self.assert_unharmed(client.generate())


if __name__ == "__main__":
    if why := stubs.missing():
        print(f"skipped: {why}")
        sys.exit(0)
    unittest.main(verbosity=2)
