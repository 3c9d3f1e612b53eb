#!/usr/bin/env python3
"""Guards the dependency arrows of ARCHITECTURE.md.

Each folder may include only what its row allows; each outside library may be
included only where its row allows. Run by ctest; the argument is the repository.
"""

import pathlib
import re
import sys
from collections.abc import Iterator

# Folder, or file without its ending -> project folders and files that it may
# include, besides itself. A file belongs to the longest matching row.
ARROWS = {
    "common/base": [],
    "common/json": ["common/base"],
    "common/speculation": ["common/base"],
    "common/obs": [],
    "common/config": ["common/base", "common/obs"],
    "common/tls": ["common/base", "common/obs"],
    "common/http": ["common/base", "common/obs", "common/tls"],
    "common/tokenizer": ["common/base", "common/json", "common/speculation"],
    "common/chat": ["common/base", "common/chat/jinja", "common/json", "common/speculation",
                    "common/tokenizer"],
    "common/chat/jinja": ["common/base"],
    "common/grammar": ["common/base", "common/json", "common/speculation", "common/tokenizer"],
    "common/nn": ["common/base"],
    "common/cuda": ["common/base"],
    "common/model/cuda": ["common/base", "common/cuda", "common/model",
                          "common/model/files", "common/model/native", "common/nn",
                          "common/speculation"],
    # The interface of a model, and how one is loaded.
    "common/model": ["common/base", "common/model/files", "common/model/logits",
                     "common/nn", "common/speculation"],
    # The factory, which knows every kind.
    "common/model/load": ["common/base", "common/model", "common/model/aten",
                          "common/model/cuda", "common/model/native", "common/nn"],
    # What ends a turn follows from the chat template.
    "common/model/files": ["common/base", "common/chat", "common/json", "common/nn",
                           "common/speculation", "common/tokenizer"],
    "common/model/logits": ["common/base", "common/nn", "common/speculation"],
    "common/model/native": ["common/base", "common/model", "common/model/files",
                            "common/model/logits", "common/nn", "common/speculation"],
    "common/model/aten": ["common/base", "common/model", "common/model/files",
                          "common/model/native", "common/nn", "common/speculation"],
    "common/rpc": ["common/base", "common/http", "common/obs", "common/speculation",
                   "common/tls"],
    # Spans of requests, and what sends them to a collector.
    "common/trace": ["common/base", "common/obs", "common/speculation"],
    "common/otlp": ["common/base", "common/obs", "common/rpc", "common/trace"],
    # What a drafter is, and what all of them share.
    "drafter/engine": ["common/base", "common/obs", "common/speculation"],
    "drafter/trees": ["common/base", "common/speculation", "drafter/engine"],
    "drafter/ngram": ["common/base", "common/obs", "common/speculation", "drafter/engine",
                      "drafter/trees"],
    "drafter/grammar": ["common/base", "common/grammar", "common/model/files",
                        "common/speculation", "drafter/engine"],
    # Draft heads run on the kernels directly.
    "drafter/heads": ["common/base", "common/cuda", "common/json", "common/model",
                      "common/model/cuda", "common/model/files",
                      "common/model/logits", "common/model/native", "common/nn",
                      "common/speculation", "drafter/engine", "drafter/trees"],
    "drafter/eagle": ["common/base", "common/cuda", "common/model/cuda",
                      "common/model/files", "common/model/native", "common/nn",
                      "drafter/engine", "drafter/heads"],
    "drafter/dflash": ["common/base", "common/cuda", "common/json", "common/model",
                       "common/model/cuda", "common/model/files",
                       "common/model/native", "common/nn", "common/speculation",
                       "drafter/engine", "drafter/heads", "drafter/trees"],
    "drafter/lm": ["common/base", "common/model/files", "common/model/native",
                   "drafter/engine", "drafter/heads"],
    # The registered types, and the service.
    "drafter": ["common/base", "common/config", "common/model/files", "common/obs",
                "common/otlp", "common/rpc", "common/speculation", "common/trace",
                "drafter/dflash", "drafter/eagle", "drafter/engine", "drafter/lm"],
    # What a rule is, and where its chance comes from: below all rules.
    "verifier/rules/verification_rule": ["common/speculation"],
    "verifier/rules/token_samplers": ["common/speculation",
                                      "verifier/rules/verification_rule"],
    "verifier/flow": ["common/base", "common/model/logits", "common/speculation",
                      "verifier/rules/token_samplers",
                      "verifier/rules/verification_rule"],
    "verifier/rules": ["common/base", "verifier/flow",
                       "verifier/rules/verification_rule"],
    "verifier/distributions": ["common/base", "common/grammar", "common/model",
                               "common/model/logits", "common/speculation", "verifier/flow",
                               "verifier/rules/verification_rule"],
    "verifier/costs": ["common/base", "common/model", "common/speculation"],
    "verifier/engine": ["common/base", "common/grammar", "common/model", "common/obs",
                        "common/speculation", "verifier/costs", "verifier/distributions",
                        "verifier/flow", "verifier/rules",
                        "verifier/rules/token_samplers",
                        "verifier/rules/verification_rule"],
    "verifier": ["common/base", "common/config", "common/grammar",
                 "common/model/cuda", "common/model/files", "common/model/load",
                 "common/obs", "common/otlp", "common/rpc",
                 "common/trace", "verifier/costs", "verifier/engine",
                 "verifier/rules"],
    # A verifier and drafters in one process.
    "verifier/node": ["common/base", "common/config", "common/model",
                      "common/model/cuda", "common/obs", "common/otlp", "common/rpc",
                      "common/speculation", "common/trace", "drafter", "verifier",
                      "verifier/engine"],
    "coordinator/merge": ["common/base", "common/speculation"],
    "coordinator/control": ["common/speculation", "coordinator/merge"],
    "coordinator/session": ["common/base", "common/speculation", "coordinator/merge"],
    "coordinator/tenants": ["common/base", "common/obs", "common/speculation"],
    "coordinator/metrics": ["common/base", "common/obs", "coordinator/session"],
    "coordinator/peers": ["common/base", "common/speculation", "coordinator/control",
                          "coordinator/merge", "coordinator/metrics",
                          "coordinator/session"],
    "coordinator/rounds": ["common/base", "common/obs", "common/speculation",
                           "common/trace", "coordinator/control", "coordinator/merge",
                           "coordinator/metrics", "coordinator/peers",
                           "coordinator/session", "coordinator/tenants"],
    "coordinator/api": ["common/base", "common/chat", "common/json", "common/obs", "common/rpc",
                        "common/speculation",
                        "common/tokenizer", "coordinator/metrics",
                        "coordinator/rounds",
                        "coordinator/session"],
    # The API over HTTP, in terms of the API of our own.
    "coordinator/http": ["common/base", "common/http", "common/json", "common/obs",
                         "common/rpc", "common/speculation", "coordinator/api"],
    # A peer with several replicas as one endpoint.
    "coordinator/pool": ["common/base", "common/rpc", "common/speculation"],
    # It knows a model's identity only: the coordinator links no libtorch.
    "coordinator": ["common/base", "common/chat", "common/config", "common/http",
                    "common/model/files", "common/obs", "common/rpc", "common/speculation",
                    "coordinator/api", "coordinator/http", "coordinator/merge",
                    "coordinator/pool", "coordinator/rounds", "coordinator/tenants"],
    # What its program puts together: also drafters in its process.
    "coordinator/in_process_peers": ["common/base", "common/trace",
                                     "coordinator/rounds", "drafter"],
    "coordinator/coordinator_main": ["common/base", "common/config",
                                     "common/model/files", "common/obs", "common/otlp",
                                     "common/rpc",
                                     "coordinator", "coordinator/in_process_peers"],
    # The command line is a client; it builds n-gram tables as well. It reads the
    # identity of a model.
    "coordinator/cli": ["common/base", "common/config", "common/http", "common/json", "common/rpc"],
    "coordinator/cli/flags": ["common/base", "common/config", "coordinator/cli"],
    "coordinator/cli/bench": ["common/base", "common/config", "common/json",
                              "coordinator/cli", "coordinator/cli/flags"],
    "coordinator/cli/cluster": ["common/base", "common/config", "common/model/files",
                                "common/rpc", "common/speculation", "coordinator/cli",
                                "coordinator/cli/flags"],
    "coordinator/cli/text": ["common/base", "common/config", "common/json", "common/model/files",
                             "common/tokenizer",
                             "coordinator/cli", "coordinator/cli/flags",
                             "drafter/ngram"],
    # Experiments, beside the serving path.
    "lab": ["common/base", "common/config", "common/json", "common/speculation",
            "coordinator/cli", "coordinator/merge", "drafter/dflash",
            "verifier/distributions", "verifier/flow", "verifier/rules",
            "verifier/rules/verification_rule"],
    # The one place that sees all three services.
    "coordinator/local": ["common", "coordinator", "coordinator/api",
                          "coordinator/cli", "lab",
                          "verifier", "verifier/node"],
}

