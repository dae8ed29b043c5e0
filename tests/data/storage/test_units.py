"""Frames in the other units."""

import numpy as np
import pytest

from wam_jax.data.storage.fields import GROWING_AXES
from wam_jax.data.storage.units import Units

UNITS = Units(actions_per_frame=3, temporal_stride=4)


@pytest.mark.parametrize(
    ("unit", "extent", "rows"),
    [
        ("frame", 5, slice(1, 4)),
        ("slot", 15, slice(3, 12)),
        ("observation", 17, slice(4, 13)),
        ("chunk", None, slice(None)),
        ("token", None, slice(None)),
    ],
)
def test_units(unit, extent, rows):
    assert UNITS.extent(unit, 5) == extent
    assert UNITS.rows(unit, 1, 4) == rows


@pytest.mark.parametrize("unit", ["frame", "slot", "observation"])
def test_a_cut_has_the_extent_of_its_frames(unit):
    rows = range(100)[UNITS.rows(unit, 2, 7)]
    assert len(rows) == UNITS.extent(unit, 5)
    assert rows.stop == UNITS.extent(unit, 7)


def test_every_growing_axis_is_known():
    known = {"frame", "slot", "observation", "chunk", "token"}
    assert set(GROWING_AXES) == known


def test_extents_work_on_columns():
    np.testing.assert_array_equal(UNITS.extent("observation", np.array([2, 3])), [5, 9])
