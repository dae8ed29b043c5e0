"""Bits of weight gradients: a sample that owns its tiles has the same alone and in company, at every place."""

import numpy as np
import pytest

from tests.kernels.invariant.operators import (
    BACKENDS,
    DTYPES,
    OPERATORS,
    SHIPPED,
    cases,
    check_bits,
    operands,
    value_and_gradients,
)

TILE = 64
"""A multiple of the tile of every backend here."""
LENGTH = 150
PLACES = {"first of 2": (0, 4), "last of 3": (7, 10), "middle": (2, 8)}
"""Where our sample's three tiles begin, and the tiles in all."""


def weights_gradient(backend, name, dtype, start, tiles, *, around=0.0, level=SHIPPED):
    """Gradients of what the rows share, of a result whose upstream gradient is zero outside our sample."""
    operator = OPERATORS[name]
    own, own_upstream, shared = operands(operator, LENGTH, dtype)
    x, upstream, _ = operands(operator, tiles * TILE, dtype, seed=1)
    here = slice(start * TILE, start * TILE + LENGTH)
    x[:] = x * around
    x[here], upstream[:] = own, 0
    upstream[here] = own_upstream
    run = lambda x, *shared: operator.run(x, *shared, implementation=BACKENDS[backend])  # noqa: E731
    return value_and_gradients(run, upstream, x, *shared, level=level)[2:]


def check_places(backend, name, dtype, places, around, level=SHIPPED):
    alone = weights_gradient(backend, name, dtype, 0, 3, level=level)
    for place in places:
        found = weights_gradient(backend, name, dtype, *PLACES[place], around=around, level=level)
        for got, expected in zip(found, alone, strict=True):
            check_bits(got, expected, place)


FAST = [("xla", "addmm", "float32", SHIPPED), ("xla", "layer_norm", "bfloat16", SHIPPED)]
FAST += [("pallas_triton", "addmm", "float32", 0)]


@pytest.mark.parametrize(("backend", "name", "dtype", "level"), FAST)
def test_a_sample_has_one_gradient_of_the_weights(backend, name, dtype, level):
    check_places(backend, name, dtype, ["middle"], 1.0, level=level)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, SHIPPED])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["addmm", "layer_norm", "rms_norm"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_at_every_place(backend, name, dtype, level):
    check_places(backend, name, dtype, PLACES, 1.0, level=level)


@pytest.mark.parametrize(
    ("backend", "name", "around"),
    cases(
        [("xla", "addmm", np.nan), ("xla", "layer_norm", np.nan)], BACKENDS, ["addmm", "layer_norm"], [np.nan, np.inf]
    ),
)
def test_what_others_hold_does_not_reach_the_weights(backend, name, around):
    check_places(backend, name, "float32", ["middle"], around, level=0)


def test_a_row_off_the_tile_shows_that_the_test_can_fail():
    operator = OPERATORS["addmm"]
    own, own_upstream, shared = operands(operator, LENGTH, "float32")

    def gradient(start):
        x, upstream = (np.zeros((256, part.shape[1]), np.float32) for part in (own, own_upstream))
        x[start : start + LENGTH], upstream[start : start + LENGTH] = own, own_upstream
        run = lambda b: operator.run(x, b, shared[1], implementation=BACKENDS["xla"])  # noqa: E731
        return value_and_gradients(run, upstream, shared[0], level=SHIPPED)[1]

    np.testing.assert_allclose(gradient(7), gradient(0), atol=1e-4)
    assert (gradient(7) != gradient(0)).any()
