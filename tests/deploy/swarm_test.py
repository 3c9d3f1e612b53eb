#!/usr/bin/env python3
"""deploy/swarm on a Docker Swarm of three hosts, under load: a cable is pulled, services are
restarted in rolling order, verifiers are scaled, and a partition heals. No request fails, and
every text is the one of a cluster without faults."""

import contextlib
import json
import pathlib
import re
import shutil
import ssl
import subprocess
import sys
import time
import unittest
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

import live_cluster
import stubs
import swarm_bed
from live_cluster import BIN, CHAR_MODEL, REPO
from recorded_client import PROMPT
from resuming_client import LoadedTest, Resuming

PROGRAMS = ("espalier", "espalier-coordinator", "espalier-verifier", "espalier-drafter")
REPLICAS = {"verifier": 2, "lookup": 2, "suffix": 2, "coordinator": 3}
live_cluster.PATIENCE_S = 300  # a swarm takes half a minute to give a host up


def make_image(folder: pathlib.Path) -> str:
    """A tar file of the programs and the libraries that they are linked with."""
    root = pathlib.Path(folder) / "image"
    for part in ("usr/local/bin", "lib/x86_64-linux-gnu", "lib64", "tmp", "models"):
        (root / part).mkdir(parents=True)
    libraries = set()
    for program in PROGRAMS:
        subprocess.run(["strip", "-o", root / "usr/local/bin" / program, BIN / program], check=True)
        libraries.update(re.findall(r"(/\S+) \(0x", swarm_bed.run("ldd", BIN / program)))
    for library in libraries:
        shutil.copy(library, root / ("lib64" if "/ld-linux" in library else
                                     "lib/x86_64-linux-gnu"))
    swarm_bed.run("tar", "-C", root, "-cf", f"{folder}/image.tar", ".")
    shutil.rmtree(root)
    return f"{folder}/image.tar"


