#!/usr/bin/env python3
"""Converts a Llama model from GGUF to a Hugging Face style folder.

Usage: convert_gguf.py MODEL.gguf OUTPUT_FOLDER

Writes config.json, generation_config.json, tokenizer.json,
tokenizer_config.json and model.safetensors (bfloat16). The same input gives
the same bytes. Where Python has no package gguf, it runs in the Python
environment that deploy/setup.sh has made, and installs the package there.
"""

import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import types
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent


def packages() -> list[str]:
    """What this program imports, as set-up pins it."""
    text = (HERE / "versions.env").read_text(encoding="utf-8")
    found = re.search(r'^ESPALIER_PYTHON_PACKAGES="(.*)"$', text, re.M)
    assert found
    return found[1].split()


def run_in_venv() -> None:
    """Starts this program again in the environment of deploy/lib/paths.sh."""
    cache = (os.environ.get("ESPALIER_CACHE") or pathlib.Path(
        os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "espalier")
    venv = pathlib.Path(cache) / "venv"
    python = venv / "bin/python"
    if not python.exists():
        sys.exit("convert_gguf: Python has no package gguf, and there is no "
                 f"{python}. Run deploy/setup.sh, or:\n"
                 f"  {sys.executable} -m pip install {' '.join(packages())}")
    if pathlib.Path(sys.prefix).resolve() == venv.resolve():
        print("convert_gguf: installing", *packages(), file=sys.stderr)
        install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps",
                   "--disable-pip-version-check", *packages()]
        if subprocess.run(install, check=False).returncode != 0:
            sys.exit("convert_gguf: this has to work first:\n  "
                     + " ".join(map(str, install)))
    os.execv(python, [str(python), __file__, *sys.argv[1:]])


try:
    import gguf
    import numpy as np
except ModuleNotFoundError:
    run_in_venv()

CONTROL_TOKEN = 3  # GGUF's token type for special tokens
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TOP_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}


class Metadata:
    """The key-value part of a GGUF file."""

    def __init__(self, reader: Any) -> None:
        self._fields = reader.fields

    def __contains__(self, key: str) -> bool:
        return key in self._fields

    def __getitem__(self, key: str) -> Any:
        if key not in self._fields:
            sys.exit(f"convert_gguf: the file has no field {key!r}")
        return self._fields[key].contents()


def hugging_face_name(name: str) -> str:
    """blk.3.attn_q.weight -> model.layers.3.self_attn.q_proj.weight"""
    parts = name.split(".")
    if parts[-1] == "weight":
        if parts[0] == "blk" and len(parts) == 4 and parts[2] in LAYER_NAMES:
            return f"model.layers.{parts[1]}.{LAYER_NAMES[parts[2]]}.weight"
        if len(parts) == 2 and parts[0] in TOP_NAMES:
            return f"{TOP_NAMES[parts[0]]}.weight"
    sys.exit(f"convert_gguf: tensor {name!r} is not part of a Llama model")


def unpermute(weight: np.ndarray, heads: int) -> np.ndarray:
    """Undoes llama.cpp's interleaving of each head's rotary halves.

    weight: [heads * head_dim, columns], rows of a head ordered 0, d/2, 1, ...
    """
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 -> the upper 16 bits, rounded to nearest even (finite input)."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    round_up = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return ((bits + round_up) >> np.uint32(16)).astype("<u2")


def load_weights(reader: Any, heads: int, kv_heads: int) -> dict[str, Any]:
    """Returns {Hugging Face name: bfloat16 bits as uint16}, sorted by name."""
    weights = {}
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if ".attn_q." in tensor.name:
            values = unpermute(values, heads)
        elif ".attn_k." in tensor.name:
            values = unpermute(values, kv_heads)
        if not np.isfinite(values).all():
            sys.exit(f"convert_gguf: tensor {tensor.name!r} is not finite")
        weights[hugging_face_name(tensor.name)] = to_bfloat16(values)
    return dict(sorted(weights.items()))


def write_safetensors(path: pathlib.Path, weights: dict[str, np.ndarray], source: str) -> None:
    # By hand: numpy has no bfloat16.
    header: dict[str, dict[str, Any]] = {"__metadata__": {"format": "pt", "source": source}}
    offset = 0
    for name, bits in weights.items():
        header[name] = {
            "dtype": "BF16",
            "shape": list(bits.shape),
            "data_offsets": [offset, offset + bits.nbytes],
        }
        offset += bits.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data start at a multiple of 8
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for bits in weights.values():
            file.write(bits.tobytes())


