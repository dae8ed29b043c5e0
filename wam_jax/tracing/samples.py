"""What of a recorded tensor belongs to which sample: the same array for a sample alone and in company.

A sample's part of a tensor is `[positions, ...]`, in its own order: frames of its noisy copy, then of its clean copy,
or its text keys. Padding and neighbours are left out, so that parts of different rows can be compared.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from wam_jax.data.transport import RowBatch
from wam_jax.tracing.tape import ROUND, Recorded, Stream, Trace

type Draw = tuple[int, int, int]
"""Phase, epoch, position in the epoch."""


@dataclass(frozen=True)
class Part:
    """One sample's part of one tensor.

    Attributes:
        name: of the tensor, the number of the layer filled in.
        stream: how positions are counted.
        value: [positions, ...].
    """

    name: str
    stream: Stream
    value: np.ndarray


def parts_of_samples(trace: Trace, batch: RowBatch) -> dict[Draw, list[Part]]:
    """The parts of all samples of a batch, each in the order of execution."""
    tensors = list(_tensors(trace))
    found = {}
    for row, slot in np.argwhere(np.asarray(batch.samples.valid)):
        place = _Place(batch, int(row), int(slot))
        found[place.draw] = [Part(name, stream, place.part(value, stream)) for name, stream, value in tensors]
    return found


def _tensors(trace: Trace) -> Iterator[tuple[str, Stream, np.ndarray]]:
    """Every tensor, those of a scan over layers round by round; one over sample slots leads with the slots."""
    done: set[int] = set()
    for name, recorded in trace.items():
        if recorded.loop is None or ROUND not in name:
            yield name, recorded.stream, np.asarray(recorded.value)
        elif recorded.loop not in done:
            done.add(recorded.loop)
            yield from _rounds([(n, r) for n, r in trace.items() if r.loop == recorded.loop])


def _rounds(tensors: list[tuple[str, Recorded]]) -> Iterator[tuple[str, Stream, np.ndarray]]:
    values = {name: np.asarray(recorded.value) for name, recorded in tensors}
    for turn in range(len(values[tensors[0][0]])):
        for name, recorded in tensors:
            yield name.replace(ROUND, f"{turn:02d}"), recorded.stream, values[name][turn]


class _Place:
    """Where one sample lies in the tensors of a batch."""

    def __init__(self, batch: RowBatch, row: int, slot: int) -> None:
        samples, layout = batch.samples, batch.layout
        self.row, self.slot = row, slot
        phase, epoch, position = np.asarray(samples.draw)[row, slot].tolist()
        self.draw: Draw = (phase, epoch, position)
        self.action_frames = int(np.asarray(samples.num_frames)[row, slot])
        self.video_frames = self.action_frames + int(np.asarray(samples.prefix_frames)[row, slot])
        slots = np.asarray(samples.valid).shape[1]
        video, action = (np.asarray(s)[row].reshape(slots, 2, -1) for s in (layout.video_slot, layout.action_slot))
        self.video = video[slot, :, : self.video_frames].ravel()
        self.action = action[slot, :, : self.action_frames].ravel()
        self.buffers = {
            "video": layout.video_run.shape[1],
            "action": layout.action_run.shape[1],
        }
        self.text = _text_keys(layout, row, self.video[0])

    def part(self, value: np.ndarray, stream: Stream) -> np.ndarray:
        match stream:
            case "video" | "action":
                frames = value[self.row].reshape(self.buffers[stream], -1, *value.shape[3:])
                return frames[self.video if stream == "video" else self.action]
            case "text":
                return value[self.row, self.text]
            case "samples":
                return value[self.row, self.slot][None]
            case "video_samples":
                return value[self.slot, self.row, : self.video_frames]
            case "action_samples":
                return value[self.slot, self.row, : self.action_frames]
            case "video_copies":
                return _flat_copies(value[self.row, self.slot, :, : self.video_frames])
            case "action_copies":
                return _flat_copies(value[self.row, self.slot, :, : self.action_frames])


def _flat_copies(value: np.ndarray) -> np.ndarray:
    return value.reshape(-1, *value.shape[2:])


def _text_keys(layout: Any, row: int, frame: int) -> np.ndarray:
    """The text keys that a frame's tokens read, ascending."""
    ranges = np.asarray(layout.text_run_ranges)[row, np.asarray(layout.video_text_run)[row, frame]]
    return np.concatenate([np.arange(start, stop) for start, stop in ranges])
