"""Range attention: a query attends the keys inside a few half-open ranges, on packed and padded rows alike.

`range_attention` is the entry, `sharded_range_attention` the same over rows on several devices; `KeyRanges` the run
form of the ranges; `build_tile_lists` (host) and `trace_tile_lists` (under jit) make the lists of tiles that the
backends visit. The package knows nothing of worlds, actions or trajectories and does not import `wam_jax`.
"""

from wam_kernels.api import range_attention
from wam_kernels.backend import Problem, UnsupportedError
from wam_kernels.chooser import tile_sizes
from wam_kernels.ranges import KeyRanges, Ranges
from wam_kernels.sharding import sharded_range_attention
from wam_kernels.target import Target, current_target
from wam_kernels.tiles import TileList, TileLists, build_tile_lists
from wam_kernels.traced_tiles import trace_tile_lists
from wam_kernels.xla import Xla

__all__ = [
    "KeyRanges",
    "Problem",
    "Ranges",
    "Target",
    "TileList",
    "TileLists",
    "UnsupportedError",
    "Xla",
    "build_tile_lists",
    "current_target",
    "range_attention",
    "sharded_range_attention",
    "tile_sizes",
    "trace_tile_lists",
]
