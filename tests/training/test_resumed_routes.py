"""What a resumed run keeps of the stream of draws that it began with."""

from pathlib import Path

import pytest

from tests.training.commands import make_experiment
from wam_jax.config import load
from wam_jax.config.schema import Config
from wam_jax.data.storage.store import Store, open_store
from wam_jax.training.mesh import make_mesh
from wam_jax.training.run import open_data

OVERRIDES = (
    "policy.program=generalist_joint_denoising",
    "data.sample_construction.sample_order_mode=replacement",
    "data.routing.routes=(('real_demo','joint',1),('real_demo','video_conditioned_action',1))",
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("resumed")
    make_experiment(path)
    return path


def opened(directory: Path, *overrides: str) -> tuple[Config, Store]:
    words = [f"--config.{word}" for word in (*OVERRIDES, *overrides)]
    return load(str(directory / "config.py"), words).config, open_store(directory / "store")


def test_the_objective_group_is_the_number_of_ranks_at_the_start_and_kept(directory: Path) -> None:
    begun = open_data(*opened(directory), make_mesh((1, 1)))
    assert begun.objective_group == begun.contract()["objective_group"] == 1
    stored = {"data_contract": begun.contract() | {"objective_group": 4}}
    assert open_data(*opened(directory), make_mesh((1, 1)), resumed=stored).contract() == stored["data_contract"]


def test_a_group_that_is_configured_is_not_the_stored_one(directory: Path) -> None:
    stored = {"data_contract": {"objective_group": 4}}
    data = open_data(*opened(directory, "data.routing.objective_group=2"), make_mesh((1, 1)), resumed=stored)
    assert data.objective_group == 2
