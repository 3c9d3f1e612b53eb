"""Parts of a transformer layer that the target and the drafters share.

Parameters are float32 masters; a matrix product casts them and its input to the
compute dtype (bfloat16), the residual stream stays float32.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Linear(nn.Module):
    def __init__(self, inputs: int, outputs: int, compute: torch.dtype, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        nn.init.normal_(self.weight, std=0.02)
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None
        self.compute = compute

    def forward(self, x: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.to(self.compute)
        return F.linear(x.to(self.compute), self.weight.to(self.compute), bias)


class RmsNorm(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), self.weight.shape, self.weight, self.eps)


class Mlp(nn.Module):
    """SwiGLU, with the checkpoint's names."""

    def __init__(self, hidden: int, intermediate: int, compute: torch.dtype) -> None:
        super().__init__()
        self.gate_proj = Linear(hidden, intermediate, compute)
        self.up_proj = Linear(hidden, intermediate, compute)
        self.down_proj = Linear(intermediate, hidden, compute)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Projections(nn.Module):
    """q, k, v and o of an attention, with the checkpoint's names."""

    def __init__(self, inputs: int, hidden: int, heads: int, kv_heads: int, head_dim: int,
                 compute: torch.dtype) -> None:
        super().__init__()
        self.head_dim = head_dim
        self.q_proj = Linear(inputs, heads * head_dim, compute)
        self.k_proj = Linear(inputs, kv_heads * head_dim, compute)
        self.v_proj = Linear(inputs, kv_heads * head_dim, compute)
        self.o_proj = Linear(heads * head_dim, hidden, compute)

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim))

    def queries(self, x: Tensor) -> Tensor:
        return self._heads(self.q_proj(x))

    def keys(self, x: Tensor) -> Tensor:
        return self._heads(self.k_proj(x))

    def values(self, x: Tensor) -> Tensor:
        return self._heads(self.v_proj(x))


def rotary(positions: Tensor, head_dim: int, theta: float
           ) -> tuple[Tensor, Tensor]:
    """cos and sin [..., 1, head_dim] (the 1 is for the heads) of positions."""
    step = torch.arange(0, head_dim, 2, device=positions.device).float()
    angle = positions[..., None].float() * theta ** (-step / head_dim)
    angle = torch.cat((angle, angle), -1)[..., None, :]
    return angle.cos(), angle.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """RoPE in the half-split convention, x [..., heads, head_dim]."""
    low, high = x.float().chunk(2, -1)
    return x * cos + torch.cat((-high, low), -1) * sin


def group_queries(q: Tensor, kv_heads: int) -> Tensor:
    """[B, S, heads, d] -> [B, kv_heads, group * S, d]: one product per KV head."""
    batch, length, heads, d = q.shape
    group = heads // kv_heads
    return (q.view(batch, length, kv_heads, group, d).permute(0, 2, 3, 1, 4)
            .reshape(batch, kv_heads, group * length, d))


def ungroup(mixed: Tensor, length: int) -> Tensor:
    """[B, kv_heads, group * S, d] -> [B, S, heads * d]."""
    batch, kv_heads, rows, d = mixed.shape
    return (mixed.view(batch, kv_heads, rows // length, length, d)
            .permute(0, 3, 1, 2, 4).reshape(batch, length, -1))


def attend_grouped(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """Attention of q [B, S, heads, d] over k, v [B, kv_heads, T, d].

    bias [B, S, T] (or broadcastable) is added to the scores, float32.
    Returns [B, S, heads * d].
    """
    length, heads, kv_heads = q.shape[1], q.shape[2], k.shape[1]
    scores = group_queries(q, kv_heads) @ k.transpose(-1, -2)
    scores = scores.float() * q.shape[-1] ** -0.5
    bias = bias.repeat(1, heads // kv_heads, 1)[:, None]
    weights = (scores + bias).softmax(-1).to(v.dtype)
    return ungroup(weights @ v, length)
