"""DFlash: a block of tokens in one parallel pass.

A block is the last known token (the anchor) and mask tokens after it; row d of
it predicts the token at anchor + d. Every layer attends to keys and values that
it makes itself from the target's states before the anchor, and to the whole
block. Parameters carry the published names, so that `state_dict` is the file.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from layers import (Linear, Mlp, Projections, RmsNorm, group_queries, rotary,
                    rotate, ungroup)


@dataclass(frozen=True)
class BlockShape:
    layers: int
    block: int
    taps: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    rope_theta: float
    compute: torch.dtype = torch.bfloat16


class BlockAttention(Projections):
    """q, k, v, o with a norm per head on queries and keys."""

    def __init__(self, shape: BlockShape) -> None:
        super().__init__(shape.hidden, shape.hidden, shape.heads,
                         shape.kv_heads, shape.head_dim, shape.compute)
        self.shape = shape
        self.q_norm = RmsNorm(shape.head_dim, shape.eps)
        self.k_norm = RmsNorm(shape.head_dim, shape.eps)

    def _rotated(self, x: Tensor, positions: Tensor) -> Tensor:
        cos, sin = rotary(positions, self.shape.head_dim, self.shape.rope_theta)
        return rotate(x, cos, sin).to(self.shape.compute)

    def keys_values(self, x: Tensor, positions: Tensor
                    ) -> tuple[Tensor, Tensor]:
        return (self._rotated(self.k_norm(self.keys(x)), positions),
                self.values(x))

    def forward(self, x: Tensor, context: Tensor, anchors: Tensor) -> Tensor:
        """x [B, A, block, H] normed, context [B, S, H], anchors [B, A]."""
        batch, blocks, block, _ = x.shape
        length, kv_heads = context.shape[1], self.shape.kv_heads
        columns = torch.arange(length, device=x.device)
        at = anchors[..., None] + torch.arange(block, device=x.device)
        context_k, context_v = self.keys_values(context, columns)
        block_k, block_v = self.keys_values(x, at)
        q = self._rotated(self.q_norm(self.queries(x)), at)
        scale = self.shape.head_dim ** -0.5
        # Context: all blocks of a text share its keys.
        wide = group_queries(q.flatten(1, 2), kv_heads)
        seen = (wide @ context_k.permute(0, 2, 3, 1)).float() * scale
        unseen = columns >= anchors.repeat_interleave(block, 1)[..., None]
        group = self.shape.heads // kv_heads
        seen = seen.masked_fill(unseen.repeat(1, group, 1)[:, None],
                                float("-inf"))
        # Block: each sees its own rows only.
        near = group_queries(q.flatten(0, 1), kv_heads)
        own = (near @ block_k.flatten(0, 1).permute(0, 2, 3, 1)).float() * scale
        # One softmax over both, in the order of the text.
        own = self._to_text_order(own, batch, blocks, block)
        weights = torch.cat((seen, own), -1).softmax(-1).to(self.shape.compute)
        far = weights[..., :length] @ context_v.transpose(1, 2)
        own = self._to_block_order(weights[..., length:], batch, blocks, block)
        inner = own @ block_v.flatten(0, 1).transpose(1, 2)
        mixed = ungroup(far, blocks * block) + ungroup(inner, block).reshape(
            batch, blocks * block, -1)
        return self.o_proj(mixed).view(batch, blocks, block, -1)

    def _to_text_order(self, x: Tensor, batch: int, blocks: int, block: int
                       ) -> Tensor:
        """[B * A, kv, group * block, n] -> [B, kv, group * A * block, n]."""
        kv, last = self.shape.kv_heads, x.shape[-1]
        return (x.view(batch, blocks, kv, -1, block, last)
                .permute(0, 2, 3, 1, 4, 5).reshape(batch, kv, -1, last))

    def _to_block_order(self, x: Tensor, batch: int, blocks: int, block: int
                        ) -> Tensor:
        """The way back."""
        kv, last = self.shape.kv_heads, x.shape[-1]
        return (x.view(batch, kv, -1, blocks, block, last)
                .permute(0, 3, 1, 2, 4, 5)
                .reshape(batch * blocks, kv, -1, last))


class BlockLayer(nn.Module):
    def __init__(self, shape: BlockShape) -> None:
        super().__init__()
        self.input_layernorm = RmsNorm(shape.hidden, shape.eps)
        self.self_attn = BlockAttention(shape)
        self.post_attention_layernorm = RmsNorm(shape.hidden, shape.eps)
        self.mlp = Mlp(shape.hidden, shape.intermediate, shape.compute)

    def forward(self, x: Tensor, context: Tensor, anchors: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), context, anchors)
        return x + self.mlp(self.post_attention_layernorm(x))


class BlockDrafter(nn.Module):
    def __init__(self, shape: BlockShape) -> None:
        super().__init__()
        self.shape = shape
        self.fc = Linear(shape.taps * shape.hidden, shape.hidden, shape.compute)
        self.hidden_norm = RmsNorm(shape.hidden, shape.eps)
        self.layers = nn.ModuleList(
            [BlockLayer(shape) for _ in range(shape.layers)])
        self.norm = RmsNorm(shape.hidden, shape.eps)

    def forward(self, anchor_embeddings: Tensor, mask_embedding: Tensor,
                taps: Tensor, anchors: Tensor) -> Tensor:
        """anchor_embeddings [B, A, H], mask_embedding [H], taps [B, S, n, H] of
        the texts, anchors [B, A]: positions. Returns [B, A, block - 1, H]: what
        the output rows of the vocabulary multiply, for anchor + 1, ..."""
        batch, blocks = anchors.shape
        context = self.hidden_norm(self.fc(taps.flatten(-2)))
        masks = mask_embedding.float().expand(
            batch, blocks, self.shape.block - 1, -1)
        x = torch.cat((anchor_embeddings[:, :, None].float(), masks), 2)
        for layer in self.layers:
            x = layer(x, context, anchors)
        return self.norm(x[:, :, 1:])
