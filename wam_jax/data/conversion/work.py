"""Converting episodes one by one, in this process or in several, each into its own file of the spool.

An episode's result is a function of the episode alone, so it does not matter who converts it or when. What cannot be
used becomes a reason in the report; anything else that raises is a defect and ends the command.
"""

import multiprocessing
import os
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import wait as wait_for

import numpy as np

from wam_jax.data.conversion.content import Listed, Source
from wam_jax.data.conversion.encoders import EncoderChoice, LatentEncoder
from wam_jax.data.conversion.finish import Recipe, finish
from wam_jax.data.conversion.spool import Spool
from wam_jax.data.storage.tensorio import encode_tensors
from wam_jax.errors import InputError

TEXT = "text"
"""The array of a spooled episode that holds its source's text vectors; not part of the store's payload."""


@dataclass(frozen=True)
class Outcome:
    """What became of an episode.

    Attributes:
        number: its place in the list.
        reason: why it was skipped, or None.
    """

    number: int
    reason: str | None = None


@dataclass(frozen=True)
class Job:
    """What a process needs to convert any episode."""

    source: Source
    recipe: Recipe
    choice: EncoderChoice | None
    spool: Spool

    def run(self, number: int, listed: Listed, encoder: LatentEncoder | None) -> Outcome:
        """Converts one episode into the spool."""
        try:
            content = self.source.content(listed)
            arrays = finish(content, self.recipe, encoder, name=listed.id)
        except InputError as error:
            return Outcome(number, str(error))
        if content.notes:
            self.spool.note(number, content.notes)
        if content.text is not None:
            arrays[TEXT] = content.text.astype(np.float32)
        self.spool.put(self.spool.episode(number), encode_tensors(arrays, {"id": listed.id}))
        return Outcome(number)


def run_all(job: Job, listed: Sequence[Listed], numbers: Sequence[int], *, workers: int) -> Generator[Outcome]:
    """Converts the episodes `numbers` of `listed`; outcomes come as they are done.

    Args:
        workers: processes; with 1, this one.
    """
    if workers == 1 or len(numbers) < 2:
        encoder = job.choice.load() if job.choice else None
        for number in numbers:
            yield job.run(number, listed[number], encoder)
        return
    context = multiprocessing.get_context(
        "spawn"
    )  # Decoders and linear algebra have threads, which do not survive a fork.
    with ProcessPoolExecutor(
        min(workers, len(numbers)), mp_context=context, initializer=_start, initargs=(job,)
    ) as pool:
        try:
            yield from _collect(pool, listed, list(numbers), ahead=4 * workers)
        except BrokenProcessPool:
            remedy = "one of the processes was ended, as when memory runs out; use fewer, and run again to go on"
            raise InputError("--workers", workers, remedy) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _collect(
    pool: ProcessPoolExecutor, listed: Sequence[Listed], numbers: list[int], *, ahead: int
) -> Generator[Outcome]:
    """Keeps at most `ahead` episodes submitted, so that a list of a million costs nothing."""
    waiting: set[Future[Outcome]] = set()
    while numbers or waiting:
        while numbers and len(waiting) < ahead:
            number = numbers.pop(0)
            waiting.add(pool.submit(_convert, number, listed[number]))
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in done:
            yield future.result()


_state: dict[str, object] = {}


def _start(job: Job) -> None:
    """Once in every process: loads the encoder, and ends the process when the one that started it is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (wait_for([parent.sentinel]), os._exit(1)), daemon=True).start()
    _state["job"], _state["encoder"] = job, job.choice.load() if job.choice else None


def _convert(number: int, listed: Listed) -> Outcome:
    job, encoder = _state["job"], _state["encoder"]
    return job.run(number, listed, encoder)  # ty: ignore[missing-attribute]
