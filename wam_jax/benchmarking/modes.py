"""Step times of the batching modes on the same draws, driven through the programs that train.

Every mode consumes the same global draws: as many updates as asked for, rounded up so that buckets see whole pools.
`strict` runs microbatches of one, accumulated to the same update, since it takes no unequal ones together. Compiling is
timed apart, the first update is not counted, and step times are medians. Losses of the draws are compared at the
initial parameters.
"""

import dataclasses
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from tqdm import tqdm

from wam_jax.config import Config
from wam_jax.data.batching.pools import effective_pool
from wam_jax.data.loader import Step, TrainData
from wam_jax.data.store import Store
from wam_jax.policies.base import Params
from wam_jax.policies.dual_expert import DualExpertPolicy
from wam_jax.training.mesh import put_rows
from wam_jax.training.optimizer import make_optimizer
from wam_jax.training.programs import build_programs
from wam_jax.training.run import make_policy
from wam_jax.training.state import TrainState, abstract_state, initialise
from wam_jax.training.warmup import compile_ahead

Losses = dict[tuple[int, int], float]


@dataclass(frozen=True)
class ModeResult:
    """What one mode cost.

    Attributes:
        mode: the batching mode.
        step_seconds_median: of one update, the first left out.
        slots_per_step: self-attention token slots computed in an update, mean.
        tokens_per_step: those that are real, mean.
        real_tokens_per_second: tokens_per_step over the median step.
        utilisation: real tokens over slots.
        expected_utilisation: of the calls that the rungs were chosen over.
        compile_seconds: compiling all shapes, before the first update.
        compiled_shapes: how many there are.
        peak_memory: bytes on the fullest device, where the backend reports it.
        largest_loss_difference: relative, over all draws, from the first mode's.
    """

    mode: str
    step_seconds_median: float
    slots_per_step: float
    tokens_per_step: float
    real_tokens_per_second: float
    utilisation: float
    expected_utilisation: float
    compile_seconds: float
    compiled_shapes: int
    peak_memory: int | None
    largest_loss_difference: float


def mode_config(config: Config, mode: str) -> Config:
    """The configuration in another mode, with the same draws an update."""
    batching = dataclasses.replace(config.data.batching, mode=mode)
    if mode != "packed":
        batching = dataclasses.replace(batching, max_tokens=None, packer=None)
    data, training = dataclasses.replace(config.data, batching=batching), config.training
    if mode == "strict":
        accumulation = data.train_batch_size * training.gradient_accumulation_steps
        data = dataclasses.replace(data, train_batch_size=1, val_batch_size=1)
        training = dataclasses.replace(training, gradient_accumulation_steps=accumulation)
    return dataclasses.replace(config, data=data, training=training)


def whole_pools(config: Config, steps: int) -> int:
    """The number of updates, rounded up so that every rank's stream ends at the end of a pool."""
    microbatch = config.data.train_batch_size
    pool = effective_pool(config.data.batching.bucket_pool_size, microbatch)
    while steps * microbatch * config.training.gradient_accumulation_steps % pool:
        steps += 1
    return steps


def measure_modes(config: Config, store: Store, mesh: Mesh, *, modes: list[str], steps: int) -> list[ModeResult]:
    """Measures each mode in turn; `steps` updates are timed."""
    results, reference = [], None
    for mode in modes:
        result, losses = _measure(mode_config(config, mode), store, mesh, steps=steps)
        reference = losses if reference is None else reference
        if losses.keys() != reference.keys():
            raise AssertionError(f"{mode} consumed other draws than {modes[0]}")
        difference = max(abs(losses[draw] - reference[draw]) / abs(reference[draw]) for draw in reference)
        results.append(dataclasses.replace(result, largest_loss_difference=difference))
    return results


def _measure(config: Config, store: Store, mesh: Mesh, *, steps: int) -> tuple[ModeResult, Losses]:
    data = TrainData(config, store, rows=range(mesh.size))
    policy, optimizer = make_policy(config, store, mesh), make_optimizer(config.training.optimizer, num_steps=steps)
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
    losses = _losses(policy, state.params, _few(data.steps(), steps), mesh)
    begun = time.perf_counter()
    compile_ahead(programs, state, data.empty_batches(), mesh)
    compiling = time.perf_counter() - begun

    def update(state: TrainState, step: Step) -> TrainState:
        total = programs.zeros()
        for batch in step.batches:
            total = programs.gradient(state.params, total, put_rows(mesh, batch))
        return jax.block_until_ready(programs.update(state, total)[0])

    seconds, counts = _timed(update, state, _few(data.steps(), steps), steps, config.data.batching.mode)
    tokens, slots = (float(np.mean([getattr(c, name) for c in counts])) for name in ("tokens", "slots"))
    median = statistics.median(seconds[1:] or seconds)
    result = ModeResult(
        mode=config.data.batching.mode,
        step_seconds_median=median,
        slots_per_step=slots,
        tokens_per_step=tokens,
        real_tokens_per_second=tokens / median,
        utilisation=tokens / slots,
        expected_utilisation=data.shapes.expected.utilisation,
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
) -> tuple[list[float], list[Any]]:
    seconds, counts = [], []
    for step in tqdm(steps, total=count, desc=mode, unit="step", file=sys.stderr, leave=False):
        begun = time.perf_counter()
        state = update(state, step)
        seconds.append(time.perf_counter() - begun)
        counts.append(step.counts)
    return seconds, counts


def _losses(policy: DualExpertPolicy, params: Params, steps: Iterator[Step], mesh: Mesh) -> Losses:
    """The loss of every draw, by (epoch, position)."""
    forward, found = jax.jit(policy.forward_train_batch), {}
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
