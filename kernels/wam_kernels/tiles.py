"""Tile lists: which tiles of the score matrix a mask touches, built on the host from ranges, without the matrix.

The score matrix is cut into tiles of `query_tile` x `key_tile`. A tile is *active* if some query of it may see some key
of it, and *full* if every query of it sees every key of it, all of them valid: only active tiles are computed, and full
ones need no mask. Three samples of 2, 3 and 2 tokens, each seeing itself (`#`), tiles of 2 x 2, one tail token:

    keys     0 1   2 3   4 5   6 7
    0        # # | . . | . . | . .        queries 0, 1: full [0]
    1        # # | . . | . . | . .
             ----+-----+-----+----
    2        . . | # # | # . | . .        queries 2, 3: partial [2], full [1]
    3        . . | # # | # . | . .
             ----+-----+-----+----
    4        . . | # # | # . | . .        queries 4, 5: partial [1, 2, 3]
    5        . . | . . | . # | # .
             ----+-----+-----+----
    6        . . | . . | . # | # .        queries 6, 7: partial [2, 3]
    7        . . | . . | . . | . .

How many pairs of a tile are visible follows from difference arrays: a stretch of w queries with the key range [a, b)
adds w times the overlap of [a, b) with each key tile, which is four differences before a running sum. Only the places
where the sum changes are kept, so the cost is O(stretches x R + active tiles), and the counts are exact.

A list holds partial tiles first, then full ones, each kind ascending. When samples start at tile boundaries, the order
of a sample's tiles therefore does not depend on what else is in the row.
"""

import dataclasses
from typing import NamedTuple

import jax
import numpy as np

from wam_kernels.ranges import Array, KeyRanges, Ranges, check_ranges, ranges_shape


class TileList(NamedTuple):
    """For each line of tiles the tiles across that it visits, all lines in one flat list.

    Line i visits `across[bounds[i, 0] : bounds[i, 1]]`, which need the mask, then
    `across[bounds[i, 1] : bounds[i, 2]]`, which are full.

    Attributes:
        across: `int32[rows, capacity]`.
        bounds: `int32[rows, lines, 3]`.
    """

    across: Array
    bounds: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TileLists:
    """The lists of one tile size.

    Attributes:
        by_query: a line for each tile of queries, key tiles across (forward and dQ).
        by_key: the transpose: a line for each tile of keys, query tiles across (dK/dV).
        query_tile: queries a tile; static under jit.
        key_tile: keys a tile; static under jit.
    """

    by_query: TileList
    by_key: TileList
    query_tile: int = dataclasses.field(metadata={"static": True})
    key_tile: int = dataclasses.field(metadata={"static": True})

    @property
    def size(self) -> tuple[int, int]:
        """`(query_tile, key_tile)`."""
        return self.query_tile, self.key_tile


