"""Moments gathered in parts are those of the whole."""

from functools import reduce

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from wam_jax.data.storage.statistics import Moments


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_merging_is_the_same_as_gathering_at_once(sizes, seed):
    rng = np.random.default_rng(seed)
    parts = [(rng.normal(100, 1, (size, 2)), rng.integers(0, 2, (size, 2))) for size in sizes]
    merged = reduce(Moments.merge, [Moments.of(*part) for part in parts]).summary()
    whole = Moments.of(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True))).summary()
    assert merged.count == whole.count
    for name in ("mean", "std", "min", "max"):
        np.testing.assert_allclose(getattr(merged, name), getattr(whole, name), rtol=1e-9, atol=1e-9)


def test_masked_entries_do_not_count():
    found = Moments.of(np.array([[1.0, 5.0], [3.0, 7.0]]), np.array([[1, 0], [1, 0]])).summary()
    assert found.count == (2, 0)
    assert found.mean == (2.0, 0.0)
    assert found.std == (1.0, 0.0)
    assert (found.min, found.max) == ((1.0, 0.0), (3.0, 0.0))
