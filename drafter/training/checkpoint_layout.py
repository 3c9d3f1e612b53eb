"""The published layouts: which tensors a drafter's file has, and its config.

A drafter is a folder with model.safetensors and config.json. Reading is strict:
a missing, surplus or misshapen tensor is an error that names it.
"""

import json
import pathlib

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from block_drafter import BlockShape
from corpus import write_json
from draft_vocabulary import DraftVocabulary
from eagle_head import TAPS, EagleShape

Layout = dict[str, tuple[int, ...]]


def _attention(prefix: str, inputs: int, hidden: int, c: dict) -> Layout:
    q, kv = (c[n] * c["head_dim"] for n
             in ("num_attention_heads", "num_key_value_heads"))
    return {f"{prefix}self_attn.q_proj.weight": (q, inputs),
            f"{prefix}self_attn.k_proj.weight": (kv, inputs),
            f"{prefix}self_attn.v_proj.weight": (kv, inputs),
            f"{prefix}self_attn.o_proj.weight": (hidden, q)}


def _mlp(prefix: str, hidden: int, intermediate: int) -> Layout:
    return {f"{prefix}mlp.gate_proj.weight": (intermediate, hidden),
            f"{prefix}mlp.up_proj.weight": (intermediate, hidden),
            f"{prefix}mlp.down_proj.weight": (hidden, intermediate)}


def eagle_layout(c: dict) -> tuple[Layout, Layout]:
    """Tensors that must be there, and those that may."""
    h, i = c["hidden_size"], c["intermediate_size"]
    vocabulary, drafts = c["vocab_size"], c["draft_vocab_size"]
    if c["espalier"]["mode"] == "eagle1":
        layer = "layers.0."
        return ({"fc.weight": (h, 2 * h), "fc.bias": (h,),
                 f"{layer}post_attention_layernorm.weight": (h,)}
                | _attention(layer, h, h, c) | _mlp(layer, h, i),
                {"embed_tokens.weight": (vocabulary, h)})
    layer = "midlayer."
    need = {"fc.weight": (h, TAPS * c["target_hidden_size"]),
            "norm.weight": (h,)}
    need |= {f"{layer}{name}.weight": (h,) for name in (
        "hidden_norm", "input_layernorm", "post_attention_layernorm")}
    need |= _attention(layer, 2 * h, h, c) | _mlp(layer, h, i)
    if c["fc_norm"]:
        need |= {f"fc_norm.{t}.weight": (c["target_hidden_size"],)
                 for t in range(TAPS)}
    if drafts != vocabulary:
        need |= {"d2t": (drafts,), "t2d": (vocabulary,)}
    return need, {"lm_head.weight": (drafts, h)}


def dflash_layout(c: dict) -> tuple[Layout, Layout]:
    h, d = c["hidden_size"], c["head_dim"]
    taps = len(c["dflash_config"]["target_layer_ids"])
    need = {"fc.weight": (h, taps * h), "hidden_norm.weight": (h,),
            "norm.weight": (h,)}
    for n in range(c["num_hidden_layers"]):
        layer = f"layers.{n}."
        need |= _attention(layer, h, h, c)
        need |= _mlp(layer, h, c["intermediate_size"])
        need |= {f"{layer}input_layernorm.weight": (h,),
                 f"{layer}post_attention_layernorm.weight": (h,),
                 f"{layer}self_attn.q_norm.weight": (d,),
                 f"{layer}self_attn.k_norm.weight": (d,)}
    # Not in published files: ours may propose a part of the vocabulary only.
    if c["draft_vocab_size"] != c["vocab_size"]:
        need |= {"d2t": (c["draft_vocab_size"],)}
    return need, {}


