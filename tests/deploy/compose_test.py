#!/usr/bin/env python3
"""The cluster of deploy/docker-compose.yml: it starts, answers, is scraped, is
isolated, and survives faults of containers. Builds missing images.

Starts a container engine of its own if none answers and it is root.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import unittest
from collections.abc import Callable, Sequence
from typing import Any

import live_cluster
import stubs
from live_cluster import REPO
from recorded_client import Client, in_midstream

ADDRESS = "127.0.0.1:50051"
SERVICES = ["verifier", "chat", "math", "block", "lookup", "grammar", "coordinator"]


def run(*argv: object, check: bool = True, **options: Any) -> str:
    return subprocess.run([str(word) for word in argv], capture_output=True, text=True,
                          check=check, **options).stdout.strip()


def engine_answers() -> bool:
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


def container(service: str) -> str:
    return run(REPO / "deploy/containers.sh", "compose", "ps", "-q", service)


def process_id(service: str) -> str:
    return run("docker", "inspect", "-f", "{{.State.Pid}}", container(service))


def crash(service: str) -> None:
    """Not by the engine, which would take it for a wish."""
    os.kill(int(process_id(service)), signal.SIGKILL)


def firewall(service: str, *rule: str) -> None:
    """iptables, in the service's network."""
    run("nsenter", "-t", process_id(service), "-n", "iptables", *rule)


