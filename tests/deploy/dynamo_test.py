#!/usr/bin/env python3
"""deploy/examples/dynamo_worker: Dynamo's own frontend with two workers, each of which has a
coordinator. A worker or a coordinator is killed in mid-stream; an OpenAI client gets the text
that it gets without the fault."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest
import urllib.error
from collections.abc import Callable
from typing import Any

import live_cluster
from live_cluster import CHAR_MODEL, REPO, Services
from recorded_client import gauges
from relay import Relay

EXAMPLE = REPO / "deploy/examples/dynamo_worker"
CACHE = pathlib.Path(os.environ.get("ESPALIER_CACHE", pathlib.Path.home() / ".cache/espalier"))
CLIENT = CACHE / "clients/bin/python"
DYNAMO = CACHE / "dynamo"
WORKERS = ("1", "2")
# The character model has no end of sequence and no template, which the frontend wants.
MODEL_EXTRAS = {"generation_config.json": {"eos_token_id": 3},
                "tokenizer_config.json": {"chat_template": "{{ messages[0].content }}"}}


def install() -> str:
    """Makes the environment that the example asks for. Returns why that failed, or ""."""
    wanted = (EXAMPLE / "requirements.txt").read_text()
    stamp = DYNAMO / ".stamp"
    if stamp.exists() and stamp.read_text() == wanted:
        return ""
    shutil.rmtree(DYNAMO, ignore_errors=True)
    for command in ((sys.executable, "-m", "venv", DYNAMO),
                    (DYNAMO / "bin/pip", "install", "--quiet", "--no-deps", "--requirement",
                     EXAMPLE / "requirements.txt")):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return done.stderr.strip().splitlines()[-1]
    stamp.write_text(wanted)
    return ""


class DynamoTest(unittest.TestCase):
    url: str
    model: pathlib.Path
    folder: pathlib.Path
    services: live_cluster.Services

    @classmethod
    def setUpClass(cls) -> None:
        cls.services = Services()
        cls.addClassCleanup(cls.services.close)
        cls.folder = cls.services.folder
        cls.model = cls.folder / "model"
        shutil.copytree(CHAR_MODEL, cls.model)
        for name, content in MODEL_EXTRAS.items():
            (cls.model / name).write_text(json.dumps(content))
        cls.start_cluster()
        cls.make_stubs()
        for number in WORKERS:
            cls.start_worker(number)
        cls.url = f"http://127.0.0.1:{live_cluster.free_port()}"
        cls.start_dynamo("frontend", "-m", "dynamo.frontend", "--http-host", "127.0.0.1",
                         "--http-port", cls.url.rpartition(":")[2], "--migration-limit", "3")
        cls.await_instances()

    @classmethod
    def start_cluster(cls) -> None:
        cls.services.start_service("verifier", f'engine {{ model: "{cls.model}" threads: 1 }}')
        # A round takes some milliseconds, so that a text is on its way when its server ends.
        relay = Relay(f"{cls.folder}/verifier.relay", f"{cls.folder}/verifier.sock")
        relay.latency_s = 0.005
        for number in WORKERS:
            cls.services.start_service(f"coordinator{number}", f'model: "{cls.model}" '
                                                               f'verifier: "{relay.address}"')
        for number in WORKERS:
            cls.services.await_serving(f"coordinator{number}")

    @classmethod
    def make_stubs(cls) -> None:
        (cls.folder / "stubs").mkdir()
        subprocess.run([DYNAMO / "bin/python", "-m", "grpc_tools.protoc", f"-I{REPO}/proto",
                        f"--python_out={cls.folder}/stubs", f"--grpc_python_out={cls.folder}/stubs",
                        "espalier/v1/types.proto", "espalier/v1/inference.proto"], check=True)

    @classmethod
    def start_dynamo(cls, name: str, *words: object) -> None:
        """Dynamo's processes find each other by a folder, and talk over the loopback."""
        os.environ.update({"PYTHONPATH": f"{cls.folder}/stubs", "DYN_FILE_KV": f"{cls.folder}/kv",
                           "DYN_TCP_RPC_HOST": "127.0.0.1", "HF_HUB_OFFLINE": "1",
                           "HOME": str(cls.folder)})
        cls.services.start(name, DYNAMO / "bin/python", *words, "--discovery-backend", "file")

    @classmethod
    def start_worker(cls, number: str) -> None:
        cls.start_dynamo(f"worker{number}", EXAMPLE / "worker.py", "--model", cls.model,
                         "--address", cls.services.address(f"coordinator{number}"))

    @classmethod
    def instances(cls) -> set[str]:
        """The workers that the frontend knows."""
        try:
            health = json.loads(live_cluster.get(f"{cls.url}/health"))
            models = json.loads(live_cluster.get(f"{cls.url}/v1/models"))["data"]
        except (urllib.error.URLError, OSError):
            return set()
        return {instance["instance_id"] for instance in health["instances"]
                if instance["endpoint"] == "generate"} if models else set()

    @classmethod
    def await_instances(cls) -> None:
        live_cluster.await_true(lambda: len(cls.instances()) == len(WORKERS),
                                "the frontend knows two workers")

    def complete(self, at_chunk: Callable[[Any], object] = lambda number: None,
                 **options: Any) -> tuple[str, Any | None, Any | None]:
        """(text, finish reason, tokens) of a completion; `at_chunk` is called after each chunk."""
        request: dict[str, Any] = {"model": "model", "max_tokens": 200, "seed": 3} | options
        if "messages" not in request:
            request["prompt"] = "First Citizen:\n"
        text, reason, tokens, last = "", None, None, None
        self.longest_gap = 0.0
        with subprocess.Popen([CLIENT, pathlib.Path(__file__).parent / "dynamo_client.py",
                               self.url, json.dumps(request)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as client:
            assert client.stdout and client.stderr
            for number, line in enumerate(client.stdout):
                now = time.monotonic()
                self.longest_gap = max(self.longest_gap, now - (last or now))
                last = now
                chunk = json.loads(line)
                text += chunk["text"]
                reason = chunk["finish_reason"] or reason
                tokens = chunk["completion_tokens"] or tokens
                at_chunk(number)
            errors = client.stderr.read()
        self.assertEqual(client.returncode, 0, errors)
        return text, reason, tokens

    def serving(self) -> str:
        """The number of the coordinator that has a request."""
        for number in WORKERS:
            if any(gauges(self.services, f"coordinator{number}", "espalier_requests_in_flight")):
                return number
        self.fail("no coordinator has a request")

    def killed_in_midstream(self, kind: str, **options: Any) -> tuple[Any, Any]:
        """The answer, while the worker or the coordinator that serves it is killed."""
        killed = []

        def kill(number: str) -> None:
            if number == 10:
                killed.append(kind + self.serving())
                self.services.process(killed[0]).send_signal(signal.SIGKILL)
                self.services.process(killed[0]).wait()
        answer = self.complete(kill, **options)
        self.assertTrue(killed)
        return answer, killed[0]

    def test_a_killed_worker_costs_no_text(self) -> None:
        for temperature in (0, 0.7, 1):
            whole = self.complete(temperature=temperature)
            self.assertEqual(whole[1:], ("length", 200))
            answer, killed = self.killed_in_midstream("worker", temperature=temperature)
            self.assertEqual(answer, whole)
            print(f"worker, T = {temperature}: longest gap {1e3 * self.longest_gap:.0f} ms")
            self.start_worker(killed[-1])
            self.await_instances()

    def test_a_killed_worker_costs_a_chat_no_text(self) -> None:
        options: dict[str, Any] = {
            "temperature": 1, "messages": [{"role": "user", "content": "What is a king?"}]}
        whole = self.complete(**options)
        answer, killed = self.killed_in_midstream("worker", **options)
        self.assertEqual(answer, whole)
        self.start_worker(killed[-1])
        self.await_instances()

    def test_a_killed_coordinator_costs_no_text(self) -> None:
        whole = self.complete(temperature=1)
        answer, killed = self.killed_in_midstream("coordinator", temperature=1)
        self.assertEqual(answer, whole)
        print(f"coordinator, T = 1: longest gap {1e3 * self.longest_gap:.0f} ms")
        self.services.restart(killed)
        self.services.await_serving(killed)

    def test_without_a_seed_all_workers_take_the_same(self) -> None:
        options: dict[str, Any] = {"seed": None, "temperature": 1,
                   "extra_headers": {"x-dynamo-request-id": "7b0c1c4e-5a0b-4f7e-9d53-3f2f6a1f0001"}}
        whole = self.complete(**options)
        answer, killed = self.killed_in_midstream("worker", **options)
        self.assertEqual(answer, whole)
        other = self.complete(**options | {"extra_headers": {}})
        self.assertNotEqual(other, whole)
        self.start_worker(killed[-1])
        self.await_instances()

    def test_stop_strings_and_tokens_are_counted(self) -> None:
        whole = self.complete(temperature=1)[0]
        stop = whole[100:103]
        text, reason, _ = self.complete(temperature=1, stop=[stop])
        self.assertEqual((text, reason), (whole[:whole.index(stop)], "stop"))

    def test_what_is_not_followed_is_refused(self) -> None:
        for name in ("presence_penalty", "frequency_penalty"):
            options: dict[str, Any] = {name: 0.5}
            with self.subTest(options), self.assertRaisesRegex(AssertionError, name):
                self.complete(**options)


if __name__ == "__main__":
    if not CLIENT.exists():
        print("skipped: no OpenAI client (deploy/setup.sh --tests)")
        sys.exit(0)
    if why := install():
        print(f"skipped: Dynamo cannot be installed: {why}")
        sys.exit(0)
    unittest.main(verbosity=2)
