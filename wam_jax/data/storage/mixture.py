"""Several stores as one, drawn in proportion to weights: `open_mixture`.

A mixture has the interface of a store: its episodes are those of its stores, one store behind the other, under their
own ids and in their own splits. Stores mix only where a model cannot tell them apart by how they were made: the same
encoder of video and of text, the same slots and strides, the same sizes. Latents of two encoders are refused.

With weights w the draws of training come from store i with probability w_i over the weights of the stores that have
samples, on every route (`wam_jax.data.drawing.weights`). Validation sees the held-out episodes of all of them.
"""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from etils import epath

from wam_jax.config.schema import DataConfig
from wam_jax.data.storage.index import Index, fingerprint_of
from wam_jax.data.storage.manifest import Dims, FieldStatistics, Manifest
from wam_jax.data.storage.statistics import Moments
from wam_jax.data.storage.store import Store, open_store
from wam_jax.errors import InputError

_FIELD = "data.more_stores"


class Mixture(Store):
    """Several stores.

    Attributes:
        stores: in order.
        weights: float64[stores], above 0.
        store_of: int64[episodes], which store an episode is of.
    """

    def __init__(self, stores: Sequence[Store], weights: Sequence[float]) -> None:
        """
        Args:
            stores: at least one.
            weights: one of each.
        Raises:
            InputError: they do not mix, or share an id.
        """
        self.stores, self.weights = tuple(stores), np.array(weights, np.float64)
        self.path = self.stores[0].path
        for store in self.stores[1:]:
            _check_alike(self.stores[0], store)
        self.index = Index(pa.concat_tables([store.index.table() for store in self.stores]))
        _check_unique(self.stores)
        self.manifest = _manifest(self.stores, self.index)
        lengths = [len(store) for store in self.stores]
        self.store_of = np.repeat(np.arange(len(lengths)), lengths)
        self._first = np.cumsum([0, *lengths[:-1]])

    @property
    def fingerprint(self) -> str:
        """Hexadecimal hash of the stores' data and of their weights."""
        parts = [[store.fingerprint, float(weight)] for store, weight in zip(self.stores, self.weights, strict=True)]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def read(self, episode: int, *, frames: tuple[int, int] | None = None) -> dict[str, np.ndarray]:
        store, row = self._find(episode)
        return store.read(row, frames=frames)

    def read_bytes(self, episode: int) -> bytes:
        store, row = self._find(episode)
        return store.read_bytes(row)

    def text(self, instruction: str) -> np.ndarray:
        known = next((store for store in self.stores if store.manifest.text and instruction in store.prompts), None)
        return (known or self.stores[0]).text(instruction)

    @property
    def prompts(self) -> frozenset[str]:
        return frozenset().union(*(store.prompts for store in self.stores))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.stores, self.weights.tolist())

    def _find(self, episode: int) -> tuple[Store, int]:
        part = int(self.store_of[episode])
        return self.stores[part], int(episode - self._first[part])


def open_data(data: DataConfig) -> Store:
    """The store of a run, or its stores as one; raises InputError."""
    if not data.more_stores:
        return open_store(data.store)
    return open_mixture([(data.store, data.store_weight), *data.more_stores])


def open_mixture(shares: Sequence[tuple[epath.PathLike, float]]) -> Mixture:
    """Opens several stores as one.

    Args:
        shares: place and weight of each.
    Raises:
        InputError: a store cannot be opened, a weight is not above 0, a store is named twice, or they do not mix.
    """
    if not shares:
        raise InputError(_FIELD, shares, "one or more of (store, weight)")
    for place, weight in shares:
        if not 0 < weight < float("inf"):
            raise InputError(_FIELD, (str(place), weight), "weights above 0")
    return Mixture([open_store(place) for place, _ in shares], [weight for _, weight in shares])


def _check_alike(first: Store, other: Store) -> None:
    """Raises InputError naming what two stores differ in."""
    ours, theirs = first.manifest, other.manifest
    for name, ask in (
        ("encoder", "latents of two encoders are never mixed; encode both with one"),
        ("text", "text of two encoders is never mixed; convert both with one --text"),
        ("actions_per_frame", "the same number of action slots in all stores"),
    ):
        if getattr(ours, name) != getattr(theirs, name):
            differs = _difference(getattr(ours, name), getattr(theirs, name))
            raise InputError(f"{_FIELD}: {name} of {other.path}", differs, ask)
    _common(ours.dims, theirs.dims, where=str(other.path))


def _difference(ours: Any, theirs: Any) -> str:
    if not dataclasses.is_dataclass(ours) or not dataclasses.is_dataclass(theirs):
        return f"{theirs}, not {ours}"
    names = [item.name for item in dataclasses.fields(ours)]
    different = [name for name in names if getattr(ours, name) != getattr(theirs, name)]
    return ", ".join(f"{name} {getattr(theirs, name)}, not {getattr(ours, name)}" for name in different)


def _common(ours: Dims, theirs: Dims, *, where: str) -> Dims:
    """Sizes of both; one that only one of them has is that of both."""
    sizes = {}
    for item in dataclasses.fields(Dims):
        mine, other = getattr(ours, item.name), getattr(theirs, item.name)
        if mine != other and None not in (mine, other):
            raise InputError(f"{_FIELD}: {item.name} of {where}", other, f"{mine}, as in the first store")
        sizes[item.name] = other if mine is None else mine
    return Dims(**sizes)


def _check_unique(stores: Sequence[Store]) -> None:
    seen: set[str] = set()
    for store in stores:
        ids = set(store.index.ids)
        both = sorted(seen & ids)
        if both:
            remedy = f"{store.path} and a store before it both have it; convert one with another --name"
            raise InputError(f"{_FIELD}: id", both[0], remedy)
        seen |= ids


def _manifest(stores: Sequence[Store], index: Index) -> Manifest:
    manifests = [store.manifest for store in stores]
    dims = functools.reduce(lambda ours, theirs: _common(ours, theirs, where="a store"), (m.dims for m in manifests))
    fields = sorted({name for manifest in manifests for name in manifest.statistics})
    return dataclasses.replace(
        manifests[0],
        num_episodes=len(index),
        dims=dims,
        index_fingerprint=fingerprint_of(index),
        statistics={name: _merged([m.statistics[name] for m in manifests if name in m.statistics]) for name in fields},
        provenance={"stores": [store.fingerprint for store in stores]},
    )


def _merged(parts: Sequence[FieldStatistics]) -> FieldStatistics:
    """Statistics of all values together; the weights do not enter."""
    return functools.reduce(Moments.merge, map(_moments, parts)).summary()


def _moments(part: FieldStatistics) -> Moments:
    count, seen = np.array(part.count), np.array(part.count) > 0
    return Moments(
        count=count,
        mean=np.array(part.mean),
        squares=np.square(part.std) * count,
        low=np.where(seen, part.min, np.inf),
        high=np.where(seen, part.max, -np.inf),
    )