class SwarmTest(LoadedTest):
    addresses: list[str]
    swarm: swarm_bed.Swarm
    folder: pathlib.Path

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.folder = cls.reference.folder
        cls.swarm = swarm_bed.Swarm(3, cls.folder)
        cls.addClassCleanup(cls.swarm.end)
        cls.addresses = [host.address for host in cls.swarm.hosts]
        cls.prepare_hosts()
        began = time.monotonic()
        cls.deploy()
        print(f"the stack serves after {time.monotonic() - began:.0f} s")

    @classmethod
    def prepare_hosts(cls) -> None:
        """What deploy/swarm/README.md asks for: images, the model, secrets, labels."""
        image = make_image(cls.folder)
        shutil.copytree(CHAR_MODEL, cls.folder / "models/default")
        for path in (cls.folder, cls.folder / "models"):
            path.chmod(0o755)
        swarm_bed.run(REPO / "deploy/swarm/secrets.sh", cls.folder / "secrets", *cls.addresses)
        for host in cls.swarm.hosts:
            host.docker("import", "--change", "ENV PATH=/usr/local/bin", image, "espalier:local")
            for service in ("coordinator", "verifier", "drafter"):
                host.docker("tag", "espalier:local", f"espalier-{service}:local")
            cls.swarm.hosts[0].docker("node", "update", host.name, *(
                f"--label-add=espalier.{role}=true"
                for role in ("verifier", "drafter", "coordinator")))

    @classmethod
    def deploy(cls) -> None:
        cls.swarm.hosts[0].docker(
            "stack", "deploy", "--resolve-image", "never", "--compose-file",
            REPO / "deploy/swarm/stack.yml", "espalier",
            env=swarm_bed.environment(ESPALIER_MODELS=cls.folder / "models",
                                      ESPALIER_SECRETS=cls.folder / "secrets"))
        cls.await_replicas(cls.swarm.hosts[0], REPLICAS)

    @classmethod
    def await_replicas(cls, manager: swarm_bed.Host, replicas: Mapping[str, int]) -> None:
        """Waits until so many replicas of each service are healthy."""
        for service, count in replicas.items():
            live_cluster.await_true(
                lambda s=service, c=count: len(cls.swarm.running(f"espalier_{s}", manager)) == c,
                f"{count} of {service} run")

    def setUp(self) -> None:
        import grpc
        token = (self.folder / "secrets/client.token").read_text().strip()
        credentials = grpc.composite_channel_credentials(
            grpc.ssl_channel_credentials((self.folder / "secrets/ca.crt").read_bytes()),
            grpc.access_token_call_credentials(token))
        self.client = Resuming([f"{address}:50051" for address in self.addresses], credentials)
        self.addCleanup(self.client.close)
        self.manager = self.swarm.hosts[0]
        self.addCleanup(self.repair)
        self.await_replicas(self.manager, REPLICAS)

    def repair(self) -> None:
        for host in self.swarm.hosts:
            host.plug_cable_in()
            host.isolate(False)

    def loaded(self, what: str) -> contextlib.AbstractContextManager[Callable[..., None]]:
        # Health checks and raft need the processors, too.
        return self.load(self.client, what, pause_s=0.2)

    def sessions(self, address: str, peer: str) -> dict[str, Any]:
        """{host of a replica: sessions} as the coordinator at `address` has them."""
        request = urllib.request.Request(f"http://{address}:9464/metrics", headers={
            "authorization": "Bearer " +
                             (self.folder / "secrets/prometheus.token").read_text().strip()})
        with urllib.request.urlopen(request, timeout=5) as response:
            text = response.read().decode()
        return {host: float(value) for host, value in re.findall(
            rf'^espalier_link_sessions{{address="([^"]*):\d+",peer="{peer}"}} (\S+)$', text, re.M)}

    def hosts_of(self, service: str) -> dict[str, Any]:
        """{address in the cluster's network: host} of the service's replicas."""
        named = {host.name: host for host in self.swarm.hosts}
        found = {}
        for task in self.swarm.tasks(f"espalier_{service}", self.manager):
            attachments = json.loads(self.manager.docker(
                "inspect", task["ID"], "--format", "{{json .NetworksAttachments}}"))
            for attachment in attachments:
                for address in attachment["Addresses"]:
                    found[address.split("/")[0]] = named[task["Node"]]
        return found

    def busiest_verifier(self) -> swarm_bed.Host:
        """The host of the verifier with the most sessions."""
        totals: dict[str, float] = {}
        for address in self.addresses:
            for host, count in self.sessions(address, "verifier").items():
                totals[host] = totals.get(host, 0) + count
        hosts = self.hosts_of("verifier")
        return hosts[max(totals, key=lambda address: totals[address] * (address in hosts))]

    def test_the_command_and_http_reach_it(self) -> None:
        """As deploy/swarm/README.md says."""
        secrets = self.folder / "secrets"
        answer = json.loads(swarm_bed.run(
            BIN / "espalier", "generate", "--address",
            ",".join(f"{address}:50051" for address in self.addresses), "--ca", secrets / "ca.crt",
            "--token-file", secrets / "client.token", "--prompt", PROMPT, "--temperature", 1,
            "--seed", 5, "--max-tokens", 160, "--ignore-eos", "--json"))
        self.assertEqual(answer["token_ids"], self.texts[5])
        request = urllib.request.Request(
            f"https://{self.addresses[1]}:8080/v1/completions", json.dumps({
                "prompt": PROMPT, "temperature": 1, "seed": 5, "max_tokens": 160,
                "ignore_eos": True, "return_token_ids": True}).encode(),
            {"content-type": "application/json",
             "authorization": "Bearer " + (secrets / "http_keys").read_text().strip()})
        with urllib.request.urlopen(request, timeout=30, context=ssl.create_default_context(
                cafile=secrets / "ca.crt")) as response:
            answer = json.loads(response.read())
        self.assertEqual(answer["choices"][0]["token_ids"], self.texts[5])

    def test_a_cable_is_pulled(self) -> None:
        with self.loaded("a cable is pulled") as await_more:
            host = live_cluster.await_true(self.busiest_verifier, "a verifier has sessions")
            self.manager = next(other for other in self.swarm.hosts if other is not host)
            began = time.monotonic()
            host.pull_cable()
            await_more()
            live_cluster.await_true(
                lambda: host.name not in self.swarm.running("espalier_verifier", self.manager) and
                len(self.swarm.running("espalier_verifier", self.manager)) == 2,
                "the verifier runs on another host")
            print(f"  two verifiers again after {time.monotonic() - began:.0f} s")
            await_more()
            began = time.monotonic()
            host.plug_cable_in()
            live_cluster.await_true(lambda: self.swarm.is_ready(host, self.manager),
                                    "the host is part of the swarm again")
            self.await_replicas(self.manager, REPLICAS)
            print(f"  plugged in again: whole after {time.monotonic() - began:.0f} s")

    def test_services_restart_in_rolling_order(self) -> None:
        with self.loaded("rolling restart") as await_more:
            for service in REPLICAS:
                began = time.monotonic()
                self.manager.docker("service", "update", "--force", "--detach=false",
                                    f"espalier_{service}")
                print(f"  {service}: {time.monotonic() - began:.0f} s")
                await_more()

    def test_verifiers_are_scaled(self) -> None:
        with self.loaded("verifiers scaled") as await_more:
            for count in (1, 3, 1, 2):
                began = time.monotonic()
                self.manager.docker("service", "scale", "--detach=false",
                                    f"espalier_verifier={count}")
                print(f"  {count} verifiers: {time.monotonic() - began:.0f} s")
                await_more(12)

    def test_a_partition_heals(self) -> None:
        """Two hosts do not reach each other for 10 s; the third one and clients reach both."""
        with self.loaded("a partition of 10 s") as await_more:
            parted = self.swarm.hosts[1:]
            for host in parted:
                host.isolate(True)
            end = time.monotonic() + 10
            while time.monotonic() < end:
                await_more(1)
            for host in parted:
                host.isolate(False)
            await_more(12)
            self.await_replicas(self.manager, REPLICAS)


if __name__ == "__main__":
    if why := swarm_bed.missing() or stubs.missing():
        print(f"skipped: {why}")
        sys.exit(0)
    swarm_bed.in_a_network_of_its_own()
    unittest.main(verbosity=2)
