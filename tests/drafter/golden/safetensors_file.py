"""Writes .safetensors files, with numpy alone.

A file is 8 bytes of header length, a JSON header, and the tensors' bytes.
"""

import json
import pathlib

import numpy as np


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """The bits, as uint16: rounded to nearest, ties to even."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """What a reader of the file sees, as float64."""
    if dtype == "F16":
        return values.astype(np.float16).astype(np.float64)
    return from_bfloat16(to_bfloat16(values))


def _encode(array: np.ndarray, dtype: str) -> tuple[str, np.ndarray]:
    if array.dtype == np.int64:
        return "I64", array
    if array.dtype == np.bool_:
        return "BOOL", array.astype(np.uint8)
    if dtype == "F16":
        return "F16", array.astype(np.float16)
    return "BF16", to_bfloat16(array)


def write_safetensors(path: pathlib.Path, tensors: dict[str, np.ndarray],
                      dtype: str = "BF16") -> None:
    """Floating tensors are stored as `dtype` (BF16 or F16), others as are."""
    header, chunks, offset = {}, [], 0
    for name, array in tensors.items():
        kind, stored = _encode(array, dtype)
        data = stored.tobytes()
        header[name] = {"dtype": kind, "shape": list(array.shape),
                        "data_offsets": [offset, offset + len(data)]}
        chunks.append(data)
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(chunks))
