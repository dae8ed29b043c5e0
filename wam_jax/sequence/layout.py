"""Where the frames of a row's samples lie, and what each may read: the `RowLayout` of one row.

    video buffer   [ s0: VN frames, VC frames | s1: VN, VC | ... | tail ]
    action buffer  [ s0: AN frames, AC frames | s1: AN, AC | ... | tail ]
    text keys      [ s0 text | s1 text | ... | tail ][ proprio tokens likewise ][ one mode key a slot ]

Packed samples lie back to back, or begin at the next multiple of the alignment; otherwise each owns a slot of the
longest size and its dummies end the slot. Either way a dummy frame is in run 0, which reads nothing, and no run reads a
dummy, so these differ in nothing but offsets.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from wam_jax.errors import InputError
from wam_jax.sequence import rope
from wam_jax.sequence.geometry import SequenceGeometry
from wam_jax.sequence.ranges import RunTable, run_table
from wam_jax.sequence.rung import Rung
from wam_jax.sequence.text import TEXT_RANGES, proprio_token_of_frame
from wam_jax.sequence.tiling import Alignment, Tiling, round_up
from wam_jax.sequence.visibility import key_valid

Array = Any  # np.ndarray on the host, jax.Array on the device


@dataclass(frozen=True)
class RowSample:
    """What a row needs to know of one sample: its geometry, its place in the episode and its text keys.

    Attributes:
        geometry: the sample's geometry.
        frame_shift: episode frame of dataset frame 0, for positions only.
        num_text: text tokens.
        num_proprio: proprioception tokens among the text keys.
        mode_token: whether the sample reads its slot's mode token.
    """

    geometry: SequenceGeometry
    frame_shift: int = 0
    num_text: int = 0
    num_proprio: int = 0
    mode_token: bool = False


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RowLayout:
    """Where the frames of a row's samples lie in its buffers, and which keys each may read.

    Token order of the self-attention key space is all video tokens (Nv * P), then all action tokens (Na * A); of the
    text key space the text keys, the proprio keys, then one mode key per sample slot (where the model has them).
    A *run* is a stretch of frames whose tokens read the same keys; run 0 reads nothing.

    Attributes:
        video_source: int32[R, Nv], the flattened (sample, copy, frame) index over [S, 2, T] that a buffer frame holds.
        video_slot: int32[R, S * 2 * T], its inverse: the buffer frame of each (sample, copy, frame).
        action_source: int32[R, Na], the same over [S, 2, F].
        action_slot: int32[R, S * 2 * F].
        video_run: int32[R, Nv], the run of each video buffer frame.
        action_run: int32[R, Na].
        run_ranges: int32[R, runs, ranges, 2], half-open key ranges of each run, disjoint and ascending.
        key_valid: bool[R, Nv * P + Na * A], tokens that may be read.
        video_text_run: int32[R, Nv], the text run of each video buffer frame.
        action_text_run: int32[R, Na].
        text_run_ranges: int32[R, runs, text_ranges, 2].
        video_phase: float32[R, Nv, frame_axis / 2, 2], cosine and sine of the frame axis of RoPE.
        action_phase: float32[R, Na, A, frame_axis / 2, 2].
    """

    video_source: Array
    video_slot: Array
    action_source: Array
    action_slot: Array
    video_run: Array
    action_run: Array
    run_ranges: Array
    key_valid: Array
    video_text_run: Array
    action_text_run: Array
    text_run_ranges: Array
    video_phase: Array
    action_phase: Array


@dataclass(frozen=True)
class RowConstants:
    """What all rows of a run share.

    Attributes:
        video_tokens_per_frame: P.
        actions_per_frame: A.
        ranges: key ranges of a run at most.
        frame_axis: RoPE features of the frame axis.
        packed: whether samples lie back to back, else in slots of the longest.
        mode_token: whether a mode key for each slot stands behind the text keys, at a multiple of the alignment.
        tiling: how attention cuts rows into tiles; None where nobody lists them ahead.
    """

    video_tokens_per_frame: int
    actions_per_frame: int
    ranges: int
    frame_axis: int
    packed: bool
    mode_token: bool = False
    tiling: Tiling | None = None

    @property
    def alignment(self) -> Alignment:
        """Where samples may begin: the fewest whole frames that fill whole tiles."""
        if self.tiling is None or self.tiling.alignment is None:
            return Alignment()
        tokens = self.tiling.alignment
        video, action = (
            tokens // math.gcd(tokens, frame) for frame in (self.video_tokens_per_frame, self.actions_per_frame)
        )
        return Alignment(video, action, tokens)


@dataclass(frozen=True)
class TextKeys:
    """First keys of one sample: its text, its proprio tokens, and its mode token in the whole text key space."""

    text: int
    proprio: int
    mode: int


def text_keys(samples: Sequence[RowSample | None], rung: Rung, alignment: Alignment) -> list[TextKeys]:
    """Where each slot's text keys begin. Text and proprio tokens have their true lengths and begin where they may."""
    keys, text, proprio = [], 0, rung.text_keys
    for slot, sample in enumerate(samples):
        keys.append(TextKeys(text, proprio, rung.text_keys + rung.proprio_keys + slot * alignment.keys))
        if sample is not None:
            text += round_up(sample.num_text, alignment.keys)
            proprio += round_up(sample.num_proprio, alignment.keys)
    _fits("text_keys", text, rung.text_keys)
    _fits("proprio_keys", proprio - rung.text_keys, rung.proprio_keys)
    return keys