def build_tile_lists(
    ranges: Ranges,
    key_tokens: int,
    *,
    query_tile: int,
    key_tile: int,
    key_valid: np.ndarray | None = None,
    capacity: int | None = None,
) -> TileLists:
    """Builds the lists of one tile size in NumPy; their arrays are NumPy arrays.

    Args:
        ranges: either form, as NumPy arrays.
        key_tokens: how many keys the ranges point into.
        query_tile: queries a tile.
        key_tile: keys a tile.
        key_valid: `bool[rows, key_tokens]`; a tile that holds an invalid key is never full, one without a valid key is
            never active.
        capacity: the length of the flat lists, so that shapes stay the same between batches. None: the longest row's.

    Raises:
        TypeError: if an array has the wrong dtype.
        ValueError: if a shape does not fit, if the ranges of a query are not ascending, disjoint and inside
            `[0, key_tokens)`, or if a row has more active tiles than `capacity`.
    """
    rows, queries, _ = ranges_shape(ranges)
    check_ranges(ranges, rows=rows, query_tokens=queries)
    if key_valid is not None and key_valid.shape != (rows, key_tokens):
        raise ValueError(f"key_valid has shape {key_valid.shape}; [rows, key_tokens] is {(rows, key_tokens)}")
    lines, columns = -(-queries // query_tile), -(-key_tokens // key_tile)
    found = [
        _active_tiles(*_stretches(ranges, row, query_tile), key_tokens, (query_tile, key_tile), _row_of(key_valid, row))
        for row in range(rows)
    ]
    used = max(len(tiles.line) for tiles in found)
    if capacity is not None and used > capacity:
        raise ValueError(f"{used} tiles of {query_tile} x {key_tile} are active in a row; the capacity is {capacity}")
    length = used if capacity is None else capacity
    return TileLists(
        by_query=_stack([_flat(tiles.line, tiles.column, tiles.full, lines, length) for tiles in found]),
        by_key=_stack([_flat(tiles.column, tiles.line, tiles.full, columns, length) for tiles in found]),
        query_tile=query_tile,
        key_tile=key_tile,
    )


class _Tiles(NamedTuple):
    """The active tiles of a row."""

    line: np.ndarray
    column: np.ndarray
    full: np.ndarray


def _stretches(ranges: Ranges, row: int, query_tile: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Maximal stretches of queries that have the same ranges and lie in one tile: their line, width and ranges."""
    if isinstance(ranges, KeyRanges):
        run, table = ranges.run_of_query[row], ranges.run_ranges[row]
        changes = run[1:] != run[:-1]
    else:
        table = ranges[row]
        run, changes = np.arange(len(table)), (table[1:] != table[:-1]).any((1, 2))
    starts = np.append(True, changes)[: len(run)]
    starts[::query_tile] = True
    start = np.flatnonzero(starts)
    width, run = np.diff(start, append=len(run)), run[start]
    if run.max(initial=-1) >= len(table):
        raise ValueError(f"ranges.run_of_query holds {run.max()} in row {row}, which has {len(table)} runs")
    some = run >= 0
    return start[some] // query_tile, width[some], table[run[some]]


def _active_tiles(
    line: np.ndarray,
    width: np.ndarray,
    bounds: np.ndarray,
    key_tokens: int,
    tile: tuple[int, int],
    valid: np.ndarray | None,
) -> _Tiles:
    """The active tiles of a row, from its stretches."""
    _check_values(bounds, key_tokens)
    columns = -(-key_tokens // tile[1])
    tiles = _visible_tiles(line, width, bounds, tile, columns)
    if valid is None:
        return tiles
    by_tile = np.pad(valid, (0, columns * tile[1] - key_tokens)).reshape(columns, tile[1])
    tiles = tiles._replace(full=tiles.full & by_tile.all(1).take(tiles.column))
    some = by_tile.any(1)
    if some.all():
        return tiles
    kept = some.take(tiles.column)
    return _Tiles(*(part[kept] for part in tiles))


def _visible_tiles(
    line: np.ndarray, width: np.ndarray, bounds: np.ndarray, tile: tuple[int, int], columns: int
) -> _Tiles:
    """The tiles with visible pairs; those all of whose pairs are visible are full."""
    stretch, which = np.nonzero(bounds[..., 0] < bounds[..., 1])
    bits = (columns + 1).bit_length()
    head = line[stretch].astype(_least_integer((int(line.max(initial=0)) + 1) << bits)) << bits
    width = width[stretch]
    steps = []
    for side, sign in ((0, 1), (1, -1)):
        column, inside = np.divmod(bounds[stretch, which, side], tile[1])
        place, rise = head + column, sign * width
        steps += [(place, rise * (tile[1] - inside)), (place + 1, rise * inside)]
    place, step = (np.concatenate(part) for part in zip(*steps, strict=True))
    order = np.argsort(place)
    place, pairs = place[order], np.cumsum(step[order])
    # The sum is constant from one place to the next, and back at 0 behind the last place of a line.
    length = np.where(pairs[:-1] > 0, np.diff(place), 0)
    skipped = place[:-1] - (np.cumsum(length, dtype=place.dtype) - length)
    place = np.repeat(skipped, length) + np.arange(length.sum(), dtype=place.dtype)
    full = np.repeat(pairs[:-1] == tile[0] * tile[1], length)
    line, column = (part.astype(np.int32, copy=False) for part in (place >> bits, place & ((1 << bits) - 1)))
    return _Tiles(line, column, full)


def _least_integer(bound: int) -> type[np.signedinteger]:
    """The dtype of integers that stay below `bound`: 32 bits take half the time of 64 to sort and move."""
    return np.int32 if bound < 1 << 31 else np.int64


def _check_values(bounds: np.ndarray, key_tokens: int) -> None:
    first, last = bounds[..., 0], bounds[..., 1]
    some = first < last
    reached = np.maximum.accumulate(np.where(some, last, 0), axis=1)
    before = np.pad(reached[:, :-1], ((0, 0), (1, 0)))
    wrong = some & ((first < before) | (last > key_tokens))
    if wrong.any():
        at = int(np.flatnonzero(wrong.any(1))[0])
        raise ValueError(
            f"ranges hold {bounds[at].tolist()} for one query; wanted ascending, disjoint [start, end) within "
            f"[0, {key_tokens}]"
        )


def _flat(line: np.ndarray, across: np.ndarray, full: np.ndarray, lines: int, length: int) -> TileList:
    """One row's flat list, of tiles in any order."""
    bits = int(across.max(initial=0)).bit_length()
    # One integer a tile holds all that it is sorted by: NumPy sorts values faster than it finds their order.
    key = line.astype(_least_integer((2 * lines) << bits))
    key *= 2
    key += full
    key <<= bits
    key |= across
    key.sort()
    ends = np.searchsorted(key, np.arange(1, 2 * lines + 1, dtype=key.dtype) << bits).reshape(lines, 2)
    starts = np.concatenate([[0], ends[:-1, 1]])[:lines]
    flat = np.zeros(length, np.int32)
    flat[: len(key)] = key & ((1 << bits) - 1)
    return TileList(flat, np.column_stack([starts, ends]).astype(np.int32))


def _stack(lists: list[TileList]) -> TileList:
    return TileList(*(np.stack(part) for part in zip(*lists, strict=True)))


def _row_of(key_valid: np.ndarray | None, row: int) -> np.ndarray | None:
    return None if key_valid is None else key_valid[row]
