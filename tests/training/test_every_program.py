"""Two updates of every program from the quick start's configuration. Programs are data: all run what one compiled."""

from contextlib import closing
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from tests.support.networks import policy_for
from wam_jax.config import load
from wam_jax.config.schema import Config
from wam_jax.data.loader import TrainData
from wam_jax.data.storage.store import Store, open_store
from wam_jax.sequence import Objective
from wam_jax.sequence.programs import PROGRAMS
from wam_jax.training.mesh import make_mesh, put_rows
from wam_jax.training.optimizer import make_optimizer
from wam_jax.training.programs import Programs, build_programs
from wam_jax.training.state import TrainState, abstract_state, initialise

QUICKSTART = Path(__file__).parents[2] / "configs" / "quickstart.py"
GJD = "generalist_joint_denoising"
SMALL = (
    "backbone.hidden_size=16", "backbone.num_layers=1", "backbone.num_heads=2", "backbone.head_dim=8",
    "backbone.ffn_dim=16", "backbone.freq_dim=8", "backbone.patch_size=(1,4,4)", "policy.action_hidden_size=16",
    "policy.action_ffn_dim=16", "data.train_batch_size=4", "data.val_batch_size=4", "validation.num_draws=4",
)  # fmt: skip
ROUTED = (
    "policy.generalist_mode_text_token=true",
    "data.sample_construction.sample_order_mode=replacement",
    "data.routing.routes=(('real_demo','joint',2),('real_demo','action_conditioned_video',1),"
    "('real_demo','video_conditioned_action',1))",
)


def config_of(program: str, *overrides: str) -> Config:
    words = (*SMALL, f"policy.program={program}", *overrides)
    return load(str(QUICKSTART), [f"--config.{word}" for word in words]).config


class Trainer:
    """What one configuration compiled, for the data of any."""

    def __init__(self, store: Store) -> None:
        config, self.mesh, self.store = config_of(GJD, *ROUTED), make_mesh((1, 1)), store
        self.policy, self.optimizer = policy_for(config, store), make_optimizer(config.training.optimizer, num_steps=2)
        self.abstract = abstract_state(self.mesh, self.policy, self.optimizer)
        data = TrainData(config, store, rows=range(1))
        self.programs: Programs = build_programs(
            self.policy,
            self.optimizer,
            abstract=self.abstract,
            batch=data.validation()[0],
            samples_per_update=data.draws_per_step,
            objectives=tuple(Objective),
        )

    def two_updates(self, config: Config) -> tuple[TrainState, list[dict[str, Any]]]:
        """From the first state of the run."""
        state, rows = initialise(self.abstract, self.policy, self.optimizer, seed=0), []
        with closing(TrainData(config, self.store, rows=range(1)).steps()) as steps:
            for _ in range(2):
                total = self.programs.zeros()
                for batch in next(steps).batches:
                    total = self.programs.gradient(state.params, total, put_rows(self.mesh, batch))
                state, metrics = self.programs.update(state, total)
                rows.append(jax.device_get(metrics))
        return state, rows


@pytest.fixture(scope="module")
def trainer() -> Trainer:
    return Trainer(open_store("embedded:metaworld12"))


def labels(program: str) -> set[str]:
    """The objectives of an unrouted run of a program."""
    return {(PROGRAMS[program].fixed_objective or Objective.JOINT).label}


@pytest.mark.parametrize("program", PROGRAMS)
def test_two_updates_of_a_program(trainer, program):
    state, rows = trainer.two_updates(config_of(program))
    assert int(state.step) == 2
    assert int(state.skipped) == 0
    for row in rows:
        assert np.isfinite(row["loss"])
        assert row["loss"] > 0
        assert {name for name in row if name.endswith("/count") and row[name] > 0} == {
            f"{label}/count" for label in labels(program)
        }


def test_a_routed_run_says_how_each_objective_does(trainer):
    _, rows = trainer.two_updates(config_of(GJD, *ROUTED))
    for row in rows:
        counts = {objective: row[f"{objective.label}/count"] for objective in Objective}
        assert sum(counts.values()) == 4
        parts = [counts[o] * row[f"{o.label}/loss"] for o in Objective if counts[o]]
        assert row["loss"] == pytest.approx(sum(parts) / 4, rel=1e-5)
    assert rows[0].keys() == rows[1].keys()
