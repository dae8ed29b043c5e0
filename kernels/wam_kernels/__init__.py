"""Range attention: a query attends the keys inside a few half-open ranges, on packed and padded rows alike.

Public names: `range_attention`, the entry; `KeyRanges`, the run form of the ranges. The package knows nothing of
worlds, actions or trajectories and does not import `wam_jax`.
"""

from wam_kernels.api import range_attention
from wam_kernels.ranges import KeyRanges, Ranges, ranges_by_query

__all__ = ["KeyRanges", "Ranges", "range_attention", "ranges_by_query"]
