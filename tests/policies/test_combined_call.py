"""Packed and padded rows run one combined call a heavy layer, and no array of tokens by tokens exists."""

import jax
import numpy as np
import pytest

from tests.model.tracing import equations
from tests.support.networks import SMALL_NETWORK, policy_for
from tests.support.runs import tiny_config
from tests.support.stores import write_tiny_store
from wam_jax.data.loader import TrainData
from wam_jax.data.storage.store import open_store

SAMPLES, LAYERS = 4, 2


@pytest.fixture(scope="module", params=["padded", "packed"])
def program(request, tmp_path_factory):
    """The jaxpr of a row of four samples, its tokens, and its optimised HLO; the host has listed all tiles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wam_kernels.api.trace_tile_lists", _refuse)
        yield _program(request.param, tmp_path_factory.mktemp("combined") / "store")


def _refuse(*_args, **_kwargs):
    raise AssertionError("tiles are listed in the compiled step")


def _program(mode, path):
    store = open_store(write_tiny_store(path, lengths=(40, 33, 37, 35, 31), height=2, width=4))
    config = tiny_config(
        data={"train_batch_size": SAMPLES, "val_batch_size": 1},
        batching={"mode": mode, "max_compiled_shapes": 1},
        backbone=SMALL_NETWORK | {"num_layers": LAYERS, "attention": "xla"},
    )
    policy = policy_for(config, store)
    batch = next(iter(TrainData(config, store, rows=range(1)).steps(0))).batches[0]
    params = jax.eval_shape(policy.init, jax.random.key(0))

    def loss(params, batch):
        return policy.forward_train_batch(params, batch)["loss"].sum()

    lowered = jax.jit(jax.grad(loss)).lower(params, batch)
    return jax.make_jaxpr(loss)(params, batch), batch.layout.key_valid.shape[1], lowered.compile().as_text()


def test_the_heavy_layers_are_one_loop_for_the_whole_row(program):
    jaxpr, *_ = program
    loops = [e for e in equations(jaxpr.jaxpr) if e.primitive.name == "scan" and e.params["length"] == LAYERS]
    assert len(loops) == 1


def test_no_array_of_tokens_by_tokens_exists(program):
    jaxpr, tokens, hlo = program
    shapes = [v.aval.shape for e in equations(jaxpr.jaxpr) for v in e.outvars if hasattr(v.aval, "shape")]
    assert tokens > 1000
    assert max(int(np.prod(shape)) for shape in shapes) < tokens**2
    assert not [shape for shape in shapes if list(shape).count(tokens) > 1]
    assert f"{tokens},{tokens}" not in hlo
