"""`DualExpert`: a video and an action transformer of equal depth that share nothing but the softmax of each layer.

The network works on whole rows (`wam_jax.model.inputs`): what a token reads is data, so programs, objectives, chunk
sizes and the packing of samples never change the compiled program. Heads act frame by frame and are called on their
own, after the caller has put the frames back in the order of samples.
"""

import functools

import jax
import jax.numpy as jnp
from flax import nnx

from wam_jax import tracing
from wam_jax.model.attention import Visibility
from wam_jax.model.block import ExpertBlock, Pair, StreamContext, paired_block
from wam_jax.model.config import ModelConfig
from wam_jax.model.context import TextContext
from wam_jax.model.expert import ActionExpert, VideoExpert
from wam_jax.model.inputs import RowHidden, RowTokens
from wam_jax.model.layers import zero_linear
from wam_jax.model.remat import rematerialised
from wam_jax.model.rotary import action_spatial_phase, video_spatial_phase
from wam_jax.tracing import tag


class DualExpert(nnx.Module):
    """The joint video and action diffusion transformer. `wam_jax.model.parameters` documents its parameters."""

    def __init__(self, config: ModelConfig, *, rngs: nnx.Rngs) -> None:
        self.config = config
        self.video_expert = VideoExpert(config, rngs=rngs)
        self.action_expert = ActionExpert(config, rngs=rngs)
        self.text_context = TextContext(config, rngs=rngs)
        adds = config.proprio == "per_chunk_additive"
        self.proprio_encoder = zero_linear(config, config.state_dim, config.video.width, rngs=rngs) if adds else None

    def __call__(self, tokens: RowTokens) -> RowHidden:
        """Runs both stacks over the rows.

        Raises:
            ValueError: for proprioception that the configuration does not ask for, or the lack of it.
        """
        self._check(tokens)
        video, action = self._embed(tokens)
        video = tag(video, "video_expert.embedding", stream="video")
        action = tag(action, "action_expert.embedding", stream="action")
        video_time, video_vectors = self.video_expert.time_embedding(tokens.video_timesteps)
        _, action_vectors = self.action_expert.time_embedding(tokens.action_timesteps)
        video_vectors = tag(video_vectors, "video_expert.modulation", stream="video")
        action_vectors = tag(action_vectors, "action_expert.modulation", stream="action")
        contexts = self._contexts(tokens, (video_vectors, action_vectors))
        reads, tiles = tokens.ranges.joint, tokens.tiles.joint
        joint = Visibility(ranges=reads, key_valid=tokens.key_valid, tiles=tiles)
        video, action = self._run_blocks((video, action), contexts, joint)
        return RowHidden(video=video, action=action, video_time=video_time, action_modulation=action_vectors[:, :, :2])

    def video_head(self, hidden: jax.Array, time: jax.Array) -> jax.Array:
        """Velocity of video frames: hidden [..., P, width], raw time embedding [..., width]; float32[..., C, H, W]."""
        return self.video_expert.predict(hidden, time)

    def action_head(self, hidden: jax.Array, modulation: jax.Array) -> jax.Array:
        """Velocity of action frames: hidden [..., A, width], shift and scale [..., 2, width]; float32[..., A, D]."""
        return self.action_expert.predict(hidden, modulation)

    def _embed(self, tokens: RowTokens) -> Pair:
        video, action = self.video_expert.embed(tokens.video_latents), self.action_expert.embed(tokens.actions)
        if self.proprio_encoder is not None:
            if tokens.video_proprio is not None:
                state = self.proprio_encoder(tokens.video_proprio)
                if tokens.video_proprio_given is not None:
                    state = jnp.where(tokens.video_proprio_given[..., None], state, 0)
                video = video + state[:, :, None]
            if tokens.action_proprio is not None:
                state = self.proprio_encoder(tokens.action_proprio)
                action = action + self.action_expert.project_context(state)[:, :, None]
        return video, action

    def _contexts(self, tokens: RowTokens, vectors: Pair) -> tuple[StreamContext, StreamContext]:
        # Layers read these in the compute dtype; handed over in the wide one, their gradients add up over layers in it.
        wide = self.config.wide_dtype
        raw = self.text_context(tokens)
        ranges, tiles = tokens.ranges, tokens.tiles
        video_reads, action_reads = (
            Visibility(ranges=reads, key_valid=None, tiles=lists)
            for reads, lists in ((ranges.video_text, tiles.video_text), (ranges.action_text, tiles.action_text))
        )
        video_text = tag(self.video_expert.text_embedding(raw), "video_expert.text", stream="text")
        action_text = tag(self.action_expert.text_embedding(raw), "action_expert.text", stream="text")
        video = StreamContext(
            modulation=vectors[0].astype(wide),
            frame_phase=tokens.video_phase[:, :, None],
            spatial_phase=video_spatial_phase(self.config),
            text=video_text.astype(wide),
            text_visibility=video_reads,
        )
        action = StreamContext(
            modulation=vectors[1].astype(wide),
            frame_phase=tokens.action_phase,
            spatial_phase=action_spatial_phase(self.config),
            text=action_text.astype(wide),
            text_visibility=action_reads,
        )
        return video, action

    def _run_blocks(self, tokens: Pair, contexts: tuple[StreamContext, StreamContext], joint: Visibility) -> Pair:
        def layer(carry: Pair, blocks: tuple[ExpertBlock, ExpertBlock]) -> tuple[Pair, None]:
            return paired_block(carry, blocks, contexts, joint), None

        stacks = (self.video_expert.blocks, self.action_expert.blocks)
        return tracing.scan(layer, tokens, stacks, wrap=functools.partial(rematerialised, remat=self.config.remat))[0]

    def _check(self, tokens: RowTokens) -> None:
        added = tokens.video_proprio is not None or tokens.action_proprio is not None
        as_text = tokens.proprio_keys is not None
        wanted = (self.config.proprio == "per_chunk_additive", self.config.proprio == "text_context_token")
        if (added, as_text) != wanted:
            raise ValueError(f"proprio = {self.config.proprio!r} but the row has {added=}, {as_text=} states")
