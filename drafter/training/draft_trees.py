"""Trees over stored texts, and how much of them the text would have taken.

A root is the last committed token. Drafting needs what lies before it only, so
all roots of a text are drafted at once.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from block_drafter import BlockDrafter
from eagle_head import EagleHead
from layers import attend_grouped

# Beliefs [P, n, Vd] (log) of logits [P, n, Vd] at depth d below each root.
Belief = Callable[[Tensor, int], Tensor]


@dataclass(frozen=True)
class Situation:
    """One text and the roots to draft at. ids [n], states [n, taps + 1, H]."""
    ids: Tensor
    states: Tensor
    roots: Tensor

    def token_at(self, depth: int) -> Tensor:
        """The text's token `depth` after each root, -1 after its end."""
        at = self.roots + depth
        inside = at < len(self.ids)
        return torch.where(inside, self.ids[at.clamp(max=len(self.ids) - 1)], -1)


@dataclass(frozen=True)
class Vocabulary:
    embeddings: Tensor      # of the target [V, H]
    output_rows: Tensor     # of the draft vocabulary [Vd, H]
    tokens: Tensor          # ids of the draft vocabulary [Vd]

    def logits(self, output: Tensor) -> Tensor:
        return (output.to(self.output_rows.dtype) @ self.output_rows.T).float()


@dataclass(frozen=True)
class Drafts:
    """Per root its nodes, best first: their depth if the text goes through
    them, else 0. [P, N]"""
    taken_depth: Tensor

    def accepted(self, nodes: int) -> Tensor:
        return self.taken_depth[:, :nodes].amax(1)


def rank(scores: Tensor, taken: Tensor, depth: Tensor, nodes: int) -> Drafts:
    """The best `nodes` of scored nodes [P, N]; equal scores by index, which
    puts parents first."""
    order = scores.sort(dim=1, descending=True, stable=True).indices[:, :nodes]
    return Drafts(taken.gather(1, order) * depth[order])


class EagleDrafting:
    """EAGLE-2 trees: a beam, whose every candidate is a node."""

    def __init__(self, head: EagleHead, vocabulary: Vocabulary, text: Situation) -> None:
        self._head, self._vocabulary, self._text = head, vocabulary, text
        self._extend()

    def tree(self, belief: Belief, width: int, depth: int, nodes: int
             ) -> Drafts:
        text = self._text
        rows = len(text.roots)
        feature = self._output[text.roots - 1][:, None]
        score = torch.zeros(rows, 1)
        taken = torch.ones(rows, 1, dtype=torch.bool)
        path: list[tuple[Tensor, Tensor]] = []
        levels: list[tuple[Tensor, Tensor, Tensor]] = []
        for d in range(1, depth + 1):
            logits = self._vocabulary.logits(self._head.readout(feature))
            gain, draft = belief(logits, d).topk(width, -1)
            token = self._vocabulary.tokens[draft].flatten(1)
            child_score = (score[..., None] + gain).flatten(1)
            child_taken = (taken.repeat_interleave(width, 1)
                           & (token == text.token_at(d)[:, None]))
            levels.append((child_score, child_taken,
                           torch.full((token.shape[1],), d)))
            if d == depth:
                break
            score, beam = child_score.topk(width, -1)
            parent = beam // width
            taken, token = child_taken.gather(1, beam), token.gather(1, beam)
            path = [(pick(k, parent), pick(v, parent)) for k, v in path]
            feature = self._run(token, pick(feature, parent), d, path)
        scores, takens, depths = (torch.cat(x, -1) for x in zip(*levels))
        return rank(scores, takens, depths, nodes)

    def _extend(self) -> None:
        """Rows 0..n-2: the target's state at i with the token at i + 1."""
        text, head = self._text, self._head
        rows = torch.arange(len(text.ids) - 1)
        feature = head.feature(text.states[:-1])
        residual, inputs = head.enter(
            self._vocabulary.embeddings[text.ids[1:]], feature)
        q, self._keys, self._values = head.project(inputs, rows)
        causal = torch.zeros(len(rows), len(rows)).masked_fill(
            rows[None] > rows[:, None], float("-inf"))
        mixed = attend_grouped(q[None], self._keys.transpose(0, 1)[None],
                               self._values.transpose(0, 1)[None], causal[None])
        self._output = head.leave(residual, mixed[0])

    def _run(self, token: Tensor, feature: Tensor, depth: int,
             path: list[tuple[Tensor, Tensor]]) -> Tensor:
        """Outputs of beam rows [P, k]; appends their keys and values."""
        text, head = self._text, self._head
        residual, inputs = head.enter(self._vocabulary.embeddings[token],
                                      feature)
        positions = (text.roots - 1 + depth)[:, None].expand(token.shape)
        q, k, v = head.project(inputs, positions)
        path.append((k, v))
        return head.leave(residual, attend_path(
            q, self._keys, self._values, text.roots, path))


