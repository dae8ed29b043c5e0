"""Named scalings of actions and states, kept with the store so that predictions can be scaled back.

    none           as recorded
    gaussian       (x - mean) / std
    quantiles      the 1 % and 99 % quantiles become -1 and 1
    joint_limits   given lower and upper limits become -1 and 1

All are per dimension, y = (x - shift) / scale, then clipped where a range is given. Statistics are those of the train
split before scaling. A dimension without any spread is shifted and not scaled. `store.json` holds a `Normalisation` of
`actions` and of `state` in `provenance.normalisation`; `normalisation_of(store)` reads them.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from wam_jax.data.jsonio import from_json
from wam_jax.data.storage.manifest import Manifest
from wam_jax.errors import InputError

Mode = Literal["none", "gaussian", "quantiles", "joint_limits"]
KEY = "normalisation"
FIELDS = ("actions", "state")
MAX_ROWS = 2_000_000
"""Rows that quantiles are taken of; more are thinned evenly."""


@dataclass(frozen=True)
class Normalisation:
    """One field's scaling.

    Attributes:
        mode: which of the named ones.
        shift, scale: `dim` numbers each; empty for `none`.
        clip: the range that scaled values are clipped to, or empty.
        statistics: `mean`, `std`, `min`, `max`, `q01`, `q99` of the train split before scaling; empty where not taken.
    """

    mode: str
    shift: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    clip: tuple[float, ...] = ()
    statistics: Mapping[str, tuple[float, ...]] = dataclasses.field(default_factory=dict)

    def apply(self, values: np.ndarray) -> np.ndarray:
        """`[rows, dim]` recorded to `[rows, dim]` float32 as the model reads them; raises InputError."""
        if self.mode == "none":
            return values
        if values.shape[-1] != len(self.shift):
            raise InputError("normalisation", values.shape, f"{len(self.shift)} dimensions")
        scaled = (values.astype(np.float64) - self.shift) / np.asarray(self.scale)
        return (np.clip(scaled, self.clip[0], self.clip[1]) if self.clip else scaled).astype(np.float32)

    def invert(self, values: np.ndarray) -> np.ndarray:
        """What `apply` took, up to clipping: `[..., dim]` to `[..., dim]` float32."""
        if self.mode == "none":
            return values
        return (values.astype(np.float64) * self.scale + self.shift).astype(np.float32)


def fit_normalisation(
    mode: Mode,
    episodes: Iterable[np.ndarray],
    *,
    limits: tuple[tuple[float, ...], tuple[float, ...]] | None = None,
    clip: tuple[float, ...] = (),
) -> Normalisation:
    """A scaling from the recorded values of the train split.

    Args:
        mode: which.
        episodes: `[rows, dim]` of each episode.
        limits: lower and upper, for `joint_limits`.
        clip: a range, or empty.
    Raises:
        InputError: the mode is unknown, there are no values, or limits are missing or odd.
    """
    if mode not in get_args(Mode):
        raise InputError("normalisation", mode, f"one of {', '.join(get_args(Mode))}")
    found = _summary(list(episodes))
    match mode:
        case "none":
            return Normalisation(mode, statistics=found)
        case "gaussian":
            shift, scale = np.array(found["mean"]), np.array(found["std"])
        case "quantiles":
            shift, scale = _between(np.array(found["q01"]), np.array(found["q99"]))
        case "joint_limits":
            lower, upper = _checked(limits, len(found["mean"]))
            shift, scale = _between(lower, upper)
    scale = np.where(scale > 0, scale, 1.0)
    return Normalisation(mode, tuple(shift.tolist()), tuple(scale.tolist()), clip, found)


def read_limits(path: Path, field: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Reads `{FIELD: {"lower": [...], "upper": [...]}}`; raises InputError."""
    try:
        raw = json.loads(path.read_text())[field]
        return tuple(map(float, raw["lower"])), tuple(map(float, raw["upper"]))
    except (OSError, ValueError, TypeError, KeyError) as error:
        remedy = f'{{"{field}": {{"lower": [...], "upper": [...]}}}}, a number per dimension'
        raise InputError(str(path), str(error), remedy) from None


def normalisation_of(manifest: Manifest) -> dict[str, Normalisation]:
    """Field (`actions`, `state`) to the scaling that the store was written with; `none` where it says nothing."""
    raw = manifest.provenance.get(KEY) or {}
    return {name: read_normalisation(raw.get(name) or {"mode": "none"}, where=f"{KEY}.{name}") for name in FIELDS}


def read_normalisation(raw: object, *, where: str) -> Normalisation:
    """From JSON, as `dataclasses.asdict` gives it; raises InputError."""
    return from_json(Normalisation, raw, where=where)


def _summary(episodes: list[np.ndarray]) -> dict[str, tuple[float, ...]]:
    rows = sum(map(len, episodes))
    if not rows:
        raise InputError("normalisation", 0, "values in the train split")
    values = np.concatenate([episode[:: -(-rows // MAX_ROWS)] for episode in episodes]).astype(np.float64)
    if not np.isfinite(values).all():
        raise InputError("normalisation", "NaN or infinite", "finite values; see the report of --dry-run")
    low, high = np.quantile(values, [0.01, 0.99], axis=0)
    found = {"mean": values.mean(0), "std": values.std(0), "min": values.min(0), "max": values.max(0)}
    return {name: tuple(item.tolist()) for name, item in {**found, "q01": low, "q99": high}.items()}


def _between(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (low + high) / 2, (high - low) / 2


def _checked(limits: tuple[tuple[float, ...], tuple[float, ...]] | None, dim: int) -> tuple[np.ndarray, np.ndarray]:
    lower, upper = (np.array(side) for side in limits or ((), ()))
    if len(lower) != dim or len(upper) != dim or not (upper > lower).all():
        raise InputError("normalisation: joint_limits", limits, f"lower < upper in each of {dim} dimensions")
    return lower, upper
