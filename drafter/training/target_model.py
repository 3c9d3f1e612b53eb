"""The target model: a small forward pass that keeps what drafters want to see.

Weights and matrix inputs have one dtype (bfloat16), the residual stream is
float32. A *tap* k is the residual stream before layer k (so after layer k - 1,
Hugging Face's hidden_states[k]); the *final state* is the normed output, whose
product with the output rows gives the logits.
"""

import json
import pathlib
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from decode_attention import decode_attention
from layers import attend_grouped, rotary, rotate

_KINDS = {"LlamaForCausalLM": False, "Qwen3ForCausalLM": True}


@dataclass(frozen=True)
class TargetConfig:
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    eps: float
    rope_theta: float
    max_positions: int
    qk_norm: bool

    @staticmethod
    def read(folder: str) -> "TargetConfig":
        """Raises ValueError for what this forward pass does not compute."""
        raw = json.loads(pathlib.Path(folder, "config.json").read_text())
        kind = raw["architectures"][0]
        rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
        if kind not in _KINDS:
            raise ValueError(f"{folder}: architecture {kind}, known: "
                             + ", ".join(_KINDS))
        if rope.get("rope_type", rope.get("type", "default")) != "default":
            raise ValueError(f"{folder}: scaled RoPE is not supported")
        if raw.get("attention_bias") or raw.get("mlp_bias"):
            raise ValueError(f"{folder}: biases are not supported")
        heads = raw["num_attention_heads"]
        return TargetConfig(
            hidden=raw["hidden_size"], intermediate=raw["intermediate_size"],
            layers=raw["num_hidden_layers"], heads=heads,
            kv_heads=raw.get("num_key_value_heads", heads),
            head_dim=raw.get("head_dim") or raw["hidden_size"] // heads,
            vocabulary=raw["vocab_size"], eps=raw["rms_norm_eps"],
            rope_theta=float(raw.get("rope_theta")
                             or rope.get("rope_theta", 10000.0)),
            max_positions=raw["max_position_embeddings"],
            qk_norm=_KINDS[kind])

    def default_taps(self) -> tuple[int, ...]:
        """The three points of EAGLE-3: low, middle, high."""
        return (min(2, self.layers - 1), self.layers // 2,
                max(self.layers - 3, 0))


class KvCache:
    """Keys and values of `slots` texts, per layer [slots, kv_heads, T, d]."""

    def __init__(self, config: TargetConfig, slots: int, capacity: int, dtype: torch.dtype,
                 device: torch.device) -> None:
        shape = (slots, config.kv_heads, capacity, config.head_dim)
        self.keys, self.values = (
            [torch.zeros(shape, dtype=dtype, device=device)
             for _ in range(config.layers)] for _ in range(2))

    def copy_rows(self, source: "KvCache", slot: int, length: int) -> None:
        """The first `length` rows of the source's slot 0."""
        for mine, theirs in ((self.keys, source.keys),
                             (self.values, source.values)):
            for to, of in zip(mine, theirs):
                to[slot, :, :length] = of[0, :, :length]


