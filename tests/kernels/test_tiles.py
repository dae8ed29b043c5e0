"""Tile lists: what they hold, that host and traced lists agree, that they refuse bad input, and that they are quick."""

import jax
import numpy as np
import pytest

from tests.kernels import masks, oracle
from wam_kernels import KeyRanges, TileList, build_tile_lists, trace_tile_lists
from wam_kernels.workloads import NAMES, SEGMENT_LENGTHS, workload

SIZES = [(1, 1), (8, 8), (16, 4), (4, 30), (128, 64)]
MANY_TOKENS = 70_000
"""Squared, more than 32 bits hold."""


def random_mask(seed):
    rng = np.random.default_rng(seed)
    queries, keys = (int(n) for n in rng.integers(12, 90, 2))
    ranges = masks.random_ranges(rng, 2, queries, keys, int(rng.integers(1, 6)))
    return ranges, rng.random((2, keys)) < rng.choice([1.0, 0.9])


def kinds(ranges, valid, size):
    """`bool[rows, lines, columns]`: active and full tiles, from the matrix itself."""
    rows, queries, keys = len(ranges), ranges.shape[1], valid.shape[1]
    lines, columns = -(-queries // size[0]), -(-keys // size[1])
    seen = np.zeros((rows, lines * size[0], columns * size[1]), bool)
    seen[:, :queries, :keys] = oracle.visible(ranges, keys, None)
    pairs = seen.reshape(rows, lines, size[0], columns, size[1]).sum((2, 4))
    bits = np.pad(valid, ((0, 0), (0, columns * size[1] - keys))).reshape(rows, 1, columns, size[1])
    return (pairs > 0) & bits.any(-1), (pairs == size[0] * size[1]) & bits.all(-1)


def check_lists(lists: TileList, active, full):
    for row, line in np.ndindex(active.shape[:2]):
        start, middle, end = lists.bounds[row, line]
        partial = np.flatnonzero(active[row, line] & ~full[row, line])
        np.testing.assert_array_equal(lists.across[row, start:middle], partial)
        np.testing.assert_array_equal(lists.across[row, middle:end], np.flatnonzero(full[row, line]))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(8))
def test_lists_hold_the_active_tiles_partial_then_full(seed, size):
    ranges, valid = random_mask(seed)
    lists = build_tile_lists(ranges, valid.shape[1], query_tile=size[0], key_tile=size[1], key_valid=valid)
    active, full = kinds(ranges, valid, size)
    check_lists(lists.by_query, active, full)
    check_lists(lists.by_key, active.swapaxes(1, 2), full.swapaxes(1, 2))


def test_the_drawing_of_the_docstring():
    lists = build_tile_lists(masks.segments([2, 3, 2], 8), 8, query_tile=2, key_tile=2).by_query
    lines = [lists.across[0, start:end].tolist() for start, _, end in lists.bounds[0]]
    assert lines == [[0], [2, 1], [1, 2, 3], [2, 3]]
    assert (lists.bounds[0, :, 1] - lists.bounds[0, :, 0]).tolist() == [0, 1, 3, 2]


def test_runs_give_the_lists_of_their_dense_form():
    run_ranges = np.array([[[[0, 9], [12, 30]], [[0, 0], [4, 11]]]], np.int32)
    run = np.repeat([[0, -1, 1, 0]], 10, axis=1).astype(np.int32)
    dense = np.where((run >= 0)[..., None, None], run_ranges[0][run], 0).astype(np.int32)
    from_runs, from_dense = (
        build_tile_lists(form, 32, query_tile=8, key_tile=4) for form in (KeyRanges(run_ranges, run), dense)
    )
    jax.tree.map(np.testing.assert_array_equal, from_runs, from_dense)


