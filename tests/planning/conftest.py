"""One tiny run and its plan for the CPU, compiled once for all tests of this room."""

from pathlib import Path

import pytest

from tests.support.stores import write_tiny_store
from wam_jax.config import Config, load
from wam_jax.data.storage.store import Store, open_store
from wam_jax.planning.planner import Plan, make_plan
from wam_jax.planning.topology import Topology

CONFIG = """
from wam_jax.config import default_config

def get_config():
    config = default_config()
    config.name = "tiny"
    config.data.store = {store!r}
    config.data.train_batch_size = 2
    config.data.val_batch_size = 2
    config.data.batching.mode = "packed"
    config.data.batching.max_compiled_shapes = 1
    config.policy.program = "joint"
    config.training.num_steps = 4
    config.validation.num_draws = 1
    sizes = dict(latent_channels=3, hidden_size=8, num_heads=1, head_dim=8, ffn_dim=8, text_dim=4, freq_dim=4)
    config.backbone.update(sizes)
    return config
"""


@pytest.fixture(scope="session")
def config_file(tmp_path_factory) -> str:
    folder: Path = tmp_path_factory.mktemp("planning")
    write_tiny_store(folder / "store", lengths=(3, 5, 2, 4, 6, 2, 3, 4, 3))
    path = folder / "config.py"
    path.write_text(CONFIG.format(store=str(folder / "store")))
    return str(path)


@pytest.fixture(scope="session")
def config(config_file) -> Config:
    return load(config_file).config


@pytest.fixture(scope="session")
def store(config) -> Store:
    return open_store(config.data.store)


@pytest.fixture(scope="session")
def plan(config, store) -> Plan:
    """With room for anything."""
    return make_plan(config, store, Topology("cpu", 1), rungs="ends", usable=2**40, progress=lambda _: None)
