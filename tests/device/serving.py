"""Servers of the suites."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import pathlib
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, TypeVar

from stages import Counters, between, counters

if TYPE_CHECKING:
    from suites import Suite

RANDOM = "random_weights: 1"
T = TypeVar("T")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()


def most_nodes(suite: Suite) -> int:
    return 16 if suite.emulated else 128


def patience(suite: Suite) -> str:
    return "draft_timeout_ms: 10000" if suite.emulated else ""


# Shows requests and their rounds on the status page.
STATUS_KEY = "key-of-the-device-suites"


def get(address: str, path: str) -> str:
    with urllib.request.urlopen(f"http://{address}/{path}", timeout=10) as page:
        return page.read().decode()


def options(values: Mapping[str, object]) -> str:
    """Of a drafter, in textproto."""
    return "".join(f'options {{ key: "{key}" value: "{value}" }}\n'
                   for key, value in values.items())


class Client:
    """What has `suite`, `address` and `metrics` of a coordinator; `pages`: metrics of all
    services."""
    suite: Suite
    address: str
    metrics: str
    pages: list[str]

    def command(self, prompt: Iterable[int], tokens: int, *flags: str) -> list[Any]:
        return ["espalier", "generate", "--json", "--address", self.address,
                "--token-ids", ",".join(map(str, prompt)), "--max-tokens", str(tokens),
                "--ignore-eos", *flags]

    def generate(self, prompt: Iterable[int], tokens: int, *flags: str) -> dict[str, Any] | None:
        command = self.command(prompt, tokens, *flags)
        status, output = self.suite.run(command)
        lines = [line for line in output.splitlines() if line.startswith("{")]
        if status != 0 or not lines:
            self.suite.log(" ".join(command), output)
            return None
        return json.loads(lines[-1])

    def generate_all(self, requests: Sequence[tuple[Any, ...]]) -> list[Any]:
        """At once: (prompt, tokens, flags) each."""
        with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
            return list(pool.map(lambda request: self.generate(*request), requests))

    def report(self) -> dict[str, Any]:
        return json.loads(get(self.metrics, "status.json"))

    def counters(self) -> Counters:
        """Of services that answer."""
        counted: Counters = {}
        for page in self.pages:
            with contextlib.suppress(OSError):
                counted |= counters(get(page, "metrics"))
        return counted

    def measure(self, act: Callable[[], T]) -> tuple[T, dict[str, Any]]:
        """What `act` returns, and the stages of its rounds."""
        before = self.counters()
        answer = act()
        return answer, between(before, self.counters())

    def await_ready(self, is_running: Callable[[], bool], address: str | None = None) -> None:
        command = ["espalier", "check", address or self.address, "--timeout", "2"]
        while self.suite.left() > 0 and is_running():
            status, _ = self.suite.run(command)
            if status == 0 and (address or self.has_drafters()):
                return
            time.sleep(0.2)

    def has_drafters(self) -> bool:
        with contextlib.suppress(OSError):
            return all(drafter["state"] == "ready" for drafter in self.report()["drafters"])
        return False


class Server(Client):
    """espalier serve."""

    def __init__(self, suite: Suite, target: pathlib.Path, drafters: str = "",
                 verifier: str = RANDOM) -> None:
        self.suite = suite
        self.address = f"127.0.0.1:{free_port()}"
        self.metrics = f"127.0.0.1:{free_port()}"
        self.pages = [self.metrics]
        nodes = most_nodes(suite)
        config = suite.work / "serve.textproto"
        config.write_text(f"""
            server {{ listen: "{self.address}" metrics_listen: "{self.metrics}" }}
            verifier {{ model: "{target}" device: "{suite.device}"
                        max_tree_nodes: {nodes} {verifier} }}
            core {{ {patience(suite)} }}
            {drafters}""")
        self.log = open(suite.work / "serve.log", "w", encoding="utf-8")
        self.process = subprocess.Popen(["espalier", "serve", "--config", str(config)],
                                        stdout=self.log, stderr=subprocess.STDOUT)

    def __enter__(self) -> Server:
        began = time.monotonic()
        self.await_ready(lambda: self.process.poll() is None)
        self.start_s = round(time.monotonic() - began, 1)
        return self

    def __exit__(self, *unused: Any) -> None:
        stop(self.process)
        self.log.close()
        self.suite.log("serve", (self.suite.work / "serve.log").read_text())


class Services(Client):
    """Verifier, the drafter `replay` and coordinator as processes of their own;
    or, as_node, the first two as one."""

    def __init__(self, suite: Suite, target: pathlib.Path, replay: Mapping[str, object],
                 as_node: bool = False) -> None:
        self.suite = suite
        self.address = f"127.0.0.1:{free_port()}"
        self.metrics = f"127.0.0.1:{free_port()}"
        self.pages = [self.metrics]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.logs: dict[str, IO[str]] = {}
        self.listen = {name: f"unix:{suite.work}/{name}.sock"
                       for name in ("drafter", "verifier")}
        engine = {"drafter": f'name: "replay" type: "replay" model: "{target}" {options(replay)}',
                  "verifier": f'model: "{target}" {RANDOM} device: "{suite.device}" '
                              f"max_tree_nodes: {most_nodes(suite)}"}
        services = {name: self.server(self.listen[name]) + f"engine {{ {engine[name]} }}"
                    for name in self.listen}
        if as_node:
            services = {"node": "".join(
                f"{name if name == 'verifier' else 'drafters'} {{ {service} }}\n"
                for name, service in services.items())}
        self.key_file = suite.work / "page.token"
        self.key_file.write_text(STATUS_KEY)
        self.configs = services | {
            "coordinator": f"""
                server {{ listen: "{self.address}" metrics_listen: "{self.metrics}" }}
                model: "{target}"
                verifier: "{self.listen['verifier']}"
                drafters {{ name: "replay" address: "{self.listen['drafter']}" }}
                core {{ status_key_file: "{self.key_file}" {patience(suite)} }}"""}

    def server(self, listen: str) -> str:
        page = f"127.0.0.1:{free_port()}"
        self.pages.append(page)
        return f'server {{ listen: "{listen}" metrics_listen: "{page}" }}\n'

    def __enter__(self) -> Services:
        for name in self.configs:
            self.start(name)
            if name == "drafter":  # before the verifier takes the memory
                self.await_ready(self.are_running, self.listen[name])
        self.await_ready(self.are_running)
        return self

    def __exit__(self, *unused: Any) -> None:
        for name, process in self.processes.items():
            stop(process)
            self.logs[name].close()
            self.suite.log(name, (self.suite.work / f"{name}.log").read_text())

    def report(self) -> dict[str, Any]:
        return json.loads(get(self.metrics, f"status.json?key={STATUS_KEY}"))

    def are_running(self) -> bool:
        return all(process.poll() is None for process in self.processes.values())

    def start(self, name: str) -> None:
        config = self.suite.work / f"{name}.textproto"
        config.write_text(self.configs[name])
        if name not in self.logs:
            self.logs[name] = open(self.suite.work / f"{name}.log", "w", encoding="utf-8")
        self.processes[name] = subprocess.Popen(
            [f"espalier-{name}", "--config", str(config)], stdout=self.logs[name],
            stderr=subprocess.STDOUT)

    def restart(self, name: str) -> None:
        """As a supervisor does when it has died."""
        self.processes[name].kill()
        self.processes[name].wait()
        self.start(name)
