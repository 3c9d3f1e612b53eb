"""Cross-entropy of a drafter to the target over the draft vocabulary.

The output rows are the target's own and frozen, so the gradient is needed for
the hidden state alone and is made together with the loss, a few rows at a time:
no [rows, vocabulary] tensor is kept for the backward pass.
"""

import torch
import torch.nn.functional as F
from torch import Tensor
from typing import Any

_ROWS = {"cpu": 128, "cuda": 8192}


def teacher_probabilities(final: Tensor, rows: Tensor) -> Tensor:
    """softmax of the target over the draft vocabulary, [N, Vd] in rows' dtype."""
    out = torch.empty(len(final), len(rows), dtype=rows.dtype,
                      device=final.device)
    step = _ROWS[final.device.type]
    for at in range(0, len(final), step):
        logits = F.linear(final[at:at + step].to(rows.dtype), rows)
        out[at:at + step] = logits.float().softmax(-1)
    return out


class SoftCrossEntropy(torch.autograd.Function):
    """(hidden [N, H], rows [Vd, H], teacher [M, Vd], index [N]) ->
    mean cross-entropy to teacher[index], best draft id of each row [N]."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, rows: Tensor, teacher: Tensor,
                index: Tensor) -> tuple[Tensor, Tensor]:
        count = len(hidden)
        gradient = torch.empty_like(hidden, dtype=torch.float32)
        best = torch.empty(count, dtype=torch.int64, device=hidden.device)
        loss = torch.zeros((), dtype=torch.float64, device=hidden.device)
        step = _ROWS[hidden.device.type]
        for at in range(0, count, step):
            part = slice(at, at + step)
            wanted = teacher[index[part]].float()
            logits = F.linear(hidden[part].to(rows.dtype), rows).float()
            best[part] = logits.max(-1).indices
            log_p = logits.log_softmax(-1)
            loss -= (wanted * log_p).sum(dtype=torch.float64)
            error = log_p.exp_().sub_(wanted).to(rows.dtype)
            gradient[part] = error @ rows
        ctx.save_for_backward(gradient.div_(max(count, 1)))
        ctx.mark_non_differentiable(best)
        return (loss / max(count, 1)).float(), best

    @staticmethod
    def backward(ctx: Any, d_loss: Tensor, _: Any) -> tuple[Tensor, None, None, None]:
        return ctx.saved_tensors[0] * d_loss, None, None, None


soft_cross_entropy = SoftCrossEntropy.apply
