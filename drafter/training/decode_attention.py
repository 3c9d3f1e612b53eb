"""Attention of one new token per text, each over as many keys as it has.

On a CPU with a compiler decode_attention.cc does it, which reads no padding and
copies nothing; elsewhere one masked product.
"""

import ctypes
import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

import torch
from torch import Tensor

from layers import attend_grouped

_SOURCE = pathlib.Path(__file__).with_suffix(".cc")
_FLAGS = ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC",
          "-std=c++17"]


def decode_attention(q: Tensor, keys: Tensor, values: Tensor, lengths: Tensor
                     ) -> Tensor:
    """q [B, heads, d] over the first lengths[b] rows of keys and values
    [B, kv_heads, T, d]. Returns [B, heads * d]."""
    if q.device.type == "cpu" and keys.dtype == torch.bfloat16 \
            and _library(q.shape[-1]):
        return _compiled(q, keys, values, lengths)
    unseen = torch.arange(keys.shape[2], device=q.device) >= lengths[:, None]
    bias = torch.zeros_like(unseen, dtype=torch.float32).masked_fill(
        unseen, float("-inf"))
    return attend_grouped(q[:, None], keys, values, bias[:, None])[:, 0]


def _compiled(q: Tensor, keys: Tensor, values: Tensor, lengths: Tensor
              ) -> Tensor:
    batch, heads, d = q.shape
    kv_heads, capacity = keys.shape[1:3]
    q, out = q.float().contiguous(), torch.empty(batch, heads * d)
    library = _library(d)
    assert library
    library.DecodeAttention(
        *(ctypes.c_void_p(x.data_ptr()) for x in (q, keys, values, lengths, out)),
        *(ctypes.c_int64(n) for n in (batch, kv_heads, heads // kv_heads,
                                      capacity)))
    return out.to(keys.dtype)


@functools.cache
def _library(head_dim: int) -> ctypes.CDLL | None:
    """Compiled once per machine, source and user; None without a compiler."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if not compiler:
        return None
    cpu = pathlib.Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    flags = next((line for line in cpu.split("\n") if line.startswith("flags")),
                 "")
    key = hashlib.blake2b(_SOURCE.read_bytes() + flags.encode(), digest_size=8)
    folder = pathlib.Path(os.environ.get(
        "XDG_CACHE_HOME", pathlib.Path.home() / ".cache"), "espalier", "training")
    path = folder / f"decode_attention-{head_dim}-{key.hexdigest()}.so"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            built = pathlib.Path(scratch, "built.so")
            subprocess.run([compiler, *_FLAGS, f"-DHEAD_DIM={head_dim}", _SOURCE,
                            "-o", built], check=True)
            built.replace(path)
    return ctypes.CDLL(str(path))
