"""Targets of the suite `round`, and the networks that draft for them."""

import dataclasses
import json
import pathlib
import shutil
from typing import Any

REPO = pathlib.Path(__file__).resolve().parents[2]
SHAPES = REPO / "deploy/shapes"
TOKENIZER = REPO / "deploy/models/nanogpt-char/tokenizer.json"
TINY = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
    "vocab_size": 258, "max_position_embeddings": 512, "hidden_act": "silu",
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False}
TINY_QWEN3 = TINY | {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
TINY_BLOCK = TINY | {
    "architectures": ["DFlashDraftModel"], "model_type": "qwen3", "block_size": 6,
    "dflash_config": {"mask_token_id": 257, "target_layer_ids": [0, 1]},
    "num_target_layers": 2, "attention_bias": False}
TINY_HEAD = TINY | {
    "architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1,
    "draft_vocab_size": 129, "eagle_aux_hidden_state_layer_ids": [0, 1, 2]}
TINY_LM = TINY | {"num_hidden_layers": 1, "tie_word_embeddings": True}


@dataclasses.dataclass(frozen=True)
class Network:
    """Drafts for a target. `taus`: those of which it gets the hit rates."""
    kind: str  # type of the drafter
    config: dict
    taus: tuple


@dataclasses.dataclass(frozen=True)
class Target:
    name: str
    config: dict
    networks: tuple


def published(name: str) -> Any:
    return json.loads((SHAPES / name / "config.json").read_text())


def targets(emulated: bool) -> tuple[Target, Target]:
    """Qwen3-8B with DFlash and EAGLE-3, Llama-3.1-8B with EAGLE-3 and a model of 1B;
    emulated, networks of the same kinds in tiny shapes."""
    if emulated:
        return (Target("tiny qwen3", TINY_QWEN3,
                       (Network("dflash", TINY_BLOCK, ("4",)),
                        Network("eagle", TINY_HEAD, ("4",)))),
                Target("tiny llama", TINY,
                       (Network("eagle", TINY_HEAD, ("4",)),
                        Network("lm", TINY_LM, ("4",)))))
    return (Target("qwen3-8b", published("qwen3-8b"),
                   (Network("dflash", published("qwen3-8b-dflash"), ("7", "9.5")),
                    Network("eagle", published("qwen3-8b-eagle3"), ("4",)))),
            Target("llama-3.1-8b", published("llama-3.1-8b"),
                   (Network("eagle", published("llama-3.1-8b-eagle3"), ("4", "7")),
                    Network("lm", published("llama-3.2-1b"), ("4",)))))


def write_shape(folder: pathlib.Path, config: dict[str, Any]) -> pathlib.Path:
    """A model's folder without weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    shutil.copy(TOKENIZER, folder)
    return folder
