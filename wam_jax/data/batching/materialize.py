"""A plan to transport arrays: reads the samples of this process's rows and pads them into fixed-shape batches.

Padding is zeros at the end of a slot, after every sample's own extent; `RowLayout` never refers to it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import jax
import numpy as np

from wam_jax.data.construction.samples import Sample, SampleReader
from wam_jax.data.drawing.draws import DrawTable
from wam_jax.data.storage.manifest import Dims
from wam_jax.data.transport import RowBatch, RowLayout, SampleSlots
from wam_jax.errors import InputError
from wam_jax.sequence.layout import RowSample, TextKeys, build_row, text_keys
from wam_jax.sequence.row_tiles import list_tiles
from wam_jax.sequence.rung import Rung

Rows = list[list[Sample | None]]


@dataclass(frozen=True, eq=False)
class Materializer:
    """Turns the draws of some rows into a `RowBatch`; may be shared by threads and pickled.

    Attributes:
        reader: turns draws into samples.
        clean_differs: whether any sample of the run may have a clean video copy of its own.
        video_states: whether the video frames of any sample of the run are given a state.
    """

    reader: SampleReader
    clean_differs: bool
    video_states: bool

    def batch(self, draws: DrawTable, rung: Rung) -> RowBatch:
        """The transport arrays of draws [rows, slots]; slots that the rung has beyond those stay empty.

        Raises:
            InputError: naming the sample that cannot be used.
        """
        draws = _fitted(draws, rung.samples)
        present = draws.present
        rows: Rows = [
            [self.reader.read(draws[r, s]) if present[r, s] else None for s in range(draws.shape[1])]
            for r in range(draws.shape[0])
        ]
        layout = self._layout(rows, rung)
        return RowBatch(
            samples=self._slots(rows, draws, rung),
            layout=layout,
            tiles=list_tiles(layout, rung, self.reader.constants),
            text=self._text(rows, rung),
            proprio_keys=self._proprio_keys(rows, rung),
            seed=np.uint32(self.reader.config.seed),
        )

    def _slots(self, rows: Rows, draws: DrawTable, rung: Rung) -> SampleSlots:
        dims = self._dims
        video = (rung.video_slot_frames, dims.channel, dims.height, dims.width)
        actions = (rung.action_slot_frames, self.reader.constants.actions_per_frame, dims.action_dim)
        latents = _stacked(rows, "video_latents", video)
        additive = self.reader.config.policy.proprio_context_mode == "per_chunk_additive"
        video_state, action_state = (
            (n, dims.state_dim or 0) for n in (rung.video_slot_frames, rung.action_slot_frames)
        )
        return SampleSlots(
            valid=draws.present,
            draw=np.stack([draws.phase, draws.epoch, draws.position], axis=-1).astype(np.uint32),
            objective=draws.objective.astype(np.int32),
            prefix_frames=draws.prefix_frames.astype(np.int32),
            num_frames=np.where(draws.present, draws.num_frames, 0).astype(np.int32),
            video_latents=latents,
            clean_latents=_stacked(rows, "clean_latents", video) if self.clean_differs else None,
            video_loss_mask=_stacked(rows, "video_loss_mask", (rung.video_slot_frames,), dtype=bool),
            actions=_stacked(rows, "actions", actions),
            action_mask=_stacked(rows, "action_mask", actions),
            video_proprio=_stacked(rows, "video_proprio", video_state) if additive and self.video_states else None,
            action_proprio=_stacked(rows, "action_proprio", action_state) if additive else None,
        )

    def _layout(self, rows: Rows, rung: Rung) -> RowLayout:
        constants = self.reader.constants
        layouts = [build_row(_row_samples(row), rung, constants) for row in rows]
        return jax.tree.map(lambda *arrays: np.stack(arrays), *layouts)

    def _text(self, rows: Rows, rung: Rung) -> np.ndarray:
        """[R, text_keys, text_dim]: each sample's tokens where the layout puts its text keys."""
        text = np.zeros((len(rows), rung.text_keys, self.reader.config.backbone.text_dim), np.float32)
        for r, row in enumerate(rows):
            for sample, keys in self._with_keys(row, rung):
                text[r, keys.text : keys.text + len(sample.text)] = sample.text
        return text

    def _proprio_keys(self, rows: Rows, rung: Rung) -> np.ndarray | None:
        """[R, proprio_keys, state_dim], likewise; None where no sample has proprioception tokens."""
        if not rung.proprio_keys:
            return None
        tokens = np.zeros((len(rows), rung.proprio_keys, self._dims.state_dim or 0), np.float32)
        for r, row in enumerate(rows):
            for sample, keys in self._with_keys(row, rung):
                start = keys.proprio - rung.text_keys
                if sample.proprio_tokens is not None:
                    tokens[r, start : start + len(sample.proprio_tokens)] = sample.proprio_tokens
        return tokens

    def _with_keys(self, row: list[Sample | None], rung: Rung) -> Iterator[tuple[Sample, TextKeys]]:
        keys = text_keys(_row_samples(row), rung, self.reader.constants.alignment)
        return ((sample, where) for sample, where in zip(row, keys, strict=True) if sample is not None)

    @property
    def _dims(self) -> Dims:
        return self.reader.store.manifest.dims


def _fitted(draws: DrawTable, slots: int) -> DrawTable:
    """The draws [rows, n] in exactly `slots` slots; what is cut or added is empty."""
    rows, count = draws.shape
    seats = np.where(np.arange(slots) < count, np.arange(rows)[:, None] * count + np.arange(slots), -1)
    fitted = draws.reshape(-1).seated(seats)
    if fitted.present.sum() != draws.present.sum():
        raise InputError("rung.samples", slots, f"these rows hold up to {draws.present.sum(1).max()}")
    return fitted


def _row_samples(row: list[Sample | None]) -> list[RowSample | None]:
    return [None if sample is None else sample.row for sample in row]


def _stacked(rows: Rows, name: str, shape: tuple[int, ...], *, dtype: type = np.float32) -> np.ndarray:
    """One field of all samples, each in front of its slot: [R, S, *shape], zeros where there is nothing."""
    slots = np.zeros((len(rows), len(rows[0]), *shape), dtype)
    for r, row in enumerate(rows):
        for s, sample in enumerate(row):
            array = None if sample is None else getattr(sample, name)
            if array is not None:
                slots[r, s, : len(array)] = array
    return slots
