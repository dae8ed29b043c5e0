"""Pools of a rank's stream."""

import numpy as np
import pytest

from wam_jax.data.batching.pools import effective_pool, pool_bounds, sorted_pool


@pytest.mark.parametrize(
    ("size", "microbatch", "pool"), [(128, 8, 128), (130, 8, 128), (5, 8, 8), (1, 1, 1), (9, 2, 8)]
)
def test_pools_are_whole_microbatches(size, microbatch, pool):
    assert effective_pool(size, microbatch) == pool


def test_the_last_pool_of_an_epoch_may_be_shorter():
    assert [pool_bounds(start, 4, 10) for start in (0, 3, 4, 9)] == [(0, 4), (0, 4), (4, 8), (8, 10)]


def test_equal_lengths_keep_their_order_in_each_ranks_own_pool():
    order = sorted_pool(np.array([[3, 1], [2, 1], [3, 0]]))
    assert order.tolist() == [[1, 2], [0, 0], [2, 1]]