class ComposeTest(unittest.TestCase):
    plain: list[int]
    client: Client

    @classmethod
    def setUpClass(cls) -> None:
        run(REPO / "deploy/containers.sh", "up", timeout=1800)
        cls.addClassCleanup(run, REPO / "deploy/containers.sh", "down")
        stubs.make()
        cls.client = Client(ADDRESS)
        cls.addClassCleanup(cls.client.close)
        cls.plain = cls.client.generate(speculate=False).tokens

    def await_healthy(self, service: str) -> None:
        live_cluster.await_true(
            lambda: run("docker", "inspect", "-f", "{{.State.Health.Status}}",
                        container(service)) == "healthy", f"{service} is healthy")

    def assert_streams(self, on_message: Callable[[int], object] = lambda number: None,
                       **options: Any) -> Any:
        record = self.client.generate(on_message, **options)
        self.assertEqual(record.problems(self.plain), [])
        return record

    def assert_text_survives(self, fault: Callable[[], object], repair: Callable[[], object],
                             service: str) -> None:
        """The text during and after a fault is the text without it."""
        self.assert_streams(in_midstream(fault))
        repair()
        self.await_healthy(service)
        self.assert_streams()

    # With all drafters: `budgeted` asks none where the machine is too busy.
    def test_speculation_saves_passes_and_changes_nothing(self) -> None:
        statistics = self.assert_streams(strategy="union").summary.spec_stats
        self.assertGreater(statistics.mean_acceptance_length, 1.3)

    def test_prometheus_scrapes_every_service(self) -> None:
        def states() -> dict[str, Any]:
            url = "http://127.0.0.1:9090/api/v1/query?query=up"
            result = json.loads(live_cluster.get(url))["data"]["result"]
            return {sample["metric"]["instance"].split(":")[0]: sample["value"][1]
                    for sample in result}
        live_cluster.await_true(lambda: states() == {name: "1" for name in SERVICES},
                                "all targets are up")
        self.assertIn("espalier_spec_decode_num_drafts_total",
                      live_cluster.get("http://127.0.0.1:9464/metrics"))

    def test_prometheus_has_the_rules(self) -> None:
        def healths() -> list[Any]:
            groups = json.loads(live_cluster.get("http://127.0.0.1:9090/api/v1/rules"))
            return [rule["health"] for group in groups["data"]["groups"]
                    for rule in group["rules"]]
        live_cluster.await_true(lambda: set(healths()) == {"ok"}, "all rules are evaluated")
        self.assertGreater(len(healths()), 10)

    def test_the_status_page_shows_the_cluster(self) -> None:
        self.assert_streams()
        self.assertIn("<title>Espalier", live_cluster.get("http://127.0.0.1:9464/"))
        status = json.loads(live_cluster.get("http://127.0.0.1:9464/status.json"))
        self.assertEqual({drafter["name"]: drafter["state"] for drafter in status["drafters"]},
                         {name: "ready" for name in SERVICES[1:-1]})
        self.assertGreater(status["counters"]["generated_tokens"], 0)
        self.assertIsNone(status["request"])  # it needs the key

    def test_services_are_locked_in(self) -> None:
        for service in SERVICES:
            with self.subTest(service):
                state = json.loads(run("docker", "inspect", container(service)))[0]
                host = state["HostConfig"]
                self.assertTrue(host["ReadonlyRootfs"])
                self.assertEqual(host["CapDrop"], ["ALL"])
                self.assertIn("no-new-privileges:true", host["SecurityOpt"])
                self.assertEqual(state["Config"]["User"], "65532:65532")
                published = {binding["HostIp"] for bindings in (host["PortBindings"] or {}).values()
                             for binding in bindings}
                self.assertLessEqual(published, {"127.0.0.1"})

    def test_drafters_have_no_route_to_the_verifier(self) -> None:
        def networks(service: str) -> set[str]:
            return set(json.loads(run("docker", "inspect", container(service)))[0]
                       ["NetworkSettings"]["Networks"])
        for drafter in SERVICES[1:-1]:
            self.assertEqual(networks(drafter) & networks("verifier"), set())
        self.assertTrue(networks("coordinator") & networks("verifier"))

    def test_the_coordinator_is_small_and_has_no_torch(self) -> None:
        size = int(run("docker", "image", "inspect", "-f", "{{.Size}}", "espalier-coordinator:local"))
        self.assertLess(size, 170e6)
        libraries = run("docker", "run", "--rm", "--entrypoint", "ldd",
                        "espalier-coordinator:local", "/usr/local/bin/espalier-coordinator")
        self.assertNotIn("torch", libraries)

    def test_the_whole_command_works_in_every_container_that_has_it(self) -> None:
        model = ["--set", "verifier.model=/models/default", "--set", "verifier.threads=1"]
        question = ["--chat", "What is a glacier?", "--temperature", "0", "--max-tokens", "8"]
        expected = run("docker", "exec", container("coordinator"), "espalier", "generate",
                       "--address", "localhost:50051", *question)
        for service in ("coordinator", "verifier", "lookup"):
            def command(*words: str, service: str = service, **options: Any) -> str:
                return run("docker", "exec", "-i", container(service), "espalier", *words, **options)
            with self.subTest(service):
                self.assertEqual(command("generate", "--local", *model, *question), expected)
                rows = command("bench", "--local", *model, "--suite", "chat", "--limit", "1",
                               "--max-tokens", "4", "--json").splitlines()
                self.assertEqual([json.loads(row)["mode"] for row in rows], ["plain", "budgeted"])
                command("bench", "forward", "--model", "/models/default", "--rows", "1",
                        "--context", "8", "--json")
                trees = {"trees": [{"tokens": [1, 2], "parents": [-1, 0], "log_probs": [0, -1]}]}
                self.assertEqual(json.loads(command("lab", "route", input=json.dumps(trees)))
                                 ["chosen"], 0)
                self.assert_serves_in(service, model)

    def assert_serves_in(self, service: str, model: Sequence[str]) -> None:
        """`espalier serve` in the service's container, beside the service."""
        address = "unix:/tmp/beside.sock"
        run("docker", "exec", "-d", container(service), "timeout", "120", "espalier", "serve",
            *model, "--set", f"server.listen={address}", "--set", "server.metrics_listen=none")
        live_cluster.await_true(
            lambda: run("docker", "exec", container(service), "espalier", "check", address,
                        check=False) == "SERVING", f"serve in {service}")

    def test_a_crashed_drafter_is_not_noticed_and_is_restarted(self) -> None:
        self.assert_text_survives(lambda: crash("math"), lambda: None, "math")

    def test_a_frozen_drafter_is_not_noticed(self) -> None:
        name = container("chat")
        self.assert_text_survives(lambda: run("docker", "pause", name),
                                  lambda: run("docker", "unpause", name), "chat")

    def test_a_drafter_cut_off_the_network_is_not_noticed(self) -> None:
        name = container("block")
        self.assert_text_survives(
            lambda: run("docker", "network", "disconnect", "espalier_drafting", name),
            lambda: run("docker", "network", "connect", "--alias", "block", "espalier_drafting",
                        name), "block")

    def test_a_crashed_verifier_goes_on_in_mid_text(self) -> None:
        self.assert_text_survives(lambda: crash("verifier"), lambda: None, "coordinator")

    def test_a_drafter_whose_packets_are_dropped_is_not_noticed(self) -> None:
        for chain in ("INPUT", "OUTPUT"):
            with self.subTest(chain):
                rule = (chain, "-p", "tcp", "-j", "DROP")
                self.assert_text_survives(lambda: firewall("chat", "-A", *rule),
                                          lambda: firewall("chat", "-D", *rule), "chat")

    def test_a_verifier_whose_packets_are_dropped_delays_the_text(self) -> None:
        for chain in ("INPUT", "OUTPUT"):
            with self.subTest(chain):
                rule = (chain, "-p", "tcp", "-j", "DROP")

                def drop_for_a_while() -> None:
                    firewall("verifier", "-A", *rule)
                    threading.Timer(3, firewall, ("verifier", "-D", *rule)).start()
                self.assert_text_survives(drop_for_a_while, lambda: None, "coordinator")

    def test_every_tenth_packet_of_the_verifier_is_lost(self) -> None:
        rule = ("INPUT", "-p", "tcp", "-m", "statistic", "--mode", "random", "--probability",
                "0.1", "-j", "DROP")
        self.assert_text_survives(lambda: firewall("verifier", "-A", *rule),
                                  lambda: firewall("verifier", "-D", *rule), "coordinator")

    def test_services_end_by_themselves_when_told(self) -> None:
        for service in ("lookup", "coordinator"):
            name = container(service)
            run("docker", "stop", name)
            self.assertEqual(run("docker", "inspect", "-f", "{{.State.ExitCode}}", name), "0")
            run("docker", "start", name)
            self.await_healthy(service)


def start_engine() -> subprocess.Popen[bytes] | None:
    """Whether our own engine runs now; None: it may not be started."""
    if os.getuid() != 0 or not shutil.which("dockerd"):
        return None
    processes = live_cluster.Processes()
    process = processes.start("dockerd", "dockerd", f"--pidfile={processes.folder}/pid")
    live_cluster.await_true(engine_answers, "the container engine answers")
    return process


if __name__ == "__main__":
    if why := stubs.missing():
        print(f"skipped: {why}")
        sys.exit(0)
    if not shutil.which("docker") or not (
            shutil.which("docker-compose") or
            subprocess.run(["docker", "compose", "version"], capture_output=True,
                           check=False).returncode == 0):
        print("skipped: docker and docker-compose are not installed")
        sys.exit(0)
    engine = None
    if not engine_answers() and (engine := start_engine()) is None:
        print("skipped: no container engine answers, and none may be started")
        sys.exit(0)
    try:
        passed = unittest.main(verbosity=2, exit=False).result.wasSuccessful()
    finally:
        if engine is not None:
            engine.terminate()
            engine.wait()
    sys.exit(0 if passed else 1)
