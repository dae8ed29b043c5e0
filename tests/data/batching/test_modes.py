"""Plans of every mode: the draws of an update, once each, in calls that fit their rungs; the same from any step."""

import functools
import json
import operator
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.indexes import equal, make_index, make_law
from tests.support.runs import tiny_config
from wam_jax.config.schema import BatchingConfig
from wam_jax.data.batching.costs import sample_tokens
from wam_jax.data.batching.counts import count_tokens
from wam_jax.data.batching.modes import check_budget, make_planner, training_shapes
from wam_jax.data.batching.planner import UpdateShape, draws_per_epoch
from wam_jax.data.batching.rungs import holds, needed_rung
from wam_jax.data.drawing.samplers import Replacement, ShuffledEpochs
from wam_jax.errors import InputError
from wam_jax.keys import Phase
from wam_jax.sequence.layout import RowConstants

LENGTHS = [3, 9, 2, 5, 7, 2, 4, 6, 8, 3, 12, 2, 2, 30, 5, 6, 7, 9, 4, 3]
INDEX = make_index(LENGTHS)
LAW = make_law(tiny_config(), INDEX)
BUDGET = 30 * 2 * (4 + 2)

modes = st.sampled_from(
    [
        {"mode": "strict"},
        {"mode": "padded", "pad_to_multiple_of": 4},
        {"mode": "packed"},
        {"mode": "packed", "balance_ranks": False},
        {"mode": "packed", "max_tokens": BUDGET},
        {"mode": "packed", "max_tokens": BUDGET + 50, "packer": "first_fit"},
        {"mode": "packed", "max_tokens": BUDGET, "packer": "in_order", "balance_ranks": False},
    ]
)
shapes_of_updates = st.builds(UpdateShape, st.integers(1, 3), st.integers(1, 3), st.integers(1, 2))
samplers = st.sampled_from([ShuffledEpochs, Replacement])


def _constants(batching: BatchingConfig) -> RowConstants:
    return RowConstants(4, 2, ranges=4, frame_axis=8, packed=batching.mode == "packed")


def _planner(batching: BatchingConfig, shape: UpdateShape, sampler=ShuffledEpochs):
    per_epoch = draws_per_epoch(len(LENGTHS), shape, drop_last=True)
    return make_planner(batching, LAW, sampler(5, Phase.TRAIN, len(LENGTHS)), shape, per_epoch, _constants(batching))


def _drawn(draws) -> list[tuple[int, int, int]]:
    """(epoch, position, episode) of every seat that is taken, sorted."""
    table = draws.reshape(-1)[np.flatnonzero(draws.reshape(-1).present)]
    return sorted(zip(table.epoch.tolist(), table.position.tolist(), table.episode.tolist(), strict=True))


@given(fields=modes, shape=shapes_of_updates, sampler=samplers, step=st.integers(0, 40))
@settings(max_examples=120, deadline=None)
def test_an_update_is_exactly_its_stretch_of_the_global_stream(fields, shape, sampler, step):
    batching = BatchingConfig(**fields)
    planner = _planner(batching, shape, sampler)
    found = _drawn(planner.plan(step).draws)
    wanted = [divmod(g, planner.draws_per_epoch) for g in range(step * shape.draws, (step + 1) * shape.draws)]
    assert [(epoch, position) for epoch, position, _ in found] == wanted


@given(shape=shapes_of_updates, pool=st.integers(1, 9), sampler=samplers)
@settings(max_examples=60, deadline=None)
def test_buckets_keep_every_draw_of_an_epoch_and_sort_only_within_pools(shape, pool, sampler):
    planner = _planner(BatchingConfig(mode="bucket", bucket_pool_size=pool), shape, sampler)
    steps = planner.draws_per_epoch // shape.draws
    plans = [planner.plan(step).draws for step in range(steps)]
    found = sorted(draw for plan in plans for draw in _drawn(plan))
    stream = planner.sampler.items(0, 0, planner.draws_per_epoch)
    assert [position for _, position, _ in found] == list(range(planner.draws_per_epoch))
    assert [episode for *_, episode in found] == LAW.space.episodes[stream].tolist()
    for rank in range(shape.ranks):
        own = [(p.position[call, rank], p.num_frames[call, rank]) for p in plans for call in range(shape.accumulation)]
        positions, lengths = (np.concatenate(part) for part in zip(*own, strict=True))
        assert (positions % shape.ranks == rank).all()
        for start in range(0, len(positions), planner.pool):
            part = slice(start, start + planner.pool)
            assert sorted(positions[part] // shape.ranks) == list(
                range(start, min(start + planner.pool, len(positions)))
            )
            assert (np.diff(lengths[part]) >= 0).all()


