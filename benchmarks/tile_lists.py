"""How long the host takes to list the tiles of a row: `python benchmarks/tile_lists.py`.

Medians over repeated builds on one core, of a long row (199,680 tokens: six samples of 65 frames of 256 tokens, noisy
and clean) and of a short one, with and without valid bits.
"""

import argparse
import datetime
import statistics
import time

import numpy as np

from wam_kernels import Ranges, build_tile_lists
from wam_kernels.workloads import workload

LONG, SHORT = "noisy_and_clean_200k", "segments_8k"


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description="times the listing of tiles")
    parser.add_argument("--repeats", type=int, default=20, help="timed builds of each; the median is printed")
    options = parser.parse_args()
    print(f"{datetime.date.today()}, NumPy {np.__version__}")
    print(f"{'workload':24}{'tokens':>9}{'tile':>6}{'valid bits':>12}{'ms':>9}")
    for name in (LONG, SHORT):
        row = workload(name)
        for tile in (64, 128, 256):
            for valid in (None, np.random.default_rng(0).random((1, row.tokens)) < 0.999):
                milliseconds = 1e3 * seconds(row.ranges, row.tokens, tile, valid, repeats=options.repeats)
                bits = "none" if valid is None else "some unset"
                print(f"{name:24}{row.tokens:9}{tile:6}{bits:>12}{milliseconds:9.2f}")


def seconds(ranges: Ranges, tokens: int, tile: int, valid: np.ndarray | None, *, repeats: int) -> float:
    """Median seconds of a build."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        build_tile_lists(ranges, tokens, query_tile=tile, key_tile=tile, key_valid=valid)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


if __name__ == "__main__":
    main()
