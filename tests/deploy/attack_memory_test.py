#!/usr/bin/env python3
"""What an attacker can make a service hold: each attack runs against real
processes, and each service's peak memory stays near what it had before."""

import re
import socket
import subprocess
import sys
import threading
import time
import unittest
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import http2_attacker
import live_cluster
import stubs
from conformance_test import char_identity
from live_cluster import found, get
from recorded_client import gauges

MIB = 1 << 20
# The largest limits: 256 MiB of feature chunks without a request (ServerStreams), of
# which gRPC holds a message twice while it is read, and 384 MiB that gRPC may hold of
# calls and of what it has read (ServerRunner).
MOST_GROWTH_MIB = 512
METHODS = {"coordinator": "/espalier.v1.Inference/Generate",
           "verifier": "/espalier.v1.Verifier/Verify", "lookup": "/espalier.v1.Drafter/Draft"}
ATTACK_S = 5


def varint(number: int) -> bytes:
    data = bytearray()
    while number >= 128:
        data.append(number & 127 | 128)
        number >>= 7
    return bytes(data + bytes([number]))


def empty_fields(message: Any, path: Sequence[str]) -> bytes:
    """Bytes of a message with 3 million empty entries of the field at `path`."""
    numbers = []
    for name in path:
        field = message.fields_by_name[name]
        numbers.append(field.number)
        message = field.message_type
    content = varint(numbers.pop() << 3 | 2) + b"\0"
    content *= 3 * MIB
    for number in reversed(numbers):
        content = varint(number << 3 | 2) + varint(len(content)) + content
    return content


def peak_mib(process: subprocess.Popen[bytes]) -> float:
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        return int(found(r"VmHWM:\s+(\d+) kB", status.read())[1]) / 1024


def resident_mib(process: subprocess.Popen[bytes]) -> float:
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        return int(found(r"VmRSS:\s+(\d+) kB", status.read())[1]) / 1024


