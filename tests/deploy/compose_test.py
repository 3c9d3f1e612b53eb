#!/usr/bin/env python3
"""The cluster of deploy/docker-compose.yml: starts, answers, is scraped, is
locked in, and survives what happens to containers. Builds what images lack.

Starts a container engine of its own where none answers and it may (root).
"""

import json
import os
import shutil
import subprocess
import sys
import time
import unittest

import live_cluster
from live_cluster import BIN, REPO

ADDRESS = "127.0.0.1:50051"
SERVICES = ["verifier", "chat", "math", "block", "lookup", "coordinator"]
PROMPT = "What is a glacier?"


def run(*argv, check=True, **options):
    return subprocess.run([str(word) for word in argv], capture_output=True, text=True,
                          check=check, **options).stdout.strip()


def engine_answers():
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


def container(service):
    return run(REPO / "deploy/containers.sh", "compose", "ps", "-q", service)


def generate(*flags, meanwhile=lambda: None):
    """An answer; `meanwhile` runs when the request has been sent."""
    process = subprocess.Popen(
        [BIN / "espalier", "generate", "--address", ADDRESS, "--chat", PROMPT, "--json",
         "--max-tokens", "120", "--temperature", "1", "--seed", "7", "--ignore-eos", *flags],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(0.4)  # into the stream; the outcome may not depend on it
    meanwhile()
    out, err = process.communicate(timeout=120)
    if process.returncode != 0:
        raise AssertionError(err)
    return json.loads(out)


class ComposeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        run(REPO / "deploy/containers.sh", "up", timeout=1800)
        cls.addClassCleanup(run, REPO / "deploy/containers.sh", "down")
        cls.plain = generate("--no-speculation")["token_ids"]

    def await_healthy(self, service):
        live_cluster.await_true(
            lambda: run("docker", "inspect", "-f", "{{.State.Health.Status}}",
                        container(service)) == "healthy", f"{service} is healthy")

    def assert_text_survives(self, fault, repair, service):
        """The text during and after a fault is the text without it."""
        self.assertEqual(generate(meanwhile=fault)["token_ids"], self.plain)
        repair()
        self.await_healthy(service)
        self.assertEqual(generate()["token_ids"], self.plain)

    def test_speculation_pays_and_changes_nothing(self):
        answer = generate()
        self.assertEqual(answer["token_ids"], self.plain)
        self.assertGreater(answer["spec_stats"]["mean_acceptance_length"], 1.3)

    def test_prometheus_scrapes_every_service(self):
        def states():
            url = "http://127.0.0.1:9090/api/v1/query?query=up"
            result = json.loads(live_cluster.get(url))["data"]["result"]
            return {sample["metric"]["instance"].split(":")[0]: sample["value"][1]
                    for sample in result}
        live_cluster.await_true(lambda: states() == {name: "1" for name in SERVICES},
                                "all targets are up")
        self.assertIn("espalier_spec_decode_num_drafts_total",
                      live_cluster.get("http://127.0.0.1:9464/metrics"))

    def test_services_are_locked_in(self):
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

    def test_the_coordinator_is_small_and_has_no_torch(self):
        size = int(run("docker", "image", "inspect", "-f", "{{.Size}}", "espalier-coordinator:local"))
        self.assertLess(size, 150e6)
        libraries = run("docker", "run", "--rm", "--entrypoint", "ldd",
                        "espalier-coordinator:local", "/usr/local/bin/espalier-coordinator")
        self.assertNotIn("torch", libraries)

    def test_a_crashed_drafter_is_not_noticed_and_is_restarted(self):
        def crash():
            os.kill(int(run("docker", "inspect", "-f", "{{.State.Pid}}", container("math"))), 9)
        self.assert_text_survives(crash, lambda: None, "math")

    def test_a_frozen_drafter_is_not_noticed(self):
        name = container("chat")
        self.assert_text_survives(lambda: run("docker", "pause", name),
                                  lambda: run("docker", "unpause", name), "chat")

    def test_a_drafter_cut_off_the_network_is_not_noticed(self):
        name = container("block")
        self.assert_text_survives(
            lambda: run("docker", "network", "disconnect", "espalier_cluster", name),
            lambda: run("docker", "network", "connect", "--alias", "block", "espalier_cluster",
                        name), "block")

    def test_a_crashed_verifier_goes_on_in_mid_text(self):
        def crash():
            os.kill(int(run("docker", "inspect", "-f", "{{.State.Pid}}", container("verifier"))), 9)
        self.assert_text_survives(crash, lambda: None, "coordinator")

    def test_services_end_by_themselves_when_told(self):
        for service in ("lookup", "coordinator"):
            name = container(service)
            run("docker", "stop", name)
            self.assertEqual(run("docker", "inspect", "-f", "{{.State.ExitCode}}", name), "0")
            run("docker", "start", name)
            self.await_healthy(service)


def start_engine():
    """Whether an engine of our own runs now; None: it may not be started."""
    if os.getuid() != 0 or not shutil.which("dockerd"):
        return None
    processes = live_cluster.Processes()
    process = processes.start("dockerd", "dockerd", f"--pidfile={processes.folder}/pid")
    live_cluster.await_true(engine_answers, "the container engine answers")
    return process


if __name__ == "__main__":
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
