"""A small recipe whose two draws share a row, with text and states; what they come to is shared by the tests."""

import numpy as np
import pytest

from tests.support.networks import SMALL_NETWORK, UNEQUAL_EXPERTS
from tests.support.runs import tiny_config
from tests.support.stores import write_tiny_store
from wam_jax.data.storage.store import open_store
from wam_jax.verification.run import Verifier


@pytest.fixture(scope="package")
def recipe(tmp_path_factory):
    rng = np.random.default_rng(0)
    texts = {i: {"text_context": rng.normal(size=(3 + i, 4)).astype(np.float32)} for i in range(4)}
    path = write_tiny_store(tmp_path_factory.mktemp("faults") / "store", lengths=(7, 9, 6, 8), overrides=texts)
    config = tiny_config(
        data={"train_batch_size": 2, "val_batch_size": 1},
        construction={"chunk_size": 4, "window_size": 6},
        batching={"mode": "packed", "max_compiled_shapes": 1},
        policy={"proprio_context_mode": "per_chunk_additive", **UNEQUAL_EXPERTS},
        backbone=SMALL_NETWORK | {"attention": "xla", "max_text_tokens": 8},
    )
    return config, open_store(path)


@pytest.fixture(scope="package")
def verifier(recipe):
    return Verifier(*recipe, draws=2, precision="float32")


@pytest.fixture(scope="package")
def runs(verifier):
    """The draws in packed rows, without a fault."""
    return verifier.run(["packed"])
