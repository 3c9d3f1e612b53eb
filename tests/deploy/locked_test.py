#!/usr/bin/env python3
"""A cluster with certificates and roles, as real processes: rotation under load,
wrong and expired certificates, revoked tokens, handshakes that do not finish."""

import base64
import hashlib
import json
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import threading
import time
import unittest
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

import live_cluster
import stubs
from live_cluster import BIN, CHAR_MODEL

TOKENS = {role: f"the-token-of-a-{role}" for role in ("client", "operator", "scrape")}
PROMPT = "First Citizen:\nBefore we proceed any further, hear me speak.\n"


class Authority:
    """Signs certificates with the command openssl."""

    def __init__(self, folder: pathlib.Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.ca = folder / f"{name}.ca"
        self._run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                  "-keyout", folder / f"{name}.ca.key", "-out", self.ca, "-subj", f"/CN={name}",
                  "-days", "1")

    def _run(self, *argv: object) -> None:
        subprocess.run(["openssl", *map(str, argv)], check=True, capture_output=True)

    def issue(self, who: str, names: Sequence[str], *validity: Any) -> None:
        """Replaces WHO.crt and WHO.key, one after the other."""
        part = self.folder / f"{who}.part"
        self._run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                  "-keyout", f"{part}.key", "-out", f"{part}.csr", "-subj", "/CN=x")
        extension = self.folder / f"{who}.ext"
        extension.write_text("subjectAltName=" + ",".join(names) + "\n")
        self._run("x509", "-req", "-in", f"{part}.csr", "-CA", self.ca, "-CAkey",
                  self.folder / f"{self.name}.ca.key", "-CAcreateserial", "-extfile", extension,
                  "-out", f"{part}.crt", *(validity or ("-days", "1")))
        for end in ("crt", "key"):
            os.replace(f"{part}.{end}", self.folder / f"{who}.{end}")


def tls(folder: pathlib.Path, who: str, ca: pathlib.Path | None = None) -> str:
    text = f'certificate_file: "{folder}/{who}.crt" key_file: "{folder}/{who}.key" '
    return text + (f'client_ca_file: "{ca}" ' if ca else "")


NAMES = {"verifier": ["DNS:verifier"], "lookup": ["DNS:lookup"],
         "coordinator": ["DNS:coordinator", "DNS:localhost", "IP:127.0.0.1"]}


