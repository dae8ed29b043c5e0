"""Figures of a difference, by hand; sizes and values that are not there or not numbers."""

import math

import ml_dtypes
import numpy as np
import pytest

from wam_jax.tracing.differences import Difference, difference, differences, differing_bits, first_diverged
from wam_jax.tracing.samples import Part


def _difference(found, reference, *, gate: float = 0.1) -> Difference:
    arrays = (np.asarray(values, np.float32) for values in (found, reference))
    return difference(*(Part("x", "video", array) for array in arrays), gate=gate)


def test_the_figures():
    found = _difference([[3, 4], [0, 2], [1, 1]], [[3, 4], [0, 1], [1, 1]])
    assert (found.max_abs, found.mean_abs, found.differing) == (1, 1 / 6, 1)
    assert found.rmse == pytest.approx(math.sqrt(1 / 6))
    assert found.relative_l2 == pytest.approx(1 / math.sqrt(9 + 16 + 1 + 1 + 1))
    assert (found.relative_l2_max, found.worst_position) == (1, 1)
    assert found.relative_l2_mean == pytest.approx(1 / 3)
    assert (found.magnitude, found.shape, found.verdict) == (4, (3, 2), "diverged")


@pytest.mark.parametrize(
    ("values", "gate", "verdict"),
    [([1.0], 0.0, "exact"), ([1.5], 0.5, "within gate"), ([1.5], 0.49, "diverged")],
)
def test_the_verdict(values, gate, verdict):
    assert _difference([values], [[1.0]], gate=gate).verdict == verdict


@pytest.mark.parametrize("shape", [(0, 4), (0,), (0, 2, 3), (2, 0)])
def test_a_sample_without_positions_is_the_same(shape):
    found = _difference(np.zeros(shape), np.zeros(shape))
    assert (found.verdict, found.max_abs, found.relative_l2_max) == ("exact", 0, 0)


def test_nan_is_nan_where_both_have_it():
    found = _difference([[math.nan, 1.0]], [[math.nan, 1.0]])
    assert (found.verdict, found.max_abs) == ("exact", 0)
    beside = _difference([[math.nan, 1.01]], [[math.nan, 1.0]])
    assert (beside.verdict, beside.magnitude) == ("within gate", 1)
    assert beside.relative_l2 == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_what_is_not_finite_on_one_side_is_infinitely_far(wrong):
    assert _difference([[wrong]], [[1.0]]).relative_l2 == math.inf
    assert _difference([[1.0]], [[wrong]]).verdict == "diverged"


def test_another_size_is_infinitely_far_and_shown():
    found = _difference(np.zeros((2, 3)), np.zeros((3, 3)))
    assert (found.shape, found.max_abs, found.verdict) == ((2, 3), math.inf, "diverged")


def test_bits():
    ours = np.array([0.0, 1.0, 1.0], np.float32)
    theirs = np.array([-0.0, 1.0, np.nextafter(np.float32(1), np.float32(2))], np.float32)
    assert differing_bits(ours, theirs).tolist() == [1, 0, 1]
    assert differing_bits(np.array(2.0), np.array(2.0)) == 0
    half = np.array([1.0, 2.0, 3.0], ml_dtypes.bfloat16)
    assert differing_bits(np.array([1.0, 2.0, 3.5], np.float32), half).tolist() == [0, 0, 32]


def test_the_first_beyond_its_gate_is_named():
    rows = ((1, 1.1, 2), (1, 1, 1))
    parts = [[Part(name, "video", np.array([[n]])) for name, n in zip("abc", row, strict=True)] for row in rows]
    found = differences(parts[0], parts[1], gates=[0, 0.2, 0.2])
    assert [item.verdict for item in found] == ["exact", "within gate", "diverged"]
    first = first_diverged(found)
    assert first is not None
    assert first.name == "c"
    with pytest.raises(ValueError, match="same tensors"):
        differences(parts[0], parts[1][:2], gates=[0, 0])
