"""Bits: two runs agree, and a tile-aligned sample gets the same ones whatever else is in its row."""

import itertools
import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from tests.kernels import masks
from tests.kernels.backends import backend
from tests.kernels.cases import Inputs, answer
from wam_kernels import Problem, Xla, build_tile_lists
from wam_kernels.backend import Backend
from wam_kernels.pallas_mosaic import PallasMosaic
from wam_kernels.pallas_triton import PallasTriton
from wam_kernels.target import Target

HOPPER = Target("gpu", (9, 0))
PLACES = {
    "first": [None, 50, 70],
    "middle of 3": [64, None, 90],
    "last": [10, 33, None],
    "fourth of 9": [5, 32, 20, None, 31, 1, 2, 30, 9],
    "second of 2": [100, None],
}
"""Lengths of the samples of a row; None is ours."""
ONE_SHAPE = 12
"""Tiles a row that hold every place of ours, so that one compilation serves them all."""


class Rig(NamedTuple):
    """A backend with its tile sizes settled, and the rows that it is given.

    Attributes:
        backend: the backend.
        least: tiles a row at least.
        heads: heads.
        head_dim: size of a head.
    """

    backend: Backend
    least: int = 0
    heads: int = 2
    head_dim: int = 32

    @property
    def tile(self) -> int:
        """Samples start at its multiples, which are multiples of every tile size."""
        return math.lcm(*itertools.chain.from_iterable(self.backend.tile_sizes()))

    def sample(self) -> np.ndarray:
        """The ranges of our sample: 2.75 tiles, clean and noisy."""
        return masks.clean_and_noisy(4, 11 * self.tile // 32, 1)[0]


RIGS = {
    "xla": Rig(backend("xla", (32, 32)), ONE_SHAPE),
    "pallas_triton": Rig(backend("pallas_triton", (32, 32)), ONE_SHAPE),
    "pallas_mosaic": Rig(backend("pallas_mosaic", (64, 64)), heads=1),
}
FAST = [(name, dtype) for name in ("xla", "pallas_triton") for dtype in ("float32", "bfloat16")]
MOSAIC = ("pallas_mosaic", "bfloat16")


def named_by(chosen: Backend) -> Rig:
    """With the tile sizes that the backend names itself for Hopper, in rows no longer than their samples."""
    problem = Problem(1, 4096, 4096, 1, 128, jnp.dtype(jnp.bfloat16), 2)
    return Rig(chosen.resolve(problem, HOPPER, ()), heads=1, head_dim=128)


def packed(rig, others):
    """A row of samples at tile boundaries, ours where `others` has None: operands, ranges and where ours lies."""
    parts = [rig.sample() if length is None else masks.segments([length], length)[0] for length in others]
    starts = np.cumsum([0, *(-(-len(part) // rig.tile) * rig.tile for part in parts)])
    tokens = max(starts[-1], rig.least * rig.tile)
    row = [np.zeros((1, tokens, rig.heads, rig.head_dim)) for _ in range(4)]
    ranges = np.zeros((1, tokens, 2, 2), np.int32)
    for seed, (start, own) in enumerate(zip(starts, parts, strict=False)):
        here = slice(start, start + len(own))
        rng = np.random.default_rng(0 if others[seed] is None else 1 + seed)
        for whole in row:
            whole[0, here] = rng.standard_normal((len(own), rig.heads, rig.head_dim))
        ranges[0, here, : own.shape[1]] = own + start * (own[..., :1] < own[..., 1:])
    ours = starts[others.index(None)]
    return row, ranges, slice(ours, ours + len(rig.sample()))


def results(rig, dtype, others, *, elsewhere=None):
    """Output, lse, dq, dk and dv of our sample. `elsewhere` replaces every operand outside our sample's tiles."""
    row, ranges, here = packed(rig, others)
    tokens = ranges.shape[1]
    if elsewhere is not None:
        for x in row:
            x[:, : here.start], x[:, -(-here.stop // rig.tile) * rig.tile :] = elsewhere, elsewhere
    lists = tuple(
        build_tile_lists(
            ranges, tokens, query_tile=queries, key_tile=keys, capacity=-(-tokens // queries) * -(-tokens // keys)
        )
        for queries, keys in rig.backend.tile_sizes()
    )
    given = Inputs(*(jnp.asarray(x, dtype) for x in row), jnp.zeros((1, rig.heads, tokens), jnp.float32))
    out, lse, *grads = answer(given, ranges, None, lists, backend=rig.backend)
    return [np.asarray(lse[:, :, here]), *(np.asarray(x[:, here]) for x in (out, *grads))]


def check_same(got, expected, place):
    assert all(x.any() and np.isfinite(x.astype(np.float32)).all() for x in expected)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=place)


def check_places(rig, dtype, places):
    alone = results(rig, dtype, [None])
    for place in places:
        check_same(results(rig, dtype, PLACES[place]), alone, place)


@pytest.mark.parametrize(("name", "dtype"), FAST)
def test_a_sample_has_the_same_bits_alone_and_in_company(name, dtype):
    check_places(RIGS[name], dtype, PLACES)


def test_mosaic_gives_a_sample_the_same_bits_alone_and_after_another():
    check_places(RIGS["pallas_mosaic"], "bfloat16", ["second of 2"])


@pytest.mark.slow
def test_mosaic_gives_a_sample_the_same_bits_at_every_place():
    check_places(RIGS["pallas_mosaic"], "bfloat16", PLACES)


@pytest.mark.slow
@pytest.mark.parametrize(
    "chosen", [Xla(), PallasTriton(interpret=True), PallasMosaic(interpret=True)], ids=lambda x: x.name
)
def test_a_sample_has_the_same_bits_with_the_tile_sizes_that_a_backend_names(chosen):
    check_places(named_by(chosen), "bfloat16", PLACES)


def test_a_sample_off_the_boundary_shows_that_the_test_can_fail():
    rig = RIGS["xla"]
    row, ranges, here = packed(rig, [None])
    shifted = [np.roll(x, 7, 1) for x in row]
    moved = np.roll(ranges + 7 * (ranges[..., :1] < ranges[..., 1:]), 7, 1).astype(np.int32)

    def out(row, ranges):
        dlse = jnp.zeros((1, rig.heads, ranges.shape[1]), jnp.float32)
        given = Inputs(*(jnp.asarray(x, jnp.float32) for x in row), dlse)
        return np.asarray(answer(given, ranges, None, None, backend=rig.backend)[0])

    aligned, off = out(row, ranges)[:, here], out(shifted, moved)[:, 7 : 7 + here.stop]
    np.testing.assert_allclose(off, aligned, atol=1e-6)
    assert (off != aligned).any()


@pytest.mark.parametrize(("name", "dtype"), [*FAST[::2], pytest.param(*MOSAIC, marks=pytest.mark.slow)])
def test_two_runs_give_the_same_bits(name, dtype):
    first, second = (results(RIGS[name], dtype, PLACES["middle of 3"]) for _ in range(2))
    check_same(first, second, "second run")


@pytest.mark.parametrize(("name", "dtype"), [*FAST[::2], pytest.param(*MOSAIC, marks=pytest.mark.slow)])
def test_garbage_outside_a_row_s_tiles_is_harmless(name, dtype):
    place = PLACES["middle of 3"]
    dirty, clean = (results(RIGS[name], dtype, place, elsewhere=x) for x in (np.nan, None))
    check_same(dirty, clean, "beside NaN")
