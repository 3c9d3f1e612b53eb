"""Hosts with a Docker engine each, joined by cables to one switch, on one machine.

A host is a set of namespaces (network, mounts, names, processes) that end with its first
process, and with them its engine and containers. The switch is a bridge in the network
namespace of this process, which `in_a_network_of_its_own` has made for it."""

import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
from typing import Any

import live_cluster

NEEDED = ("docker", "dockerd", "ip", "unshare", "iptables")

# Waits for its cable ($1), then runs an engine in folder $2. The shell stays, for it is the
# first process of its namespace and has to reap the others.
HOST = """
hostname "$3"
mount -t tmpfs tmpfs /run
until ip link show "$1" >/dev/null 2>&1; do sleep 0.05; done
ip link set lo up && ip addr add "$4/24" dev "$1" && ip link set "$1" up
ip route add default via "$5"
dockerd --host "unix://$2/docker.sock" --data-root "$2/data" --exec-root /run/docker \
    --pidfile "$2/pid" --cgroup-parent "$6" >"$2/log" 2>&1
exit $?
"""


def missing() -> str:
    """Why there can be no such hosts; empty: nothing is missing."""
    if os.getuid() != 0:
        return "hosts in namespaces need root"
    absent = [name for name in NEEDED if not shutil.which(name)]
    return f"not installed: {', '.join(absent)}" if absent else ""


def in_a_network_of_its_own() -> None:
    """Runs this program again where the network is its own: it ends with the program."""
    if os.environ.get("ESPALIER_SWARM_BED"):
        return
    os.environ["ESPALIER_SWARM_BED"] = "1"
    os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])


def run(*argv: object, **options: Any) -> str:
    """The command's output."""
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, check=False,
                          **options)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, argv))}: {done.stderr.strip()}")
    return done.stdout.strip()


def environment(**variables: object) -> dict[str | Any, str | Any]:
    return os.environ | {name: str(value) for name, value in variables.items()}


class Host:
    """One engine, at `address`."""

    def __init__(self, number: int, folder: pathlib.Path, control_group: str) -> None:
        self.name, self.address = f"n{number}", f"10.77.0.{number}"
        self._port, near = f"p{number}", f"e{number}"
        self._folder = pathlib.Path(folder) / self.name
        self._folder.mkdir()
        self._process = subprocess.Popen(
            ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child",
             "--mount-proc", "sh", "-c", HOST, "sh", near, self._folder, self.name, self.address,
             "10.77.0.254", control_group],
            # Without this an engine asks a registry for images that it has.
            env=environment(DOCKER_SERVICE_PREFER_OFFLINE_IMAGE=1),
            stdin=subprocess.DEVNULL)
        run("ip", "link", "add", self._port, "type", "veth", "peer", "name", near)
        run("ip", "link", "set", self._port, "master", "switch", "up")
        run("ip", "link", "set", near, "netns", self._first_process())

    def _first_process(self) -> str:
        pid = self._process.pid
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
        return live_cluster.await_true(lambda: children.read_text().split(), "the host starts")[0]

    def docker(self, *words: object, **options: Any) -> str:
        return run("docker", "--host", f"unix://{self._folder}/docker.sock", *words, **options)

    def answers(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"the engine has ended: {self.log()}")
        try:
            return bool(self.docker("info", "--format", "{{.ID}}"))
        except RuntimeError:
            return False

    def log(self) -> str:
        path = self._folder / "log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def pull_cable(self) -> None:
        run("ip", "link", "set", self._port, "down")

    def plug_cable_in(self) -> None:
        run("ip", "link", "set", self._port, "up")

    def isolate(self, isolated: bool) -> None:
        """Isolated hosts do not reach each other; they reach all others, and the switch."""
        run("ip", "link", "set", "dev", self._port, "type", "bridge_slave", "isolated",
            "on" if isolated else "off")

    def end(self) -> None:
        """Ends all its processes at once. Its mounts are in its own namespace, and go with it."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder)


class Swarm:
    """`count` hosts, all of them managers of one Docker Swarm."""

    def __init__(self, count: int, folder: pathlib.Path) -> None:
        self._control_group = f"/espalier-{os.getpid()}"
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "switch", "type", "bridge")
        run("ip", "addr", "add", "10.77.0.254/24", "dev", "switch")
        run("ip", "link", "set", "switch", "up")
        self.hosts = []
        try:
            for number in range(1, count + 1):
                self.hosts.append(Host(number, folder, self._control_group))
            for host in self.hosts:
                live_cluster.await_true(host.answers, f"the engine of {host.name} answers")
            self._join()
        except Exception:
            self.end()
            raise

    def _join(self) -> None:
        first = self.hosts[0]
        first.docker("swarm", "init", "--advertise-addr", first.address)
        token = first.docker("swarm", "join-token", "--quiet", "manager")
        for host in self.hosts[1:]:
            host.docker("swarm", "join", "--advertise-addr", host.address, "--token", token,
                        f"{first.address}:2377")

    def tasks(self, service: str, manager: Host) -> list[Any]:
        """The tasks of a service that should run, as objects: ID, Node, CurrentState. Empty,
        too, while the managers elect a leader."""
        try:
            lines = manager.docker("service", "ps", service, "--no-trunc", "--filter",
                                   "desired-state=running", "--format", "{{json .}}")
        except RuntimeError:
            return []
        return [json.loads(line) for line in lines.splitlines()]

    def is_ready(self, host: Host, manager: Host) -> bool:
        """Whether the managers reach the host's engine."""
        try:
            return manager.docker("node", "inspect", host.name, "--format",
                                  "{{.Status.State}} {{.ManagerStatus.Reachability}}"
                                  ) == "ready reachable"
        except RuntimeError:
            return False

    def running(self, service: str, manager: Host) -> list[str]:
        """Names of the hosts where a task of the service runs and is healthy."""
        return [task["Node"] for task in self.tasks(service, manager)
                if task["CurrentState"].startswith("Running")]

    def end(self) -> None:
        for host in self.hosts:
            host.end()
        for controller in pathlib.Path("/sys/fs/cgroup").iterdir():
            top = controller / self._control_group.strip("/")
            for path, _, _ in os.walk(top, topdown=False):
                remove_control_group(path)


def remove_control_group(path: str) -> None:
    """Its last process may still be ending."""
    for _ in range(100):
        try:
            os.rmdir(path)
            return
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.05)
