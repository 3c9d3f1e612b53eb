#!/usr/bin/env python3
"""`espalier conformance` against our drafters, one in Python, and faulty ones."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
from collections.abc import Mapping

import live_cluster
import stubs
from live_cluster import BIN, CHAR_MODEL, REPO

FIXTURES = REPO / "tests/drafter/golden/fixtures"
CACHE = os.environ.get("ESPALIER_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "espalier")
DEFAULT_MODEL = pathlib.Path(CACHE) / "models/smollm2-135m-instruct"

# Beside the usual drafters, the model's first layer drafts and samples its trees.
DRAFTERS = live_cluster.CHAR_DRAFTERS | {
    "exit": ("lm", {"layers": 1, "scheme": "sampled"})}


def char_identity(cluster: live_cluster.Cluster) -> tuple[str, str]:
    """Vocabulary size and fingerprint of the character model, from `espalier info`."""
    out = subprocess.run([BIN / "espalier", "info", "--address", cluster.address("coordinator")],
                         capture_output=True, text=True, check=True).stdout
    found = live_cluster.found(r"^vocabulary +(\d+) tokens, fingerprint (\w+)$", out, re.M)
    return found[1], found[2]


def conformance(
        address: str,
        model: str | pathlib.Path = CHAR_MODEL) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    done = subprocess.run([BIN / "espalier", "conformance", address, "--model", model,
                           "--timeout", "30"], capture_output=True, text=True, check=False)
    failed = [line.removeprefix("FAILED").split(":")[0].strip()
              for line in done.stdout.splitlines() if line.startswith("FAILED")]
    return done, failed


class ConformanceTest(unittest.TestCase):
    stubs: str
    identity: tuple[str, str]
    cluster: live_cluster.Cluster

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = live_cluster.Cluster(drafters=DRAFTERS)
        cls.addClassCleanup(cls.cluster.close)
        cls.identity = char_identity(cls.cluster)
        cls.stubs = stubs.make()

    def start(self, script: str | pathlib.Path, name: str, *argv: object) -> str:
        """Starts a drafter in Python; returns its address."""
        address = f"unix:{self.cluster.folder}/{name}.sock"
        self.cluster.start(name, "env", f"PYTHONPATH={self.stubs}", sys.executable, script, *argv,
                           address, *self.identity)
        live_cluster.await_true((self.cluster.folder / f"{name}.sock").exists, f"{name} listens")
        return address

    def assert_conforms(self, address: str, model: str | pathlib.Path = CHAR_MODEL) -> None:
        done, _ = conformance(address, model)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreaterEqual(done.stdout.count("ok  "), 16)

    def assert_conforms_and_drafts(self, services: live_cluster.Services, name: str,
                                   model: str | pathlib.Path) -> None:
        self.assert_conforms(services.address(name), model)
        drafted = live_cluster.found(r"^espalier_drafter_proposed_nodes_total\S* (\S+)$",
                                     services.scrape(name), re.M)
        self.assertGreater(float(drafted[1]), 100)  # more than roots

    def assert_drafters_conform(self, model: str | pathlib.Path,
                                drafters: Mapping[str, tuple[str, str | pathlib.Path]]) -> None:
        """{name: (type, folder)} of drafters for the target `model`, one by one."""
        for name, (kind, folder) in drafters.items():
            with self.subTest(name):
                services = live_cluster.Services()
                self.addCleanup(services.close)
                services.start_drafter(name, kind, {"model": folder}, model)
                services.await_serving(name)
                self.assert_conforms_and_drafts(services, name, model)
                services.process(name).kill()

    def test_our_drafters(self) -> None:
        for name in DRAFTERS:
            with self.subTest(name):
                self.assert_conforms_and_drafts(self.cluster, name, CHAR_MODEL)

    @live_cluster.nightly
    def test_our_draft_heads_and_block_drafters_of_random_weights(self) -> None:
        for target in ("tied", "untied"):
            model = self.cluster.folder / target
            shutil.copytree(FIXTURES / "targets" / target, model)
            shutil.copy(CHAR_MODEL / "tokenizer.json", model)
            made = {path.parent: json.loads(path.read_text())
                    for path in sorted(FIXTURES.glob("*/expected.json"))}
            self.assert_drafters_conform(model, {
                folder.name: (about["type"], folder / "head") for folder, about in made.items()
                if about["target"] == target})

    @unittest.skipUnless(DEFAULT_MODEL.exists(), "the default model is not there")
    def test_the_drafters_of_the_default_model(self) -> None:
        heads = DEFAULT_MODEL / "drafters"
        self.assert_drafters_conform(DEFAULT_MODEL, {
            "chat": ("eagle", heads / "chat"), "math": ("eagle", heads / "math"),
            "block": ("dflash", heads / "block")})

    def test_the_example_in_python(self) -> None:
        self.assert_conforms(self.start(REPO / "deploy/examples/python_drafter/drafter.py",
                                        "example"))

    def test_liars_are_found(self) -> None:
        script = REPO / "tests/deploy/scripted_drafter.py"
        for fault in ("cycle", "wrong_token", "not_a_number", "ragged", "huge", "wrong_root",
                      "wrong_round", "wrong_length", "end_stream"):
            with self.subTest(fault):
                done, failed = conformance(self.start(script, fault, fault))
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn("proposes valid trees for a text that grows", failed)

    def test_a_service_that_is_no_drafter_fails_every_check(self) -> None:
        done, failed = conformance(self.cluster.address("verifier"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("says hello", failed)


if __name__ == "__main__":
    if why := stubs.missing():
        print(f"skipped: {why}")
        sys.exit(0)
    unittest.main(verbosity=2)
