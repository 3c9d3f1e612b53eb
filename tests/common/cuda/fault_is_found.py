#!/usr/bin/env python3
"""Passes if a test program with a planted fault fails.

    fault_is_found.py PROGRAM FILTER

By a failed test, by a rule of the device that the emulation saw broken, or by a
signal: a program that does not start, or runs no test, has found nothing.
"""

import re
import subprocess
import sys


def main():
    program, tests = sys.argv[1:]
    run = subprocess.run([program, f"--gtest_filter={tests}",
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
