"""The noise of the coupled walk, and what a drafter that knows it believes.

Written from the definition of Philox 4x32-10 (Salmon et al., SC'11) and of the
coupled walk: the token at a position is argmax log q / T + g, with Gumbel noise
g(seed, position, token).
"""

import dataclasses
import math

import numpy as np

MASK32 = 0xFFFFFFFF
PURPOSE = 0x57414C4B


def philox(counter: list[int], key: int) -> list[int]:
    c, k = list(counter), [key & MASK32, key >> 32]
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c[0], 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 1 << 32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + 0x9E3779B9) & MASK32, (k[1] + 0xBB67AE85) & MASK32]
    return c


def gumbel(seed: int, position: int, token: int) -> float:
    block = philox([token // 4, position & MASK32, position >> 32, PURPOSE],
                   seed)
    v = (block[token % 4] + 0.5) / 2.0**32
    return -math.log(-math.log1p(-v))


@dataclasses.dataclass(frozen=True)
class Sampling:
    temperature: float = 0.0
    seed: int = 0


class NearTie(Exception):
    """Float32 arithmetic might decide otherwise."""


MARGIN = 2e-3


def check_cut(scores: list[float], count: int) -> None:
    """That the best `count` of `scores` (descending) are clearly the best."""
    if 0 < count < len(scores) and scores[count - 1] - scores[count] < MARGIN:
        raise NearTie


def check_order(scores: list[float]) -> None:
    """That `scores` (descending) are clearly in order."""
    if any(a - b < MARGIN for a, b in zip(scores, scores[1:])):
        raise NearTie


def children(log_distribution: np.ndarray, tokens: np.ndarray, width: int,
             sampling: Sampling, position: int, noise_scale: float
             ) -> list[tuple[int, float]]:
    """(token, belief) of the `width` best, best first.

    log_distribution[i] is the drafter's log-probability of the target's token tokens[i]
    at `position`. A belief is the log of the chance that the target emits it.
    """
    temperature = sampling.temperature
    perturbed = [float(p) for p in log_distribution]
    if temperature > 0:
        perturbed = [p + temperature * gumbel(sampling.seed, position, int(x))
                     for p, x in zip(perturbed, tokens)]
    order = sorted(range(len(tokens)),
                   key=lambda i: (-perturbed[i], int(tokens[i])))
    check_cut([perturbed[i] for i in order], width)
    check_order([perturbed[i] for i in order[:width]])
    order = order[:width]
    if temperature == 0:
        return [(int(tokens[i]), float(log_distribution[i])) for i in order]
    # Log p errs by Gumbel noise of scale s: softmax((log p + T g) / s), where
    # all other tokens are one more candidate, its noise at the median.
    rest = math.log1p(-sum(math.exp(log_distribution[i]) for i in order))
    logits = [perturbed[i] / noise_scale for i in order]
    logits.append((rest - temperature * math.log(math.log(2))) / noise_scale)
    top = max(logits)
    log_sum = top + math.log(sum(math.exp(x - top) for x in logits))
    return [(int(tokens[i]), x - log_sum) for i, x in zip(order, logits)]
