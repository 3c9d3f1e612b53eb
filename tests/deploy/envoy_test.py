#!/usr/bin/env python3
"""deploy/examples/envoy in front of two coordinators: clients' certificates, tenants by
their names, and calls that go on at the other coordinator."""

import os
import pathlib
import re
import shutil
import unittest
from typing import Any

import live_cluster
import locked_test
import stubs
from live_cluster import CHAR_MODEL, REPO

CACHE = pathlib.Path(os.environ.get("ESPALIER_CACHE", pathlib.Path.home() / ".cache/espalier"))
EXAMPLE = REPO / "deploy/examples/envoy/envoy.yaml"


def find_envoy() -> str | None:
    """The program: the one of setup.sh --envoy, or the system's; None: there is none."""
    found = sorted((CACHE / "envoy").glob("lib/*/site-packages/envoy/_bin/envoy"))
    return str(found[0]) if found else shutil.which("envoy")


class EnvoyTest(unittest.TestCase):
    ports: dict[str, int]
    folder: pathlib.Path
    services: live_cluster.Services
    authority: locked_test.Authority

    @classmethod
    def setUpClass(cls) -> None:
        missing = stubs.missing() or ("" if shutil.which("openssl") else "there is no openssl")
        if not find_envoy():
            missing = "there is no Envoy: deploy/setup.sh --envoy"
        if missing:
            raise unittest.SkipTest(f"skipped: {missing}")
        stubs.make()
        cls.services = live_cluster.Services()
        cls.addClassCleanup(cls.services.close)
        cls.folder = cls.services.folder
        cls.make_certificates()
        (cls.folder / "tenants").write_text('tenants { name: "acme" weight: 2 }\n'
                                            'tenants { name: "small" requests_per_minute: 2 }\n')
        cls.services.start_service(
            "verifier", f'engine {{ model: "{CHAR_MODEL}" threads: 1 }}')
        cls.ports = {name: live_cluster.free_port()
                     for name in ("coordinator1", "coordinator2", "envoy")}
        for name in ("coordinator1", "coordinator2"):
            cls.services.start_service(
                name, f'model: "{CHAR_MODEL}" verifier: "{cls.services.address("verifier")}" '
                f'core {{ warm_up: false tenants_file: "{cls.folder}/tenants" '
                "tenant_metadata: true }",
                settings=[f"server.listen.1=127.0.0.1:{cls.ports[name]}"])
            cls.services.await_serving(name)
        cls.start_envoy()

    @classmethod
    def make_certificates(cls) -> None:
        cls.authority = locked_test.Authority(cls.folder, "ours")
        shutil.copy(cls.authority.ca, cls.folder / "ca.crt")
        cls.authority.issue("server", ["DNS:localhost"])
        for tenant in ("acme", "small", "unknown"):
            cls.authority.issue(tenant, [f"DNS:{tenant}"])

    @classmethod
    def start_envoy(cls) -> None:
        """The example, with ports and folder of this test."""
        text = EXAMPLE.read_text()
        for port, name in (("50300", "envoy"), ("50171", "coordinator1"),
                           ("50172", "coordinator2")):
            text, count = re.subn(rf"port_value: {port}\b", f"port_value: {cls.ports[name]}", text)
            assert count == 1, port
        text = re.sub(r"filename: (\S+?)}", rf"filename: {cls.folder}/\1}}", text)
        (cls.folder / "envoy.yaml").write_text(text)
        # Several on one machine would share memory by this number.
        cls.services.start("envoy", find_envoy(), "-c", cls.folder / "envoy.yaml",
                           "--base-id", cls.ports["envoy"], "--log-level", "warning",
                           "--concurrency", "1")
        live_cluster.await_true(lambda: cls.ask("acme").code().name == "OK", "Envoy serves")

    @classmethod
    def channel(cls, who: str | None) -> Any:
        import grpc
        read = lambda name: (cls.folder / name).read_bytes()
        own = (read(f"{who}.key"), read(f"{who}.crt")) if who else (None, None)
        return grpc.secure_channel(f"localhost:{cls.ports['envoy']}",
                                   grpc.ssl_channel_credentials(read("ca.crt"), *own))

    @classmethod
    def ask(cls, who: str | None, metadata: Any = ()) -> Any:
        """Runs a request to its end; returns the call, which has `text`."""
        from espalier.v1 import inference_pb2, inference_pb2_grpc
        import grpc
        with cls.channel(who) as channel:
            call = inference_pb2_grpc.InferenceStub(channel).Generate(
                inference_pb2.GenerateRequest(prompt="HAMLET:", max_tokens=20, temperature=1.0,
                                              seed=3, ignore_eos=True),
                metadata=metadata, timeout=60)
            call.text = ""
            try:
                for message in call:
                    call.text += message.text
            except grpc.RpcError:
                pass
            call.code()
            return call

    def tenant_requests(self, tenant: str) -> float:
        total = 0.0
        for name in ("coordinator1", "coordinator2"):
            text = live_cluster.get(f"http://{self.services.http_address(name)}/metrics")
            for line in text.splitlines():
                if line.startswith("espalier_tenant_requests_total") and \
                        f'tenant="{tenant}"' in line and 'outcome="admitted"' in line:
                    total += float(line.rsplit(" ", 1)[1])
        return total

    def test_a_client_needs_a_certificate(self) -> None:
        self.assertEqual(self.ask(None).code().name, "UNAVAILABLE")

    def test_the_certificate_is_the_tenant(self) -> None:
        before = self.tenant_requests("acme")
        # What the client says is overwritten.
        self.assertEqual(self.ask("acme", [("x-tenant", "small")]).code().name, "OK")
        self.assertEqual(self.tenant_requests("acme"), before + 1)
        refused = self.ask("unknown")
        self.assertEqual(refused.code().name, "INVALID_ARGUMENT")
        self.assertIn("x-tenant", refused.details())

    def test_quotas_reach_the_client(self) -> None:
        codes = [self.ask("small").code().name for _ in range(5)]  # two at each coordinator
        self.assertEqual(codes.count("OK"), 4, codes)
        self.assertEqual(codes[-1], "RESOURCE_EXHAUSTED")

    def test_other_methods_have_no_way_in(self) -> None:
        import grpc
        with self.channel("acme") as channel:
            method = channel.unary_unary("/espalier.v1.Admin/SetDrafterState")
            with self.assertRaises(grpc.RpcError) as caught:
                method(b"", timeout=60)
        self.assertEqual(caught.exception.code().name, "UNIMPLEMENTED")

    def test_z_a_coordinator_dies_and_no_request_fails(self) -> None:
        texts = set()
        for i in range(40):
            if i == 10:
                self.services.process("coordinator1").kill()
            call = self.ask("acme")
            self.assertEqual(call.code().name, "OK", f"{i}: {call.details()}")
            texts.add(call.text)
        self.assertEqual(len(texts), 1)


if __name__ == "__main__":
    unittest.main()
