"""Tiny random models for the checks of the trainers."""

import contextlib
import io
from collections.abc import Callable
from typing import Any, TypeVar

import tokenizers
import torch
import transformers

from block_drafter import BlockDrafter, BlockShape
from eagle_head import EagleHead, EagleShape

VOCABULARY, HIDDEN, HEADS, KV_HEADS, HEAD_DIM = 300, 64, 4, 2, 16
TAPS = (2, 4, 5)


def make_tokenizer(folder: str) -> None:
    special = ["<|im_start|>", "<|im_end|>", "<|unused|>"]
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    names = special + alphabet
    model = tokenizers.Tokenizer(tokenizers.models.BPE(
        {name: i for i, name in enumerate(names)}, []))
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(False)
    model.decoder = tokenizers.decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=model, eos_token="<|im_end|>",
        bos_token="<|im_start|>", additional_special_tokens=["<|unused|>"])
    fast.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}"
        "<|im_end|>\n{% endfor %}<|im_start|>assistant\n")
    fast.save_pretrained(folder)


def make_model(folder: str, kind: str) -> torch.nn.Module:
    torch.manual_seed(3)
    config = getattr(transformers, kind + "Config")(
        vocab_size=VOCABULARY, hidden_size=HIDDEN, intermediate_size=96,
        num_hidden_layers=8, num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM,
        max_position_embeddings=512, eos_token_id=1, bos_token_id=0,
        pad_token_id=1, initializer_range=0.25, tie_word_embeddings=True)
    model = getattr(transformers, kind + "ForCausalLM")(config).eval()
    model.save_pretrained(folder)
    return model


T = TypeVar("T")


def quietly(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    with contextlib.redirect_stdout(io.StringIO()):
        return function(*args, **kwargs)


def eagle_head(mode: str) -> EagleHead:
    torch.manual_seed(5)
    return EagleHead(EagleShape(mode, HIDDEN, 96, HEADS, KV_HEADS, HEAD_DIM,
                                1e-5, 10000.0, torch.float32))


def block_drafter(layers: int = 2) -> BlockDrafter:
    torch.manual_seed(6)
    return BlockDrafter(BlockShape(layers, 5, 3, HIDDEN, 96, HEADS, KV_HEADS,
                                   HEAD_DIM, 1e-5, 10000.0, torch.float32))


def random_text(length: int, texts: int = 1) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(7)
    return (torch.randn(texts, length, HIDDEN, generator=generator),
            torch.randn(texts, length, 4, HIDDEN, generator=generator))
