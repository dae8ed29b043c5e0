"""Packing: nothing lost, nothing over, and as dense as the packer promises."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wam_jax.data.batching.packing import even_packs, pack

PACKERS = ("in_order", "first_fit", "best_fit")
costs_lists = st.lists(st.integers(1, 50), max_size=60)


@pytest.mark.parametrize("packer", PACKERS)
@given(costs=costs_lists, slack=st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_every_sample_is_in_one_pack_and_no_pack_is_over(packer, costs, slack):
    costs = np.array(costs, np.int64)
    capacity = int(costs.max(initial=1)) + slack
    packs = pack(costs, capacity, packer)
    np.testing.assert_array_equal(np.sort(np.concatenate([*packs, []])), np.arange(len(costs)))
    assert all(costs[p].sum() <= capacity and len(p) and (np.diff(p) > 0).all() for p in packs)


@given(costs=costs_lists)
@settings(max_examples=60, deadline=None)
def test_in_order_keeps_the_order_with_the_fewest_groups(costs):
    costs = np.array(costs, np.int64)
    packs = pack(costs, 50, "in_order")
    np.testing.assert_array_equal(np.concatenate([*packs, []]), np.arange(len(costs)))
    for earlier, later in itertools.pairwise(packs):
        assert costs[earlier].sum() + costs[later[0]] > 50


def test_the_published_example():
    assert [p.tolist() for p in pack(np.array([2, 3, 1, 4, 2]), 5, "in_order")] == [[0, 1], [2, 3], [4]]


def _open_rooms(costs: np.ndarray, capacity: int, choose) -> list[int]:
    """Loads of the packs of a plain restatement of the fitting packers, in the order the packs were opened."""
    loads: list[int] = []
    for sample in np.argsort(-costs, kind="stable"):
        fitting = [i for i, load in enumerate(loads) if load + costs[sample] <= capacity]
        if fitting:
            loads[choose(fitting, loads)] += int(costs[sample])
        else:
            loads.append(int(costs[sample]))
    return loads


@pytest.mark.parametrize(
    ("packer", "choose"),
    [
        ("first_fit", lambda fitting, loads: min(fitting, key=lambda i: (i, loads[i]))),
        ("best_fit", lambda fitting, loads: max(fitting, key=lambda i: loads[i])),
    ],
)
def test_fitting_packers_equal_their_plain_restatement(packer, choose):
    for seed in range(30):
        costs = np.random.default_rng(seed).integers(1, 40, 50)
        found = [int(costs[p].sum()) for p in pack(costs, 60, packer)]
        assert sorted(found) == sorted(_open_rooms(costs, 60, choose))


def test_best_fit_is_denser_than_in_order():
    lengths = np.random.default_rng(0).lognormal(6.5, 0.8, 256).clip(64, 4096).astype(int)
    assert len(pack(lengths, 4096, "best_fit")) < len(pack(lengths, 4096, "in_order"))


@pytest.mark.parametrize("packer", PACKERS)
def test_a_sample_over_the_capacity_is_named(packer):
    with pytest.raises(ValueError, match="sample 1 costs 9, more than the capacity of 8"):
        pack(np.array([3, 9, 2]), 8, packer)


@pytest.mark.parametrize("packer", PACKERS)
@given(costs=costs_lists, slack=st.integers(0, 200), more=st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_even_packs_keep_every_promise_of_packing_and_none_is_fuller(packer, costs, slack, more):
    costs = np.array(costs, np.int64)
    capacity = int(costs.max(initial=1)) + slack
    plain = pack(costs, capacity, packer)
    even = even_packs(costs, capacity, packer, count=len(plain) + more)
    np.testing.assert_array_equal(np.sort(np.concatenate([*even, []])), np.arange(len(costs)))
    assert len(even) <= len(plain) + more
    assert all((np.diff(p) > 0).all() for p in even)
    assert _fullest(costs, even) <= _fullest(costs, plain)


def _fullest(costs: np.ndarray, packs: list[np.ndarray]) -> int:
    return max((int(costs[p].sum()) for p in packs), default=0)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_in_order_is_as_even_as_contiguous_groups_can_be(count):
    """To a hundredth of the mean load, against every way to cut nine samples."""
    for seed in range(20):
        costs = np.random.default_rng(seed).integers(100, 1000, 9)
        cuts = itertools.combinations(range(1, 9), count - 1)
        best = min(_fullest(costs, np.split(np.arange(9), list(cut))) for cut in cuts)
        found = even_packs(costs, int(costs.sum()), "in_order", count=count)
        assert best <= _fullest(costs, found) <= best + costs.sum() / count / 100


def test_room_that_is_left_over_is_spread():
    costs = np.random.default_rng(0).integers(10, 60, 64)
    packs = even_packs(costs, 1000, "best_fit", count=16)
    assert len(packs) == 16
    assert _fullest(costs, packs) < 1.1 * costs.sum() / 16 < 1000
