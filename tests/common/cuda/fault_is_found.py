#!/usr/bin/env python3
"""Passes if a test program with a planted fault fails.

    fault_is_found.py PROGRAM TEST_FILE FILTER

runs the cases of the test file that the filter selects. They have to fail by a
failed case, by a rule of the device that the emulation saw broken, or by a
signal: a program that does not start, or runs no case, has found nothing.
"""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import find_tests  # pylint: disable=wrong-import-position


def main() -> int:
    program, source, tests = sys.argv[1:]
    cases = find_tests.selected_cases(program, pathlib.Path(source), tests)
    if not cases:
        sys.exit(f"{source} has no case {tests}")
    run = subprocess.run([program, f"--gtest_filter={':'.join(cases)}",
                          "--gtest_fail_fast"], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, check=False)
    found = re.search(r"^emulated kernel .*|^\[  FAILED  \] .*", run.stdout,
                      re.MULTILINE)
    if run.returncode != 0 and found:
        print("found:", found.group(0))
        return 0
    if run.returncode < 0:
        print("found: ended by signal", -run.returncode)
        return 0
    print(run.stdout)
    print("the fault was not found")
    return 1


if __name__ == "__main__":
    sys.exit(main())
