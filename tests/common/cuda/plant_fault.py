#!/usr/bin/env python3
"""Writes a kernel header with a planted fault.

    plant_fault.py FAULTS.json NAME REPOSITORY FOLDER

makes FOLDER/<file>, the repository's file with the fault's `from` replaced by
its `to`. Fails unless `from` is there exactly once.
"""

import json
import pathlib
import sys


def main() -> None:
    faults, name, repository, folder = sys.argv[1:]
    listed = json.loads(pathlib.Path(faults).read_text(encoding="utf-8"))
    fault = next(f for f in listed["faults"] if f["name"] == name)
    text = pathlib.Path(repository, fault["file"]).read_text(encoding="utf-8")
    if text.count(fault["from"]) != 1:
        sys.exit(f"{fault['file']} has the place of {name} "
                 f"{text.count(fault['from'])} times, not once")
    out = pathlib.Path(folder, fault["file"])
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text.replace(fault["from"], fault["to"]), encoding="utf-8")


if __name__ == "__main__":
    main()
