"""Two coordinators, two verifiers and two replicas of each drafter as processes."""

import json
import pathlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import live_cluster
from live_cluster import BIN, CHAR_DRAFTERS, CHAR_MODEL, Services
from recorded_client import counter
from relay import Relay
from resuming_client import LoadedTest, Resuming

TWO = ("", "2")  # of each service


class Pools(Services):
    """`relayed`: replicas that are reached through `relays[name]`. `others`: more replicas of
    peers, name -> addresses. `programs`: the folder of all. `pooled`: coordinators know all
    replicas of each peer; those of version 0.2 know one."""

    def __init__(self, relayed: Collection[str] = (), others: Mapping[str, list[str]] | None = None,
                 settings: Sequence[str] = (), programs: pathlib.Path = BIN,
                 pooled: bool = True) -> None:
        super().__init__()
        self.programs = programs
        self._settings = settings
        self._pooled: set[str] = set()
        self._others = others or {}
        self.relays = {name: Relay(f"{self.folder}/{name}.relay", f"{self.folder}/{name}.sock")
                       for name in relayed}
        try:
            self._start(pooled)
        except Exception:
            self.close()
            raise

    def _start(self, pooled: bool) -> None:
        for number in TWO:
            for name in ("verifier", *CHAR_DRAFTERS):
                self.start_replica(name, number)
        for number in TWO:
            self.start_coordinator(number, pooled)
        for number in TWO:
            self.await_serving(f"coordinator{number}")
        self.await_replicas()

    def start_replica(self, name: str, number: str) -> None:
        if name == "verifier":
            engine = f'engine {{ model: "{CHAR_MODEL}" threads: 1 }}'
        else:
            kind, options = CHAR_DRAFTERS[name]
            pairs = "".join(f' options {{ key: "{key}" value: "{value}" }}'
                            for key, value in options.items())
            engine = f'engine {{ name: "{name}" type: "{kind}" model: "{CHAR_MODEL}"{pairs} }}'
        self.start_service(f"{name}{number}", engine, ("server.drain_seconds=1",))

    def start_coordinator(self, number: str, pooled: bool = True) -> None:
        def reach(name: str) -> str:
            replicas = [name + known for known in (TWO if pooled else (number,))]
            addresses = [self.relays[replica].address if replica in self.relays
                         else self.address(replica) for replica in replicas]
            return ",".join(addresses + self._others.get(name, []))
        drafters = "".join(f' drafters {{ name: "{name}" address: "{reach(name)}" }}'
                           for name in CHAR_DRAFTERS)
        settings = ("server.drain_seconds=1", *(["core.warm_up=false"] if pooled else []),
                    *self._settings)
        self.start_service(f"coordinator{number}", f'model: "{CHAR_MODEL}" '
                           f'verifier: "{reach("verifier")}"{drafters}', settings)
        (self._pooled.add if pooled else self._pooled.discard)(f"coordinator{number}")

    def await_replicas(self) -> None:
        """Waits until the coordinators that know all replicas are connected to all of them."""
        for coordinator in self._pooled:
            live_cluster.await_true(lambda c=coordinator: self.replicas_ready(c) >= 6,
                                    "all replicas are ready")

    def replicas_ready(self, coordinator: str) -> int:
        report = json.loads(live_cluster.get(
            f"http://{self.http_address(coordinator)}/status.json"))
        return sum(link["state"] == "ready" and link["detail"] != "draining"
                   for peer in (report["verifier"], *report["drafters"]) for link in peer["links"])

    def sessions(self, coordinator: str, peer: str) -> dict[str, Any]:
        """{address: sessions} of the replicas of a peer."""
        return {address: float(value) for address, value in re.findall(
            rf'^espalier_link_sessions{{address="([^"]*)",peer="{peer}"}} (\S+)$',
            self.scrape(coordinator), re.M)}

    def total(self, name: str, **labels: str) -> float:
        """The sum of a counter of both coordinators."""
        return sum(counter(self, name, f"coordinator{number}", **labels) for number in TWO)

    def busiest_verifier(self) -> str:
        """The name of the verifier with the most sessions, once one has any."""
        def reached(name: str) -> str:
            return self.relays[name].address if name in self.relays else self.address(name)

        def load(name: str) -> float:
            return sum(self.sessions(f"coordinator{number}", "verifier")[reached(name)]
                       for number in TWO)
        names = [f"verifier{number}" for number in TWO]
        live_cluster.await_true(lambda: any(map(load, names)), "a verifier has sessions")
        return max(names, key=load)


class PoolsTestCase(LoadedTest):
    """Starts pools, and a client that knows both coordinators."""

    def pools(self, **options: Any) -> tuple[Pools, Resuming]:
        pools = Pools(**options)
        self.addCleanup(pools.close)
        client = Resuming([pools.address(f"coordinator{number}") for number in TWO],
                          strategy="union")
        self.addCleanup(client.close)
        return pools, client
