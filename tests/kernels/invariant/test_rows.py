"""Bits of rows: the same for every number of rows, at every place, beside any neighbours, in any batch."""

import numpy as np
import pytest

from tests.kernels.invariant.operators import (
    BACKENDS,
    DTYPES,
    INNER,
    OPERATORS,
    OUT,
    SHIPPED,
    cases,
    check_bits,
    operands,
    value_and_gradients,
)
from wam_kernels import invariant

MOST = 150
FAST = [("xla", SHIPPED, "addmm", "float32"), ("xla", SHIPPED, "layer_norm", "float32")]
FAST += [("xla", 0, "layer_norm", "bfloat16"), ("pallas_triton", SHIPPED, "layer_norm", "float32")]
BESIDE_NAN = [("xla", name, np.nan) for name in OPERATORS] + [("pallas_triton", "addmm", np.nan)]


def rows_of(name, dtype, backend, rows, *, around=None, level=SHIPPED):
    """Result and row gradient of the rows in the slice, by themselves or among `around` (a value) where given."""
    operator = OPERATORS[name]
    x, upstream, shared = operands(operator, MOST, dtype)
    run = lambda x: operator.run(x, *shared, implementation=BACKENDS[backend])  # noqa: E731
    if around is None:
        return value_and_gradients(run, upstream[rows], x[rows], level=level)
    others = np.ones(MOST, bool)
    others[rows] = False
    x[others], upstream[others] = around, around
    return [found[rows] for found in value_and_gradients(run, upstream, x, level=level)]


def check_rows(got, expected, what):
    for one, other in zip(got, expected, strict=True):
        check_bits(one, other, what)


def check_counts(backend, level, name, dtype, counts):
    rng = np.random.default_rng(0)
    whole = rows_of(name, dtype, backend, slice(None), level=level)
    for count in counts:
        start = int(rng.integers(MOST - count + 1))
        rows = slice(start, start + count)
        few = rows_of(name, dtype, backend, rows, level=level)
        check_rows(few, [found[rows] for found in whole], f"{count} rows from {start}")


@pytest.mark.parametrize(("backend", "level", "name", "dtype"), FAST)
def test_any_number_of_rows_at_any_place(backend, level, name, dtype):
    check_counts(backend, level, name, dtype, (1, 33) if backend == "xla" else (1,))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_many_numbers_of_rows(level, name, dtype):
    counts = np.random.default_rng(level).integers(1, MOST + 1, 8)
    check_counts("xla", level, name, dtype, [1, 32, *map(int, counts)])


# The interpreter runs a grid of one block as straight code, which level 0 compiles differently (docs/invariance.md).
@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize(("level", "counts"), [(0, (33, 64, 100, 129)), (3, (1, 32, 33, 100))])
def test_many_numbers_of_rows_in_the_interpreter(level, counts, name, dtype):
    check_counts("pallas_triton", level, name, dtype, counts)


@pytest.mark.parametrize(
    ("backend", "name", "around"), cases(BESIDE_NAN, BACKENDS, OPERATORS, (np.nan, np.inf, np.float32(1e30)))
)
def test_any_neighbours(backend, name, around):
    rows = slice(40, 77)
    own = rows_of(name, "float32", backend, rows, around=0, level=0)
    check_rows(rows_of(name, "float32", backend, rows, around=around, level=0), own, f"beside {around}")


@pytest.mark.parametrize(("backend", "dtype", "level"), cases([("xla", "float32", 0)], BACKENDS, DTYPES, (0, SHIPPED)))
def test_any_members_of_a_batch(backend, dtype, level):
    rng = np.random.default_rng(0)
    shapes = (4, 40, OUT), (4, 40, INNER), (4, INNER, OUT)
    upstream, a, b = (rng.standard_normal(shape, np.float32).astype(dtype) for shape in shapes)
    run = lambda a, b: invariant.bmm(a, b, implementation=BACKENDS[backend])  # noqa: E731

    def members(*which):
        return value_and_gradients(run, *(x[list(which)] for x in (upstream, a, b)), level=level)

    alone = members(2)
    for which in ((0, 1, 2, 3), (2, 0)):
        check_rows([found[which.index(2)][None] for found in members(*which)], alone, f"members {which}")


def test_no_rows():
    x, upstream, shared = operands(OPERATORS["addmm"], 0, "float32")
    out, of_x, of_b, of_bias = value_and_gradients(OPERATORS["addmm"].run, upstream, x, *shared)
    assert out.shape == (0, OUT)
    assert of_x.shape == (0, INNER)
    assert not of_b.any()
    assert not of_bias.any()
