"""Dealing: every draw has one seat, rows keep their size, and balanced rows are even."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from wam_jax.data.batching.dealing import balanced, deal_packs, in_order


@given(ranks=st.integers(1, 5), microbatch=st.integers(1, 5), calls=st.integers(1, 3), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_every_draw_has_one_seat(ranks, microbatch, calls, seed):
    costs = np.random.default_rng(seed).integers(1, 100, ranks * microbatch * calls)
    for seats in (
        balanced(costs, ranks=ranks, microbatch=microbatch),
        in_order(len(costs), ranks=ranks, microbatch=microbatch),
    ):
        assert seats.shape == (calls, ranks, microbatch)
        np.testing.assert_array_equal(np.sort(seats.ravel()), np.arange(len(costs)))


def test_cards_are_dealt_one_a_rank():
    assert in_order(8, ranks=2, microbatch=2).tolist() == [[[0, 2], [1, 3]], [[4, 6], [5, 7]]]


def test_balanced_rows_are_far_more_even_than_dealt_ones():
    lengths = np.random.default_rng(0).lognormal(3, 0.8, 64 * 8).clip(2, 90).astype(np.int64)
    utilisation = []
    for seats in (in_order(len(lengths), ranks=64, microbatch=8), balanced(lengths, ranks=64, microbatch=8)):
        loads = lengths[seats].sum(-1)
        utilisation.append(loads.mean() / loads.max())
    assert utilisation[1] > 0.95 > 0.8 > utilisation[0]


def test_calls_hold_rows_of_like_load():
    costs = np.random.default_rng(1).integers(1, 100, 4 * 4 * 2)
    loads = costs[balanced(costs, ranks=4, microbatch=2)].sum(-1)
    assert (loads[:-1].min(1) >= loads[1:].max(1)).all()


def test_samples_of_a_row_keep_the_order_of_the_stream():
    seats = balanced(np.array([5, 1, 4, 2, 3, 6]), ranks=1, microbatch=3)
    assert (np.diff(seats, axis=-1) > 0).all()


def test_packs_fill_calls_and_leave_only_the_last_short():
    packs = [np.array([i]) for i in range(5)]
    calls = deal_packs(packs, np.array([1, 5, 3, 2, 4]), ranks=2)
    assert [[p.tolist() for p in call] for call in calls] == [[[1], [4]], [[2], [3]], [[0], []]]
