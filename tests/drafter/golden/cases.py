"""The cases: a tiny drafter each, in one published layout.

A case draws random weights under short names, and says how its format names
them and what it puts into config.json.
"""

import dataclasses
import random
from typing import Any, Callable

import numpy as np

from coupled_noise import Sampling
from dflash_reference import Block
from eagle_reference import Flags
from llama_math import Shape
from safetensors_file import rounded

TARGET_HIDDEN = 32
TARGET_LAYERS = 8
VOCABULARY = 96
DRAFT_VOCABULARY = 40

LLAMA3_SCALING = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                  "high_freq_factor": 4.0,
                  "original_max_position_embeddings": 32}

Weights = dict[str, np.ndarray]
Rename = Callable[[str], str]

# Short names and those of the layers in all formats.
LAYER_NAMES = {
    "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj",
    "o": "self_attn.o_proj", "q_norm": "self_attn.q_norm",
    "k_norm": "self_attn.k_norm", "gate": "mlp.gate_proj",
    "up": "mlp.up_proj", "down": "mlp.down_proj",
    "post_norm": "post_attention_layernorm"}
EAGLE_LAYER_NAMES = LAYER_NAMES | {"token_norm": "input_layernorm",
                                   "hidden_norm": "hidden_norm"}
TOP_NAMES = {"fc": "fc.weight", "fc_bias": "fc.bias", "norm": "norm.weight",
             "head": "lm_head.weight", "embed": "embed_tokens.weight",
             "input_norm": "input_norm.weight"} | {
                 f"fc_norm.{i}": f"fc_norm.{i}.weight" for i in range(3)}


def eagle_names(layer: str) -> Rename:
    def rename(short: str) -> str:
        if short in EAGLE_LAYER_NAMES:
            return f"{layer}{EAGLE_LAYER_NAMES[short]}.weight"
        return TOP_NAMES[short]
    return rename


def with_model_prefix(rename: Rename) -> Rename:
    """Of all but the head, as a causal model around the layers has it."""
    return lambda short: ("" if short == "head" else "model.") + rename(short)


def dflash_names(short: str) -> str:
    layer, _, name = short.partition(".")
    if not name:
        return "hidden_norm.weight" if short == "hidden_norm" \
            else TOP_NAMES[short]
    names = LAYER_NAMES | {"input_norm": "input_layernorm"}
    return f"layers.{layer}.{names[name]}.weight"


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    type: str              # of the drafter: eagle, dflash
    config: dict           # beside what every format has
    taps: tuple[int, ...]  # counted by the layers before them
    shape: Shape
    rename: Rename
    target: str = "untied"
    flags: Flags = Flags()
    block: Block | None = None
    own_embedding: bool = False
    own_head: bool = True      # else the target's rows of the draft tokens
    draft_vocabulary: bool = True
    fc_bias: bool = False
    qk_norm: bool = False
    # Tensors that only training reads, by the file's names.
    training_only: tuple[str, ...] = ()
    dtype: str = "BF16"
    width: int = 4
    temperatures: tuple[float, ...] = (0.0,)  # of the rounds, the last repeats
    noise_scale: float = 1.0

    def sampling(self, round_index: int) -> Sampling:
        return Sampling(
            self.temperatures[min(round_index, len(self.temperatures) - 1)],
            0x9E3779B97F4A7C15)


SMALL = Shape(hidden=32, heads=4, kv_heads=2, head_dim=8, intermediate=16)
WIDE_HEADS = dataclasses.replace(SMALL, head_dim=16)


def matrix(random: np.random.RandomState, rows: int, columns: int,
           gain: float = 1.0) -> np.ndarray:
    return random.standard_normal((rows, columns)) * gain / columns**0.5


def norm(random: np.random.RandomState, size: int) -> np.ndarray:
    return 1 + 0.3 * random.standard_normal(size)


def draw_layer(random: np.random.RandomState, shape: Shape, inputs: int, qk_norm: bool) -> Weights:
    """Queries and keys are large, so that it matters what a row sees."""
    q, kv = (n * shape.head_dim for n in (shape.heads, shape.kv_heads))
    sampled = {"q": matrix(random, q, inputs, 1.5),
             "k": matrix(random, kv, inputs, 1.5),
             "v": matrix(random, kv, inputs), "o": matrix(random, shape.hidden, q),
             "gate": matrix(random, shape.intermediate, shape.hidden),
             "up": matrix(random, shape.intermediate, shape.hidden),
             "down": matrix(random, shape.hidden, shape.intermediate),
             "post_norm": norm(random, shape.hidden)}
    if qk_norm:
        sampled["q_norm"] = norm(random, shape.head_dim)
        sampled["k_norm"] = norm(random, shape.head_dim)
    return sampled


