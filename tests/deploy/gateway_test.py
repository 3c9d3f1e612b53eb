#!/usr/bin/env python3
"""The real gateway between OpenAI's and Anthropic's clients and our services."""

import json
import math
import os
import pathlib
import re
import subprocess
import sys
import unittest

import live_cluster
from live_cluster import BIN, REPO

CACHE = pathlib.Path(os.environ.get("ESPALIER_CACHE") or pathlib.Path(
    os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "espalier")
MODEL = CACHE / "models/smollm2-135m-instruct"
GATEWAY = CACHE / "gateway/bin/python"
CLIENTS = CACHE / "clients/bin/python"
KEY = "key-of-the-test"
# The clients alone take half a minute to load where the machine is busy.
CLIENTS_PATIENCE_S = 3 * live_cluster.PATIENCE_S
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


class Served(live_cluster.Services):
    """A verifier, a drafter, coordinators that share them, and the gateway."""

    def __init__(self, num_coordinators):
        super().__init__()
        self.coordinators = [f"coordinator{i}" for i in range(num_coordinators)]
        self.start_service("verifier", f'engine {{ model: "{MODEL}" threads: 1 }}')
        self.start_drafter("lookup", "prompt_lookup", {}, MODEL)
        self.await_serving("verifier")
        ports = [live_cluster.free_port() for _ in self.coordinators]
        for name, port in zip(self.coordinators, ports):
            self.start_coordinator(name, port)
        for name in self.coordinators:
            self.await_serving(name)
        self.start_gateway(ports)

    def start_coordinator(self, name, port):
        path = self.folder / f"{name}.textproto"
        path.write_text(
            f'server {{ listen: "{self.address(name)}" listen: "127.0.0.1:{port}" '
            f'metrics_listen: "127.0.0.1:0" address_file: "{self.folder}/{name}.addresses" }}\n'
            f'model: "{MODEL}" verifier: "{self.address("verifier")}"\n'
            f'drafters {{ name: "lookup" address: "{self.address("lookup")}" }}\n')
        self.start(name, BIN / "espalier-coordinator", "--config", path)

    def start_gateway(self, ports):
        (self.folder / "key").write_text(KEY)
        port = live_cluster.free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.start("gateway", GATEWAY, REPO / "deploy/lib/gateway.py", self.folder / "key",
                   "--host", "127.0.0.1", "--port", port,
                   "--prometheus-host", "127.0.0.1", "--prometheus-port", live_cluster.free_port(),
                   "--policy", "round_robin", "--log-level", "info",
                   # Without these it drops a client's traceparent. Nobody takes its spans.
                   "--enable-trace", "--otlp-traces-endpoint", "127.0.0.1:9",
                   "--worker-urls", *(f"grpc://127.0.0.1:{port}" for port in ports))
        live_cluster.await_true(lambda: self.curl("/workers").count('"is_healthy":true') ==
                                len(ports), "the gateway knows the coordinators")
        # It has the tokenizer some time after that.
        live_cluster.await_true(lambda: '"text"' in self.complete(), "the gateway serves")

    def curl(self, path, *options):
        return subprocess.run(
            ["curl", "-s", "-H", f"Authorization: Bearer {KEY}", "-H",
             "Content-Type: application/json", f"{self.url}{path}", *options],
            capture_output=True, text=True, check=False).stdout

    def complete(self, *options):
        return self.curl("/v1/completions", *options, "-d", json.dumps(
            {"model": MODEL.name, "prompt": "A", "max_tokens": 2}))

    def clients(self, scenario):
        return subprocess.Popen(
            [CLIENTS, REPO / "tests/deploy/http_clients.py", self.url, KEY, MODEL.name, scenario],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def seen_by_clients(self, scenario):
        out, err = self.clients(scenario).communicate(timeout=CLIENTS_PATIENCE_S)
        if not out:
            raise AssertionError(err)
        return json.loads(out.splitlines()[-1])


class GatewayTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.served = Served(num_coordinators=1)
        cls.addClassCleanup(cls.served.close)

    def own(self, *flags):
        """What our own command line gets, without speculation."""
        done = subprocess.run(
            [BIN / "espalier", "generate", "--address", self.served.address("coordinator0"),
             "--json", "--no-speculation", *flags], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def test_what_clients_ask_is_what_our_own_api_gives(self):
        seen = self.served.seen_by_clients("everything")
        own = self.own("--chat", "What is a glacier? One sentence.", "--max-tokens", "24",
                       "--logprobs", "2")
        self.assertEqual(seen["models"], [MODEL.name])
        self.assertEqual(seen["chat"], own["text"])
        self.assertEqual(seen["finish_reason"], own["finish_reason"])
        for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
            self.assertEqual(seen["chat_usage"][name], own["usage"][name])
            self.assertEqual(seen["streamed_usage"][name], own["usage"][name])
        self.assertEqual(seen["streamed"], own["text"])
        self.assertGreater(seen["num_pieces"], 5)
        for name in ("anthropic", "anthropic_stream"):
            self.assertEqual(seen[name], own["text"])
        self.assertEqual(seen["anthropic_usage"], [own["usage"]["prompt_tokens"],
                                                   own["usage"]["completion_tokens"]])
        self.assertEqual(len(seen["logprobs"]), len(own["logprobs"]))
        for got, wanted in zip(seen["logprobs"], own["logprobs"]):
            self.assertEqual(got["token"], wanted["token"])
            self.assertTrue(math.isclose(got["logprob"], wanted["logprob"], rel_tol=1e-6))
            self.assertEqual([token for token, _ in got["top"]],
                             [top["token"] for top in wanted["top"]])
        self.assertTrue(seen["responses"])

    def test_stops_outputs_and_seeds(self):
        seen = self.served.seen_by_clients("everything")
        own = self.own("--prompt", "Count: 1, 2, 3,", "--max-tokens", "24", "--stop", "7")
        self.assertEqual(own["finish_reason"], "stop")
        self.assertEqual(seen["stopped"], own["text"])
        self.assertEqual(seen["stopped_stream"], own["text"])
        self.assertEqual(seen["stopped_reason"], "stop")
        self.assertEqual(seen["stopped_tokens"], own["usage"]["completion_tokens"])
        self.assertEqual(seen["outputs"], seen["outputs_alone"])
        self.assertEqual(len(set(seen["outputs"])), 3)
        self.assertEqual(seen["seeded"][0], seen["seeded"][1])

    def test_structured_output_and_tools(self):
        seen = self.served.seen_by_clients("constrained")
        for text in seen["schema"]:
            answer = json.loads(text)
            self.assertEqual(set(answer), {"color", "count"})
            self.assertIn(answer["color"], ("red", "green"))
            self.assertIn(answer["count"], range(10))
        self.assertEqual(seen["schema_stream"], seen["schema"][0])
        self.assertTrue(seen["object"].lstrip().startswith("{"))
        name, arguments = seen["tool"]
        self.assertEqual(name, "weather")
        self.assertIn(json.loads(arguments)["city"], ("Rome", "Oslo"))
        self.assertEqual(seen["bad_schema"]["status"], 400)

    def test_errors_have_the_right_status(self):
        seen = self.served.seen_by_clients("errors")
        self.assertEqual(seen["no_key"]["status"], 401)
        self.assertEqual(seen["too_long"]["status"], 400)
        self.assertEqual(seen["other_model"]["status"], 404)
        self.assertEqual(seen["min_tokens"]["status"], 400)
        self.assertIn("min_tokens", seen["min_tokens"]["message"])

    def test_a_client_that_leaves_ends_its_request(self):
        self.served.seen_by_clients("leave")
        live_cluster.await_true(
            lambda: re.search(r'espalier_requests_total\{[^}]*code="CANCELLED"[^}]*\} [1-9]',
                              self.served.scrape("coordinator0")), "the request is cancelled")
        live_cluster.await_true(
            lambda: re.search(r"espalier_sessions_open\{[^}]*\} 0\b",
                              self.served.scrape("coordinator0")),
            "nothing runs")

    def test_a_trace_reaches_the_verifier(self):
        answer = self.served.complete("-H", f"traceparent: 00-{TRACE}-00f067aa0ba902b7-01")
        self.assertIn('"text"', answer)
        for service in ("coordinator0", "verifier"):
            live_cluster.await_true(lambda name=service: TRACE in self.served.log(name),
                                    f"the trace is in the log of the {service}")


class TwoCoordinatorsTest(unittest.TestCase):
    def test_no_request_fails_when_one_of_two_is_killed(self):
        served = Served(num_coordinators=2)
        self.addCleanup(served.close)
        clients = served.clients("many")
        self.assertEqual(clients.stdout.readline(), "ten\n")
        served.process("coordinator1").kill()
        out, err = clients.communicate(timeout=CLIENTS_PATIENCE_S)
        self.assertEqual(clients.returncode, 0, err)
        texts = json.loads(out)["texts"]
        self.assertEqual(len(texts), 40)
        by_seed = {}
        for seed, text in texts:
            by_seed.setdefault(seed, set()).add(text)
        self.assertEqual({len(kinds) for kinds in by_seed.values()}, {1})


if __name__ == "__main__":
    for needed, what in ((MODEL, "the default model"), (GATEWAY, "the gateway"),
                         (CLIENTS, "the HTTP clients")):
        if not needed.exists():
            print(f"skipped: {what} is missing: run deploy/setup.sh --tests")
            sys.exit(0)
    unittest.main(verbosity=2)
