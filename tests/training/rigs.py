"""A small run of the fakes, with everything that the loop works with."""

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jax.sharding import Mesh

from tests.training.fakes import FakeData, LinearPolicy
from wam_jax.config.schema import OptimizerConfig, TrainingConfig
from wam_jax.training.checkpoint import CheckpointWriter
from wam_jax.training.interrupt import StopRequest
from wam_jax.training.locate import CHECKPOINTS
from wam_jax.training.loop import Loop
from wam_jax.training.mesh import make_mesh
from wam_jax.training.metrics import MetricsFile, Row, truncate_rows
from wam_jax.training.optimizer import Optimizer, make_optimizer
from wam_jax.training.phases import DataPhase
from wam_jax.training.programs import Programs, build_programs
from wam_jax.training.sinks import Recorder
from wam_jax.training.start import METRICS_FILE
from wam_jax.training.state import TrainState, abstract_state, initialise

OPTIMIZER = OptimizerConfig(learning_rate=1e-2, weight_decay=0.1, max_grad_norm=1.0, schedule="cosine", warmup_steps=3)
TRAINING = TrainingConfig(num_steps=10, checkpoint_every=4, validate_every=5, optimizer=OPTIMIZER)


@dataclass(frozen=True)
class Rig:
    """The compiled parts of a run of the fakes."""

    mesh: Mesh
    optimizer: Optimizer
    abstract: TrainState
    programs: Programs
    data: FakeData

    def fresh(self, seed: int = 0) -> TrainState:
        """The first state of a seed."""
        return initialise(self.abstract, LinearPolicy(), self.optimizer, seed=seed)


def make_rig(data: FakeData | None = None, config: TrainingConfig = TRAINING, mesh: tuple[int, int] = (-1, 1)) -> Rig:
    """Builds the programs of a run."""
    data = data or FakeData()
    devices = make_mesh(mesh)
    optimizer = make_optimizer(config.optimizer, num_steps=config.num_steps)
    policy: Any = LinearPolicy()
    abstract = abstract_state(devices, policy, optimizer)
    batch: Any = data.validation()[0]
    programs = build_programs(policy, optimizer, abstract=abstract, batch=batch, samples_per_update=data.draws_per_step)
    return Rig(devices, optimizer, abstract, programs, data)


class Spy:
    """A sink that keeps the rows and can act on them."""

    def __init__(self, act: Callable[[Row], None] = lambda _: None) -> None:
        self.rows: list[Row] = []
        self._act = act

    def write(self, row: Row) -> None:
        self.rows.append(row)
        self._act(row)

    def sync(self) -> None:
        """Nothing to keep."""

    def close(self) -> None:
        """Nothing to close."""


def run_loop(
    rig: Rig,
    workdir: Path,
    state: TrainState,
    step: int,
    *,
    act: Callable[[Row], None] = lambda _: None,
    phase: DataPhase = DataPhase(),  # noqa: B008 - a frozen value
    **changes: Any,
) -> tuple[TrainState, int, list[Row]]:
    """Runs the loop in a directory, as the command does; returns state, step and the rows of this start."""
    workdir.mkdir(exist_ok=True)
    config = dataclasses.replace(TRAINING, **changes)
    spy = Spy(act)
    earlier = truncate_rows(workdir / METRICS_FILE, step=step)
    sinks = [MetricsFile(workdir / METRICS_FILE), spy]
    with (
        StopRequest() as stop,
        Recorder(sinks, earlier=earlier) as recorder,
        CheckpointWriter(workdir / CHECKPOINTS, keep=config.max_checkpoints_to_keep) as checkpoints,
    ):
        loop = Loop(
            config=config,
            mesh=rig.mesh,
            programs=rig.programs,
            steps=rig.data.steps,
            held_out=rig.data.validation(),
            phase=phase,
            draws=functools.partial(phase.draws, draws_per_step=rig.data.draws_per_step),
            recorder=recorder,
            checkpoints=checkpoints,
            meta=lambda done: {"step": done},
            stop=stop,
        )
        state, step = loop.run(state, step)
    return state, step, spy.rows
