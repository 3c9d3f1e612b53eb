#!/usr/bin/env python3
"""What `cmake --preset` says in a clone without set-up: `release` names the command
that is missing, `minimal` needs Debian's packages alone and says what it leaves out."""

import os
import pathlib
import subprocess
import tempfile
import unittest

from live_cluster import REPO


class ConfigureTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="espalier-configure-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def configure(self, preset: str) -> tuple[int, str]:
        """(exit status, what was printed, its lines joined)."""
        done = subprocess.run(
            ["cmake", "--preset", preset, "-S", str(REPO), "-B", str(self.folder / "build")],
            cwd=REPO, env=os.environ | {"ESPALIER_CACHE": str(self.folder / "cache")},
            capture_output=True, text=True, check=False)
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    def test_release_names_the_command_to_run(self) -> None:
        status, said = self.configure("release")
        self.assertNotEqual(status, 0)
        self.assertRegex(said, r"Run deploy/setup\.sh\b")

    def test_minimal_says_what_it_leaves_out(self) -> None:
        status, said = self.configure("minimal")
        self.assertEqual(status, 0, said)
        for part in ("structured output", "the backend aten", "kernels for GPUs"):
            self.assertRegex(said, f"Left out: [^(]*{part}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
