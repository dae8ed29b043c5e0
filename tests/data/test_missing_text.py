"""A store without any text: every sample reads zeros, as many as the model takes, whether text is dropped or not."""

from pathlib import Path

import numpy as np
import pytest

from tests.data.indexes import make_law
from tests.support.runs import tiny_config
from tests.support.stores import tiny_arrays, tiny_encoder
from wam_jax.data.batching.shapes import row_constants
from wam_jax.data.construction.samples import SampleReader
from wam_jax.data.drawing.samplers import Stretch
from wam_jax.data.storage.store import Store, open_store
from wam_jax.data.storage.writer import Episode, StoreWriter


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    path: Path = tmp_path_factory.mktemp("silent") / "store"
    with StoreWriter(path, encoder=tiny_encoder(3), actions_per_frame=2) as writer:
        writer.add(Episode("a", source="s", task="t", instruction="say", fps=20.0, split="train"), tiny_arrays(4))
    return open_store(path)


@pytest.mark.parametrize("dropout", [0.0, 1.0])
def test_missing_text_is_zeros(store, dropout):
    config = tiny_config(training={"num_steps": 1, "text_dropout": dropout})
    draw = make_law(config, store.index).draws(Stretch(0, 0, 1), np.array([0]))[0]
    assert bool(draw.drop_text) == bool(dropout)
    sample = SampleReader(config, store, row_constants(config, store.manifest)).read(draw)
    assert sample.row.num_text == config.backbone.max_text_tokens == 5
    np.testing.assert_array_equal(sample.text, np.zeros((5, 4)))
