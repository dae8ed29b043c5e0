"""Recording many episodes on several processes, with a result that does not depend on how they were shared out.

Every task takes its first seeds on which the expert succeeds: as many as were asked for, in ascending order.
"""

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from wam_jax.data.recording.rollout import Recording, record_episode
from wam_jax.data.recording.spool import Spooled, spool
from wam_jax.errors import InputError

_FAILURES_PER_EPISODE = 4


@dataclass(frozen=True)
class Request:
    """What to record: `episodes` successes of each task, from `first_seed` on; see `record_episode` for the rest."""

    tasks: tuple[str, ...]
    episodes: int
    first_seed: int
    size: int
    tail: int


Record = Callable[[str, int, int, int], Recording | None]
"""`record_episode`, or what takes its place: task, seed, size and tail to a recording, None where the expert fails."""


def record_all(
    request: Request,
    directory: Path,
    *,
    workers: int,
    on_episode: Callable[[Spooled], object],
    record: Record = record_episode,
) -> list[Spooled]:
    """Records everything that is asked for.

    Args:
        directory: an existing one, for the recordings.
        workers: processes.
        on_episode: called in this process for each recording as it comes in.
        record: a function of an importable module, for it is called in other processes.
    Returns:
        The recordings by task, in the order of the request, then by seed.
    Raises:
        InputError: an expert fails on too many seeds.
    """
    context = multiprocessing.get_context("spawn")  # A renderer does not survive a fork.
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        try:
            found = _collect(
                request, lambda task, seed: pool.submit(_spool, record, task, seed, request, directory), on_episode
            )
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # Else leaving waits for all that was asked for.
            raise
    return [spooled for task in request.tasks for spooled in sorted(found[task], key=lambda item: item.seed)]


def _collect(
    request: Request,
    submit: Callable[[str, int], Future[Spooled | None]],
    on_episode: Callable[[Spooled], object],
) -> dict[str, list[Spooled]]:
    """Successes by task. The next seed follows every failure, so the seeds that ran are always the first ones."""
    next_seed = dict.fromkeys(request.tasks, request.first_seed + request.episodes)
    found: dict[str, list[Spooled]] = {task: [] for task in request.tasks}
    first = [(task, request.first_seed + i) for task in request.tasks for i in range(request.episodes)]
    running = {submit(task, seed): task for task, seed in first}
    while running:
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            task, spooled = running.pop(future), future.result()
            if spooled is not None:
                found[task].append(spooled)
                on_episode(spooled)
                continue
            _refuse_hopeless(task, tried=next_seed[task] - request.first_seed, episodes=request.episodes)
            running[submit(task, next_seed[task])] = task
            next_seed[task] += 1
    return found


def last_of_each_task(recordings: Sequence[Spooled]) -> set[Spooled]:
    """The recordings that validate: the one with the highest seed of each task."""
    return set({item.task: item for item in sorted(recordings, key=lambda item: item.seed)}.values())


def _spool(record: Record, task: str, seed: int, request: Request, directory: Path) -> Spooled | None:
    recording = record(task, seed, request.size, request.tail)
    if recording is None:
        return None
    return spool(recording, directory / f"{task}-{seed:06d}.npz")


def _refuse_hopeless(task: str, *, tried: int, episodes: int) -> None:
    if tried >= episodes * (1 + _FAILURES_PER_EPISODE):
        raise InputError("tasks", task, f"the expert failed on too many of {tried} seeds; leave the task out")
