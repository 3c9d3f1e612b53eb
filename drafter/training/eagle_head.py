"""EAGLE draft heads: one transformer layer that continues the target's states.

Row i pairs the token at i + 1 with the feature of position i and predicts the
token at i + 2. The feature is made from the target's states where the target has
run, and is the head's own output after that. Parameters carry the names of the
published checkpoints, so that `state_dict` is the file.

    eagle3    fc on three taps; attention on (embedding | feature), both normed
    eagle3.1  and a norm per tap before fc; the normed output is what comes back
    eagle1    fc on (embedding | final state); no norms before attention, none after
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from layers import (Linear, Mlp, Projections, RmsNorm, group_queries, rotary,
                    rotate, ungroup)

MODES = ("eagle3.1", "eagle3", "eagle1")
TAPS = 3


@dataclass(frozen=True)
class EagleShape:
    mode: str
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    rope_theta: float
    compute: torch.dtype = torch.bfloat16

    @property
    def is_eagle1(self) -> bool:
        return self.mode == "eagle1"


class EagleLayer(nn.Module):
    def __init__(self, shape: EagleShape) -> None:
        super().__init__()
        width = shape.hidden if shape.is_eagle1 else 2 * shape.hidden
        self.self_attn = Projections(width, shape.hidden, shape.heads,
                                     shape.kv_heads, shape.head_dim,
                                     shape.compute)
        self.mlp = Mlp(shape.hidden, shape.intermediate, shape.compute)
        self.post_attention_layernorm = RmsNorm(shape.hidden, shape.eps)
        if not shape.is_eagle1:
            self.input_layernorm = RmsNorm(shape.hidden, shape.eps)
            self.hidden_norm = RmsNorm(shape.hidden, shape.eps)


class EagleHead(nn.Module):
    def __init__(self, shape: EagleShape) -> None:
        super().__init__()
        self.shape = shape
        hidden, compute = shape.hidden, shape.compute
        if shape.is_eagle1:
            self.fc = Linear(2 * hidden, hidden, compute, bias=True)
            self.layers = nn.ModuleList([EagleLayer(shape)])
        else:
            self.fc = Linear(TAPS * hidden, hidden, compute)
            self.midlayer = EagleLayer(shape)
            self.norm = RmsNorm(hidden, shape.eps)
        if shape.mode == "eagle3.1":
            self.fc_norm = nn.ModuleList(
                [RmsNorm(hidden, shape.eps) for _ in range(TAPS)])

    @property
    def layer(self) -> EagleLayer:
        return self.layers[0] if self.shape.is_eagle1 else self.midlayer

    def feature(self, states: Tensor) -> Tensor:
        """[..., H] float32 of the target's states [..., TAPS + 1, H]."""
        if self.shape.is_eagle1:
            return states[..., -1, :].float()
        taps = states[..., :-1, :]
        if self.shape.mode == "eagle3.1":
            taps = torch.stack([norm(taps[..., i, :]) for i, norm
                                in enumerate(self.fc_norm)], -2)
        return self.fc(taps.flatten(-2)).float()

    def enter(self, embedding: Tensor, feature: Tensor
              ) -> tuple[Tensor, Tensor]:
        """The residual stream and the input of the attention."""
        if self.shape.is_eagle1:
            joined = torch.cat((embedding.float(), feature), -1)
            residual = self.fc(joined).float()
            return residual, residual
        layer = self.layer
        return feature, torch.cat((layer.input_layernorm(embedding),
                                   layer.hidden_norm(feature)), -1)

    def project(self, attention_input: Tensor, positions: Tensor
                ) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated q [..., heads, d] and k, plain v [..., kv_heads, d]."""
        attention = self.layer.self_attn
        cos, sin = rotary(positions, self.shape.head_dim, self.shape.rope_theta)
        q = rotate(attention.queries(attention_input), cos, sin)
        k = rotate(attention.keys(attention_input), cos, sin)
        return (q.to(self.shape.compute), k.to(self.shape.compute),
                attention.values(attention_input))

    def leave(self, residual: Tensor, mixed: Tensor) -> Tensor:
        """The row's output, which is the feature of the next position."""
        layer = self.layer
        x = residual + layer.self_attn.o_proj(mixed)
        x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.norm(x) if self.shape.mode == "eagle3.1" else x

    def readout(self, output: Tensor) -> Tensor:
        """What the output rows of the vocabulary multiply."""
        return self.norm(output) if self.shape.mode == "eagle3" else output

    def unroll(self, embeddings: Tensor, states: Tensor, steps: int
               ) -> Iterator[Tensor]:
        """Training-time test: the outputs [B, S, H] of steps 0, 1, ...

        embeddings [B, S, H] of the text, states [B, S, TAPS + 1, H] of it. Row
        i of step j has seen the tokens up to i + 1 + j and the states up to i:
        at steps > 0 it reads its own output of the step before, and attends to
        the step-0 keys of rows up to i and to its own keys of steps 1..j. That
        is what a chain of drafts sees at inference.
        """
        batch, length, _ = embeddings.shape
        rows = torch.arange(length, device=embeddings.device)
        causal = torch.zeros(length, length, device=embeddings.device)
        causal.masked_fill_(rows[None] > rows[:, None], float("-inf"))
        feature = self.feature(states)
        keys: list[Tensor] = []
        values: list[Tensor] = []
        for step in range(steps):
            shifted = F.pad(embeddings[:, 1 + step:], (0, 0, 0, 1 + step))
            residual, attention_input = self.enter(shifted, feature)
            q, k, v = self.project(attention_input, rows + step)
            keys.append(k)
            values.append(v)
            feature = self.leave(residual, attend_unrolled(
                q, keys, values, causal))
            yield feature


def attend_unrolled(q: Tensor, keys: list[Tensor], values: list[Tensor],
                    causal: Tensor) -> Tensor:
    """Attention of q [B, S, heads, d]: over the first keys [B, S, kv_heads, d]
    under `causal` [S, S], and of each row over its own later keys."""
    length, heads, kv_heads = q.shape[1], q.shape[2], keys[0].shape[2]
    group = heads // kv_heads
    grouped = group_queries(q, kv_heads)

    def own(x: Tensor) -> Tensor:
        return x.transpose(1, 2).repeat(1, 1, group, 1)

    scores = grouped @ keys[0].permute(0, 2, 3, 1)
    parts = [scores.float() * q.shape[-1] ** -0.5 + causal.repeat(group, 1)]
    parts += [(grouped.float() * own(k)).sum(-1, keepdim=True)
              * q.shape[-1] ** -0.5 for k in keys[1:]]
    weights = torch.cat(parts, -1).softmax(-1)
    mixed = weights[..., :length].to(q.dtype) @ values[0].transpose(1, 2)
    for j, v in enumerate(values[1:]):
        mixed = mixed + weights[..., length + j, None] * own(v)
    return ungroup(mixed, length)
