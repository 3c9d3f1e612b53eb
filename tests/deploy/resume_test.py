#!/usr/bin/env python3
"""The example client of deploy/examples/resume against two coordinators, one of which is
killed in mid-stream: the text is the one without the fault."""

import re
import sys
import time
import unittest

from live_cluster import CHAR_MODEL, REPO, Services

sys.path.insert(0, str(REPO / "deploy/examples/resume"))
import complete  # noqa: E402  (the example is no package)


class ResumeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.services = Services()
        cls.services.start_service("verifier", f'engine {{ model: "{CHAR_MODEL}" threads: 1 }}')
        cls.services.await_serving("verifier")
        for name in ("coordinator", "coordinator2"):
            cls.services.start_service(
                name, f'model: "{CHAR_MODEL}" verifier: "{cls.services.address("verifier")}" '
                      f'http_listen: "127.0.0.1:0"')
            cls.services.await_serving(name)

    @classmethod
    def tearDownClass(cls):
        cls.services.close()

    def addresses(self):
        return [re.search("^http (.*)$", (self.services.folder / f"{name}.addresses").read_text(),
                          re.MULTILINE)[1] for name in ("coordinator", "coordinator2")]

    def run_with(self, request, at_piece=None):
        """The text. `at_piece`: kills the first coordinator when so many pieces have come."""
        text, last, longest = "", None, 0
        for number, piece in enumerate(complete.complete(self.addresses(), request)):
            now = time.monotonic()
            longest = max(longest, now - (last or now))
            last = now
            text += piece
            if number == at_piece:
                self.services.process("coordinator").kill()
                self.services.process("coordinator").wait()
        if at_piece is not None:
            print(f"T = {request['temperature']}: longest gap {1e3 * longest:.0f} ms")
            self.services.restart("coordinator")
            self.services.await_serving("coordinator")
        return text

    def test_a_killed_coordinator_costs_no_text(self):
        for temperature in (0, 0.7, 1):
            request = {"prompt": "First Citizen:\n", "max_tokens": 200, "seed": 3,
                       "temperature": temperature, "ignore_eos": True, "stop": "zzzz",
                       "frequency_penalty": 0.2}
            whole = self.run_with(request)
            self.assertEqual(self.run_with(request, at_piece=3), whole)

    def test_without_a_seed_the_servers_is_kept(self):
        request = {"prompt": "First Citizen:\n", "max_tokens": 200, "temperature": 1,
                   "ignore_eos": True}
        self.assertEqual(len(self.run_with(request, at_piece=3)), 200)

    def test_a_wrong_request_is_not_asked_again(self):
        with self.assertRaisesRegex(SystemExit, "temperature"):
            self.run_with({"prompt": "a", "temperature": -1})

    def test_a_server_that_is_away_is_passed_over(self):
        self.services.process("coordinator").kill()
        self.services.process("coordinator").wait()
        request = {"prompt": "First Citizen:\n", "max_tokens": 20, "temperature": 0}
        self.assertTrue(self.run_with(request))
        self.services.restart("coordinator")
        self.services.await_serving("coordinator")


if __name__ == "__main__":
    unittest.main(verbosity=2)
