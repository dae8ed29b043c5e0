"""A tiny recipe for benchmarks, and its data."""

from collections.abc import Callable

import pytest

from tests.support.config_files import write_config
from wam_jax.benchmarking.modes import mode_config
from wam_jax.config import load
from wam_jax.data.loader import TrainData
from wam_jax.data.storage.store import open_store


@pytest.fixture
def config_file(tmp_path) -> str:
    return write_config(tmp_path)


@pytest.fixture
def padded_data(config_file) -> Callable[..., TrainData]:
    """The recipe's data in mode `padded`, an epoch of four updates of two draws on one rank."""

    def make(*, ranks: int = 1) -> TrainData:
        config = load(config_file, []).config
        return TrainData(mode_config(config, "padded"), open_store(config.data.store), rows=range(ranks))

    return make
