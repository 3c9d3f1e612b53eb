#!/usr/bin/env python3
"""The packages of deploy/package.sh: installed in a fresh Debian that systemd boots in
a container of its own, they serve what the build serves, and leave nothing behind.

ESPALIER_PACKAGES: a folder that package.sh has filled; unset: it is run.
"""

import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterable
from typing import Any

import live_cluster
from live_cluster import BIN, REPO

CACHE = pathlib.Path(os.environ.get("ESPALIER_CACHE") or pathlib.Path(
    os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "espalier"))
MODEL = CACHE / "models/smollm2-135m-instruct"
PACKAGES = ["espalier", "espalier-verifier", "espalier-drafter"]
SERVICES = ["espalier-verifier", "espalier-drafter@lookup", "espalier-drafter@grammar",
            "espalier-coordinator"]
ADDRESS = "127.0.0.1:50051"
QUESTION = ["--chat", "What is a glacier?", "--temperature", "0", "--max-tokens", "40"]


def run(*argv: object, check: bool = True, **options: Any) -> str:
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True,
                          check=False, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"{argv}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def missing() -> str:
    """Why the test cannot run here; empty: it can."""
    if os.getuid() != 0:
        return "only root can boot a container"
    for tool in ("debootstrap", "systemd-nspawn", "dpkg-shlibdeps", "file"):
        if not shutil.which(tool):
            return f"{tool} is missing: apt-get install debootstrap systemd-container dpkg-dev file"
    return "" if MODEL.exists() else "the default model is missing: run deploy/setup.sh"


