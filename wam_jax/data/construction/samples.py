"""One draw to one sample: reads its record, cuts the segment, applies the sequence contract. NumPy, no padding.

A sample is complete: what a row needs to know of it (`RowSample`) and every array of its slot. Nothing in it depends on
any other sample, on the batch or on the worker.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from wam_jax.config.schema import Config
from wam_jax.data.construction import sample_text
from wam_jax.data.construction.actions import fill_first_group
from wam_jax.data.drawing import contracts, proprio
from wam_jax.data.drawing.contracts import Arrays
from wam_jax.data.drawing.draws import DrawTable
from wam_jax.data.drawing.loss_ranges import within
from wam_jax.data.storage.fields import BY_NAME
from wam_jax.data.storage.store import Store
from wam_jax.data.storage.units import Units
from wam_jax.data.storage.validate import validate_sample
from wam_jax.errors import InputError
from wam_jax.sequence import Objective, SequenceGeometry
from wam_jax.sequence.contracts import NO_SINGLETON
from wam_jax.sequence.layout import RowConstants, RowSample


@dataclass(frozen=True, eq=False)
class Sample:
    """A sample at its true size, float32: F dataset frames, T = F + prefix model frames of the video (prefix first),
    A slots of D entries a frame, L text tokens.

    Attributes:
        row: what its row needs to know.
        draw: the draw it is, arrays of shape [].
        video_latents: [T, C, H, W].
        clean_latents: [T, C, H, W], what the clean copy holds.
        video_loss_mask: bool[T].
        actions: [F, A, D].
        action_mask: [F, A, D], the sample's mask within the action loss range.
        video_proprio: [T, state_dim], the state added to each video frame; None for none, as where there is a prefix.
        action_proprio: [F, state_dim] or None, the state added to the actions of each frame.
        text: [L, text_dim].
        proprio_tokens: [tokens, state_dim] or None.
    """

    row: RowSample
    draw: DrawTable
    video_latents: np.ndarray
    clean_latents: np.ndarray
    video_loss_mask: np.ndarray
    actions: np.ndarray
    action_mask: np.ndarray
    video_proprio: np.ndarray | None
    action_proprio: np.ndarray | None
    text: np.ndarray
    proprio_tokens: np.ndarray | None


@dataclass(frozen=True, eq=False)
class _Record:
    """What was read for one draw.

    Attributes:
        own: the arrays of the sample's frames.
        before: those from the frame that a prefix shows on.
    """

    own: Arrays
    before: Arrays


@dataclass(frozen=True, eq=False)
class SampleReader:
    """Turns draws into samples; may be shared by threads and pickled.

    Attributes:
        config: the run's.
        store: where records are.
        constants: tokens a frame, actions a frame.
    """

    config: Config
    store: Store
    constants: RowConstants

    def read(self, draw: DrawTable) -> Sample:
        """The sample of one draw (arrays of shape []).

        Raises:
            InputError: naming the sample and the field; the record is missing, damaged, or not what the index says, or
                the draw is none of its program and objective.
        """
        with _naming(str(self.store.index.ids[draw.episode])):
            contracts.check_draw(self.config.policy, draw)
            return self._sample(draw, self._record(draw))

    def _record(self, draw: DrawTable) -> _Record:
        start, frames = int(draw.segment_start), int(draw.num_frames)
        lead = min(start, int(draw.prefix_frames))
        arrays = self.store.read(int(draw.episode), frames=(start - lead, start + frames))
        validate_sample(arrays, self.store.manifest, sample_id=str(self.store.index.ids[draw.episode]))
        _same("video_latents", arrays["video_latents"].shape[1], lead + frames)
        return _Record(own=_without(arrays, lead, self.store.manifest.units), before=arrays)

    def _sample(self, draw: DrawTable, record: _Record) -> Sample:
        objective, frames = Objective(int(draw.objective)), int(draw.num_frames)
        history, prefix = int(draw.history_frames), int(draw.prefix_frames)
        clean = contracts.clean_video(self.config.policy, objective, record.own, history_frames=history)
        actions, mask = self._actions(draw, record.own)
        ranges = contracts.sequence_law(self.config).ranges
        video_range = ranges.of_video(objective, frames, history_frames=history, prefix_frames=prefix)
        action_range = ranges.of_actions(objective, frames)
        states = self._frame_proprio(draw, record)
        return Sample(
            row=self._row(draw, (mask > 0).any(-1)),
            draw=draw,
            video_latents=_with_prefix(record.own["video_latents"], record.before, prefix),
            clean_latents=_with_prefix(clean, record.before, prefix),
            video_loss_mask=np.pad(within(video_range, frames), (prefix, 0)),
            actions=actions.reshape(frames, -1, actions.shape[-1]),
            action_mask=mask.reshape(frames, -1, mask.shape[-1]) * within(action_range, frames)[:, None, None],
            video_proprio=None if prefix else states,
            action_proprio=states,
            text=self._text(draw, record.own),
            proprio_tokens=self._proprio_tokens(draw, record.own),
        )

    def _row(self, draw: DrawTable, action_valid: np.ndarray) -> RowSample:
        objective, singleton = Objective(int(draw.objective)), int(draw.singleton_frame)
        geometry = SequenceGeometry(
            num_frames=int(draw.num_frames),
            video_tokens_per_frame=self.constants.video_tokens_per_frame,
            actions_per_frame=self.constants.actions_per_frame,
            chunk_size=int(draw.chunk_size),
            window_size=int(draw.window_size),
            program=self.config.policy.program,
            history=contracts.history_rule(self.config.policy, objective),
            prefix_frames=int(draw.prefix_frames),
            chunk_origin=int(draw.chunk_origin),
            singleton_frame=None if singleton == NO_SINGLETON else singleton,
            boundary_only=objective.conditional,
            action_valid=action_valid,
        )
        return RowSample(
            geometry,
            frame_shift=int(draw.frame_shift),
            num_text=int(draw.num_text),
            num_proprio=int(draw.num_proprio),
            mode_token=self.config.policy.generalist_mode_text_token,
        )

    def _actions(self, draw: DrawTable, arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
        """Actions and mask [slots, D]. An episode's own group 0 stays as stored unless the recipe says otherwise."""
        construction = self.config.data.sample_construction
        masked = contracts.masks_first_group(self.config.policy, Objective(int(draw.objective)))
        actions, mask = np.asarray(arrays["actions"], np.float32), arrays.get("action_mask")
        mask = np.ones_like(actions) if mask is None else np.asarray(mask, np.float32)
        if draw.segment_start == 0 and construction.fill_group == "masked" and not masked:
            return actions, mask
        return fill_first_group(
            actions,
            mask,
            actions_per_frame=self.constants.actions_per_frame,
            fill_group="masked" if masked else construction.fill_group,
            fill_value="zero" if masked else construction.fill_value,
        )

    def _frame_proprio(self, draw: DrawTable, record: _Record) -> np.ndarray | None:
        if self.config.policy.proprio_context_mode != "per_chunk_additive":
            return None
        before = proprio.frame_states(record.before, self._stride) if draw.prefix_frames else None
        return proprio.state_of_frames(
            record.own,
            int(draw.num_frames),
            chunk_size=int(draw.chunk_size),
            origin=int(draw.chunk_origin),
            stride=self._stride,
            anchor=None if before is None else before[0],
        )

    def _proprio_tokens(self, draw: DrawTable, arrays: Arrays) -> np.ndarray | None:
        if not draw.num_proprio:
            return None
        tokens = proprio.state_tokens(
            arrays,
            int(draw.num_frames),
            chunk_size=int(draw.chunk_size),
            origin=int(draw.chunk_origin),
            stride=self._stride,
        )
        _same("proprioception tokens", len(tokens), int(draw.num_proprio))
        return tokens

    @property
    def _stride(self) -> int:
        return self.store.manifest.encoder.temporal_stride

    def _text(self, draw: DrawTable, arrays: Arrays) -> np.ndarray:
        shape = int(draw.num_text), self.config.backbone.text_dim
        if contracts.removes_text(Objective(int(draw.objective))):
            return np.zeros(shape, np.float32)
        if draw.drop_text:
            tokens = sample_text.negative_tokens(self.store, arrays)
        else:
            tokens = sample_text.text_tokens(self.store, int(draw.episode), arrays)
        if tokens is None:
            return np.zeros(shape, np.float32)
        _same("text_context", len(tokens), shape[0])
        return tokens


