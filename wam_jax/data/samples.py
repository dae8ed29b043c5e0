"""One draw to one sample: reads its record, cuts the segment, applies the sequence contract. NumPy, no padding.

A sample is complete: what a row needs to know of it (`RowSample`) and every array of its slot. Nothing in it depends on
any other sample, on the batch or on the worker.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from wam_jax.config.schema import Config
from wam_jax.data import contracts, proprio, sample_text
from wam_jax.data.actions import FillGroup, FillValue, fill_first_group
from wam_jax.data.contracts import Arrays
from wam_jax.data.draws import NOTHING, DrawTable
from wam_jax.data.store import Store
from wam_jax.data.validate import validate_sample
from wam_jax.errors import InputError
from wam_jax.sequence import Objective, SequenceGeometry
from wam_jax.sequence.layout import RowConstants, RowSample


@dataclass(frozen=True, eq=False)
class Sample:
    """A sample at its true size: F frames, A slots of D entries a frame, L text tokens; float32.

    Attributes:
        row: what its row needs to know.
        draw: the draw it is, arrays of shape [].
        video_latents: [F, C, H, W].
        clean_latents: [F, C, H, W], what the clean copy holds.
        video_loss_mask: bool[F].
        actions: [F, A, D].
        action_mask: [F, A, D], the sample's mask within the action loss range.
        frame_proprio: [F, state_dim] or None, the state given to each frame.
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
    frame_proprio: np.ndarray | None
    text: np.ndarray
    proprio_tokens: np.ndarray | None


@dataclass(frozen=True, eq=False)
class SampleReader:
    """Turns draws into samples; may be shared by threads and pickled.

    Attributes:
        config: the run's.
        store: where records are.
        constants: tokens a frame, actions a frame.
        fill_group, fill_value: group 0 of the actions of a segment that starts inside its episode
            (`wam_jax.data.actions`).
    """

    config: Config
    store: Store
    constants: RowConstants
    fill_group: FillGroup = "masked"
    fill_value: FillValue = "zero"

    def read(self, draw: DrawTable) -> Sample:
        """The sample of one draw (arrays of shape []).

        Raises:
            InputError: naming the sample and the field; the record is missing, damaged, or not what the index says.
        """
        sample_id = str(self.store.index.ids[draw.episode])
        with _naming(sample_id):
            start = int(draw.segment_start)
            arrays = self.store.read(int(draw.episode), frames=(start, start + int(draw.num_frames)))
            validate_sample(arrays, self.store.manifest, sample_id=sample_id)
            return self._sample(draw, arrays)

    def _sample(self, draw: DrawTable, arrays: Arrays) -> Sample:
        policy, objective, frames = self.config.policy, Objective(int(draw.objective)), int(draw.num_frames)
        history, prefix = int(draw.history_frames), int(draw.prefix_frames)
        _same("video_latents", arrays["video_latents"].shape[1], frames)
        clean = contracts.clean_video(policy, objective, arrays, history_frames=history)
        actions, mask = self._actions(draw, arrays)
        video_range = contracts.video_loss_range(objective, frames, history_frames=history, prefix_frames=prefix)
        action_range = contracts.action_loss_range(objective, frames)
        return Sample(
            row=self._row(draw, (mask > 0).any(-1)),
            draw=draw,
            video_latents=_frames_first(arrays["video_latents"]),
            clean_latents=_frames_first(clean),
            video_loss_mask=_within(video_range, frames),
            actions=actions.reshape(frames, -1, actions.shape[-1]),
            action_mask=mask.reshape(frames, -1, mask.shape[-1]) * _within(action_range, frames)[:, None, None],
            frame_proprio=self._frame_proprio(draw, arrays),
            text=self._text(draw, arrays),
            proprio_tokens=self._proprio_tokens(draw, arrays),
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
            singleton_frame=None if singleton == NOTHING else singleton,
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
        """Actions and mask [slots, D]. An episode's own group 0 stays as stored, unless it shall be supervised."""
        actions, mask = np.asarray(arrays["actions"], np.float32), arrays.get("action_mask")
        mask = np.ones_like(actions) if mask is None else np.asarray(mask, np.float32)
        if draw.segment_start == 0 and self.fill_group == "masked":
            return actions, mask
        return fill_first_group(
            actions,
            mask,
            actions_per_frame=self.constants.actions_per_frame,
            fill_group=self.fill_group,
            fill_value=self.fill_value,
        )

    def _frame_proprio(self, draw: DrawTable, arrays: Arrays) -> np.ndarray | None:
        if self.config.policy.proprio_context_mode != "per_chunk_additive":
            return None
        return proprio.state_of_frames(
            arrays,
            int(draw.num_frames),
            chunk_size=int(draw.chunk_size),
            origin=int(draw.chunk_origin),
            stride=self.store.manifest.encoder.temporal_stride,
        )

    def _proprio_tokens(self, draw: DrawTable, arrays: Arrays) -> np.ndarray | None:
        if not draw.num_proprio:
            return None
        tokens = proprio.state_of_chunks(
            arrays,
            int(draw.num_frames),
            chunk_size=int(draw.chunk_size),
            stride=self.store.manifest.encoder.temporal_stride,
        )
        _same(proprio.CHUNK_FIELD, len(tokens), int(draw.num_proprio))
        return tokens

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


def _frames_first(video: np.ndarray) -> np.ndarray:
    """[C, F, H, W] to float32[F, C, H, W]."""
    return np.asarray(video, np.float32).transpose(1, 0, 2, 3)


def _within(frames: contracts.Range, count: int) -> np.ndarray:
    start, stop = frames
    index = np.arange(count)
    return (index >= start) & (index < stop)


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
