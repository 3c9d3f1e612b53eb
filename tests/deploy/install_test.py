#!/usr/bin/env python3
"""`cmake --install` of this build, whichever of its programs were built: they are
installed with what they look for beside them, and nothing outside the prefix."""

import os
import pathlib
import subprocess
import tempfile
import unittest
from typing import Any

from live_cluster import BIN

BUILD = BIN.parent
PROGRAMS = ["espalier", "espalier-coordinator", "espalier-drafter", "espalier-verifier",
            "espalier-node"]


def run(*argv: object, **options: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False,
                          **options)
    if done.returncode != 0:
        raise AssertionError(f"{argv}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


class InstallTest(unittest.TestCase):
    prefix: pathlib.Path
    outside: pathlib.Path

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="espalier-install-")
        cls.addClassCleanup(folder.cleanup)
        # What would go to /etc goes below `outside`, and is found there.
        cls.outside = pathlib.Path(folder.name, "outside")
        cls.prefix = cls.outside / "prefix"
        run("cmake", "--install", BUILD, "--prefix", "/prefix",
            env=os.environ | {"DESTDIR": str(cls.outside)})

    def test_what_was_built_is_installed(self) -> None:
        built = {name for name in PROGRAMS if (BIN / name).exists()}
        self.assertIn("espalier", built)
        self.assertEqual({path.name for path in (self.prefix / "bin").iterdir()}, built)

    def test_the_programs_run_and_find_what_is_beside_them(self) -> None:
        version = run(BIN / "espalier", "--version")
        self.assertEqual(run(self.prefix / "bin/espalier", "--version"), version)
        self.assertTrue((self.prefix / "share/espalier/suites/chat.jsonl").exists())
        self.assertTrue((self.prefix / "share/espalier/drafters/chat/config.json").exists())
        self.assertTrue((self.prefix / "share/espalier/proto/espalier/v1/config.proto").exists())

    def test_nothing_lies_outside_the_prefix(self) -> None:
        self.assertEqual([path.name for path in self.outside.iterdir()], ["prefix"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
