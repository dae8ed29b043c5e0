"""One episode's content to the arrays of the store: encoded, scaled, aligned, checked."""

from dataclasses import dataclass

import numpy as np

from wam_jax.data.construction.assemble import assemble_sample
from wam_jax.data.conversion.content import Content
from wam_jax.data.conversion.encoders import LatentEncoder, encode_video
from wam_jax.data.storage.manifest import SCHEMA, Dims, EncoderRecord, Manifest, PayloadRecord
from wam_jax.data.storage.normalisation import Normalisation
from wam_jax.data.storage.units import Units
from wam_jax.data.storage.validate import validate_sample
from wam_jax.errors import InputError


@dataclass(frozen=True)
class Recipe:
    """What is the same for all episodes.

    Attributes:
        units: A and s.
        actions, state: scalings.
        anchored: whether encoders that can tell give condition latents.
        record: what made, or will make, the latents.
    """

    units: Units
    actions: Normalisation
    state: Normalisation
    anchored: bool
    record: EncoderRecord


def finish(content: Content, recipe: Recipe, encoder: LatentEncoder | None, *, name: str) -> dict[str, np.ndarray]:
    """The arrays of an episode, valid ones.

    Args:
        content: what the source gave.
        encoder: for frames; latents are taken as they are.
        name: the episode's id, for messages.
    Raises:
        InputError: the parts do not fit each other, are not finite, or the episode is too short.
    """
    video, condition = content.video_latents, content.condition_latents
    if video is None:
        assert encoder is not None
        assert content.frames is not None
        video, condition = encode_video(encoder, content.frames, anchored=recipe.anchored)
    states = None if content.states is None else recipe.state.apply(content.states)
    per_latent = _is_per_latent(states, video.shape[1], recipe.units)
    with np.errstate(over="ignore"):  # What float16 cannot hold becomes infinite and is refused below.
        arrays = assemble_sample(
            video_latents=video,
            condition_latents=condition if recipe.anchored else None,
            actions=recipe.actions.apply(content.actions),
            states=None if per_latent else states,
            units=recipe.units,
        )
    if per_latent and states is not None:
        arrays["proprio_context_frames"] = states.astype(np.float32)
    validate_sample(arrays, _draft(arrays, recipe), sample_id=name)
    return arrays


def _is_per_latent(states: np.ndarray | None, frames: int, units: Units) -> bool:
    """Whether there is one state per latent frame rather than one per raw frame."""
    if states is None or len(states) != frames:
        return False
    recorded = 1 + units.temporal_stride * (frames - 1)
    return not 0 <= recorded - len(states) < units.temporal_stride


def _draft(arrays: dict[str, np.ndarray], recipe: Recipe) -> Manifest:
    """A manifest that this one episode fits if it fits itself."""
    C, _, height, width = arrays["video_latents"].shape
    if recipe.record.channels != C:
        raise InputError("video_latents", C, f"{recipe.record.channels} channels, as {recipe.record.name} has")
    states = next((arrays[name] for name in ("state", "proprio_context_frames") if name in arrays), None)
    return Manifest(
        schema=SCHEMA,
        num_episodes=1,
        actions_per_frame=recipe.units.actions_per_frame,
        dims=Dims(C, height, width, arrays["actions"].shape[1], None if states is None else states.shape[1]),
        encoder=recipe.record,
        text=None,
        payload=PayloadRecord("array_record"),
        index_fingerprint="",
    )
