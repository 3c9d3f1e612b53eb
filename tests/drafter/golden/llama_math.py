"""The pieces of a Llama layer, in float64, one sequence, no cache."""

import dataclasses
import math

import numpy as np


@dataclasses.dataclass(frozen=True)
class Shape:
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    eps: float = 1e-5
    rope_theta: float = 10000.0
    rope_scaling: dict | None = None
    window: int = 0  # positions that a row sees, its own among them; 0: all


def rms_norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def frequencies(shape: Shape) -> np.ndarray:
    half = shape.head_dim // 2
    base = shape.rope_theta ** (-np.arange(half) / half)
    if shape.rope_scaling is None:
        return base
    s = shape.rope_scaling
    low, high = s["low_freq_factor"], s["high_freq_factor"]
    turns = s["original_max_position_embeddings"] * base / (2 * math.pi)
    keep = np.clip((turns - low) / (high - low), 0, 1)
    return base * (keep + (1 - keep) / s["factor"])


def rotate(x: np.ndarray, positions: np.ndarray, shape: Shape) -> np.ndarray:
    """x [rows, heads, head_dim]; component i turns with i + head_dim / 2."""
    angles = positions[:, None, None] * frequencies(shape)
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * np.cos(angles) - b * np.sin(angles),
                           b * np.cos(angles) + a * np.sin(angles)], -1)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray,
              visible: np.ndarray) -> np.ndarray:
    """q [rows, heads, d], k and v [keys, kv_heads, d], visible [rows, keys]."""
    share = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, share, axis=1) for x in (k, v))
    scores = np.einsum("rhd,khd->hrk", q, k) / math.sqrt(q.shape[2])
    weights = np.exp(log_softmax(np.where(visible[None], scores, -np.inf)))
    return np.einsum("hrk,khd->rhd", weights, v).reshape(q.shape[0], -1)


def swiglu(x: np.ndarray, w: dict[str, np.ndarray], layer: str) -> np.ndarray:
    gate = x @ w[layer + "gate"].T
    return (gate / (1 + np.exp(-gate)) * (x @ w[layer + "up"].T)
            ) @ w[layer + "down"].T
