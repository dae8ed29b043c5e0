"""What planning costs: a large synthetic index, many ranks, one worker process, and the thread that trains.

The planner is the one that trains; only payloads are left out. A worker plans updates one after the other, chooses the
rungs of their calls and hands over the counts of their tokens. Its peak memory includes imports. Times are of the
processor: what the worker spends to plan an update, and what the main thread spends to take one.
"""

import dataclasses
import resource
import statistics
import sys
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from wam_jax.benchmarking.packers import MEAN, MICROBATCH, synthetic_lengths
from wam_jax.config.schema import BatchingConfig, Config, DataConfig, PolicyConfig, TrainingConfig
from wam_jax.data.batching.counts import TokenCounts, count_tokens
from wam_jax.data.batching.modes import Shapes, make_planner, training_shapes
from wam_jax.data.batching.planner import Planner, UpdateShape, draws_per_epoch
from wam_jax.data.drawing.draw_law import draw_law
from wam_jax.data.drawing.samplers import ShuffledEpochs
from wam_jax.data.pipeline import prepared
from wam_jax.data.storage.index import SCHEMA, Index
from wam_jax.keys import Phase
from wam_jax.sequence.layout import RowConstants

RANKS = 512
_CONSTANTS = RowConstants(video_tokens_per_frame=6, actions_per_frame=2, ranges=4, frame_axis=8, packed=True)
_TOKENS_PER_FRAME = 2 * (6 + 2)

MODES = {
    "bucket": BatchingConfig(mode="bucket"),
    "packed": BatchingConfig(mode="packed"),
    "packed:best_fit": BatchingConfig(mode="packed", max_tokens=MICROBATCH * MEAN * 21 // 20),
}
"""The budget of a row is a twentieth more than its samples have on average."""


@dataclass(frozen=True)
class PlanningResult:
    """One measurement.

    Attributes:
        mode: the batching mode, with its packer.
        episodes: of the index.
        ranks: of the run.
        draws_per_step: samples of an update.
        utilisation: real tokens over slots of the planned updates.
        worker_step_milliseconds: processor time of the worker an update, median.
        main_step_milliseconds: processor time of the main thread an update, mean.
        worker_peak_megabytes: of memory.
    """

    mode: str
    episodes: int
    ranks: int
    draws_per_step: int
    utilisation: float
    worker_step_milliseconds: float
    main_step_milliseconds: float
    worker_peak_megabytes: float


class _Planned(NamedTuple):
    """What a worker sends of an update."""

    counts: TokenCounts
    seconds: float
    peak_bytes: int


@dataclass(frozen=True, eq=False)
class _Worker:
    """Plans one update, as preparing it does."""

    planner: Planner
    shapes: Shapes

    def __call__(self, step: int) -> _Planned:
        begun = time.thread_time()
        draws, counts = self.planner.plan(step).draws, TokenCounts()
        for call in (draws[i] for i in range(len(draws.episode))):
            counts += count_tokens(call, self.shapes.rung(call), self.shapes.constants)
        return _Planned(counts, time.thread_time() - begun, peak_memory())


def synthetic_index(episodes: int) -> Index:
    """An index of episodes of log-normal lengths, as `synthetic_lengths` has them in tokens."""
    frames = np.maximum(2, synthetic_lengths(episodes) // _TOKENS_PER_FRAME).astype(np.int32)
    own = {"extent_video_latents": pa.array(frames), "extent_actions": pa.array(2 * frames)}
    columns = {field.name: own.get(field.name, _constant(field, episodes)) for field in SCHEMA}
    return Index(pa.table(columns, schema=SCHEMA))


def _constant(field: pa.Field, count: int) -> pa.Array:
    """A column that says nothing: no value, or the same one for all."""
    if field.nullable:
        return pa.nulls(count, field.type)
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    value = {pa.string(): "", pa.binary(32): bytes(32), pa.float64(): 20.0}.get(kind, 0)
    return pa.repeat(pa.scalar(value, kind), count).cast(field.type)


def measure_planning(mode: str, index: Index, *, ranks: int, steps: int) -> PlanningResult:
    """Plans some updates in one worker process."""
    worker, shape = _worker(mode, index, ranks=ranks), UpdateShape(1, ranks, MICROBATCH)
    planned, busy = [], 0.0
    with closing(prepared(worker, range(steps), num_workers=1, prefetch=2)) as updates:
        for _ in range(steps):
            begun = time.thread_time()
            planned.append(next(updates))
            # The first waits for the worker to start.
            busy += time.thread_time() - begun if len(planned) > 1 else 0
    return PlanningResult(
        mode=mode,
        episodes=len(index),
        ranks=ranks,
        draws_per_step=shape.draws,
        utilisation=sum((p.counts for p in planned), TokenCounts()).utilisation,
        worker_step_milliseconds=1e3 * statistics.median(p.seconds for p in planned),
        main_step_milliseconds=1e3 * busy / max(1, steps - 1),
        worker_peak_megabytes=max(p.peak_bytes for p in planned) / 1e6,
    )


def planning_report(*, episodes: int, steps: int) -> list[dict[str, object]]:
    """All measurements of planning, as rows."""
    index = synthetic_index(episodes)
    return [asdict(measure_planning(mode, index, ranks=RANKS, steps=steps)) for mode in MODES]


def peak_memory() -> int:
    """The most bytes that this process ever held in memory."""
    status = Path("/proc/self/status")
    if status.exists():  # What `getrusage` says there includes the parent's memory at the time of the fork.
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return 1024 * int(lines["VmHWM"].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _worker(mode: str, index: Index, *, ranks: int) -> _Worker:
    batching, shape = MODES[mode], UpdateShape(1, ranks, MICROBATCH)
    config = Config(
        name="planning",
        data=DataConfig(store="", train_batch_size=MICROBATCH, batching=batching),
        policy=PolicyConfig(program="joint"),
        training=TrainingConfig(num_steps=1),
    )
    everyone = np.arange(len(index))
    law = draw_law(config, index, everyone, Phase.TRAIN, text_tokens=np.zeros(len(index), np.int64))
    sampler = ShuffledEpochs(config.seed, Phase.TRAIN, len(index))
    constants = dataclasses.replace(_CONSTANTS, packed=batching.mode == "packed")
    per_epoch = draws_per_epoch(len(index), shape, drop_last=True)
    planner = make_planner(batching, law, sampler, shape, per_epoch, constants)
    return _Worker(planner, training_shapes(batching, planner, law, constants))
