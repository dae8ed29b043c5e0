"""Rungs: everything fits, few shapes, and the cheapest choice there is."""

import itertools

import numpy as np
import pytest

from wam_jax.data.batching.rungs import choose_ladder, holds, sized, token_slots
from wam_jax.errors import InputError
from wam_jax.sequence.layout import RowConstants
from wam_jax.sequence.tiling import Alignment

CONSTANTS = RowConstants(video_tokens_per_frame=4, actions_per_frame=2, ranges=4, frame_axis=8, packed=True)


def _need(frames: int, *, text: int = 4):
    return sized(
        samples=2,
        video_slot_frames=frames,
        action_slot_frames=frames,
        video_frames=2 * frames,
        action_frames=2 * frames,
        text_keys=text,
        proprio_keys=0,
        alignment=Alignment(),
    )


TOP = _need(40, text=16)


def _slots(ladder, needs) -> int:
    return sum(token_slots(ladder.fit(need), CONSTANTS) for need in needs)


@pytest.mark.parametrize("limit", [1, 2, 3, 8])
def test_every_call_fits_and_the_shapes_are_few(limit):
    needs = [_need(int(f)) for f in np.random.default_rng(0).integers(2, 40, 50)]
    ladder = choose_ladder(needs, TOP, CONSTANTS, limit=limit)
    assert len(ladder.rungs) <= limit
    assert ladder.rungs[-1] == TOP
    assert all(holds(ladder.fit(need), need) for need in [*needs, TOP])


@pytest.mark.parametrize("limit", [2, 3, 4])
def test_no_other_choice_of_rungs_computes_fewer_slots(limit):
    frames = np.random.default_rng(limit).integers(2, 30, 9)
    needs = [_need(int(f)) for f in frames]
    found = _slots(choose_ladder(needs, TOP, CONSTANTS, limit=limit), needs)
    others = (
        sum(min(token_slots(_need(int(r)), CONSTANTS) for r in (*rungs, 40) if r >= f) for f in frames)
        for rungs in itertools.combinations(np.unique(frames), min(limit - 1, len(np.unique(frames))))
    )
    assert found == min(others)


def test_more_rungs_never_cost_more():
    needs = [_need(int(f)) for f in np.random.default_rng(3).integers(2, 40, 400)]
    costs = [_slots(choose_ladder(needs, TOP, CONSTANTS, limit=limit), needs) for limit in range(1, 7)]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < 0.75 * costs[0]


def test_sizes_that_do_not_grow_together_are_all_held():
    needs = [_need(3, text=9), _need(5, text=1)]
    ladder = choose_ladder(needs, TOP, CONSTANTS, limit=2)
    assert ladder.rungs[0].text_keys == 9
    assert ladder.rungs[0].video_frames == 10


def test_a_call_beyond_the_top_is_refused():
    with pytest.raises(InputError, match="the largest of this run"):
        choose_ladder([], TOP, CONSTANTS, limit=2).fit(_need(41))
