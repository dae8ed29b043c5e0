"""Recording changes nothing: the same bits with a tape and without, the same program where there are no tags."""

import contextlib

import jax
import numpy as np
import pytest

from tests.support.networks import SMALL_NETWORK, UNEQUAL_EXPERTS, policy_for, random_params
from tests.support.runs import tiny_config
from tests.support.stores import write_tiny_store
from wam_jax import tracing
from wam_jax.data.loader import TrainData
from wam_jax.data.storage.store import open_store

LAYERS = 3


class Setting:
    """A policy, its parameters, a row of three samples, and the loss of that row."""

    def __init__(self, store, **backbone):
        config = tiny_config(
            data={"train_batch_size": 3, "val_batch_size": 1},
            batching={"mode": "packed", "max_compiled_shapes": 1},
            policy={"proprio_context_mode": "per_chunk_additive", **UNEQUAL_EXPERTS},
            backbone=SMALL_NETWORK | {"num_layers": LAYERS, "attention": "xla", **backbone},
        )
        self.policy = policy_for(config, store)
        self.params = random_params(self.policy)
        self.batch = next(iter(TrainData(config, store, rows=range(1)).steps(0))).batches[0]

    def loss(self, params, batch):
        return self.policy.forward_train_batch(params, batch)["loss"].sum()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return open_store(write_tiny_store(tmp_path_factory.mktemp("tape") / "store", lengths=(3, 9, 5, 7)))


@pytest.fixture(scope="module")
def setting(store) -> Setting:
    return Setting(store)


@pytest.fixture(scope="module")
def recorded(setting):
    return tracing.record_gradients(setting.loss, setting.params, setting.batch)


def check_same_bits(ours, theirs) -> None:
    for a, b in zip(*map(jax.tree.leaves, (ours, theirs)), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_a_tape_changes_no_bit_of_loss_and_gradient(setting, recorded):
    check_same_bits(recorded[0], jax.jit(jax.value_and_grad(setting.loss))(setting.params, setting.batch))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("remat", ["none", "block", "save_attention"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_nor_under_remat_or_in_half_precision(store, remat, dtype):
    setting = Setting(store, remat=remat, compute_dtype=dtype)
    found = tracing.record_gradients(setting.loss, setting.params, setting.batch)[0]
    check_same_bits(found, jax.jit(jax.value_and_grad(setting.loss))(setting.params, setting.batch))


def test_without_a_tape_the_program_is_the_one_without_tags(setting, monkeypatch):
    with_tags = jax.jit(jax.grad(setting.loss)).lower(setting.params, setting.batch).as_text()

    @contextlib.contextmanager
    def no_scope(*_args, **_kwargs):
        yield

    for module in ("model.block", "model.dual_expert", "decode.decoder", "policies.dual_expert"):
        monkeypatch.setattr(f"wam_jax.{module}.tag", lambda value, *_args, **_kwargs: value)
    monkeypatch.setattr("wam_jax.model.block.scope", no_scope)
    monkeypatch.setattr("wam_jax.tracing.scan", lambda body, carry, xs, wrap: jax.lax.scan(wrap(body), carry, xs))
    monkeypatch.setattr("wam_jax.tracing.mapped", jax.lax.map)
    assert with_tags == jax.jit(jax.grad(setting.loss)).lower(setting.params, setting.batch).as_text()


def test_every_layer_of_both_experts_is_recorded_in_order(recorded):
    _, trace, _ = recorded
    names = list(trace)
    assert names.index("noise.video") < names.index("video_expert.embedding") < names.index("decode.loss")
    assert names.index("video_expert.block_*.attention.query") < names.index("action_expert.block_*.attention.out")
    assert trace["video_expert.block_*.out"].value.shape[0] == LAYERS


def test_the_gradient_of_a_tensor_is_that_of_what_is_added_to_it(setting, recorded):
    """A bias is added to every token of the embedding; the loss of a sample counts once."""
    (_, gradient), _, probes = recorded
    bias = gradient["video_expert"]["patch_embedding"]["bias"]
    np.testing.assert_allclose(probes["video_expert.embedding"].value.sum((0, 1, 2)), bias, rtol=2e-5, atol=1e-6)
    np.testing.assert_array_equal(probes["decode.loss"].value, np.ones_like(setting.batch.samples.valid, np.float32))


def test_a_tag_inside_a_scan_is_what_the_body_computes():
    def function(x):
        def body(carry, step):
            carry = tracing.tag(carry * step, "product", stream="samples")
            return carry, carry

        return tracing.scan(body, x, np.arange(1.0, 4.0))[1].sum()

    value, trace = tracing.record(function, np.float32(2))
    assert value == 2 + 4 + 12
    np.testing.assert_array_equal(trace["product"].value, [2, 4, 12])


def test_two_tensors_of_one_name_are_refused():
    def function(x):
        return tracing.tag(tracing.tag(x, "twice", stream="samples") + 1, "twice", stream="samples")

    with pytest.raises(ValueError, match="two tensors are called twice"):
        tracing.record(function, np.float32(2))
