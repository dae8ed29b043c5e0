"""How rows are cut into attention tiles: the sizes a run's backend reads, how long its lists get, where samples begin.

The kernels need to know which tiles of a score matrix hold anything visible (`wam_kernels.tiles`). That follows from a
row's key ranges, so it is listed on the host, where the row is laid out (`wam_jax.sequence.row_tiles`), and travels as
data. Here is what those lists depend on beside the ranges, all of it fixed for a run.
"""

from dataclasses import dataclass

import jax.numpy as jnp

from wam_jax.errors import InputError
from wam_kernels import Problem, Target, current_target, tile_sizes

__all__ = ["Alignment", "Target", "TileSize", "Tiling", "current_target", "most_tiles", "round_up"]

type TileSize = tuple[int, int]


def round_up[T](count: T, multiple: int) -> T:
    """The next multiple of a number, or of each number of an array."""
    return -(-count // multiple) * multiple  # ty: ignore[unsupported-operator]


@dataclass(frozen=True)
class Alignment:
    """At multiples of what a sample begins: frames of either buffer, and text keys."""

    video_frames: int = 1
    action_frames: int = 1
    keys: int = 1


@dataclass(frozen=True, kw_only=True)
class Tiling:
    """What decides tile sizes: the attention of the network, and where it will run.

    Attributes:
        num_heads: heads of every attention.
        head_dim: their size.
        dtype: the name of the compute dtype.
        implementation: the backend by name, or None for the one that is best.
        target: where the step will run.
        alignment: tokens at whose multiples samples begin, or None where they lie back to back.
    """

    num_heads: int
    head_dim: int
    dtype: str
    implementation: str | None
    target: Target
    alignment: int | None = None

    def sizes(self, *, queries: int, keys: int, ranges: int) -> tuple[TileSize, ...]:
        """The tile sizes that attention of so many queries over so many keys reads.

        Raises:
            InputError: the backend's tiles do not begin at the multiples that samples are aligned to.
        """
        problem = Problem(1, queries, keys, self.num_heads, self.head_dim, jnp.dtype(self.dtype), ranges)
        wanted = () if self.alignment is None else ((self.alignment, self.alignment),)
        sizes = tile_sizes(problem, implementation=self.implementation, target=self.target, preferred=wanted)
        for size in sizes:
            if self.alignment is not None and any(self.alignment % side for side in size):
                least = max(max(size) for size in sizes)
                raise InputError(
                    "data.batching.tile_alignment",
                    self.alignment,
                    f"attention on {self.target.name} computes tiles of {size[0]} x {size[1]}; use {least}",
                )
        return sizes


def most_tiles(size: TileSize, *, tokens: int, sample_tokens: int, samples: int) -> int:
    """Tiles that self-attention in a row can visit at most, whatever its samples are.

    A sample of n tokens, in two stretches, touches at most n / side + 4 tiles a side, and the squares of the samples'
    tokens add up to at most `tokens * sample_tokens`.

    Args:
        size: of a tile.
        tokens: of the row, padding included.
        sample_tokens: of the longest sample.
        samples: that a row holds.
    """
    queries, keys = size
    grid = -(-tokens // queries) * -(-tokens // keys)
    crossings = 4 * tokens * (queries + keys) + 16 * samples * queries * keys
    return min(grid, -(-(tokens * sample_tokens + crossings) // (queries * keys)))
