#!/usr/bin/env python3
"""The target writes text for the n-gram drafter's table.

An n-gram drafter guesses best when its counts come from the very model it
drafts for. So the chat template is opened up to the user's turn, behind a short
stem, and the model invents the question and then the answer.

    self_text.py MODEL_FOLDER OUT.txt [--samples 192] [--seed 1]

Needs torch and transformers (nobody needs them to run Espalier: the text that
this made is committed as deploy/ngram/smollm2-135m-instruct.txt).
"""

import argparse

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

BATCH = 32
SYSTEM = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained "
    "by Hugging Face<|im_end|>\n<|im_start|>user\n"
)
STEMS = [
    "", "What is", "How do I", "Can you explain", "Write a short", "Why do",
    "Give me three", "What are the", "Summarize the following text:",
    "Tell me about", "Write a Python function that", "Rewrite this sentence",
    "I want to learn", "Help me plan", "What would happen if", "List the",
    "Solve the following", "Compare", "Describe", "Write an email to",
    "Is it true that", "Explain the difference between", "How many", "Who was",
    "A train leaves", "Write a story about", "What does this code do?",
    "Make a list of", "Correct the grammar", "Translate",
]


def complete(model, tokenizer, prompts, max_new_tokens, temperature):
    """The texts that follow `prompts`, up to the end-of-turn token."""
    batch = tokenizer(prompts, return_tensors="pt", padding=True,
                      return_token_type_ids=False)
    with torch.inference_mode():
        out = model.generate(
            **batch, max_new_tokens=max_new_tokens, do_sample=True,
            temperature=temperature, top_p=0.95, top_k=0)
    new = out[:, batch.input_ids.shape[1]:]
    return tokenizer.batch_decode(new, skip_special_tokens=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--samples", type=int, default=192)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(args.model, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(args.model,
                                                 dtype=torch.float32)
    with open(args.out, "w", encoding="utf-8") as out:
        for start in range(0, args.samples, BATCH):
            stems = [STEMS[i % len(STEMS)]
                     for i in range(start, min(start + BATCH, args.samples))]
            questions = [
                stem + text for stem, text in zip(stems, complete(
                    model, tokenizer, [SYSTEM + s for s in stems], 48, 1.0))]
            prompts = [SYSTEM + q + "<|im_end|>\n<|im_start|>assistant\n"
                       for q in questions]
            answers = complete(model, tokenizer, prompts, 200, 0.6)
            for question, answer in zip(questions, answers):
                out.write(f"{question.strip()}\n{answer.strip()}\n\n")
            out.flush()
            print(f"{start + len(stems)} of {args.samples} samples", flush=True)


if __name__ == "__main__":
    main()
