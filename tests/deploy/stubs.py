"""The Python stubs of proto/, made by protoc into a folder of their own."""

import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tempfile

REPO = pathlib.Path(__file__).resolve().parents[2]
PLUGIN = shutil.which("grpc_python_plugin")
EXAMPLE = REPO / "deploy/examples/python_drafter"


def missing() -> str:
    """Why the stubs cannot be made; empty: nothing is missing."""
    if not importlib.util.find_spec("grpc"):
        return "python3-grpcio is not installed"
    if not PLUGIN or not shutil.which("protoc"):
        return "protoc or grpc_python_plugin is not installed"
    return ""


def make() -> str:
    """Makes the stubs importable here; returns their folder, for other processes."""
    folder = tempfile.mkdtemp(prefix="espalier-stubs-")
    protos = [f"espalier/v1/{name}.proto" for name in ("types", "drafter", "verifier", "inference")]
    subprocess.run(["protoc", f"-I{REPO}/proto", f"--python_out={folder}",
                    f"--grpc_out={folder}", f"--plugin=protoc-gen-grpc={PLUGIN}", *protos],
                   check=True)
    sys.path[:0] = [folder, str(EXAMPLE)]
    return folder
