"""Packed batches: samples lie back to back in a row, and only the end of a row is padding.

    python -m wam_jax.train --config configs/modes/packed.py --workdir runs/packed

Each row holds eight samples; those of an update are dealt to the rows of all ranks so that these are even. 0.90 of the
token slots are real. The first choice for trajectories of unequal length.

Refused: nothing that `padded` takes. Rows of routed programs keep the order of the stream.
"""

from pathlib import Path

from ml_collections import ConfigDict

from wam_jax.config import read_config


def get_config() -> ConfigDict:
    """The whole trajectories of the benchmark, packed."""
    config = read_config(Path(__file__).parents[1] / "bench.py")
    config.name = "packed"
    config.data.batching.mode = "packed"
    return config
