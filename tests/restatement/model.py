"""The dual-expert transformer on one sample: dense attention under a boolean mask, plain arrays, plain loops.

Parameters are a nested dict. A linear layer is `{"w": [in, out], "b": [out]}`; `inner` is heads * head_dim.

    video, action         the two experts, each with
      embed               linear: video patch (C, pt, ph, pw) -> hidden; action D -> hidden
      time_in, time_out   linear: freq_dim -> hidden -> hidden
      modulation          linear: hidden -> 6 * hidden
      text_in, text_out   linear: text_dim -> hidden (-> hidden; the action expert has no text_out)
      blocks              list of
        table             [6, hidden]
        q, k, v, o        linear: hidden -> inner (o: inner -> hidden)
        q_norm, k_norm    [inner]
        cross_norm        {"scale": [hidden], "bias": [hidden]}, absent if the cross-attention has no norm
        cross             {q, k, v, o, q_norm, k_norm} as above
        ffn_in, ffn_out   linear: hidden -> ffn -> hidden
      head_table          [2, hidden]
      head                linear: hidden -> video patch (pt, ph, pw, C); action hidden -> D
    proprio_encoder       linear: state_dim -> video hidden; only for additive proprio
    proprio_to_action     linear: video hidden -> action hidden; absent means the identity
    proprio_text          linear: state_dim -> text_dim; only for proprio as text tokens
    mode_tokens           [3, text_dim]; only with a mode token

Everything runs in float64 under `jax.enable_x64(True)`, RoPE included.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.restatement.tables import Architecture, StreamTables, Tables
from tests.restatement.visibility import ACTION, VIDEO

type Array = jax.Array | np.ndarray
type Params = dict[str, Any]


@dataclass
class Stream:
    """One expert's tokens on their way through the blocks: `x [N, hidden]`, one `m6 [N, 6, hidden]` row per token."""

    x: jax.Array
    temb: jax.Array
    m6: jax.Array
    text: jax.Array
    tables: StreamTables


def linear(p: Params, x: Array) -> jax.Array:
    return x @ p["w"] + p["b"]


def gelu(x: jax.Array) -> jax.Array:
    return x * (1 + jnp.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2


def layer_norm(x: jax.Array, eps: float) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + eps)


def rms_norm(x: jax.Array, weight: jax.Array, eps: float) -> jax.Array:
    return x / jnp.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight


def modulated(x: jax.Array, shift: jax.Array, scale: jax.Array, eps: float) -> jax.Array:
    return layer_norm(x, eps) * (1 + scale) + shift


def rotate(x: Array, angles: Array) -> jax.Array:
    """Turns the pairs (2j, 2j+1) of `x [tokens, heads, head_dim]` by `angles [tokens, head_dim/2]`."""
    cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
    even, odd = x[..., 0::2], x[..., 1::2]
    return jnp.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(x.shape)


def attention(q: Array, k: Array, v: Array, mask: Array) -> jax.Array:
    """Softmax attention `[queries, heads, head_dim]` under `mask [queries, keys]`; a query without keys gets zeros."""
    scores = jnp.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
    scores = jnp.where(mask, scores, -1e30)
    weights = jnp.where(mask, jnp.exp(scores - scores.max(-1, keepdims=True)), 0.0)
    total = jnp.where(mask.any(-1)[:, None], weights.sum(-1, keepdims=True), 1.0)
    return jnp.einsum("hqk,khd->qhd", weights / total, v)


def _qkv(p: Params, x: jax.Array, source: jax.Array, arch: Architecture) -> list[jax.Array]:
    """Projections `[tokens, heads, head_dim]`; the norm of q and k runs over all heads together, before the split."""
    q = rms_norm(linear(p["q"], x), p["q_norm"], arch.eps)
    k = rms_norm(linear(p["k"], source), p["k_norm"], arch.eps)
    return [part.reshape(-1, arch.heads, arch.head_dim) for part in (q, k, linear(p["v"], source))]


def _cross(p: Params, stream: Stream, arch: Architecture) -> jax.Array:
    x = stream.x
    if "cross_norm" in p:
        x = layer_norm(x, arch.eps) * p["cross_norm"]["scale"] + p["cross_norm"]["bias"]
    out = attention(*_qkv(p["cross"], x, stream.text, arch), stream.tables.text_mask)
    return linear(p["cross"]["o"], out.reshape(len(x), -1))


