#!/usr/bin/env python3
"""deploy/docker-compose.yml without a container engine: in each profile services find
each other, and the commands of the profile `gpu` run a cluster, on the emulated device.
"""

import importlib.util
import json
import re
import subprocess
import sys
import unittest
import urllib.error
import urllib.request
from typing import Any

import live_cluster
from live_cluster import BIN, REPO

sys.path.insert(0, str(REPO / "tests/device"))

import layouts  # noqa: E402
import shapes  # noqa: E402

MODEL = shapes.TINY | {"eos_token_id": 0}  # for the drafter `grammar`
NETWORKS = {"chat": ("eagle", shapes.TINY_HEAD), "math": ("eagle", shapes.TINY_HEAD),
            "block": ("dflash", shapes.TINY_BLOCK)}
ADDRESS = re.compile(r"([\w.]+):(\d{4,5})\b")


def read_yaml(path: str) -> Any:
    import yaml
    return yaml.safe_load((REPO / path).read_text())


class Profile:
    """The services that run in a profile."""

    def __init__(self, name: str) -> None:
        self.services = {
            service: spec for service, spec in
            read_yaml("deploy/docker-compose.yml")["services"].items()
            if name in spec.get("profiles", [name])}

    def networks(self, service: str) -> dict[str, Any]:
        """{network: the service's names there}."""
        networks = self.services[service].get("networks", [])
        if isinstance(networks, list):
            networks = dict.fromkeys(networks)
        return {network: {service, *((options or {}).get("aliases", []))}
                for network, options in networks.items()}

    def named(self, host: str, client: str) -> list[str]:
        """Services that `client` reaches by that name."""
        own = self.networks(client)
        return [service for service in self.services
                if any(host in names and network in own
                       for network, names in self.networks(service).items())]

    def addresses(self, service: str, field: str) -> list[Any]:
        """(host, port) of the fields of the command whose names end so."""
        return [match.groups() for word in self.services[service].get("command", [])
                for match in [ADDRESS.search(word)]
                if match and re.search(field + r"(\.\d)?=", word)]

    def ports(self, service: str, field: str = r"server\.listen") -> set[str]:
        return {port for _, port in self.addresses(service, field)}


def profiles() -> dict[str, Any]:
    return {name: Profile(name) for name in ("cpu", "gpu")}


class ComposeFileTest(unittest.TestCase):
    def test_the_coordinator_finds_its_peers(self) -> None:
        for name, profile in profiles().items():
            peers = (profile.addresses("coordinator", "verifier") +
                     profile.addresses("coordinator", r"drafters\.\d\.address"))
            self.assertEqual(len(peers), 6)
            for host, port in peers:
                with self.subTest(f"{name}: {host}"):
                    found = profile.named(host, "coordinator")
                    self.assertEqual(len(found), 1)
                    self.assertIn(port, profile.ports(found[0]))

    def test_all_that_is_needed_runs(self) -> None:
        for name, profile in profiles().items():
            for service, spec in profile.services.items():
                with self.subTest(f"{name}: {service}"):
                    self.assertLessEqual(set(spec.get("depends_on", {})), set(profile.services))

    def test_the_health_check_of_the_image_is_answered(self) -> None:
        for name, profile in profiles().items():
            for service in profile.services:
                if profile.ports(service):
                    self.assertIn("50051", profile.ports(service), f"{name}: {service}")

    def test_prometheus_scrapes_every_service_once(self) -> None:
        for name, profile in profiles().items():
            prometheus = profile.named("prometheus", "prometheus" if name == "cpu" else
                                       "prometheus-gpu")[0]
            file = next(word.split("/")[-1] for word in profile.services[prometheus]["command"]
                        if "config.file" in word)
            targets = [target.split(":") for job in
                       read_yaml(f"deploy/prometheus/{file}")["scrape_configs"]
                       for config in job["static_configs"] for target in config["targets"]]
            found = [profile.named(host, prometheus) for host, _ in targets]
            self.assertEqual(sorted(found), sorted(
                [service] for service in profile.services
                if profile.ports(service, "metrics_listen")))
            for (service,), (_, port) in zip(found, targets):
                self.assertIn(port, profile.ports(service, "metrics_listen"))

    def test_drafters_have_no_route_to_the_verifier(self) -> None:
        for name, profile in profiles().items():
            verifier, = profile.named("verifier", "coordinator")
            for service, spec in profile.services.items():
                if spec["image"] == "espalier-drafter:local":
                    self.assertFalse(set(profile.networks(verifier)) &
                                     set(profile.networks(service)), f"{name}: {service}")


