#!/usr/bin/env python3
"""Writes greedy texts of Hugging Face transformers for hf_parity_test.

    python3 make_hf_goldens.py MODEL_FOLDER goldens/NAME.json

Float32, no batching. Per prompt: its token ids, the ids that follow, and how
far the best token led at each step (the difference of the two best logits):
where that is tiny, another order of summation may decide otherwise. Needs
torch and transformers.
"""
import argparse
import json
import pathlib

import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

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
    "The three laws of motion are:\n1.",
    "{\"name\": \"Ada\", \"born\": 1815, ",
]


def prompts(folder, config):
    if config["model_type"] == "gpt2":
        # The model loops soon: pieces of its book, of many lengths.
        book = (folder / "train.txt").read_text()
        return [book[12000 * i:][:2 + 15 * i] for i in range(10)]
    chats = [f"<|im_start|>user\n{q}<|im_end|>\n<|im_start|>assistant\n"
             for q in QUESTIONS]
    return chats + TEXTS


@torch.inference_mode()
def greedy(model, prompt, max_tokens, eos):
    ids, margins, past = [], [], None
    step = torch.tensor([prompt])
    while len(ids) < max_tokens:
        out = model(step, past_key_values=past, use_cache=True)
        past = out.past_key_values
        best = out.logits[0, -1].topk(2)
        ids.append(best.indices[0].item())
        margins.append(round((best.values[0] - best.values[1]).item(), 5))
        if ids[-1] == eos:
            break
        step = torch.tensor([ids[-1:]])
    return {"prompt": prompt, "tokens": ids, "margins": margins}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("golden", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    config = json.loads((arguments.model / "config.json").read_text())
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(arguments.model / "tokenizer.json"))
    model = AutoModelForCausalLM.from_pretrained(
        arguments.model, torch_dtype=torch.float32).eval()
    max_tokens = 100 if config["model_type"] == "gpt2" else 64
    texts = []
    for prompt in prompts(arguments.model, config):
        ids = tokenizer(prompt)["input_ids"]
        texts.append(greedy(model, ids, max_tokens, config["eos_token_id"]))
        print(f"{len(texts)}: {tokenizer.decode(texts[-1]['tokens'])!r}",
              flush=True)
    lines = ",\n".join(json.dumps(text) for text in texts)
    arguments.golden.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
