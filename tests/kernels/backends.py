"""The backends as the case table runs them: every kernel with the case's tile size, GPU kernels interpreted."""

from wam_kernels.backend import Backend
from wam_kernels.launch import Launch, Launches
from wam_kernels.pallas_mosaic import PallasMosaic
from wam_kernels.pallas_triton import PallasTriton
from wam_kernels.reference import Reference
from wam_kernels.xla import Xla

BACKENDS = ("reference", "xla", "pallas_triton", "pallas_mosaic")


def backend(name: str, tile: tuple[int, int], *, detect_races: bool = False) -> Backend:
    """A resolved backend. Mosaic's tiles are multiples of 64, the height of its instructions."""
    match name:
        case "reference":
            return Reference()
        case "xla":
            return Xla(*tile)
        case "pallas_triton":
            return PallasTriton(_launches(*tile), interpret=True)
        case "pallas_mosaic":
            return PallasMosaic(_launches(*(-(-n // 64) * 64 for n in tile)), interpret=True, detect_races=detect_races)
    raise ValueError(name)


def _launches(query_tile: int, key_tile: int) -> Launches:
    launch = Launch(query_tile, key_tile, warps=4, stages=2)
    return Launches(forward=launch, dq=launch, dkv=launch)
