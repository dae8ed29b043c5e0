"""The held-out loss is a mean over samples, whatever batches they are in."""

import jax
import numpy as np
import pytest

from tests.training.fakes import SLOTS, LinearPolicy, make_batch
from tests.training.rigs import Rig, make_rig
from wam_jax.data.transport import RowBatch
from wam_jax.policies.base import Params
from wam_jax.training.programs import Scalars
from wam_jax.training.validation import validate


@pytest.fixture(scope="module")
def rig() -> Rig:
    return make_rig()


def test_every_sample_counts_once(rig: Rig) -> None:
    params, batches = rig.fresh().params, [make_batch(1), make_batch(2, valid=1)]
    row = validate(rig.programs.evaluate, params, batches, rig.mesh)
    policy = LinearPolicy()
    losses = [np.asarray(policy.forward_train_batch(params, batch)["loss"]) for batch in batches]
    np.testing.assert_allclose(row["loss"], np.concatenate([losses[0][0], losses[1][0, :1]]).mean(), rtol=1e-5)
    assert row["num_samples"] == SLOTS + 1
    assert row["loss"] == pytest.approx(row["video_loss"] + row["action_loss"], rel=1e-5)


def test_the_zero_prediction_stands_beside_it(rig: Rig) -> None:
    batch = make_batch(1)
    row = validate(rig.programs.evaluate, rig.fresh().params, [batch], rig.mesh)
    np.testing.assert_allclose(row["zero_loss"], (batch.samples.actions**2).mean(), rtol=1e-5)


def test_the_same_parameters_give_the_same_numbers(rig: Rig) -> None:
    first, second = (validate(rig.programs.evaluate, rig.fresh().params, rig.data.validation(), rig.mesh) for _ in "ab")
    assert first | {"seconds": 0} == second | {"seconds": 0}


def test_a_batch_waits_on_the_device_for_one_before_it_and_no_more(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    fetch, batches = jax.device_get, [make_batch(number) for number in range(4)]

    def evaluate(params: Params, batch: RowBatch) -> Scalars:
        said.append("give")
        return rig.programs.evaluate(params, batch)

    monkeypatch.setattr(jax, "device_get", lambda part: said.append("take") or fetch(part))
    row = validate(evaluate, rig.fresh().params, batches, rig.mesh)
    assert said == ["give", "give", "take", "give", "take", "give", "take", "take"]
    assert row["num_samples"] == 4 * SLOTS