@pytest.mark.parametrize("seed", range(4))
def test_traced_lists_equal_those_of_the_host(seed):
    ranges, valid = random_mask(seed)
    keys = valid.shape[1]
    traced = jax.jit(lambda r, bits: trace_tile_lists(r, keys, query_tile=16, key_tile=8, key_valid=bits))(
        ranges, valid
    )
    capacity = -(-ranges.shape[1] // 16) * -(-keys // 8)
    built = build_tile_lists(ranges, keys, query_tile=16, key_tile=8, key_valid=valid, capacity=capacity)
    jax.tree.map(np.testing.assert_array_equal, traced, built)


def test_capacity_sets_the_length_and_is_never_exceeded():
    ranges = masks.segments([40, 40], 80)
    assert build_tile_lists(ranges, 80, query_tile=16, key_tile=16, capacity=30).by_query.across.shape == (1, 30)
    with pytest.raises(ValueError, match="17 tiles of 16 x 16 are active in a row; the capacity is 16"):
        build_tile_lists(ranges, 80, query_tile=16, key_tile=16, capacity=16)


@pytest.mark.parametrize("bad", [[[5, 9], [8, 12]], [[5, 9], [0, 3]], [[0, 21], [0, 0]], [[-1, 4], [0, 0]]])
def test_ranges_that_overlap_descend_or_leave_the_keys_are_refused(bad):
    with pytest.raises(ValueError, match="ascending, disjoint"):
        build_tile_lists(np.array([[bad]], np.int32), 20, query_tile=8, key_tile=8)


def test_a_run_that_does_not_exist_is_refused():
    ranges = KeyRanges(np.zeros((1, 2, 1, 2), np.int32), np.full((1, 4), 2, np.int32))
    with pytest.raises(ValueError, match="holds 2 in row 0, which has 2 runs"):
        build_tile_lists(ranges, 8, query_tile=4, key_tile=4)


def test_valid_bits_of_another_length_are_refused():
    with pytest.raises(ValueError, match="key_valid has shape"):
        build_tile_lists(masks.segments([8], 8), 8, query_tile=4, key_tile=4, key_valid=np.ones((1, 9), bool))


@pytest.mark.parametrize("last", [MANY_TOKENS - 1, 5])
def test_places_that_do_not_fit_in_32_bits(last):
    key = np.minimum(np.arange(MANY_TOKENS)[::-1], last)
    ranges = np.stack([key, key + 1], -1).astype(np.int32)[None, :, None]
    lists = build_tile_lists(ranges, MANY_TOKENS, query_tile=1, key_tile=1)
    np.testing.assert_array_equal(lists.by_query.across[0], key)
    np.testing.assert_array_equal(lists.by_key.across[0], np.argsort(key, kind="stable"))
    ends = np.cumsum(np.bincount(key, minlength=MANY_TOKENS))
    np.testing.assert_array_equal(lists.by_key.bounds[0, :, 2], ends)
    np.testing.assert_array_equal(lists.by_key.bounds[0, :, 1], np.append(0, ends[:-1]))


def test_a_row_in_which_nothing_is_seen_has_empty_lists():
    ranges = np.array([[[[3, 3], [9, 2]]]], np.int32).repeat(20, axis=1)
    lists = build_tile_lists(ranges, 30, query_tile=8, key_tile=8, capacity=3)
    assert not any(part.any() for part in jax.tree.leaves(lists))
    assert [part.shape for part in jax.tree.leaves(lists)] == [(1, 3), (1, 3, 3), (1, 3), (1, 4, 3)]


@pytest.mark.parametrize(("queries", "keys"), [(0, 30), (20, 0), (0, 0)])
def test_without_queries_or_keys_the_lists_are_empty(queries, keys):
    runs = KeyRanges(np.zeros((2, 3, 1, 2), np.int32), np.full((2, queries), -1, np.int32))
    for ranges in (runs, np.zeros((2, queries, 1, 2), np.int32)):
        lists = build_tile_lists(ranges, keys, query_tile=8, key_tile=8)
        assert [part.shape for part in lists.by_query] == [(2, 0), (2, -(-queries // 8), 3)]
        assert [part.shape for part in lists.by_key] == [(2, 0), (2, -(-keys // 8), 3)]


@pytest.mark.parametrize("name", [name for name in NAMES if "200k" not in name])
def test_workloads_count_their_visible_pairs(name):
    row = workload(name)
    lists = build_tile_lists(row.ranges, row.tokens, query_tile=64, key_tile=64).by_query
    partial, full = np.diff(lists.bounds[0], axis=1).sum(0)
    assert full * 64**2 <= row.visible_pairs() <= (full + partial) * 64**2
    assert row.visible_pairs() == sum(n * n for n in SEGMENT_LENGTHS) or not name.startswith("segments")


def test_an_unknown_workload_is_refused():
    with pytest.raises(ValueError, match="known are segments_8k_float32, dense_8k"):
        workload("segments")
