"""Tile lists of rows: exactly the tiles that hold a visible pair, within a capacity that no row exceeds."""

import dataclasses

import jax
import numpy as np
import pytest

from tests.sequence.test_layout import TILES_OF_16, A, P, _constants, _rung, _samples
from wam_jax.errors import InputError
from wam_jax.sequence.layout import RowConstants, RowLayout, build_row
from wam_jax.sequence.row_tiles import RowTiles, list_tiles, token_ranges
from wam_jax.sequence.rung import Rung
from wam_jax.sequence.tiling import Target, Tiling, most_tiles
from wam_kernels import KeyRanges, TileLists

FREE = dataclasses.replace(TILES_OF_16, alignment=None)


def _row(seed: int, tiling: Tiling, *, packed: bool = True) -> tuple[RowLayout, Rung, RowConstants]:
    constants = _constants(packed=packed, tiling=tiling)
    samples = _samples(3, seed=seed)
    rung = _rung(samples, constants.alignment)
    return jax.tree.map(lambda array: array[None], build_row(samples, rung, constants)), rung, constants


def _seen(ranges: KeyRanges, keys: int) -> np.ndarray:
    bounds, key = ranges.run_ranges[0][ranges.run_of_query[0]], np.arange(keys)
    return ((key >= bounds[..., 0, None]) & (key < bounds[..., 1, None])).any(1)


def _tiles(seen: np.ndarray, size: tuple[int, int]) -> set[tuple[int, int]]:
    query, key = np.nonzero(seen)
    return set(zip((query // size[0]).tolist(), (key // size[1]).tolist(), strict=True))


def _listed(lists: TileLists) -> set[tuple[int, int]]:
    bounds = lists.by_query.bounds[0]
    return {(line, int(tile)) for line, (a, _, c) in enumerate(bounds) for tile in lists.by_query.across[0, a:c]}


@pytest.mark.parametrize("tiling", [FREE, TILES_OF_16])
@pytest.mark.parametrize("packed", [True, False])
def test_the_lists_are_the_tiles_with_a_visible_pair(tiling, packed):
    for seed in range(10):
        layout, rung, constants = _row(seed, tiling, packed=packed)
        tiles = list_tiles(layout, rung, constants)
        ranges = token_ranges(layout, video_tokens_per_frame=P, actions_per_frame=A)
        keys = rung.text_keys + rung.proprio_keys + rung.samples * constants.alignment.keys
        joint = _seen(ranges.joint, layout.key_valid.shape[1]) & layout.key_valid[0]
        for name, seen in (
            ("joint", joint),
            ("video_text", _seen(ranges.video_text, keys)),
            ("action_text", _seen(ranges.action_text, keys)),
        ):
            (lists,) = getattr(tiles, name)
            assert _listed(lists) == _tiles(seen, lists.size)


def test_lists_have_one_length_for_all_rows_of_a_rung():
    shapes = {
        str(jax.tree.map(np.shape, list_tiles(layout, rung, constants)))
        for layout, rung, constants in (_row(seed, FREE) for seed in range(5))
    }
    assert len(shapes) == 1


def test_no_tile_holds_two_aligned_samples():
    layout, rung, constants = _row(1, TILES_OF_16)
    owner = np.full(layout.key_valid.shape[1], -1)
    owner[: rung.video_frames * P] = np.repeat(layout.video_source[0] // (2 * rung.video_slot_frames), P)
    owner[rung.video_frames * P :] = np.repeat(layout.action_source[0] // (2 * rung.action_slot_frames), A)
    owner = owner.reshape(-1, 16)
    assert all(len(set(tile[tile >= 0])) <= 1 for tile in owner)
    (lists,) = list_tiles(layout, rung, constants).joint
    assert lists.size == (16, 16)
    tile_owner = owner.max(1)
    assert all(tile_owner[query] == tile_owner[key] for query, key in _listed(lists))


@pytest.mark.parametrize("size", [(16, 16), (16, 64), (128, 32)])
def test_no_partition_of_a_row_visits_more_tiles_than_the_most(size):
    """Samples that see all of themselves, in two stretches each, wherever they begin."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        lengths = rng.integers(1, 300, (rng.integers(1, 9), 2))
        order = np.concatenate([np.repeat(np.arange(len(lengths)), lengths[:, stream]) for stream in (0, 1)])
        visited = {pair for s in range(len(lengths)) for pair in _blocks(np.flatnonzero(order == s), size)}
        longest = int(lengths.sum(1).max())
        most = most_tiles(size, tokens=len(order), sample_tokens=longest, samples=len(lengths))
        assert len(visited) <= most


def _blocks(tokens: np.ndarray, size: tuple[int, int]) -> set[tuple[int, int]]:
    return {(int(q), int(k)) for q in np.unique(tokens // size[0]) for k in np.unique(tokens // size[1])}


def test_the_capacity_of_a_long_row_is_far_below_its_grid():
    tokens, sample = 200_000, 34_000
    assert most_tiles((128, 128), tokens=tokens, sample_tokens=sample, samples=6) < 0.2 * (tokens / 128) ** 2


def test_nothing_is_listed_where_the_dense_form_is_chosen_or_nobody_asks():
    layout, rung, constants = _row(0, dataclasses.replace(FREE, implementation="reference"))
    assert list_tiles(layout, rung, constants) == RowTiles()
    assert list_tiles(layout, rung, dataclasses.replace(constants, tiling=None)) == RowTiles()


def test_an_alignment_that_cuts_the_tiles_of_a_gpu_is_refused_with_the_one_that_does_not():
    tiling = Tiling(
        num_heads=8,
        head_dim=128,
        dtype="bfloat16",
        implementation="tiled",
        target=Target("gpu", (9, 0)),
        alignment=16,
    )
    with pytest.raises(InputError, match=r"tile_alignment = 16: .* on sm_90 .* use 128"):
        tiling.sizes(queries=4096, keys=4096, ranges=5)
    assert dataclasses.replace(tiling, alignment=128).sizes(queries=4096, keys=4096, ranges=5)
