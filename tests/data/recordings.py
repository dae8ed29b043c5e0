"""Recordings without a simulator: small noise videos whose lengths and contents follow from task and seed."""

from collections.abc import Sequence

import numpy as np

from wam_jax.data.recording.fork import Fork
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
        frames=rng.integers(0, 256, (raw_frames, size, size, 3), dtype=np.uint8),
        actions=rng.uniform(-1, 1, (raw_frames - 1, 4)).astype(np.float32),
        states=rng.normal(size=(raw_frames, 4)).astype(np.float32),
    )


def branch_noise(parent: Recording, forks: Sequence[Fork]) -> list[Recording]:
    """Takes the place of `record_branches`: the parent's frame, then black ones; its actions are the offsets."""
    return [
        Recording(
            parent.task,
            parent.seed,
            frames=np.concatenate(
                [parent.frames[fork.start, None], np.zeros((fork.steps, *parent.frames.shape[1:]), np.uint8)]
            ),
            actions=np.clip(fork.offsets(parent.task, parent.seed), -1, 1).astype(np.float32),
            states=np.repeat(parent.states[fork.start, None], 1 + fork.steps, axis=0),
        )
        for fork in forks
    ]
