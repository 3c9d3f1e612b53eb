"""Loss and top-1 of a drafter on held-out texts."""

import argparse
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from batches import Batch, plan_epoch
from trainer_flags import Workbench, spread

# For each depth of a batch: the mean loss, the best draft ids, and the flat positions whose
# next tokens those ids predict.
Guesses = Callable[[Batch], Iterator[tuple[Tensor, Tensor, Tensor]]]


def evaluate_by_depth(bench: Workbench, args: argparse.Namespace,
                      limit: int | None, depths: int, guesses: Guesses
                      ) -> dict:
    """Top-1 is against the target's best token of its whole vocabulary."""
    loss, hits, count = (torch.zeros(depths, dtype=torch.float64)
                         for _ in range(3))
    texts = spread(bench.held_out, limit)
    for part in plan_epoch(texts, args.tokens, 0, 0):
        batch = bench.reader.read(part)
        for d, (mean, best, positions) in enumerate(guesses(batch)):
            wanted = batch.best.flatten()[positions]
            loss[d] += float(mean) * len(positions)
            hits[d] += float((bench.tokens[best] == wanted).sum())
            count[d] += len(positions)
    count.clamp_(min=1)
    return {"held_out_loss": (loss / count).tolist(),
            "held_out_top1": (hits / count).tolist()}
