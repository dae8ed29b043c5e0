"""What one pass over a store's episodes gathers: enough to find what hurts training, small enough for any store."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from wam_jax.data.inspection.lag import LagEstimator
from wam_jax.data.storage.store import Store

FEW = 4
"""Distinct values of a dimension that is rather a switch than a scale."""


@dataclass
class ActionTraits:
    """Of all unmasked actions, per dimension.

    Attributes:
        count: how many values.
        low, high: their range.
        at_low, at_high: how many lie exactly at its ends.
        values: up to `FEW` + 1 distinct ones, by dimension.
    """

    count: np.ndarray
    low: np.ndarray
    high: np.ndarray
    at_low: np.ndarray
    at_high: np.ndarray
    values: list[set[float]]

    @classmethod
    def none(cls, dim: int) -> "ActionTraits":
        """Of no actions."""
        zero = np.zeros(dim, np.int64)
        return cls(
            zero, np.full(dim, np.inf), np.full(dim, -np.inf), zero.copy(), zero.copy(), [set() for _ in range(dim)]
        )

    def add(self, actions: np.ndarray, mask: np.ndarray) -> None:
        """Adds `[slots, D]`; entries whose mask is 0 do not count."""
        for dim in range(actions.shape[1]):
            column = actions[mask[:, dim] > 0, dim]
            if not column.size:
                continue
            self.count[dim] += column.size
            self._meet(column, dim)
            if len(self.values[dim]) <= FEW:
                self.values[dim] |= set(np.unique(column)[: FEW + 1].tolist())

    def _meet(self, column: np.ndarray, dim: int) -> None:
        low, high = column.min(), column.max()
        if low < self.low[dim]:
            self.low[dim], self.at_low[dim] = low, 0
        if high > self.high[dim]:
            self.high[dim], self.at_high[dim] = high, 0
        self.at_low[dim] += (column == self.low[dim]).sum()
        self.at_high[dim] += (column == self.high[dim]).sum()


@dataclass
class Traits:
    """What was gathered; lists are in the order of the episodes that could be read.

    Attributes:
        episodes: positions in the index.
        digests: hash of the video and the actions of each.
        still: whether an episode's actions never change.
        spreads: log of the deviation of each latent channel, float64 `[C]` each.
        actions: of all episodes.
        lags: source to the estimate of its alignment.
    """

    episodes: list[int] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    still: list[bool] = field(default_factory=list)
    spreads: list[np.ndarray] = field(default_factory=list)
    actions: ActionTraits | None = None
    lags: dict[str, LagEstimator] = field(default_factory=dict)


def gather(store: Store, read: Callable[[int], dict[str, np.ndarray] | None], rows: Iterable[int]) -> Traits:
    """Goes through the episodes `rows`.

    Args:
        store: the store.
        read: gives an episode's arrays, or None for one that is not sound and is passed over.
        rows: positions in the index.
    """
    traits = Traits()
    for episode in rows:
        arrays = read(episode)
        if arrays is not None:
            _add(traits, store, episode, arrays)
    return traits


def _add(traits: Traits, store: Store, episode: int, arrays: dict[str, np.ndarray]) -> None:
    actions, latents = arrays["actions"], arrays["video_latents"].astype(np.float32)
    mask = arrays.get("action_mask", np.ones_like(actions))
    used = actions[mask.all(axis=1)]
    traits.episodes.append(episode)
    traits.digests.append(hashlib.sha256(arrays["video_latents"].tobytes() + actions.tobytes()).digest())
    traits.still.append(len(used) > 1 and bool((used == used[0]).all()))
    traits.spreads.append(np.log(latents.std(axis=(1, 2, 3)).astype(np.float64) + 1e-6))
    if traits.actions is None:
        traits.actions = ActionTraits.none(actions.shape[1])
    traits.actions.add(actions, mask)
    source = store.index.sources[episode]
    traits.lags.setdefault(source, LagEstimator(store.manifest.units)).add(arrays)
