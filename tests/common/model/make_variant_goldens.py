#!/usr/bin/env python3
"""Writes goldens/tiny-variants: one random float16 checkpoint in two shards, and
the logits that architectures and rotary scalings make of it.

  pip install numpy && python3 make_variant_goldens.py

The model is written out here in float64 from its definition; the rotary
frequencies follow transformers 5.24 (modeling_rope_utils.py).
"""
import json
import math
import pathlib
import struct
from typing import Any

import numpy as np

FOLDER = pathlib.Path(__file__).with_name("goldens") / "tiny-variants"
LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FFN, VOCAB = 4, 16, 2, 1, 16, 24, 32
BASE = {
    "architectures": ["LlamaForCausalLM"], "num_hidden_layers": LAYERS,
    "hidden_size": HIDDEN, "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM,
    "intermediate_size": FFN, "vocab_size": VOCAB,
    "max_position_embeddings": 64, "hidden_act": "silu", "rms_norm_eps": 1e-5,
    "rope_theta": 1000.0, "tie_word_embeddings": False, "eos_token_id": 1,
}
YARN = {"rope_type": "yarn", "factor": 4.0,
        "original_max_position_embeddings": 16}
VARIANTS: dict[str, dict[str, Any]] = {
    "llama": {},
    "tied": {"tie_word_embeddings": True},
    "linear": {"rope_scaling": {"type": "linear", "factor": 4.0}},
    "dynamic": {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
    "llama3": {"rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 32}},
    "yarn": {"rope_scaling": YARN},
    "yarn_untruncated": {"rope_parameters": {
        **YARN, "truncate": False, "beta_fast": 8.0, "beta_slow": 2.0,
        "rope_theta": 500.0}},
    "yarn_mscale": {"rope_scaling": {
        **YARN, "mscale": 0.7, "mscale_all_dim": 0.3}},
    "yarn_factor": {"rope_scaling": {**YARN, "attention_factor": 1.25}},
    "mistral": {"architectures": ["MistralForCausalLM"],
                "sliding_window": None},
    "mistral_wide_window": {"architectures": ["MistralForCausalLM"],
                            "sliding_window": 64},
    "smollm3": {"architectures": ["SmolLM3ForCausalLM"],
                "use_sliding_window": False},
    "smollm3_list": {"architectures": ["SmolLM3ForCausalLM"],
                     "no_rope_layers": [0, 1, 1, 0], "rope_scaling": YARN},
}


def make_weights() -> dict[str, Any]:
    draw = np.random.default_rng(5)

    def matrix(rows: int, columns: int, gain: float = 1.5) -> np.ndarray:
        values = draw.normal(0, gain * columns ** -0.5, (rows, columns))
        return values.astype(np.float16)

    weights = {"model.embed_tokens.weight": matrix(VOCAB, HIDDEN, 3.0),
               "lm_head.weight": matrix(VOCAB, HIDDEN, 3.0),
               "model.norm.weight": draw.uniform(
                   0.5, 2, HIDDEN).astype(np.float16)}
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        attention = layer + "self_attn."
        for name, size in (("input_layernorm", HIDDEN),
                           ("post_attention_layernorm", HIDDEN)):
            weights[f"{layer}{name}.weight"] = draw.uniform(
                0.5, 2, size).astype(np.float16)
        weights[attention + "q_proj.weight"] = matrix(HEADS * HEAD_DIM, HIDDEN)
        weights[attention + "k_proj.weight"] = matrix(KV_HEADS * HEAD_DIM, HIDDEN)
        weights[attention + "v_proj.weight"] = matrix(KV_HEADS * HEAD_DIM, HIDDEN)
        weights[attention + "o_proj.weight"] = matrix(HIDDEN, HEADS * HEAD_DIM)
        weights[layer + "mlp.gate_proj.weight"] = matrix(FFN, HIDDEN)
        weights[layer + "mlp.up_proj.weight"] = matrix(FFN, HIDDEN)
        weights[layer + "mlp.down_proj.weight"] = matrix(HIDDEN, FFN)
    return weights


def write_shard(path: pathlib.Path, weights: dict[str, np.ndarray]) -> None:
    header, data = {}, b""
    for name, values in weights.items():
        begin = len(data)
        data += values.tobytes()
        header[name] = {"dtype": "F16", "shape": list(values.shape),
                        "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_checkpoint(weights: dict[str, np.ndarray]) -> None:
    names = sorted(weights)
    halves = names[:len(names) // 2], names[len(names) // 2:]
    weight_map: dict[str, str] = {}
    for number, half in enumerate(halves, 1):
        file = f"model-{number:05}-of-00002.safetensors"
        write_shard(FOLDER / file, {name: weights[name] for name in half})
        weight_map |= {name: file for name in half}
    (FOLDER / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": weight_map}, indent=1) + "\n")


def yarn(rope: dict[str, Any], theta: float) -> tuple[Any, Any]:
    factor, original = rope["factor"], rope["original_max_position_embeddings"]

    def mscale(scale: float, m: float = 1.0) -> float:
        return 1.0 if scale <= 1 else 0.1 * m * math.log(scale) + 1.0

    attention = rope.get("attention_factor")
    if attention is None:
        if rope.get("mscale") and rope.get("mscale_all_dim"):
            attention = (mscale(factor, rope["mscale"])
                         / mscale(factor, rope["mscale_all_dim"]))
        else:
            attention = mscale(factor)

    def dimension(turns: float) -> float:
        return (HEAD_DIM * math.log(original / (turns * 2 * math.pi))
                / (2 * math.log(theta)))

    low = dimension(rope.get("beta_fast", 32))
    high = dimension(rope.get("beta_slow", 1))
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, HEAD_DIM - 1)
    if low == high:
        high += 0.001
    ramp = np.clip((np.arange(HEAD_DIM // 2) - low) / (high - low), 0, 1)
    frequencies = theta ** -(np.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    return frequencies / factor * ramp + frequencies * (1 - ramp), attention


def llama3(rope: dict[str, Any], frequencies: np.ndarray) -> np.ndarray:
    original = rope["original_max_position_embeddings"]
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    result = []
    for frequency in frequencies:
        wave = 2 * math.pi / frequency
        if wave < original / high:
            result.append(frequency)
        elif wave > original / low:
            result.append(frequency / rope["factor"])
        else:
            smooth = (original / wave - low) / (high - low)
            result.append((1 - smooth) * frequency / rope["factor"]
                          + smooth * frequency)
    return np.array(result)


def rotary(
        config: dict[str, Any]) -> tuple[Any, float] | tuple[Any, Any] | tuple[np.ndarray, float]:
    """Frequencies, and what cosines and sines are multiplied by."""
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = rope.get("rope_theta", config["rope_theta"])
    frequencies = theta ** -(np.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "linear":
        return frequencies / rope["factor"], 1.0
    if kind == "llama3":
        return llama3(rope, frequencies), 1.0
    if kind == "yarn":
        return yarn(rope, theta)
    return frequencies, 1.0  # dynamic: as long as the text is not too long


def rms_norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def rotate(x: np.ndarray, angles: np.ndarray, scale: float) -> np.ndarray:
    """x: [tokens, heads, head_dim]; angles: [tokens, head_dim / 2]"""
    cos = np.cos(angles)[:, None] * scale
    sin = np.sin(angles)[:, None] * scale
    a, b = x[..., :HEAD_DIM // 2], x[..., HEAD_DIM // 2:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    tokens = len(q)
    out = np.zeros_like(q)
    for head in range(HEADS):
        scores = q[:, head] @ k[:, head // (HEADS // KV_HEADS)].T
        scores = scores / math.sqrt(HEAD_DIM)
        scores[np.triu_indices(tokens, 1)] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        out[:, head] = weights @ v[:, head // (HEADS // KV_HEADS)]
    return out.reshape(tokens, -1)


def no_rope_layers(config: dict[str, Any]) -> list[int]:
    if config["architectures"] != ["SmolLM3ForCausalLM"]:
        return [1] * LAYERS
    return config.get("no_rope_layers",
                      [int((i + 1) % 4 != 0) for i in range(LAYERS)])


def logits(config: dict[str, Any], weights: dict[str, np.ndarray], prompt: list[int]) -> np.ndarray:
    w = {name: value.astype(np.float64) for name, value in weights.items()}
    eps, count = config["rms_norm_eps"], len(prompt)
    frequencies, scale = rotary(config)
    angles = np.arange(count)[:, None] * frequencies
    rotates = no_rope_layers(config)
    x = w["model.embed_tokens.weight"][prompt]
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        attention = layer + "self_attn."
        a = rms_norm(x, w[layer + "input_layernorm.weight"], eps)
        q = (a @ w[attention + "q_proj.weight"].T).reshape(count, HEADS, -1)
        k = (a @ w[attention + "k_proj.weight"].T).reshape(count, KV_HEADS, -1)
        v = (a @ w[attention + "v_proj.weight"].T).reshape(count, KV_HEADS, -1)
        if rotates[i]:
            q, k = rotate(q, angles, scale), rotate(k, angles, scale)
        x = x + attend(q, k, v) @ w[attention + "o_proj.weight"].T
        b = rms_norm(x, w[layer + "post_attention_layernorm.weight"], eps)
        gate = b @ w[layer + "mlp.gate_proj.weight"].T
        up = b @ w[layer + "mlp.up_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[
            layer + "mlp.down_proj.weight"].T
    hidden = rms_norm(x[-1], w["model.norm.weight"], eps)
    head = "model.embed_tokens" if config["tie_word_embeddings"] else "lm_head"
    return hidden @ w[head + ".weight"].T


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    weights = make_weights()
    write_checkpoint(weights)
    prompt = np.random.default_rng(7).integers(0, VOCAB, 50).tolist()
    entries = []
    for name, change in VARIANTS.items():
        config = BASE | change
        values = [round(value, 6) for value in logits(config, weights, prompt)]
        entries.append(json.dumps({"name": name, "config": config,
                                   "prompt": prompt, "logits": values}))
    (FOLDER / "variants.json").write_text("[\n" + ",\n".join(entries) + "\n]\n")


if __name__ == "__main__":
    main()
