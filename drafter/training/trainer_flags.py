"""What both trainers take and set up alike."""

import argparse
import pathlib
from dataclasses import dataclass

import torch
from torch import Tensor

from batches import BatchReader, plan, split_texts
from command_line import add_machine, pairs, use_threads
from corpus import Corpus, Text
from draft_vocabulary import DraftVocabulary, coverage, most_frequent
from target_model import Target
from training_loop import Recipe, Rhythm


def add_training(p: argparse.ArgumentParser, rate: float, clip: float) -> None:
    p.add_argument("model", help="Hugging Face folder of the target")
    p.add_argument("corpus", help="folder that generate.py wrote")
    p.add_argument("out", help="folder for the drafter, its log and checkpoint")
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--keep", type=pairs, default=pairs("chat=1,math=1,open=1"),
                   help="share of each domain's texts (chat=1,math=1,open=1)")
    p.add_argument("--vocabulary", type=int, default=8192,
                   help="tokens that the drafter can propose; 0: all (8192)")
    p.add_argument("--intermediate", type=int,
                   help="width of the MLP (the target's)")
    p.add_argument("--tokens", type=int, default=2700,
                   help="tokens in a batch, with padding (2700; a GPU 16384)")
    p.add_argument("--start-from", metavar="FILE",
                   help="checkpoint.pt of an earlier run: begin with its weights")
    p.add_argument("--rate", type=float, default=rate)
    p.add_argument("--warmup", type=int, default=60, help="steps (60)")
    p.add_argument("--clip", type=float, default=clip)
    p.add_argument("--weight-decay", type=float, default=0.01)
    p.add_argument("--held-out", type=float, default=0.05,
                   help="share of the prompts that are not trained on (0.05)")
    p.add_argument("--save-every", type=int, default=100, help="steps (100)")
    p.add_argument("--evaluate-every", type=int, default=200,
                   help="steps (200)")
    p.add_argument("--seed", type=int, default=1)
    add_machine(p)


@dataclass(frozen=True)
class Workbench:
    """Data and target of a training run."""
    target: Target
    corpus: Corpus
    train: list[Text]
    held_out: list[Text]
    vocabulary: DraftVocabulary
    output_rows: Tensor     # of the draft vocabulary [Vd, H]
    tokens: Tensor          # the draft vocabulary on the device [Vd]
    reader: BatchReader


def open_workbench(args: argparse.Namespace) -> Workbench:
    use_threads(args.threads)
    torch.manual_seed(args.seed)
    target, corpus = Target(args.model, device=args.device), Corpus(args.corpus)
    train, held_out = split_texts(corpus, args.keep, args.held_out)
    vocabulary = most_frequent(corpus, train, args.vocabulary,
                               target.config.vocabulary)
    print(f"{len(train)} texts of {sum(t.length for t in train)} tokens; "
          f"{len(held_out)} held out, of whose answers the draft vocabulary "
          f"covers {coverage(corpus, held_out, vocabulary):.4f}", flush=True)
    tokens = vocabulary.tokens.to(args.device)
    return Workbench(target, corpus, train, held_out, vocabulary,
                     target.output_rows[tokens], tokens,
                     BatchReader(corpus, target))


def recipe_of(args: argparse.Namespace, bench: Workbench) -> Recipe:
    about_the_run = {"model", "corpus", "out", "device", "threads",
                     "save_every", "evaluate_every", "self_contained"}
    settings = {k: v for k, v in vars(args).items() if k not in about_the_run}
    return Recipe(
        steps=sum(1 for _ in plan(bench.train, args.tokens, args.seed,
                                  args.epochs)),
        rate=args.rate, warmup=args.warmup, weight_decay=args.weight_decay,
        clip=args.clip, settings=settings | {"texts": len(bench.train)})


def rhythm_of(args: argparse.Namespace) -> Rhythm:
    return Rhythm(args.save_every, args.evaluate_every)


def target_name(args: argparse.Namespace) -> str:
    return pathlib.Path(args.model).resolve().name


def spread(texts: list[Text], limit: int | None) -> list[Text]:
    """At most `limit` texts, evenly spread."""
    if limit is None or len(texts) <= limit:
        return texts
    return [texts[i * len(texts) // limit] for i in range(limit)]
