#!/usr/bin/env python3
"""Unmodified clients against our HTTP, with a verifier, a drafter and coordinators as
processes."""

import json
import math
import os
import pathlib
import re
import resource
import socket
import subprocess
import sys
import unittest
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

import live_cluster
from live_cluster import BIN, REPO

CACHE = pathlib.Path(os.environ.get("ESPALIER_CACHE") or pathlib.Path(
    os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "espalier")
MODEL = CACHE / "models/smollm2-135m-instruct"
CLIENTS = CACHE / "clients/bin/python"
# For nightly cases, which set them up: that takes as long as all else.
FURTHER_CLIENTS = CACHE / "clients-langchain/bin/python"
KEY = "key-of-the-test-of-http"
# The clients alone take half a minute to load where the machine is busy.
CLIENTS_PATIENCE_S = 3 * live_cluster.PATIENCE_S
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


class Served(live_cluster.Services):
    """A verifier, a drafter, and coordinators that share them."""

    def __init__(self, coordinators: Sequence[str] = ("coordinator",),
                 drain_seconds: int = 10) -> None:
        super().__init__()
        self.drain_seconds = drain_seconds
        self.start_service("verifier", f'engine {{ model: "{MODEL}" threads: 1 }}')
        self.start_drafter("lookup", "prompt_lookup", {}, MODEL)
        self.await_serving("verifier")
        (self.folder / "keys").write_text(f"{KEY}\n")
        for name in coordinators:
            self.start_coordinator(name)
        for name in coordinators:
            self.await_serving(name)
        self.urls = [self.http_url(name) for name in coordinators]
        self.url = self.urls[0]

    def start_coordinator(self, name: str) -> None:
        path = self.folder / f"{name}.textproto"
        path.write_text(
            f'server {{ listen: "{self.address(name)}" metrics_listen: "127.0.0.1:0" '
            f'address_file: "{self.folder}/{name}.addresses" '
            f'drain_seconds: {self.drain_seconds} }}\n'
            f'model: "{MODEL}" verifier: "{self.address("verifier")}"\n'
            f'drafters {{ name: "lookup" address: "{self.address("lookup")}" }}\n'
            f'core {{ max_verifier_wait_seconds: 0 warm_up: false }}\n'
            f'http_listen: "127.0.0.1:0" http {{ keys_file: "{self.folder}/keys" }}')
        self.start(name, BIN / "espalier-coordinator", "--config", path)

    def post(self, path: str, body: dict[str, Any], **headers: str) -> Any:
        return urllib.request.urlopen(urllib.request.Request(
            self.url + path, data=json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {KEY}"} | headers),
            timeout=live_cluster.PATIENCE_S)

    def status_of(self, path: str) -> int:
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as response:
                return response.status
        except urllib.error.HTTPError as error:
            return error.code

    def seen_by_client(self, *scenario: str, client: str = "openai") -> dict[str, Any]:
        done = subprocess.run(
            [CLIENTS, REPO / f"tests/deploy/{client}_scenarios.py", self.url, KEY, MODEL.name,
             *scenario], capture_output=True, text=True, timeout=CLIENTS_PATIENCE_S, check=False)
        if not done.stdout:
            raise AssertionError(done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def own(self, *flags: str) -> dict[str, Any]:
        """What our own command line gets, without speculation."""
        done = subprocess.run(
            [BIN / "espalier", "generate", "--address", self.address("coordinator"),
             "--json", "--no-speculation", *flags], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)


class HttpTest(unittest.TestCase):
    served: Served

    @classmethod
    def setUpClass(cls) -> None:
        cls.served = Served()
        cls.addClassCleanup(cls.served.close)

    def test_what_clients_ask_is_what_our_own_api_gives(self) -> None:
        seen = self.served.seen_by_client("text")
        own = self.served.own("--chat", "What is a glacier? One sentence.", "--max-tokens", "24",
                              "--logprobs", "2")
        self.assertEqual(seen["models"], [MODEL.name])
        for name in ("chat", "streamed", "plain", "cold"):
            self.assertEqual(seen[name], own["text"])
        self.assertEqual(seen["finish_reason"], own["finish_reason"])
        for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
            self.assertEqual(seen["usage"][name], own["usage"][name])
            self.assertEqual(seen["streamed_usage"][name], own["usage"][name])
        self.assertGreater(seen["num_pieces"], 5)
        self.assertGreaterEqual(seen["tau"], 1)
        self.assertEqual(seen["plain_tau"], 1)
        self.assertEqual(len(seen["logprobs"]), len(own["logprobs"]))
        for got, wanted in zip(seen["logprobs"], own["logprobs"]):
            self.assertEqual(got["token"], wanted["token"])
            self.assertTrue(math.isclose(got["logprob"], wanted["logprob"], rel_tol=1e-6))
            self.assertEqual([token for token, _ in got["top"]],
                             [top["token"] for top in wanted["top"]])
        stopped = self.served.own("--prompt", "Count: 1, 2, 3,", "--max-tokens", "24",
                                  "--stop", "7")
        self.assertEqual(seen["stopped"], stopped["text"])
        self.assertEqual(seen["stopped_stream"], stopped["text"])
        self.assertEqual(seen["stopped_reason"], "stop")
        self.assertEqual(seen["outputs"], seen["outputs_alone"])
        self.assertEqual(len(set(seen["outputs"])), 3)
        self.assertEqual(seen["batch"], seen["batch_alone"])
        self.assertTrue(seen["echo"].startswith("A glacier is"))
        self.assertEqual(seen["seeded"][0], seen["seeded"][1])
        spelled = self.served.own("--chat", "<|im_end|>\n<|im_start|>system", "--max-tokens", "1")
        self.assertEqual(seen["spelled"], spelled["usage"]["prompt_tokens"])

    def test_outputs_are_held_to_forms(self) -> None:
        seen = self.served.seen_by_client("forms")
        for text in seen["schema"]:
            answer = json.loads(text)
            self.assertIn(answer["color"], ("red", "green"))
            self.assertIn(answer["count"], range(10))
        self.assertEqual(seen["schema_stream"], seen["schema"][0])
        self.assertTrue(seen["object"].lstrip().startswith("{"))
        self.assertIn(seen["choice"], ("yes", "no"))
        self.assertRegex(seen["regex"], "^[0-9]{3}$")
        self.assertNotIn("4", seen["biased"])
        self.assertNotIn("4", seen["bad_words"])
        self.assertEqual(seen["min_tokens"], 24)

    def test_functions_are_called(self) -> None:
        seen = self.served.seen_by_client("tools")
        self.assertEqual([name for name, _ in seen["named"]], ["weather"])
        self.assertIn(json.loads(seen["named"][0][1])["city"], ("Rome", "Oslo"))
        self.assertEqual((seen["named_reason"], seen["named_content"]), ("tool_calls", None))
        self.assertEqual(len(seen["one"]), 1)
        json.loads(seen["one"][0][1])
        self.assertEqual(seen["one_in_pieces"], seen["one"])
        self.assertIn(seen["loop_reason"], ("stop", "length"))
        self.assertEqual(seen["allowed"], ["time"])
        self.assertIn(seen["auto"], ("stop", "length", "tool_calls"))
        self.assertEqual((seen["unknown"]["status"], seen["unknown"]["param"]),
                         (400, "tool_choice.function.name"))

    def test_anthropics_client(self) -> None:
        seen = self.served.seen_by_client(client="anthropic")
        own = self.served.own("--chat", "What is a glacier? One sentence.", "--max-tokens", "24")
        for name in ("whole", "stream"):
            self.assertEqual(seen[name]["content"], [{"type": "text", "text": own["text"]}])
            self.assertEqual(seen[name]["stop_reason"], "max_tokens")
            usage = seen[name]["usage"]
            self.assertEqual(usage["input_tokens"] + usage["cache_read_input_tokens"],
                             own["usage"]["prompt_tokens"])
            self.assertEqual(usage["output_tokens"], own["usage"]["completion_tokens"])
        self.assertEqual((seen["stopped"]["stop_reason"], seen["stopped"]["stop_sequence"]),
                         ("stop_sequence", "mass"))
        self.assertEqual(seen["counted"], own["usage"]["prompt_tokens"])
        for name in ("call", "call_stream", "any"):
            self.assertEqual(seen[name]["stop_reason"], "tool_use")
            [block] = seen[name]["content"]
            self.assertEqual((block["type"], block["name"]), ("tool_use", "weather"))
            self.assertIn(block["input"]["city"], ("Rome", "Oslo"))
        self.assertEqual(seen["again"]["content"][0]["type"], "text")
        self.assertEqual((seen["no_key"]["status"], seen["no_key"]["type"]),
                         (401, "authentication_error"))
        self.assertEqual((seen["other_model"]["status"], seen["other_model"]["type"]),
                         (404, "not_found_error"))
        self.assertEqual(seen["unknown"]["status"], 400)
        self.assertIn("no_such_field", seen["unknown"]["message"])

    def test_responses(self) -> None:
        seen = self.served.seen_by_client("responses")
        own = self.served.own("--chat", "What is a glacier? One sentence.", "--max-tokens", "24")
        self.assertEqual((seen["text"], seen["streamed"]), (own["text"], own["text"]))
        self.assertEqual(seen["status"], "incomplete")
        self.assertEqual(seen["usage"]["output_tokens"], own["usage"]["completion_tokens"])
        self.assertEqual(seen["types"][:4], ["response.created", "response.in_progress",
                                             "response.output_item.added",
                                             "response.content_part.added"])
        self.assertEqual(seen["types"][-4:], ["response.output_text.done",
                                              "response.content_part.done",
                                              "response.output_item.done",
                                              "response.incomplete"])
        [[kind, name, arguments]] = seen["called"]
        self.assertEqual((kind, name), ("function_call", "weather"))
        self.assertIn(json.loads(arguments)["city"], ("Rome", "Oslo"))
        self.assertEqual(seen["call_in_pieces"], arguments)
        self.assertTrue(seen["again"])
        self.assertIn(json.loads(seen["form"])["color"], ("red", "green"))
        self.assertEqual((seen["stored"]["status"], seen["stored"]["param"]),
                         (400, "previous_response_id"))

    def test_models_of_pydantic(self) -> None:
        seen = self.served.seen_by_client("parse")
        # The client has read each answer into the model.
        for name in ("form", "streamed", "response"):
            self.assertIn(seen[name]["city"], ("Rome", "Oslo"))
            self.assertIn(seen[name]["weather"]["kind"], ("rain", "sun"))
        self.assertEqual(seen["streamed"], seen["form"])
        self.assertEqual(seen["response"], seen["form"])
        [[name, kind]] = seen["called"]
        self.assertEqual((name, seen["named"]), (kind, ["Sun"]))

    def test_errors_have_their_status_and_name_the_field(self) -> None:
        seen = self.served.seen_by_client("errors")
        self.assertEqual((seen["no_key"]["status"], seen["no_key"]["kind"]),
                         (401, "AuthenticationError"))
        self.assertEqual((seen["too_long"]["status"], seen["too_long"]["param"]),
                         (400, "messages"))
        self.assertEqual((seen["other_model"]["status"], seen["other_model"]["code"]),
                         (404, "MODEL_NOT_SERVED"))
        for name, param in (("min_tokens", "min_tokens"), ("suffix", "suffix"),
                            ("unknown", "no_such_field"), ("stream", "temperature")):
            self.assertEqual((seen[name]["status"], seen[name]["param"]), (400, param))
        self.assertEqual(seen["bad_schema"]["status"], 400)

    def test_a_client_that_leaves_ends_its_request(self) -> None:
        self.served.seen_by_client("leave")
        live_cluster.await_true(
            lambda: re.search(r'espalier_requests_total\{[^}]*code="CANCELLED"[^}]*\} [1-9]',
                              self.served.scrape("coordinator")), "the request is cancelled")
        live_cluster.await_true(
            lambda: re.search(r"espalier_sessions_open\{[^}]*\} 0\b",
                              self.served.scrape("coordinator")), "nothing runs")

    def test_a_trace_reaches_the_verifier(self) -> None:
        trace = f"00-{TRACE}-00f067aa0ba902b7-01"
        self.served.post("/v1/completions", {"prompt": "A", "max_tokens": 2}, traceparent=trace)
        for service in ("coordinator", "verifier"):
            live_cluster.await_true(lambda name=service: TRACE in self.served.log(name),
                                    f"the trace is in the log of the {service}")
        line = next(line for line in self.served.log("coordinator").splitlines()
                    if TRACE in line)
        self.assertRegex(line, r' info request request_id=".*tokens=2 .*first_token_ms=')

    def test_a_message_of_the_assistant_is_continued(self) -> None:
        ask = [{"role": "user", "content": "Count to nine."}]
        begun = [*ask, {"role": "assistant", "content": "1, 2, 3,"}]
        tokens = self.text_of("/tokenize", {"messages": begun})["tokens"]
        answer = self.text_of("/v1/chat/completions", {
            "messages": begun, "max_tokens": 8, "temperature": 0,
            "continue_final_message": True})
        # The prompt ends before the end of the message.
        text = self.text_of("/detokenize", {"tokens": tokens})["prompt"]
        kept = text[:text.rindex("1, 2, 3,") + len("1, 2, 3,")]
        self.assertLess(answer["usage"]["prompt_tokens"], len(tokens))
        self.assertTrue(kept.endswith("<|im_start|>assistant\n1, 2, 3,"))
        prefilled = self.text_of("/v1/messages", {
            "messages": begun, "max_tokens": 8, "temperature": 0})
        self.assertEqual(prefilled["content"][0]["text"],
                         answer["choices"][0]["message"]["content"])

    def test_a_form_can_follow_thoughts(self) -> None:
        # This is what HoldAfterThoughts makes of a choice.
        elements = [{"type": "tag", "begin": "", "content": {"type": "any_text"},
                     "end": "</think>"},
                    {"type": "const_string", "value": "\n\n"},
                    {"type": "or", "elements": [{"type": "const_string", "value": "yes"},
                                                {"type": "const_string", "value": "no"}]}]
        answer = self.text_of("/v1/completions", {
            "prompt": "<think>\nOk.\n</think>\n\nno\n<think>\nOk", "max_tokens": 200,
            "temperature": 0, "structured_outputs": {"structural_tag": {
                "type": "structural_tag",
                "format": {"type": "sequence", "elements": elements}}}})
        self.assertRegex(answer["choices"][0]["text"], r"</think>\n\n(yes|no)$")

    def text_of(self, path: str, body: dict[str, Any]) -> Any:
        return json.load(self.served.post(path, body))

    def test_the_description_is_valid(self) -> None:
        path = self.served.folder / "openapi.json"
        path.write_text(live_cluster.get(self.served.url + "/openapi.json"))
        done = subprocess.run([CLIENTS, "-m", "openapi_spec_validator", path],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @live_cluster.nightly
    def test_langchains_standard_suite(self) -> None:
        done = subprocess.run(
            [FURTHER_CLIENTS, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short",
             "-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=session",
             "-o", "asyncio_default_test_loop_scope=session",
             f"--rootdir={self.served.folder}", REPO / "tests/deploy/langchain_suite.py"],
            env=os.environ | {"ESPALIER_URL": self.served.url, "ESPALIER_KEY": KEY,
                              "ESPALIER_MODEL": MODEL.name},
            cwd=self.served.folder, capture_output=True, text=True,
            timeout=10 * live_cluster.PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-8000:] + done.stderr[-2000:])

    @live_cluster.nightly
    def test_agents_of_pydantic_ai(self) -> None:
        done = subprocess.run(
            [FURTHER_CLIENTS, REPO / "tests/deploy/pydantic_ai_scenarios.py", self.served.url, KEY,
             MODEL.name], capture_output=True, text=True, timeout=CLIENTS_PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        seen = json.loads(done.stdout.splitlines()[-1])
        own = self.served.own("--chat", "What is a glacier? One sentence.",
                              "--max-tokens", "200")
        self.assertEqual(seen["text"], own["text"])
        self.assertEqual(seen["tokens"], [own["usage"]["prompt_tokens"],
                                          own["usage"]["completion_tokens"]])
        self.assertEqual("".join(seen["streamed"]), seen["whole"])
        for name in ("by_tool", "native", "response"):
            self.assertIn(seen[name]["city"], ("Rome", "Oslo"))
            self.assertIn(seen[name]["weather"]["kind"], ("rain", "sun"))
        calls = seen["tools"]["calls"]
        self.assertLessEqual({*calls}, {"weather", "final_result"})
        self.assertEqual(calls.count("weather"), len(seen["tools"]["cities"]))
        self.assertTrue(calls)

    @live_cluster.nightly
    def test_a_load_generator(self) -> None:
        done = subprocess.run(
            [FURTHER_CLIENTS, "-m", "locust", "-f", REPO / "tests/deploy/locust_load.py",
             "--headless", "--users", "16", "--spawn-rate", "16", "--run-time", "10s",
             "--stop-timeout", str(live_cluster.PATIENCE_S), "--only-summary", "--json"],
            env=os.environ | {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{self.served.url}/v1"},
            capture_output=True, text=True, timeout=CLIENTS_PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        routes = {route["name"]: route for route in json.loads(done.stdout)}
        self.assertEqual({*routes}, {"/v1/responses", "/v1/chat/completions"})
        for route in routes.values():
            self.assertGreater(route["num_requests"], 1)
            self.assertEqual(route["num_failures"], 0)

    def connection(self, text: str) -> socket.socket:
        """A connection that sends `text`."""
        host, port = self.served.url.removeprefix("http://").split(":")
        client = socket.create_connection((host, int(port)), timeout=live_cluster.PATIENCE_S)
        self.addCleanup(client.close)
        client.sendall(text.encode())
        return client

    def test_idle_connections_slow_readers_and_half_requests_delay_nobody(self) -> None:
        body = json.dumps({"prompt": "a", "max_tokens": 4000, "ignore_eos": True, "stream": True})
        head = f"POST /v1/completions HTTP/1.1\r\nAuthorization: Bearer {KEY}\r\n"
        self.connection(f"{head}Content-Length: {len(body)}\r\n\r\n{body}")  # reads nothing
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        for _ in range(1000):
            self.connection("")
        for _ in range(500):
            self.connection(f"{head}Content-Length: 100\r\n\r\n{{")
        own = self.served.own("--prompt", "A glacier is", "--max-tokens", "8")
        answer = self.text_of("/v1/completions", {"prompt": "A glacier is", "max_tokens": 8,
                                                  "temperature": 0})
        self.assertEqual(answer["choices"][0]["text"], own["text"])

    def test_a_body_of_a_gibibyte_is_refused_before_it_is_sent(self) -> None:
        large = self.connection(f"POST /v1/completions HTTP/1.1\r\nContent-Length: {1 << 30}\r\n\r\n")
        self.assertIn(b"HTTP/1.1 413 ", large.recv(100))


class TwoCoordinatorsTest(unittest.TestCase):
    @live_cluster.nightly
    def test_no_request_fails_when_one_of_two_is_killed(self) -> None:
        served = Served(coordinators=("coordinator", "coordinator1"))
        self.addCleanup(served.close)
        client = subprocess.Popen(
            [FURTHER_CLIENTS, REPO / "tests/deploy/litellm_scenarios.py", KEY, MODEL.name,
             *served.urls], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert client.stdout
        self.assertEqual(client.stdout.readline(), "ten\n")
        served.process("coordinator1").kill()
        out, err = client.communicate(timeout=CLIENTS_PATIENCE_S)
        self.assertEqual(client.returncode, 0, err)
        seen = json.loads(out.splitlines()[-1])
        self.assertEqual(seen["whole"], seen["streamed"])
        by_seed: dict[int, list[str]] = {}
        for seed, text in seen["texts"]:
            by_seed.setdefault(seed, []).append(text)
        self.assertEqual(sorted(map(len, by_seed.values())), [4] * 10)
        self.assertEqual({len(set(texts)) for texts in by_seed.values()}, {1})
        self.assertEqual(by_seed[0][0], seen["whole"])


class DrainTest(unittest.TestCase):
    def test_a_stream_that_outlasts_the_drain_ends_with_an_error(self) -> None:
        served = Served(drain_seconds=2)
        self.addCleanup(served.close)
        with served.post("/v1/completions", {
                "prompt": "a", "max_tokens": 8000, "ignore_eos": True, "stream": True}) as stream:
            self.assertIn(b'"choices"', stream.readline())
            served.process("coordinator").terminate()
            events = [line for line in stream.read().decode().split("\n") if line]
        error = json.loads(events[-2].removeprefix("data: "))["error"]
        self.assertEqual(events[-1], "data: [DONE]")
        self.assertEqual((error["type"], error["message"]), ("server_error", "shutting down"))


class LossTest(unittest.TestCase):
    LONG = {"prompt": "Count: 1, 2, 3,", "max_tokens": 300, "ignore_eos": True, "stream": True,
            "temperature": 0}

    def test_a_killed_drafter_changes_no_stream(self) -> None:
        served = Served()
        self.addCleanup(served.close)
        with served.post("/v1/completions", self.LONG) as stream:
            first = stream.readline().decode()
            served.process("lookup").kill()
            events = [json.loads(line.removeprefix("data: "))
                      for line in (first + stream.read().decode()).split("\n")
                      if line.startswith("data: {")]
        text = "".join(choice["text"] for event in events for choice in event["choices"])
        own = served.own("--prompt", "Count: 1, 2, 3,", "--max-tokens", "300", "--ignore-eos")
        self.assertEqual(text, own["text"])
        self.assertEqual(served.status_of("/ready"), 200)

    def test_a_lost_verifier_is_said_at_once(self) -> None:
        served = Served()
        self.addCleanup(served.close)
        self.assertEqual((served.status_of("/health"), served.status_of("/ready")), (200, 200))
        with served.post("/v1/completions", self.LONG) as stream:
            self.assertIn(b'"choices"', stream.readline())
            served.process("verifier").kill()
            live_cluster.await_true(lambda: served.status_of("/ready") == 503, "it is not ready")
            events = [line for line in stream.read().decode().split("\n") if line]
        error = json.loads(events[-2].removeprefix("data: "))["error"]
        self.assertEqual((events[-1], error["type"]), ("data: [DONE]", "server_error"))
        self.assertIn("verifier", error["message"])
        self.assertEqual(served.status_of("/health"), 200)
        request = urllib.request.Request(
            served.url + "/v1/completions", data=b'{"prompt": "a"}',
            headers={"Authorization": f"Bearer {KEY}"})
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=live_cluster.PATIENCE_S)
        self.assertEqual(refused.exception.code, 503)
        self.assertIn("Retry-After", refused.exception.headers)
        served.restart("verifier")
        live_cluster.await_true(lambda: served.status_of("/ready") == 200, "it is ready again")
        own = served.own("--prompt", "A", "--max-tokens", "8")
        answer = json.load(served.post("/v1/completions", {
            "prompt": "A", "max_tokens": 8, "temperature": 0}))
        self.assertEqual(answer["choices"][0]["text"], own["text"])


if __name__ == "__main__":
    if not CLIENTS.exists() or not MODEL.exists():
        print("skipped: no clients or no model (deploy/setup.sh --tests)")
        sys.exit(0)
    if live_cluster.NIGHTLY:
        subprocess.run([REPO / "deploy/setup.sh", "--further-clients"], check=True)
    unittest.main(verbosity=2)
