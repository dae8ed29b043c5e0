"""The ladder of static sizes: what a call needs, and the few rungs that a run compiles.

XLA compiles one program a shape, so a call runs at the smallest rung that holds all its rows. The rungs are chosen over
calls that the planner itself produces: sorted by cost, cut into at most `limit` groups so that the calls together
compute the fewest token slots (dynamic programming), each group's rung being the elementwise maximum of its calls. The
last rung holds any call that can come up, however unlikely, so that no batch is ever without one.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wam_jax.data.batching.costs import buffer_frames
from wam_jax.data.drawing.draws import DrawTable
from wam_jax.errors import InputError
from wam_jax.sequence.layout import RowConstants
from wam_jax.sequence.rung import Rung, most_runs
from wam_jax.sequence.tiling import Alignment, round_up

_MOST_DISTINCT = 256


def needed_rung(draws: DrawTable, constants: RowConstants, *, samples: int, multiple: int = 1) -> Rung:
    """The smallest rung that holds the rows of one call.

    Args:
        draws: [ranks, S], empty slots included.
        constants: what all rows share.
        samples: sample slots that a row must have at least.
        multiple: frames of a slot are rounded up to a multiple of this.
    """
    present, alignment = draws.present, constants.alignment
    frames = np.where(present, draws.num_frames, 0)
    prefix = np.where(present, draws.prefix_frames, 0)
    text = round_up(np.where(present, draws.num_text, 0), alignment.keys).sum(-1).max()
    proprio = round_up(np.where(present, draws.num_proprio, 0), alignment.keys).sum(-1).max()
    video_slot, action_slot = (round_up(int(count.max()), multiple) for count in (frames + prefix, frames))
    if constants.packed:
        video_frames, action_frames = (
            int(claimed.sum(-1).max()) for claimed in buffer_frames(frames, prefix, constants)
        )
    else:
        video_frames, action_frames = slotted_frames(video_slot, action_slot, samples, constants)
    return sized(
        samples=samples,
        video_slot_frames=video_slot,
        action_slot_frames=action_slot,
        video_frames=video_frames,
        action_frames=action_frames,
        text_keys=int(text),
        proprio_keys=int(proprio),
        alignment=alignment,
    )


def slotted_frames(video_slot: int, action_slot: int, samples: int, constants: RowConstants) -> tuple[int, int]:
    """Frames of the two buffers where every sample has a slot."""
    alignment = constants.alignment
    video, action = round_up(2 * video_slot, alignment.video_frames), round_up(2 * action_slot, alignment.action_frames)
    return samples * video, samples * action


def sized(
    *,
    samples: int,
    video_slot_frames: int,
    action_slot_frames: int,
    video_frames: int,
    action_frames: int,
    text_keys: int,
    proprio_keys: int,
    alignment: Alignment,
) -> Rung:
    """A rung of these sizes, each at least 1 where the network needs an axis, buffers as long as the alignment asks."""
    video_frames = round_up(max(1, video_frames), alignment.video_frames)
    action_frames = round_up(max(1, action_frames), alignment.action_frames)
    return Rung(
        samples=samples,
        video_slot_frames=max(1, video_slot_frames),
        action_slot_frames=max(1, action_slot_frames),
        video_frames=video_frames,
        action_frames=action_frames,
        text_keys=round_up(max(1, text_keys), alignment.keys),
        proprio_keys=round_up(proprio_keys, alignment.keys),
        runs=most_runs(video_frames, action_frames),
    )


def token_slots(rung: Rung, constants: RowConstants) -> int:
    """Self-attention token slots of a row: what choosing rungs minimises."""
    return rung.video_frames * constants.video_tokens_per_frame + rung.action_frames * constants.actions_per_frame


@dataclass(frozen=True)
class Ladder:
    """The rungs of a run, cheapest first; the last one holds everything."""

    rungs: tuple[Rung, ...]

    def fit(self, need: Rung) -> Rung:
        """The first rung that holds `need`.

        Raises:
            InputError: none does, which a plan of this run cannot bring about.
        """
        for rung in self.rungs:
            if holds(rung, need):
                return rung
        raise InputError("rung", dataclasses.astuple(need), f"the largest of this run is {self.rungs[-1]}")


def holds(rung: Rung, need: Rung) -> bool:
    """Whether no size of `need` exceeds that of `rung`."""
    return all(have >= want for have, want in zip(_sizes(rung), _sizes(need), strict=True))


def choose_ladder(needs: Sequence[Rung], top: Rung, constants: RowConstants, *, limit: int) -> Ladder:
    """Chooses at most `limit` rungs, `top` included, for calls like `needs`.

    Args:
        needs: what simulated calls need.
        top: holds any call.
        constants: what all rows share.
        limit: shapes that may be compiled.
    """
    sizes = np.array([_sizes(need) for need in needs], np.int64).reshape(-1, len(_sizes(top)))
    distinct, counts = np.unique(sizes, axis=0, return_counts=True)
    slots = np.array([token_slots(Rung(*row), constants) for row in distinct.tolist()])
    order = np.argsort(slots, kind="stable")
    distinct, counts = _thinned(distinct[order], counts[order])
    below = [Rung(*row) for row in _partition(distinct, counts, top, constants, groups=limit - 1)]
    return Ladder((*(rung for rung in below if rung != top), top))


def _thinned(sizes: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Merges neighbours until there are few enough for the quadratic search."""
    if len(sizes) <= _MOST_DISTINCT:
        return sizes, counts
    starts = np.linspace(0, len(sizes), _MOST_DISTINCT, endpoint=False).astype(int)
    return np.maximum.reduceat(sizes, starts), np.add.reduceat(counts, starts)


def _partition(
    sizes: np.ndarray, counts: np.ndarray, top: Rung, constants: RowConstants, *, groups: int
) -> list[list[int]]:
    """The maxima of at most `groups` consecutive groups of sorted sizes; what lies behind them runs at the top rung."""
    count = len(sizes)
    if not count:
        return []
    cost = np.full((count, count + 1), np.inf)  # [first, one past the last]
    for first in range(count):
        widest = np.maximum.accumulate(sizes[first:], axis=0)
        slots = np.array([token_slots(Rung(*row), constants) for row in widest.tolist()])
        cost[first, first + 1 :] = slots * np.cumsum(counts[first:])
    best = np.full((groups + 1, count + 1), np.inf)  # [groups used, sizes covered]
    best[0, 0] = 0
    cut = np.zeros((groups + 1, count + 1), np.int64)
    for group in range(1, groups + 1):
        through = best[group - 1, :count, None] + cost
        cut[group], best[group] = through.argmin(0), through.min(0)
    behind = token_slots(top, constants) * np.append(np.cumsum(counts[::-1])[::-1], 0)
    used, stop = (int(i) for i in np.unravel_index((best + behind).argmin(), best.shape))
    rungs = []
    for group in range(used, 0, -1):
        first = int(cut[group, stop])
        rungs.append(sizes[first:stop].max(0).tolist())
        stop = first
    return rungs[::-1]


def _sizes(rung: Rung) -> tuple[int, ...]:
    return dataclasses.astuple(rung)
