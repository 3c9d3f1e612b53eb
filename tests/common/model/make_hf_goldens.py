#!/usr/bin/env python3
"""Writes greedy texts of Hugging Face transformers for hf_parity_test.

    python3 make_hf_goldens.py MODEL_FOLDER goldens/NAME.json
    python3 make_hf_goldens.py goldens/tiny-qwen3 goldens/tiny-qwen3.json \\
        --random qwen3
    python3 make_hf_goldens.py goldens/tiny-qwen3-windows \\
        goldens/tiny-qwen3-windows.json --random qwen3-windows
    python3 make_hf_goldens.py goldens/tiny-qwen3-moe \\
        goldens/tiny-qwen3-moe.json --random qwen3-moe
    python3 make_hf_goldens.py goldens/tiny-qwen3-moe \\
        goldens/tiny-qwen3-moe-plain.json --set norm_topk_prob=false
    python3 make_hf_goldens.py goldens/tiny-gemma3 goldens/tiny-gemma3.json \\
        --random gemma3
    python3 make_hf_goldens.py goldens/tiny-gemma2 goldens/tiny-gemma2.json \\
        --random gemma2
    python3 make_hf_goldens.py goldens/tiny-qwen3-moe-windows \\
        goldens/tiny-qwen3-moe-windows.json --random qwen3-moe-windows
    python3 make_hf_goldens.py goldens/tiny-olmo2 goldens/tiny-olmo2.json \\
        --random olmo2

Float32, no batching. Per prompt: its token ids, the ids that follow, how far
the best token led at each step (the difference of the two best logits): where
that is tiny, another order of summation may decide otherwise; of a random model
the logits after the prompt as well. --random makes MODEL_FOLDER first; --set
changes a field of its config.json. Needs torch and transformers 5.
"""
import argparse
import json
import pathlib
from typing import Any

import torch
from transformers import (AutoConfig, AutoModelForCausalLM, Gemma2Config,
                          Gemma2ForCausalLM, Gemma3ForCausalLM,
                          Gemma3TextConfig, Olmo2Config, Olmo2ForCausalLM,
                          PreTrainedTokenizerFast,
                          Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig,
                          Qwen3MoeForCausalLM)

QUESTIONS = [
    "What is the capital of France?",
    "Explain what a hash table is in two sentences.",
    "Write a Python function that reverses a list.",
    "Why is the sky blue?",
    "Name five animals that live in the sea.",
    "Translate to French: Good morning, my friend.",
    "What is 17 plus 25?",
    "Write a short poem about autumn.",
    "How do I boil an egg?",
    "List the planets of the solar system.",
    "What does a compiler do?",
    "Give me three tips for sleeping better.",
    "Write a C function that adds two integers.",
    "Who wrote Romeo and Juliet?",
    "Summarise: The cat sat on the mat. The dog barked. The cat ran away.",
    "What is the difference between a virus and a bacterium?",
    "Tell me a joke about computers.",
    "How many minutes are there in a day?",
    "What is photosynthesis?",
    "Write an email asking for a day off.",
]
TEXTS = [
    "Once upon a time, in a small village by the sea,",
    "def fibonacci(n):\n    ",
    "The three distributions of motion are:\n1.",
    "{\"name\": \"Ada\", \"born\": 1815, ",
]


def texts_for(folder: pathlib.Path, config: Any) -> list[str]:
    if config["model_type"] == "gpt2":
        # The model loops soon: pieces of its book, of many lengths.
        book = (folder / "train.txt").read_text()
        return [book[12000 * i:][:2 + 15 * i] for i in range(10)]
    chats = [f"<|im_start|>user\n{q}<|im_end|>\n<|im_start|>assistant\n"
             for q in QUESTIONS]
    return chats + TEXTS


def prompts(folder: pathlib.Path, config: Any) -> list[str]:
    if not (folder / "tokenizer.json").exists():
        draw = torch.Generator().manual_seed(2)
        return [torch.randint(config["vocab_size"], (size,), generator=draw)
                .tolist() for size in (1, 2, 7, 32, 33, 100)]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"))
    return [tokenizer(text)["input_ids"] for text in texts_for(folder, config)]


# Few weights, but none that could be left out or mixed up unseen: heads wider
# than hidden / heads, and norms that are not 1.
COMMON = dict(vocab_size=64, hidden_size=32, intermediate_size=48,
              num_attention_heads=4, num_key_value_heads=2, head_dim=16,
              max_position_embeddings=256, tie_word_embeddings=False)
ROPE = {"rope_type": "default", "rope_theta": 1e6}


def random_qwen3() -> Any:
    return Qwen3ForCausalLM(Qwen3Config(
        num_hidden_layers=2, rope_parameters=ROPE, **COMMON))


def random_qwen3_windows() -> Any:
    """The last two of three layers have windows; the longest prompt has twelve."""
    return Qwen3ForCausalLM(Qwen3Config(
        num_hidden_layers=3, rope_parameters=ROPE, use_sliding_window=True,
        sliding_window=8, max_window_layers=1, **COMMON))


