"""Many texts at once: a slot that finishes its text takes the next one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from authors import AnswerAuthor
from gumbel_noise import gumbel_noise
from target_model import Target
from token_sampling import draw

# Draws the next token of every author from its row of logits [B, V].
Draw = Callable[[Tensor, list[AnswerAuthor]], list[int]]


@dataclass(frozen=True)
class WrittenText:
    """ids [n]; best [n]: the target's choice after each; states [n, taps+1, H]."""
    author: AnswerAuthor
    ids: Tensor
    best: Tensor
    states: Tensor


def draw_independently(logits: Tensor, authors: list[AnswerAuthor]
                       ) -> list[int]:
    """Ordinary sampling; each author has its own generator."""
    def column(values: list[float]) -> Tensor:
        return torch.tensor(values, device=logits.device)

    return draw(logits, column([a.temperature for a in authors]),
                column([a.min_p for a in authors]),
                column([a.rng.random() for a in authors])).tolist()


def draw_coupled(logits: Tensor, authors: list[AnswerAuthor]) -> list[int]:
    """argmax of log q + g(seed, position): the text that the engine writes."""
    out = logits.max(-1).indices.tolist()
    tokens = torch.arange(logits.shape[-1])
    for row, author in enumerate(authors):
        if author.temperature > 0 and not author.forced:
            position = torch.tensor([len(author.ids) + 1])
            noise = gumbel_noise(author.seed, position, tokens)[0]
            scores = logits[row].cpu() / author.temperature + noise
            out[row] = int(scores.argmax())
    return out


class BatchWriter:
    def __init__(self, target: Target, taps: tuple[int, ...], slots: int, capacity: int,
                 prefix: Sequence[int] = ()) -> None:
        """Every text must begin with `prefix` and fit into `capacity` tokens."""
        self._target, self._taps = target, taps
        self._cache = target.new_cache(slots, capacity)
        config = target.config
        self._states = torch.zeros(
            slots, capacity, len(taps) + 1, config.hidden,
            dtype=torch.bfloat16, device=target.device)
        self._best = torch.zeros(slots, capacity, dtype=torch.int32,
                                 device=target.device)
        self._authors: list[AnswerAuthor | None] = [None] * slots
        # The last token of the prefix is fed, to have its logits.
        self._shared = max(len(prefix) - 1, 0)
        if self._shared:
            self._run_prefix(list(prefix[:-1]))

    def write(self, authors: Iterator[AnswerAuthor], pick: Draw
              ) -> Iterator[WrittenText]:
        """Texts in the order in which they end."""
        for slot in range(len(self._authors)):
            self._admit(slot, authors)
        while any(self._authors):
            yield from self._step(authors, pick)

    def _run_prefix(self, prefix: list[int]) -> None:
        ids = torch.tensor([prefix], device=self._target.device)
        self._prefix_cache = self._target.new_cache(1, len(prefix))
        states = self._target.forward(
            ids, torch.zeros_like(ids[:, 0]), self._taps, self._prefix_cache)[0]
        self._states[:, :len(prefix)] = states.bfloat16()
        self._best[:, :len(prefix)] = self._target.logits(
            states[:, -1]).max(-1).indices.int()

    def _admit(self, slot: int, authors: Iterator[AnswerAuthor]) -> None:
        author = next(authors, None)
        self._authors[slot] = author
        if author and self._shared:
            author.skip(self._shared)
            self._cache.copy_rows(self._prefix_cache, slot, self._shared)

    def _step(self, authors: Iterator[AnswerAuthor], pick: Draw
              ) -> Iterator[WrittenText]:
        device = self._target.device
        live = [s for s, author in enumerate(self._authors) if author]
        pending = [a.pending if a else 0 for a in self._authors]
        lengths = [len(a.ids) if a else 0 for a in self._authors]
        positions = torch.tensor(lengths, device=device)
        states = self._target.forward(
            torch.tensor(pending, device=device)[:, None], positions,
            self._taps, self._cache)[:, 0]
        rows = torch.arange(len(lengths), device=device)
        self._states[rows, positions] = states.bfloat16()
        logits = self._target.logits(states[live, -1]).float()
        self._best[live, positions[live]] = logits.max(-1).indices.int()
        writing = [author for author in self._authors if author]
        drawn = pick(logits, writing)
        for slot, author, token in zip(live, writing, drawn):
            if not author.advance(token):
                yield self._finish(slot, author)
                self._admit(slot, authors)

    def _finish(self, slot: int, author: AnswerAuthor) -> WrittenText:
        length = len(author.ids)
        return WrittenText(author, torch.tensor(author.ids, dtype=torch.int32),
                           self._best[slot, :length].cpu().clone(),
                           self._states[slot, :length].cpu().clone())