@given(fields=modes, shape=shapes_of_updates, limit=st.integers(1, 5), step=st.integers(0, 60))
@settings(max_examples=30, deadline=None)
def test_every_call_runs_at_a_rung_that_holds_it(fields, shape, limit, step):
    batching = BatchingConfig(**fields, max_compiled_shapes=limit)
    planner, constants = _planner(batching, shape), _constants(batching)
    shapes = training_shapes(batching, planner, LAW, constants)
    assert 1 <= len(shapes.ladder.rungs) <= limit
    draws = planner.plan(step).draws
    for call in (draws[i] for i in range(len(draws.episode))):
        samples = int(call.present.sum(-1).max())
        assert holds(shapes.rung(call), needed_rung(call, constants, samples=samples))


@given(fields=modes, step=st.integers(0, 30))
@settings(max_examples=40, deadline=None)
def test_a_plan_is_the_same_from_any_process_at_any_time(fields, step):
    batching, shape = BatchingConfig(**fields), UpdateShape(2, 2, 2)
    used = _planner(batching, shape)
    for earlier in range(5):
        used.plan(earlier)
    assert equal(used.plan(step).draws, _planner(batching, shape).plan(step).draws)


@pytest.mark.parametrize("fields", [{"max_tokens": BUDGET}, {"max_tokens": BUDGET, "packer": "in_order"}])
def test_no_row_exceeds_the_budget(fields):
    batching = BatchingConfig(mode="packed", **fields)
    planner, constants = _planner(batching, UpdateShape(2, 2, 4)), _constants(batching)
    for step in range(20):
        assert sample_tokens(planner.plan(step).draws, constants).sum(-1).max() <= BUDGET


def test_a_sample_over_the_budget_is_named_with_its_cost():
    batching = BatchingConfig(mode="packed", max_tokens=BUDGET - 1)
    with pytest.raises(InputError, match=r"data.batching.max_tokens = 359: sample ep13 alone costs 360 tokens"):
        check_budget(batching, LAW, INDEX.ids, _constants(batching))


@given(fields=modes, shape=shapes_of_updates, limit=st.integers(1, 4))
@settings(max_examples=12, deadline=None)
def test_expected_utilisation_is_that_of_the_first_calls(fields, shape, limit):
    batching = BatchingConfig(**fields, max_compiled_shapes=limit)
    planner, constants = _planner(batching, shape), _constants(batching)
    shapes = training_shapes(batching, planner, LAW, constants)
    plans = [planner.plan(step).draws for step in range(-(-256 // shape.accumulation))]
    calls = [plan[i] for plan in plans for i in range(len(plan.episode))]
    measured = [count_tokens(call, shapes.rung(call), constants) for call in calls]
    assert shapes.expected == functools.reduce(operator.add, measured)
    assert sum(shapes.calls) == len(calls)
    summary = shapes.summary()
    assert json.loads(json.dumps(summary)) == summary
    assert summary["expected_utilisation"]["all"] == shapes.expected.utilisation
    assert sum(rung["calls"] for rung in summary["rungs"]) == pytest.approx(1)


def test_more_shapes_waste_less_and_packing_wastes_least():
    def utilisation(mode: Literal["padded", "packed"], limit: int) -> float:
        batching = BatchingConfig(mode=mode, max_compiled_shapes=limit)
        planner = _planner(batching, UpdateShape(1, 2, 4))
        return training_shapes(batching, planner, LAW, _constants(batching)).expected.utilisation

    assert utilisation("padded", 1) < utilisation("padded", 4) < utilisation("packed", 4)
    assert utilisation("packed", 1) < utilisation("packed", 4)
