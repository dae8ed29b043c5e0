"""Sizes of small models, and random parameters for them."""

from dataclasses import dataclass

import numpy as np

from tests.restatement.model import Params
from tests.restatement.tables import Architecture

type Rng = np.random.Generator


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Extents of a small model and its samples; the spatial patch is (height, width)."""

    channels: int = 2
    height: int = 2
    width: int = 4
    patch: tuple[int, int] = (1, 2)
    actions_per_frame: int = 2
    action_dim: int = 3
    state_dim: int = 4
    text_dim: int = 6
    text_tokens: int = 3
    layers: int = 2
    heads: int = 2
    head_dim: int = 8
    hidden: int = 16
    action_hidden: int = 12
    ffn: int = 24
    action_ffn: int = 20
    freq_dim: int = 8

    @property
    def architecture(self) -> Architecture:
        return Architecture(heads=self.heads, head_dim=self.head_dim, freq_dim=self.freq_dim, patch=self.patch)


def normal(rng: Rng, *shape: int, mean: float = 0.0, std: float = 1.0) -> np.ndarray:
    """Normal numbers that float32 can hold, as float64."""
    return rng.normal(mean, std, shape).astype(np.float32).astype(np.float64)


def _linear(rng: Rng, fan_in: int, fan_out: int) -> Params:
    return {"w": normal(rng, fan_in, fan_out, std=fan_in**-0.5), "b": normal(rng, fan_out, std=0.1)}


def _qkv(rng: Rng, hidden: int, inner: int) -> Params:
    layers = {name: _linear(rng, hidden, inner) for name in ("q", "k", "v")} | {"o": _linear(rng, inner, hidden)}
    return layers | {name: normal(rng, inner, mean=1, std=0.1) for name in ("q_norm", "k_norm")}


def _block(rng: Rng, hidden: int, inner: int, ffn: int) -> Params:
    return {
        "table": normal(rng, 6, hidden, std=hidden**-0.5),
        **_qkv(rng, hidden, inner),
        "cross_norm": {"scale": normal(rng, hidden, mean=1, std=0.1), "bias": normal(rng, hidden, std=0.1)},
        "cross": _qkv(rng, hidden, inner),
        "ffn_in": _linear(rng, hidden, ffn),
        "ffn_out": _linear(rng, ffn, hidden),
    }


def _expert(rng: Rng, sizes: Sizes, features: int, hidden: int, ffn: int) -> Params:
    return {
        "embed": _linear(rng, features, hidden),
        "time_in": _linear(rng, sizes.freq_dim, hidden),
        "time_out": _linear(rng, hidden, hidden),
        "modulation": _linear(rng, hidden, 6 * hidden),
        "text_in": _linear(rng, sizes.text_dim, hidden),
        "blocks": [_block(rng, hidden, sizes.heads * sizes.head_dim, ffn) for _ in range(sizes.layers)],
        "head_table": normal(rng, 2, hidden, std=hidden**-0.5),
        "head": _linear(rng, hidden, features),
    }


def random_params(rng: Rng, sizes: Sizes) -> Params:
    """All parameters that any rules can ask for, none of them zero."""
    patch = sizes.channels * sizes.patch[0] * sizes.patch[1]
    video = _expert(rng, sizes, patch, sizes.hidden, sizes.ffn)
    return {
        "video": video | {"text_out": _linear(rng, sizes.hidden, sizes.hidden)},
        "action": _expert(rng, sizes, sizes.action_dim, sizes.action_hidden, sizes.action_ffn),
        "proprio_encoder": _linear(rng, sizes.state_dim, sizes.hidden),
        "proprio_to_action": _linear(rng, sizes.hidden, sizes.action_hidden),
        "proprio_text": _linear(rng, sizes.state_dim, sizes.text_dim),
        "mode_tokens": normal(rng, 3, sizes.text_dim),
    }
