"""Texts streamed from a cluster, recorded message by message and checked."""

import re
import time
import unittest
from collections.abc import Callable, Iterable
from typing import Any

import live_cluster
import stubs
from conformance_test import char_identity

PROMPT = "First of all, what is the matter with the king?\n"
SERVICES_OF_A_TEXT = ("coordinator", "verifier", "lookup", "bigram")


class Recorded:
    """One stream, message by message, and how it ended."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.summary: Any = None
        self.code: str | None = None
        self.details: str | None = None  # of the error that ended it

    @property
    def tokens(self) -> list[int]:
        return [token for message in self.messages for token in message.token_ids]

    def problems(self, expected: list[int]) -> list[str]:
        """Errors in the record of a stream that ended with OK."""
        if self.code is not None:
            return [f"ended with {self.code}: {self.details}"]
        steps = [m.step for m in self.messages if m.token_ids]
        problems = []
        if steps != sorted(set(steps)):
            problems.append(f"steps doubled or reordered: {steps}")
        if self.summary is None:
            problems.append("no summary")
        elif self.summary.usage.completion_tokens != len(self.tokens):
            problems.append("tokens lost: fewer than the summary counts")
        if self.tokens != expected:
            problems.append(f"another text: {self.tokens} instead of {expected}")
        return problems


class Client:
    """Streams texts from a coordinator and records them."""

    def __init__(self, address: str, credentials: Any = None,
                 options: Iterable[tuple[str, Any]] = ()) -> None:
        import grpc
        from espalier.v1 import inference_pb2 as pb, inference_pb2_grpc
        self._grpc, self._pb = grpc, pb
        options = [("grpc.initial_reconnect_backoff_ms", 50),
                   ("grpc.max_reconnect_backoff_ms", 200), *options]
        self._channel = (grpc.secure_channel(address, credentials, options) if credentials
                         else grpc.insecure_channel(address, options))
        self._stub = inference_pb2_grpc.InferenceStub(self._channel)

    def request(self, seed: int = 5, tokens: int = 160, speculate: bool = True,
                strategy: str | None = None) -> Any:
        return self._pb.GenerateRequest(
            prompt=PROMPT, temperature=1.0, seed=seed, max_tokens=tokens, ignore_eos=True,
            speculation=self._pb.SpeculationOptions(enabled=speculate, strategy=strategy))

    @property
    def error(self) -> Any:
        return self._grpc.RpcError

    def stream(self, request: Any, **options: Any) -> Any:
        return self._stub.Generate(request, timeout=live_cluster.PATIENCE_S, **options)

    def open(self, **options: Any) -> Any:
        return self.stream(self.request(**options), wait_for_ready=True)

    def generate(self, on_message: Callable[[int], object] = lambda number: None,
                 **options: Any) -> Recorded:
        record = Recorded()
        try:
            for number, message in enumerate(self.open(**options)):
                record.messages.append(message)
                if message.HasField("summary"):
                    record.summary = message.summary
                on_message(number)
        except self._grpc.RpcError as error:
            record.code, record.details = error.code().name, error.details()
        return record

    def generate_retrying(self, **options: Any) -> Recorded:
        """As a client with gRPC's retry policy: what was refused as UNAVAILABLE
        before its first token is asked again. So is what reaches a server in the
        moment in which it closes: gRPC ends such calls as CANCELLED."""
        end = time.monotonic() + live_cluster.PATIENCE_S
        while True:
            record = self.generate(**options)
            refused = record.code in ("UNAVAILABLE", "CANCELLED") and not record.messages
            if not refused or time.monotonic() > end:
                return record
            time.sleep(0.1)

    def close(self) -> None:
        self._channel.close()


def gauges(cluster: live_cluster.Services, service: str, name: str) -> list[float]:
    """Values of all series of a metric."""
    return [float(value) for value in
            re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", cluster.scrape(service), re.M)]


def counter(cluster: live_cluster.Services, name: str, service: str = "coordinator",
            **labels: str) -> float:
    total = 0.0
    for found, value in re.findall(rf"^{name}{{([^}}]*)}} (\S+)$",
                                   cluster.scrape(service), re.M):
        if all(f'{key}="{wanted}"' in found for key, wanted in labels.items()):
            total += float(value)
    return total


def in_midstream(action: Callable[[], object]) -> Callable[[int], object]:
    """An on_message that does `action` once, after the third message."""
    return lambda number: action() if number == 3 else None


class RecordedTest(unittest.TestCase):
    """The texts of a cluster without faults: `texts[seed]`."""
    texts: dict[int, list[int]]
    reference: live_cluster.Cluster
    identity: tuple[str, str]
    stubs: str

    @classmethod
    def setUpClass(cls) -> None:
        cls.stubs = stubs.make()
        reference = live_cluster.Cluster()
        cls.addClassCleanup(reference.close)
        cls.identity = char_identity(reference)
        cls.reference = reference
        client = Client(reference.address("coordinator"))
        cls.addClassCleanup(client.close)
        cls.texts = {seed: client.generate(seed=seed, speculate=False).tokens
                     for seed in range(5, 13)}

    def cluster(self, *settings: str, **options: Any) -> tuple[live_cluster.Cluster, Client]:
        cluster = live_cluster.Cluster(settings, **options)
        self.addCleanup(cluster.close)
        # A test restarts every process that it ends: a missing process has crashed.
        self.addCleanup(lambda: self.assertEqual(cluster.gone(), {}))
        client = Client(cluster.address("coordinator"))
        self.addCleanup(client.close)
        return cluster, client

    def assert_unharmed(self, record: Recorded, seed: int = 5) -> None:
        self.assertEqual(record.problems(self.texts[seed]), [])

    def await_idle(self, cluster: live_cluster.Services) -> None:
        """Every service has forgotten every session, and the pool is empty."""
        def held() -> list[tuple[str, float]]:
            return [(name, value) for name in SERVICES_OF_A_TEXT
                    for value in gauges(cluster, name, "espalier_sessions_open")
                    + gauges(cluster, name, "espalier_kv_tokens_used") if value]
        live_cluster.await_true(lambda: not held(), "no session is left")
