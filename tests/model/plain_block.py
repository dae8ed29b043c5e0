"""One paired block and a head once more, in NumPy float64 with dense masks: what the network must equal.

Streams are flat token arrays `[tokens, width]`; every token carries its own six modulation vectors and its own turns.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

EPS = 1e-6


@dataclass
class Stream:
    """One expert's share of a row."""

    block: dict[str, Any]
    x: np.ndarray  # [tokens, width]
    m6: np.ndarray  # [tokens, 6, width]
    turns: np.ndarray  # complex[tokens, head_dim / 2], cosine + i sine
    text: np.ndarray  # [keys, width]
    reads_text: np.ndarray  # bool[tokens, keys]

    @property
    def modulation(self) -> np.ndarray:
        """[6, tokens, width]: shift, scale, gate of attention, then of the feed-forward."""
        return np.moveaxis(self.block["modulation"]["table"] + self.m6, 1, 0)


def linear(p: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    return x @ p["kernel"] + p["bias"]


def layer_norm(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + EPS)


def gelu(x: np.ndarray) -> np.ndarray:
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def heads(p: dict[str, Any], name: str, x: np.ndarray, num_heads: int) -> np.ndarray:
    """[tokens, width] to [heads, tokens, head_dim], normalised over all heads together where there is a norm."""
    y = linear(p[name], x)
    if f"{name}_norm" in p:
        y = y / np.sqrt((y**2).mean(-1, keepdims=True) + EPS) * p[f"{name}_norm"]["scale"]
    return y.reshape(len(x), num_heads, -1).swapaxes(0, 1)


def rotate(x: np.ndarray, turns: np.ndarray) -> np.ndarray:
    turned = (x[..., 0::2] + 1j * x[..., 1::2]) * turns
    return np.stack([turned.real, turned.imag], -1).reshape(x.shape)


def softmax_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """[heads, queries, head_dim] to [queries, inner]; zeros for a query that sees nothing."""
    weights = np.exp(q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])) * mask
    total = weights.sum(-1, keepdims=True)
    out = weights / np.where(total > 0, total, 1) @ v
    return out.swapaxes(0, 1).reshape(q.shape[1], -1)


def plain_block(streams: list[Stream], mask: np.ndarray, num_heads: int) -> list[np.ndarray]:
    """The tokens of both streams after one layer; `mask` is over [video | action]."""
    parts = []
    for s in streams:
        p, m = s.block["self_attention"], s.modulation
        h = layer_norm(s.x) * (1 + m[1]) + m[0]
        q, k, v = (heads(p, name, h, num_heads) for name in ("query", "key", "value"))
        parts.append((rotate(q, s.turns), rotate(k, s.turns), v))
    joint = softmax_attention(*(np.concatenate(pair, axis=1) for pair in zip(*parts, strict=True)), mask)
    shares = np.split(joint, [len(streams[0].x)])
    return [_finish(s, share, num_heads) for s, share in zip(streams, shares, strict=True)]


def _finish(s: Stream, attended: np.ndarray, num_heads: int) -> np.ndarray:
    m, p = s.modulation, s.block["cross_attention"]
    x = s.x + linear(s.block["self_attention"]["output"], attended) * m[2]
    h = x
    if "cross_norm" in s.block:
        h = layer_norm(x) * s.block["cross_norm"]["scale"] + s.block["cross_norm"]["bias"]
    q, k, v = heads(p, "query", h, num_heads), heads(p, "key", s.text, num_heads), heads(p, "value", s.text, num_heads)
    x = x + linear(p["output"], softmax_attention(q, k, v, s.reads_text))
    h = layer_norm(x) * (1 + m[4]) + m[3]
    return x + linear(s.block["feed_forward"]["output"], gelu(linear(s.block["feed_forward"]["hidden"], h))) * m[5]


def plain_head(p: dict[str, Any], x: np.ndarray, shift: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """[tokens, width] to [tokens, out]; shift and scale [tokens, width] without the head's table."""
    table = p["modulation"]["table"]
    return linear(p["projection"], layer_norm(x) * (1 + scale + table[1]) + shift + table[0])
