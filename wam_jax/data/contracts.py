"""The sequence contract: what a sample's objective and recipe decide about its parts, one function a decision.

                      joint                                   conditional (one stream given clean)
    clean video copy  the condition latents where asked for   the video itself
    video loss        frames from the history on              frames from 1 on
    action loss       all frames                              frames from 1 on
    text              kept                                    removed
    history           the policy's rule                       the one clean frame before the chunk

Ranges count dataset frames and are half-open; a prefix frame is never supervised, and replaces the history as the
unsupervised start of a joint sample.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wam_jax.config.schema import PolicyConfig
from wam_jax.errors import InputError
from wam_jax.sequence import Objective
from wam_jax.sequence.programs import PROGRAMS

Arrays = Mapping[str, np.ndarray]
Range = tuple[int, int]


@dataclass(frozen=True)
class SequenceColumns:
    """What the contract fixes about the frames of draws; int64 arrays of their shape, -1 for no singleton."""

    prefix_frames: np.ndarray
    chunk_origin: np.ndarray
    singleton_frame: np.ndarray


def objective_of(policy: PolicyConfig) -> Objective:
    """The objective of every draw of a run whose data is not routed."""
    fixed = PROGRAMS[policy.program].fixed_objective
    return Objective.JOINT if fixed is None else fixed


def sequence_columns(shape: tuple[int, ...]) -> SequenceColumns:
    """The default contract: the sequence as given, chunks counted from its first frame."""
    zeros = np.zeros(shape, np.int64)
    return SequenceColumns(prefix_frames=zeros, chunk_origin=zeros, singleton_frame=np.full(shape, -1))


def wants_condition_latents(policy: PolicyConfig) -> bool:
    """Whether condition latents are used where a sample has them."""
    return policy.use_condition_latents or policy.context_condition_latent_source == "single_frame_condition_latent"


def needs_condition_latents(policy: PolicyConfig) -> bool:
    """Whether a joint sample without condition latents cannot be used."""
    return policy.require_condition_latents or policy.context_condition_latent_source == "single_frame_condition_latent"


def clean_video(policy: PolicyConfig, objective: Objective, arrays: Arrays, *, history_frames: int) -> np.ndarray:
    """What the clean copy of the video holds: [C, F, H, W], the sample's own array where nothing is replaced.

    Raises:
        InputError: the recipe needs condition latents and the sample has none.
    """
    video, condition = arrays["video_latents"], arrays.get("condition_latents")
    if objective.conditional:
        return video
    if condition is None:
        if needs_condition_latents(policy):
            raise InputError("condition_latents", None, "the policy needs them in every sample")
        return video
    if policy.context_condition_latent_source == "single_frame_condition_latent":
        return np.concatenate([condition[:, :history_frames], video[:, history_frames:]], axis=1)
    return condition if policy.use_condition_latents else video


def video_loss_range(objective: Objective, num_frames: int, *, history_frames: int, prefix_frames: int) -> Range:
    """Dataset frames whose video is supervised."""
    if objective.conditional:
        return 1, num_frames
    return (0 if prefix_frames else history_frames), num_frames


def action_loss_range(objective: Objective, num_frames: int) -> Range:
    """Dataset frames whose actions are supervised."""
    return int(objective.conditional), num_frames


def history_rule(policy: PolicyConfig, objective: Objective) -> str:
    """Which streams of earlier chunks are read."""
    return "video_only" if objective.conditional else policy.history_stream_visibility


def removes_text(objective: Objective) -> bool:
    """Whether the sample is trained without its text."""
    return objective.conditional
