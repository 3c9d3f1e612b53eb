#!/usr/bin/env python3
"""Two coordinators, two verifiers and two replicas of each drafter as processes, under load.
Replicas die, drain and restart; every text is the one without the fault."""

import signal
import threading
import time
import unittest
from typing import Any

import live_cluster
from live_cluster import CHAR_MODEL, Services
from pools import TWO, PoolsTestCase
from recorded_client import Client


class PoolsTest(PoolsTestCase):
    def test_verifiers_die_in_turn(self) -> None:
        pools, client = self.pools()
        with self.load(client, "verifiers killed") as await_more:
            for number in TWO:
                pools.process(f"verifier{number}").kill()
                pools.process(f"verifier{number}").wait()
                await_more()
                pools.restart(f"verifier{number}")
                pools.await_replicas()
        self.assertEqual(client.resumptions, 0, "a coordinator moves its texts by itself")

    def test_a_node_loses_power(self) -> None:
        """No packet comes from the busiest verifier, and no reset."""
        pools, client = self.pools(relayed=("verifier", "verifier2"),
                                   settings=("peer_keepalive_ms=500",))
        with self.load(client, "power lost") as await_more:
            relay = pools.relays[pools.busiest_verifier()]
            relay.stall()
            await_more(12)
            relay.go_on()
            await_more()
        self.assertGreater(pools.total("espalier_link_moves_total", peer="verifier"), 0)
        self.assertEqual(client.resumptions, 0)

    def test_a_verifier_drains(self) -> None:
        """SIGTERM: it ends as soon as its sessions have moved, at the ends of their rounds."""
        pools, client = self.pools()
        with self.load(client, "verifier drained") as await_more:
            process = pools.process(pools.busiest_verifier())
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=60), 0)
            print(f"a verifier under load drained within {time.monotonic() - began:.1f} s")
            await_more()
        self.assertGreater(pools.total("espalier_link_moves_total", peer="verifier"), 0)
        self.assertEqual(client.resumptions, 0)

    def test_replicas_of_a_drafter_flap(self) -> None:
        pools, client = self.pools()
        with self.load(client, "drafters flap") as await_more:
            for _ in range(3):
                for number in TWO:
                    pools.process(f"lookup{number}").kill()
                    pools.process(f"lookup{number}").wait()
                await_more(3)
                for number in TWO:
                    pools.restart(f"lookup{number}")
                await_more(3)
        self.assertEqual(client.resumptions, 0)

    def test_texts_spread_over_the_verifiers_and_end(self) -> None:
        pools, client = self.pools()
        seen: set[str] = set()

        def look(_: Any) -> None:
            seen.update(address for coordinator in ("coordinator", "coordinator2")
                        for address, count in pools.sessions(coordinator, "verifier").items()
                        if count)
        # Six for each coordinator: four of the same prompt are the most for one verifier.
        threads = [threading.Thread(target=client.generate, args=(seed, 160, look))
                   for seed in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(seen, {pools.address("verifier"), pools.address("verifier2")})
        for coordinator in ("coordinator", "coordinator2"):
            for peer in ("verifier", "lookup", "bigram"):
                live_cluster.await_true(
                    lambda c=coordinator, p=peer: set(pools.sessions(c, p).values()) == {0},
                    "no session is left")

    def test_a_rolling_upgrade_fails_no_request(self) -> None:
        pools, client = self.pools()
        with self.load(client, "rolling upgrade") as await_more:
            for name in ("lookup", "bigram", "verifier", "coordinator"):
                for number in TWO:
                    service = name + number
                    pools.process(service).send_signal(signal.SIGTERM)
                    self.assertEqual(pools.process(service).wait(timeout=60), 0, service)
                    pools.restart(service)
                    pools.await_serving(service)
                    pools.await_replicas()
                    await_more(3)

    def test_a_name_has_the_verifiers_addresses(self) -> None:
        services = Services()
        self.addCleanup(services.close)
        port = live_cluster.free_port()
        services.start_service(
            "verifier", f'engine {{ model: "{CHAR_MODEL}" threads: 1 }}',
            (f"server.listen=127.0.0.1:{port}",))
        services.start_service("coordinator", f'model: "{CHAR_MODEL}" '
                                              f'verifier: "dns:localhost:{port}"')
        services.await_serving("coordinator")
        client = Client(services.address("coordinator"))
        self.addCleanup(client.close)
        self.assert_unharmed(client.generate(seed=5))


if __name__ == "__main__":
    unittest.main(verbosity=2)
