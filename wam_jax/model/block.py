"""The paired block: one layer of both experts, who meet in a single attention over all tokens of a row.

h = LN(x) (1 + scale_a) + shift_a;   x += gate_a * attention_output(h)      keys of [video | action], RoPE
x += cross_attention(LN_affine(x), text)                                    each expert alone, no RoPE, no gate
h = LN(x) (1 + scale_f) + shift_f;   x += gate_f * feed_forward(h)
"""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from wam_jax.model.attention import Attention, Visibility, attend
from wam_jax.model.config import ExpertSize, ModelConfig
from wam_jax.model.layers import Mlp, affine_layer_norm, gelu
from wam_jax.model.modulation import ModulationTable, gated_residual, modulated_norm
from wam_jax.model.rotary import rotate_heads
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

    def vectors(self, context: StreamContext) -> tuple[jax.Array, ...]:
        """This layer's shift, scale, gate of attention and of the feed-forward: six of [R, frames, 1, width]."""
        return self.modulation(context.modulation, dtype=self.config.wide_dtype)

    def joint_inputs(
        self, x: jax.Array, vectors: tuple[jax.Array, ...], context: StreamContext
    ) -> tuple[jax.Array, ...]:
        """Queries, keys and values for the joint attention: three of [R, frames * tokens, heads, head_dim]."""
        shift, scale, *_ = vectors
        h = modulated_norm(x, shift, scale, self.config)
        layer = self.self_attention
        q, k = (
            rotate_heads(heads, context.frame_phase, context.spatial_phase, self.config)
            for heads in (layer.queries(h), layer.keys(h))
        )
        inputs = {"query": q, "key": k, "value": layer.values(h)}
        return tuple(tag(_as_tokens(heads), f"attention.{name}") for name, heads in inputs.items())

    def finish(
        self, x: jax.Array, attended: jax.Array, vectors: tuple[jax.Array, ...], context: StreamContext
    ) -> jax.Array:
        """Everything after the joint attention, of which this expert got `attended` [R, frames * tokens, ...]."""
        _, _, gate, ffn_shift, ffn_scale, ffn_gate = vectors
        update = self.self_attention.project(tag(attended, "attention.out")).reshape(x.shape)
        x = gated_residual(x, update, gate)
        x = x + self._read_text(x, context)
        h = modulated_norm(x, ffn_shift, ffn_scale, self.config)
        return tag(gated_residual(x, self.feed_forward(h), ffn_gate), "out")

    def _read_text(self, x: jax.Array, context: StreamContext) -> jax.Array:
        normed = x if self.cross_norm is None else self.cross_norm(x).astype(x.dtype)
        layer = self.cross_attention
        q = _as_tokens(layer.queries(normed))
        k, v = layer.keys(context.text), layer.values(context.text)
        read = tag(attend(q, k, v, context.text_visibility, self.config), "text.out")
        return layer.project(read).reshape(x.shape)


def paired_block(
    tokens: Pair,
    blocks: tuple[ExpertBlock, ExpertBlock],
    contexts: tuple[StreamContext, StreamContext],
    visibility: Visibility,
) -> Pair:
    """One layer of both experts: ([R, Nv, P, width], [R, Na, A, action width]) to the same."""
    streams = list(zip(STREAMS, blocks, tokens, contexts, strict=True))
    vectors = [block.vectors(context) for _, block, _, context in streams]
    inputs = []
    for (stream, block, x, context), v in zip(streams, vectors, strict=True):
        with scope(f"{stream}_expert.block_{ROUND}", stream=stream):
            inputs.append(block.joint_inputs(x, v, context))
    q, k, v = (jnp.concatenate(parts, axis=1) for parts in zip(*inputs, strict=True))
    joint = attend(q, k, v, visibility, blocks[0].config)
    shares = jnp.split(joint, [inputs[0][0].shape[1]], axis=1)
    outputs = []
    for (stream, block, x, context), share, v in zip(streams, shares, vectors, strict=True):
        with scope(f"{stream}_expert.block_{ROUND}", stream=stream):
            outputs.append(block.finish(x, share, v, context))
    video, action = outputs
    return video, action


def _as_tokens(x: jax.Array) -> jax.Array:
    """[R, frames, tokens, heads, head_dim] to [R, frames * tokens, heads, head_dim]."""
    return x.reshape(x.shape[0], -1, *x.shape[3:])
