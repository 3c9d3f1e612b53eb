#!/usr/bin/env python3
"""Plants faults, one at a time, and sees that the tests notice each.

    run_mutants.py [--part N] SOURCE BUILD [TEXT ...]
    run_mutants.py --check SOURCE

SOURCE is the source tree and BUILD its build, which are only read: where the
system has overlays, faults are planted and built in some that nobody else sees and
that are gone at the end, one for each core; elsewhere in a copy in BUILD, which is
built anew and kept for the next run. The faults are in *.toml beside this file,
each with the text that it replaces, the test file (or program) that must fail, and
what the processor needs for it, as /proc/cpuinfo spells it, if anything. TEXT: only
faults with it in their name or file. N: those of every ten with the number N.

Fails if a fault survives, if its text is not in the file exactly once, or if it
does not compile: then the list has to follow the code. --check looks for the
texts alone.
"""

import contextlib
import filecmp
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

try:
    import tomllib
except ImportError:  # Python 3.10
    print("skipped: needs Python 3.11")
    sys.exit(0)

SKIPPED = {".git", "build", "dist", "__pycache__", ".venv"}
TEST_SECONDS = 300  # for a program without a fault
# "i/n" where SOURCE is an overlay: the faults are the i-th of n parts of all.
INSIDE = "ESPALIER_MUTANTS_OVERLAY"


sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import find_tests  # pylint: disable=wrong-import-position


def read_mutants(words: Any, part: int | None = None) -> list[Any]:
    mutants = []
    for path in sorted(pathlib.Path(__file__).parent.glob("*.toml")):
        mutants += tomllib.loads(path.read_text())["mutant"]
    if words:
        mutants = [m for m in mutants
                   if any(w in m["file"] or w in m["fault"] for w in words)]
    if part is not None:
        mutants = mutants[part::10]
    return sorted(mutants, key=lambda m: m["test"])


def processor_has(feature: str) -> bool:
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return any(feature in line.split() for line in lines if line.startswith("flags"))


def copy_changes(source: pathlib.Path, copy: pathlib.Path) -> None:
    """Leaves files alone that are the same, so that they are not built again."""
    kept = set()
    for folder, folders, files in os.walk(source):
        folders[:] = [f for f in folders if f not in SKIPPED]
        for name in files:
            path = pathlib.Path(folder, name)
            target = copy / path.relative_to(source)
            kept.add(target)
            if target.exists() and filecmp.cmp(path, target, shallow=False):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            shutil.copymode(path, target)
    for folder, folders, files in os.walk(copy):
        folders[:] = [f for f in folders if f not in SKIPPED]
        for name in files:
            path = pathlib.Path(folder, name)
            if path not in kept:
                path.unlink()


# Runs the command after $1 and $2; what it changes in the folder $1 goes to $2.
OVERLAY = """mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/u,workdir=$2/w" "$1" &&
shift 2 && exec "$@" """


def overlay_command(source: pathlib.Path, upper: str) -> list[str]:
    for name in "u", "w":
        pathlib.Path(upper, name).mkdir()
    return ["unshare", "--mount", "sh", "-c", OVERLAY, "sh", str(source), upper]


def run_in_overlays(source: pathlib.Path, count: int) -> int | None:
    """This program's status in `count` overlays; None: there are none to be had."""
    with contextlib.ExitStack() as stack:
        commands = [overlay_command(source, stack.enter_context(tempfile.TemporaryDirectory()))
                    for _ in range(count)]
        if subprocess.run([*commands[0], "true"], check=False,
                          capture_output=True).returncode != 0:
            return None
        programs = [subprocess.Popen([*command, sys.executable, *sys.argv],
                                     env=os.environ | {INSIDE: f"{i}/{count}"})
                    for i, command in enumerate(commands)]
        statuses = [program.wait() for program in programs]
        return 1 if any(statuses) else 0


def options() -> list[str]:
    """CMake's options of the build beside it."""
    return shlex.split(os.environ.get("ESPALIER_OPTIONS", "-DESPALIER_TORCH=OFF"))


