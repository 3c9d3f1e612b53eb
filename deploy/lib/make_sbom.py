#!/usr/bin/env python3
"""Prints the software bill of materials of a build: CycloneDX 1.5 in JSON.

    make_sbom.py VERSION PROGRAM...

Components: what deploy/versions.env pins and the programs contain; header-only
libraries of Debian's packages; and the packages of the shared libraries that the
programs load. Needs ldd and dpkg.
"""

import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

REPO = pathlib.Path(__file__).resolve().parents[2]
# What the programs contain of the downloads: the name in versions.env, package, licence.
COMPILED_IN = [("XGRAMMAR", "xgrammar", "Apache-2.0"),
               ("LLAMA_CPP_PYTHON", "llama-cpp-python", "MIT")]
HEADER_ONLY = ["libboost-dev", "nlohmann-json3-dev"]


def output(*argv: str) -> str:
    return subprocess.run(argv, check=True, text=True, capture_output=True).stdout


def pins() -> dict[str, Any]:
    text = (REPO / "deploy/versions.env").read_text()
    return dict(re.findall(r"^ESPALIER_(\w+)=(\S+)$", text, re.MULTILINE))


def pinned(key: str, name: str, licence: str) -> dict[str, Any]:
    values = pins()
    version = values[f"{key}_VERSION"]
    return {"type": "library", "name": name, "version": version,
            "bom-ref": f"pkg:pypi/{name}@{version}", "purl": f"pkg:pypi/{name}@{version}",
            "hashes": [{"alg": "SHA-256", "content": values[f"{key}_SHA256"]}],
            "licenses": [{"license": {"id": licence}}],
            "properties": [{"name": "espalier:linkage", "value": "compiled in"}]}


def debian(package: str, linkage: str) -> dict[str, Any]:
    name, version, architecture = output(
        "dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture}", package).split()
    distribution = pathlib.Path("/etc/os-release").read_text()
    found = re.search(r"^ID=(\S+)$", distribution, re.MULTILINE)
    assert found
    vendor = found[1]
    purl = f"pkg:deb/{vendor}/{name}@{version}?arch={architecture}"
    return {"type": "library", "name": name, "version": version, "bom-ref": purl, "purl": purl,
            "properties": [{"name": "espalier:linkage", "value": linkage}]}


def packages_of(programs: Iterable[str]) -> list[str]:
    """Packages of the shared libraries that the programs load, sorted."""
    libraries = set()
    for program in programs:
        libraries |= set(re.findall(r"=> (/\S+)", output("ldd", program)))
    found = set()
    for library in libraries:
        # dpkg knows a file by the name it was unpacked under, /lib or /usr/lib.
        path = os.path.realpath(library)
        names = {path, path.removeprefix("/usr"), library}
        owners = subprocess.run(["dpkg-query", "-S", *sorted(names)], text=True,
                                capture_output=True, check=False).stdout
        if not owners:
            sys.exit(f"make_sbom: no package has {library}")
        found.add(owners.splitlines()[0].split(": ")[0])
    return sorted(found)


def main() -> None:
    version, programs = sys.argv[1], sys.argv[2:]
    components = [pinned(*entry) for entry in COMPILED_IN]
    components += [debian(package, "compiled in") for package in HEADER_ONLY]
    components += [debian(package, "shared library") for package in packages_of(programs)]
    when = datetime.datetime.fromtimestamp(
        int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    itself = f"pkg:generic/espalier@{version}"
    print(json.dumps({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {
            "timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "name": "espalier", "version": version,
                          "bom-ref": itself, "purl": itself,
                          "licenses": [{"license": {"id": "Apache-2.0"}}]}},
        "components": components,
        "dependencies": [{"ref": itself,
                          "dependsOn": [component["bom-ref"] for component in components]}],
    }, indent=2))


if __name__ == "__main__":
    main()
