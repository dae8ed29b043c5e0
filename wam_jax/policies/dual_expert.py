"""The dual-expert policy: noise the samples, lay their frames into rows, run the network once, decode each sample.

samples [R, S, 2, T, ...]  -- permute -->  rows [R, Nv, ...]  -- DualExpert -->  hidden  -- permute -->  samples
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from wam_jax.config.schema import Config
from wam_jax.data.transport import RowBatch, RowLayout, SampleSlots
from wam_jax.decode.decoder import Decoder, HiddenSamples, HiddenStream, Velocities
from wam_jax.flow.clock import FlowConfig
from wam_jax.flow.noising import NoisedSamples, noise_samples
from wam_jax.flow.schedule import FlowSchedule
from wam_jax.model import DualExpert, ModelConfig, RowHidden, RowTokens, init_params, merge
from wam_jax.model.segments import frame_tiles
from wam_jax.policies.base import Params
from wam_jax.policies.frames import permute_frames
from wam_jax.sequence.row_tiles import token_ranges
from wam_jax.tracing import tag


@dataclass(frozen=True)
class DualExpertPolicy:
    """Joint video and action denoising with two experts that share one attention.

    Attributes:
        model: sizes and arithmetic of the network.
        flow: schedules, clock and augmentation.
        latent_loss_weight: weight of the video loss.
        action_loss_weight: weight of the action loss.
    """

    model: ModelConfig
    flow: FlowConfig
    latent_loss_weight: float = 1.0
    action_loss_weight: float = 1.0

    @property
    def supported_batching_modes(self) -> frozenset[str]:
        """All of them: a row is executed the same way whatever put the samples into it."""
        return frozenset({"strict", "padded", "bucket", "packed"})

    def init(self, key: jax.Array) -> Params:
        """Fresh parameters as a nested dict of arrays."""
        return init_params(self.model, key)

    def forward_train_batch(
        self, params: Params, batch: RowBatch, *, zero_prediction: bool = False
    ) -> dict[str, jax.Array]:
        """Losses and metrics of each sample: float32[R, S]; see `Decoder.decoded` for the names."""
        return self._decoded(params, batch, zero_prediction=zero_prediction)[0]

    def predict_train_batch(self, params: Params, batch: RowBatch) -> tuple[dict[str, jax.Array], Velocities]:
        """The losses of `forward_train_batch`, and the velocities that they are of."""
        return self._decoded(params, batch, zero_prediction=False)

    def _decoded(
        self, params: Params, batch: RowBatch, *, zero_prediction: bool
    ) -> tuple[dict[str, jax.Array], Velocities]:
        noised = _tagged(noise_samples(batch.samples, batch.seed, self.flow, tiles=frame_tiles(self.model)))
        network = merge(self.model, params)
        hidden = self._hidden(network, batch, noised)
        return self._decoder(network).decoded(hidden, noised, batch.samples, zero_prediction=zero_prediction)

    def denoised_video(self, params: Params, batch: RowBatch, *, sigma: float) -> jax.Array:
        """Estimates of the latents from frames noised to `sigma`: float32[R, S, T, C, H, W]."""
        index = int(abs(self.flow.video.sigmas - sigma).argmin())
        noised = noise_samples(batch.samples, batch.seed, self.flow, video_index=index)
        network = merge(self.model, params)
        return self._decoder(network).denoised_video(self._hidden(network, batch, noised), noised)

    def _decoder(self, network: DualExpert) -> Decoder:
        weights = self.latent_loss_weight, self.action_loss_weight
        return Decoder(network.video_head, network.action_head, *weights, *frame_tiles(self.model))

    def _hidden(self, network: DualExpert, batch: RowBatch, noised: NoisedSamples) -> HiddenSamples:
        tokens = row_tokens(batch, noised, self.model)
        return sample_hidden(network(tokens), batch.samples, batch.layout)


def row_tokens(batch: RowBatch, noised: NoisedSamples, model: ModelConfig) -> RowTokens:
    """Moves the copies of all samples into the row buffers."""
    samples, layout = batch.samples, batch.layout
    video_latents, video_timesteps, video_proprio = _to_rows(
        (noised.video.copies, noised.video.timesteps, _both_copies(samples.video_proprio)),
        layout.video_source,
        layout.video_slot,
    )
    actions, action_timesteps, action_proprio = _to_rows(
        (noised.action.copies, noised.action.timesteps, _both_copies(samples.action_proprio)),
        layout.action_source,
        layout.action_slot,
    )
    ranges = token_ranges(
        layout, video_tokens_per_frame=model.tokens_per_frame, actions_per_frame=model.actions_per_frame
    )
    text_keys, proprio_keys = batch.text.shape[1], batch.proprio_keys
    read = _read_keys(layout.text_run_ranges, text_keys + (0 if proprio_keys is None else proprio_keys.shape[1]))
    if proprio_keys is not None:
        proprio_keys = jnp.where(read[:, text_keys:, None], proprio_keys, 0)
    return RowTokens(
        video_latents=video_latents,
        video_timesteps=video_timesteps,
        video_proprio=video_proprio,
        actions=actions,
        action_timesteps=action_timesteps,
        action_proprio=action_proprio,
        text=jnp.where(read[:, :text_keys, None], batch.text, 0),
        proprio_keys=proprio_keys,
        objective=samples.objective,
        video_phase=layout.video_phase,
        action_phase=layout.action_phase,
        ranges=ranges,
        key_valid=layout.key_valid,
        tiles=batch.tiles,
        video_proprio_given=None if video_proprio is None else _without_prefix(samples, layout),
    )


def sample_hidden(hidden: RowHidden, samples: SampleSlots, layout: RowLayout) -> HiddenSamples:
    """Moves the noisy copies back into their samples' slots."""
    rows, slots, video_frames = samples.video_latents.shape[:3]
    action_frames = samples.actions.shape[2]

    def noisy(array: jax.Array, slot: jax.Array, source: jax.Array, frames: int) -> jax.Array:
        copies = permute_frames(array, slot, source).reshape(rows, slots, 2, frames, *array.shape[2:])
        return copies[:, :, 0]

    video = [noisy(a, layout.video_slot, layout.video_source, video_frames) for a in (hidden.video, hidden.video_time)]
    action = [
        noisy(a, layout.action_slot, layout.action_source, action_frames)
        for a in (hidden.action, hidden.action_modulation)
    ]
    return HiddenSamples(HiddenStream(*video), HiddenStream(*action))


