#!/usr/bin/env python3
"""The target writes the text that its drafters learn from.

The prompt is the chat template up to the user's turn and a short stem; the
target invents the question, then answers it: a third of the answers greedily, a
third at temperature 0.8, a third at 1. The hidden states that drafters read
(the residual stream at a few layers, the final state) are stored as well.

    generate.py MODEL_FOLDER CORPUS_FOLDER --texts 4000

Run again with the same settings, it continues where it was stopped. A text is a
function of (seed, number) up to the rounding of the products that its
neighbours share. Several processes with --worker 0/2, --worker 1/2 share the work.
"""

import argparse
import pathlib
import random
import time
from collections.abc import Iterator

import torch

from authors import Limits, SelfAuthor
from batch_writer import BatchWriter, draw_independently
from chat_format import ChatTokenizer
from command_line import add_machine, pairs, use_threads
from corpus import Corpus, CorpusWriter
from stems import STEMS, choose
from target_model import Target

TEMPERATURES = (0.0, 0.8, 1.0)


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("model", help="Hugging Face folder of the target")
    p.add_argument("corpus", help="folder to write, or to go on with")
    p.add_argument("--texts", type=int, required=True,
                   help="how many texts the corpus has in the end")
    p.add_argument("--domains", type=pairs,
                   default=pairs("chat=0.6,math=0.35,open=0.05"),
                   help="share of each domain (chat=0.6,math=0.35,open=0.05)")
    p.add_argument("--taps", type=lambda s: tuple(map(int, s.split(","))),
                   help="store the input of these layers (2, L/2, L-3)")
    p.add_argument("--no-states", action="store_true",
                   help="store tokens only; the trainer runs the target again")
    p.add_argument("--question-limit", type=int, default=72)
    p.add_argument("--answer-limit", type=int, default=256)
    p.add_argument("--slots", type=int, default=64,
                   help="texts written at once (64; a GPU takes 512)")
    p.add_argument("--worker", default="0/1", help="this process / processes")
    p.add_argument("--seed", type=int, default=1)
    add_machine(p)
    return p


def authors(args: argparse.Namespace, numbers: Iterator[int],
            tokenizer: ChatTokenizer, limits: Limits) -> Iterator[SelfAuthor]:
    for number in numbers:
        rng = random.Random(f"plan/{args.seed}/{number}")
        domain, stem = choose(args.domains, rng)
        yield SelfAuthor(number, args.seed, domain, tokenizer.encode(stem),
                         rng.choice(TEMPERATURES), tokenizer.format, limits)


def numbers_to_write(corpus: str, texts: int, worker: str) -> list[int]:
    index, workers = map(int, worker.split("/"))
    done = {t.record["number"] for t in Corpus(corpus).texts}
    return [n for n in range(index, texts, workers) if n not in done]


def main(argv: list[str] | None = None) -> None:
    args = parser().parse_args(argv)
    use_threads(args.threads)
    target = Target(args.model, device=args.device)
    tokenizer = ChatTokenizer(args.model)
    limits = Limits(question=args.question_limit, answer=args.answer_limit)
    taps = args.taps or target.config.default_taps()
    chat = tokenizer.format
    out = CorpusWriter(args.corpus, {
        "model": pathlib.Path(args.model).resolve().name, "taps": taps,
        "prefix_length": len(chat.prefix), "seed": args.seed,
        "domains": args.domains, "temperatures": TEMPERATURES,
        "limits": vars(limits)}, int(args.worker.split("/")[0]),
        keep_states=not args.no_states)
    numbers = numbers_to_write(args.corpus, args.texts, args.worker)
    longest_stem = max(len(tokenizer.encode(stem))
                       for stems in STEMS.values() for stem in stems)
    capacity = (len(chat.prefix) + max(limits.question, longest_stem + 1)
                + len(chat.turn) + limits.answer)
    writer = BatchWriter(target, taps, min(args.slots, max(1, len(numbers))),
                         capacity, chat.prefix)
    started = reported = time.monotonic()
    texts = tokens = 0
    for text in writer.write(authors(args, iter(numbers), tokenizer, limits),
                             draw_independently):
        out.add(text)
        texts, tokens = texts + 1, tokens + len(text.ids)
        now = time.monotonic()
        if now - reported > 30 or texts == len(numbers):
            reported = now
            print(f"{texts} of {len(numbers)} texts, {tokens} tokens, "
                  f"{tokens / (now - started):.0f} tokens/s", flush=True)
    out.flush()


if __name__ == "__main__":
    main()