class GpuProfileTest(unittest.TestCase):
    """Its commands, with other folders and free ports."""
    ports: dict[tuple[str, str], str]
    profile: Profile
    processes: live_cluster.Processes

    @classmethod
    def setUpClass(cls) -> None:
        cls.processes = live_cluster.Processes()
        cls.addClassCleanup(cls.processes.close)
        cls.profile = Profile("gpu")
        cls.ports = {}
        folder = cls.processes.folder
        for token in ("verifier.token", "drafter.token", "http.token"):
            (folder / token).write_text("0123456789abcdef" + token)
        numbers = layouts.Numbers()
        layouts.write_folder(folder / "model", MODEL, layouts.language_model(MODEL), numbers)
        for name, (kind, config) in NETWORKS.items():
            layouts.write_folder(folder / "model/drafters" / name, config,
                                 layouts.LAYOUTS[kind](config), numbers)
        cls.start("node", "verifier.engine.device=emulated", "verifier.engine.max_tree_nodes=8")
        for service in ("lookup", "grammar"):
            cls.start(service)
        cls.start("coordinator", "core.draft_timeout_ms=10000")
        live_cluster.await_true(lambda: cls.processes.gone() or cls.is_serving(), "all serve")

    @classmethod
    def port(cls, service: str, port: str) -> str:
        if (service, port) not in cls.ports:
            cls.ports[service, port] = str(live_cluster.free_port())
        return cls.ports[service, port]

    @classmethod
    def start(cls, service: str, *sets: str) -> None:
        spec = cls.profile.services[service]

        def here(match: re.Match[str]) -> str:
            host, port = match.groups()
            is_own = host in ("0.0.0.0", "127.0.0.1")
            other = service if is_own else cls.profile.named(host, service)[0]
            return f"127.0.0.1:{cls.port(other, port)}"
        words = [ADDRESS.sub(here, word) for word in spec["command"]]
        for inside, outside in {"/etc/espalier": REPO / "deploy/config",
                                "/models/default": cls.processes.folder / "model",
                                "/drafter-secrets": cls.processes.folder,
                                "/secrets": cls.processes.folder}.items():
            words = [word.replace(inside, str(outside)) for word in words]
        program = spec.get("entrypoint", [spec["image"].split(":")[0]])[0]
        cls.processes.start(service, BIN / program, *words, *(f"--set={text}" for text in sets))

    @classmethod
    def is_serving(cls) -> bool:
        try:
            page = live_cluster.get(
                f"http://127.0.0.1:{cls.port('coordinator', '9464')}/status.json")
        except OSError:
            return False
        return {drafter["state"] for drafter in json.loads(page)["drafters"]} == {"ready"}

    def generate(self, *flags: str) -> dict[str, Any]:
        done = subprocess.run(
            [BIN / "espalier", "generate", "--json", "--ignore-eos", "--max-tokens", "8",
             "--token-ids", "5,6,7,8,9", "--seed", "5", "--temperature", "1",
             "--address", f"127.0.0.1:{self.port('coordinator', '50051')}", *flags],
            capture_output=True, text=True, timeout=live_cluster.PATIENCE_S, check=True)
        return json.loads(done.stdout)

    def test_every_network_drafts_and_the_text_is_the_plain_one(self) -> None:
        self.assertEqual(self.processes.gone(), {})
        plain = self.generate("--no-speculation")
        for name in NETWORKS:
            with self.subTest(name):
                answer = self.generate("--drafters", name, "--nodes", "8")
                self.assertEqual(answer["token_ids"], plain["token_ids"])
                self.assertGreater(answer["spec_stats"]["num_draft_tokens"], 0)

    def test_http_answers_to_its_key(self) -> None:
        url = f"http://127.0.0.1:{self.port('coordinator', '8080')}/v1/models"
        with self.assertRaises(urllib.error.HTTPError) as refused:
            live_cluster.get(url)
        self.assertEqual(refused.exception.code, 401)
        request = urllib.request.Request(url, headers={"X-Api-Key": "0123456789abcdefhttp.token"})
        with urllib.request.urlopen(request, timeout=live_cluster.PATIENCE_S) as models:
            self.assertEqual(len(json.load(models)["data"]), 1)

    def test_one_page_has_the_metrics_of_verifier_and_drafters(self) -> None:
        page = live_cluster.get(f"http://127.0.0.1:{self.port('node', '9464')}/metrics")
        self.assertIn("espalier_verifier_forward_seconds", page)
        for name in NETWORKS:
            self.assertIn(f'espalier_draft_compute_seconds_count{{drafter="{name}"}}', page)


if __name__ == "__main__":
    if not importlib.util.find_spec("yaml"):
        print("skipped: python3-yaml is not installed")
        sys.exit(0)
    unittest.main(verbosity=2)
