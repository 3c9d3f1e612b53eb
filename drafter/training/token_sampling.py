"""Drawing the next token of many texts at once."""

import torch
from torch import Tensor

_BLOCK = 128


def draw(logits: Tensor, temperature: Tensor, min_p: Tensor, uniform: Tensor
         ) -> Tensor:
    """One token per row of logits [B, V], float32; temperature 0 takes the best.

    Tokens less likely than min_p times the best are left out. `uniform` [B]
    in [0, 1) decides: the same numbers give the same tokens. Uses up `logits`.
    """
    best, argmax = logits.max(-1)
    heat = torch.where(temperature > 0, temperature, 1.0)[:, None]
    weights = logits.sub_(best[:, None]).div_(heat).exp_()
    narrow = (min_p > 0).nonzero()[:, 0]
    if len(narrow):
        part = weights[narrow]
        weights[narrow] = part.masked_fill_(part < min_p[narrow, None], 0.0)
    return torch.where(temperature > 0, _inverse_cdf(weights, uniform), argmax)


def _inverse_cdf(weights: Tensor, uniform: Tensor) -> Tensor:
    """The first token whose cumulated weight exceeds uniform times the sum.

    Two levels, blocks and then tokens: no sum over the whole vocabulary runs in
    sequence.
    """
    rows, width = weights.shape
    padded = -(-width // _BLOCK) * _BLOCK
    if padded != width:
        weights = torch.nn.functional.pad(weights, (0, padded - width))
    blocks = weights.view(rows, -1, _BLOCK)
    ends = blocks.sum(-1).double().cumsum(-1)
    point = uniform.double() * ends[:, -1]
    block = torch.searchsorted(ends, point[:, None], right=True)
    block = block.clamp(max=ends.shape[1] - 1)
    before = torch.where(block > 0, ends.gather(1, (block - 1).clamp(min=0)), 0)
    inside = blocks[torch.arange(rows, device=weights.device), block[:, 0]]
    steps = inside.double().cumsum(-1)
    token = torch.searchsorted(steps, point[:, None] - before, right=True)
    # Rounding may point past the last token that has weight.
    last = _BLOCK - 1 - (inside.flip(-1) > 0).float().argmax(-1)
    return block[:, 0] * _BLOCK + torch.minimum(token[:, 0], last)
