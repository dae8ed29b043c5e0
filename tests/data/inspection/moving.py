"""Stores whose motion is known: a point that goes where its actions say, seen through a smooth code."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tests.support.stores import tiny_encoder
from wam_jax.data.construction.assemble import assemble_sample
from wam_jax.data.encoders.text import HashedWordEncoder
from wam_jax.data.storage.store import Store, open_store
from wam_jax.data.storage.units import Units
from wam_jax.data.storage.writer import Episode, StoreWriter

UNITS = Units(actions_per_frame=4, temporal_stride=4)


def moving(
    seed: int,
    *,
    frames: int = 15,
    late: int = 0,
    slow: int = 0,
    with_state: bool = True,
    still: bool = False,
    clip: float = 9.0,
    gain: float = 1.0,
) -> dict[str, np.ndarray]:
    """Arrays of an episode.

    Args:
        late: rows by which the recorded actions come after the ones that were obeyed.
        slow: steps by which the robot obeys late.
        still: whether the actions are all the same.
        gain: of the latents.
    """
    rng, R = np.random.default_rng(seed), 1 + 4 * (frames - 1)
    bursts = np.repeat(rng.normal(size=(R // 3 + 8, 2)) * rng.exponential(size=(R // 3 + 8, 1)), 3, axis=0)
    obeyed = np.clip(bursts[8 : 8 + R - 1], -clip, clip) if not still else np.ones((R - 1, 2))
    start = lambda rows, by: np.concatenate([np.zeros((by, 2)), rows])[: len(rows)]  # noqa: E731
    states = np.vstack([np.zeros(2), np.cumsum(start(obeyed, slow), axis=0)])
    groups = np.stack([states[max(0, 4 * k - 3) : 4 * k + 1].mean(axis=0) for k in range(frames)])
    waves = np.random.default_rng(0).normal(size=(3, 2, 2, 2))
    latents = gain * np.moveaxis(np.sin(0.3 * np.einsum("td,chwd->tchw", groups, waves)), 0, 1)
    return assemble_sample(
        video_latents=latents, actions=start(obeyed, late), states=states if with_state else None, units=UNITS
    )


def write_moving(
    path: Path, episodes: Sequence[dict[str, np.ndarray]], *, source: Callable[[int], str] = lambda _: "lab"
) -> Store:
    """A store of them; the last one validates."""
    with StoreWriter(
        path, encoder=tiny_encoder(3), actions_per_frame=4, text_encoder=HashedWordEncoder(dim=4, tokens=4)
    ) as writer:
        for number, arrays in enumerate(episodes):
            split = "val" if number == len(episodes) - 1 else "train"
            about = {"source": source(number), "task": "move", "instruction": "move", "fps": 20.0}
            writer.add(Episode(id=f"ep{number}", split=split, **about), arrays)
    return open_store(path)