def eagle_config(shape: EagleShape, vocabulary: DraftVocabulary,
                 taps: tuple[int, ...], target: str, max_positions: int
                 ) -> dict:
    config = _config("LlamaForCausalLMEagle3", shape, vocabulary, target,
                     max_positions, 1)
    config["espalier"]["mode"] = shape.mode
    if shape.is_eagle1:
        return config | {"architectures": ["LlamaForCausalLM"], "bias": True}
    is_31 = shape.mode == "eagle3.1"
    return config | {
        "target_hidden_size": shape.hidden, "fc_norm": is_31,
        "norm_output": is_31, "norm_before_residual": False,
        # Outputs of layers, so one less than our taps, which are inputs.
        "eagle_config": {"use_aux_hidden_state": True,
                         "eagle_aux_hidden_state_layer_ids":
                         [tap - 1 for tap in taps]}}


def dflash_config(shape: BlockShape, vocabulary: DraftVocabulary,
                  taps: tuple[int, ...], target: str, max_positions: int,
                  target_layers: int, mask_token: int) -> dict:
    config = _config("DFlashDraftModel", shape, vocabulary, target,
                     max_positions, shape.layers)
    return config | {
        "model_type": "qwen3", "block_size": shape.block,
        "num_target_layers": target_layers, "sliding_window": None,
        "layer_types": ["full_attention"] * shape.layers,
        "dflash_config": {"mask_token_id": mask_token,
                          "target_layer_ids": [tap - 1 for tap in taps]}}


def _config(architecture: str, shape: EagleShape | BlockShape,
            vocabulary: DraftVocabulary, target: str, max_positions: int,
            layers: int) -> dict:
    return {
        "architectures": [architecture], "model_type": "llama",
        "hidden_size": shape.hidden, "intermediate_size": shape.intermediate,
        "num_hidden_layers": layers, "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads, "head_dim": shape.head_dim,
        "hidden_act": "silu", "rms_norm_eps": shape.eps,
        "rope_theta": shape.rope_theta, "rope_scaling": None,
        "max_position_embeddings": max_positions, "attention_bias": False,
        "vocab_size": vocabulary.target_size,
        "draft_vocab_size": len(vocabulary.tokens),
        "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "espalier": {"target": target}}


def is_dflash(config: dict) -> bool:
    return config["architectures"] == ["DFlashDraftModel"]


def check_layout(tensors: dict[str, Tensor], config: dict) -> None:
    """Raises ValueError that names the first wrong tensor of each kind."""
    layout = dflash_layout if is_dflash(config) else eagle_layout
    need, may = layout(config)
    for name in need:
        if name not in tensors:
            raise ValueError(f"tensor {name} is missing")
    for name, tensor in tensors.items():
        shape = need.get(name) or may.get(name)
        if shape is None:
            raise ValueError(f"tensor {name} is not part of the layout")
        if tuple(tensor.shape) != shape:
            raise ValueError(f"tensor {name} has shape {tuple(tensor.shape)}, "
                             f"expected {shape}")


def save_drafter(folder: pathlib.Path, weights: dict[str, Tensor],
                 maps: dict[str, Tensor], config: dict) -> None:
    """Weights become bfloat16, maps (d2t, t2d) stay as they are."""
    tensors = {name: w.detach().to("cpu", torch.bfloat16).contiguous()
               for name, w in weights.items()} | maps
    check_layout(tensors, config)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config)
    partial = folder / "model.safetensors.partial"
    save_file(tensors, partial)
    partial.replace(folder / "model.safetensors")


def load_drafter(folder: str) -> tuple[dict[str, Tensor], dict]:
    path = pathlib.Path(folder)
    config = json.loads((path / "config.json").read_text())
    tensors = load_file(path / "model.safetensors")
    check_layout(tensors, config)
    return tensors, config


def vocabulary_of(tensors: dict[str, Tensor], config: dict) -> DraftVocabulary:
    if "d2t" not in tensors:
        return DraftVocabulary.full(config["vocab_size"])
    return DraftVocabulary.from_offsets(tensors["d2t"], config["vocab_size"])
