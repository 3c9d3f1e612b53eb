#!/usr/bin/env python3
"""Limits that keep one client from taking what belongs to all, and what
operators see of a service that is away: with real processes."""

import socket
import sys
import threading
import time
import unittest
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import http2_attacker
import live_cluster
import stubs
from conformance_test import char_identity


class LimitsTest(unittest.TestCase):
    cluster: live_cluster.Cluster

    settings: tuple[str, ...] = ()

    @classmethod
    def setUpClass(cls) -> None:
        stubs.make()
        cls.cluster = live_cluster.Cluster(cls.settings)
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.await_drafters()

    def stub(self) -> Any:
        import grpc
        from espalier.v1 import inference_pb2_grpc
        channel = grpc.insecure_channel(self.cluster.address("coordinator"))
        self.addCleanup(channel.close)
        return inference_pb2_grpc.InferenceStub(channel)

    def generate(self, timeout: float = 60, tokens: int = 4,
                 **fields: Any) -> tuple[Any, Any] | tuple[str, str]:
        """How a request ends: its code and its message."""
        import grpc
        from espalier.v1 import inference_pb2 as pb
        request = pb.GenerateRequest(prompt="To be", max_tokens=tokens, **fields)
        try:
            for _ in self.stub().Generate(request, timeout=timeout):
                pass
            return "OK", ""
        except grpc.RpcError as error:
            return error.code().name, error.details()


class ClientsTest(LimitsTest):
    def test_slow_connections_do_not_hold_up_the_metrics(self) -> None:
        host, port = self.cluster.http_address("coordinator").rsplit(":", 1)
        stop = threading.Event()

        def drip() -> None:
            """500 requests that never end; each sends a byte now and then."""
            while not stop.is_set():
                slow = [socket.create_connection((host, int(port))) for _ in range(500)]
                for connection in slow:
                    try:
                        connection.send(b"G")
                    except OSError:
                        pass
                stop.wait(0.2)
                for connection in slow:
                    connection.close()
        thread = threading.Thread(target=drip)
        thread.start()
        try:
            for _ in range(5):
                self.assertIn("espalier_", self.cluster.scrape("coordinator"))
        finally:
            stop.set()
            thread.join()

    def test_nobody_overtakes_others_unless_the_operator_allows_it(self) -> None:
        code, details = self.generate(priority=-1)
        self.assertEqual(code, "PERMISSION_DENIED")
        self.assertIn("core.min_priority", details)
        self.assertEqual(self.generate(priority=3)[0], "OK")

    def test_a_timeout_of_200_years_is_no_deadline(self) -> None:
        # gRPC's clients end calls themselves if the deadline is after the year 2262.
        self.assertEqual(self.generate(timeout=200 * 365 * 86400), ("OK", ""))

    def test_the_largest_timeouts_are_no_deadline(self) -> None:
        from espalier.v1 import inference_pb2 as pb
        request = pb.GenerateRequest(prompt="To be", max_tokens=4).SerializeToString()
        for timeout in (b"2562047H", b"99999999H"):
            with self.subTest(timeout):
                client = http2_attacker.Attacker(
                    self.cluster.address("coordinator"), "/espalier.v1.Inference/Generate",
                    headers=[(b"grpc-timeout", timeout)])
                self.addCleanup(client.close)
                stream, begin = client.call()
                client.send(begin + http2_attacker.frame(
                    http2_attacker.DATA, http2_attacker.END_STREAM, stream,
                    http2_attacker.prefix(len(request)) + request))
                client.wait_for(lambda c=client, s=stream: s in c.ended, live_cluster.PATIENCE_S)
                self.assertIn(b"grpc-status\x010", client.ended[stream])

    def test_requests_are_shown_to_holders_of_the_key_only(self) -> None:
        self.assertEqual(self.generate()[0], "OK")
        report = self.cluster.report()
        self.assertEqual((report["requests"], report["request"]), ([], None))


class AllowedTest(LimitsTest):
    settings = ("core.min_priority_unix=-10",)

    def test_an_operator_may_let_unix_sockets_overtake(self) -> None:
        self.assertEqual(self.generate(priority=-10)[0], "OK")
        self.assertEqual(self.generate(priority=-11)[0], "PERMISSION_DENIED")


class DeadVerifierTest(LimitsTest):
    settings = ("core.max_verifier_wait_seconds=1",)

    def test_requests_end_with_its_state(self) -> None:
        self.cluster.process("verifier").kill()
        self.cluster.process("verifier").wait()
        live_cluster.await_true(lambda: not self.serves(), "health turns")
        # Without a deadline, as far as this test is concerned.
        code, details = self.generate(timeout=live_cluster.PATIENCE_S)
        self.assertEqual(code, "UNAVAILABLE")
        self.assertIn("verifier", details)
        self.cluster.restart("verifier")
        self.cluster.await_serving("coordinator")
        self.assertEqual(self.generate(), ("OK", ""))

    def serves(self) -> Any:
        import grpc
        check = grpc.insecure_channel(self.cluster.address("coordinator"))
        self.addCleanup(check.close)
        answer = check.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=10)
        return answer == b"\x08\x01"


class ClosingDrafterTest(LimitsTest):
    """A drafter that ends each stream after its hello."""

    def test_it_is_dialled_ever_more_rarely(self) -> None:
        import grpc
        from espalier.v1 import drafter_pb2 as pb, drafter_pb2_grpc, types_pb2
        size, fingerprint = char_identity(self.cluster)
        hellos = []

        class Closing(drafter_pb2_grpc.DrafterServicer):
            def Draft(self, requests: Any, context: Any) -> Iterator[Any]:
                request = next(requests)
                hellos.append(time.monotonic())
                yield pb.DraftResponse(request_id=request.request_id, hello=pb.DrafterHello(
                    protocol_version=2, name="closing", type="closing", max_nodes=8, max_depth=8,
                    model=types_pb2.ModelIdentity(
                        name=request.hello.model.name, vocab_size=int(size),
                        tokenizer_fingerprint=int(fingerprint, 16))))

        server = grpc.server(futures.ThreadPoolExecutor(4))
        drafter_pb2_grpc.add_DrafterServicer_to_server(Closing(), server)
        address = f"unix:{self.cluster.folder}/closing.sock"
        server.add_insecure_port(address)
        server.start()
        self.addCleanup(server.stop, None)
        other = live_cluster.Cluster(others={"closing": address})
        self.addCleanup(other.close)
        live_cluster.await_true(lambda: len(hellos) >= 6, "it is dialled again and again")
        gaps = [after - before for before, after in zip(hellos, hellos[1:])]
        # 100, 200, 400, 800, 1600 ms, each less or more by a fifth at most.
        self.assertGreater(gaps[4], 1.2)
        self.assertLess(other.log("coordinator").count("closing"), 40)


if __name__ == "__main__":
    if why := stubs.missing():
        print(f"skipped: {why}")
        sys.exit(0)
    unittest.main(verbosity=2)
