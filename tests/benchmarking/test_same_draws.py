"""Modes are measured on the same draws or not at all, and a loss that is not finite equals nothing."""

import math

import pytest

from wam_jax.benchmarking import modes
from wam_jax.benchmarking.modes import measure_modes, mode_config
from wam_jax.benchmarking.same_draws import check_same_draws, largest_difference, whole_pools
from wam_jax.config import load
from wam_jax.data.storage.store import open_store
from wam_jax.errors import InputError
from wam_jax.training.mesh import make_mesh


@pytest.mark.parametrize(
    ("pool", "ranks", "steps", "wanted"),
    [
        (4, 1, 3, 4),
        (3, 1, 3, 3),  # Pools are whole microbatches: of 2 here.
        (6, 1, 2, 3),
        (6, 1, 4, 4),  # An epoch of 8 draws ends the pool that is not full,
        (6, 1, 5, 7),  # and the next one begins the first of its own.
        (128, 1, 1, 4),
        (128, 1, 5, 8),
        (128, 2, 1, 2),
    ],
)
def test_updates_end_with_a_pool_or_with_the_epoch(padded_data, pool, ranks, steps, wanted):
    planner = padded_data(ranks=ranks).planner
    assert planner.draws_per_epoch == 8
    assert whole_pools(planner, pool_size=pool, steps=steps) == wanted


@pytest.mark.parametrize("ranks", [1, 2])
def test_modes_that_would_see_other_draws_are_refused_before_anything_is_measured(config_file, ranks):
    config = load(config_file, ["--config.data.batching.bucket_pool_size=128"]).config
    store, configs = open_store(config.data.store), {mode: mode_config(config, mode) for mode in ("padded", "bucket")}
    epoch = 4 // ranks
    check_same_draws(configs, store, ranks=ranks, steps=2 * epoch)
    with pytest.raises(InputError, match=f"--steps = {epoch + 1}: bucket consumes other draws than padded"):
        check_same_draws(configs, store, ranks=ranks, steps=epoch + 1)


def test_measuring_modes_checks_their_draws_first(config_file, monkeypatch):
    monkeypatch.setattr(modes, "Subject", pytest.fail)
    config = load(config_file, ["--config.data.batching.bucket_pool_size=128"]).config
    mesh = make_mesh(config.trainer.mesh)
    with pytest.raises(InputError, match="bucket consumes other draws than packed"):
        measure_modes(config, open_store(config.data.store), mesh, modes=["packed", "bucket"], steps=5)


def test_losses_differ_by_the_worst_draw_and_not_finite_ones_are_never_equal():
    draws = [(0, 0), (0, 1), (0, 2)]
    losses, nothing = dict(zip(draws, [1.0, 2.0, 0.0], strict=True)), dict.fromkeys(draws, 0.0)
    assert largest_difference(losses, losses) == 0
    assert largest_difference(losses | {(0, 1): 2.5}, losses) == pytest.approx(0.2)
    assert largest_difference(losses | {(0, 2): 1e-9}, losses) == 1  # The reference is 0.
    assert largest_difference(nothing, nothing) == 0
    for bad in (math.nan, math.inf):
        for draw in draws:
            spoilt = losses | {draw: bad}
            assert largest_difference(spoilt, losses) is largest_difference(losses, spoilt) is None
            assert largest_difference(spoilt, spoilt) is None
