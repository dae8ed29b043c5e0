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
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from tqdm import tqdm

from wam_jax.config import Config
from wam_jax.config.modes import in_mode
from wam_jax.data.batching.pools import effective_pool
from wam_jax.data.counts import TokenCounts, real_tokens, rectangle_tokens
from wam_jax.data.loader import Step, TrainData
from wam_jax.data.store import Store
from wam_jax.data.transport import RowBatch
from wam_jax.errors import InputError
from wam_jax.policies.base import Params
from wam_jax.training.mesh import AXES, put_rows
from wam_jax.training.optimizer import make_optimizer
from wam_jax.training.programs import build_programs
from wam_jax.training.ranks import on_each_rank
from wam_jax.training.run import make_policy
from wam_jax.training.state import TrainState, abstract_state, initialise
from wam_jax.training.warmup import compile_ahead

Losses = dict[tuple[int, int], float]

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
        largest_loss_difference: relative, over all draws, from the first mode's.
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
    largest_loss_difference: float


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


def whole_pools(config: Config, steps: int) -> int:
    """The number of updates, rounded up so that every rank's stream ends at the end of a pool."""
    microbatch = config.data.train_batch_size
    pool = effective_pool(config.data.batching.bucket_pool_size, microbatch)
    while steps * microbatch * config.training.gradient_accumulation_steps % pool:
        steps += 1
    return steps


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


def compare_counts(config: Config, store: Store, *, ranks: int, steps: int) -> CountComparison:
    """Compares the counts of the first updates."""
    data = TrainData(mode_config(config, "padded"), store, rows=range(ranks))
    plans = [data.planner.plan(step).draws for step in range(steps)]
    padded = [rectangle_tokens(plan, data.constants) for plan in plans]
    packed = [real_tokens(plan, data.constants).tokens for plan in plans]
    return CountComparison(float(np.mean(padded)), float(np.mean(packed)))


def measure_modes(config: Config, store: Store, mesh: Mesh, *, modes: list[str], steps: int) -> list[ModeResult]:
    """Measures each mode in turn; `steps` updates are timed.

    Raises:
        InputError: a mode is not there or cannot be, said before the first is measured.
    """
    results, reference, configs = [], None, {mode: mode_config(config, mode) for mode in modes}
    for mode, own in configs.items():
        result, losses = _measure(mode, own, store, mesh, steps=steps)
        reference = losses if reference is None else reference
        if losses.keys() != reference.keys():
            raise AssertionError(f"{mode} consumed other draws than {modes[0]}")
        difference = max(abs(losses[draw] - reference[draw]) / abs(reference[draw]) for draw in reference)
        results.append(dataclasses.replace(result, largest_loss_difference=difference))
    return results


def _measure(mode: str, config: Config, store: Store, mesh: Mesh, *, steps: int) -> tuple[ModeResult, Losses]:
    data = TrainData(config, store, rows=range(mesh.size))
    policy, optimizer = make_policy(config, store), make_optimizer(config.training.optimizer, num_steps=steps)
    abstract = abstract_state(mesh, policy, optimizer)
    state = initialise(abstract, policy, optimizer, seed=config.seed)
    programs = build_programs(
        policy,
        optimizer,
        abstract=abstract,
        batch=data.validation()[0],
        samples_per_update=data.draws_per_step,
        objectives=data.objectives,
    )
    forward = on_each_rank(policy.forward_train_batch, abstract.params, out_specs=PartitionSpec(AXES))
    losses = _losses(jax.jit(forward), state.params, _few(data.steps(), steps), mesh)
    begun = time.perf_counter()
    compile_ahead(programs, state, data.empty_batches(), mesh)
    compiling = time.perf_counter() - begun

    def update(state: TrainState, step: Step) -> TrainState:
        total = programs.zeros()
        for batch in step.batches:
            total = programs.gradient(state.params, total, put_rows(mesh, batch))
        return jax.block_until_ready(programs.update(state, total)[0])

    seconds, counts = _timed(update, state, _few(data.steps(), steps), steps, mode)
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
        compile_seconds=compiling,
        compiled_shapes=len(data.shapes.ladder.rungs),
        peak_memory=_peak_memory(),
        largest_loss_difference=0.0,
    )
    return result, losses


def _few(steps: Iterator[Step], count: int) -> Iterator[Step]:
    return (next(steps) for _ in range(count))


def _timed(
    update: Callable[[TrainState, Step], TrainState], state: TrainState, steps: Iterator[Step], count: int, mode: str
) -> tuple[list[float], list[TokenCounts]]:
    seconds, counts = [], []
    for step in tqdm(steps, total=count, desc=mode, unit="step", file=sys.stderr, leave=False):
        begun = time.perf_counter()
        state = update(state, step)
        seconds.append(time.perf_counter() - begun)
        counts.append(step.counts)
    return seconds, counts


def _losses(
    forward: Callable[[Params, RowBatch], dict[str, jax.Array]], params: Params, steps: Iterator[Step], mesh: Mesh
) -> Losses:
    """The loss of every draw, by (epoch, position)."""
    found = {}
    for step in steps:
        for batch in step.batches:
            losses = np.asarray(forward(params, put_rows(mesh, batch))["loss"])
            for row, slot in np.argwhere(batch.samples.valid):
                _, epoch, position = batch.samples.draw[row, slot].tolist()
                found[epoch, position] = float(losses[row, slot])
    return found


def _peak_memory() -> int | None:
    stats = [device.memory_stats() for device in jax.local_devices()]
    return max((s["peak_bytes_in_use"] for s in stats if s), default=None)
