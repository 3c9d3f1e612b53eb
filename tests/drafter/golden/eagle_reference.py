"""EAGLE draft heads and their dynamic tree, plainly.

Written from the papers (EAGLE, arXiv 2401.15077; EAGLE-2, 2406.16858; EAGLE-3,
2503.01840; EAGLE-3.1, 2605.09992). There is no cache: every node's row is computed
from a whole causal pass over the committed rows and the node's own path.

Weights go by short names (see `EagleHead.distribution`), not by those of any format.
"""

import dataclasses
from typing import Any

import numpy as np

from coupled_noise import Sampling, check_cut, check_order, children
from llama_math import (Shape, attention, log_softmax, rms_norm, rotate,
                        swiglu)


@dataclasses.dataclass(frozen=True)
class Flags:
    eagle1: bool = False
    fc_norm: bool = False               # a norm for each tap before fc
    norm_before_fc: bool = False        # one for all of them
    norm_before_residual: bool = False  # the residual is the normed feature
    norm_output: bool = False           # what is fed back is normed


@dataclasses.dataclass
class Node:
    """A candidate: `token` after the path of rows `rows`."""
    token: int
    score: float
    parent: "Node | None"
    rows: list[tuple[int, np.ndarray]]  # (token, feature) of each position
    index: int = -1


class EagleHead:
    def __init__(self, shape: Shape, flags: Flags, weights: dict, draft_tokens: np.ndarray) -> None:
        """draft_tokens[i]: the target's token of output row i, ascending."""
        self.shape, self.flags, self.w = shape, flags, weights
        self.draft_tokens = draft_tokens

    def fuse(self, taps: np.ndarray) -> np.ndarray:
        """[taps, target hidden] of a position -> what its row reads."""
        if self.flags.eagle1:
            return taps[0]
        eps = self.shape.eps
        if self.flags.fc_norm:
            taps = np.stack([rms_norm(tap, self.w[f"fc_norm.{i}"], eps)
                             for i, tap in enumerate(taps)])
        joined = taps.reshape(-1)
        if self.flags.norm_before_fc:
            joined = rms_norm(joined, self.w["input_norm"], eps)
        return self.w["fc"] @ joined + self.w.get("fc_bias", 0)

    def distribution(self, rows: list[tuple[int, np.ndarray]]
            ) -> tuple[np.ndarray, np.ndarray]:
        """What the last row feeds back, and its distribution over the draft tokens."""
        embedded = np.stack([self.w["embed"][token] for token, _ in rows])
        features = np.stack([feature for _, feature in rows])
        y = (self._layer1 if self.flags.eagle1 else self._layer3)(embedded,
                                                                 features)
        if self.flags.eagle1:
            return y, log_softmax(self.w["head"] @ y)
        normed = rms_norm(y, self.w["norm"], self.shape.eps)
        fed_back = normed if self.flags.norm_output else y
        return fed_back, log_softmax(self.w["head"] @ normed)

    def _layer1(self, embedded: np.ndarray, features: np.ndarray) -> np.ndarray:
        x = np.concatenate([embedded, features], -1) @ self.w["fc"].T
        x = x + self.w.get("fc_bias", 0)
        return self._finish(x[-1] + self._attend(x))

    def _layer3(self, embedded: np.ndarray, features: np.ndarray) -> np.ndarray:
        eps = self.shape.eps
        a = rms_norm(embedded, self.w["token_norm"], eps)
        b = rms_norm(features, self.w["hidden_norm"], eps)
        residual = b if self.flags.norm_before_residual else features
        return self._finish(residual[-1]
                            + self._attend(np.concatenate([a, b], -1)))

    def _attend(self, x: np.ndarray) -> np.ndarray:
        """Of the last row."""
        s, w, count = self.shape, self.w, len(x)
        q = (x @ w["q"].T).reshape(count, s.heads, s.head_dim)
        k = (x @ w["k"].T).reshape(count, s.kv_heads, s.head_dim)
        v = (x @ w["v"].T).reshape(count, s.kv_heads, s.head_dim)
        if "q_norm" in w:
            q = rms_norm(q, w["q_norm"], s.eps)
            k = rms_norm(k, w["k_norm"], s.eps)
        positions = np.arange(count)
        q, k = rotate(q, positions, s), rotate(k, positions, s)
        visible = positions[None] >= (count - s.window if s.window else 0)
        return w["o"] @ attention(q[-1:], k, v, visible)[0]

    def _finish(self, r: np.ndarray) -> np.ndarray:
        return r + swiglu(rms_norm(r, self.w["post_norm"], self.shape.eps),
                          self.w, "")


def draft_tree(head: EagleHead, tokens: list[int], taps: np.ndarray,
               max_nodes: int, max_depth: int, width: int, sampling: Sampling,
               noise_scale: float) -> dict:
    """EAGLE-2's tree after the committed `tokens`.

    taps [len(tokens) - 1, taps, hidden]: the row of position p joins the
    features of p with the token at p + 1.
    """
    tree: dict[str, list[Any]] = {"tokens": [tokens[-1]], "parents": [-1], "log_probs": [0.0]}
    if max_nodes == 0 or max_depth == 0:
        return tree
    rows = [(tokens[p + 1], head.fuse(tap)) for p, tap in enumerate(taps)]
    assert len(rows) == len(tokens) - 1
    recorded: list[Node] = []

    def expand(node: Node | None, depth: int) -> list[Node]:
        path = rows if node is None else node.rows
        fed_back, distribution = head.distribution(path)
        grown = [Node(token, belief + (node.score if node else 0.0), node,
                      path + [(token, fed_back)])
                 for token, belief in children(
                     distribution, head.draft_tokens, width, sampling,
                     len(tokens) + depth, noise_scale)]
        recorded.extend(grown)
        return grown

    level = expand(None, 0)
    for depth in range(1, max_depth):
        level.sort(key=lambda node: -node.score)  # stable
        check_cut([node.score for node in level], width)
        level = [child for node in level[:width]
                 for child in expand(node, depth)]

    order = sorted(recorded, key=lambda node: -node.score)  # stable
    check_order([node.score for node in order[:max_nodes + 1]])
    for node in order[:max_nodes]:
        node.index = len(tree["tokens"])
        tree["tokens"].append(node.token)
        tree["parents"].append(node.parent.index if node.parent else 0)
        tree["log_probs"].append(node.score)
    return tree
