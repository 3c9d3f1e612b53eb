#!/usr/bin/env python3
"""Trains a DFlash block drafter on a corpus of generate.py.

Random positions of every text are anchors: from the target's states before it
and from the anchor's token the drafter predicts the whole block after it in one
pass. It learns the target's distribution at each position of the block; earlier
positions weigh more, as nothing after a wrong token is ever used.

    train_dflash.py MODEL_FOLDER CORPUS_FOLDER OUT_FOLDER

Run again with the same settings it goes on where it was stopped.
"""

import argparse
import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from batches import Batch, plan
from block_drafter import BlockDrafter, BlockShape
from chat_format import ChatTokenizer
from checkpoint_layout import dflash_config, save_drafter
from corpus import Text
from distillation import soft_cross_entropy, teacher_probabilities
from held_out import evaluate_by_depth
from trainer_flags import (Workbench, add_training, open_workbench, recipe_of,
                           rhythm_of, target_name)
from training_loop import Trainer


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_training(p, rate=1.5e-3, clip=1.0)
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--block", type=int, default=8,
                   help="anchor and predicted tokens together (8)")
    p.add_argument("--anchors", type=int, default=16,
                   help="blocks per text and visit (16)")
    p.add_argument("--gamma", type=float, default=4.0,
                   help="weight of position d is exp(-(d - 1) / gamma) (4)")
    p.add_argument("--mask-token", help="a special token that no text has (the "
                   "last one of the tokenizer)")
    return p


def mask_token(args: argparse.Namespace) -> int:
    tokenizer = ChatTokenizer(args.model)
    chat, special = tokenizer.format, tokenizer.special_tokens()
    used = {*chat.prefix, *chat.turn, *chat.ends}
    unused = {n: t for n, t in special.items() if t not in used}
    name = args.mask_token or max(unused, key=unused.__getitem__, default=None)
    if name not in unused:
        raise SystemExit(f"--mask-token: {name} is not an unused special token"
                         f" ({', '.join(unused)})")
    return unused[name]


def random_anchors(lengths: Tensor, first: Tensor, count: int, seed: int
                   ) -> Tensor:
    """[B, count] positions in [first - 1, length - 2]: one token to predict."""
    generator = torch.Generator().manual_seed(seed)
    share = torch.rand(len(lengths), count, generator=generator,
                       dtype=torch.float64).to(lengths.device)
    room = (lengths - first).clamp(min=1)
    return first[:, None] - 1 + (share * room[:, None]).long()


class BlockObjective:
    def __init__(self, drafter: BlockDrafter, bench: Workbench, args: argparse.Namespace,
                 mask: int) -> None:
        self._drafter, self._bench, self._args = drafter, bench, args
        self._mask = bench.target.embeddings[mask]

    def loss(self, texts: list[Text], step: int) -> tuple[Tensor, int]:
        batch = self._bench.reader.read(texts)
        first = torch.full_like(batch.lengths, self._bench.corpus.prefix_length)
        total = torch.zeros((), device=batch.ids.device)
        seed = self._args.seed * 1_000_003 + step
        for d, (loss, _, _) in enumerate(self._positions(batch, first, seed)):
            total = total + math.exp(-d / self._args.gamma) * loss
        return total, batch.tokens

    def evaluate(self, limit: int | None) -> dict:
        """On answers; by position in the block."""
        return evaluate_by_depth(
            self._bench, self._args, limit, self._args.block - 1,
            lambda batch: self._positions(batch, batch.answer_at, 0))

    def _positions(self, batch: Batch, first: Tensor, seed: int
                   ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Per position after the anchors: loss, best draft ids, and the flat
        positions whose next tokens those are."""
        target, rows_out = self._bench.target, self._bench.output_rows
        anchors = random_anchors(batch.lengths, first, self._args.anchors, seed)
        embeddings = F.embedding(batch.ids.gather(1, anchors), target.embeddings)
        output = self._drafter(embeddings, self._mask, batch.taps, anchors)
        teacher = teacher_probabilities(batch.final.flatten(0, 1), rows_out)
        length = batch.ids.shape[1]
        text = torch.arange(len(anchors), device=anchors.device)[:, None]
        for d in range(1, self._args.block):
            real = (anchors + d < batch.lengths[:, None]).flatten()
            before = (text * length + anchors + d - 1).flatten()[real]
            loss, best = soft_cross_entropy(
                output[:, :, d - 1].flatten(0, 1)[real], rows_out, teacher,
                before)
            yield loss, best, before


def export(drafter: BlockDrafter, bench: Workbench, args: argparse.Namespace,
           mask: int, trainer: Trainer) -> None:
    target = bench.target.config
    maps = {} if bench.vocabulary.is_full else {
        "d2t": bench.vocabulary.offsets()}
    save_drafter(trainer.folder, drafter.state_dict(), maps, dflash_config(
        drafter.shape, bench.vocabulary, bench.corpus.taps, target_name(args),
        target.max_positions, target.layers, mask))


def main(argv: list[str] | None = None, until: int | None = None) -> None:
    args = parser().parse_args(argv)
    bench, mask = open_workbench(args), mask_token(args)
    if 0 in bench.corpus.taps:
        raise SystemExit("DFlash taps outputs of layers: the corpus must not "
                         "tap the embedding (0)")
    c = bench.target.config
    drafter = BlockDrafter(BlockShape(
        args.layers, args.block, len(bench.corpus.taps), c.hidden,
        args.intermediate or c.intermediate, c.heads, c.kv_heads, c.head_dim,
        c.eps, c.rope_theta)).to(args.device)
    objective = BlockObjective(drafter, bench, args, mask)
    trainer = Trainer(drafter, args.out, recipe_of(args, bench),
                      rhythm_of(args), objective.loss, objective.evaluate,
                      args.start_from)
    trainer.run(plan(bench.train, args.tokens, args.seed, args.epochs), until)
    export(drafter, bench, args, mask, trainer)


if __name__ == "__main__":
    main()
