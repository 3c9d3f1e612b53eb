#!/usr/bin/env python3
"""Plants faults, one at a time, and sees that the tests notice each.

    run_mutants.py [--part N] SOURCE BUILD [TEXT ...]
    run_mutants.py --check SOURCE

SOURCE is the source tree and BUILD its build, which are only read: where the
system has overlays, each fault is planted and built in one of its own, which is
gone afterwards, so that nothing is built to be as it was; as many at a time as
there are cores. Elsewhere faults are planted in a copy in BUILD, which is built
anew and kept for the next run. Source files with faults are compiled apart from
the rest of their libraries.

The faults are in *.toml beside this file, each with the text that it replaces,
the test file (or program) that must fail, and what the processor needs for it,
as /proc/cpuinfo spells it, if anything. TEXT: only faults with it in their name
or file. N: that tenth of them.

Fails if a fault survives, if its text is not in the file exactly once, or if it
does not compile: then the list has to follow the code. --check looks for the
texts alone.
"""

import filecmp
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

try:
    import tomllib
except ImportError:  # Python 3.10
    print("skipped: needs Python 3.11")
    sys.exit(0)

SKIPPED = {".git", "build", "dist", "__pycache__", ".venv"}
TEST_SECONDS = 300  # for a program without a fault


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
        # Neighbours, so that few libraries have files apart; headers evenly, as whole
        # libraries include them.
        headers = [m for m in mutants if not is_apart(m)]
        mutants = [m for m in mutants if is_apart(m)]
        mutants = mutants[len(mutants) * part // 10:len(mutants) * (part + 1) // 10]
        mutants += headers[part::10]
    return sorted(mutants, key=lambda m: m["test"])


def is_apart(mutant: dict[str, Any]) -> bool:
    """Whether its file is compiled apart from the rest of its library."""
    return pathlib.Path(mutant["file"]).suffix == ".cc"


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


# Runs the command after $1, $2 and $3: what it changes in the folder $1, which begins
# as the layers $2, goes to the folder $3.
OVERLAY = """mount -t overlay overlay -o "lowerdir=$2,upperdir=$3/u,workdir=$3/w" "$1" &&
shift 3 && exec "$@" """


class Overlay:
    """Runs commands that see their own changes in a folder, and nobody else does."""

    def __init__(self, folder: pathlib.Path, layers: list[pathlib.Path], changes: str) -> None:
        self.changes = pathlib.Path(changes, "u")
        for name in "u", "w":
            pathlib.Path(changes, name).mkdir()
        self.prefix = ["unshare", "--mount", "sh", "-c", OVERLAY, "sh", str(folder),
                       ":".join(map(str, layers)), changes]

    def works(self) -> bool:
        return subprocess.run([*self.prefix, "true"], check=False,
                              capture_output=True).returncode == 0


def options() -> list[str]:
    """CMake's, of a copy's build."""
    given = os.environ.get("ESPALIER_OPTIONS", "-DESPALIER_TORCH=OFF")
    return ["--preset", "release", "-DESPALIER_TESTS=ON", *shlex.split(given)]


class Tree:
    """Where faults are planted, and its build; seen through an overlay if there is one."""

    def __init__(self, source: pathlib.Path, build: pathlib.Path,
                 overlay: Overlay | None = None) -> None:
        self.source = source
        self.build = build
        self.prefix = overlay.prefix if overlay else []
        self.patience: dict[str, float] = {}  # seconds, for a fault may make a test hang
        compiler = pathlib.Path(__file__).with_name("without_werror.sh").resolve()
        self.environment = os.environ | {"CCACHE_BASEDIR": str(self.source),
                                         "CCACHE_NOHASHDIR": "1",
                                         "CCACHE_PREFIX": str(compiler)}

    def run(self, *command: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self.prefix, *command], env=self.environment, text=True,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)

    def configure(self, mutants: list[Any], *arguments: str) -> subprocess.CompletedProcess[str]:
        apart = sorted({m["file"] for m in mutants if is_apart(m)})
        return self.run("cmake", "-S", str(self.source), "-B", str(self.build), *arguments,
                        f"-DESPALIER_APART={';'.join(apart)}")

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
                [*self.prefix, self.build / "tests" / "bin" / program, *cases,
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

    def outcome(self, test: str) -> tuple[str, bool]:
        """What becomes of the fault that is planted, and whether that is as it should be."""
        built = self.compile(test)
        if built.returncode != 0:
            return f"does not compile:\n{built.stdout[-3000:]}", False
        fails, output = self.test_fails(test)
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


# Tries a fault, given its file's text with it: what became of it, and whether that is
# as it should be.
Try = Callable[[dict[str, Any], str], tuple[str, bool]]


def judge(source: pathlib.Path, mutants: list[Any], threads: int, try_fault: Try) -> int:
    """Tries all, prints what became of each, and returns the exit status."""
    def try_one(mutant: dict[str, Any]) -> bool | None:
        name, begin = f"{mutant['file']}: {mutant['fault']}", time.monotonic()
        if (needs := mutant.get("needs")) and not processor_has(needs):
            print(f"{name}: left out, as the processor has no {needs}")
            return None
        right = (source / mutant["file"]).read_text()
        if right.count(mutant["search"]) != 1:
            outcome, is_good = f"not there once: {mutant['search']!r}", False
        else:
            outcome, is_good = try_fault(
                mutant, right.replace(mutant["search"], mutant["replace"]))
        print(f"{name}: {outcome} [{mutant['test']}, {time.monotonic() - begin:.0f} s]",
              flush=True)
        return is_good

    with ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(try_one, mutants))
    print(f"{len(results)} faults, {results.count(True)} killed, "
          f"{results.count(None)} left out")
    return 1 if False in results else 0