class Debian:
    """A root of its own with the packages, and the model; `boot` starts its systemd."""

    def __init__(self, packages: Iterable[pathlib.Path]) -> None:
        # In memory: dpkg waits for the disk after every file.
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="espalier-root-", dir="/dev/shm"))
        self.root.chmod(0o755)  # its services have users of their own
        self._nspawn: subprocess.Popen[bytes] | None = None
        run("debootstrap", "--variant=minbase", "--include=systemd-sysv,dbus,bash-completion",
            "bookworm", self.root)
        # The machine's own sources, so that updates and security come with them.
        sources = pathlib.Path("/etc/apt/sources.list.d/debian.sources")
        if sources.exists():
            shutil.copy(sources, self.root / "etc/apt/sources.list.d")
            (self.root / "etc/apt/sources.list").write_text("")
        shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")
        (self.root / "packages").mkdir()
        for package in packages:
            shutil.copy(package, self.root / "packages")

    def chroot(self, *argv: object) -> str:
        return run("chroot", self.root, "env", "DEBIAN_FRONTEND=noninteractive", *argv)

    def install(self) -> None:
        self.chroot("apt-get", "-q", "update")
        self.chroot("apt-get", "-q", "install", "-y", "--no-install-recommends",
                    *(f"/packages/{path.name}" for path in (self.root / "packages").iterdir()))
        shutil.copytree(MODEL, self.root / "var/lib/espalier/models/default")

    def boot(self) -> None:
        # Its network is a loopback interface.
        self._nspawn = subprocess.Popen(
            ["systemd-nspawn", "-q", "-D", str(self.root), "--boot", "--register=no", "--keep-unit",
             "--private-network", "--console=pipe"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        live_cluster.await_true(
            lambda: self._leader() and self.inside("systemctl", "is-active", "dbus", check=False)
            .strip() == "active", "systemd is up")

    def _leader(self) -> list[str]:
        """The process id of the container's first process, if it is there."""
        assert self._nspawn
        return run("pgrep", "-P", self._nspawn.pid, check=False).split()[:1]

    def inside(self, *argv: object, check: bool = True) -> str:
        """Output of a command in the container."""
        return run("nsenter", "-t", *self._leader(), "-a", *argv, check=check)

    def await_serving(self, address: str) -> None:
        live_cluster.await_true(
            lambda: self.inside("espalier", "check", address, check=False).strip() == "SERVING",
            f"{address} serves")

    def answer(self) -> str:
        return self.inside("espalier", "generate", "--address", ADDRESS, *QUESTION)

    def close(self) -> None:
        if self._nspawn:
            self._nspawn.terminate()
            self._nspawn.wait()
        # What an interrupted debootstrap left mounted is not ours to delete.
        run("rm", "-rf", "--one-file-system", self.root)


class PackagesTest(unittest.TestCase):
    expected: str
    debian: Debian
    folder: pathlib.Path

    @classmethod
    def setUpClass(cls) -> None:
        if made := os.environ.get("ESPALIER_PACKAGES"):
            cls.folder = pathlib.Path(made)
        else:
            cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="espalier-packages-"))
            cls.addClassCleanup(shutil.rmtree, cls.folder)
            run(REPO / "deploy/package.sh", cls.folder)
        cls.debian = Debian(cls.folder.glob("*.deb"))
        cls.addClassCleanup(cls.debian.close)
        cls.debian.install()
        cls.debian.boot()
        cls.addClassCleanup(cls.purge)
        cls.expected = run(BIN / "espalier", "generate", "--local", *QUESTION)

    @classmethod
    def purge(cls) -> None:
        """Removed packages leave nothing behind but the models."""
        cls.debian.inside("apt-get", "-q", "purge", "-y", *PACKAGES)
        root = cls.debian.root
        left = [name for pattern in ("etc/espalier", "usr/bin/espalier*", "usr/share/espalier",
                                     "lib/systemd/system/espalier*")
                for name in glob.glob(f"{root}/{pattern}")]
        if left or not (root / "var/lib/espalier/models/default").exists():
            raise AssertionError(f"after a purge: {left}")

    def stop_all(self) -> None:
        self.debian.inside("systemctl", "stop", "espalier", *SERVICES)

    def test_services_of_their_own_answer_as_the_build_does(self) -> None:
        self.addCleanup(self.stop_all)
        self.debian.inside("systemctl", "start", *SERVICES)
        self.debian.await_serving(ADDRESS)
        self.assertEqual(self.debian.answer(), self.expected)
        for service in SERVICES:
            with self.subTest(service):
                user = self.debian.inside(
                    "sh", "-c", f"stat -c %U /proc/$(systemctl show -P MainPID {service})")
                self.assertEqual(user.strip(), "espalier")

    def test_one_process_answers_as_the_build_does(self) -> None:
        self.addCleanup(self.stop_all)
        self.debian.inside("systemctl", "start", "espalier")
        self.debian.await_serving(ADDRESS)
        self.assertEqual(self.debian.answer(), self.expected)

    def test_nothing_runs_before_it_is_asked_for(self) -> None:
        for service in ["espalier", *SERVICES]:
            state = self.debian.inside("systemctl", "is-enabled", service, check=False)
            self.assertEqual(state.strip(), "disabled")

    def test_units_are_sandboxed(self) -> None:
        for path in glob.glob(f"{self.debian.root}/lib/systemd/system/espalier*.service"):
            unit = pathlib.Path(path).name.replace("@.", "@lookup.")
            with self.subTest(unit):
                self.debian.inside("systemd-analyze", "verify", "--man=no", unit)
                # 0 is locked up, 10 is free; in tenths.
                self.debian.inside("systemd-analyze", "security", "--no-pager", "--threshold=20", unit)

    def test_secrets_are_the_services_alone(self) -> None:
        secrets = self.debian.inside("stat", "-c", "%a %U:%G", "/etc/espalier/secrets",
                                     "/etc/espalier/secrets/verifier.token")
        self.assertEqual(secrets, "750 root:espalier\n640 root:espalier\n")

    def test_every_command_has_a_page_and_every_flag_is_in_it(self) -> None:
        pages = self.debian.root / "usr/share/man"
        for line in re.findall(r"^  (\w+(?: \w+)?)  ", run(BIN / "espalier", "help"), re.MULTILINE):
            if line == "version":
                continue
            with self.subTest(line):
                page = run("zcat", pages / f"man1/espalier-{line.replace(' ', '-')}.1.gz")
                shown = run(BIN / "espalier", *line.split(), "--help")
                for flag in re.findall(r"^  (--[a-z-]+)", shown, re.MULTILINE):
                    self.assertIn(f"\\fB{flag}\\fR".replace("-", "\\-"), page)
                self.assertNotIn(str(CACHE), page.replace("\\-", "-"))
        for name in PACKAGES[1:] + ["espalier-coordinator"]:
            self.assertIn("\\-\\-config", run("zcat", pages / f"man8/{name}.8.gz"))

    def test_completion_knows_commands_and_flags(self) -> None:
        def complete(*words: str) -> list[str]:
            script = (f"source /usr/share/bash-completion/completions/espalier; COMP_WORDS=({' '.join(words)}); "
                      "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _espalier; echo ${COMPREPLY[*]}")
            return self.debian.inside("bash", "-c", script).split()
        self.assertEqual(complete("espalier", "gen"), ["generate"])
        self.assertEqual(complete("espalier", "bench", "fo"), ["forward"])
        self.assertEqual(complete("espalier", "bench", "forward", "--ro"), ["--rows"])
        self.assertEqual(complete("espalier", "generate", "--max-to"), ["--max-tokens"])
        self.assertEqual(complete("espalier", "generate", "--config", "/etc/espalier/ser"),
                         ["/etc/espalier/serve.textproto"])

    def test_checksums_are_right_and_cover_all(self) -> None:
        run("sha256sum", "-c", "SHA256SUMS", cwd=self.folder)
        listed = {line.split()[1] for line in (self.folder / "SHA256SUMS").read_text().splitlines()}
        self.assertEqual(listed, {path.name for path in self.folder.glob("espalier*")})
        self.assertEqual(len(listed), len(PACKAGES) + 2)

    def test_the_bill_of_materials_names_what_the_packages_depend_on(self) -> None:
        [path] = self.folder.glob("*.cdx.json")
        bill = json.loads(path.read_text())
        version = run(BIN / "espalier", "--version").split()[1]
        self.assertEqual(bill["metadata"]["component"]["version"], version)
        names = {component["name"] for component in bill["components"]}
        # "libspdlog1.10-fmt9" is provided by libspdlog1.10.
        for line in self.debian.inside("dpkg-query", "-W", "-f",
                                       "${Package}|${Provides}\n").splitlines():
            package, provided = line.split("|")
            if package in names:
                names |= {word.split()[0] for word in provided.split(", ") if word}
        for package in PACKAGES:
            depends = self.debian.inside("dpkg-query", "-W", "-f", "${Depends}", package)
            libraries = {word.split()[0] for word in depends.split(", ")} - {"adduser"}
            self.assertLessEqual(libraries, names)
        self.assertLessEqual({"xgrammar", "llama-cpp-python"}, names)
        references = [component["bom-ref"] for component in bill["components"]]
        self.assertEqual(len(references), len(set(references)))

    def test_the_archive_runs_where_it_is_unpacked(self) -> None:
        [path] = self.folder.glob("*.tar.gz")
        with tempfile.TemporaryDirectory() as folder:
            run("tar", "-xzf", path, "-C", folder)
            [root] = pathlib.Path(folder).iterdir()
            self.assertEqual(run(root / "bin/espalier", "generate", "--local", *QUESTION),
                             self.expected)
            self.assertFalse((root / "etc").exists())


if __name__ == "__main__":
    if why := missing():
        print(f"skipped: {why}")
        sys.exit(0)
    unittest.main(verbosity=2)
