#!/usr/bin/env python3
"""Trains the character model of this folder on train.txt and writes it here.

    python3 train.py [--steps 2000] [--out .]

Needs torch and transformers. One core, some five minutes. The result is a
Hugging Face folder (GPT2LMHeadModel) with bf16 weights. The same versions of
the packages on the same processor write the same bytes.
"""
import argparse
import json
import pathlib
from collections.abc import Iterable
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

HERE = pathlib.Path(__file__).resolve().parent
BLOCK = 256  # positions the model sees
BATCH = 8


def byte_symbol(byte: int) -> str:
    """The character that stands for a byte in a byte-level BPE vocabulary."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    if byte in printable:
        return chr(byte)
    return chr(256 + [b for b in range(256) if b not in printable].index(byte))


def write_tokenizer(out: pathlib.Path, characters: Iterable[str]) -> None:
    vocab = {byte_symbol(ord(c)): i for i, c in enumerate(characters)}
    tokenizer: dict[str, Any] = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False,
                          "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True,
                    "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False,
                  "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocab, "merges": []},
    }
    (out / "tokenizer.json").write_text(
        json.dumps(tokenizer, ensure_ascii=False, indent=1) + "\n",
        encoding="utf-8")


def write_model(out: pathlib.Path, model: Any) -> None:
    tensors = {}
    for name, tensor in model.state_dict().items():
        if name != "lm_head.weight":  # it is the embedding
            tensors[name] = tensor.to(torch.bfloat16).contiguous()
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    config = model.config
    fields = {name: getattr(config, name) for name in (
        "vocab_size", "n_positions", "n_embd", "n_layer", "n_head",
        "activation_function", "layer_norm_epsilon")}
    fields |= {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
               "bos_token_id": None, "eos_token_id": None,
               "tie_word_embeddings": True, "torch_dtype": "bfloat16"}
    (out / "config.json").write_text(json.dumps(fields, indent=2) + "\n")


def windows(data: torch.Tensor, generator: torch.Generator) -> Any:
    starts = torch.randint(len(data) - BLOCK, (BATCH,), generator=generator)
    return torch.stack([data[s:s + BLOCK] for s in starts])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--out", type=pathlib.Path, default=HERE)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(2)

    text = (HERE / "train.txt").read_text()
    characters = sorted(set(text))
    data = torch.tensor([characters.index(c) for c in text])
    held_out = data[-len(data) // 20:]
    data = data[:-len(data) // 20]

    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=len(characters), n_positions=BLOCK, n_embd=32, n_layer=4,
        n_head=4, activation_function="gelu_new", resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None))
    print(sum(p.numel() for p in model.parameters()), "parameters,",
          len(characters), "characters")
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3,
                                  weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=4e-3, total_steps=arguments.steps, pct_start=0.05)
    generator = torch.Generator().manual_seed(2)
    for step in range(arguments.steps):
        batch = windows(data, generator)
        loss = model(batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if (step + 1) % 500 == 0:
            with torch.no_grad():
                test = windows(held_out, torch.Generator().manual_seed(0))
                held = model(test, labels=test).loss
            print(f"step {step + 1}: loss {loss.item():.3f}, "
                  f"held out {held.item():.3f} nats per character",
                  flush=True)
    write_tokenizer(arguments.out, characters)
    write_model(arguments.out, model)


if __name__ == "__main__":
    main()
