#!/usr/bin/env python3
"""Writes a kernel header with a planted fault.

    plant_fault.py FAULTS.json REPOSITORY NAME FOLDER
    plant_fault.py FAULTS.json REPOSITORY

The first form makes FOLDER/<file>, the repository's file with the fault's `from`
replaced by its `to`. Both fail unless `from` is there exactly once: the second
one, of every fault.
"""

import json
import pathlib
import sys


def planted(fault: dict[str, str], repository: str) -> str:
    """The text of its file with the fault."""
    text = pathlib.Path(repository, fault["file"]).read_text(encoding="utf-8")
    if text.count(fault["from"]) != 1:
        sys.exit(f"{fault['file']} has the place of {fault['name']} "
                 f"{text.count(fault['from'])} times, not once")
    return text.replace(fault["from"], fault["to"])


def main() -> None:
    faults, repository = sys.argv[1:3]
    listed = json.loads(pathlib.Path(faults).read_text(encoding="utf-8"))["faults"]
    if len(sys.argv) == 3:
        for fault in listed:
            planted(fault, repository)
        return
    name, folder = sys.argv[3:]
    fault = next(f for f in listed if f["name"] == name)
    text = planted(fault, repository)
    out = pathlib.Path(folder, fault["file"])
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
