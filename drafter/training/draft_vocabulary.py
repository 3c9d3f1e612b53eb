"""The tokens a drafter can propose: the most frequent ones of its corpus."""

from dataclasses import dataclass

import torch
from torch import Tensor

from corpus import Corpus, Text


@dataclass(frozen=True)
class DraftVocabulary:
    """`tokens` [Vd]: ids in the target's vocabulary, ascending."""
    tokens: Tensor
    target_size: int

    @staticmethod
    def full(target_size: int) -> "DraftVocabulary":
        return DraftVocabulary(torch.arange(target_size), target_size)

    @staticmethod
    def from_offsets(d2t: Tensor, target_size: int) -> "DraftVocabulary":
        """Raises ValueError for ids that are unordered or out of range."""
        tokens = d2t.long() + torch.arange(len(d2t))
        if (tokens.diff() <= 0).any() or tokens[0] < 0 \
                or tokens[-1] >= target_size:
            raise ValueError("d2t: token ids not ascending or out of range")
        return DraftVocabulary(tokens, target_size)

    @property
    def is_full(self) -> bool:
        return len(self.tokens) == self.target_size

    def offsets(self) -> Tensor:
        """d2t: target id = draft id + offset."""
        return self.tokens - torch.arange(len(self.tokens))

    def membership(self) -> Tensor:
        """t2d: for every target id whether it can be proposed."""
        member = torch.zeros(self.target_size, dtype=torch.bool)
        member[self.tokens] = True
        return member


def most_frequent(corpus: Corpus, texts: list[Text], size: int,
                  target_size: int) -> DraftVocabulary:
    """Counts what was written and what the target would have put there."""
    if size >= target_size or size <= 0:
        return DraftVocabulary.full(target_size)
    counts = torch.zeros(target_size, dtype=torch.int64)
    for text in texts:
        for column in ("ids", "best"):
            ids = corpus.read(text, column)[corpus.prefix_length:].long()
            counts += torch.bincount(ids, minlength=target_size)
    order = counts.argsort(descending=True, stable=True)
    return DraftVocabulary(order[:size].sort().values, target_size)


def coverage(corpus: Corpus, texts: list[Text], vocabulary: DraftVocabulary
             ) -> float:
    """Share of the answers' tokens that can be proposed."""
    member = vocabulary.membership()
    answers = torch.cat([corpus.read(t, "ids")[t.answer_at:] for t in texts])
    return float(member[answers.long()].float().mean())