class LockedTest(unittest.TestCase):
    authority: Authority
    folder: pathlib.Path
    processes: live_cluster.Processes

    @classmethod
    def setUpClass(cls) -> None:
        if not shutil.which("openssl"):
            raise unittest.SkipTest("skipped: there is no openssl")
        stubs.make()
        cls.processes = live_cluster.Processes()
        cls.addClassCleanup(cls.processes.close)
        cls.folder = cls.processes.folder
        cls.authority = Authority(cls.folder, "ours")
        for who, names in NAMES.items():
            cls.authority.issue(who, names)
        cls.write_roles("client", "operator", "scrape")
        for role, token in TOKENS.items():
            (cls.folder / f"{role}.token").write_text(token + "\n")
        for name, engine in (("verifier", f'engine {{ model: "{CHAR_MODEL}" threads: 1 }}'),
                             ("lookup", 'engine { name: "lookup" type: "prompt_lookup" '
                                        f'model: "{CHAR_MODEL}" }}')):
            cls.start_peer(name, name, engine)
        cls.start_coordinator()

    @classmethod
    def write_roles(cls, *roles: str) -> None:
        lines = [f"{role} the-{role} sha256:{hashlib.sha256(TOKENS[role].encode()).hexdigest()}\n"
                 for role in roles]
        part = cls.folder / "roles.part"
        part.write_text("".join(lines))
        os.replace(part, cls.folder / "roles")

    @classmethod
    def start(cls, name: str, program: str, config: str, server: str) -> subprocess.Popen[bytes]:
        path = cls.folder / f"{name}.textproto"
        path.write_text(f'server {{ listen: "127.0.0.1:0" metrics_listen: "127.0.0.1:0" '
                        f'address_file: "{cls.folder}/{name}.addresses" {server} }}\n{config}\n')
        return cls.processes.start(name, BIN / f"espalier-{program}", "--config", path)

    @classmethod
    def start_peer(cls, name: str, certificate: str, engine: str) -> subprocess.Popen[bytes]:
        program = "verifier" if name == "verifier" else "drafter"
        return cls.start(name, program, engine,
                         f"tls {{ {tls(cls.folder, certificate, cls.authority.ca)} }}")

    @classmethod
    def start_coordinator(cls) -> None:
        peer = (f'peer_tls {{ ca_file: "{cls.authority.ca}" '
                f'certificate_file: "{cls.folder}/coordinator.crt" '
                f'key_file: "{cls.folder}/coordinator.key" }}')
        cls.start(
            "coordinator", "coordinator",
            f'model: "{CHAR_MODEL}" verifier: "{cls.address("verifier")}" {peer} '
            f'drafters {{ name: "lookup" address: "{cls.address("lookup")}" }} '
            f'http_listen: "127.0.0.1:0" http {{ tls {{ {tls(cls.folder, "coordinator")} }} }}',
            f'tls {{ {tls(cls.folder, "coordinator")} }} roles_file: "{cls.folder}/roles"')
        live_cluster.await_true(lambda: cls.check().returncode == 0, "the coordinator serves")

    @classmethod
    def addresses(cls, name: str) -> dict[str, Any]:
        path = cls.folder / f"{name}.addresses"
        live_cluster.await_true(path.exists, f"{name} listens")
        return dict(line.split() for line in path.read_text().splitlines())

    @classmethod
    def address(cls, name: str) -> str:
        return cls.addresses(name)["grpc"]

    @classmethod
    def espalier(cls, command: str, *words: str, ca: Authority | None = None,
                 token: str | None = "client") -> subprocess.CompletedProcess[str]:
        shown = ["--token-file", cls.folder / f"{token}.token"] if token else []
        argv = [BIN / "espalier", command, *words, "--ca", ca or cls.authority.ca, *shown]
        return subprocess.run([str(word) for word in argv], capture_output=True, text=True,
                              timeout=live_cluster.PATIENCE_S, check=False)

    @classmethod
    def check(cls) -> subprocess.CompletedProcess[str]:
        return cls.espalier("check", cls.address("coordinator"), token=None)

    @classmethod
    def generate(cls, **how: Any) -> subprocess.CompletedProcess[str]:
        return cls.espalier("generate", "--address", cls.address("coordinator"), "--prompt", PROMPT,
                            "--max-tokens", "24", "--ignore-eos", "--seed", "7", **how)

    def peers(self) -> str:
        done = self.espalier("info", "--address", self.address("coordinator"), token="operator")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_client_with_a_token_is_served_and_others_are_not(self) -> None:
        done = self.generate()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("UNAUTHENTICATED", self.generate(token=None).stderr)
        self.assertIn("PERMISSION_DENIED", self.generate(token="scrape").stderr)
        other = Authority(self.folder, "other")
        self.assertIn("UNAVAILABLE", self.generate(ca=other.ca).stderr)
        done = self.espalier("info", "--address", self.address("coordinator"))
        self.assertIn("the role client may not do that; operator may", done.stderr)

    def test_the_drafter_drafts(self) -> None:
        live_cluster.await_true(lambda: "lookup" in self.peers() and "ready" in self.peers(),
                                "the drafter is connected")

    def test_http_speaks_tls(self) -> None:
        context = ssl.create_default_context(cafile=self.authority.ca)
        url = f"https://{self.addresses('coordinator')['http']}/v1/models"
        with urllib.request.urlopen(url, context=context, timeout=30) as answer:
            self.assertIn(CHAR_MODEL.name, answer.read().decode())

    def read_page(self, path: str,
                  authorization: str | None = None) -> tuple[int, str] | tuple[Any, Any]:
        url = f"http://{self.addresses('coordinator')['metrics']}{path}"
        headers = {"Authorization": authorization} if authorization else {}
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers),
                                        timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ""

    def test_pages_ask_for_roles(self) -> None:
        def basic(role: str) -> str:
            return "Basic " + base64.b64encode(f"me:{TOKENS[role]}".encode()).decode()
        self.assertEqual(self.read_page("/metrics")[0], 401)
        self.assertEqual(self.read_page("/metrics", f"Bearer {TOKENS['client']}")[0], 401)
        status, text = self.read_page("/metrics", f"Bearer {TOKENS['scrape']}")
        self.assertEqual(status, 200)
        self.assertIn("espalier_tls_certificate_expiry_seconds", text)
        self.assertEqual(self.read_page("/status.json", basic("scrape"))[0], 401)
        status, text = self.read_page("/status.json", basic("operator"))
        self.assertEqual(status, 200)
        self.assertEqual(json.loads(text)["open_listeners"], [])

    def test_certificates_are_replaced_under_load(self) -> None:
        end = time.monotonic() + 8
        failures: list[str] = []
        answers: list[str] = []

        def call() -> None:
            while time.monotonic() < end:
                done = self.generate()
                (answers if done.returncode == 0 else failures).append(done.stderr)

        callers = [threading.Thread(target=call) for _ in range(3)]
        for caller in callers:
            caller.start()
        before = self.server_certificate()
        rotations = 0
        while time.monotonic() < end - 3:
            for who, names in NAMES.items():
                self.authority.issue(who, names)
            rotations += 1
            time.sleep(1.5)
        for caller in callers:
            caller.join()
        self.assertEqual(failures, [])
        self.assertGreater(len(answers), 10)
        self.assertNotEqual(self.server_certificate(), before)
        print(f"{len(answers)} requests on connections of their own, {rotations} rotations of "
              "three services: none failed")

    def server_certificate(self) -> str:
        host, port = self.address("coordinator").rsplit(":", 1)
        return ssl.get_server_certificate((host, int(port)))

    def test_a_token_that_is_revoked_ends_its_streams(self) -> None:
        import grpc
        from espalier.v1 import inference_pb2, inference_pb2_grpc
        credentials = grpc.ssl_channel_credentials(self.authority.ca.read_bytes())
        self.addCleanup(self.write_roles, "client", "operator", "scrape")
        with grpc.secure_channel(self.address("coordinator"), credentials) as channel:
            request = inference_pb2.GenerateRequest(prompt=PROMPT, n=32, ignore_eos=True,
                                                    max_tokens=180)
            stream = inference_pb2_grpc.InferenceStub(channel).Generate(
                request, metadata=[("authorization", f"Bearer {TOKENS['client']}")], timeout=100)
            next(stream)
            self.write_roles("operator", "scrape")
            with self.assertRaises(grpc.RpcError) as caught:
                for _ in stream:
                    pass
        self.assertEqual(caught.exception.code().name, "UNAUTHENTICATED")
        self.assertIn("revoked", caught.exception.details())
        self.assertIn("UNAUTHENTICATED", self.generate().stderr)

    def test_a_drafter_under_anothers_name_is_not_connected(self) -> None:
        self.authority.issue("imposter", ["DNS:block"])
        self.start_peer("posing", "imposter",
                        f'engine {{ name: "lookup" type: "prompt_lookup" model: "{CHAR_MODEL}" }}')
        config = (self.folder / "coordinator.textproto").read_text()
        config = config.replace(self.address("lookup"), self.address("posing"))
        config = config.replace(f"{self.folder}/coordinator.addresses",
                                f"{self.folder}/second.addresses")
        path = self.folder / "second.textproto"
        path.write_text(config)
        self.processes.start("second", BIN / "espalier-coordinator", "--config", path)
        live_cluster.await_true(lambda: "lookup at" in self.processes.log("second"),
                                "the second coordinator has tried")
        log = self.processes.log("second")
        self.assertNotIn("connected to lookup", log)
        done = self.espalier("generate", "--address", self.address("second"), "--prompt", PROMPT,
                             "--max-tokens", "8")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_expired_certificate_is_refused_at_the_start(self) -> None:
        self.authority.issue("old", ["DNS:verifier"], "-days", "-1")
        process = self.start_peer("expired", "old",
                                  'engine { name: "a" type: "prompt_lookup" '
                                  f'model: "{CHAR_MODEL}" }}')
        self.assertEqual(process.wait(live_cluster.PATIENCE_S), 2)
        self.assertIn("server.tls: ", self.processes.log("expired"))
        self.assertIn("has expired at", self.processes.log("expired"))

    def test_handshakes_that_do_not_finish_keep_nobody_out(self) -> None:
        host, port = self.address("coordinator").rsplit(":", 1)
        held, opened = [], 0
        end = time.monotonic() + 5
        while time.monotonic() < end:
            second = time.monotonic() + 1
            for _ in range(1000):
                caller = socket.socket()
                caller.setblocking(False)
                caller.connect_ex((host, int(port)))
                held.append(caller)
                opened += 1
                if len(held) > 900:
                    held.pop(0).close()
            time.sleep(max(0, second - time.monotonic()))
        begin = time.monotonic()
        done = self.generate()
        self.assertEqual(done.returncode, 0, done.stderr)
        print(f"{opened} handshakes were begun; an answer took {time.monotonic() - begin:.2f} s")
        for caller in held:
            caller.close()


class OpenListenersTest(unittest.TestCase):
    def test_beyond_the_loopback_something_is_needed(self) -> None:
        processes = live_cluster.Processes()
        self.addCleanup(processes.close)
        argv = [BIN / "espalier-drafter", "--set=server.listen=0.0.0.0:0", "--set=engine.name=a",
                "--set=engine.type=prompt_lookup", f"--set=engine.model={CHAR_MODEL}"]
        refused = processes.start("refused", *argv)
        self.assertEqual(refused.wait(live_cluster.PATIENCE_S), 2)
        self.assertIn("server.insecure=true to allow it", processes.log("refused"))
        processes.start("allowed", *argv, "--set=server.insecure=true")
        live_cluster.await_true(lambda: "serving" in processes.log("allowed"), "it serves")
        warnings = processes.log("allowed").count("everybody who reaches 0.0.0.0:0")
        self.assertEqual(warnings, 1)


if __name__ == "__main__":
    unittest.main()
