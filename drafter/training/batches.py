"""Batches of a corpus in an order that depends on the seed alone."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from corpus import Corpus, Text
from target_model import Target

_BUCKET = 256


@dataclass(frozen=True)
class Batch:
    """Texts padded to one length S; rows after a text's length are zero."""
    ids: Tensor         # [B, S] int64
    best: Tensor        # [B, S] int64: the target's choice after each token
    states: Tensor      # [B, S, taps + 1, H] bfloat16
    lengths: Tensor     # [B]
    answer_at: Tensor   # [B]

    @property
    def taps(self) -> Tensor:
        return self.states[:, :, :-1]

    @property
    def final(self) -> Tensor:
        return self.states[:, :, -1]

    @property
    def tokens(self) -> int:
        return int(self.lengths.sum())


class BatchReader:
    """Reads texts; where a corpus has no states, the target makes them."""

    def __init__(self, corpus: Corpus, target: Target) -> None:
        self._corpus, self._target = corpus, target

    def read(self, texts: list[Text]) -> Batch:
        device = self._target.device

        def padded(column: str) -> Tensor:
            return torch.nn.utils.rnn.pad_sequence(
                [self._corpus.read(t, column) for t in texts],
                batch_first=True).to(device)

        def numbers(values: list[int]) -> Tensor:
            return torch.tensor(values, device=device)

        ids = padded("ids").long()
        if self._corpus.has_states:
            states = padded("states")
        else:
            states = self._target.forward(
                ids, torch.zeros_like(ids[:, 0]), self._corpus.taps).bfloat16()
        return Batch(ids, padded("best").long(), states,
                     numbers([t.length for t in texts]),
                     numbers([t.answer_at for t in texts]))


def split_texts(corpus: Corpus, keep: dict[str, float], held_out: float
                ) -> tuple[list[Text], list[Text]]:
    """Training texts and held-out ones, of the kept share of each domain."""
    def kept(text: Text) -> bool:
        share = keep.get(text.record["domain"], 0.0)
        return random.Random(f"keep/{text.record['number']}").random() < share

    texts = [t for t in corpus.texts if kept(t)]
    sides: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
    for text in sorted(texts, key=lambda t: t.record["number"]):
        sides[text.is_held_out(held_out)].append(text)
    if not all(sides):
        raise ValueError(f"{corpus.folder}: {len(sides[0])} texts to train on, "
                         f"{len(sides[1])} held out; both are needed")
    return sides


def plan_epoch(texts: list[Text], tokens: int, seed: int, epoch: int
               ) -> list[list[Text]]:
    """Batches of at most `tokens` padded tokens, of texts of similar length."""
    rng = random.Random(f"epoch/{seed}/{epoch}")
    order = rng.sample(texts, len(texts))
    batches: list[list[Text]] = []
    for start in range(0, len(order), _BUCKET):
        bucket = sorted(order[start:start + _BUCKET], key=lambda t: t.length)
        batch: list[Text] = []
        for text in bucket:
            if batch and (len(batch) + 1) * text.length > tokens:
                batches.append(batch)
                batch = []
            batch.append(text)
        batches.append(batch)
    rng.shuffle(batches)
    return batches


def plan(texts: list[Text], tokens: int, seed: int, epochs: int
         ) -> Iterator[list[Text]]:
    for epoch in range(epochs):
        yield from plan_epoch(texts, tokens, seed, epoch)