def draw_eagle(random: np.random.RandomState, case: Case) -> Weights:
    hidden, flags = case.shape.hidden, case.flags
    width = len(case.taps) * TARGET_HIDDEN
    sampled = {"fc": matrix(random, hidden, hidden + width if flags.eagle1
                          else width)}
    if case.fc_bias:
        sampled["fc_bias"] = 0.5 * random.standard_normal(hidden)
    sampled |= draw_layer(random, case.shape,
                        hidden if flags.eagle1 else 2 * hidden, case.qk_norm)
    if not flags.eagle1:
        sampled |= {name: norm(random, hidden)
                  for name in ("token_norm", "hidden_norm", "norm")}
    if flags.fc_norm:
        sampled |= {f"fc_norm.{i}": norm(random, TARGET_HIDDEN)
                  for i in range(len(case.taps))}
    if flags.norm_before_fc:
        sampled["input_norm"] = norm(random, width)
    return sampled


def draw_dflash(random: np.random.RandomState, case: Case) -> Weights:
    hidden = case.shape.hidden
    sampled = {"fc": matrix(random, hidden, len(case.taps) * TARGET_HIDDEN),
             "hidden_norm": norm(random, hidden), "norm": norm(random, hidden)}
    assert case.block
    for i in range(case.block.layers):
        layer = draw_layer(random, case.shape, hidden, qk_norm=True)
        layer["input_norm"] = norm(random, hidden)
        sampled |= {f"{i}.{name}": weight for name, weight in layer.items()}
    return sampled


def draw_weights(random: np.random.RandomState, case: Case) -> Weights:
    """What the head's file has, as float64 after rounding to its dtype."""
    draw = draw_eagle if case.type == "eagle" else draw_dflash
    sampled = draw(random, case)
    if case.own_embedding:
        sampled["embed"] = random.standard_normal((VOCABULARY,
                                                 case.shape.hidden))
    if case.own_head:
        rows = DRAFT_VOCABULARY if case.draft_vocabulary else VOCABULARY
        sampled["head"] = matrix(random, rows, case.shape.hidden, 2.5)
    return {name: rounded(w, case.dtype) for name, w in sampled.items()}


def draw_target(random: np.random.RandomState, tied: bool) -> Weights:
    gain = 0.5 if tied else 1.0
    sampled = {"embed": gain * random.standard_normal((VOCABULARY,
                                                     TARGET_HIDDEN)),
             "norm": norm(random, TARGET_HIDDEN)}
    if not tied:
        sampled["head"] = matrix(random, VOCABULARY, TARGET_HIDDEN, 2.5)
    return {name: rounded(w, "BF16") for name, w in sampled.items()}


# The configs.

def llama_fields(shape: Shape, **fields: Any) -> dict:
    config = {"model_type": "llama", "hidden_size": shape.hidden,
              "intermediate_size": shape.intermediate, "num_hidden_layers": 1,
              "num_attention_heads": shape.heads,
              "num_key_value_heads": shape.kv_heads,
              "head_dim": shape.head_dim, "hidden_act": "silu",
              "rms_norm_eps": shape.eps, "max_position_embeddings": 512,
              "vocab_size": VOCABULARY, "torch_dtype": "bfloat16"}
    if shape.rope_theta != 10000.0:
        config["rope_theta"] = shape.rope_theta
    if shape.rope_scaling is not None:
        config["rope_scaling"] = shape.rope_scaling
    return config | fields


def sglang_ids(*taps: int) -> dict:
    """SGLang and SpecForge say of which layers it is the output."""
    return {"eagle_config": {"use_aux_hidden_state": True,
                             "eagle_aux_hidden_state_layer_ids":
                                 [tap - 1 for tap in taps]}}


def eagle3_config(shape: Shape, **fields: Any) -> dict:
    return llama_fields(shape, architectures=["LlamaForCausalLMEagle3"],
                        **fields)


