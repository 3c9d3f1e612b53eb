#!/usr/bin/env python3
"""Guards the dependency arrows of ARCHITECTURE.md.

Each folder may include only what its row allows; each outside library may be
included only where its row allows. Run by ctest; the argument is the repository.
"""

import pathlib
import re
import sys

# Folder, or file without its ending -> project folders and files that it may
# include, besides itself. A file belongs to the longest matching row.
ARROWS = {
    "common/base": [],
    "common/json": ["common/base"],
    "common/spec": ["common/base"],
    "common/obs": ["common/base"],
    "common/config": ["common/base"],
    "common/http": ["common/base", "common/obs"],
    "common/tokenizer": ["common/base", "common/json", "common/spec"],
    "common/chat": ["common/base", "common/chat/jinja", "common/json",
                    "common/spec", "common/tokenizer"],
    "common/chat/jinja": ["common/base"],
    "common/grammar": ["common/base", "common/json", "common/spec",
                       "common/tokenizer"],
    "common/nn": ["common/base"],
    "common/cuda": ["common/base"],
    "common/model/cuda": ["common/base", "common/cuda", "common/model",
                          "common/model/files", "common/model/logits",
                          "common/model/native", "common/nn", "common/spec"],
    # The interface of a model, and LoadModel, which knows every kind.
    "common/model": ["common/base", "common/cuda", "common/nn", "common/spec",
                     "common/tokenizer", "common/model/aten",
                     "common/model/cuda",
                     "common/model/files", "common/model/logits",
                     "common/model/native"],
    # What ends a turn follows from the chat template.
    "common/model/files": ["common/base", "common/chat", "common/json", "common/nn",
                           "common/spec", "common/tokenizer"],
    "common/model/logits": ["common/base", "common/nn", "common/spec",
                            "common/model"],
    "common/model/native": ["common/base", "common/nn", "common/spec",
                            "common/model", "common/model/files",
                            "common/model/logits"],
    "common/model/aten": ["common/base", "common/nn", "common/spec", "common/model",
                          "common/model/files", "common/model/logits",
                          "common/model/native"],
    "common/rpc": ["common/base", "common/spec", "common/http",
                   "common/obs", "common/config"],
    # Draft heads run on the kernels directly.
    "drafter": ["common/base", "common/cuda", "common/spec", "common/obs", "common/rpc",
                "common/config", "common/json", "common/tokenizer",
                "common/model", "common/nn", "common/grammar"],
    # What a rule is, and where its chance comes from: below all rules.
    "verifier/verification_rule": ["common/base", "common/spec"],
    "verifier/token_samplers": ["common/base", "common/spec",
                          "verifier/verification_rule"],
    "verifier/flow": ["common/base", "common/spec", "common/model",
                      "verifier/verification_rule", "verifier/token_samplers"],
    "verifier/lab": ["common/base", "common/spec", "verifier",
                     "verifier/verification_rule", "verifier/token_samplers",
                     "verifier/flow"],
    "verifier": ["common/base", "common/spec", "common/obs", "common/rpc",
                 "common/config", "common/tokenizer", "common/model",
                 "common/grammar", "verifier/verification_rule", "verifier/token_samplers",
                 "verifier/flow"],
    # A verifier and drafters in one process.
    "verifier/node": ["common/base", "common/obs", "common/rpc",
                      "common/config", "common/model", "common/model/cuda",
                      "drafter", "verifier"],
    # It knows a model's identity only: the coordinator links no libtorch.
    "coordinator": ["common/base", "common/chat", "common/spec", "common/obs",
                    "common/http", "common/rpc", "common/config",
                    "common/tokenizer", "common/model",
                    "coordinator/api", "coordinator/control",
                    "coordinator/http",
                    "coordinator/merge", "coordinator/peers",
                    "coordinator/session"],
    # What its program puts together: also drafters in its process.
    "coordinator/in_process_peers": ["common/base", "coordinator", "drafter"],
    "coordinator/coordinator_main": ["common/base", "common/config", "common/model",
                                     "common/obs", "common/rpc", "common/spec",
                                     "coordinator", "coordinator/in_process_peers"],
    "coordinator/merge": ["common/base", "common/spec"],
    "coordinator/control": ["common/base", "common/spec", "coordinator/merge"],
    "coordinator/session": ["common/base", "common/spec", "common/obs",
                            "coordinator/merge"],
    "coordinator/peers": ["common/base", "common/spec", "common/obs",
                          "coordinator", "coordinator/control",
                          "coordinator/merge", "coordinator/session"],
    "coordinator/api": ["common/base", "common/chat", "common/spec",
                        "common/obs", "common/rpc", "common/config", "common/tokenizer",
                        "common/model", "coordinator", "coordinator/session"],
    # The API over HTTP, in terms of the API of our own.
    "coordinator/http": ["common/base", "common/chat", "common/http",
                         "common/obs", "common/rpc", "common/spec",
                         "common/tokenizer", "coordinator", "coordinator/api"],
    # The command line is a client; it builds n-gram tables as well. It reads the identity of a
    # model.
    "coordinator/cli": ["common/base", "common/json", "common/spec",
                        "common/obs", "common/rpc", "common/config", "common/tokenizer",
                        "common/model", "coordinator", "drafter"],
    # The one place that sees all three services.
    "coordinator/local": ["common", "coordinator", "coordinator/cli", "drafter",
                          "verifier", "verifier/flow", "verifier/lab",
                          "verifier/node"],
}

# Outside include -> the only files that may have it, as path patterns.
OUTSIDE = {
    r"(ATen|torch|c10)/": [r"common/model/aten/"],
    r"xgrammar/": [r"common/grammar/xgrammar_backend\.cc$"],
    r"grpcpp/|grpc/|.*\.grpc\.pb\.h": [
        r"common/rpc/", r"[a-z/]+/[a-z_]*(service|reactor)[a-z_]*\.(h|cc)$",
        r"coordinator/cli/", r"[a-z/]+/[a-z_]+_main\.cc$",
        r"coordinator/local/"],
    r"boost/": [r"common/http/(connection\.(h|cc)|server\.cc)$"],
    r"unicode/": [r"common/chat/jinja/characters\.cc$"],
    r"espalier/v1/config\.pb\.h": [
        r"common/config/", r"common/rpc/", r"[a-z/]+/[a-z_]+_main\.cc$",
        r"[a-z/]+/[a-z_]*(config|builder|server|peers|engines)[a-z_]*\.(h|cc)$",
        r"coordinator/local/"],
    # Kernels are compiled by nvcc too, and alone.
    r"cuda_runtime\.h": [r"common/cuda/launch/launcher\.h$",
                         r"common/cuda/cuda_device\.cc$"],
    # ThreadSanitizer cannot see it: common/base/mutex.h.
    r"absl/synchronization/": [],
}

INCLUDE = re.compile(r'^\s*#include\s+[<"]([^>"]+)[>"]', re.MULTILINE)


def row_of(path):
    rows = [row for row in ARROWS
            if path.startswith(row + "/") or path.rsplit(".", 1)[0] == row]
    return max(rows, key=len) if rows else None


# Rows that may be reached by naming the folder above them.
WHOLE = {"common", "common/model", "coordinator"}


def allowed(row, included):
    target = row_of(included)
    if target is None or target == row:
        return True
    if target in ARROWS[row]:
        return True
    # A part that a folder is made of reaches its other parts by name only.
    return any(target.startswith(folder + "/") and row not in ARROWS.get(folder, [])
               for folder in WHOLE.intersection(ARROWS[row]))


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