class Tree:
    """Where faults are planted, and its build."""

    def __init__(self, source: pathlib.Path, build: pathlib.Path) -> None:
        self.source = source
        self.build = build
        self.patience: dict[str, float] = {}  # seconds, for a fault may make a test hang
        prefix = pathlib.Path(__file__).with_name("without_werror.sh").resolve()
        self.environment = os.environ | {"CCACHE_BASEDIR": str(self.source),
                                         "CCACHE_NOHASHDIR": "1",
                                         "CCACHE_PREFIX": str(prefix)}

    def run(self, *command: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, env=self.environment, text=True,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)

    def configure(self) -> subprocess.CompletedProcess[str]:
        return self.run("cmake", "--preset", "release", "-S", str(self.source),
                        "-B", str(self.build), "-DESPALIER_TESTS=ON", *options())

    def find(self, test: str) -> tuple[str, pathlib.Path | None]:
        """The program of a test file, and the file unless it is a program."""
        found = find_tests.find_file(find_tests.read_programs(self.build), test)
        return found or sys.exit(f"there is no test {test}")

    def compile(self, *tests: str) -> subprocess.CompletedProcess[str]:
        programs = sorted({self.find(test)[0] for test in tests})
        return self.run("ninja", "-C", str(self.build), *programs)

    def test_fails(self, test: str) -> tuple[bool, str]:
        """Whether it does, and what it says."""
        program, source = self.find(test)
        cases = [f"--gtest_filter={find_tests.filter_of(source)}"] if source else []
        try:
            result = subprocess.run(
                [self.build / "tests" / "bin" / program, *cases,
                 "--gtest_fail_fast", "--gtest_brief=1"],
                cwd=self.build, text=True, errors="replace",
                timeout=self.patience.get(test, TEST_SECONDS), stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired:
            return True, "it hangs"
        return result.returncode != 0, result.stdout

    def must_pass(self, test: str) -> None:
        begin = time.monotonic()
        fails, output = self.test_fails(test)
        if fails:
            sys.exit(f"{test} fails without a fault:\n{output[-5000:]}")
        self.patience[test] = 20 + 5 * (time.monotonic() - begin)

    def try_mutant(self, mutant: dict[str, Any]) -> tuple[str, bool]:
        """What became of it, and whether that is as it should be."""
        path = self.source / mutant["file"]
        right = path.read_text()
        if right.count(mutant["search"]) != 1:
            return f"not there once: {mutant['search']!r}", False
        try:
            path.write_text(right.replace(mutant["search"], mutant["replace"]))
            built = self.compile(mutant["test"])
            if built.returncode != 0:
                return f"does not compile:\n{built.stdout[-3000:]}", False
            fails, output = self.test_fails(mutant["test"])
        finally:
            path.write_text(right)
        if not fails:
            return "SURVIVES", False
        failed = [line.split("] ")[1].split(",")[0].split(" (")[0]
                  for line in output.splitlines()
                  if line.startswith("[  FAILED  ]") and "." in line]
        return f"killed by {failed[0] if failed else 'its end'}", True


def must_succeed(step: subprocess.CompletedProcess[str]) -> None:
    if step.returncode != 0:
        sys.exit(step.stdout[-5000:])


def check(source: pathlib.Path) -> int:
    """Whether every fault's text is in its file exactly once."""
    missing = [m for m in read_mutants([])
               if (source / m["file"]).read_text().count(m["search"]) != 1]
    for mutant in missing:
        print(f"{mutant['file']}: {mutant['fault']}: not there once: {mutant['search']!r}")
    return 1 if missing else 0


def main() -> int:
    if sys.argv[1] == "--check":
        sys.exit(check(pathlib.Path(sys.argv[2])))
    args, part = sys.argv[1:], None
    if args[0] == "--part":
        part, args = int(args[1]), args[2:]
    source, build = (pathlib.Path(p).resolve() for p in args[:2])
    mutants = read_mutants(args[2:], part)
    if not mutants:
        sys.exit("there is no such fault")
    tree = Tree(source, build)
    if INSIDE in os.environ:
        i, count = map(int, os.environ[INSIDE].split("/"))
        mutants = mutants[len(mutants) * i // count:len(mutants) * (i + 1) // count]
    else:
        # They cover a build below the sources alone.
        count = min(len(os.sched_getaffinity(0)), len(mutants))
        status = run_in_overlays(source, count) if source in build.parents else None
        if status is not None:
            return status
        copy = build / "tests" / "mutants" / "source"
        tree = Tree(copy, copy / "build" / "mutants")
        copy_changes(source, copy)
        must_succeed(tree.configure())
    tests = sorted({m["test"] for m in mutants})
    must_succeed(tree.compile(*tests))
    for test in tests:
        tree.must_pass(test)
    bad = left_out = 0
    for mutant in mutants:
        name = f"{mutant['file']}: {mutant['fault']}"
        if (needs := mutant.get("needs")) and not processor_has(needs):
            print(f"{name}: left out, as the processor has no {needs}")
            left_out += 1
            continue
        begin = time.monotonic()
        outcome, is_good = tree.try_mutant(mutant)
        bad += not is_good
        print(f"{name}: {outcome} [{mutant['test']}, {time.monotonic() - begin:.0f} s]",
              flush=True)
    print(f"{len(mutants)} faults, {len(mutants) - bad - left_out} killed, {left_out} left out")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