def speculators_config(shape: Shape, taps: tuple[int, ...] | None, layer: dict | None = None,
                       **fields: Any) -> dict:
    """Layers go by what enters them, which is our counting."""
    wrapped = llama_fields(shape) | (layer or {})
    config = {"architectures": ["Eagle3Speculator"],
              "speculators_model_type": "eagle3",
              "speculators_version": "0.2.0",
              "transformer_layer_config": wrapped,
              "draft_vocab_size": DRAFT_VOCABULARY,
              "norm_before_residual": False, "norm_before_fc": False,
              "target_hidden_size": None, "torch_dtype": "bfloat16",
              "speculators_config": {
                  "algorithm": "eagle3", "default_proposal_method": "greedy",
                  "proposal_methods": [{"proposal_type": "greedy",
                                        "speculative_tokens": 3}],
                  "verifier": {"name_or_path": "tiny",
                               "architectures": ["LlamaForCausalLM"]}}}
    if taps is not None:
        config["eagle_aux_hidden_state_layer_ids"] = list(taps)
    return config | fields


def dflash_config(shape: Shape, block: Block, taps: tuple[int, ...], in_block: dict | None = None,
                  **fields: Any) -> dict:
    return llama_fields(
        shape, architectures=["DFlashDraftModel"], model_type="qwen3",
        num_hidden_layers=block.layers, num_target_layers=TARGET_LAYERS,
        attention_bias=False, sliding_window=None, use_sliding_window=False,
        layer_types=["full_attention"] * block.layers,
        tie_word_embeddings=False,
        dflash_config={"mask_token_id": block.mask_token,
                       "target_layer_ids": [tap - 1 for tap in taps]}
        | (in_block or {})) | fields


def sliding(window: int, *types: str) -> dict:
    return {"use_sliding_window": True, "sliding_window": window,
            "layer_types": [f"{kind}_attention" for kind in types]}


DEFAULT_TAPS = (2, 4, 5)  # what enters layers 2, L / 2, L - 3
FINAL_STATE = (TARGET_LAYERS + 1,)
MIDLAYER = eagle_names("midlayer.")
LAYERS_0 = eagle_names("layers.0.")
SMALL_DRAFTS: dict[str, Any] = {"draft_vocab_size": DRAFT_VOCABULARY}
LONG_ROPE = dataclasses.replace(WIDE_HEADS, rope_theta=500000.0,
                                rope_scaling=LLAMA3_SCALING)
WINDOWED = dataclasses.replace(SMALL, window=4)
NARROW = dataclasses.replace(SMALL, hidden=24)
EAGLE31 = Flags(fc_norm=True, norm_output=True)
EAGLE31_FIELDS: dict[str, Any] = {"fc_norm": True, "norm_output": True}
BLOCK = Block(layers=2, size=6, mask_token=95)
SLIDING_BLOCK = dataclasses.replace(BLOCK, layers=3, window=7)
CAUSAL_BLOCK = dataclasses.replace(BLOCK, causal=True)
BLOCK_TAPS = (2, 4, 6)


def eagle(name: str, shape: Shape, rename: Rename, config: dict,
          taps: tuple[int, ...] = DEFAULT_TAPS, **fields: Any) -> Case:
    return Case(name=name, type="eagle", config=config, taps=taps, shape=shape,
                rename=rename, **fields)


def eagle1(name: str, config: dict, **fields: Any) -> Case:
    return eagle(name, SMALL, LAYERS_0,
                 llama_fields(SMALL, architectures=["LlamaForCausalLM"],
                              **config),
                 FINAL_STATE, flags=Flags(eagle1=True), **fields)


def dflash(name: str, config: dict, block: Block = BLOCK, **fields: Any) -> Case:
    fields = {"own_head": False, "draft_vocabulary": False} | fields
    return Case(name=name, type="dflash", config=config, taps=BLOCK_TAPS,
                shape=SMALL, rename=dflash_names, block=block, **fields)


