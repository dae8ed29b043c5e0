"""The paired block: one layer of both experts, who meet in a single attention over all tokens of a row.

h = LN(x) (1 + scale_a) + shift_a;   x += gate_a * attention_output(h)      keys of [video | action], RoPE
x += cross_attention(LN_affine(x), text)                                    each expert alone, no RoPE, no gate
h = LN(x) (1 + scale_f) + shift_f;   x += gate_f * feed_forward(h)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from wam_jax.model.attention import Attention, Visibility, attend
from wam_jax.model.config import ExpertSize, ModelConfig
from wam_jax.model.layers import Mlp, affine_layer_norm, gelu
from wam_jax.model.modulation import ModulationTable, gated_residual, modulated_norm
from wam_jax.model.rotary import rotate_heads
from wam_jax.model.segments import framewise
from wam_jax.tracing import ROUND, scope, tag

STREAMS: tuple[Literal["video", "action"], ...] = ("video", "action")

type Pair = tuple[jax.Array, jax.Array]
"""One array of the video stream, one of the action stream."""


@dataclass(frozen=True, kw_only=True)
class StreamContext:
    """What every block of one expert reads beside its tokens; the same for all layers.

    Attributes:
        modulation: [R, frames, 6, width], the frames' vectors, in the wide dtype (their gradients add up over layers).
        frame_phase: float32[R, frames, tokens or 1, f / 2, 2].
        spatial_phase: float32[tokens or 1, (h + w) / 2, 2].
        text: [R, K_text, width], the text keys as this expert projects them, in the wide dtype likewise.
        text_visibility: which text keys each token reads.
    """

    modulation: jax.Array
    frame_phase: jax.Array
    spatial_phase: np.ndarray
    text: jax.Array
    text_visibility: Visibility


class ExpertBlock(nnx.Module):
    """One expert's half of a paired block. Token arrays are [R, frames, tokens of a frame, width]."""

    def __init__(self, config: ModelConfig, size: ExpertSize, *, rngs: nnx.Rngs) -> None:
        self.config = config
        width = size.width
        self.modulation = ModulationTable(config, 6, width, rngs=rngs)
        self.self_attention = Attention(config, width, rngs=rngs)
        self.cross_norm = affine_layer_norm(config, width, rngs=rngs) if config.cross_attn_norm else None
        self.cross_attention = Attention(config, width, rngs=rngs)
        self.feed_forward = Mlp(config, (width, size.ffn_dim, width), activation=gelu, rngs=rngs)

    def joint_inputs(self, x: jax.Array, context: StreamContext) -> tuple[jax.Array, ...]:
        """Queries, keys and values for the joint attention: three of [R, frames * tokens, heads, head_dim]."""
        config, spatial = self.config, context.spatial_phase

        def heads(block: ExpertBlock, x: jax.Array, modulation: jax.Array, phase: jax.Array) -> dict[str, jax.Array]:
            shift, scale, *_ = block.vectors(modulation)
            h, layer = modulated_norm(x, shift, scale, config), block.self_attention
            q, k = (rotate_heads(part, phase, spatial, config) for part in (layer.queries(h), layer.keys(h)))
            return {"query": q, "key": k, "value": layer.values(h)}

        made = self._framewise(heads, x, context.modulation, context.frame_phase)
        return tuple(tag(_as_tokens(made[name]), f"attention.{name}") for name in ("query", "key", "value"))

    def finish(self, x: jax.Array, attended: jax.Array, context: StreamContext) -> jax.Array:
        """Everything after the joint attention, of which this expert got `attended` [R, frames * tokens, ...]."""
        config, frames = self.config, x.shape[:3]

        def update(
            block: ExpertBlock, x: jax.Array, attended: jax.Array, modulation: jax.Array
        ) -> tuple[jax.Array, jax.Array]:
            gate = block.vectors(modulation)[2]
            x = gated_residual(x, block.self_attention.project(attended), gate)
            normed = x if block.cross_norm is None else block.cross_norm(x).astype(x.dtype)
            return x, block.cross_attention.queries(normed)

        def feed(block: ExpertBlock, x: jax.Array, read: jax.Array, modulation: jax.Array) -> jax.Array:
            *_, shift, scale, gate = block.vectors(modulation)
            x = x + block.cross_attention.project(read)
            return gated_residual(x, block.feed_forward(modulated_norm(x, shift, scale, config)), gate)

        attended = tag(attended, "attention.out")
        x, queries = self._framewise(update, x, attended.reshape(*frames, *attended.shape[2:]), context.modulation)
        read = tag(self._read_text(_as_tokens(queries), context), "text.out")
        return tag(self._framewise(feed, x, read.reshape(*frames, *read.shape[2:]), context.modulation), "out")

    def vectors(self, modulation: jax.Array) -> tuple[jax.Array, ...]:
        """This layer's shift, scale, gate of attention and of the feed-forward: six of [..., frames, 1, width]."""
        return self.modulation(modulation, dtype=self.config.wide_dtype)

    def _read_text(self, queries: jax.Array, context: StreamContext) -> jax.Array:
        def projected(layer: Attention, text: jax.Array) -> tuple[jax.Array, jax.Array]:
            return layer.keys(text), layer.values(text)

        k, v = framewise(projected, self.cross_attention, context.text, tokens=1, config=self.config)
        return attend(queries, k, v, context.text_visibility, self.config)

    def _framewise(self, function: Callable[..., Any], x: jax.Array, *arrays: jax.Array) -> Any:
        """A function of (block, x [..., frames, tokens, width], arrays of frames)."""
        return framewise(function, self, x, *arrays, tokens=x.shape[2], config=self.config)


def paired_block(
    tokens: Pair,
    blocks: tuple[ExpertBlock, ExpertBlock],
    contexts: tuple[StreamContext, StreamContext],
    visibility: Visibility,
) -> Pair:
    """One layer of both experts: ([R, Nv, P, width], [R, Na, A, action width]) to the same."""
    streams = list(zip(STREAMS, blocks, tokens, contexts, strict=True))
    inputs = []
    for stream, block, x, context in streams:
        with scope(f"{stream}_expert.block_{ROUND}", stream=stream):
            inputs.append(block.joint_inputs(x, context))
    q, k, v = (jnp.concatenate(parts, axis=1) for parts in zip(*inputs, strict=True))
    joint = attend(q, k, v, visibility, blocks[0].config)
    shares = jnp.split(joint, [inputs[0][0].shape[1]], axis=1)
    outputs = []
    for (stream, block, x, context), share in zip(streams, shares, strict=True):
        with scope(f"{stream}_expert.block_{ROUND}", stream=stream):
            outputs.append(block.finish(x, share, context))
    video, action = outputs
    return video, action


def _as_tokens(x: jax.Array) -> jax.Array:
    """[R, frames, tokens, heads, head_dim] to [R, frames * tokens, heads, head_dim]."""
    return x.reshape(x.shape[0], -1, *x.shape[3:])