# Outside include -> the only files that may have it, as path patterns.
OUTSIDE = {
    r"(ATen|torch|c10)/": [r"common/model/aten/"],
    r"xgrammar/": [r"common/grammar/xgrammar_backend\.cc$"],
    r"grpcpp/|grpc/|.*\.grpc\.pb\.h": [
        r"common/rpc/", r"common/otlp/", r"[a-z/]+/[a-z_]*(service|reactor)[a-z_]*\.(h|cc)$",
        r"coordinator/cli/", r"[a-z/]+/[a-z_]+_main\.cc$",
        r"coordinator/local/"],
    r"boost/": [
        r"common/http/(connection\.(h|cc)|(client|server)\.cc|stream\.h|tls_contexts\.(h|cc))$"],
    r"unicode/": [r"common/chat/jinja/characters\.cc$"],
    r"espalier/v1/config\.pb\.h": [
        r"common/config/", r"common/otlp/", r"common/rpc/", r"[a-z/]+/[a-z_]+_main\.cc$",
        r"[a-z/]+/[a-z_]*(config|builder|server|peers|engines)[a-z_]*\.(h|cc)$",
        r"coordinator/local/"],
    # Kernels are compiled by nvcc too, and alone.
    r"cuda_runtime\.h": [r"common/cuda/launch/launcher\.h$",
                         r"common/cuda/cuda_device\.cc$"],
    # ThreadSanitizer cannot see it: common/base/mutex.h.
    r"absl/synchronization/": [],
}

