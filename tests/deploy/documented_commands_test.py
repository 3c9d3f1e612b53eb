#!/usr/bin/env python3
"""Every command line of README.md and deploy/*.md: it runs, or NOT_RUN says why it is
not run here. A command that is new in a document fails until it is in one of the two.

Blocks run as they are written, in a folder that looks like the repository, with other
ports. What a block serves is there for the next blocks, up to one that serves, too. Of
`espalier COMMAND` in running text, the command and its flags must be in the help.
"""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable, Iterator, Sequence
from typing import Any, IO

import live_cluster

REPO = live_cluster.REPO
DOCUMENTS = [REPO / "README.md", *sorted((REPO / "deploy").glob("*.md"))]
DEFAULT_MODEL = pathlib.Path(
    os.environ.get("ESPALIER_CACHE") or pathlib.Path(
        os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "espalier"
) / "models/smollm2-135m-instruct"

# Beginning of a command -> why it is not run here.
NOT_RUN = {
    "./deploy/quickstart.sh": "sets up and builds; what it starts is in ClusterTest",
    "deploy/quickstart.sh": "stops the cluster of the user who runs the tests",
    "./tests/run.sh": "runs all tests, this one among them",
    "tests/run.sh": "runs all tests, this one among them",
    "deploy/setup.sh": "installs packages",
    "cmake --preset": "builds; CI does that",
    "cmake --build": "builds; CI does that",
    "cmake --install": "installs a build, which may have been made in parts",
    "cd deploy && docker compose up": "compose_test (--long) runs the containers",
    "docker compose": "compose_test (--long) runs the containers",
    "cd deploy && COMPOSE_PROFILES": "compose_test (--long) runs the containers",
    "docker/build.sh": "builds images",
    "deploy/containers.sh": "builds images",
    "tests/benchmark/llama_cpp/compare.sh": "builds llama.cpp and measures for minutes",
    "grpcurl": "not packaged for Debian; load_test and http_clients_test are foreign clients",
    "python3 -m grpc_tools.protoc": "needs a package from pip; foreign clients are tested "
                                    "with python3-grpcio",
    "prometheus --web.user-assets": "dashboard_test starts it",
    "build/release/bin/espalier serve --model qwen3-8b": "needs a GPU and the model",
    "build/release/bin/espalier-node": "needs a GPU",
    "cmake ": "builds; CI does that",
    "espalier generate --address HOST_A": "needs two servers; resume_test has them",
    "deploy/examples/resume/complete.py": "needs two servers; resume_test has them",
}
# Blocks of files, by their first line, and the name that the document gives the file.
FILES = {"verifier { model: \"deploy/models/nanogpt-char\" threads: 2 }": "my.textproto"}
# First words of a command line. A block that begins with another word is no command.
PROGRAMS = ("docker/", "./deploy/", "deploy/", "./tests/", "tests/", "build/", "cmake ", "cd ", "docker ",
            "grpcurl ", "python3 ", "espalier ", "prometheus ", "M=")


def blocks(text: str) -> Iterator[list[str]]:
    """The indented blocks outside of fences, each as its lines."""
    block, fenced = [], False
    for line in [*text.split("\n"), ""]:
        fenced ^= line.startswith("```")
        if not fenced and line.startswith("    ") and line.strip():
            block.append(line[4:])
        elif block:
            yield block
            block = []


def command_lines(block: list[str]) -> Iterator[str]:
    """Lines with what belongs to them: after a backslash, or within quotes."""
    command = ""
    for line in block:
        command += line
        if command.endswith("\\"):
            command += "\n"
        elif command.count("'") % 2 == 1:
            command += "\n"
        else:
            yield command.split("   #")[0].rstrip()
            command = ""


def is_command(line: str) -> bool:
    return line.startswith(PROGRAMS)


def spans(text: str) -> Iterator[str]:
    """Inline code that is a command with arguments or a script."""
    prose = "\n".join(line for line in text.split("\n") if not line.startswith("    "))
    for span in re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", prose, flags=re.S)):
        span = " ".join(span.split())
        if is_command(span) and (" " in span or span.endswith((".sh", ".py"))):
            yield span


def reason(command: str) -> str | None:
    found = [why for start, why in NOT_RUN.items() if command.startswith(start)]
    return found[0] if found else None


def serves(command: str) -> re.Match[str] | None:
    return re.match(r"\S*espalier(-verifier|-drafter|-coordinator| serve)\b", command)


class DocumentedCommandsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="documents"))
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("deploy", "proto", "tests", "docker"):
            (self.folder / name).symlink_to(REPO / name)
        (self.folder / "build/release").mkdir(parents=True)
        (self.folder / "build/release/bin").symlink_to(live_cluster.BIN)
        runtime = self.folder / "runtime"
        (runtime / f"espalier-{os.getuid()}").mkdir(parents=True)
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}
        self.ports: dict[str, int] = {}
        self.stops: list[Callable[[], None]] = []  # of what serves, in the order of starting

    def with_own_ports(self, command: str) -> str:
        def own(match: re.Match[str]) -> str:
            if match[1] not in self.ports:
                self.ports[match[1]] = live_cluster.free_port()
            return f"127.0.0.1:{self.ports[match[1]]}"
        return re.sub(r"127\.0\.0\.1:([0-9]+)", own, command)

    def start(self, command: str, log: IO[str]) -> Callable[[], None]:
        """Starts what serves; returns when it does."""
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"], cwd=self.folder, env=self.environment,
            stdout=log, stderr=log, start_new_session=True)

        def stop() -> None:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)
        self.addCleanup(stop)
        said = pathlib.Path(log.name)

        def ready() -> re.Match[str] | None:
            if process.poll() is not None:
                self.fail(f"{command} ended:\n{said.read_text()}")
            return re.search(r"listening on|serving", said.read_text())
        live_cluster.await_true(ready, f"{command} serves")
        return stop

    def stop_all(self) -> None:
        while self.stops:
            self.stops.pop()()

    def run_block(self, commands: Sequence[str]) -> None:
        variables = ""
        if any(serves(command) for command in commands):
            self.stop_all()
        for number, command in enumerate(commands):
            if re.match(r"[A-Z]+=\S+$", command):
                variables += command + "; "
                continue
            command = self.with_own_ports(command)
            if serves(command):
                log = open(self.folder / f"log{number}", "w", encoding="utf-8")
                self.addCleanup(log.close)
                # `exec` takes the variables' values.
                expanded = subprocess.run(
                    ["bash", "-c", f'{variables} cat <<EOF\n{command}\nEOF'], check=True,
                    text=True, capture_output=True).stdout.replace("\\\n", " ").strip()
                self.stops.append(self.start(expanded, log))
                continue
            for _ in range(60):  # the coordinator may still be looking for its peers
                done = subprocess.run(["bash", "-c", variables + command], cwd=self.folder,
                                      env=self.environment, text=True, capture_output=True,
                                      timeout=300, check=False)
                if "UNAVAILABLE" not in done.stderr and "not connected" not in done.stderr:
                    break
                time.sleep(0.5)
            self.assertEqual(done.returncode, 0, f"{command}\n{done.stderr}")
            self.assertTrue(done.stdout.strip(), f"{command} printed nothing")

    def test_every_block_runs(self) -> None:
        ran = 0
        for document in DOCUMENTS:
            for block in blocks(document.read_text(encoding="utf-8")):
                if block[0] in FILES:
                    (self.folder / FILES[block[0]]).write_text("\n".join(block) + "\n",
                                                                encoding="utf-8")
                    continue
                commands = [line for line in command_lines(block)]
                if not is_command(commands[0]):
                    continue
                with self.subTest(document=document.name, block=commands[0]):
                    for command in commands:
                        self.assertTrue(is_command(command), f"not understood: {command}")
                    wanted = [c for c in commands if reason(c) is None]
                    if len(wanted) < len(commands) and any(serves(c) for c in commands):
                        continue  # nothing answers where a server does not run
                    if not wanted:
                        continue
                    if any(needs_default_model(c) for c in wanted) and not DEFAULT_MODEL.exists():
                        continue
                    ran += 1
                    self.run_block(wanted)
            self.stop_all()
        self.assertGreater(ran, 3, "the parser is broken")

    def test_running_text_names_commands_and_flags_that_exist(self) -> None:
        seen = 0
        for document in DOCUMENTS:
            for span in spans(document.read_text(encoding="utf-8")):
                if reason(span) is not None:
                    continue
                with self.subTest(document=document.name, span=span):
                    seen += 1
                    if span.startswith("espalier "):
                        self.check_help(span.split()[1:])
                    else:
                        script = REPO / span.split()[0].removeprefix("./")
                        self.assertTrue(script.exists(), f"there is no {script}")
        self.assertGreater(seen, 10, "the parser is broken")

    def check_help(self, words: Sequence[str]) -> None:
        names = [word for word in words if re.fullmatch(r"[a-z]+", word)]
        if not names or names[0] == "help":
            return
        for length in (2, 1):
            done = subprocess.run(
                [live_cluster.BIN / "espalier", "help", *names[:length]], text=True,
                capture_output=True, check=False)
            if done.returncode == 0:
                break
        self.assertEqual(done.returncode, 0, done.stderr)
        for flag in [word.split("=")[0] for word in words if word.startswith("--")]:
            self.assertIn(flag, done.stdout)

    @unittest.skipUnless(list(DEFAULT_MODEL.glob("*.gguf")), "the default model is not there")
    def test_the_converter_converts(self) -> None:
        output = self.folder / "converted/deeper"
        [source] = DEFAULT_MODEL.glob("*.gguf")
        done = subprocess.run([REPO / "deploy/convert_gguf.py", source, output], text=True,
                              capture_output=True, check=False, env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({path.name for path in output.iterdir()},
                         {"config.json", "generation_config.json", "tokenizer.json",
                          "tokenizer_config.json", "model.safetensors"})

    def test_the_converter_says_what_it_needs(self) -> None:
        # A Python without the package, and a cache without an environment.
        done = subprocess.run(
            ["python3", "-S", REPO / "deploy/convert_gguf.py", "a.gguf", "b"], text=True,
            capture_output=True, check=False,
            env={**self.environment, "ESPALIER_CACHE": str(self.folder), "PYTHONPATH": ""})
        self.assertEqual(done.returncode, 1)
        self.assertIn("Run deploy/setup.sh, or:", done.stderr)
        self.assertRegex(done.stderr, r"-m pip install gguf==[0-9.]+ numpy==")


def needs_default_model(command: str) -> bool:
    return "espalier" in command and "nanogpt" not in command and "my.textproto" not in command \
        and "First Citizen" not in command


class ClusterTest(unittest.TestCase):
    """deploy/cluster.sh without services that run."""

    def setUp(self) -> None:
        folder = tempfile.mkdtemp(prefix="cluster")
        self.addCleanup(shutil.rmtree, folder)
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": folder,
                            "ESPALIER_BIN": str(live_cluster.BIN)}

    def cluster(self, *args: Any, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([REPO / "deploy/cluster.sh", *args], text=True, check=False,
                              capture_output=True, env={**self.environment, **environment})

    def test_addresses_of_what_does_not_run_are_errors(self) -> None:
        for what, hint in (("page", "deploy/quickstart.sh starts it"),
                           ("api", "deploy/quickstart.sh starts it")):
            done = self.cluster(what)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(hint, done.stderr)

    def test_ports_move_together(self) -> None:
        ports = [int(line.split(":")[-1].split("/")[0]) for line in
                 self.cluster("metrics", ESPALIER_METRICS_PORT="20100").stdout.split()]
        self.assertEqual(ports[-1], 20100)  # the coordinator's
        self.assertEqual(len(set(ports)), len(ports))
        # lookup's and grammar's ports are free: they are in the coordinator's process.
        self.assertLess(max(ports), 20100 + 10)

    @unittest.skipUnless((DEFAULT_MODEL / "drafters/.stamp").exists(),
                         "the default model is not there")
    def test_a_taken_port_is_named_with_the_variable_that_moves_it(self) -> None:
        port = live_cluster.free_port()
        with socket.create_server(("127.0.0.1", port)):
            done = self.cluster("start", ESPALIER_METRICS_PORT=str(port - 1))  # the verifier's
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"port {port}, for the metrics of the verifier, is taken", done.stderr)
        self.assertIn("ESPALIER_METRICS_PORT=PORT", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
