"""Recordings without a simulator: small noise videos whose lengths and contents follow from task and seed."""

import numpy as np

from wam_jax.data.recording.rollout import Recording


def record_noise(task: str, seed: int, size: int, tail: int) -> Recording | None:
    """Takes the place of `record_episode`; fails on seeds 1 and 2 of `stick-pull` and always on `hopeless`."""
    if task == "hopeless" or (task == "stick-pull" and seed in (1, 2)):
        return None
    rng = np.random.default_rng([seed, len(task)])
    raw_frames = 5 + seed + tail
    return Recording(
        task=task,
        seed=seed,
        first_success=raw_frames - 1 - tail,
        frames=rng.integers(0, 256, (raw_frames, size, size, 3), dtype=np.uint8),
        actions=rng.uniform(-1, 1, (raw_frames - 1, 4)).astype(np.float32),
        states=rng.normal(size=(raw_frames, 4)).astype(np.float32),
    )