INCLUDE = re.compile(r'^\s*#include\s+[<"]([^>"]+)[>"]', re.MULTILINE)


def row_of(path: str) -> str | None:
    rows = [row for row in ARROWS
            if path.startswith(row + "/") or path.rsplit(".", 1)[0] == row]
    return max(rows, key=len) if rows else None


# Rows that may be reached by naming the folder above them.
WHOLE = {"common"}


def allowed(row: str, included: str) -> bool:
    target = row_of(included)
    if target is None or target == row:
        return True
    if target in ARROWS[row]:
        return True
    # A part that a folder is made of reaches its other parts by name only.
    return any(target.startswith(folder + "/") and row not in ARROWS.get(folder, [])
               for folder in WHOLE.intersection(ARROWS[row]))


def violations(root: pathlib.Path) -> Iterator[str]:
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


def unused(root: pathlib.Path) -> Iterator[str]:
    """Arrows of the table that no include follows."""
    used: dict[str, set[str]] = {row: set() for row in ARROWS}
    for path in root.rglob("*"):
        row = row_of(path.relative_to(root).as_posix())
        if row is not None and path.suffix in {".h", ".cc", ".cu"}:
            used[row].update(filter(None, map(
                row_of, INCLUDE.findall(path.read_text(encoding="utf-8")))))
    for row, names in ARROWS.items():
        for name in names:
            if not any(other == name or other.startswith(name + "/") for other in used[row]):
                yield f"{row} does not include {name}: remove the arrow"


def circles() -> Iterator[str]:
    """Rows that reach themselves."""
    below = {row: {other for other in ARROWS if other != row and (
        other in names or any(other.startswith(name + "/") for name in WHOLE & set(names)))}
             for row, names in ARROWS.items()}
    for row in ARROWS:
        found, waiting = set(), list(below[row])
        while waiting:
            other = waiting.pop()
            if other not in found:
                found.add(other)
                waiting += below[other]
        if row in found:
            yield f"{row} reaches itself"


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    found = [*violations(root), *unused(root), *circles()]
    print("\n".join(found) or "all includes follow the arrows")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
