"""Strict batches: the next samples of the stream, which must have equal shapes.

    python -m wam_jax.train --config configs/modes/strict.py --workdir runs/strict

Nothing is padded, so every token slot is real: 1.00 of them. For data that are cut into equal segments, here of nine
latent frames; whole trajectories train strictly only one by one (`train_batch_size` 1, accumulated).

Refused: samples of different lengths, texts of different lengths, an optional field in some samples only; `max_tokens`.
"""

from pathlib import Path

from ml_collections import ConfigDict

from wam_jax.config import read_config


def get_config() -> ConfigDict:
    """The network of the benchmark on equal segments, batched strictly."""
    config = read_config(Path(__file__).parents[1] / "bench.py")
    config.name = "strict"
    config.data.batching.mode = "strict"
    config.data.sample_construction.mode = "uniform_segment"
    config.data.sample_construction.max_segment_frames = 9
    return config
