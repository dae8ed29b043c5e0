"""`python -m tests.training.topologies MODES DIRECTORY NAMES...`: the same run on meshes of eight simulated devices.

Twenty-four draws an update, whatever the topology; five updates of the real policy on trajectories of unequal length,
with all transfers explicit. Prints as JSON, by mode and topology: losses and gradient norms of the updates, the draws
of each, what the programs say to each other, and, where a run was resumed from the checkpoint of another topology, the
same of the updates after it.
"""

import contextlib
import functools
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from tests.support.networks import SMALL_NETWORK, policy_for
from tests.support.runs import tiny_config
from tests.support.stores import write_tiny_store
from wam_jax.config.schema import Config, OptimizerConfig
from wam_jax.data.loader import Step, TrainData
from wam_jax.data.storage.store import Store, open_store
from wam_jax.training.checkpoint import CheckpointWriter, read_meta, restore_state
from wam_jax.training.locate import CheckpointRef
from wam_jax.training.mesh import AXES, put_rows
from wam_jax.training.optimizer import make_optimizer
from wam_jax.training.programs import build_programs
from wam_jax.training.record import check_contract
from wam_jax.training.state import TrainState, abstract_state, initialise

UPDATES, SAVED_AFTER = 5, 3
OPTIMIZER = OptimizerConfig(learning_rate=1e-3, max_grad_norm=1.0, weight_decay=0.1)
LENGTHS = (3, 5, 2, 4, 4, 2, 5, 3) * 8


@dataclass(frozen=True)
class Topology:
    """A mesh, and how it splits an update."""

    data: int
    fsdp: int
    microbatch: int
    accumulation: int

    @property
    def mesh(self) -> Mesh:
        devices = np.array(jax.devices()[: self.data * self.fsdp]).reshape(self.data, self.fsdp)
        return Mesh(devices, AXES, axis_types=(AxisType.Auto,) * 2)


TOPOLOGIES = {
    "1": Topology(1, 1, 6, 4),
    "1x2": Topology(1, 2, 6, 2),
    "2x2": Topology(2, 2, 6, 1),
    "2x2 in halves": Topology(2, 2, 3, 2),
    "1x8": Topology(1, 8, 3, 1),
    "2x4": Topology(2, 4, 3, 1),
    "8x1": Topology(8, 1, 3, 1),
}
WHOLE, SAVED, COUNTED = "1", "2x2", ("1", "2x4", "8x1")


def config_of(topology: Topology, mode: str, **backbone: Any) -> Config:
    """The run on a topology."""
    return tiny_config(
        data={"train_batch_size": topology.microbatch},
        training={"gradient_accumulation_steps": topology.accumulation, "optimizer": OPTIMIZER, "text_dropout": 0.25},
        construction={"chunk_size": 3},
        batching={"mode": mode, "max_compiled_shapes": 1},
        backbone=SMALL_NETWORK | backbone,
    )


def store_in(directory: Path) -> Store:
    """Sixty-four short trajectories."""
    return open_store(write_tiny_store(directory / "store", LENGTHS, splits=(["train"] * 7 + ["val"]) * 8))


class Trainer:
    """The compiled run on one topology."""

    def __init__(self, topology: Topology, config: Config, store: Store) -> None:
        self.mesh, ranks = topology.mesh, topology.data * topology.fsdp
        self.data = TrainData(config, store, rows=range(ranks))
        self.policy, self.optimizer = policy_for(config, store), make_optimizer(OPTIMIZER, num_steps=UPDATES)
        self.abstract = abstract_state(self.mesh, self.policy, self.optimizer)
        self.programs = build_programs(
            self.policy,
            self.optimizer,
            abstract=self.abstract,
            batch=self.data.validation()[0],
            samples_per_update=self.data.draws_per_step,
        )

    def fresh(self) -> TrainState:
        return initialise(self.abstract, self.policy, self.optimizer, seed=0)

    def restored(self, ref: CheckpointRef) -> TrainState:
        check_contract(ref, read_meta(ref), self.data.contract())
        return restore_state(ref, self.abstract)

    def updates(self, state: TrainState, first: int, act: Callable[[int, TrainState], None]) -> list[dict[str, Any]]:
        """The updates from `first` on; `act` is called after each."""
        rows = []
        with contextlib.closing(self.data.steps(first)) as steps, jax.transfer_guard("disallow"):
            for number, step in zip(range(first, UPDATES), steps, strict=False):
                total = self.programs.zeros()
                for batch in step.batches:
                    total = self.programs.gradient(state.params, total, put_rows(self.mesh, batch))
                state, metrics = self.programs.update(state, total)
                act(number + 1, state)
                rows.append(_row(step, jax.device_get(metrics)))
        return rows

    def collectives(self) -> dict[str, dict[str, int]]:
        """How often each kind occurs in the gradient program as written and in the update as compiled."""
        total, batch = self.programs.zeros(), put_rows(self.mesh, self.data.empty_batches()[0])
        shapes = jax.tree.map(_shape, (self.abstract.params, total, batch))
        update: Any = self.programs.update
        return {
            "gradient": _count(self.programs.gradient.lower(*shapes).as_text(), "stablehlo.{}"),
            "update": _count(update.lower(self.abstract, shapes[1]).compile().as_text(), " {}("),
        }


def _shape(array: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=array.sharding)


def _count(text: str, form: str) -> dict[str, int]:
    names = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "collective_permute")
    spelt = {name: form.format(name if "stablehlo" in form else name.replace("_", "-")) for name in names}
    return {name: text.count(word) for name, word in spelt.items() if word in text}


def _row(step: Step, metrics: dict[str, Any]) -> dict[str, Any]:
    drawn = [batch.samples.draw[batch.samples.valid][:, 1:].tolist() for batch in step.batches]
    return {
        "loss": float(metrics["loss"]),
        "grad_norm": float(metrics["grad_norm"]),
        "draws": sorted(draw for batch in drawn for draw in batch),
    }


def run_mode(mode: str, names: list[str], directory: Path) -> dict[str, Any]:
    """All topologies from the beginning, then those but the one that saved from its checkpoint."""
    store = store_in(directory)
    trainers = {name: Trainer(TOPOLOGIES[name], config_of(TOPOLOGIES[name], mode), store) for name in names}
    ref = CheckpointRef(directory / "checkpoints", SAVED_AFTER, "--resume-from")

    def save(trainer: Trainer, done: int, state: TrainState) -> None:
        if done == SAVED_AFTER:
            with jax.transfer_guard("allow"), CheckpointWriter(ref.directory, keep=1) as writer:
                writer.save(done, state, {"data_contract": trainer.data.contract()})

    def run(name: str) -> list[dict[str, Any]]:
        trainer = trainers[name]
        act = functools.partial(save, trainer) if name == SAVED else lambda *_: None
        return trainer.updates(trainer.fresh(), 0, act)

    whole = {name: run(name) for name in names}
    resumed = {}
    for name in names if SAVED in names else ():
        if name != SAVED:
            resumed[name] = trainers[name].updates(trainers[name].restored(ref), SAVED_AFTER, lambda *_: None)
    said = {name: trainers[name].collectives() for name in names if name in COUNTED}
    return {"whole": whole, "resumed": resumed, "collectives": said}


def main() -> None:
    """Runs the modes and topologies that are named."""
    modes, directory, names = sys.argv[1].split(","), Path(sys.argv[2]), sys.argv[3:]
    print(json.dumps({mode: run_mode(mode, names, directory / mode) for mode in modes}))


if __name__ == "__main__":
    main()
