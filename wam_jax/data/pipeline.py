"""Preparing steps ahead of time with Grain: threads of this process, or worker processes. Order never changes.

A step is a function of its number, so the pipeline is a Grain map over a range of numbers and begins anywhere at once.
What goes wrong in a worker is raised by the iterator, in its place, as what it was.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator

import grain
import jax
from absl import flags

_MOST_THREADS = 16


def prepared[T](make: Callable[[int], T], steps: range, *, num_workers: int, prefetch: int) -> Generator[T]:
    """`make(step)` for each of `steps`, in order, prepared ahead.

    Args:
        make: prepares one step; pickled once for each worker process.
        steps: consecutive step numbers.
        num_workers: worker processes; 0 prepares in threads of this one.
        prefetch: steps that may be ready or in the making.
    """
    source = grain.MapDataset.range(steps.start, steps.stop).map(make)
    if num_workers:
        dataset = source.to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=1))
        dataset = dataset.mp_prefetch(
            grain.MultiprocessingOptions(num_workers, per_worker_buffer_size=max(1, prefetch // num_workers)),
            worker_init_fn=_start_worker,
        )
        if not flags.FLAGS.is_parsed():  # Grain reads flags of its own, which a program without absl never parses.
            flags.FLAGS.mark_as_parsed()
    else:
        threads = min(prefetch, _MOST_THREADS)
        dataset = source.to_iter_dataset(grain.ReadOptions(num_threads=threads, prefetch_buffer_size=prefetch))
    return _closing(iter(dataset))


def endless(start: int) -> range:
    """All steps from `start` on."""
    return range(start, sys.maxsize)


def _closing[T](iterator: grain.DatasetIterator[T]) -> Generator[T]:
    """Yields all and stops the workers, also when the reader stops early."""
    try:
        yield from iterator
    finally:
        iterator.close()


def _start_worker(index: int, count: int) -> None:
    """Keeps a worker off the accelerators, deaf to signals meant for the trainer, and from outliving it."""
    del index, count
    jax.config.update("jax_platforms", "cpu")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_exit_with, args=(multiprocessing.parent_process(),), daemon=True).start()


def _exit_with(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)
