#!/usr/bin/env python3
"""Writes a GGUF file of a model's size that takes no space on the disk.

    sparse_gguf.py SHAPE_FOLDER FILE [Q4_K|Q5_K|Q6_K]

Header and tensor directory follow SHAPE_FOLDER/config.json (Llama or Qwen3);
matrices are Q4_K unless told, the output rows Q6_K, as llama.cpp writes them.
The data are a hole: zeros. The file has no tokenizer, so it serves to measure loading and
passes: `espalier bench forward --model FILE`.
"""

import json
import pathlib
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import Any

ALIGNMENT = 32
UINT32, FLOAT32, STRING = 4, 6, 8  # types of metadata
# Number, unit, bytes of a unit.
F32, Q4_K, Q5_K, Q6_K = (0, 1, 4), (12, 256, 144), (13, 256, 176), (14, 256, 210)
MATRICES = {"Q4_K": Q4_K, "Q5_K": Q5_K, "Q6_K": Q6_K}


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def metadata(config: dict[str, Any], architecture: str) -> list[Any]:
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim", config["hidden_size"] // heads)
    sizes = {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": heads,
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": head_dim,
        "attention.value_length": head_dim,
    }
    floats = {
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "rope.freq_base": config["rope_theta"],
    }
    pairs = [text("general.architecture") + struct.pack("<I", STRING)
             + text(architecture)]
    for key, value in sizes.items():
        pairs.append(text(f"{architecture}.{key}")
                     + struct.pack("<II", UINT32, value))
    for key, value in floats.items():
        pairs.append(text(f"{architecture}.{key}")
                     + struct.pack("<If", FLOAT32, value))
    return pairs


def tensors(config: dict[str, Any], architecture: str,
            matrix: tuple[int, int, int]) -> Iterator[tuple[str, tuple[int, int, int], list[Any]]]:
    """Yields name, type and dimensions, the one of a row's elements first."""
    hidden, ffn = config["hidden_size"], config["intermediate_size"]
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim", hidden // heads)
    q_size, kv_size = heads * head_dim, config["num_key_value_heads"] * head_dim
    yield "token_embd.weight", matrix, [hidden, config["vocab_size"]]
    for layer in range(config["num_hidden_layers"]):
        block = f"blk.{layer}."
        yield block + "attn_norm.weight", F32, [hidden]
        yield block + "attn_q.weight", matrix, [hidden, q_size]
        yield block + "attn_k.weight", matrix, [hidden, kv_size]
        yield block + "attn_v.weight", matrix, [hidden, kv_size]
        yield block + "attn_output.weight", matrix, [q_size, hidden]
        if architecture == "qwen3":
            yield block + "attn_q_norm.weight", F32, [head_dim]
            yield block + "attn_k_norm.weight", F32, [head_dim]
        yield block + "ffn_norm.weight", F32, [hidden]
        yield block + "ffn_gate.weight", matrix, [hidden, ffn]
        yield block + "ffn_up.weight", matrix, [hidden, ffn]
        yield block + "ffn_down.weight", matrix, [ffn, hidden]
    yield "output_norm.weight", F32, [hidden]
    if not config.get("tie_word_embeddings", False):
        yield "output.weight", Q6_K, [hidden, config["vocab_size"]]


def size_of(kind: tuple[int, int, int], dims: Sequence[int]) -> int:
    _, unit, unit_bytes = kind
    if dims[0] % unit != 0:
        raise ValueError(f"{dims[0]} inputs are no whole blocks of {unit}")
    count = dims[0] // unit * unit_bytes
    for dim in dims[1:]:
        count *= dim
    return count


def aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def write(config: dict[str, Any], path: pathlib.Path, matrix: tuple[int, int, int] = Q4_K) -> int:
    """Returns the bytes that the file claims to have."""
    architectures = {"LlamaForCausalLM": "llama", "Qwen3ForCausalLM": "qwen3"}
    architecture = architectures[config["architectures"][0]]
    pairs = metadata(config, architecture)
    entries, offset = [], 0
    for name, kind, dims in tensors(config, architecture, matrix):
        entries.append(text(name)
                       + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims,
                                     kind[0], offset))
        offset = aligned(offset + size_of(kind, dims))
    head = (b"GGUF" + struct.pack("<IQQ", 3, len(entries), len(pairs))
            + b"".join(pairs) + b"".join(entries))
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(aligned(len(head)) + offset)
        return file.seek(0, 2)


def main() -> None:
    if len(sys.argv) not in (3, 4) or sys.argv[3:] and sys.argv[3] not in MATRICES:
        sys.exit(__doc__)
    shape, path = map(pathlib.Path, sys.argv[1:3])
    matrix = MATRICES[sys.argv[3]] if sys.argv[3:] else Q4_K
    size = write(json.loads((shape / "config.json").read_text()), path, matrix)
    print(f"{path}: {size / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
