"""Servers of the suites, with targets of random weights."""

import concurrent.futures
import json
import signal
import socket
import subprocess
import time
import urllib.request


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def stop(process):
    process.send_signal(signal.SIGINT)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()


def most_nodes(suite):
    return 16 if suite.emulated else 128


def patience(suite):
    return "core { draft_timeout_ms: 10000 }" if suite.emulated else ""


class Client:
    """What has `suite`, `address` and `metrics` of a coordinator."""

    def command(self, prompt, tokens, *flags):
        return ["espalier", "generate", "--json", "--address", self.address,
                "--token-ids", ",".join(map(str, prompt)), "--max-tokens", str(tokens),
                "--ignore-eos", *flags]

    def generate(self, prompt, tokens, *flags):
        command = self.command(prompt, tokens, *flags)
        status, output = self.suite.run(command)
        lines = [line for line in output.splitlines() if line.startswith("{")]
        if status != 0 or not lines:
            self.suite.log(" ".join(command), output)
            return None
        return json.loads(lines[-1])

    def generate_all(self, requests):
        """At once: (prompt, tokens, flags) each."""
        with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
            return list(pool.map(lambda request: self.generate(*request), requests))

    def report(self):
        with urllib.request.urlopen(f"http://{self.metrics}/status.json", timeout=10) as page:
            return json.load(page)

    def await_ready(self, is_running):
        while self.suite.left() > 0 and is_running():
            status, _ = self.suite.run(["espalier", "check", self.address, "--timeout", "2"])
            if status == 0:
                return
            time.sleep(0.2)


class Server(Client):
    """espalier serve with a target of random weights."""

    def __init__(self, suite, target, drafters, verifier=""):
        self.suite = suite
        self.address = f"127.0.0.1:{free_port()}"
        self.metrics = f"127.0.0.1:{free_port()}"
        nodes = most_nodes(suite)
        config = suite.work / "serve.textproto"
        config.write_text(f"""
            server {{ listen: "{self.address}" metrics_listen: "{self.metrics}" }}
            verifier {{ model: "{target}" random_weights: 1 device: "{suite.device}"
                        max_tree_nodes: {nodes} {verifier} }}
            {patience(suite)}
            {drafters}""")
        self.log = open(suite.work / "serve.log", "w", encoding="utf-8")
        self.process = subprocess.Popen(["espalier", "serve", "--config", str(config)],
                                        stdout=self.log, stderr=subprocess.STDOUT)

    def __enter__(self):
        self.await_ready(lambda: self.process.poll() is None)
        return self

    def __exit__(self, *unused):
        stop(self.process)
        self.log.close()
        self.suite.log("serve", (self.suite.work / "serve.log").read_text())


class Services(Client):
    """Verifier, one drafter and coordinator as processes of their own."""

    def __init__(self, suite, target, options):
        self.suite = suite
        self.address = f"127.0.0.1:{free_port()}"
        self.metrics = f"127.0.0.1:{free_port()}"
        self.processes, self.logs = {}, {}
        listen = {name: f"unix:{suite.work}/{name}.sock" for name in ("verifier", "drafter")}
        self.configs = {
            "verifier": f"""
                server {{ listen: "{listen['verifier']}" metrics_listen: "127.0.0.1:0" }}
                engine {{ model: "{target}" random_weights: 1 device: "{suite.device}"
                          max_tree_nodes: {most_nodes(suite)} }}""",
            "drafter": f"""
                server {{ listen: "{listen['drafter']}" metrics_listen: "127.0.0.1:0" }}
                engine {{ name: "replay" type: "replay" model: "{target}" {options} }}""",
            "coordinator": f"""
                server {{ listen: "{self.address}" metrics_listen: "{self.metrics}" }}
                model: "{target}"
                verifier: "{listen['verifier']}"
                drafters {{ name: "replay" address: "{listen['drafter']}" }}
                {patience(suite)}"""}

    def __enter__(self):
        for name in self.configs:
            self.start(name)
        self.await_ready(lambda: all(p.poll() is None for p in self.processes.values()))
        return self

    def __exit__(self, *unused):
        for name, process in self.processes.items():
            stop(process)
            self.logs[name].close()
            self.suite.log(name, (self.suite.work / f"{name}.log").read_text())

    def start(self, name):
        config = self.suite.work / f"{name}.textproto"
        config.write_text(self.configs[name])
        if name not in self.logs:
            self.logs[name] = open(self.suite.work / f"{name}.log", "w", encoding="utf-8")
        self.processes[name] = subprocess.Popen(
            [f"espalier-{name}", "--config", str(config)], stdout=self.logs[name],
            stderr=subprocess.STDOUT)

    def restart(self, name):
        """As a supervisor does when it has died."""
        self.processes[name].kill()
        self.processes[name].wait()
        self.start(name)
