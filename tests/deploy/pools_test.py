#!/usr/bin/env python3
"""Two coordinators, two verifiers and two replicas of each drafter as processes, under load.
Replicas die, drain and restart; every text is the one without the fault."""

import json
import re
import signal
import threading
import time
import unittest

import live_cluster
from live_cluster import BIN, CHAR_DRAFTERS, CHAR_MODEL, Services
from recorded_client import Client
from relay import Relay
from resuming_client import LoadedTest, Resuming

TWO = ("", "2")  # of each service


class Pools(Services):
    """`relayed`: the first verifier is reached through `relay`. `programs`: the folder of all.
    `pooled`: coordinators know both replicas of each peer; those of version 0.2 know one."""

    def __init__(self, relayed=False, settings=(), programs=BIN, pooled=True):
        super().__init__()
        self.programs = programs
        self._settings = settings
        self._pooled = set()
        self.relay = None
        for number in TWO:
            for name in ("verifier", *CHAR_DRAFTERS):
                self.start_replica(name, number)
        if relayed:
            self.relay = Relay(f"{self.folder}/relay", f"{self.folder}/verifier.sock")
        for number in TWO:
            self.start_coordinator(number, pooled)
        for number in TWO:
            self.await_serving(f"coordinator{number}")
        self.await_replicas()

    def start_replica(self, name, number):
        if name == "verifier":
            engine = f'engine {{ model: "{CHAR_MODEL}" threads: 1 }}'
        else:
            kind, options = CHAR_DRAFTERS[name]
            pairs = "".join(f' options {{ key: "{key}" value: "{value}" }}'
                            for key, value in options.items())
            engine = f'engine {{ name: "{name}" type: "{kind}" model: "{CHAR_MODEL}"{pairs} }}'
        self.start_service(f"{name}{number}", engine, ("server.drain_seconds=1",))

    def start_coordinator(self, number, pooled=True):
        def reach(name):
            addresses = [self.address(name + known) for known in (TWO if pooled else (number,))]
            if name == "verifier" and self.relay:
                addresses[0] = self.relay.address
            return ",".join(addresses)
        drafters = "".join(f' drafters {{ name: "{name}" address: "{reach(name)}" }}'
                           for name in CHAR_DRAFTERS)
        settings = ("server.drain_seconds=1", *(["core.warm_up=false"] if pooled else []),
                    *self._settings)
        self.start_service(f"coordinator{number}", f'model: "{CHAR_MODEL}" '
                           f'verifier: "{reach("verifier")}"{drafters}', settings)
        (self._pooled.add if pooled else self._pooled.discard)(f"coordinator{number}")

    def await_replicas(self):
        """Waits until the coordinators that know all replicas are connected to all of them."""
        for coordinator in self._pooled:
            live_cluster.await_true(lambda c=coordinator: self.replicas_ready(c) == 6,
                                    "all replicas are ready")

    def replicas_ready(self, coordinator):
        report = json.loads(live_cluster.get(
            f"http://{self.http_address(coordinator)}/status.json"))
        return sum(link["state"] == "ready" and link["detail"] != "draining"
                   for peer in (report["verifier"], *report["drafters"]) for link in peer["links"])

    def sessions(self, coordinator, peer):
        """{address: sessions} of the replicas of a peer."""
        return {address: float(value) for address, value in re.findall(
            rf'^espalier_link_sessions{{address="([^"]*)",peer="{peer}"}} (\S+)$',
            self.scrape(coordinator), re.M)}


class PoolsTest(LoadedTest):
    def pools(self, **options):
        pools = Pools(**options)
        self.addCleanup(pools.close)
        client = Resuming([pools.address(f"coordinator{number}") for number in TWO])
        self.addCleanup(client.close)
        return pools, client

    def test_verifiers_die_in_turn(self):
        pools, client = self.pools()
        with self.load(client, "verifiers killed") as await_more:
            for number in TWO:
                pools.process(f"verifier{number}").kill()
                pools.process(f"verifier{number}").wait()
                await_more()
                pools.restart(f"verifier{number}")
                pools.await_replicas()
        self.assertEqual(client.resumptions, 0, "a coordinator moves its texts by itself")

    def test_a_node_loses_power(self):
        """No packet comes from the first verifier, and no reset."""
        pools, client = self.pools(relayed=True, settings=("peer_keepalive_ms=500",))
        with self.load(client, "power lost") as await_more:
            live_cluster.await_true(
                lambda: pools.sessions("coordinator", "verifier")[pools.relay.address] > 0,
                "it has a text")
            pools.relay.stall()
            await_more(12)
            pools.relay.go_on()
            await_more()
        self.assertEqual(client.resumptions, 0)

    def test_a_verifier_drains(self):
        """SIGTERM: it ends as soon as its sessions have moved, at the ends of their rounds."""
        pools, client = self.pools()
        with self.load(client, "verifier drained") as await_more:
            process = pools.process("verifier")
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=60), 0)
            print(f"a verifier under load drained within {time.monotonic() - began:.1f} s")
            await_more()
        self.assertEqual(client.resumptions, 0)

    def test_replicas_of_a_drafter_flap(self):
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

    def test_texts_spread_over_the_verifiers_and_end(self):
        pools, client = self.pools()
        seen = set()

        def look(_):
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

    def test_a_rolling_upgrade_fails_no_request(self):
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

    def test_a_name_has_the_verifiers_addresses(self):
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