def pick(x: Tensor, parent: Tensor) -> Tensor:
    """x [P, m, ...] at parent [P, k] -> [P, k, ...]."""
    return x[torch.arange(len(x))[:, None], parent]


def attend_path(q: Tensor, keys: Tensor, values: Tensor, visible: Tensor,
                path: list[tuple[Tensor, Tensor]]) -> Tensor:
    """q [P, k, heads, d] over the first `visible` [P] of keys [S, kv_heads, d]
    and over each row's own path of [P, k, kv_heads, d]. -> [P, k, heads * d]"""
    length, kv_heads, d = keys.shape
    q = q.float().unflatten(2, (kv_heads, -1)) * d ** -0.5
    own_k, own_v = (torch.stack(x, 2).float() for x in zip(*path))
    far = torch.einsum("pkvgd,svd->pkvgs", q, keys.float())
    unseen = torch.arange(length) >= visible[:, None]
    far = far.masked_fill(unseen[:, None, None, None], float("-inf"))
    near = torch.einsum("pkvgd,pkmvd->pkvgm", q, own_k)
    weights = torch.cat((far, near), -1).softmax(-1)
    mixed = (torch.einsum("pkvgs,svd->pkvgd", weights[..., :length],
                          values.float())
             + torch.einsum("pkvgm,pkmvd->pkvgd", weights[..., length:], own_v))
    return mixed.flatten(2)


class BlockDrafting:
    """DDTree: the best prefixes under the block's marginals."""

    def __init__(self, drafter: BlockDrafter, mask_embedding: Tensor, vocabulary: Vocabulary,
                 text: Situation) -> None:
        self._vocabulary, self._text = vocabulary, text
        anchors = vocabulary.embeddings[text.ids[text.roots]]
        output = drafter(anchors[None], mask_embedding,
                         text.states[None, :, :-1], text.roots[None])[0]
        self._logits = vocabulary.logits(output)

    def tree(self, belief: Belief, width: int, depth: int, nodes: int
             ) -> Drafts:
        text = self._text
        depth = min(depth, self._logits.shape[1])
        scores, hits = [], []
        for d in range(1, depth + 1):
            best, draft = belief(self._logits[:, d - 1:d], d)[:, 0].topk(
                width, -1)
            scores.append(best)
            hits.append(self._vocabulary.tokens[draft]
                        == text.token_at(d)[:, None])
        scores = torch.stack(scores, 1).tolist()
        hits = torch.stack(hits, 1).tolist()
        taken = torch.zeros(len(text.roots), nodes, dtype=torch.int64)
        for row, (score, hit) in enumerate(zip(scores, hits)):
            for n, ranks in enumerate(best_prefixes(score, nodes)):
                if all(hit[d][r] for d, r in enumerate(ranks)):
                    taken[row, n] = len(ranks)
        return Drafts(taken)


def best_prefixes(scores: list[list[float]], nodes: int
                  ) -> list[tuple[int, ...]]:
    """The `nodes` best prefixes under independent positions, best first.

    scores[d] falls with the rank; a prefix is its ranks. Equal scores go by the
    ranks, so that a parent precedes its children.
    """
    heap: list[tuple[float, tuple[int, ...]]] = [(-scores[0][0], (0,))]
    out: list[tuple[int, ...]] = []
    while heap and len(out) < nodes:
        cost, ranks = heapq.heappop(heap)
        out.append(ranks)
        depth, last = len(ranks), ranks[-1]
        here = scores[depth - 1]
        if last + 1 < len(here):
            heapq.heappush(heap, (cost + here[last] - here[last + 1],
                                  ranks[:-1] + (last + 1,)))
        if depth < len(scores):
            heapq.heappush(heap, (cost - scores[depth][0], ranks + (0,)))
    return out


def count_rounds(accepted: list[int]) -> tuple[int, int]:
    """Committed tokens and verifications, if accepted[i] nodes of the tree at
    the i-th root are right: the next root comes one position after them."""
    at = rounds = 0
    while at < len(accepted):
        at, rounds = at + accepted[at] + 1, rounds + 1
    return len(accepted), rounds
