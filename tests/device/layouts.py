"""Folders of models and draft networks as they are published: names, types and shapes of
tensors, shards and their index. The numbers are made up."""

import array
import json
import os
import pathlib
from typing import Any, BinaryIO

from shapes import write_shape

SHARD_BYTES = 5 << 30
# A prime, so that rows of a matrix differ.
BLOCK_NUMBERS = 4194301
SIZES = {"BF16": 2, "I64": 8, "BOOL": 1}


Tensor = tuple[str, list[int]]  # dtype and shape


def layer(prefix: str, config: dict[str, Any], inputs: int, qk_norm: bool) -> dict[str, Any]:
    """Of attention and MLP; `inputs`: columns of queries, keys and values."""
    hidden, ffn = config["hidden_size"], config["intermediate_size"]
    heads = config["num_attention_heads"]
    dim = config.get("head_dim", hidden // heads)
    q, kv = heads * dim, config["num_key_value_heads"] * dim
    shapes = {"input_layernorm": [hidden], "post_attention_layernorm": [hidden],
              "self_attn.q_proj": [q, inputs], "self_attn.k_proj": [kv, inputs],
              "self_attn.v_proj": [kv, inputs], "self_attn.o_proj": [hidden, q],
              "mlp.gate_proj": [ffn, hidden], "mlp.up_proj": [ffn, hidden],
              "mlp.down_proj": [hidden, ffn]}
    if qk_norm:
        shapes |= {"self_attn.q_norm": [dim], "self_attn.k_norm": [dim]}
    return {f"{prefix}{name}.weight": ("BF16", shape) for name, shape in shapes.items()}


def language_model(config: dict[str, Any]) -> dict[str, tuple[str, list[Any]]]:
    """Llama's or Qwen3's, as transformers writes them."""
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    tensors = {"model.embed_tokens.weight": ("BF16", [vocab, hidden]),
               "model.norm.weight": ("BF16", [hidden])}
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = ("BF16", [vocab, hidden])
    qwen3 = config["architectures"][0].startswith("Qwen3")
    for i in range(config["num_hidden_layers"]):
        tensors |= layer(f"model.layers.{i}.", config, hidden, qwen3)
    return tensors


def dflash(config: dict[str, Any]) -> dict[str, tuple[str, list[Any]]]:
    hidden = config["hidden_size"]
    taps = len(config["dflash_config"]["target_layer_ids"])
    tensors = {"fc.weight": ("BF16", [hidden, taps * hidden]),
               "hidden_norm.weight": ("BF16", [hidden]),
               "norm.weight": ("BF16", [hidden])}
    for i in range(config["num_hidden_layers"]):
        tensors |= layer(f"layers.{i}.", config, hidden, qk_norm=True)
    return tensors


def eagle3(config: dict[str, Any]) -> dict[str, Any]:
    """SafeAILab's and SpecForge's names; the embedding is the target's."""
    hidden, drafted = config["hidden_size"], config["draft_vocab_size"]
    return layer("midlayer.", config, 2 * hidden, qk_norm=False) | {
        "midlayer.hidden_norm.weight": ("BF16", [hidden]),
        "fc.weight": ("BF16", [hidden, 3 * hidden]),
        "norm.weight": ("BF16", [hidden]),
        "lm_head.weight": ("BF16", [drafted, hidden]),
        "d2t": ("I64", [drafted]), "t2d": ("BOOL", [config["vocab_size"]])}


LAYOUTS = {"dflash": dflash, "eagle": eagle3, "lm": language_model}


def size(tensor: Tensor) -> int:
    """Bytes."""
    kind, shape = tensor
    count = 1
    for n in shape:
        count *= n
    return SIZES[kind] * count


class Numbers:
    """bf16 numbers of either sign between 1/64 and 1/32, again and again."""

    def __init__(self) -> None:
        drawn = os.urandom(BLOCK_NUMBERS)
        block = bytearray(2 * BLOCK_NUMBERS)
        block[0::2] = drawn.translate(bytes(i | 0x80 for i in range(256)))
        block[1::2] = drawn.translate(bytes(0xBC if i & 0x80 else 0x3C for i in range(256)))
        self.block = memoryview(bytes(block))
        self.place = 0

    def write(self, file: BinaryIO, count: int) -> None:
        while count > 0:
            part = self.block[self.place:self.place + count]
            file.write(part)
            count -= len(part)
            self.place = (self.place + len(part)) % len(self.block)


def write_tensor(file: BinaryIO, name: str, tensor: Tensor, config: dict[str, Any],
                 numbers: Numbers) -> None:
    kind, shape = tensor
    if kind == "BF16" and len(shape) > 1:
        numbers.write(file, size(tensor))
    elif kind == "BF16":
        file.write(b"\x80\x3f" * shape[0])  # a norm's: ones
    else:
        # Every `step`-th token of the target is one of the head.
        step = config["vocab_size"] // config["draft_vocab_size"]
        drafted = range(0, step * config["draft_vocab_size"], step)
        if name == "d2t":
            array.array("q", (token - i for i, token in enumerate(drafted))).tofile(file)
        else:
            is_drafted = bytearray(shape[0])
            is_drafted[drafted.start:drafted.stop:step] = b"\x01" * len(drafted)
            file.write(is_drafted)


def write_safetensors(path: pathlib.Path, tensors: dict[str, Tensor], config: dict[str, Any],
                      numbers: Numbers) -> None:
    header: dict[str, dict[str, Any]] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in tensors.items():
        begin, end = end, end + size(tensor)
        header[name] = {"dtype": tensor[0], "shape": tensor[1], "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, tensor in tensors.items():
            write_tensor(file, name, tensor, config, numbers)


def write_folder(folder: pathlib.Path, config: dict[str, Any], tensors: dict[str, Tensor],
                 numbers: Numbers) -> None:
    """Weights in one file, or in shards with an index."""
    write_shape(folder, config)
    shards: list[dict[str, Tensor]] = [{}]
    full = 0
    for name, tensor in tensors.items():
        if full + size(tensor) > SHARD_BYTES:
            shards.append({})
            full = 0
        shards[-1][name] = tensor
        full += size(tensor)
    if len(shards) == 1:
        write_safetensors(folder / "model.safetensors", tensors, config, numbers)
        return
    index: dict[str, Any] = {"metadata": {"total_size": sum(map(size, tensors.values()))},
                             "weight_map": {}}
    for i, shard in enumerate(shards, 1):
        file = f"model-{i:05}-of-{len(shards):05}.safetensors"
        write_safetensors(folder / file, shard, config, numbers)
        index["weight_map"] |= dict.fromkeys(shard, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
