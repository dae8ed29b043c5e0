"""`DualExpert`: a video and an action transformer of equal depth that share nothing but the softmax of each layer.

The network works on whole rows (`wam_jax.model.inputs`): what a token reads is data, so programs, objectives, chunk
sizes and the packing of samples never change the compiled program. Heads act frame by frame and are called on their
own, after the caller has put the frames back in the order of samples.
"""

import functools
from typing import Any

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
from wam_jax.model.segments import framewise
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
        video_time, video_vectors = self._time(self.video_expert, tokens.video_timesteps, video.shape[2])
        _, action_vectors = self._time(self.action_expert, tokens.action_timesteps, action.shape[2])
        video_vectors = tag(video_vectors, "video_expert.modulation", stream="video")
        action_vectors = tag(action_vectors, "action_expert.modulation", stream="action")
        contexts = self._contexts(tokens, (video_vectors, action_vectors))
        reads, tiles = tokens.ranges.joint, tokens.tiles.joint
        joint = Visibility(ranges=reads, key_valid=tokens.key_valid, tiles=tiles)
        video, action = self._run_blocks((video, action), contexts, joint)
        return RowHidden(video=video, action=action, video_time=video_time, action_modulation=action_vectors[:, :, :2])

    def video_head(self, hidden: jax.Array, time: jax.Array) -> jax.Array:
        """Velocity of video frames: hidden [R, T, P, width], raw time embedding [R, T, width]; [R, T, C, H, W]."""
        predict = lambda expert, hidden, time: expert.predict(hidden, time)  # noqa: E731
        tokens = self.config.tokens_per_frame
        return framewise(predict, self.video_expert, hidden, time, tokens=tokens, config=self.config)

    def action_head(self, hidden: jax.Array, modulation: jax.Array) -> jax.Array:
        """Velocity of action frames: hidden [R, F, A, width], shift and scale [R, F, 2, width]; [R, F, A, D]."""
        predict = lambda expert, hidden, modulation: expert.predict(hidden, modulation)  # noqa: E731
        tokens = self.config.actions_per_frame
        return framewise(predict, self.action_expert, hidden, modulation, tokens=tokens, config=self.config)

    def _time(self, expert: VideoExpert | ActionExpert, timesteps: jax.Array, tokens: int) -> Pair:
        """The raw time embedding and the six modulation vectors of every frame."""
        embed = expert.time_embedding
        return framewise(lambda embed, times: embed(times), embed, timesteps, tokens=tokens, config=self.config)

    def _embed(self, tokens: RowTokens) -> Pair:
        """Embedded tokens, with the frames' states where they are added."""

        def video(modules: Any, latents: jax.Array, state: jax.Array | None, given: jax.Array | None) -> jax.Array:
            expert, encoder = modules
            if encoder is None or state is None:
                return expert.embed(latents)
            added = encoder(state)
            added = added if given is None else jnp.where(given[..., None], added, 0)
            return expert.embed(latents) + added[..., None, :]

        def action(modules: Any, actions: jax.Array, state: jax.Array | None) -> jax.Array:
            expert, encoder = modules
            if encoder is None or state is None:
                return expert.embed(actions)
            return expert.embed(actions) + expert.project_context(encoder(state))[..., None, :]

        config, encoder, given = self.config, self.proprio_encoder, tokens.video_proprio_given
        inputs = tokens.video_latents, tokens.video_proprio, given
        return (
            framewise(video, (self.video_expert, encoder), *inputs, tokens=config.tokens_per_frame, config=config),
            framewise(
                action,
                (self.action_expert, encoder),
                tokens.actions,
                tokens.action_proprio,
                tokens=config.actions_per_frame,
                config=config,
            ),
        )

    def _text(self, expert: VideoExpert | ActionExpert, raw: jax.Array) -> jax.Array:
        """The text keys as an expert projects them."""
        project = expert.text_embedding
        return framewise(lambda project, keys: project(keys), project, raw, tokens=1, config=self.config)

    def _contexts(self, tokens: RowTokens, vectors: Pair) -> tuple[StreamContext, StreamContext]:
        # Layers read these in the compute dtype; handed over in the wide one, their gradients add up over layers in it.
        wide = self.config.wide_dtype
        raw = self.text_context(tokens)
        ranges, tiles = tokens.ranges, tokens.tiles
        video_reads, action_reads = (
            Visibility(ranges=reads, key_valid=None, tiles=lists)
            for reads, lists in ((ranges.video_text, tiles.video_text), (ranges.action_text, tiles.action_text))
        )
        video_text = tag(self._text(self.video_expert, raw), "video_expert.text", stream="text")
        action_text = tag(self._text(self.action_expert, raw), "action_expert.text", stream="text")
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