CASES = [
    eagle("eagle3_midlayer", SMALL, MIDLAYER,
          eagle3_config(SMALL, **SMALL_DRAFTS)),
    eagle("eagle3_specforge", LONG_ROPE, MIDLAYER,
          eagle3_config(LONG_ROPE, **SMALL_DRAFTS, **sglang_ids(1, 4, 7)),
          (1, 4, 7)),
    eagle("eagle3_layers_0", SMALL, LAYERS_0,
          eagle3_config(SMALL, bias=True, **SMALL_DRAFTS, **sglang_ids(2, 5, 8)),
          (2, 5, 8), fc_bias=True),
    eagle("eagle3_model_prefix", SMALL, with_model_prefix(LAYERS_0),
          eagle3_config(SMALL, **SMALL_DRAFTS)),
    eagle("eagle3_speculators", WIDE_HEADS, LAYERS_0,
          speculators_config(WIDE_HEADS, (2, 4, 8), norm_before_residual=True),
          (2, 4, 8), flags=Flags(norm_before_residual=True), own_embedding=True,
          training_only=("verifier_norm.weight", "verifier_lm_head.weight")),
    eagle("eagle3_speculators_qwen3", SMALL, LAYERS_0,
          speculators_config(SMALL, None, {"model_type": "qwen3",
                                           "rope_theta": 10000.0},
                             norm_before_fc=True),
          flags=Flags(norm_before_fc=True), qk_norm=True),
    eagle("eagle3_speculators_window", WINDOWED, LAYERS_0,
          speculators_config(WINDOWED, (2, 4, 8),
                             {"sliding_window": 4,
                              "layer_types": ["sliding_attention"]}),
          (2, 4, 8)),
    eagle("eagle3_full_vocabulary", SMALL, MIDLAYER, eagle3_config(SMALL),
          draft_vocabulary=False),
    eagle("eagle3_target_head", SMALL, MIDLAYER, eagle3_config(SMALL),
          draft_vocabulary=False, own_head=False, target="tied"),
    eagle("eagle3_narrow", NARROW, MIDLAYER,
          eagle3_config(NARROW, target_hidden_size=TARGET_HIDDEN,
                        **SMALL_DRAFTS),
          own_embedding=True),
    eagle("eagle3_sampled", SMALL, MIDLAYER,
          eagle3_config(SMALL, **SMALL_DRAFTS),
          temperatures=(1.0, 1.0, 0.7, 1.0), noise_scale=0.8),
    eagle("eagle31_midlayer", SMALL, MIDLAYER,
          eagle3_config(SMALL, **EAGLE31_FIELDS, **SMALL_DRAFTS,
                        **sglang_ids(*DEFAULT_TAPS)),
          flags=EAGLE31, own_head=False, target="tied"),
    eagle("eagle31_speculators", SMALL, LAYERS_0,
          speculators_config(SMALL, (1, 3, 6), norm_before_residual=True,
                             **EAGLE31_FIELDS),
          (1, 3, 6),
          flags=dataclasses.replace(EAGLE31, norm_before_residual=True)),
    eagle1("eagle1_bias", {"torch_dtype": "float16"}, fc_bias=True,
           own_embedding=True, own_head=False, draft_vocabulary=False,
           dtype="F16"),
    eagle1("eagle1_no_bias", {"bias": False}, own_head=False,
           draft_vocabulary=False, target="tied"),
    eagle1("eagle1_own_head", {"bias": True}, fc_bias=True,
           draft_vocabulary=False),
    eagle1("eagle1_draft_vocabulary",
           {"bias": True, "espalier": {"mode": "eagle1"}, **SMALL_DRAFTS},
           fc_bias=True, temperatures=(0.0, 1.0, 0.0, 0.7)),
    dflash("dflash", dflash_config(SMALL, BLOCK, BLOCK_TAPS,
                                   block_size=BLOCK.size)),
    dflash("dflash_draft_vocabulary",
           dflash_config(SMALL, BLOCK, BLOCK_TAPS, block_size=BLOCK.size,
                         **SMALL_DRAFTS),
           draft_vocabulary=True, target="tied"),
    dflash("dflash_causal",
           dflash_config(SMALL, CAUSAL_BLOCK, BLOCK_TAPS,
                         {"block_size": BLOCK.size, "causal_head": True}),
           CAUSAL_BLOCK),
    dflash("dflash_windows",
           dflash_config(SMALL, SLIDING_BLOCK, BLOCK_TAPS,
                         block_size=BLOCK.size,
                         **sliding(7, "sliding", "sliding", "full")),
           SLIDING_BLOCK),
    dflash("dflash_chain", dflash_config(SMALL, BLOCK, BLOCK_TAPS,
                                         block_size=BLOCK.size), width=1),
    dflash("dflash_sampled", dflash_config(SMALL, BLOCK, BLOCK_TAPS,
                                           block_size=BLOCK.size),
           temperatures=(1.0, 1.0, 0.7, 1.0), noise_scale=0.8),
]