def _with_prefix(video: np.ndarray, before: Arrays, prefix_frames: int) -> np.ndarray:
    """[C, F, H, W] to float32[prefix + F, C, H, W], the first condition latent of `before` in front."""
    if prefix_frames:
        if "condition_latents" not in before:
            raise InputError("condition_latents", None, "the prefix frame is made of them; every sample needs them")
        video = np.concatenate([before["condition_latents"][:, :1], video], axis=1)
    return np.asarray(video, np.float32).transpose(1, 0, 2, 3)


def _without(arrays: Arrays, lead: int, units: Units) -> Arrays:
    """The arrays without their first `lead` latent frames."""
    if not lead:
        return arrays
    stop = arrays["video_latents"].shape[1]
    rows = {name: units.rows(BY_NAME[name].unit, lead, stop) for name in arrays}
    return {name: array[(slice(None),) * BY_NAME[name].time_axis + (rows[name],)] for name, array in arrays.items()}


def _same(field: str, found: int, planned: int) -> None:
    if found != planned:
        raise InputError(field, found, f"the index says {planned}; payload and index disagree, copy the store again")


@contextmanager
def _naming(sample_id: str) -> Generator[None]:
    """Makes whatever goes wrong say which sample it was."""
    try:
        yield
    except InputError as error:
        if error.field.startswith("sample "):
            raise
        raise InputError(f"sample {sample_id}: {error.field}", error.value, error.remedy) from error
    except Exception as error:
        error.add_note(f"while preparing sample {sample_id}")
        raise
