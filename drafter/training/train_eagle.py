#!/usr/bin/env python3
"""Trains an EAGLE draft head on a corpus of generate.py.

Training-time test: the head is unrolled over several steps on its own outputs,
as at inference, and learns the target's whole distribution at each of them. Its
output rows are the target's own rows of the draft vocabulary, frozen.

    train_eagle.py MODEL_FOLDER CORPUS_FOLDER OUT_FOLDER

Run again with the same settings it goes on where it was stopped.
"""

import argparse
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from batches import Batch, plan
from checkpoint_layout import eagle_config, save_drafter
from corpus import Text
from distillation import soft_cross_entropy, teacher_probabilities
from eagle_head import MODES, TAPS, EagleHead, EagleShape
from held_out import evaluate_by_depth
from target_model import TargetConfig
from trainer_flags import (Workbench, add_training, open_workbench, recipe_of,
                           rhythm_of, target_name)
from training_loop import Trainer


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_training(p, rate=1.5e-3, clip=0.5)
    p.add_argument("--mode", choices=MODES, default=MODES[0])
    p.add_argument("--depth", type=int, default=4,
                   help="steps of the training-time test (4)")
    p.add_argument("--decay", type=float, default=0.8,
                   help="weight of each step relative to the one before (0.8)")
    p.add_argument("--self-contained", action="store_true",
                   help="export copies of the target's rows as well, for "
                        "loaders that want them")
    return p


def shape_of(mode: str, config: TargetConfig, intermediate: int | None
             ) -> EagleShape:
    return EagleShape(mode, config.hidden, intermediate or config.intermediate,
                      config.heads, config.kv_heads, config.head_dim,
                      config.eps, config.rope_theta)


def predicted_rows(batch: Batch, step: int, first: Tensor
                   ) -> tuple[Tensor, Tensor]:
    """Flat indices of the rows that predict a token at or after `first` [B]
    at this step, and of the positions whose next token that is."""
    length = batch.ids.shape[1]
    row = torch.arange(length, device=batch.ids.device)[None]
    token = row + 2 + step
    wanted = (token >= first[:, None]) & (token < batch.lengths[:, None])
    rows = wanted.flatten().nonzero()[:, 0]
    return rows, rows + 1 + step


class EagleObjective:
    def __init__(self, head: EagleHead, bench: Workbench, args: argparse.Namespace) -> None:
        self._head, self._bench, self._args = head, bench, args

    def loss(self, texts: list[Text], step: int) -> tuple[Tensor, int]:
        batch = self._bench.reader.read(texts)
        first = torch.full_like(batch.lengths, self._bench.corpus.prefix_length)
        total = torch.zeros((), device=batch.ids.device)
        for j, (loss, _, output, rows) in enumerate(
                self._steps(batch, first)):
            if self._head.shape.is_eagle1:
                loss = 0.1 * loss + self._regression(batch, output, rows, j)
            total = total + self._args.decay ** j * loss
        return total, batch.tokens

    def evaluate(self, limit: int | None) -> dict:
        """On answers."""
        def guesses(batch: Batch) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
            for j, (loss, best, _, rows) in enumerate(
                    self._steps(batch, batch.answer_at)):
                yield loss, best, rows + 1 + j

        return evaluate_by_depth(self._bench, self._args, limit,
                                 self._args.depth, guesses)

    def _steps(self, batch: Batch, first: Tensor
               ) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Per step: loss, best draft ids, the head's outputs, their rows."""
        target, rows_out = self._bench.target, self._bench.output_rows
        teacher = teacher_probabilities(batch.final.flatten(0, 1), rows_out)
        embeddings = F.embedding(batch.ids, target.embeddings)
        for j, output in enumerate(self._head.unroll(
                embeddings, batch.states, self._args.depth)):
            rows, positions = predicted_rows(batch, j, first)
            output = output.flatten(0, 1)[rows]
            loss, best = soft_cross_entropy(
                self._head.readout(output), rows_out, teacher, positions)
            yield loss, best, output, rows

    @staticmethod
    def _regression(batch: Batch, output: Tensor, rows: Tensor, step: int
                    ) -> Tensor:
        wanted = batch.final.flatten(0, 1)[rows + 1 + step].float()
        return F.smooth_l1_loss(output, wanted)


def export(head: EagleHead, bench: Workbench, args: argparse.Namespace,
           trainer: Trainer) -> None:
    weights, maps = head.state_dict(), {}
    config = eagle_config(head.shape, bench.vocabulary, bench.corpus.taps,
                          target_name(args), bench.target.config.max_positions)
    if not bench.vocabulary.is_full:
        maps = {"d2t": bench.vocabulary.offsets(),
                "t2d": bench.vocabulary.membership()}
    if args.self_contained and head.shape.is_eagle1:
        weights["embed_tokens.weight"] = bench.target.embeddings
    elif args.self_contained:
        weights["lm_head.weight"] = bench.output_rows
    save_drafter(trainer.folder, weights, maps, config)


def check(args: argparse.Namespace, bench: Workbench) -> None:
    if args.mode == "eagle1" and not bench.vocabulary.is_full:
        raise SystemExit("eagle1 has no draft vocabulary: --vocabulary 0")
    if args.mode != "eagle1" and len(bench.corpus.taps) != TAPS:
        raise SystemExit(f"{args.mode} wants {TAPS} taps, the corpus has "
                         f"{len(bench.corpus.taps)}")


def main(argv: list[str] | None = None, until: int | None = None) -> None:
    args = parser().parse_args(argv)
    bench = open_workbench(args)
    check(args, bench)
    head = EagleHead(shape_of(args.mode, bench.target.config,
                              args.intermediate)).to(args.device)
    objective = EagleObjective(head, bench, args)
    trainer = Trainer(head, args.out, recipe_of(args, bench), rhythm_of(args),
                      objective.loss, objective.evaluate,
                      args.start_from)
    trainer.run(plan(bench.train, args.tokens, args.seed, args.epochs), until)
    export(head, bench, args, trainer)


if __name__ == "__main__":
    main()