def build_row(samples: Sequence[RowSample | None], rung: Rung, constants: RowConstants) -> RowLayout:
    """Lays one row out: the arrays of `RowLayout` without the row axis.

    Args:
        samples: the sample of each slot, None for an empty one.
        rung: the row's sizes.
        constants: what all rows share.

    Raises:
        InputError: where the samples need more of anything than the rung holds; nothing is ever cut.
    """
    _fits("samples", len(samples), rung.samples)
    row = _Row(rung, constants)
    keys_of_slots = text_keys(samples, rung, constants.alignment)
    for slot, (sample, keys) in enumerate(zip(samples, keys_of_slots, strict=True)):
        if sample is not None:
            row.place(slot, sample, keys)
    return row.finish()


def _fits(what: str, need: int, have: int) -> None:
    if need > have:
        raise InputError(f"rung.{what}", have, f"these samples need {need}")


class _Stream:
    """One stream's buffer while a row is being filled."""

    def __init__(self, frames: int, slots: int, slot_frames: int, tokens: int, *, offset: int, multiple: int) -> None:
        self.frames, self.slot_frames, self.tokens = frames, slot_frames, tokens
        self.offset, self.multiple = offset, multiple
        self.source = np.full(frames, -1, np.int32)
        self.slot = np.full(slots * 2 * slot_frames, -1, np.int32)
        self.run = np.zeros(frames, np.int32)
        self.text_run = np.zeros(frames, np.int32)
        self.valid = np.zeros((frames, tokens), bool)
        self.used = 0

    def place(self, what: str, slot: int, count: int, *, packed: bool) -> slice:
        """Claims 2 * count frames for a slot, noisy then clean; returns where they lie."""
        _fits(f"{what}_slot_frames", count, self.slot_frames)
        start = self.used if packed else slot * round_up(2 * self.slot_frames, self.multiple)
        where = slice(start, start + 2 * count)
        _fits(f"{what}_frames", where.stop, self.frames)
        index = slot * 2 * self.slot_frames + np.concatenate([np.arange(count), self.slot_frames + np.arange(count)])
        self.source[where] = index
        self.slot[index] = np.arange(where.start, where.stop)
        self.used = round_up(where.stop, self.multiple)
        return where

    def first_key(self, where: slice) -> int:
        """The key of the first token of a stretch of frames."""
        return self.offset + where.start * self.tokens


