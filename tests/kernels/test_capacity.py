"""Flat lists longer than a row needs, as loaders ship them, give the bits of lists of the exact length."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.kernels import masks
from tests.kernels.cases import Inputs, answer
from wam_kernels import TileList, Xla, build_tile_lists
from wam_kernels.launch import Launch, Launches
from wam_kernels.pallas_mosaic import PallasMosaic
from wam_kernels.pallas_triton import PallasTriton

QUERIES, KEYS, HEAD_DIM, FAR = 140, 150, 32, 1 << 20
SIZES = Launches(Launch(64, 64, 4, 2), Launch(128, 64, 4, 2), Launch(64, 128, 4, 2))
"""A size, and so a length, for each kernel."""

XLA, TRITON, MOSAIC = Xla(32, 64), PallasTriton(SIZES, interpret=True), PallasMosaic(SIZES, interpret=True)


def named(*backends):
    return pytest.mark.parametrize("chosen", backends, ids=lambda x: x.name)


def two_rows():
    """One row in which everything is seen, and one with little; the last queries of both see nothing."""
    ranges = np.zeros((2, QUERIES, 1, 2), np.int32)
    ranges[0, :130, 0, 1] = KEYS
    ranges[1] = masks.segments([30, 40], QUERIES)
    return ranges


def key_valid():
    return np.random.default_rng(0).random((2, KEYS)) < 0.95


def built(size, *, capacity=None, rows=slice(None)):
    return build_tile_lists(
        two_rows()[rows], KEYS, query_tile=size[0], key_tile=size[1], key_valid=key_valid()[rows], capacity=capacity
    )


def exact(chosen):
    return tuple(built(size) for size in chosen.tile_sizes())


def padded(chosen):
    """Lists of a capacity of their own for each size."""
    return tuple(
        built(lists.size, capacity=lists.by_query.across.shape[1] + 3 * i + 1) for i, lists in enumerate(exact(chosen))
    )


def results(chosen, tiles):
    """Output, lse, dq, dk and dv."""
    rng = np.random.default_rng(1)
    draw = lambda tokens: jnp.asarray(rng.standard_normal((2, tokens, 1, HEAD_DIM)), jnp.bfloat16)  # noqa: E731
    q, k, v, do = (draw(tokens) for tokens in (QUERIES, KEYS, KEYS, QUERIES))
    given = Inputs(q, k, v, do, jnp.zeros((2, 1, QUERIES), jnp.float32))
    return [np.asarray(x) for x in answer(given, two_rows(), key_valid(), tiles, backend=chosen)]


def poisoned(lists: TileList) -> TileList:
    """With a tile far outside in every place behind a row's last."""
    across = lists.across.copy()
    for row, bounds in zip(across, lists.bounds, strict=True):
        row[bounds[-1, 2] :] = FAR
    return lists._replace(across=across)


@named(XLA, TRITON, MOSAIC)
def test_padded_lists_give_the_bits_of_exact_ones(chosen):
    expected = results(chosen, exact(chosen))
    assert expected[0].any((1, 2, 3)).all()
    jax.tree.map(np.testing.assert_array_equal, results(chosen, padded(chosen)), expected)


@named(XLA, TRITON, pytest.param(MOSAIC, marks=pytest.mark.slow))
def test_nothing_behind_the_last_tile_of_a_row_is_read(chosen):
    tiles = padded(chosen)
    dirty = tuple(
        dataclasses.replace(lists, by_query=poisoned(lists.by_query), by_key=poisoned(lists.by_key)) for lists in tiles
    )
    assert all((lists.by_query.across == FAR).any(1).all() for lists in dirty)
    jax.tree.map(np.testing.assert_array_equal, results(chosen, dirty), results(chosen, tiles))


def test_a_loader_s_rows_one_by_one_are_the_rows_together():
    alone = (built((16, 16), capacity=99, rows=slice(row, row + 1)) for row in range(2))
    together = jax.tree.map(lambda *rows: np.concatenate(rows), *alone)
    jax.tree.map(np.testing.assert_array_equal, together, built((16, 16), capacity=99))
