#!/usr/bin/env python3
"""SIGHUP with real processes: level of the log, tokens, roles, keys and tenants are read
again, all or none."""

import hashlib
import signal
import subprocess
import unittest
import urllib.error
import urllib.request

import live_cluster
from live_cluster import BIN, CHAR_MODEL

OPERATOR = "token-of-the-operator"
KEYS = ("key-of-the-first-client", "key-of-the-second-one")


def role_of(token: str) -> str:
    return f"operator anna sha256:{hashlib.sha256(token.encode()).hexdigest()}\n"


class ReloadTest(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = live_cluster.Services()
        self.addCleanup(self.cluster.close)
        self.folder = self.cluster.folder
        for name, text in {"peer.token": "the-first-secret\n", "roles": role_of(OPERATOR),
                           "token": OPERATOR, "keys": f"acme {KEYS[0]}\n",
                           "tenants": 'tenants { name: "acme" }\n'}.items():
            (self.folder / name).write_text(text)
        self.cluster.start_service(
            "verifier", f'engine {{ model: "{CHAR_MODEL}" threads: 1 }} '
            f'token_file: "{self.folder}/peer.token"')
        self.start_coordinator()
        self.cluster.await_serving("coordinator")

    def start_coordinator(self) -> None:
        self.cluster.start_service(
            "coordinator",
            f'model: "{CHAR_MODEL}" verifier: "{self.cluster.address("verifier")}" '
            f'verifier_token_file: "{self.folder}/peer.token" '
            f'core {{ tenants_file: "{self.folder}/tenants" }} '
            f'http_listen: "127.0.0.1:0" http {{ keys_file: "{self.folder}/keys" }}',
            [f"server.roles_file={self.folder}/roles"])

    def read_again(self, name: str) -> str:
        """Sends SIGHUP; returns what the log says about it."""
        lines = [line for line in self.cluster.log(name).splitlines() if "SIGHUP" in line]
        self.cluster.process(name).send_signal(signal.SIGHUP)

        def answer() -> list[str]:
            now = [line for line in self.cluster.log(name).splitlines() if "SIGHUP" in line]
            return now[len(lines):]
        return live_cluster.await_true(answer, "the log tells of SIGHUP")[0]

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.folder / f"{name}.textproto"
        text = path.read_text()
        self.assertIn(old, text)
        path.write_text(text.replace(old, new))

    def generate(self) -> str:
        return subprocess.run(
            [BIN / "espalier", "generate", "--address", self.cluster.address("coordinator"),
             "--token-file", self.folder / "token", "--prompt", "First Citizen:\n",
             "--max-tokens", "20", "--ignore-eos"],
            capture_output=True, text=True, timeout=live_cluster.PATIENCE_S, check=True).stdout

    def http_status(self, key: str) -> int:
        request = urllib.request.Request(self.cluster.http_url("coordinator") + "/v1/models",
                                         headers={"x-api-key": key})
        try:
            with urllib.request.urlopen(request, timeout=live_cluster.PATIENCE_S) as response:
                return response.status
        except urllib.error.HTTPError as error:
            return error.code

    def test_all_or_nothing(self) -> None:
        before = self.generate()
        (self.folder / "keys").write_text(f"acme {KEYS[0]}\nother {KEYS[1]}\n")
        # The keys are good, the tenants are not, and so the level stays as well.
        (self.folder / "tenants").write_text('tenants { name: "acme" weight: 0 }\n')
        self.edit("coordinator", "server {", 'server { log_level: "error"')
        line = self.read_again("coordinator")
        self.assertIn("error SIGHUP: everything stays as it was: core.tenants_file: "
                      f"{self.folder}/tenants: tenants.0.weight: 0 is not in 1 .. 1000", line)
        (self.folder / "tenants").write_text('tenants { name: "acme" weight: 2 }\n')
        (self.folder / "roles").write_text("operator anna\n")
        line = self.read_again("coordinator")
        self.assertIn(f"server.roles_file: {self.folder}/roles: line 1: a line is", line)
        (self.folder / "roles").write_text(role_of(OPERATOR) + role_of("another-token-of-anna"))
        self.edit("coordinator", '"error"', '"loud"')
        self.assertIn('server.log_level: "loud" is not', self.read_again("coordinator"))
        self.edit("coordinator", '"loud"', '"loud')
        self.assertRegex(self.read_again("coordinator"), r"coordinator\.textproto:\d+:\d+: ")
        self.edit("coordinator", '"loud', '"info"')
        self.assertIn("info SIGHUP: the files are read again", self.read_again("coordinator"))
        self.assertEqual([self.http_status(key) for key in KEYS], [200, 200])
        self.assertEqual(self.generate(), before)

    def test_the_level_changes_and_other_fields_wait_for_a_restart(self) -> None:
        self.edit("verifier", "threads: 1", "threads: 2")
        self.assertIn("info SIGHUP", self.read_again("verifier"))
        self.assertIn("fields that a restart changes: engine.threads\n",
                      self.cluster.log("verifier"))
        self.edit("verifier", "server {", 'server { log_level: "warning"')
        self.cluster.process("verifier").send_signal(signal.SIGHUP)
        live_cluster.await_true(
            lambda: self.cluster.log("verifier").count("a restart changes") == 2, "it is read")
        process = self.cluster.process("verifier")
        process.terminate()
        self.assertEqual(process.wait(live_cluster.PATIENCE_S), 0)
        self.assertNotIn("draining", self.cluster.log("verifier"))

    def test_a_token_changes_while_requests_run(self) -> None:
        before = self.generate()
        (self.folder / "peer.token").write_text("the-second-secret\n")
        self.read_again("coordinator")
        self.assertEqual(self.generate(), before)
        self.read_again("verifier")
        # The next message ends the stream, and the request goes on over a new one.
        self.assertEqual(self.generate(), before)
        (self.folder / "peer.token").write_text("short\n")
        self.assertIn(f"token_file: {self.folder}/peer.token: a token of 5 bytes",
                      self.read_again("verifier"))
        self.assertIn("verifier_token_file: ", self.read_again("coordinator"))
        self.assertEqual(self.generate(), before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