class AttackMemoryTest(unittest.TestCase):
    before: dict[str, float]
    identity: tuple[int, int]
    cluster: live_cluster.Cluster

    @classmethod
    def setUpClass(cls) -> None:
        stubs.make()
        cls.cluster = live_cluster.Cluster()
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.await_drafters()
        size, fingerprint = char_identity(cls.cluster)
        cls.identity = int(size), int(fingerprint, 16)
        cls.cluster.generate("To be", "--max-tokens", "40")
        cls.before = {name: resident_mib(cls.cluster.process(name))
                      for name in cls.cluster.services}

    def setUp(self) -> None:
        for name in self.cluster.services:
            with open(f"/proc/{self.cluster.process(name).pid}/clear_refs", "w",
                      encoding="ascii") as refs:
                refs.write("5")  # the peak begins anew

    def tearDown(self) -> None:
        self.assertEqual(self.cluster.gone(), {})
        self.assertTrue(self.cluster.generate("To be", "--max-tokens", "20")["text"])
        growth = {name: round(peak_mib(self.cluster.process(name)) - before)
                  for name, before in self.before.items()}
        print(f"{self.id().split('.')[-1]}: grew at most by {growth} MiB", file=sys.stderr)
        for name, mib in growth.items():
            self.assertLess(mib, MOST_GROWTH_MIB, name)

    def channel(self, name: str, **options: Any) -> Any:
        import grpc
        channel = grpc.insecure_channel(self.cluster.address(name), options=[
            ("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)],
            **options)
        self.addCleanup(channel.close)
        return channel

    def codes(self, calls: Iterable[Callable[..., Iterable[Any]]]) -> list[str]:
        """How each of the calls (functions that return an iterator) ended."""
        import grpc
        ended = []
        for call in calls:
            try:
                for _ in call():
                    pass
                ended.append("OK")
            except grpc.RpcError as error:
                ended.append(error.code().name)
        return ended

    def stream(self, method: Any, requests: Iterable[Any]) -> tuple[Any, threading.Event]:
        """A call of `method` that sends requests, numbered if they have no number, and
        then stays open; and an event: all of them are sent."""
        sent, done = threading.Event(), threading.Event()
        self.addCleanup(done.set)

        def messages() -> Iterator[Any]:
            for number, request in enumerate(requests):
                request.request_id = request.request_id or number + 1
                yield request
            sent.set()
            done.wait()
        return method(messages(), timeout=live_cluster.PATIENCE_S), sent

    def hello(self) -> Any:
        from espalier.v1 import drafter_pb2, types_pb2
        size, fingerprint = self.identity
        return drafter_pb2.CoordinatorHello(
            protocol_version=2, epoch=7, model=types_pb2.ModelIdentity(
                name="stranger", vocab_size=size, tokenizer_fingerprint=fingerprint))

    def update(self, session: int, tokens: list[int]) -> Any:
        from espalier.v1 import types_pb2
        return types_pb2.SequenceUpdate(
            key=types_pb2.SessionKey(epoch=7, session_id=session, round=1,
                                     prefix_hash=0x9E3779B97F4A7C15),
            new_tokens=tokens, sampling=types_pb2.SamplingParams(top_p=1))

    # ---- HTTP/2 ----

    def attacker(self, name: str, **options: Any) -> http2_attacker.Attacker:
        attacker = http2_attacker.Attacker(self.cluster.address(name), METHODS[name], **options)
        self.addCleanup(attacker.close)
        return attacker

    def closed(self, name: str, reason: str) -> int:
        """How many connections of the service were closed for that reason."""
        match = re.search(rf'espalier_connections_closed_total{{reason="{reason}"}} (\d+)',
                          self.cluster.scrape(name))
        return int(match[1]) if match else 0

    def test_calls_of_headers_only(self) -> None:
        for name in METHODS:
            for acknowledges in (True, False):
                with self.subTest(name, acknowledges=acknowledges):
                    attacker = self.attacker(name, acknowledges=acknowledges)
                    calls = b"".join(attacker.call()[1] for _ in range(170_000))
                    self.assertFalse(attacker.send(calls) and not attacker.wait_closed(30))

    def test_rapid_resets(self) -> None:
        for name in METHODS:
            with self.subTest(name):
                before = self.closed(name, "resets")
                attacker = self.attacker(name)
                calls = bytearray()
                for _ in range(100_000):
                    stream, begin = attacker.call()
                    calls += begin + http2_attacker.frame(
                        http2_attacker.RST_STREAM, 0, stream, b"\0\0\0\x08")
                self.assertFalse(attacker.send(calls) and not attacker.wait_closed(30))
                live_cluster.await_true(lambda: self.closed(name, "resets") == before + 1,
                                        "its connection is counted as closed for resets")

    def test_half_messages(self) -> None:
        for name in METHODS:
            with self.subTest(name):
                before = self.closed(name, "unfinished_bytes")
                until = time.monotonic() + live_cluster.PATIENCE_S
                attackers = [self.attacker(name) for _ in range(4)]
                threads = [threading.Thread(target=attacker.send_half_messages,
                                            args=(8 * MIB - 1, 64, until))
                           for attacker in attackers]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                live_cluster.await_true(
                    lambda name=name, before=before:
                        self.closed(name, "unfinished_bytes") > before,
                    f"{name} closes a connection")

    def test_memory_is_given_back(self) -> None:
        attackers = [self.attacker("coordinator") for _ in range(8)]
        for attacker in attackers:
            attacker.send(b"".join(attacker.call()[1] for _ in range(80)))
            attacker.send_half_messages(MIB, 12, time.monotonic() + live_cluster.PATIENCE_S)
            self.assertTrue(attacker.open)
        self.assertGreater(resident_mib(self.cluster.process("coordinator")),
                           self.before["coordinator"] + 64)
        for attacker in attackers:
            attacker.close()
        live_cluster.await_true(
            lambda: resident_mib(self.cluster.process("coordinator")) <
            self.before["coordinator"] + 32, "what the calls occupied is the system's again")

    # ---- requests of many fields ----

    def raw(self, method: str, request: bytes) -> Any:
        return self.channel("coordinator").unary_stream(method)(request, timeout=60)

    def test_messages_of_empty_fields(self) -> None:
        empty_messages = b"\x0a\0" * (4 * MIB - 16)
        chat = b"\x2a" + varint(len(empty_messages)) + empty_messages
        for request in (chat, b"\xba\x01\0" * (2 * MIB), b"\xfa\x7f\0" * (2 * MIB),
                        b"\x58\x01" * (4 * MIB - 16)):
            self.assertEqual(
                self.codes([lambda r=request: self.raw(METHODS["coordinator"], r)] * 3),
                ["INVALID_ARGUMENT"] * 3)

    def test_questions_of_empty_fields(self) -> None:
        """Methods whose requests have no content."""
        channel = self.channel("coordinator")
        for method in ("GetModelInfo", "GetServerInfo", "GetLoad"):
            call = channel.unary_unary(f"/espalier.v1.Inference/{method}")
            self.assertEqual(
                self.codes([lambda c=call: iter([c(b"\xfa\x7f\0" * (2 * MIB), timeout=60)])] * 3),
                ["INVALID_ARGUMENT"] * 3)

    def test_peers_messages_of_empty_fields(self) -> None:
        """After the hello: empty words that are not to be said, segments of a ring, and
        unknown fields. Each message would occupy a hundred MiB and more."""
        from espalier.v1 import drafter_pb2, verifier_pb2
        for name, request, path in (
                ("verifier", verifier_pb2.VerifyRequest, ("verify", "adjustments", "bad_words")),
                ("lookup", drafter_pb2.DraftRequest, ("propose", "stored_features", "segments"))):
            hello = request(request_id=1, hello=self.hello()).SerializeToString()
            call = self.channel(name).stream_stream(METHODS[name])
            for bad in (empty_fields(request.DESCRIPTOR, path), b"\xfa\x7f\0" * (2 * MIB)):
                self.assertEqual(
                    self.codes([lambda c=call, h=hello, b=bad: c(iter([h, b]), timeout=60)] * 3),
                    ["INVALID_ARGUMENT"] * 3)

    def test_all_at_once(self) -> None:
        """Each attack on each service at the same time, while others are served."""
        until = time.monotonic() + ATTACK_S
        requests = b"\xba\x01\0" * (2 * MIB)

        def calls(name: str) -> None:
            while time.monotonic() < until:
                attacker = http2_attacker.Attacker(self.cluster.address(name), METHODS[name])
                attacker.send(b"".join(attacker.call()[1] for _ in range(20_000)), until)
                attacker.close()

        def half_messages(name: str) -> None:
            while time.monotonic() < until:
                attacker = http2_attacker.Attacker(self.cluster.address(name), METHODS[name])
                attacker.send_half_messages(8 * MIB - 1, 64, until)
                attacker.close()

        def many_fields(_: Any) -> None:
            while time.monotonic() < until:
                self.codes([lambda: self.raw(METHODS["coordinator"], requests)])

        def metrics(name: str) -> None:
            host, port = self.cluster.http_address(name).rsplit(":", 1)
            while time.monotonic() < until:
                slow = [socket.create_connection((host, int(port))) for _ in range(200)]
                for connection in slow:
                    connection.send(b"GET")
                time.sleep(0.5)
                for connection in slow:
                    connection.close()

        threads = [threading.Thread(target=attack, args=(name,)) for name in METHODS
                   for attack in (calls, half_messages, many_fields, metrics)]
        for thread in threads:
            thread.start()
        while time.monotonic() < until:
            self.assertTrue(self.cluster.generate("To be", "--max-tokens", "20")["text"])
            self.assertIn("process_", self.cluster.scrape("coordinator"))
        for thread in threads:
            thread.join()

    # ---- a client ----

    def test_prompts_of_60_mib(self) -> None:
        from espalier.v1 import inference_pb2 as pb, inference_pb2_grpc
        request = pb.GenerateRequest(prompt="To be " * (10 * MIB), max_tokens=4)
        stub = inference_pb2_grpc.InferenceStub(self.channel("coordinator"))
        calls = [stub.Generate(request, timeout=60) for _ in range(4)]
        self.assertEqual(self.codes([lambda c=call: c for call in calls]),
                         ["RESOURCE_EXHAUSTED"] * 4)

    def test_messages_that_decompress_to_a_gigabyte(self) -> None:
        import grpc
        from espalier.v1 import inference_pb2 as pb, inference_pb2_grpc
        request = pb.GenerateRequest(prompt="a" * (256 * MIB), max_tokens=4)
        stub = inference_pb2_grpc.InferenceStub(
            self.channel("coordinator", compression=grpc.Compression.Gzip))
        ended = self.codes([lambda: stub.Generate(request, timeout=60)] * 2)
        self.assertLessEqual(set(ended), {"UNIMPLEMENTED", "RESOURCE_EXHAUSTED"})

    def test_names_of_methods(self) -> None:
        channel = self.channel("coordinator")
        for first in range(0, 20_000, 100):
            # A call that is dropped before its end is reset, and many resets close the
            # connection.
            calls = [channel.unary_unary(f"/espalier.v1.Inference/Method{number}").future(
                b"", timeout=60) for number in range(first, first + 100)]
            self.assertEqual({call.code().name for call in calls}, {"UNIMPLEMENTED"})
        self.assertLess(len(get(f"http://{self.cluster.http_address('coordinator')}/metrics")),
                        MIB)

    def test_streams_that_are_never_read(self) -> None:
        from espalier.v1 import inference_pb2 as pb, inference_pb2_grpc
        stub = inference_pb2_grpc.InferenceStub(self.channel("coordinator"))
        request = pb.GenerateRequest(prompt="To be", max_tokens=2000, ignore_eos=True)
        calls = [stub.Generate(request, timeout=60) for _ in range(40)]
        self.addCleanup(lambda: [call.cancel() for call in calls])
        live_cluster.await_true(
            lambda: not any(gauges(self.cluster, "coordinator", "espalier_requests_in_flight")),
            "all have ended, unread")

    # ---- a stranger among the services ----

    def test_feature_chunks_without_a_request(self) -> None:
        from espalier.v1 import drafter_pb2 as pb, drafter_pb2_grpc, types_pb2
        stub = drafter_pb2_grpc.DrafterStub(self.channel("lookup"))
        chunk = types_pb2.FeatureChunk(num_rows=1, type=types_pb2.FEATURE_TYPE_BF16,
                                       data=b"\0" * (7 * MIB))
        chunks = [pb.DraftRequest(request_id=2, features=chunk)] * 30
        streams = [self.stream(stub.Draft, [pb.DraftRequest(hello=self.hello()), *chunks])
                   for _ in range(6)]
        for _, sent in streams:
            live_cluster.await_true(sent.is_set, "the chunks are sent")

    def test_trees_with_distributions_of_the_whole_vocabulary(self) -> None:
        from espalier.v1 import types_pb2, verifier_pb2 as pb
        nodes, width = 30, 25_000
        tree = types_pb2.TokenTree(
            token=[1] * nodes, parent=range(-1, nodes - 1), log_prob=[-1.0] * nodes,
            sample_node=range(nodes), sample_distribution=range(nodes),
            distribution_size=[width] * nodes, distribution_token=[1] * (nodes * width),
            distribution_weight=[1] * (nodes * width))
        answers, _ = self.verify(
            pb.VerifyTree(update=self.update(number, [1, 2, 3]), tree=tree, rule="walk")
            for number in range(4))
        self.assertEqual([next(answers).failure.code for _ in range(4)], [3] * 4)

    def test_rounds_that_are_never_read(self) -> None:
        from espalier.v1 import types_pb2, verifier_pb2 as pb
        again = pb.VerifyTree(update=self.update(1, [2] * 200 + [1]), tree=self.root(),
                              rule="walk",
                              features=types_pb2.FeatureRequest(after_layers=[1, 2, 3]))
        for _ in range(4):
            answers, sent = self.verify([again] * 2000)
            live_cluster.await_true(lambda c=answers, s=sent: c.done() or s.is_set(),
                                    "the rounds are sent, or the stream is closed")

    def test_sessions_of_a_stranger(self) -> None:
        from espalier.v1 import verifier_pb2 as pb
        answers, _ = self.verify(
            pb.VerifyTree(update=self.update(number, [2] * 200 + [1]), tree=self.root(),
                          rule="walk")
            for number in range(500))
        self.assertEqual(len([next(answers) for _ in range(500)]), 500)

    def root(self) -> Any:
        from espalier.v1 import types_pb2
        return types_pb2.TokenTree(token=[1], parent=[-1], log_prob=[0.0])

    def verify(self, trees: Any) -> tuple[Any, Any]:
        """`stream` to the verifier, after its hello."""
        from espalier.v1 import verifier_pb2 as pb, verifier_pb2_grpc
        stub = verifier_pb2_grpc.VerifierStub(self.channel("verifier"))
        answers, sent = self.stream(stub.Verify, [
            pb.VerifyRequest(hello=self.hello()),
            *(pb.VerifyRequest(verify=tree) for tree in trees)])
        next(answers)
        return answers, sent


if __name__ == "__main__":
    if why := stubs.missing():
        print(f"skipped: {why}")
        sys.exit(0)
    unittest.main(verbosity=2)
