"""Which branches a store gets: of every task as many as were asked for, shared out over its demonstrations.

A branch belongs to the split of its parent, so nothing that training sees begins where a held-out episode has been.
Parents take turns in the order of their seeds. Everything follows from the demonstrations and the request, however
many processes record.
"""

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from wam_jax.data.encoders.codec import GROUP
from wam_jax.data.recording.fork import Fork, record_branches
from wam_jax.data.recording.rollout import Recording
from wam_jax.data.recording.spool import Spooled, spool


@dataclass(frozen=True)
class BranchRequest:
    """What to record.

    Attributes:
        train, validation: branches of each task, from demonstrations of that split.
        steps: actions of each.
        strength: standard deviation of the offsets.
    """

    train: int
    validation: int
    steps: int
    strength: float


@dataclass(frozen=True)
class Branch:
    """A branch on disk."""

    parent: Spooled
    fork: Fork
    video: Spooled

    @property
    def name(self) -> str:
        """`PARENT-tSTART-NUMBER`, the id of its episode; START is a raw frame of the parent."""
        return _name(self.parent, self.fork)


Record = Callable[[Recording, Sequence[Fork]], list[Recording]]
"""`record_branches`, or what takes its place."""


def record_all_branches(
    request: BranchRequest,
    recordings: Sequence[Spooled],
    directory: Path,
    *,
    validation: set[Spooled],
    workers: int,
    record: Record = record_branches,
) -> list[Branch]:
    """Records everything that is asked for.

    Args:
        recordings: the demonstrations.
        directory: an existing one, for the branches.
        validation: the demonstrations that validate.
        workers: processes.
        record: a function of an importable module, for it is called in other processes.
    Returns:
        The branches by task, training ones first, then by parent and number.
    """
    plan = planned(request, recordings, validation=validation)
    if not plan:
        return []
    context = multiprocessing.get_context("spawn")  # A renderer does not survive a fork.
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        videos = pool.map(partial(_record_one, record, directory), plan.keys(), plan.values())
        return [
            Branch(parent, fork, video)
            for (parent, forks), found in zip(plan.items(), videos, strict=True)
            for fork, video in zip(forks, found, strict=True)
        ]


def planned(
    request: BranchRequest, recordings: Sequence[Spooled], *, validation: set[Spooled]
) -> dict[Spooled, list[Fork]]:
    """The forks of every parent that has some."""
    plan: dict[Spooled, list[Fork]] = {}
    for task in dict.fromkeys(item.task for item in recordings):
        for count, validates in ((request.train, False), (request.validation, True)):
            parents = [item for item in recordings if item.task == task and (item in validation) == validates]
            for k in range(count):
                parent = parents[k % len(parents)]
                plan.setdefault(parent, []).append(_fork(request, parent, number=k // len(parents)))
    return plan


def _fork(request: BranchRequest, parent: Spooled, *, number: int) -> Fork:
    """A fork at an anchor, drawn evenly from those that leave the parent `steps` actions, or else at the earliest.

    The reset itself is no anchor: what is drawn right after it can lag behind the physics.
    """
    first = min(1, (parent.raw_frames - 1) // GROUP)
    last = max(first, (parent.raw_frames - 1 - request.steps) // GROUP)
    rng = np.random.default_rng([*b"t0", *parent.task.encode(), parent.seed, number])
    return Fork(number, GROUP * int(rng.integers(first, last + 1)), request.steps, request.strength)


def _record_one(record: Record, directory: Path, parent: Spooled, forks: Sequence[Fork]) -> list[Spooled]:
    videos = record(parent.load(), forks)
    return [spool(video, directory / f"{_name(parent, fork)}.npz") for fork, video in zip(forks, videos, strict=True)]


def _name(parent: Spooled, fork: Fork) -> str:
    return f"{parent.name}-t{fork.start:03d}-{fork.number}"