def model_config(meta: Metadata, tied: bool) -> dict[str, Any]:
    hidden = int(meta["llama.embedding_length"])
    heads = int(meta["llama.attention.head_count"])
    # Stored as float32: 1e-05 reads back as 9.99999975e-06.
    epsilon = float(f"{meta['llama.attention.layer_norm_rms_epsilon']:.6g}")
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": int(meta["tokenizer.ggml.bos_token_id"]),
        "eos_token_id": int(meta["tokenizer.ggml.eos_token_id"]),
        "head_dim": hidden // heads,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "initializer_range": 0.02,
        "intermediate_size": int(meta["llama.feed_forward_length"]),
        "max_position_embeddings": int(meta["llama.context_length"]),
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": heads,
        "num_hidden_layers": int(meta["llama.block_count"]),
        "num_key_value_heads": int(meta["llama.attention.head_count_kv"]),
        "pad_token_id": int(meta["tokenizer.ggml.padding_token_id"]),
        "rms_norm_eps": epsilon,
        "rope_scaling": None,
        "rope_theta": float(meta["llama.rope.freq_base"]),
        "tie_word_embeddings": tied,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "vocab_size": int(meta["llama.vocab_size"]),
    }


def generation_config(meta: Metadata) -> dict[str, Any]:
    return {
        "bos_token_id": int(meta["tokenizer.ggml.bos_token_id"]),
        "eos_token_id": int(meta["tokenizer.ggml.eos_token_id"]),
        "pad_token_id": int(meta["tokenizer.ggml.padding_token_id"]),
    }


def tokenizer(meta: Metadata) -> dict[str, Any]:
    """tokenizer.json: digits one by one, then the GPT-2 pattern, byte-level BPE."""
    if meta["tokenizer.ggml.model"] != "gpt2" or meta["tokenizer.ggml.pre"] != "smollm":
        sys.exit("convert_gguf: only SmolLM's byte-level BPE tokenizer is known")
    tokens = meta["tokenizer.ggml.tokens"]
    types = meta["tokenizer.ggml.token_type"]
    special = [i for i, kind in enumerate(types) if kind == CONTROL_TOKEN]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": i,
                "content": tokens[i],
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for i in special
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                byte_level(add_prefix_space=False),
            ],
        },
        "post_processor": None,
        "decoder": byte_level(add_prefix_space=True),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": meta["tokenizer.ggml.merges"],
        },
    }


def byte_level(add_prefix_space: bool) -> dict[str, Any]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": add_prefix_space,
        "trim_offsets": True,
        "use_regex": True,
    }


def tokenizer_config(meta: Metadata) -> dict[str, Any]:
    tokens = meta["tokenizer.ggml.tokens"]
    config = {
        "add_prefix_space": False,
        "bos_token": tokens[meta["tokenizer.ggml.bos_token_id"]],
        "clean_up_tokenization_spaces": False,
        "eos_token": tokens[meta["tokenizer.ggml.eos_token_id"]],
        "model_max_length": int(meta["llama.context_length"]),
        "pad_token": tokens[meta["tokenizer.ggml.padding_token_id"]],
        # Not GPT2Tokenizer: newer transformers would rebuild the
        # pre-tokenizer and lose the digit split.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": tokens[meta["tokenizer.ggml.unknown_token_id"]],
    }
    if "tokenizer.chat_template" in meta:
        config["chat_template"] = meta["tokenizer.chat_template"]
    return config


def write_json(path: pathlib.Path, value: object) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    if not source.is_file():
        sys.exit(f"convert_gguf: there is no file {source}")
    folder.mkdir(parents=True, exist_ok=True)
    reader = gguf.GGUFReader(source)
    meta = Metadata(reader)
    if meta["general.architecture"] != "llama":
        sys.exit("convert_gguf: only the Llama architecture is known")
    weights = load_weights(
        reader,
        int(meta["llama.attention.head_count"]),
        int(meta["llama.attention.head_count_kv"]),
    )
    tied = "lm_head.weight" not in weights
    write_json(folder / "config.json", model_config(meta, tied))
    write_json(folder / "generation_config.json", generation_config(meta))
    write_json(folder / "tokenizer.json", tokenizer(meta))
    write_json(folder / "tokenizer_config.json", tokenizer_config(meta))
    write_safetensors(
        folder / "model.safetensors", weights, f"{source.name}, dequantized"
    )
    parameters = sum(bits.size for bits in weights.values())
    print(f"{len(weights)} tensors, {parameters:,} parameters")


if __name__ == "__main__":
    main()
