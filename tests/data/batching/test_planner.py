"""Plans: every draw once, in the right update, dealt to ranks; the same from any process and any step."""

import numpy as np
import pytest

from tests.data.indexes import equal, make_index, make_law
from tests.support.runs import SEGMENTS_OF_3, tiny_config
from wam_jax.data.batching.planner import StreamPlanner, UpdateShape, draws_per_epoch, validation_draws
from wam_jax.data.batching.seating import Dealt
from wam_jax.data.drawing.draws import concatenate
from wam_jax.data.drawing.samplers import Replacement, ShuffledEpochs, Stretch
from wam_jax.errors import InputError
from wam_jax.keys import Phase

SHAPE = UpdateShape(accumulation=2, ranks=3, microbatch=2)
INDEX = make_index([4, 9, 17, 6, 3])
LAW = make_law(tiny_config(construction=SEGMENTS_OF_3), INDEX)


def planner(
    shape: UpdateShape = SHAPE, *, items: int = 29, drop_last: bool = True, sampler=ShuffledEpochs
) -> StreamPlanner:
    seating, per_epoch = Dealt(shape.ranks, shape.microbatch), draws_per_epoch(items, shape, drop_last=drop_last)
    return StreamPlanner(LAW, sampler(0, Phase.TRAIN, items), shape, per_epoch, seating)


def order(plans: StreamPlanner, steps: range) -> list[tuple[int, int]]:
    """(epoch, position) of the draws of some steps, in global order."""
    dealt = [plans.plan(step).draws.transpose(0, 2, 1).reshape(-1) for step in steps]
    draws = concatenate(dealt)
    return list(zip(draws.epoch.tolist(), draws.position.tolist(), strict=True))


def test_updates_are_consecutive_and_epochs_end_at_the_cut():
    assert order(planner(), range(5)) == [divmod(g, 24) for g in range(60)]


def test_an_epoch_holds_every_item_once_but_for_the_cut_tail():
    law, plans = LAW, planner(items=len(LAW.space))
    drawn = concatenate([plans.plan(s).draws.reshape(-1) for s in range(plans.draws_per_epoch // SHAPE.draws)])
    kept = plans.sampler.items(0, 0, plans.draws_per_epoch)
    wanted = law.draws(Stretch(0, 0, len(kept)), kept)
    found = set(zip(drawn.episode.tolist(), drawn.segment_start.tolist(), strict=True))
    assert len(found) == plans.draws_per_epoch == len(LAW.space) // SHAPE.draws * SHAPE.draws
    assert found == set(zip(wanted.episode.tolist(), wanted.segment_start.tolist(), strict=True))


def test_without_dropping_updates_run_on_across_epochs():
    plans = planner(items=18, drop_last=False)
    assert order(plans, range(4)) == [divmod(g, 18) for g in range(48)]


@pytest.mark.parametrize("sampler", [ShuffledEpochs, Replacement])
def test_a_plan_does_not_depend_on_what_was_planned_before(sampler):
    one = planner(sampler=sampler)
    plans = [one.plan(step).draws for step in range(9)]
    for step in (8, 0, 5, 5, 2):
        assert equal(planner(sampler=sampler).plan(step).draws, plans[step])
        assert equal(one.plan(step).draws, plans[step])


def test_draws_are_dealt_one_a_rank():
    draws = planner(UpdateShape(accumulation=2, ranks=2, microbatch=2)).plan(0).draws
    assert draws.position.tolist() == [[[0, 2], [1, 3]], [[4, 6], [5, 7]]]


@pytest.mark.parametrize(
    "shape", [UpdateShape(1, 12, 1), UpdateShape(4, 1, 3), UpdateShape(1, 2, 6), UpdateShape(12, 1, 1)]
)
def test_the_draws_of_an_update_do_not_depend_on_how_it_is_split(shape):
    def draws(plans: StreamPlanner) -> list[tuple[int, int, int]]:
        table = plans.plan(1).draws.reshape(-1)
        return sorted(zip(table.position.tolist(), table.episode.tolist(), table.window_size.tolist(), strict=True))

    assert draws(planner(shape)) == draws(planner())


@pytest.mark.parametrize(("items", "wanted"), [(12, 12), (23, 12), (24, 24), (100, 96)])
def test_the_tail_is_cut_to_whole_updates(items, wanted):
    assert draws_per_epoch(items, SHAPE, drop_last=True) == wanted


def test_too_few_draws_for_one_update():
    with pytest.raises(InputError, match=r"draws of an epoch = 11: one update takes 12 = .*size 2 x ranks 3 .*steps 2"):
        draws_per_epoch(11, SHAPE, drop_last=True)


def test_a_tail_that_may_not_be_cut():
    assert draws_per_epoch(18, SHAPE, drop_last=False) == 18
    with pytest.raises(InputError, match=r"drop_last_train = False: an epoch of 20 draws must be a multiple of 6"):
        draws_per_epoch(20, SHAPE, drop_last=False)


def test_validation_sweeps_the_items_and_keeps_its_last_batch():
    law = make_law(tiny_config(), INDEX, Phase.VALIDATION)
    draws = validation_draws(law, 7, ranks=2, microbatch=2)
    assert draws.shape == (2, 2, 2)
    assert draws.present.tolist() == [[[True, True], [True, True]], [[True, True], [True, False]]]
    flat = draws.transpose(0, 2, 1).reshape(-1)[:7]
    assert flat.episode.tolist() == [0, 0, 1, 2, 2, 3, 4]
    assert flat.position.tolist() == list(range(7))
    assert set(flat.phase.tolist()) == {Phase.VALIDATION}


def test_validation_is_the_same_on_any_number_of_ranks():
    law = make_law(tiny_config(), INDEX, Phase.VALIDATION)
    tables = [validation_draws(law, 6, ranks=ranks, microbatch=6 // ranks) for ranks in (1, 2, 3)]
    flat = [table.transpose(0, 2, 1).reshape(-1) for table in tables]
    assert all(np.array_equal(table.history_frames, flat[0].history_frames) for table in flat)
    assert all(equal(table, flat[0]) for table in flat)
