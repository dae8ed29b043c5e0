"""The plan of a run: its programs compiled for a topology, and the verdict."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from wam_jax.config import Config
from wam_jax.data.batching.rungs import token_slots
from wam_jax.data.storage.store import Store
from wam_jax.planning.abstract import AbstractRun, abstract_run
from wam_jax.planning.collectives import Collective, merged
from wam_jax.planning.compiling import Compiled, compile_program
from wam_jax.planning.memory import Memory, compiled_memory
from wam_jax.planning.topology import Topology, planned_mesh
from wam_jax.planning.work import Work, work_of
from wam_jax.training.tree import parameter_counts

type Rungs = Literal["ends", "all", "largest"]
"""Of which rungs the gradient programs are compiled: the smallest and the largest, every one, or only the largest."""


type Progress = Callable[[str], object]
"""Told the stage that comes next."""


@dataclass(frozen=True)
class Plan:
    """What a run will take; sizes in bytes of one device.

    Attributes:
        name: of the run.
        topology: the devices.
        mesh: axis name to devices.
        parameters: numbers of each part of the model, and in all.
        samples_per_update: draws of an update, over all ranks.
        calls_per_update: gradient programs run in an update, the mean of the first updates.
        row_slots: token slots of a row of the largest rung.
        shapes: the rungs, and the utilisation to expect.
        gradients: the gradient programs that were compiled, smallest rung first.
        update: the update program.
        memory: what a device holds.
        work: operations for each real token.
        collectives: what each device sends in an update, calls of the largest rung.
    """

    name: str
    topology: Topology
    mesh: dict[str, int]
    parameters: dict[str, int]
    samples_per_update: int
    calls_per_update: float
    row_slots: int
    shapes: dict[str, Any]
    gradients: list[Compiled]
    update: Compiled
    memory: Memory
    work: Work
    collectives: list[Collective]

    @property
    def fits(self) -> bool:
        """The verdict."""
        return self.memory.spare >= 0

    def to_json(self) -> dict[str, Any]:
        """Plain JSON of everything."""
        memory = dataclasses.asdict(self.memory) | {"peak": self.memory.peak, "spare": self.memory.spare}
        return dataclasses.asdict(self) | {"memory": memory, "fits": self.fits}


def make_plan(
    config: Config, store: Store, topology: Topology, *, rungs: Rungs, usable: int, progress: Progress
) -> Plan:
    """Compiles what a run would.

    Args:
        config: the run's.
        store: its data, of which the index is read, and the payloads of a few rows.
        topology: where it would run.
        rungs: which gradient programs are compiled.
        usable: bytes of a device's memory that the run may take.
        progress: told of every stage.
    Raises:
        InputError: configuration, data and devices do not fit one another.
    """
    with planned_mesh(topology, config.trainer.mesh) as mesh:
        progress("shapes of state and batches")
        run = abstract_run(config, store, mesh)
        gradients = [*_compiled_gradients(run, _chosen(rungs, len(run.batches)), topology, progress)]
        progress("compiling the update")
        update = compile_program("update", run.traced_update(), mesh, is_gpu=topology.is_gpu)
        progress("counting operations")
        calls = sum(run.data.shapes.calls) / _updates(run)
        return Plan(
            name=config.name,
            topology=topology,
            mesh=dict(mesh.shape),
            parameters=parameter_counts(run.state.params),
            samples_per_update=run.data.draws_per_step,
            calls_per_update=calls,
            row_slots=token_slots(run.data.shapes.ladder.rungs[-1], run.data.constants),
            shapes=run.data.shapes.summary(),
            gradients=gradients,
            update=update,
            memory=compiled_memory(run, gradients, update, usable=usable),
            work=work_of(run),
            collectives=_sent(gradients[-1].collectives, update.collectives, calls),
        )


def _chosen(rungs: Rungs, count: int) -> Sequence[int]:
    match rungs:
        case "all":
            return range(count)
        case "largest":
            return (count - 1,)
        case _:
            return sorted({0, count - 1})


def _compiled_gradients(
    run: AbstractRun, rungs: Iterable[int], topology: Topology, progress: Progress
) -> Iterator[Compiled]:
    for rung in rungs:
        progress(f"compiling the gradient of rung {rung + 1} of {len(run.batches)}")
        yield compile_program(f"gradient {rung + 1}", run.traced_gradient(rung), run.mesh, is_gpu=topology.is_gpu)


def _updates(run: AbstractRun) -> int:
    """The updates whose calls the rungs were chosen over."""
    drawn = run.data.shapes.expected.samples
    return max(1, drawn // run.data.draws_per_step)


def _sent(gradient: list[Collective], update: list[Collective], calls: float) -> list[Collective]:
    return merged([*(one * calls for one in gradient), *update])
