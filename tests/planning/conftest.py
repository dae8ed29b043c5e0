"""One tiny run and its plan for the CPU, compiled once for all tests of this room."""

import pytest

from tests.support.config_files import write_config
from wam_jax.config import Config, load
from wam_jax.data.storage.store import Store, open_store
from wam_jax.planning.planner import Plan, make_plan
from wam_jax.planning.topology import Topology


@pytest.fixture(scope="session")
def config_file(tmp_path_factory) -> str:
    return write_config(tmp_path_factory.mktemp("planning"))


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
