"""Load on several coordinators by clients that go on elsewhere when one is lost."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import live_cluster
from recorded_client import Client, Recorded, RecordedTest


class Resuming:
    """A client of all coordinators: goes on at the next one when one is lost. `longest_gap`:
    the longest time, in seconds, between two messages of a text, or until its first."""

    def __init__(self, addresses: Sequence[str], credentials: Any = None,
                 strategy: str | None = None) -> None:
        # A server that no longer answers is given up after 2 s, one that does not connect
        # after 1 s.
        options = [("grpc.keepalive_time_ms", 1000), ("grpc.keepalive_timeout_ms", 1000),
                   ("grpc.min_reconnect_backoff_ms", 1000)]
        self._clients = [Client(address, credentials, options) for address in addresses]
        self._strategy = strategy
        self.longest_gap = 0.0
        self.resumptions = 0

    def generate(self, seed: int, tokens: int = 160,
                 on_message: Callable[[int], object] = lambda number: None) -> Recorded:
        record, number, last = Recorded(), 0, time.monotonic()
        end = last + live_cluster.PATIENCE_S
        turn = seed
        while record.summary is None and time.monotonic() < end:
            client = self._clients[turn % len(self._clients)]
            turn += 1
            try:
                request = client.request(seed=seed, tokens=tokens, strategy=self._strategy)
                for message in self._rest(record, client, request):
                    now = time.monotonic()
                    self.longest_gap = max(self.longest_gap, now - last)
                    last = now
                    record.messages.append(message)
                    if message.HasField("summary"):
                        record.summary = message.summary
                    on_message(number)
                    number += 1
            except client.error as error:
                if error.code().name not in ("UNAVAILABLE", "CANCELLED"):
                    record.code, record.details = error.code().name, error.details()
                    return record
                time.sleep(0.02)
        return record

    def _rest(self, record: Recorded, client: Client, request: Any) -> Iterator[Any]:
        """The messages that are missing. None from a server before 0.3, which begins anew."""
        from espalier.v1 import inference_pb2 as pb
        resumed = bool(record.tokens)
        if resumed:
            self.resumptions += 1
            request.resumption.outputs.append(pb.ResumedOutput(token_ids=record.tokens))
            if record.messages[0].HasField("origin"):
                request.resumption.origin = record.messages[0].origin
        for message in client.stream(request):
            if resumed and message.token_ids and not message.HasField("origin"):
                return
            resumed = False
            yield message

    def problems(self, record: Recorded, expected: list[int]) -> list[str]:
        """As Recorded.problems, but the steps of each call begin anew."""
        return [problem for problem in record.problems(expected)
                if not problem.startswith("steps")]

    def close(self) -> None:
        for client in self._clients:
            client.close()


class LoadedTest(RecordedTest):
    @contextlib.contextmanager
    def load(self, client: Resuming, what: str,
             pause_s: float = 0) -> Iterator[Callable[..., None]]:
        """Four streams at a time, all of whose texts are checked, while the body runs. Gives a
        function that waits until some more texts have come. `pause_s`: between two texts of a
        stream."""
        stop, problems, served = threading.Event(), [], []
        client.longest_gap, client.resumptions = 0.0, 0

        def ask(seed: int) -> None:
            while not stop.is_set():
                problems.extend(client.problems(client.generate(seed), self.texts[seed]))
                served.append(seed)
                time.sleep(pause_s)

        def await_more(count: int = 6) -> None:
            goal = len(served) + count
            live_cluster.await_true(lambda: len(served) >= goal, f"{count} more texts")
        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(5, 9)]
        for thread in threads:
            thread.start()
        try:
            await_more()
            yield await_more
            await_more()
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        print(f"{what}: {len(served)} texts, {client.resumptions} resumed, longest gap "
              f"{1e3 * client.longest_gap:.0f} ms")
        self.assertEqual(problems, [])
