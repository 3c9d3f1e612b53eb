#!/usr/bin/env python3
"""First steps with `espalier serve`: its status page, an address that is in use,
another model by a flag; and a conformance run without a drafter."""

import socket
import subprocess
import unittest
from typing import Any

import live_cluster
from live_cluster import BIN, CHAR_MODEL


class ServeTest(unittest.TestCase):
    def setUp(self) -> None:
        self.processes = live_cluster.Processes()
        self.addCleanup(self.processes.close)
        self.address = f"unix:{self.processes.folder}/serve.sock"

    def argv(self, *settings: str) -> list[Any]:
        return [BIN / "espalier", "serve", "--model", CHAR_MODEL, "--set",
                f"server.listen={self.address}", *(word for s in settings for word in ("--set", s))]

    def serve(self, *settings: str) -> subprocess.Popen[bytes]:
        process = self.processes.start("serve", *self.argv(*settings))
        live_cluster.await_true(lambda: "info serving" in self.processes.log("serve"), "it serves")
        return process

    def run_to_end(self, *argv: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(word) for word in argv], capture_output=True, text=True,
                              timeout=live_cluster.PATIENCE_S, check=False)

    def test_another_model_and_a_page_without_being_asked(self) -> None:
        self.serve()
        page = live_cluster.found(r"status page: (http://127\.0\.0\.1:\d+/)",
                                  self.processes.log("serve"))
        self.assertIn("<title>Espalier", live_cluster.get(page[1]))
        done = self.run_to_end(BIN / "espalier", "generate", "--address", self.address, "--prompt",
                               "First Citizen:", "--max-tokens", "20")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("cut at its limit of 20 tokens", done.stderr)

    def test_a_page_that_is_not_wanted(self) -> None:
        self.serve("server.metrics_listen=none")
        self.assertNotIn("status page", self.processes.log("serve"))

    def test_http_without_being_asked_and_beside_another_server(self) -> None:
        with socket.socket() as taken:
            # As servers do: connections that have ended do not hold the port.
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                taken.bind(("127.0.0.1", 8080))
                taken.listen()
            except OSError:
                pass  # by another server, which is as good
            self.serve()
        api = live_cluster.found(r"OpenAI's API: (http://127\.0\.0\.1:\d+)/v1",
                                 self.processes.log("serve"))
        self.assertNotEqual(api[1], "http://127.0.0.1:8080")
        self.assertIn("HTTP gets a port of its own", self.processes.log("serve"))
        self.assertIn(CHAR_MODEL.name, live_cluster.get(f"{api[1]}/v1/models"))

    def test_http_beyond_the_loopback_needs_keys(self) -> None:
        done = self.run_to_end(*self.argv(), "--http-listen", "0.0.0.0:0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("http.keys_file", done.stderr)
        self.assertNotIn("loaded", done.stderr)

    def test_an_address_in_use_is_noticed_before_the_model_is_loaded(self) -> None:
        first = self.serve()
        done = self.run_to_end(*self.argv())
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"(process {first.pid})", done.stderr)
        self.assertIn("quickstart.sh --stop", done.stderr)
        self.assertNotIn("loaded", done.stderr)

    def test_a_port_in_use_is_named_with_what_chooses_another(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            for flags, advice in ((("--http-listen", address), "--http-listen HOST:PORT"),
                                  (("--set", f"server.metrics_listen={address}"),
                                   "--set server.metrics_listen=127.0.0.1:PORT")):
                done = self.run_to_end(*self.argv(), *flags)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"cannot listen on {address}: address already in use", done.stderr)
                self.assertIn(advice, done.stderr)

    def test_flags_that_do_not_exist(self) -> None:
        done = self.run_to_end(BIN / "espalier", "serve", "--modle", CHAR_MODEL)
        self.assertEqual(done.returncode, 2)
        self.assertIn("did you mean --model?", done.stderr)

    def test_conformance_of_nobody_is_one_error(self) -> None:
        done = self.run_to_end(BIN / "espalier", "conformance", self.address, "--model", CHAR_MODEL)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, "^espalier conformance: UNAVAILABLE: nobody answers at [^\n]*\n$")


if __name__ == "__main__":
    unittest.main(verbosity=2)
