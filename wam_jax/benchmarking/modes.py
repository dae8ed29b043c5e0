"""Step times of the batching modes on the same draws, driven through the programs that train.

Every mode consumes the same global draws: as many updates as asked for, rounded up so that buckets see whole pools.
`strict` runs microbatches of one, accumulated to the same update, since it takes no unequal ones together. `packed`
puts a fixed number of samples in a row; `packed:PACKER` as many as `data.batching.max_tokens` holds. Compiling is timed
apart, the first update is not counted, and step times are medians. Losses of the draws are compared at the initial
parameters.
"""

import dataclasses
import functools
import operator
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import jax
import numpy as np
from jax.sharding import Mesh
from tqdm import tqdm

from wam_jax.benchmarking.same_draws import check_same_draws, largest_difference
from wam_jax.benchmarking.subject import Losses, Subject
from wam_jax.config import Config
from wam_jax.config.modes import in_mode
from wam_jax.data.batching.counts import TokenCounts, real_tokens, rectangle_tokens
from wam_jax.data.loader import Step, TrainData
from wam_jax.data.storage.store import Store
from wam_jax.errors import InputError

MODES = ("strict", "padded", "bucket", "packed", "packed:in_order", "packed:first_fit", "packed:best_fit")


@dataclass(frozen=True)
class ModeResult:
    """What one mode cost.

    Attributes:
        mode: the batching mode, with its packer.
        step_seconds_median: of one update, the first left out.
        slots_per_step: self-attention token slots computed in an update, mean.
        tokens_per_step: those that are real, mean.
        real_tokens_per_second: tokens_per_step over the median step.
        utilisation: real tokens over slots.
        utilisation_by_stream: the same of video, action, text and proprioception tokens.
        expected_utilisation: of the calls that the rungs were chosen over.
        rectangle_tokens_per_step: of the mode's microbatches, each padded to its own longest, mean.
        compile_seconds: compiling all shapes, before the first update.
        compiled_shapes: how many there are.
        peak_memory: bytes on the fullest device since the command began, where the backend reports them; that of one
            mode by itself takes a command of its own.
        largest_loss_difference: from the first mode's, over all draws, relative to the larger of the two; None where a
            loss is not finite.
    """

    mode: str
    step_seconds_median: float
    slots_per_step: float
    tokens_per_step: float
    real_tokens_per_second: float
    utilisation: float
    utilisation_by_stream: dict[str, float]
    expected_utilisation: float
    rectangle_tokens_per_step: float
    compile_seconds: float
    compiled_shapes: int
    peak_memory: int | None
    largest_loss_difference: float | None


def mode_config(config: Config, name: str) -> Config:
    """The configuration in another mode, with the same draws an update.

    Args:
        config: of the benchmark.
        name: one of `MODES`.
    Raises:
        InputError: there is no such mode, it needs a budget that is not there, or it does not go with the recipe.
    """
    if name not in MODES:
        raise InputError("--modes", name, f"must be of {', '.join(MODES)}")
    mode, _, packer = name.partition(":")
    budget = config.data.batching.max_tokens if packer else None
    if packer and budget is None:
        raise InputError("--modes", name, "needs a budget; give --config.data.batching.max_tokens=N")
    batching = dataclasses.replace(config.data.batching, mode=mode, max_tokens=budget, packer=packer or None)
    return in_mode(config, batching)


@dataclass(frozen=True)
class CountComparison:
    """Self-attention tokens of an update, mean: a count, neither a speed nor memory.

    Attributes:
        padded: with every microbatch of the stream padded to its longest, B x max(video) + B x max(action).
        packed: those that are real, sum(video) + sum(action).
    """

    padded: float
    packed: float

    @property
    def ratio(self) -> float:
        """Packed over padded."""
        return self.packed / self.padded


def compare_counts(data: TrainData, *, steps: int) -> CountComparison:
    """Compares the counts of the first updates; `data` is in mode `padded`."""
    plans = [data.planner.plan(step).draws for step in range(steps)]
    padded = [rectangle_tokens(plan, data.constants) for plan in plans]
    packed = [real_tokens(plan, data.constants).tokens for plan in plans]
    return CountComparison(float(np.mean(padded)), float(np.mean(packed)))


def measure_modes(config: Config, store: Store, mesh: Mesh, *, modes: list[str], steps: int) -> list[ModeResult]:
    """Measures each mode in turn; `steps` updates are timed.

    Raises:
        InputError: a mode is not there or cannot be, or modes see other draws, said before the first is measured.
    """
    results, reference, configs = [], None, {mode: mode_config(config, mode) for mode in modes}
    check_same_draws(configs, store, ranks=mesh.size, steps=steps)
    for mode, own in configs.items():
        result, losses = _measure(mode, own, store, mesh, steps=steps)
        reference = losses if reference is None else reference
        results.append(dataclasses.replace(result, largest_loss_difference=largest_difference(losses, reference)))
    return results


def _measure(mode: str, config: Config, store: Store, mesh: Mesh, *, steps: int) -> tuple[ModeResult, Losses]:
    subject = Subject(config, store, mesh, steps=steps)
    data = subject.data
    losses = subject.losses(_few(data.steps(), steps))
    seconds, counts = _timed(subject, steps, mode)
    total, median = functools.reduce(operator.add, counts), statistics.median(seconds[1:] or seconds)
    utilisations = total.utilisations()
    rectangles = [rectangle_tokens(data.planner.plan(step).draws, data.constants) for step in range(steps)]
    result = ModeResult(
        mode=mode,
        step_seconds_median=median,
        slots_per_step=total.slots / steps,
        tokens_per_step=total.tokens / steps,
        real_tokens_per_second=total.tokens / steps / median,
        utilisation=utilisations.pop("all"),
        utilisation_by_stream=utilisations,
        expected_utilisation=data.shapes.expected.utilisation,
        rectangle_tokens_per_step=float(np.mean(rectangles)),
        compile_seconds=subject.compile_seconds,
        compiled_shapes=len(data.shapes.ladder.rungs),
        peak_memory=_peak_memory(),
        largest_loss_difference=None,
    )
    return result, losses


def _few(steps: Iterator[Step], count: int) -> Iterator[Step]:
    return (next(steps) for _ in range(count))


def _timed(subject: Subject, count: int, mode: str) -> tuple[list[float], list[TokenCounts]]:
    seconds, counts = [], []
    steps = _few(subject.data.steps(), count)
    for step in tqdm(steps, total=count, desc=mode, unit="step", file=sys.stderr, leave=False):
        seconds.append(subject.update(step))
        counts.append(step.counts)
    return seconds, counts


def _peak_memory() -> int | None:
    stats = [device.memory_stats() for device in jax.local_devices()]
    return max((s["peak_bytes_in_use"] for s in stats if s), default=None)