def _without_prefix(samples: SampleSlots, layout: RowLayout) -> jax.Array:
    """Which frames of the video buffers are of samples without a prefix: bool[R, Nv]. Others are given no state."""
    frames = 2 * samples.video_latents.shape[2]
    sample = jnp.maximum(layout.video_source, 0) // frames
    return jnp.take_along_axis(samples.prefix_frames, sample, axis=1) == 0


def _both_copies(array: jax.Array | None) -> jax.Array | None:
    """[R, S, frames, ...] to [R, S, 2, frames, ...], the same in both copies."""
    return None if array is None else jnp.stack([array, array], axis=2)


def _to_rows(arrays: Any, source: jax.Array, slot: jax.Array) -> Any:
    """Every array [R, S, 2, frames, ...] of a tree into its row buffer [R, N, ...]."""

    def one(array: jax.Array) -> jax.Array:
        return permute_frames(array.reshape(array.shape[0], -1, *array.shape[4:]), source, slot)

    return jax.tree.map(one, arrays)


def _read_keys(ranges: jax.Array, count: int) -> jax.Array:
    """Which of the first keys lie in any range: int32[R, runs, ranges, 2] to bool[R, count].

    Others hold padding, which is replaced before anything is computed from it: a masked key adds 0 times its value.
    """
    bounds = jnp.minimum(ranges.reshape(ranges.shape[0], -1, 2), count)
    rows = jnp.arange(ranges.shape[0])[:, None]
    steps = jnp.zeros((ranges.shape[0], count + 1), jnp.int32).at[rows, bounds[..., 0]].add(1)
    return jnp.cumsum(steps.at[rows, bounds[..., 1]].add(-1), axis=1)[:, :count] > 0


def policy_from_config(config: Config, model: ModelConfig) -> DualExpertPolicy:
    """The policy of a run."""
    training = config.training
    flow = FlowConfig(
        video=FlowSchedule(training.num_video_timesteps, training.video_sigma_shift),
        action=FlowSchedule(training.num_action_timesteps, training.action_sigma_shift),
        clock=config.policy.joint_timestep_coupling,
        noisy_condition_prob=config.policy.noisy_video_condition_prob,
    )
    return DualExpertPolicy(model, flow, training.latent_loss_weight, training.action_loss_weight)


def _tagged(noised: NoisedSamples) -> NoisedSamples:
    video = tag(noised.video.copies, "noise.video", stream="video_copies")
    action = tag(noised.action.copies, "noise.action", stream="action_copies")
    return NoisedSamples(
        video=dataclasses.replace(noised.video, copies=video), action=dataclasses.replace(noised.action, copies=action)
    )
