"""Gradients add up over microbatches, every sample weighs the same, what is not finite changes nothing."""

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import monitoring

from tests.training.fakes import SLOTS, FakeData, LinearPolicy, make_batch
from tests.training.rigs import OPTIMIZER, TRAINING, Rig, make_rig
from wam_jax.data.transport import RowBatch
from wam_jax.training.mesh import put_rows
from wam_jax.training.programs import Accumulator


@pytest.fixture(scope="module")
def rig() -> Rig:
    return make_rig()


def accumulate(rig: Rig, batches: list[RowBatch], params: Any) -> Accumulator:
    total = rig.programs.zeros()
    for batch in batches:
        total = rig.programs.gradient(params, total, put_rows(rig.mesh, batch))
    return total


def close(found: Any, expected: Any, **tolerance: float) -> None:
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance["rtol"], atol=tolerance.get("atol", 0))


def summed(total: Accumulator) -> Accumulator:
    return jax.tree.map(lambda parts: parts.sum(0), total)


@pytest.mark.parametrize("rows", [1, 2])
def test_accumulated_gradients_are_those_of_the_mean_over_all_samples(rows: int) -> None:
    rig = make_rig(FakeData(rows=rows))
    params, batches = rig.fresh().params, [make_batch(1, rows=rows), make_batch(2, rows=rows)]

    def mean(params: Any) -> jax.Array:
        losses = [LinearPolicy().forward_train_batch(params, batch)["loss"] for batch in batches]
        return jnp.concatenate(losses, axis=1).mean()

    total = accumulate(rig, batches, params)
    close(summed(total).gradients, jax.grad(mean)(params), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(summed(total).sums["loss"] / (2 * rows * SLOTS), mean(params), rtol=1e-6)


def test_empty_slots_weigh_nothing(rig: Rig) -> None:
    params, partly, poisoned = rig.fresh().params, make_batch(1, valid=2), make_batch(1, valid=2)
    poisoned.samples.video_latents[:, 2:] *= 100
    close(accumulate(rig, [poisoned], params), accumulate(rig, [partly], params), rtol=0)


def test_an_update_moves_by_the_learning_rate_and_counts(rig: Rig) -> None:
    state = rig.fresh()
    before, total = jax.device_get(state.params), accumulate(rig, [make_batch(1), make_batch(2)], state.params)
    direction, _ = rig.optimizer.transform.update(summed(total).gradients, state.opt_state, state.params)
    after, metrics = rig.programs.update(state, total)
    rate = OPTIMIZER.learning_rate / OPTIMIZER.warmup_steps
    np.testing.assert_allclose(metrics["lr"], rate, rtol=1e-6)
    close(after.params, jax.tree.map(lambda p, d: p - rate * d, before, direction), rtol=1e-5, atol=1e-7)
    squares = sum(float((leaf**2).sum()) for leaf in jax.tree.leaves(summed(total).gradients))
    np.testing.assert_allclose(metrics["grad_norm"], np.sqrt(squares), rtol=1e-5)
    assert (int(after.step), int(metrics["skipped"]), bool(metrics["nonfinite"].any())) == (1, 0, False)


def test_an_update_that_is_not_finite_changes_nothing_but_the_counters(rig: Rig) -> None:
    state, batch = rig.fresh(), make_batch(1)
    batch.samples.actions[0, 1] = np.inf
    before = jax.device_get((state.params, state.opt_state))
    after, metrics = rig.programs.update(state, accumulate(rig, [batch, make_batch(2)], state.params))
    close((after.params, after.opt_state), before, rtol=0)
    assert (int(after.step), int(after.skipped)) == (1, 1)
    assert bool(metrics["nonfinite"].any())


def test_a_moving_average_follows_the_parameters() -> None:
    optimizer = dataclasses.replace(OPTIMIZER, ema_decay=0.5)
    rig = make_rig(config=dataclasses.replace(TRAINING, optimizer=optimizer))
    state = rig.fresh()
    before = jax.device_get(state.params)
    after, _ = rig.programs.update(state, accumulate(rig, [make_batch(1), make_batch(2)], state.params))
    close(after.ema, jax.tree.map(lambda a, b: (a + b) / 2, before, after.params), rtol=1e-6)
    assert after.evaluated is after.ema


def test_evaluation_sums_over_samples_and_counts_them(rig: Rig) -> None:
    params, batch = rig.fresh().params, make_batch(1, valid=2)
    sums = rig.programs.evaluate(params, put_rows(rig.mesh, batch))
    losses = LinearPolicy().forward_train_batch(params, batch)["loss"]
    np.testing.assert_allclose(sums["loss"], losses[:, :2].sum(), rtol=1e-5)
    np.testing.assert_allclose(sums["zero_loss"], (batch.samples.actions[:, :2] ** 2).sum(), rtol=1e-5)
    assert int(sums["count"]) == 2


@pytest.fixture
def compiled() -> Iterator[Counter[str]]:
    """Compilations by program, as JAX reports them."""
    seen: Counter[str] = Counter()

    def note(event: str, duration_secs: float, **about: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration" and duration_secs >= 0:
            seen[about.get("fun_name", "")] += 1

    monitoring.register_event_duration_secs_listener(note)
    yield seen
    monitoring.unregister_event_duration_listener(note)


def test_each_program_compiles_once(compiled: Counter[str]) -> None:
    rig = make_rig(FakeData())
    state, steps = rig.fresh(), rig.data.steps(0)
    for _ in range(4):
        state, _ = rig.programs.update(state, accumulate(rig, next(steps).batches, state.params))
        for batch in rig.data.validation():
            rig.programs.evaluate(state.params, put_rows(rig.mesh, batch))
    names = ("zeros", "gradient", "update", "evaluate")
    assert [compiled[f"jit({name})"] for name in names] == [1, 1, 1, 1]
