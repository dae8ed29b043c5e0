"""Every backend passes the one table of cases, forward and backward, against float64."""

import pytest

from tests.kernels.backends import backend
from tests.kernels.cases import CASES, errors

LIGHT = [case for case in CASES if case.light]
HEAVY = [case for case in CASES if not case.light]


def _named(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


def check(case, dtype, name, **settings):
    judged = errors(case, dtype, backend(name, case.tile, **settings))
    assert max(judged.values()) <= 1, judged


@_named(CASES)
@pytest.mark.parametrize("name", ["reference", "xla", "pallas_triton"])
def test_float32(name, case):
    check(case, "float32", name)


@_named(LIGHT)
@pytest.mark.parametrize("name", ["reference", "xla", "pallas_triton"])
def test_bfloat16(name, case):
    check(case, "bfloat16", name)


@pytest.mark.slow
@_named(HEAVY)
@pytest.mark.parametrize("name", ["reference", "xla", "pallas_triton"])
def test_bfloat16_in_full(name, case):
    check(case, "bfloat16", name)


@_named(LIGHT[:1])
def test_mosaic(case):
    check(case, "bfloat16", "pallas_mosaic")


@pytest.mark.slow
@_named(CASES[1:])
def test_mosaic_in_full(case):
    check(case, "bfloat16", "pallas_mosaic")


@pytest.mark.slow
@_named(LIGHT)
def test_mosaic_has_no_race(case):
    check(case, "bfloat16", "pallas_mosaic", detect_races=True)
