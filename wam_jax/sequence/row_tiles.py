"""The key ranges of a row's tokens, and the tile lists of its three attentions, made where rows are laid out.

Both follow from a `RowLayout` alone. The lists are as long as any row of the rung may need (`most_tiles`), so that
their shapes are static; what lies behind a list's end is never read.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from wam_jax.sequence.layout import RowConstants, RowLayout
from wam_jax.sequence.rung import Rung
from wam_jax.sequence.tiling import TileSize, Tiling, most_tiles
from wam_kernels import KeyRanges, TileLists, build_tile_lists


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RowTiles:
    """Lists of the tiles that each attention visits, one for each tile size that its backend reads; all lead with rows.

    Attributes:
        joint: of the self-attention of both streams.
        video_text: of the video tokens over the text keys.
        action_text: of the action tokens over the text keys.
    """

    joint: tuple[TileLists, ...] = ()
    video_text: tuple[TileLists, ...] = ()
    action_text: tuple[TileLists, ...] = ()


class RowRanges(NamedTuple):
    """Which keys each token of a row reads, by run; members as those of `RowTiles`."""

    joint: KeyRanges
    video_text: KeyRanges
    action_text: KeyRanges


def token_ranges(layout: RowLayout, *, video_tokens_per_frame: int, actions_per_frame: int) -> RowRanges:
    """The ranges of rows [R, ...], on the host or on the device, wherever the layout's arrays are."""
    video, action = video_tokens_per_frame, actions_per_frame
    concatenate = layout.video_run.__array_namespace__().concat
    runs = [layout.video_run.repeat(video, axis=1), layout.action_run.repeat(action, axis=1)]
    return RowRanges(
        joint=KeyRanges(layout.run_ranges, concatenate(runs, axis=1)),
        video_text=KeyRanges(layout.text_run_ranges, layout.video_text_run.repeat(video, axis=1)),
        action_text=KeyRanges(layout.text_run_ranges, layout.action_text_run.repeat(action, axis=1)),
    )


def list_tiles(layout: RowLayout, rung: Rung, constants: RowConstants) -> RowTiles:
    """The lists of rows [R, ...] in NumPy; none where the backend visits all tiles, or there is no tiling."""
    tiling = constants.tiling
    if tiling is None:
        return RowTiles()
    video, action = constants.video_tokens_per_frame, constants.actions_per_frame
    ranges = token_ranges(layout, video_tokens_per_frame=video, actions_per_frame=action)
    longest = 2 * (rung.video_slot_frames * video + rung.action_slot_frames * action)
    tokens = ranges.joint.run_of_query.shape[1]
    keys = rung.text_keys + rung.proprio_keys + (rung.samples * constants.alignment.keys if constants.mode_token else 0)

    def most(size: TileSize) -> int:
        return most_tiles(size, tokens=tokens, sample_tokens=longest, samples=rung.samples)

    return RowTiles(
        joint=_lists(tiling, ranges.joint, tokens, most, key_valid=layout.key_valid),
        video_text=_lists(tiling, ranges.video_text, keys, None),
        action_text=_lists(tiling, ranges.action_text, keys, None),
    )


def _lists(
    tiling: Tiling,
    ranges: KeyRanges,
    keys: int,
    most: Callable[[TileSize], int] | None,
    *,
    key_valid: np.ndarray | None = None,
) -> tuple[TileLists, ...]:
    """The lists of every size, as long as `most` says or as there are tiles."""
    queries = ranges.run_of_query.shape[1]
    sizes = tiling.sizes(queries=queries, keys=keys, ranges=ranges.run_ranges.shape[2])
    return tuple(
        build_tile_lists(
            ranges,
            keys,
            query_tile=size[0],
            key_tile=size[1],
            key_valid=key_valid,
            capacity=_grid(size, queries, keys) if most is None else most(size),
        )
        for size in sizes
    )


def _grid(size: TileSize, queries: int, keys: int) -> int:
    return -(-queries // size[0]) * -(-keys // size[1])
