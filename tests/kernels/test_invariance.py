"""Bits: two runs agree, and a tile-aligned sample gets the same ones whatever else is in its row."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.kernels import masks
from tests.kernels.backends import backend
from tests.kernels.cases import Inputs, answer
from wam_kernels import build_tile_lists

TILE, HEADS, HEAD_DIM = 32, 2, 32
TOKENS = 12 * TILE
SAMPLE = masks.clean_and_noisy(4, 11, 1)[0]
"""88 tokens: not a multiple of the tile."""

PLACES = {
    "first": [None, 50, 70],
    "middle of 3": [64, None, 90],
    "last": [10, 33, None],
    "fourth of 9": [5, 32, 20, None, 31, 1, 2, 30, 9],
    "second of 2": [100, None],
}


def operands(tokens, seed):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((tokens, HEADS, HEAD_DIM)) for _ in range(4)]


def packed(others):
    """A row of samples at tile boundaries, ours where `others` has None: operands, ranges and where ours begins."""
    row = [np.zeros((1, TOKENS, HEADS, HEAD_DIM)) for _ in range(4)]
    ranges = np.zeros((1, TOKENS, 2, 2), np.int32)
    at = ours = 0
    for seed, length in enumerate(others):
        own = SAMPLE if length is None else masks.segments([length], length)[0]
        ours = at if length is None else ours
        here = slice(at, at + len(own))
        for whole, part in zip(row, operands(len(own), 0 if length is None else 1 + seed), strict=True):
            whole[0, here] = part
        ranges[0, here, : own.shape[1]] = own + at * (own[..., :1] < own[..., 1:])
        at += -(-len(own) // TILE) * TILE
    return row, ranges, ours


def results(name, dtype, others):
    """Output, lse, dq, dk and dv of our sample."""
    row, ranges, ours = packed(others)
    chosen = backend(name, (TILE, TILE))
    queries, keys = chosen.tile_sizes()[0]
    lists = build_tile_lists(ranges, TOKENS, query_tile=queries, key_tile=keys, capacity=(TOKENS // TILE) ** 2)
    given = Inputs(*(jnp.asarray(x, dtype) for x in row), jnp.zeros((1, HEADS, TOKENS), jnp.float32))
    out, lse, *grads = answer(given, ranges, None, (lists,), backend=chosen)
    here = slice(ours, ours + len(SAMPLE))
    return [np.asarray(lse[:, :, here]), *(np.asarray(x[:, here]) for x in (out, *grads))]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["xla", "pallas_triton"])
def test_a_sample_has_the_same_bits_alone_and_in_company(name, dtype):
    alone = results(name, dtype, [None])
    assert all(x.any() for x in alone)
    for place, others in PLACES.items():
        for got, expected in zip(results(name, dtype, others), alone, strict=True):
            np.testing.assert_array_equal(got, expected, err_msg=place)


def test_a_sample_off_the_boundary_shows_that_the_test_can_fail():
    row, ranges, _ = packed([None])
    shifted = [np.roll(x, 7, 1) for x in row]
    moved = np.roll(ranges + 7 * (ranges[..., :1] < ranges[..., 1:]), 7, 1).astype(np.int32)
    chosen = backend("xla", (TILE, TILE))

    def out(row, ranges):
        given = Inputs(*(jnp.asarray(x, jnp.float32) for x in row), jnp.zeros((1, HEADS, TOKENS), jnp.float32))
        return np.asarray(answer(given, ranges, None, None, backend=chosen)[0])

    aligned, off = out(row, ranges)[:, : len(SAMPLE)], out(shifted, moved)[:, 7 : 7 + len(SAMPLE)]
    np.testing.assert_allclose(off, aligned, atol=1e-6)
    assert (off != aligned).any()


@pytest.mark.parametrize("name", ["xla", "pallas_triton"])
def test_two_runs_give_the_same_bits(name):
    first, second = (results(name, "float32", PLACES["middle of 3"]) for _ in range(2))
    for got, expected in zip(first, second, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.slow
def test_mosaic_keeps_the_bits_too(monkeypatch):
    monkeypatch.setitem(globals(), "TILE", 64)
    alone = results("pallas_mosaic", "bfloat16", [None])
    for others in ([None], [60, None], [None, 64]):
        for got, expected in zip(results("pallas_mosaic", "bfloat16", others), alone, strict=True):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", ["xla", "pallas_triton"])
def test_garbage_outside_a_row_s_tiles_is_harmless(name):
    row, ranges, ours = packed(PLACES["middle of 3"])
    clean = results(name, "float32", PLACES["middle of 3"])
    start, stop = ours // TILE * TILE, -(-(ours + len(SAMPLE)) // TILE) * TILE
    for x in row:
        x[:, :start], x[:, stop:] = np.nan, np.nan
    given = Inputs(*(jnp.asarray(x, jnp.float32) for x in row), jnp.zeros((1, HEADS, TOKENS), jnp.float32))
    chosen = backend(name, (TILE, TILE))
    lists = build_tile_lists(ranges, TOKENS, query_tile=TILE, key_tile=TILE, capacity=(TOKENS // TILE) ** 2)
    out, lse, *grads = answer(given, ranges, None, (lists,), backend=chosen)
    here = slice(ours, ours + len(SAMPLE))
    for got, expected in zip([lse[:, :, here], *(x[:, here] for x in (out, *grads))], clean, strict=True):
        np.testing.assert_array_equal(got, expected)