class Target:
    def __init__(self, folder: str, dtype: torch.dtype = torch.bfloat16,
                 device: str = "cpu") -> None:
        self.config = TargetConfig.read(folder)
        self.dtype, self.device = dtype, torch.device(device)
        weights: dict[str, Tensor] = {}
        for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
            weights.update(load_file(path))
        self._weights = weights

        def matrix(*names: str) -> Tensor:
            return torch.cat([weights[n + ".weight"] for n in names]).to(
                self.device, dtype)

        def vector(name: str) -> Tensor:
            return weights[name + ".weight"].to(self.device, torch.float32)

        self.embeddings = matrix("model.embed_tokens")
        tied = "lm_head.weight" not in weights
        self.output_rows = self.embeddings if tied else matrix("lm_head")
        self._final_norm = vector("model.norm")
        self._layers = []
        for i in range(self.config.layers):
            at, mlp = (f"model.layers.{i}.{part}." for part
                       in ("self_attn", "mlp"))
            layer = {
                "qkv": matrix(*(f"{at}{n}_proj" for n in "qkv")),
                "o": matrix(at + "o_proj"),
                "gate_up": matrix(mlp + "gate_proj", mlp + "up_proj"),
                "down": matrix(mlp + "down_proj"),
                "norm1": vector(f"model.layers.{i}.input_layernorm"),
                "norm2": vector(f"model.layers.{i}.post_attention_layernorm"),
            }
            if self.config.qk_norm:
                layer |= {"q_norm": vector(at + "q_norm"),
                          "k_norm": vector(at + "k_norm")}
            self._layers.append(layer)

    def weight(self, name: str) -> Tensor:
        """A tensor of the checkpoint, float32, on the CPU."""
        return self._weights[name].float()

    def new_cache(self, slots: int, capacity: int) -> KvCache:
        return KvCache(self.config, slots, capacity, self.dtype, self.device)

    def logits(self, final: Tensor) -> Tensor:
        """[..., V] in the model's dtype, of final states [..., H]."""
        return F.linear(final.to(self.dtype), self.output_rows)

    @torch.no_grad()
    def forward(self, ids: Tensor, start: Tensor, taps: tuple[int, ...],
                cache: KvCache | None = None) -> Tensor:
        """States [B, S, len(taps) + 1, H] (the final state last), float32.

        Row b holds the tokens at positions start[b].. of a text: the whole text
        from 0 on, or with a cache one more token (S = 1). Keys and values are
        stored in the cache, if there is one.
        """
        config = self.config
        if list(taps) != sorted({*taps} & {*range(config.layers)}):
            raise ValueError(f"taps {taps}: not ascending or no layers")
        batch, length = ids.shape
        positions = start[:, None] + torch.arange(length, device=self.device)
        cos, sin = rotary(positions, config.head_dim, config.rope_theta)
        bias = torch.zeros(length, length, device=self.device).masked_fill(
            torch.ones(length, length, dtype=torch.bool,
                       device=self.device).triu(1), float("-inf"))[None]
        slots = torch.arange(batch, device=self.device)[:, None]
        x = F.embedding(ids, self.embeddings).float()
        states = []
        for i, layer in enumerate(self._layers):
            if i in taps:
                states.append(x)
            q, k, v = self._project(x, layer, cos, sin)
            if cache:
                cache.keys[i][slots, :, positions] = k
                cache.values[i][slots, :, positions] = v
            if cache and length == 1:
                mixed = decode_attention(q[:, 0], cache.keys[i],
                                         cache.values[i], start + 1)[:, None]
            else:
                mixed = attend_grouped(q, k.transpose(1, 2), v.transpose(1, 2),
                                       bias)
            x = x + F.linear(mixed, layer["o"])
            x = x + self._mlp(x, layer)
        states.append(self._norm(x, self._final_norm))
        return torch.stack(states, 2)

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self.config.eps)

    def _project(self, x: Tensor, layer: dict[str, Tensor], cos: Tensor,
                 sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q [B, S, heads, d], k and v [B, S, kv_heads, d]; q, k rotated."""
        c = self.config
        qkv = F.linear(self._norm(x, layer["norm1"]).to(self.dtype),
                       layer["qkv"]).unflatten(-1, (-1, c.head_dim))
        q, k, v = qkv.split([c.heads, c.kv_heads, c.kv_heads], 2)
        q, k = q.float(), k.float()
        if c.qk_norm:
            q, k = self._norm(q, layer["q_norm"]), self._norm(k, layer["k_norm"])
        return (rotate(q, cos, sin).to(self.dtype),
                rotate(k, cos, sin).to(self.dtype), v)

    def _mlp(self, x: Tensor, layer: dict[str, Tensor]) -> Tensor:
        gate, up = F.linear(self._norm(x, layer["norm2"]).to(self.dtype),
                            layer["gate_up"]).chunk(2, -1)
        return F.linear(F.silu(gate) * up, layer["down"])
