#!/usr/bin/env python3
"""Guards the dependency arrows of ARCHITECTURE.md.

Each folder may include only what its row allows; each outside library may be
included only where its row allows. Run by ctest; the argument is the repository.
"""

import pathlib
import re
import sys

# Folder -> project folders its files may include, besides itself.
# A file belongs to the longest matching row.
ARROWS = {
    "common/base": [],
    "common/spec": ["common/base"],
    "common/obs": ["common/base"],
    "common/config": ["common/base"],
    "common/tokenizer": ["common/base", "common/spec"],
    "common/nn": ["common/base"],
    "common/model": ["common/base", "common/nn", "common/spec",
                     "common/tokenizer"],
    "common/rpc": ["common/base", "common/spec", "common/obs",
                   "common/config"],
    # Draft heads run on the kernels directly.
    "drafter": ["common/base", "common/spec", "common/obs", "common/rpc",
                "common/config", "common/tokenizer", "common/model",
                "common/nn"],
    "verifier": ["common/base", "common/spec", "common/obs", "common/rpc",
                 "common/config", "common/tokenizer", "common/model"],
    # Of the model only its identity: the coordinator links no libtorch.
    "coordinator": ["common/base", "common/spec", "common/obs", "common/rpc",
                    "common/config", "common/tokenizer", "common/model"],
    # The command line is a client; it builds n-gram tables as well. Of a model
    # it reads the identity.
    "coordinator/cli": ["common/base", "common/spec", "common/obs",
                        "common/rpc", "common/config", "common/tokenizer",
                        "common/model", "coordinator", "drafter"],
    # The one place that sees all three services.
    "coordinator/local": ["common", "coordinator", "coordinator/cli", "drafter",
                          "verifier"],
}

# Outside include -> the only files that may have it, as path patterns.
OUTSIDE = {
    r"(ATen|torch|c10)/": [r"common/model/"],
    r"grpcpp/|grpc/|.*\.grpc\.pb\.h": [
        r"common/rpc/", r"[a-z]+/[a-z_]*(service|reactor)[a-z_]*\.(h|cc)$",
        r"coordinator/cli/", r"[a-z]+/[a-z_]+_main\.cc$",
        r"coordinator/local/"],
    r"espalier/v1/config\.pb\.h": [
        r"common/config/", r"common/rpc/", r"[a-z]+/[a-z_]+_main\.cc$",
        r"[a-z]+/[a-z_]*(config|builder|server|peers)[a-z_]*\.(h|cc)$",
        r"coordinator/local/"],
    # ThreadSanitizer cannot see it: common/base/mutex.h.
    r"absl/synchronization/": [],
}

INCLUDE = re.compile(r'^\s*#include\s+[<"]([^>"]+)[>"]', re.MULTILINE)


def row_of(path):
    rows = [row for row in ARROWS if path.startswith(row + "/")]
    return max(rows, key=len) if rows else None


def allowed(row, included):
    target = row_of(included)
    if target is None or target == row:
        return True
    return any(included.startswith(folder + "/") and
               (target == folder or folder == "common")
               for folder in ARROWS[row])


def violations(root):
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        row = row_of(name)
        if row is None or path.suffix not in {".h", ".cc", ".cu"}:
            continue
        for included in INCLUDE.findall(path.read_text(encoding="utf-8")):
            if not allowed(row, included):
                yield f"{name} includes {included}: no arrow from {row}"
            for pattern, places in OUTSIDE.items():
                if re.match(pattern, included) and not any(
                        re.match(place, name) for place in places):
                    yield f"{name} includes {included}: only for {places}"


def main():
    found = list(violations(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "all includes follow the arrows")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
