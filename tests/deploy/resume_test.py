#!/usr/bin/env python3
"""The example client of deploy/examples/resume against two coordinators, one of which is
killed or drained in mid-stream: the text is the one without the fault."""

import re
import signal
import sys
import time
import unittest
from typing import Any

from live_cluster import CHAR_MODEL, REPO, Services, found
from relay import Relay

sys.path.insert(0, str(REPO / "deploy/examples/resume"))
import complete  # noqa: E402  (the example is no package)


class ResumeTest(unittest.TestCase):
    services: Services

    @classmethod
    def setUpClass(cls) -> None:
        cls.services = Services()
        cls.services.start_service("verifier", f'engine {{ model: "{CHAR_MODEL}" threads: 1 }}')
        cls.services.await_serving("verifier")
        # A round takes some milliseconds, so that a text is still on its way when its server ends.
        relay = Relay(f"{cls.services.folder}/verifier.relay", f"{cls.services.folder}/verifier.sock")
        relay.latency_s = 0.002
        for name in ("coordinator", "coordinator2"):
            cls.services.start_service(
                name, f'model: "{CHAR_MODEL}" verifier: "{relay.address}" '
                      f'http_listen: "127.0.0.1:0"', ("server.drain_seconds=0",))
            cls.services.await_serving(name)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.services.close()

    def setUp(self) -> None:
        self.resumptions = 0
        rest = complete.Answer.rest

        def counted(answer: complete.Answer) -> dict[str, Any]:
            self.resumptions += bool(answer.token_ids)
            return rest(answer)
        setattr(complete.Answer, "rest", counted)
        self.addCleanup(setattr, complete.Answer, "rest", rest)

    def addresses(self) -> list[Any]:
        return [found("^http (.*)$", (self.services.folder / f"{name}.addresses").read_text(),
                          re.MULTILINE)[1] for name in ("coordinator", "coordinator2")]

    def run_with(self, request: dict[str, Any], at_piece: int | None = None,
                 by: signal.Signals = signal.SIGKILL) -> str:
        """The text. `at_piece`: ends the first coordinator when so many pieces have come."""
        text, last, longest = "", None, 0.0
        for number, piece in enumerate(complete.complete(self.addresses(), request)):
            now = time.monotonic()
            longest = max(longest, now - (last or now))
            last = now
            text += piece
            if number == at_piece:
                self.services.process("coordinator").send_signal(by)
                self.services.process("coordinator").wait()
        if at_piece is not None:
            print(f"T = {request['temperature']}: longest gap {1e3 * longest:.0f} ms")
            self.services.restart("coordinator")
            self.services.await_serving("coordinator")
        return text

    def resumed(self, request: dict[str, Any], by: signal.Signals) -> str:
        """The text, whose first server ends in mid-stream. A whole answer may be on its way
        before that: then once more."""
        for _ in range(8):
            before = self.resumptions
            text = self.run_with(request, at_piece=3, by=by)
            if self.resumptions > before:
                return text
        self.fail("no answer was resumed")

    def test_a_killed_coordinator_costs_no_text(self) -> None:
        for temperature in (0, 0.7, 1):
            request = {"prompt": "First Citizen:\n", "max_tokens": 200, "seed": 3,
                       "temperature": temperature, "ignore_eos": True, "stop": "zzzz",
                       "frequency_penalty": 0.2}
            whole = self.run_with(request)
            self.assertEqual(self.resumed(request, signal.SIGKILL), whole)

    def test_a_coordinator_that_drains_sends_its_clients_on(self) -> None:
        """SIGTERM, without time to finish what it has begun."""
        request = {"prompt": "First Citizen:\n", "max_tokens": 200, "seed": 3, "temperature": 1,
                   "ignore_eos": True}
        whole = self.run_with(request)
        self.assertEqual(self.resumed(request, signal.SIGTERM), whole)
        self.assertEqual(self.services.gone(), {})

    def test_without_a_seed_the_servers_is_kept(self) -> None:
        request = {"prompt": "First Citizen:\n", "max_tokens": 200, "temperature": 1,
                   "ignore_eos": True}
        self.assertEqual(len(self.resumed(request, signal.SIGKILL)), 200)

    def test_a_wrong_request_is_not_asked_again(self) -> None:
        with self.assertRaisesRegex(SystemExit, "temperature"):
            self.run_with({"prompt": "a", "temperature": -1})

    def test_a_server_that_is_away_is_passed_over(self) -> None:
        self.services.process("coordinator").kill()
        self.services.process("coordinator").wait()
        request = {"prompt": "First Citizen:\n", "max_tokens": 20, "temperature": 0}
        self.assertTrue(self.run_with(request))
        self.services.restart("coordinator")
        self.services.await_serving("coordinator")


if __name__ == "__main__":
    unittest.main(verbosity=2)