class _Row:
    """A row while samples are being placed in it."""

    def __init__(self, rung: Rung, constants: RowConstants) -> None:
        self.constants = constants
        p, a, alignment = constants.video_tokens_per_frame, constants.actions_per_frame, constants.alignment
        slots, behind = rung.samples, rung.video_frames * p
        self.video = _Stream(
            rung.video_frames, slots, rung.video_slot_frames, p, offset=0, multiple=alignment.video_frames
        )
        self.action = _Stream(
            rung.action_frames, slots, rung.action_slot_frames, a, offset=behind, multiple=alignment.action_frames
        )
        self.ranges = np.zeros((rung.runs, constants.ranges, 2), np.int32)
        self.text_ranges = np.zeros((rung.runs, TEXT_RANGES, 2), np.int32)
        self.runs = self.text_runs = 1  # run 0 reads nothing
        pairs = constants.frame_axis // 2
        self.video_phase = np.zeros((rung.video_frames, pairs, 2), np.float32)
        self.action_phase = np.zeros((rung.action_frames, a, pairs, 2), np.float32)

    def place(self, slot: int, sample: RowSample, keys: TextKeys) -> None:
        geometry, packed = sample.geometry, self.constants.packed
        video = self.video.place("video", slot, geometry.num_video_frames, packed=packed)
        action = self.action.place("action", slot, geometry.num_frames, packed=packed)
        table = run_table(geometry)
        self._place_runs(table, video, action)
        valid = key_valid(geometry)
        split = 2 * geometry.num_video_frames * self.video.tokens
        self.video.valid[video] = valid[:split].reshape(2 * geometry.num_video_frames, self.video.tokens)
        self.action.valid[action] = valid[split:].reshape(2 * geometry.num_frames, self.action.tokens)
        self._place_text(sample, keys, video, action)
        self._place_phases(sample, video, action)

    def _place_runs(self, table: RunTable, video: slice, action: slice) -> None:
        _fits("runs", self.runs + table.num_runs, len(self.ranges))
        _fits("ranges", table.num_ranges, self.ranges.shape[1])
        self.video.run[video] = self.runs + table.video_run
        self.action.run[action] = self.runs + table.action_run
        tokens = np.where(table.is_action, self.action.tokens, self.video.tokens)
        first = np.where(table.is_action, self.action.first_key(action), self.video.first_key(video))
        bounds = np.stack([table.starts, table.stops], -1) * tokens[..., None] + first[..., None]
        bounds[table.starts == table.stops] = 0
        self.ranges[self.runs : self.runs + table.num_runs, : table.num_ranges] = bounds
        self.runs += table.num_runs

    def _place_text(self, sample: RowSample, keys: TextKeys, video: slice, action: slice) -> None:
        """One text run for each proprio token that is read alone, and one for queries that read none."""
        video_token = proprio_token_of_frame(sample.geometry, "video", sample.num_proprio)
        action_token = proprio_token_of_frame(sample.geometry, "action", sample.num_proprio)
        count = sample.num_proprio + 1
        _fits("runs", self.text_runs + count, len(self.text_ranges))
        self.video.text_run[video] = self.text_runs + 1 + video_token
        self.action.text_run[action] = self.text_runs + 1 + action_token
        rows = self.text_ranges[self.text_runs : self.text_runs + count]
        rows[:, 0] = keys.text, keys.text + sample.num_text
        token = keys.proprio + np.arange(sample.num_proprio)
        rows[1:, 1] = np.stack([token, token + 1], -1)
        if sample.mode_token:
            rows[:, 2] = keys.mode, keys.mode + 1
        self.text_runs += count

    def _place_phases(self, sample: RowSample, video: slice, action: slice) -> None:
        geometry, axis, shift = sample.geometry, self.constants.frame_axis, sample.frame_shift
        frames = rope.video_frame_positions(
            geometry.num_video_frames, frame_shift=shift, prefix_frames=geometry.prefix_frames
        )
        slots = rope.action_slot_positions(
            geometry.num_frames, actions_per_frame=geometry.actions_per_frame, frame_shift=shift
        )
        self.video_phase[video] = np.tile(rope.phases(frames, axis), (2, 1, 1))
        self.action_phase[action] = np.tile(rope.phases(slots, axis), (2, 1, 1, 1))

    def finish(self) -> RowLayout:
        video, action = self.video, self.action
        return RowLayout(
            video_source=video.source,
            video_slot=video.slot,
            action_source=action.source,
            action_slot=action.slot,
            video_run=video.run,
            action_run=action.run,
            run_ranges=_ascending(self.ranges),
            key_valid=np.concatenate([video.valid.ravel(), action.valid.ravel()]),
            video_text_run=video.text_run,
            action_text_run=action.text_run,
            text_run_ranges=_ascending(self.text_ranges),
            video_phase=self.video_phase,
            action_phase=self.action_phase,
        )


def _ascending(ranges: np.ndarray) -> np.ndarray:
    """Sorts the disjoint ranges of each run by where they end, so that the empty ones, (0, 0), come first."""
    order = np.argsort(ranges[..., 1], axis=-1, kind="stable")
    return np.take_along_axis(ranges, order[..., None], axis=1)
