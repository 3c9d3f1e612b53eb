#!/usr/bin/env python3
"""The faults of deploy/FAULTS.md where there are two coordinators, two verifiers and two
replicas of each drafter, under load with trees of fixed size: every text is the one without
the fault, and a coordinator needs no client's help but where it dies itself."""

import concurrent.futures
import random
import signal
import sys
import threading
import unittest
from collections.abc import Sequence
from typing import Any

import live_cluster
import stubs
from live_cluster import CHAR_DRAFTERS, REPO
from pools import TWO, Pools, PoolsTestCase
from recorded_client import Client, gauges
from resuming_client import Resuming

DRAFTERS = [name + number for name in CHAR_DRAFTERS for number in TWO]
PEERS = [*(f"verifier{number}" for number in TWO), *DRAFTERS]


class PoolsFaultsTest(PoolsTestCase):
    def frozen_in_turn(self, pools: Pools, client: Resuming, names: Sequence[str],
                       what: Any) -> None:
        """Each of them is stopped under load for a while."""
        with self.load(client, what) as await_more:
            for name in names:
                pools.process(name).send_signal(signal.SIGSTOP)
                await_more(4)
                pools.process(name).send_signal(signal.SIGCONT)
                await_more(4)
        self.assertEqual(client.resumptions, 0)

    def kill(self, pools: Pools, *names: str) -> None:
        for name in names:
            pools.process(name).kill()
        for name in names:
            pools.process(name).wait()

    # ---- drafters ----

    def test_replicas_of_drafters_hang_in_turn(self) -> None:
        self.frozen_in_turn(*self.pools(), DRAFTERS, "drafters frozen")

    def test_all_drafters_are_gone_and_come_back(self) -> None:
        pools, client = self.pools()
        with self.load(client, "no drafter") as await_more:
            self.kill(pools, *DRAFTERS)
            await_more()
            for name in DRAFTERS:
                pools.restart(name)
            pools.await_replicas()
            await_more()
        self.assertEqual(client.resumptions, 0)

    def test_a_replica_lies_beside_honest_ones(self) -> None:
        for fault in ("cycle", "wrong_root", "ragged", "end_stream", "slow"):
            with self.subTest(fault):
                liar = f"unix:{self.reference.folder}/{fault}.sock"
                self.reference.start(fault, "env", f"PYTHONPATH={self.stubs}", sys.executable,
                                     REPO / "tests/deploy/scripted_drafter.py", fault, liar,
                                     *self.identity)
                pools, client = self.pools(others={"lookup": [liar]})

                def is_counted() -> bool:
                    return any(pools.total("espalier_drafter_requests_total", drafter="lookup",
                                           outcome=outcome)
                               for outcome in ("malformed", "error", "timeout", "late"))
                with self.load(client, f"a replica with {fault}") as await_more:
                    if fault == "end_stream":
                        await_more()  # its link is down most of the time: it may get no text
                    else:
                        live_cluster.await_true(is_counted, f"{fault} is counted")
                self.assertEqual(client.resumptions, 0)

    # ---- verifiers ----

    def test_verifiers_freeze_in_turn(self) -> None:
        pools, client = self.pools(settings=("peer_keepalive_ms=500",))
        self.frozen_in_turn(pools, client, ["verifier", "verifier2"], "verifiers frozen")

    def test_both_verifiers_die_and_come_back(self) -> None:
        pools, client = self.pools()
        names = ["verifier", "verifier2"]
        with self.load(client, "both verifiers killed") as await_more:
            self.kill(pools, *names)
            for name in names:
                pools.restart(name)
            await_more()
        self.assertEqual(client.resumptions, 0)

    # ---- coordinators ----

    def test_coordinators_die_in_turn(self) -> None:
        """Until a text was on its way: then its client goes on at the other one."""
        pools, client = self.pools()
        with self.load(client, "coordinators killed") as await_more:
            for turn in range(20):
                if client.resumptions > 1:
                    break
                name = ("coordinator", "coordinator2")[turn % 2]
                self.kill(pools, name)
                await_more(4)
                pools.restart(name)
                pools.await_serving(name)
                await_more(4)
        self.assertGreater(client.resumptions, 1)

    # ---- links ----

    def test_latency_of_20_ms_on_every_link(self) -> None:
        pools, client = self.pools(relayed=PEERS, settings=("core.draft_timeout_ms=1000",))
        for relay in pools.relays.values():
            relay.latency_s = 0.02
        with self.load(client, "latency"):
            pass

    def test_links_to_drafters_stall_in_turn(self) -> None:
        pools, client = self.pools(relayed=DRAFTERS)
        with self.load(client, "links to drafters stall") as await_more:
            for relay in pools.relays.values():
                relay.stall()
                await_more(4)
                relay.go_on()
                await_more(2)
        self.assertEqual(client.resumptions, 0)

    def test_all_links_are_cut_again_and_again(self) -> None:
        pools, client = self.pools(relayed=PEERS)
        with self.load(client, "links cut") as await_more:
            for _ in range(8):
                for relay in pools.relays.values():
                    relay.cut()
                await_more(2)
        self.assertEqual(client.resumptions, 0)

    # ---- clients ----

    def test_cancels_at_random_moments_leave_nothing(self) -> None:
        pools, _ = self.pools(settings=("core.max_queued_requests=1000",))
        clients = [Client(pools.address(f"coordinator{number}")) for number in TWO]
        for client in clients:
            self.addCleanup(client.close)
        dice, lock = random.Random(1), threading.Lock()

        def ask_and_cancel(number: int) -> None:
            with lock:
                seed, messages = dice.randrange(100), dice.randrange(8)
            stream = clients[number % 2].open(seed=seed, tokens=60)
            try:
                for _, _ in zip(range(messages), stream):
                    pass
            finally:
                stream.cancel()
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(ask_and_cancel, range(400)))

        def held() -> list[Any]:
            return [value for name in (*PEERS, "coordinator", "coordinator2")
                    for metric in ("espalier_sessions_open", "espalier_kv_tokens_used")
                    for value in gauges(pools, name, metric) if value]
        live_cluster.await_true(lambda: not held(), "no session is left")
        for client in clients:
            self.assert_unharmed(client.generate())


if __name__ == "__main__":
    if why := stubs.missing():
        print(f"skipped: {why}")
        sys.exit(0)
    unittest.main(verbosity=2)
