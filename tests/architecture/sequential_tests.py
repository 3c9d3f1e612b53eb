#!/usr/bin/env python3
"""Guards what ThreadSanitizer does without.

A test that is marked SEQUENTIAL is not built for it. So its program may not even
be able to start a thread. Run by ctest; the arguments are `nm` and the programs.
"""

import re
import subprocess
import sys

STARTS_THREADS = re.compile(r"\b(pthread_create|_ZNSt6thread15_M_start_thread\w*)")


def main() -> int:
    nm, *programs = sys.argv[1:]
    failed = not programs
    for path in programs:
        symbols = subprocess.run([nm, "--undefined-only", path], check=True,
                                 capture_output=True, text=True).stdout
        if match := STARTS_THREADS.search(symbols):
            print(f"{path} is SEQUENTIAL and may call {match[0]}")
            failed = True
    print(f"{len(programs)} programs looked at")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
