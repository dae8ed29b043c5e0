"""What a store holds, in numbers, from its manifest and index alone."""

import dataclasses
from collections import Counter
from typing import Any

import numpy as np

from wam_jax.data.storage.index import ABSENT
from wam_jax.data.storage.mixture import Mixture
from wam_jax.data.storage.splits import hashed_split
from wam_jax.data.storage.store import Store

_BINS = 12


@dataclasses.dataclass(frozen=True)
class Survey:
    """All numbers that `python -m wam_jax.data.inspect` shows.

    Attributes:
        episodes: task to split to number of episodes; episodes without a split are counted where their id's hash puts
            them.
        lengths: latent frames: `min`, `quartile`, `median`, `upper quartile`, `max`, `mean`, `total`.
        histogram: rows of (first length, last length, episodes).
        missing: field to number of episodes that lack it, for fields that some episode has or that are required.
        num_bytes: of all payloads before compression.
    """

    path: str
    manifest: dict[str, Any]
    fingerprint: str
    episodes: dict[str, dict[str, int]]
    lengths: dict[str, float]
    histogram: list[tuple[int, int, int]]
    missing: dict[str, int]
    num_bytes: int


def survey(store: Store) -> Survey:
    """Counts; reads no payload."""
    frames = lengths_of(store)
    return Survey(
        path=" + ".join(str(part.path) for part in (store.stores if isinstance(store, Mixture) else (store,))),
        manifest=dataclasses.asdict(store.manifest),
        fingerprint=store.fingerprint,
        episodes=_episodes(store),
        lengths=_summary(frames),
        histogram=_histogram(frames),
        missing={
            name: int((extents == ABSENT).sum())
            for name, extents in store.index.extents.items()
            if name in ("video_latents", "actions") or (extents != ABSENT).any()
        },
        num_bytes=int(store.index.num_bytes.sum()),
    )


def lengths_of(store: Store) -> np.ndarray:
    """Latent frames of every episode; 0 where the index lacks the video."""
    return np.maximum(store.index.extents["video_latents"], 0)


def splits_of(store: Store) -> list[str]:
    """The split of every episode."""
    return [split or hashed_split(name) for split, name in zip(store.index.splits, store.index.ids, strict=True)]


def _episodes(store: Store) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for (task, split), count in sorted(Counter(zip(store.index.tasks, splits_of(store), strict=True)).items()):
        counts.setdefault(task, {})[split] = count
    return counts


def _summary(frames: np.ndarray) -> dict[str, float]:
    names = ("min", "quartile", "median", "upper quartile", "max")
    values = np.percentile(frames, [0, 25, 50, 75, 100]).tolist()
    return dict(zip(names, values, strict=True)) | {"mean": float(frames.mean()), "total": int(frames.sum())}


def _histogram(frames: np.ndarray) -> list[tuple[int, int, int]]:
    low, high = int(frames.min()), int(frames.max())
    width = -(-(high - low + 1) // _BINS)
    edges = range(low, high + 1, width)
    return [(edge, edge + width - 1, int(((frames >= edge) & (frames < edge + width)).sum())) for edge in edges]
