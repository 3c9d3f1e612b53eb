#!/usr/bin/env python3
"""Paced answers with real processes: one token a message, the same texts, and numbers of
speculation for operators only. `pace_test.py measure MODEL MS` prints what a pace costs."""

import hashlib
import json
import pathlib
import statistics
import sys
import time
import unittest
import urllib.error
import urllib.request
from typing import Any

import live_cluster
import stubs
from live_cluster import CHAR_MODEL

PROMPT = "First Citizen:\nBefore we proceed any further, hear me speak.\n"
PACE_MS = 5
TOKENS = 60
DRAFTS: dict[str, Any] = {"speculation": {"strategy": "union"}}  # also where it does not pay
ROLES = {"client": "token-of-the-client", "operator": "token-of-the-operator"}
KEY = "key-of-a-paced-client"


class Server:
    """A verifier, a drafter and a coordinator, perhaps paced."""

    def __init__(self, pace_ms: int | None, model: pathlib.Path = CHAR_MODEL) -> None:
        import grpc
        from espalier.v1 import inference_pb2_grpc
        self.processes = live_cluster.Services()
        folder = self.processes.folder
        (folder / "keys").write_text(f"acme {KEY}\n")
        (folder / "roles").write_text("".join(
            f"{role} {role} sha256:{hashlib.sha256(token.encode()).hexdigest()}\n"
            for role, token in ROLES.items()))
        self.processes.start_service("verifier", f'engine {{ model: "{model}" threads: 1 }}')
        self.processes.start_drafter("lookup", "prompt_lookup", {}, model)
        self.processes.start_service(
            "coordinator",
            f'model: "{model}" verifier: "{self.processes.address("verifier")}" '
            f'drafters {{ name: "lookup" address: "{self.processes.address("lookup")}" }} '
            f'http_listen: "127.0.0.1:0" http {{ keys_file: "{folder}/keys" }}',
            [f"server.roles_file={folder}/roles", "core.draft_timeout_ms=10000",
             *([f"core.pace_ms={pace_ms}"] if pace_ms else [])])
        self.processes.await_serving("coordinator")
        self._channel = grpc.insecure_channel(self.processes.address("coordinator"))
        self._stub = inference_pb2_grpc.InferenceStub(self._channel)

    def close(self) -> None:
        self._channel.close()
        self.processes.close()

    def stream(self, role: str = "client", **fields: Any) -> list[tuple[float, Any]]:
        """[(seconds since the call, message)] of a Generate."""
        from espalier.v1 import inference_pb2
        request = inference_pb2.GenerateRequest(
            prompt=PROMPT, max_tokens=TOKENS, ignore_eos=True, **fields)
        began = time.monotonic()
        return [(time.monotonic() - began, message) for message in self._stub.Generate(
            request, metadata=[("authorization", f"Bearer {ROLES[role]}")],
            timeout=live_cluster.PATIENCE_S)]

    def http(self, path: str, body: dict[str, Any] | None = None) -> Any:
        request = urllib.request.Request(
            self.processes.http_url("coordinator") + path, headers={"x-api-key": KEY},
            data=json.dumps(body).encode() if body else None)
        with urllib.request.urlopen(request, timeout=live_cluster.PATIENCE_S) as response:
            return json.load(response)


def text_of(answer: list[tuple[float, Any]]) -> str:
    return "".join(message.text for _, message in answer)


class PaceTest(unittest.TestCase):
    paced: Server
    plain: Server

    @classmethod
    def setUpClass(cls) -> None:
        stubs.make()
        cls.paced, cls.plain = Server(PACE_MS), Server(None)
        cls.addClassCleanup(cls.paced.close)
        cls.addClassCleanup(cls.plain.close)

    def test_one_token_a_message_and_the_same_text(self) -> None:
        # Several in one message only where the client was late to read the one before.
        paced, plain = self.paced.stream(**DRAFTS), self.plain.stream(**DRAFTS)
        self.assertEqual(text_of(paced), text_of(plain))
        self.assertLess(len(plain), TOKENS)
        self.assertGreater(len(paced), TOKENS * 0.8)
        self.assertEqual([token for _, message in paced for token in message.token_ids],
                         [token for _, message in plain for token in message.token_ids])
        self.assertEqual(max(message.step for _, message in paced), TOKENS)
        self.assertGreaterEqual(paced[-1][0], PACE_MS / 1000 * (TOKENS - 1))

    def test_stop_strings_and_seeds(self) -> None:
        for fields in ({"stop": ["the"]}, {"stop": ["e"], "include_stop_str_in_output": True}):
            paced, plain = self.paced.stream(**fields), self.plain.stream(**fields)
            self.assertEqual(text_of(paced), text_of(plain))
            for field in ("finish_reason", "matched_stop", "usage"):
                self.assertEqual(getattr(paced[-1][1].summary, field),
                                 getattr(plain[-1][1].summary, field))

    def test_numbers_of_speculation_are_for_operators(self) -> None:
        summary = self.paced.stream()[-1][1].summary
        self.assertEqual(summary.usage.completion_tokens, TOKENS)
        self.assertFalse(summary.HasField("spec_stats"))
        self.assertEqual((summary.timing.total_ms, summary.timing.verify_ms), (0, 0))
        self.assertGreater(summary.timing.time_to_first_token_ms, 0)
        summary = self.paced.stream("operator", **DRAFTS)[-1][1].summary
        self.assertGreater(summary.spec_stats.mean_acceptance_length, 1)
        self.assertGreater(summary.timing.total_ms, 0)

    def test_http(self) -> None:
        body = {"prompt": PROMPT, "max_tokens": TOKENS, "ignore_eos": True, "temperature": 0}
        paced, plain = (server.http("/v1/completions", body)
                        for server in (self.paced, self.plain))
        self.assertEqual(paced["choices"][0]["text"], plain["choices"][0]["text"])
        self.assertIn("completion_tokens_details", plain["usage"])
        self.assertNotIn("completion_tokens_details", paced["usage"])
        with self.assertRaises(urllib.error.HTTPError) as caught:
            self.paced.http(f"/espalier/rounds/{paced['id']}")
        self.assertEqual(caught.exception.code, 404)


def measure(model: pathlib.Path, pace_ms: int) -> None:
    stubs.make()
    for pace in (None, pace_ms):
        server = Server(pace, model)
        try:
            server.stream()
            answers = [server.stream() for _ in range(5)]
        finally:
            server.close()
        first = statistics.median(answer[0][0] for answer in answers)
        last = statistics.median(answer[-1][0] for answer in answers)
        print(f"pace {pace or 'none'}: first message {1000 * first:.0f} ms, end {1000 * last:.0f} "
              f"ms, {TOKENS / last:.1f} tokens/s, {len(answers[0])} messages of {TOKENS} tokens")


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(pathlib.Path(sys.argv[2]), int(sys.argv[3]))
    else:
        unittest.main(verbosity=2)
