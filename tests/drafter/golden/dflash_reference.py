"""DFlash block drafters and DDTree, plainly.

Written from the papers (DFlash, arXiv 2602.06036; DDTree, 2604.12989). There is
no cache: every round computes the keys and values of the whole context again.

Weights of layer i go by `{i}.` and a short name (see `DFlashDrafter.distributions`).
"""

import dataclasses
import heapq
from typing import Any

import numpy as np

from coupled_noise import Sampling, check_order, children
from llama_math import (Shape, attention, log_softmax, rms_norm, rotate,
                        swiglu)


@dataclasses.dataclass(frozen=True)
class Block:
    layers: int
    size: int
    mask_token: int
    causal: bool = False  # a row of the block sees the rows before it only
    window: int = 0       # of all layers but the last, which are causal then


class DFlashDrafter:
    def __init__(self, shape: Shape, block: Block, weights: dict, draft_tokens: np.ndarray) -> None:
        """draft_tokens[i]: the target's token of output row i, ascending."""
        self.shape, self.block, self.w = shape, block, weights
        self.draft_tokens = draft_tokens

    def distributions(self, root: int, taps: np.ndarray) -> np.ndarray:
        """[size - 1, draft tokens]: the log-distributions of the tokens after `root`.

        taps [positions, taps, hidden]: of every position before the root's.
        """
        eps, w, size = self.shape.eps, self.w, self.block.size
        context = rms_norm(taps.reshape(len(taps), -1) @ w["fc"].T,
                           w["hidden_norm"], eps)
        x = w["embed"][[root] + [self.block.mask_token] * (size - 1)]
        for i in range(self.block.layers):
            sliding = self.block.window > 0 and i < self.block.layers - 1
            x = x + self._attend(rms_norm(x, w[f"{i}.input_norm"], eps), context,
                                 f"{i}.", sliding)
            x = x + swiglu(rms_norm(x, w[f"{i}.post_norm"], eps), w, f"{i}.")
        return log_softmax(rms_norm(x[1:], w["norm"], eps) @ w["head"].T)

    def _attend(self, h: np.ndarray, context: np.ndarray, layer: Any, sliding: bool) -> Any:
        s, w, size = self.shape, self.w, self.block.size
        start = len(context)
        both = np.concatenate([context, h])
        q = (h @ w[layer + "q"].T).reshape(size, s.heads, s.head_dim)
        k = (both @ w[layer + "k"].T).reshape(-1, s.kv_heads, s.head_dim)
        v = (both @ w[layer + "v"].T).reshape(-1, s.kv_heads, s.head_dim)
        q = rms_norm(q, w[layer + "q_norm"], s.eps)
        k = rms_norm(k, w[layer + "k_norm"], s.eps)
        positions = np.arange(start + size)
        q = rotate(q, positions[start:], s)
        k = rotate(k, positions, s)
        visible = np.ones((size, start + size), bool)
        if self.block.causal or sliding:
            visible = positions[None] <= positions[start:, None]
        if sliding:
            visible &= positions[start:, None] - positions[None] < self.block.window
        return attention(q, k, v, visible) @ w[layer + "o"].T


def best_first(distributions: list[list[tuple[int, float]]], max_nodes: int,
               root: int) -> dict:
    """DDTree: the likeliest paths when positions are independent.

    distributions[d]: the candidates (token, belief) of depth d + 1, best first.
    """
    tree: dict[str, list[Any]] = {"tokens": [root], "parents": [-1], "log_probs": [0.0]}
    heap: list[tuple[float, tuple[int, ...], int, float]] = []

    def push(score: float, ranks: tuple[int, ...], parent: int) -> None:
        depth = len(ranks) - 1
        if depth < len(distributions) and ranks[-1] < len(distributions[depth]):
            total = score + distributions[depth][ranks[-1]][1]
            heapq.heappush(heap, (-total, ranks, parent, score))

    push(0.0, (0,), 0)
    popped = []
    while heap and len(tree["tokens"]) <= max_nodes:
        negated, ranks, parent, base = heapq.heappop(heap)
        popped.append(-negated)
        node = len(tree["tokens"])
        tree["tokens"].append(distributions[len(ranks) - 1][ranks[-1]][0])
        tree["parents"].append(parent)
        tree["log_probs"].append(-negated)
        push(base, ranks[:-1] + (ranks[-1] + 1,), parent)
        push(-negated, ranks + (0,), node)
    check_order(popped + [-heap[0][0]] if heap else popped)
    return tree


def draft_tree(drafter: DFlashDrafter, tokens: list[int], taps: np.ndarray,
               max_nodes: int, max_depth: int, width: int, sampling: Sampling,
               noise_scale: float) -> dict:
    """The tree after the committed `tokens`; width 1 is a chain."""
    assert len(taps) == len(tokens) - 1
    if max_nodes == 0:
        return best_first([], 0, tokens[-1])
    distributions = drafter.distributions(tokens[-1], taps)[:max_depth]
    return best_first(
        [children(distribution, drafter.draft_tokens, width, sampling,
                  len(tokens) + depth, noise_scale)
         for depth, distribution in enumerate(distributions)], max_nodes, tokens[-1])