def random_qwen3_moe() -> Any:
    """The second layer is dense; a prompt of one token leaves experts unused."""
    return Qwen3MoeForCausalLM(Qwen3MoeConfig(
        num_hidden_layers=3, rope_parameters=ROPE, num_experts=6,
        num_experts_per_tok=2, moe_intermediate_size=16, norm_topk_prob=True,
        mlp_only_layers=[1], decoder_sparse_step=1, **COMMON))


def random_qwen3_moe_windows() -> Any:
    """All layers have a window; the longest prompt has twelve."""
    return Qwen3MoeForCausalLM(Qwen3MoeConfig(
        num_hidden_layers=2, rope_parameters=ROPE, num_experts=4,
        num_experts_per_tok=2, moe_intermediate_size=16, norm_topk_prob=True,
        use_sliding_window=True, sliding_window=8, **COMMON))


def random_gemma2() -> Any:
    """Softcaps that change most scores and logits; twelve windows."""
    return Gemma2ForCausalLM(Gemma2Config(
        num_hidden_layers=3, sliding_window=8, query_pre_attn_scalar=24,
        attn_logit_softcapping=1.5, final_logit_softcapping=4.0,
        bos_token_id=None, eos_token_id=None, pad_token_id=None,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
        **COMMON | {"tie_word_embeddings": True}))


def random_gemma3() -> Any:
    """The longest prompt has twelve windows; global positions are stretched."""
    return Gemma3ForCausalLM(Gemma3TextConfig(
        num_hidden_layers=4, sliding_window=8, query_pre_attn_scalar=24,
        bos_token_id=None, eos_token_id=None, pad_token_id=None,
        layer_types=["sliding_attention", "sliding_attention",
                     "full_attention", "sliding_attention"],
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 8.0,
                               "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}},
        **COMMON | {"tie_word_embeddings": True}))


def random_olmo2() -> Any:
    sizes = {name: size for name, size in COMMON.items() if name != "head_dim"}
    return Olmo2ForCausalLM(Olmo2Config(
        num_hidden_layers=2, rope_parameters=ROPE, bos_token_id=None,
        eos_token_id=None, pad_token_id=None, **sizes))


RANDOM = {"qwen3": random_qwen3, "qwen3-windows": random_qwen3_windows,
          "qwen3-moe": random_qwen3_moe,
          "qwen3-moe-windows": random_qwen3_moe_windows,
          "gemma2": random_gemma2, "gemma3": random_gemma3, "olmo2": random_olmo2}


def make_random(kind: str, folder: pathlib.Path) -> None:
    model = RANDOM[kind]()
    draw = torch.Generator().manual_seed(1)
    tied = model.config.tie_word_embeddings
    for name, weight in model.named_parameters():
        if weight.dim() == 1:
            # Gemma's are stored less one.
            weight.data.uniform_(0.5, 2, generator=draw)
            weight.data -= 1 if kind.startswith("gemma") else 0
        else:
            gain = 0.5 if tied and "embed" in name else 2
            weight.data.normal_(0, gain * weight.size(-1) ** -0.5,
                                generator=draw)
    shard = {"max_shard_size": "40KB"} if kind == "qwen3-moe" else {}
    model.to(torch.bfloat16).save_pretrained(folder, **shard)
    (folder / "generation_config.json").unlink()


@torch.inference_mode()
def greedy(model: Any, prompt: list[int], max_tokens: int, eos: int | None) -> dict[str, Any]:
    ids: list[int] = []
    margins: list[float] = []
    past: Any = None
    logits: Any = None
    step = torch.tensor([prompt])
    while len(ids) < max_tokens:
        out = model(step, past_key_values=past, use_cache=True)
        past = out.past_key_values
        best = out.logits[0, -1].topk(2)
        logits = out.logits[0, -1] if logits is None else logits
        ids.append(best.indices[0].item())
        margins.append(round((best.values[0] - best.values[1]).item(), 5))
        if ids[-1] == eos:
            break
        step = torch.tensor([ids[-1:]])
    text: dict[str, Any] = {"prompt": prompt, "tokens": ids, "margins": margins}
    if eos is None:
        text["logits"] = [round(logit, 5) for logit in logits.tolist()]
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("golden", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--random", choices=sorted(RANDOM))
    parser.add_argument("--set", metavar="FIELD=JSON", default=None)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.random:
        make_random(arguments.random, arguments.model)
    config = json.loads((arguments.model / "config.json").read_text())
    as_read = AutoConfig.from_pretrained(arguments.model)
    if arguments.set is not None:
        field, value = arguments.set.split("=")
        setattr(as_read, field, json.loads(value))
    model = AutoModelForCausalLM.from_pretrained(
        arguments.model, config=as_read, dtype=torch.float32,
        attn_implementation="eager").eval()
    max_tokens = 100 if config["model_type"] == "gpt2" else 64
    texts = []
    for prompt in prompts(arguments.model, config):
        texts.append(greedy(model, prompt, max_tokens, config.get("eos_token_id")))
        print(f"{len(texts)}: {texts[-1]['tokens']}", flush=True)
    lines = ",\n".join(json.dumps(text) for text in texts)
    arguments.golden.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
