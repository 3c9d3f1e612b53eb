#!/usr/bin/env python3
"""Guards the border between the CPU backends and the rest of a program.

The objects of a backend are compiled for instructions that the machine may not
have. A function of theirs that other objects have as well (inline, or made from
a template) would be the linker's to choose, and so could run anywhere. So each
object may show the linker its table of kernels and nothing else. Run by ctest;
the arguments are `nm` and the objects.
"""

import re
import subprocess
import sys
from typing import Any

TABLE = re.compile(r"espalier::nn::\w+Kernels\(\)$")


def functions(nm: str, path: str) -> list[Any]:
    lines = subprocess.run([nm, "-C", "--extern-only", "--defined-only", path],
                           check=True, capture_output=True, text=True).stdout
    symbols = [line.split(maxsplit=2) for line in lines.splitlines()]
    return [name for _, kind, name in symbols if kind in "TW"]


def main() -> int:
    nm, *objects = sys.argv[1:]
    failed = not objects
    for path in objects:
        names = functions(nm, path)
        tables = [name for name in names if TABLE.match(name)]
        for name in sorted(set(names) - set(tables)):
            print(f"{path} shares {name}")
            failed = True
        if len(tables) != 1:
            print(f"{path} has {len(tables)} tables of kernels, not one")
            failed = True
    print(f"{len(objects)} backends looked at")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
