#!/usr/bin/env python3
"""Access control with real processes: tokens of peers, a frozen verifier."""

import signal
import subprocess
import time
import unittest
from typing import Any

import live_cluster
import stubs
from live_cluster import BIN, CHAR_MODEL

PROMPT = "First Citizen:\nBefore we proceed any further, hear me speak.\n"


class TrustTest(unittest.TestCase):
    cluster: live_cluster.Services

    @classmethod
    def setUpClass(cls) -> None:
        stubs.make()
        cls.cluster = live_cluster.Services()
        cls.addClassCleanup(cls.cluster.close)
        folder = cls.cluster.folder
        for name in ("verifier", "lookup"):
            (folder / f"{name}.token").write_text(f"the-secret-of-the-{name}\n")
        cls.cluster.start_service(
            "verifier", f'engine {{ model: "{CHAR_MODEL}" threads: 1 }}',
            [f"token_file={folder}/verifier.token"])
        cls.cluster.start_service(
            "lookup", f'engine {{ name: "lookup" type: "prompt_lookup" model: "{CHAR_MODEL}" }}',
            [f"token_file={folder}/lookup.token"])
        cls.cluster.start_service(
            "coordinator",
            f'model: "{CHAR_MODEL}" verifier: "{cls.cluster.address("verifier")}" '
            f'verifier_token_file: "{folder}/verifier.token" '
            f'drafters {{ name: "lookup" address: "{cls.cluster.address("lookup")}" '
            f'token_file: "{folder}/lookup.token" }}')
        cls.cluster.await_serving("coordinator")

    def open_verify_stream(self, token: str) -> Any:
        """Status and answers of a stream that sends a hello with a token."""
        import grpc
        from espalier.v1 import verifier_pb2, verifier_pb2_grpc
        hello = verifier_pb2.VerifyRequest(request_id=1)
        hello.hello.protocol_version = 2
        hello.hello.epoch = 1
        metadata = [("authorization", f"Bearer {token}")] if token else []
        with grpc.insecure_channel(self.cluster.address("verifier")) as channel:
            stream = verifier_pb2_grpc.VerifierStub(channel).Verify(
                iter([hello]), metadata=metadata, timeout=30)
            with self.assertRaises(grpc.RpcError) as caught:
                list(stream)
        return caught.exception.code().name

    def generate(self) -> Any:
        return subprocess.run(
            [BIN / "espalier", "generate", "--address", self.cluster.address("coordinator"),
             "--prompt", PROMPT, "--max-tokens", "40", "--ignore-eos"],
            capture_output=True, text=True, timeout=live_cluster.PATIENCE_S, check=True).stdout

    def test_a_drafter_cannot_pass_for_the_coordinator(self) -> None:
        for token in ("", "the-secret-of-the-lookup"):
            self.assertEqual(self.open_verify_stream(token), "UNAUTHENTICATED")
        # With the secret its hello is read, and refused because it is empty.
        self.assertEqual(self.open_verify_stream("the-secret-of-the-verifier"),
                         "FAILED_PRECONDITION")
        self.assertTrue(self.generate())

    def test_a_frozen_verifier_is_soon_missed(self) -> None:
        def serves() -> bool:
            return subprocess.run([BIN / "espalier", "check", self.cluster.address("coordinator")],
                                  capture_output=True, check=False).returncode == 0
        before = self.generate()
        verifier = self.cluster.process("verifier")
        verifier.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        try:
            live_cluster.await_true(lambda: not serves(), "health says NOT_SERVING")
            took = time.monotonic() - began
        finally:
            verifier.send_signal(signal.SIGCONT)
        print(f"NOT_SERVING after {took:.1f} s")
        live_cluster.await_true(serves, "health says SERVING")
        self.assertEqual(self.generate(), before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
