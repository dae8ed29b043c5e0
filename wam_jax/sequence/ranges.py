"""Key ranges: the visibility law of a sample as a few half-open token ranges a run.

In a row every stream of a sample is one stretch, noisy copy then clean copy. There the keys that a run may read are at
most four ranges without a prefix and five with one (measured over 50,000 random geometries; exceeding the budget of a
batch is an error, never a cut). Ranges count frames of a stream and become row tokens where the row is laid out.
"""

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

import numpy as np

from wam_jax.sequence.geometry import SequenceGeometry
from wam_jax.sequence.programs import Kind
from wam_jax.sequence.visibility import Spans, run_spans, visible_spans

SELF_RANGES = 4
SELF_RANGES_WITH_PREFIX = 5


@dataclass(frozen=True)
class RunTable:
    """The runs of one sample and what each reads, in frames.

    Attributes:
        video_run: int32[2 * Fv], the run of each video frame, noisy copy then clean copy.
        action_run: int32[2 * F].
        starts: int32[runs, ranges], first frame of each range, counted over both copies of its stream.
        stops: int32[runs, ranges], one past the last; unused ranges are empty (0, 0) at the end.
        is_action: bool[runs, ranges], whether the range lies in the action stream.
    """

    video_run: np.ndarray
    action_run: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    is_action: np.ndarray

    @property
    def num_runs(self) -> int:
        """Number of runs."""
        return len(self.starts)

    @property
    def num_ranges(self) -> int:
        """Largest number of ranges of a run."""
        return self.starts.shape[1]


_CACHE_SIZE = 4096
_cache: OrderedDict[tuple, RunTable] = OrderedDict()
_lock = Lock()


def run_table(geometry: SequenceGeometry) -> RunTable:
    """The run table of a geometry; cached, since samples of equal geometry share it."""
    with _lock:
        if (found := _cache.get(geometry.law_key)) is not None:
            _cache.move_to_end(geometry.law_key)
            return found
    table = _build(geometry)
    with _lock:
        _cache[geometry.law_key] = table
        if len(_cache) > _CACHE_SIZE:
            _cache.popitem(last=False)
    return table


def _build(geometry: SequenceGeometry) -> RunTable:
    spans = run_spans(geometry)
    visible = visible_spans(geometry, spans)
    lengths = spans.stop - spans.start
    run_of_frame = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    video_frames = 2 * geometry.num_video_frames
    starts, stops, is_action = _merge(geometry, spans, visible)
    return RunTable(run_of_frame[:video_frames], run_of_frame[video_frames:], starts, stops, is_action)


def _merge(geometry: SequenceGeometry, spans: Spans, visible: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Joins visible neighbours of one stream: three arrays [runs, ranges]."""
    clean_shift = np.array([geometry.frames_of(Kind(k)) if Kind(k).is_clean else 0 for k in spans.kind])
    first, last = spans.start + clean_shift, spans.stop + clean_shift
    action = spans.kind >= Kind.AN
    joins_previous = np.concatenate([[False], action[1:] == action[:-1]])
    opens = visible & ~(np.roll(visible, 1, axis=1) & joins_previous)
    closes = visible & ~(np.roll(visible, -1, axis=1) & np.roll(joins_previous, -1))
    runs, at = np.nonzero(opens)
    _, to = np.nonzero(closes)
    counts = np.bincount(runs, minlength=len(visible))
    rank = np.arange(len(runs)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = (len(visible), max(1, counts.max()))
    starts, stops, is_action = np.zeros(shape, np.int32), np.zeros(shape, np.int32), np.zeros(shape, bool)
    starts[runs, rank], stops[runs, rank], is_action[runs, rank] = first[at], last[to], action[at]
    return starts, stops, is_action
