"""The noise of the coupled walk: the same draws as common/speculation/gumbel_noise."""

import torch
from torch import Tensor

_LOW = 0xFFFFFFFF
_PURPOSE_COUPLED_WALK = 0x57414C4B


def _philox(counter: list[Tensor], key: int) -> list[Tensor]:
    """Philox 4x32-10 on int64 tensors that hold 32-bit words."""
    k0, k1 = key & _LOW, key >> 32 & _LOW
    for _ in range(10):
        high0, low0 = _multiply(counter[0], 0xD2511F53)
        high1, low1 = _multiply(counter[2], 0xCD9E8D57)
        counter = [high1 ^ counter[1] ^ k0, low1, high0 ^ counter[3] ^ k1, low0]
        k0, k1 = k0 + 0x9E3779B9 & _LOW, k1 + 0xBB67AE85 & _LOW
    return counter


def _multiply(x: Tensor, constant: int) -> tuple[Tensor, Tensor]:
    """High and low word of a 32-bit product, in steps that int64 can hold."""
    low = (x & 0xFFFF) * constant
    high = (x >> 16) * constant + (low >> 16)
    return high >> 16, (high & 0xFFFF) << 16 | low & 0xFFFF


def gumbel_noise(seed: int, positions: Tensor, tokens: Tensor) -> Tensor:
    """g(seed, position, token), float32 [len(positions), len(tokens)].

    A position is the absolute index of the emitted token.
    """
    blocks, inverse = (tokens // 4).unique(return_inverse=True)
    zero = torch.zeros(len(positions), len(blocks), dtype=torch.int64)
    words = _philox([zero + blocks, zero + (positions & _LOW)[:, None],
                     zero + (positions >> 32)[:, None],
                     zero + _PURPOSE_COUPLED_WALK], seed)
    bits = torch.stack(words, -1)[:, inverse, tokens % 4]
    v = (bits.double() + 0.5) * 2.0 ** -32
    return -torch.log(-torch.log1p(-v)).float()
