"""Padded batches: the next samples of the stream, each in a slot of the longest.

    python -m wam_jax.train --config configs/modes/padded.py --workdir runs/padded

Keeps the order of the stream and takes any mix of lengths, but pays for the longest sample of a microbatch: 0.56 of the
token slots are real. For samples of like length, and as the plain form that the other modes are compared with.
`pad_to_multiple_of` rounds the frames of a slot up.

Refused: `max_tokens`, which only rows without slots can keep.
"""

from pathlib import Path

from ml_collections import ConfigDict

from wam_jax.config import read_config


def get_config() -> ConfigDict:
    """The whole trajectories of the benchmark, padded."""
    config = read_config(Path(__file__).parents[1] / "bench.py")
    config.name = "padded"
    config.data.batching.mode = "padded"
    return config