def prepare(tree: Tree, mutants: list[Any], *arguments: str) -> None:
    """Without a fault."""
    tests = sorted({m["test"] for m in mutants})
    must_succeed(tree.configure(mutants, *arguments))
    must_succeed(tree.compile(*tests))
    for test in tests:
        tree.must_pass(test)


def run_in_overlays(source: pathlib.Path, build: pathlib.Path, mutants: list[Any]) -> int | None:
    """The exit status; None: there are no overlays to be had."""
    with tempfile.TemporaryDirectory() as changes:
        below = Overlay(source, [source], changes)
        if not below.works():
            return None
        right = Tree(source, build, below)
        prepare(right, mutants)

        def try_fault(mutant: dict[str, Any], text: str) -> tuple[str, bool]:
            with tempfile.TemporaryDirectory() as planted:
                overlay = Overlay(source, [below.changes, source], planted)
                path = overlay.changes / mutant["file"]
                path.parent.mkdir(parents=True)
                path.write_text(text)
                tree = Tree(source, build, overlay)
                tree.patience = right.patience
                return tree.outcome(mutant["test"])

        return judge(source, mutants, len(os.sched_getaffinity(0)), try_fault)


def run_in_copy(source: pathlib.Path, build: pathlib.Path, mutants: list[Any]) -> int:
    copy = build / "tests" / "mutants" / "source"
    tree = Tree(copy, copy / "build" / "mutants")
    copy_changes(source, copy)
    prepare(tree, mutants, *options())

    def try_fault(mutant: dict[str, Any], text: str) -> tuple[str, bool]:
        path = copy / mutant["file"]
        right = path.read_text()
        try:
            path.write_text(text)
            return tree.outcome(mutant["test"])
        finally:
            path.write_text(right)

    return judge(copy, mutants, 1, try_fault)


def main() -> int:
    if sys.argv[1] == "--check":
        return check(pathlib.Path(sys.argv[2]))
    args, part = sys.argv[1:], None
    if args[0] == "--part":
        part, args = int(args[1]), args[2:]
    source, build = (pathlib.Path(p).resolve() for p in args[:2])
    mutants = read_mutants(args[2:], part)
    if not mutants:
        sys.exit("there is no such fault")
    # An overlay covers a build below the sources alone.
    status = run_in_overlays(source, build, mutants) if source in build.parents else None
    return run_in_copy(source, build, mutants) if status is None else status


if __name__ == "__main__":
    sys.exit(main())
