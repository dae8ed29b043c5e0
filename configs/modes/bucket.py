"""Buckets: pools of the stream are sorted by length, and microbatches of like length are padded.

    python -m wam_jax.train --config configs/modes/bucket.py --workdir runs/bucket

A pool of 48 samples is the whole of this epoch. A larger pool sorts better, a smaller one keeps more of the shuffled
order. 0.81 of the token slots are real. For unequal samples where the network should keep rectangular rows. Grouping
depends on the number of ranks and on the microbatch, so a run is continued with the same ones only.

Refused: programs with several routes, whose order decides who trains which objective when; `max_tokens`.
"""

from pathlib import Path

from ml_collections import ConfigDict

from wam_jax.config import read_config


def get_config() -> ConfigDict:
    """The whole trajectories of the benchmark, in buckets."""
    config = read_config(Path(__file__).parents[1] / "bench.py")
    config.name = "bucket"
    config.data.batching.mode = "bucket"
    config.data.batching.bucket_pool_size = 48
    return config