def _self_qkv(p: Params, s: Stream, arch: Architecture) -> list[jax.Array]:
    m = p["table"] + s.m6
    h = modulated(s.x, m[:, 0], m[:, 1], arch.eps)
    q, k, v = _qkv(p, h, h, arch)
    return [rotate(q, s.tables.angles), rotate(k, s.tables.angles), v]


def _advance(p: Params, s: Stream, attended: jax.Array, arch: Architecture) -> None:
    """The rest of a block for one expert, in place: gated attention, ungated cross-attention, gated FFN."""
    m = p["table"] + s.m6
    s.x += linear(p["o"], attended.reshape(len(s.x), -1)) * m[:, 2]
    s.x += _cross(p, s, arch)
    h = modulated(s.x, m[:, 3], m[:, 4], arch.eps)
    s.x += linear(p["ffn_out"], gelu(linear(p["ffn_in"], h))) * m[:, 5]


def paired_block(blocks: tuple[Params, Params], streams: list[Stream], mask: Array, arch: Architecture) -> None:
    """One layer of both experts, in place; they meet only in the softmax over the keys of both."""
    video, action = (_self_qkv(p, s, arch) for p, s in zip(blocks, streams, strict=True))
    q, k, v = (jnp.concatenate(pair) for pair in zip(video, action, strict=True))
    attended = attention(q, k, v, mask)
    num_video = len(streams[VIDEO].x)
    _advance(blocks[VIDEO], streams[VIDEO], attended[:num_video], arch)
    _advance(blocks[ACTION], streams[ACTION], attended[num_video:], arch)


def context(params: Params, tables: Tables) -> jax.Array:
    """`[text | proprio tokens | mode token]`, before either expert's projection."""
    parts = [jnp.asarray(tables.text)]
    if len(tables.text_proprio):
        parts.append(linear(params["proprio_text"], tables.text_proprio))
    if len(tables.mode):
        parts.append(tables.mode @ params["mode_tokens"])
    return jnp.concatenate(parts)


def _enter(params: Params, tables: Tables, stream: int) -> Stream:
    """The stream before the first block."""
    expert, t = params["video" if stream == VIDEO else "action"], tables.streams[stream]
    x = linear(expert["embed"], t.features)
    if t.states is not None:
        state = linear(params["proprio_encoder"], t.states)
        to_action = stream == ACTION and "proprio_to_action" in params
        x += linear(params["proprio_to_action"], state) if to_action else state
    temb = linear(expert["time_out"], jax.nn.silu(linear(expert["time_in"], t.sinusoids)))
    m6 = linear(expert["modulation"], jax.nn.silu(temb)).reshape(len(x), 6, -1)
    text = linear(expert["text_in"], context(params, tables))
    if "text_out" in expert:
        text = linear(expert["text_out"], gelu(text))
    return Stream(x=x, temb=temb, m6=m6, text=text, tables=t)


def _head(expert: Params, s: Stream, shift_and_scale: jax.Array, arch: Architecture) -> jax.Array:
    """Output tokens of the noisy copy, the first half."""
    m = expert["head_table"] + shift_and_scale
    return linear(expert["head"], modulated(s.x, m[:, 0], m[:, 1], arch.eps))[: len(s.x) // 2]


def unpatchify(tokens: Array, shape: tuple[int, ...], patch: tuple[int, int]) -> Array:
    """`[tokens, ph*pw*C]` -> `[C, frames, H, W]`, channel fastest inside a token: not the order of the input."""
    C, frames, H, W = shape
    ph, pw = patch
    grid = tokens.reshape(frames, H // ph, W // pw, ph, pw, C)
    return grid.transpose(5, 0, 1, 3, 2, 4).reshape(C, frames, H, W)


def forward(params: Params, tables: Tables, arch: Architecture, video_shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Velocities of the noisy copies: video `[C, Fv, H, W]` = `video_shape` (prefix included) and actions `[F*A, D]`.

    The video's head takes the raw time embedding as shift and scale alike, the action's the first two rows of its m6.
    """
    streams = [_enter(params, tables, stream) for stream in (VIDEO, ACTION)]
    for blocks in zip(params["video"]["blocks"], params["action"]["blocks"], strict=True):
        paired_block(blocks, streams, tables.mask, arch)
    video, action = streams
    tokens = _head(params["video"], video, jnp.stack([video.temb, video.temb], axis=1), arch)
    return unpatchify(tokens, video_shape, arch.patch), _head(params["action"], action, action.m6[:, :2], arch)
