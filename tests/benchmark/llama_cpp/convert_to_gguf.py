#!/usr/bin/env python3
"""Converts a Llama folder of bfloat16 weights to a GGUF file without a vocabulary.

Usage: convert_to_gguf.py MODEL_FOLDER OUTPUT.gguf

The inverse of deploy/convert_gguf.py, for llama.cpp to run the same weights:
matrices keep their bits, norms become float32 as llama.cpp wants them. Without
a vocabulary, as the comparison speaks in token ids.
"""

import json
import pathlib
import struct
import sys

import gguf
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "deploy"))
import convert_gguf  # noqa: E402  the tensors' names


def read_safetensors(path):
    """Yields (name, bfloat16 bits as uint16)."""
    data = np.memmap(path, dtype=np.uint8, mode="r")
    (header_size,) = struct.unpack("<Q", data[:8].tobytes())
    header = json.loads(data[8 : 8 + header_size].tobytes())
    header.pop("__metadata__", None)
    for name, tensor in header.items():
        if tensor["dtype"] != "BF16":
            sys.exit(f"convert_to_gguf: {name} is {tensor['dtype']}, not BF16")
        begin, end = (8 + header_size + x for x in tensor["data_offsets"])
        yield name, data[begin:end].view("<u2").reshape(tensor["shape"])


def permute(weight, heads):
    """Interleaves each head's rotary halves: 0, d/2, 1, ..."""
    rows, columns = weight.shape
    halves = weight.reshape(heads, 2, rows // heads // 2, columns)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(rows, columns)


def gguf_name(name):
    """model.layers.3.self_attn.q_proj.weight -> blk.3.attn_q.weight"""
    for ours, theirs in convert_gguf.TOP_NAMES.items():
        if name == f"{theirs}.weight":
            return f"{ours}.weight"
    for ours, theirs in convert_gguf.LAYER_NAMES.items():
        if name.startswith("model.layers.") and name.endswith(f".{theirs}.weight"):
            return f"blk.{name.split('.')[2]}.{ours}.weight"
    sys.exit(f"convert_to_gguf: tensor {name!r} is not part of a Llama model")


def add_metadata(writer, config):
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    writer.add_tokenizer_model("none")
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config.get("num_key_value_heads", heads))
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(config.get("rope_theta", 10000.0))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])


def add_tensor(writer, name, bits, config):
    heads = config["num_attention_heads"]
    if bits.ndim == 1:
        writer.add_tensor(name, (bits.astype(np.uint32) << 16).view(np.float32))
        return
    if ".attn_q." in name:
        bits = permute(bits, heads)
    elif ".attn_k." in name:
        bits = permute(bits, config.get("num_key_value_heads", heads))
    writer.add_tensor(
        name, bits.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16
    )


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if config["model_type"] != "llama" or config.get("rope_scaling"):
        sys.exit("convert_to_gguf: only Llama models without rope scaling are known")
    writer = gguf.GGUFWriter(output, "llama")
    add_metadata(writer, config)
    for name, bits in read_safetensors(folder / "model.safetensors"):
        add_tensor(writer, gguf_name(name), bits, config)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
