"""How a GPU kernel is launched: its tile size, warps and pipeline stages."""

import dataclasses
from typing import NamedTuple


class Launch(NamedTuple):
    """One kernel's launch.

    Attributes:
        query_tile: queries a tile.
        key_tile: keys a tile.
        warps: warps a block (Triton), or compute warpgroups (Mosaic: 4 warps each).
        stages: pipeline stages.
    """

    query_tile: int
    key_tile: int
    warps: int
    stages: int

    @property
    def size(self) -> tuple[int, int]:
        """`(query_tile, key_tile)`."""
        return self.query_tile, self.key_tile


@dataclasses.dataclass(frozen=True)
class Launches:
    """The launches of the three kernels of one backend."""

    forward: Launch
    dq: Launch
    dkv: Launch

    def sizes(self) -> tuple[tuple[int, int], ...]:
        """The distinct tile sizes, ascending."""
        return tuple(sorted({self.forward.size, self.dq.size, self.dkv.size}))
